//! The file itself: opening, locking in the same way as Samba, creation if it is missing, and detection of changes.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use localfs::advisory::{Keeps, try_lock};
use rustix::fs::{Mode, OFlags, Stat, Timestamps};
use rustix::io::Errno;
use zeroize::Zeroizing;

use super::index::LARGEST;

/// How long to wait for the lock; the same time as in Samba.
const PATIENCE: Duration = Duration::from_secs(5);

/// The interval between attempts to lock the file.
const AGAIN: Duration = Duration::from_millis(5);

/// The byte range that Samba locks.
const LOCKED: (i64, i64) = (0, 1);

/// How often the file is reopened because it was replaced.
const REPLACED: usize = 50;

/// The distance of two changes in nanoseconds that gives them different times. The kernel's clock has ticks of up to 10
/// ms.
const TICK: i128 = 50_000_000;

/// The same for file systems that store only whole seconds.
const COARSE_TICK: i128 = 2_000_000_000;

/// The attributes that are compared to detect changes of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    size: i64,
    /// Nanoseconds since 1970.
    modified: i128,
    changed: i128,
}

impl Stamp {
    fn of(stat: &Stat) -> Self {
        /// The type of the second number depends on the architecture.
        fn nanos(secs: i64, nanos: impl Into<i128>) -> i128 {
            i128::from(secs) * 1_000_000_000 + nanos.into()
        }
        Stamp {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: stat.st_size,
            modified: nanos(stat.st_mtime, stat.st_mtime_nsec),
            changed: nanos(stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    /// Returns the stamp of the file at `path`.
    pub(super) fn at(path: &Path) -> rustix::io::Result<Self> {
        rustix::fs::stat(path).map(|stat| Self::of(&stat))
    }

    /// Returns whether a change after the moment `read` (nanoseconds since 1970) certainly produces a different stamp:
    /// `read` must not be within a tick of the last change. A change time far in the future comes from a clock that was
    /// set back, and is fine.
    pub(super) fn settled(&self, read: i128) -> bool {
        let tick = if self.changed % 1_000_000_000 == 0 { COARSE_TICK } else { TICK };
        (read - self.changed).abs() > tick
    }
}

/// Returns the nanoseconds since 1970.
pub(super) fn now() -> i128 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_nanos() as i128,
        Err(before) => -(before.duration().as_nanos() as i128),
    }
}

/// The open and locked file.
pub(super) struct Locked {
    pub(super) file: File,
    pub(super) stamp: Stamp,
}

impl Locked {
    /// Opens the file at `path` and removes all permissions of group and others. `Ok(None)` if it does not exist.
    pub(super) fn open(path: &Path, keeps: Keeps) -> Result<Option<Self>> {
        let Some(locked) = Self::open_as_it_is(path, keeps)? else { return Ok(None) };
        secure(path, &locked.file)?;
        let stamp = Stamp::of(&rustix::fs::fstat(&locked.file)?);
        Ok(Some(Locked { stamp, ..locked }))
    }

