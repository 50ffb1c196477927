//! What a server's processes on this machine spend: processor time, context switches, memory, descriptors, system calls.
//!
//! Only what Linux tells in `/proc` and by process clocks is used (proc(5), clock_getcpuclockid(3)), and strace for system
//! calls. A server is its named processes and all their descendants, whoever they are at the moment of a reading.

use std::collections::HashMap;
use std::io;
use std::sync::Mutex;

use anyhow::{Context, Result, ensure};

use crate::record::Cost;
use ledger::{Ledger, Seen, Spent};
use proc::{Id, Stat};
pub use syscalls::Syscalls;

mod ledger;
mod listener;
pub(crate) mod proc;
mod syscalls;
#[cfg(test)]
mod tests;

/// The processes of a server: those that were named or found, and all their descendants; never the tool itself.
pub struct Processes {
    roots: Vec<Id>,
    pids: Vec<u32>,
    ledger: Mutex<Ledger>,
}

/// What the processes had spent at one moment since they began, and what they held then.
#[derive(Clone, Debug)]
pub struct Reading {
    spent: Spent,
    read: Option<u64>,
    private: u64,
    proportional: u64,
    descriptors: u64,
    processes: u64,
}

/// A process of the server, with its parent if that belongs to it too.
type Member = (Stat, Option<Id>);

impl Processes {
    /// These processes and their descendants.
    ///
    /// # Errors
    ///
    /// One of them is not there, or is the tool itself.
    pub fn of_pids(pids: &[u32]) -> Result<Processes> {
        let mut roots = Vec::with_capacity(pids.len());
        for pid in pids {
            ensure!(*pid != std::process::id(), "process {pid} is this program, which is not a server to measure");
            let stat = proc::stat(*pid).with_context(|| format!("cannot read process {pid} in /proc"))?;
            roots.push(stat.with_context(|| format!("there is no process {pid} on this machine"))?.id);
        }
        Ok(Processes { roots, pids: pids.to_vec(), ledger: Mutex::default() })
    }

    /// The processes that listen on a TCP port of this machine, in the network namespace of the tool; `None` when no
    /// process does, and when the kernel itself or the tool itself does. Of a process that listens and descendants of it
    /// that hold the same socket, it is the process. Process 1 counts only when it listens alone: otherwise it keeps the
    /// socket for the others.
    ///
    /// # Errors
    ///
    /// Somebody listens, but the descriptors of other users' processes cannot be read.
    pub fn listening_on(port: u16) -> Result<Option<Processes>> {
        let pids = listener::pids(port)?;
        if pids.is_empty() { Ok(None) } else { Processes::of_pids(&pids).map(Some) }
    }

    /// The processes that were named or found, without their descendants.
    pub fn pids(&self) -> &[u32] {
        &self.pids
    }

    /// All processes of the server that are there now.
    ///
    /// # Errors
    ///
    /// `/proc` cannot be read.
    pub fn all(&self) -> Result<Vec<u32>> {
        let ledger = self.ledger.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let members = self.members(&ledger).context("cannot read /proc")?;
        Ok(members.iter().map(|(stat, _)| stat.id.pid).collect())
    }

    /// What the processes have spent so far, and what they hold now.
    ///
    /// # Errors
    ///
    /// The memory or the descriptors of a process may not be read: it is another user's.
    pub fn read(&self) -> Result<Reading> {
        let (mut reading, members) = self.spent()?;
        for (stat, _) in &members {
            let pid = stat.id.pid;
            if let Some(memory) = proc::memory(pid).map_err(|error| unreadable(pid, "memory", error))? {
                reading.private += memory.private;
                reading.proportional += memory.proportional;
            }
            reading.descriptors += descriptors(pid)?;
        }
        Ok(reading)
    }

    /// As [`Processes::read`] without memory and descriptors, which take the kernel long with thousands of processes: good
    /// as the earlier one of two readings, of which nothing that is held counts.
    ///
    /// # Errors
    ///
    /// `/proc` cannot be read.
    pub fn read_cpu(&self) -> Result<Reading> {
        Ok(self.spent()?.0)
    }

    /// How many descriptors the processes have open: a small part of what [`Processes::read`] does, for those who wait.
    ///
    /// # Errors
    ///
    /// The descriptors of a process may not be read: it is another user's.
    pub fn descriptors(&self) -> Result<u64> {
        let mut sum = 0;
        for pid in self.all()? {
            sum += descriptors(pid)?;
        }
        Ok(sum)
    }

