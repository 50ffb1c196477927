//! The server itself: its description, its transports, its time, and the names that it accepts.

use proto::rpc::enumeration::{self, error};
use proto::rpc::srvsvc::names::{self, Refused};
use proto::rpc::srvsvc::server::{LEVELS, NO_CAPABILITIES, PUBLIC_LEVELS, ServerInfo, Transport, remote_tod_response};
use proto::rpc::srvsvc::{NameValidate, ServerGetInfo, TransportEnum, status_response};

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
    enumeration::info(asked.level, LEVELS, if may { Ok(&server) } else { Err(error::ACCESS_DENIED) })
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
