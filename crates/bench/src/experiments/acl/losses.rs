//! Interprets the throughput of each data set: the loss relative to files without ACLs, next to the study's results.

use report::metric::{Metric, counts, median};
use report::record::{Axis, Case, Experiment, Figure, Round, Table};
use report::units;

use super::posix::PLAIN;
use crate::summary::{self, then};

/// Statistics of the files of a data set.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Files {
    /// Mean number of ACL entries of a file.
    pub(super) mean: f64,
    /// Largest number of entries of a file.
    pub(super) most: usize,
    /// Fraction of files that have an ACL.
    pub(super) with: f64,
}

impl Files {
    /// Returns the statistics of files with these numbers of entries.
    pub(super) fn of(entries: &[usize]) -> Files {
        let count = entries.len().max(1) as f64;
        Files {
            mean: entries.iter().sum::<usize>() as f64 / count,
            most: entries.iter().copied().max().unwrap_or_default(),
            with: entries.iter().filter(|it| **it > PLAIN).count() as f64 / count,
        }
    }
}

/// The study's results for a data set: the losses without a cache, in percent, and the gain of its proposal.
struct Then {
    always: f64,
    proposal: f64,
    policy: &'static str,
    gain: &'static str,
}

/// In the order of the data sets, without the plain one.
const THEN: [Then; 3] = [
    Then { always: 48.0, proposal: 19.0, policy: " (#2)", gain: "#1 27 %, #2 56 %; with cache 27 %, 64 %" },
    Then { always: 39.0, proposal: 29.0, policy: "", gain: "18 %; with cache 16 %" },
    Then { always: 58.0, proposal: 51.0, policy: "", gain: "16 % (#2); with cache 29 % (#3), cache and proposal 83 %" },
];

/// Operations per second of the server's processor time: the throughput if nothing else limits it and no other program
/// uses the machine.
pub(super) const BY_CPU: Metric = Metric {
    name: "operations per second of CPU",
    of: |round| {
        let cpu = round.cost.as_ref()?.cpu;
        (cpu > 0.0).then(|| round.operations as f64 / cpu)
    },
    ..Metric::RATE
};

/// Returns how much less each other case does on a server than the first one, as a fraction of 1: the median of the
/// rounds, each compared with the first case in the same turn.
fn losses(cases: &[Case], server: usize, metric: Metric) -> Vec<Option<f64>> {
    let rounds = |case: &Case| case.servers.get(server).cloned().unwrap_or_default();
    let plain = cases.first().map(rounds).unwrap_or_default();
    cases.iter().skip(1).map(|case| loss(&plain, &rounds(case), metric)).collect()
}

/// Returns how much less is done in `rounds` than in those of the same turns in `before`, as a fraction of 1: the
/// median of the rounds.
pub(super) fn loss(before: &[Round], rounds: &[Round], metric: Metric) -> Option<f64> {
    let values =
        |rounds: &[Round]| -> Vec<Option<f64>> { rounds.iter().filter(|round| counts(round)).map(metric.of).collect() };
    let pairs = values(rounds).into_iter().zip(values(before));
    median(pairs.filter_map(|(rate, before)| Some(1.0 - rate? / before?)))
}

/// Builds the experiment from the cases, the plain one first.
pub(super) fn experiment(
    names: &[&str],
    cases: Vec<Case>,
    files: &[Files],
    open_loop: bool,
    settings: Vec<(String, String)>,
    mut remarks: Vec<String>,
) -> Experiment {
    let mut tables = Vec::new();
    let mut figures = vec![summary::bars("A file server's mix", &cases, names, Metric::RATE)];
    if open_loop {
        remarks
            .push("At a given rate there is no loss of throughput: compare latency and processor time instead.".into());
    } else if cases.len() > 1 {
        tables.push(table(names, &cases, files));
        figures.push(figure(names, &cases));
    }
    tables.extend(summary::comparisons("A file server's mix", &cases, names, &Metric::OPERATIONS));
    remarks.push(
        "The servers stored, cached and converted ACLs according to their own settings. The study's twelve cells for \
         each data set (store none, #0, #1, #2 or #3; with and without a cache; before, while and after converting) \
         are settings of a server: they are measured if the names of the servers identify the cells."
            .into(),
    );
    remarks.extend(names.iter().enumerate().filter_map(|(index, name)| summary::client_share(&cases, index, name)));
    Experiment {
        name: "acl mix".into(),
        title: "How much throughput do ACLs cost under a file server's mix of operations?".into(),
        study: "Hitachi and Osaka University, \"Concurrent use of POSIX ACL and rich ACL\" (2011): relative to files \
                with plain POSIX permissions, always writing the converted ACL cost 48, 39 and 58 % of the \
                throughput of three data sets, writing only where it pays 19, 29 and 51 %."
            .into(),
        settings,
        tables,
        figures,
        remarks,
        cases,
    }
}

