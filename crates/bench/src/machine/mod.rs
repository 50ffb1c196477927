//! The programs of servers on this machine, and the tool's own resource use, from what Linux reports.

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use report::machine::kibibytes;

use crate::probe::proc;

/// Programs that are asked for their version, with the option for it.
const SERVERS: &[(&str, &str)] = &[("smbd", "-V"), ("frevo", "--version"), ("ksmbd.mountd", "--version")];
/// Longest time a program may take to print its version.
const PATIENCE: Duration = Duration::from_secs(5);

/// Returns the first line of the version that the program of a process prints. Only `smbd`, `frevo` and `ksmbd.mountd`
/// are run, and only if the program file is owned by root or by the tool's user, so that no other user decides which
/// program the tool runs. `None` if the program prints no version, or not in time.
pub fn version_of(pid: u32) -> Option<String> {
    let program = format!("/proc/{pid}/exe");
    let path = fs::read_link(&program).ok()?;
    let name = path.file_name()?.to_str()?;
    // An upgrade replaces the file while the old program runs.
    let name = name.strip_suffix(" (deleted)").unwrap_or(name);
    let (_, flag) = SERVERS.iter().find(|(server, _)| *server == name)?;
    let owner = fs::metadata(&program).ok()?.uid();
    let trusted = owner == 0 || owner == rustix::process::geteuid().as_raw();
    if trusted { first_line(Command::new(program).arg(flag), PATIENCE) } else { None }
}

fn first_line(command: &mut Command, patience: Duration) -> Option<String> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let end = Instant::now() + patience;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if Instant::now() < end => thread::sleep(Duration::from_millis(5)),
            _ => break None,
        }
    };
    if status.is_none() {
        // Errors only mean that the program has already ended.
        let _ = child.kill();
        let _ = child.wait();
    }
    status.filter(std::process::ExitStatus::success)?;
    let mut text = Vec::new();
    // The program wrote at most what a pipe holds; otherwise it would not have ended.
    child.stdout?.take(64 << 10).read_to_end(&mut text).ok()?;
    let line = String::from_utf8_lossy(&text).lines().next()?.trim().to_owned();
    (!line.is_empty()).then_some(line)
}

/// Returns the processor time of all threads of this process so far, in seconds.
pub fn client_cpu() -> f64 {
    // The only possible errors are an unknown clock and a bad address.
    proc::clock_time(libc::CLOCK_PROCESS_CPUTIME_ID).unwrap_or_default() as f64 / 1e9
}

/// Returns the private memory of this process, in bytes.
///
/// # Errors
///
/// `/proc/self/smaps_rollup` cannot be read.
pub fn own_memory() -> Result<u64> {
    let memory = proc::memory(std::process::id()).context("cannot read /proc/self/smaps_rollup")?;
    Ok(memory.unwrap_or_default().private)
}

/// Returns the memory of the whole machine that is in use, without the page cache, in bytes: `MemTotal - MemFree -
/// Buffers - Cached - SReclaimable`. It includes what the kernel spends on a server's sockets and processes, and what
/// all other programs use. Only its growth is meaningful for a server. Files in tmpfs are part of `Cached` and so
/// excluded.
///
/// # Errors
///
/// `/proc/meminfo` cannot be read.
pub fn memory_in_use() -> Result<u64> {
    in_use(&fs::read_to_string("/proc/meminfo").context("cannot read /proc/meminfo")?)
}

fn in_use(meminfo: &str) -> Result<u64> {
    let of = |name| kibibytes(meminfo, name).with_context(|| format!("/proc/meminfo has no {name}"));
    let free = of("MemFree")? + of("Buffers")? + of("Cached")? + of("SReclaimable")?;
    Ok(of("MemTotal")?.saturating_sub(free))
}

#[cfg(test)]
mod tests;
