//! The library's functions under their names in RFC 2744 and MIT's extensions, the structures that they take, and the
//! texts of status codes.

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;
use std::{ptr, slice};

use proto::auth::spnego::MechType;

use crate::Failure;

/// The file name of the library on every host that has MIT Kerberos.
const LIBRARY: &str = "libgssapi_krb5.so.2";

/// The maximum number of texts read for one error.
const MOST_MESSAGES: usize = 8;

/// `GSS_C_GSS_CODE` and `GSS_C_MECH_CODE`: the kind of the status code to display.
const GSS_CODE: c_int = 1;
const MECH_CODE: c_int = 2;

/// `GSS_S_CONTINUE_NEEDED`: another token from the peer is needed.
pub(crate) const CONTINUE_NEEDED: u32 = 1;

/// `gss_buffer_desc`.
#[repr(C)]
pub(crate) struct Buffer {
    length: usize,
    value: *mut c_void,
}

impl Buffer {
    pub(crate) const EMPTY: Buffer = Buffer { length: 0, value: ptr::null_mut() };

    /// A buffer that the library only reads.
    pub(crate) fn reading(bytes: &[u8]) -> Buffer {
        Buffer { length: bytes.len(), value: bytes.as_ptr().cast_mut().cast() }
    }

    /// # Safety
    ///
    /// The library wrote this buffer and has not released it since.
    pub(crate) unsafe fn to_vec(&self) -> Vec<u8> {
        if self.value.is_null() {
            return Vec::new();
        }
        // SAFETY: not null, so it points to `length` bytes until it is released, and the caller guarantees that it is
        // not.
        unsafe { slice::from_raw_parts(self.value.cast::<u8>(), self.length) }.to_vec()
    }
}

/// `gss_OID_desc`.
#[repr(C)]
pub(crate) struct Oid {
    length: u32,
    elements: *const c_void,
}

// SAFETY: all shared values point to static bytes that never change.
unsafe impl Sync for Oid {}

impl Oid {
    const fn new(content: &'static [u8]) -> Oid {
        Oid { length: content.len() as u32, elements: content.as_ptr().cast() }
    }
}

pub(crate) static KERBEROS: Oid = Oid::new(MechType::KERBEROS.0);
/// 1.2.840.113554.1.2.1.4, `GSS_C_NT_HOSTBASED_SERVICE`: names of the form `service@host`.
pub(crate) static HOSTBASED_SERVICE: Oid = Oid::new(&[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x12, 0x01, 0x02, 0x01, 0x04]);
/// 1.2.840.113554.1.2.2.5.5, `GSS_C_INQ_SSPI_SESSION_KEY`: the session key.
pub(crate) static SESSION_KEY: Oid = Oid::new(&[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x12, 0x01, 0x02, 0x02, 0x05, 0x05]);

/// `gss_OID_set_desc`.
#[repr(C)]
pub(crate) struct OidSet {
    pub(crate) count: usize,
    pub(crate) elements: *const Oid,
}

/// `gss_buffer_set_desc`.
#[repr(C)]
pub(crate) struct BufferSet {
    pub(crate) count: usize,
    pub(crate) elements: *mut Buffer,
}

/// `gss_key_value_element_desc` and `gss_key_value_set_desc`.
#[repr(C)]
pub(crate) struct KeyValue {
    pub(crate) key: *const c_char,
    pub(crate) value: *const c_char,
}

#[repr(C)]
pub(crate) struct KeyValueSet {
    pub(crate) count: u32,
    pub(crate) elements: *const KeyValue,
}

/// `gss_name_t`, `gss_ctx_id_t` and `gss_cred_id_t`: opaque pointers owned by the library.
pub(crate) type Opaque = *mut c_void;

/// Defines a structure of the library's functions, each named without `gss_`, and the code that loads them.
macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*);)*) => {
        /// The functions of the library.
        pub struct Library {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) -> u32,)*
            /// Keeps the functions loaded.
            _library: libloading::Library,
        }

        impl Library {
            fn load(name: &str) -> Result<Library, String> {
                let absent = |error: libloading::Error| {
                    format!("{error}; install MIT Kerberos (Debian: libgssapi-krb5-2; Fedora: krb5-libs)")
                };
                // SAFETY: the library's initialization only prepares its own tables and locks.
                let library = unsafe { libloading::Library::new(name) }.map_err(absent)?;
                // SAFETY: the types are those of RFC 2744 5 and of MIT's gssapi_ext.h; the library is kept loaded along
                // with the functions.
                unsafe {
                    Ok(Library {
                        $($name: *library.get(concat!("gss_", stringify!($name)).as_bytes()).map_err(absent)?,)*
                        _library: library,
                    })
                }
            }
        }
    };
}

