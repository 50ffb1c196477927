//! Quotas of users and groups, by `quotactl`. ext4, XFS and f2fs have them if they were mounted with them.
//!
//! The interface is that of XFS, which Linux offers for the others, too, because it shows what is enforced.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backing::executor::{query, unless_cancelled};
use backing::workers::Lane;
use parking_lot::Mutex;
use rustix::io::Errno as Raw;
use server::answer::Answer;
use server::vfs::{Errno, Identity, Kind, Op, Quota, QuotaLimits, QuotaOwner, QuotaRules, Quotas, Result, Space};

use crate::node::Open;
use crate::root::stat;
use crate::sys::{self, DiskQuota};
use crate::{errno, identity};

/// `XFS_SUPER_MAGIC`: the only file system that keeps default limits, in the place of root.
const XFS: u64 = 0x5846_5342;

/// `S_ISGID`.
const SET_GROUP_ID: u32 = 0o2000;

/// How long a [`QuotaCache`] is used before it is renewed.
const FRESH: Duration = Duration::from_secs(10);

/// Which quotas a file system has, as a worker saw it last. A quota call waits while the file system is frozen, and may
/// read from the disk, so that no thread that may not wait makes one.
#[derive(Default)]
pub(crate) struct QuotaCache(Mutex<Option<(u16, Instant)>>);

impl QuotaCache {
    /// Returns the flags of [`sys::quota_flags`]; `None` to the caller that must have a worker look.
    fn known(&self, now: Instant) -> Option<u16> {
        let mut seen = self.0.lock();
        let (flags, until) = (*seen)?;
        if now < until {
            return Some(flags);
        }
        // Other callers do with the former flags meanwhile.
        *seen = Some((flags, now + FRESH));
        None
    }

    fn note(&self, flags: u16, now: Instant) {
        *self.0.lock() = Some((flags, now + FRESH));
    }

    fn forget(&self) {
        *self.0.lock() = None;
    }
}

/// The quotas of the file system that holds an open file.
pub(crate) struct FileSystemQuotas(pub(crate) Arc<Open>);

/// Returns `OPNOTSUPP` where nothing is counted, or the kernel cannot do it: there is no call for open files before
/// Linux 5.14.
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
fn get(file: BorrowedFd<'_>, of: QuotaOwner) -> Result<Quota> {
    let (kind, id) = kind_and_id(of);
    match sys::quota(file, kind, id) {
        Ok(found) => Ok(quota_of(&found)),
        // XFS has no record of a user without files. The first file will have the default limits.
        Err(Raw::NOENT) if of.is_root() => Ok(Quota::default()),
        Err(Raw::NOENT) => {
            let (limits, file_limits) = defaults(file, kind)?;
            Ok(Quota { limits, file_limits, ..Quota::default() })
        }
        Err(error) => Err(unsupported(error)),
    }
}

/// Returns the default limits of space and of files, which XFS keeps in the place of root's.
fn defaults(file: BorrowedFd<'_>, kind: u32) -> Result<(QuotaLimits, QuotaLimits)> {
    let none = QuotaLimits::default();
    if !is_xfs(file) {
        return Ok((none, none));
    }
    match sys::quota(file, kind, 0) {
        Ok(mut found) => {
            // Only root itself has none.
            found.id = u32::MAX;
            let quota = quota_of(&found);
            Ok((quota.limits, quota.file_limits))
        }
        Err(Raw::NOENT) => Ok((none, none)),
        Err(error) => Err(unsupported(error)),
    }
}

fn is_xfs(file: BorrowedFd<'_>) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|said| said.f_type as u64 == XFS)
}

fn rules_of(flags: u16) -> QuotaRules {
    let (counted, enforced) = (flags & sys::USERS_COUNTED != 0, flags & sys::USERS_ENFORCED != 0);
    QuotaRules { counted, enforced, defaults: QuotaLimits::default() }
}

impl Open {
    /// Returns the part of the space that quotas leave to the user of `op`. It is not bounded if the process does not
    /// have the right to ask for quotas of others.
    pub(crate) fn space_of_user(open: &Arc<Open>, op: &Op) -> Answer<Result<Space>> {
        let who = Arc::clone(op);
        // Root may exceed every quota.
        let is_bounded = identity::uid(&who) != 0
            && identity::may_ask_for_quotas()
            && open.known_flags().is_none_or(|flags| flags & (sys::USERS_ENFORCED | sys::GROUPS_ENFORCED) != 0);
        if !is_bounded {
            return query(open, op, move |open| open.space(&who));
        }
        let again = Arc::clone(open);
        let work = move || again.space(&who).map(|space| again.within_quotas(&who, space));
        open.system.executor.later(op, Lane::Data, unless_cancelled(op, work))
    }

    /// Returns which quotas the file system has, if that is known.
    fn known_flags(&self) -> Option<u16> {
        // File systems beyond the maximum share an entry.
        if self.system.mount == 0 { None } else { self.system.quotas.known(Instant::now()) }
    }

    /// Asks the kernel which quotas the file system has.
    fn flags(&self) -> rustix::io::Result<u16> {
        let flags = sys::quota_flags(self.fd());
        self.system.quotas.note(flags.unwrap_or(0), Instant::now());
        flags
    }

