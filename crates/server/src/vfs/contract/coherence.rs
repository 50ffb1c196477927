//! Changes by this client of the storage show at once, and those by others within the time that [`Changes`] states.
//!
//! [`Changes`]: crate::vfs::Changes

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::{BOTH, Fixture, NO_LINKS, READ, now, path, read, stat};
use crate::answer::block_on;
use crate::vfs::{
    Case, Create, DirectoryVersion, Errno, Kind, Lookup, LookupOptions, Metadata, NewFile, Node, Op, RenameRequest,
    SERVER, SetMetadata, SetXattr, Vfs,
};

pub(super) const CHECKS: [fn(&Fixture); 2] = [own_changes_show_at_once, changes_by_others_show_in_time];

/// What shows of the changes that `By` makes.
const ASPECTS: [fn(&Fixture, &By<'_>); 6] = [
    metadata_shows,
    attributes_show,
    content_shows,
    names_show_whatever_their_case,
    permissions_of_directories_show,
    versions_of_directories_show,
];

fn own_changes_show_at_once(on: &Fixture) {
    let by = By { on, vfs: &on.vfs, shown_within: Duration::ZERO };
    ASPECTS.iter().for_each(|aspect| aspect(on, &by));
}

fn changes_by_others_show_in_time(on: &Fixture) {
    let Some(shown_within) = on.vfs.capabilities().changes.shown_within() else { return };
    let Some(others) = &on.others else {
        return eprintln!("does not apply: no other program changes these files");
    };
    let by = By { on, vfs: others, shown_within };
    ASPECTS.iter().for_each(|aspect| aspect(on, &by));
}

/// The client of the storage that makes the changes.
struct By<'a> {
    on: &'a Fixture,
    /// The files as it sees them.
    vfs: &'a Arc<dyn Vfs>,
    /// The longest time until the file system that is checked shows its changes.
    shown_within: Duration,
}

impl By<'_> {
    /// Returns the file as this client finds it.
    #[track_caller]
    fn found(&self, text: &str) -> (Arc<dyn Node>, Metadata) {
        match now(self.vfs.lookup(&self.on.owner, &path(text), LookupOptions::exact(NO_LINKS))) {
            Lookup::Found { node, metadata, .. } => (node, metadata),
            _ => panic!("{text} is missing"),
        }
    }

    /// Waits until its changes show.
    fn shown(&self) {
        (self.on.let_pass)(self.shown_within);
    }

    #[track_caller]
    fn set(&self, text: &str, set: SetMetadata) {
        now(self.found(text).0.set_metadata(&self.on.owner, set));
        self.shown();
    }

    #[track_caller]
    fn chmod(&self, text: &str, mode: u32) {
        self.set(text, SetMetadata { mode: Some(mode), ..SetMetadata::default() });
    }

    #[track_caller]
    fn create(&self, text: &str, what: Create) {
        drop(now(self.vfs.create(&self.on.owner, &path(text), NewFile::new(what, 0o755))));
        self.shown();
    }

    #[track_caller]
    fn rename(&self, from: &str, to: &str) {
        let id = self.found(from).1.id;
        now(self.vfs.rename(&self.on.owner, RenameRequest::new(&path(from), id, &path(to))));
        self.shown();
    }

    #[track_caller]
    fn unlink(&self, text: &str) {
        let Metadata { id, kind, .. } = self.found(text).1;
        now(self.vfs.unlink(&self.on.owner, &path(text), id, kind));
        self.shown();
    }
}

fn metadata_shows(on: &Fixture, by: &By<'_>) {
    let (node, _) = on.file("metadata", "");
    let is = |expected: fn(&Metadata) -> bool, what: &str| {
        assert!(expected(&stat(&node)), "{what}, through an open handle");
        assert!(expected(&on.found("METADATA").2), "{what}, by a look-up");
    };
    is(|found| found.mode == 0o755 && found.dos_attributes.is_none(), "a new file");
    on.settle(&node);
    let before = stat(&node).stamped;
    by.chmod("metadata", 0o640);
    is(|found| found.mode == 0o640, "a mode");
    assert!(stat(&node).stamped > before, "the change has a later time");
    // Two changes in quick succession may have the same time.
    by.chmod("metadata", 0o604);
    is(|found| found.mode == 0o604, "another mode");
    by.set("metadata", SetMetadata { dos_attributes: Some(0x22), ..SetMetadata::default() });
    is(|found| found.dos_attributes == Some(0x22), "DOS attributes");
    by.set("metadata", SetMetadata { dos_attributes: Some(0x21), ..SetMetadata::default() });
    is(|found| found.dos_attributes == Some(0x21), "other DOS attributes");
}

fn attributes_show(on: &Fixture, by: &By<'_>) {
    let (node, _) = on.file("attributes", "");
    let wanted = on.vfs.capabilities().attributes.clone();
    let shows = |op: &Op, name: &str, value: Option<&[u8]>| {
        let (_, other, found) = on.found("attributes");
        for node in [&node, &other] {
            assert_eq!(block_on(node.get_xattr(op, name)).ok().flatten().as_deref(), value, "{name}");
            let listed = now(node.list_xattrs(op)).iter().any(|listed| listed == name);
            assert_eq!(listed, value.is_some(), "{name} in the list");
            assert!(value.is_none() || !wanted.has(name, stat(node).absent), "{name} is present");
        }
        assert!(value.is_none() || !wanted.has(name, found.absent), "{name} is present");
    };
    let of_server = wanted.iter().map(|name| (&*SERVER, name));
    for (op, name) in [(&on.owner, "user.own")].into_iter().chain(of_server) {
        shows(op, name, None);
        let set = |value: Option<&[u8]>| {
            let done = by.found("attributes").0.set_xattr(op, name, value.map(<[u8]>::to_vec), SetXattr::Any);
            block_on(done).map(|()| by.shown())
        };
        // Some attributes accept certain values only, or only root's.
        if set(Some(b"one")).is_err() && name != "user.own" {
            continue;
        }
        shows(op, name, Some(b"one"));
        // Two changes in quick succession may have the same time.
        assert_eq!(set(Some(b"two")), Ok(()));
        shows(op, name, Some(b"two"));
        assert_eq!(set(None), Ok(()));
        shows(op, name, None);
    }
}

