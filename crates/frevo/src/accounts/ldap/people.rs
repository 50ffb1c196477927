//! Searches for accounts, and who they are on Linux.

use std::future::{Future, poll_fn};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use anyhow::{Result, anyhow, ensure};
use proto::dtyp::Sid;
use server::accounts::Unavailable;
use server::answer::Answer;
use server::policy::fold;
use server::vfs::Identity;

use super::Settings;
use super::cache::Cache;
use super::connection::{Reply, Way};
use super::entry::{ATTRIBUTES, Person};
use super::groups::Groups;
use super::mapping::Mappings;
use super::message::{Filter, Found, Request, ResultCode, Search};
use super::secret;
use super::servers::{Servers, Unasked};
use super::tls;
use crate::accounts::backend::Entry;
use crate::accounts::embedded::OwnDomain;
use crate::accounts::unix::{self, Key, User, Users};

/// The class of accounts.
pub(super) const ACCOUNT: &str = "sambaSamAccount";

/// The accounts of a directory.
pub(super) struct People {
    pub(super) settings: Settings,
    pub(super) servers: Servers,
    pub(super) cache: Cache,
    pub(super) own: OwnDomain,
    pub(super) mappings: Mappings,
    pub(super) groups: Groups,
    users: Arc<Users>,
}

impl People {
    pub(super) fn new(settings: Settings, state: PathBuf, own: OwnDomain, users: Arc<Users>) -> Result<People> {
        let tls = settings.servers.iter().any(|uri| uri.may_have_tls(settings.start_tls));
        let tls = if tls { Some(tls::configuration(settings.authority.as_deref())?) } else { None };
        let (dn, start_tls, patience) = (settings.admin_dn.clone(), settings.start_tls, settings.connection_timeout);
        let way = move || -> Result<Way> {
            let bind = if dn.is_empty() { None } else { Some((dn.clone(), secret::read(&state, &dn)?)) };
            Ok(Way { start_tls, tls: tls.clone(), bind, patience })
        };
        let servers = Servers::new(&settings.servers, Box::new(way));
        Ok(People {
            servers,
            cache: Cache::new(),
            groups: Groups::new(),
            mappings: Mappings::new(),
            settings,
            own,
            users,
        })
    }

    /// For a logon: what the directory says of `name`, and where it says nothing, what it said before.
    pub(super) async fn find(&self, name: &str) -> Result<Option<Entry>, Unavailable> {
        match self.ask(name).await {
            Ok(entry) => Ok(entry),
            Err(unavailable) => match self.cache.stale(name) {
                Some(entry) => {
                    tracing::debug!(account = name, "LDAP directory is away: what it said before counts");
                    Ok(Some(entry))
                }
                None => Err(unavailable),
            },
        }
    }

    /// What the directory says of `name` at this moment.
    pub(super) async fn find_anew(&self, name: &str) -> Result<Option<Entry>, Unavailable> {
        self.ask(name).await
    }

    async fn ask(&self, name: &str) -> Result<Option<Entry>, Unavailable> {
        let seen = self.cache.generation();
        let mut early = self.ask_nss_early(name);
        match meanwhile(self.person(name), &mut early).await.map_err(unavailable)? {
            Some(person) => {
                // It is about the name that was asked for, which the directory may write in another way.
                let early = early.filter(|_| person.record.name == name);
                self.noted(&person, early, seen).await
            }
            None => {
                self.cache.put(name, None, seen);
                Ok(None)
            }
        }
    }

    /// Who `name` is by NSS, asked while the directory is asked; not where many ask NSS already, for the directory may
    /// know nobody of that name.
    fn ask_nss_early(&self, name: &str) -> Option<Asked> {
        let asked = !self.settings.trusted && self.users.only().is_none() && self.users.is_idle();
        asked.then(|| self.users.find(Key::Name(name.to_owned())))
    }

    /// Whose `sid` is; where no server answers, whose it was.
    pub(super) async fn by_sid(&self, sid: &Sid) -> Result<Option<Entry>, Unavailable> {
        let seen = self.cache.generation();
        match self.one(Filter::Equal("sambaSID", sid.to_string())).await {
            Ok(Some(person)) => self.noted(&person, None, seen).await,
            Ok(None) => {
                self.cache.put_owner(*sid, None, seen);
                Ok(None)
            }
            Err(error) => self.cache.stale_sid(sid).ok_or_else(|| unavailable(error)),
        }
    }

