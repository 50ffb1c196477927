//! The file system interface of a share, in terms of Linux: only the operations that a share needs.
//!
//! Paths are relative to the share's root and already checked ([`RelPath`]). An implementation resolves them strictly
//! below that root. Every call names the user on whose behalf it is made, and the kernel checks that user's
//! permissions. Errors are errno values; [`Errno::status`] is the only place that converts them to NTSTATUS. Windows
//! semantics (share modes, leases, dispositions) are implemented in the layers above, in `files` and `command`.

#[cfg(any(test, feature = "contract"))]
pub mod contract;
mod copy;
mod errno;
pub mod faulty;
mod file_id;
mod kernel_locks;
mod lookup;
pub mod memory;
mod path;
mod private;
pub mod watch;
pub mod xattr;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
pub use copy::copy_range;
pub use errno::Errno;
pub use kernel_locks::{Lease, LeaseCallback, RangeChange, RangeLock};
pub use lookup::{Case, Lookup, SymlinkPolicy};
pub use path::RelPath;
pub use private::{Opened, Private};

use crate::answer::Answer;

/// Name of the [private directory](Private) in a share's root that a file system may use for itself. It is hidden from
/// clients.
pub const LINKS: &str = ".frevo-links";

/// The result of a file system call.
pub type Result<T> = std::result::Result<T, Errno>;

/// The user on whose behalf the kernel performs a call.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Identity {
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// Supplementary group ids, sorted, without `gid`.
    pub groups: Box<[u32]>,
}

/// A point in time: seconds and nanoseconds since 1970-01-01 UTC. `nanos` always counts forward and is below 10^9.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time {
    /// Seconds, negative before 1970.
    pub secs: i64,
    /// Nanoseconds.
    pub nanos: u32,
}

/// Converts to the wire format. A time that a FILETIME cannot represent becomes the nearest one that it can.
impl From<Time> for proto::dtyp::FileTime {
    fn from(time: Time) -> Self {
        proto::dtyp::FileTime::from_unix(time.secs, time.nanos)
    }
}

/// A file's identity within this server, for as long as the file exists.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FileId {
    /// Device number, which identifies the file system.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// The stream of the file. 0 is the unnamed stream, the file itself. Other values identify an alternate stream and
    /// are assigned by [`streams`](crate::streams) for as long as the stream is open. Share modes, locks and leases are
    /// kept per stream.
    pub stream: u64,
}

/// The type of a directory entry.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link that the share's policy does not follow.
    Symlink,
    /// A device, socket or FIFO: listed, but never opened for data.
    Special,
}

/// The result of `stat` and the attributes that Samba stores next to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metadata {
    /// Identity of the file.
    pub id: FileId,
    /// Type of the file.
    pub kind: Kind,
    /// Size in bytes; 0 for a directory.
    pub size: u64,
    /// Bytes allocated on disk (512 times `st_blocks`).
    pub allocated: u64,
    /// Number of hard links.
    pub links: u32,
    /// Permission bits with set-id and sticky bits (`0o7777`).
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last access.
    pub accessed: Time,
    /// Last change of content.
    pub modified: Time,
    /// Last change of the inode, or the change time that a client set instead.
    pub changed: Time,
    /// Last change of the inode as recorded by the file system, which cannot be set. While it is unchanged, so is the
    /// file's protection.
    pub stamped: Time,
    /// Creation time: from `user.DOSATTRIB` if stored there, else the file system's birth time, else the earliest of
    /// the other times.
    pub created: Time,
    /// Birth time recorded by the file system, which cannot be set; `None` where the file system does not report it.
    pub born: Option<Time>,
    /// The DOS attributes stored in `user.DOSATTRIB` ([MS-FSCC] 2.6 bits); `None` where the file has none stored.
    pub dos_attributes: Option<u32>,
    /// Whether the file system compresses data written to the file, or to new files in the directory.
    pub compressed: bool,
    /// Whether the file is known to have no `security.NTACL`: either it was looked up ([`Node::note_bare`]) and the
    /// file has not changed since, or it was looked up for this metadata.
    pub bare: bool,
}

