//! Work of the server that no request starts: restoring opens when it starts, closing what expires, and closing what
//! remains when it stops.

mod recycle;
mod restore;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

pub use self::restore::Restored;
use crate::command::close::{close_ended, close_lingering, close_now, close_unasked};
use crate::state::Server;
use crate::state::durable::Failed;

impl Server {
    /// Restores the persistent opens of the previous run from the store. Call it once, before the first connection. An
    /// error means that the store cannot be read.
    pub async fn restore(self: &Arc<Self>) -> Result<Restored, Failed> {
        restore::restore(self).await
    }

    /// Runs forever and cleans up what expires: detached opens past their timeout, and oplock breaks that local
    /// programs wait for. Closes opens after the changes through them have ended. Also deletes old files in recycle
    /// bins, and re-checks what clients that watch directories may be notified of. Run it concurrently with the
    /// connections.
    pub async fn scavenge(&self) {
        let (mut opens, mut oplocks) = (pin!(scavenge_opens(self)), pin!(self.end_awaited()));
        let mut watches = pin!(self.opens.watches.checks.run());
        let (mut bins, mut lingering) = (pin!(recycle::run(self)), pin!(close_lingering(self)));
        poll_fn(|context| {
            // None of them completes.
            let _ = bins.as_mut().poll(context);
            let _ = lingering.as_mut().poll(context);
            let _ = opens.as_mut().poll(context);
            let _ = watches.as_mut().poll(context);
            oplocks.as_mut().poll(context)
        })
        .await;
    }

    /// Closes all detached opens, because the server stops and their clients cannot reconnect, and those that lingered
    /// until now. Call it after [`Server::scavenge`] has ended.
    pub async fn close_detached(&self) {
        for open in self.opens.durable.take() {
            close_unasked(self, &open).await;
        }
        for open in self.opens.lingering.take_settled() {
            close_now(self, &open).await;
        }
    }
}

/// Closes preserved opens as they expire, forever.
async fn scavenge_opens(server: &Server) {
    loop {
        close_ended(server).await;
        let mut sooner = pin!(server.opens.durable.sooner());
        let mut time_up =
            server.opens.durable.next_end(server.environment.uptime()).map(|left| server.environment.sleep(left));
        poll_fn(|context| {
            let up = time_up.as_mut().is_some_and(|sleep| sleep.as_mut().poll(context).is_ready());
            if up { Poll::Ready(()) } else { sooner.as_mut().poll(context) }
        })
        .await;
    }
}
