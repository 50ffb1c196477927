//! Changes of accounts in the directory, for `frevo user`.
//!
//! As in Samba, an entry of that name that is not yet an account becomes one; otherwise a new entry is added below
//! `ldap user suffix`. When an account is removed, its entry remains, unless `ldap delete dn` is set.

use anyhow::{Context, Result, bail, ensure};
use server::policy::fold;
use zeroize::Zeroizing;

use super::entry::{OF_ACCOUNTS, Person, attributes, changes, in_dn};
use super::people::{ACCOUNT, People};
use crate::backend::Entry;
use crate::record::Record;
use ldap::Reply;
use ldap::message::{Change, ChangeKind, Filter, Request, ResultCode};

impl People {
    /// Adds an account.
    pub(super) async fn add(&self, record: Record) -> Result<Entry> {
        let name = record.name.clone();
        ensure!(
            record.uid.is_none(),
            "the UNIX user of {name} follows from the directory (uidNumber) or NSS: use no other uid"
        );
        let mut there =
            self.search(&self.settings.suffix, Filter::Equal("uid", name.clone()), &["uid", "objectClass"], 2).await?;
        ensure!(there.len() < 2, "the directory has more than one entry with uid {name}");
        let there = there.pop();
        if let Some(entry) = &there {
            let other = || entry.first("uid").unwrap_or_default().to_owned();
            ensure!(
                entry.all("uid").any(|uid| fold(uid) == fold(&name)),
                "the directory treats {name:?} and {:?} of {} as the same name: use a different name",
                other(),
                entry.dn
            );
            let is_account = entry.all("objectClass").any(|class| class.eq_ignore_ascii_case(ACCOUNT));
            ensure!(!is_account, "account {name} exists already");
        }
        let sid = self.new_sid().await?;
        let attributes = attributes(&record, &sid);
        let dn = match &there {
            Some(entry) => entry.dn.clone(),
            None => format!("uid={},{}", in_dn(&name), self.settings.user_suffix),
        };
        let reply = match there {
            Some(_) => self.change_of(&name, &Request::Modify { dn: &dn, changes: &attributes }).await?,
            None => self.change_of(&name, &Request::Add { dn: &dn, attributes: &new_entry(&name, attributes) }).await?,
        };
        ensure!(reply.outcome.code != ResultCode::ENTRY_ALREADY_EXISTS, "the directory already has an entry {dn}");
        done(reply, &dn)?;
        self.get(&name)
            .await?
            .with_context(|| format!("{dn} was added but is not found: check that it is below `ldap suffix`"))
    }

    /// Writes the differences from `person` as it was read; `None` after a conflicting change.
    pub(super) async fn write(&self, person: &Person, record: &Record) -> Result<Option<Entry>> {
        let changes = changes(person, record);
        if !changes.is_empty() {
            let modify = Request::Modify { dn: &person.dn, changes: &changes };
            let reply = self.change_of(&record.name, &modify).await?;
            let lost =
                [ResultCode::NO_SUCH_ATTRIBUTE, ResultCode::ATTRIBUTE_OR_VALUE_EXISTS, ResultCode::NO_SUCH_OBJECT];
            if lost.contains(&reply.outcome.code) {
                return Ok(None);
            }
            done(reply, &person.dn)?;
        }
        let name = &person.record.name;
        self.get(name).await?.with_context(|| format!("account {name} was removed concurrently")).map(Some)
    }

    /// Removes an account; `false` if it does not exist.
    pub(super) async fn remove(&self, name: &str) -> Result<bool> {
        let Some(person) = self.person(name).await? else { return Ok(false) };
        let reply = if self.settings.delete_dn {
            self.change_of(name, &Request::Delete { dn: &person.dn }).await?
        } else {
            let changes = self.account_removals(&person).await?;
            self.change_of(name, &Request::Modify { dn: &person.dn, changes: &changes }).await?
        };
        if reply.outcome.code == ResultCode::NO_SUCH_OBJECT {
            return Ok(false);
        }
        done(reply, &person.dn)?;
        Ok(true)
    }

    /// Returns changes that remove the account's class and existing attributes. Other attributes of the class are
    /// omitted, because the server may not have them in its schema.
    async fn account_removals(&self, person: &Person) -> Result<Vec<Change>> {
        let filter = Filter::And(vec![
            Filter::Equal("uid", person.record.name.clone()),
            Filter::Equal("objectClass", ACCOUNT.into()),
        ]);
        let found = self.search(&self.settings.suffix, filter, OF_ACCOUNTS, 2).await?;
        let entry = found.iter().find(|entry| fold(&entry.dn) == fold(&person.dn));
        let has = |name: &&&'static str| entry.is_some_and(|entry| entry.first(name).is_some());
        let mut changes = vec![Change::new(ChangeKind::Delete, "objectClass", ACCOUNT)];
        changes.extend(OF_ACCOUNTS.iter().filter(has).map(|name| Change::clear(name)));
        Ok(changes)
    }

    /// Sends a change of the account `name` and invalidates its cache entry in any case, because the change may have
    /// been made even if no answer arrived.
    async fn change_of(&self, name: &str, request: &Request<'_>) -> Result<Reply> {
        let reply = self.change(request).await;
        self.cache.forget(name);
        reply
    }

    pub(super) async fn change(&self, request: &Request<'_>) -> Result<Reply> {
        Ok(self.servers.change(request, self.settings.timeout).await?)
    }
}

/// Returns a complete entry, of a class that needs only a name.
fn new_entry(name: &str, changes: Vec<Change>) -> Vec<(&'static str, Vec<Zeroizing<String>>)> {
    let own = |text: &str| Zeroizing::new(text.to_owned());
    let mut entry = vec![("uid", vec![own(name)])];
    for change in changes {
        match change.attribute {
            "objectClass" => entry.push(("objectClass", vec![own("account"), own(ACCOUNT)])),
            attribute => entry.push((attribute, change.values)),
        }
    }
    entry
}

/// Checks that a change was made; the error says why not.
pub(super) fn done(reply: Reply, dn: &str) -> Result<()> {
    match reply.outcome.code {
        ResultCode::SUCCESS => Ok(()),
        ResultCode::INSUFFICIENT_ACCESS => bail!("`ldap admin dn` has no permission to change {dn}: {}", reply.outcome),
        ResultCode::REFERRAL => {
            bail!("this LDAP server accepts no changes, {}: put that server first in `passdb backend`", reply.outcome)
        }
        ResultCode::NO_SUCH_OBJECT => bail!("the parent of {dn} does not exist: check `ldap user suffix`"),
        _ => bail!("the LDAP directory refused the change of {dn}: {}", reply.outcome),
    }
}
