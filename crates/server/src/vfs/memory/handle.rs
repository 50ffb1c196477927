//! An open file or directory. An inode lives while it has a name or a handle.

use std::any::Any;
use std::sync::Arc;

use bytes::Bytes;

use super::inode::{Body, Inode};
use super::pages::{Full, MAX_SIZE, PAGE, Pages};
use super::quotas::MemoryQuotas;
use super::{Quota, Shared};
use crate::acl::model::posix_acl;
use crate::answer::Answer;
use crate::vfs::watch::{ChangeListener, Wanted, Watching};
use crate::vfs::{
    Access, Case, Content, CopyRange, DataRange, Entry, Errno, Extent, Identity, Kind, Lease, LeaseCallback,
    ListRequest, Metadata, Node, Op, Page, Payload, Quotas, RangeChange, ReadReply, ReadRequest, Result, SetMetadata,
    SetXattr, Space,
};

/// Maximum size in bytes of an attribute's value, and of its name, as on Linux.
const XATTR_VALUE: usize = 65_536;
const XATTR_NAME: usize = 255;

/// A handle.
pub(super) struct Handle {
    shared: Arc<Shared>,
    number: u64,
    /// Unique number of this handle.
    serial: u64,
    access: Access,
    /// The root from which it was reached.
    root: u64,
}

