//! The directory `.snapshots` of a subvolume, with the record of the snapshots that this program created in it.
//!
//! A name is recorded before its snapshot is created, and btrfs creates a snapshot in one step. So a process that is
//! killed leaves at most a recorded name without a snapshot, which the next run drops. Only a snapshot that is
//! recorded, read-only, and taken of the recorded subvolume is ever removed.
//!
//! Everything is found from the open subvolume, and no link is followed, because users may own the directories there.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use server::policy::snapshots::Format;

use super::btrfs::{self, Uuid};

const NAME: &str = ".snapshots";
const RECORD: &str = ".frevo-snapshots";
const NEW_RECORD: &str = ".frevo-snapshots.new";
/// A record of more bytes is not one.
const RECORD_MAX: u64 = 4 << 20;
const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A subvolume that contains a share.
pub(super) struct Source {
    /// Where it is found.
    pub(super) path: PathBuf,
    directory: OwnedFd,
    pub(super) uuid: Uuid,
}

impl Source {
    /// Finds the subvolume that contains the directory `path`.
    pub(super) fn of(path: &Path) -> Result<Source> {
        let path = std::fs::canonicalize(path).with_context(|| format!("cannot find {}", path.display()))?;
        for above in path.ancestors() {
            let opened = rustix::fs::open(above, DIRECTORY, Mode::empty());
            let directory = opened.with_context(|| format!("cannot open {}", above.display()))?;
            if btrfs::is_root(&directory).with_context(|| format!("cannot examine {}", above.display()))? {
                let described = btrfs::describe(&directory);
                let uuid = described.with_context(|| format!("cannot describe {}", above.display()))?.uuid;
                return Ok(Source { path: above.to_owned(), directory, uuid });
            }
        }
        bail!("{} is not on btrfs; snapshots can be created only there", path.display())
    }

    /// Opens `.snapshots` and waits for no one; `None` if it does not exist and `make` is not set.
    pub(super) fn holder(&self, make: bool) -> Result<Option<Holder<'_>>> {
        let path = self.path.join(NAME);
        let open = || rustix::fs::openat(&self.directory, NAME, DIRECTORY, Mode::empty());
        let directory = match open() {
            Err(Errno::NOENT) if !make => return Ok(None),
            Err(Errno::NOENT) => {
                // A subvolume of its own is not part of the snapshots.
                let created = btrfs::create(&self.directory, &CString::new(NAME)?);
                created.with_context(|| format!("cannot create {}; run this command as root", path.display()))?;
                let directory = open().with_context(|| format!("cannot open {}", path.display()))?;
                rustix::fs::fchmod(&directory, Mode::from_raw_mode(0o755))?;
                directory
            }
            found => found.with_context(|| format!("cannot open {}; it must be a directory", path.display()))?,
        };
        let status = rustix::fs::fstat(&directory)?;
        if status.st_uid != 0 || status.st_mode & 0o022 != 0 {
            bail!(
                "{} may be changed by others than root; run `chown root {1}` and `chmod go-w {1}`",
                path.display(),
                path.display()
            );
        }
        Ok(Some(Holder { source: self, path, directory }))
    }
}

/// The directory `.snapshots`.
pub(super) struct Holder<'a> {
    source: &'a Source,
    pub(super) path: PathBuf,
    directory: OwnedFd,
}

/// A snapshot that this program created.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Taken {
    /// Seconds since 1970-01-01 UTC.
    pub(super) moment: i64,
    pub(super) name: String,
    /// The subvolume of which it was taken.
    of: Uuid,
}

impl Taken {
    fn line(&self) -> String {
        let of: String = self.of.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{} {of}\n", self.name)
    }

    fn parse(line: &str) -> Option<Taken> {
        let (name, of) = line.split_once(' ')?;
        let moment = Format::token().moment(name.as_bytes(), None)?;
        let number = u128::from_str_radix(of, 16).ok().filter(|_| of.len() == 32)?;
        Some(Taken { moment, name: name.to_owned(), of: number.to_be_bytes() })
    }
}

/// Holds off other runs until it is dropped.
pub(super) struct Lock<'a>(&'a Holder<'a>);

