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
fn remote_on(clock: &ManualClock, coherence: Coherence) -> Arc<Remote> {
    let attributes = WantedXattrs::new(["security.NTACL", "system.posix_acl_access"]);
    let options = memory::Options { uid: 1000, gid: 1000, attributes, ..memory::Options::default() };
    Arc::new(Remote::with_coherence(Arc::new(clock.clone()), options, Arc::new(|| yields(1)), coherence))
}

fn remote() -> Arc<Remote> {
    remote_on(&ManualClock::new(), Coherence::default())
}

fn fixture(coherence: Coherence) -> Fixture {
    let clock = ManualClock::new();
    let remote = remote_on(&clock, coherence);
    let others = (coherence != Coherence::Own).then(|| remote.storage());
    let let_pass = Box::new(move |time| clock.advance(time));
    let (owner, storage, writer) = (user(1000), remote.storage(), Arc::clone(&remote));
    let symlink = {
        let owner = owner.clone();
        Box::new(move |path: &RelPath, target: &[u8]| {
            block_on(storage.create(&owner, path, NewFile::symlink(target, None))).expect("the name is not in use");
        })
    };
    let (other, symlink) = (Some(user(1001)), Some(symlink as contract::MakeLink));
    let fail_late = Some(Box::new(move |error| writer.fail_late(error)) as contract::FailLate);
    Fixture { vfs: remote, owner, other, symlink, others, let_pass, fail_late, keep: Box::new(()) }
}

fn file(remote: &Remote, name: &str) -> (Arc<dyn Node>, Metadata) {
    let new = NewFile::new(Create::File(BOTH), 0o600);
    block_on(remote.create(&user(1000), &path(name), new)).expect("the name is not in use").opened()
}

#[test]
fn it_fulfils_the_contract() {
    Coherence::ALL.iter().for_each(|&coherence| contract::check(&|| fixture(coherence)));
}

/// Returns the number of calls of the storage by which `node` returns its mode, and the mode.
fn mode(remote: &Remote, node: &Arc<dyn Node>) -> (usize, u32) {
    remote.take_calls();
    let mode = block_on(node.metadata(&SERVER)).expect("it exists").mode;
    (remote.take_calls().len(), mode)
}

#[test]
fn an_answer_is_valid_as_long_as_the_coherence_says() {
    const DAY: Duration = Duration::from_secs(86_400);
    for (coherence, until_shown, idle) in [
        (Coherence::Own, None, 0),
        (Coherence::Callback, Some(REPORT_DELAY), 0),
        (Coherence::Timestamp, Some(VALID), 1),
    ] {
        let clock = ManualClock::new();
        let remote = remote_on(&clock, coherence);
        let (node, _) = file(&remote, "file");
        assert_eq!(mode(&remote, &node), (0, 0o600), "{coherence:?}: the reply to the creation has it");
        clock.advance(DAY);
        assert_eq!(mode(&remote, &node), (idle, 0o600), "{coherence:?}: nothing has changed");
        let set = |node: &Arc<dyn Node>, mode| {
            let set = SetMetadata { mode: Some(mode), ..SetMetadata::default() };
            block_on(node.set_metadata(&user(1000), set)).expect("the owner may");
        };
        set(&node, 0o640);
        assert_eq!(mode(&remote, &node), (0, 0o640), "{coherence:?}: the reply to the own change has it");
        let Some(until_shown) = until_shown else { continue };
        set(&crate::testing::volume::node(&remote.storage(), "file"), 0o644);
        clock.advance(until_shown - Duration::from_millis(1));
        assert_eq!(mode(&remote, &node), (0, 0o640), "{coherence:?}: the other client's change is not known yet");
        clock.advance(Duration::from_millis(1));
        assert_eq!(mode(&remote, &node), (1, 0o644), "{coherence:?}: it is known");
    }
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
