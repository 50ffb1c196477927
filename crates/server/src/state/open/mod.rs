//! Opens: files, directories and pipes opened by clients ([MS-SMB2] 3.3.1.10).

pub mod channel_sequence;
mod content;
mod listing;
mod written;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use proto::dtyp::{AccessMask, FileTime};
use proto::smb2::create::{CreateOptions, ShareAccess};
use proto::status::Status;

use self::channel_sequence::ChannelSequence;
pub(crate) use self::content::{ContentChanges, Lingering};
pub use self::listing::Listing;
pub(crate) use self::written::Written;
use crate::accounting::{Charge, Payer, Resource};
use crate::error::{Error, Result};
use crate::files::exported_locks::ExportedLocks;
use crate::files::notify::{Unreported, Watch};
use crate::files::{Doom, LeaseId, OpenLease, OpenName};
use crate::named_pipe::NamedPipe;
use crate::policy::Share;
use crate::printing::SpoolFile;
use crate::state::Server;
use crate::state::connection::Pending;
use crate::state::durable::Durability;
use crate::streams;
use crate::streams::mac::Role;
use crate::tree::Tree;
use crate::vfs::{FileId, Kind, Node, Op, SetMetadata, Time};

/// An open file, directory or pipe.
pub struct Open {
    /// `FileId.Persistent`: unique in the server.
    pub persistent_id: u64,
    /// `FileId.Volatile`: unique in the session.
    pub volatile_id: u64,
    /// The session that opened it.
    pub session_id: u64,
    /// The tree connect through which it was opened.
    pub tree: Arc<Tree>,
    /// `Open.GrantedAccess`.
    pub granted: AccessMask,
    /// The share mode.
    pub share: ShareAccess,
    /// The time of the CREATE.
    pub created: Time,
    /// The state of ChannelSequence verification.
    pub sequence: ChannelSequence,
    /// The file, pipe, print job or quota file.
    pub target: Target,
    /// The charge for it to its user.
    pub charge: Charge,
}

/// The target of an open.
pub enum Target {
    /// A file or directory.
    File(Arc<FileOpen>),
    /// A named pipe.
    Pipe(Box<dyn NamedPipe>),
    /// A print job.
    Job(Box<SpooledJob>),
    /// The quota file.
    Quotas(Box<QuotaFile>),
}

/// The quota file of a share, which stands for the quotas of its file system.
pub struct QuotaFile {
    /// The root of the share.
    pub(crate) node: Arc<dyn Node>,
    /// The context for storage calls: the user who opened it.
    pub(crate) op: Op,
    /// `Open.CurrentQuotaIndex`: the uid at which the enumeration continues; above all uids at its end.
    pub(crate) next: AtomicU64,
}

/// A print job whose data a client sends.
pub struct SpooledJob {
    /// The title.
    pub title: String,
    /// The number of the file.
    pub(crate) file: FileId,
    /// Which parts of it were written.
    pub(crate) written: parking_lot::Mutex<Written>,
    /// The file; `None` once it was handed over or removed.
    pub(crate) spool: tokio::sync::Mutex<Option<SpoolFile>>,
}

/// An open file or directory.
pub struct FileOpen {
    /// The handle.
    pub node: Arc<dyn Node>,
    /// The file.
    pub file: FileId,
    /// The kind of file.
    pub kind: Kind,
    /// The current path, updated by renames.
    pub name: Arc<OpenName>,
    /// The context for storage calls: the user who opened it.
    pub op: Op,
    /// The file was written through it, so its directory entry must be updated at close.
    pub(crate) modified: AtomicBool,
    /// The changes of its content in progress.
    pub(crate) changes: ContentChanges,
    /// The lease that it was made under.
    pub lease: Option<OpenLease>,
    /// The options given to CREATE that remain relevant; `FileModeInformation` reports some of them.
    pub options: AtomicU32,
    /// A Linux symbolic link to a directory, which clients see as a directory.
    pub(crate) leads_to_directory: bool,
    /// It has POSIX semantics.
    pub posix: bool,
    /// The special file by which a POSIX client has replaced the file through this open.
    pub(crate) became: OnceLock<Arc<dyn Node>>,
    /// A client has stored a symbolic link in the file through this open, so closing it calls
    /// [`crate::reparse::settle`].
    pub(crate) settles: AtomicBool,
    /// The file is deleted when this open is closed.
    pub delete_on_close: AtomicBool,
    /// `FilePositionInformation`: the position after the last byte read or written. Only reported to the client.
    pub position: AtomicU64,
    /// The bytes that were read through it, if its share has an audit.
    pub(crate) bytes_read: AtomicU64,
    /// The bytes that were written through it, if its share has an audit.
    pub(crate) bytes_written: AtomicU64,
    /// `Open.CurrentEaIndex`, counted from 0: the extended attribute at which the next query continues.
    pub ea_index: AtomicUsize,
    /// Bytes that the opener asked to reserve; reported as `AllocationSize` if the file takes less.
    pub asked_allocation: AtomicU64,
    /// Times that I/O through this handle must not change.
    pub sticky: StickyTimes,
    /// `Open.ResumeKey`: identifies the handle as the source of a copy, after the client has requested it.
    pub resume_key: std::sync::OnceLock<[u8; 24]>,
    /// Requests that wait for an event of this handle.
    pub(crate) waiting: parking_lot::Mutex<Vec<Arc<Pending>>>,
    /// The handle was closed: requests that wait on it must end.
    pub(crate) closed: AtomicBool,
    /// The charge for its locks to its user.
    pub(crate) lock_charge: parking_lot::Mutex<Option<Charge>>,
    /// Its locks as exported to local programs.
    pub(crate) exported_locks: ExportedLocks,
    /// Whether it survives the loss of its connection.
    pub durability: Durability,
    /// The watch that answers its CHANGE_NOTIFY requests, created by the first one.
    pub(crate) watch: OnceLock<Arc<Watch>>,
    /// Changes made through this open that are reported to watches when it is closed.
    pub(crate) unreported: Unreported,
    /// The position in a directory listing.
    pub listing: tokio::sync::Mutex<Listing>,
}

