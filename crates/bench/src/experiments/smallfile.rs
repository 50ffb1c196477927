//! E10, second part: small files are created, listed, queried, read, renamed and deleted by several workers, each in
//! its own tree (Red Hat, *Performance overview of Samba backed by Gluster*).

use anyhow::{Context, Result, ensure};
use clap::Args;
use client::Client;
use proto::fscc::FileAttributes;
use report::metric::Metric;
use report::record::{Case, Experiment, Figure, Table};
use report::units;

use crate::crew::Crew;
use crate::ground;
use crate::listing::{self, Roll, numbered};
use crate::load::{Done, Pace, Until, Worker};
use crate::method::{Bench, Server, Turn};
use crate::random::{Content, Look};
use crate::requests::Requests;
use crate::summary::{self, then};

/// Directory of the files, relative to the share.
const DIRECTORY: &str = "frevo-bench-smallfile";
/// Buffer size of a listing, in bytes.
const BUFFER: u32 = 64 * 1024;
/// Maximum number of files of each connection while system calls are counted.
const TRACED: u64 = 200;
/// File name prefixes, before and after renaming.
const FILE: &str = "file-";
const RENAMED: &str = "renamed-";

/// The options of the experiment.
#[derive(Args, Clone, Default, Debug)]
pub struct Options {
    /// Number of connections, each with its own tree [default: 4, quick 2]
    #[arg(long)]
    clients: Option<u64>,
    /// Number of files of each connection [default: 2500, quick 300]
    #[arg(long)]
    files: Option<u64>,
    /// Size of each file, in KiB, at most 1024 [default: 64]
    #[arg(long)]
    size: Option<u32>,
    /// Number of files in a directory [default: 100]
    #[arg(long)]
    per_directory: Option<u64>,
    /// Send the requests for one file as one compound chain, instead of one after another
    #[arg(long)]
    compound: bool,
}

/// An operation that is performed on every file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Create,
    List,
    Stat,
    Read,
    Rename,
    Delete,
    MakeDirectory,
    RemoveDirectory,
}

/// The phases of a turn in order, with their names and the study's results per second.
const PHASES: [(Phase, &str, Option<Then>); 8] = [
    (Phase::Create, "create", Some(Then { smb: 90.0, nfs: 540.0, fuse: 1204.0, tuned: 88.0 })),
    (Phase::List, "list the tree", Some(Then { smb: 502.0, nfs: 6214.0, fuse: 6982.0, tuned: 4287.0 })),
    (Phase::Stat, "stat", None),
    (Phase::Read, "read", None),
    (Phase::Rename, "rename", Some(Then { smb: 29.0, nfs: 136.0, fuse: 163.0, tuned: 35.0 })),
    (Phase::Delete, "delete", None),
    (Phase::MakeDirectory, "mkdir", None),
    (Phase::RemoveDirectory, "rmdir", Some(Then { smb: 209.0, nfs: 830.0, fuse: 842.0, tuned: 252.0 })),
];

/// The study's results for one phase, in files per second.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Then {
    smb: f64,
    nfs: f64,
    fuse: f64,
    /// SMB after caches and the volume's own name lookup were added. Measured against a different baseline.
    tuned: f64,
}

