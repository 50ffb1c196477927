//! Samples a server's resources under load, and checks that they stay level.
//!
//! The first third of the samples is ignored, because caches fill and threads start. The medians of the other two
//! thirds are compared, so that no single moment is decisive.

use std::fmt;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// Sampling interval of a long run. A shorter run is sampled ten times.
const EVERY: Duration = Duration::from_secs(60);
/// Minimum length of a third of a run to detect a slow leak. In a shorter run, caches are still filling.
const LONG: Duration = Duration::from_secs(60);
/// Allowed growth in KiB from the middle third to the last one, in a long run and in a short one.
const GROWTH: (u64, u64) = (256, 1024);
/// Allowed growth in file descriptors and threads from the middle third to the last one, which covers work in progress.
const COUNTS: u64 = 16;

/// The resources of a process at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    at: Duration,
    /// KiB of anonymous memory.
    memory: u64,
    descriptors: u64,
    threads: u64,
}

impl Sample {
    fn of(pid: u32, at: Duration) -> Result<Sample> {
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
        let anonymous = rollup.lines().find_map(|line| line.strip_prefix("Anonymous:")).context("no Anonymous line")?;
        let memory = anonymous.trim().trim_end_matches(" kB").parse()?;
        let count = |what: &str| Ok::<_, std::io::Error>(fs::read_dir(format!("/proc/{pid}/{what}"))?.count() as u64);
        Ok(Sample { at, memory, descriptors: count("fd")?, threads: count("task")? })
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sample { at, memory, descriptors, threads } = self;
        write!(f, "{:5.1} s {memory:6} KiB {descriptors:4} descriptors {threads:3} threads", at.as_secs_f64())
    }
}

/// The samples of one run.
pub(crate) struct Growth {
    pid: u32,
    began: Instant,
    time: Duration,
    samples: Vec<Sample>,
}

impl Growth {
    /// Starts sampling the process `pid`, which will be under load for `time`.
    pub(crate) fn new(pid: u32, time: Duration) -> Growth {
        Growth { pid, began: Instant::now(), time, samples: Vec::new() }
    }

    /// Takes a sample and prints it if the interval has passed. Must be called often.
    pub(crate) fn look(&mut self) -> Result<()> {
        let (at, every) = (self.began.elapsed(), EVERY.min(self.time / 10));
        if self.samples.last().is_none_or(|last| at >= last.at + every) {
            let sample = Sample::of(self.pid, at)?;
            println!("    {sample}");
            self.samples.push(sample);
        }
        Ok(())
    }

    /// Fails if a resource grew from the middle third of the samples to the last one.
    pub(crate) fn judge(&self) -> Result<()> {
        let growth = if self.time / 3 >= LONG { GROWTH.0 } else { GROWTH.1 };
        judge(&self.samples, growth)
    }
}

/// Returns one of the values of a sample.
type Value = fn(&Sample) -> u64;

fn judge(samples: &[Sample], growth: u64) -> Result<()> {
    // Not thirds of the time: on a slow machine one of those may have no sample.
    let third = samples.len() / 3;
    ensure!(third > 0, "{} samples are too few; let it run longer", samples.len());
    let (_, later) = samples.split_at(third);
    let (middle, last) = later.split_at(third);
    let median = |part: &[Sample], what: Value| {
        let mut values: Vec<u64> = part.iter().map(what).collect();
        values.sort_unstable();
        values[values.len() / 2]
    };
    let kinds: [(&str, Value, u64); 3] = [
        ("KiB of memory", |sample| sample.memory, growth),
        ("descriptors", |sample| sample.descriptors, COUNTS),
        ("threads", |sample| sample.threads, COUNTS),
    ];
    for (what, value, more) in kinds {
        let (middle, last) = (median(middle, value), median(last, value));
        ensure!(
            last <= middle + more,
            "the server grows: {middle} {what} in the middle third of the samples, {last} in the last"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Evaluates ten samples of a process that has `memory` and `threads` at each tenth of the time.
    fn check(memory: impl Fn(u64) -> u64, threads: impl Fn(u64) -> u64) -> bool {
        let sample = |tenth| Sample {
            at: Duration::from_secs(60 * tenth),
            memory: memory(tenth),
            descriptors: 100,
            threads: threads(tenth),
        };
        judge(&(0..10).map(sample).collect::<Vec<_>>(), GROWTH.0).is_ok()
    }

    #[test]
    fn an_increase_after_the_first_third_is_growth() {
        let level = |_: u64| 5000;
        assert!(check(level, level));
        assert!(check(|tenth| 5000.min(2000 + 1000 * tenth), level), "an increase at the start");
        assert!(check(|tenth| if tenth == 8 { 9000 } else { 5000 }, level), "a short peak");
        assert!(!check(|tenth| 4000 + 100 * tenth, level), "0.1 MiB per minute");
        assert!(!check(level, |tenth| 10 + 10 * tenth), "threads");
        assert!(judge(&[], GROWTH.0).is_err(), "no samples");
    }

    #[test]
    fn this_process_can_be_sampled() {
        let sample = Sample::of(std::process::id(), Duration::ZERO).expect("it is there");
        assert!(sample.memory > 0 && sample.descriptors > 0 && sample.threads > 0, "{sample}");
    }
}
