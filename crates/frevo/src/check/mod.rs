//! `frevo check`: checks a configuration and shows its effective values, as Samba's testparm does.
//!
//! The shares that were added with `frevo share` are part of the configuration. Problems are written to standard error,
//! the effective configuration to standard output. Exit status: 0 if the server starts with the configuration and
//! serves all shares; 1 if it does not, or if the file has a likely mistake, such as an unknown parameter, a share
//! without its directory or settings with which data could be lost; 2 for wrong usage.

mod parameters;
mod snapshots;
mod volumes;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use self::volumes::Volume;
pub(crate) use self::volumes::coherence_word;
use crate::acl::calibrate::saved;
use accounts::PassdbBackend;
use accounts::smbpasswd::Complaint;
use accounts::state_dir::StateDir;
use smbconf::added::Added;
use smbconf::host::Host;
use smbconf::{Code, Loaded, Names, Place, Problem, Problems, Severity, Sources, UNAVAILABLE, WITHOUT_EFFECT, warning};

/// Checks a configuration file and prints the effective configuration
#[derive(Args, Debug)]
pub struct CheckArgs {
    /// Configuration file [default: /etc/frevo/smb.conf, else /etc/samba/smb.conf]
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print the value of every served parameter, not only those that differ from the defaults
    #[arg(short, long)]
    verbose: bool,
    /// List all known parameters and how each is treated
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
        args.config.clone().or_else(smbconf::default_path).context(
            "neither /etc/frevo/smb.conf nor /etc/samba/smb.conf exists; specify a configuration file with -c",
        )?;
    let host = Host::of_process().context("cannot look up this process's user")?;
    let report = Report::of(path, &host, args.verbose);
    if args.json {
        print(&(serde_json::to_string_pretty(&report)? + "\n"))?;
    } else {
        eprint!("{}", report.complaints());
        print(&report.text())?;
    }
    Ok(if report.passes { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the report of a configuration, as `--json` prints it.
pub(crate) fn report(path: PathBuf) -> Result<serde_json::Value> {
    let host = Host::of_process().context("cannot look up this process's user")?;
    Ok(serde_json::to_value(Report::of(path, &host, false))?)
}

/// Writes to standard output. A reader that has seen enough is not an error.
pub(crate) fn print(text: &str) -> Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        // `frevo check | head` is not an error.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error).context("cannot write to stdout"),
        _ => Ok(()),
    }
}

/// The result of checking a configuration, as printed by `--json`.
#[derive(Serialize)]
struct Report {
    file: PathBuf,
    /// Whether the exit status is 0.
    passes: bool,
    /// Whether the server starts with this configuration.
    starts: bool,
    errors: usize,
    warnings: usize,
    notes: usize,
    problems: Vec<Problem>,
    /// What users miss that the file asks for; empty if the server does not start.
    unavailable: Vec<String>,
    /// What the file sets without effect.
    without_effect: Vec<String>,
    /// For each share, which descriptors synthesized from POSIX ACLs are stored, according to `frevo:acl store` and the
    /// calibration.
    acl_store: BTreeMap<String, String>,
    /// For each share in a volume of GlusterFS that could be examined, the volume.
    volumes: BTreeMap<String, Volume>,
    /// Served parameters that differ from their defaults, or all of them with `--verbose`; empty if the server does not
    /// start.
    sections: Vec<Section>,
}

#[derive(Serialize)]
struct Section {
    name: String,
    parameters: BTreeMap<&'static str, String>,
}

/// Adds the problems of an account file.
fn look_at(backend: &PassdbBackend, problems: &mut Problems) {
    let PassdbBackend::Smbpasswd(place) = backend else { return };
    let problem = |line: u32, message: String, remedy: &str| {
        let code = if line > 0 { Code::BadLine } else { Code::Unreadable };
        let value = format!("smbpasswd:{}", place.file.display());
        let place = Place { file: place.file.as_path().into(), line };
        warning(code, message).at(&place).of("passdb backend", &value).remedy(remedy)
    };
    match place.complaints() {
        Ok((complaints, count)) => {
            let more = count - complaints.len();
            for Complaint { line, what } in complaints {
                problems.add(problem(line, what, "fix or remove the line; its account cannot log on"));
            }
            if more > 0 {
                problems.add(problem(0, format!("{more} more such lines"), ""));
            }
        }
        Err(error) => {
            let remedy = "fix the file; until then no user with an account in it can log on";
            problems.add(problem(0, format!("{error:#}"), remedy));
        }
    }
}

/// Adds a problem if PAM must be asked and its library is missing.
fn look_for_pam(loaded: &mut Loaded) {
    if !loaded.daemon.obey_pam_restrictions {
        return;
    }
    if let Err(why) = pam::check() {
        let problem = warning(Code::Unreadable, format!("PAM cannot be asked: {why}"));
        let problem = problem.of("obey pam restrictions", "yes").remedy("until then no user can log on");
        loaded.warnings.add(problem.loses("logons", None));
    }
}

/// Adds a problem if the console cannot use the file with its secret at the issuer.
fn look_for_secret(loaded: &mut Loaded) {
    let openid = loaded.daemon.openid.as_ref();
    let Some((path, place)) = openid.and_then(|it| Some((it.secret_file.as_ref()?, it.secret_place.as_ref()))) else {
        return;
    };
    if let Err(why) = console::openid::read_secret(path) {
        let problem = warning(Code::Unreadable, why).of("frevo:openid client secret file", &path.display().to_string());
        let problem = problem.remedy("until then the console does not start");
        loaded.warnings.add(match place {
            Some(place) => problem.at(place),
            None => problem,
        });
    }
}

/// Returns which conversions each converting share stores. A calibration that cannot be read is added as a problem.
fn stored_conversions(loaded: &mut Loaded) -> BTreeMap<String, String> {
    let state = loaded.daemon.state_directory.clone().map_or_else(smbconf::location::default_path, Ok);
    if let Ok(Some(state)) = state.and_then(|path| StateDir::open(&path)) {
        let problems = &mut loaded.warnings;
        saved::fill_in(&mut loaded.policy, &state, &mut |share, error| {
            let problem = warning(Code::Unreadable, format!("{error:#}"));
            let subject = format!("[{}] frevo:acl store", share.name);
            let problem = problem.of(&subject, "auto").in_share(&share.name);
            problems.add(problem.remedy("until then no converted descriptors are stored"));
        });
    }
    let shares = loaded.policy.shares.values().filter(|share| share.converts());
    shares.map(|share| (share.name.clone(), share.acls.acl_store.to_string())).collect()
}

impl Report {
    fn of(file: PathBuf, names: &dyn Names, verbose: bool) -> Report {
        let (mut acl_store, mut volumes) = (BTreeMap::new(), BTreeMap::new());
        let sources = Sources { config: Some(&file), added: Added::StateDirectory(None), ..Sources::default() };
        let (starts, problems, effective) = match smbconf::load_from(&sources, names) {
            Ok(mut loaded) => {
                loaded.daemon.passdb_backend.iter().for_each(|backend| look_at(backend, &mut loaded.warnings));
                look_for_pam(&mut loaded);
                look_for_secret(&mut loaded);
                acl_store = stored_conversions(&mut loaded);
                volumes = volumes::examine(&mut loaded);
                snapshots::look(&mut loaded);
                let effective = if verbose { loaded.effective.all() } else { loaded.effective.differing() };
                (true, loaded.warnings, effective)
            }
            Err(problems) => (false, problems, Vec::new()),
        };
        let unavailable = if starts { problems.unavailable() } else { Vec::new() };
        let without_effect = problems.without_effect().into_iter().map(str::to_owned).collect();
        let Problems(problems) = problems;
        let count = |severity| problems.iter().filter(|problem| problem.severity == severity).count();
        let section =
            |(name, parameters): smbconf::Section| Section { name, parameters: parameters.into_iter().collect() };
        Report {
            file,
            passes: !problems.iter().any(Problem::fails_check),
            starts,
            errors: count(Severity::Error),
            warnings: count(Severity::Warning),
            notes: count(Severity::Note),
            acl_store,
            volumes,
            unavailable,
            without_effect,
            sections: effective.into_iter().map(section).collect(),
            problems,
        }
    }

