//! The parameters of previous versions, as in Samba's module shadow_copy2.

mod format;

use std::path::PathBuf;

pub use self::format::{Format, UtcOffset};

/// The location and names of the snapshots of a share.
#[derive(Clone, Debug)]
pub struct Snapshots {
    /// `shadow:snapdir`: the directory with one subdirectory per snapshot, relative to the mount point, or to any
    /// directory of the share with `everywhere`.
    pub directory: PathBuf,
    /// `shadow:snapdirseverywhere`: any directory of the share may contain snapshots of itself.
    pub everywhere: bool,
    /// `shadow:mountpoint`: the mount point of the file system; determined automatically if not set.
    pub mount_point: Option<PathBuf>,
    /// `shadow:basedir`: the directory that the snapshots contain; the mount point if not set.
    pub base: Option<PathBuf>,
    /// `shadow:snapsharepath`: the path of the share in a snapshot; the path from `base` to the share if not set.
    pub share_path: Option<PathBuf>,
    /// `shadow:format`.
    pub format: Format,
    /// `shadow:localtime`: names are in local time.
    pub local: Option<UtcOffset>,
    /// `shadow:sort`.
    pub sort: Sort,
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
