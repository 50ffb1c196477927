//! `passdb backend = smbpasswd:FILE`: accounts in Samba's text file, smbpasswd(5), which Samba's programs and Frevo may
//! change at the same time.
//!
//! As in Samba, an account is the UNIX user of its name. Its RID is twice that user's uid plus `algorithmic rid base`.
//! Accounts of machines and trusted domains are ignored and stay in the file unchanged, as do comments and invalid
//! lines. The format cannot store full names or other UNIX users.

mod change;
mod file;
mod index;
pub(crate) mod line;
mod live;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail, ensure};
use localfs::advisory::Keeps;
use parking_lot::Mutex;
use proto::dtyp::Sid;
use server::accounts::Unavailable;
use server::answer::Answer;
use server::policy::fold;

use self::change::Change;
use self::file::Locked;
pub use self::index::Complaint;
use self::index::{Index, NameLookup};
use self::line::Fields;
use self::live::Live;
use super::backend::{Backend, Check, Entry, misnamed, weigh};
use super::embedded::OwnDomain;
use super::record::Record;
use super::unix::{self, Key, User, Users};
use crate::records::{ImportResult, Imported, Outcome};

/// The number of remembered warnings, so that each is logged once.
const WARNED: usize = 10_000;

/// The location of the file, from the configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SmbpasswdFile {
    /// The file.
    pub file: PathBuf,
    /// `algorithmic rid base`: even, 1000 or more.
    pub rid_base: u32,
}

impl SmbpasswdFile {
    /// Returns the problems of lines in the file, up to a limit, and their number. Nothing is changed, and a missing
    /// file has no problems. Blocks.
    pub fn complaints(&self) -> Result<(Vec<Complaint>, usize)> {
        let Some(locked) = Locked::open_as_it_is(&self.file, Keeps::WritersOut)? else { return Ok((Vec::new(), 0)) };
        let index = Index::new(locked.read()?);
        let (complaints, count) = index.complaints();
        Ok((complaints.to_vec(), count))
    }
}

/// The back end.
pub struct Smbpasswd {
    name: String,
    parts: Arc<Parts>,
}

struct Parts {
    live: Arc<Live>,
    users: Arc<Users>,
    domain: OwnDomain,
    rid_base: u32,
    warned: Mutex<HashSet<String>>,
}

/// An account as its line specifies it. The record has no RID yet.
struct LineAccount {
    record: Record,
    uid: Option<u32>,
}

impl LineAccount {
    fn of(fields: &Fields<'_>) -> Self {
        LineAccount { record: fields.record(0), uid: fields.uid }
    }
}

type Answered = Answer<Result<Option<Entry>, Unavailable>>;

impl Smbpasswd {
    /// Opens the accounts in the file of `place`, which is created if it is missing. SIDs are those of `domain`.
    /// Blocks.
    pub fn open(place: &SmbpasswdFile, domain: impl Into<OwnDomain>, users: Arc<Users>) -> Result<Self> {
        let live = Live::open(&place.file)?;
        let (rid_base, warned) = (place.rid_base, Mutex::default());
        let name = format!("smbpasswd:{}", place.file.display());
        Ok(Smbpasswd { name, parts: Arc::new(Parts { live, users, domain: domain.into(), rid_base, warned }) })
    }

    /// Queries the index, at once or after the file was read again.
    fn ask(
        &self,
        ask: impl FnOnce(&Parts, &Index) -> Result<Option<LineAccount>, Unavailable> + Send + 'static,
    ) -> Answered {
        let parts = self.parts.clone();
        match parts.live.at_once() {
            Err(why) => return Answer::now(Err(why)),
            Ok(Some(known)) => {
                let listed = ask(&parts, &known.index);
                drop(known);
                return parts.clone().entry(listed);
            }
            Ok(None) => {}
        }
        Answer::later(async move {
            parts.live.waited().await?;
            let listed = ask(&parts, &parts.live.known().index);
            parts.entry(listed).await
        })
    }

    /// Like [`Smbpasswd::ask`], on a thread that may block.
    fn ask_blocking<T>(&self, ask: impl FnOnce(&Index) -> Result<T, Unavailable>) -> Result<T> {
        let ask = || {
            self.parts.live.blocking(Instant::now())?;
            ask(&self.parts.live.known().index)
        };
        ask().map_err(|Unavailable(why)| anyhow!(why))
    }

    /// Returns the uid for the line of a new account.
    fn new_uid(&self, record: &Record) -> Result<u32> {
        ensure!(
            record.uid.is_none(),
            "in {} an account is always the UNIX user of its name: use no other uid",
            self.name
        );
        let user = match self.parts.users.only() {
            None => self.parts.users.glance_blocking(&Key::Name(record.name.clone())),
            // All accounts act as one user here, but the file may also be used by servers that run as root.
            Some(_) => match unix::user_by_name(&record.name)? {
                Some(user) => Ok(Ok(Arc::new(user))),
                None => Ok(Err(format!("this host has no UNIX user {:?}", record.name).into())),
            },
        };
        let user = user.map_err(|Unavailable(why)| anyhow!(why))?.map_err(|why| anyhow!("{why}"))?;
        self.parts.rid(user.identity.uid)?;
        Ok(user.identity.uid)
    }

