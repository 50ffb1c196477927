//! Opens without a session, and their expiry ([MS-SMB2] 3.3.2.2, 3.3.2.4, 3.3.6.2, 3.3.6.4).

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use proto::dtyp::Guid;
use proto::status::Status;
use tokio::sync::Notify;

use super::index::Index;
use super::{Reason, Terms};
use crate::accounting::{Charge, Resource};
use crate::state::Server;
use crate::state::open::Open;
use crate::vfs::{FileId, RelPath};

/// The opens of the server that have no session.
#[derive(Default)]
pub(crate) struct Registry {
    state: Mutex<State>,
    /// Number of persistent opens. It is usually 0, so that no further lookup is needed.
    persistent: AtomicUsize,
    /// Notified when the next expiry became earlier.
    sooner: Notify,
}

#[derive(Default)]
struct State {
    /// By persistent id.
    detached: BTreeMap<u64, Detached>,
    /// Persistent ids of opens that must be closed because they block another client.
    condemned: Vec<u64>,
    persistent: Index,
    /// Number of persistent opens without a session, by file.
    awaited: HashMap<FileId, usize>,
}

struct Detached {
    open: Arc<Open>,
    terms: Terms,
    /// `Environment::uptime` at which it is closed.
    until: Duration,
    _charge: Charge,
}

impl Registry {
    /// Returns the opens that have no session, with the time until their expiry.
    pub(crate) fn kept(&self, now: Duration) -> Vec<(Arc<Open>, Duration)> {
        let left = |detached: &Detached| (detached.open.clone(), detached.until.saturating_sub(now));
        self.state.lock().detached.values().map(left).collect()
    }

