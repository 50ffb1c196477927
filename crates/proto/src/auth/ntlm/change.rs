//! A new password, sealed with the hash of the old one ([MS-SAMR] 2.2.6.21, 2.2.11.1, 3.1.5.10.3). The sender thereby
//! proves knowledge of the old password and need not be logged on. An administrator seals it with the session key.

use std::ops::RangeInclusive;

use aes::Aes256;
use aws_lc_rs::hmac;
use des::Des;
use des::cipher::generic_array::GenericArray;
use des::cipher::{BlockDecrypt, BlockEncrypt, KeyInit};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::digest::{md4, md5, rc4};

/// The size of a SAMPR_ENCRYPTED_USER_PASSWORD: space for 256 characters, filled from its end, and the length in bytes.
pub const SEALED_PASSWORD: usize = 516;
const ROOM: usize = 512;

/// The size of a SAMPR_ENCRYPTED_USER_PASSWORD_NEW: a sealed password and the salt of its key.
pub const SALTED_PASSWORD: usize = SEALED_PASSWORD + 16;

/// A SAMPR_ENCRYPTED_PASSWORD_AES without its number of iterations ([MS-SAMR] 2.2.6.32).
pub struct AesPassword<'a> {
    /// The signature.
    pub auth_data: [u8; 64],
    /// The initialization vector.
    pub salt: [u8; 16],
    /// The encrypted length and text.
    pub cipher: &'a [u8],
}

/// The new password, as UTF-16LE, and its hash.
pub struct NewPassword {
    /// The text, as UTF-16LE.
    pub text: Zeroizing<Vec<u8>>,
    /// Its NT hash.
    pub nt_hash: Zeroizing<[u8; 16]>,
}

impl NewPassword {
    /// Opens `sealed` with the hash of the old password. `proof` is that hash, encrypted with the hash of the new one.
    /// Returns `None` if either was made with another hash, which takes the same work.
    pub fn open(old: &[u8; 16], sealed: &[u8; SEALED_PASSWORD], proof: &[u8; 16]) -> Option<NewPassword> {
        let (new, fits) = NewPassword::unseal(old, sealed);
        let proven = encrypt_hash(old, &new.nt_hash).ct_eq(proof).into();
        (fits && proven).then_some(new)
    }

    /// Opens `sealed` with a session key ([MS-SAMR] 2.2.6.26). Returns `None` if the length is wrong, as it nearly
    /// always is with another key.
    pub fn open_with_key(key: &[u8; 16], sealed: &[u8; SEALED_PASSWORD]) -> Option<NewPassword> {
        let (new, fits) = NewPassword::unseal(key, sealed);
        fits.then_some(new)
    }

    /// Opens `sealed` with a key made from its salt and a session key ([MS-SAMR] 2.2.6.22, 3.2.2.2).
    pub fn open_salted(key: &[u8; 16], sealed: &[u8; SALTED_PASSWORD]) -> Option<NewPassword> {
        let (sealed, salt) = sealed.split_first_chunk::<SEALED_PASSWORD>()?;
        NewPassword::open_with_key(&Zeroizing::new(md5(&[salt, key])), sealed)
    }

    /// Opens `sealed` by AEAD-AES-256-CBC-HMAC-SHA512 with a content encryption key ([MS-SAMR] 3.2.2.4). Returns `None`
    /// if the signature is wrong.
    pub fn open_aes(key: &[u8], sealed: &AesPassword<'_>) -> Option<NewPassword> {
        let signature = aes_signature(key, sealed);
        if !bool::from(signature.as_ref().ct_eq(&sealed.auth_data)) || !sealed.cipher.len().is_multiple_of(16) {
            return None;
        }
        let aes = aes_cipher(key);
        let mut plain = Zeroizing::new(sealed.cipher.to_vec());
        let mut previous: &[u8] = &sealed.salt;
        for (block, sealed) in plain.chunks_exact_mut(16).zip(sealed.cipher.chunks_exact(16)) {
            aes.decrypt_block(GenericArray::from_mut_slice(block));
            block.iter_mut().zip(previous).for_each(|(byte, before)| *byte ^= before);
            previous = sealed;
        }
        let (count, text) = plain.split_first_chunk::<2>()?;
        let count = usize::from(u16::from_le_bytes(*count));
        let whole = text.len() >= ROOM && count <= ROOM && count.is_multiple_of(2);
        let text = Zeroizing::new(text.get(..count).filter(|_| whole)?.to_vec());
        let nt_hash = Zeroizing::new(md4(&text));
        Some(NewPassword { text, nt_hash })
    }

