//! The directories of a volume on another machine: their handles by name, and the permissions to search them.
//!
//! A path is resolved one component at a time, and most paths lead through the same few directories. What is cached is
//! valid until the volume's own changes or those that the storage reports end it, or for a time ([`Coherence`]). Names
//! that were not used for long make room for others.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use server::acl::model::posix_acl::PosixAcl;
use server::vfs::{FileId, Identity, Kind};

use crate::change_log::Coherence;
use crate::hits::{HitNumbers, Hits};
use crate::metadata::Stat;
use crate::moments::{Moment, Moments};
use crate::permissions::{EXECUTE, Permissions};

/// Maximum number of cached names of a volume, and of cached protections. If there are more protections, all are
/// discarded, because those in use are soon cached again.
const DIRECTORIES: usize = 4096;
/// Maximum number of names in each of the two generations.
const GENERATION: usize = DIRECTORIES / 2;

/// A directory on the way to a file.
#[derive(Debug)]
pub struct Directory<H> {
    /// The storage's handle.
    pub handle: Arc<H>,
    /// Identity of the directory.
    pub id: FileId,
}

impl<H> Clone for Directory<H> {
    fn clone(&self) -> Self {
        Directory { handle: Arc::clone(&self.handle), id: self.id }
    }
}

/// What decides whether a user may search a directory.
#[derive(Clone, Debug)]
pub struct Protection {
    /// Permission bits with setuid, setgid and sticky.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The access ACL, if the directory has one and it was asked for.
    acl: Option<Option<Arc<PosixAcl>>>,
    /// Whether the directory has a default ACL, if that was asked for.
    has_default_acl: Option<bool>,
}

impl Protection {
    /// Returns the protection of the directory that `stat` describes, whose ACL is not known.
    pub fn of(stat: &Stat) -> Protection {
        Protection { mode: stat.mode, uid: stat.uid, gid: stat.gid, acl: None, has_default_acl: None }
    }

    /// Adds the access ACL, or that there is none.
    #[must_use]
    pub fn with_acl(self, acl: Option<PosixAcl>) -> Protection {
        Protection { acl: Some(acl.map(Arc::new)), ..self }
    }

    /// Adds whether the directory has a default ACL, which new files in it inherit.
    #[must_use]
    pub fn with_default_acl(self, has_default_acl: bool) -> Protection {
        Protection { has_default_acl: Some(has_default_acl), ..self }
    }

    /// Returns whether the directory has a default ACL, if that is known.
    pub fn has_default_acl(&self) -> Option<bool> {
        self.has_default_acl
    }

    /// Adds what is known of the ACLs of the same directory with the same permission bits.
    fn merged(self, known: &Protection) -> Protection {
        let is_same = (self.mode, self.uid, self.gid) == (known.mode, known.uid, known.gid);
        if !is_same {
            return self;
        }
        let has_default_acl = self.has_default_acl.or(known.has_default_acl);
        Protection { acl: self.acl.or_else(|| known.acl.clone()), has_default_acl, ..self }
    }

    /// Returns whether the permissions of the user are known. They are not if they depend on an ACL that was not asked
    /// for.
    pub fn decides_for(&self, who: &Identity) -> bool {
        // The owner's entry of an ACL equals the owner's permission bits, and root may search every directory.
        who.uid == 0 || who.uid == self.uid || self.acl.is_some()
    }

    /// Returns whether the user may search the directory; `None` if that is not known.
    pub fn permits_search(&self, who: &Identity) -> Option<bool> {
        self.decides_for(who).then(|| self.permissions().permit(who, EXECUTE))
    }

    /// Returns whether the user may remove a name of a file of `owner` from the directory; `None` if that is not known.
    pub fn permits_removal(&self, who: &Identity, owner: u32) -> Option<bool> {
        self.decides_for(who).then(|| self.permissions().permit_removal(who, owner))
    }

    /// Returns the `rwx` bits of the user; `None` if they are not known.
    pub fn rwx(&self, who: &Identity) -> Option<u32> {
        self.decides_for(who).then(|| self.permissions().rwx(who))
    }

