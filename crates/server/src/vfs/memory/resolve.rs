//! Resolves paths to inodes, strictly below the root.

use std::collections::VecDeque;

use super::inode::Body;
use super::{ROOT, State};
use crate::vfs::{Case, Errno, Identity, RelPath, Result, SymlinkPolicy};

/// Maximum number of links that one resolution follows, as on Linux.
const MAX_LINKS: usize = 40;

/// The result of resolving a path.
pub(super) enum Found {
    Inode { number: u64, path: RelPath },
    Missing { path: RelPath },
    NoParent,
}

/// A name in a directory, which need not exist.
pub(super) struct Place<'a> {
    pub(super) parent: u64,
    pub(super) name: &'a [u8],
}

impl State {
    /// Walks `path` for `who`. The path found keeps the names of links that were followed, not those of their targets.
    pub(super) fn resolve(&self, who: &Identity, path: &RelPath, case: Case, links: SymlinkPolicy) -> Result<Found> {
        self.resolve_from(ROOT, who, path, case, links)
    }

    /// Like [`State::resolve`], starting at the directory `root` and never leaving it.
    pub(super) fn resolve_from(
        &self,
        root: u64,
        who: &Identity,
        path: &RelPath,
        case: Case,
        links: SymlinkPolicy,
    ) -> Result<Found> {
        let mut at = root;
        let mut found = RelPath::root();
        let mut components = path.components().peekable();
        while let Some(name) = components.next() {
            let last = components.peek().is_none();
            let Body::Directory { entries, .. } = &self.inode(at)?.body else { return Ok(Found::NoParent) };
            if self.inode(at)?.permissions(who) & 1 == 0 {
                return Err(Errno::ACCES);
            }
            let Some((on_disk, number)) = entries.find(name, case == Case::Insensitive) else {
                let missing = found.join(name).filter(|_| last);
                return Ok(missing.map_or(Found::NoParent, |path| Found::Missing { path }));
            };
            found = found.join(on_disk).ok_or(Errno::NOENT)?;
            at = match (&self.inode(number)?.body, links.follow) {
                (Body::Symlink(_), false) if !last => return Err(Errno::LOOP),
                // Targets that are outside, dangling, circular or forbidden must be indistinguishable to the caller.
                (Body::Symlink(_), true) if last && links.itself => number,
                (Body::Symlink(_), true) => match self.follow(root, who, at, number) {
                    Some(target) => target,
                    None if last => number,
                    None => return Err(Errno::LOOP),
                },
                _ => number,
            };
        }
        Ok(Found::Inode { number: at, path: found })
    }

    /// Resolves `number`, a link or not, located in `directory`; `None` if it leads nowhere or out of `root`.
    pub(super) fn follow(&self, root: u64, who: &Identity, directory: u64, mut number: u64) -> Option<u64> {
        let mut at = directory;
        let mut steps: VecDeque<&[u8]> = VecDeque::new();
        let mut budget = MAX_LINKS;
        loop {
            match &self.inode(number).ok()?.body {
                Body::Symlink(target) => {
                    budget = budget.checked_sub(1)?;
                    if target.first().is_none_or(|&byte| byte == b'/') {
                        return None;
                    }
                    for part in target.split(|&byte| byte == b'/').filter(|part| !part.is_empty()).rev() {
                        steps.push_front(part);
                    }
                }
                _ => at = number,
            }
            match steps.pop_front() {
                Some(name) => number = self.step(root, who, at, name)?,
                None => return Some(at),
            }
        }
    }

    /// Resolves one component of a link's target in the directory `at`.
    fn step(&self, root: u64, who: &Identity, at: u64, name: &[u8]) -> Option<u64> {
        let inode = self.inode(at).ok()?;
        let Body::Directory { entries, parent } = &inode.body else { return None };
        match name {
            _ if inode.permissions(who) & 1 == 0 => None,
            b"." => Some(at),
            b".." if at == root => None,
            b".." => Some(*parent),
            _ => entries.get(name),
        }
    }

    /// Returns a path from `root` to an inode, or one of several. The path starts at the root of the whole file system
    /// if the inode is not below `root`.
    pub(super) fn location(&self, root: u64, mut number: u64) -> Result<Vec<u8>> {
        let mut names: Vec<&[u8]> = Vec::new();
        while number != root && number != ROOT {
            let holding = self.inodes.iter().find_map(|(&parent, inode)| match &inode.body {
                Body::Directory { entries, .. } => entries.name_of(number).map(|name| (parent, name)),
                _ => None,
            });
            let (parent, name) = holding.ok_or(Errno::NOENT)?;
            names.push(name);
            number = parent;
        }
        if number != root {
            names.push(b"");
        }
        names.reverse();
        Ok(names.join(&b'/'))
    }

    /// Finds the directory of the last component of `path`. Names are case-sensitive, and links on the way are
    /// followed.
    pub(super) fn place<'a>(&self, who: &Identity, path: &'a RelPath) -> Result<Place<'a>> {
        // The root has no name that could be created or removed.
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else { return Err(Errno::BUSY) };
        let links = SymlinkPolicy::BENEATH;
        match self.resolve(who, &parent, Case::Sensitive, links)? {
            Found::Inode { number, .. } => {
                let directory = self.inode(number)?;
                let Body::Directory { .. } = directory.body else { return Err(Errno::NOTDIR) };
                if directory.permissions(who) & 1 == 0 {
                    return Err(Errno::ACCES);
                }
                Ok(Place { parent: number, name })
            }
            Found::Missing { .. } | Found::NoParent => Err(Errno::NOENT),
        }
    }
}
