//! The metrics and their names. docs/metrics.md describes them.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::prometheus_text;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use proto::smb2::header::Command;
use proto::status::Status;
use server::accounting::{Report, Unit, Usage};
use server::audit::QueueNumbers;
use server::metrics::{BOUNDS, Numbers, Requests};
use server::status::CacheStatistics;
use server::vfs::WorkerNumbers;

use super::process::Process;
use crate::health::{Fault, FileSystem};

/// The MIME type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What is written.
#[derive(Default)]
pub(super) struct Source {
    pub(super) numbers: Numbers,
    pub(super) held: Report,
    pub(super) descriptors: CacheStatistics,
    pub(super) shares: usize,
    pub(super) faults: Vec<Fault>,
    pub(super) file_systems: Vec<(String, FileSystem)>,
    pub(super) audit: Vec<(String, QueueNumbers)>,
    /// Requests of users.
    pub(super) users: Vec<(String, u64)>,
    pub(super) process: Process,
}

/// Writes the metrics.
pub(super) fn text(source: &Source) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Lines(lines(source))));
    let mut text = String::new();
    match prometheus_text::encode(&mut text, &registry) {
        Ok(()) => text,
        Err(fmt::Error) => String::new(),
    }
}

/// A metric: its name, its description and its samples.
#[derive(Debug)]
struct Metric {
    name: &'static str,
    help: &'static str,
    samples: Samples,
}

/// The values of a metric with their labels.
#[derive(Debug)]
enum Samples {
    Counters(Vec<(Labels, u64)>),
    Seconds(Vec<(Labels, f64)>),
    Gauges(Vec<(Labels, f64)>),
    Histograms(Vec<(Labels, Requests)>),
}

type Labels = Vec<(&'static str, String)>;

/// Collects finished metrics.
#[derive(Debug)]
struct Lines(Vec<Metric>);

impl Collector for Lines {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for metric in &self.0 {
            let kind = match metric.samples {
                Samples::Counters(_) | Samples::Seconds(_) => MetricType::Counter,
                Samples::Gauges(_) => MetricType::Gauge,
                Samples::Histograms(_) => MetricType::Histogram,
            };
            let mut own = encoder.encode_descriptor(metric.name, metric.help, None, kind)?;
            match &metric.samples {
                Samples::Counters(values) => {
                    each(&mut own, values, |to, value| to.encode_counter::<NoLabelSet, _, f64>(value, None))?;
                }
                Samples::Seconds(values) => {
                    each(&mut own, values, |to, value| to.encode_counter::<NoLabelSet, _, f64>(value, None))?;
                }
                Samples::Gauges(values) => each(&mut own, values, |to, value| to.encode_gauge(value))?,
                Samples::Histograms(values) => each(&mut own, values, histogram)?,
            }
        }
        Ok(())
    }
}

