//! Rate control of the conversion.

use std::time::{Duration, Instant};

/// Minimum sleep. Shorter sleeps take longer than requested.
const WORTH: Duration = Duration::from_millis(2);

/// Maximum sleep, so that a stop is noticed soon.
const LONGEST: Duration = Duration::from_millis(500);

/// The rate controller.
pub(super) struct Pace {
    rate: Rate,
    begun: Instant,
    working: Instant,
    /// Work time for which no sleep has been taken yet.
    worked: Duration,
}

enum Rate {
    /// No limit.
    Unbounded,
    /// Sleeps as long as it works.
    Half,
    /// A fixed number of files per second.
    Fixed(f64),
}

impl Pace {
    /// Creates a controller for at most `rate` files per second. 0 means no limit; `None` means working half of the
    /// time.
    pub(super) fn new(rate: Option<f64>) -> Pace {
        let rate = match rate {
            None => Rate::Half,
            Some(rate) if rate > 0.0 => Rate::Fixed(rate),
            Some(_) => Rate::Unbounded,
        };
        let now = Instant::now();
        Pace { rate, begun: now, working: now, worked: Duration::ZERO }
    }

    /// Marks the start of work on a file.
    pub(super) fn begin(&mut self) {
        self.working = Instant::now();
    }

    /// Marks the end of work on file number `count`. Returns how long to sleep.
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
    fn pauses_follow_the_rate() {
        let mut unbounded = Pace::new(Some(0.0));
        unbounded.begin();
        assert_eq!(unbounded.end(1_000_000), Duration::ZERO);
        // The first file at one per second is due after a second; the sleep is split into parts.
        assert_eq!(Pace::new(Some(1.0)).end(1), LONGEST);
        assert_eq!(Pace::new(Some(1e-300)).end(1), LONGEST);
        let mut half = Pace::new(None);
        half.worked = Duration::from_millis(40);
        half.begin();
        assert!(half.end(1) >= Duration::from_millis(40));
        assert_eq!(half.worked, Duration::ZERO);
    }
}
