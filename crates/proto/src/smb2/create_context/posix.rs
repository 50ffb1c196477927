//! The create context of the SMB 3.1.1 POSIX extensions, whose specification is a draft of the Samba team,
//! "[POSIX-SMB2] SMB3 POSIX Extensions" (2.2.13.2.16, 2.2.14.2.16).

use super::{CreateContext, context, exactly, name};
use crate::bytes::{Malformed, Reader, Result};
use crate::dtyp::Sid;

/// Requests that the open has POSIX semantics.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PosixRequest {
    /// The mode of a new file. Clients that create nothing send any value.
    pub mode: u32,
}

impl PosixRequest {
    /// Reads the data of a context.
    pub fn decode(data: &[u8]) -> Result<Self> {
        Ok(PosixRequest { mode: exactly(data, 4)?.u32()? })
    }

    /// Returns the context with this data.
    pub fn to_context(&self) -> CreateContext<'static> {
        context(name::POSIX, |out| out.u32(self.mode))
    }
}

/// What the response to a POSIX open tells about the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PosixResponse {
    /// The number of names.
    pub links: u32,
    /// The tag of the reparse point, 0 if the file is not one.
    pub reparse_tag: u32,
    /// The permission bits and the [type](crate::fscc::file_type).
    pub mode: u32,
    /// The owner.
    pub owner: Sid,
    /// The group.
    pub group: Sid,
}

impl PosixResponse {
    /// Reads the data of a context.
    pub fn decode(data: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(data);
        let response = PosixResponse {
            links: reader.u32()?,
            reparse_tag: reader.u32()?,
            mode: reader.u32()?,
            owner: Sid::decode(&mut reader)?,
            group: Sid::decode(&mut reader)?,
        };
        if reader.remaining() == 0 { Ok(response) } else { Err(Malformed::Structure) }
    }

    /// Returns the context with this data.
    pub fn to_context(&self) -> CreateContext<'static> {
        context(name::POSIX, |out| {
            out.u32(self.links);
            out.u32(self.reparse_tag);
            out.u32(self.mode);
            self.owner.encode(out);
            self.group.encode(out);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smb2::testing::hex;

    #[test]
    fn bodies() {
        let request = PosixRequest { mode: 0o755 };
        assert_eq!(*request.to_context().data, hex("ed010000"));
        assert_eq!(PosixRequest::decode(&hex("ed010000")), Ok(request));
        for refused in ["", "ed0100", "ed01000000"] {
            assert!(PosixRequest::decode(&hex(refused)).is_err(), "{refused}");
        }
        let (owner, group) = (Sid::unix_user(5), Sid::unix_group(6));
        let response = PosixResponse { links: 1, reparse_tag: 0x8000_0014, mode: 0o5644, owner, group };
        let bytes = hex("01000000 14000080 a40b0000
             0102000000000016 01000000 05000000 0102000000000016 02000000 06000000");
        assert_eq!(*response.to_context().data, bytes);
        assert_eq!(PosixResponse::decode(&bytes), Ok(response));
        for end in 0..bytes.len() {
            assert!(PosixResponse::decode(&bytes[..end]).is_err(), "{end}");
        }
    }
}
