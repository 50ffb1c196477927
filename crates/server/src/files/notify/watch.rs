//! A watch that answers the CHANGE_NOTIFY requests of one directory handle ([MS-FSA] 2.1.1.8, 2.1.5.11).
//!
//! The first request of a handle determines what is watched and how many bytes of changes are kept between requests.
//! After an overflow the next request is answered with STATUS_NOTIFY_ENUM_DIR.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use proto::fscc::{FileAction, FileNotifyInformation};
use proto::smb2::change_notify::CompletionFilter;
use tokio::sync::oneshot;

use super::access_check::{self, AccessCheck, CheckState, Decided};
use crate::accounting::{Charge, Resource};
use crate::name::CharacterMap;
use crate::name::glob::Globs;
use crate::policy::limits::NOTIFY_WAITING_CHANGES;
use crate::streams::layout::is_store_name;
use crate::vfs::FileId;
use crate::vfs::watch::Watching;

/// The parameters determined by the first request of a handle.
pub(crate) struct Terms {
    /// The kinds of changes to report.
    pub(crate) filter: CompletionFilter,
    /// Whether the whole tree below the directory is watched.
    pub(crate) tree: bool,
    /// Maximum size in bytes of the kept changes, in the encoding of a response.
    pub(crate) space: usize,
    /// The directory.
    pub(crate) file: FileId,
    /// Names hidden from clients.
    pub(crate) veto: Globs,
    /// Characters that clients see as others.
    pub(crate) characters: CharacterMap,
    /// The charge for the watch. Kept changes are charged to the same payers.
    pub(crate) charge: Charge,
    /// The filter by access rights, if that is needed.
    pub(crate) access: Option<AccessCheck>,
}

/// A change, as reported to a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Event {
    /// What happened.
    pub(crate) action: FileAction,
    /// The path relative to the watched directory in UTF-16LE.
    pub(crate) name: Arc<[u8]>,
}

impl Event {
    /// Returns the size of the event in a response in bytes.
    fn size(&self) -> usize {
        FileNotifyInformation::FIXED_SIZE + self.name.len().next_multiple_of(FileNotifyInformation::ALIGNMENT)
    }
}

/// Memory in bytes that an event takes in addition to its size in a response.
const OVERHEAD: usize = 64;
/// Granularity in bytes in which changes are charged.
const STEP: usize = 1024;

/// Returns the action for one name of a rename whose other name is not reported.
fn alone(action: FileAction) -> FileAction {
    match action {
        FileAction::RENAMED_OLD_NAME => FileAction::REMOVED,
        FileAction::RENAMED_NEW_NAME => FileAction::ADDED,
        other => other,
    }
}

/// The result of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum NotifyResult {
    /// These changes were made.
    Changes(Vec<Event>),
    /// There were more changes than were kept, or than fit into the response.
    TooMuch,
    /// The directory is to be deleted; no further changes are reported.
    Doomed,
}

/// The position of a request in the queue of its watch. The sender is dropped when the handle is closed.
#[derive(Debug)]
pub(crate) struct Wait {
    number: u64,
    /// Receives the result.
    pub(crate) result: oneshot::Receiver<NotifyResult>,
}

/// The watch of a directory by one handle.
pub(crate) struct Watch {
    pub(crate) terms: Terms,
    state: Mutex<State>,
    /// The file system's watch of changes by local programs.
    local: Mutex<Option<Watching>>,
}

struct State {
    known: CheckState,
    /// The charge for the events and `known`.
    charge: Charge,
    events: Vec<Event>,
    /// Size of `events` in a response in bytes.
    size: usize,
    /// Changes were lost that are not in `events`.
    lost: bool,
    waiting: VecDeque<WaitingRequest>,
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

struct WaitingRequest {
    number: u64,
    space: usize,
    result: oneshot::Sender<NotifyResult>,
}

impl State {
    fn new(charge: Charge) -> State {
        State {
            known: CheckState::default(),
            charge,
            events: Vec::new(),
            size: 0,
            lost: false,
            waiting: VecDeque::new(),
            next: 0,
            phase: Phase::Open,
        }
    }

