//! User accounts for tests.

use std::sync::Arc;

use proto::auth::ntlm::nt_hash;
use proto::auth::pac::LogonInfo;
use proto::dtyp::Sid;

use crate::accounts::lsa::{AccountRights, RightsChange, Secret, SecretChange};
use crate::accounts::principals::{Principal, Realm, SidNameUse, UnixId};
use crate::accounts::{
    Account, AccountPolicy, Accounts, Administration, Authenticator, DomainSid, GroupChange, IdMap, ListedAccount,
    ListedGroup, LogonOutcome, LsaDatabase, Netgroups, NotChanged, NotDone, NtHash, Roster, Unavailable, UserChange,
};
use crate::answer::Answer;
use crate::tickets::ClientName;
use crate::vfs::Identity;

/// The password of all test accounts.
pub const PASSWORD: &str = "secret";

/// The accounts `alice` and `bob`, and the disabled account `carol`, all with [`PASSWORD`]. Tickets are also accepted
/// for `nora`, a system user without an account.
pub struct TestAccounts;

impl Authenticator for TestAccounts {
    fn find(&self, name: &str) -> Answer<Result<Option<Account>, Unavailable>> {
        let known = NAMES.iter().zip(1000..).find(|(known, _)| name.eq_ignore_ascii_case(known));
        Answer::now(Ok(known.map(|(name, uid)| Account {
            disabled: *name == "carol",
            never_expires: *name == "bob",
            ..account(name, uid, PASSWORD)
        })))
    }

    fn find_anew(&self, _: &str) -> Answer<Result<Option<Account>, Unavailable>> {
        Answer::now(Ok(None))
    }

    fn of_client(&self, client: &ClientName, _: Option<&LogonInfo>) -> Answer<Result<Option<Account>, Unavailable>> {
        match &client.components[..] {
            [name] if client.own_realm && name == "nora" => Answer::now(Ok(Some(nora()))),
            [name] if client.own_realm => self.find(name),
            _ => Answer::now(Ok(None)),
        }
    }

    fn logged_on(&self, _: &str, _: LogonOutcome) {}

    fn lock(&self, _: &str) {}

    fn change_password(&self, _: &str, _: NtHash, _: NtHash) -> Answer<Result<(), NotChanged>> {
        password_not_changed()
    }

    fn policy(&self) -> AccountPolicy {
        AccountPolicy::default()
    }
}

impl IdMap for TestAccounts {
    fn id_of(&self, sid: &Sid) -> Answer<Result<Option<UnixId>, Unavailable>> {
        let rid = sid.rid().filter(|&rid| (1000..1003).contains(&rid) && *sid == self.domain().with_rid(rid));
        Answer::now(Ok(UnixId::in_sid(sid).or(rid.map(UnixId::User))))
    }

    fn sid_of(&self, id: UnixId) -> Answer<Result<Sid, Unavailable>> {
        WITHOUT_ACCOUNTS.sid_of(id)
    }

    fn sids_of(&self, identity: &Arc<Identity>) -> Answer<Result<Vec<Sid>, Unavailable>> {
        WITHOUT_ACCOUNTS.sids_of(identity)
    }

    fn principal(&self, sid: &Sid) -> Answer<Result<Option<Principal>, Unavailable>> {
        Answer::now(Ok((1000..).zip(NAMES).map(|(rid, name)| principal(rid, name)).find(|known| known.sid == *sid)))
    }

    fn named(&self, realm: Option<&str>, name: &str) -> Answer<Result<Option<Principal>, Unavailable>> {
        let known = |(_, known): &(u32, &str)| realm.is_none() && name.eq_ignore_ascii_case(known);
        Answer::now(Ok((1000..).zip(NAMES).find(known).map(|(rid, name)| principal(rid, name))))
    }

    fn expect_sids(&self, sids: &[Sid]) -> Answer<()> {
        WITHOUT_ACCOUNTS.expect_sids(sids)
    }

    fn domain(&self) -> DomainSid {
        WITHOUT_ACCOUNTS.domain()
    }

    fn is_of_machine(&self, sid: &Sid) -> bool {
        WITHOUT_ACCOUNTS.is_of_machine(sid)
    }
}

impl Roster for TestAccounts {
    fn users(&self, after: Option<&str>, most: usize) -> Answer<Result<Vec<ListedAccount>, Unavailable>> {
        let listed = |(rid, name): (u32, &str)| ListedAccount {
            name: name.to_owned(),
            sid: self.domain().with_rid(rid),
            full_name: String::new(),
            disabled: name == "carol",
            locked: false,
            never_expires: name == "bob",
        };
        let after = |(_, name): &(u32, &str)| after.is_none_or(|after| *name > after);
        Answer::now(Ok((1000..).zip(NAMES).filter(after).take(most).map(listed).collect()))
    }