    /// Like [`Locked::open`], without changing permissions.
    pub(super) fn open_as_it_is(path: &Path, keeps: Keeps) -> Result<Option<Self>> {
        let access = if keeps == Keeps::EverybodyOut { OFlags::RDWR } else { OFlags::RDONLY };
        for _ in 0..REPLACED {
            let file = match rustix::fs::open(path, access | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty()) {
                Ok(file) => File::from(file),
                Err(Errno::NOENT) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            ensure!(file.metadata()?.is_file(), "not a regular file");
            lock(&file, keeps)?;
            let stat = rustix::fs::fstat(&file)?;
            let there = rustix::fs::stat(path);
            if there.is_ok_and(|there| (there.st_dev, there.st_ino) == (stat.st_dev, stat.st_ino)) {
                return Ok(Some(Locked { file, stamp: Stamp::of(&stat) }));
            }
        }
        bail!("it is replaced continuously by another program")
    }

    /// Reads the whole file.
    pub(super) fn read(&self) -> Result<Zeroizing<Vec<u8>>> {
        let size = u64::try_from(self.stamp.size)?;
        ensure!(size <= LARGEST, "it has {size} bytes, more than the maximum of {LARGEST}");
        // With capacity for later additions, so that reallocations do not leave copies of hashes in freed memory.
        let mut text = Zeroizing::new(Vec::with_capacity(size as usize + (64 << 10)));
        (&self.file).take(LARGEST).read_to_end(&mut text)?;
        // Such a file must never be written to.
        let start = &text[..text.len().min(1024)];
        ensure!(
            !start.contains(&0),
            "it is not a text file; import a database of Samba with `pdbedit -L -w | frevo user import -`"
        );
        Ok(text)
    }

    /// Syncs the file to disk, and gives it a modification time that no other change has. Returns `None` if that is
    /// impossible.
    pub(super) fn settle(&self) -> Result<Option<Stamp>> {
        self.file.sync_data()?;
        let now = now();
        let omit = rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
        // The kernel's own times are at ticks, so the chance that one of them equals this time is one in millions.
        let time = rustix::fs::Timespec { tv_sec: (now / 1_000_000_000) as i64, tv_nsec: (now % 1_000_000_000) as _ };
        let times = Timestamps { last_access: omit, last_modification: time };
        // Only the owner and root may set times.
        if rustix::fs::futimens(&self.file, &times).is_err() {
            return Ok(None);
        }
        let stamp = Stamp::of(&rustix::fs::fstat(&self.file)?);
        Ok((stamp.modified == now).then_some(stamp))
    }
}

fn lock(file: &File, keeps: Keeps) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    while !try_lock(file.as_fd(), keeps, LOCKED.0, LOCKED.1).context("cannot lock it")? {
        ensure!(Instant::now() < end, "another program has kept it locked for {} seconds", PATIENCE.as_secs());
        std::thread::sleep(AGAIN);
    }
    Ok(())
}

/// Removes all permissions of group and others, as Samba does. If that fails, a file that others may write is refused.
fn secure(path: &Path, file: &File) -> Result<()> {
    let mode = rustix::fs::fstat(file)?.st_mode & 0o7777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    match rustix::fs::fchmod(file, Mode::from_raw_mode(0o600)) {
        Ok(()) => tracing::warn!(file = %path.display(), "mode was {mode:04o}: removed permissions of other users"),
        Err(error) if mode & 0o022 == 0 => {
            tracing::warn!(file = %path.display(), "mode {mode:04o} exposes the hashes: {error}; run chmod 600");
        }
        Err(error) => bail!("mode {mode:04o} lets others write it and log on as any user: {error}; run chmod 600"),
    }
    Ok(())
}

/// Creates an empty file at `path` with mode 0600, unless it exists.
pub(super) fn create(path: &Path) -> Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::from_raw_mode(0o600)) {
        Ok(_) => tracing::info!(file = %path.display(), "created, because it did not exist"),
        Err(Errno::EXIST) => return Ok(()),
        Err(Errno::NOENT) => {
            let directory = path.parent().map(Path::to_path_buf).unwrap_or_else(|| PathBuf::from("/"));
            bail!("cannot create it: there is no directory {}", directory.display());
        }
        Err(error) => return Err(error).context("cannot create it"),
    }
    // The directory entry must also survive a crash.
    if let Some(directory) = path.parent() {
        File::open(directory).and_then(|directory| directory.sync_all()).context("cannot sync its directory")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_settled_after_the_clock_tick_of_its_change() {
        let check = |changed: i128, later: i128, settled: bool| {
            let stamp = Stamp { device: 1, inode: 1, size: 1, modified: changed, changed };
            assert_eq!(stamp.settled(changed + later), settled, "{changed} {later}");
        };
        check(1_700_000_000_123_456_789, 0, false);
        check(1_700_000_000_123_456_789, TICK, false);
        check(1_700_000_000_123_456_789, TICK + 1, true);
        // A clock that was set back.
        check(1_700_000_000_123_456_789, -TICK, false);
        check(1_700_000_000_123_456_789, -3_600_000_000_000, true);
        // Whole seconds.
        check(1_700_000_000_000_000_000, TICK + 1, false);
        check(1_700_000_000_000_000_000, COARSE_TICK + 1, true);
    }
}
