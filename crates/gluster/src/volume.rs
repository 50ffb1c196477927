//! A directory of a volume as a file system.

use std::sync::Arc;

use backing::directory_cache::Directory;
use backing::moments::Moment;
use backing::walk::{Found, Reached, Walk};
use server::answer::Answer;
use server::vfs::{
    Access, Capabilities, Case, Created, DirectoryVersion, Errno, FileId, Kind, Lookup, LookupOptions, NewFile, Node,
    Op, Parent, Private, RelPath, Removed, RenameRequest, Replace, Result, SERVER, SymlinkPolicy, Vfs,
};

use crate::attributes::Source;
use crate::connection::Connection;
use crate::identity;
use crate::node::{self, Open};
use crate::private;
use crate::sys::Object;

/// A directory of a volume, and how names below it are changed.
#[derive(Clone)]
pub(crate) struct Volume {
    pub(crate) connection: Arc<Connection>,
    pub(crate) root: Directory<Object>,
    /// The path of the root within the volume.
    prefix: RelPath,
}

/// Links on the way to a name that is changed are followed below the root. The server has already looked the path up
/// with the share's policy, and passes the path that it found.
const LINKS: SymlinkPolicy = SymlinkPolicy::BENEATH;

impl Volume {
    /// Opens a directory of the volume, as the server. No link is followed.
    pub(crate) fn open(connection: Arc<Connection>, path: &str) -> Result<Volume> {
        identity::assume_server()?;
        let (root, stat) = connection.client.root()?;
        let root = Directory { id: connection.report(&root, &stat).id, handle: Arc::new(root) };
        let mut prefix = RelPath::root();
        for name in path.split('/').filter(|name| !matches!(*name, "" | ".")) {
            if !prefix.push(name.as_bytes()) {
                return Err(Errno::INVAL);
            }
        }
        let top = Volume { connection, root, prefix: RelPath::root() };
        let root = top.walk().directory(&SERVER, &prefix, SymlinkPolicy::NONE)?;
        Ok(Volume { root, prefix, ..top })
    }

    pub(crate) fn walk(&self) -> Walk<'_, Connection> {
        let Connection { directories, .. } = &*self.connection;
        Walk { storage: &*self.connection, cache: directories, root: &self.root, prefix: &self.prefix }
    }

    /// Returns the directory of `path` and the last name.
    pub(crate) fn parent<'a>(&self, op: &Op, path: &'a RelPath) -> Result<(Directory<Object>, &'a [u8])> {
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else { return Err(Errno::INVAL) };
        let directory = self.walk().directory(op, &parent, LINKS)?;
        if !self.walk().may_search(op, &directory)? {
            return Err(Errno::ACCES);
        }
        Ok((directory, name))
    }

    /// Makes calls for a user on a worker.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        op: &Op,
        work: impl FnOnce(&Volume, &Op) -> Result<T> + Send + 'static,
    ) -> Answer<Result<T>> {
        let (volume, op) = (self.clone(), op.clone());
        self.connection.run(&op.clone(), move |_| work(&volume, &op))
    }

    fn lookup_now(&self, op: &Op, path: &RelPath, options: LookupOptions) -> Result<Lookup> {
        let before = self.connection.recent.now();
        match self.walk().resolve(op, path, options)? {
            Reached::Found(found) => self.found(op, before, found, options.access),
            Reached::Missing { path, directory, version } => {
                let parent = self.missing_in(&directory, version)?;
                Ok(Lookup::Missing { path, parent })
            }
            Reached::NoParent => Ok(Lookup::NoParent),
        }
    }

    /// Returns a file that was found after `before`.
    fn found(&self, op: &Op, before: Moment, found: Found<Object>, access: Access) -> Result<Lookup> {
        let Found { path, location, handle, stat, parent } = found;
        let open = Open::new(self, &handle, stat.id, stat.kind, None).at(location, parent);
        let source = Source { object: &handle, file: None };
        let metadata = self.connection.metadata(&stat, source)?;
        self.connection.recent.put(before, metadata);
        open.guess(op);
        let open = match stat.kind {
            // An error shows when the caller opens the file.
            Kind::File if access.read && !access.write => open.opened_for(op, access),
            _ => open,
        };
        Ok(Lookup::Found { path, node: open.into_node(), metadata })
    }

    /// Returns the file `path`, if it is known without waiting.
    fn known_found(&self, op: &Op, path: &RelPath) -> Option<Lookup> {
        let (parent, name) = self.walk().known_parent(op, path)?;
        let Connection { files, directories, recent, .. } = &*self.connection;
        let found = files.child(parent.id, name).or_else(|| directories.child(parent.id, name))?;
        let metadata = recent.get(found.id)?;
        let open = Open::new(self, &found.handle, found.id, metadata.kind, None).at(path.clone(), Some(parent));
        Some(Lookup::Found { path: path.clone(), node: open.into_node(), metadata })
    }

    /// Returns that `path` is missing, if that is known without waiting.
    fn known_missing(&self, op: &Op, path: &RelPath) -> Option<Lookup> {
        let (directory, version) = self.walk().known_missing(op, path)?;
        let known = self.connection.directories.protection(directory.id)?;
        let version = DirectoryVersion { id: directory.id, mode: known.mode, gid: known.gid, state: version? };
        Some(Lookup::Missing { path: path.clone(), parent: Parent { version: Some(version), opened: None } })
    }

    /// Returns what is known of a directory in which a name is missing.
    fn missing_in(&self, directory: &Directory<Object>, version: Option<u64>) -> Result<Parent> {
        let protection = self.connection.directories.protection(directory.id);
        if let (Some(state), Some(known)) = (version, protection) {
            let version = DirectoryVersion { id: directory.id, mode: known.mode, gid: known.gid, state };
            return Ok(Parent { version: Some(version), opened: None });
        }
        identity::assume_server()?;
        let before = self.connection.directories.now();
        let stat = self.connection.stat(Source { object: &directory.handle, file: None })?;
        let protection = backing::directory_cache::Protection::of(&stat);
        self.connection.directories.put_protection(before, directory.id, protection);
        let version = version.map(|state| DirectoryVersion { id: directory.id, mode: stat.mode, gid: stat.gid, state });
        let source = Source { object: &directory.handle, file: None };
        let metadata = self.connection.metadata(&stat, source)?;
        let node = Open::new(self, &directory.handle, stat.id, stat.kind, None).into_node();
        Ok(Parent { version, opened: Some((node, metadata)) })
    }

    fn beneath_now(&self, op: &Op, path: &RelPath) -> Result<Volume> {
        let root = self.walk().directory(op, path, SymlinkPolicy::NONE)?;
        let mut prefix = self.prefix.clone();
        for name in path.components() {
            if !prefix.push(name) {
                return Err(Errno::NOENT);
            }
        }
        Ok(Volume { root, prefix, connection: Arc::clone(&self.connection) })
    }
}

