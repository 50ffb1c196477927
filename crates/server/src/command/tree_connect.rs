//! TREE_CONNECT ([MS-SMB2] 3.3.5.7): access to shares, and the identity used in them.

use crate::vfs::{Identity, Op};
use std::sync::Arc;

use proto::bytes::utf16_units;
use proto::dtyp::AccessMask;
use proto::smb2::negotiate::Capabilities;
use proto::smb2::tree_connect::{ShareCapabilities, ShareFlags, ShareType, TreeConnectRequest, TreeConnectResponse};
use proto::status::Status;

use super::{audit, print, session_variables};
use crate::acl::model::token;
use crate::error::{Error, Result};
use crate::name::glob::Globs;
use crate::policy::template::Variable;
use crate::policy::{Encryption, Policy, Share};
use crate::request::{Reply, Request};
use crate::state::Server;
use crate::state::connection::Negotiated;
use crate::tree::{Bin, Disk, Tree, TreeKind, WideLinks};
use crate::user::User;
use crate::user_lists::UserMatcher;

pub(crate) async fn tree_connect(request: &Request<'_>, reply: &mut Reply) -> Result<Status> {
    let asked = TreeConnectRequest::decode(request.message)?;
    let name = share_name(asked.path)?;
    let server = &request.connection.server;
    let session = request.session()?;
    let user = session.user().ok_or(Error::new(Status::USER_SESSION_DELETED))?;
    let policy = server.policy().clone();
    let (kind, maximal_access) = if name.eq_ignore_ascii_case("IPC$") {
        if user.anonymous && policy.restrict_anonymous >= 2 {
            return Err(Error::because(
                Status::ACCESS_DENIED,
                "anonymous access is refused (`restrict anonymous = 2`)",
            ));
        }
        (TreeKind::Pipes, AccessMask::FILE_ALL_ACCESS)
    } else {
        let disk = connect(request, &name, &user).await?;
        if disk.share.printing.is_some() {
            let printer = print::connect(request, disk, &user)?;
            (TreeKind::Printer(Box::new(printer)), AccessMask::FILE_ALL_ACCESS)
        } else {
            let maximal_access =
                if disk.read_only { READ_ONLY } else { AccessMask::FILE_ALL_ACCESS } & disk.share_rights;
            (TreeKind::Disk(Box::new(disk)), maximal_access)
        }
    };
    let tree = session
        .add_tree(policy.limits.trees_per_session, &server.share_uses, |id| {
            Arc::new(Tree { id, kind, created: server.environment.now(), maximal_access })
        })
        .ok_or(Error::because(Status::INSUFFICIENT_RESOURCES, "too many tree connects"))?;
    reply.tree_id = Some(tree.id);
    audit::connected(&tree);
    let mut share_flags = ShareFlags::MANUAL_CACHING;
    if let Some(disk) = tree.disk() {
        share_flags |= disk.share.caching.csc_policy.share_flags();
        if disk.share.names.hides_by_access() {
            share_flags |= ShareFlags::ACCESS_BASED_DIRECTORY_ENUM;
        }
        if disk.is_dfs {
            share_flags |= ShareFlags::DFS | ShareFlags::DFS_ROOT;
        }
    }
    if tree.encrypts() {
        share_flags |= ShareFlags::ENCRYPT_DATA;
    }
    TreeConnectResponse {
        share_type: match tree.kind {
            TreeKind::Disk(_) => ShareType::DISK,
            TreeKind::Pipes => ShareType::PIPE,
            TreeKind::Printer(_) => ShareType::PRINT,
        },
        share_flags,
        capabilities: tree.disk().map_or(ShareCapabilities::NONE, |disk| capabilities(request, disk)),
        maximal_access: tree.maximal_access.0,
    }
    .encode(&mut reply.body());
    Ok(Status::SUCCESS)
}

