//! Changes of a file's content in progress.
//!
//! A change may be carried out long after its request was received. Until it ends, the open keeps its locks and its
//! share mode, even if it is closed or its connection is lost: otherwise another client could change the same bytes,
//! and the older change would replace the newer one.

use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};

use proto::status::Status;
use tokio::sync::Notify;

use super::FileOpen;
use crate::error::{Error, Result};
use crate::state::Server;

/// The bit of [`ContentChanges`] that is set once something has waited for the end of the changes.
const AWAITED: u32 = 1 << 31;

/// The number of changes in progress through an open.
#[derive(Default)]
pub(crate) struct ContentChanges(AtomicU32);

/// Wakes what waits for the end of the changes through an open.
#[derive(Default)]
pub(crate) struct ChangesEnded(Notify);

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
            self.server.opens.changes_ended.0.notify_waiters();
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

    /// Waits until no change of the content is in progress through this handle. If the handle is closed, none begins
    /// any more.
    pub(crate) async fn changes_have_ended(&self, server: &Server) {
        while self.is_changing() {
            let mut ended = pin!(server.opens.changes_ended.0.notified());
            ended.as_mut().enable();
            if self.changes.0.fetch_or(AWAITED, Ordering::SeqCst) & !AWAITED != 0 {
                ended.await;
            }
        }
    }

    /// Breaks other clients' caches of the content.
    pub(crate) fn end_caches(&self, server: &Server) {
        server.opens.files.content_changes(self.file, self.lease_id(), server.environment.uptime());
        server.opens.offloads.forget(self.file);
    }
}
