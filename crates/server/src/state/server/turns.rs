//! Turns of work that occupies a processor for long.

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::policy::limits::KEY_DERIVATIONS;

/// Gives one request at a time a turn.
#[derive(Debug)]
pub(crate) struct Turns {
    places: Semaphore,
    turn: Semaphore,
}

/// A request's turn, which ends when the value is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    _turn: SemaphorePermit<'a>,
    _place: SemaphorePermit<'a>,
}

impl Default for Turns {
    fn default() -> Self {
        Turns { places: Semaphore::new(KEY_DERIVATIONS), turn: Semaphore::new(1) }
    }
}

impl Turns {
    /// Waits for a turn; returns `None` if too many requests wait already.
    pub(crate) async fn wait(&self) -> Option<Turn<'_>> {
        let place = self.places.try_acquire().ok()?;
        let turn = self.turn.acquire().await.ok()?;
        Some(Turn { _turn: turn, _place: place })
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn one_request_has_a_turn_and_few_wait() {
        let (turns, mut context) = (Turns::default(), Context::from_waker(Waker::noop()));
        let Poll::Ready(Some(first)) = pin!(turns.wait()).poll(&mut context) else { panic!("a turn is free") };
        let mut waiting: Vec<_> = (1..KEY_DERIVATIONS).map(|_| Box::pin(turns.wait())).collect();
        assert!(waiting.iter_mut().all(|request| request.as_mut().poll(&mut context).is_pending()));
        assert!(matches!(pin!(turns.wait()).poll(&mut context), Poll::Ready(None)), "too many wait");
        drop(first);
        let second = waiting.remove(0).as_mut().poll(&mut context);
        assert!(matches!(second, Poll::Ready(Some(_))));
        assert!(waiting[0].as_mut().poll(&mut context).is_pending(), "one at a time");
    }
}
