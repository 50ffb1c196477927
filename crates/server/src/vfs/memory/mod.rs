//! A file system in memory, for tests, for the simulation and for shares in RAM.
//!
//! It follows the rules of Linux that clients can observe: permissions of owner, group and others, sticky directories,
//! hard links, symbolic links below the root, and unlinked files that exist while they are open. Every answer is
//! available at once. Deliberately left out are the effect of POSIX ACLs ([`Options::lists`] only stores them), updates
//! of the access time on reading, and everything outside the root: a link that leads there is never followed, whatever
//! `wide links` is.

mod directory;
mod handle;
mod inode;
mod kept;
mod pages;
mod private;
mod quotas;
mod resolve;
mod view;

use std::sync::Arc;

use parking_lot::Mutex;

use self::handle::Handle;
use self::inode::{Body, Inode};
use self::quotas::Limits;
use self::resolve::Place;
use self::view::View;
use super::{
    Access, AclKind, Capabilities, Changes, Create, Created, Enforcement, Errno, Features, FileId, GRANULARITY,
    Identity, InitialAcl, Kind, Lookup, LookupOptions, Metadata, NewFile, Node, Op, Parent, Private, QuotaOwner,
    RelPath, Removed, RenameRequest, Replace, Result, Space, SpecialFile, Time, Vfs, WantedXattrs,
};
use crate::acl::model::posix_acl::PosixAcl;
use crate::answer::Answer;
use crate::environment::Environment;

/// The number of the root directory.
const ROOT: u64 = 1;

/// Capacity and initial state of the file system.
#[derive(Clone, Debug)]
pub struct Options {
    /// Maximum size of the content of all files together, in bytes, counted in pages of 4 KiB. Beyond it,
    /// `Errno::NOSPC`.
    pub capacity: u64,
    /// Maximum number of files, directories and links, including the root. Beyond it, `Errno::NOSPC`.
    pub inodes: usize,
    /// Permission bits of the root directory.
    pub mode: u32,
    /// Owner of the root directory.
    pub uid: u32,
    /// Group of the root directory.
    pub gid: u32,
    /// The device number in [`FileId`], which identifies this file system.
    pub device: u64,
    /// The features that it reports. Holes are always supported.
    pub features: Features,
    /// Files store the POSIX ACLs set on them. They have no effect on access, which is decided by the mode alone.
    pub lists: bool,
    /// Users and groups can have quotas. Beyond one, `Errno::DQUOT`.
    pub quotas: bool,
    /// Maximum size of the names and values of all extended attributes of a file together, in bytes. Beyond it,
    /// `Errno::NOSPC`.
    pub attribute_space: usize,
    /// The extended attributes whose absence it reports with the metadata of a file.
    pub attributes: WantedXattrs,
}

impl Default for Options {
    fn default() -> Self {
        let features = Features { clones: true, compresses: true, punches: true, shows_reserved: true };
        let (capacity, inodes, device) = (1 << 40, 1 << 24, 0x6d65_6d00);
        let (lists, quotas, attribute_space, attributes) = (false, false, usize::MAX, WantedXattrs::default());
        let (mode, uid, gid) = (0o755, 0, 0);
        Options { capacity, inodes, mode, uid, gid, device, features, lists, quotas, attribute_space, attributes }
    }
}

impl Options {
    fn capabilities(&self, changes: Changes) -> Capabilities {
        let acls = if self.lists { AclKind::Posix } else { AclKind::None };
        let (attributes, features) = (self.attributes.clone(), self.features);
        let enforcement = Enforcement::ExceptRoot;
        Capabilities { acls, changes, leases: true, locks: true, enforcement, attributes, features }
    }
}

/// A file system in memory.
pub struct Memory(Arc<Shared>);

/// The state shared by the file system and all its handles.
struct Shared {
    environment: Arc<dyn Environment>,
    options: Options,
    capabilities: Capabilities,
    state: Mutex<State>,
}

