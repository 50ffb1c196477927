//! Resource forks in AppleDouble files (`fruit:resource = file`): that of `name` is a part of the file `._name` beside
//! it, as Samba, Netatalk and macOS store it.
//!
//! Such a file is opened as the user, by its name, and a symbolic link of that name is not followed. A file that is not
//! AppleDouble data is neither shown nor changed. In one that macOS wrote, Finder info and attributes before the fork
//! stay as they are.
//!
//! The header is read again before each operation, because other programs may change it. It never says that there is
//! more than what has been written: a fork that grows is written first, and one that shrinks is cut afterwards.

use std::sync::Arc;

use bytes::Bytes;
use proto::mac::apple_double::{self, AppleDouble, Entry, LONGEST_HEAD};
use tokio::sync::Mutex;

pub(crate) use super::double_moves::{DoubleMoves, Moving, Removing};
use super::double_rights;
use crate::tree::Disk;
use crate::vfs::{
    Access, Case, Content, Create, Created, Errno, Extent, FileId, Kind, Lookup, LookupOptions, Metadata, NewFile,
    Node, Op, Payload, ReadReply, ReadRequest, RelPath, RenameRequest, Replace, Result, SERVER, SymlinkPolicy, Vfs,
    read_into,
};

/// The first letters of the names of AppleDouble files.
pub(crate) const PREFIX: &[u8] = b"._";

const READ: Access = Access { read: true, write: false };
const BOTH: Access = Access { read: true, write: true };
/// The number of AppleDouble files that belong to no file that can be set aside for one name.
const SET_ASIDE: u32 = 9;
/// The number of bytes copied at once.
const COPY: usize = 1 << 20;

/// The current path of an open file.
pub(crate) trait Located: Send + Sync {
    /// Returns it.
    fn path(&self) -> RelPath;
}

impl Located for RelPath {
    fn path(&self) -> RelPath {
        self.clone()
    }
}

/// Returns the path of an open file of this kind, if its resource fork may be in an AppleDouble file.
pub(crate) fn at<T: Located + 'static>(name: &Arc<T>, kind: Kind) -> Option<Arc<dyn Located>> {
    (kind == Kind::File).then(|| Arc::clone(name) as Arc<dyn Located>)
}

/// Returns the path of the AppleDouble file of the file `path`; `None` if the name would be too long.
pub(crate) fn path_of(path: &RelPath) -> Option<RelPath> {
    let name = path.name()?;
    path.parent()?.join(&[PREFIX, name].concat())
}

/// The AppleDouble file of an open file.
pub(crate) struct Beside {
    vfs: Arc<dyn Vfs>,
    at: Arc<dyn Located>,
    links: SymlinkPolicy,
    /// The user.
    op: Op,
    opened: Mutex<Option<Opened>>,
}

/// A handle to an AppleDouble file.
struct Opened {
    node: Arc<dyn Node>,
    writes: bool,
}

/// An AppleDouble file, as it is now.
struct Double {
    node: Arc<dyn Node>,
    size: u64,
    double: AppleDouble,
}

/// What has the name of an AppleDouble file.
enum Found {
    /// Nothing, or an empty file.
    Nothing,
    /// Something that is not AppleDouble data.
    Other,
    Double(Double),
}

impl Double {
    fn fork(&self) -> Option<Entry> {
        self.double.entry(apple_double::id::RESOURCE_FORK)
    }

    /// Returns the fork, and where its length is, if it may be changed.
    fn changed_fork(&self) -> Result<(Entry, u64)> {
        self.double.last_fork().ok_or(Errno::IO)
    }
}

impl Beside {
    /// Returns the AppleDouble file of the file at `at`, which need not exist; `None` if its name would be too long.
    pub(super) fn new(disk: &Disk, at: Arc<dyn Located>) -> Option<Beside> {
        path_of(&at.path())?;
        let links = disk.share.links().to_last();
        Some(Beside { vfs: Arc::clone(&disk.vfs), at, links, op: disk.op.clone(), opened: Mutex::default() })
    }

