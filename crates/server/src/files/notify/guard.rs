//! What a watch of a tree may tell: names in directories that its user may list and search (`honor change notify
//! privilege`). Each directory below the watched one is checked as that user, once for a while; what happens there
//! meanwhile waits for the result, in its order.
//!
//! Nothing here asks the file system but [`Checks::run`], beside the connections: who changes something has a look-up for
//! each directory of its path.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::{Future, poll_fn};
use std::ops::Bound;
use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use proto::dtyp::AccessMask;
use tokio::sync::Notify;

use super::watch::Watch;
use super::{Event, parent_end};
use crate::files::OpenName;
use crate::security::access;
use crate::tree::Disk;
use crate::vfs::{Kind, RelPath};
use crate::world::World;

/// How long the result of a check counts: local programs change permissions without a word.
const LIFE: Duration = Duration::from_secs(2);
/// Bytes of results that one watch keeps; with more, all are forgotten.
const BYTES_OF_RESULTS: usize = 128 * 1024;
/// Bytes of memory that a result or a waiting change takes beyond those of its path.
const OVERHEAD: usize = 96;

/// Whose watch it is, and of what.
pub(crate) struct Guard {
    disk: Disk,
    /// The watched directory, wherever it is now.
    name: Arc<OpenName>,
    world: Arc<dyn World>,
    checks: Arc<Checks>,
    /// The watch itself.
    pub(super) watch: Weak<Watch>,
}

/// What is known of the directories below a watched one, and what waits to be told.
#[derive(Default)]
pub(super) struct Known {
    results: BTreeMap<Box<[u8]>, (bool, Duration)>,
    /// Changes that belong together each, with their paths.
    waiting: VecDeque<Vec<(Box<[u8]>, Event)>>,
    /// Bytes of memory that each of these takes.
    bytes_of_results: usize,
    bytes_waiting: usize,
    /// When the first of `waiting` was first looked at: what counts then counts until it is told.
    since: Option<Duration>,
    /// The watch is among those to be checked.
    queued: bool,
    /// The directory that is checked now, and whether it has changed meanwhile.
    checked: Option<(Box<[u8]>, bool)>,
}

/// A directory that must be checked: all on the way to it of which nothing is known.
pub(super) struct Unchecked {
    path: Box<[u8]>,
    /// Bytes of `path` up to which all may be listed.
    known: usize,
}

/// Changes that belong together each, and whether each of those may be told.
pub(super) type Decided = Vec<(Vec<bool>, Vec<Event>)>;

