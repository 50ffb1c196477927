//! The file system behind a share, in Linux's own words: what a share needs of it and nothing more.
//!
//! Paths are relative to the share's root and already checked ([`RelPath`]); an implementation resolves them strictly
//! beneath that root. Every call names the user for whom it is made, and the kernel's permissions of that user decide.
//! Errors are errno values; [`Errno::status`] is the one place where they become NTSTATUS.
//! Windows semantics (share modes, leases, dispositions) are decided above, in `files` and `command`.

#[cfg(any(test, feature = "contract"))]
pub mod contract;
mod copy;
mod errno;
pub mod faulty;
mod file_id;
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
pub use path::RelPath;
pub use private::{Opened, Private};

use crate::answer::Answer;

/// The name of a [private directory](Private) in a share's root that a file system may use for itself. No client sees it.
pub const LINKS: &str = ".frevo-links";

/// What a file system call answers.
pub type Result<T> = std::result::Result<T, Errno>;

/// On whose behalf the kernel is asked.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Identity {
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// Supplementary group ids, sorted, without `gid`.
    pub groups: Box<[u32]>,
}

/// A moment: seconds and nanoseconds since 1970-01-01 UTC; `nanos` always counts forward and is below 10^9.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time {
    /// Seconds, negative before 1970.
    pub secs: i64,
    /// Nanoseconds.
    pub nanos: u32,
}

/// A time on the wire; what a FILETIME cannot say becomes the nearest that it can.
impl From<Time> for proto::dtyp::FileTime {
    fn from(time: Time) -> Self {
        proto::dtyp::FileTime::from_unix(time.secs, time.nanos)
    }
}

/// A file's identity within this server, for as long as the file exists.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FileId {
    /// Device number, telling file systems apart.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Which of the file's streams: 0 the unnamed one, which is the file itself; otherwise the number of an alternate
    /// stream, given by [`streams`](crate::streams) for as long as somebody has it open. Share modes, locks and leases of
    /// streams are apart.
    pub stream: u64,
}

/// What a directory entry is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link that the share's policy does not follow.
    Symlink,
    /// A device, socket or FIFO: shown in listings, never opened for data.
    Special,
}

/// What `stat` says, and the attributes that Samba keeps beside it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metadata {
    /// Which file it is.
    pub id: FileId,
    /// What it is.
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
    /// Last change of the inode, or what a client set in its place.
    pub changed: Time,
    /// Last change of the inode as the file system has it, which nobody can set: with the same one, the file is protected
    /// as it was.
    pub stamped: Time,
    /// Creation: from `user.DOSATTRIB` where that has it, else the file system's birth time, else the earliest of the
    /// other times.
    pub created: Time,
    /// When the file system made the file, which nobody can set; `None` where it does not say.
    pub born: Option<Time>,
    /// The DOS attributes kept in `user.DOSATTRIB` ([MS-FSCC] 2.6 bits); `None` where the file has none stored.
    pub dos_attributes: Option<u32>,
    /// Whether the file system keeps what is written to the file, or to new files of the directory, compressed.
    pub compressed: bool,
    /// Whether it is known that the file has no `security.NTACL`: somebody has looked ([`Node::note_bare`]) and it has not
    /// changed since, or it was asked for just now.
    pub bare: bool,
}

/// How the last component of a path is treated where it names a symbolic link, and which links may be followed at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Links {
    /// `follow symlinks`: resolve links whose target is beneath the root.
    pub follow: bool,
    /// `wide links`: resolve links that lead out of the root as well. Off unless the administrator asked for it.
    pub wide: bool,
    /// A link that is the last component is found itself (FILE_OPEN_REPARSE_POINT), whatever `follow` says.
    pub itself: bool,
}

impl Links {
    /// No link is followed.
    pub const NONE: Links = Links { follow: false, wide: false, itself: false };
    /// Links are followed beneath the root.
    pub const BENEATH: Links = Links { follow: true, wide: false, itself: false };

