//! AppleDouble data (version 2): a header with a table of entries. Netatalk and Samba store it in the attribute
//! `org.netatalk.Metadata`; macOS, on file systems without streams, in the file `._NAME`, with extended attributes
//! behind the Finder info.

use crate::bytes::{Malformed, Reader, Result};
use crate::mac::afp_info::{FinderInfo, NO_BACKUP};

const MAGIC: [u8; 4] = [0x00, 0x05, 0x16, 0x07];
const VERSION: [u8; 4] = [0x00, 0x02, 0x00, 0x00];
/// The size of the header in bytes, without the table of entries.
const HEADER: usize = 26;
/// The size of an entry of the table in bytes.
const ENTRY: usize = 12;
/// The most entries that a table may have.
const MOST_ENTRIES: usize = 64;
/// The magic number of the extended attributes behind the Finder info.
const ATTRIBUTES_MAGIC: [u8; 4] = *b"ATTR";
/// The size of their header in bytes, with the two bytes that align it.
const ATTRIBUTES_HEADER: usize = 38;
/// The size in bytes of the longest header with its table.
pub const LONGEST_HEAD: usize = HEADER + MOST_ENTRIES * ENTRY;
/// The most extended attributes that a file may have.
const MOST_ATTRIBUTES: usize = 1024;

/// The ids of entries.
pub mod id {
    /// The resource fork.
    pub const RESOURCE_FORK: u32 = 2;
    /// A comment.
    pub const COMMENT: u32 = 4;
    /// The times of the file.
    pub const FILE_DATES: u32 = 8;
    /// The Finder info, which extended attributes may follow.
    pub const FINDER_INFO: u32 = 9;
    /// The attributes of AFP.
    pub const AFP_FILE_INFO: u32 = 14;
}

/// An entry of the table: a part of the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The kind of the data.
    pub id: u32,
    /// The offset of the data.
    pub offset: usize,
    /// Its length.
    pub length: usize,
}

/// The header and the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AppleDouble {
    /// The entries in their order. An id occurs once.
    pub entries: Vec<Entry>,
}

