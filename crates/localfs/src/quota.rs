//! Quotas of users and groups, by `quotactl`. ext4, XFS and f2fs have them if they were mounted with them.
//!
//! The interface is that of XFS, which Linux offers for the others, too, because it shows what is enforced.

use std::ffi::CString;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, OnceLock};

use backing::workers::Lane;
use rustix::io::Errno as Raw;
use server::answer::Answer;
use server::vfs::{Errno, Identity, Kind, Op, Quota, QuotaLimits, QuotaOwner, QuotaRules, Quotas, Result, Space};

use crate::node::Open;
use crate::root::stat;
use crate::sys::{self, DiskQuota, QuotaPlace};
use crate::{errno, identity};

/// `XFS_SUPER_MAGIC`: the only file system that keeps default limits, in the place of root.
const XFS: u64 = 0x5846_5342;

/// `S_ISGID`.
const SET_GROUP_ID: u32 = 0o2000;

/// The quotas of the file system that holds an open file.
pub(crate) struct FileSystemQuotas(pub(crate) Arc<Open>);

/// The file system of an open file, for quota calls.
struct Target<'a> {
    file: BorrowedFd<'a>,
    /// The device, which the kernel needs before Linux 5.14.
    device: Option<CString>,
}

impl Target<'_> {
    fn place(&self) -> QuotaPlace<'_> {
        self.device.as_deref().map_or(QuotaPlace::File(self.file), QuotaPlace::Device)
    }
}

/// Returns the block device of a mount according to the kernel's mount table.
fn device_of(mount: u64) -> Option<CString> {
    let read = || std::fs::read_to_string("/proc/thread-self/mountinfo");
    let table = identity::as_process(read).ok()?.ok()?;
    CString::new(crate::filesystem::device_in(&table, mount)?).ok()
}

/// Returns `OPNOTSUPP` where nothing is counted.
fn unsupported(error: Raw) -> Errno {
    match error {
        Raw::NOSYS | Raw::SRCH | Raw::NOTBLK | Raw::NODEV => Errno::OPNOTSUPP,
        error => errno(error),
    }
}

fn kind_and_id(of: QuotaOwner) -> (u32, u32) {
    match of {
        QuotaOwner::User(uid) => (sys::USER_QUOTA, uid),
        QuotaOwner::Group(gid) => (sys::GROUP_QUOTA, gid),
    }
}

/// Converts the kernel's numbers, which are 0 without a limit. Root has no limits.
fn quota_of(found: &DiskQuota) -> Quota {
    let limit = |limit: u64, unit: u64| (limit != 0).then(|| limit.saturating_mul(unit));
    let limits = |soft, hard, unit| QuotaLimits { soft: limit(soft, unit), hard: limit(hard, unit) };
    let quota = Quota { used: found.used.saturating_mul(DiskQuota::UNIT), files: found.files, ..Quota::default() };
    if found.id == 0 {
        return quota;
    }
    Quota {
        limits: limits(found.soft, found.hard, DiskQuota::UNIT),
        file_limits: limits(found.files_soft, found.files_hard, 1),
        ..quota
    }
}

/// Converts limits for the kernel. A limit of no bytes is the least that there is, because 0 is no limit.
fn limits_for(id: u32, limits: QuotaLimits) -> DiskQuota {
    let units = |limit: Option<u64>| limit.map_or(0, |limit| limit.div_ceil(DiskQuota::UNIT).max(1));
    DiskQuota::limits(id, units(limits.soft), units(limits.hard))
}

/// Returns a quota with the identity of the thread.
fn get(target: &Target<'_>, of: QuotaOwner) -> Result<Quota> {
    let (kind, id) = kind_and_id(of);
    match sys::quota(target.place(), kind, id) {
        Ok(found) => Ok(quota_of(&found)),
        // XFS has no record of a user without files.
        Err(Raw::NOENT) => Ok(Quota::default()),
        Err(error) => Err(unsupported(error)),
    }
}

/// Returns the default limits, which XFS keeps in the place of root's.
fn defaults(target: &Target<'_>) -> Result<QuotaLimits> {
    match sys::quota(target.place(), sys::USER_QUOTA, 0) {
        Ok(mut found) => {
            // Only root itself has none.
            found.id = u32::MAX;
            Ok(quota_of(&found).limits)
        }
        Err(Raw::NOENT) => Ok(QuotaLimits::default()),
        Err(error) => Err(unsupported(error)),
    }
}

