//! The page as a whole: head, contents, a section for each experiment.

use super::look::Palette;
use super::markup::{Text, anchor, push};
use super::{figure, repeat, rounds};
use crate::record::{Experiment, Run, Table};
use crate::{table, units};

const STYLE: &str = include_str!("style.css");

/// See [`super::page`].
pub(super) fn page(runs: &[Run]) -> String {
    let palette = Palette::new(runs);
    let title = title(runs);
    let mut out = String::from("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n");
    out.push_str(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n",
    );
    push!(out, "<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n", Text(&title));
    push!(out, "<h1>{}</h1>\n", Text(&title));
    head(&mut out, runs, &palette);
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

fn title(runs: &[Run]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for server in runs.iter().flat_map(|run| &run.servers) {
        if !names.contains(&server.name.as_str()) {
            names.push(&server.name);
        }
    }
    match names.as_slice() {
        [] => "SMB measurements".to_owned(),
        [one] => format!("SMB measurements of {one}"),
        [first, rest @ ..] => format!("SMB measurements of {first} against {}", listed(rest)),
    }
}

/// `a`, `a and b`, `a, b and c`.
fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

/// A date and time as people write it, when it is RFC 3339 in UTC.
pub(super) fn when(started: &str) -> String {
    let shape: String = started.chars().map(|digit| if digit.is_ascii_digit() { '0' } else { digit }).collect();
    if shape.starts_with("0000-00-00T00:00:00") && started.ends_with('Z') {
        format!("{} {} UTC", &started[..10], &started[11..16])
    } else {
        started.to_owned()
    }
}

fn head(out: &mut String, runs: &[Run], palette: &Palette) {
    for run in runs {
        push!(out, "<p class=\"when\">{}</p>\n", Text(when(&run.started)));
        push!(out, "<p>{}</p>\n", Text(summary(run)));
        let odd = run.experiments.iter().flat_map(|experiment| &experiment.cases).flat_map(|case| &case.servers);
        let odd = odd.flatten().filter(|round| round.odd).count();
        if odd > 0 {
            let are = if odd == 1 { "round is" } else { "rounds are" };
            push!(
                out,
                "<p>{odd} {are} marked as odd: far from the others of the same case. They count all the same.</p>\n"
            );
        }
        if run.servers.is_empty() {
            continue;
        }
        out.push_str("<div class=\"scroll\"><table>\n<thead><tr><th>Server</th><th>Version</th><th>Protocol</th>");
        out.push_str("<th>File system</th><th>Where</th></tr></thead>\n<tbody>\n");
        for server in &run.servers {
            let colour = palette.server(&server.name).class();
            push!(out, "<tr><th class=\"{colour}\"><span class=\"dot\"></span>{}</th>", Text(&server.name));
            for cell in
                [server.version.as_deref(), Some(&server.protocol), server.file_system.as_deref(), Some(&server.target)]
            {
                push!(out, "<td>{}</td>", Text(cell.unwrap_or("not known")));
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table></div>\n");
    }
}

fn summary(run: &Run) -> String {
    let names: Vec<&str> = run.servers.iter().map(|server| server.name.as_str()).collect();
    let experiments = match run.experiments.len() {
        1 => "1 experiment".to_owned(),
        many => format!("{many} experiments"),
    };
    let machine = &run.machine;
    format!(
        "{experiments} on {} in {}, all from one machine: {} ({}, {} cores, {} of memory, {}, Linux {}). \
         Where servers are compared, they took turns in the same run.",
        listed(&names),
        units::seconds(run.seconds),
        machine.name,
        machine.processor,
        machine.cores,
        units::bytes(machine.memory as f64),
        machine.system,
        machine.kernel,
    )
}

/// The experiments' names in order of appearance.
fn names(runs: &[Run]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for experiment in runs.iter().flat_map(|run| &run.experiments) {
        if !names.contains(&experiment.name.as_str()) {
            names.push(&experiment.name);
        }
    }
    names
}

/// The experiment in every run that has it.
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
    out.push_str("<li><a href=\"#repeat\">How to repeat it</a></li>\n</ol>\n</nav>\n");
}

fn section(out: &mut String, runs: &[Run], name: &str, palette: &Palette) {
    let found = found(runs, name);
    let Some((_, first)) = found.first() else { return };
    push!(out, "<section id=\"x-{}\">\n<h2>{}<code>{}</code></h2>\n", anchor(name), Text(&first.title), Text(name));
    for (index, (run, experiment)) in found.iter().enumerate() {
        if found.len() > 1 {
            push!(out, "<h3>{} on {}</h3>\n", Text(when(&run.started)), Text(&run.machine.name));
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

/// Names and values.
pub(super) fn facts<'a>(out: &mut String, facts: impl Iterator<Item = (&'a str, &'a str)>) {
    out.push_str("<div class=\"scroll\"><table class=\"facts\"><tbody>\n");
    for (name, value) in facts {
        push!(out, "<tr><th>{}</th><td>{}</td></tr>\n", Text(name), Text(value));
    }
    out.push_str("</tbody></table></div>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(when("2026-05-04T12:30:59.25Z"), "2026-05-04 12:30 UTC");
        assert_eq!(when("yesterday"), "yesterday");
        assert_eq!(when("2026-05-04T12:30:59+02:00"), "2026-05-04T12:30:59+02:00");
    }
}
