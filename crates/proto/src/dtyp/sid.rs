//! SID ([MS-DTYP] 2.4.2), the identifier of a user or group. Names of SIDs are looked up elsewhere.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use crate::bytes::{Malformed, Reader, Result, Writer};

/// The maximum number of sub-authorities of a SID.
pub const MAX_SUB_AUTHORITIES: usize = 15;

/// The only revision that exists.
const REVISION: u8 = 1;

/// A security identifier of revision 1. Holds its sub-authorities inline; the unused ones are 0, so that equal SIDs
/// are equal structures.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sid {
    identifier_authority: [u8; 6],
    count: u8,
    sub_authority: [u32; MAX_SUB_AUTHORITIES],
}

/// Hashes only the used sub-authorities, in one write, because SID sets of hundreds of entries are hashed on every file
/// access.
impl Hash for Sid {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut bytes = [0; 7 + 4 * MAX_SUB_AUTHORITIES];
        bytes[..6].copy_from_slice(&self.identifier_authority);
        bytes[6] = self.count;
        for (place, part) in bytes[7..].chunks_exact_mut(4).zip(&self.sub_authority[..usize::from(self.count)]) {
            place.copy_from_slice(&part.to_le_bytes());
        }
        state.write(&bytes[..7 + 4 * usize::from(self.count)]);
    }
}

impl Sid {
    /// The maximum size on the wire, in bytes.
    pub const MAX_SIZE: usize = 8 + 4 * MAX_SUB_AUTHORITIES;

    /// S-1-0-0: nobody.
    pub const NULL: Sid = Sid::of(0, [0]);
    /// S-1-1-0: everyone.
    pub const EVERYONE: Sid = Sid::of(1, [0]);
    /// S-1-3-0: in an inheritable ACE, the owner of the new object.
    pub const CREATOR_OWNER: Sid = Sid::of(3, [0]);
    /// S-1-3-1: in an inheritable ACE, the group of the new object.
    pub const CREATOR_GROUP: Sid = Sid::of(3, [1]);
    /// S-1-3-4: the current owner of the object.
    pub const OWNER_RIGHTS: Sid = Sid::of(3, [4]);
    /// S-1-5-2: users who log on over the network.
    pub const NETWORK: Sid = Sid::of(5, [2]);
    /// S-1-5-7: an anonymous logon.
    pub const ANONYMOUS: Sid = Sid::of(5, [7]);
    /// S-1-5-10: in an ACE, the principal that the object represents.
    pub const PRINCIPAL_SELF: Sid = Sid::of(5, [10]);
    /// S-1-5-11: users who have authenticated with a name.
    pub const AUTHENTICATED_USERS: Sid = Sid::of(5, [11]);
    /// S-1-5-18: the operating system.
    pub const SYSTEM: Sid = Sid::of(5, [18]);
    /// S-1-5-32-544.
    pub const BUILTIN_ADMINISTRATORS: Sid = Sid::of(5, [32, 544]);
    /// S-1-5-32-545.
    pub const BUILTIN_USERS: Sid = Sid::of(5, [32, 545]);
    /// S-1-5-32-546.
    pub const BUILTIN_GUESTS: Sid = Sid::of(5, [32, 546]);

    /// Creates a SID from an authority below 2^48 and sub-authorities, whose number is checked at compile time.
    pub const fn of<const N: usize>(authority: u64, sub_authorities: [u32; N]) -> Sid {
        const { assert!(N <= MAX_SUB_AUTHORITIES, "a SID has at most 15 sub-authorities") };
        let [_, _, a, b, c, d, e, f] = authority.to_be_bytes();
        let mut sid = Sid { identifier_authority: [a, b, c, d, e, f], count: N as u8, sub_authority: [0; 15] };
        let mut index = 0;
        while index < N {
            sid.sub_authority[index] = sub_authorities[index];
            index += 1;
        }
        sid
    }

    /// Creates a SID from an authority and sub-authorities; `None` if the authority exceeds 48 bits or there are too
    /// many sub-authorities.
    pub fn new(authority: u64, sub_authorities: &[u32]) -> Option<Sid> {
        if authority >> 48 != 0 || sub_authorities.len() > MAX_SUB_AUTHORITIES {
            return None;
        }
        let mut sid = Sid::of(authority, []);
        sid.sub_authority[..sub_authorities.len()].copy_from_slice(sub_authorities);
        sid.count = sub_authorities.len() as u8;
        Some(sid)
    }

    /// S-1-22-1-uid: the Unix user `uid`, if no other SID is known for it.
    pub const fn unix_user(uid: u32) -> Sid {
        Sid::of(22, [1, uid])
    }

