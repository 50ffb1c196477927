//! The contract, and tests specific to this file system.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::*;
use crate::answer::block_on;
use crate::testing::ManualClock;
use crate::vfs::contract::{self, Fixture};
use crate::vfs::faulty::yields;
use crate::vfs::{Access, Create, Metadata, SERVER, SetMetadata, WantedXattrs};

const BOTH: Access = Access { read: true, write: true };

fn user(uid: u32) -> Op {
    Op::from(Identity { uid, gid: uid, groups: Box::default() })
}

fn path(name: &str) -> RelPath {
    RelPath::root().join(name.as_bytes()).expect("a valid name")
}

/// A file system whose root belongs to user 1000 and whose calls return the second time that they are polled.
fn remote() -> Arc<Remote> {
    let attributes = WantedXattrs::new(["security.NTACL", "system.posix_acl_access"]);
    let options = memory::Options { uid: 1000, gid: 1000, attributes, ..memory::Options::default() };
    Arc::new(Remote::new(Arc::new(ManualClock::ticking()), options, Arc::new(|| yields(1))))
}

fn fixture() -> Fixture {
    let remote = remote();
    let (owner, storage, writer) = (user(1000), remote.storage(), Arc::clone(&remote));
    let symlink = {
        let owner = owner.clone();
        Box::new(move |path: &RelPath, target: &[u8]| {
            block_on(storage.create(&owner, path, NewFile::symlink(target, None))).expect("the name is not in use");
        })
    };
    let (other, symlink) = (Some(user(1001)), Some(symlink as contract::MakeLink));
    let fail_late = Some(Box::new(move |error| writer.fail_late(error)) as contract::FailLate);
    Fixture { vfs: remote, owner, other, symlink, create_locally: None, fail_late, keep: Box::new(()) }
}

fn file(remote: &Remote, name: &str) -> (Arc<dyn Node>, Metadata) {
    let new = NewFile::new(Create::File(BOTH), 0o600);
    block_on(remote.create(&user(1000), &path(name), new)).expect("the name is not in use").opened()
}

#[test]
fn it_fulfils_the_contract() {
    contract::check(&fixture);
}

#[test]
fn each_call_takes_its_time_and_is_counted() {
    #[derive(Default)]
    struct Slept(AtomicU64);

    impl Environment for Slept {
        fn now(&self) -> Time {
            Time { secs: 1_700_000_000, nanos: 999 }
        }

        fn uptime(&self) -> Duration {
            Duration::from_millis(self.0.load(Ordering::Relaxed))
        }

        fn sleep(&self, duration: Duration) -> Wait {
            self.0.fetch_add(duration.as_millis() as u64, Ordering::Relaxed);
            yields(1)
        }

        fn random(&self, _: &mut [u8]) {}
    }

    let environment: Arc<dyn Environment> = Arc::new(Slept::default());
    let options = memory::Options { uid: 1000, ..memory::Options::default() };
    let remote = Remote::new(environment.clone(), options, latency_of(environment.clone()));
    let (node, metadata) = file(&remote, "file");
    assert_eq!(metadata.modified.nanos, 0, "the clock is coarse");
    block_on(node.write(&user(1000), 0, Bytes::from_static(b"data").into(), false)).expect("it is open");
    block_on(node.close(&user(1000))).expect("no write failed");
    let calls = BTreeMap::from([(Operation::Create, 1), (Operation::Write, 1), (Operation::Close, 1)]);
    assert_eq!(remote.take_calls(), calls);
    assert_eq!(environment.uptime(), 3 * LATENCY);
    assert!(remote.take_calls().is_empty(), "counting starts again");
    assert!(matches!(node.flush(&SERVER), Answer::Later(_)), "the answer comes later");
    assert!(matches!(node.metadata(&SERVER), Answer::Now(_)), "the last reply had the attributes");
}

#[test]
fn an_error_can_be_late() {
    let remote = remote();
    let (node, _) = file(&remote, "file");
    let write = || block_on(node.write(&user(1000), 0, Bytes::from_static(b"data").into(), false));
    remote.fail_late(Errno::NOSPC);
    assert_eq!((write(), block_on(node.flush(&SERVER))), (Ok(()), Err(Errno::NOSPC)));
    assert_eq!(block_on(node.metadata(&SERVER)).map(|found| found.size), Ok(0), "it was not carried out");
    assert_eq!((write(), block_on(node.flush(&SERVER))), (Ok(()), Ok(())));
    remote.fail_late(Errno::IO);
    assert_eq!((write(), block_on(node.close(&SERVER))), (Ok(()), Err(Errno::IO)));
}

#[test]
fn only_the_server_itself_may_do_everything() {
    let remote = remote();
    let (node, _) = file(&remote, "file");
    assert_eq!(block_on(node.open(&user(0), BOTH)).err(), Some(Errno::ACCES));
    let set = SetMetadata { mode: Some(0o644), ..SetMetadata::default() };
    assert_eq!(block_on(node.set_metadata(&user(0), set)), Err(Errno::PERM));
    assert_eq!(block_on(node.permissions(&user(0))), Ok(0));
    assert_eq!(block_on(node.open(&SERVER, BOTH)).err(), None);
    assert_eq!(block_on(node.set_metadata(&SERVER, set)), Ok(()));
}
