//! `cargo xtask compare`: Frevo and Debian's Samba side by side on this machine, on one file system, with the same shares
//! and accounts, measured in turns by `frevo bench`.
//!
//! What is measured and how is `frevo bench`'s own matter; here are the servers, and what a run leaves behind.

mod cells;
mod crowds;
mod experiment;
mod hold;
mod outcome;
mod pair;
pub(crate) mod rclone;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use foreign::Counts;
use foreign::bed::{Backend, frevo, interrupt};

use crate::setup::{self, Set};
use crate::steps::{cargo, succeeds};
use crate::torture::place::Disk;
use experiment::{Experiment, counts};
use outcome::Outcome;
use pair::Pair;

/// GiB that files of the experiments may take on both servers together; less with --quick.
const ROOM: (u64, u64) = (12, 3);

/// Options of the command.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Which experiments; frevo bench names says what there is [default: all]
    experiments: Vec<String>,
    /// Small sizes and short rounds, for a look
    #[arg(long)]
    quick: bool,
    /// Where the results go [default: bench-runs/DATE-MACHINE]
    #[arg(long)]
    out: Option<PathBuf>,
    /// A directory on the file system to measure on [default: $TMPDIR or /var/tmp]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Measure on XFS with inodes of 512 bytes, made for this run in a loop device in that directory
    #[arg(long)]
    xfs: bool,
    /// Accounts u00001, u00002 and so on: with --hold how many there are [default: 100], else up to how many the servers of
    /// logon have, or where there are several numbers, exactly how many each of them has [default: 10000, quick 100]
    #[arg(long, value_delimiter = ',', value_name = "COUNTS")]
    users: Vec<u32>,
    /// Where the servers of logon have their accounts: embedded (each server's own database), smbpasswd (a text file),
    /// ldap (a directory, one for both programs)
    #[arg(long, value_delimiter = ',', default_values = Backend::ALL.map(Backend::name))]
    backends: Vec<Backend>,
    /// Only start both, say where they are, and wait for Ctrl-C
    #[arg(long, conflicts_with_all = ["out", "experiments"])]
    hold: bool,
    /// What else frevo bench is given, after --
    #[arg(last = true)]
    bench: Vec<String>,
}

impl Options {
    /// Every experiment for a moment: whether it can be run at all, not what it finds.
    fn brief() -> Options {
        Options {
            experiments: Vec::new(),
            quick: true,
            out: Some(crate::root().join("target/compare")),
            dir: None,
            xfs: false,
            users: vec![20],
            backends: Backend::ALL.to_vec(),
            hold: false,
            bench: ["--rounds", "1", "--seconds", "0.2"].map(str::to_owned).to_vec(),
        }
    }

    /// How many accounts there are at first; those of the experiment that registers users are its own matter.
    fn users(&self) -> u32 {
        self.users.iter().copied().max().filter(|_| self.hold).unwrap_or(100)
    }

    /// How many users the servers of the experiment with many users have.
    fn counts(&self) -> Vec<u32> {
        match self.users[..] {
            [] => counts(if self.quick { 100 } else { 10_000 }),
            [most] => counts(most),
            _ => self.users.clone(),
        }
    }

    fn dir(&self) -> Result<PathBuf> {
        let default = || std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
        let dir = self.dir.clone().unwrap_or_else(default);
        dir.canonicalize().with_context(|| format!("--dir {}", dir.display()))
    }
}

/// A path or command line as it reads in the workspace's folder, where `frevo bench` is run: results that are kept name
/// no folder of this machine.
fn short(text: &str) -> String {
    text.replace(&format!("{}/", crate::root().display()), "")
}

/// Everything once, small and short. What an earlier run in this checkout left goes first.
pub(crate) fn run_briefly() -> Result<Counts> {
    let brief = Options::brief();
    if let Some(out) = brief.out.as_ref().filter(|out| out.exists()) {
        std::fs::remove_dir_all(out).with_context(|| format!("cannot remove {}", out.display()))?;
    }
    run(&brief)
}

