//! What the configuration says of people and only the host can tell: who is meant by a list of users, whose home a share
//! is (`[homes]`), and whom a client's name stands for (`username map`).

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use proto::dtyp::Sid;

use super::{Share, Template};
use crate::accounts::Unavailable;
use crate::answer::Answer;

/// An element of a list of users.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UserPattern {
    /// A user's name; one of a domain has it in front.
    User(String),
    /// `+group`: the members of a UNIX group, or of one that has this name in Windows.
    Group(String),
    /// `&group`: the members of a netgroup.
    Netgroup(String),
    /// `@group`: the members of a netgroup, or else of a group.
    NetgroupOrGroup(String),
    /// A user's or group's SID.
    Sid(Sid),
    /// A text with variables that each session fills, which is read once they are filled.
    Variable(Template),
}

impl UserPattern {
    /// Reads one element. `own` are the names of this server, which may stand in front of a name.
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

/// `[homes]`: a share for each user, made of the section and the user's home.
pub trait Homes: Send + Sync {
    /// The share of the user `name`, or of the one with the number `uid` where that is known better; `None` where there is
    /// no such user, or none with a home.
    fn share_of(&self, name: &str, uid: Option<u32>) -> Answer<Result<Option<Arc<Share>>, Unavailable>>;

    /// The section itself, which `\\server\homes` means; its path is of no use.
    fn section(&self) -> &Share;
}

impl fmt::Debug for dyn Homes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Homes").field(self.section()).finish()
    }
}

/// Whether a directory can be somebody's home that is shared. `/` is what those have who have none.
pub fn is_home(path: &Path) -> bool {
    path.is_absolute() && path != Path::new("/")
}

/// `username map`: which account a client means by a name.
pub trait UsernameMap: Send + Sync {
    /// The account's name for the `user` of `domain`, as the client sent them; `None` where the name is its own. An error
    /// means that it cannot be told at the moment.
    fn account_of(&self, domain: &str, user: &str) -> Answer<Result<Option<String>, Unavailable>>;

    /// The account's name for somebody whom a domain or realm has proven to be `full`, `DOMAIN\user`, and to be in
    /// `groups`; `None` where nothing is said of that name in full.
    fn account_of_proven(&self, full: &str, groups: &[String]) -> Answer<Result<Option<String>, Unavailable>>;
}

impl fmt::Debug for dyn UsernameMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UsernameMap")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_groups_and_own_domains_are_told_apart() {
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
    fn the_root_and_nothing_are_no_homes() {
        for (path, expected) in [("/home/ann", true), ("/", false), ("", false), ("home", false)] {
            assert_eq!(is_home(Path::new(path)), expected, "{path}");
        }
    }
}
