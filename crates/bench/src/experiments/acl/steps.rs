//! Interprets the times of access checks: the number of ACL entries from which it pays to store a converted ACL.

use report::metric::Metric;
use report::record::{Axis, Case, Experiment, Figure, Round, Series, Table};
use report::units;

use super::check::{KINDS, Kind};
use super::threes::Shares;
use crate::summary;

/// Name of the value for the fastest access of a round.
pub(super) const FASTEST: &str = "fastest access, µs";

pub(super) const MEAN: Metric = Metric {
    name: "mean time of an access",
    unit: "µs",
    of: |round| round.latency.map(|latency| latency.mean),
    ..Metric::MEDIAN_LATENCY
};

pub(super) const MINIMUM: Metric =
    Metric { name: "fastest access", of: |round| round.figures.get(FASTEST).copied(), ..Metric::MEDIAN_LATENCY };

/// Returns the study's result for this number of entries.
pub(super) fn then(entries: f64) -> &'static str {
    match entries {
        ..6.0 => "T_A > T_C: never write",
        ..35.0 => "write at first access",
        _ => "write, unless cached",
    }
}

/// The times for one number of entries on one server, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Times {
    entries: f64,
    /// T_C, or T_CW if the server stores at the first access.
    converted: f64,
    stored: Option<f64>,
    setting: Option<f64>,
}

/// Whether storing pays.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Verdict {
    /// Unknown, because there is no T_A.
    Unknown,
    /// Converting takes no longer than reading a stored ACL.
    Never,
    /// From this number of accesses to a file.
    After(f64),
}

impl Times {
    /// Without writing, n accesses take n T_C. With writing, they take T_CW + (n - 1) T_A. Here T_CW is T_C + T_W:
    /// converting the ACL and then setting it like a client.
    fn verdict(self) -> Verdict {
        let (Some(stored), Some(setting)) = (self.stored, self.setting) else { return Verdict::Unknown };
        let gain = self.converted - stored;
        if gain <= 0.0 { Verdict::Never } else { Verdict::After((gain + setting) / gain) }
    }
}

impl Verdict {
    fn text(self) -> String {
        match self {
            Verdict::Unknown => units::NOTHING.to_owned(),
            Verdict::Never => "never".to_owned(),
            Verdict::After(accesses) => format!("after {} accesses", units::number(accesses.ceil())),
        }
    }
}

/// Returns the cases of a kind.
pub(super) fn of_kind(cases: &[Case], kind: Kind) -> Vec<Case> {
    let place = KINDS.iter().position(|it| *it == kind).unwrap_or(0);
    cases.iter().skip(place).step_by(KINDS.len()).cloned().collect()
}

fn rounds(case: &Case, server: usize) -> &[Round] {
    case.servers.get(server).map_or(&[], Vec::as_slice)
}

fn times(cases: &[Case], server: usize) -> Vec<Times> {
    let of = |case: &Case| MEAN.median(rounds(case, server));
    let size = |sizes: &[Case]| {
        let [converted, stored, setting] = sizes else { return None };
        Some(Times { entries: converted.x?, converted: of(converted)?, stored: of(stored), setting: of(setting) })
    };
    cases.chunks(KINDS.len()).filter_map(size).collect()
}

/// Returns the smallest number of entries from which storing pays at every larger size with a T_A.
fn pays_from(times: &[Times]) -> Option<f64> {
    let known = times.iter().rev().filter(|times| times.verdict() != Verdict::Unknown);
    known.take_while(|times| times.verdict() != Verdict::Never).last().map(|times| times.entries)
}

