//! IOCTL ([MS-SMB2] 3.3.5.15): the control codes that are served, and the right refusal for the others.

use proto::dtyp::Guid;
use proto::fscc::FileObjectIdBuffer;
use proto::smb2::ioctl::{
    FsctlCode, IoctlFlags, IoctlRequest, IoctlResponse, ValidateNegotiateInfoRequest, ValidateNegotiateInfoResponse,
};
use proto::smb2::negotiate::Dialect;
use proto::status::Status;

use crate::conn::{Reply, Request};
use crate::error::{Disconnect, Error, Result};
use crate::information::filesystem;
use crate::open::Target;

pub(crate) async fn ioctl(request: &Request<'_>, reply: &mut Reply) -> Result<Status> {
    let asked = IoctlRequest::decode(request.message)?;
    if asked.flags != IoctlFlags::IS_FSCTL {
        return Err(Error::because(Status::NOT_SUPPORTED, "an IOCTL that is no FSCTL"));
    }
    let max_transact = request.connection.negotiated().map_or(65536, |negotiated| negotiated.max_transact) as usize;
    let longest = asked.max_input_response.max(asked.max_output_response) as usize;
    if longest > max_transact || asked.input.len() > max_transact {
        return Err(Error::because(Status::INVALID_PARAMETER, "longer than MaxTransactSize"));
    }
    request.check_charge(longest.max(asked.input.len()))?;
    match asked.ctl_code {
        FsctlCode::VALIDATE_NEGOTIATE_INFO => validate_negotiate_info(request, &asked, reply),
        FsctlCode::CREATE_OR_GET_OBJECT_ID | FsctlCode::GET_OBJECT_ID => object_id(request, &asked, reply).await,
        FsctlCode::PIPE_TRANSCEIVE => pipe_transceive(request, &asked, reply),
        // 3.3.5.15.2: no share is part of a DFS namespace yet.
        FsctlCode::DFS_GET_REFERRALS | FsctlCode::DFS_GET_REFERRALS_EX => Err(Error::new(Status::NOT_FOUND)),
        FsctlCode::QUERY_NETWORK_INTERFACE_INFO => {
            Err(Error::because(Status::NOT_SUPPORTED, "multichannel is not offered"))
        }
        code => {
            request.open(asked.file_id, reply)?;
            Err(Error::because(Status::INVALID_DEVICE_REQUEST, format!("{code:?}")))
        }
    }
}

/// 3.3.5.15.12: tells a client of 3.0 and 3.0.2 whether somebody changed the negotiation. Any difference ends the
/// connection, as does the request on 3.1.1, where the negotiation is proven otherwise.
fn validate_negotiate_info(request: &Request<'_>, asked: &IoctlRequest<'_>, reply: &mut Reply) -> Result<Status> {
    let end = |why| {
        request.connection.end(Disconnect(why));
        Err(Error::new(Status::ACCESS_DENIED))
    };
    let Some(negotiated) = request.connection.negotiated() else { return end("not negotiated") };
    if negotiated.dialect == Dialect::SMB_3_1_1 {
        return end("VALIDATE_NEGOTIATE_INFO on 3.1.1");
    }
    let Ok(info) = ValidateNegotiateInfoRequest::decode(asked.input) else {
        return end("VALIDATE_NEGOTIATE_INFO does not decode");
    };
    if (asked.max_output_response as usize) < ValidateNegotiateInfoResponse::SIZE {
        return end("VALIDATE_NEGOTIATE_INFO without room for its answer");
    }
    let same = info.guid == negotiated.client_guid.0
        && info.security_mode == negotiated.client_security_mode
        && info.capabilities == negotiated.client_capabilities
        && info.dialects == negotiated.client_dialects;
    if !same {
        return end("somebody changed the negotiation");
    }
    let mut output = Vec::new();
    ValidateNegotiateInfoResponse {
        capabilities: negotiated.server_capabilities,
        guid: request.connection.server.guid.0,
        security_mode: negotiated.server_security_mode,
        dialect: negotiated.dialect,
    }
    .encode(&mut proto::bytes::Writer::new(&mut output));
    respond(asked, &output, reply);
    Ok(Status::SUCCESS)
}

/// [MS-FSA] 2.1.5.10.1, 2.1.5.10.9: each file has an id from birth on, made of what the file system tells it apart by.
async fn object_id(request: &Request<'_>, asked: &IoctlRequest<'_>, reply: &mut Reply) -> Result<Status> {
    let open = request.open(asked.file_id, reply)?;
    let (Some(file), Some(disk)) = (open.file(), open.tree.disk()) else {
        return Err(Error::because(Status::INVALID_DEVICE_REQUEST, "a pipe has no object id"));
    };
    if (asked.max_output_response as usize) < FileObjectIdBuffer::SIZE {
        return Err(Error::because(Status::INVALID_PARAMETER, "no room for the object id"));
    }
    let space = disk.vfs.space(&file.identity).await?;
    let mut id = [0; 16];
    id[..8].copy_from_slice(&file.file.inode.to_le_bytes());
    id[8..].copy_from_slice(&file.file.device.to_le_bytes());
    let mut output = Vec::new();
    FileObjectIdBuffer {
        object_id: Guid(id),
        birth_volume_id: filesystem::volume_id(request, &space),
        birth_object_id: Guid(id),
        domain_id: Guid::default(),
    }
    .encode(&mut proto::bytes::Writer::new(&mut output));
    respond(asked, &output, reply);
    Ok(Status::SUCCESS)
}

/// 3.3.5.15.3.
fn pipe_transceive(request: &Request<'_>, asked: &IoctlRequest<'_>, reply: &mut Reply) -> Result<Status> {
    let open = request.open(asked.file_id, reply)?;
    let Target::Pipe(pipe) = &open.target else {
        return Err(Error::because(Status::NOT_SUPPORTED, "PIPE_TRANSCEIVE on a file"));
    };
    pipe.write(asked.input, request)?;
    let (output, status) = pipe.read(asked.max_output_response as usize)?;
    respond(asked, &output, reply);
    Ok(status)
}

fn respond(asked: &IoctlRequest<'_>, output: &[u8], reply: &mut Reply) {
    IoctlResponse { ctl_code: asked.ctl_code, file_id: asked.file_id, input: &[], output }.encode(&mut reply.body());
}
