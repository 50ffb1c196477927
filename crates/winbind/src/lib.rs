//! The domain, as seen through the host's winbindd: verifying logons, mapping SIDs to uids and gids, and the names of
//! SIDs.
//!
//! winbindd may have to query domain controllers, and with a hanging controller it does not answer for minutes. Calls
//! therefore run on blocking threads, of which there is a bounded number, and callers give up after a time limit.
//! Hanging threads return when winbindd does. Lookups are cached.
//!
//! - [`Winbind`] asks winbindd through [`library`], the host's `libwbclient`. While winbindd cannot be reached, `away`
//!   answers with the maps of [`idmap`].
//! - [`WithDomain`] adds the users of the domain to the server's own accounts.
//!
//! Unsafe code is confined to [`library`].
#![deny(unsafe_code)]

mod away;
pub mod idmap;
mod kept;
#[allow(unsafe_code)]
pub mod library;
mod members;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use proto::auth::pac::LogonInfo;
use proto::dtyp::Sid;
use proto::status::Status;
use server::accounts::principals::{Principal, Realm, SidNameUse, UnixId, may_come_from_domain, of_server};
use server::accounts::{Account, IdMap, Unavailable};
use server::answer::Answer;
use server::domain::{Domain, Membership, NetworkLogon, Proven, Refused, split};
use server::tickets::ClientName;
use server::vfs::Identity;
use tokio::sync::Semaphore;

use self::away::Away;
use self::kept::Kept;
use self::library::{Accepted, Connection, Details, Failed, LogonFailed};
pub use self::members::WithDomain;
use crate::idmap::{Map, OwnDomain};
use accounts::unix::Users;

/// Time limit for a logon. Clients give up after 20 seconds at the earliest.
const LOGON_TIME: Duration = Duration::from_secs(15);
/// Time limit for a lookup. It is short because a client's open waits for it.
const LOOK_UP_TIME: Duration = Duration::from_secs(5);
/// How long no lookups are made after winbindd did not answer in time.
const REST: Duration = Duration::from_secs(5);
/// Maximum number of concurrent logons, and of concurrent lookups.
const AT_A_TIME: usize = 16;
/// Maximum number of idle connections to winbindd that are kept. Each uses one of its `winbind max clients`.
const IDLE: usize = 8;
/// Maximum number of SIDs, more than any token has: Windows allows 1,024 groups ([MS-KILE] 3.3.5.6.3.1 note).
const MOST_SIDS: usize = 4_096;

/// Access to the host's winbindd.
pub struct Winbind {
    /// Whether the server is a member of a domain. If not, winbindd is not queried.
    member: AtomicBool,
    logons: Gate,
    look_ups: Gate,
    idle: Mutex<Vec<Connection>>,
    ids: Kept<Sid, Option<UnixId>>,
    sids: Kept<UnixId, Option<Sid>>,
    names: Kept<Sid, Option<Arc<Name>>>,
    rests_until: Mutex<Option<Instant>>,
    /// The server's own accounts and groups, whose SIDs a domain must not use. They are queried each time because they
    /// may change while the server runs.
    own: OnceLock<Arc<dyn IdMap>>,
    away: Away,
}

/// Limits the number of concurrent queries and their duration.
struct Gate {
    turns: Arc<Semaphore>,
    limit: Duration,
}

impl Gate {
    fn new(limit: Duration) -> Gate {
        Gate { turns: Arc::new(Semaphore::new(AT_A_TIME)), limit }
    }
}

/// The name of a SID.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Name {
    domain: String,
    name: String,
    kind: SidNameUse,
}

impl Name {
    fn full(&self) -> String {
        if self.domain.is_empty() { self.name.clone() } else { format!(r"{}\{}", self.domain, self.name) }
    }

    fn is_group(&self) -> bool {
        [SidNameUse::GROUP, SidNameUse::ALIAS, SidNameUse::WELL_KNOWN_GROUP].contains(&self.kind)
    }
}

impl Winbind {
    /// Creates the access to winbindd. `domain`, and for ids by name also `users`, contain what is available about the
    /// domain without winbindd.
    pub fn of_server(domain: OwnDomain, users: Arc<Users>) -> Arc<Winbind> {
        Winbind::with(false, Away::new(domain, Some(users)))
    }

    /// Creates the access to winbindd without other information about the domain, for programs other than the server.
    pub fn new(member: bool) -> Arc<Winbind> {
        Winbind::with(member, Away::new(OwnDomain::in_memory(), None))
    }

