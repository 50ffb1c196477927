//! An open file or directory: a descriptor for attributes, or one with data access.

use std::any::Any;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use backing::executor::{Executor, OnVolume, change, query, unless_cancelled};
use backing::metadata::{store, stored};
use backing::workers::Lane;
use parking_lot::Mutex;
use rustix::fs::{Access as Ask, AtFlags, Mode, OFlags, Statx, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno as Raw;
use server::acl::ntacl;
use server::answer::Answer;
use server::vfs::watch::{ChangeListener, Wanted, Watching};
use server::vfs::{
    Access, Case, CopyRange, DataRange, Entry, EntryXattr, Errno, Extent, FileId, Identity, Kind, Lease, LeaseCallback,
    ListRequest, Metadata, Node, Op, Page, Payload, Quotas, RangeChange, ReadReply, ReadRequest, RelPath, Result,
    SetMetadata, SetXattr, Space, Time, XattrFilter,
};

use crate::dir::Listing;
use crate::durable::Linked;
use crate::entry::FEW_ENTRIES;
use crate::file::LARGE;
use crate::filesystem::FileSystem;
use crate::identity::KernelIdentity;
use crate::metadata::{Source, kind, report, time};
use crate::quota::FileSystemQuotas;
use crate::root::{glance, id, stat};
use crate::watch::own::{self, Doing};
use crate::{Share, errno, identity, leases, proc_fd, watch, written};

/// A descriptor, or the share's own.
pub(crate) enum Descriptor {
    /// The root of the share.
    Root,
    /// A descriptor of its own.
    Own(OwnedFd),
}

impl Descriptor {
    pub(crate) fn fd<'a>(&'a self, share: &'a Share) -> BorrowedFd<'a> {
        match self {
            Descriptor::Root => share.root.fd(),
            Descriptor::Own(fd) => fd.as_fd(),
        }
    }
}

/// The state of an open file or directory.
pub(crate) struct Open {
    pub(crate) share: Arc<Share>,
    /// The file system of the file.
    pub(crate) system: Arc<FileSystem>,
    /// The user who opened it. Calls without a user are made on this user's behalf.
    pub(crate) uid: u32,
    held: Descriptor,
    pub(crate) id: FileId,
    pub(crate) kind: Kind,
    /// `None`: for attributes only.
    pub(crate) access: Option<Access>,
    listing: Mutex<Option<Listing>>,
    /// Links to the file created through this handle that are not on disk yet.
    pub(crate) linked: Mutex<Option<Box<Linked>>>,
    /// The user that the look-up already opened it for, for data; this user need not open it again.
    opener: Option<Op>,
    /// The path at which a directory was found.
    path: Option<RelPath>,
    /// Whether it has so many blocks that freeing them takes long.
    large: AtomicBool,
    /// The change time in the metadata that the handle returned last.
    stamped: Mutex<Option<Time>>,
    /// Whether content that may be read into a pipe was written through it.
    pub(crate) written: AtomicBool,
}

impl Drop for Open {
    /// The last close of a removed file frees its blocks.
    fn drop(&mut self) {
        if writes_file(self.kind, self.access) {
            let asks = *self.written.get_mut() && self.system.is_local();
            let changed = || asks.then(|| glance(self.fd()).ok().map(|now| time(now.stx_ctime))).flatten();
            written::closed(self.id, changed);
        }
        // Closing a file on a remote file system or FUSE waits for it.
        let waits = self.access.is_some() && !self.system.is_local();
        if waits || *self.large.get_mut() {
            let held = std::mem::replace(&mut self.held, Descriptor::Root);
            self.system.executor.submit(self.uid, Lane::Slow, Box::new(move || drop(held)));
        }
    }
}

/// Returns whether a handle of this kind can write to a file.
fn writes_file(kind: Kind, access: Option<Access>) -> bool {
    kind == Kind::File && access.is_some_and(|access| access.write)
}

/// Notes that a file is opened for writing.
fn note_opening(id: FileId, kind: Kind, access: Option<Access>) {
    if writes_file(kind, access) {
        written::opened(id);
    }
}

/// An [`Open`] that can be passed to a worker.
struct Handle(Arc<Open>);

/// Returns the file behind a node, if the node is one of this crate's.
pub(crate) fn of(node: &Arc<dyn Node>) -> Option<Arc<Open>> {
    (&**node as &dyn Any).downcast_ref::<Handle>().map(|handle| Arc::clone(&handle.0))
}

impl OnVolume for Open {
    type Identity = KernelIdentity;

    fn executor(&self) -> &Executor<KernelIdentity> {
        &self.system.executor
    }
}

impl Open {
    /// Creates the state for `held`, described by `stat`, opened for the user `uid`.
    pub(crate) fn new(share: Arc<Share>, uid: u32, held: Descriptor, stat: &Statx, access: Option<Access>) -> Open {
        let (listing, linked, opener, path, large, stamped, written) = Default::default();
        let (system, id, kind) = (share.root.system_of(stat), id(stat), kind(stat));
        note_opening(id, kind, access);
        Open { share, system, uid, held, id, kind, access, listing, linked, opener, path, large, stamped, written }
    }

    /// Records the possible size of the file.
    pub(crate) fn note_size(&self, bytes: u64) {
        if bytes > LARGE && self.kind == Kind::File {
            self.large.store(true, Ordering::Relaxed);
        }
    }

    /// Records the metadata that the handle returns.
    pub(crate) fn note(&self, metadata: &Metadata) {
        self.note_size(metadata.allocated);
        *self.stamped.lock() = Some(metadata.stamped);
    }

    /// Records that the user of `op` opened it.
    pub(crate) fn opened_by(mut self, op: &Op) -> Open {
        self.opener = Some(op.clone());
        self
    }

    /// Records the path of a directory.
    pub(crate) fn at(mut self, path: &RelPath) -> Open {
        self.path = Some(path.clone());
        self
    }

    pub(crate) fn into_node(self) -> Arc<dyn Node> {
        Arc::new(Handle(Arc::new(self)))
    }

    pub(crate) fn belongs_to(&self, share: &Arc<Share>) -> bool {
        Arc::ptr_eq(&self.share, share)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.held.fd(&self.share)
    }

    /// Notes a change of the file, for as long as the result is held. Every operation that changes the file calls this
    /// first.
    pub(crate) fn changes(&self) -> Option<Doing> {
        own::file(self.share.root.path(), self.id)
    }

    /// Returns where the file's attributes are read from.
    pub(crate) fn source(&self) -> Source<'_, BorrowedFd<'_>> {
        if self.access.is_some() { Source::Open(self.fd()) } else { Source::Path(self.fd()) }
    }

    fn metadata(&self) -> Result<Metadata> {
        let metadata = self.share.metadata(&stat(self.fd())?, self.source());
        self.note(&metadata);
        Ok(metadata)
    }

    /// Opens the file for data.
    fn open(&self, who: &Arc<Identity>, access: Access) -> Result<Open> {
        identity::assume(who)?;
        let flags = match (self.kind, access.read, access.write) {
            (Kind::Symlink, ..) => return Err(Errno::LOOP),
            // Opening a device may have any effect, and opening a FIFO waits.
            (Kind::Special, ..) => return Err(Errno::NODEV),
            (Kind::Directory, _, true) => return Err(Errno::ISDIR),
            (Kind::Directory, true, _) => OFlags::RDONLY | OFlags::DIRECTORY,
            (_, true, true) => OFlags::RDWR,
            (_, true, false) => OFlags::RDONLY,
            (_, false, true) => OFlags::WRONLY,
            (_, false, false) => OFlags::PATH,
        };
        // A lease would block the open until it is given up, possibly for most of a minute. No thread may wait that
        // long.
        let waits = flags != OFlags::PATH;
        let fd = self.share.root.reopen(self.fd(), if waits { flags | OFlags::NONBLOCK } else { flags })?;
        let access = (flags != OFlags::PATH).then_some(access);
        let (listing, linked, opener, path, stamped, written) = Default::default();
        let (share, system, held) = (Arc::clone(&self.share), Arc::clone(&self.system), Descriptor::Own(fd));
        let (uid, id, kind, large) = (who.uid, self.id, self.kind, self.large.load(Ordering::Relaxed).into());
        note_opening(id, kind, access);
        Ok(Open { share, system, uid, held, id, kind, access, listing, linked, opener, path, large, stamped, written })
    }

    pub(crate) fn permissions(&self, who: &Arc<Identity>) -> Result<u32> {
        identity::assume(who)?;
        let (proc, magic) = self.share.root.magic(self.fd());
        let may = |ask| match rustix::fs::accessat(proc, magic.as_c_str(), ask, AtFlags::EACCESS) {
            Ok(()) => Ok(true),
            Err(Raw::ACCESS | Raw::PERM | Raw::ROFS) => Ok(false),
            Err(error) => Err(errno(error)),
        };
        let both = may(Ask::READ_OK | Ask::WRITE_OK)?;
        let read = both || may(Ask::READ_OK)?;
        let write = both || may(Ask::WRITE_OK)?;
        let execute = may(Ask::EXEC_OK)?;
        Ok(u32::from(read) << 2 | u32::from(write) << 1 | u32::from(execute))
    }

    fn location(&self) -> Result<Vec<u8>> {
        if stat(self.fd())?.stx_nlink == 0 {
            return Err(Errno::NOENT);
        }
        self.share.root.location(self.fd())
    }

    fn set_metadata(&self, who: &Arc<Identity>, set: &SetMetadata) -> Result<()> {
        let _own = self.changes();
        let stores = set.created.is_some() || set.dos_attributes.is_some() || set.changed.is_some();
        // Linux has neither a mode nor user attributes for links.
        if self.kind == Kind::Symlink && (stores || set.mode.is_some()) {
            return Err(Errno::OPNOTSUPP);
        }
        // First the changes that require write permission, last those that may revoke it.
        if stores {
            self.store_attributes(who, set)?;
        }
        identity::assume(who)?;
        let (proc, magic) = self.share.root.magic(self.fd());
        if set.accessed.is_some() || set.modified.is_some() {
            let times = Timestamps { last_access: timespec(set.accessed), last_modification: timespec(set.modified) };
            rustix::fs::utimensat(proc, magic.as_c_str(), &times, AtFlags::empty()).map_err(errno)?;
        }
        if set.uid.is_some() || set.gid.is_some() {
            let (uid, gid) = (set.uid.map(rustix::fs::Uid::from_raw), set.gid.map(rustix::fs::Gid::from_raw));
            rustix::fs::chownat(proc, magic.as_c_str(), uid, gid, AtFlags::empty()).map_err(errno)?;
        }
        if let Some(compressed) = set.compressed {
            self.compress(who, compressed)?;
        }
        if let Some(mode) = set.mode {
            let mode = Mode::from_raw_mode(mode & 0o7777);
            rustix::fs::chmodat(proc, magic.as_c_str(), mode, AtFlags::empty()).map_err(errno)?;
        }
        Ok(())
    }

    /// Updates the stored attributes.
    fn store_attributes(&self, who: &Arc<Identity>, set: &SetMetadata) -> Result<()> {
        let _lock = self.share.locks.lock(self.id);
        let (now, stored) = (report(&stat(self.fd())?), stored(&self.source()));
        let wanted = now.changed_attributes(stored, set);
        identity::assume(who)?;
        store(&self.source(), &wanted, who.uid == now.uid)
    }

    fn list(&self, who: &Arc<Identity>, asked: ListRequest) -> Result<Page> {
        let mut slot = self.listing.lock();
        let listing = self.listing_of(&mut slot, who)?;
        let (entries, next) = listing.entries(asked, who, self)?;
        Ok(self.page(&mut slot, entries, next))
    }

    /// Like [`Open::list`], if that takes no longer than other calls that are made at once. The page may have fewer
    /// entries than there are.
    pub(crate) fn list_at_once(&self, who: &Arc<Identity>, asked: ListRequest) -> Result<Option<Page>> {
        let Some(mut slot) = self.listing.try_lock() else { return Ok(None) };
        let listing = self.listing_of(&mut slot, who)?;
        let found = listing.entries_at_once(asked, who, self)?;
        Ok(found.map(|(entries, next)| self.page(&mut slot, entries, next)))
    }

    /// Returns the listing that `slot` holds for the user, or starts one.
    fn listing_of<'a>(&self, slot: &'a mut Option<Listing>, who: &Arc<Identity>) -> Result<&'a mut Listing> {
        if self.kind != Kind::Directory {
            return Err(Errno::NOTDIR);
        }
        let opened_by = if self.access.is_some() { None } else { Some(who) };
        let kept = slot.take().filter(|listing| listing.who.as_ref() == opened_by);
        Ok(slot.insert(match kept {
            Some(listing) => listing,
            None => self.start_listing(who, opened_by)?,
        }))
    }

    fn page(&self, slot: &mut Option<Listing>, entries: Vec<Entry>, next: u64) -> Page {
        self.note_files(&entries);
        let is_last = entries.is_empty() || slot.as_ref().is_some_and(Listing::is_at_end);
        if is_last {
            // A client at the end usually closes next. A directory that stays open then needs one descriptor, not two.
            *slot = None;
        }
        Page { is_last, entries, next, parent: None }
    }

    /// Records listed files, because clients usually open them next.
    pub(crate) fn note_files(&self, entries: &[Entry]) {
        let Some(directory) = &self.path else { return };
        let is_file = |entry: &&Entry| entry.metadata.is_some_and(|metadata| metadata.kind == Kind::File);
        for entry in entries.iter().filter(is_file) {
            self.share.seen.note(directory, &entry.name);
        }
    }

    /// Starts a listing. The descriptor is opened again only if the handle has no data access.
    fn start_listing(&self, who: &Arc<Identity>, opened_by: Option<&Arc<Identity>>) -> Result<Listing> {
        identity::assume(who)?;
        let fd = match self.access {
            Some(_) => rustix::io::fcntl_dupfd_cloexec(self.fd(), 0).map_err(errno)?,
            None => self.share.root.reopen(self.fd(), OFlags::RDONLY | OFlags::DIRECTORY)?,
        };
        Listing::new(fd, opened_by.cloned())
    }

    fn get_xattr(&self, who: &Arc<Identity>, name: &str) -> Result<Option<Vec<u8>>> {
        if is_hidden(name, who) {
            return Ok(None);
        }
        identity::assume(who)?;
        let value = if self.access.is_some() {
            whole(|buffer| rustix::fs::fgetxattr(self.fd(), name, buffer))
        } else {
            whole(|buffer| proc_fd::getxattr(self.fd(), name, buffer))
        };
        match value {
            Ok(value) => Ok(Some(value)),
            Err(Raw::NODATA) => Ok(None),
            Err(error) => Err(errno(error)),
        }
    }

    fn set_xattr(&self, who: &Arc<Identity>, name: &str, value: Option<&[u8]>, how: XattrFlags) -> Result<()> {
        if is_hidden(name, who) || who.uid != 0 && name.starts_with("security.") {
            return Err(Errno::PERM);
        }
        let _own = self.changes();
        if name.starts_with("security.") {
            identity::assume_for_security_attributes(who)?;
        } else {
            identity::assume(who)?;
        }
        let done = match value {
            Some(value) => self.source().set_xattr(name, value, how),
            None => rustix::fs::removexattr(proc_fd::path(self.fd()), name),
        };
        done.map_err(errno)
    }

    fn list_xattrs(&self, who: &Arc<Identity>) -> Result<Vec<String>> {
        identity::assume(who)?;
        let path = proc_fd::path(self.fd());
        let names = whole(|buffer| rustix::fs::listxattr(path.as_slice(), buffer)).map_err(errno)?;
        let names = names.split(|&byte| byte == 0).filter(|name| !name.is_empty());
        // A name that is not UTF-8 could not be requested either.
        let names = names.filter_map(|name| String::from_utf8(name.to_vec()).ok());
        Ok(names.filter(|name| !is_hidden(name, who)).collect())
    }
}