    fn permissions(&self) -> Permissions<'_> {
        let acl = self.acl.as_ref().and_then(Option::as_deref);
        Permissions::new(Kind::Directory, self.mode, (self.uid, self.gid), acl)
    }
}

struct Cached<T> {
    value: T,
    read: Instant,
}

type Name = Box<[u8]>;
type Child<H> = Cached<Directory<H>>;

/// What each directory contains, by name.
struct Generation<H> {
    children: HashMap<FileId, HashMap<Name, Child<H>>>,
    /// Number of names in `children`.
    count: usize,
}

impl<H> Default for Generation<H> {
    fn default() -> Generation<H> {
        Generation { children: HashMap::new(), count: 0 }
    }
}

impl<H> Generation<H> {
    fn get(&self, parent: FileId, name: &[u8]) -> Option<&Child<H>> {
        self.children.get(&parent)?.get(name)
    }

    /// Adds a name that it does not have.
    fn insert(&mut self, parent: FileId, name: Name, cached: Child<H>) -> &Child<H> {
        self.count += 1;
        self.children.entry(parent).or_default().entry(name).insert_entry(cached).into_mut()
    }

    fn remove(&mut self, parent: FileId, name: &[u8]) -> Option<(Name, Child<H>)> {
        let names = self.children.get_mut(&parent)?;
        let removed = names.remove_entry(name)?;
        if names.is_empty() {
            self.children.remove(&parent);
        }
        self.count -= 1;
        Some(removed)
    }

    fn remove_all(&mut self, parent: FileId) {
        self.count -= self.children.remove(&parent).map_or(0, |names| names.len());
    }
}

struct State<H> {
    /// The names that were added or used since the older generation ended. When it is full, it becomes the older one.
    recent: Generation<H>,
    older: Generation<H>,
    protections: HashMap<FileId, Cached<Protection>>,
    /// The changes of directories.
    moments: Moments,
}

impl<H> State<H> {
    fn clear(&mut self) {
        (self.recent, self.older) = Default::default();
        self.protections.clear();
    }

    /// Returns a cached name. One of the older generation becomes recent, unless that is full.
    fn child(&mut self, parent: FileId, name: &[u8]) -> Option<&Child<H>> {
        if self.recent.get(parent, name).is_some() || self.recent.count >= GENERATION {
            return self.known(parent, name);
        }
        let (name, cached) = self.older.remove(parent, name)?;
        Some(self.recent.insert(parent, name, cached))
    }

    /// Returns a cached name of either generation.
    fn known(&self, parent: FileId, name: &[u8]) -> Option<&Child<H>> {
        self.recent.get(parent, name).or_else(|| self.older.get(parent, name))
    }

    /// Adds a name, unless it is known from a later moment. Returns the older generation if it ends.
    #[must_use]
    fn insert(&mut self, parent: FileId, name: &[u8], cached: Child<H>) -> Option<Generation<H>> {
        if self.known(parent, name).is_some_and(|known| known.read > cached.read) {
            return None;
        }
        for generation in [&mut self.recent, &mut self.older] {
            generation.remove(parent, name);
        }
        let is_full = self.recent.count >= GENERATION;
        let ended = is_full.then(|| std::mem::replace(&mut self.older, std::mem::take(&mut self.recent)));
        self.recent.insert(parent, name.into(), cached);
        ended
    }
}

/// The cached directories of one volume.
pub struct DirectoryCache<H> {
    state: Mutex<State<H>>,
    hits: Hits,
    coherence: Coherence,
}

impl<H> DirectoryCache<H> {
    /// Creates an empty cache.
    pub fn new(coherence: Coherence) -> DirectoryCache<H> {
        let (recent, older) = Default::default();
        let state = State { recent, older, protections: HashMap::new(), moments: Moments::default() };
        DirectoryCache { state: Mutex::new(state), hits: Hits::default(), coherence }
    }

    fn is_valid(&self, read: Instant) -> bool {
        self.was_valid(read, Instant::now())
    }

    fn was_valid(&self, read: Instant, at: Instant) -> bool {
        self.coherence.lifetime().is_none_or(|lifetime| at.duration_since(read) < lifetime)
    }