    /// The same, but for a link that is the last component.
    #[must_use]
    pub fn to_last(self) -> Links {
        Links { itself: true, ..self }
    }
}

/// How names are matched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Case {
    /// Windows's way: the exact name first, then one that differs in case only.
    Insensitive,
    /// As Linux does.
    Sensitive,
}

/// What looking up a path found.
pub enum Lookup {
    /// The file exists. The path has the names as they are on disk.
    Found {
        /// The path as it is on disk.
        path: RelPath,
        /// A handle to it that permits no data access yet.
        node: Arc<dyn Node>,
        /// What it is.
        metadata: Metadata,
    },
    /// The parent directory exists, the last component does not.
    Missing {
        /// The path with the parent's names as on disk, and the last component as asked for.
        path: RelPath,
        /// The parent directory, where its file system watches it.
        parent: Option<Watched>,
    },
    /// A directory on the way does not exist, or is no directory.
    NoParent,
}

/// A directory whose permissions its file system watches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watched {
    /// Which one.
    pub id: FileId,
    /// Permission bits with setuid, setgid and sticky.
    pub mode: u32,
    /// Group.
    pub gid: u32,
    /// Stays as long as nobody changes owner, mode or an extended attribute. No other directory has it, and this one
    /// never again after a change.
    pub state: u64,
}

/// What protects a new file from the start, worked out for the owner and group that it is expected to get.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Guard {
    /// Owner and group that it holds for.
    pub owner: (u32, u32),
    /// Permission bits with setuid, setgid and sticky, as `lists` make them; `None` where any will do.
    pub mode: Option<u32>,
    /// Extended attributes with POSIX lists, in the order in which they are set or, with `None`, removed.
    pub lists: Vec<(&'static str, Option<Vec<u8>>)>,
    /// The extended attribute with the descriptor.
    pub descriptor: (String, Vec<u8>),
}

/// What [`Vfs::create_guarded`] made.
pub struct Made {
    /// A handle to it.
    pub node: Arc<dyn Node>,
    /// What it is.
    pub metadata: Metadata,
    /// It has its guard.
    pub guarded: bool,
}

/// What to create.
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

/// What to change with [`Node::set_metadata`]; `None` leaves a thing as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SetMetadata {
    /// Last access.
    pub accessed: Option<Time>,
    /// Last change of content.
    pub modified: Option<Time>,
    /// Creation time, kept in `user.DOSATTRIB`.
    pub created: Option<Time>,
    /// Change time: shown until the file is changed again. Kept in `user.DOSATTRIB`, for Linux sets its own.
    pub changed: Option<Time>,
    /// DOS attributes, kept in `user.DOSATTRIB`.
    pub dos_attributes: Option<u32>,
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
}

/// Room and limits of the file system that holds a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// Bytes in an allocation unit.
    pub block_size: u32,
    /// Size in blocks.
    pub blocks: u64,
    /// Free blocks, those kept for root included.
    pub free: u64,
    /// Blocks that the asking user may still fill.
    pub available: u64,
    /// An identifier of the file system, stable across mounts where the kernel offers one.
    pub id: u64,
}

/// What the file system of a share can do that not all can. A file system mounted beneath the share's directory may
/// differ; it says so when it is asked to do it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Features {
    /// [`Node::clone_range`] works.
    pub clones: bool,
    /// [`Node::set_compressed`] works.
    pub compresses: bool,
    /// [`Node::zero`] gives room back.
    pub punches: bool,
}

/// One directory entry of a listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The name as it is on disk, without NUL and `/`. Not necessarily UTF-8.
    pub name: Box<[u8]>,
    /// What it is; `None` where it vanished or may not be looked at.
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

/// How a range of a file is locked for other processes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RangeLock {
    /// Not at all.
    Free,
    /// Nobody else may lock it exclusively.
    Shared,
    /// Nobody else may lock it.
    Exclusive,
}

