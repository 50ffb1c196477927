//! Moves of a stream's content: from the attribute to the store and back, to another name, and removal. If an operation
//! fails, the content is at its former location.

use std::sync::Arc;

use bytes::Bytes;

use super::{Stream, StreamLocation, Target, inline};
use crate::policy::stream_layout::Layout;
use crate::streams::layout::{self, Stored};
use crate::streams::list;
use crate::streams::store::{Sidecar, copy_content};
use crate::vfs::{Errno, Identity, Node, Result};

impl Stream {
    /// Sets the attribute to `content`. If it does not fit, moves the content `before` the change to the store and
    /// returns `false`; the caller then applies the change there.
    pub(super) async fn put(
        &self,
        place: &mut StreamLocation,
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

    /// Moves the content to the store. On failure, nothing is changed.
    pub(super) async fn overflow(
        &self,
        place: &mut StreamLocation,
        file: &Arc<dyn Node>,
        who: &Arc<Identity>,
        content: &[u8],
    ) -> Result<()> {
        let attribute = Layout::overflow(&self.name().ok_or(Errno::STALE)?)?;
        let sidecar = self.store.create(&file.metadata().await?).await?;
        let inline = match &*place {
            StreamLocation::Inline(inline) => Some(inline.clone()),
            _ => None,
        };
        let value = sidecar.name.clone().into_bytes();
        let moved = async {
            sidecar.node.write(self.store.own(), 0, Bytes::copy_from_slice(content), false).await?;
            sidecar.node.flush().await?;
            match file.set_xattr(who, &attribute, Some(value.clone())).await {
                Ok(()) => {}
                // The old attribute takes the space that the new one needs.
                Err(errno) if layout::is_too_large(errno) && inline.is_some() => {
                    self.exchange(file, who, inline.as_deref(), content, &attribute, value).await?;
                }
                Err(Errno::TOOBIG | Errno::RANGE) => return Err(Errno::NOSPC),
                Err(errno) => return Err(errno),
            }
            if let Some(inline) = &inline {
                match file.set_xattr(who, inline, None).await {
                    Ok(()) | Err(Errno::NODATA) => {}
                    Err(errno) => {
                        tracing::debug!(?errno, "cannot remove the attribute of a stream that moved to the store")
                    }
                }
            }
            Ok(())
        };
        let moved = moved.await;
        if let Err(errno) = moved {
            self.store.discard(&sidecar.name).await;
            return Err(errno);
        }
        *place = StreamLocation::Store(attribute, sidecar);
        Ok(())
    }

    /// Removes one attribute to free space for another. Restores it if the space does not suffice.
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

    /// Moves a stream that was truncated to zero bytes from the store to an attribute, where Samba can see it, too.
    pub(super) async fn bring_home(
        &self,
        place: &mut StreamLocation,
        file: &Arc<dyn Node>,
        who: &Arc<Identity>,
    ) -> Result<()> {
        self.own_sidecar(place, file, who).await?;
        let StreamLocation::Store(attribute, sidecar) = &*place else { return Err(Errno::STALE) };
        sidecar.node.set_size(self.store.own(), 0).await?;
        let home = self.layout.inline(&self.name().ok_or(Errno::STALE)?)?;
        if file.set_xattr(who, &home, Some(layout::value(b""))).await.is_err() {
            // The stream in the store is empty as well.
            return Ok(());
        }
        file.set_xattr(who, attribute, None).await?;
        self.store.discard(&sidecar.name).await;
        *place = StreamLocation::Inline(home);
        Ok(())
    }

    /// Replaces a stream whose content is lost by an empty one.
    pub(super) async fn begin_anew(
        &self,
        place: &mut StreamLocation,
        file: &Arc<dyn Node>,
        who: &Arc<Identity>,
    ) -> Result<()> {
        self.remove_from(place, file, who).await?;
        let attribute = self.layout.inline(&self.name().ok_or(Errno::STALE)?)?;
        file.set_xattr(who, &attribute, Some(layout::value(b""))).await?;
        *place = StreamLocation::Inline(attribute);
        Ok(())
    }

    /// Called before a change. Copies a file of the store that belongs to another file, of which this one is a copy.
    pub(super) async fn own_sidecar(
        &self,
        place: &mut StreamLocation,
        file: &Arc<dyn Node>,
        who: &Arc<Identity>,
    ) -> Result<()> {
        let StreamLocation::Store(attribute, sidecar) = &*place else { return Ok(()) };
        if sidecar.owned {
            return Ok(());
        }
        let copy = self.store.copy(sidecar, &file.metadata().await?).await?;
        if let Err(errno) = file.set_xattr(who, attribute, Some(copy.name.clone().into_bytes())).await {
            self.store.discard(&copy.name).await;
            return Err(errno);
        }
        let attribute = attribute.clone();
        *place = StreamLocation::Store(attribute, copy);
        Ok(())
    }

    pub(super) async fn remove_from(
        &self,
        place: &mut StreamLocation,
        file: &Arc<dyn Node>,
        who: &Arc<Identity>,
    ) -> Result<()> {
        match &*place {
            StreamLocation::Inline(attribute) => match file.set_xattr(who, attribute, None).await {
                Err(Errno::NODATA) => Ok(()),
                done => done,
            },
            StreamLocation::Store(attribute, sidecar) => {
                match file.set_xattr(who, attribute, None).await {
                    Ok(()) | Err(Errno::NODATA) => {}
                    Err(errno) => return Err(errno),
                }
                if sidecar.owned && !self.is_named(file, &sidecar.name).await? {
                    self.store.discard(&sidecar.name).await;
                }
                Ok(())
            }
            StreamLocation::Lost(stored) => {
                for attribute in [&stored.inline, &stored.overflow].into_iter().flatten() {
                    file.set_xattr(who, attribute, None).await?;
                }
                Ok(())
            }
            StreamLocation::Nowhere | StreamLocation::Own(_) | StreamLocation::Removed => Ok(()),
        }
    }

    /// Whether another stream of the file names the same file of the store, as after a crash during a rename.
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

    /// Renames the stream ([MS-FSA] 2.1.5.15.12.1). No other stream may have the new name.
    pub(crate) async fn rename(&self, file: &Arc<dyn Node>, who: &Arc<Identity>, to: Target) -> Result<()> {
        let mut place = self.place.lock().await;
        let name = match to {
            Target::Named(name) => name,
            Target::Unnamed(node) => return self.become_own(&mut place, file, who, node).await,
        };
        let renamed = match &*place {
            StreamLocation::Inline(old) => {
                let new = self.layout.inline(&name)?;
                let content = inline(file, who, old).await?;
                match file.set_xattr(who, &new, Some(layout::value(&content))).await {
                    Ok(()) => file.set_xattr(who, old, None).await?,
                    Err(errno) if layout::is_too_large(errno) => {
                        self.exchange(file, who, Some(old), &content, &new, layout::value(&content)).await?;
                    }
                    Err(errno) => return Err(errno),
                }
                StreamLocation::Inline(new)
            }
            StreamLocation::Store(old, sidecar) => {
                let new = Layout::overflow(&name)?;
                file.set_xattr(who, &new, Some(sidecar.name.clone().into_bytes())).await?;
                file.set_xattr(who, old, None).await?;
                let Sidecar { name, node, owned } = sidecar;
                StreamLocation::Store(new, Sidecar { name: name.clone(), node: Arc::clone(node), owned: *owned })
            }
            StreamLocation::Nowhere | StreamLocation::Own(_) | StreamLocation::Lost(_) | StreamLocation::Removed => {
                return Err(Errno::STALE);
            }
        };
        *place = renamed;
        *self.name.lock() = Some(name.into());
        Ok(())
    }

    /// Makes the stream the unnamed one, by copying its content to the empty file.
    async fn become_own(
        &self,
        place: &mut StreamLocation,
        file: &Arc<dyn Node>,
        who: &Arc<Identity>,
        node: Arc<dyn Node>,
    ) -> Result<()> {
        let copied = match &*place {
            StreamLocation::Inline(attribute) => {
                let content = inline(file, who, attribute).await?;
                node.write(who, 0, Bytes::from(content), false).await
            }
            StreamLocation::Store(_, sidecar) => copy_content(who, &sidecar.node, &node).await,
            StreamLocation::Nowhere | StreamLocation::Own(_) | StreamLocation::Lost(_) | StreamLocation::Removed => {
                Err(Errno::STALE)
            }
        };
        if let Err(errno) = copied {
            node.set_size(who, 0).await?;
            return Err(errno);
        }
        self.remove_from(place, file, who).await?;
        *place = StreamLocation::Own(node);
        *self.name.lock() = None;
        Ok(())
    }
}