    /// Decrypts a password, and returns whether its length is valid.
    fn unseal(key: &[u8; 16], sealed: &[u8; SEALED_PASSWORD]) -> (NewPassword, bool) {
        let mut plain = Zeroizing::new(*sealed);
        rc4(key, &mut *plain);
        let count = plain[ROOM..].iter().rev().fold(0, |count, byte| count << 8 | usize::from(*byte));
        let fits = count <= ROOM && count.is_multiple_of(2);
        let text = Zeroizing::new(plain[ROOM - if fits { count } else { ROOM }..ROOM].to_vec());
        let nt_hash = Zeroizing::new(md4(&text));
        (NewPassword { text, nt_hash }, fits)
    }
}

/// Returns the signature of an encrypted password ([MS-SAMR] 3.2.2.4).
fn aes_signature(key: &[u8], sealed: &AesPassword<'_>) -> hmac::Tag {
    const PURPOSE: &[u8] = b"Microsoft SAM MAC key AEAD-AES-256-CBC-HMAC-SHA512 16\0";
    const VERSION: u8 = 1;
    let key = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA512, key), PURPOSE);
    let mut signature = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA512, key.as_ref()));
    signature.update(&[VERSION]);
    signature.update(&sealed.salt);
    signature.update(sealed.cipher);
    // The length of the version.
    signature.update(&[1]);
    signature.sign()
}

/// Returns the cipher of an encrypted password ([MS-SAMR] 3.2.2.4), whose key is the beginning of a hash.
fn aes_cipher(key: &[u8]) -> Aes256 {
    const PURPOSE: &[u8] = b"Microsoft SAM encryption key AEAD-AES-256-CBC-HMAC-SHA512 16\0";
    let key = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA512, key), PURPOSE);
    let mut short = Zeroizing::new([0; 32]);
    short.iter_mut().zip(key.as_ref()).for_each(|(to, from)| *to = *from);
    Aes256::new(GenericArray::from_slice(&*short))
}

/// The key of a password that the owner of an account changes, made from the hash of the old password by PBKDF2 with
/// HMAC-SHA512 ([MS-SAMR] 3.2.2.5). It is made in steps, because it takes up to a second.
pub struct KeyDerivation {
    key: hmac::Key,
    last: Zeroizing<[u8; 64]>,
    sum: Zeroizing<[u8; 64]>,
    left: u64,
}

impl KeyDerivation {
    /// The numbers of iterations that a client may choose ([MS-SAMR] 3.1.5.10.4).
    pub const ITERATIONS: RangeInclusive<u64> = 5000..=1_000_000;

    /// Starts with the first iteration.
    pub fn new(hash: &[u8; 16], salt: &[u8; 16], iterations: u64) -> KeyDerivation {
        let key = hmac::Key::new(hmac::HMAC_SHA512, hash);
        let mut first = hmac::Context::with_key(&key);
        first.update(salt);
        // The number of the only block.
        first.update(&1_u32.to_be_bytes());
        let mut last = Zeroizing::new([0; 64]);
        last.copy_from_slice(first.sign().as_ref());
        KeyDerivation { key, sum: last.clone(), last, left: iterations.saturating_sub(1) }
    }

    /// Makes at most `count` iterations, each of which takes about a microsecond. Returns the key if that was the last.
    pub fn advance(&mut self, count: u64) -> Option<Zeroizing<[u8; 16]>> {
        let count = count.min(self.left);
        for _ in 0..count {
            let next = hmac::sign(&self.key, &*self.last);
            self.last.copy_from_slice(next.as_ref());
            self.sum.iter_mut().zip(&*self.last).for_each(|(sum, byte)| *sum ^= byte);
        }
        self.left -= count;
        let key = self.sum.first_chunk().copied().map(Zeroizing::new);
        key.filter(|_| self.left == 0)
    }
}

