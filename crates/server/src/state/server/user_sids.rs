//! The SIDs and the token of a user, for user lists, and the rights that the ACL of a share gives to them.

use proto::dtyp::{AccessMask, Sid};
use proto::status::Status;

use super::Server;
use crate::acl::model::evaluate::{self, Token};
use crate::acl::model::token;
use crate::error::{Error, Result};
use crate::policy::Share;
use crate::tree::Disk;
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

    /// Returns the rights that the ACL of the share gives to the user with this token. As in Samba, a user who may
    /// neither read nor write cannot connect.
    pub(crate) fn share_rights(&self, share: &Share, token: &Token) -> Result<AccessMask> {
        let policy = self.policy();
        let Some(acl) = policy.share_acls.as_ref().and_then(|acls| acls.acl_of(&share.name)) else {
            return Ok(Disk::ALL_RIGHTS);
        };
        let rights = evaluate::granted(token, &acl);
        if (rights & (AccessMask::FILE_READ_DATA | AccessMask::FILE_WRITE_DATA)).is_empty() {
            return Err(Error::because(Status::ACCESS_DENIED, "refused by the ACL of the share"));
        }
        // The right to the SACL of a file follows from a privilege.
        Ok(rights | AccessMask::ACCESS_SYSTEM_SECURITY)
    }
}
