//! The write-back setting `frevo:acl store`: which synthesized descriptors are stored on access.
//!
//! The criterion is the number of entries in the POSIX ACLs of a file. The cost of a conversion grows with it. The cost
//! of storing has steps where the attribute outgrows the inode and the block.

use std::fmt;
use std::ops::RangeInclusive;

/// Minimum number of entries of a file: those of its permission bits.
pub const FEWEST: u32 = 3;

/// A range of numbers of POSIX ACL entries of a file, including those of its default ACL.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entries(RangeInclusive<u32>);

impl Entries {
    /// The empty range.
    pub const NONE: Entries = Entries(RangeInclusive::new(1, 0));

    /// All numbers.
    pub const ALL: Entries = Entries(FEWEST..=u32::MAX);

    /// Returns the range from `least` on.
    pub fn at_least(least: u32) -> Entries {
        Entries(least.max(FEWEST)..=u32::MAX)
    }

    /// Returns the range from `least` to `most`; empty if `least` is more than `most`.
    pub fn between(least: u32, most: u32) -> Entries {
        let range = least.max(FEWEST)..=most;
        if range.is_empty() { Entries::NONE } else { Entries(range) }
    }

    /// Whether the range contains `count`.
    pub fn contains(&self, count: usize) -> bool {
        u32::try_from(count).is_ok_and(|count| self.0.contains(&count))
    }

    /// Whether the range is empty.
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }
}

/// In the syntax of `frevo:acl store`.
impl fmt::Display for Entries {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (*self.0.start(), *self.0.end()) {
            _ if self.0.is_empty() => formatter.write_str("never"),
            (FEWEST, u32::MAX) => formatter.write_str("always"),
            (least, u32::MAX) => write!(formatter, ">= {least}"),
            (least, most) => write!(formatter, "{least}-{most}"),
        }
    }
}

/// `frevo:acl store`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AclStore {
    /// The range that the administrator set.
    Said(Entries),
    /// `auto`: the range for which `frevo acl calibrate` measured a benefit; `None` if nothing was measured.
    Auto(Option<Entries>),
}

impl AclStore {
    /// Returns the range. It is empty if nothing was measured. Reading a stored descriptor takes more system calls than
    /// a conversion, because the POSIX ACLs are needed, too, to check its hash.
    pub fn entries(&self) -> &Entries {
        match self {
            AclStore::Said(entries) | AclStore::Auto(Some(entries)) => entries,
            AclStore::Auto(None) => &Entries::NONE,
        }
    }
}

impl fmt::Display for AclStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AclStore::Said(entries) => entries.fmt(formatter),
            AclStore::Auto(Some(entries)) => write!(formatter, "auto ({entries}, as measured)"),
            AclStore::Auto(None) => formatter.write_str("auto (never, because nothing was measured)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_the_number_of_entries() {
        for (entries, text, inside, outside) in [
            (Entries::NONE, "never", &[][..], &[0, 1, 3, 300][..]),
            (Entries::ALL, "always", &[3, 4, 300, 16_000], &[]),
            (Entries::at_least(0), "always", &[3], &[]),
            (Entries::at_least(6), ">= 6", &[6, 7, 300], &[3, 5]),
            (Entries::between(6, 34), "6-34", &[6, 34], &[5, 35]),
            (Entries::between(0, 3), "3-3", &[3], &[4]),
            (Entries::between(7, 6), "never", &[], &[6, 7]),
        ] {
            assert_eq!(entries.to_string(), text);
            assert_eq!(entries.is_none(), inside.is_empty());
            assert!(inside.iter().all(|&count| entries.contains(count)), "{text}");
            assert!(!outside.iter().any(|&count| entries.contains(count)), "{text}");
        }
    }

    #[test]
    fn without_a_measurement_nothing_is_stored() {
        assert!(AclStore::Auto(None).entries().is_none());
        assert!(AclStore::Auto(Some(Entries::at_least(6))).entries().contains(6));
        assert!(AclStore::Said(Entries::ALL).entries().contains(3));
    }
}
