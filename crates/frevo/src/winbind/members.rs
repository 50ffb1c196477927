//! Combines the server's own accounts with those of the domain: winbind is queried for SIDs, ids and names that the
//! server itself does not have.

use std::sync::Arc;

use proto::auth::pac::LogonInfo;
use proto::dtyp::Sid;
use server::accounts::principals::{Principal, UnixId};
use server::accounts::{
    Account, AccountPolicy, Accounts, DomainSid, ListedAccount, ListedGroup, LogonOutcome, NotChanged, NtHash,
    Unavailable,
};
use server::answer::Answer;
use server::tickets::ClientName;
use server::vfs::Identity;

use super::Winbind;

/// The accounts of a domain member. Logons with domain accounts are handled by [`server::domain::Domain`].
pub struct WithDomain<A> {
    own: Arc<A>,
    winbind: Arc<Winbind>,
}

impl<A: Accounts + 'static> WithDomain<A> {
    /// Combines the accounts of `own` with those of `winbind`, which are searched second.
    pub fn new(own: Arc<A>, winbind: Arc<Winbind>) -> WithDomain<A> {
        // Only the first call has an effect, and a server has only one set of accounts.
        let _ = winbind.own.set(own.clone());
        WithDomain { own, winbind }
    }

    /// Returns whether `sid` may belong to a domain: S-1-5-21-..., and not of this server.
    fn is_domains(&self, sid: &Sid) -> bool {
        let account = sid.authority() == 5 && sid.sub_authorities().first() == Some(&21);
        self.winbind.is_member() && account && !self.own.is_of_machine(sid)
    }
}

/// Filters out root and root's group, which a domain must not assign.
fn not_root(id: Option<UnixId>) -> Option<UnixId> {
    id.filter(|id| id.uid() != Some(0) && id.gid() != Some(0))
}

