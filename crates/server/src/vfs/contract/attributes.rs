//! Attributes, times and permissions of a file.

use bytes::Bytes;

use super::{Fixture, NO_LINKS, READ, now, path, stat, time};
use crate::answer::block_on;
use crate::vfs::{Case, Create, Errno, Kind, Lookup, NewFile, ReadRequest, Result, SERVER, SetMetadata, SetXattr};

pub(super) const CHECKS: [fn(&Fixture); 3] = [extended_attributes, metadata_is_set, permissions_hold];

fn extended_attributes(fixture: &Fixture) {
    let (node, _) = fixture.file("file", "");
    let who = &fixture.owner;
    assert_eq!(now(node.get_xattr(who, "user.a")), None);
    now(node.set_xattr(who, "user.a", Some(b"1".to_vec()), SetXattr::Any));
    now(node.set_xattr(who, "user.b", Some(Vec::new()), SetXattr::New));
    assert_eq!(block_on(node.set_xattr(who, "user.b", Some(b"late".to_vec()), SetXattr::New)), Err(Errno::EXIST));
    now(node.set_xattr(who, "user.a", Some(b"22".to_vec()), SetXattr::Any));
    assert_eq!(now(node.get_xattr(who, "user.a")), Some(b"22".to_vec()));
    assert_eq!(now(node.get_xattr(who, "user.b")), Some(Vec::new()));
    let users = || {
        let mut names = now(node.list_xattrs(who));
        names.retain(|name| name == "user.a" || name == "user.b");
        names.sort();
        names
    };
    assert_eq!(users(), ["user.a", "user.b"]);
    now(node.set_xattr(who, "user.a", None, SetXattr::Any));
    assert_eq!((users(), now(node.get_xattr(who, "user.a"))), (vec!["user.b".to_owned()], None));
    assert_eq!(block_on(node.set_xattr(who, "user.a", None, SetXattr::Any)), Err(Errno::NODATA));
    let (dir, _) = fixture.directory("dir");
    now(dir.set_xattr(who, "user.a", Some(b"d".to_vec()), SetXattr::Any));
    assert_eq!(now(dir.get_xattr(who, "user.a")), Some(b"d".to_vec()));
}

fn metadata_is_set(fixture: &Fixture) {
    let (node, _) = fixture.file("file", "x");
    let set = |set| now(node.set_metadata(&fixture.owner, set));
    set(SetMetadata { accessed: Some(time(1_000)), modified: Some(time(-5)), ..SetMetadata::default() });
    assert_eq!((stat(&node).accessed, stat(&node).modified), (time(1_000), time(-5)));
    set(SetMetadata { created: Some(time(77)), ..SetMetadata::default() });
    assert_eq!((stat(&node).created, stat(&node).modified), (time(77), time(-5)), "other metadata do not change");
    set(SetMetadata { dos_attributes: Some(0x23), ..SetMetadata::default() });
    assert_eq!((stat(&node).created, stat(&node).dos_attributes), (time(77), Some(0x23)), "both are stored together");
    set(SetMetadata { mode: Some(0o640), ..SetMetadata::default() });
    assert_eq!((stat(&node).mode, stat(&node).dos_attributes), (0o640, Some(0x23)));
    fixture.write(&node, 0, b"y");
    assert!(stat(&node).modified > time(-5), "writing sets the time of the last change");
    assert_eq!(fixture.found("file").2, stat(&node), "a lookup returns the same");
    let (dir, _) = fixture.directory("dir");
    now(dir.set_metadata(&fixture.owner, SetMetadata { modified: Some(time(9)), ..SetMetadata::default() }));
    assert_eq!(stat(&dir).modified, time(9));
    let space = now(node.space(&fixture.owner));
    assert!(space.block_size > 0 && space.available <= space.free && space.free <= space.blocks);
}

fn permissions_hold(fixture: &Fixture) {
    let (secret, _) = fixture.file("secret", "x");
    now(secret.set_metadata(&fixture.owner, SetMetadata { mode: Some(0o600), ..SetMetadata::default() }));
    assert_eq!(now(secret.permissions(&fixture.owner)) & 6, 6);
    let attributes_only = fixture.found("secret").1;
    assert!(
        block_on(attributes_only.read(&SERVER, ReadRequest::new(0, vec![0; 1]))).1.is_err(),
        "a handle for attributes reads nothing"
    );
    let reader = now(attributes_only.open(&fixture.owner, READ));
    assert!(block_on(reader.write(&fixture.owner, 0, Bytes::from_static(b"y").into(), false)).is_err());
    let Some(other) = &fixture.other else { return };
    let denied = |result: Result<()>| matches!(result, Err(Errno::ACCES | Errno::PERM));
    let found = fixture.lookup_as(other, "secret", Case::Insensitive, NO_LINKS);
    let Ok(Lookup::Found { node, .. }) = found else {
        panic!("every user who may search the directory may read attributes")
    };
    assert_eq!(now(node.permissions(other)), 0);
    assert_eq!(block_on(node.open(other, READ)).err(), Some(Errno::ACCES));
    let chmod = SetMetadata { mode: Some(0o666), ..SetMetadata::default() };
    assert!(denied(block_on(node.set_metadata(other, chmod))));
    assert!(denied(block_on(node.get_xattr(other, "user.a")).map(drop)));
    let (dir, id) = fixture.directory("dir");
    fixture.file("dir/file", "x");
    let new = fixture.vfs.create(other, &path("dir/new"), NewFile::new(Create::Directory, 0o755));
    assert!(denied(block_on(new).map(drop)), "names cannot be added to an unwritable directory");
    assert!(denied(block_on(fixture.vfs.unlink(other, &path("dir"), id, Kind::Directory)).map(drop)));
    now(dir.set_metadata(&fixture.owner, SetMetadata { mode: Some(0o700), ..SetMetadata::default() }));
    let closed = fixture.lookup_as(other, "dir/file", Case::Insensitive, NO_LINKS);
    assert_eq!(closed.err(), Some(Errno::ACCES), "a directory without search permission hides its entries");
}
