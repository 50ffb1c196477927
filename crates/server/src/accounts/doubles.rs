//! Accounts for tests.

use std::sync::Arc;

use proto::dtyp::Sid;

use super::principals::{Principal, UnixId};
use super::{
    Accounts, Authenticator, DomainSid, IdMap, ListedAccount, ListedGroup, Netgroups, NotChanged, Roster, Unavailable,
};
use crate::answer::Answer;
use crate::vfs::Identity;

/// A host without accounts, groups or netgroups of its own, with the given machine SID. It has UNIX users and groups
/// under the SIDs that contain their ids.
pub struct Nobody(pub DomainSid);

impl Nobody {
    /// Returns the accounts of `authenticator` on this host.
    pub fn with(self, authenticator: Arc<dyn Authenticator>) -> Accounts {
        let this = Arc::new(self);
        Accounts { authenticator, ids: this.clone(), roster: this.clone(), netgroups: this }
    }
}

impl IdMap for Nobody {
    fn id_of(&self, sid: &Sid) -> Answer<Result<Option<UnixId>, Unavailable>> {
        Answer::now(Ok(UnixId::in_sid(sid)))
    }

    fn sid_of(&self, id: UnixId) -> Answer<Result<Sid, Unavailable>> {
        Answer::now(Ok(id.plain_sid()))
    }

    fn sids_of(&self, _: &Arc<Identity>) -> Answer<Result<Vec<Sid>, Unavailable>> {
        Answer::now(Ok(Vec::new()))
    }

    fn principal(&self, _: &Sid) -> Answer<Result<Option<Principal>, Unavailable>> {
        Answer::now(Ok(None))
    }

    fn named(&self, _: Option<&str>, _: &str) -> Answer<Result<Option<Principal>, Unavailable>> {
        Answer::now(Ok(None))
    }

    fn expect_sids(&self, _: &[Sid]) -> Answer<()> {
        Answer::now(())
    }

    fn domain(&self) -> DomainSid {
        self.0
    }

    fn is_of_machine(&self, sid: &Sid) -> bool {
        sid.domain() == Some(self.0.sid())
    }
}

impl Roster for Nobody {
    fn users(&self, _: Option<&str>, _: usize) -> Answer<Result<Vec<ListedAccount>, Unavailable>> {
        Answer::now(Ok(Vec::new()))
    }

    fn count_users(&self) -> Answer<Result<u32, Unavailable>> {
        Answer::now(Ok(0))
    }

    fn groups(&self, _: Option<&Sid>, _: usize) -> Answer<Result<Vec<ListedGroup>, Unavailable>> {
        Answer::now(Ok(Vec::new()))
    }

    fn group(&self, _: &Sid) -> Answer<Result<Option<ListedGroup>, Unavailable>> {
        Answer::now(Ok(None))
    }

    fn members(&self, _: &Sid, _: usize) -> Answer<Result<Vec<Sid>, Unavailable>> {
        Answer::now(Ok(Vec::new()))
    }
}

impl Netgroups for Nobody {
    fn is_in_netgroup(&self, _: &str, _: &str) -> Answer<Result<bool, Unavailable>> {
        Answer::now(Ok(false))
    }
}

/// Returns the answer of a back end that cannot change passwords.
pub fn password_not_changed() -> Answer<Result<(), NotChanged>> {
    Answer::now(Err(NotChanged::Unavailable("its back end cannot change passwords".into())))
}
