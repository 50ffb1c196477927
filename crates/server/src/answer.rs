//! [`Answer`]: a result that is usually available at once, and sometimes only later.
//!
//! A file system answers from its caches most of the time. An `async fn` behind a trait object would allocate a future
//! for each of those answers; an [`Answer`] allocates only if the work is passed to another thread.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future that a method of a trait object returns.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A value that is ready, or a future of it.
#[must_use = "an answer does nothing until it is awaited"]
pub enum Answer<T> {
    /// The value; `None` once it has been taken by `poll`.
    Now(Option<T>),
    /// Work in progress elsewhere.
    Later(Pin<Box<dyn Future<Output = T> + Send>>),
}

impl<T> Answer<T> {
    /// Returns an answer that is ready.
    pub fn now(value: T) -> Self {
        Answer::Now(Some(value))
    }

    /// Returns an answer that a future will provide.
    pub fn later(future: impl Future<Output = T> + Send + 'static) -> Self {
        Answer::Later(Box::pin(future))
    }

    /// Applies `map` to the value, immediately if the value is ready.
    pub fn map<U>(self, map: impl FnOnce(T) -> U + Send + 'static) -> Answer<U>
    where
        T: 'static,
        U: Send + 'static,
    {
        self.then(|value| Answer::now(map(value)))
    }

    /// Passes the value to `next` and returns the answer of that.
    pub fn then<U>(self, next: impl FnOnce(T) -> Answer<U> + Send + 'static) -> Answer<U>
    where
        T: 'static,
        U: Send + 'static,
    {
        match self {
            Answer::Now(value) => next(value.expect("an answer is not used again after it was polled")),
            Answer::Later(later) => Answer::later(async move { next(later.await).await }),
        }
    }
}

// A value is moved out of `Now` whole and never pinned.
impl<T> Unpin for Answer<T> {}

impl<T> Future for Answer<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        match &mut *self {
            Answer::Now(value) => Poll::Ready(value.take().expect("an answer is not polled again after it was ready")),
            Answer::Later(future) => future.as_mut().poll(context),
        }
    }
}

/// Lets all other ready tasks run before the caller continues, for loops whose length a client chooses.
pub(crate) async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Waits for `future` on this thread, for tests. Polls it whenever it wakes the thread.
///
/// # Panics
/// If it is not ready after ten thousand polls, or is not woken for a minute.
#[cfg(any(test, feature = "contract"))]
#[track_caller]
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    use std::time::Duration;

    struct Thread(std::thread::Thread);

    impl std::task::Wake for Thread {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = std::sync::Arc::new(Thread(std::thread::current())).into();
    let mut context = Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    for _ in 0..10_000 {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        std::thread::park_timeout(Duration::from_secs(60));
    }
    panic!("the answer never becomes ready");
}