impl AppleDouble {
    /// Reads the header and the table of data that is `size` bytes long and starts with `bytes`. Every entry with a
    /// length is within `size` and behind the table. No entries overlap. Samba writes empty entries behind the end.
    pub fn decode(bytes: &[u8], size: u64) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        if reader.array()? != MAGIC || reader.array()? != VERSION {
            return Err(Malformed::Value);
        }
        reader.skip(16)?;
        let count = usize::from(u16::from_be_bytes(reader.array()?));
        if count > MOST_ENTRIES {
            return Err(Malformed::Value);
        }
        let table_end = HEADER + count * ENTRY;
        let mut entries: Vec<Entry> = Vec::with_capacity(count);
        for _ in 0..count {
            let mut number = || Ok(u32::from_be_bytes(reader.array()?));
            let (id, offset, length) = (number()?, number()?, number()?);
            if length > 0 && u64::from(offset) + u64::from(length) > size {
                return Err(Malformed::Offset);
            }
            let entry = Entry { id, offset: offset as usize, length: length as usize };
            let overlaps = |other: &Entry| {
                let are_long = entry.length > 0 && other.length > 0;
                are_long && entry.offset < other.offset + other.length && other.offset < entry.offset + entry.length
            };
            let is_placed = entry.length == 0 || entry.offset >= table_end;
            if !is_placed || entries.iter().any(|other| other.id == id || overlaps(other)) {
                return Err(Malformed::Offset);
            }
            entries.push(entry);
        }
        Ok(AppleDouble { entries })
    }

    /// Returns the entry with this id.
    pub fn entry(&self, id: u32) -> Option<Entry> {
        self.entries.iter().copied().find(|entry| entry.id == id)
    }

    /// Returns the resource fork if nothing else follows it, so that its length can change. Where the header has its
    /// length, as four bytes, comes with it.
    pub fn last_fork(&self) -> Option<(Entry, u64)> {
        let at = self.entries.iter().position(|entry| entry.id == id::RESOURCE_FORK)?;
        let fork = self.entries[at];
        let is_before =
            |other: &Entry| other.id == fork.id || other.length == 0 || other.offset + other.length <= fork.offset;
        let is_placed = fork.offset >= HEADER + self.entries.len() * ENTRY;
        (is_placed && self.entries.iter().all(is_before)).then(|| (fork, (HEADER + at * ENTRY + 8) as u64))
    }

    /// Returns where the header has the length of the Finder info, as four bytes.
    pub fn finder_info_length_at(&self) -> Option<u64> {
        let at = self.entries.iter().position(|entry| entry.id == id::FINDER_INFO)?;
        Some((HEADER + at * ENTRY + 8) as u64)
    }

    /// Returns whether the data, `size` bytes long, has nothing but Finder info with extended attributes and a resource
    /// fork.
    pub fn is_of_macos(&self, size: u64) -> bool {
        let is_known = |entry: &Entry| entry.length == 0 || [id::FINDER_INFO, id::RESOURCE_FORK].contains(&entry.id);
        let end = self.entries.iter().filter(|entry| entry.length > 0).map(|entry| entry.offset + entry.length).max();
        self.entries.iter().all(is_known) && end.is_none_or(|end| end as u64 == size)
    }

    /// Returns the Finder info, if the data has one that is not cut off.
    pub fn finder_info(&self, bytes: &[u8]) -> Option<FinderInfo> {
        let entry = self.entry(id::FINDER_INFO).filter(|entry| entry.length >= 32)?;
        bytes.get(entry.offset..)?.first_chunk().copied()
    }

    /// Returns whether the data has information other than the Finder info: extended attributes, a comment, attributes
    /// of AFP, an id of Netatalk, a date of a backup, or a date of creation other than `created`. Dates of the last
    /// change and access are not counted.
    pub fn has_more_than_finder_info(&self, bytes: &[u8], created: u32) -> bool {
        let of = |entry: &Entry| bytes.get(entry.offset..entry.offset + entry.length).unwrap_or_default();
        let date = |dates: &[u8], at: usize| {
            let date = dates.get(at..).and_then(|rest| rest.first_chunk().copied());
            u32::from_be_bytes(date.unwrap_or(NO_BACKUP))
        };
        let none = u32::from_be_bytes(NO_BACKUP);
        self.entries.iter().any(|entry| match entry.id {
            id::FINDER_INFO => entry.length > 32,
            id::FILE_DATES => {
                ![created, none, 0].contains(&date(of(entry), 0)) || ![none, 0].contains(&date(of(entry), 8))
            }
            _ => of(entry).iter().any(|&byte| byte != 0),
        })
    }

    /// Returns whether what follows the Finder info, in `bytes`, is extended attributes or nothing.
    pub fn has_only_attributes(&self, bytes: &[u8]) -> bool {
        let entry = self.entry(id::FINDER_INFO).filter(|entry| entry.length > 32);
        let rest = entry.and_then(|entry| bytes.get(entry.offset + 32..entry.offset + entry.length));
        rest.is_none_or(|rest| {
            let has_magic = rest.len() >= ATTRIBUTES_HEADER && rest[2..].starts_with(&ATTRIBUTES_MAGIC);
            has_magic || rest.iter().all(|&byte| byte == 0)
        })
    }

    /// Returns the extended attributes behind the Finder info, in `bytes`, which hold all the data before the resource
    /// fork. Data that has none gives an empty list.
    pub fn attributes<'a>(&self, bytes: &'a [u8]) -> Result<Vec<(&'a str, &'a [u8])>> {
        let Some(entry) = self.entry(id::FINDER_INFO).filter(|entry| entry.length > 32) else { return Ok(Vec::new()) };
        let end = entry.offset + entry.length;
        let area = bytes.get(..end).ok_or(Malformed::Truncated)?;
        let mut reader = Reader::new(&area[entry.offset + 32..]);
        if reader.remaining() < ATTRIBUTES_HEADER {
            return Ok(Vec::new());
        }
        reader.skip(2)?;
        if reader.array()? != ATTRIBUTES_MAGIC {
            return Ok(Vec::new());
        }
        // The file's tag, the total size, the start and the length of the values, three reserved numbers, and flags.
        reader.skip(4 + 4 + 4 + 4 + 12 + 2)?;
        let count = usize::from(u16::from_be_bytes(reader.array()?));
        if count > MOST_ATTRIBUTES {
            return Err(Malformed::Value);
        }
        (0..count).map(|_| attribute(&mut reader, area, entry.offset)).collect()
    }
}

