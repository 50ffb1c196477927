//! The server service's calls ([MS-SRVS] 3.1.4): lists the shares of the current configuration.

use std::sync::Arc;

use proto::rpc::pdu::{FAULT_BAD_STUB, FAULT_OP_RANGE};
use proto::rpc::srvsvc::{
    self, STYPE_DISKTREE, STYPE_IPC, STYPE_SPECIAL, ServerGetInfo, ServerInfo, Share, ShareEnum, ShareGetInfo, opnum,
};

use crate::named_pipe::Caller;
use crate::policy::{self, Policy};
use crate::state::Server;

/// Returns the encoded results of call `number`, or the status of a fault.
pub(in crate::rpc) async fn call(
    number: u16,
    stub: &[u8],
    server: &Arc<Server>,
    caller: &dyn Caller,
) -> Result<Vec<u8>, u32> {
    let policy = server.policy();
    match number {
        opnum::NETR_SHARE_ENUM | opnum::NETR_SHARE_ENUM_STICKY => {
            let asked = ShareEnum::decode(stub).map_err(|_| FAULT_BAD_STUB)?;
            let shown = |share: &&Arc<policy::Share>| share.browseable && share.available;
            let mut shares: Vec<Share> = policy.shares.values().filter(shown).map(|share| describe(share)).collect();
            shares.extend(own_home(&policy, caller).await);
            shares.push(ipc(&policy));
            Ok(srvsvc::share_enum_response(asked.level, &shares))
        }
        opnum::NETR_SHARE_GET_INFO => {
            let asked = ShareGetInfo::decode(stub).map_err(|_| FAULT_BAD_STUB)?;
            let share = if asked.name.eq_ignore_ascii_case("IPC$") {
                Some(ipc(&policy))
            } else {
                match policy.share(&asked.name) {
                    Some(share) => share.available.then(|| describe(share)),
                    None => home(&policy, &asked.name, caller).await,
                }
            };
            Ok(srvsvc::share_get_info_response(asked.level, share.as_ref()))
        }
        opnum::NETR_SERVER_GET_INFO => {
            let asked = ServerGetInfo::decode(stub).map_err(|_| FAULT_BAD_STUB)?;
            let server = ServerInfo { name: policy.netbios_name.clone(), comment: policy.server_string.clone() };
            Ok(srvsvc::server_get_info_response(asked.level, &server))
        }
        opnum::NETR_REMOTE_TOD => {
            let environment = &server.environment;
            let seconds = u64::try_from(environment.now().secs).unwrap_or(0);
            Ok(srvsvc::remote_tod_response(seconds, environment.uptime().as_millis() as u32))
        }
        _ => Err(FAULT_OP_RANGE),
    }
}

/// Returns the share of the caller's own home, which only they see, and `homes` itself if it is browseable.
async fn own_home(policy: &Policy, caller: &dyn Caller) -> Vec<Share> {
    let Some(homes) = &policy.homes else { return Vec::new() };
    let shown = |section: &&policy::Share| section.browseable && section.available;
    let mut shares: Vec<Share> = Some(homes.section()).filter(shown).map(describe).into_iter().collect();
    if let Some(own) = home(policy, "homes", caller).await
        && policy.share(&own.name).is_none()
    {
        shares.push(own);
    }
    shares
}

/// Returns the home share called `name` for the caller.
async fn home(policy: &Policy, name: &str, caller: &dyn Caller) -> Option<Share> {
    let user = caller.user()?;
    let share = policy.home(name, &user).await.ok()?.filter(|share| share.available)?;
    Some(describe(&share))
}

fn describe(share: &policy::Share) -> Share {
    let hidden = if share.name.ends_with('$') { STYPE_SPECIAL } else { 0 };
    Share {
        name: share.name.clone(),
        kind: STYPE_DISKTREE | hidden,
        comment: share.comment.clone(),
        // The actual path on the server is not disclosed; clients require a path in Windows format.
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
