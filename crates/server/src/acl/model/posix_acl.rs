//! POSIX ACLs in the kernel's encoding, the value of the extended attributes `system.posix_acl_access` and
//! `system.posix_acl_default`: a version, then entries of tag, permissions and id, little-endian.

use proto::bytes::{Malformed, Reader, Result, Writer};

use crate::heap_size;
use crate::vfs::Identity;

/// The attribute that holds the ACL of a file.
pub const ACCESS: &str = "system.posix_acl_access";

/// The attribute that holds the default ACL of a directory.
pub const DEFAULT: &str = "system.posix_acl_default";

/// The only version that exists.
const VERSION: u32 = 2;

/// Id of entries that have none.
const NO_ID: u32 = u32::MAX;

/// Number of entries of an ACL that is equivalent to permission bits.
pub(crate) const CLASSES: usize = 3;

/// Returns the number of entries of an ACL in the kernel's encoding.
pub(crate) fn entries_in(value: &[u8]) -> usize {
    value.len().saturating_sub(4) / 8
}

/// The user, group or class that an entry applies to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Tag {
    /// The owner.
    Owner,
    /// A user by id.
    User(u32),
    /// The owning group.
    OwningGroup,
    /// A group by id.
    Group(u32),
    /// The upper bound for named users and all groups.
    Mask,
    /// All other users.
    Other,
}

impl Tag {
    /// Returns the user that the tag names.
    pub fn uid(self) -> Option<u32> {
        if let Tag::User(uid) = self { Some(uid) } else { None }
    }

    /// Returns the group that the tag names.
    pub fn gid(self) -> Option<u32> {
        if let Tag::Group(gid) = self { Some(gid) } else { None }
    }
}

/// An entry of a POSIX ACL.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Entry {
    /// The user, group or class.
    pub tag: Tag,
    /// `rwx` bits.
    pub permissions: u8,
}

/// A POSIX ACL, its entries in the order that the kernel requires.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct PosixAcl(Vec<Entry>);

impl PosixAcl {
    /// Creates an ACL of `entries`, in any order. If it names users or groups and has no mask, a mask that does not
    /// restrict any entry is added.
    pub fn new(mut entries: Vec<Entry>) -> PosixAcl {
        let is_named = |entry: &Entry| matches!(entry.tag, Tag::User(_) | Tag::Group(_));
        let masked = entries.iter().any(|entry| entry.tag == Tag::Mask);
        if entries.iter().any(is_named) && !masked {
            let group_class = entries.iter().filter(|entry| is_named(entry) || entry.tag == Tag::OwningGroup);
            let permissions = group_class.fold(0, |all, entry| all | entry.permissions);
            entries.push(Entry { tag: Tag::Mask, permissions });
        }
        entries.sort_by_key(|entry| entry.tag);
        PosixAcl(entries)
    }

    /// Creates the ACL that is equivalent to the permission bits of `mode`.
    pub fn of_mode(mode: u32) -> PosixAcl {
        let class = |tag, shift: u32| Entry { tag, permissions: (mode >> shift & 7) as u8 };
        PosixAcl(vec![class(Tag::Owner, 6), class(Tag::OwningGroup, 3), class(Tag::Other, 0)])
    }

    /// The entries.
    pub fn entries(&self) -> &[Entry] {
        &self.0
    }

    /// Returns the bytes that it takes besides its own size.
    pub(crate) fn bytes(&self) -> usize {
        heap_size::vector::<Entry>(self.0.capacity())
    }

    /// Whether the ACL is equivalent to permission bits.
    pub fn is_minimal(&self) -> bool {
        self.0.iter().all(|entry| matches!(entry.tag, Tag::Owner | Tag::OwningGroup | Tag::Other))
    }

    /// Returns the ACL without named users and groups.
    pub fn unnamed(&self) -> PosixAcl {
        let is_class = |entry: &&Entry| matches!(entry.tag, Tag::Owner | Tag::OwningGroup | Tag::Other);
        let masked = |entry: &Entry| Entry { permissions: self.effective(entry), ..*entry };
        PosixAcl(self.0.iter().filter(is_class).map(masked).collect())
    }

    /// Returns the permissions of an entry with the mask applied.
    pub fn effective(&self, entry: &Entry) -> u8 {
        match entry.tag {
            Tag::User(_) | Tag::OwningGroup | Tag::Group(_) => entry.permissions & self.get(Tag::Mask).unwrap_or(7),
            Tag::Owner | Tag::Mask | Tag::Other => entry.permissions,
        }
    }

