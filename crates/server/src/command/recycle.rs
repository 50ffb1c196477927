//! The recycle bin (`vfs objects = recycle`): a file that a client deletes is moved to the repository of the share.
//!
//! The move is a rename as the user, for which the server checks nothing beyond the permission to delete the file. A
//! file that cannot be moved is deleted, as by Samba's module, unless the reason may be gone at the next attempt.

use std::sync::Arc;

use crate::environment::Environment;
use crate::state::Server;
use crate::tree::{Bin, Disk};
use crate::vfs::{
    Create, Errno, FileId, Kind, Lookup, LookupOptions, Metadata, NewFile, Node, Op, RelPath, Removed, RenameRequest,
    Replace, SERVER, SetMetadata, SetXattr, SymlinkPolicy,
};

/// The attribute of the directories that the server creates in a repository whose files it deletes after a time. Its
/// change times are not those of files being moved with it.
pub(crate) const MARK: &str = "user.FrevoRecycle";

/// Names of copies that are tried in order.
const TRIED: u32 = 16;
/// How often a free name is searched, because others may take it at the same time.
const SEARCHES: usize = 8;

/// Errors that say nothing about the bin. A file that could not be moved for one of these reasons is not deleted.
const PASSING: [Errno; 13] = [
    Errno::INTR,
    Errno::IO,
    Errno::AGAIN,
    Errno::NOMEM,
    Errno::BUSY,
    Errno::EXIST,
    Errno::NFILE,
    Errno::MFILE,
    Errno::NOTCONN,
    Errno::TIMEDOUT,
    Errno::HOSTDOWN,
    Errno::STALE,
    Errno::CANCELED,
];

/// A file that is deleted by a client.
pub(super) struct Discarded<'a> {
    pub(super) op: &'a Op,
    pub(super) path: &'a RelPath,
    pub(super) node: &'a Arc<dyn Node>,
    pub(super) id: FileId,
    pub(super) kind: Kind,
}

/// Moves the file to the recycle bin, and returns its new path. `None` if it must be deleted.
///
/// # Errors
/// The file cannot be moved now and must not be deleted.
pub(super) async fn discard(server: &Server, disk: &Disk, file: &Discarded<'_>) -> Result<Option<RelPath>, Errno> {
    let Some(bin) = &disk.bin else { return Ok(None) };
    if file.kind == Kind::Directory || bin.recycle.excludes(&bin.directory, file.path) {
        return Ok(None);
    }
    let before = match bin.recycle.limits_size() || must_verify_stamp(bin) {
        true => file.node.metadata(&SERVER).await.ok(),
        false => None,
    };
    if before.is_some_and(|before| !bin.recycle.accepts(before.size)) {
        return Ok(None);
    }
    let moving = Move { server, disk, bin, file };
    match moving.perform().await {
        Ok(to) => {
            set_times(&*server.environment, bin, file, before).await;
            Ok(Some(to))
        }
        Err(errno) if PASSING.contains(&errno) => {
            tracing::warn!(share = disk.share.name, path = %file.path, ?errno, "cannot move a file to the recycle bin \
                                                                               now: it stays; delete it again");
            Err(errno)
        }
        Err(errno) => {
            tracing::info!(share = disk.share.name, path = %file.path, ?errno, "cannot move a file to the recycle \
                                                                               bin: it is deleted");
            Ok(None)
        }
    }
}

/// Returns whether the change time, by which old files are deleted, must be verified.
fn must_verify_stamp(bin: &Bin) -> bool {
    bin.recycle.keep.is_some() && !bin.renames_stamp()
}

/// Sets the times of a file that was moved. Its change time is the time of the move, also where a rename does not
/// change it.
async fn set_times(environment: &dyn Environment, bin: &Bin, file: &Discarded<'_>, before: Option<Metadata>) {
    if let Some(before) = before.filter(|_| must_verify_stamp(bin)) {
        match file.node.metadata(&SERVER).await {
            Ok(after) if after.stamped != before.stamped => bin.has_stamped(),
            _ => {
                let set = SetMetadata { accessed: Some(before.accessed), ..SetMetadata::default() };
                let _ = file.node.set_metadata(&SERVER, set).await;
            }
        }
    }
    if bin.recycle.touch || bin.recycle.touch_modified {
        let now = Some(environment.now());
        let modified = now.filter(|_| bin.recycle.touch_modified);
        let set = SetMetadata { accessed: now, modified, ..SetMetadata::default() };
        if let Err(errno) = file.node.set_metadata(file.op, set).await {
            tracing::debug!(path = %file.path, ?errno, "cannot set the times of a file in the recycle bin");
        }
    }
}

/// A move of one file.
struct Move<'a> {
    server: &'a Server,
    disk: &'a Disk,
    bin: &'a Bin,
    file: &'a Discarded<'a>,
}

