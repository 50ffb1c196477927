//! The state of the server, its clients and their opens: the abstract data model of [MS-SMB2] 3.3.1.
//!
//! These objects refer to each other (a connection has channels, which have sessions, which have opens and
//! connections), so they are one module. What requests do with them is in [`crate::command`], and what happens without
//! a request is in [`crate::background`].

pub(crate) mod abandoned;
pub(crate) mod band_counts;
pub(crate) mod bins;
pub mod channel;
pub mod connection;
pub mod durable;
mod mac;
pub(crate) mod odx;
pub mod open;
mod server;
pub mod session;

pub(crate) use self::mac::Mac;
pub use self::server::{
    Connections, LogonDefence, Server, ServerParts, Sessions, SnapshotTables, TooMany, UsedFileSystem, VolumeId,
    VolumeState, Volumes, directories_overlap, wanted_xattrs,
};
pub(crate) use self::server::{JOB_PREFIX, SnapshotSearch};
