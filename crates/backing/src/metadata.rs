//! File metadata: what the storage reports ([`Stat`]) combined with `user.DOSATTRIB`, which is cached so that it is
//! read once per change.
//!
//! A change of an attribute changes the file's change time, so the cached value is valid while that time is unchanged.
//! If the [`Clock`] behind it ticks slowly, a recently changed file may change again without a new time. Values read
//! from such a file are not cached.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use server::acl::ntacl;
use server::vfs::xattr::{ChangeTime, DOSATTRIB, DosAttributes};
use server::vfs::{Errno, FileId, Kind, Metadata, Result, SetMetadata, SpecialFile, Time, XattrSet};

use crate::attribute_table::AttributeTable;
use crate::clock::Clock;
use crate::predictor::Predictor;

/// The longest interval at which Linux's coarse clock advances, in nanoseconds. A creation time stored less than this
/// before the file's birth means the birth. It is read from the clock just before the file is created, which saves a
/// query of the file.
const JUST_BEFORE: i128 = 10_000_000;

/// What the storage reports about a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stat {
    /// Identity of the file. Files of two volumes never have the same one.
    pub id: FileId,
    /// Type of the file.
    pub kind: Kind,
    /// Size in bytes; of a directory, any number.
    pub size: u64,
    /// Bytes allocated.
    pub allocated: u64,
    /// Number of hard links.
    pub links: u32,
    /// Permission bits with set-id and sticky bits (`0o7777`).
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last access.
    pub accessed: Time,
    /// Last change of content.
    pub modified: Time,
    /// Last change of anything, which cannot be set.
    pub changed: Time,
    /// Birth time, if the storage reports it.
    pub born: Option<Time>,
    /// Whether the storage compresses data written to the file, or to new files in the directory.
    pub compressed: bool,
    /// Whether something is mounted there.
    pub is_mounted: bool,
    /// The type of a special file; `None` for others.
    pub special: Option<SpecialFile>,
}

/// How the attributes of one file are accessed. The values are those of the extended attributes of Linux.
pub trait AttributeAccess {
    /// Reads the attribute `name` and returns the length of its value; `Errno::NODATA` if the file has none.
    fn get(&self, name: &str, value: &mut [u8]) -> Result<usize>;

    /// Lists the names of all attributes, each with a NUL after it, and returns their length.
    fn list(&self, names: &mut [u8]) -> Result<usize>;

    /// Sets the attribute `name`, which may exist, to `value`.
    fn set(&self, name: &str, value: &[u8]) -> Result<()>;

    /// Makes further calls with the server's own identity, until the caller asserts another one.
    fn assume_server(&self) -> Result<()>;

    /// Returns whether the access is by a handle. A name may refer to another file by now, so what is read by a name is
    /// only good enough for DOS attributes.
    fn is_handle(&self) -> bool;
}

/// A cache of the attributes of many files. The first of the [attributes](server::vfs::Capabilities::attributes) that
/// their volume declares must be [`ntacl::ATTRIBUTE`].
pub struct MetadataCache {
    table: Arc<AttributeTable>,
    clock: Clock,
    /// Number of times that an attribute was read.
    reads: AtomicU64,
    /// Whether the next file is expected to have neither DOS attributes nor a security descriptor.
    empty: Predictor,
}

impl MetadataCache {
    /// Creates a cache in `table` for files stamped by `clock`.
    pub fn new(clock: Clock, table: Arc<AttributeTable>) -> MetadataCache {
        MetadataCache { table, clock, reads: AtomicU64::new(0), empty: Predictor::default() }
    }

    /// Returns the metadata of the file described by `stat`, with attributes read by `access`. Every user who can see
    /// the file may see its DOS attributes. If the user may not read them, the server does, and the thread keeps the
    /// server's identity.
    pub fn metadata(&self, stat: &Stat, access: &impl AttributeAccess) -> Metadata {
        // Linux supports user attributes of files and directories only.
        if !matches!(stat.kind, Kind::File | Kind::Directory) {
            return stat.metadata(DosAttributes::default());
        }
        if let Some((attributes, no_descriptor)) = self.table.get(stat.id, stat.changed) {
            let absent = if no_descriptor { XattrSet::FIRST } else { XattrSet::default() };
            return Metadata { absent, ..stat.metadata(attributes) };
        }
        self.reads.fetch_add(1, Ordering::Relaxed);
        let looks_empty = || self.table.was_empty(stat.id).unwrap_or_else(|| self.empty.expects());
        if access.is_handle() && self.clock.is_local(stat.id.device) && looks_empty() {
            if self.is_empty(stat, access) {
                return Metadata { absent: XattrSet::FIRST, ..stat.metadata(DosAttributes::default()) };
            }
            self.table.note_filled(stat.id);
            self.empty.miss();
        }
        let Some(attributes) = read(access) else { return stat.metadata(DosAttributes::default()) };
        if attributes != DosAttributes::default() {
            self.empty.miss();
        }
        if self.clock.shows_attributes(stat.id.device, stat.changed) {
            self.table.put(stat.id, stat.changed, attributes);
        }
        stat.metadata(attributes)
    }

