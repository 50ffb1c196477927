//! E12: the loss of throughput caused by ACLs under a file server's mix of operations (that of SPECsfs2008). Files
//! whose ACLs have the lengths of the study's data sets are compared with the same files without ACLs. A turn measures
//! all data sets, one after another, so that they are compared under the same conditions.
//!
//! The files are created behind the server's back. If the shares' directories are unknown, they are created over SMB
//! without ACLs. The server's own policy decides what is stored and whether there is a cache, and it is measured
//! unchanged. If the names of the servers identify the study's cells, those are measured instead: [`cells`].

use std::cell::RefCell;
use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use clap::Args;
use client::{Client, Open};
use proto::smb2::create::CreateDisposition;
use proto::status::Status;
use report::record::{Case, Experiment};

use super::ground::Ground;
use super::operations::{About, FILE_SIZE, Operation, Requests, perform};
use super::sets::{DataSet, SETS};
use super::{cells, losses, posix};
use crate::load::{self, Done, Sample, Worker};
use crate::method::{Bench, Server, Turn};
use crate::random::{Content, Random};

pub(super) const DIRECTORY: &str = "frevo-bench-acl-mix";
/// Directory in which files are created and removed.
pub(super) const NEW: &str = "new";
/// Number of files in a directory.
const FILES: usize = 100;
/// The longest ACL that a file gets.
const LONGEST: usize = 1000;

/// The options of the experiment. Servers named SERVER/CACHE/STORE, with c or n for CACHE and posix, #0, #1, #2 or #3
/// for STORE, are cells of the study. They are compared with the server SERVER/CACHE/posix.
#[derive(Args, Clone, Default, Debug)]
pub struct Options {
    /// Number of files of each data set [default: 20000, of cells 4000, quick 1000, of cells 300]
    #[arg(long)]
    files: Option<usize>,
    /// Number of connections that work at the same time [default: 8, quick 4]
    #[arg(long)]
    workers: Option<usize>,
    /// Drop the kernel's caches before each cell (root only)
    #[arg(long)]
    pub(super) cold: bool,
}

/// The validated options.
pub(super) struct Plan {
    pub(super) files: usize,
    pub(super) workers: usize,
    sets: &'static [DataSet],
    /// The numbers of ACL entries of the files of each set.
    pub(super) entries: Vec<Vec<usize>>,
    /// The longest ACL that the file system accepts, if files are created behind the server's back.
    longest: Option<usize>,
}

/// The files that are created and removed during the measurement. They are removed at the end, also after a failure.
pub(super) type TemporaryFiles = Arc<Mutex<HashSet<String>>>;

/// A connection with its work.
pub(super) struct Hand {
    client: Client,
    number: usize,
    /// The directory of the files.
    tree: String,
    list: VecDeque<(Operation, usize)>,
    content: Arc<[u8]>,
    /// Files that it created and has not removed yet.
    own: VecDeque<String>,
    count: u64,
    made: TemporaryFiles,
}

impl Worker for Hand {
    async fn step(&mut self) -> Result<Done> {
        let (operation, file) = self.list.pop_front().context("a connection has no operations left")?;
        let done = match operation {
            Operation::Create => self.create().await,
            Operation::Remove => self.remove().await,
            _ => {
                let (file, directory) = (path(&self.tree, file), directory(&self.tree, file / FILES));
                let about = About { file: &file, directory: &directory, content: &self.content };
                let bytes = perform(&mut self.client, operation, &about).await;
                bytes.map(Done::one).with_context(|| file)
            }
        };
        done.with_context(|| format!("{operation:?}"))
    }
}

impl Hand {
    async fn create(&mut self) -> Result<Done> {
        let file = format!(r"{DIRECTORY}\{NEW}\{}-{}", self.number, self.count);
        self.count += 1;
        self.made.lock().unwrap_or_else(PoisonError::into_inner).insert(file.clone());
        self.on_own(Operation::Create, &file).await?;
        self.own.push_back(file);
        Ok(Done::one(0))
    }

