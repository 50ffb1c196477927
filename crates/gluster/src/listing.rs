//! Listing a directory: entries come with their attributes and handles, so that none is looked up again. The next page
//! is read ahead.

use std::sync::Arc;

use backing::directory_cache::Directory;
use backing::moments::Moment;
use backing::read_ahead::{Listed, ReadAhead};
use server::answer::Answer;
use server::vfs::{Entry, Errno, Kind, ListRequest, Metadata, Op, Page, Result};

use crate::attributes::Source;
use crate::connection::Connection;
use crate::identity;
use crate::node::Open;
use crate::sys::{self, Object};
use crate::volume::Volume;

/// The fewest and the most entries of a page.
const COUNT: std::ops::RangeInclusive<usize> = 1..=10_000;

/// The most entries of a listing that are cached, so that a large directory does not replace everything else.
const KEPT: usize = 1_000;

/// A directory that is being listed.
pub(crate) struct Listing {
    directory: sys::Directory,
    /// When it was opened, or began again. The library may have read any entry then.
    begin: Begin,
    /// Number of entries that were cached.
    kept: usize,
    /// The position after the last entry that was returned.
    at: u64,
    /// Whether the library returned the last entry.
    ended: bool,
    /// The user that it was opened for; `None` if the handle was opened for reading.
    who: Option<Op>,
}

/// The moments before which nothing of a listing was read.
struct Begin {
    files: Moment,
    directories: Moment,
    metadata: Moment,
}

impl Begin {
    fn now(connection: &Connection) -> Begin {
        let Connection { files, directories, recent, .. } = connection;
        Begin { files: files.now(), directories: directories.now(), metadata: recent.now() }
    }
}

impl Listing {
    /// Opens a directory for a user, who must have the right to read it.
    pub(crate) fn open(connection: &Connection, op: &Op, object: &Object) -> Result<Listing> {
        identity::assume(op)?;
        let begin = Begin::now(connection);
        let directory = object.read_directory()?;
        Ok(Listing { directory, begin, kept: 0, at: 0, ended: false, who: Some(op.clone()) })
    }

    /// Has the listing serve every user of the handle.
    pub(crate) fn for_all(self) -> Listing {
        Listing { who: None, ..self }
    }

    /// Returns whether the listing may be used for a call of `op`.
    pub(crate) fn serves(&self, op: &Op) -> bool {
        self.who.as_ref().is_none_or(|who| who == op)
    }

    /// Returns a page of entries. Those of a directory that the user may not search have no metadata.
    pub(crate) fn page(
        &mut self,
        volume: &Volume,
        directory: &Directory<Object>,
        op: &Op,
        request: ListRequest,
    ) -> Result<Page> {
        if request.cursor != self.at {
            if request.cursor == 0 {
                (self.begin, self.kept) = (Begin::now(&volume.connection), 0);
            }
            self.directory.seek(request.cursor as i64);
            (self.at, self.ended) = (request.cursor, false);
        }
        let metadata = request.metadata && volume.walk().may_search(op, directory)?;
        let count = request.count.clamp(*COUNT.start(), *COUNT.end());
        identity::assume(op)?;
        let mut found = Vec::new();
        while found.len() < count && !self.ended {
            match self.directory.next(metadata)? {
                Some(entry) => {
                    self.at = entry.next as u64;
                    if !matches!(&*entry.name, b"." | b"..") {
                        found.push(entry);
                    }
                }
                None => self.ended = true,
            }
        }
        let connection = &volume.connection;
        let (mut entries, mut kept) = (Vec::with_capacity(found.len()), Vec::new());
        for entry in found {
            let metadata = match entry.file {
                Some((object, stat)) => {
                    let stat = connection.certain(&object, connection.report(&object, &stat));
                    let metadata = connection.metadata(&stat, Source { object: &object, file: None })?;
                    if self.kept < KEPT {
                        self.kept += 1;
                        connection.recent.put(self.begin.metadata, metadata);
                        kept.push((entries.len(), stat.kind, Directory { handle: Arc::new(object), id: stat.id }));
                    }
                    Some(metadata)
                }
                // The library has no attributes of entries that it cannot look up at the moment.
                None if metadata => described(volume, directory, op, &entry.name)?,
                None => None,
            };
            entries.push(Entry { name: entry.name, metadata });
        }
        let named = |wanted: Kind| {
            let of_kind = kept.iter().filter(move |(_, kind, _)| *kind == wanted);
            of_kind.filter_map(|(number, _, file)| Some((&*entries.get(*number)?.name, file)))
        };
        connection.files.put_all(self.begin.files, directory.id, named(Kind::File));
        connection.directories.put_all(self.begin.directories, directory.id, named(Kind::Directory));
        Ok(Page { is_last: self.ended, entries, next: self.at, parent: None })
    }
}

impl Listed for Open {
    fn ahead(&self) -> &ReadAhead {
        &self.ahead
    }

    fn run<T: Send + 'static>(&self, op: &Op, work: impl FnOnce() -> Result<T> + Send + 'static) -> Answer<Result<T>> {
        self.connection().run(op, |_| work())
    }

    fn read(&self, op: &Op, request: ListRequest) -> Result<Page> {
        if self.kind != Kind::Directory {
            return Err(Errno::NOTDIR);
        }
        let directory = Directory { handle: Arc::clone(&self.object), id: self.id };
        let mut slot = self.listing.lock();
        let mut listing = match slot.take().filter(|listing| listing.serves(op)) {
            Some(listing) => listing,
            None => Listing::open(self.connection(), op, &self.object)?,
        };
        let page = listing.page(&self.volume, &directory, op, request);
        *slot = Some(listing);
        drop(slot);
        let mut page = page?;
        if request.metadata && request.cursor == 0 {
            page.parent = parent_metadata(self);
        }
        Ok(page)
    }
}

fn parent_metadata(open: &Open) -> Option<Metadata> {
    let parent = open.parent.as_ref()?;
    identity::assume_server().ok()?;
    let source = Source { object: &parent.handle, file: None };
    let stat = open.connection().stat(source).ok()?;
    open.connection().metadata(&stat, source).ok()
}

fn described(volume: &Volume, directory: &Directory<Object>, op: &Op, name: &[u8]) -> Result<Option<Metadata>> {
    match volume.walk().exact(op, directory, name) {
        Ok((object, stat)) => {
            let object: Arc<Object> = object;
            volume.connection.metadata(&stat, Source { object: &object, file: None }).map(Some)
        }
        Err(Errno::NOENT | Errno::ACCES | Errno::STALE) => Ok(None),
        Err(error) => Err(error),
    }
}
