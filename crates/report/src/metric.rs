//! The quantities that are measured in a round, and the median of their values.

use crate::record::{Axis, Case, Point, Round};
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
    pub fn values(self, rounds: &[Round]) -> Vec<f64> {
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
    pub fn advantage(self, case: &Case) -> Option<f64> {
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

/// Returns whether the round's times are valid. They are not if system calls were counted.
pub fn counts(round: &Round) -> bool {
    round.cost.as_ref().is_none_or(|cost| cost.calls.is_none())
}

/// Returns the median of `values`, or `None` if there are none.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        length if length % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Cost;

    fn round(operations: u64, seconds: f64) -> Round {
        Round { operations, seconds, bytes: operations << 20, ..Round::default() }
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median([]), None);
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
