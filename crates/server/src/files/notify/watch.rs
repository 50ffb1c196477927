//! One watch: what a directory handle's CHANGE_NOTIFY requests are answered from ([MS-FSA] 2.1.1.8, 2.1.5.11).
//!
//! The first request of a handle fixes what is watched and how many bytes of changes are kept between requests; more
//! than that, and the next request is told to read the directory again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use proto::fscc::{FileAction, FileNotifyInformation};
use proto::smb2::change_notify::CompletionFilter;
use tokio::sync::oneshot;

use crate::name::glob::Globs;
use crate::streams::layout::is_store_name;
use crate::vfs::FileId;
use crate::vfs::watch::Watching;

/// What the first request of a handle fixes.
pub(crate) struct Terms {
    /// Changes of which kinds.
    pub(crate) filter: CompletionFilter,
    /// The whole tree below the directory.
    pub(crate) tree: bool,
    /// Most bytes of changes that are kept, as they stand in a response.
    pub(crate) room: usize,
    /// The directory.
    pub(crate) file: FileId,
    /// Names that clients are not shown.
    pub(crate) veto: Globs,
}

/// One change as a client is told it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Event {
    /// What happened.
    pub(crate) action: FileAction,
    /// The path below the watched directory in UTF-16LE.
    pub(crate) name: Arc<[u8]>,
}

impl Event {
    /// Bytes of the event in a response.
    fn size(&self) -> usize {
        FileNotifyInformation::FIXED_SIZE + self.name.len().next_multiple_of(FileNotifyInformation::ALIGNMENT)
    }
}

/// Bytes of memory that an event takes beyond those of its response.
const OVERHEAD: usize = 64;

/// What a request is answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Told {
    /// This happened.
    Changes(Vec<Event>),
    /// More happened than was kept, or than the request has room for.
    TooMuch,
    /// The directory is to be deleted: nothing more will be told.
    Doomed,
}

/// A request's place in the queue of its watch. The sender is dropped when the handle is closed.
#[derive(Debug)]
pub(crate) struct Wait {
    number: u64,
    /// The answer, once there is one.
    pub(crate) told: oneshot::Receiver<Told>,
}

/// A watched directory, as one handle watches it.
pub(crate) struct Watch {
    pub(crate) terms: Terms,
    state: Mutex<State>,
    /// The file system's watch of what local programs do.
    local: Mutex<Option<Watching>>,
    /// Bytes that all watches of the server keep, and how many they may.
    kept: Arc<AtomicUsize>,
    limit: usize,
}

#[derive(Default)]
struct State {
    events: Vec<Event>,
    /// Bytes of `events` in a response.
    size: usize,
    /// Something happened that is not among `events`.
    lost: bool,
    waiting: VecDeque<Waiting>,
    next: u64,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Phase {
    #[default]
    Open,
    Doomed,
    Closed,
}

struct Waiting {
    number: u64,
    room: usize,
    told: oneshot::Sender<Told>,
}

impl State {
    /// Bytes of memory that the events take.
    fn cost(&self) -> usize {
        self.size + self.events.len() * OVERHEAD
    }
}

impl Watch {
    pub(super) fn new(terms: Terms, kept: Arc<AtomicUsize>, limit: usize) -> Watch {
        Watch { terms, state: Mutex::default(), local: Mutex::default(), kept, limit }
    }

    /// Holds the file system's watch for as long as the handle is open.
    pub(crate) fn hold(&self, local: Watching) {
        *self.local.lock() = Some(local);
        if self.state.lock().phase == Phase::Closed {
            self.local.lock().take();
        }
    }

    /// Whether a client must not see the path.
    pub(super) fn is_vetoed(&self, path: &[u8]) -> bool {
        let veto = &self.terms.veto;
        path.split(|&byte| byte == b'/').any(|component| veto.matches(component) || is_store_name(component))
    }

    /// What a request with `room` bytes is answered: at once, or when something happens. Requests are answered in the
    /// order in which they came.
    pub(crate) fn ask(&self, room: usize) -> Result<Told, Wait> {
        let mut state = self.state.lock();
        if state.phase == Phase::Doomed {
            return Ok(Told::Doomed);
        }
        if state.waiting.is_empty()
            && let Some(told) = self.take(&mut state, room)
        {
            return Ok(told);
        }
        let (sender, told) = oneshot::channel();
        let number = state.next;
        state.next += 1;
        // Who asks on a closed handle is told by the dropped sender.
        if state.phase == Phase::Open {
            state.waiting.push_back(Waiting { number, room, told: sender });
        }
        Err(Wait { number, told })
    }

