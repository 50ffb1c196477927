//! A handle of a file, directory or link: for attributes only, or open for data.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use backing::behind::Behind;
use backing::completion::Completion;
use backing::directory_cache::Directory;
use backing::executor::unless_cancelled;
use backing::metadata::{Stat, store, stored};
use backing::read_ahead::{self, ReadAhead};
use backing::workers::Lane;
use parking_lot::Mutex;
use server::answer::Answer;
use server::vfs::xattr::DOSATTRIB;
use server::vfs::{
    Access, Case, Content, CopyRange, DataRange, Entry, Errno, Extent, FileId, Kind, ListRequest, Metadata, Node, Op,
    Page, Payload, ReadReply, ReadRequest, RelPath, Result, SERVER, SetMetadata, SetXattr, Space, SymlinkPolicy, Time,
    copy_through_memory,
};

use crate::advance::Advance;
use crate::attributes::{Source, permissions};
use crate::changes::flags;
use crate::connection::Connection;
use crate::content::write_all;
use crate::identity;
use crate::listing::Listing;
use crate::open_files::OpenFile;
use crate::sys::{File, NewAttributes, Object};
use crate::volume::Volume;

/// The state of a handle.
pub(crate) struct Open {
    pub(crate) volume: Volume,
    pub(crate) object: Arc<Object>,
    pub(crate) id: FileId,
    pub(crate) kind: Kind,
    /// The open file and its data access. It is taken when the handle is closed.
    pub(crate) data: Mutex<Option<(Access, Arc<OpenFile>)>>,
    /// The user of the look-up that opened the file.
    opener: Option<Op>,
    pub(crate) listing: Mutex<Option<Listing>>,
    pub(crate) ahead: ReadAhead,
    /// The path at which the file was found.
    location: Option<RelPath>,
    /// The directory in which it was found.
    pub(crate) parent: Option<Directory<Object>>,
    /// Whether content was written through this handle.
    pub(crate) written: AtomicBool,
    /// What is done beside the client's requests.
    behind: Option<Arc<Behind>>,
    pub(crate) advance: Advance,
}

/// An [`Open`] that can be passed to a worker.
struct Handle(Arc<Open>);

/// Returns the file behind a node, if the node is one of this crate's.
pub(crate) fn of(node: &Arc<dyn Node>) -> Option<Arc<Open>> {
    (&**node as &dyn Any).downcast_ref::<Handle>().map(|handle| Arc::clone(&handle.0))
}

impl Drop for Open {
    /// Closing a directory waits for the bricks, so a worker does it.
    fn drop(&mut self) {
        self.judge_guess();
        if let Some(listing) = self.listing.get_mut().take() {
            self.volume.connection.workers.submit(SERVER.uid, Lane::Slow, Box::new(move || drop(listing)));
        }
    }
}

impl Open {
    /// Creates a handle of the file `id`, with its data access if it has any.
    pub(crate) fn new(
        volume: &Volume,
        object: &Arc<Object>,
        id: FileId,
        kind: Kind,
        data: Option<(Access, File)>,
    ) -> Open {
        let (listing, ahead, opener, location, parent, written, behind, advance) = Default::default();
        let data = Mutex::new(data.map(|(access, file)| (access, OpenFile::new(&volume.connection, object, id, file))));
        let (volume, object) = (volume.clone(), Arc::clone(object));
        Open { volume, object, id, kind, data, opener, listing, ahead, location, parent, written, behind, advance }
    }

    /// Records where the file was found.
    pub(crate) fn at(mut self, location: RelPath, parent: Option<Directory<Object>>) -> Open {
        (self.location, self.parent) = (Some(location), parent);
        self
    }

    /// Records what is done beside the client's requests.
    pub(crate) fn beside(mut self, behind: Option<Arc<Behind>>) -> Open {
        self.behind = behind;
        self
    }

    /// Waits for what is done beside the client's requests, and returns its error.
    fn settled(&self, op: &Op) -> Answer<Result<()>> {
        let Some(behind) = &self.behind else { return Answer::now(Ok(())) };
        behind.settled(|| self.connection().workers.begin_always(op))
    }

