//! Directories that only the server uses ([`Private`]), each held by its own descriptor.
//!
//! A user who may write to the share's root can create anything under such a directory's name. It is therefore opened
//! without following links or crossing mounts, and its owner and mode are checked on the descriptor. Names in it are
//! resolved from that descriptor. Later changes of the name do not affect an open directory.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use backing::executor::{Executor, OnVolume, change, query};
use backing::workers::SERVER;
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Statx};
use rustix::io::Errno as Raw;
use server::answer::Answer;
use server::vfs::{Access, Errno, Kind, Metadata, Node, Private, RelPath, Result};

use crate::filesystem::FileSystem;
use crate::identity::KernelIdentity;
use crate::metadata::{Source, kind};
use crate::node::{Descriptor, Open};
use crate::root::{id, stat};
use crate::watch::own;
use crate::{Share, errno, identity};

/// How the directory's name and names in it are resolved.
const INSIDE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// An open private directory.
pub(crate) struct Directory(Arc<Inner>);

struct Inner {
    share: Arc<Share>,
    system: Arc<FileSystem>,
    fd: OwnedFd,
    /// Its path, by which watchers recognize the server's own changes.
    path: RelPath,
}

impl OnVolume for Inner {
    type Identity = KernelIdentity;

    fn executor(&self) -> &Executor<KernelIdentity> {
        &self.system.executor
    }
}

/// Opens `name`, a single component, in `directory`.
fn open_in(directory: impl AsFd, name: &[u8], flags: OFlags, mode: u32) -> Result<OwnedFd> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    loop {
        match rustix::fs::openat2(&directory, name, flags, Mode::from_raw_mode(mode), INSIDE) {
            Err(Raw::INTR | Raw::AGAIN) => {}
            // A link or a mount. Only root can put one into such a directory, and has no reason to.
            Err(Raw::LOOP | Raw::XDEV | Raw::NOTDIR) => return Err(Errno::PERM),
            done => return done.map_err(errno),
        }
    }
}

/// Opens the private directory `name` in `parent`, as specified by [`server::vfs::Vfs::private`]. The thread acts as
/// the process afterwards.
pub(crate) fn open(parent: BorrowedFd<'_>, name: &str, make: bool) -> Result<Option<(OwnedFd, Statx)>> {
    identity::assume_process().map_err(errno)?;
    let hold = || open_in(parent, name.as_bytes(), OFlags::PATH | OFlags::DIRECTORY, 0);
    let fd = match hold() {
        Err(Errno::NOENT) if !make => return Ok(None),
        Err(Errno::NOENT) => {
            match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o700)) {
                // Another process was faster; the directory is checked nevertheless.
                Ok(()) | Err(Raw::EXIST) => hold()?,
                Err(error) => return Err(errno(error)),
            }
        }
        fd => fd?,
    };
    let found = stat(&fd)?;
    // An ACL cannot grant more than the mode, because the group bits are the mask of an ACL.
    if found.stx_uid != identity::own_uid() || found.stx_mode & 0o077 != 0 {
        tracing::debug!(
            name,
            uid = found.stx_uid,
            mode = format!("{:o}", found.stx_mode),
            "does not belong to the server"
        );
        return Err(Errno::PERM);
    }
    Ok(Some((fd, found)))
}

impl Share {
    pub(crate) fn private(
        self: &Arc<Self>,
        root: &RelPath,
        name: &'static str,
        make: bool,
    ) -> Result<Option<Arc<dyn Private>>> {
        let path = root.join(name.as_bytes()).ok_or(Errno::INVAL)?;
        let _own = make.then(|| own::names(self.root.path(), &[(&path, true)]));
        identity::assume_process().map_err(errno)?;
        let parent = if root.is_root() { None } else { Some(self.root.changed_directory(root)?) };
        let parent = parent.as_ref().map_or(self.root.fd(), AsFd::as_fd);
        let Some((fd, found)) = open(parent, name, make)? else { return Ok(None) };
        if make {
            self.unsynced.note(id(&found));
        }
        let (share, system) = (Arc::clone(self), self.root.system_of(&found));
        Ok(Some(Arc::new(Directory(Arc::new(Inner { share, system, fd, path })))))
    }
}

impl Inner {
    fn node(&self, fd: OwnedFd, found: &Statx, access: Option<Access>) -> (Arc<dyn Node>, Metadata) {
        let source = if access.is_some() { Source::Open(fd.as_fd()) } else { Source::Path(fd.as_fd()) };
        let metadata = self.share.metadata(found, source);
        let open = Open::new(Arc::clone(&self.share), SERVER, Descriptor::Own(fd), found, access);
        open.note(&metadata);
        (open.into_node(), metadata)
    }

    fn find(&self, name: &str) -> Result<Option<(Arc<dyn Node>, Metadata)>> {
        identity::assume_process().map_err(errno)?;
        let fd = match open_in(&self.fd, name.as_bytes(), OFlags::PATH, 0) {
            Err(Errno::NOENT) => return Ok(None),
            fd => fd?,
        };
        let found = stat(&fd)?;
        if kind(&found) != Kind::File || found.stx_nlink != 1 {
            return Err(Errno::PERM);
        }
        Ok(Some(self.node(fd, &found, None)))
    }

    fn create(&self, name: &str) -> Result<(Arc<dyn Node>, Metadata)> {
        let path = self.path.join(name.as_bytes()).ok_or(Errno::INVAL)?;
        let _own = own::names(self.share.root.path(), &[(&path, true)]);
        identity::assume_process().map_err(errno)?;
        let fd = open_in(&self.fd, name.as_bytes(), OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, 0o600)?;
        let found = stat(&fd)?;
        self.share.unsynced.note(id(&found));
        Ok(self.node(fd, &found, Some(Access { read: true, write: true })))
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = self.path.join(name.as_bytes()).ok_or(Errno::INVAL)?;
        let _own = own::names(self.share.root.path(), &[(&path, false)]);
        identity::assume_process().map_err(errno)?;
        rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()).map_err(errno)
    }
}

impl Private for Directory {
    fn find(&self, name: &str) -> Answer<Result<Option<(Arc<dyn Node>, Metadata)>>> {
        let name = name.to_owned();
        query(&self.0, &server::vfs::SERVER, move |directory| directory.find(&name))
    }

    fn create(&self, name: &str) -> Answer<Result<(Arc<dyn Node>, Metadata)>> {
        let name = name.to_owned();
        change(&self.0, SERVER, move |directory| directory.create(&name))
    }

    fn remove(&self, name: &str) -> Answer<Result<()>> {
        let name = name.to_owned();
        change(&self.0, SERVER, move |directory| directory.remove(&name))
    }
}
