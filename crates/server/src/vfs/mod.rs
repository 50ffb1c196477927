//! The file system interface of a share, in terms of Linux: only the operations that a share needs.
//!
//! Paths are relative to the share's root and already checked ([`RelPath`]). An implementation resolves them strictly
//! below that root. Every call starts with an [`Op`]: the user on whose behalf it is made, whose permissions the file
//! system checks, how long it may take, and whether its result is still wanted. Errors are errno values;
//! [`Errno::status`] is the only place that converts them to NTSTATUS. Windows semantics (share modes, leases,
//! dispositions) are implemented in the layers above, in `files` and `command`.

mod capabilities;
#[cfg(any(test, feature = "contract"))]
pub mod contract;
mod copy;
mod errno;
pub mod faulty;
mod file_id;
mod kernel_locks;
mod lookup;
pub mod memory;
mod metadata;
mod op;
mod path;
mod payload;
mod private;
mod quota;
#[cfg(any(test, feature = "contract"))]
pub mod remote;
mod request;
mod wanted;
pub mod watch;
pub mod xattr;

use std::any::Any;
use std::sync::{Arc, LazyLock};

pub use capabilities::{AclKind, Capabilities, Changes, Enforcement, Features, GRANULARITY};
pub use copy::{copy_range, copy_through_memory};
pub use errno::Errno;
pub use kernel_locks::{Lease, LeaseCallback, RangeChange, RangeLock};
pub use lookup::{Case, Lookup, Parent, SymlinkPolicy};
pub use metadata::{
    DataRange, DirectoryVersion, Entry, EntryXattr, FileId, FileSystemState, Kind, Metadata, SetMetadata, Space,
    SpecialFile, Time, WorkerNumbers, XattrFilter,
};
pub use op::{Cancellation, Op, cancellable};
pub use path::RelPath;
pub use payload::{Content, Payload, Pipe, ReadReply, ReadRequest, into_buffer, read_into};
pub use private::{Opened, Private};
pub use quota::{Quota, QuotaLimits, QuotaOwner, QuotaRules, Quotas};
pub use request::{
    CopyRange, Create, Created, Extent, InitialAcl, ListRequest, LookupOptions, NewFile, Page, Removed, RenameRequest,
    Replace, SetXattr,
};

pub use wanted::{WantedXattrs, XattrSet};

use crate::answer::Answer;

/// Name of the [private directory](Private) in a share's root that a file system may use for itself. It is hidden from
/// clients.
pub const LINKS: &str = ".frevo-links";

/// First letters of the names of directories in which commands of the administrator measure the file system. They exist
/// only for that time and are hidden from clients.
pub const TRIAL: &str = ".frevo-trial";

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

/// Data access of an open file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Access {
    /// Reading.
    pub read: bool,
    /// Writing, truncating, allocating.
    pub write: bool,
}

/// A share's file system.
pub trait Vfs: Send + Sync {
    /// What the file system can do. Never waits.
    fn capabilities(&self) -> &Capabilities;

    /// Returns the device number of the file system of the root; `None` if it is not one of this host. Never waits.
    fn device(&self) -> Option<u64> {
        None
    }

    /// Asks for the state of the file system of the root, on the calling thread, which waits until it is answered: for
    /// ever if the file system hangs. `Errno::OPNOTSUPP` where there is no such question.
    fn probe(&self) -> Result<FileSystemState> {
        Err(Errno::OPNOTSUPP)
    }

    /// Returns the numbers of the threads that make the calls to the file system of the root; `None` where there are no
    /// such threads. Never waits.
    fn workers(&self) -> Option<WorkerNumbers> {
        None
    }

    /// Resolves `path` and opens a handle for attributes on its target. A link that the options do not permit, or that
    /// is dangling or leads out of the root, is returned as [`Kind::Symlink`] when it is the last component, and fails
    /// with `Errno::LOOP` when it is an intermediate one. Neither the status nor the timing may reveal where a link
    /// leads. `Errno::ACCES` where the user may not search a directory on the way; the root itself is always found.
    fn lookup(&self, op: &Op, path: &RelPath, options: LookupOptions) -> Answer<Result<Lookup>>;

