//! `frevo check`: what a configuration means here, as Samba's testparm says it of Samba.
//!
//! Problems go to the standard error output, the effective configuration to the standard output. Exit status: 0 the
//! server starts with it; 1 it does not, or the file has an unknown parameter or a share without its directory; 2 wrong
//! usage.

mod parameters;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use crate::accounts::smbpasswd::Complaint;
use crate::acl::calibrate::saved;
use crate::config::{self, Code, Effective, Loaded, Names, PassdbBackend, Place, Problem, Problems, Severity};
use crate::host::Host;
use crate::state_dir::{self, StateDir};

/// Checks a configuration and shows what it means
#[derive(Args, Debug)]
pub struct CheckArgs {
    /// The configuration file [default: /etc/frevo/smb.conf, else /etc/samba/smb.conf]
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Prints JSON
    #[arg(long)]
    json: bool,
    /// Lists all parameters that are known, with what becomes of them
    #[arg(long)]
    parameters: bool,
}

/// Runs the command.
pub fn run(args: &CheckArgs) -> Result<ExitCode> {
    if args.parameters {
        print(&if args.json { parameters::json()? } else { parameters::text() })?;
        return Ok(ExitCode::SUCCESS);
    }
    let path =
        args.config.clone().or_else(config::default_path).context(
            "there is neither /etc/frevo/smb.conf nor /etc/samba/smb.conf: name a configuration file with -c",
        )?;
    let host = Host::of_process().context("this process's user")?;
    let report = Report::of(path, &host);
    if args.json {
        print(&(serde_json::to_string_pretty(&report)? + "\n"))?;
    } else {
        eprint!("{}", report.complaints());
        print(&report.text())?;
    }
    Ok(if report.passes { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(text: &str) -> Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        // `frevo check | head` is no failure.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error).context("standard output"),
        _ => Ok(()),
    }
}

/// All that is to be said of a configuration; this is what `--json` prints.
#[derive(Serialize)]
struct Report {
    file: PathBuf,
    /// Whether the exit status is 0.
    passes: bool,
    /// Whether the server starts with it.
    starts: bool,
    errors: usize,
    warnings: usize,
    notes: usize,
    problems: Vec<Problem>,
    /// By share: which descriptors made of POSIX ACLs are stored, as `frevo:acl store` and a calibration have it.
    acl_store: BTreeMap<String, String>,
    /// What is served and differs from the defaults; empty where the server does not start.
    sections: Vec<Section>,
}

#[derive(Serialize)]
struct Section {
    name: String,
    parameters: BTreeMap<&'static str, String>,
}

/// Adds what is wrong with accounts that lie in a file.
fn look_at(backend: &PassdbBackend, problems: &mut Problems) {
    let PassdbBackend::Smbpasswd(place) = backend else { return };
    let problem = |line: u32, message: String, remedy: &str| Problem {
        severity: Severity::Warning,
        code: if line > 0 { Code::BadLine } else { Code::Unreadable },
        place: Some(Place { file: place.file.as_path().into(), line }),
        subject: "passdb backend".into(),
        value: format!("smbpasswd:{}", place.file.display()),
        message,
        remedy: remedy.into(),
    };
    match place.complaints() {
        Ok((complaints, count)) => {
            let more = count - complaints.len();
            for Complaint { line, what } in complaints {
                problems.add(problem(line, what, "mend or remove the line; its account cannot log on"));
            }
            if more > 0 {
                problems.add(problem(0, format!("{more} more such lines"), ""));
            }
        }
        Err(error) => {
            let remedy = "as it is, nobody whose account lies there can log on";
            problems.add(problem(0, format!("{error:#}"), remedy));
        }
    }
}

/// Which conversions each share stores that has any. A calibration that cannot be read is a problem.
fn stored_conversions(loaded: &mut Loaded) -> BTreeMap<String, String> {
    let state = loaded.daemon.state_directory.clone().map_or_else(state_dir::default_path, Ok);
    if let Ok(Some(state)) = state.and_then(|path| StateDir::open(&path)) {
        let problems = &mut loaded.warnings;
        saved::fill_in(&mut loaded.policy, &state, &mut |share, error| {
            problems.add(Problem {
                severity: Severity::Warning,
                code: Code::Unreadable,
                place: None,
                subject: format!("[{}] frevo:acl store", share.name),
                value: "auto".into(),
                message: format!("{error:#}"),
                remedy: "until then nothing is stored that was converted".into(),
            });
        });
    }
    let shares = loaded.policy.shares.values().filter(|share| share.converts());
    shares.map(|share| (share.name.clone(), share.acl_store.to_string())).collect()
}

impl Report {
    fn of(file: PathBuf, names: &dyn Names) -> Report {
        let mut acl_store = BTreeMap::new();
        let (starts, Problems(problems), effective) = match config::load(&file, names) {
            Ok(mut loaded) => {
                loaded.daemon.passdb_backend.iter().for_each(|backend| look_at(backend, &mut loaded.warnings));
                acl_store = stored_conversions(&mut loaded);
                (true, loaded.warnings, loaded.effective)
            }
            Err(problems) => (false, problems, Effective::default()),
        };
        let count = |severity| problems.iter().filter(|problem| problem.severity == severity).count();
        let section = |(name, parameters): (String, Vec<(&'static str, String)>)| Section {
            name,
            parameters: parameters.into_iter().collect(),
        };
        Report {
            file,
            passes: !problems.iter().any(Problem::fails_check),
            starts,
            errors: count(Severity::Error),
            warnings: count(Severity::Warning),
            notes: count(Severity::Note),
            acl_store,
            sections: effective.sections.into_iter().map(section).collect(),
            problems,
        }
    }

    /// Errors and warnings, one after the other, and what follows from them.
    fn complaints(&self) -> String {
        let mut text = String::new();
        for problem in self.problems.iter().filter(|problem| problem.severity != Severity::Note) {
            text += &format!("{problem}\n");
        }
        let counts = [(self.errors, "error"), (self.warnings, "warning")]
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!("{count} {word}{}", if count == 1 { "" } else { "s" }))
            .collect::<Vec<_>>();
        if !counts.is_empty() {
            let verdict = match (self.starts, self.passes) {
                (false, _) => "the server does not start with this file",
                (true, false) => "the server starts, but the file is not right",
                (true, true) => "the server starts",
            };
            text += &format!("{}: {}: {verdict}\n", self.file.display(), counts.join(", "));
        }
        text
    }

    /// The effective configuration, and what of the file is not part of it.
    fn text(&self) -> String {
        let mut text = String::new();
        for section in &self.sections {
            text += &format!("[{}]\n", section.name);
            for (name, value) in &section.parameters {
                text += format!("\t{name} = {value}").trim_end();
                text.push('\n');
            }
            text.push('\n');
        }
        if !self.acl_store.is_empty() {
            text += "# stored of descriptors made of POSIX ACLs, by the number of their entries\n";
        }
        for (share, store) in &self.acl_store {
            text += &format!("#   [{share}] {store}\n");
        }
        text += &self.group(Code::Accepted, Severity::Note, "read, and changing nothing");
        text += &self.group(Code::NotServed, Severity::Note, "not served, and asking for nothing");
        text += &self.group(Code::NotServed, Severity::Warning, "not served");
        text
    }

    /// The problems of one kind as a comment: their number, then each message once.
    fn group(&self, code: Code, severity: Severity, title: &str) -> String {
        let chosen: Vec<_> =
            self.problems.iter().filter(|problem| problem.code == code && problem.severity == severity).collect();
        if chosen.is_empty() {
            return String::new();
        }
        let mut messages: Vec<(&str, usize)> = Vec::new();
        for problem in &chosen {
            match messages.iter_mut().find(|(message, _)| *message == problem.message) {
                Some((_, count)) => *count += 1,
                None => messages.push((&problem.message, 1)),
            }
        }
        let mut text = format!("# {title}: {}\n", chosen.len());
        for (message, count) in messages {
            let times = if count > 1 { format!(" ({count} times)") } else { String::new() };
            text += &format!("#   {message}{times}\n");
        }
        text
    }
}

#[cfg(test)]
mod tests;