    /// Returns a handle to the file; `None` if there is none.
    async fn node(&self, access: Access) -> Result<Option<(Arc<dyn Node>, u64)>> {
        let mut opened = self.opened.lock().await;
        if let Some(known) = opened.as_ref().filter(|known| known.writes || !access.write) {
            let metadata = known.node.metadata(&self.op).await?;
            // Another program may have removed or replaced it.
            if metadata.links > 0 {
                return Ok(Some((Arc::clone(&known.node), metadata.size)));
            }
        }
        *opened = None;
        let path = path_of(&self.at.path()).ok_or(Errno::NAMETOOLONG)?;
        let Some((found, metadata)) = look_up(&*self.vfs, &self.op, &path, self.links).await? else { return Ok(None) };
        let node = found.open(&self.op, access).await?;
        *opened = Some(Opened { node: Arc::clone(&node), writes: access.write });
        Ok(Some((node, metadata.size)))
    }

    /// Returns the file; `None` if there is none, or an empty one, as after a crash. It is an error if the file is not
    /// AppleDouble data.
    async fn double(&self, access: Access) -> Result<Option<Double>> {
        match self.found(access).await? {
            Found::Nothing => Ok(None),
            Found::Other => Err(Errno::IO),
            Found::Double(double) => Ok(Some(double)),
        }
    }

    async fn found(&self, access: Access) -> Result<Found> {
        let node = match self.node(access).await {
            Err(Errno::EXIST | Errno::LOOP) => return Ok(Found::Other),
            node => node?,
        };
        match node {
            Some((node, size)) if size > 0 => {
                let decoded = AppleDouble::decode(&head(&node, &self.op).await?, size);
                Ok(decoded.map_or(Found::Other, |double| Found::Double(Double { node, size, double })))
            }
            _ => Ok(Found::Nothing),
        }
    }

    /// Returns the length of the fork; zero if there is none, or if the file is not AppleDouble data.
    pub(super) async fn length(&self) -> Result<u64> {
        match self.found(READ).await? {
            Found::Double(double) => Ok(double.fork().map_or(0, |fork| fork.length as u64)),
            Found::Nothing | Found::Other => Ok(0),
        }
    }

    /// As [`Beside::length`], and whether the file has extended attributes, as macOS writes them.
    pub(super) async fn lengths(&self) -> Result<(u64, bool)> {
        let Found::Double(double) = self.found(READ).await? else { return Ok((0, false)) };
        let is_long = double.double.entry(apple_double::id::FINDER_INFO).is_some_and(|entry| entry.length > 32);
        Ok((double.fork().map_or(0, |fork| fork.length as u64), is_long))
    }

    /// Reads from the fork as [`Node::read`] does.
    pub(super) async fn read(&self, read: ReadRequest) -> ReadReply {
        let double = match self.double(READ).await {
            Ok(double) => double,
            Err(errno) => return (read.buffer, Err(errno)),
        };
        let ReadRequest { offset, mut buffer, filled, .. } = read;
        let Some((node, fork)) = double.and_then(|double| double.fork().map(|fork| (double.node, fork))) else {
            return (buffer, Ok(Content::Buffer(0)));
        };
        let length = (fork.length as u64).saturating_sub(offset).min(buffer.len().saturating_sub(filled) as u64);
        if length == 0 {
            return (buffer, Ok(Content::Buffer(0)));
        }
        // The buffer may be longer than what is left of the fork.
        let whole = buffer.len();
        buffer.truncate(filled + length as usize);
        let (mut buffer, count) = read_into(&node, &self.op, fork.offset as u64 + offset, buffer, filled).await;
        buffer.resize(whole, 0);
        (buffer, count.map(Content::Buffer))
    }

    /// Returns the file, which is created if it is missing, with the permissions of the file `base`.
    async fn made(&self, base: &Arc<dyn Node>) -> Result<Double> {
        if let Some(double) = self.double(BOTH).await? {
            return Ok(double);
        }
        let node = match self.node(BOTH).await.map_err(taken)? {
            Some((empty, _)) => self.take(base, empty).await?,
            None => self.create(base).await?,
        };
        let bytes = apple_double::file();
        let double = AppleDouble::decode(&bytes, bytes.len() as u64).map_err(|_| Errno::IO)?;
        node.write(&self.op, 0, Bytes::copy_from_slice(&bytes).into(), false).await?;
        Ok(Double { node, size: bytes.len() as u64, double })
    }