    /// Creates a file, directory or symbolic link; `Errno::EXIST` if exactly that name exists. Names that differ in
    /// case only are handled by the look-up: `path` is the one that [`Lookup::Missing`] returned. `Errno::NOENT` where
    /// its directory is gone.
    fn create(&self, op: &Op, path: &RelPath, new: NewFile) -> Answer<Result<Created>>;

    /// Renames a file, directory or link (`Errno::STALE` if the name is that of another one). A target that may be
    /// replaced is replaced in one step, unless either is a directory. Any other existing target is `Errno::EXIST`, as
    /// is a link that would replace its own target. Where both are names of one file, replacing leaves only the new
    /// one.
    fn rename(&self, op: &Op, rename: RenameRequest) -> Answer<Result<()>>;

    /// Makes `to` another name of the file that `node` holds.
    fn link(&self, op: &Op, node: &Arc<dyn Node>, to: &RelPath, replace: Replace) -> Answer<Result<()>>;

    /// Removes the name `path` if it still names the file `id` or a link that leads to it (`Errno::STALE` if not); in
    /// the latter case the link is removed. A directory must be empty. A local process that swaps the name at the same
    /// moment can cause another file in the same directory to be removed, because Linux removes names, not files.
    fn unlink(&self, op: &Op, path: &RelPath, id: FileId, kind: Kind) -> Answer<Result<Removed>>;

    /// Returns whether the storage lets the user remove the name `path` of a file of `owner` from its directory, which
    /// takes the right to write and search it, and with the sticky bit to own one of them. `None` if that is not known
    /// without waiting. Never waits.
    fn may_remove(&self, op: &Op, path: &RelPath, owner: u32) -> Option<bool> {
        let _ = (op, path, owner);
        None
    }

    /// Opens the directory `name` below `root` that only the server uses. If it is missing and `make` is set, it is
    /// created with mode 0700. It must belong to the server's own user and grant no permission to any other user.
    /// `Errno::PERM` for anything else of that name, including a link or a mount. `Errno::OPNOTSUPP` where private
    /// directories are not supported.
    fn private(&self, root: &RelPath, name: &'static str, make: bool) -> Answer<Result<Option<Arc<dyn Private>>>> {
        let _ = (root, name, make);
        Answer::now(Err(Errno::OPNOTSUPP))
    }

    /// Returns a file system whose root is the directory `path`, reached by the user without following a link. Links
    /// resolve below that root. The two file systems share no mutable state except the files. `Errno::NOTDIR` where
    /// `path` is not a directory, `Errno::OPNOTSUPP` where this is not supported.
    fn beneath(&self, _op: &Op, _path: &RelPath) -> Answer<Result<Arc<dyn Vfs>>> {
        Answer::now(Err(Errno::OPNOTSUPP))
    }
}

/// An open file or directory.
pub trait Node: Send + Sync + Any {
    /// Current metadata.
    fn metadata(&self, op: &Op) -> Answer<Result<Metadata>>;

    /// Opens a handle with data access to the same file; the file system checks the permissions of the user. A
    /// directory can only be opened for reading (`Errno::ISDIR`); a link (`Errno::LOOP`) and a special file
    /// (`Errno::NODEV`) cannot be opened. `Errno::AGAIN` where another handle or process holds a lease on the file: the
    /// holder has been notified, and a later attempt succeeds.
    fn open(&self, op: &Op, access: Access) -> Answer<Result<Arc<dyn Node>>>;

    /// Ends the use of the handle, and returns the error of a write that was accepted but could not be carried out. No
    /// other call follows. A handle that is only dropped is closed too, and such an error is lost.
    fn close(&self, _op: &Op) -> Answer<Result<()>> {
        Answer::now(Ok(()))
    }

    /// Returns the capacity and limits that apply to this file or directory. It may be on a file system mounted below
    /// the root, or in a directory with a quota.
    fn space(&self, op: &Op) -> Answer<Result<Space>>;

    /// Like [`Node::space`], but bounded by the quotas of the user and of the group, where they are known.
    fn space_of_user(&self, op: &Op) -> Answer<Result<Space>> {
        self.space(op)
    }

    /// Returns the quotas of the file system that holds the file; `None` where this kind of storage has none. Never
    /// waits.
    fn quotas(&self) -> Option<Arc<dyn Quotas>> {
        None
    }

