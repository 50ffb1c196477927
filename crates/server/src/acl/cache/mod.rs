//! Cache of the effective security descriptors of files, and of the access rights that they grant.
//!
//! An entry is valid while the file's change time is the one under which the entry was made. A change of permissions by
//! another program therefore takes effect as soon as the file system shows it
//! ([`Changes`](crate::vfs::Changes)). The change time is the file system's own ([`Metadata::stamped`]), not one that a
//! client set. Where the clock behind that time has a coarse granularity
//! ([`Changes::granularity`](crate::vfs::Changes::granularity)), an entry for a file that changed just now is not
//! valid, because a second change may get the same time. That applies to changes by this server too, which invalidate
//! no entry otherwise. A changed file is read again. Most changes are changes of content, though: if a hash of the
//! inputs of the descriptor is unchanged ([`Cache::inputs_hash`]), the entry is revalidated. Equal stored descriptors
//! are kept only once.
//!
//! The size of the cache is bounded in bytes. Beyond the limit, entries that were not used since they were last
//! considered are evicted.
//!
//! The cache is independent of the kernel's inode and attribute caches and can outlive their contents.

use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use proto::dtyp::acl::AceBody;
use proto::dtyp::{AccessMask, Acl, SecurityDescriptor};

use crate::acl::initial::InitialAcls;
use crate::acl::model::evaluate::Token;
use crate::acl::protection::Protection;
use crate::acl::source::AclInputs;
use crate::acl::write_back_queue::Waiting;
use crate::environment::Environment;
use crate::file_lock::FileLocks;
use crate::heap_size::{self, Table};
use crate::number_hash::{NumberMap, Numbers};
use crate::policy::{Share, StoredAcls};
use crate::vfs::{DirectoryVersion, FileId, Identity, Metadata, Time};

/// Number of shards; each has its own lock.
const SHARDS: usize = 16;

/// The validity conditions of an entry; either one suffices. An entry with neither waits to be revalidated by
/// [`Cache::renew`].
#[derive(Clone, Copy)]
pub(crate) struct Validity {
    /// The file's change time, if any later change gets a different time.
    pub(crate) changed: Option<Time>,
    /// [`DirectoryVersion::state`] of a directory. Names added to and removed from a directory change its change time,
    /// but not this state.
    pub(crate) state: Option<u64>,
}

/// Maximum number of cached access check results per shard; the table takes 41 KiB. A full table is cleared. Where
/// files share descriptors there are few results. Where each file has its own descriptor, results are seldom looked up
/// again.
const GRANTS: usize = 896;

/// A file, as seen through a share.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    file: FileId,
    place: VolumeView,
}

/// A volume, and the configuration under which a share presents its files.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(test, derive(Default))]
pub(crate) struct VolumeView {
    volume: u64,
    view: u32,
}

/// Key of a cached result: the descriptor or inputs, the token, and whether the token's user owns the file and so
/// matches the SID in the descriptor's owner field.
type Grant = (By, u64, bool);

/// Identifies the descriptor that grants the rights.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum By {
    /// The descriptor of this number.
    Descriptor(u64),
    /// The descriptor synthesized from the inputs with this hash.
    AclInputs(u64),
}

/// The settings of a share that affect a file's descriptor. Shares that differ in them see different descriptors.
#[derive(Clone, PartialEq, Eq)]
struct View {
    acls: Option<StoredAcls>,
    masks: [u32; 4],
    dos_filemode: bool,
    full_control: bool,
}

/// Statistics of the security descriptor cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheStatistics {
    /// Cached files.
    pub entries: usize,
    /// Approximate size in bytes.
    pub bytes: usize,
    /// Access checks that found the descriptor in the cache, since the server started.
    pub hits: u64,
    /// Access checks that had to read the file's attributes.
    pub misses: u64,
}

/// The cache.
pub(crate) struct Cache {
    environment: Arc<dyn Environment>,
    limit: usize,
    shards: [Mutex<Shard>; SHARDS],
    spread: Numbers,
    grants: [Mutex<NumberMap<Grant, AccessMask>>; SHARDS],
    entries: AtomicUsize,
    /// Bytes taken by entries and tables, without the descriptors.
    held: AtomicUsize,
    pool: Arc<Pool>,
    prints: RandomState,
    views: Mutex<Vec<View>>,
    /// Synthesized descriptors that wait to be written back.
    pub(crate) waiting: Waiting,
    /// Per-file locks of the setters of security descriptors.
    pub(crate) turns: FileLocks,
    initial_acls: InitialAcls,
    hits: AtomicU64,
    misses: AtomicU64,
}

