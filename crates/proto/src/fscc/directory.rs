//! Directory entries, one structure for all information classes of QUERY_DIRECTORY ([MS-FSCC] 2.4.8, 2.4.10, 2.4.15,
//! 2.4.18 to 2.4.24, 2.4.33; [MS-SMB2] 2.2.33). FileIdGlobalTxDirectoryInformation is used only locally and not
//! implemented.

use super::name::decode_text;
use super::{Entries, EntryChain, FileAttributes, FileInformationClass, PosixAttributes, ReparseTag};
use crate::bytes::{Malformed, Reader, Result, Writer};
use crate::dtyp::FileTime;

/// A part between FileNameLength and FileName of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Part {
    /// EaSize, or the reparse tag if the file has one.
    EaSizeOrTag,
    EaSize,
    ReparsePointTag,
    FileId,
    FileId128,
    /// ShortNameLength, a reserved byte and ShortName.
    ShortName,
    /// Reserved bytes.
    Reserved(usize),
    /// What the POSIX extensions add, which is before FileNameLength.
    Posix,
}

/// An information class for QUERY_DIRECTORY, with its layout.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DirectoryClass {
    class: FileInformationClass,
    name_offset: usize,
    parts: &'static [Part],
}

impl DirectoryClass {
    /// The alignment of the entries of a listing, in bytes.
    pub const ALIGNMENT: usize = 8;

    /// Returns `class` with its layout if it is one of a directory listing.
    pub fn new(class: FileInformationClass) -> Option<Self> {
        use Part::{EaSize, EaSizeOrTag, FileId, FileId128, Posix, ReparsePointTag, Reserved, ShortName};
        let (name_offset, parts): (usize, &'static [Part]) = match class {
            FileInformationClass::NAMES => (12, &[]),
            FileInformationClass::DIRECTORY => (64, &[]),
            FileInformationClass::FULL_DIRECTORY => (68, &[EaSizeOrTag]),
            FileInformationClass::BOTH_DIRECTORY => (94, &[EaSizeOrTag, ShortName]),
            FileInformationClass::ID_FULL_DIRECTORY => (80, &[EaSizeOrTag, Reserved(4), FileId]),
            FileInformationClass::ID_BOTH_DIRECTORY => (104, &[EaSizeOrTag, ShortName, Reserved(2), FileId]),
            FileInformationClass::ID_EXTD_DIRECTORY => (88, &[EaSize, ReparsePointTag, FileId128]),
            FileInformationClass::ID_64_EXTD_DIRECTORY => (80, &[EaSize, ReparsePointTag, FileId]),
            FileInformationClass::ID_64_EXTD_BOTH_DIRECTORY => (106, &[EaSize, ReparsePointTag, FileId, ShortName]),
            FileInformationClass::ID_ALL_EXTD_DIRECTORY => (96, &[EaSize, ReparsePointTag, FileId, FileId128]),
            FileInformationClass::ID_ALL_EXTD_BOTH_DIRECTORY => {
                (122, &[EaSize, ReparsePointTag, FileId, FileId128, ShortName])
            }
            // With an owner and a group of Linux.
            FileInformationClass::POSIX => (124, &[Posix]),
            _ => return None,
        };
        Some(DirectoryClass { class, name_offset, parts })
    }

    /// The class.
    pub fn class(self) -> FileInformationClass {
        self.class
    }

    /// The offset of the name in an entry, which is the size of its fixed part. In FilePosixInformation it depends on
    /// the owner and the group; it is that of ids of Linux.
    pub fn name_offset(self) -> usize {
        self.name_offset
    }

    /// Returns whether entries contain more than the name, so that metadata is needed.
    pub fn has_metadata(self) -> bool {
        self.class != FileInformationClass::NAMES
    }
}

/// An 8.3 name of up to twelve UTF-16 code units, or none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ShortName {
    length: u8,
    bytes: [u8; 24],
}

