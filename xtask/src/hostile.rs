//! `cargo xtask hostile`: runs attacks on a server and checks the results against limits.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use hostile::{Marks, Outcome};
use test_environment::{Counts, Target};

use crate::expected;

/// Explanation of the output.
pub(crate) const RESULTS: &str = "\
Columns: the victim's median and worst time of a request, the worst logon of a new client, the server's highest resident
memory, its processor time in percent of one processor, its descriptors and threads before/maximum/after, how long it
took to release them, and how many requests the attackers sent.

Limits: median 2 ms, worst 100 ms, a logon within 1 s, memory within the configured limit plus 10 %, and within 30 s
after the attack memory, descriptors and threads as before plus 10 %. With --ci: every request and logon within 1 s,
memory within the limit, descriptors as before within 5 s; attacks listed in expected-failures/hostile.txt are expected
to fail.

Exit status: 0 all attacks within the limits, or with --ci as expected; 1 otherwise; 2 the run was not possible; 130
interrupted.";

/// Duration of each attack in the short form, in seconds.
const BRIEF: u64 = 2;
/// Duration of each attack in the full form, in seconds.
const FULL: u64 = 10;

/// Options of `cargo xtask hostile`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run only attacks whose name contains one of these words
    names: Vec<String>,
    /// Server to attack: frevo (target/release/frevo) or samba (Debian's smbd), for comparison
    #[arg(long, default_value = "frevo")]
    pub(crate) target: Target,
    /// Duration of each attack in seconds [default: 10; with --ci 2]
    #[arg(long)]
    seconds: Option<u64>,
    /// Short form: less time, smaller directories, and limits that a busy machine can meet
    #[arg(long)]
    ci: bool,
    /// Write the measurements to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// Only print the names of the attacks and what each does
    #[arg(long)]
    pub(crate) list: bool,
}

impl Options {
    /// Returns the options of the short form with all attacks.
    pub(crate) fn brief() -> Options {
        let (names, seconds, json) = (Vec::new(), None, None);
        Options { names, target: Target::Frevo, seconds, ci: true, json, list: false }
    }

    /// Returns the command that runs one attack with these options.
    fn repeat(&self, attack: &str) -> String {
        let target = if self.target == Target::Samba { " --target samba" } else { "" };
        let form = if self.ci { " --ci" } else { "" };
        let seconds = self.seconds.map_or(String::new(), |seconds| format!(" --seconds {seconds}"));
        format!("cargo xtask hostile {attack}{target}{form}{seconds}")
    }
}

pub(crate) fn list() {
    for (name, what) in hostile::list() {
        println!("{name:<28} {what}");
    }
}

pub(crate) fn run(options: &Options) -> Result<Counts> {
    let listed = options.ci && options.target == Target::Frevo;
    let expected = if listed { expected_failures()? } else { BTreeMap::new() };
    let seconds = options.seconds.unwrap_or(if options.ci { BRIEF } else { FULL });
    let run = hostile::Options {
        target: options.target,
        names: options.names.clone(),
        time: Duration::from_secs(seconds),
        marks: if options.ci { Marks::CI } else { Marks::FULL },
        brief: options.ci,
    };
    println!("{}", Outcome::headings());
    let mut counts = Counts::default();
    let outcomes = hostile::run(&run, |outcome| {
        let verdict = verdict(outcome, expected.get(outcome.name).map(String::as_str));
        println!("{}  {}", outcome.line(), verdict.word());
        outcome.wrong.iter().for_each(|what| println!("    {what}"));
        if let Some(trouble) = &outcome.effort.trouble {
            println!("    the attackers: {trouble}");
        }
        for (status, count) in &outcome.effort.refusals {
            println!("    the attackers: {count} times {status}");
        }
        counts.add(verdict.counts(outcome).repeated_by(&options.repeat(outcome.name)));
    })?;
    if let Some(path) = &options.json {
        let text = serde_json::to_string_pretty(&outcomes)?;
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(counts)
}

/// Returns the attacks that are expected to fail in the short form.
fn expected_failures() -> Result<BTreeMap<String, String>> {
    let path = expected::list(expected::HOSTILE);
    if path.exists() { Ok(expected::entries(&path)?.into_iter().collect()) } else { Ok(BTreeMap::new()) }
}

/// The evaluation of an outcome against the expectation.
enum Verdict<'a> {
    Passed,
    Failed,
    /// A listed failure, with its reason.
    ExpectedFailure(&'a str),
    /// The attack passed although it is listed as a failure.
    Surprise,
}

fn verdict<'a>(outcome: &Outcome, expected: Option<&'a str>) -> Verdict<'a> {
    match (outcome.wrong.is_empty(), expected) {
        (true, None) => Verdict::Passed,
        (true, Some(_)) => Verdict::Surprise,
        (false, None) => Verdict::Failed,
        (false, Some(reason)) => Verdict::ExpectedFailure(reason),
    }
}

impl Verdict<'_> {
    fn word(&self) -> String {
        match self {
            Verdict::Passed => "ok".into(),
            Verdict::Failed => "FAILED".into(),
            Verdict::ExpectedFailure(reason) => format!("expected failure: {reason}"),
            Verdict::Surprise => "passes: remove its line from expected-failures/hostile.txt".into(),
        }
    }

    fn counts(&self, outcome: &Outcome) -> Counts {
        match self {
            Verdict::Passed => Counts::passed(1),
            Verdict::ExpectedFailure(_) => Counts::default(),
            Verdict::Failed => Counts::failed(format!("{}: {}", outcome.name, outcome.wrong.join("; "))),
            Verdict::Surprise => Counts::failed(format!("{}: passes, and is listed as a failure", outcome.name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_failures_are_expected() {
        let outcome = |wrong: &[&str]| Outcome {
            name: "a.b",
            wrong: wrong.iter().map(|what| (*what).to_owned()).collect(),
            ..Outcome::default()
        };
        let counts = |wrong: &[&str], listed| verdict(&outcome(wrong), listed).counts(&outcome(wrong));
        assert_eq!(counts(&[], None), Counts::passed(1));
        assert_eq!(counts(&["slow"], None), Counts::failed("a.b: slow"));
        assert_eq!(counts(&["slow"], Some("why")), Counts::default());
        assert_eq!(Options::brief().repeat("a.b"), "cargo xtask hostile a.b --ci");
        assert_eq!(counts(&[], Some("why")).failed.len(), 1);
    }

    #[test]
    fn every_listed_attack_exists() {
        let names: Vec<&str> = hostile::list().map(|(name, _)| name).collect();
        for name in expected_failures().unwrap().keys() {
            assert!(names.contains(&name.as_str()), "expected-failures/hostile.txt: no such attack: {name}");
        }
    }
}