    /// Returns the part of `space` that the quotas leave to the user: the least of the user's quota and of that of the
    /// group to which a new file here would belong. A quota that cannot be read does not bound it. The thread acts as
    /// the process afterwards.
    fn within_quotas(&self, who: &Identity, space: Space) -> Space {
        let flags = self.flags().unwrap_or(0);
        let user = (flags & sys::USERS_ENFORCED != 0).then(|| QuotaOwner::User(identity::uid(who)));
        let group = (flags & sys::GROUPS_ENFORCED != 0).then(|| QuotaOwner::Group(self.group_of_new(who)));
        if user.is_none() && group.is_none() || identity::assume_process().is_err() {
            return space;
        }
        let wanted = [user, group].into_iter().flatten().filter(|of| !of.is_root());
        wanted.fold(space, |space, of| get(self.fd(), of).map_or(space, |quota| quota.bound(space)))
    }

    /// Returns the group of a new file: that of a directory with the set-group-ID bit, or the user's.
    fn group_of_new(&self, who: &Identity) -> u32 {
        match stat(self.fd()) {
            Ok(now) if self.kind == Kind::Directory && u32::from(now.stx_mode) & SET_GROUP_ID != 0 => now.stx_gid,
            _ => identity::gid(who),
        }
    }

    fn rules(&self, who: &Arc<Identity>) -> Result<QuotaRules> {
        identity::assume(who)?;
        let rules = rules_of(self.flags().map_err(unsupported)?);
        if !rules.counted || identity::uid(who) != 0 {
            return Ok(rules);
        }
        match defaults(self.fd(), sys::USER_QUOTA) {
            Ok((defaults, _)) => Ok(QuotaRules { defaults, ..rules }),
            // Without the privilege they are unknown, and setting others fails.
            Err(Errno::PERM) => Ok(rules),
            Err(error) => Err(error),
        }
    }

    fn set_rules(&self, who: &Arc<Identity>, wanted: QuotaRules) -> Result<()> {
        let present = self.rules(who)?;
        if wanted.counted != present.counted || !wanted.counted && wanted != present {
            // Counting begins and ends with a mount.
            return Err(Errno::OPNOTSUPP);
        }
        if wanted.defaults != present.defaults {
            if !is_xfs(self.fd()) {
                return Err(Errno::OPNOTSUPP);
            }
            sys::set_quota(self.fd(), sys::USER_QUOTA, limits_for(0, wanted.defaults)).map_err(unsupported)?;
        }
        if wanted.enforced != present.enforced {
            let changed = sys::enforce_quotas(self.fd(), wanted.enforced);
            self.system.quotas.forget();
            changed.map_err(unsupported)?;
        }
        Ok(())
    }

    fn quota(&self, who: &Arc<Identity>, of: QuotaOwner) -> Result<Quota> {
        identity::assume(who)?;
        get(self.fd(), of)
    }

    fn set_quota(&self, who: &Arc<Identity>, of: QuotaOwner, limits: QuotaLimits) -> Result<()> {
        if of.is_root() {
            return Err(Errno::INVAL);
        }
        identity::assume(who)?;
        let (kind, id) = kind_and_id(of);
        sys::set_quota(self.fd(), kind, limits_for(id, limits)).map_err(unsupported)
    }

    fn users(&self, who: &Arc<Identity>, first: u32, most: usize) -> Result<Vec<(u32, Quota)>> {
        identity::assume(who)?;
        let mut found = Vec::new();
        let mut next = Some(first);
        while let Some(first) = next.filter(|_| found.len() < most) {
            match sys::next_quota(self.fd(), sys::USER_QUOTA, first) {
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
    /// Runs `work` on a worker, because the kernel may have to wait or to read from the disk.
    fn later<T: Send + 'static>(
        &self,
        op: &Op,
        lane: Lane,
        work: impl FnOnce(&Open, &Arc<Identity>) -> Result<T> + Send + 'static,
    ) -> Answer<Result<T>> {
        let (open, who) = (Arc::clone(&self.0), Arc::clone(op));
        self.0.system.executor.later(op, lane, unless_cancelled(op, move || work(&open, &who)))
    }
}

impl Quotas for FileSystemQuotas {
    fn rules(&self, op: &Op) -> Answer<Result<QuotaRules>> {
        match self.0.known_flags().map(rules_of) {
            // Only root may know the default limits.
            Some(rules) if !rules.counted || op.uid != 0 => Answer::now(Ok(rules)),
            _ => self.later(op, Lane::Data, Open::rules),
        }
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
    fn one_caller_renews_what_is_known() {
        let (cache, now) = (QuotaCache::default(), Instant::now());
        assert_eq!(cache.known(now), None);
        cache.note(0, now);
        assert_eq!(cache.known(now + FRESH / 2), Some(0));
        let later = now + 2 * FRESH;
        assert_eq!([cache.known(later), cache.known(later)], [None, Some(0)], "the second caller does not wait");
        cache.forget();
        assert_eq!(cache.known(later), None);
    }

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
