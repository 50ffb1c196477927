//! The cryptography of SMB 2 and 3: key derivation, pre-authentication hash, signatures and sealed messages
//! ([MS-SMB2] 3.1.4.1 to 3.1.4.3 and 3.1.5.1). What only NTLM uses is in [`crate::auth::ntlm`].
//!
//! A key object is made once, when its key is known, and then used for every message. Randomness is never made here:
//! nonces are counters that the caller keeps.

pub mod digest;
pub mod kdf;
pub mod preauth;
pub mod seal;
pub mod sign;

use std::fmt;

/// Why a key object could not be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyRefused {
    /// The algorithm or cipher id is none that the specification names.
    Algorithm,
    /// The key has not the length that the algorithm asks for.
    Length,
}

impl fmt::Display for KeyRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            KeyRefused::Algorithm => "unknown signing or encryption algorithm",
            KeyRefused::Length => "key length does not fit the algorithm",
        })
    }
}

impl std::error::Error for KeyRefused {}

/// Bytes from hexadecimal text of a test vector; white space between digits is passed over.
#[cfg(test)]
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).expect("a hex digit") as u8).collect();
    assert!(digits.len().is_multiple_of(2), "an odd number of digits");
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