    /// Removes a file that it created. If there is none, it creates one. On average both are equally frequent.
    async fn remove(&mut self) -> Result<Done> {
        let Some(file) = self.own.pop_front() else { return self.create().await };
        self.on_own(Operation::Remove, &file).await?;
        self.made.lock().unwrap_or_else(PoisonError::into_inner).remove(&file);
        Ok(Done::one(0))
    }

    async fn on_own(&mut self, operation: Operation, file: &str) -> Result<()> {
        let about = About { file, directory: DIRECTORY, content: &[] };
        perform(&mut self.client, operation, &about).await.map(|_| ()).with_context(|| file.to_owned())
    }
}

impl Plan {
    fn new(bench: &Bench, options: &Options, cells: bool) -> Result<Plan> {
        let usual = if cells { bench.method.pick(4000, 300) } else { bench.method.pick(20_000, 1000) };
        let files = options.files.unwrap_or(usual).clamp(1, 10_000_000);
        let workers = options.workers.unwrap_or(bench.method.pick(8, 4)).clamp(1, 10_000);
        let local = bench.servers.iter().all(|server| server.path.is_some());
        let sets = if local { &SETS[..] } else { &[DataSet::Plain] };
        let longest = if local { Some(longest(bench)?) } else { None };
        let entries = |(number, set): (u64, &DataSet)| {
            let mut random = Random::new(bench.method.seed.wrapping_mul(31).wrapping_add(number));
            set.entries(files, longest.unwrap_or(posix::PLAIN), &mut random)
        };
        let entries = (1..).zip(sets).map(entries).collect();
        Ok(Plan { files, workers, sets, entries, longest })
    }

    pub(super) fn settings(&self) -> Vec<(String, String)> {
        let longest = self.longest.unwrap_or(posix::PLAIN);
        let settings = [
            ("files of each data set", self.files.to_string()),
            ("accessed in a round", "30 %, about 4 operations each".to_owned()),
            ("connections", self.workers.to_string()),
            ("file", format!("{} KiB", FILE_SIZE >> 10)),
            ("longest ACL that the file system accepts, up to 1000", longest.to_string()),
        ];
        settings.map(|(name, value)| (name.to_owned(), value)).to_vec()
    }
}

/// Runs the experiment.
pub async fn run(bench: &Bench, options: &Options) -> Result<Experiment> {
    let cells = cells::of(bench)?;
    let plan = Plan::new(bench, options, cells.is_some())?;
    if let Some(cells) = cells {
        return cells::run(bench, &plan, &cells, options.cold).await;
    }
    bench.begin("acl mix", plan.sets.len());
    let (cases, remarks) = if plan.longest.is_some() {
        measure_here(bench, &plan).await?
    } else {
        let remark = "The shares' directories are unknown (--share-path, --vs-path), so there are no files with \
                      ACLs: only the plain ones are measured.";
        (measure_over_smb(bench, &plan).await?, vec![remark.to_owned()])
    };
    let files: Vec<losses::Files> = plan.entries.iter().map(|entries| losses::Files::of(entries)).collect();
    Ok(losses::experiment(&bench.names(), cases, &files, bench.method.rate.is_some(), plan.settings(), remarks))
}

/// Returns the length of the longest ACL that the file systems of all servers accept.
fn longest(bench: &Bench) -> Result<usize> {
    let mut longest = LONGEST;
    for server in &bench.servers {
        longest = longest.min(ground(server)?.longest(LONGEST)?);
    }
    Ok(longest)
}

pub(super) fn ground(server: &Server) -> Result<Ground> {
    Ground::make(server, DIRECTORY, "acl mix creates files with POSIX ACLs in the file system, so it")
}

