//! `cargo xtask gluster isolation`: how much a client notices if a brick does not answer, or if another client lists a
//! large directory. One client reads files of the volume that are on other bricks, and one those of a local share of
//! the same server. Beside them, two threads send each other a byte as often as these clients have a request answered:
//! what delays them is not the server but the machine.
//!
//! The figures depend on the machine, so this is a measurement and not a test. It fails only if a request of these two
//! clients fails.

use std::fmt;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bench::listing;
use bench::requests::Requests;
use client::Client;
use proto::fscc::DirectoryEntry;
use rustix::fs::{XattrFlags, setxattr};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use test_environment::{ALICE, BOB, Crowd, Person, Server, Target, TestEnvironment, interrupt};
use tokio::runtime::Runtime;

use super::servers::{ServersOfRun, brick_processes, finish};
use super::{BrickFileSystem, Volume, Wanted, smb};

/// The directory of the volume, and the shares.
const PLACE: &str = "isolation";
const SHARE: &str = "volume";
const LOCAL: &str = "local";
/// What the figures of the threads without the server are called in place of a share.
const CONTROL: &str = "(none)";
/// The requests of an operation: to open, read and close a file.
const REQUESTS: usize = 3;
/// The configuration of the server. @VOLUME@ is the volume.
const TEMPLATE: &str = "[global]
@TARGET@
\tread only = no
\tkernel share modes = no
[volume]
\tpath = /isolation
\tvfs objects = acl_xattr streams_xattr glusterfs
\tglusterfs:volume = @VOLUME@
\tglusterfs:volfile_server = 127.0.0.1
\tglusterfs:logfile = @DIR@/gfapi.log
\tglusterfs:loglevel = 4
[local]
\tpath = @DIR@/local
\tvfs objects = acl_xattr streams_xattr
";
/// The directories of the files that are read, and of the names that are listed.
const FILES: &str = "files";
const NAMES: &str = "names";
/// The number of files that are read, and their size.
const COUNT: usize = 60;
const SIZE: usize = 16 << 10;
/// Time between two operations of a measured client.
const PACE: Duration = Duration::from_millis(5);
/// The clients that wait for the brick that does not answer.
const WAITING: usize = 4;
/// The size of the buffer of a listing, in bytes.
const BUFFER: u32 = 64 << 10;
/// Time in which the volume recovers from a brick that did not answer.
const RECOVERY: Duration = Duration::from_secs(8);
/// What is asked for: the median in comparison with the undisturbed one, and the worst latency in milliseconds.
const TIMES: f64 = 2.0;
const WORST: [(&str, f64); 2] = [(SHARE, 200.0), (LOCAL, 20.0)];

