//! Moves of a stream's content: from the attribute to the store and back, to another name, and removal. If an operation
//! fails, the content is at its former location.

use std::sync::Arc;

use super::{Stream, StreamLocation, Target, inline};
use crate::policy::stream_layout::Layout;
use crate::streams::beside::Beside;
use crate::streams::layout::{self, Stored};
use crate::streams::list;
use crate::streams::mac::{self, NETATALK, Role, Written};
use crate::streams::store::{self, Sidecar, copy_content};
use crate::vfs::{Errno, Extent, Node, Op, Payload, Result, SetXattr, read_into};

impl Stream {
    /// Sets the attribute to `content`. If it does not fit, moves the content `before` the change to the store and
    /// returns `false`; the caller then applies the change there.
    pub(super) async fn put(
        &self,
        place: &mut StreamLocation,
        file: &Arc<dyn Node>,
        op: &Op,
        attribute: String,
        content: &[u8],
        before: &[u8],
    ) -> Result<bool> {
        if attribute == NETATALK {
            return mac::put(file, op, content).await.map(|()| true);
        }
        match file.set_xattr(op, &attribute, Some(layout::value(content)), SetXattr::Any).await {
            Ok(()) => Ok(true),
            Err(errno) if layout::is_too_large(errno) => {
                self.overflow(place, file, op, before).await?;
                Ok(false)
            }
            Err(errno) => Err(errno),
        }
    }

    /// Writes Finder info. If it is not where the share stores it, it moves there.
    pub(super) async fn write_info(
        &self,
        place: &mut StreamLocation,
        file: &Arc<dyn Node>,
        op: &Op,
        offset: u64,
        data: Payload,
        through: bool,
    ) -> Result<()> {
        self.find(place, file, op).await?;
        if matches!(place, StreamLocation::Lost(_)) {
            self.vanish(place, file, op).await?;
        }
        let before = self.info(place, file, op).await?;
        let content = match mac::write_info(offset, &data.into_memory()?, &before)? {
            Written::Nothing => return Ok(()),
            Written::Remove => return self.vanish(place, file, op).await,
            Written::Store(content) => content,
        };
        let home = self.layout.inline(&self.name().ok_or(Errno::STALE)?)?;
        let former = match &*place {
            StreamLocation::Inline(former) => Some(former.clone()).filter(|former| *former != home),
            StreamLocation::Nowhere | StreamLocation::Store(..) => None,
            StreamLocation::Beside | StreamLocation::Lost(_) | StreamLocation::Own(_) | StreamLocation::Removed => {
                return Err(Errno::STALE);
            }
        };
        if !matches!(place, StreamLocation::Store(..))
            && self.put(place, file, op, home.clone(), &content, &before).await?
        {
            *place = StreamLocation::Inline(home);
            if let Some(former) = former
                && let Err(errno) = file.set_xattr(op, &former, None, SetXattr::Any).await
            {
                tracing::debug!(?errno, "cannot remove the attribute of Finder info that moved to Netatalk's");
            }
            return if through { file.flush(op).await } else { Ok(()) };
        }
        self.own_sidecar(place, file, op).await?;
        let StreamLocation::Store(_, sidecar) = &*place else { return Err(Errno::STALE) };
        let size = content.len() as u64;
        sidecar.node.write(self.store.own(), 0, content.into(), through).await?;
        sidecar.node.set_extent(self.store.own(), Extent::Size(size)).await
    }

    /// Removes a stream of macOS that has no content any more. Its handles stay valid, and a write stores it again.
    pub(super) async fn vanish(&self, place: &mut StreamLocation, file: &Arc<dyn Node>, op: &Op) -> Result<()> {
        if matches!(place, StreamLocation::Own(_) | StreamLocation::Removed) {
            return Err(Errno::STALE);
        }
        self.remove_from(place, file, op).await?;
        *place = StreamLocation::Nowhere;
        Ok(())
    }

    /// Returns the AppleDouble file, in which the content was found.
    pub(super) fn beside(&self) -> Result<&Beside> {
        self.beside.as_ref().ok_or(Errno::STALE)
    }

    /// Returns the length of the resource fork in the AppleDouble file.
    pub(super) async fn length_beside(&self) -> Result<u64> {
        match &self.beside {
            Some(beside) => beside.length().await,
            None => Ok(0),
        }
    }

    /// Returns whether the content is in the AppleDouble file. It counts if there are attributes as well, because it is
    /// where the share stores resource forks.
    pub(super) async fn find_beside(&self, place: &mut StreamLocation) -> Result<bool> {
        let found = self.length_beside().await? > 0;
        if found {
            *place = StreamLocation::Beside;
        }
        Ok(found)
    }

