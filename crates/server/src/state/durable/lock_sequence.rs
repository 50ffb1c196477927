//! Detection of LOCK requests that a client repeats because it has not received the response: `Open.LockSequenceArray`
//! ([MS-SMB2] 3.3.1.10, 3.3.5.14).

use parking_lot::Mutex;

/// Number of requests in flight per client whose repetitions are detected.
pub(super) const ENTRIES: usize = 64;
/// An invalid entry; valid numbers have four bits.
const INVALID: u8 = 0xff;

/// The sequence numbers of executed LOCK requests, allocated when the first one is executed.
#[derive(Default)]
pub struct LockSequences(Mutex<Option<Box<[u8; ENTRIES]>>>);

impl LockSequences {
    /// Registers a received LOCK with this index and number. Returns `true` if it was executed before.
    pub(crate) fn is_repeated(&self, index: u32, number: u8) -> bool {
        let mut entries = self.0.lock();
        let entry = entries.as_mut().and_then(|entries| entries.get_mut(Self::place(index)?));
        match entry {
            Some(entry) if *entry == number => true,
            Some(entry) => {
                *entry = INVALID;
                false
            }
            None => false,
        }
    }

    /// Records that the LOCK with this index and number was executed.
    pub(crate) fn executed(&self, index: u32, number: u8) {
        let Some(place) = Self::place(index) else { return };
        let mut entries = self.0.lock();
        let entries = entries.get_or_insert_with(|| Box::new([INVALID; ENTRIES]));
        if let Some(entry) = entries.get_mut(place) {
            *entry = number;
        }
    }

    /// Records that the LOCK with this index was not executed after all.
    pub(crate) fn forget(&self, index: u32) {
        let mut entries = self.0.lock();
        if let Some(entry) = entries.as_mut().and_then(|entries| entries.get_mut(Self::place(index)?)) {
            *entry = INVALID;
        }
    }

    /// Returns all entries; 255 for invalid ones.
    pub(crate) fn all(&self) -> [u8; ENTRIES] {
        self.0.lock().as_deref().copied().unwrap_or([INVALID; ENTRIES])
    }

    /// Restores the result of [`LockSequences::all`].
    pub(crate) fn restore(&self, entries: [u8; ENTRIES]) {
        *self.0.lock() = Some(Box::new(entries));
    }

    /// Indices begin with 1. Index 0 and those beyond the last are not valid.
    fn place(index: u32) -> Option<usize> {
        usize::try_from(index.checked_sub(1)?).ok().filter(|place| *place < ENTRIES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_number_is_stored_until_the_next_one() {
        let sequences = LockSequences::default();
        assert!(!sequences.is_repeated(1, 5));
        sequences.executed(1, 5);
        for (index, number, repeated) in [(1, 5, true), (2, 5, false), (1, 6, false), (1, 5, false)] {
            assert_eq!(sequences.is_repeated(index, number), repeated, "{index} {number}");
        }
    }

    #[test]
    fn only_indices_from_1_to_64_are_valid() {
        let sequences = LockSequences::default();
        for (index, counts) in [(0, false), (1, true), (64, true), (65, false), (u32::MAX, false)] {
            sequences.executed(index, 3);
            assert_eq!(sequences.is_repeated(index, 3), counts, "{index}");
        }
        sequences.forget(1);
        assert!(!sequences.is_repeated(1, 3));
        let again = LockSequences::default();
        again.restore(sequences.all());
        assert!(again.is_repeated(64, 3) && !again.is_repeated(63, 3));
    }
}
