//! The victim: another client of the server that does everyday work continuously and measures response times, and new
//! clients that log on.
//!
//! They run on a thread with high priority, and the attackers on one with low priority. The measurements are therefore
//! of the server, and not of how the programs on this machine share its processors.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use client::{Client, Credentials, Open, Options};
use hdrhistogram::Histogram;
use proto::smb2::FileId;
use serde::Serialize;
use test_environment::BOB;

use crate::scene::HOST;

/// The victim's share.
pub(crate) const SHARE: &str = "victim";
/// Pause between two rounds of the victim's work.
const PAUSE: Duration = Duration::from_millis(5);
/// Interval between two new clients.
const NEWCOMERS: Duration = Duration::from_millis(500);
/// How long the victim waits for a response before the request fails.
const PATIENCE: Duration = Duration::from_secs(15);
/// Bytes of a READ and of a WRITE.
const PIECE: usize = 4096;
/// Rounds before the measurement starts, in which caches are filled and threads started.
const WARM_UP: u32 = 100;
/// Maximum time that is recorded exactly, microseconds.
const LONGEST: u64 = 100_000_000;
/// The niceness of the victim's thread; below 0 only as root.
const PREFERRED: i32 = -10;

/// The victim's measurements, with times in milliseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct VictimResult {
    /// Requests answered.
    pub requests: u64,
    /// Median time.
    pub median_ms: f64,
    /// Maximum time.
    pub worst_ms: f64,
    /// The request that took the maximum time.
    pub worst_request: &'static str,
    /// New clients that logged on.
    pub newcomers: u64,
    /// The maximum time that one of them needed.
    pub newcomer_worst_ms: f64,
    /// The first error.
    pub error: Option<String>,
}

/// Measurements with times in microseconds.
struct Notes {
    times: Histogram<u64>,
    worst: (Duration, &'static str),
    newcomers: u64,
    newcomer_worst: Duration,
    error: Option<String>,
}

impl Notes {
    fn new() -> Result<Notes> {
        let times = Histogram::new_with_bounds(1, LONGEST, 3)?;
        Ok(Notes { times, worst: (Duration::ZERO, ""), newcomers: 0, newcomer_worst: Duration::ZERO, error: None })
    }

    fn note(&mut self, what: &'static str, took: Duration) {
        self.times.saturating_record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        self.worst = self.worst.max((took, what));
    }

