//! Changes that administrators make through the samr pipe, on a thread that may block.
//!
//! They are those of `frevo user` and `frevo group`. What a back end does not store is refused, not ignored.

use anyhow::{Context, Result};
use proto::dtyp::Sid;
use server::accounts::principals::SidNameUse;
use server::accounts::{GroupChange, NotDone, UserChange};
use server::answer::Answer;
use server::policy::fold;

use super::groups::{GroupKey, GroupKind};
use super::record::{Record, check_name};
use super::records::NewGroup;
use super::{Directory, key, unavailable};
use crate::when;

impl Directory {
    /// Runs `change` on a thread that may block.
    pub(super) fn changed<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Directory) -> Result<T, NotDone> + Send + 'static,
    ) -> Answer<Result<T, NotDone>> {
        let this = self.clone();
        Answer::later(async move {
            let done = tokio::task::spawn_blocking(move || change(&this));
            done.await.unwrap_or_else(|_| Err(NotDone::Unavailable("internal error; see the log".into())))
        })
    }

    pub(super) fn add_user_now(&self, name: &str) -> Result<Sid, NotDone> {
        check_name(name).map_err(|why| NotDone::Name(why.to_string()))?;
        if self.entry(name).map_err(failed)?.is_some() || self.group_sid(name).map_err(failed)?.is_some() {
            return Err(NotDone::Exists);
        }
        let record = Record { disabled: true, ..Record::named(name) };
        let backend = self.first_backend().map_err(failed)?;
        if !backend.has_user(name).map_err(failed)?
            && let Err(why) = self.users.glance_blocking(&key(&record)).map_err(unavailable).map_err(failed)?
        {
            return Err(NotDone::NoUnixObject(format!("{why}; create one first, for example `useradd -M {name}`")));
        }
        let added = backend.add(record).map_err(failed)?;
        self.forget(name).map_err(failed)?;
        Ok(added.sid)
    }

    pub(super) fn change_user_now(&self, name: &str, change: &UserChange) -> Result<(), NotDone> {
        let Some((backend, before)) = self.entry(name).map_err(failed)? else { return Err(NotDone::NotFound) };
        if change.full_name.as_ref().is_some_and(|name| name.chars().any(char::is_control)) {
            return Err(NotDone::NotStored("the full name has control characters".into()));
        }
        // A back end that takes these fields from elsewhere would ignore the change.
        let record = &before.record;
        let other_name = change.full_name.as_ref().is_some_and(|name| *name != record.full_name);
        let other_end = change.expires.is_some_and(|end| end.map(|time| time.secs) != before.ends);
        if (other_name && !backend.has_full_names()) || (other_end && !backend.changes_expiry()) {
            let field = if other_end { "when an account expires" } else { "a full name" };
            return Err(NotDone::NotStored(format!("{} cannot store {field}", backend.name())));
        }
        let edited = backend.edit(name, &mut |record| apply(record, change)).map_err(failed)?;
        let Some(entry) = edited else { return Err(NotDone::NotFound) };
        if let Some(hash) = &change.nt_hash
            && let Err(error) = self.own.remember_password(&entry.record.name, hash)
        {
            let account = &entry.record.name;
            tracing::error!(account, "the new password could not be added to the password history: {error:#}");
        }
        Ok(())
    }

    pub(super) fn delete_user_now(&self, name: &str) -> Result<(), NotDone> {
        match self.entry(name).map_err(failed)? {
            Some(_) => self.delete_account(name).map_err(failed),
            None => Err(NotDone::NotFound),
        }
    }

    /// Adds a group for the UNIX group of the same name.
    pub(super) fn add_group_now(&self, name: &str, kind: SidNameUse) -> Result<Sid, NotDone> {
        check_name(name).map_err(|why| NotDone::Name(why.to_string()))?;
        if self.entry(name).map_err(failed)?.is_some() || self.group_sid(name).map_err(failed)?.is_some() {
            return Err(NotDone::Exists);
        }
        // A number would select any group of the host.
        if name.parse::<u32>().is_ok() {
            return Err(NotDone::Name("a group's name cannot be a number".into()));
        }
        if let Err(why) = self.gid_of(name) {
            return Err(NotDone::NoUnixObject(format!("{why:#}; create one first, for example `groupadd {name}`")));
        }
        let kind = if kind == SidNameUse::ALIAS { GroupKind::Local } else { GroupKind::Domain };
        let new =
            NewGroup { name: name.to_owned(), unix_group: name.to_owned(), sid: None, kind, comment: String::new() };
        let added = self.add_group(new).map_err(failed)?;
        added.sid.parse().ok().context("the new group has no SID").map_err(failed)
    }

    pub(super) fn change_group_now(&self, name: &str, change: &GroupChange) -> Result<(), NotDone> {
        self.group_sid(name).map_err(failed)?.ok_or(NotDone::NotFound)?;
        if let Some(new_name) = change.name.as_ref().filter(|new| fold(new) != fold(name)) {
            check_name(new_name).map_err(|why| NotDone::Name(why.to_string()))?;
            if self.entry(new_name).map_err(failed)?.is_some() || self.group_sid(new_name).map_err(failed)?.is_some() {
                return Err(NotDone::Exists);
            }
        }
        let stored = |error: anyhow::Error| NotDone::NotStored(format!("{error:#}"));
        if self.own.group(&GroupKey::Name(name.to_owned())).is_some() {
            self.change_own_group(name, change)?;
        } else if change.name.is_some() || change.comment.is_some() {
            self.edit_group(name, change.name.clone(), change.comment.clone()).map_err(stored)?;
        }
        if !change.add.is_empty() || !change.remove.is_empty() {
            let name = change.name.as_deref().unwrap_or(name);
            self.group_members(name, &change.add, &change.remove).map_err(stored)?;
        }
        Ok(())
    }

    /// Changes the name or comment of a group in the server's own database.
    fn change_own_group(&self, name: &str, change: &GroupChange) -> Result<(), NotDone> {
        if change.name.is_none() && change.comment.is_none() {
            return Ok(());
        }
        let edited = self.own.edit_group(&GroupKey::Name(name.to_owned()), |group| {
            group.name = change.name.clone().unwrap_or_else(|| group.name.clone());
            group.comment = change.comment.clone().unwrap_or_else(|| group.comment.clone());
        });
        if edited.map_err(failed)? { Ok(()) } else { Err(NotDone::NotFound) }
    }

    pub(super) fn delete_group_now(&self, name: &str) -> Result<(), NotDone> {
        self.group_sid(name).map_err(failed)?.ok_or(NotDone::NotFound)?;
        self.delete_group(name).map_err(failed)
    }

    pub(super) fn set_policies_now(&self, policies: &[(&'static str, i64)]) -> Result<(), NotDone> {
        self.own.set_policies(policies).map_err(|error| NotDone::NotStored(format!("{error:#}")))
    }

    /// Returns the SID of the group called `name`.
    fn group_sid(&self, name: &str) -> Result<Option<Sid>> {
        Ok(self.group_named(name)?.map(|group| group.sid))
    }
}

fn failed(error: anyhow::Error) -> NotDone {
    NotDone::Unavailable(format!("{error:#}"))
}

/// Makes a change in a record.
fn apply(record: &mut Record, change: &UserChange) {
    if let Some(hash) = &change.nt_hash {
        record.nt_hash = Some(hash.clone());
        record.password_last_set = Some(when::now());
        (record.locked, record.must_change) = (false, false);
    }
    if let Some(full_name) = &change.full_name {
        record.full_name.clone_from(full_name);
    }
    record.disabled = change.disabled.unwrap_or(record.disabled);
    record.locked = change.locked.unwrap_or(record.locked);
    record.must_change = change.must_change.unwrap_or(record.must_change);
    record.never_expires = change.never_expires.unwrap_or(record.never_expires);
    if let Some(expires) = change.expires {
        record.expires = expires.map(|time| time.secs);
    }
}

#[cfg(test)]
mod tests;
