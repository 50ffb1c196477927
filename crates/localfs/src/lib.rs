//! A share in a Linux directory: the [`server::vfs::Vfs`] trait on system calls.
//!
//! Every path is resolved beneath the root's descriptor by the kernel (`openat2`), every operation runs with the asking
//! user's own fsuid, fsgid and groups. What the kernel has in its caches is answered at once; what would wait for a disk
//! goes to a worker thread. Unsafe code is in `sys` only.

mod cache;
mod identity;
mod names;
mod node;
mod root;
mod stat;
mod sys;
mod worker;

use std::io;
use std::path::Path;
use std::sync::Arc;

pub use identity::as_process;
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno as Raw;
use server::answer::Answer;
use server::vfs::{
    Case, Create, Errno, FileId, Identity, Kind, Links, Lookup, Metadata, Node, RelPath, Result, Space, Vfs,
};

use cache::Cache;
use names::Names;
use node::{LocalNode, data_flags};
use root::Root;

/// What can be chosen about a share's directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Which links may stand on the way to a file that is made, renamed or removed: as in the share's look-ups.
    pub links: Links,
}

/// A share in a Linux directory.
pub struct LocalFs {
    shared: Arc<Shared>,
}

/// What the file system and its nodes have in common.
pub(crate) struct Shared {
    pub(crate) root: Root,
    pub(crate) links: Links,
    pub(crate) names: Names,
    pub(crate) cache: Cache,
}

/// Errors of rustix in the trait's form.
pub(crate) fn errno(raw: Raw) -> Errno {
    Errno(raw.raw_os_error())
}

/// Errors of the standard library in the trait's form.
pub(crate) fn io_errno(error: &io::Error) -> Errno {
    Errno(error.raw_os_error().unwrap_or(Errno::IO.0))
}

/// Acts as `who` on this thread from now on.
pub(crate) fn assume(who: &Identity) -> Result<()> {
    identity::assume(who).map_err(|error| {
        tracing::error!(uid = who.uid, %error, "cannot act as the user");
        Errno::PERM
    })
}

impl LocalFs {
    /// Opens the directory `path`, with the process's own identity.
    pub fn open(path: &Path, options: Options) -> io::Result<LocalFs> {
        let root = identity::as_process(|| Root::of_directory(path))??;
        Ok(LocalFs {
            shared: Arc::new(Shared { root, links: options.links, names: Names::default(), cache: Cache::default() }),
        })
    }
}

impl Shared {
    fn lookup(self: &Arc<Self>, path: &RelPath, case: Case, links: Links) -> Result<Lookup> {
        match self.find(path, links) {
            Ok(found) => return Ok(found),
            Err(Errno::NOENT) if case == Case::Insensitive => {}
            Err(Errno::NOENT) => return self.missing(path, links),
            Err(Errno::NOTDIR) => return Ok(Lookup::NoParent),
            Err(error) => return Err(error),
        }
        self.lookup_folded(path, links)
    }

    /// Opens exactly `path`.
    fn find(self: &Arc<Self>, path: &RelPath, links: Links) -> Result<Lookup> {
        let fd = self.root.handle(path, links)?;
        let metadata = stat::of_fd(&fd, &self.cache)?;
        Ok(Lookup::Found { path: path.clone(), node: LocalNode::handle(self.clone(), fd), metadata })
    }

    /// Whether the directory of a name that does not exist is there.
    fn missing(self: &Arc<Self>, path: &RelPath, links: Links) -> Result<Lookup> {
        let Some(parent) = path.parent() else { return Ok(Lookup::NoParent) };
        match self.root.directory(&parent, links) {
            Ok(_) => Ok(Lookup::Missing { path: path.clone() }),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(Lookup::NoParent),
            Err(error) => Err(error),
        }
    }

