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
        for (open, _) in self.opens.durable.kept(self.environment.uptime()) {
            work.spend(1).await;
            let owner = open.file().and_then(|file| file.durability.terms()).map(|terms| terms.owner.name);
            visit(&open, &owner.unwrap_or_default())?;
        }
        ControlFlow::Continue(())
    }
}
