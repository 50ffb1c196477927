//! Names: look-ups, creating, renaming, removing, listing, links.

use super::{BOTH, Fixture, NO_LINKS, READ, is_empty, now, path, read, stat, time};
use crate::answer::block_on;
use crate::vfs::{
    Access, Case, Create, Errno, Kind, ListRequest, Lookup, LookupOptions, NewFile, Page, RelPath, Replace, SERVER,
    SetMetadata, SetXattr, SymlinkPolicy,
};

pub(super) const CHECKS: [fn(&Fixture); 20] = [
    lookup_finds_exact_names_first,
    lookup_tells_missing_from_no_parent,
    odd_names_are_kept_as_bytes,
    create_is_exclusive,
    rename_moves_and_replaces,
    rename_replaces_only_the_given_file,
    rename_changes_case,
    rename_keeps_directories_safe,
    unlink_removes_only_what_it_was_told,
    unlinked_files_live_while_open,
    hard_links_are_counted,
    listing_shows_everything_once,
    listing_survives_deletion,
    an_entry_is_what_a_lookup_finds,
    an_entry_takes_the_right_to_search,
    symbolic_links,
    links_are_opened_themselves,
    changes_of_a_link_leave_its_target,
    empty_files_become_links,
    a_directory_is_a_file_system,
];

fn lookup_finds_exact_names_first(fixture: &Fixture) {
    fixture.directory("Dir");
    let (_, lower) = fixture.file("Dir/file", "lower");
    let (found, _, metadata) = fixture.found("dIR/FILE");
    assert_eq!((found, metadata.id), (path("Dir/file"), lower), "a name that differs in case is found, as on disk");
    let (_, upper) = fixture.file("Dir/FILE", "upper");
    assert_eq!(fixture.found("dir/FILE").2.id, upper, "the exact name wins");
    assert_eq!(fixture.found("dir/file").2.id, lower, "the exact name wins");
    let sensitive = fixture.lookup_as(&fixture.owner, "Dir/File", Case::Sensitive, NO_LINKS);
    assert!(matches!(sensitive, Ok(Lookup::Missing { .. })), "case matters if requested");
    let sensitive = fixture.lookup_as(&fixture.owner, "dir/file", Case::Sensitive, NO_LINKS);
    assert!(matches!(sensitive, Ok(Lookup::NoParent)), "case matters if requested");
    assert_eq!(fixture.unlink("Dir/FILE", upper, Kind::File), Ok(()));
    assert_eq!(fixture.found("dir/FILE").2.id, lower, "a removed name is not found");
    assert_eq!(fixture.found("").2.kind, Kind::Directory, "the root is found");
}

fn lookup_tells_missing_from_no_parent(fixture: &Fixture) {
    fixture.directory("Dir");
    fixture.file("file", "");
    match fixture.lookup("dir/New") {
        Ok(Lookup::Missing { path: missing, .. }) => assert_eq!(missing, path("Dir/New")),
        _ => panic!("a missing name in a directory that exists"),
    }
    assert!(matches!(fixture.lookup("none/new"), Ok(Lookup::NoParent)), "no directory on the way");
    assert!(matches!(fixture.lookup("file/new"), Ok(Lookup::NoParent)), "a file on the way");
}

fn odd_names_are_kept_as_bytes(fixture: &Fixture) {
    for name in [&b"a:b"[..], b"trailing.", b" ", b"back\\slash", b"\xff\xfe", "ä\u{10428}".as_bytes(), &[b'x'; 255]] {
        let path = RelPath::root().join(name).expect("a valid Linux name");
        now(fixture.vfs.create(&fixture.owner, &path, NewFile::new(Create::File(BOTH), 0o644)));
        // As a client would send the name that it was shown.
        let shown = crate::name::from_wire(&crate::name::to_wire(name));
        let Some(shown) = RelPath::root().join(&shown) else { continue };
        match block_on(fixture.vfs.lookup(
            &fixture.owner,
            &shown,
            LookupOptions { case: Case::Insensitive, links: NO_LINKS, access: Access::default() },
        )) {
            Ok(Lookup::Found { path: found, .. }) => assert_eq!(found, path, "the name on disk"),
            _ => panic!("{path:?} is not found as {shown:?}"),
        }
    }
}

