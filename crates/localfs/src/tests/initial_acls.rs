//! Files that are created with their protection in place, and directories whose own permissions are watched.

use server::vfs::{Create, DirectoryVersion, InitialAcl, Metadata, Parent, SERVER};

use super::*;

/// A POSIX ACL: the owner may write; the group 61500 and all others may read.
const LIST: &[u8] = b"\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x04\0\x04\0\xff\xff\xff\xff\
    \x08\0\x04\0\x3c\xf0\0\0\x10\0\x04\0\xff\xff\xff\xff\x20\0\x04\0\xff\xff\xff\xff";

fn guard(owner: (u32, u32), mode: u32) -> InitialAcl {
    InitialAcl {
        owner,
        mode: Some(mode),
        lists: vec![("system.posix_acl_access", Some(LIST.to_vec()))],
        descriptor: ("security.frevo-test".to_owned(), b"descriptor".to_vec()),
    }
}

#[track_caller]
fn make(bed: &Bed, name: &str, guard: InitialAcl) -> (Arc<dyn Node>, Metadata, bool) {
    let what = Create::File(Access { read: false, write: true });
    let made = now(bed.fs.create(
        &bed.who,
        &path(name),
        NewFile { dos_attributes: Some(0x20), protection: Some(guard), ..NewFile::new(what, 0o600) },
    ));
    (made.node, made.metadata, made.protected)
}

#[test]
fn a_file_has_its_guard_from_the_start() {
    if cannot_switch() {
        return;
    }
    let bed = Bed::new();
    let own = (bed.who.uid, bed.who.gid);
    let (node, metadata, guarded) = make(&bed, "file", guard(own, 0o644));
    assert!(guarded);
    assert_eq!((metadata.mode, metadata.dos_attributes), (0o644, Some(0x20)));
    assert_eq!(now(node.metadata(&SERVER)), metadata, "nothing changed after the metadata were read");
    assert_eq!(now(node.get_xattr(&bed.who, "security.frevo-test")).as_deref(), Some(&b"descriptor"[..]));
    assert_eq!(now(node.get_xattr(&bed.who, "system.posix_acl_access")).as_deref(), Some(LIST));
    for (name, guard) in [
        ("of another", guard((own.0, own.1 + 1), 0o644)),
        ("of another mode", guard(own, 0o640)),
        (
            "too long",
            InitialAcl { descriptor: ("security.frevo-test".to_owned(), vec![0; 70_000]), ..guard(own, 0o644) },
        ),
    ] {
        let (_, _, guarded) = make(&bed, name, guard);
        assert!(!guarded, "{name}");
    }
}

/// Returns the directory "dir" as a look-up of a name in it reports it, by either path of the look-up.
#[track_caller]
fn watched(bed: &Bed) -> DirectoryVersion {
    for _ in 0..4 {
        if let Ok(Lookup::Missing { path: missing, parent: Parent { version: Some(parent), .. } }) =
            bed.lookup("dir/New")
        {
            assert_eq!(missing, path("dir/New"));
            return parent;
        }
    }
    panic!("the directory is not watched")
}

#[test]
fn misses_of_one_name_and_of_many_return_the_same_directory() {
    let bed = Bed::new();
    now(bed.fs.create(&bed.who, &path("dir"), NewFile::new(Create::Directory, 0o2755)));
    bed.create("dir/file");
    let mut seen = Vec::new();
    for _ in 0..6 {
        let Ok(Lookup::Missing { parent, .. }) = bed.lookup("dir/New") else { panic!("the lookup must miss") };
        seen.push(parent.version);
    }
    let (_, _, metadata) = bed.found("dir");
    assert!(seen.iter().all(|parent| *parent == seen[0]), "{seen:?}");
    let parent = seen[0].expect("the directory is watched");
    assert_eq!((parent.id, parent.mode, parent.gid), (metadata.id, metadata.mode, metadata.gid));
    for _ in 0..4 {
        bed.found("dir/file");
        assert_eq!(
            bed.lookup("dir/New")
                .map(|lookup| matches!(lookup, Lookup::Missing { parent: Parent { version: Some(_), .. }, .. })),
            Ok(true)
        );
    }
}

#[test]
fn a_directory_s_own_permissions_are_watched() {
    let bed = Bed::new();
    now(bed.fs.create(&bed.who, &path("dir"), NewFile::new(Create::Directory, 0o755)));
    let first = watched(&bed);
    assert_eq!((first.id, first.mode, first.gid), (bed.found("dir").2.id, 0o755, bed.who.gid));
    bed.create("dir/file");
    bed.local_write("dir/other", "x");
    process(|| fs::set_permissions(bed.root.join("dir/file"), fs::Permissions::from_mode(0o600))).unwrap();
    assert_eq!(watched(&bed), first, "changes of entries do not change the directory's guard");
    let directory = bed.root.join("dir");
    process(|| fs::set_permissions(&directory, fs::Permissions::from_mode(0o700))).unwrap();
    let second = watched(&bed);
    assert_eq!((second.mode, second.id), (0o700, first.id));
    assert_ne!(second.state, first.state);
    process(|| rustix::fs::setxattr(&directory, "user.x", b"x", rustix::fs::XattrFlags::empty())).unwrap();
    assert_ne!(watched(&bed).state, second.state);
    bed.local_write("dir/NEW", "x");
    assert!(matches!(bed.lookup("dir/New"), Ok(Lookup::Found { .. })), "the name exists in another case");
}
