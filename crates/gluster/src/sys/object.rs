//! Files, directories and links of a volume that are known and need not be open.

use std::ffi::{CStr, c_int};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use libc::{ssize_t, stat};
use server::vfs::{Errno, Result};

use super::values::Answer;
use super::{Client, Directory, File, Functions, Opaque, done, last, length, no_stat, text};

/// Bits of the changes that `glfs_h_setattrs` makes.
const SET_MODE: c_int = 0x1;
const SET_UID: c_int = 0x2;
const SET_GID: c_int = 0x4;
const SET_ATIME: c_int = 0x10;
const SET_MTIME: c_int = 0x20;

/// The length of a gfid, which identifies a file within a volume.
pub(super) const GFID: usize = 16;

/// Returns the identity of a file within its volume.
pub(super) fn gfid(library: &Functions, object: NonNull<Opaque>) -> Result<u128> {
    let mut id = [0; GFID];
    // SAFETY: the buffer has this length.
    let written = unsafe { (library.h_extract_handle)(object.as_ptr(), id.as_mut_ptr(), GFID as c_int) };
    if length(written)? == GFID { Ok(u128::from_be_bytes(id)) } else { Err(Errno::IO) }
}

/// Returns whether the value of an attribute is the one that was set. The value of a POSIX ACL need not be.
fn is_known_as_set(name: &CStr) -> bool {
    [&b"user."[..], b"security."].iter().any(|namespace| name.to_bytes().starts_with(namespace))
}

/// Returns the value that a call has read, `Some(None)` for a missing one; `None` if the call says neither.
fn reported<'a>(read: &Result<usize>, value: &'a [u8]) -> Option<Option<&'a [u8]>> {
    match read {
        Ok(length) => value.get(..*length).map(Some),
        Err(Errno::NODATA) => Some(None),
        Err(_) => None,
    }
}

/// Returns whether a name is one of `names`, each of which has a NUL after it.
fn lists(names: &[u8], name: &CStr) -> bool {
    names.split(|&byte| byte == 0).any(|listed| listed == name.to_bytes())
}

/// A file, directory or link of a volume (`glfs_object_t`), which need not be open.
pub(crate) struct Object {
    client: Arc<Client>,
    raw: NonNull<Opaque>,
    gfid: u128,
    is_directory: bool,
}

// SAFETY: the library's functions may be called for one object by any number of threads.
unsafe impl Send for Object {}
// SAFETY: as above.
unsafe impl Sync for Object {}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: the object is not used again. The call does not reach a brick.
        unsafe { (counted!(self.client, h_close))(self.raw.as_ptr()) };
    }
}

/// A change of attributes, as `glfs_h_setattrs` makes it.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct NewAttributes {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) accessed: Option<(i64, u32)>,
    pub(crate) modified: Option<(i64, u32)>,
}

impl Object {
    /// Takes possession of an object that the library returned, with its attributes.
    pub(super) fn new(client: &Arc<Client>, found: *mut Opaque, stat: &stat) -> Result<Object> {
        let raw = NonNull::new(found).ok_or_else(last)?;
        let is_directory = stat.st_mode & libc::S_IFMT == libc::S_IFDIR;
        let mut object = Object { client: Arc::clone(client), raw, gfid: 0, is_directory };
        object.gfid = gfid(client.library, raw)?;
        Ok(object)
    }

    /// The identity of the file within its volume.
    pub(crate) fn gfid(&self) -> u128 {
        self.gfid
    }

    /// Looks up a name in this directory. A link itself is returned.
    pub(crate) fn child(&self, name: &[u8]) -> Result<(Object, stat)> {
        let (name, mut stat) = (text(name)?, no_stat());
        // SAFETY: the objects are open; the name ends with a NUL.
        let found =
            unsafe { (counted!(self.client, h_lookupat))(self.fs(), self.raw.as_ptr(), name.as_ptr(), &mut stat, 0) };
        Ok((Object::new(&self.client, found, &stat)?, stat))
    }

    /// Creates a file in this directory and opens it with `flags`.
    pub(crate) fn create(&self, name: &[u8], flags: c_int, mode: u32) -> Result<(Object, File, stat)> {
        let (name, mut stat, mut opened) = (text(name)?, no_stat(), ptr::null_mut());
        // SAFETY: the objects are open; the name ends with a NUL.
        let made = unsafe {
            let flags = flags | libc::O_CREAT | libc::O_EXCL;
            let create = counted!(self.client, h_creat_open);
            create(self.fs(), self.raw.as_ptr(), name.as_ptr(), flags, mode, &mut stat, &mut opened)
        };
        Ok((Object::new(&self.client, made, &stat)?, File::new(&self.client, opened)?, stat))
    }

