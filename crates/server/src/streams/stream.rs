//! One alternate stream, as everybody who has it open shares it: reads and writes of it take turns, for an extended
//! attribute is only ever read and written whole.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex as Cell;
use tokio::sync::Mutex;

use super::layout::{self, LARGEST_INLINE, Layout, Stored};
use super::store::{Sidecar, Store};
use super::{Open, list};
use crate::name::fold_key;
use crate::vfs::{Errno, FileId, Identity, Metadata, Node, Result};

/// A stream that somebody has open, or is about to.
pub(crate) struct Stream {
    /// Which stream of which file.
    pub(crate) id: FileId,
    layout: Layout,
    store: Arc<Store>,
    /// As it is on disk, or as it will be; `None` once the stream was removed, so that it is found no more.
    name: Cell<Option<Arc<str>>>,
    /// Whoever reads or changes the content has this.
    place: Mutex<Place>,
    open: Arc<Open>,
}

/// Where the content is.
enum Place {
    /// Nobody has looked yet, or it is not there.
    Nowhere,
    /// In the value of this attribute.
    Inline(String),
    /// In the store; the attribute says so.
    Store(String, Sidecar),
    /// It was renamed to the unnamed stream: it is the file's own content.
    Own(Arc<dyn Node>),
    /// It was removed.
    Removed,
}

/// What a stream is renamed to.
pub(crate) enum Target {
    /// Another alternate stream.
    Named(String),
    /// The unnamed stream, open for writing.
    Unnamed(Arc<dyn Node>),
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.open.forget(self.id);
    }
}

impl Stream {
    pub(super) fn new(id: FileId, name: &str, layout: &Layout, store: Arc<Store>, open: Arc<Open>) -> Stream {
        Stream {
            id,
            layout: layout.clone(),
            store,
            name: Cell::new(Some(name.into())),
            place: Mutex::new(Place::Nowhere),
            open,
        }
    }

    /// The file that it is a stream of.
    pub(crate) fn file(&self) -> FileId {
        FileId { stream: 0, ..self.id }
    }

    /// Its name, as it is on disk; `None` once it is there no more.
    pub(crate) fn name(&self) -> Option<Arc<str>> {
        self.name.lock().clone()
    }

    /// The server's own identity.
    pub(super) fn server(&self) -> Arc<Identity> {
        Arc::clone(self.store.own())
    }

    pub(super) fn is_called(&self, layout: &Layout, key: &[u8]) -> bool {
        self.layout == *layout && self.name.lock().as_ref().is_some_and(|name| fold_key(name.as_bytes()) == *key)
    }

    /// Looks whether the file has the stream.
    pub(crate) async fn exists(&self, file: &Arc<dyn Node>, who: &Arc<Identity>) -> Result<bool> {
        let mut place = self.place.lock().await;
        self.find(&mut place, file, who).await?;
        Ok(!matches!(*place, Place::Nowhere | Place::Removed))
    }

    /// Makes the stream, empty. `false` where it is there already.
    pub(crate) async fn create(&self, file: &Arc<dyn Node>, who: &Arc<Identity>) -> Result<bool> {
        let mut place = self.place.lock().await;
        self.find(&mut place, file, who).await?;
        if !matches!(*place, Place::Nowhere) {
            return Ok(false);
        }
        let attribute = self.layout.inline(&self.name().ok_or(Errno::STALE)?)?;
        *place = Place::Inline(attribute.clone());
        if let Err(errno) = file.set_xattr(who, &attribute, Some(layout::value(b""))).await {
            *place = Place::Nowhere;
            if !layout::is_too_large(errno) {
                return Err(errno);
            }
            self.overflow(&mut place, file, who, b"").await?;
        }
        Ok(true)
    }

