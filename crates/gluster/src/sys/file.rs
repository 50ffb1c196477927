//! Open files and directories.

use std::ffi::{CStr, c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use bytes::Bytes;
use libc::{ssize_t, stat};
use server::vfs::Result;

use super::{Client, Object, Opaque, done, last, length, no_stat};

/// `GFAPI_XREADDIRP_STAT` and `GFAPI_XREADDIRP_HANDLE`: entries come with their attributes and their objects.
const WITH_STAT: u32 = 1;
const WITH_OBJECT: u32 = 2;

/// A regular file that is open (`glfs_fd_t`). Dropped, it is closed, which waits for the bricks.
pub(crate) struct File {
    client: Arc<Client>,
    raw: NonNull<Opaque>,
}

// SAFETY: the library's functions may be called for one file by any number of threads.
unsafe impl Send for File {}
// SAFETY: as above.
unsafe impl Sync for File {}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: the file is not used again.
        unsafe { (counted!(self.client, close))(self.raw.as_ptr()) };
    }
}

/// What an asynchronous call needs until it is completed.
struct Pending<T> {
    /// The memory that the library reads or writes.
    memory: T,
    done: Box<dyn FnOnce(T, Result<usize>) + Send>,
    /// The connection must not end before. The library itself keeps the open file.
    client: Arc<Client>,
}

/// Completes an asynchronous call whose memory is a `T`.
unsafe extern "C" fn completed<T>(_: *mut Opaque, result: ssize_t, _: *mut c_void, _: *mut c_void, data: *mut c_void) {
    let result = length(result);
    // SAFETY: it is the address that `File::submit` passed with this function, and each call is completed once.
    let Pending { memory, done, client } = *unsafe { Box::from_raw(data.cast::<Pending<T>>()) };
    done(memory, result);
    drop(client);
}

impl File {
    /// Takes possession of an open file that the library returned.
    pub(super) fn new(client: &Arc<Client>, opened: *mut Opaque) -> Result<File> {
        let raw = NonNull::new(opened).ok_or_else(last)?;
        Ok(File { client: Arc::clone(client), raw })
    }

