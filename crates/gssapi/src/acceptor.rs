//! Accepting a client: credentials from a keytab, and the content of the client's ticket.

use std::ffi::{CString, c_int};
use std::ptr;

use zeroize::Zeroizing;

use crate::library::{Buffer, CONTINUE_NEEDED, KERBEROS, KeyValue, KeyValueSet, Library, OidSet, Opaque};
use crate::{Context, Failure, UNAVAILABLE};

/// `GSS_C_ACCEPT`: credentials for accepting.
const ACCEPT: c_int = 2;
/// `GSS_C_INDEFINITE`.
const INDEFINITE: u32 = u32::MAX;
/// MIT's attribute name for the logon information of a PAC.
const LOGON_INFO: &[u8] = b"urn:mspac:logon-info";

/// The keys of a keytab, for any service.
pub struct Keys {
    library: &'static Library,
    handle: Opaque,
}

impl Keys {
    /// Loads the keytab `name` (`FILE:/etc/krb5.keytab`), which must contain a key.
    pub fn of(library: &'static Library, name: &str) -> Result<Keys, Failure> {
        let value = CString::new(name).map_err(|_| Failure::own(format!("{name:?} is not a valid name")))?;
        let element = KeyValue { key: c"keytab".as_ptr(), value: value.as_ptr() };
        let store = KeyValueSet { count: 1, elements: &element };
        let mechanisms = OidSet { count: 1, elements: &KERBEROS };
        let (mut minor, mut handle) = (0, ptr::null_mut());
        // SAFETY: mechanisms and store outlive the call, which only reads them; a null name means any name; null and 0
        // skip the outputs for mechanisms and times.
        let major = unsafe {
            (library.acquire_cred_from)(
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
        // Built before the result is checked, so that a partial handle is released on an error.
        let keys = Keys { library, handle };
        library.checked(major, minor)?;
        Ok(keys)
    }

    /// Accepts a client's token.
    pub fn accept(&self, token: &[u8]) -> Result<Accepted, Failure> {
        let library = self.library;
        let mut context = Context::none(library);
        let mut name = Name { library, handle: ptr::null_mut() };
        let (input, mut seconds) = (Buffer::reading(token), 0);
        let (context_handle, name_handle) = (&mut context.handle, &mut name.handle);
        // SAFETY: the credentials are the library's; context and name are null and written; the input outlives the
        // call; null means no bindings, and skips the outputs for mechanism, flags and delegated credentials.
        let (outcome, reply) = library.written(|minor, output| unsafe {
            (library.accept_sec_context)(
                minor,
                context_handle,
                self.handle,
                &input,
                ptr::null(),
                name_handle,
                ptr::null_mut(),
                output,
                ptr::null_mut(),
                &mut seconds,
                ptr::null_mut(),
            )
        });
        let major = match outcome {
            Ok(major) => major,
            Err(failure) => return Err(Failure { token: reply, ..failure }),
        };
        if major & CONTINUE_NEEDED != 0 {
            return Err(Failure::own("the client requests a third message (DCE style), which SMB does not use"));
        }
        let (key, key_type) = context.session_key()?;
        let lifetime = (seconds != INDEFINITE).then_some(seconds);
        let service = Name::of_acceptor(library, &context)?.text()?;
        Ok(Accepted {
            client: name.text()?,
            service,
            logon: name.logon_info()?,
            lifetime,
            reply,
            key,
            key_type,
            context,
        })
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // SAFETY: the handle is the library's and not used any more; the library ignores a null one.
        unsafe { (self.library.release_cred)(&mut 0, &mut self.handle) };
    }
}

/// A client that has presented a valid ticket.
pub struct Accepted {
    /// The client's name in the library's notation.
    pub client: String,
    /// The name of the keytab entry whose key the ticket is encrypted with. The name in the ticket's clear part is
    /// ignored.
    pub service: String,
    /// The logon information of the PAC.
    pub logon: LogonBuffer,
    /// The remaining lifetime of the ticket in seconds; `None` if it is indefinite.
    pub lifetime: Option<u32>,
    /// The reply token for the client.
    pub reply: Vec<u8>,
    /// The full session key.
    pub key: Zeroizing<Vec<u8>>,
    /// The encryption type of the session key.
    pub key_type: Option<i32>,
    /// The context, for signatures.
    pub context: Context,
}

/// The logon information of a PAC.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LogonBuffer {
    /// The ticket has no PAC logon information.
    Absent,
    /// The logon information is present, but has no signature that the server's key verifies.
    Unsigned,
    /// The logon information is present and signed.
    Signed(Vec<u8>),
}

/// A client's name, or the server's own.
struct Name {
    library: &'static Library,
    handle: Opaque,
}

impl Name {
    /// Returns the server's own name in `context`, which the library takes from the keytab.
    fn of_acceptor(library: &'static Library, context: &Context) -> Result<Name, Failure> {
        let mut name = Name { library, handle: ptr::null_mut() };
        let mut minor = 0;
        // SAFETY: the context is the library's; the name is null and written; null skips the other outputs.
        let major = unsafe {
            (library.inquire_context)(
                &mut minor,
                context.handle,
                ptr::null_mut(),
                &mut name.handle,
                ptr::null_mut(),
                ptr::null_mut(),
                ptr::null_mut(),
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        library.checked(major, minor)?;
        Ok(name)
    }

    fn text(&self) -> Result<String, Failure> {
        // SAFETY: the name is the library's, or null, which it refuses; null skips the output for the name type.
        let (outcome, bytes) = self.library.written(|minor, buffer| unsafe {
            (self.library.display_name)(minor, self.handle, buffer, ptr::null_mut())
        });
        outcome?;
        String::from_utf8(bytes).map_err(|_| Failure::own("a name in the ticket is not valid UTF-8"))
    }

    /// Returns the logon information of the PAC. The library checks the PAC's signature with the server's key and marks
    /// the attribute as authenticated if it is valid.
    fn logon_info(&self) -> Result<LogonBuffer, Failure> {
        let attribute = Buffer::reading(LOGON_INFO);
        let (mut authenticated, mut complete, mut more) = (0, 0, -1);
        let mut shown = Buffer::EMPTY;
        // SAFETY: the name is the library's, or null, which it refuses; the attribute outlives the call; the rest is
        // written.
        let (outcome, bytes) = self.library.written(|minor, value| unsafe {
            (self.library.get_name_attribute)(
                minor,
                self.handle,
                &attribute,
                &mut authenticated,
                &mut complete,
                value,
                &mut shown,
                &mut more,
            )
        });
        // SAFETY: the library wrote the buffer, or it is empty.
        unsafe { self.library.taken(&mut shown) };
        match outcome {
            Err(failure) if failure.major == UNAVAILABLE => Ok(LogonBuffer::Absent),
            Err(failure) => Err(failure),
            Ok(_) if authenticated == 0 => Ok(LogonBuffer::Unsigned),
            Ok(_) => Ok(LogonBuffer::Signed(bytes)),
        }
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        // SAFETY: the handle is the library's and not used any more; the library ignores a null one.
        unsafe { (self.library.release_name)(&mut 0, &mut self.handle) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs no KDC, because the library reports the error itself. A host without the library reports its absence
    /// instead.
    #[test]
    fn a_missing_keytab_is_named() {
        let text = match Library::get() {
            Ok(library) => Keys::of(library, "FILE:/nonexistent/keytab").err().expect("no keytab").text,
            Err(missing) => return assert!(missing.contains("libgssapi-krb5-2"), "{missing}"),
        };
        assert!(text.contains("/nonexistent/keytab"), "{text}");
    }
}
