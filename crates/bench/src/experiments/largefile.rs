//! E10, first part: sequential and random reading and writing of large files (Red Hat, *Performance overview of Samba
//! backed by Gluster*).
//!
//! Each client has its own session and file. With `--channels`, the session has several connections, which transfer the
//! file at the same time, each from a position of its own. Files are read and written in the server's page cache, so
//! the disk is not measured. With `--flush` every file is flushed to the disk at the end of each writing round. In a
//! directory of this machine, the page cache is that of its kernel.

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use client::Window;
use report::metric::Metric;
use report::record::{Case, Experiment};

use crate::directory::{self, Directories};
use crate::files::OpenFile;
use crate::files::local::LocalFile;
use crate::files::smb::SmbFile;
use crate::ground;
use crate::load::{self, Done, Pace, Sample, Until, Worker};
use crate::method::{Bench, Method, Party, Server, Turn};
use crate::random::{Content, Look, Random};
use crate::summary::{self, then};

/// Directory of the files, relative to the share.
const DIRECTORY: &str = "frevo-bench-largefile";

/// The options of the experiment.
#[derive(Args, Clone, Default, Debug)]
pub struct Options {
    /// Number of clients, each with its own file [default: 4, quick 2]
    #[arg(long)]
    clients: Option<usize>,
    /// Connections of each client, all in one session (multichannel), with one file
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=32))]
    channels: u8,
    /// Size of each file, in MiB [default: 1024, quick 64]
    #[arg(long)]
    size: Option<u64>,
    /// Size of a request, in KiB, 64 to 8192 [default: 1024]
    #[arg(long, value_parser = clap::value_parser!(u32).range(64..=8192))]
    piece: Option<u32>,
    /// Concurrent requests on a connection; a directory has one [default: 4]
    #[arg(long)]
    depth: Option<usize>,
    /// Flush the files to the disk at the end of each writing round
    #[arg(long)]
    flush: bool,
    #[command(flatten)]
    pub(super) directories: Directories,
}

/// A way of accessing the files.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Pattern {
    name: &'static str,
    writes: bool,
    random: bool,
    /// The results of the study, KB/s: over SMB and over NFS.
    then: (f64, f64),
}

const PATTERNS: [Pattern; 4] = [
    Pattern { name: "sequential write", writes: true, random: false, then: (1_350_991.0, 1_384_350.0) },
    Pattern { name: "sequential read", writes: false, random: false, then: (2_709_019.0, 2_861_377.0) },
    Pattern { name: "random write", writes: true, random: true, then: (319_453.0, 303_538.0) },
    Pattern { name: "random read", writes: false, random: true, then: (634_187.0, 754_273.0) },
];

/// Size of a random access, in bytes.
const RANDOM_PIECE: u32 = 64 * 1024;
/// Number of requests in one step of a worker. Each request still counts as one operation.
const STEP: u64 = 16;

/// A file with the way in which it is accessed.
struct Stream<F> {
    file: F,
    content: Content,
    size: u64,
    window: Window,
    random: Random,
    pattern: Pattern,
    look: Look,
    /// Where a turn begins in the file.
    start: u64,
    next: u64,
}

impl<F: OpenFile> Worker for Stream<F> {
    const BLOCKS: bool = F::BLOCKS;

    async fn step(&mut self) -> Result<Done> {
        let piece = u64::from(self.window.piece);
        let mut done = Done::default();
        let length = if self.pattern.random { piece } else { piece * STEP };
        for _ in 0..if self.pattern.random { STEP } else { 1 } {
            let start = if self.pattern.random { self.random.below(self.size / piece) * piece } else { self.next };
            let end = (start + length).min(self.size);
            self.transfer(start, end).await?;
            done.bytes += end - start;
            done.operations += (end - start).div_ceil(piece);
            self.next = if end == self.size { 0 } else { end };
        }
        Ok(done)
    }
}

impl<F: OpenFile> Stream<F> {
    fn new(number: usize, file: F, size: u64, window: Window) -> Stream<F> {
        let (content, random) = (Content { file: number as u64 }, Random::new(0));
        Stream { file, content, size, window, random, pattern: PATTERNS[0], look: Look::Every, start: 0, next: 0 }
    }

