//! Turns rounds into tables and figures: medians with their spread, servers side by side, ratios.

use crate::method::{counts, median};
use crate::record::{Axis, Case, Figure, Kind, Point, Round, Series, Table};
use crate::units;

/// A quantity that is measured in a round.
#[derive(Clone, Copy)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// Its unit; empty for a count.
    pub unit: &'static str,
    /// Returns its value, or `None` if the round does not have it.
    pub of: fn(&Round) -> Option<f64>,
    /// Formats a value with its unit.
    pub text: fn(f64) -> String,
    /// Whether more is better. The ratio of a comparison is how many times better the target is.
    pub more_is_better: bool,
    /// Whether it is a count from a round with system-call tracing.
    pub traced: bool,
}

impl Metric {
    /// Operations per second.
    pub const RATE: Metric = Metric {
        name: "operations",
        unit: "1/s",
        of: |round| per_second(round, round.operations),
        text: units::per_second,
        more_is_better: true,
        traced: false,
    };
    /// Payload per second.
    pub const THROUGHPUT: Metric = Metric {
        name: "throughput",
        unit: "MiB/s",
        of: |round| Some(per_second(round, round.bytes)? / MIB),
        text: |value| units::rate(value * MIB),
        more_is_better: true,
        traced: false,
    };
    /// The median latency of the operations.
    pub const MEDIAN_LATENCY: Metric = Metric {
        name: "median latency",
        unit: "µs",
        of: |round| round.latency.map(|latency| latency.p50),
        text: |value| units::seconds(value / 1e6),
        more_is_better: false,
        traced: false,
    };
    /// The 99th percentile of the latency.
    pub const P99: Metric = Metric {
        name: "99th percentile of latency",
        unit: "µs",
        of: |round| round.latency.map(|latency| latency.p99),
        text: |value| units::seconds(value / 1e6),
        more_is_better: false,
        traced: false,
    };
    /// The server's processor time per operation.
    pub const CPU_PER_OPERATION: Metric = Metric {
        name: "server CPU per operation",
        unit: "µs",
        of: |round| per_operation(round, round.cost.as_ref()?.cpu * 1e6),
        text: |value| units::seconds(value / 1e6),
        more_is_better: false,
        traced: false,
    };
    /// The server's processor time per GiB.
    pub const CPU_PER_GIB: Metric = Metric {
        name: "server CPU per GiB",
        unit: "s",
        of: |round| per_gib(round, round.cost.as_ref()?.cpu),
        text: units::seconds,
        more_is_better: false,
        traced: false,
    };
    /// The tool's own processor time per operation.
    pub const CLIENT_PER_OPERATION: Metric = Metric {
        name: "client CPU per operation",
        unit: "µs",
        of: |round| per_operation(round, round.client_cpu * 1e6),
        text: |value| units::seconds(value / 1e6),
        more_is_better: false,
        traced: false,
    };
    /// The tool's own processor time per GiB.
    pub const CLIENT_PER_GIB: Metric = Metric {
        name: "client CPU per GiB",
        unit: "s",
        of: |round| per_gib(round, round.client_cpu),
        text: units::seconds,
        more_is_better: false,
        traced: false,
    };
    /// The server's context switches per operation.
    pub const SWITCHES: Metric = Metric {
        name: "context switches per operation",
        unit: "",
        of: |round| per_operation(round, round.cost.as_ref()?.switches as f64),
        text: units::number,
        more_is_better: false,
        traced: false,
    };
    /// The bytes that the server reads per operation, usually from files ([`crate::record::Cost::read`]).
    pub const READ: Metric = Metric {
        name: "bytes read per operation",
        unit: "B",
        of: |round| per_operation(round, round.cost.as_ref()?.read? as f64),
        text: units::bytes,
        more_is_better: false,
        traced: false,
    };
    /// The server's system calls per operation.
    pub const CALLS: Metric = Metric {
        name: "system calls per operation",
        unit: "",
        of: |round| per_operation(round, round.cost.as_ref()?.calls.as_ref()?.values().sum::<u64>() as f64),
        text: units::number,
        more_is_better: false,
        traced: true,
    };

