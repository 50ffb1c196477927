//! Permissions of users, as Linux evaluates permission bits and POSIX ACLs. They are for storage that does not check
//! them.
//!
//! Calls of the server itself ([`Op::is_server`](server::vfs::Op::is_server)) are always permitted. The caller makes
//! this exception, because an [`Identity`] with uid 0 may also be a user.

use std::borrow::Cow;

use server::acl::model::posix_acl::PosixAcl;
use server::vfs::{Identity, Kind};

/// The permission to read a file or to list a directory.
pub const READ: u8 = 4;
/// The permission to write to a file or to change the names in a directory.
pub const WRITE: u8 = 2;
/// The permission to execute a file or to look up names in a directory.
pub const EXECUTE: u8 = 1;

/// The bit of a directory in which only owners remove names.
pub const STICKY: u32 = 0o1000;

/// The owner of a file and its permissions.
#[derive(Clone, Debug)]
pub struct Permissions<'a> {
    kind: Kind,
    uid: u32,
    gid: u32,
    sticky: bool,
    list: Cow<'a, PosixAcl>,
}

impl<'a> Permissions<'a> {
    /// Creates the permissions of a file of `owner`, its uid and gid, from `list`, its access ACL, or from its mode if
    /// it has none.
    pub fn new(kind: Kind, mode: u32, owner: (u32, u32), list: Option<&'a PosixAcl>) -> Permissions<'a> {
        let list = list.map_or_else(|| Cow::Owned(PosixAcl::of_mode(mode)), Cow::Borrowed);
        Permissions { kind, uid: owner.0, gid: owner.1, sticky: mode & STICKY != 0, list }
    }

    /// Returns whether `who` has all of the `rwx` bits `wanted` at once. Several groups of a user may have each bit
    /// without any of them having all.
    pub fn permit(&self, who: &Identity, wanted: u8) -> bool {
        if who.uid != 0 {
            return self.list.permits(who, self.uid, self.gid, wanted);
        }
        wanted & EXECUTE == 0 || self.kind == Kind::Directory || self.list.mode() & 0o111 != 0
    }

    /// Returns the `rwx` bits that `who` has, each on its own. This is the value of
    /// [`Node::permissions`](server::vfs::Node::permissions).
    pub fn rwx(&self, who: &Identity) -> u32 {
        [READ, WRITE, EXECUTE].into_iter().filter(|&bit| self.permit(who, bit)).map(u32::from).sum()
    }

    /// Returns whether `who` may remove or rename a name of a file of the user `owner` in this directory.
    pub fn permit_removal(&self, who: &Identity, owner: u32) -> bool {
        let by_sticky = !self.sticky || [0, owner, self.uid].contains(&who.uid);
        by_sticky && self.permit(who, WRITE | EXECUTE)
    }
}

#[cfg(test)]
mod tests {
    use server::acl::model::posix_acl::{Entry, Tag};

    use super::*;

    const OWNER: u32 = 100;
    const GROUP: u32 = 200;

    fn of_mode(kind: Kind, mode: u32) -> Permissions<'static> {
        Permissions::new(kind, mode, (OWNER, GROUP), None)
    }

    fn user(uid: u32, gid: u32, groups: &[u32]) -> Identity {
        Identity { uid, gid, groups: groups.into() }
    }

    #[test]
    fn one_class_of_the_mode_applies() {
        for (mode, who, expected) in [
            (0o740, user(OWNER, 1, &[]), 7),
            (0o077, user(OWNER, GROUP, &[]), 0),
            (0o750, user(1, GROUP, &[]), 5),
            (0o750, user(1, 1, &[5, GROUP]), 5),
            (0o707, user(1, GROUP, &[]), 0),
            (0o706, user(1, 1, &[5]), 6),
        ] {
            assert_eq!(of_mode(Kind::File, mode).rwx(&who), expected, "{mode:o} {who:?}");
        }
    }

    #[test]
    fn entries_of_an_acl_apply_before_the_classes() {
        let entry = |tag, permissions| Entry { tag, permissions };
        let named = [
            entry(Tag::User(1), 7),
            entry(Tag::User(2), 0),
            entry(Tag::Group(301), 4),
            entry(Tag::Group(302), 3),
            entry(Tag::Mask, 6),
        ];
        let list = PosixAcl::new([PosixAcl::of_mode(0o745).entries(), &named].concat());
        // The mode has the mask in place of the group's bits.
        let permissions = Permissions::new(Kind::File, list.mode(), (OWNER, GROUP), Some(&list));
        for (who, expected) in [
            (user(OWNER, 301, &[]), 7),
            (user(1, GROUP, &[301]), 6),
            (user(2, GROUP, &[302]), 0),
            (user(3, GROUP, &[]), 4),
            (user(3, 301, &[302]), 6),
            (user(3, 9, &[302]), 2),
            (user(3, 9, &[]), 5),
        ] {
            assert_eq!(permissions.rwx(&who), expected, "{who:?}");
        }
        assert!(!permissions.permit(&user(3, 301, &[302]), READ | WRITE), "no group has both");
    }

    #[test]
    fn root_executes_what_some_user_may_execute_and_searches_every_directory() {
        let root = user(0, 0, &[]);
        for (kind, mode, expected) in [
            (Kind::File, 0, 6),
            (Kind::File, 0o001, 7),
            (Kind::File, 0o666, 6),
            (Kind::Special, 0o666, 6),
            (Kind::Directory, 0, 7),
        ] {
            assert_eq!(of_mode(kind, mode).rwx(&root), expected, "{kind:?} {mode:o}");
        }
    }

    #[test]
    fn owners_alone_remove_from_a_sticky_directory() {
        let other = 7;
        for (mode, uid, removes_own, removes_others) in [
            (0o777, other, true, true),
            (0o1777, other, true, false),
            (0o1777, OWNER, true, true),
            (0o1777, 0, true, true),
            (0o1775, other, false, false),
            (0o1776, other, false, false),
            (0o1577, OWNER, false, false),
        ] {
            let (directory, who) = (of_mode(Kind::Directory, mode), user(uid, uid, &[]));
            let removes = (directory.permit_removal(&who, uid), directory.permit_removal(&who, 8));
            assert_eq!(removes, (removes_own, removes_others), "{mode:o} {uid}");
        }
    }
}