/// Returns whether Linux shows attributes of this name to root only. A user's thread keeps the capability for them
/// ([`identity::DESCRIBING`]), so the kernel does not hide them.
fn is_hidden(name: &str, who: &Identity) -> bool {
    who.uid != 0 && name.starts_with("trusted.")
}

/// Returns the complete result of `get`, whatever its length; `get` fails if the buffer is too small.
pub(crate) fn whole(get: impl Fn(&mut [u8]) -> rustix::io::Result<usize>) -> rustix::io::Result<Vec<u8>> {
    // Most values, including security descriptors with fifty ACEs, and the absence of a value need no heap buffer.
    let mut short = [0; 2048];
    match get(&mut short) {
        Err(Raw::RANGE) => {}
        found => return found.map(|length| short[..length].to_vec()),
    }
    // The larger sizes are for ACLs with a hundred entries, and for the longest value and the longest list of names
    // that Linux supports, for which the kernel clears as much memory each time.
    for size in [8192, 65_536] {
        let mut buffer = vec![0; size];
        match get(&mut buffer) {
            Err(Raw::RANGE) if size < 65_536 => {}
            Ok(length) => {
                buffer.truncate(length);
                return Ok(buffer);
            }
            Err(error) => return Err(error),
        }
    }
    Err(Raw::RANGE)
}

