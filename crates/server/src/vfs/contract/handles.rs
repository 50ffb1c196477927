//! Handles and volumes: closing, late errors, the context of calls, what is declared, and changes by others.

use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;

use super::{BOTH, Fixture, NO_LINKS, READ, lock, now, path, read, stat};
use crate::acl::model::posix_acl;
use crate::answer::block_on;
use crate::vfs::watch::{Listener, Noticed, Wanted};
use crate::vfs::{
    Access, AclKind, Cancellation, Case, Changes, Create, Enforcement, Errno, Identity, InitialAcl, Kind, Lookup,
    LookupOptions, NewFile, Op, RangeLock, RelPath, Removed, Replace, SERVER, SetMetadata, SetXattr, cancellable,
    read_into,
};

pub(super) const CHECKS: [fn(&Fixture); 14] = [
    handles_are_closed,
    late_errors_are_returned_once,
    a_lookup_may_open_for_reading,
    removal_tells_the_names_left,
    new_files_have_what_was_asked_for,
    initial_protection_is_all_or_reported,
    owners_change,
    changes_show_in_the_stamp,
    files_have_ids_of_their_own,
    cancelled_calls_change_nothing,
    a_time_limit_leaves_results_as_they_are,
    capabilities_are_true,
    absent_attributes_are_absent,
    others_changes_are_reported,
];

fn handles_are_closed(on: &Fixture) {
    let (node, id) = on.file("file", "content");
    let reader = now(on.found("file").1.open(&on.owner, READ));
    now(node.flush(&on.owner));
    now(node.close(&on.owner));
    assert_eq!(read(&reader, 0, 100), b"content", "another handle stays open");
    now(reader.close(&on.owner));
    let (directory, _) = on.directory("dir");
    now(directory.flush(&on.owner));
    now(directory.close(&on.owner));
    let named = on.found("file").1;
    assert_eq!(block_on(named.flush(&on.owner)), Ok(()), "a handle for attributes is flushed, too");
    now(named.close(&on.owner));
    let (removed, id) = (now(on.found("file").1.open(&on.owner, BOTH)), id);
    assert_eq!(on.unlink("file", id, Kind::File), Ok(()));
    on.write(&removed, 0, b"CONTENT");
    assert_eq!((read(&removed, 0, 100), stat(&removed).size), (b"CONTENT".to_vec(), 7));
    now(removed.close(&on.owner));
    on.missing("file");
}

fn late_errors_are_returned_once(on: &Fixture) {
    let Some(fail_late) = &on.fail_late else { return };
    let (node, _) = on.file("file", "");
    let write = |through| block_on(node.write(&on.owner, 0, Bytes::from_static(b"data").into(), through));
    fail_late(Errno::NOSPC);
    assert_eq!(write(false), Ok(()), "it is accepted");
    assert_eq!(block_on(node.flush(&on.owner)), Err(Errno::NOSPC));
    assert_eq!(block_on(node.flush(&on.owner)), Ok(()), "once");
    fail_late(Errno::IO);
    assert_eq!(write(false), Ok(()));
    let (other, _) = on.file("other", "");
    now(other.close(&on.owner));
    assert_eq!(block_on(node.close(&on.owner)), Err(Errno::IO));
}

fn a_lookup_may_open_for_reading(on: &Fixture) {
    let (secret, _) = on.file("file", "content");
    let mode = SetMetadata { mode: Some(0o600), ..SetMetadata::default() };
    now(secret.set_metadata(&on.owner, mode));
    let find = |op: &Op| {
        let options = LookupOptions { case: Case::Insensitive, links: NO_LINKS, access: READ };
        match now(on.vfs.lookup(op, &path("FILE"), options)) {
            Lookup::Found { path, node, metadata } => (path, node, metadata),
            _ => panic!("it exists"),
        }
    };
    let (found, node, metadata) = find(&on.owner);
    assert_eq!((found, metadata), (path("file"), stat(&secret)));
    assert_eq!(read(&now(node.open(&on.owner, READ)), 0, 100), b"content");
    if let Some(other) = &on.other {
        let (_, node, _) = find(other);
        assert_eq!(block_on(node.open(other, READ)).err(), Some(Errno::ACCES));
        assert!(block_on(read_into(&node, other, 0, vec![0; 1], 0)).1.is_err());
    }
}

