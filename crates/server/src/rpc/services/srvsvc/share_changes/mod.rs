//! Shares that administrators add, change and remove. The configuration's own shares are never changed.
//!
//! The caller must act as root, or have SeDiskOperatorPrivilege. Otherwise a share of a directory that they cannot
//! reach would show its content.

#[cfg(test)]
mod tests;

use std::path::{Component, PathBuf};
use std::sync::Arc;

use proto::dtyp::SecurityDescriptor;
use proto::rpc::enumeration::error;
use proto::rpc::ndr::ContextHandle;
use proto::rpc::srvsvc::share_changes::{
    LevelledInfo, ShareAdd, ShareDel, ShareInfo, ShareSetInfo, changed_response, deletion_response, member,
};
use proto::rpc::srvsvc::shares::{STYPE_CLUSTER, STYPE_DISKTREE, STYPE_SPECIAL};
use proto::rpc::srvsvc::status_response;
use proto::smb2::tree_connect::ShareFlags;

use super::shares::{IPC, find, flags, session_policy};
use crate::policy::limits::{SHARE_NAME_LIMIT, SHARE_REMARK_LIMIT};
use crate::policy::{self, CscPolicy, Policy, ShareChange, ShareRefusal};
use crate::rpc::interface::Call;

/// Why a call fails: the member of the structure, or 0 if it is not about one, and a status.
type Failure = (u32, u32);

/// The names that no share may have ([MS-SRVS] 3.1.4.7).
const PIPES: [&str; 2] = ["pipe", "mailslot"];

const DENIED: Failure = (0, error::ACCESS_DENIED);

/// Returns the failure for a member that is not valid.
fn invalid(member: u32) -> Failure {
    (member, error::INVALID_PARAMETER)
}

/// NetrShareAdd (3.1.4.7).
pub(super) async fn share_add(call: &Call<'_>, asked: ShareAdd) -> Vec<u8> {
    let (member, status) = add(call, asked.info).await.err().unwrap_or((0, error::SUCCESS));
    changed_response(asked.wants_member, member, status)
}

async fn add(call: &Call<'_>, info: LevelledInfo) -> Result<(), Failure> {
    let info = admitted(call, info).await?;
    let name = info.name.as_deref().unwrap_or_default();
    if !(1..=SHARE_NAME_LIMIT).contains(&name.encode_utf16().count()) {
        return Err(invalid(member::SHARE_NETNAME));
    }
    if PIPES.iter().any(|pipe| name.eq_ignore_ascii_case(pipe)) {
        return Err(DENIED);
    }
    let policy = session_policy(call).await;
    if name.eq_ignore_ascii_case(IPC) || find(&policy, name, call).await.is_some() {
        return Err((0, error::DUPLICATE_SHARE));
    }
    // The server ignores the bits of clusters. Printers, devices and shares that a restart removes are not shared.
    if info.kind.unwrap_or_default() & !(STYPE_SPECIAL | STYPE_CLUSTER) != STYPE_DISKTREE {
        return Err(invalid(member::SHARE_TYPE));
    }
    let comment = info.remark.clone().unwrap_or_default();
    check_remark(&comment)?;
    let path = info.path.as_deref().and_then(local_path).ok_or(invalid(member::SHARE_PATH))?;
    let change = ShareChange::Add {
        name: name.to_owned(),
        path,
        comment,
        max_connections: max_connections(info.max_uses.unwrap_or(u32::MAX)),
        acl: descriptor(&info)?,
    };
    make(call, change).await
}

/// NetrShareSetInfo (3.1.4.11).
pub(super) async fn share_set_info(call: &Call<'_>, asked: ShareSetInfo) -> Vec<u8> {
    let (member, status) = set(call, &asked.name, asked.info).await.err().unwrap_or((0, error::SUCCESS));
    changed_response(asked.wants_member, member, status)
}

/// Makes the change if there is one, because clients also send the values that they have received. The name, the type
/// and the path are ignored ([MS-SRVS] 2.2.4.26).
async fn set(call: &Call<'_>, name: &str, info: LevelledInfo) -> Result<(), Failure> {
    let info = admitted(call, info).await?;
    let policy = session_policy(call).await;
    let share = changeable(call, &policy, name).await?;
    let comment = info.remark.clone().filter(|remark| *remark != share.comment);
    check_remark(comment.as_deref().unwrap_or_default())?;
    let most = info.max_uses.map(max_connections).filter(|most| *most != share.access.max_connections);
    let acl = descriptor(&info)?;
    let (mut csc_policy, mut hide_unreadable) = (None, None);
    if let Some(wanted) = info.flags.map(ShareFlags) {
        let now = flags(&share, &policy);
        let ignored = ShareFlags::DFS | ShareFlags::DFS_ROOT;
        let ours = ShareFlags::NO_CACHING | ShareFlags::ACCESS_BASED_DIRECTORY_ENUM;
        if (wanted.0 ^ now.0) & !(ignored | ours).0 != 0 {
            return Err((0, error::NOT_SUPPORTED));
        }
        csc_policy = Some(CscPolicy::of_flags(wanted)).filter(|wanted| *wanted != share.caching.csc_policy);
        let hides = wanted.contains(ShareFlags::ACCESS_BASED_DIRECTORY_ENUM);
        hide_unreadable = Some(hides).filter(|hides| *hides != share.names.hides_by_access());
    }
    if comment.is_none() && most.is_none() && csc_policy.is_none() && hide_unreadable.is_none() && acl.is_none() {
        return Ok(());
    }
    let name = share.name.clone();
    make(call, ShareChange::Set { name, comment, max_connections: most, csc_policy, hide_unreadable, acl }).await
}

