//! E11 and E12: what access control lists cost (Hitachi and Osaka University, *Concurrent use of POSIX ACL and rich ACL*,
//! 2011). Files get POSIX ACLs behind the server's back, as a file system has that was in use before.

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

/// What is measured of them.
#[derive(Subcommand, Debug)]
pub enum Acl {
    /// The time of an access check, converting a POSIX ACL and with a stored Windows ACL (E11)
    Check(Asked<check::Options>),
    /// Throughput under a file server's mix of operations, on files with ACLs against files without (E12)
    Mix(Asked<mix::Options>),
    /// The server's memory while more and more files with long ACLs are accessed (E12)
    Memory(Asked<memory::Options>),
}

impl Acl {
    /// What is common to all experiments.
    pub fn common(&self) -> &Common {
        match self {
            Acl::Check(asked) => &asked.common,
            Acl::Mix(asked) => &asked.common,
            Acl::Memory(asked) => &asked.common,
        }
    }
}
