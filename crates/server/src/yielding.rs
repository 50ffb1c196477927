//! Cooperative yielding for loops whose length a client chooses.
//!
//! A request is executed on its connection's task until it has to wait. A loop that yields here runs concurrently with
//! the following requests, and other connections are served in between.

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

/// Work units before a loop yields: about 100 microseconds.
const BUDGET: u32 = 256;

/// The work budget of one loop.
pub(crate) struct Work {
    left: u32,
}

impl Work {
    pub(crate) fn new() -> Work {
        Work { left: BUDGET }
    }

    /// Spends `cost` units, 2 or 3 of which take a microsecond; yields if the budget is used up.
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