    fn with(member: bool, away: Away) -> Arc<Winbind> {
        Arc::new(Winbind {
            member: AtomicBool::new(member),
            logons: Gate::new(LOGON_TIME),
            look_ups: Gate::new(LOOK_UP_TIME),
            idle: Mutex::default(),
            ids: Kept::default(),
            sids: Kept::default(),
            names: Kept::default(),
            rests_until: Mutex::default(),
            own: OnceLock::new(),
            away,
        })
    }

    /// Sets the current values of the configuration: whether the server is a member of a domain, and of which, and how
    /// its users' ids are derived without winbindd.
    pub fn configure(&self, membership: Option<&Membership>, map: Option<Map>) {
        self.member.store(membership.is_some(), Ordering::Relaxed);
        self.away.configure(membership.map_or("", |membership| &membership.workgroup), map);
    }

    fn is_member(&self) -> bool {
        self.member.load(Ordering::Relaxed)
    }

    /// Runs `work` with a connection on one of a bounded number of blocking threads.
    async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        gate: &Gate,
        work: impl FnOnce(&mut Connection) -> Result<T, Failed> + Send + 'static,
    ) -> Result<T, Unanswered> {
        let turns = gate.turns.clone();
        let this = self.clone();
        let answered = async move {
            let turn = turns.acquire_owned().await.expect("the gate is never closed");
            let work = move || {
                // Released only when winbindd has answered, even if the caller has given up.
                let _turn = turn;
                this.converse(work)
            };
            tokio::task::spawn_blocking(work).await
        };
        match tokio::time::timeout(gate.limit, answered).await {
            Ok(Ok(answer)) => answer.map_err(Unanswered::Failed),
            Ok(Err(ended)) => Err(Unanswered::Nothing(format!("winbind: {ended}"))),
            Err(_) => {
                Err(Unanswered::Nothing(format!("winbindd did not answer within {} seconds", gate.limit.as_secs())))
            }
        }
    }

    /// Runs `work` with a connection. Blocks.
    fn converse<T>(&self, work: impl FnOnce(&mut Connection) -> Result<T, Failed>) -> Result<T, Failed> {
        let idle = self.idle.lock().pop();
        // winbindd checks the caller's uid, and only root may verify responses. A blocking thread may be impersonating
        // a user.
        let asked = localfs::identity::as_process(|| {
            let mut connection = match idle {
                Some(connection) => connection,
                None => Connection::open()?,
            };
            work(&mut connection).map(|answer| (connection, answer))
        });
        let (connection, answer) = asked.map_err(|_| Failed::Code(2))??;
        let mut idle = self.idle.lock();
        if idle.len() < IDLE {
            idle.push(connection);
        }
        Ok(answer)
    }

    /// Like [`Winbind::ask`], for lookups. Fails immediately for a while after winbindd did not answer.
    async fn look_up<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&mut Connection) -> Result<T, Failed> + Send + 'static,
    ) -> Result<Option<T>, Unavailable> {
        if self.rests_until.lock().is_some_and(|until| Instant::now() < until) {
            return Err(Unavailable("winbindd recently did not answer".into()));
        }
        match self.ask(&self.look_ups, work).await {
            Ok(answer) => Ok(Some(answer)),
            Err(Unanswered::Failed(failed)) if failed.is_missing() => Ok(None),
            Err(Unanswered::Failed(failed)) => Err(Unavailable(failed.to_string())),
            Err(Unanswered::Nothing(why)) => {
                *self.rests_until.lock() = Some(Instant::now() + REST);
                Err(Unavailable(why))
            }
        }
    }

    /// Queries information about winbindd. The error is a text for the administrator.
    pub async fn details(self: &Arc<Self>) -> Result<Details, String> {
        self.ask(&self.look_ups, Connection::details).await.map_err(|asked| match asked {
            Unanswered::Failed(failed) => failed.to_string(),
            Unanswered::Nothing(why) => why,
        })
    }

    /// Maps `sids` to users and groups.
    async fn ids_of(self: &Arc<Self>, sids: &[Sid]) -> Result<Vec<Option<UnixId>>, Unavailable> {
        let now = Instant::now();
        let known: Vec<Option<Option<UnixId>>> = sids.iter().map(|sid| self.ids.get(sid, now)).collect();
        let asked: Vec<Sid> = sids.iter().zip(&known).filter(|(_, id)| id.is_none()).map(|(sid, _)| *sid).collect();
        let mut new = Vec::new();
        if !asked.is_empty() {
            let (wanted, count) = (asked.clone(), asked.len());
            new = self.look_up(move |winbind| ids(winbind, &wanted)).await?.unwrap_or(vec![None; count]);
            for (sid, id) in asked.iter().zip(&new) {
                self.ids.put(*sid, *id, id.is_some(), now);
            }
        }
        let mut new = new.into_iter();
        Ok(known.into_iter().map(|id| id.unwrap_or_else(|| new.next().flatten())).collect())
    }

    /// Maps a SID to a user or group, also while winbindd is not available.
    async fn id_of(self: &Arc<Self>, sid: Sid) -> Result<Option<UnixId>, Unavailable> {
        match self.ids_of(&[sid]).await {
            Ok(mut ids) => Ok(ids.pop().flatten()),
            Err(unavailable) => self.away.id_of(&sid).map(Some).ok_or(unavailable),
        }
    }

    /// Returns the cached user or group of a SID.
    fn known_id(&self, sid: &Sid) -> Option<Option<UnixId>> {
        self.ids.get(sid, Instant::now())
    }

    /// Returns the cached SID of a user or group.
    fn known_sid(&self, id: UnixId) -> Option<Option<Sid>> {
        self.sids.get(&id, Instant::now())
    }

    async fn sid_of(self: &Arc<Self>, id: UnixId) -> Result<Option<Sid>, Unavailable> {
        let now = Instant::now();
        if let Some(known) = self.sids.get(&id, now) {
            return Ok(known);
        }
        let sid = self.look_up(move |winbind| winbind.sid_of_id(id)).await?.flatten();
        self.sids.put(id, sid, sid.is_some(), now);
        Ok(sid)
    }

    /// Looks up the names of `sids`.
    async fn names_of(self: &Arc<Self>, sids: &[Sid]) -> Result<Vec<Option<Arc<Name>>>, Unavailable> {
        let now = Instant::now();
        let mut names: Vec<Option<Option<Arc<Name>>>> = sids.iter().map(|sid| self.names.get(sid, now)).collect();
        let asked: Vec<Sid> = sids.iter().zip(&names).filter(|(_, name)| name.is_none()).map(|(sid, _)| *sid).collect();
        if !asked.is_empty() {
            let this = self.clone();
            let work = move |winbind: &mut Connection| {
                let one = |sid: Sid| {
                    let name = match winbind.name_of_sid(&sid) {
                        Ok((domain, name, kind)) => Some(Arc::new(Name { domain, name, kind })),
                        Err(failed) if failed.is_missing() => None,
                        Err(failed) => return Err(failed),
                    };
                    // Each name is cached separately. A slow controller may not resolve all groups of a user in time,
                    // and the next attempt continues where this one stopped.
                    this.names.put(sid, name.clone(), name.is_some(), Instant::now());
                    Ok((sid, name))
                };
                asked.into_iter().map(one).collect::<Result<Vec<_>, _>>()
            };
            for (sid, name) in self.look_up(work).await?.unwrap_or_default() {
                if let Some(at) = sids.iter().position(|each| *each == sid) {
                    names[at] = Some(name);
                }
            }
        }
        Ok(names.into_iter().map(Option::flatten).collect())
    }

    async fn principal(self: &Arc<Self>, sid: Sid) -> Result<Option<Principal>, Unavailable> {
        let name = self.names_of(&[sid]).await?.pop().flatten();
        Ok(name.map(|it| Principal {
            sid,
            kind: it.kind,
            realm: Realm::Named(it.domain.clone()),
            name: it.name.clone(),
        }))
    }

    async fn named(self: &Arc<Self>, domain: String, name: String) -> Result<Option<Principal>, Unavailable> {
        let found = self.look_up(move |winbind| winbind.sid_of_name(&domain, &name)).await?;
        // Looked up again by SID to get the domain's spelling.
        match found.filter(|(_, kind)| *kind != SidNameUse::UNKNOWN) {
            Some((sid, _)) => self.principal(sid).await,
            None => Ok(None),
        }
    }

    /// Returns the SIDs of a user and their groups that a domain may assign. A controller's S-1-5-32-... SIDs are its
    /// own groups, not those of this host, whose members are determined by NSS.
    async fn believed(&self, mut sids: Vec<Sid>) -> Result<Vec<Sid>, Refused> {
        sids.truncate(MOST_SIDS);
        let own = match self.own.get() {
            Some(own) => of_server(&**own, &sids).await.map_err(|Unavailable(why)| Refused::Unavailable(why))?,
            None => HashSet::new(),
        };
        // The first two SIDs are the user and the primary group, without which there is no account.
        for sid in sids.iter().take(2) {
            if own.contains(sid) {
                let remedy = "see `frevo user list --json` and `frevo group list`";
                let why = format!("{sid} is or was the SID of an account or group of this server; {remedy}");
                return Err(Refused::Unmapped(why));
            }
            if !may_come_from_domain(sid) {
                return Err(Refused::Unmapped(format!("{sid} is not a SID that a domain assigns to users and groups")));
            }
        }
        sids.retain(|sid| may_come_from_domain(sid) && !own.contains(sid));
        Ok(sids)
    }

    async fn account_of(self: &Arc<Self>, sids: Vec<Sid>) -> Result<Account, Refused> {
        let sids = self.believed(sids).await?;
        let unavailable = |Unavailable(why): Unavailable| Refused::Unavailable(why);
        let ids = self.ids_of(&sids).await.map_err(unavailable)?;
        let names = self.names_of(&sids).await.map_err(unavailable)?;
        if let (Some(user), Some(Some(name))) = (sids.first(), names.first()) {
            self.away.learn_from_winbind(user, &name.domain).await;
        }
        account(&sids, &ids, &names)
    }

    /// Returns the account of a client with a ticket.
    async fn account_of_client(self: &Arc<Self>, client: &ClientName, logon: LogonInfo) -> Result<Account, Refused> {
        let sids: Vec<Sid> = logon.sids().collect();
        let unavailable = match self.account_of(sids.clone()).await {
            Err(Refused::Unavailable(why)) => why,
            answered => return answered,
        };
        let (sids, now) = (self.believed(sids).await?, Instant::now());
        let known = |sid: &Sid| self.names.get(sid, now).flatten();
        match self.away.account(client, &logon, &sids, known).await {
            Some(account) => {
                tracing::debug!(%client, why = unavailable, "account determined without winbindd");
                account
            }
            None => Err(Refused::Unavailable(unavailable)),
        }
    }
}

