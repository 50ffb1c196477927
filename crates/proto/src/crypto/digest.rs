//! SHA-256, for data that is stored on disk together with its digest.

use aws_lc_rs::digest;

/// The SHA-256 digest of `bytes`.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut value = [0; 32];
    value.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::hex;

    /// FIPS 180-2, B.1.
    #[test]
    fn the_standard_s_own_example() {
        let expected = "ba7816bf 8f01cfea 414140de 5dae2223 b00361a3 96177a9c b410ff61 f20015ad";
        assert_eq!(sha256(b"abc").as_slice(), hex(expected));
    }
}