    async fn transfer(&mut self, start: u64, end: u64) -> Result<()> {
        let content = self.content;
        if self.pattern.writes {
            let fill = |offset, out: &mut [u8]| content.fill(offset, out);
            return self.file.write(start..end, self.window, fill).await;
        }
        let (mut wrong, look) = (None, self.look);
        let check = |offset, data: &[u8]| wrong = wrong.or(content.wrong_at(offset, data, look));
        self.file.read(start..end, self.window, check).await?;
        match wrong {
            None => Ok(()),
            Some(offset) => bail!("wrong data was read: file {} at offset {offset}", content.file),
        }
    }
}

/// Runs the experiment.
pub async fn run(bench: &Bench, options: &Options) -> Result<Experiment> {
    let plan = Plan::new(&bench.method, options);
    bench.begin("largefile", PATTERNS.len());
    let cases = directory::within(&bench.directories, DIRECTORY, async |paths| {
        ground::within(bench, DIRECTORY, async || measure(bench, plan, paths).await).await
    });
    let mut experiment = experiment(&bench.names(), plan, cases.await?);
    experiment.remarks.extend(directory::remarks(&bench.directories));
    Ok(experiment)
}

/// Runs the experiment on files of another kind than those of servers and directories. `create` creates one with its
/// number.
pub async fn run_on<F: OpenFile>(
    bench: &Bench,
    options: &Options,
    party: Party<'_>,
    create: impl Fn(usize) -> Result<F>,
) -> Result<Experiment> {
    let plan = Plan::new(&bench.method, options);
    bench.begin_of("largefile", PATTERNS.len(), 1);
    let streams = fill((0..plan.clients).map(create).collect::<Result<_>>()?, plan).await?;
    let mut cases = Vec::new();
    for pattern in PATTERNS {
        let run = async |_, turn: &Turn<'_>| turn.measure(transfer(&streams, pattern, plan, turn)).await;
        cases.extend(bench.cases_of(&[(pattern.name, None)], &[party], run).await?);
    }
    Ok(experiment(&[party.name], plan, cases))
}

/// The numbers and sizes of files and requests.
#[derive(Clone, Copy, Debug)]
struct Plan {
    clients: usize,
    channels: u8,
    size: u64,
    window: Window,
    flush: bool,
}

impl Plan {
    fn new(method: &Method, options: &Options) -> Plan {
        let piece = options.piece.unwrap_or(1024) << 10;
        Plan {
            clients: options.clients.unwrap_or(method.pick(4, 2)).max(1),
            channels: options.channels.max(1),
            size: options.size.unwrap_or(method.pick(1024, 64)).max(1) << 20,
            window: Window { piece, depth: options.depth.unwrap_or(4).max(1) },
            flush: options.flush,
        }
    }

    fn settings(&self) -> Vec<(String, String)> {
        let Window { piece, depth } = self.window;
        let settings = [
            ("clients", self.clients.to_string()),
            ("connections of each client", self.channels.to_string()),
            ("file of each client", format!("{} MiB", self.size >> 20)),
            ("sequential request", format!("{} KiB, {depth} concurrent, in a directory one at a time", piece >> 10)),
            ("random request", format!("{} KiB, one at a time", RANDOM_PIECE >> 10)),
            ("flush at the end of a writing round", self.flush.to_string()),
        ];
        settings.map(|(name, value)| (name.to_owned(), value)).to_vec()
    }
}

/// The streams of one server or directory, between two turns.
type Streams<F> = RefCell<Vec<Stream<F>>>;

async fn measure(bench: &Bench, plan: Plan, paths: &[PathBuf]) -> Result<Vec<Case>> {
    let what = format!("creating {} files of {} MiB", plan.clients, plan.size >> 20);
    let mut shares: Vec<Streams<SmbFile>> = Vec::new();
    for server in &bench.servers {
        let filled = async {
            let streams = fill(open_over_smb(server, plan).await?, plan).await?;
            add_channels(server, plan, &streams).await?;
            Ok(streams)
        };
        shares.push(bench.beside(server, &what, filled).await?);
    }
    let mut directories: Vec<Streams<LocalFile>> = Vec::new();
    for (directory, path) in bench.directories.iter().zip(paths) {
        bench.say(&format!("{}: {what}", directory.name));
        let files = (0..plan.clients).map(|number| LocalFile::create(path.join(number.to_string())));
        let filled = fill(files.collect::<Result<_>>()?, plan).await;
        directories.push(filled.with_context(|| format!("{what}, {}", directory.name))?);
    }
    let mut cases = Vec::new();
    for pattern in PATTERNS {
        let run = async |index: usize, turn: &Turn<'_>| match index.checked_sub(bench.servers.len()) {
            None => turn.measure(transfer(&shares[index], pattern, plan, turn)).await,
            Some(index) => turn.measure(transfer(&directories[index], pattern, plan, turn)).await,
        };
        cases.extend(bench.cases_of(&[(pattern.name, None)], &bench.parties(), run).await?);
    }
    Ok(cases)
}

