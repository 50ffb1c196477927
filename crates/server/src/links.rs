//! Lookups that follow symbolic links as configured for the share, and apply `veto files` to their targets.
//!
//! For clients, a link to a vetoed name is dangling: as the last component the link itself is found, before that the
//! lookup fails with `Errno::LOOP`. If no files are vetoed, or the path has no links, a lookup is a single call.
//!
//! On the root of a DFS namespace, no lookup passes a link of the namespace: it fails with `Errno::REMOTE`. The target
//! of such a link is only text for clients, and is never resolved here.

use std::sync::Arc;

use crate::policy::dfs;
use crate::policy::limits::LINKS_TO_DFS_LINK_MAX;
use crate::tree::Disk;
use crate::vfs::{Access, Case, Errno, Kind, Lookup, LookupOptions, Node, Op, RelPath, Result, SymlinkPolicy};

/// Looks up `path` for the user of `op`, by the rules of the share of `disk`.
pub(crate) async fn look_up(disk: &Disk, op: &Op, path: &RelPath, case: Case) -> Result<Lookup> {
    look_up_with(disk, op, path, case, disk.share.links(), Access::default()).await
}

/// As [`look_up`], with `links` instead of the share's setting, for a caller that will open a regular file for
/// `access`.
pub(crate) async fn look_up_with(
    disk: &Disk,
    op: &Op,
    path: &RelPath,
    case: Case,
    links: SymlinkPolicy,
    access: Access,
) -> Result<Lookup> {
    let ask = |links| disk.vfs.lookup(op, path, LookupOptions { case, links, access });
    let hides_targets = !disk.veto.is_empty() && links.follow;
    if !hides_targets && !disk.is_dfs {
        return ask(links).await;
    }
    // If the path has no links, only its own names matter.
    match ask(SymlinkPolicy::NONE).await {
        Err(Errno::LOOP) => {}
        Ok(found) if is_link(&found) && (!links.itself || disk.is_dfs) => {}
        plain => return plain,
    }
    if disk.is_dfs && dfs_link(disk, op, path, case).await?.is_some() {
        return Err(Errno::REMOTE);
    }
    if !hides_targets {
        return ask(links).await;
    }
    let followed = ask(links).await?;
    let vetoed = match &followed {
        Lookup::Found { node, .. } => is_vetoed(disk, node).await,
        Lookup::Missing { path, .. } => match path.parent() {
            Some(parent) => leads_to_vetoed(disk, op, &parent, case, links).await,
            None => false,
        },
        Lookup::NoParent => deepest_is_vetoed(disk, op, path, case, links).await,
    };
    if !vetoed {
        return Ok(followed);
    }
    match ask(links.to_last()).await? {
        found @ Lookup::Found { .. } if is_link(&found) && !found_is_vetoed(disk, &found).await => Ok(found),
        _ => Err(Errno::LOOP),
    }
}

/// A link of a DFS namespace.
pub(crate) struct DfsLink {
    /// Its target, which begins with `msdfs:`.
    pub(crate) target: Vec<u8>,
    /// The number of components that the path has after the link.
    pub(crate) behind: usize,
}

/// Returns the first link of the DFS namespace on `path`. Other symbolic links before it are followed as the share
/// permits, and only within its root.
pub(crate) async fn dfs_link(disk: &Disk, op: &Op, path: &RelPath, case: Case) -> Result<Option<DfsLink>> {
    let mut path = path.clone();
    for _ in 0..LINKS_TO_DFS_LINK_MAX {
        let Some((count, node)) = first_link(disk, op, &path, case).await? else { return Ok(None) };
        let here = prefix(&path, count);
        if here.components().any(|name| disk.veto.matches(name)) {
            return Ok(None);
        }
        let target = node.read_link(op).await?;
        if dfs::is_link(&target) {
            return Ok(Some(DfsLink { target, behind: path.components().count() - count }));
        }
        let options = LookupOptions { case, links: disk.share.links(), access: Access::default() };
        let Ok(Lookup::Found { node, metadata, .. }) = disk.vfs.lookup(op, &here, options).await else {
            return Ok(None);
        };
        let Ok(location) = node.location(op).await else { return Ok(None) };
        if metadata.kind == Kind::Symlink || location.first() == Some(&b'/') {
            return Ok(None);
        }
        let mut followed = RelPath::root();
        let above = location.split(|&byte| byte == b'/').filter(|name| !name.is_empty());
        if !above.chain(path.components().skip(count)).all(|name| followed.push(name)) {
            return Ok(None);
        }
        path = followed;
    }
    Ok(None)
}