/// [MS-SAMR] 2.2.11.1.1: decrypts a hash that was encrypted as two blocks of DES with `key`.
pub fn decrypt_hash(encrypted: &[u8; 16], key: &[u8; 16]) -> Zeroizing<[u8; 16]> {
    let mut hash = Zeroizing::new(*encrypted);
    for (block, key) in hash.chunks_exact_mut(8).zip(key.chunks_exact(7)) {
        Des::new(&GenericArray::from(spread(key))).decrypt_block(GenericArray::from_mut_slice(block));
    }
    hash
}

/// [MS-SAMR] 2.2.11.1.1: encrypts `hash` as two blocks of DES, with the first and the second seven bytes of `key`.
fn encrypt_hash(hash: &[u8; 16], key: &[u8; 16]) -> [u8; 16] {
    let mut encrypted = *hash;
    for (block, key) in encrypted.chunks_exact_mut(8).zip(key.chunks_exact(7)) {
        Des::new(&GenericArray::from(spread(key))).encrypt_block(GenericArray::from_mut_slice(block));
    }
    encrypted
}

/// [MS-SAMR] 2.2.11.1.2: expands seven bytes to the eight of a DES key, whose lowest bits are unused.
pub(super) fn spread(key: &[u8]) -> [u8; 8] {
    let bits = key.iter().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
    std::array::from_fn(|index| ((bits >> (49 - 7 * index)) << 1) as u8)
}

/// Seals a new password as a client does; `padding` is random.
pub fn seal_password(
    old: &[u8; 16],
    new: &str,
    padding: &[u8; SEALED_PASSWORD],
) -> Option<([u8; SEALED_PASSWORD], [u8; 16])> {
    let text = Zeroizing::new(crate::bytes::utf16_bytes(new));
    let begin = ROOM.checked_sub(text.len())?;
    let mut sealed = *padding;
    sealed[begin..ROOM].copy_from_slice(&text);
    sealed[ROOM..].copy_from_slice(&(text.len() as u32).to_le_bytes());
    rc4(old, &mut sealed);
    Some((sealed, encrypt_hash(old, &md4(&text))))
}

/// Seals a new password with AES as a client does; `salt` is random. Returns the signature and the encrypted text.
pub fn seal_password_aes(key: &[u8], new: &str, salt: [u8; 16]) -> Option<([u8; 64], Vec<u8>)> {
    // The padding of PKCS #7 follows.
    const PADDING: u8 = 14;
    let text = Zeroizing::new(crate::bytes::utf16_bytes(new));
    let mut cipher = vec![0; 2 + ROOM];
    cipher.get_mut(2..2 + text.len())?.copy_from_slice(&text);
    cipher[..2].copy_from_slice(&u16::try_from(text.len()).ok()?.to_le_bytes());
    cipher.resize(2 + ROOM + usize::from(PADDING), PADDING);
    let (aes, mut previous) = (aes_cipher(key), salt);
    for block in cipher.chunks_exact_mut(16) {
        block.iter_mut().zip(previous).for_each(|(byte, before)| *byte ^= before);
        aes.encrypt_block(GenericArray::from_mut_slice(block));
        previous.copy_from_slice(block);
    }
    let signature = aes_signature(key, &AesPassword { auth_data: [0; 64], salt, cipher: &cipher });
    Some((*signature.as_ref().first_chunk()?, cipher))
}

#[cfg(test)]
mod tests {
    use super::super::nt_hash;
    use super::*;
    use crate::bytes::utf16_bytes;

    #[test]
    fn only_the_old_password_opens() {
        let old = nt_hash("old secret");
        for new in ["new secret", "", "gr\u{fc}n", &"x".repeat(256)] {
            let (sealed, proof) = seal_password(&old, new, &[7; SEALED_PASSWORD]).expect("the buffer is long enough");
            let opened = NewPassword::open(&old, &sealed, &proof).expect("the old password");
            assert_eq!((&*opened.text, *opened.nt_hash), (&utf16_bytes(new), nt_hash(new)));
            assert!(NewPassword::open(&nt_hash("another"), &sealed, &proof).is_none());
            assert!(NewPassword::open(&old, &sealed, &[0; 16]).is_none());
        }
        assert!(seal_password(&old, &"x".repeat(257), &[7; SEALED_PASSWORD]).is_none());
    }