    /// The account that is the UNIX user `uid`; where no server answers, who it was. NSS may know another of that name.
    pub(super) async fn by_uid(&self, uid: u32) -> Result<Option<Entry>, Unavailable> {
        let seen = self.cache.generation();
        match self.one(Filter::Equal("uidNumber", uid.to_string())).await {
            Ok(Some(person)) => {
                let entry = self.noted(&person, None, seen).await?;
                Ok(entry.filter(|entry| entry.user.as_ref().is_some_and(|user| user.identity.uid == uid)))
            }
            Ok(None) => {
                self.cache.put_nobodys_uid(uid, seen);
                Ok(None)
            }
            Err(error) => self.cache.stale_uid(uid).ok_or_else(|| unavailable(error)),
        }
    }

    async fn noted(&self, person: &Person, early: Option<Asked>, seen: u64) -> Result<Option<Entry>, Unavailable> {
        let entry = self.entry(person, early).await?;
        self.cache.put(&person.record.name, entry.clone(), seen);
        Ok(entry)
    }

    /// For `frevo user`: the account called `name`.
    pub(super) async fn get(&self, name: &str) -> Result<Option<Entry>> {
        let Some(person) = self.person(name).await? else { return Ok(None) };
        self.shown(&person).await.map(Some)
    }

    /// For `frevo user`: whose own SID this is.
    pub(super) async fn owner_of(&self, sid: &Sid) -> Result<Option<String>> {
        let person = self.one(Filter::Equal("sambaSID", sid.to_string())).await?;
        Ok(person.map(|person| person.record.name.clone()))
    }

    /// The account called `name` as it lies in the directory. That its server takes two names for one is not enough: it may
    /// do so with spaces and with letters that only look alike.
    pub(super) async fn person(&self, name: &str) -> Result<Option<Person>> {
        let asked = fold(name);
        let is_it = |found: &Found| found.all("uid").any(|uid| fold(uid) == asked);
        let found = self.one_entry(Filter::Equal("uid", name.to_owned())).await?;
        Ok(found.filter(is_it).and_then(|found| read(&found)))
    }

    async fn one(&self, filter: Filter) -> Result<Option<Person>> {
        Ok(self.one_entry(filter).await?.and_then(|found| read(&found)))
    }

    async fn one_entry(&self, filter: Filter) -> Result<Option<Found>> {
        let filter = Filter::And(vec![filter, Filter::Equal("objectClass", ACCOUNT.into())]);
        let mut found = self.search(&self.settings.suffix, filter, ATTRIBUTES, 2).await?;
        if let [one, other, ..] = &found[..] {
            tracing::error!("two accounts have one name or SID, so neither may log on: {} and {}", one.dn, other.dn);
            return Ok(None);
        }
        Ok(found.pop())
    }

    /// Entries below `base`, at most `most`.
    pub(super) async fn search(
        &self,
        base: &str,
        filter: Filter,
        attributes: &'static [&'static str],
        most: i32,
    ) -> Result<Vec<Found>> {
        let search = self.search_for(base, filter, attributes, most);
        let reply = self.servers.ask(&Request::Search(&search), self.settings.timeout).await?;
        found(reply, base)
    }

    pub(super) fn search_for(
        &self,
        base: &str,
        filter: Filter,
        attributes: &'static [&'static str],
        most: i32,
    ) -> Search {
        let settings = &self.settings;
        Search {
            base: base.to_owned(),
            deref: settings.deref,
            size_limit: most,
            time_limit: i32::try_from(settings.timeout.as_secs()).unwrap_or(i32::MAX).max(1),
            filter,
            attributes,
            page: None,
        }
    }

    /// Who `person` is on Linux: with `ldapsam:trusted` the directory says so; else NSS, and the directory of those that
    /// NSS does not know. Nobody is root: an account of a directory is not this machine's administrator.
    async fn entry(&self, person: &Person, early: Option<Asked>) -> Result<Option<Entry>, Unavailable> {
        let name = || Key::Name(person.record.name.clone());
        match self.user(person, || early.unwrap_or_else(|| self.users.find(name()))).await? {
            Who::Known(user) => Ok(Some(entry_of(person, user))),
            Who::Root => Ok(refuse_root(person)),
            Who::Nobody => {
                tracing::warn!(
                    account = person.record.name,
                    dn = &*person.dn,
                    "with `ldapsam:trusted` an account needs uidNumber and gidNumber, and this one cannot log on"
                );
                Ok(None)
            }
            Who::Directorys(ids) => {
                let user = self.groups.user(self, person, ids).await.map_err(unavailable)?;
                Ok(Some(entry_of(person, Some(user))))
            }
        }
    }

    /// An account for `frevo user`, which is told of those too that may not log on, and of nobody's groups.
    pub(super) async fn shown(&self, person: &Person) -> Result<Entry> {
        let asked = || self.users.glance(Key::Name(person.record.name.clone()));
        let mut refused = None;
        let user = match self.user(person, asked).await.map_err(|Unavailable(why)| anyhow!(why))? {
            Who::Known(user) => user,
            Who::Root => {
                refused = Some("it would be uid 0 or in group 0");
                None
            }
            Who::Nobody => {
                refused = Some("with `ldapsam:trusted` it needs uidNumber and gidNumber");
                None
            }
            Who::Directorys((uid, gid)) => {
                let identity = Arc::new(Identity { uid, gid, groups: Box::new([]) });
                Some(Arc::new(User { name: person.record.name.clone(), identity, groups: Arc::new([]) }))
            }
        };
        Ok(Entry { refused, ..entry_of(person, user) })
    }

    /// `ask` asks NSS, where it is to be asked.
    async fn user(&self, person: &Person, ask: impl FnOnce() -> Asked) -> Result<Who, Unavailable> {
        if self.users.only().is_some() {
            return Ok(Who::Known(None));
        }
        if !self.settings.trusted
            && let Ok(user) = ask().await?
        {
            return Ok(match (user.identity.uid, user.identity.gid) {
                (0, _) | (_, 0) => Who::Root,
                _ => Who::Known(Some(user)),
            });
        }
        Ok(match person.ids {
            Some((0, _) | (_, 0)) => Who::Root,
            Some(ids) => Who::Directorys(ids),
            // Whoever is left to NSS by name could be root there.
            None if self.settings.trusted => Who::Nobody,
            None => Who::Known(None),
        })
    }

    /// Whether the directory has a UNIX user called `name`, which may become an account.
    pub(super) async fn knows_user(&self, name: &str) -> Result<bool> {
        let filter = Filter::And(vec![
            Filter::Equal("uid", name.to_owned()),
            Filter::Equal("objectClass", "posixAccount".into()),
        ]);
        let found = self.search(&self.settings.suffix, filter, &["uid"], 2).await?;
        Ok(found.iter().flat_map(|entry| entry.all("uid")).any(|uid| fold(uid) == fold(name)))
    }
}

