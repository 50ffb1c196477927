//! The interface of a back end of user accounts: one element of `passdb backend`. [`super::Directory`] queries several
//! of them in order.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Result;
use proto::dtyp::Sid;
use server::accounts::{LogonOutcome, Unavailable};
use server::answer::Answer;

use super::groups::{Group, GroupKey, GroupStore};
use super::record::Record;
use super::unix::User;
use crate::records::{ImportResult, Imported, Outcome};

/// A storage of user accounts.
///
/// The methods for logons never block the caller's thread. The methods for `frevo user` block, and their errors are
/// shown to the user. Names are compared without regard to case.
pub trait Backend: Send + Sync {
    /// Returns the name, as in the configuration, for messages.
    fn name(&self) -> &str;

    /// Returns the account called `name`, for a logon. An error means that the back end is unavailable.
    fn find(&self, name: &str) -> Answer<Result<Option<Entry>, Unavailable>>;

    /// Returns the present state of the account called `name`, if [`Backend::find`] may have answered from a cache.
    /// `None` if the back end has no cache, or no such account.
    fn find_anew(&self, _name: &str) -> Answer<Result<Option<Entry>, Unavailable>> {
        Answer::now(Ok(None))
    }

    /// Reports the outcome of a logon to an account that may be in this back end. Does not block.
    fn logged_on(&self, _name: &str, _outcome: LogonOutcome) {}

    /// Returns whether the back end itself has a UNIX user called `name`, which NSS need not have.
    fn has_user(&self, _name: &str) -> Result<bool> {
        Ok(false)
    }

    /// Returns the account with this SID; `None` at once for a SID that cannot belong to one of its accounts.
    fn by_sid(&self, sid: &Sid) -> Answer<Result<Option<Entry>, Unavailable>>;

    /// Returns the name of the account with this SID.
    fn name_by_sid(&self, sid: &Sid) -> Answer<Result<Option<String>, Unavailable>> {
        self.by_sid(sid).map(|found| found.map(|found| found.map(|entry| entry.record.name.clone())))
    }

    /// Announces SIDs that will be looked up one by one, so that a back end can fetch them with one request.
    fn expect_sids(&self, _sids: Vec<Sid>) -> Answer<()> {
        Answer::now(())
    }

    /// Returns the account SIDs of UNIX users whose uid and name come from NSS; `None` for a user without an account.
    /// Users that must be looked up one by one are omitted.
    fn sids_of_users(&self, _users: Vec<(u32, String)>) -> Answer<Result<HashMap<u32, Option<Sid>>, Unavailable>> {
        Answer::now(Ok(HashMap::new()))
    }

    /// Returns the account that stores the UNIX user `uid`; `None` if its UNIX user follows only from its name.
    fn by_uid(&self, _uid: u32) -> Answer<Result<Option<Entry>, Unavailable>> {
        Answer::now(Ok(None))
    }

    /// Returns the group for `key`, if the back end has groups with SIDs. Does not block.
    fn group(&self, _key: &GroupKey) -> Answer<Result<Option<Arc<Group>>, Unavailable>> {
        Answer::now(Ok(None))
    }

    /// Returns the back end's groups for `frevo group`, if it has any that can be changed.
    fn groups(&self) -> Option<&dyn GroupStore> {
        None
    }

    /// Returns whether it stores full names.
    fn has_full_names(&self) -> bool {
        true
    }

    /// Returns whether [`Backend::edit`] changes when an account expires.
    fn changes_expiry(&self) -> bool {
        false
    }

    /// Like [`Backend::find`], for `frevo user`.
    fn get(&self, name: &str) -> Result<Option<Entry>>;

    /// Returns the name of the account whose own SID is `sid`, for `frevo user`.
    fn owner_of(&self, sid: &Sid) -> Result<Option<String>>;

    /// Returns whether the SIDs of its accounts always begin with the present SID of this machine.
    fn follows_machine(&self) -> bool {
        false
    }

    /// Returns up to `count` accounts whose folded names are greater than `after`, in the order of those names; fewer
    /// only at the end. Because lists may be long, UNIX users are not looked up for them.
    fn page(&self, after: Option<&str>, count: usize) -> Result<Vec<Entry>>;

    /// Like [`Backend::page`], with the UNIX users that the back end itself stores, as in [`Backend::get`].
    fn page_with_users(&self, after: Option<&str>, count: usize) -> Result<Vec<Entry>> {
        self.page(after, count)
    }

    /// Returns the number of accounts with SIDs in `domain`; `None` if they must be listed to be counted.
    fn count(&self, _domain: &Sid) -> Result<Option<usize>> {
        Ok(None)
    }

    /// Adds an account, whose RID the back end allocates; refuses one that exists.
    fn add(&self, record: Record) -> Result<Entry>;

    /// Changes an account atomically; `None` if it does not exist. `edit` may be called again after a concurrent change
    /// of the account. Name and RID are not changed.
    fn edit(&self, name: &str, edit: &mut dyn FnMut(&mut Record)) -> Result<Option<Entry>>;

    /// Removes an account; `false` if it did not exist.
    fn remove(&self, name: &str) -> Result<bool>;

    /// Adds accounts and updates existing ones. `check` returns remarks for the administrator.
    fn import(&self, accounts: Vec<Imported>, dry_run: bool, check: Check<'_>) -> Result<Vec<Outcome>> {
        accounts.into_iter().map(|account| import_one(self, account, dry_run, check)).collect()
    }
}

/// Returns a remark on an imported record, if there is one.
pub type Check<'a> = &'a dyn Fn(&Record) -> Result<Option<String>>;

/// An account as stored in a back end.
#[derive(Clone)]
pub struct Entry {
    /// Its fields.
    pub record: Arc<Record>,
    /// Its SID, whose last sub-authority is the record's RID.
    pub sid: Sid,
    /// Its UNIX user, if the back end itself stores it; otherwise NSS is queried for the user of its name or uid.
    pub user: Option<Arc<User>>,
    /// Why the back end refuses the account's UNIX user. NSS is not queried then, and logons are refused.
    pub refused: Option<&'static str>,
    /// When the account expires, in seconds since 1970; `None` means never.
    pub ends: Option<i64>,
}

/// Converts `account` to a record that replaces `before`.
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
        expires: before.and_then(|before| before.expires),
        name: before.map_or(account.name, |before| before.name.clone()),
    }
}

/// Returns the outcome for an account that cannot be imported because of its name.
pub(super) fn misnamed(account: &Imported) -> Option<Outcome> {
    let why = super::record::check_name(&account.name).err()?;
    Some(Outcome { result: ImportResult::Skipped, note: Some(why.to_string()) })
}

/// Returns the record that replaces `before`, and the outcome of the import.
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
