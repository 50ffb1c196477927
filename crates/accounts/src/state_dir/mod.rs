//! The state directory, which contains the account database and the control socket.
//!
//! Its content decides which users may log on. It is therefore created with mode 0700, and refused if other users could
//! write to it or replace it ([`ancestors`]).

mod ancestors;

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

/// The open state directory.
pub struct StateDir {
    path: PathBuf,
    directory: OwnedFd,
    owner: (u32, u32),
}

impl StateDir {
    /// Opens `path`; `None` if the directory does not exist.
    pub fn open(path: &Path) -> Result<Option<Self>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(directory) => directory,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("state directory {}", path.display())),
        };
        let stat = rustix::fs::fstat(&directory).with_context(|| format!("state directory {}", path.display()))?;
        let me = rustix::process::geteuid().as_raw();
        if me != 0 && stat.st_uid != me {
            bail!(
                "the state directory {} belongs to user {}, not to this process's user {me}",
                path.display(),
                stat.st_uid
            );
        }
        if stat.st_mode & 0o022 != 0 {
            bail!(
                "state directory {}: other users may write to it (mode {:04o}) and could create accounts; \
                 run chmod go-w on it",
                path.display(),
                stat.st_mode & 0o7777
            );
        }
        ancestors::check(path, &[0, me, stat.st_uid])?;
        Ok(Some(StateDir { path: path.to_owned(), directory, owner: (stat.st_uid, stat.st_gid) }))
    }

    /// Opens `path`. Creates it and its parents if they are missing.
    pub fn create(path: &Path) -> Result<Self> {
        if let Some(there) = Self::open(path)? {
            return Ok(there);
        }
        ancestors::check(path, &[0, rustix::process::geteuid().as_raw()])?;
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            // Uses an explicit mode because the server's umask is 0.
            let made = std::fs::DirBuilder::new().recursive(true).mode(0o755).create(parent);
            made.with_context(|| format!("cannot create {}", parent.display()))?;
        }
        match std::fs::DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(error).with_context(|| format!("cannot create the state directory {}", path.display()));
            }
            _ => {}
        }
        Self::open(path)?.with_context(|| format!("state directory {}: removed while it was created", path.display()))
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the uid of the directory's owner.
    pub fn owner(&self) -> u32 {
        self.owner.0
    }

    /// Returns a path to `name` in the directory that is short enough for a socket address, regardless of the
    /// directory's own path.
    pub fn short_path(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.directory.as_raw_fd()))
    }

    /// Opens the file `name` for reading and writing; `None` if it does not exist. Does not follow links, and removes
    /// all permissions of other users.
    pub fn open_file(&self, name: &str) -> Result<Option<File>> {
        match rustix::fs::openat(
            &self.directory,
            name,
            OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        ) {
            Ok(file) => {
                let stat = rustix::fs::fstat(&file)?;
                if stat.st_mode & 0o077 != 0 {
                    tracing::warn!(file = %self.path.join(name).display(), "removing the permissions of other users");
                    rustix::fs::fchmod(&file, Mode::from_raw_mode(0o600))?;
                }
                Ok(Some(File::from(file)))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error).with_context(|| self.path.join(name).display().to_string()),
        }
    }

    /// Returns whether `name` is the file that is open as `file`.
    pub(crate) fn is_file(&self, name: &str, file: BorrowedFd<'_>) -> Result<bool> {
        let held = rustix::fs::fstat(file)?;
        match rustix::fs::statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(named) => Ok((named.st_dev, named.st_ino) == (held.st_dev, held.st_ino)),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error).with_context(|| self.path.join(name).display().to_string()),
        }
    }

    /// Creates the file `name`, which must not exist, with mode 0600 and owned by the owner of the directory. A file
    /// created by root in another user's directory can thus be used by that user's server.
    pub fn create_file(&self, name: &str) -> Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.directory, name, flags, Mode::from_raw_mode(0o600))
            .with_context(|| format!("cannot create {}", self.path.join(name).display()))?;
        self.give_to_owner(file.as_fd())?;
        Ok(File::from(file))
    }

    /// Changes the owner of `file` to the owner of the directory, if different.
    pub(crate) fn give_to_owner(&self, file: BorrowedFd<'_>) -> Result<()> {
        if self.owner.0 != rustix::process::geteuid().as_raw() {
            let (uid, gid) = (rustix::fs::Uid::from_raw(self.owner.0), rustix::fs::Gid::from_raw(self.owner.1));
            rustix::fs::fchown(file, Some(uid), Some(gid)).context("cannot give a file to the directory's owner")?;
        }
        Ok(())
    }

    /// Adds the name `to` to the file `from`. Returns `false` if `to` already exists.
    pub fn link(&self, from: &str, to: &str) -> Result<bool> {
        match rustix::fs::linkat(&self.directory, from, &self.directory, to, AtFlags::empty()) {
            Ok(()) => {
                rustix::fs::fsync(&self.directory)?;
                Ok(true)
            }
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(error).with_context(|| format!("cannot create {}", self.path.join(to).display())),
        }
    }

    /// Renames the file `from` to `to`, replacing an existing file, and makes the change durable.
    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        let renamed = rustix::fs::renameat(&self.directory, from, &self.directory, to);
        renamed
            .and_then(|()| rustix::fs::fsync(&self.directory))
            .with_context(|| format!("cannot replace {}", self.path.join(to).display()))
    }

    /// Removes the file `name` if it exists.
    pub fn remove(&self, name: &str) -> Result<()> {
        match rustix::fs::unlinkat(&self.directory, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error).with_context(|| format!("cannot remove {}", self.path.join(name).display())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_directory_is_created_private() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("a/b/state");
        assert!(StateDir::open(&path).unwrap().is_none());
        let state = StateDir::create(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o700);
        state.create_file("x").unwrap();
        assert_eq!(std::fs::metadata(path.join("x")).unwrap().permissions().mode() & 0o7777, 0o600);
        assert!(state.create_file("x").is_err());
    }

    #[test]
    fn a_directory_writable_by_others_is_refused() {
        let path = tempfile::tempdir().unwrap();
        for (mode, good) in [(0o700, true), (0o755, true), (0o770, false), (0o1777, false), (0o702, false)] {
            std::fs::set_permissions(path.path(), PermissionsExt::from_mode(mode)).unwrap();
            assert_eq!(StateDir::open(path.path()).is_ok(), good, "{mode:o}");
        }
    }

    #[test]
    fn files_are_not_opened_through_links_and_become_private() {
        let path = tempfile::tempdir().unwrap();
        let state = StateDir::create(path.path()).unwrap();
        std::fs::write(path.path().join("real"), "x").unwrap();
        std::fs::set_permissions(path.path().join("real"), PermissionsExt::from_mode(0o644)).unwrap();
        std::os::unix::fs::symlink("real", path.path().join("link")).unwrap();
        assert!(state.open_file("link").is_err());
        assert!(state.open_file("missing").unwrap().is_none());
        assert!(state.open_file("real").unwrap().is_some());
        assert_eq!(std::fs::metadata(path.path().join("real")).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
