//! Ratios within a round: whether a logon takes longer with more users, and which back end is faster.
//!
//! The state of the machine is the same for all turns of a round, so it cancels out in the ratio of two turns. The
//! median ratio of the rounds is shown, with the quartiles of the rounds.

use report::metric::{Metric, median};
use report::record::{Axis, Case, Figure, Kind, Point, Series, Table};
use report::units;

use super::bases::parts;

/// A summary of the ratios of the rounds.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Ratio {
    /// The median of the rounds.
    median: f64,
    /// The first quartile of the rounds.
    low: f64,
    /// The third quartile of the rounds.
    high: f64,
}

impl Ratio {
    /// Returns `None` if there are no ratios.
    fn of(mut ratios: Vec<f64>) -> Option<Ratio> {
        ratios.retain(|ratio| ratio.is_finite());
        ratios.sort_by(f64::total_cmp);
        let quarter = ratios.len() / 4;
        let (low, high) = (*ratios.get(quarter)?, *ratios.get(ratios.len() - 1 - quarter)?);
        Some(Ratio { median: median(ratios)?, low, high })
    }

    /// Formats the median, and the interval that contains the middle half of the rounds.
    fn text(self) -> String {
        format!("{:.2} ({:.2} to {:.2})", self.median, self.low, self.high)
    }
}

/// Returns the cost of a party in each round, where more is worse. Empty if it was not measured.
fn taken(case: &Case, party: usize, metric: Metric) -> Vec<f64> {
    let values = case.servers.get(party).map_or_else(Vec::new, |rounds| metric.values(rounds));
    if metric.more_is_better { values.into_iter().map(|value| 1.0 / value).collect() } else { values }
}

/// Returns the ratio of `one` to `other` for each round that both have.
fn ratios(one: &[f64], other: &[f64]) -> Vec<f64> {
    one.iter().zip(other).map(|(one, other)| one / other).collect()
}

/// A comparison of a party's numbers of users.
struct Sizes {
    /// For each measured case: its name, its coordinate on the axis, and the ratio of its rounds to the median of each
    /// round over all cases.
    sizes: Vec<(String, f64, Ratio)>,
    /// Indices of the slowest and of the fastest case.
    ends: (usize, usize),
    /// The ratio of the slowest to the fastest.
    slowest: Ratio,
}

impl Sizes {
    /// Returns `None` if there are fewer than two cases to compare.
    fn of(cases: &[Case], party: usize, metric: Metric) -> Option<Sizes> {
        let taken: Vec<(&Case, Vec<f64>)> = cases.iter().map(|case| (case, taken(case, party, metric))).collect();
        let taken: Vec<_> = taken.into_iter().filter(|(_, values)| !values.is_empty()).collect();
        let rounds = taken.iter().map(|(_, values)| values.len()).min()?;
        let middle = |round: usize| median(taken.iter().map(|(_, values)| values[round]));
        let middles: Vec<f64> = (0..rounds).filter_map(middle).collect();
        let size = |(case, values): &(&Case, Vec<f64>)| {
            Some((case.name.clone(), case.x.unwrap_or_default(), Ratio::of(ratios(values, &middles))?))
        };
        let sizes: Vec<(String, f64, Ratio)> = taken.iter().map(size).collect::<Option<_>>()?;
        let by = |one: &usize, other: &usize| sizes[*one].2.median.total_cmp(&sizes[*other].2.median);
        let ends = ((0..sizes.len()).max_by(by)?, (0..sizes.len()).min_by(by)?);
        if ends.0 == ends.1 {
            return None;
        }
        let slowest = Ratio::of(ratios(&taken[ends.0].1, &taken[ends.1].1))?;
        Some(Sizes { sizes, ends, slowest })
    }
}

/// Returns a table of each number of users relative to the others, by party. `None` if there is only one number.
pub(super) fn growth(title: &str, cases: &[Case], parties: &[String], metric: Metric) -> Option<Table> {
    let mut head = vec![format!("{}, relative to the round's median", metric.name)];
    head.extend(cases.iter().map(|case| case.name.clone()));
    head.push("slowest / fastest".to_owned());
    let row = |(party, name): (usize, &String)| {
        let sizes = Sizes::of(cases, party, metric)?;
        let mut row = vec![name.clone()];
        let of = |case: &Case| sizes.sizes.iter().find(|(name, ..)| *name == case.name);
        row.extend(cases.iter().map(|case| of(case).map_or("-".to_owned(), |(.., ratio)| ratio.text())));
        row.push(sizes.slowest.text());
        Some(row)
    };
    let rows: Vec<_> = parties.iter().enumerate().filter_map(row).collect();
    let title = format!("{title}: effect of the number of users on {} (middle half of the rounds)", metric.name);
    (!rows.is_empty()).then_some(Table { title, head, rows })
}

