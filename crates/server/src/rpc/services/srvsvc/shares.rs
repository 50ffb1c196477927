//! Shares. They are shown to every user. The path on this host is shown to administrators only. An anonymous user gets
//! names, types, comments and flags, and nothing of what only administrators get on Windows ([MS-SRVS] 6, <59>, <62>).

use std::sync::Arc;

use proto::dtyp::AccessMask;
use proto::rpc::enumeration::{self, Request, error};
use proto::rpc::srvsvc::shares::{
    LEVELS, NOT_STICKY_LEVEL, STYPE_DISKTREE, STYPE_IPC, STYPE_PRINTQ, STYPE_SPECIAL, Share, is_detailed,
};
use proto::rpc::srvsvc::{ShareCheck, ShareEnum, ShareGetInfo, share_check_response};
use proto::smb2::tree_connect::ShareFlags;

use super::{number, windows_path};
use crate::acl::model::evaluate::Token;
use crate::policy::template::Variable;
use crate::policy::{self, Encryption, Policy};
use crate::rpc::interface::Call;
use crate::rpc::listing::Listing;
use crate::user::User;
use crate::user_lists::UserMatcher;
use crate::yielding::Work;

/// NetrShareEnumSticky (3.1.4.9). As in Samba, it omits the shares whose names end in `$`.
pub(super) async fn share_enum_sticky(call: &Call<'_>, ShareEnum(asked): ShareEnum) -> Vec<u8> {
    match asked {
        Ok(request) if request.level == NOT_STICKY_LEVEL => enumeration::refused(&request, error::INVALID_LEVEL),
        Ok(request) => list(call, request, |share| !share.ends_with('$')).await,
        Err(level) => enumeration::unknown_level(level),
    }
}

/// NetrShareEnum (3.1.4.8).
pub(super) async fn share_enum(call: &Call<'_>, ShareEnum(asked): ShareEnum) -> Vec<u8> {
    match asked {
        Ok(request) => list(call, request, |_| true).await,
        Err(level) => enumeration::unknown_level(level),
    }
}

/// Lists the shares that are browseable and that the caller may see, those that users defined, the caller's home and
/// IPC$. `is_meant` selects them by name.
async fn list(call: &Call<'_>, request: Request, is_meant: impl Fn(&str) -> bool + Send + Sync) -> Vec<u8> {
    if request.level > 1 && is_anonymous(call) {
        return enumeration::refused(&request, error::ACCESS_DENIED);
    }
    let policy = session_policy(call).await;
    let view = View::new(call, &policy, request.level).await;
    let mut list = Listing::new(request, call);
    let mut admission = Admission { call, policy: &policy, caller: None };
    for share in policy.shares.values().filter(|share| share.browseable && share.available) {
        if is_meant(&share.name) && admission.admits(share).await && list.offer(true).await {
            list.add(&view.describe(share));
        }
    }
    let others = of_users(&policy).await.into_iter().chain(own_home(&policy, call).await);
    let printers = call.server.listed_printers(&policy).await;
    let others = others.chain(printers.shares(&policy));
    for share in others.filter(|share| is_meant(&share.name)) {
        if list.offer(true).await {
            list.add(&view.describe(&share));
        }
    }
    if is_meant(IPC) && list.offer(true).await {
        list.add(&view.ipc());
    }
    list.finish()
}

fn is_anonymous(call: &Call<'_>) -> bool {
    call.user().is_none_or(|user| user.anonymous)
}

/// The share of the pipes.
pub(super) const IPC: &str = "IPC$";

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

/// NetrShareGetInfo (3.1.4.10).
pub(super) async fn share_get_info(call: &Call<'_>, asked: ShareGetInfo) -> Vec<u8> {
    if asked.name.is_empty() {
        return enumeration::info(asked.level, LEVELS, Err::<&Share, _>(error::INVALID_PARAMETER));
    }
    if is_detailed(asked.level) && is_anonymous(call) {
        return enumeration::info(asked.level, LEVELS, Err::<&Share, _>(error::ACCESS_DENIED));
    }
    let policy = session_policy(call).await;
    let view = View::new(call, &policy, asked.level).await;
    let share = if asked.name.eq_ignore_ascii_case(IPC) {
        Some(view.ipc())
    } else {
        find(&policy, &asked.name, call).await.filter(|share| share.available).map(|share| view.describe(&share))
    };
    enumeration::info(asked.level, LEVELS, share.as_ref().ok_or(error::NET_NAME_NOT_FOUND))
}

/// NetrShareCheck (3.1.4.16). Only administrators know the paths of shares, so the answer to others is that the path is
/// not shared. The path of IPC$ is empty, as in NetrShareGetInfo.
pub(super) async fn share_check(call: &Call<'_>, asked: ShareCheck) -> Vec<u8> {
    if asked.device.is_empty() {
        return share_check_response(Ok(STYPE_IPC));
    }
    if !call.is_administrator().await {
        return share_check_response(Err(error::DEVICE_NOT_SHARED));
    }
    let policy = session_policy(call).await;
    let mut work = Work::new();
    for share in policy.shares.values().filter(|share| share.available) {
        work.spend(1).await;
        if windows_path(&share.path).eq_ignore_ascii_case(&asked.device) {
            return share_check_response(Ok(STYPE_DISKTREE));
        }
    }
    share_check_response(Err(error::DEVICE_NOT_SHARED))
}

