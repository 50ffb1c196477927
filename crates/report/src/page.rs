//! The whole page: head, ratios, contents, and a section for each experiment.

use super::look::Palette;
use super::markup::{Text, anchor, push};
use super::{figure, head, overview, repeat, rounds};
use crate::record::{Experiment, Run, Table};
use crate::table;

const STYLE: &str = include_str!("style.css");

/// See [`super::page`].
pub(super) fn page(runs: &[Run]) -> String {
    let palette = Palette::new(runs);
    let title = head::title(runs);
    let mut out = String::from("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n");
    out.push_str(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n",
    );
    push!(
        out,
        "<title>{} – SMB measurements</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n",
        Text(&title)
    );
    push!(out, "<h1>{}</h1>\n", Text(&title));
    head::head(&mut out, runs);
    overview::overview(&mut out, runs);
    out.push_str("</header>\n");
    contents(&mut out, runs);
    out.push_str("<main>\n");
    for name in names(runs) {
        section(&mut out, runs, name, &palette);
    }
    out.push_str("</main>\n");
    repeat::section(&mut out, runs);
    out.push_str("</body>\n</html>\n");
    out
}

/// Returns the experiments' names in order of appearance.
fn names(runs: &[Run]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for experiment in runs.iter().flat_map(|run| &run.experiments) {
        if !names.contains(&experiment.name.as_str()) {
            names.push(&experiment.name);
        }
    }
    names
}

/// Returns the experiment from every run that contains it.
fn found<'a>(runs: &'a [Run], name: &str) -> Vec<(&'a Run, &'a Experiment)> {
    let of = |run: &'a Run| {
        run.experiments.iter().filter(|experiment| experiment.name == name).map(move |found| (run, found))
    };
    runs.iter().flat_map(of).collect()
}

fn contents(out: &mut String, runs: &[Run]) {
    out.push_str("<nav aria-label=\"Contents\">\n<ol>\n");
    for name in names(runs) {
        let title = found(runs, name).first().map_or("", |(_, experiment)| experiment.title.as_str());
        push!(out, "<li><a href=\"#x-{}\">{}</a>: {}</li>\n", anchor(name), Text(name), Text(title));
    }
    out.push_str("<li><a href=\"#repeat\">How to repeat the runs</a></li>\n</ol>\n</nav>\n");
}

fn section(out: &mut String, runs: &[Run], name: &str, palette: &Palette) {
    let found = found(runs, name);
    let Some((_, first)) = found.first() else { return };
    push!(out, "<section id=\"x-{}\">\n<h2>{}<code>{}</code></h2>\n", anchor(name), Text(&first.title), Text(name));
    for (index, (run, experiment)) in found.iter().enumerate() {
        if found.len() > 1 {
            push!(out, "<h3>{}</h3>\n", Text(head::run_title(run)));
        }
        if !experiment.study.is_empty() && (index == 0 || experiment.study != first.study) {
            push!(out, "<p class=\"study\"><b>The study:</b> {}</p>\n", Text(&experiment.study));
        }
        body(out, run, experiment, palette);
    }
    out.push_str("</section>\n");
}

fn body(out: &mut String, run: &Run, experiment: &Experiment, palette: &Palette) {
    for drawing in &experiment.figures {
        out.push_str(&figure::html(drawing, &palette.series(run, drawing)));
    }
    for rows in &experiment.tables {
        table_of(out, rows);
    }
    if !experiment.remarks.is_empty() {
        out.push_str("<ul class=\"remarks\">\n");
        for remark in &experiment.remarks {
            push!(out, "<li>{}</li>\n", Text(remark));
        }
        out.push_str("</ul>\n");
    }
    if !experiment.settings.is_empty() {
        out.push_str("<details><summary>Settings</summary>\n");
        facts(out, experiment.settings.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        out.push_str("</details>\n");
    }
    rounds::details(out, run, experiment, palette);
}

fn table_of(out: &mut String, rows: &Table) {
    let numeric = table::numeric(rows);
    push!(out, "<div class=\"scroll\"><table>\n<caption>{}</caption>\n<thead><tr>", Text(&rows.title));
    let class = |column: usize| if numeric[column] { " class=\"n\"" } else { "" };
    let cell = |row: &[String], column: usize| Text(row.get(column).cloned().unwrap_or_default());
    for column in 0..numeric.len() {
        push!(out, "<th{}>{}</th>", class(column), cell(&rows.head, column));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &rows.rows {
        push!(out, "<tr><th>{}</th>", cell(row, 0));
        for column in 1..numeric.len() {
            push!(out, "<td{}>{}</td>", class(column), cell(row, column));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

/// Writes a table of names and values.
pub(super) fn facts<'a>(out: &mut String, facts: impl Iterator<Item = (&'a str, &'a str)>) {
    out.push_str("<div class=\"scroll\"><table class=\"facts\"><tbody>\n");
    for (name, value) in facts {
        push!(out, "<tr><th>{}</th><td>{}</td></tr>\n", Text(name), Text(value));
    }
    out.push_str("</tbody></table></div>\n");
}
