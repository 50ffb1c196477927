//! The recycle bins from which the server deletes old files (`frevo:recycle keep`).

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::policy::Share;
use crate::policy::limits::RECYCLE_BINS;
use crate::policy::recycle::Origin;
use crate::tree::{Bin, Disk};
use crate::vfs::{RelPath, Vfs};

/// The bins that are known, by the number of their volume and the directory in it.
#[derive(Default)]
pub(crate) struct Bins(Mutex<HashMap<(u64, RelPath), Known>>);

struct Known {
    share: Arc<Share>,
    origin: Origin,
    vfs: Weak<dyn Vfs>,
}

/// A bin whose volume is open.
pub(crate) struct KnownBin {
    pub(crate) share: Arc<Share>,
    pub(crate) origin: Origin,
    pub(crate) volume: u64,
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) directory: RelPath,
}

impl Bins {
    /// Adds the bin of a tree connect, if old files are deleted from it.
    pub(crate) fn add(&self, disk: &Disk, bin: &Bin) {
        if let Some(origin) = bin.origin.as_ref().filter(|_| bin.recycle.keep.is_some()) {
            self.insert(&disk.share, origin.clone(), (disk.volume, &disk.vfs), bin.directory.clone());
        }
    }

    /// Adds a bin. One that exceeds the limit is added when a directory is created in it, or by a later tree connect.
    pub(crate) fn insert(
        &self,
        share: &Arc<Share>,
        origin: Origin,
        (volume, vfs): (u64, &Arc<dyn Vfs>),
        directory: RelPath,
    ) {
        let mut bins = self.0.lock();
        let key = (volume, directory);
        if bins.len() >= RECYCLE_BINS && !bins.contains_key(&key) {
            bins.retain(|_, known| known.vfs.strong_count() > 0);
            if bins.len() >= RECYCLE_BINS {
                tracing::warn!(
                    share = share.name,
                    "old files stay in the recycle bin of a session, because there are more than {RECYCLE_BINS} bins; \
                     use one repository for all users"
                );
                return;
            }
        }
        bins.insert(key, Known { share: Arc::clone(share), origin, vfs: Arc::downgrade(vfs) });
    }

    /// Forgets a bin whose directory does not exist. It is added again when the directory is created.
    pub(crate) fn forget(&self, bin: &KnownBin) {
        self.0.lock().remove(&(bin.volume, bin.directory.clone()));
    }

    /// Returns the bins whose volumes are open, and forgets the others.
    pub(crate) fn list(&self) -> Vec<KnownBin> {
        let mut bins = self.0.lock();
        bins.retain(|_, known| known.vfs.strong_count() > 0);
        let open = bins.iter().filter_map(|((volume, directory), Known { share, origin, vfs })| {
            let (share, origin, directory) = (Arc::clone(share), origin.clone(), directory.clone());
            Some(KnownBin { share, origin, volume: *volume, vfs: vfs.upgrade()?, directory })
        });
        open.collect()
    }
}
