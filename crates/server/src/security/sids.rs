//! Whose SIDs are whose: users and groups of Linux for the SIDs that descriptors name.

use std::collections::{HashMap, HashSet};

use proto::dtyp::{Acl, SecurityDescriptor, Sid};
use proto::status::Status;

use super::posix::{Sids, UnixSids};
use crate::accounts::{Accounts, Unavailable};
use crate::error::{Error, Result};

/// Whether `sid` is an account's of some machine or domain (S-1-5-21-...).
pub(super) fn is_account(sid: &Sid) -> bool {
    sid.authority() == 5 && sid.sub_authorities().first() == Some(&21)
}

/// SIDs as they are on one file.
pub(super) struct FileSids {
    users: HashMap<Sid, u32>,
    group: Option<(Sid, u32)>,
}

impl FileSids {
    /// Those of `descriptor`, whose owner and group are `uid` and `gid`, and those of accounts in its DACL.
    pub(super) async fn of(accounts: &dyn Accounts, descriptor: &SecurityDescriptor, uid: u32, gid: u32) -> FileSids {
        let mut users: HashMap<_, _> = descriptor.owner.filter(is_account).map(|sid| (sid, uid)).into_iter().collect();
        let aces = descriptor.dacl.iter().flat_map(Acl::aces);
        let trustees: HashSet<Sid> = aces.filter_map(|ace| ace.trustee().map(|(_, sid)| *sid)).collect();
        for sid in trustees.into_iter().filter(is_account) {
            if !users.contains_key(&sid)
                && let Ok(Some(uid)) = accounts.uid_of(&sid).await
            {
                users.insert(sid, uid);
            }
        }
        FileSids { users, group: descriptor.group.filter(is_account).map(|sid| (sid, gid)) }
    }
}

impl Sids for FileSids {
    fn user(&self, uid: u32) -> Sid {
        UnixSids.user(uid)
    }

    fn group(&self, gid: u32) -> Sid {
        UnixSids.group(gid)
    }

    fn uid(&self, sid: &Sid) -> Option<u32> {
        self.users.get(sid).copied().or_else(|| UnixSids.uid(sid))
    }

    fn gid(&self, sid: &Sid) -> Option<u32> {
        self.group.filter(|(group, _)| group == sid).map(|(_, gid)| gid).or_else(|| UnixSids.gid(sid))
    }
}

/// The user of a SID: an id in it, or an account's.
pub(super) async fn uid_of(accounts: &dyn Accounts, sid: &Sid) -> Result<Option<u32>> {
    if let Some(uid) = UnixSids.uid(sid) {
        return Ok(Some(uid));
    }
    let unavailable = |why: Unavailable| Error::because(Status::NO_LOGON_SERVERS, why.0);
    if is_account(sid) { accounts.uid_of(sid).await.map_err(unavailable) } else { Ok(None) }
}
