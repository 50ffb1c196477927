//! Limits on how often a sender is answered, so that the server cannot be used as an amplifier.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// The most senders that are known at a time.
pub(crate) const MAX_SENDERS: usize = 256;
/// The datagrams that a sender gets at once: ten replies of WS-Discovery with their repetitions.
pub(crate) const BURST: u32 = 30;
/// A sender gets one further datagram after this time.
pub(crate) const INTERVAL: Duration = Duration::from_millis(167);

/// A token bucket per sender.
///
/// A bucket is stored as the time at which it will be full. A full bucket is the same as an unknown sender.
#[derive(Debug, Default)]
pub(crate) struct Buckets {
    full_at: HashMap<IpAddr, Instant>,
}

impl Buckets {
    /// Takes `count` tokens of a sender, or none if they are too few.
    ///
    /// A sender is refused if there is no place for its bucket. A forger of addresses thereby gets no more than
    /// [`MAX_SENDERS`] buckets, and others wait until one is full again, at most [`BURST`] times [`INTERVAL`].
    pub(crate) fn take(&mut self, now: Instant, sender: IpAddr, count: u32) -> bool {
        let sender = sender.to_canonical();
        if self.full_at.len() >= MAX_SENDERS && !self.full_at.contains_key(&sender) {
            self.full_at.retain(|_, full_at| *full_at > now);
            if self.full_at.len() >= MAX_SENDERS {
                return false;
            }
        }
        let full_at = self.full_at.get(&sender).copied().unwrap_or(now).max(now);
        let Some(later) = INTERVAL.checked_mul(count).and_then(|taken| full_at.checked_add(taken)) else {
            return false;
        };
        if later.saturating_duration_since(now) > INTERVAL * BURST {
            return false;
        }
        self.full_at.insert(sender, later);
        true
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.full_at.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn sender(number: usize) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + u32::try_from(number).unwrap()))
    }

    #[test]
    fn a_bucket_empties_and_fills() {
        let mut buckets = Buckets::default();
        let now = Instant::now();
        let taken = (0..100).filter(|_| buckets.take(now, sender(1), 3)).count();
        assert_eq!(taken, 10);
        assert!(buckets.take(now, sender(2), 3));
        assert!(!buckets.take(now + INTERVAL * 2, sender(1), 3));
        assert!(buckets.take(now + INTERVAL * 3, sender(1), 3));
        let later = now + INTERVAL * (BURST * 2);
        assert_eq!((0..100).filter(|_| buckets.take(later, sender(1), 3)).count(), 10);
    }

    #[test]
    fn the_table_is_bounded_and_is_free_again() {
        let mut buckets = Buckets::default();
        let now = Instant::now();
        let taken = (0..1000).filter(|number| buckets.take(now, sender(*number), 3)).count();
        assert_eq!((taken, buckets.len()), (MAX_SENDERS, MAX_SENDERS));
        assert!(buckets.take(now, sender(0), 3));
        let later = now + INTERVAL * 3;
        assert!(buckets.take(later, sender(5000), 3));
        assert_eq!(buckets.len(), 2);
    }
}
