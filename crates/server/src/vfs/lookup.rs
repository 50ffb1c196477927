//! How a path is looked up, and the result.

use std::sync::Arc;

use super::{DirectoryVersion, Metadata, Node, Opened, RelPath};

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

/// What a look-up knows of the directory in which a name is missing.
#[derive(Clone, Default)]
pub struct Parent {
    /// Its version, if its file system watches it.
    pub version: Option<DirectoryVersion>,
    /// A handle to it, which permits no data access, and its metadata, if they came with the result.
    pub opened: Option<Opened>,
}

impl Parent {
    /// Returns its mode and group, if they are known.
    pub fn mode_and_group(&self) -> Option<(u32, u32)> {
        let version = self.version.as_ref().map(|version| (version.mode, version.gid));
        version.or(self.opened.as_ref().map(|(_, metadata)| (metadata.mode, metadata.gid)))
    }
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
        /// The parent directory.
        parent: Parent,
    },
    /// An intermediate directory does not exist or is not a directory.
    NoParent,
}
