//! Domain information that is available while winbindd cannot be reached: ids that can be derived from SIDs
//! ([`crate::idmap`]), and users with a ticket, whose PAC contains the rest.
//!
//! Not available are the names of other users and groups, and NTLM, whose responses only a domain controller can
//! verify. Users of trusted domains need winbindd too, because only winbindd learns which domain has which SID.

use std::sync::Arc;

use parking_lot::RwLock;
use proto::auth::pac::LogonInfo;
use proto::dtyp::Sid;
use server::accounts::Account;
use server::accounts::principals::{SidNameUse, UnixId};
use server::domain::Refused;
use server::tickets::ClientName;

use super::{Name, account};
use crate::idmap::{Backend, Map, OwnDomain, Source};
use accounts::unix::{Key, User, Users};

/// The information that is available without winbindd.
pub(super) struct Away {
    settings: RwLock<Settings>,
    domain: Arc<OwnDomain>,
    /// The users of the host; `None` in tests.
    users: Option<Arc<Users>>,
}

#[derive(Clone, Default)]
struct Settings {
    workgroup: String,
    map: Option<Map>,
}

impl Away {
    pub(super) fn new(domain: OwnDomain, users: Option<Arc<Users>>) -> Away {
        Away { settings: RwLock::default(), domain: Arc::new(domain), users }
    }

    /// Sets the current values of the configuration.
    pub(super) fn configure(&self, workgroup: &str, map: Option<Map>) {
        *self.settings.write() = Settings { workgroup: workgroup.to_owned(), map };
    }

    /// Returns the user or group of a SID of the server's own domain.
    pub(super) fn id_of(&self, sid: &Sid) -> Option<UnixId> {
        let Settings { workgroup, map } = &*self.settings.read();
        map.as_ref()?.id_of(&self.domain.sid(workgroup)?, sid)
    }

    /// Returns the SID of a user or group, if it is one of the server's own domain.
    pub(super) fn sid_of(&self, id: UnixId) -> Option<Sid> {
        let Settings { workgroup, map } = &*self.settings.read();
        map.as_ref()?.sid_of(&self.domain.sid(workgroup)?, id)
    }

    /// Records the SID of the domain to which `user` belongs according to winbindd.
    pub(super) async fn learn_from_winbind(&self, user: &Sid, domain: &str) {
        let workgroup = self.settings.read().workgroup.clone();
        if let Some(sid) = user.domain().filter(|_| domain.eq_ignore_ascii_case(&workgroup)) {
            self.learn(workgroup, sid, Source::Winbind).await;
        }
    }

    async fn learn(&self, workgroup: String, sid: Sid, source: Source) -> bool {
        if self.domain.sid(&workgroup) == Some(sid) {
            return true;
        }
        let domain = self.domain.clone();
        let learn = move || localfs::identity::as_process(|| domain.learn(&workgroup, sid, source)).unwrap_or(false);
        tokio::task::spawn_blocking(learn).await.unwrap_or(false)
    }

    /// Returns the account of a client of the server's own domain whose ticket contains `logon`. `names` returns cached
    /// names. Returns `None` if winbindd is needed to decide.
    pub(super) async fn account(
        &self,
        client: &ClientName,
        logon: &LogonInfo,
        sids: &[Sid],
        names: impl Fn(&Sid) -> Option<Arc<Name>>,
    ) -> Option<Result<Account, Refused>> {
        let Settings { workgroup, map } = self.settings.read().clone();
        let (map, domain) = (map?, logon.user.domain()?);
        // The NetBIOS name that another realm's controllers use for their domain is not known here.
        if !client.own_realm || !logon.logon_domain_name.eq_ignore_ascii_case(&workgroup) {
            return None;
        }
        if !self.learn(workgroup.clone(), domain, Source::Ticket).await {
            let why = format!("{} does not have the SID that domain {workgroup} had so far", logon.user);
            return Some(Err(Refused::Unmapped(why)));
        }
        let own = Name { domain: workgroup, name: logon.effective_name.clone(), kind: SidNameUse::USER };
        let others = sids.iter().skip(1).map(names);
        let names: Vec<_> = std::iter::once(Some(Arc::new(own))).chain(others).collect();
        Some(match map.backend {
            Backend::Rid { .. } => {
                let ids: Vec<_> = sids.iter().map(|sid| map.id_of(&domain, sid)).collect();
                account(sids, &ids, &names)
            }
            Backend::Nss => {
                let user = self.user(&map, &logon.effective_name).await;
                user.and_then(|user| {
                    // uid and primary group are used as if mapped from SIDs. Further groups are the UNIX user's own.
                    let identity = user.identity.clone();
                    let ids = [Some(UnixId::User(identity.uid)), Some(UnixId::Group(identity.gid))];
                    let account = account(sids, &ids, &names)?;
                    let groups = account.groups.iter().chain(user.groups.iter()).cloned().collect();
                    Ok(Account { identity, groups, ..account })
                })
            }
        })
    }

    /// Finds the UNIX user called `name`, as spelled or in lower case, because domains may use any case.
    async fn user(&self, map: &Map, name: &str) -> Result<Arc<User>, Refused> {
        let users = self.users.as_ref().ok_or_else(|| Refused::Unmapped("UNIX users are not available".into()))?;
        let mut why = Arc::from("");
        for name in [name.to_owned(), name.to_lowercase()] {
            match users.find(Key::Name(name)).await.map_err(|unavailable| Refused::Unavailable(unavailable.0))? {
                Ok(user) if map.admits(user.identity.uid) => return Ok(user),
                Ok(user) => {
                    let uid = user.identity.uid;
                    return Err(Refused::Unmapped(format!("the uid {uid} is not in the range of `idmap config`")));
                }
                Err(refused) => why = refused,
            }
        }
        Err(Refused::Unmapped(why.to_string()))
    }
}