    /// Makes an empty file the AppleDouble file, as after a crash. That of a third user stays as it is.
    async fn take(&self, base: &Arc<dyn Node>, empty: Arc<dyn Node>) -> Result<Arc<dyn Node>> {
        let own = empty.metadata(&self.op).await?;
        if own.uid != self.op.uid && own.uid != base.metadata(&self.op).await?.uid {
            return Err(Errno::IO);
        }
        double_rights::follow(&*self.vfs, &self.op, base, (&empty, own)).await?;
        Ok(empty)
    }

    async fn create(&self, base: &Arc<dyn Node>) -> Result<Arc<dyn Node>> {
        let path = path_of(&self.at.path()).ok_or(Errno::NAMETOOLONG)?;
        // Others get their rights when it is known which. An ACL of the directory gives them none with this mode.
        let mode = base.metadata(&self.op).await?.mode & 0o700;
        let Created { node, metadata, .. } =
            self.vfs.create(&self.op, &path, NewFile::new(Create::File(BOTH), mode)).await?;
        if let Err(errno) = double_rights::follow(&*self.vfs, &self.op, base, (&node, metadata)).await {
            tracing::debug!(?errno, %path, "cannot set the permissions of an AppleDouble file");
        }
        *self.opened.lock().await = Some(Opened { node: Arc::clone(&node), writes: true });
        Ok(node)
    }

    /// Writes all of `data` at `offset` of the fork, and fills a gap after the former end with zeros.
    pub(super) async fn write(&self, base: &Arc<dyn Node>, offset: u64, data: Payload, through: bool) -> Result<()> {
        let length = data.len() as u64;
        if length == 0 {
            return Ok(());
        }
        let end = offset.checked_add(length).ok_or(Errno::FBIG)?;
        let double = self.made(base).await?;
        let (fork, at) = double.changed_fork()?;
        fits(&fork, end)?;
        self.clear_gap(&double, &fork, offset).await?;
        double.node.write(&self.op, fork.offset as u64 + offset, data, through).await?;
        if end > fork.length as u64 {
            self.set_length(&double.node, at, end, through).await?;
        }
        Ok(())
    }

    /// Clears what the file has between the end of the fork and `offset`.
    async fn clear_gap(&self, double: &Double, fork: &Entry, offset: u64) -> Result<()> {
        let end = (fork.offset + fork.length) as u64;
        let gap = (fork.offset as u64 + offset).min(double.size).saturating_sub(end);
        if gap > 0 { double.node.set_extent(&self.op, Extent::Zero { offset: end, length: gap }).await } else { Ok(()) }
    }

    async fn set_length(&self, node: &Arc<dyn Node>, at: u64, length: u64, through: bool) -> Result<()> {
        let length = u32::try_from(length).map_err(|_| Errno::FBIG)?;
        node.write(&self.op, at, Bytes::copy_from_slice(&length.to_be_bytes()).into(), through).await
    }

    /// Truncates or extends the fork. The file stays, as in Samba.
    pub(super) async fn set_size(&self, base: &Arc<dyn Node>, size: u64) -> Result<()> {
        let double = match size {
            0 => match self.double(BOTH).await? {
                Some(double) => double,
                None => return Ok(()),
            },
            _ => self.made(base).await?,
        };
        let (fork, at) = double.changed_fork()?;
        fits(&fork, size)?;
        let end = Extent::Size(fork.offset as u64 + size);
        if size < fork.length as u64 {
            self.set_length(&double.node, at, size, false).await?;
            return double.node.set_extent(&self.op, end).await;
        }
        self.clear_gap(&double, &fork, size).await?;
        double.node.set_extent(&self.op, end).await?;
        self.set_length(&double.node, at, size, false).await
    }