    /// Finds where the content is, if that is not known.
    async fn find(&self, place: &mut Place, file: &Arc<dyn Node>, who: &Arc<Identity>) -> Result<()> {
        if !matches!(*place, Place::Nowhere) {
            return Ok(());
        }
        let Some(name) = self.name() else { return Ok(()) };
        let Some(stored) = layout::find(list(file, who, &self.layout).await?, &name) else { return Ok(()) };
        *place = match (&stored.overflow, &stored.inline) {
            (Some(attribute), inline) => {
                let sidecar = self.sidecar(file, attribute).await?;
                if let Some(inline) = inline {
                    // Only a crash leaves both: the store has what was written last.
                    file.set_xattr(who, inline, None).await?;
                }
                Place::Store(attribute.clone(), sidecar)
            }
            (None, Some(attribute)) => Place::Inline(attribute.clone()),
            (None, None) => Place::Nowhere,
        };
        *self.name.lock() = Some(stored.name.into());
        Ok(())
    }

    /// The file of the store that `attribute` names.
    async fn sidecar(&self, file: &Arc<dyn Node>, attribute: &str) -> Result<Sidecar> {
        let value = file.get_xattr(self.store.own(), attribute).await?.ok_or(Errno::STALE)?;
        self.store.open(&value, self.id.inode).await
    }

    /// The stream's metadata: its own size, and everything else the file's.
    pub(crate) async fn metadata(&self, file: &Arc<dyn Node>) -> Result<Metadata> {
        let place = self.place.lock().await;
        let of_file = file.metadata().await?;
        let (size, allocated) = match &*place {
            Place::Inline(attribute) => {
                // A size is no secret: whoever may list attributes is told it.
                let size = inline(file, self.store.own(), attribute).await?.len() as u64;
                (size, allocated(size))
            }
            Place::Store(_, sidecar) => {
                let metadata = sidecar.node.metadata().await?;
                (metadata.size, metadata.allocated)
            }
            Place::Own(_) => (of_file.size, of_file.allocated),
            Place::Nowhere | Place::Removed => (0, 0),
        };
        Ok(super::metadata(of_file, self.id, size, allocated))
    }

    /// Reads into `buffer[filled..]`.
    pub(super) async fn read(
        &self,
        file: &Arc<dyn Node>,
        who: &Arc<Identity>,
        offset: u64,
        mut buffer: Vec<u8>,
        filled: usize,
    ) -> (Vec<u8>, Result<usize>) {
        let place = self.place.lock().await;
        let content = match &*place {
            Place::Inline(attribute) => inline(file, who, attribute).await,
            Place::Store(_, sidecar) => return sidecar.node.read(offset, buffer, filled).await,
            Place::Own(node) => return node.read(offset, buffer, filled).await,
            Place::Nowhere | Place::Removed => Err(Errno::STALE),
        };
        let done = content.and_then(|content| {
            let space = buffer.get_mut(filled..).ok_or(Errno::INVAL)?;
            let from = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
            let count = (content.len() - from).min(space.len());
            space[..count].copy_from_slice(&content[from..from + count]);
            Ok(count)
        });
        (buffer, done)
    }

    /// Writes all of `data` at `offset`; what lies between the end and there becomes zeros.
    pub(super) async fn write(
        &self,
        file: &Arc<dyn Node>,
        who: &Arc<Identity>,
        offset: u64,
        data: Bytes,
        through: bool,
    ) -> Result<()> {
        let mut place = self.place.lock().await;
        let end = offset.checked_add(data.len() as u64).ok_or(Errno::FBIG)?;
        if let Place::Inline(attribute) = &*place {
            let attribute = attribute.clone();
            let mut content = inline(file, who, &attribute).await?;
            if end <= LARGEST_INLINE {
                let (from, to) = (offset as usize, end as usize);
                let before = content.clone();
                content.resize(content.len().max(to), 0);
                content[from..to].copy_from_slice(&data);
                if self.put(&mut place, file, who, attribute, &content, &before).await? {
                    return if through { file.flush().await } else { Ok(()) };
                }
            } else {
                self.overflow(&mut place, file, who, &content).await?;
            }
        }
        self.own_sidecar(&mut place, file, who).await?;
        match &*place {
            Place::Store(_, sidecar) => sidecar.node.write(self.store.own(), offset, data, through).await,
            Place::Own(node) => node.write(who, offset, data, through).await,
            _ => Err(Errno::STALE),
        }
    }

