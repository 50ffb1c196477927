//! Changes of accounts in the directory, for `frevo user`.
//!
//! As Samba does it: an entry of that name that is no account yet becomes one, and else a new one is made below
//! `ldap user suffix`; an account that is removed leaves its entry behind, unless `ldap delete dn` says otherwise.

use anyhow::{Context, Result, bail, ensure};
use server::policy::fold;
use zeroize::Zeroizing;

use super::connection::Reply;
use super::entry::{OF_ACCOUNTS, Person, attributes, changes, in_dn};
use super::message::{Change, ChangeKind, Filter, Request, ResultCode};
use super::people::{ACCOUNT, People};
use crate::accounts::backend::Entry;
use crate::accounts::record::Record;

impl People {
    /// Adds an account.
    pub(super) async fn add(&self, record: Record) -> Result<Entry> {
        let name = record.name.clone();
        ensure!(
            record.uid.is_none(),
            "who {name} is on Linux lies in the directory itself (uidNumber) or in NSS; it cannot be given along"
        );
        let mut there =
            self.search(&self.settings.suffix, Filter::Equal("uid", name.clone()), &["uid", "objectClass"], 2).await?;
        ensure!(there.len() < 2, "the directory has more than one entry with uid {name}");
        let there = there.pop();
        if let Some(entry) = &there {
            let other = || entry.first("uid").unwrap_or_default().to_owned();
            ensure!(
                entry.all("uid").any(|uid| fold(uid) == fold(&name)),
                "the directory takes {name:?} for {:?}, which {} has: no account can be told from that one",
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
        ensure!(reply.outcome.code != ResultCode::ENTRY_ALREADY_EXISTS, "the directory has an entry {dn} already");
        done(reply, &dn)?;
        self.get(&name).await?.with_context(|| format!("{dn} was made and is not found: is it below `ldap suffix`?"))
    }

    /// Writes what differs from `person`, as it was read; `None` where somebody else was faster.
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
        self.get(name).await?.with_context(|| format!("account {name} was removed meanwhile")).map(Some)
    }

    /// Removes an account; `false` where there is none.
    pub(super) async fn remove(&self, name: &str) -> Result<bool> {
        let Some(person) = self.person(name).await? else { return Ok(false) };
        let reply = if self.settings.delete_dn {
            self.change_of(name, &Request::Delete { dn: &person.dn }).await?
        } else {
            let changes = self.what_makes_it_an_account(&person).await?;
            self.change_of(name, &Request::Modify { dn: &person.dn, changes: &changes }).await?
        };
        if reply.outcome.code == ResultCode::NO_SUCH_OBJECT {
            return Ok(false);
        }
        done(reply, &person.dn)?;
        Ok(true)
    }

    /// Its class and those of its attributes that it has: an attribute that it does not have may be one that the server has
    /// never heard of.
    async fn what_makes_it_an_account(&self, person: &Person) -> Result<Vec<Change>> {
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

    /// Asks for a change of the account `name`. What was known of it counts no more, however that ends: where no answer
    /// came, the change may have been made.
    async fn change_of(&self, name: &str, request: &Request<'_>) -> Result<Reply> {
        let reply = self.change(request).await;
        self.cache.forget(name);
        reply
    }

    pub(super) async fn change(&self, request: &Request<'_>) -> Result<Reply> {
        Ok(self.servers.change(request, self.settings.timeout).await?)
    }
}

/// A whole entry: of the class that a name alone is enough for.
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

/// That a change was made; in words why not.
pub(super) fn done(reply: Reply, dn: &str) -> Result<()> {
    match reply.outcome.code {
        ResultCode::SUCCESS => Ok(()),
        ResultCode::INSUFFICIENT_ACCESS => bail!("`ldap admin dn` may not change {dn}: {}", reply.outcome),
        ResultCode::REFERRAL => {
            bail!("this LDAP server takes no changes, {}: name that one first in `passdb backend`", reply.outcome)
        }
        ResultCode::NO_SUCH_OBJECT => bail!("{dn}: there is nothing to put it below; is `ldap user suffix` right?"),
        _ => bail!("the LDAP directory refuses the change of {dn}: {}", reply.outcome),
    }
}
