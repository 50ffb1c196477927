//! The file systems under directories that the configuration does not contain literally: homes, paths with variables,
//! and shares that users define. They are known while clients use them, for checks of their health.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::volumes::Volume;
use crate::policy::Share;
use crate::vfs::Vfs;

/// Maximum number of file systems. Further ones are not known.
const FILE_SYSTEMS: usize = 64;
/// Maximum number of directories that are being opened. Further ones are not known.
const OPENINGS: usize = 1024;
/// Volumes that are no longer open are forgotten when there are twice as many as after the last time, and this number.
const SPARE: usize = 16;

/// A file system that clients use.
pub struct UsedFileSystem {
    /// The name of a share on it, the same one while the file system is used.
    pub share: String,
    /// The directory of an open volume on it, maybe of another share.
    pub directory: PathBuf,
    /// That volume.
    pub vfs: Arc<dyn Vfs>,
}

#[derive(Default)]
pub(super) struct Unlisted(Mutex<State>);

#[derive(Default)]
struct State {
    /// By device number.
    used: HashMap<u64, Uses>,
    opening: HashMap<u64, (String, Instant)>,
    last: u64,
}

struct Uses {
    share: String,
    /// By volume number.
    volumes: BTreeMap<u64, (Weak<dyn Vfs>, PathBuf)>,
    /// The number of volumes after closed ones were last forgotten.
    swept: usize,
}

impl Uses {
    /// Returns a volume that is open. Closed ones at the end are forgotten.
    fn open(&mut self) -> Option<(PathBuf, Arc<dyn Vfs>)> {
        while let Some(last) = self.volumes.last_entry() {
            let (volume, directory) = last.get();
            if let Some(vfs) = volume.upgrade() {
                return Some((directory.clone(), vfs));
            }
            last.remove();
        }
        None
    }
}

impl Unlisted {
    /// Adds the volume of a share, which is open, on the file system with this device number, unless it is known.
    pub(super) fn add(&self, device: u64, share: &Share, (number, vfs): &Volume) {
        let used = &mut self.0.lock().used;
        if used.len() >= FILE_SYSTEMS && !used.contains_key(&device) {
            used.retain(|_, uses| uses.open().is_some());
            if used.len() >= FILE_SYSTEMS {
                return;
            }
        }
        let new = || Uses { share: share.name.clone(), volumes: BTreeMap::new(), swept: 0 };
        let uses = used.entry(device).or_insert_with(new);
        if uses.volumes.contains_key(number) {
            return;
        }
        if uses.volumes.len() >= 2 * uses.swept + SPARE {
            uses.volumes.retain(|_, (volume, _)| volume.strong_count() > 0);
            uses.swept = uses.volumes.len();
        }
        uses.volumes.insert(*number, (Arc::downgrade(vfs), share.path.clone()));
    }

    /// Notes that the directory of a share is being opened, until the value is dropped.
    pub(super) fn opening(&self, share: &Share) -> Option<Opening<'_>> {
        let mut state = self.0.lock();
        if state.opening.len() >= OPENINGS {
            return None;
        }
        state.last += 1;
        let number = state.last;
        state.opening.insert(number, (share.name.clone(), Instant::now()));
        Some(Opening { all: self, number })
    }

    /// Returns the file systems by device number.
    pub(super) fn used(&self) -> Vec<(u64, UsedFileSystem)> {
        let mut found = Vec::new();
        self.0.lock().used.retain(|device, uses| {
            let Some((directory, vfs)) = uses.open() else { return false };
            found.push((*device, UsedFileSystem { share: uses.share.clone(), directory, vfs }));
            true
        });
        found
    }

    /// Returns the names of shares whose directories have been being opened for at least this time.
    pub(super) fn waiting(&self, time: Duration) -> Vec<String> {
        let state = self.0.lock();
        let late = state.opening.values().filter(|(_, since)| since.elapsed() >= time);
        late.map(|(share, _)| share.clone()).collect()
    }
}

/// A directory that is being opened.
pub(super) struct Opening<'a> {
    all: &'a Unlisted,
    number: u64,
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.all.0.lock().opening.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ManualClock, volume};

    fn open(number: u64) -> Volume {
        (number, volume::new(Arc::new(ManualClock::ticking()), volume::options()))
    }

    #[test]
    fn a_file_system_is_known_while_a_volume_is_open() {
        let all = Unlisted::default();
        let home = |name: &str| Share::new(name, format!("/home/{name}"));
        let volumes: Vec<_> = (0..1000).map(|number| (number % 2, home(&number.to_string()), open(number))).collect();
        volumes.iter().for_each(|(device, share, volume)| all.add(*device, share, volume));
        let mut used = all.used();
        used.sort_by_key(|(device, _)| *device);
        assert_eq!(used.iter().map(|(device, it)| (*device, &*it.share)).collect::<Vec<_>>(), [(0, "0"), (1, "1")]);
        drop(used);
        let kept = volumes.into_iter().next().expect("a volume");
        let used = all.used();
        assert_eq!(used.len(), 1);
        assert_eq!((&*used[0].1.share, &*used[0].1.directory), ("0", std::path::Path::new("/home/0")));
        drop((used, kept));
        assert!(all.used().is_empty() && all.0.lock().used.is_empty());
    }

    #[test]
    fn closed_volumes_and_further_file_systems_take_no_space() {
        let all = Unlisted::default();
        let (share, kept) = (Share::new("s", "/s"), open(0));
        all.add(0, &share, &kept);
        for number in 1..10_000 {
            all.add(0, &share, &open(number));
        }
        let count = all.0.lock().used[&0].volumes.len();
        assert!(count <= 2 + SPARE, "{count}");
        let more = open(10_000);
        (0..10 * FILE_SYSTEMS as u64).for_each(|device| all.add(device, &share, &more));
        assert_eq!(all.used().len(), FILE_SYSTEMS);
        drop(more);
        all.add(1 << 20, &share, &kept);
        assert_eq!(all.used().len(), 2, "those that are not used make room");
    }

    #[test]
    fn a_volume_is_listed_once_whatever_number_of_tree_connects_use_it() {
        let all = Unlisted::default();
        let (share, kept) = (Share::new("s", "/s"), [open(1), open(2)]);
        for _ in 0..1000 {
            kept.iter().for_each(|volume| all.add(0, &share, volume));
        }
        assert_eq!(all.0.lock().used[&0].volumes.len(), 2);
    }

    #[test]
    fn what_is_being_opened_is_known_until_it_ends() {
        let all = Unlisted::default();
        let opening: Vec<_> = (0..2 * OPENINGS).filter_map(|_| all.opening(&Share::new("s", "/s"))).collect();
        assert_eq!((opening.len(), all.waiting(Duration::ZERO).len()), (OPENINGS, OPENINGS));
        assert!(all.waiting(Duration::from_secs(3600)).is_empty());
        drop(opening);
        assert!(all.waiting(Duration::ZERO).is_empty());
    }
}