/// Options of `cargo xtask gluster isolation`.
#[derive(Clone, clap::Args)]
pub(crate) struct Options {
    /// Length of each situation, in seconds
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Number of names in the directory that is listed
    #[arg(long, default_value_t = 200_000)]
    names: u32,
    /// Volume that is served
    #[arg(long, default_value = "dist-samba")]
    volume: Volume,
    /// Write the figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Starts GlusterFS servers and measures.
pub(super) fn run(options: &Options) -> Result<ExitCode> {
    let Options { seconds, names, volume, json } = options;
    ensure!(!volume.replicated, "{} has all files on all bricks; use a volume like dist-samba", volume.name);
    let servers = ServersOfRun::start(&Wanted { volumes: vec![*volume], bricks_fs: BrickFileSystem::Xfs })?;
    let mut command = servers.command(super::own_program()?);
    command.args(["gluster", "--dir"]).arg(servers.dir()).args(["isolation-inside", "--volume", volume.name]);
    command.args(["--seconds", &seconds.to_string(), "--names", &names.to_string()]);
    if let Some(json) = json {
        command.arg("--json").arg(std::path::absolute(json)?);
    }
    let status = finish(&mut command)?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Measures all situations and prints a table. `dir` is the directory of the GlusterFS servers.
pub(super) fn inside(dir: &Path, options: &Options) -> Result<()> {
    let volume = options.volume.name;
    let bricks = [1, 2, 3].map(|number| dir.join(format!("bricks/{volume}-{number}")).join(PLACE));
    let [first, others] = prepare(&dir.join("mnt").join(volume).join(PLACE), &bricks, options.names)?;
    let environment = TestEnvironment::make_in(dir, Target::Frevo, Crowd(0))?;
    let local = environment.make_dir(LOCAL, &ALICE, 0o755)?;
    let local_names: Vec<_> = (0..COUNT).map(|number| format!("file-{number}")).collect();
    for name in &local_names {
        fs::write(local.join(name), [1; SIZE])?;
        environment.people().give(&local.join(name), &ALICE)?;
    }
    let server = Arc::new(environment.start("server", &TEMPLATE.replace("@VOLUME@", volume))?);
    let (length, brick) = (Duration::from_secs(options.seconds), brick_processes(dir, volume)?[0]);
    let measure = |situation, disturb: &dyn Fn() -> Result<Disturbance>| {
        measure(situation, &server, [others.clone(), local_names.clone()], length, disturb)
    };
    let stopped = |person: Person| {
        let mut waiting = Disturbance::by(&server, WAITING, person, &first, Connected::read_beside);
        waiting.stopped = Some(Stopped::stop(brick)?);
        Ok(waiting)
    };
    let mut figures = measure("undisturbed", &|| Ok(Disturbance::default()))?;
    figures.extend(measure("a brick is stopped, another user waits", &|| stopped(BOB))?);
    sleep(RECOVERY);
    figures.extend(measure("a brick is stopped, the same user waits", &|| stopped(ALICE))?);
    sleep(RECOVERY);
    let directory = [NAMES.to_owned()];
    let lists = || Ok(Disturbance::by(&server, 1, BOB, &directory, Connected::list_beside));
    figures.extend(measure("another client lists names", &lists)?);
    let table = Table(figures);
    print!("{table}");
    if let Some(path) = &options.json {
        let text = serde_json::to_string_pretty(&table.json())? + "\n";
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Creates the files that are read, and the names that are listed. Returns the files on the first brick, and those on
/// the others.
///
/// The names are created on the bricks with the attribute that identifies a file, because creating so many files
/// through the volume takes minutes. Nobody looks them up.
fn prepare(place: &Path, bricks: &[PathBuf; 3], names: u32) -> Result<[Vec<String>; 2]> {
    for path in [place, &place.join(FILES), &place.join(NAMES)] {
        fs::create_dir(path).with_context(|| format!("cannot create {}", path.display()))?;
        chown(path, Some(ALICE.id), Some(ALICE.id))?;
    }
    for number in 0..COUNT {
        let path = place.join(FILES).join(format!("file-{number}"));
        fs::write(&path, [1; SIZE])?;
        chown(&path, Some(ALICE.id), Some(ALICE.id))?;
    }
    let is_on =
        |brick: &Path, name: &str| fs::metadata(brick.join(FILES).join(name)).is_ok_and(|found| found.size() > 0);
    let all = (0..COUNT).map(|number| format!("file-{number}"));
    let (first, others): (Vec<_>, Vec<_>) = all.partition(|name| is_on(&bricks[0], name));
    ensure!(!first.is_empty() && !others.is_empty(), "all files are on one brick");
    for number in 0..names {
        let path = bricks[number as usize % 3].join(NAMES).join(format!("name-{number}"));
        fs::File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        let gfid = (0x4000_u128 << 64 | 0x8000 << 48 | u128::from(number) | 0xf_0000_0000).to_be_bytes();
        setxattr(&path, "trusted.gfid", &gfid, XattrFlags::CREATE)?;
    }
    let path = |name: String| format!(r"{FILES}\{name}");
    Ok([first, others].map(|names| names.into_iter().map(path).collect()))
}

/// A process that does not run until this value is dropped.
struct Stopped(Pid);

impl Stopped {
    fn stop(pid: u32) -> Result<Stopped> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).context("not the id of a process")?;
        kill_process(pid, Signal::STOP).context("cannot stop the brick")?;
        Ok(Stopped(pid))
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

/// What goes on beside the measured clients, until this value is dropped.
#[derive(Default)]
struct Disturbance {
    // The brick runs again before the clients are waited for.
    stopped: Option<Stopped>,
    clients: Vec<JoinHandle<()>>,
    ended: Arc<AtomicBool>,
    /// What was read: files, or names.
    count: Arc<AtomicU64>,
}

impl Disturbance {
    /// Starts clients that do `work` with one of the paths after the other. Their requests may fail.
    fn by(
        server: &Arc<Server>,
        clients: usize,
        person: Person,
        paths: &[String],
        work: fn(&mut Connected, &str, &AtomicU64) -> Result<()>,
    ) -> Disturbance {
        let (ended, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let start = |_| {
            let (server, paths) = (Arc::clone(server), paths.to_vec());
            let (ended, count) = (Arc::clone(&ended), Arc::clone(&count));
            spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    let Ok(mut connected) = Connected::to(&server, SHARE, &person) else { continue };
                    let is_going_on = |_: &&String| !ended.load(Ordering::Relaxed);
                    let _ = paths
                        .iter()
                        .cycle()
                        .take_while(is_going_on)
                        .try_for_each(|path| work(&mut connected, path, &count));
                }
            })
        };
        let clients = (0..clients).map(start).collect();
        Disturbance { stopped: None, clients, ended, count }
    }
}

impl Drop for Disturbance {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        drop(self.stopped.take());
        self.clients.drain(..).for_each(|client| drop(client.join()));
    }
}

/// A client with a thread of its own.
struct Connected {
    runtime: Runtime,
    client: Client,
}

impl Connected {
    fn to(server: &Server, share: &str, person: &Person) -> Result<Connected> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let client = runtime.block_on(smb::connect_as(server, share, person))?;
        Ok(Connected { runtime, client })
    }