/// Measures on files that are created behind the server's back. Also returns remarks about what the servers stored.
async fn measure_here(bench: &Bench, plan: &Plan) -> Result<(Vec<Case>, Vec<String>)> {
    let mut grounds = Vec::new();
    for server in &bench.servers {
        let ground = ground(server)?;
        ground.directory(NEW)?;
        for (set, entries) in plan.sets.iter().zip(&plan.entries) {
            bench.say(&format!("{}: creating {} files, {}", server.name, plan.files, set.name()));
            fill(&ground, set.directory(), entries)?;
        }
        grounds.push(ground);
    }
    let made: Vec<TemporaryFiles> = bench.servers.iter().map(|_| TemporaryFiles::default()).collect();
    let cases = turns(bench, plan, &made).await?;
    let mut remarks = Vec::new();
    for (server, ground) in bench.servers.iter().zip(&grounds) {
        for (set, entries) in plan.sets.iter().zip(&plan.entries) {
            remarks.extend(stored(&server.name, *set, ground, entries)?);
        }
    }
    Ok((cases, remarks))
}

/// Measures on files that are created over SMB. They are removed at the end, also after a failure.
async fn measure_over_smb(bench: &Bench, plan: &Plan) -> Result<Vec<Case>> {
    let made: Vec<TemporaryFiles> = bench.servers.iter().map(|_| TemporaryFiles::default()).collect();
    let measured = async {
        for server in &bench.servers {
            bench.say(&format!("{}: creating {} files", server.name, plan.files));
            fill_over_smb(server, plan.files).await?;
        }
        turns(bench, plan, &made).await
    };
    let measured = measured.await;
    for server in &bench.servers {
        bench.say(&format!("{}: removing the files", server.name));
        let removed = remove_over_smb(server, plan.files, &made[server.index]).await;
        if measured.is_ok() {
            removed.with_context(|| format!("cannot remove {DIRECTORY} on {}", server.name))?;
        }
    }
    measured
}

/// Runs all turns of all servers.
async fn turns(bench: &Bench, plan: &Plan, made: &[TemporaryFiles]) -> Result<Vec<Case>> {
    let hands = hands(bench, plan.workers, made).await?;
    let turn = async |server: &Server, turn: &Turn<'_>| {
        let held = &hands[server.index];
        let mut requests = Requests::draw(plan.files, &mut Random::new(turn.seed)).list;
        if turn.warms_up() {
            requests.truncate(requests.len() / 2);
        }
        // The first set in a turn is affected by the state in which the other server left the machine, so each set is
        // first in turn.
        for place in 0..plan.sets.len() {
            let case = (place + turn.number as usize) % plan.sets.len();
            turn.measure_as(case, work(held, plan.sets[case].directory(), &requests, turn)).await?;
        }
        Ok(())
    };
    let names: Vec<(&str, Option<f64>)> = plan.sets.iter().map(|set| (set.name(), None)).collect();
    bench.cases(&names, turn).await
}

/// Opens the connections to each server.
pub(super) async fn hands(bench: &Bench, workers: usize, made: &[TemporaryFiles]) -> Result<Vec<RefCell<Vec<Hand>>>> {
    let mut content = vec![0; FILE_SIZE as usize];
    Content { file: 0 }.fill(0, &mut content);
    let content: Arc<[u8]> = content.into();
    let mut hands = Vec::new();
    for (server, made) in bench.servers.iter().zip(made) {
        let clients = server.connect_many(workers).await?;
        let hand = |(number, client)| Hand {
            client,
            number,
            tree: String::new(),
            list: VecDeque::new(),
            content: content.clone(),
            own: VecDeque::new(),
            count: 0,
            made: made.clone(),
        };
        hands.push(RefCell::new(clients.into_iter().enumerate().map(hand).collect::<Vec<_>>()));
    }
    Ok(hands)
}

/// Distributes the requests to the connections, and performs them on the files in `tree`.
pub(super) async fn work(
    held: &RefCell<Vec<Hand>>,
    tree: &str,
    requests: &[(Operation, usize)],
    turn: &Turn<'_>,
) -> Result<Sample> {
    let mut hands = held.take();
    ensure!(!hands.is_empty(), "every connection has failed: check the server's log");
    // Each connection gets the same requests, regardless of the order in which they finished the previous turn.
    hands.sort_by_key(|hand| hand.number);
    let (count, each) = (hands.len(), requests.len() / hands.len());
    for (place, hand) in hands.iter_mut().enumerate() {
        tree.clone_into(&mut hand.tree);
        hand.list = requests.iter().skip(place).step_by(count).take(each).copied().collect();
    }
    let pace = load::Pace { until: load::Until::Operations(each as u64), ..turn.pace() };
    let (sample, hands) = load::run(hands, pace).await?;
    held.replace(hands);
    Ok(sample)
}