    /// Fills a range of the fork with zeros.
    pub(super) async fn zero(&self, offset: u64, length: u64) -> Result<()> {
        let Some(double) = self.double(BOTH).await? else { return Ok(()) };
        let Some(fork) = double.fork() else { return Ok(()) };
        let length = length.min((fork.length as u64).saturating_sub(offset));
        if length == 0 {
            return Ok(());
        }
        double.node.set_extent(&self.op, Extent::Zero { offset: fork.offset as u64 + offset, length }).await
    }

    /// Flushes the file to disk.
    pub(super) async fn flush(&self) -> Result<()> {
        match self.node(READ).await.map_err(taken)? {
            Some((node, _)) => node.flush(&self.op).await,
            None => Ok(()),
        }
    }

    /// Makes the fork a copy of `size` bytes that `read` returns by their offset. The fork has no length before all of
    /// it is on disk.
    pub(super) async fn fill<F, R>(&self, base: &Arc<dyn Node>, size: u64, read: F) -> Result<()>
    where
        F: Fn(u64, usize) -> R,
        R: Future<Output = Result<Vec<u8>>>,
    {
        let double = self.made(base).await?;
        let (fork, at) = double.changed_fork()?;
        fits(&fork, size)?;
        if fork.length > 0 {
            return Err(Errno::EXIST);
        }
        let mut offset = 0;
        while offset < size {
            let part = read(offset, COPY.min((size - offset) as usize)).await?;
            if part.is_empty() {
                return Err(Errno::IO);
            }
            let length = part.len() as u64;
            double.node.write(&self.op, fork.offset as u64 + offset, part.into(), false).await?;
            offset += length;
        }
        double.node.flush(&self.op).await?;
        self.set_length(&double.node, at, size, true).await
    }
}

/// Checks whether a fork may be `length` bytes long: its length is a number of 32 bits.
fn fits(fork: &Entry, length: u64) -> Result<()> {
    let end = (fork.offset as u64).checked_add(length).ok_or(Errno::FBIG)?;
    if end > u64::from(u32::MAX) { Err(Errno::FBIG) } else { Ok(()) }
}

/// Returns the bytes with the header and the table.
pub(super) async fn head(node: &Arc<dyn Node>, op: &Op) -> Result<Vec<u8>> {
    let (mut bytes, count) = read_into(node, op, 0, vec![0; LONGEST_HEAD], 0).await;
    bytes.truncate(count?);
    Ok(bytes)
}

/// Returns the error that a client gets where something else has the name.
fn taken(errno: Errno) -> Errno {
    if errno == Errno::EXIST { Errno::IO } else { errno }
}