    /// Returns whether the file has neither DOS attributes nor a security descriptor, and caches that.
    fn is_empty(&self, stat: &Stat, access: &impl AttributeAccess) -> bool {
        // That there is no security descriptor is cached later than DOS attributes are, because granting too much is
        // worse than showing old values.
        let over = self.clock.is_old(stat.changed);
        let empty = has_neither(access);
        if empty && self.clock.shows_attributes(stat.id.device, stat.changed) {
            self.table.put(stat.id, stat.changed, DosAttributes::default());
        }
        if empty && over {
            self.table.note_no_descriptor(stat.id, stat.changed);
        }
        empty
    }

    /// Records that the file had no security descriptor after its last change at `stamped`.
    pub fn note_no_descriptor(&self, file: FileId, stamped: Time) {
        if self.table.note_no_descriptor(file, stamped) {
            self.empty.hit();
        }
    }

    /// Discards the cache entry of a file that was removed or lost a name.
    pub fn forget(&self, file: FileId) {
        self.table.forget(file);
    }

    /// Returns how many times an attribute was read.
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Returns whether anything is cached for the file.
    pub fn contains(&self, file: FileId) -> bool {
        self.table.contains(file)
    }
}

/// Returns the DOS attributes as stored now, never from a cache.
pub fn stored(access: &impl AttributeAccess) -> DosAttributes {
    read(access).unwrap_or_default()
}

/// Reads the attribute; `None` if it could not be queried. An unparsable value is treated as missing.
fn read(access: &impl AttributeAccess) -> Option<DosAttributes> {
    let mut buffer = [0; 256];
    let mut result = access.get(DOSATTRIB, &mut buffer);
    if matches!(result, Err(Errno::ACCES | Errno::PERM)) && access.assume_server().is_ok() {
        result = access.get(DOSATTRIB, &mut buffer);
    }
    match result {
        Ok(length) => Some(buffer.get(..length).and_then(DosAttributes::decode).unwrap_or_default()),
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::RANGE) => Some(DosAttributes::default()),
        Err(_) => None,
    }
}

/// Returns whether the file has neither DOS attributes nor a security descriptor, with one call instead of two.
fn has_neither(access: &impl AttributeAccess) -> bool {
    let mut names = [0; 512];
    let length = access.list(&mut names);
    let Some(names) = length.ok().and_then(|length| names.get(..length)) else { return false };
    let wanted = [DOSATTRIB.as_bytes(), ntacl::ATTRIBUTE.as_bytes()];
    !names.split(|&byte| byte == 0).any(|name| wanted.contains(&name))
}

/// Stores the attributes. The owner may do so whatever the file's mode, because read-only files have attributes too.
/// The thread may have the server's identity afterwards.
///
/// # Errors
/// Those of the storage.
pub fn store(access: &impl AttributeAccess, attributes: &DosAttributes, is_owner: bool) -> Result<()> {
    let value = attributes.encode();
    match access.set(DOSATTRIB, &value) {
        Err(Errno::ACCES | Errno::PERM) if is_owner => {
            access.assume_server()?;
            access.set(DOSATTRIB, &value)
        }
        done => done,
    }
}

/// Returns the attributes expected for the next new file, if the clock that stamps it is at `now`. Local file systems
/// stamp it by the kernel's coarse clock, or by a finer one that is not earlier.
pub fn expected_attributes(kind: Kind, attributes: u32, now: Time) -> DosAttributes {
    DosAttributes { attributes: Some(attributes), created: Some(now), changed: None }.as_stored(kind)
}

/// Returns whether a stored creation time means the birth of the file.
pub fn is_birth(stored: Time, born: Time) -> bool {
    let nanos = |time: Time| i128::from(time.secs) * 1_000_000_000 + i128::from(time.nanos);
    (0..JUST_BEFORE).contains(&(nanos(born) - nanos(stored)))
}