impl Open {
    /// Returns the configuration of its share; `None` for a pipe.
    pub(crate) fn policy(&self) -> Option<&Share> {
        self.tree.disk().map(|disk| &*disk.share)
    }

    /// Whether the locks of other opens permit reading `length` bytes (`strict locking`).
    pub(crate) fn may_read(&self, server: &Server, offset: u64, length: u64) -> bool {
        self.ignores_locks()
            || self
                .file()
                .is_none_or(|file| server.opens.files.permits_read(file.file, self.persistent_id, offset, length))
    }

    /// Whether the locks of other opens permit writing `length` bytes.
    pub(crate) fn may_write(&self, server: &Server, offset: u64, length: u64) -> bool {
        self.ignores_locks()
            || self
                .file()
                .is_none_or(|file| server.opens.files.permits_write(file.file, self.persistent_id, offset, length))
    }

    fn ignores_locks(&self) -> bool {
        self.policy().is_some_and(|share| !share.locks.strict_locking)
    }

    /// Returns `Open.GlobalFileId` ([MS-SRVS] 3.1.1.6), by which administrators name the open. It is unique among 2^31
    /// consecutive opens: persistent ids are consecutive numbers multiplied by an odd factor, which is a permutation of
    /// the low 31 bits, too. It has no more bits, because Samba's `net rpc file` takes the number for a signed one.
    pub(crate) fn file_number(&self) -> u32 {
        self.persistent_id as u32 & 0x7fff_ffff
    }

    /// Whether this is an open of a named pipe.
    pub(crate) fn is_pipe(&self) -> bool {
        matches!(self.target, Target::Pipe(_))
    }

    /// Returns the print job; `None` for another open.
    pub fn job(&self) -> Option<&SpooledJob> {
        match &self.target {
            Target::Job(job) => Some(job),
            Target::File(_) | Target::Pipe(_) | Target::Quotas(_) => None,
        }
    }

    /// Returns the open file; `None` for a pipe, a print job or the quota file.
    pub fn file(&self) -> Option<&FileOpen> {
        match &self.target {
            Target::File(file) => Some(file),
            Target::Pipe(_) | Target::Job(_) | Target::Quotas(_) => None,
        }
    }

    /// Returns the open as reclaimed by a new session ([MS-SMB2] 3.3.5.9.7); `None` for a pipe.
    pub(crate) fn reclaimed(
        &self,
        volatile_id: u64,
        session_id: u64,
        tree: Arc<Tree>,
        sequence: ChannelSequence,
        payer: &Arc<Payer>,
    ) -> Option<Open> {
        let Target::File(file) = &self.target else { return None };
        Some(Open {
            persistent_id: self.persistent_id,
            volatile_id,
            session_id,
            tree,
            granted: self.granted,
            share: self.share,
            created: self.created,
            sequence,
            target: Target::File(file.clone()),
            // Its file descriptor is open already.
            charge: Charge::recorded(payer, Resource::Opens, 1),
        })
    }
}

/// `Open.UserSetAccessTime`, `UserSetModificationTime` and `UserSetChangeTime` ([MS-FSA] 2.1.1.9): times that the
/// client has set through the handle, or frozen with -1. I/O through the handle does not change them until the client
/// sets -2 ([MS-FSCC] 2.4.7).
#[derive(Default)]
pub struct StickyTimes(AtomicU32);

impl StickyTimes {
    /// The last access.
    pub const ACCESSED: u32 = 1;
    /// The last change of content.
    pub const MODIFIED: u32 = 2;
    /// The last change of content or metadata.
    pub const CHANGED: u32 = 4;

    /// Records a time set by FileBasicInformation.
    pub fn set(&self, which: u32, time: FileTime) {
        match time.0 as i64 {
            0 => {}
            -2 => _ = self.0.fetch_and(!which, Ordering::Relaxed),
            _ => _ = self.0.fetch_or(which, Ordering::Relaxed),
        }
    }

