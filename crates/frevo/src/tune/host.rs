//! Reads what the host has: processors, memory, limits.

use anyhow::Result;
use rustix::process::{Resource, getrlimit};

use super::measurements::Host;
use super::network::number;
use super::wakeups;
use super::work::Work;
use crate::limits;

/// Describes this host.
pub(super) fn read(work: &Work) -> Result<Host> {
    let machine = report::machine::describe();
    Ok(Host {
        processor: machine.processor,
        cores: machine.cores,
        memory: limits::memory(),
        descriptors: getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX),
        descriptors_of_service: descriptors_of_service(),
        watches: number("fs/inotify/max_user_watches"),
        wake_up: wakeups::measure(work)?,
        halt_polling: wakeups::polling(),
    })
}

/// Reads the limit of the service that systemd runs.
fn descriptors_of_service() -> Option<u64> {
    let processes = std::fs::read_to_string("/sys/fs/cgroup/system.slice/frevo.service/cgroup.procs").ok()?;
    let process = processes.lines().next()?;
    hard_limit(&std::fs::read_to_string(format!("/proc/{process}/limits")).ok()?)
}

/// Returns the hard limit on open files in the format of `/proc/PID/limits`.
fn hard_limit(limits: &str) -> Option<u64> {
    let values = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    values.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_a_process_is_read() {
        let own = std::fs::read_to_string("/proc/self/limits").unwrap();
        assert_eq!(hard_limit(&own), getrlimit(Resource::Nofile).maximum);
        assert_eq!(
            hard_limit("Limit  Soft Limit  Hard Limit  Units\nMax open files  1024  20000  files\n"),
            Some(20_000)
        );
        assert_eq!(hard_limit(""), None);
    }
}
