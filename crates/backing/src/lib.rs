//! What the storage back ends behind [`server::vfs::Vfs`] share.
//!
//! A back end makes the calls of its storage itself. This crate does no I/O, except that it starts threads and reads
//! the clock.
//!
//! - [`workers`] are the threads that make calls that may wait, shared fairly between users. [`executor`] decides
//!   whether a call is made by one of them or on the calling thread. [`deadlines`] are the time limits of calls, and
//!   [`completion`] is for calls that a library of the storage makes itself.
//! - [`metadata`] builds the metadata of a file from what the storage reports and `user.DOSATTRIB`.
//!   [`attribute_table`] caches the DOS attributes of many files, and
//!   [`attribute_locks`] are taken to change them. [`recent_metadata`] is what was read within the last second.
//! - [`behind`] is work that is done beside the next requests of a client.
//! - [`clock`] decides when a change time distinguishes all later changes.
//! - [`name_index`] finds names whatever their case.
//! - [`walk`] resolves paths by component, with the directories in a [`directory_cache`]. [`permissions`] are evaluated
//!   there. [`read_ahead`] prepares the next page of a listing. A [`change_log`] has the changes that end what is
//!   cached, and [`moments`] tell whether something was read before a change.
//! - [`recent_paths`] and [`predictor`] are predictions that save calls. [`hits`] counts how often a cache helps.
#![forbid(unsafe_code)]

pub mod attribute_locks;
pub mod attribute_table;
pub mod behind;
pub mod change_log;
pub mod clock;
pub mod completion;
pub mod deadlines;
pub mod directory_cache;
pub mod executor;
pub mod hits;
pub mod metadata;
pub mod moments;
pub mod name_index;
pub mod permissions;
pub mod predictor;
pub mod read_ahead;
pub mod recent_metadata;
pub mod recent_paths;
pub mod walk;
pub mod workers;

/// Whether a call may wait for the storage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// It may not: `Errno::AGAIN` if it would.
    Never,
    /// It may, because the caller is a worker thread.
    Allowed,
}
