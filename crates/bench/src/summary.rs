//! Turns rounds into tables and figures: medians with their spread, servers side by side, ratios.

use report::metric::{Metric, counts};
use report::record::{Axis, Case, Figure, Kind, Point, Round, Series, Table};
use report::units;

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
}
