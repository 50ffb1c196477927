//! The user accounts that may log on. The back ends of `passdb backend` store the accounts; the back end or NSS
//! supplies each account's UNIX user.
//!
//! The server queries [`Directory`] through the four traits of [`server::accounts`]. Administrators change accounts
//! with it too, in the server or in a `frevo user` that has opened the back ends itself.
//!
//! - [`backend`] is the interface of a back end; [`embedded`], [`smbpasswd`] and [`ldap`] implement it. [`record`] is a
//!   stored account, [`groups`] are the group mappings, and [`policies`] the account policies.
//! - `administration`, `group_changes`, `changes` and `migration` change accounts and groups, and [`records`] has their
//!   arguments and results. `remote` makes changes for the samr pipe. `lists`, `principals`, `former` and `clients`
//!   answer the server's queries.
//! - [`unix`] asks NSS for users and groups. [`username_map`] maps the names that clients send, and [`hosts`] resolves
//!   names in `hosts allow`.
//! - [`state_dir`] is the directory of the database and of the server's other state. [`when`] formats times.
//!
//! Unsafe code is confined to [`unix`] and [`when`].
#![deny(unsafe_code)]

mod administration;
mod all_users;
pub mod backend;
mod changes;
mod clients;
pub mod embedded;
mod former;
mod group_changes;
pub mod groups;
pub mod hosts;
mod import;
pub mod ldap;
mod lists;
pub mod machine_sid;
mod migration;
pub mod policies;
mod principals;
pub mod record;
pub mod records;
mod remote;
pub mod smbpasswd;
pub mod state_dir;
#[allow(unsafe_code)]
pub mod unix;
pub mod username_map;
#[allow(unsafe_code)]
pub mod when;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use parking_lot::Mutex;
use proto::auth::pac::LogonInfo;
use proto::dtyp::Sid;
use server::accounts::lsa::{AccountRights, RightsChange, Secret, SecretChange};
use server::accounts::principals::{Principal, SidNameUse, UnixId};
use server::accounts::{
    Account, AccountPolicy, Administration, Authenticator, DomainSid, GroupChange, IdMap, ListedAccount, ListedGroup,
    LogonOutcome, LsaDatabase, Netgroups, NotChanged, NotDone, NtHash, Roster, Unavailable, UserChange,
};
use server::answer::Answer;
use server::policy::fold;
use server::tickets::ClientName;
use server::vfs::{Identity, Time};

pub use self::import::{Line, read_line};

use self::backend::{Backend, Entry};
use self::embedded::{OpenError, Store};
use self::ldap::Ldap;
use self::lists::Counted;
use self::record::Record;
use self::smbpasswd::Smbpasswd;
use self::unix::{Key, NssUser, User, Users};
use crate::state_dir::StateDir;

/// How long a starting server waits for a `frevo user` that has the database open.
const PATIENCE: Duration = Duration::from_secs(10);

/// The location of user accounts: an element of `passdb backend`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PassdbBackend {
    /// The embedded database in the state directory.
    Embedded,
    /// Samba's text file.
    Smbpasswd(smbpasswd::SmbpasswdFile),
    /// An LDAP directory.
    Ldap(Box<ldap::Settings>),
}

/// The user accounts of a server. A clone is another handle to the same accounts.
#[derive(Clone)]
pub struct Directory {
    /// The embedded database. It also stores this machine's SID, and SIDs that accounts had on other servers.
    own: Arc<Store>,
    /// The back ends, in search order.
    backends: Arc<[Arc<dyn Backend>]>,
    users: Arc<Users>,
    /// The cached number of users of a domain.
    counted: Arc<Mutex<Option<Counted>>>,
}

impl Directory {
    /// Opens the accounts in `backends` for a server with the state directory `state`, for as long as it runs.
    pub fn of_server(state: &StateDir, backends: &[PassdbBackend]) -> Result<Self> {
        let me = rustix::process::geteuid().as_raw();
        // The owner of the directory decides which user acts as root.
        ensure!(
            state.owner() == me,
            "state directory {} belongs to user {}: run the server as that user, or chown it to user {me}",
            state.path().display(),
            state.owner()
        );
        let users = Users::of_host().context("this process's user")?;
        Self::new(Store::open_patiently(state, PATIENCE)?, state.path(), backends, users)
    }

    /// Opens the accounts in `backends` for one change. Returns [`OpenError::Busy`] while a server has them open, and
    /// `None` if there is no database and `create` is not set.
    pub fn of_command(state: &StateDir, backends: &[PassdbBackend], create: bool) -> Result<Option<Self>, OpenError> {
        let needed = create || backends != [PassdbBackend::Embedded];
        let store = if needed { Some(Store::open(state)?) } else { Store::open_existing(state)? };
        let users = Users::of_host()?;
        Ok(store.map(|store| Self::new(store, state.path(), backends, users)).transpose()?)
    }

