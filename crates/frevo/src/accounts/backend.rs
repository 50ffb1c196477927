//! What a back end of accounts does: one element of `passdb backend`. [`super::Directory`] asks several of them in order.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Result;
use proto::dtyp::Sid;
use server::accounts::{LogonOutcome, Unavailable};
use server::answer::Answer;

use super::groups::{Group, GroupKey, GroupStore};
use super::record::Record;
use super::unix::User;
use crate::admin::message::{ImportResult, Imported, Outcome};

/// A place where accounts lie.
///
/// What a logon needs is never waited for on the caller's thread. What `frevo user` needs blocks, and its errors are for
/// the person who asked. Names are compared without regard to case.
pub trait Backend: Send + Sync {
    /// As the configuration has it, for messages.
    fn name(&self) -> &str;

    /// The account called `name`, for a logon. An error means that the back end could not be asked.
    fn find(&self, name: &str) -> Answer<Result<Option<Entry>, Unavailable>>;

    /// The account called `name` as it is at this moment, where [`Backend::find`] may have answered from memory; `None`
    /// where it does not do so, or there is none.
    fn find_anew(&self, _name: &str) -> Answer<Result<Option<Entry>, Unavailable>> {
        Answer::now(Ok(None))
    }

    /// How a logon to an account ended that may be of this back end. Does not block.
    fn logged_on(&self, _name: &str, _outcome: LogonOutcome) {}

    /// Whether the back end itself has a UNIX user called `name`, whom NSS need not know.
    fn knows_user(&self, _name: &str) -> Result<bool> {
        Ok(false)
    }

    /// The account with this SID; `None` at once for a SID that cannot be one of its accounts.
    fn by_sid(&self, sid: &Sid) -> Answer<Result<Option<Entry>, Unavailable>>;

    /// The name of the account with this SID.
    fn name_by_sid(&self, sid: &Sid) -> Answer<Result<Option<String>, Unavailable>> {
        self.by_sid(sid).map(|found| found.map(|found| found.map(|entry| entry.record.name.clone())))
    }

    /// These SIDs will be asked for, one after the other: where one question can be asked for many, that is done now.
    fn expect_sids(&self, _sids: Vec<Sid>) -> Answer<()> {
        Answer::now(())
    }

    /// The SIDs of the accounts that UNIX users are, of whom NSS has said uid and name; `None` where one is nobody's account.
    /// Left out are those whom the back end has to be asked for one by one.
    fn sids_of_users(&self, _users: Vec<(u32, String)>) -> Answer<Result<HashMap<u32, Option<Sid>>, Unavailable>> {
        Answer::now(Ok(HashMap::new()))
    }

    /// The account that is the UNIX user `uid` by its own fields; `None` where only its name says which user it is.
    fn by_uid(&self, _uid: u32) -> Answer<Result<Option<Entry>, Unavailable>> {
        Answer::now(Ok(None))
    }

    /// The group that is asked for, where the back end has groups with SIDs. Does not block.
    fn group(&self, _key: &GroupKey) -> Answer<Result<Option<Arc<Group>>, Unavailable>> {
        Answer::now(Ok(None))
    }

    /// Its groups, for `frevo group`, where it has any that can be changed.
    fn groups(&self) -> Option<&dyn GroupStore> {
        None
    }

    /// [`Backend::find`] for `frevo user`.
    fn get(&self, name: &str) -> Result<Option<Entry>>;

    /// The name of the account whose own SID this is, for `frevo user`.
    fn owner_of(&self, sid: &Sid) -> Result<Option<String>>;

    /// Whether the SIDs of its accounts begin with that of this machine, whichever that is at the moment.
    fn follows_machine(&self) -> bool {
        false
    }

    /// Up to `count` accounts whose folded names come after `after`, in the order of those names; fewer only where no more
    /// come behind them. For lists that may be long: who they are on Linux is not asked for their sake.
    fn page(&self, after: Option<&str>, count: usize) -> Result<Vec<Entry>>;

