//! The parameters and results of storage calls, as structures where there are many.

use std::sync::Arc;

use super::{Access, Case, Entry, FileId, Metadata, Node, RelPath, SpecialFile, SymlinkPolicy};

/// How [`Vfs::lookup`](super::Vfs::lookup) resolves a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LookupOptions {
    /// How names are matched.
    pub case: Case,
    /// Which symbolic links are followed.
    pub links: SymlinkPolicy,
    /// The data access with which the caller will open a regular file next, if any. The handle may already have that
    /// access if the user has it; [`Node::open`] then costs nothing. The look-up may notify a holder of a lease on the
    /// file.
    pub access: Access,
}

impl LookupOptions {
    /// Returns the options for a look-up of the exact name.
    pub fn exact(links: SymlinkPolicy) -> LookupOptions {
        LookupOptions { case: Case::Sensitive, links, access: Access::default() }
    }
}

/// The kind of object to create.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Create {
    /// A regular file, opened with `Access`.
    File(Access),
    /// A directory.
    Directory,
    /// A symbolic link. `Errno::OPNOTSUPP` where links are not supported.
    Symlink {
        /// Its target.
        target: Box<[u8]>,
        /// The empty file or directory with the same name that it replaces atomically. The name is never missing, and
        /// nothing with content is lost. `Errno::STALE` where another file has the name, `Errno::NOTEMPTY` where it has
        /// content, `Errno::OPNOTSUPP` or `Errno::INVAL` where the file system cannot replace it.
        replaces: Option<FileId>,
    },
    /// A FIFO or a socket. `Errno::OPNOTSUPP` where they are not supported, `Errno::PERM` for a device.
    Special {
        /// Its type.
        file: SpecialFile,
        /// The empty file that it replaces, as for a symbolic link.
        replaces: Option<FileId>,
    },
}

/// A file, directory or symbolic link to create.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewFile {
    /// The kind of object.
    pub kind: Create,
    /// The permission bits, applied as they are: the umask of the process is not used. A symbolic link has none.
    pub mode: u32,
    /// The DOS attributes to store, with the creation time, in `user.DOSATTRIB`. On a file system that cannot store
    /// them the file is created without them, which shows in its metadata.
    pub dos_attributes: Option<u32>,
    /// The protection to apply before any other user can open the file.
    pub protection: Option<InitialAcl>,
}

impl NewFile {
    /// Returns a new file without attributes of its own.
    pub fn new(kind: Create, mode: u32) -> NewFile {
        NewFile { kind, mode, dos_attributes: None, protection: None }
    }

    /// Returns a new symbolic link to `target`. `replaces`: the empty file or directory that it replaces.
    pub fn symlink(target: &[u8], replaces: Option<FileId>) -> NewFile {
        NewFile::new(Create::Symlink { target: target.into(), replaces }, 0o777)
    }
}

/// What a new name may replace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replace {
    /// Nothing: `Errno::EXIST` if the name exists.
    Nothing,
    /// This file. `Errno::EXIST` if the name is that of another one, which may have been created since the caller's
    /// look-up. A free name is taken.
    File(FileId),
    /// Any file.
    Any,
}

impl Replace {
    /// Returns whether a file that has the name may be replaced.
    pub fn admits(self, file: FileId) -> bool {
        match self {
            Replace::Nothing => false,
            Replace::File(only) => only == file,
            Replace::Any => true,
        }
    }
}

/// A name to change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RenameRequest {
    /// The current name.
    pub from: RelPath,
    /// The file with that name, or the one to which a link with that name leads.
    pub id: FileId,
    /// The new name.
    pub to: RelPath,
    /// The file `to` that is replaced.
    pub replace: Replace,
    /// The file is moved to a recycle bin: the directory of `to` is reached without following a link (`Errno::LOOP`),
    /// `Errno::NOENT` means that it is missing, and a directory is not moved (`Errno::ISDIR`). The directory may stay
    /// open for the following files.
    pub to_recycle_bin: bool,
}

impl RenameRequest {
    /// Returns a request that replaces no file.
    pub fn new(from: &RelPath, id: FileId, to: &RelPath) -> RenameRequest {
        RenameRequest { from: from.clone(), id, to: to.clone(), replace: Replace::Nothing, to_recycle_bin: false }
    }

    /// Sets what is replaced.
    pub fn replacing(self, replace: Replace) -> RenameRequest {
        RenameRequest { replace, ..self }
    }
}

/// The protection that a new file gets at creation, computed for the owner and group that it is expected to get.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InitialAcl {
    /// Owner and group for which it is valid.
    pub owner: (u32, u32),
    /// Permission bits with setuid, setgid and sticky that result from the POSIX ACLs in `lists`; `None` where any are
    /// acceptable.
    pub mode: Option<u32>,
    /// Extended attributes that hold POSIX ACLs, in the order in which they are set or, with `None`, removed.
    pub lists: Vec<(&'static str, Option<Vec<u8>>)>,
    /// The extended attribute that holds the security descriptor.
    pub descriptor: (String, Vec<u8>),
}

/// A file that was created.
pub struct Created {
    /// A handle to it.
    pub node: Arc<dyn Node>,
    /// Its metadata.
    pub metadata: Metadata,
    /// Whether [`NewFile::protection`] is fully in place. It is not if the file got another owner or the file system
    /// does not accept it. The caller must then protect the file.
    pub protected: bool,
}

impl Created {
    /// Returns the handle and the metadata.
    pub fn opened(self) -> (Arc<dyn Node>, Metadata) {
        (self.node, self.metadata)
    }
}

/// The state of a file after one of its names was removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Removed {
    /// The number of names that are left; `None` if the file system does not report it.
    pub links: Option<u32>,
}

/// A change of the space of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// Sets the file's size in bytes.
    Size(u64),
    /// Reserves space for the first bytes, this many, without changing the file's size. `Errno::OPNOTSUPP` where the
    /// file system cannot.
    Reserve(u64),
    /// Makes a range read as zeros, and releases its space where the file system can.
    Zero {
        /// First byte.
        offset: u64,
        /// Length in bytes.
        length: u64,
    },
}

/// A range of one file and its place in another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CopyRange {
    /// First byte in the source.
    pub source: u64,
    /// First byte in the target.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Whether the target shares the space of the source until either is written to. Both ends of the ranges then lie
    /// at multiples of [`Space::block_size`](super::Space::block_size), except that the ranges may end with both files.
    /// The target's size does not change.
    pub share: bool,
}

/// The part of a directory that [`Node::list`] returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListRequest {
    /// The position after which entries are returned; 0 is the start.
    pub cursor: u64,
    /// About how many entries are returned.
    pub count: usize,
    /// Whether they have metadata.
    pub metadata: bool,
}

/// Entries of a directory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Page {
    /// The entries.
    pub entries: Vec<Entry>,
    /// The position after them.
    pub next: u64,
    /// Whether it is known that no entries follow. A page without entries is always the last.
    pub is_last: bool,
    /// The metadata of the directory's parent, if the file system returned them with the first page.
    pub parent: Option<Metadata>,
}

/// How an extended attribute is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetXattr {
    /// It is added or replaced.
    Any,
    /// It is added. `Errno::EXIST` if the file already has it, including when another process has just added it.
    New,
}
