//! Checks the parent directories of the state directory and the symbolic links in its path.
//!
//! A user who may write to one of them can replace the state directory, and with it the server's accounts. sshd(8)
//! checks the path to `authorized_keys` for the same reason. Directories with the sticky bit, such as `/tmp`, are
//! allowed here, because names in them can be replaced only by their owners, which are checked too.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::unix::is_private_group;

/// Maximum number of links that are followed, as in Linux.
const LINKS: usize = 40;

/// Fails if a user other than `trusted` may change the path to `path`. Missing directories are created by the caller.
pub(super) fn check(path: &Path, trusted: &[u32]) -> Result<()> {
    let path = std::path::absolute(path).with_context(|| path.display().to_string())?;
    let mut left: VecDeque<OsString> = names(&path).collect();
    let mut at = PathBuf::from("/");
    let mut links = 0;
    check_one(&at, trusted)?;
    while let Some(name) = left.pop_front() {
        if name == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&name);
        let found = match std::fs::symlink_metadata(&next) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            found => found.with_context(|| next.display().to_string())?,
        };
        if !found.is_symlink() {
            at = next;
            // The state directory itself has stricter rules.
            if !left.is_empty() {
                check_one(&at, trusted)?;
            }
            continue;
        }
        links += 1;
        ensure!(links <= LINKS, "{}: too many symbolic links", path.display());
        ensure!(
            trusted.contains(&found.uid()),
            "state directory {}: {} is a symbolic link owned by user {}, who could redirect it; specify the directory \
             without it",
            path.display(),
            next.display(),
            found.uid()
        );
        let target = std::fs::read_link(&next).with_context(|| next.display().to_string())?;
        if target.is_absolute() {
            at = PathBuf::from("/");
        }
        for name in names(&target).collect::<Vec<_>>().into_iter().rev() {
            left.push_front(name);
        }
    }
    Ok(())
}

/// Returns the components of a path, including `..`.
fn names(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        _ => None,
    })
}

fn check_one(directory: &Path, trusted: &[u32]) -> Result<()> {
    const STICKY: u32 = 0o1000;
    let stat = std::fs::metadata(directory).with_context(|| directory.display().to_string())?;
    let (mode, shown) = (stat.mode(), directory.display());
    if !trusted.contains(&stat.uid()) {
        bail!(
            "the state directory is below {shown}, which belongs to user {}, who could replace it; \
             run chown root {shown}, or choose another directory with --state-dir",
            stat.uid()
        );
    }
    if mode & STICKY != 0 {
        return Ok(());
    }
    // If each user has a private group, as on Ubuntu and Fedora, home directories are often writable by that group.
    let by_group = mode & 0o020 != 0 && !is_private_group(stat.gid(), stat.uid());
    if mode & 0o002 != 0 || by_group {
        let taken = if by_group && mode & 0o002 != 0 {
            "go-w"
        } else if by_group {
            "g-w"
        } else {
            "o-w"
        };
        bail!(
            "the state directory is below {shown}, to which other users may write (mode {:04o}), so they could replace \
             it; run chmod {taken} {shown}",
            mode & 0o7777
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::state_dir::StateDir;

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_parent_directory_writable_by_others_is_refused() {
        let top = tempfile::tempdir().unwrap();
        let (parent, path) = (top.path().join("a"), top.path().join("a/b/state"));
        StateDir::create(&path).unwrap();
        let owner = std::fs::metadata(&parent).unwrap();
        let group = if is_private_group(owner.gid(), owner.uid()) { "" } else { "g" };
        for (mode, good) in [(0o755, true), (0o700, true), (0o777, false), (0o757, false), (0o1777, true)] {
            set_mode(&parent, mode);
            for opened in [StateDir::open(&path).map(drop), StateDir::create(&path.join("new")).map(drop)] {
                assert_eq!(opened.is_ok(), good, "{mode:o}");
                let Err(error) = opened else { continue };
                let said = format!("{error:#}");
                let group = if mode & 0o020 == 0 { "" } else { group };
                assert!(said.contains(&format!("chmod {group}o-w {}", parent.display())), "{said}");
            }
        }
    }

    #[test]
    fn nothing_is_created_below_a_directory_writable_by_others() {
        let top = tempfile::tempdir().unwrap();
        let open = top.path().join("open");
        std::fs::create_dir(&open).unwrap();
        set_mode(&open, 0o777);
        assert!(StateDir::create(&open.join("a/state")).is_err());
        assert_eq!(std::fs::read_dir(&open).unwrap().count(), 0);
    }

    #[test]
    fn links_and_the_parents_of_their_targets_are_checked() {
        let top = tempfile::tempdir().unwrap();
        let (open, closed) = (top.path().join("open"), top.path().join("closed"));
        for directory in [&open, &closed] {
            std::fs::create_dir(directory).unwrap();
        }
        StateDir::create(&closed.join("state")).unwrap();
        symlink("../closed", open.join("link")).unwrap();
        symlink(open.join("link/state"), closed.join("through")).unwrap();
        StateDir::open(&closed.join("through")).unwrap();
        set_mode(&open, 0o777);
        // The directory is safe by its own name, but not through a link in the unsafe directory.
        StateDir::open(&closed.join("state")).unwrap();
        for unsafe_way in [open.join("link/state"), closed.join("through")] {
            assert!(StateDir::open(&unsafe_way).is_err(), "{}", unsafe_way.display());
        }
        set_mode(&open, 0o1777);
        StateDir::open(&closed.join("through")).unwrap();
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::lchown(open.join("link"), Some(65_534), None).unwrap();
            assert!(StateDir::open(&closed.join("through")).is_err(), "the owner may replace the link");
        }
    }
}