impl ShortName {
    /// No short name.
    pub const NONE: ShortName = ShortName { length: 0, bytes: [0; 24] };

    /// Creates a short name from UTF-16LE bytes; `None` if there are more than 24 or an odd number of them.
    pub fn new(name: &[u8]) -> Option<Self> {
        let mut short = ShortName { length: u8::try_from(name.len()).ok()?, bytes: [0; 24] };
        short.bytes.get_mut(..name.len())?.copy_from_slice(name);
        name.len().is_multiple_of(2).then_some(short)
    }

    /// The UTF-16LE bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let length = usize::from(reader.u8()?);
        reader.skip(1)?;
        let bytes: [u8; 24] = reader.array()?;
        bytes.get(..length).and_then(ShortName::new).ok_or(Malformed::Value)
    }

    fn encode(&self, out: &mut Writer<'_>) {
        out.u8(self.length);
        out.u8(0);
        out.bytes(&self.bytes);
    }
}

/// The fields of an entry in all classes. Each class carries some of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DirectoryEntry<'a> {
    /// The position of the entry in its directory; 0 if that is not fixed.
    pub file_index: u32,
    /// When the file was created.
    pub creation_time: FileTime,
    /// When it was last read.
    pub last_access_time: FileTime,
    /// When data was last written.
    pub last_write_time: FileTime,
    /// When anything about it last changed.
    pub change_time: FileTime,
    /// Size in bytes.
    pub end_of_file: u64,
    /// Bytes allocated.
    pub allocation_size: u64,
    /// Attributes.
    pub file_attributes: FileAttributes,
    /// The size of all extended attributes. In classes that have one field for this and the tag, the field holds the
    /// tag for a file with [`FileAttributes::REPARSE_POINT`].
    pub ea_size: u32,
    /// The tag of the reparse point, if the file has one.
    pub reparse_tag: ReparseTag,
    /// The 8.3 name.
    pub short_name: ShortName,
    /// The 64-bit file id; 0 for none ([MS-FSCC] 2.1.9).
    pub file_id: u64,
    /// The 128-bit file id; zeros for none ([MS-FSCC] 2.1.10).
    pub file_id_128: [u8; 16],
    /// What macOS has instead of other fields of FileIdBothDirectoryInformation.
    pub mac: Option<MacAttributes>,
    /// What the POSIX extensions add, in FilePosixInformation.
    pub posix: Option<PosixAttributes>,
    /// The name in UTF-16LE.
    pub file_name: &'a [u8],
}

/// What entries of FileIdBothDirectoryInformation contain for macOS, once the extensions were negotiated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MacAttributes {
    /// The rights of the user, instead of the size of the extended attributes.
    pub maximal_access: u32,
    /// The length of the resource fork, instead of the start of the short name.
    pub fork_length: u64,
    /// The compressed Finder info ([`compressed`](crate::mac::afp_info::compressed)), instead of its rest.
    pub finder_info: [u8; 16],
    /// The UNIX mode, instead of the reserved bytes.
    pub mode: u16,
}

impl<'a> DirectoryEntry<'a> {
    /// The size of the entry in this class, in bytes.
    pub fn size(&self, class: DirectoryClass) -> usize {
        let fixed = match (class.class(), &self.posix) {
            (FileInformationClass::POSIX, Some(posix)) => 64 + posix.size(),
            _ => class.name_offset(),
        };
        fixed + self.file_name.len()
    }

    /// Appends the entry to a listing. Returns whether it fitted; if not, nothing is written.
    pub fn push(&self, class: DirectoryClass, chain: &mut EntryChain, out: &mut Writer<'_>) -> bool {
        chain.push(out, self.size(class), |out| self.encode(class, out))
    }