fn timespec(time: Option<Time>) -> Timespec {
    match time {
        Some(time) => Timespec { tv_sec: time.secs, tv_nsec: time.nanos.into() },
        None => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
    }
}

impl Node for Handle {
    fn metadata(&self, op: &Op) -> Answer<Result<Metadata>> {
        query(&self.0, op, |open| open.metadata())
    }

    fn open(&self, op: &Op, access: Access) -> Answer<Result<Arc<dyn Node>>> {
        if self.0.access == Some(access) && self.0.opener.as_ref() == Some(op) {
            return Answer::now(Ok(Arc::new(Handle(Arc::clone(&self.0)))));
        }
        let who = Arc::clone(op);
        query(&self.0, op, move |open| open.open(&who, access).map(Open::into_node))
    }

    fn space(&self, op: &Op) -> Answer<Result<Space>> {
        let who = Arc::clone(op);
        query(&self.0, op, move |open| open.space(&who))
    }

    fn space_of_user(&self, op: &Op) -> Answer<Result<Space>> {
        Open::space_of_user(&self.0, op)
    }

    fn quotas(&self) -> Option<Arc<dyn Quotas>> {
        Some(Arc::new(FileSystemQuotas(Arc::clone(&self.0))))
    }

    fn permissions(&self, op: &Op) -> Answer<Result<u32>> {
        let who = Arc::clone(op);
        query(&self.0, op, move |open| open.permissions(&who))
    }

