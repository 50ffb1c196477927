//! An open alternate stream, shared by all its handles. Reads and writes are serialized, because an extended attribute
//! is always read and written as a whole.
//!
//! Shares may reach one stream with different extensions: by one it is an ordinary stream, by another Finder info. What
//! handles share is therefore apart from what depends on the share.

mod places;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex as Cell;
use proto::mac::afp_info::AfpInfo;
use tokio::sync::{MappedMutexGuard, Mutex, MutexGuard};

use super::beside::Beside;
use super::layout::{self, LARGEST_INLINE, Stored};
use super::mac::{self, NETATALK, Role};
use super::store::{self, Sidecar, Store};
use super::{Open, list};
use crate::name::fold_key;
use crate::policy::stream_layout::Layout;
use crate::vfs::{
    Content, Errno, Extent, FileId, Metadata, Node, Op, Payload, ReadReply, ReadRequest, Result, SetXattr, into_buffer,
    read_into,
};

/// A stream that is open, or about to be opened, as shares of one layout see it.
pub(crate) struct Stream {
    /// Identifies the stream and its file.
    pub(crate) id: FileId,
    layout: Layout,
    role: Role,
    /// The AppleDouble file in which a resource fork is stored.
    beside: Option<Beside>,
    store: Arc<Store>,
    shared: Arc<Shared>,
}

/// What all handles of a stream share.
pub(crate) struct Shared {
    /// Identifies the stream and its file.
    pub(crate) id: FileId,
    /// The prefix of its attribute. Streams of one name are one stream if their attributes begin with the same prefix.
    prefix: String,
    store: Arc<Store>,
    /// It need not be stored while it is empty, as the streams of macOS.
    is_fleeting: AtomicBool,
    /// The name on disk, existing or not. `None` after the stream was removed, so that it is not found any more.
    name: Cell<Option<Arc<str>>>,
    /// Locked by all operations on the content.
    place: Mutex<Located>,
    open: Arc<Open>,
}

/// The location of the content, and the layout by which it was found.
struct Located {
    layout: Layout,
    at: StreamLocation,
}

/// The location of the content.
enum StreamLocation {
    /// Not looked up yet, or not present.
    Nowhere,
    /// In the value of this attribute.
    Inline(String),
    /// In the AppleDouble file.
    Beside,
    /// In the store, named by this attribute.
    Store(String, Sidecar),
    /// Not available: the store does not have the file that the attribute names. The stream can only be discarded.
    Lost(Stored),
    /// The stream was renamed to the unnamed stream, so this is the file's own content.
    Own(Arc<dyn Node>),
    /// The stream was removed.
    Removed,
}

/// The new name of a stream.
pub(crate) enum Target {
    /// Another alternate stream.
    Named(String),
    /// The unnamed stream, open for writing.
    Unnamed(Arc<dyn Node>),
}

impl Shared {
    pub(super) fn new(id: FileId, name: &str, layout: &Layout, store: Arc<Store>, open: Arc<Open>) -> Shared {
        Shared {
            id,
            prefix: layout.prefix.clone(),
            store,
            is_fleeting: AtomicBool::new(false),
            name: Cell::new(Some(name.into())),
            place: Mutex::new(Located { layout: layout.clone(), at: StreamLocation::Nowhere }),
            open,
        }
    }

    pub(super) fn is_called(&self, layout: &Layout, key: &[u8]) -> bool {
        self.prefix == layout.prefix && self.name.lock().as_ref().is_some_and(|name| fold_key(name.as_bytes()) == *key)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.open.forget(self.id);
    }
}

impl Stream {
    /// Returns the stream as shares of the `layout` see it.
    pub(super) fn of(shared: Arc<Shared>, name: &str, layout: &Layout, beside: Option<Beside>) -> Stream {
        let (role, store) = (Role::of(layout, name), Arc::clone(&shared.store));
        if role != Role::Plain {
            shared.is_fleeting.store(true, Ordering::Relaxed);
        }
        Stream { id: shared.id, layout: layout.clone(), role, beside, store, shared }
    }

