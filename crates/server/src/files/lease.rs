//! Leases by their keys: which file each belongs to ([MS-SMB2] 3.3.1.11 `GlobalLeaseTableList`). What a lease lets its
//! client cache is kept with its file, in `oplock`.

use std::time::Duration;

use proto::dtyp::Guid;
use proto::smb2::LeaseState;
use proto::status::Status;

use super::Table;
use crate::vfs::FileId;

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

    /// The holder of a lease acknowledges its break; answers what it caches now (3.3.5.22.2).
    pub fn acknowledge_lease(&self, lease: LeaseId, kept: LeaseState, now: Duration) -> Result<LeaseState, Status> {
        let entry = self.leases.lock().get(&lease).map(|entry| entry.file);
        let file = entry.ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
        self.with(file, |state| state.oplocks.acknowledge_lease(lease, kept, now))
            .unwrap_or(Err(Status::OBJECT_NAME_NOT_FOUND))
    }

    /// How many leases there are, for status.
    pub fn lease_count(&self) -> usize {
        self.leases.lock().len()
    }

    /// An open is made under a lease. `false` where that belongs to another file.
    pub(super) fn enter_lease(&self, lease: LeaseId, file: FileId) -> bool {
        let mut leases = self.leases.lock();
        let entry = leases.entry(lease).or_insert(LeaseEntry { file, opens: 0 });
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
    opens: usize,
}
