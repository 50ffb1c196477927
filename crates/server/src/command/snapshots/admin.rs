//! Previous versions for local administration, as clients see them. There is no session: directories are read as root.

use proto::status::Status;

use super::{at, moments};
use crate::error::{Error, Result};
use crate::security::admin::{AclAdmin, Item};
use crate::state::SnapshotTables;
use crate::tree::Disk;
use crate::vfs::RelPath;

/// The previous versions of the files of a share.
pub struct PreviousVersions<'a> {
    tables: &'a SnapshotTables,
    admin: &'a AclAdmin,
    /// The share, in a volume that `tables` knows.
    disk: Disk,
}

impl<'a> PreviousVersions<'a> {
    /// Creates the previous versions of the share of `admin`; `None` if clients see none.
    ///
    /// # Errors
    /// The directory of the share cannot be opened.
    pub async fn new(tables: &'a SnapshotTables, admin: &'a AclAdmin) -> Result<Option<PreviousVersions<'a>>> {
        let share = &admin.disk().share;
        if share.snapshots.is_none() && share.automatic_snapshots.is_none() {
            return Ok(None);
        }
        let (volume, vfs) = tables.search().volume(share).await?;
        let disk = Disk { volume, vfs, ..admin.disk().clone() };
        Ok(Some(PreviousVersions { tables, admin, disk }))
    }

    /// Returns the times of the snapshots that may have a version of `path`, in seconds since 1970-01-01 UTC, the
    /// newest first. Configured snapshots are searched until there are `limit`.
    pub async fn moments(&self, path: &RelPath, limit: usize) -> Result<Vec<i64>> {
        let (mut found, _) = moments(self.tables.search(), &self.disk, path, limit).await?;
        found.sort_unstable_by(|one, other| other.cmp(one));
        found.dedup();
        found.truncate(limit);
        Ok(found)
    }

    /// Returns the snapshot of `moment`, and the file or directory that `path` was then. No link leads to it.
    pub async fn version(&self, path: &RelPath, moment: i64) -> Result<(AclAdmin, Item)> {
        let mut path = path.clone();
        let snapshot = self.admin.in_snapshot(at(self.tables.search(), &self.disk, &mut path, moment).await?);
        let item = snapshot.item(&path).await?;
        if !item.keeps_descriptor() {
            return Err(Error::because(Status::ACCESS_DENIED, "a link or a device was there"));
        }
        Ok((snapshot, item))
    }
}