    /// Finds `path` where its names differ in case only, one component after the other.
    fn lookup_folded(self: &Arc<Self>, path: &RelPath, links: Links) -> Result<Lookup> {
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else { return Ok(Lookup::NoParent) };
        // The parent mostly is spelled right: its descriptor tells without a walk.
        let (directory, parent) = match self.root.directory(&parent, links) {
            Ok(fd) => (fd, parent),
            Err(Errno::NOENT | Errno::NOTDIR) => match self.fold_directory(&parent, links)? {
                Some(found) => found,
                None => return Ok(Lookup::NoParent),
            },
            Err(error) => return Err(error),
        };
        let spelled = self.names.find(&directory, name)?;
        let missing = || parent.join(name).map(|path| Lookup::Missing { path }).ok_or(Errno::INVAL);
        let Some(spelled) = spelled else { return missing() };
        let path = parent.join(&spelled).ok_or(Errno::INVAL)?;
        match self.find(&path, links) {
            // The index was out of date, or the name went away just now.
            Err(Errno::NOENT) => missing(),
            other => other,
        }
    }

    /// The directory that `path` names in another case; `None` where there is none.
    fn fold_directory(
        self: &Arc<Self>,
        path: &RelPath,
        links: Links,
    ) -> Result<Option<(std::os::fd::OwnedFd, RelPath)>> {
        let mut found = RelPath::root();
        let mut fd = self.root.directory(&found, links)?;
        for name in path.components() {
            let exact = found.join(name).ok_or(Errno::INVAL)?;
            match self.root.directory(&exact, links) {
                Ok(next) => (fd, found) = (next, exact),
                Err(Errno::NOENT) => {
                    let Some(spelled) = self.names.find(&fd, name)? else { return Ok(None) };
                    let folded = found.join(&spelled).ok_or(Errno::INVAL)?;
                    match self.root.directory(&folded, links) {
                        Ok(next) => (fd, found) = (next, folded),
                        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
                        Err(error) => return Err(error),
                    }
                }
                Err(Errno::NOTDIR) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some((fd, found)))
    }

    fn create(
        self: &Arc<Self>,
        path: &RelPath,
        what: Create,
        mode: u32,
        dos_attributes: Option<u32>,
    ) -> Result<(Arc<dyn Node>, Metadata)> {
        let mode = Mode::from_raw_mode(mode);
        let (fd, data) = match what {
            Create::File(access) => {
                let flags = data_flags(access) | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
                (self.root.open(path, flags, mode, self.links)?, true)
            }
            Create::Directory => {
                let (parent, name) = self.parent(path)?;
                rustix::fs::mkdirat(&parent, name, mode).map_err(errno)?;
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
                (self.root.open(path, flags, Mode::empty(), self.links)?, true)
            }
        };
        if let Some(attributes) = dos_attributes {
            // Not every file system has extended attributes; then permission bits must do, as for Samba.
            match stat::store_new_attributes(&fd, attributes) {
                Ok(()) | Err(Errno::OPNOTSUPP | Errno::PERM) => {}
                Err(error) => return Err(error),
            }
        }
        let metadata = stat::of_fd(&fd, &self.cache)?;
        self.names.added(path);
        Ok((LocalNode::opened(self.clone(), fd, data), metadata))
    }

    /// The directory that holds `path`, and the last name.
    fn parent<'a>(&self, path: &'a RelPath) -> Result<(std::os::fd::OwnedFd, &'a [u8])> {
        let name = path.name().ok_or(Errno::INVAL)?;
        let parent = path.parent().ok_or(Errno::INVAL)?;
        Ok((self.root.directory(&parent, self.links)?, name))
    }