    fn read(&self, op: &Op, read: ReadRequest) -> Answer<ReadReply> {
        Open::read(&self.0, op, read)
    }

    fn write(&self, op: &Op, offset: u64, data: Payload, through: bool) -> Answer<Result<()>> {
        Open::write(&self.0, op, offset, data, through)
    }

    fn takes_parts(&self) -> bool {
        self.0.system.executor.is_quick()
    }

    fn flush(&self, op: &Op) -> Answer<Result<()>> {
        let open = Arc::clone(&self.0);
        self.0.system.executor.later(op.uid, Lane::Slow, move || open.flush())
    }

    fn location(&self, op: &Op) -> Answer<Result<Vec<u8>>> {
        query(&self.0, op, |open| open.location())
    }

    fn read_link(&self, op: &Op) -> Answer<Result<Vec<u8>>> {
        query(&self.0, op, |open| {
            if open.kind != Kind::Symlink {
                return Err(Errno::INVAL);
            }
            rustix::fs::readlinkat(open.fd(), "", Vec::new()).map(std::ffi::CString::into_bytes).map_err(errno)
        })
    }

    fn set_extent(&self, op: &Op, extent: Extent) -> Answer<Result<()>> {
        Open::set_extent(&self.0, op, extent)
    }

    fn data_ranges(&self, op: &Op, offset: u64, length: u64) -> Answer<Result<Vec<DataRange>>> {
        let open = Arc::clone(&self.0);
        let find = unless_cancelled(op, move || open.data_ranges(offset, length));
        self.0.system.executor.later(op.uid, Lane::Data, find)
    }