    #[test]
    fn a_session_key_opens_what_it_has_sealed() {
        let key = [5; 16];
        let (sealed, proof) =
            seal_password(&key, "new secret", &[7; SEALED_PASSWORD]).expect("the buffer is long enough");
        let opened = NewPassword::open_with_key(&key, &sealed).expect("the same key");
        assert_eq!(*opened.nt_hash, nt_hash("new secret"));
        assert_eq!(*decrypt_hash(&proof, &opened.nt_hash), key);
        assert!(NewPassword::open_with_key(&[6; 16], &sealed).is_none());
        // [MS-SAMR] 3.2.2.2: the salt comes first.
        let salt = [8; 16];
        let (sealed, _) = seal_password(&md5(&[&salt, &key]), "new secret", &[7; SEALED_PASSWORD]).expect("it fits");
        let mut salted = [0; SALTED_PASSWORD];
        salted[..SEALED_PASSWORD].copy_from_slice(&sealed);
        salted[SEALED_PASSWORD..].copy_from_slice(&salt);
        let opened = NewPassword::open_salted(&key, &salted).expect("the same key");
        assert_eq!(*opened.nt_hash, nt_hash("new secret"));
        salted[SEALED_PASSWORD] ^= 1;
        assert!(NewPassword::open_salted(&key, &salted).is_none());
    }

    #[test]
    fn aes_opens_what_it_has_sealed() {
        let (key, salt) = ([5; 16], [1; 16]);
        for new in ["new secret", "", &"x".repeat(256)] {
            let (auth_data, cipher) = seal_password_aes(&key, new, salt).expect("it fits");
            let sealed = AesPassword { auth_data, salt, cipher: &cipher };
            let opened = NewPassword::open_aes(&key, &sealed).expect("the same key");
            assert_eq!((&*opened.text, *opened.nt_hash), (&utf16_bytes(new), nt_hash(new)));
            assert!(NewPassword::open_aes(&[6; 16], &sealed).is_none());
            let mut changed = cipher.clone();
            changed[20] ^= 1;
            assert!(NewPassword::open_aes(&key, &AesPassword { auth_data, salt, cipher: &changed }).is_none());
        }
        assert!(seal_password_aes(&key, &"x".repeat(257), salt).is_none());
    }

    #[test]
    fn a_cipher_with_a_wrong_signature_is_refused() {
        let sealed = AesPassword { auth_data: [0; 64], salt: [1; 16], cipher: &[2; 528] };
        assert!(NewPassword::open_aes(&[5; 16], &sealed).is_none());
    }

    #[test]
    fn a_key_derivation_is_pbkdf2() {
        for (iterations, step) in [(1, 1), (2, 1), (1000, 7), (1000, 10_000)] {
            let (hash, salt) = ([3; 16], [4; 16]);
            let mut expected = [0; 16];
            let rounds = std::num::NonZeroU32::new(iterations).expect("at least one");
            aws_lc_rs::pbkdf2::derive(aws_lc_rs::pbkdf2::PBKDF2_HMAC_SHA512, rounds, &salt, &hash, &mut expected);
            let mut derivation = KeyDerivation::new(&hash, &salt, iterations.into());
            let mut steps = 1;
            let key = loop {
                match derivation.advance(step) {
                    Some(key) => break key,
                    None => steps += 1,
                }
            };
            assert_eq!(*key, expected, "{iterations} iterations");
            assert_eq!(steps, (u64::from(iterations) - 1).div_ceil(step).max(1));
        }
    }

    /// The well-known test pair of FIPS 46, without the parity bits of the key.
    #[test]
    fn des_is_des() {
        // 13 34 57 79 9b bc df f1 without its lowest bits.
        let bits =
            [0x13_u64, 0x34, 0x57, 0x79, 0x9b, 0xbc, 0xdf, 0xf1].iter().fold(0, |all, byte| all << 7 | byte >> 1);
        let mut key = [0; 16];
        key[..7].copy_from_slice(&bits.to_be_bytes()[1..]);
        let mut hash = [0; 16];
        hash[..8].copy_from_slice(&0x0123_4567_89ab_cdef_u64.to_be_bytes());
        assert_eq!(encrypt_hash(&hash, &key)[..8], 0x85e8_1354_0f0a_b405_u64.to_be_bytes());
    }
}