/// Reads the entry of an extended attribute: the place of its value, flags, and its name.
fn attribute<'a>(reader: &mut Reader<'a>, area: &'a [u8], start: usize) -> Result<(&'a str, &'a [u8])> {
    let offset = u32::from_be_bytes(reader.array()?) as usize;
    let length = u32::from_be_bytes(reader.array()?) as usize;
    reader.skip(2)?;
    let name_length = usize::from(reader.u8()?);
    let name = reader.take(name_length)?.strip_suffix(&[0]).ok_or(Malformed::Value)?;
    let name = std::str::from_utf8(name).map_err(|_| Malformed::Value)?;
    let is_name = !name.is_empty() && !name.contains('\0');
    // Entries are aligned to four bytes.
    reader.skip((11 + name_length).next_multiple_of(4) - (11 + name_length))?;
    let value = offset.checked_add(length).and_then(|end| area.get(offset..end)).ok_or(Malformed::Offset)?;
    if is_name && offset >= start { Ok((name, value)) } else { Err(Malformed::Offset) }
}

/// The size in bytes of the data in the attribute `org.netatalk.Metadata`.
pub const METADATA_SIZE: usize = 402;

/// The entries of that data: id, offset and length. Space for a comment of 200 bytes follows the Finder info. The last
/// four are Netatalk's own.
const METADATA: [(u32, usize, usize); 8] = [
    (id::COMMENT, 154, 0),
    (id::FILE_DATES, 354, 16),
    (id::FINDER_INFO, 122, 32),
    (id::AFP_FILE_INFO, 370, 4),
    (0x8044_4556, 374, 0),
    (0x8049_4e4f, 382, 0),
    (0x8053_594e, 390, 0),
    (0x8053_567e, 398, 0),
];

/// Returns the value of `org.netatalk.Metadata` of a file that had none, with this Finder info. The file was created at
/// `created` and modified at `modified`, in seconds since 1970.
pub fn metadata(finder: &FinderInfo, created: i64, modified: i64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(METADATA_SIZE);
    header(&mut bytes, &[0; 16], &METADATA);
    bytes.resize(METADATA_SIZE, 0);
    bytes[122..154].copy_from_slice(finder);
    let dates = [super::date(created), super::date(modified), 0x8000_0000, super::date(modified)];
    for (at, date) in dates.iter().enumerate() {
        bytes[354 + 4 * at..][..4].copy_from_slice(&date.to_be_bytes());
    }
    bytes
}

/// The size in bytes of an AppleDouble file of Samba without a resource fork.
pub const FILE_SIZE: usize = 82;

/// Returns the AppleDouble file of a file without Finder info and resource fork, as Samba and Netatalk create it. The
/// resource fork is the last part.
pub fn file() -> [u8; FILE_SIZE] {
    let mut bytes = Vec::with_capacity(FILE_SIZE);
    header(&mut bytes, b"Netatalk        ", &[(id::RESOURCE_FORK, FILE_SIZE, 0), (id::FINDER_INFO, 50, 32)]);
    let mut file = [0; FILE_SIZE];
    file[..bytes.len()].copy_from_slice(&bytes);
    file
}