    /// Opens, reads and closes a file.
    fn read(&mut self, path: &str) -> Result<()> {
        let mut length = 0;
        let read = Requests::Separate.read(&mut self.client, path, SIZE as u32, |read| length = read.len());
        self.runtime.block_on(read).with_context(|| format!("reading {path}"))?;
        ensure!(length == SIZE, "{length} bytes of {path} were read, not {SIZE}");
        Ok(())
    }

    fn read_beside(&mut self, path: &str, count: &AtomicU64) -> Result<()> {
        self.read(path)?;
        count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn list_beside(&mut self, path: &str, count: &AtomicU64) -> Result<()> {
        let note = |_: &DirectoryEntry<'_>| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        self.runtime.block_on(listing::list(&mut self.client, path, BUFFER, note))?;
        Ok(())
    }
}

/// Two threads that send each other a byte over a connection. One is the caller's.
struct Control(TcpStream);

impl Control {
    fn start() -> Result<Control> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let connection = TcpStream::connect(listener.local_addr()?)?;
        let mut other = listener.accept()?.0;
        for connection in [&connection, &other] {
            connection.set_nodelay(true)?;
        }
        spawn(move || {
            let mut byte = [0];
            while other.read_exact(&mut byte).and_then(|()| other.write_all(&byte)).is_ok() {}
        });
        Ok(Control(connection))
    }

    fn exchange(&mut self) -> Result<()> {
        for _ in 0..REQUESTS {
            self.0.write_all(&[1])?;
            self.0.read_exact(&mut [0])?;
        }
        Ok(())
    }
}

/// The latencies of a client in a situation, in milliseconds.
struct Figure {
    situation: &'static str,
    share: &'static str,
    operations: usize,
    median: f64,
    worst: f64,
}

impl Figure {
    fn of(situation: &'static str, share: &'static str, mut latencies: Vec<f64>) -> Result<Figure> {
        latencies.sort_by(f64::total_cmp);
        let (Some(&median), Some(&worst)) = (latencies.get(latencies.len() / 2), latencies.last()) else {
            bail!("{situation}: the client of the share {share} has done nothing")
        };
        Ok(Figure { situation, share, operations: latencies.len(), median, worst })
    }

    /// Returns what is asked for and not met. Nothing is asked for without the server.
    fn missed(&self, undisturbed: Option<f64>) -> Vec<&'static str> {
        let Some((_, most)) = WORST.iter().find(|(share, _)| *share == self.share) else { return Vec::new() };
        let is_slow = undisturbed.is_some_and(|undisturbed| self.median > undisturbed * TIMES);
        [(is_slow, "median"), (self.worst >= *most, "worst")]
            .into_iter()
            .filter(|(is, _)| *is)
            .map(|(_, what)| what)
            .collect()
    }
}

