//! Resource limits of the process. At start: enough file descriptors, no core dumps, and bounds on the memory that the
//! allocator keeps. Later: returning unused memory. Also determines how much memory there is.

use std::path::Path;

use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};
use tracing::{info, warn};

/// Raises the soft limit on open files to the hard limit. Each connection and each open file of a client needs a
/// descriptor, and the usual 1,024 are used up by the first busy client. Returns the limit now in effect.
pub fn raise_open_files() -> u64 {
    let before = getrlimit(Resource::Nofile);
    let (soft, hard) = (before.current.unwrap_or(u64::MAX), before.maximum.unwrap_or(u64::MAX));
    if soft >= hard {
        info!(limit = soft, "open files: the limit is already the highest that the system allows");
        return soft;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: before.maximum, maximum: before.maximum }) {
        Ok(()) => {
            info!(from = soft, to = hard, "open files: limit raised");
            hard
        }
        Err(error) => {
            warn!(limit = soft, %error, "open files: cannot raise the limit");
            soft
        }
    }
}

/// Returns the memory that the process may use, in bytes: that of the machine, or the limit of its cgroup if lower.
pub fn memory() -> u64 {
    let info = rustix::system::sysinfo();
    let machine = info.totalram.saturating_mul(u64::from(info.mem_unit));
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    cgroup_limit(&own, |path| std::fs::read_to_string(path).ok()).map_or(machine, |limit| limit.min(machine))
}

/// Returns the lowest `memory.max` of the process's cgroup and its ancestors (cgroup v2). `own` is the content of
/// `/proc/self/cgroup`.
fn cgroup_limit(own: &str, read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mount = Path::new("/sys/fs/cgroup");
    let own = mount.join(path);
    let groups = own.ancestors().take_while(|group| group.starts_with(mount));
    groups.filter_map(|group| read(&group.join("memory.max"))?.trim().parse().ok()).min()
}

/// Returns the resident memory of the process in bytes; `None` without `/proc`.
pub fn resident() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: usize = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size())
}

/// Returns free pages of the allocator to the system. `false` if it has none, or if the allocator is not glibc's.
pub fn release_memory() -> bool {
    trim_heaps()
}

#[cfg(target_env = "gnu")]
fn trim_heaps() -> bool {
    // SAFETY: the call takes a number and is synchronized by the allocator's own locks.
    unsafe { libc::malloc_trim(0) == 1 }
}

#[cfg(not(target_env = "gnu"))]
fn trim_heaps() -> bool {
    false
}

/// Keeps password hashes and session keys out of core files and away from other processes of the same user.
pub fn forbid_core_dumps() {
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        warn!(%error, "cannot disable core dumps; a crash may write password hashes to disk");
    }
}

/// An allocation of at least this many bytes is mapped on its own and returned to the system when it is freed.
const MAPPED: usize = 2 << 20;
/// Free bytes at the end of a heap above which the heap returns them to the system.
const TRIMMED: usize = 4 << 20;

/// Bounds the memory that the allocator keeps after it was freed. Returns `false` if the allocator is not glibc's, or
/// refuses.
///
/// glibc creates up to eight heaps per processor, and each keeps freed memory. Threads for file work come and go, and
/// each new maximum of their number starts to fill another heap. So the number of heaps is that of the processors, but
/// at least two. The two sizes are fixed because glibc otherwise raises them to the largest that was freed: after
/// messages of 8 MiB, each heap keeps 16 MiB at its end, which `malloc_trim` does not return.
pub fn bound_heaps() -> bool {
    let processors = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    set_heaps(processors.max(2))
}

#[cfg(target_env = "gnu")]
fn set_heaps(count: usize) -> bool {
    let settings = [(libc::M_ARENA_MAX, count), (libc::M_MMAP_THRESHOLD, MAPPED), (libc::M_TRIM_THRESHOLD, TRIMMED)];
    // SAFETY: the call takes two numbers and sets one under the allocator's own lock.
    let set = |(name, value)| unsafe { libc::mallopt(name, value) == 1 };
    settings.into_iter().map(|(name, value)| (name, i32::try_from(value).unwrap_or(i32::MAX))).all(set)
}

#[cfg(not(target_env = "gnu"))]
fn set_heaps(_: usize) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_memory_is_resident() {
        let before = resident().expect("a /proc");
        let used = std::hint::black_box(vec![1_u8; 64 << 20]);
        assert!(resident().expect("a /proc") >= before + (48 << 20));
        drop(used);
    }

    #[test]
    fn the_lowest_limit_of_all_cgroups_applies() {
        let read = |path: &Path| match path.to_str()? {
            "/sys/fs/cgroup/a/b/memory.max" => Some("max\n".to_owned()),
            "/sys/fs/cgroup/a/memory.max" => Some("1000\n".to_owned()),
            "/sys/fs/cgroup/memory.max" => Some("2000\n".to_owned()),
            _ => None,
        };
        assert_eq!(cgroup_limit("0::/a/b\n", read), Some(1000));
        assert_eq!(cgroup_limit("1:cpu:/x\n0::/\n", read), Some(2000));
        assert_eq!(cgroup_limit("1:memory:/a\n", read), None);
        assert!(memory() > 1 << 20);
    }

    #[test]
    fn the_allocator_accepts_the_bounds() {
        assert_eq!(bound_heaps(), cfg!(target_env = "gnu"));
    }

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let limit = raise_open_files();
        let after = getrlimit(Resource::Nofile);
        assert_eq!(after.current, after.maximum);
        assert_eq!(after.current.unwrap_or(u64::MAX), limit);
    }

    #[test]
    fn a_process_without_core_dumps_can_reopen_its_descriptors() {
        forbid_core_dumps();
        assert_eq!(rustix::process::dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
        let file = tempfile::NamedTempFile::new().unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(file.as_file());
        std::fs::File::open(format!("/proc/self/fd/{fd}")).unwrap();
    }
}
