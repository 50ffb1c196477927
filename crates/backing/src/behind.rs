//! Work for a handle that is done beside the next requests of its client, and the errors of this work.
//!
//! An error is returned once: by the next call that asks for it, at the latest by the one that closes the handle.

use std::sync::Arc;

use parking_lot::Mutex;
use server::answer::Answer;
use server::vfs::{Errno, Result};

use crate::completion::Completion;

/// The work for one handle.
#[derive(Default)]
pub struct Behind(Mutex<State>);

#[derive(Default)]
struct State {
    running: usize,
    /// The first error that was not returned yet.
    error: Option<Errno>,
    /// Calls that wait until nothing is running.
    waiting: Vec<Completion<()>>,
}

impl State {
    fn take_error(&mut self) -> Result<()> {
        self.error.take().map_or(Ok(()), Err)
    }
}

/// A piece of work. Dropped without a result, it has failed.
#[must_use = "the work fails if this is dropped"]
pub struct Running(Option<Arc<Behind>>);

impl Behind {
    /// Begins a piece of work.
    pub fn begin(self: &Arc<Self>) -> Running {
        self.0.lock().running += 1;
        Running(Some(Arc::clone(self)))
    }

    /// Returns the error of work that has ended.
    ///
    /// # Errors
    /// That error.
    pub fn check(&self) -> Result<()> {
        self.0.lock().take_error()
    }

    /// Waits until no work is running, and returns its error. `begin` begins the call that waits, whose time limit
    /// ends the wait ([`Workers::begin_always`](crate::workers::Workers::begin_always)).
    pub fn settled(
        self: &Arc<Self>,
        begin: impl FnOnce() -> (Completion<()>, Answer<Result<()>>),
    ) -> Answer<Result<()>> {
        let mut state = self.0.lock();
        if state.running == 0 {
            return Answer::now(state.take_error());
        }
        let (waiting, ended) = begin();
        state.waiting.push(waiting);
        drop(state);
        let behind = Arc::clone(self);
        Answer::later(async move {
            ended.await?;
            behind.check()
        })
    }

    fn end(&self, result: Result<()>) {
        let mut state = self.0.lock();
        state.running -= 1;
        if let Err(error) = result {
            state.error.get_or_insert(error);
        }
        if state.running == 0 {
            for waiting in state.waiting.drain(..) {
                waiting.complete(Ok(()));
            }
        }
    }
}

impl Running {
    /// Ends the work.
    pub fn end(mut self, result: Result<()>) {
        if let Some(behind) = self.0.take() {
            behind.end(result);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(behind) = self.0.take() {
            behind.end(Err(Errno::IO));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use server::answer::block_on;

    use super::*;

    /// Begins a call that may take `limit`.
    fn begin(limit: Option<Duration>) -> (Completion<()>, Answer<Result<()>>) {
        Completion::begin(1, limit, &Arc::default())
    }

    fn settled(behind: &Arc<Behind>) -> Result<()> {
        block_on(behind.settled(|| begin(None)))
    }

    #[test]
    fn an_error_is_returned_once() {
        let behind = Arc::new(Behind::default());
        assert_eq!(settled(&behind), Ok(()));
        behind.begin().end(Ok(()));
        assert_eq!(behind.check(), Ok(()));
        behind.begin().end(Err(Errno::NOSPC));
        behind.begin().end(Err(Errno::IO));
        assert_eq!((behind.check(), behind.check()), (Err(Errno::NOSPC), Ok(())));
        drop(behind.begin());
        assert_eq!(settled(&behind), Err(Errno::IO), "work that panics has failed");
        assert_eq!(settled(&behind), Ok(()));
    }

    #[test]
    fn a_call_waits_for_all_work() {
        let behind = Arc::new(Behind::default());
        let running = [behind.begin(), behind.begin()];
        let answer = behind.settled(|| begin(None));
        let work = std::thread::spawn(move || {
            let [first, second] = running;
            first.end(Err(Errno::NOSPC));
            second.end(Ok(()));
        });
        assert_eq!(block_on(answer), Err(Errno::NOSPC));
        work.join().expect("the thread does not panic");
        assert_eq!(settled(&behind), Ok(()));
    }

    #[test]
    fn a_call_waits_no_longer_than_its_limit() {
        let behind = Arc::new(Behind::default());
        let running = behind.begin();
        assert_eq!(block_on(behind.settled(|| begin(Some(Duration::from_millis(1))))), Err(Errno::TIMEDOUT));
        running.end(Err(Errno::NOSPC));
        assert_eq!(settled(&behind), Err(Errno::NOSPC), "the error is not lost");
    }
}
