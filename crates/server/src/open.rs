//! Opens: a file, directory or pipe as one client holds it ([MS-SMB2] 3.3.1.10).

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use proto::dtyp::{AccessMask, FileTime};
use proto::smb2::create::{CreateOptions, ShareAccess};
use proto::status::Status;

use crate::accounting::{Charge, Payer, Resource};
use crate::channel_sequence::ChannelSequence;
use crate::command::query_directory::Listing;
use crate::conn::Pending;
use crate::durable::Durability;
use crate::error::{Error, Result};
use crate::files::notify::{Unreported, Watch};
use crate::files::{Doom, LeaseId, OpenLease, OpenName};
use crate::local::locks::Shown;
use crate::pipe::Pipe;
use crate::policy::Share;
use crate::server::Server;
use crate::tree::Tree;
use crate::vfs::{FileId, Identity, Kind, Node, SetMetadata, Time};

/// A file, directory or pipe as one client holds it.
pub struct Open {
    /// `FileId.Persistent`: unique in the server.
    pub persistent_id: u64,
    /// `FileId.Volatile`: unique in the session.
    pub volatile_id: u64,
    /// The session that made it.
    pub session_id: u64,
    /// The tree connect that it was made through.
    pub tree: Arc<Tree>,
    /// `Open.GrantedAccess`.
    pub granted: AccessMask,
    /// What it shares.
    pub share: ShareAccess,
    /// When it was made.
    pub created: Time,
    /// Which of the client's requests are to be executed still.
    pub sequence: ChannelSequence,
    /// What it leads to.
    pub target: Target,
    /// What it takes of its user's share.
    pub charge: Charge,
}

/// What an open leads to.
pub enum Target {
    /// A file or directory.
    File(Arc<FileOpen>),
    /// A named pipe.
    Pipe(Box<Pipe>),
}

/// An open file or directory.
pub struct FileOpen {
    /// The handle.
    pub node: Arc<dyn Node>,
    /// Which file.
    pub file: FileId,
    /// What it is.
    pub kind: Kind,
    /// Where it is, kept up to date by renames.
    pub name: Arc<OpenName>,
    /// On whose behalf.
    pub identity: Arc<Identity>,
    /// Something was written through it, which its directory shows once it is closed.
    pub(crate) modified: AtomicBool,
    /// The lease that it was made under.
    pub lease: Option<OpenLease>,
    /// The options given to CREATE, less those that only matter there; `FileModeInformation` shows some.
    pub options: AtomicU32,
    /// A link of Linux that leads to a directory, which clients see as one.
    pub(crate) leads_to_directory: bool,
    /// A client has made the file a symbolic link through this open: closing it calls [`crate::reparse::settle`].
    pub(crate) settles: AtomicBool,
    /// The file goes when this open is closed.
    pub delete_on_close: AtomicBool,
    /// `FilePositionInformation`: the byte behind the last one read or written. Kept for the client, used by nobody.
    pub position: AtomicU64,
    /// `Open.CurrentEaIndex`, counted from 0: the extended attribute that a query goes on with.
    pub ea_index: AtomicUsize,
    /// Bytes that the opener asked to be set aside; shown as `AllocationSize` where the file takes less.
    pub asked_allocation: AtomicU64,
    /// Times that this handle's I/O must not change.
    pub sticky: StickyTimes,
    /// `Open.ResumeKey`: names the handle as the source of a copy, once the client has asked for it.
    pub resume_key: std::sync::OnceLock<[u8; 24]>,
    /// Requests that wait for something to happen to this handle.
    pub(crate) waiting: parking_lot::Mutex<Vec<Arc<Pending>>>,
    /// The handle was closed: whoever still waits on it is to go.
    pub(crate) closed: AtomicBool,
    /// What its locks take of its user's share.
    pub(crate) lock_charge: parking_lot::Mutex<Option<Charge>>,
    /// Its locks as local programs meet them.
    pub(crate) shown: Shown,
    /// Whether it is kept when its connection is lost.
    pub durability: Durability,
    /// What its CHANGE_NOTIFY requests are answered from, from the first one on.
    pub(crate) watch: OnceLock<Arc<Watch>>,
    /// Changes made through this open that those who watch are told when it is closed.
    pub(crate) unreported: Unreported,
    /// Where a directory listing stands.
    pub listing: tokio::sync::Mutex<Listing>,
}

impl Open {
    /// What the administrator decided for its share; `None` for a pipe.
    pub(crate) fn policy(&self) -> Option<&Share> {
        self.tree.disk().map(|disk| &*disk.share)
    }

    /// Whether locks of others let it read `length` bytes (`strict locking`).
    pub(crate) fn may_read(&self, server: &Server, offset: u64, length: u64) -> bool {
        self.ignores_locks()
            || self.file().is_none_or(|file| server.files.permits_read(file.file, self.persistent_id, offset, length))
    }

    /// Whether locks of others let it write `length` bytes.
    pub(crate) fn may_write(&self, server: &Server, offset: u64, length: u64) -> bool {
        self.ignores_locks()
            || self.file().is_none_or(|file| server.files.permits_write(file.file, self.persistent_id, offset, length))
    }

    fn ignores_locks(&self) -> bool {
        self.policy().is_some_and(|share| !share.strict_locking)
    }

    /// Whether it leads to a pipe.
    pub(crate) fn is_pipe(&self) -> bool {
        matches!(self.target, Target::Pipe(_))
    }

    /// The open file, where it is one.
    pub fn file(&self) -> Option<&FileOpen> {
        match &self.target {
            Target::File(file) => Some(file),
            Target::Pipe(_) => None,
        }
    }

