//! The directory `.snapshots` of a volume, with the record of the snapshots that this program created in it.
//!
//! LVM itself keeps the record of thin volumes (`thin`). On btrfs it is a file here. A name is recorded before its
//! snapshot is created, and btrfs creates a snapshot in one step. So a process that is killed leaves at most a recorded
//! name without a snapshot, which the next run drops. Only a snapshot that is recorded, read-only, and taken of the
//! present subvolume is ever removed.
//!
//! Everything is found from the open root of the volume, and no link is followed, because users may own the directories
//! there, and may exchange the names in them.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use server::policy::snapshots::Format;

use super::btrfs::{self, Subvolume, Uuid};
use super::record::{Taken, shown};
use super::source::{DIRECTORY, Kind, Source, file_of_root, is_empty, is_of_root};
use super::thin::Thin;

const NAME: &str = ".snapshots";
const RECORD: &str = ".frevo-snapshots";
const NEW_RECORD: &str = ".frevo-snapshots.new";
/// Locked by a run. Only root can open it, so no one else can lock it.
const LOCK: &str = ".frevo-snapshots.lock";
/// A record of more bytes is not one. All periods of a schedule together keep 50,000 snapshots, with 91 bytes each.
const RECORD_MAX: u64 = 16 << 20;
const MODE: u32 = 0o755;
/// The mode of a new `.snapshots` until it is known to be empty. A default ACL that it inherits permits no more. No one
/// sets this mode otherwise, so it also shows which directory this program created.
const NEW_MODE: u32 = 0o100;

impl Source {
    /// Opens `.snapshots` and waits for no one; `None` if it does not exist and `make` is not set.
    pub(super) fn holder(&self, make: bool) -> Result<Option<Holder<'_>>> {
        let path = self.path.join(NAME);
        let open = || rustix::fs::openat(&self.directory, NAME, DIRECTORY, Mode::empty());
        let (directory, is_created) = match open() {
            Err(Errno::NOENT) if !make => return Ok(None),
            Err(Errno::NOENT) => {
                let umask = rustix::process::umask(Mode::from_raw_mode(0o777 & !NEW_MODE));
                let created = self.make();
                rustix::process::umask(umask);
                created.with_context(|| format!("cannot create {}; run this command as root", path.display()))?;
                (open().with_context(|| format!("cannot open {}", path.display()))?, true)
            }
            found => (found.with_context(|| format!("cannot open {}; it must be a directory", path.display()))?, false),
        };
        if btrfs::is_placeholder(&directory)? {
            bail!(
                "{0} stands for a subvolume that was not part of a snapshot (after a rollback); run `rmdir {0}`, or \
                 move the former subvolume there",
                path.display()
            );
        }
        let status = rustix::fs::fstat(&directory)?;
        if !is_of_root(&status) {
            bail!("{0} may be changed by others than root; run `chown root {0}` and `chmod go-w {0}`", path.display());
        }
        // A run that was killed may have left it.
        let is_new = status.st_mode & 0o777 & !NEW_MODE == 0;
        if is_new && !make {
            return Ok(None);
        }
        if is_new || is_created {
            self.prepare(&directory).with_context(|| format!("cannot use the new {}", path.display()))?;
        }
        Ok(Some(Holder { source: self, path, directory }))
    }

    fn make(&self) -> io::Result<()> {
        match self.kind {
            // A subvolume of its own is not part of the snapshots.
            Kind::Subvolume { .. } => btrfs::create(&self.directory, &CString::new(NAME)?),
            Kind::Thin(_) => Ok(rustix::fs::mkdirat(&self.directory, NAME, Mode::from_raw_mode(NEW_MODE))?),
        }
    }

    /// Returns whether a directory can be the one that [`Source::make`] has created.
    fn could_make(&self, directory: &OwnedFd) -> Result<bool> {
        let Kind::Subvolume { uuid: of, .. } = self.kind else { return Ok(true) };
        let Subvolume { uuid, parent, read_only } = btrfs::describe(directory)?;
        Ok(btrfs::is_root(directory)? && uuid != of && parent == Uuid::default() && !read_only)
    }

    /// Sets the mode of a new `.snapshots`. A user may have exchanged it with another directory, whose mode must stay.
    fn prepare(&self, directory: &OwnedFd) -> Result<()> {
        let status = rustix::fs::fstat(directory)?;
        let is_own = status.st_uid == 0 && status.st_mode & 0o777 & !NEW_MODE == 0;
        if !is_own || !self.could_make(directory)? {
            bail!("another directory has taken its place; move it away and repeat the command");
        }
        // A default ACL of the directory above was inherited.
        for list in ["system.posix_acl_default", "system.posix_acl_access"] {
            match rustix::fs::fremovexattr(directory, list) {
                Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
                Err(error) => return Err(error).context("cannot remove its ACL"),
            }
        }
        // From now on only root can create names. With another mode these would be trusted, so it is set last.
        if !is_empty(directory)? {
            bail!(
                "its mode is that of a new directory, and it is not empty; run `chmod 755` on it if root has created \
                 all names in it, else move it away and repeat the command"
            );
        }
        rustix::fs::fchmod(directory, Mode::from_raw_mode(MODE))?;
        Ok(())
    }
}

