//! The overflow store: a directory in the share's root with a file for each stream that no extended attribute can hold.
//!
//! The file that has such a stream says so in an attribute ([`layout`](super::layout)), whose value is the name of the
//! store's file: the inode number of its owner, and 128 random bits. So the stream goes where its file goes, whoever
//! renames it. An attribute that names the inode of another file came with a copy: the content is shared for reading and
//! copied before the first write, and it is never removed through the copy.
//!
//! Where shares overlap, a file that is reached through one of them may have its stream in the store of the other: each
//! store is looked into, the share's own first.
//!
//! What is written is on disk before an attribute names it, and no longer named when it is removed: a crash leaves
//! nothing worse than a file of the store that nobody names.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::vfs::{
    Access, Case, Create, Errno, Identity, Kind, Links, Lookup, Metadata, Node, RelPath, Result, SetMetadata, Vfs,
};
use crate::world::World;

/// The store's name in the root of a share.
pub(crate) const DIRECTORY: &str = ".frevo-streams";

/// How much is copied at a time.
const COPY: usize = 1 << 20;

const READ: Access = Access { read: true, write: false };
const BOTH: Access = Access { read: true, write: true };
const NO_LINKS: Links = Links { follow: false, wide: false };

/// The streams of one share's files that no attribute can hold.
pub(crate) struct Store {
    vfs: Arc<dyn Vfs>,
    world: Arc<dyn World>,
    /// Where the share's root is in `vfs`: a previous version lies deeper.
    root: RelPath,
    /// The stores of shares that overlap with this one.
    beside: Mutex<Vec<Weak<Store>>>,
    /// The server itself: no user reaches into the store.
    own: Arc<Identity>,
    state: AtomicU8,
}

/// Nobody has looked yet; there is none; there is one.
const UNKNOWN: u8 = 0;
const NONE: u8 = 1;
const USED: u8 = 2;

/// A file of some store.
struct Found {
    vfs: Arc<dyn Vfs>,
    path: RelPath,
    node: Arc<dyn Node>,
    metadata: Metadata,
}

/// A file of the store, open.
pub(crate) struct Sidecar {
    /// Its name there.
    pub(crate) name: String,
    /// Open for reading and, where it can be, writing.
    pub(crate) node: Arc<dyn Node>,
    /// It belongs to the file that names it, and not to one that was copied.
    pub(crate) owned: bool,
}

impl Store {
    pub(crate) fn new(vfs: Arc<dyn Vfs>, root: RelPath, world: Arc<dyn World>) -> Store {
        let own = Arc::new(Identity { uid: 0, gid: 0, groups: Box::new([]) });
        Store { vfs, world, root, beside: Mutex::default(), own, state: AtomicU8::new(UNKNOWN) }
    }

    /// The share of `other` overlaps with that of this store.
    pub(super) fn is_beside(&self, other: &Arc<Store>) {
        let mut beside = self.beside.lock();
        if !beside.iter().any(|known| known.as_ptr() == Arc::as_ptr(other)) {
            beside.push(Arc::downgrade(other));
        }
    }

