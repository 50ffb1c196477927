//! `user.DOSATTRIB` and the metadata derived from it.

use backing::metadata::is_birth;
use server::vfs::{Create, ListRequest, Metadata, Page, RenameRequest, Replace, SERVER, SetXattr, XattrSet};
use std::time::Duration;

use rustix::fs::XattrFlags;
use server::acl::ntacl;
use server::vfs::SetMetadata;
use server::vfs::xattr::{DOSATTRIB, DosAttributes};

use super::*;

fn set(dos_attributes: u32) -> SetMetadata {
    SetMetadata { dos_attributes: Some(dos_attributes), ..SetMetadata::default() }
}

impl Bed {
    fn stored(&self, name: &str) -> DosAttributes {
        let mut value = [0; 256];
        let length = process(|| rustix::fs::getxattr(self.root.join(name), DOSATTRIB, &mut value[..])).unwrap();
        DosAttributes::decode(&value[..length]).expect("written by the test")
    }

    /// Stores attributes as Samba would in the same directory.
    fn store(&self, name: &str, attributes: u32) {
        let value = DosAttributes { attributes: Some(attributes), ..DosAttributes::default() }.encode();
        process(|| rustix::fs::setxattr(self.root.join(name), DOSATTRIB, &value, XattrFlags::empty())).unwrap();
    }

    fn attributes(&self, name: &str) -> Option<u32> {
        self.found(name).2.dos_attributes
    }
}

#[test]
fn new_files_keep_their_attributes_and_creation_time() {
    let bed = Bed::new();
    for (name, what, stored) in [("file", Create::File(BOTH), 0x22), ("dir", Create::Directory, 0x32)] {
        // Mode 0: the attributes are stored although no user may write, which requires root.
        let mode = if cannot_switch() { 0o700 } else { 0 };
        let made =
            bed.fs.create(&bed.who, &path(name), NewFile { dos_attributes: Some(0x22), ..NewFile::new(what, mode) });
        let (node, metadata) = now(made).opened();
        assert_eq!(metadata.dos_attributes, Some(stored), "the DIRECTORY attribute is stored, as by Samba");
        assert_eq!(now(node.metadata(&SERVER)), metadata);
        assert_eq!(bed.found(name).2, metadata);
        let kept = bed.stored(name);
        assert_eq!((kept.attributes, kept.changed), (Some(stored), None));
        assert!(kept.created.is_some_and(|created| is_birth(created, metadata.created)), "{kept:?}");
        assert_eq!(metadata.born, Some(metadata.created));
        let times = [metadata.accessed, metadata.modified, metadata.changed];
        assert!(times.iter().all(|&time| time >= metadata.created), "{metadata:?}");
    }
}

#[test]
fn all_users_read_attributes_and_the_owner_sets_them() {
    let bed = Bed::new();
    let (node, _) = bed.create("file");
    let mode = SetMetadata { mode: Some(0o400), ..set(0x23) };
    now(node.set_metadata(&bed.who, mode));
    assert_eq!(bed.attributes("file"), Some(0x23));
    if cannot_switch() {
        return;
    }
    now(node.set_metadata(&bed.who, set(0x27)));
    assert_eq!(bed.attributes("file"), Some(0x27));
    let other = user(61_002);
    let Ok(Lookup::Found { metadata, node, .. }) = bed.lookup_as(&other, "file", FOLLOW) else { panic!("it exists") };
    assert_eq!(metadata.dos_attributes, Some(0x27));
    assert_eq!(block_on(node.set_metadata(&other, set(0))), Err(Errno::ACCES));
    let root = bed.found("").1;
    let Page { entries, .. } = now(root.list(&other, ListRequest { cursor: 0, count: 10, metadata: true }));
    assert_eq!(entries[0].metadata.and_then(|metadata| metadata.dos_attributes), Some(0x27));
    assert_eq!(bed.attributes("file"), Some(0x27));
}

#[test]
fn attributes_stored_by_other_programs_are_read() {
    let bed = Bed::new();
    bed.local_write("file", "x");
    assert_eq!(bed.attributes("file"), None);
    for attributes in 1..100 {
        bed.store("file", attributes);
        assert_eq!(bed.attributes("file"), Some(attributes));
    }
}