    fn spent(&self) -> Result<(Reading, Vec<Member>)> {
        let mut ledger = self.ledger.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let members = self.members(&ledger).context("cannot read /proc")?;
        let mut seen = Vec::with_capacity(members.len());
        // First the clocks, close together; what a parent waited for has been read already, as `Seen` demands.
        for (stat, parent) in &members {
            let pid = stat.id.pid;
            if let Some(cpu) = proc::cpu(pid).map_err(|error| unreadable(pid, "processor time", error))? {
                let reaped = Spent { cpu: stat.reaped, system: stat.reaped_system, switches: 0 };
                let parent = *parent;
                seen.push(Seen { id: stat.id, parent, cpu, system: stat.system, switches: Default::default(), reaped });
            }
        }
        for (seen, stat) in seen.iter_mut().zip(members.iter().map(|(stat, _)| stat)) {
            seen.switches = proc::switches(stat).map_err(|error| unreadable(stat.id.pid, "context switches", error))?;
        }
        let processes = seen.len() as u64;
        let spent = ledger.update(seen);
        // What a process read that ended is its parent's as soon as that has waited for it.
        let read = members.iter().map(|(stat, _)| proc::read_bytes(stat.id.pid)).sum();
        Ok((Reading { spent, read, private: 0, proportional: 0, descriptors: 0, processes }, members))
    }

    /// Who belongs to the server now. Who belonged to it once stays, even when its
    /// parent ends and it is given another one.
    fn members(&self, ledger: &Ledger) -> io::Result<Vec<Member>> {
        let stats = proc::all()?;
        let own = std::process::id();
        let mut children: HashMap<u32, Vec<&Stat>> = HashMap::new();
        stats.iter().for_each(|stat| children.entry(stat.parent).or_default().push(stat));
        let mut found: HashMap<u32, Id> = HashMap::new();
        let mut waiting: Vec<&Stat> =
            stats.iter().filter(|stat| self.roots.contains(&stat.id) || ledger.knows(&stat.id)).collect();
        while let Some(stat) = waiting.pop() {
            let pid = stat.id.pid;
            // What the tool starts is not the server's either.
            if pid != own && found.insert(pid, stat.id).is_none() {
                waiting.extend(children.get(&pid).into_iter().flatten());
            }
        }
        let members = stats.iter().filter(|stat| found.contains_key(&stat.id.pid));
        Ok(members.map(|stat| (*stat, found.get(&stat.parent).copied())).collect())
    }
}

impl Reading {
    /// Memory that is the processes' own: private pages, clean and dirty, and private huge pages; bytes.
    pub fn private(&self) -> u64 {
        self.private
    }

    /// Memory with shared pages divided by those who share them, bytes.
    pub fn proportional(&self) -> u64 {
        self.proportional
    }

    /// Open descriptors.
    pub fn descriptors(&self) -> u64 {
        self.descriptors
    }

    /// Processes.
    pub fn processes(&self) -> u64 {
        self.processes
    }

    /// What was spent since an earlier reading of the same [`Processes`], and what is held at this one. Context switches
    /// of processes that ended are counted up to the reading that last saw them.
    pub fn since(&self, earlier: &Reading) -> Cost {
        let Spent { cpu, system, switches } = self.spent.since(earlier.spent);
        Cost {
            cpu: seconds(cpu),
            // Known to the clock tick only, so it may run ahead.
            system: seconds(system.min(cpu)),
            switches,
            read: self.read.zip(earlier.read).map(|(now, then)| now.saturating_sub(then)),
            calls: None,
            private: self.private,
            proportional: self.proportional,
            descriptors: self.descriptors,
            processes: self.processes,
        }
    }
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

fn descriptors(pid: u32) -> Result<u64> {
    let descriptors = proc::descriptors(pid).map_err(|error| unreadable(pid, "descriptors", error))?;
    Ok(descriptors.unwrap_or_default())
}

fn unreadable(pid: u32, what: &str, error: io::Error) -> anyhow::Error {
    let denied = error.kind() == io::ErrorKind::PermissionDenied;
    let error = anyhow::Error::new(error).context(format!("cannot read the {what} of {}", proc::title(pid)));
    if denied { error.context("run as root, or as the user whose server is measured") } else { error }
}
