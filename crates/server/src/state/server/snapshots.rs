//! What a search for snapshots uses: the volumes, and what is remembered of earlier searches.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Server;
use super::volumes::{OpenVolumes, Volume, Volumes};
use crate::environment::Environment;
use crate::policy::{Share, Storage};
use crate::tree::{Catalogues, SnapshotNames, Views};
use crate::vfs;

/// The parts of a server, or of a process without one, that a search for snapshots uses.
#[derive(Clone, Copy)]
pub(crate) struct SnapshotSearch<'a> {
    /// Time.
    pub(crate) environment: &'a dyn Environment,
    /// Views of snapshots in which a file is open.
    pub(crate) views: &'a Views,
    /// Names of snapshots that were opened.
    pub(crate) names: &'a SnapshotNames,
    /// Snapshots that were found automatically.
    pub(crate) catalogues: &'a Catalogues,
    volumes: &'a dyn Volumes,
    mounted: &'a OpenVolumes,
    last_id: &'a AtomicU64,
}

/// The same for a process without a server.
pub struct SnapshotTables {
    environment: Arc<dyn Environment>,
    volumes: Arc<dyn Volumes>,
    mounted: OpenVolumes,
    views: Views,
    names: SnapshotNames,
    catalogues: Catalogues,
    last_id: AtomicU64,
}

impl SnapshotTables {
    /// Creates empty tables. `volumes` opens the directories in which snapshots are.
    pub fn new(environment: Arc<dyn Environment>, volumes: Arc<dyn Volumes>) -> SnapshotTables {
        SnapshotTables {
            environment,
            volumes,
            mounted: OpenVolumes::default(),
            views: Views::default(),
            names: SnapshotNames::default(),
            catalogues: Catalogues::default(),
            last_id: AtomicU64::new(0),
        }
    }

    pub(crate) fn search(&self) -> SnapshotSearch<'_> {
        SnapshotSearch {
            environment: &*self.environment,
            views: &self.views,
            names: &self.names,
            catalogues: &self.catalogues,
            volumes: &*self.volumes,
            mounted: &self.mounted,
            last_id: &self.last_id,
        }
    }
}

impl Server {
    /// Returns what a search for snapshots uses.
    pub(crate) fn snapshot_search(&self) -> SnapshotSearch<'_> {
        SnapshotSearch {
            environment: &*self.environment,
            views: &self.opens.views,
            names: &self.opens.snapshot_names,
            catalogues: &self.opens.catalogues,
            volumes: &*self.volumes,
            mounted: &self.mounted,
            last_id: &self.last_id,
        }
    }
}

impl SnapshotSearch<'_> {
    /// Returns a number that was not returned before.
    pub(crate) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns the file system behind `share` and its volume number.
    pub(crate) async fn volume(&self, share: &Share) -> vfs::Result<Volume> {
        let is_fixed = share.path_template.is_none();
        self.mounted.get(self.volumes, share, is_fixed, || self.next_id()).await
    }

    /// Returns the mount point of the file system that contains the directory of `share`. In a volume, it is the
    /// root of the volume.
    pub(crate) async fn mount_point(&self, share: &Share) -> vfs::Result<PathBuf> {
        match &share.storage {
            Storage::Directory => self.mounted.mount_point(self.volumes, share).await,
            Storage::Gluster(_) => Ok(PathBuf::from("/")),
        }
    }
}
