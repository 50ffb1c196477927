//! A table of every round of every case: the measurements before medians are taken.

use std::collections::BTreeSet;

use super::look::Palette;
use super::markup::{Text, push};
use crate::record::{Case, Experiment, Round, Run};
use crate::units;

const GIB: f64 = 1_073_741_824.0;

/// A column: its title, and how its value is taken from a round.
struct Column {
    title: String,
    value: Box<Value>,
}

/// A function that returns the value of a round in a column.
type Value = dyn Fn(&Round) -> Option<String>;

/// Writes the rounds of an experiment, collapsed.
pub(super) fn details(out: &mut String, run: &Run, experiment: &Experiment, palette: &Palette) {
    let rounds: Vec<&Round> = experiment.cases.iter().flat_map(|case| &case.servers).flatten().collect();
    if rounds.is_empty() {
        return;
    }
    let columns: Vec<Column> = columns(&rounds);
    push!(out, "<details><summary>All {} rounds</summary>\n", units::count(rounds.len() as u64));
    if rounds.iter().any(|round| round.odd) {
        out.push_str("<p class=\"note\">Shaded and marked †: an odd round, far from the others of its case.</p>\n");
    }
    if rounds.iter().any(|round| traced(round)) {
        out.push_str("<p class=\"note\">Marked ‡: system calls were counted, which slows the round down.</p>\n");
    }
    out.push_str(
        "<div class=\"scroll\"><table class=\"rounds\">\n<thead><tr><th>Server</th><th class=\"n\">Round</th>",
    );
    for column in &columns {
        push!(out, "<th class=\"n\">{}</th>", Text(&column.title));
    }
    out.push_str("</tr></thead>\n");
    for case in &experiment.cases {
        case_of(out, run, case, &columns, palette);
    }
    out.push_str("</table></div></details>\n");
}

fn case_of(out: &mut String, run: &Run, case: &Case, columns: &[Column], palette: &Palette) {
    push!(out, "<tbody>\n<tr class=\"case\"><th colspan=\"{}\">{}</th></tr>\n", columns.len() + 2, Text(&case.name));
    for (index, rounds) in case.servers.iter().enumerate() {
        let known = case.parties.get(index).or_else(|| run.servers.get(index).map(|server| &server.name));
        let name = known.cloned().unwrap_or_else(|| format!("server {}", index + 1));
        let head =
            format!("<th class=\"{}\"><span class=\"dot\"></span>{}</th>", palette.server(&name).class(), Text(&name));
        if rounds.is_empty() {
            push!(out, "<tr>{head}<td colspan=\"{}\">this server cannot run the case</td></tr>\n", columns.len() + 1);
        }
        for (number, round) in rounds.iter().enumerate() {
            let (class, odd) = if round.odd { (" class=\"odd\"", " †") } else { ("", "") };
            let traced = if traced(round) { " ‡" } else { "" };
            push!(out, "<tr{class}>{head}<td class=\"n\">{}{odd}{traced}</td>", number + 1);
            for column in columns {
                push!(out, "<td class=\"n\">{}</td>", Text((column.value)(round).unwrap_or_default()));
            }
            out.push_str("</tr>\n");
        }
    }
    out.push_str("</tbody>\n");
}

/// Returns whether system calls were counted in the round, which slows it down.
fn traced(round: &Round) -> bool {
    round.cost.as_ref().is_some_and(|cost| cost.calls.is_some())
}

/// Returns the columns in which at least one round has a value.
fn columns(rounds: &[&Round]) -> Vec<Column> {
    let mut columns = Vec::new();
    let mut add = |title: &str, value: fn(&Round) -> Option<String>| {
        columns.push(Column { title: title.to_owned(), value: Box::new(value) });
    };
    add("Time", |round| Some(units::seconds(round.seconds)));
    add("Operations", |round| (round.operations > 0).then(|| units::count(round.operations)));
    add("Operations per second", |round| {
        (round.operations > 0).then(|| units::per_second(round.operations as f64 / round.seconds))
    });
    add("Data", |round| (round.bytes > 0).then(|| units::bytes(round.bytes as f64)));
    add("Throughput", |round| (round.bytes > 0).then(|| units::rate(round.bytes as f64 / round.seconds)));
    add("Errors", |round| (round.errors > 0).then(|| units::count(round.errors)));
    latency(&mut add);
    cost(&mut add);
    add("Client CPU", |round| (round.client_cpu > 0.0).then(|| units::seconds(round.client_cpu)));
    let names: BTreeSet<&String> = rounds.iter().flat_map(|round| round.figures.keys()).collect();
    for name in names {
        let key = name.clone();
        let value = move |round: &Round| round.figures.get(&key).map(|value| units::number(*value));
        columns.push(Column { title: name.clone(), value: Box::new(value) });
    }
    columns.retain(|column| rounds.iter().any(|round| (column.value)(round).is_some()));
    columns
}

fn latency(add: &mut impl FnMut(&str, fn(&Round) -> Option<String>)) {
    add("Latency, mean", |round| round.latency.map(|latency| units::seconds(latency.mean / 1e6)));
    add("50 %", |round| round.latency.map(|latency| units::seconds(latency.p50 / 1e6)));
    add("90 %", |round| round.latency.map(|latency| units::seconds(latency.p90 / 1e6)));
    add("99 %", |round| round.latency.map(|latency| units::seconds(latency.p99 / 1e6)));
    add("99.9 %", |round| round.latency.map(|latency| units::seconds(latency.p999 / 1e6)));
    add("Slowest", |round| round.latency.map(|latency| units::seconds(latency.max / 1e6)));
}

fn cost(add: &mut impl FnMut(&str, fn(&Round) -> Option<String>)) {
    add("Server CPU", |round| round.cost.as_ref().map(|cost| units::seconds(cost.cpu)));
    add("kernel share", |round| round.cost.as_ref().map(|cost| units::percent(cost.system / cost.cpu)));
    add("CPU per operation", |round| {
        let cost = round.cost.as_ref()?;
        (round.operations > 0).then(|| units::seconds(cost.cpu / round.operations as f64))
    });
    add("CPU per GiB", |round| {
        let cost = round.cost.as_ref()?;
        (round.bytes > 0).then(|| units::seconds(cost.cpu / (round.bytes as f64 / GIB)))
    });
    add("Context switches", |round| round.cost.as_ref().map(|cost| units::count(cost.switches)));
    add("System calls per operation", |round| {
        let calls: u64 =
            round.cost.as_ref()?.calls.as_ref()?.values().fold(0, |sum: u64, calls| sum.saturating_add(*calls));
        (round.operations > 0).then(|| units::number(calls as f64 / round.operations as f64))
    });
    add("Private memory", |round| memory(round.cost.as_ref()?.private));
    add("Proportional memory", |round| memory(round.cost.as_ref()?.proportional));
    add("Descriptors", |round| some(round.cost.as_ref()?.descriptors));
    add("Processes", |round| some(round.cost.as_ref()?.processes));
}

fn memory(bytes: u64) -> Option<String> {
    (bytes > 0).then(|| units::bytes(bytes as f64))
}

fn some(count: u64) -> Option<String> {
    (count > 0).then(|| units::count(count))
}
