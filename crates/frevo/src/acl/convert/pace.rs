//! How fast files are converted.

use std::time::{Duration, Instant};

/// Work after which it is worth a rest: shorter rests last longer than they should.
const WORTH: Duration = Duration::from_millis(2);

/// The longest rest, so that a stop is heeded soon.
const LONGEST: Duration = Duration::from_millis(500);

/// The pace.
pub(super) struct Pace {
    rate: Rate,
    begun: Instant,
    working: Instant,
    /// Work that no rest was taken for.
    worked: Duration,
}

enum Rate {
    /// As fast as it goes.
    Unbounded,
    /// As much rest as work.
    Half,
    /// So many a second.
    Fixed(f64),
}

impl Pace {
    /// At most `rate` files a second, without bounds where that is 0, and half of the time without one.
    pub(super) fn new(rate: Option<f64>) -> Pace {
        let rate = match rate {
            None => Rate::Half,
            Some(rate) if rate > 0.0 => Rate::Fixed(rate),
            Some(_) => Rate::Unbounded,
        };
        let now = Instant::now();
        Pace { rate, begun: now, working: now, worked: Duration::ZERO }
    }

    /// Work on a file begins.
    pub(super) fn begin(&mut self) {
        self.working = Instant::now();
    }

    /// It is done, the one with the number `count`: how long to rest.
    pub(super) fn end(&mut self, count: u64) -> Duration {
        let rest = match self.rate {
            Rate::Unbounded => Duration::ZERO,
            Rate::Half => {
                self.worked += self.working.elapsed();
                self.worked
            }
            Rate::Fixed(rate) => {
                let due = Duration::try_from_secs_f64(count as f64 / rate).unwrap_or(Duration::MAX);
                due.saturating_sub(self.begun.elapsed())
            }
        };
        if rest < WORTH {
            return Duration::ZERO;
        }
        self.worked = Duration::ZERO;
        rest.min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests() {
        let mut unbounded = Pace::new(Some(0.0));
        unbounded.begin();
        assert_eq!(unbounded.end(1_000_000), Duration::ZERO);
        // The first of one a second is due in a second, which is rested for in parts.
        assert_eq!(Pace::new(Some(1.0)).end(1), LONGEST);
        assert_eq!(Pace::new(Some(1e-300)).end(1), LONGEST);
        let mut half = Pace::new(None);
        half.worked = Duration::from_millis(40);
        half.begin();
        assert!(half.end(1) >= Duration::from_millis(40));
        assert_eq!(half.worked, Duration::ZERO);
    }
}