    /// Returns the permission bits that `stat` shows for this ACL; the mask replaces the group's bits.
    pub fn mode(&self) -> u32 {
        let class = |tag| u32::from(self.get(tag).unwrap_or(0));
        let group = self.get(Tag::Mask).map_or_else(|| class(Tag::OwningGroup), u32::from);
        class(Tag::Owner) << 6 | group << 3 | class(Tag::Other)
    }

    /// Whether this ACL gives `who` all of the `rwx` bits `wanted` on a file of `uid` and `gid` (acl(5), "access check
    /// algorithm"). If several groups match, one of them must have all bits. If the mask is empty, Linux does not
    /// evaluate the ACL, and named users and groups have the rights of others. `who` must not be root.
    pub fn permits(&self, who: &Identity, uid: u32, gid: u32, wanted: u8) -> bool {
        let is_in = |group| who.gid == group || who.groups.contains(&group);
        let has = |permissions: u8| permissions & wanted == wanted;
        if who.uid == uid {
            return has(self.get(Tag::Owner).unwrap_or(0));
        }
        let other = has(self.get(Tag::Other).unwrap_or(0));
        if self.mode() & 0o070 == 0 {
            return if is_in(gid) { has(0) } else { other };
        }
        if let Some(own) = self.0.iter().find(|entry| entry.tag == Tag::User(who.uid)) {
            return has(self.effective(own));
        }
        let of_groups = self.0.iter().filter(|entry| match entry.tag {
            Tag::OwningGroup => is_in(gid),
            Tag::Group(group) => is_in(group),
            _ => false,
        });
        of_groups.map(|entry| has(self.effective(entry))).reduce(|any, one| any || one).unwrap_or(other)
    }

    /// As [`PosixAcl::keeps_out`], for writing only.
    pub fn keeps_writers_out(&self) -> bool {
        self.keeps_from(2)
    }

    /// Whether the ACL denies a user something that a later entry grants: a named user, or the members of a group with
    /// fewer rights than others. Allow rules for all entries, added up, would grant it. The owner is not considered,
    /// because the owner can change the ACL.
    pub fn keeps_out(&self) -> bool {
        [4, 2, 1].into_iter().any(|bit| self.keeps_from(bit))
    }

    fn keeps_from(&self, bit: u8) -> bool {
        let rank = |entry: &Entry| match entry.tag {
            Tag::User(_) => Some(0),
            Tag::OwningGroup | Tag::Group(_) => Some(1),
            Tag::Other => Some(2),
            Tag::Owner | Tag::Mask => None,
        };
        let of = |has: bool| {
            let is_one = move |entry: &&Entry| (self.effective(entry) & bit != 0) == has;
            self.0.iter().filter(is_one).filter_map(rank)
        };
        of(false).min().is_some_and(|kept_out| of(true).any(|let_in| let_in > kept_out))
    }

    fn get(&self, tag: Tag) -> Option<u8> {
        // From the end, because the mask is there, which is looked up for each entry.
        self.0.iter().rev().find(|entry| entry.tag == tag).map(|entry| entry.permissions)
    }

    /// Decodes the value of the attribute. An empty ACL is equivalent to none, because the kernel stores no empty ACL.
    pub fn decode(value: &[u8]) -> Result<PosixAcl> {
        let mut reader = Reader::new(value);
        if reader.u32()? != VERSION {
            return Err(Malformed::Structure);
        }
        let mut entries = Vec::with_capacity(reader.remaining() / 8);
        while reader.remaining() > 0 {
            let (tag, permissions, id) = (reader.u16()?, reader.u16()?, reader.u32()?);
            let tag = match tag {
                0x01 => Tag::Owner,
                0x02 => Tag::User(id),
                0x04 => Tag::OwningGroup,
                0x08 => Tag::Group(id),
                0x10 => Tag::Mask,
                0x20 => Tag::Other,
                _ => return Err(Malformed::Value),
            };
            entries.push(Entry { tag, permissions: (permissions & 7) as u8 });
        }
        Ok(PosixAcl(entries))
    }

