//! E8: socket buffers and TCP_NODELAY over links with several delays (PC Watch, *SMB tuning follow-up*; *Using Samba*,
//! figure B.1: throughput rises with SO_SNDBUF up to a limit of the network, then levels off).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use client::Window;
use report::metric::{Metric, median};
use report::record::{Axis, Case, Experiment, Figure, Kind, Point, Series, Table};
use report::units;

use super::conf::{Scope, Setting};
use super::link::{Link, Shape};
use super::start::{Started, Starter};
use super::work::{self, Sizes, Work};
use super::{Location, Serve};
use crate::load::{self, Pace, Until};
use crate::method::{Bench, Server, Turn};

/// The options of the experiment.
#[derive(Args, Clone, Default, Debug)]
pub struct Options {
    #[command(flatten)]
    pub(super) serve: Serve,
    /// Round-trip delays of the link, in ms, separated by commas [default: 0.1,1,10]
    #[arg(long, value_name = "MS", value_delimiter = ',')]
    delay: Vec<f64>,
    /// Bandwidth of the link, in Mbit/s [default: 1000]
    #[arg(long, value_name = "MBIT")]
    bandwidth: Option<f64>,
}

/// Size of a request, in bytes.
const PIECE: u32 = 64 << 10;
/// Buffer sizes of the sweep, in KiB.
const BUFFERS: [u64; 11] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];
const QUICK: [u64; 3] = [8, 64, 1024];
/// A buffer size that reaches this fraction of the best throughput is large enough.
const ENOUGH: f64 = 0.97;

/// The settings of the server's sockets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Variant {
    /// SO_SNDBUF and SO_RCVBUF in KiB, with TCP_NODELAY.
    Buffers(u64),
    /// The kernel's default sizes, with or without TCP_NODELAY.
    Kernel { no_delay: bool },
}

impl Variant {
    fn value(self) -> String {
        match self {
            Variant::Buffers(kib) => format!("TCP_NODELAY SO_SNDBUF={0} SO_RCVBUF={0}", kib << 10),
            Variant::Kernel { no_delay } => format!("TCP_NODELAY={}", u8::from(no_delay)),
        }
    }

    fn label(self) -> String {
        match self {
            Variant::Buffers(kib) => units::bytes((kib << 10) as f64),
            Variant::Kernel { no_delay: true } => "the kernel's default".to_owned(),
            Variant::Kernel { no_delay: false } => "the kernel's default, TCP_NODELAY off".to_owned(),
        }
    }

    fn x(self) -> Option<f64> {
        match self {
            Variant::Buffers(kib) => Some(kib as f64),
            Variant::Kernel { .. } => None,
        }
    }
}

/// The measurements over one link.
struct Over {
    delay: f64,
    variants: Vec<Variant>,
    /// The case of each work, for each variant.
    cases: Vec<Vec<Case>>,
}

struct Sweep<'a> {
    starters: Vec<Starter<'a>>,
    works: &'static [Work],
    warm_up: Duration,
    round: Duration,
    refused: RefCell<BTreeMap<(usize, String), String>>,
    /// Time of an ECHO in seconds, for each measurement over the current link.
    echoes: RefCell<Vec<f64>>,
}