    /// Called before a change of a resource fork: moves one that is stored as another stream to the AppleDouble file.
    /// A crash leaves it where it was, or in both places.
    pub(super) async fn move_beside(
        &self,
        place: &mut StreamLocation,
        beside: &Beside,
        file: &Arc<dyn Node>,
        op: &Op,
    ) -> Result<()> {
        self.find(place, file, op).await?;
        match &*place {
            StreamLocation::Beside => return Ok(()),
            StreamLocation::Nowhere => {}
            StreamLocation::Inline(attribute) => {
                let content = &inline(file, op, attribute).await?;
                let part = |offset: u64, length: usize| async move {
                    Ok(content
                        .get(offset as usize..)
                        .map_or(Vec::new(), |rest| rest[..length.min(rest.len())].to_vec()))
                };
                beside.fill(file, content.len() as u64, part).await?;
                self.remove_from(place, file, op).await?;
            }
            StreamLocation::Store(_, sidecar) => {
                let (node, own) = (&sidecar.node, self.store.own());
                let part = |offset: u64, length: usize| async move {
                    let (mut bytes, count) = read_into(node, own, offset, vec![0; length], 0).await;
                    bytes.truncate(count?);
                    Ok(bytes)
                };
                beside.fill(file, node.metadata(own).await?.size, part).await?;
                self.remove_from(place, file, op).await?;
            }
            StreamLocation::Lost(_) => return Err(Errno::IO),
            StreamLocation::Own(_) | StreamLocation::Removed => return Err(Errno::STALE),
        }
        *place = StreamLocation::Beside;
        Ok(())
    }

    /// Returns the offset at which a read begins. The stream with the Finder info is always read as a whole.
    pub(super) fn read_offset(&self, offset: u64) -> u64 {
        if self.role == Role::Info { mac::read_offset(offset).unwrap_or(offset) } else { offset }
    }

