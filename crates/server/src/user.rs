//! Logged-on users: the account, its SIDs, and the Linux user that it acts as.

use std::sync::Arc;

use proto::dtyp::Sid;

use crate::accounts::principals::UnixId;
use crate::vfs::Identity;

/// The user that is logged on.
#[derive(Debug)]
pub struct User {
    /// The account's name.
    pub name: String,
    /// The domain or server that the account belongs to.
    pub domain: String,
    /// Logged on as the guest.
    pub guest: bool,
    /// An anonymous logon, valid for IPC$ only.
    pub anonymous: bool,
    /// The name of the client machine as sent by the client; not trustworthy.
    pub workstation: String,
    /// The SIDs of the user account, the current one first; empty for guest and anonymous users.
    pub sids: Arc<[Sid]>,
    /// The UNIX user.
    pub identity: Arc<Identity>,
    /// Names of UNIX groups, for `@group`.
    pub groups: Arc<[String]>,
}

impl User {
    /// Returns whether both are the same user account and both were authenticated; never true for guest or anonymous
    /// users.
    pub fn is_same_account(&self, other: &User) -> bool {
        match (Owner::of(self), Owner::of(other)) {
            (Some(one), Some(two)) => one.is(&two),
            _ => false,
        }
    }

    /// Returns whether both are the same user in the sense of `PreviousSessionId` ([MS-SMB2] 3.3.5.5.3). A guest user
    /// has not proved to be the user account that guests are mapped to.
    pub(crate) fn may_end_sessions_of(&self, other: &User) -> bool {
        let both_guests = self.guest && other.guest;
        self.is_same_account(other) || (both_guests && self.name == other.name && self.identity == other.identity)
    }
}

/// The owner of an open: `Open.DurableOwner`. Guests and anonymous users have none because they cannot be
/// distinguished.
///
/// Use [`Owner::is`] to compare owners instead of comparing the fields.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owner {
    /// The account's SID, unless it is just another form of its uid.
    pub sid: Option<Sid>,
    /// The account's name.
    pub name: String,
    /// The domain or server that the account belongs to.
    pub domain: String,
    /// The Linux user.
    pub uid: u32,
}

impl Owner {
    /// Returns the owner of the opens of `user`; `None` for guests and anonymous users.
    pub fn of(user: &User) -> Option<Owner> {
        let known = !user.guest && !user.anonymous;
        known.then(|| Owner {
            sid: user.sids.first().filter(|sid| UnixId::in_sid(sid).is_none()).copied(),
            name: user.name.clone(),
            domain: user.domain.clone(),
            uid: user.identity.uid,
        })
    }

    /// Whether both are the same account. If both have a SID, only the SIDs are compared, because names and uids may be
    /// reassigned and SIDs are not ([MS-SMB2] 3.3.5.9.7 compares security contexts).
    pub fn is(&self, other: &Owner) -> bool {
        match (self.sid, other.sid) {
            (Some(one), Some(two)) => one == two,
            _ => self.uid == other.uid && self.name == other.name && self.domain == other.domain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_with_the_same_account() {
        let sid = |rid| Sid::of(5, [21, 1, 2, 3, rid]);
        let user = |sid: Option<Sid>, name: &str, uid: u32| User {
            name: name.into(),
            domain: "DOM".into(),
            guest: false,
            anonymous: false,
            workstation: String::new(),
            sids: sid.into_iter().chain([Sid::of(5, [21, 1, 2, 3, 513])]).filter(|_| sid.is_some()).collect(),
            identity: Arc::new(Identity { uid, gid: 1, groups: Box::new([]) }),
            groups: Arc::new([]),
        };
        let check = |one: &User, two: &User, expected: bool| {
            for (one, two) in [(one, two), (two, one)] {
                assert_eq!(one.is_same_account(two), expected, "{one:?} {two:?}");
                assert_eq!(one.may_end_sessions_of(two), expected, "{one:?} {two:?}");
            }
        };
        let ann = user(Some(sid(1103)), "ann", 1000);
        check(&ann, &ann, true);
        check(&ann, &user(Some(sid(1103)), "ann miller", 1000), true);
        // Created again, with the same name and uid.
        check(&ann, &user(Some(sid(1104)), "ann", 1000), false);
        // The SID of one of them is unknown or derived from the uid.
        check(&ann, &user(None, "ann", 1000), true);
        check(&ann, &user(Some(Sid::unix_user(1000)), "ann", 1000), true);
        check(&ann, &user(None, "ann", 1001), false);
        check(&ann, &user(None, "bob", 1000), false);
        check(&ann, &User { domain: "SRV".into(), ..user(None, "ann", 1000) }, false);
        let guest = || User { guest: true, ..user(None, "ann", 1000) };
        check(&ann, &guest(), false);
        assert!(!guest().is_same_account(&guest()) && guest().may_end_sessions_of(&guest()));
        let nobody = User { anonymous: true, ..user(None, "ann", 1000) };
        check(&nobody, &nobody, false);
    }
}
