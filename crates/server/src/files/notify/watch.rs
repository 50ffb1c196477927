//! One watch: what a directory handle's CHANGE_NOTIFY requests are answered from ([MS-FSA] 2.1.1.8, 2.1.5.11).
//!
//! The first request of a handle fixes what is watched and how many bytes of changes are kept between requests; more
//! than that, and the next request is told to read the directory again.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use proto::fscc::{FileAction, FileNotifyInformation};
use proto::smb2::change_notify::CompletionFilter;
use tokio::sync::oneshot;

use super::guard::{self, Decided, Guard, Known};
use crate::accounting::{Charge, Resource};
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
    /// What the watch takes of its user's share; the same accounts pay for the changes that it keeps.
    pub(crate) charge: Charge,
    /// Who may be told what, where that must be checked.
    pub(crate) guard: Option<Guard>,
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
/// Changes are charged in steps of so many bytes.
const STEP: usize = 1024;
/// Bytes that what waits for a check may take, however small the client's buffer is.
const ROOM_TO_WAIT: usize = 64 * 1024;

/// What happened to a name that was renamed, where the other one is not told.
fn alone(action: FileAction) -> FileAction {
    match action {
        FileAction::RENAMED_OLD_NAME => FileAction::REMOVED,
        FileAction::RENAMED_NEW_NAME => FileAction::ADDED,
        other => other,
    }
}

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
}

struct State {
    known: Known,
    /// What the events and `known` take.
    charge: Charge,
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
    fn new(charge: Charge) -> State {
        State {
            known: Known::default(),
            charge,
            events: Vec::new(),
            size: 0,
            lost: false,
            waiting: VecDeque::new(),
            next: 0,
            phase: Phase::Open,
        }
    }

    /// Records the bytes of memory that is kept now; whether it may be kept.
    fn record(&mut self) -> bool {
        let bytes = self.size + self.events.len() * OVERHEAD + self.known.bytes();
        let (before, now) = (self.charge.amount(), bytes.next_multiple_of(STEP));
        self.charge.record(now);
        now <= before || self.charge.may_add(0)
    }
}

impl Watch {
    pub(super) fn new(mut terms: Terms) -> Arc<Watch> {
        let charge = Charge::nothing(terms.charge.payer(), Resource::Changes);
        Arc::new_cyclic(|watch| {
            if let Some(guard) = &mut terms.guard {
                guard.watch = watch.clone();
            }
            Watch { terms, state: Mutex::new(State::new(charge)), local: Mutex::default() }
        })
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
    pub(super) fn show<'a>(&self, happened: impl IntoIterator<Item = (&'a [u8], Event)>) {
        let happened: Vec<_> = happened.into_iter().collect();
        let visible = happened.iter().map(|(path, _)| !self.is_vetoed(path)).collect::<Vec<_>>();
        let mut state = self.state.lock();
        if state.phase != Phase::Open {
            return;
        }
        let Some(guard) = &self.terms.guard else {
            return self.happened(&mut state, &visible, happened.into_iter().map(|(_, event)| event));
        };
        let settled = state.known.is_settled();
        let paths = || happened.iter().zip(&visible).filter(|(_, shown)| **shown).map(|((path, _), _)| *path);
        if settled && !paths().any(guard::is_deep) {
            return self.happened(&mut state, &visible, happened.into_iter().map(|(_, event)| event));
        }
        let decided = if settled { state.known.decide(paths(), guard.now()).ok() } else { None };
        if let Some(decided) = decided {
            let mut decided = decided.into_iter();
            let shown: Vec<_> = visible.iter().map(|shown| *shown && decided.next() == Some(true)).collect();
            return self.happened(&mut state, &shown, happened.into_iter().map(|(_, event)| event));
        }
        let mut changes: Vec<(Box<[u8]>, Event)> = Vec::new();
        for ((path, mut event), _) in happened.into_iter().zip(&visible).filter(|(_, shown)| **shown) {
            // A rename from or to what is vetoed is a name that came or went.
            if visible.contains(&false) {
                event.action = alone(event.action);
            }
            changes.push((path.into(), event));
        }
        if changes.is_empty() {
            return;
        }
        state.known.wait(changes);
        guard.check(&mut state.known);
        if !state.record() || state.known.bytes_waiting() > self.terms.room.max(ROOM_TO_WAIT) {
            self.overflow(&mut state);
            self.tell(&mut state);
        }
    }

    /// These things happened, to be told together but for those that are not `shown`. Where a rename has led into or out of
    /// what is, the name came or went.
    fn happened(&self, state: &mut State, shown: &[bool], events: impl IntoIterator<Item = Event>) {
        let hidden = shown.contains(&false);
        for (mut event, _) in events.into_iter().zip(shown).filter(|(_, shown)| **shown) {
            if hidden {
                event.action = alone(event.action);
            }
            self.keep(state, event);
        }
        self.tell(state);
    }

    /// Changes what is known of directories, counting its bytes, and tells what can be told then.
    pub(super) fn with_known<T>(&self, change: impl FnOnce(&mut Known) -> (Decided, T)) -> T {
        let mut state = self.state.lock();
        let (told, answer) = change(&mut state.known);
        state.record();
        if state.phase == Phase::Open {
            for (shown, events) in told {
                self.happened(&mut state, &shown, events);
            }
        }
        answer
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
        state.known.clear();
        state.record();
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
        state.size += event.size();
        state.events.push(event);
        if !state.record() || state.size > self.terms.room {
            self.overflow(state);
        }
    }

    fn overflow(&self, state: &mut State) {
        self.clear(state);
        state.known.clear();
        state.record();
        state.lost = true;
    }

    /// Forgets all that happened; answers what was kept of it.
    fn clear(&self, state: &mut State) -> Vec<Event> {
        state.size = 0;
        state.lost = false;
        let events = std::mem::take(&mut state.events);
        state.record();
        events
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
