//! Loops whose length a client chooses: each lets other requests have the thread now and then.
//!
//! A request is executed on its connection's task as far as it goes without waiting. What yields here goes on beside the
//! requests that come next, and other connections are served in between.

use std::future::poll_fn;
use std::task::Poll;

/// Lets the other tasks of this thread run once.
pub(crate) async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// What a loop may do before it yields: about 100 microseconds of it.
const BUDGET: u32 = 256;

/// The work of one loop.
pub(crate) struct Work {
    left: u32,
}

impl Work {
    pub(crate) fn new() -> Work {
        Work { left: BUDGET }
    }

    /// Does so much, a microsecond's worth being 2 or 3; yields where that is too much at a time.
    pub(crate) async fn spend(&mut self, cost: u32) {
        match self.left.checked_sub(cost) {
            Some(left) => self.left = left,
            None => {
                self.left = BUDGET;
                yield_now().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn a_long_loop_yields_again_and_again() {
        let work = async {
            let mut work = Work::new();
            for _ in 0..10 * BUDGET {
                work.spend(1).await;
            }
        };
        let (mut work, mut polls) = (pin!(work), 1);
        while work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            polls += 1;
        }
        assert_eq!(polls, 10);
    }
}
