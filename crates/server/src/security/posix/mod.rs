//! Permission bits and POSIX lists as a DACL, and back, for files without a stored security descriptor.

mod from;
mod to;

use proto::dtyp::Sid;

pub use from::{Duty, Inexpressible, from_descriptor};
pub use to::{rights, to_descriptor};

use super::posix_acl::{Entry, PosixAcl};

/// Between Linux ids and SIDs.
pub trait Sids {
    /// The SID that the user is shown as.
    fn user(&self, uid: u32) -> Sid;
    /// The SID that the group is shown as.
    fn group(&self, gid: u32) -> Sid;
    /// The user of a SID; `None` where it is none.
    fn uid(&self, sid: &Sid) -> Option<u32>;
    /// The group of a SID; `None` where it is none.
    fn gid(&self, sid: &Sid) -> Option<u32>;
    /// Whether the user is in the group; `None` where nobody knows.
    fn is_member(&self, uid: u32, gid: u32) -> Option<bool>;
}

/// The ids themselves: S-1-22-1-uid and S-1-22-2-gid.
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

/// What Linux knows of a file's permissions.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Posix {
    /// It is a directory.
    pub directory: bool,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The list of the file; [`PosixAcl::of_mode`] where it has none.
    pub access: PosixAcl,
    /// The list that new files in the directory get.
    pub default: Option<PosixAcl>,
}

impl Posix {
    /// How many entries both lists have: 3 for a file with nothing but permission bits.
    pub fn entries(&self) -> usize {
        self.access.entries().len() + self.default.as_ref().map_or(0, |list| list.entries().len())
    }

    /// The same lists without any `x`.
    pub fn not_executable(self) -> Posix {
        let without = |entry: &Entry| Entry { permissions: entry.permissions & !1, ..*entry };
        Posix { access: PosixAcl::new(self.access.entries().iter().map(without).collect()), ..self }
    }
}