    /// Opens the file for data, if the user may.
    pub(crate) fn opened_for(mut self, op: &Op, access: Access) -> Open {
        if let Ok(file) = self.open_file(op, access) {
            *self.data.get_mut() = Some((access, OpenFile::new(self.connection(), &self.object, self.id, file)));
            self.opener = Some(op.clone());
        }
        self
    }

    /// Returns another handle of the same file.
    fn again(&self, data: Option<(Access, Arc<OpenFile>)>) -> Open {
        let mut open = Open::new(&self.volume, &self.object, self.id, self.kind, None);
        *open.data.get_mut() = data;
        (open.location, open.parent) = (self.location.clone(), self.parent.clone());
        open
    }

    pub(crate) fn into_node(self) -> Arc<dyn Node> {
        Arc::new(Handle(Arc::new(self)))
    }

    pub(crate) fn is_on(&self, connection: &Arc<Connection>) -> bool {
        Arc::ptr_eq(&self.volume.connection, connection)
    }

    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.volume.connection
    }

    pub(crate) fn file(&self) -> Option<Arc<OpenFile>> {
        self.data.lock().as_ref().map(|(_, file)| Arc::clone(file))
    }

    /// Returns the open file if it has the access that `is_enough` requires.
    pub(crate) fn file_for(&self, is_enough: impl FnOnce(Access) -> bool) -> Result<Arc<OpenFile>> {
        let data = self.data.lock();
        let (access, file) = data.as_ref().ok_or(Errno::BADF)?;
        // The look-up opened the file in advance; the server has not.
        if self.opener.is_some() || !is_enough(*access) {
            return Err(Errno::BADF);
        }
        Ok(Arc::clone(file))
    }

    /// Calls `work` with where the file's attributes are. If the file has no name any more, they are reached through
    /// another handle that has it open.
    fn with_source<T>(&self, work: impl Fn(Source<'_>) -> Result<T>) -> Result<T> {
        let file = self.file();
        let object = &self.object;
        match work(Source { object, file: file.as_deref().map(|file| &**file) }) {
            Err(gone @ (Errno::NOENT | Errno::STALE)) if file.is_none() => {
                let file = self.connection().open_files.get(self.id).ok_or(gone)?;
                work(Source { object, file: Some(&file) })
            }
            done => done,
        }
    }

    pub(crate) fn stat(&self, source: Source<'_>) -> Result<Stat> {
        self.connection().stat(source)
    }

    fn metadata_now(&self) -> Result<Metadata> {
        identity::assume_server()?;
        let recent = &self.connection().recent;
        let before = recent.now();
        let metadata = self.with_source(|source| self.connection().metadata(&self.stat(source)?, source))?;
        recent.put(before, metadata);
        Ok(metadata)
    }

    fn open_file(&self, op: &Op, access: Access) -> Result<File> {
        identity::assume(op)?;
        self.object.open(flags(access).ok_or(Errno::INVAL)?)
    }

    fn open_now(&self, op: &Op, access: Access) -> Result<Open> {
        let data = match (self.kind, access.write) {
            (Kind::Symlink, _) => return Err(Errno::LOOP),
            (Kind::Special, _) => return Err(Errno::NODEV),
            (Kind::Directory, true) => return Err(Errno::ISDIR),
            (Kind::File, _) if access != Access::default() => {
                let file = self.open_file(op, access)?;
                Some((access, OpenFile::new(self.connection(), &self.object, self.id, file)))
            }
            (Kind::File | Kind::Directory, _) => None,
        };
        let mut open = self.again(data);
        if self.kind == Kind::Directory && access.read {
            *open.listing.get_mut() = Some(Listing::open(self.connection(), op, &self.object)?.for_all());
        }
        Ok(open)
    }

    fn permissions_now(&self, op: &Op) -> Result<u32> {
        identity::assume_server()?;
        self.with_source(|source| permissions(&self.stat(source)?, source, op))
    }

    fn space_now(&self) -> Result<Space> {
        identity::assume_server()?;
        let object = match (self.kind, &self.parent) {
            (Kind::Directory, _) | (_, None) => &self.object,
            (_, Some(parent)) => &parent.handle,
        };
        let found = object.space()?;
        let block_size = found.f_frsize.max(1);
        Ok(Space {
            block_size: u32::try_from(block_size).unwrap_or(u32::MAX),
            blocks: found.f_blocks,
            free: found.f_bfree,
            available: found.f_bavail.min(found.f_bfree),
            id: self.connection().device,
        })
    }

    /// Returns the path at which the file was found, if it is still there.
    fn location_now(&self) -> Result<Vec<u8>> {
        let location = self.location.as_ref().ok_or(Errno::OPNOTSUPP)?;
        let options = server::vfs::LookupOptions::exact(SymlinkPolicy::NONE);
        match self.volume.walk().resolve(&SERVER, location, options)? {
            backing::walk::Reached::Found(found) if found.stat.id == self.id => Ok(location.as_bytes().to_vec()),
            _ => Err(Errno::NOENT),
        }
    }

    fn set_metadata_now(&self, op: &Op, set: &SetMetadata) -> Result<()> {
        let stores = set.created.is_some() || set.dos_attributes.is_some() || set.changed.is_some();
        if self.kind == Kind::Symlink && (stores || set.mode.is_some()) || set.compressed == Some(true) {
            return Err(Errno::OPNOTSUPP);
        }
        // First the changes that require write permission, last those that may revoke it.
        if stores {
            self.store_attributes(op, set)?;
        }
        identity::assume(op)?;
        let pair = |time: Time| (time.secs, time.nanos);
        let changes = [
            NewAttributes {
                accessed: set.accessed.map(pair),
                modified: set.modified.map(pair),
                ..NewAttributes::default()
            },
            NewAttributes { uid: set.uid, gid: set.gid, ..NewAttributes::default() },
            NewAttributes { mode: set.mode.map(|mode| mode & 0o7777), ..NewAttributes::default() },
        ];
        for change in changes.iter().filter(|change| **change != NewAttributes::default()) {
            self.object.set(change)?;
        }
        if set.uid.is_some() || set.gid.is_some() || set.mode.is_some() {
            self.connection().note_attributes(self.id);
        }
        Ok(())
    }

    /// Updates the attributes in `user.DOSATTRIB`.
    fn store_attributes(&self, op: &Op, set: &SetMetadata) -> Result<()> {
        let _lock = self.connection().locks.lock(self.id);
        self.with_source(|source| {
            identity::assume_server()?;
            let unstored = self.connection().unstored.lock().get(&self.id).copied();
            let (now, stored) = (self.stat(source)?, unstored.unwrap_or_else(|| stored(&source)));
            let wanted = now.changed_attributes(stored, set);
            identity::assume(op)?;
            store(&source, &wanted, op.uid == now.uid)?;
            self.connection().unstored.lock().remove(&self.id);
            Ok(())
        })?;
        self.connection().renew(self.id);
        Ok(())
    }

    fn entry_now(&self, op: &Op, name: &[u8], case: Case) -> Result<Option<Entry>> {
        if self.kind != Kind::Directory {
            return Err(Errno::NOTDIR);
        }
        let directory = Directory { handle: Arc::clone(&self.object), id: self.id };
        let found = match self.volume.walk().entry(op, &directory, name, case) {
            Err(Errno::STALE) => None,
            found => found?,
        };
        let Some((name, object, stat)) = found else { return Ok(None) };
        let metadata = self.connection().metadata(&stat, Source { object: &object, file: None })?;
        Ok(Some(Entry { name, metadata: Some(metadata) }))
    }

    pub(crate) fn get_xattr_now(&self, op: &Op, name: &str) -> Result<Option<Vec<u8>>> {
        if is_hidden(name, op) {
            return Ok(None);
        }
        if name == DOSATTRIB
            && let Some(unstored) = self.connection().unstored.lock().get(&self.id)
        {
            return Ok(Some(unstored.encode()));
        }
        self.with_source(|source| {
            // The library may answer any user from its cache.
            if name.starts_with("user.") && !op.is_server() {
                identity::assume_server()?;
                let stat = self.stat(source)?;
                if permissions(&stat, source, op)? & 4 == 0 {
                    return Err(Errno::ACCES);
                }
            }
            // Bricks refuse these to users without the right to read the content. Linux does not.
            if name.starts_with("security.") || name.starts_with("system.posix_acl_") {
                identity::assume_server()?;
            } else {
                identity::assume(op)?;
            }
            source.xattr(name)
        })
    }

    fn set_xattr_now(&self, op: &Op, name: &str, value: Option<&[u8]>, how: SetXattr) -> Result<()> {
        // Bricks let every user with write permission set these.
        if is_hidden(name, op) || op.uid != 0 && name.starts_with("security.") {
            return Err(Errno::PERM);
        }
        if !matches!(self.kind, Kind::File | Kind::Directory) && name.starts_with("user.") {
            return Err(Errno::PERM);
        }
        identity::assume(op)?;
        self.with_source(|source| match value {
            Some(value) => source.set(name, value, if how == SetXattr::New { libc::XATTR_CREATE } else { 0 }),
            None => source.remove(name),
        })?;
        self.connection().note_attributes(self.id);
        Ok(())
    }

    fn list_xattrs_now(&self, op: &Op) -> Result<Vec<String>> {
        identity::assume(op)?;
        let names = self.with_source(|source| source.names())?;
        Ok(names.into_iter().filter(|name| !is_hidden(name, op)).collect())
    }
}