    fn count_users(&self) -> Answer<Result<u32, Unavailable>> {
        Answer::now(Ok(NAMES.len() as u32))
    }

    fn groups(&self, after: Option<&Sid>, most: usize) -> Answer<Result<Vec<ListedGroup>, Unavailable>> {
        WITHOUT_ACCOUNTS.groups(after, most)
    }

    fn group(&self, sid: &Sid) -> Answer<Result<Option<ListedGroup>, Unavailable>> {
        WITHOUT_ACCOUNTS.group(sid)
    }

    fn members(&self, group: &Sid, most: usize) -> Answer<Result<Vec<Sid>, Unavailable>> {
        WITHOUT_ACCOUNTS.members(group, most)
    }
}

impl Administration for TestAccounts {
    fn add_user(&self, name: &str) -> Answer<Result<Sid, NotDone>> {
        WITHOUT_ACCOUNTS.add_user(name)
    }

    fn change_user(&self, name: &str, change: UserChange) -> Answer<Result<(), NotDone>> {
        WITHOUT_ACCOUNTS.change_user(name, change)
    }

    fn delete_user(&self, name: &str) -> Answer<Result<(), NotDone>> {
        WITHOUT_ACCOUNTS.delete_user(name)
    }

    fn add_group(&self, name: &str, kind: SidNameUse) -> Answer<Result<Sid, NotDone>> {
        WITHOUT_ACCOUNTS.add_group(name, kind)
    }

    fn change_group(&self, name: &str, change: GroupChange) -> Answer<Result<(), NotDone>> {
        WITHOUT_ACCOUNTS.change_group(name, change)
    }

    fn delete_group(&self, name: &str) -> Answer<Result<(), NotDone>> {
        WITHOUT_ACCOUNTS.delete_group(name)
    }

    fn set_policies(&self, policies: Vec<(&'static str, i64)>) -> Answer<Result<(), NotDone>> {
        WITHOUT_ACCOUNTS.set_policies(policies)
    }
}

impl Netgroups for TestAccounts {
    fn is_in_netgroup(&self, user: &str, group: &str) -> Answer<Result<bool, Unavailable>> {
        Answer::now(match group {
            "unreachable" => Err(Unavailable("the name service does not answer".into())),
            group => Ok(user.eq_ignore_ascii_case("alice") && group == "night-shift"),
        })
    }
}

/// The machine SID of the host with the test accounts.
pub const MACHINE: DomainSid = DomainSid([1, 2, 3]);

const WITHOUT_ACCOUNTS: NoAccounts = NoAccounts(MACHINE);

const NAMES: [&str; 3] = ["alice", "bob", "carol"];

/// Returns an account that is not restricted in any way, with the machine SID of the test accounts.
pub fn account(name: &str, uid: u32, password: &str) -> Account {
    Account {
        name: name.to_owned(),
        nt_hash: Some(NtHash(nt_hash(password))),
        disabled: false,
        locked: false,
        must_change: false,
        never_expires: false,
        sid: MACHINE.with_rid(uid),
        domain: None,
        expires: None,
        former_sids: Arc::new([]),
        full_name: String::new(),
        password_last_set: None,
        identity: Arc::new(Identity { uid, gid: uid, groups: Box::new([]) }),
        groups: Arc::new([]),
    }
}

fn nora() -> Account {
    Account { nt_hash: None, sid: Sid::unix_user(1500), ..account("nora", 1500, PASSWORD) }
}

fn principal(rid: u32, name: &str) -> Principal {
    let sid = TestAccounts.domain().with_rid(rid);
    Principal { sid, kind: SidNameUse::USER, realm: Realm::Server, name: name.to_owned() }
}

/// A host without accounts, groups or netgroups of its own, with the given machine SID. It has UNIX users and groups
/// under the SIDs that contain their ids.
pub struct NoAccounts(pub DomainSid);

impl NoAccounts {
    /// Returns the accounts of `authenticator` on this host.
    pub fn with(self, authenticator: Arc<dyn Authenticator>) -> Accounts {
        let this = Arc::new(self);
        Accounts {
            authenticator,
            ids: this.clone(),
            roster: this.clone(),
            administration: this.clone(),
            netgroups: this.clone(),
            lsa: this,
        }
    }
}

impl IdMap for NoAccounts {
    fn id_of(&self, sid: &Sid) -> Answer<Result<Option<UnixId>, Unavailable>> {
        Answer::now(Ok(UnixId::in_sid(sid)))
    }

    fn sid_of(&self, id: UnixId) -> Answer<Result<Sid, Unavailable>> {
        Answer::now(Ok(id.plain_sid()))
    }

