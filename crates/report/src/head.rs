//! The head of the page: a summary of what was measured, when and where.

use super::look::Palette;
use super::markup::{Text, push};
use crate::record::{Machine, Run, ServerRecord};
use crate::units;

/// Returns the title of the page.
pub(super) fn title(runs: &[Run]) -> String {
    match servers(runs).as_slice() {
        [] => "SMB measurements".to_owned(),
        [one] => format!("SMB measurements of {one}"),
        [first, rest @ ..] => format!("SMB measurements of {first} against {}", listed(rest)),
    }
}

/// Returns a title that distinguishes a run from the others on the page.
pub(super) fn run_title(run: &Run) -> String {
    match (run.started.is_empty(), run.machine.name.is_empty()) {
        (false, false) => format!("{} on {}", when(&run.started), run.machine.name),
        (false, true) => when(&run.started),
        (true, false) => format!("On {}", run.machine.name),
        (true, true) => "Run without a date".to_owned(),
    }
}

/// Writes the text below the title: a paragraph, and a table of the servers or, if there are several, of the runs.
pub(super) fn head(out: &mut String, runs: &[Run], palette: &Palette) {
    let seconds: f64 = runs.iter().map(|run| run.seconds).sum();
    let experiments = counted(runs.iter().map(|run| run.experiments.len()).sum(), "experiment");
    let took = units::seconds(seconds);
    let of = match runs {
        [] => return out.push_str("<p>There is no run to report on.</p>\n"),
        [run] => {
            push!(out, "<p class=\"when\">{}</p>\n", Text(run_title(run)));
            format!("{experiments} with {}, in {took}.", listed(&servers(runs)))
        }
        _ => format!("{} runs, {experiments} with {}, {took} in all.", runs.len(), listed(&servers(runs))),
    };
    let mut machines: Vec<String> = runs.iter().map(|run| machine(&run.machine)).collect();
    machines.sort();
    machines.dedup();
    push!(out, "<p>{} The tool ran on {}.</p>\n", Text(of), Text(machines.join("; on ")));
    let odd = runs.iter().map(odd).sum::<usize>();
    if odd > 0 {
        let are = if odd == 1 { "is" } else { "are" };
        let what = counted(odd, "round");
        push!(
            out,
            "<p>{what} {are} marked as odd: far from the others of the same case. They are included in all \
             results.</p>\n"
        );
    }
    match runs {
        [run] if run.servers.is_empty() => {}
        [run] => server_table(out, &run.servers, palette),
        runs => run_table(out, runs),
    }
}

fn server_table(out: &mut String, servers: &[ServerRecord], palette: &Palette) {
    out.push_str("<div class=\"scroll\"><table>\n<thead><tr><th>Server</th><th>Version</th><th>Protocol</th>");
    out.push_str("<th>File system</th><th>Address</th></tr></thead>\n<tbody>\n");
    for server in servers {
        let colour = palette.server(&server.name).class();
        push!(out, "<tr><th class=\"{colour}\"><span class=\"dot\"></span>{}</th>", Text(&server.name));
        let known =
            [server.version.as_deref(), Some(&server.protocol), server.file_system.as_deref(), Some(&server.target)];
        for cell in known {
            push!(out, "<td>{}</td>", Text(cell.unwrap_or("unknown")));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

fn run_table(out: &mut String, runs: &[Run]) {
    out.push_str("<div class=\"scroll\"><table>\n<thead><tr><th>Run</th><th>Experiments</th><th>Servers</th>");
    out.push_str("<th class=\"n\">Duration</th><th class=\"n\">Odd rounds</th></tr></thead>\n<tbody>\n");
    for run in runs {
        let experiments: Vec<&str> = run.experiments.iter().map(|experiment| experiment.name.as_str()).collect();
        let servers: Vec<String> = run.servers.iter().map(server).collect();
        push!(
            out,
            "<tr><th>{}</th><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
            Text(run_title(run)),
            Text(experiments.join(", ")),
            Text(servers.join("; ")),
            units::seconds(run.seconds),
            units::count(odd(run) as u64)
        );
    }
    out.push_str("</tbody></table></div>\n");
}

/// Describes a server briefly.
fn server(server: &ServerRecord) -> String {
    let version = server.version.as_deref().map(|version| format!(" ({version})")).unwrap_or_default();
    format!("{}{version}, {}", server.name, server.protocol)
}

/// Describes a machine briefly.
fn machine(machine: &Machine) -> String {
    let memory = if machine.memory > 0 { units::bytes(machine.memory as f64) + " of memory" } else { String::new() };
    let kernel = if machine.kernel.is_empty() { String::new() } else { format!("kernel {}", machine.kernel) };
    let cores = counted(machine.cores as usize, "core");
    let parts = [machine.processor.clone(), cores, memory, machine.system.clone(), kernel];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let name = if machine.name.is_empty() { "a machine without a name" } else { &machine.name };
    format!("{name}: {}", parts.join(", "))
}

/// Returns the number of rounds marked as odd.
fn odd(run: &Run) -> usize {
    let cases = run.experiments.iter().flat_map(|experiment| &experiment.cases);
    cases.flat_map(|case| &case.servers).flatten().filter(|round| round.odd).count()
}

/// Returns the names of the servers of all runs, each once.
fn servers(runs: &[Run]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for server in runs.iter().flat_map(|run| &run.servers) {
        if !names.contains(&server.name.as_str()) {
            names.push(&server.name);
        }
    }
    names
}

/// Formats a count: `1 thing`, `2 things`.
fn counted(number: usize, thing: &str) -> String {
    format!("{} {thing}{}", units::count(number as u64), if number == 1 { "" } else { "s" })
}

/// Joins names: `a`, `a and b`, `a, b and c`.
fn listed(names: &[&str]) -> String {
    match names {
        [] => "no server".to_owned(),
        [one] => (*one).to_owned(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

/// Formats a date and time for reading, if it is RFC 3339 in UTC.
fn when(started: &str) -> String {
    let shape: String = started.chars().map(|digit| if digit.is_ascii_digit() { '0' } else { digit }).collect();
    if shape.starts_with("0000-00-00T00:00:00") && started.ends_with('Z') {
        format!("{} {} UTC", &started[..10], &started[11..16])
    } else {
        started.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_shortened() {
        assert_eq!(when("2026-05-04T12:30:59.25Z"), "2026-05-04 12:30 UTC");
        assert_eq!(when("yesterday"), "yesterday");
        assert_eq!(when("2026-05-04T12:30:59+02:00"), "2026-05-04T12:30:59+02:00");
    }
}