    /// Returns a directory that stores nothing and has no account, to try what a new database would contain.
    pub fn in_memory() -> Result<Self> {
        let users = Users::of_host().context("this process's user")?;
        let store = Store::in_memory().map_err(OpenError::into_error)?;
        Self::new(store, Path::new("/"), &[PassdbBackend::Embedded], users)
    }

    fn new(store: Store, state: &Path, backends: &[PassdbBackend], users: Arc<Users>) -> Result<Self> {
        let own = Arc::new(store);
        let open = |backend: &PassdbBackend| -> Result<Arc<dyn Backend>> {
            match backend {
                PassdbBackend::Embedded => Ok(own.clone()),
                PassdbBackend::Smbpasswd(place) => {
                    own.keep_to_odd_rids();
                    Ok(Arc::new(Smbpasswd::open(place, own.own_domain(), users.clone())?))
                }
                PassdbBackend::Ldap(settings) => {
                    Ok(Arc::new(Ldap::open(settings, state.to_owned(), own.own_domain(), users.clone())?))
                }
            }
        };
        let backends = backends.iter().map(open).collect::<Result<_>>()?;
        Ok(Directory { own, backends, users, counted: Arc::default() })
    }

    /// Returns whether there is no account at all.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.first()?.is_none())
    }

    /// Returns the first account in the order of the names.
    pub fn first(&self) -> Result<Option<Arc<Record>>> {
        Ok(self.page(None, 1)?.pop().map(|entry| entry.record))
    }

    /// Returns the UNIX users of the accounts.
    pub fn users(&self) -> &Arc<Users> {
        &self.users
    }

    /// Returns the account called `name`, without its UNIX user. Blocks.
    pub fn record(&self, name: &str) -> Result<Option<Arc<Record>>> {
        Ok(self.entry(name)?.map(|(_, entry)| entry.record))
    }

    /// Returns the account called `name` and the first back end that has it. Blocks.
    fn entry(&self, name: &str) -> Result<Option<(&dyn Backend, Entry)>> {
        for backend in &*self.backends {
            if let Some(entry) = backend.get(name)? {
                return Ok(Some((&**backend, entry)));
            }
        }
        Ok(None)
    }

    fn existing(&self, name: &str) -> Result<(&dyn Backend, Entry)> {
        self.entry(name)?.with_context(|| format!("there is no account {name:?}"))
    }

    /// Returns up to `count` accounts of all back ends after `after`, without looking up their UNIX users. Of several
    /// accounts with one name, it returns the one of the first back end. Blocks.
    fn page(&self, after: Option<&str>, count: usize) -> Result<Vec<Entry>> {
        self.pages(count, |backend| backend.page(after, count))
    }

    fn pages(&self, count: usize, page: impl Fn(&dyn Backend) -> Result<Vec<Entry>>) -> Result<Vec<Entry>> {
        let mut all = std::collections::BTreeMap::new();
        for backend in &*self.backends {
            for entry in page(&**backend)? {
                all.entry(fold(&entry.record.name)).or_insert(entry);
            }
        }
        Ok(all.into_values().take(count).collect())
    }

    /// Returns the UNIX user of `entry`.
    fn user_of(&self, entry: &Entry) -> Answer<Result<NssUser, Unavailable>> {
        match &entry.user {
            Some(user) => Answer::now(Ok(Ok(user.clone()))),
            None => self.users.find(key(&entry.record)),
        }
    }

    fn account_of(&self, entry: Entry) -> Answer<Result<Option<Account>, Unavailable>> {
        let former = all_users::with_all_users(self.own.former_sids(&entry.record.name));
        self.user_of(&entry).map(move |found| found.map(|found| account(&entry, former, found)))
    }

    /// Returns the uid of the account that has or had the SID `sid`.
    fn uid_of(&self, sid: &Sid) -> Answer<Result<Option<u32>, Unavailable>> {
        let this = self.clone();
        let entry = match self.own.former_owner(sid) {
            Some(name) => first(self.backends.clone(), 0, name, |backend, name| backend.find(name)),
            None => first(self.backends.clone(), 0, *sid, |backend, sid| backend.by_sid(sid)),
        };
        entry.then(move |found| match found {
            Ok(Some(entry)) => {
                this.user_of(&entry).map(|found| found.map(|found: NssUser| found.ok().map(|user| user.identity.uid)))
            }
            Ok(None) => Answer::now(Ok(None)),
            Err(why) => Answer::now(Err(why)),
        })
    }
}

