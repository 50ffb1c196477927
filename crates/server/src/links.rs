//! Look-ups as a share follows symbolic links, with what `veto files` says of where those lead.
//!
//! A link to a vetoed name is one that leads nowhere, for whoever asks: as the last component it is found itself, before
//! that it ends the search with `Errno::LOOP`. Where no file is vetoed, and where no link stands on the way, a look-up is
//! one call.

use std::sync::Arc;

use crate::tree::Disk;
use crate::vfs::{Case, Errno, Identity, Kind, Links, Lookup, Node, RelPath, Result};

/// What a look-up is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// Anything.
    Any,
    /// A regular file that is found will be read.
    Reading,
}

/// Looks `path` up on behalf of `who`, by the rules of the share of `disk`.
pub(crate) async fn look_up(disk: &Disk, who: &Arc<Identity>, path: &RelPath, case: Case) -> Result<Lookup> {
    look_up_with(disk, who, path, case, disk.share.links(), Purpose::Any).await
}

/// The same with `links` in the place of the share's.
pub(crate) async fn look_up_with(
    disk: &Disk,
    who: &Arc<Identity>,
    path: &RelPath,
    case: Case,
    links: Links,
    purpose: Purpose,
) -> Result<Lookup> {
    let ask = |links| match purpose {
        Purpose::Any => disk.vfs.lookup(who, path, case, links),
        Purpose::Reading => disk.vfs.lookup_to_read(who, path, case, links),
    };
    if disk.veto.is_empty() || !links.follow {
        return ask(links).await;
    }
    // Where no link is on the way, the names that were asked for are all that counts.
    match ask(Links::NONE).await {
        Err(Errno::LOOP) => {}
        Ok(Lookup::Found { metadata, .. }) if metadata.kind == Kind::Symlink && !links.itself => {}
        plain => return plain,
    }
    let followed = ask(links).await?;
    let vetoed = match &followed {
        Lookup::Found { node, .. } => is_vetoed(disk, node).await,
        Lookup::Missing { path, .. } => match path.parent() {
            Some(parent) => leads_to_vetoed(disk, who, &parent, case, links).await,
            None => false,
        },
        Lookup::NoParent => deepest_is_vetoed(disk, who, path, case, links).await,
    };
    if !vetoed {
        return Ok(followed);
    }
    match ask(links.to_last()).await? {
        found @ Lookup::Found { .. } if is_link(&found) && !found_is_vetoed(disk, &found).await => Ok(found),
        _ => Err(Errno::LOOP),
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

async fn leads_to_vetoed(disk: &Disk, who: &Arc<Identity>, path: &RelPath, case: Case, links: Links) -> bool {
    match disk.vfs.lookup(who, path, case, Links { itself: false, ..links }).await {
        Ok(found) => found_is_vetoed(disk, &found).await,
        Err(_) => false,
    }
}

/// Whether the last directory on the way to `path` that is there is vetoed: what is there beneath must not show.
async fn deepest_is_vetoed(disk: &Disk, who: &Arc<Identity>, path: &RelPath, case: Case, links: Links) -> bool {
    let mut search = Search::new(path);
    while let Some(count) = search.next() {
        let found = disk.vfs.lookup(who, &prefix(path, count), case, Links { itself: false, ..links }).await;
        search.note(count, matches!(found, Ok(Lookup::Found { .. })));
    }
    leads_to_vetoed(disk, who, &prefix(path, search.found), case, links).await
}

/// The first `count` components of `path`.
pub(crate) fn prefix(path: &RelPath, count: usize) -> RelPath {
    let mut prefix = RelPath::root();
    // What was a component of one path may be one of another, so none is refused.
    let _ = path.components().take(count).all(|component| prefix.push(component));
    prefix
}

/// The search for the longest part of a path that something holds for, which holds for all shorter parts as well.
pub(crate) struct Search {
    /// The number of its components.
    pub(crate) found: usize,
    limit: usize,
}

impl Search {
    pub(crate) fn new(path: &RelPath) -> Search {
        Search { found: 0, limit: path.components().count() }
    }

    /// How many components to look at next.
    pub(crate) fn next(&self) -> Option<usize> {
        (self.found < self.limit).then(|| self.found + (self.limit - self.found).div_ceil(2))
    }

    /// Whether it holds for the first `count` components.
    pub(crate) fn note(&mut self, count: usize, holds: bool) {
        if holds {
            self.found = count;
        } else {
            self.limit = count - 1;
        }
    }
}

/// Whether a file that was made just now lies where `veto files` lets one be.
pub(crate) async fn admits(disk: &Disk, node: &Arc<dyn Node>) -> bool {
    disk.veto.is_empty() || !disk.share.follow_symlinks || !is_vetoed(disk, node).await
}

/// Whether `veto files` hides what `node` is now; so it does where nobody can say what that is called.
async fn is_vetoed(disk: &Disk, node: &Arc<dyn Node>) -> bool {
    const GONE: &[u8] = b" (deleted)";
    let Ok(location) = node.location().await else { return true };
    location.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).any(|name| {
        // The kernel writes so of a directory that was removed.
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
