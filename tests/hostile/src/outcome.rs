//! The outcome of one attack.

use serde::Serialize;

use crate::scene::Effort;
use crate::victim::VictimResult;
use crate::vitals::Vitals;

/// One attack and its effects.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    /// Its name.
    pub name: &'static str,
    /// The victim's measurements during the attack.
    pub victim: VictimResult,
    /// The server before the attack, with the victim working.
    pub before: Vitals,
    /// The maximum during the attack.
    pub peak: Vitals,
    /// The server after it had released the attack's resources, or when the time for that was over.
    pub after: Vitals,
    /// Duration of the release, seconds.
    pub recovery: f64,
    /// Processor time of the server during the attack, seconds.
    pub cpu: f64,
    /// Duration of the attack, seconds.
    pub seconds: f64,
    /// Statistics of the attackers.
    pub effort: Effort,
    /// Violations of the limits; empty if there are none.
    pub wrong: Vec<String>,
}

impl Outcome {
    /// Returns the heading for the lines of [`Outcome::line`].
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

    /// Returns the figures in one line; descriptors and threads are given before, at the maximum, and after.
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
