//! Watching directories for changes by other programs, with one inotify queue and one thread for the whole process.
//!
//! The kernel watches single directories. A tree is therefore watched directory by directory, including new ones, up to
//! a limit. Beyond it the listener is notified that changes are missed. The thread waits briefly before it reads the
//! queue, so that related events are read together and repetitions are merged.

mod drain;
pub(crate) mod own;

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Once, OnceLock};
use std::time::Duration;

use backing::workers::Lane;
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, inotify};
use rustix::io::Errno as Raw;
use server::vfs::watch::{ChangeListener, Noticed, Wanted, Watching};
use server::vfs::{Errno, Kind, RelPath, Result};

use crate::node::Open;
use crate::proc_fd;
use crate::root::stat_name;
use crate::{errno, identity, metadata};

/// Maximum number of directories watched in one tree.
const DIRECTORIES: usize = 8_192;
/// Maximum number of directories in all trees. The kernel has its own limit (`fs.inotify.max_user_watches`).
pub(crate) const ALL_DIRECTORIES: usize = 131_072;
/// How long events are collected before they are reported.
const PAUSE: Duration = Duration::from_millis(20);

/// One watch of a directory or tree.
struct Subscription {
    open: Arc<Open>,
    wanted: Wanted,
    listener: ChangeListener,
}

impl Subscription {
    fn is_curious(&self) -> bool {
        self.wanted.content || self.wanted.attributes
    }
}

/// The directory that one kernel watch stands for in one subscription.
#[derive(Clone)]
struct WatchedDirectory {
    subscription: u64,
    /// The directory, relative to the subscription's directory.
    path: RelPath,
}

#[derive(Default)]
struct State {
    subscriptions: HashMap<u64, (Arc<Subscription>, Vec<i32>)>,
    places: HashMap<i32, Vec<WatchedDirectory>>,
    /// Total number of places.
    count: usize,
    next: u64,
}

impl State {
    /// Forgets a watch that the kernel has ended, because its number may be reused.
    fn forget(&mut self, watch: i32) {
        let places = self.places.remove(&watch).unwrap_or_default();
        self.count -= places.len();
        for place in places {
            if let Some((_, watches)) = self.subscriptions.get_mut(&place.subscription) {
                watches.retain(|other| *other != watch);
            }
        }
    }
}

/// Paths found and reported in new directories, by subscription. The kernel may still have events for them.
type ReportedPaths = HashSet<(u64, RelPath)>;

/// The process's inotify queue.
pub(crate) struct Watcher {
    inotify: OwnedFd,
    state: Mutex<State>,
    /// Held while the queue is read and reported, so that events are reported in order.
    turn: Mutex<ReportedPaths>,
}

/// Ends its subscription when dropped.
struct Subscribed {
    watcher: &'static Watcher,
    number: u64,
}

/// Creates an inotify queue; `None` if the kernel refuses one.
pub(crate) fn new_queue() -> Option<OwnedFd> {
    // Warns only once, because each share has a queue.
    static SAID: Once = Once::new();
    let flags = inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC;
    let warn = |error: &Raw| {
        SAID.call_once(|| {
            tracing::warn!(
                %error,
                "cannot create an inotify queue: names are found more slowly in some shares, and clients may not be \
                 notified of changes by local programs; if the limit is reached, raise fs.inotify.max_user_instances \
                 above the number of shares and home directories, and restart the server"
            );
        });
    };
    inotify::init(flags).inspect_err(warn).ok()
}

/// Creates the process's queue, unless it exists. The first share does so, because those that follow may take all
/// queues that the kernel grants.
pub(crate) fn reserve() -> Option<&'static Watcher> {
    static WATCHER: OnceLock<Watcher> = OnceLock::new();
    if WATCHER.get().is_none() {
        let watcher = Watcher { inotify: new_queue()?, state: Mutex::default(), turn: Mutex::default() };
        // Another thread may have been first.
        let _ = WATCHER.set(watcher);
    }
    WATCHER.get()
}