    /// S-1-22-2-gid: the Unix group `gid`, if no other SID is known for it.
    pub const fn unix_group(gid: u32) -> Sid {
        Sid::of(22, [2, gid])
    }

    /// The user id of an S-1-22-1 SID.
    pub fn as_unix_user(&self) -> Option<u32> {
        self.rid().filter(|uid| *self == Sid::unix_user(*uid))
    }

    /// The group id of an S-1-22-2 SID.
    pub fn as_unix_group(&self) -> Option<u32> {
        self.rid().filter(|gid| *self == Sid::unix_group(*gid))
    }

    /// The identifier authority as a number.
    pub fn authority(&self) -> u64 {
        let [a, b, c, d, e, f] = self.identifier_authority;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// The sub-authorities.
    pub fn sub_authorities(&self) -> &[u32] {
        &self.sub_authority[..usize::from(self.count)]
    }

    /// The last sub-authority, which identifies the user or group within its domain.
    pub fn rid(&self) -> Option<u32> {
        self.sub_authorities().last().copied()
    }

    /// Returns this SID without its last sub-authority; `None` if it has none.
    pub fn domain(&self) -> Option<Sid> {
        let (_, domain) = self.sub_authorities().split_last()?;
        Sid::new(self.authority(), domain)
    }

    /// Returns this SID with one more sub-authority; `None` if it has 15 already.
    pub fn with_rid(&self, rid: u32) -> Option<Sid> {
        let mut longer = *self;
        *longer.sub_authority.get_mut(usize::from(self.count))? = rid;
        longer.count += 1;
        Some(longer)
    }

    /// The size on the wire, in bytes.
    pub fn size(&self) -> usize {
        8 + 4 * usize::from(self.count)
    }

    /// Decodes a SID ([MS-DTYP] 2.4.2.2) and advances the reader past it. A revision other than 1 or more than 15
    /// sub-authorities are [`Malformed::Value`].
    pub fn decode(reader: &mut Reader<'_>) -> Result<Sid> {
        if reader.u8()? != REVISION {
            return Err(Malformed::Value);
        }
        let count = reader.u8()?;
        let mut sid = Sid { identifier_authority: reader.array()?, count, sub_authority: [0; MAX_SUB_AUTHORITIES] };
        for sub_authority in sid.sub_authority.get_mut(..usize::from(count)).ok_or(Malformed::Value)? {
            *sub_authority = reader.u32()?;
        }
        Ok(sid)
    }

    /// Returns the SID if its numbers were decoded in the wrong order of bytes.
    pub(crate) fn with_swapped_bytes(mut self) -> Sid {
        for sub_authority in &mut self.sub_authority {
            *sub_authority = sub_authority.swap_bytes();
        }
        self
    }

    /// Encodes the SID.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u8(REVISION);
        out.u8(self.count);
        out.bytes(&self.identifier_authority);
        for sub_authority in self.sub_authorities() {
            out.u32(*sub_authority);
        }
    }
}

impl fmt::Display for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority = self.authority();
        if authority > u64::from(u32::MAX) {
            write!(f, "S-1-0x{authority:012X}")?;
        } else {
            write!(f, "S-1-{authority}")?;
        }
        self.sub_authorities().iter().try_for_each(|sub_authority| write!(f, "-{sub_authority}"))
    }
}

impl fmt::Debug for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Sid {
    type Err = Malformed;

    /// Parses the text of [MS-DTYP] 2.4.2.1. Also accepted are `s` for `S`, leading zeros, and no sub-authority at all.
    fn from_str(text: &str) -> Result<Sid> {
        let rest = text.strip_prefix("S-1-").or_else(|| text.strip_prefix("s-1-")).ok_or(Malformed::Value)?;
        let mut parts = rest.split('-');
        let first = parts.next().ok_or(Malformed::Value)?;
        let authority = match first.strip_prefix("0x").or_else(|| first.strip_prefix("0X")) {
            Some(digits) => number(digits, 16)?,
            None => number(first, 10)?,
        };
        let mut sid = Sid::new(authority, &[]).ok_or(Malformed::Value)?;
        for part in parts {
            let sub_authority = u32::try_from(number(part, 10)?).map_err(|_| Malformed::Value)?;
            sid = sid.with_rid(sub_authority).ok_or(Malformed::Value)?;
        }
        Ok(sid)
    }
}

