//! The load generator: workers that perform one operation after another, and the counts that they collect. A closed
//! loop runs as fast as answers arrive. An open loop runs at a given rate, whether or not answers arrive.
//!
//! A time-limited round always lasts at least that long, even if workers fail or few operations are due. In an open
//! loop, operations that were due but did not begin before the end are recorded with the time that they waited.
//! Otherwise the measurement would omit exactly the operations that a stalled server delayed.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hdrhistogram::Histogram;
use report::record::Latency;
use tokio::task::JoinSet;

use crate::random::Random;

/// Name of the value of an open-loop round for operations that were due but did not begin before the end.
pub const MISSED: &str = "operations due and not begun";

/// The result of one step of a worker.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Done {
    /// Number of operations that the step represents, usually 1.
    pub operations: u64,
    /// Payload, in bytes.
    pub bytes: u64,
}

impl Done {
    /// Returns the result of one operation that moved `bytes`.
    pub fn one(bytes: u64) -> Done {
        Done { operations: 1, bytes }
    }
}

/// A worker that can repeat an operation.
pub trait Worker: Send + 'static {
    /// Whether a step blocks its thread. Then the worker gets a thread of its own.
    const BLOCKS: bool = false;

    /// Performs one step.
    fn step(&mut self) -> impl Future<Output = Result<Done>> + Send;
}

/// The counts of a round.
#[derive(Debug)]
pub struct Sample {
    /// Duration, in seconds.
    pub seconds: f64,
    /// Operations that succeeded.
    pub operations: u64,
    /// Payload, in bytes.
    pub bytes: u64,
    /// Operations that failed.
    pub errors: u64,
    /// The error of the first failed operation.
    pub failure: Option<String>,
    /// Latency of operations, in nanoseconds.
    pub latency: Histogram<u64>,
    /// Other values, by name and unit.
    pub figures: BTreeMap<String, f64>,
}

impl Default for Sample {
    fn default() -> Self {
        Sample {
            seconds: 0.0,
            operations: 0,
            bytes: 0,
            errors: 0,
            failure: None,
            // Up to an hour, with a resolution of a thousandth.
            latency: Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("the bounds are in order"),
            figures: BTreeMap::new(),
        }
    }
}

impl Sample {
    /// Returns the sample of work that was done once and took `time`.
    pub fn timed(time: Duration, operations: u64, bytes: u64) -> Sample {
        Sample { seconds: time.as_secs_f64(), operations, bytes, ..Sample::default() }
    }

    /// Adds a step that took `time`. The time of several operations together is not recorded as a latency.
    pub fn count(&mut self, done: Done, time: Duration) {
        self.operations += done.operations;
        self.bytes += done.bytes;
        if done.operations != 1 {
            return;
        }
        self.record(time);
    }

    fn record(&mut self, time: Duration) {
        self.latency.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1));
    }

    /// Records the operations that were due before `end` and have not begun at `now`.
    fn count_missed(&mut self, schedule: &mut Schedule, end: Duration, now: Duration) {
        let mut missed = 0.0;
        let mut due = schedule.next();
        while due < end {
            self.record(now.saturating_sub(due));
            missed += 1.0;
            due = schedule.next();
        }
        if missed > 0.0 {
            *self.figures.entry(MISSED.to_owned()).or_default() += missed;
        }
    }

    /// Adds latencies that a worker measured itself, in nanoseconds, for operations that are not timed one by one.
    pub fn add_latency(&mut self, times: &Histogram<u64>) {
        self.latency.add(times).expect("all histograms have the same bounds");
    }

    /// Adds the counts that another worker collected at the same time.
    pub fn merge(&mut self, other: Sample) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.failure = self.failure.take().or(other.failure);
        self.add_latency(&other.latency);
        for (name, value) in other.figures {
            *self.figures.entry(name).or_default() += value;
        }
    }

    /// Returns the summary of the latency, or `None` if no operation was timed.
    pub fn latency(&self) -> Option<Latency> {
        let microseconds = |quantile: f64| self.latency.value_at_quantile(quantile) as f64 / 1e3;
        (!self.latency.is_empty()).then(|| Latency {
            mean: self.latency.mean() / 1e3,
            p50: microseconds(0.5),
            p90: microseconds(0.9),
            p99: microseconds(0.99),
            p999: microseconds(0.999),
            max: self.latency.max() as f64 / 1e3,
        })
    }

    /// Returns the histogram in the form of [`report::record::Round::histogram`].
    pub fn histogram(&self) -> Vec<(f64, u64)> {
        let buckets = self.latency.iter_log(1_000, 1.25);
        let filled = buckets.filter(|bucket| bucket.count_since_last_iteration() > 0);
        filled.map(|it| (it.value_iterated_to() as f64 / 1e3, it.count_since_last_iteration())).collect()
    }
}