/// Runs the command: how many experiments could be run, and which not.
pub(crate) fn run(options: &Options) -> Result<Counts> {
    // SAFETY: geteuid has no preconditions and cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    ensure!(
        root,
        "compare needs root: smbd starts only as root, and so do servers with several UNIX users. As yourself, \
         start the servers by hand, and run frevo bench EXPERIMENT --target smb://... --vs smb://..."
    );
    let dir = options.dir()?;
    setup::run(Set::Compare)?;
    build()?;
    let experiments = if options.hold { Vec::new() } else { chosen(&options.experiments)? };
    let free = free_space(&dir).with_context(|| format!("cannot ask {} for its free space", dir.display()))? >> 30;
    let room = if options.quick { ROOM.1 } else { ROOM.0 };
    ensure!(free >= room, "{room} GiB are needed in {}, {free} GiB are free: --dir names another place", dir.display());
    // Declared before the servers: it goes when they are gone.
    let disk = if options.xfs { Some(xfs(&dir)?) } else { None };
    let dir = disk.as_ref().map_or(dir, Disk::point);
    if options.hold {
        hold::hold(&mut start(options, &dir)?)?;
        return Ok(Counts::passed(1));
    }
    measure(options, &dir, &experiments)
}

/// The study's file system: inodes of 512 bytes, so that short ACLs are in them and longer ones are not.
fn xfs(base: &Path) -> Result<Disk> {
    let mut make = Command::new("mkfs.xfs");
    make.args(["-q", "-i", "size=512"]);
    let disk = Disk::with(base, make, "loop").context("--xfs: no XFS can be made here")?;
    println!("XFS in a loop device on {}, mounted at {}", base.display(), disk.point().display());
    Ok(disk)
}

fn start(options: &Options, dir: &Path) -> Result<Pair> {
    println!("starting both in {}, with {} accounts each", dir.display(), options.users());
    Pair::start(dir, options.users(), Backend::Embedded)
}

/// One experiment after the other; one that fails does not keep the others from being measured.
fn measure(options: &Options, dir: &Path, experiments: &[Experiment]) -> Result<Counts> {
    let mut outcome = Outcome::make(options.out.as_deref())?;
    let mut pair = start(options, dir)?;
    let mut counts = Counts::default();
    for experiment in experiments {
        match one(options, dir, experiment, &mut pair, &mut outcome) {
            Ok(()) => counts.passed += 1,
            Err(_) if interrupt::interrupted() => break,
            Err(error) => {
                let what = format!("{}: {error:#}", experiment.name);
                eprintln!("error: {what}");
                counts.add(Counts::failed(what));
            }
        }
    }
    outcome.finish(&mut pair)?;
    // What was measured before an interruption is kept all the same.
    interrupt::check()?;
    Ok(counts)
}

/// One experiment on servers that were just started and shares that are empty.
fn one(options: &Options, dir: &Path, experiment: &Experiment, pair: &mut Pair, outcome: &mut Outcome) -> Result<()> {
    interrupt::check()?;
    if experiment.has_many_servers() {
        pair.renew(false)?;
        return match experiment.registers_users() {
            true => crowds::run(options, dir, outcome),
            false => cells::run(options, dir, &experiment.name, outcome),
        };
    }
    pair.renew(!experiment.starts_servers())?;
    let json = outcome.json(&experiment.name);
    let mut command = experiment.command(pair, &json)?;
    if options.quick {
        command.arg("--quick");
    } else if experiment.fills_the_disk() && !options.bench.iter().any(|word| word.starts_with("--size")) {
        experiment.fit(&mut command, free_space(dir)?);
    }
    let done = measured(&mut command, &experiment.name, &json, options, outcome);
    if !experiment.starts_servers() {
        pair.check()?;
    }
    done
}

