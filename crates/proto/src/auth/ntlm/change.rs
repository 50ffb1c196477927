//! A new password, sealed with the hash of the old one ([MS-SAMR] 2.2.6.21, 2.2.11.1, 3.1.5.10.3). The sender thereby
//! proves knowledge of the old password and need not be logged on.

use des::Des;
use des::cipher::generic_array::GenericArray;
use des::cipher::{BlockEncrypt, KeyInit};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::digest::{md4, rc4};

/// The size of a SAMPR_ENCRYPTED_USER_PASSWORD: space for 256 characters, filled from its end, and the length in bytes.
pub const SEALED_PASSWORD: usize = 516;
const ROOM: usize = 512;

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
        let mut plain = Zeroizing::new(*sealed);
        rc4(old, &mut *plain);
        let count = plain[ROOM..].iter().rev().fold(0, |count, byte| count << 8 | usize::from(*byte));
        let fits = count <= ROOM && count.is_multiple_of(2);
        let text = Zeroizing::new(plain[ROOM - if fits { count } else { ROOM }..ROOM].to_vec());
        let nt_hash = Zeroizing::new(md4(&text));
        let proven = encrypt_hash(old, &nt_hash).ct_eq(proof).into();
        (fits && proven).then_some(NewPassword { text, nt_hash })
    }
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
fn spread(key: &[u8]) -> [u8; 8] {
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
