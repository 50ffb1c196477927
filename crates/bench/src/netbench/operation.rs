//! One parsed line of a load: the request and its recorded result. The syntax is described in [`super::load`].

use proto::smb2::create::{CreateDisposition, CreateOptions};
use proto::status::Status;

use super::kind::Kind;

/// Index of a path or a pattern in [`Load::texts`](super::load::Load::texts).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct TextId(pub u32);

/// The number that the load uses for an open file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Handle(pub u32);

/// The request of a line. The names are those of the load file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Opens or creates a file or directory.
    NtCreateX {
        /// The path.
        path: TextId,
        /// The create options.
        options: CreateOptions,
        /// The action if the file exists, and if it does not.
        disposition: CreateDisposition,
        /// The number of the handle, if the open succeeds.
        handle: Handle,
    },
    /// Closes a handle.
    Close {
        /// The handle.
        handle: Handle,
    },
    /// Reads from a file.
    ReadX {
        /// The handle.
        handle: Handle,
        /// The offset.
        offset: u64,
        /// Maximum number of bytes.
        length: u32,
        /// Number of bytes that were read.
        answered: u32,
    },
    /// Writes to a file.
    WriteX {
        /// The handle.
        handle: Handle,
        /// The offset.
        offset: u64,
        /// Number of bytes.
        length: u32,
        /// Number of bytes that were written.
        answered: u32,
    },
    /// Locks a range exclusively.
    LockX {
        /// The handle.
        handle: Handle,
        /// The offset.
        offset: u64,
        /// Length in bytes.
        length: u64,
    },
    /// Unlocks a range.
    UnlockX {
        /// The handle.
        handle: Handle,
        /// The offset.
        offset: u64,
        /// Length in bytes.
        length: u64,
    },
    /// Flushes written data to the disk.
    Flush {
        /// The handle.
        handle: Handle,
    },
    /// Renames a file. Fails if the new name exists.
    Rename {
        /// The old name.
        from: TextId,
        /// The new name.
        to: TextId,
    },
    /// Deletes a file.
    Unlink {
        /// The path.
        path: TextId,
        /// Search attributes of SMB 1.
        attributes: u32,
    },
    /// Creates a directory.
    Mkdir {
        /// The path.
        path: TextId,
    },
    /// Deletes an empty directory.
    Rmdir {
        /// The path.
        path: TextId,
    },
    /// Deletes a directory and everything in it. A missing directory is not an error.
    Deltree {
        /// The path.
        path: TextId,
    },
    /// Queries information about a path.
    QueryPath {
        /// The path.
        path: TextId,
        /// Information level of TRANS2.
        level: u16,
    },
    /// Queries information about an open file.
    QueryFile {
        /// The handle.
        handle: Handle,
        /// Information level of TRANS2.
        level: u16,
    },
    /// Queries information about the file system.
    QueryFs {
        /// Information level of TRANS2.
        level: u16,
    },
    /// Sets information of an open file. The values are not recorded.
    SetFile {
        /// The handle.
        handle: Handle,
        /// Information level of TRANS2.
        level: u16,
    },
    /// Lists the names that match a pattern.
    FindFirst {
        /// A directory and a pattern.
        pattern: TextId,
        /// Information level of TRANS2.
        level: u16,
        /// Maximum number of entries.
        most: u32,
        /// Number of entries that were returned.
        entries: u32,
    },
    /// Pauses.
    Sleep {
        /// The duration.
        microseconds: u64,
    },
}

/// One line of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    /// Its line number in the file, from 1.
    pub number: u32,
    /// Its request.
    pub operation: Operation,
    /// The status that the server returned when it was recorded.
    pub status: Status,
}

impl Operation {
    /// Returns its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Operation::NtCreateX { .. } => Kind::NtCreateX,
            Operation::Close { .. } => Kind::Close,
            Operation::ReadX { .. } => Kind::ReadX,
            Operation::WriteX { .. } => Kind::WriteX,
            Operation::LockX { .. } => Kind::LockX,
            Operation::UnlockX { .. } => Kind::UnlockX,
            Operation::Flush { .. } => Kind::Flush,
            Operation::Rename { .. } => Kind::Rename,
            Operation::Unlink { .. } => Kind::Unlink,
            Operation::Mkdir { .. } => Kind::Mkdir,
            Operation::Rmdir { .. } => Kind::Rmdir,
            Operation::Deltree { .. } => Kind::Deltree,
            Operation::QueryPath { .. } => Kind::QueryPath,
            Operation::QueryFile { .. } => Kind::QueryFile,
            Operation::QueryFs { .. } => Kind::QueryFs,
            Operation::SetFile { .. } => Kind::SetFile,
            Operation::FindFirst { .. } => Kind::FindFirst,
            Operation::Sleep { .. } => Kind::Sleep,
        }
    }

    /// Returns the number of payload bytes that were read or written.
    pub fn bytes(&self) -> u64 {
        match self {
            Operation::ReadX { answered, .. } | Operation::WriteX { answered, .. } => u64::from(*answered),
            _ => 0,
        }
    }
}