    fn copy(&self, op: &Op, from: &Arc<dyn Node>, range: CopyRange) -> Answer<Result<u64>> {
        let Some(from) = of(from) else { return Answer::now(Err(Errno::XDEV)) };
        Open::copy(&self.0, op, &from, range)
    }

    fn set_metadata(&self, op: &Op, set: SetMetadata) -> Answer<Result<()>> {
        let (uid, who) = (op.uid, Arc::clone(op));
        change(&self.0, uid, move |open| open.set_metadata(&who, &set))
    }

    fn list(&self, op: &Op, listing: ListRequest) -> Answer<Result<Page>> {
        let (open, who) = (Arc::clone(&self.0), Arc::clone(op));
        let executor = &self.0.system.executor;
        if executor.is_quick() {
            let at_once = unless_cancelled(op, || open.list_at_once(&who, listing));
            if let Some(page) = executor.timed(at_once).transpose() {
                return Answer::now(page);
            }
        }
        executor.later(op.uid, Lane::Data, unless_cancelled(op, move || open.list(&who, listing)))
    }

    fn entry(&self, op: &Op, name: &[u8], case: Case) -> Answer<Result<Option<Entry>>> {
        Open::entry(&self.0, op, name, case)
    }

    fn entry_xattrs(
        &self,
        op: &Op,
        names: Vec<Box<[u8]>>,
        wanted: XattrFilter,
    ) -> Answer<Result<Vec<Option<Vec<EntryXattr>>>>> {
        let (open, who) = (Arc::clone(&self.0), Arc::clone(op));
        let executor = &self.0.system.executor;
        let are_few = names.len() <= FEW_ENTRIES;
        let find = move || crate::entry::attributes(&open, &who, &names, &*wanted);
        if executor.is_quick() && are_few {
            return Answer::now(executor.timed(find));
        }
        executor.later(op.uid, Lane::Data, unless_cancelled(op, find))
    }