/// Returns the same comparison as sentences, for the parties of the first party's program.
pub(super) fn verdicts(what: &str, cases: &[Case], parties: &[String], metric: Metric) -> Vec<String> {
    let own = parties.first().map(|first| parts(first).0);
    let verdict = |(party, name): (usize, &String)| {
        let Sizes { sizes, ends: (slow, quick), slowest } =
            Sizes::of(cases, party, metric).filter(|_| Some(parts(name).0) == own)?;
        let (slow, quick, slowest) = (&sizes[slow].0, &sizes[quick].0, slowest.text());
        Some(format!("{name}, {what}: {slow} are the slowest, {slowest} times as slow as {quick}, the fastest."))
    };
    parties.iter().enumerate().filter_map(verdict).collect()
}

/// Returns a table of the ratios between back ends of the same program, by number of users.
pub(super) fn backends(title: &str, cases: &[Case], parties: &[String], metric: Metric) -> Option<Table> {
    let mut head = vec![format!("{}, ratio", metric.name)];
    head.extend(cases.iter().map(|case| case.name.clone()));
    let mut rows = Vec::new();
    for (one, name) in parties.iter().enumerate() {
        for (other, beside) in parties.iter().enumerate().take(one) {
            let ((program, Some(backend)), (same, Some(than))) = (parts(name), parts(beside)) else { continue };
            if program != same {
                continue;
            }
            let cell = |case: &Case| {
                let ratio = Ratio::of(ratios(&taken(case, one, metric), &taken(case, other, metric)));
                ratio.map_or("-".to_owned(), Ratio::text)
            };
            let mut row = vec![format!("{program}: {backend} / {than}")];
            row.extend(cases.iter().map(cell));
            rows.push(row);
        }
    }
    let title = format!("{title}: back ends compared, {} (middle half of the rounds)", metric.name);
    (!rows.is_empty()).then_some(Table { title, head, rows })
}

/// Returns a figure of each number of users relative to the round's median, for the parties of the first party's
/// program.
pub(super) fn figure(title: &str, x: Axis, cases: &[Case], parties: &[String], metric: Metric) -> Option<Figure> {
    let own = parties.first().map(|first| parts(first).0);
    let series = |(party, name): (usize, &String)| {
        let sizes = Sizes::of(cases, party, metric).filter(|_| Some(parts(name).0) == own)?;
        let point =
            |(_, x, ratio): &(String, f64, Ratio)| Point { x: *x, y: ratio.median, low: ratio.low, high: ratio.high };
        Some(Series { name: name.clone(), then: false, server: None, points: sizes.sizes.iter().map(point).collect() })
    };
    let series: Vec<Series> = parties.iter().enumerate().filter_map(series).collect();
    let label = format!("{}, relative to the round's median", metric.name);
    (!series.is_empty()).then(|| Figure {
        title: title.to_owned(),
        x,
        y: Axis { label, unit: String::new(), logarithmic: false },
        kind: Kind::Lines,
        categories: Vec::new(),
        series,
    })
}

/// Returns tables of the system calls of a logon by name and number of users, for each party whose calls were counted.
pub(super) fn calls(title: &str, cases: &[Case], parties: &[String]) -> Vec<Table> {
    let table = |(party, name): (usize, &String)| {
        let counted: Vec<_> = cases.iter().filter_map(|case| Some((case, calls_of(case, party)?))).collect();
        let (_, last) = counted.last()?;
        // The calls that every logon makes come first.
        let mut names: Vec<(&str, f64)> = last.iter().map(|(name, count)| (*name, *count)).collect();
        names.retain(|(_, count)| *count >= RARE);
        names.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(other.0)));
        let row = |title: &str, shown: &dyn Fn(&str) -> bool| -> Vec<String> {
            let sum =
                |calls: &Vec<(&str, f64)>| calls.iter().filter(|(name, _)| shown(name)).map(|(_, count)| count).sum();
            let cells = counted.iter().map(|(_, calls)| units::number(sum(calls)));
            [title.to_owned()].into_iter().chain(cells).collect()
        };
        let mut rows = vec![row("all", &|_| true)];
        rows.extend(names.iter().map(|(call, _)| row(call, &|name| name == *call)));
        let mut head = vec!["system calls per logon".to_owned()];
        head.extend(counted.iter().map(|(case, _)| case.name.clone()));
        Some(Table { title: format!("{title}: system calls, {name}"), head, rows })
    };
    parties.iter().enumerate().filter_map(table).collect()
}