/// Runs the experiment.
pub(super) async fn run(bench: &Bench, options: &Options) -> Result<Experiment> {
    let delays = if options.delay.is_empty() { vec![0.1, 1.0, 10.0] } else { options.delay.clone() };
    let megabits = options.bandwidth.unwrap_or(1000.0);
    ensure!((0.1..=100_000.0).contains(&megabits), "--bandwidth {megabits} is not between 0.1 and 100000 Mbit/s");
    ensure!(delays.iter().all(|it| (0.0..=10_000.0).contains(it)), "--delay is not between 0 and 10000 ms");
    let works = bench.method.pick([Work::Read, Work::Write, Work::Small].as_slice(), &[Work::Read]);
    let sweep = Sweep {
        starters: options.serve.starters(bench)?,
        works,
        // These are short, because there are many variants.
        warm_up: bench.method.warm_up / bench.method.pick(5, 2),
        round: bench.method.round / bench.method.pick(5, 2),
        refused: RefCell::default(),
        echoes: RefCell::default(),
    };
    let buffers: &[u64] = bench.method.pick(&BUFFERS, &QUICK);
    let kernel = [true, false].map(|no_delay| Variant::Kernel { no_delay });
    let variants: Vec<Variant> = kernel.into_iter().chain(buffers.iter().copied().map(Variant::Buffers)).collect();
    bench.begin("tune socket", delays.len() * variants.len() * works.len());
    let usual = sizes(Duration::ZERO, megabits);
    for starter in &sweep.starters {
        work::prepare(&starter.start(&[], &Location::here()).await?.server, usual).await?;
    }
    let (mut over, mut remarks) = (Vec::new(), Vec::new());
    for delay in delays {
        let shape = Shape { round_trip: Duration::from_secs_f64(delay / 1e3), rate: megabits * 1e6 };
        let link = Link::make(shape)?;
        sweep.echoes.borrow_mut().clear();
        let cases = sweep.over(bench, &link, delay, &variants, sizes(shape.round_trip, megabits)).await?;
        over.push(Over { delay, variants: variants.clone(), cases });
        let echo = median(sweep.echoes.borrow().iter().copied()).unwrap_or(f64::NAN);
        let echo = units::seconds(echo);
        remarks.push(format!("The link of {delay} ms was made with {}; an ECHO over it took {echo}.", link.made_by()));
    }
    for starter in &sweep.starters {
        work::clean(&starter.start(&[], &Location::here()).await?.server, usual).await?;
    }
    for ((server, value), why) in sweep.refused.borrow().iter() {
        let name = &bench.servers[*server].name;
        remarks.push(format!("{name} cannot be measured with `socket options = {value}`: {why}"));
    }
    Ok(experiment(&bench.names(), works, over, megabits, &sweep, remarks))
}

/// Returns the sizes for one connection with enough concurrent requests to fill the link.
fn sizes(round_trip: Duration, megabits: f64) -> Sizes {
    let on_the_way = megabits * 1e6 / 8.0 * round_trip.as_secs_f64();
    let depth = ((on_the_way * 2.0 / f64::from(PIECE)).ceil() as usize).clamp(8, 256);
    Sizes { clients: 1, file: 64 << 20, entries: 0, window: Window { piece: PIECE, depth } }
}

impl Sweep<'_> {
    /// Measures all variants over one link. Returns the case of each work, for each variant.
    async fn over(
        &self,
        bench: &Bench,
        link: &Link,
        delay: f64,
        variants: &[Variant],
        sizes: Sizes,
    ) -> Result<Vec<Vec<Case>>> {
        let mut titles: Vec<(String, Option<f64>)> = Vec::new();
        for variant in variants {
            let title = |work: &Work| (format!("{}, {delay} ms, {}", work.name(), variant.label()), variant.x());
            titles.extend(self.works.iter().map(title));
        }
        let names: Vec<(&str, Option<f64>)> = titles.iter().map(|(title, x)| (title.as_str(), *x)).collect();
        let turn = async |server: &Server, turn: &Turn<'_>| {
            let mut order: Vec<(usize, Variant)> = variants.iter().copied().enumerate().collect();
            if turn.number.is_multiple_of(2) {
                order.reverse();
            }
            for (index, variant) in order {
                self.variant(server.index, variant, index * self.works.len(), sizes, link, turn).await?;
            }
            Ok(())
        };
        let rounds = bench.method.rounds.min(bench.method.pick(u32::MAX, 2));
        let cases = bench.cold_cases(rounds, &names, turn).await?;
        Ok(cases.chunks(self.works.len()).map(<[Case]>::to_vec).collect())
    }

    async fn variant(
        &self,
        server: usize,
        variant: Variant,
        first: usize,
        sizes: Sizes,
        link: &Link,
        turn: &Turn<'_>,
    ) -> Result<()> {
        let value = variant.value();
        let leave_out = || (first..first + self.works.len()).try_for_each(|case| turn.leave_out(case));
        if self.refused.borrow().contains_key(&(server, value.clone())) {
            return leave_out();
        }
        let settings: [Setting<'_>; 1] = [(Scope::Global, "socket options", &value)];
        let started = match self.starters[server].start(&settings, &link.place()).await {
            Ok(started) => started,
            Err(error) if matches!(variant, Variant::Buffers(_)) => {
                self.refused.borrow_mut().insert((server, value), format!("{error:#}"));
                return leave_out();
            }
            Err(error) => return Err(error),
        };
        let took = echo(&started).await?;
        self.echoes.borrow_mut().push(took);
        for (case, work) in (first..).zip(self.works) {
            let hands = work::hands(&started.server, *work, sizes, turn.seed).await?;
            let pace = |time| Pace { until: Until::Time(time), ..turn.pace() };
            let (_, hands) = load::run(hands, pace(self.warm_up)).await?;
            let measured = async { Ok(load::run(hands, pace(self.round)).await?.0) };
            turn.measure_of(case, started.server.processes.as_ref(), measured).await?;
        }
        Ok(())
    }
}

