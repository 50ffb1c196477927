//! What is known of volumes while they are open.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use crate::vfs::Vfs;

/// Entries of closed volumes are removed when there are twice as many entries as after the last time, and this number.
const SPARE: usize = 16;

/// A value for each open volume, by its number.
pub(super) struct ByVolume<T> {
    entries: HashMap<u64, (Weak<dyn Vfs>, T)>,
    /// The number of entries after those of closed volumes were last removed.
    swept: usize,
}

impl<T> Default for ByVolume<T> {
    fn default() -> Self {
        ByVolume { entries: HashMap::new(), swept: 0 }
    }
}

impl<T> ByVolume<T> {
    /// Returns the value for a volume, which `make` makes for a new one.
    pub(super) fn entry(&mut self, (number, vfs): (u64, &Arc<dyn Vfs>), make: impl FnOnce() -> T) -> &T {
        if self.entries.len() >= 2 * self.swept + SPARE && !self.entries.contains_key(&number) {
            self.entries.retain(|_, (vfs, _)| vfs.strong_count() > 0);
            self.swept = self.entries.len();
        }
        &self.entries.entry(number).or_insert_with(|| (Arc::downgrade(vfs), make())).1
    }

    /// Returns the values for the volumes that are open.
    pub(super) fn open(&self) -> impl Iterator<Item = &T> {
        self.entries.values().filter(|(vfs, _)| vfs.strong_count() > 0).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ManualClock, volume};

    fn open() -> Arc<dyn Vfs> {
        volume::new(Arc::new(ManualClock::ticking()), volume::options())
    }

    #[test]
    fn the_value_for_a_volume_stays_while_it_is_open() {
        let (mut all, kept) = (ByVolume::default(), open());
        assert_eq!(*all.entry((0, &kept), || 0), 0);
        for number in 1..1000 {
            assert_eq!(*all.entry((number, &open()), || number), number);
        }
        assert!(all.entries.len() <= 2 + SPARE, "{} are kept", all.entries.len());
        assert_eq!(*all.entry((0, &kept), || 1), 0);
        assert_eq!(all.open().collect::<Vec<_>>(), [&0]);
    }
}