/// A column of the study's table.
type Column = (&'static str, fn(&Then) -> f64);
const COLUMNS: [Column; 4] = [
    ("SMB (study)", |then| then.smb),
    ("SMB tuned (study)", |then| then.tuned),
    ("NFS (study)", |then| then.nfs),
    ("FUSE (study)", |then| then.fuse),
];

/// The numbers and sizes of files, and the form of the requests.
#[derive(Clone, Copy, Debug)]
struct Plan {
    clients: u64,
    files: u64,
    size: u32,
    per_directory: u64,
    requests: Requests,
}

impl Plan {
    fn new(bench: &Bench, options: &Options) -> Result<Plan> {
        let size = options.size.unwrap_or(64);
        ensure!((1..=1024).contains(&size), "--size {size} is not between 1 and 1024 KiB");
        Ok(Plan {
            clients: options.clients.unwrap_or(bench.method.pick(4, 2)).max(1),
            files: options.files.unwrap_or(bench.method.pick(2500, 300)).max(1),
            size: size << 10,
            per_directory: options.per_directory.unwrap_or(100).max(1),
            requests: if options.compound { Requests::Chained } else { Requests::Separate },
        })
    }

    fn directories(&self) -> u64 {
        self.files.div_ceil(self.per_directory)
    }
}

/// A connection with its tree.
struct Tree {
    client: Client,
    plan: Plan,
    /// The tree's root, a new one in each turn.
    root: String,
    worker: u64,
    phase: Phase,
    next: u64,
    /// Directories that are still to be listed.
    ahead: Vec<String>,
    look: Look,
    buffer: Vec<u8>,
}

impl Worker for Tree {
    async fn step(&mut self) -> Result<Done> {
        if self.phase == Phase::List {
            return self.list().await;
        }
        let number = self.next;
        self.next += 1;
        let bytes = self.act(number).await.with_context(|| format!("number {number} in {}", self.root))?;
        Ok(Done::one(bytes))
    }
}

impl Tree {
    fn new(client: Client, plan: Plan) -> Tree {
        let (phase, look, buffer) = (Phase::Create, Look::Every, vec![0; plan.size as usize]);
        Tree { client, plan, root: String::new(), worker: 0, phase, next: 0, ahead: Vec::new(), look, buffer }
    }

    /// Performs the phase's operation on one file or directory. Returns the number of content bytes moved.
    async fn act(&mut self, number: u64) -> Result<u64> {
        let (file, renamed) = (self.path(FILE, number), self.path(RENAMED, number));
        let empty = format!(r"{}\empty-{number}", self.root);
        let (requests, size) = (self.plan.requests, u64::from(self.plan.size));
        let client = &mut self.client;
        match self.phase {
            Phase::List => {}
            Phase::Create => {
                Content { file: self.worker << 32 | number }.fill(0, &mut self.buffer);
                requests.make(client, &file, &self.buffer).await?;
                return Ok(size);
            }
            Phase::Read => return self.read(&file, number).await,
            Phase::Stat => {
                let found = requests.size(client, &file).await?;
                ensure!(found == size, "the server returned a wrong size: {file} has {size} bytes, not {found}");
            }
            Phase::Rename => requests.rename(client, &file, &renamed).await?,
            Phase::Delete => requests.delete(client, &renamed).await?,
            Phase::MakeDirectory => requests.make_directory(client, &empty).await?,
            Phase::RemoveDirectory => requests.delete(client, &empty).await?,
        }
        Ok(0)
    }

    async fn read(&mut self, path: &str, number: u64) -> Result<u64> {
        let content = Content { file: self.worker << 32 | number };
        let (mut length, mut wrong) = (0, None);
        let check = |data: &[u8]| {
            length = data.len();
            wrong = content.wrong_at(0, data, self.look);
        };
        self.plan.requests.read(&mut self.client, path, self.plan.size, check).await?;
        let whole = length == self.plan.size as usize && wrong.is_none();
        ensure!(whole, "the server returned wrong data: {path}, {length} bytes, wrong at {wrong:?}");
        Ok(length as u64)
    }

    /// Lists the next directory: the root first, then its subdirectories.
    async fn list(&mut self) -> Result<Done> {
        let path = self.ahead.pop().context("the listing of the tree has too few files")?;
        let size = u64::from(self.plan.size);
        let directory = path.rsplit_once("dir-").and_then(|(_, number)| number.parse::<u64>().ok());
        let start = directory.map_or(0, |number| number * self.plan.per_directory);
        let end = directory.map_or(0, |_| (start + self.plan.per_directory).min(self.plan.files));
        let mut roll = Roll::new(FILE, start..end);
        let ahead = &mut self.ahead;
        let note = |entry: &proto::fscc::DirectoryEntry<'_>| {
            if directory.is_some() || !entry.file_attributes.contains(FileAttributes::DIRECTORY) {
                return roll.note(entry, |_| size);
            }
            ahead.push(format!(r"{path}\{}", listing::name(entry)?));
            Ok(())
        };
        listing::list(&mut self.client, &path, BUFFER, note).await.with_context(|| format!("listing {path}"))?;
        let operations = roll.complete().with_context(|| format!("the server returned a wrong listing: {path}"))?;
        let (found, expected) = (self.ahead.len() as u64, self.plan.directories());
        ensure!(directory.is_some() || found == expected, "{path} has {expected} directories, not {found}");
        Ok(Done { operations, bytes: 0 })
    }

    /// Creates the tree's directories for this turn.
    async fn begin(&mut self, turn: &Turn<'_>, worker: u64, plan: Plan) -> Result<()> {
        (self.worker, self.plan) = (worker, plan);
        self.root = format!(r"{DIRECTORY}\turn-{}-{worker}", turn.number);
        // In the warm-up every byte is checked.
        self.look = if turn.warms_up() { Look::Every } else { Look::Pages };
        self.client.make_directory(&self.root).await?;
        for number in 0..self.plan.directories() {
            self.client.make_directory(&self.directory(number)).await?;
        }
        Ok(())
    }

    /// Removes the directories, which are empty by now.
    async fn end(&mut self) -> Result<()> {
        for number in 0..self.plan.directories() {
            self.client.delete(&self.directory(number)).await?;
        }
        Ok(self.client.delete(&self.root).await?)
    }

    fn turn_to(&mut self, phase: Phase) {
        (self.phase, self.next) = (phase, 0);
        self.ahead = vec![self.root.clone()];
    }

    fn directory(&self, number: u64) -> String {
        format!(r"{}\dir-{number}", self.root)
    }

    fn path(&self, kind: &str, number: u64) -> String {
        format!(r"{}\{}", self.directory(number / self.plan.per_directory), numbered(kind, number))
    }
}

