//! `passdb backend = ldapsam:URI...`: accounts in an LDAP directory, in Samba's schema (`sambaSamAccount`).
//! The crate `ldap` is the client.
//!
//! A logon needs one search by name, which returns the password hash, flags, SID and ids. If the directory also
//! supplies the UNIX user, one more search returns its groups. Results are cached for a short time ([`cache`]). A logon
//! that fails against a cached hash is checked again with the directory's present data, so a new password works at
//! once. While no server answers, cached accounts remain valid for longer, and other logons fail because the accounts
//! are unavailable. The task of a logon writes its query and reads the answer itself, without blocking its thread
//! meanwhile ([`worker`]).

mod batch;
mod cache;
mod change;
mod domain;
mod entry;
mod group_changes;
mod groups;
mod listing;
mod mapping;
mod notes;
mod people;
pub mod secret;
mod worker;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use ldap::{Deref, Uri};
use proto::dtyp::Sid;
use server::accounts::{LogonOutcome, Unavailable};
use server::answer::Answer;

use self::listing::{Listing, Whole};
use self::notes::Notes;
use self::people::People;
use self::worker::Worker;
use super::backend::{Backend, Entry};
use super::embedded::OwnDomain;
use super::groups::{Group, GroupKey, GroupStore, Wanted};
use super::record::Record;
use super::unix::Users;

/// How often a change is tried if other programs change the same account.
const EDITS: usize = 5;

/// The settings of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The element of `passdb backend`.
    pub name: String,
    /// Its servers, in the order in which they are tried.
    pub servers: Vec<Uri>,
    /// `ldap suffix`: the base of all searches.
    pub suffix: String,
    /// `ldap user suffix`, as a full DN: the parent of new accounts.
    pub user_suffix: String,
    /// `ldap group suffix`, as a full DN: the base of group searches.
    pub group_suffix: String,
    /// `ldap admin dn`; if empty, the bind is anonymous, or on `ldapi` as the user of the process.
    pub admin_dn: String,
    /// `ldap ssl`: whether plain connections are upgraded with StartTLS.
    pub start_tls: bool,
    /// `tls cafile`, if it is set.
    pub authority: Option<PathBuf>,
    /// `ldap timeout`: the time limit of a query, for all servers together.
    pub timeout: Duration,
    /// `ldap connection timeout`: the time limit of a connection attempt.
    pub connection_timeout: Duration,
    /// `ldap page size`: entries per page of a search.
    pub page_size: u16,
    /// `ldap deref`.
    pub deref: Deref,
    /// `ldap delete dn`: whether the whole entry is deleted with its account.
    pub delete_dn: bool,
    /// `ldapsam:trusted`: the directory supplies the UNIX users of accounts, and NSS is not queried.
    pub trusted: bool,
    /// The name of the `sambaDomain` that allocates RIDs: on a standalone server its NetBIOS name.
    pub domain: String,
}

/// A directory as a back end.
pub struct Ldap {
    people: Arc<People>,
    notes: Notes,
    listing: Listing,
    // Dropped last: this ends the tasks of the other fields.
    worker: Worker,
}

impl Ldap {
    /// Opens the directory of `settings`. It is first queried at the first logon, so a server starts even if the
    /// directory is unavailable. `own` becomes the SID of a new domain in the directory.
    pub fn open(settings: &Settings, state: PathBuf, own: impl Into<OwnDomain>, users: Arc<Users>) -> Result<Ldap> {
        let worker = Worker::start()?;
        let people = Arc::new(People::new(settings.clone(), state, own.into(), users)?);
        let notes = Notes::start(&worker, people.clone());
        Ok(Ldap { people, notes, listing: Listing::default(), worker })
    }
}

/// Returns whether `sid` may be the SID of an account: S-1-5-21-x-y-z-rid.
fn is_accounts(sid: &Sid) -> bool {
    sid.authority() == 5 && sid.sub_authorities().len() == 5 && sid.sub_authorities()[0] == 21
}

impl Backend for Ldap {
    fn name(&self) -> &str {
        &self.people.settings.name
    }

    fn find(&self, name: &str) -> Answer<Result<Option<Entry>, Unavailable>> {
        if let Some(kept) = self.people.cache.fresh(name) {
            return Answer::now(Ok(kept));
        }
        let (people, name) = (self.people.clone(), name.to_owned());
        self.worker.answer(async move { people.find(&name).await })
    }

    fn find_anew(&self, name: &str) -> Answer<Result<Option<Entry>, Unavailable>> {
        if !self.people.cache.was_kept(name) {
            // The directory has already answered since this query began, perhaps to a concurrent logon.
            return Answer::now(Ok(self.people.cache.fresh(name).flatten()));
        }
        let (people, name) = (self.people.clone(), name.to_owned());
        self.worker.answer(async move { people.find_anew(&name).await })
    }

    fn by_sid(&self, sid: &Sid) -> Answer<Result<Option<Entry>, Unavailable>> {
        if !is_accounts(sid) {
            return Answer::now(Ok(None));
        }
        if let Some(kept) = self.people.cache.fresh_sid(sid) {
            match kept {
                None => return Answer::now(Ok(None)),
                // The account of that name may be a different one by now.
                Some(name) => {
                    let sid = *sid;
                    return self.find(&name).map(move |found| found.map(|it| it.filter(|entry| entry.sid == sid)));
                }
            }
        }
        let (people, sid) = (self.people.clone(), *sid);
        self.worker.answer(async move { people.by_sid(&sid).await })
    }

