//! The overflow store: a directory in the share's root with a file for each stream that does not fit in an extended
//! attribute.
//!
//! A file with such a stream has an attribute ([`layout`](super::layout)) whose value is the name of the store's file:
//! the inode number of the owner, and 128 random bits. The stream therefore survives renames of its file by any
//! program. An attribute with the inode number of another file is the result of a copy. The content is then shared for
//! reading and copied before the first write, and is never removed through the copy.
//!
//! Where that attribute does not fit beside the one with the content, the latter's value is replaced in one step by the
//! name of the store's file, without the zero byte that ends a content. It stays so only after a crash, or if there is
//! no space for the other attribute.
//!
//! If shares overlap, a file that is reached through one of them may have its stream in the store of the other. All
//! these stores are searched, the share's own first.
//!
//! Any user may create a directory with the store's name in a share's root, and name any file in an attribute. The
//! store is therefore a [private directory](Private), and its files have a [mark](super::mark) that only root can set,
//! where that is supported.
//!
//! Content is on disk before an attribute names it, and the attribute is removed before the content. A crash therefore
//! leaves at most an unreferenced file in the store.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;
use parking_lot::Mutex;

use super::by_volume::ByVolume;
use super::mark::Mark;
use crate::environment::Environment;
use crate::vfs::{Access, Errno, Metadata, Node, Op, Private, RelPath, Result, SERVER, SetMetadata, Vfs, read_into};

/// The store's name in the root of a share.
pub(crate) const DIRECTORY: &str = ".frevo-streams";

/// Chunk size of copies in bytes.
const COPY: usize = 1 << 20;

const READ: Access = Access { read: true, write: false };
const BOTH: Access = Access { read: true, write: true };

/// The streams of one share's files that do not fit in attributes.
pub(crate) struct Store {
    /// Open while a tree connect or an open uses it: a store does not keep the volume of a home open.
    vfs: Weak<dyn Vfs>,
    /// Keeps the volume open if others overlap with it: they need its store for streams of their files.
    kept: OnceLock<Arc<dyn Vfs>>,
    environment: Arc<dyn Environment>,
    /// The share's root in `vfs`. For a snapshot it is a subdirectory.
    root: RelPath,
    /// The stores of overlapping shares.
    beside: Mutex<ByVolume<Weak<Store>>>,
    /// The server's own identity, because users have no access to the store.
    own: Op,
    state: AtomicU8,
    /// Whether it has been logged that the store's name is taken by something else.
    warned: AtomicBool,
}

/// Values of `state`: not known yet, no store, store exists.
const UNKNOWN: u8 = 0;
const NONE: u8 = 1;
const USED: u8 = 2;

/// A file found in a store.
struct StoredFile {
    directory: Arc<dyn Private>,
    node: Arc<dyn Node>,
    /// `None` for files created before marks were introduced, and where marks are not available.
    mark: Option<Mark>,
}

impl StoredFile {
    /// Whether the stream belongs to `owner`, whose attribute names it as a stream of the file `inode`.
    fn belongs_to(&self, owner: &Metadata, inode: u64) -> bool {
        inode == owner.id.inode && self.mark.is_none_or(|mark| mark.names(owner))
    }
}

/// An open file of the store.
pub(crate) struct Sidecar {
    /// Its name in the store.
    pub(crate) name: String,
    /// Open for reading and, if possible, writing.
    pub(crate) node: Arc<dyn Node>,
    /// It belongs to the file that names it, which is not a copy.
    pub(crate) owned: bool,
}

impl Store {
    pub(crate) fn new(vfs: &Arc<dyn Vfs>, root: RelPath, environment: Arc<dyn Environment>) -> Store {
        let own = SERVER.clone();
        Store {
            vfs: Arc::downgrade(vfs),
            kept: OnceLock::new(),
            environment,
            root,
            beside: Mutex::default(),
            own,
            state: AtomicU8::new(UNKNOWN),
            warned: AtomicBool::new(false),
        }
    }

    /// Registers that the share of `other`, the store of this volume, overlaps with that of this store. Keeps that
    /// volume open.
    pub(super) fn is_beside(&self, volume: (u64, &Arc<dyn Vfs>), other: &Arc<Store>) {
        other.kept.get_or_init(|| Arc::clone(volume.1));
        self.beside.lock().entry(volume, || Arc::downgrade(other));
    }

    /// Returns the stores of overlapping shares whose volumes are open.
    fn others(&self) -> Vec<Arc<Store>> {
        self.beside.lock().open().filter_map(Weak::upgrade).collect()
    }

    /// Returns the context for access to the store, and to attributes that name its files.
    pub(crate) fn own(&self) -> &Op {
        &self.own
    }

