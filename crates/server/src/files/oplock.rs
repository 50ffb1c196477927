//! What clients may cache of one file: oplocks and leases, and what ends them ([MS-FSA] 2.1.4.12, 2.1.5.18, 2.1.5.19;
//! [MS-SMB2] 3.3.1.12, 3.3.5.22). Pure: time is handed in, whom to tell is a trait.
//!
//! Both kinds are kept as the lease state that they stand for: level II caches reading, an exclusive oplock writing too, a
//! batch oplock the handle too. A lease is shared by all opens that its client made with its key. Which file a key
//! belongs to is in `lease`.

use std::sync::Arc;
use std::time::Duration;

use proto::dtyp::AccessMask;
use proto::smb2::{LeaseState, OplockLevel};
use proto::status::Status;
use tokio::sync::oneshot;

use super::lease::LeaseId;
use crate::vfs;

/// How long a holder has to acknowledge a break ([MS-SMB2] 3.3.2.1, note <217>).
pub const ACKNOWLEDGMENT_TIME: Duration = Duration::from_secs(35);

const READ: LeaseState = LeaseState::READ_CACHING;
const HANDLE: LeaseState = LeaseState::HANDLE_CACHING;
const WRITE: LeaseState = LeaseState::WRITE_CACHING;
const NOTHING: LeaseState = LeaseState::NONE;

/// What a holder is told when its cache ends, or a part of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Break {
    /// Of an oplock; what is left of it.
    Oplock(OplockLevel),
    /// Of a lease.
    Lease(LeaseBreak),
}

/// The break of a lease ([MS-SMB2] 3.3.4.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseBreak {
    /// Which lease.
    pub id: LeaseId,
    /// What it was.
    pub from: LeaseState,
    /// What is left of it.
    pub to: LeaseState,
    /// `NewEpoch`; 0 for a lease of version 1.
    pub epoch: u16,
    /// Whether the holder must answer.
    pub acknowledge: bool,
}

/// Who holds an oplock or a part of a lease, to be told of its break.
pub trait Holder: Send + Sync {
    /// The cache ends, or a part of it. Called while the file is locked in the table: it must not call back. Answers
    /// whether there was anybody to tell.
    fn broken(&self, what: Break) -> bool;

    /// None of those who hold it could be told. Answers whether this one's client will be told when it comes back.
    fn unreachable(&self, _what: Break) -> bool {
        false
    }
}

/// How little an open touches ([MS-FSA] 2.1.4.12, case OPEN).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Touch {
    /// Attributes alone, which no oplock and no lease is about.
    Attributes,
    /// Attributes or the security descriptor, which no lease is about.
    Security,
    /// The file.
    Content,
}

impl Touch {
    /// Of an open with these rights.
    pub fn of(access: AccessMask) -> Touch {
        const ATTRIBUTES: u32 =
            AccessMask::FILE_READ_ATTRIBUTES.0 | AccessMask::FILE_WRITE_ATTRIBUTES.0 | AccessMask::SYNCHRONIZE.0;
        match access.0 & !ATTRIBUTES {
            0 => Touch::Attributes,
            rest if rest == AccessMask::READ_CONTROL.0 => Touch::Security,
            _ => Touch::Content,
        }
    }
}

/// What an open means for the caches of others.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// The content is thrown away, so nobody's copy of it stays valid.
    pub overwrites: bool,
    /// The file goes with the open, so nobody should keep it open only to be quick.
    pub deletes: bool,
    /// How little it touches.
    pub touch: Touch,
    /// The lease that it is made under: one's own cache is not broken.
    pub lease: Option<LeaseId>,
    /// `World::uptime`.
    pub now: Duration,
}

impl Opening {
    /// An open with these rights.
    pub fn new(desired_access: AccessMask, overwrites: bool, lease: Option<LeaseId>, now: Duration) -> Self {
        let touch = if overwrites { Touch::Content } else { Touch::of(desired_access) };
        Opening { overwrites, deletes: false, touch, lease, now }
    }
}

