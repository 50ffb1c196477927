//! `cargo xtask gluster bench`: small files in each volume over a FUSE mount, libgfapi itself, Samba and Frevo, in
//! turns, with the operations that the bricks serve.
//!
//! The servers and the load run in the namespaces, so each volume is measured by another process of this program that
//! runs there ([`measure`]). The load is the example `bare` of the crate `gluster`. It prints each step of its work,
//! and waits until this program has counted operations or emptied caches.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use report::metric::Metric;
use report::record::Run;
use test_environment::{ALICE, Counts, Crowd, Server, Target, TestEnvironment, interrupt};

use super::hold::{mount, restart_bricks, unmount};
use super::load::{self, Said, Step, TREE};
use super::profile::{Operations, Profile};
use super::results::{Results, Row, median};
use super::servers::{ServersOfRun, finish, output};
use super::{Volume, Wanted};
use crate::steps::{cargo, succeeds};

/// The configuration of both servers.
const TEMPLATE: &str = include_str!("smb.conf");
/// The share, and the directory of the volume in which the mount and libgfapi work. Each server has its own, whose name
/// begins so, because the servers give the same user different SIDs: one would be refused in what the other creates.
const SHARE: &str = "bench";
/// The load generator.
const PROGRAM: &str = "target/release/examples/bare";
/// The phases, in order.
const PHASES: [&str; 6] = ["create", LIST, "rename", "delete", "mkdir", "rmdir"];
/// The phase in which the mount lists the files of each subject, too: a brick takes longer for files with extended
/// attributes, which the servers store.
const LIST: &str = "list";

/// Options of `cargo xtask gluster bench`.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    wanted: Wanted,
    /// Write the results to this file, for each volume
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    measurement: Measurement,
}

/// What is measured in each volume.
#[derive(Clone, clap::Args)]
pub(crate) struct Measurement {
    /// Subjects to leave out, separated by commas
    #[arg(long, value_delimiter = ',')]
    without: Vec<Subject>,
    /// Number of connections, each with its own directories
    #[arg(long, default_value_t = 1)]
    clients: u32,
    /// Number of files of each connection [default: 300, quick 100]
    #[arg(long)]
    files: Option<u32>,
    /// Size of a file, in KiB
    #[arg(long, default_value_t = 64)]
    size: u32,
    /// Number of files in a directory
    #[arg(long, default_value_t = 100)]
    per_directory: u32,
    /// Measured rounds, besides the warm-up [default: 5, quick 1]
    #[arg(long)]
    rounds: Option<u32>,
    /// Few files and one round, for a quick look
    #[arg(long)]
    quick: bool,
}

/// Options of the process in the namespaces.
#[derive(clap::Args)]
pub(crate) struct Inside {
    volume: Volume,
    /// Write the results to this file
    #[arg(long)]
    json: PathBuf,
    #[command(flatten)]
    measurement: Measurement,
}

/// A way to use a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(super) enum Subject {
    /// The mount of the volume
    Fuse,
    /// libgfapi itself, without a server. It is always measured.
    #[value(skip)]
    Bare,
    /// Debian's smbd with vfs_glusterfs
    Samba,
    /// target/release/frevo
    Frevo,
}

impl Subject {
    const ALL: [Subject; 4] = [Subject::Fuse, Subject::Bare, Subject::Samba, Subject::Frevo];

    /// Returns the name in tables, which the load generator has for it, too.
    pub(super) fn name(self) -> &'static str {
        match self {
            Subject::Fuse => "FUSE",
            Subject::Bare => "libgfapi",
            Subject::Samba => "Samba",
            Subject::Frevo => "Frevo",
        }
    }

    /// Returns the subject of this name.
    pub(super) fn named(name: &str) -> Option<Subject> {
        Subject::ALL.into_iter().find(|subject| subject.name() == name)
    }

    /// Returns the server program.
    fn target(self) -> Option<Target> {
        match self {
            Subject::Fuse | Subject::Bare => None,
            Subject::Samba => Some(Target::Samba),
            Subject::Frevo => Some(Target::Frevo),
        }
    }
}

impl Measurement {
    fn has(&self, subject: Subject) -> bool {
        !self.without.contains(&subject)
    }

    fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.quick { 1 } else { 5 }).max(1)
    }

    fn files(&self) -> u32 {
        self.files.unwrap_or(if self.quick { 100 } else { 300 }).max(1)
    }

    /// Returns the options that say the same.
    fn arguments(&self) -> Vec<String> {
        let mut arguments: Vec<String> = [
            ("--clients", self.clients),
            ("--files", self.files()),
            ("--size", self.size),
            ("--per-directory", self.per_directory),
            ("--rounds", self.rounds()),
        ]
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value.to_string()])
        .collect();
        if !self.without.is_empty() {
            let names: Vec<_> = self.without.iter().map(|subject| format!("{subject:?}").to_lowercase()).collect();
            arguments.extend(["--without".to_owned(), names.join(",")]);
        }
        arguments
    }
}