/// The mutable state.
struct State {
    /// Inodes by number. Numbers are never reused.
    inodes: std::collections::HashMap<u64, Inode>,
    /// The number of the next inode.
    next: u64,
    /// Number of handles ever opened.
    handles: u64,
    /// Space used by content.
    quota: Quota,
    /// The limits of users and groups.
    limits: Limits,
}

/// Space for the content of all files: pages in use and their limit.
struct Quota {
    used: u64,
    limit: u64,
}

impl Quota {
    /// Takes one page; `false` if none is left.
    fn take(&mut self) -> bool {
        let left = self.used < self.limit;
        self.used += u64::from(left);
        left
    }
}

impl Memory {
    /// An empty file system with the default [`Options`].
    pub fn new(environment: Arc<dyn Environment>) -> Self {
        Memory::with_options(environment, Options::default())
    }

    /// An empty file system.
    pub fn with_options(environment: Arc<dyn Environment>, options: Options) -> Self {
        let mut root = Inode::new(Body::directory(ROOT), options.mode, options.uid, options.gid, environment.now());
        root.links = 2;
        let quota = Quota { used: 0, limit: options.capacity / pages::PAGE };
        let state = State { inodes: [(ROOT, root)].into(), next: ROOT + 1, handles: 0, quota, limits: Limits::new() };
        let capabilities =
            options.capabilities(Changes::Timestamp { granularity: GRANULARITY, of_whole_seconds: GRANULARITY });
        Memory(Arc::new(Shared { environment, options, capabilities, state: Mutex::new(state) }))
    }

    /// Makes `path` a symbolic link to `target`, as `ln -s` would. Clients have no such operation.
    pub fn symlink(&self, who: &Identity, path: &RelPath, target: &[u8]) -> Result<()> {
        self.0.add(&mut self.0.state.lock(), who, path, Body::Symlink(target.into()), 0o777).map(|_| ())
    }

    /// Makes `path` a special file such as a socket.
    pub fn special(&self, who: &Identity, path: &RelPath, mode: u32) -> Result<()> {
        self.0.add(&mut self.0.state.lock(), who, path, Body::Special(SpecialFile::Fifo), mode).map(|_| ())
    }

    /// Returns the number of inodes, including unlinked ones that are still open.
    pub fn inode_count(&self) -> usize {
        self.0.state.lock().inodes.len()
    }
}

impl Shared {
    /// Returns the metadata of inode `number`.
    fn describe(&self, number: u64, inode: &Inode) -> Metadata {
        let absent = self.options.attributes.filter(|name| !inode.xattrs.contains_key(name));
        Metadata { absent, ..inode.metadata(self.id(number)) }
    }

    fn id(&self, inode: u64) -> FileId {
        FileId { device: self.options.device, inode, stream: 0 }
    }

    /// Opens a handle to an inode, which keeps the inode alive.
    fn handle(
        self: &Arc<Self>,
        state: &mut State,
        root: u64,
        number: u64,
        access: Access,
    ) -> Result<(Arc<dyn Node>, Metadata)> {
        let inode = state.inodes.get_mut(&number).ok_or(Errno::STALE)?;
        inode.opens += 1;
        inode.kept.opened(access);
        state.handles += 1;
        let metadata = self.describe(number, inode);
        Ok((Arc::new(Handle::new(Arc::clone(self), number, state.handles, access, root)), metadata))
    }

    /// Adds an inode under a name that must be free.
    fn add(&self, state: &mut State, who: &Identity, path: &RelPath, body: Body, mode: u32) -> Result<u64> {
        let place = state.place(who, path)?;
        self.add_in(state, who, place.parent, place.name, body, mode)
    }

