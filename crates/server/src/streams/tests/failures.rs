//! Calls of the file system that fail.

use super::*;
use crate::vfs::faulty::{Fault, Operation, Script};

/// Applies `change` to the stream `s`, on a file system that fails as `script` decides. Returns whether it succeeded.
fn changed(
    fixture: &Fixture,
    script: impl Script + 'static,
    change: impl Fn(&Stream, &Arc<dyn Node>, &Fixture) -> Result<(), Errno>,
) -> bool {
    let environment: Arc<dyn Environment> = Arc::new(ManualClock::ticking());
    let faulty: Arc<dyn Vfs> = Arc::new(Faulty::new(fixture.vfs.clone(), Arc::new(script)));
    let links = SymlinkPolicy::NONE;
    let path = RelPath::root().join(b"f").unwrap();
    let Ok(Lookup::Found { node, .. }) = block_on(faulty.lookup(&fixture.op, &path, LookupOptions::exact(links)))
    else {
        return false;
    };
    let store = Arc::new(Store::new(&faulty, RelPath::root(), environment));
    let stream = stream(FileId { stream: 1, ..fixture.metadata.id }, "s", &store, &fixture.open);
    block_on(stream.exists(&node, &fixture.op)).and_then(|_| change(&stream, &node, fixture)).is_ok()
}

/// Applies `change` to the stream `s` with the content `kept`, on a file system whose call number `at` fails. Returns
/// whether it succeeded, and the content of the stream afterwards.
fn failing(
    at: u64,
    errno: Errno,
    change: impl Fn(&Stream, &Arc<dyn Node>, &Fixture) -> Result<(), Errno>,
) -> (bool, Vec<u8>) {
    let fixture = Fixture::new(16 << 20);
    fixture.write(&fixture.opened(), 0, b"kept").unwrap();
    let done = changed(&fixture, FailAt(vec![(at, errno)]), change);
    // A later open, on a file system that does not fail.
    let again = fixture.stream(fixture.metadata.id, "s");
    assert!(block_on(again.exists(&fixture.file, &fixture.op)).unwrap(), "the stream is lost, call {at}");
    (done, fixture.content(&fixture.file, &again))
}

#[test]
fn after_any_failure_the_content_is_the_old_or_the_new() {
    let large = large();
    let grown = [b"kept".to_vec(), large.clone()].concat();
    for errno in [Errno::NOSPC, Errno::IO, Errno::DQUOT] {
        for at in 0..40 {
            let grow = |stream: &Stream, node: &Arc<dyn Node>, fixture: &Fixture| {
                block_on(stream.write(node, &fixture.op, 4, Bytes::copy_from_slice(&large).into(), false))
            };
            let (done, content) = failing(at, errno, grow);
            assert!(
                if done { content == grown } else { content == b"kept" },
                "call {at} of growing fails with {errno}"
            );
            let empty = |stream: &Stream, node: &Arc<dyn Node>, fixture: &Fixture| {
                grow(stream, node, fixture)?;
                block_on(stream.set_size(node, &fixture.op, 0))
            };
            let (done, content) = failing(at, errno, empty);
            let known = content.is_empty() || !done && (content == b"kept" || content == grown);
            assert!(known, "call {at} of emptying fails with {errno}");
        }
    }
}

