//! The parameters of previous versions, as in Samba's module shadow_copy2, and what is known about other snapshots.

mod format;
mod known;
mod places;
mod prefix;
mod schedule;

use std::path::PathBuf;

pub use self::format::{Format, UtcOffset};
pub use self::known::{Automatic, Named, recognize, snapper_time};
pub use self::places::{PLACES, Place, Step, is_trusted};
pub use self::prefix::{Pattern, Prefix};
pub use self::schedule::Schedule;

/// The location and names of the snapshots of a share.
#[derive(Clone, Debug)]
pub struct Snapshots {
    /// `shadow:snapdir`: the directory with one subdirectory per snapshot, relative to the mount point, or to any
    /// directory of the share with `everywhere`.
    pub directory: PathBuf,
    /// `shadow:snapdirseverywhere`: any directory of the share may contain snapshots of itself.
    pub everywhere: bool,
    /// `shadow:crossmountpoints`: with `everywhere`, snapshots are searched up to the root of the host instead of the
    /// mount point.
    pub cross_mount_points: bool,
    /// `shadow:mountpoint`: the mount point of the file system; determined automatically if not set.
    pub mount_point: Option<PathBuf>,
    /// `shadow:basedir`: the directory that the snapshots contain; the mount point if not set.
    pub base: Option<PathBuf>,
    /// `shadow:snapsharepath`: the path of the share in a snapshot; the path from `base` to the share if not set.
    pub share_path: Option<PathBuf>,
    /// `shadow:format`.
    pub format: Format,
    /// `shadow:snapprefix` and `shadow:delimiter`: what precedes the time in a name.
    pub prefix: Option<Prefix>,
    /// `shadow:localtime`: names are in local time.
    pub local: Option<UtcOffset>,
    /// `shadow:sort`.
    pub sort: Sort,
}

impl Snapshots {
    /// Returns the name of the snapshot of `moment`; `None` if it has a prefix, so that only a listing has the name.
    pub fn name(&self, moment: i64) -> Option<Vec<u8>> {
        self.prefix.is_none().then(|| self.format.name(moment, self.local))
    }

    /// Returns the time of the snapshot called `name`. As for strptime(3), other text may follow the time.
    pub fn moment(&self, name: &[u8]) -> Option<i64> {
        let timed = match &self.prefix {
            Some(prefix) => prefix.strip(name)?,
            None => name,
        };
        self.format.leading_moment(timed, self.local)
    }
}

/// The order in which snapshots are listed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sort {
    /// Newest first.
    Descending,
    /// Oldest first.
    Ascending,
    /// In the order of the directory.
    Unsorted,
}
