//! The accounts that may log on: which there are (a back end, for now the embedded database) and which UNIX user each
//! is (NSS).
//!
//! [`Directory`] is what the server asks at a logon, and what performs the changes of `frevo user`, whether they come
//! over the control socket of a running server or from a `frevo user` that has the database open itself.

pub mod embedded;
mod import;
pub mod record;
pub mod unix;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use proto::dtyp::Sid;
use server::accounts::{Account, Accounts, DomainSid, Unavailable};
use server::answer::Answer;
use server::vfs::Time;

pub use self::import::{Line, read_line};

use self::embedded::{Change, OpenError, Store};
use self::record::{Record, check_name};
use self::unix::{Found, Key, User, Users};
use crate::admin::message::{
    AccountView, FormerSid, IMPORT_BATCH, ImportResult, Imported, LIST_PAGE, Outcome, UserReply, UserRequest,
};
use crate::state_dir::StateDir;
use crate::when;

/// How long a starting server waits for a `frevo user` that has the database open.
const PATIENCE: Duration = Duration::from_secs(10);

/// The accounts of one state directory.
pub struct Directory {
    store: Store,
    users: Arc<Users>,
}

impl Directory {
    /// The accounts of `state` for a server: opened for as long as it runs.
    pub fn of_server(state: &StateDir) -> Result<Self> {
        let me = rustix::process::geteuid().as_raw();
        // Whoever owns the directory decides who is root here.
        ensure!(
            state.owner() == me,
            "state directory {}: belongs to user {}, and a server needs one of its own user ({me})",
            state.path().display(),
            state.owner()
        );
        Ok(Self::new(Store::open_patiently(state, PATIENCE)?, Users::of_host().context("this process's user")?))
    }

    /// The accounts of `state` for one change; [`OpenError::Busy`] while a server has them. `None` where there is no
    /// database, unless `create` asks for one.
    pub fn of_command(state: &StateDir, create: bool) -> Result<Option<Self>, OpenError> {
        let store = if create { Some(Store::open(state)?) } else { Store::open_existing(state)? };
        let users = Users::of_host()?;
        Ok(store.map(|store| Self::new(store, users)))
    }

    fn new(store: Store, users: Arc<Users>) -> Self {
        Directory { store, users }
    }

    /// Whether there is no account at all.
    pub fn is_empty(&self) -> bool {
        self.first().is_none()
    }

    /// The first account in the order of the names.
    pub fn first(&self) -> Option<Arc<Record>> {
        self.store.page(None, 1).pop()
    }

    /// The UNIX users that accounts are.
    pub fn users(&self) -> &Arc<Users> {
        &self.users
    }

    /// The account called `name`, without its UNIX user.
    pub fn record(&self, name: &str) -> Option<Arc<Record>> {
        self.store.get(name)
    }

    /// Performs a request. Blocks. The error's text is for the person who asked.
    pub fn perform(&self, request: UserRequest) -> Result<UserReply> {
        match request {
            UserRequest::Add { name, nt_hash, full_name, uid } => {
                ensure!(nt_hash.is_some(), "an account needs a password");
                check_name(&name)?;
                ensure!(!full_name.chars().any(char::is_control), "the full name has control characters");
                let record = |rid| Record {
                    name,
                    rid,
                    nt_hash,
                    disabled: false,
                    locked: false,
                    must_change: false,
                    password_last_set: Some(when::now()),
                    full_name,
                    uid,
                };
                self.add(record)
            }
            UserRequest::Passwd { name, nt_hash } => {
                ensure!(nt_hash.is_some(), "an account needs a password");
                self.edit(&name, |record| {
                    record.nt_hash = nt_hash;
                    record.password_last_set = Some(when::now());
                    (record.locked, record.must_change) = (false, false);
                })
            }
            UserRequest::Enable { name, enabled } => self.edit(&name, |record| {
                record.disabled = !enabled;
                record.locked &= !enabled;
            }),
            UserRequest::Delete { name } => self.store.change(false, |change| {
                existing(change, &name)?;
                change.remove(&name);
                Ok(UserReply::Done(None))
            }),
            UserRequest::Find { name } => Ok(UserReply::Found(self.store.get(&name).map(|record| self.view(&record)))),
            UserRequest::List { after } => {
                let page = self.store.page(after.as_deref(), LIST_PAGE);
                Ok(UserReply::List(page.iter().map(|record| self.view(record)).collect()))
            }
            UserRequest::Import { accounts, dry_run } => self.import(accounts, dry_run),
            UserRequest::Sids { sids, dry_run } => self.note_sids(sids, dry_run),
        }
    }

