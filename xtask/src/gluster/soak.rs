//! `cargo xtask gluster soak`: clients use a share in a volume for a long time. Nothing may be left of their work:
//! memory, descriptors of Frevo and of the bricks, or lines in a log.
//!
//! libgfapi leaks a descriptor of a brick with each `glfs_open` of a directory. Such a descriptor is one of a directory
//! that is open when all clients have gone.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench::listing;
use bench::requests::Requests;
use client::{Client, Open};
use proto::dtyp::{AccessMask, Sid};
use proto::status::Status;
use test_environment::{ALICE, CREW, Counts, Crowd, Server, Target, TestEnvironment, interrupt};
use tokio::task::JoinSet;

use super::servers::{ServersOfRun, brick_processes, finish};
use super::{BrickFileSystem, Volume, Wanted, smb};

/// The share, and the directory of the volume that it shows.
const SHARE: &str = "soak";
/// The configuration of the server. @VOLUME@ is the volume. The cache of descriptors is small, so that it is full after
/// the warm-up.
const TEMPLATE: &str = "[global]
@TARGET@
\tread only = no
\tstore dos attributes = yes
\tkernel share modes = no
\tfrevo:acl cache = 1M
\tvfs objects = acl_xattr streams_xattr glusterfs
\tglusterfs:volume = @VOLUME@
\tglusterfs:volfile_server = 127.0.0.1
\tglusterfs:logfile = @DIR@/gfapi.log
\tglusterfs:loglevel = 4
[soak]
\tpath = /soak
";
/// The most that the memory may grow after the warm-up, and the length of the warm-up, at most a third of the run.
const GROWTH: f64 = 0.05;
const WARM_UP: Duration = Duration::from_secs(300);
/// The most that the logs may grow in one round, in bytes. A tenth of a round connects a client, which is a line. A
/// line for each file would be 4,000 bytes and more.
const LOGGED: u64 = 400;
/// Time between two samples, at most a sixth of the run.
const INTERVAL: Duration = Duration::from_secs(60);
/// The files of a client in one round, and their sizes.
const FILES: usize = 20;
const SIZES: [usize; 5] = [0, 700, 4096, 65_536, 300_000];
/// A client connects anew after this many rounds.
const ROUNDS: u64 = 10;
/// The size of the buffer of a listing, in bytes.
const BUFFER: u32 = 64 << 10;
/// The most that is written with one request.
const PIECE: usize = 64 << 10;
const READ: AccessMask = AccessMask::FILE_GENERIC_READ;
/// Time between two samples of descriptors without clients.
const REST: Duration = Duration::from_secs(3);
/// Time limit for all descriptors to be closed after the clients have gone.
const PATIENCE: Duration = Duration::from_secs(60);

/// Options of `cargo xtask gluster soak`.
#[derive(Clone, clap::Args)]
pub(crate) struct Options {
    /// Length of the run, in minutes
    #[arg(long, default_value_t = 30.0)]
    minutes: f64,
    /// Number of clients
    #[arg(long, default_value_t = 10)]
    clients: usize,
    /// Volume that is served
    #[arg(long, default_value = "dist-samba")]
    volume: Volume,
}

/// Starts GlusterFS servers and serves clients.
pub(super) fn run(options: &Options) -> Result<Counts> {
    let Options { minutes, clients, volume } = options;
    ensure!(*minutes > 0.0 && *clients > 0, "--minutes and --clients must be more than 0");
    let servers = ServersOfRun::start(&Wanted { volumes: vec![*volume], bricks_fs: BrickFileSystem::Xfs })?;
    let arguments = ["--minutes", &minutes.to_string(), "--clients", &clients.to_string(), "--volume", volume.name];
    let mut command = servers.command(super::own_program()?);
    command.args(["gluster", "--dir"]).arg(servers.dir()).arg("soak-inside").args(arguments);
    Ok(match finish(&mut command)? {
        status if status.success() => Counts::passed(1),
        status => Counts::failed(format!("{clients} clients for {minutes} minutes on {}: {status}", volume.name))
            .repeated_by(&format!("cargo xtask gluster soak {}", arguments.join(" "))),
    })
}