impl Move<'_> {
    async fn perform(&self) -> Result<RelPath, Errno> {
        let recycle = &self.bin.recycle;
        let (parent, name) = self.file.path.parent().zip(self.file.path.name()).ok_or(Errno::BUSY)?;
        let mut directory = self.bin.directory.clone();
        if recycle.keep_tree && !parent.components().all(|name| directory.push(name)) {
            return Err(Errno::NAMETOOLONG);
        }
        let replace = !recycle.versions || recycle.no_versions.matches(name);
        let to = directory.join(name).ok_or(Errno::NAMETOOLONG)?;
        // A file that is replaced is looked up only if its streams may have to be removed.
        let at_once = replace && !self.server.opens.streams.are_stored_apart(self.disk).await;
        let at_once = if at_once { Replace::Any } else { Replace::Nothing };
        let mut moved = self.to(&to, at_once).await;
        if moved == Err(Errno::NOENT) {
            self.create(&directory).await?;
            moved = self.to(&to, at_once).await;
        }
        if moved == Err(Errno::EXIST) && replace {
            moved = self.replace(&to).await;
        }
        match moved {
            // A directory is not replaced. With `keeptree` it may be in the bin because it had the name before.
            Err(Errno::EXIST | Errno::ISDIR) => self.as_copy(&directory, name).await,
            done => done.map(|()| to),
        }
    }

    async fn to(&self, to: &RelPath, replace: Replace) -> Result<(), Errno> {
        self.disk
            .vfs
            .rename(
                self.file.op,
                RenameRequest {
                    to_recycle_bin: true,
                    ..RenameRequest::new(self.file.path, self.file.id, to).replacing(replace)
                },
            )
            .await
    }

    /// Moves the file to the name of another one, which is lost with its streams.
    async fn replace(&self, to: &RelPath) -> Result<(), Errno> {
        let found = self.find(to).await;
        self.to(to, Replace::Any).await?;
        if let Ok(Lookup::Found { node, .. }) = found {
            self.server.opens.streams.unlinked(self.disk, &node, Removed { links: None }).await;
        }
        Ok(())
    }

    /// Moves the file under the first name of a copy that is free. The number of steps grows with the logarithm of the
    /// number of copies.
    async fn as_copy(&self, directory: &RelPath, name: &[u8]) -> Result<RelPath, Errno> {
        let copy = |number: u32| {
            let name = [format!("Copy #{number} of ").as_bytes(), name].concat();
            directory.join(&name).ok_or(Errno::NAMETOOLONG)
        };
        if let Some(to) = self.first_free(1, copy).await? {
            return Ok(to);
        }
        for _ in 0..SEARCHES {
            if let Some(to) = self.search(copy).await? {
                return Ok(to);
            }
        }
        Err(Errno::EXIST)
    }

    /// Moves the file under a name of a copy that is free and follows one that is not; `None` if others took this name
    /// and those after it meanwhile.
    async fn search(&self, copy: impl Fn(u32) -> Result<RelPath, Errno>) -> Result<Option<RelPath>, Errno> {
        let (mut taken, mut free) = (TRIED, 2 * TRIED);
        while self.exists(&copy(free)?).await? {
            (taken, free) = (free, free.checked_mul(2).ok_or(Errno::EXIST)?);
        }
        while free - taken > 1 {
            let middle = taken + (free - taken) / 2;
            match self.exists(&copy(middle)?).await? {
                true => taken = middle,
                false => free = middle,
            }
        }
        self.first_free(free, copy).await
    }

    /// Moves the file under the first free name of some copies, beginning with `first`.
    async fn first_free(
        &self,
        first: u32,
        copy: impl Fn(u32) -> Result<RelPath, Errno>,
    ) -> Result<Option<RelPath>, Errno> {
        for number in first..first.saturating_add(TRIED) {
            let to = copy(number)?;
            match self.to(&to, Replace::Nothing).await {
                Err(Errno::EXIST) => {}
                done => return done.map(|()| Some(to)),
            }
        }
        Ok(None)
    }

    async fn exists(&self, path: &RelPath) -> Result<bool, Errno> {
        Ok(matches!(self.find(path).await?, Lookup::Found { .. }))
    }

    async fn find(&self, path: &RelPath) -> Result<Lookup, Errno> {
        self.disk.vfs.lookup(self.file.op, path, LookupOptions::exact(SymlinkPolicy::NONE)).await
    }

    /// Creates the directory and those above it, as the user.
    async fn create(&self, directory: &RelPath) -> Result<(), Errno> {
        let recycle = &self.bin.recycle;
        let depth = self.bin.directory.components().count();
        let mut path = RelPath::root();
        for (at, name) in directory.components().enumerate() {
            if !path.push(name) {
                return Err(Errno::NAMETOOLONG);
            }
            // As in Samba, only the first directory of the repository has its mode.
            let mode = if at == 0 { recycle.directory_mode } else { recycle.subdir_mode };
            match self.disk.vfs.create(self.file.op, &path, NewFile::new(Create::Directory, mode)).await {
                Ok(made) if recycle.keep.is_some() && at >= depth => {
                    let mark = made.node.set_xattr(self.file.op, MARK, Some(b"1".to_vec()), SetXattr::Any).await;
                    if let Err(errno) = mark {
                        tracing::debug!(%path, ?errno, "cannot mark a directory of the recycle bin");
                    }
                }
                Ok(_) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
        self.server.opens.bins.add(self.disk, self.bin);
        Ok(())
    }
}
