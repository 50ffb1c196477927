//! The table of all open files, sharded by file: one entry per file, with everything that its opens share. It is in
//! memory only. A stream is a file of its own here.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use proto::smb2::create::ShareAccess;
use proto::smb2::{LeaseState, OplockLevel};
use proto::status::Status;

use super::ShareMode;
use super::lease::{LeaseEntry, LeaseId};
use super::locking::Locks;
use super::oplock::{Circumstances, Holder, LeaseAsked, LeaseGranted, Opening, Oplocks, Touch, Wait};
use super::write_time::WriteTime;
use crate::number_hash::NumberMap;
use crate::streams::beside::Located;
use crate::vfs::{FileId, Kind, Lease, Op, RelPath};

const SHARDS: usize = 64;

fn shard_of(file: FileId) -> usize {
    let mixed = (file.inode ^ file.device.rotate_left(32) ^ file.stream).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 58) as usize % SHARDS
}

/// The name of an open file, shared by its opens and updated by renames through the server.
#[derive(Debug)]
pub struct OpenName {
    /// The volume that the path is relative to.
    pub volume: u64,
    /// The path on disk.
    pub path: Mutex<RelPath>,
}

impl Located for OpenName {
    fn path(&self) -> RelPath {
        self.path.lock().clone()
    }
}

/// The reason why a file cannot be opened now.
#[derive(Debug)]
pub enum Refusal {
    /// A sharing violation with another open.
    SharingViolation,
    /// The file is deleted with its last open.
    DeletePending,
    /// A name was removed or changed since the lookup: look up again.
    Raced,
    /// A client must give up an oplock or lease first, or the name is being replaced: wait, then look up again.
    OplockBreak(Wait),
    /// The lease that the open is to be made under belongs to another file.
    LeaseElsewhere,
}

/// Result of closing an open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Closed {
    /// The file has other opens, or is not deleted.
    Stays,
    /// That was the last open of a file that is to be deleted: unlink it, then call [`Table::deleted`].
    Delete,
    /// All opens have POSIX semantics: unlink the name of the open that was closed, then call [`Table::deleted`].
    DeleteOwnName,
}

/// A snapshot of the counters of removed and changed names.
#[derive(Clone, Copy)]
pub struct Removals([u32; SHARDS]);

/// All open files of the server.
pub struct Table {
    pub(super) shards: [Mutex<NumberMap<FileId, File>>; SHARDS],
    /// The file of each lease. Locked after a shard, never before one.
    pub(super) leases: Mutex<HashMap<LeaseId, LeaseEntry>>,
    /// Names of files that are being created.
    pub(super) pending_creates: Mutex<Vec<Arc<OpenName>>>,
    /// Upper bound of the number of leases on directories. If it is 0 they need not be searched.
    directory_leases: AtomicUsize,
    /// Number of names removed or changed, per shard of their file. Detects that the lookup of an open is out of date.
    removals: [AtomicU32; SHARDS],
    /// Suppresses breaks, so that a test can show that it detects missing ones.
    #[cfg(any(test, feature = "contract"))]
    pub(crate) silent: std::sync::atomic::AtomicBool,
}

#[derive(Default)]
pub(super) struct File {
    pub(super) opens: Vec<Entry>,
    pub(super) delete_pending: bool,
    /// Number of names that POSIX clients are removing, each by the open that it was closed with. No open is admitted
    /// meanwhile.
    removals_at_once: usize,
    /// The name is being replaced by another file; the file has no opens, or only POSIX opens.
    pub(super) being_replaced: bool,
    /// The name to be deleted, and the user who deletes it.
    pub(super) doom: Option<Doom>,
    pub(super) oplocks: Oplocks,
    pub(super) locks: Locks,
    pub(super) write_time: WriteTime,
}

/// The deletion of a file that is still open. Only this name is removed, and the user who closes the last handle need
/// not have the right to delete.
#[derive(Clone)]
pub struct Doom {
    /// The name to be removed.
    pub name: Arc<OpenName>,
    /// The context for the deletion: the user who requested it.
    pub op: Op,
    /// Nothing is removed, although the file cannot be opened until it is closed. A Mac expects that of a resource
    /// fork.
    pub is_ignored: bool,
}

pub(super) struct Entry {
    open: u64,
    mode: ShareMode,
    pub(super) name: Arc<OpenName>,
    lease: Option<LeaseId>,
    /// The open was granted a lease on a directory, counted in [`Table::directory_leases`].
    on_directory: bool,
    /// The open has POSIX semantics.
    pub(super) posix: bool,
}

