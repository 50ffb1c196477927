//! Complete listings of directories of a thousand to a million files: entries per second, and the time until the first
//! entries arrive. Every listing is checked: each name once, with its file's size, and none missing.
//!
//! Red Hat found for Samba on Gluster that reading a large directory blocks the server, and that read-ahead made it ten
//! times as fast.

use anyhow::{Context, Result, ensure};
use clap::Args;
use client::Client;
use hdrhistogram::Histogram;
use report::metric::Metric;
use report::record::{Axis, Case, Experiment};
use report::units;

use crate::crew::Crew;
use crate::ground;
use crate::listing::{self, Roll};
use crate::load::{Done, Sample, Worker};
use crate::method::{Bench, Server, Turn};
use crate::opener::{FILE, size_of};
use crate::summary;

/// Directory of the experiment, relative to the share.
const DIRECTORY: &str = "frevo-bench-list";
/// Buffer sizes: that of Windows up to 7, and that of later versions.
const BUFFERS: [u32; 2] = [64 << 10, 1 << 20];

/// Entries of a listing while system calls are counted, because a million of them would take minutes.
const TRACED: u64 = 100_000;

/// The options of the experiment.
#[derive(Args, Clone, Default, Debug)]
pub struct Options {
    /// Numbers of files in the directories, separated by commas [default: 1000,10000,100000,1000000, quick 1000,10000;
    /// at most 10000 if the shares' directories are unknown]
    #[arg(long, value_delimiter = ',')]
    sizes: Vec<u64>,
    /// Connections that list at the same time [default: 1]
    #[arg(long)]
    clients: Option<usize>,
    /// Also list as a Mac does, with the Finder info and the length of the resource fork of each entry
    #[arg(long)]
    mac: bool,
}

/// The metrics: an operation is an entry, and its latency is the time until the first entries of the listing.
const METRICS: [Metric; 6] = [
    Metric { name: "entries", ..Metric::RATE },
    Metric { name: "time to the first entries", ..Metric::MEDIAN_LATENCY },
    Metric { name: "server CPU per entry", ..Metric::CPU_PER_OPERATION },
    Metric { name: "client CPU per entry", ..Metric::CLIENT_PER_OPERATION },
    Metric { name: "context switches per entry", ..Metric::SWITCHES },
    Metric { name: "system calls per entry", ..Metric::CALLS },
];

/// What a listing has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Plain,
    /// Also the fields that the create context AAPL negotiates.
    Mac,
}

impl Form {
    async fn connect(self, server: &Server) -> Result<Lister> {
        let mut client = server.connect().await?;
        if self == Form::Mac {
            let offered = client.list_as_mac().await?;
            ensure!(offered, "{} does not offer listings for Macs; add `fruit` to `vfs objects`", server.name);
        }
        Ok(Lister::new(client))
    }
}

/// A connection that lists.
struct Lister {
    client: Client,
    directory: String,
    files: u64,
    buffer: u32,
    /// Number of entries after which it stops.
    enough: u64,
    /// Times to the first entries of each listing, in nanoseconds.
    first: Histogram<u64>,
}

impl Lister {
    fn new(client: Client) -> Lister {
        let first = Sample::default().latency;
        Lister { client, directory: String::new(), files: 0, buffer: 0, enough: u64::MAX, first }
    }

    fn turn_to(&mut self, files: u64, buffer: u32, turn: &Turn<'_>) {
        (self.files, self.buffer) = (files, buffer);
        self.enough = if turn.traces { TRACED } else { u64::MAX };
        self.directory = format!(r"{DIRECTORY}\{files}");
        self.first.reset();
    }
}

impl Worker for Lister {
    async fn step(&mut self) -> Result<Done> {
        let mut roll = Roll::new(FILE, 0..self.files);
        let note = |entry: &proto::fscc::DirectoryEntry<'_>| roll.note(entry, size_of);
        let (client, directory) = (&mut self.client, &self.directory);
        let first = listing::list_until(client, directory, self.buffer, self.enough, note).await;
        let first = first.with_context(|| format!("listing {directory}"))?;
        let whole = roll.count() < self.enough;
        let operations =
            if whole { roll.complete().with_context(|| format!("listing {directory}"))? } else { roll.count() };
        self.first.saturating_record(first.as_nanos() as u64);
        Ok(Done { operations, bytes: 0 })
    }
}

