//! TREE_DISCONNECT ([MS-SMB2] 3.3.5.8).

use proto::smb2::tree_disconnect::{TreeDisconnectRequest, TreeDisconnectResponse};
use proto::status::Status;

use super::audit;
use super::close::close_unasked;
use crate::error::{Error, Result};
use crate::request::{Reply, Request};

pub(crate) async fn tree_disconnect(request: &Request<'_>, reply: &mut Reply) -> Result<Status> {
    TreeDisconnectRequest::decode(request.message)?;
    let tree = request.tree()?;
    let opens = request.session()?.remove_tree(tree.id).ok_or(Error::new(Status::NETWORK_NAME_DELETED))?;
    for open in opens {
        close_unasked(&request.connection.server, &open).await;
    }
    audit::disconnected(tree);
    TreeDisconnectResponse.encode(&mut reply.body());
    Ok(Status::SUCCESS)
}