fn each<T>(
    metric: &mut MetricEncoder<'_>,
    values: &[(Labels, T)],
    write: impl Fn(&mut MetricEncoder<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    for (labels, value) in values {
        match labels.is_empty() {
            true => write(metric, value)?,
            false => write(&mut metric.encode_family(labels)?, value)?,
        }
    }
    Ok(())
}

fn histogram(to: &mut MetricEncoder<'_>, requests: &Requests) -> fmt::Result {
    let bounds = BOUNDS.iter().map(|bound| bound.as_secs_f64()).chain([f64::MAX]);
    let buckets: Vec<(f64, u64)> = bounds.zip(requests.ranges).collect();
    to.encode_histogram::<NoLabelSet>(requests.took.as_secs_f64(), requests.count(), &buckets, None)
}

fn lines(source: &Source) -> Vec<Metric> {
    let Source { numbers, held, descriptors, shares, faults, file_systems, audit, users, process } = source;
    let mut metrics = vec![
        gauges(
            "frevo_build_info",
            "The version of the server. The value is 1.",
            vec![(vec![("version", env!("CARGO_PKG_VERSION").to_owned())], 1.0)],
        ),
        gauges("frevo_shares", "Shares in the configuration.", vec![(Vec::new(), *shares as f64)]),
    ];
    metrics.extend(of_requests(numbers));
    metrics.extend(of_shares(numbers));
    let requests = users.iter().map(|(name, requests)| (vec![("user", name.clone())], *requests));
    metrics.push(counters("frevo_user_requests", "Requests of the users with the most.", requests.collect()));
    let by = |label: &'static str, counts: &[(&'static str, u64)]| {
        counts.iter().map(|&(value, count)| (vec![(label, value.to_owned())], count)).collect()
    };
    let refused = numbers.refused_logons.iter().map(|&(status, count)| (vec![("status", of_status(status))], count));
    metrics.extend([
        counters("frevo_logons", "Logons that succeeded, by kind of user.", by("kind", &numbers.logons)),
        counters("frevo_logons_refused", "Logons that were refused, by NTSTATUS.", refused.collect()),
        counter("frevo_connections", "Connections that clients have made.", numbers.connections),
        counters("frevo_connections_ended", "Connections that the server has ended.", by("reason", &numbers.ended)),
        counter("frevo_oplock_breaks", "Notifications of oplock and lease breaks.", numbers.breaks),
        counter("frevo_acl_cache_hits", "Access checks that used a cached ACL.", descriptors.hits),
        counter("frevo_acl_cache_misses", "Access checks that read the file's ACL.", descriptors.misses),
        gauges("frevo_acl_cache_files", "Files whose ACL is cached.", vec![(Vec::new(), descriptors.entries as f64)]),
    ]);
    metrics.extend(of_health(faults, file_systems));
    metrics.extend(of_audit(audit));
    metrics.extend(of_memory(held));
    metrics.extend(of_process(process));
    metrics
}

fn of_status(status: Status) -> String {
    status.name().map_or_else(|| format!("{:#010x}", status.0), str::to_owned)
}

fn of_requests(numbers: &Numbers) -> [Metric; 3] {
    let each = |of: fn(&Requests) -> u64| {
        numbers.requests.iter().map(|(command, requests)| (of_command(*command), of(requests))).collect()
    };
    // The answer to a CHANGE_NOTIFY waits for a change, so its time says nothing about the server.
    let timed = numbers.requests.iter().filter(|(command, _)| *command != Command::CHANGE_NOTIFY);
    let times = timed.map(|(command, requests)| (of_command(*command), *requests)).collect();
    [
        counters("frevo_requests", "Requests, by command.", each(Requests::count)),
        counters("frevo_requests_failed", "Requests with an error status, by command.", each(|it| it.failed)),
        Metric {
            name: "frevo_request_duration_seconds",
            help: "The time from the moment at which the server begins with a request to its response.",
            samples: Samples::Histograms(times),
        },
    ]
}

fn of_command(command: Command) -> Labels {
    vec![("command", format!("{command:?}"))]
}

fn of_shares(numbers: &Numbers) -> [Metric; 5] {
    let each = |of: fn(&server::metrics::ShareNumbers) -> u64| {
        numbers.shares.iter().map(|(name, share)| (vec![("share", name.clone())], of(share))).collect()
    };
    [
        counters("frevo_share_requests", "Requests on a share.", each(|share| share.requests)),
        counters(
            "frevo_share_requests_failed",
            "Requests on a share with an error status.",
            each(|share| share.failed),
        ),
        counters("frevo_share_read_bytes", "Bytes that clients have read from a share.", each(|share| share.read)),
        counters("frevo_share_written_bytes", "Bytes that clients have written to a share.", each(|it| it.written)),
        Metric {
            name: "frevo_share_request_seconds",
            help: "The sum of the times of the requests on a share.",
            samples: Samples::Seconds(
                numbers
                    .shares
                    .iter()
                    .map(|(name, share)| (vec![("share", name.clone())], share.took.as_secs_f64()))
                    .collect(),
            ),
        },
    ]
}

