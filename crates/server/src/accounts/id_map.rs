//! Id mapping: between the SIDs in descriptors, UNIX ids, and names.

use std::sync::Arc;

use proto::dtyp::Sid;

use super::principals::{Principal, UnixId};
use super::{DomainSid, Unavailable};
use crate::answer::Answer;
use crate::vfs::Identity;

/// The mapping between SIDs, UNIX ids and names.
pub trait IdMap: Send + Sync {
    /// Returns the UNIX user or group that has or had the SID `sid`, or `None` if there is none. Called for many SIDs
    /// in a row, so it must be fast for a SID that does not belong to an account.
    fn id_of(&self, sid: &Sid) -> Answer<Result<Option<UnixId>, Unavailable>>;

    /// Returns the SID under which a UNIX user or group is shown: an account's, a mapped group's, or the one that
    /// contains the id.
    fn sid_of(&self, id: UnixId) -> Answer<Result<Sid, Unavailable>>;

    /// Returns the SIDs of accounts and mapped groups for a UNIX user and its groups, besides those that contain the
    /// ids.
    fn sids_of(&self, identity: &Arc<Identity>) -> Answer<Result<Vec<Sid>, Unavailable>>;

    /// Returns the principal of `sid`, if it belongs to an account, a mapped group, or a UNIX user or group.
    fn principal(&self, sid: &Sid) -> Answer<Result<Option<Principal>, Unavailable>>;

    /// Returns the principal called `name`: an account or group of this server if `realm` is `None`, otherwise one of
    /// that realm (`Unix User`, `Unix Group`, a domain).
    fn named(&self, realm: Option<&str>, name: &str) -> Answer<Result<Option<Principal>, Unavailable>>;

    /// Announces the SIDs that [`IdMap::principal`] will be called for next, so that a back end can look up many at
    /// once. The results of the later calls are authoritative.
    fn expect_sids(&self, sids: &[Sid]) -> Answer<()>;

    /// Returns the machine SID: the domain SID of the accounts to which this machine assigns SIDs.
    fn domain(&self) -> DomainSid;

    /// Returns whether `sid` is in this machine's domain, under its present or a former machine SID. No other domain
    /// may assign such SIDs. See [`of_server`](super::principals::of_server).
    fn is_of_machine(&self, sid: &Sid) -> bool;
}