/// Returns the share that the caller calls `name`.
pub(super) async fn find(policy: &Policy, name: &str, call: &Call<'_>) -> Option<Arc<policy::Share>> {
    if let Some(share) = policy.share(name) {
        return Some(share.clone());
    }
    if let Some(home) = home(policy, name, call).await {
        return Some(home);
    }
    match policy.user_share(name).await.ok().flatten() {
        None => call.server.printer_share(policy, name).await,
        of_user => of_user,
    }
}

/// Returns the policy of the caller's session; one without shares if it cannot be determined.
pub(in crate::rpc::services) async fn session_policy(call: &Call<'_>) -> Arc<Policy> {
    let policy = call.server.policy().clone();
    let value = |variable: Variable| call.caller.variable(variable.0);
    policy.of_session(value).await.unwrap_or_default()
}

/// Returns the shares that users defined, unless a share of the configuration has the same name.
async fn of_users(policy: &Policy) -> Vec<Arc<policy::Share>> {
    let Some(shares) = &policy.user_shares else { return Vec::new() };
    let list = shares.list().await.unwrap_or_else(|why| {
        tracing::error!(why = why.0, "cannot list the shares that users defined");
        Vec::new()
    });
    let shown = |share: &Arc<policy::Share>| share.browseable && share.available && policy.share(&share.name).is_none();
    list.into_iter().filter(shown).collect()
}

/// Returns the share of the caller's own home, which only they see, and `homes` itself if it is browseable.
async fn own_home(policy: &Policy, call: &Call<'_>) -> Vec<Arc<policy::Share>> {
    let Some(homes) = &policy.homes else { return Vec::new() };
    let section = Some(homes.section()).filter(|section| section.browseable && section.available);
    let own = home(policy, "homes", call).await.filter(|own| policy.share(&own.name).is_none());
    section.cloned().map(Arc::new).into_iter().chain(own).collect()
}

/// Returns the home share called `name` for the caller.
async fn home(policy: &Policy, name: &str, call: &Call<'_>) -> Option<Arc<policy::Share>> {
    let user = call.user()?;
    policy.home(name, &user).await.ok()?.filter(|share| share.available)
}

/// What the caller sees of shares.
struct View<'a> {
    call: &'a Call<'a>,
    policy: &'a Policy,
    /// The level has the path, the number of tree connects and the ACL.
    detailed: bool,
    shows_paths: bool,
}

impl View<'_> {
    async fn new<'a>(call: &'a Call<'a>, policy: &'a Policy, level: u32) -> View<'a> {
        let detailed = is_detailed(level);
        View { call, policy, detailed, shows_paths: detailed && call.is_administrator().await }
    }

    fn describe(&self, share: &policy::Share) -> Share {
        let hidden = if share.name.ends_with('$') { STYPE_SPECIAL } else { 0 };
        let acls = self.call.server.policy().share_acls.clone().filter(|_| self.detailed);
        Share {
            name: share.name.clone(),
            kind: if share.printing.is_some() { STYPE_PRINTQ } else { STYPE_DISKTREE } | hidden,
            comment: share.comment.clone(),
            path: if self.shows_paths { windows_path(&share.path) } else { String::new() },
            max_uses: if share.access.max_connections == 0 { u32::MAX } else { share.access.max_connections },
            current_uses: self.uses(&share.name),
            flags: flags(share, self.policy).0,
            security: acls.and_then(|acls| acls.acl_of(&share.name)).map(|acl| acl.to_bytes()).unwrap_or_default(),
        }
    }

    fn ipc(&self) -> Share {
        Share {
            name: IPC.to_string(),
            kind: STYPE_IPC | STYPE_SPECIAL,
            comment: format!("IPC Service ({})", self.policy.server_string),
            path: String::new(),
            max_uses: u32::MAX,
            current_uses: self.uses(IPC),
            flags: ShareFlags::MANUAL_CACHING.0,
            security: Vec::new(),
        }
    }

    fn uses(&self, share: &str) -> u32 {
        if self.detailed { number(self.call.server.share_uses.of(share)) } else { 0 }
    }
}

/// Returns the flags of a share, as far as they do not depend on the session ([MS-SRVS] 2.2.4.29).
pub(super) fn flags(share: &policy::Share, policy: &Policy) -> ShareFlags {
    let mut flags = share.caching.csc_policy.share_flags();
    if policy.host_msdfs && share.dfs.root {
        flags |= ShareFlags::DFS | ShareFlags::DFS_ROOT;
    }
    if share.names.hides_by_access() {
        flags |= ShareFlags::ACCESS_BASED_DIRECTORY_ENUM;
    }
    if share.access.server_smb_encrypt == Encryption::Required {
        flags |= ShareFlags::ENCRYPT_DATA;
    }
    flags
}