    /// Encodes the value of the attribute.
    pub fn encode(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(4 + 8 * self.0.len());
        let mut out = Writer::new(&mut value);
        out.u32(VERSION);
        for entry in &self.0 {
            let (tag, id) = match entry.tag {
                Tag::Owner => (0x01, NO_ID),
                Tag::User(id) => (0x02, id),
                Tag::OwningGroup => (0x04, NO_ID),
                Tag::Group(id) => (0x08, id),
                Tag::Mask => (0x10, NO_ID),
                Tag::Other => (0x20, NO_ID),
            };
            out.u16(tag);
            out.u16(entry.permissions.into());
            out.u32(id);
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The value that Linux 6 stores for `setfacl -m u:65534:rw-,g:100:r-x,m::rw-` on a file of mode 0644.
    const STORED: [u8; 52] = [
        2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 6, 0, 254, 255, 0, 0, 4, 0, 4, 0, 255, 255, 255, 255, 8, 0,
        5, 0, 100, 0, 0, 0, 16, 0, 6, 0, 255, 255, 255, 255, 32, 0, 4, 0, 255, 255, 255, 255,
    ];

    #[test]
    fn acls_that_deny_writers() {
        let entry = |tag, permissions| Entry { tag, permissions };
        let (user, group, mask) =
            (|it| entry(Tag::User(1), it), |it| entry(Tag::Group(2), it), |it| entry(Tag::Mask, it));
        for (mode, named, expected) in [
            (0o644, vec![], false),
            (0o464, vec![], false),
            (0o606, vec![], true),
            (0o666, vec![], false),
            (0o644, vec![user(6), group(4)], false),
            (0o660, vec![user(4)], true),
            (0o660, vec![user(6), group(4)], false),
            (0o600, vec![user(4), group(6)], true),
            (0o666, vec![user(6), group(6)], false),
            (0o666, vec![user(6), group(6), mask(4)], true),
            (0o660, vec![user(4), mask(4)], false),
        ] {
            let list = PosixAcl::new([PosixAcl::of_mode(mode).entries(), &named].concat());
            assert_eq!(list.keeps_writers_out(), expected, "{mode:o} {named:?}");
            assert!(list.keeps_out() || !expected, "{mode:o} {named:?}");
        }
    }

    #[test]
    fn acls_that_deny_a_user() {
        let list = |mode, named: &[Entry]| PosixAcl::new([PosixAcl::of_mode(mode).entries(), named].concat());
        let bob = |permissions| Entry { tag: Tag::User(1), permissions };
        for (list, expected) in [
            (list(0o644, &[]), false),
            (list(0o604, &[]), true),
            (list(0o751, &[]), false),
            (list(0o715, &[]), true),
            (list(0o755, &[bob(0)]), true),
            (list(0o755, &[bob(4)]), true),
            (list(0o755, &[bob(7)]), false),
        ] {
            assert_eq!(list.keeps_out(), expected, "{list:?}");
        }
    }

    #[test]
    fn a_stored_list() {
        let list = PosixAcl::decode(&STORED).unwrap();
        let entry = |tag, permissions| Entry { tag, permissions };
        let named = [
            entry(Tag::Other, 4),
            entry(Tag::Group(100), 5),
            entry(Tag::User(65_534), 6),
            entry(Tag::Owner, 6),
            entry(Tag::Mask, 6),
            entry(Tag::OwningGroup, 4),
        ];
        assert_eq!(list, PosixAcl::new(named.to_vec()));
        assert_eq!((list.encode().as_slice(), list.mode(), list.is_minimal()), (&STORED[..], 0o664, false));
        assert_eq!(list.effective(&entry(Tag::Group(100), 5)), 4);
        assert_eq!(list.effective(&entry(Tag::Owner, 7)), 7);
        assert_eq!(list.unnamed(), PosixAcl::of_mode(0o644));
    }

    #[test]
    fn acls_without_a_mask_get_one() {
        let entry = |tag, permissions| Entry { tag, permissions };
        let list = PosixAcl::new(vec![entry(Tag::User(5), 1), entry(Tag::OwningGroup, 4), entry(Tag::Other, 2)]);
        assert_eq!(list.mode(), 0o052);
        assert_eq!(PosixAcl::of_mode(0o4751).mode(), 0o751);
        assert!(PosixAcl::of_mode(0).is_minimal());
    }

    #[test]
    fn broken_lists() {
        assert_eq!(PosixAcl::decode(&[]), Err(Malformed::Truncated));
        assert_eq!(PosixAcl::decode(&[1, 0, 0, 0]), Err(Malformed::Structure));
        assert_eq!(PosixAcl::decode(&STORED[..51]), Err(Malformed::Truncated));
        assert_eq!(PosixAcl::decode(&[2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]), Err(Malformed::Value));
    }

    proptest! {
        #[test]
        fn any_bytes_decode_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(list) = PosixAcl::decode(&bytes) {
                prop_assert_eq!(PosixAcl::decode(&list.encode()), Ok(list));
            }
        }
    }
}
