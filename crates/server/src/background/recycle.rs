//! Deletion of old files in recycle bins (`frevo:recycle keep`).
//!
//! The age of a file is the time since its last change, which is at the earliest the time when it was moved. A
//! directory that was moved with its files makes them as young as itself, unless the server created it in the bin.
//!
//! Each directory is reached without following a link, and each name is removed from the handle of its directory. After
//! every few names the work pauses, and the path of the directory is verified again, so that nothing is deleted from a
//! directory that a client has moved out of the bin.

use std::sync::Arc;
use std::time::Duration;

use crate::command::recycle::MARK;
use crate::files::notify::Change;
use crate::policy::{Policy, Share};
use crate::state::Server;
use crate::state::bins::KnownBin;
use crate::vfs::{
    Entry, Errno, FileId, Kind, ListRequest, Lookup, LookupOptions, Metadata, Node, Page, RelPath, Result, SERVER,
    SymlinkPolicy, Time, Vfs,
};
use crate::yielding::yield_now;

/// Number of names between two pauses.
const STEP: usize = 64;
/// The length of a pause.
const PAUSE: Duration = Duration::from_millis(50);
/// Maximum depth of directories, each of which is open while those below it are searched.
const DEPTH: usize = 128;
/// Time between two passes, in parts of the shortest time that files are kept, and its bounds.
const PASSES: u32 = 24;
const WAITS: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(6 * 3600)];

/// Time until the configuration is read again if no share has a time.
const IDLE: Duration = Duration::from_secs(300);

/// Deletes old files, forever.
pub(super) async fn run(server: &Server) {
    loop {
        let policy = server.policy().clone();
        pass(server, &policy).await;
        let wait = shortest(&policy).map_or(IDLE, |shortest| (shortest / PASSES).clamp(WAITS[0], WAITS[1]));
        server.environment.sleep(wait).await;
        yield_now().await;
    }
}

/// Deletes the files that are old now.
async fn pass(server: &Server, policy: &Policy) {
    for share in policy.shares.values().filter(|share| share.available) {
        add_fixed(server, policy, share).await;
    }
    let mut names = 0;
    for bin in server.opens.bins.list() {
        let Some(keep) = keep_of(policy, &bin) else { continue };
        let mut pass = Pass { server, bin: &bin, keep, deleted: 0, names };
        match pass.purge().await {
            Ok(()) => {}
            Err(Errno::NOENT) => server.opens.bins.forget(&bin),
            Err(errno) => {
                tracing::debug!(share = bin.share.name, bin = %bin.directory, ?errno, "cannot search a recycle bin");
            }
        }
        // A bin counts like a name, so that many small ones pause as well.
        names = pass.names + 1;
        if pass.deleted > 0 {
            tracing::info!(share = bin.share.name, bin = %bin.directory, files = pass.deleted, "deleted old files");
        }
    }
}

/// Returns the shortest time that a share keeps files.
fn shortest(policy: &Policy) -> Option<Duration> {
    let homes = policy.homes.as_ref().map(|homes| homes.section());
    let shares = policy.shares.values().map(|share| &**share).chain(homes);
    shares.filter_map(|share| share.recycle.as_ref()?.keep).min()
}

/// Adds the bin of a share if its directory is the same for all sessions.
async fn add_fixed(server: &Server, policy: &Policy, share: &Arc<Share>) {
    let Some((origin, recycle)) = policy.recycle_of(&share.name) else { return };
    let is_fixed = share.path_template.is_none() && !share.path.as_os_str().is_empty();
    let directory = recycle.directory(&share.path, |_| None).filter(|_| is_fixed && recycle.keep.is_some());
    let Some(directory) = directory else { return };
    match server.volume(share).await {
        Ok((volume, vfs)) => server.opens.bins.insert(share, origin, (volume, &vfs), directory),
        Err(errno) => tracing::debug!(share = share.name, ?errno, "cannot open the volume of a recycle bin"),
    }
}

/// Returns how long files stay in the bin: the longer of the times when it became known and in the configuration in
/// force. `None` if that configuration has no time, or another path or repository, because the files in the directory
/// may then be others than deleted ones.
fn keep_of(policy: &Policy, bin: &KnownBin) -> Option<Duration> {
    let (_, recycle) = policy.recycle_of(&bin.share.name).filter(|(origin, _)| *origin == bin.origin)?;
    let before = bin.share.recycle.as_ref().and_then(|recycle| recycle.keep);
    recycle.keep.map(|keep| before.map_or(keep, |before| keep.max(before)))
}

/// One pass over one bin.
struct Pass<'a> {
    server: &'a Server,
    bin: &'a KnownBin,
    keep: Duration,
    deleted: usize,
    /// Number of names since the last pause.
    names: usize,
}

/// A directory that is being searched.
struct Level {
    /// The file system whose root is the directory.
    vfs: Arc<dyn Vfs>,
    node: Arc<dyn Node>,
    path: RelPath,
    id: FileId,
    /// When a directory above was moved into the bin with everything in it.
    moved: Time,
    /// Whether the server created the directory.
    is_marked: bool,
    entries: std::vec::IntoIter<Entry>,
    cursor: u64,
}

impl Level {
    /// Opens the directory `path` of the volume, whose last component is `name` in `above`.
    async fn open(above: &Arc<dyn Vfs>, name: &RelPath, path: RelPath) -> Result<(Level, Metadata)> {
        let vfs = above.beneath(&SERVER, name).await?;
        let (node, metadata) = find(&vfs, &RelPath::root()).await?.ok_or(Errno::NOENT)?;
        let moved = Time { secs: i64::MIN, nanos: 0 };
        let entries = Vec::new().into_iter();
        Ok((Level { vfs, node, path, id: metadata.id, moved, is_marked: false, entries, cursor: 0 }, metadata))
    }

