//! Changes of the shares by administrators: what the server asks of the daemon, which has the configuration.

use std::path::PathBuf;

use proto::dtyp::SecurityDescriptor;

use super::CscPolicy;
use crate::answer::BoxFuture;

/// The configuration as far as administrators may change it while the server runs.
pub trait ShareChanges: Send + Sync {
    /// Makes a change, which is in effect and permanent when the future ends. The caller has checked that the user is
    /// an administrator.
    fn change(&self, change: ShareChange) -> BoxFuture<'static, Result<(), ShareRefusal>>;
}

/// A change of the shares.
#[derive(Clone, PartialEq, Debug)]
pub enum ShareChange {
    /// A share of a directory is added, to which clients may write.
    Add {
        /// Its name.
        name: String,
        /// The directory.
        path: PathBuf,
        /// `comment`.
        comment: String,
        /// `max connections`: 0 is no limit.
        max_connections: u32,
        /// Its ACL; without one, every user may connect.
        acl: Option<Box<SecurityDescriptor>>,
    },
    /// A share is changed as far as there are values.
    Set {
        /// Its name.
        name: String,
        /// `comment`.
        comment: Option<String>,
        /// `max connections`.
        max_connections: Option<u32>,
        /// `csc policy`.
        csc_policy: Option<CscPolicy>,
        /// `hide unreadable`.
        hide_unreadable: Option<bool>,
        /// Its ACL, which a share of the configuration can have, too.
        acl: Option<Box<SecurityDescriptor>>,
    },
    /// A share is removed, and its clients are disconnected.
    Remove {
        /// Its name.
        name: String,
    },
}

/// Why the shares are not changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ShareRefusal {
    /// No share can have the name.
    BadName,
    /// The value of this parameter cannot be set.
    BadValue(String),
    /// The ACL cannot be stored.
    BadAcl,
    /// There is a share with the name.
    Exists,
    /// There is no share with the name.
    NotFound,
    /// The share belongs to the configuration, which is never changed.
    NotOurs,
    /// The directory does not exist.
    NoDirectory,
    /// The reason is for the log.
    Failed(String),
}
