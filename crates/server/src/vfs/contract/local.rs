//! Effects on local programs: leases and locked ranges.

use std::sync::Arc;

use super::{BOTH, Fixture, READ};
use crate::answer::block_on;
use crate::vfs::{Errno, Lease, Node, RangeChange, RangeLock, Result, SERVER};

pub(super) const CHECKS: [fn(&Fixture); 4] =
    [leases_tell_of_opens, leases_need_a_file_to_themselves, ranges_are_locked, ranges_are_locked_together];

/// Takes a lease. The receiver gets a message when the lease is notified of an open.
#[track_caller]
fn lease(node: &Arc<dyn Node>) -> Result<(Box<dyn Lease>, std::sync::mpsc::Receiver<()>)> {
    let (sender, told) = std::sync::mpsc::channel();
    let lease = block_on(node.lease(&SERVER, Arc::new(move || sender.send(()).unwrap_or_default())))?;
    Ok((lease, told))
}

fn leases_tell_of_opens(on: &Fixture) {
    let (node, _) = on.file("file", "content");
    let (held, told) = match lease(&node) {
        Err(Errno::OPNOTSUPP) => return eprintln!("does not apply: no leases on this file system"),
        taken => taken.expect("a lease"),
    };
    let (_, other, _) = on.found("file");
    assert!(told.try_recv().is_err(), "a lookup does not open the file");
    assert_eq!(block_on(other.open(&on.owner, READ)).err(), Some(Errno::AGAIN));
    told.recv_timeout(std::time::Duration::from_secs(60)).expect("the holder is notified");
    assert_eq!(block_on(other.open(&on.owner, READ)).err(), Some(Errno::AGAIN), "until the lease is released");
    drop(held);
    drop(block_on(other.open(&on.owner, BOTH)).expect("the lease was released"));
    // The next lease has no state of the last.
    let (held, told) = lease(&node).expect("another lease");
    assert!(told.try_recv().is_err());
    drop(node);
    drop(held);
    drop(block_on(other.open(&on.owner, READ)).expect("no client has it open"));
}

fn leases_need_a_file_to_themselves(on: &Fixture) {
    let (node, _) = on.file("file", "content");
    let (_, attributes, _) = on.found("file");
    let second = block_on(attributes.open(&on.owner, READ)).expect("opens");
    for busy in [&node, &second] {
        assert!(matches!(lease(busy).err(), Some(Errno::AGAIN | Errno::OPNOTSUPP)));
    }
    drop(node);
    assert!(!matches!(lease(&second).err(), Some(Errno::AGAIN)), "the last one");
    assert!(matches!(lease(&attributes).err(), Some(Errno::BADF | Errno::OPNOTSUPP)), "no data access");
}

fn ranges_are_locked(on: &Fixture) {
    use RangeLock::{Exclusive, Free, Shared};
    let (one, _) = on.file("file", "content");
    let (_, attributes, _) = on.found("file");
    let opened = |access| block_on(attributes.open(&on.owner, access)).expect("opens");
    let (two, reader) = (opened(BOTH), opened(READ));
    let lock = |node: &Arc<dyn Node>, offset, length, after| super::lock(node, &on.owner, offset, length, after);
    if !on.vfs.capabilities().locks {
        return eprintln!("does not apply: no locks on this file system");
    }
    assert_eq!(lock(&one, 0, 10, Exclusive), Ok(()));
    let (granted, refused) = (Ok(()), Err(Errno::AGAIN));
    assert_eq!(lock(&two, 9, 1, Shared), refused);
    assert_eq!(lock(&two, 10, 10, Exclusive), granted);
    // One part changes, the rest stays.
    assert_eq!(lock(&one, 2, 3, Free), granted);
    assert_eq!(lock(&one, 5, 2, Shared), granted);
    for (offset, length, kind, expected) in [
        (0, 2, Shared, refused),
        (2, 3, Exclusive, granted),
        (5, 2, Exclusive, refused),
        (5, 2, Shared, granted),
        (7, 3, Shared, refused),
    ] {
        assert_eq!(lock(&two, offset, length, kind), expected, "{kind:?} {length} bytes at {offset}");
    }
    assert_eq!(lock(&one, 5, 2, Exclusive), refused, "two reads it");
    // The last byte that can be locked, and locks that a handle may not take.
    assert_eq!(lock(&one, (1 << 63) - 1, 1, Exclusive), granted);
    assert_eq!(lock(&two, 100, (1 << 63) - 100, Shared), refused);
    assert_eq!(lock(&two, 100, (1 << 63) - 101, Shared), granted);
    assert_eq!(lock(&one, 100, 1, Shared), granted);
    assert_eq!(lock(&reader, 200, 1, Exclusive), granted, "a lock that the handle may not take is skipped");
    assert_eq!(lock(&one, 200, 1, Shared), granted);
    assert_eq!(lock(&reader, 200, 1, Shared), granted);
    // Closing a handle ends its locks.
    drop((one, reader));
    assert_eq!(lock(&two, 0, 1 << 63, Exclusive), granted);
}

