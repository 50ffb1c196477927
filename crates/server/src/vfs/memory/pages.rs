//! The content of a file: only pages that were written take space.

use std::collections::BTreeMap;

use super::Quota;
use crate::vfs::DataRange;

/// Bytes in a page.
pub(super) const PAGE: u64 = 4096;

/// The maximum file size, as on Linux.
pub(super) const MAX_SIZE: u64 = i64::MAX as u64;

/// No space for a page.
pub(super) struct Full;

/// The content of one file.
#[derive(Default)]
pub(super) struct Pages {
    size: u64,
    pages: BTreeMap<u64, Box<[u8]>>,
    /// The pages below this number are reserved: they take space whether or not they hold data.
    reserved: u64,
}

/// A piece of a byte range that lies within one page.
struct Piece {
    page: u64,
    start: usize,
    end: usize,
}

/// Splits a range at page boundaries. The range must end below 2^64.
fn pieces(offset: u64, length: u64) -> impl Iterator<Item = Piece> {
    let end = offset + length;
    let mut at = offset;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let page = at / PAGE;
        let start = (at % PAGE) as usize;
        let stop = (end - page * PAGE).min(PAGE) as usize;
        at = page * PAGE + stop as u64;
        Some(Piece { page, start, end: stop })
    })
}

impl Pages {
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Returns the number of pages that take space.
    pub(super) fn allocated(&self) -> u64 {
        let beyond = self.pages.range(self.reserved..).count() as u64;
        self.reserved + beyond
    }