/// Returns whether attributes of this name are shown to root only.
fn is_hidden(name: &str, op: &Op) -> bool {
    op.uid != 0 && name.starts_with("trusted.")
}

impl Handle {
    /// Makes calls for a user on a worker.
    fn run<T: Send + 'static>(
        &self,
        op: &Op,
        work: impl FnOnce(&Open, &Op) -> Result<T> + Send + 'static,
    ) -> Answer<Result<T>> {
        let (open, user) = (Arc::clone(&self.0), op.clone());
        self.0.connection().run(op, move |_| work(&open, &user))
    }

    /// Makes calls that may change the file's attributes or size, also if they fail.
    fn change(&self, op: &Op, work: impl FnOnce(&Open, &Op) -> Result<()> + Send + 'static) -> Answer<Result<()>> {
        self.run(op, |open, op| {
            let done = work(open, op);
            open.connection().recent.forget(open.id);
            done
        })
    }

    /// Makes calls that change nothing.
    fn query<T: Send + 'static>(
        &self,
        op: &Op,
        work: impl FnOnce(&Open, &Op) -> Result<T> + Send + 'static,
    ) -> Answer<Result<T>> {
        let (open, user) = (Arc::clone(&self.0), op.clone());
        let work = unless_cancelled(op, move || work(&open, &user));
        self.0.connection().run(op, move |_| work())
    }

    /// Submits a call on a worker, which the library completes.
    fn submit<T: Send + 'static>(
        &self,
        op: &Op,
        submit: impl FnOnce(&Arc<Open>, &Op, Completion<T>) -> Result<()> + Send + 'static,
    ) -> Answer<Result<T>> {
        match self.0.connection().workers.begin(op) {
            Ok(begun) => self.submit_begun(op, begun, submit),
            Err(error) => Answer::now(Err(error)),
        }
    }

    fn submit_begun<T: Send + 'static>(
        &self,
        op: &Op,
        (completion, answer): (Completion<T>, Answer<Result<T>>),
        submit: impl FnOnce(&Arc<Open>, &Op, Completion<T>) -> Result<()> + Send + 'static,
    ) -> Answer<Result<T>> {
        let (open, user) = (Arc::clone(&self.0), op.clone());
        let submitted = self.0.connection().run(op, move |_| submit(&open, &user, completion));
        Answer::later(async move {
            submitted.await?;
            answer.await
        })
    }
}

