//! The changes that CHANGE_NOTIFY reports ([MS-FSCC] 2.7.1).

use super::name::decode_text;
use super::{Entries, EntryChain};
use crate::bytes::{Malformed, Reader, Result, Writer};
use crate::values::values;

values! {
    /// The change of a file.
    pub struct FileAction(u32) {
        /// It was created.
        ADDED = 0x0000_0001;
        /// It was removed.
        REMOVED = 0x0000_0002;
        /// Its data or attributes changed.
        MODIFIED = 0x0000_0003;
        /// It was renamed; this is the old name.
        RENAMED_OLD_NAME = 0x0000_0004;
        /// It was renamed; this is the new name.
        RENAMED_NEW_NAME = 0x0000_0005;
        /// A stream was created.
        ADDED_STREAM = 0x0000_0006;
        /// A stream was removed.
        REMOVED_STREAM = 0x0000_0007;
        /// A stream changed.
        MODIFIED_STREAM = 0x0000_0008;
        /// An object id was removed with its file.
        REMOVED_BY_DELETE = 0x0000_0009;
        /// An object id could not be kept.
        ID_NOT_TUNNELLED = 0x0000_000a;
        /// The file already had an object id.
        TUNNELLED_ID_COLLISION = 0x0000_000b;
    }
}

/// FILE_NOTIFY_INFORMATION: one change of the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileNotifyInformation<'a> {
    /// The change.
    pub action: FileAction,
    /// The path below the watched directory in UTF-16LE.
    pub file_name: &'a [u8],
}

impl<'a> FileNotifyInformation<'a> {
    /// The alignment of entries, in bytes.
    pub const ALIGNMENT: usize = 4;

    /// The size of the fixed part before the name, in bytes.
    pub const FIXED_SIZE: usize = 12;

    /// Appends an entry to a list and returns whether it fitted. The last entry is padded like the others.
    pub fn push(&self, chain: &mut EntryChain, out: &mut Writer<'_>) -> bool {
        let padded = self.file_name.len().next_multiple_of(Self::ALIGNMENT);
        chain.push(out, Self::FIXED_SIZE + padded, |out| {
            out.u32(0);
            out.u32(self.action.0);
            out.u32(u32::try_from(self.file_name.len()).expect("a name is far shorter than 4 GiB"));
            out.bytes(self.file_name);
            out.zeros(padded - self.file_name.len());
        })
    }

    /// Reads one entry.
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        reader.skip(4)?;
        let action = FileAction(reader.u32()?);
        let length = usize::try_from(reader.u32()?).map_err(|_| Malformed::Truncated)?;
        Ok(FileNotifyInformation { action, file_name: decode_text(&mut reader, length)? })
    }

    /// The entries of a whole list.
    pub fn list(bytes: &'a [u8]) -> impl Iterator<Item = Result<FileNotifyInformation<'a>>> {
        Entries::new(bytes).map(|entry| FileNotifyInformation::decode(entry?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_rename() {
        let changes = [
            FileNotifyInformation { action: FileAction::RENAMED_OLD_NAME, file_name: &[0x61, 0] },
            FileNotifyInformation { action: FileAction::RENAMED_NEW_NAME, file_name: &[0x62, 0] },
        ];
        #[rustfmt::skip]
        let wire = [
            16, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, 0x61, 0, 0, 0,
            0, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0, 0x62, 0, 0, 0,
        ];
        for (limit, fits) in [(32, true), (31, false)] {
            let mut buffer = Vec::new();
            let mut out = Writer::new(&mut buffer);
            let mut chain = EntryChain::new(&out, FileNotifyInformation::ALIGNMENT, limit);
            assert_eq!(changes.iter().all(|change| change.push(&mut chain, &mut out)), fits);
            assert_eq!(buffer == wire, fits);
        }
        assert_eq!(FileNotifyInformation::list(&wire).collect::<Result<Vec<_>>>(), Ok(changes.to_vec()));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = FileNotifyInformation::list(&bytes).count();
        }
    }
}