    /// Copies from `offset` into `buffer` and returns the number of bytes copied.
    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let length = self.size.saturating_sub(offset).min(buffer.len() as u64);
        let mut rest = &mut buffer[..length as usize];
        for piece in pieces(offset.min(self.size), length) {
            let (part, behind) = rest.split_at_mut(piece.end - piece.start);
            match self.pages.get(&piece.page) {
                Some(page) => part.copy_from_slice(&page[piece.start..piece.end]),
                None => part.fill(0),
            }
            rest = behind;
        }
        length as usize
    }

    /// Writes `data` at `offset`; the range must end at or below [`MAX_SIZE`]. If space runs out, the part written
    /// before stays.
    pub(super) fn write(&mut self, offset: u64, data: &[u8], quota: &mut Quota) -> Result<(), Full> {
        let mut rest = data;
        for piece in pieces(offset, data.len() as u64) {
            if !self.pages.contains_key(&piece.page) {
                if piece.page >= self.reserved && !quota.take() {
                    return Err(Full);
                }
                self.pages.insert(piece.page, vec![0; PAGE as usize].into());
            }
            let (part, behind) = rest.split_at(piece.end - piece.start);
            if let Some(page) = self.pages.get_mut(&piece.page) {
                page[piece.start..piece.end].copy_from_slice(part);
            }
            self.size = self.size.max(piece.page * PAGE + piece.end as u64);
            rest = behind;
        }
        Ok(())
    }

    /// Sets the size and releases everything beyond it.
    pub(super) fn set_size(&mut self, size: u64, quota: &mut Quota) {
        if size < self.size {
            let before = self.allocated();
            let kept = size.div_ceil(PAGE);
            self.pages.split_off(&kept);
            self.reserved = self.reserved.min(kept);
            if let Some(last) = self.pages.get_mut(&(size / PAGE)) {
                last[(size % PAGE) as usize..].fill(0);
            }
            quota.used -= before - self.allocated();
        }
        self.size = size;
    }

    /// Reserves space for the first `size` bytes.
    pub(super) fn reserve(&mut self, size: u64, quota: &mut Quota) -> Result<(), Full> {
        let wanted = size.div_ceil(PAGE).max(self.reserved);
        let have = self.pages.range(self.reserved..wanted).count() as u64;
        let more = wanted - self.reserved - have;
        if more > quota.limit - quota.used {
            return Err(Full);
        }
        quota.used += more;
        self.reserved = wanted;
        Ok(())
    }

    /// Zeroes a range and releases whole pages that are not reserved.
    pub(super) fn zero(&mut self, offset: u64, length: u64, quota: &mut Quota) {
        let end = offset.saturating_add(length).min(self.size);
        if offset >= end {
            return;
        }
        let (first, last) = (offset / PAGE, (end - 1) / PAGE);
        let touched: Vec<u64> = self.pages.range(first..=last).map(|(&number, _)| number).collect();
        for number in touched {
            let start = offset.saturating_sub(number * PAGE) as usize;
            let stop = (end - number * PAGE).min(PAGE) as usize;
            // The tail of the last page is already zero, so reaching the end of the file is reaching the end of the
            // page.
            let whole = start == 0 && (stop as u64 == PAGE || end == self.size);
            if whole {
                self.pages.remove(&number);
                quota.used -= u64::from(number >= self.reserved);
            } else if let Some(page) = self.pages.get_mut(&number) {
                page[start..stop].fill(0);
            }
        }
    }

    /// Returns the parts of a range that hold data.
    pub(super) fn data_ranges(&self, offset: u64, length: u64) -> Vec<DataRange> {
        let end = offset.saturating_add(length).min(self.size);
        let mut ranges: Vec<DataRange> = Vec::new();
        if offset >= end {
            return ranges;
        }
        for &number in self.pages.range(offset / PAGE..=(end - 1) / PAGE).map(|(number, _)| number) {
            let start = offset.max(number * PAGE);
            let stop = end.min((number + 1) * PAGE);
            match ranges.last_mut() {
                Some(last) if last.offset + last.length == start => last.length += stop - start,
                _ => ranges.push(DataRange { offset: start, length: stop - start }),
            }
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Write(u64, Vec<u8>),
        SetSize(u64),
        Reserve(u64),
        Zero(u64, u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..30_000u64, proptest::collection::vec(1u8.., 0..9_000)).prop_map(|(at, data)| Step::Write(at, data)),
            (0..40_000u64).prop_map(Step::SetSize),
            (0..40_000u64).prop_map(Step::Reserve),
            (0..40_000u64, 0..20_000u64).prop_map(|(at, length)| Step::Zero(at, length)),
        ]
    }

    /// Applies a step to plain bytes, as the reference.
    fn plain(bytes: &mut Vec<u8>, step: &Step) {
        match step {
            Step::Write(_, data) if data.is_empty() => {}
            Step::Write(at, data) => {
                let (start, end) = (*at as usize, *at as usize + data.len());
                bytes.resize(bytes.len().max(end), 0);
                bytes[start..end].copy_from_slice(data);
            }
            Step::SetSize(size) => bytes.resize(*size as usize, 0),
            Step::Reserve(_) => {}
            Step::Zero(at, length) => {
                let end = bytes.len().min((at + length) as usize);
                bytes[end.min(*at as usize)..end].fill(0);
            }
        }
    }

    proptest! {
        #[test]
        fn pages_read_as_plain_bytes_and_count_their_memory(steps in proptest::collection::vec(step(), 0..12)) {
            let (mut pages, mut bytes) = (Pages::default(), Vec::new());
            let mut quota = Quota { used: 0, limit: 1_000 };
            for step in &steps {
                plain(&mut bytes, step);
                match step {
                    Step::Write(at, data) => prop_assert!(pages.write(*at, data, &mut quota).is_ok()),
                    Step::SetSize(size) => pages.set_size(*size, &mut quota),
                    Step::Reserve(size) => prop_assert!(pages.reserve(*size, &mut quota).is_ok()),
                    Step::Zero(at, length) => pages.zero(*at, *length, &mut quota),
                }
                prop_assert_eq!(pages.allocated(), quota.used);
                let mut read = vec![0xee; bytes.len() + 10];
                prop_assert_eq!(pages.read(0, &mut read), bytes.len());
                prop_assert_eq!(&read[..bytes.len()], &bytes[..]);
                let mut holes = vec![true; bytes.len()];
                for range in pages.data_ranges(0, u64::MAX) {
                    holes[range.offset as usize..(range.offset + range.length) as usize].fill(false);
                }
                prop_assert!(bytes.iter().zip(&holes).all(|(&byte, &hole)| byte == 0 || !hole));
            }
        }
    }
}
