//! Tests the page of an invented run with every kind of figure.

use std::fs;

use proptest::prelude::*;

use super::figure;
use super::look::Palette;
use super::*;
use crate::record::{Axis, Experiment, Figure, Kind, Machine, Point, Series, ServerRecord};

const SAMPLE: &str = include_str!("sample.json");

fn sample() -> Run {
    parse(SAMPLE).expect("the sample is a record")
}

/// Returns a run with these servers and without experiments.
pub(crate) fn run_of(servers: &[&str]) -> Run {
    let server = |name: &&str| ServerRecord { name: (*name).to_owned(), ..ServerRecord::default() };
    Run { servers: servers.iter().map(server).collect(), experiments: Vec::new(), ..sample() }
}

#[test]
fn the_page_begins_with_one_plot_and_one_table_of_ratios() {
    let html = page(&[sample()]);
    let (first, rest) = html.split_once("<nav").expect("contents follow the ratios");
    assert_eq!(first.matches("<figure>").count(), 1);
    assert_eq!((first.matches("<svg class=\"wide\"").count(), first.matches("<svg class=\"narrow\"").count()), (1, 1));
    assert_eq!(first.matches("<th class=\"n\">Server CPU</th>").count(), 1);
    for link in first.split("<a href=\"#").skip(1).filter_map(|link| link.split('"').next()) {
        assert!(rest.contains(&format!("<section id=\"{link}\"")), "{link}");
    }
    assert!(!first.contains("NaN") && !first.contains("inf"));
}

/// Panics unless every tag is closed in order, attributes are quoted, and `&` only begins an entity.
#[track_caller]
fn check_markup(html: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = html.strip_prefix("<!DOCTYPE html>").unwrap_or(html);
    while let Some(start) = rest.find('<') {
        check_text(&rest[..start]);
        let end = start + rest[start..].find('>').expect("a tag ends");
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "before {:?}", rest.chars().take(80).collect::<String>());
            continue;
        }
        check_attributes(tag);
        if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().expect("a tag has a name"));
        }
    }
    check_text(rest);
    assert_eq!(open, [""; 0]);
}

#[track_caller]
fn check_attributes(tag: &str) {
    let (_, mut rest) = tag.trim_end_matches('/').split_once(' ').unwrap_or((tag, ""));
    while !rest.trim().is_empty() {
        let (name, value) = rest.split_once("=\"").unwrap_or_else(|| panic!("no quoted value in <{tag}>"));
        assert!(
            !name.trim().is_empty() && name.trim().chars().all(|c| c.is_ascii_alphanumeric() || c == '-'),
            "<{tag}>"
        );
        let (value, after) = value.split_once('"').unwrap_or_else(|| panic!("no end of a value in <{tag}>"));
        check_text(value);
        rest = after;
    }
}

#[track_caller]
fn check_text(text: &str) {
    for after in text.split('&').skip(1) {
        let entity = after.split(';').next().unwrap_or_default();
        assert!(["amp", "lt", "gt", "quot", "#39"].contains(&entity), "&{entity}");
    }
}

#[test]
fn the_page_contains_all_results() {
    let run = sample();
    let html = page(std::slice::from_ref(&run));
    check_markup(&html);
    for experiment in &run.experiments {
        for text in [&experiment.title, &experiment.study].into_iter().chain(&experiment.remarks) {
            assert!(html.contains(&markup::Text(text).to_string()), "{text}");
        }
        for figure in &experiment.figures {
            check_figure(&html, figure);
        }
    }
    for (name, value) in &run.method {
        assert!(html.contains(&format!("<tr><th>{name}</th><td>{value}</td></tr>")), "{name}");
    }
    assert!(html.contains("smb://alice@127.0.0.1:4450/share --vs"));
    assert!(html.contains("--json &#39;a run.json&#39;"));
    assert!(html.contains("    # &lt;&amp;&gt;"), "the configuration's text");
    assert!(html.contains("20310203"));
}

/// The figure is present in both layouts, with its axis titles and series names.
#[track_caller]
fn check_figure(html: &str, figure: &Figure) {
    let start = format!("<figcaption>{}</figcaption>", markup::Text(&figure.title));
    let part = html.split(&start).nth(1).and_then(|rest| rest.split("</figure>").next()).expect("a figure");
    let (figure_part, numbers) = part.split_once("<details>").expect("a table of numbers");
    assert_eq!(figure_part.matches("<svg class=\"wide\"").count(), 1);
    assert_eq!(figure_part.matches("<svg class=\"narrow\"").count(), 1);
    for series in &figure.series {
        let name = markup::Text(&series.name).to_string();
        assert!(figure_part.contains(&name) && numbers.contains(&name), "{name}");
    }
    for axis in [&figure.x, &figure.y] {
        assert!(part.contains(&axis.label) && part.contains(&axis.unit), "{axis:?}");
    }
    assert!(!part.contains("NaN") && !part.contains("inf"), "{}", figure.title);
}

#[test]
fn markup_in_names_is_escaped() {
    let html = page(&[sample()]);
    assert!(html.contains("&lt;script&gt;"));
    assert!(!html.contains("<script"));
    for outside in [" src=", "url(", "@import", "<link", " href=\"h", " onload"] {
        assert!(!html.contains(outside), "{outside}");
    }
}

#[test]
fn values_that_cannot_be_drawn_are_mentioned() {
    let html = page(&[sample()]);
    assert!(html.contains(
        "4 points are not drawn, because the values are not numbers, or are zero or less on a logarithmic axis."
    ));
    assert!(html.contains("<small>(no data)</small>"));
    assert!(html.contains("this server cannot run the case"));
    assert!(html.contains("<tr class=\"odd\">"));
}

