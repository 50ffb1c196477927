//! A compact set of names, searched without regard to case.
//!
//! All names are in one block of memory, and a hash table has their positions. A directory of 100,000 names of 12 bytes
//! costs about 3 MiB; a boxed slice for each name costs five times as much.
//!
//! The hash is that of the name without regard to case. Only a few names that differ in nothing but case are in the
//! block, because each of them is compared; further ones are in ordered sets.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use server::name::fold_key;

/// Bytes of removed names that may remain in the block, whatever its size.
const GARBAGE: usize = 4096;

/// Number of names in the block that differ only in case.
const VARIANTS: usize = 16;
/// Estimated memory of a name that is not in the block, besides its bytes and those of its key.
const APART: usize = 64;

/// The names of a directory. A name has at most 255 bytes, as in Linux (`NAME_MAX`); a longer one is not kept.
#[derive(Default)]
pub(super) struct NameTable {
    /// Each name is preceded by its length.
    block: Vec<u8>,
    entries: HashTable<Entry>,
    /// Bytes in `block` of names that were removed.
    garbage: usize,
    /// By key, the names that are not in the block.
    apart: HashMap<Box<[u8]>, BTreeSet<Box<[u8]>>>,
    /// The memory of `apart`.
    apart_bytes: usize,
    hasher: RandomState,
}

/// Part of the hash of a name's key, and the position of the name in the block.
#[derive(Clone, Copy)]
struct Entry {
    hash: u32,
    at: u32,
}

impl NameTable {
    /// Adds `name`. Returns whether it was absent.
    pub(super) fn insert(&mut self, name: &[u8]) -> bool {
        let key = fold_key(name);
        let hash = self.hash(&key);
        let (Ok(length), Ok(at)) = (u8::try_from(name.len()), u32::try_from(self.block.len())) else { return false };
        let mut variants = 0;
        for other in self.with_hash(hash) {
            if other == name {
                return false;
            }
            variants += 1;
        }
        if self.apart.get(&*key).is_some_and(|apart| apart.contains(name)) {
            return false;
        }
        if variants >= VARIANTS {
            self.apart_bytes += 2 * name.len() + APART;
            return self.apart.entry(key.into()).or_default().insert(name.into());
        }
        self.block.push(length);
        self.block.extend_from_slice(name);
        self.entries.insert_unique(spread(hash), Entry { hash, at }, |entry| spread(entry.hash));
        true
    }

    /// Removes `name`, which must be spelled as it was added. Returns whether it was present.
    pub(super) fn remove(&mut self, name: &[u8]) -> bool {
        let key = fold_key(name);
        let hash = self.hash(&key);
        let block = &self.block;
        let found = self.entries.find_entry(spread(hash), |entry| entry.hash == hash && name_at(block, *entry) == name);
        let Ok(found) = found else { return self.remove_apart(&key, name) };
        found.remove();
        self.garbage += 1 + name.len();
        if self.garbage > GARBAGE.max(self.block.len() / 2) {
            self.compact();
        }
        true
    }

    /// Returns `name` itself if the table has it, else the first name in byte order that equals it except for case.
    pub(super) fn find(&self, name: &[u8]) -> Option<&[u8]> {
        let key = fold_key(name);
        let apart = self.apart.get(&*key);
        let apart = apart.and_then(|apart| apart.get(name).or_else(|| apart.first())).map(|other| &**other);
        let names = self.with_hash(self.hash(&key)).filter(|other| *other == name || fold_key(other) == key);
        names.chain(apart).min_by_key(|other| (*other != name, *other))
    }

    /// Returns the memory that the table occupies, in bytes as allocated.
    pub(super) fn allocated(&self) -> usize {
        self.block.capacity() + self.entries.allocation_size() + self.apart_bytes
    }

    /// Returns memory that only more names would need.
    pub(super) fn shrink_to_fit(&mut self) {
        self.block.shrink_to_fit();
        self.entries.shrink_to_fit(|entry| spread(entry.hash));
    }

    #[expect(clippy::cast_possible_truncation, reason = "half of a hash is a hash")]
    fn hash(&self, key: &[u8]) -> u32 {
        self.hasher.hash_one(key) as u32
    }

    /// Returns the names in the block whose keys have this hash.
    fn with_hash(&self, hash: u32) -> impl Iterator<Item = &[u8]> {
        let entries = self.entries.iter_hash(spread(hash)).filter(move |entry| entry.hash == hash);
        entries.map(|entry| name_at(&self.block, *entry))
    }

    fn remove_apart(&mut self, key: &[u8], name: &[u8]) -> bool {
        let Some(names) = self.apart.get_mut(key) else { return false };
        let removed = names.remove(name);
        if removed {
            self.apart_bytes -= 2 * name.len() + APART;
        }
        if names.is_empty() {
            self.apart.remove(key);
        }
        removed
    }