/// Builds the experiment. `at_access` states for each server whether it stores at the first access.
pub(super) fn experiment(
    names: &[&str],
    cases: Vec<Case>,
    at_access: &[bool],
    settings: Vec<(String, String)>,
    mut remarks: Vec<String>,
) -> Experiment {
    let shares = Shares::of(names);
    let mut tables: Vec<Table> = shares.iter().map(|shares| shares.table(&cases)).collect();
    let mut drawn: Vec<Figure> = Vec::new();
    for shares in &shares {
        drawn.push(shares.figure(&cases, names, "time of an access check", MEAN));
        drawn.push(shares.figure(&cases, names, "time of the fastest access check", MINIMUM));
    }
    drawn.extend(figures(names, &cases, at_access));
    for (server, name) in names.iter().enumerate() {
        tables.push(steps(name, &cases, server, at_access[server]));
        if !at_access[server] {
            remarks.extend(remark(name, &times(&cases, server)));
        }
    }
    let converted = of_kind(&cases, Kind::Converted);
    tables.extend(summary::comparisons(
        "Converting",
        &converted,
        names,
        &[MEAN, Metric::CPU_PER_OPERATION, Metric::CALLS],
    ));
    let stored = of_kind(&cases, Kind::Stored);
    tables.extend(summary::comparisons("With a stored ACL", &stored, names, &[MEAN, Metric::CPU_PER_OPERATION]));
    Experiment {
        name: "acl check".into(),
        title: "What does an access check cost, and from which ACL size does it pay to store the converted ACL?".into(),
        study: "Hitachi and Osaka University, \"Concurrent use of POSIX ACL and rich ACL\" (2011, XFS, cold): 3-5 \
                entries, reading a stored ACL takes longer than converting one (T_A > T_C): never write. 6-34 \
                entries, T_A < T_C < T_CW in steps of about 0.5 ms: write at the first access. 35 and more, T_CW is \
                very large and T_C grows with sorting: write, unless an ACL cache keeps the result."
            .into(),
        settings,
        figures: drawn,
        tables,
        remarks,
        cases,
    }
}

/// Returns a table of one server's times, with a row for each number of entries.
fn steps(name: &str, cases: &[Case], server: usize, at_access: bool) -> Table {
    let text = |metric: Metric, case: &Case| metric.point(0.0, rounds(case, server));
    let mean = |case: &Case| text(MEAN, case).map_or(units::NOTHING.to_owned(), |point| (MEAN.text)(point.y));
    let minimum = |case: &Case| text(MINIMUM, case).map_or(units::NOTHING.to_owned(), |point| (MEAN.text)(point.low));
    let all = times(cases, server);
    let row = |(sizes, times): (&[Case], &Times)| {
        let mut row = vec![units::number(times.entries)];
        row.extend(sizes.iter().take(2).flat_map(|case| [mean(case), minimum(case)]));
        row.extend(sizes.last().map(mean));
        row.push(if at_access { units::NOTHING.to_owned() } else { times.verdict().text() });
        row.push(then(times.entries).to_owned());
        row
    };
    let first = if at_access { "T_CW" } else { "T_C" };
    let head = ["ACL entries", first, "its minimum", "T_A", "its minimum", "T_W", "storing pays", "in 2011"];
    Table {
        title: format!("{name}: time of an access check"),
        head: head.map(str::to_owned).to_vec(),
        rows: cases.chunks(KINDS.len()).zip(&all).map(row).collect(),
    }
}

fn remark(name: &str, times: &[Times]) -> Option<String> {
    let last = times.iter().rfind(|times| times.stored.is_some())?;
    let verdict = match pays_from(times) {
        Some(entries) => format!("storing pays from {} entries", units::number(entries)),
        None => format!("storing does not pay up to {} entries", units::number(last.entries)),
    };
    Some(format!("{name}: {verdict}, if a file is accessed often enough (in 2011: from 6)."))
}

