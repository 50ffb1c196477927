//! The directories of a volume on another machine: their handles by name, and the permissions to search them.
//!
//! A path is resolved one component at a time, and most paths lead through the same few directories. What is cached is
//! valid until the volume's own changes or those that the storage reports end it, or for a time ([`Coherence`]).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use server::acl::model::posix_acl::PosixAcl;
use server::vfs::{FileId, Identity, Kind};

use crate::change_log::Coherence;
use crate::hits::{HitNumbers, Hits};
use crate::metadata::Stat;
use crate::permissions::{EXECUTE, Permissions};

/// Maximum number of cached directories of a volume. If there are more, all are discarded, because those in use are
/// soon cached again.
const DIRECTORIES: usize = 4096;

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

type Names<H> = HashMap<Box<[u8]>, Cached<Directory<H>>>;

struct State<H> {
    /// The directories in each directory, by name.
    children: HashMap<FileId, Names<H>>,
    /// Number of names in `children`.
    names: usize,
    protections: HashMap<FileId, Cached<Protection>>,
    /// Increased by each change. What was read before the last one is not cached.
    version: u64,
}

impl<H> State<H> {
    fn clear(&mut self) {
        self.children.clear();
        self.protections.clear();
        self.names = 0;
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
        let state = State { children: HashMap::new(), names: 0, protections: HashMap::new(), version: 0 };
        DirectoryCache { state: Mutex::new(state), hits: Hits::default(), coherence }
    }

    fn is_valid(&self, read: Instant) -> bool {
        self.coherence.lifetime().is_none_or(|lifetime| read.elapsed() < lifetime)
    }

    /// Returns the number of changes so far, for [`DirectoryCache::put`].
    pub fn version(&self) -> u64 {
        self.state.lock().version
    }

    /// Returns the directory `name` of the directory `parent`.
    pub fn child(&self, parent: FileId, name: &[u8]) -> Option<Directory<H>> {
        let state = self.state.lock();
        let found = state.children.get(&parent).and_then(|names| names.get(name));
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

    /// Caches that `name` in `parent` is this directory, if nothing changed since `version`.
    pub fn put(&self, version: u64, parent: FileId, name: &[u8], directory: &Directory<H>) {
        let mut state = self.state.lock();
        if state.version != version {
            return;
        }
        if state.names >= DIRECTORIES {
            state.clear();
        }
        let cached = Cached { value: directory.clone(), read: Instant::now() };
        if state.children.entry(parent).or_default().insert(name.into(), cached).is_none() {
            state.names += 1;
        }
    }

    /// Caches the protection of a directory, if nothing changed since `version`.
    pub fn put_protection(&self, version: u64, directory: FileId, protection: Protection) {
        let mut state = self.state.lock();
        if state.version != version {
            return;
        }
        if state.protections.len() >= DIRECTORIES {
            state.clear();
        }
        let known = state.protections.get(&directory).filter(|known| self.is_valid(known.read));
        let (protection, read) = match known {
            Some(known) if protection.acl.is_none() => (protection.merged(&known.value), known.read),
            Some(known) => (protection.merged(&known.value), Instant::now()),
            None => (protection, Instant::now()),
        };
        state.protections.insert(directory, Cached { value: protection, read });
    }

    /// Forgets the directory `name` of `parent`, because the name has changed.
    pub fn forget_name(&self, parent: FileId, name: &[u8]) {
        let mut state = self.state.lock();
        state.version += 1;
        if state.children.get_mut(&parent).is_some_and(|names| names.remove(name).is_some()) {
            state.names -= 1;
        }
    }

    /// Forgets the protection of a directory, because it has changed.
    pub fn forget_protection(&self, directory: FileId) {
        let mut state = self.state.lock();
        state.version += 1;
        state.protections.remove(&directory);
    }

    /// Forgets the protection of a directory and the names in it, because others changed it.
    pub fn forget(&self, directory: FileId) {
        let mut state = self.state.lock();
        state.version += 1;
        state.protections.remove(&directory);
        state.names -= state.children.remove(&directory).map_or(0, |names| names.len());
    }

    /// Forgets everything.
    pub fn clear(&self) {
        let mut state = self.state.lock();
        state.version += 1;
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

    fn user(uid: u32) -> Identity {
        Identity { uid, gid: 6, groups: Box::default() }
    }

    #[test]
    fn what_changed_is_forgotten() {
        let cache = DirectoryCache::new(Coherence::Own);
        let fill = |cache: &DirectoryCache<()>| {
            let version = cache.version();
            cache.put(version, TOP, b"a", &directory());
            cache.put_protection(version, BELOW, protection(0o700));
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
        assert_eq!(cache.state.lock().names, 0);
    }

    #[test]
    fn what_was_read_before_a_change_is_not_cached_after_it() {
        let cache = DirectoryCache::new(Coherence::Callback { valid: Duration::from_secs(600) });
        let version = cache.version();
        cache.forget(BELOW);
        cache.put(version, TOP, b"a", &directory());
        cache.put_protection(version, BELOW, protection(0o700));
        assert!(cache.child(TOP, b"a").is_none() && cache.protection(BELOW).is_none());
    }

    #[test]
    fn what_is_cached_for_a_time_is_read_again() {
        let cache = DirectoryCache::new(Coherence::Timestamp { valid: Duration::ZERO });
        cache.put(cache.version(), TOP, b"a", &directory());
        cache.put_protection(cache.version(), BELOW, protection(0o700));
        assert!(cache.child(TOP, b"a").is_none() && cache.protection(BELOW).is_none());
    }

    #[test]
    fn the_number_of_directories_is_bounded() {
        let cache = DirectoryCache::new(Coherence::Own);
        for number in 0..3 * DIRECTORIES {
            let id = FileId { inode: number as u64, ..BELOW };
            cache.put(cache.version(), TOP, number.to_string().as_bytes(), &Directory { id, ..directory() });
            cache.put_protection(cache.version(), id, protection(0));
            let state = cache.state.lock();
            assert!(state.names <= DIRECTORIES && state.protections.len() <= DIRECTORIES);
            assert_eq!(state.names, state.children.values().map(HashMap::len).sum::<usize>());
        }
    }

    #[test]
    fn an_acl_is_needed_only_for_users_who_are_not_the_owner() {
        let bare = protection(0o100);
        assert_eq!([0, 5, 7].map(|uid| bare.permits_search(&user(uid))), [Some(true), Some(true), None]);
        let known = bare.with_acl(None);
        assert_eq!(known.permits_search(&user(7)), Some(false));
        let cache = DirectoryCache::<()>::new(Coherence::Own);
        cache.put_protection(0, BELOW, known);
        cache.put_protection(0, BELOW, protection(0o100));
        assert_eq!(cache.protection(BELOW).and_then(|it| it.permits_search(&user(7))), Some(false), "it is kept");
        cache.put_protection(0, BELOW, protection(0o111));
        assert_eq!(cache.protection(BELOW).and_then(|it| it.permits_search(&user(7))), None);
    }
}
