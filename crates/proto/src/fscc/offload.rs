//! Offloaded copies ([MS-FSCC] 2.1.11, 2.3.41 to 2.3.44). A token represents the data of a range, and writing the token
//! writes the data.

use super::field::structures;
use crate::bytes::{Reader, Result, Writer};
use crate::flags::flags;
use crate::values::values;

values! {
    /// The type of a token ([MS-FSCC] 2.1.11). Values below 0xffff0000 are vendor-specific.
    pub struct OffloadTokenType(u32) {
        /// Represents any number of zeros.
        ZERO_DATA = 0xffff_0001;
    }
}

flags! {
    /// Properties of the data after a range ([MS-FSCC] 2.3.42).
    pub struct OffloadReadFlags(u32) {
        /// All zeros.
        ALL_ZERO_BEYOND_CURRENT_RANGE = 0x0000_0001;
    }
}

/// STORAGE_OFFLOAD_TOKEN ([MS-FSCC] 2.1.11), the one structure here whose numbers are big-endian.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StorageOffloadToken {
    /// The type.
    pub token_type: OffloadTokenType,
    /// The identifier of the token.
    pub token_id: [u8; Self::ID_SIZE],
}

impl StorageOffloadToken {
    /// The size on the wire, in bytes.
    pub const SIZE: usize = 512;
    /// The size of the identifier in bytes.
    pub const ID_SIZE: usize = 504;
}

impl Default for StorageOffloadToken {
    fn default() -> Self {
        StorageOffloadToken { token_type: OffloadTokenType::default(), token_id: [0; Self::ID_SIZE] }
    }
}

impl super::field::Field for StorageOffloadToken {
    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let token_type = OffloadTokenType(u32::from_be_bytes(reader.array()?));
        reader.skip(4)?;
        Ok(StorageOffloadToken { token_type, token_id: reader.array()? })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.bytes(&self.token_type.0.to_be_bytes());
        out.zeros(2);
        out.bytes(&(Self::ID_SIZE as u16).to_be_bytes());
        out.bytes(&self.token_id);
    }
}

super::field::fields! { OffloadReadFlags }

structures! {
    /// FSCTL_OFFLOAD_READ_INPUT ([MS-FSCC] 2.3.41).
    OffloadReadInput(32) {
        /// 32.
        size: u32 [4 reserved],
        /// The requested lifetime of the token in milliseconds; 0: the server's default.
        token_time_to_live: u32 [4 reserved],
        /// First byte.
        file_offset: u64,
        /// Length in bytes.
        copy_length: u64,
    }

    /// FSCTL_OFFLOAD_READ_OUTPUT ([MS-FSCC] 2.3.42).
    OffloadReadOutput(528) {
        /// 528.
        size: u32,
        /// Properties of the data after the range.
        flags: OffloadReadFlags,
        /// The number of bytes that the token represents.
        transfer_length: u64,
        /// The token.
        token: StorageOffloadToken,
    }

    /// FSCTL_OFFLOAD_WRITE_INPUT ([MS-FSCC] 2.3.43).
    OffloadWriteInput(544) {
        /// 544.
        size: u32 [4 reserved],
        /// First byte.
        file_offset: u64,
        /// Length in bytes.
        copy_length: u64,
        /// The offset in the token's data at which to begin.
        transfer_offset: u64,
        /// The token.
        token: StorageOffloadToken,
    }

    /// FSCTL_OFFLOAD_WRITE_OUTPUT ([MS-FSCC] 2.3.44).
    OffloadWriteOutput(16) {
        /// 16.
        size: u32 [4 reserved],
        /// The number of bytes written.
        length_written: u64,
    }
}

#[cfg(test)]
mod tests {
    use super::super::field::Field;
    use super::*;

    // 2.1.11: TokenType, Reserved, TokenIdLength, TokenId; the numbers are big-endian.
    #[test]
    fn a_token() {
        let token = StorageOffloadToken { token_type: OffloadTokenType::ZERO_DATA, token_id: [7; 504] };
        let mut wire = vec![0xff, 0xff, 0, 1, 0, 0, 1, 0xf8];
        wire.resize(512, 7);
        let mut out = Vec::new();
        token.write(&mut Writer::new(&mut out));
        assert_eq!(out, wire);
        assert_eq!(StorageOffloadToken::read(&mut Reader::new(&wire)), Ok(token));
    }
}