/// NetrShareDel (3.1.4.12). NetrShareDelSticky (3.1.4.13) is the same, as in Samba, because all shares are persistent.
pub(super) async fn share_del(call: &Call<'_>, asked: ShareDel) -> Vec<u8> {
    status_response(match deletable(call, &asked.name).await {
        Ok(name) => remove(call, name).await,
        Err((_, status)) => status,
    })
}

/// A share that NetrShareDelStart has marked for deletion.
struct Marked(String);

/// NetrShareDelStart (3.1.4.14).
pub(super) async fn share_del_start(call: &Call<'_>, asked: ShareDel) -> Vec<u8> {
    let none = ContextHandle::default();
    match deletable(call, &asked.name).await {
        Ok(name) => match call.handles.lock().open(Marked(name), &*call.server.environment) {
            Some(handle) => deletion_response(&handle, error::SUCCESS),
            None => deletion_response(&none, error::NOT_ENOUGH_MEMORY),
        },
        Err((_, status)) => deletion_response(&none, status),
    }
}

/// NetrShareDelCommit (3.1.4.15).
pub(super) async fn share_del_commit(call: &Call<'_>, handle: ContextHandle) -> Vec<u8> {
    let marked = call.handles.lock().get::<Marked>(&handle).map(|marked| marked.0.clone());
    let status = match marked {
        // The caller may have changed since the deletion was started.
        Some(_) if !call.may_change_shares().await => error::ACCESS_DENIED,
        Some(name) => remove(call, name).await,
        None => return deletion_response(&ContextHandle::default(), error::INVALID_PARAMETER),
    };
    if status != error::SUCCESS {
        return deletion_response(&handle, status);
    }
    call.handles.lock().close(&handle);
    deletion_response(&ContextHandle::default(), status)
}

async fn remove(call: &Call<'_>, name: String) -> u32 {
    make(call, ShareChange::Remove { name }).await.err().map_or(error::SUCCESS, |(_, status)| status)
}

/// Returns the name of a share that an administrator may remove.
async fn deletable(call: &Call<'_>, name: &str) -> Result<String, Failure> {
    if !call.may_change_shares().await {
        return Err(DENIED);
    }
    let policy = session_policy(call).await;
    let share = changeable(call, &policy, name).await?;
    Ok(share.name.clone())
}

/// Returns the structure that an administrator sends at a level that exists.
async fn admitted(call: &Call<'_>, info: LevelledInfo) -> Result<ShareInfo, Failure> {
    if !call.may_change_shares().await {
        return Err(DENIED);
    }
    info.map_err(|_| (0, error::INVALID_LEVEL))?.ok_or(invalid(0))
}

/// Returns the share of the configuration with this name. Homes, the shares of users and the pipes cannot be changed.
async fn changeable(call: &Call<'_>, policy: &Policy, name: &str) -> Result<Arc<policy::Share>, Failure> {
    if name.is_empty() {
        return Err(invalid(0));
    }
    if let Some(share) = policy.share(name) {
        return Ok(share.clone());
    }
    let exists = name.eq_ignore_ascii_case(IPC) || find(policy, name, call).await.is_some();
    Err(if exists { DENIED } else { (0, error::NET_NAME_NOT_FOUND) })
}

async fn make(call: &Call<'_>, change: ShareChange) -> Result<(), Failure> {
    let Some(shares) = call.server.share_changes() else { return Err(DENIED) };
    shares.change(change).await.map_err(|refusal| match refusal {
        ShareRefusal::BadName => (member::SHARE_NETNAME, error::INVALID_NAME),
        ShareRefusal::BadValue(parameter) => invalid(match parameter.as_str() {
            "comment" => member::SHARE_REMARK,
            "max connections" => member::SHARE_MAX_USES,
            "path" => member::SHARE_PATH,
            _ => 0,
        }),
        ShareRefusal::BadAcl => invalid(member::SHARE_FILE_SD),
        ShareRefusal::Exists => (0, error::DUPLICATE_SHARE),
        ShareRefusal::NotFound => (0, error::NET_NAME_NOT_FOUND),
        ShareRefusal::NotOurs => DENIED,
        ShareRefusal::NoDirectory => (0, error::UNKNOWN_DEV_DIR),
        ShareRefusal::Failed(why) => {
            tracing::error!("an administrator cannot change the shares: {why}");
            (0, error::GEN_FAILURE)
        }
    })
}

fn check_remark(remark: &str) -> Result<(), Failure> {
    if remark.encode_utf16().count() <= SHARE_REMARK_LIMIT { Ok(()) } else { Err(invalid(member::SHARE_REMARK)) }
}

/// Returns `max connections`, where 0 is no limit.
fn max_connections(max_uses: u32) -> u32 {
    if max_uses == u32::MAX { 0 } else { max_uses }
}

fn descriptor(info: &ShareInfo) -> Result<Option<Box<SecurityDescriptor>>, Failure> {
    let decode = |bytes: &Vec<u8>| SecurityDescriptor::decode(bytes).map(Box::new);
    info.security.as_ref().map(decode).transpose().map_err(|_| invalid(member::SHARE_FILE_SD))
}

/// Returns the path on this host of a path in the notation of Windows, as shares show it. Like Samba, the drive may be
/// left out. It must have no `.` and `..` ([MS-SRVS] 3.1.4.7).
fn local_path(path: &str) -> Option<PathBuf> {
    let drive = path.get(..2).filter(|drive| drive.eq_ignore_ascii_case("c:"));
    let path = path[drive.map_or(0, str::len)..].replace('\\', "/");
    let is_plain = !path.split('/').any(|name| name == "." || name == "..");
    let path = PathBuf::from(path);
    let path = path.components().collect::<PathBuf>();
    (is_plain && path.is_absolute() && path.components().all(|it| it != Component::ParentDir)).then_some(path)
}
