//! One line of a load, read: what was asked for and what was answered. How it is written is in [`super::load`].

use proto::smb2::create::{CreateDisposition, CreateOptions};
use proto::status::Status;

use super::kind::Kind;

/// Index into [`Load::texts`](super::load::Load::texts): a path or a pattern.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct TextId(pub u32);

/// The number by which the load calls an open file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Handle(pub u32);

/// What one line asks for. The names are the load file's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Opens or creates a file or directory.
    NtCreateX {
        /// Which.
        path: TextId,
        /// How to open.
        options: CreateOptions,
        /// What when it is there, and when it is not.
        disposition: CreateDisposition,
        /// What it is called from now on, when it succeeds.
        handle: Handle,
    },
    /// Closes it.
    Close {
        /// Which.
        handle: Handle,
    },
    /// Reads.
    ReadX {
        /// From what.
        handle: Handle,
        /// From where on.
        offset: u64,
        /// How many bytes at most.
        length: u32,
        /// How many there were.
        answered: u32,
    },
    /// Writes.
    WriteX {
        /// To what.
        handle: Handle,
        /// From where on.
        offset: u64,
        /// How many bytes.
        length: u32,
        /// How many were written.
        answered: u32,
    },
    /// Locks a range for this handle alone.
    LockX {
        /// Of what.
        handle: Handle,
        /// From where on.
        offset: u64,
        /// How many bytes.
        length: u64,
    },
    /// Unlocks it.
    UnlockX {
        /// Of what.
        handle: Handle,
        /// From where on.
        offset: u64,
        /// How many bytes.
        length: u64,
    },
    /// Brings what was written to the disk.
    Flush {
        /// Of what.
        handle: Handle,
    },
    /// Renames; fails when the new name is there.
    Rename {
        /// The name that it has.
        from: TextId,
        /// The name that it gets.
        to: TextId,
    },
    /// Deletes a file.
    Unlink {
        /// Which.
        path: TextId,
        /// Search attributes of SMB 1.
        attributes: u32,
    },
    /// Makes a directory.
    Mkdir {
        /// Which.
        path: TextId,
    },
    /// Deletes an empty directory.
    Rmdir {
        /// Which.
        path: TextId,
    },
    /// Deletes a directory and all below it; fine when it is not there.
    Deltree {
        /// Which.
        path: TextId,
    },
    /// What is known of a name.
    QueryPath {
        /// Which.
        path: TextId,
        /// Information level of TRANS2.
        level: u16,
    },
    /// What is known of an open file.
    QueryFile {
        /// Which.
        handle: Handle,
        /// Information level of TRANS2.
        level: u16,
    },
    /// What is known of the file system.
    QueryFs {
        /// Information level of TRANS2.
        level: u16,
    },
    /// Sets what is known of an open file. What it is set to is not recorded.
    SetFile {
        /// Which.
        handle: Handle,
        /// Information level of TRANS2.
        level: u16,
    },
    /// Lists what matches a pattern.
    FindFirst {
        /// A directory and a pattern.
        pattern: TextId,
        /// Information level of TRANS2.
        level: u16,
        /// Entries asked for at most.
        most: u32,
        /// Entries answered.
        entries: u32,
    },
    /// Waits.
    Sleep {
        /// How long.
        microseconds: u64,
    },
}

/// One line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    /// Its number in the file, from 1.
    pub number: u32,
    /// What it asks for.
    pub operation: Operation,
    /// What the server answered when it was recorded.
    pub status: Status,
}

impl Operation {
    /// Of what kind it is.
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

    /// Bytes of payload that were read or written.
    pub fn bytes(&self) -> u64 {
        match self {
            Operation::ReadX { answered, .. } | Operation::WriteX { answered, .. } => u64::from(*answered),
            _ => 0,
        }
    }
}