    fn rename(&self, from: &RelPath, id: FileId, to: &RelPath, replace: bool) -> Result<()> {
        let (from_dir, from_name) = self.parent(from)?;
        let (to_dir, to_name) = self.parent(to)?;
        check_id(&from_dir, from_name, id)?;
        let same = stat::at(&to_dir, to_name).ok().filter(|there| there.id == id);
        let flags = if replace || same.is_some() { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        if replace && same.is_none() && stat::at(&to_dir, to_name).is_ok_and(|there| there.kind == Kind::Directory) {
            return Err(Errno::ISDIR);
        }
        if same.is_some() && (from_name != to_name || from.parent() != to.parent()) {
            // Two names of one file: rename(2) would do nothing and keep both.
            let links = same.map_or(1, |there| there.links);
            if links > 1 {
                rustix::fs::unlinkat(&from_dir, from_name, AtFlags::empty()).map_err(errno)?;
                self.names.changed();
                return Ok(());
            }
        }
        rustix::fs::renameat_with(&from_dir, from_name, &to_dir, to_name, flags).map_err(errno)?;
        self.names.changed();
        Ok(())
    }

    fn link(&self, node: &LocalNode, to: &RelPath, replace: bool) -> Result<()> {
        let (directory, name) = self.parent(to)?;
        let link = || node.link_to(&directory, name);
        match link() {
            Err(Errno::EXIST) if replace => {
                if stat::at(&directory, name)?.kind == Kind::Directory {
                    return Err(Errno::ISDIR);
                }
                rustix::fs::unlinkat(&directory, name, AtFlags::empty()).map_err(errno)?;
                link()?;
            }
            other => other?,
        }
        self.names.changed();
        Ok(())
    }

    fn unlink(&self, path: &RelPath, id: FileId, kind: Kind) -> Result<()> {
        let (directory, name) = self.parent(path)?;
        check_id(&directory, name, id)?;
        let flags = if kind == Kind::Directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        rustix::fs::unlinkat(&directory, name, flags).map_err(errno)?;
        self.names.changed();
        Ok(())
    }

    fn space(&self) -> Result<Space> {
        let found = rustix::fs::fstatvfs(self.root.fd()).map_err(errno)?;
        Ok(Space {
            block_size: u32::try_from(found.f_frsize).unwrap_or(4096),
            blocks: found.f_blocks,
            free: found.f_bfree,
            available: found.f_bavail,
            id: found.f_fsid,
        })
    }
}

/// Refuses to touch a name that is another file's by now.
fn check_id(directory: &std::os::fd::OwnedFd, name: &[u8], id: FileId) -> Result<()> {
    if stat::at(directory, name)?.id == id { Ok(()) } else { Err(Errno::STALE) }
}

impl Vfs for LocalFs {
    fn lookup(&self, who: &Arc<Identity>, path: &RelPath, case: Case, links: Links) -> Answer<Result<Lookup>> {
        Answer::now(assume(who).and_then(|()| self.shared.lookup(path, case, links)))
    }

    fn create(
        &self,
        who: &Arc<Identity>,
        path: &RelPath,
        what: Create,
        mode: u32,
        dos_attributes: Option<u32>,
    ) -> Answer<Result<(Arc<dyn Node>, Metadata)>> {
        Answer::now(assume(who).and_then(|()| self.shared.create(path, what, mode, dos_attributes)))
    }

    fn rename(
        &self,
        who: &Arc<Identity>,
        from: &RelPath,
        id: FileId,
        to: &RelPath,
        replace: bool,
    ) -> Answer<Result<()>> {
        Answer::now(assume(who).and_then(|()| self.shared.rename(from, id, to, replace)))
    }

    fn link(&self, who: &Arc<Identity>, node: &Arc<dyn Node>, to: &RelPath, replace: bool) -> Answer<Result<()>> {
        let Some(node) = node.as_any().downcast_ref::<LocalNode>() else { return Answer::now(Err(Errno::XDEV)) };
        Answer::now(assume(who).and_then(|()| self.shared.link(node, to, replace)))
    }

    fn unlink(&self, who: &Arc<Identity>, path: &RelPath, id: FileId, kind: Kind) -> Answer<Result<()>> {
        Answer::now(assume(who).and_then(|()| self.shared.unlink(path, id, kind)))
    }

    fn space(&self, who: &Arc<Identity>) -> Answer<Result<Space>> {
        Answer::now(assume(who).and_then(|()| self.shared.space()))
    }
}