/// The directory `.snapshots`.
pub(super) struct Holder<'a> {
    pub(super) source: &'a Source,
    pub(super) path: PathBuf,
    pub(super) directory: OwnedFd,
}

/// The recorded snapshots that exist, each the oldest first.
#[derive(Default)]
pub(super) struct Recorded {
    /// Those of the present volume.
    pub(super) taken: Vec<Taken>,
    /// Those of a volume that the present one has replaced (a rollback). They are not removed.
    pub(super) former: Vec<Taken>,
    /// Those that somebody has made writable. They may have been changed, and are not removed.
    pub(super) writable: Vec<Taken>,
    /// Those that cannot be examined, with the reason.
    pub(super) unexamined: Vec<(Taken, String)>,
    /// Those of all these that should be mounted and are not.
    pub(super) unmounted: Vec<Taken>,
}

impl Recorded {
    /// Returns what is to be recorded, in order.
    fn all(self) -> Vec<Taken> {
        let unexamined = self.unexamined.into_iter().map(|(entry, _)| entry);
        let mut all: Vec<Taken> =
            self.taken.into_iter().chain(self.former).chain(self.writable).chain(unexamined).collect();
        all.sort_unstable();
        all
    }
}

/// What a recorded name leads to.
enum Found {
    /// The snapshot, with its own UUID.
    Own(Uuid),
    /// The snapshot, which is no longer read-only.
    Writable(Uuid),
    /// Nothing, or something that this program did not create.
    Other,
}

/// Holds off other runs until it is dropped.
pub(super) struct Lock<'a> {
    holder: &'a Holder<'a>,
    /// Closing it ends the lock.
    _file: File,
}

impl Holder<'_> {
    /// Locks the directory against other runs of this program.
    pub(super) fn lock(&self) -> Result<Lock<'_>> {
        let path = self.path.join(LOCK);
        let cannot = || format!("cannot open {}", path.display());
        let opened = file_of_root(&self.directory, LOCK, OFlags::RDWR | OFlags::CREATE).with_context(cannot)?;
        let file = opened.with_context(cannot)?;
        if rustix::fs::fstat(&file).with_context(cannot)?.st_mode & 0o077 != 0 {
            bail!("{0} may be opened by others than root; run `chmod 600 {0}`", path.display());
        }
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Lock { holder: self, _file: file }),
            Err(Errno::WOULDBLOCK) => bail!("another run works on {}; wait for its end", self.path.display()),
            Err(error) => Err(error).with_context(|| format!("cannot lock {}", path.display())),
        }
    }

    fn thin(&self) -> Option<&Thin> {
        match &self.source.kind {
            Kind::Subvolume { .. } => None,
            Kind::Thin(thin) => Some(thin),
        }
    }

    /// Returns the recorded snapshots that exist.
    pub(super) fn recorded(&self) -> Result<Recorded> {
        if let Some(thin) = self.thin() {
            return thin.recorded(self);
        }
        let mut found = Recorded::default();
        let mut record = self.record()?;
        record.sort_unstable();
        record.dedup();
        for entry in record {
            match self.find(&entry) {
                Ok(Found::Own(own)) if entry.of == self.source.id => {
                    found.taken.push(Taken { own: Some(shown(&own)), ..entry });
                }
                Ok(Found::Own(own)) => found.former.push(Taken { own: Some(shown(&own)), ..entry }),
                Ok(Found::Writable(own)) => found.writable.push(Taken { own: Some(shown(&own)), ..entry }),
                Ok(Found::Other) => {}
                Err(error) => {
                    let why = format!("cannot examine {}: {error:#}", self.path.join(&entry.name).display());
                    found.unexamined.push((entry, why));
                }
            }
        }
        // Before and after its UUID was added, an entry is the same one.
        for list in [&mut found.taken, &mut found.former, &mut found.writable] {
            list.dedup();
        }
        Ok(found)
    }

    /// Looks up the snapshot that was recorded.
    fn find(&self, entry: &Taken) -> Result<Found> {
        let directory = match rustix::fs::openat(&self.directory, entry.name.as_str(), DIRECTORY, Mode::empty()) {
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => return Ok(Found::Other),
            found => found?,
        };
        if !btrfs::is_root(&directory)? {
            return Ok(Found::Other);
        }
        let Subvolume { uuid, parent, read_only } = btrfs::describe(&directory)?;
        Ok(match shown(&parent) == entry.of && entry.own.as_ref().is_none_or(|own| *own == shown(&uuid)) {
            true if read_only => Found::Own(uuid),
            true => Found::Writable(uuid),
            false => Found::Other,
        })
    }

    /// Reads the record. A line that cannot be understood is an error, because it would be lost with the next change.
    fn record(&self) -> Result<Vec<Taken>> {
        let path = self.path.join(RECORD);
        let opened = file_of_root(&self.directory, RECORD, OFlags::RDONLY);
        let Some(file) = opened.with_context(|| format!("cannot open {}", path.display()))? else {
            return Ok(Vec::new());
        };
        let mut text = String::new();
        let read = file.take(RECORD_MAX + 1).read_to_string(&mut text);
        read.with_context(|| format!("cannot read {}", path.display()))?;
        let parsed: Option<Vec<Taken>> = text.lines().map(Taken::parse).collect();
        match parsed.filter(|_| text.len() as u64 <= RECORD_MAX) {
            Some(parsed) => Ok(parsed),
            None => bail!("{} is damaged; remove it, and snapshots in it are no longer pruned", path.display()),
        }
    }
}