impl Default for Table {
    fn default() -> Self {
        Table {
            shards: std::array::from_fn(|_| Mutex::default()),
            leases: Mutex::default(),
            pending_creates: Mutex::default(),
            directory_leases: AtomicUsize::new(0),
            removals: std::array::from_fn(|_| AtomicU32::new(0)),
            #[cfg(any(test, feature = "contract"))]
            silent: Default::default(),
        }
    }
}

impl Table {
    pub(super) fn shard(&self, file: FileId) -> &Mutex<NumberMap<FileId, File>> {
        &self.shards[shard_of(file)]
    }

    /// Calls `look` with the state of a file; `None` if it is not open.
    pub(super) fn with<T>(&self, file: FileId, look: impl FnOnce(&mut File) -> T) -> Option<T> {
        self.shard(file).lock().get_mut(&file).map(look)
    }

    /// Returns the counters to read before a lookup and to pass to [`Table::open`] after it.
    pub fn removals(&self) -> Removals {
        Removals(std::array::from_fn(|shard| self.removals[shard].load(Ordering::Acquire)))
    }

    /// Invalidates lookups of the file.
    pub(super) fn removed(&self, file: FileId) {
        self.removals[shard_of(file)].fetch_add(1, Ordering::AcqRel);
    }

    /// Adds an open, if share modes and the file's state permit it.
    pub fn open(
        &self,
        file: FileId,
        open: u64,
        mode: ShareMode,
        name: &Arc<OpenName>,
        removals: Removals,
        opening: Opening,
    ) -> Result<(), Refusal> {
        let mut shard = self.shard(file).lock();
        let place = shard_of(file);
        if self.removals[place].load(Ordering::Acquire) != removals.0[place] {
            return Err(Refusal::Raced);
        }
        if let Some(state) = shard.get_mut(&file) {
            if state.being_replaced {
                return Err(Refusal::OplockBreak(state.wait_for_name(opening.now)));
            }
            if state.delete_pending {
                return Err(Refusal::DeletePending);
            }
            let admits = |entry: &Entry| entry.posix && opening.posix || entry.mode.admits(&mode);
            let violation = !state.opens.iter().all(admits);
            if let Some(wait) = state.oplocks.open(opening, violation) {
                return Err(Refusal::OplockBreak(wait));
            }
            if violation {
                return Err(Refusal::SharingViolation);
            }
        }
        if opening.lease.is_some_and(|lease| !self.enter_lease(lease, file, name)) {
            return Err(Refusal::LeaseElsewhere);
        }
        let entry =
            Entry { open, mode, name: name.clone(), lease: opening.lease, on_directory: false, posix: opening.posix };
        shard.entry(file).or_default().opens.push(entry);
        Ok(())
    }

    /// Grants an open the requested oplock or a lower level ([MS-SMB2] 3.3.5.9 "Oplock Acquisition"). `level_two`:
    /// whether several clients may cache the file for reading.
    pub fn grant_oplock(
        &self,
        file: FileId,
        open: u64,
        asked: OplockLevel,
        level_two: bool,
        holder: Arc<dyn Holder>,
    ) -> OplockLevel {
        self.with(file, |state| {
            let circumstances = state.circumstances(open, level_two, false)?;
            Some(state.oplocks.grant(open, asked, circumstances, holder))
        })
        .flatten()
        .unwrap_or(OplockLevel::NONE)
    }

    /// As [`Table::grant_oplock`], for an oplock backed by a lease from the kernel on the file.
    pub fn grant_backed_oplock(
        &self,
        file: FileId,
        open: u64,
        asked: OplockLevel,
        holder: Arc<dyn Holder>,
        backing: Box<dyn Lease>,
    ) -> OplockLevel {
        self.with(file, |state| {
            let circumstances = state.circumstances(open, false, false)?;
            Some(state.oplocks.grant_backed(open, asked, circumstances, holder, backing))
        })
        .flatten()
        .unwrap_or(OplockLevel::NONE)
    }

    /// Breaks the oplock of `open` because a local program opens the file, on which the open has a lease from the
    /// kernel. Returns the deadline; `None` if there is no such oplock any more.
    pub fn open_locally(&self, file: FileId, open: u64, now: Duration) -> Option<Duration> {
        self.with(file, |state| state.oplocks.open_locally(open, now)).flatten()
    }

