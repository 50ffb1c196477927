//! Quotas per user ([MS-FSCC] 2.4.41).

use super::{Entries, EntryChain};
use crate::bytes::{Malformed, Reader, Result, Writer};
use crate::dtyp::{FileTime, Sid};

// Reads a SID that must have exactly the length of its length field.
fn decode_sid(reader: &mut Reader<'_>, length: usize) -> Result<Sid> {
    let mut sid = Reader::new(reader.take(length)?);
    let decoded = Sid::decode(&mut sid)?;
    if sid.remaining() == 0 { Ok(decoded) } else { Err(Malformed::Value) }
}

fn sid_length(sid: &Sid) -> u32 {
    u32::try_from(sid.size()).expect("a SID has at most 68 bytes")
}

/// FILE_QUOTA_INFORMATION: the quota of one user. All ones mean no threshold or no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileQuotaInformation {
    /// When it was last changed.
    pub change_time: FileTime,
    /// The number of bytes that the user occupies.
    pub quota_used: u64,
    /// The number of bytes from which the user is warned.
    pub quota_threshold: u64,
    /// The number of bytes that the user may occupy.
    pub quota_limit: u64,
    /// The user.
    pub sid: Sid,
}

impl FileQuotaInformation {
    /// The alignment of entries, in bytes.
    pub const ALIGNMENT: usize = 8;

    /// The size of the fixed part before the SID, in bytes.
    pub const FIXED_SIZE: usize = 40;

    /// Appends an entry to a list and returns whether it fitted.
    pub fn push(&self, chain: &mut EntryChain, out: &mut Writer<'_>) -> bool {
        chain.push(out, Self::FIXED_SIZE + self.sid.size(), |out| {
            out.u32(0);
            out.u32(sid_length(&self.sid));
            self.change_time.encode(out);
            out.u64(self.quota_used);
            out.u64(self.quota_threshold);
            out.u64(self.quota_limit);
            self.sid.encode(out);
        })
    }

    /// Reads one entry.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        reader.skip(4)?;
        let length = usize::try_from(reader.u32()?).map_err(|_| Malformed::Truncated)?;
        Ok(FileQuotaInformation {
            change_time: FileTime::decode(&mut reader)?,
            quota_used: reader.u64()?,
            quota_threshold: reader.u64()?,
            quota_limit: reader.u64()?,
            sid: decode_sid(&mut reader, length)?,
        })
    }

    /// The entries of a whole list.
    pub fn list(bytes: &[u8]) -> impl Iterator<Item = Result<FileQuotaInformation>> {
        Entries::new(bytes).map(|entry| FileQuotaInformation::decode(entry?))
    }
}

/// FILE_GET_QUOTA_INFORMATION ([MS-FSCC] 2.4.41.1): a user whose quota is requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileGetQuotaInformation {
    /// The user.
    pub sid: Sid,
}

impl FileGetQuotaInformation {
    /// The alignment of entries, in bytes.
    pub const ALIGNMENT: usize = 4;

    /// Appends an entry to a list and returns whether it fitted.
    pub fn push(&self, chain: &mut EntryChain, out: &mut Writer<'_>) -> bool {
        chain.push(out, 8 + self.sid.size(), |out| {
            out.u32(0);
            out.u32(sid_length(&self.sid));
            self.sid.encode(out);
        })
    }

    /// Reads one entry.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        reader.skip(4)?;
        let length = usize::try_from(reader.u32()?).map_err(|_| Malformed::Truncated)?;
        Ok(FileGetQuotaInformation { sid: decode_sid(&mut reader, length)? })
    }

    /// The entries of a whole list.
    pub fn list(bytes: &[u8]) -> impl Iterator<Item = Result<FileGetQuotaInformation>> {
        Entries::new(bytes).map(|entry| FileGetQuotaInformation::decode(entry?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists() {
        let quota = FileQuotaInformation {
            change_time: FileTime(1),
            quota_used: 2,
            quota_threshold: 3,
            quota_limit: u64::MAX,
            sid: Sid::EVERYONE,
        };
        let mut buffer = Vec::new();
        let mut out = Writer::new(&mut buffer);
        let mut chain = EntryChain::new(&out, FileQuotaInformation::ALIGNMENT, 108);
        assert!(quota.push(&mut chain, &mut out) && quota.push(&mut chain, &mut out));
        assert_eq!((buffer.len(), buffer[0], buffer[4]), (108, 56, 12));
        assert_eq!([buffer[8], buffer[16], buffer[24], buffer[32], buffer[40]], [1, 2, 3, 255, 1]);
        assert_eq!(FileQuotaInformation::list(&buffer).collect::<Result<Vec<_>>>(), Ok(vec![quota; 2]));

        let wanted = FileGetQuotaInformation { sid: Sid::EVERYONE };
        let mut buffer = Vec::new();
        let mut out = Writer::new(&mut buffer);
        let mut chain = EntryChain::new(&out, FileGetQuotaInformation::ALIGNMENT, 40);
        assert!(wanted.push(&mut chain, &mut out) && wanted.push(&mut chain, &mut out));
        assert_eq!(FileGetQuotaInformation::list(&buffer).collect::<Result<Vec<_>>>(), Ok(vec![wanted; 2]));
    }

    #[test]
    fn the_length_is_that_of_the_sid() {
        let wire = [0, 0, 0, 0, 12, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0];
        assert_eq!(FileGetQuotaInformation::decode(&wire).map(|wanted| wanted.sid), Ok(Sid::EVERYONE));
        for (length, why) in [(11, Malformed::Truncated), (13, Malformed::Value), (14, Malformed::Truncated)] {
            let mut wire = wire;
            wire[4] = length;
            assert_eq!(FileGetQuotaInformation::decode(&wire), Err(why), "{length}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = FileQuotaInformation::list(&bytes).count();
            let _ = FileGetQuotaInformation::list(&bytes).count();
        }
    }
}
