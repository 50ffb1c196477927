//! E11 and E12: the cost of access control lists (Hitachi and Osaka University, *Concurrent use of POSIX ACL and rich
//! ACL*, 2011). Files get POSIX ACLs behind the server's back, as on a file system that was in use before.

mod cells;
pub mod check;
mod grid;
mod ground;
mod losses;
pub mod memory;
pub mod mix;
mod operations;
mod posix;
mod security;
mod sets;
mod steps;
mod threes;

use clap::Subcommand;

use super::Asked;
use crate::cli::Common;

/// The experiments on ACLs.
#[derive(Subcommand, Debug)]
pub enum Acl {
    /// Time of an access check with conversion of a POSIX ACL, and with a stored Windows ACL (E11)
    Check(Asked<check::Options>),
    /// Throughput under a file server's mix of operations, on files with and without ACLs (E12)
    Mix(Asked<mix::Options>),
    /// The server's memory while more and more files with long ACLs are accessed (E12)
    Memory(Asked<memory::Options>),
}

impl Acl {
    /// Returns the common options.
    pub fn common(&self) -> &Common {
        match self {
            Acl::Check(asked) => &asked.common,
            Acl::Mix(asked) => &asked.common,
            Acl::Memory(asked) => &asked.common,
        }
    }
}
