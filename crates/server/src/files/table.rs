//! The table of all open files, sharded by file.

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
use crate::vfs::{FileId, Identity, Kind, Lease, RelPath};

const SHARDS: usize = 64;

fn shard_of(file: FileId) -> usize {
    let mixed = (file.inode ^ file.device.rotate_left(32) ^ file.stream).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 58) as usize % SHARDS
}

/// Where an open file is: renames through the server keep it up to date for every open.
#[derive(Debug)]
pub struct OpenName {
    /// Which volume the path is relative to.
    pub volume: u64,
    /// The path as it is on disk.
    pub path: Mutex<RelPath>,
}

/// Why a file cannot be opened now.
#[derive(Debug)]
pub enum Refusal {
    /// Another open does not share what is asked for, or the other way round.
    SharingViolation,
    /// The file goes away with its last open.
    DeletePending,
    /// A name was removed or changed since the caller looked the file up: look again.
    Raced,
    /// Somebody must give up an oplock or a lease first, or the name is about to lead to another file: wait, then look
    /// again.
    OplockBreak(Wait),
    /// The lease that the open is to be made under belongs to another file.
    LeaseElsewhere,
}

/// What became of a file when one of its opens was closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Closed {
    /// Others still have it open, or it stays.
    Stays,
    /// That was the last open of a file that is to be deleted: unlink it, then call [`Table::deleted`].
    Delete,
}

/// How many names had been removed or changed at a moment.
#[derive(Clone, Copy)]
pub struct Removals([u32; SHARDS]);

/// All open files of the server.
pub struct Table {
    shards: [Mutex<HashMap<FileId, File>>; SHARDS],
    /// Which file each lease belongs to. Locked after a shard, never before one.
    pub(super) leases: Mutex<HashMap<LeaseId, LeaseEntry>>,
    /// Names of files that are being made.
    pub(super) making: Mutex<Vec<Arc<OpenName>>>,
    /// How many leases on directories may have been granted and not ended: 0 spares looking for them.
    directory_leases: AtomicUsize,
    /// Counts names that were removed or changed, by the shard of their file: tells an open that its look-up may be out of
    /// date.
    removals: [AtomicU32; SHARDS],
    /// A test wants to see that it finds out when clients are not told of changes.
    #[cfg(any(test, feature = "contract"))]
    pub(crate) silent: std::sync::atomic::AtomicBool,
}

#[derive(Default)]
pub(super) struct File {
    opens: Vec<Entry>,
    delete_pending: bool,
    /// Another file is about to get its name; nobody has it open.
    pub(super) leaving: bool,
    /// Which name goes, and who wanted it.
    doom: Option<Doom>,
    pub(super) oplocks: Oplocks,
    pub(super) locks: Locks,
    pub(super) write_time: WriteTime,
}

/// The deletion of a file that somebody has open still: other names of it stay, and who closes it last need not be
/// allowed to delete it.
#[derive(Clone)]
pub struct Doom {
    /// The name that goes.
    pub name: Arc<OpenName>,
    /// On whose behalf.
    pub identity: Arc<Identity>,
}

struct Entry {
    open: u64,
    mode: ShareMode,
    name: Arc<OpenName>,
    lease: Option<LeaseId>,
    /// It was granted a lease on a directory, which [`Table::directory_leases`] counts.
    on_directory: bool,
}

impl Default for Table {
    fn default() -> Self {
        Table {
            shards: std::array::from_fn(|_| Mutex::default()),
            leases: Mutex::default(),
            making: Mutex::default(),
            directory_leases: AtomicUsize::new(0),
            removals: std::array::from_fn(|_| AtomicU32::new(0)),
            #[cfg(any(test, feature = "contract"))]
            silent: Default::default(),
        }
    }
}

impl Table {
    pub(super) fn shard(&self, file: FileId) -> &Mutex<HashMap<FileId, File>> {
        &self.shards[shard_of(file)]
    }