    /// Grants an open made under a lease the requested state or a part of it (3.3.5.9.8, 3.3.5.9.11).
    pub fn grant_lease(
        &self,
        file: FileId,
        open: u64,
        asked: LeaseAsked,
        level_two: bool,
        directory: bool,
        holder: Arc<dyn Holder>,
    ) -> Option<LeaseGranted> {
        self.with(file, |state| {
            let circumstances = state.circumstances(open, level_two, directory)?;
            let granted = state.oplocks.grant_lease(open, asked, circumstances, holder);
            if directory && let Some(entry) = state.opens.iter_mut().find(|entry| entry.open == open) {
                entry.on_directory = true;
                self.directory_leases.fetch_add(1, Ordering::AcqRel);
            }
            Some(granted)
        })
        .flatten()
    }

    /// Whether an open has handle caching by a batch oplock or a lease, and no break of it is in progress. This is the
    /// condition for preserving it while the client is disconnected.
    pub fn holds_handle_caching(&self, file: FileId, open: u64) -> bool {
        self.with(file, |state| state.oplocks.holds_handle_caching(open)).unwrap_or(false)
    }

    /// Returns the state of an open's oplock or lease.
    pub fn caches(&self, file: FileId, open: u64) -> LeaseState {
        self.with(file, |state| state.oplocks.caches(open)).unwrap_or(LeaseState::NONE)
    }

    /// Returns the state of a lease on this file.
    pub fn lease(&self, file: FileId, lease: LeaseId) -> Option<LeaseGranted> {
        self.with(file, |state| state.oplocks.lease(lease)).flatten()
    }

    /// Replaces the recipient of the breaks of an open whose client has lost the connection, and notifies it of a break
    /// in progress. Returns the oplock or lease for the response before that notification. `known`: the client's state
    /// and epoch of the lease, if the server was restarted.
    pub fn change_holder(
        &self,
        file: FileId,
        open: u64,
        holder: Arc<dyn Holder>,
        known: Option<(LeaseState, u16)>,
        now: Duration,
    ) -> Option<LeaseGranted> {
        self.with(file, |state| state.oplocks.change_holder(open, holder, known, now)).flatten()
    }

    /// Called before a rename, a deletion or a change of the security descriptor through `open`. `Some` if clients that
    /// cache their handles must close them first.
    pub fn name_changes(
        &self,
        file: FileId,
        open: u64,
        lease: Option<LeaseId>,
        renames: bool,
        now: Duration,
    ) -> Option<Wait> {
        self.with(file, |state| state.oplocks.change_name(open, lease, renames, now)).flatten()
    }

    /// Whether any client may have a lease on a directory. If not, the parent of a changed file need not be looked up.
    pub fn has_directory_leases(&self) -> bool {
        self.directory_leases.load(Ordering::Acquire) > 0
    }

    /// Breaks the leases on a directory whose content changes, except for `by`, under which the change is made.
    pub fn directory_changes(&self, directory: FileId, by: Option<LeaseId>, now: Duration) {
        self.with(directory, |state| state.oplocks.directory_changes(by, now));
    }

    /// Acknowledges an oplock break; returns the new level ([MS-SMB2] 3.3.5.22.1).
    pub fn acknowledge_oplock(&self, file: FileId, open: u64, level: OplockLevel) -> Result<OplockLevel, Status> {
        let mut shard = self.shard(file).lock();
        shard.get_mut(&file).ok_or(Status::INVALID_DEVICE_STATE)?.oplocks.acknowledge(open, level)
    }

    /// Ends breaks whose time to be acknowledged is over.
    pub fn expire_oplocks(&self, file: FileId, now: Duration) {
        if let Some(state) = self.shard(file).lock().get_mut(&file) {
            state.oplocks.expire(now);
        }
    }

    /// Breaks caches of a file whose content is about to change or to be locked, except for the lease `by`.
    pub fn content_changes(&self, file: FileId, by: Option<LeaseId>, now: Duration) {
        #[cfg(any(test, feature = "contract"))]
        if self.silent.load(Ordering::Relaxed) {
            return;
        }
        self.with(file, |state| state.oplocks.write(by, now));
    }

