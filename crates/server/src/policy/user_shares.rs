//! Shares that users define themselves (`usershare path`).

use std::fmt;
use std::sync::Arc;

use super::{Policy, Share, UserPattern};
use crate::accounts::Unavailable;
use crate::answer::Answer;
use crate::error::{self, Error};
use proto::status::Status;

/// The shares that users define. They are looked up when a client names or lists them.
pub trait UserShares: fmt::Debug + Send + Sync {
    /// Returns the share called `name`, compared ignoring case; `None` if there is none, or it is not allowed.
    fn share(&self, name: &str) -> Answer<Result<Option<Arc<Share>>, Unavailable>>;

    /// Returns all of them.
    fn list(&self) -> Answer<Result<Vec<Arc<Share>>, Unavailable>>;
}

/// The ACL of a share that a user defined, besides the lists of its [`AccessPolicy`](super::AccessPolicy).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UserShareAcl {
    /// The users who may connect.
    pub connect: Vec<UserPattern>,
    /// The users who may write, unless the share is read-only for them anyway.
    pub write: Vec<UserPattern>,
    /// The users who may not connect.
    pub refuse: Vec<UserPattern>,
}

impl Policy {
    /// Returns the share called `name` that a user defined.
    pub(crate) async fn user_share(&self, name: &str) -> error::Result<Option<Arc<Share>>> {
        let Some(shares) = &self.user_shares else { return Ok(None) };
        shares.share(name).await.map_err(|why| {
            tracing::error!(name, why = why.0, "cannot look up a share that a user defined");
            Error::because(Status::BAD_NETWORK_NAME, "the shares that users define cannot be looked up")
        })
    }
}