impl Handle {
    /// Creates a handle that is already included in [`Inode::opens`].
    pub(super) fn new(shared: Arc<Shared>, number: u64, serial: u64, access: Access, root: u64) -> Self {
        Handle { shared, number, serial, access, root }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn belongs_to(&self, shared: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }

    /// Reads from the inode.
    fn look<T>(&self, look: impl FnOnce(&Inode) -> Result<T>) -> Result<T> {
        look(self.shared.state.lock().inode(self.number)?)
    }

    /// Reads from the content of a regular file.
    fn content<T>(&self, look: impl FnOnce(&Pages) -> T) -> Result<T> {
        self.look(|inode| match &inode.body {
            Body::File(content) => Ok(look(content)),
            Body::Directory { .. } => Err(Errno::ISDIR),
            _ => Err(Errno::INVAL),
        })
    }

    /// Changes the content; the handle must be open for writing.
    fn change(&self, change: impl FnOnce(&mut Pages, &mut Quota) -> std::result::Result<(), Full>) -> Result<()> {
        if !self.access.write {
            return Err(Errno::BADF);
        }
        let now = self.shared.environment.now();
        let mut state = self.shared.state.lock();
        let state = &mut *state;
        let inode = state.inodes.get(&self.number).ok_or(Errno::STALE)?;
        let left = state.pages_left(inode.uid, inode.gid);
        let inode = state.inodes.get_mut(&self.number).ok_or(Errno::STALE)?;
        let Body::File(content) = &mut inode.body else { return Err(Errno::INVAL) };
        let limit = state.quota.limit;
        let bound = left.map_or(limit, |left| limit.min(state.quota.used.saturating_add(left)));
        state.quota.limit = bound;
        let done = change(content, &mut state.quota);
        state.quota.limit = limit;
        inode.touch(now);
        done.map_err(|Full| if bound < limit { Errno::DQUOT } else { Errno::NOSPC })
    }

    /// Copies from another file or this one, in an order that overwrites nothing before it was read.
    fn copy_from(&self, from: &Handle, source: u64, offset: u64, length: u64) -> Result<u64> {
        const STEP: u64 = 1 << 20;
        if !from.access.read {
            return Err(Errno::BADF);
        }
        let length = length.min(from.content(Pages::size)?.saturating_sub(source));
        end_of(offset, length)?;
        let (mut start, mut end) = (0, length);
        while start < end {
            let count = STEP.min(end - start);
            let at = if offset > source { end - count } else { start };
            let mut data = vec![0; count as usize];
            from.content(|content| content.read(source + at, &mut data))?;
            self.change(|content, quota| content.write(offset + at, &data, quota))?;
            (start, end) = if offset > source { (start, at) } else { (at + count, end) };
        }
        Ok(length)
    }

    /// Emulates a clone: the ranges are copied, and only the checks are those of shared space.
    fn share_room(&self, from: &Handle, source: u64, offset: u64, length: u64) -> Result<()> {
        if !self.shared.options.features.clones {
            return Err(Errno::OPNOTSUPP);
        }
        if !from.access.read || !self.access.write {
            return Err(Errno::BADF);
        }
        let (from_end, end) = (end_of(source, length)?, end_of(offset, length)?);
        let (from_size, size) = (from.content(Pages::size)?, self.content(Pages::size)?);
        let whole = |at: u64| at.is_multiple_of(PAGE);
        let ends_well = whole(length) || (from_end == from_size && end == size);
        let overlaps = self.number == from.number && source.abs_diff(offset) < length;
        if !whole(source) || !whole(offset) || !ends_well || from_end > from_size || end > size || overlaps {
            return Err(Errno::INVAL);
        }
        self.copy_from(from, source, offset, length).map(|_| ())
    }

    fn open_again(&self, who: &Identity, access: Access) -> Result<Arc<dyn Node>> {
        let mut state = self.shared.state.lock();
        let inode = state.inode(self.number)?;
        let wanted = u32::from(access.read) << 2 | u32::from(access.write) << 1;
        match inode.body.kind() {
            Kind::Directory if access.write => return Err(Errno::ISDIR),
            Kind::Symlink => return Err(Errno::LOOP),
            Kind::Special => return Err(Errno::NODEV),
            _ if inode.permissions(who) & wanted != wanted => return Err(Errno::ACCES),
            _ => {}
        }
        if wanted != 0
            && let Some(told) = inode.kept.leased_to()
        {
            drop(state);
            told();
            return Err(Errno::AGAIN);
        }
        self.shared.handle(&mut state, self.root, self.number, access).map(|(node, _)| node)
    }

    fn entries(&self, who: &Identity, cursor: u64, count: usize, with_metadata: bool) -> Result<Page> {
        let state = self.shared.state.lock();
        let inode = state.inode(self.number)?;
        let Body::Directory { entries, parent } = &inode.body else { return Err(Errno::NOTDIR) };
        let permissions = inode.permissions(who);
        if !self.access.read && permissions & 4 == 0 {
            return Err(Errno::ACCES);
        }
        let shows_metadata = with_metadata && permissions & 1 != 0;
        let mut next = cursor;
        let mut listed = Vec::new();
        for (at, name, number) in entries.after(cursor).take(count.max(1)) {
            let metadata = shows_metadata.then(|| state.inode(number).map(|inode| self.shared.describe(number, inode)));
            listed.push(Entry { name: Box::from(&**name), metadata: metadata.transpose()? });
            next = at;
        }
        let is_last = entries.after(next).next().is_none();
        let above = Some(*parent).filter(|_| with_metadata && cursor == 0 && self.number != self.root);
        let parent = above.map(|above| state.inode(above).map(|inode| self.shared.describe(above, inode)));
        Ok(Page { entries: listed, next, is_last, parent: parent.transpose()? })
    }

    fn find_entry(&self, who: &Identity, name: &[u8], case: Case) -> Result<Option<Entry>> {
        let state = self.shared.state.lock();
        let inode = state.inode(self.number)?;
        let Body::Directory { entries, .. } = &inode.body else { return Err(Errno::NOTDIR) };
        let searchable = inode.permissions(who) & 1 != 0;
        let found = entries.find(name, case == Case::Insensitive).filter(|_| searchable);
        found.map_or(Ok(None), |(name, number)| {
            let metadata = self.shared.describe(number, state.inode(number)?);
            Ok(Some(Entry { name: name.into(), metadata: Some(metadata) }))
        })
    }

    fn change_metadata(&self, who: &Identity, set: &SetMetadata) -> Result<()> {
        let now = self.shared.environment.now();
        let mut state = self.shared.state.lock();
        let inode = state.inode_mut(self.number)?;
        let stores = set.created.is_some() || set.dos_attributes.is_some() || set.changed.is_some();
        if inode.body.kind() == Kind::Symlink && (stores || set.mode.is_some()) {
            return Err(Errno::OPNOTSUPP);
        }
        let owner_only = set.accessed.is_some() || set.modified.is_some() || set.mode.is_some();
        if owner_only && !inode.is_owner(who) {
            return Err(Errno::PERM);
        }
        // These are stored in an extended attribute, for which write permission is sufficient.
        if stores && inode.permissions(who) & 2 == 0 {
            return Err(Errno::ACCES);
        }
        if set.compressed.is_some() && !self.shared.options.features.compresses {
            return Err(Errno::OPNOTSUPP);
        }
        if set.compressed.is_some() && inode.permissions(who) & 2 == 0 {
            return Err(Errno::ACCES);
        }
        check_chown(inode, who, set)?;
        if (set.uid.is_some() || set.gid.is_some()) && inode.body.kind() == Kind::File && who.uid != 0 {
            inode.mode &= !0o6000;
        }
        inode.uid = set.uid.unwrap_or(inode.uid);
        inode.gid = set.gid.unwrap_or(inode.gid);
        inode.mode = set.mode.map_or(inode.mode, |mode| mode & 0o7777);
        inode.accessed = set.accessed.unwrap_or(inode.accessed);
        inode.modified = set.modified.unwrap_or(inode.modified);
        inode.created = set.created.unwrap_or(inode.created);
        inode.dos_attributes = set.dos_attributes.or(inode.dos_attributes);
        inode.compressed = set.compressed.unwrap_or(inode.compressed);
        if *set != SetMetadata::default() {
            inode.stamp(now);
            inode.changed = set.changed.unwrap_or(now);
        }
        Ok(())
    }

    fn store_xattr(&self, who: &Identity, name: &str, value: Option<Vec<u8>>, how: SetXattr) -> Result<()> {
        let now = self.shared.environment.now();
        let mut state = self.shared.state.lock();
        let inode = state.inode_mut(self.number)?;
        xattr_permitted(inode, who, name, 2, self.shared.options.lists)?;
        match value {
            Some(value) if value.len() > XATTR_VALUE => return Err(Errno::TOOBIG),
            Some(_) if how == SetXattr::New && inode.xattrs.contains_key(name) => return Err(Errno::EXIST),
            Some(value) => {
                let others = inode.xattrs.iter().filter(|(other, _)| *other != name);
                let used: usize = others.map(|(other, value)| other.len() + value.len()).sum();
                if used + name.len() + value.len() > self.shared.options.attribute_space {
                    return Err(Errno::NOSPC);
                }
                inode.xattrs.insert(name.to_owned(), value);
            }
            None => drop(inode.xattrs.remove(name).ok_or(Errno::NODATA)?),
        }
        inode.stamp(now);
        Ok(())
    }
}

/// Checks a change of ownership: root may make any, and the owner may change the group to one of their own groups.
fn check_chown(inode: &Inode, who: &Identity, set: &SetMetadata) -> Result<()> {
    let gives_away = set.uid.is_some_and(|uid| uid != inode.uid || !inode.is_owner(who));
    let own_group = |gid: u32| gid == inode.gid || gid == who.gid || who.groups.contains(&gid);
    let regroups = set.gid.is_some_and(|gid| !inode.is_owner(who) || !own_group(gid));
    if who.uid != 0 && (gives_away || regroups) { Err(Errno::PERM) } else { Ok(()) }
}

/// Checks whether `who` may read (4) or write (2) the attribute `name`. `lists`: the file system stores POSIX ACLs.
fn xattr_permitted(inode: &Inode, who: &Identity, name: &str, wanted: u32, lists: bool) -> Result<()> {
    let (namespace, rest) = name.split_once('.').ok_or(Errno::OPNOTSUPP)?;
    if rest.is_empty() {
        return Err(Errno::INVAL);
    }
    if name.len() > XATTR_NAME {
        return Err(Errno::RANGE);
    }
    match namespace {
        "user" if !matches!(inode.body.kind(), Kind::File | Kind::Directory) => Err(Errno::PERM),
        "user" if inode.permissions(who) & wanted == 0 => Err(Errno::ACCES),
        "security" if who.uid != 0 && wanted & 2 != 0 => Err(Errno::PERM),
        "trusted" if who.uid != 0 => Err(if wanted & 2 != 0 { Errno::PERM } else { Errno::NODATA }),
        "system" if !lists || !matches!(name, posix_acl::ACCESS | posix_acl::DEFAULT) => Err(Errno::OPNOTSUPP),
        "system" if wanted & 2 != 0 && !inode.is_owner(who) => Err(Errno::PERM),
        "user" | "security" | "trusted" | "system" => Ok(()),
        _ => Err(Errno::OPNOTSUPP),
    }
}

/// Returns the end of a range; `Errno::FBIG` if it is beyond the maximum file size.
fn end_of(offset: u64, length: u64) -> Result<u64> {
    offset.checked_add(length).filter(|&end| end <= MAX_SIZE).ok_or(Errno::FBIG)
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        if let Ok(inode) = state.inode_mut(self.number) {
            inode.opens -= 1;
            inode.kept.closed(self.serial, self.access);
        }
        state.forget(self.number);
    }
}

