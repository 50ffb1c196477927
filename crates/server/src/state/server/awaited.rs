//! Oplocks that local programs wait for (`kernel oplocks`).

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Server;
use crate::number_hash::NumberMap;
use crate::vfs::FileId;

/// Files that local programs wait for, with the deadlines of their oplock breaks.
#[derive(Default)]
pub(crate) struct Awaited {
    deadlines: Mutex<NumberMap<FileId, Duration>>,
    added: Notify,
}

impl Awaited {
    fn add(&self, file: FileId, deadline: Duration) {
        self.deadlines.lock().insert(file, deadline);
        self.added.notify_one();
    }

    /// Removes and returns the files whose deadline is not after `now`.
    fn take_late(&self, now: Duration) -> Vec<FileId> {
        self.deadlines.lock().extract_if(|_, deadline| *deadline <= now).map(|(file, _)| file).collect()
    }

    fn next(&self) -> Option<Duration> {
        self.deadlines.lock().values().min().copied()
    }
}

impl Server {
    /// Ends, forever, oplocks that local programs wait for when the deadlines of their breaks expire.
    pub(crate) async fn end_awaited(&self) {
        loop {
            for file in self.opens.awaited.take_late(self.environment.uptime()) {
                self.opens.files.expire_oplocks(file, self.environment.uptime());
            }
            let mut added = pin!(self.opens.awaited.added.notified());
            let left = self.opens.awaited.next().map(|deadline| deadline.saturating_sub(self.environment.uptime()));
            let mut time_up = left.map(|left| self.environment.sleep(left));
            poll_fn(|context| {
                let up = time_up.as_mut().is_some_and(|sleep| sleep.as_mut().poll(context).is_ready());
                if up { Poll::Ready(()) } else { added.as_mut().poll(context) }
            })
            .await;
        }
    }

    /// Called when a local program opens `file`, on which `open` has a lease from the kernel.
    pub(crate) fn opened_locally(&self, file: FileId, open: u64) {
        if let Some(deadline) = self.opens.files.open_locally(file, open, self.environment.uptime()) {
            self.opens.awaited.add(file, deadline);
        }
    }
}
