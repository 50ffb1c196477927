//! Resolving a path on storage that has handles of files and looks up one name at a time.
//!
//! The storage may not check again whether a user may search a directory that it has looked up before for another one.
//! Each step therefore checks that first. A symbolic link is followed by resolving its target in the same way, never
//! above the root of the share.

use std::sync::Arc;

use server::acl::model::posix_acl::PosixAcl;
use server::vfs::{Case, Errno, Kind, LookupOptions, Op, RelPath, Result, SymlinkPolicy};

use crate::directory_cache::{Directory, DirectoryCache, Protection};
use crate::metadata::Stat;
use crate::name_index::Name;

#[cfg(test)]
mod tests;

/// Maximum number of symbolic links that are followed for one path, as on Linux.
const LINKS: usize = 40;

/// Storage that looks up one name at a time. Every call may wait.
pub trait Storage {
    /// A file, directory or link.
    type Handle;

    /// Looks up exactly `name` in a directory that the user may search. A link itself is returned.
    fn child(&self, op: &Op, directory: &Directory<Self::Handle>, name: &[u8]) -> Result<(Arc<Self::Handle>, Stat)>;

    /// Returns the name in the directory that equals `name` except for case, and the version of the directory
    /// ([`server::vfs::DirectoryVersion::state`]) if its changes are known.
    fn similar(&self, directory: &Directory<Self::Handle>, name: &[u8]) -> Result<(Option<Name>, Option<u64>)>;

    /// Returns whether the directory is known to have a name that equals `name` except for case, and its version.
    /// `None` if the storage must be asked.
    fn known(&self, directory: &Directory<Self::Handle>, name: &[u8]) -> Option<(bool, Option<u64>)>;

    /// Returns the attributes of a directory.
    fn stat(&self, handle: &Self::Handle) -> Result<Stat>;

    /// Returns the access ACL of a directory, if it has one. The server asks, not a user.
    fn access_acl(&self, handle: &Self::Handle) -> Result<Option<PosixAcl>>;

    /// Returns the target of a link.
    fn target(&self, link: &Self::Handle) -> Result<Vec<u8>>;
}

/// A name as stored, the file that has it, and the attributes of the file.
pub type Named<H> = (Name, Arc<H>, Stat);

/// What a path leads to.
#[derive(Debug)]
pub enum Reached<H> {
    /// A file.
    Found(Found<H>),
    /// The last name is missing.
    Missing {
        /// The path with the names of directories as stored.
        path: RelPath,
        /// The directory in which the name is missing.
        directory: Directory<H>,
        /// The version of that directory.
        version: Option<u64>,
    },
    /// A directory on the way is missing or is not a directory.
    NoParent,
}

/// A file that was found.
#[derive(Debug)]
pub struct Found<H> {
    /// The path with names as stored. A link that was followed has its own name.
    pub path: RelPath,
    /// The path without links.
    pub location: RelPath,
    /// The storage's handle.
    pub handle: Arc<H>,
    /// The attributes of the file.
    pub stat: Stat,
    /// The directory in which the file was found; `None` for the root.
    pub parent: Option<Directory<H>>,
}

/// A component of the path that is still to be resolved.
struct Component {
    name: Name,
    /// Whether it is part of the target of a link.
    of_link: bool,
}

/// Resolves paths below one directory.
pub struct Walk<'a, S: Storage> {
    /// The storage.
    pub storage: &'a S,
    /// The cache of its directories.
    pub cache: &'a DirectoryCache<S::Handle>,
    /// The root.
    pub root: &'a Directory<S::Handle>,
    /// The path of the root within the volume, without a leading slash, to which absolute targets of links refer.
    pub prefix: &'a RelPath,
}

/// The state of one resolution.
struct Way<H> {
    /// The directories from the root down, and the name of each but the root.
    stack: Vec<(Directory<H>, Name)>,
    /// The components that follow, last first.
    rest: Vec<Component>,
    /// The path that was asked for, with names as stored.
    path: RelPath,
    links: usize,
    /// Whether the last component must be a directory, whose attributes are not needed.
    to_directory: bool,
    /// The link in the last component, returned if it leads nowhere.
    last_link: Option<Found<H>>,
}