    /// [`Backend::page`] with what the back end says of who they are on Linux, as [`Backend::get`] has it.
    fn page_with_users(&self, after: Option<&str>, count: usize) -> Result<Vec<Entry>> {
        self.page(after, count)
    }

    /// How many accounts there are whose SIDs are of `domain`; `None` where they have to be listed to know.
    fn count(&self, _domain: &Sid) -> Result<Option<usize>> {
        Ok(None)
    }

    /// Adds an account, whose RID the back end gives; refuses one that is there.
    fn add(&self, record: Record) -> Result<Entry>;

    /// Changes an account, all at once or not at all; `None` where there is none. `edit` may be called again where
    /// somebody else changed the account meanwhile. Name and RID stay as they are.
    fn edit(&self, name: &str, edit: &mut dyn FnMut(&mut Record)) -> Result<Option<Entry>>;

    /// Removes an account; `false` where there was none.
    fn remove(&self, name: &str) -> Result<bool>;

    /// Adds accounts and updates those that are there. `check` says what the administrator should know of an account.
    fn import(&self, accounts: Vec<Imported>, dry_run: bool, check: Check<'_>) -> Result<Vec<Outcome>> {
        accounts.into_iter().map(|account| import_one(self, account, dry_run, check)).collect()
    }
}

/// A remark on a record that was imported, where there is something to say.
pub type Check<'a> = &'a dyn Fn(&Record) -> Result<Option<String>>;

/// An account as a back end has it.
#[derive(Clone)]
pub struct Entry {
    /// Its fields.
    pub record: Arc<Record>,
    /// Its SID, whose last number is the record's RID.
    pub sid: Sid,
    /// Who it is on Linux, where the back end itself says so; else NSS is asked for the user of its name or its uid.
    pub user: Option<Arc<User>>,
    /// Why nobody may be it on Linux, where the back end itself says so: NSS need not be asked, and nobody logs on.
    pub refused: Option<&'static str>,
    /// Nobody logs on from then on, in seconds since 1970; `None` is never.
    pub ends: Option<i64>,
}

/// `account` as a record in the place of `before`.
fn imported(account: Imported, before: Option<&Record>) -> Record {
    Record {
        nt_hash: account.nt_hash,
        disabled: account.disabled,
        locked: account.locked,
        must_change: account.must_change,
        never_expires: account.never_expires,
        password_last_set: account.password_last_set,
        rid: before.map_or(0, |before| before.rid),
        full_name: before.map_or(String::new(), |before| before.full_name.clone()),
        uid: before.and_then(|before| before.uid),
        name: before.map_or(account.name, |before| before.name.clone()),
    }
}

/// What is said of an account that cannot be imported because of its name.
pub(super) fn misnamed(account: &Imported) -> Option<Outcome> {
    let why = super::record::check_name(&account.name).err()?;
    Some(Outcome { result: ImportResult::Skipped, note: Some(why.to_string()) })
}

/// The record that `account` makes in the place of `before`, and what that is to it.
pub(super) fn weigh(account: Imported, before: Option<&Record>, check: Check<'_>) -> Result<(Record, Outcome)> {
    let record = imported(account, before);
    let note = check(&record)?;
    let result = match before {
        Some(before) if *before.encode() == *record.encode() => ImportResult::Unchanged,
        Some(_) => ImportResult::Updated,
        None => ImportResult::Added,
    };
    Ok((record, Outcome { result, note }))
}

fn import_one(
    backend: &(impl Backend + ?Sized),
    account: Imported,
    dry_run: bool,
    check: Check<'_>,
) -> Result<Outcome> {
    if let Some(skipped) = misnamed(&account) {
        return Ok(skipped);
    }
    let before = backend.get(&account.name)?;
    let (record, outcome) = weigh(account, before.as_ref().map(|entry| &*entry.record), check)?;
    if !dry_run {
        match outcome.result {
            ImportResult::Added => _ = backend.add(record)?,
            ImportResult::Updated => {
                let name = record.name.clone();
                backend.edit(&name, &mut |there| *there = record.clone())?;
            }
            ImportResult::Unchanged | ImportResult::Skipped => {}
        }
    }
    Ok(outcome)
}