impl Stat {
    /// Builds the metadata of the file, which has these DOS attributes.
    pub fn metadata(&self, dos: DosAttributes) -> Metadata {
        let Stat { accessed, modified, changed, born, .. } = *self;
        Metadata {
            id: self.id,
            kind: self.kind,
            size: if self.kind == Kind::Directory { 0 } else { self.size },
            allocated: self.allocated,
            links: self.links,
            mode: self.mode,
            uid: self.uid,
            gid: self.gid,
            accessed,
            modified,
            stamped: changed,
            changed: dos.changed.filter(|set| set.holds(modified)).map_or(changed, |set| set.time),
            born,
            created: match (dos.created, born) {
                (Some(stored), Some(born)) if is_birth(stored, born) => born,
                (stored, born) => stored.or(born).unwrap_or_else(|| accessed.min(modified).min(changed)),
            },
            dos_attributes: dos.attributes,
            compressed: self.compressed,
            is_mounted: self.is_mounted,
            special: self.special,
            absent: XattrSet::default(),
        }
    }

    /// Returns the attributes of a new file: its creation time is the storage's own.
    pub fn first_attributes(&self, attributes: u32) -> DosAttributes {
        let plain = self.metadata(DosAttributes::default());
        DosAttributes { attributes: Some(attributes), created: Some(plain.created), changed: None }.as_stored(self.kind)
    }

