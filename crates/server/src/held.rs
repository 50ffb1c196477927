//! What the allocator takes for what a cache keeps, so that a bound in bytes bounds the memory of the process: each
//! allocation has a header and comes in steps, and tables have room for more than is in them.
//!
//! The figures are glibc's on 64 bits: 8 bytes for each allocation, steps of 16 bytes, 32 at least. Others need about as
//! much. What lies idle between allocations is not counted.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

/// What an allocation of `bytes` takes.
pub const fn allocation(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        1..=24 => 32,
        _ => (bytes + 8).next_multiple_of(16),
    }
}

/// What an `Arc<T>` takes.
pub const fn shared<T>() -> usize {
    allocation(size_of::<T>() + 2 * size_of::<usize>())
}

/// What a vector with room for `room` elements takes.
pub const fn vector<T>(room: usize) -> usize {
    allocation(room * size_of::<T>())
}

/// What a hash table of pairs with room for `room` of them takes: places by a power of two, an eighth of them empty, and
/// a byte for each besides.
pub const fn table<K, V>(room: usize) -> usize {
    let places = match room {
        0 => return 0,
        1..=3 => 4,
        4..=7 => 8,
        8..=14 => 16,
        _ => (room * 8 / 7).next_power_of_two(),
    };
    allocation((places * size_of::<(K, V)>()).next_multiple_of(16) + places + 16)
}

/// Hashes of numbers that the kernel gives, as those of files: a few multiplications where the usual hash takes a hundred
/// steps. It has a key, so that nobody knows which files collide.
#[derive(Clone, Debug)]
pub struct Numbers(u64);

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

/// A hash of [`Numbers`] that is being made.
#[derive(Debug)]
pub struct NumberHasher(u64);

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

/// A hash table that knows what it takes: the map alone says how much room is left, which is less after removals.
#[derive(Debug)]
pub struct Table<K, V, S = RandomState> {
    map: HashMap<K, V, S>,
    room: usize,
}

impl<K, V, S: Default> Default for Table<K, V, S> {
    fn default() -> Self {
        Table { map: HashMap::default(), room: 0 }
    }
}

impl<K: Eq + Hash, V, S: BuildHasher + Default> Table<K, V, S> {
    /// The map, to look at.
    pub fn map(&self) -> &HashMap<K, V, S> {
        &self.map
    }

    /// What belongs to `key`, to be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.map.get_mut(key)
    }

    /// Puts something in; what was there before comes back.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let former = self.map.insert(key, value);
        self.room = self.room.max(self.map.capacity());
        former
    }

    /// Takes something out. A table that has become far too large becomes smaller.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let gone = self.map.remove(key);
        if self.room > FEW && self.map.len() < self.room / 4 {
            self.map.shrink_to(self.room / 2);
            self.room = self.map.capacity();
        }
        gone
    }

    /// Empties it, and lets its room go.
    pub fn clear(&mut self) {
        *self = Table::default();
    }

    /// Keeps what `stays`.
    pub fn retain(&mut self, stays: impl FnMut(&K, &mut V) -> bool) {
        self.map.retain(stays);
    }

    /// What it takes.
    pub fn bytes(&self) -> usize {
        table::<K, V>(self.room)
    }
}

/// Room that is not worth giving back.
pub const FEW: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_says_what_it_takes_after_removals_too() {
        let mut table: Table<u64, [u64; 3]> = Table::default();
        (0..1_000).for_each(|key| _ = table.insert(key, [0; 3]));
        let full = table.bytes();
        assert_eq!(full, allocation(2_048 * 33 + 16), "places for 1,000 are 2,048, of 32 bytes and one");
        (0..500).for_each(|key| _ = table.remove(&key));
        assert_eq!(table.bytes(), full, "it is not worth the trouble yet");
        (500..990).for_each(|key| _ = table.remove(&key));
        assert!(table.bytes() < full / 8, "{}", table.bytes());
        assert_eq!(table.map().len(), 10);
        table.clear();
        assert_eq!(table.bytes(), 0);
    }

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
