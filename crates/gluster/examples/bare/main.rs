//! Measures libgfapi itself with the experiments smallfile and largefile of `frevo-bench`: what a server that adds
//! nothing to the calls of the library could achieve.
//!
//! Each connection is a thread that makes calls for a user, and all threads share one connection to the volume. Files
//! are reached by handles, one component of a path at a time. In smallfile, directories of this machine and SMB servers
//! can take turns with the library.
#![deny(unsafe_code)]

mod files;
#[path = "../../src/sys/mod.rs"]
#[allow(unsafe_code, dead_code, unused_imports, reason = "it wraps more of the library than this program uses")]
mod sys;

use std::cell::RefCell;
use std::io::BufRead;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, ensure};
use bench::cli::{Results, command_line, publish};
use bench::crew::Crew;
use bench::experiments::{largefile, smallfile};
use bench::files::Files;
use bench::files::local::Local;
use bench::files::smb::Smb;
use bench::method::{Bench, Method, Party, Server, Turn, introduce};
use bench::requests::Requests;
use bench::target::Target;
use bench::{directory, ground};
use clap::builder::PossibleValue;
use clap::{Parser, Subcommand, ValueEnum};
use report::machine;
use report::record::{Case, Experiment, FORMAT, Run, ServerRecord};
use server::policy::{GlusterVolume, VolfileServer};
use server::vfs::Identity;
use smallfile::{DIRECTORY, Moment, Phase, Plan, Tree, turn_with};

use crate::files::{Directory, Handles};

/// The port of glusterd.
const PORT: u16 = 24007;
/// The name of the library in tables.
const NAME: &str = "libgfapi";
/// The level of messages in the library's log: errors.
const LOG_LEVEL: u32 = 4;

/// Measure libgfapi itself, with the files of the experiments of frevo-bench
#[derive(Parser)]
#[command(name = "bare")]
struct Cli {
    /// Host of the volume file server
    #[arg(long)]
    server: String,
    /// The volume
    #[arg(long)]
    volume: String,
    /// Directory of the volume in which the user may create files
    #[arg(long, default_value = "/")]
    path: String,
    /// User id and group id of all calls
    #[arg(long, default_value_t = 0)]
    user: u32,
    /// Log file of the library
    #[arg(long, default_value = "/dev/null")]
    log: String,
    /// Measured rounds, besides the warm-up [default: 5, quick 3]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Length of a time-limited round of largefile, in seconds
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Small sizes and short rounds, for a quick look
    #[arg(long)]
    quick: bool,
    /// Print a line for each step of smallfile, and wait for a line of standard input before it
    #[arg(long)]
    steps: bool,
    /// Write all measurements to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(subcommand)]
    work: Work,
}

#[derive(Subcommand)]
enum Work {
    /// Creating, listing, reading, renaming and deleting small files
    Smallfile {
        #[command(flatten)]
        options: smallfile::Options,
        /// An SMB server that takes turns with the library: NAME=smb://user:password@host:port/share
        #[arg(long, value_name = "NAME=URL")]
        smb: Vec<String>,
    },
    /// Sequential and random reading and writing of large files
    Largefile(largefile::Options),
}

