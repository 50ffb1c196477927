//! Which SMB 2 requests stand for the lines of a load: pure, so that two runs send the same.
//!
//! The run was recorded over SMB 1, where much was asked of names. SMB 2 asks almost everything of open files, and puts
//! several requests that belong together into one related compound ([MS-SMB2] 3.2.4.1.4), written `A + B` here. A second
//! message is written after a comma.
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
//! CLOSE travels alone where the request before it may be refused: a server may refuse with it all that follows in the
//! compound (3.3.5.2.7.2), and the file would stay open. So it is for `FIND_FIRST`, and for `Rename` and `Rmdir` of what
//! is there when the load expects them to be refused.
//!
//! What the load does not say is chosen thus:
//!
//! - Access: what is done with the handle until its `Close`. An open with `FILE_NON_DIRECTORY_FILE` asks at least for
//!   `FILE_GENERIC_READ`; one without any option for no data, for that is how attributes are set by name. Everything is
//!   shared with everybody, and no oplock is asked for.
//! - `SET_FILE_INFORMATION` sets the time of the last write, another one on every line, and `FILE_ATTRIBUTE_ARCHIVE`.
//!   Levels that set anything else are refused, because what they set is not recorded.
//! - What is written is pseudo-random, from the run's seed.
//! - A directory that all clients share, such as `\clients`, is there before the first line; `Mkdir` of it opens it.
//!
//! Statuses are the recorded ones but for these, which cannot be the same in SMB 2:
//!
//! | line, recorded status | in SMB 2 |
//! |---|---|
//! | `ReadX` answered with none of the bytes asked for, `NT_STATUS_OK` | `STATUS_END_OF_FILE` |
//! | `LockX`, `NT_STATUS_FILE_LOCK_CONFLICT` (the second time in SMB 1) | `STATUS_LOCK_NOT_GRANTED` |
//! | `FIND_FIRST` in a directory that is missing, `NT_STATUS_OBJECT_PATH_NOT_FOUND` | `STATUS_OBJECT_NAME_NOT_FOUND` if its parent is there |
//! | `Deltree` of what is not there, `NT_STATUS_OK` | `STATUS_OBJECT_NAME_NOT_FOUND` of the CREATE, or `..._PATH_...` |
//!
//! Information levels of TRANS2 become the classes that carry the same facts: see [`levels`].

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

/// Most bytes of the entries that QUERY_DIRECTORY answers.
pub const LISTING: u32 = 65_536;

/// A client's place for the id of an open file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Slot(pub u16);

/// One request. The file id is the chain's ([`Chain::slot`]) or, after a CREATE in the same chain, the related one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// CREATE with these fields, all sharing, impersonation and no oplock.
    Create {
        /// Which file; `None` is the share's root.
        path: Option<TextId>,
        /// `DesiredAccess`.
        access: AccessMask,
        /// `CreateDisposition`.
        disposition: CreateDisposition,
        /// `CreateOptions`.
        options: CreateOptions,
    },
    /// CLOSE without attributes in the answer.
    Close,
    /// FLUSH.
    Flush,
    /// READ.
    Read {
        /// From where on.
        offset: u64,
        /// Bytes.
        length: u32,
    },
    /// WRITE.
    Write {
        /// From where on.
        offset: u64,
        /// Bytes.
        length: u32,
    },
    /// LOCK with one range.
    Lock {
        /// From where on.
        offset: u64,
        /// Bytes.
        length: u64,
        /// To lock or to unlock.
        flags: LockFlags,
    },
    /// QUERY_INFO of the file.
    QueryFile {
        /// `FileInfoClass`.
        class: FileInformationClass,
        /// `OutputBufferLength`.
        room: u32,
    },
    /// QUERY_INFO of the file system.
    QueryFs {
        /// `FileInfoClass`.
        class: FsInformationClass,
        /// `OutputBufferLength`.
        room: u32,
    },
    /// QUERY_DIRECTORY with room for [`LISTING`] bytes.
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
        /// The time of the last write; the other times stay.
        written: u64,
        /// The attributes.
        attributes: u32,
    },
    /// SET_INFO with FileRenameInformation that replaces nothing.
    Rename {
        /// The new name.
        to: TextId,
    },
    /// SET_INFO with FileDispositionInformation: delete on close.
    Dispose,
}

/// What is checked of a success besides its status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Nothing.
    Any,
    /// READ or WRITE moved that many bytes.
    Bytes(u32),
    /// QUERY_DIRECTORY listed that many entries.
    Entries(u32),
}

/// Requests that go out as one message; more than one are a related compound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chain {
    /// Where its messages begin in the plan.
    first: u32,
    /// How many they are.
    length: u32,
    /// The open file that it works on; the first message is a CREATE when there is none.
    pub slot: Option<Slot>,
    /// Where the file that it opened is kept.
    pub keep: Option<Slot>,
    /// The status of the first message that fails, or success when none may.
    pub expect: Status,
    /// What the success answers.
    pub answer: Answer,
}

/// What a client does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Sends a chain and waits for its answers.
    Chain(Chain),
    /// Waits.
    Pause(Duration),
}

/// A part of what a line becomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// The line's number in the load file.
    pub line: u32,
    /// What the line does.
    pub kind: Kind,
    /// Whether the line is done with it.
    pub last: bool,
    /// What to do.
    pub action: Action,
}

/// A load as requests, the same for every client but for the names.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Plan {
    /// What to do, in order.
    pub steps: Vec<Step>,
    /// What to do after the last line, so that all is as before the first: closes of what the load leaves open, and
    /// deletions of what it leaves behind. Nothing for a whole recorded run, which cleans up itself.
    pub tail: Vec<Step>,
    /// The directories that all clients share, parents first; they are to be there before the first step.
    pub shared: Vec<TextId>,
    /// How many slots a client needs.
    pub slots: u16,
    /// The messages of all chains.
    messages: Vec<Message>,
    /// Paths, as in the load file, and patterns, which do not begin with a backslash.
    texts: Vec<String>,
}

/// What a plan sends.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Census {
    /// Requests of each command.
    pub requests: BTreeMap<Command, u64>,
    /// Messages on the wire, a compound being one.
    pub chains: u64,
    /// Bytes of the answers of READ.
    pub read: u64,
    /// Bytes of the requests of WRITE.
    pub written: u64,
}

impl Chain {
    /// A chain whose first message is a CREATE.
    fn opening(expect: Status) -> Chain {
        Chain { first: 0, length: 0, slot: None, keep: None, expect, answer: Answer::Any }
    }

    /// A chain on an open file.
    fn on(slot: Slot, expect: Status) -> Chain {
        Chain { slot: Some(slot), ..Chain::opening(expect) }
    }
}

impl Message {
    /// Its command.
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
    /// The messages of a chain of this plan.
    pub fn messages(&self, chain: &Chain) -> &[Message] {
        let first = chain.first as usize;
        self.messages.get(first..first + chain.length as usize).unwrap_or_default()
    }

    /// A path or a pattern as the load has it.
    pub fn text(&self, id: TextId) -> &str {
        self.texts.get(id.0 as usize).map_or("", String::as_str)
    }

    /// How many lines it has.
    pub fn lines(&self) -> u64 {
        self.steps.iter().filter(|step| step.last).count() as u64
    }

    /// The most bytes that a WRITE has.
    pub fn longest_write(&self) -> usize {
        let length = |message: &Message| if let Message::Write { length, .. } = message { *length as usize } else { 0 };
        self.messages.iter().map(length).max().unwrap_or(0)
    }

    /// What one pass over `steps`, this plan's or some of them, sends.
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