    /// Appends one entry with a `NextEntryOffset` of 0.
    pub fn encode(&self, class: DirectoryClass, out: &mut Writer<'_>) {
        out.u32(0);
        out.u32(self.file_index);
        if class.has_metadata() {
            for time in [self.creation_time, self.last_access_time, self.last_write_time, self.change_time] {
                time.encode(out);
            }
            out.u64(self.end_of_file);
            out.u64(self.allocation_size);
            out.u32(self.file_attributes.0);
        }
        if class.class() == FileInformationClass::POSIX {
            self.posix.unwrap_or(PosixAttributes::NONE).encode(out);
        }
        out.u32(u32::try_from(self.file_name.len()).expect("a name is far shorter than 4 GiB"));
        for part in class.parts {
            self.encode_part(*part, out);
        }
        out.bytes(self.file_name);
    }

    fn encode_part(&self, part: Part, out: &mut Writer<'_>) {
        let is_reparse_point = self.file_attributes.contains(FileAttributes::REPARSE_POINT);
        match (part, &self.mac) {
            (Part::EaSizeOrTag, Some(mac)) if !is_reparse_point => return out.u32(mac.maximal_access),
            (Part::ShortName, Some(mac)) => {
                // Samba states the length of the whole field.
                out.u8(24);
                out.u8(0);
                out.u64(mac.fork_length);
                return out.bytes(&mac.finder_info);
            }
            (Part::Reserved(2), Some(mac)) => return out.u16(mac.mode),
            _ => {}
        }
        match part {
            Part::EaSizeOrTag if is_reparse_point => out.u32(self.reparse_tag.0),
            Part::EaSizeOrTag | Part::EaSize => out.u32(self.ea_size),
            Part::ReparsePointTag => out.u32(if is_reparse_point { self.reparse_tag.0 } else { 0 }),
            Part::FileId => out.u64(self.file_id),
            Part::FileId128 => out.bytes(&self.file_id_128),
            Part::ShortName => self.short_name.encode(out),
            Part::Reserved(count) => out.zeros(count),
            Part::Posix => {}
        }
    }

    /// Decodes one entry. Fields that the class does not carry keep their defaults.
    pub fn decode(class: DirectoryClass, bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let mut entry = DirectoryEntry::default();
        reader.skip(4)?;
        entry.file_index = reader.u32()?;
        if class.has_metadata() {
            entry.creation_time = FileTime::decode(&mut reader)?;
            entry.last_access_time = FileTime::decode(&mut reader)?;
            entry.last_write_time = FileTime::decode(&mut reader)?;
            entry.change_time = FileTime::decode(&mut reader)?;
            entry.end_of_file = reader.u64()?;
            entry.allocation_size = reader.u64()?;
            entry.file_attributes = FileAttributes(reader.u32()?);
        }
        if class.class() == FileInformationClass::POSIX {
            entry.posix = Some(PosixAttributes::decode(&mut reader)?);
        }
        let name_length = usize::try_from(reader.u32()?).map_err(|_| Malformed::Truncated)?;
        for part in class.parts {
            entry.decode_part(*part, &mut reader)?;
        }
        entry.file_name = decode_text(&mut reader, name_length)?;
        Ok(entry)
    }

    fn decode_part(&mut self, part: Part, reader: &mut Reader<'_>) -> Result<()> {
        let is_reparse_point = self.file_attributes.contains(FileAttributes::REPARSE_POINT);
        match part {
            Part::EaSizeOrTag if is_reparse_point => self.reparse_tag = ReparseTag(reader.u32()?),
            Part::EaSizeOrTag | Part::EaSize => self.ea_size = reader.u32()?,
            Part::ReparsePointTag => self.reparse_tag = ReparseTag(reader.u32()?),
            Part::FileId => self.file_id = reader.u64()?,
            Part::FileId128 => self.file_id_128 = reader.array()?,
            Part::ShortName => self.short_name = ShortName::decode(reader)?,
            Part::Reserved(count) => reader.skip(count)?,
            Part::Posix => {}
        }
        Ok(())
    }

