//! Snapshots that are symbolic links: an administrator gives the snapshots of a program such as snapper, which numbers
//! them, names with their times.
//!
//! A link is followed only if nobody but root can have created it: it belongs to root, as does its directory, which is
//! outside of the share and not writable by others. Its target is looked up as the user, without following links.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::folders::{self, Folder};
use super::{join, relative};
use crate::state::SnapshotSearch;
use crate::tree::{Disk, Volume};
use crate::vfs::{Kind, Lookup, LookupOptions, Metadata, RelPath, SymlinkPolicy};

/// Permission to write for others than the owner.
const WRITABLE: u32 = 0o022;

/// Returns the root of the share's copy in the snapshot `name`, a symbolic link; `None` if it is not one to follow.
pub(super) async fn target(
    search: SnapshotSearch<'_>,
    disk: &Disk,
    folder: &Folder,
    name: &[u8],
) -> Option<(Volume, RelPath)> {
    let outside = folder.outside.as_ref()?;
    let links = LookupOptions::exact(SymlinkPolicy::NONE.to_last());
    let link = folder.path.join(name)?;
    let Ok(Lookup::Found { node, metadata, .. }) = folder.vfs.lookup(&disk.op, &link, links).await else { return None };
    if metadata.kind != Kind::Symlink || metadata.uid != 0 {
        return None;
    }
    let Ok(Lookup::Found { metadata: above, .. }) = folder.vfs.lookup(&disk.op, &folder.path, links).await else {
        return None;
    };
    if !is_of_root(&above) {
        return None;
    }
    let text = node.read_link(&disk.op).await.ok()?;
    let path = plain(&outside.join(Path::new(std::ffi::OsStr::from_bytes(&text))))?;
    let root = join(&relative(path.strip_prefix("/").ok()?)?, folder.within.components())?;
    Some((folders::volume(search, disk, Path::new("/")).await?, root))
}

/// Returns whether only root can change a file, or the names in a directory.
pub(super) fn is_of_root(file: &Metadata) -> bool {
    file.uid == 0 && file.mode & WRITABLE == 0
}

/// Returns an absolute path without `..`. No component is a symbolic link, because the look-up would fail.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir if !plain.pop() => return None,
            _ => {}
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_the_root() {
        for (path, expected) in
            [("/a/b/../c", Some("/a/c")), ("/a/./b", Some("/a/b")), ("/../a", None), ("/a/../..", None)]
        {
            assert_eq!(plain(Path::new(path)), expected.map(PathBuf::from), "{path}");
        }
    }
}
