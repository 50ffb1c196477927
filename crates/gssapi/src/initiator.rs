//! Presenting a ticket: a context with mutual authentication for a service on a host.

use std::ptr;

use crate::library::{Buffer, CONTINUE_NEEDED, HOSTBASED_SERVICE, KERBEROS, Library, Opaque};
use crate::{Context, Failure};

/// `GSS_C_MUTUAL_FLAG`: the server authenticates itself as well.
const MUTUAL: u32 = 2;
/// `GSS_C_REPLAY_FLAG`, `GSS_C_SEQUENCE_FLAG` and `GSS_C_INTEG_FLAG`, which signing the mechanism list requires.
const SIGNATURES: u32 = 4 | 8 | 32;

/// A context in progress or established, and the name of its peer.
pub struct Initiator {
    name: Opaque,
    context: Context,
    established: bool,
    mutual: bool,
}

// SAFETY: MIT's library lets any thread use a name, one at a time; all uses take `&mut self`.
unsafe impl Send for Initiator {}

impl Initiator {
    /// Creates a context for a service on a host, written `service@host`.
    pub fn new(library: &'static Library, service: &str) -> Result<Initiator, Failure> {
        let text = Buffer::reading(service.as_bytes());
        let (mut minor, mut name) = (0, ptr::null_mut());
        // SAFETY: text and identifier outlive the call, which only reads them.
        let major = unsafe { (library.import_name)(&mut minor, &text, &HOSTBASED_SERVICE, &mut name) };
        // Built before the result is checked, so that a partial handle is released on an error.
        let initiator = Initiator { name, context: Context::none(library), established: false, mutual: false };
        library.checked(major, minor)?;
        Ok(initiator)
    }

    /// Returns the next token for the server, given the server's last token, which is empty at first. The result is
    /// empty when there is no token to send.
    pub fn step(&mut self, token: &[u8]) -> Result<Vec<u8>, Failure> {
        let input = Buffer::reading(token);
        let input = if token.is_empty() { ptr::null() } else { &raw const input };
        let mut flags = 0;
        let (library, name, handle) = (self.context.library, self.name, &mut self.context.handle);
        // SAFETY: the name and the context are the library's, and the context is null the first time; the input is null
        // or outlives the call; null and 0 mean default credentials and no bindings, and skip the outputs for times and
        // mechanism.
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

    /// Returns whether both sides have authenticated themselves.
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
        // SAFETY: the handle is the library's and not used any more; the library ignores a null one.
        unsafe { (self.context.library.release_name)(&mut 0, &mut self.name) };
    }
}