    fn sids_of(&self, _: &Arc<Identity>) -> Answer<Result<Vec<Sid>, Unavailable>> {
        Answer::now(Ok(Vec::new()))
    }

    fn principal(&self, _: &Sid) -> Answer<Result<Option<Principal>, Unavailable>> {
        Answer::now(Ok(None))
    }

    fn named(&self, _: Option<&str>, _: &str) -> Answer<Result<Option<Principal>, Unavailable>> {
        Answer::now(Ok(None))
    }

    fn expect_sids(&self, _: &[Sid]) -> Answer<()> {
        Answer::now(())
    }

    fn domain(&self) -> DomainSid {
        self.0
    }

    fn is_of_machine(&self, sid: &Sid) -> bool {
        sid.domain() == Some(self.0.sid())
    }
}

impl Roster for NoAccounts {
    fn users(&self, _: Option<&str>, _: usize) -> Answer<Result<Vec<ListedAccount>, Unavailable>> {
        Answer::now(Ok(Vec::new()))
    }

    fn count_users(&self) -> Answer<Result<u32, Unavailable>> {
        Answer::now(Ok(0))
    }

    fn groups(&self, _: Option<&Sid>, _: usize) -> Answer<Result<Vec<ListedGroup>, Unavailable>> {
        Answer::now(Ok(Vec::new()))
    }

    fn group(&self, _: &Sid) -> Answer<Result<Option<ListedGroup>, Unavailable>> {
        Answer::now(Ok(None))
    }

    fn members(&self, _: &Sid, _: usize) -> Answer<Result<Vec<Sid>, Unavailable>> {
        Answer::now(Ok(Vec::new()))
    }
}

impl Administration for NoAccounts {
    fn add_user(&self, _: &str) -> Answer<Result<Sid, NotDone>> {
        not_done()
    }

    fn change_user(&self, _: &str, _: UserChange) -> Answer<Result<(), NotDone>> {
        not_done()
    }

    fn delete_user(&self, _: &str) -> Answer<Result<(), NotDone>> {
        not_done()
    }

    fn add_group(&self, _: &str, _: SidNameUse) -> Answer<Result<Sid, NotDone>> {
        not_done()
    }

    fn change_group(&self, _: &str, _: GroupChange) -> Answer<Result<(), NotDone>> {
        not_done()
    }

    fn delete_group(&self, _: &str) -> Answer<Result<(), NotDone>> {
        not_done()
    }

    fn set_policies(&self, _: Vec<(&'static str, i64)>) -> Answer<Result<(), NotDone>> {
        not_done()
    }
}

impl Netgroups for NoAccounts {
    fn is_in_netgroup(&self, _: &str, _: &str) -> Answer<Result<bool, Unavailable>> {
        Answer::now(Ok(false))
    }
}

impl LsaDatabase for TestAccounts {
    fn rights(&self, sid: &Sid) -> Option<AccountRights> {
        WITHOUT_ACCOUNTS.rights(sid)
    }

    fn all_rights(&self) -> Vec<(Sid, AccountRights)> {
        WITHOUT_ACCOUNTS.all_rights()
    }

    fn change_rights(&self, sid: &Sid, change: RightsChange) -> Answer<Result<(), NotDone>> {
        WITHOUT_ACCOUNTS.change_rights(sid, change)
    }

    fn secret(&self, name: &str) -> Answer<Result<Secret, NotDone>> {
        WITHOUT_ACCOUNTS.secret(name)
    }

    fn change_secret(&self, name: &str, change: SecretChange) -> Answer<Result<(), NotDone>> {
        WITHOUT_ACCOUNTS.change_secret(name, change)
    }
}

impl LsaDatabase for NoAccounts {
    fn rights(&self, _: &Sid) -> Option<AccountRights> {
        None
    }

    fn all_rights(&self) -> Vec<(Sid, AccountRights)> {
        Vec::new()
    }

    fn change_rights(&self, _: &Sid, _: RightsChange) -> Answer<Result<(), NotDone>> {
        not_done()
    }

    fn secret(&self, _: &str) -> Answer<Result<Secret, NotDone>> {
        Answer::now(Err(NotDone::NotFound))
    }

    fn change_secret(&self, _: &str, _: SecretChange) -> Answer<Result<(), NotDone>> {
        not_done()
    }
}

/// Returns the answer of a back end that cannot change passwords.
pub fn password_not_changed() -> Answer<Result<(), NotChanged>> {
    Answer::now(Err(NotChanged::Unavailable("its back end cannot change passwords".into())))
}

fn not_done<T: Send + 'static>() -> Answer<Result<T, NotDone>> {
    Answer::now(Err(NotDone::NotStored("its back end cannot change accounts".into())))
}