    /// Records the memory used now; returns whether it is within the limit.
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
            if let Some(access) = &mut terms.access {
                access.watch = watch.clone();
            }
            Watch { terms, state: Mutex::new(State::new(charge)), local: Mutex::default() }
        })
    }

    /// Keeps the file system's watch until the handle is closed.
    pub(crate) fn hold(&self, local: Watching) {
        *self.local.lock() = Some(local);
        if self.state.lock().phase == Phase::Closed {
            self.local.lock().take();
        }
    }

    /// Whether the path is hidden from clients.
    pub(super) fn is_vetoed(&self, path: &[u8]) -> bool {
        let veto = &self.terms.veto;
        path.split(|&byte| byte == b'/').any(|component| veto.matches(component) || is_store_name(component))
    }

    /// Returns the result of a request whose response has `space` bytes, at once or when a change is made. Requests are
    /// answered in the order of their arrival.
    pub(crate) fn ask(&self, space: usize) -> Result<NotifyResult, Wait> {
        let mut state = self.state.lock();
        if state.phase == Phase::Doomed {
            return Ok(NotifyResult::Doomed);
        }
        if state.waiting.is_empty()
            && let Some(result) = self.take(&mut state, space)
        {
            return Ok(result);
        }
        let (sender, result) = oneshot::channel();
        let number = state.next;
        state.next += 1;
        // On a closed handle the sender is dropped, which notifies the caller.
        if state.phase == Phase::Open {
            state.waiting.push_back(WaitingRequest { number, space, result: sender });
        }
        Err(Wait { number, result })
    }

    /// Cancels a wait; returns a result that was sent at the same moment.
    pub(crate) fn give_up(&self, mut wait: Wait) -> Option<NotifyResult> {
        self.state.lock().waiting.retain(|waiting| waiting.number != wait.number);
        wait.result.try_recv().ok()
    }

    /// Reports changes of paths below the directory as one group, without those hidden from clients.
    pub(super) fn show<'a>(&self, happened: impl IntoIterator<Item = (&'a [u8], Event)>) {
        let happened: Vec<_> = happened.into_iter().collect();
        let visible = happened.iter().map(|(path, _)| !self.is_vetoed(path)).collect::<Vec<_>>();
        let mut state = self.state.lock();
        if state.phase != Phase::Open {
            return;
        }
        let Some(access) = &self.terms.access else {
            return self.happened(&mut state, &visible, happened.into_iter().map(|(_, event)| event));
        };
        let settled = state.known.is_settled();
        let paths = || happened.iter().zip(&visible).filter(|(_, shown)| **shown).map(|((path, _), _)| *path);
        if settled && !paths().any(access_check::is_deep) {
            return self.happened(&mut state, &visible, happened.into_iter().map(|(_, event)| event));
        }
        let decided = if settled { state.known.decide(paths(), access.now()).ok() } else { None };
        if let Some(decided) = decided {
            let mut decided = decided.into_iter();
            let shown: Vec<_> = visible.iter().map(|shown| *shown && decided.next() == Some(true)).collect();
            return self.happened(&mut state, &shown, happened.into_iter().map(|(_, event)| event));
        }
        let mut changes: Vec<(Box<[u8]>, Event)> = Vec::new();
        for ((path, mut event), _) in happened.into_iter().zip(&visible).filter(|(_, shown)| **shown) {
            // If the other name of a rename is hidden, the visible one was added or removed.
            if visible.contains(&false) {
                event.action = alone(event.action);
            }
            changes.push((path.into(), event));
        }
        if changes.is_empty() {
            return;
        }
        state.known.wait(changes);
        access.check(&mut state.known);
        if !state.record() || state.known.bytes_waiting() > self.terms.space.max(NOTIFY_WAITING_CHANGES) {
            self.overflow(&mut state);
            self.tell(&mut state);
        }
    }

    /// Reports events as one group, without those that are not `shown`. If only one name of a rename is shown, it was
    /// added or removed.
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

    /// Changes the results of checks, charges their memory, and reports the changes that are decided then.
    pub(super) fn with_known<T>(&self, change: impl FnOnce(&mut CheckState) -> (Decided, T)) -> T {
        let mut state = self.state.lock();
        let (result, answer) = change(&mut state.known);
        state.record();
        if state.phase == Phase::Open {
            for (shown, events) in result {
                self.happened(&mut state, &shown, events);
            }
        }
        answer
    }

    /// Reports a change without details.
    pub(super) fn lose(&self) {
        let mut state = self.state.lock();
        if state.phase == Phase::Open {
            self.overflow(&mut state);
            self.tell(&mut state);
        }
    }

    /// Called when the directory is to be deleted ([MS-FSA] 2.1.5.15.3).
    pub(crate) fn doom(&self) {
        self.end(Phase::Doomed);
    }

    /// Called when the handle is closed.
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
                // Fails if the request was cancelled.
                let _ = waiting.result.send(NotifyResult::Doomed);
            }
        }
    }

    /// Keeps an event if there is space. A repetition of the last event is dropped.
    fn keep(&self, state: &mut State, event: Event) {
        if state.lost || state.events.last() == Some(&event) {
            return;
        }
        state.size += event.size();
        state.events.push(event);
        if !state.record() || state.size > self.terms.space {
            self.overflow(state);
        }
    }

    fn overflow(&self, state: &mut State) {
        self.clear(state);
        state.known.clear();
        state.record();
        state.lost = true;
    }

    /// Discards all events; returns those that were kept.
    fn clear(&self, state: &mut State) -> Vec<Event> {
        state.size = 0;
        state.lost = false;
        let events = std::mem::take(&mut state.events);
        state.record();
        events
    }

    /// Returns the result for a response of `space` bytes; `None` if there are no changes.
    fn take(&self, state: &mut State, space: usize) -> Option<NotifyResult> {
        if state.events.is_empty() && !state.lost {
            return None;
        }
        let fits = !state.lost && state.size <= space;
        let events = self.clear(state);
        Some(if fits { NotifyResult::Changes(events) } else { NotifyResult::TooMuch })
    }

    /// Answers waiting requests, oldest first.
    fn tell(&self, state: &mut State) {
        while let Some(space) = state.waiting.front().map(|first| first.space)
            && let Some(result) = self.take(state, space)
            && let Some(first) = state.waiting.pop_front()
        {
            // Events sent to a cancelled request are kept.
            match first.result.send(result) {
                Ok(()) => {}
                Err(NotifyResult::Changes(events)) => events.into_iter().for_each(|event| self.keep(state, event)),
                Err(_) => state.lost = true,
            }
        }
    }
}