/// Storage on another machine may carry out a call after it has failed.
#[test]
fn a_file_of_the_store_stays_if_an_attribute_may_name_it() {
    let grow = |stream: &Stream, node: &Arc<dyn Node>, fixture: &Fixture| {
        block_on(stream.write(node, &fixture.op, 4, large().into(), false))
    };
    let fails = |errno| {
        let fixture = Fixture::new(16 << 20);
        fixture.write(&fixture.opened(), 0, b"kept").unwrap();
        // The calls up to the one that names the file.
        let at = (0..40).find(|&at| {
            let probe = Fixture::new(16 << 20);
            probe.write(&probe.opened(), 0, b"kept").unwrap();
            !changed(&probe, FailAt(vec![(at, Errno::TIMEDOUT)]), grow) && probe.stored() == 1
        });
        assert!(!changed(&fixture, FailAt(vec![(at.expect("a call names it"), errno)]), grow));
        fixture
    };
    assert_eq!(fails(Errno::ACCES).stored(), 0);
    let fixture = fails(Errno::TIMEDOUT);
    let [name] = &fixture.names_stored()[..] else { panic!("one file is stored") };
    fixture.set(OVERFLOW, name);
    assert_eq!(fixture.content(&fixture.file, &fixture.opened()), b"kept");
}

#[test]
fn a_write_after_an_uncertain_failure_is_kept() {
    for at in 0..40 {
        let fixture = Fixture::new(16 << 20);
        fixture.write(&fixture.opened(), 0, b"kept").unwrap();
        let write = |stream: &Stream, node: &Arc<dyn Node>, fixture: &Fixture| {
            let grown = block_on(stream.write(node, &fixture.op, 4, large().into(), false));
            if grown.is_err()
                && let [name] = &fixture.names_stored()[..]
            {
                fixture.set(OVERFLOW, name);
            }
            block_on(stream.write(node, &fixture.op, 0, Bytes::from_static(b"more").into(), false))
        };
        if changed(&fixture, FailAt(vec![(at, Errno::TIMEDOUT)]), write) {
            // A later open.
            let again = fixture.stream(fixture.metadata.id, "s");
            assert!(block_on(again.exists(&fixture.file, &fixture.op)).unwrap());
            assert!(fixture.content(&fixture.file, &again).starts_with(b"more"), "call {at} fails");
        }
    }
}

/// Fails all calls from one on, as if the server crashed before it, or those of one operation.
struct FailFrom {
    call: u64,
    only: Option<Operation>,
}

impl Script for FailFrom {
    fn decide(&self, operation: Operation, count: u64) -> Fault {
        let fails = count >= self.call && self.only.is_none_or(|only| only == operation);
        Fault { error: fails.then_some(Errno::IO), ..Fault::default() }
    }
}

/// A file whose attributes are limited as on ext4, with a stream that occupies most of their space.
fn tight(content: usize) -> (Fixture, Vec<u8>) {
    let fixture = Fixture::with(Options { attribute_space: 4_000, ..Options::default() });
    let content = large()[..content].to_vec();
    fixture.write(&fixture.opened(), 0, &content).unwrap();
    assert!(fixture.attribute(INLINE).is_some());
    (fixture, content)
}

#[test]
fn a_crash_leaves_content_that_fills_the_space_of_attributes() {
    let rename = |stream: &Stream, node: &Arc<dyn Node>, fixture: &Fixture| {
        block_on(stream.rename(node, &fixture.op, Target::Named("t".into())))
    };
    let grow = |stream: &Stream, node: &Arc<dyn Node>, fixture: &Fixture| {
        block_on(stream.write(node, &fixture.op, 0, Bytes::from(large()).into(), false))
    };
    for only in [None, Some(Operation::SetXattr)] {
        for (call, size) in (0..60).flat_map(|call| [2_000, 3_960].map(|size| (call, size))) {
            for changes_name in [false, true] {
                let (fixture, content) = tight(size);
                let script = FailFrom { call, only };
                let done = match changes_name {
                    true => changed(&fixture, script, rename),
                    false => changed(&fixture, script, grow),
                };
                assert!(call < 59 || done);
                let names = block_on(list(&fixture.file, &fixture.op, &Layout::default())).unwrap();
                let what = format!("call {call}, {size} bytes, {only:?}, {names:?}");
                assert!(!names.is_empty(), "{what}");
                for stored in names {
                    let again = fixture.stream(fixture.metadata.id, &stored.name);
                    assert!(block_on(again.exists(&fixture.file, &fixture.op)).unwrap(), "{what}");
                    let found = fixture.content(&fixture.file, &again);
                    assert!(found == content || !changes_name && found == large(), "{what}");
                }
            }
        }
    }
}

