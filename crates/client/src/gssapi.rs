//! The host's GSS-API library, MIT's, as an initiator needs it (RFC 2743, C bindings of RFC 2744): one context with
//! mechanism Kerberos 5 and mutual authentication, its session key and its signatures.
//!
//! The library is loaded when the first context is made and never linked, so that programs start on hosts without it.
//! Leaves out: delegation, channel bindings, wrapping, credentials other than the host's default ones.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::{io, ptr, slice};

use libloading::Library;
use proto::auth::spnego::MechType;

use crate::Result;

/// What the library is called on every host that has MIT Kerberos.
const LIBRARY: &str = "libgssapi_krb5.so.2";

/// The longest text that is taken for one error, in messages.
const MOST_MESSAGES: usize = 8;

/// `GSS_C_GSS_CODE` and `GSS_C_MECH_CODE`: whose code is shown.
const GSS_CODE: c_int = 1;
const MECH_CODE: c_int = 2;

/// `GSS_S_CONTINUE_NEEDED`: the peer must answer first.
const CONTINUE_NEEDED: u32 = 1;

/// `GSS_S_NO_CRED`: the user has no ticket.
const NO_CRED: u32 = 7 << 16;
/// `KRB5KRB_AP_ERR_TKT_EXPIRED`, the mechanism's code for a ticket that is no longer good.
const TICKET_EXPIRED: u32 = 0x96c7_3a20;

/// `GSS_C_MUTUAL_FLAG`: the server proves who it is, too.
const MUTUAL: u32 = 2;
/// `GSS_C_REPLAY_FLAG`, `GSS_C_SEQUENCE_FLAG` and `GSS_C_INTEG_FLAG`: what signing the list of mechanisms takes.
const SIGNATURES: u32 = 4 | 8 | 32;

/// `gss_buffer_desc`.
#[repr(C)]
struct Buffer {
    length: usize,
    value: *mut c_void,
}

impl Buffer {
    const EMPTY: Buffer = Buffer { length: 0, value: ptr::null_mut() };

    /// For the library to read.
    fn reading(bytes: &[u8]) -> Buffer {
        Buffer { length: bytes.len(), value: bytes.as_ptr().cast_mut().cast() }
    }

    /// # Safety
    ///
    /// The library wrote this buffer and has not released it since.
    unsafe fn to_vec(&self) -> Vec<u8> {
        if self.value.is_null() {
            return Vec::new();
        }
        // SAFETY: not null, so it points to `length` bytes until it is released, which the caller rules out.
        unsafe { slice::from_raw_parts(self.value.cast::<u8>(), self.length) }.to_vec()
    }
}

/// `gss_OID_desc`.
#[repr(C)]
struct Oid {
    length: u32,
    elements: *const c_void,
}

impl Oid {
    const fn new(content: &'static [u8]) -> Oid {
        Oid { length: content.len() as u32, elements: content.as_ptr().cast() }
    }
}

// SAFETY: it points to bytes that live for ever and that nobody changes.
unsafe impl Sync for Oid {}

static KERBEROS: Oid = Oid::new(MechType::KERBEROS.0);
/// 1.2.840.113554.1.2.1.4, `GSS_C_NT_HOSTBASED_SERVICE`: names of the form `service@host`.
static HOSTBASED_SERVICE: Oid = Oid::new(&[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x12, 0x01, 0x02, 0x01, 0x04]);
/// 1.2.840.113554.1.2.2.5.5, `GSS_C_INQ_SSPI_SESSION_KEY`: the key that both sides agreed on.
static SESSION_KEY: Oid = Oid::new(&[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x12, 0x01, 0x02, 0x02, 0x05, 0x05]);

/// `gss_buffer_set_desc`.
#[repr(C)]
struct BufferSet {
    count: usize,
    elements: *mut Buffer,
}