/// Returns figures of time by number of entries, both logarithmic: T_C and T_A of each server, mean and fastest.
fn figures(names: &[&str], cases: &[Case], at_access: &[bool]) -> Vec<Figure> {
    let x = || Axis { label: "ACL entries".into(), unit: String::new(), logarithmic: true };
    let draw = |title: &str, metric: Metric| {
        let mut series: Vec<Series> = Vec::new();
        for kind in [Kind::Converted, Kind::Stored] {
            let drawn = summary::lines("", x(), &of_kind(cases, kind), names, metric).series;
            for (mut line, at_access) in drawn.into_iter().zip(at_access).filter(|(line, _)| !line.points.is_empty()) {
                let symbol = match (kind, at_access) {
                    (Kind::Converted, true) => "T_CW",
                    (Kind::Converted, false) => "T_C",
                    _ => "T_A",
                };
                line.name = format!("{} {symbol}", line.name);
                series.push(line);
            }
        }
        let y = Axis { logarithmic: true, ..metric.axis() };
        Figure { title: title.to_owned(), x: x(), y, series, ..Figure::default() }
    };
    vec![draw("Time of an access check", MEAN), draw("Time of the fastest access check", MINIMUM)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::record::Latency;

    fn of(entries: f64, converted: f64, stored: f64, setting: f64) -> Times {
        Times { entries, converted, stored: Some(stored), setting: Some(setting) }
    }

    #[test]
    fn storing_pays_if_reading_is_faster_and_accesses_suffice() {
        let check = |times: Times, expected| assert_eq!(times.verdict(), expected, "{times:?}");
        check(of(3.0, 100.0, 120.0, 500.0), Verdict::Never);
        check(of(3.0, 100.0, 100.0, 0.0), Verdict::Never);
        // Without storing 6 x 200 = 1200, with storing 700 + 5 x 100 = 1200.
        check(of(6.0, 200.0, 100.0, 500.0), Verdict::After(6.0));
        check(Times { stored: None, ..of(6.0, 200.0, 0.0, 500.0) }, Verdict::Unknown);
    }

    #[test]
    fn storing_pays_from_the_first_length_after_which_it_always_pays() {
        let check = |gains: &[f64], expected| {
            let times: Vec<Times> = gains
                .iter()
                .zip([3.0, 5.0, 16.0])
                .map(|(gain, entries)| of(entries, 100.0, 100.0 - gain, 10.0))
                .collect();
            assert_eq!(pays_from(&times), expected, "{gains:?}");
        };
        check(&[-5.0, 5.0, 50.0], Some(5.0));
        check(&[5.0, -5.0, 50.0], Some(16.0));
        check(&[5.0, 5.0, -1.0], None);
        check(&[1.0, 1.0, 1.0], Some(3.0));
        check(&[], None);
        let unknown = Times { stored: None, ..of(300.0, 900.0, 0.0, 0.0) };
        assert_eq!(pays_from(&[of(16.0, 100.0, 50.0, 10.0), unknown]), Some(16.0));
    }

    #[test]
    fn a_server_without_stored_acls_has_only_conversion_times() {
        let round =
            |mean| Round { latency: Some(Latency { mean, ..Latency::default() }), operations: 1, ..Round::default() };
        let case = |target, other: Option<f64>| Case {
            name: "16 entries".into(),
            x: Some(16.0),
            servers: vec![vec![round(target)], other.map(round).into_iter().collect()],
            ..Case::default()
        };
        let mut cases = vec![case(100.0, Some(300.0)), case(50.0, None), case(200.0, None)];
        for case in &mut cases[1..] {
            case.servers.reverse();
        }
        let experiment = experiment(&["frevo", "samba"], cases, &[false, false], Vec::new(), Vec::new());
        assert_eq!(experiment.tables[0].rows[0][1], units::seconds(100e-6));
        assert_eq!(experiment.tables[0].rows[0][3], units::NOTHING);
        assert_eq!(experiment.tables[1].rows[0][6], "after 2 accesses");
        assert_eq!(experiment.tables[1].rows[0][7], "write at first access");
        let drawn: Vec<&str> = experiment.figures[0].series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(drawn, ["frevo T_C", "samba T_C", "samba T_A"]);
        assert_eq!(experiment.remarks.len(), 1, "{:?}", experiment.remarks);
    }
}
