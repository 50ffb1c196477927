//! `frevo bench netbench`: a recorded NetBench run, replayed by any number of clients.
//!
//! [`load`] reads the recorded run, [`plan`] says which SMB 2 requests stand for it.

pub mod kind;
pub mod load;
mod operation;
pub mod plan;