/// Returns the share called `name` for a tree connect of `user`: of a print share, where its jobs are spooled.
pub(super) async fn connect(request: &Request<'_>, name: &str, user: &User) -> Result<Disk> {
    let (policy, _wide_links) = policy(&request.connection.server);
    let session_policy = session_policy(request, policy.clone(), user).await?;
    let share = share(&request.connection.server, &session_policy, name, user).await?;
    let share = share.ok_or_else(|| Error::because(Status::BAD_NETWORK_NAME, format!("no share {name:?}")))?;
    if policy.host_msdfs && !share.dfs.proxy.is_empty() {
        // As in Samba. The client then asks for a referral.
        return Err(Error::because(Status::BAD_NETWORK_NAME, "the share is on other servers (`msdfs proxy`)"));
    }
    check_sealing(request, &share)?;
    let mut disk = connect_disk(request, share, user).await?;
    if disk.share.printing.is_some() {
        return Ok(disk);
    }
    disk.bin = bin(&policy, &disk.share, |it| session_variables::value(request, &disk.share, user, it))?;
    if let Some(bin) = &disk.bin {
        request.connection.server.opens.bins.add(&disk, bin);
    }
    Ok(disk)
}

/// Returns the configuration in force. If a share has `wide links`, this is noted before a reload can change it.
fn policy(server: &Server) -> (Arc<Policy>, Option<WideLinks>) {
    loop {
        let policy = server.policy().clone();
        let wide_links = policy.wide_links.then(|| server.share_uses.wide_links());
        if wide_links.is_none() || Arc::ptr_eq(&policy, &server.policy()) {
            return (policy, wide_links);
        }
    }
}

/// Returns the capabilities of a share (3.3.5.7).
fn capabilities(request: &Request<'_>, disk: &Disk) -> ShareCapabilities {
    let mut capabilities = ShareCapabilities::NONE;
    if is_continuous(request, disk) {
        capabilities |= ShareCapabilities::CONTINUOUS_AVAILABILITY;
    }
    if disk.is_dfs {
        capabilities |= ShareCapabilities::DFS;
    }
    capabilities
}

/// Returns the available share that `user` calls `name`.
pub(crate) async fn share(
    server: &Server,
    policy: &Arc<Policy>,
    name: &str,
    user: &User,
) -> Result<Option<Arc<Share>>> {
    let share = match policy.share(name) {
        Some(share) => Some(share.clone()),
        None => match policy.home(name, user).await? {
            // Before the printers, because a print system that does not answer must not delay them.
            None => match policy.user_share(name).await? {
                None => server.printer_share(policy, name).await,
                of_user => of_user,
            },
            home => home,
        },
    };
    Ok(share.filter(|share| share.available))
}

/// Returns whether opens of the share may be persistent on this connection (`TreeConnect.Share.IsCA`, 3.3.5.7).
pub(crate) fn is_continuous(request: &Request<'_>, disk: &Disk) -> bool {
    let offers = |it: &Negotiated| it.server_capabilities.contains(Capabilities::PERSISTENT_HANDLES);
    disk.share.handles.continuously_available && request.connection.negotiated().is_some_and(offers)
}

/// Returns the policy of the session, by which the client must be admitted, too.
pub(crate) async fn session_policy(request: &Request<'_>, policy: Arc<Policy>, user: &User) -> Result<Arc<Policy>> {
    let session = policy.clone().of_session(|variable| request.variable(user, variable)).await?;
    let address = request.connection.peer.remote.ip();
    if !Arc::ptr_eq(&session, &policy) && !session.permits(&session.hosts, address).await {
        return Err(Error::because(Status::ACCESS_DENIED, "refused by `hosts allow` or `hosts deny` of the session"));
    }
    Ok(session)
}

/// The rights on a read-only share.
const READ_ONLY: AccessMask =
    AccessMask(AccessMask::FILE_GENERIC_READ.0 | AccessMask::FILE_EXECUTE.0 | AccessMask::READ_CONTROL.0);

/// Returns the share's name in `\\server\share`. The server's name is ignored, because the server is reachable under
/// any name.
fn share_name(path: &[u8]) -> Result<String> {
    let wrong = || Error::because(Status::INVALID_PARAMETER, "the path is not \\\\server\\share");
    let path = utf16_units(path).and_then(|units| String::from_utf16(&units).ok()).ok_or_else(wrong)?;
    let path = path.strip_prefix(r"\\").ok_or_else(wrong)?;
    let (_, share) = path.split_once('\\').ok_or_else(wrong)?;
    // Some clients end the name with a NUL or a backslash.
    Ok(share.trim_end_matches(['\0', '\\']).to_string())
}

