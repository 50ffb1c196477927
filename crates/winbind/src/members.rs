//! Combines the server's own id mapping with that of the domain: winbind is queried for SIDs, ids and names that the
//! server itself does not have.

use std::sync::Arc;

use proto::dtyp::Sid;
use server::accounts::principals::{Principal, UnixId};
use server::accounts::{DomainSid, IdMap, Unavailable};
use server::answer::Answer;
use server::vfs::Identity;

use super::Winbind;

/// The id mapping of a domain member. Logons with domain accounts are handled by [`server::domain::Domain`].
pub struct WithDomain {
    own: Arc<dyn IdMap>,
    winbind: Arc<Winbind>,
}

impl WithDomain {
    /// Combines the mapping of `own` with that of `winbind`, which is queried second.
    pub fn new(own: Arc<dyn IdMap>, winbind: Arc<Winbind>) -> WithDomain {
        // Only the first call has an effect, and a server has only one id mapping.
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

impl IdMap for WithDomain {
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

    fn sids_of(&self, identity: &Arc<Identity>) -> Answer<Result<Vec<Sid>, Unavailable>> {
        self.own.sids_of(identity)
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

    fn expect_sids(&self, sids: &[Sid]) -> Answer<()> {
        self.own.expect_sids(sids)
    }

    fn domain(&self) -> DomainSid {
        self.own.domain()
    }

    fn is_of_machine(&self, sid: &Sid) -> bool {
        self.own.is_of_machine(sid)
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    /// An id mapping that records the calls made.
    #[derive(Default)]
    struct Own(Mutex<Vec<&'static str>>);

    impl Own {
        fn note<T>(&self, what: &'static str, answer: T) -> T {
            self.0.lock().push(what);
            answer
        }
    }

    impl IdMap for Own {
        fn id_of(&self, _: &Sid) -> Answer<Result<Option<UnixId>, Unavailable>> {
            self.note("id_of", Answer::now(Ok(None)))
        }

        fn sid_of(&self, id: UnixId) -> Answer<Result<Sid, Unavailable>> {
            self.note("sid_of", Answer::now(Ok(id.plain_sid())))
        }

        fn sids_of(&self, _: &Arc<Identity>) -> Answer<Result<Vec<Sid>, Unavailable>> {
            self.note("sids_of", Answer::now(Ok(Vec::new())))
        }

        fn principal(&self, _: &Sid) -> Answer<Result<Option<Principal>, Unavailable>> {
            self.note("principal", Answer::now(Ok(None)))
        }

        fn named(&self, _: Option<&str>, _: &str) -> Answer<Result<Option<Principal>, Unavailable>> {
            self.note("named", Answer::now(Ok(None)))
        }

        fn expect_sids(&self, _: &[Sid]) -> Answer<()> {
            self.note("expect_sids", Answer::now(()))
        }

        fn domain(&self) -> DomainSid {
            self.note("domain", DomainSid([1, 2, 3]))
        }

        fn is_of_machine(&self, _: &Sid) -> bool {
            self.note("is_of_machine", false)
        }
    }

    /// Outside a domain, each call is answered by the server's own mapping.
    #[tokio::test]
    async fn every_call_is_forwarded_to_the_own_mapping() {
        let own = Arc::new(Own::default());
        let all = WithDomain::new(own.clone(), Winbind::new(false));
        let identity = Arc::new(Identity { uid: 7, gid: 7, groups: Box::new([]) });
        let sid = Sid::of(5, [21, 1, 2, 3, 1000]);
        assert!(all.id_of(&sid).await.is_ok());
        assert!(all.sid_of(UnixId::User(7)).await.is_ok());
        assert!(all.sids_of(&identity).await.is_ok());
        assert!(all.principal(&sid).await.is_ok());
        assert!(all.named(None, "ann").await.is_ok());
        all.expect_sids(&[]).await;
        assert_eq!(all.domain(), DomainSid([1, 2, 3]));
        assert!(!all.is_of_machine(&sid));
        let asked = ["id_of", "sid_of", "sids_of", "principal", "named", "expect_sids", "domain", "is_of_machine"];
        assert_eq!(*own.0.lock(), asked);
    }
}
