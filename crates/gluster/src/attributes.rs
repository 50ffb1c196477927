//! Attributes of files: `stat`, extended attributes, and the metadata that the server derives from them.

use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::sync::Arc;

use backing::change_log::Coherence;
use backing::metadata::{AttributeAccess, Stat};
use backing::permissions::Permissions;
use backing::workers::Lane;
use server::acl::model::posix_acl::{self, PosixAcl};
use server::vfs::{Errno, FileId, Identity, Kind, Metadata, Result, SERVER, SpecialFile, Time};

use crate::connection::Connection;
use crate::identity;
use crate::sizes::LASTING;
use crate::sys::{File, Object};

/// The longest value of an extended attribute that Linux supports.
const LONGEST_VALUE: usize = 65_536;

/// The size of the blocks of a brick. Bricks count no more sectors of a file than its content needs, so that the last
/// block may be counted in part.
const BLOCK: u64 = 4096;

thread_local! {
    /// Space for values, so that one call returns any of them.
    static SPACE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A file that attributes are read from and written to. Only its open handle works if it has no name any more.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) object: &'a Object,
    pub(crate) file: Option<&'a File>,
}

impl Source<'_> {
    pub(crate) fn stat(&self) -> Result<libc::stat> {
        match self.file {
            Some(file) => file.stat(),
            None => self.object.stat(),
        }
    }

    fn read(&self, name: Option<&CStr>, value: &mut [u8]) -> Result<usize> {
        // The library caches attributes by file, and does not use the cache for open files.
        let read = self.object.get_xattr(name, value);
        match (read, self.file, name) {
            (Err(Errno::NOENT | Errno::STALE), Some(file), Some(name)) => file.get_xattr(name, value),
            (Err(Errno::NOENT | Errno::STALE), Some(file), None) => file.list_xattrs(value),
            (read, ..) => read,
        }
    }

    /// Returns the value of an attribute, or without a name the names of all, each with a NUL after it.
    fn whole(&self, name: Option<&CStr>) -> Result<Vec<u8>> {
        SPACE.with_borrow_mut(|space| {
            space.resize(LONGEST_VALUE, 0);
            let length = self.read(name, space)?;
            Ok(space.get(..length).ok_or(Errno::RANGE)?.to_vec())
        })
    }

    /// Returns the value of an attribute; `None` where there is none.
    pub(crate) fn xattr(&self, name: &str) -> Result<Option<Vec<u8>>> {
        match self.whole(Some(&c_name(name)?)) {
            Ok(value) => Ok(Some(value)),
            Err(Errno::NODATA) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the names of all attributes.
    pub(crate) fn names(&self) -> Result<Vec<String>> {
        let names = self.whole(None)?;
        let names = names.split(|&byte| byte == 0).filter(|name| !name.is_empty());
        // A name that is not UTF-8 could not be requested either.
        Ok(names.filter_map(|name| String::from_utf8(name.to_vec()).ok()).collect())
    }

    /// Sets an attribute. `flags` are those of setxattr(2).
    pub(crate) fn set(&self, name: &str, value: &[u8], flags: i32) -> Result<()> {
        let name = c_name(name)?;
        let set = match (self.object.set_xattr(&name, value, flags), self.file) {
            (Err(Errno::NOENT | Errno::STALE), Some(file)) => file.set_xattr(&name, value, flags),
            (set, _) => set,
        };
        set.map_err(|error| too_large(error, value))
    }

    /// Removes an attribute.
    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        let name = c_name(name)?;
        match (self.object.remove_xattr(&name), self.file) {
            (Err(Errno::NOENT | Errno::STALE), Some(file)) => file.remove_xattr(&name),
            (removed, _) => removed,
        }
    }

    /// Returns the access ACL of the file, if it has one.
    pub(crate) fn acl(&self) -> Result<Option<PosixAcl>> {
        match self.xattr(posix_acl::ACCESS) {
            Ok(value) => Ok(value.and_then(|value| PosixAcl::decode(&value).ok())),
            Err(Errno::OPNOTSUPP) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn c_name(name: &str) -> Result<CString> {
    CString::new(name).map_err(|_| Errno::INVAL)
}

/// Returns the error of a value that the file system of a brick has no space for. ext4 returns the error of a full disk
/// for values of more than about 4,000 bytes.
fn too_large(error: Errno, value: &[u8]) -> Errno {
    const EXT4: usize = 3_000;
    match error {
        Errno::NOSPC | Errno::RANGE if value.len() > EXT4 => Errno::TOOBIG,
        error => error,
    }
}

impl AttributeAccess for Source<'_> {
    fn get(&self, name: &str, value: &mut [u8]) -> Result<usize> {
        self.read(Some(&c_name(name)?), value)
    }

    fn list(&self, names: &mut [u8]) -> Result<usize> {
        self.read(None, names)
    }

    fn set(&self, name: &str, value: &[u8]) -> Result<()> {
        Source::set(self, name, value, 0)
    }

    fn assume_server(&self) -> Result<()> {
        identity::assume_server()
    }

    fn is_handle(&self) -> bool {
        true
    }
}

/// Returns the type of a file.
pub(crate) fn kind(stat: &libc::stat) -> Kind {
    match stat.st_mode & libc::S_IFMT {
        libc::S_IFREG => Kind::File,
        libc::S_IFDIR => Kind::Directory,
        libc::S_IFLNK => Kind::Symlink,
        _ => Kind::Special,
    }
}

/// Returns the type of a special file.
fn special(stat: &libc::stat) -> Option<SpecialFile> {
    let number = || (libc::major(stat.st_rdev), libc::minor(stat.st_rdev));
    match stat.st_mode & libc::S_IFMT {
        libc::S_IFIFO => Some(SpecialFile::Fifo),
        libc::S_IFSOCK => Some(SpecialFile::Socket),
        libc::S_IFCHR => Some(SpecialFile::CharacterDevice(number().0, number().1)),
        libc::S_IFBLK => Some(SpecialFile::BlockDevice(number().0, number().1)),
        _ => None,
    }
}

fn time(secs: i64, nanos: i64) -> Time {
    Time { secs, nanos: nanos as u32 }
}

impl Connection {
    /// Returns the identity of a file.
    pub(crate) fn id(&self, object: &Object) -> FileId {
        self.id_of(object.gfid())
    }

    /// Returns the identity of a file with this gfid. All of its 128 bits are needed.
    pub(crate) fn id_of(&self, gfid: u128) -> FileId {
        FileId { device: (gfid >> 64) as u64 ^ self.device, inode: gfid as u64, stream: 0 }
    }

    /// Returns what the volume reported about a file.
    pub(crate) fn report(&self, object: &Object, stat: &libc::stat) -> Stat {
        Stat {
            id: self.id(object),
            kind: kind(stat),
            size: stat.st_size as u64,
            allocated: (stat.st_blocks as u64).saturating_mul(512).div_ceil(BLOCK).saturating_mul(BLOCK),
            links: stat.st_nlink as u32,
            mode: stat.st_mode & 0o7777,
            uid: stat.st_uid,
            gid: stat.st_gid,
            accessed: time(stat.st_atime, stat.st_atime_nsec),
            modified: time(stat.st_mtime, stat.st_mtime_nsec),
            changed: time(stat.st_ctime, stat.st_ctime_nsec),
            born: None,
            compressed: false,
            is_mounted: false,
            special: special(stat),
        }
    }

    /// Returns the attributes of a file. The thread may act as the server afterwards.
    pub(crate) fn stat(&self, source: Source<'_>) -> Result<Stat> {
        Ok(self.certain(source.object, self.report(source.object, &source.stat()?)))
    }

    /// Asks a brick for the attributes of a file if the library reported a size that it cannot have. The thread acts as
    /// the server afterwards, if so.
    pub(crate) fn certain(&self, object: &Object, stat: Stat) -> Stat {
        let Some(doubt) = self.sizes.doubt(stat.id, stat.size) else { return stat };
        let asked = identity::assume_server().and_then(|()| object.refresh()).and_then(|()| object.stat());
        match asked {
            Ok(fresh) => {
                let fresh = self.report(object, &fresh);
                tracing::debug!(reported = stat.size, size = fresh.size, "a brick was asked for the size of a file");
                self.sizes.settle(stat.id, &doubt, fresh.size);
                fresh
            }
            // The file has no name any more, or the bricks do not answer.
            Err(error) => {
                tracing::debug!(%error, size = stat.size, "the size of a file may be out of date");
                stat
            }
        }
    }

    /// Forgets the sizes of files that were not changed lately, on a worker.
    pub(crate) fn forget_sizes(self: &Arc<Self>) {
        let old = self.sizes.old(|file| self.open_files.get(file).is_some());
        if old.is_empty() {
            return;
        }
        let this = Arc::clone(self);
        let work = move || {
            for old in old {
                // What the library cached before the last change is forgotten by now, or is replaced here.
                if this.cached_for >= LASTING && identity::assume_server().is_ok() {
                    let _ = this.stat(Source { object: &old.handle, file: None });
                }
                this.sizes.forget(&old);
            }
        };
        self.workers.submit(SERVER.uid, Lane::Slow, Box::new(work));
    }

    /// Returns the metadata of a file. The thread acts as the server afterwards, because every user who can see a file
    /// may see its DOS attributes.
    pub(crate) fn metadata(&self, stat: &Stat, source: Source<'_>) -> Result<Metadata> {
        identity::assume_server()?;
        // With the other kinds of coherence, nothing is cached under a stamp, or nobody else changes anything.
        if let Coherence::Callback { valid } = self.coherence {
            self.stamps.age(valid);
        }
        // First the stamp: it is renewed after attributes are entered that are being stored.
        let stamp = self.stamps.of(stat.id, stat.changed);
        let unstored = self.unstored.lock().get(&stat.id).copied();
        let stamped = Stat { changed: stamp, ..*stat };
        let metadata = match unstored {
            Some(attributes) => stamped.metadata(attributes),
            None => self.cache.metadata(&stamped, &source),
        };
        let changed = if metadata.changed == stamp { stat.changed } else { metadata.changed };
        Ok(Metadata { changed, ..metadata })
    }
}

/// Returns the `rwx` bits of a user for a file. The thread acts as the server afterwards.
pub(crate) fn permissions(stat: &Stat, source: Source<'_>, who: &Identity) -> Result<u32> {
    identity::assume_server()?;
    let acl = if stat.kind == Kind::Symlink { None } else { source.acl()? };
    Ok(Permissions::new(stat.kind, stat.mode, (stat.uid, stat.gid), acl.as_ref()).rwx(who))
}
