//! Leases by their keys: which file each belongs to ([MS-SMB2] 3.3.1.11 `GlobalLeaseTableList`). What a lease lets its
//! client cache is kept with its file, in `oplock`.

use std::sync::Arc;
use std::time::Duration;

use proto::dtyp::Guid;
use proto::smb2::LeaseState;
use proto::status::Status;

use super::{OpenName, Table};
use crate::name::fold_key;
use crate::session::Session;
use crate::vfs::{FileId, RelPath};

/// A lease: the client that it belongs to, and the key that it chose for a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LeaseId {
    /// `ClientGuid`.
    pub client: Guid,
    /// `LeaseKey`.
    pub key: [u8; 16],
}

/// The lease that an open is made under.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenLease {
    /// Its own.
    pub id: LeaseId,
    /// The one that the client has on the directory, which changes made through this open do not break.
    pub parent: Option<[u8; 16]>,
}

impl OpenLease {
    /// The client's lease on the directory.
    pub fn parent_id(&self) -> Option<LeaseId> {
        self.parent.map(|key| LeaseId { client: self.id.client, key })
    }
}

impl Table {
    /// Whether `lease` belongs to another file than `file` (3.3.5.9.8: then it cannot be asked for on this one).
    pub fn lease_is_elsewhere(&self, lease: LeaseId, file: Option<FileId>) -> bool {
        self.leases.lock().get(&lease).is_some_and(|entry| Some(entry.file) != file)
    }

    /// The file that `lease` belongs to where another one is called the same, `path` in `volume` or one before it: two
    /// connects to one share that have led to two directories, as variables of its path have it. By the name alone the
    /// client cannot tell them apart, so it is not at fault (3.3.5.9.8); but it can no longer cache anything under that key.
    pub fn lease_of_namesakes(&self, lease: LeaseId, volume: u64, path: &RelPath) -> Option<FileId> {
        let mut leases = self.leases.lock();
        let entry = leases.get_mut(&lease)?;
        let same = || fold_key(entry.name.path.lock().as_bytes()) == fold_key(path.as_bytes());
        entry.namesakes |= entry.name.volume != volume && same();
        entry.namesakes.then_some(entry.file)
    }

    /// The holder of a lease acknowledges its break; answers what it caches now (3.3.5.22.2). ClientGuid and LeaseKey are
    /// no secrets, so `by` must be a session of a user who has an open under the lease.
    pub fn acknowledge_lease(
        &self,
        lease: LeaseId,
        by: &Session,
        kept: LeaseState,
        now: Duration,
    ) -> Result<LeaseState, Status> {
        let entry = self.leases.lock().get(&lease).map(|entry| entry.file);
        let file = entry.ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
        self.with(file, |state| match state.oplocks.lease_is_of(lease, by) {
            true => state.oplocks.acknowledge_lease(lease, kept, now),
            false => Err(Status::OBJECT_NAME_NOT_FOUND),
        })
        .unwrap_or(Err(Status::OBJECT_NAME_NOT_FOUND))
    }

    /// How many leases there are, for status.
    pub fn lease_count(&self) -> usize {
        self.leases.lock().len()
    }

    /// An open is made under a lease. `false` where that belongs to another file.
    pub(super) fn enter_lease(&self, lease: LeaseId, file: FileId, name: &Arc<OpenName>) -> bool {
        let mut leases = self.leases.lock();
        let entry =
            leases.entry(lease).or_insert_with(|| LeaseEntry { file, name: name.clone(), opens: 0, namesakes: false });
        if entry.file != file {
            return false;
        }
        entry.opens += 1;
        true
    }

    /// An open that was made under a lease is gone.
    pub(super) fn leave_lease(&self, lease: LeaseId) {
        let mut leases = self.leases.lock();
        if let Some(entry) = leases.get_mut(&lease) {
            entry.opens -= 1;
            if entry.opens == 0 {
                leases.remove(&lease);
            }
        }
    }
}

/// Where a lease is.
pub(super) struct LeaseEntry {
    file: FileId,
    /// By the first open that was made under it.
    name: Arc<OpenName>,
    opens: usize,
    /// The client uses the key for a file of the same name in another volume, too.
    namesakes: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: LeaseId = LeaseId { client: Guid([1; 16]), key: [2; 16] };
    const FILE: FileId = FileId { device: 1, inode: 2, stream: 0 };

    fn path(name: &str) -> RelPath {
        RelPath::root().join(name.as_bytes()).expect("a name")
    }

    #[test]
    fn a_key_that_two_namesakes_share_is_of_no_use_until_the_first_is_closed() {
        let table = Table::default();
        let name = Arc::new(OpenName { volume: 1, path: parking_lot::Mutex::new(path("file")) });
        let ask = |volume, name| table.lease_of_namesakes(LEASE, volume, &path(name));
        assert_eq!(ask(2, "file"), None);
        assert!(table.enter_lease(LEASE, FILE, &name));
        assert_eq!((ask(1, "file"), ask(1, "other"), ask(2, "other")), (None, None, None));
        assert_eq!(ask(2, "FILE"), Some(FILE));
        assert_eq!(ask(1, "file"), Some(FILE));
        table.leave_lease(LEASE);
        assert_eq!(ask(2, "file"), None);
    }
}
