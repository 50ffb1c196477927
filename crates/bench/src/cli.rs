//! The command line of `frevo-bench`, which `frevo bench` runs.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::{Args, Parser, Subcommand};
use client::{Credentials, Options};
use proto::smb2::negotiate::Dialect;
use report::record::{FORMAT, Run};
use report::{machine, table};

use crate::directory::Directory;
use crate::experiments::{self, Experiment, tune};
use crate::method::{Bench, Method, Server, introduce};
use crate::probe::Processes;
use crate::stop_signals::StopSignals;
use crate::target::Target;

/// Upper bound of the threads that block, one for each connection to a directory. The machine's own limit is lower.
const MOST_THREADS: usize = 65_536;

/// Measure any SMB server and draw the results
#[derive(Parser, Debug)]
#[command(
    name = "frevo-bench",
    version,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    #[command(flatten)]
    Experiment(Box<Experiment>),
    /// Print the names of the experiments
    Names,
    /// Draw one page of plots and tables from files written by --json
    Report {
        /// Files written by --json
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// The output file
        #[arg(short, long, default_value = "report.html")]
        out: PathBuf,
    },
}

/// Options common to all experiments.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// The server: smb://user:password@host:port/share (the password may be in FREVO_BENCH_PASSWORD)
    #[arg(long, value_name = "URL", help_heading = "Servers")]
    target: Option<Target>,
    /// Another server to compare with, in the same run
    #[arg(long, value_name = "URL", help_heading = "Servers")]
    vs: Option<Target>,
    /// Name of the target in tables
    #[arg(long, default_value = "target", help_heading = "Servers")]
    name: String,
    /// Name of the other server in tables
    #[arg(long, default_value = "other", help_heading = "Servers")]
    vs_name: String,
    /// A process of the target, if it runs on this machine [default: the processes that listen on the port]
    #[arg(long, value_name = "PID", help_heading = "Servers")]
    server_pid: Vec<u32>,
    /// A process of the other server
    #[arg(long, value_name = "PID", help_heading = "Servers")]
    vs_pid: Vec<u32>,
    /// The directory of the target's share, if it is on this machine
    #[arg(long, value_name = "DIR", help_heading = "Servers")]
    share_path: Option<PathBuf>,
    /// The directory of the other server's share
    #[arg(long, value_name = "DIR", help_heading = "Servers")]
    vs_path: Option<PathBuf>,
    /// The configuration file of the target, to be stored with the results
    #[arg(long, value_name = "FILE", help_heading = "Servers")]
    conf: Option<PathBuf>,
    /// The configuration file of the other server
    #[arg(long, value_name = "FILE", help_heading = "Servers")]
    vs_conf: Option<PathBuf>,

    /// A further server, or another share of one: NAME=URL,path=DIR,pid=PID,conf=FILE (NAME=URL is required)
    #[arg(long, value_name = "SERVER", help_heading = "Servers")]
    more: Vec<More>,

    /// Offer only this dialect: 2.0.2, 2.1, 3.0, 3.0.2 or 3.1.1
    #[arg(long, value_parser = dialect, help_heading = "Protocol")]
    dialect: Option<Dialect>,
    /// Sign everything, even if the server does not require it
    #[arg(long, help_heading = "Protocol")]
    sign: bool,
    /// Encrypt everything, even if the server does not require it
    #[arg(long, help_heading = "Protocol")]
    encrypt: bool,
    /// Log on with the Kerberos ticket cache of this host
    #[arg(long, help_heading = "Protocol")]
    kerberos: bool,
    /// Time limit for each answer, in seconds
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..), help_heading = "Protocol")]
    timeout: u64,

    /// Small sizes and short rounds, for a quick look
    #[arg(long, help_heading = "Method")]
    quick: bool,
    /// Measured rounds of each case on each server [default: 5, acl check 9, logon 20, quick 3]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Method")]
    rounds: Option<u32>,
    /// Length of a time-limited round, in seconds; logon uses a twentieth of it [default: 5, quick 1]
    #[arg(long, help_heading = "Method")]
    seconds: Option<f64>,
    /// Operations per second, whether or not the server keeps up (an open loop) [default: as fast as answers arrive]
    #[arg(long, help_heading = "Method")]
    rate: Option<f64>,
    /// Count failures instead of stopping at the first one
    #[arg(long, help_heading = "Method")]
    allow_errors: bool,
    /// Also count the server's system calls, in a separate round (needs strace)
    #[arg(long, help_heading = "Method")]
    syscalls: bool,
    /// Repeat the random choices of another run [default: the current time]
    #[arg(long, help_heading = "Method")]
    seed: Option<u64>,
    /// Threads that generate the load; a connection to a directory has its own [default: half of the cores]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..), help_heading = "Method")]
    threads: Option<u16>,

    /// Write all measurements to this file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    json: Option<PathBuf>,
}

