//! File metadata: the result of statx combined with `user.DOSATTRIB`, which is cached so that it is read once per
//! change.
//!
//! A change of an attribute changes the inode's change time, so the cached value is valid while that time is unchanged.
//! If the [`Clock`] behind it ticks slowly, a recently changed file may change again without a new time. Values read
//! from such a file are not cached.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FileType, Statx, StatxAttributes, StatxFlags, StatxTimestamp, XattrFlags};
use rustix::io::Errno as Raw;
use server::acl::ntacl;
use server::vfs::xattr::{DOSATTRIB, DosAttributes};
use server::vfs::{FileId, Kind, Metadata, Time};

use crate::root::id;
use crate::{held, identity};
use backing::attribute_table::AttributeTable;
use backing::clock::Clock;
use backing::predictor::Predictor;

/// The longest interval at which Linux's coarse clock advances, in nanoseconds. A creation time stored less than this
/// before the file's birth means the birth. It is read from the clock just before the file is created, which saves a
/// query of the file.
const JUST_BEFORE: i128 = 10_000_000;

/// Where attributes are read from.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a, Fd> {
    /// A descriptor with data access.
    Open(Fd),
    /// A descriptor without data access, whose attributes are accessed by a path.
    Held(Fd),
    /// A name in a directory.
    Named(Fd, &'a [u8]),
}

impl<Fd: AsFd> Source<'_, Fd> {
    /// Sets the attribute `name` to `value`.
    pub(crate) fn set(&self, name: &str, value: &[u8], how: XattrFlags) -> rustix::io::Result<()> {
        match self {
            Source::Open(fd) => rustix::fs::fsetxattr(fd, name, value, how),
            Source::Held(fd) => rustix::fs::setxattr(held::path(fd), name, value, how),
            Source::Named(..) => Err(Raw::BADF),
        }
    }
}

/// A cache of the attributes of many files.
pub(crate) struct Cache {
    table: Arc<AttributeTable>,
    clock: Clock,
    /// Number of times that an attribute was read.
    reads: AtomicU64,
    /// Whether the next file is expected to have neither DOS attributes nor a security descriptor.
    empty: Predictor,
}

impl Cache {
    /// Creates an empty cache for files stamped by `clock`.
    pub(crate) fn new(clock: Clock) -> Cache {
        Cache { table: AttributeTable::of_process(), clock, reads: AtomicU64::new(0), empty: Predictor::default() }
    }

    /// Returns the metadata of the file described by `stat`, with attributes read from `source`. Every user who can see
    /// the file may see its DOS attributes. If the user may not read them, the process does, and the thread keeps the
    /// process's identity.
    pub(crate) fn metadata(&self, stat: &Statx, source: Source<'_, impl AsFd>) -> Metadata {
        let kind = kind(stat);
        // Linux supports user attributes of files and directories only.
        if !matches!(kind, Kind::File | Kind::Directory) {
            return describe(stat, DosAttributes::default());
        }
        let (file, changed) = (id(stat), time(stat.stx_ctime));
        if let Some((attributes, no_descriptor)) = self.table.get(file, changed) {
            return Metadata { no_descriptor, ..describe(stat, attributes) };
        }
        self.reads.fetch_add(1, Ordering::Relaxed);
        // The name may refer to another file by now, so its data is only good enough for DOS attributes.
        let is_held = !matches!(source, Source::Named(..));
        let looks_empty = || self.table.was_empty(file).unwrap_or_else(|| self.empty.expects());
        if is_held && self.clock.is_local(file.device) && looks_empty() {
            // That there is no security descriptor is cached later than DOS attributes are, because granting too much
            // is worse than showing old values.
            let over = self.clock.is_old(changed);
            if is_empty(&source) {
                if self.clock.shows_attributes(file.device, changed) {
                    self.table.put(file, changed, DosAttributes::default());
                }
                if over {
                    self.table.note_no_descriptor(file, changed);
                }
                return Metadata { no_descriptor: true, ..describe(stat, DosAttributes::default()) };
            }
            self.table.note_filled(file);
            self.empty.miss();
        }
        let Some(attributes) = read(&source) else { return describe(stat, DosAttributes::default()) };
        if attributes != DosAttributes::default() {
            self.empty.miss();
        }
        if self.clock.shows_attributes(file.device, changed) {
            self.table.put(file, changed, attributes);
        }
        describe(stat, attributes)
    }

    /// Records that the file had no security descriptor after its last change at `stamped`.
    pub(crate) fn note_no_descriptor(&self, file: FileId, stamped: Time) {
        if self.table.note_no_descriptor(file, stamped) {
            self.empty.hit();
        }
    }

    /// Discards the cache entry of a file that was removed or lost a name.
    pub(crate) fn forget(&self, file: FileId) {
        self.table.forget(file);
    }

    #[cfg(test)]
    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(crate) fn has(&self, file: FileId) -> bool {
        self.table.contains(file)
    }

    /// Returns the attributes as stored now, never from the cache.
    pub(crate) fn stored(&self, source: Source<'_, impl AsFd>) -> DosAttributes {
        read(&source).unwrap_or_default()
    }
}