fn of_health(faults: &[Fault], file_systems: &[(String, FileSystem)]) -> [Metric; 6] {
    let fault = |fault: &Fault| {
        let of = match fault {
            Fault::EventLoopBlocked { number } => number.to_string(),
            fault => fault.subject().unwrap_or_default().to_owned(),
        };
        (vec![("fault", fault.name().to_owned()), ("of", of)], 1.0)
    };
    let each = |of: fn(&FileSystem) -> f64| {
        file_systems.iter().map(|(share, it)| (vec![("share", share.clone())], of(it))).collect()
    };
    let workers = |of: fn(&WorkerNumbers) -> usize| {
        let numbers = |it: &FileSystem| it.workers.map(|workers| of(&workers) as f64);
        let each = |(share, it): &(String, FileSystem)| Some((vec![("share", share.clone())], numbers(it)?));
        file_systems.iter().filter_map(each).collect()
    };
    [
        gauges("frevo_fault", "What is wrong. The value is 1.", faults.iter().map(fault).collect()),
        gauges("frevo_file_system_size_bytes", "The size of a share's file system.", each(|it| it.size as f64)),
        gauges(
            "frevo_file_system_available_bytes",
            "What users may still fill of a share's file system.",
            each(|it| it.available as f64),
        ),
        gauges(
            "frevo_file_system_answer_seconds",
            "How long a share's file system took to tell its space.",
            each(|it| it.took.as_secs_f64()),
        ),
        gauges(
            "frevo_file_system_threads",
            "Threads that make calls to a share's file system.",
            workers(|it| it.threads),
        ),
        gauges(
            "frevo_file_system_queue",
            "Calls to a share's file system that wait for a thread.",
            workers(|it| it.waiting),
        ),
    ]
}

fn of_audit(destinations: &[(String, QueueNumbers)]) -> [Metric; 5] {
    let labels = |name: &String| vec![("destination", name.clone())];
    let counts = |of: fn(&QueueNumbers) -> u64| {
        destinations.iter().map(|(name, numbers)| (labels(name), of(numbers))).collect::<Vec<_>>()
    };
    let values = |of: fn(&QueueNumbers) -> f64| {
        destinations.iter().map(|(name, numbers)| (labels(name), of(numbers))).collect::<Vec<_>>()
    };
    [
        counters("frevo_audit_events_written", "Audit events that were written.", counts(|it| it.written)),
        counters("frevo_audit_events_lost", "Audit events that were lost.", counts(|it| it.lost)),
        counters(
            "frevo_audit_requests_refused",
            "Requests that were refused because their audit events did not fit.",
            counts(|it| it.refused),
        ),
        gauges("frevo_audit_queued_bytes", "Audit events that wait.", values(|it| it.bytes as f64)),
        gauges("frevo_audit_stalled", "1 if the destination accepts no audit events.", values(|it| it.stalled.into())),
    ]
}

fn of_memory(held: &Report) -> Vec<Metric> {
    let used = |usage: &Usage| usage.held as f64;
    let each = |bytes: bool, value: fn(&Usage) -> Option<usize>| {
        let resources = held.resources.iter().filter(move |(resource, _)| (resource.unit() == Unit::Bytes) == bytes);
        let sample = |(resource, usage): &(server::accounting::Resource, Usage)| {
            value(usage).map(|value| (vec![("resource", resource.name().to_owned())], value as f64))
        };
        resources.filter_map(sample).collect::<Vec<_>>()
    };
    let bound = |usage: &Usage| (usage.bound != usize::MAX).then_some(usage.bound);
    let users = held.users.iter().map(|(name, usage)| (vec![("user", name.clone())], used(usage))).collect();
    vec![
        gauges(
            "frevo_memory_bytes",
            "Memory that the server holds for clients.",
            vec![(Vec::new(), used(&held.memory))],
        ),
        gauges(
            "frevo_memory_limit_bytes",
            "The limit of frevo_memory_bytes.",
            vec![(Vec::new(), held.memory.bound as f64)],
        ),
        gauges("frevo_held", "What the server holds for clients.", each(false, |usage| Some(usage.held))),
        gauges("frevo_held_limit", "The limits of frevo_held.", each(false, bound)),
        gauges("frevo_held_bytes", "Memory by what it is for.", each(true, |usage| Some(usage.held))),
        gauges("frevo_user_memory_bytes", "Memory of the users that hold the most.", users),
    ]
}

