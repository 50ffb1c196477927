//! Time limits for clients that do not read their responses or do not complete their requests.

use std::pin::Pin;
use std::time::Duration;

use server::error::Disconnect;
use server::policy::Limits;
use tokio::time::{Instant, Sleep};

/// Number of checks of a connection per `Limits::stall_time`.
const LOOKS: u32 = 4;

/// Watches one connection while a request or response is incomplete.
pub(crate) struct Progress {
    stall_time: Duration,
    slowest_request: usize,
    /// Set while something is incomplete. An idle connection has no timer.
    timer: Option<Pin<Box<Sleep>>>,
    sending: bool,
    /// The number of bytes sent, and how many checks in a row found it unchanged.
    sent: (u64, u32),
    receiving: Option<Receiving>,
}

/// An incomplete request.
struct Receiving {
    number: u64,
    /// For how long the server was ready to receive it, until it was not.
    waited: Duration,
    /// Since when the server is ready to receive more of it.
    since: Option<Instant>,
}

impl Receiving {
    fn waited(&self) -> Duration {
        self.waited + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

impl Progress {
    pub(crate) fn new(limits: &Limits) -> Progress {
        let (stall_time, slowest_request) = (limits.stall_time, limits.slowest_request.max(1));
        Progress { stall_time, slowest_request, timer: None, sending: false, sent: (0, 0), receiving: None }
    }

    /// Reports whether a response has been sent in part (`sending`), and the number of the request that has arrived in
    /// part, if any (`receiving`). Time in which the server is not ready to receive (`ready`) does not count.
    pub(crate) fn expect(&mut self, sending: bool, receiving: Option<u64>, ready: bool) {
        self.sending = sending;
        if receiving != self.receiving.as_ref().map(|request| request.number) {
            self.receiving = receiving.map(|number| Receiving { number, waited: Duration::ZERO, since: None });
        }
        if let Some(request) = &mut self.receiving
            && ready != request.since.is_some()
        {
            request.waited = request.waited();
            request.since = ready.then(Instant::now);
        }
        if self.timer.is_none() && (sending || receiving.is_some()) {
            self.timer = Some(Box::pin(tokio::time::sleep(self.stall_time / LOOKS)));
        }
    }

    /// Waits until the next check is due.
    pub(crate) async fn time_is_up(&mut self) {
        match &mut self.timer {
            Some(timer) => timer.await,
            None => std::future::pending().await,
        }
    }

    /// Returns why the connection must be ended, if so. `sent` is the total number of bytes sent, `received` the size
    /// of the incomplete request so far.
    pub(crate) fn judge(&mut self, sent: u64, received: usize) -> Option<Disconnect> {
        self.timer = None;
        let stalls = if sent == self.sent.0 && self.sending { self.sent.1 + 1 } else { 0 };
        self.sent = (sent, stalls);
        if stalls >= LOOKS {
            return Some(Disconnect("the client does not read its responses"));
        }
        let allowed = self.stall_time + Duration::from_secs((received / self.slowest_request) as u64);
        match &self.receiving {
            Some(request) if request.waited() > allowed => Some(Disconnect("the client does not complete its request")),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress() -> Progress {
        Progress::new(&Limits { stall_time: Duration::from_secs(60), slowest_request: 1000, ..Limits::default() })
    }

    async fn look(progress: &mut Progress) {
        progress.time_is_up().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_for_a_minute_is_too_slow() {
        let mut progress = progress();
        for sent in [10, 10, 10, 20, 20, 20, 20] {
            progress.expect(true, None, true);
            look(&mut progress).await;
            assert_eq!(progress.judge(sent, 0), None, "{sent}");
        }
        progress.expect(true, None, true);
        look(&mut progress).await;
        assert!(progress.judge(20, 0).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_limit_of_a_request_grows_with_its_received_bytes() {
        for (received, seconds) in [(1, 75), (100_000, 165)] {
            let (mut progress, began) = (progress(), Instant::now());
            let ended = loop {
                progress.expect(false, Some(1), true);
                look(&mut progress).await;
                if progress.judge(0, received).is_some() {
                    break began.elapsed();
                }
            };
            assert_eq!(ended.as_secs(), seconds, "{received} bytes");
        }
        let mut progress = progress();
        for request in 0..100 {
            progress.expect(false, Some(request), true);
            look(&mut progress).await;
            assert_eq!(progress.judge(0, 10), None, "each is a separate request");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn time_in_which_the_server_does_not_receive_is_not_the_client_s() {
        let mut progress = progress();
        for (seconds, ready) in [(50, true), (1000, false), (5, true), (1000, false)] {
            progress.expect(false, Some(1), ready);
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            assert_eq!(progress.judge(0, 0), None, "{seconds} {ready}");
        }
        progress.expect(false, Some(1), true);
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert!(progress.judge(0, 0).is_some(), "61 seconds in all");
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_has_no_timer() {
        let mut progress = progress();
        progress.expect(false, None, true);
        assert!(progress.timer.is_none());
        assert!(tokio::time::timeout(Duration::from_secs(600), progress.time_is_up()).await.is_err());
    }
}
