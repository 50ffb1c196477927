//! Reads the data about processes that the probe needs from `/proc`; see proc(5).
//!
//! A process that has ended, before or while it is read, is returned as `None`, not as an error.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use report::machine::kibibytes;

/// The permanent identity of a process. A pid is reused after the process ends, but together with the start time it is
/// unique.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Id {
    /// The pid.
    pub(super) pid: u32,
    /// The start time, in clock ticks after boot.
    pub(super) started: u64,
}

/// The content of `/proc/PID/stat`. Times are in nanoseconds, with the resolution of clock ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stat {
    pub(super) id: Id,
    pub(super) parent: u32,
    /// Whether the process has ended but has not been waited for.
    pub(super) zombie: bool,
    pub(super) threads: u32,
    /// Processor time in the kernel.
    pub(super) system: u64,
    /// Processor time of all descendants that have been waited for.
    pub(super) reaped: u64,
    /// The part of `reaped` in the kernel.
    pub(super) reaped_system: u64,
}

/// Returns every visible process.
pub(super) fn all() -> io::Result<Vec<Stat>> {
    let mut stats = Vec::new();
    for pid in numbers(Path::new("/proc"))? {
        stats.extend(stat(pid)?);
    }
    Ok(stats)
}

/// Returns one process.
pub(super) fn stat(pid: u32) -> io::Result<Option<Stat>> {
    let mut text = [0; 1024];
    let read = there(File::open(format!("/proc/{pid}/stat")).and_then(|mut file| file.read(&mut text)))?;
    Ok(read.and_then(|length| parse_stat(&String::from_utf8_lossy(&text[..length]))))
}

fn parse_stat(text: &str) -> Option<Stat> {
    let (pid, rest) = text.split_once(' ')?;
    // The name is in parentheses, and may contain parentheses and spaces.
    let fields: Vec<&str> = rest.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    // proc(5) counts from 1. The state, the first field after the name, is field 3.
    let field = |number: usize| fields.get(number - 3).and_then(|text| text.parse::<u64>().ok());
    let tick = 1_000_000_000 / rustix::param::clock_ticks_per_second();
    Some(Stat {
        id: Id { pid: pid.parse().ok()?, started: field(22)? },
        parent: u32::try_from(field(4)?).ok()?,
        zombie: matches!(*fields.first()?, "Z" | "X"),
        threads: u32::try_from(field(20)?).ok()?,
        system: field(15)? * tick,
        reaped: (field(16)? + field(17)?) * tick,
        reaped_system: field(17)? * tick,
    })
}

/// Returns the processor time of all threads of a process, including ended threads, in nanoseconds.
pub(super) fn cpu(pid: u32) -> io::Result<Option<u64>> {
    let mut clock = 0;
    let number = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    // SAFETY: `clock` outlives the call, which writes one clock identifier to it.
    let error = unsafe { libc::clock_getcpuclockid(number, &raw mut clock) };
    if error != 0 {
        return there(Err(io::Error::from_raw_os_error(error)));
    }
    match clock_time(clock) {
        // The clock of an ended process is invalid.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(None),
        time => there(time),
    }
}

