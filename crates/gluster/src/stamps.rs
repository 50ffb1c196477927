//! Stamps of files, under which the server caches what it has read of their protection and attributes.
//!
//! With `features.ctime`, the default, a change of an extended attribute does not change the change time that a volume
//! reports. A file therefore gets a new stamp when this server changes its attributes, or when a brick reports a change
//! by another client. Bricks report changes for a limited time after they were asked for the file, so all files get new
//! stamps when that time has passed. The server then reads what it has cached again.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use server::vfs::{FileId, Time};

/// Maximum number of files with stamps of their own. If there are more, all files get a new stamp.
const MOST: usize = 16_384;

/// The stamps of a volume.
#[derive(Default)]
pub(crate) struct Stamps(Mutex<State>);

struct State {
    own: HashMap<FileId, Own>,
    /// The earliest stamp of any file.
    floor: Time,
    /// How often all files got new stamps. So many nanoseconds are added to each stamp, which is still the time of the
    /// last change.
    renewals: u64,
    /// When all files last got new stamps.
    renewed: Instant,
}

/// The new stamps of a file.
#[derive(Clone, Copy, Default)]
struct Own {
    /// How often it got one. So many nanoseconds are added to its stamp, because its change time may be in the future.
    renewals: u64,
    /// When it last got one. What is read right after that is not cached.
    renewed: Time,
}

impl Default for State {
    fn default() -> State {
        State { own: HashMap::new(), floor: Time::default(), renewals: 0, renewed: Instant::now() }
    }
}

impl State {
    fn renew_all(&mut self) {
        self.renewals += 1;
        self.renewed = Instant::now();
    }

    /// Forgets the stamps of single files. All files get a new one.
    fn forget(&mut self) {
        for own in self.own.values() {
            self.floor = self.floor.max(own.renewed);
        }
        self.floor = self.floor.max(now());
        self.renewals += self.own.values().map(|own| own.renewals).max().unwrap_or_default() + 1;
        self.own.clear();
    }
}

impl Stamps {
    /// Returns the stamp of a file with this change time.
    pub(crate) fn of(&self, file: FileId, changed: Time) -> Time {
        let state = self.0.lock();
        let own = state.own.get(&file).copied().unwrap_or_default();
        later(changed.max(own.renewed).max(state.floor), state.renewals + own.renewals)
    }

    /// Gives a file a new stamp, after a change of its attributes.
    pub(crate) fn renew(&self, file: FileId) {
        let now = now();
        let mut state = self.0.lock();
        if state.own.len() >= MOST {
            state.forget();
        }
        let own = state.own.entry(file).or_default();
        own.renewals += 1;
        own.renewed = own.renewed.max(now);
    }

    /// Gives all files new stamps.
    pub(crate) fn renew_all(&self) {
        self.0.lock().renew_all();
    }

    /// Gives all files new stamps if they last got some `valid` ago.
    pub(crate) fn age(&self, valid: Duration) {
        let mut state = self.0.lock();
        if state.renewed.elapsed() >= valid {
            state.renew_all();
        }
    }
}

fn now() -> Time {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time { secs: now.as_secs() as i64, nanos: now.subsec_nanos() }
}

/// Returns the time some nanoseconds later.
fn later(time: Time, nanos: u64) -> Time {
    const SECOND: u64 = 1_000_000_000;
    let nanos = u64::from(time.nanos) + nanos;
    Time { secs: time.secs.saturating_add((nanos / SECOND) as i64), nanos: (nanos % SECOND) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(inode: u64) -> FileId {
        FileId { device: 1, inode, stream: 0 }
    }

    const CHANGED: Time = Time { secs: 1, nanos: 2 };

    #[test]
    fn a_change_of_attributes_gives_a_file_a_later_stamp() {
        let stamps = Stamps::default();
        assert_eq!(stamps.of(file(1), CHANGED), CHANGED);
        let mut before = CHANGED;
        for _ in 0..1000 {
            stamps.renew(file(1));
            let after = stamps.of(file(1), CHANGED);
            assert!(after > before);
            before = after;
        }
        assert_eq!(stamps.of(file(2), CHANGED), CHANGED);
        let future = Time { secs: i64::MAX - 1, nanos: 0 };
        let before_future = stamps.of(file(1), future);
        stamps.renew(file(1));
        assert!(stamps.of(file(1), future) > before_future, "its change time is later than now");
        stamps.renew_all();
        assert!(stamps.of(file(1), CHANGED) > before && stamps.of(file(2), CHANGED) > CHANGED);
    }

    #[test]
    fn stamps_are_valid_for_a_time() {
        const HOUR: Duration = Duration::from_secs(3_600);
        let stamps = Stamps::default();
        stamps.renew(file(1));
        let before = [1, 2].map(|inode| stamps.of(file(inode), CHANGED));
        let now = || [1, 2].map(|inode| stamps.of(file(inode), CHANGED));
        stamps.age(HOUR);
        assert_eq!(now(), before);
        stamps.0.lock().renewed -= HOUR;
        stamps.age(HOUR);
        let after = now();
        assert!(after[0] > before[0] && after[1] > before[1]);
        stamps.age(HOUR);
        assert_eq!(now(), after);
    }

    #[test]
    fn a_forgotten_stamp_is_never_used_again() {
        let stamps = Stamps::default();
        stamps.renew(file(0));
        let first = stamps.of(file(0), CHANGED);
        for inode in 1..=MOST as u64 {
            stamps.renew(file(inode));
        }
        assert!(stamps.0.lock().own.len() <= MOST);
        assert!(stamps.of(file(0), CHANGED) > first);
    }
}
