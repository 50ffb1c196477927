//! FSCTL_QUERY_NETWORK_INTERFACE_INFO ([MS-SMB2] 3.3.5.15.11): the addresses to which a client can open channels.

use proto::bytes::Writer;
use proto::smb2::FileId;
use proto::smb2::ioctl::{InterfaceCapability, IoctlRequest, IoctlResponse, NetworkInterfaceInfo};
use proto::smb2::negotiate::Capabilities;
use proto::status::Status;

use crate::error::{Error, Result};
use crate::request::{Reply, Request};

pub(super) fn query(request: &Request<'_>, asked: &IoctlRequest<'_>, reply: &mut Reply) -> Result<Status> {
    if asked.file_id != FileId::ANY {
        return Err(Error::because(Status::INVALID_PARAMETER, "QUERY_NETWORK_INTERFACE_INFO on a file"));
    }
    let multichannel = |capabilities: Capabilities| capabilities.contains(Capabilities::MULTI_CHANNEL);
    if !request.connection.negotiated().is_some_and(|negotiated| multichannel(negotiated.server_capabilities)) {
        return Err(Error::because(Status::NOT_SUPPORTED, "multichannel was not negotiated"));
    }
    let mut interfaces = request.connection.server.interfaces();
    interfaces.retain(|interface| interface.index != 0);
    let list: Vec<_> = interfaces
        .iter()
        .map(|interface| NetworkInterfaceInfo {
            if_index: interface.index,
            capability: if interface.rss { InterfaceCapability::RSS_CAPABLE } else { InterfaceCapability::NONE },
            link_speed: interface.speed,
            address: interface.address,
        })
        .collect();
    let mut output = Vec::new();
    NetworkInterfaceInfo::encode_list(&list, &mut Writer::new(&mut output));
    if output.len() > asked.max_output_response as usize {
        return Err(Error::because(
            Status::BUFFER_TOO_SMALL,
            "the output buffer is too small for the list of interfaces",
        ));
    }
    let response = IoctlResponse { ctl_code: asked.ctl_code, file_id: FileId::ANY, input: &[], output: &output };
    response.encode(&mut reply.body());
    Ok(Status::SUCCESS)
}