/// `gss_name_t`, `gss_ctx_id_t` and `gss_cred_id_t`: only the library knows what they point to.
type Opaque = *mut c_void;

/// What the library offers, by the names of RFC 2744 and, for the last two, of RFC 5587's extensions as MIT has them.
struct Gssapi {
    import_name: unsafe extern "C" fn(*mut u32, *const Buffer, *const Oid, *mut Opaque) -> u32,
    release_name: unsafe extern "C" fn(*mut u32, *mut Opaque) -> u32,
    init_sec_context: unsafe extern "C" fn(
        *mut u32,
        Opaque,
        *mut Opaque,
        Opaque,
        *const Oid,
        u32,
        u32,
        *const c_void,
        *const Buffer,
        *mut *const Oid,
        *mut Buffer,
        *mut u32,
        *mut u32,
    ) -> u32,
    delete_sec_context: unsafe extern "C" fn(*mut u32, *mut Opaque, *mut Buffer) -> u32,
    get_mic: unsafe extern "C" fn(*mut u32, Opaque, u32, *const Buffer, *mut Buffer) -> u32,
    verify_mic: unsafe extern "C" fn(*mut u32, Opaque, *const Buffer, *const Buffer, *mut u32) -> u32,
    display_status: unsafe extern "C" fn(*mut u32, u32, c_int, *const Oid, *mut u32, *mut Buffer) -> u32,
    release_buffer: unsafe extern "C" fn(*mut u32, *mut Buffer) -> u32,
    inquire_sec_context_by_oid: unsafe extern "C" fn(*mut u32, Opaque, *const Oid, *mut *mut BufferSet) -> u32,
    release_buffer_set: unsafe extern "C" fn(*mut u32, *mut *mut BufferSet) -> u32,
    /// What the functions are in.
    _library: Library,
}