    /// What `look` makes of the state of a file; `None` where nobody has it open.
    pub(super) fn with<T>(&self, file: FileId, look: impl FnOnce(&mut File) -> T) -> Option<T> {
        self.shard(file).lock().get_mut(&file).map(look)
    }

    /// To be read before a look-up and given to [`Table::open`] after it.
    pub fn removals(&self) -> Removals {
        Removals(std::array::from_fn(|shard| self.removals[shard].load(Ordering::Acquire)))
    }

    /// What has looked the file up must look again.
    pub(super) fn removed(&self, file: FileId) {
        self.removals[shard_of(file)].fetch_add(1, Ordering::AcqRel);
    }

    /// Adds an open, if share modes and the file's state admit it.
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
            if state.leaving {
                return Err(Refusal::OplockBreak(state.wait_for_name(opening.now)));
            }
            if state.delete_pending {
                return Err(Refusal::DeletePending);
            }
            let violation = !state.opens.iter().all(|entry| entry.mode.admits(&mode));
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
        let entry = Entry { open, mode, name: name.clone(), lease: opening.lease, on_directory: false };
        shard.entry(file).or_default().opens.push(entry);
        Ok(())
    }

    /// Grants an oplock to an open, or as much of it as goes ([MS-SMB2] 3.3.5.9 "Oplock Acquisition").
    /// `level_two`: whether several clients may cache the file for reading.
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

    /// As [`Table::grant_oplock`], an oplock that the kernel's lease on the file stands behind.
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

    /// A local program opens a file, on which `open` has the kernel's lease: the oplock before it ends. Answers when at
    /// the latest; `None` where there is none any more.
    pub fn open_locally(&self, file: FileId, open: u64, now: Duration) -> Option<Duration> {
        self.with(file, |state| state.oplocks.open_locally(open, now)).flatten()
    }

    /// Grants a lease to an open that was made under it, or as much of it as goes (3.3.5.9.8, 3.3.5.9.11).
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

    /// Whether an open may be kept open by its client alone, by a batch oplock or a lease, and that is not about to end:
    /// what makes it worth keeping while the client is away.
    pub fn holds_handle_caching(&self, file: FileId, open: u64) -> bool {
        self.with(file, |state| state.oplocks.holds_handle_caching(open)).unwrap_or(false)
    }

    /// What an open caches by its oplock or lease.
    pub fn caches(&self, file: FileId, open: u64) -> LeaseState {
        self.with(file, |state| state.oplocks.caches(open)).unwrap_or(LeaseState::NONE)
    }

    /// What a lease on this file is now.
    pub fn lease(&self, file: FileId, lease: LeaseId) -> Option<LeaseGranted> {
        self.with(file, |state| state.oplocks.lease(lease)).flatten()
    }

    /// The epoch of a lease goes on from `epoch`, if that is ahead.
    pub fn raise_epoch(&self, file: FileId, lease: LeaseId, epoch: u16) {
        self.with(file, |state| state.oplocks.raise_epoch(lease, epoch));
    }

    /// Tells somebody else of the breaks of an open from now on.
    pub fn change_holder(&self, file: FileId, open: u64, holder: Arc<dyn Holder>) {
        self.with(file, |state| state.oplocks.change_holder(open, holder));
    }

    /// A rename, a deletion or a new security descriptor is about to come through `open`: `Some` where clients that cache
    /// their handles must close them first.
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

    /// The directory `path` of `volume` is about to get another name: `Some` where a client that caches its handle of
    /// something beneath must close it first, and what that is.
    pub fn names_beneath_change(&self, volume: u64, path: &RelPath, now: Duration) -> Option<(FileId, Wait)> {
        self.shards.iter().find_map(|shard| {
            let mut shard = shard.lock();
            shard.iter_mut().find_map(|(file, state)| {
                let beneath = |entry: &Entry| entry.name.volume == volume && entry.name.path.lock().is_beneath(path);
                // No open has this number.
                let nobody = 0;
                let wait = state.opens.iter().any(beneath).then(|| state.oplocks.change_name(nobody, None, true, now));
                Some((*file, wait.flatten()?))
            })
        })
    }

    /// Whether any client may cache a directory: if not, nobody need look for the directory of what changes.
    pub fn has_directory_leases(&self) -> bool {
        self.directory_leases.load(Ordering::Acquire) > 0
    }

    /// Something in a directory changes, made under the lease `by` on it.
    pub fn directory_changes(&self, directory: FileId, by: Option<LeaseId>, now: Duration) {
        self.with(directory, |state| state.oplocks.directory_changes(by, now));
    }

    /// The holder of an oplock acknowledges its break; answers what it holds now ([MS-SMB2] 3.3.5.22.1).
    pub fn acknowledge_oplock(&self, file: FileId, open: u64, level: OplockLevel) -> Result<OplockLevel, Status> {
        let mut shard = self.shard(file).lock();
        shard.get_mut(&file).ok_or(Status::INVALID_DEVICE_STATE)?.oplocks.acknowledge(open, level)
    }

    /// The time to acknowledge a break has perhaps run out.
    pub fn expire_oplocks(&self, file: FileId, now: Duration) {
        if let Some(state) = self.shard(file).lock().get_mut(&file) {
            state.oplocks.expire(now);
        }
    }

    /// The content of a file is about to change, or a range of it to be locked, under the lease `by`: what others cached
    /// is out of date.
    pub fn content_changes(&self, file: FileId, by: Option<LeaseId>, now: Duration) {
        #[cfg(any(test, feature = "contract"))]
        if self.silent.load(Ordering::Relaxed) {
            return;
        }
        self.with(file, |state| state.oplocks.write(by, now));
    }

    /// Whether `mode` would be admitted now.
    pub fn admits(&self, file: FileId, mode: ShareMode) -> Result<(), Refusal> {
        match self.shard(file).lock().get(&file) {
            Some(state) if state.delete_pending => Err(Refusal::DeletePending),
            Some(state) if !state.opens.iter().all(|entry| entry.mode.admits(&mode)) => Err(Refusal::SharingViolation),
            _ => Ok(()),
        }
    }

    /// Whether anybody has the file open for deletion.
    pub fn is_open_for_deletion(&self, file: FileId) -> bool {
        let deletes = |entry: &Entry| entry.mode.access.contains(proto::dtyp::AccessMask::DELETE);
        self.shard(file).lock().get(&file).is_some_and(|state| state.opens.iter().any(deletes))
    }

    /// Takes an open out; with `delete`, the file is to be deleted with its last open.
    /// A file that is to be deleted stays in the table, refusing new opens, until [`Table::deleted`].
    pub fn close(&self, file: FileId, open: u64, delete: bool) -> Closed {
        let mut shard = self.shard(file).lock();
        let Some(state) = shard.get_mut(&file) else { return Closed::Stays };
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
        if !state.opens.is_empty() {
            return Closed::Stays;
        }
        if state.delete_pending {
            return Closed::Delete;
        }
        shard.remove(&file);
        Closed::Stays
    }

    /// The name of a file that [`Closed::Delete`] was answered for is gone, or could not be removed.
    pub fn deleted(&self, file: FileId) {
        let mut shard = self.shard(file).lock();
        self.removed(file);
        if shard.get(&file).is_some_and(|state| state.opens.is_empty()) {
            shard.remove(&file);
        }
    }

    /// Marks an open file for deletion with its last open, or takes the mark back.
    pub fn set_delete_pending(&self, file: FileId, pending: bool) {
        if let Some(state) = self.shard(file).lock().get_mut(&file) {
            state.delete_pending = pending;
            state.doom = state.doom.take().filter(|_| pending);
        }
    }

    /// Says how an open file is to be deleted that is marked for it, or is about to be. The first to say so decides.
    pub fn set_doom(&self, file: FileId, doom: Doom) {
        self.with(file, |state| state.doom.get_or_insert(doom).name.volume);
    }

    /// How a file that is to be deleted is; `None` where nobody has said.
    pub fn doom(&self, file: FileId) -> Option<Doom> {
        self.with(file, |state| state.doom.clone()).flatten()
    }

    /// Whether the file goes away with its last open.
    pub fn is_delete_pending(&self, file: FileId) -> bool {
        self.shard(file).lock().get(&file).is_some_and(|state| state.delete_pending)
    }

    /// Whether anybody has the file open, or it is about to lose its name.
    pub fn is_open(&self, file: FileId) -> bool {
        self.shard(file).lock().contains_key(&file)
    }

    /// Whether all opens of the file but `except` share deletion, as a rename needs ([MS-FSA] 2.1.5.15.11).
    pub fn shares_delete(&self, file: FileId, except: u64) -> bool {
        self.shard(file).lock().get(&file).is_none_or(|state| {
            let deletes = ShareMode { access: proto::dtyp::AccessMask::DELETE, share: EVERYTHING };
            state.opens.iter().all(|entry| entry.open == except || entry.mode.admits(&deletes))
        })
    }

    /// Whether an open of the file but `except` has more than attributes and permissions of it.
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

    /// Whether the opens of a directory let a name be added to it: a rename opens the destination for that, sharing
    /// reading and writing but not deletion ([MS-FSA] 2.1.5.15.12, note 185).
    pub fn admits_new_name(&self, directory: FileId) -> bool {
        let access = proto::dtyp::AccessMask::FILE_ADD_FILE;
        !matches!(self.admits(directory, ShareMode { access, share: ShareAccess(3) }), Err(Refusal::SharingViolation))
    }

    /// Whether anything beneath the directory `path` of `volume` is open.
    pub fn is_open_beneath(&self, volume: u64, path: &RelPath) -> bool {
        self.shards.iter().any(|shard| {
            let shard = shard.lock();
            shard
                .values()
                .flat_map(|state| &state.opens)
                .any(|entry| entry.name.volume == volume && entry.name.path.lock().is_beneath(path))
        })
    }

    /// A file or directory was renamed: every open that had it by its old name has it by the new one, and what was opened
    /// beneath a directory while it was renamed is beneath the new name. Whoever looked it up before must look again.
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
        // Who was let in before has its name changed here, others look again.
        if kind != Kind::Directory {
            let shard = self.shard(file).lock();
            self.removed(file);
            return shard.get(&file).map_or((), rename);
        }
        // First those: what is entered meanwhile is met below.
        self.making.lock().iter().for_each(rename_one);
        for (shard, removals) in self.shards.iter().zip(&self.removals) {
            let shard = shard.lock();
            removals.fetch_add(1, Ordering::AcqRel);
            shard.values().for_each(rename);
        }
    }

    /// Adds an open without asking anybody.
    #[cfg(test)]
    pub(super) fn add_for_test(&self, file: FileId, open: u64, mode: ShareMode, name: &Arc<OpenName>) {
        self.shard(file).lock().entry(file).or_default().opens.push(Entry {
            open,
            mode,
            name: name.clone(),
            lease: None,
            on_directory: false,
        });
    }

    /// How many files it knows.
    pub fn files(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// How many opens there are, for status.
    pub fn count(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().values().map(|state| state.opens.len()).sum::<usize>()).sum()
    }
}

impl File {
    /// `None` where the open is gone already.
    fn circumstances(&self, open: u64, level_two: bool, directory: bool) -> Option<Circumstances> {
        let own = self.opens.iter().find(|entry| entry.open == open)?;
        let is_other = |entry: &&Entry| entry.open != open && (entry.lease.is_none() || entry.lease != own.lease);
        let alone = self.opens.iter().filter(is_other).all(|entry| Touch::of(entry.mode.access) != Touch::Content);
        Some(Circumstances { alone, shared: level_two && self.locks.is_empty(), directory })
    }
}

const EVERYTHING: ShareAccess = ShareAccess(7);