#[test]
fn attributes_are_read_once() {
    let bed = Bed::new();
    bed.local_write("file", "x");
    bed.store("file", 0x22);
    std::thread::sleep(Duration::from_millis(60));
    assert_eq!(bed.attributes("file"), Some(0x22));
    let root = bed.found("").1;
    let before = bed.fs.0.cache.reads();
    for _ in 0..10 {
        assert_eq!(bed.attributes("FILE"), Some(0x22));
        now(root.list(&bed.who, ListRequest { cursor: 0, count: 10, metadata: true }));
    }
    assert_eq!(bed.fs.0.cache.reads(), before);
    bed.store("file", 0x23);
    assert_eq!(bed.attributes("file"), Some(0x23));
}

/// Returns whether the file is known to have no descriptor.
fn lacks_descriptor(metadata: &Metadata) -> bool {
    metadata.absent == XattrSet::FIRST
}

/// Looks for the descriptor of a file.
fn look_for_descriptor(node: &Arc<dyn Node>) {
    let _ = now(node.get_xattr(&user(0), ntacl::ATTRIBUTE));
}

#[test]
fn a_file_is_known_to_have_no_descriptor_until_it_changes() {
    if cannot_switch() {
        return;
    }
    let bed = Bed::new();
    bed.local_write("file", "x");
    let settle = || std::thread::sleep(Duration::from_millis(60));
    settle();
    let set = |name: &str, value: Option<&[u8]>| {
        let (_, node, _) = bed.found("file");
        now(node.set_xattr(&user(0), name, value.map(<[u8]>::to_vec), SetXattr::Any));
    };
    let known = || lacks_descriptor(&bed.found("file").2);
    let look = || {
        look_for_descriptor(&bed.found("file").1);
    };
    assert!(!known(), "the descriptor was not looked up");
    look();
    assert!(known());
    // The list of names shows that an empty file is still empty after a change, even if the change may not be complete.
    set("user.a", Some(b"1"));
    assert!(known());
    set(ntacl::ATTRIBUTE, Some(b"1"));
    assert!(!known(), "the file has a descriptor");
    settle();
    assert!(!known() && !known());
    set(ntacl::ATTRIBUTE, None);
    set(DOSATTRIB, Some(&DosAttributes { attributes: Some(0x22), ..DosAttributes::default() }.encode()));
    settle();
    assert_eq!((bed.attributes("file"), known()), (Some(0x22), false), "the descriptor was not looked up since");
    look();
    assert!(known());
    set("user.a", None);
    assert_eq!((bed.attributes("file"), known()), (Some(0x22), false), "a file with attributes must be examined");
}

#[test]
fn after_two_empty_files_others_are_expected_to_be_empty() {
    if cannot_switch() {
        return;
    }
    let bed = Bed::new();
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    names.iter().for_each(|name| bed.local_write(name, "x"));
    let set = |name: &str, attribute: &str, value: Vec<u8>| {
        now(bed.found(name).1.set_xattr(&user(0), attribute, Some(value), SetXattr::Any));
    };
    set("d", ntacl::ATTRIBUTE, vec![1]);
    set("f", DOSATTRIB, DosAttributes { attributes: Some(0x22), ..DosAttributes::default() }.encode());
    // Each inode number may have belonged to a file of another test.
    names.iter().for_each(|name| bed.fs.0.cache.forget(bed.found(name).2.id));
    std::thread::sleep(Duration::from_millis(60));
    let look = |name: &str| {
        let (_, node, metadata) = bed.found(name);
        look_for_descriptor(&node);
        lacks_descriptor(&metadata)
    };
    assert_eq!((look("a"), look("b")), (false, false));
    assert!(lacks_descriptor(&bed.found("c").2));
    assert!(!lacks_descriptor(&bed.found("d").2), "the file has a descriptor");
    assert!(!look("e"), "the previous file was not empty");
    look("a");
    assert_eq!((lacks_descriptor(&bed.found("f").2), bed.attributes("f")), (false, Some(0x22)));
    assert!(!lacks_descriptor(&bed.found("g").2), "the previous file had attributes");
}

#[test]
fn a_listing_records_that_files_were_empty() {
    if cannot_switch() {
        return;
    }
    let bed = Bed::new();
    bed.local_write("file", "x");
    std::thread::sleep(Duration::from_millis(60));
    let (_, node, _) = bed.found("file");
    look_for_descriptor(&node);
    now(node.set_xattr(&user(0), "user.a", Some(b"1".to_vec()), SetXattr::Any));
    let (_, root, _) = bed.found("");
    let Page { entries, .. } = now(root.list(&bed.who, ListRequest { cursor: 0, count: 10, metadata: true }));
    assert!(
        entries.iter().all(|entry| entry.metadata.is_some_and(|metadata| !lacks_descriptor(&metadata))),
        "a name alone proves nothing"
    );
    now(node.set_xattr(&user(0), "user.a", None, SetXattr::Any));
    assert!(lacks_descriptor(&bed.found("file").2));
}