impl Gssapi {
    /// The library, loaded once.
    fn get() -> Result<&'static Gssapi> {
        static LOADED: OnceLock<Gssapi> = OnceLock::new();
        match LOADED.get() {
            Some(loaded) => Ok(loaded),
            None => {
                let loaded = Gssapi::load(LIBRARY)?;
                Ok(LOADED.get_or_init(|| loaded))
            }
        }
    }

    fn load(name: &str) -> Result<Gssapi> {
        let absent = |error: libloading::Error| {
            let remedy = "install MIT Kerberos (Debian: libgssapi-krb5-2; Fedora: krb5-libs)";
            io::Error::new(io::ErrorKind::NotFound, format!("no Kerberos on this host: {error}; {remedy}"))
        };
        // SAFETY: the library's initialization only prepares its own tables and locks.
        let library = unsafe { Library::new(name) }.map_err(absent)?;
        // SAFETY: the types are those of RFC 2744 5 and of MIT's gssapi_ext.h; the functions are kept beside the library.
        unsafe {
            Ok(Gssapi {
                import_name: *library.get(b"gss_import_name\0").map_err(absent)?,
                release_name: *library.get(b"gss_release_name\0").map_err(absent)?,
                init_sec_context: *library.get(b"gss_init_sec_context\0").map_err(absent)?,
                delete_sec_context: *library.get(b"gss_delete_sec_context\0").map_err(absent)?,
                get_mic: *library.get(b"gss_get_mic\0").map_err(absent)?,
                verify_mic: *library.get(b"gss_verify_mic\0").map_err(absent)?,
                display_status: *library.get(b"gss_display_status\0").map_err(absent)?,
                release_buffer: *library.get(b"gss_release_buffer\0").map_err(absent)?,
                inquire_sec_context_by_oid: *library.get(b"gss_inquire_sec_context_by_oid\0").map_err(absent)?,
                release_buffer_set: *library.get(b"gss_release_buffer_set\0").map_err(absent)?,
                _library: library,
            })
        }
    }

    /// The bytes that `fill` makes the library write, or what went wrong when it says so.
    fn written(&self, what: &str, fill: impl FnOnce(*mut u32, *mut Buffer) -> u32) -> Result<Vec<u8>> {
        let (mut minor, mut buffer) = (0, Buffer::EMPTY);
        let major = fill(&mut minor, &mut buffer);
        // The text of a code is the last error's of this thread: it is asked for before anything else is called.
        let result = self.succeeded(what, major, minor);
        // SAFETY: the library wrote the buffer, or it is empty.
        let bytes = unsafe { self.taken(&mut buffer) };
        result.map(|()| bytes)
    }

    /// What a buffer holds, which is released.
    ///
    /// # Safety
    ///
    /// The library wrote this buffer and has not released it since, or it is empty.
    unsafe fn taken(&self, buffer: &mut Buffer) -> Vec<u8> {
        // SAFETY: as the caller promises.
        unsafe {
            let bytes = buffer.to_vec();
            (self.release_buffer)(&mut 0, buffer);
            bytes
        }
    }

    fn succeeded(&self, what: &str, major: u32, minor: u32) -> Result<()> {
        // The upper half tells errors, the lower one only adds to success.
        if major >> 16 == 0 {
            Ok(())
        } else {
            Err(io::Error::other(format!("{what}: {}", self.text(major, minor))).into())
        }
    }

    /// What the codes mean: in the mechanism's own words where it has any, which say more.
    fn text(&self, major: u32, minor: u32) -> String {
        let own = if minor == 0 { String::new() } else { self.messages(minor, MECH_CODE) };
        let text = if own.is_empty() { self.messages(major, GSS_CODE) } else { own };
        if major == NO_CRED || minor == TICKET_EXPIRED { format!("{text}; kinit gets a ticket") } else { text }
    }

    fn messages(&self, code: u32, kind: c_int) -> String {
        let (mut messages, mut more) = (Vec::new(), 0);
        while messages.len() < MOST_MESSAGES {
            let (mut minor, mut buffer) = (0, Buffer::EMPTY);
            // SAFETY: the identifier is static; everything else is written by the call alone.
            let (major, bytes) = unsafe {
                let major = (self.display_status)(&mut minor, code, kind, &KERBEROS, &mut more, &mut buffer);
                (major, self.taken(&mut buffer))
            };
            if major != 0 {
                break;
            }
            messages.push(String::from_utf8_lossy(&bytes).into_owned());
            if more == 0 {
                break;
            }
        }
        messages.join("; ")
    }
}

/// A security context under way or established, and whom it is with. Its calls block: a KDC may be asked.
pub(crate) struct Context {
    gssapi: &'static Gssapi,
    service: String,
    name: Opaque,
    handle: Opaque,
    established: bool,
    mutual: bool,
}

// SAFETY: MIT's library lets any thread use a context and a name, one at a time; every call here that changes either
// takes `&mut self`.
unsafe impl Send for Context {}

impl Context {
    /// A context to be made with a service on a host, written `service@host`.
    pub(crate) fn new(service: &str) -> Result<Context> {
        let gssapi = Gssapi::get()?;
        let text = Buffer::reading(service.as_bytes());
        let (mut minor, mut name) = (0, ptr::null_mut());
        // SAFETY: text and identifier outlive the call, which only reads them.
        let major = unsafe { (gssapi.import_name)(&mut minor, &text, &HOSTBASED_SERVICE, &mut name) };
        // Made before the outcome is looked at, so that whatever there is goes away with it.
        let handle = ptr::null_mut();
        let context = Context { gssapi, service: service.to_owned(), name, handle, established: false, mutual: false };
        gssapi.succeeded(&format!("no Kerberos name for {service}"), major, minor)?;
        Ok(context)
    }