    /// Cuts or extends the content.
    pub(super) async fn set_size(&self, file: &Arc<dyn Node>, who: &Arc<Identity>, size: u64) -> Result<()> {
        let mut place = self.place.lock().await;
        if let Place::Inline(attribute) = &*place {
            let attribute = attribute.clone();
            let mut content = inline(file, who, &attribute).await?;
            if size <= LARGEST_INLINE {
                let before = content.clone();
                content.resize(size as usize, 0);
                if self.put(&mut place, file, who, attribute, &content, &before).await? {
                    return Ok(());
                }
            } else {
                self.overflow(&mut place, file, who, &content).await?;
            }
        }
        if size == 0 && matches!(*place, Place::Store(..)) {
            return self.bring_home(&mut place, file, who).await;
        }
        self.own_sidecar(&mut place, file, who).await?;
        match &*place {
            Place::Store(_, sidecar) => sidecar.node.set_size(self.store.own(), size).await,
            Place::Own(node) => node.set_size(who, size).await,
            _ => Err(Errno::STALE),
        }
    }

    /// Makes the range read as zeros.
    pub(super) async fn zero(&self, file: &Arc<dyn Node>, who: &Arc<Identity>, offset: u64, length: u64) -> Result<()> {
        let mut place = self.place.lock().await;
        self.own_sidecar(&mut place, file, who).await?;
        match &*place {
            Place::Inline(attribute) => {
                let attribute = attribute.clone();
                let mut content = inline(file, who, &attribute).await?;
                let end = offset.saturating_add(length).min(content.len() as u64);
                if let Some(range) = content.get_mut(offset.min(end) as usize..end as usize) {
                    range.fill(0);
                }
                file.set_xattr(who, &attribute, Some(layout::value(&content))).await
            }
            Place::Store(_, sidecar) => sidecar.node.zero(self.store.own(), offset, length).await,
            Place::Own(node) => node.zero(who, offset, length).await,
            Place::Nowhere | Place::Removed => Err(Errno::STALE),
        }
    }

    /// What was written is on disk.
    pub(super) async fn flush(&self, file: &Arc<dyn Node>) -> Result<()> {
        let node = match &*self.place.lock().await {
            Place::Store(_, sidecar) => Some(Arc::clone(&sidecar.node)),
            _ => None,
        };
        if let Some(node) = node {
            node.flush().await?;
        }
        file.flush().await
    }

    /// Sets the attribute to `content`. Where it has no room there, the content goes to the store instead, and the answer
    /// is `false`: `before`, that is, to which the caller does then what it was about to do.
    async fn put(
        &self,
        place: &mut Place,
        file: &Arc<dyn Node>,
        who: &Arc<Identity>,
        attribute: String,
        content: &[u8],
        before: &[u8],
    ) -> Result<bool> {
        match file.set_xattr(who, &attribute, Some(layout::value(content))).await {
            Ok(()) => Ok(true),
            Err(errno) if layout::is_too_large(errno) => {
                self.overflow(place, file, who, before).await?;
                Ok(false)
            }
            Err(errno) => Err(errno),
        }
    }