impl Vfs for Volume {
    fn capabilities(&self) -> &Capabilities {
        &self.connection.capabilities
    }

    fn lookup(&self, op: &Op, path: &RelPath, options: LookupOptions) -> Answer<Result<Lookup>> {
        if options.case == Case::Insensitive
            && let Some(missing) = self.known_missing(op, path)
        {
            return Answer::now(Ok(missing));
        }
        if let Some(found) = self.known_found(op, path) {
            return Answer::now(Ok(found));
        }
        let path = path.clone();
        let look = move |volume: &Volume, op: &Op| volume.lookup_now(op, &path, options);
        let (volume, user) = (self.clone(), op.clone());
        let work = backing::executor::unless_cancelled(op, move || look(&volume, &user));
        self.connection.run(op, move |_| work())
    }

    fn create(&self, op: &Op, path: &RelPath, new: NewFile) -> Answer<Result<Created>> {
        let path = path.clone();
        self.run(op, move |volume, op| volume.create_now(op, &path, new))
    }

    fn rename(&self, op: &Op, rename: RenameRequest) -> Answer<Result<()>> {
        self.run(op, move |volume, op| volume.rename_now(op, &rename))
    }

    fn link(&self, op: &Op, node: &Arc<dyn Node>, to: &RelPath, replace: Replace) -> Answer<Result<()>> {
        let Some(open) = node::of(node).filter(|open| open.is_on(&self.connection)) else {
            return Answer::now(Err(Errno::XDEV));
        };
        let to = to.clone();
        self.run(op, move |volume, op| volume.link_now(op, &open, &to, replace))
    }

    fn unlink(&self, op: &Op, path: &RelPath, id: FileId, kind: Kind) -> Answer<Result<Removed>> {
        let path = path.clone();
        self.run(op, move |volume, op| volume.unlink_now(op, &path, id, kind))
    }

    fn may_remove(&self, op: &Op, path: &RelPath, owner: u32) -> Option<bool> {
        let (directory, _) = self.walk().known_parent(op, path)?;
        self.connection.directories.protection(directory.id)?.permits_removal(op, owner)
    }

    fn private(&self, root: &RelPath, name: &'static str, make: bool) -> Answer<Result<Option<Arc<dyn Private>>>> {
        let root = root.clone();
        self.run(&SERVER, move |volume, op| private::open(volume, op, &root, name, make))
    }

    fn beneath(&self, op: &Op, path: &RelPath) -> Answer<Result<Arc<dyn Vfs>>> {
        let path = path.clone();
        self.run(op, move |volume, op| volume.beneath_now(op, &path).map(|volume| Arc::new(volume) as Arc<dyn Vfs>))
    }
}