    /// The next token for the server, from its last one; the first is made from nothing. Empty when there is none to send.
    pub(crate) fn step(&mut self, token: &[u8]) -> Result<Vec<u8>> {
        let input = Buffer::reading(token);
        let input = if token.is_empty() { ptr::null() } else { &raw const input };
        let (mut major, mut flags) = (0, 0);
        let what = format!("no Kerberos logon to {}", self.service);
        let (gssapi, name, handle) = (self.gssapi, self.name, &mut self.handle);
        let token = gssapi.written(&what, |minor, output| {
            // SAFETY: the name is the library's and so is the context, which is null the first time; the input is null
            // or outlives the call; no credentials, no bindings and no interest in times and mechanism are null and 0.
            major = unsafe {
                (gssapi.init_sec_context)(
                    minor,
                    ptr::null_mut(),
                    handle,
                    name,
                    &KERBEROS,
                    MUTUAL | SIGNATURES,
                    0,
                    ptr::null(),
                    input,
                    ptr::null_mut(),
                    output,
                    &mut flags,
                    ptr::null_mut(),
                )
            };
            major
        })?;
        self.established = major & CONTINUE_NEEDED == 0;
        self.mutual = flags & MUTUAL != 0;
        Ok(token)
    }

    /// Whether both sides have proved who they are.
    pub(crate) fn is_established(&self) -> bool {
        self.established && self.mutual
    }

    /// The whole key that both sides have agreed on: 16 bytes with AES-128, 32 with AES-256.
    pub(crate) fn session_key(&self) -> Result<Vec<u8>> {
        let (mut minor, mut set) = (0, ptr::null_mut());
        // SAFETY: the context is the library's, or null, which it refuses; the identifier is static.
        let major =
            unsafe { (self.gssapi.inquire_sec_context_by_oid)(&mut minor, self.handle, &SESSION_KEY, &mut set) };
        let result = self.gssapi.succeeded("no session key of the Kerberos logon", major, minor);
        let mut key = Vec::new();
        if !set.is_null() {
            // SAFETY: a set that was answered holds `count` buffers until it is released, which comes after. The key is the
            // first, its type the second.
            unsafe {
                let elements = &*set;
                if elements.count > 0 {
                    key = (*elements.elements).to_vec();
                }
                (self.gssapi.release_buffer_set)(&mut minor, &mut set);
            }
        }
        result.map(|()| key)
    }

    /// The signature of `message`.
    pub(crate) fn mic(&mut self, message: &[u8]) -> Result<Vec<u8>> {
        let message = Buffer::reading(message);
        self.gssapi.written("no signature by the Kerberos logon", |minor, mic| {
            // SAFETY: the context is the library's, or null, which it refuses; the message outlives the call.
            unsafe { (self.gssapi.get_mic)(minor, self.handle, 0, &message, mic) }
        })
    }

    /// Checks the server's signature of `message`.
    pub(crate) fn verify_mic(&mut self, message: &[u8], mic: &[u8]) -> Result<()> {
        let (message, mic, mut minor) = (Buffer::reading(message), Buffer::reading(mic), 0);
        // SAFETY: the context is the library's, or null, which it refuses; both buffers outlive the call.
        let major = unsafe { (self.gssapi.verify_mic)(&mut minor, self.handle, &message, &mic, ptr::null_mut()) };
        self.gssapi.succeeded("a signature of the server is wrong", major, minor)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: both are the library's and used by nobody any more; a null one it leaves alone.
        unsafe {
            (self.gssapi.delete_sec_context)(&mut 0, &mut self.handle, ptr::null_mut());
            (self.gssapi.release_name)(&mut 0, &mut self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_named_with_the_remedy() {
        let error = Gssapi::load("libfrevo_no_such.so.9").err().expect("nothing to load").to_string();
        for part in ["libfrevo_no_such.so.9", "libgssapi-krb5-2"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_library_without_gss_api_is_refused() {
        let error = Gssapi::load("libc.so.6").err().expect("not GSS-API").to_string();
        assert!(error.contains("gss_import_name"), "{error}");
    }
}
