//! The connection to a volume, and the notifications that it receives.

use std::ffi::{CStr, CString, c_int, c_void};
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::{Arc, OnceLock};

use libc::{ssize_t, stat};
use server::policy::{GlusterVolume, VolfileServer};
use server::vfs::{Errno, Result};

use super::attribute_calls::AttributeCalls;
use super::object::{GFID, gfid};
use super::values::Values;
use super::{Calls, Functions, Object, Opaque, done, functions, length, no_stat};

/// `GLFS_EVENT_INODE_INVALIDATE`, and the reason of such an event.
const INVALIDATION: u32 = 1;

/// The maximum size of a file in which the library describes itself.
const OWN_FILE: usize = 65_536;

/// Options of translators that are switched on for this client, whatever the options of the volume are.
///
/// With `performance.nl-cache` (group samba), look-ups of a name that was created after it was missing fail for this
/// client. The name indexes of the server do the same without that defect.
///
/// With `performance.client-io-threads`, the default of distributed volumes, each call passes through a thread of the
/// library, even if the library answers from its caches. The calls of this client are made by threads of its own.
///
/// The others have the library cache the extended attributes that the server needs of every file, and the bricks report
/// their changes if they report any.
const OPTIONS: [(&CStr, &CStr); 4] = [
    (c"*-nl-cache", c"pass-through"),
    (c"*-io-threads", c"pass-through"),
    (c"*-md-cache", c"cache-samba-metadata"),
    (c"*-md-cache", c"cache-posix-acl"),
];

/// Receives the identities of the files that another client changed. Called on a thread of the library.
pub(crate) type Changed = Box<dyn Fn(&[u128]) + Send + Sync>;

/// A connection to a volume (`glfs_t`).
pub(crate) struct Client {
    pub(super) library: &'static Functions,
    pub(super) fs: NonNull<Opaque>,
    /// The name of the volume.
    pub(crate) name: String,
    /// How often each function was called for files.
    pub(crate) calls: Calls,
    pub(super) attribute_calls: AttributeCalls,
    pub(super) values: Values,
    /// Kept for the library, which has its address.
    changed: OnceLock<Box<Changed>>,
}

// SAFETY: the library's functions may be called for one volume by any number of threads.
unsafe impl Send for Client {}
// SAFETY: as above.
unsafe impl Sync for Client {}

impl Client {
    /// Connects to a volume. The threads that the library starts keep the identity of the calling thread.
    ///
    /// # Errors
    /// The text says what happened and what to do.
    pub(crate) fn connect(volume: &GlusterVolume) -> std::result::Result<Client, String> {
        let library = functions()?;
        let invalid = |_| "a NUL character in the settings of the volume; remove it".to_owned();
        let c_string = |text: &str| CString::new(text).map_err(invalid);
        let name = c_string(&volume.volume)?;
        // SAFETY: the name ends with a NUL; the library copies it.
        let fs = NonNull::new(unsafe { (library.new)(name.as_ptr()) }).ok_or("no memory for a volume")?;
        let name = volume.volume.clone();
        let client = Client {
            library,
            fs,
            name,
            calls: Calls::default(),
            attribute_calls: AttributeCalls::default(),
            values: Values::default(),
            changed: OnceLock::new(),
        };
        for server in &volume.servers {
            let (transport, host, port) = match server {
                VolfileServer::Tcp { host, port } => (c"tcp", c_string(host)?, c_int::from(*port)),
                VolfileServer::Unix(path) => (c"unix", c_string(&path.to_string_lossy())?, 0),
            };
            // SAFETY: the texts end with a NUL; the library copies them.
            done(unsafe { (library.set_volfile_server)(fs.as_ptr(), transport.as_ptr(), host.as_ptr(), port) })
                .map_err(|error| {
                    format!("the server {server} of `glusterfs:volfile_server` is not accepted ({error})")
                })?;
        }
        for (translator, option) in OPTIONS {
            // SAFETY: the texts end with a NUL; the library copies them.
            done(unsafe {
                let set = library.set_xlator_option;
                set(fs.as_ptr(), translator.as_ptr(), option.as_ptr(), c"on".as_ptr())
            })
            .map_err(|error| format!("an option of the volume cannot be set ({error})"))?;
        }
        // Without a file, the library would write to its own in /var/log.
        let file = volume.log_file.as_deref().unwrap_or(Path::new("/dev/null")).to_string_lossy();
        let c_file = c_string(&file)?;
        // SAFETY: as above.
        done(unsafe { (library.set_logging)(fs.as_ptr(), c_file.as_ptr(), volume.log_level as c_int) })
            .map_err(|error| format!("the log file {file} of `glusterfs:logfile` cannot be used ({error})"))?;
        // SAFETY: the volume was created above and is initialized once.
        match done(unsafe { (library.init)(fs.as_ptr()) }) {
            Ok(()) => Ok(client),
            Err(error) => {
                let servers: Vec<String> = volume.servers.iter().map(VolfileServer::to_string).collect();
                Err(format!(
                    "none of the servers {} describes it ({error}); check `glusterfs:volume` and \
                     `glusterfs:volfile_server`, and that glusterd runs there",
                    servers.join(", ")
                ))
            }
        }
    }