pub(crate) fn check_sealing(request: &Request<'_>, share: &Share) -> Result<()> {
    let can_seal = request.connection.negotiated().is_some_and(|negotiated| negotiated.cipher.is_some());
    if share.access.server_smb_encrypt == Encryption::Required && !can_seal {
        return Err(Error::because(
            Status::ACCESS_DENIED,
            "the share requires encryption, but the client does not support it",
        ));
    }
    Ok(())
}

/// Refuses a user that may not connect to the share.
pub(crate) async fn admit(request: &Request<'_>, share: &Share, user: &User) -> Result<()> {
    let policy = request.connection.server.policy().clone();
    if !policy.permits(&share.access.hosts, request.connection.peer.remote.ip()).await {
        return Err(Error::because(Status::ACCESS_DENIED, "refused by `hosts allow` or `hosts deny` of the share"));
    }
    if user.anonymous || (user.guest && !share.access.guest_ok) {
        return Err(Error::because(Status::ACCESS_DENIED, "guests are refused (`guest ok = no`)"));
    }
    let server = &request.connection.server;
    let sids = server.sids_of(user).await?;
    let who = UserMatcher::new(user, &sids, &server.accounts, &policy);
    if !who.is_admitted(&share.access).await? {
        return Err(Error::because(Status::ACCESS_DENIED, "refused by `valid users` or `invalid users`"));
    }
    if let Some(acl) = &share.access.user_share_acl
        && (!who.is_on(&acl.connect).await? || who.is_on(&acl.refuse).await?)
    {
        return Err(Error::because(Status::ACCESS_DENIED, "refused by the ACL of the user's share"));
    }
    Ok(())
}

/// Refuses a session without keys, such as a guest's, if the share requires encryption: its data would be in plaintext.
/// Returns whether the session has keys.
pub(crate) fn check_keys(request: &Request<'_>, share: &Share) -> Result<bool> {
    let can_seal = request.session()?.keys().is_some_and(|keys| keys.server_to_client.is_some());
    if share.access.server_smb_encrypt == Encryption::Required && !can_seal {
        return Err(Error::because(
            Status::ACCESS_DENIED,
            "the share requires encryption, but the session has no keys",
        ));
    }
    Ok(can_seal)
}

async fn connect_disk(request: &Request<'_>, share: Arc<Share>, user: &User) -> Result<Disk> {
    admit(request, &share, user).await?;
    let server = &request.connection.server;
    let limit = share.access.max_connections;
    if limit > 0 && server.share_uses.of(&share.name) >= limit as usize {
        return Err(Error::because(Status::REQUEST_NOT_ACCEPTED, "the limit of `max connections` is reached"));
    }
    let share = with_path(request, share, user)?;
    let can_seal = check_keys(request, &share)?;
    let mut disk = disk_of(server, share, user, can_seal).await?;
    let value = |variable| session_variables::value(request, &disk.share, user, variable);
    disk.audit = audit::trail(request, &disk.share, user, value)?;
    Ok(disk)
}

/// Returns the recycle bin of a share in which variables have these values. `policy` is that of the server.
pub(crate) fn bin(
    policy: &Policy,
    share: &Share,
    value: impl Fn(Variable) -> Option<String>,
) -> Result<Option<Arc<Bin>>> {
    let Some(recycle) = &share.recycle else { return Ok(None) };
    let directory = recycle.directory(&share.path, value).ok_or_else(|| {
        let why = "`recycle:repository` is not a directory below the share's path in this session";
        Error::because(Status::BAD_NETWORK_NAME, why)
    })?;
    let origin = policy.recycle_of(&share.name).map(|(origin, _)| origin);
    Ok(Some(Arc::new(Bin::new(Arc::clone(recycle), directory, origin))))
}

