//! The SIDs and the token of a user, for user lists and the ACLs of shares.

use proto::dtyp::Sid;
use proto::status::Status;

use super::Server;
use crate::acl::model::evaluate::Token;
use crate::acl::model::token;
use crate::error::{Error, Result};
use crate::user::User;

impl Server {
    /// Returns all SIDs of `user` and their groups, before `force user` and the like.
    pub(crate) async fn sids_of(&self, user: &User) -> Result<Vec<Sid>> {
        Ok(self.token_of(user).await?.sids())
    }

    /// Returns the token of `user`, before `force user` and the like.
    pub(crate) async fn token_of(&self, user: &User) -> Result<Token> {
        let mapped = self.accounts.ids.sids_of(&user.identity).await;
        let mapped = mapped.map_err(|why| Error::because(Status::NO_LOGON_SERVERS, why.0))?;
        Ok(token::of(user, &user.identity, &mapped, self.accounts.ids.domain()))
    }
}