fn create_is_exclusive(fixture: &Fixture) {
    let (node, metadata) = fixture.create("file", Create::File(BOTH)).expect("a new file");
    assert_eq!((metadata.kind, metadata.size, metadata.allocated, metadata.links), (Kind::File, 0, 0, 1));
    assert_eq!(metadata.mode, 0o755, "the mode is applied as is");
    assert_eq!((metadata.uid, metadata.gid), (fixture.owner.uid, fixture.owner.gid));
    assert_eq!(metadata.id, stat(&node).id);
    assert_eq!(fixture.create("file", Create::File(BOTH)).err(), Some(Errno::EXIST));
    assert_eq!(fixture.create("file", Create::Directory).err(), Some(Errno::EXIST));
    let (_, metadata) = fixture.create("dir", Create::Directory).expect("a new directory");
    assert_eq!((metadata.kind, metadata.size), (Kind::Directory, 0));
    assert_eq!(fixture.create("dir", Create::Directory).err(), Some(Errno::EXIST));
    assert_eq!(fixture.create("none/file", Create::Directory).err(), Some(Errno::NOENT));
    let stored = block_on(fixture.vfs.create(
        &fixture.owner,
        &path("dos"),
        NewFile { dos_attributes: Some(0x22), ..NewFile::new(Create::File(BOTH), 0o644) },
    ));
    assert_eq!(stored.expect("a new file").metadata.dos_attributes, Some(0x22));
    assert_eq!(fixture.found("dos").2.dos_attributes, Some(0x22));
}

fn rename_moves_and_replaces(fixture: &Fixture) {
    fixture.directory("dir");
    let (_, a) = fixture.file("a", "a");
    let (_, b) = fixture.file("dir/b", "b");
    assert_eq!(fixture.rename("a", a, "dir/b", false), Err(Errno::EXIST));
    assert_eq!(fixture.rename("a", b, "c", false), Err(Errno::STALE), "another file has that name");
    assert_eq!(fixture.rename("none", a, "c", false), Err(Errno::NOENT));
    assert_eq!(fixture.rename("a", a, "none/c", false), Err(Errno::NOENT));
    assert_eq!(fixture.content("dir/b"), "b", "nothing has changed yet");
    assert_eq!(fixture.rename("a", a, "dir/b", true), Ok(()));
    fixture.missing("a");
    assert_eq!((fixture.found("dir/b").2.id, fixture.content("dir/b").as_str()), (a, "a"));
    assert_eq!(fixture.rename("dir/b", a, "c", false), Ok(()));
    assert_eq!(fixture.names("", 10), ["c", "dir"]);
}

fn rename_replaces_only_the_given_file(fixture: &Fixture) {
    let (_, moved) = fixture.file("moved", "moved");
    let (_, seen) = fixture.file("seen", "seen");
    let (_, other) = fixture.file("other", "other");
    let replace = |id, from: &str, to: &str, only| fixture.rename_replacing(from, id, to, Replace::File(only));
    assert_eq!(replace(moved, "moved", "other", seen), Err(Errno::EXIST), "another file has the name");
    assert_eq!((fixture.found("other").2.id, fixture.content("other").as_str()), (other, "other"));
    assert_eq!(fixture.content("moved"), "moved");
    assert_eq!(replace(moved, "moved", "free", seen), Ok(()), "the name is free");
    assert_eq!(replace(moved, "free", "seen", seen), Ok(()));
    assert_eq!((fixture.found("seen").2.id, fixture.content("seen").as_str()), (moved, "moved"));
    assert_eq!(replace(moved, "seen", "SEEN", moved), Ok(()), "the same name in another case");
    assert_eq!(fixture.found("seen").0, path("SEEN"));
}

fn rename_changes_case(fixture: &Fixture) {
    let (_, id) = fixture.file("name", "x");
    assert_eq!(fixture.rename("name", id, "NAME", false), Ok(()));
    assert_eq!(fixture.names("", 10), ["NAME"]);
    assert_eq!(fixture.found("name").0, path("NAME"));
    let (_, id) = fixture.directory("dir");
    assert_eq!(fixture.rename("dir", id, "Dir", false), Ok(()));
    assert_eq!(fixture.found("dir").0, path("Dir"));
}