impl Node for Handle {
    fn metadata(&self, op: &Op) -> Answer<Result<Metadata>> {
        if let Some(recent) = self.0.connection().recent.get(self.0.id) {
            return Answer::now(Ok(recent));
        }
        self.query(op, |open, _| open.metadata_now())
    }

    fn open(&self, op: &Op, access: Access) -> Answer<Result<Arc<dyn Node>>> {
        let opened = self.0.opener.as_ref().filter(|opener| *opener == op).and_then(|_| {
            let mut data = self.0.data.lock();
            data.take_if(|(present, _)| *present == access)
        });
        if opened.is_some() {
            return Answer::now(Ok(self.0.again(opened).into_node()));
        }
        self.run(op, move |open, op| open.open_now(op, access).map(Open::into_node))
    }

    fn close(&self, op: &Op) -> Answer<Result<()>> {
        self.0.ahead.end();
        let settled = self.0.settled(op);
        // A worker that reads a page has the lock.
        let is_listed = self.0.listing.try_lock().is_none_or(|listing| listing.is_some());
        if self.0.data.lock().is_none() && !is_listed {
            return settled;
        }
        if !self.0.close_matters() {
            // It is done although nobody waits for it.
            drop(self.run(op, |open, _| {
                open.close_now(None);
                Ok(())
            }));
            return settled;
        }
        let begun = self.0.connection().workers.begin_always(op);
        let closed = self.submit_begun(op, begun, |open, _, answer| {
            open.close_now(Some(answer));
            Ok(())
        });
        Answer::later(async move {
            let (settled, closed) = (settled.await, closed.await);
            settled.and(closed)
        })
    }