    fn get_xattr(&self, op: &Op, name: &str) -> Answer<Result<Option<Vec<u8>>>> {
        let (who, name) = (Arc::clone(op), name.to_owned());
        query(&self.0, op, move |open| {
            // Checked before the attribute is read. If the last change is old by then, a later one has another time.
            let last_change = open.stamped.lock().filter(|_| name == ntacl::ATTRIBUTE);
            let stamped = last_change.filter(|&stamped| open.share.clock.is_old(stamped));
            let value = open.get_xattr(&who, &name)?;
            if let (None, Some(stamped)) = (&value, stamped) {
                open.share.cache.note_no_descriptor(open.id, stamped);
            }
            Ok(value)
        })
    }

    fn set_xattr(&self, op: &Op, name: &str, value: Option<Vec<u8>>, how: SetXattr) -> Answer<Result<()>> {
        let (uid, who, name) = (op.uid, Arc::clone(op), name.to_owned());
        let flags = if how == SetXattr::New { XattrFlags::CREATE } else { XattrFlags::empty() };
        change(&self.0, uid, move |open| open.set_xattr(&who, &name, value.as_deref(), flags))
    }

    fn list_xattrs(&self, op: &Op) -> Answer<Result<Vec<String>>> {
        let who = Arc::clone(op);
        query(&self.0, op, move |open| open.list_xattrs(&who))
    }

    fn watch(&self, wanted: Wanted, listener: ChangeListener) -> Result<Watching> {
        watch::subscribe(&self.0, wanted, listener)
    }

    fn lease(&self, op: &Op, broken: LeaseCallback) -> Answer<Result<Box<dyn Lease>>> {
        query(&self.0, op, move |open| leases::take(open, broken))
    }

    /// The kernel keeps a file's locks in a linked list that it searches for each change.
    fn lock(&self, op: &Op, changes: Vec<RangeChange>, many: bool) -> Answer<Result<()>> {
        let make = move |open: &Arc<Open>| {
            RangeChange::make_all(&changes, |offset, length, lock| open.lock_range(offset, length, lock))
        };
        if !many {
            return change(&self.0, op.uid, make);
        }
        let open = Arc::clone(&self.0);
        self.0.system.executor.later(op.uid, Lane::Data, move || make(&open))
    }

    /// Each byte is searched in the list of the file's locks too.
    fn is_locked(&self, op: &Op, bytes: Vec<u64>) -> Answer<Result<bool>> {
        let open = Arc::clone(&self.0);
        self.0.system.executor.later(op.uid, Lane::Data, move || open.is_locked(&bytes))
    }
}
