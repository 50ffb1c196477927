//! Per-file locks for requests that read something of a file and change it in several steps.
//!
//! Two such requests for one file must be serialized, or one of the changes would be lost: a descriptor is stored as a
//! whole, but set part by part; data that is appended is written at the size of the file. Requests for other files do
//! not wait.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::vfs::FileId;

/// The holders and waiters of the locks.
#[derive(Default)]
pub(crate) struct FileLocks {
    /// The first waiter of each queue holds the lock. No queue is empty.
    lines: Mutex<HashMap<FileId, VecDeque<Waiter>>>,
    tickets: AtomicU64,
}

struct Waiter {
    ticket: u64,
    waker: Option<Waker>,
}

/// The lock of one file, released on drop.
#[must_use]
pub(crate) struct Turn<'a> {
    turns: &'a FileLocks,
    file: FileId,
    ticket: u64,
}

impl FileLocks {
    /// Waits for the lock of `file`. A stream uses the lock of its file.
    pub(crate) async fn take(&self, file: FileId) -> Turn<'_> {
        let file = FileId { stream: 0, ..file };
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        self.lines.lock().entry(file).or_default().push_back(Waiter { ticket, waker: None });
        // Created before waiting, so that a cancelled wait leaves the queue.
        let turn = Turn { turns: self, file, ticket };
        poll_fn(|context| turn.poll(context)).await;
        turn
    }
}

impl Turn<'_> {
    fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut lines = self.turns.lines.lock();
        let mut line = lines.get_mut(&self.file).into_iter().flatten().enumerate();
        match line.find(|(_, waiter)| waiter.ticket == self.ticket) {
            Some((ahead, waiter)) if ahead > 0 => {
                waiter.waker = Some(context.waker().clone());
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut lines = self.turns.lines.lock();
        let Some(line) = lines.get_mut(&self.file) else { return };
        line.retain(|waiter| waiter.ticket != self.ticket);
        let next = line.front_mut().and_then(|first| first.waker.take());
        if line.is_empty() {
            lines.remove(&self.file);
        }
        drop(lines);
        next.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    fn file(inode: u64) -> FileId {
        FileId { device: 1, inode, stream: 0 }
    }

    #[test]
    fn turns_are_taken_in_order_and_dropped_waiters_are_skipped() {
        let turns = FileLocks::default();
        let mut context = Context::from_waker(Waker::noop());
        let mut first = pin!(turns.take(file(1)));
        let Poll::Ready(turn) = first.as_mut().poll(&mut context) else { panic!("no other waiter is before it") };
        assert!(pin!(turns.take(file(2))).poll(&mut context).is_ready(), "another file");
        let mut second = Box::pin(turns.take(FileId { stream: 3, ..file(1) }));
        let mut third = Box::pin(turns.take(file(1)));
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert!(third.as_mut().poll(&mut context).is_pending());
        drop(second);
        assert!(third.as_mut().poll(&mut context).is_pending());
        drop(turn);
        let Poll::Ready(turn) = third.as_mut().poll(&mut context) else { panic!("it is the next") };
        drop(turn);
        assert!(turns.lines.lock().is_empty(), "nothing is stored for files that are not being changed");
    }

    #[test]
    fn the_next_waiter_is_woken() {
        struct Told(AtomicU64);

        impl std::task::Wake for Told {
            fn wake(self: std::sync::Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }

        let told = std::sync::Arc::new(Told(AtomicU64::new(0)));
        let waker = Waker::from(told.clone());
        let mut context = Context::from_waker(&waker);
        let turns = FileLocks::default();
        let Poll::Ready(first) = pin!(turns.take(file(1))).poll(&mut context) else {
            panic!("no other waiter is before it")
        };
        let mut lines: Vec<_> = (0..2).map(|_| Box::pin(turns.take(file(1)))).collect();
        assert!(lines.iter_mut().all(|line| line.as_mut().poll(&mut context).is_pending()));
        drop(first);
        assert_eq!(told.0.load(Ordering::Relaxed), 1, "the next waiter");
    }
}