/// Returns a table of operations and losses of each server by data set, with the losses in the study.
fn table(names: &[&str], cases: &[Case], files: &[Files]) -> Table {
    let mut head: Vec<String> = ["data set", "ACL entries", "most", "files with ACLs"].map(str::to_owned).to_vec();
    head.extend(names.iter().flat_map(|name| [name.to_string(), "loss".to_owned(), "by CPU".to_owned()]));
    head.extend(["always writing, 2011", "proposal, 2011", "gain of the proposal, 2011"].map(str::to_owned));
    let lost = |server| (losses(cases, server, Metric::RATE), losses(cases, server, BY_CPU));
    let lost: Vec<_> = (0..names.len()).map(lost).collect();
    let nothing = || units::NOTHING.to_owned();
    let row = |(index, case): (usize, &Case)| {
        let mut row = vec![case.name.clone()];
        let Files { mean, most, with } = files[index];
        row.extend([units::number((mean * 100.0).round() / 100.0), most.to_string(), units::percent(with)]);
        for (rounds, (by_time, by_cpu)) in case.servers.iter().zip(&lost) {
            row.push(Metric::RATE.median(rounds).map_or_else(nothing, units::per_second));
            let loss = |lost: &[Option<f64>]| index.checked_sub(1).and_then(|index| lost[index]);
            let text =
                |loss: Option<f64>| loss.map_or_else(nothing, |loss| format!("{:.0} %", (loss * 100.0).round() + 0.0));
            row.extend([text(loss(by_time)), text(loss(by_cpu))]);
        }
        match index.checked_sub(1).and_then(|index| THEN.get(index)) {
            Some(Then { always, proposal, policy, gain }) => {
                row.extend([format!("{always} %"), format!("{proposal} %{policy}"), (*gain).to_owned()]);
            }
            None => row.extend([nothing(), nothing(), nothing()]),
        }
        row
    };
    Table {
        title: "Operations, and their loss relative to files without ACLs".into(),
        head,
        rows: cases.iter().enumerate().map(row).collect(),
    }
}

/// Returns a figure of the losses as bars, next to the study's.
fn figure(names: &[&str], cases: &[Case]) -> Figure {
    let mut figure = summary::bars("Loss relative to files without ACLs", &cases[1..], names, Metric::RATE);
    for (server, series) in figure.series.iter_mut().enumerate() {
        let points = losses(cases, server, Metric::RATE).into_iter().enumerate();
        let points: Vec<(f64, f64)> = points.filter_map(|(index, loss)| Some((index as f64, loss? * 100.0))).collect();
        series.points = then("", &points).points;
    }
    let study = |pick: fn(&Then) -> f64| -> Vec<(f64, f64)> {
        THEN.iter().enumerate().map(|(index, then)| (index as f64, pick(then))).collect()
    };
    figure.series.push(then("always writing, 2011", &study(|then| then.always)));
    figure.series.push(then("proposal, 2011", &study(|then| then.proposal)));
    figure.y = Axis { label: "loss of throughput".into(), unit: "%".into(), logarithmic: false };
    figure
}

#[cfg(test)]
mod tests {
    use super::*;
    fn case(name: &str, rates: &[u64]) -> Case {
        let round = |rate: &u64| vec![Round { operations: *rate, seconds: 1.0, ..Round::default() }];
        Case { name: name.into(), x: None, servers: rates.iter().map(round).collect(), ..Case::default() }
    }

    #[test]
    fn losses_are_relative_to_plain_files_of_the_same_server() {
        let cases = vec![case("plain", &[1000, 400]), case("(a)", &[950, 100]), case("(b)", &[1000, 0])];
        assert_eq!(losses(&cases, 1, Metric::RATE), [Some(0.75), None]);
        assert_eq!(losses(&cases, 1, BY_CPU), [None, None], "the processes are unknown");
        let files = [Files::of(&[3, 3]), Files::of(&[3, 5]), Files::of(&[30, 6])];
        let experiment = experiment(&["frevo", "samba"], cases, &files, false, Vec::new(), Vec::new());
        let rows = &experiment.tables[0].rows;
        assert_eq!(rows[1][..5], ["(a)", "4", "5", "50 %", "950/s"]);
        assert_eq!(rows[1][5..11], ["5 %", units::NOTHING, "100/s", "75 %", units::NOTHING, "48 %"]);
        assert_eq!(rows[0][5], units::NOTHING);
        let drawn: Vec<usize> = experiment.figures[1].series.iter().map(|series| series.points.len()).collect();
        assert_eq!(drawn, [2, 1, 3, 3]);
    }

    #[test]
    fn a_round_is_compared_with_that_of_the_same_turn() {
        let rounds = |rates: &[u64]| {
            let round = |rate: &u64| Round { operations: *rate, seconds: 1.0, ..Round::default() };
            Case { servers: vec![rates.iter().map(round).collect()], ..Case::default() }
        };
        // The machine was busy in the second turn.
        let cases = [rounds(&[1000, 100, 1000]), rounds(&[800, 80, 1000])];
        let loss = losses(&cases, 0, Metric::RATE)[0].unwrap();
        assert!((loss - 0.2).abs() < 1e-9, "{loss}");
    }

    #[test]
    fn no_losses_are_shown_at_a_fixed_rate() {
        let cases = vec![case("plain", &[100]), case("(a)", &[100])];
        let files = [Files::of(&[3]), Files::of(&[4])];
        let experiment = experiment(&["frevo"], cases, &files, true, Vec::new(), Vec::new());
        assert!(experiment.tables.iter().all(|table| !table.title.contains("loss")));
        assert_eq!(experiment.figures.len(), 1);
    }
}
