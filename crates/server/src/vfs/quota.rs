//! Quotas: how much of a file system its users and groups may occupy.

use super::{Op, Result, Space};
use crate::answer::Answer;

/// The user or group that has a quota.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum QuotaOwner {
    /// The user with this id, who owns the files that count.
    User(u32),
    /// The group with this id.
    Group(u32),
}

impl QuotaOwner {
    /// Returns whether the owner is root. Its files count, but a limit does not apply to it, and Linux keeps the
    /// defaults for others in its place.
    pub fn is_root(self) -> bool {
        matches!(self, QuotaOwner::User(0) | QuotaOwner::Group(0))
    }
}

/// How much may be occupied; `None` means without a limit.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct QuotaLimits {
    /// The amount that may be exceeded for some time only.
    pub soft: Option<u64>,
    /// The amount that cannot be exceeded.
    pub hard: Option<u64>,
}

impl QuotaLimits {
    /// Returns whether no more may be occupied where `used` is, as Samba sees it: not above the soft limit either.
    fn leave_nothing(&self, used: u64) -> bool {
        [self.soft, self.hard].into_iter().flatten().any(|limit| used >= limit)
    }
}

/// What a user or group occupies and may occupy.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Quota {
    /// The bytes that its files occupy.
    pub used: u64,
    /// The limits in bytes.
    pub limits: QuotaLimits,
    /// The number of its files.
    pub files: u64,
    /// The limits of that number.
    pub file_limits: QuotaLimits,
}

impl Quota {
    /// Returns the part of `space` that the quota leaves. As in Samba, the soft limit is the size until it is exceeded.
    pub fn bound(&self, space: Space) -> Space {
        let unit = u64::from(space.block_size.max(1));
        if self.limits.leave_nothing(self.used) || self.file_limits.leave_nothing(self.files) {
            return Space { blocks: space.blocks.min(self.used / unit), available: 0, ..space };
        }
        let Some(limit) = self.limits.soft.or(self.limits.hard) else { return space };
        let (size, left) = (limit / unit, (limit - self.used) / unit);
        Space { blocks: space.blocks.min(size), available: space.available.min(left), ..space }
    }
}

/// The rules for the users of a file system.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct QuotaRules {
    /// What each user occupies is counted.
    pub counted: bool,
    /// Limits of users are enforced.
    pub enforced: bool,
    /// The limits of users without limits of their own. Without them if the caller may not know them.
    pub defaults: QuotaLimits,
}

/// The quotas of a file system. Only root may ask for them and set them (`Errno::PERM`). `Errno::OPNOTSUPP` where the
/// file system counts nothing.
pub trait Quotas: Send + Sync {
    /// Returns the rules. Any user may ask.
    fn rules(&self, op: &Op) -> Answer<Result<QuotaRules>>;

    /// Returns whether what users occupy is counted. It may be that of some seconds ago. Any user may ask.
    fn is_counted(&self, op: &Op) -> Answer<Result<bool>>;

    /// Changes the rules. `Errno::OPNOTSUPP` for what the file system cannot change while it is mounted.
    fn set_rules(&self, op: &Op, rules: QuotaRules) -> Answer<Result<()>>;

    /// Returns the quota of a user or group; one that was never set is empty.
    fn quota(&self, op: &Op, of: QuotaOwner) -> Answer<Result<Quota>>;

    /// Sets the limits of a user or group in bytes. Root cannot have limits (`Errno::INVAL`).
    fn set_quota(&self, op: &Op, of: QuotaOwner, limits: QuotaLimits) -> Answer<Result<()>>;

    /// Returns at most `most` users with ids from `first` who occupy something or have a limit, in order of their ids.
    /// None: there are no more. The cost does not grow with the number of the other users.
    fn users(&self, op: &Op, first: u32, most: usize) -> Answer<Result<Vec<(u32, Quota)>>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACE: Space = Space { block_size: 1024, blocks: 1000, free: 600, available: 500, id: 1 };

    fn bound(used: u64, soft: Option<u64>, hard: Option<u64>) -> (u64, u64, u64) {
        let kib = |limit: Option<u64>| limit.map(|limit| limit * 1024);
        let limits = QuotaLimits { soft: kib(soft), hard: kib(hard) };
        let left = Quota { used: used * 1024, limits, ..Quota::default() }.bound(SPACE);
        (left.blocks, left.available, left.free)
    }

    #[test]
    fn a_quota_bounds_the_space_of_its_user() {
        assert_eq!(bound(100, None, None), (1000, 500, 600));
        assert_eq!(bound(100, None, Some(300)), (300, 200, 600));
        assert_eq!(bound(100, Some(200), Some(300)), (200, 100, 600));
        assert_eq!(bound(250, Some(200), Some(300)), (250, 0, 600), "the soft limit is exceeded");
        assert_eq!(bound(300, None, Some(300)), (300, 0, 600));
        assert_eq!(bound(100, None, Some(5000)), (1000, 500, 600), "the disk is smaller than the quota");
        assert_eq!(bound(0, None, Some(0)), (0, 0, 600));
    }

    #[test]
    fn a_user_with_too_many_files_has_no_space() {
        let file_limits = QuotaLimits { soft: None, hard: Some(10) };
        let with = |files| Quota { files, file_limits, ..Quota::default() }.bound(SPACE).available;
        assert_eq!((with(9), with(10)), (500, 0));
    }
}