    /// Returns the attributes to store for the changes of `set`, if the file has the attributes `stored`.
    pub fn changed_attributes(&self, stored: DosAttributes, set: &SetMetadata) -> DosAttributes {
        let modified = set.modified.unwrap_or(self.modified);
        let wanted = DosAttributes {
            attributes: set.dos_attributes.or(stored.attributes),
            created: set.created.or(Some(self.metadata(stored).created)),
            changed: set.changed.map(|time| ChangeTime { time, modified }),
        };
        wanted.as_stored(self.kind)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;

    const fn at(secs: i64, nanos: u32) -> Time {
        Time { secs, nanos }
    }

    /// A file in memory.
    #[derive(Default)]
    struct File {
        attributes: RefCell<BTreeMap<String, Vec<u8>>>,
        /// The number of calls.
        calls: Cell<usize>,
        /// Whether only the server may access attributes, and whether the caller acts as the server.
        is_closed: bool,
        is_server: Cell<bool>,
        /// The error of all calls.
        error: Option<Errno>,
    }

    impl File {
        fn call(&self) -> Result<()> {
            self.calls.set(self.calls.get() + 1);
            match self.error {
                Some(error) => Err(error),
                None if self.is_closed && !self.is_server.get() => Err(Errno::ACCES),
                None => Ok(()),
            }
        }
    }

    impl AttributeAccess for File {
        fn get(&self, name: &str, value: &mut [u8]) -> Result<usize> {
            self.call()?;
            let attributes = self.attributes.borrow();
            let stored = attributes.get(name).ok_or(Errno::NODATA)?;
            value.get_mut(..stored.len()).ok_or(Errno::RANGE)?.copy_from_slice(stored);
            Ok(stored.len())
        }

        fn list(&self, names: &mut [u8]) -> Result<usize> {
            self.call()?;
            let list: Vec<u8> =
                self.attributes.borrow().keys().flat_map(|name| [name.as_bytes(), b"\0"].concat()).collect();
            names.get_mut(..list.len()).ok_or(Errno::RANGE)?.copy_from_slice(&list);
            Ok(list.len())
        }

        fn set(&self, name: &str, value: &[u8]) -> Result<()> {
            self.call()?;
            self.attributes.borrow_mut().insert(name.to_owned(), value.to_vec());
            Ok(())
        }

        fn assume_server(&self) -> Result<()> {
            self.is_server.set(true);
            Ok(())
        }

        fn is_handle(&self) -> bool {
            true
        }
    }

    fn stat(inode: u64) -> Stat {
        Stat {
            id: FileId { device: 1, inode, stream: 0 },
            kind: Kind::File,
            size: 5,
            allocated: 512,
            links: 1,
            mode: 0o644,
            uid: 1,
            gid: 1,
            accessed: at(40, 1),
            modified: at(30, 1),
            changed: at(50, 1),
            born: Some(at(20, 100)),
            compressed: false,
            is_mounted: false,
            special: None,
        }
    }

    fn cache() -> MetadataCache {
        MetadataCache::new(Clock::ticking(Duration::ZERO).with_local_device(1), Arc::new(AttributeTable::new(1)))
    }

    const READ_ONLY: DosAttributes = DosAttributes { attributes: Some(1), created: None, changed: None };

    #[test]
    fn a_creation_time_from_just_before_is_the_birth() {
        for (stored, born, same) in [
            (at(5, 100), at(5, 199), true),
            (at(4, 999_000_000), at(5, 2_000_000), true),
            (at(5, 0), at(5, 10_000_000), false),
            (at(5, 100), at(5, 0), false),
        ] {
            assert_eq!(is_birth(stored, born), same, "{stored:?} {born:?}");
        }
    }

    #[test]
    fn attributes_are_read_once_per_change() {
        let (cache, file) = (cache(), File::default());
        assert_eq!(store(&file, &READ_ONLY, false), Ok(()));
        for (stat, calls) in [(stat(1), 2), (stat(1), 2), (Stat { changed: at(51, 0), ..stat(1) }, 3), (stat(2), 4)] {
            assert_eq!(cache.metadata(&stat, &file).dos_attributes, Some(1));
            assert_eq!(file.calls.get(), calls);
        }
        cache.forget(stat(2).id);
        assert_eq!((cache.contains(stat(1).id), cache.contains(stat(2).id), cache.reads()), (true, false, 3));
    }

    #[test]
    fn attributes_of_a_file_that_may_change_unnoticed_are_not_cached() {
        let clock = Clock::ticking(Duration::from_secs(3600));
        let (cache, file) = (MetadataCache::new(clock, Arc::new(AttributeTable::new(1))), File::default());
        let recent = Stat { changed: at(i64::MAX, 1), ..stat(1) };
        assert_eq!(cache.metadata(&recent, &file).dos_attributes, None);
        assert_eq!(store(&file, &READ_ONLY, false), Ok(()));
        assert_eq!(cache.metadata(&recent, &file).dos_attributes, Some(1));
    }

    #[test]
    fn an_error_is_not_cached_as_a_missing_attribute() {
        let (cache, mut file) = (cache(), File::default());
        assert_eq!(store(&file, &READ_ONLY, false), Ok(()));
        file.error = Some(Errno::IO);
        assert_eq!(cache.metadata(&stat(1), &file).dos_attributes, None);
        file.error = None;
        assert_eq!(cache.metadata(&stat(1), &file).dos_attributes, Some(1));
    }

    #[test]
    fn files_without_attributes_are_read_with_one_call_once_they_are_expected() {
        let (cache, file) = (cache(), File::default());
        for inode in 1..=2 {
            assert_eq!(cache.metadata(&stat(inode), &file).absent, XattrSet::default());
            cache.note_no_descriptor(stat(inode).id, stat(inode).changed);
        }
        let calls = file.calls.get();
        assert_eq!(cache.metadata(&stat(3), &file).absent, XattrSet::FIRST, "the list of its attributes is empty");
        assert_eq!(cache.metadata(&stat(3), &file).absent, XattrSet::FIRST, "this is cached");
        assert_eq!(file.calls.get(), calls + 1);
        for (name, dos) in [(ntacl::ATTRIBUTE, None), (DOSATTRIB, Some(1))] {
            let other = File::default();
            assert_eq!(other.set(name, &READ_ONLY.encode()), Ok(()));
            let metadata = cache.metadata(&stat(4), &other);
            assert_eq!((metadata.absent, metadata.dos_attributes), (XattrSet::default(), dos));
            cache.forget(stat(4).id);
        }
    }

    #[test]
    fn the_server_reads_what_the_user_may_not_and_stores_for_the_owner_only() {
        let (cache, file) = (cache(), File { is_closed: true, ..File::default() });
        assert_eq!(store(&file, &READ_ONLY, false), Err(Errno::ACCES));
        assert!(!file.is_server.get());
        assert_eq!(store(&file, &READ_ONLY, true), Ok(()));
        file.is_server.set(false);
        assert_eq!(cache.metadata(&stat(1), &file).dos_attributes, Some(1));
        file.is_server.set(false);
        assert_eq!(stored(&file), READ_ONLY);
    }

    #[test]
    fn changes_leave_other_attributes_as_they_are() {
        let past = DosAttributes { attributes: Some(2), created: Some(at(7, 100)), changed: None };
        let set = |set: SetMetadata| stat(1).changed_attributes(past, &set);
        assert_eq!(set(SetMetadata::default()), past);
        assert_eq!(
            set(SetMetadata { dos_attributes: Some(1), ..SetMetadata::default() }),
            DosAttributes { attributes: Some(1), ..past }
        );
        let changed = set(SetMetadata { changed: Some(at(60, 0)), ..SetMetadata::default() });
        assert_eq!((stat(1).metadata(changed).changed, stat(1).metadata(changed).stamped), (at(60, 0), at(50, 1)));
        assert_eq!(stat(1).first_attributes(2).created, Some(at(20, 100)));
        let directory = Stat { kind: Kind::Directory, born: None, ..stat(1) };
        assert_eq!(directory.first_attributes(2).attributes, Some(0x12));
        let metadata = directory.metadata(DosAttributes::default());
        assert_eq!((metadata.size, metadata.created), (0, at(30, 1)), "the earliest time without a birth time");
    }
}