    async fn next(&mut self) -> Result<Option<Entry>> {
        if let Some(entry) = self.entries.next() {
            return Ok(Some(entry));
        }
        let listing = ListRequest { cursor: self.cursor, count: STEP, metadata: true };
        let Page { entries, next, .. } = self.node.list(&SERVER, listing).await?;
        (self.entries, self.cursor) = (entries.into_iter(), next);
        Ok(self.entries.next())
    }

    /// Opens the directory `name`, unless it is on another file system or was replaced.
    async fn below(&self, name: &[u8], listed: &Metadata) -> Result<Level> {
        let name = RelPath::root().join(name).ok_or(Errno::INVAL)?;
        let path = name.name().and_then(|name| self.path.join(name)).ok_or(Errno::INVAL)?;
        let (level, metadata) = Level::open(&self.vfs, &name, path).await?;
        if metadata.id != listed.id || metadata.id.device != self.id.device {
            return Err(Errno::STALE);
        }
        let is_marked = level.node.get_xattr(&SERVER, MARK).await.is_ok_and(|mark| mark.is_some());
        let moved = if is_marked { self.moved } else { self.moved.max(metadata.stamped) };
        Ok(Level { moved, is_marked, ..level })
    }
}

/// Returns the file `path`, reached without following a link.
async fn find(vfs: &Arc<dyn Vfs>, path: &RelPath) -> Result<Option<(Arc<dyn Node>, Metadata)>> {
    match vfs.lookup(&SERVER, path, LookupOptions::exact(SymlinkPolicy::NONE)).await? {
        Lookup::Found { node, metadata, .. } => Ok(Some((node, metadata))),
        _ => Ok(None),
    }
}

impl Pass<'_> {
    async fn purge(&mut self) -> Result<()> {
        let (top, _) = Level::open(&self.bin.vfs, &self.bin.directory, self.bin.directory.clone()).await?;
        let mut levels = vec![top];
        while let Some(level) = levels.last_mut() {
            self.pause(level).await?;
            let Ok(Some(entry)) = level.next().await else {
                self.leave(&mut levels).await;
                continue;
            };
            let Some(listed) = entry.metadata else { continue };
            if listed.kind != Kind::Directory {
                self.remove(level, &entry.name, &listed).await;
            } else if let Ok(below) = level.below(&entry.name, &listed).await
                && levels.len() < DEPTH
            {
                levels.push(below);
            }
        }
        Ok(())
    }

    /// Lets other work go first after a number of names. `Errno::STALE` if the path no longer leads to the directory.
    async fn pause(&mut self, level: &Level) -> Result<()> {
        self.names += 1;
        if self.names < STEP {
            return Ok(());
        }
        self.names = 0;
        self.server.environment.sleep(PAUSE).await;
        yield_now().await;
        let is_same = find(&self.bin.vfs, &level.path).await?.is_some_and(|(_, metadata)| metadata.id == level.id);
        if is_same { Ok(()) } else { Err(Errno::STALE) }
    }

    fn is_old(&self, moved: Time, metadata: &Metadata) -> bool {
        let keep = i64::try_from(self.keep.as_secs()).unwrap_or(i64::MAX);
        moved.max(metadata.stamped).secs.saturating_add(keep) < self.server.environment.now().secs
    }

    /// Deletes the file `name` if it is old and not open.
    async fn remove(&mut self, level: &Level, name: &[u8], listed: &Metadata) {
        let Some(path) = RelPath::root().join(name).filter(|_| self.is_old(level.moved, listed)) else { return };
        let Ok(Some((node, metadata))) = find(&level.vfs, &path).await else { return };
        let is_same = metadata.id == listed.id && metadata.kind == listed.kind;
        if !is_same || !self.is_old(level.moved, &metadata) || self.server.opens.files.is_open(metadata.id) {
            return;
        }
        match level.vfs.unlink(&SERVER, &path, metadata.id, metadata.kind).await {
            Ok(removed) => {
                let KnownBin { share, volume, vfs, .. } = self.bin;
                self.server.opens.streams.unlinked_in(share, (*volume, vfs), &node, removed).await;
                self.deleted += 1;
                self.report(level, name, metadata.kind);
            }
            Err(errno) => {
                tracing::debug!(directory = %level.path, ?errno, "cannot delete an old file in a recycle bin")
            }
        }
    }

    /// Ends the search of the last directory, and removes it if the server created it, it is empty, and nothing was
    /// moved to it or deleted from it for as long as files are kept.
    async fn leave(&self, levels: &mut Vec<Level>) {
        let (Some(level), Some(parent)) = (levels.pop(), levels.last()) else { return };
        let Some(name) = level.path.name().filter(|_| level.is_marked) else { return };
        let Some(path) = RelPath::root().join(name) else { return };
        let Ok(metadata) = level.node.metadata(&SERVER).await else { return };
        if self.is_old(level.moved, &metadata)
            && !self.server.opens.files.is_open(level.id)
            && parent.vfs.unlink(&SERVER, &path, level.id, Kind::Directory).await.is_ok()
        {
            self.report(parent, name, Kind::Directory);
        }
    }

    /// Tells clients that `name` is gone.
    fn report(&self, level: &Level, name: &[u8], kind: Kind) {
        if let Some(path) = level.path.join(name) {
            self.server.changed_in(&self.bin.share, &path, Change::removed(kind));
        }
        self.server.opens.files.directory_changes(level.id, None, self.server.environment.uptime());
    }
}
