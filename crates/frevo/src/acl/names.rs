//! The accounts that `frevo acl` uses: those of the running server, those in the database if no server runs, or none.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use proto::dtyp::Sid;
use server::accounts::principals::{self, Principal, Realm, SidNameUse, UnixId};
use server::accounts::{Authenticator, DomainSid, IdMap, Unavailable};
use server::answer::Answer;
use server::vfs::Identity;

use crate::admin::Client;
use crate::admin::names::{Known, Names, NamesQuery, NamesRequest};
use crate::user::Performer;
use accounts::unix::names::{Names as HostNames, Question, Reply};
use smbconf::location::AccountPlace;
use winbind::{Winbind, WithDomain};

/// Returns the accounts in `place`. If there are none, only SIDs that contain an id can be resolved.
pub(super) fn accounts(place: &AccountPlace, member: bool) -> Result<Lookups> {
    Ok(match Performer::open(place, false)? {
        Some(Performer::Server(client)) => Lookups { ids: Arc::new(QueriedAccounts::of(client)?), authenticator: None },
        Some(Performer::Own(directory)) => {
            let own = Arc::new(*directory);
            let ids = Arc::new(WithDomain::new(own.clone(), Winbind::new(member)));
            Lookups { ids, authenticator: Some(own) }
        }
        None => no_accounts(),
    })
}

/// Returns the look-ups of a host without any accounts.
pub(super) fn no_accounts() -> Lookups {
    Lookups { ids: Arc::new(QueriedAccounts { client: None, domain: DomainSid([0; 3]) }), authenticator: None }
}

/// The parts of the accounts that `frevo acl` uses.
#[derive(Clone)]
pub(super) struct Lookups {
    pub(super) ids: Arc<dyn IdMap>,
    /// `None` if a running server is queried, which tells only SIDs, ids and names.
    pub(super) authenticator: Option<Arc<dyn Authenticator>>,
}

/// Returns the name of a SID, or the SID itself if it has no name.
pub(super) async fn name(ids: &dyn IdMap, sid: &Sid) -> String {
    match principals::by_sid(ids, sid).await {
        Ok(Some(Principal { realm: Realm::Named(realm), name, .. })) if !name.is_empty() => format!("{realm}\\{name}"),
        Ok(Some(Principal { name, .. })) if !name.is_empty() => name,
        _ => sid.to_string(),
    }
}

/// Looks up the name of a user or group on this host.
fn of_host(id: UnixId) -> Result<Option<Principal>, Unavailable> {
    let (question, realm, kind) = match id {
        UnixId::User(uid) | UnixId::Both(uid) => (Question::User(uid), principals::UNIX_USERS, SidNameUse::USER),
        UnixId::Group(gid) => (Question::Group(gid), principals::UNIX_GROUPS, SidNameUse::GROUP),
    };
    let reply = HostNames::of_host().ask_blocking(&question)?;
    Ok(reply.and_then(|reply| match reply {
        Reply::Named(name, _) => Some(Principal { sid: id.plain_sid(), kind, realm: Realm::Named(realm.into()), name }),
        _ => None,
    }))
}

/// The accounts of a running server. No user logs on here; only SIDs, ids and names are looked up.
struct QueriedAccounts {
    client: Option<Mutex<Client>>,
    domain: DomainSid,
}

impl QueriedAccounts {
    fn of(mut client: Client) -> Result<QueriedAccounts> {
        let names: Names = client.ask(&NamesRequest::Of(NamesQuery::default()))?;
        let sid: Sid = names.domain.parse().ok().context("the server sent an invalid SID as its own")?;
        let domain = match *sid.sub_authorities() {
            [21, x, y, z] => DomainSid([x, y, z]),
            _ => bail!("the server's SID {sid} is not a machine SID"),
        };
        Ok(QueriedAccounts { client: Some(Mutex::new(client)), domain })
    }

    fn ask(&self, query: NamesQuery) -> Result<Option<Names>, Unavailable> {
        let Some(client) = &self.client else { return Ok(None) };
        let names = client.lock().ask(&NamesRequest::Of(query));
        names.map(Some).map_err(|error| Unavailable(format!("cannot query the server's accounts: {error:#}")))
    }

    fn known(&self, sid: &Sid) -> Result<Option<Known>, Unavailable> {
        let names = self.ask(NamesQuery { sids: vec![sid.to_string()], ..NamesQuery::default() })?;
        Ok(names.and_then(|mut names| names.sids.pop()))
    }

    fn id(&self, sid: &Sid) -> Result<Option<UnixId>, Unavailable> {
        match UnixId::in_sid(sid) {
            Some(id) => Ok(Some(id)),
            None => Ok(self.known(sid)?.and_then(|known| known.id())),
        }
    }

    fn sid(&self, id: UnixId) -> Result<Sid, Unavailable> {
        let names = self.ask(NamesQuery {
            uids: id.uid().into_iter().collect(),
            gids: id.uid().map_or(id.gid(), |_| None).into_iter().collect(),
            ..NamesQuery::default()
        })?;
        let text = names.and_then(|mut names| names.uids.pop().or_else(|| names.gids.pop()));
        Ok(text.and_then(|text| text.parse().ok()).unwrap_or(id.plain_sid()))
    }
}

impl IdMap for QueriedAccounts {
    fn id_of(&self, sid: &Sid) -> Answer<Result<Option<UnixId>, Unavailable>> {
        Answer::now(self.id(sid))
    }

    fn sid_of(&self, id: UnixId) -> Answer<Result<Sid, Unavailable>> {
        Answer::now(self.sid(id))
    }

    fn principal(&self, sid: &Sid) -> Answer<Result<Option<Principal>, Unavailable>> {
        match (&self.client, UnixId::in_sid(sid)) {
            (None, Some(id)) => Answer::now(of_host(id)),
            _ => Answer::now(self.known(sid).map(|known| known.and_then(|known| known.principal(*sid)))),
        }
    }

    fn domain(&self) -> DomainSid {
        self.domain
    }

    fn sids_of(&self, _: &Arc<Identity>) -> Answer<Result<Vec<Sid>, Unavailable>> {
        Answer::now(Ok(Vec::new()))
    }

    fn named(&self, _: Option<&str>, _: &str) -> Answer<Result<Option<Principal>, Unavailable>> {
        Answer::now(Ok(None))
    }

    fn expect_sids(&self, _: &[Sid]) -> Answer<()> {
        Answer::now(())
    }

    fn is_of_machine(&self, sid: &Sid) -> bool {
        sid.domain() == Some(self.domain.sid())
    }
}
