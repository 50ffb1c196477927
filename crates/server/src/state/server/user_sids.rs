//! The SIDs of a user, by which user lists name them.

use proto::dtyp::Sid;
use proto::status::Status;

use super::Server;
use crate::acl::model::token;
use crate::error::{Error, Result};
use crate::user::User;

impl Server {
    /// Returns all SIDs of `user` and their groups, before `force user` and the like.
    pub(crate) async fn sids_of(&self, user: &User) -> Result<Vec<Sid>> {
        let mapped = self.accounts.ids.sids_of(&user.identity).await;
        let mapped = mapped.map_err(|why| Error::because(Status::NO_LOGON_SERVERS, why.0))?;
        let token = token::of(user, &user.identity, &mapped, self.accounts.ids.domain());
        Ok(std::iter::once(token.user).chain(token.groups.iter().copied()).collect())
    }
}