    /// Moves the content to the store. Where that fails, everything is as it was.
    async fn overflow(
        &self,
        place: &mut Place,
        file: &Arc<dyn Node>,
        who: &Arc<Identity>,
        content: &[u8],
    ) -> Result<()> {
        let attribute = Layout::overflow(&self.name().ok_or(Errno::STALE)?)?;
        let sidecar = self.store.create(&file.metadata().await?).await?;
        let inline = match &*place {
            Place::Inline(inline) => Some(inline.clone()),
            _ => None,
        };
        let value = sidecar.name.clone().into_bytes();
        let moved = async {
            sidecar.node.write(self.store.own(), 0, Bytes::copy_from_slice(content), false).await?;
            sidecar.node.flush().await?;
            match file.set_xattr(who, &attribute, Some(value.clone())).await {
                Ok(()) => {}
                // What the attribute to come needs is what the one to go takes.
                Err(errno) if layout::is_too_large(errno) && inline.is_some() => {
                    self.exchange(file, who, inline.as_deref(), content, &attribute, value).await?;
                }
                Err(Errno::TOOBIG | Errno::RANGE) => return Err(Errno::NOSPC),
                Err(errno) => return Err(errno),
            }
            if let Some(inline) = &inline {
                match file.set_xattr(who, inline, None).await {
                    Ok(()) | Err(Errno::NODATA) => {}
                    Err(errno) => tracing::debug!(?errno, "a stream that moved to the store is also where it was"),
                }
            }
            Ok(())
        };
        let moved = moved.await;
        if let Err(errno) = moved {
            self.store.discard(&sidecar.name).await;
            return Err(errno);
        }
        *place = Place::Store(attribute, sidecar);
        Ok(())
    }

    /// Removes one attribute to make room for another; puts it back where that room is not enough.
    async fn exchange(
        &self,
        file: &Arc<dyn Node>,
        who: &Arc<Identity>,
        old: Option<&str>,
        content: &[u8],
        new: &str,
        value: Vec<u8>,
    ) -> Result<()> {
        let old = old.ok_or(Errno::NOSPC)?;
        file.set_xattr(who, old, None).await?;
        if file.set_xattr(who, new, Some(value)).await.is_ok() {
            return Ok(());
        }
        file.set_xattr(who, old, Some(layout::value(content))).await?;
        Err(Errno::NOSPC)
    }

    /// A stream in the store that was cut to nothing is an attribute again, which Samba sees too.
    async fn bring_home(&self, place: &mut Place, file: &Arc<dyn Node>, who: &Arc<Identity>) -> Result<()> {
        self.own_sidecar(place, file, who).await?;
        let Place::Store(attribute, sidecar) = &*place else { return Err(Errno::STALE) };
        sidecar.node.set_size(self.store.own(), 0).await?;
        let home = self.layout.inline(&self.name().ok_or(Errno::STALE)?)?;
        if file.set_xattr(who, &home, Some(layout::value(b""))).await.is_err() {
            // It is empty where it is, too.
            return Ok(());
        }
        file.set_xattr(who, attribute, None).await?;
        self.store.discard(&sidecar.name).await;
        *place = Place::Inline(home);
        Ok(())
    }

    /// Before a change: a file of the store that came with a copy of its owner is copied, too.
    async fn own_sidecar(&self, place: &mut Place, file: &Arc<dyn Node>, who: &Arc<Identity>) -> Result<()> {
        let Place::Store(attribute, sidecar) = &*place else { return Ok(()) };
        if sidecar.owned {
            return Ok(());
        }
        let copy = self.store.copy(sidecar, &file.metadata().await?).await?;
        if let Err(errno) = file.set_xattr(who, attribute, Some(copy.name.clone().into_bytes())).await {
            self.store.discard(&copy.name).await;
            return Err(errno);
        }
        let attribute = attribute.clone();
        *place = Place::Store(attribute, copy);
        Ok(())
    }

    /// Removes the stream. Whoever still has it open finds nothing any more.
    pub(crate) async fn remove(&self, file: &Arc<dyn Node>, who: &Arc<Identity>) -> Result<()> {
        let mut place = self.place.lock().await;
        self.find(&mut place, file, who).await?;
        self.remove_from(&mut place, file, who).await?;
        *place = Place::Removed;
        *self.name.lock() = None;
        Ok(())
    }

