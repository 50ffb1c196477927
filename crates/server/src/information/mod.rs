//! Information classes of files, file systems and security ([MS-FSCC] 2.4, 2.5; [MS-DTYP] 2.4.6).
//!
//! A class is an arm of `file::query` or `filesystem::query`, except for extended attributes (`ea`), pipes (`pipe`),
//! quotas (`quota`) and the POSIX extensions (`posix`).
//! Its number and its structure are in `proto::fscc`. The right that it requires is in `command::query_info`.

pub(crate) mod ea;
pub(crate) mod file;
pub(crate) mod filesystem;
pub(crate) mod nfs_aces;
pub(crate) mod pipe;
pub(crate) mod posix;
pub(crate) mod printer;
pub(crate) mod quota;
pub(crate) mod security;
mod streams;
mod time_machine;

use proto::bytes::Writer;

/// The response data of a class, and its minimum buffer size.
pub(crate) struct Answer {
    /// The complete structure.
    pub(crate) bytes: Vec<u8>,
    /// The size of its fixed part. If the buffer is smaller, the request fails with INFO_LENGTH_MISMATCH. If it is
    /// smaller than the whole structure, the response is truncated with BUFFER_OVERFLOW (3.3.5.20.1).
    pub(crate) fixed: usize,
    /// Something was omitted because it did not fit; this results in BUFFER_OVERFLOW, too.
    pub(crate) more: bool,
}

impl Answer {
    /// Creates a structure without a variable part.
    pub(crate) fn fixed(bytes: Vec<u8>) -> Answer {
        let fixed = bytes.len();
        Answer { bytes, fixed, more: false }
    }

    /// Creates a structure whose first `fixed` bytes must fit.
    pub(crate) fn variable(bytes: Vec<u8>, fixed: usize) -> Answer {
        Answer { bytes, fixed, more: false }
    }
}

/// Encodes a structure into a new buffer.
pub(crate) fn encoded(encode: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&mut Writer::new(&mut bytes));
    bytes
}
