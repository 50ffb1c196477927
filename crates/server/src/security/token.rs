//! Who a user is for the access check: the SIDs of a tree connect ([MS-DTYP] 2.5.2).
//!
//! Users and groups are S-1-22-1-uid and S-1-22-2-gid, and who logged on with an account of this server has that
//! account's SID as well. There is no database of privileges: those over files are the root user's, whom `admin users`
//! become.

use proto::dtyp::Sid;

use super::evaluate::Token;
use crate::session::User;
use crate::vfs::Identity;

/// The token of `user`, who acts as `identity`; `own` are the SIDs of his account where that is his own user.
pub(crate) fn of(user: &User, identity: &Identity, own: &[Sid]) -> Token {
    let root = identity.uid == 0;
    let known = !user.guest && !user.anonymous;
    let mut groups = vec![Sid::EVERYONE, Sid::NETWORK, Sid::unix_group(identity.gid)];
    groups.extend(identity.groups.iter().map(|&gid| Sid::unix_group(gid)));
    groups.extend(if known {
        [Sid::AUTHENTICATED_USERS, Sid::BUILTIN_USERS].as_slice()
    } else {
        &[Sid::BUILTIN_GUESTS]
    });
    groups.extend(own);
    groups.extend(root.then_some(Sid::BUILTIN_ADMINISTRATORS));
    Token { user: Sid::unix_user(identity.uid), groups: groups.into(), security: root, take_ownership: root }
}
