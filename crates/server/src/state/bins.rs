//! The recycle bins from which the server deletes old files (`frevo:recycle keep`).

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::policy::Share;
use crate::policy::limits::RECYCLE_BINS;
use crate::tree::{Bin, Disk};
use crate::vfs::{RelPath, Vfs};

/// The bins that are known, by the number of their volume and the directory in it.
#[derive(Default)]
pub(crate) struct Bins(Mutex<HashMap<(u64, RelPath), Known>>);

struct Known {
    share: Arc<Share>,
    vfs: Weak<dyn Vfs>,
}

/// A bin whose volume is open.
pub(crate) struct KnownBin {
    pub(crate) share: Arc<Share>,
    pub(crate) volume: u64,
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) directory: RelPath,
}

impl Bins {
    /// Adds the bin of a tree connect, if old files are deleted from it.
    pub(crate) fn add(&self, disk: &Disk, bin: &Bin) {
        if bin.recycle.keep.is_some() {
            self.insert(&disk.share, (disk.volume, &disk.vfs), bin.directory.clone());
        }
    }

    /// Adds a bin. One that exceeds the limit is added by a later tree connect.
    pub(crate) fn insert(&self, share: &Arc<Share>, (volume, vfs): (u64, &Arc<dyn Vfs>), directory: RelPath) {
        let mut bins = self.0.lock();
        let key = (volume, directory);
        if bins.len() >= RECYCLE_BINS && !bins.contains_key(&key) {
            bins.retain(|_, known| known.vfs.strong_count() > 0);
            if bins.len() >= RECYCLE_BINS {
                tracing::debug!(share = share.name, "too many recycle bins: old files stay in this one");
                return;
            }
        }
        bins.insert(key, Known { share: Arc::clone(share), vfs: Arc::downgrade(vfs) });
    }

    /// Returns the bins whose volumes are open, and forgets the others.
    pub(crate) fn list(&self) -> Vec<KnownBin> {
        let mut bins = self.0.lock();
        bins.retain(|_, known| known.vfs.strong_count() > 0);
        let open = bins.iter().filter_map(|((volume, directory), known)| {
            let (share, directory) = (Arc::clone(&known.share), directory.clone());
            Some(KnownBin { share, volume: *volume, vfs: known.vfs.upgrade()?, directory })
        });
        open.collect()
    }
}