    /// Creates a directory in this directory.
    pub(crate) fn create_directory(&self, name: &[u8], mode: u32) -> Result<(Object, stat)> {
        let (name, mut stat) = (text(name)?, no_stat());
        // SAFETY: the objects are open; the name ends with a NUL.
        let made =
            unsafe { (counted!(self.client, h_mkdir))(self.fs(), self.raw.as_ptr(), name.as_ptr(), mode, &mut stat) };
        Ok((Object::new(&self.client, made, &stat)?, stat))
    }

    /// Creates a symbolic link in this directory.
    pub(crate) fn create_link(&self, name: &[u8], target: &[u8]) -> Result<(Object, stat)> {
        let (name, target, mut stat) = (text(name)?, text(target)?, no_stat());
        // SAFETY: the objects are open; the texts end with a NUL.
        let made = unsafe {
            let create = counted!(self.client, h_symlink);
            create(self.fs(), self.raw.as_ptr(), name.as_ptr(), target.as_ptr(), &mut stat)
        };
        Ok((Object::new(&self.client, made, &stat)?, stat))
    }

    /// Removes a name from this directory.
    pub(crate) fn remove(&self, name: &[u8]) -> Result<()> {
        let name = text(name)?;
        // SAFETY: the objects are open; the name ends with a NUL.
        done(unsafe { (counted!(self.client, h_unlink))(self.fs(), self.raw.as_ptr(), name.as_ptr()) })
    }

    /// Moves a name of this directory to another, where it replaces a file of the new name.
    pub(crate) fn rename(&self, name: &[u8], target: &Object, new_name: &[u8]) -> Result<()> {
        let (name, new_name) = (text(name)?, text(new_name)?);
        // SAFETY: the objects are open; the names end with a NUL.
        done(unsafe {
            let rename = counted!(self.client, h_rename);
            rename(self.fs(), self.raw.as_ptr(), name.as_ptr(), target.raw.as_ptr(), new_name.as_ptr())
        })
    }

    /// Gives this file another name in a directory.
    pub(crate) fn link(&self, directory: &Object, name: &[u8]) -> Result<()> {
        let name = text(name)?;
        // SAFETY: the objects are open; the name ends with a NUL.
        done(unsafe {
            (counted!(self.client, h_link))(self.fs(), self.raw.as_ptr(), directory.raw.as_ptr(), name.as_ptr())
        })
    }

    /// Returns the attributes of the file; `Errno::STALE` if it has no name any more.
    pub(crate) fn stat(&self) -> Result<stat> {
        let mut stat = no_stat();
        // SAFETY: the objects are open.
        done(unsafe { (counted!(self.client, h_stat))(self.fs(), self.raw.as_ptr(), &mut stat) })?;
        Ok(stat)
    }

    /// Returns the capacity of the volume, with the quota of this directory.
    pub(crate) fn space(&self) -> Result<libc::statvfs> {
        // SAFETY: the structure consists of integers.
        let mut space = unsafe { std::mem::zeroed() };
        // SAFETY: the objects are open.
        done(unsafe { (counted!(self.client, h_statfs))(self.fs(), self.raw.as_ptr(), &mut space) })?;
        Ok(space)
    }

    /// Changes attributes.
    pub(crate) fn set(&self, new: &NewAttributes) -> Result<()> {
        let (mut stat, mut valid) = (no_stat(), 0);
        if let Some(mode) = new.mode {
            (stat.st_mode, valid) = (mode, valid | SET_MODE);
        }
        if let Some(uid) = new.uid {
            (stat.st_uid, valid) = (uid, valid | SET_UID);
        }
        if let Some(gid) = new.gid {
            (stat.st_gid, valid) = (gid, valid | SET_GID);
        }
        if let Some((secs, nanos)) = new.accessed {
            (stat.st_atime, stat.st_atime_nsec, valid) = (secs, nanos.into(), valid | SET_ATIME);
        }
        if let Some((secs, nanos)) = new.modified {
            (stat.st_mtime, stat.st_mtime_nsec, valid) = (secs, nanos.into(), valid | SET_MTIME);
        }
        // SAFETY: the objects are open.
        done(unsafe { (counted!(self.client, h_setattrs))(self.fs(), self.raw.as_ptr(), &mut stat, valid) })
    }

    /// Has a brick report the attributes of the file, which the library caches. A change of no attribute does that,
    /// while a look-up or `stat` may be answered from the cache.
    pub(crate) fn refresh(&self) -> Result<()> {
        self.set(&NewAttributes::default())
    }

