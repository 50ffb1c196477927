//! The server's accounts with the domain's behind them: SIDs, ids and names that the server itself does not know are
//! winbind's to know.

use std::sync::Arc;

use proto::dtyp::Sid;
use server::accounts::{Account, Accounts, DomainSid, Unavailable};
use server::answer::Answer;
use server::principals::{Principal, UnixId};

use super::Winbind;

/// The accounts of a member of a domain. Logons with a domain's account are [`server::domain::Domain`]'s affair.
pub struct WithDomain<A> {
    own: Arc<A>,
    winbind: Arc<Winbind>,
}

impl<A: Accounts> WithDomain<A> {
    /// Those of `own`, then those that `winbind` knows.
    pub fn new(own: Arc<A>, winbind: Arc<Winbind>) -> WithDomain<A> {
        WithDomain { own, winbind }
    }

    /// Whether `sid` may be one of a domain: S-1-5-21-..., and not of this server.
    fn is_domains(&self, sid: &Sid) -> bool {
        let account = sid.authority() == 5 && sid.sub_authorities().first() == Some(&21);
        let rid = sid.rid().unwrap_or(0);
        self.winbind.is_member() && account && self.own.domain().with_rid(rid) != *sid
    }
}

impl<A: Accounts> Accounts for WithDomain<A> {
    fn find(&self, name: &str) -> Answer<Result<Option<Account>, Unavailable>> {
        self.own.find(name)
    }

    fn uid_of(&self, sid: &Sid) -> Answer<Result<Option<u32>, Unavailable>> {
        self.id_of(sid).map(|id| id.map(|id| id.and_then(UnixId::uid)))
    }

    fn id_of(&self, sid: &Sid) -> Answer<Result<Option<UnixId>, Unavailable>> {
        let (asks, winbind, sid) = (self.is_domains(sid), self.winbind.clone(), *sid);
        self.own.id_of(&sid).then(move |own| match own {
            Ok(None) if asks => Answer::later(async move {
                let id = winbind.ids_of(&[sid]).await?.pop().flatten();
                // A domain does not say who is root.
                Ok(id.filter(|id| id.uid() != Some(0) && id.gid() != Some(0)))
            }),
            own => Answer::now(own),
        })
    }

    fn sid_of(&self, id: UnixId) -> Answer<Result<Sid, Unavailable>> {
        let (asks, winbind) = (self.winbind.is_member(), self.winbind.clone());
        self.own.sid_of(id).then(move |own| match own {
            Ok(sid) if asks && sid == id.plain_sid() && id.plain_sid().rid() != Some(0) => {
                Answer::later(async move { Ok(winbind.sid_of(id).await?.unwrap_or(sid)) })
            }
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

    fn named(&self, realm: Option<&str>, name: &str) -> Answer<Result<Option<Principal>, Unavailable>> {
        let asked = realm.filter(|_| self.winbind.is_member()).map(|realm| (realm.to_owned(), name.to_owned()));
        let winbind = self.winbind.clone();
        self.own.named(realm, name).then(move |own| match (own, asked) {
            (Ok(None), Some((realm, name))) => Answer::later(async move { winbind.named(realm, name).await }),
            (own, _) => Answer::now(own),
        })
    }

    fn domain(&self) -> DomainSid {
        self.own.domain()
    }
}
