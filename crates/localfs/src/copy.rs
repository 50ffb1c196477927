//! Copies between files without passing the bytes through this process, if the kernel supports it.

use std::sync::Arc;

use backing::workers::Lane;
use rustix::io::{Errno as Raw, ReadWriteFlags};
use server::answer::Answer;
use server::vfs::{CopyRange, Errno, Identity, Op, Result};

use crate::file::end_of;
use crate::node::Open;
use crate::root::stat;
use crate::{errno, identity, sys};

/// Bytes per step if they have to pass through memory.
const STEP: u64 = 256 * 1024;
/// Longer copies use the worker lane for slow work.
const LONG: u64 = 4 << 20;

impl Open {
    pub(crate) fn copy(open: &Arc<Open>, op: &Op, from: &Arc<Open>, range: CopyRange) -> Answer<Result<u64>> {
        let (uid, system) = (op.uid, &open.system);
        let (open, who, from) = (Arc::clone(open), Arc::clone(op), Arc::clone(from));
        // Before space is shared, data that is not on disk yet is written there.
        let lane = if range.share || range.length > LONG { Lane::Slow } else { Lane::Data };
        system.executor.later(uid, lane, move || match range.share {
            true => open.share_room(&who, &from, range).map(|()| range.length),
            false => open.copy_from(&who, &from, range),
        })
    }

    fn share_room(&self, who: &Arc<Identity>, from: &Open, range: CopyRange) -> Result<()> {
        let _own = self.changes();
        identity::assume(who)?;
        let (fd, source) = (self.writer()?, from.reader()?);
        // For the kernel, 0 means everything up to the end, which would grow the file.
        if range.length == 0 {
            return Ok(());
        }
        let fits = |at: u64, size: u64| at.checked_add(range.length).is_some_and(|end| end <= size);
        if !fits(range.source, stat(source)?.stx_size) || !fits(range.offset, stat(fd)?.stx_size) {
            return Err(Errno::INVAL);
        }
        match sys::clone_range(fd, source, range.source, range.offset, range.length) {
            Err(Raw::NOTTY | Raw::NOSYS) => Err(Errno::OPNOTSUPP),
            done => done.map_err(errno),
        }
    }

    fn copy_from(&self, who: &Arc<Identity>, from: &Open, range: CopyRange) -> Result<u64> {
        let _own = self.changes();
        identity::assume(who)?;
        self.writer()?;
        let there = stat(from.reader()?)?.stx_size.saturating_sub(range.source);
        let range = CopyRange { length: range.length.min(there), ..range };
        self.note_size(end_of(range.offset, range.length)?);
        let apart = range.source.abs_diff(range.offset) >= range.length;
        // Within one file the kernel only copies ranges that do not overlap.
        let by_kernel = if self.id == from.id && !apart { 0 } else { self.copy_in_kernel(from, range)? };
        let rest = CopyRange {
            source: range.source + by_kernel,
            offset: range.offset + by_kernel,
            length: range.length - by_kernel,
            ..range
        };
        Ok(by_kernel + self.copy_by_hand(who, from, rest)?)
    }

    /// Copies as much as the kernel can: everything, or nothing between some file systems.
    fn copy_in_kernel(&self, from: &Open, range: CopyRange) -> Result<u64> {
        let (fd, from) = (self.writer()?, from.reader()?);
        let mut done = 0;
        while done < range.length {
            let (mut source, mut offset) = (range.source + done, range.offset + done);
            let count = usize::try_from(range.length - done).unwrap_or(usize::MAX);
            match rustix::fs::copy_file_range(from, Some(&mut source), fd, Some(&mut offset), count) {
                Ok(0) => break,
                Ok(more) => done += more as u64,
                Err(Raw::INTR) => {}
                Err(Raw::XDEV | Raw::INVAL | Raw::OPNOTSUPP | Raw::NOSYS | Raw::PERM) => break,
                Err(error) => return Err(errno(error)),
            }
        }
        Ok(done)
    }

    /// Copies in an order that overwrites nothing before it was read, in case both are one file.
    fn copy_by_hand(&self, who: &Arc<Identity>, from: &Open, range: CopyRange) -> Result<u64> {
        let backwards = range.offset > range.source;
        let mut length = range.length;
        let (mut start, mut end) = (0, length);
        let mut buffer = vec![0; STEP.min(length) as usize];
        while start < end {
            let count = STEP.min(end - start);
            let at = if backwards { end - count } else { start };
            let read = from.read_waiting(range.source + at, &mut buffer[..count as usize])?;
            self.write_all(who, range.offset + at, &buffer[..read], 0, ReadWriteFlags::empty())?;
            if (read as u64) < count {
                // The source was truncated meanwhile.
                length = at + read as u64;
            }
            (start, end) = if backwards { (start, at) } else { (at + count, end.min(length)) };
        }
        Ok(length)
    }
}