/// A directory whose permissions are watched by its file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirectoryVersion {
    /// Identity of the directory.
    pub id: FileId,
    /// Permission bits with setuid, setgid and sticky.
    pub mode: u32,
    /// Group.
    pub gid: u32,
    /// Version of the directory's protection. It is unchanged as long as owner, mode and extended attributes are. Each
    /// value is used for one directory only, and never again after a change.
    pub state: u64,
}

/// The protection that a new file gets at creation, computed for the owner and group that it is expected to get.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Guard {
    /// Owner and group for which the guard is valid.
    pub owner: (u32, u32),
    /// Permission bits with setuid, setgid and sticky that result from the POSIX ACLs in `lists`; `None` where any are
    /// acceptable.
    pub mode: Option<u32>,
    /// Extended attributes that hold POSIX ACLs, in the order in which they are set or, with `None`, removed.
    pub lists: Vec<(&'static str, Option<Vec<u8>>)>,
    /// The extended attribute that holds the security descriptor.
    pub descriptor: (String, Vec<u8>),
}

/// The result of [`Vfs::create_guarded`].
pub struct Made {
    /// A handle to it.
    pub node: Arc<dyn Node>,
    /// Its metadata.
    pub metadata: Metadata,
    /// Whether the guard is in place.
    pub guarded: bool,
}

/// The kind of object to create.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Create {
    /// A regular file, opened with `Access`.
    File(Access),
    /// A directory.
    Directory,
}

/// Data access of an open file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Access {
    /// Reading.
    pub read: bool,
    /// Writing, truncating, allocating.
    pub write: bool,
}

/// The changes that [`Node::set_metadata`] makes; `None` leaves a field unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SetMetadata {
    /// Last access.
    pub accessed: Option<Time>,
    /// Last change of content.
    pub modified: Option<Time>,
    /// Creation time, stored in `user.DOSATTRIB`.
    pub created: Option<Time>,
    /// Change time, reported until the file is changed again. Stored in `user.DOSATTRIB`, because Linux sets its own.
    pub changed: Option<Time>,
    /// DOS attributes, stored in `user.DOSATTRIB`.
    pub dos_attributes: Option<u32>,
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
}

/// Capacity and limits of the file system that holds a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// Bytes in an allocation unit.
    pub block_size: u32,
    /// Size in blocks.
    pub blocks: u64,
    /// Free blocks, including those reserved for root.
    pub free: u64,
    /// Blocks that the requesting user may still fill.
    pub available: u64,
    /// An identifier of the file system, stable across mounts where the kernel offers one.
    pub id: u64,
}

/// Optional features of a share's file system. A file system mounted below the share's directory may differ; an
/// operation that it does not support fails when it is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Features {
    /// [`Node::clone_range`] works.
    pub clones: bool,
    /// [`Node::set_compressed`] works.
    pub compresses: bool,
    /// [`Node::zero`] releases space.
    pub punches: bool,
}

/// One directory entry of a listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The name as it is on disk, without NUL and `/`. Not necessarily UTF-8.
    pub name: Box<[u8]>,
    /// Its metadata; `None` where it vanished or may not be read.
    pub metadata: Option<Metadata>,
}

/// A range of a file that holds data (as opposed to a hole).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataRange {
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
}

/// Clock granularity of a file system whose clock is unknown. A file must have changed at least this long ago for its
/// change time to differ from that of every later change. Linux takes time stamps from a clock that ticks every 10 ms
/// at the slowest.
pub const TICK: Duration = Duration::from_millis(20);