    /// Reads an extended attribute, or without a name the names of all, each with a NUL after it. Returns the length of
    /// the value; `Errno::RANGE` if the buffer is too small.
    pub(crate) fn get_xattr(&self, name: Option<&CStr>, value: &mut [u8]) -> Result<usize> {
        let read = self.cached_xattr(name, value);
        let Some(name) = name.filter(|name| is_known_as_set(name)) else { return read };
        let values = &self.client.values;
        let Some(doubt) = reported(&read, value).and_then(|value| values.doubt(self.gfid, name, value)) else {
            return read;
        };
        let mut last = read;
        values.ask_until_known(&doubt, || {
            let names = self.ask_for_xattrs();
            last = self.cached_xattr(Some(name), value);
            tracing::debug!(?name, ?read, ?names, ?last, "a brick was asked for an attribute");
            let is_listed = names.ok()?.map(|names| lists(&names, name));
            Some(Answer { is_listed, value: reported(&last, value)?.map(<[u8]>::to_vec) })
        });
        last
    }

    /// Asks a brick for the names of the attributes. With its answer, it reports the values of those that the library
    /// caches. Returns the names, each with a NUL after it; `None` if there are too many.
    fn ask_for_xattrs(&self) -> Result<Option<Vec<u8>>> {
        let mut names = vec![0; 1024];
        match self.cached_xattr(None, &mut names) {
            Ok(length) => {
                names.truncate(length);
                Ok(Some(names))
            }
            Err(Errno::RANGE) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads an extended attribute. The library may answer from its cache.
    fn cached_xattr(&self, name: Option<&CStr>, value: &mut [u8]) -> Result<usize> {
        let name = name.map_or(ptr::null(), CStr::as_ptr);
        // SAFETY: the objects are open, a name ends with a NUL, and the buffer has this length.
        let read = unsafe {
            let get = counted!(self.client, h_getxattrs);
            get(self.fs(), self.raw.as_ptr(), name, value.as_mut_ptr().cast(), value.len())
        };
        length(read as ssize_t)
    }

    /// Sets an extended attribute. `flags` are those of setxattr(2).
    pub(crate) fn set_xattr(&self, name: &CStr, value: &[u8], flags: c_int) -> Result<()> {
        let call = || {
            // SAFETY: the objects are open, the name ends with a NUL, and the value has this length.
            done(unsafe {
                let set = counted!(self.client, h_setxattrs);
                set(self.fs(), self.raw.as_ptr(), name.as_ptr(), value.as_ptr().cast(), value.len(), flags)
            })
        };
        self.noted(name, Some(value), || {
            if self.is_directory { self.client.attribute_calls.of_directory(call) } else { call() }
        })
    }

    /// Removes an extended attribute.
    pub(crate) fn remove_xattr(&self, name: &CStr) -> Result<()> {
        let call = || {
            // SAFETY: the objects are open and the name ends with a NUL.
            done(unsafe { (counted!(self.client, h_removexattrs))(self.fs(), self.raw.as_ptr(), name.as_ptr()) })
        };
        let was_set = is_known_as_set(name) && self.client.values.doubt(self.gfid, name, None).is_some();
        self.noted(name, None, || {
            let removed = self.client.attribute_calls.apart(call);
            // The library answers from its cache if it takes the attribute for missing.
            let is_there = removed == Err(Errno::NODATA)
                && was_set
                && self.ask_for_xattrs()?.is_some_and(|names| lists(&names, name));
            if is_there { self.client.attribute_calls.apart(call) } else { removed }
        })
    }

    /// Makes a call that gives an attribute this value, or with `None` removes it.
    fn noted(&self, name: &CStr, value: Option<&[u8]>, call: impl FnOnce() -> Result<()>) -> Result<()> {
        if !is_known_as_set(name) {
            return call();
        }
        let change = self.client.values.begin(self.gfid, name, value);
        let done = call();
        self.client.values.end(&change, done.is_ok());
        done
    }

    /// Returns the target of this symbolic link.
    pub(crate) fn read_link(&self) -> Result<Vec<u8>> {
        let mut target = vec![0; libc::PATH_MAX as usize];
        // SAFETY: the objects are open and the buffer has this length.
        let read = unsafe {
            (counted!(self.client, h_readlink))(self.fs(), self.raw.as_ptr(), target.as_mut_ptr().cast(), target.len())
        };
        target.truncate(length(read as ssize_t)?);
        Ok(target)
    }

    /// Opens this regular file. `glfs_open` on a directory would leave a descriptor open on the bricks for ever, so the
    /// caller checks the kind.
    pub(crate) fn open(&self, flags: c_int) -> Result<File> {
        // SAFETY: the objects are open.
        File::new(&self.client, unsafe { (counted!(self.client, h_open))(self.fs(), self.raw.as_ptr(), flags) })
    }

    /// Opens this directory for reading.
    pub(crate) fn read_directory(&self) -> Result<Directory> {
        // SAFETY: the objects are open.
        let opened = unsafe { (counted!(self.client, h_opendir))(self.fs(), self.raw.as_ptr()) };
        Directory::new(&self.client, opened)
    }

    fn fs(&self) -> *mut Opaque {
        self.client.fs.as_ptr()
    }
}