/// The size in bytes of the resource fork that macOS writes where there is none.
pub const BLANK_FORK_SIZE: usize = 286;

/// Returns whether this is the resource fork that macOS writes where there is none: a header, a notice in place of the
/// system's data, and an empty map that repeats the header.
pub fn is_blank_fork(fork: &[u8]) -> bool {
    let mut blank = [0; BLANK_FORK_SIZE];
    let notice = b"This resource fork intentionally left blank   ";
    for at in [0, 256] {
        // The data and the map begin at 256. The former is empty, the latter has 30 bytes.
        (blank[at + 2], blank[at + 6], blank[at + 15]) = (1, 1, 30);
    }
    blank[16..16 + notice.len()].copy_from_slice(notice);
    // The lists of types and of names, and the number of types less one.
    blank[280..].copy_from_slice(&[0, 28, 0, 30, 0xff, 0xff]);
    fork == blank
}

/// Returns whether data that starts with `bytes` claims to be AppleDouble data.
pub fn has_signature(bytes: &[u8]) -> bool {
    bytes.strip_prefix(&MAGIC).is_some_and(|rest| rest.starts_with(&VERSION))
}

/// Appends the header and the table.
fn header(bytes: &mut Vec<u8>, creator: &[u8; 16], entries: &[(u32, usize, usize)]) {
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION);
    bytes.extend_from_slice(creator);
    bytes.extend_from_slice(&(entries.len() as u16).to_be_bytes());
    for (id, offset, length) in entries {
        for number in [*id, *offset as u32, *length as u32] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FINDER: FinderInfo = *b"TEXTttxt\x40\0\0\0\0\0\0\0................";

    /// An AppleDouble file of macOS with one extended attribute.
    fn of_macos(fork: &[u8]) -> Vec<u8> {
        let (name, value) = (b"com.apple.x\0", b"value");
        let mut area = FINDER.to_vec();
        area.extend_from_slice(&[0; 2]);
        area.extend_from_slice(b"ATTR");
        area.extend_from_slice(&[0; 4]);
        let values = 50 + 32 + 38 + (11 + name.len()).next_multiple_of(4);
        for number in [values + value.len(), values, value.len(), 0, 0, 0] {
            area.extend_from_slice(&(number as u32).to_be_bytes());
        }
        area.extend_from_slice(&[0, 0, 0, 1]);
        area.extend_from_slice(&(values as u32).to_be_bytes());
        area.extend_from_slice(&(value.len() as u32).to_be_bytes());
        area.extend_from_slice(&[0, 0, name.len() as u8]);
        area.extend_from_slice(name);
        area.resize(values - 50, 0);
        area.extend_from_slice(value);
        let mut bytes = Vec::new();
        let entries = [(id::FINDER_INFO, 50, area.len()), (id::RESOURCE_FORK, 50 + area.len(), fork.len())];
        header(&mut bytes, b"Mac OS X        ", &entries);
        bytes.extend(area);
        bytes.extend_from_slice(fork);
        bytes
    }

    #[test]
    fn other_information_than_the_finder_info() {
        let check = |change: &dyn Fn(&mut Vec<u8>), expected: bool| {
            let mut bytes = metadata(&FINDER, 1_000_000_000, 1_100_000_000);
            change(&mut bytes);
            let double = AppleDouble::decode(&bytes, bytes.len() as u64).expect("it is valid");
            let created = super::super::date(1_000_000_000);
            assert_eq!(double.has_more_than_finder_info(&bytes, created), expected);
        };
        check(&|_| {}, false);
        // The length of the comment, which is the first entry, and its first byte.
        check(&|bytes| (bytes[26 + 11], bytes[154]) = (1, b'c'), true);
        check(&|bytes| bytes[373] = 1, true);
        check(&|bytes| bytes[354] ^= 1, true);
        check(&|bytes| bytes[354 + 4] ^= 1, false);
        check(&|bytes| bytes[354 + 8 + 3] = 1, true);
    }

    #[test]
    fn a_file_of_macos_is_read() {
        let bytes = of_macos(b"fork");
        let double = AppleDouble::decode(&bytes, bytes.len() as u64).expect("valid");
        assert_eq!(double.finder_info(&bytes), Some(FINDER));
        assert_eq!(double.attributes(&bytes), Ok(vec![("com.apple.x", &b"value"[..])]));
        let fork = double.entry(id::RESOURCE_FORK).expect("it has a fork");
        assert_eq!(&bytes[fork.offset..], b"fork");
    }

    #[test]
    fn metadata_of_netatalk_round_trips() {
        let bytes = metadata(&FINDER, super::super::EPOCH + 1, super::super::EPOCH + 2);
        assert_eq!(bytes.len(), METADATA_SIZE);
        let double = AppleDouble::decode(&bytes, bytes.len() as u64).expect("valid");
        assert_eq!(double.finder_info(&bytes), Some(FINDER));
        assert_eq!(double.entries.len(), 8);
        assert_eq!(bytes[354..370], [0, 0, 0, 1, 0, 0, 0, 2, 0x80, 0, 0, 0, 0, 0, 0, 2]);
    }

    #[test]
    fn entries_outside_of_the_data_are_refused() {
        let good = of_macos(b"fork");
        let size = good.len() as u64;
        assert!(AppleDouble::decode(&good, size - 1).is_err(), "the fork is cut off");
        assert!((0..50).all(|end| AppleDouble::decode(&good[..end], size).is_err()));
        for (at, byte) in [(0, 1), (4, 1), (24, 1), (25, 80), (29, 2), (33, 0), (45, 60)] {
            let mut wrong = good.clone();
            wrong[at] = byte;
            assert!(AppleDouble::decode(&wrong, size).is_err(), "{byte} at {at}");
        }
    }

    /// The bytes that Samba 4.17 writes.
    #[test]
    fn a_file_is_as_samba_writes_it() {
        let bytes = file();
        let double = AppleDouble::decode(&bytes, 82).expect("valid");
        assert_eq!(bytes[..8], [0, 5, 0x16, 7, 0, 2, 0, 0]);
        assert_eq!(&bytes[8..24], b"Netatalk        ");
        assert_eq!(
            bytes[24..50],
            [0, 2, 0, 0, 0, 2, 0, 0, 0, 0x52, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0x32, 0, 0, 0, 0x20]
        );
        assert!(bytes[50..].iter().all(|&byte| byte == 0) && has_signature(&bytes) && !has_signature(&bytes[..7]));
        let (fork, length) = double.last_fork().expect("it is last");
        assert_eq!((fork.offset, fork.length, length), (82, 0, 34));
        assert_eq!(double.finder_info(&bytes), Some([0; 32]));
    }

    #[test]
    fn a_fork_before_other_data_is_not_extended() {
        let mut bytes = of_macos(b"fork");
        let double = AppleDouble::decode(&bytes, bytes.len() as u64).expect("valid");
        assert_eq!(double.last_fork().map(|(fork, at)| (fork.length, at)), Some((4, 46)));
        // The ids are exchanged, so that the Finder info is behind the fork.
        (bytes[29], bytes[41]) = (bytes[41], bytes[29]);
        let double = AppleDouble::decode(&bytes, bytes.len() as u64).expect("valid");
        assert_eq!(double.last_fork(), None);
        // An empty fork inside of the table.
        let mut inside = file();
        inside[33] = 40;
        let double = AppleDouble::decode(&inside, 82).expect("valid");
        assert_eq!(double.last_fork(), None);
    }

    /// Samba 4.17 leaves the offset of an empty fork behind the end when it converts a file of macOS.
    #[test]
    fn an_empty_fork_may_begin_behind_the_end() {
        let mut bytes = file();
        bytes[30..34].copy_from_slice(&0x0ee2_u32.to_be_bytes());
        let double = AppleDouble::decode(&bytes, 82).expect("valid");
        assert_eq!(double.last_fork().map(|(fork, _)| (fork.offset, fork.length)), Some((0x0ee2, 0)));
    }

    #[test]
    fn what_macos_writes_is_told_from_other_data() {
        let bytes = of_macos(b"fork");
        let decode = |bytes: &[u8]| AppleDouble::decode(bytes, bytes.len() as u64).expect("valid");
        assert!(decode(&bytes).is_of_macos(bytes.len() as u64));
        assert_eq!(decode(&bytes).finder_info_length_at(), Some(34));
        assert!(decode(&bytes).has_only_attributes(&bytes));
        let mut unknown = bytes.clone();
        unknown[84] = b'B';
        assert!(!decode(&unknown).has_only_attributes(&unknown), "no attributes behind the Finder info");
        let longer = [&bytes[..], b"?"].concat();
        assert!(!decode(&longer).is_of_macos(longer.len() as u64), "bytes behind the fork");
        let mut other = bytes.clone();
        other[41] = id::COMMENT as u8;
        assert!(!decode(&other).is_of_macos(other.len() as u64), "a comment");
    }

    #[test]
    fn a_blank_fork_is_recognized() {
        let mut fork = vec![0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 30];
        fork.extend_from_slice(b"This resource fork intentionally left blank   ");
        fork.resize(256, 0);
        fork.extend_from_slice(&[0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 30]);
        fork.resize(281, 0);
        fork.extend_from_slice(&[28, 0, 30, 0xff, 0xff]);
        assert!(is_blank_fork(&fork) && !is_blank_fork(&fork[..285]));
        fork[100] = 1;
        assert!(!is_blank_fork(&fork));
    }

    #[test]
    fn huge_counts_and_overlapping_entries_are_refused() {
        for count in [65_u16, 0x7fff, u16::MAX] {
            let mut bytes = of_macos(b"fork");
            bytes[24..26].copy_from_slice(&count.to_be_bytes());
            assert!(AppleDouble::decode(&bytes, bytes.len() as u64).is_err(), "{count} entries");
        }
        let mut bytes = of_macos(b"fork");
        bytes[116..120].copy_from_slice(&u32::MAX.to_be_bytes());
        let double = AppleDouble::decode(&bytes, bytes.len() as u64).expect("valid");
        assert!(double.attributes(&bytes).is_err(), "the count of attributes");
        let mut bytes = file();
        // The Finder info begins within the table, at the end of the fork, or reaches over the end of the file.
        for (offset, length) in [(49_u32, 32_u32), (51, 32), (u32::MAX, 32), (50, u32::MAX), (0, 1)] {
            bytes[42..46].copy_from_slice(&offset.to_be_bytes());
            bytes[46..50].copy_from_slice(&length.to_be_bytes());
            assert!(AppleDouble::decode(&bytes, 82).is_err(), "{length} bytes at {offset}");
        }
    }

    proptest! {
        #[test]
        fn nothing_outside_of_the_data_is_read(at in 0_usize..200, byte: u8, end in 0_usize..200) {
            let mut bytes = of_macos(b"fork");
            if let Some(changed) = bytes.get_mut(at) {
                *changed = byte;
            }
            bytes.truncate(end);
            if let Ok(double) = AppleDouble::decode(&bytes, bytes.len() as u64) {
                for entry in &double.entries {
                    prop_assert!(entry.offset + entry.length <= bytes.len());
                }
                let _ = double.finder_info(&bytes);
                prop_assert!(double.attributes(&bytes).unwrap_or_default().len() <= bytes.len());
            }
        }
    }
}