/// Returns the time of a clock, in nanoseconds.
pub(crate) fn clock_time(clock: libc::clockid_t) -> io::Result<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` outlives the call, which writes one timespec to it.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let (secs, nanos) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    Ok(secs.map_err(io::Error::other)? * 1_000_000_000 + nanos.map_err(io::Error::other)?)
}

/// Returns the context switches of each thread of a process.
pub(super) fn switches(stat: &Stat) -> io::Result<BTreeMap<u32, u64>> {
    let pid = stat.id.pid;
    let mut switches = BTreeMap::new();
    if stat.threads == 1 {
        if let Some(status) = there(fs::read_to_string(format!("/proc/{pid}/status")))? {
            switches.insert(pid, parse_switches(&status));
        }
        return Ok(switches);
    }
    for thread in there(numbers(Path::new(&format!("/proc/{pid}/task"))))?.unwrap_or_default() {
        if let Some(status) = there(fs::read_to_string(format!("/proc/{pid}/task/{thread}/status")))? {
            switches.insert(thread, parse_switches(&status));
        }
    }
    Ok(switches)
}

fn parse_switches(status: &str) -> u64 {
    let of = |name| value_of(status, name).and_then(|value| value.parse::<u64>().ok()).unwrap_or_default();
    of("voluntary_ctxt_switches") + of("nonvoluntary_ctxt_switches")
}

/// Returns the pid of the tracer of each thread of a process, 0 for none. Ended threads are left out.
pub(super) fn tracers(pid: u32) -> io::Result<Vec<u32>> {
    let mut tracers = Vec::new();
    for thread in there(numbers(Path::new(&format!("/proc/{pid}/task"))))?.unwrap_or_default() {
        let status = there(fs::read_to_string(format!("/proc/{pid}/task/{thread}/status")))?.unwrap_or_default();
        if value_of(&status, "State").is_some_and(|state| !state.starts_with(['Z', 'X'])) {
            tracers.extend(value_of(&status, "TracerPid").and_then(|tracer| tracer.parse::<u32>().ok()));
        }
    }
    Ok(tracers)
}

/// Memory of a process, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Memory {
    pub(crate) private: u64,
    pub(crate) proportional: u64,
}

/// Returns the memory of a process. `None` also for a kernel thread, which has no memory of its own.
pub(crate) fn memory(pid: u32) -> io::Result<Option<Memory>> {
    Ok(there(fs::read_to_string(format!("/proc/{pid}/smaps_rollup")))?.map(|text| parse_memory(&text)))
}

fn parse_memory(text: &str) -> Memory {
    let of = |name| kibibytes(text, name).unwrap_or_default();
    Memory { private: of("Private_Clean") + of("Private_Dirty") + of("Private_Hugetlb"), proportional: of("Pss") }
}

/// Returns the bytes that a process has read, including those of children that it waited for. `None` if the value may
/// not be read, and 0 if the process has ended.
pub(super) fn read_bytes(pid: u32) -> Option<u64> {
    match there(fs::read_to_string(format!("/proc/{pid}/io"))) {
        Ok(None) => Some(0),
        Ok(Some(text)) => value_of(&text, "rchar")?.parse().ok(),
        Err(_) => None,
    }
}

/// Returns the number of open descriptors of a process.
pub(super) fn descriptors(pid: u32) -> io::Result<Option<u64>> {
    let path = format!("/proc/{pid}/fd");
    // Since Linux 6.2 the size of the directory is the number of descriptors. Before, it is always 0.
    match there(fs::metadata(&path))?.map(|meta| meta.size()) {
        Some(0) => there(fs::read_dir(&path).map(|entries| entries.flatten().count() as u64)),
        size => Ok(size),
    }
}

/// Returns the name and owner of a process, for messages.
pub(super) fn title(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let owner = fs::metadata(format!("/proc/{pid}")).map(|meta| meta.uid());
    format!("process {pid} ({}, uid {})", name.trim_end(), owner.map_or("unknown".to_owned(), |uid| uid.to_string()))
}

fn value_of<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
}

/// Returns the entries of a directory whose names are numbers.
pub(super) fn numbers(path: &Path) -> io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(path)? {
        // Listing the directory of a process that ends meanwhile fails in the middle.
        let Some(entry) = there(entry)? else { break };
        numbers.extend(entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(numbers)
}

/// Returns `None` for a process or file that no longer exists.
pub(super) fn there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_may_look_like_fields() {
        let tick = 1_000_000_000 / rustix::param::clock_ticks_per_second();
        let rest = "7 7 7 0 -1 4194304 100 0 0 0 5 6 70 80 20 0 3 0 1347418 3133440 390 184467";
        for (name, state, zombie) in [("cat", 'R', false), ("a) S 1 (b", 'Z', true), ("", 'S', false)] {
            let stat = parse_stat(&format!("6689 ({name}) {state} {rest}\n")).unwrap();
            let id = Id { pid: 6689, started: 1_347_418 };
            let (system, reaped, reaped_system) = (6 * tick, 150 * tick, 80 * tick);
            assert_eq!(stat, Stat { id, parent: 7, zombie, threads: 3, system, reaped, reaped_system });
        }
        for broken in ["", "1", "1 (x", "1 (x) R 1", "x (x) R 7 7 7 0 -1 4194304 100 0 0 0 5 6 70 80 20 0 3 0 13"] {
            assert_eq!(parse_stat(broken), None, "{broken}");
        }
    }

    #[test]
    fn lines_are_found_by_their_full_name() {
        let text = "Rss: 9 kB\nPss:     318 kB\nPss_Dirty: 1 kB\nPrivate_Clean: 40 kB\nPrivate_Dirty: 112 kB\n\
                    Private_Hugetlb: 2048 kB\n";
        assert_eq!(parse_memory(text), Memory { private: 2200 * 1024, proportional: 318 * 1024 });
        assert_eq!(parse_memory(""), Memory::default());
        assert_eq!(parse_switches("x: 1\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n"), 15);
    }

    #[test]
    fn an_ended_process_is_not_an_error() {
        // Larger than the greatest pid on Linux.
        let pid = 1 << 22;
        assert_eq!(stat(pid).unwrap(), None);
        assert_eq!(cpu(pid).unwrap(), None);
        assert_eq!(memory(pid).unwrap(), None);
        assert_eq!(descriptors(pid).unwrap(), None);
        assert_eq!(tracers(pid).unwrap(), Vec::<u32>::new());
    }
}