    /// Adds an inode under a name of a directory that must be free.
    fn add_in(
        &self,
        state: &mut State,
        who: &Identity,
        directory: u64,
        name: &[u8],
        body: Body,
        mode: u32,
    ) -> Result<u64> {
        let now = self.environment.now();
        if state.directory(directory)?.get(name).is_some() {
            return Err(Errno::EXIST);
        }
        state.may_change(who, directory)?;
        if state.inodes.len() >= self.options.inodes {
            return Err(Errno::NOSPC);
        }
        let number = state.next;
        state.next += 1;
        let parent = state.inode_mut(directory)?;
        // A set-group-id directory passes on its group, and the bit to directories.
        let inherits = parent.mode & 0o2000 != 0;
        let gid = if inherits { parent.gid } else { who.gid };
        let body = if let Body::Directory { .. } = body { Body::directory(directory) } else { body };
        let kind = body.kind();
        let mode = if inherits && kind == Kind::Directory { mode | 0o2000 } else { mode };
        let compressed = parent.compressed && matches!(kind, Kind::File | Kind::Directory);
        let inode = Inode { compressed, ..Inode::new(body, mode & 0o7777, who.uid, gid, now) };
        state.inodes.insert(number, inode);
        state.attach(directory, name, number, now)?;
        Ok(number)
    }

    fn find(self: &Arc<Self>, root: u64, who: &Identity, path: &RelPath, options: LookupOptions) -> Result<Lookup> {
        let mut state = self.state.lock();
        match state.resolve_from(root, who, path, options.case, options.links)? {
            resolve::Found::Inode { number, path } => {
                let (node, metadata) = self.handle(&mut state, root, number, Access::default())?;
                Ok(Lookup::Found { path, node, metadata })
            }
            resolve::Found::Missing { path } => Ok(Lookup::Missing { path, parent: Parent::default() }),
            resolve::Found::NoParent => Ok(Lookup::NoParent),
        }
    }

    fn make(self: &Arc<Self>, who: &Identity, path: &RelPath, new: NewFile) -> Result<Created> {
        let mut state = self.state.lock();
        let (body, access) = match new.kind {
            Create::File(access) => (Body::file(), access),
            Create::Directory => (Body::directory(ROOT), Access { read: true, write: false }),
            Create::Symlink { target, replaces } => {
                if let Some(id) = replaces {
                    self.remove_empty(&mut state, who, path, id)?;
                }
                (Body::Symlink(target), Access::default())
            }
            Create::Special { file: SpecialFile::CharacterDevice(..) | SpecialFile::BlockDevice(..), .. } => {
                return Err(Errno::PERM);
            }
            Create::Special { file, replaces } => {
                if let Some(id) = replaces {
                    self.remove_empty(&mut state, who, path, id)?;
                }
                (Body::Special(file), Access::default())
            }
        };
        let mode = if let Body::Symlink(_) = body { 0o777 } else { new.mode };
        let number = self.add(&mut state, who, path, body, mode)?;
        let inode = state.inode_mut(number)?;
        inode.dos_attributes = new.dos_attributes;
        let protected = new.protection.is_some_and(|acl| self.protect(inode, acl));
        let (node, metadata) = self.handle(&mut state, ROOT, number, access)?;
        Ok(Created { node, metadata, protected })
    }

    /// Protects a new file. Returns whether the protection is in place.
    fn protect(&self, inode: &mut Inode, acl: InitialAcl) -> bool {
        if (inode.uid, inode.gid) != acl.owner || (!self.options.lists && !acl.lists.is_empty()) {
            return false;
        }
        inode.mode = acl.mode.unwrap_or(inode.mode);
        let (descriptor, value) = acl.descriptor;
        // As Linux does, an ACL that is equivalent to the mode is not stored.
        let counts = |list: &Vec<u8>| !PosixAcl::decode(list).is_ok_and(|list| list.is_minimal());
        for (name, list) in acl.lists {
            if let Some(list) = list.filter(counts) {
                inode.xattrs.insert(name.to_owned(), list);
            }
        }
        inode.xattrs.insert(descriptor, value);
        true
    }