/// Serves clients and samples what is held. `dir` is the directory of the GlusterFS servers.
pub(super) fn inside(dir: &Path, options: &Options) -> Result<()> {
    let volume = options.volume.name;
    let shared = dir.join("mnt").join(volume).join(SHARE);
    fs::create_dir(&shared).with_context(|| format!("cannot create {}", shared.display()))?;
    std::os::unix::fs::chown(&shared, Some(ALICE.id), Some(ALICE.id))?;
    let environment = TestEnvironment::make_in(dir, Target::Frevo, Crowd(0))?;
    let server = Arc::new(environment.start("server", &TEMPLATE.replace("@VOLUME@", volume))?);
    let logs = vec![dir.join("log"), environment.dir().join("gfapi.log"), environment.dir().join("server/log")];
    let watch = Watch { bricks: brick_processes(dir, volume)?, bricks_in: dir.join("bricks"), server, logs };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(watch.run(options))
}

/// What is held at a moment.
#[derive(Clone, Debug)]
struct Sample {
    /// Resident memory of Frevo, in KiB.
    memory: u64,
    threads: u64,
    descriptors: usize,
    /// Descriptors of each brick.
    bricks: Vec<usize>,
    /// The size of all logs, in bytes.
    logs: u64,
}

impl Sample {
    const HEAD: &str = "  minute    rounds  memory MiB  threads  descriptors  of the bricks  logs KiB";

    fn line(&self, at: Duration, rounds: u64) -> String {
        let Sample { memory, threads, descriptors, bricks, logs } = self;
        let (minute, memory) = (at.as_secs_f64() / 60.0, *memory as f64 / 1024.0);
        let bricks = bricks.iter().map(usize::to_string).collect::<Vec<_>>().join("/");
        format!(
            "{minute:>8.1}  {rounds:>8}  {memory:>10.1}  {threads:>7}  {descriptors:>11}  {bricks:>13}  {:>8}",
            logs >> 10
        )
    }

    /// Returns the descriptors that are left since `before`.
    fn left_since(&self, before: &Sample) -> Vec<String> {
        let pairs = self.bricks.iter().zip(&before.bricks).enumerate();
        let bricks = pairs.map(|(brick, (now, then))| (format!("brick {}", brick + 1), *now, *then));
        let all = std::iter::once(("Frevo".to_owned(), self.descriptors, before.descriptors)).chain(bricks);
        let more = all.filter(|(_, now, then)| now > then);
        more.map(|(name, now, then)| format!("{name} has {now} descriptors, and had {then} before the run")).collect()
    }
}

/// Returns what is wrong if the memory has grown from one sample to another by more than the limit.
fn grown(early: &Sample, late: &Sample) -> Option<String> {
    let growth = late.memory as f64 / early.memory as f64 - 1.0;
    (growth > GROWTH).then(|| format!("the memory has grown by {:.1} % after the warm-up", growth * 100.0))
}

/// Returns what is wrong if the logs have grown by more than the limit in that many rounds.
fn logged(before: &Sample, after: &Sample, rounds: u64) -> Option<String> {
    let bytes = after.logs.saturating_sub(before.logs) / rounds.max(1);
    (bytes > LOGGED).then(|| format!("the logs have grown by {bytes} bytes in each round"))
}

/// The processes that are observed.
struct Watch {
    server: Arc<Server>,
    /// The processes of the bricks.
    bricks: Vec<u32>,
    /// The directory of the bricks.
    bricks_in: PathBuf,
    logs: Vec<PathBuf>,
}

