//! The user accounts that may log on. The back ends of `passdb backend` store the accounts; the back end or NSS
//! supplies each account's UNIX user.
//!
//! The server queries [`Directory`] at a logon. It also performs the changes of `frevo user`, whether they arrive over
//! the control socket of a running server or from a `frevo user` that has opened the back ends itself.

mod all_users;
pub mod backend;
mod changes;
mod clients;
pub mod embedded;
mod former;
mod group_requests;
pub mod groups;
mod import;
pub mod ldap;
mod lists;
pub mod machine_sid;
pub mod policies;
mod principals;
pub mod record;
pub mod smbpasswd;
pub mod unix;
pub mod username_map;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use parking_lot::Mutex;
use proto::auth::pac::LogonInfo;
use proto::dtyp::Sid;
use server::accounts::principals::{Principal, UnixId};
use server::accounts::{
    Account, AccountPolicy, Authenticator, DomainSid, IdMap, ListedAccount, ListedGroup, LogonOutcome, Netgroups,
    NotChanged, NtHash, Roster, Unavailable,
};
use server::answer::Answer;
use server::policy::fold;
use server::tickets::ClientName;
use server::vfs::{Identity, Time};

pub use self::import::{Line, read_line};

use self::backend::{Backend, Entry};
use self::embedded::{OpenError, Store};
use self::groups::GroupKey;
use self::ldap::Ldap;
use self::lists::Counted;
use self::record::{Record, check_name};
use self::smbpasswd::Smbpasswd;
use self::unix::{Found, Key, User, Users};
use crate::admin::message::{
    AccountView, FormerSid, IMPORT_BATCH, ImportResult, Imported, LIST_PAGE, Outcome, PolicyView, UserReply,
    UserRequest,
};
use crate::config::PassdbBackend;
use crate::state_dir::StateDir;
use crate::when;

