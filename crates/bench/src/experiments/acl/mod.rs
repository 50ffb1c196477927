//! E11 and E12: what access control lists cost (Hitachi and Osaka University, *Concurrent use of POSIX ACL and rich ACL*,
//! 2011). Files get POSIX ACLs behind the server's back, as a file system has that was in use before.

pub mod check;
mod ground;
mod losses;
pub mod mix;
mod operations;
mod posix;
mod security;
mod sets;
mod steps;

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
}

impl Acl {
    /// What is common to all experiments.
    pub fn common(&self) -> &Common {
        match self {
            Acl::Check(asked) => &asked.common,
            Acl::Mix(asked) => &asked.common,
        }
    }
}
