//! The host's GSS-API library, MIT's, as an acceptor needs it: RFC 2744's C bindings, and MIT's gssapi_ext.h for keytabs
//! by name, attributes of names and the session key.
//!
//! The library is loaded when Kerberos is first needed and never linked, so that hosts without it lack nothing else.
//! Leaves out: initiating, delegation, channel bindings, wrapping.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::{ptr, slice};

use libloading::Library;
use proto::auth::spnego::MechType;
use server::tickets::Signatures;
use zeroize::Zeroizing;

/// What the library is called on every host that has MIT Kerberos.
const LIBRARY: &str = "libgssapi_krb5.so.2";

/// How many texts are taken for one error.
const MOST_MESSAGES: usize = 8;

/// `GSS_C_GSS_CODE` and `GSS_C_MECH_CODE`: whose code is shown.
const GSS_CODE: c_int = 1;
const MECH_CODE: c_int = 2;

/// `GSS_C_ACCEPT`: credentials for accepting.
const ACCEPT: c_int = 2;
/// `GSS_S_CONTINUE_NEEDED`: the peer must answer first.
const CONTINUE_NEEDED: u32 = 1;
/// `GSS_S_UNAVAILABLE`: there is no such attribute.
const UNAVAILABLE: u32 = 16 << 16;
/// `GSS_C_INDEFINITE`.
const INDEFINITE: u32 = u32::MAX;

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

// SAFETY: those shared are of bytes that live for ever and that nobody changes.
unsafe impl Sync for Oid {}

impl Oid {
    const fn new(content: &'static [u8]) -> Oid {
        Oid { length: content.len() as u32, elements: content.as_ptr().cast() }
    }
}

static KERBEROS: Oid = Oid::new(MechType::KERBEROS.0);
/// 1.2.840.113554.1.2.2.5.5, `GSS_C_INQ_SSPI_SESSION_KEY`: the key that both sides agreed on.
static SESSION_KEY: Oid = Oid::new(&[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x12, 0x01, 0x02, 0x02, 0x05, 0x05]);
/// The name under which MIT shows the logon information of a PAC.
const LOGON_INFO: &[u8] = b"urn:mspac:logon-info";

/// `gss_OID_set_desc`.
#[repr(C)]
struct OidSet {
    count: usize,
    elements: *const Oid,
}

/// `gss_buffer_set_desc`.
#[repr(C)]
struct BufferSet {
    count: usize,
    elements: *mut Buffer,
}

/// `gss_key_value_element_desc` and `gss_key_value_set_desc`.
#[repr(C)]
struct KeyValue {
    key: *const c_char,
    value: *const c_char,
}

#[repr(C)]
struct KeyValueSet {
    count: u32,
    elements: *const KeyValue,
}

/// `gss_name_t`, `gss_ctx_id_t` and `gss_cred_id_t`: only the library knows what they point to.
type Opaque = *mut c_void;

/// What the library offers, by the names of RFC 2744 and of MIT's extensions.
pub(super) struct Gssapi {
    acquire_cred_from: unsafe extern "C" fn(
        *mut u32,
        Opaque,
        u32,
        *const OidSet,
        c_int,
        *const KeyValueSet,
        *mut Opaque,
        *mut *mut OidSet,
        *mut u32,
    ) -> u32,
    release_cred: unsafe extern "C" fn(*mut u32, *mut Opaque) -> u32,
    accept_sec_context: unsafe extern "C" fn(
        *mut u32,
        *mut Opaque,
        Opaque,
        *const Buffer,
        *const c_void,
        *mut Opaque,
        *mut *const Oid,
        *mut Buffer,
        *mut u32,
        *mut u32,
        *mut Opaque,
    ) -> u32,
    delete_sec_context: unsafe extern "C" fn(*mut u32, *mut Opaque, *mut Buffer) -> u32,
    display_name: unsafe extern "C" fn(*mut u32, Opaque, *mut Buffer, *mut *const Oid) -> u32,
    get_name_attribute: unsafe extern "C" fn(
        *mut u32,
        Opaque,
        *const Buffer,
        *mut c_int,
        *mut c_int,
        *mut Buffer,
        *mut Buffer,
        *mut c_int,
    ) -> u32,
    release_name: unsafe extern "C" fn(*mut u32, *mut Opaque) -> u32,
    get_mic: unsafe extern "C" fn(*mut u32, Opaque, u32, *const Buffer, *mut Buffer) -> u32,
    verify_mic: unsafe extern "C" fn(*mut u32, Opaque, *const Buffer, *const Buffer, *mut u32) -> u32,
    display_status: unsafe extern "C" fn(*mut u32, u32, c_int, *const Oid, *mut u32, *mut Buffer) -> u32,
    release_buffer: unsafe extern "C" fn(*mut u32, *mut Buffer) -> u32,
    inquire_sec_context_by_oid: unsafe extern "C" fn(*mut u32, Opaque, *const Oid, *mut *mut BufferSet) -> u32,
    release_buffer_set: unsafe extern "C" fn(*mut u32, *mut *mut BufferSet) -> u32,
    /// What the functions are in.
    _library: Library,
}