/// Measures the client of each share, and the threads without the server, while something goes on beside.
fn measure(
    situation: &'static str,
    server: &Arc<Server>,
    paths: [Vec<String>; 2],
    length: Duration,
    disturb: &dyn Fn() -> Result<Disturbance>,
) -> Result<Vec<Figure>> {
    type Operation = Box<dyn FnMut() -> Result<()> + Send>;
    let mut clients: Vec<(&str, Operation)> = Vec::new();
    for (share, paths) in [SHARE, LOCAL].into_iter().zip(paths) {
        let mut connected = Connected::to(server, share, &ALICE)?;
        paths.iter().try_for_each(|path| connected.read(path))?;
        let mut paths = paths.into_iter().cycle();
        let read = move || connected.read(&paths.next().context("no files are read")?);
        clients.push((share, Box::new(read)));
    }
    let mut control = Control::start()?;
    clients.push((CONTROL, Box::new(move || control.exchange())));
    let disturbance = disturb()?;
    let end = Instant::now() + length;
    let start = |(share, mut operation): (&'static str, Operation)| {
        let work = move || -> Result<Vec<f64>> {
            let mut latencies = Vec::new();
            loop {
                let begin = Instant::now();
                if begin >= end {
                    return Ok(latencies);
                }
                operation()?;
                latencies.push(begin.elapsed().as_secs_f64() * 1000.0);
                sleep(PACE);
            }
        };
        (share, spawn(work))
    };
    let running: Vec<_> = clients.into_iter().map(start).collect();
    let mut figures = Vec::new();
    for (share, client) in running {
        let latencies = client.join().map_err(|_| anyhow::anyhow!("a client has panicked"))?;
        figures.push(Figure::of(situation, share, latencies.with_context(|| format!("{situation}, share {share}"))?)?);
    }
    let count = disturbance.count.load(Ordering::Relaxed);
    println!("{situation}: {count} files or names were read by others");
    ensure!(disturbance.stopped.is_some() || disturbance.clients.is_empty() || count > 0, "{situation}: none was read");
    drop(disturbance);
    interrupt::check()?;
    Ok(figures)
}

/// All figures. Those without a disturbance come first.
struct Table(Vec<Figure>);

impl Table {
    fn undisturbed(&self, share: &str) -> Option<f64> {
        self.0.iter().find(|figure| figure.share == share).map(|figure| figure.median)
    }

    fn json(&self) -> serde_json::Value {
        let figure = |figure: &Figure| {
            json!({
                "situation": figure.situation,
                "share": figure.share,
                "operations": figure.operations,
                "median ms": figure.median,
                "worst ms": figure.worst,
                "missed": figure.missed(self.undisturbed(figure.share)),
            })
        };
        self.0.iter().map(figure).collect()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\nopen, read {} KiB, close; asked: median within {TIMES} times the undisturbed one, worst below",
            SIZE >> 10
        )?;
        writeln!(f, "{} ms in the volume and {} ms in the local share", WORST[0].1, WORST[1].1)?;
        writeln!(f, "{CONTROL}: {REQUESTS} exchanges of a byte between two threads, without the server")?;
        writeln!(
            f,
            "{:<42} {:<7} {:>10} {:>10} {:>6} {:>10}",
            "situation", "share", "operations", "median ms", "times", "worst ms"
        )?;
        for figure in &self.0 {
            let Figure { situation, share, operations, median, worst } = figure;
            let undisturbed = self.undisturbed(share);
            let times = median / undisturbed.unwrap_or(*median);
            let missed = figure.missed(undisturbed);
            let word = match &missed[..] {
                _ if *share == CONTROL => String::new(),
                [] => "ok".to_owned(),
                missed => format!("missed: {}", missed.join(", ")),
            };
            writeln!(
                f,
                "{situation:<42} {share:<7} {operations:>10} {median:>10.2} {times:>6.2} {worst:>10.1}  {word}"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_compared_with_what_is_asked_for() {
        let figure = |share, latencies: &[f64]| Figure::of("x", share, latencies.to_vec()).unwrap();
        let volume = figure(SHARE, &[9.0, 1.0, 2.0]);
        assert_eq!((volume.median, volume.worst, volume.operations), (2.0, 9.0, 3));
        assert!(volume.missed(Some(1.0)).is_empty());
        assert_eq!(volume.missed(Some(0.9)), ["median"]);
        assert_eq!(figure(SHARE, &[250.0]).missed(Some(1.0)), ["median", "worst"]);
        assert_eq!(figure(LOCAL, &[1.0, 1.0, 25.0]).missed(Some(1.0)), ["worst"]);
        assert!(figure(CONTROL, &[1.0, 1.0, 250.0]).missed(Some(0.1)).is_empty());
        assert!(Figure::of("x", LOCAL, Vec::new()).is_err());
    }
}
