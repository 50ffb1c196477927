//! Signatures of SMB2 messages ([MS-SMB2] 3.1.4.1 and 3.1.5.1): 16 bytes at offset 48 of the header, computed over the
//! whole message, or over one element of a compound with its padding, with those 16 bytes zero.
//!
//! The connection decides which messages are signed, and with which key.

use aws_lc_rs::{aead, cmac, hmac};
use subtle::ConstantTimeEq;

use super::KeyRefused;
use crate::smb2::negotiate::SigningAlgorithm;

/// The size of the SMB2 header, the minimum that can be signed.
const HEADER: usize = 64;
/// `SMB2_FLAGS_SERVER_TO_REDIR`: the message is a response.
const SERVER_TO_REDIR: u32 = 0x0000_0001;
/// The `Command` of SMB2 CANCEL.
const CANCEL: u16 = 0x000C;

/// A key that signs and verifies. Its key schedule is computed once.
///
/// AES-GMAC takes its nonce from the message: `MessageId`, the direction and whether it is a CANCEL. Signing two
/// different messages under one nonce makes GMAC forgeable, so a server signs only one response per MessageId. Interim
/// responses and oplock breaks are unsigned, as [MS-SMB2] 3.3.4.1.1 and 3.3.4.2 require.
pub struct SigningKey(Schedule);

enum Schedule {
    HmacSha256(Box<hmac::Key>),
    AesCmac(cmac::Key),
    AesGmac(Box<aead::LessSafeKey>),
}

impl SigningKey {
    /// Prepares `key`, which is 16 bytes, for `algorithm`.
    pub fn new(algorithm: SigningAlgorithm, key: &[u8]) -> Result<Self, KeyRefused> {
        if key.len() != 16 {
            return Err(KeyRefused::Length);
        }
        Ok(SigningKey(match algorithm {
            SigningAlgorithm::HMAC_SHA256 => Schedule::HmacSha256(Box::new(hmac::Key::new(hmac::HMAC_SHA256, key))),
            SigningAlgorithm::AES_CMAC => {
                Schedule::AesCmac(cmac::Key::new(cmac::AES_128, key).map_err(|_| KeyRefused::Length)?)
            }
            SigningAlgorithm::AES_GMAC => {
                let key = aead::UnboundKey::new(&aead::AES_128_GCM, key).map_err(|_| KeyRefused::Length)?;
                Schedule::AesGmac(Box::new(aead::LessSafeKey::new(key)))
            }
            _ => return Err(KeyRefused::Algorithm),
        }))
    }

    /// Writes the signature of `message`, which begins with its SMB2 header and ends with its padding.
    ///
    /// # Panics
    ///
    /// If `message` is shorter than a header, which is a bug of the caller.
    pub fn sign(&self, message: &mut [u8]) {
        let header = message.first_chunk_mut::<HEADER>().expect("a message begins with its header");
        header[48..64].fill(0);
        let signature = self.compute(message);
        if let Some(header) = message.first_chunk_mut::<HEADER>() {
            header[48..64].copy_from_slice(&signature);
        }
    }

    /// Returns whether the signature of `message` is correct, compared in constant time; false if the message is
    /// shorter than a header. The message is modified only during the call.
    pub fn verify(&self, message: &mut [u8]) -> bool {
        let Some(header) = message.first_chunk_mut::<HEADER>() else { return false };
        let mut claimed = [0; 16];
        claimed.copy_from_slice(&header[48..64]);
        header[48..64].fill(0);
        let computed = self.compute(message);
        if let Some(header) = message.first_chunk_mut::<HEADER>() {
            header[48..64].copy_from_slice(&claimed);
        }
        computed.ct_eq(&claimed).into()
    }

    /// Computes the signature of a message whose signature field is zero.
    fn compute(&self, message: &[u8]) -> [u8; 16] {
        let mut signature = [0; 16];
        match &self.0 {
            Schedule::HmacSha256(key) => signature.copy_from_slice(&hmac::sign(key, message).as_ref()[..16]),
            Schedule::AesCmac(key) => {
                cmac::sign_to_buffer(key, message, &mut signature).expect("AES-CMAC accepts any message");
            }
            Schedule::AesGmac(key) => {
                let tag = key
                    .seal_in_place_separate_tag(gmac_nonce(message), aead::Aad::from(message), &mut [])
                    .expect("AES-GMAC accepts any message shorter than 2^61 bytes");
                signature.copy_from_slice(tag.as_ref());
            }
        }
        signature
    }
}