    /// Whether an open with `mode` would be admitted now.
    pub fn admits(&self, file: FileId, mode: ShareMode) -> Result<(), Refusal> {
        match self.shard(file).lock().get(&file) {
            Some(state) if state.delete_pending => Err(Refusal::DeletePending),
            Some(state) if !state.opens.iter().all(|entry| entry.mode.admits(&mode)) => Err(Refusal::SharingViolation),
            _ => Ok(()),
        }
    }

    /// Whether the file is open for deletion.
    pub fn is_open_for_deletion(&self, file: FileId) -> bool {
        let deletes = |entry: &Entry| entry.mode.access.contains(proto::dtyp::AccessMask::DELETE);
        self.shard(file).lock().get(&file).is_some_and(|state| state.opens.iter().any(deletes))
    }

    /// Removes an open. If `delete` is set, the file is to be deleted with its last open, or at once if this open and
    /// all others have POSIX semantics. A file to be deleted stays in the table, refusing new opens, until
    /// [`Table::deleted`].
    pub fn close(&self, file: FileId, open: u64, delete: bool) -> Closed {
        let mut shard = self.shard(file).lock();
        let Some(state) = shard.get_mut(&file) else { return Closed::Stays };
        // Each of several POSIX clients that unlink names of one file at the same time removes its own.
        let at_once = delete && (!state.delete_pending || state.removals_at_once > 0) && state.is_posix();
        for entry in state.opens.extract_if(.., |entry| entry.open == open) {
            if let Some(lease) = entry.lease {
                self.leave_lease(lease);
            }
            if entry.on_directory {
                self.directory_leases.fetch_sub(1, Ordering::AcqRel);
            }
        }
        state.delete_pending |= delete;
        state.oplocks.close(open);
        state.locks.close(open);
        if at_once {
            state.removals_at_once += 1;
            return Closed::DeleteOwnName;
        }
        if !state.opens.is_empty() || state.removals_at_once > 0 {
            return Closed::Stays;
        }
        if state.delete_pending {
            return Closed::Delete;
        }
        // The end of the replacement removes it.
        if !state.being_replaced {
            shard.remove(&file);
        }
        Closed::Stays
    }

    /// Called after the name of a file for which [`Closed::Delete`] or [`Closed::DeleteOwnName`] was returned was
    /// removed, or could not be removed. POSIX opens that are left keep the file without that name.
    pub fn deleted(&self, file: FileId) {
        let mut shard = self.shard(file).lock();
        self.removed(file);
        if let Some(state) = shard.get_mut(&file) {
            state.removals_at_once = state.removals_at_once.saturating_sub(1);
        }
        match shard.get_mut(&file) {
            Some(state) if state.removals_at_once > 0 => {}
            Some(state) if state.opens.is_empty() && !state.being_replaced => _ = shard.remove(&file),
            Some(state) => (state.delete_pending, state.doom) = (false, None),
            None => {}
        }
    }

    /// Marks an open file for deletion with its last open, or clears the mark.
    pub fn set_delete_pending(&self, file: FileId, pending: bool) {
        if let Some(state) = self.shard(file).lock().get_mut(&file) {
            state.delete_pending = pending;
            state.doom = state.doom.take().filter(|_| pending);
        }
    }

    /// Sets how an open file is deleted that is or is about to be marked for deletion. The first call decides, unless
    /// its request is ignored.
    pub fn set_doom(&self, file: FileId, doom: Doom) {
        self.with(file, |state| {
            if state.doom.as_ref().is_none_or(|first| first.is_ignored) {
                state.doom = Some(doom);
            }
        });
    }

    /// Returns how a file is deleted; `None` if that was not set.
    pub fn doom(&self, file: FileId) -> Option<Doom> {
        self.with(file, |state| state.doom.clone()).flatten()
    }

    /// Whether the file is deleted with its last open.
    pub fn is_delete_pending(&self, file: FileId) -> bool {
        self.shard(file).lock().get(&file).is_some_and(|state| state.delete_pending)
    }

    /// Whether the file is open, or its name is being replaced.
    pub fn is_open(&self, file: FileId) -> bool {
        self.shard(file).lock().contains_key(&file)
    }

    /// Whether all opens of the file except `except` share deletion, as a rename requires ([MS-FSA] 2.1.5.15.11).
    pub fn shares_delete(&self, file: FileId, except: u64) -> bool {
        self.shard(file).lock().get(&file).is_none_or(|state| {
            let deletes = ShareMode { access: proto::dtyp::AccessMask::DELETE, share: EVERYTHING };
            state.opens.iter().all(|entry| entry.open == except || entry.mode.admits(&deletes))
        })
    }

