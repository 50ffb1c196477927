//! Conversion between DACLs and permission bits or POSIX ACLs, for files without a stored security descriptor.

mod from;
mod to;

use proto::dtyp::Sid;

pub use from::{Duty, Inexpressible, from_descriptor};
pub use to::{rights, to_descriptor};

use crate::acl::model::posix_acl::{Entry, PosixAcl};

/// Mapping between Linux ids and SIDs.
pub trait Sids {
    /// Returns the SID that represents the user.
    fn user(&self, uid: u32) -> Sid;
    /// Returns the SID that represents the group.
    fn group(&self, gid: u32) -> Sid;
    /// Returns the user of a SID; `None` if it is not a user.
    fn uid(&self, sid: &Sid) -> Option<u32>;
    /// Returns the group of a SID; `None` if it is not a group.
    fn gid(&self, sid: &Sid) -> Option<u32>;
    /// Whether the user is a member of the group; `None` if unknown.
    fn is_member(&self, uid: u32, gid: u32) -> Option<bool>;
}

/// Linux ids as SIDs: S-1-22-1-uid and S-1-22-2-gid.
#[derive(Clone, Copy, Debug)]
pub struct UnixSids;

impl Sids for UnixSids {
    fn user(&self, uid: u32) -> Sid {
        Sid::unix_user(uid)
    }

    fn group(&self, gid: u32) -> Sid {
        Sid::unix_group(gid)
    }

    fn uid(&self, sid: &Sid) -> Option<u32> {
        sid.as_unix_user()
    }

    fn gid(&self, sid: &Sid) -> Option<u32> {
        sid.as_unix_group()
    }

    fn is_member(&self, _: u32, _: u32) -> Option<bool> {
        None
    }
}

/// A file's permissions in Linux.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Posix {
    /// Whether it is a directory.
    pub directory: bool,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The POSIX ACL of the file; [`PosixAcl::of_mode`] if it has none.
    pub access: PosixAcl,
    /// The default ACL of a directory, which new files in it get.
    pub default: Option<PosixAcl>,
}

impl Posix {
    /// Returns the number of entries of both ACLs: 3 for a file that has only permission bits.
    pub fn entries(&self) -> usize {
        self.access.entries().len() + self.default.as_ref().map_or(0, |list| list.entries().len())
    }

    /// Removes `x` from the access ACL.
    pub fn not_executable(self) -> Posix {
        let without = |entry: &Entry| Entry { permissions: entry.permissions & !1, ..*entry };
        Posix { access: PosixAcl::new(self.access.entries().iter().map(without).collect()), ..self }
    }
}