impl Lock<'_> {
    /// Creates a snapshot of the volume.
    pub(super) fn create(&self, moment: i64) -> Result<Taken> {
        let holder = self.holder;
        let name = String::from_utf8(Format::token().name(moment, None))?;
        let mut new = Taken { moment, name, of: holder.source.id.clone(), own: None };
        if let Some(thin) = holder.thin() {
            return thin.create(holder, &new);
        }
        let path = holder.path.join(&new.name);
        let mut all = holder.recorded()?.all();
        // An entry of this name that exists belongs to someone else, and must not be recorded.
        let exists = rustix::fs::statat(&holder.directory, new.name.as_str(), rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
        if !matches!(exists, Err(Errno::NOENT)) {
            bail!("{} exists; wait a second and repeat the command", path.display());
        }
        all.push(new.clone());
        self.write(&all)?;
        let name = CString::new(new.name.as_str())?;
        let created = btrfs::create_snapshot(&holder.directory, &name, holder.source.directory.as_fd());
        created.with_context(|| format!("cannot create {}", path.display()))?;
        let found = holder.find(&new).with_context(|| format!("cannot examine {}", path.display()))?;
        let Found::Own(own) = found else { bail!("{} is not the new snapshot", path.display()) };
        new.own = Some(shown(&own));
        Ok(new)
    }

    /// Removes a snapshot.
    pub(super) fn remove(&self, taken: &Taken) -> Result<()> {
        let holder = self.holder;
        if let Some(thin) = holder.thin() {
            return thin.remove(holder, taken);
        }
        let path = holder.path.join(&taken.name);
        let found = holder.find(taken).with_context(|| format!("cannot examine {}", path.display()))?;
        if taken.of != holder.source.id || !matches!(found, Found::Own(_)) {
            bail!("{} is not the snapshot that was recorded; it is kept", path.display());
        }
        let destroyed = btrfs::destroy(&holder.directory, &CString::new(taken.name.as_str())?);
        destroyed.with_context(|| format!("cannot remove {}", path.display()))
    }

    /// Mounts snapshots, and returns what happened to each.
    pub(super) fn mount(&self, unmounted: &[Taken]) -> Result<Vec<(Taken, Result<()>)>> {
        self.holder.thin().map_or(Ok(Vec::new()), |thin| thin.mount_all(self.holder, unmounted))
    }

    /// Drops names from the record whose snapshots no longer exist, and adds the UUIDs of new ones.
    pub(super) fn tidy(&self) -> Result<()> {
        if let Some(thin) = self.holder.thin() {
            return thin.tidy(self.holder);
        }
        let before = self.holder.record()?;
        let all = self.holder.recorded()?.all();
        if all == before { Ok(()) } else { self.write(&all) }
    }

    /// Replaces the record in one step.
    fn write(&self, all: &[Taken]) -> Result<()> {
        let holder = self.holder;
        let text: String = all.iter().map(Taken::line).collect();
        if text.len() as u64 > RECORD_MAX {
            bail!(
                "{} would be longer than {RECORD_MAX} bytes; remove snapshots with `btrfs subvolume delete`",
                holder.path.join(RECORD).display()
            );
        }
        let replace = || -> io::Result<()> {
            match rustix::fs::unlinkat(&holder.directory, NEW_RECORD, rustix::fs::AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(0o600);
            let mut file = File::from(rustix::fs::openat(&holder.directory, NEW_RECORD, flags, mode)?);
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            rustix::fs::renameat(&holder.directory, NEW_RECORD, &holder.directory, RECORD)?;
            rustix::fs::fsync(&holder.directory)?;
            Ok(())
        };
        replace().with_context(|| format!("cannot write {}", holder.path.join(RECORD).display()))
    }
}
