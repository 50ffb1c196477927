//! Measures the resources that a server's processes on this machine use: processor time, context switches, memory,
//! descriptors, system calls.
//!
//! The sources are `/proc`, process clocks (proc(5), clock_getcpuclockid(3)), and strace for system calls. A server
//! consists of its named processes and all their descendants at the moment of a reading.

use std::collections::HashMap;
use std::io;
use std::sync::Mutex;

use anyhow::{Context, Result, ensure};
use report::record::Cost;

use ledger::{Ledger, ProcessState, Spent};
use proc::{Id, Stat};
pub use syscalls::Syscalls;

mod ledger;
mod listener;
pub(crate) mod proc;
mod syscalls;
#[cfg(test)]
mod tests;

/// The processes of a server: those that were named or found, with all their descendants, but never the tool itself.
pub struct Processes {
    roots: Vec<Id>,
    pids: Vec<u32>,
    ledger: Mutex<Ledger>,
}

/// The resources that the processes have used since they began, and what they hold, at one moment.
#[derive(Clone, Debug)]
pub struct Reading {
    spent: Spent,
    read: Option<u64>,
    private: u64,
    proportional: u64,
    descriptors: u64,
    processes: u64,
}

/// A process of the server, with its parent if the parent belongs to the server too.
type Member = (Stat, Option<Id>);

impl Processes {
    /// Returns the server with these processes and their descendants.
    ///
    /// # Errors
    ///
    /// One of them does not exist, or is the tool itself.
    pub fn of_pids(pids: &[u32]) -> Result<Processes> {
        let mut roots = Vec::with_capacity(pids.len());
        for pid in pids {
            ensure!(
                *pid != std::process::id(),
                "process {pid} is this program, not a server: give the pid of the server"
            );
            let stat = proc::stat(*pid).with_context(|| format!("cannot read process {pid} in /proc"))?;
            roots.push(stat.with_context(|| format!("there is no process {pid} on this machine: check the pid"))?.id);
        }
        Ok(Processes { roots, pids: pids.to_vec(), ledger: Mutex::default() })
    }

    /// Returns the processes that listen on a TCP port of this machine, in the network namespace of the tool. `None` if
    /// no process listens, or if only the kernel or the tool itself does. If a process and its descendants hold the
    /// same socket, only the process is returned. Process 1 is returned only if it is the only one that listens;
    /// otherwise it keeps the socket for the others.
    ///
    /// # Errors
    ///
    /// A process listens, but the descriptors of other users' processes cannot be read.
    pub fn listening_on(port: u16) -> Result<Option<Processes>> {
        let pids = listener::pids(port)?;
        if pids.is_empty() { Ok(None) } else { Processes::of_pids(&pids).map(Some) }
    }

    /// Returns the processes that were named or found, without their descendants.
    pub fn pids(&self) -> &[u32] {
        &self.pids
    }

    /// Returns all current processes of the server.
    ///
    /// # Errors
    ///
    /// `/proc` cannot be read.
    pub fn all(&self) -> Result<Vec<u32>> {
        let ledger = self.ledger.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let members = self.members(&ledger).context("cannot read /proc")?;
        Ok(members.iter().map(|(stat, _)| stat.id.pid).collect())
    }

    /// Returns the resources that the processes have used so far, and what they hold now.
    ///
    /// # Errors
    ///
    /// The memory or the descriptors of a process cannot be read, because it belongs to another user.
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

    /// Like [`Processes::read`], but without memory and descriptors, which take the kernel long with thousands of
    /// processes. It suffices for the earlier of two readings, whose memory and descriptors are not used.
    ///
    /// # Errors
    ///
    /// `/proc` cannot be read.
    pub fn read_cpu(&self) -> Result<Reading> {
        Ok(self.spent()?.0)
    }

    /// Returns the number of open descriptors of the processes. This is a small part of [`Processes::read`], for
    /// polling.
    ///
    /// # Errors
    ///
    /// The descriptors of a process cannot be read, because it belongs to another user.
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
        // The clocks are read first, close together. `members` has already read the time of children that parents
        // waited for, as `ProcessState` requires.
        for (stat, parent) in &members {
            let pid = stat.id.pid;
            if let Some(cpu) = proc::cpu(pid).map_err(|error| unreadable(pid, "processor time", error))? {
                let reaped = Spent { cpu: stat.reaped, system: stat.reaped_system, switches: 0 };
                let parent = *parent;
                seen.push(ProcessState {
                    id: stat.id,
                    parent,
                    cpu,
                    system: stat.system,
                    switches: Default::default(),
                    reaped,
                });
            }
        }
        for (seen, stat) in seen.iter_mut().zip(members.iter().map(|(stat, _)| stat)) {
            seen.switches = proc::switches(stat).map_err(|error| unreadable(stat.id.pid, "context switches", error))?;
        }
        let processes = seen.len() as u64;
        let spent = ledger.update(seen);
        // The bytes that an ended process read are added to its parent's as soon as the parent has waited for it.
        let read = members.iter().map(|(stat, _)| proc::read_bytes(stat.id.pid)).sum();
        Ok((Reading { spent, read, private: 0, proportional: 0, descriptors: 0, processes }, members))
    }

    /// Returns the current members of the server. A process that was a member stays one, even if its parent ends and it
    /// gets another parent.
    fn members(&self, ledger: &Ledger) -> io::Result<Vec<Member>> {
        let stats = proc::all()?;
        let own = std::process::id();
        let mut children: HashMap<u32, Vec<&Stat>> = HashMap::new();
        stats.iter().for_each(|stat| children.entry(stat.parent).or_default().push(stat));
        let mut found: HashMap<u32, Id> = HashMap::new();
        let mut waiting: Vec<&Stat> =
            stats.iter().filter(|stat| self.roots.contains(&stat.id) || ledger.contains(&stat.id)).collect();
        while let Some(stat) = waiting.pop() {
            let pid = stat.id.pid;
            // Processes that the tool starts do not belong to the server either.
            if pid != own && found.insert(pid, stat.id).is_none() {
                waiting.extend(children.get(&pid).into_iter().flatten());
            }
        }
        let members = stats.iter().filter(|stat| found.contains_key(&stat.id.pid));
        Ok(members.map(|stat| (*stat, found.get(&stat.parent).copied())).collect())
    }
}

impl Reading {
    /// Returns the private memory of the processes in bytes: private pages, clean and dirty, and private huge pages.
    pub fn private(&self) -> u64 {
        self.private
    }

    /// Returns the memory in bytes, where shared pages are divided by the number of processes that share them.
    pub fn proportional(&self) -> u64 {
        self.proportional
    }

    /// Returns the number of open descriptors.
    pub fn descriptors(&self) -> u64 {
        self.descriptors
    }

    /// Returns the number of processes.
    pub fn processes(&self) -> u64 {
        self.processes
    }

    /// Returns the resources used since an earlier reading of the same [`Processes`], and what is held at this reading.
    /// For processes that ended, context switches are included up to the last reading that saw them.
    pub fn since(&self, earlier: &Reading) -> Cost {
        let Spent { cpu, system, switches } = self.spent.since(earlier.spent);
        Cost {
            cpu: seconds(cpu),
            // The kernel's value has only the resolution of the clock tick, so it can be ahead.
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
    if denied { error.context("run as root, or as the user of the measured server") } else { error }
}