/// Runs the experiment.
pub async fn run(bench: &Bench, options: &Options) -> Result<Experiment> {
    let plan = Plan::new(bench, options)?;
    bench.begin("smallfile", PHASES.len());
    let cases = ground::within(bench, DIRECTORY, async || measure(bench, plan).await).await?;
    Ok(experiment(bench, plan, cases))
}

async fn measure(bench: &Bench, plan: Plan) -> Result<Vec<Case>> {
    let crews: Vec<Crew<Tree>> = Crew::for_each(bench);
    let clients = plan.clients as usize;
    let turn = async |server: &Server, turn: &Turn<'_>| {
        let crew = &crews[server.index];
        // A few files suffice to count the calls per file, and tracing takes far longer than the calls themselves.
        let plan = Plan { files: if turn.traces { plan.files.min(TRACED) } else { plan.files }, ..plan };
        crew.enlist(server, clients, |client| Tree::new(client, plan)).await?;
        crew.each(async |worker, tree| tree.begin(turn, worker, plan).await).await?;
        let pace = Pace { until: Until::Operations(plan.files), ..turn.pace() };
        for (case, (phase, ..)) in PHASES.iter().enumerate() {
            turn.measure_as(case, crew.work(clients, pace, |_, tree| tree.turn_to(*phase))).await?;
        }
        crew.each(async |_, tree| tree.end().await).await
    };
    bench.cases(&PHASES.map(|(_, name, _)| (name, None)), turn).await
}

fn experiment(bench: &Bench, plan: Plan, cases: Vec<Case>) -> Experiment {
    let names = bench.names();
    let mut tables = summary::comparisons("Small files", &cases, &names, &Metric::OPERATIONS);
    if let Some(rates) = tables.first_mut() {
        put_beside(rates);
    }
    let requests = match plan.requests {
        Requests::Separate => "one after another, as Windows sends them",
        Requests::Chained => "one compound chain per file",
    };
    let settings = [
        ("connections", plan.clients.to_string()),
        ("files per connection", plan.files.to_string()),
        ("size of a file", format!("{} KiB", plan.size >> 10)),
        ("files in a directory", plan.per_directory.to_string()),
        ("requests", requests.to_owned()),
        ("buffer of a listing", format!("{} KiB", BUFFER >> 10)),
    ];
    Experiment {
        name: "smallfile".into(),
        title: "How fast are small files created, listed, read, renamed and deleted?".into(),
        study: "Red Hat, \"Performance overview of Samba backed by Gluster\": of small files over a scale-out \
                volume, SMB created 90 per second, NFS 540 and FUSE 1204; with caches of attributes and of missing \
                names, and with names found by the volume itself, 88 in place of 43."
            .into(),
        settings: settings.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        tables,
        figures: vec![figure(&cases, &names)],
        remarks: summary::client_shares(&cases, &names),
        cases,
    }
}

/// Adds the study's results to the table of rates.
fn put_beside(rates: &mut Table) {
    rates.head.extend(COLUMNS.map(|(name, _)| name.to_owned()));
    for (row, (_, _, then)) in rates.rows.iter_mut().zip(PHASES) {
        let text = |of: fn(&Then) -> f64| then.map_or(units::NOTHING.to_owned(), |then| units::per_second(of(&then)));
        row.extend(COLUMNS.map(|(_, of)| text(of)));
    }
}

fn figure(cases: &[Case], names: &[&str]) -> Figure {
    let mut figure = summary::bars("Small files", cases, names, Metric::RATE);
    // The values range from 29 to many thousands.
    figure.y.logarithmic = true;
    for (name, of) in COLUMNS {
        let points =
            PHASES.iter().enumerate().filter_map(|(index, (_, _, then))| Some((index as f64, of(then.as_ref()?))));
        figure.series.push(then(name, &points.collect::<Vec<_>>()));
    }
    figure
}
