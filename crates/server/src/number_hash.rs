//! A hash function for numbers that this server or the kernel assigned, such as session and file ids. It takes a few
//! multiplications, whereas the default hash takes a hundred steps. It is keyed, so that clients cannot predict which
//! numbers collide. Keys that clients choose, such as names, need the default hash.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

/// A map whose keys are numbers that this server or the kernel assigned.
pub(crate) type NumberMap<K, V> = HashMap<K, V, Numbers>;

/// The hash function, for [`HashMap`].
#[derive(Clone, Debug)]
pub(crate) struct Numbers(u64);

impl Default for Numbers {
    fn default() -> Self {
        Numbers(RandomState::new().hash_one(0))
    }
}

impl BuildHasher for Numbers {
    type Hasher = NumberHasher;

    fn build_hasher(&self) -> NumberHasher {
        NumberHasher(self.0)
    }
}

/// The hasher of [`Numbers`].
#[derive(Debug)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut number = [0; 8];
            number[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(number));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number) * 0x9E37_79B9_7F4A_7C15;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_follow_each_other_are_spread() {
        let numbers = Numbers::default();
        let mut places = [0; 64];
        (0..6_400_u64).for_each(|inode| places[numbers.hash_one((1_u64, inode, 0_u32)) as usize % 64] += 1);
        assert!(places.iter().all(|&count| (40..200).contains(&count)), "{places:?}");
        assert_ne!(numbers.hash_one(1_u64), Numbers::default().hash_one(1_u64), "another key");
        let bytes = |bytes: &[u8]| {
            let mut hasher = numbers.build_hasher();
            hasher.write(bytes);
            hasher.finish()
        };
        assert_ne!(bytes(b"123456789"), bytes(b"12345678"));
    }
}