    /// The stores beside this one.
    fn others(&self) -> Vec<Arc<Store>> {
        self.beside.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// The identity that acts on the store, and on attributes that lead there.
    pub(crate) fn own(&self) -> &Arc<Identity> {
        &self.own
    }

    /// Whether any stream was ever kept here or beside. Most shares have none, and are asked for nothing.
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
            let found = self.vfs.lookup(&self.own, &self.directory(), Case::Sensitive, NO_LINKS).await;
            let state = if matches!(found, Ok(Lookup::Missing { .. })) { NONE } else { USED };
            // Somebody may have made it meanwhile.
            _ = self.state.compare_exchange(UNKNOWN, state, Ordering::Relaxed, Ordering::Relaxed);
        }
        self.state.load(Ordering::Relaxed) == USED
    }

    /// A new, empty file of the store for a stream of the file `owner`. It counts for the quota of the owner's user.
    pub(crate) async fn create(&self, owner: &Metadata) -> Result<Sidecar> {
        self.prepare().await?;
        let mut random = [0; 16];
        self.world.random(&mut random);
        let name = format!("{:x}-{:032x}", owner.id.inode, u128::from_le_bytes(random));
        let path = self.path(&name).ok_or(Errno::INVAL)?;
        let (node, _) = self.vfs.create(&self.own, &path, Create::File(BOTH), 0o600, None).await?;
        let owned_by = SetMetadata { uid: Some(owner.uid), gid: Some(owner.gid), ..SetMetadata::default() };
        if let Err(errno) = node.set_metadata(&self.own, owned_by).await {
            tracing::debug!(?errno, name, "a large stream counts for the server's quota, not for its user's");
        }
        Ok(Sidecar { name, node, owned: true })
    }

    /// The file of the store that an attribute of the file `inode` names.
    pub(crate) async fn open(&self, value: &[u8], inode: u64) -> Result<Sidecar> {
        let (name, owner) = parse(value).ok_or(Errno::INVAL)?;
        let node = match self.find(name).await? {
            Some(found) => match found.node.open(&self.own, BOTH).await {
                // What cannot be changed, a previous version say, can be read.
                Err(Errno::ROFS | Errno::ACCES) => found.node.open(&self.own, READ).await?,
                opened => opened?,
            },
            None => {
                tracing::error!(
                    name,
                    "a stream is lost: the store {DIRECTORY} of the share does not have it; restore it from a backup"
                );
                return Err(Errno::IO);
            }
        };
        Ok(Sidecar { name: name.to_owned(), node, owned: owner == inode })
    }

    /// A copy of `from` that belongs to the file `owner`, on disk.
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

    /// Removes what the attribute `value` of the file `inode` named, if it was that file's own.
    pub(crate) async fn remove(&self, value: &[u8], inode: u64) {
        if let Some((name, owner)) = parse(value)
            && owner == inode
        {
            self.discard(name).await;
        }
    }

    /// Removes a file of the store that no attribute names any more.
    pub(crate) async fn discard(&self, name: &str) {
        let removed = match self.find(name).await {
            Ok(Some(Found { vfs, path, metadata, .. })) => vfs.unlink(&self.own, &path, metadata.id, Kind::File).await,
            Ok(None) => Ok(()),
            Err(errno) => Err(errno),
        };
        if let Err(errno) = removed {
            tracing::warn!(name, ?errno, "a file of {DIRECTORY} that is needed no longer stays and takes room");
        }
    }

    /// Looks in this store and in those beside it.
    async fn find(&self, name: &str) -> Result<Option<Found>> {
        if let Some(found) = self.find_here(name).await? {
            return Ok(Some(found));
        }
        for other in self.others() {
            if let Some(found) = other.find_here(name).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    async fn find_here(&self, name: &str) -> Result<Option<Found>> {
        let Some(path) = self.path(name) else { return Ok(None) };
        match self.vfs.lookup(&self.own, &path, Case::Sensitive, NO_LINKS).await? {
            Lookup::Found { path, node, metadata } if metadata.kind == Kind::File => {
                Ok(Some(Found { vfs: Arc::clone(&self.vfs), path, node, metadata }))
            }
            _ => Ok(None),
        }
    }

    fn directory(&self) -> RelPath {
        self.root.join(DIRECTORY.as_bytes()).expect("the constant is a plain name")
    }

    fn path(&self, name: &str) -> Option<RelPath> {
        self.directory().join(name.as_bytes())
    }

    /// Makes the directory where there is none. One that somebody else put there is not trusted with anything.
    async fn prepare(&self) -> Result<()> {
        match self.vfs.create(&self.own, &self.directory(), Create::Directory, 0o700, None).await {
            Ok(_) => {}
            Err(Errno::EXIST) => self.check().await?,
            Err(errno) => return Err(errno),
        }
        self.state.store(USED, Ordering::Relaxed);
        Ok(())
    }

    async fn check(&self) -> Result<()> {
        let root = self.vfs.lookup(&self.own, &self.root, Case::Sensitive, NO_LINKS).await?;
        let there = self.vfs.lookup(&self.own, &self.directory(), Case::Sensitive, NO_LINKS).await?;
        let (Lookup::Found { metadata: root, .. }, Lookup::Found { metadata, .. }) = (root, there) else {
            return Err(Errno::STALE);
        };
        // The server's own, or, where it cannot act as root, its user's, to whom the share belongs.
        let ours = metadata.uid == 0 || metadata.uid == root.uid;
        if metadata.kind == Kind::Directory && ours && metadata.mode & 0o077 == 0 {
            return Ok(());
        }
        tracing::error!(
            uid = metadata.uid,
            mode = format!("{:o}", metadata.mode),
            "{DIRECTORY} in the share's root is not the server's own, so no large streams are kept; remove it"
        );
        Err(Errno::PERM)
    }
}

pub(super) async fn copy_content(who: &Arc<Identity>, from: &Arc<dyn Node>, to: &Arc<dyn Node>) -> Result<()> {
    let mut offset = 0;
    loop {
        let (buffer, count) = from.read(offset, vec![0; COPY], 0).await;
        let count = count?;
        if count == 0 {
            break;
        }
        to.write(who, offset, Bytes::from(buffer).slice(..count), false).await?;
        offset += count as u64;
    }
    to.flush().await
}

/// The name that an attribute's value is, and the inode number of the file that the stream belongs to. Anything else,
/// which somebody else must have written, leads nowhere.
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
    fn only_names_of_the_store_lead_there() {
        let random = "0123456789abcdef0123456789abcdef";
        assert_eq!(parse(format!("1f-{random}").as_bytes()), Some((format!("1f-{random}").as_str(), 0x1f)));
        for wrong in ["", "-", "..", "../../etc/passwd", "1f", &format!("-{random}"), &format!("1F-{random}")] {
            assert_eq!(parse(wrong.as_bytes()), None, "{wrong}");
        }
        for wrong in [format!("1f-{random}0"), format!("1f-{}/", &random[1..]), format!("+1-{random}")] {
            assert_eq!(parse(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(parse(&[0xff; 40]), None);
    }
}