/// A break that must be acknowledged before the operation can go on.
#[derive(Debug)]
pub struct Wait {
    /// Ends, with whatever result, when the break is acknowledged or its holder is gone.
    pub changed: oneshot::Receiver<()>,
    /// `World::uptime` at which the holder has lost its cache even without a word.
    pub deadline: Duration,
}

/// What else there is to be known for granting something.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances {
    /// Nobody else has the file open, but to look at it.
    pub alone: bool,
    /// Several clients may cache the file for reading: `level2 oplocks`, and no range of it is locked.
    pub shared: bool,
    /// It is a directory: there is nothing to write, and oplocks are for files alone.
    pub directory: bool,
}

/// What is asked for with a lease ([MS-SMB2] 3.3.5.9.8, 3.3.5.9.11).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseAsked {
    /// Which lease.
    pub id: LeaseId,
    /// What the client would like to cache.
    pub state: LeaseState,
    /// The client's epoch; `None` in version 1.
    pub epoch: Option<u16>,
}

/// What was granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseGranted {
    /// What the client may cache.
    pub state: LeaseState,
    /// A break is under way.
    pub breaking: bool,
    /// Counts the changes of state; `None` for a lease of version 1, which is what the first of its opens asked for.
    pub epoch: Option<u16>,
}

/// The oplocks and leases of a file.
#[derive(Default)]
pub(super) struct Oplocks {
    held: Vec<Held>,
    /// Opens that lost level II and were told so, which they might take for a question.
    told: Vec<u64>,
    waiting: Vec<oneshot::Sender<()>>,
}

struct Held {
    /// Which lease it is; `None` for an oplock.
    lease: Option<LeaseId>,
    state: LeaseState,
    breaking: Option<Breaking>,
    /// Counts changes of state, in version 2 of leases.
    epoch: Option<u16>,
    /// The opens that share it, the oldest first; one for an oplock.
    opens: Vec<(u64, Arc<dyn Holder>)>,
    /// The kernel's lease that stands behind an oplock, and ends with it: local programs are kept out, too.
    backing: Option<Box<dyn vfs::Lease>>,
}

#[derive(Clone, Copy)]
struct Breaking {
    /// What the holder was told to keep.
    requested: LeaseState,
    /// What it may keep by what has come up since.
    required: LeaseState,
    deadline: Duration,
}

/// The oplock that stands for a state.
pub fn level(state: LeaseState) -> OplockLevel {
    match (state.contains(WRITE), state.contains(HANDLE), state.contains(READ)) {
        (true, true, _) => OplockLevel::BATCH,
        (true, false, _) => OplockLevel::EXCLUSIVE,
        (false, _, true) => OplockLevel::II,
        (false, _, false) => OplockLevel::NONE,
    }
}

fn state(level: OplockLevel) -> LeaseState {
    match level {
        OplockLevel::BATCH => READ | HANDLE | WRITE,
        OplockLevel::EXCLUSIVE => READ | WRITE,
        OplockLevel::II => READ,
        _ => NOTHING,
    }
}

impl Held {
    fn is(&self, lease: Option<LeaseId>) -> bool {
        lease.is_some() && self.lease == lease
    }

    /// Whether an operation that touches so much leaves this cache alone.
    fn ignores(&self, touch: Touch) -> bool {
        touch == Touch::Attributes || (touch == Touch::Security && self.lease.is_some())
    }

    /// Tells the first holder that can be told.
    fn tell(&self, to: LeaseState, acknowledge: bool) -> bool {
        let what = match self.lease {
            None => Break::Oplock(level(to)),
            Some(id) => {
                let (from, epoch) = (self.state, self.epoch.unwrap_or(0));
                Break::Lease(LeaseBreak { id, from, to, epoch, acknowledge })
            }
        };
        let told = self.opens.iter().any(|(_, holder)| holder.broken(what));
        // Each of them is to know, so none is left out.
        told || self.opens.iter().filter(|(_, holder)| holder.unreachable(what)).count() > 0
    }

