//! The arguments of the calls that open the server ([MS-SAMR] 3.1.5.1.1 to 3.1.5.1.4), and the rights of its handle.

use super::super::ndr::{Arguments, Decoder};
use crate::bytes::Result;

/// SERVER_ACCESS_MASK ([MS-SAMR] 2.2.1.3).
#[allow(missing_docs, reason = "the names are those of the specification")]
pub mod server_rights {
    pub const ENUMERATE_DOMAINS: u32 = 0x10;
    pub const LOOKUP_DOMAIN: u32 = 0x20;
    /// SAM_SERVER_ALL_ACCESS.
    pub const ALL: u32 = 0x000f_003f;
    /// SAM_SERVER_READ.
    pub const READ: u32 = 0x0002_0010;
    /// SAM_SERVER_WRITE.
    pub const WRITE: u32 = 0x0002_000e;
    /// SAM_SERVER_EXECUTE.
    pub const EXECUTE: u32 = 0x0002_0021;
}

/// The requested access of SamrConnect2 and SamrConnect5.
pub struct Connect2(pub u32);

impl Arguments for Connect2 {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        from.optional_string()?;
        Ok(Connect2(from.u32()?))
    }
}

/// The requested access of SamrConnect, whose server name is one character.
pub struct Connect(pub u32);

impl Arguments for Connect {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        if from.pointer()? {
            from.u16()?;
        }
        Ok(Connect(from.u32()?))
    }
}

/// The requested access of SamrConnect4, which comes after the revision of the client.
pub struct Connect4(pub u32);

impl Arguments for Connect4 {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        from.optional_string()?;
        from.u32()?;
        Ok(Connect4(from.u32()?))
    }
}