impl<H> Way<H> {
    fn new(root: &Directory<H>, path: &RelPath, to_directory: bool) -> Way<H> {
        let rest = path.components().rev().map(|name| Component { name: name.into(), of_link: false }).collect();
        let stack = vec![(root.clone(), Name::default())];
        Way { stack, rest, path: RelPath::root(), links: 0, to_directory, last_link: None }
    }

    fn directory(&self) -> &Directory<H> {
        &self.stack.last().expect("the root is never removed").0
    }

    fn location(&self, name: Option<&[u8]>) -> Result<RelPath> {
        let mut location = RelPath::root();
        for name in self.stack.iter().skip(1).map(|(_, name)| &**name).chain(name) {
            if !location.push(name) {
                return Err(Errno::NOENT);
            }
        }
        Ok(location)
    }

    /// Adds a component, whose name is as stored, to the path that was asked for.
    fn pass(&mut self, component: &Component) -> Result<()> {
        if component.of_link || self.path.push(&component.name) { Ok(()) } else { Err(Errno::NOENT) }
    }

    fn enter(&mut self, child: Directory<H>, component: Component) -> Result<()> {
        self.pass(&component)?;
        self.stack.push((child, component.name));
        Ok(())
    }

    fn found(&mut self, component: &Component, handle: Arc<H>, stat: Stat) -> Result<Found<H>> {
        self.pass(component)?;
        let (location, parent) = (self.location(Some(&component.name))?, Some(self.directory().clone()));
        Ok(Found { path: self.path.clone(), location, handle, stat, parent })
    }

    /// Continues with the components of the target of a link. `prefix` is the path of the root within the volume.
    fn follow(&mut self, target: &[u8], prefix: &RelPath) -> Result<()> {
        let mut names = target.split(|&byte| byte == b'/');
        if target.first() == Some(&b'/') {
            // An absolute target is a path in the volume.
            let mut inner = names.by_ref().filter(|name| !matches!(*name, b"" | b"."));
            if !prefix.components().all(|name| inner.next() == Some(name)) {
                return Err(Errno::LOOP);
            }
            self.stack.truncate(1);
        }
        self.rest.extend(names.rev().map(|name| Component { name: name.into(), of_link: true }));
        Ok(())
    }
}

