//! Translates the lines of a load to SMB 2 requests. The translation has no side effects, so two runs send the same
//! requests.
//!
//! The run was recorded over SMB 1, where many requests take a name. In SMB 2 almost all requests take an open file,
//! and several requests that belong together are sent as one related compound ([MS-SMB2] 3.2.4.1.4), written `A + B`
//! here. A comma separates messages.
//!
//! | line | requests |
//! |---|---|
//! | `NTCreateX` | CREATE |
//! | `Close`, `Flush`, `ReadX`, `WriteX` | CLOSE, FLUSH, READ, WRITE |
//! | `LockX`, `UnlockX` | LOCK: exclusive and failing at once; unlocking |
//! | `QUERY_FILE_INFORMATION` | QUERY_INFO |
//! | `SET_FILE_INFORMATION` | SET_INFO |
//! | `QUERY_PATH_INFORMATION` | CREATE + QUERY_INFO + CLOSE |
//! | `QUERY_FS_INFORMATION` | CREATE of the share's root + QUERY_INFO + CLOSE |
//! | `FIND_FIRST` | CREATE + QUERY_DIRECTORY, CLOSE |
//! | `Unlink` | CREATE for deletion on close + CLOSE |
//! | `Rename` | CREATE + SET_INFO of the name + CLOSE |
//! | `Rmdir` | CREATE + SET_INFO of the disposition + CLOSE |
//! | `Mkdir` | CREATE + CLOSE |
//! | `Deltree` | for each directory CREATE + QUERY_DIRECTORY, CLOSE; for each entry, deepest first, as for `Unlink` |
//! | `Sleep` | none |
//!
//! CLOSE is sent separately if the request before it may fail: a server may then also fail the rest of the compound
//! (3.3.5.2.7.2), and the file would stay open. This applies to `FIND_FIRST`, and to `Rename` and `Rmdir` of an
//! existing name if the load expects them to fail.
//!
//! The following values are not in the load and are chosen here:
//!
//! - Access: the rights needed for the operations on the handle until its `Close`. An open with
//!   `FILE_NON_DIRECTORY_FILE` requests at least `FILE_GENERIC_READ`. An open without options requests no data access,
//!   because clients set attributes by name in this way. The share mode allows everything, and no oplock is requested.
//! - `SET_FILE_INFORMATION` sets the last write time, to a different value on every line, and `FILE_ATTRIBUTE_ARCHIVE`.
//!   Levels that set anything else are rejected, because their values are not recorded.
//! - Written data is pseudo-random, from the run's seed.
//! - A directory that all clients share, such as `\clients`, exists before the first line. `Mkdir` of it opens it.
//!
//! Statuses are as recorded, except for these, which cannot be the same in SMB 2:
//!
//! | line, recorded status | in SMB 2 |
//! |---|---|
//! | `ReadX` that returned no bytes, `NT_STATUS_OK` | `STATUS_END_OF_FILE` |
//! | `LockX`, `NT_STATUS_FILE_LOCK_CONFLICT` (the second time in SMB 1) | `STATUS_LOCK_NOT_GRANTED` |
//! | `FIND_FIRST` in a missing directory whose parent exists, `..._PATH_NOT_FOUND` | `STATUS_OBJECT_NAME_NOT_FOUND` |
//! | `Deltree` of a missing path, `NT_STATUS_OK` | `STATUS_OBJECT_NAME_NOT_FOUND` of the CREATE, or `..._PATH_...` |
//!
//! Information levels of TRANS2 become the classes with the same data: see [`levels`].

mod access;
mod compile;
pub mod levels;
mod names;
mod tree;

use std::collections::BTreeMap;
use std::time::Duration;

use proto::dtyp::AccessMask;
use proto::fscc::{FileInformationClass, FsInformationClass};
use proto::smb2::create::{CreateDisposition, CreateOptions};
use proto::smb2::header::Command;
use proto::smb2::lock::LockFlags;
use proto::smb2::query_directory::QueryDirectoryFlags;
use proto::status::Status;

use super::kind::Kind;
use super::load::TextId;

pub use names::Names;

/// Maximum number of bytes of entries in a QUERY_DIRECTORY response.
pub const LISTING: u32 = 65_536;

/// A client's slot for the id of an open file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Slot(pub u16);

/// One request. Its file id is that of [`Chain::slot`], or the related one after a CREATE in the same chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// CREATE with these fields, full sharing, impersonation, and no oplock.
    Create {
        /// The path; `None` is the share's root.
        path: Option<TextId>,
        /// `DesiredAccess`.
        access: AccessMask,
        /// `CreateDisposition`.
        disposition: CreateDisposition,
        /// `CreateOptions`.
        options: CreateOptions,
    },
    /// CLOSE that requests no attributes.
    Close,
    /// FLUSH.
    Flush,
    /// READ.
    Read {
        /// Offset.
        offset: u64,
        /// Length in bytes.
        length: u32,
    },
    /// WRITE.
    Write {
        /// Offset.
        offset: u64,
        /// Length in bytes.
        length: u32,
    },
    /// LOCK with one range.
    Lock {
        /// Offset.
        offset: u64,
        /// Length in bytes.
        length: u64,
        /// Flags that select locking or unlocking.
        flags: LockFlags,
    },
    /// QUERY_INFO of the file.
    QueryFile {
        /// `FileInfoClass`.
        class: FileInformationClass,
        /// `OutputBufferLength`.
        space: u32,
    },
    /// QUERY_INFO of the file system.
    QueryFs {
        /// `FileInfoClass`.
        class: FsInformationClass,
        /// `OutputBufferLength`.
        space: u32,
    },
    /// QUERY_DIRECTORY with an output buffer of [`LISTING`] bytes.
    QueryDirectory {
        /// `FileInformationClass`.
        class: FileInformationClass,
        /// `Flags`.
        flags: QueryDirectoryFlags,
        /// The search pattern.
        pattern: TextId,
    },
    /// SET_INFO with FileBasicInformation.
    SetBasic {
        /// The last write time. The other times are not changed.
        written: u64,
        /// The attributes.
        attributes: u32,
    },
    /// SET_INFO with FileRenameInformation, without replacing an existing file.
    Rename {
        /// The new name.
        to: TextId,
    },
    /// SET_INFO with FileDispositionInformation: delete on close.
    Dispose,
}

