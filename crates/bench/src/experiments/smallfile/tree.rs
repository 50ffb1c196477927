//! The work of the experiment: what a worker does with its tree in each phase, whether over SMB or in a directory.

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use super::Options;
use crate::crew::Crew;
use crate::files::{Entry, Files};
use crate::listing::{Roll, numbered};
use crate::load::{Done, Pace, Until, Worker};
use crate::method::{Method, Turn};
use crate::random::{Content, Look};

/// Maximum number of files of each connection while system calls are counted.
const TRACED: u64 = 200;
/// File name prefixes, before and after renaming.
const FILE: &str = "file-";
const RENAMED: &str = "renamed-";

/// A part of a turn: an operation that is performed on every file or directory.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Creates the tree's directories. It is never measured.
    #[value(skip)]
    MakeTree,
    /// Create files and write them
    Create,
    /// List the tree with the attributes of its files
    List,
    /// Query the attributes of files
    Stat,
    /// Read files
    Read,
    /// Rename files
    Rename,
    /// Delete files
    Delete,
    /// Create as many directories as files
    #[value(name = "mkdir")]
    MakeDirectory,
    /// Delete these directories
    #[value(name = "rmdir")]
    RemoveDirectory,
    /// Removes the tree's directories, which are empty by now. It is never measured.
    #[value(skip)]
    RemoveTree,
}

use Phase::{Create, Delete, List, MakeDirectory, MakeTree, Read, RemoveDirectory, RemoveTree, Rename, Stat};

/// The phases of a turn in order.
const ORDER: [Phase; 10] =
    [MakeTree, Create, List, Stat, Read, Rename, Delete, MakeDirectory, RemoveDirectory, RemoveTree];

/// The numbers and sizes of files, and the measured phases.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) clients: u64,
    pub(super) files: u64,
    pub(super) size: u32,
    pub(super) per_directory: u64,
    /// The measured phases, in order.
    pub(super) phases: Vec<Phase>,
}

impl Plan {
    /// Returns what `options` ask for.
    ///
    /// # Errors
    ///
    /// The size is out of range.
    pub fn new(method: &Method, options: &Options) -> Result<Plan> {
        let size = options.size.unwrap_or(64);
        ensure!((1..=1024).contains(&size), "--size {size} is not between 1 and 1024 KiB");
        let asked = |phase: &Phase| match options.phases[..] {
            [] => !matches!(phase, MakeTree | RemoveTree),
            _ => options.phases.contains(phase),
        };
        Ok(Plan {
            clients: options.clients.unwrap_or(method.pick(4, 2)).max(1),
            files: options.files.unwrap_or(method.pick(2500, 300)).max(1),
            size: size << 10,
            per_directory: options.per_directory.unwrap_or(100).max(1),
            phases: ORDER.into_iter().filter(asked).collect(),
        })
    }

    /// Returns the number of connections.
    pub fn clients(&self) -> usize {
        self.clients as usize
    }

    /// Returns the measured phases, in order.
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    fn measures(&self, phase: Phase) -> bool {
        self.phases.contains(&phase)
    }

    /// Returns whether a turn has this phase. Measured phases need others: before them, and to clean up.
    fn has(&self, phase: Phase) -> bool {
        match phase {
            MakeTree | RemoveTree => true,
            Create | Delete => [Create, List, Stat, Read, Rename, Delete].into_iter().any(|it| self.measures(it)),
            MakeDirectory | RemoveDirectory => self.measures(MakeDirectory) || self.measures(RemoveDirectory),
            List | Stat | Read | Rename => self.measures(phase),
        }
    }

    fn directories(&self) -> u64 {
        self.files.div_ceil(self.per_directory)
    }

    /// Returns the number of operations of each worker.
    fn operations(&self, phase: Phase) -> u64 {
        match phase {
            // The directories and the root.
            MakeTree | RemoveTree => self.directories() + 1,
            _ => self.files,
        }
    }
}

/// A connection with its tree.
pub struct Tree<F> {
    files: F,
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

impl<F: Files> Worker for Tree<F> {
    const BLOCKS: bool = F::BLOCKS;

    async fn step(&mut self) -> Result<Done> {
        let number = self.next;
        self.next += 1;
        self.act(number).await.with_context(|| format!("number {number} in {}", self.root))
    }
}

impl<F: Files> Tree<F> {
    /// Creates a worker that has no tree yet.
    pub fn new(files: F, plan: &Plan) -> Tree<F> {
        let buffer = vec![0; plan.size as usize];
        Tree {
            files,
            plan: plan.clone(),
            root: String::new(),
            worker: 0,
            phase: MakeTree,
            next: 0,
            ahead: Vec::new(),
            look: Look::Every,
            buffer,
        }
    }