fn content_shows(on: &Fixture, by: &By<'_>) {
    let (node, _) = on.file("content", "before");
    assert_eq!((on.content("content"), stat(&node).size), ("before".to_owned(), 6));
    let writer = now(by.found("content").0.open(&on.owner, BOTH));
    now(writer.write(&on.owner, 0, Bytes::from_static(b"afterwards").into(), false));
    now(writer.close(&on.owner));
    by.shown();
    assert_eq!((read(&node, 0, 20), stat(&node).size), (b"afterwards".to_vec(), 10));
    assert_eq!((on.content("content"), on.found("content").2.size), ("afterwards".to_owned(), 10));
}

fn names_show_whatever_their_case(on: &Fixture, by: &By<'_>) {
    let (directory, _) = on.directory("names");
    let listing = |expected: &[&str]| assert_eq!(on.names("names", 10), expected);
    let entry = |name: &str| now(directory.entry(&on.owner, name.as_bytes(), Case::Insensitive)).is_some();
    on.missing("names/FILE");
    listing(&[]);
    on.settle(&directory);
    let before = stat(&directory).stamped;
    by.create("names/file", Create::File(BOTH));
    assert!(stat(&directory).stamped > before, "a new name shows in the time of the directory");
    assert_eq!((on.found("names/FILE").0, entry("FILE")), (path("names/file"), true));
    listing(&["file"]);
    by.rename("names/file", "names/Other");
    assert_eq!((on.found("names/OTHER").0, entry("OTHER"), entry("FILE")), (path("names/Other"), true, false));
    on.missing("names/file");
    on.missing("names/FILE");
    listing(&["Other"]);
    by.rename("names/Other", "names/OTHER");
    assert_eq!(on.found("names/other").0, path("names/OTHER"));
    listing(&["OTHER"]);
    by.unlink("names/OTHER");
    on.missing("names/OTHER");
    on.missing("names/other");
    assert!(!entry("other"));
    listing(&[]);
    // The path of a file changes with the names above it.
    by.create("names/sub", Create::Directory);
    by.create("names/sub/inner", Create::File(BOTH));
    assert_eq!(on.found("NAMES/SUB/INNER").0, path("names/sub/inner"));
    by.rename("names/sub", "names/moved");
    assert!(matches!(on.lookup("names/sub/inner"), Ok(Lookup::NoParent)));
    assert_eq!(on.found("names/MOVED/INNER").0, path("names/moved/inner"));
    by.unlink("names/moved/inner");
    by.unlink("names/moved");
    assert!(matches!(on.lookup("names/moved/inner"), Ok(Lookup::NoParent)));
    assert_eq!(on.found("names").2.kind, Kind::Directory);
}

fn permissions_of_directories_show(on: &Fixture, by: &By<'_>) {
    let Some(other) = &on.other else {
        return eprintln!("does not apply: without root, every operation acts as the user of the process");
    };
    on.directory("permissions");
    on.file("permissions/file", "");
    let find = |name: &str| on.lookup_as(other, &format!("permissions/{name}"), Case::Insensitive, NO_LINKS);
    let Ok(Lookup::Found { node, .. }) = find("file") else { panic!("other users may search the directory") };
    drop(now(node.open(other, READ)));
    by.chmod("permissions", 0o700);
    for name in ["file", "FILE", "none"] {
        assert_eq!(find(name).err(), Some(Errno::ACCES), "{name}");
    }
    by.chmod("permissions", 0o755);
    assert!(matches!(find("FILE"), Ok(Lookup::Found { .. })));
    assert!(matches!(find("none"), Ok(Lookup::Missing { .. })));
    by.chmod("permissions/file", 0o600);
    assert_eq!(block_on(node.open(other, READ)).err(), Some(Errno::ACCES));
    assert_eq!(now(node.permissions(other)), 0);
}

fn versions_of_directories_show(on: &Fixture, by: &By<'_>) {
    on.directory("versions");
    let version = || -> Option<DirectoryVersion> {
        match now(on.vfs.lookup(
            &on.owner,
            &path("versions/none"),
            LookupOptions { case: Case::Insensitive, ..LookupOptions::exact(NO_LINKS) },
        )) {
            Lookup::Missing { parent, .. } => parent.version,
            _ => panic!("the name is not in use"),
        }
    };
    // The second look-up finds what the first one began to watch.
    version();
    let Some(first) = version() else { return };
    assert_eq!(version(), Some(first), "nothing has changed");
    by.create("versions/file", Create::File(BOTH));
    assert_eq!(version().map(|version| version.mode), Some(0o755));
    by.chmod("versions", 0o750);
    let second = version().expect("it is still watched");
    assert!(second.mode == 0o750 && second.state != first.state, "a new mode is a new version");
    // A version is about attributes that the file system knows; others need not be reported.
    let wanted = on.vfs.capabilities().attributes.clone();
    let Some(name) = wanted.iter().next() else { return };
    if block_on(by.found("versions").0.set_xattr(&SERVER, name, Some(b"1".to_vec()), SetXattr::Any)).is_err() {
        return eprintln!("does not apply: the process may not set {name}");
    }
    by.shown();
    assert_ne!(version().map(|version| version.state), Some(second.state), "an attribute is a new version");
}
