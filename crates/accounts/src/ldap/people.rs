//! Searches for accounts, and their UNIX users.

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
use super::entry::{ATTRIBUTES, Person};
use super::groups::Groups;
use super::mapping::Mappings;
use super::secret;
use super::worker::as_process;
use crate::backend::Entry;
use crate::embedded::OwnDomain;
use crate::unix::{self, Key, User, Users};
use ldap::message::{Filter, Request, ResultCode, Search, SearchResultEntry};
use ldap::tls;
use ldap::{NoAnswer, Servers};
use ldap::{Reply, Way};

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
        let servers = Servers::new(&settings.servers, Box::new(way), |opening| Box::pin(as_process(opening)));
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

    /// For a logon: returns the directory's account called `name`, or the cached one if no server answers.
    pub(super) async fn find(&self, name: &str) -> Result<Option<Entry>, Unavailable> {
        match self.ask(name).await {
            Ok(entry) => Ok(entry),
            Err(unavailable) => match self.cache.stale(name) {
                Some(entry) => {
                    tracing::debug!(account = name, "LDAP directory is unavailable: using the cached account");
                    Ok(Some(entry))
                }
                None => Err(unavailable),
            },
        }
    }

    /// Returns the directory's present account called `name`.
    pub(super) async fn find_anew(&self, name: &str) -> Result<Option<Entry>, Unavailable> {
        self.ask(name).await
    }

    async fn ask(&self, name: &str) -> Result<Option<Entry>, Unavailable> {
        let seen = self.cache.generation();
        let mut early = self.ask_nss_early(name);
        match meanwhile(self.person(name), &mut early).await.map_err(unavailable)? {
            Some(person) => {
                // The early answer is for the requested name; the directory's spelling may differ.
                let early = early.filter(|_| person.record.name == name);
                self.noted(&person, early, seen).await
            }
            None => {
                self.cache.put(name, None, seen);
                Ok(None)
            }
        }
    }

    /// Starts the NSS look-up of `name` concurrently with the directory's. Not while many NSS look-ups are active,
    /// because the directory may have no account of that name.
    fn ask_nss_early(&self, name: &str) -> Option<Asked> {
        let asked = !self.settings.trusted && self.users.only().is_none() && self.users.is_idle();
        asked.then(|| self.users.find(Key::Name(name.to_owned())))
    }

    /// Returns the account with `sid`; while no server answers, the last known one.
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

    /// Returns the account of the UNIX user `uid`; while no server answers, the last known one. NSS may have a
    /// different user of that name.
    pub(super) async fn by_uid(&self, uid: u32) -> Result<Option<Entry>, Unavailable> {
        let seen = self.cache.generation();
        match self.one(Filter::Equal("uidNumber", uid.to_string())).await {
            Ok(Some(person)) => {
                let entry = self.noted(&person, None, seen).await?;
                Ok(entry.filter(|entry| entry.user.as_ref().is_some_and(|user| user.identity.uid == uid)))
            }
            Ok(None) => {
                self.cache.put_uid_without_account(uid, seen);
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

    /// For `frevo user`: returns the account called `name`.
    pub(super) async fn get(&self, name: &str) -> Result<Option<Entry>> {
        let Some(person) = self.person(name).await? else { return Ok(None) };
        self.shown(&person).await.map(Some)
    }

    /// For `frevo user`: returns the name of the account whose own SID is `sid`.
    pub(super) async fn owner_of(&self, sid: &Sid) -> Result<Option<String>> {
        let person = self.one(Filter::Equal("sambaSID", sid.to_string())).await?;
        Ok(person.map(|person| person.record.name.clone()))
    }

    /// Returns the account called `name` from the directory. A match by the directory is not sufficient, because it may
    /// ignore spaces and differences between similar letters.
    pub(super) async fn person(&self, name: &str) -> Result<Option<Person>> {
        let asked = fold(name);
        let is_it = |found: &SearchResultEntry| found.all("uid").any(|uid| fold(uid) == asked);
        let found = self.one_entry(Filter::Equal("uid", name.to_owned())).await?;
        Ok(found.filter(is_it).and_then(|found| read(&found)))
    }

    async fn one(&self, filter: Filter) -> Result<Option<Person>> {
        Ok(self.one_entry(filter).await?.and_then(|found| read(&found)))
    }

    async fn one_entry(&self, filter: Filter) -> Result<Option<SearchResultEntry>> {
        let filter = Filter::And(vec![filter, Filter::Equal("objectClass", ACCOUNT.into())]);
        let mut found = self.search(&self.settings.suffix, filter, ATTRIBUTES, 2).await?;
        if let [one, other, ..] = &found[..] {
            tracing::error!(
                "two accounts have the same name or SID, so neither can log on: {} and {}",
                one.dn,
                other.dn
            );
            return Ok(None);
        }
        Ok(found.pop())
    }

    /// Returns at most `most` entries below `base`.
    pub(super) async fn search(
        &self,
        base: &str,
        filter: Filter,
        attributes: &'static [&'static str],
        most: i32,
    ) -> Result<Vec<SearchResultEntry>> {
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

    /// Adds the UNIX user of `person`. With `ldapsam:trusted` the directory supplies it; otherwise NSS, or the
    /// directory for users that NSS does not have. Root is refused, because an account of a directory must not be this
    /// machine's administrator.
    async fn entry(&self, person: &Person, early: Option<Asked>) -> Result<Option<Entry>, Unavailable> {
        let name = || Key::Name(person.record.name.clone());
        match self.user(person, || early.unwrap_or_else(|| self.users.find(name()))).await? {
            UnixUser::Known(user) => Ok(Some(entry_of(person, user))),
            UnixUser::Root => Ok(refuse_root(person)),
            UnixUser::NoUser => {
                tracing::warn!(
                    account = person.record.name,
                    dn = &*person.dn,
                    "account without uidNumber or gidNumber cannot log on, because `ldapsam:trusted` needs them"
                );
                Ok(None)
            }
            UnixUser::Directory(ids) => {
                let user = self.groups.user(self, person, ids).await.map_err(unavailable)?;
                Ok(Some(entry_of(person, Some(user))))
            }
        }
    }

    /// Returns an account for `frevo user`, including accounts that cannot log on, and without groups.
    pub(super) async fn shown(&self, person: &Person) -> Result<Entry> {
        let asked = || self.users.glance(Key::Name(person.record.name.clone()));
        let mut refused = None;
        let user = match self.user(person, asked).await.map_err(|Unavailable(why)| anyhow!(why))? {
            UnixUser::Known(user) => user,
            UnixUser::Root => {
                refused = Some("its UNIX user has uid 0 or gid 0, which is not allowed");
                None
            }
            UnixUser::NoUser => {
                refused = Some("`ldapsam:trusted` requires uidNumber and gidNumber");
                None
            }
            UnixUser::Directory((uid, gid)) => {
                let identity = Arc::new(Identity { uid, gid, groups: Box::new([]) });
                Some(Arc::new(User { name: person.record.name.clone(), identity, groups: Arc::new([]) }))
            }
        };
        Ok(Entry { refused, ..entry_of(person, user) })
    }

    /// Returns the UNIX user of `person`; `ask` queries NSS, if it is needed.
    async fn user(&self, person: &Person, ask: impl FnOnce() -> Asked) -> Result<UnixUser, Unavailable> {
        if self.users.only().is_some() {
            return Ok(UnixUser::Known(None));
        }
        if !self.settings.trusted
            && let Ok(user) = ask().await?
        {
            return Ok(match (user.identity.uid, user.identity.gid) {
                (0, _) | (_, 0) => UnixUser::Root,
                _ => UnixUser::Known(Some(user)),
            });
        }
        Ok(match person.ids {
            Some((0, _) | (_, 0)) => UnixUser::Root,
            Some(ids) => UnixUser::Directory(ids),
            // A look-up by name in NSS could return root.
            None if self.settings.trusted => UnixUser::NoUser,
            None => UnixUser::Known(None),
        })
    }

    /// Returns whether the directory has a UNIX user called `name`, which may become an account.
    pub(super) async fn has_user(&self, name: &str) -> Result<bool> {
        let filter = Filter::And(vec![
            Filter::Equal("uid", name.to_owned()),
            Filter::Equal("objectClass", "posixAccount".into()),
        ]);
        let found = self.search(&self.settings.suffix, filter, &["uid"], 2).await?;
        Ok(found.iter().flat_map(|entry| entry.all("uid")).any(|uid| fold(uid) == fold(name)))
    }
}

/// A query to NSS.
type Asked = Answer<Result<unix::NssUser, Unavailable>>;

/// Waits for `question`, and polls `early` meanwhile.
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

fn read(found: &SearchResultEntry) -> Option<Person> {
    let person = Person::read(found);
    person.inspect_err(|why| tracing::error!("invalid account in the LDAP directory: {why}")).ok()
}

/// The UNIX user of an account.
enum UnixUser {
    /// The user from NSS; `None` if the caller must look it up.
    Known(Option<Arc<User>>),
    /// The user from the directory: uid and primary gid.
    Directory((u32, u32)),
    /// Root, which is refused for accounts of a directory.
    Root,
    /// The directory has no ids, and NSS must not be queried.
    NoUser,
}

fn refuse_root(person: &Person) -> Option<Entry> {
    tracing::warn!(
        account = person.record.name,
        dn = &*person.dn,
        "account refused: an account of a directory must not have uid 0 or gid 0"
    );
    None
}

fn entry_of(person: &Person, user: Option<Arc<User>>) -> Entry {
    Entry { user, ..person.entry() }
}

/// Returns the entries found by a search. A missing base is an error in the configuration, not a missing account.
pub(super) fn found(reply: Reply, base: &str) -> Result<Vec<SearchResultEntry>> {
    match reply.outcome.code {
        ResultCode::SUCCESS | ResultCode::SIZE_LIMIT_EXCEEDED => Ok(reply.found),
        ResultCode::NO_SUCH_OBJECT => {
            Err(anyhow!("{base:?} does not exist or is not visible to `ldap admin dn`: check `ldap suffix`"))
        }
        _ => {
            ensure!(
                reply.outcome.code != ResultCode::TIME_LIMIT_EXCEEDED,
                "the search exceeded its time limit: check that uid is indexed"
            );
            Err(anyhow!("the search below {base:?} failed: {}", reply.outcome))
        }
    }
}

pub(super) fn unavailable(error: anyhow::Error) -> Unavailable {
    match error.downcast_ref::<NoAnswer>() {
        Some(unasked) => Unavailable(format!("no LDAP server answers: {unasked}")),
        None => Unavailable(format!("LDAP directory: {error:#}")),
    }
}
