//! Quotas of users and groups ([MS-SMB2] 3.3.5.20.4 and 3.3.5.21.4, [MS-FSA] 2.1.5.21 and 2.1.5.22), and the rules of a
//! file system for them (FileFsControlInformation).
//!
//! As in Samba, quotas are for administrators: users who act as root, because the quotas are those of the whole file
//! system, not only of the share.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use proto::bytes::{Reader, Writer};
use proto::dtyp::{AccessMask, FileTime, Sid};
use proto::fscc::{
    EntryChain, FileFsControlInformation, FileGetQuotaInformation, FileQuotaInformation, FileSystemControlFlags,
    FsInformationClass,
};
use proto::smb2::InfoType;
use proto::smb2::query_info::{QueryInfoRequest, QueryQuotaInfo};
use proto::smb2::set_info::SetInfoRequest;
use proto::status::Status;

use super::Answer;
use super::encoded;
use crate::accounts::IdMap;
use crate::accounts::principals::UnixId;
use crate::acl::sids;
use crate::error::{Error, Result};
use crate::policy::limits::{QUOTA_SIDS_MAX, QUOTAS_PER_REQUEST};
use crate::request::{Reply, Request};
use crate::state::open::{Open, QuotaFile};
use crate::tree::Disk;
use crate::user::User;
use crate::vfs::{Errno, Node, Op, Quota, QuotaLimits, QuotaOwner, QuotaRules, Quotas};
use crate::yielding::Work;

/// No threshold or no limit.
const UNLIMITED: u64 = u64::MAX;
/// Deletes the entry of a user (-2).
const NO_ENTRY: u64 = u64::MAX - 1;
/// The cost of a look-up of an account in units of [`Work`].
const LOOK_UP: u32 = 64;

/// The number of accounts from which a request that looks them up gets an interim response.
const MANY: usize = 8;

fn quotas_of(file: &QuotaFile) -> Result<Arc<dyn Quotas>> {
    if file.op.uid != 0 {
        return Err(Error::because(Status::ACCESS_DENIED, "only `admin users` of the share may manage quotas"));
    }
    file.node.quotas().ok_or(Error::because(Status::NOT_SUPPORTED, "this kind of storage has no quotas"))
}

/// The refusal of quotas on another handle, as in Samba.
pub(crate) fn other_handle() -> Error {
    Error::because(Status::INVALID_HANDLE, "quotas are queried and set through the quota file only")
}

/// Explains why the kernel refuses a call of an administrator.
fn refused(errno: Errno) -> Error {
    match errno {
        Errno::PERM => Error::because(
            Status::ACCESS_DENIED,
            "the process does not have CAP_SYS_ADMIN, without which the kernel does not permit managing quotas; set \
             `frevo:quotas = yes` for the share and restart the server",
        ),
        Errno::OPNOTSUPP => Error::because(Status::NOT_SUPPORTED, "the file system does not count what users occupy"),
        errno => errno.into(),
    }
}

