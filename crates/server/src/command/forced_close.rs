//! Sessions, opens and tree connects that an administrator closes, through a pipe or with `frevo close`.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::audit;
use super::close::close_unasked;
use super::logoff::end_session_with_opens;
use crate::policy::fold;
use crate::state::Server;
use crate::state::open::Open;

/// Closes an open of any session or a detached one ([MS-SMB2] 3.3.4.17). Returns `false` if it was closed meanwhile.
pub(crate) async fn close_held(server: &Server, open: &Arc<Open>) -> bool {
    let session = server.sessions.get(open.session_id);
    let taken = session.and_then(|session| session.remove_open(open.volatile_id));
    let taken = taken.or_else(|| server.opens.durable.reclaim(open.persistent_id, |_, _| Ok(())).ok());
    match taken {
        Some(open) => {
            close_unasked(server, &open).await;
            true
        }
        None => false,
    }
}

impl Server {
    /// Ends a session and closes its opens, also durable ones ([MS-SMB2] 3.3.4.12). Returns `false` if there is no such
    /// session.
    pub async fn close_session(&self, id: u64) -> bool {
        let Some(session) = self.sessions.get(id) else { return false };
        tracing::info!(session = id, "an administrator ends a session");
        end_session_with_opens(self, &session).await;
        true
    }

    /// Closes the open of a file, a directory or a print job with this volatile id, also a durable one without a
    /// session. Returns `false` if there is no such open.
    pub async fn close_file(&self, volatile_id: u64) -> bool {
        let mut found = None;
        let searched = self
            .walk_sessions(|session, _| {
                found = session.open_by_volatile(volatile_id);
                if found.is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })
            .await;
        if searched.is_continue() {
            let _ = self
                .walk_kept(|open| {
                    found = (open.volatile_id == volatile_id).then(|| open.clone());
                    if found.is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                })
                .await;
        }
        match found.filter(|open| !open.is_pipe()) {
            Some(open) => self.close_found(&open).await,
            None => false,
        }
    }

    /// As [`Server::close_file`], for the number that administrators see through pipes. Two opens that share a number
    /// both stay.
    pub(crate) async fn close_file_number(&self, number: u32) -> bool {
        let mut found = Vec::new();
        let _ = self
            .walk_opens(|open, _| {
                if !open.is_pipe() && open.file_number() == number {
                    found.push(open.clone());
                }
                if found.len() < 2 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })
            .await;
        let [open] = &found[..] else { return false };
        self.close_found(open).await
    }

    async fn close_found(&self, open: &Arc<Open>) -> bool {
        if let Some(file) = open.file() {
            let path = file.name.path.lock().clone();
            tracing::info!(share = open.tree.share_name(), %path, "an administrator closes a file");
        }
        if let Some(job) = open.job() {
            let share = open.tree.share_name();
            tracing::info!(share, title = job.title, "an administrator discards a print job that a client sends");
        }
        close_held(self, open).await
    }

    /// Disconnects the tree connects to a share and closes the opens made through them, also durable ones. Returns the
    /// number of tree connects.
    pub async fn close_share(&self, name: &str) -> usize {
        let mut trees = Vec::new();
        let meant = fold(name);
        let is_meant = |share: &str| fold(share) == meant;
        let _ = self
            .walk_sessions(|session, _| {
                let own = session.trees().into_iter().filter(|tree| is_meant(tree.share_name()));
                trees.extend(own.map(|tree| (session.clone(), tree)));
                ControlFlow::Continue(())
            })
            .await;
        tracing::info!(share = name, trees = trees.len(), "an administrator disconnects the clients of a share");
        let mut closed = 0;
        for (session, tree) in &trees {
            let Some(opens) = session.remove_tree(tree.id) else { continue };
            for open in opens {
                close_unasked(self, &open).await;
            }
            audit::disconnected(tree);
            closed += 1;
        }
        let mut kept = Vec::new();
        let _ = self
            .walk_kept(|open| {
                kept.extend(is_meant(open.tree.share_name()).then(|| open.clone()));
                ControlFlow::Continue(())
            })
            .await;
        for open in &kept {
            close_held(self, open).await;
        }
        closed
    }
}