impl Holder<'_> {
    /// Locks the directory against other runs of this program.
    pub(super) fn lock(&self) -> Result<Lock<'_>> {
        match rustix::fs::flock(&self.directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Lock(self)),
            Err(Errno::WOULDBLOCK) => bail!("another run works on {}; wait for its end", self.path.display()),
            Err(error) => Err(error).with_context(|| format!("cannot lock {}", self.path.display())),
        }
    }

    /// Returns the recorded snapshots that exist, the oldest first.
    pub(super) fn taken(&self) -> Result<Vec<Taken>> {
        let mut found = Vec::new();
        for taken in self.record()? {
            if self.is_own(&taken)? {
                found.push(taken);
            }
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// Returns whether a name leads to the snapshot that was recorded.
    fn is_own(&self, taken: &Taken) -> Result<bool> {
        let directory = match rustix::fs::openat(&self.directory, taken.name.as_str(), DIRECTORY, Mode::empty()) {
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => return Ok(false),
            found => found.with_context(|| format!("cannot open {}", self.path.join(&taken.name).display()))?,
        };
        if !btrfs::is_root(&directory)? {
            return Ok(false);
        }
        let found = btrfs::describe(&directory)?;
        Ok(found.read_only && found.parent == taken.of)
    }

    /// Reads the record. A line that cannot be understood is an error, because it would be lost with the next change.
    fn record(&self) -> Result<Vec<Taken>> {
        let path = self.path.join(RECORD);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = match rustix::fs::openat(&self.directory, RECORD, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(Vec::new()),
            file => File::from(file.with_context(|| format!("cannot open {}", path.display()))?),
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
    /// Creates a snapshot of the subvolume.
    pub(super) fn create(&self, moment: i64) -> Result<Taken> {
        let holder = self.0;
        let name = String::from_utf8(Format::token().name(moment, None))?;
        let taken = Taken { moment, name, of: holder.source.uuid };
        let mut all = holder.taken()?;
        // An entry of this name that exists belongs to someone else, and must not be recorded.
        let exists = rustix::fs::statat(&holder.directory, taken.name.as_str(), rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
        if !matches!(exists, Err(Errno::NOENT)) {
            bail!("{} exists; wait a second and repeat the command", holder.path.join(&taken.name).display());
        }
        all.push(taken.clone());
        self.write(&all)?;
        let created = btrfs::create_snapshot(
            &holder.directory,
            &CString::new(taken.name.as_str())?,
            holder.source.directory.as_fd(),
        );
        created.with_context(|| format!("cannot create {}", holder.path.join(&taken.name).display()))?;
        Ok(taken)
    }

    /// Removes a snapshot.
    pub(super) fn remove(&self, taken: &Taken) -> Result<()> {
        let holder = self.0;
        let path = holder.path.join(&taken.name);
        if !holder.is_own(taken)? {
            bail!("{} is not the snapshot that was recorded; it is kept", path.display());
        }
        let destroyed = btrfs::destroy(&holder.directory, &CString::new(taken.name.as_str())?);
        destroyed.with_context(|| format!("cannot remove {}", path.display()))
    }

    /// Drops names from the record whose snapshots no longer exist.
    pub(super) fn tidy(&self) -> Result<()> {
        let taken = self.0.taken()?;
        if taken.len() == self.0.record()?.len() { Ok(()) } else { self.write(&taken) }
    }

    /// Replaces the record in one step.
    fn write(&self, all: &[Taken]) -> Result<()> {
        let holder = self.0;
        let text: String = all.iter().map(Taken::line).collect();
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

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        // The lock also ends with the process.
        let _ = rustix::fs::flock(&self.0.directory, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_record_is_read_as_it_was_written() {
        let taken = Taken { moment: 1_446_320_430, name: "@GMT-2015.10.31-19.40.30".to_owned(), of: [0xa5; 16] };
        assert_eq!(Taken::parse(taken.line().trim_end()), Some(taken));
        for line in
            ["", "@GMT-2015.10.31-19.40.30", "@GMT-2015.10.31-19.40.30 a5", "../x a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5"]
        {
            assert_eq!(Taken::parse(line), None, "{line}");
        }
    }
}
