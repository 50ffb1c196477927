//! The file that each lease key belongs to ([MS-SMB2] 3.3.1.11 `GlobalLeaseTableList`). The state of a lease is stored
//! with its file, in `oplock`.

use std::sync::Arc;
use std::time::Duration;

use proto::dtyp::Guid;
use proto::smb2::LeaseState;
use proto::status::Status;

use super::oplock::Client;
use super::{OpenName, Table};
use crate::name::fold_key;
use crate::vfs::{FileId, RelPath};

/// Identifies a lease: the client, and the key that it chose for a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LeaseId {
    /// `ClientGuid`.
    pub client: Guid,
    /// `LeaseKey`.
    pub key: [u8; 16],
}

/// The lease that an open was made under.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenLease {
    /// The lease on the file.
    pub id: LeaseId,
    /// The client's lease on the directory, which changes made through this open do not break.
    pub parent: Option<[u8; 16]>,
}

impl OpenLease {
    /// Returns the client's lease on the directory.
    pub fn parent_id(&self) -> Option<LeaseId> {
        self.parent.map(|key| LeaseId { client: self.id.client, key })
    }
}

impl Table {
    /// Whether `lease` belongs to another file than `file`. If so, it cannot be requested for this one (3.3.5.9.8).
    pub fn lease_is_elsewhere(&self, lease: LeaseId, file: Option<FileId>) -> bool {
        self.leases.lock().get(&lease).is_some_and(|entry| Some(entry.file) != file)
    }

    /// Returns the file that `lease` belongs to if the client has used its key for files of the same path in different
    /// volumes: this `path` in `volume`, or an earlier one. This happens if two tree connects to one share lead to
    /// different directories, because its path contains variables. The client cannot distinguish the files by name, so
    /// it is not at fault (3.3.5.9.8), but it can no longer cache anything under that key.
    pub fn lease_of_namesakes(&self, lease: LeaseId, volume: u64, path: &RelPath) -> Option<FileId> {
        let mut leases = self.leases.lock();
        let entry = leases.get_mut(&lease)?;
        let same = || fold_key(entry.name.path.lock().as_bytes()) == fold_key(path.as_bytes());
        entry.namesakes |= entry.name.volume != volume && same();
        entry.namesakes.then_some(entry.file)
    }

    /// Acknowledges a lease break; returns the new state (3.3.5.22.2). ClientGuid and LeaseKey are not secret, so `by`
    /// must be a session of a user who has an open under the lease.
    pub fn acknowledge_lease(
        &self,
        lease: LeaseId,
        by: &Client<'_>,
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

    /// Returns the number of leases, for status.
    pub fn lease_count(&self) -> usize {
        self.leases.lock().len()
    }

    /// Counts an open made under a lease. `false` if the lease belongs to another file.
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

    /// Removes an open made under a lease.
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

/// The file of a lease.
pub(super) struct LeaseEntry {
    file: FileId,
    /// The name in the first open made under it.
    name: Arc<OpenName>,
    opens: usize,
    /// The client also uses the key for a file of the same name in another volume.
    namesakes: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: LeaseId = LeaseId { client: Guid([1; 16]), key: [2; 16] };
    const FILE: FileId = FileId { device: 1, inode: 2, stream: 0 };

    fn path(name: &str) -> RelPath {
        RelPath::root().join(name.as_bytes()).expect("a valid name")
    }

    #[test]
    fn a_lease_key_used_for_two_files_of_one_name_grants_nothing_until_the_first_is_closed() {
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