/// Maps `sids` to ids, all in one call, or one by one if winbindd rejects all of them because of one.
fn ids(winbind: &mut Connection, sids: &[Sid]) -> Result<Vec<Option<UnixId>>, Failed> {
    // winbindd rejects well-known SIDs, which PACs contain ([MS-PAC] 2.5: S-1-18-1).
    let mapped: Vec<Sid> = sids.iter().copied().filter(may_be_mapped).collect();
    let found = match winbind.ids_of_sids(&mapped) {
        Err(failed) if failed.is_missing() => {
            let one = |sid: &Sid| match winbind.ids_of_sids(&[*sid]) {
                Err(failed) if failed.is_missing() => Ok(None),
                found => found.map(|ids| ids.first().copied().flatten()),
            };
            mapped.iter().map(one).collect::<Result<Vec<_>, _>>()?
        }
        found => found?,
    };
    let mut found = found.into_iter();
    Ok(sids.iter().map(|sid| may_be_mapped(sid).then(|| found.next().flatten()).flatten()).collect())
}

/// Returns whether a SID can be that of a domain's user or group: S-1-5-21-x-y-z-RID.
fn may_be_mapped(sid: &Sid) -> bool {
    sid.authority() == 5 && matches!(sid.sub_authorities(), [21, _, _, _, _])
}