/// A change of how other processes find a range locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangeChange {
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// What this handle has on all of it.
    pub before: RangeLock,
    /// What it is to have.
    pub after: RangeLock,
}

impl RangeChange {
    /// Makes `changes` with `set`, a file system's [`Node::lock_range`], and takes them back where one cannot be made.
    pub fn make_all(changes: &[RangeChange], set: impl Fn(u64, u64, RangeLock) -> Result<()>) -> Result<()> {
        for (index, change) in changes.iter().enumerate() {
            match set(change.offset, change.length, change.after) {
                Ok(()) | Err(Errno::BADF | Errno::OPNOTSUPP) => {}
                Err(errno) => {
                    for made in changes[..index].iter().rev() {
                        // A weaker lock is never in the way of anybody; a failure leaves the stronger one.
                        let _ = set(made.offset, made.length, made.before);
                    }
                    return Err(errno);
                }
            }
        }
        Ok(())
    }
}

/// Who is told that somebody else opens a leased file. May be called from any thread, and more than once.
pub type Told = Arc<dyn Fn() + Send + Sync>;

/// A lease on an open file, which dropping it gives up.
pub trait Lease: Send + Sync {}

/// How long ago a file must have changed for its change time to tell all later changes from that one, where nothing is
/// known of the clock behind it: Linux stamps files by one that ticks every 10 ms at the slowest.
pub const TICK: Duration = Duration::from_millis(20);

/// A share's file system.
pub trait Vfs: Send + Sync {
    /// Resolves `path` and opens a handle for attributes on what it names. A link that `links` does not let through, or
    /// that leads nowhere or out of the root, is found as [`Kind::Symlink`] when it is the last component, and ends the
    /// search with `Errno::LOOP` when it stands on the way. Where a link leads must not show in status or time.
    /// `Errno::ACCES` where `who` may not search a directory on the way; the root itself is always found.
    fn lookup(&self, who: &Arc<Identity>, path: &RelPath, case: Case, links: Links) -> Answer<Result<Lookup>>;

    /// The same for somebody who will [`Node::open`] a regular file for reading next: the handle may be one with that access
    /// already, where the kernel gives it to `who`, and opening it then costs nothing. Whoever has a lease on the file may
    /// be told by it.
    fn lookup_to_read(&self, who: &Arc<Identity>, path: &RelPath, case: Case, links: Links) -> Answer<Result<Lookup>> {
        self.lookup(who, path, case, links)
    }

    /// Creates what must not exist yet: `Errno::EXIST` if exactly that name does. Names that differ in case only are the
    /// look-up's matter: `path` is the one that [`Lookup::Missing`] gave. `Errno::NOENT` where its directory is gone.
    /// `mode` is applied as is, the process's umask is not. `dos_attributes`, where given, are stored in
    /// `user.DOSATTRIB` with the creation time; a file system that cannot store them has a file without, which the
    /// metadata shows.
    fn create(
        &self,
        who: &Arc<Identity>,
        path: &RelPath,
        what: Create,
        mode: u32,
        dos_attributes: Option<u32>,
    ) -> Answer<Result<(Arc<dyn Node>, Metadata)>>;

    /// The same with `guard` in place, where there is one; [`Made::guarded`] is false where it is not, or not wholly, because the file got another owner or the
    /// file system does not take it. Then it is for the caller to protect what was made.
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

    /// Renames `from`, which must still be the file `id` (`Errno::STALE` if not) or a link that leads to it, to `to`.
    /// With `replace`, an existing target is replaced in one step, unless either is a directory; without,
    /// `Errno::EXIST`, and so it is where a link would replace what it leads to. Where both are names of one file,
    /// `replace` leaves `to` alone.
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

    /// Removes the name `path` if it still names the file `id` or a link that leads to it, which then goes
    /// (`Errno::STALE` if not). A directory must be empty. A local process that swaps the name at the same moment can
    /// make another file in the same directory go, as Linux removes names, not files.
    fn unlink(&self, who: &Arc<Identity>, path: &RelPath, id: FileId, kind: Kind) -> Answer<Result<()>>;

