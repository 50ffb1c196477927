//! Failed logons, which are answered late ([`crate::logon_throttle`]).

use super::Connection;
use crate::accounting::Resource;
use crate::audit::sent_name;
use crate::logon_throttle::{Guess, OVERHEAD, Verdict};
use crate::state::Server;

/// A failed logon and the connection that may have to wait.
pub(crate) struct Failed<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) guess: Guess<'a>,
    /// The length in bytes of the request, which is kept while the response waits.
    pub(crate) length: usize,
}

/// A failed logon has to wait, and a limit does not allow it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoRoom;

impl Failed<'_> {
    /// Waits until the failure is to be answered, or its connection has ended.
    pub(crate) async fn wait(&self, server: &Server) -> Result<(), NoRoom> {
        let limits = server.policy().limits.clone();
        let now = server.environment.uptime();
        let (name, peer) = (self.guess.name, self.connection.peer.remote);
        let Verdict::At { answer, first } = server.logons.throttle.failed(self.guess, now) else { return Err(NoRoom) };
        if first {
            tracing::info!(user = sent_name(name), %peer, "logon failed: unknown user or wrong password");
        }
        let payer = self.connection.payer();
        let _held = payer.charge(Resource::Logons, self.length + OVERHEAD).map_err(|_| NoRoom)?;
        let _place = self.connection.failures.join(limits.failed_logons_per_connection).ok_or(NoRoom)?;
        let mut left = std::pin::pin!(self.connection.failures.left.notified());
        left.as_mut().enable();
        if self.connection.ended().is_some() {
            return Ok(());
        }
        let mut time = server.environment.sleep(answer.saturating_sub(now));
        std::future::poll_fn(|context| {
            if left.as_mut().poll(context).is_ready() {
                return std::task::Poll::Ready(());
            }
            time.as_mut().poll(context)
        })
        .await;
        Ok(())
    }
}