impl Watch {
    async fn run(&self, options: &Options) -> Result<()> {
        let length = Duration::from_secs_f64(options.minutes * 60.0);
        let (warm_up, interval) = (WARM_UP.min(length / 3), INTERVAL.min(length / 6));
        // The level to return to: the volume is open, and every kind of work was done.
        self.crew(options.clients, Instant::now()).join_all().await?;
        let before = self.rested(None).await?;
        println!("{}\n{}  before", Sample::HEAD, before.line(Duration::ZERO, 0));
        let begin = Instant::now();
        let crew = self.crew(options.clients, begin + length);
        let mut samples: Vec<(Duration, Sample)> = Vec::new();
        while begin.elapsed() + interval <= length + interval / 2 {
            tokio::time::sleep(interval).await;
            interrupt::check()?;
            let (at, sample) = (begin.elapsed(), self.sample()?);
            println!("{}", sample.line(at, crew.rounds()));
            samples.push((at, sample));
        }
        let rounds = crew.join_all().await?;
        let after = self.rested(Some(&before)).await?;
        println!("{}  after", after.line(begin.elapsed(), rounds));
        let mut wrong = after.left_since(&before);
        let early = samples.iter().find(|(at, _)| *at >= warm_up).map(|(_, sample)| sample);
        let (early, late) = early.zip(samples.last()).context("the run is too short for a sample after the warm-up")?;
        wrong.extend(grown(early, &late.1));
        wrong.extend(logged(&before, &after, rounds));
        for directory in self.open_directories()? {
            wrong.push(format!("a brick has the directory {directory} open, although no client is connected"));
        }
        ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        Ok(())
    }

    fn crew(&self, clients: usize, until: Instant) -> Crew {
        let rounds = Arc::new(AtomicU64::new(0));
        let mut tasks = JoinSet::new();
        for number in 0..clients {
            tasks.spawn(work(Arc::clone(&self.server), number, until, Arc::clone(&rounds)));
        }
        Crew { tasks, rounds }
    }

    fn sample(&self) -> Result<Sample> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.server.pid())).context("Frevo has ended")?;
        let number = |name: &str| -> Result<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
            number.with_context(|| format!("/proc/PID/status has no number after {name}"))
        };
        Ok(Sample {
            memory: number("VmRSS:")?,
            threads: number("Threads:")?,
            descriptors: descriptors(self.server.pid())?.len(),
            bricks: self.bricks.iter().map(|pid| Ok(descriptors(*pid)?.len())).collect::<Result<_>>()?,
            logs: self.logs.iter().map(|path| size(path)).sum(),
        })
    }

    /// Returns a sample without clients: as soon as there are no more descriptors than in `before`, or as soon as their
    /// number does not change any more.
    async fn rested(&self, before: Option<&Sample>) -> Result<Sample> {
        let deadline = Instant::now() + PATIENCE;
        let mut last: Option<Sample> = None;
        loop {
            interrupt::check()?;
            let now = self.sample()?;
            let is_enough = match (before, &last) {
                (Some(before), _) => now.left_since(before).is_empty(),
                (None, Some(last)) => (now.descriptors, &now.bricks) == (last.descriptors, &last.bricks),
                (None, None) => false,
            };
            if is_enough || Instant::now() > deadline {
                return Ok(now);
            }
            last = Some(now);
            tokio::time::sleep(REST).await;
        }
    }

    /// Returns the directories of the volume that a brick has open. Bricks themselves have some of their own open.
    fn open_directories(&self) -> Result<Vec<String>> {
        let mut open = Vec::new();
        for brick in &self.bricks {
            let is_shared = |path: &PathBuf| {
                let inner = path.strip_prefix(&self.bricks_in).ok();
                inner.is_some_and(|path| path.components().nth(1).is_some_and(|name| name.as_os_str() == SHARE))
            };
            let found = descriptors(*brick)?.into_iter().filter(|path| is_shared(path) && path.is_dir());
            open.extend(found.map(|path| path.display().to_string()));
        }
        Ok(open)
    }
}

/// The clients at work.
struct Crew {
    tasks: JoinSet<Result<()>>,
    rounds: Arc<AtomicU64>,
}

impl Crew {
    fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Relaxed)
    }

    /// Waits for the end of all clients, and returns the number of their rounds.
    async fn join_all(mut self) -> Result<u64> {
        while let Some(ended) = self.tasks.join_next().await {
            ended??;
        }
        Ok(self.rounds())
    }
}

/// Returns the files that a process has open.
fn descriptors(pid: u32) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).with_context(|| format!("the process {pid} has ended"))?;
    // A descriptor may be closed meanwhile.
    Ok(entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok()).collect())
}

/// Returns the size of a file, or of the files in a directory.
fn size(path: &Path) -> u64 {
    match fs::read_dir(path) {
        Ok(entries) => entries.flatten().map(|entry| size(&entry.path())).sum(),
        Err(_) => fs::metadata(path).map_or(0, |found| found.len()),
    }
}