    /// Returns whether the file system would let the user read, write and execute (search), as `rwx` bits, without
    /// opening the file. Writing is never permitted on a file system that is mounted read-only.
    fn permissions(&self, op: &Op) -> Answer<Result<u32>>;

    /// Reads from an offset, fewer bytes than requested only at the end of file. The data is in the caller's buffer,
    /// or in memory or a pipe of the file system. The buffer is always returned, with the same length and with
    /// `buffer[..filled]` unchanged, even if the read fails.
    fn read(&self, op: &Op, read: ReadRequest) -> Answer<ReadReply>;

    /// Writes all of `data` at `offset`, or fails; data written before a failure stays. With `through`, the data is on
    /// disk before the call returns.
    fn write(&self, op: &Op, offset: u64, data: Payload, through: bool) -> Answer<Result<()>>;

    /// Returns whether data that arrives in parts is written part by part at no additional cost, because writes do not
    /// wait.
    fn takes_parts(&self) -> bool {
        false
    }

    /// Flushes data and metadata to disk. If the file's current name is new (created, renamed or linked), the name is
    /// flushed too. Flushing a directory flushes its names. Returns the error of an earlier write that was accepted but
    /// could not be carried out.
    fn flush(&self, op: &Op) -> Answer<Result<()>>;

    /// Returns the file's current path, without links: from the root of its file system, or from the machine's root if
    /// the file lies outside (`wide links`). `Errno::NOENT` if the file no longer has a name.
    fn location(&self, _op: &Op) -> Answer<Result<Vec<u8>>> {
        Answer::now(Err(Errno::OPNOTSUPP))
    }

    /// Returns the target of a symbolic link, exactly as stored; `Errno::INVAL` for anything else.
    fn read_link(&self, _op: &Op) -> Answer<Result<Vec<u8>>> {
        Answer::now(Err(Errno::INVAL))
    }

    /// Changes the file's size or allocated space.
    fn set_extent(&self, op: &Op, extent: Extent) -> Answer<Result<()>>;

    /// Returns the ranges within `offset..offset + length` that hold data, in order. At most 65,536 are returned; a
    /// caller that needs more asks again after the last one.
    fn data_ranges(&self, op: &Op, offset: u64, length: u64) -> Answer<Result<Vec<DataRange>>>;

    /// Copies a range of `from` into this file and returns the number of bytes copied, fewer only where `from` ends. If
    /// both are the same file and the ranges overlap, the destination receives the original content. This handle must
    /// be open for writing, `from` for reading. Data copied before a failure stays. `Errno::XDEV` where `from` is not a
    /// handle of this kind; nothing has been copied then, and [`copy_range`] does the copying.
    ///
    /// With [`CopyRange::share`]: `Errno::OPNOTSUPP` where the file system cannot share space, `Errno::XDEV` where the
    /// files are on different file systems, `Errno::INVAL` for ranges that are misaligned, reach beyond an end or
    /// overlap.
    fn copy(&self, _op: &Op, _from: &Arc<dyn Node>, range: CopyRange) -> Answer<Result<u64>> {
        Answer::now(Err(if range.share { Errno::OPNOTSUPP } else { Errno::XDEV }))
    }

    /// Changes metadata. Only the times and the owner of a symbolic link can be changed: `Errno::OPNOTSUPP` for a mode,
    /// a change time, and the fields stored in `user.DOSATTRIB`.
    fn set_metadata(&self, op: &Op, set: SetMetadata) -> Answer<Result<()>>;

    /// Returns entries of this directory, without `.` and `..`, and the position after them. A page without entries is
    /// the end. Positions stay valid while the handle is open, regardless of changes to the directory. Links themselves
    /// are listed, followed or not. A handle that was not opened for reading lists as the user of the call if that user
    /// may.
    fn list(&self, op: &Op, listing: ListRequest) -> Answer<Result<Page>>;

    /// Returns the entry of this directory that matches `name`, with metadata: the exact name first, then one that is
    /// equal under `case`, as [`Vfs::lookup`] finds it. `None` where there is none, or where the user may not search
    /// the directory. A link itself is returned. `name` is neither `.` nor `..`. The cost does not grow with the
    /// directory.
    fn entry(&self, op: &Op, name: &[u8], case: Case) -> Answer<Result<Option<Entry>>>;