impl Authenticator for Directory {
    fn find(&self, name: &str) -> Answer<Result<Option<Account>, Unavailable>> {
        let this = self.clone();
        first(self.backends.clone(), 0, name.to_owned(), |backend, name| backend.find(name)).then(move |found| {
            match found {
                Ok(Some(entry)) => this.account_of(entry),
                Ok(None) => Answer::now(Ok(None)),
                Err(why) => Answer::now(Err(why)),
            }
        })
    }

    fn find_anew(&self, name: &str) -> Answer<Result<Option<Account>, Unavailable>> {
        let this = self.clone();
        first(self.backends.clone(), 0, name.to_owned(), |backend, name| refreshed(backend, name)).then(move |found| {
            match found {
                Ok(Some(Some(entry))) => this.account_of(entry),
                Ok(_) => Answer::now(Ok(None)),
                Err(why) => Answer::now(Err(why)),
            }
        })
    }

    fn of_client(
        &self,
        client: &ClientName,
        logon: Option<&LogonInfo>,
    ) -> Answer<Result<Option<Account>, Unavailable>> {
        clients::account(self, client, logon)
    }

    fn logged_on(&self, name: &str, outcome: LogonOutcome) {
        self.backends.iter().for_each(|backend| backend.logged_on(name, outcome));
    }

    fn lock(&self, name: &str) {
        self.lock_later(name);
    }

    fn change_password(&self, name: &str, old: NtHash, new: NtHash) -> Answer<Result<(), NotChanged>> {
        self.change_password_later(name, old, new)
    }

    fn policy(&self) -> AccountPolicy {
        self.own.policy()
    }
}

impl IdMap for Directory {
    fn id_of(&self, sid: &Sid) -> Answer<Result<Option<UnixId>, Unavailable>> {
        self.id_of_sid(*sid)
    }

    fn sid_of(&self, id: UnixId) -> Answer<Result<Sid, Unavailable>> {
        self.sid_of_id(id)
    }

    fn sids_of(&self, identity: &Arc<Identity>) -> Answer<Result<Vec<Sid>, Unavailable>> {
        self.sids_of_identity(identity.clone())
    }

    fn principal(&self, sid: &Sid) -> Answer<Result<Option<Principal>, Unavailable>> {
        self.principal_of_sid(*sid)
    }

    fn named(&self, realm: Option<&str>, name: &str) -> Answer<Result<Option<Principal>, Unavailable>> {
        self.principal_of_name(realm, name)
    }

    fn expect_sids(&self, sids: &[Sid]) -> Answer<()> {
        self.expect_all(sids)
    }

    fn domain(&self) -> DomainSid {
        self.own.domain()
    }

    fn is_of_machine(&self, sid: &Sid) -> bool {
        self.own.is_or_was_of_domain(sid)
    }
}

impl Roster for Directory {
    fn users(&self, after: Option<&str>, most: usize) -> Answer<Result<Vec<ListedAccount>, Unavailable>> {
        self.list_users(after, most)
    }

    fn count_users(&self) -> Answer<Result<u32, Unavailable>> {
        self.users_counted()
    }

    fn groups(&self, after: Option<&Sid>, most: usize) -> Answer<Result<Vec<ListedGroup>, Unavailable>> {
        self.list_groups(after, most)
    }

    fn group(&self, sid: &Sid) -> Answer<Result<Option<ListedGroup>, Unavailable>> {
        self.listed_group(sid)
    }

    fn members(&self, group: &Sid, most: usize) -> Answer<Result<Vec<Sid>, Unavailable>> {
        self.list_members(group, most)
    }
}

impl Administration for Directory {
    fn add_user(&self, name: &str) -> Answer<Result<Sid, NotDone>> {
        let name = name.to_owned();
        self.changed(move |this| this.add_user_now(&name))
    }

    fn change_user(&self, name: &str, change: UserChange) -> Answer<Result<(), NotDone>> {
        let name = name.to_owned();
        self.changed(move |this| this.change_user_now(&name, &change))
    }

    fn delete_user(&self, name: &str) -> Answer<Result<(), NotDone>> {
        let name = name.to_owned();
        self.changed(move |this| this.delete_user_now(&name))
    }

    fn add_group(&self, name: &str, kind: SidNameUse) -> Answer<Result<Sid, NotDone>> {
        let name = name.to_owned();
        self.changed(move |this| this.add_group_now(&name, kind))
    }

    fn change_group(&self, name: &str, change: GroupChange) -> Answer<Result<(), NotDone>> {
        let name = name.to_owned();
        self.changed(move |this| this.change_group_now(&name, &change))
    }

