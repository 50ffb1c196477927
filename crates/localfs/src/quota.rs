//! Quotas of users and groups, by `quotactl`. ext4, XFS and f2fs have them if they were mounted with them.
//!
//! Changes use the interface of XFS, which Linux offers for the others, too, because it shows what is enforced.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use backing::executor::{query, unless_cancelled};
use backing::workers::Lane;
use parking_lot::Mutex;
use rustix::io::Errno as Raw;
use server::answer::Answer;
use server::vfs::{Errno, Identity, Kind, Op, Quota, QuotaLimits, QuotaOwner, QuotaRules, Quotas, Result, Space};

use crate::node::Open;
use crate::root::stat;
use crate::sys::{self, DiskQuota, Interface};
use crate::{errno, identity};

/// `XFS_SUPER_MAGIC`: the only file system that keeps default limits, in the place of root.
const XFS: u64 = 0x5846_5342;

/// `S_ISGID`.
const SET_GROUP_ID: u32 = 0o2000;

/// How long a [`QuotaCache`] is used before it is renewed.
const FRESH: Duration = Duration::from_secs(10);

/// Which quotas a file system has, as a worker saw it last. No thread that may not wait makes a quota call: a call may
/// read from the disk, and those that [`found`] and changes make wait while the file system is frozen.
#[derive(Default)]
pub(crate) struct QuotaCache {
    seen: Mutex<Seen>,
    /// Whether the kernel refused to tell a quota to root. `CAP_SYS_ADMIN` of a user namespace is not enough, and a
    /// process does not get the privilege later.
    refused: AtomicBool,
}

/// What a worker saw.
#[derive(Default)]
struct Seen {
    flags: Option<(u16, Instant)>,
    /// The number of changes. Flags that were read before a change are not noted after it.
    changes: u64,
}

impl QuotaCache {
    /// Returns the flags of [`sys::quota_flags`]; `None` to the caller that must have a worker look.
    fn known(&self, now: Instant) -> Option<u16> {
        let mut seen = self.seen.lock();
        let (flags, until) = seen.flags?;
        if now < until {
            return Some(flags);
        }
        // Other callers do with the former flags meanwhile.
        seen.flags = Some((flags, now + FRESH));
        None
    }

    /// Returns the number for [`QuotaCache::note`], before the flags are read.
    fn changes(&self) -> u64 {
        self.seen.lock().changes
    }

    fn note(&self, flags: u16, changes: u64, now: Instant) {
        let mut seen = self.seen.lock();
        if seen.changes == changes {
            seen.flags = Some((flags, now + FRESH));
        }
    }

    /// To be called after a change.
    fn forget(&self) {
        let mut seen = self.seen.lock();
        seen.flags = None;
        seen.changes += 1;
    }

    fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
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

/// Like [`unsupported`], for a question that requires no privilege: only a filter of system calls refuses it, and
/// `INVAL` means that the file system does not know quotas of users.
fn unknown_flags(error: Raw) -> Errno {
    match error {
        Raw::PERM | Raw::INVAL => Errno::OPNOTSUPP,
        error => unsupported(error),
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

/// Reads a quota. ext4 may start a transaction of its journal to read one, which must not happen while it is frozen, so
/// that the call has to wait. XFS starts none. A file system that is mounted read-only refuses calls that wait.
fn found(
    file: BorrowedFd<'_>,
    ask: impl Fn(Interface) -> rustix::io::Result<DiskQuota>,
) -> rustix::io::Result<DiskQuota> {
    if is_xfs(file) {
        return ask(Interface::Xfs);
    }
    match ask(Interface::Generic) {
        Err(Raw::ROFS) => ask(Interface::Xfs),
        answer => answer,
    }
}

/// Returns a quota with the identity of the thread.
fn get(file: BorrowedFd<'_>, of: QuotaOwner) -> Result<Quota> {
    let (kind, id) = kind_and_id(of);
    let quota = match found(file, |interface| sys::quota(file, interface, kind, id)) {
        Ok(found) => quota_of(&found),
        // XFS has no record of a user without files.
        Err(Raw::NOENT) => Quota::default(),
        Err(error) => return Err(unsupported(error)),
    };
    if of.is_root() { Ok(quota) } else { Ok(known_defaults(file, kind)?.fill(quota)) }
}

/// The default limits of a file system.
#[derive(Default)]
struct Defaults {
    space: QuotaLimits,
    files: QuotaLimits,
}

impl Defaults {
    /// Returns the quota as the kernel enforces it: XFS applies the default limits in the place of those that are 0,
    /// except to root.
    fn fill(&self, quota: Quota) -> Quota {
        let fill = |own: QuotaLimits, other: QuotaLimits| QuotaLimits {
            soft: own.soft.or(other.soft),
            hard: own.hard.or(other.hard),
        };
        Quota { limits: fill(quota.limits, self.space), file_limits: fill(quota.file_limits, self.files), ..quota }
    }
}

/// Returns the default limits, which XFS keeps in the place of root's.
fn defaults(file: BorrowedFd<'_>, kind: u32) -> Result<Defaults> {
    if !is_xfs(file) {
        return Ok(Defaults::default());
    }
    match sys::quota(file, Interface::Xfs, kind, 0) {
        Ok(mut found) => {
            // Only root itself has none.
            found.id = u32::MAX;
            let quota = quota_of(&found);
            Ok(Defaults { space: quota.limits, files: quota.file_limits })
        }
        Err(Raw::NOENT) => Ok(Defaults::default()),
        Err(error) => Err(unsupported(error)),
    }
}

/// Returns the default limits; none if they are unknown, because the process does not have the privilege.
fn known_defaults(file: BorrowedFd<'_>, kind: u32) -> Result<Defaults> {
    match defaults(file, kind) {
        Err(Errno::PERM) => Ok(Defaults::default()),
        answer => answer,
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
            && !open.system.quotas.is_refused()
            && open.known_flags().is_none_or(|flags| flags & (sys::USERS_ENFORCED | sys::GROUPS_ENFORCED) != 0);
        if !is_bounded {
            return query(open, op, move |open| open.space(&who));
        }
        let again = Arc::clone(open);
        let work = move || again.space(&who).map(|space| again.within_quotas(&who, space));
        open.system.executor.later(op, Lane::Slow, unless_cancelled(op, work))
    }

    /// Returns which quotas the file system has, if that is known.
    fn known_flags(&self) -> Option<u16> {
        // File systems beyond the maximum share an entry. Their quotas do not bound free space, which would cost each
        // query of each of them a worker.
        if self.system.mount == 0 || !sys::has_quota_calls() {
            return Some(0);
        }
        self.system.quotas.known(Instant::now())
    }

    /// Asks the kernel which quotas the file system has.
    fn flags(&self) -> rustix::io::Result<u16> {
        let changes = self.system.quotas.changes();
        let flags = sys::quota_flags(self.fd());
        self.system.quotas.note(flags.unwrap_or(0), changes, Instant::now());
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
        wanted.fold(space, |space, of| match get(self.fd(), of) {
            Ok(quota) => quota.bound(space),
            Err(error) => {
                // A process that is not root may ask for its own user, and not for every group.
                if error == Errno::PERM && identity::may_switch() {
                    self.system.quotas.refused.store(true, Ordering::Relaxed);
                }
                space
            }
        })
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
        let rules = rules_of(self.flags().map_err(unknown_flags)?);
        if !rules.counted || identity::uid(who) != 0 {
            return Ok(rules);
        }
        Ok(QuotaRules { defaults: known_defaults(self.fd(), sys::USER_QUOTA)?.space, ..rules })
    }

    fn is_counted(&self, who: &Arc<Identity>) -> Result<bool> {
        identity::assume(who)?;
        Ok(rules_of(self.flags().map_err(unknown_flags)?).counted)
    }

    fn set_rules(&self, who: &Arc<Identity>, wanted: QuotaRules) -> Result<()> {
        identity::assume(who)?;
        let mut present = rules_of(self.flags().map_err(unknown_flags)?);
        if present.counted {
            // Unknown ones cannot be compared.
            present.defaults = defaults(self.fd(), sys::USER_QUOTA)?.space;
        }
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
            // What the next caller is to know. The change is made, whatever this call says.
            let _ = self.flags();
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
        let (mut users, mut next) = (Vec::new(), Some(first));
        let defaults = known_defaults(self.fd(), sys::USER_QUOTA)?;
        while let Some(first) = next.filter(|_| users.len() < most) {
            match found(self.fd(), |interface| sys::next_quota(self.fd(), interface, sys::USER_QUOTA, first)) {
                Ok(quota) => {
                    let shown = quota_of(&quota);
                    users.push((quota.id, if quota.id == 0 { shown } else { defaults.fill(shown) }));
                    next = quota.id.checked_add(1).filter(|next| *next > first);
                }
                Err(Raw::NOENT | Raw::SRCH) => break,
                Err(error) => return Err(unsupported(error)),
            }
        }
        Ok(users)
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

    /// Runs `work` for root only. The kernel alone is not enough: threads that act as a user have `CAP_SYS_ADMIN` on a
    /// server that writes `security.` attributes, and a user may ask for their own quota. The call may wait for a file
    /// system that is frozen.
    fn as_root<T: Send + 'static>(
        &self,
        op: &Op,
        work: impl FnOnce(&Open, &Arc<Identity>) -> Result<T> + Send + 'static,
    ) -> Answer<Result<T>> {
        if op.uid != 0 { Answer::now(Err(Errno::PERM)) } else { self.later(op, Lane::Slow, work) }
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

    fn is_counted(&self, op: &Op) -> Answer<Result<bool>> {
        match self.0.known_flags() {
            Some(flags) => Answer::now(Ok(rules_of(flags).counted)),
            None => self.later(op, Lane::Data, Open::is_counted),
        }
    }

    fn set_rules(&self, op: &Op, rules: QuotaRules) -> Answer<Result<()>> {
        self.as_root(op, move |open, who| open.set_rules(who, rules))
    }

    fn quota(&self, op: &Op, of: QuotaOwner) -> Answer<Result<Quota>> {
        self.as_root(op, move |open, who| open.quota(who, of))
    }

    fn set_quota(&self, op: &Op, of: QuotaOwner, limits: QuotaLimits) -> Answer<Result<()>> {
        self.as_root(op, move |open, who| open.set_quota(who, of, limits))
    }

    fn users(&self, op: &Op, first: u32, most: usize) -> Answer<Result<Vec<(u32, Quota)>>> {
        self.as_root(op, move |open, who| open.users(who, first, most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_renews_what_is_known() {
        let (cache, now) = (QuotaCache::default(), Instant::now());
        assert_eq!(cache.known(now), None);
        cache.note(0, 0, now);
        assert_eq!(cache.known(now + FRESH / 2), Some(0));
        let later = now + 2 * FRESH;
        assert_eq!([cache.known(later), cache.known(later)], [None, Some(0)], "the second caller does not wait");
        cache.forget();
        assert_eq!(cache.known(later), None);
    }

    #[test]
    fn what_was_read_before_a_change_is_not_noted_after_it() {
        let (cache, now) = (QuotaCache::default(), Instant::now());
        let before = cache.changes();
        cache.forget();
        cache.note(7, before, now);
        assert_eq!(cache.known(now), None);
        cache.note(5, cache.changes(), now);
        cache.note(7, before, now);
        assert_eq!(cache.known(now), Some(5));
    }

    #[test]
    fn default_limits_apply_in_the_place_of_each_that_is_not_set() {
        let limits = |soft, hard| QuotaLimits { soft, hard };
        let defaults = Defaults { space: limits(Some(10), Some(20)), files: limits(None, Some(3)) };
        let own = Quota { used: 5, limits: limits(None, Some(40)), ..Quota::default() };
        let filled = defaults.fill(own);
        assert_eq!((filled.used, filled.limits), (5, limits(Some(10), Some(40))));
        assert_eq!(filled.file_limits, limits(None, Some(3)));
        assert_eq!(Defaults::default().fill(own), own);
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