    /// Returns at most `most` of the opens that have no session, those with the lowest persistent ids above `after`.
    pub(crate) fn kept_after(&self, after: Option<u64>, most: usize) -> Vec<Arc<Open>> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let state = self.state.lock();
        state.detached.range((from, Bound::Unbounded)).take(most).map(|(_, detached)| detached.open.clone()).collect()
    }

    /// Preserves an open whose session has ended, if it has terms ([MS-SMB2] 3.3.7.1). `false` if it must be closed.
    pub(crate) fn detach(&self, server: &Server, open: &Arc<Open>) -> bool {
        let Some(file) = open.file() else { return false };
        let Some(terms) = file.durability.terms() else { return false };
        for waiting in file.waiting.lock().drain(..) {
            waiting.cancel();
        }
        let reason = terms.reason;
        let until = server.environment.uptime() + terms.timeout;
        let Ok(charge) = open.charge.payer().charge(Resource::DetachedOpens, 1) else { return false };
        let detached = Detached { open: open.clone(), until, terms, _charge: charge };
        self.state.lock().insert(open.persistent_id, detached);
        // Checked last. A break before this found no client to notify, and a later one condemns the open.
        let holds = reason != Reason::Durable || server.opens.files.holds_handle_caching(file.file, open.persistent_id);
        if !holds && self.state.lock().remove(open.persistent_id).is_some() {
            return false;
        }
        self.sooner.notify_one();
        true
    }

    /// Removes the open `persistent` for a client that reclaims it, if `check` succeeds.
    pub(crate) fn reclaim(
        &self,
        persistent: u64,
        check: impl FnOnce(&Open, &Terms) -> Result<(), Status>,
    ) -> Result<Arc<Open>, Status> {
        let mut state = self.state.lock();
        let detached = state.detached.get(&persistent).ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
        check(&detached.open, &detached.terms)?;
        let detached = state.remove(persistent).ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
        Ok(detached.open)
    }

    /// Called when another client needs what the open caches, and its own client cannot be notified. A durable open is
    /// closed ([MS-SMB2] 3.3.4.6, 3.3.4.7); the client of another one is notified when it reconnects. Returns whether
    /// it will be notified. May be called while the table of open files is locked.
    pub(crate) fn unreachable(&self, persistent: u64) -> bool {
        let state = &mut *self.state.lock();
        let Some(detached) = state.detached.get(&persistent) else { return false };
        if detached.terms.reason == Reason::Durable {
            state.condemned.push(persistent);
            self.sooner.notify_one();
            return false;
        }
        true
    }

    /// As [`Registry::unreachable`], if the open has lost its handle cache or a break of that is in progress.
    pub(crate) fn check(&self, server: &Server, persistent: u64) {
        let open = self.state.lock().detached.get(&persistent).map(|detached| detached.open.clone());
        let file = open.as_ref().and_then(|open| open.file());
        if file.is_some_and(|file| !server.opens.files.holds_handle_caching(file.file, persistent)) {
            self.unreachable(persistent);
        }
    }

    /// Adds an open that became persistent, or replaces it after a reconnect.
    pub(crate) fn add_persistent(&self, open: &Arc<Open>) {
        let mut state = self.state.lock();
        state.persistent.add(open);
        self.persistent.store(state.persistent.len(), Ordering::Release);
    }

    /// Removes a closed persistent open.
    pub(crate) fn forget_persistent(&self, persistent: u64) {
        let mut state = self.state.lock();
        state.persistent.remove(persistent);
        self.persistent.store(state.persistent.len(), Ordering::Release);
    }

    /// Adds a persistent open of the server's previous run; `false` if there are too many.
    pub(crate) fn add_restored(&self, server: &Server, open: &Arc<Open>) -> bool {
        self.add_persistent(open);
        self.detach(server, open)
    }

    /// Returns whether a file below the directory `path` of the volume has a persistent open.
    pub(crate) fn is_persistent_beneath(&self, volume: u64, path: &RelPath) -> bool {
        self.persistent.load(Ordering::Acquire) > 0 && self.state.lock().persistent.is_beneath(volume, path)
    }

    /// Returns the persistent opens of a file.
    pub(crate) fn persistent_of(&self, file: FileId) -> Vec<Arc<Open>> {
        if self.persistent.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        self.state.lock().persistent.of(file)
    }

    /// Returns the persistent open that a CREATE with this CreateGuid made, and whether it has no session.
    pub(crate) fn persistent_by(&self, create_guid: Guid) -> Option<(u64, bool)> {
        let state = self.state.lock();
        let id = state.persistent.made_by(create_guid)?;
        Some((id, state.detached.contains_key(&id)))
    }

    /// Whether the open has no session.
    pub(crate) fn is_detached(&self, persistent: u64) -> bool {
        self.state.lock().detached.contains_key(&persistent)
    }

    /// Whether a persistent open of this file waits for its client. No other client can open the file then (3.3.5.9).
    pub(crate) fn is_awaited(&self, file: FileId) -> bool {
        self.persistent.load(Ordering::Acquire) > 0 && self.state.lock().awaited.contains_key(&file)
    }

    /// Removes and returns all opens that end with the server.
    pub(crate) fn take(&self) -> Vec<Arc<Open>> {
        self.state.lock().extract(|_, detached| detached.terms.reason != Reason::Persistent)
    }

    /// Removes and returns the opens to be closed at `now`.
    pub(crate) fn take_ended(&self, now: Duration) -> Vec<Arc<Open>> {
        let mut state = self.state.lock();
        let condemned = std::mem::take(&mut state.condemned);
        let ended = |id: &u64, detached: &mut Detached| detached.until <= now || condemned.contains(id);
        state.extract(ended)
    }

    /// Waits until the next expiry may have become earlier.
    pub(crate) async fn sooner(&self) {
        self.sooner.notified().await;
    }

    /// Returns the time until the next open must be closed.
    pub(crate) fn next_end(&self, now: Duration) -> Option<Duration> {
        let state = self.state.lock();
        if !state.condemned.is_empty() {
            return Some(Duration::ZERO);
        }
        state.detached.values().map(|detached| detached.until.saturating_sub(now)).min()
    }
}

impl State {
    fn insert(&mut self, persistent: u64, detached: Detached) {
        if let Some(file) = detached.awaits() {
            *self.awaited.entry(file).or_default() += 1;
        }
        self.detached.insert(persistent, detached);
    }

    fn remove(&mut self, persistent: u64) -> Option<Detached> {
        let detached = self.detached.remove(&persistent)?;
        self.release(&detached);
        Some(detached)
    }

    fn extract(&mut self, mut is_meant: impl FnMut(&u64, &mut Detached) -> bool) -> Vec<Arc<Open>> {
        let meant = self.detached.iter_mut().filter_map(|(id, detached)| is_meant(id, detached).then_some(*id));
        let ids: Vec<u64> = meant.collect();
        ids.into_iter().filter_map(|id| self.remove(id)).map(|detached| detached.open).collect()
    }

    fn release(&mut self, detached: &Detached) {
        if let Some(file) = detached.awaits()
            && let Some(count) = self.awaited.get_mut(&file)
        {
            *count -= 1;
            if *count == 0 {
                self.awaited.remove(&file);
            }
        }
    }
}

impl Detached {
    /// Returns the file that no other client can open while the client is disconnected.
    fn awaits(&self) -> Option<FileId> {
        self.open.file().filter(|_| self.terms.reason == Reason::Persistent).map(|file| file.file)
    }
}