fn rename_keeps_directories_safe(fixture: &Fixture) {
    let (_, a) = fixture.directory("a");
    fixture.directory("a/b");
    let (_, empty) = fixture.directory("empty");
    let (_, file) = fixture.file("file", "x");
    assert_eq!(fixture.rename("a", a, "a/b/c", false), Err(Errno::INVAL), "a directory cannot be moved into itself");
    for (from, id, to) in [("file", file, "empty"), ("a", a, "empty"), ("a", a, "file"), ("empty", empty, "a")] {
        assert!(fixture.rename(from, id, to, true).is_err(), "{from} must not replace {to}");
    }
    assert_eq!(fixture.rename("a", a, "empty/moved", false), Ok(()));
    assert_eq!(fixture.names("empty/moved", 10), ["b"]);
}

fn unlink_removes_only_what_it_was_told(fixture: &Fixture) {
    let (_, dir) = fixture.directory("dir");
    let (_, file) = fixture.file("dir/file", "x");
    let (_, other) = fixture.file("other", "x");
    assert_eq!(fixture.unlink("dir/file", other, Kind::File), Err(Errno::STALE));
    assert_eq!(fixture.unlink("none", file, Kind::File), Err(Errno::NOENT));
    assert_eq!(fixture.unlink("dir", dir, Kind::Directory), Err(Errno::NOTEMPTY));
    let node = fixture.found("dir").1;
    assert!(!is_empty(&node, &fixture.owner));
    assert_eq!(fixture.unlink("dir/file", file, Kind::File), Ok(()));
    fixture.missing("dir/file");
    assert!(is_empty(&node, &fixture.owner));
    assert_eq!(fixture.unlink("dir", dir, Kind::Directory), Ok(()));
    fixture.missing("dir");
    assert_eq!(fixture.names("", 10), ["other"]);
}

fn unlinked_files_live_while_open(fixture: &Fixture) {
    let (node, id) = fixture.file("file", "content");
    let (_, held, _) = fixture.found("file");
    now(held.set_xattr(&fixture.owner, "user.a", Some(b"1".to_vec()), SetXattr::Any));
    assert_eq!(fixture.unlink("file", id, Kind::File), Ok(()));
    for node in [&node, &held] {
        assert_eq!(now(node.get_xattr(&fixture.owner, "user.a")), Some(b"1".to_vec()));
        assert!(now(node.list_xattrs(&fixture.owner)).iter().any(|name| name == "user.a"));
    }
    assert_eq!((stat(&node).links, stat(&node).id), (0, id));
    assert_eq!(read(&node, 0, 20), b"content");
    fixture.write(&node, 7, b"!");
    assert_eq!(read(&node, 0, 20), b"content!");
    let (_, again) = fixture.file("file", "new");
    assert_ne!(again, id, "an identity is not given twice while the file exists");
}

fn hard_links_are_counted(fixture: &Fixture) {
    let link = |node, to: &str, replace| block_on(fixture.vfs.link(&fixture.owner, node, &path(to), replace));
    let (node, id) = fixture.file("a", "a");
    let (_, other) = fixture.file("other", "other");
    assert_eq!(link(&node, "b", Replace::Nothing), Ok(()));
    assert_eq!((fixture.found("b").2.id, stat(&node).links), (id, 2));
    assert_eq!(link(&node, "other", Replace::Nothing), Err(Errno::EXIST));
    let (_, seen) = fixture.file("seen", "seen");
    assert_eq!(link(&node, "other", Replace::File(seen)), Err(Errno::EXIST), "another file has the name");
    assert_eq!(fixture.found("other").2.id, other);
    assert_eq!(link(&node, "other", Replace::Any), Ok(()));
    assert_eq!((fixture.found("other").2.id, stat(&node).links), (id, 3));
    assert_eq!(fixture.unlink("a", id, Kind::File), Ok(()));
    assert_eq!((stat(&node).links, fixture.content("b").as_str()), (2, "a"));
    assert_eq!(fixture.rename("b", id, "b", true), Ok(()), "a name over itself");
    assert_eq!(fixture.rename("other", id, "b", true), Ok(()), "two names of one file become one");
    fixture.missing("other");
    assert_eq!((stat(&node).links, fixture.content("b").as_str()), (1, "a"));
    let (directory, _) = fixture.directory("dir");
    assert!(link(&directory, "dir2", Replace::Nothing).is_err(), "a directory has a single name");
}