/// How long a starting server waits for a `frevo user` that has the database open.
const PATIENCE: Duration = Duration::from_secs(10);

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

    /// Performs a request. Blocks. The error's text is shown to the user who sent the request.
    pub fn perform(&self, request: UserRequest) -> Result<UserReply> {
        match request {
            UserRequest::Add { name, nt_hash, full_name, uid } => {
                ensure!(nt_hash.is_some(), "an account needs a password");
                check_name(&name)?;
                ensure!(!full_name.chars().any(char::is_control), "the full name has control characters");
                let password_last_set = Some(when::now());
                self.add(Record { nt_hash, password_last_set, full_name, uid, ..Record::named(&name) })
            }
            UserRequest::Passwd { name, nt_hash } => {
                let Some(nt_hash) = nt_hash else { bail!("an account needs a password") };
                let done = self.edit(&name, &mut |record| {
                    record.nt_hash = Some(nt_hash.clone());
                    record.password_last_set = Some(when::now());
                    (record.locked, record.must_change) = (false, false);
                })?;
                match (self.own.remember_password(&name, &nt_hash), done) {
                    (Err(error), UserReply::Done(warning)) => {
                        let why = format!(
                            "the password is changed, but could not be added to the password history: {error:#}"
                        );
                        Ok(UserReply::Done(Some(warning.map_or(why.clone(), |first| format!("{first}; {why}")))))
                    }
                    (_, done) => Ok(done),
                }
            }
            UserRequest::Enable { name, enabled } => self.edit(&name, &mut |record| {
                record.disabled = !enabled;
                record.locked &= !enabled;
            }),
            UserRequest::AccountControl { name, disabled, locked, never_expires } => self.edit(&name, &mut |record| {
                (record.disabled, record.locked, record.never_expires) = (disabled, locked, never_expires);
            }),
            UserRequest::Delete { name } => self.delete(&name),
            UserRequest::Find { name } => Ok(UserReply::Found(self.entry(&name)?.map(|(_, entry)| self.view(&entry)))),
            UserRequest::List { after } => {
                let page = self.pages(LIST_PAGE, |backend| backend.page_with_users(after.as_deref(), LIST_PAGE))?;
                Ok(UserReply::List(page.iter().map(|entry| self.view(entry)).collect()))
            }
            UserRequest::Policy { set } => {
                if let Some((name, value)) = set {
                    self.own.set_policy(&name, value)?;
                }
                let view = |(name, value, about): (&str, i64, &str)| PolicyView {
                    name: name.into(),
                    value,
                    about: about.into(),
                };
                Ok(UserReply::Policies(policies::all(&self.own.policy()).map(view).collect()))
            }
            UserRequest::MachineSid { set, forget } => self.machine_sid(set, forget),
            UserRequest::Import { accounts, dry_run } => self.import(accounts, dry_run),
            UserRequest::Sids { sids, dry_run } => self.note_sids(sids, dry_run),
            UserRequest::Group(request) => self.perform_on_groups(request),
        }
    }

    /// Returns the back end that stores new accounts.
    fn first_backend(&self) -> Result<&dyn Backend> {
        Ok(&**self.backends.first().context("`passdb backend` is empty")?)
    }

    fn add(&self, record: Record) -> Result<UserReply> {
        if let Some((_, there)) = self.entry(&record.name)? {
            bail!("account {} exists already; change its password with `frevo user passwd`", there.record.name);
        }
        if !self.first_backend()?.has_user(&record.name)?
            && let Err(why) = self.users.glance_blocking(&key(&record)).map_err(unavailable)?
        {
            match record.uid {
                None => bail!("{why}; create one first (for example `useradd -M {}`), or specify --uid", record.name),
                Some(_) => bail!("{why}"),
            }
        }
        self.first_backend()?.add(record)?;
        let note = |only: &Arc<User>| {
            format!("not running as root: every user who logs on acts as this process's user, {}", only.name)
        };
        Ok(UserReply::Done(self.users.only().map(note)))
    }

    fn edit(&self, name: &str, edit: &mut dyn FnMut(&mut Record)) -> Result<UserReply> {
        let (backend, _) = self.existing(name)?;
        let entry = backend.edit(name, edit)?.with_context(|| format!("there is no account {name:?}"))?;
        let warning = match self.unix_user(&entry)? {
            Ok(_) => None,
            Err(why) => Some(format!("{} cannot log on: {why}", entry.record.name)),
        };
        Ok(UserReply::Done(warning))
    }

    fn delete(&self, name: &str) -> Result<UserReply> {
        let (backend, entry) = self.existing(name)?;
        let former = self.own.former_sids(name);
        // Done first: if the process ends before the removal, a later account of the same name must not inherit this
        // account's SIDs and password history.
        self.forget(name)?;
        let removed = backend.remove(&entry.record.name);
        if removed.is_err()
            && self.entry(name).is_ok_and(|there| there.is_some_and(|(_, there)| there.sid == entry.sid))
        {
            let again = self.own.change(false, |change| {
                former.iter().for_each(|sid| change.put_sid(*sid, name));
                Ok(())
            });
            if let Err(error) = again {
                tracing::error!(account = name, "the account is not deleted but has lost its former SIDs: {error:#}");
            }
        }
        ensure!(removed?, "there is no account {name:?}");
        // Again, for entries added concurrently.
        self.forget(name)?;
        Ok(UserReply::Done(None))
    }

    /// Removes the server's own data about an account of any back end.
    fn forget(&self, name: &str) -> Result<()> {
        self.own.forget_sids(name)?;
        self.own.forget_passwords(name)
    }

    fn import(&self, accounts: Vec<Imported>, dry_run: bool) -> Result<UserReply> {
        ensure!(accounts.len() <= IMPORT_BATCH, "more than {IMPORT_BATCH} accounts in one import");
        let check = |record: &Record| -> Result<Option<String>> {
            let found = self.users.glance_blocking(&key(record)).map_err(unavailable)?;
            Ok(found.err().map(|why| format!("cannot log on: {why}")))
        };
        Ok(UserReply::Imported(self.first_backend()?.import(accounts, dry_run, &check)?))
    }

    fn note_sids(&self, sids: Vec<FormerSid>, dry_run: bool) -> Result<UserReply> {
        ensure!(sids.len() <= IMPORT_BATCH, "more than {IMPORT_BATCH} SIDs in one import");
        let groups = self.group_sids()?;
        self.own.change(dry_run, |change| {
            let outcomes = sids.iter().map(|former| self.note_sid(change, former, &groups)).collect::<Result<_>>()?;
            Ok(UserReply::Imported(outcomes))
        })
    }

    /// Returns the names of accounts, in the order of the back ends, whose own SID is `sid`. Blocks.
    fn owners_of(&self, sid: &Sid) -> Result<Vec<String>> {
        self.backends.iter().filter_map(|backend| backend.owner_of(sid).transpose()).collect()
    }

    fn note_sid(
        &self,
        change: &mut embedded::Change<'_>,
        former: &FormerSid,
        groups: &HashMap<Sid, String>,
    ) -> Result<Outcome> {
        let skipped = |note: String| Ok(Outcome { result: ImportResult::Skipped, note: Some(note) });
        let Ok(sid) = former.sid.parse::<Sid>() else {
            return skipped(format!("has {:?}, which is not a SID", former.sid));
        };
        // Well-known SIDs and those of groups and of the system do not belong to a single account.
        if sid.authority() != 5 || sid.sub_authorities().first() != Some(&21) || sid.sub_authorities().len() != 5 {
            return skipped(format!("has {sid}, which is not the SID of an account (S-1-5-21-...)"));
        }
        let Some((_, entry)) = self.entry(&former.name)? else {
            return skipped("does not exist on this server: import the account first".into());
        };
        let name = fold(&entry.record.name);
        if let Some(other) = self.owners_of(&sid)?.into_iter().find(|other| fold(other) != name) {
            return skipped(format!("has {sid}, which is the SID of {other} on this server"));
        }
        let own_group = self.own.group(&GroupKey::Sid(sid)).map(|group| group.name.clone());
        if let Some(group) = own_group.as_ref().or(groups.get(&sid)) {
            return skipped(format!("has {sid}, which is the SID of the group {group} on this server"));
        }
        let owner = self.own.former_owner(&sid);
        let unchanged = owner.as_ref().is_some_and(|owner| *owner == name);
        if unchanged || entry.sid == sid {
            return Ok(Outcome { result: ImportResult::Unchanged, note: None });
        }
        change.put_sid(sid, &entry.record.name);
        let note = owner.map(|owner| format!("takes over {sid} from {owner}"));
        Ok(Outcome { result: if note.is_some() { ImportResult::Updated } else { ImportResult::Added }, note })
    }

    fn unix_user(&self, entry: &Entry) -> Result<Found> {
        match (&entry.user, entry.refused) {
            (_, Some(why)) => Ok(Err(why.into())),
            (Some(user), None) => Ok(Ok(user.clone())),
            (None, None) => self.users.glance_blocking(&key(&entry.record)).map_err(unavailable),
        }
    }

    fn view(&self, entry: &Entry) -> AccountView {
        let (user, problem) = match self.unix_user(entry) {
            Ok(Ok(user)) => (Some(user), None),
            Ok(Err(why)) => (None, Some(why.to_string())),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        let record = &entry.record;
        AccountView {
            name: record.name.clone(),
            full_name: record.full_name.clone(),
            sid: entry.sid.to_string(),
            former_sids: self.own.former_sids(&record.name).iter().map(Sid::to_string).collect(),
            has_password: record.nt_hash.is_some(),
            disabled: record.disabled,
            locked: record.locked,
            must_change: record.needs_new_password(),
            never_expires: record.never_expires,
            password_last_set: record.password_last_set,
            uid: user.as_ref().map(|user| user.identity.uid),
            unix_user: user.map(|user| user.name.clone()),
            problem,
        }
    }

    /// Returns the UNIX user of `entry`.
    fn user_of(&self, entry: &Entry) -> Answer<Result<Found, Unavailable>> {
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
                this.user_of(&entry).map(|found| found.map(|found: Found| found.ok().map(|user| user.identity.uid)))
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
fn account(entry: &Entry, former_sids: Arc<[Sid]>, found: Found) -> Option<Account> {
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