/// Reads the attribute; `None` if it could not be queried. An unparsable value is treated as missing.
fn read(source: &Source<'_, impl AsFd>) -> Option<DosAttributes> {
    let mut buffer = [0; 256];
    let mut result = get(source, &mut buffer);
    if matches!(result, Err(Raw::ACCESS | Raw::PERM)) && identity::assume_process().is_ok() {
        result = get(source, &mut buffer);
    }
    match result {
        Ok(length) => Some(buffer.get(..length).and_then(DosAttributes::decode).unwrap_or_default()),
        Err(Raw::NODATA | Raw::OPNOTSUPP | Raw::RANGE) => Some(DosAttributes::default()),
        Err(_) => None,
    }
}

/// Returns whether the file has neither DOS attributes nor a security descriptor, with one call instead of two.
fn is_empty(source: &Source<'_, impl AsFd>) -> bool {
    let mut names = [0; 512];
    let length = match source {
        Source::Open(fd) => rustix::fs::flistxattr(fd, &mut names),
        Source::Held(fd) => held::listxattr(fd, &mut names),
        Source::Named(..) => return false,
    };
    let Some(names) = length.ok().and_then(|length| names.get(..length)) else { return false };
    let wanted = [DOSATTRIB.as_bytes(), ntacl::ATTRIBUTE.as_bytes()];
    !names.split(|&byte| byte == 0).any(|name| wanted.contains(&name))
}

fn get(source: &Source<'_, impl AsFd>, buffer: &mut [u8]) -> rustix::io::Result<usize> {
    match source {
        Source::Open(fd) => rustix::fs::fgetxattr(fd, DOSATTRIB, buffer),
        Source::Held(fd) => held::getxattr(fd, DOSATTRIB, buffer),
        Source::Named(directory, name) => held::getxattr_of(directory, name, DOSATTRIB, buffer),
    }
}

/// Returns the attributes of a new file: its creation time is the file system's own.
pub(crate) fn first_attributes(stat: &Statx, attributes: u32) -> DosAttributes {
    let plain = describe(stat, DosAttributes::default());
    DosAttributes { attributes: Some(attributes), created: Some(plain.created), changed: None }.as_stored(plain.kind)
}

/// Returns the attributes expected for the next new file. Local file systems stamp it by the kernel's coarse clock, or
/// by a finer one that is not earlier.
pub(crate) fn expected_attributes(kind: Kind, attributes: u32) -> DosAttributes {
    DosAttributes { attributes: Some(attributes), created: Some(coarse_now()), changed: None }.as_stored(kind)
}

/// Returns the time of the kernel's coarse clock.
pub(crate) fn coarse_now() -> Time {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    Time { secs: now.tv_sec, nanos: now.tv_nsec as u32 }
}

/// Returns the file's birth time, if the file system reports it.
pub(crate) fn birth(stat: &Statx) -> Option<Time> {
    (stat.stx_mask & StatxFlags::BTIME.bits() != 0).then(|| time(stat.stx_btime))
}

/// Stores the attributes. The owner may do so whatever the file's mode, because read-only files have attributes too.
/// The thread may have the process's identity afterwards.
pub(crate) fn store(
    source: Source<'_, impl AsFd>,
    attributes: &DosAttributes,
    is_owner: bool,
) -> server::vfs::Result<()> {
    let value = attributes.encode();
    let set = || source.set(DOSATTRIB, &value, XattrFlags::empty());
    match set() {
        Err(Raw::ACCESS | Raw::PERM) if is_owner => {
            identity::assume_process().map_err(crate::errno)?;
            set().map_err(crate::errno)
        }
        done => done.map_err(crate::errno),
    }
}

/// Returns the type of the file.
pub(crate) fn kind(stat: &Statx) -> Kind {
    match FileType::from_raw_mode(stat.stx_mode.into()) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink,
        _ => Kind::Special,
    }
}

pub(crate) fn time(stamp: StatxTimestamp) -> Time {
    Time { secs: stamp.tv_sec, nanos: stamp.tv_nsec }
}

/// Returns whether a stored creation time means the birth of the file.
pub(crate) fn is_birth(stored: Time, born: Time) -> bool {
    let nanos = |time: Time| i128::from(time.secs) * 1_000_000_000 + i128::from(time.nanos);
    (0..JUST_BEFORE).contains(&(nanos(born) - nanos(stored)))
}

/// Builds the metadata of the file described by `stat`.
pub(crate) fn describe(stat: &Statx, dos: DosAttributes) -> Metadata {
    let (accessed, modified, changed) = (time(stat.stx_atime), time(stat.stx_mtime), time(stat.stx_ctime));
    let born = birth(stat);
    let kind = kind(stat);
    Metadata {
        id: id(stat),
        kind,
        size: if kind == Kind::Directory { 0 } else { stat.stx_size },
        allocated: stat.stx_blocks.saturating_mul(512),
        links: stat.stx_nlink,
        mode: u32::from(stat.stx_mode) & 0o7777,
        uid: stat.stx_uid,
        gid: stat.stx_gid,
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
        compressed: stat.stx_attributes.contains(StatxAttributes::COMPRESSED),
        no_descriptor: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_creation_time_from_just_before_is_the_birth() {
        let at = |secs, nanos| Time { secs, nanos };
        for (stored, born, same) in [
            (at(5, 100), at(5, 199), true),
            (at(4, 999_000_000), at(5, 2_000_000), true),
            (at(5, 0), at(5, 10_000_000), false),
            (at(5, 100), at(5, 0), false),
        ] {
            assert_eq!(is_birth(stored, born), same, "{stored:?} {born:?}");
        }
    }
}
