//! Netgroups, for the user lists of shares.

use super::Unavailable;
use crate::answer::Answer;

/// The netgroups of this host.
pub trait Netgroups: Send + Sync {
    /// Returns whether the UNIX user called `user` is in the netgroup `group`.
    fn is_in_netgroup(&self, user: &str, group: &str) -> Answer<Result<bool, Unavailable>>;
}