/// A share's file system.
pub trait Vfs: Send + Sync {
    /// Resolves `path` and opens a handle for attributes on its target. A link that `links` does not permit, or that is
    /// dangling or leads out of the root, is returned as [`Kind::Symlink`] when it is the last component, and fails
    /// with `Errno::LOOP` when it is an intermediate one. Neither the status nor the timing may reveal where a link
    /// leads. `Errno::ACCES` where `who` may not search a directory on the way; the root itself is always found.
    fn lookup(&self, who: &Arc<Identity>, path: &RelPath, case: Case, links: SymlinkPolicy) -> Answer<Result<Lookup>>;

    /// Like [`Vfs::lookup`], for a caller that will [`Node::open`] a regular file for reading next. The handle may
    /// already have that access if the kernel grants it to `who`; opening it then costs nothing. This call may notify a
    /// holder of a lease on the file.
    fn lookup_to_read(
        &self,
        who: &Arc<Identity>,
        path: &RelPath,
        case: Case,
        links: SymlinkPolicy,
    ) -> Answer<Result<Lookup>> {
        self.lookup(who, path, case, links)
    }

    /// Creates a file or directory; `Errno::EXIST` if exactly that name exists. Names that differ in case only are
    /// handled by the look-up: `path` is the one that [`Lookup::Missing`] returned. `Errno::NOENT` where its directory
    /// is gone. `mode` is applied as is; the process's umask is not used. `dos_attributes`, where given, are stored in
    /// `user.DOSATTRIB` with the creation time. On a file system that cannot store them the file is created without
    /// them, which shows in the metadata.
    fn create(
        &self,
        who: &Arc<Identity>,
        path: &RelPath,
        what: Create,
        mode: u32,
        dos_attributes: Option<u32>,
    ) -> Answer<Result<(Arc<dyn Node>, Metadata)>>;

    /// Like [`Vfs::create`], with `guard` applied if there is one. [`Made::guarded`] is false if the guard is not fully
    /// in place, because the file got another owner or the file system does not accept it. The caller must then protect
    /// the file.
    fn create_guarded(
        &self,
        who: &Arc<Identity>,
        path: &RelPath,
        what: Create,
        mode: u32,
        dos_attributes: Option<u32>,
        guard: Option<Guard>,
    ) -> Answer<Result<Made>> {
        drop(guard);
        let made = self.create(who, path, what, mode, dos_attributes);
        made.map(|made| made.map(|(node, metadata)| Made { node, metadata, guarded: false }))
    }

    /// Renames `from`, which must still be the file `id` or a link that leads to it (`Errno::STALE` if not), to `to`.
    /// With `replace`, an existing target is replaced in one step, unless either is a directory. Without it, an
    /// existing target is `Errno::EXIST`, as is a link that would replace its own target. Where both are names of one
    /// file, `replace` leaves only `to`.
    fn rename(
        &self,
        who: &Arc<Identity>,
        from: &RelPath,
        id: FileId,
        to: &RelPath,
        replace: bool,
    ) -> Answer<Result<()>>;

    /// Makes `to` another name of the file that `node` holds.
    fn link(&self, who: &Arc<Identity>, node: &Arc<dyn Node>, to: &RelPath, replace: bool) -> Answer<Result<()>>;

    /// Removes the name `path` if it still names the file `id` or a link that leads to it (`Errno::STALE` if not); in
    /// the latter case the link is removed. A directory must be empty. A local process that swaps the name at the same
    /// moment can cause another file in the same directory to be removed, because Linux removes names, not files.
    fn unlink(&self, who: &Arc<Identity>, path: &RelPath, id: FileId, kind: Kind) -> Answer<Result<()>>;

    /// Makes `path`, which must be free, a symbolic link to `target`; `Errno::OPNOTSUPP` where links are not supported.
    fn make_link(&self, _who: &Arc<Identity>, _path: &RelPath, _target: &[u8]) -> Answer<Result<()>> {
        Answer::now(Err(Errno::OPNOTSUPP))
    }