    /// Whether I/O through the handle must not change the time.
    pub fn has(&self, which: u32) -> bool {
        self.0.load(Ordering::Relaxed) & which != 0
    }
}

impl FileOpen {
    /// Creates an open file in its initial state.
    pub(crate) fn new(node: Arc<dyn Node>, file: FileId, kind: Kind, name: Arc<OpenName>, op: Op) -> Self {
        FileOpen {
            node,
            file,
            kind,
            name,
            op,
            modified: AtomicBool::new(false),
            changes: ContentChanges::default(),
            lease: None,
            options: AtomicU32::new(0),
            leads_to_directory: false,
            posix: false,
            became: OnceLock::new(),
            settles: AtomicBool::new(false),
            delete_on_close: AtomicBool::new(false),
            position: AtomicU64::new(0),
            bytes_read: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
            ea_index: AtomicUsize::new(0),
            asked_allocation: AtomicU64::new(0),
            sticky: StickyTimes::default(),
            resume_key: std::sync::OnceLock::new(),
            waiting: parking_lot::Mutex::default(),
            closed: AtomicBool::new(false),
            lock_charge: parking_lot::Mutex::default(),
            exported_locks: ExportedLocks::default(),
            durability: Durability::default(),
            watch: std::sync::OnceLock::new(),
            unreported: crate::files::notify::Unreported::default(),
            listing: tokio::sync::Mutex::default(),
        }
    }

    /// Returns the id of the lease that the open was made under.
    pub fn lease_id(&self) -> Option<LeaseId> {
        self.lease.map(|lease| lease.id)
    }

    /// Returns the handle to query for metadata: the file, or the special file that has replaced it.
    pub(crate) fn shown_node(&self) -> &Arc<dyn Node> {
        self.became.get().unwrap_or(&self.node)
    }

    /// Must be called before anything is changed through this handle. Fails if a special file has replaced the file:
    /// the change would be lost with the file, which has no name any more.
    pub(crate) fn not_replaced(&self) -> Result<()> {
        match self.became.get() {
            Some(_) => Err(Error::because(
                Status::ACCESS_DENIED,
                "the file has become a special file, which cannot be changed through this handle: open it again",
            )),
            None => Ok(()),
        }
    }

    /// Returns how the file is deleted through this handle.
    pub(crate) fn doom(&self) -> Doom {
        let is_ignored = streams::of(&self.node).is_some_and(|node| node.stream.role() == Role::Fork);
        Doom { name: self.name.clone(), op: self.op.clone(), is_ignored }
    }

    /// Charges the locks of this handle, which belongs to `open`, to its user: those that it has, and `more`.
    pub(crate) fn charge_locks(&self, server: &Server, open: &Open, more: usize) -> Result<()> {
        let held = server.opens.files.lock_count_of(self.file, open.persistent_id);
        let mut charge = self.lock_charge.lock();
        let charge = charge.get_or_insert_with(|| Charge::nothing(open.charge.payer(), Resource::Locks));
        Ok(charge.grow(held + more)?)
    }

    /// Must be called after a wait. Fails if the handle was closed meanwhile.
    pub(crate) fn still_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(Error::new(Status::FILE_CLOSED)) } else { Ok(()) }
    }

    /// Returns the times to restore after a change through this handle; `None` if the times may change.
    pub(crate) async fn hold_times(&self) -> Result<Option<SetMetadata>> {
        if !self.sticky.has(StickyTimes::MODIFIED | StickyTimes::CHANGED) {
            return Ok(None);
        }
        let metadata = self.node.metadata(&self.op).await?;
        Ok(Some(SetMetadata {
            modified: self.sticky.has(StickyTimes::MODIFIED).then_some(metadata.modified),
            changed: self.sticky.has(StickyTimes::CHANGED).then_some(metadata.changed),
            ..SetMetadata::default()
        }))
    }

    /// Restores the result of [`FileOpen::hold_times`].
    pub(crate) async fn restore_times(&self, held: Option<SetMetadata>) -> Result<()> {
        if let Some(held) = held {
            self.node.set_metadata(&self.op, held).await?;
        }
        Ok(())
    }

    /// Returns the number of bytes that the opener asked to reserve.
    pub fn asked_allocation(&self) -> u64 {
        self.asked_allocation.load(Ordering::Relaxed)
    }

    /// Returns the CREATE options in force.
    pub fn options(&self) -> CreateOptions {
        CreateOptions(self.options.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_sticky_from_its_setting_until_minus_two() {
        let sticky = StickyTimes::default();
        for (time, expected) in [(0, false), (-2, false), (-1, true), (0, true), (-2, false), (1, true), (-2, false)] {
            sticky.set(StickyTimes::MODIFIED, FileTime(time as u64));
            assert_eq!(sticky.has(StickyTimes::MODIFIED), expected, "{time}");
            assert!(!sticky.has(StickyTimes::ACCESSED));
        }
    }
}
