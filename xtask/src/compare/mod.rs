//! `cargo xtask compare`: runs Frevo and Debian's Samba on this machine and the same file system, with the same shares
//! and accounts, and measures them alternately with `frevo-bench`.
//!
//! The measurements are defined in `frevo-bench`. This module has the servers and the results directory of a run.

pub(crate) mod builds;
mod cells;
mod crowds;
mod experiment;
mod hold;
mod outcome;
mod pair;
pub(crate) mod rclone;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use test_environment::{Backend, Counts, Disk, frevo, interrupt};

use crate::setup::{self, Set};
use crate::steps::{cargo, succeeds};
use crate::torture::place::{CUBIC, own_network_with};
use experiment::{Experiment, counts};
use outcome::Outcome;
use pair::Pair;

/// GiB that the files of the experiments may use on both servers together; the second value applies with --quick.
const ROOM: (u64, u64) = (12, 3);

/// Options of the command.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Experiments to run; frevo-bench names lists them [default: all]
    experiments: Vec<String>,
    /// Small sizes and short rounds, for a quick look
    #[arg(long)]
    quick: bool,
    /// Directory for the results [default: bench-runs/DATE-MACHINE]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Directory on the file system to measure on [default: $TMPDIR or /var/tmp]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Measure on XFS with inodes of 512 bytes, created for this run in a loop device in that directory
    #[arg(long)]
    xfs: bool,
    /// Measure on ext4 with a journal, created for this run in a loop device in that directory. A virtual machine may
    /// have one without, on which the kernel takes long to create files soon after others were deleted
    #[arg(long, conflicts_with = "xfs")]
    ext4: bool,
    /// Accounts u00001, u00002 and so on. With --hold: their number [default: 100]. Otherwise: the maximum number of
    /// users for the servers of logon or, if several numbers are given, exactly these numbers [default: 10000, quick
    /// 100]
    #[arg(long, value_delimiter = ',', value_name = "COUNTS")]
    users: Vec<u32>,
    /// Account back ends for the servers of logon: embedded (each server's own database), smbpasswd (a text file), ldap
    /// (a directory shared by both programs)
    #[arg(long, value_delimiter = ',', default_values = Backend::ALL.map(Backend::name))]
    backends: Vec<Backend>,
    /// TCP's congestion control for both servers and their clients, in a network namespace of their own. A host with
    /// bbr paces connections over the loopback interface with timers, which may cost more than what is measured
    #[arg(long, value_name = "NAME", default_value = CUBIC, conflicts_with = "hold")]
    congestion_control: String,
    /// Only start both servers, print their addresses, and wait for Ctrl-C
    #[arg(long, conflicts_with_all = ["out", "experiments"])]
    hold: bool,
    /// Further arguments for frevo-bench, after --
    #[arg(last = true)]
    bench: Vec<String>,
}

impl Options {
    /// Runs every experiment briefly, to see whether it can be run at all.
    fn brief() -> Options {
        Options {
            experiments: Vec::new(),
            quick: true,
            out: Some(crate::root().join("target/compare")),
            dir: None,
            xfs: false,
            ext4: false,
            users: vec![20],
            backends: Backend::ALL.to_vec(),
            congestion_control: CUBIC.to_owned(),
            hold: false,
            bench: ["--rounds", "1", "--seconds", "0.2"].map(str::to_owned).to_vec(),
        }
    }

    /// Returns the command that runs one experiment with these options.
    fn repeat(&self, experiment: &str) -> String {
        let quick = if self.quick { " --quick" } else { "" };
        let disk = match (self.xfs, self.ext4) {
            (true, _) => " --xfs",
            (_, true) => " --ext4",
            _ => "",
        };
        let network = match &*self.congestion_control {
            CUBIC => String::new(),
            other => format!(" --congestion-control {other}"),
        };
        let users: Vec<String> = self.users.iter().map(u32::to_string).collect();
        let users = if users.is_empty() { String::new() } else { format!(" --users {}", users.join(",")) };
        let bench = if self.bench.is_empty() { String::new() } else { format!(" -- {}", self.bench.join(" ")) };
        format!("cargo xtask compare {experiment}{quick}{disk}{network}{users}{bench}")
    }

    /// Returns the initial number of accounts. The experiment that registers users has its own numbers.
    fn users(&self) -> u32 {
        self.users.iter().copied().max().filter(|_| self.hold).unwrap_or(100)
    }