/// The value of `--more`.
#[derive(Clone, PartialEq, Debug)]
struct More {
    name: String,
    target: Target,
    path: Option<PathBuf>,
    pids: Vec<u32>,
    conf: Option<PathBuf>,
}

impl FromStr for More {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<More> {
        const FORM: &str = "write NAME=URL,path=DIR,pid=PID,conf=FILE";
        let mut words = text.split(',');
        let first = words.next().unwrap_or_default();
        let (name, url) = first.split_once('=').with_context(|| format!("'{first}' is not NAME=URL: {FORM}"))?;
        ensure!(!name.is_empty(), "'{first}' has no name: {FORM}");
        let mut more = More { name: name.to_owned(), target: url.parse()?, path: None, pids: Vec::new(), conf: None };
        for word in words {
            match word.split_once('=') {
                Some(("path", value)) => more.path = Some(value.into()),
                Some(("pid", value)) => more.pids.push(value.parse().with_context(|| format!("bad pid '{value}'"))?),
                Some(("conf", value)) => more.conf = Some(value.into()),
                _ => bail!("'{word}' in '{text}' is not a known field: {FORM}"),
            }
        }
        Ok(more)
    }
}

fn dialect(text: &str) -> Result<Dialect, String> {
    let known = [
        ("2.0.2", Dialect::SMB_2_0_2),
        ("2.1", Dialect::SMB_2_1),
        ("3.0", Dialect::SMB_3_0),
        ("3.0.2", Dialect::SMB_3_0_2),
        ("3.1.1", Dialect::SMB_3_1_1),
    ];
    let found = known.iter().find(|(name, _)| *name == text).map(|(_, dialect)| *dialect);
    found.ok_or_else(|| "use one of 2.0.2, 2.1, 3.0, 3.0.2, 3.1.1".to_owned())
}