/// The nonce of [MS-SMB2] 3.1.4.1, from the header's own fields. A message without a header has a nonce of zero, but is
/// never signed.
fn gmac_nonce(message: &[u8]) -> aead::Nonce {
    let mut nonce = [0; 12];
    if let Some(header) = message.first_chunk::<HEADER>() {
        nonce[..8].copy_from_slice(&header[24..32]);
        let flags = u32::from_le_bytes([header[16], header[17], header[18], header[19]]);
        let command = u16::from_le_bytes([header[12], header[13]]);
        let from_server = u32::from(flags & SERVER_TO_REDIR != 0);
        let cancel = u32::from(command == CANCEL);
        nonce[8..].copy_from_slice(&(from_server | cancel << 1).to_le_bytes());
    }
    aead::Nonce::assume_unique_for_key(nonce)
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            Schedule::HmacSha256(_) => "SigningKey(HMAC-SHA256)",
            Schedule::AesCmac(_) => "SigningKey(AES-128-CMAC)",
            Schedule::AesGmac(_) => "SigningKey(AES-128-GMAC)",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::hex;

    /// Signs `message` (its signature field contains junk at first), compares, verifies, and checks that every flipped
    /// byte is detected.
    fn check(algorithm: SigningAlgorithm, key: &str, message: &str, signature: &str) {
        let key = SigningKey::new(algorithm, &hex(key)).expect("a key of 16 bytes");
        let mut message = hex(message);
        message[48..64].fill(0xAA);
        key.sign(&mut message);
        assert_eq!(message[48..64], hex(signature), "{key:?}");
        assert!(key.verify(&mut message));
        for at in 0..message.len() {
            message[at] ^= 0x10;
            assert!(!key.verify(&mut message), "{key:?} byte {at}");
            message[at] ^= 0x10;
        }
        assert!(key.verify(&mut message), "verify leaves the message as it was");
        assert!(!key.verify(&mut message[..63]));
    }

    /// The last SESSION_SETUP response of the 3.1.1 example in Microsoft's Open Specifications blog, "SMB 2 and SMB 3
    /// security in Windows 10: the anatomy of signing and cryptographic keys" (2017), with its signature.
    #[test]
    fn aes_cmac() {
        check(
            SigningAlgorithm::AES_CMAC,
            "73FE7A9A77BEF0BDE49C650D8CCB5F76",
            SESSION_SETUP_RESPONSE,
            "EBE146DA120BA25FC3376A49DFE31BC1",
        );
    }

    const SESSION_SETUP_RESPONSE: &str = "
        FE534D4240000100000000000100800009000000000000000300000000000000FFFE000000000000
        1900000000100000EBE146DA120BA25FC3376A49DFE31BC10900000048001D00A11B3019A0030A01
        00A3120410010000003B453CDC3524164200000000";

    /// RFC 4493, section 4, examples 1 to 4, which are not SMB2 messages.
    #[test]
    fn aes_cmac_of_rfc_4493() {
        let key = hex("2b7e151628aed2a6abf7158809cf4f3c");
        let key = SigningKey::new(SigningAlgorithm::AES_CMAC, &key).expect("a key of 16 bytes");
        let message = hex("
            6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51
            30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710");
        for (length, mac) in [
            (0, "bb1d6929e95937287fa37d129b756746"),
            (16, "070a16b46b4d4144f79bdd9dd04a287c"),
            (40, "dfa66747de9ae63030ca32611497c827"),
            (64, "51f0bebf7e3b9d92fc49741779363cfe"),
        ] {
            assert_eq!(key.compute(&message[..length])[..], hex(mac), "{length} bytes");
        }
    }

    /// Computed with Python's `hmac` over the message above.
    #[test]
    fn hmac_sha256() {
        let key = "73FE7A9A77BEF0BDE49C650D8CCB5F76";
        check(SigningAlgorithm::HMAC_SHA256, key, SESSION_SETUP_RESPONSE, "373d8b4ae191dc8c15be375c5bdaefcb");
    }

    /// Computed with Python's `cryptography` (AES-GCM without plaintext) over the message above, with nonces written
    /// out by hand: a response, a request, and a CANCEL request.
    #[test]
    fn aes_gmac() {
        let key = "73FE7A9A77BEF0BDE49C650D8CCB5F76";
        check(SigningAlgorithm::AES_GMAC, key, SESSION_SETUP_RESPONSE, "75d05bac99ff7fcc52a44c354381d559");
        let mut message = hex(SESSION_SETUP_RESPONSE);
        let key = SigningKey::new(SigningAlgorithm::AES_GMAC, &hex(key)).expect("a key of 16 bytes");
        message[16] = 0x08;
        key.sign(&mut message);
        assert_eq!(message[48..64], hex("2547509958dbdf8c9d1a2fffc2d92333"));
        message[12] = 0x0C;
        key.sign(&mut message);
        assert_eq!(message[48..64], hex("6ca1cfa270156aec1a6e50334aede82c"));
    }

    /// The GCM specification (McGrew and Viega, 2005), test case 1: no plaintext, and here no message either.
    #[test]
    fn aes_gmac_of_nothing() {
        let key = SigningKey::new(SigningAlgorithm::AES_GMAC, &[0; 16]).expect("a key of 16 bytes");
        assert_eq!(key.compute(&[])[..], hex("58e2fccefa7e3061367f1d57a4e7455a"));
    }

    #[test]
    fn keys_that_do_not_fit() {
        let refused = |algorithm, length| SigningKey::new(SigningAlgorithm(algorithm), &vec![0; length]).err();
        assert_eq!(refused(3, 16), Some(KeyRefused::Algorithm));
        for algorithm in 0..3 {
            assert_eq!(refused(algorithm, 16), None);
            assert_eq!(refused(algorithm, 32), Some(KeyRefused::Length));
            assert_eq!(refused(algorithm, 0), Some(KeyRefused::Length));
        }
    }
}