    /// Has `changed` called for changes that other clients make to files that this one knows.
    pub(crate) fn on_changes(&self, changed: Changed) -> Result<()> {
        let kept = self.changed.get_or_init(|| Box::new(changed));
        let data = ptr::from_ref::<Changed>(kept).cast_mut().cast();
        // SAFETY: `notified` expects this type, which lives until the connection has ended.
        done(unsafe { (self.library.upcall_register)(self.fs.as_ptr(), INVALIDATION, notified, data) }.min(0))
    }

    /// Returns the client's configuration of the volume, which the servers generated from its options.
    pub(crate) fn volfile(&self) -> Result<String> {
        // SAFETY: a length of zero is a question for the length, returned as a negative number.
        let needed = unsafe { (self.library.get_volfile)(self.fs.as_ptr(), ptr::null_mut(), 0) };
        let mut buffer = vec![0u8; needed.unsigned_abs()];
        // SAFETY: the buffer has this length.
        let read = unsafe { (self.library.get_volfile)(self.fs.as_ptr(), buffer.as_mut_ptr().cast(), buffer.len()) };
        buffer.truncate(length(read)?);
        Ok(String::from_utf8_lossy(&buffer).into_owned())
    }

    /// Returns the identifier of the volume.
    pub(crate) fn volume_id(&self) -> Result<u128> {
        let mut id = [0u8; GFID];
        // SAFETY: the buffer has this length.
        let read = unsafe { (self.library.get_volumeid)(self.fs.as_ptr(), id.as_mut_ptr().cast(), id.len()) };
        if length(read as ssize_t)? == id.len() { Ok(u128::from_be_bytes(id)) } else { Err(Errno::IO) }
    }

    /// Returns the root directory of the volume.
    pub(crate) fn root(self: &Arc<Self>) -> Result<(Object, stat)> {
        let mut stat = no_stat();
        // SAFETY: without a parent, the path is one of the volume; it ends with a NUL.
        let found =
            unsafe { (self.library.h_lookupat)(self.fs.as_ptr(), ptr::null_mut(), c"/".as_ptr(), &mut stat, 0) };
        Ok((Object::new(self, found, &stat)?, stat))
    }

    /// Returns the text of a file in which the library describes itself. No brick is asked.
    pub(crate) fn own_file(self: &Arc<Self>, path: &CStr) -> Result<String> {
        let mut stat = no_stat();
        // SAFETY: without a parent, the path is one of the volume; it ends with a NUL.
        let found =
            unsafe { (counted!(self, h_lookupat))(self.fs.as_ptr(), ptr::null_mut(), path.as_ptr(), &mut stat, 1) };
        let file = Object::new(self, found, &stat)?.open(libc::O_RDONLY)?;
        let (sender, read) = std::sync::mpsc::channel();
        let done = move |mut text: Vec<u8>, count: Result<usize>| {
            let text = count.map(|count| {
                text.truncate(count);
                String::from_utf8_lossy(&text).into_owned()
            });
            // This function waits for it.
            let _ = sender.send(text);
        };
        file.read_async(vec![0; OWN_FILE], 0, 0, Box::new(done));
        read.recv().unwrap_or(Err(Errno::IO))
    }
}

/// A connection that is to end, with the data that the library has the address of.
struct Ending {
    fini: unsafe extern "C" fn(*mut Opaque) -> c_int,
    fs: NonNull<Opaque>,
    changed: Option<Box<Changed>>,
}

// SAFETY: nothing else has the connection any more.
unsafe impl Send for Ending {}

impl Ending {
    fn end(self) {
        // SAFETY: all objects of the volume are closed, because each has a reference to the connection.
        unsafe { (self.fini)(self.fs.as_ptr()) };
        drop(self.changed);
    }
}

impl Drop for Client {
    /// Ends the connection on a thread of its own, because the library takes up to eleven seconds for it.
    fn drop(&mut self) {
        let ending = Ending { fini: self.library.fini, fs: self.fs, changed: self.changed.take() };
        // Without a thread the connection stays until the process ends.
        let _ = std::thread::Builder::new().name("gluster end".to_owned()).spawn(move || ending.end());
    }
}

/// Passes an upcall on.
unsafe extern "C" fn notified(upcall: *mut Opaque, data: *mut c_void) {
    let Ok(library) = functions() else { return };
    if upcall.is_null() {
        return;
    }
    // SAFETY: the library passes a valid event and the data that was registered. The event belongs to this function,
    // and its objects to the event.
    unsafe {
        if (library.upcall_get_reason)(upcall) == INVALIDATION as c_int {
            let event = (library.upcall_get_event)(upcall);
            let objects = [
                (library.upcall_inode_get_object)(event),
                (library.upcall_inode_get_pobject)(event),
                (library.upcall_inode_get_oldpobject)(event),
            ];
            let ids: Vec<u128> =
                objects.into_iter().filter_map(NonNull::new).filter_map(|raw| gfid(library, raw).ok()).collect();
            (*data.cast::<Changed>())(&ids);
        }
        (library.free)(upcall.cast());
    }
}