/// Returns the process's watcher; `None` if it cannot be started now.
fn watcher() -> Option<&'static Watcher> {
    static RUNS: Mutex<bool> = Mutex::new(false);
    let watcher = reserve()?;
    let mut runs = RUNS.lock();
    if !*runs {
        *runs = std::thread::Builder::new().name("changes".to_owned()).spawn(|| watcher.run()).is_ok();
    }
    runs.then_some(watcher)
}

/// Starts a watch of an open directory.
pub(crate) fn subscribe(open: &Arc<Open>, wanted: Wanted, listener: ChangeListener) -> Result<Watching> {
    if open.kind != Kind::Directory {
        return Err(Errno::NOTDIR);
    }
    let watcher = watcher().ok_or(Errno::OPNOTSUPP)?;
    let subscription = Arc::new(Subscription { open: Arc::clone(open), wanted, listener });
    let number = {
        let mut state = watcher.state.lock();
        state.next += 1;
        let number = state.next;
        state.subscriptions.insert(number, (Arc::clone(&subscription), Vec::new()));
        own::count_watch(true, subscription.is_curious());
        number
    };
    // From here on, dropping it reverts everything.
    let subscribed = Subscribed { watcher, number };
    identity::assume_process().map_err(errno)?;
    watcher.add(number, &subscription, RelPath::root(), proc_fd::path(open.fd()))?;
    if wanted.tree {
        let cover = move || {
            if identity::assume_process().is_ok() {
                watcher.cover_below(number, &RelPath::root(), &mut |_, _| {});
            }
        };
        open.system.executor.submit(open.uid, Lane::Slow, Box::new(cover));
    }
    Ok(Box::new(subscribed))
}

impl Drop for Subscribed {
    fn drop(&mut self) {
        let (watcher, number) = (self.watcher, self.number);
        let Some((subscription, watches)) = watcher.state.lock().subscriptions.remove(&number) else { return };
        let (system, uid) = (Arc::clone(&subscription.open.system), subscription.open.uid);
        let leave = move || {
            let mut state = watcher.state.lock();
            watches.iter().for_each(|watch| watcher.leave(&mut state, *watch, |place| place.subscription == number));
            drop(state);
            // Until now the kernel reported changes, which the next watch of the directory may receive. They had to be
            // noted.
            own::count_watch(false, subscription.is_curious());
        };
        system.executor.submit(uid, Lane::Slow, Box::new(leave));
    }
}

impl Watcher {
    /// The main loop of the thread.
    fn run(&self) {
        let mut queue = [PollFd::new(&self.inotify, PollFlags::IN)];
        loop {
            // An error is an interruption, because polling the queue itself cannot fail.
            let _ = poll(&mut queue, None);
            std::thread::sleep(PAUSE);
            if identity::assume_process().is_ok() {
                self.drain();
            }
        }
    }

    /// Watches one directory for a subscription. `path` is relative to the subscription; `place` is the path for the
    /// kernel.
    fn add(&self, number: u64, subscription: &Subscription, path: RelPath, place: Vec<u8>) -> Result<()> {
        use inotify::WatchFlags;
        let mut flags = WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::MOVED_FROM | WatchFlags::MOVED_TO;
        flags |= WatchFlags::DELETE_SELF | WatchFlags::ONLYDIR | WatchFlags::MASK_ADD;
        flags.set(WatchFlags::MODIFY, subscription.wanted.content);
        flags.set(WatchFlags::ATTRIB, subscription.wanted.attributes);
        let mut state = self.state.lock();
        let everywhere = state.count;
        let Some((_, watches)) = state.subscriptions.get_mut(&number) else { return Err(Errno::BADF) };
        if everywhere >= ALL_DIRECTORIES || watches.len() >= DIRECTORIES {
            return Err(Errno::NOSPC);
        }
        let watch = inotify::add_watch(&self.inotify, place, flags).map_err(errno)?;
        if !watches.contains(&watch) {
            watches.push(watch);
        }
        let places = state.places.entry(watch).or_default();
        if !places.iter().any(|place| place.subscription == number && place.path == path) {
            places.push(WatchedDirectory { subscription: number, path });
            state.count += 1;
        }
        Ok(())
    }