    /// Makes `path`, which must be free, a symbolic link to `target`; `Errno::OPNOTSUPP` where there are none.
    fn make_link(&self, _who: &Arc<Identity>, _path: &RelPath, _target: &[u8]) -> Answer<Result<()>> {
        Answer::now(Err(Errno::OPNOTSUPP))
    }

    /// The directory `name` beneath `root` that only the server uses, made with mode 0700 where it is missing and `make` asks
    /// for it. It must belong to the server's own user and give no permission to anybody else; `Errno::PERM` for anything
    /// else of that name, a link or a mount included. `Errno::OPNOTSUPP` where there are no such directories.
    fn private(&self, root: &RelPath, name: &'static str, make: bool) -> Answer<Result<Option<Arc<dyn Private>>>> {
        let _ = (root, name, make);
        Answer::now(Err(Errno::OPNOTSUPP))
    }

    /// Puts a symbolic link to `target` in the place of the empty file or directory `id`, which is called `path`, in one
    /// step: nobody finds the name missing, and nothing with content goes. `Errno::STALE` where another file has the
    /// name, `Errno::NOTEMPTY` where it has content, `Errno::OPNOTSUPP` or `Errno::INVAL` where the file system cannot.
    fn become_link(&self, _who: &Arc<Identity>, _path: &RelPath, _id: FileId, _target: &[u8]) -> Answer<Result<()>> {
        Answer::now(Err(Errno::OPNOTSUPP))
    }

    /// The directory `path`, reached by `who` without any link, as the root of a file system of its own: links resolve
    /// beneath it. It shares nothing that changes with this one but the files. `Errno::NOTDIR` where `path` is no
    /// directory, `Errno::OPNOTSUPP` where that is not possible.
    fn beneath(&self, _who: &Arc<Identity>, _path: &RelPath) -> Answer<Result<Arc<dyn Vfs>>> {
        Answer::now(Err(Errno::OPNOTSUPP))
    }

    /// Room and limits.
    fn space(&self, who: &Arc<Identity>) -> Answer<Result<Space>>;

    /// What the file system can do. Asking it changes nothing that anybody can see.
    fn features(&self) -> Answer<Features> {
        Answer::now(Features::default())
    }

    /// How long ago a file that last changed at `stamped` ([`Metadata::stamped`]) must have done so when its metadata was asked
    /// for, for that time to tell every later change, and what is read of the file to be what the time stands for.
    fn tick(&self, stamped: Time) -> Duration;
}

/// A file or directory that somebody has open. Dropping it closes it.
pub trait Node: Send + Sync + std::any::Any {
    /// The implementation's own type, for calls of the same [`Vfs`] that take a node.
    fn as_any(&self) -> &dyn std::any::Any;

    /// Present metadata.
    fn metadata(&self) -> Answer<Result<Metadata>>;

    /// A handle with data access to the same file, permissions checked by the kernel for `who`. A directory opens for
    /// reading only (`Errno::ISDIR`), a link (`Errno::LOOP`) and a special file (`Errno::NODEV`) not at all.
    /// `Errno::AGAIN` where somebody has a lease on the file: he has been told, and who tries again later gets in.
    fn open(&self, who: &Arc<Identity>, access: Access) -> Answer<Result<Arc<dyn Node>>>;

    /// Whether the kernel would let `who` read, write and execute (search), asked without opening: `rwx` bits. Nothing
    /// may be written on a file system that is mounted read-only.
    fn permissions(&self, who: &Arc<Identity>) -> Answer<Result<u32>>;

    /// Reads into `buffer[filled..]` from `offset` and answers how many bytes came; fewer only at the end of file.
    /// The buffer comes back in any case, as long as it was and with `buffer[..filled]` unchanged, also where the read is lost.
    fn read(&self, offset: u64, buffer: Vec<u8>, filled: usize) -> Answer<(Vec<u8>, Result<usize>)>;

