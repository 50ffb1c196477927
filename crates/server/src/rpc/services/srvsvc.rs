//! The server service's calls ([MS-SRVS] 3.1.4): lists the shares of the current configuration.

use std::sync::Arc;

use proto::dtyp::AccessMask;
use proto::rpc::pdu::SyntaxId;
use proto::rpc::srvsvc::{
    self, STYPE_DISKTREE, STYPE_IPC, STYPE_SPECIAL, ServerGetInfo, ServerInfo, Share, ShareEnum, ShareGetInfo, opnum,
};

use crate::acl::model::evaluate::Token;
use crate::policy::template::Variable;
use crate::policy::{self, Policy};
use crate::rpc::interface::{Call, Interface, Operation, operations};
use crate::user::User;
use crate::user_lists::UserMatcher;

/// The server service.
pub(super) struct Srvsvc;

impl Interface for Srvsvc {
    fn pipe(&self) -> &'static str {
        "srvsvc"
    }

    fn syntax(&self) -> SyntaxId {
        srvsvc::INTERFACE
    }

    fn operations(&self) -> &'static [Operation] {
        operations![
            (opnum::NETR_SHARE_ENUM, "NetrShareEnum", share_enum),
            (opnum::NETR_SHARE_GET_INFO, "NetrShareGetInfo", share_get_info),
            (opnum::NETR_SERVER_GET_INFO, "NetrServerGetInfo", server_get_info),
            (opnum::NETR_REMOTE_TOD, "NetrRemoteTOD", remote_tod),
            (opnum::NETR_SHARE_ENUM_STICKY, "NetrShareEnumSticky", share_enum),
        ]
    }
}

/// Returns the shares that are browseable and that the caller may see, those that users defined, the caller's home and
/// IPC$.
async fn share_enum(call: &Call<'_>, asked: ShareEnum) -> Vec<u8> {
    let policy = session_policy(call).await;
    let mut shares = Vec::new();
    let mut admission = Admission { call, policy: &policy, caller: None };
    for share in policy.shares.values().filter(|share| share.browseable && share.available) {
        if admission.admits(share).await {
            shares.push(describe(share));
        }
    }
    shares.extend(of_users(&policy).await);
    shares.extend(own_home(&policy, call).await);
    shares.push(ipc(&policy));
    srvsvc::share_enum_response(asked.level, &shares)
}

/// Decides which shares are listed, by `access based share enum`.
struct Admission<'a> {
    call: &'a Call<'a>,
    policy: &'a Policy,
    /// The caller and their token, which is looked up at most once.
    caller: Option<(Arc<User>, Token)>,
}

impl Admission<'_> {
    /// Returns whether the share is listed. As in Samba, the user lists and the right to read in the share's ACL
    /// decide. A share is omitted if they cannot be evaluated.
    async fn admits(&mut self, share: &policy::Share) -> bool {
        if !share.access_based_share_enum {
            return true;
        }
        if self.caller.is_none() {
            let Some(user) = self.call.user() else { return false };
            let Ok(token) = self.call.server.token_of(&user).await else { return false };
            self.caller = Some((user, token));
        }
        let Some((user, token)) = &self.caller else { return false };
        let sids = token.sids();
        let who = UserMatcher::new(user, &sids, &self.call.server.accounts, self.policy);
        let may_read = |rights: AccessMask| rights.contains(AccessMask::FILE_READ_DATA);
        who.is_admitted(&share.access).await.unwrap_or(false)
            && self.call.server.share_rights(share, token).is_ok_and(may_read)
    }
}

async fn share_get_info(call: &Call<'_>, asked: ShareGetInfo) -> Vec<u8> {
    let policy = session_policy(call).await;
    let share = if asked.name.eq_ignore_ascii_case("IPC$") {
        Some(ipc(&policy))
    } else {
        match policy.share(&asked.name) {
            Some(share) => share.available.then(|| describe(share)),
            None => match home(&policy, &asked.name, call).await {
                None => {
                    let share = policy.user_share(&asked.name).await.ok().flatten();
                    share.filter(|share| share.available).map(|share| describe(&share))
                }
                home => home,
            },
        }
    };
    srvsvc::share_get_info_response(asked.level, share.as_ref())
}

async fn server_get_info(call: &Call<'_>, asked: ServerGetInfo) -> Vec<u8> {
    let policy = call.server.policy();
    let server = ServerInfo { name: policy.netbios_name.clone(), comment: policy.server_string.clone() };
    srvsvc::server_get_info_response(asked.level, &server)
}

async fn remote_tod(call: &Call<'_>, (): ()) -> Vec<u8> {
    let environment = &call.server.environment;
    let seconds = u64::try_from(environment.now().secs).unwrap_or(0);
    srvsvc::remote_tod_response(seconds, environment.uptime().as_millis() as u32)
}

/// Returns the policy of the caller's session; one without shares if it cannot be determined.
async fn session_policy(call: &Call<'_>) -> Arc<Policy> {
    let policy = call.server.policy().clone();
    let value = |variable: Variable| call.caller.variable(variable.0);
    policy.of_session(value).await.unwrap_or_default()
}

/// Returns the shares that users defined, unless a share of the configuration has the same name.
async fn of_users(policy: &Policy) -> Vec<Share> {
    let Some(shares) = &policy.user_shares else { return Vec::new() };
    let list = shares.list().await.unwrap_or_else(|why| {
        tracing::error!(why = why.0, "cannot list the shares that users defined");
        Vec::new()
    });
    let shown =
        |share: &&Arc<policy::Share>| share.browseable && share.available && policy.share(&share.name).is_none();
    list.iter().filter(shown).map(|share| describe(share)).collect()
}

/// Returns the share of the caller's own home, which only they see, and `homes` itself if it is browseable.
async fn own_home(policy: &Policy, call: &Call<'_>) -> Vec<Share> {
    let Some(homes) = &policy.homes else { return Vec::new() };
    let shown = |section: &&policy::Share| section.browseable && section.available;
    let mut shares: Vec<Share> = Some(homes.section()).filter(shown).map(describe).into_iter().collect();
    if let Some(own) = home(policy, "homes", call).await
        && policy.share(&own.name).is_none()
    {
        shares.push(own);
    }
    shares
}

/// Returns the home share called `name` for the caller.
async fn home(policy: &Policy, name: &str, call: &Call<'_>) -> Option<Share> {
    let user = call.user()?;
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
        max_uses: if share.access.max_connections == 0 { u32::MAX } else { share.access.max_connections },
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