impl Known {
    /// Bytes of memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes_of_results + self.bytes_waiting
    }

    /// Those of what waits.
    pub(super) fn bytes_waiting(&self) -> usize {
        self.bytes_waiting
    }

    /// Whether nothing waits to be told.
    pub(super) fn is_settled(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether changes of `paths` may be told at `now`, each; or what must be checked first.
    pub(super) fn decide<'a>(
        &self,
        paths: impl Iterator<Item = &'a [u8]>,
        now: Duration,
    ) -> Result<Vec<bool>, Unchecked> {
        paths.map(|path| self.permits(path, now)).collect()
    }

    /// Whether the user may know of `path`: he may list each directory above it that lies below the watched one.
    fn permits(&self, path: &[u8], now: Duration) -> Result<bool, Unchecked> {
        let Some(parent) = parent_end(path) else { return Ok(true) };
        let mut end = Some(parent);
        while let Some(at) = end {
            match self.results.get(&path[..at]).filter(|(_, until)| *until > now) {
                Some((true, _)) if at < parent => return Err(Unchecked { path: path[..parent].into(), known: at }),
                Some((permits, _)) => return Ok(*permits),
                None => end = parent_end(&path[..at]),
            }
        }
        Err(Unchecked { path: path[..parent].into(), known: 0 })
    }

    /// Puts changes behind those that wait.
    pub(super) fn wait(&mut self, changes: Vec<(Box<[u8]>, Event)>) {
        self.bytes_waiting += cost(&changes);
        self.waiting.push_back(changes);
    }

    /// Forgets what waits.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        (self.bytes_waiting, self.since) = (0, None);
    }

    /// The permissions of `path`, or what it is, may have changed, and with it of all below.
    pub(super) fn forget(&mut self, path: &[u8]) {
        let is_below =
            |other: &[u8]| other.strip_prefix(path).is_some_and(|rest| rest.first().is_none_or(|it| *it == b'/'));
        if let Some((directory, changed)) = &mut self.checked {
            *changed |= is_below(directory);
        }
        let below = [path, b"/"].concat();
        let from = (Bound::Included(&*below), Bound::Unbounded);
        let gone: Vec<_> =
            self.results.range::<[u8], _>(from).map(|(path, _)| path.clone()).take_while(|it| is_below(it)).collect();
        for path in gone.iter().map(|path| &**path).chain([path]) {
            if self.results.remove(path).is_some() {
                self.bytes_of_results -= path.len() + OVERHEAD;
            }
        }
    }

    /// Takes note of the result of a check.
    fn note(&mut self, permits: bool, now: Duration) {
        let Some((directory, false)) = self.checked.take() else { return };
        let bytes = directory.len() + OVERHEAD;
        if self.bytes_of_results + bytes > BYTES_OF_RESULTS {
            self.results.clear();
            self.bytes_of_results = 0;
        }
        if self.results.insert(directory, (permits, now + LIFE)).is_none() {
            self.bytes_of_results += bytes;
        }
    }

    /// What can be told of what waits, in its order; and the directory that is to be checked before the rest.
    fn next(&mut self, now: Duration) -> (Decided, Option<Unchecked>) {
        let mut told = Vec::new();
        while let Some(first) = self.waiting.front() {
            let since = *self.since.get_or_insert(now);
            match self.decide(first.iter().map(|(path, _)| &**path), since) {
                Ok(decided) => {
                    let first = self.waiting.pop_front().unwrap_or_default();
                    self.bytes_waiting -= cost(&first);
                    self.since = None;
                    told.push((decided, first.into_iter().map(|(_, event)| event).collect()));
                }
                Err(unchecked) => {
                    self.checked = Some((unchecked.path.clone(), false));
                    return (told, Some(unchecked));
                }
            }
        }
        self.queued = false;
        (told, None)
    }
}

fn cost(changes: &[(Box<[u8]>, Event)]) -> usize {
    changes.iter().map(|(path, event)| path.len() + event.name.len() + OVERHEAD).sum()
}

impl Guard {
    /// Guards the watch of the directory `name`, which is checked as the user of `disk`. `None` where nothing is to be
    /// checked.
    pub(crate) fn new(
        disk: &Disk,
        name: &Arc<OpenName>,
        world: &Arc<dyn World>,
        checks: &Arc<Checks>,
    ) -> Option<Guard> {
        // The administrator's users may list everything.
        let wanted = disk.share.honor_change_notify_privilege && disk.identity.uid != 0;
        wanted.then(|| Guard {
            disk: disk.clone(),
            name: name.clone(),
            world: world.clone(),
            checks: checks.clone(),
            watch: Weak::new(),
        })
    }

    pub(super) fn now(&self) -> Duration {
        self.world.uptime()
    }

    /// Has the first that waits checked, where that does not happen yet.
    pub(super) fn check(&self, known: &mut Known) {
        if !std::mem::replace(&mut known.queued, true)
            && let Some(watch) = self.watch.upgrade()
        {
            self.checks.add((self.disk.volume, self.disk.identity.uid), watch);
        }
    }

