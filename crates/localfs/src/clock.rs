//! When a file's change time distinguishes all later changes.
//!
//! Linux stamps changes by a clock that ticks every 1 to 10 ms, so that two changes may have the same time. Since 6.13,
//! file systems may give a change its own time if the previous time has been read (multigrain timestamps, supported by
//! XFS, ext4, btrfs and tmpfs). Code that reads a file's change time and then the file can therefore detect every later
//! change. Whether a file system does so is determined by trying it on a nameless temporary file.
//!
//! This holds for user attributes, which get their value before the file gets its new time. Mode, owner and POSIX ACLs
//! may still be read as they were although the time is new, because the kernel returns them before the time, and stamps
//! a file before it drops the former ACL. Values of those are only cached if the change is old enough to be complete.

use std::os::fd::AsFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{Mode, OFlags};
use server::vfs::{Changes, Result, Time};

use crate::errno;
use crate::metadata::{coarse_now, time};
use crate::root::{Root, stat};

/// Minimum age of a change if two changes may have the same time.
const TICK: Duration = server::vfs::TICK;
/// Minimum age of a change on remote file systems, and on those with a resolution of seconds (such as ext4 with
/// 128-byte inodes), whose times are whole seconds.
const COARSE_TICK: Duration = Duration::from_secs(3);

/// Number of consecutive changes that must get different times.
const TRIALS: u32 = 8;

/// The clock that stamps the files of a share.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    tick: Duration,
    /// Device of the share's root, if its file system is local.
    local: Option<u64>,
    /// Device of the file system on which every change after a read of the change time gets a new time.
    fine: Option<u64>,
}

impl Clock {
    /// Determines the clock of the file system of `root` by trying it with the thread's identity.
    pub(crate) fn of(root: &Root) -> Clock {
        let tick = if root.local { TICK } else { COARSE_TICK };
        let fine = root.local && shows_all(root).unwrap_or(false);
        let device = root.id.device;
        Clock { tick, local: root.local.then_some(device), fine: fine.then_some(device) }
    }

    /// Returns whether `device` is the share's own and local. Other file systems may be mounted below.
    pub(crate) fn is_local(&self, device: u64) -> bool {
        self.local == Some(device)
    }

    /// Creates a clock whose granularity is `tick`.
    #[cfg(test)]
    pub(crate) fn ticking(tick: Duration) -> Clock {
        Clock { tick, local: Some(0), fine: None }
    }

    /// Returns how changes by others become known.
    pub(crate) fn changes(&self) -> Changes {
        Changes::Timestamp { granularity: self.tick, of_whole_seconds: COARSE_TICK }
    }

    /// Returns whether the change at `changed`, read now, is so old that every later change gets another time.
    pub(crate) fn is_old(&self, changed: Time) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let Some(limit) = now.checked_sub(self.changes().granularity(changed)) else { return false };
        (changed.secs, changed.nanos) < (limit.as_secs() as i64, limit.subsec_nanos())
    }

    /// Returns whether user attributes read now, of a file on `device` that changed at `changed`, are valid while that
    /// time is unchanged. Even a file system with fine times may have single files with times in seconds.
    pub(crate) fn shows_attributes(&self, device: u64, changed: Time) -> bool {
        self.fine == Some(device) && changed.nanos != 0 || self.is_old(changed)
    }
}

/// Returns whether each of several changes, read one by one, has its own time, with most of them within the granularity
/// of a coarse clock.
fn shows_all(root: &Root) -> Result<bool> {
    let trial = root.reopen(root.fd(), OFlags::TMPFILE | OFlags::RDWR)?;
    let (mut last, mut quick) = (changed(&trial)?, 0);
    for number in 0..TRIALS {
        let before = coarse_now();
        let mode = Mode::from_raw_mode(0o600 + number % 2);
        rustix::fs::fchmod(&trial, mode).map_err(errno)?;
        let now = changed(&trial)?;
        if now == last {
            return Ok(false);
        }
        last = now;
        quick += u32::from(coarse_now() == before);
    }
    // If each change waits for a disk, the clock ticks in between.
    Ok(quick > TRIALS / 2)
}

fn changed(file: impl AsFd) -> Result<Time> {
    stat(file).map(|stat| time(stat.stx_ctime))
}

#[cfg(test)]
mod tests {
    use server::vfs::SymlinkPolicy;

    use super::*;

    const NEVER: Time = Time { secs: 0, nanos: 1 };

    #[test]
    fn clocks_that_show_every_change_show_every_change() {
        let dir = tempfile::tempdir().expect("there is free space");
        let root = Root::open(dir.path(), SymlinkPolicy::NONE).expect("it exists");
        let clock = Clock::of(&root);
        let soon = Time { secs: i64::MAX, nanos: 1 };
        assert!(!clock.shows_attributes(root.id.device + 1, soon), "another device was not probed");
        if clock.shows_attributes(root.id.device, soon) {
            let file = std::fs::File::create(dir.path().join("file")).expect("there is free space");
            let mut last = changed(&file).expect("it exists");
            for number in 0..1_000 {
                rustix::fs::fchmod(&file, Mode::from_raw_mode(0o600 + number % 2)).expect("the test owns the file");
                let now = changed(&file).expect("it exists");
                assert_ne!(now, last);
                last = now;
            }
        }
    }

    #[test]
    fn only_old_changes_are_settled() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
        let at = |time: Duration| Time { secs: time.as_secs() as i64, nanos: time.subsec_nanos().max(1) };
        let hour = Duration::from_secs(3600);
        let clock = Clock { tick: hour, local: Some(2), fine: Some(2) };
        for (changed, over) in [(now - 2 * hour, true), (now, false), (now + hour, false)] {
            assert_eq!(clock.is_old(at(changed)), over, "{changed:?}");
            assert_eq!(clock.shows_attributes(1, at(changed)), over, "{changed:?}");
            assert!(clock.shows_attributes(2, at(changed)), "{changed:?}");
        }
        assert!(clock.is_old(Time { secs: -1, nanos: 999_999_999 }) && clock.is_old(NEVER));
    }

    #[test]
    fn a_whole_second_shows_no_other_change_within_it() {
        let clock = Clock { tick: TICK, local: Some(2), fine: Some(2) };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
        let whole = Time { secs: now.as_secs() as i64, nanos: 0 };
        assert_eq!((clock.changes().granularity(NEVER), clock.changes().granularity(whole)), (TICK, COARSE_TICK));
        assert!(!clock.is_old(whole) && !clock.shows_attributes(2, whole));
    }
}