/// The settings of a load.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pace {
    /// When workers stop.
    pub until: Until,
    /// Operations per second of all workers together, for an open loop. `None` means a closed loop.
    pub rate: Option<f64>,
    /// Whether a failure is counted instead of ending the round.
    pub allow_errors: bool,
    /// The seed for the times of an open loop.
    pub seed: u64,
}

/// When workers stop.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Until {
    /// When this time has passed.
    Time(Duration),
    /// When each worker has done this many operations.
    Operations(u64),
}

/// Runs all `workers` and returns them with their counts. The first failure ends the round unless errors are allowed. A
/// worker that failed is not returned.
///
/// # Errors
///
/// A worker failed, or `workers` is empty: a round without requests has no meaning for the server.
pub async fn run<W: Worker>(workers: Vec<W>, pace: Pace) -> Result<(Sample, Vec<W>)> {
    ensure!(
        !workers.is_empty(),
        "no connection is left to measure with: all of them failed earlier; check the server's log"
    );
    let begin = Instant::now();
    let each = pace.rate.map(|rate| rate / workers.len().max(1) as f64);
    let (mut tasks, stop) = (JoinSet::new(), StopSignal::default());
    for (number, worker) in workers.into_iter().enumerate() {
        let schedule = each.map(|rate| Schedule::new(pace.seed.wrapping_add(number as u64), rate));
        let work = work(worker, begin, pace, schedule, stop.0.clone());
        if W::BLOCKS {
            tasks.spawn_blocking(|| thread_runtime()?.block_on(work));
        } else {
            tasks.spawn(work);
        }
    }
    let mut sample = Sample::default();
    let mut workers = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        let (counted, worker) = ended??;
        sample.merge(counted);
        workers.extend(worker);
    }
    sample.seconds = begin.elapsed().as_secs_f64();
    Ok((sample, workers))
}

/// Returns a runtime for a thread whose only task is a worker that blocks. It has only timers, for an open loop.
fn thread_runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_time().build()?)
}

/// Dropped with the future that waits for a thread, it signals the thread to stop.
#[derive(Default)]
pub(crate) struct StopSignal(pub(crate) Arc<AtomicBool>);

impl Drop for StopSignal {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

async fn work<W: Worker>(
    mut worker: W,
    begin: Instant,
    pace: Pace,
    mut schedule: Option<Schedule>,
    stop: Arc<AtomicBool>,
) -> Result<(Sample, Option<W>)> {
    let mut sample = Sample::default();
    let kept = loop {
        ensure!(!stop.load(Ordering::Relaxed), "interrupted");
        let over = match pace.until {
            Until::Time(time) => begin.elapsed() >= time,
            Until::Operations(count) => sample.operations >= count,
        };
        if over {
            break Some(worker);
        }
        let mut start = Instant::now();
        if let Some(schedule) = &mut schedule {
            // The time is measured from when the operation should have begun: a slow server delays the following
            // operations too, and that delay is part of the latency.
            start = begin + schedule.next();
            if let Until::Time(time) = pace.until
                && start >= begin + time
            {
                break Some(worker);
            }
            tokio::time::sleep_until(start.into()).await;
        }
        match worker.step().await {
            Ok(done) => sample.count(done, start.elapsed()),
            Err(error) if pace.allow_errors => {
                sample.errors += 1;
                sample.failure = Some(format!("{error:#}"));
                break None;
            }
            Err(error) => return Err(error),
        }
    };
    if let Until::Time(time) = pace.until {
        tokio::time::sleep_until((begin + time).into()).await;
        if let Some(schedule) = &mut schedule {
            sample.count_missed(schedule, time, begin.elapsed());
        }
    }
    Ok((sample, kept))
}

/// The due times of an open loop's operations, a Poisson process.
struct Schedule {
    random: Random,
    rate: f64,
    due: f64,
}

impl Schedule {
    fn new(seed: u64, rate: f64) -> Schedule {
        // Workers use the same seed for their choices. The times must not correlate with the choices.
        Schedule { random: Random::new(!seed), rate, due: 0.0 }
    }