    /// Takes the cache back to `to`. Reading alone ends at once, more when the holder has written back and answered.
    fn take_back(&mut self, to: LeaseState, now: Duration) {
        // Reading alone cannot be backed: nobody would tell of writes by local programs that have the file open.
        let to = if self.backing.is_some() { NOTHING } else { to };
        if let Some(breaking) = &mut self.breaking {
            breaking.required = breaking.required & to;
            return;
        }
        self.epoch = self.epoch.map(|epoch| epoch.wrapping_add(1));
        self.begin_break(to, now);
    }

    fn begin_break(&mut self, to: LeaseState, now: Duration) {
        let acknowledge = self.state.intersects(WRITE | HANDLE);
        let told = self.tell(to, acknowledge);
        if acknowledge {
            // Nobody will answer where nobody was told.
            let deadline = if told { now + ACKNOWLEDGMENT_TIME } else { now };
            self.breaking = Some(Breaking { requested: to, required: to, deadline });
        } else {
            self.state = to;
        }
    }

    fn deadline(&self) -> Option<Duration> {
        self.breaking.map(|breaking| breaking.deadline)
    }
}

impl Oplocks {
    /// [MS-FSA] 2.1.4.12, cases OPEN and OPEN_BREAK_H: breaks what an open breaks. `Some` where that must be waited for.
    /// `violation`: share modes of others forbid the open. A client that caches its handle may have closed the file long
    /// ago, so it is asked; what else is cached does not matter then, as the open fails.
    pub(super) fn open(&mut self, opening: Opening, violation: bool) -> Option<Wait> {
        let awaited = if violation { HANDLE } else { WRITE };
        let mut deadline = None;
        for held in &mut self.held {
            if held.is(opening.lease) || held.ignores(opening.touch) {
                continue;
            }
            // As Windows does, though [MS-FSA] 2.1.5.1.2 does not say so.
            let closes = opening.deletes && held.lease.is_some();
            let awaited = if closes { awaited | HANDLE } else { awaited };
            let waits = held.state.intersects(awaited);
            let mut to = held.state.without(awaited);
            if opening.overwrites && !violation {
                to = NOTHING;
            }
            if held.lease.is_none() {
                to = to & READ;
            }
            // An exclusive oplock whose handle nobody keeps back does not help against a violation.
            if to == held.state || (violation && !waits) {
                continue;
            }
            if held.lease.is_none() && !waits {
                // Level II goes without a question, below.
                continue;
            }
            held.take_back(to, opening.now);
            if waits {
                deadline = deadline.max(held.deadline());
            }
        }
        if opening.overwrites && !violation {
            self.end_level_two();
        }
        Some(self.wait(deadline?))
    }

    /// Until anything of this changes.
    pub(super) fn wait(&mut self, deadline: Duration) -> Wait {
        let (sender, changed) = oneshot::channel();
        // Who stopped waiting leaves nothing behind, however often it tries.
        self.waiting.retain(|waiting| !waiting.is_closed());
        self.waiting.push(sender);
        Wait { changed, deadline }
    }

    /// Level II ends; nobody need acknowledge.
    fn end_level_two(&mut self) {
        let told = &mut self.told;
        self.held.retain_mut(|held| {
            let ends = held.lease.is_none() && held.state == READ && held.breaking.is_none();
            if ends {
                held.tell(NOTHING, false);
                told.extend(held.opens.iter().map(|(open, _)| *open));
            }
            !ends
        });
    }

