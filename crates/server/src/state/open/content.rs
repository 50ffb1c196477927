//! Changes of a file's content in progress.
//!
//! A change may be carried out long after its request was received. Until it ends, the open keeps its locks and its
//! share mode, even if it is closed or its connection is lost: otherwise another client could change the same bytes,
//! and the older change would replace the newer one. CLOSE waits. Opens that are closed for another reason linger,
//! so that nothing else waits for storage that hangs.

use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use proto::status::Status;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::{FileOpen, Open};
use crate::error::{Error, Result};
use crate::state::Server;

/// The bit of [`ContentChanges`] that is set once something has waited for the end of the changes.
const AWAITED: u32 = 1 << 31;

/// The number of changes in progress through an open.
#[derive(Default)]
pub(crate) struct ContentChanges(AtomicU32);

/// Opens that are closed when the changes through them have ended.
#[derive(Default)]
pub(crate) struct Lingering {
    opens: Mutex<Vec<Arc<Open>>>,
    /// Notified when the changes have ended through an open that is closed, or that a client reclaims.
    ended: Notify,
}

impl Lingering {
    /// Adds an open without a session through which a file is being changed.
    pub(crate) fn add(&self, open: Arc<Open>) {
        self.opens.lock().push(open);
        // The changes may have ended before.
        self.ended.notify_waiters();
    }

    /// Returns what completes when changes have ended. Enable it before looking.
    pub(crate) fn ended(&self) -> Notified<'_> {
        self.ended.notified()
    }

    /// Takes the opens without a change in progress.
    pub(crate) fn take_settled(&self) -> Vec<Arc<Open>> {
        let mut opens = self.opens.lock();
        let is_changing = |open: &Arc<Open>| open.file().is_some_and(FileOpen::is_changing);
        let (changing, settled) = mem::take(&mut *opens).into_iter().partition(is_changing);
        *opens = changing;
        settled
    }
}

/// A change of a file's content in progress.
pub(crate) struct ContentChange<'a> {
    file: &'a FileOpen,
    server: &'a Server,
}

impl Drop for ContentChange<'_> {
    /// Breaks caches again, because a client granted an oplock or lease during the change may have read the old
    /// content.
    fn drop(&mut self) {
        self.file.end_caches(self.server);
        if self.file.changes.0.fetch_sub(1, Ordering::SeqCst) == AWAITED | 1 {
            self.server.opens.lingering.ended.notify_waiters();
        }
    }
}

impl FileOpen {
    /// Must be called before the content is changed through this handle. Breaks the caches of other clients now, and
    /// again when the result is dropped after the change. Fails if the handle was closed meanwhile.
    #[must_use = "the change ends when this value is dropped"]
    pub(crate) fn begin_change<'a>(&'a self, server: &'a Server) -> Result<ContentChange<'a>> {
        self.changes.0.fetch_add(1, Ordering::SeqCst);
        let change = ContentChange { file: self, server };
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::new(Status::FILE_CLOSED));
        }
        self.modified.store(true, Ordering::Relaxed);
        self.end_caches(server);
        Ok(change)
    }

    /// Whether a change of the content is in progress through this handle.
    pub(crate) fn is_changing(&self) -> bool {
        self.changes.0.load(Ordering::SeqCst) & !AWAITED != 0
    }

    /// Waits until no change of the content is in progress through this handle.
    pub(crate) async fn changes_have_ended(&self, server: &Server) {
        while self.is_changing() {
            let mut ended = pin!(server.opens.lingering.ended());
            ended.as_mut().enable();
            if self.awaits_changes() {
                ended.await;
            }
        }
    }

    /// Closes this handle for changes. Returns whether one is in progress, whose end [`Lingering::ended`] reports.
    pub(crate) fn end_changes(&self) -> bool {
        // Ordered with the beginning of a change, which either sees it or is waited for.
        self.closed.store(true, Ordering::SeqCst);
        self.awaits_changes()
    }

    fn awaits_changes(&self) -> bool {
        self.changes.0.fetch_or(AWAITED, Ordering::SeqCst) & !AWAITED != 0
    }

    /// Breaks other clients' caches of the content.
    pub(crate) fn end_caches(&self, server: &Server) {
        server.opens.files.content_changes(self.file, self.lease_id(), server.environment.uptime());
        server.opens.offloads.forget(self.file);
    }
}
