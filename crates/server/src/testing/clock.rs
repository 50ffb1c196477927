//! A clock that tests control, and reproducible random numbers.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use crate::environment::Environment;
use crate::vfs::Time;

/// The time when a clock starts, in seconds since 1970.
const START: i64 = 1_800_000_000;

/// A clock that stands still until a test advances it, with a counter as the source of random numbers. Runs with the
/// same requests are identical. Clones are the same clock.
#[derive(Clone, Default)]
pub struct ManualClock(Arc<State>);

#[derive(Default)]
struct State {
    /// Milliseconds since the start.
    elapsed: AtomicU64,
    random_numbers: AtomicU64,
    ticks: bool,
}

impl ManualClock {
    /// Returns a clock that stands still. A timer completes once the test has advanced the clock to its end.
    pub fn new() -> ManualClock {
        ManualClock::default()
    }

    /// Returns a clock that advances by one second when the time is read, and whose timers complete at once.
    pub fn ticking() -> ManualClock {
        ManualClock(Arc::new(State { ticks: true, ..State::default() }))
    }

    /// Advances the clock.
    pub fn advance(&self, duration: Duration) {
        self.0.elapsed.fetch_add(duration.as_millis() as u64, Ordering::Relaxed);
    }
}

impl Environment for ManualClock {
    fn now(&self) -> Time {
        let tick = if self.0.ticks { 1_000 } else { 0 };
        let elapsed = self.0.elapsed.fetch_add(tick, Ordering::Relaxed);
        Time { secs: START + (elapsed / 1_000) as i64, nanos: (elapsed % 1_000) as u32 * 1_000_000 }
    }

    fn uptime(&self) -> Duration {
        Duration::from_millis(self.0.elapsed.load(Ordering::Relaxed))
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (clock, end) = (self.clone(), self.uptime() + duration);
        Box::pin(std::future::poll_fn(move |_| match clock.0.ticks || clock.uptime() >= end {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }))
    }

    fn random(&self, bytes: &mut [u8]) {
        let count = self.0.random_numbers.fetch_add(1, Ordering::Relaxed) + 1;
        let number = count.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        bytes.iter_mut().zip(number.into_iter().cycle()).for_each(|(byte, random)| *byte = random);
    }
}
