//! The create context `AAPL`, by which a Mac learns what the server supports.

use proto::mac::aapl::{Parts, ServerAnswer, ServerCapabilities, VolumeCapabilities};
use proto::smb2::create_context::CreateContext;
use proto::status::Status;

use super::contexts::Contexts;
use crate::error::{Error, Result};
use crate::request::Request;
use crate::tree::Disk;

/// Returns the response to the query of a Mac. The extensions are offered on all shares if one has them, because a Mac
/// asks only once.
pub(super) fn answer(
    request: &Request<'_>,
    disk: &Disk,
    contexts: &Contexts,
) -> Result<Option<CreateContext<'static>>> {
    let Some(query) = contexts.mac else { return Ok(None) };
    let policy = request.connection.server.policy();
    let server = &policy.mac;
    if !server.aapl || !(server.offered || disk.share.mac.is_some()) {
        return Ok(None);
    }
    let query =
        query.map_err(|_| Error::because(Status::INVALID_PARAMETER, "not a query of a Mac that is supported"))?;
    let mut answer = ServerAnswer::default();
    if query.parts.contains(Parts::SERVER_CAPABILITIES) {
        let lists_attributes = query.client.contains(ServerCapabilities::READ_DIR_ATTR);
        request.session()?.mac.negotiate(lists_attributes);
        let given = |condition: bool, bits: ServerCapabilities| if condition { bits } else { ServerCapabilities::NONE };
        let unix = ServerCapabilities::UNIX_BASED | ServerCapabilities::NFS_ACE;
        answer.server = Some(
            given(lists_attributes, ServerCapabilities::READ_DIR_ATTR)
                | given(server.copyfile, ServerCapabilities::OSX_COPYFILE)
                | given(server.nfs_aces, unix),
        );
    }
    if query.parts.contains(Parts::VOLUME_CAPABILITIES) {
        let given = |condition: bool, bits: VolumeCapabilities| if condition { bits } else { VolumeCapabilities::NONE };
        answer.volume = Some(
            given(disk.share.names.case_sensitive, VolumeCapabilities::CASE_SENSITIVE)
                | given(disk.share.mac.as_ref().is_some_and(|mac| mac.time_machine), VolumeCapabilities::FULL_SYNC),
        );
    }
    if query.parts.contains(Parts::MODEL_INFO) {
        answer.model = Some(server.model.clone());
    }
    Ok(Some(answer.to_context()))
}