/// Why a query was not answered.
enum Unanswered {
    /// winbind answered with an error.
    Failed(Failed),
    /// There was no answer in time.
    Nothing(String),
}

/// Builds the account from its `sids`: the user's, that of the primary group, those of other groups.
fn account(sids: &[Sid], ids: &[Option<UnixId>], names: &[Option<Arc<Name>>]) -> Result<Account, Refused> {
    let remedy = "see `idmap config` in smb.conf and `wbinfo --sid-to-uid`";
    let (Some(sid), Some(Some(name))) = (sids.first(), names.first()) else {
        return Err(Refused::Unmapped("the domain did not identify the user".into()));
    };
    // A domain must not make a user root or a member of root's group.
    let uid = ids.first().copied().flatten().and_then(UnixId::uid).filter(|uid| *uid != 0);
    let uid = uid.ok_or_else(|| Refused::Unmapped(format!("{sid} has no uid; {remedy}")))?;
    let gids: Vec<Option<u32>> = ids.iter().map(|id| id.and_then(UnixId::gid).filter(|gid| *gid != 0)).collect();
    let primary = sids.get(1).copied().unwrap_or(Sid::NULL);
    let gid = gids.get(1).copied().flatten();
    let gid = gid.ok_or_else(|| Refused::Unmapped(format!("the primary group {primary} has no gid; {remedy}")))?;
    let mut groups: Vec<u32> = gids.iter().flatten().copied().filter(|group| *group != gid).collect();
    groups.sort_unstable();
    groups.dedup();
    Ok(Account {
        name: name.full(),
        nt_hash: None,
        disabled: false,
        locked: false,
        must_change: false,
        never_expires: false,
        expires: None,
        sid: *sid,
        domain: Some(name.domain.as_str().into()),
        former_sids: sids.get(1..).unwrap_or_default().into(),
        full_name: String::new(),
        password_last_set: None,
        identity: Arc::new(Identity { uid, gid, groups: groups.into() }),
        groups: names.iter().flatten().filter(|name| name.is_group()).map(|name| name.full()).collect(),
    })
}

