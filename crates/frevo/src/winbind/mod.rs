//! The domain as the host's winbindd knows it: who may log on, which uid and gids a SID has, and the names of SIDs.
//!
//! winbindd may ask controllers, and one that hangs answers nobody for minutes. So calls run on blocking threads, a bounded
//! number at a time, and whoever asks gives up after a while; threads that hang come back when winbindd does. Look-ups are
//! kept for a while. The only unsafe code here is in [`library`].

mod away;
mod kept;
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
use server::accounts::{Account, Accounts, Unavailable};
use server::answer::Answer;
use server::domain::{Domain, Membership, NetworkLogon, Proven, Refused, split};
use server::principals::{Principal, Realm, SidNameUse, UnixId, may_come_from_domain, of_server};
use server::tickets::ClientName;
use server::vfs::Identity;
use tokio::sync::Semaphore;

use self::away::Away;
use self::kept::Kept;
use self::library::{Accepted, Connection, Details, Failed, LogonFailed};
pub use self::members::WithDomain;
use crate::accounts::unix::Users;
use crate::idmap::{Map, OwnDomain};

/// How long a logon waits for a controller. Clients give up after 20 seconds at the earliest.
const LOGON_TIME: Duration = Duration::from_secs(15);
/// How long a look-up waits: somebody has a file open meanwhile.
const LOOK_UP_TIME: Duration = Duration::from_secs(5);
/// How long nobody looks anything up after winbindd did not answer in time.
const REST: Duration = Duration::from_secs(5);
/// Logons, and look-ups, under way at a time.
const AT_A_TIME: usize = 16;
/// Idle conversations with winbindd that are kept: each takes one of its `winbind max clients`.
const IDLE: usize = 8;
/// More SIDs than any token holds: Windows ends at 1,024 groups ([MS-KILE] 3.3.5.6.3.1 note).
const MOST_SIDS: usize = 4_096;

/// The host's winbindd.
pub struct Winbind {
    /// Whether the server is a member of a domain, so that winbindd is asked at all.
    member: AtomicBool,
    logons: Gate,
    look_ups: Gate,
    idle: Mutex<Vec<Connection>>,
    ids: Kept<Sid, Option<UnixId>>,
    sids: Kept<UnixId, Option<Sid>>,
    names: Kept<Sid, Option<Arc<Name>>>,
    rests_until: Mutex<Option<Instant>>,
    /// The server's own accounts and groups, which are not the domain's to name: asked each time, as there may be others
    /// while the server runs.
    own: OnceLock<Arc<dyn Accounts>>,
    away: Away,
}