    /// Returns the present moment, for [`DirectoryCache::put`].
    pub fn now(&self) -> Moment {
        self.state.lock().moments.now()
    }

    /// Returns the directory `name` of the directory `parent`.
    pub fn child(&self, parent: FileId, name: &[u8]) -> Option<Directory<H>> {
        let mut state = self.state.lock();
        let found = state.child(parent, name);
        self.hits.count(found.filter(|found| self.is_valid(found.read)).map(|found| found.value.clone()))
    }

    /// Returns how often [`DirectoryCache::child`] had an answer.
    pub fn hits(&self) -> HitNumbers {
        self.hits.numbers()
    }

    /// Returns the protection of a directory.
    pub fn protection(&self, directory: FileId) -> Option<Protection> {
        let state = self.state.lock();
        let found = state.protections.get(&directory)?;
        self.is_valid(found.read).then(|| found.value.clone())
    }

    /// Caches that `name` in `parent` is this directory, if `parent` has not changed since. If that was cached at
    /// `since`, it keeps its age, because the storage may have found the directory by this cache.
    pub fn put(&self, since: Moment, parent: FileId, name: &[u8], directory: &Directory<H>) {
        let known = self.state.lock().known(parent, name).map(|known| (known.value.id, known.read));
        if known.is_none_or(|(id, read)| id != directory.id || !self.was_valid(read, since.at)) {
            self.put_all(since, parent, [(name, directory)]);
        }
    }

