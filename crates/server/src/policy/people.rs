//! Settings about users that only the host can resolve: user lists, home directories as shares (`[homes]`), and the
//! mapping of client user names (`username map`).

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use proto::dtyp::Sid;

use super::{Policy, Share, Template, fold};
use crate::accounts::Unavailable;
use crate::answer::Answer;
use crate::error::{self, Error};
use crate::user::User;
use proto::status::Status;

/// An element of a user list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UserPattern {
    /// A user's name, with a prefix if the user is of a domain.
    User(String),
    /// `+group`: the members of a Linux group, or of a group with this name in Windows.
    Group(String),
    /// `&group`: the members of a netgroup.
    Netgroup(String),
    /// `@group`: the members of a netgroup, or otherwise of a group.
    NetgroupOrGroup(String),
    /// A user's or group's SID.
    Sid(Sid),
    /// A text with variables that depend on the session; parsed after they are expanded.
    Variable(Template),
}

impl UserPattern {
    /// Parses one element. `own` are the names of this server, which are accepted as a prefix.
    pub fn parse(element: &str, own: &[&str]) -> UserPattern {
        let name = element.trim_start_matches(['@', '+', '&']);
        let marks = &element[..element.len() - name.len()];
        let mut plain = name;
        if let Some((front, behind)) = name.split_once('\\') {
            let is_own = own.iter().chain(&["Unix Group", "Unix User"]).any(|own| own.eq_ignore_ascii_case(front));
            plain = if is_own { behind } else { name };
        }
        let plain = plain.to_owned();
        match (marks.contains(['@', '&']), marks.contains(['@', '+'])) {
            (true, true) => UserPattern::NetgroupOrGroup(plain),
            (true, false) => UserPattern::Netgroup(plain),
            (false, true) => UserPattern::Group(plain),
            (false, false) => match plain.parse() {
                Ok(sid) => UserPattern::Sid(sid),
                Err(_) => UserPattern::User(plain),
            },
        }
    }
}

/// `[homes]`: a share for each user, made from the section and the user's home directory.
pub trait Homes: Send + Sync {
    /// Returns the share of the user `name`, or of the user `uid` if that is known; `None` if there is no such user, or
    /// the user has no home directory.
    fn share_of(&self, name: &str, uid: Option<u32>) -> Answer<Result<Option<Arc<Share>>, Unavailable>>;

    /// Returns the section itself, which is the share `\\server\homes`. Its path must not be used.
    fn section(&self) -> &Share;
}

impl fmt::Debug for dyn Homes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Homes").field(self.section()).finish()
    }
}

/// Whether a directory can be shared as a home directory. `/` means that the user has none.
pub fn is_home(path: &Path) -> bool {
    path.is_absolute() && path != Path::new("/")
}

/// `username map`: the account that a client's user name is mapped to.
pub trait UsernameMap: Send + Sync {
    /// Returns the account's name for the `user` of `domain` as sent by the client; `None` if it is not mapped. An
    /// error means that the mapping cannot be determined now.
    fn account_of(&self, domain: &str, user: &str) -> Answer<Result<Option<String>, Unavailable>>;

    /// Returns the account's name for a user authenticated by a domain or realm as `full`, `DOMAIN\user`, and as a
    /// member of `groups`; `None` if that full name is not mapped.
    fn account_of_proven(&self, full: &str, groups: &[String]) -> Answer<Result<Option<String>, Unavailable>>;
}

impl fmt::Debug for dyn UsernameMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UsernameMap")
    }
}

impl Policy {
    /// Returns the home share of the user `name`. `homes` is the user's own home, unless there is a share with the
    /// user's name. If `name` is not a user, the account that `username map` assigns to it is used.
    pub(crate) async fn home(&self, name: &str, user: &User) -> error::Result<Option<Arc<Share>>> {
        let Some(homes) = self.homes.as_ref().filter(|_| !user.anonymous) else { return Ok(None) };
        // Names of domain accounts have the domain in front, share names do not.
        let own = user.name.rsplit('\\').next().unwrap_or_default();
        let by_homes = name.eq_ignore_ascii_case("homes");
        if by_homes && let Some(share) = self.share(own) {
            return Ok(Some(share.clone()));
        }
        let unavailable = |why: Unavailable| {
            tracing::error!(name, why = why.0, "cannot look up the owner of a home directory");
            Error::because(Status::BAD_NETWORK_NAME, "the owner of the home directory cannot be looked up")
        };
        if by_homes || fold(name) == fold(own) {
            return homes.share_of(&user.name, Some(user.identity.uid)).await.map_err(unavailable);
        }
        if let Some(found) = homes.share_of(name, None).await.map_err(unavailable)? {
            return Ok(Some(found));
        }
        let Some(map) = &self.username_map else { return Ok(None) };
        match map.account_of("", name).await.map_err(unavailable)? {
            Some(account) => homes.share_of(&account, None).await.map_err(unavailable),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_groups_and_own_domains_are_distinguished() {
        let user = |name: &str| UserPattern::User(name.into());
        let group = |name: &str| UserPattern::Group(name.into());
        let cases = [
            ("ann", user("ann")),
            ("ann b", user("ann b")),
            ("@staff", UserPattern::NetgroupOrGroup("staff".into())),
            ("+staff", group("staff")),
            ("&staff", UserPattern::Netgroup("staff".into())),
            ("+&staff", UserPattern::NetgroupOrGroup("staff".into())),
            ("&+staff", UserPattern::NetgroupOrGroup("staff".into())),
            ("SRV\\ann", user("ann")),
            ("+group\\staff", group("staff")),
            ("+\"x", group("\"x")),
            ("OTHER\\ann", user("OTHER\\ann")),
            ("+OTHER\\Domain Users", group("OTHER\\Domain Users")),
            ("Unix User\\ann", user("ann")),
            ("+Unix Group\\staff", group("staff")),
            ("S-1-5-32-544", UserPattern::Sid(Sid::BUILTIN_ADMINISTRATORS)),
            ("S-1-nonsense", user("S-1-nonsense")),
            ("", user("")),
        ];
        for (text, expected) in cases {
            assert_eq!(UserPattern::parse(text, &["SRV", "GROUP"]), expected, "{text}");
        }
    }

    #[test]
    fn the_root_and_an_empty_path_are_not_homes() {
        for (path, expected) in [("/home/ann", true), ("/", false), ("", false), ("home", false)] {
            assert_eq!(is_home(Path::new(path)), expected, "{path}");
        }
    }
}
