//! When a file's change time distinguishes all later changes, so that what was read from the file can be cached under
//! that time.
//!
//! Linux stamps changes by a clock that ticks every 1 to 10 ms, so that two changes may have the same time. Since 6.13,
//! file systems may give a change its own time if the previous time has been read (multigrain timestamps, supported by
//! XFS, ext4, btrfs and tmpfs). Code that reads a file's change time and then the file can therefore detect every later
//! change. The back end determines whether its storage does so.
//!
//! This holds for user attributes, which get their value before the file gets its new time. Mode, owner and POSIX ACLs
//! may still be read as they were although the time is new, because the kernel returns them before the time, and stamps
//! a file before it drops the former ACL. Values of those are only cached if the change is old enough to be complete.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use server::vfs::{Changes, Time};

/// Minimum age of a change on remote file systems, and on those with a resolution of seconds (such as ext4 with
/// 128-byte inodes), whose times are whole seconds.
pub const COARSE_GRANULARITY: Duration = Duration::from_secs(3);

/// The clock that stamps the files of a volume.
#[derive(Clone, Copy)]
pub struct Clock {
    /// Minimum age of a change whose time differs from that of every later change.
    tick: Duration,
    /// Device of the volume's root, if its file system is local.
    local: Option<u64>,
    /// Device of the file system on which every change after a read of the change time gets a new time.
    fine: Option<u64>,
}

impl Clock {
    /// Creates a clock that gives changes made `tick` apart different times.
    pub fn ticking(tick: Duration) -> Clock {
        Clock { tick, local: None, fine: None }
    }

    /// Sets the device of the volume's own file system, which is local. A local file system changes only through this
    /// machine.
    #[must_use]
    pub fn with_local_device(self, device: u64) -> Clock {
        Clock { local: Some(device), ..self }
    }

    /// Sets the device of the file system that gives every change after a read of the change time a new time.
    #[must_use]
    pub fn with_fine_device(self, device: u64) -> Clock {
        Clock { fine: Some(device), ..self }
    }

    /// Returns whether `device` is the volume's own and local. Other file systems may be mounted below.
    pub fn is_local(&self, device: u64) -> bool {
        self.local == Some(device)
    }

    /// Returns how changes by others become known, if nothing but times shows them.
    pub fn changes(&self) -> Changes {
        Changes::Timestamp { granularity: self.tick, of_whole_seconds: COARSE_GRANULARITY }
    }

    /// Returns whether the change at `changed`, read now, is so old that every later change gets another time.
    pub fn is_old(&self, changed: Time) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let Some(limit) = now.checked_sub(self.changes().granularity(changed)) else { return false };
        (changed.secs, changed.nanos) < (limit.as_secs() as i64, limit.subsec_nanos())
    }

    /// Returns whether user attributes read now, of a file on `device` that changed at `changed`, are valid while that
    /// time is unchanged. Even a file system with fine times may have single files with times in seconds.
    pub fn shows_attributes(&self, device: u64, changed: Time) -> bool {
        self.fine == Some(device) && changed.nanos != 0 || self.is_old(changed)
    }
}

#[cfg(test)]
mod tests {
    use server::vfs::GRANULARITY;

    use super::*;

    const NEVER: Time = Time { secs: 0, nanos: 1 };

    #[test]
    fn only_old_changes_are_settled() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
        let at = |time: Duration| Time { secs: time.as_secs() as i64, nanos: time.subsec_nanos().max(1) };
        let hour = Duration::from_secs(3600);
        let clock = Clock::ticking(hour).with_local_device(2).with_fine_device(2);
        for (changed, over) in [(now - 2 * hour, true), (now, false), (now + hour, false)] {
            assert_eq!(clock.is_old(at(changed)), over, "{changed:?}");
            assert_eq!(clock.shows_attributes(1, at(changed)), over, "{changed:?}");
            assert!(clock.shows_attributes(2, at(changed)), "{changed:?}");
        }
        assert!(clock.is_old(Time { secs: -1, nanos: 999_999_999 }) && clock.is_old(NEVER));
        assert!(clock.is_local(2) && !clock.is_local(1));
    }

    #[test]
    fn a_whole_second_shows_no_other_change_within_it() {
        let clock = Clock::ticking(GRANULARITY).with_local_device(2).with_fine_device(2);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
        let whole = Time { secs: now.as_secs() as i64, nanos: 0 };
        assert_eq!(
            (clock.changes().granularity(NEVER), clock.changes().granularity(whole)),
            (GRANULARITY, COARSE_GRANULARITY)
        );
        assert!(!clock.is_old(whole) && !clock.shows_attributes(2, whole));
    }
}