    /// Locks the location. It is looked up again if a share with another layout has used it meanwhile.
    async fn lock(&self, file: &Arc<dyn Node>) -> Result<MappedMutexGuard<'_, StreamLocation>> {
        let mut located = self.shared.place.lock().await;
        if located.layout != self.layout {
            let depends = !matches!(located.at, StreamLocation::Own(_) | StreamLocation::Removed);
            if depends {
                let mut found = StreamLocation::Nowhere;
                self.find(&mut found, file, self.store.own()).await?;
                located.at = found;
            }
            located.layout = self.layout.clone();
        }
        Ok(MutexGuard::map(located, |located| &mut located.at))
    }

    /// Returns the id of its file.
    pub(crate) fn file(&self) -> FileId {
        FileId { stream: 0, ..self.id }
    }

    /// Returns its name on disk; `None` after it was removed.
    pub(crate) fn name(&self) -> Option<Arc<str>> {
        self.shared.name.lock().clone()
    }

    /// Returns the context for calls by the server itself.
    pub(super) fn server(&self) -> Op {
        self.store.own().clone()
    }

    /// Whether the file has the stream.
    pub(crate) async fn exists(&self, file: &Arc<dyn Node>, op: &Op) -> Result<bool> {
        let mut place = self.lock(file).await?;
        self.find(&mut place, file, op).await?;
        match &*place {
            StreamLocation::Beside => Ok(self.length_beside().await? > 0),
            at => Ok(!matches!(at, StreamLocation::Nowhere | StreamLocation::Removed)),
        }
    }

    /// Creates the stream, empty. `false` if it exists already. A stream of a Mac exists when it is first written.
    pub(crate) async fn create(&self, file: &Arc<dyn Node>, op: &Op, by_mac: bool) -> Result<bool> {
        let mut place = self.lock(file).await?;
        self.find(&mut place, file, op).await?;
        if !matches!(*place, StreamLocation::Nowhere) {
            return Ok(false);
        }
        if by_mac || self.role != Role::Plain {
            self.shared.is_fleeting.store(true, Ordering::Relaxed);
        } else {
            self.store_new(&mut place, file, op).await?;
        }
        Ok(true)
    }

    /// Stores the new stream, empty, unless another program has stored one meanwhile.
    async fn store_new(&self, place: &mut StreamLocation, file: &Arc<dyn Node>, op: &Op) -> Result<()> {
        self.find(place, file, op).await?;
        if !matches!(place, StreamLocation::Nowhere) {
            return Ok(());
        }
        let attribute = self.layout.inline(&self.name().ok_or(Errno::STALE)?)?;
        *place = StreamLocation::Inline(attribute.clone());
        if let Err(errno) = file.set_xattr(op, &attribute, Some(layout::value(b"")), SetXattr::Any).await {
            *place = StreamLocation::Nowhere;
            if !layout::is_too_large(errno) {
                return Err(errno);
            }
            self.overflow(place, file, op, b"").await?;
        }
        Ok(())
    }

    fn is_fleeting(&self) -> bool {
        self.shared.is_fleeting.load(Ordering::Relaxed)
    }

    /// Removes the stream, which a Mac has truncated to zero bytes. A write stores it again.
    pub(crate) async fn emptied_by_mac(&self, file: &Arc<dyn Node>, op: &Op) -> Result<()> {
        let mut place = self.lock(file).await?;
        // Another client may have written meanwhile.
        let size = match &*place {
            StreamLocation::Inline(attribute) => inline(file, self.store.own(), attribute).await?.len() as u64,
            StreamLocation::Store(_, sidecar) => sidecar.node.metadata(self.store.own()).await?.size,
            _ => return Ok(()),
        };
        if size > 0 || self.role == Role::Info {
            return Ok(());
        }
        self.shared.is_fleeting.store(true, Ordering::Relaxed);
        self.vanish(&mut place, file, op).await
    }

    /// Returns the content of a stream with Finder info; empty if there is none.
    async fn info(&self, place: &StreamLocation, file: &Arc<dyn Node>, op: &Op) -> Result<Vec<u8>> {
        match place {
            StreamLocation::Inline(attribute) => inline(file, op, attribute).await,
            StreamLocation::Store(_, sidecar) => {
                let (mut content, read) =
                    read_into(&sidecar.node, self.store.own(), 0, vec![0; AfpInfo::SIZE], 0).await;
                content.truncate(read?);
                Ok(content)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Returns whether clients see the stream. An empty resource fork and invalid Finder info do not exist for them.
    pub(crate) async fn is_shown(&self, file: &Arc<dyn Node>, size: u64) -> bool {
        match self.role {
            Role::Plain => true,
            Role::Fork => size > 0,
            Role::Info => {
                let Ok(place) = self.lock(file).await else { return false };
                let content = self.info(&place, file, self.store.own()).await;
                content.is_ok_and(|content| mac::shown(&content).is_some())
            }
        }
    }

    /// Returns what the stream is for macOS.
    pub(crate) fn role(&self) -> Role {
        self.role
    }

    /// Records the location of the content, taken from a listing of the file's streams.
    pub(crate) async fn is_at(&self, file: &Arc<dyn Node>, stored: &Stored) -> Result<()> {
        let mut place = self.lock(file).await?;
        if !matches!(*place, StreamLocation::Nowhere) || self.find_beside(&mut place).await? {
            return Ok(());
        }
        self.settle(&mut place, file, stored).await
    }

    /// Looks up the location of the content, if it is not known.
    async fn find(&self, place: &mut StreamLocation, file: &Arc<dyn Node>, op: &Op) -> Result<()> {
        if !matches!(*place, StreamLocation::Nowhere) {
            return Ok(());
        }
        if self.find_beside(place).await? {
            return Ok(());
        }
        match self.stored(file, op).await? {
            Some(stored) => self.settle(place, file, &stored).await,
            None => Ok(()),
        }
    }

    /// Returns the attributes of the stream.
    async fn stored(&self, file: &Arc<dyn Node>, op: &Op) -> Result<Option<Stored>> {
        let Some(name) = self.name() else { return Ok(None) };
        Ok(layout::find(list(file, op, &self.layout).await?, &name))
    }

    async fn settle(&self, place: &mut StreamLocation, file: &Arc<dyn Node>, stored: &Stored) -> Result<()> {
        *place = match (self.naming(file, stored).await?, &stored.inline) {
            (_, Some(attribute)) if attribute == NETATALK => StreamLocation::Inline(attribute.clone()),
            (Some(attribute), inline) => {
                let sidecar = match self.sidecar(file, attribute).await {
                    Ok(sidecar) => sidecar,
                    Err(Errno::INVAL | Errno::IO) => {
                        *place = StreamLocation::Lost(stored.clone());
                        return Ok(());
                    }
                    Err(errno) => return Err(errno),
                };
                // Both are present only after a crash. The store has the content written last.
                if let Some(inline) = inline
                    && inline != attribute
                    && let Err(errno) = file.set_xattr(self.store.own(), inline, None, SetXattr::Any).await
                {
                    tracing::debug!(?errno, "cannot remove the attribute of a stream that is in the store");
                }
                StreamLocation::Store(attribute.clone(), sidecar)
            }
            (None, Some(attribute)) => StreamLocation::Inline(attribute.clone()),
            (None, None) => StreamLocation::Nowhere,
        };
        if self.role == Role::Info
            && let StreamLocation::Inline(attribute) = &*place
            && mac::shown(&inline(file, self.store.own(), attribute).await?).is_none()
        {
            *place = StreamLocation::Nowhere;
        }
        *self.shared.name.lock() = Some(stored.name.as_str().into());
        Ok(())
    }

    /// Opens the file of the store that `attribute` names.
    async fn sidecar(&self, file: &Arc<dyn Node>, attribute: &str) -> Result<Sidecar> {
        let value = file.get_xattr(self.store.own(), attribute).await?.ok_or(Errno::STALE)?;
        self.store.open(&value, &file.metadata(self.store.own()).await?).await
    }

    /// Returns the stream's metadata: its own size, and everything else from the file.
    pub(crate) async fn metadata(&self, file: &Arc<dyn Node>) -> Result<Metadata> {
        let place = self.lock(file).await?;
        let of_file = file.metadata(self.store.own()).await?;
        let (size, allocated) = match &*place {
            StreamLocation::Inline(_) if self.role == Role::Info => {
                (AfpInfo::SIZE as u64, allocated(AfpInfo::SIZE as u64))
            }
            StreamLocation::Inline(attribute) => {
                // Users who may list attributes may see their sizes.
                let size = inline(file, self.store.own(), attribute).await?.len() as u64;
                (size, allocated(size))
            }
            StreamLocation::Store(_, sidecar) => {
                let metadata = sidecar.node.metadata(self.store.own()).await?;
                (metadata.size, metadata.allocated)
            }
            StreamLocation::Own(_) => (of_file.size, of_file.allocated),
            StreamLocation::Beside => {
                let size = self.length_beside().await?;
                (size, allocated(size))
            }
            StreamLocation::Nowhere if self.role == Role::Info => (AfpInfo::SIZE as u64, 0),
            StreamLocation::Nowhere | StreamLocation::Lost(_) | StreamLocation::Removed => (0, 0),
        };
        Ok(super::metadata(of_file, self.id, size, allocated))
    }

    /// Returns `count` bytes of the content; fewer only at its end.
    pub(super) async fn content(&self, file: &Arc<dyn Node>, op: &Op, at: u64, count: usize) -> Result<Vec<u8>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let (mut buffer, count) = into_buffer(self.read(file, op, ReadRequest::new(at, vec![0; count])).await, 0);
        buffer.truncate(count?);
        Ok(buffer)
    }

    /// Reads as [`Node::read`] does.
    pub(super) async fn read(&self, file: &Arc<dyn Node>, op: &Op, read: ReadRequest) -> ReadReply {
        let place = match self.lock(file).await {
            Ok(place) => place,
            Err(errno) => return (read.buffer, Err(errno)),
        };
        let read = ReadRequest { offset: self.read_offset(read.offset), ..read };
        let content = match &*place {
            StreamLocation::Inline(attribute) if self.role == Role::Info => {
                let content = inline(file, op, attribute).await;
                content.map(|content| if mac::shown(&content).is_some() { content } else { mac::no_info() })
            }
            StreamLocation::Inline(attribute) => inline(file, op, attribute).await,
            StreamLocation::Store(_, sidecar) => {
                return sidecar.node.read(self.store.own(), read).await;
            }
            StreamLocation::Own(node) => return node.read(op, read).await,
            StreamLocation::Beside => match &self.beside {
                Some(beside) => return beside.read(read).await,
                None => Err(Errno::STALE),
            },
            StreamLocation::Lost(_) => Err(Errno::IO),
            StreamLocation::Nowhere if self.role == Role::Info => Ok(mac::no_info()),
            StreamLocation::Nowhere if self.is_fleeting() => Ok(Vec::new()),
            StreamLocation::Nowhere | StreamLocation::Removed => Err(Errno::STALE),
        };
        let ReadRequest { offset, mut buffer, filled, .. } = read;
        let done = content.and_then(|content| {
            let space = buffer.get_mut(filled..).ok_or(Errno::INVAL)?;
            let from = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
            let count = (content.len() - from).min(space.len());
            space[..count].copy_from_slice(&content[from..from + count]);
            Ok(Content::Buffer(count))
        });
        (buffer, done)
    }

    /// Writes all of `data` at `offset`, and fills a gap after the former end with zeros.
    pub(super) async fn write(
        &self,
        file: &Arc<dyn Node>,
        op: &Op,
        offset: u64,
        mut data: Payload,
        through: bool,
    ) -> Result<()> {
        let mut place = self.lock(file).await?;
        let end = offset.checked_add(data.len() as u64).ok_or(Errno::FBIG)?;
        if self.role == Role::Info {
            return self.write_info(&mut place, file, op, offset, data, through).await;
        }
        if let Some(beside) = &self.beside {
            self.move_beside(&mut place, beside, file, op).await?;
            return beside.write(file, offset, data, through).await;
        }
        if self.is_fleeting() && matches!(*place, StreamLocation::Nowhere) {
            self.store_new(&mut place, file, op).await?;
        }
        let is_in_store = matches!(&*place, StreamLocation::Store(_, sidecar) if sidecar.owned);
        if let StreamLocation::Inline(attribute) = &*place {
            let attribute = attribute.clone();
            let mut content = inline(file, op, &attribute).await?;
            if end <= LARGEST_INLINE {
                let (from, to) = (offset as usize, end as usize);
                let before = content.clone();
                content.resize(content.len().max(to), 0);
                let bytes = data.into_memory()?;
                content[from..to].copy_from_slice(&bytes);
                data = bytes.into();
                if self.put(&mut place, file, op, attribute, &content, &before).await? {
                    return if through { file.flush(op).await } else { Ok(()) };
                }
            } else {
                self.overflow(&mut place, file, op, &content).await?;
            }
        }
        self.own_sidecar(&mut place, file, op).await?;
        match &*place {
            StreamLocation::Store(_, sidecar) => {
                sidecar.node.write(self.store.own(), offset, data, through).await?;
                // The attribute that names the sidecar has to be on disk as well.
                if through && !is_in_store { file.flush(op).await } else { Ok(()) }
            }
            StreamLocation::Own(node) => node.write(op, offset, data, through).await,
            StreamLocation::Lost(_) => Err(Errno::IO),
            _ => Err(Errno::STALE),
        }
    }

    /// Truncates or extends the content.
    pub(super) async fn set_size(&self, file: &Arc<dyn Node>, op: &Op, size: u64) -> Result<()> {
        let mut place = self.lock(file).await?;
        match self.role {
            // Its size is fixed.
            Role::Info => return Ok(()),
            Role::Fork if size == 0 => return self.vanish(&mut place, file, op).await,
            _ if self.beside.is_none() && self.is_fleeting() && matches!(*place, StreamLocation::Nowhere) => {
                self.store_new(&mut place, file, op).await?;
            }
            Role::Fork | Role::Plain => {}
        }
        if let Some(beside) = &self.beside {
            self.move_beside(&mut place, beside, file, op).await?;
            return beside.set_size(file, size).await;
        }
        if let StreamLocation::Inline(attribute) = &*place {
            let attribute = attribute.clone();
            let mut content = inline(file, op, &attribute).await?;
            if size <= LARGEST_INLINE {
                let before = content.clone();
                content.resize(size as usize, 0);
                if self.put(&mut place, file, op, attribute, &content, &before).await? {
                    return Ok(());
                }
            } else {
                self.overflow(&mut place, file, op, &content).await?;
            }
        }
        if size == 0 && matches!(*place, StreamLocation::Store(..)) {
            return self.bring_home(&mut place, file, op).await;
        }
        if size == 0 && matches!(*place, StreamLocation::Lost(_)) {
            return self.begin_anew(&mut place, file, op).await;
        }
        self.own_sidecar(&mut place, file, op).await?;
        match &*place {
            StreamLocation::Store(_, sidecar) => sidecar.node.set_extent(self.store.own(), Extent::Size(size)).await,
            StreamLocation::Own(node) => node.set_extent(op, Extent::Size(size)).await,
            StreamLocation::Lost(_) => Err(Errno::IO),
            _ => Err(Errno::STALE),
        }
    }

    /// Fills the range with zeros.
    pub(super) async fn zero(&self, file: &Arc<dyn Node>, op: &Op, offset: u64, length: u64) -> Result<()> {
        let mut place = self.lock(file).await?;
        if self.role == Role::Info || (self.is_fleeting() && matches!(*place, StreamLocation::Nowhere)) {
            return Ok(());
        }
        self.own_sidecar(&mut place, file, op).await?;
        match &*place {
            StreamLocation::Inline(attribute) => {
                let attribute = attribute.clone();
                let mut content = inline(file, op, &attribute).await?;
                let end = offset.saturating_add(length).min(content.len() as u64);
                if let Some(range) = content.get_mut(offset.min(end) as usize..end as usize) {
                    range.fill(0);
                }
                file.set_xattr(op, &attribute, Some(layout::value(&content)), SetXattr::Any).await
            }
            StreamLocation::Store(_, sidecar) => {
                sidecar.node.set_extent(self.store.own(), Extent::Zero { offset, length }).await
            }
            StreamLocation::Own(node) => node.set_extent(op, Extent::Zero { offset, length }).await,
            StreamLocation::Beside => self.beside()?.zero(offset, length).await,
            StreamLocation::Lost(_) => Err(Errno::IO),
            StreamLocation::Nowhere | StreamLocation::Removed => Err(Errno::STALE),
        }
    }

    /// Flushes written data to disk.
    pub(super) async fn flush(&self, file: &Arc<dyn Node>, op: &Op) -> Result<()> {
        let node = match &*self.lock(file).await? {
            StreamLocation::Store(_, sidecar) => Some(Arc::clone(&sidecar.node)),
            StreamLocation::Beside => {
                self.beside()?.flush().await?;
                None
            }
            _ => None,
        };
        if let Some(node) = node {
            node.flush(self.store.own()).await?;
        }
        file.flush(op).await
    }

    /// Removes the stream. Remaining handles fail.
    pub(crate) async fn remove(&self, file: &Arc<dyn Node>, op: &Op) -> Result<()> {
        self.make_way(file, op).await?;
        self.made_way();
        Ok(())
    }

    /// Removes the stream, but keeps its name until [`Stream::made_way`], so that lookups find it.
    pub(crate) async fn make_way(&self, file: &Arc<dyn Node>, op: &Op) -> Result<()> {
        let mut place = self.lock(file).await?;
        self.find(&mut place, file, op).await?;
        self.remove_from(&mut place, file, op).await?;
        *place = StreamLocation::Removed;
        Ok(())
    }

    /// Removes the name of a stream that [`Stream::make_way`] has removed.
    pub(crate) fn made_way(&self) {
        *self.shared.name.lock() = None;
    }
}

/// Returns the content stored in an attribute; empty if another program has removed the attribute, or if Netatalk's
/// cannot be understood. Fails with `Errno::IO` if the value only names a file of the store.
async fn inline(file: &Arc<dyn Node>, op: &Op, attribute: &str) -> Result<Vec<u8>> {
    match file.get_xattr(op, attribute).await? {
        Some(value) if attribute == NETATALK => Ok(mac::content(&value).unwrap_or_default()),
        Some(value) if store::is_name(&value) => Err(Errno::IO),
        value => Ok(layout::content(value.unwrap_or_default())),
    }
}

/// Returns the allocated size reported for `size` bytes in an attribute: rounded up to 8 bytes, as in a file record of
/// NTFS.
pub(super) fn allocated(size: u64) -> u64 {
    size.next_multiple_of(8)
}