/// Runs the command of `cli`. An error is printed to standard error and results in exit status 1.
pub fn run(cli: Cli) -> ExitCode {
    match run_command(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("frevo-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run_command(command: Command) -> Result<()> {
    match command {
        Command::Names => experiments::NAMES.iter().for_each(|name| println!("{name}")),
        Command::Report { files, out } => {
            report::write(&files, &out)?;
            println!("{}", out.display());
        }
        Command::Experiment(experiment) => measure(&experiment)?,
    }
    Ok(())
}

fn measure(experiment: &Experiment) -> Result<()> {
    let common = experiment.common();
    let method = common.method(experiment.rounds())?;
    // A file that cannot be written is reported now, not after an hour.
    let mut json = common.json.as_ref().map(|path| Results::create(path)).transpose()?;
    raise_descriptor_limit();
    let threads = common.threads.map_or_else(|| (machine::describe().cores as usize / 2).max(1), usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .max_blocking_threads(MOST_THREADS)
        .enable_all()
        .build()?;
    let directories = experiment.directories();
    let servers = common.servers(experiment.starts_servers(), directories)?;
    directories.iter().try_for_each(Directory::check)?;
    let bench = Bench::new(method, servers, directories.to_vec());
    let (run, failed) = runtime.block_on(async {
        // Before the experiment creates anything, so that a signal at any time has it removed.
        let mut stop = StopSignals::new()?;
        // Dropping an experiment stops the servers that it started.
        tokio::select! {
            run = conduct(experiment, &bench, threads) => run,
            () = stop.received() => Err(anyhow!("interrupted")),
        }
    })?;
    publish(&run, json.as_mut())?;
    ensure!(
        failed.is_empty(),
        "some experiments failed and are left out of the results; see the errors above: {}",
        failed.join(", ")
    );
    Ok(())
}

/// Prints the results of a run and writes them to the output file.
pub fn publish(run: &Run, json: Option<&mut Results<'_>>) -> Result<()> {
    // The output is printed first, so that it is not lost if the disk is full by now.
    show(run)?;
    json.map_or(Ok(()), |results| results.keep(run))
}

/// The output file of `--json`. An existing file keeps its content until the new content is complete.
pub struct Results<'a> {
    path: &'a Path,
    file: File,
    /// The temporary file that is written and the final path that it is renamed to. `None` for a device or a pipe.
    moves: Option<(PathBuf, PathBuf)>,
}

impl<'a> Results<'a> {
    /// Prepares to write the file.
    pub fn create(path: &'a Path) -> Result<Results<'a>> {
        // A symbolic link stays a symbolic link.
        let place = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let mut part = place.clone().into_os_string();
        part.push(".part");
        let special = std::fs::metadata(&place).is_ok_and(|it| !it.is_file());
        let moves = (!special).then(|| (PathBuf::from(part), place));
        let file = File::create(moves.as_ref().map_or(path, |(part, _)| part));
        Ok(Results { path, file: file.with_context(|| format!("cannot write {}", path.display()))?, moves })
    }

    fn keep(&mut self, run: &Run) -> Result<()> {
        let named = || format!("cannot write {}", self.path.display());
        serde_json::to_writer_pretty(&mut self.file, run).with_context(named)?;
        self.file.write_all(b"\n").with_context(named)?;
        match self.moves.take() {
            Some((part, place)) => std::fs::rename(part, place).with_context(named),
            None => Ok(()),
        }
    }
}

impl Drop for Results<'_> {
    fn drop(&mut self) {
        if let Some((part, _)) = &self.moves {
            let _ = std::fs::remove_file(part);
        }
    }
}

/// Measures, from the first connection to the complete record.
async fn conduct(experiment: &Experiment, bench: &Bench, threads: usize) -> Result<(Run, Vec<&'static str>)> {
    let common = experiment.common();
    let (begin, started) = (Instant::now(), machine::rfc3339_now());
    let mut servers = match experiment {
        Experiment::Tune(tune) => tune.introduce(bench).await?,
        _ => Vec::new(),
    };
    for server in &bench.servers[servers.len()..] {
        servers.push(introduce(server).await?);
    }
    for (record, server) in servers.iter_mut().zip(&bench.servers) {
        record.configuration = common.configuration(server)?;
    }
    servers.extend(bench.directories.iter().map(Directory::introduce));
    let (experiments, failed) = experiments::run(experiment, bench).await?;
    bench.end();
    let run = Run {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started,
        seconds: begin.elapsed().as_secs_f64(),
        command: command_line(),
        seed: bench.method.seed,
        method: common.describe(&bench.method, threads),
        machine: machine::describe(),
        servers,
        experiments,
    };
    Ok((run, failed))
}

/// Prints the tables and remarks to standard output.
fn show(run: &Run) -> Result<()> {
    let width = if std::io::stdout().is_terminal() { terminal_width() } else { 160 };
    let mut text = String::new();
    for experiment in &run.experiments {
        text += &format!("\n{}: {}\n", experiment.name, experiment.title);
        for shown in &experiment.tables {
            text += &format!("\n{}\n", table::text(shown, width));
        }
        for remark in &experiment.remarks {
            text += &format!("{remark}\n");
        }
    }
    text += &format!("\nseed {}, {:.0} s\n", run.seed, run.seconds);
    match std::io::stdout().write_all(text.as_bytes()) {
        // The reader, such as `head`, may have closed the pipe on purpose.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

fn terminal_width() -> usize {
    rustix::termios::tcgetwinsize(std::io::stdout()).map_or(120, |size| usize::from(size.ws_col).max(40))
}

/// Raises the limit of open descriptors, because thousands of sessions need thousands of descriptors.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // A failure is ignored here: it becomes visible when a connection cannot be opened.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// Returns the command line without passwords.
pub fn command_line() -> Vec<String> {
    std::env::args().map(|word| without_password(&word)).collect()
}

fn without_password(word: &str) -> String {
    let Some((before, address)) = word.find("smb://").map(|start| word.split_at(start)) else { return word.to_owned() };
    // In `--more`, a comma ends the address.
    let (more, after) = address.split_at(address.find(',').unwrap_or(address.len()));
    match (address.parse::<Target>(), more.parse::<Target>()) {
        (Ok(target), _) => format!("{before}{target}"),
        (Err(_), Ok(target)) => format!("{before}{target}{after}"),
        _ => word.to_owned(),
    }
}

impl Common {
    fn method(&self, rounds: u32) -> Result<Method> {
        let seconds = self.seconds.unwrap_or(if self.quick { 1.0 } else { 5.0 });
        ensure!((0.01..=86_400.0).contains(&seconds), "--seconds {seconds} is not between 0.01 and 86400");
        if let Some(rate) = self.rate {
            ensure!(rate > 0.0 && rate <= 1e7, "--rate {rate} is not between 0 and 10000000 operations per second");
        }
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Ok(Method {
            rounds: self.rounds.unwrap_or(if self.quick { 3 } else { rounds }),
            round: Duration::from_secs_f64(seconds),
            warm_up: Duration::from_secs_f64(seconds / 2.0),
            rate: self.rate,
            allow_errors: self.allow_errors,
            syscalls: self.syscalls,
            quick: self.quick,
            seed: self.seed.unwrap_or(now.as_secs()),
        })
    }

    fn describe(&self, method: &Method, threads: usize) -> Vec<(String, String)> {
        let pair = |name: &str, value: String| (name.to_owned(), value);
        vec![
            pair("rounds", method.rounds.to_string()),
            pair("round, seconds", method.round.as_secs_f64().to_string()),
            pair("loop", method.rate.map_or("closed".to_owned(), |rate| format!("open, {rate} operations/s"))),
            pair("sizes", if method.quick { "small (--quick)" } else { "full" }.to_owned()),
            pair("errors", if method.allow_errors { "counted" } else { "fatal" }.to_owned()),
            pair("client threads", threads.to_string()),
        ]
    }

    /// Returns the servers under test. With `starts`, the experiment starts them later: they need not run now, and they
    /// need not be given as a URL if a configuration file specifies what they serve. With `directories`, there may be
    /// no server.
    fn servers(&self, starts: bool, directories: &[Directory]) -> Result<Vec<Server>> {
        let named = |target: &Option<Target>, conf: &Option<PathBuf>| match (target, conf) {
            (None, Some(conf)) if starts => tune::target_of(conf).map(Some),
            _ => Ok(target.clone()),
        };
        let target = named(&self.target, &self.conf)?;
        if target.is_none() && !directories.is_empty() && !self.names_a_server() {
            distinct(directories.iter().map(|directory| &directory.name))?;
            return Ok(Vec::new());
        }
        let target = target.context(
            "no server given: add --target smb://user:password@host:port/share (largefile and smallfile can measure \
             --directory PATH alone)",
        )?;
        let pids = |pids| if starts { None } else { Some(pids) };
        let mut servers =
            vec![self.server(&self.name, &target, pids(&self.server_pid), self.share_path.as_ref(), &self.conf)?];
        if let Some(vs) = &named(&self.vs, &self.vs_conf)? {
            servers.push(self.server(&self.vs_name, vs, pids(&self.vs_pid), self.vs_path.as_ref(), &self.vs_conf)?);
        } else if !self.vs_pid.is_empty() || self.vs_path.is_some() || self.vs_conf.is_some() {
            bail!("--vs-pid, --vs-path and --vs-conf need a second server: add --vs");
        }
        ensure!(
            self.more.is_empty() || !starts,
            "--more is for servers that already run, but this experiment starts its servers itself: remove --more"
        );
        for More { name, target, path, pids, conf } in &self.more {
            servers.push(self.server(name, target, Some(pids), path.as_ref(), conf)?);
        }
        for (index, server) in servers.iter_mut().enumerate() {
            server.index = index;
        }
        let names = servers.iter().map(|server| &server.name);
        distinct(names.chain(directories.iter().map(|directory| &directory.name)))?;
        Ok(servers)
    }

    /// Returns whether an option describes a server other than by `--target`.
    fn names_a_server(&self) -> bool {
        let own = !self.server_pid.is_empty() || self.share_path.is_some() || self.conf.is_some();
        let other = self.vs.is_some() || !self.vs_pid.is_empty() || self.vs_path.is_some() || self.vs_conf.is_some();
        own || other || !self.more.is_empty()
    }

    fn server(
        &self,
        name: &str,
        target: &Target,
        pids: Option<&Vec<u32>>,
        path: Option<&PathBuf>,
        conf: &Option<PathBuf>,
    ) -> Result<Server> {
        let credentials = if self.kerberos { Credentials::Kerberos } else { target.credentials()? };
        let mut options = Options {
            credentials,
            sign: self.sign,
            seal: self.encrypt,
            timeout: Duration::from_secs(self.timeout),
            ..Options::default()
        };
        if let Some(dialect) = self.dialect {
            options.dialects = vec![dialect];
        }
        if let Some(path) = path {
            ensure!(path.is_dir(), "{} is not a directory on this machine", path.display());
        }
        Ok(Server {
            index: 0,
            name: name.to_owned(),
            target: target.clone(),
            options,
            path: path.cloned(),
            conf: conf.clone(),
            processes: pids.map(|pids| processes(target, pids)).transpose()?.flatten(),
        })
    }

    fn configuration(&self, server: &Server) -> Result<Option<String>> {
        let path = &server.conf;
        let read =
            |path: &PathBuf| std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
        path.as_ref().map(read).transpose()
    }
}

/// Fails if two servers or directories have the same name.
fn distinct<'a>(names: impl Iterator<Item = &'a String>) -> Result<()> {
    let mut known = BTreeSet::new();
    for name in names {
        ensure!(
            known.insert(name),
            "two servers or directories are called '{name}': give each a different name, with --name, --vs-name, \
             --more NAME=URL or --directory NAME=PATH"
        );
    }
    Ok(())
}

/// Returns the named processes, or those that listen on the port if the host is this machine. Processes that were not
/// named are optional: if they cannot be read, the run continues without them.
fn processes(target: &Target, pids: &[u32]) -> Result<Option<Processes>> {
    let readable = |processes: Processes| processes.read().map(|_| processes);
    if !pids.is_empty() {
        return Processes::of_pids(pids).and_then(readable).map(Some);
    }
    if !["localhost", "127.0.0.1", "::1"].contains(&target.host.as_str()) {
        return Ok(None);
    }
    match Processes::listening_on(target.port).and_then(|found| found.map(readable).transpose()) {
        Ok(found) => Ok(found),
        Err(error) => {
            eprintln!("{target}: the resource use of its processes is not measured: {error:#}");
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use report::record::Machine;

    use super::*;

    #[test]
    fn the_command_line_definition_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn passwords_are_removed_from_arguments() {
        assert_eq!(without_password("--target=smb://a:secret@h/s"), "--target=smb://a@h:445/s");
        assert_eq!(without_password("smb://a:secret@h:4450/s"), "smb://a@h:4450/s");
        assert_eq!(without_password("--quick"), "--quick");
        assert_eq!(without_password("--more=x=smb://a:b@h/s,path=/p"), "--more=x=smb://a@h:445/s,path=/p");
    }

    #[test]
    fn results_are_replaced_only_by_new_ones() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.json");
        std::fs::write(&path, "of before").unwrap();
        drop(Results::create(&path).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "of before", "after a run that failed");
        let run = Run {
            format: FORMAT,
            version: String::new(),
            started: "2031-02-03T04:05:06Z".to_owned(),
            seconds: 1.0,
            command: Vec::new(),
            seed: 1,
            method: Vec::new(),
            machine: Machine::default(),
            servers: Vec::new(),
            experiments: Vec::new(),
        };
        Results::create(&path).unwrap().keep(&run).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().contains(&run.started));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        assert!(Results::create(&directory.path().join("no/run.json")).is_err());
    }

    #[test]
    fn further_servers_are_parsed() {
        let check = |text: &str| text.parse::<More>().map_err(|error| error.to_string());
        let more = check("frevo/c/#1=smb://a:b@h:4450/s,path=/x/y,pid=7,pid=8,conf=/c").unwrap();
        assert_eq!((more.name.as_str(), more.pids.as_slice()), ("frevo/c/#1", &[7, 8][..]));
        assert_eq!((more.path, more.conf), (Some("/x/y".into()), Some("/c".into())));
        assert_eq!(check("x=smb://a@h/s").unwrap().path, None);
        for (text, expected) in [
            ("smb://a@h/s", "not NAME=URL"),
            ("=smb://a@h/s", "has no name"),
            ("x=smb://h/s", "has no user"),
            ("x=smb://a@h/s,pid=y", "bad pid 'y'"),
            ("x=smb://a@h/s,speed=1", "'speed=1' in"),
        ] {
            let said = check(text).unwrap_err();
            assert!(said.contains(expected), "{text}: {said}");
        }
    }

    #[test]
    fn dialects_are_parsed() {
        assert_eq!(dialect("3.1.1"), Ok(Dialect::SMB_3_1_1));
        assert!(dialect("3.1").is_err());
    }
}
