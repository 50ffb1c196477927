//! Showing a ticket: a context with mutual authentication, made with a service on a host.

use std::ptr;

use crate::library::{Buffer, CONTINUE_NEEDED, HOSTBASED_SERVICE, KERBEROS, Library, Opaque};
use crate::{Context, Failure};

/// `GSS_C_MUTUAL_FLAG`: the server proves who it is, too.
const MUTUAL: u32 = 2;
/// `GSS_C_REPLAY_FLAG`, `GSS_C_SEQUENCE_FLAG` and `GSS_C_INTEG_FLAG`: what signing the list of mechanisms takes.
const SIGNATURES: u32 = 4 | 8 | 32;

/// A context under way or established, and whom it is with.
pub struct Initiator {
    name: Opaque,
    context: Context,
    established: bool,
    mutual: bool,
}

// SAFETY: MIT's library lets any thread use a name, one at a time; what uses it takes `&mut self`.
unsafe impl Send for Initiator {}

impl Initiator {
    /// A context to be made with a service on a host, written `service@host`.
    pub fn new(library: &'static Library, service: &str) -> Result<Initiator, Failure> {
        let text = Buffer::reading(service.as_bytes());
        let (mut minor, mut name) = (0, ptr::null_mut());
        // SAFETY: text and identifier outlive the call, which only reads them.
        let major = unsafe { (library.import_name)(&mut minor, &text, &HOSTBASED_SERVICE, &mut name) };
        // Made before the outcome is looked at, so that whatever there is goes away with it.
        let initiator = Initiator { name, context: Context::none(library), established: false, mutual: false };
        library.checked(major, minor)?;
        Ok(initiator)
    }

    /// The next token for the server, from its last one; the first is made from nothing. Empty when there is none to send.
    pub fn step(&mut self, token: &[u8]) -> Result<Vec<u8>, Failure> {
        let input = Buffer::reading(token);
        let input = if token.is_empty() { ptr::null() } else { &raw const input };
        let mut flags = 0;
        let (library, name, handle) = (self.context.library, self.name, &mut self.context.handle);
        // SAFETY: the name is the library's and so is the context, which is null the first time; the input is null or
        // outlives the call; no credentials, no bindings and no interest in times and mechanism are null and 0.
        let (outcome, token) = library.written(|minor, output| unsafe {
            (library.init_sec_context)(
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
        });
        self.established = outcome? & CONTINUE_NEEDED == 0;
        self.mutual = flags & MUTUAL != 0;
        Ok(token)
    }

    /// Whether both sides have proved who they are.
    pub fn is_established(&self) -> bool {
        self.established && self.mutual
    }

    /// The context, for its key.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The context, for signatures.
    pub fn context_mut(&mut self) -> &mut Context {
        &mut self.context
    }
}

impl Drop for Initiator {
    fn drop(&mut self) {
        // SAFETY: it is the library's and used by nobody any more; a null one it leaves alone.
        unsafe { (self.context.library.release_name)(&mut 0, &mut self.name) };
    }
}
