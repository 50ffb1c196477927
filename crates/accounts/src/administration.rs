//! Changes and lists of accounts for the administrator. The errors are shown to the administrator.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use proto::dtyp::Sid;
use server::accounts::NtHash;
use server::policy::fold;

use super::backend::{Backend, Entry};
use super::groups::GroupKey;
use super::record::{Record, check_name};
use super::records::{AccountView, FormerSid, IMPORT_BATCH, ImportResult, Imported, LIST_PAGE, NewAccount, Outcome};
use super::unix::{NssUser, User};
use super::{Directory, embedded, key, unavailable};
use crate::when;

impl Directory {
    /// Returns the back end that stores new accounts.
    pub(super) fn first_backend(&self) -> Result<&dyn Backend> {
        Ok(&**self.backends.first().context("`passdb backend` is empty")?)
    }

    /// Adds an account. Returns a note for the administrator. Blocks.
    pub fn add_account(&self, new: NewAccount) -> Result<Option<String>> {
        let NewAccount { name, nt_hash, full_name, uid } = new;
        ensure!(nt_hash.is_some(), "an account needs a password");
        check_name(&name)?;
        ensure!(!full_name.chars().any(char::is_control), "the full name has control characters");
        let password_last_set = Some(when::now());
        let record = Record { nt_hash, password_last_set, full_name, uid, ..Record::named(&name) };
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
        Ok(self.users.only().map(note))
    }

    /// Sets another password, which also clears `locked` and `must change`. Returns a warning. Blocks.
    pub fn set_password(&self, name: &str, nt_hash: Option<NtHash>) -> Result<Option<String>> {
        let Some(nt_hash) = nt_hash else { bail!("an account needs a password") };
        let warning = self.edit(name, &mut |record| {
            record.nt_hash = Some(nt_hash.clone());
            record.password_last_set = Some(when::now());
            (record.locked, record.must_change) = (false, false);
        })?;
        let Err(error) = self.own.remember_password(name, &nt_hash) else { return Ok(warning) };
        let why = format!("the password is changed, but could not be added to the password history: {error:#}");
        Ok(Some(warning.map_or(why.clone(), |first| format!("{first}; {why}"))))
    }

    /// Enables or disables an account. Returns a warning. Blocks.
    pub fn set_enabled(&self, name: &str, enabled: bool) -> Result<Option<String>> {
        self.edit(name, &mut |record| {
            record.disabled = !enabled;
            record.locked &= !enabled;
        })
    }

    /// Sets the three flags of an account. Returns a warning. Blocks.
    pub fn set_flags(&self, name: &str, disabled: bool, locked: bool, never_expires: bool) -> Result<Option<String>> {
        self.edit(name, &mut |record| {
            (record.disabled, record.locked, record.never_expires) = (disabled, locked, never_expires);
        })
    }

    fn edit(&self, name: &str, edit: &mut dyn FnMut(&mut Record)) -> Result<Option<String>> {
        let (backend, _) = self.existing(name)?;
        let entry = backend.edit(name, edit)?.with_context(|| format!("there is no account {name:?}"))?;
        let warning = match self.unix_user(&entry)? {
            Ok(_) => None,
            Err(why) => Some(format!("{} cannot log on: {why}", entry.record.name)),
        };
        Ok(warning)
    }

    /// Removes an account with all that the server stores about it. Blocks.
    pub fn delete_account(&self, name: &str) -> Result<()> {
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
        self.forget(name)
    }

    /// Removes the server's own data about an account of any back end.
    pub(super) fn forget(&self, name: &str) -> Result<()> {
        self.own.forget_sids(name)?;
        self.own.forget_passwords(name)
    }

    /// Adds or updates accounts in one step. Returns the result for each. Blocks.
    pub fn import(&self, accounts: Vec<Imported>, dry_run: bool) -> Result<Vec<Outcome>> {
        ensure!(accounts.len() <= IMPORT_BATCH, "more than {IMPORT_BATCH} accounts in one import");
        let check = |record: &Record| -> Result<Option<String>> {
            let found = self.users.glance_blocking(&key(record)).map_err(unavailable)?;
            Ok(found.err().map(|why| format!("cannot log on: {why}")))
        };
        self.first_backend()?.import(accounts, dry_run, &check)
    }

    /// Records SIDs that accounts had on another server, in one step. Returns the result for each. Blocks.
    pub fn note_sids(&self, sids: Vec<FormerSid>, dry_run: bool) -> Result<Vec<Outcome>> {
        ensure!(sids.len() <= IMPORT_BATCH, "more than {IMPORT_BATCH} SIDs in one import");
        let groups = self.group_sids()?;
        self.own.change(dry_run, |change| sids.iter().map(|former| self.note_sid(change, former, &groups)).collect())
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

    fn unix_user(&self, entry: &Entry) -> Result<NssUser> {
        match (&entry.user, entry.refused) {
            (_, Some(why)) => Ok(Err(why.into())),
            (Some(user), None) => Ok(Ok(user.clone())),
            (None, None) => self.users.glance_blocking(&key(&entry.record)).map_err(unavailable),
        }
    }

    /// Returns the account called `name` as shown to the administrator. Blocks.
    pub fn account_view(&self, name: &str) -> Result<Option<AccountView>> {
        Ok(self.entry(name)?.map(|(_, entry)| self.view(&entry)))
    }

    /// Returns up to [`LIST_PAGE`] accounts after the name `after`, in the order of their names. Blocks.
    pub fn account_views(&self, after: Option<&str>) -> Result<Vec<AccountView>> {
        let page = self.pages(LIST_PAGE, |backend| backend.page_with_users(after, LIST_PAGE))?;
        Ok(page.iter().map(|entry| self.view(entry)).collect())
    }

    /// Sets the account policy called `name`. Blocks.
    pub fn set_policy(&self, name: &str, value: i64) -> Result<()> {
        self.own.set_policy(name, value)
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
}
