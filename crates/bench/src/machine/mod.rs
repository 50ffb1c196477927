//! Describes the machine on which the tool runs, and the tool's own resource use, from what Linux reports.

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

use crate::probe::proc;
use crate::record::Machine;

/// Programs that are asked for their version, with the option for it.
const SERVERS: &[(&str, &str)] = &[("smbd", "-V"), ("frevo", "--version"), ("ksmbd.mountd", "--version")];
/// Longest time a program may take to print its version.
const PATIENCE: Duration = Duration::from_secs(5);

/// Describes this machine. Values that Linux does not report are empty.
pub fn describe() -> Machine {
    let text = |path| fs::read_to_string(path).unwrap_or_default();
    let name = rustix::system::uname();
    let cores = thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX));
    Machine {
        name: name.nodename().to_string_lossy().into_owned(),
        processor: processor(&text("/proc/cpuinfo")).unwrap_or_else(|| name.machine().to_string_lossy().into_owned()),
        cores,
        memory: proc::kibibytes(&text("/proc/meminfo"), "MemTotal").unwrap_or_default(),
        kernel: name.release().to_string_lossy().into_owned(),
        system: distribution(&text("/etc/os-release")).unwrap_or_default(),
    }
}

/// Finds the processor model in `/proc/cpuinfo`. Some architectures omit it.
fn processor(list: &str) -> Option<String> {
    let value = |name| list.lines().filter_map(|line| line.split_once(':')).find(|(it, _)| it.trim() == name);
    ["model name", "cpu model", "cpu", "Model"].into_iter().find_map(value).map(|(_, value)| value.trim().to_owned())
}

/// Returns `PRETTY_NAME` of os-release(5) without the shell quotes.
fn distribution(text: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?.trim();
    Some(value.trim_matches(['"', '\'']).to_owned())
}

/// Returns the file system of a path, such as `ext4 on /dev/vda, rw,relatime`: its type, its source, the mount options,
/// and the file system options that are not among the mount options. `None` if the path does not exist.
pub fn file_system_of(path: &Path) -> Option<String> {
    let device = fs::metadata(path).ok()?.dev();
    let path = path.canonicalize().ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let device = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    file_system(&mounts, &path, &device)
}

/// Finds the mount of proc_pid_mountinfo(5) with the longest prefix of the path. If several are mounted at the same
/// point, the last one covers the others, unless only an earlier one has the path's device.
fn file_system(mounts: &str, path: &Path, device: &str) -> Option<String> {
    let mounts = mounts.lines().filter_map(mount).filter(|mount| path.starts_with(&mount.place));
    let mount = mounts.enumerate().max_by_key(|(index, mount)| (mount.place.len(), mount.device == device, *index))?.1;
    let more = mount.super_options.split(',').filter(|option| !mount.options.split(',').any(|it| it == *option));
    let options: Vec<&str> = mount.options.split(',').chain(more).collect();
    Some(format!("{} on {}, {}", mount.kind, mount.source, options.join(",")))
}

/// A line of mountinfo.
struct Mount<'a> {
    device: &'a str,
    place: String,
    options: &'a str,
    kind: &'a str,
    source: String,
    super_options: &'a str,
}

fn mount(line: &str) -> Option<Mount<'_>> {
    // A dash ends any number of optional fields.
    let (before, after) = line.split_once(" - ")?;
    let before: Vec<&str> = before.split(' ').collect();
    let after: Vec<&str> = after.split(' ').collect();
    let (&[_, _, device, _, place, options, ..], &[kind, source, super_options, ..]) = (&*before, &*after) else {
        return None;
    };
    Some(Mount { device, place: unescaped(place), options, kind, source: unescaped(source), super_options })
}

/// Decodes the octal escapes for white space and backslashes.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (escape, blank)| text.replace(escape, blank))
}

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
    let of = |name| proc::kibibytes(meminfo, name).with_context(|| format!("/proc/meminfo has no {name}"));
    let free = of("MemFree")? + of("Buffers")? + of("Cached")? + of("SReclaimable")?;
    Ok(of("MemTotal")?.saturating_sub(free))
}

/// Returns the current time in UTC, to the second, in RFC 3339 format: `2024-02-29T12:34:56Z`.
pub fn rfc3339_now() -> String {
    // A clock before 1970 was never set.
    rfc3339(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
}

fn rfc3339(secs: u64) -> String {
    let (mut days, rest) = (secs / 86_400, secs % 86_400);
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year:04}-{month:02}-{:02}T{:02}:{:02}:{:02}Z", days + 1, rest / 3600, rest / 60 % 60, rest % 60)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

#[cfg(test)]
mod tests;