/// Returns quotas: those of the users of a list, or the next ones of an enumeration.
pub(crate) async fn query(
    request: &Request<'_>,
    reply: &mut Reply,
    asked: &QueryInfoRequest<'_>,
    file: &QuotaFile,
    disk: &Disk,
) -> Result<Answer> {
    let quotas = quotas_of(file)?;
    let wanted = QueryQuotaInfo::decode(asked.buffer)?;
    let space = asked.output_buffer_length as usize;
    let mut answer = Answer { bytes: Vec::new(), fixed: 0, more: false };
    let mut out = Writer::new(&mut answer.bytes);
    let mut chain = EntryChain::new(&out, FileQuotaInformation::ALIGNMENT, space);
    if !wanted.sid_list.is_empty() {
        if !wanted.sid_list.len().is_multiple_of(4) {
            return Err(Error::because(Status::INVALID_PARAMETER, "SidListLength is not a multiple of 4"));
        }
        let most = if wanted.return_single { 1 } else { QUOTA_SIDS_MAX };
        let listed = FileGetQuotaInformation::list(wanted.sid_list).take(most + 1);
        let mut listed = listed.collect::<proto::bytes::Result<Vec<_>>>()?;
        if wanted.return_single {
            listed.truncate(1);
        } else if listed.len() > most {
            return Err(Error::because(Status::INSUFFICIENT_RESOURCES, "too many users in one request"));
        }
        let sids: Vec<Sid> = listed.iter().map(|entry| entry.sid).collect();
        if sids.len() > MANY {
            reply.go_async(request)?;
        }
        disk.ids.expect_sids(&sids).await;
        let mut work = Work::new();
        for sid in sids {
            work.spend(LOOK_UP).await;
            let quota = match owner(&*disk.ids, &sid).await? {
                Some(of) => Some(quotas.quota(&file.op, of).await.map_err(refused)?),
                None => None,
            };
            // [MS-SMB2] 3.3.5.20.4: STATUS_SUCCESS if at least one is returned.
            if !entry(sid, quota.as_ref()).push(&mut chain, &mut out) {
                break;
            }
        }
        return finished(answer, chain.is_empty(), Status::BUFFER_TOO_SMALL);
    }
    if !wanted.start_sid.is_empty() {
        let start = Sid::decode(&mut Reader::new(wanted.start_sid))?;
        let Some(QuotaOwner::User(uid)) = owner(&*disk.ids, &start).await? else {
            return Err(Error::because(Status::INVALID_PARAMETER, "StartSid is not that of a user"));
        };
        // [MS-SMB2] 3.3.5.20.4: the entries that follow it.
        file.next.store(u64::from(uid) + 1, Ordering::Relaxed);
    } else if wanted.restart_scan {
        file.next.store(0, Ordering::Relaxed);
    }
    if space < FileQuotaInformation::FIXED_SIZE + Sid::unix_user(0).size() {
        return Err(Error::new(Status::BUFFER_TOO_SMALL));
    }
    let most = if wanted.return_single { 1 } else { QUOTAS_PER_REQUEST };
    let Ok(first) = u32::try_from(file.next.load(Ordering::Relaxed)) else {
        return Err(Error::new(Status::NO_MORE_ENTRIES));
    };
    let most = most.min(space / FileQuotaInformation::FIXED_SIZE);
    if most > MANY {
        reply.go_async(request)?;
    }
    let users = quotas.users(&file.op, first, most).await.map_err(refused)?;
    if users.is_empty() {
        return Err(Error::new(Status::NO_MORE_ENTRIES));
    }
    let mut work = Work::new();
    for (uid, quota) in users {
        work.spend(LOOK_UP).await;
        let sid = sids::of_account(&*disk.ids, UnixId::User(uid)).await;
        if !entry(sid, Some(&quota)).push(&mut chain, &mut out) {
            break;
        }
        file.next.store(u64::from(uid) + 1, Ordering::Relaxed);
    }
    finished(answer, chain.is_empty(), Status::BUFFER_TOO_SMALL)
}

fn finished(answer: Answer, is_empty: bool, otherwise: Status) -> Result<Answer> {
    if is_empty { Err(Error::new(otherwise)) } else { Ok(answer) }
}

/// Returns the user or group that has a SID; `None` for an unknown one.
async fn owner(ids: &dyn IdMap, sid: &Sid) -> Result<Option<QuotaOwner>> {
    Ok(sids::one_id_of(ids, sid).await?.and_then(|id| match id {
        UnixId::User(id) => Some(QuotaOwner::User(id)),
        UnixId::Group(id) => Some(QuotaOwner::Group(id)),
        UnixId::Both(_) => None,
    }))
}

/// Returns the entry of a user; one of zeros without a quota (3.3.5.20.4).
fn entry(sid: Sid, quota: Option<&Quota>) -> FileQuotaInformation {
    let (quota_used, quota_threshold, quota_limit) = match quota {
        Some(quota) => (quota.used, on_wire(quota.limits.soft), on_wire(quota.limits.hard)),
        None => (0, 0, 0),
    };
    // The kernel does not record when limits were changed.
    FileQuotaInformation { change_time: FileTime(0), quota_used, quota_threshold, quota_limit, sid }
}

fn on_wire(limit: Option<u64>) -> u64 {
    limit.unwrap_or(UNLIMITED)
}

/// Converts a threshold or limit of a client.
fn from_wire(limit: u64) -> Result<Option<u64>> {
    match limit {
        // 0 is not a limit, as in Samba and Linux: smbcquotas sends it to remove a limit.
        0 | UNLIMITED | NO_ENTRY => Ok(None),
        limit if limit > i64::MAX as u64 => Err(Error::because(Status::INVALID_PARAMETER, "a negative limit")),
        limit => Ok(Some(limit)),
    }
}