    /// Caches several names in `parent`, which were read from it, if it has not changed since.
    pub fn put_all<'a>(
        &self,
        since: Moment,
        parent: FileId,
        found: impl IntoIterator<Item = (&'a [u8], &'a Directory<H>)>,
    ) where
        H: 'a,
    {
        // The handles of a generation that ends are closed without the lock.
        let mut ended = Vec::new();
        let mut state = self.state.lock();
        if state.moments.has_changed(parent, since) {
            return;
        }
        for (name, directory) in found {
            ended.extend(state.insert(parent, name, Cached { value: directory.clone(), read: since.at }));
        }
        drop(state);
    }

    /// Caches the protection of a directory, if it has not changed since. It keeps the age of one that was cached at
    /// `since`, because the caller may only have added to that.
    pub fn put_protection(&self, since: Moment, directory: FileId, protection: Protection) {
        let mut state = self.state.lock();
        if state.moments.has_changed(directory, since) {
            return;
        }
        if state.protections.len() >= DIRECTORIES {
            state.protections.clear();
        }
        let known = state.protections.get(&directory).filter(|known| self.was_valid(known.read, since.at));
        let (protection, read) = match known {
            Some(known) => (protection.merged(&known.value), known.read.min(since.at)),
            None => (protection, since.at),
        };
        state.protections.insert(directory, Cached { value: protection, read });
    }

    /// Forgets the directory `name` of `parent`, because the name has changed.
    pub fn forget_name(&self, parent: FileId, name: &[u8]) {
        let mut state = self.state.lock();
        state.moments.change(parent);
        state.recent.remove(parent, name);
        state.older.remove(parent, name);
    }

    /// Forgets the protection of a directory, because it has changed.
    pub fn forget_protection(&self, directory: FileId) {
        let mut state = self.state.lock();
        state.moments.change(directory);
        state.protections.remove(&directory);
    }

    /// Forgets the protection of a directory and the names in it, because others changed it.
    pub fn forget(&self, directory: FileId) {
        let mut state = self.state.lock();
        state.moments.change(directory);
        state.protections.remove(&directory);
        state.recent.remove_all(directory);
        state.older.remove_all(directory);
    }

    /// Forgets everything.
    pub fn clear(&self) {
        let mut state = self.state.lock();
        state.moments.change_all();
        state.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const TOP: FileId = FileId { device: 1, inode: 1, stream: 0 };
    const BELOW: FileId = FileId { device: 1, inode: 2, stream: 0 };

    fn directory() -> Directory<()> {
        Directory { handle: Arc::new(()), id: BELOW }
    }

    fn protection(mode: u32) -> Protection {
        Protection { mode, uid: 5, gid: 6, acl: None, has_default_acl: None }
    }

    /// Returns the number of names, which is also that of all maps together.
    fn count(cache: &DirectoryCache<()>) -> usize {
        let state = cache.state.lock();
        let counts = [&state.recent, &state.older].map(|generation| {
            assert_eq!(generation.count, generation.children.values().map(HashMap::len).sum::<usize>());
            assert!(generation.count <= GENERATION);
            generation.count
        });
        counts.iter().sum()
    }

    fn user(uid: u32) -> Identity {
        Identity { uid, gid: 6, groups: Box::default() }
    }

    #[test]
    fn what_changed_is_forgotten() {
        let cache = DirectoryCache::new(Coherence::Own);
        let fill = |cache: &DirectoryCache<()>| {
            let now = cache.now();
            cache.put(now, TOP, b"a", &directory());
            cache.put_protection(now, BELOW, protection(0o700));
            [cache.child(TOP, b"a").is_some(), cache.protection(BELOW).is_some()]
        };
        let has = |cache: &DirectoryCache<()>| [cache.child(TOP, b"a").is_some(), cache.protection(BELOW).is_some()];
        assert_eq!(fill(&cache), [true, true]);
        assert!(cache.child(TOP, b"b").is_none() && cache.child(BELOW, b"a").is_none());
        cache.forget_name(TOP, b"a");
        assert_eq!(has(&cache), [false, true]);
        fill(&cache);
        cache.forget_protection(BELOW);
        assert_eq!(has(&cache), [true, false]);
        fill(&cache);
        cache.forget(TOP);
        assert_eq!(has(&cache), [false, true]);
        fill(&cache);
        cache.clear();
        assert_eq!(has(&cache), [false, false]);
        assert_eq!(count(&cache), 0);
    }

    #[test]
    fn what_was_read_before_a_change_is_not_cached_after_it() {
        let cache = DirectoryCache::new(Coherence::Callback { valid: Duration::from_secs(600) });
        let before = cache.now();
        cache.forget(BELOW);
        cache.put(before, TOP, b"a", &directory());
        cache.put(before, BELOW, b"a", &directory());
        cache.put_protection(before, BELOW, protection(0o700));
        assert!(cache.child(TOP, b"a").is_some(), "that directory has not changed");
        assert!(cache.child(BELOW, b"a").is_none() && cache.protection(BELOW).is_none());
        cache.forget_name(TOP, b"b");
        cache.put(before, TOP, b"c", &directory());
        assert!(cache.child(TOP, b"c").is_none());
    }

    #[test]
    fn what_is_cached_for_a_time_is_read_again() {
        let cache = DirectoryCache::new(Coherence::Timestamp { valid: Duration::ZERO });
        cache.put(cache.now(), TOP, b"a", &directory());
        cache.put_protection(cache.now(), BELOW, protection(0o700));
        assert!(cache.child(TOP, b"a").is_none() && cache.protection(BELOW).is_none());
        let cache = DirectoryCache::new(Coherence::Timestamp { valid: Duration::from_secs(3_600) });
        let [mut earlier, now] = [cache.now(); 2];
        earlier.at -= Duration::from_secs(3_600);
        for (since, is_found) in [(earlier, false), (now, true), (earlier, true)] {
            cache.put(since, TOP, b"a", &directory());
            assert_eq!(cache.child(TOP, b"a").is_some(), is_found, "it has the age of what was read last");
        }
    }

    #[test]
    fn what_was_cached_keeps_its_age() {
        const VALID: Duration = Duration::from_secs(3_600);
        let cache = DirectoryCache::new(Coherence::Callback { valid: VALID });
        let now = cache.now();
        let [mut long_ago, mut lately] = [now; 2];
        long_ago.at -= VALID;
        lately.at -= VALID / 2;
        cache.put(long_ago, TOP, b"a", &directory());
        cache.put_protection(long_ago, BELOW, protection(0o700));
        // Both were valid then, and are not any more.
        cache.put(lately, TOP, b"a", &directory());
        cache.put_protection(lately, BELOW, protection(0o700).with_acl(None).with_default_acl(false));
        assert!(cache.child(TOP, b"a").is_none() && cache.protection(BELOW).is_none());
        // The name may be that of another directory by now.
        cache.put(lately, TOP, b"a", &Directory { id: TOP, ..directory() });
        assert_eq!(cache.child(TOP, b"a").map(|found| found.id), Some(TOP));
        cache.put(now, TOP, b"a", &directory());
        cache.put_protection(now, BELOW, protection(0o700));
        assert!(cache.child(TOP, b"a").is_some() && cache.protection(BELOW).is_some());
        let below = directory();
        cache.put(long_ago, TOP, b"b", &below);
        cache.put_all(lately, TOP, [(b"b".as_slice(), &below)]);
        assert!(cache.child(TOP, b"b").is_some(), "a listing has read it again");
    }

    #[test]
    fn the_number_of_directories_is_bounded() {
        let cache = DirectoryCache::new(Coherence::Own);
        for number in 0..3 * DIRECTORIES {
            let id = FileId { inode: number as u64, ..BELOW };
            cache.put(cache.now(), TOP, number.to_string().as_bytes(), &Directory { id, ..directory() });
            cache.put_protection(cache.now(), id, protection(0));
            assert!(count(&cache) <= DIRECTORIES && cache.state.lock().protections.len() <= DIRECTORIES);
            // This name is used again and again, so it stays.
            assert!(cache.child(TOP, b"0").is_some(), "after {number}");
        }
        let last = (3 * DIRECTORIES - 1).to_string();
        assert!(cache.child(TOP, last.as_bytes()).is_some() && cache.child(TOP, b"1").is_none());
        cache.forget(TOP);
        assert_eq!(count(&cache), 0);
    }

    #[test]
    fn a_name_is_cached_once() {
        let cache = DirectoryCache::new(Coherence::Own);
        let other = FileId { inode: 3, ..BELOW };
        cache.put(cache.now(), TOP, b"a", &directory());
        let names: Vec<_> = (0..GENERATION).map(|number| number.to_string()).collect();
        let below = directory();
        cache.put_all(cache.now(), TOP, names.iter().map(|name| (name.as_bytes(), &below)));
        assert_eq!(count(&cache), GENERATION + 1, "`a` is in the older generation");
        cache.put(cache.now(), TOP, b"a", &Directory { id: other, ..directory() });
        assert_eq!(cache.child(TOP, b"a").map(|found| found.id), Some(other));
        assert_eq!(count(&cache), GENERATION + 1);
        // The generation is full again when a name of it is replaced.
        let more = (GENERATION..2 * GENERATION - 2).map(|number| number.to_string()).collect::<Vec<_>>();
        cache.put_all(cache.now(), TOP, more.iter().map(|name| (name.as_bytes(), &below)));
        let full = count(&cache);
        for id in [BELOW, other] {
            cache.put(cache.now(), TOP, b"a", &Directory { id, ..directory() });
            assert_eq!((cache.child(TOP, b"a").map(|found| found.id), count(&cache)), (Some(id), full));
        }
        cache.forget_name(TOP, b"a");
        cache.forget_name(TOP, b"0");
        assert!(cache.child(TOP, b"a").is_none() && cache.child(TOP, b"0").is_none());
        assert_eq!(count(&cache), full - 2);
    }

    #[test]
    fn an_acl_is_needed_only_for_users_who_are_not_the_owner() {
        let bare = protection(0o100);
        assert_eq!([0, 5, 7].map(|uid| bare.permits_search(&user(uid))), [Some(true), Some(true), None]);
        let known = bare.with_acl(None);
        assert_eq!(known.permits_search(&user(7)), Some(false));
        let cache = DirectoryCache::<()>::new(Coherence::Own);
        cache.put_protection(cache.now(), BELOW, known);
        cache.put_protection(cache.now(), BELOW, protection(0o100));
        assert_eq!(cache.protection(BELOW).and_then(|it| it.permits_search(&user(7))), Some(false), "it is kept");
        cache.put_protection(cache.now(), BELOW, protection(0o111));
        assert_eq!(cache.protection(BELOW).and_then(|it| it.permits_search(&user(7))), None);
    }
}
