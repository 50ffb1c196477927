//! Reading the kernel's queue and notifying the listeners.

use std::time::Instant;

use rustix::fs::{AtFlags, StatxFlags, inotify};
use rustix::io::Errno as Raw;

use super::own::{self, Deed};
use super::*;
use crate::proc_fd;

/// Bytes of queued events that are read at a time.
const QUEUE: usize = 64 * 1024;

/// One event of the kernel.
struct Event {
    watch: i32,
    what: inotify::ReadFlags,
    cookie: u32,
    name: Option<Box<[u8]>>,
}

impl Event {
    fn is(&self, what: inotify::ReadFlags) -> bool {
        self.what.contains(what)
    }

    fn kind(&self) -> Kind {
        if self.is(inotify::ReadFlags::ISDIR) { Kind::Directory } else { Kind::File }
    }
}

/// State gathered while draining the queue once.
#[derive(Default)]
struct Findings {
    found: ReportedPaths,
    /// From the previous drain.
    found_before: ReportedPaths,
    /// Per subscription, whether the process has just changed any file of its share.
    busy: HashMap<u64, bool>,
    /// Current paths of the watched directories.
    roots: HashMap<u64, Option<Vec<u8>>>,
}

impl Watcher {
    /// Reports everything that is queued.
    pub(super) fn drain(&self) {
        let mut turn = self.turn.lock();
        let began = Instant::now();
        own::forget_stale();
        let events = self.read();
        let mut findings = Findings { found_before: std::mem::take(&mut *turn), ..Findings::default() };
        let mut skipped = HashSet::new();
        for (index, event) in events.iter().enumerate() {
            if skipped.contains(&index) {
                continue;
            }
            let partner = self.partner(&events, index);
            skipped.extend(partner);
            self.handle(event, partner.map(|partner| &events[partner]), &mut findings);
        }
        own::forget_done_by(began);
        *turn = findings.found;
    }

    fn read(&self) -> Vec<Event> {
        let mut buffer = Vec::with_capacity(QUEUE);
        let mut reader = inotify::Reader::new(&self.inotify, buffer.spare_capacity_mut());
        let mut events = Vec::new();
        loop {
            match reader.next() {
                Ok(event) => events.push(Event {
                    watch: event.wd(),
                    what: event.events(),
                    cookie: event.cookie(),
                    name: event.file_name().map(|name| name.to_bytes().into()),
                }),
                Err(Raw::INTR) => {}
                Err(_) => return events,
            }
        }
    }

    /// Returns the index of the other half of a rename within one directory.
    fn partner(&self, events: &[Event], index: usize) -> Option<usize> {
        let event = &events[index];
        if !event.is(inotify::ReadFlags::MOVED_FROM) {
            return None;
        }
        let is_it = |other: &Event| other.is(inotify::ReadFlags::MOVED_TO) && other.cookie == event.cookie;
        // The kernel queues both halves together, but other events may be in between.
        let near = events[index + 1..].iter().take(64).position(is_it)? + index + 1;
        (events[near].watch == event.watch).then_some(near)
    }

    fn handle(&self, event: &Event, partner: Option<&Event>, findings: &mut Findings) {
        use inotify::ReadFlags;
        if event.is(ReadFlags::QUEUE_OVERFLOW) {
            return self.overflowed();
        }
        let places = {
            let mut state = self.state.lock();
            if event.is(ReadFlags::IGNORED) {
                state.forget(event.watch);
                return;
            }
            state.places.get(&event.watch).cloned().unwrap_or_default()
        };
        for place in places {
            let Some(subscription) = self.subscription(place.subscription) else { continue };
            if event.is(ReadFlags::DELETE_SELF) || event.is(ReadFlags::UNMOUNT) {
                if place.path.is_root() {
                    subscription.listener.gone();
                }
                continue;
            }
            let Some(path) = event.name.as_ref().and_then(|name| place.path.join(name)) else { continue };
            let new_path = partner.and_then(|it| it.name.as_ref()).and_then(|name| place.path.join(name));
            let mut teller = Teller { number: place.subscription, subscription: &subscription, findings };
            self.tell(event, &mut teller, path, new_path);
        }
    }

