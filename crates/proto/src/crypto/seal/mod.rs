//! Sealing and opening of messages in place: the SMB2 TRANSFORM_HEADER and the encrypted message ([MS-SMB2] 2.2.41,
//! 3.1.4.3, 3.3.5.2.1.1).
//!
//! Only the header fields that the ciphers need are read and written here. The connection looks up the session of a
//! frame first, and decides whether it may be encrypted at all.

use std::fmt;
use std::sync::OnceLock;

use aes::{Aes128, Aes256};
use aws_lc_rs::aead;
use ccm::aead::{AeadInPlace, KeyInit, generic_array::GenericArray};
use ccm::consts::{U11, U16};

use super::KeyRefused;
use super::kdf::{Key, KeyLength};
use crate::smb2::negotiate::CipherId;
use crate::smb2::transform::{TransformFlags, TransformHeader};

/// Size of the SMB2 TRANSFORM_HEADER in bytes.
pub const TRANSFORM_HEADER: usize = TransformHeader::SIZE;
/// The only value of `Flags/EncryptionAlgorithm`.
const ENCRYPTED: u16 = TransformFlags::ENCRYPTED.0;

/// Returns the key length of `cipher`; `None` for an unknown cipher.
pub fn key_length(cipher: CipherId) -> Option<KeyLength> {
    match cipher {
        CipherId::AES_128_CCM | CipherId::AES_128_GCM => Some(KeyLength::Bits128),
        CipherId::AES_256_CCM | CipherId::AES_256_GCM => Some(KeyLength::Bits256),
        _ => None,
    }
}

/// The reason why a sealed frame was not opened. Each of them ends the connection ([MS-SMB2] 3.3.5.2.1.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotOpened {
    /// The frame is not longer than a TRANSFORM_HEADER, or does not begin with one.
    Structure,
    /// `Flags/EncryptionAlgorithm` is not 0x0001.
    Flags,
    /// `OriginalMessageSize` is not the size of the data after the header.
    Size,
    /// The tag is wrong: the frame was sealed with another key or modified.
    Signature,
}

impl fmt::Display for NotOpened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotOpened::Structure => "not a sealed message",
            NotOpened::Flags => "sealed message with unknown flags",
            NotOpened::Size => "sealed message whose size differs from its header",
            NotOpened::Signature => "sealed message does not authenticate",
        })
    }
}

impl std::error::Error for NotOpened {}

/// A key that seals or opens the messages of one direction. Its key schedule, of about 600 bytes, is computed once,
/// when the first message is sealed or opened: most sessions seal none.
///
/// Session keys differ by direction, so an object is used either for sealing or for opening.
pub struct SealingKey {
    cipher: CipherId,
    key: Key,
    schedule: OnceLock<Schedule>,
}

enum Schedule {
    Gcm(Box<aead::LessSafeKey>),
    Ccm128(Box<ccm::Ccm<Aes128, U16, U11>>),
    Ccm256(Box<ccm::Ccm<Aes256, U16, U11>>),
}

impl Schedule {
    /// `None` if the cipher is unknown or needs a key of another length.
    fn new(cipher: CipherId, key: &[u8]) -> Option<Schedule> {
        let gcm = |algorithm| Some(Box::new(aead::LessSafeKey::new(aead::UnboundKey::new(algorithm, key).ok()?)));
        match cipher {
            CipherId::AES_128_GCM => gcm(&aead::AES_128_GCM).map(Schedule::Gcm),
            CipherId::AES_256_GCM => gcm(&aead::AES_256_GCM).map(Schedule::Gcm),
            CipherId::AES_128_CCM => Some(Schedule::Ccm128(Box::new(KeyInit::new_from_slice(key).ok()?))),
            CipherId::AES_256_CCM => Some(Schedule::Ccm256(Box::new(KeyInit::new_from_slice(key).ok()?))),
            _ => None,
        }
    }
}

impl SealingKey {
    /// Prepares `key`, of 16 or 32 bytes as the cipher requires.
    pub fn new(cipher: CipherId, key: &[u8]) -> Result<Self, KeyRefused> {
        let length = key_length(cipher).ok_or(KeyRefused::Algorithm)?;
        let key = Key::new(key, length).ok_or(KeyRefused::Length)?;
        Ok(SealingKey { cipher, key, schedule: OnceLock::new() })
    }

    fn schedule(&self) -> &Schedule {
        self.schedule.get_or_init(|| {
            Schedule::new(self.cipher, self.key.as_bytes()).expect("`new` has checked the cipher and the length")
        })
    }