fn main() -> ExitCode {
    match measure(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bare: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn measure(cli: &Cli) -> Result<()> {
    let mut json = cli.json.as_deref().map(Results::create).transpose()?;
    let (begin, started) = (Instant::now(), machine::rfc3339_now());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let method = cli.method();
    let (rounds, seed) = (method.rounds, method.seed);
    let (servers, experiment) = runtime.block_on(async {
        match &cli.work {
            Work::Smallfile { options, smb } => cli.measure_small(method, options, smb).await,
            Work::Largefile(options) => cli.measure_large(method, options).await,
        }
    })?;
    let run = Run {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started,
        seconds: begin.elapsed().as_secs_f64(),
        command: command_line(),
        seed,
        method: vec![("rounds".to_owned(), rounds.to_string())],
        machine: machine::describe(),
        servers,
        experiments: vec![experiment],
    };
    publish(&run, json.as_mut())
}

impl Cli {
    fn method(&self) -> Method {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let round = Duration::from_secs_f64(self.seconds);
        Method {
            rounds: self.rounds.unwrap_or(if self.quick { 3 } else { 5 }),
            round,
            warm_up: round / 2,
            rate: None,
            allow_errors: false,
            syscalls: false,
            quick: self.quick,
            seed: now.as_secs(),
        }
    }

    /// Connects to the volume and returns a directory of it.
    fn connect(&self, path: &str) -> Result<Directory> {
        let user = Arc::new(Identity { uid: self.user, gid: self.user, groups: Box::default() });
        let volume = GlusterVolume {
            volume: self.volume.clone(),
            servers: vec![VolfileServer::Tcp { host: self.server.clone(), port: PORT }],
            log_file: Some(self.log.clone().into()),
            log_level: LOG_LEVEL,
            coherence: None,
            threads: 0,
            timeout: Duration::ZERO,
        };
        let client = sys::Client::connect(&volume)
            .map_err(|error| anyhow!("the volume {} cannot be used: {error}", self.volume))?;
        let (mut object, _) = Arc::new(client).root().map_err(|error| anyhow!("the volume has no root ({error})"))?;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let found = sys::act_as(&user).and_then(|()| object.child(name.as_bytes()));
            (object, _) = found.map_err(|error| anyhow!("the volume has no directory {path} ({error})"))?;
        }
        Ok(Directory { object: Arc::new(object), user })
    }

    /// Returns the facts about the volume for the record of a run.
    fn introduce(&self) -> ServerRecord {
        ServerRecord {
            name: NAME.to_owned(),
            target: format!("{}:/{}", self.server, self.volume),
            protocol: "handles of libgfapi".to_owned(),
            ..ServerRecord::default()
        }
    }

    async fn measure_large(
        &self,
        method: Method,
        options: &largefile::Options,
    ) -> Result<(Vec<ServerRecord>, Experiment)> {
        let bench = Bench::new(method, Vec::new(), Vec::new());
        let (parent, name) = (self.connect(&self.path)?, working("largefile"));
        let directory = parent.make(&name)?;
        let made = RefCell::new(Vec::new());
        let create = |number: usize| {
            made.borrow_mut().push(number.to_string());
            directory.make_file(&number.to_string())
        };
        let party = Party { name: NAME, target: Some(&self.volume), processes: None, group: 0 };
        let experiment = largefile::run_on(&bench, options, party, create).await;
        bench.end();
        made.take().iter().try_for_each(|file| directory.remove(file))?;
        parent.remove(&name)?;
        Ok((vec![self.introduce()], experiment?))
    }

    async fn measure_small(
        &self,
        method: Method,
        options: &smallfile::Options,
        smb: &[String],
    ) -> Result<(Vec<ServerRecord>, Experiment)> {
        let plan = Plan::new(&method, options)?;
        let servers: Vec<_> = smb.iter().enumerate().map(|(index, text)| server(index, text)).collect::<Result<_>>()?;
        let bench = Bench::new(method, servers, options.directories().to_vec());
        let mut records = Vec::new();
        for server in &bench.servers {
            records.push(introduce(server).await?);
        }
        records.extend(bench.directories.iter().map(directory::Directory::introduce));
        records.push(self.introduce());
        bench.begin_of(DIRECTORY, plan.phases().len(), records.len());
        let measured = directory::within(&bench.directories, DIRECTORY, async |paths| {
            ground::within(&bench, DIRECTORY, async || self.take_turns(&bench, &plan, paths).await).await
        });
        let cases = measured.await;
        bench.end();
        let names: Vec<_> = bench.names().into_iter().chain([NAME]).collect();
        Ok((records, smallfile::experiment(&names, &plan, cases?)))
    }

    async fn take_turns(&self, bench: &Bench, plan: &Plan, paths: &[PathBuf]) -> Result<Vec<Case>> {
        let shares: Vec<Crew<Tree<Smb>>> = Crew::for_each(bench);
        let directories: Vec<Crew<Tree<Local>>> = paths.iter().map(|_| Crew::default()).collect();
        let library = Crew::default();
        let mut parties = bench.parties();
        parties.push(Party { name: NAME, target: Some(&self.volume), processes: None, group: parties.len() });
        let (count, name) = (bench.servers.len(), working(DIRECTORY));
        let path = format!("{}/{name}", self.path);
        // All workers share a connection, which ends with the last of them.
        let shared = RefCell::new(Weak::new());
        let open = async || {
            if let Some(directory) = shared.borrow().upgrade() {
                return Ok(Handles::new(directory));
            }
            let directory = Arc::new(self.connect(&path)?);
            *shared.borrow_mut() = Arc::downgrade(&directory);
            Ok(Handles::new(directory))
        };
        // This connection ends at once, so that the bricks need not report changes to it.
        self.connect(&self.path)?.make(&name)?;
        let run = async |index: usize, turn: &Turn<'_>| {
            let steps = Steps { asks: self.steps, party: parties[index].name, round: turn.number };
            if let Some(server) = bench.servers.get(index) {
                let open = async || Ok(Smb::new(server.connect().await?, DIRECTORY, Requests::Separate));
                return steps.take(&shares[index], open, plan, turn).await;
            }
            if let Some(path) = paths.get(index - count) {
                return steps.take(&directories[index - count], async || Local::open(path), plan, turn).await;
            }
            steps.take(&library, open, plan, turn).await
        };
        let cases = bench.cases_of(&smallfile::cases(plan), &parties, run).await?;
        self.connect(&self.path)?.remove(&name)?;
        Ok(cases)
    }
}