impl<S: Storage> Walk<'_, S> {
    /// Resolves `path`.
    ///
    /// # Errors
    /// `Errno::ACCES` if the user may not search a directory on the way; `Errno::LOOP` for a link on the way that is
    /// not followed or leads nowhere; those of the storage.
    pub fn resolve(&self, op: &Op, path: &RelPath, options: LookupOptions) -> Result<Reached<S::Handle>> {
        let reached = self.current(|| {
            let mut way = Way::new(self.root, path, false);
            match self.go(op, &mut way, options) {
                Ok(None) => self.here(&way),
                Ok(Some(reached)) => Ok(reached),
                Err(Errno::LOOP) => way.last_link.map(Reached::Found).ok_or(Errno::LOOP),
                Err(error) => Err(error),
            }
        });
        match reached {
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(Reached::NoParent),
            reached => reached,
        }
    }

    /// Returns the directory `path`, whose names are exact. No link is followed unless `links` permits it.
    ///
    /// # Errors
    /// `Errno::NOENT` if it is missing, `Errno::NOTDIR` if it is not a directory, `Errno::LOOP` if it is a link that is
    /// not followed or leads nowhere, and those of [`Walk::resolve`].
    pub fn directory(&self, op: &Op, path: &RelPath, links: SymlinkPolicy) -> Result<Directory<S::Handle>> {
        self.current(|| {
            let mut way = Way::new(self.root, path, true);
            self.go(op, &mut way, LookupOptions::exact(links))?;
            Ok(way.directory().clone())
        })
    }

    /// Returns the directory of `path` and its last name, if it is known without asking the storage that the directory
    /// exists and that the user may search it and those above.
    pub fn known_parent<'p>(&self, op: &Op, path: &'p RelPath) -> Option<(Directory<S::Handle>, &'p [u8])> {
        let may_search = |directory: &Directory<S::Handle>| {
            let permits = |known: Protection| known.permits_search(op);
            op.is_server() || self.cache.protection(directory.id).and_then(permits) == Some(true)
        };
        let mut at = self.root.clone();
        let name = path.name()?;
        for above in path.parent()?.components() {
            if !may_search(&at) {
                return None;
            }
            at = self.cache.child(at.id, above)?;
        }
        may_search(&at).then_some((at, name))
    }

    /// Returns the directory of `path` and its version, if it is known without asking the storage that the user may
    /// search it and that the name is missing.
    pub fn known_missing(&self, op: &Op, path: &RelPath) -> Option<(Directory<S::Handle>, Option<u64>)> {
        let (directory, name) = self.known_parent(op, path)?;
        match self.storage.known(&directory, name)? {
            (false, version) => Some((directory, version)),
            (true, _) => None,
        }
    }

    /// Makes `attempt` a second time if a cached directory was removed.
    fn current<T>(&self, attempt: impl Fn() -> Result<T>) -> Result<T> {
        match attempt() {
            Err(Errno::STALE) => self.cache.clear(),
            done => return done,
        }
        attempt().map_err(|error| if error == Errno::STALE { Errno::NOENT } else { error })
    }

    /// Returns whether the user may search the directory.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn may_search(&self, op: &Op, directory: &Directory<S::Handle>) -> Result<bool> {
        if op.is_server() {
            return Ok(true);
        }
        Ok(self.protection(op, directory)?.permits_search(op).unwrap_or(false))
    }

    /// Returns whether the user may remove a name of a file of `owner` from the directory.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn may_remove(&self, op: &Op, directory: &Directory<S::Handle>, owner: u32) -> Result<bool> {
        Ok(op.is_server() || self.protection(op, directory)?.permits_removal(op, owner).unwrap_or(false))
    }

    /// Returns the protection of a directory, with all that decides on the permissions of the user.
    fn protection(&self, op: &Op, directory: &Directory<S::Handle>) -> Result<Protection> {
        let now = self.cache.now();
        let protection = match self.cache.protection(directory.id) {
            Some(known) if known.decides_for(op) => return Ok(known),
            Some(known) => known,
            None => Protection::of(&self.storage.stat(&directory.handle)?),
        };
        let protection = match protection.decides_for(op) {
            true => protection,
            false => protection.with_acl(self.storage.access_acl(&directory.handle)?),
        };
        self.cache.put_protection(now, directory.id, protection.clone());
        Ok(protection)
    }

    /// Resolves the components of the way. `None` if it ends at its directory.
    fn go(&self, op: &Op, way: &mut Way<S::Handle>, options: LookupOptions) -> Result<Option<Reached<S::Handle>>> {
        while let Some(component) = way.rest.pop() {
            let of_link = component.of_link;
            match self.advance(op, way, component, options) {
                Ok(None) => {}
                // The error may not show where a link leads.
                Err(Errno::NOENT | Errno::ACCES) if of_link => return Err(Errno::LOOP),
                ended => return ended,
            }
        }
        Ok(None)
    }

    /// Resolves one component. Returns what the path leads to if this is known now.
    fn advance(
        &self,
        op: &Op,
        way: &mut Way<S::Handle>,
        component: Component,
        options: LookupOptions,
    ) -> Result<Option<Reached<S::Handle>>> {
        // Two slashes in a target, or one at its end.
        if component.name.is_empty() {
            return Ok(None);
        }
        if !self.may_search(op, way.directory())? {
            return Err(Errno::ACCES);
        }
        match &*component.name {
            b"." => return Ok(None),
            b".." if way.stack.len() == 1 => return Err(Errno::LOOP),
            b".." => {
                way.stack.pop();
                return Ok(None);
            }
            _ => {}
        }
        let is_last = way.rest.is_empty() && !way.to_directory;
        if !is_last && let Some(child) = self.cache.child(way.directory().id, &component.name) {
            return way.enter(child, component).map(|()| None);
        }
        let now = self.cache.now();
        let case = if component.of_link { Case::Sensitive } else { options.case };
        let (name, handle, stat) = match self.step(op, way.directory(), &component.name, case)? {
            Step::Found(found) => found,
            Step::Missing(version) if is_last && !component.of_link => {
                way.pass(&component)?;
                let (path, directory) = (way.path.clone(), way.directory().clone());
                return Ok(Some(Reached::Missing { path, directory, version }));
            }
            Step::Missing(_) => return Err(Errno::NOENT),
        };
        let component = Component { name, ..component };
        match stat.kind {
            Kind::Symlink => return self.link(way, &component, handle, stat, options.links),
            Kind::Directory => {
                let child = Directory { handle: Arc::clone(&handle), id: stat.id };
                self.cache.put_protection(now, child.id, Protection::of(&stat));
                self.cache.put(now, way.directory().id, &component.name, &child);
                if !is_last {
                    return way.enter(child, component).map(|()| None);
                }
            }
            Kind::File | Kind::Special if !is_last => {
                // A target that leads through a file leads nowhere; one that leads to a file ends there.
                let is_through = way.rest.last().is_some_and(|next| next.of_link);
                return Err(if is_through { Errno::LOOP } else { Errno::NOTDIR });
            }
            Kind::File | Kind::Special => {}
        }
        way.found(&component, handle, stat).map(|found| Some(Reached::Found(found)))
    }

    /// Returns the directory at which the path ends: the root, or the target of a link that ends with `..`.
    fn here(&self, way: &Way<S::Handle>) -> Result<Reached<S::Handle>> {
        let Directory { handle, .. } = way.directory().clone();
        let stat = self.storage.stat(&handle)?;
        let parent = way.stack.len().checked_sub(2).map(|above| way.stack[above].0.clone());
        Ok(Reached::Found(Found { path: way.path.clone(), location: way.location(None)?, handle, stat, parent }))
    }

    /// Follows a link, or returns it if the path ends there.
    fn link(
        &self,
        way: &mut Way<S::Handle>,
        component: &Component,
        handle: Arc<S::Handle>,
        stat: Stat,
        policy: SymlinkPolicy,
    ) -> Result<Option<Reached<S::Handle>>> {
        // As opposed to one in the target of a link.
        let is_named = way.rest.is_empty() && !way.to_directory && !component.of_link;
        let link = way.found(component, Arc::clone(&handle), stat)?;
        if is_named && (!policy.follow || policy.itself) {
            return Ok(Some(Reached::Found(link)));
        }
        if is_named {
            way.last_link = Some(link);
        }
        way.links += 1;
        if !policy.follow || way.links > LINKS {
            return Err(Errno::LOOP);
        }
        way.follow(&self.storage.target(&handle)?, self.prefix)?;
        Ok(None)
    }

    /// Finds a name in a directory.
    fn step(&self, op: &Op, directory: &Directory<S::Handle>, name: &[u8], case: Case) -> Result<Step<S::Handle>> {
        if case == Case::Insensitive
            && let Some((false, version)) = self.storage.known(directory, name)
        {
            return Ok(Step::Missing(version));
        }
        match self.storage.child(op, directory, name) {
            Ok((handle, stat)) => return Ok(Step::Found((name.into(), handle, stat))),
            Err(Errno::NOENT | Errno::NAMETOOLONG) if case == Case::Insensitive => {}
            Err(Errno::NOENT | Errno::NAMETOOLONG) => return Ok(Step::Missing(None)),
            Err(error) => return Err(error),
        }
        let name = match self.storage.similar(directory, name)? {
            (Some(name), _) => name,
            (None, version) => return Ok(Step::Missing(version)),
        };
        match self.storage.child(op, directory, &name) {
            Ok((handle, stat)) => Ok(Step::Found((name, handle, stat))),
            // It was removed meanwhile.
            Err(Errno::NOENT) => Ok(Step::Missing(None)),
            Err(error) => Err(error),
        }
    }

    /// Returns the file with exactly this name in a directory that the user may search.
    ///
    /// # Errors
    /// `Errno::ACCES`, `Errno::NOENT`, and those of the storage.
    pub fn exact(&self, op: &Op, directory: &Directory<S::Handle>, name: &[u8]) -> Result<(Arc<S::Handle>, Stat)> {
        if !self.may_search(op, directory)? {
            return Err(Errno::ACCES);
        }
        self.storage.child(op, directory, name)
    }

    /// Returns the entry of a directory that matches `name`; `None` if there is none or the user may not search the
    /// directory.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn entry(
        &self,
        op: &Op,
        directory: &Directory<S::Handle>,
        name: &[u8],
        case: Case,
    ) -> Result<Option<Named<S::Handle>>> {
        if !self.may_search(op, directory)? {
            return Ok(None);
        }
        match self.step(op, directory, name, case)? {
            Step::Found(found) => Ok(Some(found)),
            Step::Missing(_) => Ok(None),
        }
    }
}

/// The result of looking for one name.
enum Step<H> {
    Found(Named<H>),
    Missing(Option<u64>),
}
