//! The head of the page: a summary of what was measured, when and where.

use super::groups::{Group, groups, program};
use super::markup::{Text, push, shortened};
use crate::record::{Machine, Run, ServerRecord};
use crate::units;

/// Returns the title of the page, in one line: the programs that were measured.
pub(super) fn title(runs: &[Run]) -> String {
    let names: Vec<String> = groups(runs).iter().map(|group| shortened(group.name, 20)).collect();
    match &names[..] {
        [] => "SMB measurements".to_owned(),
        [one] => one.clone(),
        [first, other] => format!("{first} against {other}"),
        [first, other, third] => format!("{first} against {other} and {third}"),
        [first, other, rest @ ..] => format!("{first} against {other} and {} others", rest.len()),
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

/// Writes the text below the title: what was measured on which machine, and a table of the programs.
pub(super) fn head(out: &mut String, runs: &[Run]) {
    let seconds: f64 = runs.iter().map(|run| run.seconds).sum();
    let experiments = counted(runs.iter().map(|run| run.experiments.len()).sum(), "experiment");
    let took = units::seconds(seconds);
    let servers = servers(runs);
    let of = match runs {
        [] => return out.push_str("<p>There is no run to report on.</p>\n"),
        [run] => {
            push!(out, "<p class=\"when\">{}</p>\n", Text(run_title(run)));
            format!("{experiments} with {servers}, in {took}.")
        }
        _ => format!("{} runs, {experiments} with {servers}, {took} in all.", runs.len()),
    };
    let mut machines: Vec<String> = runs.iter().map(|run| machine(&run.machine)).collect();
    machines.sort();
    machines.dedup();
    push!(out, "<p>{} The tool ran on {}.", Text(of), Text(machines.join("; on ")));
    let odd = runs.iter().map(odd).sum::<usize>();
    if odd > 0 {
        let are = if odd == 1 { "is" } else { "are" };
        let what = counted(odd, "round");
        push!(out, " {what} {are} marked as odd: far from the others of the same case, and included in all results.");
    }
    out.push_str("</p>\n");
    program_table(out, runs);
    if runs.len() > 1 {
        run_table(out, runs);
    }
}

/// Writes a table with a row for each program.
fn program_table(out: &mut String, runs: &[Run]) {
    let groups = groups(runs);
    if groups.is_empty() {
        return;
    }
    out.push_str("<div class=\"scroll\"><table>\n<thead><tr><th>Server</th><th>Version</th><th>Variants</th>");
    out.push_str("<th>Protocol</th><th>File system</th></tr></thead>\n<tbody>\n");
    for group in &groups {
        let servers: Vec<&ServerRecord> = runs
            .iter()
            .flat_map(|run| &run.servers)
            .filter(|server| program(&server.name) == program(group.name))
            .collect();
        let cells = [
            distinct(servers.iter().map(|server| server.version.as_deref())),
            group.variants(),
            distinct(servers.iter().map(|server| Some(server.protocol.as_str()))),
            distinct(servers.iter().map(|server| server.file_system.as_deref().map(without_options))),
        ];
        push!(out, "<tr><th>{}</th>", Text(group.name));
        for cell in cells {
            push!(out, "<td>{}</td>", Text(cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

/// Joins the values of several servers, each once. At most two are shown.
fn distinct<'a>(values: impl Iterator<Item = Option<&'a str>>) -> String {
    let mut seen: Vec<&str> = Vec::new();
    for value in values.map(|value| value.unwrap_or("unknown")) {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    match seen[..] {
        [first, second, _, ..] => format!("{first}; {second}; and {} others", seen.len() - 2),
        _ => seen.join("; "),
    }
}

/// Returns the description of a file system without its options, which are in the last section.
fn without_options(file_system: &str) -> &str {
    file_system.split_once(", ").map_or(file_system, |(kind, _)| kind)
}

/// Writes a table with a row for each run, which is folded.
fn run_table(out: &mut String, runs: &[Run]) {
    out.push_str("<details><summary>Runs</summary>\n<div class=\"scroll\"><table>\n<thead><tr><th>Run</th>");
    out.push_str("<th>Experiments</th><th>Servers</th><th class=\"n\">Duration</th><th class=\"n\">Odd rounds</th>");
    out.push_str("</tr></thead>\n<tbody>\n");
    for run in runs {
        let experiments: Vec<&str> = run.experiments.iter().map(|experiment| experiment.name.as_str()).collect();
        push!(
            out,
            "<tr><th>{}</th><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
            Text(run_title(run)),
            Text(experiments.join(", ")),
            Text(servers(std::slice::from_ref(run))),
            units::seconds(run.seconds),
            units::count(odd(run) as u64)
        );
    }
    out.push_str("</tbody></table></div></details>\n");
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

/// Names the servers of all runs: `frevo and 3 variants of samba`.
fn servers(runs: &[Run]) -> String {
    let name = |group: &Group<'_>| match group.variants.len() {
        0 => group.name.to_owned(),
        number => format!("{} of {}", counted(number, "variant"), group.name),
    };
    listed(&groups(runs).iter().map(name).collect::<Vec<_>>())
}

/// Formats a count: `1 thing`, `2 things`.
fn counted(number: usize, thing: &str) -> String {
    format!("{} {thing}{}", units::count(number as u64), if number == 1 { "" } else { "s" })
}

/// Joins names: `a`, `a and b`, `a, b and c`.
fn listed(names: &[String]) -> String {
    match names {
        [] => "no server".to_owned(),
        [one] => one.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

/// Formats a date and time for reading, if it is RFC 3339 in UTC.
pub(super) fn when(started: &str) -> String {
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
    use crate::tests::run_of;

    #[test]
    fn the_title_names_programs_and_not_variants() {
        let check = |names: &[&str], expected: &str| assert_eq!(title(&[run_of(names)]), expected);
        let backends = ["embedded", "smbpasswd", "ldap"];
        let variants = |program: &'static str| {
            let sizes = [10, 1000, 10_000, 100_000, 300_000];
            backends.iter().flat_map(move |it| sizes.map(|size| format!("{program}/{it}/{size}")))
        };
        let names: Vec<String> = variants("frevo").chain(variants("samba")).collect();
        check(&names.iter().map(String::as_str).collect::<Vec<_>>(), "frevo against samba");
        check(&[], "SMB measurements");
        check(&["frevo/c"], "frevo/c");
        check(&["a", "b", "c"], "a against b and c");
        check(&["a", "b", "c", "d", "e"], "a against b and 3 others");
        let long = "x".repeat(1000);
        assert!(title(&[run_of(&[&long, "b", "c", "d"])]).chars().count() < 60);
    }

    #[test]
    fn a_program_has_one_row_with_its_variants() {
        let mut out = String::new();
        head(&mut out, &[run_of(&["frevo/a", "frevo/b", "samba"])]);
        assert!(out.contains("0 experiments with 2 variants of frevo and samba, in "), "{out}");
        assert!(out.contains("<tr><th>frevo</th><td>unknown</td><td>a, b</td>"), "{out}");
        assert_eq!(out.matches("<tr><th>").count(), 2 + 1, "{out}");
    }

    #[test]
    fn values_of_several_servers_are_joined() {
        assert_eq!(distinct([Some("a"), None, Some("a")].into_iter()), "a; unknown");
        assert_eq!(distinct(["a", "b", "c", "d"].map(Some).into_iter()), "a; b; and 2 others");
        assert_eq!(without_options("ext4 on /dev/vda, rw,relatime"), "ext4 on /dev/vda");
    }

    #[test]
    fn dates_are_shortened() {
        assert_eq!(when("2026-05-04T12:30:59.25Z"), "2026-05-04 12:30 UTC");
        assert_eq!(when("yesterday"), "yesterday");
        assert_eq!(when("2026-05-04T12:30:59+02:00"), "2026-05-04T12:30:59+02:00");
    }
}