/// Calls made less often than this per logon are not listed individually.
const RARE: f64 = 0.02;

/// Returns the calls of a logon in the round in which they were counted.
fn calls_of(case: &Case, party: usize) -> Option<Vec<(&str, f64)>> {
    let round =
        case.servers.get(party)?.iter().rfind(|round| round.operations > 0 && !report::metric::counts(round))?;
    let calls = round.cost.as_ref()?.calls.as_ref()?;
    Some(calls.iter().map(|(name, count)| (name.as_str(), *count as f64 / round.operations as f64)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::record::{Cost, Latency, Round};

    fn case(name: &str, x: f64, medians: &[&[f64]]) -> Case {
        let round =
            |p50: &f64| Round { latency: Some(Latency { p50: *p50, ..Latency::default() }), ..Round::default() };
        let servers = medians.iter().map(|party| party.iter().map(round).collect()).collect();
        Case { name: name.into(), x: Some(x), servers, ..Case::default() }
    }

    fn named(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_slow_round_is_not_growth() {
        // The machine is slow in the second round; 1,000 users take a tenth longer in each round.
        let cases = [
            case("10 users", 10.0, &[&[100.0, 200.0, 100.0]]),
            case("100 users", 100.0, &[&[100.0, 200.0, 100.0]]),
            case("1,000 users", 1_000.0, &[&[110.0, 220.0, 110.0]]),
        ];
        let parties = named(&["frevo/ldap"]);
        let table = growth("logons", &cases, &parties, Metric::MEDIAN_LATENCY).unwrap();
        let same = "1.00 (1.00 to 1.00)";
        let more = "1.10 (1.10 to 1.10)";
        assert_eq!(table.rows, [["frevo/ldap", same, same, more, more]]);
        let verdicts = verdicts("one after the other", &cases, &parties, Metric::MEDIAN_LATENCY);
        assert!(verdicts[0].contains("1,000 users are the slowest, 1.10 (1.10 to 1.10) times"), "{verdicts:?}");
        let figure = figure("logons", Axis::default(), &cases, &parties, Metric::MEDIAN_LATENCY).unwrap();
        assert!((figure.series[0].points[2].y - 1.1).abs() < 1e-9);
        assert_eq!(growth("logons", &cases[..1], &parties, Metric::MEDIAN_LATENCY), None);
        assert_eq!(growth("logons", &cases, &parties, Metric::RATE), None, "nothing was counted");
    }

    #[test]
    fn medians_and_quartiles_of_the_rounds() {
        let ratio = Ratio::of((1..=8).map(f64::from).collect()).unwrap();
        assert_eq!(ratio, Ratio { median: 4.5, low: 3.0, high: 6.0 });
        assert_eq!(Ratio::of(vec![2.0, f64::NAN]), Some(Ratio { median: 2.0, low: 2.0, high: 2.0 }));
        assert_eq!(Ratio::of(Vec::new()), None);
    }

    #[test]
    fn back_ends_of_one_program_are_compared() {
        let cases = [case("10 users", 10.0, &[&[100.0, 200.0], &[120.0, 240.0], &[900.0, 900.0]])];
        let parties = named(&["frevo/smbpasswd", "frevo/ldap", "samba/ldap"]);
        let table = backends("logons", &cases, &parties, Metric::MEDIAN_LATENCY).unwrap();
        assert_eq!(table.rows, [["frevo: ldap / smbpasswd", "1.20 (1.20 to 1.20)"]]);
        assert_eq!(backends("logons", &cases, &named(&["a", "b", "c"]), Metric::MEDIAN_LATENCY), None);
    }

    #[test]
    fn system_calls_are_listed_by_name() {
        let counted = |reads: u64| {
            let calls = Some([("read".to_owned(), reads), ("mmap".to_owned(), 1), ("futex".to_owned(), 200)].into());
            Round { operations: 100, cost: Some(Cost { calls, ..Cost::default() }), ..Round::default() }
        };
        let with = |name: &str, reads| Case {
            name: name.into(),
            servers: vec![vec![Round { operations: 9, ..Round::default() }, counted(reads)], Vec::new()],
            ..Case::default()
        };
        let cases = [with("10 users", 300), with("20 users", 400)];
        let tables = calls("logons", &cases, &named(&["frevo", "samba"]));
        assert_eq!(tables.len(), 1);
        assert_eq!(tables[0].rows, [["all", "5.01", "6.01"], ["read", "3", "4"], ["futex", "2", "2"]]);
    }
}
