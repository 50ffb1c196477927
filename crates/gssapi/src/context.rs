//! A security context: its key and its signatures. The acceptor or initiator that creates it establishes it.

use std::{ptr, slice};

use zeroize::Zeroizing;

use crate::Failure;
use crate::library::{Buffer, Library, Opaque, SESSION_KEY};

/// A security context of the library. It is unusable until it is established.
pub struct Context {
    pub(crate) library: &'static Library,
    pub(crate) handle: Opaque,
}

// SAFETY: MIT's library lets any thread use a context, one at a time; every call that changes it takes `&mut self`.
unsafe impl Send for Context {}

impl Context {
    pub(crate) fn none(library: &'static Library) -> Context {
        Context { library, handle: ptr::null_mut() }
    }

    /// Returns the full session key, 16 bytes with AES-128 and 32 with AES-256, and its encryption type, which the
    /// library encodes as the last arc of an object identifier.
    pub fn session_key(&self) -> Result<(Zeroizing<Vec<u8>>, Option<i32>), Failure> {
        let (mut minor, mut set) = (0, ptr::null_mut());
        // SAFETY: the context is the library's, or null, which it refuses; the identifier is static.
        let major =
            unsafe { (self.library.inquire_sec_context_by_oid)(&mut minor, self.handle, &SESSION_KEY, &mut set) };
        let outcome = self.library.checked(major, minor);
        let (mut key, mut key_type) = (Zeroizing::new(Vec::new()), None);
        if !set.is_null() {
            // SAFETY: a returned set holds `count` buffers until it is released below.
            unsafe {
                let elements = &*set;
                if !elements.elements.is_null() {
                    let elements = slice::from_raw_parts(elements.elements, elements.count);
                    key = Zeroizing::new(elements.first().map_or_else(Vec::new, |buffer| buffer.to_vec()));
                    key_type = elements.get(1).and_then(|buffer| last_arc(&buffer.to_vec()));
                }
                (self.library.release_buffer_set)(&mut minor, &mut set);
            }
        }
        outcome.map(|()| (key, key_type))
    }

    /// Signs `message` (RFC 4121 4.2.6.1).
    pub fn mic(&mut self, message: &[u8]) -> Result<Vec<u8>, Failure> {
        let message = Buffer::reading(message);
        // SAFETY: the context is the library's, or null, which it refuses; the message outlives the call.
        let (outcome, mic) =
            self.library.written(|minor, mic| unsafe { (self.library.get_mic)(minor, self.handle, 0, &message, mic) });
        outcome.map(|_| mic)
    }

    /// Verifies the peer's signature of `message`.
    pub fn verify_mic(&mut self, message: &[u8], mic: &[u8]) -> Result<(), Failure> {
        let (message, mic, mut minor) = (Buffer::reading(message), Buffer::reading(mic), 0);
        // SAFETY: the context is the library's, or null, which it refuses; both buffers outlive the call.
        let major = unsafe { (self.library.verify_mic)(&mut minor, self.handle, &message, &mic, ptr::null_mut()) };
        self.library.checked(major, minor)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the handle is the library's and not used any more; the library ignores a null one.
        unsafe { (self.library.delete_sec_context)(&mut 0, &mut self.handle, ptr::null_mut()) };
    }
}

/// Returns the last arc of an object identifier, given as the content of its DER element.
fn last_arc(oid: &[u8]) -> Option<i32> {
    let (last, before) = oid.split_last()?;
    let digits = before.iter().rev().take_while(|byte| **byte & 0x80 != 0).count();
    let digits = before[before.len() - digits..].iter().map(|byte| byte & 0x7F).chain([*last]);
    digits.clone().count().lt(&5).then(|| digits.fold(0, |value, digit| value << 7 | i32::from(digit)))
}

#[cfg(test)]
mod tests {
    use super::*;

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

    /// Needs no KDC, because the library refuses every operation on a null context.
    #[test]
    fn an_incomplete_context_has_no_keys() {
        let library = match Library::get() {
            Ok(library) => library,
            Err(missing) => return assert!(missing.contains("libgssapi-krb5-2"), "{missing}"),
        };
        let mut context = Context::none(library);
        let failures = [
            context.session_key().map(drop).expect_err("the context has no key"),
            context.mic(b"list").map(drop).expect_err("the context cannot sign"),
            context.verify_mic(b"list", b"mic").expect_err("the context accepts no signature"),
        ];
        for failure in failures {
            assert!(failure.major >> 16 != 0 && !failure.text.is_empty(), "{failure:?}");
        }
    }
}