    /// The metrics of small operations.
    pub const OPERATIONS: [Metric; 7] = [
        Metric::RATE,
        Metric::MEDIAN_LATENCY,
        Metric::P99,
        Metric::CPU_PER_OPERATION,
        Metric::CLIENT_PER_OPERATION,
        Metric::SWITCHES,
        Metric::CALLS,
    ];

    /// The metrics of a stream of bytes.
    pub const BYTES: [Metric; 4] = [Metric::THROUGHPUT, Metric::CPU_PER_GIB, Metric::CLIENT_PER_GIB, Metric::CALLS];

    /// Returns its values in the rounds that are valid for it.
    pub(crate) fn values(self, rounds: &[Round]) -> Vec<f64> {
        rounds.iter().filter(|round| self.traced != counts(round)).filter_map(self.of).collect()
    }

    /// Returns its median, or `None` if no round has it.
    pub fn median(self, rounds: &[Round]) -> Option<f64> {
        median(self.values(rounds))
    }

    /// Returns its median with the smallest and the largest value.
    pub fn point(self, x: f64, rounds: &[Round]) -> Option<Point> {
        let values = self.values(rounds);
        let y = median(values.iter().copied())?;
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(Point { x, y, low, high })
    }

    /// Returns its axis.
    pub fn axis(self) -> Axis {
        Axis { label: self.name.to_owned(), unit: self.unit.to_owned(), logarithmic: false }
    }

    /// Formats the median with its spread, the number of odd rounds, and the number of failed operations in all rounds.
    pub fn cell(self, rounds: &[Round]) -> String {
        let Some(Point { y, low, high, .. }) = self.point(0.0, rounds) else { return "-".to_owned() };
        let mut text = (self.text)(y);
        if high > low && y > 0.0 {
            text += &format!(" ±{:.0}%", ((high - low) / 2.0 / y * 100.0).max(1.0));
        }
        let odd = rounds.iter().filter(|round| round.odd).count();
        let failed: u64 = rounds.iter().map(|round| round.errors).sum();
        let notes: Vec<String> = [(odd as u64, "odd"), (failed, "failed")]
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        if notes.is_empty() { text } else { format!("{text} ({})", notes.join(", ")) }
    }

    /// Returns how many times better the first server is than the second.
    fn advantage(self, case: &Case) -> Option<f64> {
        let of = |server: usize| self.median(case.servers.get(server)?);
        let (target, other) = (of(0)?, of(1)?);
        let ratio = if self.more_is_better { target / other } else { other / target };
        ratio.is_finite().then_some(ratio)
    }
}

const MIB: f64 = 1_048_576.0;

/// Returns `None` for an amount that a round does not count. Zero is a result if operations failed.
fn per_second(round: &Round, amount: u64) -> Option<f64> {
    (amount > 0 || round.errors > 0).then(|| amount as f64 / round.seconds)
}

fn per_operation(round: &Round, amount: f64) -> Option<f64> {
    (round.operations > 0).then(|| amount / round.operations as f64)
}

fn per_gib(round: &Round, amount: f64) -> Option<f64> {
    (round.bytes > 0).then(|| amount / (round.bytes as f64 / MIB / 1024.0))
}