    /// Seals `frame`: [`TRANSFORM_HEADER`] bytes of space, which are overwritten, followed by the plaintext message.
    ///
    /// `nonce_counter` must be different for each frame sealed with the same key bytes, because a repeated nonce
    /// reveals both plaintexts and allows forgeries. It becomes the first 8 bytes of the nonce; the others are zero.
    ///
    /// # Panics
    ///
    /// If `frame` has no space for the header or holds 4 GiB or more, which is a bug of the caller.
    pub fn seal(&self, session_id: u64, nonce_counter: u64, frame: &mut [u8]) {
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&nonce_counter.to_le_bytes());
        self.seal_with(session_id, nonce, frame);
    }

    /// Like [`SealingKey::seal`], with all 16 bytes of the header's nonce field given.
    fn seal_with(&self, session_id: u64, nonce: [u8; 16], frame: &mut [u8]) {
        let (header, message) =
            frame.split_first_chunk_mut::<TRANSFORM_HEADER>().expect("a frame begins with space for its header");
        let size = u32::try_from(message.len()).expect("a frame is shorter than 4 GiB");
        header[0..4].copy_from_slice(&TransformHeader::PROTOCOL_ID);
        header[20..36].copy_from_slice(&nonce);
        header[36..40].copy_from_slice(&size.to_le_bytes());
        header[40..42].fill(0);
        header[42..44].copy_from_slice(&ENCRYPTED.to_le_bytes());
        header[44..52].copy_from_slice(&session_id.to_le_bytes());
        let aad = &header[20..52];
        let signature: [u8; 16] = match self.schedule() {
            Schedule::Gcm(key) => {
                let tag = key.seal_in_place_separate_tag(gcm_nonce(nonce), aead::Aad::from(aad), message);
                let mut signature = [0; 16];
                signature.copy_from_slice(tag.expect("AES-GCM accepts up to 2^36 bytes").as_ref());
                signature
            }
            Schedule::Ccm128(key) => key
                .encrypt_in_place_detached(&ccm_nonce(nonce), aad, message)
                .expect("AES-CCM accepts up to 2^32 bytes")
                .into(),
            Schedule::Ccm256(key) => key
                .encrypt_in_place_detached(&ccm_nonce(nonce), aad, message)
                .expect("AES-CCM accepts up to 2^32 bytes")
                .into(),
        };
        header[4..20].copy_from_slice(&signature);
    }

    /// Opens `frame`, which begins with its TRANSFORM_HEADER, and returns the plaintext, a part of `frame`. If it is
    /// refused, the bytes after the header may have been overwritten with meaningless data.
    pub fn open<'a>(&self, frame: &'a mut [u8]) -> Result<&'a mut [u8], NotOpened> {
        let (header, message) = frame.split_first_chunk_mut::<TRANSFORM_HEADER>().ok_or(NotOpened::Structure)?;
        if header[0..4] != TransformHeader::PROTOCOL_ID || message.is_empty() {
            return Err(NotOpened::Structure);
        }
        if header[42..44] != ENCRYPTED.to_le_bytes() {
            return Err(NotOpened::Flags);
        }
        let size = u32::from_le_bytes([header[36], header[37], header[38], header[39]]);
        if u32::try_from(message.len()) != Ok(size) {
            return Err(NotOpened::Size);
        }
        let mut nonce = [0; 16];
        nonce.copy_from_slice(&header[20..36]);
        let (aad, tag) = (&header[20..52], &header[4..20]);
        let opened = match self.schedule() {
            Schedule::Gcm(key) => {
                key.open_in_place_separate_tag(gcm_nonce(nonce), aead::Aad::from(aad), tag, message).is_ok()
            }
            Schedule::Ccm128(key) => {
                key.decrypt_in_place_detached(&ccm_nonce(nonce), aad, message, GenericArray::from_slice(tag)).is_ok()
            }
            Schedule::Ccm256(key) => {
                key.decrypt_in_place_detached(&ccm_nonce(nonce), aad, message, GenericArray::from_slice(tag)).is_ok()
            }
        };
        if opened { Ok(message) } else { Err(NotOpened::Signature) }
    }
}

/// `AES_GCM_Nonce`: the first 12 bytes of the field.
fn gcm_nonce(field: [u8; 16]) -> aead::Nonce {
    let mut nonce = [0; 12];
    nonce.copy_from_slice(&field[..12]);
    aead::Nonce::assume_unique_for_key(nonce)
}

/// `AES_CCM_Nonce`: the first 11 bytes of the field.
fn ccm_nonce(field: [u8; 16]) -> ccm::Nonce<U11> {
    *GenericArray::from_slice(&field[..11])
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.cipher {
            CipherId::AES_128_CCM => "SealingKey(AES-128-CCM)",
            CipherId::AES_256_CCM => "SealingKey(AES-256-CCM)",
            _ => "SealingKey(AES-GCM)",
        })
    }
}

#[cfg(test)]
mod tests;