    /// Performs the phase's operation on one file or directory. A listing is that of one directory.
    async fn act(&mut self, number: u64) -> Result<Done> {
        let (file, renamed) = (self.path(FILE, number), self.path(RENAMED, number));
        let empty = format!("{}/empty-{number}", self.root);
        let size = u64::from(self.plan.size);
        match self.phase {
            MakeTree if number == 0 => self.files.make_directory(&self.root).await?,
            MakeTree => self.files.make_directory(&self.directory(number - 1)).await?,
            Create => {
                Content { file: self.worker << 32 | number }.fill(0, &mut self.buffer);
                self.files.create(&file, &self.buffer).await?;
                return Ok(Done::one(size));
            }
            List => return self.list().await,
            Read => return self.read(&file, number).await,
            Stat => {
                let found = self.files.size(&file).await?;
                ensure!(found == size, "the size is wrong: {file} has {size} bytes, not {found}");
            }
            Rename => self.files.rename(&file, &renamed).await?,
            Delete if self.plan.has(Rename) => self.files.delete(&renamed).await?,
            Delete => self.files.delete(&file).await?,
            MakeDirectory => self.files.make_directory(&empty).await?,
            RemoveDirectory => self.files.remove_directory(&empty).await?,
            RemoveTree if number == self.plan.directories() => self.files.remove_directory(&self.root).await?,
            RemoveTree => self.files.remove_directory(&self.directory(number)).await?,
        }
        Ok(Done::one(0))
    }

    async fn read(&mut self, path: &str, number: u64) -> Result<Done> {
        let content = Content { file: self.worker << 32 | number };
        let (mut length, mut wrong) = (0, None);
        let look = self.look;
        let check = |data: &[u8]| {
            length = data.len();
            wrong = content.wrong_at(0, data, look);
        };
        self.files.read(path, self.plan.size, check).await?;
        let whole = length == self.plan.size as usize && wrong.is_none();
        ensure!(whole, "wrong data was read: {path}, {length} bytes, wrong at {wrong:?}");
        Ok(Done::one(length as u64))
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
        let note = |entry: &Entry<'_>| {
            if directory.is_some() || !entry.is_directory {
                return roll.note_name(entry.name, entry.size, |_| size);
            }
            ahead.push(format!("{path}/{}", entry.name));
            Ok(())
        };
        self.files.list(&path, note).await.with_context(|| format!("listing {path}"))?;
        let operations = roll.complete().with_context(|| format!("the listing is wrong: {path}"))?;
        let (found, expected) = (self.ahead.len() as u64, self.plan.directories());
        ensure!(directory.is_some() || found == expected, "{path} has {expected} directories, not {found}");
        Ok(Done { operations, bytes: 0 })
    }

    /// Prepares for a phase of a turn.
    fn begin(&mut self, turn: &Turn<'_>, worker: u64, plan: &Plan, phase: Phase) {
        (self.worker, self.plan) = (worker, plan.clone());
        self.root = format!("turn-{}-{worker}", turn.number);
        // In the warm-up every byte is checked.
        self.look = if turn.warms_up() { Look::Every } else { Look::Pages };
        (self.phase, self.next) = (phase, 0);
        self.ahead = vec![self.root.clone()];
    }

    fn directory(&self, number: u64) -> String {
        format!("{}/dir-{number}", self.root)
    }

    fn path(&self, kind: &str, number: u64) -> String {
        format!("{}/{}", self.directory(number / self.plan.per_directory), numbered(kind, number))
    }
}

/// A moment of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment {
    /// The phase is about to begin.
    Before(Phase),
    /// The phase has ended.
    After(Phase),
}

/// Performs a turn with the workers of one party. The cases of the turn are the phases of `plan`.
pub async fn turn<F: Files>(crew: &Crew<Tree<F>>, plan: &Plan, turn: &Turn<'_>) -> Result<()> {
    turn_with(crew, plan, turn, async |_| Ok(())).await
}

/// Like [`turn`], and calls `beside` before and after each measured phase. It may replace the workers before a phase.
pub async fn turn_with<F: Files>(
    crew: &Crew<Tree<F>>,
    plan: &Plan,
    turn: &Turn<'_>,
    beside: impl AsyncFn(Moment) -> Result<()>,
) -> Result<()> {
    // A few files suffice to count the calls per file, and tracing takes far longer than the calls themselves.
    let plan = &Plan { files: if turn.traces { plan.files.min(TRACED) } else { plan.files }, ..plan.clone() };
    let clients = plan.clients as usize;
    for phase in ORDER.into_iter().filter(|phase| plan.has(*phase)) {
        let until = Until::Operations(plan.operations(phase));
        let begin = |worker, tree: &mut Tree<F>| tree.begin(turn, worker, plan, phase);
        let work = |pace| crew.work(clients, pace, begin);
        match plan.phases.iter().position(|measured| *measured == phase) {
            Some(case) => {
                beside(Moment::Before(phase)).await?;
                turn.measure_as(case, work(Pace { until, ..turn.pace() })).await?;
                beside(Moment::After(phase)).await?;
            }
            None => {
                let pace = Pace { until, rate: None, allow_errors: false, seed: turn.seed };
                work(pace).await.with_context(|| format!("in the phase {phase:?}, which is not measured"))?;
            }
        }
    }
    Ok(())
}
