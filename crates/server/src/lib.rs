//! The server's logic, without I/O.
//!
//! No sockets, files, clock, async runtime or unsafe code: input arrives as frames, the file system is the [`vfs::Vfs`]
//! trait, user accounts are the four traits of [`accounts::Accounts`], and time and random numbers come from
//! [`environment::Environment`]. This lets one test run a thousand clients against the real state machine in virtual
//! time.
//!
//! The server's tables change in plain functions. Only commands, and the calls that they wait for, are `async`. A lock
//! on a table is not held across an `.await`. Asynchronous locks are those of one open, one stream or one file.
//!
//! - A request passes [`frame`], `dispatch` and one module of [`command`]. `request` has the request and its response,
//!   `information` and `attributes` what queries return, and [`rpc`] the named pipes. [`background`] is work that no
//!   request starts.
//! - [`state`] has connections, sessions, channels and opens, and [`files`] what the opens of a file share. [`tree`] is
//!   a share as one session uses it.
//! - [`vfs`] is the storage. [`streams`], `links`, `reparse`, [`name`] and `local` add what Windows clients need
//!   beyond it. `file_lock` is the lock of a file that is changed in several steps. [`acl`] and [`security`] check
//!   access.
//! - [`accounts`], [`domain`], [`restrictions`] and [`tickets`] are the traits for logons and users. `authentication`,
//!   `logon_attempts`, `logon_throttle`, `lockout` and `unauthenticated` are about logons before they succeed.
//! - [`printing`] is the trait for the print system of the host.
//! - [`policy`] is the configuration with its limits, and [`accounting`] counts what clients hold. [`status`] copies it
//!   for `frevo status`. [`audit`] records what clients do with files.
//!
//! `xtask/src/source/imports.rs` has the order in which modules may import each other.
#![forbid(unsafe_code)]

pub mod accounting;
pub mod accounts;
pub mod acl;
pub mod address_bucket;
pub mod answer;
mod attributes;
pub mod audit;
mod authentication;
pub mod background;
mod buffers;
pub mod command;
mod dispatch;
pub mod domain;
pub mod environment;
pub mod error;
mod file_lock;
pub mod files;
pub mod frame;
pub mod heap_size;
mod information;
pub mod interfaces;
mod links;
mod local;
mod lockout;
mod logon_attempts;
mod logon_throttle;
pub mod metrics;
pub mod name;
pub mod named_pipe;
mod number_hash;
pub mod per_processor;
pub mod policy;
pub mod printing;
mod reparse;
mod request;
pub mod restrictions;
pub mod rpc;
pub mod security;
pub mod state;
pub mod status;
pub mod streams;
#[cfg(any(test, feature = "contract"))]
pub mod testing;
pub mod tickets;
#[cfg(feature = "torture")]
mod torture;
pub mod tree;
mod unauthenticated;
pub mod user;
mod user_lists;
pub mod vfs;
mod yielding;
