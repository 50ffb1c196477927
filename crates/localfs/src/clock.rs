//! From when on a file's change time tells every later change.
//!
//! Linux stamps changes by a clock that ticks every 1 to 10 ms, so that two of them may bear the same time. Since 6.13 a
//! file system may give a change a time of its own where somebody has seen the one before (multigrain timestamps, as XFS,
//! ext4, btrfs and tmpfs have them): whoever looks at a file and then reads of it learns of all that comes later. Whether
//! a file system does so is found by trying it, on a file that has no name and is gone at once.
//!
//! That goes for user attributes, which have their value before the file has its new time. Mode, owner and POSIX lists may
//! be read as they were although the time is new: the kernel reads them first, and stamps a file before it lets go of
//! the former list. What is kept of those must be of a change that is over.

use std::os::fd::AsFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{Mode, OFlags};
use server::vfs::{Result, Time};

use crate::errno;
use crate::metadata::{coarse_now, time};
use crate::root::{Root, stat};

/// How old a change must be where two of them may bear the same time.
const TICK: Duration = server::vfs::TICK;
/// The same on file systems of other machines and on those that count seconds, as ext4 with inodes of 128 bytes does: then
/// the time is a whole one.
const COARSE_TICK: Duration = Duration::from_secs(3);

/// How many changes in a row must show.
const TRIALS: u32 = 8;

/// The clock that stamps the files of a share.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    tick: Duration,
    /// The file system of this machine that the share's root is on.
    local: Option<u64>,
    /// The file system of which every change shows that comes after the last one was seen.
    fine: Option<u64>,
}

impl Clock {
    /// That of the file system of `root`, tried with the thread's identity.
    pub(crate) fn of(root: &Root) -> Clock {
        let tick = if root.local { TICK } else { COARSE_TICK };
        let fine = root.local && shows_all(root).unwrap_or(false);
        let device = root.id.device;
        Clock { tick, local: root.local.then_some(device), fine: fine.then_some(device) }
    }

    /// Whether `device` is the share's own and a file system of this machine: others may be mounted beneath.
    pub(crate) fn is_local(&self, device: u64) -> bool {
        self.local == Some(device)
    }

    /// A clock that ticks this slowly.
    #[cfg(test)]
    pub(crate) fn ticking(tick: Duration) -> Clock {
        Clock { tick, local: Some(0), fine: None }
    }

    /// How old a change at `changed` must have been when it was seen, for it to be over and a later one to show.
    pub(crate) fn tick(&self, changed: Time) -> Duration {
        if changed.nanos == 0 { self.tick.max(COARSE_TICK) } else { self.tick }
    }

    /// Whether a change that is seen now is as old as that.
    pub(crate) fn is_old(&self, changed: Time) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let Some(limit) = now.checked_sub(self.tick(changed)) else { return false };
        (changed.secs, changed.nanos) < (limit.as_secs() as i64, limit.subsec_nanos())
    }

    /// Whether user attributes that are read now of a file on `device`, which changed at `changed`, are those of that time
    /// as long as it stays. File systems that are fine may have single files that count seconds.
    pub(crate) fn shows_attributes(&self, device: u64, changed: Time) -> bool {
        self.fine == Some(device) && changed.nanos != 0 || self.is_old(changed)
    }
}

/// Whether each of several changes, seen one by one, has a time of its own, some of them within one tick.
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
    // Where each change waits for a disk, the clock ticks in between.
    Ok(quick > TRIALS / 2)
}

fn changed(file: impl AsFd) -> Result<Time> {
    stat(file).map(|stat| time(stat.stx_ctime))
}

#[cfg(test)]
mod tests {
    use server::vfs::Links;

    use super::*;

    const NEVER: Time = Time { secs: 0, nanos: 1 };

    #[test]
    fn where_every_change_is_said_to_show_every_change_shows() {
        let dir = tempfile::tempdir().expect("there is room");
        let root = Root::open(dir.path(), Links::NONE).expect("it is there");
        let clock = Clock::of(&root);
        let soon = Time { secs: i64::MAX, nanos: 1 };
        assert!(!clock.shows_attributes(root.id.device + 1, soon), "nobody tried that one");
        if clock.shows_attributes(root.id.device, soon) {
            let file = std::fs::File::create(dir.path().join("file")).expect("there is room");
            let mut last = changed(&file).expect("it is there");
            for number in 0..1_000 {
                rustix::fs::fchmod(&file, Mode::from_raw_mode(0o600 + number % 2)).expect("it is ours");
                let now = changed(&file).expect("it is there");
                assert_ne!(now, last);
                last = now;
            }
        }
    }

    #[test]
    fn only_what_changed_long_ago_is_over() {
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
    fn a_whole_second_tells_no_other_change_within_it() {
        let clock = Clock { tick: TICK, local: Some(2), fine: Some(2) };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
        let whole = Time { secs: now.as_secs() as i64, nanos: 0 };
        assert_eq!((clock.tick(NEVER), clock.tick(whole)), (TICK, COARSE_TICK));
        assert!(!clock.is_old(whole) && !clock.shows_attributes(2, whole));
    }
}
