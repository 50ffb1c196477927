//! A directory in the share that is filled behind the server's back, and removed when dropped, also after a failure.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::posix;
use crate::method::Server;

/// The directory, with the path of its share.
pub(super) struct Ground {
    path: PathBuf,
    share: PathBuf,
}

impl Ground {
    /// Creates the directory in the share of `server`. A directory left by another run is removed first.
    pub(super) fn make(server: &Server, name: &str, what_for: &str) -> Result<Ground> {
        let share = server.path_for(what_for)?.clone();
        let path = share.join(name);
        if path.exists() {
            fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
        let ground = Ground { path, share };
        ground.directory("")?;
        Ok(ground)
    }

    /// Returns the path of an entry.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.path.clone() } else { self.path.join(name) }
    }

    /// Creates a directory that every user may access. The empty name is the directory itself.
    pub(super) fn directory(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        let made = fs::create_dir(&path).and_then(|()| fs::set_permissions(&path, Permissions::from_mode(0o777)));
        made.with_context(|| format!("cannot create {}", path.display()))?;
        posix::give_away(&path, &self.share)
    }

    /// Creates a file of `size` zeros with an ACL of `entries` that is unique to `number`. Returns `false` if the file
    /// system does not accept so many entries.
    pub(super) fn file(&self, name: &str, size: u64, entries: usize, number: u32) -> Result<bool> {
        let path = self.path(name);
        let made = File::create_new(&path).and_then(|file| {
            file.set_permissions(Permissions::from_mode(0o644))?;
            file.set_len(size)
        });
        made.with_context(|| format!("cannot create {}", path.display()))?;
        posix::give_away(&path, &self.share)?;
        posix::give(&path, entries, number)
    }

    /// Returns whether the file system accepts ACLs of `entries`.
    pub(super) fn takes(&self, entries: usize) -> Result<bool> {
        let taken = self.file("probe", 0, entries, 0)?;
        fs::remove_file(self.path("probe")).context("cannot remove a file that was just created")?;
        Ok(taken)
    }

    /// Returns the length of the longest ACL that the file system accepts, up to `limit`.
    pub(super) fn longest(&self, limit: usize) -> Result<usize> {
        let (mut taken, mut refused) = (posix::PLAIN, limit + 1);
        while taken + 1 < refused {
            let middle = taken.midpoint(refused);
            if self.takes(middle)? { taken = middle } else { refused = middle }
        }
        Ok(taken)
    }

    /// Writes all changes to the disk.
    pub(super) fn sync(&self) -> Result<()> {
        let directory = File::open(&self.path).with_context(|| format!("cannot open {}", self.path.display()))?;
        rustix::fs::syncfs(&directory).context("cannot sync the file system")
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("cannot remove {}: {error}", self.path.display());
        }
    }
}

/// Makes the kernel drop its caches of files that are on the disk.
pub(super) fn drop_caches() -> Result<()> {
    let file = Path::new("/proc/sys/vm/drop_caches");
    fs::write(file, "3\n").context("cannot drop the page cache with /proc/sys/vm/drop_caches: --cold needs root")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_removed_on_drop() {
        let share = tempfile::tempdir().unwrap();
        let ground = Ground { path: share.path().join("ground"), share: share.path().to_owned() };
        ground.directory("").unwrap();
        ground.directory("0").unwrap();
        assert!(ground.file("0/file", 7, posix::PLAIN, 0).unwrap());
        assert!(ground.takes(posix::PLAIN).unwrap());
        assert_eq!(fs::read(ground.path("0/file")).unwrap(), [0; 7]);
        drop(ground);
        assert_eq!(fs::read_dir(share.path()).unwrap().count(), 0);
    }
}
