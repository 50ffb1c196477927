//! The limits that a run must meet.

use std::time::Duration;

use crate::outcome::Outcome;
use crate::vitals::Vitals;

/// The server's configured memory limit (`frevo:memory limit` in `smb.conf`).
pub(crate) const LIMIT: u64 = 256 << 20;
/// A tenth is tolerated everywhere: above the limit, and above the values before.
const TENTH: u64 = 10;
/// A server that has just started uses about 20 MiB. Its allocator keeps pages that were in use once, and memory that
/// it keeps per thread was not leaked by the attack.
const MEMORY_FLOOR: u64 = 16 << 20;
/// New clients connect and disconnect all the time, so some of their connections and files are open at any moment.
const DESCRIPTORS_FLOOR: u64 = 16;
/// Worker threads that are idle but have not ended. One user occupies up to 24 of a file system's: 12 in each of two
/// pools.
const THREADS_FLOOR: u64 = 48;

/// The limits of a run.
#[derive(Clone, Copy, Debug)]
pub struct Marks {
    /// Maximum of the victim's median.
    median: Option<Duration>,
    /// Maximum time of any request of the victim.
    worst: Duration,
    /// Maximum time that a new client needs to log on.
    newcomer: Duration,
    /// How long the server has to release the resources allocated for the attack.
    pub(crate) recovery: Duration,
    /// Whether memory and threads must be released too, or descriptors only.
    everything: bool,
}

impl Marks {
    /// Limits of the full run.
    pub const FULL: Marks = Marks {
        median: Some(Duration::from_millis(2)),
        worst: Duration::from_millis(100),
        newcomer: Duration::from_secs(1),
        recovery: Duration::from_secs(30),
        everything: true,
    };

    /// Limits of the brief run, on a machine with other load.
    pub const CI: Marks = Marks {
        median: None,
        worst: Duration::from_secs(1),
        newcomer: Duration::from_secs(1),
        recovery: Duration::from_secs(5),
        everything: false,
    };

    /// Returns whether the resources were released.
    pub(crate) fn recovered(&self, before: Vitals, now: Vitals) -> bool {
        self.left(before, now).is_empty()
    }

    fn left(&self, before: Vitals, now: Vitals) -> Vec<String> {
        let more = |before: u64, now: u64, floor: u64| now > before + (before / TENTH).max(floor);
        let mut left = Vec::new();
        if more(before.descriptors, now.descriptors, DESCRIPTORS_FLOOR) {
            left.push(format!("{} descriptors, {} before", now.descriptors, before.descriptors));
        }
        if self.everything && more(before.memory, now.memory, MEMORY_FLOOR) {
            left.push(format!("{} MiB of memory, {} before", now.memory >> 20, before.memory >> 20));
        }
        if self.everything && more(before.threads, now.threads, THREADS_FLOOR) {
            left.push(format!("{} threads, {} before", now.threads, before.threads));
        }
        left
    }

    /// Returns the violations of the limits.
    pub(crate) fn judge(&self, outcome: &Outcome, bounded: bool) -> Vec<String> {
        let mut wrong = Vec::new();
        let victim = &outcome.victim;
        let ms = |mark: Duration| mark.as_secs_f64() * 1000.0;
        if let Some(error) = &victim.error {
            wrong.push(format!("the victim: {error}"));
        }
        if victim.requests == 0 {
            wrong.push("no request of the victim was answered".into());
        }
        if let Some(mark) = self.median.filter(|mark| victim.median_ms > ms(*mark)) {
            wrong.push(format!("the victim's median is {:.2} ms, more than {mark:?}", victim.median_ms));
        }
        if victim.worst_ms > ms(self.worst) {
            let (took, what) = (victim.worst_ms, victim.worst_request);
            wrong.push(format!("a {what} of the victim took {took:.0} ms, more than {:?}", self.worst));
        }
        if victim.newcomer_worst_ms > ms(self.newcomer) {
            let (took, mark) = (victim.newcomer_worst_ms, self.newcomer);
            wrong.push(format!("a new client was logged on after {took:.0} ms, more than {mark:?}"));
        }
        let limit = LIMIT + LIMIT / TENTH;
        if bounded && outcome.peak.memory > limit {
            wrong.push(format!(
                "the server had {} MiB of memory, more than {}",
                outcome.peak.memory >> 20,
                limit >> 20
            ));
        }
        let left = self.left(outcome.before, outcome.after);
        if !left.is_empty() {
            wrong.push(format!("after {:?} the server still has {}", self.recovery, left.join(", ")));
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome() -> Outcome {
        let vitals = Vitals { memory: 20 << 20, descriptors: 30, threads: 10 };
        let mut outcome = Outcome { before: vitals, peak: vitals, after: vitals, ..Outcome::default() };
        outcome.victim.requests = 100;
        outcome.victim.median_ms = 0.3;
        outcome.victim.worst_ms = 50.0;
        outcome
    }

    /// Returns the number of violations of the changed outcome, in the full and in the brief run.
    fn wrong(change: impl Fn(&mut Outcome)) -> (usize, usize) {
        let mut outcome = outcome();
        change(&mut outcome);
        (Marks::FULL.judge(&outcome, true).len(), Marks::CI.judge(&outcome, true).len())
    }

    #[test]
    fn each_limit_is_checked() {
        assert_eq!(wrong(|_| {}), (0, 0));
        assert_eq!(wrong(|it| it.victim.requests = 0), (1, 1));
        assert_eq!(wrong(|it| it.victim.error = Some("closed".into())), (1, 1));
        assert_eq!(wrong(|it| it.victim.median_ms = 2.1), (1, 0));
        assert_eq!(wrong(|it| it.victim.worst_ms = 101.0), (1, 0));
        assert_eq!(wrong(|it| it.victim.worst_ms = 1001.0), (1, 1));
        assert_eq!(wrong(|it| it.victim.newcomer_worst_ms = 1001.0), (1, 1));
        assert_eq!(wrong(|it| it.peak.memory = 280 << 20), (0, 0));
        assert_eq!(wrong(|it| it.peak.memory = 283 << 20), (1, 1));
        assert_eq!(wrong(|it| it.after.memory = 40 << 20), (1, 0));
        assert_eq!(wrong(|it| it.after.threads = 60), (1, 0));
        assert_eq!(wrong(|it| it.after.descriptors = 47), (1, 1));
        assert_eq!(
            Marks::FULL
                .judge(&Outcome { peak: Vitals { memory: 1 << 40, ..Vitals::default() }, ..outcome() }, false)
                .len(),
            0
        );
    }
}