    /// Opens the directory `name` below `root` that only the server uses. If it is missing and `make` is set, it is
    /// created with mode 0700. It must belong to the server's own user and grant no permission to any other user.
    /// `Errno::PERM` for anything else of that name, including a link or a mount. `Errno::OPNOTSUPP` where private
    /// directories are not supported.
    fn private(&self, root: &RelPath, name: &'static str, make: bool) -> Answer<Result<Option<Arc<dyn Private>>>> {
        let _ = (root, name, make);
        Answer::now(Err(Errno::OPNOTSUPP))
    }

    /// Atomically replaces the empty file or directory `id`, named `path`, by a symbolic link to `target`. The name is
    /// never missing, and nothing with content is lost. `Errno::STALE` where another file has the name,
    /// `Errno::NOTEMPTY` where it has content, `Errno::OPNOTSUPP` or `Errno::INVAL` where the file system cannot do it.
    fn become_link(&self, _who: &Arc<Identity>, _path: &RelPath, _id: FileId, _target: &[u8]) -> Answer<Result<()>> {
        Answer::now(Err(Errno::OPNOTSUPP))
    }

    /// Returns a file system whose root is the directory `path`, reached by `who` without following a link. Links
    /// resolve below that root. The two file systems share no mutable state except the files. `Errno::NOTDIR` where
    /// `path` is not a directory, `Errno::OPNOTSUPP` where this is not supported.
    fn beneath(&self, _who: &Arc<Identity>, _path: &RelPath) -> Answer<Result<Arc<dyn Vfs>>> {
        Answer::now(Err(Errno::OPNOTSUPP))
    }

    /// Capacity and limits.
    fn space(&self, who: &Arc<Identity>) -> Answer<Result<Space>>;

    /// Returns the supported features. The query has no visible effect.
    fn features(&self) -> Answer<Features> {
        Answer::now(Features::default())
    }

    /// Clock granularity for `stamped` ([`Metadata::stamped`]). Metadata and other data of a file read at least this
    /// long after `stamped` can be cached under it, because any later change gets a different time.
    fn tick(&self, stamped: Time) -> Duration;
}

/// An open file or directory. Dropping it closes it.
pub trait Node: Send + Sync + std::any::Any {
    /// Returns the implementation's own type, for calls of the same [`Vfs`] that take a node.
    fn as_any(&self) -> &dyn std::any::Any;

    /// Current metadata.
    fn metadata(&self) -> Answer<Result<Metadata>>;

    /// Opens a handle with data access to the same file; the kernel checks the permissions of `who`. A directory can
    /// only be opened for reading (`Errno::ISDIR`); a link (`Errno::LOOP`) and a special file (`Errno::NODEV`) cannot
    /// be opened. `Errno::AGAIN` where another handle or process holds a lease on the file: the holder has been
    /// notified, and a later attempt succeeds.
    fn open(&self, who: &Arc<Identity>, access: Access) -> Answer<Result<Arc<dyn Node>>>;

    /// Returns whether the kernel would let `who` read, write and execute (search), as `rwx` bits, without opening the
    /// file. Writing is never permitted on a file system that is mounted read-only.
    fn permissions(&self, who: &Arc<Identity>) -> Answer<Result<u32>>;

    /// Reads into `buffer[filled..]` from `offset` and returns the number of bytes read, fewer only at the end of file.
    /// The buffer is always returned, with the same length and with `buffer[..filled]` unchanged, even if the read
    /// fails.
    fn read(&self, offset: u64, buffer: Vec<u8>, filled: usize) -> Answer<(Vec<u8>, Result<usize>)>;

    /// Writes all of `data` at `offset`, or fails; data written before a failure stays. With `through`, the data is on
    /// disk before the call returns.
    fn write(&self, who: &Arc<Identity>, offset: u64, data: Bytes, through: bool) -> Answer<Result<()>>;

    /// Flushes data and metadata to disk. If the file's current name is new (created, renamed or linked), the name is
    /// flushed too. Flushing a directory flushes its names.
    fn flush(&self) -> Answer<Result<()>>;

