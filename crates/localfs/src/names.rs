//! Case-insensitive name look-ups in directories of the kernel: [`backing::name_index`], kept current by inotify, which
//! queues a change before the system call that made it returns. The times of directories that cannot be watched, or
//! whose file system can also change remotely, are compared instead.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use backing::clock::Clock;
use backing::name_index::budget::Budget;
use backing::name_index::{self, ChangeQueue, Event, NameIndexes, Stamp};
use rustix::fs::{OFlags, inotify};
use rustix::io::Errno as Raw;
use server::vfs::Result;

use crate::metadata::time;
use crate::root::{Root, is_local, stat};
use crate::{dir, errno, identity, proc_fd, watch};

/// Bytes of queued events that are read at a time, and the maximum size of one event.
const QUEUE: usize = 16 * 1024;
const LONGEST_EVENT: usize = 16 + 256 + 16;

/// The indexes of one share.
pub(crate) type Names = NameIndexes<Inotify>;

/// Creates the indexes of directories whose times come from `clock`.
pub(crate) fn indexes(local: bool, clock: Clock, budget: Arc<Budget>) -> Arc<Names> {
    watch::reserve();
    // File systems that can also change remotely do not report all changes.
    let inotify = if local { watch::new_queue() } else { None };
    NameIndexes::new(inotify.map(Inotify), clock, budget)
}

/// The kernel's queue of changes.
pub(crate) struct Inotify(OwnedFd);

impl ChangeQueue for Inotify {
    type Watch = i32;

    fn drain(&mut self, each: &mut dyn FnMut(Event<'_, i32>)) {
        let mut buffer = Vec::with_capacity(QUEUE);
        let mut reader = inotify::Reader::new(&self.0, buffer.spare_capacity_mut());
        let mut free = QUEUE;
        loop {
            match reader.next() {
                Ok(event) => {
                    free = free.saturating_sub(event_size(&event));
                    if let Some(event) = convert(&event) {
                        each(event);
                    }
                }
                Err(Raw::INTR) => {}
                Err(_) => break,
            }
            if reader.is_buffer_empty() {
                // The read left space for another event, so the queue was empty.
                if free > LONGEST_EVENT {
                    break;
                }
                free = QUEUE;
            }
        }
    }

    fn unwatch(&mut self, watch: i32) {
        // An error means that the watch has already been removed.
        let _ = inotify::remove_watch(&self.0, watch);
    }
}

fn convert<'a>(event: &'a inotify::Event<'_>) -> Option<Event<'a, i32>> {
    use inotify::ReadFlags;
    let (watch, flags) = (event.wd(), event.events());
    if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
        return Some(Event::Lost);
    }
    if flags.contains(ReadFlags::IGNORED) {
        return Some(Event::Ended(watch));
    }
    if flags.contains(ReadFlags::ATTRIB) {
        // An event without a name concerns the directory itself.
        return event.file_name().is_none().then_some(Event::Attributes(watch));
    }
    let name = event.file_name()?.to_bytes();
    let added = flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO);
    Some(if added { Event::Added(watch, name) } else { Event::Removed(watch, name) })
}

/// Returns the size of an event in bytes. The kernel pads its name to a multiple of the header size.
fn event_size(event: &inotify::Event<'_>) -> usize {
    const HEADER: usize = 16;
    HEADER + event.file_name().map_or(0, |name| name.to_bytes_with_nul().len().next_multiple_of(HEADER))
}

/// The directory of a descriptor.
pub(crate) struct Directory<'a> {
    pub(crate) root: &'a Root,
    pub(crate) fd: BorrowedFd<'a>,
}

impl name_index::Directory<Inotify> for Directory<'_> {
    type Listing = Listing;

    fn watch(&self, queue: &mut Inotify) -> Option<i32> {
        use inotify::WatchFlags;
        // A remote file system mounted below the share does not report changes that are made elsewhere.
        if !is_local(self.fd).unwrap_or(false) {
            return None;
        }
        let names = WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::MOVED_FROM | WatchFlags::MOVED_TO;
        let changes = names | WatchFlags::ATTRIB;
        identity::assume_process().ok()?;
        inotify::add_watch(&queue.0, proc_fd::path(self.fd), changes | WatchFlags::ONLYDIR).ok()
    }

    fn stamp(&self) -> Result<Stamp> {
        stamp(self.fd)
    }

    fn open(&self) -> Result<Listing> {
        identity::assume_process().map_err(errno)?;
        self.root.reopen(self.fd, OFlags::RDONLY | OFlags::DIRECTORY).map(Listing)
    }
}

/// A directory that is open for reading.
pub(crate) struct Listing(OwnedFd);

impl name_index::Listing for Listing {
    fn stamp(&self) -> Result<Stamp> {
        stamp(&self.0)
    }

    fn each_name(&mut self, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<bool> {
        dir::each_name(&self.0, each)
    }
}

fn stamp(fd: impl AsFd) -> Result<Stamp> {
    let stat = stat(fd)?;
    Ok(Stamp { changed: time(stat.stx_ctime), modified: time(stat.stx_mtime) })
}