/// Runs the experiment.
pub async fn run(bench: &Bench, options: &Options) -> Result<Experiment> {
    let clients = options.clients.unwrap_or(1).max(1);
    let sizes = ground::sizes(bench, &options.sizes, &[1000, 10_000, 100_000, 1_000_000], 10_000);
    let forms: &[Form] = if options.mac { &[Form::Plain, Form::Mac] } else { &[Form::Plain] };
    let cases = ground::within(bench, DIRECTORY, async || {
        ground::fill_sizes(bench, DIRECTORY, &sizes, FILE, size_of).await?;
        measure(bench, &sizes, clients, forms).await
    });
    Ok(experiment(bench, cases.await?, clients))
}

/// Returns the cases of each buffer size.
async fn measure(bench: &Bench, sizes: &[u64], clients: usize, forms: &[Form]) -> Result<[Vec<Case>; 2]> {
    bench.begin("list", sizes.len() * BUFFERS.len() * forms.len());
    let crews: Vec<Vec<Crew<Lister>>> = forms.iter().map(|_| Crew::for_each(bench)).collect();
    let mut cases = [Vec::new(), Vec::new()];
    for &files in sizes {
        for (buffer, cases) in BUFFERS.into_iter().zip(&mut cases) {
            for (form, crews) in forms.iter().zip(&crews) {
                let turn = async |server: &Server, turn: &Turn<'_>| {
                    let crew = &crews[server.index];
                    crew.enlist_with(clients, async || form.connect(server).await).await?;
                    turn.measure(list(crew, clients, files, buffer, turn)).await
                };
                let as_mac = if *form == Form::Mac { ", as a Mac" } else { "" };
                let name = format!("{} files, {}{as_mac}", units::count(files), units::bytes(buffer.into()));
                cases.push(bench.case(&name, Some(files as f64), turn).await?);
            }
        }
    }
    Ok(cases)
}

async fn list(crew: &Crew<Lister>, clients: usize, files: u64, buffer: u32, turn: &Turn<'_>) -> Result<Sample> {
    let begin = |_, lister: &mut Lister| lister.turn_to(files, buffer, turn);
    let end = |lister: &mut Lister, sample: &mut Sample| sample.add_latency(&lister.first);
    crew.work_and(clients, turn.pace(), begin, end).await
}

fn experiment(bench: &Bench, cases: [Vec<Case>; 2], clients: usize) -> Experiment {
    let names = bench.names();
    let axis = Axis { label: "files in the directory".into(), unit: String::new(), logarithmic: true };
    let mut figures = Vec::new();
    for (buffer, cases) in BUFFERS.into_iter().zip(&cases) {
        for metric in &METRICS[..3] {
            let title = format!("Listing with buffers of {}: {}", units::bytes(buffer.into()), metric.name);
            figures.push(summary::lines(&title, axis.clone(), cases, &names, *metric));
        }
    }
    let cases = cases.concat();
    let settings = [
        ("connections", clients.to_string()),
        ("entries", "FileIdBothDirectoryInformation".to_owned()),
        (
            "operation",
            "one entry; its latency is the time from the CREATE to the first entries of a listing".to_owned(),
        ),
    ];
    Experiment {
        name: "list".into(),
        title: "How fast are large directories listed?".into(),
        study: "Red Hat, \"Performance overview of Samba backed by Gluster\": reading a large directory blocks the \
                server. A tree of small files was listed at 502 files per second over SMB, 6214 over NFS and 6982 \
                over FUSE; reading ahead took SMB from 425 to 4287."
            .into(),
        settings: settings.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        tables: summary::comparisons("Listing", &cases, &names, &METRICS),
        figures,
        remarks: summary::client_shares(&cases, &names),
        cases,
    }
}