#[test]
fn a_change_time_that_a_client_set_hides_no_change() {
    let bed = Bed::new();
    let (node, _) = bed.create("file");
    let past = Some(server::vfs::Time { secs: 1_000, nanos: 0 });
    now(node.set_metadata(&bed.who, SetMetadata { changed: past, ..SetMetadata::default() }));
    let before = bed.found("file").2;
    std::thread::sleep(Duration::from_millis(60));
    process(|| fs::set_permissions(bed.root.join("file"), fs::Permissions::from_mode(0o600))).unwrap();
    let after = bed.found("file").2;
    assert_eq!((Some(before.changed), Some(after.changed)), (past, past));
    assert!(after.stamped > before.stamped, "{before:?} {after:?}");
}

#[test]
fn the_first_attributes_include_the_creation_time() {
    let bed = Bed::new();
    bed.local_write("file", "x");
    let (_, node, before) = bed.found("file");
    process(|| chown(bed.root.join("file"), Some(bed.who.uid), None)).unwrap();
    now(node.set_metadata(&bed.who, set(0x21)));
    let stored = bed.stored("file");
    assert_eq!(stored.attributes, Some(0x21));
    assert_eq!(
        stored.created.map(|time| (time.secs, time.nanos / 100)),
        Some((before.created.secs, before.created.nanos / 100))
    );
    let created = server::vfs::Time { secs: 5, nanos: 700 };
    now(node.set_metadata(&bed.who, SetMetadata { created: Some(created), ..SetMetadata::default() }));
    assert_eq!(bed.stored("file"), DosAttributes { attributes: Some(0x21), created: Some(created), changed: None });
}

#[test]
fn concurrent_changes_lose_nothing() {
    let bed = Bed::new();
    let (node, _) = bed.create("file");
    let time = |secs| server::vfs::Time { secs, nanos: 0 };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for bits in 0..2_000 {
                now(node.set_metadata(&bed.who, set(bits)));
                assert_eq!(bed.stored("file").attributes, Some(bits), "the other thread does not change them");
            }
        });
        for secs in 0..2_000 {
            now(node.set_metadata(&bed.who, SetMetadata { created: Some(time(secs)), ..SetMetadata::default() }));
            assert_eq!(bed.stored("file").created, Some(time(secs)), "the other thread does not change it");
        }
    });
}

#[test]
fn deleted_files_are_not_cached() {
    let bed = Bed::new();
    for name in ["deleted", "replaced", "renamed", "stays"] {
        bed.local_write(name, "x");
    }
    std::thread::sleep(Duration::from_millis(60));
    let path = |name: &str| RelPath::root().join(name.as_bytes()).expect("a valid name");
    let ids = ["deleted", "replaced", "renamed", "stays"].map(|name| bed.found(name).2.id);
    assert_eq!(ids.map(|id| bed.fs.0.cache.contains(id)), [true; 4]);
    now(bed.fs.unlink(&bed.who, &path("deleted"), ids[0], Kind::File));
    now(bed
        .fs
        .rename(&bed.who, RenameRequest::new(&path("renamed"), ids[2], &path("replaced")).replacing(Replace::Any)));
    assert_eq!(ids.map(|id| bed.fs.0.cache.contains(id)), [false, false, true, true]);
    let reads = bed.fs.0.cache.reads();
    assert_eq!(
        (bed.attributes("stays"), bed.fs.0.cache.reads()),
        (None, reads),
        "the attributes of this file are cached"
    );
}

#[test]
fn a_file_with_the_inode_number_of_a_deleted_one_has_another_id() {
    let bed = Bed::new();
    let mut seen = std::collections::HashMap::new();
    for _ in 0..10_000 {
        let (_, made) = bed.create("file");
        assert_eq!(bed.found("file").2.file_id(), made.file_id(), "the same as long as it exists");
        let former: Option<Metadata> = seen.insert(made.id.inode, made);
        if let Some(former) = former.filter(|former| former.born != made.born) {
            assert_ne!(former.file_id(), made.file_id());
            return;
        }
        now(bed.fs.unlink(&bed.who, &path("file"), made.id, Kind::File));
    }
    eprintln!("does not apply: no inode number was reused");
}