/// Returns a name for the working directory that no other run uses.
fn working(experiment: &str) -> String {
    format!("{experiment}-{NAME}-{}", std::process::id())
}

/// Returns the server of an option `--smb`.
fn server(index: usize, text: &str) -> Result<Server> {
    let (name, url) = text.split_once('=').with_context(|| format!("'{text}' is not NAME=URL"))?;
    let target: Target = url.parse()?;
    let options = client::Options { credentials: target.credentials()?, ..client::Options::default() };
    Ok(Server { index, name: name.to_owned(), target, options, path: None, conf: None, processes: None })
}

/// The steps of a party's turn, which another program can accompany.
struct Steps<'a> {
    asks: bool,
    party: &'a str,
    round: u32,
}

impl Steps<'_> {
    /// Performs the turn. If another program accompanies it, the connections are renewed at its begin and before the
    /// listing, so that the program can empty the caches.
    async fn take<F: Files>(
        &self,
        crew: &Crew<Tree<F>>,
        open: impl AsyncFn() -> Result<F>,
        plan: &Plan,
        turn: &Turn<'_>,
    ) -> Result<()> {
        let enlist = async || {
            let make = async || Ok(Tree::new(open().await?, plan));
            crew.enlist_with(plan.clients(), make).await
        };
        let renew = async |phase| {
            if self.asks {
                crew.dismiss();
                self.ask("renew", phase)?;
            }
            enlist().await
        };
        renew(Phase::MakeTree).await?;
        let beside = async |moment| match moment {
            Moment::Before(phase) => {
                if phase == Phase::List {
                    renew(phase).await?;
                }
                self.ask("begin", phase)
            }
            Moment::After(phase) => self.ask("end", phase),
        };
        turn_with(crew, plan, turn, beside).await?;
        self.ask("removed", Phase::RemoveTree)
    }

    /// Prints the step and waits for a line.
    fn ask(&self, step: &str, phase: Phase) -> Result<()> {
        if !self.asks {
            return Ok(());
        }
        // The first and the last phase, which are never measured, have no name.
        let phase = phase.to_possible_value();
        let phase = phase.as_ref().map_or("tree", PossibleValue::get_name);
        println!("step {step} {phase} {} {}", self.round, self.party);
        let answered = std::io::stdin().lock().read_line(&mut String::new())?;
        ensure!(answered > 0, "the program that accompanies the steps has ended");
        Ok(())
    }
}