// The standard library's parser would accept a sign.
fn number(digits: &str, radix: u32) -> Result<u64> {
    if digits.starts_with('+') {
        return Err(Malformed::Value);
    }
    u64::from_str_radix(digits, radix).map_err(|_| Malformed::Value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_part_of_a_sid_affects_its_hash() {
        let hash = |sid: Sid| {
            let mut hasher = std::hash::DefaultHasher::new();
            sid.hash(&mut hasher);
            hasher.finish()
        };
        let sid = Sid::of(5, [21, 1, 2]);
        assert_eq!(hash(sid), hash(Sid::of(5, [21, 1, 2])));
        for other in [Sid::of(6, [21, 1, 2]), Sid::of(5, [21, 1]), Sid::of(5, [21, 1, 3]), Sid::of(5, [21, 1, 2, 0])] {
            assert_ne!(hash(sid), hash(other), "{other}");
        }
    }

    #[test]
    fn texts_and_bytes() {
        for (sid, text, wire) in [
            (Sid::EVERYONE, "S-1-1-0", &[1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0][..]),
            (Sid::OWNER_RIGHTS, "S-1-3-4", &[1, 1, 0, 0, 0, 0, 0, 3, 4, 0, 0, 0]),
            (Sid::BUILTIN_ADMINISTRATORS, "S-1-5-32-544", &[1, 2, 0, 0, 0, 0, 0, 5, 0x20, 0, 0, 0, 0x20, 2, 0, 0]),
            (Sid::unix_user(1000), "S-1-22-1-1000", &[1, 2, 0, 0, 0, 0, 0, 22, 1, 0, 0, 0, 0xe8, 3, 0, 0]),
            (Sid::of(5, []), "S-1-5", &[1, 0, 0, 0, 0, 0, 0, 5]),
            (Sid::of(0x0102_0304_0506, [7]), "S-1-0x010203040506-7", &[1, 1, 1, 2, 3, 4, 5, 6, 7, 0, 0, 0]),
        ] {
            let mut out = Vec::new();
            sid.encode(&mut Writer::new(&mut out));
            assert_eq!(out, wire, "{text}");
            assert_eq!(sid.size(), wire.len());
            assert_eq!(Sid::decode(&mut Reader::new(wire)), Ok(sid));
            assert_eq!(sid.to_string(), text);
            assert_eq!(text.parse(), Ok(sid));
        }
    }

    #[test]
    fn texts_that_are_not_sids() {
        for text in ["", "S-1-", "S-2-5-1", "S-1-5-", "S-1-5--1", "S-1-+5", "S-1-5-4294967296", "S-1-0x1000000000000"] {
            assert_eq!(text.parse::<Sid>(), Err(Malformed::Value), "{text}");
        }
        assert_eq!(format!("S-1-5{}", "-1".repeat(16)).parse::<Sid>(), Err(Malformed::Value));
        for (wire, why) in [
            (&[2, 0, 0, 0, 0, 0, 0, 5][..], Malformed::Value),
            (&[1, 16, 0, 0, 0, 0, 0, 5], Malformed::Value),
            (&[1, 1, 0, 0, 0, 0, 0, 5, 0, 0, 0], Malformed::Truncated),
            (&[1], Malformed::Truncated),
        ] {
            assert_eq!(Sid::decode(&mut Reader::new(wire)), Err(why));
        }
    }

    #[test]
    fn domains_and_rids() {
        let user: Sid = "S-1-5-21-1-2-3-513".parse().expect("a SID");
        assert_eq!(user.rid(), Some(513));
        let domain = user.domain().expect("a domain");
        assert_eq!(domain.to_string(), "S-1-5-21-1-2-3");
        assert_eq!(domain.with_rid(513), Some(user));
        assert_eq!(Sid::of(5, []).domain(), None);
        assert_eq!(Sid::of(5, [1; 15]).with_rid(1), None);
        assert_eq!(Sid::unix_group(7).as_unix_group(), Some(7));
        assert_eq!(Sid::unix_group(7).as_unix_user(), None);
        assert_eq!(user.as_unix_user(), None);
    }

    proptest! {
        #[test]
        fn round_trips(authority in 0u64..1 << 48, subs in proptest::collection::vec(any::<u32>(), 0..=15)) {
            let sid = Sid::new(authority, &subs).expect("within bounds");
            prop_assert_eq!(sid.to_string().parse(), Ok(sid));
            let mut out = Vec::new();
            sid.encode(&mut Writer::new(&mut out));
            prop_assert_eq!(Sid::decode(&mut Reader::new(&out)), Ok(sid));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>, text: String) {
            let _ = Sid::decode(&mut Reader::new(&bytes));
            let _ = text.parse::<Sid>();
        }
    }
}
