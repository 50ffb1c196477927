//! The print system of the host, for [`server::printing`].
//!
//! - `system` answers the server: from a cache, by CUPS, or by commands, as the share's `printing` says. Its work runs
//!   on the runtime on which it was created, so a job is handed over although its client has gone.
//! - `cups` has the operations of IPP (RFC 8011) over HTTP on a UNIX socket or TCP.
//! - `commands` has those of `print command` and the like. They are executed by a process of its own, [`Helper`], which
//!   is forked before the server gives up privileges, because the server cannot execute programs. That process executes
//!   only the commands that the configuration had then.
//! - `printcap` reads `/etc/printcap`.
//! - `cache` shares the answers of questions, `turns` limits what is done at a time, of each user and of all, and
//!   `reports` logs changes of state.
//!
//! Unsafe code is confined to `process`.
#![deny(unsafe_code)]

mod cache;
mod commands;
mod cups;
mod helper;
mod listing;
mod message;
mod printcap;
#[allow(unsafe_code)]
mod process;
mod queue_commands;
mod reports;
mod system;
mod turns;

use std::path::PathBuf;
use std::time::Duration;

pub use self::cups::Address;
pub use self::helper::Helper;
pub use self::system::Printing;

/// The settings of the print system. Fields are named after their smb.conf parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// `cups server`.
    pub cups_server: Address,
    /// `cups connection timeout`: how long CUPS may take to take over a job; 0 means as long as by default.
    pub cups_connection_timeout: Duration,
    /// `lpq cache time`: how long the list of jobs is assumed to be unchanged.
    pub lpq_cache_time: Duration,
    /// `printcap name`: where the queues are listed.
    pub printcap_name: Printcap,
    /// `printcap cache time`: how long the list of queues is assumed to be unchanged.
    pub printcap_cache_time: Duration,
}

/// Where the queues of the host are listed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Printcap {
    /// CUPS has the list.
    Cups,
    /// A file in the format of `/etc/printcap`.
    File(PathBuf),
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            cups_server: Address::default(),
            cups_connection_timeout: Duration::from_secs(30),
            lpq_cache_time: Duration::from_secs(30),
            printcap_name: Printcap::Cups,
            printcap_cache_time: Duration::from_secs(750),
        }
    }
}
