//! `delete veto files = yes`: a directory in which clients see nothing is deleted together with the vetoed names in it.
//!
//! The whole directory is examined first, as the user. It stays with everything in it if anything may not be removed.
//! In a vetoed directory all names are vetoed, because clients reach none of them. Each name is examined again when it
//! is removed. Symbolic links are removed and not followed.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use proto::dtyp::AccessMask;
use proto::fscc::FileAttributes;
use proto::status::Status;

use super::close::{Doomed, remove_name};
use crate::attributes;
use crate::error::{Error, Result};
use crate::files::notify::Change;
use crate::policy::limits::{VETOED_DEPTH_LIMIT, VETOED_NAMES_LIMIT};
use crate::security::access;
use crate::state::Server;
use crate::streams::beside;
use crate::tree::Disk;
use crate::vfs::{Case, Errno, FileId, Kind, ListRequest, Lookup, LookupOptions, Metadata, Node, Op, RelPath};
use crate::yielding::Work;

/// The number of names that are listed at once.
const PAGE: usize = 256;
/// The cost of the examination of a name ([`Work::spend`]).
const EXAMINED: u32 = 24;

/// Checks whether a directory can be deleted: it has no names, or only vetoed ones that the user may remove with it.
///
/// # Errors
/// `Status::DIRECTORY_NOT_EMPTY` if not.
pub(super) async fn check(server: &Server, disk: &Disk, (node, path): (&Arc<dyn Node>, &RelPath)) -> Result<()> {
    if crate::vfs::is_empty(node, &disk.op).await? {
        return Ok(());
    }
    if !disk.share.names.delete_veto_files {
        return Err(Error::new(Status::DIRECTORY_NOT_EMPTY));
    }
    let examined = Walk::new(server, disk, &disk.op, path).run(node, false).await;
    examined.map_err(|kept| {
        tracing::debug!(share = disk.share.name, path = %kept.path, reason = kept.reason, "a directory is not deleted");
        Error::because(Status::DIRECTORY_NOT_EMPTY, kept.reason)
    })
}

/// Removes the vetoed names from a directory that is deleted, or moves the files to the recycle bin. Nothing is removed
/// if it is known before that the directory stays.
pub(super) async fn remove(server: &Server, disk: &Disk, doomed: &Doomed, node: &Arc<dyn Node>) {
    // The rights of another user, whose CLOSE is the last one, are not those of the user who requested the deletion.
    if doomed.op.uid != disk.op.uid || crate::vfs::is_empty(node, &doomed.op).await.unwrap_or(true) {
        return;
    }
    let mut walk = Walk::new(server, disk, &doomed.op, &doomed.path);
    let mut removed = walk.run(node, false).await;
    if removed.is_ok() {
        removed = walk.run(node, true).await;
    }
    if let Err(Kept { path, reason }) = removed {
        tracing::warn!(share = disk.share.name, %path, reason, "a directory in which clients see nothing cannot be \
                                                                deleted because of this name; remove the name on the \
                                                                server, then delete the directory");
    }
}

/// The name because of which a directory stays.
struct Kept {
    path: RelPath,
    reason: &'static str,
}

/// A vetoed name.
struct Found {
    path: RelPath,
    node: Arc<dyn Node>,
    metadata: Metadata,
}

/// A directory whose names are examined.
struct Level {
    node: Arc<dyn Node>,
    path: RelPath,
    names: VecDeque<Box<[u8]>>,
    cursor: u64,
    is_last: bool,
    /// The directory, to be removed after its names; `None` for that which the client deletes.
    itself: Option<Found>,
}

impl Level {
    fn new(node: &Arc<dyn Node>, path: &RelPath, itself: Option<Found>) -> Level {
        let (node, path) = (Arc::clone(node), path.clone());
        Level { node, path, names: VecDeque::new(), cursor: 0, is_last: false, itself }
    }

