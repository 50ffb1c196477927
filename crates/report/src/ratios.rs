//! The ratios of a page: for each experiment, how many times better the first program is than another one.
//!
//! If all servers of a run are variants of one program, each is compared with the first variant of its case.

use super::groups::{program, variant};
use super::head::when;
use crate::metric::{Metric, median};
use crate::record::{Case, Experiment, Round, Run};

/// With more rows than this, the variants of an experiment are one row.
const MOST: usize = 16;

/// A row of the table: an experiment, and two servers in it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Ratio {
    /// The experiment's name.
    pub(super) experiment: String,
    /// The date of the run, if several runs contain the experiment.
    pub(super) date: String,
    /// The variants or programs that are compared. Empty if the page has only one pair.
    pub(super) pair: String,
    /// The number of cases.
    pub(super) cases: usize,
    /// The throughput, in bytes where data is transferred, else in operations.
    pub(super) throughput: Option<Spread>,
    /// The server's processor time per operation.
    pub(super) cpu: Option<Spread>,
}

/// A ratio with its spread. It is more than 1 if the first server is better.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Spread {
    /// The median of the cases.
    pub(super) middle: f64,
    /// The lowest ratio of two rounds.
    pub(super) low: f64,
    /// The highest ratio of two rounds.
    pub(super) high: f64,
}

/// A case of one pair of servers: the ratios of its rounds.
struct Pair<'a> {
    run: usize,
    experiment: &'a str,
    names: (&'a str, &'a str),
    throughput: Vec<f64>,
    cpu: Vec<f64>,
}

/// The key of the cases that a row joins: the index of a run, an experiment, and two names.
type Key<'a> = (usize, &'a str, (&'a str, &'a str));

/// Returns the ratios of all experiments that compare servers.
pub(super) fn ratios(runs: &[Run]) -> Vec<Ratio> {
    let mut pairs = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        for experiment in &run.experiments {
            experiment.cases.iter().for_each(|case| pairs.extend(of_case(index, run, experiment, case)));
        }
    }
    pairs.retain(|pair| !pair.throughput.is_empty() || !pair.cpu.is_empty());
    let rows = joined(runs, &pairs, |pair| pair.names);
    if rows.len() <= MOST {
        return rows;
    }
    let differ = |pair: &Pair<'_>| program(pair.names.0) != program(pair.names.1);
    let (several, one): (Vec<Pair<'_>>, Vec<Pair<'_>>) = pairs.into_iter().partition(differ);
    let mut rows = joined(runs, &several, |pair| (program(pair.names.0), program(pair.names.1)));
    rows.extend(joined(runs, &one, |pair| pair.names));
    rows
}

/// Returns the pairs of a case: each server of the first program with its counterpart of every other program.
fn of_case<'a>(index: usize, run: &'a Run, experiment: &'a Experiment, case: &'a Case) -> Vec<Pair<'a>> {
    let name = |server: usize| match case.parties.get(server) {
        Some(name) => Some(name.as_str()),
        None => run.servers.get(server).map(|server| server.name.as_str()),
    };
    let measured = case.servers.iter().enumerate().filter(|(_, rounds)| !rounds.is_empty());
    let measured: Vec<(&str, &[Round])> =
        measured.filter_map(|(server, rounds)| Some((name(server)?, rounds.as_slice()))).collect();
    let Some(target) = run.servers.first().map(|server| program(&server.name)) else { return Vec::new() };
    let (own, others): (Vec<_>, Vec<_>) = measured.into_iter().partition(|(name, _)| program(name) == target);
    let pair = |one: &(&'a str, &'a [Round]), other: &(&'a str, &'a [Round])| Pair {
        run: index,
        experiment: &experiment.name,
        names: (one.0, other.0),
        throughput: compare(throughput(one.1, other.1), one.1, other.1),
        cpu: compare(Metric::CPU_PER_OPERATION, one.1, other.1),
    };
    if run.servers.iter().all(|server| program(&server.name) == target) && others.is_empty() {
        return own.iter().skip(1).map(|one| pair(one, &own[0])).collect();
    }
    let mut programs: Vec<&str> = Vec::new();
    for (name, _) in &others {
        if !programs.contains(&program(name)) {
            programs.push(program(name));
        }
    }
    let mut pairs = Vec::new();
    for one in &own {
        for known in &programs {
            let alike = others.iter().filter(|(name, _)| program(name) == *known);
            // The first of the most similar ones.
            let best = alike.rev().max_by_key(|(name, _)| similarity(one.0, name));
            pairs.extend(best.map(|other| pair(one, other)));
        }
    }
    pairs
}

