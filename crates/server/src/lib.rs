//! Everything that the server decides, and nothing that touches the world.
//!
//! No sockets, no files, no clock, no runtime, no unsafe code: bytes come in as frames, the file system is the
//! [`vfs::Vfs`] trait, accounts are the [`accounts::Accounts`] trait, time and randomness come from [`world::World`].
//! That is what lets one test run a thousand clients against the real state machine in virtual time.
#![forbid(unsafe_code)]

pub mod accounts;
pub mod answer;
/// What all opens of one file share.
pub mod files {
    pub mod byte_lock;
}
pub mod name;
pub mod policy;
/// Who may do what with a file.
pub mod security {
    pub mod evaluate;
    pub mod posix;
    pub mod posix_acl;
}
pub mod status;
pub mod vfs;
pub mod world;
