//! Resources of a server's processes: memory, descriptors, threads, processor time; and their maximum.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

/// How often values without a high-water mark are sampled.
const EVERY: Duration = Duration::from_millis(250);

/// The resources at one moment.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Vitals {
    /// Bytes of memory: resident for one process; private for several, which share the rest.
    pub memory: u64,
    /// Open descriptors.
    pub descriptors: u64,
    /// Threads.
    pub threads: u64,
}

impl Vitals {
    /// Returns the resources of these processes; a process that has ended has none.
    pub(crate) fn of(pids: &[u32]) -> Vitals {
        let memory = if pids.len() > 1 { "RssAnon:" } else { "VmRSS:" };
        let count =
            |pid: &u32, what: &str| fs::read_dir(format!("/proc/{pid}/{what}")).map_or(0, Iterator::count) as u64;
        Vitals {
            memory: pids.iter().map(|pid| status(*pid, memory).unwrap_or(0)).sum(),
            descriptors: pids.iter().map(|pid| count(pid, "fd")).sum(),
            threads: pids.iter().map(|pid| count(pid, "task")).sum(),
        }
    }

    fn most(self, other: Vitals) -> Vitals {
        Vitals {
            memory: self.memory.max(other.memory),
            descriptors: self.descriptors.max(other.descriptors),
            threads: self.threads.max(other.threads),
        }
    }
}

/// Returns a line of `/proc/PID/status` that is in KiB, in bytes.
fn status(pid: u32, name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// Returns the processor time used by these processes, seconds.
pub(crate) fn processor_time(pids: &[u32]) -> f64 {
    let ticks = |pid: &u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The program name in parentheses may contain anything; utime and stime are the 12th and 13th fields after it.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
    };
    let all: u64 = pids.iter().filter_map(ticks).sum();
    all as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// Samples the maximum at any moment.
pub(crate) struct Watch {
    main: u32,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vitals>>,
}

impl Watch {
    /// Watches the process `main` and those returned by `pids`.
    pub(crate) fn start(main: u32, pids: impl Fn() -> Vec<u32> + Send + 'static) -> Result<Watch> {
        // Resets the high-water mark of resident memory to the current value (proc(5)).
        fs::write(format!("/proc/{main}/clear_refs"), "5").context("cannot reset the server's high-water mark")?;
        let stop = Arc::new(AtomicBool::new(false));
        let asked = stop.clone();
        let thread = std::thread::Builder::new().name("vitals".into()).spawn(move || {
            let mut most = Vitals::default();
            while !asked.load(Ordering::Acquire) {
                most = most.most(Vitals::of(&pids()));
                std::thread::park_timeout(EVERY);
            }
            most
        })?;
        Ok(Watch { main, stop, thread: Some(thread) })
    }

    /// Returns the maximum.
    pub(crate) fn end(mut self) -> Vitals {
        let mark = status(self.main, "VmHWM:").unwrap_or(0);
        let most = self.join().unwrap_or_default();
        Vitals { memory: most.memory.max(mark), ..most }
    }

    fn join(&mut self) -> Option<Vitals> {
        self.stop.store(true, Ordering::Release);
        let thread = self.thread.take()?;
        thread.thread().unpark();
        thread.join().ok()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_and_its_peak_are_measured() {
        let own = std::process::id();
        let watch = Watch::start(own, move || vec![own]).unwrap();
        let spent = processor_time(&[own]);
        let big = vec![1u8; 64 << 20];
        assert!(big.iter().map(|byte| u64::from(*byte)).sum::<u64>() == 64 << 20);
        drop(big);
        let peak = watch.end();
        let now = Vitals::of(&[own]);
        assert!(peak.memory >= 64 << 20 && now.descriptors > 0 && now.threads > 0, "{peak:?} {now:?}");
        assert!(processor_time(&[own]) >= spent);
    }
}