fn removal_tells_the_names_left(on: &Fixture) {
    let (node, id) = on.file("file", "x");
    now(on.vfs.link(&on.owner, &node, &path("second"), Replace::Nothing));
    let unlink = |name: &str, id, kind| now(on.vfs.unlink(&on.owner, &path(name), id, kind));
    for (name, left) in [("file", 1), ("second", 0)] {
        let Removed { links } = unlink(name, id, Kind::File);
        assert!(links.is_none_or(|links| links == left), "{name}: {links:?}");
    }
    let (_, directory) = on.directory("dir");
    assert!(unlink("dir", directory, Kind::Directory).links.is_none_or(|links| links == 0));
    if on.symlink.is_some() {
        let link = now(on.vfs.create(&on.owner, &path("link"), NewFile::symlink(b"file", None))).metadata.id;
        assert!(unlink("link", link, Kind::Symlink).links.is_none_or(|links| links == 0));
    }
}

fn new_files_have_what_was_asked_for(on: &Fixture) {
    for (name, kind, directory) in [
        ("file", Create::File(BOTH), 0),
        ("closed", Create::File(Access::default()), 0),
        ("dir", Create::Directory, 0x10),
    ] {
        let new = NewFile { dos_attributes: Some(0x22 | directory), ..NewFile::new(kind.clone(), 0o617) };
        let created = now(on.vfs.create(&on.owner, &path(name), new));
        let metadata = created.metadata;
        assert_eq!((metadata.mode, metadata.uid), (0o617, on.owner.uid), "{name}");
        assert!(metadata.dos_attributes.is_none_or(|stored| stored == 0x22 | directory), "{name}");
        assert_eq!(on.found(name).2, metadata, "{name}");
        assert!(!created.protected, "{name}: no protection was given");
        let writes = block_on(created.node.write(&on.owner, 0, Bytes::from_static(b"x").into(), false));
        assert_eq!(writes.is_ok(), kind == Create::File(BOTH), "{name}");
    }
}

/// Protection with an attribute that holds a descriptor.
fn protection(owner: (u32, u32)) -> InitialAcl {
    let descriptor = ("security.frevo-test".to_owned(), b"descriptor".to_vec());
    InitialAcl { owner, mode: Some(0o640), lists: Vec::new(), descriptor }
}

fn initial_protection_is_all_or_reported(on: &Fixture) {
    let own = (on.owner.uid, on.owner.gid);
    for (name, owner) in [("own", own), ("of another", (own.0 + 1, own.1))] {
        let (kind, protection) = (Create::File(BOTH), protection(owner));
        let (attribute, value) = protection.descriptor.clone();
        let new = NewFile { protection: Some(protection), ..NewFile::new(kind, 0o600) };
        let created = now(on.vfs.create(&on.owner, &path(name), new));
        assert_eq!(stat(&created.node), created.metadata, "{name}: nothing changed after the metadata were read");
        if created.protected {
            assert_eq!(owner, own, "protection for another owner is not in place");
            assert_eq!(created.metadata.mode, 0o640);
            assert_eq!(now(created.node.get_xattr(&SERVER, &attribute)), Some(value));
        } else {
            assert_eq!(created.metadata.mode & 0o077, 0, "{name}: no user gets more than the mode permits");
        }
    }
}

fn owners_change(on: &Fixture) {
    let Some(other) = &on.other else { return };
    let (node, _) = on.file("file", "x");
    let give = SetMetadata { uid: Some(other.uid), gid: Some(other.gid), ..SetMetadata::default() };
    for op in [&on.owner, other] {
        assert_eq!(block_on(node.set_metadata(op, give)), Err(Errno::PERM));
    }
    now(node.set_metadata(&SERVER, give));
    assert_eq!((stat(&node).uid, stat(&node).gid), (other.uid, other.gid));
    assert_eq!(now(node.permissions(other)) & 6, 6, "the owner of a file of mode 755");
    assert_eq!(now(node.permissions(&on.owner)) & 6, 4);
}

