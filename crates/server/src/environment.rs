//! What the server needs from its environment besides files and user accounts: time, timers and random numbers.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::vfs::Time;

/// Clock, timers and random numbers. The daemon supplies the real ones, a simulation its own.
pub trait Environment: Send + Sync {
    /// Returns the wall-clock time, for time stamps and NTLM.
    fn now(&self) -> Time;

    /// Returns the time since a fixed moment; monotonic. For deadlines.
    fn uptime(&self) -> Duration;

    /// Completes after `duration`.
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Fills `bytes` from a cryptographically secure source.
    fn random(&self, bytes: &mut [u8]);
}
