//! Filters the changes that a recursive watch reports to names in directories that its user may list and search (`honor
//! change notify privilege`). Access to each directory below the watched one is checked as that user, and the result is
//! cached for a short time. Changes in a directory wait for its check, in their order.
//!
//! Only [`AccessChecks::run`] accesses the file system, concurrently with the connections. A request that makes a
//! change costs one lookup in memory for each directory of its path.

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
use crate::environment::Environment;
use crate::files::OpenName;
use crate::policy::limits::NOTIFY_ACCESS_RESULTS;
use crate::security::access;
use crate::tree::Disk;
use crate::vfs::{Kind, RelPath};

/// Lifetime of a result, because local programs change permissions without notice.
const LIFE: Duration = Duration::from_secs(2);
/// Memory in bytes that a result or a waiting change takes in addition to its path.
const OVERHEAD: usize = 96;

/// The user and the directory of a watch.
pub(crate) struct AccessCheck {
    disk: Disk,
    /// The current name of the watched directory.
    name: Arc<OpenName>,
    environment: Arc<dyn Environment>,
    checks: Arc<AccessChecks>,
    /// The watch itself.
    pub(super) watch: Weak<Watch>,
}

/// Results of checks below a watched directory, and changes that wait to be reported.
#[derive(Default)]
pub(super) struct CheckState {
    results: BTreeMap<Box<[u8]>, (bool, Duration)>,
    /// Groups of changes that belong together, with their paths.
    waiting: VecDeque<Vec<(Box<[u8]>, Event)>>,
    /// Memory of the results and of the waiting changes in bytes.
    bytes_of_results: usize,
    bytes_waiting: usize,
    /// When the first of `waiting` was first considered. Results valid at that time apply until it is reported.
    since: Option<Duration>,
    /// The watch is queued for checks.
    queued: bool,
    /// The directory being checked, and whether it has changed meanwhile.
    checked: Option<(Box<[u8]>, bool)>,
}

/// A directory to be checked, including all directories on its path without a result.
pub(super) struct Unchecked {
    path: Box<[u8]>,
    /// Length in bytes of the prefix of `path` that may be listed.
    known: usize,
}

/// Groups of changes that belong together, with whether each may be reported.
pub(super) type Decided = Vec<(Vec<bool>, Vec<Event>)>;

impl CheckState {
    /// Returns the memory in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes_of_results + self.bytes_waiting
    }

    /// Returns the memory of waiting changes in bytes.
    pub(super) fn bytes_waiting(&self) -> usize {
        self.bytes_waiting
    }

    /// Whether no changes wait.
    pub(super) fn is_settled(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns whether changes of `paths` may each be reported at `now`, or what must be checked first.
    pub(super) fn decide<'a>(
        &self,
        paths: impl Iterator<Item = &'a [u8]>,
        now: Duration,
    ) -> Result<Vec<bool>, Unchecked> {
        paths.map(|path| self.permits(path, now)).collect()
    }

    /// Whether the user may see `path`, by the right to list each directory above it that is below the watched one.
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

    /// Queues changes.
    pub(super) fn wait(&mut self, changes: Vec<(Box<[u8]>, Event)>) {
        self.bytes_waiting += cost(&changes);
        self.waiting.push_back(changes);
    }

    /// Discards the queued changes.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        (self.bytes_waiting, self.since) = (0, None);
    }

    /// Discards the results of `path` and everything below, because its permissions or the file may have changed.
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

    /// Records the result of a check.
    fn note(&mut self, permits: bool, now: Duration) {
        let Some((directory, false)) = self.checked.take() else { return };
        let bytes = directory.len() + OVERHEAD;
        if self.bytes_of_results + bytes > NOTIFY_ACCESS_RESULTS {
            self.results.clear();
            self.bytes_of_results = 0;
        }
        if self.results.insert(directory, (permits, now + LIFE)).is_none() {
            self.bytes_of_results += bytes;
        }
    }

    /// Returns the waiting changes that are decided, in order, and the directory to be checked for the rest.
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