    fn delete_group(&self, name: &str) -> Answer<Result<(), NotDone>> {
        let name = name.to_owned();
        self.changed(move |this| this.delete_group_now(&name))
    }

    fn set_policies(&self, policies: Vec<(&'static str, i64)>) -> Answer<Result<(), NotDone>> {
        self.changed(move |this| this.set_policies_now(&policies))
    }
}

impl LsaDatabase for Directory {
    fn rights(&self, sid: &Sid) -> Option<AccountRights> {
        self.own.rights(sid)
    }

    fn all_rights(&self) -> Vec<(Sid, AccountRights)> {
        self.own.all_rights()
    }

    fn change_rights(&self, sid: &Sid, change: RightsChange) -> Answer<Result<(), NotDone>> {
        let sid = *sid;
        self.changed(move |this| this.own.change_rights(&sid, change))
    }

    fn secret(&self, name: &str) -> Answer<Result<Secret, NotDone>> {
        let name = name.to_owned();
        self.changed(move |this| this.own.secret(&name))
    }

    fn change_secret(&self, name: &str, change: SecretChange) -> Answer<Result<(), NotDone>> {
        let name = name.to_owned();
        self.changed(move |this| this.own.change_secret(&name, change))
    }
}

impl Netgroups for Directory {
    fn is_in_netgroup(&self, user: &str, group: &str) -> Answer<Result<bool, Unavailable>> {
        let question = unix::names::Question::Netgroup { user: user.to_owned(), group: group.to_owned() };
        self.users.names().ask(question).map(|reply| reply.map(|reply| reply.is_some()))
    }
}

/// A query to one back end.
type Question<Q, A = Entry> = fn(&dyn Backend, &Q) -> Answer<Result<Option<A>, Unavailable>>;

/// Returns the answer of the first of `backends`, starting at `index`, that has one. A back end that fails ends the
/// search, because an account of that name in a later back end may belong to a different user.
fn first<Q: Send + Sync + 'static, A: Send + 'static>(
    backends: Arc<[Arc<dyn Backend>]>,
    mut index: usize,
    question: Q,
    ask: Question<Q, A>,
) -> Answer<Result<Option<A>, Unavailable>> {
    while let Some(backend) = backends.get(index) {
        index += 1;
        match ask(&**backend, &question) {
            Answer::Now(Some(Ok(None))) => {}
            now @ Answer::Now(_) => return now,
            Answer::Later(later) => {
                return Answer::later(async move {
                    match later.await {
                        Ok(None) => first(backends, index, question, ask).await,
                        found => found,
                    }
                });
            }
        }
    }
    Answer::now(Ok(None))
}

/// Returns a newer entry of a name from a back end. The inner `None` means that the back end has the account, but
/// nothing newer. In that case later back ends are not queried, because an account of that name there may belong to a
/// different user.
fn refreshed(backend: &dyn Backend, name: &str) -> Answer<Result<Option<Option<Entry>>, Unavailable>> {
    let newer = backend.find_anew(name);
    let known = backend.find(name);
    newer.then(move |newer| match newer {
        Ok(Some(entry)) => Answer::now(Ok(Some(Some(entry)))),
        Ok(None) => known.map(|known| known.map(|known| known.map(|_| None))),
        Err(why) => Answer::now(Err(why)),
    })
}

fn unavailable(Unavailable(why): Unavailable) -> anyhow::Error {
    anyhow::anyhow!(why)
}

/// Returns the key for the NSS look-up of an account's UNIX user.
fn key(record: &Record) -> Key {
    record.uid.map_or_else(|| Key::Name(record.name.clone()), Key::Uid)
}

/// Returns the account for a logon. An account without a UNIX user is refused, because no operation could be done as
/// it.
fn account(entry: &Entry, former_sids: Arc<[Sid]>, found: NssUser) -> Option<Account> {
    let record = &entry.record;
    let user: Arc<User> = match found {
        Ok(user) => user,
        Err(why) => {
            tracing::warn!(account = record.name, "logon refused: {why}");
            return None;
        }
    };
    Some(Account {
        name: record.name.clone(),
        nt_hash: record.nt_hash.clone(),
        disabled: record.disabled,
        locked: record.locked,
        must_change: record.needs_new_password(),
        never_expires: record.never_expires,
        expires: entry.ends.map(|secs| Time { secs, nanos: 0 }),
        sid: entry.sid,
        domain: None,
        former_sids,
        full_name: record.full_name.clone(),
        password_last_set: record.password_last_set.map(|secs| Time { secs, nanos: 0 }),
        identity: user.identity.clone(),
        groups: user.groups.clone(),
    })
}

#[cfg(test)]
mod tests;