/// Returns the share, whose directory is known, with the settings for `user`.
pub(crate) async fn disk_of(server: &Server, share: Arc<Share>, user: &User, can_seal: bool) -> Result<Disk> {
    let (own, policy) = (server.token_of(user).await?, server.policy());
    let share_rights = server.share_rights(&share, &own)?;
    let own = own.sids();
    let who = UserMatcher::new(user, &own, &server.accounts, &policy);
    let identity = identity(server, &share, user, who.is_on(&share.access.admin_users).await?)?;
    let read_only = read_only(&share, &who).await? || !share_rights.contains(AccessMask::FILE_WRITE_DATA);
    let (volume, vfs) = server.volume(&share).await.map_err(|errno| {
        tracing::error!(
            share = share.name,
            path = %share.path.display(),
            ?errno,
            "the share's directory cannot be opened"
        );
        Error::because(Status::BAD_NETWORK_NAME, "the share's directory cannot be opened")
    })?;
    server.add_overlaps(&share, volume, &vfs).await;
    let wants_seal = matches!(share.access.server_smb_encrypt, Encryption::Required | Encryption::Desired);
    let sids = server.accounts.ids.sids_of(&identity).await;
    let sids = sids.map_err(|why| Error::because(Status::NO_LOGON_SERVERS, why.0))?;
    let token = Arc::new(token::of(user, &identity, &sids, server.accounts.ids.domain()));
    Ok(Disk {
        token_id: server.descriptors.token(&identity, &token),
        op: Op::new(identity),
        token,
        place: server.descriptors.place(volume, &share),
        descriptors: server.descriptors.clone(),
        ids: server.accounts.ids.clone(),
        authenticator: Some(server.accounts.authenticator.clone()),
        counters: server.metrics.shares.counters(&share.name),
        read_only,
        share_rights,
        encrypt_data: wants_seal && can_seal,
        is_dfs: policy.host_msdfs && share.dfs.root,
        hide: Globs::new(share.names.hide_files.iter().map(String::as_str), !share.names.case_sensitive),
        veto: Globs::new(share.names.veto_files.iter().map(String::as_str), !share.names.case_sensitive),
        veto_oplocks: Globs::new(
            share.caching.veto_oplock_files.iter().map(String::as_str),
            !share.names.case_sensitive,
        ),
        snapshot: None,
        bin: None,
        audit: None,
        _wide_links: share.names.wide_links.then(|| server.share_uses.wide_links()),
        share,
        vfs,
        volume,
    })
}

/// Returns the identity for system calls: that of `force user` and `force group`, or root if the user is in `admin
/// users`. `guest only` overrides them all.
fn identity(server: &Server, share: &Share, user: &User, admin: bool) -> Result<Arc<Identity>> {
    if share.access.guest_only {
        let policy = server.policy();
        let guest = policy
            .guest
            .as_ref()
            .ok_or(Error::because(Status::ACCESS_DENIED, "`guest only` is set, but there is no guest account"))?;
        return Ok(guest.identity.clone());
    }
    let mut identity = share.access.force_user.clone().unwrap_or_else(|| user.identity.clone());
    if admin {
        identity = Arc::new(Identity { uid: 0, ..(*identity).clone() });
    }
    let member = |gid| user.identity.gid == gid || user.identity.groups.contains(&gid);
    Ok(match share.access.force_group {
        Some(gid) if !share.access.force_group_members_only || member(gid) => {
            // Only the primary group changes; all previous groups stay.
            let former = std::iter::once(identity.gid).filter(|former| !identity.groups.contains(former));
            let groups = former.chain(identity.groups.iter().copied()).filter(|group| *group != gid).collect();
            Arc::new(Identity { gid, groups, ..(*identity).clone() })
        }
        _ => identity,
    })
}

/// Expands a share's `path` if it has variables that depend on the session.
pub(crate) fn with_path(request: &Request<'_>, share: Arc<Share>, user: &User) -> Result<Arc<Share>> {
    let Some(template) = &share.path_template else { return Ok(share) };
    let value = |variable| session_variables::value(request, &share, user, variable);
    let path = template.expand_path(value).ok_or_else(|| {
        let why = format!("the variables in path {:?} cannot be expanded for this session", share.path.display());
        Error::because(Status::BAD_NETWORK_NAME, why)
    })?;
    Ok(Arc::new(Share { path, ..(*share).clone() }))
}

/// Returns whether the share is read-only for the user. `read list` overrides `read only`, `write list` overrides both,
/// and the ACL of a user's share overrides them all. `admin users` does not affect this, as in Samba.
async fn read_only(share: &Share, who: &UserMatcher<'_>) -> Result<bool> {
    if let Some(acl) = &share.access.user_share_acl
        && !who.is_on(&acl.write).await?
    {
        return Ok(true);
    }
    if who.is_on(&share.access.write_list).await? {
        return Ok(false);
    }
    Ok(share.access.read_only || who.is_on(&share.access.read_list).await?)
}