    /// The same open as the session that comes back for it has it ([MS-SMB2] 3.3.5.9.7); `None` for a pipe.
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
            // Its descriptor is open already.
            charge: Charge::recorded(payer, Resource::Opens, 1),
        })
    }
}

/// `Open.UserSetAccessTime`, `UserSetModificationTime` and `UserSetChangeTime` ([MS-FSA] 2.1.1.9): times that the client has set through
/// the handle, or stopped with -1, and that the handle's own I/O leaves alone from then on until it says -2
/// ([MS-FSCC] 2.4.7).
#[derive(Default)]
pub struct StickyTimes(AtomicU32);

impl StickyTimes {
    /// The last access.
    pub const ACCESSED: u32 = 1;
    /// The last change of content.
    pub const MODIFIED: u32 = 2;
    /// The last change of anything.
    pub const CHANGED: u32 = 4;

    /// Takes note of what FileBasicInformation says of a time.
    pub fn set(&self, which: u32, time: FileTime) {
        match time.0 as i64 {
            0 => {}
            -2 => _ = self.0.fetch_and(!which, Ordering::Relaxed),
            _ => _ = self.0.fetch_or(which, Ordering::Relaxed),
        }
    }

    /// Whether the handle's I/O must leave the time alone.
    pub fn has(&self, which: u32) -> bool {
        self.0.load(Ordering::Relaxed) & which != 0
    }
}

/// A change of a file's content that is under way.
pub(crate) struct ContentChange<'a> {
    file: &'a FileOpen,
    server: &'a Server,
}

impl Drop for ContentChange<'_> {
    /// Who was let cache the file during the change may have read it as it was before.
    fn drop(&mut self) {
        self.file.end_caches(self.server);
    }
}

impl FileOpen {
    /// An open file of which nothing special is known yet.
    pub(crate) fn new(
        node: Arc<dyn Node>,
        file: FileId,
        kind: Kind,
        name: Arc<OpenName>,
        identity: Arc<Identity>,
    ) -> Self {
        FileOpen {
            node,
            file,
            kind,
            name,
            identity,
            modified: AtomicBool::new(false),
            lease: None,
            options: AtomicU32::new(0),
            leads_to_directory: false,
            settles: AtomicBool::new(false),
            delete_on_close: AtomicBool::new(false),
            position: AtomicU64::new(0),
            ea_index: AtomicUsize::new(0),
            asked_allocation: AtomicU64::new(0),
            sticky: StickyTimes::default(),
            resume_key: std::sync::OnceLock::new(),
            waiting: parking_lot::Mutex::default(),
            closed: AtomicBool::new(false),
            lock_charge: parking_lot::Mutex::default(),
            shown: Default::default(),
            durability: Durability::default(),
            watch: std::sync::OnceLock::new(),
            unreported: crate::files::notify::Unreported::default(),
            listing: tokio::sync::Mutex::default(),
        }
    }

    /// Which lease it was made under.
    pub fn lease_id(&self) -> Option<LeaseId> {
        self.lease.map(|lease| lease.id)
    }

    /// How the file is deleted where this handle wants it.
    pub(crate) fn doom(&self) -> Doom {
        Doom { name: self.name.clone(), identity: self.identity.clone() }
    }

    /// Charges the locks of this handle, which is of `open`, to its user: those that it has, and `more`.
    pub(crate) fn charge_locks(&self, server: &Server, open: &Open, more: usize) -> Result<()> {
        let held = server.files.lock_count_of(self.file, open.persistent_id);
        let mut charge = self.lock_charge.lock();
        let charge = charge.get_or_insert_with(|| Charge::nothing(open.charge.payer(), Resource::Locks));
        Ok(charge.grow(held + more)?)
    }

    /// To be asked after a wait: whether the handle was closed meanwhile.
    pub(crate) fn still_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(Error::new(Status::FILE_CLOSED)) } else { Ok(()) }
    }

    /// To be called before the content changes through this handle, and kept until it has: what other clients have
    /// cached of it ends at the beginning, and what they have begun to cache meanwhile ends with it.
    #[must_use = "the change ends when this goes"]
    pub(crate) fn content_changes<'a>(&'a self, server: &'a Server) -> ContentChange<'a> {
        self.modified.store(true, Ordering::Relaxed);
        self.end_caches(server);
        ContentChange { file: self, server }
    }

    /// Ends what other clients have cached of the content.
    pub(crate) fn end_caches(&self, server: &Server) {
        server.files.content_changes(self.file, self.lease_id(), server.world.uptime());
        server.offloads.forget(self.file);
    }

    /// The times to put back after a change through this handle; `None` where the change may show.
    pub(crate) async fn hold_times(&self) -> Result<Option<SetMetadata>> {
        if !self.sticky.has(StickyTimes::MODIFIED | StickyTimes::CHANGED) {
            return Ok(None);
        }
        let metadata = self.node.metadata().await?;
        Ok(Some(SetMetadata {
            modified: self.sticky.has(StickyTimes::MODIFIED).then_some(metadata.modified),
            changed: self.sticky.has(StickyTimes::CHANGED).then_some(metadata.changed),
            ..SetMetadata::default()
        }))
    }

    /// Puts back what [`FileOpen::hold_times`] gave.
    pub(crate) async fn restore_times(&self, held: Option<SetMetadata>) -> Result<()> {
        if let Some(held) = held {
            self.node.set_metadata(&self.identity, held).await?;
        }
        Ok(())
    }

    /// Bytes that the opener asked to be set aside.
    pub fn asked_allocation(&self) -> u64 {
        self.asked_allocation.load(Ordering::Relaxed)
    }

    /// The CREATE options that stand.
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