    /// Whether an open of the file except `except` has access to more than attributes and permissions.
    pub fn is_used_by_others(&self, file: FileId, except: u64) -> bool {
        use proto::dtyp::AccessMask;
        const USES: AccessMask = AccessMask(
            AccessMask::FILE_READ_DATA.0
                | AccessMask::FILE_WRITE_DATA.0
                | AccessMask::FILE_APPEND_DATA.0
                | AccessMask::FILE_EXECUTE.0
                | AccessMask::DELETE.0,
        );
        self.shard(file).lock().get(&file).is_some_and(|state| {
            state.opens.iter().any(|entry| entry.open != except && entry.mode.access.intersects(USES))
        })
    }

    /// Whether the opens of a directory permit adding a name. A rename opens the destination for that, sharing reading
    /// and writing but not deletion ([MS-FSA] 2.1.5.15.12, note 185).
    pub fn admits_new_name(&self, directory: FileId) -> bool {
        let access = proto::dtyp::AccessMask::FILE_ADD_FILE;
        !matches!(self.admits(directory, ShareMode { access, share: ShareAccess(3) }), Err(Refusal::SharingViolation))
    }

    /// Updates the names of opens after a rename. For a directory, the names of files opened below it during the rename
    /// change, too. Lookups of the old name are invalidated.
    pub fn renamed(&self, file: FileId, volume: u64, from: &RelPath, to: &RelPath, kind: Kind) {
        let rename_one = |name: &Arc<OpenName>| {
            if name.volume != volume {
                return;
            }
            let mut path = name.path.lock();
            if *path == *from {
                *path = to.clone();
            } else if kind == Kind::Directory
                && path.is_beneath(from)
                && let Some(moved) = path.moved(from, to)
            {
                *path = moved;
            }
        };
        let rename = |state: &File| {
            let doomed = state.doom.iter().map(|doom| &doom.name);
            state.opens.iter().map(|entry| &entry.name).chain(doomed).for_each(rename_one);
        };
        // Opens admitted before get their name changed here; others look up again.
        if kind != Kind::Directory {
            let shard = self.shard(file).lock();
            self.removed(file);
            return shard.get(&file).map_or((), rename);
        }
        // First, because files entered into the table meanwhile are handled by the loop below.
        self.pending_creates.lock().iter().for_each(rename_one);
        for (shard, removals) in self.shards.iter().zip(&self.removals) {
            let shard = shard.lock();
            removals.fetch_add(1, Ordering::AcqRel);
            shard.values().for_each(rename);
        }
    }

    /// Adds an open unconditionally.
    #[cfg(test)]
    pub(super) fn add_for_test(&self, file: FileId, open: u64, mode: ShareMode, name: &Arc<OpenName>) {
        self.shard(file).lock().entry(file).or_default().opens.push(Entry {
            open,
            mode,
            name: name.clone(),
            lease: None,
            on_directory: false,
            posix: false,
        });
    }

    /// Returns the number of files in the table.
    pub fn files(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// Returns the number of opens, for status.
    pub fn count(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().values().map(|state| state.opens.len()).sum::<usize>()).sum()
    }
}

impl File {
    /// Whether all opens have POSIX semantics.
    pub(super) fn is_posix(&self) -> bool {
        self.opens.iter().all(|entry| entry.posix)
    }

    /// Whether the file is deleted with its last open.
    pub(super) fn is_delete_pending(&self) -> bool {
        self.delete_pending
    }

    /// Whether `open` is the only open.
    pub(super) fn is_open_only_by(&self, open: u64) -> bool {
        self.opens.iter().all(|entry| entry.open == open)
    }

    /// Whether the file has no opens.
    pub(super) fn is_closed(&self) -> bool {
        self.opens.is_empty()
    }

    /// `None` if the open was removed already.
    fn circumstances(&self, open: u64, level_two: bool, directory: bool) -> Option<Circumstances> {
        let own = self.opens.iter().find(|entry| entry.open == open)?;
        let is_other = |entry: &&Entry| entry.open != open && (entry.lease.is_none() || entry.lease != own.lease);
        let alone = self.opens.iter().filter(is_other).all(|entry| Touch::of(entry.mode.access) != Touch::Content);
        Some(Circumstances { alone, shared: level_two && self.locks.is_empty(), directory })
    }
}

const EVERYTHING: ShareAccess = ShareAccess(7);
