//! E12: how much throughput ACLs cost under a file server's mix of operations (SPECsfs2008's), on files whose ACLs have the
//! lengths of the study's data sets, against the same files without ACLs. A turn does the same with each data set, one after
//! the other, so that they are compared under the same conditions.
//!
//! The files are made behind the server's back. Where the shares' directories are not known they are made over SMB, without
//! ACLs. What is stored, and whether there is a cache, is the server's own policy, and here it is measured as it is. Where
//! the names of the servers say it, the study's cells are measured instead: [`cells`].

use std::cell::RefCell;
use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use clap::Args;
use client::{Client, Open};
use proto::smb2::create::CreateDisposition;
use proto::status::Status;

use super::ground::Ground;
use super::operations::{About, FILE_SIZE, Operation, Requests, perform};
use super::sets::{DataSet, SETS};
use super::{cells, losses, posix};
use crate::load::{self, Done, Sample, Worker};
use crate::method::{Bench, Server, Turn};
use crate::random::{Content, Random};
use crate::record::{Case, Experiment};

pub(super) const DIRECTORY: &str = "frevo-bench-acl-mix";
/// Where files are made and removed.
pub(super) const NEW: &str = "new";
/// Files of a directory.
const FILES: usize = 100;
/// The longest ACL that a file is given.
const LONGEST: usize = 1000;

/// What it is asked for. Servers whose names are SERVER/CACHE/STORE, with c or n for CACHE and posix, #0, #1, #2 or #3 for
/// STORE, are cells of the study, compared with the SERVER/CACHE/posix among them.
#[derive(Args, Clone, Default, Debug)]
pub struct Options {
    /// Files of each data set [default: 20000, of cells 4000, quick 1000, of cells 300]
    #[arg(long)]
    files: Option<usize>,
    /// Connections that work at once [default: 8, quick 4]
    #[arg(long)]
    workers: Option<usize>,
    /// Drop the kernel's caches before each cell (root only)
    #[arg(long)]
    pub(super) cold: bool,
}

/// What was settled before anything is measured.
pub(super) struct Plan {
    pub(super) files: usize,
    pub(super) workers: usize,
    sets: &'static [DataSet],
    /// The ACL entries of the files of each set.
    pub(super) entries: Vec<Vec<usize>>,
    /// The longest ACL that the file system takes, when files are made behind the server's back.
    longest: Option<usize>,
}

/// The files that are made and removed while it is measured: they go at the end, also those of a failure.
pub(super) type Made = Arc<Mutex<HashSet<String>>>;

/// A connection with what it is to do.
pub(super) struct Hand {
    client: Client,
    number: usize,
    /// The directory with the files.
    tree: String,
    list: VecDeque<(Operation, usize)>,
    content: Arc<[u8]>,
    /// What it made and did not remove yet.
    own: VecDeque<String>,
    count: u64,
    made: Made,
}

impl Worker for Hand {
    async fn step(&mut self) -> Result<Done> {
        let (operation, file) = self.list.pop_front().context("a connection does more than it was asked for")?;
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

    /// Removes what it made. When there is nothing, it makes something: in the mean both are the same.
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
            ("touched in a round", "30 %, about 4 operations each".to_owned()),
            ("connections", self.workers.to_string()),
            ("file", format!("{} KiB", FILE_SIZE >> 10)),
            ("longest ACL that the file system takes, up to 1000", longest.to_string()),
        ];
        settings.map(|(name, value)| (name.to_owned(), value)).to_vec()
    }
}

/// Runs it.
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
        let remark = "The shares' directories are not known (--share-path, --vs-path), so there are no files with ACLs: only \
                      the plain ones are measured.";
        (measure_over_smb(bench, &plan).await?, vec![remark.to_owned()])
    };
    let files: Vec<losses::Files> = plan.entries.iter().map(|entries| losses::Files::of(entries)).collect();
    Ok(losses::experiment(&bench.names(), cases, &files, bench.method.rate.is_some(), plan.settings(), remarks))
}

/// The longest ACL that the file systems of all servers take.
fn longest(bench: &Bench) -> Result<usize> {
    let mut longest = LONGEST;
    for server in &bench.servers {
        longest = longest.min(ground(server)?.longest(LONGEST)?);
    }
    Ok(longest)
}

pub(super) fn ground(server: &Server) -> Result<Ground> {
    Ground::make(server, DIRECTORY, "acl mix makes files with POSIX ACLs behind the server's back: it")
}

/// On files that are made behind the server's back; what servers stored is remarked.
async fn measure_here(bench: &Bench, plan: &Plan) -> Result<(Vec<Case>, Vec<String>)> {
    let mut grounds = Vec::new();
    for server in &bench.servers {
        let ground = ground(server)?;
        ground.directory(NEW)?;
        for (set, entries) in plan.sets.iter().zip(&plan.entries) {
            bench.say(&format!("{}: making {} files, {}", server.name, plan.files, set.name()));
            fill(&ground, set.directory(), entries)?;
        }
        grounds.push(ground);
    }
    let made: Vec<Made> = bench.servers.iter().map(|_| Made::default()).collect();
    let cases = turns(bench, plan, &made).await?;
    let mut remarks = Vec::new();
    for (server, ground) in bench.servers.iter().zip(&grounds) {
        for (set, entries) in plan.sets.iter().zip(&plan.entries) {
            remarks.extend(stored(&server.name, *set, ground, entries)?);
        }
    }
    Ok((cases, remarks))
}

