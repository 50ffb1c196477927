//! LOGOFF ([MS-SMB2] 3.3.5.6), and the end of a session for any other reason.

use std::sync::Arc;

use proto::smb2::logoff::{LogoffRequest, LogoffResponse};
use proto::status::Status;

use super::close::close_unasked;
use super::{audit, logon_audit};
use crate::error::Result;
use crate::request::{Reply, Request};
use crate::state::Server;
use crate::state::open::Open;
use crate::state::session::Session;

pub(crate) async fn logoff(request: &Request<'_>, reply: &mut Reply) -> Result<Status> {
    LogoffRequest::decode(request.message)?;
    let session = request.session()?;
    // The response is still signed with the channel's key: the request holds the channel.
    end_session(&request.connection.server, session).await;
    request.connection.state.lock().channels.remove(&session.id);
    LogoffResponse.encode(&mut reply.body());
    Ok(Status::SUCCESS)
}

/// Ends a session: it is removed from the server and from all its channels, and its opens are closed, except for
/// durable ones.
pub(crate) async fn end_session(server: &Server, session: &Arc<Session>) {
    end(server, session, |open| server.opens.durable.detach(server, open)).await;
}

/// As [`end_session`], but closes durable opens, too ([MS-SMB2] 3.3.4.12).
pub(crate) async fn end_session_with_opens(server: &Server, session: &Arc<Session>) {
    end(server, session, |_| false).await;
}

/// Ends a session. `keep` detaches an open that stays, and returns whether it has done so.
async fn end(server: &Server, session: &Arc<Session>, keep: impl Fn(&Arc<Open>) -> bool) {
    server.sessions.remove(session);
    // Durable opens are detached first, without waiting, because their client may reconnect at once.
    let trees = session.trees();
    let opens = session.close();
    let closed: Vec<_> = opens.into_iter().filter(|open| !keep(open)).collect();
    let connections = session.take_channels();
    connections.iter().for_each(|connection| connection.forget(session));
    for open in closed {
        close_unasked(server, &open).await;
    }
    trees.iter().for_each(|tree| audit::disconnected(tree));
    logon_audit::ended(server, session);
    // Requests that wait on an open were answered when it was closed. A CREATE that waits for an oplock break has
    // no open yet.
    connections.iter().for_each(|connection| connection.cancel_all_of(session));
}