    /// Returns the `wanted` attributes of the entries `names` of this directory, for each entry in its order; `None`
    /// for an entry whose attributes cannot be listed. Links are not followed. `Errno::OPNOTSUPP` where attributes of
    /// entries are read only by opening them.
    fn entry_xattrs(
        &self,
        op: &Op,
        names: Vec<Box<[u8]>>,
        wanted: XattrFilter,
    ) -> Answer<Result<Vec<Option<Vec<EntryXattr>>>>> {
        drop((op, names, wanted));
        Answer::now(Err(Errno::OPNOTSUPP))
    }

    /// Returns the value of an extended attribute; `None` where there is none. `name` includes its namespace
    /// (`user.x`).
    fn get_xattr(&self, op: &Op, name: &str) -> Answer<Result<Option<Vec<u8>>>>;

    /// Sets or, with `None`, removes an extended attribute.
    fn set_xattr(&self, op: &Op, name: &str, value: Option<Vec<u8>>, how: SetXattr) -> Answer<Result<()>>;

    /// Returns the names of all extended attributes that the user may see.
    fn list_xattrs(&self, op: &Op) -> Answer<Result<Vec<String>>>;

    /// Notifies `listener` of changes that other processes make in the directory, until the returned watch is dropped.
    /// Changes that this process makes through this [`Vfs`] are not reported. Never waits; slow work continues in the
    /// background. `Errno::OPNOTSUPP` where the file system cannot report changes.
    fn watch(&self, wanted: watch::Wanted, listener: watch::ChangeListener) -> Result<watch::Watching> {
        drop((wanted, listener));
        Err(Errno::OPNOTSUPP)
    }

    /// Takes a lease on a file that has no other open with data access (`Errno::AGAIN` if it has). `broken` is called
    /// when such an open is attempted; that open waits for the end of the lease or fails with `Errno::AGAIN`. This
    /// handle must have data access itself. The kernel revokes a lease that is not given up in time
    /// (`/proc/sys/fs/lease-break-time`). `Errno::OPNOTSUPP` where the file system does not support leases.
    fn lease(&self, _op: &Op, _broken: LeaseCallback) -> Answer<Result<Box<dyn Lease>>> {
        Answer::now(Err(Errno::OPNOTSUPP))
    }

    /// Sets the locks that other processes and other handles see on ranges, in order: all of them, or none if another
    /// lock conflicts with one of them (`Errno::AGAIN`; the call never waits for it). They are advisory locks that
    /// belong to this handle and end with it. `offset + length` of each is at most 2^63. Changes that this handle may
    /// not make (an exclusive lock if it is not open for writing, a shared one if it is not open for reading), or that
    /// the file system does not support, are skipped. `many`: the file may have many locks, all of which the file
    /// system must search for each change.
    fn lock(&self, _op: &Op, _changes: Vec<RangeChange>, _many: bool) -> Answer<Result<()>> {
        Answer::now(Ok(()))
    }

    /// Returns whether another process or another handle has a lock, shared or not, on one of these bytes.
    /// `Errno::BADF` if this handle has no data access. `false` where the file system does not support locks.
    fn is_locked(&self, _op: &Op, _bytes: Vec<u64>) -> Answer<Result<bool>> {
        Answer::now(Ok(false))
    }
}

/// Returns whether the directory `node` has no entries. The user of `op` needs no permission to read it, because
/// whether a directory can be removed is not confidential to a user who could remove it without reading it. The
/// server's permission is used only if the user has none, because switching a thread's user takes a dozen system calls.
pub async fn is_empty(node: &Arc<dyn Node>, op: &Op) -> Result<bool> {
    let first = ListRequest { cursor: 0, count: 1, metadata: false };
    let page = match node.list(op, first).await {
        Err(Errno::ACCES | Errno::PERM) => node.list(&SERVER, first).await?,
        page => page?,
    };
    Ok(page.entries.is_empty())
}

/// The context of calls by the server itself, for operations that no user may do: writing the attribute that holds a
/// descriptor, and operations that a descriptor grants to a user who is not the owner. It is never used to open a path
/// that a client named.
pub static SERVER: LazyLock<Op> = LazyLock::new(Op::server);