    /// Returns the numbers of users for the servers of the experiment with many users.
    fn counts(&self) -> Vec<u32> {
        match self.users[..] {
            [] => counts(if self.quick { 100 } else { 10_000 }),
            [most] => counts(most),
            _ => self.users.clone(),
        }
    }
}

/// Returns the directory to measure in: the given one, else the one for temporary files.
fn default_dir(dir: Option<&Path>) -> Result<PathBuf> {
    let default = || std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
    let dir = dir.map_or_else(default, Path::to_path_buf);
    dir.canonicalize().with_context(|| format!("--dir {}", dir.display()))
}

/// Shortens a path or command line relative to the workspace's folder, in which `frevo-bench` runs, so that stored
/// results contain no paths of this machine.
fn short(text: &str) -> String {
    text.replace(&format!("{}/", crate::root().display()), "")
}

/// Runs everything once, briefly. First removes the results of an earlier run in this checkout.
pub(crate) fn run_briefly() -> Result<Counts> {
    let brief = Options::brief();
    if let Some(out) = brief.out.as_ref().filter(|out| out.exists()) {
        std::fs::remove_dir_all(out).with_context(|| format!("cannot remove {}", out.display()))?;
    }
    run(&brief)
}

/// Runs the command. Returns how many experiments succeeded, and which failed.
pub(crate) fn run(options: &Options) -> Result<Counts> {
    // SAFETY: geteuid has no preconditions and cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    ensure!(
        root,
        "compare needs root, because smbd and servers with several UNIX users start only as root. Without root, \
         start the servers manually, and run frevo-bench EXPERIMENT --target smb://... --vs smb://..."
    );
    let dir = default_dir(options.dir.as_deref())?;
    setup::run(Set::Compare)?;
    build_frevo()?;
    build_bench()?;
    let experiments = if options.hold { Vec::new() } else { chosen(&options.experiments)? };
    let free = free_space(&dir).with_context(|| format!("cannot query the free space of {}", dir.display()))? >> 30;
    let space = if options.quick { ROOM.1 } else { ROOM.0 };
    ensure!(free >= space, "{space} GiB are needed in {}, {free} GiB are free; use --dir", dir.display());
    if !options.hold {
        own_network_with(&options.congestion_control)?;
    }
    // Declared before the servers, so that it is removed after they have ended.
    let disk = own_disk(options, &dir)?;
    let dir = disk.as_ref().map_or(dir, Disk::point);
    if options.hold {
        hold::hold(&mut start(options, &dir)?)?;
        return Ok(Counts::passed(1));
    }
    measure(options, &dir, &experiments)
}

/// Creates the file system that the options ask for. XFS is the study's: it has inodes of 512 bytes, so that short ACLs
/// are stored in them and longer ones are not.
fn own_disk(options: &Options, base: &Path) -> Result<Option<Disk>> {
    let (name, program, arguments): (_, _, &[&str]) = match (options.xfs, options.ext4) {
        (true, _) => ("XFS", "mkfs.xfs", &["-q", "-i", "size=512"]),
        (_, true) => ("ext4", "mkfs.ext4", &["-q", "-F", "-O", "has_journal"]),
        _ => return Ok(None),
    };
    let mut make = Command::new(program);
    make.args(arguments);
    let disk = Disk::with(base, make, "loop").with_context(|| format!("cannot create a file system of type {name}"))?;
    println!("{name} in a loop device on {}, mounted at {}", base.display(), disk.point().display());
    Ok(Some(disk))
}

fn start(options: &Options, dir: &Path) -> Result<Pair> {
    println!("starting both servers in {}, with {} accounts each", dir.display(), options.users());
    Pair::start(dir, options.users(), Backend::Embedded)
}

/// Runs the experiments in sequence. A failure does not prevent the others from running.
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
                counts.add(Counts::failed(what).repeated_by(&options.repeat(&experiment.name)));
            }
        }
    }
    outcome.finish(&pair.sides().map(|side| (side.name(), &side.server)))?;
    // Results from before an interruption are kept.
    interrupt::check()?;
    Ok(counts)
}

/// Runs one experiment on newly started servers with empty shares.
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
    let done = measured(&mut command, &experiment.name, &json, &options.bench, outcome);
    if !experiment.starts_servers() {
        pair.check()?;
    }
    done
}