    fn add(&self, record: impl FnOnce(u32) -> Record) -> Result<UserReply> {
        self.store.change(false, |change| {
            let record = record(change.new_rid()?);
            if let Some(there) = change.get(&record.name) {
                bail!("account {} exists already; `frevo user passwd` changes its password", there.name);
            }
            if let Err(why) = self.unix_user(&record)? {
                match record.uid {
                    None => bail!("{why}; make one first (for example `useradd -M {}`), or say --uid", record.name),
                    Some(_) => bail!("{why}"),
                }
            }
            change.put(record);
            let note = |only: &Arc<User>| {
                format!("not running as root: whoever logs on acts as this process's user, {}", only.name)
            };
            Ok(UserReply::Done(self.users.only().map(note)))
        })
    }

    fn edit(&self, name: &str, edit: impl FnOnce(&mut Record)) -> Result<UserReply> {
        self.store.change(false, |change| {
            let mut record = Record::clone(&*existing(change, name)?);
            edit(&mut record);
            let warning = match self.unix_user(&record)? {
                Ok(_) => None,
                Err(why) => Some(format!("{} cannot log on: {why}", record.name)),
            };
            change.put(record);
            Ok(UserReply::Done(warning))
        })
    }

    fn import(&self, accounts: Vec<Imported>, dry_run: bool) -> Result<UserReply> {
        ensure!(accounts.len() <= IMPORT_BATCH, "more than {IMPORT_BATCH} accounts in one import");
        self.store.change(dry_run, |change| {
            let mut outcomes = Vec::with_capacity(accounts.len());
            for account in accounts {
                outcomes.push(self.import_one(change, account)?);
            }
            Ok(UserReply::Imported(outcomes))
        })
    }

    fn import_one(&self, change: &mut Change<'_>, account: Imported) -> Result<Outcome> {
        if let Err(error) = check_name(&account.name) {
            return Ok(Outcome { result: ImportResult::Skipped, note: Some(error.to_string()) });
        }
        let before = change.get(&account.name);
        let record = Record {
            nt_hash: account.nt_hash,
            disabled: account.disabled,
            locked: account.locked,
            must_change: account.must_change,
            password_last_set: account.password_last_set,
            rid: before.as_ref().map_or(0, |before| before.rid),
            full_name: before.as_ref().map_or(String::new(), |before| before.full_name.clone()),
            uid: before.as_ref().and_then(|before| before.uid),
            name: before.as_ref().map_or(account.name, |before| before.name.clone()),
        };
        let note = self.unix_user(&record)?.err().map(|why| format!("cannot log on: {why}"));
        let result = match before {
            Some(before) if *before.encode() == *record.encode() => ImportResult::Unchanged,
            Some(_) => {
                change.put(record);
                ImportResult::Updated
            }
            None => {
                let rid = change.new_rid()?;
                change.put(Record { rid, ..record });
                ImportResult::Added
            }
        };
        Ok(Outcome { result, note })
    }

    fn note_sids(&self, sids: Vec<FormerSid>, dry_run: bool) -> Result<UserReply> {
        ensure!(sids.len() <= IMPORT_BATCH, "more than {IMPORT_BATCH} SIDs in one import");
        self.store.change(dry_run, |change| {
            Ok(UserReply::Imported(sids.into_iter().map(|former| self.note_sid(change, &former)).collect()))
        })
    }