/// The check of a successful answer, in addition to its status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// No check.
    Any,
    /// READ or WRITE moved this many bytes.
    Bytes(u32),
    /// QUERY_DIRECTORY listed this many entries.
    Entries(u32),
}

/// Requests that are sent as one message. Several requests form a related compound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chain {
    /// Index of its first message in the plan.
    first: u32,
    /// Number of its messages.
    length: u32,
    /// The open file that it works on. `None` if the first message is a CREATE.
    pub slot: Option<Slot>,
    /// The slot for the file that it opened.
    pub keep: Option<Slot>,
    /// The status of the first message that fails, or success if none may fail.
    pub expect: Status,
    /// The check of a successful answer.
    pub answer: Answer,
}

/// The next action of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Sends a chain and waits for its responses.
    Chain(Chain),
    /// Waits.
    Pause(Duration),
}

/// A part of the translation of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// The line's number in the load file.
    pub line: u32,
    /// The kind of the line's operation.
    pub kind: Kind,
    /// Whether it is the last step of the line.
    pub last: bool,
    /// The action.
    pub action: Action,
}

/// A load translated to requests. Only the names differ between clients.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Plan {
    /// The actions, in order.
    pub steps: Vec<Step>,
    /// The actions after the last line that restore the initial state: they close files that the load leaves open, and
    /// delete files that it leaves behind. Empty for a complete recorded run, which cleans up itself.
    pub tail: Vec<Step>,
    /// The directories that all clients share, parents first. They must exist before the first step.
    pub shared: Vec<TextId>,
    /// Number of slots that a client needs.
    pub slots: u16,
    /// The messages of all chains.
    messages: Vec<Message>,
    /// Paths as in the load file, and patterns, which do not begin with a backslash.
    texts: Vec<String>,
}

/// The totals of what a plan sends.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Census {
    /// Number of requests of each command.
    pub requests: BTreeMap<Command, u64>,
    /// Number of messages on the wire. A compound is one message.
    pub chains: u64,
    /// Bytes in READ responses.
    pub read: u64,
    /// Bytes in WRITE requests.
    pub written: u64,
}

impl Chain {
    /// Creates a chain whose first message is a CREATE.
    fn opening(expect: Status) -> Chain {
        Chain { first: 0, length: 0, slot: None, keep: None, expect, answer: Answer::Any }
    }

    /// Creates a chain on an open file.
    fn on(slot: Slot, expect: Status) -> Chain {
        Chain { slot: Some(slot), ..Chain::opening(expect) }
    }
}

impl Message {
    /// Returns its command.
    pub fn command(&self) -> Command {
        match self {
            Message::Create { .. } => Command::CREATE,
            Message::Close => Command::CLOSE,
            Message::Flush => Command::FLUSH,
            Message::Read { .. } => Command::READ,
            Message::Write { .. } => Command::WRITE,
            Message::Lock { .. } => Command::LOCK,
            Message::QueryFile { .. } | Message::QueryFs { .. } => Command::QUERY_INFO,
            Message::QueryDirectory { .. } => Command::QUERY_DIRECTORY,
            Message::SetBasic { .. } | Message::Rename { .. } | Message::Dispose => Command::SET_INFO,
        }
    }
}

impl Plan {
    /// Returns the messages of a chain of this plan.
    pub fn messages(&self, chain: &Chain) -> &[Message] {
        let first = chain.first as usize;
        self.messages.get(first..first + chain.length as usize).unwrap_or_default()
    }

    /// Returns a path or a pattern as in the load.
    pub fn text(&self, id: TextId) -> &str {
        self.texts.get(id.0 as usize).map_or("", String::as_str)
    }

    /// Returns the number of lines.
    pub fn lines(&self) -> u64 {
        self.steps.iter().filter(|step| step.last).count() as u64
    }

    /// Returns the largest number of bytes in a WRITE.
    pub fn longest_write(&self) -> usize {
        let length = |message: &Message| if let Message::Write { length, .. } = message { *length as usize } else { 0 };
        self.messages.iter().map(length).max().unwrap_or(0)
    }

    /// Returns the totals of one pass over `steps`, which are all or some of this plan's.
    pub fn census(&self, steps: &[Step]) -> Census {
        let mut census = Census::default();
        for step in steps {
            let Action::Chain(chain) = &step.action else { continue };
            census.chains += 1;
            for message in self.messages(chain) {
                *census.requests.entry(message.command()).or_default() += 1;
                match (message, chain.answer) {
                    (Message::Write { length, .. }, _) => census.written += u64::from(*length),
                    (Message::Read { .. }, Answer::Bytes(bytes)) => census.read += u64::from(bytes),
                    _ => {}
                }
            }
        }
        census
    }
}

#[cfg(test)]
mod tests;
