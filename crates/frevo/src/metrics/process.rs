//! What the kernel knows about this process, under the names that Prometheus' client libraries use.

use std::fs;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// Calculated once. The clocks are not equally precise, so another result would differ a little.
static STARTED: OnceLock<Option<f64>> = OnceLock::new();

/// The state of the process. Values that the kernel does not tell are `None`.
#[derive(Default)]
pub(super) struct Process {
    /// Processor time in user and kernel mode, seconds.
    pub(super) cpu_seconds: Option<f64>,
    /// Resident memory, bytes.
    pub(super) resident_bytes: Option<u64>,
    /// Open descriptors. Linux tells their number since 6.2.
    pub(super) open_descriptors: Option<u64>,
    /// The maximum number of descriptors.
    pub(super) most_descriptors: Option<u64>,
    /// When it started, seconds since 1970.
    pub(super) started: Option<f64>,
}

impl Process {
    /// Asks the kernel.
    pub(super) fn now() -> Process {
        localfs::identity::as_process(Process::read).unwrap_or_default()
    }

    fn read() -> Process {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // The second field is the name, which may have spaces and parentheses.
        let fields: Vec<&str> = stat.rsplit_once(") ").map_or(Vec::new(), |(_, rest)| rest.split(' ').collect());
        let field = |number: usize| fields.get(number - 3).and_then(|text| text.parse::<u64>().ok());
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let resident = fs::read_to_string("/proc/self/statm").ok();
        let pages = resident.as_deref().and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let uptime = fs::read_to_string("/proc/uptime").ok();
        let uptime = uptime.as_deref().and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map(|time| time.as_secs_f64()).ok();
        Process {
            cpu_seconds: field(14).zip(field(15)).map(|(user, kernel)| (user + kernel) as f64 / ticks),
            resident_bytes: pages.map(|pages| pages * rustix::param::page_size() as u64),
            open_descriptors: fs::metadata("/proc/self/fd").ok().map(|it| it.len()).filter(|&count| count > 0),
            most_descriptors: limit,
            started: *STARTED.get_or_init(|| {
                let times = field(22).zip(uptime.zip(now));
                times.map(|(start, (uptime, now))| now - uptime + start as f64 / ticks)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_about_this_process() {
        let process = Process::now();
        assert!(process.cpu_seconds.is_some_and(|seconds| (0.0..1e6).contains(&seconds)));
        assert!(process.resident_bytes.is_some_and(|bytes| bytes > 1 << 20));
        assert!(process.most_descriptors.is_some());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64();
        assert!(process.started.is_some_and(|started| started <= now + 1.0 && started > now - 86_400.0));
        std::thread::sleep(std::time::Duration::from_millis(3));
        assert_eq!(Process::now().started, process.started);
    }
}