    /// Returns when the next operation is due, relative to the beginning.
    fn next(&mut self) -> Duration {
        self.due += self.random.exponential(1.0 / self.rate);
        Duration::from_secs_f64(self.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    struct Counter(u64);

    impl Worker for Counter {
        async fn step(&mut self) -> Result<Done> {
            self.0 += 1;
            if self.0 == 50 {
                bail!("the fiftieth operation fails");
            }
            tokio::task::yield_now().await;
            Ok(Done::one(10))
        }
    }

    fn pace(until: Until) -> Pace {
        Pace { until, rate: None, allow_errors: false, seed: 1 }
    }

    #[tokio::test]
    async fn every_operation_is_counted_once() {
        let (sample, workers) = run(vec![Counter(0), Counter(0)], pace(Until::Operations(20))).await.unwrap();
        assert_eq!((sample.operations, sample.bytes, sample.errors), (40, 400, 0));
        assert_eq!((sample.latency.len(), workers.len()), (40, 2));
    }

    #[tokio::test]
    async fn a_failure_ends_the_run_unless_errors_are_allowed() {
        let until = Until::Operations(100);
        assert_eq!(run(vec![Counter(0)], pace(until)).await.err().unwrap().to_string(), "the fiftieth operation fails");
        let pace = Pace { allow_errors: true, ..pace(until) };
        let (sample, workers) = run(vec![Counter(0)], pace).await.unwrap();
        assert_eq!((sample.operations, sample.errors, workers.len()), (49, 1, 0));
        assert!(run(workers, pace).await.err().unwrap().to_string().contains("no connection is left"));
    }

    /// A worker whose step takes longer than a round.
    struct Stalling;

    impl Worker for Stalling {
        async fn step(&mut self) -> Result<Done> {
            tokio::time::sleep(Duration::from_millis(60)).await;
            Ok(Done::one(0))
        }
    }

    #[tokio::test]
    async fn operations_delayed_by_a_stall_are_counted() {
        let until = Until::Time(Duration::from_millis(50));
        let (sample, _) = run(vec![Stalling], Pace { rate: Some(10_000.0), ..pace(until) }).await.unwrap();
        let missed = sample.figures[MISSED];
        assert_eq!(sample.operations, 1);
        assert!(missed > 300.0 && sample.latency.len() as f64 == missed + 1.0, "{missed}");
        // Half of 500 operations were due in the first half of the round, and the stall lasted longer than the whole
        // round.
        assert!(sample.latency().unwrap().p50 > 25_000.0, "{:?}", sample.latency());
    }

    /// A worker that blocks its thread until all of them do so.
    struct Meeting(Arc<std::sync::Barrier>);

    impl Worker for Meeting {
        const BLOCKS: bool = true;

        async fn step(&mut self) -> Result<Done> {
            self.0.wait();
            Ok(Done::one(0))
        }
    }

    #[tokio::test]
    async fn workers_that_block_have_a_thread_each() {
        let barrier = Arc::new(std::sync::Barrier::new(20));
        let workers = (0..20).map(|_| Meeting(barrier.clone())).collect();
        let (sample, workers) = run(workers, pace(Until::Operations(3))).await.unwrap();
        assert_eq!((sample.operations, workers.len()), (60, 20));
    }

    /// A worker that blocks, and counts its steps.
    struct Busy(Arc<std::sync::atomic::AtomicU64>);

    impl Worker for Busy {
        const BLOCKS: bool = true;

        async fn step(&mut self) -> Result<Done> {
            std::thread::sleep(Duration::from_millis(1));
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(Done::one(0))
        }
    }

    #[tokio::test]
    async fn a_worker_that_blocks_stops_with_the_round() {
        let count = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let round = run(vec![Busy(count.clone())], pace(Until::Operations(u64::MAX)));
        assert!(tokio::time::timeout(Duration::from_millis(50), round).await.is_err());
        // The thread owns a reference until it ends.
        while Arc::strong_count(&count) > 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(count.load(Ordering::Relaxed) > 0);
    }

    #[tokio::test]
    async fn a_round_has_the_specified_duration() {
        let until = Until::Time(Duration::from_millis(50));
        let rare = Pace { rate: Some(1e-6), ..pace(until) };
        let (sample, workers) = run(vec![Counter(0)], rare).await.unwrap();
        assert!(sample.seconds >= 0.05 && workers.len() == 1, "{sample:?}");
        let tolerant = Pace { allow_errors: true, ..pace(until) };
        let (sample, workers) = run(vec![Counter(0)], tolerant).await.unwrap();
        assert!(sample.seconds >= 0.05 && workers.is_empty(), "{sample:?}");
        assert_eq!((sample.operations, sample.failure.as_deref()), (49, Some("the fiftieth operation fails")));
    }

    #[test]
    fn an_open_loop_keeps_its_rate() {
        let mut schedule = Schedule::new(7, 1000.0);
        let mut last = Duration::ZERO;
        for _ in 0..10_000 {
            last = schedule.next();
        }
        assert!((9.5..10.5).contains(&last.as_secs_f64()), "{last:?}");
    }
}
