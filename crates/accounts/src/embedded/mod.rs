//! The server's own account database: one redb file, `accounts.redb`, in the state directory.
//!
//! redb allows one process to open the file. A change is one transaction and is on disk before it is confirmed. Reads
//! use a copy in memory that is updated with each change, so a logon never waits for a disk. A process that cannot open
//! the file because a server runs uses that server's control socket (`admin`).

mod backup;
mod change;
mod domain;
mod groups;
mod lsa;
mod migration;
mod policies;
mod share_acls;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
pub use change::Change;
use change::import_one;
pub use domain::{Other, OwnDomain};
pub use migration::{GroupWanted, Plan};
use parking_lot::{Mutex, RwLock};
use proto::dtyp::Sid;
use redb::{Database, ReadOnlyTable, ReadableDatabase, ReadableTable, TableDefinition};
use server::accounts::{AccountPolicy, DomainSid, Unavailable};
use server::answer::Answer;
use server::policy::fold;
use share_acls::ShareAcls;

use super::backend::{Backend, Check, Entry};
use super::former::FormerSids;
use super::groups::GroupKey;
use super::record::Record;
use crate::records::{Imported, Outcome};
use crate::state_dir::StateDir;

/// The file's name in the state directory.
const FILE: &str = "accounts.redb";

/// Folded name -> [`Record`].
const ACCOUNTS: TableDefinition<&str, &[u8]> = TableDefinition::new("accounts");

/// SID that an account had on another server, as text -> folded name of the account.
const FORMER_SIDS: TableDefinition<&str, &str> = TableDefinition::new("former sids");

/// `format`: version of the layout, u32. `sid`: the numbers of the domain's SID, three u32. `former domains`: the same
/// for each former SID, if there are any. `next rid`: u32. All little-endian.
const META: TableDefinition<&str, &[u8]> = TableDefinition::new("meta");

/// The layout that this program supports.
const FORMAT: u32 = 1;

/// The first RID for an account: lower RIDs are reserved by Windows ([MS-DTYP] 2.4.2.4).
const FIRST_RID: u32 = 1000;

/// The database is small and read once; by default redb would cache up to 1 GiB of it.
const CACHE_BYTES: usize = 1 << 20;

/// An open database.
pub struct Store {
    database: Database,
    domain: OwnDomain,
    former_domains: RwLock<Vec<DomainSid>>,
    accounts: RwLock<BTreeMap<String, Arc<Record>>>,
    sids: RwLock<Sids>,
    groups: RwLock<groups::Groups>,
    next_rid: Mutex<u32>,
    odd_rids: AtomicBool,
    policy: RwLock<AccountPolicy>,
    share_acls: RwLock<ShareAcls>,
    rights: lsa::Rights,
}

/// Opens the database in `file`, which must exist.
fn open_database(file: std::fs::File) -> Result<Database, OpenError> {
    // redb would create an empty database in it.
    if file.metadata()?.len() == 0 {
        return Err(OpenError::Damaged(anyhow::anyhow!("the file is empty")));
    }
    let opened = redb::Builder::new().set_cache_size(CACHE_BYTES).create_file(file);
    opened.map_err(|error| backup::judge(error.into()))
}

/// Returns the number at `index` of the value of `key`.
fn number(meta: &ReadOnlyTable<&str, &[u8]>, key: &str, index: usize) -> Result<u32> {
    let value = meta.get(key)?.with_context(|| format!("damaged: {key} is missing"))?;
    let bytes = value.value().get(index * 4..index * 4 + 4).with_context(|| format!("damaged: {key} is invalid"))?;
    Ok(u32::from_le_bytes(bytes.try_into()?))
}

/// The owners of SIDs: accounts by their folded names.
#[derive(Default)]
struct Sids {
    by_rid: HashMap<u32, String>,
    /// Only accounts that store their UNIX user.
    by_uid: HashMap<u32, BTreeSet<String>>,
    former: FormerSids,
}