/// Returns the handle behind a node, if the node is one of this file system's.
pub(super) fn of(node: &Arc<dyn Node>) -> Option<&Handle> {
    (&**node as &dyn Any).downcast_ref()
}

impl Node for Handle {
    fn metadata(&self, _op: &Op) -> Answer<Result<Metadata>> {
        Answer::now(self.look(|inode| Ok(self.shared.describe(self.number, inode))))
    }

    fn open(&self, op: &Op, access: Access) -> Answer<Result<Arc<dyn Node>>> {
        Answer::now(self.open_again(op, access))
    }

    fn permissions(&self, op: &Op) -> Answer<Result<u32>> {
        Answer::now(self.look(|inode| Ok(inode.permissions(op))))
    }

    fn read(&self, _op: &Op, read: ReadRequest) -> Answer<ReadReply> {
        let ReadRequest { offset, mut buffer, filled, .. } = read;
        let readable = if self.access.read { Ok(()) } else { Err(Errno::BADF) };
        let space = buffer.get_mut(filled..).ok_or(Errno::INVAL);
        let done = readable.and(space).and_then(|space| self.content(|content| content.read(offset, space)));
        Answer::now((buffer, done.map(Content::Buffer)))
    }

    fn takes_parts(&self) -> bool {
        true
    }