/// Returns the time of an ECHO in seconds: the link's delay and what both ends add.
async fn echo(started: &Started) -> Result<f64> {
    let mut client = started.server.connect().await?;
    let mut times = Vec::new();
    for _ in 0..5 {
        let begin = Instant::now();
        client.echo().await?;
        times.push(begin.elapsed().as_secs_f64());
    }
    Ok(median(times).unwrap_or(f64::NAN))
}

fn experiment(
    names: &[&str],
    works: &[Work],
    over: Vec<Over>,
    megabits: f64,
    sweep: &Sweep<'_>,
    remarks: Vec<String>,
) -> Experiment {
    let mut all = verdicts(names, works, &over);
    all.extend(remarks);
    let requests = |delay: f64| sizes(Duration::from_secs_f64(delay / 1e3), megabits).window.depth.to_string();
    let mut settings = vec![
        ("bandwidth".to_owned(), format!("{megabits} Mbit/s")),
        ("connections".to_owned(), "1".to_owned()),
        ("request".to_owned(), units::bytes(f64::from(PIECE))),
        ("round, seconds".to_owned(), sweep.round.as_secs_f64().to_string()),
    ];
    settings.extend(over.iter().map(|it| (format!("concurrent requests at {} ms", it.delay), requests(it.delay))));
    Experiment {
        name: "tune socket".into(),
        title: "How large must socket buffers be?".into(),
        study: "PC Watch, \"SMB tuning follow-up\": SO_SNDBUF of twice the segment size (2920) gave 6.88 and 6.85 \
                MB/s, no gain. Using Samba, figure B.1: throughput rises with SO_SNDBUF up to a limit of the \
                network, then levels off; TCP_NODELAY alone gave 30 to 50 %."
            .into(),
        settings,
        tables: (0..works.len()).map(|work| table(names, works[work], work, &over)).collect(),
        figures: (0..works.len()).map(|work| figure(names, works[work], work, &over)).collect(),
        remarks: all,
        cases: over.into_iter().flat_map(|it| it.cases).flatten().collect(),
    }
}

fn table(names: &[&str], what: Work, work: usize, over: &[Over]) -> Table {
    let mut head = vec!["buffers".to_owned()];
    for it in over {
        head.extend(names.iter().map(|name| format!("{} ms, {name}", it.delay)));
    }
    let variants = over.first().map_or(&[][..], |it| &it.variants);
    let row = |(index, variant): (usize, &Variant)| {
        let cells = over.iter().flat_map(|it| &it.cases[index][work].servers);
        let cells = cells.map(|rounds| Metric::THROUGHPUT.cell(rounds));
        std::iter::once(variant.label()).chain(cells).collect()
    };
    let rows = variants.iter().enumerate().map(row).collect();
    Table { title: format!("Socket buffers of the server: {}", what.name()), head, rows }
}

/// Returns a figure of throughput by buffer size, with a line for each server and delay.
fn figure(names: &[&str], what: Work, work: usize, over: &[Over]) -> Figure {
    let mut series = Vec::new();
    for (it, (server, name)) in over.iter().flat_map(|it| names.iter().enumerate().map(move |name| (it, name))) {
        let point = |cases: &Vec<Case>| Metric::THROUGHPUT.point(cases[work].x?, cases[work].servers.get(server)?);
        let points: Vec<Point> = it.cases.iter().filter_map(point).collect();
        series.push(Series { name: format!("{name}, {} ms", it.delay), then: false, server: Some(server), points });
    }
    Figure {
        title: format!("Socket buffers of the server: {}", what.name()),
        x: Axis { label: "SO_SNDBUF and SO_RCVBUF".into(), unit: "KiB".into(), logarithmic: true },
        y: Metric::THROUGHPUT.axis(),
        kind: Kind::Lines,
        categories: Vec::new(),
        series,
    }
}