fn limits_from_wire(threshold: u64, limit: u64) -> Result<QuotaLimits> {
    let limits = QuotaLimits { soft: from_wire(threshold)?, hard: from_wire(limit)? };
    // XFS would ignore them without an error.
    if let QuotaLimits { soft: Some(soft), hard: Some(hard) } = limits
        && soft > hard
    {
        return Err(Error::because(Status::INVALID_PARAMETER, "the threshold exceeds the limit"));
    }
    Ok(limits)
}

/// Sets limits of users and groups. All are checked before the first one is set.
async fn set(
    request: &Request<'_>,
    reply: &mut Reply,
    asked: &SetInfoRequest<'_>,
    file: &QuotaFile,
    disk: &Disk,
) -> Result<()> {
    let quotas = quotas_of(file)?;
    if asked.buffer.is_empty() {
        return Err(Error::because(Status::INVALID_PARAMETER, "no quotas"));
    }
    let listed = FileQuotaInformation::list(asked.buffer).take(QUOTA_SIDS_MAX + 1);
    let listed = listed.collect::<proto::bytes::Result<Vec<_>>>()?;
    if listed.len() > QUOTA_SIDS_MAX {
        return Err(Error::because(Status::INSUFFICIENT_RESOURCES, "too many users in one request"));
    }
    if listed.len() > MANY {
        reply.go_async(request)?;
    }
    disk.ids.expect_sids(&listed.iter().map(|entry| entry.sid).collect::<Vec<_>>()).await;
    let mut changes = Vec::new();
    let mut work = Work::new();
    for entry in listed {
        work.spend(LOOK_UP).await;
        if entry.sid == Sid::BUILTIN_ADMINISTRATORS {
            if entry.quota_limit != UNLIMITED {
                return Err(Error::because(Status::ACCESS_DENIED, "Administrators cannot have a limit"));
            }
            continue;
        }
        let limits = match entry.quota_limit {
            NO_ENTRY => QuotaLimits::default(),
            limit => limits_from_wire(entry.quota_threshold, limit)?,
        };
        let of = owner(&*disk.ids, &entry.sid).await?;
        let of = of.ok_or(Error::because(Status::INVALID_SID, "no user or group of this server has the SID"))?;
        if of.is_root() && limits != QuotaLimits::default() {
            return Err(Error::because(Status::ACCESS_DENIED, "root cannot have a limit"));
        }
        changes.push((of, limits));
    }
    let (user, peer) = (user_of(request)?, request.connection.peer.remote);
    let (user, share) = (&user.name, &disk.share.name);
    for (of, limits) in changes.into_iter().filter(|(of, _)| !of.is_root()) {
        work.spend(LOOK_UP).await;
        quotas.set_quota(&file.op, of, limits).await.map_err(refused)?;
        tracing::info!(user, %peer, share, ?of, ?limits, "an administrator has set a quota");
    }
    Ok(())
}

fn user_of(request: &Request<'_>) -> Result<Arc<User>> {
    request.session()?.user().ok_or(Error::new(Status::USER_SESSION_DELETED))
}

/// Sets quotas, or the rules for them.
pub(crate) async fn change(
    request: &Request<'_>,
    reply: &mut Reply,
    asked: &SetInfoRequest<'_>,
    (open, file): (&Open, &QuotaFile),
    disk: &Disk,
) -> Result<()> {
    if disk.read_only {
        return Err(disk.refusal());
    }
    if !open.granted.contains(AccessMask::FILE_WRITE_DATA) {
        return Err(Error::because(Status::ACCESS_DENIED, "the handle was not opened for writing"));
    }
    match asked.info_type {
        InfoType::QUOTA => set(request, reply, asked, file, disk).await,
        InfoType::FILESYSTEM => set_rules(request, asked, file, disk).await,
        _ => Err(Error::because(Status::INVALID_DEVICE_REQUEST, "the quota file is not a file")),
    }
}

/// Returns the rules for the users of the file system; none where it does not count. The right to know the default
/// limits is root's.
pub(crate) async fn rules(node: &Arc<dyn Node>, op: &Op) -> Result<QuotaRules> {
    match node.quotas() {
        Some(quotas) => or_none(quotas.rules(op).await),
        None => Ok(QuotaRules::default()),
    }
}

/// Returns whether the file system counts what users occupy.
pub(crate) async fn is_counted(node: &Arc<dyn Node>, op: &Op) -> Result<bool> {
    match node.quotas() {
        Some(quotas) => or_none(quotas.is_counted(op).await),
        None => Ok(false),
    }
}