/// What the library says went wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Failure {
    /// The mechanism's code; 0 where it has none.
    pub(super) minor: u32,
    /// In the library's words.
    pub(super) text: String,
    /// What it wants the peer to be told; often empty.
    pub(super) token: Vec<u8>,
}

impl Gssapi {
    /// The library, loaded once. The error says what is missing and how to get it.
    pub(super) fn get() -> Result<&'static Gssapi, String> {
        static LOADED: OnceLock<Gssapi> = OnceLock::new();
        match LOADED.get() {
            Some(loaded) => Ok(loaded),
            None => {
                let loaded = Gssapi::load(LIBRARY)?;
                Ok(LOADED.get_or_init(|| loaded))
            }
        }
    }

    fn load(name: &str) -> Result<Gssapi, String> {
        let absent = |error: libloading::Error| {
            format!("{error}; install MIT Kerberos (Debian: libgssapi-krb5-2; Fedora: krb5-libs)")
        };
        // SAFETY: the library's initialization only prepares its own tables and locks.
        let library = unsafe { Library::new(name) }.map_err(absent)?;
        // SAFETY: the types are those of RFC 2744 5 and of MIT's gssapi_ext.h; the functions are kept beside the library.
        unsafe {
            Ok(Gssapi {
                acquire_cred_from: *library.get(b"gss_acquire_cred_from\0").map_err(absent)?,
                release_cred: *library.get(b"gss_release_cred\0").map_err(absent)?,
                accept_sec_context: *library.get(b"gss_accept_sec_context\0").map_err(absent)?,
                delete_sec_context: *library.get(b"gss_delete_sec_context\0").map_err(absent)?,
                display_name: *library.get(b"gss_display_name\0").map_err(absent)?,
                get_name_attribute: *library.get(b"gss_get_name_attribute\0").map_err(absent)?,
                release_name: *library.get(b"gss_release_name\0").map_err(absent)?,
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

    /// To be asked at once: the text of a code is the last error's of this thread.
    fn checked(&self, major: u32, minor: u32) -> Result<(), Failure> {
        // The upper half tells errors, the lower one only adds to success.
        match major >> 16 {
            0 => Ok(()),
            _ => Err(Failure { minor, text: self.text(major, minor), token: Vec::new() }),
        }
    }

    /// What the codes mean: in the mechanism's own words where it has any, which say more.
    fn text(&self, major: u32, minor: u32) -> String {
        let own = if minor == 0 { String::new() } else { self.messages(minor, MECH_CODE) };
        if own.is_empty() { self.messages(major, GSS_CODE) } else { own }
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

/// The keys of a keytab, whichever service they are for.
pub(super) struct Keys {
    gssapi: &'static Gssapi,
    handle: Opaque,
}

impl Keys {
    /// The keytab `name` (`FILE:/etc/krb5.keytab`), which must have a key. Blocks.
    pub(super) fn of(gssapi: &'static Gssapi, name: &str) -> Result<Keys, Failure> {
        let unfit = |_| Failure { minor: 0, text: format!("{name:?} is no name"), token: Vec::new() };
        let value = CString::new(name).map_err(unfit)?;
        let element = KeyValue { key: c"keytab".as_ptr(), value: value.as_ptr() };
        let store = KeyValueSet { count: 1, elements: &element };
        let mechanisms = OidSet { count: 1, elements: &KERBEROS };
        let (mut minor, mut handle) = (0, ptr::null_mut());
        // SAFETY: mechanisms and store outlive the call, which only reads them; no name, no interest in which mechanisms
        // and times came of it are null and 0.
        let major = unsafe {
            (gssapi.acquire_cred_from)(
                &mut minor,
                ptr::null_mut(),
                0,
                &mechanisms,
                ACCEPT,
                &store,
                &mut handle,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        // Made before the outcome is looked at, so that whatever there is goes away with it.
        let keys = Keys { gssapi, handle };
        gssapi.checked(major, minor)?;
        Ok(keys)
    }

    /// Takes a client's token. Blocks: keytab and replay cache are files.
    pub(super) fn accept(&self, token: &[u8]) -> Result<Accepted, Failure> {
        let gssapi = self.gssapi;
        let mut context = Context { gssapi, handle: ptr::null_mut() };
        let mut name = Name { gssapi, handle: ptr::null_mut() };
        let (input, mut output) = (Buffer::reading(token), Buffer::EMPTY);
        let (mut minor, mut seconds) = (0, 0);
        // SAFETY: the credentials are the library's; context and name are null and written; the input outlives the call;
        // no bindings and no interest in mechanism, flags and delegated credentials are null.
        let major = unsafe {
            (gssapi.accept_sec_context)(
                &mut minor,
                &mut context.handle,
                self.handle,
                &input,
                ptr::null(),
                &mut name.handle,
                ptr::null_mut(),
                &mut output,
                ptr::null_mut(),
                &mut seconds,
                ptr::null_mut(),
            )
        };
        let outcome = gssapi.checked(major, minor);
        // SAFETY: the library wrote the buffer, or it is empty.
        let token = unsafe { gssapi.taken(&mut output) };
        outcome.map_err(|failure| Failure { token: token.clone(), ..failure })?;
        if major & CONTINUE_NEEDED != 0 {
            let text = "the client wants a third message (DCE style), which SMB has no use for".into();
            return Err(Failure { minor: 0, text, token: Vec::new() });
        }
        let (key, key_type) = context.session_key()?;
        Ok(Accepted {
            client: name.text()?,
            logon: name.logon_info()?,
            lifetime: (seconds != INDEFINITE).then_some(seconds),
            reply: token,
            key,
            key_type,
            context,
        })
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // SAFETY: it is the library's and used by nobody any more; a null one it leaves alone.
        unsafe { (self.gssapi.release_cred)(&mut 0, &mut self.handle) };
    }
}

/// A client that has shown a good ticket.
pub(super) struct Accepted {
    /// Its name as the library writes it.
    pub(super) client: String,
    /// What its PAC says.
    pub(super) logon: LogonBuffer,
    /// Seconds.
    pub(super) lifetime: Option<u32>,
    /// The answer for the client.
    pub(super) reply: Vec<u8>,
    /// The whole key.
    pub(super) key: Zeroizing<Vec<u8>>,
    /// The encryption type that the key is for.
    pub(super) key_type: Option<i32>,
    /// For signatures.
    pub(super) context: Context,
}

/// The logon information of a PAC.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum LogonBuffer {
    /// The ticket has none.
    Absent,
    /// It has, and no controller's signature of it that the server's key would confirm.
    Unsigned,
    /// It has, signed.
    Signed(Vec<u8>),
}

/// A security context that is established.
pub(super) struct Context {
    gssapi: &'static Gssapi,
    handle: Opaque,
}

// SAFETY: MIT's library lets any thread use a context, one at a time; every call that changes it takes `&mut self`.
unsafe impl Send for Context {}

impl Context {
    /// The whole key that both sides have agreed on, and its type, which the library gives as the last number of an
    /// object identifier.
    fn session_key(&self) -> Result<(Zeroizing<Vec<u8>>, Option<i32>), Failure> {
        let (mut minor, mut set) = (0, ptr::null_mut());
        // SAFETY: the context is the library's, or null, which it refuses; the identifier is static.
        let major =
            unsafe { (self.gssapi.inquire_sec_context_by_oid)(&mut minor, self.handle, &SESSION_KEY, &mut set) };
        let outcome = self.gssapi.checked(major, minor);
        let (mut key, mut key_type) = (Zeroizing::new(Vec::new()), None);
        if !set.is_null() {
            // SAFETY: a set that was answered holds `count` buffers until it is released, which comes after.
            unsafe {
                let elements = &*set;
                if !elements.elements.is_null() {
                    let elements = slice::from_raw_parts(elements.elements, elements.count);
                    key = Zeroizing::new(elements.first().map_or_else(Vec::new, |buffer| buffer.to_vec()));
                    key_type = elements.get(1).and_then(|buffer| last_arc(&buffer.to_vec()));
                }
                (self.gssapi.release_buffer_set)(&mut minor, &mut set);
            }
        }
        outcome.map(|()| (key, key_type))
    }
}

/// The last number of an object identifier, as the content of its DER element.
fn last_arc(oid: &[u8]) -> Option<i32> {
    let (last, before) = oid.split_last()?;
    let digits = before.iter().rev().take_while(|byte| **byte & 0x80 != 0).count();
    let digits = before[before.len() - digits..].iter().map(|byte| byte & 0x7F).chain([*last]);
    digits.clone().count().lt(&5).then(|| digits.fold(0, |value, digit| value << 7 | i32::from(digit)))
}

impl Signatures for Context {
    fn sign(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        let (message, mut mic, mut minor) = (Buffer::reading(message), Buffer::EMPTY, 0);
        // SAFETY: the context is the library's; the message outlives the call; the buffer is written or stays empty.
        let (major, mic) = unsafe {
            let major = (self.gssapi.get_mic)(&mut minor, self.handle, 0, &message, &mut mic);
            (major, self.gssapi.taken(&mut mic))
        };
        (major >> 16 == 0).then_some(mic)
    }

    fn verify(&mut self, message: &[u8], signature: &[u8]) -> bool {
        let (message, mic, mut minor) = (Buffer::reading(message), Buffer::reading(signature), 0);
        // SAFETY: the context is the library's; both buffers outlive the call.
        let major = unsafe { (self.gssapi.verify_mic)(&mut minor, self.handle, &message, &mic, ptr::null_mut()) };
        major >> 16 == 0
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it is the library's and used by nobody any more; a null one it leaves alone.
        unsafe { (self.gssapi.delete_sec_context)(&mut 0, &mut self.handle, ptr::null_mut()) };
    }
}

/// A client's name.
struct Name {
    gssapi: &'static Gssapi,
    handle: Opaque,
}

impl Name {
    fn text(&self) -> Result<String, Failure> {
        let (mut minor, mut buffer) = (0, Buffer::EMPTY);
        // SAFETY: the name is the library's, or null, which it refuses; no interest in its type is null.
        let major = unsafe { (self.gssapi.display_name)(&mut minor, self.handle, &mut buffer, ptr::null_mut()) };
        let outcome = self.gssapi.checked(major, minor);
        // SAFETY: the library wrote the buffer, or it is empty.
        let bytes = unsafe { self.gssapi.taken(&mut buffer) };
        outcome?;
        String::from_utf8(bytes).map_err(|_| Failure {
            minor: 0,
            text: "the client's name is no UTF-8".into(),
            token: Vec::new(),
        })
    }

    /// The library checks the signature of a PAC with the server's key and calls its parts authenticated if it is right.
    fn logon_info(&self) -> Result<LogonBuffer, Failure> {
        let attribute = Buffer::reading(LOGON_INFO);
        let (mut minor, mut authenticated, mut complete, mut more) = (0, 0, 0, -1);
        let (mut value, mut shown) = (Buffer::EMPTY, Buffer::EMPTY);
        // SAFETY: the name is the library's, or null, which it refuses; the attribute outlives the call; the rest is written.
        let major = unsafe {
            (self.gssapi.get_name_attribute)(
                &mut minor,
                self.handle,
                &attribute,
                &mut authenticated,
                &mut complete,
                &mut value,
                &mut shown,
                &mut more,
            )
        };
        let outcome = self.gssapi.checked(major, minor);
        // SAFETY: the library wrote both buffers, or they are empty.
        let bytes = unsafe {
            self.gssapi.taken(&mut shown);
            self.gssapi.taken(&mut value)
        };
        match outcome {
            Err(_) if major == UNAVAILABLE => Ok(LogonBuffer::Absent),
            Err(failure) => Err(failure),
            Ok(()) if authenticated == 0 => Ok(LogonBuffer::Unsigned),
            Ok(()) => Ok(LogonBuffer::Signed(bytes)),
        }
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        // SAFETY: it is the library's and used by nobody any more; a null one it leaves alone.
        unsafe { (self.gssapi.release_name)(&mut 0, &mut self.handle) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_named_with_the_remedy() {
        let error = Gssapi::load("libfrevo_no_such.so.9").err().expect("nothing to load");
        for part in ["libfrevo_no_such.so.9", "libgssapi-krb5-2"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_library_without_gss_api_is_refused() {
        let error = Gssapi::load("libc.so.6").err().expect("not GSS-API");
        assert!(error.contains("gss_acquire_cred_from"), "{error}");
    }

    #[test]
    fn the_type_of_a_key_is_the_last_number() {
        let prefix = [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x12, 0x01, 0x02, 0x02, 0x04];
        for (digits, expected) in
            [(&[18][..], Some(18)), (&[0x81, 0x05], Some(133)), (&[0xFF, 0xFF, 0xFF, 0xFF, 0x7F], None)]
        {
            assert_eq!(last_arc(&[&prefix, digits].concat()), expected, "{digits:?}");
        }
        assert_eq!(last_arc(&[]), None);
    }

    /// Needs no KDC: what goes wrong is said by the library itself, which hosts without it say instead.
    #[test]
    fn a_keytab_that_is_not_there_is_named() {
        let text = match Gssapi::get() {
            Ok(gssapi) => Keys::of(gssapi, "FILE:/nonexistent/keytab").err().expect("no keytab").text,
            Err(missing) => return assert!(missing.contains("libgssapi-krb5-2"), "{missing}"),
        };
        assert!(text.contains("/nonexistent/keytab"), "{text}");
    }
}
