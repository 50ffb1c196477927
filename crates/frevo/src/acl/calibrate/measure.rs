//! The measurement: in every run, each file is checked as it is, converted and stored, and checked with the stored
//! descriptor.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use server::environment::Environment;
use server::security::admin_probe::Checked;

use super::ground::{ENTRIES, File, Ground};
use super::saved::{Sample, Spread, Times};
use crate::environment::SystemEnvironment;

/// Writing to this file makes the kernel drop its caches.
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// Parameters of a measurement.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) runs: usize,
    pub(super) cold: bool,
    /// No progress is shown.
    pub(super) quiet: bool,
}

/// The work that a timed access check includes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Way {
    Converted,
    Written,
    Stored,
}

const WAYS: [Way; 3] = [Way::Converted, Way::Written, Way::Stored];

/// Mean time of a check in each run, by (cold caches, kind of check, number of ACL entries).
type Runs = BTreeMap<(bool, Way, u32), Vec<f64>>;

/// Measures on `ground` until all runs are done or `stop` is set.
pub(super) async fn measure(ground: &Ground, plan: Plan, stop: &AtomicBool) -> Result<Vec<Sample>> {
    let cold = plan.cold && may_drop_caches();
    let states: &[bool] = if cold { &[false, true] } else { &[false] };
    let bar = if plan.quiet { ProgressBar::hidden() } else { progress(plan.runs * states.len() * WAYS.len()) };
    let mut runs = Runs::new();
    for _ in 0..plan.runs {
        for &cold in states {
            ground.strip()?;
            for way in WAYS {
                bar.set_message(format!("{}, {}", if cold { "cold" } else { "warm" }, word(way)));
                pass(ground, cold, way, &mut runs, stop).await?;
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    Ok(ENTRIES.into_iter().filter_map(|entries| sample(entries, &runs)).collect())
}

fn word(way: Way) -> &'static str {
    match way {
        Way::Converted => "converting",
        Way::Written => "converting and storing",
        Way::Stored => "reading the stored descriptor",
    }
}

fn progress(steps: usize) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(steps as u64);
    let style = ProgressStyle::with_template("{prefix:>10} [{elapsed_precise}] {bar:30} {pos}/{len} {wide_msg}");
    bar.set_style(style.expect("the template is well-formed"));
    bar.set_prefix("calibrate");
    bar
}

/// Returns whether kernel caches can be dropped. Containers usually cannot.
fn may_drop_caches() -> bool {
    match std::fs::OpenOptions::new().write(true).open(DROP_CACHES) {
        Ok(_) => true,
        Err(error) => {
            eprintln!("frevo: cannot write {DROP_CACHES}: {error}; measuring with warm caches only");
            false
        }
    }
}

/// Runs one kind of check over all files.
async fn pass(ground: &Ground, cold: bool, way: Way, runs: &mut Runs, stop: &AtomicBool) -> Result<()> {
    if cold {
        ground.sync().context("cannot sync the file system")?;
        std::fs::write(DROP_CACHES, "3").context(DROP_CACHES)?;
    } else {
        for file in &ground.files {
            ground.trial.check(&file.path).await.map_err(|error| failed(file, &error))?;
        }
    }
    let mut times: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for file in &ground.files {
        if stop.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        if let Some(seconds) = check(ground, file, way).await? {
            times.entry(file.entries).or_default().push(seconds);
        }
    }
    for (entries, times) in times {
        runs.entry((cold, way, entries)).or_default().push(mean(&times));
    }
    Ok(())
}

/// Times one check. Returns `None` if the file system has no space for a descriptor of this length.
async fn check(ground: &Ground, file: &File, way: Way) -> Result<Option<f64>> {
    let now = SystemEnvironment::new().now();
    let begun = Instant::now();
    let checked = match way {
        Way::Converted | Way::Stored => ground.trial.check(&file.path).await,
        Way::Written => ground.trial.check_and_store(&file.path, now).await,
    };
    let seconds = begun.elapsed().as_secs_f64();
    match (way, checked) {
        (Way::Written, Err(error)) => {
            tracing::debug!(entries = file.entries, %error, "cannot store the descriptor");
            Ok(None)
        }
        (_, Err(error)) => Err(failed(file, &error)),
        (Way::Stored, Ok(Checked { was_stored: false, .. })) => Ok(None),
        (Way::Converted, Ok(Checked { was_stored: true, .. })) => {
            bail!("{}: another process stored a descriptor; run it again", file.path.as_path().display())
        }
        (_, Ok(_)) => Ok(Some(seconds)),
    }
}

fn failed(file: &File, error: &server::error::Error) -> anyhow::Error {
    anyhow::anyhow!("{}: {error}", file.path.as_path().display())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn sample(entries: u32, runs: &Runs) -> Option<Sample> {
    let spread = |cold, way| {
        let values = runs.get(&(cold, way, entries))?;
        Some(Spread { minimum: values.iter().copied().reduce(f64::min)?, mean: mean(values) })
    };
    let times = |cold| {
        Some(Times {
            converted: spread(cold, Way::Converted)?,
            written: spread(cold, Way::Written),
            stored: spread(cold, Way::Stored),
        })
    };
    Some(Sample { entries, warm: times(false)?, cold: times(true) })
}