/// The release build, unless the environment variable `FREVO` names another one.
fn build() -> Result<()> {
    if std::env::var_os("FREVO").is_some() {
        ensure!(frevo().is_file(), "FREVO names {}, and there is no such file", frevo().display());
        return Ok(());
    }
    println!("building frevo");
    let built = succeeds(cargo(&["build", "--quiet", "--release", "--package", "frevo"]))?;
    ensure!(built.failed.is_empty(), "frevo does not build");
    Ok(())
}

/// The experiments of these names, or all.
fn chosen(names: &[String]) -> Result<Vec<Experiment>> {
    let out = Command::new(frevo()).args(["bench", "names"]).output().context("cannot start frevo")?;
    let all = String::from_utf8(out.stdout)?;
    ensure!(out.status.success(), "frevo bench names failed: {}", String::from_utf8_lossy(&out.stderr));
    let all: Vec<&str> = all.lines().collect();
    let named = if names.is_empty() { all } else { pick(&names.join(" "), &all)? };
    Ok(named.into_iter().map(|name| Experiment { name: name.to_owned() }).collect())
}

/// The names that `words` is made of; some names are two words.
fn pick<'a>(words: &str, all: &[&'a str]) -> Result<Vec<&'a str>> {
    let mut rest = words.trim_start();
    let mut picked = Vec::new();
    while !rest.is_empty() {
        let after = |name: &str| rest.strip_prefix(name).filter(|rest| rest.is_empty() || rest.starts_with(' '));
        // The longest: one name may be the beginning of another.
        let found = all.iter().filter_map(|name| Some((*name, after(name)?))).max_by_key(|(name, _)| name.len());
        let (name, after) = found.with_context(|| format!("no experiment: {rest:?}; there are {}", all.join(", ")))?;
        picked.push(name);
        rest = after.trim_start();
    }
    Ok(picked)
}

/// What a file system has left, bytes.
fn free_space(dir: &Path) -> Result<u64> {
    let out = Command::new("df").args(["--block-size=1", "--output=avail"]).arg(dir).output()?;
    let text = String::from_utf8(out.stdout)?;
    text.lines().nth(1).and_then(|line| line.trim().parse().ok()).context("df says nothing")
}

/// Runs an experiment with the options of the command line; its record is `json`, if it succeeds.
fn measured(command: &mut Command, title: &str, json: &Path, options: &Options, outcome: &mut Outcome) -> Result<()> {
    command.args(&options.bench);
    outcome.note(command);
    println!("\n== {title}");
    let done = watched(command);
    if done.is_err() {
        // Nobody can draw half a record.
        let _ = std::fs::remove_file(json);
    }
    done
}

/// Runs a program to its end; when the run is interrupted, it is told so, and in the end killed.
fn watched(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command.stdin(Stdio::null()).spawn().with_context(|| format!("cannot start {name}"))?;
    let pid = libc::pid_t::try_from(child.id())?;
    let mut patience = 100;
    loop {
        if let Some(status) = child.try_wait()? {
            interrupt::check()?;
            ensure!(status.success(), "{name} bench failed ({status})");
            return Ok(());
        }
        if interrupt::interrupted() {
            match patience {
                // A terminal has told it already; whoever sent a signal to this process alone has not.
                // SAFETY: kill has no memory effects; the child is not yet waited for, so the id is its own.
                60 => drop(unsafe { libc::kill(pid, libc::SIGTERM) }),
                0 => child.kill()?,
                _ => {}
            }
            patience = (patience - 1).max(0);
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_two_words_need_no_quotes() {
        let all = ["tune", "tune socket", "acl check", "acl mix"];
        assert_eq!(pick("acl mix tune acl check", &all).unwrap(), ["acl mix", "tune", "acl check"]);
        assert_eq!(pick("tune socket tune", &all).unwrap(), ["tune socket", "tune"]);
        assert!(pick("acl", &all).is_err());
        assert!(pick("tuner", &all).is_err());
    }
}