    fn space(&self, op: &Op) -> Answer<Result<Space>> {
        self.query(op, |open, _| open.space_now())
    }

    fn permissions(&self, op: &Op) -> Answer<Result<u32>> {
        if let Some(known) = self.0.connection().directories.protection(self.0.id)
            && let Some(rwx) = known.rwx(op)
        {
            return Answer::now(Ok(rwx));
        }
        self.query(op, |open, op| open.permissions_now(op))
    }

    fn read(&self, op: &Op, read: ReadRequest) -> Answer<ReadReply> {
        let ReadRequest { offset, buffer, filled, .. } = read;
        let file = match self.0.file_for(|access| access.read) {
            Ok(file) => file,
            Err(error) => return Answer::now((buffer, Err(error))),
        };
        let Ok(offset) = i64::try_from(offset) else { return Answer::now((buffer, Err(Errno::INVAL))) };
        // The library refuses to read nothing.
        if filled == buffer.len() {
            return Answer::now((buffer, Ok(Content::Buffer(0))));
        }
        let (length, kept) = (buffer.len(), buffer.get(..filled).unwrap_or_default().to_vec());
        let read = self.submit(op, move |_, _, answer: Completion<(Vec<u8>, usize)>| {
            let kept = Arc::clone(&file);
            let done = Box::new(move |buffer, count: Result<usize>| {
                drop(kept);
                answer.complete(count.map(|count| (buffer, count)));
            });
            file.read_async(buffer, filled, offset, done);
            Ok(())
        });
        read.map(move |read| match read {
            Ok((buffer, count)) => (buffer, Ok(Content::Buffer(count))),
            Err(error) => {
                // The library may still have the buffer.
                let mut buffer = kept;
                buffer.resize(length, 0);
                (buffer, Err(error))
            }
        })
    }