    fn name_by_sid(&self, sid: &Sid) -> Answer<Result<Option<String>, Unavailable>> {
        match self.people.cache.fresh_sid(sid) {
            Some(name) => Answer::now(Ok(name)),
            None => self.by_sid(sid).map(|found| found.map(|found| found.map(|entry| entry.record.name.clone()))),
        }
    }

    fn expect_sids(&self, sids: Vec<Sid>) -> Answer<()> {
        let people = self.people.clone();
        self.worker.answer(async move { people.expect_sids(sids).await })
    }

    fn sids_of_users(&self, users: Vec<(u32, String)>) -> Answer<Result<HashMap<u32, Option<Sid>>, Unavailable>> {
        let people = self.people.clone();
        self.worker.answer(async move { people.sids_of_users(&users).await.map_err(people::unavailable) })
    }

    fn by_uid(&self, uid: u32) -> Answer<Result<Option<Entry>, Unavailable>> {
        match self.people.cache.fresh_uid(uid) {
            Some(None) => Answer::now(Ok(None)),
            // The same applies here.
            Some(Some(name)) => {
                let is_it = move |entry: &Entry| entry.user.as_ref().is_some_and(|user| user.identity.uid == uid);
                self.find(&name).map(move |found| found.map(|it| it.filter(is_it)))
            }
            None => {
                let people = self.people.clone();
                self.worker.answer(async move { people.by_uid(uid).await })
            }
        }
    }

    fn group(&self, key: &GroupKey) -> Answer<Result<Option<Arc<Group>>, Unavailable>> {
        if let Some(kept) = self.people.mappings.fresh(key) {
            return Answer::now(Ok(kept));
        }
        let (people, key) = (self.people.clone(), key.clone());
        self.worker.answer(async move { people.group(key).await })
    }

    fn logged_on(&self, name: &str, outcome: LogonOutcome) {
        // Outcomes for accounts of other back ends are ignored.
        if self.people.cache.knows(name) {
            self.notes.take(name, outcome);
        }
    }

    fn groups(&self) -> Option<&dyn GroupStore> {
        Some(self)
    }

    fn get(&self, name: &str) -> Result<Option<Entry>> {
        let (people, name) = (self.people.clone(), name.to_owned());
        self.worker.wait(async move { people.get(&name).await })
    }

    fn owner_of(&self, sid: &Sid) -> Result<Option<String>> {
        if !is_accounts(sid) {
            return Ok(None);
        }
        let (people, sid) = (self.people.clone(), *sid);
        self.worker.wait(async move { people.owner_of(&sid).await })
    }

    fn has_user(&self, name: &str) -> Result<bool> {
        let (people, name) = (self.people.clone(), name.to_owned());
        self.worker.wait(async move { people.has_user(&name).await })
    }

    fn page(&self, after: Option<&str>, count: usize) -> Result<Vec<Entry>> {
        self.listing.page(&self.worker, &self.people, after, count, Whole::Records)
    }

    fn page_with_users(&self, after: Option<&str>, count: usize) -> Result<Vec<Entry>> {
        self.listing.page(&self.worker, &self.people, after, count, Whole::Users)
    }

    fn count(&self, domain: &Sid) -> Result<Option<usize>> {
        let (people, domain) = (self.people.clone(), *domain);
        self.worker.wait(async move { people.count(domain).await.map(Some) })
    }

    fn add(&self, record: Record) -> Result<Entry> {
        let people = self.people.clone();
        self.worker.wait(async move { people.add(record).await })
    }

    fn edit(&self, name: &str, edit: &mut dyn FnMut(&mut Record)) -> Result<Option<Entry>> {
        for _ in 0..EDITS {
            let (people, asked) = (self.people.clone(), name.to_owned());
            let Some(person) = self.worker.wait(async move { people.person(&asked).await })? else { return Ok(None) };
            let mut record = Record::clone(&person.record);
            edit(&mut record);
            let people = self.people.clone();
            if let Some(entry) = self.worker.wait(async move { people.write(&person, &record).await })? {
                return Ok(Some(entry));
            }
        }
        bail!("account {name} is changed concurrently: {EDITS} attempts have failed; try again later")
    }

    fn remove(&self, name: &str) -> Result<bool> {
        let (people, name) = (self.people.clone(), name.to_owned());
        self.worker.wait(async move { people.remove(&name).await })
    }
}

impl GroupStore for Ldap {
    fn all(&self) -> Result<Vec<Group>> {
        let people = self.people.clone();
        self.worker.wait(async move { people.mapped_groups().await })
    }

    fn named(&self, name: &str) -> Result<Option<Group>> {
        let (people, name) = (self.people.clone(), name.to_owned());
        self.worker.wait(async move { people.mapped_group(&name).await })
    }

    fn add(&self, wanted: Wanted) -> Result<Group> {
        let people = self.people.clone();
        self.worker.wait(async move { people.add_group(wanted).await })
    }

    fn edit(&self, name: &str, new_name: Option<String>, comment: Option<String>) -> Result<Option<Group>> {
        let (people, name) = (self.people.clone(), name.to_owned());
        self.worker.wait(async move { people.edit_group(&name, new_name, comment).await })
    }

    fn members(&self, name: &str, add: Vec<String>, remove: Vec<String>) -> Result<Option<Vec<String>>> {
        let (people, name) = (self.people.clone(), name.to_owned());
        self.worker.wait(async move { people.group_members(&name, &add, &remove).await })
    }

    fn remove(&self, name: &str) -> Result<bool> {
        let (people, name) = (self.people.clone(), name.to_owned());
        self.worker.wait(async move { people.remove_group(&name).await })
    }
}

#[cfg(test)]
mod tests;
