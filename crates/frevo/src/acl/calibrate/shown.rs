//! Output of a calibration: a table on the terminal and a page with the study's plot.

use std::path::Path;

use report::machine;
use report::record::{Axis, Experiment, FORMAT, Figure, Kind, Point, Run, Series, Table};
use report::units::{self, NOTHING};
use server::policy::{AclStore, Share};

use super::saved::{Calibration, Sample, Spread, Times};
use super::verdict::pays;
use crate::table::table;

/// Returns the table and the conclusion.
pub(super) fn text(calibration: &Calibration, share: &Share, plot: Option<&Path>, dry_run: bool) -> String {
    let head = head();
    let heads: Vec<&str> = head.iter().map(String::as_str).collect();
    let mut text = table(&heads, &calibration.samples.iter().map(row).collect::<Vec<_>>());
    text += "\nMinimum / mean of a check over the runs. T_C converts, T_CW converts and stores, T_A reads.\n";
    text += &verdict(calibration);
    text.push('\n');
    match &share.acls.acl_store {
        _ if dry_run => {}
        AclStore::Auto(_) => text += "A running server uses the result after its next reload or restart.\n",
        AclStore::Said(entries) => {
            text += &format!(
                "The share has frevo:acl store = {entries}, which takes precedence; set it to auto to use the result.\n"
            );
        }
    }
    if let Some(plot) = plot {
        text += &format!("Plot: {}\n", plot.display());
    }
    text
}

/// Returns one sentence with the conclusion.
fn verdict(calibration: &Calibration) -> String {
    let entries = calibration.entries();
    match entries.to_string().as_str() {
        "never" => format!(
            "No converted descriptor of `{}` will be stored: converting again is as fast as reading a stored one.",
            calibration.share
        ),
        "always" => {
            format!("Every converted descriptor of `{}` will be stored at the first access.", calibration.share)
        }
        range => format!(
            "Converted descriptors of `{}` will be stored at the first access where the POSIX ACL has {range} entries.",
            calibration.share
        ),
    }
}

fn head() -> Vec<String> {
    ["Entries", "T_C warm", "T_CW warm", "T_A warm", "T_C cold", "T_CW cold", "T_A cold", "Pays"]
        .map(str::to_owned)
        .into()
}

fn row(sample: &Sample) -> Vec<String> {
    let cell = |spread: Option<Spread>| match spread {
        Some(Spread { minimum, mean }) => format!("{} / {}", units::seconds(minimum), units::seconds(mean)),
        None => NOTHING.to_owned(),
    };
    let cells = |times: Option<&Times>| {
        [
            times.map(|times| times.converted),
            times.and_then(|times| times.written),
            times.and_then(|times| times.stored),
        ]
        .map(cell)
    };
    let mut row = vec![sample.entries.to_string()];
    row.extend(cells(Some(&sample.warm)));
    row.extend(cells(sample.cold.as_ref()));
    row.push(if pays(sample) { "yes" } else { "no" }.to_owned());
    row
}

/// Builds the page in the style of the benchmark reports. `seconds` is the duration of the measurement.
pub(super) fn page(calibration: &Calibration, seconds: f64) -> String {
    let title = "Time of an access check, mean over the files, minimum to mean over the runs";
    let figures = [(false, "with warm caches"), (true, "with cold caches")]
        .map(|(cold, which)| figure(calibration, cold, &format!("{title}, {which}")));
    let mut settings = vec![("share".to_owned(), calibration.share.clone())];
    settings.extend(calibration.file_system.clone().map(|it| ("file system".to_owned(), it)));
    settings.push(("runs".to_owned(), calibration.runs.to_string()));
    let experiment = Experiment {
        name: "acl calibrate".into(),
        title: "Does storing the security descriptor converted from a POSIX ACL pay off?".into(),
        study:
            "Concurrent use of POSIX ACL and rich ACL (2011): store where T_CW + (n-1) T_A < n T_C, n being about 4; \
                on XFS in 2011, for 6 entries and more"
                .into(),
        settings,
        tables: vec![Table {
            title: "Minimum / mean of a check".into(),
            head: head(),
            rows: calibration.samples.iter().map(row).collect(),
        }],
        figures: figures.into_iter().filter(|figure| figure.series.iter().any(|it| !it.points.is_empty())).collect(),
        remarks: vec![verdict(calibration)],
        ..Experiment::default()
    };
    report::page(&[Run {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").into(),
        started: calibration.taken.clone(),
        seconds,
        command: vec!["frevo".into(), "acl".into(), "calibrate".into(), calibration.share.clone()],
        seed: 0,
        method: Vec::new(),
        machine: machine::describe(),
        servers: Vec::new(),
        experiments: vec![experiment],
    }])
}

fn figure(calibration: &Calibration, cold: bool, title: &str) -> Figure {
    let axis = |label: &str, unit: &str| Axis { label: label.into(), unit: unit.into(), logarithmic: true };
    let series = |name: &str, of: fn(&Times) -> Option<Spread>| {
        let point = |sample: &Sample| {
            let times = if cold { sample.cold.as_ref()? } else { &sample.warm };
            let Spread { minimum, mean } = of(times)?;
            let micros = 1e6;
            Some(Point { x: sample.entries.into(), y: minimum * micros, low: minimum * micros, high: mean * micros })
        };
        Series {
            name: name.into(),
            then: false,
            server: None,
            points: calibration.samples.iter().filter_map(point).collect(),
        }
    };
    Figure {
        title: title.into(),
        x: axis("POSIX ACL entries", ""),
        y: axis("time of a check", "µs"),
        kind: Kind::Lines,
        categories: Vec::new(),
        series: vec![
            series("T_C: converts", |times| Some(times.converted)),
            series("T_CW: converts and stores", |times| times.written),
            series("T_A: reads the stored descriptor", |times| times.stored),
        ],
    }
}