functions! {
    acquire_cred_from: fn(
        *mut u32, Opaque, u32, *const OidSet, c_int, *const KeyValueSet, *mut Opaque, *mut *mut OidSet, *mut u32
    );
    release_cred: fn(*mut u32, *mut Opaque);
    import_name: fn(*mut u32, *const Buffer, *const Oid, *mut Opaque);
    display_name: fn(*mut u32, Opaque, *mut Buffer, *mut *const Oid);
    get_name_attribute: fn(
        *mut u32, Opaque, *const Buffer, *mut c_int, *mut c_int, *mut Buffer, *mut Buffer, *mut c_int
    );
    release_name: fn(*mut u32, *mut Opaque);
    init_sec_context: fn(
        *mut u32, Opaque, *mut Opaque, Opaque, *const Oid, u32, u32, *const c_void, *const Buffer, *mut *const Oid,
        *mut Buffer, *mut u32, *mut u32
    );
    accept_sec_context: fn(
        *mut u32, *mut Opaque, Opaque, *const Buffer, *const c_void, *mut Opaque, *mut *const Oid, *mut Buffer,
        *mut u32, *mut u32, *mut Opaque
    );
    delete_sec_context: fn(*mut u32, *mut Opaque, *mut Buffer);
    inquire_context: fn(
        *mut u32, Opaque, *mut Opaque, *mut Opaque, *mut u32, *mut *const Oid, *mut u32, *mut c_int, *mut c_int
    );
    inquire_sec_context_by_oid: fn(*mut u32, Opaque, *const Oid, *mut *mut BufferSet);
    release_buffer_set: fn(*mut u32, *mut *mut BufferSet);
    get_mic: fn(*mut u32, Opaque, u32, *const Buffer, *mut Buffer);
    verify_mic: fn(*mut u32, Opaque, *const Buffer, *const Buffer, *mut u32);
    display_status: fn(*mut u32, u32, c_int, *const Oid, *mut u32, *mut Buffer);
    release_buffer: fn(*mut u32, *mut Buffer);
}

impl Library {
    /// Returns the library, which is loaded once. The error names what is missing and how to install it.
    pub fn get() -> Result<&'static Library, String> {
        static LOADED: OnceLock<Library> = OnceLock::new();
        match LOADED.get() {
            Some(loaded) => Ok(loaded),
            None => {
                let loaded = Library::load(LIBRARY)?;
                Ok(LOADED.get_or_init(|| loaded))
            }
        }
    }

    /// Returns the content of a buffer and releases it.
    ///
    /// # Safety
    ///
    /// The library wrote this buffer and has not released it since, or it is empty.
    pub(crate) unsafe fn taken(&self, buffer: &mut Buffer) -> Vec<u8> {
        // SAFETY: as the caller promises.
        unsafe {
            let bytes = buffer.to_vec();
            (self.release_buffer)(&mut 0, buffer);
            bytes
        }
    }

    /// Calls `fill` with an output buffer. Returns its status code or the error, and the bytes that it wrote in either
    /// case.
    pub(crate) fn written(&self, fill: impl FnOnce(*mut u32, *mut Buffer) -> u32) -> (Result<u32, Failure>, Vec<u8>) {
        let (mut minor, mut buffer) = (0, Buffer::EMPTY);
        let major = fill(&mut minor, &mut buffer);
        let outcome = self.checked(major, minor).map(|()| major);
        // SAFETY: the library wrote the buffer, or it is empty.
        (outcome, unsafe { self.taken(&mut buffer) })
    }

    /// Turns a status code into a result. Must be called right after the failed call, because the library stores error
    /// texts per thread.
    pub(crate) fn checked(&self, major: u32, minor: u32) -> Result<(), Failure> {
        // The upper half holds errors; the lower half only supplements success.
        match major >> 16 {
            0 => Ok(()),
            _ => Err(Failure { major, minor, text: self.text(major, minor), token: Vec::new() }),
        }
    }

    /// Returns the text of the status codes. The mechanism's own text is preferred because it is more specific.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_named_with_the_remedy() {
        let error = Library::load("libfrevo_no_such.so.9").err().expect("the library cannot be loaded");
        for part in ["libfrevo_no_such.so.9", "libgssapi-krb5-2"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_library_without_gss_api_is_refused() {
        let error = Library::load("libc.so.6").err().expect("not GSS-API");
        assert!(error.contains("gss_acquire_cred_from"), "{error}");
    }
}
