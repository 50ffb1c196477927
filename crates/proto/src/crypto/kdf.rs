//! The keys of an SMB 3 session ([MS-SMB2] 3.1.4.2, 3.2.5.3.1, 3.3.5.5.3): SP800-108 in counter mode over HMAC-SHA256,
//! with the labels and contexts of the two dialect groups.
//!
//! SMB 2.0.2 and 2.1 derive nothing: they sign with the session key itself ([`Key::from_session_key`]).

use std::fmt;

use aws_lc_rs::hmac;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// A symmetric key of 16 or 32 bytes, wiped when dropped. Its `Debug` text shows no byte of it.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Key {
    bytes: [u8; 32],
    length: usize,
}

impl Key {
    /// The key's bytes, 16 or 32.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Copies a key; `None` if it does not have `length`.
    pub(super) fn new(key: &[u8], length: KeyLength) -> Option<Key> {
        let length = match length {
            KeyLength::Bits128 => 16,
            KeyLength::Bits256 => 32,
        };
        let mut bytes = [0; 32];
        bytes[..length].copy_from_slice(Some(key).filter(|key| key.len() == length)?);
        Some(Key { bytes, length })
    }

    /// `Session.SessionKey` from the key of the authentication: its first 16 bytes, zero-padded ([MS-SMB2] 3.3.1.8).
    pub fn from_session_key(gss_key: &[u8]) -> Key {
        let mut bytes = [0; 32];
        for (to, from) in bytes.iter_mut().zip(gss_key).take(16) {
            *to = *from;
        }
        Key { bytes, length: 16 }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({} bytes)", self.length)
    }
}

/// The length of a derived key: the `L` of SP800-108.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyLength {
    /// 128 bits: every signing and application key, AES-128-CCM and AES-128-GCM.
    Bits128,
    /// 256 bits: AES-256-CCM and AES-256-GCM.
    Bits256,
}

/// The derivation context of a dialect: fixed strings, or the preauthentication hash of the messages before the key
/// existed.
#[derive(Clone, Copy, Debug)]
pub enum Derivation<'a> {
    /// Dialects 3.0 and 3.0.2.
    Smb30,
    /// Dialect 3.1.1, with `Session.PreauthIntegrityHashValue` (for another channel, that of the `PreauthSession`).
    Smb311(&'a [u8; 64]),
}

impl Derivation<'_> {
    // Deviates from [MS-SMB2] 3.1.4.2: L follows the length of the derived key, not Connection.CipherId, so it stays
    // 128 for signing and application keys when an AES-256 cipher was negotiated. Other servers and Windows clients use
    // the same interpretation.
    /// `Session.SigningKey`, or `Channel.SigningKey` of another channel. `session_key` is 16 bytes.
    pub fn signing_key(self, session_key: &Key) -> Key {
        let names = match self {
            Derivation::Smb30 => Names { label: b"SMB2AESCMAC\0", context: b"SmbSign\0" },
            Derivation::Smb311(hash) => Names { label: b"SMBSigningKey\0", context: hash },
        };
        names.derive(session_key.as_bytes(), KeyLength::Bits128)
    }

    /// `Session.ApplicationKey`. `session_key` is 16 bytes.
    pub fn application_key(self, session_key: &Key) -> Key {
        let names = match self {
            Derivation::Smb30 => Names { label: b"SMB2APP\0", context: b"SmbRpc\0" },
            Derivation::Smb311(hash) => Names { label: b"SMBAppKey\0", context: hash },
        };
        names.derive(session_key.as_bytes(), KeyLength::Bits128)
    }

    /// The key for messages that the server seals: the server's `Session.EncryptionKey`, the client's
    /// `Session.DecryptionKey`.
    ///
    /// `session_key` is `Session.SessionKey`, or for a 256-bit key `Session.FullSessionKey`, the full key of the
    /// authentication.
    pub fn server_to_client_key(self, session_key: &[u8], length: KeyLength) -> Key {
        let names = match self {
            Derivation::Smb30 => Names { label: b"SMB2AESCCM\0", context: b"ServerOut\0" },
            Derivation::Smb311(hash) => Names { label: b"SMBS2CCipherKey\0", context: hash },
        };
        names.derive(session_key, length)
    }

    /// The key for messages that the client seals: the client's `Session.EncryptionKey`, the server's
    /// `Session.DecryptionKey`. `session_key` is as in [`Derivation::server_to_client_key`].
    pub fn client_to_server_key(self, session_key: &[u8], length: KeyLength) -> Key {
        let names = match self {
            // The space after "ServerIn" is part of the context.
            Derivation::Smb30 => Names { label: b"SMB2AESCCM\0", context: b"ServerIn \0" },
            Derivation::Smb311(hash) => Names { label: b"SMBC2SCipherKey\0", context: hash },
        };
        names.derive(session_key, length)
    }
}

/// Label and context of one key. Strings include their terminating NUL.
struct Names<'a> {
    label: &'a [u8],
    context: &'a [u8],
}