    fn note_sid(&self, change: &mut Change<'_>, former: &FormerSid) -> Outcome {
        let skipped = |note: String| Outcome { result: ImportResult::Skipped, note: Some(note) };
        let Ok(sid) = former.sid.parse::<Sid>() else {
            return skipped(format!("has {:?}, which is no SID", former.sid));
        };
        // Those of everybody, of groups and of the system are nobody's own.
        if sid.authority() != 5 || sid.sub_authorities().first() != Some(&21) || sid.sub_authorities().len() != 5 {
            return skipped(format!("has {sid}, which is no account's SID (S-1-5-21-...)"));
        }
        let Some(record) = change.get(&former.name) else {
            return skipped("is no account here: import it first".into());
        };
        let owner = self.store.by_sid(&sid);
        if owner.as_ref().is_some_and(|owner| owner.name == record.name) {
            return Outcome { result: ImportResult::Unchanged, note: None };
        }
        change.put_sid(sid, &record.name);
        let note = owner.map(|owner| format!("takes {sid} over from {}", owner.name));
        Outcome { result: if note.is_some() { ImportResult::Updated } else { ImportResult::Added }, note }
    }

    fn unix_user(&self, record: &Record) -> Result<Found> {
        self.users.find_blocking(&key(record)).map_err(|Unavailable(why)| anyhow::anyhow!(why))
    }

    fn view(&self, record: &Record) -> AccountView {
        let (user, problem) = match self.unix_user(record) {
            Ok(Ok(user)) => (Some(user), None),
            Ok(Err(why)) => (None, Some(why.to_string())),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        AccountView {
            name: record.name.clone(),
            full_name: record.full_name.clone(),
            sid: format!("{}-{}", self.store.domain(), record.rid),
            former_sids: self.store.former_sids(&record.name).iter().map(Sid::to_string).collect(),
            has_password: record.nt_hash.is_some(),
            disabled: record.disabled,
            locked: record.locked,
            must_change: record.must_change,
            password_last_set: record.password_last_set,
            uid: user.as_ref().map(|user| user.identity.uid),
            unix_user: user.map(|user| user.name.clone()),
            problem,
        }
    }
}

impl Accounts for Directory {
    fn find(&self, name: &str) -> Answer<Result<Option<Account>, Unavailable>> {
        let Some(record) = self.store.get(name) else { return Answer::now(Ok(None)) };
        let former: Arc<[Sid]> = self.store.former_sids(name).into();
        match self.users.find(key(&record)) {
            Answer::Now(found) => {
                Answer::now(found.expect("nobody has polled it").map(|found| account(&record, former, found)))
            }
            later => Answer::later(async move { later.await.map(|found| account(&record, former, found)) }),
        }
    }

    fn uid_of(&self, sid: &Sid) -> Answer<Result<Option<u32>, Unavailable>> {
        let Some(record) = self.store.by_sid(sid) else { return Answer::now(Ok(None)) };
        let uid = |found: Found| found.ok().map(|user: Arc<User>| user.identity.uid);
        match self.users.find(key(&record)) {
            Answer::Now(found) => Answer::now(found.expect("nobody has polled it").map(uid)),
            later => Answer::later(async move { later.await.map(uid) }),
        }
    }

    fn domain(&self) -> DomainSid {
        self.store.domain()
    }
}

fn existing(change: &Change<'_>, name: &str) -> Result<Arc<Record>> {
    change.get(name).with_context(|| format!("there is no account {name:?}"))
}

/// How NSS is asked for the UNIX user of an account.
fn key(record: &Record) -> Key {
    record.uid.map_or_else(|| Key::Name(record.name.clone()), Key::Uid)
}

/// The account for a logon. One without a UNIX user is no account: nothing could be done on its behalf.
fn account(record: &Record, former_sids: Arc<[Sid]>, found: Found) -> Option<Account> {
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
        must_change: record.must_change,
        rid: record.rid,
        former_sids,
        full_name: record.full_name.clone(),
        password_last_set: record.password_last_set.map(|secs| Time { secs, nanos: 0 }),
        identity: user.identity.clone(),
        groups: user.groups.clone(),
    })
}

#[cfg(test)]
mod tests;
