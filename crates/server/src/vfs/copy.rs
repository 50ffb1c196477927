//! Copying between files that the file system itself cannot copy from one to the other.

use std::sync::Arc;

use bytes::Bytes;

use super::{CopyRange, Errno, Node, Op, Result, read_into};

/// Bytes that pass through memory at once, enough to make the cost of a single call negligible.
const STEP: u64 = 1 << 20;

/// Copies as [`Node::copy`] does, for handles of any kind.
///
/// # Errors
/// Those of reading and writing.
pub async fn copy_range(
    op: &Op,
    from: &Arc<dyn Node>,
    source: u64,
    to: &Arc<dyn Node>,
    offset: u64,
    length: u64,
) -> Result<u64> {
    match to.copy(op, from, CopyRange { source, offset, length, share: false }).await {
        Err(Errno::XDEV) => copy_through_memory(op, from, source, to, offset, length).await,
        done => done,
    }
}

/// Copies a range by reading and writing, for back ends whose storage has no call for it.
///
/// # Errors
/// Those of reading and writing.
pub async fn copy_through_memory(
    op: &Op,
    from: &Arc<dyn Node>,
    source: u64,
    to: &Arc<dyn Node>,
    offset: u64,
    length: u64,
) -> Result<u64> {
    // Copies the content present at the start, not the data that the copy itself appends to the source.
    let mut length = length.min(from.metadata(op).await?.size.saturating_sub(source));
    // Two handles may refer to one file. Copying backwards then overwrites no byte before it was read.
    let backwards = offset > source;
    let (mut start, mut end) = (0, length);
    while start < end {
        let count = STEP.min(end - start);
        let at = if backwards { end - count } else { start };
        let (data, read) = read_into(from, op, source + at, vec![0; count as usize], 0).await;
        let read = read?;
        to.write(op, offset + at, Bytes::from(data).slice(..read).into(), false).await?;
        if (read as u64) < count {
            // The source was truncated meanwhile.
            length = at + read as u64;
        }
        (start, end) = if backwards { (start, at) } else { (at + count, end.min(length)) };
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::block_on;
    use crate::vfs::memory::tests::fixture;
    use crate::vfs::{Access, Create, NewFile, RelPath};

    #[test]
    fn ranges_larger_than_a_step_are_copied_completely_in_either_direction() {
        let fixture = fixture();
        let who = &fixture.owner;
        let size = 2 * STEP as usize + 10;
        let content: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
        let make = |name: &[u8]| {
            let path = RelPath::root().join(name).expect("a valid name");
            let both = Create::File(Access { read: true, write: true });
            block_on(fixture.vfs.create(who, &path, NewFile::new(both, 0o600))).expect("a new file").node
        };
        let check = |name: &[u8], source: u64, offset: u64, length: u64| {
            let node = make(name);
            block_on(node.write(who, 0, content.clone().into(), false)).expect("there is free space");
            let there = (size as u64 - source).min(length) as usize;
            assert_eq!(block_on(copy_through_memory(who, &node, source, &node, offset, length)), Ok(there as u64));
            let mut expected = content.clone();
            let (source, offset) = (source as usize, offset as usize);
            expected.resize(size.max(offset + there), 0);
            expected[offset..offset + there].copy_from_slice(&content[source..source + there]);
            let (read, count) = block_on(read_into(&node, who, 0, vec![0; expected.len() + 1], 0));
            assert!(count == Ok(expected.len()) && read[..expected.len()] == expected, "{source} to {offset}");
        };
        check(b"up", 0, 100, 2 * STEP);
        check(b"down", 100, 0, 2 * STEP);
        check(b"grows", 5, STEP, 9 * STEP);
    }
}
