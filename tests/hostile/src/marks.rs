//! What a run is held to.

use std::time::Duration;

use crate::outcome::Outcome;
use crate::vitals::Vitals;

/// The memory that the server is configured to use at most (`frevo:memory limit` in `smb.conf`).
pub(crate) const LIMIT: u64 = 256 << 20;
/// A tenth is allowed everywhere: above the limit, and above what there was before.
const TENTH: u64 = 10;
/// A server that just started has some 20 MiB, and its allocator keeps pages that were in use once: what it keeps for each
/// processor's thread is not what the attack left behind.
const MEMORY_FLOOR: u64 = 16 << 20;
/// New clients come and go all the time: some of their connections and files are just open.
const DESCRIPTORS_FLOOR: u64 = 16;
/// Each file system has up to 24 threads for two kinds of work, made when they are first needed and kept.
const THREADS_FLOOR: u64 = 48;

/// The marks of a run.
#[derive(Clone, Copy, Debug)]
pub struct Marks {
    /// The longest that the victim's median may be.
    median: Option<Duration>,
    /// The longest that any request of the victim may take.
    worst: Duration,
    /// The longest that a new client may need to be logged on.
    newcomer: Duration,
    /// How long the server has to give back what the attack made it take.
    pub(crate) recovery: Duration,
    /// Whether memory and threads must be given back, or descriptors alone.
    everything: bool,
}

impl Marks {
    /// Of the long run.
    pub const FULL: Marks = Marks {
        median: Some(Duration::from_millis(2)),
        worst: Duration::from_millis(100),
        newcomer: Duration::from_secs(1),
        recovery: Duration::from_secs(30),
        everything: true,
    };

    /// Of the short run, on a machine where other things go on.
    pub const CI: Marks = Marks {
        median: None,
        worst: Duration::from_secs(1),
        newcomer: Duration::from_secs(1),
        recovery: Duration::from_secs(5),
        everything: false,
    };

    /// Whether what was taken is given back.
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

    /// What is above the marks.
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

    /// How often the outcome, changed so, is above the marks: in full and in brief.
    fn wrong(change: impl Fn(&mut Outcome)) -> (usize, usize) {
        let mut outcome = outcome();
        change(&mut outcome);
        (Marks::FULL.judge(&outcome, true).len(), Marks::CI.judge(&outcome, true).len())
    }

    #[test]
    fn each_mark_is_held() {
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