/// Returns remarks about the buffers that each link needs, and whether the kernel's defaults suffice.
fn verdicts(names: &[&str], works: &[Work], over: &[Over]) -> Vec<String> {
    let mut remarks = Vec::new();
    let mut kernel_always = true;
    for (it, (server, name)) in over.iter().flat_map(|it| names.iter().enumerate().map(move |name| (it, name))) {
        for (work, what) in works.iter().enumerate() {
            let speed = |wanted: Variant| {
                let index = it.variants.iter().position(|variant| *variant == wanted)?;
                Metric::THROUGHPUT.median(it.cases[index][work].servers.get(server)?)
            };
            let sizes = it.variants.iter().filter(|variant| variant.x().is_some());
            let swept: Vec<(Variant, f64)> = sizes.filter_map(|variant| Some((*variant, speed(*variant)?))).collect();
            let best = swept.iter().map(|(_, speed)| *speed).fold(0.0, f64::max);
            let enough = swept.iter().find(|(_, speed)| *speed >= best * ENOUGH);
            let (Some((enough, _)), Some(kernel)) = (enough, speed(Variant::Kernel { no_delay: true })) else {
                continue;
            };
            let share = kernel / best;
            kernel_always &= share >= ENOUGH;
            let gain = speed(Variant::Kernel { no_delay: false }).map(|off| units::ratio(kernel / off));
            remarks.push(format!(
                "{name}, {} ms, {}: buffers of {} suffice; the kernel's default reaches {} of the best; \
                 TCP_NODELAY gives {}.",
                it.delay,
                what.name(),
                enough.label(),
                units::percent(share),
                gain.unwrap_or_else(|| units::NOTHING.to_owned()),
            ));
        }
    }
    remarks.push(if kernel_always {
        "Recommended default: TCP_NODELAY and the kernel's default sizes, which reach the best throughput on \
         every link."
            .to_owned()
    } else {
        "The kernel's default sizes do not reach the best throughput on every link: check the table before \
         changing the default."
            .to_owned()
    });
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::record::Round;

    fn over(speeds: [u64; 4]) -> Over {
        let variants = vec![
            Variant::Kernel { no_delay: true },
            Variant::Kernel { no_delay: false },
            Variant::Buffers(8),
            Variant::Buffers(64),
        ];
        let round = |mib| vec![vec![Round { seconds: 1.0, bytes: mib << 20, ..Round::default() }]];
        let case =
            |(variant, mib): (&Variant, u64)| vec![Case { x: variant.x(), servers: round(mib), ..Case::default() }];
        let cases = variants.iter().zip(speeds).map(case).collect();
        Over { delay: 1.0, variants, cases }
    }

    #[test]
    fn the_default_follows_from_the_measurements() {
        let check = |speeds, first: &str, last: &str| {
            let remarks = verdicts(&["ours"], &[Work::Read], &[over(speeds)]);
            assert_eq!(remarks[0], first);
            assert!(remarks[1].starts_with(last), "{remarks:?}");
        };
        check(
            [100, 80, 10, 101],
            "ours, 1 ms, sequential read: buffers of 64 KiB suffice; the kernel's default reaches 99 % of the best; \
             TCP_NODELAY gives 1.25x.",
            "Recommended default",
        );
        check(
            [50, 50, 99, 100],
            "ours, 1 ms, sequential read: buffers of 8 KiB suffice; the kernel's default reaches 50 % of the best; \
             TCP_NODELAY gives 1x.",
            "The kernel's default sizes do not",
        );
    }

    #[test]
    fn each_server_and_delay_has_a_line() {
        let all = [over([100, 80, 10, 101]), over([90, 80, 10, 85])];
        let figure = figure(&["ours"], Work::Read, 0, &all);
        assert_eq!(figure.series.iter().map(|line| line.points.len()).collect::<Vec<_>>(), [2, 2]);
        assert_eq!(table(&["ours"], Work::Read, 0, &all).rows.len(), 4);
    }
}
