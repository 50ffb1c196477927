//! LOGOFF ([MS-SMB2] 3.3.5.6).

use proto::smb2::logoff::{LogoffRequest, LogoffResponse};
use proto::status::Status;

use crate::conn::{Reply, Request};
use crate::error::Result;

pub(crate) async fn logoff(request: &Request<'_>, reply: &mut Reply) -> Result<Status> {
    LogoffRequest::decode(request.message)?;
    let session = request.session()?;
    // The response is still signed with the channel's key: the request holds the channel.
    request.connection.server.end_session(session).await;
    request.connection.state.lock().channels.remove(&session.id);
    LogoffResponse.encode(&mut reply.body());
    Ok(Status::SUCCESS)
}