/// Returns how similar two variants are: the same, the same last part, or neither.
fn similarity(one: &str, other: &str) -> u8 {
    let last = |name| variant(name).rsplit('/').next();
    match (variant(one) == variant(other), last(one) == last(other)) {
        (true, _) => 2,
        (false, true) => 1,
        (false, false) => 0,
    }
}

fn throughput(one: &[Round], other: &[Round]) -> Metric {
    let has_data = |rounds: &[Round]| rounds.iter().any(|round| round.bytes > 0);
    if has_data(one) && has_data(other) { Metric::THROUGHPUT } else { Metric::RATE }
}

/// Returns how many times better each round of one server is than that of the other. The rounds of two servers
/// alternate; if their numbers differ, the medians are compared.
fn compare(metric: Metric, one: &[Round], other: &[Round]) -> Vec<f64> {
    let (mut one, mut other) = (metric.values(one), metric.values(other));
    if one.len() != other.len() {
        (one, other) = (median(one).into_iter().collect(), median(other).into_iter().collect());
    }
    let ratio = |(one, other): (f64, f64)| if metric.more_is_better { one / other } else { other / one };
    one.into_iter().zip(other).map(ratio).filter(|ratio| ratio.is_finite() && *ratio > 0.0).collect()
}

/// Joins the cases with the same `key` to rows.
fn joined<'a>(runs: &[Run], pairs: &[Pair<'a>], key: impl Fn(&Pair<'a>) -> (&'a str, &'a str)) -> Vec<Ratio> {
    let mut rows: Vec<(Key<'_>, Vec<&Pair<'_>>)> = Vec::new();
    for pair in pairs {
        let key = (pair.run, pair.experiment, key(pair));
        match rows.iter_mut().find(|(known, _)| *known == key) {
            Some((_, cases)) => cases.push(pair),
            None => rows.push((key, vec![pair])),
        }
    }
    let mut all: Vec<(&str, &str)> = rows.iter().map(|((_, _, names), _)| *names).collect();
    all.sort_unstable();
    all.dedup();
    let several_others = all.iter().any(|(_, other)| program(other) != program(all[0].1));
    let row = |((run, experiment, names), cases): &(Key<'_>, Vec<&Pair<'_>>)| {
        let runs_with = runs.iter().filter(|run| run.experiments.iter().any(|it| it.name == *experiment)).count();
        Ratio {
            experiment: (*experiment).to_owned(),
            date: if runs_with > 1 { when(&runs[*run].started) } else { String::new() },
            pair: if all.len() > 1 { pair_of(*names, several_others) } else { String::new() },
            cases: cases.len(),
            throughput: Spread::of(cases.iter().map(|pair| pair.throughput.as_slice())),
            cpu: Spread::of(cases.iter().map(|pair| pair.cpu.as_slice())),
        }
    };
    rows.iter().map(row).collect()
}

/// Names what is compared, without a program that is the same in all rows.
fn pair_of((one, other): (&str, &str), several_others: bool) -> String {
    if several_others && variant(one) == variant(other) && variant(one).is_empty() {
        return format!("against {other}");
    }
    if several_others {
        return format!("{one} against {other}");
    }
    match (variant(one), variant(other)) {
        (one, other) if one == other => one.to_owned(),
        ("", other) => format!("against {other}"),
        (one, "") => one.to_owned(),
        (one, other) => format!("{one} against {other}"),
    }
}