    fn summary(&self) -> VictimResult {
        VictimResult {
            requests: self.times.len(),
            median_ms: self.times.value_at_quantile(0.5) as f64 / 1000.0,
            worst_ms: self.worst.0.as_secs_f64() * 1000.0,
            worst_request: self.worst.1,
            newcomers: self.newcomers,
            newcomer_worst_ms: self.newcomer_worst.as_secs_f64() * 1000.0,
            error: self.error.clone(),
        }
    }
}

/// State shared by the thread and its owner.
struct Shared {
    measuring: AtomicBool,
    stop: AtomicBool,
    /// Completed rounds, successful or not.
    rounds: AtomicU32,
    notes: Mutex<Notes>,
}

impl Shared {
    /// Changes the notes during a measurement.
    fn note(&self, change: impl FnOnce(&mut Notes)) {
        if self.measuring.load(Ordering::Acquire) {
            change(&mut self.notes.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn fail(&self, error: &anyhow::Error) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.error.get_or_insert_with(|| format!("{error:#}"));
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}

/// The working victim, until dropped.
pub(crate) struct Victim {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Victim {
    /// Starts the victim and returns after the warm-up.
    pub(crate) fn start(address: SocketAddr) -> Result<Victim> {
        let notes = Mutex::new(Notes::new()?);
        let (measuring, stop, rounds) = (AtomicBool::new(false), AtomicBool::new(false), AtomicU32::new(0));
        let shared = Arc::new(Shared { measuring, stop, rounds, notes });
        let (warm, is_warm) = mpsc::channel();
        let theirs = shared.clone();
        let thread = std::thread::Builder::new().name("victim".into()).spawn(move || {
            prefer(PREFERRED);
            if let Err(error) = live(address, &theirs, &warm) {
                theirs.fail(&error);
            }
        })?;
        let victim = Victim { shared, thread: Some(thread) };
        victim.wait(&is_warm)?;
        Ok(victim)
    }

    fn wait(&self, is_warm: &Receiver<()>) -> Result<()> {
        let warm = is_warm.recv_timeout(Duration::from_secs(60));
        let notes = self.shared.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let why = || notes.error.clone().unwrap_or_else(|| "it does not get ready".into());
        warm.with_context(|| format!("the victim cannot work, attack or not: {}", why()))
    }

    /// Starts the measurement.
    pub(crate) fn measure(&self) {
        self.shared.measuring.store(true, Ordering::Release);
    }

    /// Returns the measurements so far. They include the round in progress, because its requests have already waited.
    pub(crate) fn result(&self) -> VictimResult {
        let (begun, rounds) = (Instant::now(), self.shared.rounds.load(Ordering::Acquire));
        while self.shared.rounds.load(Ordering::Acquire) == rounds && begun.elapsed() < PATIENCE * 2 {
            std::thread::sleep(PAUSE);
        }
        let summary = self.shared.notes.lock().unwrap_or_else(PoisonError::into_inner).summary();
        self.shared.measuring.store(false, Ordering::Release);
        summary
    }
}

impl Victim {
    /// Returns the first error so far.
    pub(crate) fn error(&self) -> Option<String> {
        self.shared.notes.lock().unwrap_or_else(PoisonError::into_inner).error.clone()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sets the calling thread's niceness, if permitted.
pub(crate) fn prefer(niceness: i32) {
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), niceness);
}

fn options() -> Options {
    let credentials = Credentials::password(BOB.name, BOB.password);
    Options { credentials, timeout: PATIENCE, ..Options::default() }
}

fn live(address: SocketAddr, shared: &Shared, warm: &mpsc::Sender<()>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (work, visits) = tokio::join!(work(address, shared, warm), visit(address, shared));
        work.and(visits)
    })
}

async fn work(address: SocketAddr, shared: &Shared, warm: &mpsc::Sender<()>) -> Result<()> {
    let mut client = Client::connect(address, HOST, SHARE, &options()).await?;
    let file = client.open(&Open::file("everyday")).await?;
    client.write(file, 0, &[7; PIECE]).await?;
    client.close(file).await?;
    while !shared.stopped() {
        let done = round(&mut client, shared).await;
        if done.is_err() {
            // A lost connection is replaced by another one, so that the measurement continues.
            done.unwrap_or_else(|error| shared.fail(&error));
            client = Client::connect(address, HOST, SHARE, &options()).await?;
        }
        if shared.rounds.fetch_add(1, Ordering::AcqRel) + 1 == WARM_UP {
            let _ = warm.send(());
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Opens, reads, writes, echoes and closes, each timed.
async fn round(client: &mut Client, shared: &Shared) -> Result<()> {
    let mut start = Instant::now();
    let mut done = |what: &'static str| {
        let end = Instant::now();
        let took = end - start;
        start = end;
        shared.note(|notes| notes.note(what, took));
    };
    let file: FileId = client.open(&Open::file("everyday")).await.context("CREATE")?;
    done("CREATE");
    let read = client.read(file, 0, PIECE as u32).await.context("READ")?;
    anyhow::ensure!(read == [7; PIECE], "the victim read data that was not written");
    done("READ");
    client.write(file, 0, &[7; PIECE]).await.context("WRITE")?;
    done("WRITE");
    client.echo().await.context("ECHO")?;
    done("ECHO");
    client.close(file).await.context("CLOSE")?;
    done("CLOSE");
    Ok(())
}

/// Connects new clients one after the other.
async fn visit(address: SocketAddr, shared: &Shared) -> Result<()> {
    while !shared.stopped() {
        let start = Instant::now();
        match Client::connect(address, HOST, SHARE, &options()).await.context("a new client") {
            Ok(client) => {
                let took = start.elapsed();
                shared.note(|notes| {
                    notes.newcomers += 1;
                    notes.newcomer_worst = notes.newcomer_worst.max(took);
                });
                let _ = client.log_off().await;
            }
            Err(error) => shared.fail(&error),
        }
        tokio::time::sleep(NEWCOMERS).await;
    }
    Ok(())
}