    /// Makes an asynchronous call: `submit` passes on the addresses of the function that completes it and of its data.
    /// The library may complete it on this thread before it returns, so the caller holds no lock.
    fn submit<T: Send + 'static>(
        &self,
        memory: T,
        done: Box<dyn FnOnce(T, Result<usize>) + Send>,
        submit: impl FnOnce(*mut Opaque, &mut T, super::Completion, *mut c_void) -> c_int,
    ) {
        let pending = Box::into_raw(Box::new(Pending { memory, done, client: Arc::clone(&self.client) }));
        // SAFETY: nothing else has the address before the call below passes it on.
        let memory = unsafe { &mut (*pending).memory };
        if submit(self.raw.as_ptr(), memory, completed::<T>, pending.cast()) < 0 {
            let error = last();
            // SAFETY: a call that is not accepted is not completed, so nothing else has the address.
            let Pending { memory, done, .. } = *unsafe { Box::from_raw(pending) };
            done(memory, Err(error));
        }
    }

    /// Reads into `buffer[filled..]` from `offset`, and passes the buffer and the number of bytes to `done`.
    pub(crate) fn read_async(
        &self,
        buffer: Vec<u8>,
        filled: usize,
        offset: i64,
        done: Box<dyn FnOnce(Vec<u8>, Result<usize>) + Send>,
    ) {
        let read = counted!(self.client, pread_async);
        self.submit(buffer, done, |file, buffer, completed, data| {
            let space = buffer.get_mut(filled..).unwrap_or_default();
            // SAFETY: the file is open, and the buffer is kept with the data until the call is completed.
            unsafe { read(file, space.as_mut_ptr().cast(), space.len(), offset, 0, completed, data) }
        });
    }

    /// Writes `bytes` at `offset`, and passes the number of bytes that were written to `done`.
    pub(crate) fn write_async(&self, bytes: Bytes, offset: i64, done: Box<dyn FnOnce(Bytes, Result<usize>) + Send>) {
        let write = counted!(self.client, pwrite_async);
        self.submit(bytes, done, |file, bytes, completed, data| {
            // SAFETY: the file is open, and the bytes are kept with the data until the call is completed.
            unsafe { write(file, bytes.as_ptr().cast(), bytes.len() as c_int, offset, 0, completed, data) }
        });
    }

    /// Has the bricks write the content to their disks.
    pub(crate) fn sync_async(&self, done: Box<dyn FnOnce((), Result<usize>) + Send>) {
        let sync = counted!(self.client, fsync_async);
        // SAFETY: the file is open.
        self.submit((), done, |file, (), completed, data| unsafe { sync(file, completed, data) });
    }

    /// Closes the file, and returns the error of a write that was accepted and not carried out.
    pub(crate) fn close(self) -> Result<()> {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: `this` is neither used nor dropped again, so that the reference to the connection is moved out once.
        let (client, raw) = unsafe { (ptr::read(&this.client), this.raw) };
        // SAFETY: the file is not used again.
        done(unsafe { (counted!(client, close))(raw.as_ptr()) })
    }

    /// Returns the attributes of the file.
    pub(crate) fn stat(&self) -> Result<stat> {
        let mut stat = no_stat();
        // SAFETY: the file is open.
        done(unsafe { (counted!(self.client, fstat))(self.raw.as_ptr(), &mut stat) })?;
        Ok(stat)
    }

    /// Sets the size of the file.
    pub(crate) fn set_size(&self, size: i64) -> Result<()> {
        // SAFETY: the file is open; the structures may be absent.
        done(unsafe { (counted!(self.client, ftruncate))(self.raw.as_ptr(), size, ptr::null_mut(), ptr::null_mut()) })
    }

    /// Reserves space for a range without changing the size.
    pub(crate) fn reserve(&self, length: usize) -> Result<()> {
        // SAFETY: the file is open.
        done(unsafe { (counted!(self.client, fallocate))(self.raw.as_ptr(), 1, 0, length) })
    }

    /// Releases the space of a range, which then reads as zeros.
    pub(crate) fn punch(&self, offset: i64, length: usize) -> Result<()> {
        // SAFETY: the file is open.
        done(unsafe { (counted!(self.client, discard))(self.raw.as_ptr(), offset, length) })
    }

    /// Overwrites a range with zeros.
    pub(crate) fn zero(&self, offset: i64, length: i64) -> Result<()> {
        // SAFETY: the file is open.
        done(unsafe { (counted!(self.client, zerofill))(self.raw.as_ptr(), offset, length) })
    }

    /// Returns the next position at or after `offset` that has data, or with `hole` that has none; `Errno::NXIO` if
    /// there is none.
    pub(crate) fn seek(&self, offset: i64, hole: bool) -> Result<i64> {
        let whence = if hole { libc::SEEK_HOLE } else { libc::SEEK_DATA };
        // SAFETY: the file is open. Its position is not used by any other call.
        let found = unsafe { (counted!(self.client, lseek))(self.raw.as_ptr(), offset, whence) };
        if found < 0 { Err(last()) } else { Ok(found) }
    }

    /// Reads an extended attribute and returns the length of its value; `Errno::RANGE` if the buffer is too small.
    pub(crate) fn get_xattr(&self, name: &CStr, value: &mut [u8]) -> Result<usize> {
        // SAFETY: the file is open, the name ends with a NUL, and the buffer has this length.
        length(unsafe {
            (counted!(self.client, fgetxattr))(self.raw.as_ptr(), name.as_ptr(), value.as_mut_ptr().cast(), value.len())
        })
    }

    /// Reads the names of all extended attributes, each with a NUL after it.
    pub(crate) fn list_xattrs(&self, names: &mut [u8]) -> Result<usize> {
        // SAFETY: the file is open and the buffer has this length.
        length(unsafe {
            (counted!(self.client, flistxattr))(self.raw.as_ptr(), names.as_mut_ptr().cast(), names.len())
        })
    }

    /// Sets an extended attribute. `flags` are those of setxattr(2).
    pub(crate) fn set_xattr(&self, name: &CStr, value: &[u8], flags: c_int) -> Result<()> {
        self.client.attribute_calls.apart(|| {
            // SAFETY: the file is open, the name ends with a NUL, and the value has this length.
            done(unsafe {
                let set = counted!(self.client, fsetxattr);
                set(self.raw.as_ptr(), name.as_ptr(), value.as_ptr().cast(), value.len(), flags)
            })
        })
    }

    /// Removes an extended attribute.
    pub(crate) fn remove_xattr(&self, name: &CStr) -> Result<()> {
        self.client.attribute_calls.apart(|| {
            // SAFETY: the file is open and the name ends with a NUL.
            done(unsafe { (counted!(self.client, fremovexattr))(self.raw.as_ptr(), name.as_ptr()) })
        })
    }
}