    fn tell(&self, event: &Event, teller: &mut Teller<'_>, path: RelPath, new_path: Option<RelPath>) {
        use inotify::ReadFlags;
        let (kind, number) = (event.kind(), teller.number);
        let in_tree = kind == Kind::Directory && teller.subscription.wanted.tree;
        if let Some(new_path) = new_path {
            if in_tree {
                self.uncover(number, &path);
                self.cover(number, &new_path);
            }
            teller.renamed(path, new_path, kind);
        } else if event.what.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
            teller.appeared(path.clone(), kind);
            if in_tree && event.is(ReadFlags::MOVED_TO) {
                self.cover(number, &path);
            } else if in_tree {
                self.cover_new(&path, teller);
            }
        } else if event.what.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM) {
            if in_tree {
                self.uncover(number, &path);
            }
            teller.vanished(path, kind);
        } else if event.is(ReadFlags::MODIFY) && teller.subscription.wanted.content {
            teller.changed(path, Noticed::Content);
        } else if event.is(ReadFlags::ATTRIB) && teller.subscription.wanted.attributes {
            teller.changed(path, Noticed::Attributes);
        }
    }

    /// Watches a directory that was moved here. Its content is not reported separately.
    fn cover(&self, number: u64, path: &RelPath) {
        self.cover_below(number, path, &mut |_, _| {});
    }

    /// Watches a new directory, and reports the files created in it before it was watched.
    fn cover_new(&self, path: &RelPath, teller: &mut Teller<'_>) {
        let number = teller.number;
        self.cover_below(number, path, &mut |path, kind| {
            teller.appeared(path.clone(), kind);
            teller.findings.found.insert((number, path));
        });
    }

    /// The kernel's queue overflowed, so the listeners must scan everything again.
    fn overflowed(&self) {
        let subscriptions: Vec<_> = {
            let state = self.state.lock();
            state.subscriptions.iter().map(|(number, (it, _))| (*number, Arc::clone(it))).collect()
        };
        for (number, subscription) in subscriptions {
            if subscription.wanted.tree {
                self.cover_below(number, &RelPath::root(), &mut |_, _| {});
            }
            subscription.listener.lost();
        }
    }
}

/// One subscription during the delivery of one event.
struct Teller<'a> {
    number: u64,
    subscription: &'a Subscription,
    findings: &'a mut Findings,
}

impl Teller<'_> {
    /// Returns the absolute path, in the form in which the process's own changes are noted.
    fn absolute(&mut self, path: &RelPath) -> Option<Vec<u8>> {
        let open = &self.subscription.open;
        let root = self.findings.roots.entry(self.number).or_insert_with(|| {
            let link = rustix::fs::readlink(proc_fd::path(open.fd()).as_slice(), Vec::new());
            link.ok().map(|path| open.share.root.as_given(&path.into_bytes()))
        });
        root.as_ref().map(|root| own::absolute(root, path))
    }

    fn did(&mut self, deed: fn(Vec<u8>) -> Deed, path: &RelPath) -> bool {
        self.absolute(path).is_some_and(|path| own::did(&deed(path)))
    }

    fn appeared(&mut self, path: RelPath, kind: Kind) {
        if !self.was_found(&path) && !self.did(Deed::Added, &path) {
            self.subscription.listener.noticed(&path, Noticed::Added(kind));
        }
    }

    /// Returns whether the path was already reported when its directory appeared, and consumes that record.
    fn was_found(&mut self, path: &RelPath) -> bool {
        let key = (self.number, path.clone());
        self.findings.found.remove(&key) | self.findings.found_before.remove(&key)
    }

    fn vanished(&mut self, path: RelPath, kind: Kind) {
        self.was_found(&path);
        if !self.did(Deed::Removed, &path) {
            self.subscription.listener.noticed(&path, Noticed::Removed(kind));
        }
    }

    fn renamed(&mut self, path: RelPath, new_path: RelPath, kind: Kind) {
        if !(self.did(Deed::Removed, &path) && self.did(Deed::Added, &new_path)) {
            self.subscription.listener.noticed(&path, Noticed::Renamed(kind, new_path));
        }
    }

    fn changed(&mut self, path: RelPath, what: Noticed) {
        let root = self.subscription.open.share.root.path();
        if *self.findings.busy.entry(self.number).or_insert_with(|| own::did_any_file(root)) {
            let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
            let stat = rustix::fs::statx(self.subscription.open.fd(), path.as_path(), flags, StatxFlags::INO);
            // The removal of a file that no longer exists is reported by its own event.
            let Ok(stat) = stat else { return };
            if own::did(&Deed::File(crate::root::id(&stat), root.to_path_buf())) {
                return;
            }
        }
        self.subscription.listener.noticed(&path, what);
    }
}
