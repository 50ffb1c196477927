//! File content: writing and reading, holes, copies, shared space, compression.

use std::sync::Arc;

use bytes::Bytes;

use super::{Fixture, READ, compress, now, read, stat};
use crate::answer::block_on;
use crate::vfs::remote::Filled;
use crate::vfs::{
    Access, Content, CopyRange, DataRange, Errno, Extent, Node, Payload, ReadRequest, SERVER, into_buffer, read_into,
};

pub(super) const CHECKS: [fn(&Fixture); 7] = [
    content_is_read_back,
    content_comes_from_a_pipe,
    holes_are_zeros,
    zeroing_and_allocation,
    ranges_are_copied,
    room_is_shared,
    compression_is_kept,
];

fn content_is_read_back(fixture: &Fixture) {
    let (node, _) = fixture.file("file", "hello world");
    assert_eq!(read(&node, 6, 100), b"world", "a read is short at the end of file only");
    assert_eq!(read(&node, 11, 1), b"");
    assert_eq!(read(&node, 1 << 40, 1), b"");
    let (buffer, count) = block_on(read_into(&node, &SERVER, 0, b"keep.....".to_vec(), 4));
    assert_eq!((buffer.as_slice(), count), (&b"keephello"[..], Ok(5)), "written data remains");
    fixture.write(&node, 6, b"W");
    fixture.write(&node, 6, b"");
    assert_eq!(fixture.content("file"), "hello World");
    now(node.set_extent(&fixture.owner, Extent::Size(5)));
    assert_eq!((fixture.content("file").as_str(), stat(&node).size), ("hello", 5));
    now(node.set_extent(&fixture.owner, Extent::Size(8)));
    assert_eq!(read(&node, 0, 100), b"hello\0\0\0", "truncated data is gone");
    now(node.flush(&SERVER));
    let through = node.write(&fixture.owner, 8, Bytes::from_static(b"!").into(), true);
    assert_eq!(block_on(through), Ok(()));
    assert_eq!(stat(&node).size, 9);
}

fn content_comes_from_a_pipe(fixture: &Fixture) {
    let (node, _) = fixture.file("file", "hello");
    let write = |offset, through| {
        let pipe = Filled::with(b" world").expect("a pipe");
        block_on(node.write(&fixture.owner, offset, Payload::Pipe(pipe), through))
    };
    assert_eq!(write(5, false), Ok(()));
    assert_eq!(read(&node, 0, 100), b"hello world");
    assert_eq!(write(20, true), Ok(()));
    assert_eq!(read(&node, 0, 100), b"hello world\0\0\0\0\0\0\0\0\0 world");
    assert_eq!(write(i64::MAX as u64, false), Err(Errno::FBIG));
    let reader = now(node.open(&fixture.owner, READ));
    let pipe = Filled::with(b"x").expect("a pipe");
    assert_eq!(block_on(reader.write(&fixture.owner, 0, Payload::Pipe(pipe), false)), Err(Errno::BADF));
    // The data of a read is where the file system has it; a caller that cannot use a pipe does not get one.
    for pipe in [false, true] {
        let request = ReadRequest { offset: 6, buffer: b"keep........".to_vec(), filled: 4, pipe };
        let (buffer, content) = block_on(node.read(&SERVER, request));
        assert!(pipe || !matches!(content, Ok(Content::Payload(Payload::Pipe(_)))));
        let (buffer, count) = into_buffer((buffer, content), 4);
        assert_eq!((buffer.len(), &buffer[..9], count), (12, &b"keepworld"[..], Ok(8)));
    }
}