/// A directory that is open for reading. Dropped, it is closed.
pub(crate) struct Directory {
    client: Arc<Client>,
    raw: NonNull<Opaque>,
}

// SAFETY: the library does not tie an open directory to a thread.
unsafe impl Send for Directory {}

impl Drop for Directory {
    fn drop(&mut self) {
        // SAFETY: the directory is not used again.
        unsafe { (counted!(self.client, closedir))(self.raw.as_ptr()) };
    }
}

/// An entry of a directory.
pub(crate) struct Listed {
    pub(crate) name: Box<[u8]>,
    /// The position after it.
    pub(crate) next: i64,
    /// The file and its attributes; `None` if they were not asked for, or if it vanished.
    pub(crate) file: Option<(Object, stat)>,
}

impl Directory {
    /// Takes possession of an open directory that the library returned.
    pub(super) fn new(client: &Arc<Client>, opened: *mut Opaque) -> Result<Directory> {
        let raw = NonNull::new(opened).ok_or_else(last)?;
        Ok(Directory { client: Arc::clone(client), raw })
    }

    /// Continues at a position that an entry of this directory had.
    pub(crate) fn seek(&mut self, position: i64) {
        // SAFETY: the directory is open.
        unsafe { (counted!(self.client, seekdir))(self.raw.as_ptr(), position) };
    }

    /// Has the bricks write the names to their disks.
    pub(crate) fn sync(&mut self) -> Result<()> {
        // SAFETY: the directory is open; the structures may be absent.
        done(unsafe { (counted!(self.client, fsync))(self.raw.as_ptr(), ptr::null_mut(), ptr::null_mut()) })
    }

    /// Returns the next entry, `.` and `..` included, with its file if that is asked for.
    pub(crate) fn next(&mut self, with_file: bool) -> Result<Option<Listed>> {
        // SAFETY: the structure consists of integers.
        let mut entry: libc::dirent = unsafe { std::mem::zeroed() };
        let (mut found, mut more) = (ptr::null_mut(), ptr::null_mut::<Opaque>());
        // SAFETY: the directory is open, and the library writes the entry and the two addresses.
        let flags = unsafe {
            if with_file {
                let flags = WITH_STAT | WITH_OBJECT;
                (counted!(self.client, xreaddirplus_r))(self.raw.as_ptr(), flags, &mut more, &mut entry, &mut found)
            } else {
                (counted!(self.client, readdir_r))(self.raw.as_ptr(), &mut entry, &mut found)
            }
        };
        let file = NonNull::new(more).map(|more| self.described(more, flags));
        done(flags)?;
        if found.is_null() {
            return Ok(None);
        }
        // SAFETY: the name ends with a NUL within the structure.
        let name = unsafe { CStr::from_ptr(entry.d_name.as_ptr()) };
        Ok(Some(Listed { name: name.to_bytes().into(), next: entry.d_off, file: file.transpose()?.flatten() }))
    }

    /// Takes what the library says about an entry, of which `flags` say what there is, and frees it.
    fn described(&self, more: NonNull<Opaque>, flags: c_int) -> Result<Option<(Object, stat)>> {
        let library = self.client.library;
        let has = |flag: u32| flags >= 0 && flags as u32 & flag != 0;
        // SAFETY: the library returned the structure. What it points to is copied before it is freed.
        unsafe {
            let stat = (library.xreaddirplus_get_stat)(more.as_ptr());
            let object = (library.xreaddirplus_get_object)(more.as_ptr());
            let described = if has(WITH_STAT) && has(WITH_OBJECT) && !stat.is_null() && !object.is_null() {
                let (stat, copy) = (*stat, (library.object_copy)(object));
                Some(Object::new(&self.client, copy, &stat).map(|object| (object, stat)))
            } else {
                None
            };
            (library.free)(more.as_ptr().cast());
            described.transpose()
        }
    }
}