    /// Formats errors and warnings, and the conclusion.
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
                (true, false) => "the server starts, but the file has mistakes",
                (true, true) => "the server starts",
            };
            text += &format!("{}: {}: {verdict}\n", self.file.display(), counts.join(", "));
        }
        text
    }

    /// Formats the effective configuration and the parts of the file that are not in effect.
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
            text += "# which descriptors converted from POSIX ACLs are stored, by number of entries\n";
        }
        for (share, store) in &self.acl_store {
            text += &format!("#   [{share}] {store}\n");
        }
        if !self.volumes.is_empty() {
            text += "# volumes of GlusterFS\n";
        }
        for (share, volume) in &self.volumes {
            text += &format!("#   [{share}] {}\n", volume.text());
        }
        for note in self.problems.iter().filter(|problem| problem.is_single_note()) {
            text += &format!("# note: {}\n", note.message);
        }
        if !self.without_effect.is_empty() {
            text += &format!("# {WITHOUT_EFFECT}: {}\n", self.without_effect.join(", "));
        }
        text += &self.not_served();
        if !self.unavailable.is_empty() {
            text += &format!("# {UNAVAILABLE}: {}\n", self.unavailable.join("; "));
        }
        text
    }

    /// Formats what is not served as a comment: the number of lines, then each message once.
    fn not_served(&self) -> String {
        let chosen: Vec<_> = self
            .problems
            .iter()
            .filter(|problem| problem.code == Code::NotServed && problem.without_effect.is_none())
            .collect();
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
        let mut text = format!("# not served: {}\n", chosen.len());
        for (message, count) in messages {
            let times = if count > 1 { format!(" ({count} times)") } else { String::new() };
            text += &format!("#   {message}{times}\n");
        }
        text
    }
}

#[cfg(test)]
mod tests;