/// Returns the regular file `path`, without following a link of that name. `Errno::EXIST` if the name is that of
/// something else.
pub(super) async fn look_up(
    vfs: &dyn Vfs,
    op: &Op,
    path: &RelPath,
    links: SymlinkPolicy,
) -> Result<Option<(Arc<dyn Node>, Metadata)>> {
    let options = LookupOptions { case: Case::Sensitive, links: links.to_last(), access: Access::default() };
    match vfs.lookup(op, path, options).await {
        Ok(Lookup::Found { node, metadata, .. }) if metadata.kind == Kind::File => Ok(Some((node, metadata))),
        // Something else has the name: no AppleDouble file can be there.
        Ok(Lookup::Found { .. }) => Err(Errno::EXIST),
        Ok(Lookup::Missing { .. } | Lookup::NoParent) | Err(Errno::NAMETOOLONG) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Returns the AppleDouble file `path`. Whether it is one is verified as the server, because its user need not be able
/// to read it, and learns nothing. An empty file is not one, because a user may have created it.
async fn existing(disk: &Disk, op: &Op, path: &RelPath) -> Result<Option<FileId>> {
    let found = match look_up(&*disk.vfs, op, path, disk.share.links()).await {
        Err(Errno::IO) => None,
        found => found?,
    };
    let Some((node, metadata)) = found.filter(|(_, metadata)| metadata.size > 0) else { return Ok(None) };
    let node = node.open(&SERVER, READ).await?;
    Ok(apple_double::has_signature(&head(&node, &SERVER).await?).then_some(metadata.id))
}

/// Returns the AppleDouble file `path` if its header is valid, which is verified as the server.
async fn whole(disk: &Disk, op: &Op, path: &RelPath) -> Result<Option<(Arc<dyn Node>, Metadata)>> {
    let found = look_up(&*disk.vfs, op, path, disk.share.links()).await?;
    let Some((node, metadata)) = found.filter(|(_, metadata)| metadata.size > 0) else { return Ok(None) };
    let head = head(&node.open(&SERVER, READ).await?, &SERVER).await?;
    Ok(AppleDouble::decode(&head, metadata.size).is_ok().then_some((node, metadata)))
}

/// Whether the share stores resource forks in AppleDouble files.
pub(crate) fn are_used(disk: &Disk) -> bool {
    disk.share.streams.as_ref().is_some_and(|layout| layout.has_files_beside())
}

/// Whether the file `from` has an AppleDouble file that could not follow it to the name `to`, because that is too long,
/// or because something else has its name there. If `replaces` is set, a file that has the name `to` is replaced.
pub(crate) async fn is_stuck(disk: &Disk, op: &Op, from: &RelPath, to: &RelPath, replaces: bool) -> bool {
    if !are_used(disk) {
        return false;
    }
    let Some(path) = path_of(from) else { return false };
    let own = match existing(disk, op, &path).await {
        Ok(None) => return false,
        own => own.ok().flatten(),
    };
    let Some(new) = path_of(to) else { return true };
    match existing(disk, op, &new).await {
        Ok(other) if other.is_some() && (replaces || other == own) => false,
        Ok(Some(_)) => !is_without_content(disk, op, &new).await && aside(disk, op, to).await.is_none(),
        Ok(None) => !is_free(disk, op, &new).await,
        Err(_) => true,
    }
}

async fn is_free(disk: &Disk, op: &Op, path: &RelPath) -> bool {
    let options = LookupOptions::exact(disk.share.links().to_last());
    matches!(disk.vfs.lookup(op, path, options).await, Ok(Lookup::Missing { .. } | Lookup::NoParent))
}

/// Whether the file is that of Samba and Netatalk for a file without Finder info and resource fork.
async fn is_without_content(disk: &Disk, op: &Op, path: &RelPath) -> bool {
    let content = async {
        let Some((node, metadata)) = look_up(&*disk.vfs, op, path, disk.share.links()).await? else {
            return Err(Errno::NOENT);
        };
        if metadata.size != apple_double::FILE_SIZE as u64 {
            return Err(Errno::FBIG);
        }
        let node = node.open(&SERVER, READ).await?;
        let (mut bytes, count) = read_into(&node, &SERVER, 0, vec![0; apple_double::FILE_SIZE], 0).await;
        bytes.truncate(count?);
        Ok(bytes)
    };
    content.await.is_ok_and(|content| content == apple_double::file())
}

/// Returns a free name beside `path` for an AppleDouble file that belongs to no file, so that it does not become that
/// of `path`.
async fn aside(disk: &Disk, op: &Op, path: &RelPath) -> Option<RelPath> {
    let (name, directory) = (path.name()?, path.parent()?);
    for number in 1..=SET_ASIDE {
        let base = directory.join(&[name, format!(".orphan-{number}").as_bytes()].concat())?;
        let free = path_of(&base)?;
        if is_free(disk, op, &base).await && is_free(disk, op, &free).await {
            return Some(free);
        }
    }
    None
}

/// Called after the permissions of the file at `path` were changed: those of its AppleDouble file follow, as far as the
/// user may change them.
pub(crate) async fn rights_changed(disk: &Disk, op: &Op, at: &RelPath, base: &Arc<dyn Node>) {
    let Some(path) = path_of(at) else { return };
    let follow = async {
        // Another program may have given the name to another file, whose permissions do not change.
        let found = look_up(&*disk.vfs, op, at, disk.share.links()).await?;
        let id = base.metadata(op).await?.id;
        let is_same = found.is_some_and(|(_, metadata)| metadata.id == id);
        match whole(disk, op, &path).await? {
            Some((node, own)) if is_same && own.links == 1 => {
                double_rights::follow(&*disk.vfs, op, base, (&node, own)).await
            }
            _ => Ok(()),
        }
    };
    let followed = match follow.await {
        Err(Errno::EXIST) => return,
        followed => followed,
    };
    if let Err(errno) = followed {
        tracing::debug!(share = disk.share.name, %path, ?errno, "an AppleDouble file keeps its permissions, although \
                                                                those of its file have changed");
    }
}

/// Called after the name `path` of a file was removed: removes its AppleDouble file, as the user. Returns the path of
/// what was removed.
pub(crate) async fn removed(disk: &Disk, op: &Op, path: &RelPath) -> Option<RelPath> {
    if !are_used(disk) {
        return None;
    }
    let path = path_of(path)?;
    let removed = match existing(disk, op, &path).await {
        Ok(None) => return None,
        Ok(Some(id)) => disk.vfs.unlink(op, &path, id, Kind::File).await.map(drop),
        Err(errno) => Err(errno),
    };
    if let Err(errno) = removed {
        tracing::warn!(share = disk.share.name, %path, ?errno, "cannot remove the AppleDouble file of a file that was \
                                                               removed; remove it, or a new file of that name gets \
                                                               its resource fork");
        return None;
    }
    Some(path)
}

/// A file that moved with the file beside it.
pub(crate) struct Moved {
    pub(crate) id: FileId,
    pub(crate) from: RelPath,
    pub(crate) to: RelPath,
}

/// Called before the file `path` on a file system is renamed or deleted, so that its AppleDouble file is not taken for
/// that of no file before it has followed. `None` if it cannot have one.
pub(crate) async fn moving<'a>(disk: &Disk, moves: &'a DoubleMoves, path: &RelPath, device: u64) -> Option<Moving<'a>> {
    let is_double = path.name().is_some_and(|name| name.starts_with(PREFIX));
    if is_double || !are_used(disk) { None } else { Some(moves.start(device).await) }
}

