//! The cryptography of SMB 2 and 3: key derivation, preauthentication hash, signatures and sealed messages ([MS-SMB2]
//! 3.1.4.1 to 3.1.4.3 and 3.1.5.1). Algorithms that only NTLM uses are in [`crate::auth::ntlm`].
//!
//! A key object is created once, when its key is known, and used for every message. No random numbers are generated
//! here: nonces are counters that the caller keeps.

pub mod digest;
pub mod kdf;
pub mod preauth;
pub mod seal;
pub mod sign;

use std::fmt;

/// The error of creating a key object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyRefused {
    /// The specification does not define the algorithm or cipher id.
    Algorithm,
    /// The key does not have the length that the algorithm requires.
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

/// Decodes the hexadecimal text of a test vector, ignoring white space between digits.
#[cfg(test)]
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).expect("a hex digit") as u8).collect();
    assert!(digits.len().is_multiple_of(2), "an odd number of digits");
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