fn listing_shows_everything_once(fixture: &Fixture) {
    let (_, id) = fixture.directory("dir");
    let mut expected: Vec<String> = (0..257).map(|number| format!("dir/entry {number}")).collect();
    for name in &expected {
        fixture.create(name, Create::File(Access::default())).expect("a new file");
    }
    expected.iter_mut().for_each(|name| *name = name["dir/".len()..].to_owned());
    expected.sort();
    for count in [1, 7, 1_000] {
        assert_eq!(fixture.names("dir", count), expected, "{count} at a time");
    }
    let root = now(fixture.found("").1.open(&fixture.owner, READ));
    let Page { entries, next: end, .. } =
        now(root.list(&fixture.owner, ListRequest { cursor: 0, count: 10, metadata: true }));
    let shown: Vec<_> = entries.iter().map(|entry| (&*entry.name, entry.metadata.map(|found| found.id))).collect();
    assert_eq!(shown, [(&b"dir"[..], Some(id))]);
    assert_eq!(now(root.list(&fixture.owner, ListRequest { cursor: end, count: 10, metadata: true })).entries, []);
    let (file, _) = fixture.file("file", "");
    assert_eq!(
        block_on(file.list(&fixture.owner, ListRequest { cursor: 0, count: 10, metadata: false })).err(),
        Some(Errno::NOTDIR)
    );
}

fn listing_survives_deletion(fixture: &Fixture) {
    fixture.directory("dir");
    let ids: Vec<_> = (0..100).map(|number| fixture.file(&format!("dir/{number}"), "").1).collect();
    let dir = now(fixture.found("dir").1.open(&fixture.owner, READ));
    let (mut listed, mut cursor) = (Vec::new(), 0);
    loop {
        let Page { entries, next, .. } =
            now(dir.list(&fixture.owner, ListRequest { cursor, count: 9, metadata: true }));
        if entries.is_empty() {
            break;
        }
        // Like a client that removes a tree: listed entries are deleted before the next part is requested.
        for entry in entries {
            let name = String::from_utf8(entry.name.into_vec()).expect("names created by this test");
            let id = ids[name.parse::<usize>().expect("names created by this test")];
            assert_eq!(fixture.unlink(&format!("dir/{name}"), id, Kind::File), Ok(()));
            listed.push(name);
        }
        cursor = next;
    }
    assert_eq!(listed.len(), 100, "each entry was listed once");
    assert!(is_empty(&dir, &fixture.owner));
    fixture.file("dir/late", "");
    let Page { entries, .. } = now(dir.list(&fixture.owner, ListRequest { cursor: 0, count: 10, metadata: false }));
    assert_eq!(entries.len(), 1, "a listing from the start shows the current entries");
}

fn an_entry_is_what_a_lookup_finds(fixture: &Fixture) {
    let (_, dir) = fixture.directory("dir");
    let (_, lower) = fixture.file("dir/file", "lower");
    let node = fixture.found("dir").1;
    let entry = |name: &str, case| {
        let found = now(node.entry(&fixture.owner, name.as_bytes(), case));
        found.map(|entry| (String::from_utf8_lossy(&entry.name).into_owned(), entry.metadata.map(|found| found.id)))
    };
    let is = |name: &str, id| Some((name.to_owned(), Some(id)));
    for _ in 0..2 {
        assert_eq!(entry("file", Case::Insensitive), is("file", lower));
        assert_eq!(entry("FILE", Case::Insensitive), is("file", lower), "the name as it is on disk");
        assert_eq!(entry("FILE", Case::Sensitive), None);
        assert_eq!(entry("none", Case::Insensitive), None);
        assert_eq!(entry(&"x".repeat(300), Case::Insensitive), None, "longer than any name");
        assert_eq!(entry(&"x".repeat(300), Case::Sensitive), None, "longer than any name");
    }
    let (_, upper) = fixture.file("dir/FILE", "upper");
    assert_eq!(entry("FILE", Case::Insensitive), is("FILE", upper), "the exact name wins");
    assert_eq!(entry("file", Case::Insensitive), is("file", lower), "the exact name wins");
    assert_eq!(entry("FILE", Case::Sensitive), is("FILE", upper));
    assert_eq!(fixture.unlink("dir/FILE", upper, Kind::File), Ok(()));
    assert_eq!(entry("FILE", Case::Insensitive), is("file", lower), "a removed name is not found");
    let root = fixture.found("").1;
    let found = now(root.entry(&fixture.owner, b"DIR", Case::Insensitive)).and_then(|entry| entry.metadata);
    assert_eq!(found.map(|found| (found.kind, found.id)), Some((Kind::Directory, dir)), "in the root as well");
    let (file, _) = fixture.file("plain", "");
    assert_eq!(block_on(file.entry(&fixture.owner, b"x", Case::Sensitive)).err(), Some(Errno::NOTDIR));
    let Some(symlink) = &fixture.symlink else { return };
    symlink(&path("dir/link"), b"file");
    let link = now(node.entry(&fixture.owner, b"LINK", Case::Insensitive)).and_then(|entry| entry.metadata);
    assert_eq!(link.map(|link| link.kind), Some(Kind::Symlink), "a link is shown itself");
}

