//! The experiments and their names on the command line.

pub mod acl;
pub mod bigfile;
pub mod hotdir;
pub mod largefile;
pub mod list;
pub mod logon;
pub mod miss;
pub mod netbench;
pub mod protocols;
pub mod sessions;
pub mod smallfile;
pub mod tune;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use report::record;

use crate::cli::Common;
use crate::directory::Directory;
use crate::method::Bench;
use crate::netbench::load::DEBIAN;

/// An experiment with its options.
#[derive(Subcommand, Debug)]
pub enum Experiment {
    /// Memory and descriptors of held sessions, and the sizing formula (E1, E2, E3)
    Sessions(Asked<sessions::Options>),
    /// A huge file to the server and back, compared by MD5 (E4)
    Bigfile(Asked<bigfile::Options>),
    /// Logon time against the number of registered users (E5)
    Logon(Asked<logon::Options>),
    /// A recorded NetBench run, replayed by any number of clients (E6)
    Netbench(Asked<netbench::Options>),
    /// Sequential and random reading and writing of large files (E10)
    Largefile(Asked<largefile::Options>),
    /// Creating, listing, reading, renaming and deleting small files (E10)
    Smallfile(Asked<smallfile::Options>),
    /// A growing number of clients in one directory (E10)
    Hotdir(Asked<hotdir::Options>),
    /// Opening missing names, and names in another case, in directories of up to a million files (E10)
    Miss(Asked<miss::Options>),
    /// Complete listings of directories of up to a million files (E10)
    List(Asked<list::Options>),
    /// One file in both directions over SMB, FTP and HTTP (E7)
    Protocols(Asked<protocols::Options>),
    /// The cost of access control lists (E11, E12)
    #[command(subcommand)]
    Acl(acl::Acl),
    /// Configuration parameters, changed one at a time (E9); tune socket: socket buffers over network links (E8)
    Tune(Box<tune::Tune>),
    /// Every experiment, one after another
    All(Asked<All>),
}

/// The common options and the experiment's own options.
#[derive(Args, Clone, Debug)]
pub struct Asked<T: Args> {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) own: T,
}

/// The options of `all`.
#[derive(Args, Clone, Default, Debug)]
pub struct All {
    /// Run only these experiments, separated by commas
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

/// The names of all experiments, in the order in which `all` runs them.
pub const NAMES: &[&str] = &[
    "sessions",
    "bigfile",
    "logon",
    "netbench",
    "largefile",
    "smallfile",
    "hotdir",
    "miss",
    "list",
    "protocols",
    "acl check",
    "acl mix",
    "acl memory",
    "tune",
    "tune socket",
];

impl Experiment {
    /// Returns the common options.
    pub fn common(&self) -> &Common {
        match self {
            Experiment::Sessions(asked) => &asked.common,
            Experiment::Bigfile(asked) => &asked.common,
            Experiment::Logon(asked) => &asked.common,
            Experiment::Largefile(asked) => &asked.common,
            Experiment::Smallfile(asked) => &asked.common,
            Experiment::Hotdir(asked) => &asked.common,
            Experiment::Miss(asked) => &asked.common,
            Experiment::List(asked) => &asked.common,
            Experiment::Netbench(asked) => &asked.common,
            Experiment::Protocols(asked) => &asked.common,
            Experiment::Acl(acl) => acl.common(),
            Experiment::Tune(tune) => tune.common(),
            Experiment::All(asked) => &asked.common,
        }
    }

    /// Returns the directories of this machine to measure.
    pub fn directories(&self) -> &[Directory] {
        match self {
            Experiment::Largefile(asked) => &asked.own.directories.given,
            Experiment::Smallfile(asked) => &asked.own.directories.given,
            _ => &[],
        }
    }

    /// Returns whether the experiment starts the servers itself, so that none has to run before.
    pub fn starts_servers(&self) -> bool {
        matches!(self, Experiment::Tune(_))
    }