    /// Removes places of a kernel watch, and the watch itself with the last place.
    fn leave(&self, state: &mut State, watch: i32, leaves: impl Fn(&WatchedDirectory) -> bool) {
        let Some(places) = state.places.get_mut(&watch) else { return };
        let before = places.len();
        places.retain(|place| !leaves(place));
        state.count -= before - places.len();
        if places.is_empty() {
            state.places.remove(&watch);
            // An error means that the kernel watch has already been removed.
            let _ = inotify::remove_watch(&self.inotify, watch);
        }
    }

    /// Watches the directory `start`, unless it is the subscription's own, and all directories below it. Calls `found`
    /// for everything in them.
    fn cover_below(&self, number: u64, start: &RelPath, found: &mut dyn FnMut(RelPath, Kind)) {
        let mut left = vec![start.clone()];
        while let Some(directory) = left.pop() {
            let Some(subscription) = self.subscription(number) else { return };
            // The removal is reported by the watches of the directories above.
            let Ok(fd) = open_below(&subscription, &directory) else { continue };
            if !directory.is_root() {
                match self.add(number, &subscription, directory.clone(), proc_fd::path(&fd)) {
                    Ok(()) => {}
                    Err(Errno::NOSPC | Errno::NOMEM) => {
                        warn_of_limit();
                        return subscription.listener.lost();
                    }
                    Err(_) => continue,
                }
            }
            let Ok(entries) = Dir::read_from(&fd) else { continue };
            for entry in entries.flatten() {
                let name = entry.file_name().to_bytes();
                let Some(path) = directory.join(name) else { continue };
                let kind = match entry.file_type() {
                    FileType::Unknown => stat_name(&fd, name).map_or(Kind::File, |stat| metadata::kind(&stat)),
                    FileType::Directory => Kind::Directory,
                    _ => Kind::File,
                };
                if kind == Kind::Directory {
                    left.push(path.clone());
                }
                found(path, kind);
            }
        }
    }

    /// Ends the watches of the directory `path` and of those below it.
    fn uncover(&self, number: u64, path: &RelPath) {
        let mut state = self.state.lock();
        let Some((_, watches)) = state.subscriptions.get_mut(&number) else { return };
        let left = |place: &WatchedDirectory| {
            place.subscription == number && (place.path == *path || place.path.is_beneath(path))
        };
        for watch in std::mem::take(watches) {
            self.leave(&mut state, watch, left);
            let stays =
                state.places.get(&watch).is_some_and(|places| places.iter().any(|it| it.subscription == number));
            if stays && let Some((_, watches)) = state.subscriptions.get_mut(&number) {
                watches.push(watch);
            }
        }
    }

    fn subscription(&self, number: u64) -> Option<Arc<Subscription>> {
        self.state.lock().subscriptions.get(&number).map(|(subscription, _)| Arc::clone(subscription))
    }
}

/// Warns only once, because clients can cause this at any time.
fn warn_of_limit() {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        tracing::warn!(
            "more directories are watched than fs.inotify.max_user_watches or the server allows: clients are not \
             notified of all changes by local programs; raise the limit"
        );
    });
}

/// Opens the directory `path` of a subscription for reading.
fn open_below(subscription: &Subscription, path: &RelPath) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(subscription.open.fd(), path.as_path(), flags, Mode::empty(), resolve).map_err(errno)
}

/// Reports everything that is queued, for tests that would otherwise wait for it.
#[cfg(test)]
pub(crate) fn settle() {
    if let Some(watcher) = watcher() {
        identity::as_process(|| watcher.drain()).expect("the thread can act as the process");
    }
}