impl Sids {
    /// Records an account, or that no account of that name exists any more.
    fn note(&mut self, key: &str, before: Option<&Record>, now: Option<&Record>) {
        if let Some(before) = before {
            // If another account has that number now, it keeps it.
            if self.by_rid.get(&before.rid).is_some_and(|owner| owner == key) {
                self.by_rid.remove(&before.rid);
            }
            if let Some(names) = before.uid.and_then(|uid| self.by_uid.get_mut(&uid)) {
                names.remove(key);
            }
        }
        match now {
            Some(now) => {
                self.by_rid.insert(now.rid, key.to_owned());
                if let Some(uid) = now.uid {
                    self.by_uid.entry(uid).or_default().insert(key.to_owned());
                }
            }
            None => self.former.forget(key),
        }
    }
}

/// Why the database could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// Another process has it open: a server, or a short change.
    Busy,
    /// The file is not a database, or an incomplete one.
    Damaged(anyhow::Error),
    /// Anything else.
    Failed(anyhow::Error),
}

impl OpenError {
    fn context(self, what: String) -> OpenError {
        match self {
            OpenError::Busy => OpenError::Busy,
            OpenError::Damaged(error) => OpenError::Damaged(error.context(what)),
            OpenError::Failed(error) => OpenError::Failed(error.context(what)),
        }
    }

    /// Converts it to an error for a user.
    pub fn into_error(self) -> anyhow::Error {
        match self {
            OpenError::Busy => anyhow::anyhow!("it is in use by another process"),
            OpenError::Damaged(error) | OpenError::Failed(error) => error,
        }
    }
}

impl<E: Into<anyhow::Error>> From<E> for OpenError {
    fn from(error: E) -> Self {
        OpenError::Failed(error.into())
    }
}

impl Store {
    /// Opens the database in `state`, and creates it if it does not exist.
    pub fn open(state: &StateDir) -> Result<Self, OpenError> {
        Self::open_or_create(state, Self::open_existing)
    }

    fn open_or_create(
        state: &StateDir,
        open_existing: impl Fn(&StateDir) -> Result<Option<Self>, OpenError>,
    ) -> Result<Self, OpenError> {
        loop {
            if let Some(store) = open_existing(state)? {
                return Ok(store);
            }
            if let Some(store) = Self::create(state)? {
                return Ok(store);
            }
        }
    }

    /// Opens the database in `state`; `None` if it does not exist.
    pub fn open_existing(state: &StateDir) -> Result<Option<Self>, OpenError> {
        let Some(file) = state.open_file(FILE)? else { return Ok(None) };
        let opened = backup::guarded(|| Self::load(open_database(file)?));
        opened.map(Some).map_err(|error| {
            let damaged = matches!(error, OpenError::Damaged(_));
            let error = error.context(Self::place(state));
            match damaged {
                true => error.context(
                    "the account database is damaged; start `frevo serve` to restore it from its copy".to_owned(),
                ),
                false => error,
            }
        })
    }

