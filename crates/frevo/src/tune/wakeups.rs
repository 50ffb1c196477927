//! Measures how long the kernel takes to wake a thread on an idle processor. In a virtual machine that may be most of
//! the time of a small request: the processor was halted, and the host has to start it again.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::work::Work;

/// Number of exchanges that are measured, and of those before them.
const EXCHANGES: usize = 1_000;
const WARM_UP: usize = 20;

/// Returns the median time in seconds from a write to when a thread on another processor has read it; `None` if this
/// process may use one processor only.
pub(super) fn measure(work: &Work) -> Result<Option<f64>> {
    work.check()?;
    let allowed = sched_getaffinity(None).context("cannot read the processors of this process")?;
    let mut processors = (0..CpuSet::MAX_CPU).filter(|number| allowed.is_set(*number));
    let (Some(here), Some(there)) = (processors.next(), processors.next()) else { return Ok(None) };
    let (mut asking, mut answering) = UnixStream::pair().context("cannot create a pair of sockets")?;
    let answer = std::thread::spawn(move || -> std::io::Result<()> {
        stay_on(there)?;
        let mut byte = [0];
        for _ in 0..WARM_UP + EXCHANGES {
            answering.read_exact(&mut byte)?;
            answering.write_all(&byte)?;
        }
        Ok(())
    });
    let ask = std::thread::spawn(move || -> std::io::Result<Vec<Duration>> {
        stay_on(here)?;
        let mut byte = [0];
        let mut exchange = || {
            let begun = Instant::now();
            asking.write_all(&byte)?;
            asking.read_exact(&mut byte)?;
            Ok(begun.elapsed())
        };
        (0..WARM_UP + EXCHANGES).map(|_| exchange()).collect()
    });
    let joined = (ask.join(), answer.join());
    let (Ok(Ok(times)), Ok(Ok(()))) = joined else { return Ok(None) };
    let mut times = times.get(WARM_UP..).unwrap_or_default().to_vec();
    times.sort_unstable();
    // An exchange wakes each of the two threads once.
    Ok(times.get(times.len() / 2).map(|median| median.as_secs_f64() / 2.0))
}

/// Has the calling thread run on one processor.
fn stay_on(processor: usize) -> std::io::Result<()> {
    let mut only = CpuSet::new();
    only.set(processor);
    Ok(sched_setaffinity(None, &only)?)
}

/// Reads for how many nanoseconds an idle processor of this virtual machine looks for work before it halts; `None`
/// unless the kernel's `haltpoll` decides that.
pub(super) fn polling() -> Option<u64> {
    let read = |path| std::fs::read_to_string(path).ok();
    let governor = read("/sys/devices/system/cpu/cpuidle/current_governor")?;
    if governor.trim() != "haltpoll" {
        return None;
    }
    read("/sys/module/haltpoll/parameters/guest_halt_poll_ns")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::work::Extent;

    #[test]
    fn threads_wake_each_other() {
        let work = Work::new(Extent { time: Duration::from_secs(1), bytes: 0, files: 0 });
        let processors = sched_getaffinity(None).unwrap().count();
        let measured = measure(&work).unwrap();
        assert_eq!(measured.is_some(), processors > 1);
        assert!(measured.is_none_or(|time| time > 0.0));
        work.stop().store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(measure(&work).is_err());
    }
}
