//! Matches a user against a share's `valid users`, `invalid users`, `read list`, `write list` and `admin users`.
//!
//! Names are compared case-insensitively, as in Samba. If a back end or name service does not answer, matching fails
//! with an error, so the user is neither admitted nor matched by mistake.

use proto::dtyp::Sid;
use proto::status::Status;

use crate::accounts::principals::{self, SidNameUse};
use crate::accounts::{Accounts, Unavailable};
use crate::error::{Error, Result};
use crate::policy::template::Variable;
use crate::policy::{AccessPolicy, Policy, UserPattern, fold};
use crate::user::User;

/// A user to match.
pub(crate) struct UserMatcher<'a> {
    user: &'a User,
    accounts: &'a Accounts,
    policy: &'a Policy,
    /// The SIDs of the user and the user's groups.
    sids: &'a [Sid],
}

impl<'a> UserMatcher<'a> {
    /// Creates the matcher for `user` with all its SIDs.
    pub(crate) fn new(user: &'a User, sids: &'a [Sid], accounts: &'a Accounts, policy: &'a Policy) -> Self {
        UserMatcher { user, accounts, policy, sids }
    }

    /// Returns whether `valid users` and `invalid users` admit the user.
    pub(crate) async fn is_admitted(&self, access: &AccessPolicy) -> Result<bool> {
        let is_listed = access.valid_users.is_empty() || self.is_on(&access.valid_users).await?;
        Ok(is_listed && !self.is_on(&access.invalid_users).await?)
    }

    /// Returns whether the user is on `list`; an error if that depends on an element that cannot be looked up.
    pub(crate) async fn is_on(&self, list: &[UserPattern]) -> Result<bool> {
        let mut failed = None;
        // The time of look-ups is bounded for each, so a list waits for one that fails.
        let is_known = |pattern: &UserPattern| matches!(pattern, UserPattern::User(_) | UserPattern::Sid(_));
        for pattern in list {
            if failed.is_some() && !is_known(pattern) {
                continue;
            }
            let is_meant = match pattern {
                UserPattern::Variable(template) => match template.expand(|variable| self.value(variable)) {
                    Some(text) => self.is(&UserPattern::parse(&text, &[&self.policy.netbios_name])).await,
                    None => Ok(false),
                },
                pattern => self.is(pattern).await,
            };
            match is_meant {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(why) => failed = Some(why),
            }
        }
        let Some(why) = failed else { return Ok(false) };
        tracing::error!(user = self.user.name, why = why.0, "cannot look up the members of a user list");
        Err(Error::because(Status::NO_LOGON_SERVERS, "users and groups cannot be looked up"))
    }

    fn value(&self, variable: Variable) -> Option<String> {
        match variable {
            Variable::SESSION_USER | Variable::USER => Some(self.user.name.clone()),
            Variable::SESSION_GROUP | Variable::GROUP => self.user.groups.first().cloned(),
            _ => None,
        }
    }

    async fn is(&self, pattern: &UserPattern) -> std::result::Result<bool, Unavailable> {
        match pattern {
            UserPattern::User(name) => Ok(fold(name) == fold(&self.user.name)),
            UserPattern::Group(name) => self.is_in_group(name).await,
            UserPattern::Netgroup(name) => self.accounts.netgroups.is_in_netgroup(&self.user.name, name).await,
            UserPattern::NetgroupOrGroup(name) => {
                // Groups first, because most names are groups and no netgroup look-up is needed for them.
                Ok(self.is_in_group(name).await?
                    || self.accounts.netgroups.is_in_netgroup(&self.user.name, name).await?)
            }
            UserPattern::Sid(sid) => Ok(self.sids.contains(sid)),
            // `is_on` has already expanded variables.
            UserPattern::Variable(_) => Ok(false),
        }
    }

    async fn is_in_group(&self, name: &str) -> std::result::Result<bool, Unavailable> {
        let folded = fold(name);
        if self.user.groups.iter().any(|group| fold(group) == folded) {
            return Ok(true);
        }
        let found = principals::by_name(&*self.accounts.ids, &self.policy.netbios_name, name).await?;
        let is_group = |kind| matches!(kind, SidNameUse::GROUP | SidNameUse::ALIAS | SidNameUse::WELL_KNOWN_GROUP);
        Ok(found.is_some_and(|found| is_group(found.kind) && self.sids.contains(&found.sid)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::answer::block_on;
    use crate::policy::Template;
    use crate::testing::TestAccounts;
    use crate::vfs::Identity;

    fn check(element: &str, expected: bool) {
        assert_eq!(is_on(&["nobody", element]).unwrap(), expected, "{element}");
    }

    fn is_on(elements: &[&str]) -> Result<bool> {
        let user = User {
            name: "Alice".into(),
            domain: "FREVO".into(),
            guest: false,
            anonymous: false,
            workstation: String::new(),
            sids: Arc::new([]),
            identity: Arc::new(Identity { uid: 1000, gid: 1000, groups: Box::new([]) }),
            groups: Arc::new(["staff".into(), "DOM\\Domain Users".into()]),
        };
        let policy = Policy::default();
        let sids = [Sid::of(5, [21, 1, 2, 3, 1000]), Sid::BUILTIN_USERS, Sid::unix_group(1000)];
        let pattern = |element: &&str| match Template::parse(element) {
            Ok(template) if template.constant().is_none() => UserPattern::Variable(template),
            _ => UserPattern::parse(element, &["FREVO"]),
        };
        let people = Accounts::from(Arc::new(TestAccounts));
        let who = UserMatcher::new(&user, &sids, &people, &policy);
        block_on(who.is_on(&elements.iter().map(pattern).collect::<Vec<_>>()))
    }

    #[test]
    fn users_are_named_and_groups_marked() {
        for element in ["alice", "ALICE", "FREVO\\alice", "S-1-5-21-1-2-3-1000", "%U", "%u"] {
            check(element, true);
        }
        for element in ["bob", "OTHER\\alice", "staff", "S-1-5-21-1-2-3-1001", "alice ", "+alice", "%m"] {
            check(element, false);
        }
        for element in ["+staff", "@STAFF", "@DOM\\domain users", "+BUILTIN\\Users", "@Users", "S-1-5-32-545", "@%G"] {
            check(element, true);
        }
        for element in ["&staff", "+wheel", "+Administrators", "@bob", "S-1-5-32-544"] {
            check(element, false);
        }
    }

    #[test]
    fn netgroups_are_looked_up() {
        check("&night-shift", true);
        check("@night-shift", true);
        check("+night-shift", false);
    }

    #[test]
    fn a_look_up_that_fails_decides_only_if_no_other_element_does() {
        assert!(is_on(&["&unreachable", "alice"]).unwrap());
        assert!(is_on(&["alice", "&unreachable"]).unwrap());
        let refused = is_on(&["&unreachable", "bob"]).unwrap_err();
        assert_eq!(refused.status, Status::NO_LOGON_SERVERS);
    }
}