fn of_process(process: &Process) -> Vec<Metric> {
    let gauge = |name, help, value: Option<f64>| value.map(|value| gauges(name, help, vec![(Vec::new(), value)]));
    let seconds = |value| Metric {
        name: "process_cpu_seconds",
        help: "Processor time of the server.",
        samples: Samples::Seconds(vec![(Vec::new(), value)]),
    };
    let number = |value: Option<u64>| value.map(|value| value as f64);
    let gauges = [
        gauge("process_resident_memory_bytes", "Resident memory.", number(process.resident_bytes)),
        gauge("process_open_fds", "Open descriptors.", number(process.open_descriptors)),
        gauge("process_max_fds", "Maximum number of open descriptors.", number(process.most_descriptors)),
        gauge("process_start_time_seconds", "When the server started, since 1970.", process.started),
    ];
    process.cpu_seconds.map(seconds).into_iter().chain(gauges.into_iter().flatten()).collect()
}

fn counter(name: &'static str, help: &'static str, value: u64) -> Metric {
    counters(name, help, vec![(Vec::new(), value)])
}

fn counters(name: &'static str, help: &'static str, values: Vec<(Labels, u64)>) -> Metric {
    Metric { name, help, samples: Samples::Counters(values) }
}

fn gauges(name: &'static str, help: &'static str, values: Vec<(Labels, f64)>) -> Metric {
    Metric { name, help, samples: Samples::Gauges(values) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use server::metrics::ShareNumbers;

    use super::*;

    #[test]
    fn metrics_have_prometheus_text_format() {
        let mut reads = Requests { failed: 1, took: Duration::from_millis(1_500), ..Requests::default() };
        reads.ranges[0] = 2;
        reads.ranges[BOUNDS.len()] = 1;
        let took = Duration::from_millis(2_500);
        let numbers = Numbers {
            requests: vec![(Command::READ, reads), (Command::CHANGE_NOTIFY, reads)],
            shares: vec![("a \"b\"\\".into(), ShareNumbers { requests: 5, failed: 1, read: 7, written: 9, took })],
            logons: vec![("user", 3)],
            refused_logons: vec![(Status::LOGON_FAILURE, 4)],
            ended: vec![("deadtime", 2)],
            connections: 8,
            breaks: 0,
        };
        let users = vec![("EXAMPLE\\alice".into(), 6), ("*".into(), 1)];
        let file_system =
            FileSystem { workers: Some(WorkerNumbers { threads: 48, waiting: 7 }), ..FileSystem::default() };
        let file_systems = vec![("data".into(), file_system), ("other".into(), FileSystem::default())];
        let text = text(&Source { numbers, users, file_systems, ..Source::default() });
        for line in [
            "# TYPE frevo_requests_total counter",
            "frevo_requests_total{command=\"READ\"} 3",
            "frevo_requests_total{command=\"CHANGE_NOTIFY\"} 3",
            "frevo_requests_failed_total{command=\"READ\"} 1",
            "frevo_request_duration_seconds_bucket{command=\"READ\",le=\"1e-05\"} 2",
            "frevo_request_duration_seconds_bucket{command=\"READ\",le=\"+Inf\"} 3",
            "frevo_request_duration_seconds_sum{command=\"READ\"} 1.5",
            "frevo_request_duration_seconds_count{command=\"READ\"} 3",
            "frevo_share_read_bytes_total{share=\"a \\\"b\\\"\\\\\"} 7",
            "frevo_share_request_seconds_total{share=\"a \\\"b\\\"\\\\\"} 2.5",
            "frevo_logons_refused_total{status=\"STATUS_LOGON_FAILURE\"} 4",
            "frevo_connections_ended_total{reason=\"deadtime\"} 2",
            "frevo_connections_total 8",
            "frevo_user_requests_total{user=\"EXAMPLE\\\\alice\"} 6",
            "frevo_user_requests_total{user=\"*\"} 1",
            "frevo_file_system_threads{share=\"data\"} 48.0",
            "frevo_file_system_queue{share=\"data\"} 7.0",
        ] {
            assert!(text.lines().any(|own| own == line), "{line}\n{text}");
        }
        assert!(!text.contains("frevo_file_system_queue{share=\"other\"}"), "{text}");
        assert!(!text.contains("duration_seconds_count{command=\"CHANGE_NOTIFY\"}"), "{text}");
    }
}
