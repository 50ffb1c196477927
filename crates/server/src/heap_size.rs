//! Estimates the memory that the allocator uses for a cache's contents, so that a bound in bytes limits the memory of
//! the process. Each allocation has a header and is rounded up, and tables have spare capacity.
//!
//! The figures are those of glibc on 64 bits: 8 bytes per allocation, rounded up to 16 bytes, at least 32. Other
//! allocators need about as much. Free memory between allocations is not included.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};

/// Returns the memory for an allocation of `bytes`.
pub const fn allocation(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        1..=24 => 32,
        _ => (bytes + 8).next_multiple_of(16),
    }
}

/// Returns the memory for an `Arc<T>`.
pub const fn shared<T>() -> usize {
    allocation(size_of::<T>() + 2 * size_of::<usize>())
}

/// Returns the memory for a vector with capacity for `space` elements.
pub const fn vector<T>(space: usize) -> usize {
    allocation(space * size_of::<T>())
}

/// Returns the memory for a hash table with capacity for `space` pairs: a power of two of slots, of which an eighth is
/// empty, and a control byte for each.
pub const fn table<K, V>(space: usize) -> usize {
    let places = match space {
        0 => return 0,
        1..=3 => 4,
        4..=7 => 8,
        8..=14 => 16,
        _ => (space * 8 / 7).next_power_of_two(),
    };
    allocation((places * size_of::<(K, V)>()).next_multiple_of(16) + places + 16)
}

/// A hash table that tracks its memory. `HashMap::capacity` is not sufficient, because it can be too low after
/// removals.
#[derive(Debug)]
pub struct Table<K, V, S = RandomState> {
    map: HashMap<K, V, S>,
    space: usize,
}

impl<K, V, S: Default> Default for Table<K, V, S> {
    fn default() -> Self {
        Table { map: HashMap::default(), space: 0 }
    }
}

impl<K: Eq + Hash, V, S: BuildHasher + Default> Table<K, V, S> {
    /// Returns the map for reading.
    pub fn map(&self) -> &HashMap<K, V, S> {
        &self.map
    }

    /// Returns the value of `key`, mutably.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.map.get_mut(key)
    }

    /// Inserts a value; returns the previous one.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let former = self.map.insert(key, value);
        self.space = self.space.max(self.map.capacity());
        former
    }

    /// Removes a value. Shrinks a table that has become far too large.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let gone = self.map.remove(key);
        if self.space > FEW && self.map.len() < self.space / 4 {
            self.map.shrink_to(self.space / 2);
            self.space = self.map.capacity();
        }
        gone
    }

    /// Removes everything and frees the capacity.
    pub fn clear(&mut self) {
        *self = Table::default();
    }

    /// Keeps the entries for which `stays` returns true.
    pub fn retain(&mut self, stays: impl FnMut(&K, &mut V) -> bool) {
        self.map.retain(stays);
    }

    /// Returns the memory that the table takes, in bytes.
    pub fn bytes(&self) -> usize {
        table::<K, V>(self.space)
    }
}

/// Capacity up to which a table is not shrunk.
pub const FEW: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_reports_its_memory_after_removals_too() {
        let mut table: Table<u64, [u64; 3]> = Table::default();
        (0..1_000).for_each(|key| _ = table.insert(key, [0; 3]));
        let full = table.bytes();
        assert_eq!(full, allocation(2_048 * 33 + 16), "1,000 entries need 2,048 slots of 33 bytes");
        (0..500).for_each(|key| _ = table.remove(&key));
        assert_eq!(table.bytes(), full, "too few entries to shrink");
        (500..990).for_each(|key| _ = table.remove(&key));
        assert!(table.bytes() < full / 8, "{}", table.bytes());
        assert_eq!(table.map().len(), 10);
        table.clear();
        assert_eq!(table.bytes(), 0);
    }
}