    fn write(&self, _op: &Op, offset: u64, data: Payload, _through: bool) -> Answer<Result<()>> {
        let write = |data: Bytes| match data.is_empty() {
            true if self.access.write => Ok(()),
            _ => self.change(|content, quota| content.write(offset, &data, quota)),
        };
        let done = end_of(offset, data.len() as u64).and_then(|_| data.into_memory()).and_then(write);
        Answer::now(done)
    }

    fn space(&self, _op: &Op) -> Answer<Result<Space>> {
        Answer::now(Ok(self.shared.space()))
    }

    fn space_of_user(&self, op: &Op) -> Answer<Result<Space>> {
        Answer::now(Ok(self.shared.space_of_user(op)))
    }

    fn quotas(&self) -> Option<Arc<dyn Quotas>> {
        self.shared.options.quotas.then(|| Arc::new(MemoryQuotas(Arc::clone(&self.shared))) as _)
    }

    fn flush(&self, _op: &Op) -> Answer<Result<()>> {
        Answer::now(Ok(()))
    }

    fn location(&self, _op: &Op) -> Answer<Result<Vec<u8>>> {
        Answer::now(self.shared.state.lock().location(self.root, self.number))
    }

    fn read_link(&self, _op: &Op) -> Answer<Result<Vec<u8>>> {
        let state = self.shared.state.lock();
        Answer::now(match state.inodes.get(&self.number).map(|inode| &inode.body) {
            Some(Body::Symlink(target)) => Ok(target.to_vec()),
            _ => Err(Errno::INVAL),
        })
    }

    fn set_extent(&self, _op: &Op, extent: Extent) -> Answer<Result<()>> {
        let change = |content: &mut Pages, quota: &mut Quota| match extent {
            Extent::Size(size) => {
                content.set_size(size, quota);
                Ok(())
            }
            Extent::Reserve(size) => content.reserve(size, quota),
            Extent::Zero { offset, length } => {
                content.zero(offset, length, quota);
                Ok(())
            }
        };
        let checked = match extent {
            Extent::Size(size) | Extent::Reserve(size) => end_of(0, size).map(|_| ()),
            Extent::Zero { .. } => Ok(()),
        };
        Answer::now(checked.and_then(|()| self.change(change)))
    }

