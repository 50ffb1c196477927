//! The server itself: its description, its transports, its time, and the names that it accepts.

use proto::rpc::enumeration::{self, error};
use proto::rpc::ndr::Encoder;
use proto::rpc::srvsvc::names::{self, Refused};
use proto::rpc::srvsvc::server::{
    LEVELS, NO_CAPABILITIES, OTHER_LEVELS, PUBLIC_LEVELS, ServerInfo, Transport, remote_tod_response,
};
use proto::rpc::srvsvc::{
    CharDevEnum, DiskEnum, NameValidate, ServerGetInfo, TransportEnum, disk_enum_response, status_response,
};

use super::number;
use crate::accounting::Resource;
use crate::rpc::interface::Call;
use crate::rpc::listing::Listing;

/// NetrServerGetInfo (3.1.4.17).
pub(super) async fn server_get_info(call: &Call<'_>, asked: ServerGetInfo) -> Vec<u8> {
    let may = PUBLIC_LEVELS.contains(&asked.level) || call.is_administrator().await;
    let policy = call.server.policy();
    let server = ServerInfo {
        name: policy.netbios_name.clone(),
        comment: policy.server_string.clone(),
        dfs: policy.host_msdfs,
        users: number(policy.limits.sessions),
        capabilities: NO_CAPABILITIES,
    };
    let entry = if may { Ok(&server) } else { Err(error::ACCESS_DENIED) };
    enumeration::info_of_union(asked.level, LEVELS, OTHER_LEVELS, entry)
}

/// NetrServerDiskEnum (3.1.4.19), which is for administrators. All paths of shares are shown on the drive C.
pub(super) async fn disk_enum(call: &Call<'_>, asked: DiskEnum) -> Vec<u8> {
    disk_enum_response(
        &asked,
        match asked.level {
            1.. => Err(error::INVALID_LEVEL),
            0 if call.is_administrator().await => Ok(&["C:"]),
            0 => Err(error::ACCESS_DENIED),
        },
    )
}

/// NetrCharDevEnum and NetrCharDevQEnum, which are not used on the wire (3.1.4). As Windows, the server shares no
/// character devices.
pub(super) async fn char_dev_enum(_: &Call<'_>, asked: CharDevEnum) -> Vec<u8> {
    let mut out = Encoder::default();
    // The level, the union without a container, the total and no handle.
    [asked.level, asked.level, 0, 0, 0, error::NOT_SUPPORTED].into_iter().for_each(|number| out.u32(number));
    out.into_bytes()
}

/// NetrServerTransportEnum (3.1.4.24). SMB over TCP is the only transport.
pub(super) async fn transport_enum(call: &Call<'_>, TransportEnum(asked): TransportEnum) -> Vec<u8> {
    let request = match asked {
        Ok(request) => request,
        Err(level) => return enumeration::unknown_level(level),
    };
    if !call.has_account() {
        return enumeration::refused(&request, error::ACCESS_DENIED);
    }
    let mut list = Listing::new(request, call);
    if list.offer(true).await {
        let policy = call.server.policy();
        list.add(&Transport {
            connections: number(call.server.accounting.held(Resource::Connections)),
            server: policy.netbios_name.clone(),
            domain: policy.workgroup.clone(),
        });
    }
    list.finish()
}

/// NetrRemoteTOD (3.1.4.21).
pub(super) async fn remote_tod(call: &Call<'_>, (): ()) -> Vec<u8> {
    let environment = &call.server.environment;
    let seconds = u64::try_from(environment.now().secs).unwrap_or(0);
    remote_tod_response(seconds, environment.uptime().as_millis() as u32)
}

/// The flag of NetprNameValidate that Windows accepts: the name is for LAN Manager 2.
const LM2_COMPATIBLE: u32 = 0x8000_0000;

/// NetprNameValidate (3.1.4.32).
pub(super) async fn name_validate(_: &Call<'_>, asked: NameValidate) -> Vec<u8> {
    status_response(match names::validate(&asked.name, asked.kind) {
        _ if asked.flags & !LM2_COMPATIBLE != 0 => error::INVALID_PARAMETER,
        Ok(()) => error::SUCCESS,
        Err(Refused::UnknownType) => error::INVALID_PARAMETER,
        Err(Refused::Invalid) => error::INVALID_NAME,
    })
}