/// Uses the share until a moment, and for one round at least.
async fn work(server: Arc<Server>, number: usize, until: Instant, rounds: Arc<AtomicU64>) -> Result<()> {
    let mut round = 0;
    loop {
        let mut client = smb::connect(&server, SHARE).await?;
        for _ in 0..ROUNDS {
            let directory = format!("client-{number}-{round}");
            one_round(&mut client, &directory).await.with_context(|| format!("in {directory}"))?;
            round += 1;
            rounds.fetch_add(1, Ordering::Relaxed);
            if Instant::now() >= until {
                return Ok(client.log_off().await?);
            }
        }
        client.log_off().await?;
    }
}

/// Creates, changes and removes a directory with files.
async fn one_round(client: &mut Client, directory: &str) -> Result<()> {
    let requests = Requests::Separate;
    client.make_directory(directory).await?;
    let rules = [(Sid::unix_user(ALICE.id), AccessMask::FILE_ALL_ACCESS), (Sid::unix_group(CREW.1), READ)];
    smb::set_rules(client, directory, rules.to_vec()).await?;
    let path = |number: usize| format!(r"{directory}\file-{number}");
    let content = |number: usize| vec![number as u8; SIZES[number % SIZES.len()]];
    for number in 0..FILES {
        let (path, content) = (path(number), content(number));
        let file = client.open(&Open::file(&path)).await?;
        for (index, piece) in content.chunks(PIECE).enumerate() {
            client.write(file, (index * PIECE) as u64, piece).await?;
        }
        client.close(file).await?;
        requests.make(client, &format!("{path}:stream"), path.as_bytes()).await?;
    }
    let mut listed = 0;
    listing::list(client, directory, BUFFER, |_| {
        listed += 1;
        Ok(())
    })
    .await?;
    ensure!(listed == FILES, "the listing has {listed} files, not {FILES}");
    for number in 0..FILES {
        let (path, content, renamed) = (path(number), content(number), format!(r"{directory}\renamed-{number}"));
        ensure!(requests.size(client, &path).await? == content.len() as u64, "{path} has another size");
        let first = &content[..content.len().min(PIECE)];
        let mut is_same = false;
        requests.read(client, &path, PIECE as u32, |read| is_same = read == first).await?;
        ensure!(is_same, "{path} has another content");
        let missing = client.open(&Open::existing(&renamed)).await.err().and_then(|error| error.status());
        ensure!(missing == Some(Status::OBJECT_NAME_NOT_FOUND), "{renamed} is expected to be missing: {missing:?}");
        requests.rename(client, &path, &renamed).await?;
        requests.delete(client, &renamed).await?;
    }
    requests.delete(client, directory).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(memory: u64, descriptors: usize, bricks: [usize; 3]) -> Sample {
        Sample { memory, threads: 1, descriptors, bricks: bricks.to_vec(), logs: 0 }
    }

    #[test]
    fn descriptors_that_are_left_are_named() {
        let before = sample(1, 10, [5, 5, 5]);
        assert!(sample(9, 10, [5, 4, 5]).left_since(&before).is_empty());
        let expected = [
            "Frevo has 11 descriptors, and had 10 before the run",
            "brick 3 has 7 descriptors, and had 5 before the run",
        ];
        assert_eq!(sample(1, 11, [5, 5, 7]).left_since(&before), expected);
    }

    #[test]
    fn logs_may_have_a_line_for_a_connection() {
        let logged = |early, late| {
            let [early, late] = [early, late].map(|logs| Sample { logs, ..sample(0, 0, [0; 3]) });
            logged(&early, &late, 100)
        };
        assert_eq!(logged(5000, 40_000), None);
        assert_eq!(logged(5000, 400_000).as_deref(), Some("the logs have grown by 3950 bytes in each round"));
    }

    #[test]
    fn memory_may_grow_a_little() {
        let grown = |early, late| grown(&sample(early, 0, [0; 3]), &sample(late, 0, [0; 3]));
        assert_eq!(grown(1000, 1049), None);
        assert_eq!(grown(1000, 1080).as_deref(), Some("the memory has grown by 8.0 % after the warm-up"));
    }
}
