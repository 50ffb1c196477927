//! libgfapi: its functions, and safe types for the objects that they return. The only unsafe code of this crate.
//!
//! The library is loaded when the first volume is opened. Symbols are looked up with their versions, because the
//! library has several versions of some functions with different arguments.
//!
//! Every call that may reach a brick blocks the calling thread, except those whose name ends in `async`.

/// Counts a call of a function for a client, and returns the function.
macro_rules! counted {
    ($client:expr, $name:ident) => {{
        $client.calls.$name.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        $client.library.$name
    }};
}

mod attribute_calls;
mod client;
mod file;
mod object;
mod values;

use std::ffi::{CString, c_char, c_int, c_long, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use libc::{gid_t, mode_t, off_t, size_t, ssize_t, stat, uid_t};
use server::vfs::{Errno, Identity, Result};

pub(crate) use self::client::Client;
pub(crate) use self::file::{Directory, File};
pub(crate) use self::object::{NewAttributes, Object};

/// The file name of the library since GlusterFS 3.4.
const LIBRARY: &str = "libgfapi.so.0";

/// `glfs_t`, `glfs_object_t`, `glfs_fd_t` and other structures of the library.
#[repr(C)]
struct Opaque([u8; 0]);

/// `glfs_io_cbk`.
type Completion = unsafe extern "C" fn(*mut Opaque, ssize_t, *mut c_void, *mut c_void, *mut c_void);
/// `glfs_upcall_cbk`.
type Notification = unsafe extern "C" fn(*mut Opaque, *mut c_void);

/// Declares the functions of the library, each with the version of its symbol, and the code that loads them.
macro_rules! functions {
    ($($name:ident @ $version:literal: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of the library.
        struct Functions {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        /// How often each function was called, for one volume.
        #[derive(Default)]
        pub(crate) struct Calls {
            $($name: AtomicU64,)*
        }

        impl Calls {
            /// Returns the functions that were called, with the number of calls.
            pub(crate) fn numbers(&self) -> Vec<(&'static str, u64)> {
                let all = [$((stringify!($name), self.$name.load(Ordering::Relaxed)),)*];
                all.into_iter().filter(|(_, count)| *count > 0).collect()
            }
        }

        impl Functions {
            /// Loads the functions from the library behind `handle`.
            ///
            /// # Safety
            ///
            /// `handle` is a handle of libgfapi that is never closed.
            unsafe fn load(handle: *mut c_void) -> std::result::Result<Functions, String> {
                Ok(Functions {
                    $($name: {
                        let name = concat!("glfs_", stringify!($name), "\0").as_bytes();
                        let symbol = symbol(handle, name, concat!("GFAPI_", $version, "\0").as_bytes())?;
                        // SAFETY: the types are those of the library's headers glfs.h and glfs-handles.h for this
                        // version of the symbol, and the library stays loaded.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($argument),*) $(-> $result)?
                            >(symbol)
                        }
                    },)*
                })
            }
        }
    };
}

functions! {
    new @ "3.4.0": fn(*const c_char) -> *mut Opaque;
    set_volfile_server @ "3.4.0": fn(*mut Opaque, *const c_char, *const c_char, c_int) -> c_int;
    set_logging @ "3.4.0": fn(*mut Opaque, *const c_char, c_int) -> c_int;
    set_xlator_option @ "3.4.0": fn(*mut Opaque, *const c_char, *const c_char, *const c_char) -> c_int;
    init @ "3.4.0": fn(*mut Opaque) -> c_int;
    fini @ "3.4.0": fn(*mut Opaque) -> c_int;
    get_volfile @ "3.6.0": fn(*mut Opaque, *mut c_void, size_t) -> ssize_t;
    get_volumeid @ "3.5.0": fn(*mut Opaque, *mut c_char, size_t) -> c_int;
    setfsuid @ "3.4.2": fn(uid_t) -> c_int;
    setfsgid @ "3.4.2": fn(gid_t) -> c_int;
    setfsgroups @ "3.4.2": fn(size_t, *const gid_t) -> c_int;
    free @ "3.7.16": fn(*mut c_void);
    close @ "3.4.0": fn(*mut Opaque) -> c_int;
    closedir @ "3.4.0": fn(*mut Opaque) -> c_int;
    pread_async @ "6.0": fn(*mut Opaque, *mut c_void, size_t, off_t, c_int, Completion, *mut c_void) -> c_int;
    pwrite_async @ "6.0": fn(*mut Opaque, *const c_void, c_int, off_t, c_int, Completion, *mut c_void) -> c_int;
    fsync_async @ "6.0": fn(*mut Opaque, Completion, *mut c_void) -> c_int;
    ftruncate @ "6.0": fn(*mut Opaque, off_t, *mut c_void, *mut c_void) -> c_int;
    fsync @ "6.0": fn(*mut Opaque, *mut c_void, *mut c_void) -> c_int;
    fallocate @ "3.5.0": fn(*mut Opaque, c_int, off_t, size_t) -> c_int;
    discard @ "3.5.0": fn(*mut Opaque, off_t, size_t) -> c_int;
    zerofill @ "3.5.0": fn(*mut Opaque, off_t, off_t) -> c_int;
    lseek @ "3.4.0": fn(*mut Opaque, off_t, c_int) -> off_t;
    fstat @ "3.4.0": fn(*mut Opaque, *mut stat) -> c_int;
    fgetxattr @ "3.4.0": fn(*mut Opaque, *const c_char, *mut c_void, size_t) -> ssize_t;
    flistxattr @ "3.4.0": fn(*mut Opaque, *mut c_void, size_t) -> ssize_t;
    fsetxattr @ "3.4.0": fn(*mut Opaque, *const c_char, *const c_void, size_t, c_int) -> c_int;
    fremovexattr @ "3.4.0": fn(*mut Opaque, *const c_char) -> c_int;
    seekdir @ "3.4.0": fn(*mut Opaque, c_long);
    readdir_r @ "3.4.0": fn(*mut Opaque, *mut libc::dirent, *mut *mut libc::dirent) -> c_int;
    xreaddirplus_r @ "3.11.0": fn(
        *mut Opaque, u32, *mut *mut Opaque, *mut libc::dirent, *mut *mut libc::dirent
    ) -> c_int;
    xreaddirplus_get_stat @ "3.11.0": fn(*mut Opaque) -> *mut stat;
    xreaddirplus_get_object @ "3.11.0": fn(*mut Opaque) -> *mut Opaque;
    object_copy @ "3.11.0": fn(*mut Opaque) -> *mut Opaque;
    h_lookupat @ "3.7.4": fn(*mut Opaque, *mut Opaque, *const c_char, *mut stat, c_int) -> *mut Opaque;
    h_creat_open @ "6.6": fn(
        *mut Opaque, *mut Opaque, *const c_char, c_int, mode_t, *mut stat, *mut *mut Opaque
    ) -> *mut Opaque;
    h_mkdir @ "3.4.2": fn(*mut Opaque, *mut Opaque, *const c_char, mode_t, *mut stat) -> *mut Opaque;
    h_symlink @ "3.4.2": fn(*mut Opaque, *mut Opaque, *const c_char, *const c_char, *mut stat) -> *mut Opaque;
    h_unlink @ "3.4.2": fn(*mut Opaque, *mut Opaque, *const c_char) -> c_int;
    h_rename @ "3.4.2": fn(*mut Opaque, *mut Opaque, *const c_char, *mut Opaque, *const c_char) -> c_int;
    h_link @ "3.4.2": fn(*mut Opaque, *mut Opaque, *mut Opaque, *const c_char) -> c_int;
    h_close @ "3.4.2": fn(*mut Opaque) -> c_int;
    h_stat @ "3.4.2": fn(*mut Opaque, *mut Opaque, *mut stat) -> c_int;
    h_statfs @ "3.7.0": fn(*mut Opaque, *mut Opaque, *mut libc::statvfs) -> c_int;
    h_setattrs @ "3.4.2": fn(*mut Opaque, *mut Opaque, *mut stat, c_int) -> c_int;
    h_getxattrs @ "3.5.1": fn(*mut Opaque, *mut Opaque, *const c_char, *mut c_void, size_t) -> c_int;
    h_setxattrs @ "3.5.0": fn(*mut Opaque, *mut Opaque, *const c_char, *const c_void, size_t, c_int) -> c_int;
    h_removexattrs @ "3.5.1": fn(*mut Opaque, *mut Opaque, *const c_char) -> c_int;
    h_readlink @ "3.4.2": fn(*mut Opaque, *mut Opaque, *mut c_char, size_t) -> c_int;
    h_extract_handle @ "3.4.2": fn(*mut Opaque, *mut u8, c_int) -> ssize_t;
    h_opendir @ "3.4.2": fn(*mut Opaque, *mut Opaque) -> *mut Opaque;
    h_open @ "3.4.2": fn(*mut Opaque, *mut Opaque, c_int) -> *mut Opaque;
    upcall_register @ "3.13.0": fn(*mut Opaque, u32, Notification, *mut c_void) -> c_int;
    upcall_get_reason @ "3.7.16": fn(*mut Opaque) -> c_int;
    upcall_get_event @ "3.7.16": fn(*mut Opaque) -> *mut Opaque;
    upcall_inode_get_object @ "3.7.16": fn(*mut Opaque) -> *mut Opaque;
    upcall_inode_get_pobject @ "3.7.16": fn(*mut Opaque) -> *mut Opaque;
    upcall_inode_get_oldpobject @ "3.7.16": fn(*mut Opaque) -> *mut Opaque;
}

/// Returns the address of a function in one version. Both names end with a NUL.
fn symbol(handle: *mut c_void, name: &[u8], version: &[u8]) -> std::result::Result<*mut c_void, String> {
    // SAFETY: the handle is open and the names end with a NUL.
    let found = unsafe { libc::dlvsym(handle, name.as_ptr().cast(), version.as_ptr().cast()) };
    if found.is_null() {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned();
        return Err(format!(
            "{LIBRARY} does not have {} ({}); install GlusterFS 6.6 or later",
            text(name),
            text(version)
        ));
    }
    Ok(found)
}

/// Returns the functions of the library, which is loaded once. An error names what is missing and how to install it.
fn functions() -> std::result::Result<&'static Functions, String> {
    static LOADED: OnceLock<std::result::Result<Functions, String>> = OnceLock::new();
    let load = || {
        // SAFETY: the library's initialization only prepares its own tables.
        let library = unsafe { libloading::os::unix::Library::new(LIBRARY) }.map_err(|error| {
            format!("{error}; install the client library of GlusterFS (Debian: libgfapi0; Fedora: glusterfs-api)")
        })?;
        // The library is never unloaded, because its threads and thread-local data outlive the last volume.
        // SAFETY: it is libgfapi, and nothing closes the handle.
        unsafe { Functions::load(library.into_raw()) }
    };
    LOADED.get_or_init(load).as_ref().map_err(Clone::clone)
}

/// Loads the library if it is not loaded yet.
///
/// # Errors
/// The text names what is missing and how to install it.
pub(crate) fn load() -> std::result::Result<(), String> {
    functions().map(|_| ())
}

/// Returns the error of the library's last call on this thread.
fn last() -> Errno {
    let code = std::io::Error::last_os_error().raw_os_error().unwrap_or_default();
    // Some translators fail without an error code.
    if code == 0 { Errno::IO } else { Errno(code) }
}

fn done(result: c_int) -> Result<()> {
    if result < 0 { Err(last()) } else { Ok(()) }
}

fn length(result: ssize_t) -> Result<usize> {
    usize::try_from(result).map_err(|_| last())
}

fn text(bytes: &[u8]) -> Result<CString> {
    CString::new(bytes).map_err(|_| Errno::INVAL)
}

fn no_stat() -> stat {
    // SAFETY: the structure consists of integers.
    unsafe { std::mem::zeroed() }
}

/// Asserts the identity of a user for the calls of this thread, those of all volumes.
pub(crate) fn act_as(who: &Identity) -> Result<()> {
    let library = functions().map_err(|_| Errno::NOSYS)?;
    // SAFETY: the list has this many elements; the library copies it.
    unsafe {
        done((library.setfsuid)(who.uid))?;
        done((library.setfsgid)(who.gid))?;
        done((library.setfsgroups)(who.groups.len(), who.groups.as_ptr()))
    }
}
