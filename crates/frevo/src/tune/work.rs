//! The extent of a measurement, its progress, and its interruption.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

/// Number of parts of a measurement that take a share of the time.
const PARTS: u64 = 10;

/// The extent of a measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// The time for all parts.
    pub(super) time: Duration,
    /// Bytes of the largest file.
    pub(super) bytes: u64,
    /// Maximum number of files.
    pub(super) files: usize,
}

/// The state of a running measurement.
pub(super) struct Work {
    pub(super) extent: Extent,
    stop: Arc<AtomicBool>,
    bar: ProgressBar,
}

impl Work {
    pub(super) fn new(extent: Extent) -> Work {
        Work { extent, stop: Arc::default(), bar: progress() }
    }

    /// Returns the flag that ends the measurement.
    pub(super) fn stop(&self) -> Arc<AtomicBool> {
        self.stop.clone()
    }

    /// Starts a part and returns when it must end. It may take `parts` of the time.
    pub(super) fn start(&self, what: &'static str, parts: u32) -> Result<Deadline<'_>> {
        self.check()?;
        self.bar.set_message(what);
        let time = self.extent.time * parts / PARTS as u32;
        Ok(Deadline { work: self, start: Instant::now(), time, parts })
    }

    /// Fails if the user has interrupted the measurement.
    pub(super) fn check(&self) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            bail!("interrupted; nothing was changed");
        }
        Ok(())
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// When a part of a measurement ends.
pub(super) struct Deadline<'w> {
    work: &'w Work,
    start: Instant,
    time: Duration,
    parts: u32,
}

impl Deadline<'_> {
    /// Whether time is left. Fails if the user has interrupted the measurement.
    pub(super) fn is_ahead(&self) -> Result<bool> {
        self.work.check()?;
        Ok(self.start.elapsed() < self.time)
    }

    /// Returns the time of the whole part.
    pub(super) fn time(&self) -> Duration {
        self.time
    }
}

impl Drop for Deadline<'_> {
    fn drop(&mut self) {
        self.work.bar.inc(self.parts.into());
    }
}

/// Returns a progress bar, hidden unless the standard error output is a terminal.
fn progress() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(PARTS);
    let style = ProgressStyle::with_template("{prefix:>10} [{elapsed_precise}] {bar:30} {wide_msg}");
    bar.set_style(style.expect("the template is well-formed"));
    bar.set_prefix("tune");
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Sets `stop` on SIGINT, SIGTERM and SIGHUP, so that the trial directory is removed. The handlers exist when this
/// returns.
pub(super) fn stop_at_signals(runtime: &Runtime, stop: Arc<AtomicBool>) -> Result<()> {
    let _context = runtime.enter();
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        let mut signals = signal(kind).context("cannot handle signals")?;
        let stop = stop.clone();
        runtime.spawn(async move {
            signals.recv().await;
            stop.store(true, Ordering::Relaxed);
        });
    }
    Ok(())
}