    /// Returns the file's current path, without links: from the root of its file system, or from the machine's root if
    /// the file lies outside (`wide links`). `Errno::NOENT` if the file no longer has a name.
    fn location(&self) -> Answer<Result<Vec<u8>>> {
        Answer::now(Err(Errno::OPNOTSUPP))
    }

    /// Returns the target of a symbolic link, exactly as stored; `Errno::INVAL` for anything else.
    fn read_link(&self) -> Answer<Result<Vec<u8>>> {
        Answer::now(Err(Errno::INVAL))
    }

    /// Sets the file's size.
    fn set_size(&self, who: &Arc<Identity>, size: u64) -> Answer<Result<()>>;

    /// Reserves space for the first `size` bytes without changing the file's size; `Errno::OPNOTSUPP` where the file
    /// system cannot.
    fn allocate(&self, who: &Arc<Identity>, size: u64) -> Answer<Result<()>>;

    /// Makes the range read as zeros, and releases its space where the file system can.
    fn zero(&self, who: &Arc<Identity>, offset: u64, length: u64) -> Answer<Result<()>>;

    /// Returns the ranges within `offset..offset + length` that hold data, in order. At most 65,536 are returned; a
    /// caller that needs more asks again after the last one.
    fn data_ranges(&self, offset: u64, length: u64) -> Answer<Result<Vec<DataRange>>>;

    /// Copies `length` bytes from offset `source` of `from` to `offset` and returns the number of bytes copied, fewer
    /// only where `from` ends. If both are the same file and the ranges overlap, the destination receives the original
    /// content. This handle must be open for writing, `from` for reading. Data copied before a failure stays.
    /// `Errno::XDEV` where `from` is not a handle of this kind; nothing has been copied then, and [`copy_range`] does
    /// the copying.
    fn copy_range(
        &self,
        _who: &Arc<Identity>,
        _from: &Arc<dyn Node>,
        _source: u64,
        _offset: u64,
        _length: u64,
    ) -> Answer<Result<u64>> {
        Answer::now(Err(Errno::XDEV))
    }

    /// Makes the range `offset..offset + length` of this file share the space of `from`'s range starting at `source`.
    /// It reads as a copy, and takes space once either is written to. Both ends of the ranges lie at multiples of
    /// [`Space::block_size`], except that the ranges may end with both files. The size does not change; this handle
    /// must be open for writing, `from` for reading. `Errno::OPNOTSUPP` where the file system cannot, `Errno::XDEV`
    /// where the files are on different file systems, `Errno::INVAL` for ranges that are misaligned, reach beyond an
    /// end or overlap.
    fn clone_range(
        &self,
        _who: &Arc<Identity>,
        _from: &Arc<dyn Node>,
        _source: u64,
        _offset: u64,
        _length: u64,
    ) -> Answer<Result<()>> {
        Answer::now(Err(Errno::OPNOTSUPP))
    }

    /// Sets [`Metadata::compressed`]. `Errno::OPNOTSUPP` where the file system cannot, `Errno::ACCES` where `who` may
    /// not write the file.
    fn set_compressed(&self, _who: &Arc<Identity>, _compressed: bool) -> Answer<Result<()>> {
        Answer::now(Err(Errno::OPNOTSUPP))
    }

    /// Changes metadata. Only the times and the owner of a symbolic link can be changed: `Errno::OPNOTSUPP` for a mode,
    /// a change time, and the fields stored in `user.DOSATTRIB`.
    fn set_metadata(&self, who: &Arc<Identity>, set: SetMetadata) -> Answer<Result<()>>;

    /// Returns up to about `count` entries of this directory that follow the position `cursor` (0 = the start), without
    /// `.` and `..`, with metadata if `with_metadata`, and the position after them. An empty list means the end.
    /// Positions stay valid while the handle is open, regardless of changes to the directory. Links themselves are
    /// listed, followed or not. A handle that was not opened for reading lists as `who` if the kernel permits it.
    fn list(
        &self,
        who: &Arc<Identity>,
        cursor: u64,
        count: usize,
        with_metadata: bool,
    ) -> Answer<Result<(Vec<Entry>, u64)>>;