    fn move_name(&self, who: &Identity, from: &RelPath, id: FileId, to: &RelPath, replace: Replace) -> Result<()> {
        let now = self.environment.now();
        let mut state = self.state.lock();
        let source = state.place(who, from)?;
        let number = state.names(who, &source, self.inode_of(id)?)?;
        let target = state.place(who, to)?;
        let in_the_way = state.directory(target.parent)?.get(target.name);
        let moves_directory = state.inode(number)?.body.kind() == Kind::Directory;
        if let Some(other) = in_the_way {
            // A link that replaced its own target would lead nowhere.
            if other != number && other == id.inode {
                return Err(Errno::EXIST);
            }
            state.may_replace(other, moves_directory, replace.admits(self.id(other)))?;
            // Two names of one file become one.
            if other == number {
                let is_itself = source.parent == target.parent && source.name == target.name;
                return if is_itself {
                    Ok(())
                } else {
                    state.may_remove(who, source.parent, number)?;
                    state.detach(source.parent, source.name, now)
                };
            }
        }
        state.may_remove(who, source.parent, number)?;
        state.may_change(who, target.parent)?;
        if moves_directory {
            if state.is_within(target.parent, number)? {
                return Err(Errno::INVAL);
            }
            // Moving a directory rewrites its `..`.
            if target.parent != source.parent && state.inode(number)?.permissions(who) & 2 == 0 {
                return Err(Errno::ACCES);
            }
        }
        if let Some(other) = in_the_way {
            state.may_remove(who, target.parent, other)?;
            state.detach(target.parent, target.name, now)?;
        }
        // Attached first, so that the count never falls to 0 in between.
        state.attach(target.parent, target.name, number, now)?;
        if moves_directory && let Body::Directory { parent, .. } = &mut state.inode_mut(number)?.body {
            *parent = target.parent;
        }
        state.detach(source.parent, source.name, now)
    }

    fn add_link(&self, who: &Identity, number: u64, to: &RelPath, replace: Replace) -> Result<()> {
        let now = self.environment.now();
        let mut state = self.state.lock();
        let target = state.place(who, to)?;
        let inode = state.inode(number)?;
        match inode.body.kind() {
            Kind::Directory => return Err(Errno::PERM),
            _ if inode.links == 0 => return Err(Errno::NOENT),
            _ => {}
        }
        let in_the_way = state.directory(target.parent)?.get(target.name);
        if let Some(other) = in_the_way {
            state.may_replace(other, false, replace.admits(self.id(other)))?;
            if other == number {
                return Ok(());
            }
            state.may_remove(who, target.parent, other)?;
        }
        state.may_change(who, target.parent)?;
        if in_the_way.is_some() {
            state.detach(target.parent, target.name, now)?;
        }
        state.attach(target.parent, target.name, number, now)
    }

    fn remove_name(&self, who: &Identity, path: &RelPath, id: FileId, kind: Kind) -> Result<Removed> {
        let mut state = self.state.lock();
        let place = state.place(who, path)?;
        self.remove_place(&mut state, who, &place, id, kind)
    }

    /// Removes `name` in the directory `parent`.
    fn remove_name_in(&self, parent: u64, who: &Identity, name: &[u8], id: FileId, kind: Kind) -> Result<Removed> {
        self.remove_place(&mut self.state.lock(), who, &resolve::Place { parent, name }, id, kind)
    }

    fn remove_place(
        &self,
        state: &mut State,
        who: &Identity,
        place: &resolve::Place<'_>,
        id: FileId,
        kind: Kind,
    ) -> Result<Removed> {
        let now = self.environment.now();
        let number = state.names(who, place, self.inode_of(id)?)?;
        state.may_remove(who, place.parent, number)?;
        match (&state.inode(number)?.body, kind) {
            (Body::Directory { .. }, kind) if kind != Kind::Directory => return Err(Errno::ISDIR),
            (Body::Directory { entries, .. }, _) if !entries.is_empty() => return Err(Errno::NOTEMPTY),
            (Body::File(_) | Body::Special(_), Kind::Directory) => return Err(Errno::NOTDIR),
            _ => {}
        }
        state.detach(place.parent, place.name, now)?;
        Ok(Removed { links: Some(state.inode(number).map_or(0, |inode| inode.links)) })
    }

