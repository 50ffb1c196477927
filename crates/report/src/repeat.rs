//! The data needed to repeat a run: machine, versions, configuration, command line, seed, method.

use super::head::run_title;
use super::markup::{Text, push};
use super::page::facts;
use crate::record::{Run, ServerRecord};
use crate::units;

/// Writes the last section of the page.
pub(super) fn section(out: &mut String, runs: &[Run]) {
    out.push_str("<section id=\"repeat\">\n<h2>How to repeat the runs</h2>\n");
    for run in runs {
        push!(out, "<h3>{}</h3>\n", Text(run_title(run)));
        push!(out, "<pre>{}</pre>\n", Text(command(&run.command)));
        let machine = &run.machine;
        let own = [
            ("Version of the tool", run.version.clone()),
            ("Started", run.started.clone()),
            ("Took", units::seconds(run.seconds)),
            ("Seed", run.seed.to_string()),
            ("Machine", machine.name.clone()),
            ("Processor", machine.processor.clone()),
            ("Cores", machine.cores.to_string()),
            ("Memory", units::bytes(machine.memory as f64)),
            ("Kernel", machine.kernel.clone()),
            ("System", machine.system.clone()),
        ];
        facts(out, own.iter().map(|(name, value)| (*name, value.as_str())));
        if !run.method.is_empty() {
            out.push_str("<h4>Method</h4>\n");
            facts(out, run.method.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        }
        for server in &run.servers {
            server_of(out, server);
        }
    }
    out.push_str("</section>\n");
}

fn server_of(out: &mut String, server: &ServerRecord) {
    push!(out, "<h4>{}</h4>\n", Text(&server.name));
    let own = [
        ("Address", Some(&server.target)),
        ("Protocol", Some(&server.protocol)),
        ("Version", server.version.as_ref()),
        ("File system", server.file_system.as_ref()),
    ];
    facts(out, own.into_iter().map(|(name, value)| (name, value.map_or("unknown", String::as_str))));
    match &server.configuration {
        Some(text) => push!(
            out,
            "<details open=\"\"><summary>Configuration</summary>\n<pre>{}</pre></details>\n",
            Text(text.trim_end())
        ),
        None => out.push_str("<p class=\"note\">The configuration is unknown: it was not given with --conf.</p>\n"),
    }
}

/// Quotes the command line for a shell.
fn command(arguments: &[String]) -> String {
    let plain = |argument: &String| {
        !argument.is_empty() && argument.chars().all(|c| c.is_alphanumeric() || "-_./:=@,+%".contains(c))
    };
    let quoted = arguments.iter().map(|argument| {
        if plain(argument) { argument.clone() } else { format!("'{}'", argument.replace('\'', "'\\''")) }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_pasted() {
        let arguments = ["frevo", "bench", "it's", "a b", "", "smb://u@h:445/s"].map(str::to_owned);
        assert_eq!(command(&arguments), "frevo bench 'it'\\''s' 'a b' '' smb://u@h:445/s");
    }
}
