//! Where it is measured: a hidden directory of the share, with files that have lists of each length. It goes with this
//! value.
//!
//! Whoever may write the share's directory can put something else in the place of this one at any time. So root makes and
//! removes files through the directory that it holds, and only `rmdir` by the name, which is good for nothing else.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use rustix::fs::{Mode, OFlags, XattrFlags};
use rustix::io::Errno;
use server::policy::Share;
use server::security::posix_acl::{self, Entry, PosixAcl, Tag};
use server::security::trial::Trial;
use server::vfs::{Links, RelPath};

/// The lengths of lists that are measured, from permission bits alone to more than anybody has.
pub(super) const ENTRIES: [u32; 17] = [3, 4, 5, 6, 8, 10, 14, 20, 28, 34, 40, 60, 90, 130, 180, 240, 300];

/// Files of each length. Those of one length have different lists, so that a file system that keeps equal ones once has
/// to read each.
const FILES: u32 = 8;

/// The uids in lists begin here: far from those of people, and of the same length when shown as SIDs.
const FIRST_UID: u32 = 2_000_000;

/// The directory and the server's view of it.
pub(super) struct Ground {
    directory: PathBuf,
    held: OwnedFd,
    attribute: String,
    pub(super) trial: Trial,
    pub(super) files: Vec<File>,
}

/// One file.
pub(super) struct File {
    pub(super) entries: u32,
    pub(super) path: RelPath,
    name: String,
}

impl Ground {
    /// Makes the directory in that of `share`.
    pub(super) fn make(share: &Share) -> Result<Ground> {
        let acls = share.acls.as_ref().context("the share stores no descriptors")?;
        let options = localfs::Options { links: Links::NONE };
        let volume = localfs::LocalFs::open(&share.path, options);
        let volume = volume.with_context(|| format!("opening {}", share.path.display()))?;
        let name = format!(".frevo-calibrate-{}", std::process::id());
        let directory = share.path.join(&name);
        let made = std::fs::DirBuilder::new().mode(0o700).create(&directory);
        made.with_context(|| format!("making {}", directory.display()))?;
        let held = hold(&directory)?;
        // From here on it is removed whatever happens.
        let mut ground = Ground {
            directory,
            held,
            attribute: acls.attribute.clone(),
            trial: Trial::new(share.clone(), Arc::new(volume)),
            files: Vec::new(),
        };
        ground.fill(&name).with_context(|| format!("making files in {}", ground.directory.display()))?;
        Ok(ground)
    }

    fn fill(&mut self, name: &str) -> Result<()> {
        // What the share's directory hands on would be in every list.
        let itself = self.inside("");
        remove(&itself, posix_acl::DEFAULT)?;
        remove(&itself, posix_acl::ACCESS)?;
        std::fs::set_permissions(&itself, PermissionsExt::from_mode(0o700))?;
        let top = RelPath::root().join(name.as_bytes()).context("the directory's name is a name")?;
        // Neighbours in the directory, and so on the disk, are files of different lengths.
        for number in 0..FILES {
            for entries in ENTRIES {
                let name = format!("{entries}-{number}");
                let path = self.inside(&name);
                std::fs::write(&path, b"x")?;
                std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640))?;
                if entries > 3 {
                    let value = list(entries, number).encode();
                    rustix::fs::setxattr(&path, posix_acl::ACCESS, &value, XattrFlags::empty())
                        .with_context(|| format!("a POSIX ACL of {entries} entries cannot be written here"))?;
                }
                let path = top.join(name.as_bytes()).context("the file's name is a name")?;
                self.files.push(File { entries, path, name });
            }
        }
        Ok(())
    }

    /// Takes the stored descriptors away.
    pub(super) fn strip(&self) -> Result<()> {
        let mut paths = self.files.iter().map(|file| self.inside(&file.name));
        paths.try_for_each(|path| remove(&path, &self.attribute))
    }

    /// Has the file system write what it was told.
    pub(super) fn sync(&self) -> Result<()> {
        Ok(rustix::fs::syncfs(&self.held)?)
    }

    /// A path to `name` in the directory, wherever that is now.
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
            eprintln!("frevo: removing {}: {error}: remove it yourself", self.directory.display());
        }
    }
}

/// Opens the directory that was made just now; an error where it is somebody else's by now, or open to others.
fn hold(directory: &Path) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held = rustix::fs::open(directory, flags, Mode::empty());
    let held = held.with_context(|| format!("opening {}", directory.display()))?;
    let found = rustix::fs::fstat(&held)?;
    let is_own = found.st_uid == rustix::process::geteuid().as_raw() && found.st_mode & 0o077 == 0;
    ensure!(is_own, "{}: somebody put another in its place: remove it yourself", directory.display());
    Ok(held)
}

/// Removes an attribute that may not be there.
fn remove(path: &Path, attribute: &str) -> Result<()> {
    match rustix::fs::removexattr(path, attribute) {
        Ok(()) | Err(Errno::NODATA | Errno::NOTSUP) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("removing {attribute} of {}", path.display())),
    }
}

/// A list of `entries` entries, which no other `number` has.
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
    fn what_takes_the_directory_s_place_is_left_alone() {
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
    fn lists_are_as_long_as_they_should_be_and_differ() {
        for entries in ENTRIES.into_iter().filter(|&entries| entries > 3) {
            assert_eq!(list(entries, 0).entries().len(), entries as usize);
        }
        assert_ne!(list(10, 0), list(10, 1));
        assert!(ENTRIES.is_sorted() && ENTRIES[0] == server::policy::FEWEST_ENTRIES);
    }
}
