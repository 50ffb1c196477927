//! The structures of [MS-FSCC] that SMB 2 carries: information about files, directory entries and file systems, and the
//! buffers of file system controls. FSCTL codes are defined with the IOCTL request.
//!
//! Names are the UTF-16LE bytes of the wire and are interpreted elsewhere. Not implemented: classes that never appear
//! on the wire of SMB 2 (mailslots, SFIO, tracking).

mod attributes;
mod chain;
mod class;
mod control;
mod directory;
mod ea;
mod field;
mod file;
mod name;
mod notify;
mod offload;
mod pipe;
mod posix;
mod quota;
mod reparse;
mod stream;
mod volume;

pub use attributes::{FileAttributes, ReparseTag};
pub use chain::{Entries, EntryChain};
pub use class::{FileInformationClass, FsInformationClass};
pub use control::*;
pub use directory::{DirectoryClass, DirectoryEntry, MacAttributes, ShortName};
pub use ea::{EA_ALIGNMENT, EaFlags, FileFullEaInformation, FileGetEaInformation};
pub use file::*;
pub use name::*;
pub use notify::{FileAction, FileNotifyInformation};
pub use offload::*;
pub use pipe::*;
pub use posix::*;
pub use quota::{FileGetQuotaInformation, FileQuotaInformation};
pub use reparse::{ReparseDataBuffer, SymbolicLinkReparseData};
pub use stream::FileStreamInformation;
pub use volume::*;
