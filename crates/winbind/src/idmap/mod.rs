//! `idmap config` for the server's own domain, in the cases in which ids can be derived without winbindd: Samba's back
//! ends `rid` (by arithmetic) and `nss` (by name), with the results described in idmap_rid(8) and idmap_nss(8).
//!
//! They are used only while winbindd cannot be reached; its answers take precedence. The other back ends use tables or
//! query domain controllers, which only winbindd does. The domain SID for the arithmetic is stored in [`OwnDomain`].

mod own_domain;

use std::ops::RangeInclusive;

use proto::dtyp::Sid;
use server::accounts::principals::UnixId;

pub use self::own_domain::{OwnDomain, Source};

/// The mapping between ids and SIDs in the server's own domain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Map {
    /// The back end.
    pub backend: Backend,
    /// `range`: ids outside of it are not mapped. `None`, for `nss` only, admits all ids.
    pub range: Option<RangeInclusive<u32>>,
}

/// The back ends of `idmap config` that do not need winbindd.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backend {
    /// The id is the RID plus the start of the range.
    Rid {
        /// `base_rid`: this RID maps to the start of the range; lower ones are not mapped.
        base: u32,
    },
    /// The user or group of the same name.
    Nss,
}

impl Map {
    /// Returns whether `id` is in the range. Never true for 0 (root) and for the value that the kernel interprets as
    /// "unchanged".
    pub fn admits(&self, id: u32) -> bool {
        id != 0 && id != u32::MAX && self.range.as_ref().is_none_or(|range| range.contains(&id))
    }

    /// Maps `sid` by arithmetic to an id of both a user and a group; `None` if it is not in `domain` or the id is out
    /// of range.
    pub fn id_of(&self, domain: &Sid, sid: &Sid) -> Option<UnixId> {
        let (Backend::Rid { base }, Some(range)) = (self.backend, &self.range) else { return None };
        let rid = sid.rid().filter(|_| sid.domain() == Some(*domain))?;
        let id = rid.checked_sub(base)?.checked_add(*range.start())?;
        self.admits(id).then_some(UnixId::Both(id))
    }

    /// Maps a user or group by arithmetic to its SID in `domain`.
    pub fn sid_of(&self, domain: &Sid, id: UnixId) -> Option<Sid> {
        let (Backend::Rid { base }, Some(range)) = (self.backend, &self.range) else { return None };
        let id = id.uid().or(id.gid()).filter(|id| self.admits(*id))?;
        domain.with_rid((id - range.start()).checked_add(base)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOMAIN: Sid = Sid::of(5, [21, 1, 2, 3]);

    fn sid(rid: u32) -> Sid {
        DOMAIN.with_rid(rid).expect("space for a sub-authority")
    }

    /// ID = RID - BASE_RID + LOW_RANGE_ID, and the range filters: idmap_rid(8).
    #[test]
    fn rids_and_ids_are_converted() {
        let check = |range: RangeInclusive<u32>, base: u32, rid: u32, expected: Option<u32>| {
            let map = Map { backend: Backend::Rid { base }, range: Some(range.clone()) };
            let id = map.id_of(&DOMAIN, &sid(rid));
            assert_eq!(id, expected.map(UnixId::Both), "{range:?} {base} {rid}");
            for id in expected.into_iter().flat_map(|id| [UnixId::User(id), UnixId::Group(id), UnixId::Both(id)]) {
                assert_eq!(map.sid_of(&DOMAIN, id), Some(sid(rid)), "{range:?} {base} {id:?}");
            }
        };
        check(10_000..=19_999, 0, 513, Some(10_513));
        check(10_000..=19_999, 0, 9_999, Some(19_999));
        check(10_000..=19_999, 0, 10_000, None);
        check(10_000..=19_999, 1000, 1000, Some(10_000));
        check(10_000..=19_999, 1000, 1103, Some(10_103));
        check(10_000..=19_999, 1000, 999, None);
        check(4_294_967_000..=u32::MAX, 0, 294, Some(4_294_967_294));
        check(4_294_967_000..=u32::MAX, 0, 295, None);
        check(4_294_967_000..=u32::MAX, 0, 4_000_000_000, None);
        // No user maps to root.
        check(0..=9_999, 0, 0, None);
    }

    #[test]
    fn sids_and_ids_outside_the_map_are_not_mapped() {
        let map = Map { backend: Backend::Rid { base: 0 }, range: Some(10_000..=19_999) };
        for other in [Sid::of(5, [21, 1, 2, 4, 513]), DOMAIN, Sid::BUILTIN_USERS, Sid::EVERYONE] {
            assert_eq!(map.id_of(&DOMAIN, &other), None, "{other}");
        }
        for id in [0, 9_999, 20_000] {
            assert_eq!(map.sid_of(&DOMAIN, UnixId::User(id)), None, "{id}");
        }
        let by_name = Map { backend: Backend::Nss, range: None };
        assert_eq!((by_name.id_of(&DOMAIN, &sid(513)), by_name.sid_of(&DOMAIN, UnixId::User(10_513))), (None, None));
        assert!(by_name.admits(1) && !by_name.admits(0) && !by_name.admits(u32::MAX));
    }
}