    /// The content changes, or a range is locked (2.1.4.12, cases WRITE and LOCK_CONTROL): nobody else's copy stays valid.
    /// Level II ends for the writer as well, a lease does not. Nobody is waited for.
    pub(super) fn write(&mut self, lease: Option<LeaseId>, now: Duration) {
        if self.held.is_empty() {
            return;
        }
        self.end_level_two();
        for held in &mut self.held {
            if held.lease.is_some() && !held.is(lease) && held.state.contains(READ) {
                held.take_back(NOTHING, now);
            }
        }
    }

    /// Something in this directory changes (2.1.4.12 with PARENT_OBJECT). `by`: the lease under which the change is made.
    pub(super) fn directory_changes(&mut self, by: Option<LeaseId>, now: Duration) {
        for held in &mut self.held {
            if held.lease.is_some() && !held.is(by) && held.state.contains(READ) {
                held.take_back(NOTHING, now);
            }
        }
    }

    /// A rename, a deletion or another security descriptor (2.1.4.12, case SET_INFORMATION): who keeps the file open only
    /// to be quick closes it. `renames`: a batch oplock ends with it.
    pub(super) fn change_name(
        &mut self,
        open: u64,
        lease: Option<LeaseId>,
        renames: bool,
        now: Duration,
    ) -> Option<Wait> {
        let mut deadline = None;
        for held in &mut self.held {
            let own = held.is(lease) || held.opens.iter().any(|(id, _)| *id == open);
            if own || !held.state.contains(HANDLE) {
                continue;
            }
            match held.lease {
                Some(_) => held.take_back(held.state.without(HANDLE), now),
                None if renames => held.take_back(NOTHING, now),
                None => continue,
            }
            deadline = deadline.max(held.deadline());
        }
        Some(self.wait(deadline?))
    }

    /// 2.1.5.18 with [MS-SMB2] 3.3.5.9 "Oplock Acquisition": what is granted of `asked`.
    pub(super) fn grant(
        &mut self,
        open: u64,
        asked: OplockLevel,
        circumstances: Circumstances,
        holder: Arc<dyn Holder>,
    ) -> OplockLevel {
        let others = self.others(open, None);
        let mut granted = state(asked);
        // Who keeps its handle for caching would have to be asked at each open of the other. Beside one who caches writing,
        // which an open that only looks at attributes leaves be, nothing can be cached.
        if others.any.intersects(HANDLE | WRITE) || circumstances.directory {
            return OplockLevel::NONE;
        }
        if !circumstances.alone || others.any != NOTHING {
            granted = granted & READ;
        }
        if !granted.contains(WRITE) && !circumstances.shared {
            return OplockLevel::NONE;
        }
        if granted != NOTHING {
            let opens = vec![(open, holder)];
            self.held.push(Held { lease: None, state: granted, breaking: None, epoch: None, opens, backing: None });
        }
        level(granted)
    }

    /// As [`Oplocks::grant`], with the kernel's lease behind it, which is given up where nothing or less is granted: an
    /// oplock that caches writing or none.
    pub(super) fn grant_backed(
        &mut self,
        open: u64,
        asked: OplockLevel,
        circumstances: Circumstances,
        holder: Arc<dyn Holder>,
        backing: Box<dyn vfs::Lease>,
    ) -> OplockLevel {
        let granted = self.grant(open, asked, Circumstances { shared: false, ..circumstances }, holder);
        if granted != OplockLevel::NONE
            && let Some(held) = self.held.last_mut()
        {
            held.backing = Some(backing);
        }
        granted
    }

    /// A local program opens the file. Answers by when the oplock of `open` is over.
    pub(super) fn open_locally(&mut self, open: u64, now: Duration) -> Option<Duration> {
        let of = |held: &&mut Held| held.backing.is_some() && held.opens.iter().any(|(id, _)| *id == open);
        let held = self.held.iter_mut().find(of)?;
        held.take_back(NOTHING, now);
        held.deadline()
    }