/// Maps a domain's refusal ([MS-ERREF] 2.3.1).
fn refused(failed: LogonFailed) -> Refused {
    let (status, said) = match failed {
        LogonFailed::Failed(failed) => return Refused::Unavailable(failed.to_string()),
        LogonFailed::Status(status, said) => (status, said),
    };
    match status {
        Status::NO_SUCH_USER | Status::NO_SUCH_DOMAIN => Refused::Unknown,
        Status::WRONG_PASSWORD | Status::LOGON_FAILURE => Refused::Wrong,
        Status::ACCOUNT_RESTRICTION
        | Status::INVALID_LOGON_HOURS
        | Status::INVALID_WORKSTATION
        | Status::PASSWORD_EXPIRED
        | Status::PASSWORD_MUST_CHANGE
        | Status::ACCOUNT_DISABLED
        | Status::ACCOUNT_EXPIRED
        | Status::ACCOUNT_LOCKED_OUT
        | Status::LOGON_TYPE_NOT_GRANTED
        | Status::AUTHENTICATION_FIREWALL_FAILED => Refused::Because(status),
        other => Refused::Unavailable(format!("winbind returned {other} ({said}); run `frevo join` to check")),
    }
}

/// The server's interface to the domain. Queries run concurrently with other requests.
pub struct Member(pub Arc<Winbind>);

impl Domain for Member {
    fn log_on(&self, logon: NetworkLogon) -> Answer<Result<Proven, Refused>> {
        let winbind = self.0.clone();
        Answer::later(async move {
            let asked = winbind.ask(&winbind.logons, move |winbind| match winbind.log_on(&logon) {
                // The connection to winbindd is broken; a new one may work.
                Err(LogonFailed::Failed(failed)) => Err(failed),
                answered => Ok(answered),
            });
            let Accepted { session_base_key, sids } = match asked.await {
                Ok(answered) => answered.map_err(refused)?,
                Err(Unanswered::Failed(failed)) => return Err(Refused::Unavailable(failed.to_string())),
                Err(Unanswered::Nothing(why)) => return Err(Refused::Unavailable(why)),
            };
            let account = winbind.account_of(sids).await?;
            Ok(Proven { account, session_base_key })
        })
    }

    fn account(&self, client: &ClientName, logon: LogonInfo) -> Answer<Result<Account, Refused>> {
        let (winbind, client) = (self.0.clone(), client.clone());
        Answer::later(async move { winbind.account_of_client(&client, logon).await })
    }

    fn find(&self, name: &str) -> Answer<Result<Option<Account>, Unavailable>> {
        let Some((domain, user)) = split(name) else { return Answer::now(Ok(None)) };
        let (winbind, domain, user) = (self.0.clone(), domain.to_owned(), user.to_owned());
        Answer::later(async move {
            let groups = winbind.look_up(move |winbind| {
                let (sid, _) = winbind.sid_of_name(&domain, &user)?;
                let groups = winbind.groups_of_user(&sid)?;
                let others = groups.into_iter().filter(|group| *group != sid);
                Ok(std::iter::once(sid).chain(others).collect::<Vec<_>>())
            });
            let Some(sids) = groups.await? else { return Ok(None) };
            match winbind.account_of(sids).await {
                Ok(account) => Ok(Some(account)),
                Err(Refused::Unavailable(why)) => Err(Unavailable(why)),
                Err(_) => Ok(None),
            }
        })
    }
}

#[cfg(test)]
mod tests;