/// On files that are made over SMB, which go at the end, also after a failure.
async fn measure_over_smb(bench: &Bench, plan: &Plan) -> Result<Vec<Case>> {
    let made: Vec<Made> = bench.servers.iter().map(|_| Made::default()).collect();
    let measured = async {
        for server in &bench.servers {
            bench.say(&format!("{}: making {} files", server.name, plan.files));
            fill_over_smb(server, plan.files).await?;
        }
        turns(bench, plan, &made).await
    };
    let measured = measured.await;
    for server in &bench.servers {
        bench.say(&format!("{}: removing what was made", server.name));
        let removed = remove_over_smb(server, plan.files, &made[server.index]).await;
        if measured.is_ok() {
            removed.with_context(|| format!("cannot remove {DIRECTORY} on {}", server.name))?;
        }
    }
    measured
}

/// All turns of all servers.
async fn turns(bench: &Bench, plan: &Plan, made: &[Made]) -> Result<Vec<Case>> {
    let hands = hands(bench, plan.workers, made).await?;
    let turn = async |server: &Server, turn: &Turn<'_>| {
        let held = &hands[server.index];
        let mut requests = Requests::draw(plan.files, &mut Random::new(turn.seed)).list;
        if turn.warms_up() {
            requests.truncate(requests.len() / 2);
        }
        // Whoever comes first finds the machine as the other server left it: each set does so in its turn.
        for place in 0..plan.sets.len() {
            let case = (place + turn.number as usize) % plan.sets.len();
            turn.measure_as(case, work(held, plan.sets[case].directory(), &requests, turn)).await?;
        }
        Ok(())
    };
    let names: Vec<(&str, Option<f64>)> = plan.sets.iter().map(|set| (set.name(), None)).collect();
    bench.cases(&names, turn).await
}

/// Connections to each server.
pub(super) async fn hands(bench: &Bench, workers: usize, made: &[Made]) -> Result<Vec<RefCell<Vec<Hand>>>> {
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

/// Shares the requests out, and has them done on the files in `tree`.
pub(super) async fn work(
    held: &RefCell<Vec<Hand>>,
    tree: &str,
    requests: &[(Operation, usize)],
    turn: &Turn<'_>,
) -> Result<Sample> {
    let mut hands = held.take();
    ensure!(!hands.is_empty(), "every connection has failed");
    // The same requests on the same connection, whoever was ready first in the turn before.
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

/// The path of a file in the share.
pub(super) fn path(tree: &str, file: usize) -> String {
    format!(r"{DIRECTORY}\{tree}\{}\file-{file}", file / FILES)
}

/// The path of a file in its ground.
pub(super) fn local(tree: &str, file: usize) -> String {
    format!("{tree}/{}/file-{file}", file / FILES)
}

/// Makes files with so many ACL entries.
pub(super) fn fill(ground: &Ground, tree: &str, entries: &[usize]) -> Result<()> {
    ground.directory(tree)?;
    for (file, entries) in entries.iter().enumerate() {
        if file % FILES == 0 {
            ground.directory(&format!("{tree}/{}", file / FILES))?;
        }
        let made = ground.file(&local(tree, file), FILE_SIZE.into(), *entries, file as u32)?;
        ensure!(made, "the file system took an ACL of {entries} entries, and then takes it no more");
    }
    Ok(())
}

/// A remark when files have got attributes beside their ACLs: what the server stored.
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

/// The directories of the plain files, each before those in it.
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

/// Removes as much as there is; the first refusal of what is there is the answer.
async fn remove_over_smb(server: &Server, files: usize, made: &Made) -> Result<()> {
    let mut client = server.connect().await?;
    let made: Vec<String> = made.lock().unwrap_or_else(PoisonError::into_inner).drain().collect();
    let files_of_all = made.into_iter().chain((0..files).map(|file| path(DataSet::Plain.directory(), file)));
    for path in files_of_all.chain(directories(files).rev()) {
        delete(&mut client, &path).await?;
    }
    // A directory that is not empty may stay without a word.
    let left = client.touch(&Open::directory(DIRECTORY)).await;
    ensure!(left.is_err_and(|error| error.status().is_some()), "something is left in it");
    Ok(())
}

async fn delete(client: &mut Client, path: &str) -> Result<()> {
    match client.delete(path).await {
        Err(error) if error.status() == Some(Status::OBJECT_NAME_NOT_FOUND) => Ok(()),
        Err(error) if error.status() == Some(Status::OBJECT_PATH_NOT_FOUND) => Ok(()),
        done => done.with_context(|| path.to_owned()),
    }
}
