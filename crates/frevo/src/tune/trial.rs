//! The trial directory: a directory in the share that only this process can enter, whose name no client can list or
//! open ([`TRIAL`]). It is removed when this value is dropped.
//!
//! A user who may write to the share's directory can create or rename anything under that name. The directory is
//! therefore opened without following links, its owner and mode are checked on the descriptor, and names in it are
//! resolved from the descriptor. A lock tells a directory in use from one that a killed process left.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, OFlags, ResolveFlags, StatVfsMountFlags};
use rustix::io::Errno;
use server::vfs::TRIAL;

/// How names in the share's directory and in the trial directory are resolved.
const INSIDE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// How often the creation is repeated if another process removes its directory at the same moment.
const RACES: usize = 8;

/// Bytes of space that must remain free.
const SPARE: u64 = 64 << 20;

/// An open trial directory.
pub(super) struct TrialDirectory {
    share: PathBuf,
    parent: OwnedFd,
    fd: OwnedFd,
}

impl TrialDirectory {
    /// Creates the directory in `share`, for files of `bytes` in total.
    pub(super) fn create(share: &Path, bytes: u64) -> Result<TrialDirectory> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = rustix::fs::open(share, flags, Mode::empty())
            .with_context(|| format!("cannot open {}, the directory of the share", share.display()))?;
        let free = rustix::fs::fstatvfs(&parent).context("cannot determine the free space")?;
        if free.f_flag.contains(StatVfsMountFlags::RDONLY) {
            bail!("{} is on a file system that is mounted read-only, so it cannot be measured", share.display());
        }
        let available = free.f_bavail.saturating_mul(free.f_frsize);
        if available < bytes.saturating_mul(2).saturating_add(SPARE) {
            bail!(
                "{} has {} MiB of free space, and this measurement needs {}; free some, or measure less (--quick)",
                share.display(),
                available >> 20,
                bytes.saturating_mul(2).saturating_add(SPARE) >> 20
            );
        }
        for _ in 0..RACES {
            if let Some(fd) = open(&parent, share)? {
                let trial = TrialDirectory { share: share.to_owned(), parent, fd };
                trial.clear().with_context(|| format!("cannot empty {}", trial.path().display()))?;
                return Ok(trial);
            }
        }
        bail!("{}: another process creates and removes this directory; try again", share.join(TRIAL).display())
    }

    fn path(&self) -> PathBuf {
        self.share.join(TRIAL)
    }

    /// Creates the file `name`, which must not exist, and opens it for reading and writing.
    pub(super) fn create_file(&self, name: &str) -> Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat2(&self.fd, name, flags, Mode::from_raw_mode(0o600), INSIDE);
        Ok(File::from(fd.with_context(|| format!("cannot create a file in {}", self.path().display()))?))
    }

    /// Opens the file `name` for reading, with `flags` added.
    pub(super) fn open_file(&self, name: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat2(&self.fd, name, flags, Mode::empty(), INSIDE)
    }

    /// Creates a file that no longer has a name, so that it is gone at the latest when the process ends. The second
    /// value is a descriptor that bypasses the kernel's cache; `None` if the file system does not support this.
    pub(super) fn nameless_file(&self) -> Result<(File, Option<File>)> {
        let name = "content";
        let file = self.create_file(name)?;
        let direct = self.open_file(name, OFlags::RDONLY | OFlags::DIRECT).ok();
        self.remove(name)?;
        Ok((file, direct.map(File::from)))
    }

    /// Removes the file `name`.
    pub(super) fn remove(&self, name: impl rustix::path::Arg) -> Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    /// Returns the number of entries.
    pub(super) fn list(&self) -> Result<usize> {
        let mut count = 0;
        for entry in Dir::read_from(&self.fd)? {
            entry?;
            count += 1;
        }
        Ok(count)
    }

    /// Returns a path to the directory that stays valid if the directory is renamed.
    pub(super) fn link(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.fd.as_raw_fd()))
    }

    /// Removes all files in it.
    fn clear(&self) -> Result<()> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd)? {
            let name = entry?.file_name().to_owned();
            if name.as_bytes() != b"." && name.as_bytes() != b".." {
                names.push(name);
            }
        }
        for name in names {
            let done = self.remove(name.as_c_str());
            done.with_context(|| format!("cannot remove {}", OsStr::from_bytes(name.as_bytes()).display()))?;
        }
        Ok(())
    }
}