impl Spread {
    fn of<'a>(cases: impl Iterator<Item = &'a [f64]>) -> Option<Spread> {
        let cases: Vec<&[f64]> = cases.filter(|case| !case.is_empty()).collect();
        let middle = median(cases.iter().filter_map(|case| median(case.iter().copied())))?;
        let all = || cases.iter().copied().flatten().copied();
        Some(Spread { middle, low: all().fold(middle, f64::min), high: all().fold(middle, f64::max) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Cost;
    use crate::tests::run_of;

    /// Returns a case with rounds of 100 operations in these seconds, which cost as much processor time.
    fn case(servers: &[&[f64]]) -> Case {
        let cost = |cpu| Some(Cost { cpu, ..Cost::default() });
        let round =
            |seconds: &f64| Round { seconds: *seconds, operations: 100, cost: cost(*seconds), ..Round::default() };
        Case { servers: servers.iter().map(|it| it.iter().map(round).collect()).collect(), ..Case::default() }
    }

    fn measured(names: &[&str], experiments: &[(&str, Vec<Case>)]) -> Run {
        let experiment = |(name, cases): &(&str, Vec<Case>)| Experiment {
            name: (*name).to_owned(),
            cases: cases.clone(),
            ..Experiment::default()
        };
        Run { experiments: experiments.iter().map(experiment).collect(), ..run_of(names) }
    }

    fn pairs(run: Run) -> Vec<String> {
        ratios(&[run]).into_iter().map(|ratio| ratio.pair).collect()
    }

    #[test]
    fn an_experiment_has_the_median_of_its_cases_and_the_range_of_its_rounds() {
        let cases = vec![case(&[&[1.0, 2.0, 1.0], &[4.0, 4.0, 4.0]]), case(&[&[1.0], &[8.0]]), case(&[&[1.0], &[]])];
        let expected = Some(Spread { middle: 6.0, low: 2.0, high: 8.0 });
        let ratio = ratios(&[measured(&["frevo", "samba"], &[("read", cases)])]).remove(0);
        assert_eq!((ratio.cases, ratio.throughput, ratio.cpu), (2, expected, expected));
        assert_eq!((ratio.pair.as_str(), ratio.date.as_str()), ("", ""));
    }

    #[test]
    fn variants_are_compared_with_the_most_similar_one() {
        let of = |names: &[&str]| pairs(measured(names, &[("mix", vec![case(&vec![&[1.0][..]; names.len()])])]));
        assert_eq!(of(&["f/a", "f/b", "s/a", "s/b"]), ["a", "b"]);
        assert_eq!(of(&["f/n/p", "f/c/p", "s/n/q", "s/n/p"]), ["n/p", "c/p against n/p"]);
        assert_eq!(of(&["f/x", "f/y", "s/z"]), ["x against z", "y against z"]);
        assert_eq!(of(&["f", "s", "t"]), ["against s", "against t"]);
    }

    #[test]
    fn variants_of_one_program_are_compared_with_the_first() {
        let run = measured(&["f/a", "f/b", "f/c"], &[("mix", vec![case(&[&[2.0], &[1.0], &[4.0]])])]);
        let ratios = ratios(&[run]);
        assert_eq!(ratios[0].pair, "b against a");
        assert_eq!(ratios.iter().map(|it| it.cpu.unwrap().middle).collect::<Vec<_>>(), [2.0, 0.5]);
        assert_eq!(pairs(measured(&["f"], &[("mix", vec![case(&[&[1.0]])])])), [""; 0], "one server");
    }

    #[test]
    fn many_variants_are_one_row() {
        let names: Vec<String> = ["f", "s"].iter().flat_map(|it| (0..20).map(move |n| format!("{it}/{n}"))).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let run = measured(&names, &[("mix", vec![case(&vec![&[1.0][..]; 40])])]);
        let ratios = ratios(&[run]);
        assert_eq!((ratios.len(), ratios[0].pair.as_str(), ratios[0].cases), (1, "", 20));
    }

    #[test]
    fn an_experiment_of_several_runs_has_a_row_for_each() {
        let run = |started: &str| Run {
            started: started.to_owned(),
            ..measured(&["f", "s"], &[("mix", vec![case(&[&[1.0], &[1.0]])])])
        };
        let ratios = ratios(&[run("2031-05-06T07:08:09Z"), run("2031-05-07T07:08:09Z")]);
        assert_eq!(ratios.iter().map(|it| &it.date[..10]).collect::<Vec<_>>(), ["2031-05-06", "2031-05-07"]);
    }
}