/// Called after a file or directory was renamed: its AppleDouble file follows, as the user. One of a file that had the
/// new name is replaced or, if `replaced` is set, removed. One that belonged to no file is set aside. Returns what has
/// moved, in this order.
pub(crate) async fn moved(disk: &Disk, op: &Op, from: &RelPath, to: &RelPath, replaced: bool) -> Vec<Moved> {
    let mut all = Vec::new();
    let Some((old, new)) = path_of(from).zip(path_of(to)).filter(|_| are_used(disk)) else { return all };
    let id = match existing(disk, op, &old).await {
        Ok(Some(id)) => id,
        Ok(None) => {
            if replaced {
                removed(disk, op, to).await;
            }
            return all;
        }
        Err(errno) => {
            warn(disk, &old, errno);
            return all;
        }
    };
    let mut replace = Replace::Nothing;
    if let Some(other) = existing(disk, op, &new).await.ok().flatten().filter(|other| *other != id) {
        if replaced || is_without_content(disk, op, &new).await {
            replace = Replace::File(other);
        } else if let Some(free) = aside(disk, op, to).await
            && disk.vfs.rename(op, RenameRequest::new(&new, other, &free)).await.is_ok()
        {
            tracing::info!(share = disk.share.name, path = %new, new = %free, "an AppleDouble file that belonged to \
                                                                             no file is set aside");
            all.push(Moved { id: other, from: new.clone(), to: free });
        }
    }
    match disk.vfs.rename(op, RenameRequest::new(&old, id, &new).replacing(replace)).await {
        Ok(()) => all.push(Moved { id, from: old, to: new }),
        Err(errno) => warn(disk, &old, errno),
    }
    all
}

fn warn(disk: &Disk, path: &RelPath, errno: Errno) {
    tracing::warn!(share = disk.share.name, %path, ?errno, "an AppleDouble file cannot follow the file that was \
                                                           renamed; rename it to `._` and the new name");
}