async fn open_over_smb(server: &Server, plan: Plan) -> Result<Vec<SmbFile>> {
    let options = client::Options { multichannel: plan.channels > 1, ..server.options.clone() };
    let mut files = Vec::new();
    for number in 0..plan.clients {
        files.push(SmbFile::create(server.connect_with(&options).await?, &path(number)).await?);
    }
    Ok(files)
}

/// Opens the further connections of each client.
async fn add_channels(server: &Server, plan: Plan, held: &Streams<SmbFile>) -> Result<()> {
    let mut streams = held.take();
    for number in 0..plan.clients {
        for channel in 1..plan.channels {
            let file = streams[number].file.over(server).await?;
            let mut stream = Stream::new(number, file, plan.size, plan.window);
            let piece = u64::from(plan.window.piece);
            stream.start = plan.size / piece * u64::from(channel) / u64::from(plan.channels) * piece;
            streams.push(stream);
        }
    }
    held.replace(streams);
    Ok(())
}

/// Writes the files once, one after another.
async fn fill<F: OpenFile>(files: Vec<F>, Plan { size, window, .. }: Plan) -> Result<Streams<F>> {
    let until = Until::Operations(size.div_ceil(window.piece.into()));
    let mut filled = Vec::new();
    for (number, file) in files.into_iter().enumerate() {
        let pace = Pace { until, rate: None, allow_errors: false, seed: 0 };
        filled.extend(load::run(vec![Stream::new(number, file, size, window)], pace).await?.1);
    }
    Ok(RefCell::new(filled))
}

async fn transfer<F: OpenFile>(held: &Streams<F>, pattern: Pattern, plan: Plan, turn: &Turn<'_>) -> Result<Sample> {
    let mut streams = held.take();
    for (number, stream) in (0..).zip(&mut streams) {
        stream.pattern = pattern;
        stream.window = if pattern.random { Window { piece: RANDOM_PIECE, depth: 1 } } else { plan.window };
        stream.random = Random::new(turn.seed.wrapping_add(number));
        // In the warm-up every byte is checked.
        stream.look = if turn.warms_up() { Look::Every } else { Look::Pages };
        stream.next = stream.start;
    }
    let begin = Instant::now();
    let mut pace = turn.pace();
    // The rate is in requests, and a step performs several.
    pace.rate = pace.rate.map(|rate| rate / STEP as f64);
    let (mut sample, mut streams) = load::run(streams, pace).await?;
    if plan.flush && pattern.writes {
        for stream in &mut streams {
            stream.file.flush().await?;
        }
        sample.seconds = begin.elapsed().as_secs_f64();
    }
    held.replace(streams);
    Ok(sample)
}

fn path(number: usize) -> String {
    format!(r"{DIRECTORY}\{number}")
}

fn experiment(names: &[&str], plan: Plan, cases: Vec<Case>) -> Experiment {
    let mib = |kilobytes: f64| kilobytes * 1000.0 / 1_048_576.0;
    let study = |pick: fn(&Pattern) -> f64| -> Vec<(f64, f64)> {
        PATTERNS.iter().enumerate().map(|(index, pattern)| (index as f64, mib(pick(pattern)))).collect()
    };
    let mut figure = summary::bars("Large files", &cases, names, Metric::THROUGHPUT);
    figure.series.push(then("SMB (study)", &study(|pattern| pattern.then.0)));
    figure.series.push(then("NFS (study)", &study(|pattern| pattern.then.1)));
    Experiment {
        name: "largefile".into(),
        title: "How fast are large files read and written?".into(),
        study: "Red Hat, \"Performance overview of Samba backed by Gluster\": over a scale-out volume SMB read 2.7 \
                GB/s and wrote 1.35 GB/s in sequence, close to NFS; at random 634 and 319 MB/s."
            .into(),
        settings: plan.settings(),
        tables: summary::comparisons("Large files", &cases, names, &Metric::BYTES),
        figures: vec![figure],
        remarks: summary::client_shares(&cases, names),
        cases,
    }
}
