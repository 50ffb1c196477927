//! A single access check without a client, to measure its cost: `frevo acl calibrate`.
//!
//! It does what a request does on a cache miss: looks the file up, reads or synthesizes its descriptor, checks the
//! access, and optionally stores the synthesized descriptor.

use std::sync::Arc;

use proto::dtyp::{AccessMask, FileTime, Sid};

use crate::acl::model::evaluate::{Token, granted};
use crate::acl::source::{AclSource, look_up};
use crate::error::Result;
use crate::policy::Share;
use crate::security::write_back;
use crate::vfs::{Errno, Identity, Lookup, LookupOptions, RelPath, SERVER, SymlinkPolicy, Time, Vfs};

/// Access checks on the files of a share, as root.
pub struct Trial {
    share: Share,
    vfs: Arc<dyn Vfs>,
    token: Token,
}

/// Result of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checked {
    /// A valid descriptor was stored.
    pub was_stored: bool,
    /// The synthesized descriptor has been stored.
    pub is_stored: bool,
    /// The rights of a user that no ACL names.
    pub granted: AccessMask,
}

impl Trial {
    /// Creates checks on `vfs`, which is the directory of `share`.
    pub fn new(share: Share, vfs: Arc<dyn Vfs>) -> Trial {
        let nobody = Identity { uid: 65_534, gid: 65_534, groups: Box::new([]) };
        let groups = [Sid::EVERYONE, Sid::NETWORK, Sid::AUTHENTICATED_USERS, Sid::unix_group(nobody.gid)];
        let (security, take_ownership) = (false, false);
        let token = Token { user: Sid::unix_user(nobody.uid), groups: groups.into(), security, take_ownership };
        Trial { share, vfs, token }
    }

    /// Checks the access to the file `path`.
    ///
    /// # Errors
    ///
    /// Errors of the file system; `Errno::NOENT` if there is no such file.
    pub async fn check(&self, path: &RelPath) -> Result<Checked> {
        self.run(path, None).await
    }

    /// As [`Trial::check`], and stores the synthesized descriptor with the time `now`.
    ///
    /// # Errors
    ///
    /// As [`Trial::check`], and errors of the file system when the attribute is written.
    pub async fn check_and_store(&self, path: &RelPath, now: Time) -> Result<Checked> {
        self.run(path, Some(now)).await
    }

    async fn run(&self, path: &RelPath, store: Option<Time>) -> Result<Checked> {
        let links = SymlinkPolicy::NONE;
        let Lookup::Found { node, metadata, .. } = self.vfs.lookup(&SERVER, path, LookupOptions::exact(links)).await?
        else {
            return Err(Errno::NOENT.into());
        };
        let found = look_up(&self.share, self.vfs.capabilities().acls, &SERVER, &node, &metadata).await?;
        let was_stored = found.confirmed();
        let lists = match &found.basis {
            AclSource::Lists(lists) if !found.outdated => Some(lists.clone()),
            _ => None,
        };
        let descriptor = found.descriptor(&self.share);
        let granted = granted(&self.token, &descriptor);
        let is_stored = match (store, &lists) {
            (Some(now), Some(lists)) => {
                let now = FileTime::from(now);
                write_back::put(&self.share, &node, &metadata, lists, &descriptor, now).await?.is_some()
            }
            _ => false,
        };
        Ok(Checked { was_stored, is_stored, granted })
    }
}
