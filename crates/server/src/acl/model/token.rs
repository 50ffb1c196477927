//! The token of a user for the access check: the SIDs of a tree connect ([MS-DTYP] 2.5.2).
//!
//! Users and groups always have the SIDs S-1-22-1-uid and S-1-22-2-gid, in addition to those of accounts of this server
//! or its domain, and of groups with SIDs of their own (`frevo group`). Privileges over files belong to the root user,
//! as which `admin users` act.

use proto::dtyp::Sid;

use crate::accounts::DomainSid;
use crate::accounts::principals::ALL_USERS_RID;
use crate::acl::model::evaluate::Token;
use crate::user::User;
use crate::vfs::Identity;

/// Returns the token of `user`, who acts as `identity`. `mapped` are the SIDs that represent this Linux user and its
/// groups on a server whose own accounts are in `domain`.
pub(crate) fn of(user: &User, identity: &Identity, mapped: &[Sid], domain: DomainSid) -> Token {
    let root = identity.uid == 0;
    let known = !user.guest && !user.anonymous;
    let mut groups = vec![Sid::EVERYONE, Sid::NETWORK, Sid::unix_group(identity.gid)];
    groups.extend(identity.groups.iter().map(|&gid| Sid::unix_group(gid)));
    groups.extend(if known {
        [Sid::AUTHENTICATED_USERS, Sid::BUILTIN_USERS].as_slice()
    } else {
        &[Sid::BUILTIN_GUESTS]
    });
    // The SIDs of the account do not apply if the share maps the user to another Linux user.
    let own = if identity.uid == user.identity.uid { &*user.sids } else { &[] };
    groups.extend(own.iter().chain(mapped));
    let member = |sid: &Sid| sid.domain() == Some(domain.sid());
    groups.extend(own.first().filter(|sid| member(sid)).map(|_| domain.with_rid(ALL_USERS_RID)));
    groups.extend(root.then_some(Sid::BUILTIN_ADMINISTRATORS));
    Token { user: Sid::unix_user(identity.uid), groups: groups.into(), security: root, take_ownership: root }
}