    /// [MS-SMB2] 3.3.5.9.8, 3.3.5.9.11: what is granted of a lease, or added to one that the client has.
    pub(super) fn grant_lease(
        &mut self,
        open: u64,
        asked: LeaseAsked,
        circumstances: Circumstances,
        holder: Arc<dyn Holder>,
    ) -> LeaseGranted {
        let others = self.others(open, Some(asked.id));
        let possible = if circumstances.directory { READ | HANDLE } else { READ | HANDLE | WRITE };
        let wanted = asked.state & possible;
        let mut granted = wanted;
        if !circumstances.alone || others.any != NOTHING {
            granted = granted.without(WRITE);
        }
        if others.oplock {
            granted = granted.without(HANDLE);
        }
        if others.any.intersects(WRITE)
            || !granted.contains(READ)
            || (!granted.contains(WRITE) && !circumstances.shared)
        {
            granted = NOTHING;
        }
        let Some(held) = self.held.iter_mut().find(|held| held.lease == Some(asked.id)) else {
            let epoch = asked.epoch.map(|epoch| epoch.wrapping_add(1));
            let opens = vec![(open, holder)];
            self.held.push(Held { lease: Some(asked.id), state: granted, breaking: None, epoch, opens, backing: None });
            return LeaseGranted { state: granted, breaking: false, epoch };
        };
        held.opens.push((open, holder));
        // A lease is never cut down by its own client's opens, and grows only by all that is asked for.
        let grows = granted == wanted && granted != held.state && granted.contains(held.state);
        if held.breaking.is_none() && grows {
            held.state = granted;
            held.epoch = held.epoch.map(|epoch| epoch.wrapping_add(1));
        }
        LeaseGranted { state: held.state, breaking: held.breaking.is_some(), epoch: held.epoch }
    }

    fn others(&self, open: u64, lease: Option<LeaseId>) -> Others {
        let mut others = Others { any: NOTHING, oplock: false };
        for held in self.held.iter().filter(|held| !held.is(lease) && held.opens.iter().all(|(id, _)| *id != open)) {
            others.any |= held.state;
            others.oplock |= held.lease.is_none();
        }
        others
    }

    /// What an open caches: its oplock, or the lease that it shares.
    pub(super) fn caches(&self, open: u64) -> LeaseState {
        let held = self.held.iter().find(|held| held.opens.iter().any(|(id, _)| *id == open));
        held.map_or(NOTHING, |held| held.state)
    }

    /// Whether the client of an open may keep it open behind its user's back, and nobody has asked for that back.
    pub(super) fn holds_handle_caching(&self, open: u64) -> bool {
        let is_of = |held: &&Held| held.opens.iter().any(|(id, _)| *id == open);
        self.held.iter().find(is_of).is_some_and(|held| held.state.contains(HANDLE) && held.breaking.is_none())
    }

    /// What a lease is now; `None` where no open has it.
    pub(super) fn lease(&self, id: LeaseId) -> Option<LeaseGranted> {
        let held = self.held.iter().find(|held| held.lease == Some(id))?;
        Some(LeaseGranted { state: held.state, breaking: held.breaking.is_some(), epoch: held.epoch })
    }

    /// The epoch goes on from `epoch`, if that is ahead: the server was restarted and knows no later one.
    pub(super) fn raise_epoch(&mut self, id: LeaseId, epoch: u16) {
        let held = self.held.iter_mut().filter(|held| held.lease == Some(id));
        for known in held.filter_map(|held| held.epoch.as_mut()) {
            // Half of the numbers are ahead.
            if epoch.wrapping_sub(*known) < 0x8000 {
                *known = epoch;
            }
        }
    }

    /// Somebody else is to be told from now on: an open was taken up again by its client.
    pub(super) fn change_holder(&mut self, open: u64, holder: Arc<dyn Holder>) {
        let opens = self.held.iter_mut().flat_map(|held| &mut held.opens);
        for entry in opens.filter(|(id, _)| *id == open) {
            entry.1 = holder.clone();
        }
    }