    async fn remove_from(&self, place: &mut Place, file: &Arc<dyn Node>, who: &Arc<Identity>) -> Result<()> {
        match &*place {
            Place::Inline(attribute) => match file.set_xattr(who, attribute, None).await {
                Err(Errno::NODATA) => Ok(()),
                done => done,
            },
            Place::Store(attribute, sidecar) => {
                match file.set_xattr(who, attribute, None).await {
                    Ok(()) | Err(Errno::NODATA) => {}
                    Err(errno) => return Err(errno),
                }
                if sidecar.owned && !self.is_named(file, &sidecar.name).await? {
                    self.store.discard(&sidecar.name).await;
                }
                Ok(())
            }
            Place::Nowhere | Place::Own(_) | Place::Removed => Ok(()),
        }
    }

    /// Whether another stream of the file names the same file of the store, as after a crash in a rename.
    async fn is_named(&self, file: &Arc<dyn Node>, name: &str) -> Result<bool> {
        for stored in list(file, self.store.own(), &self.layout).await? {
            if let Stored { overflow: Some(attribute), .. } = stored
                && file.get_xattr(self.store.own(), &attribute).await?.is_some_and(|value| value == name.as_bytes())
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Gives the stream another name ([MS-FSA] 2.1.5.15.12.1), which no other stream may have.
    pub(crate) async fn rename(&self, file: &Arc<dyn Node>, who: &Arc<Identity>, to: Target) -> Result<()> {
        let mut place = self.place.lock().await;
        let name = match to {
            Target::Named(name) => name,
            Target::Unnamed(node) => return self.become_own(&mut place, file, who, node).await,
        };
        let renamed = match &*place {
            Place::Inline(old) => {
                let new = self.layout.inline(&name)?;
                let content = inline(file, who, old).await?;
                match file.set_xattr(who, &new, Some(layout::value(&content))).await {
                    Ok(()) => file.set_xattr(who, old, None).await?,
                    Err(errno) if layout::is_too_large(errno) => {
                        self.exchange(file, who, Some(old), &content, &new, layout::value(&content)).await?;
                    }
                    Err(errno) => return Err(errno),
                }
                Place::Inline(new)
            }
            Place::Store(old, sidecar) => {
                let new = Layout::overflow(&name)?;
                file.set_xattr(who, &new, Some(sidecar.name.clone().into_bytes())).await?;
                file.set_xattr(who, old, None).await?;
                let Sidecar { name, node, owned } = sidecar;
                Place::Store(new, Sidecar { name: name.clone(), node: Arc::clone(node), owned: *owned })
            }
            Place::Nowhere | Place::Own(_) | Place::Removed => return Err(Errno::STALE),
        };
        *place = renamed;
        *self.name.lock() = Some(name.into());
        Ok(())
    }

    /// The stream becomes the unnamed one: the file, empty so far, gets its content.
    async fn become_own(
        &self,
        place: &mut Place,
        file: &Arc<dyn Node>,
        who: &Arc<Identity>,
        node: Arc<dyn Node>,
    ) -> Result<()> {
        let copied = match &*place {
            Place::Inline(attribute) => {
                let content = inline(file, who, attribute).await?;
                node.write(who, 0, Bytes::from(content), false).await
            }
            Place::Store(_, sidecar) => super::store::copy_content(who, &sidecar.node, &node).await,
            Place::Nowhere | Place::Own(_) | Place::Removed => Err(Errno::STALE),
        };
        if let Err(errno) = copied {
            node.set_size(who, 0).await?;
            return Err(errno);
        }
        self.remove_from(place, file, who).await?;
        *place = Place::Own(node);
        *self.name.lock() = None;
        Ok(())
    }
}

/// The content that an attribute holds; nothing where somebody else has removed it.
async fn inline(file: &Arc<dyn Node>, who: &Arc<Identity>, attribute: &str) -> Result<Vec<u8>> {
    Ok(layout::content(file.get_xattr(who, attribute).await?.unwrap_or_default()))
}

/// What an attribute of `size` bytes of content is said to take: whole units of 8 bytes, as in a file record of NTFS.
pub(super) fn allocated(size: u64) -> u64 {
    size.next_multiple_of(8)
}
