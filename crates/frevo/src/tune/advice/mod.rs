//! What to change, computed from the measurements and the configuration. Nothing here reads the host.

mod cryptography;
mod host;
mod network;
mod storage;
#[cfg(test)]
mod tests;

use report::units;
use serde::Serialize;
use server::policy::{Policy, Share};
use smbconf::Daemon;

use super::measurements::Measurements;

/// Everything that advice depends on.
pub(super) struct Facts<'f> {
    pub(super) measured: &'f Measurements,
    pub(super) policy: &'f Policy,
    pub(super) daemon: &'f Daemon,
    pub(super) share: &'f Share,
}

/// Where a setting is made.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "snake_case")]
pub(super) enum Location {
    /// In `[global]` of smb.conf.
    Global,
    /// In the section of the share.
    Share,
    /// In the kernel, by sysctl(8).
    Sysctl,
    /// In a file of the kernel's `/sys`, written by systemd-tmpfiles(8).
    Sysfs,
    /// In the unit of the service.
    Unit,
}

/// One change that is recommended.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub(super) struct Advice {
    pub(super) setting: String,
    pub(super) location: Location,
    pub(super) current: String,
    pub(super) recommended: String,
    /// The line to write.
    pub(super) line: String,
    /// What was measured or read.
    pub(super) because: String,
    /// What the change is expected to do.
    pub(super) effect: String,
}

impl Advice {
    /// Creates advice whose line is `setting = recommended`.
    fn new(location: Location, setting: &str, current: impl ToString, recommended: impl ToString) -> Advice {
        let (current, recommended) = (current.to_string(), recommended.to_string());
        let line = format!("{setting} = {recommended}");
        let (because, effect) = Default::default();
        Advice { setting: setting.to_owned(), location, current, recommended, line, because, effect }
    }

    fn because(self, because: impl Into<String>) -> Advice {
        Advice { because: because.into(), ..self }
    }

    fn effect(self, effect: impl Into<String>) -> Advice {
        Advice { effect: effect.into(), ..self }
    }
}

/// The result: changes, and findings that no setting changes.
#[derive(Clone, PartialEq, Default, Serialize, Debug)]
pub(super) struct Report {
    pub(super) recommendations: Vec<Advice>,
    pub(super) notes: Vec<String>,
}

impl Report {
    fn recommend(&mut self, advice: Advice) {
        self.recommendations.push(advice);
    }

    fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }
}

/// Returns what to change.
pub(super) fn advise(facts: &Facts<'_>) -> Report {
    let mut advised = Report::default();
    storage::advise(facts, &mut advised);
    network::advise(facts, &mut advised);
    cryptography::advise(facts, &mut advised);
    host::advise(facts, &mut advised);
    advised
}

/// Formats the speed of a link.
pub(super) fn bits(per_second: f64) -> String {
    let (value, unit) = if per_second >= 1e9 { (per_second / 1e9, "Gbit/s") } else { (per_second / 1e6, "Mbit/s") };
    format!("{} {unit}", units::number(value))
}

/// The word for a boolean in smb.conf.
fn yes_or_no(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}
