//! Content that is read into pipes.

use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::Duration;

use server::vfs::{Content, Extent, Payload, Pipe, ReadRequest, into_buffer};

use super::*;

const MIB: usize = 1 << 20;
/// Longer than a file must be unchanged.
const SETTLES: Duration = Duration::from_millis(3_100);

/// The pool belongs to the process, so these tests take turns.
static TURN: Mutex<()> = Mutex::new(());

/// Numbers that tell their position.
fn pattern(length: usize) -> Vec<u8> {
    (0..length.div_ceil(8) as u64).flat_map(u64::to_le_bytes).take(length).collect()
}

fn request(offset: usize, length: usize) -> ReadRequest {
    ReadRequest { offset: offset as u64, buffer: vec![0; length], filled: 0, pipe: true }
}

/// Reads as `who`. Returns the pipe; `None` if the content was copied.
#[track_caller]
fn piped(node: &Arc<dyn Node>, who: &Op, offset: usize, length: usize) -> Option<Box<dyn Pipe>> {
    match block_on(node.read(who, request(offset, length))).1 {
        Ok(Content::Payload(Payload::Pipe(pipe))) => Some(pipe),
        Ok(Content::Buffer(_)) => None,
        other => panic!("{other:?}"),
    }
}

/// A file that has not changed for a while, open for reading.
fn settled(bed: &Bed, data: &[u8]) -> Arc<dyn Node> {
    let (node, _) = bed.create("file");
    write(&node, &bed.who, 0, data);
    sleep(SETTLES);
    node
}

#[test]
fn content_of_a_settled_file_is_read_into_pipes() {
    let _turn = TURN.lock();
    let bed = Bed::new();
    let data = pattern(9 * MIB + 100);
    let node = settled(&bed, &data);
    let ranges = [(0, MIB), (1, MIB), (5_000, 64 * 1024), (4096, 3 * MIB + 77), (0, 16 * MIB), (9 * MIB - 70_000, MIB)];
    for (offset, length) in ranges {
        for forgotten in [false, true] {
            if forgotten {
                content::forget(&bed.root.join("file"), true);
            }
            let pipe = piped(&node, &bed.who, offset, length).expect("it is read into a pipe");
            let expected = &data[offset..(offset + length).min(data.len())];
            assert_eq!(pipe.length(), expected.len(), "{offset}, {length}");
            assert!(Payload::Pipe(pipe).into_memory().expect("the whole data") == expected, "{offset}, {length}");
        }
    }
    assert!(piped(&node, &bed.who, 0, 4096).is_none(), "short reads are copied");
    assert!(piped(&node, &bed.who, 9 * MIB, MIB).is_none(), "so is the short end of a file");
    let (_, beyond) = into_buffer(block_on(node.read(&bed.who, request(10 * MIB, MIB))), 0);
    assert_eq!(beyond, Ok(0));
    let unwanted = ReadRequest { pipe: false, ..request(0, MIB) };
    assert!(matches!(block_on(node.read(&bed.who, unwanted)).1, Ok(Content::Buffer(MIB))));
    // A hole has no pages.
    now(node.set_extent(&bed.who, Extent::Size(64 * MIB as u64)));
    sleep(SETTLES);
    let hole = piped(&node, &bed.who, 32 * MIB, MIB).expect("it is read into a pipe");
    assert!(Payload::Pipe(hole).into_memory().expect("zeros") == vec![0; MIB]);
}

#[test]
fn content_of_a_file_that_has_just_changed_is_copied() {
    let _turn = TURN.lock();
    let bed = Bed::new();
    let node = settled(&bed, &pattern(2 * MIB));
    assert!(piped(&node, &bed.who, 0, MIB).is_some());
    now(node.set_extent(&bed.who, Extent::Size(MIB as u64 + 10)));
    assert!(piped(&node, &bed.who, 0, MIB).is_none());
    // The time of the last write can be set by a program, but not the time of the last change.
    let file = process(|| fs::File::options().write(true).open(bed.root.join("file"))).expect("it exists");
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).expect("the process has permission");
    assert!(piped(&node, &bed.who, 0, MIB).is_none());
}

#[test]
fn content_of_a_file_that_was_written_and_closed_is_read_into_pipes() {
    let _turn = TURN.lock();
    let bed = Bed::new();
    let data = pattern(2 * MIB);
    let (writer, _) = bed.create("file");
    write(&writer, &bed.who, 0, &data);
    let reader = now(writer.open(&bed.who, READ));
    assert!(piped(&reader, &bed.who, 0, MIB).is_none(), "it is still open for writing");
    drop(writer);
    let pipe = piped(&reader, &bed.who, 0, MIB).expect("it is read into a pipe");
    assert!(Payload::Pipe(pipe).into_memory().expect("the whole data") == data[..MIB]);
    // A program of this machine changes it.
    sleep(Duration::from_millis(20));
    process(|| {
        let mut file = fs::File::options().write(true).open(bed.root.join("file")).expect("it exists");
        file.write_all(b"changed").expect("there is free space");
    });
    assert!(piped(&reader, &bed.who, 0, MIB).is_none(), "it has changed");
}

#[test]
fn pipes_are_bounded_and_used_again() {
    let _turn = TURN.lock();
    let bed = Bed::new();
    let data = pattern(2 * MIB);
    let node = settled(&bed, &data);
    let read = |uid: u32| piped(&node, &user(uid), 0, MIB);
    let held: Vec<_> = std::iter::from_fn(|| read(62_001)).take(1_000).collect();
    assert_eq!(held.len(), 32, "one user has at most as many as are left for others");
    assert!(read(62_002).is_some(), "another user is not affected");
    let others: Vec<_> = (0..1_000).map_while(|number| read(62_100 + number)).collect();
    // The system may have given fewer than 64 (`fs.pipe-user-pages-soft`).
    assert!((33..=64).contains(&(held.len() + others.len())), "{}", others.len());
    sleep(Duration::from_millis(1_100));
    drop((held, others));
    // Data that is left in a pipe does not appear in the next one.
    for taken in [0, 1, 70_000, MIB] {
        let mut pipe = read(62_001).expect("all were returned");
        pipe.read_exact(&mut vec![0; taken]).expect("there is as much");
        drop(pipe);
        let next = piped(&node, &user(62_001), MIB, MIB).expect("there is one");
        assert!(Payload::Pipe(next).into_memory().expect("the whole data") == data[MIB..], "{taken}");
    }
    let pipes = || process(|| fs::read_dir("/proc/self/fd").expect("a /proc").flatten().count());
    let _held = read(62_001);
    close_unused_pipes();
    let before = pipes();
    close_unused_pipes();
    assert!(pipes() <= before);
}

/// Programs that write and truncate meanwhile do not change the length of what was read.
#[test]
fn a_pipe_keeps_its_length() {
    let _turn = TURN.lock();
    let bed = Bed::new();
    let data = pattern(MIB);
    let node = settled(&bed, &data);
    let pipe = piped(&node, &bed.who, 0, MIB).expect("it is read into a pipe");
    process(|| {
        let mut file = fs::File::options().write(true).open(bed.root.join("file")).expect("it exists");
        file.seek(SeekFrom::Start(MIB as u64 / 2)).expect("a file");
        file.write_all(&[0xee; 4096]).expect("there is free space");
        file.set_len(100 * 4096).expect("the process has permission");
    });
    let after = Payload::Pipe(pipe).into_memory().expect("the whole data");
    assert_eq!(after.len(), MIB);
    assert!(after[..100 * 4096] == data[..100 * 4096]);
}
