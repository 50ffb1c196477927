//! Look-ups from a path to a file: the exact name first, usually in one system call, then one that differs in case
//! only.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use backing::Wait;
use backing::executor::unless_cancelled;
use backing::name_index::Name;
use backing::permissions::{Permissions, STICKY};
use backing::workers::Lane;
use rustix::fs::{OFlags, Statx};
use server::answer::Answer;
use server::vfs::{Access, Case, DirectoryVersion, Errno, Kind, Lookup, LookupOptions, Op, Parent, RelPath, Result};

use crate::filesystem::FileSystem;
use crate::metadata::{Source, kind};
use crate::mounts::Era;
use crate::names::Directory;
use crate::node::{Descriptor, Open};
use crate::root::{glance, id, stat, stat_name};
use crate::{Share, identity};

/// Access for reading only.
const READ: Access = Access { read: true, write: false };

/// A look-up request.
#[derive(Clone)]
pub(crate) struct Question {
    pub(crate) op: Op,
    pub(crate) path: RelPath,
    pub(crate) options: LookupOptions,
    /// The state of the mount table before the look-up.
    pub(crate) era: Option<Era>,
}

impl Share {
    /// Answers at once if the kernel has everything cached.
    pub(crate) fn lookup(share: &Arc<Share>, question: Question) -> Answer<Result<Lookup>> {
        if share.root.local {
            match question.answer(share, Wait::Never) {
                Err(Errno::AGAIN) => {}
                answer => return Answer::now(answer),
            }
        }
        // If the thread has another identity by now, that can only affect which threads do the work.
        let (system, share, op) = (share.serving(&question.path), Arc::clone(share), question.op.clone());
        let answer = move || question.answer(&share, Wait::Allowed);
        system.executor.later_as(&op, Lane::Data, unless_cancelled(&op, answer))
    }

    /// Returns whether the user may remove the name `path` of a file of `owner`; `None` if its directory was not
    /// resolved lately.
    pub(crate) fn may_remove(&self, op: &Op, path: &RelPath, owner: u32) -> Option<bool> {
        let directory = path.parent()?;
        if !self.root.local || !directory.is_root() && !self.ways.contains(&directory) {
            return None;
        }
        identity::assume(op).ok()?;
        let stat = self.root.look_at_directory(&directory)?;
        let (mode, holder) = (u32::from(stat.stx_mode), (stat.stx_uid, stat.stx_gid));
        if [0, stat.stx_uid].contains(&op.uid) {
            return Some(Permissions::new(Kind::Directory, mode, holder, None).permit_removal(op, owner));
        }
        // Users other than the owner may have an entry in a POSIX ACL.
        let by_sticky = mode & STICKY == 0 || op.uid == owner;
        Some(by_sticky && self.root.may_change_names(&directory)?)
    }
}

/// An intermediate directory, found or not.
enum Way {
    Found(RelPath, OwnedFd),
    Missing,
}

impl Question {
    /// Performs the look-up; `Errno::AGAIN` if that requires waiting and `wait` forbids it.
    pub(crate) fn answer(&self, share: &Arc<Share>, wait: Wait) -> Result<Lookup> {
        identity::assume(&self.op)?;
        if self.path.is_root() {
            return self.found(share, RelPath::root(), Descriptor::Root, wait);
        }
        if wait == Wait::Never && self.options.case == Case::Insensitive && share.misses.expects() {
            // The directory's index is more likely to have the answer than the name itself.
            if let Some(missing) = self.is_missing(share) {
                return Ok(missing);
            }
            if let Ok(missing @ Lookup::Missing { .. }) = self.search(share, wait) {
                return Ok(missing);
            }
            identity::assume(&self.op)?;
        }
        let answer = self.find(share, wait);
        match &answer {
            // The server itself looks up case-sensitively, for the directories of new files.
            _ if self.options.case == Case::Sensitive => {}
            Ok(Lookup::Found { .. }) => share.misses.miss(),
            Ok(Lookup::Missing { .. }) => share.misses.hit(),
            _ => {}
        }
        answer
    }