/// Starts GlusterFS servers and measures each volume. A volume that cannot be measured is a failure.
pub(super) fn run(options: &Options) -> Result<Counts> {
    let measurement = &options.measurement;
    build(measurement)?;
    let servers = ServersOfRun::start(&options.wanted)?;
    let (mut counts, mut all) = (Counts::default(), BTreeMap::new());
    for volume in servers.volumes() {
        interrupt::check()?;
        let results = servers.dir().join(format!("{volume}.json"));
        let mut command = servers.command(super::own_program()?);
        command.args(["gluster", "--dir"]).arg(servers.dir()).args(["measure", volume]);
        command.arg("--json").arg(&results).args(measurement.arguments());
        counts.add(match finish(&mut command)? {
            status if status.success() => {
                let text = std::fs::read(&results).context("no results were written")?;
                all.insert(volume, serde_json::from_slice::<serde_json::Value>(&text)?);
                Counts::passed(1)
            }
            status => Counts::failed(format!("{volume}: {status}")).repeated_by(&format!(
                "cargo xtask gluster bench --volumes {volume} {}",
                measurement.arguments().join(" ")
            )),
        });
    }
    if let Some(path) = &options.json {
        let text = serde_json::to_string_pretty(&all)? + "\n";
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(counts)
}

/// Builds the load generator, and Frevo unless `FREVO` names a program.
fn build(measurement: &Measurement) -> Result<()> {
    println!("building the example bare");
    let mut build = cargo(&["build", "--quiet", "--release", "--package", "gluster", "--example", "bare"]);
    ensure!(succeeds(build)?.failed.is_empty(), "the build failed; see the errors above");
    if measurement.has(Subject::Frevo) && std::env::var_os("FREVO").is_none() {
        println!("building frevo");
        build = cargo(&["build", "--quiet", "--release", "--package", "frevo"]);
        ensure!(succeeds(build)?.failed.is_empty(), "the build failed; see the errors above");
    }
    Ok(())
}

/// Starts servers on a volume, measures it and prints the results. `dir` is the directory of the GlusterFS servers.
pub(super) fn measure(dir: &Path, options: &Inside) -> Result<()> {
    let Inside { volume: Volume { name: volume, .. }, json, measurement } = options;
    let mount = dir.join("mnt").join(volume);
    let environments = Subject::ALL
        .into_iter()
        .filter(|subject| measurement.has(*subject))
        .filter_map(|subject| Some((subject, subject.target()?)))
        .map(|(subject, target)| Ok((subject, TestEnvironment::make_in(dir, target, Crowd(0))?)))
        .collect::<Result<Vec<_>>>()?;
    let shared = directory(&mount, SHARE)?;
    let mut servers = BTreeMap::new();
    for (subject, environment) in &environments {
        let name = shared_by(*subject);
        directory(&mount, &name)?;
        let template = TEMPLATE.replace("@VOLUME@", volume).replace("@DIRECTORY@", &name);
        let server = environment.start("server", &template);
        let server = server.with_context(|| format!("{} does not start on {volume}", subject.name()))?;
        servers.insert(*subject, server);
    }
    let record = dir.join("bare.json");
    let mut command = load::command(&crate::root().join(PROGRAM), dir, volume, SHARE);
    command.arg("--json").arg(&record);
    command.args(["--rounds", &measurement.rounds().to_string(), "smallfile", "--phases", &PHASES.join(",")]);
    command.args(["--clients", &measurement.clients.to_string(), "--files", &measurement.files().to_string()]);
    command.args(["--size", &measurement.size.to_string()]);
    command.args(["--per-directory", &measurement.per_directory.to_string()]);
    if measurement.has(Subject::Fuse) {
        command.arg("--directory").arg(format!("{}={}", Subject::Fuse.name(), shared.display()));
    }
    for (subject, server) in &servers {
        command.args(load::in_turns(*subject, server.address(), SHARE));
    }
    let profile = Profile::start(dir, volume)?;
    let mut accompanied =
        Accompanied { dir, volume, mount: &mount, profile, servers, counted: BTreeMap::new(), listed: BTreeMap::new() };
    load::run(command, |said| accompanied.step(said))?;
    let run: Run = serde_json::from_slice(&std::fs::read(&record)?)?;
    let results = accompanied.results(&run, measurement)?;
    std::fs::write(json, serde_json::to_string(&results.json())?)?;
    print!("{results}");
    Ok(())
}

/// Creates a directory that belongs to alice in the root of the volume, and returns its path.
fn directory(mount: &Path, name: &str) -> Result<PathBuf> {
    let path = mount.join(name);
    std::fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
    std::os::unix::fs::chown(&path, Some(ALICE.id), Some(ALICE.id))?;
    Ok(path)
}

/// The load generator's work, step by step.
struct Accompanied<'a> {
    /// The directory of the GlusterFS servers.
    dir: &'a Path,
    volume: &'a str,
    mount: &'a Path,
    profile: Profile<'a>,
    servers: BTreeMap<Subject, Server>,
    /// The operations of each measured round, by phase and subject.
    counted: BTreeMap<(String, Subject), Vec<Operations>>,
    /// Files per second that the mount listed of each subject's files in each measured round.
    listed: BTreeMap<Subject, Vec<f64>>,
}

