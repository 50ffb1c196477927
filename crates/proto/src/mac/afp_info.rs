//! The content of the stream `AFP_AfpInfo`: the Finder info of a file or directory.

use crate::bytes::{Malformed, Reader, Result};

/// The signature, `AFP` and a zero byte.
const SIGNATURE: [u8; 4] = *b"AFP\0";
const VERSION: [u8; 4] = [0, 0, 1, 0];
/// The backup time of a file that was never backed up.
pub const NO_BACKUP: [u8; 4] = [0x80, 0, 0, 0];

/// The Finder info of a file: its type, its creator, flags, position and extended flags.
pub type FinderInfo = [u8; 32];

/// The content of the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AfpInfo {
    /// The time of the last backup, since 2000.
    pub backup_time: [u8; 4],
    /// The Finder info.
    pub finder: FinderInfo,
    /// Information for ProDOS.
    pub prodos: [u8; 6],
}

impl AfpInfo {
    /// The size of the content in bytes.
    pub const SIZE: usize = 60;

    /// Returns the content with this Finder info.
    pub fn of(finder: FinderInfo) -> AfpInfo {
        AfpInfo { backup_time: NO_BACKUP, finder, prodos: [0; 6] }
    }

    /// Reads the content.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        if reader.array()? != SIGNATURE || reader.array()? != VERSION {
            return Err(Malformed::Value);
        }
        reader.skip(4)?;
        let (backup_time, finder, prodos) = (reader.array()?, reader.array()?, reader.array()?);
        reader.skip(6)?;
        if reader.remaining() == 0 { Ok(AfpInfo { backup_time, finder, prodos }) } else { Err(Malformed::Structure) }
    }

    /// Returns the content as bytes.
    pub fn encode(&self) -> [u8; AfpInfo::SIZE] {
        let mut bytes = [0; AfpInfo::SIZE];
        bytes[..4].copy_from_slice(&SIGNATURE);
        bytes[4..8].copy_from_slice(&VERSION);
        bytes[12..16].copy_from_slice(&self.backup_time);
        bytes[16..48].copy_from_slice(&self.finder);
        bytes[48..54].copy_from_slice(&self.prodos);
        bytes
    }

    /// Returns whether the Finder info has no information. A stream with such content is removed.
    pub fn is_empty(&self) -> bool {
        self.finder == [0; 32]
    }
}

/// Returns the Finder info as an entry of a listing has it: type and creator, which only files have, flags, extended
/// flags, and the date when the entry was added to its directory.
pub fn compressed(finder: &FinderInfo, is_file: bool, added: u32) -> [u8; 16] {
    let mut short = [0; 16];
    if is_file {
        short[..8].copy_from_slice(&finder[..8]);
    }
    short[8..10].copy_from_slice(&finder[8..10]);
    short[10..12].copy_from_slice(&finder[24..26]);
    short[12..].copy_from_slice(&added.to_be_bytes());
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> AfpInfo {
        AfpInfo::of(std::array::from_fn(|at| at as u8 + 1))
    }

    #[test]
    fn the_content_has_60_bytes() {
        let bytes = sample().encode();
        assert_eq!(bytes[..16], [0x41, 0x46, 0x50, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0x80, 0, 0, 0]);
        assert_eq!((bytes[16], bytes[47], &bytes[48..]), (1, 32, &[0; 12][..]));
        assert_eq!(AfpInfo::decode(&bytes), Ok(sample()));
        assert!(!sample().is_empty() && AfpInfo::of([0; 32]).is_empty());
    }

    #[test]
    fn other_content_is_refused() {
        let bytes = sample().encode();
        assert!((0..60).all(|end| AfpInfo::decode(&bytes[..end]).is_err()));
        assert!(AfpInfo::decode(&[&bytes[..], &[0]].concat()).is_err());
        for at in 0..8 {
            let mut wrong = bytes;
            wrong[at] ^= 1;
            assert_eq!(AfpInfo::decode(&wrong), Err(Malformed::Value));
        }
    }

    #[test]
    fn an_entry_has_16_bytes_of_it() {
        let expected = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 25, 26, 0xff, 0, 0, 2];
        assert_eq!(compressed(&sample().finder, true, 0xff00_0002), expected);
        assert_eq!(compressed(&sample().finder, false, 0)[..10], [0, 0, 0, 0, 0, 0, 0, 0, 9, 10]);
    }
}