    /// Like [`Store::open`], for a server: waits up to `patience` for another process to finish its change, restores a
    /// damaged database from its copy, and copies an intact one.
    pub fn open_patiently(state: &StateDir, patience: Duration) -> Result<Self> {
        let end = Instant::now() + patience;
        loop {
            match Self::open_or_create(state, backup::open_existing) {
                Ok(store) => {
                    if let Err(error) = store.keep_copy(state) {
                        tracing::warn!("{}: cannot create a backup copy: {error:#}", Self::place(state));
                    }
                    return Ok(store);
                }
                Err(OpenError::Damaged(error) | OpenError::Failed(error)) => return Err(error),
                Err(OpenError::Busy) if Instant::now() >= end => bail!(
                    "{} is in use by another process: check whether a server already runs with this state directory",
                    Self::place(state)
                ),
                Err(OpenError::Busy) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn place(state: &StateDir) -> String {
        format!("account database {}", state.path().join(FILE).display())
    }

    /// Creates the database under a temporary name and links it into place when complete, so that no process ever finds
    /// an incomplete one. Returns `None` if another process was faster.
    fn create(state: &StateDir) -> Result<Option<Self>, OpenError> {
        if state.open_file(backup::COPY)?.is_some() {
            // The database is created before its copy, so a database that another process just created exists by now.
            if state.open_file(FILE)?.is_some() {
                return Ok(None);
            }
            let (directory, copy) = (state.path().display(), backup::COPY);
            return Err(OpenError::Failed(anyhow::anyhow!(
                "{} is missing but its copy {copy} exists: mv {directory}/{copy} {directory}/{FILE} to restore the \
                 accounts of that copy, or rm {directory}/{copy} to start with an empty database",
                Self::place(state)
            )));
        }
        let mut random = [0; 20];
        aws_lc_rs::rand::fill(&mut random).map_err(|_| anyhow::anyhow!("the random number generator failed"))?;
        let (sid, unique) = random.split_at(12);
        let temporary = unique.iter().fold(format!("{FILE}."), |name, byte| format!("{name}{byte:02x}"));
        let file = state.create_file(&temporary)?;
        let made = Self::initialise(file, sid).and_then(|store| Ok((store, state.link(&temporary, FILE)?)));
        state.remove(&temporary)?;
        let (store, first) = made.map_err(|error| error.context(Self::place(state)))?;
        Ok(first.then_some(store))
    }

    fn initialise(file: std::fs::File, sid: &[u8]) -> Result<Self, OpenError> {
        let database = redb::Builder::new().set_cache_size(CACHE_BYTES).create_file(file)?;
        let transaction = database.begin_write()?;
        {
            let mut meta = transaction.open_table(META)?;
            meta.insert("format", FORMAT.to_le_bytes().as_slice())?;
            meta.insert("sid", sid)?;
            meta.insert("next rid", FIRST_RID.to_le_bytes().as_slice())?;
            transaction.open_table(ACCOUNTS)?;
        }
        transaction.commit()?;
        Self::load(database)
    }

    /// Creates a database that is lost with the value.
    pub fn in_memory() -> Result<Self, OpenError> {
        let file =
            rustix::fs::memfd_create("accounts", rustix::fs::MemfdFlags::CLOEXEC).map_err(std::io::Error::from)?;
        let mut sid = [0; 12];
        aws_lc_rs::rand::fill(&mut sid).map_err(|_| anyhow::anyhow!("the random number generator failed"))?;
        Self::initialise(file.into(), &sid)
    }

    fn load(database: Database) -> Result<Self, OpenError> {
        let format = Self::format(&database).map_err(backup::judge)?;
        if format != FORMAT {
            return Err(OpenError::Failed(anyhow::anyhow!(
                "it has layout {format}, but this program supports only {FORMAT}: use a newer version of Frevo"
            )));
        }
        Self::read(database).map_err(backup::judge)
    }

    fn format(database: &Database) -> Result<u32> {
        let transaction = database.begin_read()?;
        let meta = transaction.open_table(META).context("it is not an account database")?;
        number(&meta, "format", 0)
    }

    fn read(database: Database) -> Result<Self> {
        let transaction = database.begin_read()?;
        let meta = transaction.open_table(META)?;
        let number = |key, index| number(&meta, key, index);
        let domain = DomainSid([number("sid", 0)?, number("sid", 1)?, number("sid", 2)?]);
        let next_rid = number("next rid", 0)?;
        let former_domains = RwLock::new(domain::read_former(&meta)?);
        let mut accounts = BTreeMap::new();
        for entry in transaction.open_table(ACCOUNTS)?.iter()? {
            let (key, value) = entry?;
            let record = Record::decode(value.value()).with_context(|| format!("account {:?}", key.value()))?;
            accounts.insert(key.value().to_owned(), Arc::new(record));
        }
        let mut sids = Sids::default();
        accounts.iter().for_each(|(key, record): (&String, &Arc<Record>)| sids.note(key, None, Some(record)));
        match transaction.open_table(FORMER_SIDS) {
            Ok(table) => {
                for entry in table.iter()? {
                    let (sid, key) = entry?;
                    let known: Sid = sid.value().parse().with_context(|| format!("damaged SID {:?}", sid.value()))?;
                    sids.former.insert(known, key.value().to_owned());
                }
            }
            // The database is older than this table.
            Err(redb::TableError::TableDoesNotExist(_)) => {}
            Err(error) => return Err(error.into()),
        }
        let groups = RwLock::new(groups::Groups::load(&transaction)?);
        let policy = RwLock::new(policies::load(&transaction)?);
        let share_acls = RwLock::new(share_acls::load(&transaction)?);
        let rights = lsa::load(&transaction)?;
        drop(meta);
        drop(transaction);
        let (accounts, sids) = (RwLock::new(accounts), RwLock::new(sids));
        Ok(Store {
            database,
            domain: domain.into(),
            former_domains,
            accounts,
            sids,
            groups,
            next_rid: Mutex::new(next_rid),
            odd_rids: AtomicBool::default(),
            policy,
            share_acls,
            rights,
        })
    }

    /// Returns the SID to which the accounts' RIDs are appended.
    pub fn domain(&self) -> DomainSid {
        self.domain.get()
    }

    /// Returns the account called `name`, compared without regard to case.
    pub fn get(&self, name: &str) -> Option<Arc<Record>> {
        self.accounts.read().get(&fold(name)).cloned()
    }

    /// Returns the account that has this SID.
    pub fn by_sid(&self, sid: &Sid) -> Option<Arc<Record>> {
        let rid = sid.rid().filter(|&rid| *sid == self.domain().with_rid(rid))?;
        let key = self.sids.read().by_rid.get(&rid)?.clone();
        self.accounts.read().get(&key).cloned()
    }

    /// Returns the folded name of the account, in any back end, that had this SID on another server.
    pub fn former_owner(&self, sid: &Sid) -> Option<String> {
        self.sids.read().former.owner(sid).map(str::to_owned)
    }

    /// Removes the SIDs that an account had on other servers.
    pub fn forget_sids(&self, name: &str) -> Result<()> {
        if self.former_sids(name).is_empty() {
            return Ok(());
        }
        let forget = |change: &mut Change<'_>| {
            change.forgotten.insert(fold(name));
            Ok(())
        };
        self.change(false, forget)
    }

    /// Returns the SIDs that an account had on other servers, in order.
    pub fn former_sids(&self, name: &str) -> Arc<[Sid]> {
        self.sids.read().former.of(&fold(name))
    }

    /// Returns up to `count` accounts whose folded names are greater than `after`, in the order of those names.
    pub fn page(&self, after: Option<&str>, count: usize) -> Vec<Arc<Record>> {
        let after = after.map(fold);
        let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        self.accounts.read().range::<str, _>((from, Bound::Unbounded)).take(count).map(|(_, r)| r.clone()).collect()
    }

    /// From now on allocates only odd RIDs, because even ones belong to users in an smbpasswd file.
    pub fn keep_to_odd_rids(&self) {
        self.odd_rids.store(true, Ordering::Relaxed);
    }

    /// Returns the first RID from `rid` on that may be allocated.
    fn free_rid(&self, rid: u32) -> u32 {
        if self.odd_rids.load(Ordering::Relaxed) { rid | 1 } else { rid }
    }

    /// Returns the first RID from `rid` on that may be allocated and does not produce a SID that an account had on
    /// another server or that a group has. The new account would receive their rights.
    fn next_free(&self, domain: DomainSid, mut rid: u32) -> Result<u32> {
        loop {
            rid = self.free_rid(rid);
            let sid = domain.with_rid(rid);
            if self.former_owner(&sid).is_none() && self.group(&GroupKey::Sid(sid)).is_none() {
                return Ok(rid);
            }
            rid = rid.checked_add(1).context("all RIDs are in use")?;
        }
    }

    /// Runs `change` on the accounts. If it succeeds, all its changes become durable and visible in one step. With
    /// `dry_run` they are discarded instead.
    pub fn change<T>(&self, dry_run: bool, change: impl FnOnce(&mut Change<'_>) -> Result<T>) -> Result<T> {
        // Held to the end, because it serializes changes.
        let mut next_rid = self.next_rid.lock();
        let mut edit = Change::of(self, *next_rid);
        let answer = change(&mut edit)?;
        if dry_run || edit.is_empty() {
            return Ok(answer);
        }
        edit.commit().context("cannot write the account database")?;
        let Change { changed, sids: former, forgotten, next_rid: rid, domain, former_domains, more, .. } = edit;
        self.show_more(more);
        *next_rid = rid;
        let (mut accounts, mut sids) = (self.accounts.write(), self.sids.write());
        if let Some(domain) = domain {
            self.domain.set(domain);
        }
        if let Some(former) = former_domains {
            *self.former_domains.write() = former;
        }
        for (key, record) in changed {
            sids.note(&key, accounts.get(&key).map(|before| &**before), record.as_deref());
            match record {
                Some(record) => accounts.insert(key, record),
                None => accounts.remove(&key),
            };
        }
        forgotten.iter().for_each(|owner| sids.former.forget(owner));
        former.into_iter().for_each(|(sid, owner)| sids.former.insert(sid, owner));
        Ok(answer)
    }

    /// Makes one change of the account `name`; `None` if it does not exist.
    fn change_one<T>(&self, name: &str, run: impl FnOnce(&mut Change<'_>, Record) -> T) -> Result<Option<T>> {
        self.change(false, |change| Ok(change.get(name).map(|record| run(change, (*record).clone()))))
    }

    fn entry(&self, record: Arc<Record>) -> Entry {
        let (sid, ends) = (self.domain().with_rid(record.rid), record.expires);
        Entry { sid, record, user: None, refused: None, ends }
    }
}

impl Backend for Store {
    fn name(&self) -> &str {
        "tdbsam"
    }

    fn changes_expiry(&self) -> bool {
        true
    }

    fn find(&self, name: &str) -> Answer<Result<Option<Entry>, Unavailable>> {
        Answer::now(Ok(Store::get(self, name).map(|record| self.entry(record))))
    }

    fn by_sid(&self, sid: &Sid) -> Answer<Result<Option<Entry>, Unavailable>> {
        Answer::now(Ok(Store::by_sid(self, sid).map(|record| self.entry(record))))
    }

    fn by_uid(&self, uid: u32) -> Answer<Result<Option<Entry>, Unavailable>> {
        let key = self.sids.read().by_uid.get(&uid).and_then(|names| names.first()).cloned();
        Answer::now(Ok(key.and_then(|key| Store::get(self, &key)).map(|record| self.entry(record))))
    }

    fn get(&self, name: &str) -> Result<Option<Entry>> {
        Ok(Store::get(self, name).map(|record| self.entry(record)))
    }

    fn owner_of(&self, sid: &Sid) -> Result<Option<String>> {
        Ok(Store::by_sid(self, sid).map(|record| record.name.clone()))
    }

    fn page(&self, after: Option<&str>, count: usize) -> Result<Vec<Entry>> {
        Ok(Store::page(self, after, count).into_iter().map(|record| self.entry(record)).collect())
    }

    fn count(&self, domain: &Sid) -> Result<Option<usize>> {
        Ok(Some(if self.domain().sid() == *domain { self.accounts.read().len() } else { 0 }))
    }

    fn add(&self, record: Record) -> Result<Entry> {
        let record = self.change(false, |change| {
            ensure!(change.get(&record.name).is_none(), "account {} exists already", record.name);
            let record = Record { rid: change.new_rid()?, ..record };
            change.put(record.clone());
            Ok(record)
        })?;
        Ok(self.entry(Arc::new(record)))
    }

    fn edit(&self, name: &str, edit: &mut dyn FnMut(&mut Record)) -> Result<Option<Entry>> {
        let edited = self.change_one(name, |change, before| {
            let mut record = before.clone();
            edit(&mut record);
            let record = Record { name: before.name, rid: before.rid, ..record };
            change.put(record.clone());
            record
        })?;
        Ok(edited.map(|record| self.entry(Arc::new(record))))
    }

    fn remove(&self, name: &str) -> Result<bool> {
        Ok(self.change_one(name, |change, record| change.remove(&record.name))?.is_some())
    }

    /// Imports all accounts in one transaction.
    fn import(&self, accounts: Vec<Imported>, dry_run: bool, check: Check<'_>) -> Result<Vec<Outcome>> {
        self.change(dry_run, |change| accounts.into_iter().map(|account| import_one(change, account, check)).collect())
    }
}

#[cfg(test)]
mod tests;
