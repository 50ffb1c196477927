//! The server service's calls ([MS-SRVS] 3.1.4): what shares there are, by the configuration in force.

use proto::rpc::pdu::{FAULT_BAD_STUB, FAULT_OP_RANGE};
use proto::rpc::srvsvc::{
    self, STYPE_DISKTREE, STYPE_IPC, STYPE_SPECIAL, ServerGetInfo, ServerInfo, Share, ShareEnum, ShareGetInfo, opnum,
};

use crate::conn::Request;
use crate::policy::{self, Policy};

/// The encoded results of call `number`, or the status of a fault.
pub(super) fn call(number: u16, stub: &[u8], request: &Request<'_>) -> Result<Vec<u8>, u32> {
    let policy = request.connection.server.policy();
    match number {
        opnum::NETR_SHARE_ENUM | opnum::NETR_SHARE_ENUM_STICKY => {
            let asked = ShareEnum::decode(stub).map_err(|_| FAULT_BAD_STUB)?;
            let mut shares: Vec<Share> =
                policy.shares.values().filter(|share| share.browseable).map(|share| describe(share)).collect();
            shares.push(ipc(&policy));
            Ok(srvsvc::share_enum_response(asked.level, &shares))
        }
        opnum::NETR_SHARE_GET_INFO => {
            let asked = ShareGetInfo::decode(stub).map_err(|_| FAULT_BAD_STUB)?;
            let share = if asked.name.eq_ignore_ascii_case("IPC$") {
                Some(ipc(&policy))
            } else {
                policy.share(&asked.name).map(|share| describe(share))
            };
            Ok(srvsvc::share_get_info_response(asked.level, share.as_ref()))
        }
        opnum::NETR_SERVER_GET_INFO => {
            let asked = ServerGetInfo::decode(stub).map_err(|_| FAULT_BAD_STUB)?;
            let server = ServerInfo { name: policy.netbios_name.clone(), comment: policy.server_string.clone() };
            Ok(srvsvc::server_get_info_response(asked.level, &server))
        }
        opnum::NETR_REMOTE_TOD => {
            let world = &request.connection.server.world;
            let seconds = u64::try_from(world.now().secs).unwrap_or(0);
            Ok(srvsvc::remote_tod_response(seconds, world.uptime().as_millis() as u32))
        }
        _ => Err(FAULT_OP_RANGE),
    }
}

fn describe(share: &policy::Share) -> Share {
    let hidden = if share.name.ends_with('$') { STYPE_SPECIAL } else { 0 };
    Share {
        name: share.name.clone(),
        kind: STYPE_DISKTREE | hidden,
        comment: share.comment.clone(),
        // The directory's place on the server is nobody's business; clients want a path of Windows's form.
        path: format!("C:\\{}", share.name),
        max_uses: if share.max_connections == 0 { u32::MAX } else { share.max_connections },
        current_uses: 0,
    }
}

fn ipc(policy: &Policy) -> Share {
    Share {
        name: "IPC$".to_string(),
        kind: STYPE_IPC | STYPE_SPECIAL,
        comment: format!("IPC Service ({})", policy.server_string),
        path: "C:\\".to_string(),
        max_uses: u32::MAX,
        current_uses: 0,
    }
}