    /// Moves the names together.
    #[expect(clippy::cast_possible_truncation, reason = "the new block is shorter than the old one")]
    fn compact(&mut self) {
        let mut block = Vec::with_capacity(self.block.len() - self.garbage);
        for entry in &mut self.entries {
            let at = block.len() as u32;
            block.extend_from_slice(with_length(&self.block, *entry));
            entry.at = at;
        }
        self.block = block;
        self.garbage = 0;
        self.entries.shrink_to_fit(|entry| spread(entry.hash));
    }
}

/// Returns a name and, before it, its length.
fn with_length(block: &[u8], entry: Entry) -> &[u8] {
    let from = &block[entry.at as usize..];
    &from[..=usize::from(from[0])]
}

fn name_at(block: &[u8], entry: Entry) -> &[u8] {
    &with_length(block, entry)[1..]
}

/// Returns a hash whose highest and lowest bits both depend on `hash`, as the hash table requires.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_name_itself_is_preferred_to_the_first_in_byte_order() {
        let mut table = NameTable::default();
        for name in ["report", "REPORT", "Report", "other"] {
            assert!(table.insert(name.as_bytes()));
            assert!(!table.insert(name.as_bytes()), "the table has it");
        }
        assert_eq!(table.find(b"Report"), Some(&b"Report"[..]));
        assert_eq!(table.find(b"rePORT"), Some(&b"REPORT"[..]));
        assert!(table.remove(b"REPORT"));
        assert_eq!(table.find(b"rePORT"), Some(&b"Report"[..]));
        assert!(!table.remove(b"rePORT"), "a name is removed as it was added");
        assert_eq!(table.find(b"missing"), None);
    }

    #[test]
    fn few_names_that_differ_only_in_case_are_compared() {
        let mut table = NameTable::default();
        let spelled = |case: u32| (0..12).map(|at| if case >> at & 1 == 0 { b'n' } else { b'N' }).collect::<Vec<_>>();
        let names: Vec<_> = (0..1 << 12).map(spelled).collect();
        for name in &names {
            assert!(table.insert(name) && !table.insert(name));
        }
        assert_eq!(table.entries.len(), VARIANTS);
        assert!(table.allocated() > names.len() * APART);
        assert!(names.iter().all(|name| table.find(name) == Some(name)));
        for name in &names[..names.len() - 1] {
            assert!(table.remove(name) && !table.remove(name));
        }
        assert_eq!(table.find(b"nnnnnnnnnnnn"), Some(&b"NNNNNNNNNNNN"[..]));
        assert!(table.remove(b"NNNNNNNNNNNN"));
        assert_eq!((table.find(b"nnnnnnnnnnnn"), table.apart.len(), table.apart_bytes), (None, 0, 0));
    }

    #[test]
    fn a_name_of_any_length_is_found() {
        let mut table = NameTable::default();
        for length in 0..=255 {
            assert!(table.insert(&vec![b'n'; length]));
        }
        assert!(!table.insert(&[b'n'; 256]));
        for length in 0..=255 {
            assert_eq!(table.find(&vec![b'N'; length]), Some(&vec![b'n'; length][..]));
        }
        assert_eq!(table.find(&[b'N'; 256]), None);
    }

    #[test]
    fn a_hundred_thousand_names_take_little_memory() {
        let mut table = NameTable::default();
        for number in 0..100_000 {
            table.insert(format!("name-{number:06}").as_bytes());
        }
        table.shrink_to_fit();
        assert!(table.allocated() < 3 << 20, "{} bytes", table.allocated());
        assert_eq!(table.find(b"NAME-099999"), Some(&b"name-099999"[..]));
    }

    #[test]
    fn names_that_come_and_go_do_not_accumulate() {
        let mut table = NameTable::default();
        for number in 0..100_000 {
            table.insert(format!("name-{number:06}").as_bytes());
            if number >= 10 {
                assert!(table.remove(format!("name-{:06}", number - 10).as_bytes()));
            }
        }
        assert!(table.allocated() < 32 << 10, "{} bytes", table.allocated());
        assert_eq!(table.find(b"name-099990"), Some(&b"name-099990"[..]));
    }

    proptest! {
        #[test]
        fn the_table_is_a_set(changes in proptest::collection::vec((any::<bool>(), "[abAB]{0,3}|[aA]{5}"), 0..300)) {
            let (mut table, mut set) = (NameTable::default(), BTreeSet::new());
            for (add, name) in changes {
                let name = name.into_bytes();
                if add {
                    prop_assert_eq!(table.insert(&name), set.insert(name));
                } else {
                    prop_assert_eq!(table.remove(&name), set.remove(&name));
                }
            }
            for name in ["", "a", "Ab", "BBB", "aBa", "aAaAa"].map(str::as_bytes) {
                let equal = set.iter().find(|other| other.eq_ignore_ascii_case(name));
                let expected = set.get(name).or(equal);
                prop_assert_eq!(table.find(name), expected.map(Vec::as_slice));
            }
        }
    }
}
