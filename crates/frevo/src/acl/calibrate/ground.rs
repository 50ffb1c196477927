//! The measurement directory: a hidden directory in the share with files that have ACLs of each measured length. It is
//! removed when this value is dropped.
//!
//! A user who may write to the share's directory can replace this directory at any time. Root therefore creates and
//! removes files only through the open directory descriptor. Only the final `rmdir` uses the name, and it cannot be
//! misused.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use rustix::fs::{Mode, OFlags, XattrFlags};
use rustix::io::Errno;
use server::acl::model::posix_acl;
use server::acl::model::posix_acl::{Entry, PosixAcl, Tag};
use server::policy::Share;
use server::security::admin_probe::Trial;
use server::vfs::{RelPath, SymlinkPolicy, TRIAL};

/// The ACL lengths that are measured, from mode bits alone to more entries than real files have.
pub(super) const ENTRIES: [u32; 17] = [3, 4, 5, 6, 8, 10, 14, 20, 28, 34, 40, 60, 90, 130, 180, 240, 300];

/// Number of files per length. The ACLs of files of one length differ, so that a file system that stores identical ACLs
/// only once has to read each of them.
const FILES: u32 = 8;

/// The first uid used in the ACLs: far from real users' uids, and all SIDs have the same length.
const FIRST_UID: u32 = 2_000_000;

/// The measurement directory and the server's view of it.
pub(super) struct Ground {
    directory: PathBuf,
    held: OwnedFd,
    attribute: String,
    pub(super) trial: Trial,
    pub(super) files: Vec<File>,
}

/// One measured file.
pub(super) struct File {
    pub(super) entries: u32,
    pub(super) path: RelPath,
    name: String,
}

impl Ground {
    /// Creates the directory inside the directory of `share`.
    pub(super) fn make(share: &Share) -> Result<Ground> {
        let acls = share.acls.stored.as_ref().context("the share stores no descriptors")?;
        let options = localfs::Options { links: SymlinkPolicy::NONE, root: None };
        let volume = localfs::LocalFs::open(&share.path, options);
        let volume = volume.with_context(|| format!("cannot open {}", share.path.display()))?;
        let name = format!("{TRIAL}-{}", std::process::id());
        let directory = share.path.join(&name);
        let made = std::fs::DirBuilder::new().mode(0o700).create(&directory);
        made.with_context(|| format!("cannot create {}", directory.display()))?;
        let held = hold(&directory)?;
        // From here on, dropping the value removes the directory.
        let mut ground = Ground {
            directory,
            held,
            attribute: acls.attribute.clone(),
            trial: Trial::new(share.clone(), Arc::new(volume)),
            files: Vec::new(),
        };
        ground.fill(&name).with_context(|| format!("cannot create files in {}", ground.directory.display()))?;
        Ok(ground)
    }

    fn fill(&mut self, name: &str) -> Result<()> {
        // A default ACL inherited from the share's directory would end up in every file's ACL.
        let itself = self.inside("");
        remove(&itself, posix_acl::DEFAULT)?;
        remove(&itself, posix_acl::ACCESS)?;
        std::fs::set_permissions(&itself, PermissionsExt::from_mode(0o700))?;
        let top = RelPath::root().join(name.as_bytes()).context("the directory's name is a name")?;
        // Files of different lengths alternate in the directory, and so on disk.
        for number in 0..FILES {
            for entries in ENTRIES {
                let name = format!("{entries}-{number}");
                let path = self.inside(&name);
                std::fs::write(&path, b"x")?;
                std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640))?;
                if entries > 3 {
                    let value = list(entries, number).encode();
                    rustix::fs::setxattr(&path, posix_acl::ACCESS, &value, XattrFlags::empty())
                        .with_context(|| format!("a POSIX ACL of {entries} entries cannot be written"))?;
                }
                let path = top.join(name.as_bytes()).context("the file's name is a name")?;
                self.files.push(File { entries, path, name });
            }
        }
        Ok(())
    }

    /// Removes the stored security descriptors.
    pub(super) fn strip(&self) -> Result<()> {
        let mut paths = self.files.iter().map(|file| self.inside(&file.name));
        paths.try_for_each(|path| remove(&path, &self.attribute))
    }

    /// Flushes the file system to disk.
    pub(super) fn sync(&self) -> Result<()> {
        Ok(rustix::fs::syncfs(&self.held)?)
    }

    /// Returns a path to `name` in the directory that stays valid if the directory is renamed.
    fn inside(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.held.as_raw_fd()))
    }

    fn clear(&self) -> std::io::Result<()> {
        for entry in std::fs::read_dir(self.inside(""))? {
            std::fs::remove_file(entry?.path())?;
        }
        std::fs::remove_dir(&self.directory)
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        if let Err(error) = self.clear() {
            eprintln!("frevo: cannot remove {}: {error}; remove it manually", self.directory.display());
        }
    }
}

/// Opens the directory that was just created. Fails if it now belongs to another user or is accessible to others.
fn hold(directory: &Path) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held = rustix::fs::open(directory, flags, Mode::empty());
    let held = held.with_context(|| format!("cannot open {}", directory.display()))?;
    let found = rustix::fs::fstat(&held)?;
    let is_own = found.st_uid == rustix::process::geteuid().as_raw() && found.st_mode & 0o077 == 0;
    ensure!(is_own, "{}: another user replaced this directory; remove it manually", directory.display());
    Ok(held)
}

/// Removes an attribute if it exists.
fn remove(path: &Path, attribute: &str) -> Result<()> {
    match rustix::fs::removexattr(path, attribute) {
        Ok(()) | Err(Errno::NODATA | Errno::NOTSUP) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot remove {attribute} of {}", path.display())),
    }
}

/// Builds an ACL of `entries` entries that differs from that of every other `number`.
fn list(entries: u32, number: u32) -> PosixAcl {
    let first = FIRST_UID + number * 1_000;
    let own = [(Tag::Owner, 6), (Tag::OwningGroup, 4), (Tag::Mask, 6), (Tag::Other, 0)];
    let named = (0..entries.saturating_sub(4)).map(|index| (Tag::User(first + index), (4 + index % 2 * 2) as u8));
    PosixAcl::new(own.into_iter().chain(named).map(|(tag, permissions)| Entry { tag, permissions }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_accessible_to_others_or_replaced_is_refused() {
        let top = tempfile::tempdir().unwrap();
        let (directory, other) = (top.path().join("made"), top.path().join("other"));
        std::fs::DirBuilder::new().mode(0o755).create(&directory).unwrap();
        assert!(hold(&directory).is_err(), "open to others");
        std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o700)).unwrap();
        assert!(hold(&directory).is_ok());
        std::fs::rename(&directory, &other).unwrap();
        std::os::unix::fs::symlink(&other, &directory).unwrap();
        assert!(hold(&directory).is_err(), "a link");
    }

    #[test]
    fn acls_have_the_requested_length_and_differ() {
        for entries in ENTRIES.into_iter().filter(|&entries| entries > 3) {
            assert_eq!(list(entries, 0).entries().len(), entries as usize);
        }
        assert_ne!(list(10, 0), list(10, 1));
        assert!(ENTRIES.is_sorted() && ENTRIES[0] == server::policy::FEWEST_ENTRIES);
    }
}