/// A file system that does not count has no rules. Another error does not mean that.
fn or_none<T: Default>(answer: crate::vfs::Result<T>) -> Result<T> {
    match answer {
        Err(Errno::OPNOTSUPP) => Ok(T::default()),
        answer => Ok(answer?),
    }
}

/// FileFsControlInformation ([MS-FSCC] 2.5.2).
pub(crate) fn control(rules: &QuotaRules) -> Answer {
    let flags = match rules {
        QuotaRules { counted: false, .. } => FileSystemControlFlags(0),
        // FILE_VC_QUOTA_TRACK would say that they are not enforced.
        QuotaRules { enforced: true, .. } => FileSystemControlFlags::QUOTA_ENFORCE,
        QuotaRules { .. } => FileSystemControlFlags::QUOTA_TRACK,
    };
    let information = FileFsControlInformation {
        free_space_start_filtering: 0,
        free_space_threshold: 0,
        free_space_stop_filtering: 0,
        default_quota_threshold: on_wire(rules.defaults.soft),
        default_quota_limit: on_wire(rules.defaults.hard),
        file_system_control_flags: flags,
    };
    Answer::fixed(encoded(|out| information.encode(out)))
}

/// Returns why information about a file system cannot be set through a handle other than the quota file.
pub(crate) fn no_rules_here(class: FsInformationClass) -> Error {
    if class == FsInformationClass::CONTROL { other_handle() } else { not_settable() }
}

fn not_settable() -> Error {
    Error::because(Status::NOT_SUPPORTED, "this information about a file system cannot be set")
}

/// Sets information about the file system: the rules for quotas.
async fn set_rules(request: &Request<'_>, asked: &SetInfoRequest<'_>, file: &QuotaFile, disk: &Disk) -> Result<()> {
    if FsInformationClass(asked.file_info_class) != FsInformationClass::CONTROL {
        return Err(not_settable());
    }
    let quotas = quotas_of(file)?;
    if asked.buffer.len() < FileFsControlInformation::SIZE {
        return Err(Error::new(Status::INFO_LENGTH_MISMATCH));
    }
    let wanted = FileFsControlInformation::decode(&mut Reader::new(asked.buffer))?;
    let flags = wanted.file_system_control_flags;
    // Samba's smbcquotas sets both flags to have limits enforced.
    let enforced = flags.contains(FileSystemControlFlags::QUOTA_ENFORCE);
    let counted = enforced || flags.contains(FileSystemControlFlags::QUOTA_TRACK);
    let defaults = limits_from_wire(wanted.default_quota_threshold, wanted.default_quota_limit)?;
    let rules = QuotaRules { counted, enforced, defaults };
    let (user, peer) = (user_of(request)?, request.connection.peer.remote);
    let (user, share) = (&user.name, &disk.share.name);
    quotas.set_rules(&file.op, rules).await.map_err(|errno| match errno {
        Errno::OPNOTSUPP => {
            Error::because(Status::NOT_SUPPORTED, "the file system cannot change these rules while it is mounted")
        }
        errno => refused(errno),
    })?;
    tracing::info!(user, %peer, share, ?rules, "an administrator has set the rules for quotas");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_system_that_does_not_count_has_no_rules() {
        assert_eq!(or_none(Ok(true)).ok(), Some(true));
        assert_eq!(or_none::<bool>(Err(Errno::OPNOTSUPP)).ok(), Some(false));
        let status = or_none::<bool>(Err(Errno::IO)).map_err(|error| error.status);
        assert_eq!(status, Err(Error::from(Errno::IO).status));
    }

    #[test]
    fn limits_on_the_wire() {
        let limits = |threshold, limit| limits_from_wire(threshold, limit).map_err(|error| error.status);
        assert_eq!(limits(UNLIMITED, UNLIMITED), Ok(QuotaLimits::default()));
        assert_eq!(limits(5, UNLIMITED), Ok(QuotaLimits { soft: Some(5), hard: None }));
        assert_eq!(limits(0, 0), Ok(QuotaLimits::default()), "smbcquotas removes limits so");
        assert_eq!(limits(6, 5), Err(Status::INVALID_PARAMETER));
        assert_eq!(limits(UNLIMITED, 1 << 63), Err(Status::INVALID_PARAMETER));
        assert_eq!([Some(7), None].map(on_wire), [7, UNLIMITED]);
    }
}