/// Builds the release version of the server, unless the environment variable `FREVO` specifies one.
fn build_frevo() -> Result<()> {
    if std::env::var_os("FREVO").is_some() {
        ensure!(frevo().is_file(), "FREVO is {}, but there is no such file", frevo().display());
        return Ok(());
    }
    build_release("frevo")
}

/// Builds the release version of the load generator.
fn build_bench() -> Result<()> {
    build_release("bench")
}

fn build_release(package: &str) -> Result<()> {
    println!("building the package {package}");
    let build = cargo(&["build", "--quiet", "--release", "--package", package]);
    ensure!(succeeds(build)?.failed.is_empty(), "the build failed; see the errors above");
    Ok(())
}

/// Returns a command of the load generator, the release build of this workspace. It runs in the workspace's folder.
fn frevo_bench() -> Command {
    let program = crate::root().join("target/release/frevo-bench");
    let mut command = Command::new(&program);
    command.current_dir(crate::root()).arg0(short(&program.to_string_lossy()));
    command
}

/// Returns the experiments with these names, or all.
fn chosen(names: &[String]) -> Result<Vec<Experiment>> {
    let out = frevo_bench().arg("names").output().context("cannot start frevo-bench")?;
    let all = String::from_utf8(out.stdout)?;
    ensure!(out.status.success(), "frevo-bench names failed: {}", String::from_utf8_lossy(&out.stderr));
    let all: Vec<&str> = all.lines().collect();
    let named = if names.is_empty() { all } else { pick(&names.join(" "), &all)? };
    Ok(named.into_iter().map(|name| Experiment { name: name.to_owned() }).collect())
}

/// Splits `words` into experiment names, some of which consist of two words.
fn pick<'a>(words: &str, all: &[&'a str]) -> Result<Vec<&'a str>> {
    let mut rest = words.trim_start();
    let mut picked = Vec::new();
    while !rest.is_empty() {
        let after = |name: &str| rest.strip_prefix(name).filter(|rest| rest.is_empty() || rest.starts_with(' '));
        // Prefers the longest match, because one name may be a prefix of another.
        let found = all.iter().filter_map(|name| Some((*name, after(name)?))).max_by_key(|(name, _)| name.len());
        let (name, after) = found.with_context(|| format!("no such experiment: {rest:?}; use {}", all.join(", ")))?;
        picked.push(name);
        rest = after.trim_start();
    }
    Ok(picked)
}

/// Returns the free space of a file system in bytes.
fn free_space(dir: &Path) -> Result<u64> {
    let out = Command::new("df").args(["--block-size=1", "--output=avail"]).arg(dir).output()?;
    let text = String::from_utf8(out.stdout)?;
    text.lines().nth(1).and_then(|line| line.trim().parse().ok()).context("df has no output")
}

/// Runs an experiment with further arguments. On success, `json` contains its record.
fn measured(command: &mut Command, title: &str, json: &Path, further: &[String], outcome: &mut Outcome) -> Result<()> {
    command.args(further);
    outcome.note(command);
    println!("\n== {title}");
    let done = watched(command);
    if done.is_err() {
        // An incomplete record cannot be used.
        let _ = std::fs::remove_file(json);
    }
    done
}

/// Runs a program to its end. If the run is interrupted, the program is terminated, and finally killed.
fn watched(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command.stdin(Stdio::null()).spawn().with_context(|| format!("cannot start {name}"))?;
    let pid = libc::pid_t::try_from(child.id())?;
    let mut patience = 100;
    loop {
        if let Some(status) = child.try_wait()? {
            interrupt::check()?;
            ensure!(status.success(), "{name} failed ({status})");
            return Ok(());
        }
        if interrupt::interrupted() {
            match patience {
                // A terminal has already sent the signal to the child too, but a signal sent only to this process has
                // not reached it.
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
    fn an_experiment_that_failed_can_be_repeated() {
        let repeat = Options::brief().repeat("acl mix");
        assert_eq!(repeat, "cargo xtask compare acl mix --quick --users 20 -- --rounds 1 --seconds 0.2");
    }

    #[test]
    fn names_of_two_words_need_no_quotes() {
        let all = ["tune", "tune socket", "acl check", "acl mix"];
        assert_eq!(pick("acl mix tune acl check", &all).unwrap(), ["acl mix", "tune", "acl check"]);
        assert_eq!(pick("tune socket tune", &all).unwrap(), ["tune socket", "tune"]);
        assert!(pick("acl", &all).is_err());
        assert!(pick("tuner", &all).is_err());
    }
}
