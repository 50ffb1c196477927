//! [`Op`]: on whose behalf a storage call is made, how long it may take, and whether its result is still wanted.

use std::cell::RefCell;
use std::future::poll_fn;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::Identity;

thread_local! {
    /// The cancellation of the request that this thread executes.
    static CURRENT: RefCell<Option<Arc<Cancellation>>> = const { RefCell::new(None) };
}

/// The context of a storage call, the first argument of every call that may wait.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Op {
    identity: Arc<Identity>,
    timeout: Option<Duration>,
    server: bool,
}

impl Op {
    /// Creates the context for calls by `identity` that may take any time.
    pub fn new(identity: Arc<Identity>) -> Op {
        Op { identity, timeout: None, server: false }
    }

    /// Creates the context for calls by the server itself, as uid 0.
    pub(super) fn server() -> Op {
        Op { server: true, ..Op::from(Identity { uid: 0, gid: 0, groups: Box::default() }) }
    }

    /// Returns whether the server itself makes the call ([`SERVER`](super::SERVER)). A user with uid 0 is another
    /// caller.
    pub fn is_server(&self) -> bool {
        self.server
    }

    /// Returns the same context for calls each of which may take at most `timeout`.
    #[must_use]
    pub fn within(self, timeout: Option<Duration>) -> Op {
        Op { timeout, ..self }
    }

    /// The user on whose behalf the call is made.
    pub fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    /// How long a call may take from its start; `None` if it may take any time. A back end ends a longer call with
    /// `Errno::TIMEDOUT`. If that call changes anything, it is then unknown whether the change takes place.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// The cancellation of the request that makes the call; `None` if the request must be completed. A back end may end
    /// a call that has changed nothing with `Errno::CANCELED`.
    pub fn cancellation(&self) -> Option<Arc<Cancellation>> {
        CURRENT.with_borrow(Clone::clone)
    }
}

impl Deref for Op {
    type Target = Arc<Identity>;

    fn deref(&self) -> &Arc<Identity> {
        &self.identity
    }
}

impl From<Identity> for Op {
    fn from(identity: Identity) -> Op {
        Op::new(Arc::new(identity))
    }
}

/// Whether the result of a request is still wanted.
#[derive(Default, Debug)]
pub struct Cancellation(AtomicBool);

impl Cancellation {
    /// Records that the result is no longer wanted.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Returns whether the result is no longer wanted.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Runs `request`, which changes nothing, so that all its storage calls have this [`Op::cancellation`].
///
/// The future is borrowed: an async function has room for a future that it is passed twice, as its argument and while
/// it awaits it.
pub async fn cancellable<T>(cancellation: Arc<Cancellation>, mut request: Pin<&mut impl Future<Output = T>>) -> T {
    poll_fn(|context| {
        let _outer = Entered(CURRENT.replace(Some(Arc::clone(&cancellation))));
        request.as_mut().poll(context)
    })
    .await
}

/// Restores the cancellation of the outer request.
struct Entered(Option<Arc<Cancellation>>);

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;
    use crate::answer::{block_on, yield_now};

    fn op() -> Op {
        Op::from(Identity { uid: 1, gid: 1, groups: Box::default() })
    }

    #[test]
    fn calls_of_a_request_have_its_cancellation() {
        let (outer, inner) = (Arc::new(Cancellation::default()), Arc::new(Cancellation::default()));
        let is = |expected: &Arc<Cancellation>| op().cancellation().is_some_and(|it| Arc::ptr_eq(&it, expected));
        assert!(op().cancellation().is_none());
        let within = async {
            yield_now().await;
            assert!(is(&inner));
        };
        let request = async {
            assert!(is(&outer));
            cancellable(Arc::clone(&inner), pin!(within)).await;
            yield_now().await;
            assert!(is(&outer));
            outer.cancel();
            assert!(op().cancellation().is_some_and(|it| it.is_cancelled()));
        };
        block_on(cancellable(Arc::clone(&outer), pin!(request)));
        assert!(op().cancellation().is_none());
    }
}
