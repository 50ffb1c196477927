//! Evaluates outcomes: the table, unexpected results, and the comparison with Samba.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use test_environment::{Counts, Target};

use super::Options;
use super::list::{self, UNEXPLAINED};
use super::run::Outcome;

/// The evaluation of an outcome against the expectation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Passed,
    ExpectedFailure,
    Failed,
    /// It passes although it is listed as an expected failure, or Samba differs from its baseline.
    Surprise,
    NotRun,
    NotRunnable,
}

/// The outcomes of a run and the data that they are compared with.
pub(super) struct Report {
    target: Target,
    /// The command that runs the tests in the same way, without a filter.
    command: String,
    outcomes: Vec<Outcome>,
    baseline: BTreeMap<String, (String, f64)>,
    expected: BTreeMap<String, list::Expected>,
}

/// Counts of a suite.
#[derive(Default)]
struct Suite {
    tests: usize,
    pass: usize,
    skip: usize,
    /// Number of tests that Samba passes.
    samba: usize,
    seconds: f64,
}

impl Suite {
    fn add(&mut self, outcome: &Outcome, samba: bool) {
        self.tests += 1;
        self.pass += usize::from(outcome.result == "success");
        self.skip += usize::from(outcome.result == "skip");
        self.samba += usize::from(samba);
        self.seconds += outcome.seconds;
    }
}

impl Report {
    pub(super) fn new(options: &Options, mut outcomes: Vec<Outcome>) -> Result<Report> {
        outcomes.sort_by(|a, b| a.name.cmp(&b.name));
        let command = match (&options.volume, options.target) {
            (Some(volume), _) => format!("cargo xtask gluster torture --volumes {}", volume.name),
            (None, Target::Samba) => "cargo xtask torture --target samba".to_owned(),
            (None, Target::Frevo) if options.tests != super::LIST => {
                format!("cargo xtask torture --tests {}", options.tests)
            }
            (None, Target::Frevo) => "cargo xtask torture".to_owned(),
        };
        let expected = list::expected(options.volume.is_some())?;
        Ok(Report { target: options.target, command, outcomes, baseline: list::baseline()?, expected })
    }

    fn verdict(&self, outcome: &Outcome) -> Verdict {
        let success = outcome.result == "success";
        match outcome.result.as_str() {
            "notrun" => return Verdict::NotRun,
            "notrunnable" => return Verdict::NotRunnable,
            _ => {}
        }
        let fails = match self.target {
            Target::Frevo => self.expected.contains_key(&outcome.name),
            Target::Samba => {
                let seen = self.baseline.get(&outcome.name).map(|(result, _)| result.as_str());
                if seen.is_some_and(|seen| seen != outcome.result) {
                    return Verdict::Surprise;
                }
                seen.is_some_and(|seen| seen != "success")
            }
        };
        match (success, fails) {
            (true, false) => Verdict::Passed,
            (true, true) => Verdict::Surprise,
            (false, true) => Verdict::ExpectedFailure,
            (false, false) => Verdict::Failed,
        }
    }

    fn with(&self, verdict: Verdict) -> impl Iterator<Item = &Outcome> {
        self.outcomes.iter().filter(move |outcome| self.verdict(outcome) == verdict)
    }

    /// Returns the expected failures among these tests that have no explanation yet.
    fn unexplained(&self) -> impl Iterator<Item = &Outcome> {
        let unexplained = |name: &str| self.expected.get(name).is_some_and(|e| e.reason.starts_with(UNEXPLAINED));
        self.outcomes.iter().filter(move |outcome| self.target == Target::Frevo && unexplained(&outcome.name))
    }