fn holes_are_zeros(fixture: &Fixture) {
    const FAR: u64 = 5 << 30;
    let (node, _) = fixture.file("sparse", "");
    fixture.write(&node, FAR, b"end");
    assert_eq!(stat(&node).size, FAR + 3);
    assert!(stat(&node).allocated < 1 << 20, "a hole occupies no space");
    assert_eq!(read(&node, FAR - 4, 100), b"\0\0\0\0end");
    assert_eq!(read(&node, 1 << 30, 4096), [0; 4096]);
    let ranges = now(node.data_ranges(&SERVER, 0, u64::MAX >> 1));
    let covers = |range: &DataRange| range.offset <= FAR && range.offset + range.length == FAR + 3;
    assert!(ranges.len() == 1 && ranges.iter().all(covers), "{ranges:?}");
    assert_eq!(now(node.data_ranges(&SERVER, 0, 1 << 30)), []);
    assert_eq!(now(node.data_ranges(&SERVER, FAR + 1, 1)), [DataRange { offset: FAR + 1, length: 1 }]);
    assert_eq!(now(node.data_ranges(&SERVER, FAR + 3, 10)), [], "there is no data beyond the end");
}

fn zeroing_and_allocation(fixture: &Fixture) {
    let (node, _) = fixture.file("file", &"x".repeat(20_000));
    now(node.set_extent(&fixture.owner, Extent::Zero { offset: 100, length: 12_000 }));
    let content = read(&node, 0, 30_000);
    assert_eq!(content.len(), 20_000, "the size does not change");
    assert!(content.iter().enumerate().all(|(at, &byte)| (byte == 0) == (100..12_100).contains(&at)));
    now(node.set_extent(&fixture.owner, Extent::Zero { offset: 19_000, length: 1 << 20 }));
    assert_eq!(stat(&node).size, 20_000, "zeroing beyond the end does not grow the file");
    let (node, _) = fixture.file("allocated", "abc");
    now(node.set_extent(&fixture.owner, Extent::Reserve(1 << 20)));
    let metadata = stat(&node);
    assert_eq!(metadata.size, 3);
    let shows_reserved = fixture.vfs.capabilities().features.shows_reserved;
    assert!(!shows_reserved || metadata.allocated >= 1 << 20, "{metadata:?}");
    assert_eq!(read(&node, 0, 10), b"abc");
}

