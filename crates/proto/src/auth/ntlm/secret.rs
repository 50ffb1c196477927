//! The encryption of LSA secrets with the session key ([MS-LSAD] 5.1.2, 5.1.3): DES, each block with another part
//! of the key. It hides a secret only from a reader that does not know that key, so SMB should encrypt the
//! pipe's data.

use des::Des;
use des::cipher::generic_array::GenericArray;
use des::cipher::{BlockDecrypt, BlockEncrypt, KeyInit};
use zeroize::Zeroizing;

use super::change::spread;

const BLOCK: usize = 8;
const KEY: usize = 16;
/// The bytes of the key that one block uses.
const PART: usize = 7;
const VERSION: u32 = 1;

/// The parts of the session key, in the order in which blocks use them: `AdvanceKey`.
struct Parts<'a> {
    key: &'a [u8; KEY],
    position: usize,
}

impl Iterator for Parts<'_> {
    type Item = Des;

    fn next(&mut self) -> Option<Des> {
        let part = Zeroizing::new(spread(self.key.get(self.position..self.position + PART)?));
        self.position += PART;
        let overrun = (self.position + PART).saturating_sub(KEY);
        if overrun > 0 {
            self.position = PART - overrun;
        }
        Some(Des::new(GenericArray::from_slice(&*part)))
    }
}

fn parts(key: &[u8; KEY]) -> Parts<'_> {
    Parts { key, position: 0 }
}

/// Encrypts `secret`: its length and the version, then the secret, padded with zeros.
pub fn encrypt(secret: &[u8], key: &[u8; KEY]) -> Vec<u8> {
    let mut text = Vec::with_capacity(BLOCK + secret.len().next_multiple_of(BLOCK));
    text.extend_from_slice(&(secret.len() as u32).to_le_bytes());
    text.extend_from_slice(&VERSION.to_le_bytes());
    text.extend_from_slice(secret);
    text.resize(text.len().next_multiple_of(BLOCK), 0);
    for (block, part) in text.chunks_exact_mut(BLOCK).zip(parts(key)) {
        part.encrypt_block(GenericArray::from_mut_slice(block));
    }
    text
}

/// Decrypts a secret. Returns `None` if the version or the length is wrong, as they nearly always are with another key.
pub fn decrypt(cipher: &[u8], key: &[u8; KEY]) -> Option<Zeroizing<Vec<u8>>> {
    if !cipher.len().is_multiple_of(BLOCK) {
        return None;
    }
    let mut text = Zeroizing::new(cipher.to_vec());
    for (block, part) in text.chunks_exact_mut(BLOCK).zip(parts(key)) {
        part.decrypt_block(GenericArray::from_mut_slice(block));
    }
    let (head, secret) = text.split_first_chunk::<BLOCK>()?;
    let head = u64::from_le_bytes(*head);
    let length = usize::try_from(head & u64::from(u32::MAX)).ok()?;
    let fits = head >> 32 == u64::from(VERSION) && length.checked_next_multiple_of(BLOCK) == Some(secret.len());
    Some(Zeroizing::new(secret.get(..length).filter(|_| fits)?.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::utf16_bytes;
    use crate::crypto::hex;

    /// [MS-LSAD] 5.1.4.
    #[test]
    fn the_examples_of_the_specification() {
        let key: [u8; 16] = hex("4e98c910b2a988d792fb5aa33e8ef786").try_into().expect("16 bytes");
        let cipher = hex("af784403fba09227 8c95fc7e88564ccd 7cd0c241da6f1441 5626cda581e9223d");
        let secret = utf16_bytes("Password123");
        assert_eq!(encrypt(&secret, &key), cipher);
        assert_eq!(decrypt(&cipher, &key).as_deref(), Some(&secret));
    }

    #[test]
    fn secrets_of_any_length_round_trip_and_others_are_refused() {
        for length in 0..40 {
            let secret: Vec<u8> = (0..length).collect();
            let mut cipher = encrypt(&secret, &[7; 16]);
            assert_eq!(decrypt(&cipher, &[7; 16]).as_deref(), Some(&secret));
            assert_eq!(decrypt(&cipher, &[8; 16]), None);
            assert_eq!(decrypt(&cipher[..cipher.len() - 1], &[7; 16]), None);
            cipher.extend_from_slice(&[0; 8]);
            assert_eq!(decrypt(&cipher, &[7; 16]), None, "more than the length says");
            cipher[0] ^= 1;
            assert_eq!(decrypt(&cipher, &[7; 16]), None);
        }
        assert_eq!(decrypt(&[], &[7; 16]), None);
    }
}