    /// Returns the entry of this directory that matches `name`, with metadata: the exact name first, then one that is
    /// equal under `case`, as [`Vfs::lookup`] finds it. `None` where there is none, or where `who` may not search the
    /// directory. A link itself is returned. `name` is neither `.` nor `..`. The cost does not grow with the directory.
    fn entry(&self, who: &Arc<Identity>, name: &[u8], case: Case) -> Answer<Result<Option<Entry>>>;

    /// Returns whether the directory has no entries. The server's permission to read it suffices; the user needs none.
    fn is_empty(&self) -> Answer<Result<bool>>;

    /// Returns the value of an extended attribute; `None` where there is none. `name` includes its namespace
    /// (`user.x`).
    fn get_xattr(&self, who: &Arc<Identity>, name: &str) -> Answer<Result<Option<Vec<u8>>>>;

    /// Records that the file had no `security.NTACL` after its last change at `stamped`, a time that differs from that
    /// of every later change ([`Vfs::tick`]).
    fn note_bare(&self, stamped: Time) {
        let _ = stamped;
    }

    /// Sets or, with `None`, removes an extended attribute.
    fn set_xattr(&self, who: &Arc<Identity>, name: &str, value: Option<Vec<u8>>) -> Answer<Result<()>>;

    /// Adds an extended attribute; `Errno::EXIST` if the file already has it, including when another process has just
    /// added it.
    fn add_xattr(&self, who: &Arc<Identity>, name: &str, value: Vec<u8>) -> Answer<Result<()>>;

    /// Notifies `listener` of changes that other processes make in the directory, until the returned watch is dropped.
    /// Changes that this process makes through this [`Vfs`] are not reported. Never waits; slow work continues in the
    /// background. `Errno::OPNOTSUPP` where the file system cannot report changes.
    fn watch(&self, wanted: watch::Wanted, listener: watch::ChangeListener) -> Result<watch::Watching> {
        drop((wanted, listener));
        Err(Errno::OPNOTSUPP)
    }

    /// Returns the names of all extended attributes that the user may see.
    fn list_xattrs(&self, who: &Arc<Identity>) -> Answer<Result<Vec<String>>>;

    /// Takes a lease on a file that has no other open with data access (`Errno::AGAIN` if it has). `told` is called
    /// when such an open is attempted; that open waits for the end of the lease or fails with `Errno::AGAIN`. This
    /// handle must have data access itself. The kernel revokes a lease that is not given up in time
    /// (`/proc/sys/fs/lease-break-time`). `Errno::OPNOTSUPP` where the file system does not support leases.
    fn lease(&self, _told: LeaseCallback) -> Answer<Result<Box<dyn Lease>>> {
        Answer::now(Err(Errno::OPNOTSUPP))
    }

    /// Sets the lock that other processes and other handles see on a range, whatever it was before. It is an advisory
    /// lock that belongs to this handle and ends with it. Never waits: `Errno::AGAIN` where another lock conflicts, and
    /// nothing has changed. `offset + length` is at most 2^63. `Errno::BADF` for an exclusive lock on a handle that is
    /// not open for writing, or a shared lock on one that is not open for reading; `Errno::OPNOTSUPP` where the file
    /// system has no locks.
    fn lock_range(&self, _offset: u64, _length: u64, _lock: RangeLock) -> Answer<Result<()>> {
        Answer::now(Err(Errno::OPNOTSUPP))
    }

    /// Like [`Node::lock_range`], for several changes in order: all of them, or none if another lock conflicts with one
    /// of them. Changes that this handle may not make, or that the file system does not support, are skipped. `many`:
    /// the file may have many locks, all of which the kernel must search for each change.
    fn lock_ranges(&self, _changes: Vec<RangeChange>, _many: bool) -> Answer<Result<()>> {
        Answer::now(Ok(()))
    }
}
