//! What came of one attack.

use serde::Serialize;

use crate::scene::Effort;
use crate::victim::Suffering;
use crate::vitals::Vitals;

/// One attack and what it did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    /// Its name.
    pub name: &'static str,
    /// The victim meanwhile.
    pub victim: Suffering,
    /// The server before the attack, with the victim at work.
    pub before: Vitals,
    /// The most that it had.
    pub peak: Vitals,
    /// When the attack was over and what it took was given back, or the time for that was over.
    pub after: Vitals,
    /// How long that took, seconds.
    pub recovery: f64,
    /// Processor time of the server during the attack, seconds.
    pub cpu: f64,
    /// How long the attack took, seconds.
    pub seconds: f64,
    /// What the attackers did.
    pub effort: Effort,
    /// What is above the marks; empty when all is well.
    pub wrong: Vec<String>,
}

impl Outcome {
    /// The line above those of [`Outcome::line`].
    pub fn headings() -> String {
        format!(
            "{:<26} {:>9} {:>9} {:>9} {:>9} {:>7} {:>13} {:>13} {:>9} {:>9}",
            "attack",
            "median ms",
            "worst ms",
            "logon ms",
            "peak MiB",
            "CPU %",
            "descriptors",
            "threads",
            "back in s",
            "requests"
        )
    }

    /// The figures in one line; descriptors and threads before, at the most, and after.
    pub fn line(&self) -> String {
        let three =
            |value: fn(&Vitals) -> u64| format!("{}/{}/{}", value(&self.before), value(&self.peak), value(&self.after));
        format!(
            "{:<26} {:>9.2} {:>9.1} {:>9.1} {:>9} {:>7.0} {:>13} {:>13} {:>9.1} {:>9}",
            self.name,
            self.victim.median_ms,
            self.victim.worst_ms,
            self.victim.newcomer_worst_ms,
            self.peak.memory >> 20,
            100.0 * self.cpu / self.seconds.max(0.001),
            three(|vitals| vitals.descriptors),
            three(|vitals| vitals.threads),
            self.recovery,
            self.effort.requests,
        )
    }
}