    fn data_ranges(&self, _op: &Op, offset: u64, length: u64) -> Answer<Result<Vec<DataRange>>> {
        Answer::now(self.content(|content| content.data_ranges(offset, length)))
    }

    fn copy(&self, _op: &Op, from: &Arc<dyn Node>, range: CopyRange) -> Answer<Result<u64>> {
        let CopyRange { source, offset, length, share } = range;
        let from = of(from).filter(|from| from.belongs_to(&self.shared));
        Answer::now(from.ok_or(Errno::XDEV).and_then(|from| match share {
            true => self.share_room(from, source, offset, length).map(|()| length),
            false => self.copy_from(from, source, offset, length),
        }))
    }

    fn set_metadata(&self, op: &Op, set: SetMetadata) -> Answer<Result<()>> {
        Answer::now(self.change_metadata(op, &set))
    }

    fn list(&self, op: &Op, listing: ListRequest) -> Answer<Result<Page>> {
        Answer::now(self.entries(op, listing.cursor, listing.count, listing.metadata))
    }

    fn entry(&self, op: &Op, name: &[u8], case: Case) -> Answer<Result<Option<Entry>>> {
        Answer::now(self.find_entry(op, name, case))
    }

    fn get_xattr(&self, op: &Op, name: &str) -> Answer<Result<Option<Vec<u8>>>> {
        Answer::now(self.look(|inode| {
            match xattr_permitted(inode, op, name, 4, self.shared.options.lists) {
                Err(Errno::NODATA) => return Ok(None),
                permitted => permitted?,
            }
            Ok(inode.xattrs.get(name).cloned())
        }))
    }

    fn set_xattr(&self, op: &Op, name: &str, value: Option<Vec<u8>>, how: SetXattr) -> Answer<Result<()>> {
        Answer::now(self.store_xattr(op, name, value, how))
    }

    fn list_xattrs(&self, op: &Op) -> Answer<Result<Vec<String>>> {
        Answer::now(self.look(|inode| {
            let visible = |name: &&String| op.uid == 0 || !name.starts_with("trusted.");
            Ok(inode.xattrs.keys().filter(visible).cloned().collect())
        }))
    }

    /// Never reports anything, because all changes are made through this file system.
    fn watch(&self, _: Wanted, _: ChangeListener) -> Result<Watching> {
        Ok(Box::new(()))
    }

    fn lease(&self, _op: &Op, broken: LeaseCallback) -> Answer<Result<Box<dyn Lease>>> {
        let take = |inode: &mut Inode| inode.kept.lease(self.serial, self.access, broken);
        let taken = self.shared.state.lock().inode_mut(self.number).and_then(take);
        let lease = || Taken { shared: Arc::clone(&self.shared), number: self.number, serial: self.serial };
        Answer::now(taken.map(|()| Box::new(lease()) as Box<dyn Lease>))
    }

    fn lock(&self, _op: &Op, changes: Vec<RangeChange>, _many: bool) -> Answer<Result<()>> {
        let set = |offset, length, lock| {
            let set = |inode: &mut Inode| inode.kept.lock(self.serial, self.access, offset, length, lock);
            self.shared.state.lock().inode_mut(self.number).and_then(set)
        };
        Answer::now(RangeChange::make_all(&changes, set))
    }

    fn is_locked(&self, _op: &Op, bytes: Vec<u64>) -> Answer<Result<bool>> {
        let find = |inode: &mut Inode| inode.kept.is_locked(self.serial, self.access, &bytes);
        Answer::now(self.shared.state.lock().inode_mut(self.number).and_then(find))
    }
}

/// A lease held by a handle.
struct Taken {
    shared: Arc<Shared>,
    number: u64,
    serial: u64,
}

impl Lease for Taken {}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Ok(inode) = self.shared.state.lock().inode_mut(self.number) {
            inode.kept.give_up(self.serial);
        }
    }
}