impl AccessCheck {
    /// Creates the access check for the watch of the directory `name`, as the user of `disk`. `None` if no checks are
    /// needed.
    pub(crate) fn new(
        disk: &Disk,
        name: &Arc<OpenName>,
        environment: &Arc<dyn Environment>,
        checks: &Arc<AccessChecks>,
    ) -> Option<AccessCheck> {
        // Root may list everything.
        let wanted = disk.share.names.honor_change_notify_privilege && disk.op.uid != 0;
        wanted.then(|| AccessCheck {
            disk: disk.clone(),
            name: name.clone(),
            environment: environment.clone(),
            checks: checks.clone(),
            watch: Weak::new(),
        })
    }

    pub(super) fn now(&self) -> Duration {
        self.environment.uptime()
    }

    /// Queues the watch for checks, unless it is queued already.
    pub(super) fn check(&self, known: &mut CheckState) {
        if !std::mem::replace(&mut known.queued, true)
            && let Some(watch) = self.watch.upgrade()
        {
            self.checks.add((self.disk.volume, self.disk.op.uid), watch);
        }
    }

    /// Whether the user may list and search a directory below the watched one, and those on its path.
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

    /// A directory that no longer exists may not be listed.
    async fn permits_one(&self, path: &RelPath) -> bool {
        let disk = &self.disk;
        let Ok(Some((node, metadata))) = access::find(disk, path).await else { return false };
        metadata.kind == Kind::Directory
            && access::permits(disk, path, &node, &metadata, AccessMask::FILE_LIST_DIRECTORY).await.unwrap_or(false)
            && access::kernel_permits(disk, &node, &metadata, 0o5).await.unwrap_or(false)
    }
}

/// AccessChecks are sequential per volume and user, so that a hanging one blocks no others.
type Lane = (u64, u32);

/// Watches with changes that wait for a check.
#[derive(Default)]
pub(crate) struct AccessChecks {
    queues: Mutex<HashMap<Lane, VecDeque<Arc<Watch>>>>,
    added: Notify,
}

impl AccessChecks {
    fn add(&self, lane: Lane, watch: Arc<Watch>) {
        self.queues.lock().entry(lane).or_default().push_back(watch);
        self.added.notify_one();
    }

    /// Returns the next watch of a lane; removes the lane when it is empty.
    fn next(&self, lane: Lane) -> Option<Arc<Watch>> {
        let mut queues = self.queues.lock();
        let next = queues.get_mut(&lane).and_then(VecDeque::pop_front);
        if next.is_none() {
            queues.remove(&lane);
        }
        next
    }

    /// Runs the checks and reports their changes, forever.
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
            let Some(access) = &watch.terms.access else { continue };
            while let Some(unchecked) = watch.next_unchecked(access) {
                let permits = access.permits(&unchecked).await;
                watch.checked(access, permits);
            }
        }
    }
}

/// Yields once.
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
    /// Reports the decided changes; returns the directory to be checked for the rest.
    fn next_unchecked(&self, access: &AccessCheck) -> Option<Unchecked> {
        self.with_known(|known| known.next(access.now()))
    }

    fn checked(&self, access: &AccessCheck, permits: bool) {
        self.with_known(|known| {
            known.note(permits, access.now());
            (Vec::new(), ())
        });
    }

    /// Called when `path`, relative to the watched directory, is another file or has other permissions.
    pub(super) fn forget(&self, path: &[u8]) {
        if self.terms.access.is_some() {
            self.with_known(|known| {
                known.forget(path);
                (Vec::new(), ())
            });
        }
    }
}

/// Whether a path lies in a subdirectory of the watched directory.
pub(super) fn is_deep(path: &[u8]) -> bool {
    parent_end(path).is_some()
}
