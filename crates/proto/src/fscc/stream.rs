//! The list of a file's streams ([MS-FSCC] 2.4.49).

use super::name::decode_text;
use super::{Entries, EntryChain};
use crate::bytes::{Malformed, Reader, Result, Writer};

/// FILE_STREAM_INFORMATION: one stream of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileStreamInformation<'a> {
    /// Size in bytes.
    pub stream_size: u64,
    /// Bytes allocated.
    pub stream_allocation_size: u64,
    /// `:name:$DATA` in UTF-16LE, `::$DATA` for the file's own data.
    pub stream_name: &'a [u8],
}

impl<'a> FileStreamInformation<'a> {
    /// The alignment of entries, in bytes.
    pub const ALIGNMENT: usize = 8;

    /// The size of the fixed part before the name, in bytes.
    pub const FIXED_SIZE: usize = 24;

    /// Appends an entry to a list and returns whether it fitted.
    pub fn push(&self, chain: &mut EntryChain, out: &mut Writer<'_>) -> bool {
        chain.push(out, Self::FIXED_SIZE + self.stream_name.len(), |out| {
            out.u32(0);
            out.u32(u32::try_from(self.stream_name.len()).expect("a name is far shorter than 4 GiB"));
            out.u64(self.stream_size);
            out.u64(self.stream_allocation_size);
            out.bytes(self.stream_name);
        })
    }

    /// Reads one entry.
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        reader.skip(4)?;
        let length = usize::try_from(reader.u32()?).map_err(|_| Malformed::Truncated)?;
        Ok(FileStreamInformation {
            stream_size: reader.u64()?,
            stream_allocation_size: reader.u64()?,
            stream_name: decode_text(&mut reader, length)?,
        })
    }

    /// The entries of a whole list.
    pub fn list(bytes: &'a [u8]) -> impl Iterator<Item = Result<FileStreamInformation<'a>>> {
        Entries::new(bytes).map(|entry| FileStreamInformation::decode(entry?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::utf16_bytes;
    use proptest::prelude::*;

    #[test]
    fn a_list_of_two() {
        let (data, other) = (utf16_bytes("::$DATA"), utf16_bytes(":a:$DATA"));
        let streams = [
            FileStreamInformation { stream_size: 5, stream_allocation_size: 4096, stream_name: &data },
            FileStreamInformation { stream_size: 1, stream_allocation_size: 1, stream_name: &other },
        ];
        let mut buffer = Vec::new();
        let mut out = Writer::new(&mut buffer);
        let mut chain = EntryChain::new(&out, FileStreamInformation::ALIGNMENT, 80);
        assert!(streams.iter().all(|stream| stream.push(&mut chain, &mut out)));
        assert!(!streams[0].push(&mut chain, &mut out));
        assert_eq!(buffer[..8], [40, 0, 0, 0, 14, 0, 0, 0]);
        assert_eq!(buffer.len(), 80);
        assert_eq!(FileStreamInformation::list(&buffer).collect::<Result<Vec<_>>>(), Ok(streams.to_vec()));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = FileStreamInformation::list(&bytes).count();
        }
    }
}