    /// [MS-SMB2] 3.3.5.22.1 with [MS-FSA] 2.1.5.19: the holder gives way and keeps `level`. Answers what it holds now.
    pub(super) fn acknowledge(&mut self, open: u64, acknowledged: OplockLevel) -> Result<OplockLevel, Status> {
        // 2.1.5.19: the end of level II needs no acknowledgment.
        if let Some(index) = self.told.iter().position(|told| *told == open) {
            self.told.swap_remove(index);
            return Err(Status::INVALID_OPLOCK_PROTOCOL);
        }
        let of = |held: &&mut Held| held.lease.is_none() && held.opens.iter().any(|(id, _)| *id == open);
        let held = self.held.iter_mut().find(of).ok_or(Status::INVALID_DEVICE_STATE)?;
        let breaking = held.breaking.take().ok_or(Status::INVALID_DEVICE_STATE)?;
        let batch = held.state.contains(HANDLE);
        let (kept, result) = match acknowledged {
            OplockLevel::II => (breaking.requested, Ok(level(breaking.requested))),
            OplockLevel::NONE => (NOTHING, Ok(OplockLevel::NONE)),
            OplockLevel::EXCLUSIVE if batch => (NOTHING, Ok(OplockLevel::NONE)),
            OplockLevel::LEASE => (NOTHING, Err(Status::INVALID_PARAMETER)),
            _ => (NOTHING, Err(Status::INVALID_OPLOCK_PROTOCOL)),
        };
        held.state = kept;
        self.held.retain(|held| held.lease.is_some() || held.state != NOTHING);
        self.wake();
        result
    }

    /// [MS-SMB2] 3.3.5.22.2: the holder of a lease gives way and keeps `kept`. Answers what it holds now.
    pub(super) fn acknowledge_lease(
        &mut self,
        id: LeaseId,
        kept: LeaseState,
        now: Duration,
    ) -> Result<LeaseState, Status> {
        let of = |held: &&mut Held| held.lease == Some(id);
        let held = self.held.iter_mut().find(of).ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
        let breaking = held.breaking.ok_or(Status::UNSUCCESSFUL)?;
        if !breaking.requested.contains(kept) {
            return Err(Status::REQUEST_NOT_ACCEPTED);
        }
        held.state = kept;
        held.breaking = None;
        if !breaking.required.contains(kept) {
            // More came up meanwhile, all of it one change of state. Reading goes last, so that handles are closed before.
            let rest = if kept == READ { NOTHING } else { READ & kept };
            held.begin_break(breaking.required | rest, now);
            if let Some(again) = &mut held.breaking {
                again.required = breaking.required;
            }
        }
        if held.breaking.is_none() {
            self.wake();
        }
        Ok(kept)
    }

    /// The open is closed; with it goes its oplock, or its part of a lease (2.1.4.12, case CLOSE).
    pub(super) fn close(&mut self, open: u64) {
        self.told.retain(|told| *told != open);
        let before = self.held.len();
        self.held.retain_mut(|held| {
            held.opens.retain(|(id, _)| *id != open);
            !held.opens.is_empty()
        });
        if self.held.len() != before {
            self.wake();
        }
    }

    /// [MS-SMB2] 3.3.6.1, 3.3.6.5: who has not acknowledged in time caches nothing any more.
    pub(super) fn expire(&mut self, now: Duration) {
        let mut changed = false;
        self.held.retain_mut(|held| {
            let late = held.deadline().is_some_and(|deadline| deadline <= now);
            if late {
                held.state = NOTHING;
                held.breaking = None;
                changed = true;
            }
            !late || held.lease.is_some()
        });
        if changed {
            self.wake();
        }
    }

    fn wake(&mut self) {
        for waiting in self.waiting.drain(..) {
            // Whoever was cancelled meanwhile does not listen any more.
            let _ = waiting.send(());
        }
    }
}

/// What others than an open cache.
struct Others {
    any: LeaseState,
    oplock: bool,
}

#[cfg(test)]
mod tests;
