//! Describes the machine of a run, from what Linux reports, and the time of a run.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::record::Machine;

/// Describes this machine. Values that Linux does not report are empty.
pub fn describe() -> Machine {
    let text = |path| fs::read_to_string(path).unwrap_or_default();
    let name = rustix::system::uname();
    let cores = thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX));
    Machine {
        name: name.nodename().to_string_lossy().into_owned(),
        processor: processor(&text("/proc/cpuinfo")).unwrap_or_else(|| name.machine().to_string_lossy().into_owned()),
        cores,
        memory: kibibytes(&text("/proc/meminfo"), "MemTotal").unwrap_or_default(),
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

/// Returns the value of `name`, from lines of `name: value kB` as in `/proc/meminfo`, in bytes.
pub fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.trim().strip_suffix("kB")?.trim_end().parse::<u64>().ok()?.checked_mul(1024)
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
