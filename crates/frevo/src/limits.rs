//! What the process asks for once, at start: enough file descriptors of the kernel, that its memory stays its own, and
//! of the allocator no more heaps than processors.

use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};
use tracing::{info, warn};

/// Raises the soft limit on open files to the hard one: each connection and each open file of a client is a
/// descriptor here, and the usual 1,024 are gone with the first busy client. Returns the limit that holds now.
pub fn raise_open_files() -> u64 {
    let before = getrlimit(Resource::Nofile);
    let (soft, hard) = (before.current.unwrap_or(u64::MAX), before.maximum.unwrap_or(u64::MAX));
    if soft >= hard {
        info!(limit = soft, "open files: the limit is as high as the system lets it be");
        return soft;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: before.maximum, maximum: before.maximum }) {
        Ok(()) => {
            info!(from = soft, to = hard, "open files: limit raised");
            hard
        }
        Err(error) => {
            warn!(limit = soft, %error, "open files: the limit could not be raised");
            soft
        }
    }
}

/// Keeps password hashes and session keys out of core files and out of reach of other processes of the same user.
pub fn forbid_core_dumps() {
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        warn!(%error, "core dumps could not be forbidden: a crash may write password hashes to disk");
    }
}

/// Lets the threads of the process share as many heaps as there are processors, two at least. glibc makes eight for each
/// processor, and each keeps what once was free in it: threads for file work come and go, and each time that there are
/// more than ever, one more heap begins to fill. `false` where the allocator is another one, or refuses.
pub fn share_heaps() -> bool {
    let processors = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    set_heaps(processors.max(2).try_into().unwrap_or(i32::MAX))
}

#[cfg(target_env = "gnu")]
fn set_heaps(count: i32) -> bool {
    // SAFETY: the call takes two numbers and sets one under the allocator's own lock.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, count) == 1 }
}

#[cfg(not(target_env = "gnu"))]
fn set_heaps(_: i32) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allocator_takes_the_number_of_heaps() {
        assert_eq!(share_heaps(), cfg!(target_env = "gnu"));
    }

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let limit = raise_open_files();
        let after = getrlimit(Resource::Nofile);
        assert_eq!(after.current, after.maximum);
        assert_eq!(after.current.unwrap_or(u64::MAX), limit);
    }

    #[test]
    fn a_process_without_core_dumps_still_reopens_its_own_descriptors() {
        forbid_core_dumps();
        assert_eq!(rustix::process::dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
        let file = tempfile::NamedTempFile::new().unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(file.as_file());
        std::fs::File::open(format!("/proc/self/fd/{fd}")).unwrap();
    }
}