    /// Whether this store or one of an overlapping share exists. For most shares there is none, so streams need no
    /// further checks.
    pub(crate) async fn is_used(&self) -> bool {
        if self.has_any().await {
            return true;
        }
        for other in self.others() {
            if other.has_any().await {
                return true;
            }
        }
        false
    }

    async fn has_any(&self) -> bool {
        if self.state.load(Ordering::Relaxed) == UNKNOWN {
            let state = match self.directory(false).await {
                Ok(Some(_)) => USED,
                Ok(None) => NONE,
                // Retried next time.
                Err(_) => return false,
            };
            // The store may have been created meanwhile.
            _ = self.state.compare_exchange(UNKNOWN, state, Ordering::Relaxed, Ordering::Relaxed);
        }
        self.state.load(Ordering::Relaxed) == USED
    }

    /// Opens and checks the store's directory; not cached.
    async fn directory(&self, make: bool) -> Result<Option<Arc<dyn Private>>> {
        // The volume of an overlapping share may have been closed meanwhile.
        let Some(vfs) = self.vfs.upgrade() else { return Ok(None) };
        let found = vfs.private(&self.root, DIRECTORY, make).await;
        if matches!(found, Err(Errno::PERM)) && !self.warned.swap(true, Ordering::Relaxed) {
            tracing::error!(
                "{DIRECTORY} in the share's root is not a directory with mode 0700 that belongs to the server's user, \
                 so large streams are neither read nor stored; remove it or, if a server of another user created it, \
                 chown it recursively"
            );
        }
        found
    }

    /// Creates an empty file in the store for a stream of the file `owner`. It is charged to the quota of the owner's
    /// user. Fails with `NOSPC` if the share has no store and may have none: only the attribute is left as a place for
    /// the stream, and it is too small.
    pub(crate) async fn create(&self, owner: &Metadata) -> Result<Sidecar> {
        let directory = match self.directory(true).await {
            Ok(found) => found.ok_or(Errno::STALE)?,
            Err(errno @ (Errno::PERM | Errno::ACCES | Errno::OPNOTSUPP)) => {
                tracing::debug!(?errno, "there is no store for a large stream");
                return Err(Errno::NOSPC);
            }
            Err(errno) => return Err(errno),
        };
        self.state.store(USED, Ordering::Relaxed);
        let mut random = [0; 16];
        self.environment.random(&mut random);
        let name = format!("{:x}-{:032x}", owner.id.inode, u128::from_le_bytes(random));
        let (node, _) = directory.create(&name).await?;
        if let Err(errno) = Mark::of(owner).write(&node, &self.own).await {
            _ = directory.remove(&name).await;
            return Err(errno);
        }
        let owned_by = SetMetadata { uid: Some(owner.uid), gid: Some(owner.gid), ..SetMetadata::default() };
        if let Err(errno) = node.set_metadata(&self.own, owned_by).await {
            tracing::debug!(
                ?errno,
                name,
                "cannot change the owner of a large stream; it counts against the server's quota, not the user's"
            );
        }
        Ok(Sidecar { name, node, owned: true })
    }

    /// Opens the file of the store that an attribute of the file `owner` names.
    pub(crate) async fn open(&self, value: &[u8], owner: &Metadata) -> Result<Sidecar> {
        let (name, inode) = parse(value).ok_or(Errno::INVAL)?;
        let Some(found) = self.find(name, inode).await? else {
            tracing::error!(
                name,
                "a stream is missing from the store {DIRECTORY} of the share; restore it from a backup"
            );
            return Err(Errno::IO);
        };
        let owned = found.belongs_to(owner, inode);
        if owned
            && found.mark.is_none()
            && let Err(errno) = Mark::of(owner).write(&found.node, &self.own).await
        {
            tracing::debug!(?errno, name, "cannot mark a file of the stream store");
        }
        let node = match found.node.open(&self.own, BOTH).await {
            // A stream that cannot be changed, for example in a snapshot, can still be read.
            Err(Errno::ROFS | Errno::ACCES) => found.node.open(&self.own, READ).await?,
            opened => opened?,
        };
        Ok(Sidecar { name: name.to_owned(), node, owned })
    }

    /// Returns a copy of `from` that belongs to the file `owner`, written to disk.
    pub(crate) async fn copy(&self, from: &Sidecar, owner: &Metadata) -> Result<Sidecar> {
        let copy = self.create(owner).await?;
        match copy_content(&self.own, &from.node, &copy.node).await {
            Ok(()) => Ok(copy),
            Err(errno) => {
                self.discard(&copy.name).await;
                Err(errno)
            }
        }
    }

    /// Removes the file that the attribute `value` of the file `owner` named, if it belongs to that file.
    pub(crate) async fn remove(&self, value: &[u8], owner: &Metadata) {
        if let Some((name, inode)) = parse(value)
            && inode == owner.id.inode
        {
            self.discard_if(name, |found| found.belongs_to(owner, inode)).await;
        }
    }

