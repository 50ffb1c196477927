//! The numbers of the metrics, and the rates between two readings of them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::cost::Cost;

/// The values of a sample of the history.
pub(super) const SERIES: &[&str] =
    &["read", "written", "requests", "mean", "p99", "sessions", "connections", "opens", "locks", "refused"];

/// One line of the metrics.
struct Line<'t> {
    name: &'t str,
    labels: &'t str,
    value: f64,
}

impl Line<'_> {
    /// Returns the value of the first label called `name`.
    fn label(&self, name: &str) -> Option<String> {
        let (_, rest) = self.labels.split_once(name)?;
        let mut characters = rest.strip_prefix("=\"")?.chars();
        let mut value = String::new();
        loop {
            match characters.next()? {
                '"' => return Some(value),
                '\\' => value.push(match characters.next()? {
                    'n' => '\n',
                    other => other,
                }),
                other => value.push(other),
            }
        }
    }
}

fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let (series, value) = line.rsplit_once(' ')?;
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        Some(Line { name, labels, value: value.parse().ok()? })
    })
}

/// What the console uses of the metrics.
#[derive(Clone, PartialEq, Default, Debug)]
pub(super) struct Numbers {
    /// Since the start of the server.
    pub(super) shares: BTreeMap<String, Cost>,
    refused: BTreeMap<String, f64>,
    held: BTreeMap<String, f64>,
    requests: f64,
    seconds: f64,
    /// Requests by the limit of their time, in microseconds, cumulated.
    buckets: BTreeMap<u64, f64>,
    started: f64,
    /// The shares of the configuration.
    configured: f64,
    version: String,
}

impl Numbers {
    /// Reads the metrics.
    pub(super) fn of(text: &str) -> Numbers {
        let mut numbers = Numbers::default();
        for line in lines(text) {
            let label = |name: &str| line.label(name).unwrap_or_default();
            let mut share = |field: fn(&mut Cost) -> &mut f64| {
                *field(numbers.shares.entry(label("share")).or_default()) += line.value
            };
            match line.name {
                "frevo_share_requests_total" => share(|cost| &mut cost.requests),
                "frevo_share_requests_failed_total" => share(|cost| &mut cost.failed),
                "frevo_share_read_bytes_total" => share(|cost| &mut cost.read),
                "frevo_share_written_bytes_total" => share(|cost| &mut cost.written),
                "frevo_share_request_seconds_total" => share(|cost| &mut cost.seconds),
                "frevo_logons_refused_total" => *numbers.refused.entry(label("status")).or_default() += line.value,
                "frevo_held" => *numbers.held.entry(label("resource")).or_default() += line.value,
                "frevo_request_duration_seconds_count" => numbers.requests += line.value,
                "frevo_request_duration_seconds_sum" => numbers.seconds += line.value,
                "frevo_request_duration_seconds_bucket" => {
                    let limit = label("le").parse::<f64>().map_or(f64::INFINITY, |limit| limit * 1e6);
                    *numbers.buckets.entry(limit.min(1e18) as u64).or_default() += line.value;
                }
                "process_start_time_seconds" => numbers.started = line.value,
                "frevo_shares" => numbers.configured = line.value,
                "frevo_build_info" => numbers.version = label("version"),
                _ => {}
            }
        }
        numbers
    }

    /// Returns what the overview shows.
    pub(super) fn overview(&self) -> Value {
        let held = |name: &str| self.held.get(name).copied().unwrap_or(0.0);
        let refused: BTreeMap<_, _> = self.refused.iter().filter(|(_, number)| **number > 0.0).collect();
        json!({
            "configured": self.configured, "version": self.version, "started": self.started,
            "refused": refused,
            "sessions": held("sessions"), "connections": held("connections"), "opens": held("opens"),
            "locks": held("locks"),
        })
    }

    /// Returns the values of [`SERIES`], where `before` was read `seconds` earlier. After a restart of the server, the
    /// numbers since then are used.
    pub(super) fn sample(&self, before: &Numbers, seconds: f64) -> Vec<f64> {
        let zero = Numbers::default();
        let before = self.of_this_server(before, &zero);
        let sum = |numbers: &Numbers, of: fn(&Cost) -> f64| numbers.shares.values().map(of).sum::<f64>();
        let grown = |of: fn(&Cost) -> f64| (sum(self, of) - sum(before, of)).max(0.0) / seconds;
        let held = |name: &str| self.held.get(name).copied().unwrap_or(0.0);
        let requests = (self.requests - before.requests).max(0.0);
        let mean = if requests > 0.0 { (self.seconds - before.seconds).max(0.0) / requests } else { 0.0 };
        let refused = |numbers: &Numbers| numbers.refused.values().sum::<f64>();
        vec![
            grown(|cost| cost.read),
            grown(|cost| cost.written),
            requests / seconds,
            mean,
            self.percentile(before, requests * 0.99),
            held("sessions"),
            held("connections"),
            held("opens"),
            held("locks"),
            (refused(self) - refused(before)).max(0.0) / seconds * 60.0,
        ]
    }

