//! Lists of entries that are chained by a `NextEntryOffset` in their first four bytes: directory entries, streams,
//! extended attributes and more.

use crate::bytes::{Malformed, Reader, Result, Writer};

/// Writes a chain into a buffer, up to a size limit.
#[derive(Clone, Debug)]
pub struct EntryChain {
    /// The start of the chain, as a position of the writer.
    start: usize,
    /// The maximum size of the chain in bytes.
    limit: usize,
    /// The alignment of entries.
    alignment: usize,
    /// The offset of the last entry.
    last: Option<usize>,
}

impl EntryChain {
    /// Creates a chain that begins at `out`'s position, has at most `limit` bytes, and aligns its entries to
    /// `alignment` bytes relative to its own start.
    pub fn new(out: &Writer<'_>, alignment: usize, limit: usize) -> Self {
        EntryChain { start: out.position(), limit, alignment, last: None }
    }

    /// Returns whether no entry was written.
    pub fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// The maximum size of another entry in bytes.
    pub fn space(&self, out: &Writer<'_>) -> usize {
        self.limit.saturating_sub(self.next_offset(out))
    }

    /// Appends an entry of `size` bytes, which `encode` writes with 0 as its `NextEntryOffset`, and links the previous
    /// entry to it. Returns whether it fitted; if not, nothing is written.
    pub fn push(&mut self, out: &mut Writer<'_>, size: usize, encode: impl FnOnce(&mut Writer<'_>)) -> bool {
        let offset = self.next_offset(out);
        if offset > self.limit || size > self.limit - offset {
            return false;
        }
        if let Some(last) = self.last {
            let distance = u32::try_from(offset - last).expect("an entry is far shorter than 4 GiB");
            out.patch_u32(self.start + last, distance);
        }
        out.zeros(self.start + offset - out.position());
        encode(out);
        debug_assert_eq!(out.position(), self.start + offset + size);
        self.last = Some(offset);
        true
    }

    fn next_offset(&self, out: &Writer<'_>) -> usize {
        (out.position() - self.start).next_multiple_of(self.alignment)
    }
}

/// Iterates over the entries of a chain. Each item has the bytes from the entry's `NextEntryOffset` up to the next
/// entry, or to the end of the buffer. Ends after the first offset that points outside the buffer or not forward.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    rest: &'a [u8],
}

impl<'a> Entries<'a> {
    /// The entries in `bytes`. An empty slice has no entries.
    pub fn new(bytes: &'a [u8]) -> Self {
        Entries { rest: bytes }
    }

    fn split(&mut self) -> Result<&'a [u8]> {
        let rest = std::mem::take(&mut self.rest);
        match Reader::new(rest).u32()? {
            0 => Ok(rest),
            1..4 => Err(Malformed::Offset),
            distance => {
                let distance = usize::try_from(distance).map_err(|_| Malformed::Offset)?;
                let (entry, following) = rest.split_at_checked(distance).ok_or(Malformed::Offset)?;
                if following.is_empty() {
                    return Err(Malformed::Offset);
                }
                self.rest = following;
                Ok(entry)
            }
        }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() { None } else { Some(self.split()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn push(chain: &mut EntryChain, out: &mut Writer<'_>, tail: &[u8]) -> bool {
        chain.push(out, 4 + tail.len(), |out| {
            out.u32(0);
            out.bytes(tail);
        })
    }

    #[test]
    fn entries_are_aligned_from_the_start_of_the_chain() {
        let mut buffer = vec![0xff; 3];
        let mut out = Writer::new(&mut buffer);
        out.u8(0xee);
        let mut chain = EntryChain::new(&out, 8, 14);
        assert!(chain.is_empty());
        assert!(push(&mut chain, &mut out, &[1]));
        assert_eq!(chain.space(&out), 6);
        assert!(!push(&mut chain, &mut out, &[2, 3, 4]), "seven bytes do not fit into six");
        assert!(push(&mut chain, &mut out, &[2, 3]));
        assert_eq!(chain.space(&out), 0);
        assert!(!push(&mut chain, &mut out, &[]));
        assert_eq!(buffer[4..], [8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 3]);
        let entries: Vec<_> = Entries::new(&buffer[4..]).collect();
        assert_eq!(entries, [Ok(&[8, 0, 0, 0, 1, 0, 0, 0][..]), Ok(&[0, 0, 0, 0, 2, 3][..])]);
    }

    #[test]
    fn an_offset_points_forward_and_inside_the_chain() {
        for (bytes, last) in [
            (&[1, 0, 0, 0, 0, 0, 0, 0][..], Err(Malformed::Offset)),
            (&[8, 0, 0, 0, 0, 0, 0, 0], Err(Malformed::Offset)),
            (&[255, 255, 255, 255], Err(Malformed::Offset)),
            (&[4, 0, 0, 0, 0, 0], Err(Malformed::Truncated)),
            (&[0, 0, 0], Err(Malformed::Truncated)),
            (&[0, 0, 0, 0], Ok(&[0u8, 0, 0, 0][..])),
        ] {
            assert_eq!(Entries::new(bytes).last(), Some(last), "{bytes:?}");
        }
        assert_eq!(Entries::new(&[]).next(), None);
    }

    proptest! {
        #[test]
        fn chained_entries_are_found_again(
            tails in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 0..10),
            limit in 0usize..200,
            alignment in prop_oneof![Just(1usize), Just(4), Just(8)],
        ) {
            let mut buffer = Vec::new();
            let mut out = Writer::new(&mut buffer);
            let mut chain = EntryChain::new(&out, alignment, limit);
            let fitted: Vec<_> = tails.iter().take_while(|tail| push(&mut chain, &mut out, tail)).collect();
            prop_assert!(buffer.len() <= limit);
            let entries: Vec<_> = Entries::new(&buffer).collect::<Result<_>>().expect("a well-formed chain");
            prop_assert_eq!(entries.len(), fitted.len());
            for (entry, tail) in entries.iter().zip(fitted) {
                prop_assert!(entry[4..].starts_with(tail));
            }
        }

        #[test]
        fn arbitrary_bytes_end(bytes: Vec<u8>) {
            prop_assert!(Entries::new(&bytes).count() <= bytes.len());
        }
    }
}