    /// Whether the user may list and search a directory below the watched one, and those on the way.
    async fn permits(&self, unchecked: &Unchecked) -> bool {
        let Unchecked { path, known } = unchecked;
        let watched = self.name.path.lock().clone();
        let ends = (*known + 1..path.len()).filter(|&at| path[at] == b'/').chain([path.len()]);
        for end in ends {
            let mut names = path[..end].split(|&byte| byte == b'/');
            let directory = names.try_fold(watched.clone(), |path: RelPath, name| path.join(name));
            match directory {
                Some(directory) if self.permits_one(&directory).await => breathe().await,
                _ => return false,
            }
        }
        true
    }

    /// What is gone nobody may list.
    async fn permits_one(&self, path: &RelPath) -> bool {
        let disk = &self.disk;
        let Ok(Some((node, metadata))) = access::find(disk, path).await else { return false };
        metadata.kind == Kind::Directory
            && access::permits(disk, path, &node, &metadata, AccessMask::FILE_LIST_DIRECTORY).await.unwrap_or(false)
            && access::kernel_permits(disk, &node, &metadata, 0o5).await.unwrap_or(false)
    }
}

/// Whose file system calls one after another belong to: a volume, and a user of it. One that hangs holds up no other.
type Lane = (u64, u32);

/// Watches with changes that wait for a check.
#[derive(Default)]
pub(crate) struct Checks {
    queues: Mutex<HashMap<Lane, VecDeque<Arc<Watch>>>>,
    added: Notify,
}

impl Checks {
    fn add(&self, lane: Lane, watch: Arc<Watch>) {
        self.queues.lock().entry(lane).or_default().push_back(watch);
        self.added.notify_one();
    }

    /// The next of a lane, which ends with the last.
    fn next(&self, lane: Lane) -> Option<Arc<Watch>> {
        let mut queues = self.queues.lock();
        let next = queues.get_mut(&lane).and_then(VecDeque::pop_front);
        if next.is_none() {
            queues.remove(&lane);
        }
        next
    }

    /// Checks and tells what waits, for ever.
    pub(crate) async fn run(&self) {
        let mut lanes: HashMap<Lane, Pin<Box<dyn Future<Output = ()> + Send + '_>>> = HashMap::new();
        loop {
            let mut added = pin!(self.added.notified());
            let queued: Vec<_> = self.queues.lock().keys().copied().collect();
            for lane in queued {
                lanes.entry(lane).or_insert_with(|| Box::pin(self.run_lane(lane)));
            }
            poll_fn(|context| {
                let before = lanes.len();
                lanes.retain(|_, lane| lane.as_mut().poll(context).is_pending());
                if lanes.len() < before { Poll::Ready(()) } else { added.as_mut().poll(context) }
            })
            .await;
        }
    }

    async fn run_lane(&self, lane: Lane) {
        while let Some(watch) = self.next(lane) {
            let Some(guard) = &watch.terms.guard else { continue };
            while let Some(unchecked) = watch.next_unchecked(guard) {
                let permits = guard.permits(&unchecked).await;
                watch.checked(guard, permits);
            }
        }
    }
}

/// Lets others go on.
async fn breathe() {
    let mut over = false;
    poll_fn(|context| {
        if std::mem::replace(&mut over, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl Watch {
    /// Tells what can be told; answers the directory that is to be checked before the rest.
    fn next_unchecked(&self, guard: &Guard) -> Option<Unchecked> {
        self.with_known(|known| known.next(guard.now()))
    }

    fn checked(&self, guard: &Guard, permits: bool) {
        self.with_known(|known| {
            known.note(permits, guard.now());
            (Vec::new(), ())
        });
    }

    /// `path`, relative to the watched directory, is another, or its permissions are.
    pub(super) fn forget(&self, path: &[u8]) {
        if self.terms.guard.is_some() {
            self.with_known(|known| {
                known.forget(path);
                (Vec::new(), ())
            });
        }
    }
}

/// Whether a path lies deeper than in the watched directory itself.
pub(super) fn is_deep(path: &[u8]) -> bool {
    parent_end(path).is_some()
}
