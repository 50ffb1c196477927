//! The user on whose behalf a thread calls the library.
//!
//! The library keeps uid, gid and groups per thread and takes them from there when a call is submitted. All three are
//! set before every call on behalf of another user than that of the previous call.

use std::cell::RefCell;
use std::sync::Arc;

use backing::workers::ThreadIdentity;
use server::vfs::{Identity, Result, SERVER};

use crate::sys;

thread_local! {
    static CURRENT: RefCell<Option<Arc<Identity>>> = const { RefCell::new(None) };
}

/// Makes the thread's further calls on behalf of `who`.
///
/// # Errors
/// The library could not store the identity. The thread must not make calls.
pub(crate) fn assume(who: &Arc<Identity>) -> Result<()> {
    CURRENT.with_borrow_mut(|current| {
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, who) || current == who) {
            return Ok(());
        }
        *current = None;
        sys::act_as(who)?;
        *current = Some(Arc::clone(who));
        Ok(())
    })
}

/// Makes the thread's further calls on behalf of the server.
pub(crate) fn assume_server() -> Result<()> {
    assume(SERVER.identity())
}

/// Asserts identities on the workers of a volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LibraryIdentity;

impl ThreadIdentity for LibraryIdentity {
    fn assume(&self, user: &Arc<Identity>) -> Result<()> {
        assume(user)
    }
}