impl Drop for TrialDirectory {
    fn drop(&mut self) {
        let removed = self.clear();
        // If another directory has the name meanwhile, it is not empty, or it is not missed.
        let removed = removed.and_then(|()| Ok(rustix::fs::unlinkat(&self.parent, TRIAL, AtFlags::REMOVEDIR)?));
        if let Err(error) = removed {
            eprintln!("frevo: cannot remove {}: {error:#}; remove it manually", self.path().display());
        }
    }
}

/// Opens and locks the directory, and creates it if it does not exist. `None` if another process has just removed it.
fn open(parent: &OwnedFd, share: &Path) -> Result<Option<OwnedFd>> {
    let path = || share.join(TRIAL).display().to_string();
    match rustix::fs::mkdirat(parent, TRIAL, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => {
            return Err(error).with_context(|| {
                format!(
                    "cannot create a directory in {}; run the command as a user with write permission there",
                    share.display()
                )
            });
        }
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = match rustix::fs::openat2(parent, TRIAL, flags, Mode::empty(), INSIDE) {
        Err(Errno::NOENT) => return Ok(None),
        fd => fd.with_context(|| format!("cannot open {}; remove it", path()))?,
    };
    let found = rustix::fs::fstat(&fd)?;
    if found.st_uid != rustix::process::geteuid().as_raw() || found.st_mode & 0o077 != 0 {
        bail!("{} belongs to another user or is accessible to others; remove it", path());
    }
    match rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => bail!("another `frevo tune` measures this share; wait until it has finished"),
        locked => locked.with_context(|| format!("cannot lock {}", path()))?,
    }
    let named = rustix::fs::statat(parent, TRIAL, AtFlags::SYMLINK_NOFOLLOW);
    let is_same = named.is_ok_and(|named| (named.st_dev, named.st_ino) == (found.st_dev, found.st_ino));
    Ok(is_same.then_some(fd))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_directory_is_private_and_removed() {
        let top = tempfile::tempdir().unwrap();
        let trial = TrialDirectory::create(top.path(), 0).unwrap();
        let path = top.path().join(TRIAL);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        let error = TrialDirectory::create(top.path(), 0).err().expect("it is in use").to_string();
        assert!(error.contains("another `frevo tune`"), "{error}");
        trial.create_file("a").unwrap();
        let (file, _) = trial.nameless_file().unwrap();
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 1);
        drop((trial, file));
        assert_eq!(std::fs::read_dir(top.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_killed_process_left_is_removed() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join(TRIAL);
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).unwrap();
        std::fs::write(path.join("left"), "x").unwrap();
        let trial = TrialDirectory::create(top.path(), 0).unwrap();
        assert!(!path.join("left").exists());
        drop(trial);
        assert!(!path.exists());
    }

    #[test]
    fn a_foreign_directory_or_link_of_this_name_is_left_alone() {
        let top = tempfile::tempdir().unwrap();
        let (path, other) = (top.path().join(TRIAL), top.path().join("other"));
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::write(path.join("theirs"), "x").unwrap();
        assert!(TrialDirectory::create(top.path(), 0).is_err(), "accessible to others");
        assert!(path.join("theirs").exists());
        std::fs::rename(&path, &other).unwrap();
        std::fs::set_permissions(&other, PermissionsExt::from_mode(0o700)).unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert!(TrialDirectory::create(top.path(), 0).is_err(), "a link");
        assert!(other.join("theirs").exists());
    }

    #[test]
    fn a_measurement_without_enough_space_is_refused() {
        let top = tempfile::tempdir().unwrap();
        let error = TrialDirectory::create(top.path(), u64::MAX / 4).err().expect("no disk is that large").to_string();
        assert!(error.contains("free space"), "{error}");
        assert_eq!(std::fs::read_dir(top.path()).unwrap().count(), 0);
    }
}