/// A question to NSS.
type Asked = Answer<Result<unix::Found, Unavailable>>;

/// Waits for `question`, with which `early` goes on as far as it comes.
async fn meanwhile<T>(question: impl Future<Output = T>, early: &mut Option<Asked>) -> T {
    let mut question = pin!(question);
    poll_fn(|context| {
        let polled = question.as_mut().poll(context);
        if polled.is_pending()
            && let Some(Answer::Later(later)) = early
            && let Poll::Ready(found) = later.as_mut().poll(context)
        {
            *early = Some(Answer::now(found));
        }
        polled
    })
    .await
}

fn read(found: &Found) -> Option<Person> {
    let person = Person::read(found);
    person.inspect_err(|why| tracing::error!("an account cannot be used: {why}")).ok()
}

/// Who an account is on Linux.
enum Who {
    /// Whom NSS says; `None` is for the caller to find out.
    Known(Option<Arc<User>>),
    /// Whom the directory says: uid and primary gid.
    Directorys((u32, u32)),
    /// Somebody whom no account of a directory may be.
    Root,
    /// Whom the directory does not say, where nobody else is to be asked.
    Nobody,
}

fn refuse_root(person: &Person) -> Option<Entry> {
    tracing::warn!(
        account = person.record.name,
        dn = &*person.dn,
        "an account of a directory would be uid 0 or in group 0, and is refused"
    );
    None
}

fn entry_of(person: &Person, user: Option<Arc<User>>) -> Entry {
    Entry { user, ..person.entry() }
}

/// What a search has brought. That the base is missing is a mistake in the configuration, not an account that is missing.
pub(super) fn found(reply: Reply, base: &str) -> Result<Vec<Found>> {
    match reply.outcome.code {
        ResultCode::SUCCESS | ResultCode::SIZE_LIMIT_EXCEEDED => Ok(reply.found),
        ResultCode::NO_SUCH_OBJECT => {
            Err(anyhow!("there is no {base:?} that `ldap admin dn` may see; is `ldap suffix` right?"))
        }
        _ => {
            ensure!(
                reply.outcome.code != ResultCode::TIME_LIMIT_EXCEEDED,
                "the search takes too long: is uid indexed?"
            );
            Err(anyhow!("the search below {base:?} failed: {}", reply.outcome))
        }
    }
}

pub(super) fn unavailable(error: anyhow::Error) -> Unavailable {
    match error.downcast_ref::<Unasked>() {
        Some(unasked) => Unavailable(format!("no LDAP server answers: {unasked}")),
        None => Unavailable(format!("LDAP directory: {error:#}")),
    }
}