impl Open {
    fn target(&self) -> Target<'_> {
        static HAS_FD: OnceLock<bool> = OnceLock::new();
        let by_file = *HAS_FD.get_or_init(sys::has_quotactl_fd);
        Target { file: self.fd(), device: if by_file { None } else { device_of(self.system.mount) } }
    }

    /// Returns the part of `space` that the quotas leave to the user: the least of the user's quota and of that of the
    /// group to which a new file here would belong. A quota that cannot be read does not bound it.
    pub(crate) fn within_quotas(&self, who: &Arc<Identity>, space: Space) -> Space {
        let uid = identity::uid(who);
        // Root may exceed every quota.
        if uid == 0 {
            return space;
        }
        let target = self.target();
        let flags = sys::quota_flags(target.place()).unwrap_or(0);
        let user = (flags & sys::USERS_ENFORCED != 0).then_some(QuotaOwner::User(uid));
        let group = (flags & sys::GROUPS_ENFORCED != 0).then(|| QuotaOwner::Group(self.group_of_new(who)));
        let mut wanted = [user, group].into_iter().flatten().filter(|of| !of.is_root()).peekable();
        if wanted.peek().is_none() {
            return space;
        }
        let bound = |space: Space, of| get(&target, of).map_or(space, |quota| quota.bound(space));
        identity::as_effective_user(who, || wanted.fold(space, bound)).unwrap_or(space)
    }

    /// Returns the group of a new file: that of a directory with the set-group-ID bit, or the user's.
    fn group_of_new(&self, who: &Identity) -> u32 {
        match stat(self.fd()) {
            Ok(now) if self.kind == Kind::Directory && u32::from(now.stx_mode) & SET_GROUP_ID != 0 => now.stx_gid,
            _ => identity::gid(who),
        }
    }

    fn is_xfs(&self) -> bool {
        rustix::fs::fstatfs(self.fd()).is_ok_and(|said| said.f_type as u64 == XFS)
    }

    fn rules(&self, who: &Arc<Identity>) -> Result<QuotaRules> {
        identity::assume(who)?;
        let target = self.target();
        let flags = sys::quota_flags(target.place()).map_err(unsupported)?;
        let (counted, enforced) = (flags & sys::USERS_COUNTED != 0, flags & sys::USERS_ENFORCED != 0);
        let known = counted && identity::uid(who) == 0 && self.is_xfs();
        let defaults = match known.then(|| defaults(&target)) {
            Some(Ok(defaults)) => defaults,
            // Without the privilege they are unknown, and setting others fails.
            None | Some(Err(Errno::PERM)) => QuotaLimits::default(),
            Some(Err(error)) => return Err(error),
        };
        Ok(QuotaRules { counted, enforced, defaults })
    }

    fn set_rules(&self, who: &Arc<Identity>, wanted: QuotaRules) -> Result<()> {
        let present = self.rules(who)?;
        if wanted.counted != present.counted || !wanted.counted && wanted != present {
            // Counting begins and ends with a mount.
            return Err(Errno::OPNOTSUPP);
        }
        let target = self.target();
        if wanted.defaults != present.defaults {
            if !self.is_xfs() {
                return Err(Errno::OPNOTSUPP);
            }
            sys::set_quota(target.place(), sys::USER_QUOTA, limits_for(0, wanted.defaults)).map_err(unsupported)?;
        }
        if wanted.enforced != present.enforced {
            sys::enforce_quotas(target.place(), wanted.enforced).map_err(unsupported)?;
        }
        Ok(())
    }

    fn quota(&self, who: &Arc<Identity>, of: QuotaOwner) -> Result<Quota> {
        let target = self.target();
        identity::as_effective_user(who, || get(&target, of))?
    }

    fn set_quota(&self, who: &Arc<Identity>, of: QuotaOwner, limits: QuotaLimits) -> Result<()> {
        if of.is_root() {
            return Err(Errno::INVAL);
        }
        let target = self.target();
        identity::assume(who)?;
        let (kind, id) = kind_and_id(of);
        sys::set_quota(target.place(), kind, limits_for(id, limits)).map_err(unsupported)
    }

    fn users(&self, who: &Arc<Identity>, first: u32, most: usize) -> Result<Vec<(u32, Quota)>> {
        let target = self.target();
        identity::assume(who)?;
        let mut found = Vec::new();
        let mut next = Some(first);
        while let Some(first) = next.filter(|_| found.len() < most) {
            match sys::next_quota(target.place(), sys::USER_QUOTA, first) {
                Ok(quota) => {
                    found.push((quota.id, quota_of(&quota)));
                    next = quota.id.checked_add(1).filter(|next| *next > first);
                }
                Err(Raw::NOENT | Raw::SRCH) => break,
                Err(error) => return Err(unsupported(error)),
            }
        }
        Ok(found)
    }
}

impl FileSystemQuotas {
    /// Runs `work` on a worker, because the kernel may have to read from the disk.
    fn later<T: Send + 'static>(
        &self,
        op: &Op,
        lane: Lane,
        work: impl FnOnce(&Open, &Arc<Identity>) -> Result<T> + Send + 'static,
    ) -> Answer<Result<T>> {
        let (open, who) = (Arc::clone(&self.0), Arc::clone(op));
        self.0.system.executor.later(op.uid, lane, move || work(&open, &who))
    }
}

impl Quotas for FileSystemQuotas {
    fn rules(&self, op: &Op) -> Answer<Result<QuotaRules>> {
        let who = Arc::clone(op);
        backing::executor::query(&self.0, op, move |open| open.rules(&who))
    }

    fn set_rules(&self, op: &Op, rules: QuotaRules) -> Answer<Result<()>> {
        self.later(op, Lane::Slow, move |open, who| open.set_rules(who, rules))
    }

    fn quota(&self, op: &Op, of: QuotaOwner) -> Answer<Result<Quota>> {
        self.later(op, Lane::Data, move |open, who| open.quota(who, of))
    }

    fn set_quota(&self, op: &Op, of: QuotaOwner, limits: QuotaLimits) -> Answer<Result<()>> {
        self.later(op, Lane::Data, move |open, who| open.set_quota(who, of, limits))
    }

    fn users(&self, op: &Op, first: u32, most: usize) -> Answer<Result<Vec<(u32, Quota)>>> {
        self.later(op, Lane::Data, move |open, who| open.users(who, first, most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_the_kernels() {
        let limits = |soft, hard| QuotaLimits { soft, hard };
        let converted = |soft, hard| quota_of(&limits_for(7, limits(soft, hard))).limits;
        assert_eq!(converted(None, None), limits(None, None));
        assert_eq!(converted(Some(1024), Some(1 << 40)), limits(Some(1024), Some(1 << 40)));
        assert_eq!(converted(Some(0), Some(513)), limits(Some(512), Some(1024)), "rounded up to what the kernel has");
        assert_eq!(converted(None, Some(u64::MAX - 600)), limits(None, Some(u64::MAX - 511)));
        assert_eq!(quota_of(&limits_for(0, limits(Some(512), None))).limits, limits(None, None), "root has no limits");
    }
}