/// Returns the first symbolic link on a path, and the number of components up to it.
async fn first_link(disk: &Disk, op: &Op, path: &RelPath, case: Case) -> Result<Option<(usize, Arc<dyn Node>)>> {
    let options = LookupOptions { case, links: SymlinkPolicy::NONE, access: Access::default() };
    let mut search = Search::new(path);
    while let Some(count) = search.next() {
        let found = disk.vfs.lookup(op, &prefix(path, count), options).await;
        search.note(count, !matches!(found, Err(Errno::LOOP)) && !found.is_ok_and(|found| is_link(&found)));
    }
    let count = search.found + 1;
    if count > path.components().count() {
        return Ok(None);
    }
    match disk.vfs.lookup(op, &prefix(path, count), options).await? {
        Lookup::Found { node, metadata, .. } if metadata.kind == Kind::Symlink => Ok(Some((count, node))),
        _ => Ok(None),
    }
}

fn is_link(found: &Lookup) -> bool {
    matches!(found, Lookup::Found { metadata, .. } if metadata.kind == Kind::Symlink)
}

async fn found_is_vetoed(disk: &Disk, found: &Lookup) -> bool {
    match found {
        Lookup::Found { node, .. } => is_vetoed(disk, node).await,
        _ => false,
    }
}

async fn leads_to_vetoed(disk: &Disk, op: &Op, path: &RelPath, case: Case, links: SymlinkPolicy) -> bool {
    match disk
        .vfs
        .lookup(
            op,
            path,
            LookupOptions { case, links: SymlinkPolicy { itself: false, ..links }, access: Access::default() },
        )
        .await
    {
        Ok(found) => found_is_vetoed(disk, &found).await,
        Err(_) => false,
    }
}

/// Whether the last existing directory on `path` is vetoed. If so, nothing below it must be revealed.
async fn deepest_is_vetoed(disk: &Disk, op: &Op, path: &RelPath, case: Case, links: SymlinkPolicy) -> bool {
    let mut search = Search::new(path);
    while let Some(count) = search.next() {
        let found = disk
            .vfs
            .lookup(
                op,
                &prefix(path, count),
                LookupOptions { case, links: SymlinkPolicy { itself: false, ..links }, access: Access::default() },
            )
            .await;
        search.note(count, matches!(found, Ok(Lookup::Found { .. })));
    }
    leads_to_vetoed(disk, op, &prefix(path, search.found), case, links).await
}

/// Returns the first `count` components of `path`.
pub(crate) fn prefix(path: &RelPath, count: usize) -> RelPath {
    let mut prefix = RelPath::root();
    // Components of one path are valid in another, so none is refused.
    let _ = path.components().take(count).all(|component| prefix.push(component));
    prefix
}

/// A binary search for the longest prefix of a path for which a condition holds that also holds for all shorter
/// prefixes.
pub(crate) struct Search {
    /// The number of its components.
    pub(crate) found: usize,
    limit: usize,
}

impl Search {
    pub(crate) fn new(path: &RelPath) -> Search {
        Search { found: 0, limit: path.components().count() }
    }

    /// Returns the number of components to check next.
    pub(crate) fn next(&self) -> Option<usize> {
        (self.found < self.limit).then(|| self.found + (self.limit - self.found).div_ceil(2))
    }

    /// Records whether the condition holds for the first `count` components.
    pub(crate) fn note(&mut self, count: usize, holds: bool) {
        if holds {
            self.found = count;
        } else {
            self.limit = count - 1;
        }
    }
}

/// Whether a file that was just created is at a location that `veto files` permits.
pub(crate) async fn admits(disk: &Disk, node: &Arc<dyn Node>) -> bool {
    disk.veto.is_empty() || !disk.share.names.follow_symlinks || !is_vetoed(disk, node).await
}

/// Whether `veto files` hides the current location of `node`. Also true if the location cannot be determined.
async fn is_vetoed(disk: &Disk, node: &Arc<dyn Node>) -> bool {
    const GONE: &[u8] = b" (deleted)";
    let Ok(location) = node.location(&disk.op).await else { return true };
    location.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).any(|name| {
        // The kernel appends this to the name of a removed directory.
        disk.veto.matches(name) || name.strip_suffix(GONE).is_some_and(|name| disk.veto.matches(name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_part_of_a_path_is_found() {
        let path =
            ["a", "b", "c", "d", "e"].iter().fold(RelPath::root(), |path, name| path.join(name.as_bytes()).unwrap());
        for longest in 0..=5 {
            let mut search = Search::new(&path);
            while let Some(count) = search.next() {
                search.note(count, count <= longest);
            }
            assert_eq!(search.found, longest);
        }
        assert_eq!(prefix(&path, 2).as_bytes(), b"a/b");
    }
}
