//! The broken algorithms that NTLM uses: MD4, MD5, HMAC-MD5 and RC4. They are private to [`super`] so that nothing else
//! uses them.

use md4::Md4;
use md5::{Digest, Md5};
use rc4::{KeyInit, Rc4, StreamCipher};
use zeroize::Zeroize;

/// MD4 of `bytes` (RFC 1320).
pub(super) fn md4(bytes: &[u8]) -> [u8; 16] {
    Md4::digest(bytes).into()
}

/// MD5 over the concatenation of `parts` (RFC 1321).
pub(super) fn md5(parts: &[&[u8]]) -> [u8; 16] {
    let mut state = Md5::new();
    for part in parts {
        state.update(part);
    }
    state.finalize().into()
}

/// HMAC-MD5 (RFC 2104) over the concatenation of `parts`. All NTLM keys are 16 bytes.
pub(super) fn hmac_md5(key: &[u8; 16], parts: &[&[u8]]) -> [u8; 16] {
    let mut pad = [0x36; 64];
    for (byte, key) in pad.iter_mut().zip(key) {
        *byte ^= key;
    }
    let mut inner = Md5::new();
    inner.update(pad);
    for part in parts {
        inner.update(part);
    }
    for byte in &mut pad {
        *byte ^= 0x36 ^ 0x5c;
    }
    let mut outer = Md5::new();
    outer.update(pad);
    outer.update(inner.finalize());
    pad.zeroize();
    outer.finalize().into()
}

/// Applies the start of the RC4 key stream to `data`: `RC4K` of [MS-NLMP] 6.
pub(super) fn rc4(key: &[u8; 16], data: &mut [u8]) {
    Rc4::new(key.into()).apply_keystream(data);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::hex;

    /// RFC 1320 A.5, RFC 1321 A.5.
    #[test]
    fn md4_and_md5() {
        for (text, md4_hash, md5_hash) in [
            ("", "31d6cfe0d16ae931b73c59d7e0c089c0", "d41d8cd98f00b204e9800998ecf8427e"),
            ("abc", "a448017aaf21d8525fc10ae87aa6729d", "900150983cd24fb0d6963f7d28e17f72"),
            ("message digest", "d9130a8164549fe818874806e1c7014b", "f96b697d7cb7938d525a2f31aaf161d0"),
        ] {
            assert_eq!(md4(text.as_bytes())[..], hex(md4_hash));
            assert_eq!(md5(&[text.as_bytes()])[..], hex(md5_hash));
        }
        assert_eq!(md5(&[b"a", b"", b"bc"])[..], hex("900150983cd24fb0d6963f7d28e17f72"));
    }

    /// RFC 2202 section 2, test cases 1 and 3.
    #[test]
    fn hmac_md5_of_rfc_2202() {
        assert_eq!(hmac_md5(&[0x0b; 16], &[b"Hi ", b"There"])[..], hex("9294727a3638bb1c13f48ef8158bfc9d"));
        assert_eq!(hmac_md5(&[0xaa; 16], &[&[0xdd; 50]])[..], hex("56be34521d144c88dbb8c733f0e8b3f6"));
    }

    /// RFC 6229, the 128-bit key 0102..10, offset 0.
    #[test]
    fn rc4_of_rfc_6229() {
        let key = std::array::from_fn(|i| i as u8 + 1);
        let mut stream = [0; 32];
        rc4(&key, &mut stream);
        assert_eq!(stream[..], hex("9ac7cc9a609d1ef7b2932899cde41b97 5248c4959014126a6e8a84f11d1a9e1c"));
    }
}