fn ranges_are_copied(fixture: &Fixture) {
    let who = &fixture.owner;
    let bytes: Vec<u8> = (0..3 << 20).map(|at: u32| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect();
    let (from, _) = fixture.file("from", "");
    fixture.write(&from, 0, &bytes);
    let put = |mut into: Vec<u8>, source: usize, offset: usize, length: usize| {
        let copied = bytes.iter().skip(source).take(length);
        into.resize(into.len().max(if copied.len() > 0 { offset + copied.len() } else { 0 }), 0);
        into.iter_mut().skip(offset).zip(copied).for_each(|(byte, new)| *byte = *new);
        into
    };
    let check = |name: &str, source: usize, offset: usize, length: usize| {
        let there = length.min(bytes.len().saturating_sub(source)) as u64;
        // Into another file, and within one file, where the ranges may overlap.
        for (from, before) in [(Some(&from), &b"before"[..]), (None, &bytes)] {
            let (node, _) = fixture.file(&format!("{name} {}", before.len()), "");
            fixture.write(&node, 0, before);
            let from = from.unwrap_or(&node);
            let copied = now(node.copy(
                who,
                from,
                CopyRange { source: source as u64, offset: offset as u64, length: length as u64, share: false },
            ));
            assert_eq!(copied, there, "{name}");
            let expected = put(before.to_vec(), source, offset, length);
            assert!(read(&node, 0, bytes.len() * 2) == expected, "{name} over {} bytes", before.len());
        }
    };
    check("all", 0, 0, 3 << 20);
    check("up", 0, 5, 2 << 20);
    check("down", 8192, 4096, 2 << 20);
    check("odd", 77, 4096, 70_001);
    check("past the end", (3 << 20) - 10, 100, 4096);
    check("beyond the end", 4 << 20, 0, 10);
    let (target, _) = fixture.file("target", "");
    let reader = now(target.open(who, READ));
    assert_eq!(
        block_on(reader.copy(who, &from, CopyRange { source: 0, offset: 0, length: 10, share: false })),
        Err(Errno::BADF),
        "the target is not open for writing"
    );
    let writer = now(from.open(who, Access { read: false, write: true }));
    assert_eq!(
        block_on(target.copy(who, &writer, CopyRange { source: 0, offset: 0, length: 10, share: false })),
        Err(Errno::BADF),
        "the source is not open for reading"
    );
    assert_eq!(stat(&target).size, 0);
}

fn room_is_shared(fixture: &Fixture) {
    let who = &fixture.owner;
    let (from, _) = fixture.file("from", "");
    let block = u64::from(now(from.space(who)).block_size);
    let content: Vec<u8> = (0..3 * block + 10).map(|at| (at / 7) as u8).collect();
    fixture.write(&from, 0, &content);
    let (to, _) = fixture.file("to", "");
    now(to.set_extent(who, Extent::Size(content.len() as u64)));
    let clone = |to: &Arc<dyn Node>, from: &Arc<dyn Node>, source: u64, offset: u64, length: u64| {
        block_on(to.copy(who, from, CopyRange { source, offset, length, share: true }))
    };
    if !fixture.vfs.capabilities().features.clones {
        assert_eq!(clone(&to, &from, 0, 0, block), Err(Errno::OPNOTSUPP));
        return;
    }
    assert_eq!(clone(&to, &from, 0, 0, 0), Ok(0), "nothing");
    assert_eq!(read(&to, 0, 10), [0; 10]);
    assert_eq!(clone(&to, &from, block, 0, block), Ok(block), "a block, to another offset");
    let (size, block_size) = (content.len(), block as usize);
    assert!(read(&to, 0, size + 1) == [&content[block_size..2 * block_size], &vec![0; size - block_size]].concat());
    assert_eq!(clone(&to, &from, 0, 0, size as u64), Ok(size as u64), "everything up to both ends");
    assert!(read(&to, 0, size + 1) == content);
    fixture.write(&to, 0, b"changed");
    assert!(read(&from, 0, size + 1) == content, "files that share blocks change independently");
    assert_eq!(clone(&to, &to, 0, 2 * block, block), Ok(block), "within one file");
    assert_eq!(read(&to, 2 * block, 7), b"changed");
    for (why, source, offset, length) in [
        ("odd source", 1, 0, block),
        ("odd target", 0, 1, block),
        ("odd length", 0, 0, 10),
        ("beyond the end of the source", 3 * block, 0, block),
        ("beyond the end of the target", 0, 3 * block, block),
    ] {
        assert_eq!(clone(&to, &from, source, offset, length), Err(Errno::INVAL), "{why}");
    }
    assert_eq!(clone(&to, &to, 0, block, 2 * block), Err(Errno::INVAL), "ranges that overlap");
    assert_eq!(stat(&to).size, size as u64, "the size does not change");
    let reader = now(to.open(who, READ));
    assert_eq!(clone(&reader, &from, 0, 0, block), Err(Errno::BADF), "the target is not open for writing");
}

fn compression_is_kept(fixture: &Fixture) {
    let who = &fixture.owner;
    let (directory, _) = fixture.directory("dir");
    let (before, _) = fixture.file("dir/before", "x");
    assert!(!stat(&directory).compressed && !stat(&before).compressed);
    if !fixture.vfs.capabilities().features.compresses {
        assert_eq!(compress(&directory, who, true), Err(Errno::OPNOTSUPP));
        return;
    }
    assert_eq!(compress(&directory, who, true), Ok(()));
    let (after, _) = fixture.file("dir/after", "x");
    let shown = || (stat(&directory).compressed, stat(&before).compressed, stat(&after).compressed);
    assert_eq!(shown(), (true, false, true), "new files inherit from their directory");
    assert_eq!(compress(&directory, who, false), Ok(()));
    assert_eq!(shown(), (false, false, true));
    assert_eq!(compress(&after, who, false), Ok(()));
    assert_eq!(compress(&before, who, true), Ok(()));
    assert_eq!(shown(), (false, true, false));
    if let Some(other) = &fixture.other {
        assert_eq!(compress(&before, other, false), Err(Errno::ACCES));
    }
}