fn directory(tree: &str, number: usize) -> String {
    format!(r"{DIRECTORY}\{tree}\{number}")
}

/// Returns the path of a file in the share.
pub(super) fn path(tree: &str, file: usize) -> String {
    format!(r"{DIRECTORY}\{tree}\{}\file-{file}", file / FILES)
}

/// Returns the path of a file in its [`Ground`].
pub(super) fn local(tree: &str, file: usize) -> String {
    format!("{tree}/{}/file-{file}", file / FILES)
}

/// Creates files with these numbers of ACL entries.
pub(super) fn fill(ground: &Ground, tree: &str, entries: &[usize]) -> Result<()> {
    ground.directory(tree)?;
    for (file, entries) in entries.iter().enumerate() {
        if file % FILES == 0 {
            ground.directory(&format!("{tree}/{}", file / FILES))?;
        }
        let made = ground.file(&local(tree, file), FILE_SIZE.into(), *entries, file as u32)?;
        ensure!(made, "the file system accepted an ACL of {entries} entries before and now rejects it");
    }
    Ok(())
}

/// Returns a remark if files have other attributes in addition to their ACLs, which the server stored.
fn stored(name: &str, set: DataSet, ground: &Ground, entries: &[usize]) -> Result<Option<String>> {
    let (mut count, mut example) = (0, None);
    for file in (0..entries.len()).filter(|file| entries[*file] > posix::PLAIN) {
        if let Some(attribute) = posix::attributes(&ground.path(&local(set.directory(), file)))?.pop() {
            count += 1;
            example = Some(attribute);
        }
    }
    Ok(example.map(|it| format!("{name}, {}: {count} files with ACLs got {it} when they were accessed.", set.name())))
}

/// Returns the directories of the plain files, parents first.
fn directories(files: usize) -> impl DoubleEndedIterator<Item = String> {
    let above =
        [DIRECTORY.to_owned(), format!(r"{DIRECTORY}\{NEW}"), format!(r"{DIRECTORY}\{}", DataSet::Plain.directory())];
    above.into_iter().chain((0..files.div_ceil(FILES)).map(|number| directory(DataSet::Plain.directory(), number)))
}

async fn fill_over_smb(server: &Server, files: usize) -> Result<()> {
    let mut client = server.connect().await?;
    for directory in directories(files) {
        client.make_directory(&directory).await?;
    }
    let zeros = vec![0; FILE_SIZE as usize];
    for file in 0..files {
        let name = path(DataSet::Plain.directory(), file);
        let id = client.open(&Open::file(&name).with_disposition(CreateDisposition::OVERWRITE_IF)).await?;
        client.write(id, 0, &zeros).await?;
        client.close(id).await?;
    }
    Ok(())
}

/// Removes all files and directories that exist. Returns the first error.
async fn remove_over_smb(server: &Server, files: usize, made: &TemporaryFiles) -> Result<()> {
    let mut client = server.connect().await?;
    let made: Vec<String> = made.lock().unwrap_or_else(PoisonError::into_inner).drain().collect();
    let files_of_all = made.into_iter().chain((0..files).map(|file| path(DataSet::Plain.directory(), file)));
    for path in files_of_all.chain(directories(files).rev()) {
        delete(&mut client, &path).await?;
    }
    // A directory that is not empty may remain without an error.
    let left = client.touch(&Open::directory(DIRECTORY)).await;
    ensure!(left.is_err_and(|error| error.status().is_some()), "some files remain; remove them by hand");
    Ok(())
}

async fn delete(client: &mut Client, path: &str) -> Result<()> {
    match client.delete(path).await {
        Err(error) if error.status() == Some(Status::OBJECT_NAME_NOT_FOUND) => Ok(()),
        Err(error) if error.status() == Some(Status::OBJECT_PATH_NOT_FOUND) => Ok(()),
        done => done.with_context(|| path.to_owned()),
    }
}