impl<A: Accounts + 'static> Accounts for WithDomain<A> {
    fn find(&self, name: &str) -> Answer<Result<Option<Account>, Unavailable>> {
        self.own.find(name)
    }

    fn of_client(
        &self,
        client: &ClientName,
        logon: Option<&LogonInfo>,
    ) -> Answer<Result<Option<Account>, Unavailable>> {
        self.own.of_client(client, logon)
    }

    fn find_anew(&self, name: &str) -> Answer<Result<Option<Account>, Unavailable>> {
        self.own.find_anew(name)
    }

    fn logged_on(&self, name: &str, outcome: LogonOutcome) {
        self.own.logged_on(name, outcome);
    }

    fn sids_of(&self, identity: &Arc<Identity>) -> Answer<Result<Vec<Sid>, Unavailable>> {
        self.own.sids_of(identity)
    }

    fn is_in_netgroup(&self, user: &str, group: &str) -> Answer<Result<bool, Unavailable>> {
        self.own.is_in_netgroup(user, group)
    }

    fn is_of_machine(&self, sid: &Sid) -> bool {
        self.own.is_of_machine(sid)
    }

    fn policy(&self) -> AccountPolicy {
        self.own.policy()
    }

    fn lock(&self, name: &str) {
        self.own.lock(name);
    }

    fn change_password(&self, name: &str, old: NtHash, new: NtHash) -> Answer<Result<(), NotChanged>> {
        self.own.change_password(name, old, new)
    }

    fn uid_of(&self, sid: &Sid) -> Answer<Result<Option<u32>, Unavailable>> {
        self.id_of(sid).map(|id| id.map(|id| id.and_then(UnixId::uid)))
    }

    fn id_of(&self, sid: &Sid) -> Answer<Result<Option<UnixId>, Unavailable>> {
        let (asks, winbind, sid) = (self.is_domains(sid), self.winbind.clone(), *sid);
        self.own.id_of(&sid).then(move |own| match own {
            Ok(None) if asks => match winbind.known_id(&sid) {
                Some(id) => Answer::now(Ok(not_root(id))),
                None => Answer::later(async move { Ok(not_root(winbind.id_of(sid).await?)) }),
            },
            own => Answer::now(own),
        })
    }

    fn sid_of(&self, id: UnixId) -> Answer<Result<Sid, Unavailable>> {
        let (asks, winbind) = (self.winbind.is_member(), self.winbind.clone());
        self.own.sid_of(id).then(move |own| match own {
            Ok(sid) if asks && sid == id.plain_sid() && sid.rid() != Some(0) => match winbind.known_sid(id) {
                Some(known) => Answer::now(Ok(known.unwrap_or(sid))),
                // While winbindd is not available, files show plain SIDs, which are equivalent, unless the id
                // arithmetic yields a SID.
                None => Answer::later(async move {
                    let found = winbind.sid_of(id).await.unwrap_or_else(|_| winbind.away.sid_of(id));
                    Ok(found.unwrap_or(sid))
                }),
            },
            own => Answer::now(own),
        })
    }

    fn principal(&self, sid: &Sid) -> Answer<Result<Option<Principal>, Unavailable>> {
        let (asks, winbind, sid) = (self.is_domains(sid), self.winbind.clone(), *sid);
        self.own.principal(&sid).then(move |own| match own {
            Ok(None) if asks => Answer::later(async move { winbind.principal(sid).await }),
            own => Answer::now(own),
        })
    }

    fn expect_sids(&self, sids: &[Sid]) -> Answer<()> {
        self.own.expect_sids(sids)
    }

    fn named(&self, realm: Option<&str>, name: &str) -> Answer<Result<Option<Principal>, Unavailable>> {
        let asked = realm.filter(|_| self.winbind.is_member()).map(|realm| (realm.to_owned(), name.to_owned()));
        let winbind = self.winbind.clone();
        self.own.named(realm, name).then(move |own| match (own, asked) {
            (Ok(None), Some((realm, name))) => Answer::later(async move { winbind.named(realm, name).await }),
            (own, _) => Answer::now(own),
        })
    }

    fn users(&self, after: Option<&str>, most: usize) -> Answer<Result<Vec<ListedAccount>, Unavailable>> {
        self.own.users(after, most)
    }

    fn count_users(&self) -> Answer<Result<u32, Unavailable>> {
        self.own.count_users()
    }

    fn groups(&self, after: Option<&Sid>, most: usize) -> Answer<Result<Vec<ListedGroup>, Unavailable>> {
        self.own.groups(after, most)
    }

    fn group(&self, sid: &Sid) -> Answer<Result<Option<ListedGroup>, Unavailable>> {
        self.own.group(sid)
    }

    fn members(&self, group: &Sid, most: usize) -> Answer<Result<Vec<Sid>, Unavailable>> {
        self.own.members(group, most)
    }

    fn domain(&self) -> DomainSid {
        self.own.domain()
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    /// Accounts that record the calls made.
    #[derive(Default)]
    struct Own(Mutex<Vec<&'static str>>);

    impl Own {
        fn note(&self, what: &'static str) -> Answer<Result<Option<Account>, Unavailable>> {
            self.0.lock().push(what);
            Answer::now(Ok(None))
        }
    }

    impl Accounts for Own {
        fn find(&self, _: &str) -> Answer<Result<Option<Account>, Unavailable>> {
            self.note("find")
        }

        fn of_client(&self, _: &ClientName, _: Option<&LogonInfo>) -> Answer<Result<Option<Account>, Unavailable>> {
            self.note("of_client")
        }

        fn find_anew(&self, _: &str) -> Answer<Result<Option<Account>, Unavailable>> {
            self.note("find_anew")
        }

        fn logged_on(&self, _: &str, _: LogonOutcome) {
            self.0.lock().push("logged_on");
        }

        fn sids_of(&self, _: &Arc<Identity>) -> Answer<Result<Vec<Sid>, Unavailable>> {
            self.0.lock().push("sids_of");
            Answer::now(Ok(Vec::new()))
        }

        fn expect_sids(&self, _: &[Sid]) -> Answer<()> {
            self.0.lock().push("expect_sids");
            Answer::now(())
        }

        fn is_in_netgroup(&self, _: &str, _: &str) -> Answer<Result<bool, Unavailable>> {
            self.0.lock().push("is_in_netgroup");
            Answer::now(Ok(true))
        }

        fn uid_of(&self, _: &Sid) -> Answer<Result<Option<u32>, Unavailable>> {
            self.0.lock().push("uid_of");
            Answer::now(Ok(None))
        }

        fn policy(&self) -> AccountPolicy {
            self.0.lock().push("policy");
            AccountPolicy::default()
        }

        fn lock(&self, _: &str) {
            self.0.lock().push("lock");
        }

        fn change_password(&self, _: &str, _: NtHash, _: NtHash) -> Answer<Result<(), NotChanged>> {
            self.0.lock().push("change_password");
            Answer::now(Ok(()))
        }

        fn domain(&self) -> DomainSid {
            DomainSid([1, 2, 3])
        }

        server::plain_accounts!(
            all but find, domain, of_client, find_anew, logged_on, uid_of, sids_of, expect_sids, is_in_netgroup, policy,
            lock, change_password
        );
    }

    /// Each call is forwarded to the method of the same name.
    #[tokio::test]
    async fn every_call_is_forwarded_to_the_own_accounts() {
        let own = Arc::new(Own::default());
        let all = WithDomain::new(own.clone(), Winbind::new(false));
        let client = ClientName { components: vec!["ann".into()], realm: "A.TEST".into(), own_realm: true };
        let identity = Arc::new(Identity { uid: 7, gid: 7, groups: Box::new([]) });
        assert!(all.find("ann").await.is_ok());
        assert!(all.of_client(&client, None).await.is_ok());
        assert!(all.find_anew("ann").await.is_ok());
        all.logged_on("ann", LogonOutcome::Success);
        assert!(all.sids_of(&identity).await.is_ok());
        all.expect_sids(&[]).await;
        assert!(all.is_in_netgroup("ann", "all").await.unwrap());
        assert!(all.uid_of(&Sid::of(5, [21, 1, 2, 3, 1000])).await.is_ok());
        all.policy();
        all.lock("ann");
        assert!(all.change_password("ann", NtHash([1; 16]), NtHash([2; 16])).await.is_ok());
        let asked = [
            "find",
            "of_client",
            "find_anew",
            "logged_on",
            "sids_of",
            "expect_sids",
            "is_in_netgroup",
            "uid_of",
            "policy",
            "lock",
            "change_password",
        ];
        assert_eq!(*own.0.lock(), asked);
    }
}