    /// Removes the name of an empty file or directory, so that a link can take its place.
    fn remove_empty(&self, state: &mut State, who: &Identity, path: &RelPath, id: FileId) -> Result<()> {
        let now = self.environment.now();
        let place = state.place(who, path)?;
        let number = self.inode_of(id)?;
        if state.directory(place.parent)?.get(place.name) != Some(number) {
            return Err(Errno::STALE);
        }
        match &state.inode(number)?.body {
            Body::Directory { entries, .. } if entries.is_empty() => {}
            Body::File(content) if content.size() == 0 => {}
            Body::Directory { .. } | Body::File(_) => return Err(Errno::NOTEMPTY),
            Body::Symlink(_) | Body::Special(_) => return Err(Errno::INVAL),
        }
        state.may_remove(who, place.parent, number)?;
        state.detach(place.parent, place.name, now)
    }

    fn space(&self) -> Space {
        let state = self.state.lock();
        let (blocks, free) = (state.quota.limit, state.quota.limit - state.quota.used);
        Space { block_size: pages::PAGE as u32, blocks, free, available: free, id: self.options.device }
    }

    fn space_of_user(&self, who: &Identity) -> Space {
        let space = self.space();
        let owners = [QuotaOwner::User(who.uid), QuotaOwner::Group(who.gid)];
        if !self.options.quotas || who.uid == 0 {
            return space;
        }
        let state = self.state.lock();
        owners.into_iter().fold(space, |space, of| state.quota_of(of).bound(space))
    }

    fn inode_of(&self, id: FileId) -> Result<u64> {
        if id.device == self.options.device { Ok(id.inode) } else { Err(Errno::STALE) }
    }
}

impl State {
    fn inode(&self, number: u64) -> Result<&Inode> {
        self.inodes.get(&number).ok_or(Errno::STALE)
    }

    fn inode_mut(&mut self, number: u64) -> Result<&mut Inode> {
        self.inodes.get_mut(&number).ok_or(Errno::STALE)
    }

    fn directory(&self, number: u64) -> Result<&directory::Directory> {
        match &self.inode(number)?.body {
            Body::Directory { entries, .. } => Ok(entries),
            _ => Err(Errno::NOTDIR),
        }
    }

    /// Returns the inode that `place` names, which must be `expected` or a link that leads to it.
    fn names(&self, who: &Identity, place: &Place<'_>, expected: u64) -> Result<u64> {
        let number = self.directory(place.parent)?.get(place.name).ok_or(Errno::NOENT)?;
        let leads_there = || self.follow(ROOT, who, place.parent, number) == Some(expected);
        if number == expected || leads_there() { Ok(number) } else { Err(Errno::STALE) }
    }

    /// Checks whether names may be added to and removed from the directory.
    fn may_change(&self, who: &Identity, directory: u64) -> Result<()> {
        let directory = self.inode(directory)?;
        // A removed directory accepts no new names.
        if directory.links == 0 {
            return Err(Errno::NOENT);
        }
        if directory.permissions(who) & 3 == 3 { Ok(()) } else { Err(Errno::ACCES) }
    }

    /// Checks whether the name of `number` may be removed from the directory, including the sticky bit.
    fn may_remove(&self, who: &Identity, directory: u64, number: u64) -> Result<()> {
        self.may_change(who, directory)?;
        let (directory, inode) = (self.inode(directory)?, self.inode(number)?);
        let sticky = directory.mode & 0o1000 != 0;
        let owns = [0, inode.uid, directory.uid].contains(&who.uid);
        if sticky && !owns { Err(Errno::PERM) } else { Ok(()) }
    }

    /// Checks whether the existing target of a rename or link may be replaced.
    fn may_replace(&self, other: u64, by_directory: bool, admitted: bool) -> Result<()> {
        match (self.inode(other)?.body.kind(), by_directory) {
            _ if !admitted => Err(Errno::EXIST),
            (Kind::Directory, true) => Err(Errno::EXIST),
            (Kind::Directory, false) => Err(Errno::ISDIR),
            (_, true) => Err(Errno::NOTDIR),
            _ => Ok(()),
        }
    }