    fn import_one(
        &self,
        change: &mut Change<'_>,
        account: Imported,
        dry_run: bool,
        check: Check<'_>,
    ) -> Result<Outcome> {
        let skipped = |why: String| Ok(Outcome { result: ImportResult::Skipped, note: Some(why) });
        if let Some(skipped) = misnamed(&account) {
            return Ok(skipped);
        }
        let before = change.look(|index| self.parts.listed(&account.name, index));
        let before = match before {
            Ok(before) => before.map(|listed| listed.record),
            Err(Unavailable(why)) => return skipped(why),
        };
        let (record, outcome) = weigh(account, before.as_ref(), check)?;
        let uid = match (outcome.result, self.new_uid(&record)) {
            (ImportResult::Added, Err(why)) => return skipped(format!("{why:#}")),
            (ImportResult::Added, Ok(uid)) => uid,
            _ => 0,
        };
        match outcome.result {
            ImportResult::Added if !dry_run => change.add(&record, uid)?,
            ImportResult::Updated if !dry_run => _ = change.edit(&record.name, &record)?,
            _ => {}
        }
        Ok(outcome)
    }
}

impl Parts {
    /// Returns the account called `name`, as its line specifies it.
    fn listed(&self, name: &str, index: &Index) -> Result<Option<LineAccount>, Unavailable> {
        match index.find(&fold(name)) {
            Some(NameLookup::Account(fields)) => Ok(Some(LineAccount::of(&fields))),
            Some(NameLookup::Damaged(line, error)) => {
                Err(Unavailable(format!("{}, line {line}: {error:#}", self.live.place())))
            }
            Some(NameLookup::Machine(_)) | None => Ok(None),
        }
    }

    /// Returns the RID of the user `uid`.
    fn rid(&self, uid: u32) -> Result<u32> {
        let rid = uid.checked_mul(2).and_then(|twice| twice.checked_add(self.rid_base));
        rid.with_context(|| format!("uid {uid} is too large for a RID"))
    }

    /// Returns the uid from which the SID is computed, if it is such a SID.
    fn uid_in(&self, sid: &Sid) -> Option<u32> {
        let rid = sid.rid().filter(|rid| *sid == self.domain.get().with_rid(*rid));
        let twice = rid.and_then(|rid| rid.checked_sub(self.rid_base)).filter(|twice| twice % 2 == 0);
        twice.map(|twice| twice / 2)
    }

    fn entry(self: Arc<Self>, listed: Result<Option<LineAccount>, Unavailable>) -> Answered {
        let listed = match listed {
            Ok(Some(listed)) => listed,
            Ok(None) => return Answer::now(Ok(None)),
            Err(why) => return Answer::now(Err(why)),
        };
        self.users.find(Key::Name(listed.record.name.clone())).map(move |found| Ok(self.complete(listed, found?.ok())))
    }

    fn entry_blocking(&self, listed: LineAccount) -> Result<Option<Entry>> {
        let found = self.users.glance_blocking(&Key::Name(listed.record.name.clone()));
        Ok(self.complete(listed, found.map_err(|Unavailable(why)| anyhow!(why))?.ok()))
    }

    /// Returns the entry of an account whose UNIX user is `user`. If the line has a different uid, the UNIX user
    /// applies, with the RID of its uid, as in Samba. Otherwise the account would have the SID of a different user.
    fn complete(&self, listed: LineAccount, user: Option<Arc<User>>) -> Option<Entry> {
        let LineAccount { record, uid } = listed;
        let real = user.as_ref().filter(|_| self.users.only().is_none()).map(|user| user.identity.uid);
        if let Some(real) = real.filter(|real| Some(*real) != uid) {
            let there = uid.map_or_else(|| "-1".to_owned(), |uid| uid.to_string());
            self.warn(&format!(
                "{}: {} has uid {there} in the file, but the UNIX user has {real}, which applies; correct the file",
                self.live.place(),
                record.name
            ));
        }
        let rid = match real.or(uid).map(|uid| self.rid(uid)) {
            Some(Ok(rid)) => rid,
            Some(Err(why)) => {
                self.warn(&format!("{}: {} cannot log on: {why:#}", self.live.place(), record.name));
                return None;
            }
            None => {
                self.warn(&format!("{}: {} cannot log on: it has no UNIX user", self.live.place(), record.name));
                return None;
            }
        };
        Some(Entry {
            record: Arc::new(Record { rid, ..record }),
            sid: self.domain.get().with_rid(rid),
            user,
            refused: None,
            ends: None,
        })
    }

    fn warn(&self, what: &str) {
        let mut warned = self.warned.lock();
        if warned.len() >= WARNED {
            warned.clear();
        }
        if warned.insert(what.to_owned()) {
            tracing::warn!("{what}");
        }
    }
}

