//! How a path is looked up, and the result.

use std::sync::Arc;

use super::{DirectoryVersion, Metadata, Node, RelPath};

/// How a symbolic link in the last component of a path is treated, and which links may be followed at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SymlinkPolicy {
    /// `follow symlinks`: resolve links whose target is below the root.
    pub follow: bool,
    /// `wide links`: also resolve links that lead out of the root. Off unless the administrator enabled it.
    pub wide: bool,
    /// The look-up returns a link in the last component itself (FILE_OPEN_REPARSE_POINT), regardless of `follow`.
    pub itself: bool,
}

impl SymlinkPolicy {
    /// No link is followed.
    pub const NONE: SymlinkPolicy = SymlinkPolicy { follow: false, wide: false, itself: false };
    /// Links are followed below the root.
    pub const BENEATH: SymlinkPolicy = SymlinkPolicy { follow: true, wide: false, itself: false };

    /// Returns the same policy, except that a link in the last component is returned itself.
    #[must_use]
    pub fn to_last(self) -> SymlinkPolicy {
        SymlinkPolicy { itself: true, ..self }
    }
}

/// How names are matched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Case {
    /// As on Windows: the exact name first, then one that differs in case only.
    Insensitive,
    /// As on Linux.
    Sensitive,
}

/// The result of looking up a path.
pub enum Lookup {
    /// The file exists. The path has the names as they are on disk.
    Found {
        /// The path as it is on disk.
        path: RelPath,
        /// A handle to it that permits no data access yet.
        node: Arc<dyn Node>,
        /// Its metadata.
        metadata: Metadata,
    },
    /// The parent directory exists, the last component does not.
    Missing {
        /// The path with the parent's names as on disk, and the last component as requested.
        path: RelPath,
        /// The parent directory, if its file system watches it.
        parent: Option<DirectoryVersion>,
    },
    /// An intermediate directory does not exist or is not a directory.
    NoParent,
}
