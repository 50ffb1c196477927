//! What a server's processes on this machine spend.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::record::Cost;

/// The processes of a server.
pub struct Processes {
    pids: Vec<u32>,
}

/// What they had spent at one moment.
pub struct Reading;

/// Counts system calls.
pub struct Syscalls;

impl Processes {
    /// These processes and their descendants.
    pub fn of_pids(pids: &[u32]) -> Result<Processes> {
        Ok(Processes { pids: pids.to_vec() })
    }

    /// Those that listen on a port.
    pub fn listening_on(_port: u16) -> Result<Option<Processes>> {
        Ok(None)
    }

    /// The processes that were named or found.
    pub fn pids(&self) -> &[u32] {
        &self.pids
    }

    /// What they have spent.
    pub fn read(&self) -> Result<Reading> {
        Ok(Reading)
    }
}

impl Reading {
    /// Memory that is the processes' own, bytes.
    pub fn private(&self) -> u64 {
        0
    }

    /// Memory with shared pages divided, bytes.
    pub fn proportional(&self) -> u64 {
        0
    }

    /// Open descriptors.
    pub fn descriptors(&self) -> u64 {
        0
    }

    /// Processes.
    pub fn processes(&self) -> u64 {
        0
    }

    /// What was spent since an earlier reading.
    pub fn since(&self, _earlier: &Reading) -> Cost {
        Cost::default()
    }
}

impl Syscalls {
    /// Begins to count.
    pub fn attach(_processes: &Processes) -> Result<Syscalls> {
        Ok(Syscalls)
    }

    /// What was counted.
    pub fn finish(self) -> Result<BTreeMap<String, u64>> {
        Ok(BTreeMap::new())
    }
}