fn ranges_are_locked_together(on: &Fixture) {
    use RangeLock::{Exclusive, Free, Shared};
    let (one, _) = on.file("file", "content");
    let (_, attributes, _) = on.found("file");
    let opened = |access| block_on(attributes.open(&on.owner, access)).expect("opens");
    let (two, reader) = (opened(BOTH), opened(READ));
    let change = |offset, before, after| RangeChange { offset, length: 10, before, after };
    let lock = |node: &Arc<dyn Node>, offset, after| super::lock(node, &on.owner, offset, 10, after);
    if !on.vfs.capabilities().locks {
        return eprintln!("does not apply: no locks on this file system");
    }
    assert_eq!(lock(&two, 40, Exclusive), Ok(()));
    for many in [false, true] {
        let change_all =
            |node: &Arc<dyn Node>, changes: &[RangeChange]| block_on(node.lock(&on.owner, changes.to_vec(), many));
        assert_eq!(change_all(&one, &[change(0, Free, Shared)]), Ok(()));
        let is_locked = |node: &Arc<dyn Node>, bytes: &[u64]| block_on(node.is_locked(&on.owner, bytes.to_vec()));
        assert_eq!((is_locked(&one, &[0, 9]), is_locked(&two, &[10, 9])), (Ok(false), Ok(true)), "shared, and own");
        assert_eq!((is_locked(&reader, &[10, 30]), is_locked(&reader, &[49])), (Ok(false), Ok(true)));
        assert_eq!(is_locked(&reader, &[(1 << 63) - 1]), Ok(false));
        assert_eq!(is_locked(&attributes, &[0]), Err(Errno::BADF));
        let changes = [change(0, Shared, Exclusive), change(20, Free, Exclusive), change(40, Free, Shared)];
        assert_eq!(change_all(&one, &changes), Err(Errno::AGAIN));
        assert_eq!((lock(&two, 0, Shared), lock(&two, 20, Exclusive)), (Ok(()), Ok(())), "as it was before");
        assert_eq!((lock(&two, 0, Free), lock(&two, 20, Free)), (Ok(()), Ok(())));
        assert_eq!(change_all(&one, &changes[..2]), Ok(()));
        assert_eq!((lock(&two, 0, Shared), lock(&two, 20, Shared)), (Err(Errno::AGAIN), Err(Errno::AGAIN)));
        assert_eq!(change_all(&one, &[change(0, Exclusive, Free), change(20, Exclusive, Free)]), Ok(()));
        // Locks that the handle may not take are skipped.
        assert_eq!(change_all(&reader, &[change(60, Free, Exclusive), change(80, Free, Shared)]), Ok(()));
        assert_eq!((lock(&two, 60, Exclusive), lock(&two, 80, Exclusive)), (Ok(()), Err(Errno::AGAIN)));
        assert_eq!(change_all(&reader, &[change(80, Shared, Free)]), Ok(()));
    }
}
