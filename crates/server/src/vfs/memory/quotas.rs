//! Quotas of users: what their files take is counted in pages, and limits apply to new pages.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::inode::Body;
use super::pages::PAGE;
use super::{Shared, State};
use crate::answer::Answer;
use crate::vfs::{Errno, Op, Quota, QuotaLimits, QuotaOwner, QuotaRules, Quotas, Result};

/// The rules and limits.
pub(super) struct Limits {
    rules: QuotaRules,
    of: BTreeMap<QuotaOwner, QuotaLimits>,
}

impl Limits {
    /// Limits of nobody, which will be enforced.
    pub(super) fn new() -> Limits {
        Limits { rules: QuotaRules { counted: true, enforced: true, ..QuotaRules::default() }, of: BTreeMap::new() }
    }
}

impl State {
    /// Returns the quota of a user or group.
    pub(super) fn quota_of(&self, of: QuotaOwner) -> Quota {
        let owns = |uid: u32, gid: u32| match of {
            QuotaOwner::User(id) => uid == id,
            QuotaOwner::Group(id) => gid == id,
        };
        let owned = self.inodes.values().filter(|inode| owns(inode.uid, inode.gid));
        let (used, files) = owned.fold((0, 0), |(used, files), inode| match &inode.body {
            Body::File(content) => (used + content.allocated() * PAGE, files + 1),
            _ => (used, files + 1),
        });
        let limits = self.limits.of.get(&of).copied().unwrap_or_default();
        Quota { used, limits, files, file_limits: QuotaLimits::default() }
    }

    /// Returns the number of pages that files of `uid` and `gid` may still take.
    pub(super) fn pages_left(&self, uid: u32, gid: u32) -> Option<u64> {
        if self.limits.of.is_empty() || !self.limits.rules.enforced {
            return None;
        }
        let left = |of: QuotaOwner| {
            let quota = self.quota_of(of);
            quota.limits.hard.map(|limit| limit.saturating_sub(quota.used) / PAGE)
        };
        [QuotaOwner::User(uid), QuotaOwner::Group(gid)].into_iter().filter(|of| !of.is_root()).filter_map(left).min()
    }
}

/// The quotas of a file system.
pub(super) struct MemoryQuotas(pub(super) Arc<Shared>);

impl MemoryQuotas {
    fn as_root<T>(&self, op: &Op, work: impl FnOnce(&mut State) -> Result<T>) -> Answer<Result<T>> {
        Answer::now(if op.uid == 0 { work(&mut self.0.state.lock()) } else { Err(Errno::PERM) })
    }
}

impl Quotas for MemoryQuotas {
    fn rules(&self, op: &Op) -> Answer<Result<QuotaRules>> {
        let rules = self.0.state.lock().limits.rules;
        let defaults = if op.uid == 0 { rules.defaults } else { QuotaLimits::default() };
        Answer::now(Ok(QuotaRules { defaults, ..rules }))
    }

    fn is_counted(&self, _: &Op) -> Answer<Result<bool>> {
        Answer::now(Ok(self.0.state.lock().limits.rules.counted))
    }

    fn set_rules(&self, op: &Op, rules: QuotaRules) -> Answer<Result<()>> {
        self.as_root(op, |state| {
            if !rules.counted {
                return Err(Errno::OPNOTSUPP);
            }
            state.limits.rules = rules;
            Ok(())
        })
    }

    fn quota(&self, op: &Op, of: QuotaOwner) -> Answer<Result<Quota>> {
        self.as_root(op, |state| Ok(state.quota_of(of)))
    }

    fn set_quota(&self, op: &Op, of: QuotaOwner, limits: QuotaLimits) -> Answer<Result<()>> {
        self.as_root(op, |state| {
            if of.is_root() {
                return Err(Errno::INVAL);
            }
            if limits == QuotaLimits::default() {
                state.limits.of.remove(&of);
            } else {
                state.limits.of.insert(of, limits);
            }
            Ok(())
        })
    }

    fn users(&self, op: &Op, first: u32, most: usize) -> Answer<Result<Vec<(u32, Quota)>>> {
        self.as_root(op, |state| {
            let limited = state.limits.of.keys().filter_map(|of| match of {
                QuotaOwner::User(uid) => Some(*uid),
                QuotaOwner::Group(_) => None,
            });
            let mut uids: Vec<u32> = limited.chain(state.inodes.values().map(|inode| inode.uid)).collect();
            uids.retain(|uid| *uid >= first);
            uids.sort_unstable();
            uids.dedup();
            uids.truncate(most);
            Ok(uids.into_iter().map(|uid| (uid, state.quota_of(QuotaOwner::User(uid)))).collect())
        })
    }
}
