//! Counts a server's system calls with strace(1). It slows the server down, so the times of such a round are ignored.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::{Processes, proc};

/// Longest time strace may take to attach to all processes, and to detach. It takes about a millisecond per thread.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// An strace process attached to a server. It detaches when dropped.
pub struct Syscalls {
    strace: Child,
    table: Option<JoinHandle<io::Result<String>>>,
    complaints: Option<JoinHandle<io::Result<String>>>,
}

impl Syscalls {
    /// Starts counting the system calls of all threads of a server, and of threads that they start. When this returns,
    /// all are counted.
    ///
    /// # Errors
    ///
    /// strace is not installed, may not trace the server, or another process traces it already.
    pub fn attach(processes: &Processes) -> Result<Syscalls> {
        let end = Instant::now() + PATIENCE;
        loop {
            let pids = processes.all()?;
            ensure!(!pids.is_empty(), "the processes {:?} have ended: check that the server runs", processes.pids());
            let mut tracer = Syscalls::start(&pids)?;
            if tracer.has_all(processes, &pids, end)? {
                return Ok(tracer);
            }
        }
    }

    /// Stops counting and returns the number of calls by name. Calls that have not returned yet are not counted.
    ///
    /// # Errors
    ///
    /// strace failed.
    pub fn finish(mut self) -> Result<BTreeMap<String, u64>> {
        let status = self.stop()?;
        let table = joined(&mut self.table)?;
        let ended_well = status.success() || status.signal() == Some(libc::SIGINT);
        ensure!(ended_well, "strace ended with {status}: {}", joined(&mut self.complaints)?.trim_end());
        parse(&table).with_context(|| format!("cannot parse the table that strace printed:\n{table}"))
    }

    fn start(pids: &[u32]) -> Result<Syscalls> {
        let mut command = Command::new("strace");
        // The output is a pipe, and strace accepts it only under this name.
        command.args(["-f", "-c", "-qq", "-U", "name,calls", "-o", "/dev/stdout", "-p"]);
        command.arg(pids.iter().map(u32::to_string).collect::<Vec<_>>().join(","));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut strace = match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                bail!("--syscalls needs strace, which is not installed: install the package strace")
            }
            spawned => spawned.context("cannot start strace")?,
        };
        let (table, complaints) = (strace.stdout.take().map(reader), strace.stderr.take().map(reader));
        Ok(Syscalls { strace, table, complaints })
    }

    /// Waits until all of `pids` are traced. Returns `false` if one of them started a process just before, which is not
    /// traced.
    fn has_all(&mut self, processes: &Processes, pids: &[u32], end: Instant) -> Result<bool> {
        let tracer = self.strace.id();
        let is_traced = |pid: &u32| -> Result<bool> {
            let tracers = proc::tracers(*pid).with_context(|| format!("cannot read the threads of process {pid}"))?;
            Ok(tracers.iter().all(|it| *it == tracer))
        };
        let mut untraced = pids.to_vec();
        loop {
            // This is checked first, so that everything written before the end can then be read.
            let ended = self.strace.try_wait()?;
            untraced = untraced
                .into_iter()
                .filter_map(|pid| is_traced(&pid).map(|is| (!is).then_some(pid)).transpose())
                .collect::<Result<_>>()?;
            let Some(first) = untraced.first() else { break };
            if let Some(status) = ended {
                let complaints = joined(&mut self.complaints)?;
                bail!("strace cannot trace the server ({status}): {}\n{}", complaints.trim_end(), REMEDY);
            }
            ensure!(Instant::now() < end, "strace does not attach to {}: {REMEDY}", proc::title(*first));
            thread::sleep(LOOK_AGAIN);
        }
        processes.all()?.iter().map(is_traced).try_fold(true, |all, is| Ok(all && is?))
    }

    /// Makes strace detach and write its table.
    fn stop(&mut self) -> Result<ExitStatus> {
        if let Some(status) = self.strace.try_wait()? {
            return Ok(status);
        }
        let pid = libc::pid_t::try_from(self.strace.id())?;
        // SAFETY: kill has no memory effects; the process is strace, which has not been waited for.
        unsafe { libc::kill(pid, libc::SIGINT) };
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.strace.try_wait()? {
                return Ok(status);
            }
            if Instant::now() > end {
                // The kernel detaches the server when its tracer ends.
                self.strace.kill()?;
                self.strace.wait()?;
                bail!("strace did not detach from the server within {} seconds", PATIENCE.as_secs());
            }
            thread::sleep(LOOK_AGAIN);
        }
    }
}

impl Drop for Syscalls {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

const REMEDY: &str = "run as root, in a container with CAP_SYS_PTRACE; no other program, such as a debugger, may trace \
                      the server; without root, /proc/sys/kernel/yama/ptrace_scope must be 0";

/// Reads in a separate thread, so that strace never waits for a reader.
fn reader(mut pipe: impl Read + Send + 'static) -> JoinHandle<io::Result<String>> {
    thread::spawn(move || {
        let mut text = String::new();
        pipe.read_to_string(&mut text).map(|_| text)
    })
}

fn joined(reader: &mut Option<JoinHandle<io::Result<String>>>) -> Result<String> {
    let Some(reader) = reader.take() else { return Ok(String::new()) };
    let text = reader.join().map_err(|_| anyhow::anyhow!("the thread that reads strace's output panicked"))?;
    text.context("cannot read the output of strace")
}

/// Parses the tables with the columns name and calls. There is one table for each kind of program, 32 and 64 bits, and
/// none if no call was made.
fn parse(table: &str) -> Option<BTreeMap<String, u64>> {
    let mut calls = BTreeMap::new();
    let mut total = None;
    for line in table.lines() {
        match *line.split_ascii_whitespace().collect::<Vec<_>>() {
            [] | ["syscall", "calls"] => {}
            [rule, _] if rule.starts_with("---") => {}
            ["System", "call", "usage", ..] => {}
            ["total", sum] => total = Some(total.unwrap_or(0) + sum.parse::<u64>().ok()?),
            [name, count] => *calls.entry(name.to_owned()).or_default() += count.parse::<u64>().ok()?,
            _ => return None,
        }
    }
    (total.unwrap_or(0) == calls.values().sum::<u64>()).then_some(calls)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(table: &str, expected: Option<&[(&str, u64)]>) {
        let calls = parse(table);
        let expected = expected.map(|it| it.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect());
        assert_eq!(calls, expected, "{table}");
    }

    #[test]
    fn strace_tables_are_read() {
        let one = "syscall              calls\n---------------- ---------\nread                    15\n\
                   newfstatat              57\n---------------- ---------\ntotal                   72\n";
        check(one, Some(&[("newfstatat", 57), ("read", 15)]));
        let two = format!("{one}System call usage summary for 32 bit mode:\n{one}");
        check(&two, Some(&[("newfstatat", 114), ("read", 30)]));
        check("", Some(&[]));
        check(&one.replace("57", "5x"), None);
        // A truncated table.
        check("syscall calls\n---------------- ---------\nread 15\n", None);
        check("% time     seconds  usecs/call     calls    errors syscall\n", None);
    }
}