    /// Returns the attribute that names the stream's file in the store. It is the one for the content if there was no
    /// space for the other, or after a crash.
    pub(super) async fn naming<'a>(&self, file: &Arc<dyn Node>, stored: &'a Stored) -> Result<Option<&'a String>> {
        let inline = stored.inline.as_ref().filter(|inline| *inline != NETATALK);
        let (None, Some(inline)) = (&stored.overflow, inline) else { return Ok(stored.overflow.as_ref()) };
        if !self.store.is_used().await {
            return Ok(None);
        }
        let value = file.get_xattr(self.store.own(), inline).await?;
        Ok(value.is_some_and(|value| store::is_name(&value)).then_some(inline))
    }

    /// Moves the content to the store. On failure, nothing is changed.
    pub(super) async fn overflow(
        &self,
        place: &mut StreamLocation,
        file: &Arc<dyn Node>,
        op: &Op,
        content: &[u8],
    ) -> Result<()> {
        let attribute = Layout::overflow(&self.name().ok_or(Errno::STALE)?)?;
        let sidecar = self.store.create(&file.metadata(op).await?).await?;
        let inline = match &*place {
            StreamLocation::Inline(inline) => Some(inline.clone()),
            _ => None,
        };
        let value = || Some(sidecar.name.clone().into_bytes());
        let written = async {
            sidecar.node.write(self.store.own(), 0, content.to_vec().into(), false).await?;
            sidecar.node.flush(self.store.own()).await
        };
        if let Err(errno) = written.await {
            self.store.discard(&sidecar.name).await;
            return Err(errno);
        }
        let named = async {
            match (file.set_xattr(op, &attribute, value(), SetXattr::Any).await, &inline) {
                // The old attribute takes the space that the new one needs. Its content is replaced by the name in one
                // step, so that at any time an attribute leads to the content.
                (Err(errno), Some(inline)) if layout::is_too_large(errno) => {
                    file.set_xattr(op, inline, value(), SetXattr::Any).await.map_err(full)?;
                    if file.set_xattr(op, &attribute, value(), SetXattr::Any).await.is_err() {
                        return Ok(inline.clone());
                    }
                }
                (done, _) => done.map_err(full)?,
            }
            if let Some(inline) = &inline {
                match file.set_xattr(op, inline, None, SetXattr::Any).await {
                    Ok(()) | Err(Errno::NODATA) => {}
                    Err(errno) => {
                        tracing::debug!(?errno, "cannot remove the attribute of a stream that moved to the store")
                    }
                }
            }
            Ok(attribute)
        };
        match named.await {
            Ok(attribute) => {
                *place = StreamLocation::Store(attribute, sidecar);
                Ok(())
            }
            Err(errno) => {
                self.store.discard_after(errno, &sidecar.name).await;
                if store::is_uncertain(errno) {
                    // The next operation looks where the content is.
                    *place = StreamLocation::Nowhere;
                }
                Err(errno)
            }
        }
    }

    /// Moves a content to the attribute `new`, which does not fit beside the present one. It is in the store meanwhile,
    /// and stays there if it does not fit in the new attribute either.
    async fn rename_through_store(
        &self,
        place: &mut StreamLocation,
        file: &Arc<dyn Node>,
        op: &Op,
        new: String,
        content: &[u8],
    ) -> Result<StreamLocation> {
        self.overflow(place, file, op, content).await?;
        let moved = renamed(place, file, op, new.clone()).await?;
        let StreamLocation::Store(_, sidecar) = &moved else { return Err(Errno::STALE) };
        match file.set_xattr(op, &new, Some(layout::value(content)), SetXattr::Any).await {
            Ok(()) => {}
            Err(errno) if layout::is_too_large(errno) => return Ok(moved),
            // Storage on another machine may have carried out a call that failed.
            Err(_) => match super::inline(file, self.store.own(), &new).await {
                Ok(now) if now == content => {}
                _ => return Ok(moved),
            },
        }
        self.store.discard(&sidecar.name).await;
        Ok(StreamLocation::Inline(new))
    }

    /// Moves a stream that was truncated to zero bytes from the store to an attribute, where Samba can see it, too.
    pub(super) async fn bring_home(&self, place: &mut StreamLocation, file: &Arc<dyn Node>, op: &Op) -> Result<()> {
        self.own_sidecar(place, file, op).await?;
        let StreamLocation::Store(attribute, sidecar) = &*place else { return Err(Errno::STALE) };
        sidecar.node.set_extent(self.store.own(), Extent::Size(0)).await?;
        let home = self.layout.inline(&self.name().ok_or(Errno::STALE)?)?;
        if file.set_xattr(op, &home, Some(layout::value(b"")), SetXattr::Any).await.is_err() {
            // The stream in the store is empty as well.
            return Ok(());
        }
        if *attribute != home {
            file.set_xattr(op, attribute, None, SetXattr::Any).await?;
        }
        self.store.discard(&sidecar.name).await;
        *place = StreamLocation::Inline(home);
        Ok(())
    }

    /// Replaces a stream whose content is lost by an empty one.
    pub(super) async fn begin_anew(&self, place: &mut StreamLocation, file: &Arc<dyn Node>, op: &Op) -> Result<()> {
        self.remove_from(place, file, op).await?;
        let attribute = self.layout.inline(&self.name().ok_or(Errno::STALE)?)?;
        file.set_xattr(op, &attribute, Some(layout::value(b"")), SetXattr::Any).await?;
        *place = StreamLocation::Inline(attribute);
        Ok(())
    }

    /// Called before a change. Copies a file of the store that belongs to another file, of which this one is a copy.
    pub(super) async fn own_sidecar(&self, place: &mut StreamLocation, file: &Arc<dyn Node>, op: &Op) -> Result<()> {
        let StreamLocation::Store(attribute, sidecar) = &*place else { return Ok(()) };
        if sidecar.owned {
            return Ok(());
        }
        let copy = self.store.copy(sidecar, &file.metadata(op).await?).await?;
        if let Err(errno) = file.set_xattr(op, attribute, Some(copy.name.clone().into_bytes()), SetXattr::Any).await {
            self.store.discard_after(errno, &copy.name).await;
            if store::is_uncertain(errno) {
                *place = StreamLocation::Nowhere;
            }
            return Err(errno);
        }
        let attribute = attribute.clone();
        *place = StreamLocation::Store(attribute, copy);
        Ok(())
    }

    pub(super) async fn remove_from(&self, place: &mut StreamLocation, file: &Arc<dyn Node>, op: &Op) -> Result<()> {
        match &*place {
            StreamLocation::Inline(attribute) if attribute == NETATALK => {
                mac::clear(file, op).await?;
                // Otherwise the former Finder info would be shown again.
                let ordinary = self.layout.ordinary(&self.name().ok_or(Errno::STALE)?)?;
                match file.set_xattr(op, &ordinary, None, SetXattr::Any).await {
                    Err(Errno::NODATA) => Ok(()),
                    done => done,
                }
            }
            StreamLocation::Beside => {
                self.beside()?.set_size(file, 0).await?;
                // Otherwise a former content would be shown again.
                if let Some(former) = self.stored(file, op).await? {
                    let mut at = StreamLocation::Nowhere;
                    self.settle(&mut at, file, &former).await?;
                    return Box::pin(self.remove_from(&mut at, file, op)).await;
                }
                Ok(())
            }
            StreamLocation::Inline(attribute) => match file.set_xattr(op, attribute, None, SetXattr::Any).await {
                Err(Errno::NODATA) => Ok(()),
                done => done,
            },
            StreamLocation::Store(attribute, sidecar) => {
                match file.set_xattr(op, attribute, None, SetXattr::Any).await {
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
                    file.set_xattr(op, attribute, None, SetXattr::Any).await?;
                }
                Ok(())
            }
            StreamLocation::Nowhere | StreamLocation::Own(_) | StreamLocation::Removed => Ok(()),
        }
    }

    /// Whether another stream of the file names the same file of the store, as after a crash during a rename.
    async fn is_named(&self, file: &Arc<dyn Node>, name: &str) -> Result<bool> {
        for stored in list(file, self.store.own(), &self.layout).await? {
            for attribute in [stored.overflow, stored.inline].into_iter().flatten() {
                if file.get_xattr(self.store.own(), &attribute).await?.is_some_and(|value| value == name.as_bytes()) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Renames the stream ([MS-FSA] 2.1.5.15.12.1). No other stream may have the new name.
    pub(crate) async fn rename(&self, file: &Arc<dyn Node>, op: &Op, to: Target) -> Result<()> {
        let mut place = self.lock(file).await?;
        let name = match to {
            // Their content has another form.
            _ if self.role != Role::Plain => return Err(Errno::OPNOTSUPP),
            Target::Named(name) if Role::of(&self.layout, &name) != Role::Plain => return Err(Errno::OPNOTSUPP),
            Target::Named(name) => name,
            Target::Unnamed(node) => return self.become_own(&mut place, file, op, node).await,
        };
        *place = match &*place {
            StreamLocation::Inline(old) => {
                let new = self.layout.inline(&name)?;
                let content = inline(file, op, old).await?;
                match file.set_xattr(op, &new, Some(layout::value(&content)), SetXattr::Any).await {
                    Ok(()) => {
                        file.set_xattr(op, old, None, SetXattr::Any).await?;
                        StreamLocation::Inline(new)
                    }
                    Err(errno) if layout::is_too_large(errno) => {
                        self.rename_through_store(&mut place, file, op, new, &content).await?
                    }
                    Err(errno) => return Err(errno),
                }
            }
            at => renamed(at, file, op, Layout::overflow(&name)?).await?,
        };
        *self.shared.name.lock() = Some(name.into());
        Ok(())
    }

    /// Makes the stream the unnamed one, by copying its content to the empty file.
    async fn become_own(
        &self,
        place: &mut StreamLocation,
        file: &Arc<dyn Node>,
        op: &Op,
        node: Arc<dyn Node>,
    ) -> Result<()> {
        let copied = match &*place {
            StreamLocation::Inline(attribute) => {
                let content = inline(file, op, attribute).await?;
                node.write(op, 0, content.into(), false).await
            }
            StreamLocation::Store(_, sidecar) => copy_content(op, &sidecar.node, &node).await,
            StreamLocation::Beside
            | StreamLocation::Nowhere
            | StreamLocation::Own(_)
            | StreamLocation::Lost(_)
            | StreamLocation::Removed => Err(Errno::STALE),
        };
        if let Err(errno) = copied {
            node.set_extent(op, Extent::Size(0)).await?;
            return Err(errno);
        }
        self.remove_from(place, file, op).await?;
        *place = StreamLocation::Own(node);
        *self.shared.name.lock() = None;
        Ok(())
    }
}

/// Names a stream's file of the store in the attribute `new` instead. Returns the new location.
async fn renamed(place: &StreamLocation, file: &Arc<dyn Node>, op: &Op, new: String) -> Result<StreamLocation> {
    let StreamLocation::Store(old, Sidecar { name, node, owned }) = place else { return Err(Errno::STALE) };
    file.set_xattr(op, &new, Some(name.clone().into_bytes()), SetXattr::Any).await.map_err(full)?;
    file.set_xattr(op, old, None, SetXattr::Any).await?;
    Ok(StreamLocation::Store(new, Sidecar { name: name.clone(), node: Arc::clone(node), owned: *owned }))
}

/// Returns the error of an attribute that names a file of the store.
fn full(errno: Errno) -> Errno {
    if layout::is_too_large(errno) { Errno::NOSPC } else { errno }
}