/// Checks that `change` shows in the stamp of `node` if the granularity has passed.
#[track_caller]
fn stamps(on: &Fixture, node: &Arc<dyn crate::vfs::Node>, change: impl FnOnce()) {
    let before = stat(node).stamped;
    on.settle(node);
    assert_eq!(stat(node).stamped, before, "nothing has changed");
    change();
    assert!(stat(node).stamped > before, "the change has a later time");
}

fn changes_show_in_the_stamp(on: &Fixture) {
    let (node, _) = on.file("file", "x");
    stamps(on, &node, || on.write(&node, 0, b"y"));
    let mode = SetMetadata { mode: Some(0o600), ..SetMetadata::default() };
    stamps(on, &node, || now(node.set_metadata(&on.owner, mode)));
    stamps(on, &node, || now(node.set_xattr(&on.owner, "user.a", Some(b"1".to_vec()), SetXattr::Any)));
    let (directory, _) = on.directory("dir");
    stamps(on, &directory, || drop(on.file("dir/file", "")));
}

fn files_have_ids_of_their_own(on: &Fixture) {
    let ids = ["a", "b"].map(|name| on.file(name, "").1);
    let (_, directory) = on.directory("dir");
    assert!(ids[0] != ids[1] && !ids.contains(&directory));
    assert!(ids.iter().all(|id| id.stream == 0), "streams are numbered above the file system");
    assert_eq!(on.rename("a", ids[0], "dir/c", false), Ok(()));
    assert_eq!(on.found("dir/c").2.id, ids[0], "a file keeps its id");
    let listed = now(on.found("dir").1.entry(&on.owner, b"c", Case::Sensitive)).expect("it exists");
    assert_eq!(listed.metadata, Some(stat(&on.found("dir/c").1)), "an entry has all metadata");
}

fn cancelled_calls_change_nothing(on: &Fixture) {
    let (node, _) = on.file("file", "content");
    let cancellation = Arc::new(Cancellation::default());
    cancellation.cancel();
    let reads = read_into(&node, &on.owner, 0, b"keep.......".to_vec(), 4);
    let (buffer, done) = block_on(cancellable(cancellation.clone(), pin!(reads)));
    assert!(matches!(done, Ok(7) | Err(Errno::CANCELED)), "{done:?}");
    assert_eq!(buffer.get(..4), Some(&b"keep"[..]), "the buffer is returned");
    let found = block_on(cancellable(cancellation, pin!(node.metadata(&on.owner))));
    assert!(found.is_err_and(|error| error == Errno::CANCELED) || found.is_ok_and(|found| found.size == 7));
    assert_eq!(on.content("file"), "content");
}

fn a_time_limit_leaves_results_as_they_are(on: &Fixture) {
    let (_, id) = on.file("file", "content");
    let op = on.owner.clone().within(Some(Duration::from_secs(3_600)));
    let options = LookupOptions::exact(NO_LINKS);
    let Lookup::Found { node, metadata, .. } = now(on.vfs.lookup(&op, &path("file"), options)) else {
        panic!("it exists")
    };
    assert_eq!(metadata.id, id);
    assert_eq!(block_on(read_into(&now(node.open(&op, READ)), &op, 0, vec![0; 7], 0)), (b"content".to_vec(), Ok(7)));
}

