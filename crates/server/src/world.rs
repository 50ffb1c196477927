//! What the server needs of the world besides files and accounts: time, timers and randomness.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::vfs::Time;

/// The clock and the dice. The daemon gives the real ones, a simulation gives its own.
pub trait World: Send + Sync {
    /// The wall clock, for time stamps and for the clock of NTLM.
    fn now(&self) -> Time;

    /// Time since some fixed moment, never going back; for deadlines.
    fn uptime(&self) -> Duration;

    /// Ends after `duration`.
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Fills `bytes` from a cryptographic source.
    fn random(&self, bytes: &mut [u8]);
}
