//! The command sequence window: the MessageIds that the client may use, and its credits ([MS-SMB2] 3.3.1.1, 3.3.1.2,
//! 3.3.5.2.3).
//!
//! Each granted credit is one MessageId. Each id is used once, in any order. The window's size is bounded by `smb2 max
//! credits`, relative to the lowest unused id. A client that never uses an id therefore gets no further credits, and
//! the bitmap of used ids stays small.

use std::collections::VecDeque;

/// The ids from `low` up to `high`, except those already used.
#[derive(Debug)]
pub(crate) struct Window {
    /// The lowest id not yet used.
    low: u64,
    /// The first id not yet granted.
    high: u64,
    /// One bit for each id from `low` rounded down to a multiple of 64; set if the id is used.
    used: VecDeque<u64>,
    /// The maximum number of ids between `low` and `high`.
    max: u64,
}

impl Window {
    /// A new connection may use MessageId 0 ([MS-SMB2] 3.3.1.1).
    pub(crate) fn new(max: u16) -> Self {
        Window { low: 0, high: 1, used: VecDeque::from([0]), max: u64::from(max.max(1)) }
    }

    /// Consumes `charge` ids starting at `first`; returns `false`, with none consumed, unless all are granted and
    /// unused.
    pub(crate) fn charge(&mut self, first: u64, charge: u16) -> bool {
        let Some(end) = first.checked_add(u64::from(charge.max(1))) else { return false };
        if first < self.low || end > self.high || (first..end).any(|id| self.is_used(id)) {
            return false;
        }
        for id in first..end {
            let (word, bit) = self.place(id);
            self.used[word] |= 1 << bit;
        }
        while self.low < self.high && self.is_used(self.low) {
            self.low += 1;
            if self.low.is_multiple_of(64) {
                self.used.pop_front();
            }
        }
        true
    }

    /// Grants up to `wanted` further credits and returns the number; at least one if the client would otherwise have
    /// none.
    pub(crate) fn grant(&mut self, wanted: u16) -> u16 {
        let space = self.max - (self.high - self.low).min(self.max);
        let granted = u64::from(wanted).min(space).max(u64::from(self.high == self.low));
        self.high += granted;
        let words = (self.high.div_ceil(64) - self.low / 64) as usize;
        if self.used.len() < words {
            self.used.resize(words, 0);
        }
        granted as u16
    }

    /// Changes the bound, such as after a logon. Granted credits stay valid.
    pub(crate) fn set_max(&mut self, max: u16) {
        self.max = u64::from(max.max(1));
    }

    fn place(&self, id: u64) -> (usize, u32) {
        ((id / 64 - self.low / 64) as usize, (id % 64) as u32)
    }

    fn is_used(&self, id: u64) -> bool {
        let (word, bit) = self.place(id);
        self.used.get(word).is_some_and(|word| word & (1 << bit) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_granted_id_is_used_once() {
        let mut window = Window::new(512);
        assert!(!window.charge(1, 1), "not granted");
        assert!(window.charge(0, 1));
        assert!(!window.charge(0, 1), "used");
        assert_eq!(window.grant(10), 10);
        assert!(window.charge(3, 4), "3 to 6");
        assert!(!window.charge(5, 1) && !window.charge(2, 2) && !window.charge(10, 2));
        assert!(window.charge(1, 2) && window.charge(7, 4));
        assert!(!window.charge(11, 1));
    }

    #[test]
    fn a_client_always_has_a_credit_and_never_more_than_the_maximum() {
        let mut window = Window::new(8);
        assert!(window.charge(0, 1));
        assert_eq!(window.grant(0), 1);
        assert_eq!(window.grant(100), 7);
        assert_eq!(window.grant(100), 0);
        assert!(window.charge(2, 7), "all but the lowest");
        assert_eq!(window.grant(100), 0, "the lowest id still holds the window");
        assert!(window.charge(1, 1));
        assert_eq!(window.grant(100), 8);
    }

    #[test]
    fn a_long_lived_window_stays_small() {
        let mut window = Window::new(8192);
        for id in 0..100_000u64 {
            assert!(window.charge(id, 1), "{id}");
            assert!(window.grant(2) >= 1);
        }
        assert!(window.used.len() <= 8192 / 64 + 2);
        assert!(!window.charge(u64::MAX, 1) && !window.charge(u64::MAX - 1, 4));
    }
}