impl Names<'_> {
    /// SP800-108 5.1 with r = 32. One block of HMAC-SHA256 is already 256 bits, so the counter never exceeds 1.
    fn derive(&self, key: &[u8], length: KeyLength) -> Key {
        let bits: u32 = match length {
            KeyLength::Bits128 => 128,
            KeyLength::Bits256 => 256,
        };
        let mut mac = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
        mac.update(&1u32.to_be_bytes());
        mac.update(self.label);
        mac.update(&[0]);
        mac.update(self.context);
        mac.update(&bits.to_be_bytes());
        let block = mac.sign();
        let mut derived = Key { bytes: [0; 32], length: bits as usize / 8 };
        let count = derived.length;
        derived.bytes[..count].copy_from_slice(&block.as_ref()[..count]);
        derived
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::hex;

    /// The signing, client-to-server, server-to-client and application keys of one session, as hexadecimal text.
    fn check(derivation: Derivation<'_>, session_key: &str, keys: [&str; 4]) {
        let session_key = Key::from_session_key(&hex(session_key));
        let full = session_key.as_bytes();
        assert_eq!(derivation.signing_key(&session_key).as_bytes(), hex(keys[0]), "signing");
        assert_eq!(derivation.client_to_server_key(full, KeyLength::Bits128).as_bytes(), hex(keys[1]), "to server");
        assert_eq!(derivation.server_to_client_key(full, KeyLength::Bits128).as_bytes(), hex(keys[2]), "to client");
        assert_eq!(derivation.application_key(&session_key).as_bytes(), hex(keys[3]), "application");
    }

    /// Microsoft Open Specifications blog, "SMB 2 and SMB 3 security in Windows 10: the anatomy of signing and
    /// cryptographic keys" (2017), appendix; and "Encryption in SMB 3.0: A protocol perspective" (2012). Their
    /// "EncryptionKey" is the client's.
    #[test]
    fn keys_of_smb_3_0() {
        check(
            Derivation::Smb30,
            "7CD451825D0450D235424E44BA6E78CC",
            [
                "0B7E9C5CAC36C0F6EA9AB275298CEDCE",
                "FAD27796665B313EBB578F388632B4F7",
                "B0F0427F7CEB416D1D9DCC0CD4F99447",
                "BB23A4575AA26C721AF525AF15A87B4F",
            ],
        );
        check(
            Derivation::Smb30,
            "B4546771B515F766A86735532DD6C4F0",
            [
                "F773CD23C18FD1E08EE510CADA7CF852",
                "261B72350558F2E9DCF613070383EDBF",
                "8FE2B57EC34D2DB5B1A9727F526BBDB5",
                "77432F808CE99156B5BC6A3676D730D1",
            ],
        );
        let second_channel = Key::from_session_key(&hex("4E01A2B313BCF660CC250BEF021AEDE6"));
        assert_eq!(Derivation::Smb30.signing_key(&second_channel).as_bytes(), hex("BA1A17DBBFEC349BCA105563D598952F"));
    }

    /// The same blog's "anatomy" article, and "SMB 3.1.1 Encryption in Windows 10" (2015), appendix A.1.
    #[test]
    fn keys_of_smb_3_1_1() {
        let hash: [u8; 64] = hex("0DD13628CC3ED218EF9DF9772D436D0887AB9814BFAE63A80AA845F36909DB79
                                  28622DDDAD522D9751640A459762C5A9D6BB084CBB3CE6BDADEF5D5BCE3C6C01")
        .try_into()
        .expect("64 bytes");
        check(
            Derivation::Smb311(&hash),
            "270E1BA896585EEB7AF3472D3B4C75A7",
            [
                "73FE7A9A77BEF0BDE49C650D8CCB5F76",
                "629BCBC54422A0F572B97F45989B6073",
                "E2AF0DCEFAC68DA71A0DFBD0D1350D74",
                "6D7AD7954E9EC61E907B4D473DC178FF",
            ],
        );
        let hash: [u8; 64] = hex("B23F3CBFD69487D9832B79B1594A367CDD950909B774C3A4C412B4FCEA9EDDDB
                                  A7DB256BA2EA30E977F11F9B113247578E0E915C6D2A513B8F2FCA5707DC8770")
        .try_into()
        .expect("64 bytes");
        check(
            Derivation::Smb311(&hash),
            "419FDDF34C1E001909D362AE7FB6AF79",
            [
                "8765949DFEAEE105CE9118B45BE988F0",
                "A2F5E80E5D59103034F32E52F698E5EC",
                "748C50868C90F302962A5C35F5F9A8BF",
                "099D610789FBE82055B313601C3E8CC4",
            ],
        );
    }

    /// Computed with Python's `hmac` and `hashlib`: session key 00..0f repeated twice, hash 00..3f.
    #[test]
    fn keys_of_256_bits() {
        let hash: [u8; 64] = std::array::from_fn(|i| i as u8);
        let full: Vec<u8> = (0..32).map(|i| i % 16).collect();
        let derivation = Derivation::Smb311(&hash);
        assert_eq!(
            derivation.client_to_server_key(&full, KeyLength::Bits256).as_bytes(),
            hex("162fbb7c89343600cd68cf85844af572ac066da82b6079190c8ea745d3636207")
        );
        assert_eq!(
            derivation.server_to_client_key(&full, KeyLength::Bits256).as_bytes(),
            hex("6685499be86a75ebdaeb339eaac9b94b37f0c3988bc236ed07d46f254f386336")
        );
    }

    #[test]
    fn a_session_key_is_cut_or_padded_to_16_bytes() {
        assert_eq!(Key::from_session_key(&[7; 3]).as_bytes(), [7, 7, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Key::from_session_key(&[7; 32]).as_bytes(), [7; 16]);
        assert_eq!(format!("{:?}", Key::from_session_key(&[7; 32])), "Key(16 bytes)");
    }
}