    /// Removes a file of the store that no attribute names any more.
    pub(crate) async fn discard(&self, name: &str) {
        self.discard_if(name, |_| true).await;
    }

    /// Removes a file of the store after a call failed that sets the attribute that names it. If storage on another
    /// machine may have carried out the call, or may yet do so, the file stays.
    pub(crate) async fn discard_after(&self, errno: Errno, name: &str) {
        if is_uncertain(errno) {
            tracing::warn!(
                name,
                ?errno,
                "whether an attribute names a file of {DIRECTORY} is not known, so it stays; it may occupy space"
            );
        } else {
            self.discard(name).await;
        }
    }

    async fn discard_if(&self, name: &str, condition: impl Fn(&StoredFile) -> bool) {
        let Some((_, inode)) = parse(name.as_bytes()) else { return };
        let removed = match self.find(name, inode).await {
            Ok(Some(found)) if condition(&found) => found.directory.remove(name).await,
            Ok(_) => Ok(()),
            Err(errno) => Err(errno),
        };
        if let Err(errno) = removed {
            tracing::warn!(
                name,
                ?errno,
                "cannot remove a file of {DIRECTORY} that is no longer needed; it occupies space"
            );
        }
    }

    /// Searches this store and those of overlapping shares for a stream of the file `inode`.
    async fn find(&self, name: &str, inode: u64) -> Result<Option<StoredFile>> {
        let here = self.find_here(name, inode).await;
        if !matches!(here, Ok(None) | Err(Errno::PERM)) {
            return here;
        }
        for other in self.others() {
            match other.find_here(name, inode).await {
                Ok(None) | Err(Errno::PERM) => {}
                found => return found,
            }
        }
        Ok(None)
    }

    async fn find_here(&self, name: &str, inode: u64) -> Result<Option<StoredFile>> {
        let Some(directory) = self.directory(false).await? else { return Ok(None) };
        let Some((node, _)) = directory.find(name).await? else { return Ok(None) };
        let mark = Mark::read(&node, &self.own).await?;
        if mark.is_some_and(|mark| mark.inode != inode) {
            tracing::error!(name, "a file of {DIRECTORY} is marked as belonging to another file; it is not used");
            return Ok(None);
        }
        Ok(Some(StoredFile { directory, node, mark }))
    }
}

pub(super) async fn copy_content(op: &Op, from: &Arc<dyn Node>, to: &Arc<dyn Node>) -> Result<()> {
    let mut offset = 0;
    loop {
        let (buffer, count) = read_into(from, op, offset, vec![0; COPY], 0).await;
        let count = count?;
        if count == 0 {
            break;
        }
        to.write(op, offset, Bytes::from(buffer).slice(..count).into(), false).await?;
        offset += count as u64;
    }
    to.flush(op).await
}

/// Whether a call that failed with this error may have been carried out.
pub(super) fn is_uncertain(errno: Errno) -> bool {
    const UNCERTAIN: [Errno; 7] =
        [Errno::INTR, Errno::IO, Errno::AGAIN, Errno::NOTCONN, Errno::TIMEDOUT, Errno::HOSTDOWN, Errno::CANCELED];
    UNCERTAIN.contains(&errno)
}

/// Whether an attribute's value is the name of a file of the store. A content ends with a zero byte, so it is not.
pub(super) fn is_name(value: &[u8]) -> bool {
    parse(value).is_some()
}

/// Returns the file name in an attribute's value, and the inode number of the file that the stream belongs to. `None`
/// for any other value, which the server did not write.
fn parse(value: &[u8]) -> Option<(&str, u64)> {
    let name = std::str::from_utf8(value).ok()?;
    let (inode, random) = name.split_once('-')?;
    let hexadecimal = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let formed = random.len() == 32 && hexadecimal(random) && hexadecimal(inode) && !inode.is_empty();
    let inode = u64::from_str_radix(inode, 16).ok()?;
    formed.then_some((name, inode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_store_are_found_in_it() {
        let random = "0123456789abcdef0123456789abcdef";
        assert_eq!(parse(format!("1f-{random}").as_bytes()), Some((format!("1f-{random}").as_str(), 0x1f)));
        for wrong in ["", "-", "..", "../../etc/passwd", "1f", &format!("-{random}"), &format!("1F-{random}")] {
            assert_eq!(parse(wrong.as_bytes()), None, "{wrong}");
        }
        for wrong in [format!("1f-{random}0"), format!("1f-{}/", &random[1..]), format!("+1-{random}")] {
            assert_eq!(parse(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(parse(&[0xff; 40]), None);
        assert!(is_name(format!("1f-{random}").as_bytes()) && !is_name(format!("1f-{random}\0").as_bytes()));
    }
}