    /// Returns whether `directory` is `ancestor` or below it.
    fn is_within(&self, directory: u64, ancestor: u64) -> Result<bool> {
        let mut at = directory;
        loop {
            match &self.inode(at)?.body {
                _ if at == ancestor => return Ok(true),
                Body::Directory { parent, .. } if at != ROOT => at = *parent,
                _ => return Ok(false),
            }
        }
    }

    /// Adds a name and updates the link counts.
    fn attach(&mut self, directory: u64, name: &[u8], number: u64, now: Time) -> Result<()> {
        let inode = self.inode_mut(number)?;
        let is_directory = inode.body.kind() == Kind::Directory;
        // A directory is linked from its parent and from its own `.`; while it moves, it keeps the latter.
        inode.links += if is_directory && inode.links == 0 { 2 } else { 1 };
        inode.stamp(now);
        let parent = self.inode_mut(directory)?;
        parent.links += u32::from(is_directory);
        parent.touch(now);
        if let Body::Directory { entries, .. } = &mut parent.body {
            entries.insert(name, number);
        }
        Ok(())
    }

    /// Removes a name; the inode is removed with its last link unless it is open.
    fn detach(&mut self, directory: u64, name: &[u8], now: Time) -> Result<()> {
        let parent = self.inode_mut(directory)?;
        let Body::Directory { entries, .. } = &mut parent.body else { return Err(Errno::NOTDIR) };
        let number = entries.remove(name).ok_or(Errno::NOENT)?;
        parent.touch(now);
        let inode = self.inode_mut(number)?;
        let is_directory = inode.body.kind() == Kind::Directory;
        inode.links -= 1;
        if is_directory && inode.links == 1 {
            inode.links = 0;
        }
        inode.stamp(now);
        self.inode_mut(directory)?.links -= u32::from(is_directory);
        self.forget(number);
        Ok(())
    }

    /// Frees an inode that has neither names nor handles.
    fn forget(&mut self, number: u64) {
        let unused = self.inodes.get(&number).is_some_and(|inode| inode.links == 0 && inode.opens == 0);
        if unused
            && let Some(inode) = self.inodes.remove(&number)
            && let Body::File(content) = inode.body
        {
            self.quota.used -= content.allocated();
        }
    }
}

impl Vfs for Memory {
    fn capabilities(&self) -> &Capabilities {
        &self.0.capabilities
    }

    fn lookup(&self, op: &Op, path: &RelPath, options: LookupOptions) -> Answer<Result<Lookup>> {
        Answer::now(self.0.find(ROOT, op, path, options))
    }

    fn create(&self, op: &Op, path: &RelPath, new: NewFile) -> Answer<Result<Created>> {
        Answer::now(self.0.make(op, path, new))
    }

    fn rename(&self, op: &Op, rename: RenameRequest) -> Answer<Result<()>> {
        let RenameRequest { from, id, to, replace, .. } = rename;
        Answer::now(self.0.move_name(op, &from, id, &to, replace))
    }

    fn link(&self, op: &Op, node: &Arc<dyn Node>, to: &RelPath, replace: Replace) -> Answer<Result<()>> {
        let ours = handle::of(node).filter(|handle| handle.belongs_to(&self.0));
        Answer::now(ours.ok_or(Errno::XDEV).and_then(|handle| self.0.add_link(op, handle.number(), to, replace)))
    }

    fn unlink(&self, op: &Op, path: &RelPath, id: FileId, kind: Kind) -> Answer<Result<Removed>> {
        Answer::now(self.0.remove_name(op, path, id, kind))
    }

    fn private(&self, root: &RelPath, name: &'static str, make: bool) -> Answer<Result<Option<Arc<dyn Private>>>> {
        Answer::now(private::Directory::open(&self.0, ROOT, root, name.as_bytes(), make))
    }

    fn beneath(&self, op: &Op, path: &RelPath) -> Answer<Result<Arc<dyn Vfs>>> {
        Answer::now(View::new(&self.0, ROOT, op, path).map(|view| Arc::new(view) as Arc<dyn Vfs>))
    }
}

#[cfg(test)]
pub(super) mod tests;