fn capabilities_are_true(on: &Fixture) {
    let (declared, root) =
        (on.vfs.capabilities().clone(), Op::from(Identity { uid: 0, gid: 0, groups: Box::default() }));
    let (node, _) = on.file("file", "x");
    if !declared.leases {
        assert_eq!(block_on(node.lease(&SERVER, Arc::new(|| {}))).err(), Some(Errno::OPNOTSUPP));
    }
    if !declared.locks {
        let second = now(on.found("file").1.open(&on.owner, BOTH));
        for node in [&node, &second] {
            assert_eq!(lock(node, &on.owner, 0, 10, RangeLock::Exclusive), Ok(()), "locks are skipped");
        }
    }
    if declared.acls == AclKind::None {
        for name in [posix_acl::ACCESS, posix_acl::DEFAULT] {
            assert!(matches!(block_on(node.get_xattr(&on.owner, name)), Ok(None) | Err(Errno::OPNOTSUPP)));
        }
    }
    if let Changes::Timestamp { granularity, of_whole_seconds } = declared.changes {
        assert!(granularity > Duration::ZERO && of_whole_seconds >= granularity);
    }
    if let Changes::Own { .. } = declared.changes {
        assert!(on.others.is_none(), "nobody else changes the files");
    }
    if let Some(other) = &on.other {
        let mode = SetMetadata { mode: Some(0o600), ..SetMetadata::default() };
        now(node.set_metadata(&on.owner, mode));
        for name in [posix_acl::ACCESS, "security.NTACL"] {
            let read = block_on(node.get_xattr(other, name));
            assert!(matches!(read, Ok(None) | Err(Errno::OPNOTSUPP)), "every user may read {name}: {read:?}");
        }
        let superuser = declared.enforcement == Enforcement::ExceptRoot;
        assert_eq!(block_on(node.open(&root, READ)).is_ok(), superuser, "a user with uid 0");
        assert_eq!(now(node.permissions(&root)) & 6 == 6, superuser);
        assert!(block_on(node.open(&SERVER, READ)).is_ok(), "the server itself");
    }
    assert_eq!(*on.vfs.capabilities(), declared, "they are constant");
}

/// Passes the paths of names that appear on, and whether events were lost.
struct Added(Mutex<Sender<Option<RelPath>>>);

impl Listener for Added {
    fn noticed(&self, path: &RelPath, what: Noticed) {
        if let Noticed::Added(_) = what {
            // The check may have ended.
            let _ = self.0.lock().send(Some(path.clone()));
        }
    }

    fn lost(&self) {
        let _ = self.0.lock().send(None);
    }

    fn gone(&self) {}
}

fn absent_attributes_are_absent(on: &Fixture) {
    let wanted = on.vfs.capabilities().attributes.clone();
    let (node, _) = on.file("file", "x");
    let known = |name: &str| [stat(&node), on.found("file").2].iter().any(|found| wanted.has(name, found.absent));
    for name in wanted.iter() {
        let exists = |op: &Op| block_on(node.get_xattr(op, name)).is_ok_and(|value| value.is_some());
        assert!(!known(name) || !exists(&SERVER), "{name} of a new file");
        let value = Some(b"value".to_vec());
        // Some attributes accept certain values only, or only root's.
        if block_on(node.set_xattr(&SERVER, name, value, SetXattr::Any)).is_ok() {
            assert!(exists(&SERVER) && !known(name), "{name} was just set");
            now(node.set_xattr(&SERVER, name, None, SetXattr::Any));
        }
    }
    assert!(!wanted.has("user.none", stat(&node).absent), "nothing is known of other attributes");
}

fn others_changes_are_reported(on: &Fixture) {
    let (sender, added): (_, Receiver<Option<RelPath>>) = std::sync::mpsc::channel();
    let (directory, _) = on.directory("dir");
    let watching = match directory.watch(Wanted::default(), Arc::new(Added(Mutex::new(sender)))) {
        Err(error) => return assert_eq!(error, Errno::OPNOTSUPP),
        Ok(watching) => watching,
    };
    on.file("dir/own", "x");
    if let Some(others) = &on.others {
        let new = NewFile::new(Create::File(Access::default()), 0o644);
        drop(now(others.create(&on.owner, &path("dir/local"), new)));
        let reported = added.recv_timeout(Duration::from_secs(60)).expect("the change is reported");
        assert_eq!(reported, Some(path("local")), "changes through this file system are not reported");
    }
    drop(watching);
    assert_eq!(added.try_recv().ok(), None, "nothing else was reported");
}