    /// Writes all of `data` at `offset`, or fails; what was written before a failure stays.
    /// `through`: on disk before the answer.
    fn write(&self, who: &Arc<Identity>, offset: u64, data: Bytes, through: bool) -> Answer<Result<()>>;

    /// Data and metadata are on disk before the answer, and with them the file's present name where it is new: the file was
    /// made, renamed or linked to. Of a directory it is its names.
    fn flush(&self) -> Answer<Result<()>>;

    /// The names that lead to the file now, without links: from the root of its file system down, or from the machine's
    /// where it lies outside (`wide links`). `Errno::NOENT` where it has no name any more.
    fn location(&self) -> Answer<Result<Vec<u8>>> {
        Answer::now(Err(Errno::OPNOTSUPP))
    }

    /// Where a symbolic link leads, as it was made; `Errno::INVAL` for anything else.
    fn read_link(&self) -> Answer<Result<Vec<u8>>> {
        Answer::now(Err(Errno::INVAL))
    }

    /// Sets the file's size.
    fn set_size(&self, who: &Arc<Identity>, size: u64) -> Answer<Result<()>>;

    /// Reserves room for the first `size` bytes without changing the file's size; `Errno::OPNOTSUPP` where the file
    /// system cannot.
    fn allocate(&self, who: &Arc<Identity>, size: u64) -> Answer<Result<()>>;

    /// Makes the range read as zeros, giving its room back where the file system can.
    fn zero(&self, who: &Arc<Identity>, offset: u64, length: u64) -> Answer<Result<()>>;

    /// The ranges within `offset..offset + length` that hold data, in order; 65,536 at most, so that who wants more asks
    /// again behind the last.
    fn data_ranges(&self, offset: u64, length: u64) -> Answer<Result<Vec<DataRange>>>;

    /// Copies `length` bytes of `from`, from its offset `source` on, to `offset`; answers how many, fewer only where
    /// `from` ends. Where both are one file and the ranges overlap, what arrives is what was there before. This handle
    /// must be open for writing, `from` for reading; what was copied before a failure stays. `Errno::XDEV` where `from`
    /// is no handle of this kind, and nothing was copied: [`copy_range`] does it then.
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

    /// Makes the range `offset..offset + length` of this file share the room of `from`'s range from `source` on: it reads
    /// as a copy, and takes room once either is written to. Both ends of the ranges lie at multiples of
    /// [`Space::block_size`], except that the ranges may end with both files. The size stays; this handle must be open
    /// for writing, `from` for reading. `Errno::OPNOTSUPP` where the file system cannot, `Errno::XDEV` where the files
    /// do not lie in one, `Errno::INVAL` for ranges that are not of that form, reach behind an end or overlap.
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

    /// Sets [`Metadata::compressed`]. `Errno::OPNOTSUPP` where the file system cannot, `Errno::ACCES` where `who` may not
    /// write the file.
    fn set_compressed(&self, _who: &Arc<Identity>, _compressed: bool) -> Answer<Result<()>> {
        Answer::now(Err(Errno::OPNOTSUPP))
    }

    /// Changes metadata. Of a symbolic link only times and owner can be changed: `Errno::OPNOTSUPP` for a mode, a change
    /// time, and what is kept in `user.DOSATTRIB`.
    fn set_metadata(&self, who: &Arc<Identity>, set: SetMetadata) -> Answer<Result<()>>;

    /// Up to about `count` entries of this directory following the position `cursor` (0 = the start), without `.` and
    /// `..`, with metadata when `with_metadata`; and the position behind them. An empty list is the end.
    /// Positions stay valid while the handle is open, whatever happens to the directory. Links are shown themselves,
    /// followed or not. A handle that was not opened for reading lists as `who` if the kernel lets it.
    fn list(
        &self,
        who: &Arc<Identity>,
        cursor: u64,
        count: usize,
        with_metadata: bool,
    ) -> Answer<Result<(Vec<Entry>, u64)>>;