fn an_entry_takes_the_right_to_search(fixture: &Fixture) {
    let Some(other) = &fixture.other else { return };
    let (made, _) = fixture.directory("dir");
    fixture.file("dir/Name", "");
    let node = fixture.found("dir").1;
    for name in ["Name", "name", "none"] {
        // Read permission alone must not let an existing entry, in any case, differ from one that does not exist.
        now(made.set_metadata(&fixture.owner, SetMetadata { mode: Some(0o744), ..SetMetadata::default() }));
        assert_eq!(now(node.entry(other, name.as_bytes(), Case::Insensitive)), None, "{name}");
        now(made.set_metadata(&fixture.owner, SetMetadata { mode: Some(0o755), ..SetMetadata::default() }));
        assert_eq!(now(node.entry(other, name.as_bytes(), Case::Insensitive)).is_some(), name != "none", "{name}");
    }
}

fn symbolic_links(fixture: &Fixture) {
    let Some(symlink) = &fixture.symlink else { return };
    fixture.directory("dir");
    let (_, id) = fixture.file("dir/file", "x");
    let links = [("in", "dir/file"), ("todir", "./dir"), ("out", "../../etc"), ("absolute", "/etc"), ("loop", "loop")];
    for (name, target) in links {
        symlink(&path(name), target.as_bytes());
    }
    let find = |text: &str, follow| {
        let links = SymlinkPolicy { follow, ..SymlinkPolicy::NONE };
        match fixture.lookup_as(&fixture.owner, text, Case::Insensitive, links) {
            Ok(Lookup::Found { metadata, .. }) => Ok(metadata),
            Ok(_) => panic!("{text} is missing"),
            Err(error) => Err(error),
        }
    };
    assert_eq!(find("IN", true).map(|found| found.id), Ok(id));
    assert_eq!(find("todir/file", true).map(|found| found.id), Ok(id));
    assert_eq!(find("in", false).map(|found| found.kind), Ok(Kind::Symlink));
    assert_eq!(find("todir/file", false), Err(Errno::LOOP));
    for name in ["out", "absolute", "loop"] {
        assert_eq!(find(name, true).map(|found| found.kind), Ok(Kind::Symlink), "{name}");
        assert_eq!(find(&format!("{name}/passwd"), true), Err(Errno::LOOP), "{name}");
    }
    let make = |target| block_on(fixture.vfs.create(&fixture.owner, &path("made"), NewFile::symlink(target, None)));
    let made = make(b"dir/file").expect("the name is free");
    assert_eq!((made.metadata.kind, now(made.node.read_link(&SERVER))), (Kind::Symlink, b"dir/file".to_vec()));
    assert_eq!(make(b"dir").err(), Some(Errno::EXIST));
    assert_eq!(find("made", true).map(|found| found.id), Ok(id));
    for (name, expected) in [("made", Ok(b"dir/file".to_vec())), ("dir/file", Err(Errno::INVAL))] {
        let found = fixture.lookup_as(&fixture.owner, name, Case::Sensitive, NO_LINKS);
        let Ok(Lookup::Found { node, .. }) = found else { panic!("{name} is missing") };
        assert_eq!(block_on(node.read_link(&SERVER)), expected, "{name}");
    }
    let link = find("in", false).expect("found above").id;
    assert_eq!(fixture.unlink("in", link, Kind::Symlink), Ok(()));
    assert_eq!(fixture.content("dir/file"), "x", "removing a link leaves its target");
}

