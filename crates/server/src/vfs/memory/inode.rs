//! A file, directory or link: its content and its metadata.

use std::collections::BTreeMap;

use super::directory::Directory;
use super::kept::Kept;
use super::pages::{PAGE, Pages};
use crate::vfs::{FileId, Identity, Kind, Metadata, SpecialFile, Time, XattrSet};

/// A file, directory or link.
pub(super) struct Inode {
    pub(super) body: Body,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) links: u32,
    /// Number of open handles, which keep the inode alive.
    pub(super) opens: u32,
    /// Leases and locks held by its handles.
    pub(super) kept: Kept,
    pub(super) accessed: Time,
    pub(super) modified: Time,
    pub(super) changed: Time,
    pub(super) stamped: Time,
    pub(super) created: Time,
    pub(super) born: Time,
    pub(super) dos_attributes: Option<u32>,
    pub(super) xattrs: BTreeMap<String, Vec<u8>>,
    /// Reported as compressed; the content in memory is not.
    pub(super) compressed: bool,
}

/// The content of an inode.
pub(super) enum Body {
    File(Pages),
    Directory {
        entries: Directory,
        /// The directory that holds this one.
        parent: u64,
    },
    /// The target, exactly as given.
    Symlink(Box<[u8]>),
    Special(SpecialFile),
}

impl Body {
    pub(super) fn file() -> Self {
        Body::File(Pages::default())
    }

    pub(super) fn directory(parent: u64) -> Self {
        Body::Directory { entries: Directory::default(), parent }
    }

    pub(super) fn kind(&self) -> Kind {
        match self {
            Body::File(_) => Kind::File,
            Body::Directory { .. } => Kind::Directory,
            Body::Symlink(_) => Kind::Symlink,
            Body::Special(_) => Kind::Special,
        }
    }
}

impl Inode {
    /// An inode without a name.
    pub(super) fn new(body: Body, mode: u32, uid: u32, gid: u32, now: Time) -> Self {
        Inode {
            body,
            mode,
            uid,
            gid,
            links: 0,
            opens: 0,
            kept: Kept::default(),
            accessed: now,
            modified: now,
            changed: now,
            stamped: now,
            created: now,
            born: now,
            dos_attributes: None,
            xattrs: BTreeMap::new(),
            compressed: false,
        }
    }

    /// Records a change of content.
    pub(super) fn touch(&mut self, now: Time) {
        self.modified = now;
        self.stamp(now);
    }

    /// Records a change of metadata.
    pub(super) fn stamp(&mut self, now: Time) {
        self.changed = now;
        self.stamped = now;
    }

    /// Returns the metadata, without what is known of extended attributes.
    pub(super) fn metadata(&self, id: FileId) -> Metadata {
        let (size, allocated) = match &self.body {
            Body::File(content) => (content.size(), content.allocated() * PAGE),
            Body::Symlink(target) => (target.len() as u64, 0),
            Body::Directory { .. } | Body::Special(_) => (0, 0),
        };
        Metadata {
            id,
            kind: self.body.kind(),
            size,
            allocated,
            links: self.links,
            mode: self.mode,
            uid: self.uid,
            gid: self.gid,
            accessed: self.accessed,
            modified: self.modified,
            changed: self.changed,
            stamped: self.stamped,
            created: self.created,
            born: Some(self.born),
            dos_attributes: self.dos_attributes,
            compressed: self.compressed,
            is_mounted: false,
            special: match self.body {
                Body::Special(special) => Some(special),
                _ => None,
            },
            absent: XattrSet::default(),
        }
    }

    /// Returns the permissions of `who` as `rwx` bits. Root has all, except that a file without any x bit cannot be
    /// executed.
    pub(super) fn permissions(&self, who: &Identity) -> u32 {
        if who.uid == 0 {
            let runs = self.body.kind() == Kind::Directory || self.mode & 0o111 != 0;
            return 6 | u32::from(runs);
        }
        let in_group = who.gid == self.gid || who.groups.contains(&self.gid);
        let shift = if who.uid == self.uid {
            6
        } else if in_group {
            3
        } else {
            0
        };
        self.mode >> shift & 7
    }

    /// Returns whether `who` has the owner's rights.
    pub(super) fn is_owner(&self, who: &Identity) -> bool {
        who.uid == 0 || who.uid == self.uid
    }
}
