//! The watchdog, and the status text.

use std::time::Duration;

use tokio::time::MissedTickBehavior;

use super::Notifier;

/// How often the status text is updated.
const STATUS_INTERVAL: Duration = Duration::from_secs(10);

/// Returns the time after which the service manager kills this process if it hears nothing; `None` if it does not
/// watch this process.
pub fn watchdog_time() -> Option<Duration> {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    watchdog(number("WATCHDOG_USEC"), number("WATCHDOG_PID"), std::process::id())
}

pub(super) fn watchdog(microseconds: Option<u64>, of: Option<u64>, own: u32) -> Option<Duration> {
    let is_own = of.is_none_or(|process| process == u64::from(own));
    microseconds.filter(|&time| time > 0 && is_own).map(Duration::from_micros)
}

/// Updates the status text if it changes and, at half of the time of the watchdog, reports that the server is alive.
/// Never returns.
///
/// The task proceeds only while its runtime executes tasks and timers. `status` locks the table that every new
/// connection locks, and `answers` waits until the event loops execute a task. If one of these is blocked, the reports
/// cease.
pub async fn report<F: Future<Output = ()> + Send>(
    notifier: Notifier,
    watchdog: Option<Duration>,
    status: impl Fn() -> String,
    answers: impl Fn() -> F,
) {
    if !notifier.is_heard() {
        return std::future::pending().await;
    }
    let period = watchdog.map_or(STATUS_INTERVAL, |time| (time / 2).min(STATUS_INTERVAL));
    let mut ticks = tokio::time::interval(period.max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = status();
    loop {
        ticks.tick().await;
        let now = status();
        if now != last {
            notifier.status(&now);
            last = now;
        }
        if watchdog.is_some() {
            answers().await;
            notifier.alive();
        }
    }
}