    /// Returns the number of tests that passed as expected, and the outcomes that make the run fail.
    pub(super) fn counts(&self) -> Counts {
        let bad = [Verdict::Failed, Verdict::Surprise, Verdict::NotRunnable].into_iter().flat_map(|v| self.with(v));
        let described = |o: &Outcome| (o.name.clone(), format!("{} {}", o.result, o.reason));
        let unexplained = |o: &Outcome| (o.name.clone(), "the expected failure has no explanation".to_owned());
        let mut counts = Counts::passed(self.with(Verdict::Passed).count());
        for (name, why) in bad.map(described).chain(self.unexplained().map(unexplained)) {
            let repeat = format!("{} --filter '{name}'", self.command);
            counts.add(Counts::failed(format!("{name}: {why}")).repeated_by(&repeat));
        }
        counts
    }

    /// Writes test, result, seconds and reason, separated by tabs.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let mut text = String::new();
        for o in &self.outcomes {
            let _ = writeln!(text, "{}\t{}\t{:.2}\t{}", o.name, o.result, o.seconds, o.reason);
        }
        Ok(std::fs::write(path, text)?)
    }

    /// Updates the expected failures to match this run. New ones are added as unexplained.
    pub(super) fn update(&self, stem: &str) -> Result<()> {
        let gone: Vec<&str> = self.with(Verdict::Surprise).map(|outcome| outcome.name.as_str()).collect();
        let new = |o: &Outcome| (o.name.clone(), format!("{UNEXPLAINED} {}: {}", o.result, o.reason));
        list::update(stem, &gone, &self.with(Verdict::Failed).map(new).collect::<Vec<_>>())
    }

    /// Returns the summary for a terminal.
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for outcome in &self.outcomes {
            *counts.entry(outcome.result.as_str()).or_default() += 1;
        }
        let counts: Vec<String> = counts.iter().map(|(result, n)| format!("{n} {result}")).collect();
        let name = self.target.name();
        self.suites(&mut out);
        let _ = writeln!(out, "\n{name}: {} of {} pass: {}", self.passes(), self.outcomes.len(), counts.join(", "));
        self.section(&mut out, "failed, and not in expected-failures/", self.with(Verdict::Failed));
        let surprise = match self.target {
            Target::Frevo => "passes: remove its line from expected-failures/",
            Target::Samba => "differs from xtask/torture/samba417-baseline.tsv",
        };
        self.section(&mut out, surprise, self.with(Verdict::Surprise));
        self.section(&mut out, "expected failure without an explanation", self.unexplained());
        self.section(&mut out, "could not run", self.with(Verdict::NotRunnable));
        if self.target == Target::Frevo {
            self.against_samba(&mut out);
        }
        out
    }

    fn passes(&self) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.result == "success").count()
    }

    /// Writes a line for each suite, which is the first two components of the test names.
    fn suites(&self, out: &mut String) {
        let mut suites: BTreeMap<String, Suite> = BTreeMap::new();
        for outcome in &self.outcomes {
            let name = outcome.name.split('.').take(2).collect::<Vec<_>>().join(".");
            let samba = self.baseline.get(&outcome.name).is_some_and(|(result, _)| result == "success");
            suites.entry(name).or_default().add(outcome, samba);
        }
        let _ = writeln!(
            out,
            "\n{:<32} {:>6} {:>6} {:>6} {:>6} {:>6} {:>8}",
            "suite", "tests", "pass", "skip", "else", "Samba", "seconds"
        );
        for (name, suite) in suites {
            let Suite { tests, pass, skip, samba, seconds } = suite;
            let other = tests - pass - skip;
            let _ = writeln!(out, "{name:<32} {tests:>6} {pass:>6} {skip:>6} {other:>6} {samba:>6} {seconds:>8.1}");
        }
    }

    fn section<'a>(&self, out: &mut String, title: &str, outcomes: impl Iterator<Item = &'a Outcome>) {
        let outcomes: Vec<&Outcome> = outcomes.collect();
        if outcomes.is_empty() {
            return;
        }
        let _ = writeln!(out, "\n{title} ({}):", outcomes.len());
        for o in outcomes {
            let samba = self.baseline.get(&o.name).map_or("-", |(result, _)| result);
            let reason: String = o.reason.chars().take(160).collect();
            let _ = writeln!(out, "  {:<52} {:<13} Samba: {samba:<9} {reason}", o.name, o.result);
        }
    }

    fn against_samba(&self, out: &mut String) {
        let samba_passes = |o: &&Outcome| self.baseline.get(&o.name).is_some_and(|(result, _)| result == "success");
        let passes = |o: &&Outcome| o.result == "success";
        let both = self.outcomes.iter().filter(|o| samba_passes(o) && passes(o)).count();
        let ours: Vec<&Outcome> = self.outcomes.iter().filter(|o| !samba_passes(o) && passes(o)).collect();
        let theirs: Vec<&Outcome> = self.outcomes.iter().filter(|o| samba_passes(o) && !passes(o)).collect();
        let _ = writeln!(
            out,
            "\nagainst Samba 4.17: both pass {both}, only Samba {}, only this server {}",
            theirs.len(),
            ours.len()
        );
        for (mark, outcomes) in [("only Samba passes", theirs), ("only this server passes", ours)] {
            for o in outcomes {
                let reason = self.expected.get(&o.name).map_or("", |expected| expected.reason.as_str());
                let _ = writeln!(out, "  {mark}: {:<50} {:<12} {reason}", o.name, o.result);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(target: Target, name: &str, result: &str, verdict: Verdict) {
        let expected = [("listed", "a later issue"), ("open", "UNEXPLAINED failure: x")]
            .map(|(name, reason)| (name.to_owned(), list::Expected { file: "f".into(), reason: reason.into() }));
        let baseline = [("listed", "success"), ("plain", "success"), ("samba", "failure")]
            .map(|(n, r)| (n.to_owned(), (r.to_owned(), 1.0)));
        let outcomes = vec![Outcome::new(name, result, 1.0, "")];
        let (baseline, expected) = (baseline.into(), expected.into());
        let report = Report { target, command: String::new(), outcomes, baseline, expected };
        assert_eq!(report.verdict(&report.outcomes[0]), verdict, "{name} {result}");
    }

    #[test]
    fn frevo_is_compared_with_the_list() {
        check(Target::Frevo, "plain", "success", Verdict::Passed);
        check(Target::Frevo, "plain", "skip", Verdict::Failed);
        check(Target::Frevo, "samba", "failure", Verdict::Failed);
        check(Target::Frevo, "listed", "server-crash", Verdict::ExpectedFailure);
        check(Target::Frevo, "listed", "success", Verdict::Surprise);
        check(Target::Frevo, "plain", "notrun", Verdict::NotRun);
        check(Target::Frevo, "plain", "notrunnable", Verdict::NotRunnable);
    }

    #[test]
    fn skipped_tests_have_not_passed() {
        let outcomes = [("smb2.a.b", "success"), ("smb2.a.c.d", "skip"), ("smb2.b", "timeout")];
        let outcomes = outcomes.map(|(name, result)| Outcome::new(name, result, 1.5, "")).to_vec();
        let none = BTreeMap::new();
        let (target, expected) = (Target::Frevo, BTreeMap::new());
        let report = Report { target, command: String::new(), outcomes, baseline: none, expected };
        let text = report.text();
        let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap_or_default().to_owned();
        let columns = |start| line(start).split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(line("frevo:"), "frevo: 1 of 3 pass: 1 skip, 1 success, 1 timeout");
        assert_eq!(columns("smb2.a "), ["2", "1", "1", "0", "0", "3.0"]);
        assert_eq!(columns("smb2.b "), ["1", "0", "0", "1", "0", "1.5"]);
    }

    #[test]
    fn samba_is_compared_with_its_baseline() {
        check(Target::Samba, "plain", "success", Verdict::Passed);
        check(Target::Samba, "plain", "failure", Verdict::Surprise);
        check(Target::Samba, "samba", "failure", Verdict::ExpectedFailure);
        check(Target::Samba, "samba", "success", Verdict::Surprise);
    }
}