    /// Returns whether the index of a watched directory shows that the name does not exist, with two system calls. The
    /// path is only used to identify the directory, so it need not be resolved below the root; creating the name will
    /// do that. It must have been resolved before, because a link out of the root may lead to where the kernel waits
    /// for a disk or another machine.
    fn is_missing(&self, share: &Share) -> Option<Lookup> {
        let (parent, name) = (self.path.parent()?, self.path.name()?);
        if !share.root.local || !self.options.links.follow {
            return None;
        }
        if !parent.is_root() && !share.ways.contains(&parent) {
            return None;
        }
        let directory = share.root.look_at_directory(&parent)?;
        let (found, state) = share.names.known(id(&directory), name)?;
        if found {
            return None;
        }
        Some(Lookup::Missing { path: parent.join(name)?, parent: known(Some(watched(&directory, state))) })
    }

    /// Tries the exact name first.
    fn find(&self, share: &Arc<Share>, wait: Wait) -> Result<Lookup> {
        if self.options.access == READ
            && wait == Wait::Never
            && share.seen.contains(&self.path)
            && let Some(found) = self.open_to_read(share)
        {
            return Ok(found);
        }
        match self.open(share, &self.path, wait) {
            Ok(fd) => self.found(share, self.path.clone(), Descriptor::Own(fd), wait),
            Err(Errno::NOENT) => self.search(share, wait),
            // The kernel has not cached this name; an index may show that it does not exist.
            Err(Errno::AGAIN) if self.options.case == Case::Insensitive => self.search(share, wait),
            Err(Errno::NOTDIR) => Ok(Lookup::NoParent),
            Err(error) => Err(error),
        }
    }

    /// Opens the file for reading in one step. `None` if it is not a regular file, or if only the regular path can
    /// determine the error.
    fn open_to_read(&self, share: &Arc<Share>) -> Option<Lookup> {
        if !share.root.local {
            return None;
        }
        let fd = share.root.open_to_read(self.path.as_bytes(), self.options.links).ok()?;
        let stat = stat(&fd).ok()?;
        if kind(&stat) != Kind::File {
            return None;
        }
        let metadata = share.metadata(&stat, Source::Open(fd.as_fd()));
        let access = Access { read: true, write: false };
        let node = Open::new(Arc::clone(share), self.op.uid, Descriptor::Own(fd), &stat, Some(access));
        node.note(&metadata);
        Some(Lookup::Found { path: self.path.clone(), node: node.opened_by(&self.op).into_node(), metadata })
    }

    /// Opens the file that `path` names exactly. A link that may not be followed or is dangling is opened itself if it
    /// is the last component, and is `Errno::LOOP` otherwise.
    fn open(&self, share: &Share, path: &RelPath, wait: Wait) -> Result<OwnedFd> {
        let open = |flags| share.root.open_path(path.as_bytes(), OFlags::PATH | flags, 0, self.options.links, wait);
        let not_followed = || open(OFlags::NOFOLLOW);
        if !self.options.links.follow || self.options.links.itself {
            return not_followed();
        }
        match open(OFlags::empty()) {
            Err(failed @ (Errno::NOENT | Errno::LOOP | Errno::ACCES | Errno::NOTDIR)) => match not_followed() {
                Err(error) if error != Errno::AGAIN => Err(failed),
                done => done,
            },
            done => done,
        }
    }

    fn found(&self, share: &Arc<Share>, path: RelPath, held: Descriptor, wait: Wait) -> Result<Lookup> {
        let fd = held.fd(share);
        let stat = look(share, fd, wait)?;
        let metadata = share.metadata(&stat, Source::Path(fd.as_fd()));
        let node = Open::new(Arc::clone(share), self.op.uid, held, &stat, None);
        node.note(&metadata);
        let node = match metadata.kind {
            Kind::Directory => node.at(&path),
            Kind::File => {
                share.seen.note_path(&path);
                node
            }
            Kind::Symlink | Kind::Special => node,
        };
        Ok(Lookup::Found { path, node: node.into_node(), metadata })
    }