    /// The entry of this directory that `name` means, with metadata: the exact name first, then one that `case` makes equal, as
    /// [`Vfs::lookup`] finds it; `None` where there is none, or where `who` may not search the directory. A link is
    /// shown itself. `name` is neither `.` nor `..`. The cost does not grow with the directory.
    fn entry(&self, who: &Arc<Identity>, name: &[u8], case: Case) -> Answer<Result<Option<Entry>>>;

    /// Whether the directory has no entries, even where its user may not read it, as long as the server may.
    fn is_empty(&self) -> Answer<Result<bool>>;

    /// The value of an extended attribute; `None` where there is none. `name` has its namespace (`user.x`).
    fn get_xattr(&self, who: &Arc<Identity>, name: &str) -> Answer<Result<Option<Vec<u8>>>>;

    /// Takes note that the file had no `security.NTACL` after it had last changed at `stamped`, a time that tells every later
    /// change ([`Vfs::tick`]).
    fn note_bare(&self, stamped: Time) {
        let _ = stamped;
    }

    /// Sets or, with `None`, removes an extended attribute.
    fn set_xattr(&self, who: &Arc<Identity>, name: &str, value: Option<Vec<u8>>) -> Answer<Result<()>>;

    /// Gives the file an extended attribute that it does not have: `Errno::EXIST` where it does, also if somebody else was
    /// faster by a moment.
    fn add_xattr(&self, who: &Arc<Identity>, name: &str, value: Vec<u8>) -> Answer<Result<()>>;

    /// Tells `listener` what others than this process change in the directory from now on, until the answer is dropped.
    /// What the process itself changes through this [`Vfs`] is not told. Never waits: what takes long goes on beside.
    /// `Errno::OPNOTSUPP` where the file system cannot tell.
    fn watch(&self, wanted: watch::Wanted, listener: watch::Ear) -> Result<watch::Watching> {
        drop((wanted, listener));
        Err(Errno::OPNOTSUPP)
    }

    /// The names of all extended attributes that the user may see.
    fn list_xattrs(&self, who: &Arc<Identity>) -> Answer<Result<Vec<String>>>;

    /// A lease on a file that nobody else has open with data access (`Errno::AGAIN` if somebody has): `told` is called
    /// when somebody wants to open it so, who then waits for the lease's end or is answered `Errno::AGAIN`. This handle
    /// must have data access itself. The kernel takes back what is not given up in time
    /// (`/proc/sys/fs/lease-break-time`). `Errno::OPNOTSUPP` where the file system has no leases.
    fn lease(&self, _told: Told) -> Answer<Result<Box<dyn Lease>>> {
        Answer::now(Err(Errno::OPNOTSUPP))
    }

    /// Sets how other processes and other handles find a range locked, whatever it was before: an advisory lock that
    /// belongs to this handle and ends with it. Never waits: `Errno::AGAIN` where somebody else's lock is in the way, and
    /// nothing has changed. `offset + length` is at most 2^63. `Errno::BADF` for an exclusive lock of a handle that may
    /// not write, or a shared one of a handle that may not read; `Errno::OPNOTSUPP` where the file system has no locks.
    fn lock_range(&self, _offset: u64, _length: u64, _lock: RangeLock) -> Answer<Result<()>> {
        Answer::now(Err(Errno::OPNOTSUPP))
    }

    /// As [`Node::lock_range`], several changes in their order: all of them, or none where somebody else's lock is in the
    /// way of one. What this handle may not lock, or the file system cannot, is left out. `many`: there may be many locks
    /// on the file, through which a kernel has to go for each change.
    fn lock_ranges(&self, _changes: Vec<RangeChange>, _many: bool) -> Answer<Result<()>> {
        Answer::now(Ok(()))
    }
}