    /// Returns `before`, or `zero` if the server has been started since.
    fn of_this_server<'n>(&self, before: &'n Numbers, zero: &'n Numbers) -> &'n Numbers {
        if before.started == self.started { before } else { zero }
    }

    /// Returns the cost of each share since `before`; after a restart of the server, since then.
    pub(super) fn cost(&self, before: &Numbers) -> BTreeMap<String, Cost> {
        let zero = Numbers::default();
        let before = self.of_this_server(before, &zero);
        let since = |(name, cost): (&String, &Cost)| {
            let grown = cost.since(before.shares.get(name).unwrap_or(&Cost::default()));
            (grown != Cost::default()).then(|| (name.clone(), grown))
        };
        self.shares.iter().filter_map(since).collect()
    }

    /// Returns the time within which `rank` of the requests since `before` have ended, in seconds.
    fn percentile(&self, before: &Numbers, rank: f64) -> f64 {
        let since = |(limit, number): (&u64, &f64)| (*limit, number - before.buckets.get(limit).unwrap_or(&0.0));
        let mut last = 0;
        for (limit, number) in self.buckets.iter().map(since) {
            if number >= rank && rank > 0.0 {
                // The last limit is infinite.
                return if limit >= 1_000_000_000_000 { last as f64 / 1e6 } else { limit as f64 / 1e6 };
            }
            last = limit;
        }
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "# HELP x y\n\
        frevo_share_read_bytes_total{share=\"a\"} 100\n\
        frevo_request_duration_seconds_count{command=\"READ\"} 10\n\
        frevo_request_duration_seconds_sum{command=\"READ\"} 1.0\n\
        frevo_request_duration_seconds_bucket{command=\"READ\",le=\"0.001\"} 10\n\
        frevo_request_duration_seconds_bucket{command=\"READ\",le=\"+Inf\"} 10\n\
        frevo_logons_refused_total{status=\"STATUS_LOGON_FAILURE\"} 1\n\
        process_start_time_seconds 1000\n";
    const AFTER: &str = "frevo_share_read_bytes_total{share=\"a\"} 300\n\
        frevo_share_request_seconds_total{share=\"a\"} 1.5\n\
        frevo_share_read_bytes_total{share=\"b \\\"<i>\\\\\"} 1000\n\
        frevo_request_duration_seconds_count{command=\"READ\"} 20\n\
        frevo_request_duration_seconds_count{command=\"WRITE\"} 10\n\
        frevo_request_duration_seconds_sum{command=\"READ\"} 3.0\n\
        frevo_request_duration_seconds_bucket{command=\"READ\",le=\"0.001\"} 12\n\
        frevo_request_duration_seconds_bucket{command=\"READ\",le=\"0.5\"} 30\n\
        frevo_request_duration_seconds_bucket{command=\"READ\",le=\"+Inf\"} 30\n\
        frevo_logons_refused_total{status=\"STATUS_LOGON_FAILURE\"} 4\n\
        frevo_held{resource=\"opens\"} 7\n\
        process_start_time_seconds 1000\n";

    #[test]
    fn rates_are_those_between_two_readings() {
        let (before, after) = (Numbers::of(BEFORE), Numbers::of(AFTER));
        let sample = after.sample(&before, 10.0);
        let value = |name: &str| sample[SERIES.iter().position(|known| *known == name).expect("a series")];
        assert_eq!(sample.len(), SERIES.len());
        assert_eq!((value("read"), value("written"), value("requests")), (120.0, 0.0, 2.0));
        assert_eq!((value("mean"), value("p99"), value("opens")), (0.1, 0.5, 7.0));
        assert_eq!(value("refused"), 18.0);
        let restarted = Numbers { started: 2000.0, ..after };
        assert_eq!(restarted.sample(&before, 10.0)[0], 130.0);
        assert_eq!(Numbers::default().sample(&Numbers::default(), 1.0), [0.0; 10]);
    }

    #[test]
    fn names_are_as_the_metrics_escape_them() {
        let numbers = Numbers::of(AFTER);
        assert!(numbers.shares.contains_key("b \"<i>\\"), "{numbers:?}");
        let overview = numbers.overview();
        assert_eq!((&overview["opens"], &overview["refused"]["STATUS_LOGON_FAILURE"]), (&json!(7.0), &json!(4.0)));
    }

    #[test]
    fn costs_are_those_since_the_former_reading() {
        let (before, after) = (Numbers::of(BEFORE), Numbers::of(AFTER));
        let cost = after.cost(&before);
        assert_eq!((cost["a"].read, cost["b \"<i>\\"].read), (200.0, 1000.0));
        assert_eq!(cost["a"].seconds, 1.5);
        assert!(after.cost(&after).is_empty(), "shares without requests are left out");
        let restarted = Numbers { started: 2000.0, ..after };
        assert_eq!(restarted.cost(&before)["a"].read, 300.0);
    }
}