    /// Returns the default number of measured rounds.
    pub fn rounds(&self) -> u32 {
        match self {
            Experiment::Acl(acl::Acl::Check(_)) => acl::check::ROUNDS,
            Experiment::Logon(_) => logon::ROUNDS,
            _ => 5,
        }
    }
}

/// The measurements, and the names of the experiments that failed while others succeeded.
pub type Measured = (Vec<record::Experiment>, Vec<&'static str>);

/// Runs one experiment, or all of them.
pub async fn run(experiment: &Experiment, bench: &Bench) -> Result<Measured> {
    match experiment {
        Experiment::Sessions(asked) => one(sessions::run(bench, &asked.own).await),
        Experiment::Bigfile(asked) => one(bigfile::run(bench, &asked.own).await),
        Experiment::Logon(asked) => one(logon::run(bench, &asked.own).await),
        Experiment::Largefile(asked) => one(largefile::run(bench, &asked.own).await),
        Experiment::Smallfile(asked) => one(smallfile::run(bench, &asked.own).await),
        Experiment::Hotdir(asked) => one(hotdir::run(bench, &asked.own).await),
        Experiment::Miss(asked) => one(miss::run(bench, &asked.own).await),
        Experiment::List(asked) => one(list::run(bench, &asked.own).await),
        Experiment::Netbench(asked) => one(netbench::run(bench, &asked.own).await),
        Experiment::Protocols(asked) => one(protocols::run(bench, &asked.own).await),
        Experiment::Acl(acl::Acl::Check(asked)) => one(acl::check::run(bench, &asked.own).await),
        Experiment::Acl(acl::Acl::Mix(asked)) => one(acl::mix::run(bench, &asked.own).await),
        Experiment::Acl(acl::Acl::Memory(asked)) => one(acl::memory::run(bench, &asked.own).await),
        Experiment::Tune(tune) => one(tune.run(bench).await),
        Experiment::All(asked) => all(bench, &asked.own).await,
    }
}

fn one(measured: Result<record::Experiment>) -> Result<Measured> {
    Ok((vec![measured?], Vec::new()))
}

async fn all(bench: &Bench, asked: &All) -> Result<Measured> {
    if let Some(unknown) = asked.only.iter().find(|name| !NAMES.contains(&name.as_str())) {
        bail!("there is no experiment '{unknown}': use names from {}", NAMES.join(", "));
    }
    let (mut measured, mut failed) = (Vec::new(), Vec::new());
    for name in NAMES.iter().filter(|name| asked.only.is_empty() || asked.only.iter().any(|it| it == *name)) {
        if name.starts_with("tune") {
            bench
                .print(&format!("skipping {name}: it starts the servers itself; run it alone with frevo bench {name}"));
            continue;
        }
        if *name == "netbench" && asked.only.is_empty() && !std::path::Path::new(DEBIAN).exists() {
            bench.print("skipping netbench: it needs the load file of dbench (Debian: apt install dbench)");
            continue;
        }
        let behind = ["acl check", "acl memory"].contains(name);
        if behind && bench.servers.iter().any(|server| server.path.is_none()) {
            bench.print(&format!(
                "skipping {name}: it needs the directories of the shares; add --share-path and --vs-path"
            ));
            continue;
        }
        let outcome = match *name {
            "sessions" => sessions::run(bench, &Default::default()).await,
            "bigfile" => bigfile::run(bench, &Default::default()).await,
            "logon" => logon::run(bench, &Default::default()).await,
            "largefile" => largefile::run(bench, &Default::default()).await,
            "smallfile" => smallfile::run(bench, &Default::default()).await,
            "hotdir" => hotdir::run(bench, &Default::default()).await,
            "miss" => miss::run(bench, &Default::default()).await,
            "list" => list::run(bench, &Default::default()).await,
            "netbench" => netbench::run(bench, &Default::default()).await,
            "protocols" => protocols::run(bench, &Default::default()).await,
            "acl check" => acl::check::run(bench, &Default::default()).await,
            "acl mix" => acl::mix::run(bench, &Default::default()).await,
            "acl memory" => acl::memory::run(bench, &Default::default()).await,
            other => bail!("{other} cannot be run"),
        };
        match outcome {
            Ok(found) => measured.push(found),
            // One failure must not lose hours of results of the others.
            Err(error) => {
                bench.print(&format!("{name} failed: {error:#}"));
                failed.push(*name);
            }
        }
    }
    if measured.is_empty() && !failed.is_empty() {
        bail!("every experiment failed: see the errors above");
    }
    Ok((measured, failed))
}