    /// Handles a last component that does not exist under its exact name, or a missing intermediate directory.
    fn search(&self, share: &Arc<Share>, wait: Wait) -> Result<Lookup> {
        let (Some(parent), Some(name)) = (self.path.parent(), self.path.name()) else { return Err(Errno::NOENT) };
        let Way::Found(parent, fd) = self.directory(share, &parent, wait)? else { return Ok(Lookup::NoParent) };
        let missing = |watched| match parent.join(name) {
            Some(path) => Ok(Lookup::Missing { path, parent: known(watched) }),
            None => Err(Errno::NOENT),
        };
        let (name, watched) = self.name_in(share, &parent, &fd, name, wait)?;
        let Some(name) = name else { return missing(watched) };
        let Some(path) = parent.join(&name) else { return missing(None) };
        match self.open(share, &path, wait) {
            Ok(fd) => self.found(share, path, Descriptor::Own(fd), wait),
            Err(Errno::NOENT) => missing(None),
            Err(error) => Err(error),
        }
    }

    /// Finds the directory `path`.
    fn directory(&self, share: &Share, path: &RelPath, wait: Wait) -> Result<Way> {
        match share.root.open_directory(path, self.options.links, wait) {
            Ok(fd) => return Ok(Way::Found(path.clone(), fd)),
            Err(Errno::NOTDIR) => return Ok(Way::Missing),
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else { return Ok(Way::Missing) };
        let Way::Found(parent, fd) = self.directory(share, &parent, wait)? else { return Ok(Way::Missing) };
        let (Some(name), _) = self.name_in(share, &parent, &fd, name, wait)? else { return Ok(Way::Missing) };
        let Some(path) = parent.join(&name) else { return Ok(Way::Missing) };
        match share.root.open_directory(&path, self.options.links, wait) {
            Ok(fd) => Ok(Way::Found(path, fd)),
            Err(Errno::NOTDIR) => Ok(Way::Missing),
            // The name exists, so it is a dangling link or has just been removed.
            Err(Errno::NOENT) => Err(Errno::LOOP),
            Err(error) => Err(error),
        }
    }

    /// Returns the name on disk in the directory `path`, held by `fd`, and the state of that directory just before if
    /// it is watched.
    fn name_in(
        &self,
        share: &Share,
        path: &RelPath,
        fd: &OwnedFd,
        name: &[u8],
        wait: Wait,
    ) -> Result<(Option<Name>, Option<DirectoryVersion>)> {
        let found = match self.options.case {
            Case::Insensitive => {
                let directory = look(share, fd, wait)?;
                if share.root.is_home(&directory) {
                    share.ways.note(self.era, path);
                }
                let (found, state) =
                    share.names.find(&Directory { root: &share.root, fd: fd.as_fd() }, id(&directory), name, wait)?;
                (found, state.map(|state| watched(&directory, state)))
            }
            // A dangling link exists too.
            Case::Sensitive if wait == Wait::Never => return Err(Errno::AGAIN),
            Case::Sensitive => (stat_name(fd, name).is_ok().then(|| name.into()), None),
        };
        identity::assume(&self.op)?;
        Ok(found)
    }
}

/// Returns the directory described by `stat`, in this `state`.
fn watched(stat: &Statx, state: u64) -> DirectoryVersion {
    DirectoryVersion { id: id(stat), mode: u32::from(stat.stx_mode) & 0o7777, gid: stat.stx_gid, state }
}

/// Returns the metadata of `fd`; `Errno::AGAIN` if its file system may block a thread that must not wait.
pub(crate) fn look(share: &Share, fd: impl AsFd, wait: Wait) -> Result<Statx> {
    if wait == Wait::Allowed {
        return stat(fd);
    }
    let stat = glance(fd)?;
    if share.root.is_home(&stat) || FileSystem::of(&stat).is_local() { Ok(stat) } else { Err(Errno::AGAIN) }
}

/// Returns what a look-up knows of a directory that is watched.
fn known(version: Option<DirectoryVersion>) -> Parent {
    Parent { version, opened: None }
}