impl Accompanied<'_> {
    fn step(&mut self, said: &Said<'_>) -> Result<()> {
        let Said { step, phase, round, subject } = *said;
        match step {
            Step::Renew => {
                if phase == LIST && round != 0 {
                    let rate = self.list_over_mount(subject)?;
                    self.listed.entry(subject).or_default().push(rate);
                }
                self.renew(subject, phase)
            }
            Step::Begin => self.profile.take().map(drop),
            Step::End => {
                let operations = self.profile.take()?;
                // Round 0 is the warm-up.
                if round != 0 {
                    self.counted.entry((phase.to_owned(), subject)).or_default().push(operations);
                }
                Ok(())
            }
            Step::Removed => Ok(()),
        }
    }

    /// Empties the caches of a subject, which has no connections now. At the begin of its turn, the bricks are started
    /// anew, too: Samba leaves about 20 descriptors of a brick open for each file of a round, for as long as the brick
    /// runs.
    fn renew(&mut self, subject: Subject, phase: &str) -> Result<()> {
        let mut server = self.servers.get_mut(&subject);
        if let Some(server) = &mut server {
            server.stop();
        }
        if subject == Subject::Fuse {
            output(Command::new("umount").arg(self.mount))?;
        }
        if phase == TREE {
            restart_bricks(self.dir, self.volume)?;
        }
        if subject == Subject::Fuse {
            mount(self.volume, self.mount)?;
        }
        server.map_or(Ok(()), Server::restart)
    }

    /// Lists the files of a subject over another mount, and returns their number per second. That mount is removed,
    /// because the bricks would report changes of these files to it.
    fn list_over_mount(&self, subject: Subject) -> Result<f64> {
        let point = self.dir.join("mnt").join(format!("{}-listed", self.volume));
        mount(self.volume, &point)?;
        let directory = match subject.target() {
            None => SHARE.to_owned(),
            Some(_) => shared_by(subject),
        };
        let begun = Instant::now();
        let files = count_files(&point.join(directory))?;
        let rate = f64::from(files) / begun.elapsed().as_secs_f64();
        unmount(&point)?;
        ensure!(files > 0, "the mount lists no file of {}", subject.name());
        Ok(rate)
    }

    /// Puts the record of the load generator and the counted operations together.
    fn results(&self, run: &Run, measurement: &Measurement) -> Result<Results> {
        let experiment = run.experiments.first().context("the load generator has measured nothing")?;
        let files = f64::from(measurement.files()) * f64::from(measurement.clients);
        let mut rows = Vec::new();
        for (phase, case) in PHASES.into_iter().zip(&experiment.cases) {
            for subject in Subject::ALL.into_iter().filter(|subject| measurement.has(*subject)) {
                let party = run.servers.iter().position(|server| server.name == subject.name());
                let rounds = party.and_then(|party| case.servers.get(party));
                let rate = rounds.and_then(|rounds| Metric::RATE.median(rounds));
                let rate = rate.with_context(|| format!("{} has no {phase}", subject.name()))?;
                let counted = self.counted.get(&(phase.to_owned(), subject)).map_or(&[][..], Vec::as_slice);
                let listed = self.listed.get(&subject).filter(|_| phase == LIST);
                let over_mount = listed.and_then(|rates| report::metric::median(rates.iter().copied()));
                rows.push(Row { phase, subject, rate, operations: median(counted, files), over_mount });
            }
        }
        let title = format!(
            "{}, {} x {} files of {} KiB, {} in a directory, medians of {} rounds",
            self.volume,
            measurement.clients,
            measurement.files(),
            measurement.size,
            measurement.per_directory,
            measurement.rounds()
        );
        Ok(Results { title, rows })
    }
}

/// Returns the directory in the volume that a server shares.
fn shared_by(subject: Subject) -> String {
    format!("{SHARE}-{}", subject.name())
}

/// Reads the attributes of everything in a directory and below it, and returns the number of files.
fn count_files(directory: &Path) -> Result<u32> {
    let mut files = 0;
    for entry in std::fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let entry = entry?;
        files += match entry.metadata()?.is_dir() {
            true => count_files(&entry.path())?,
            false => 1,
        };
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        measurement: Measurement,
    }

    #[test]
    fn the_process_in_the_namespaces_gets_the_same_measurement() {
        let parse =
            |words: &[String]| Line::try_parse_from(["bench".to_owned()].iter().chain(words)).unwrap().measurement;
        let words = ["--quick", "--clients", "3", "--without", "frevo,samba"].map(str::to_owned);
        let expected = "--clients 3 --files 100 --size 64 --per-directory 100 --rounds 1 --without frevo,samba";
        let arguments = parse(&words).arguments();
        assert_eq!(arguments.join(" "), expected);
        assert_eq!(parse(&arguments).arguments(), arguments);
    }
}
