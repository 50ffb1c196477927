//! Reads and sets security descriptors over SMB, each in one round trip ([MS-SMB2] 2.2.37, 2.2.39).

use anyhow::{Result, ensure};
use client::{Client, Open};
use proto::dtyp::AccessMask;
use proto::smb2::query_info::{QueryInfoRequest, QueryInfoResponse};
use proto::smb2::set_info::SetInfoRequest;
use proto::smb2::{InfoType, SecurityInformation};

/// Maximum size of a security descriptor, in bytes.
const DESCRIPTOR_MAX: u32 = 64 << 10;

/// The parts that are queried: owner, group and DACL.
const PARTS: SecurityInformation =
    SecurityInformation(SecurityInformation::OWNER.0 | SecurityInformation::GROUP.0 | SecurityInformation::DACL.0);

fn open(access: AccessMask) -> Open<'static> {
    Open::existing("").with_access(access.0)
}

/// Performs one access check: opens, queries the security descriptor, closes. `path` is UTF-16.
pub(super) async fn access(client: &mut Client, path: &[u8]) -> Result<()> {
    let asked = descriptor(client, path).await?;
    ensure!(!asked.is_empty(), "the server returned an empty security descriptor");
    Ok(())
}

/// Returns the security descriptor that the server reports for a file.
pub(super) async fn descriptor(client: &mut Client, path: &[u8]) -> client::Result<Vec<u8>> {
    let query = QueryInfoRequest {
        info_type: InfoType::SECURITY,
        output_buffer_length: DESCRIPTOR_MAX,
        additional_information: PARTS.0,
        ..QueryInfoRequest::default()
    };
    let mut descriptor = Vec::new();
    let chain = client.chain().create(&open(AccessMask::READ_CONTROL).request(path))?.query_info(&query)?.close()?;
    let take = |number, response: &client::Response<'_>| {
        response.succeeded()?;
        if number == 1 {
            descriptor.extend_from_slice(QueryInfoResponse::decode(response.message)?.buffer);
        }
        Ok(())
    };
    chain.each(take).await?;
    Ok(descriptor)
}

/// Sets the DACL of a security descriptor.
pub(super) async fn set(client: &mut Client, path: &[u8], descriptor: &[u8]) -> client::Result<()> {
    let request = SetInfoRequest {
        info_type: InfoType::SECURITY,
        additional_information: SecurityInformation::DACL.0,
        buffer: descriptor,
        ..SetInfoRequest::default()
    };
    let open = open(AccessMask(AccessMask::READ_CONTROL.0 | AccessMask::WRITE_DAC.0));
    client.chain().create(&open.request(path))?.set_info(&request)?.close()?.run().await
}
