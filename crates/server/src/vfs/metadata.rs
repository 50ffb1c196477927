//! Metadata of files and of the file system that holds them.

use std::sync::Arc;

use super::XattrSet;

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

/// The type of a [`Kind::Special`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SpecialFile {
    /// A FIFO.
    Fifo,
    /// A socket.
    Socket,
    /// A character device with its major and minor number.
    CharacterDevice(u32, u32),
    /// A block device with its major and minor number.
    BlockDevice(u32, u32),
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
    /// Whether something is mounted there, as far as the file system tells.
    pub is_mounted: bool,
    /// The type of a special file; `None` for others.
    pub special: Option<SpecialFile>,
    /// The attributes of [`Capabilities::attributes`](super::Capabilities::attributes) that the file is known not to
    /// have. An attribute that was not looked for is not in the set.
    pub absent: XattrSet,
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
    /// Version of the directory's protection. It is unchanged as long as owner, mode and extended attributes are, as
    /// the file system shows them ([`Changes`](super::Changes)). Each value is used for one directory only, and never
    /// again after a change.
    pub state: u64,
}

/// The changes that [`Node::set_metadata`](super::Node::set_metadata) makes; `None` leaves a field unchanged.
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
    /// [`Metadata::compressed`]. `Errno::OPNOTSUPP` where the file system cannot compress, `Errno::ACCES` where the
    /// user may not write the file.
    pub compressed: Option<bool>,
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

/// The state of a file system ([`Vfs::probe`](super::Vfs::probe)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileSystemState {
    /// Its device number.
    pub device: u64,
    /// Size in bytes.
    pub size: u64,
    /// Bytes that users may still fill.
    pub available: u64,
    /// It is mounted read-only, possibly after an error.
    pub read_only: bool,
}

/// The numbers of the threads that make the calls to a file system ([`Vfs::workers`](super::Vfs::workers)).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WorkerNumbers {
    /// Threads, including those whose call has not ended within its time limit.
    pub threads: usize,
    /// Calls that wait for a thread.
    pub waiting: usize,
}

/// One entry of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The name as it is on disk, without NUL and `/`. Not necessarily UTF-8.
    pub name: Box<[u8]>,
    /// Its metadata; `None` where it vanished or may not be read.
    pub metadata: Option<Metadata>,
}

/// An extended attribute of an entry of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EntryXattr {
    /// Its name, including the namespace.
    pub name: String,
    /// The length of its value; 0 if the user may not read it.
    pub length: usize,
    /// The value; empty if it is longer than [`EntryXattr::SHOWN`], or if the user may not read it.
    pub value: Vec<u8>,
}

/// Selects attributes by their names.
pub type XattrFilter = Arc<dyn Fn(&str) -> bool + Send + Sync>;

impl EntryXattr {
    /// Values of at most this length are read.
    pub const SHOWN: usize = 1024;
}

/// A range of a file that holds data (as opposed to a hole).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataRange {
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
}