fn links_are_opened_themselves(fixture: &Fixture) {
    let Some(symlink) = &fixture.symlink else { return };
    fixture.directory("dir");
    let (_, id) = fixture.file("dir/file", "x");
    for (name, target) in [("file", "dir/file"), ("folder", "dir"), ("missing", "none"), ("dir/up", "../dir/file")] {
        symlink(&path(name), target.as_bytes());
    }
    let find = |text: &str, links| match fixture.lookup_as(&fixture.owner, text, Case::Insensitive, links) {
        Ok(Lookup::Found { node, metadata, .. }) => (node, metadata),
        _ => panic!("{text} is not found"),
    };
    for name in ["file", "folder", "missing", "folder/up", "FILE"] {
        let (node, metadata) = find(name, SymlinkPolicy::BENEATH.to_last());
        assert_eq!(metadata.kind, Kind::Symlink, "{name}");
        assert!(now(node.read_link(&SERVER)).len() > 2, "{name}");
    }
    for (name, expected) in
        [("file", "dir/file"), ("folder/up", "dir/file"), ("folder", "dir"), ("dir/file", "dir/file")]
    {
        let (node, _) = find(name, SymlinkPolicy::BENEATH);
        assert_eq!(now(node.location(&SERVER)), expected.as_bytes(), "{name}");
    }
    let (node, _) = find("folder/up", SymlinkPolicy::BENEATH.to_last());
    assert_eq!(now(node.location(&SERVER)), b"dir/up", "a link has its own directory");
    let (node, _) = find("folder/file", SymlinkPolicy::BENEATH.to_last());
    assert_eq!(fixture.unlink("dir/file", id, Kind::File), Ok(()));
    assert_eq!(block_on(node.location(&SERVER)).err(), Some(Errno::NOENT), "the file no longer has a name");
}

fn changes_of_a_link_leave_its_target(fixture: &Fixture) {
    if fixture.symlink.is_none() {
        return;
    }
    let symlink =
        |at: &str, target: &[u8]| now(fixture.vfs.create(&fixture.owner, &path(at), NewFile::symlink(target, None)));
    fixture.directory("dir");
    let (file, _) = fixture.file("dir/file", "x");
    let before = stat(&file);
    for target in ["dir/file", "dir", "none"] {
        symlink("link", target.as_bytes());
        let (_, node, metadata) = fixture.found("link");
        let set = SetMetadata { accessed: Some(time(7)), modified: Some(time(8)), ..SetMetadata::default() };
        now(node.set_metadata(&fixture.owner, set));
        assert_eq!((stat(&node).accessed, stat(&node).modified), (time(7), time(8)), "{target}");
        let (mode, dos_attributes) = (Some(0o600), Some(2));
        let none = SetMetadata::default();
        for set in [SetMetadata { mode, ..none }, SetMetadata { dos_attributes, ..none }] {
            assert_eq!(block_on(node.set_metadata(&fixture.owner, set)), Err(Errno::OPNOTSUPP), "{target}");
        }
        assert_eq!(block_on(node.open(&fixture.owner, READ)).err(), Some(Errno::LOOP), "{target}");
        assert!(
            block_on(node.set_xattr(&fixture.owner, "user.a", Some(b"1".to_vec()), SetXattr::Any)).is_err(),
            "{target}"
        );
        assert_eq!(
            block_on(fixture.vfs.link(&fixture.owner, &node, &path("second"), Replace::Nothing)),
            Ok(()),
            "{target}"
        );
        assert_eq!(fixture.rename("link", metadata.id, "dir/moved", false), Ok(()), "{target}");
        for name in ["second", "dir/moved"] {
            let (_, link, found) = fixture.found(name);
            assert_eq!((found.kind, found.id), (Kind::Symlink, metadata.id), "{name} to {target}");
            assert_eq!(now(link.read_link(&SERVER)), target.as_bytes(), "{name}");
            assert_eq!(fixture.unlink(name, metadata.id, Kind::Symlink), Ok(()), "{name} to {target}");
        }
        assert_eq!(fixture.names("dir", 10), ["file"], "{target}");
    }
    let after = stat(&file);
    assert_eq!((after.accessed, after.modified, after.mode), (before.accessed, before.modified, before.mode));
    // A user who followed it to a directory can also remove it.
    symlink("folder", b"dir");
    let directory = fixture.found("dir").2.id;
    assert_eq!(fixture.unlink("folder", directory, Kind::Directory), Ok(()));
    // A link that replaced its own target would lead nowhere.
    symlink("link", b"dir/file");
    assert_eq!(fixture.rename("link", after.id, "dir/file", true), Err(Errno::EXIST));
    assert_eq!(fixture.content("dir/file"), "x");
}