    fn kept(&self, name: &[u8], reason: &'static str) -> Kept {
        Kept { path: self.path.join(name).unwrap_or_else(|| self.path.clone()), reason }
    }

    /// Lists more names.
    async fn list(&mut self, op: &Op) -> std::result::Result<(), Kept> {
        let listing = ListRequest { cursor: self.cursor, count: PAGE, metadata: false };
        let page = self.node.list(op, listing).await;
        let page = page.map_err(|_| Kept { path: self.path.clone(), reason: "the user cannot list the directory" })?;
        self.is_last = page.is_last || page.entries.is_empty();
        self.cursor = page.next;
        self.names.extend(page.entries.into_iter().map(|entry| entry.name));
        Ok(())
    }
}

/// A walk through everything in a directory, without recursion.
struct Walk<'a> {
    server: &'a Server,
    disk: &'a Disk,
    op: &'a Op,
    path: &'a RelPath,
    /// The files that were examined.
    examined: HashSet<FileId>,
    work: Work,
}

impl<'a> Walk<'a> {
    fn new(server: &'a Server, disk: &'a Disk, op: &'a Op, path: &'a RelPath) -> Walk<'a> {
        Walk { server, disk, op, path, examined: HashSet::new(), work: Work::new() }
    }

    /// Examines all names, and removes each if `removes` is set and it was examined before. Ends at the first that must
    /// stay.
    async fn run(&mut self, node: &Arc<dyn Node>, removes: bool) -> std::result::Result<(), Kept> {
        let unknown = |_| Kept { path: self.path.clone(), reason: "the directory cannot be examined" };
        let device = node.metadata(self.op).await.map_err(unknown)?.id.device;
        let mut levels = vec![Level::new(node, self.path, None)];
        while let Some(level) = levels.last_mut() {
            if level.names.is_empty() && !level.is_last {
                level.list(self.op).await?;
                self.check_names(level).await?;
            }
            let Some(name) = level.names.pop_front() else {
                if !level.is_last {
                    continue;
                }
                let directory = levels.pop().and_then(|level| level.itself);
                if let Some(directory) = directory.filter(|_| removes) {
                    self.remove(&directory).await?;
                }
                continue;
            };
            self.work.spend(EXAMINED).await;
            let Some(found) = self.examine(level, &name, device).await? else { continue };
            if removes && !self.examined.contains(&found.metadata.id) {
                return Err(level.kept(&name, "it is new"));
            }
            self.examined.insert(found.metadata.id);
            if self.examined.len() > VETOED_NAMES_LIMIT {
                return Err(level.kept(&name, "the directory has too many names"));
            }
            if found.metadata.kind == Kind::Directory {
                let (node, path) = (Arc::clone(&found.node), found.path.clone());
                if levels.len() > VETOED_DEPTH_LIMIT {
                    return Err(Kept { path, reason: "the vetoed directory is too deep" });
                }
                levels.push(Level::new(&node, &path, Some(found)));
            } else if removes {
                let _guard = self.orphan(level, &name, found.metadata.id.device).await?;
                self.remove(&found).await?;
            }
        }
        Ok(())
    }

    /// Checks that the listed names of the directory that the client deletes are vetoed. Those in a vetoed directory
    /// are hidden together with it.
    async fn check_names(&mut self, level: &Level) -> std::result::Result<(), Kept> {
        if level.itself.is_some() {
            return Ok(());
        }
        for name in &level.names {
            self.work.spend(1).await;
            if !self.disk.veto.matches(name) {
                return Err(level.kept(name, "the directory has names that do not match `veto files`"));
            }
        }
        Ok(())
    }

    /// Returns a name that the user may remove, and whose file nobody has open; `None` if it is gone.
    async fn examine(&self, level: &Level, name: &[u8], device: u64) -> std::result::Result<Option<Found>, Kept> {
        let kept = |reason| level.kept(name, reason);
        let unknown = |_| level.kept(name, "the name cannot be examined");
        let path = level.path.join(name).ok_or_else(|| kept("the path is too long"))?;
        if self.disk.bin.as_ref().is_some_and(|bin| bin.directory == path || bin.directory.is_beneath(&path)) {
            return Err(kept("the recycle bin is there"));
        }
        // The directory itself is asked for the name, so that no link that replaces one above leads elsewhere.
        let Some(entry) = level.node.entry(self.op, name, Case::Sensitive).await.map_err(unknown)? else {
            return Ok(None);
        };
        let options = LookupOptions::exact(self.disk.share.links().to_last());
        let (node, metadata) = match self.disk.vfs.lookup(self.op, &path, options).await {
            Ok(Lookup::Found { node, metadata, .. }) => (node, metadata),
            Ok(Lookup::Missing { .. } | Lookup::NoParent) => return Ok(None),
            Err(_) => return Err(kept("the name cannot be examined")),
        };
        if entry.metadata.is_none_or(|entry| entry.id != metadata.id) {
            return Err(kept("another program changes the directory"));
        }
        if metadata.is_mounted || metadata.kind == Kind::Directory && metadata.id.device != device {
            return Err(kept("something is mounted there"));
        }
        if self.server.opens.files.is_open(metadata.id) {
            return Err(kept("it is open"));
        }
        let shown = attributes::file_attributes(self.disk, Some(name), &metadata);
        let is_readonly = shown.contains(FileAttributes::READONLY);
        let may_delete = self.disk.share_rights.contains(AccessMask::DELETE)
            && (!is_readonly || self.disk.share.attributes.delete_readonly)
            && access::permits(self.disk, &path, &node, &metadata, AccessMask::DELETE).await.unwrap_or(false);
        if !may_delete {
            return Err(kept("the user may not delete it"));
        }
        Ok(Some(Found { path, node, metadata }))
    }

    /// Verifies that an AppleDouble file in the directory that the client deletes belongs to no file. No rename makes
    /// one that of a file until the result is dropped.
    async fn orphan(
        &self,
        level: &Level,
        name: &[u8],
        device: u64,
    ) -> std::result::Result<Option<beside::Removing<'a>>, Kept> {
        let Some(base) = name.strip_prefix(beside::PREFIX).filter(|base| !base.is_empty()) else { return Ok(None) };
        if level.itself.is_some() {
            return Ok(None);
        }
        let removing = self.server.opens.doubles.remove(device);
        let removing = removing.ok_or_else(|| level.kept(name, "files with AppleDouble files are being renamed"))?;
        if !self.disk.veto.matches(base) {
            match level.node.entry(self.op, base, Case::Sensitive).await {
                Ok(None) => {}
                _ => return Err(level.kept(name, "it belongs to a file that clients see")),
            }
        }
        Ok(Some(removing))
    }

    /// Removes a name. Nobody can open the file meanwhile.
    async fn remove(&self, found: &Found) -> std::result::Result<(), Kept> {
        let Found { path, node, metadata: Metadata { id, kind, .. } } = found;
        let kept = |reason| Kept { path: path.clone(), reason };
        let now = self.server.environment.uptime();
        let _held = self.server.opens.files.begin_replacement(*id, now, false).map_err(|_| kept("it is open"))?;
        match self.unlink(path, node, *id, *kind).await {
            Ok(()) => self.server.changed(self.disk, path, Change::removed(*kind)),
            Err(Errno::NOENT) => {}
            Err(errno) => {
                tracing::debug!(%path, ?errno, "cannot remove a vetoed name");
                return Err(kept("it cannot be removed"));
            }
        }
        Ok(())
    }

    async fn unlink(
        &self,
        path: &RelPath,
        node: &Arc<dyn Node>,
        id: FileId,
        kind: Kind,
    ) -> std::result::Result<(), Errno> {
        let own = Doomed { path: path.clone(), op: self.op.clone(), is_ignored: false };
        remove_name(self.server, self.disk, &own, node, id, kind).await
    }
}