/// The names of the measured servers or parties, in order.
pub type Names<'a> = &'a [&'a str];

/// Returns a table of one metric, with a row for each case and a column for each server. With two servers, a last
/// column shows how many times better the first one is.
pub fn comparison(title: &str, cases: &[Case], names: Names<'_>, metric: Metric) -> Table {
    let mut head = vec![metric.name.to_owned()];
    head.extend(names.iter().map(|name| (*name).to_owned()));
    if names.len() == 2 {
        head.push(format!("{} is better by", names[0]));
    }
    let row = |case: &Case| {
        let mut row = vec![case.name.clone()];
        row.extend(case.servers.iter().map(|rounds| metric.cell(rounds)));
        if names.len() == 2 {
            row.push(metric.advantage(case).map_or("-".to_owned(), units::ratio));
        }
        row
    };
    Table { title: title.to_owned(), head, rows: cases.iter().map(row).collect() }
}

/// Returns a [`comparison`] for each of `metrics` that was measured.
pub fn comparisons(title: &str, cases: &[Case], names: Names<'_>, metrics: &[Metric]) -> Vec<Table> {
    let measured = |metric: &&Metric| cases.iter().flat_map(|case| &case.servers).any(|it| metric.median(it).is_some());
    let table = |metric: &Metric| comparison(&format!("{title}: {}", metric.name), cases, names, *metric);
    metrics.iter().filter(measured).map(table).collect()
}

/// Returns a bar chart with a group for each case and a colour for each server.
pub fn bars(title: &str, cases: &[Case], names: Names<'_>, metric: Metric) -> Figure {
    let series = |(server, name): (usize, &&str)| {
        let point = |(index, case): (usize, &Case)| metric.point(index as f64, case.servers.get(server)?);
        let points = cases.iter().enumerate().filter_map(point).collect();
        Series { name: (*name).to_owned(), then: false, server: Some(server), points }
    };
    Figure {
        title: title.to_owned(),
        x: Axis::default(),
        y: metric.axis(),
        kind: Kind::Bars,
        categories: cases.iter().map(|case| case.name.clone()).collect(),
        series: names.iter().enumerate().map(series).collect(),
    }
}

/// Returns a line chart over the cases' coordinates on the experiment's axis, with a line for each server.
pub fn lines(title: &str, x: Axis, cases: &[Case], names: Names<'_>, metric: Metric) -> Figure {
    let series = |(server, name): (usize, &&str)| {
        let point = |case: &Case| metric.point(case.x?, case.servers.get(server)?);
        let points = cases.iter().filter_map(point).collect();
        Series { name: (*name).to_owned(), then: false, server: Some(server), points }
    };
    let series = names.iter().enumerate().map(series).collect();
    Figure { title: title.to_owned(), x, y: metric.axis(), kind: Kind::Lines, categories: Vec::new(), series }
}

/// Returns the latency distribution of a case: the share of operations that were done by each time, over all rounds.
pub fn distribution(title: &str, case: &Case, names: Names<'_>) -> Figure {
    let series = |(server, name): (usize, &&str)| {
        let points = case.servers.get(server).map_or_else(Vec::new, |rounds| done_by(rounds));
        Series { name: (*name).to_owned(), then: false, server: Some(server), points }
    };
    Figure {
        title: title.to_owned(),
        x: Axis { label: "latency".into(), unit: "µs".into(), logarithmic: true },
        y: Axis { label: "operations completed by that time".into(), unit: "%".into(), logarithmic: false },
        kind: Kind::Lines,
        categories: Vec::new(),
        series: names.iter().enumerate().map(series).collect(),
    }
}

fn done_by(rounds: &[Round]) -> Vec<Point> {
    let mut buckets: Vec<(f64, u64)> =
        rounds.iter().filter(|round| counts(round)).flat_map(|round| round.histogram.iter().copied()).collect();
    buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
    let all: u64 = buckets.iter().map(|(_, count)| count).sum();
    let mut points: Vec<Point> = Vec::new();
    let mut done = 0;
    for (upper, count) in buckets {
        done += count;
        let y = done as f64 / all as f64 * 100.0;
        // Equal buckets of several rounds become one point.
        if points.last().is_some_and(|last| last.x == upper) {
            points.pop();
        }
        points.push(Point { x: upper, y, low: y, high: y });
    }
    points
}

/// Returns the results of a study as a series to draw next to the measurements.
pub fn then(name: &str, points: &[(f64, f64)]) -> Series {
    let point = |(x, y): &(f64, f64)| Point { x: *x, y: *y, low: *y, high: *y };
    Series { name: name.to_owned(), then: true, server: None, points: points.iter().map(point).collect() }
}

/// Returns the [`client_share`] of each server.
pub fn client_shares(cases: &[Case], names: Names<'_>) -> Vec<String> {
    names.iter().enumerate().filter_map(|(index, name)| client_share(cases, index, name)).collect()
}

/// Returns a sentence that compares the tool's own processor time with the server's, or `None` if that is unknown.
pub fn client_share(cases: &[Case], server: usize, name: &str) -> Option<String> {
    let rounds = || cases.iter().filter_map(|case| case.servers.get(server)).flatten().filter(|round| counts(round));
    let client: f64 = rounds().filter(|round| round.cost.is_some()).map(|round| round.client_cpu).sum();
    let cpu: f64 = rounds().filter_map(|round| round.cost.as_ref()).map(|cost| cost.cpu).sum();
    let verdict = if client <= cpu {
        ""
    } else {
        ". That is more than the server used, so the server may be faster than these results show"
    };
    (cpu > 0.0).then(|| {
        let percent = client / cpu * 100.0;
        format!(
            "Generating the load took {} of processor time, {percent:.0} % of what {name} took{verdict}.",
            units::seconds(client)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Cost;

    fn round(operations: u64, seconds: f64) -> Round {
        Round { operations, seconds, bytes: operations << 20, ..Round::default() }
    }

    #[test]
    fn servers_are_compared_side_by_side() {
        let servers = vec![vec![round(200, 1.0), round(220, 1.0), round(210, 1.0)], vec![round(100, 1.0)], vec![]];
        let case = Case { name: "open".into(), servers, ..Case::default() };
        let two = Case { servers: case.servers[..2].to_vec(), ..case.clone() };
        let table = comparison("files", &[two], &["frevo", "samba"], Metric::RATE);
        assert_eq!(table.head, ["operations", "frevo", "samba", "frevo is better by"]);
        assert_eq!(table.rows[0][0], "open");
        assert!(table.rows[0][1].contains("±5%"), "{:?}", table.rows);
        assert_eq!(table.rows[0][3], units::ratio(2.1));
        let latency = comparisons("files", std::slice::from_ref(&case), &["a", "b", "c"], &[Metric::P99]);
        assert_eq!(latency, [], "nothing was timed");
        assert_eq!(bars("files", &[case], &["a", "b", "c"], Metric::RATE).series[2].points, []);
    }

    #[test]
    fn a_distribution_ends_with_all_operations() {
        let rounds = |histograms: &[&[(f64, u64)]]| -> Vec<Round> {
            histograms.iter().map(|it| Round { histogram: it.to_vec(), ..round(1, 1.0) }).collect()
        };
        let servers = vec![rounds(&[&[(1.0, 1), (4.0, 1)], &[(1.0, 2)]]), vec![]];
        let case = Case { name: "open".into(), x: None, servers, ..Case::default() };
        let figure = distribution("open", &case, &["frevo", "samba"]);
        let points: Vec<(f64, f64)> = figure.series[0].points.iter().map(|point| (point.x, point.y)).collect();
        assert_eq!(points, [(1.0, 75.0), (4.0, 100.0)]);
        assert_eq!(figure.series[1].points, []);
    }

    #[test]
    fn failures_are_shown_and_a_round_of_failures_has_rate_zero() {
        let failed = |operations, errors| Round { errors, bytes: 0, ..round(operations, 1.0) };
        let rounds = [failed(100, 0), failed(0, 4), failed(0, 3)];
        assert_eq!(Metric::RATE.median(&rounds), Some(0.0));
        assert!(Metric::RATE.cell(&rounds).ends_with("(7 failed)"), "{}", Metric::RATE.cell(&rounds));
        assert_eq!(Metric::RATE.median(&[failed(0, 0)]), None, "a round without operations");
    }

    #[test]
    fn lower_costs_are_better() {
        let cost = |cpu| Round { cost: Some(Cost { cpu, ..Cost::default() }), ..round(100, 1.0) };
        let case = Case { name: "open".into(), servers: vec![vec![cost(0.1)], vec![cost(0.4)]], ..Case::default() };
        assert_eq!(Metric::CPU_PER_OPERATION.advantage(&case), Some(4.0));
    }

    #[test]
    fn a_traced_round_is_used_only_for_system_calls() {
        let calls = Some([("read".to_owned(), 300), ("write".to_owned(), 100)].into());
        let traced = Round { cost: Some(Cost { calls, ..Cost::default() }), ..round(100, 50.0) };
        let rounds = [round(100, 1.0), traced];
        assert_eq!(Metric::RATE.median(&rounds), Some(100.0));
        assert_eq!(Metric::CALLS.median(&rounds), Some(4.0));
    }
}