fn empty_files_become_links(fixture: &Fixture) {
    if fixture.symlink.is_none() {
        return;
    }
    let turn = |text: &str, id| {
        let made = fixture.vfs.create(&fixture.owner, &path(text), NewFile::symlink(b"target", Some(id)));
        block_on(made).map(|made| assert_eq!(made.metadata.kind, Kind::Symlink))
    };
    let (_, file) = fixture.file("file", "");
    let (_, other) = fixture.file("other", "content");
    let (_, directory) = fixture.directory("dir");
    let (_, full) = fixture.directory("full");
    fixture.file("full/file", "x");
    assert_eq!(turn("file", other), Err(Errno::STALE));
    assert_eq!(turn("other", other), Err(Errno::NOTEMPTY));
    assert_eq!(turn("full", full), Err(Errno::NOTEMPTY));
    assert!(turn("none", file).is_err());
    assert_eq!(fixture.names("", 10), ["dir", "file", "full", "other"], "nothing remains");
    assert_eq!((fixture.content("other").as_str(), fixture.content("full/file").as_str()), ("content", "x"));
    for (name, id) in [("file", file), ("dir", directory)] {
        assert_eq!(turn(name, id), Ok(()), "{name}");
        let (_, node, metadata) = fixture.found(name);
        assert_eq!((metadata.kind, now(node.read_link(&SERVER))), (Kind::Symlink, b"target".to_vec()), "{name}");
    }
    assert_eq!(fixture.names("", 10), ["dir", "file", "full", "other"], "nothing remains");
}

fn a_directory_is_a_file_system(fixture: &Fixture) {
    fixture.directory("outer");
    fixture.directory("outer/inner");
    let (_, file) = fixture.file("outer/inner/File", "x");
    fixture.file("outer/secret", "secret");
    let view = |text: &str| block_on(fixture.vfs.beneath(&fixture.owner, &path(text)));
    let inner = view("outer/inner").unwrap_or_else(|error| panic!("{error:?}"));
    let find = |text: &str| {
        block_on(inner.lookup(
            &fixture.owner,
            &path(text),
            LookupOptions { case: Case::Insensitive, links: SymlinkPolicy::BENEATH, access: Access::default() },
        ))
    };
    let Ok(Lookup::Found { path: found, metadata, node }) = find("file") else { panic!("it exists") };
    assert_eq!((found, metadata.id, now(node.location(&SERVER))), (path("File"), file, b"File".to_vec()));
    assert_eq!(read(&now(node.open(&fixture.owner, READ)), 0, 10), b"x");
    assert!(matches!(find("none"), Ok(Lookup::Missing { .. })));
    assert!(matches!(find("outer/inner"), Ok(Lookup::NoParent)));
    assert_eq!(view("outer/secret").err(), Some(Errno::NOTDIR));
    assert_eq!(view("outer/none").err(), Some(Errno::NOENT));
    let Some(symlink) = &fixture.symlink else { return };
    symlink(&path("outer/inner/up"), b"../secret");
    symlink(&path("outer/inner/across"), b"../inner/File");
    symlink(&path("outer/inner/beside"), b"File");
    symlink(&path("link"), b"outer/inner");
    for (name, kind) in [("up", Kind::Symlink), ("across", Kind::Symlink), ("beside", Kind::File)] {
        let Ok(Lookup::Found { metadata, .. }) = find(name) else { panic!("{name}") };
        assert_eq!(metadata.kind, kind, "{name}");
    }
    assert_eq!(view("link").err(), Some(Errno::LOOP), "no link leads to it");
}
