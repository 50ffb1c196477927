//! The snapshots in directories that were found automatically. It saves reading a directory for each request.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use crate::policy::limits::SNAPSHOT_CATALOGUES_MAX;
use crate::vfs::{FileId, Time};

/// How long a catalogue is used. A program may change a snapshot without changing the directory of all snapshots.
const LIFE: Duration = Duration::from_secs(300);
/// How long it is used if the directory had just changed, because a new snapshot may not have been complete.
const FRESH_LIFE: Duration = Duration::from_secs(2);
/// How long a directory counts as just changed, in seconds.
const FRESH: i64 = 60;

/// How long a failure is remembered, so that the requests that waited for it need not fail one after another.
const FAILURE_LIFE: Duration = Duration::from_secs(2);

/// A volume with file numbers of its own, a directory, and how the snapshots are arranged and named in it. The volume
/// is 0 for directories of this host, because one directory may be reached through many volumes.
pub(crate) type Place = (u64, FileId, Box<[u8]>);

/// The snapshots in a directory: seconds since 1970-01-01 UTC and the name, sorted.
pub(crate) type Catalogue = Arc<[(i64, Box<[u8]>)]>;

/// What was read, and when.
struct Known {
    /// The change time of the directory.
    stamped: Time,
    /// Until when it is valid, as the time since the server's start.
    until: Duration,
    /// `None` if reading failed.
    catalogue: Option<Catalogue>,
}

/// The catalogues that are remembered, and the gate of each place, which only one request passes to read it.
#[derive(Default)]
pub(crate) struct Catalogues {
    known: Mutex<HashMap<Place, Known>>,
    gates: Mutex<HashMap<Place, Weak<Gate>>>,
}

/// What a request holds while it reads a directory.
type Gate = tokio::sync::Mutex<()>;

impl Catalogues {
    /// Returns the snapshots of `place`, whose change time is `stamped`; `Some(None)` if reading them has just failed.
    pub(crate) fn find(&self, place: &Place, stamped: Time, uptime: Duration) -> Option<Option<Catalogue>> {
        let known = self.known.lock();
        let found = known.get(place).filter(|known| known.stamped == stamped && uptime < known.until)?;
        Some(found.catalogue.clone())
    }

    /// Returns the gate of `place`.
    pub(crate) fn gate(&self, place: &Place) -> Arc<Gate> {
        let mut gates = self.gates.lock();
        if let Some(gate) = gates.get(place).and_then(Weak::upgrade) {
            return gate;
        }
        gates.retain(|_, gate| gate.strong_count() > 0);
        let gate = Arc::new(Gate::default());
        gates.insert(place.clone(), Arc::downgrade(&gate));
        gate
    }

    /// Adds what was read when the clocks said `now` and `uptime`, or that it cannot be read.
    pub(crate) fn add(&self, place: Place, stamped: Time, now: Time, uptime: Duration, catalogue: Option<Catalogue>) {
        let life = match &catalogue {
            None => FAILURE_LIFE,
            Some(_) if now.secs.saturating_sub(stamped.secs) < FRESH => FRESH_LIFE,
            Some(_) => LIFE,
        };
        let length = |catalogue: &Option<Catalogue>| catalogue.as_ref().map_or(0, |catalogue| catalogue.len());
        let mut known = self.known.lock();
        let (places, snapshots) = SNAPSHOT_CATALOGUES_MAX;
        let held: usize = known.values().map(|known| length(&known.catalogue)).sum();
        if known.len() >= places || held + length(&catalogue) > snapshots {
            known.clear();
        }
        known.insert(place, Known { stamped, until: uptime + life, catalogue });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_catalogue_ends_with_its_time_or_with_a_change_of_the_directory() {
        let catalogues = Catalogues::default();
        let place = |number: u64| -> Place { (number, FileId { device: 1, inode: 2, stream: 0 }, Box::default()) };
        let time = |secs| Time { secs, nanos: 0 };
        let seconds = Duration::from_secs;
        let of = |length: usize| -> Option<Catalogue> {
            Some((0..length).map(|moment| (moment as i64, Box::default())).collect())
        };
        catalogues.add(place(1), time(1000), time(2000), seconds(5), of(1));
        catalogues.add(place(2), time(1990), time(2000), seconds(5), of(1));
        assert!(catalogues.find(&place(1), time(1000), seconds(304)).is_some());
        assert!(catalogues.find(&place(1), time(1000), seconds(305)).is_none(), "too old");
        assert!(catalogues.find(&place(1), time(1001), seconds(6)).is_none(), "changed");
        assert!(catalogues.find(&place(2), time(1990), seconds(6)).is_some());
        assert!(catalogues.find(&place(2), time(1990), seconds(7)).is_none(), "it had just changed");
        catalogues.add(place(4), time(1), time(2000), seconds(5), None);
        assert!(catalogues.find(&place(4), time(1), seconds(6)).is_some_and(|found| found.is_none()), "it failed");
        assert!(catalogues.find(&place(4), time(1), seconds(7)).is_none(), "it is tried again");
        catalogues.add(place(3), time(1), time(2000), seconds(5), of(SNAPSHOT_CATALOGUES_MAX.1));
        assert!(catalogues.find(&place(1), time(1000), seconds(6)).is_none(), "the memory is bounded");
        assert!(catalogues.find(&place(3), time(1), seconds(6)).is_some());
    }
}
