//! The real [`Environment`]: this machine's clocks, tokio's timer, and random numbers from the cryptographic library.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use server::environment::Environment;
use server::vfs::Time;

/// The real clocks, timer and random numbers.
pub struct SystemEnvironment {
    started: Instant,
}

impl SystemEnvironment {
    /// Creates an environment whose [`Environment::uptime`] starts now.
    pub fn new() -> Self {
        SystemEnvironment { started: Instant::now() }
    }
}

impl Default for SystemEnvironment {
    fn default() -> Self {
        Self::new()
    }
}

impl Environment for SystemEnvironment {
    fn now(&self) -> Time {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => Time { secs: i64::try_from(since.as_secs()).unwrap_or(i64::MAX), nanos: since.subsec_nanos() },
            // A clock before 1970 was never set.
            Err(_) => Time::default(),
        }
    }

    fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(duration))
    }

    fn random(&self, bytes: &mut [u8]) {
        // The server must not continue with predictable challenges, keys or nonces.
        aws_lc_rs::rand::fill(bytes)
            .expect("the random generator seeds itself from the kernel at start and never fails");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_advances_and_random_bytes_differ() {
        let environment = SystemEnvironment::new();
        let (uptime, now) = (environment.uptime(), environment.now());
        assert!(environment.uptime() >= uptime);
        assert!(now.secs > 1_600_000_000 && now.nanos < 1_000_000_000);
        let (mut one, mut other) = ([0; 32], [0; 32]);
        environment.random(&mut one);
        environment.random(&mut other);
        assert_ne!(one, other);
    }

    #[tokio::test(start_paused = true)]
    async fn sleep_ends() {
        let before = tokio::time::Instant::now();
        SystemEnvironment::new().sleep(Duration::from_secs(3)).await;
        assert!(before.elapsed() >= Duration::from_secs(3));
    }
}