#[derive(Default)]
struct Shard {
    index: Table<Key, usize, Numbers>,
    ring: Vec<Slot>,
    hand: usize,
}

struct Slot {
    key: Key,
    seen: Validity,
    protection: Arc<Protection>,
    used: bool,
}

impl Cache {
    /// Creates an empty cache of at most about `limit` bytes.
    pub(crate) fn new(environment: Arc<dyn Environment>, limit: usize) -> Self {
        Cache {
            environment,
            limit,
            shards: Default::default(),
            spread: Numbers::default(),
            grants: Default::default(),
            entries: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
            pool: Arc::default(),
            prints: RandomState::new(),
            views: Mutex::default(),
            waiting: Waiting::default(),
            turns: FileLocks::default(),
            initial_acls: InitialAcls::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// Returns the key for the files of `share` on `volume`. There are as many views as there are different share
    /// configurations.
    pub(crate) fn place(&self, volume: u64, share: &Share) -> VolumeView {
        let masks = [
            share.modes.create_mask,
            share.modes.force_create_mode,
            share.modes.directory_mask,
            share.modes.force_directory_mode,
        ];
        let view = View {
            acls: share.acls.stored.clone(),
            masks,
            dos_filemode: share.acls.dos_filemode,
            full_control: share.acls.acl_map_full_control,
        };
        let mut views = self.views.lock();
        let index = views.iter().position(|known| *known == view).unwrap_or_else(|| {
            views.push(view);
            views.len() - 1
        });
        VolumeView { volume, view: index as u32 }
    }

    /// Returns a number that identifies a token: a keyed hash of it. The same user has the same number on all
    /// connections.
    pub(crate) fn token(&self, identity: &Identity, token: &Token) -> u64 {
        self.prints.hash_one((identity, token))
    }

    /// Returns the protection of the file of `metadata` if a valid entry exists.
    pub(crate) fn find(&self, place: VolumeView, metadata: &Metadata) -> Option<Arc<Protection>> {
        self.find_seen(Key { file: metadata.id, place }, |seen| seen.changed == Some(metadata.stamped))
    }

    /// As [`Cache::find`], for a watched directory.
    pub(crate) fn find_watched(&self, place: VolumeView, watched: &DirectoryVersion) -> Option<Arc<Protection>> {
        self.find_seen(Key { file: watched.id, place }, |seen| seen.state == Some(watched.state))
    }

    fn find_seen(&self, key: Key, counts: impl Fn(&Validity) -> bool) -> Option<Arc<Protection>> {
        if self.is_off() {
            return None;
        }
        let mut shard = self.shard(&key).lock();
        let shard = &mut *shard;
        let found = shard.index.map().get(&key).and_then(|&index| shard.ring.get_mut(index));
        let found = found.filter(|slot| counts(&slot.seen)).map(|slot| {
            slot.used = true;
            slot.protection.clone()
        });
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Revalidates the entry of `file` under `seen` and returns it, if its inputs have the hash `inputs_hash`.
    pub(crate) fn renew(
        &self,
        place: VolumeView,
        file: FileId,
        seen: Validity,
        inputs_hash: u64,
    ) -> Option<Arc<Protection>> {
        if self.is_off() {
            return None;
        }
        let key = Key { file, place };
        let mut shard = self.shard(&key).lock();
        let shard = &mut *shard;
        let slot = shard.index.map().get(&key).and_then(|&index| shard.ring.get_mut(index))?;
        if slot.protection.inputs_hash != inputs_hash {
            return None;
        }
        (slot.seen, slot.used) = (seen, true);
        Some(slot.protection.clone())
    }

    /// Returns a keyed hash of `material` and the share configuration. Collisions cannot be constructed because the key
    /// is private to this cache.
    pub(crate) fn inputs_hash(&self, place: VolumeView, material: &AclInputs) -> u64 {
        if self.is_off() {
            return 0;
        }
        self.prints.hash_one((place.view, material))
    }

    /// Whether data read from the file from now on may be cached under the change time of `metadata`, whose clock has
    /// the granularity `tick`.
    pub(crate) fn is_settled(&self, metadata: &Metadata, tick: Duration) -> bool {
        let (now, changed) = (self.environment.now(), metadata.stamped);
        let nanos = |time: Time| i128::from(time.secs) * 1_000_000_000 + i128::from(time.nanos);
        tick.is_zero() || nanos(now) - nanos(changed) >= tick.as_nanos() as i128
    }

    /// Caches the protection of `file` under `seen`, which has a change time for which [`Cache::is_settled`] is true,
    /// or a watched state.
    pub(crate) fn keep(&self, place: VolumeView, file: FileId, seen: Validity, protection: Arc<Protection>) {
        if self.is_off() {
            return;
        }
        let key = Key { file, place };
        let mut shard = self.shard(&key).lock();
        let before = shard.tables();
        self.held.fetch_add(protection.bytes(), Ordering::Relaxed);
        if let Some(&index) = shard.index.map().get(&key) {
            let new = Slot { key, seen, protection, used: true };
            let former = std::mem::replace(&mut shard.ring[index], new);
            self.held.fetch_sub(former.protection.bytes(), Ordering::Relaxed);
            return;
        }
        self.make_room(&mut shard);
        if self.bytes() > self.limit {
            self.held.fetch_sub(protection.bytes(), Ordering::Relaxed);
        } else {
            shard.add(Slot { key, seen, protection, used: false });
            self.entries.fetch_add(1, Ordering::Relaxed);
        }
        self.held.fetch_add(shard.tables(), Ordering::Relaxed);
        self.held.fetch_sub(before, Ordering::Relaxed);
    }

    fn make_room(&self, shard: &mut Shard) {
        while self.bytes() > self.limit {
            let Some(gone) = shard.evict() else { return };
            self.entries.fetch_sub(1, Ordering::Relaxed);
            self.held.fetch_sub(gone.bytes(), Ordering::Relaxed);
        }
    }

    /// Returns the shared copy of a descriptor. If the cache is off, descriptors are not shared.
    pub(crate) fn share(&self, descriptor: SecurityDescriptor) -> Arc<Descriptor> {
        if self.is_off() { Arc::new(Descriptor::lone(descriptor)) } else { self.pool.share(descriptor) }
    }

    /// Returns the rights granted by a descriptor, from the cache or from `evaluate`.
    pub(crate) fn granted(&self, grant: Grant, evaluate: impl FnOnce() -> AccessMask) -> AccessMask {
        // Without a cache every descriptor is a new one.
        if self.is_off() {
            return evaluate();
        }
        let (By::Descriptor(number) | By::AclInputs(number), token, _) = grant;
        let grants = &self.grants[(number ^ token) as usize % SHARDS];
        if let Some(&known) = grants.lock().get(&grant) {
            return known;
        }
        let granted = evaluate();
        let mut grants = grants.lock();
        if grants.len() >= GRANTS {
            grants.clear();
        }
        let before = heap_size::table::<Grant, AccessMask>(grants.capacity());
        grants.insert(grant, granted);
        let space = heap_size::table::<Grant, AccessMask>(grants.capacity());
        self.held.fetch_add(space - before, Ordering::Relaxed);
        granted
    }

    /// Returns the descriptors last computed for new files. `None` without a cache, because descriptors have no numbers
    /// then.
    pub(crate) fn initial_acls(&self) -> Option<&InitialAcls> {
        (!self.is_off()).then_some(&self.initial_acls)
    }

    /// Returns how long the server has run.
    pub(crate) fn uptime(&self) -> Duration {
        self.environment.uptime()
    }

    /// Returns statistics.
    pub(crate) fn state(&self) -> CacheStatistics {
        CacheStatistics {
            entries: self.entries.load(Ordering::Relaxed),
            bytes: self.bytes(),
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
        }
    }

    /// Whether the cache is disabled.
    fn is_off(&self) -> bool {
        self.limit == 0
    }

    fn bytes(&self) -> usize {
        self.held.load(Ordering::Relaxed) + self.pool.bytes.load(Ordering::Relaxed)
    }

    fn shard(&self, key: &Key) -> &Mutex<Shard> {
        &self.shards[self.spread.hash_one(key) as usize % SHARDS]
    }
}

impl Shard {
    /// Adds an entry that is not present. The ring grows in small steps, because other entries must be evicted to make
    /// space for it.
    fn add(&mut self, slot: Slot) {
        self.index.insert(slot.key, self.ring.len());
        if self.ring.len() == self.ring.capacity() {
            self.ring.reserve_exact((self.ring.len() / 8).max(4));
        }
        self.ring.push(slot);
    }

    /// Evicts an entry that was not used since the clock hand last passed it. `None` if the shard is empty.
    fn evict(&mut self) -> Option<Arc<Protection>> {
        while !self.ring.is_empty() {
            self.hand %= self.ring.len();
            if !std::mem::take(&mut self.ring[self.hand].used) {
                let gone = self.ring.swap_remove(self.hand);
                self.index.remove(&gone.key);
                if let Some(moved) = self.ring.get(self.hand) {
                    self.index.insert(moved.key, self.hand);
                }
                if self.ring.capacity() > heap_size::FEW && self.ring.len() < self.ring.capacity() / 4 {
                    self.ring.shrink_to(self.ring.capacity() / 2);
                }
                return Some(gone.protection);
            }
            self.hand += 1;
        }
        None
    }

    /// Returns the bytes taken by the tables.
    fn tables(&self) -> usize {
        self.index.bytes() + heap_size::vector::<Slot>(self.ring.capacity())
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A descriptor that is shared by all files that have an equal one.
pub(crate) struct Descriptor {
    value: SecurityDescriptor,
    /// Unique among all descriptors that this cache ever holds.
    id: u64,
    hash: u64,
    pool: Option<Arc<Pool>>,
}

impl Descriptor {
    /// Creates a descriptor that is not shared.
    fn lone(value: SecurityDescriptor) -> Descriptor {
        Descriptor { value, id: 0, hash: 0, pool: None }
    }

    /// Returns the number that identifies this descriptor in the cache.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    fn bytes(&self) -> usize {
        let raw = |body: &AceBody| if let AceBody::Raw(bytes) = body { heap_size::allocation(bytes.len()) } else { 0 };
        let acl = |acl: &Acl| {
            let raw: usize = acl.aces().iter().map(|ace| raw(&ace.body)).sum();
            heap_size::allocation(size_of_val(acl.aces())) + raw
        };
        let acls: usize = [&self.value.dacl, &self.value.sacl].into_iter().flatten().map(acl).sum();
        heap_size::shared::<Self>() + acls
    }
}

impl Deref for Descriptor {
    type Target = SecurityDescriptor;

    fn deref(&self) -> &SecurityDescriptor {
        &self.value
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        let Some(pool) = &self.pool else { return };
        pool.bytes.fetch_sub(self.bytes(), Ordering::Relaxed);
        pool.forget(self.hash);
    }
}

/// Releases the spare capacity of the ACLs, which would stay allocated as long as the descriptor and is not accounted.
fn shrunk(mut descriptor: SecurityDescriptor) -> SecurityDescriptor {
    [&mut descriptor.dacl, &mut descriptor.sacl].into_iter().flatten().for_each(Acl::shrink_to_fit);
    descriptor
}

/// All descriptors that are referenced.
#[derive(Default)]
struct Pool {
    /// By hash. Of two descriptors with the same hash, the later is listed.
    known: [Mutex<Table<u64, Weak<Descriptor>>>; SHARDS],
    last_id: AtomicU64,
    /// Bytes taken by the descriptors and the tables that list them.
    bytes: AtomicUsize,
}

impl Pool {
    fn share(self: &Arc<Self>, value: SecurityDescriptor) -> Arc<Descriptor> {
        let hash = hash(&value);
        let mut known = self.known[hash as usize % SHARDS].lock();
        // The upgraded reference must be dropped after the lock is released, because dropping the last reference takes
        // the lock.
        let present = known.map().get(&hash).and_then(Weak::upgrade);
        if let Some(shared) = present.as_ref().filter(|shared| shared.value == value) {
            let found = shared.clone();
            drop(known);
            return found;
        }
        let id = self.last_id.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::new(Descriptor { value: shrunk(value), id, hash, pool: Some(self.clone()) });
        let before = known.bytes();
        known.insert(hash, Arc::downgrade(&shared));
        self.bytes.fetch_add(shared.bytes() + known.bytes() - before, Ordering::Relaxed);
        drop(known);
        shared
    }

    fn forget(&self, hash: u64) {
        let mut known = self.known[hash as usize % SHARDS].lock();
        if known.map().get(&hash).is_some_and(|weak| weak.strong_count() == 0) {
            let before = known.bytes();
            known.remove(&hash);
            self.bytes.fetch_sub(before - known.bytes(), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
