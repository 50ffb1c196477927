//! From when on a file's change time tells every later change.
//!
//! Linux stamps changes by a clock that ticks every 1 to 10 ms, so that two of them may bear the same time. Since 6.13 a
//! file system may give a change a time of its own where somebody has seen the one before (multigrain timestamps, as XFS,
//! ext4, btrfs and tmpfs have them): whoever looks at a file and then reads of it learns of all that comes later. Whether
//! a file system does so is found by trying it, on a file that has no name and is gone at once.

use std::os::fd::AsFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{Mode, OFlags};
use server::vfs::{Result, Time};

use crate::errno;
use crate::metadata::time;
use crate::root::{Root, stat};

/// How old a change must be where two of them may bear the same time.
const TICK: Duration = server::vfs::TICK;
/// The same on file systems of other machines and on those that count seconds, as ext4 with inodes of 128 bytes does: then
/// the time is a whole one.
const COARSE_TICK: Duration = Duration::from_secs(3);

/// How many changes in a row must show: no clock ticks between each two of them.
const TRIALS: u32 = 8;

/// The clock that stamps the files of a share.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    tick: Duration,
    /// The file system of which every change shows that comes after the last one was seen.
    fine: Option<u64>,
}

impl Clock {
    /// That of the file system of `root`, tried with the thread's identity.
    pub(crate) fn of(root: &Root) -> Clock {
        let tick = if root.local { TICK } else { COARSE_TICK };
        let fine = root.local && shows_all(root).unwrap_or(false);
        Clock { tick, fine: fine.then_some(root.id.device) }
    }

    /// A clock that ticks this slowly.
    #[cfg(test)]
    pub(crate) fn ticking(tick: Duration) -> Clock {
        Clock { tick, fine: None }
    }

    /// How old a change at `changed` of a file on `device` must have been when it was seen, for a later one to show.
    pub(crate) fn tick(&self, device: u64, changed: Time) -> Duration {
        match changed.nanos {
            _ if self.fine == Some(device) => Duration::ZERO,
            0 => self.tick.max(COARSE_TICK),
            _ => self.tick,
        }
    }

    /// Whether a change of a file on `device` that is seen now would show a later one.
    pub(crate) fn is_settled(&self, device: u64, changed: Time) -> bool {
        let tick = self.tick(device, changed);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        tick.is_zero()
            || now
                .checked_sub(tick)
                .is_some_and(|limit| (changed.secs, changed.nanos) < (limit.as_secs() as i64, limit.subsec_nanos()))
    }
}

/// Whether each of several changes, seen one by one, has a time of its own.
fn shows_all(root: &Root) -> Result<bool> {
    let trial = root.reopen(root.fd(), OFlags::TMPFILE | OFlags::RDWR)?;
    let mut last = changed(&trial)?;
    for number in 0..TRIALS {
        let mode = Mode::from_raw_mode(0o600 + number % 2);
        rustix::fs::fchmod(&trial, mode).map_err(errno)?;
        let now = changed(&trial)?;
        if now == last {
            return Ok(false);
        }
        last = now;
    }
    Ok(true)
}

fn changed(file: impl AsFd) -> Result<Time> {
    stat(file).map(|stat| time(stat.stx_ctime))
}

#[cfg(test)]
mod tests {
    use server::vfs::Links;

    use super::*;

    #[test]
    fn where_every_change_is_said_to_show_every_change_shows() {
        let dir = tempfile::tempdir().expect("there is room");
        let root = Root::open(dir.path(), Links { follow: false, wide: false }).expect("it is there");
        let clock = Clock::of(&root);
        assert!(!clock.tick(root.id.device + 1, Time { secs: 0, nanos: 1 }).is_zero(), "nobody tried that one");
        if clock.tick(root.id.device, Time { secs: 0, nanos: 1 }).is_zero() {
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
    fn only_what_changed_long_ago_is_settled() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
        let at = |time: Duration| Time { secs: time.as_secs() as i64, nanos: time.subsec_nanos() };
        let hour = Duration::from_secs(3600);
        let clock = Clock { tick: hour, fine: Some(2) };
        for (changed, settled) in [(now - 2 * hour, true), (now, false), (now + hour, false)] {
            assert_eq!(clock.is_settled(1, at(changed)), settled, "{changed:?}");
            assert!(clock.is_settled(2, at(changed)), "{changed:?}");
        }
        assert!(clock.is_settled(1, Time { secs: -1, nanos: 999_999_999 }));
    }

    #[test]
    fn a_whole_second_tells_no_other_change_within_it() {
        let clock = Clock { tick: TICK, fine: Some(2) };
        let tick = |device, nanos| clock.tick(device, Time { secs: 7, nanos });
        assert_eq!((tick(1, 1), tick(1, 0)), (TICK, COARSE_TICK));
        assert_eq!((tick(2, 1), tick(2, 0)), (Duration::ZERO, Duration::ZERO));
    }
}