    /// Gives up a wait; answers what was told at the same moment.
    pub(crate) fn give_up(&self, mut wait: Wait) -> Option<Told> {
        self.state.lock().waiting.retain(|waiting| waiting.number != wait.number);
        wait.told.try_recv().ok()
    }

    /// These things happened to paths below the directory, to be told together but for what the client must not see.
    /// Where a rename has led into or out of what it may see, the name came or went.
    pub(super) fn show<'a>(&self, happened: impl IntoIterator<Item = (&'a [u8], Event)>) {
        let (mut shown, mut hidden) = (Vec::new(), false);
        for (path, event) in happened {
            match self.is_vetoed(path) {
                true => hidden = true,
                false => shown.push(event),
            }
        }
        for event in shown.iter_mut().filter(|_| hidden) {
            event.action = match event.action {
                FileAction::RENAMED_OLD_NAME => FileAction::REMOVED,
                FileAction::RENAMED_NEW_NAME => FileAction::ADDED,
                other => other,
            };
        }
        self.happened(shown);
    }

    /// These things happened, to be told together.
    pub(super) fn happened(&self, events: impl IntoIterator<Item = Event>) {
        let mut state = self.state.lock();
        if state.phase != Phase::Open {
            return;
        }
        for event in events {
            self.keep(&mut state, event);
        }
        self.tell(&mut state);
    }

    /// Something happened that is not known more closely.
    pub(super) fn lose(&self) {
        let mut state = self.state.lock();
        if state.phase == Phase::Open {
            self.overflow(&mut state);
            self.tell(&mut state);
        }
    }

    /// The directory is to be deleted ([MS-FSA] 2.1.5.15.3).
    pub(crate) fn doom(&self) {
        self.end(Phase::Doomed);
    }

    /// The handle was closed.
    pub(crate) fn close(&self) {
        self.end(Phase::Closed);
        self.local.lock().take();
    }

    fn end(&self, phase: Phase) {
        let mut state = self.state.lock();
        self.clear(&mut state);
        if state.phase != Phase::Closed {
            state.phase = phase;
        }
        for waiting in std::mem::take(&mut state.waiting) {
            if phase == Phase::Doomed {
                // Nobody hears it where the request was given up.
                let _ = waiting.told.send(Told::Doomed);
            }
        }
    }

    /// Keeps an event, as long as there is room. One that repeats the last tells nothing new.
    fn keep(&self, state: &mut State, event: Event) {
        if state.lost || state.events.last() == Some(&event) {
            return;
        }
        let (size, cost) = (event.size(), event.size() + OVERHEAD);
        let kept = self.kept.fetch_add(cost, Ordering::Relaxed) + cost;
        state.size += size;
        state.events.push(event);
        if state.size > self.terms.room || kept > self.limit {
            self.overflow(state);
        }
    }

    fn overflow(&self, state: &mut State) {
        self.clear(state);
        state.lost = true;
    }

    /// Forgets all that happened; answers what was kept of it.
    fn clear(&self, state: &mut State) -> Vec<Event> {
        self.kept.fetch_sub(state.cost(), Ordering::Relaxed);
        state.size = 0;
        state.lost = false;
        std::mem::take(&mut state.events)
    }

    /// What there is to tell to a request with `room` bytes; `None` where nothing happened.
    fn take(&self, state: &mut State, room: usize) -> Option<Told> {
        if state.events.is_empty() && !state.lost {
            return None;
        }
        let fits = !state.lost && state.size <= room;
        let events = self.clear(state);
        Some(if fits { Told::Changes(events) } else { Told::TooMuch })
    }

    /// Answers the oldest request.
    fn tell(&self, state: &mut State) {
        while let Some(room) = state.waiting.front().map(|first| first.room)
            && let Some(told) = self.take(state, room)
            && let Some(first) = state.waiting.pop_front()
        {
            // Whoever gave up does not take what happened along.
            match first.told.send(told) {
                Ok(()) => {}
                Err(Told::Changes(events)) => events.into_iter().for_each(|event| self.keep(state, event)),
                Err(_) => state.lost = true,
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.kept.fetch_sub(self.state.get_mut().cost(), Ordering::Relaxed);
    }
}
