//! Walks over all sessions and all opens, in parts between which other tasks run.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::Server;
use crate::state::open::Open;
use crate::state::session::{Phase, Session};
use crate::user::User;
use crate::yielding::Work;

/// Sessions or opens that are taken from a table at once.
const PART: usize = 64;

impl Server {
    /// Calls `visit` with each session that has a user, in the order of their ids, until it returns `Break`.
    pub(crate) async fn walk_sessions(
        &self,
        mut visit: impl FnMut(&Arc<Session>, &Arc<User>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let (mut work, mut last) = (Work::new(), None);
        loop {
            let part = self.sessions.after(last, PART);
            let Some(end) = part.last() else { return ControlFlow::Continue(()) };
            last = Some(end.id);
            for session in &part {
                work.spend(1).await;
                if session.phase() != Phase::Closed
                    && let Some(user) = session.user()
                {
                    visit(session, &user)?;
                }
            }
        }
    }

    /// Calls `visit` with each open and the name of its user, until it returns `Break`. The opens of each session come
    /// first, in the order of their ids, then those that are kept for disconnected clients.
    pub(crate) async fn walk_opens(
        &self,
        mut visit: impl FnMut(&Arc<Open>, &str) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let (mut work, mut last) = (Work::new(), None);
        loop {
            let part = self.sessions.after(last, PART);
            let Some(end) = part.last() else { break };
            last = Some(end.id);
            for session in &part {
                work.spend(1).await;
                let Some(user) = session.user() else { continue };
                let mut last = None;
                loop {
                    let part = session.opens_after(last, PART);
                    let Some(end) = part.last() else { break };
                    last = Some(end.volatile_id);
                    for open in &part {
                        work.spend(1).await;
                        visit(open, &user.name)?;
                    }
                }
            }
        }
        self.walk_kept(|open| {
            let owner = open.file().and_then(|file| file.durability.terms()).map(|terms| terms.owner.name);
            visit(open, &owner.unwrap_or_default())
        })
        .await
    }

    /// Calls `visit` with each open that is kept for a disconnected client, until it returns `Break`.
    pub(crate) async fn walk_kept(&self, mut visit: impl FnMut(&Arc<Open>) -> ControlFlow<()>) -> ControlFlow<()> {
        let (mut work, mut last) = (Work::new(), None);
        loop {
            let part = self.opens.durable.kept_after(last, PART);
            let Some(end) = part.last() else { return ControlFlow::Continue(()) };
            last = Some(end.persistent_id);
            for open in &part {
                work.spend(1).await;
                visit(open)?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use proto::smb2::OplockLevel;

    use super::*;
    use crate::testing::TestServer;

    /// Opens, of which the clients choose the number.
    const OPENS: usize = 2_000;

    #[test]
    fn a_walk_over_many_opens_lets_others_run() {
        let server = TestServer::with_stopped_clock();
        let mut clients = [server.log_on("alice", false), server.log_on("bob", false)];
        for number in 0..OPENS {
            clients[number % 2].open(&format!("file{number}"), OplockLevel::NONE);
        }
        let (seen, mut most) = (Cell::new(0), 0);
        let mut walk = pin!(server.walk_opens(|_, _| {
            seen.set(seen.get() + 1);
            ControlFlow::Continue(())
        }));
        loop {
            let before = seen.get();
            let polled = walk.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            most = most.max(seen.get() - before);
            if polled == Poll::Ready(ControlFlow::Continue(())) {
                break;
            }
        }
        assert_eq!(seen.get(), OPENS);
        assert!(most <= 257, "{most} opens in one turn");
    }
}