    /// The entries of a whole listing.
    pub fn list(class: DirectoryClass, bytes: &'a [u8]) -> impl Iterator<Item = Result<DirectoryEntry<'a>>> {
        Entries::new(bytes).map(move |entry| DirectoryEntry::decode(class, entry?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::utf16_bytes;
    use crate::dtyp::Sid;
    use proptest::prelude::*;

    // Every class with the offset of FileName according to the table of its section.
    const CLASSES: [(FileInformationClass, usize); 12] = [
        (FileInformationClass::NAMES, 12),
        (FileInformationClass::DIRECTORY, 64),
        (FileInformationClass::FULL_DIRECTORY, 68),
        (FileInformationClass::BOTH_DIRECTORY, 94),
        (FileInformationClass::ID_FULL_DIRECTORY, 80),
        (FileInformationClass::ID_BOTH_DIRECTORY, 104),
        (FileInformationClass::ID_EXTD_DIRECTORY, 88),
        (FileInformationClass::ID_64_EXTD_DIRECTORY, 80),
        (FileInformationClass::ID_64_EXTD_BOTH_DIRECTORY, 106),
        (FileInformationClass::ID_ALL_EXTD_DIRECTORY, 96),
        (FileInformationClass::ID_ALL_EXTD_BOTH_DIRECTORY, 122),
        (FileInformationClass::POSIX, 124),
    ];

    fn class(class: FileInformationClass) -> DirectoryClass {
        DirectoryClass::new(class).expect("a directory class")
    }

    #[test]
    fn entries_for_macs_have_other_fields() {
        let mac = MacAttributes { maximal_access: 0x1234, fork_length: 0x5678, finder_info: [7; 16], mode: 0o644 };
        let entry = DirectoryEntry { mac: Some(mac), ..sample(b"") };
        let mut bytes = Vec::new();
        entry.encode(class(FileInformationClass::ID_BOTH_DIRECTORY), &mut Writer::new(&mut bytes));
        assert_eq!(bytes[64..68], [0x34, 0x12, 0, 0]);
        assert_eq!(bytes[68..70], [24, 0], "the field is full");
        assert_eq!(bytes[70..78], [0x78, 0x56, 0, 0, 0, 0, 0, 0]);
        assert_eq!((&bytes[78..94], &bytes[94..96]), (&[7; 16][..], &[0xa4, 0x01][..]));
    }

    // Each field has its own byte, so that a misplaced field is detected.
    fn sample(name: &[u8]) -> DirectoryEntry<'_> {
        DirectoryEntry {
            file_index: 0x01010101,
            creation_time: FileTime(0x0202020202020202),
            last_access_time: FileTime(0x0303030303030303),
            last_write_time: FileTime(0x0404040404040404),
            change_time: FileTime(0x0505050505050505),
            end_of_file: 0x0606060606060606,
            allocation_size: 0x0707070707070707,
            file_attributes: FileAttributes(0x08080808),
            ea_size: 0x09090909,
            reparse_tag: ReparseTag(0x0a0a0a0a),
            short_name: ShortName::new(&[0x0b; 4]).expect("two units"),
            file_id: 0x0c0c0c0c0c0c0c0c,
            file_id_128: [0x0d; 16],
            mac: None,
            posix: None,
            file_name: name,
        }
    }

    // `runs` are counts and the byte repeated.
    fn check(information_class: FileInformationClass, entry: &DirectoryEntry<'_>, runs: &[(usize, u8)]) {
        let mut out = Vec::new();
        entry.encode(class(information_class), &mut Writer::new(&mut out));
        let expected: Vec<u8> = runs.iter().flat_map(|(count, byte)| std::iter::repeat_n(*byte, *count)).collect();
        assert_eq!(out, expected, "{information_class:?}");
    }

    #[test]
    fn fields_are_at_the_specified_offsets() {
        use FileInformationClass as Class;
        let name = [0xee; 6];
        let entry = sample(&name);
        let length = [(1, 6), (3, 0)];
        let common = [(4, 0), (4, 1), (8, 2), (8, 3), (8, 4), (8, 5), (8, 6), (8, 7), (4, 8), (1, 6), (3, 0)];
        let short = [(1, 4), (1, 0), (4, 0x0b), (20, 0)];
        let (ea, no_tag, id, id_128, end) = ([(4, 9)], [(4, 0)], [(8, 0x0c)], [(16, 0x0d)], [(6, 0xee)]);
        check(Class::NAMES, &entry, &[&[(4, 0), (4, 1)][..], &length, &end].concat());
        check(Class::DIRECTORY, &entry, &[&common[..], &end].concat());
        check(Class::FULL_DIRECTORY, &entry, &[&common[..], &ea, &end].concat());
        check(Class::BOTH_DIRECTORY, &entry, &[&common[..], &ea, &short, &end].concat());
        check(Class::ID_FULL_DIRECTORY, &entry, &[&common[..], &ea, &[(4, 0)], &id, &end].concat());
        check(Class::ID_BOTH_DIRECTORY, &entry, &[&common[..], &ea, &short, &[(2, 0)], &id, &end].concat());
        check(Class::ID_EXTD_DIRECTORY, &entry, &[&common[..], &ea, &no_tag, &id_128, &end].concat());
        check(Class::ID_64_EXTD_DIRECTORY, &entry, &[&common[..], &ea, &no_tag, &id, &end].concat());
        check(Class::ID_64_EXTD_BOTH_DIRECTORY, &entry, &[&common[..], &ea, &no_tag, &id, &short, &end].concat());
        check(Class::ID_ALL_EXTD_DIRECTORY, &entry, &[&common[..], &ea, &no_tag, &id, &id_128, &end].concat());
        check(
            Class::ID_ALL_EXTD_BOTH_DIRECTORY,
            &entry,
            &[&common[..], &ea, &no_tag, &id, &id_128, &short, &end].concat(),
        );
    }

    #[test]
    fn attributes_of_the_posix_extensions_are_before_the_length_of_the_name() {
        let posix = PosixAttributes {
            inode: 0x0c0c_0c0c_0c0c_0c0c,
            device: 0x0d0d_0d0d,
            links: 0x0e0e_0e0e,
            reparse_tag: 0x0f0f_0f0f,
            mode: 0x1010_1010,
            owner: Sid::unix_user(0x1111_1111),
            group: Sid::EVERYONE,
        };
        let name = [0xee; 6];
        let entry = DirectoryEntry { posix: Some(posix), ..sample(&name) };
        let sid = |count, authority| [(1, 1), (1, count), (5, 0), (1, authority)];
        let runs = [
            &[(4, 0), (4, 1), (8, 2), (8, 3), (8, 4), (8, 5), (8, 6), (8, 7), (4, 8)][..],
            &[(8, 0x0c), (4, 0x0d), (4, 0), (4, 0x0e), (4, 0x0f), (4, 0x10)],
            &sid(2, 22),
            &[(1, 1), (3, 0), (4, 0x11)],
            &sid(1, 1),
            &[(4, 0)],
            &[(1, 6), (3, 0), (6, 0xee)],
        ];
        check(FileInformationClass::POSIX, &entry, &runs.concat());
        let mut bytes = Vec::new();
        let class = class(FileInformationClass::POSIX);
        entry.encode(class, &mut Writer::new(&mut bytes));
        assert_eq!(bytes.len(), entry.size(class));
        let decoded = DirectoryEntry::decode(class, &bytes).map(|entry| (entry.posix, entry.file_name));
        assert_eq!(decoded, Ok((Some(posix), &name[..])));
    }

    #[test]
    fn a_reparse_point_shows_its_tag() {
        let mut entry = sample(&[]);
        entry.file_attributes = FileAttributes::REPARSE_POINT;
        for (information_class, ea_size) in [
            (FileInformationClass::ID_BOTH_DIRECTORY, 0),
            (FileInformationClass::FULL_DIRECTORY, 0),
            (FileInformationClass::ID_EXTD_DIRECTORY, entry.ea_size),
        ] {
            let mut out = Vec::new();
            entry.encode(class(information_class), &mut Writer::new(&mut out));
            let decoded =
                DirectoryEntry::decode(class(information_class), &out).expect("the encoding of this implementation");
            assert_eq!((decoded.reparse_tag, decoded.ea_size), (entry.reparse_tag, ea_size));
        }
    }

    #[test]
    fn fixed_sizes() {
        for (information_class, name_offset) in CLASSES {
            assert_eq!(class(information_class).name_offset(), name_offset);
            let mut out = Vec::new();
            sample(&[]).encode(class(information_class), &mut Writer::new(&mut out));
            assert_eq!(out.len(), name_offset, "{information_class:?}");
        }
        let known = (0..=u8::MAX).filter(|number| DirectoryClass::new(FileInformationClass(*number)).is_some());
        assert_eq!(known.count(), CLASSES.len());
    }

    #[test]
    fn a_listing_stops_at_its_limit() {
        let names: Vec<Vec<u8>> = ["a", "beta", "gamma"].map(utf16_bytes).to_vec();
        let class = class(FileInformationClass::NAMES);
        // 14 -> 16, 20 -> 24, 22: 62 bytes hold all three.
        for (limit, fitting, length) in [(13, 0, 0), (14, 1, 14), (35, 1, 14), (36, 2, 36), (61, 2, 36), (62, 3, 62)] {
            let mut buffer = Vec::new();
            let mut out = Writer::new(&mut buffer);
            let mut chain = EntryChain::new(&out, DirectoryClass::ALIGNMENT, limit);
            let fitted = names
                .iter()
                .take_while(|name| {
                    DirectoryEntry { file_name: name, ..Default::default() }.push(class, &mut chain, &mut out)
                })
                .count();
            assert_eq!((fitted, buffer.len()), (fitting, length), "limit {limit}");
            let listed: Result<Vec<_>> = DirectoryEntry::list(class, &buffer).collect();
            let listed: Vec<&[u8]> =
                listed.expect("the encoding of this implementation").iter().map(|entry| entry.file_name).collect();
            assert_eq!(listed, names[..fitting]);
        }
    }

    #[test]
    fn short_names() {
        assert_eq!(ShortName::new(&[7; 24]).map(|name| name.as_bytes().len()), Some(24));
        assert_eq!(ShortName::new(&[]), Some(ShortName::NONE));
        assert_eq!(ShortName::new(&[7; 26]), None);
        assert_eq!(ShortName::new(&[7; 3]), None);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>, number: u8) {
            if let Some(class) = DirectoryClass::new(FileInformationClass(number % 101)) {
                let _ = DirectoryEntry::list(class, &bytes).count();
            }
        }

        #[test]
        fn decoded_entries_encode_to_the_same_bytes(
            mut bytes in proptest::collection::vec(any::<u8>(), 122..160),
            index in 0..11usize,
        ) {
            let class = class(CLASSES[index].0);
            bytes[..4].fill(0);
            let length = bytes.len() - class.name_offset();
            let at = if class.has_metadata() { 60 } else { 8 };
            bytes[at..at + 4].copy_from_slice(&(length as u32).to_le_bytes());
            if let Ok(entry) = DirectoryEntry::decode(class, &bytes) {
                let mut out = Vec::new();
                entry.encode(class, &mut Writer::new(&mut out));
                prop_assert_eq!(DirectoryEntry::decode(class, &out).map(|again| again.file_name), Ok(entry.file_name));
                prop_assert_eq!(out.len(), bytes.len());
            }
        }
    }
}