#[test]
fn several_runs_are_in_one_report() {
    let mut later = sample();
    later.started = "2031-05-06T07:08:09Z".to_owned();
    later.machine.name = "other".to_owned();
    later.experiments.truncate(1);
    later.servers.swap(0, 1);
    let runs = [sample(), later];
    let html = page(&runs);
    check_markup(&html);
    assert_eq!(
        html.matches("<h3>2031-05-06 07:08 UTC on other</h3>").count(),
        2,
        "the experiment, and the command to repeat it"
    );
    assert_eq!(html.matches("id=\"x-sessions\"").count(), 1);
    let palette = Palette::new(&runs);
    assert_eq!(palette.server("frevo"), palette.series(&runs[1], &bars_of(Some(1), 1.0)).remove(0));
}

#[test]
fn parties_that_are_not_servers_have_colours() {
    let mut run = sample();
    run.experiments[0].cases[0].parties = vec!["frevo".to_owned(), "FTP".to_owned()];
    let runs = [run];
    let palette = Palette::new(&runs);
    let mut figure = bars_of(None, 1.0);
    figure.series[0].name = "FTP".to_owned();
    assert_eq!(palette.series(&runs[0], &figure), [palette.server("FTP")]);
    assert_ne!(palette.server("FTP"), palette.server("frevo"));
    assert!(page(&runs).contains("<span class=\"dot\"></span>FTP</th>"));
}

#[test]
fn reports_without_runs_or_data_are_well_formed() {
    check_markup(&page(&[]));
    let empty =
        Run { experiments: vec![Experiment::default()], servers: Vec::new(), machine: Machine::default(), ..sample() };
    check_markup(&page(&[empty]));
}

fn bars_of(server: Option<usize>, y: f64) -> Figure {
    let points = vec![Point { x: 0.0, y, low: y, high: y }];
    Figure {
        kind: Kind::Bars,
        categories: vec!["a".to_owned()],
        series: vec![Series { name: "one".to_owned(), then: false, server, points }],
        ..Figure::default()
    }
}

#[track_caller]
fn check_error(text: &str, expected: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.json");
    fs::write(&file, text).expect("the file is written");
    let error = write(std::slice::from_ref(&file), &folder.path().join("out.html")).expect_err("it is refused");
    let error = format!("{error:#}");
    assert!(error.contains("run.json") && error.contains(expected), "{error}");
}

#[test]
fn invalid_records_are_refused() {
    check_error("{\n\"format\": 1,\n oops", "line 3: not JSON");
    check_error("{\"format\": 99}", "its format is 99, but this version reads only format 1");
    check_error("[1]", "no number `format`");
    check_error(&SAMPLE.replacen("\"seconds\": 1934.5", "\"seconds\": \"long\"", 1), "line 5: invalid type");
    check_error("\u{0}", "not JSON");
    assert!(write(&[], Path::new("x")).is_err());
    let missing = write(&[PathBuf::from("/nonexistent/run.json")], Path::new("x")).expect_err("no such file");
    assert!(missing.to_string().contains("/nonexistent/run.json"));
}

#[test]
fn a_record_is_written_as_a_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, out) = (folder.path().join("run.json"), folder.path().join("out.html"));
    let text = serde_json::to_string(&sample()).expect("a record is JSON");
    fs::write(&file, text).expect("the file is written");
    write(&[file], &out).expect("the report is written");
    assert!(fs::read_to_string(&out).expect("the report is read") == page(&[sample()]));
}

fn any_point() -> impl Strategy<Value = Point> {
    let number = || prop_oneof![any::<f64>(), -10.0..10.0f64, Just(f64::NAN), Just(0.0), Just(1e300), Just(5e-324)];
    (number(), number(), number(), number()).prop_map(|(x, y, low, high)| Point { x, y, low, high })
}

fn any_figure() -> impl Strategy<Value = Figure> {
    let axis = (".{0,60}", ".{0,8}", any::<bool>());
    let axis = || axis.prop_map(|(label, unit, logarithmic)| Axis { label, unit, logarithmic });
    let points = prop::collection::vec(any_point(), 0..20);
    let series = (".{0,50}", any::<bool>(), prop::option::of(0usize..9), points);
    let series = series.prop_map(|(name, then, server, points)| Series { name, then, server, points });
    let kind = prop_oneof![Just(Kind::Lines), Just(Kind::Bars), Just(Kind::Points)];
    (".{0,30}", axis(), axis(), kind, prop::collection::vec(".{0,80}", 0..9), prop::collection::vec(series, 0..6))
        .prop_map(|(title, x, y, kind, categories, series)| Figure { title, x, y, kind, categories, series })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn any_figure_is_drawn(drawing in any_figure()) {
        let server = |name: &str| ServerRecord { name: name.to_owned(), ..ServerRecord::default() };
        let run = Run { servers: vec![server("a"), server("b")], experiments: Vec::new(), ..sample() };
        let looks = Palette::new(std::slice::from_ref(&run)).series(&run, &drawing);
        let html = figure::html(&drawing, &looks);
        check_markup(&html);
        let coordinates = html.split("=\"").skip(1).filter_map(|value| value.split('"').next());
        prop_assert!(coordinates.into_iter().all(|value| !["NaN", "inf", "-inf"].contains(&value)));
    }
}