    fn write(&self, op: &Op, offset: u64, data: Payload, through: bool) -> Answer<Result<()>> {
        let file = match self.0.file_for(|access| access.write) {
            Ok(file) => file,
            Err(error) => return Answer::now(Err(error)),
        };
        let (Ok(offset), Ok(bytes)) = (i64::try_from(offset), data.into_memory()) else {
            return Answer::now(Err(Errno::INVAL));
        };
        if offset.checked_add(bytes.len() as i64).is_none() {
            return Answer::now(Err(Errno::FBIG));
        }
        if let Some(Err(error)) = self.0.behind.as_ref().map(|behind| behind.check()) {
            return Answer::now(Err(error));
        }
        self.0.written.store(true, Ordering::Relaxed);
        self.submit(op, move |_, _, answer| {
            write_all(file, bytes, offset, through, answer);
            Ok(())
        })
    }

    fn flush(&self, op: &Op) -> Answer<Result<()>> {
        let (open, user) = (Arc::clone(&self.0), op.clone());
        self.0.settled(op).then(move |settled| match settled {
            // A flush would wait for the same brick.
            Err(Errno::TIMEDOUT) => Answer::now(settled),
            _ => {
                let flushed = Handle(open).submit(&user, |open, op, answer| open.flush_now(op, answer));
                flushed.map(move |flushed| settled.and(flushed))
            }
        })
    }

    fn location(&self, op: &Op) -> Answer<Result<Vec<u8>>> {
        self.query(op, |open, _| open.location_now())
    }

    fn read_link(&self, op: &Op) -> Answer<Result<Vec<u8>>> {
        if self.0.kind != Kind::Symlink {
            return Answer::now(Err(Errno::INVAL));
        }
        self.query(op, |open, _| open.object.read_link())
    }

    fn set_extent(&self, op: &Op, extent: Extent) -> Answer<Result<()>> {
        self.change(op, move |open, op| open.set_extent_now(op, extent))
    }

    fn data_ranges(&self, op: &Op, offset: u64, length: u64) -> Answer<Result<Vec<DataRange>>> {
        self.query(op, move |open, op| open.data_ranges_now(op, offset, length))
    }

    /// Copies through memory: `glfs_copy_file_range` fails on distributed volumes and writes one replica only.
    fn copy(&self, op: &Op, from: &Arc<dyn Node>, range: CopyRange) -> Answer<Result<u64>> {
        if range.share {
            return Answer::now(Err(Errno::OPNOTSUPP));
        }
        let Some(source) = of(from) else { return Answer::now(Err(Errno::XDEV)) };
        let readable = source.file_for(|access| access.read);
        if let Err(error) = readable.and(self.0.file_for(|access| access.write)) {
            return Answer::now(Err(error));
        }
        let (op, from, to) = (op.clone(), Arc::clone(from), Arc::new(Handle(Arc::clone(&self.0))) as Arc<dyn Node>);
        let CopyRange { source, offset, length, .. } = range;
        Answer::later(async move { copy_through_memory(&op, &from, source, &to, offset, length).await })
    }

    fn set_metadata(&self, op: &Op, set: SetMetadata) -> Answer<Result<()>> {
        self.change(op, move |open, op| open.set_metadata_now(op, &set))
    }

    fn list(&self, op: &Op, listing: ListRequest) -> Answer<Result<Page>> {
        read_ahead::list(&self.0, op, listing)
    }

    fn entry(&self, op: &Op, name: &[u8], case: Case) -> Answer<Result<Option<Entry>>> {
        let name = name.to_owned();
        self.query(op, move |open, op| open.entry_now(op, &name, case))
    }

    fn get_xattr(&self, op: &Op, name: &str) -> Answer<Result<Option<Vec<u8>>>> {
        if let Some(value) = self.0.take_advance(op, name) {
            return Answer::now(value);
        }
        let name = name.to_owned();
        self.query(op, move |open, op| open.get_xattr_with_next(op, &name))
    }

    fn set_xattr(&self, op: &Op, name: &str, value: Option<Vec<u8>>, how: SetXattr) -> Answer<Result<()>> {
        let name = name.to_owned();
        self.change(op, move |open, op| open.set_xattr_now(op, &name, value.as_deref(), how))
    }

    fn list_xattrs(&self, op: &Op) -> Answer<Result<Vec<String>>> {
        self.query(op, |open, op| open.list_xattrs_now(op))
    }
}