/// Who is let ask at a time, and for how long.
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
    /// winbindd, whom nobody has asked yet. What is known of the domain without it is in `domain`, and in `users` where ids
    /// go by names.
    pub fn of_server(domain: OwnDomain, users: Arc<Users>) -> Arc<Winbind> {
        Winbind::with(false, Away::new(domain, Some(users)))
    }

    /// winbindd as all that is known of a domain, for programs beside the server.
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

    /// Says what the configuration says from now on: whether the server is a member of a domain, of which, and which ids
    /// its users have without winbindd.
    pub fn configure(&self, membership: Option<&Membership>, map: Option<Map>) {
        self.member.store(membership.is_some(), Ordering::Relaxed);
        self.away.configure(membership.map_or("", |membership| &membership.workgroup), map);
    }

    fn is_member(&self) -> bool {
        self.member.load(Ordering::Relaxed)
    }

    /// Runs `work` with a conversation on a blocking thread, one of a bounded number.
    async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        gate: &Gate,
        work: impl FnOnce(&mut Connection) -> Result<T, Failed> + Send + 'static,
    ) -> Result<T, Asked> {
        let turns = gate.turns.clone();
        let this = self.clone();
        let answered = async move {
            let turn = turns.acquire_owned().await.expect("nobody closes the gate");
            let work = move || {
                // Given back when winbindd has answered, however long nobody waits for that any more.
                let _turn = turn;
                this.converse(work)
            };
            tokio::task::spawn_blocking(work).await
        };
        match tokio::time::timeout(gate.limit, answered).await {
            Ok(Ok(answer)) => answer.map_err(Asked::Failed),
            Ok(Err(ended)) => Err(Asked::Nothing(format!("winbind: {ended}"))),
            Err(_) => Err(Asked::Nothing(format!("winbindd has not answered for {} seconds", gate.limit.as_secs()))),
        }
    }

    /// Blocks.
    fn converse<T>(&self, work: impl FnOnce(&mut Connection) -> Result<T, Failed>) -> Result<T, Failed> {
        let idle = self.idle.lock().pop();
        // winbindd looks at who asks, and only root may ask about responses; a blocking thread may be somebody else.
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

    /// [`Winbind::ask`] for what is looked up: not at all for a while after winbindd hung.
    async fn look_up<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&mut Connection) -> Result<T, Failed> + Send + 'static,
    ) -> Result<Option<T>, Unavailable> {
        if self.rests_until.lock().is_some_and(|until| Instant::now() < until) {
            return Err(Unavailable("winbindd did not answer just now".into()));
        }
        match self.ask(&self.look_ups, work).await {
            Ok(answer) => Ok(Some(answer)),
            Err(Asked::Failed(failed)) if failed.is_missing() => Ok(None),
            Err(Asked::Failed(failed)) => Err(Unavailable(failed.to_string())),
            Err(Asked::Nothing(why)) => {
                *self.rests_until.lock() = Some(Instant::now() + REST);
                Err(Unavailable(why))
            }
        }
    }

    /// What winbindd says of itself; the error is for a person.
    pub async fn details(self: &Arc<Self>) -> Result<Details, String> {
        self.ask(&self.look_ups, Connection::details).await.map_err(|asked| match asked {
            Asked::Failed(failed) => failed.to_string(),
            Asked::Nothing(why) => why,
        })
    }

    /// The users and groups of `sids`.
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

    /// The user or group of a SID, while winbindd is away as well.
    async fn id_of(self: &Arc<Self>, sid: Sid) -> Result<Option<UnixId>, Unavailable> {
        match self.ids_of(&[sid]).await {
            Ok(mut ids) => Ok(ids.pop().flatten()),
            Err(unavailable) => self.away.id_of(&sid).map(Some).ok_or(unavailable),
        }
    }

    /// The user or group of a SID, where that was asked a short while ago.
    fn known_id(&self, sid: &Sid) -> Option<Option<UnixId>> {
        self.ids.get(sid, Instant::now())
    }

    /// The SID of a user or group, where that was asked a short while ago.
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

    /// The names of `sids`.
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
                    // Each by itself: of a user with many groups, a slow controller may not tell all in time, and the next
                    // attempt goes on from there.
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
        // Asked for again by its SID: spelt as the domain spells it.
        match found.filter(|(_, kind)| *kind != SidNameUse::UNKNOWN) {
            Some((sid, _)) => self.principal(sid).await,
            None => Ok(None),
        }
    }

    /// Those of the SIDs of a user and his groups that are a domain's to give. A controller's S-1-5-32-... are its own
    /// groups, not those of this host, whose members NSS says.
    async fn believed(&self, mut sids: Vec<Sid>) -> Result<Vec<Sid>, Refused> {
        sids.truncate(MOST_SIDS);
        let own = match self.own.get() {
            Some(own) => of_server(&**own, &sids).await.map_err(|Unavailable(why)| Refused::Unavailable(why))?,
            None => HashSet::new(),
        };
        // The first two say who the user is and what his primary group: without them there is nobody.
        for sid in sids.iter().take(2) {
            if own.contains(sid) {
                let remedy = "see `frevo user list --json` and `frevo group list`";
                let why = format!("{sid} is or was the SID of an account or group of this server; {remedy}");
                return Err(Refused::Unmapped(why));
            }
            if !may_come_from_domain(sid) {
                return Err(Refused::Unmapped(format!("{sid} is no SID that a domain gives to its users and groups")));
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
            self.away.told_by_winbind(user, &name.domain).await;
        }
        account(&sids, &ids, &names)
    }

    /// The account of a client with a ticket.
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
                tracing::debug!(%client, why = unavailable, "known without winbindd");
                account
            }
            None => Err(Refused::Unavailable(unavailable)),
        }
    }
}

/// The ids of `sids`, together, and one by one where winbindd refuses all of them for one.
fn ids(winbind: &mut Connection, sids: &[Sid]) -> Result<Vec<Option<UnixId>>, Failed> {
    // It does that with well-known ones, which PACs have ([MS-PAC] 2.5: S-1-18-1).
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

/// Whether a SID can be a user's or a group's of a domain: S-1-5-21-x-y-z-RID.
fn may_be_mapped(sid: &Sid) -> bool {
    sid.authority() == 5 && matches!(sid.sub_authorities(), [21, _, _, _, _])
}

/// Why a question was not answered.
enum Asked {
    /// winbind's answer, which is none.
    Failed(Failed),
    /// There was none in time.
    Nothing(String),
}

/// The account with `sids`: the user's, that of the primary group, those of others.
fn account(sids: &[Sid], ids: &[Option<UnixId>], names: &[Option<Arc<Name>>]) -> Result<Account, Refused> {
    let remedy = "see `idmap config` in smb.conf and `wbinfo --sid-to-uid`";
    let (Some(sid), Some(Some(name))) = (sids.first(), names.first()) else {
        return Err(Refused::Unmapped("the domain does not say who the user is".into()));
    };
    // Nobody becomes root, or gets root's group, by what a domain says.
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

/// What becomes of a domain's refusal ([MS-ERREF] 2.3.1).
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
        other => Refused::Unavailable(format!("winbind says {other} ({said}); `frevo join` looks into it")),
    }
}

/// What the server asks; the questions go on beside it.
pub struct Member(pub Arc<Winbind>);

impl Domain for Member {
    fn log_on(&self, logon: NetworkLogon) -> Answer<Result<Proven, Refused>> {
        let winbind = self.0.clone();
        Answer::later(async move {
            let asked = winbind.ask(&winbind.logons, move |winbind| match winbind.log_on(&logon) {
                // winbindd is gone, and a new conversation may find another.
                Err(LogonFailed::Failed(failed)) => Err(failed),
                answered => Ok(answered),
            });
            let Accepted { session_base_key, sids } = match asked.await {
                Ok(answered) => answered.map_err(refused)?,
                Err(Asked::Failed(failed)) => return Err(Refused::Unavailable(failed.to_string())),
                Err(Asked::Nothing(why)) => return Err(Refused::Unavailable(why)),
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
