//! The commands, each in a file or folder of its name: decode, look up, check, call the file system, respond ([MS-SMB2]
//! 3.3.5).

pub(crate) mod audit;
pub(crate) mod audit_room;
pub(crate) mod cancel;
pub(crate) mod change_notify;
pub(crate) mod close;
mod convert;
pub(crate) mod create;
pub(crate) mod directory_lease;
mod document;
pub(crate) mod echo;
mod file_security;
pub(crate) mod flush;
pub(crate) mod forced_close;
pub(crate) mod ioctl;
pub(crate) mod lock;
pub(crate) mod logoff;
mod logon_audit;
pub(crate) mod negotiate;
pub(crate) mod oplock_break;
mod pipe_caller;
pub(crate) mod print;
pub mod query_directory;
pub(crate) mod query_info;
pub(crate) mod read;
pub(crate) mod recycle;
pub(crate) mod rename;
mod rename_stream;
mod session_binding;
pub mod session_setup;
pub(crate) mod session_variables;
pub(crate) mod set_info;
pub mod snapshots;
pub(crate) mod tree_connect;
pub(crate) mod tree_disconnect;
mod vetoed;
pub(crate) mod write;