impl Backend for Smbpasswd {
    fn name(&self) -> &str {
        &self.name
    }

    /// They are those of the UNIX users.
    fn has_full_names(&self) -> bool {
        false
    }

    fn find(&self, name: &str) -> Answered {
        let name = name.to_owned();
        self.ask(move |parts, index| parts.listed(&name, index))
    }

    fn by_sid(&self, sid: &Sid) -> Answered {
        let Some(uid) = self.parts.uid_in(sid) else { return Answer::now(Ok(None)) };
        let sid = *sid;
        let found = self.ask(move |_, index| Ok(index.by_uid(uid).map(|fields| LineAccount::of(&fields))));
        // An account whose line has a different user's uid has a different SID.
        found.map(move |found| Ok(found?.filter(|entry| entry.sid == sid)))
    }

    fn get(&self, name: &str) -> Result<Option<Entry>> {
        let listed = self.ask_blocking(|index| self.parts.listed(name, index))?;
        listed.map(|listed| self.parts.entry_blocking(listed)).transpose().map(Option::flatten)
    }

    fn owner_of(&self, sid: &Sid) -> Result<Option<String>> {
        let Some(uid) = self.parts.uid_in(sid) else { return Ok(None) };
        let listed = self.ask_blocking(|index| Ok(index.by_uid(uid).map(|fields| LineAccount::of(&fields))))?;
        let entry = listed.map(|listed| self.parts.entry_blocking(listed)).transpose()?.flatten();
        Ok(entry.filter(|entry| entry.sid == *sid).map(|entry| entry.record.name.clone()))
    }

    fn follows_machine(&self) -> bool {
        true
    }

    fn page(&self, after: Option<&str>, count: usize) -> Result<Vec<Entry>> {
        let (mut page, mut after) = (Vec::new(), after.map(fold));
        // A page shorter than `count` must be the last, even if many lines have no UNIX user on this host.
        while page.len() < count {
            let most = count - page.len();
            let accounts: Vec<LineAccount> = self
                .ask_blocking(|index| Ok(index.page(after.as_deref(), most).iter().map(LineAccount::of).collect()))?;
            let Some(last) = accounts.last() else { break };
            after = Some(fold(&last.record.name));
            for listed in accounts {
                page.extend(self.parts.entry_blocking(listed)?);
            }
        }
        Ok(page)
    }

    fn add(&self, record: Record) -> Result<Entry> {
        ensure!(record.full_name.is_empty(), "{} cannot store a full name: set it for the UNIX user (chfn)", self.name);
        let uid = self.new_uid(&record)?;
        self.parts.live.change(|change| {
            match change.look(|index| index.find(&fold(&record.name)).map(|found| self.parts.obstacle(&record, &found)))
            {
                None => change.add(&record, uid),
                Some(why) => bail!(why),
            }
        })?;
        self.get(&record.name)?.with_context(|| format!("{} was deleted concurrently by another program", record.name))
    }

    fn edit(&self, name: &str, edit: &mut dyn FnMut(&mut Record)) -> Result<Option<Entry>> {
        let there = self.parts.live.change(|change| {
            let listed = change.look(|index| self.parts.listed(name, index));
            let Some(LineAccount { mut record, .. }) = listed.map_err(|Unavailable(why)| anyhow!(why))? else {
                return Ok(false);
            };
            let called = record.name.clone();
            edit(&mut record);
            change.edit(name, &Record { name: called, ..record })
        })?;
        if there { self.get(name) } else { Ok(None) }
    }

    fn remove(&self, name: &str) -> Result<bool> {
        self.parts.live.change(|change| {
            let listed = change.look(|index| self.parts.listed(name, index));
            match listed.map_err(|Unavailable(why)| anyhow!(why))? {
                Some(_) => change.remove(name),
                None => Ok(false),
            }
        })
    }

    /// Imports all accounts under one lock, and syncs them to disk together.
    fn import(&self, accounts: Vec<Imported>, dry_run: bool, check: Check<'_>) -> Result<Vec<Outcome>> {
        // Names are looked up before the lock is taken; the answers stay cached for longer than it is held.
        for account in &accounts {
            let _ = self.parts.users.glance_blocking(&Key::Name(account.name.clone()));
        }
        self.parts.live.change(|change| {
            accounts.into_iter().map(|account| self.import_one(change, account, dry_run, check)).collect()
        })
    }
}

impl Parts {
    /// Returns why there cannot be a new account whose name leads to `found`.
    fn obstacle(&self, record: &Record, found: &NameLookup<'_>) -> String {
        match found {
            NameLookup::Account(there) => format!("account {} exists already", there.name),
            NameLookup::Machine(kind) => format!("{} is {kind} in the file", record.name),
            NameLookup::Damaged(line, error) => format!("line {line} of that account is invalid: {error:#}"),
        }
    }
}

#[cfg(test)]
mod tests;