#[test]
fn a_renamed_stream_stays_in_an_attribute_that_fills_the_space() {
    let (fixture, content) = tight(3_960);
    let stream = fixture.opened();
    block_on(stream.rename(&fixture.file, &fixture.op, Target::Named("t".into()))).unwrap();
    let stored = fixture.attribute("user.DosStream.t:$DATA").unwrap();
    assert_eq!((stored, fixture.stored()), ([&content[..], b"\0"].concat(), 0));
    // With a longer name it does not fit.
    let longer = "u".repeat(40);
    block_on(stream.rename(&fixture.file, &fixture.op, Target::Named(longer.clone()))).unwrap();
    let again = fixture.stream(fixture.metadata.id, &longer);
    assert!(block_on(again.exists(&fixture.file, &fixture.op)).unwrap());
    assert_eq!((fixture.content(&fixture.file, &again), fixture.stored()), (content, 1));
}

#[test]
fn a_stream_that_only_its_former_attribute_names_is_in_the_store() {
    // There is space for one attribute with a name of the store, not for two.
    let fixture = Fixture::with(Options { attribute_space: 76, ..Options::default() });
    let stream = fixture.opened();
    fixture.write(&stream, 0, b"small").unwrap();
    fixture.write(&stream, 5, &large()).unwrap();
    let expected = [b"small", &large()[..]].concat();
    assert_eq!((fixture.attribute(OVERFLOW), fixture.stored()), (None, 1));
    let again = fixture.stream(fixture.metadata.id, "s");
    assert!(block_on(again.exists(&fixture.file, &fixture.op)).unwrap());
    assert_eq!(fixture.content(&fixture.file, &again), expected);
    let other = stream_of_a_lost_store(&fixture);
    assert_eq!(
        into_buffer(block_on(other.read(&fixture.file, &fixture.op, ReadRequest::new(0, vec![0; 9]))), 0).1,
        Err(Errno::IO)
    );
    block_on(again.set_size(&fixture.file, &fixture.op, 0)).unwrap();
    assert_eq!((fixture.attribute(INLINE).as_deref(), fixture.stored()), (Some(&b"\0"[..]), 0));
    fixture.write(&again, 0, &large()).unwrap();
    block_on(again.remove(&fixture.file, &fixture.op)).unwrap();
    assert_eq!((fixture.attribute(INLINE), fixture.stored()), (None, 0));
}

/// Returns the file's stream `s` as a share finds it whose store does not exist.
fn stream_of_a_lost_store(fixture: &Fixture) -> Stream {
    let other = Fixture::new(1 << 20);
    let stream = stream(FileId { stream: 2, ..fixture.metadata.id }, "s", &other.store, &fixture.open);
    assert!(block_on(stream.exists(&fixture.file, &fixture.op)).unwrap());
    stream
}

#[test]
fn a_stream_that_a_mac_has_emptied_vanishes_only_while_it_is_empty() {
    let fixture = Fixture::new(1 << 20);
    let stream = fixture.opened();
    // Another client has written after the truncation.
    fixture.write(&stream, 0, b"written").unwrap();
    block_on(stream.emptied_by_mac(&fixture.file, &fixture.op)).unwrap();
    assert_eq!(fixture.content(&fixture.file, &stream), b"written");
    block_on(stream.set_size(&fixture.file, &fixture.op, 0)).unwrap();
    block_on(stream.emptied_by_mac(&fixture.file, &fixture.op)).unwrap();
    assert_eq!(fixture.attribute(INLINE), None);
    fixture.write(&stream, 0, b"again").unwrap();
    assert_eq!(fixture.content(&fixture.file, &stream), b"again");
}
