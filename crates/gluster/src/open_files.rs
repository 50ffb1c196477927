//! The files that are open for data, by identity.
//!
//! Bricks find a file by its gfid only while it has a name. A handle for attributes keeps working for a file without a
//! name as long as another handle has it open.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use backing::completion::Completion;
use backing::workers::Lane;
use parking_lot::Mutex;
use server::vfs::{FileId, Result, SERVER};

use crate::connection::Connection;
use crate::sizes::Change;
use crate::sys::{File, Object};

/// An open file, which a worker closes. The last reference may be that of an asynchronous call, which is completed by a
/// thread of the library. Closing waits for such threads.
///
/// Each asynchronous call keeps a reference until it is complete, because the library completes no calls of a file that
/// was closed. It is given up before a client learns of the completion, so that the client's CLOSE closes the file.
pub(crate) struct OpenFile {
    file: Closing<File>,
    object: Arc<Object>,
    id: FileId,
    connection: Arc<Connection>,
}

impl OpenFile {
    /// Has `file` closed by a worker of `connection`, and records it.
    pub(crate) fn new(connection: &Arc<Connection>, object: &Arc<Object>, id: FileId, file: File) -> Arc<OpenFile> {
        let (object, kept) = (Arc::clone(object), Arc::clone(connection));
        let open = Arc::new(OpenFile { file: Closing::new(file), object, id, connection: kept });
        connection.open_files.add(id, &open);
        open
    }

    /// Records that a write begins, which ends at `end` in the file.
    pub(crate) fn begin_write(&self, end: u64) -> Change {
        self.connection.forget_sizes();
        self.connection.sizes.write(self.id, &self.object, end)
    }

    /// Records that a write is complete.
    pub(crate) fn end_write(&self, write: Change, succeeded: bool) {
        self.connection.sizes.end(write, succeeded);
    }

    /// Sets the size of the file.
    pub(crate) fn set_size(&self, size: i64) -> Result<()> {
        self.connection.forget_sizes();
        let change = self.connection.sizes.set(self.id, &self.object, size.unsigned_abs());
        let done = File::set_size(self, size);
        self.connection.sizes.end(change, done.is_ok());
        done
    }

    /// Records that the content or its blocks changed. This does not wait.
    pub(crate) fn note_change(&self) {
        self.connection.recent.forget(self.id);
    }

    /// Has the bricks write the content to their disks, and completes `answer`.
    pub(crate) fn sync(this: Arc<OpenFile>, answer: Completion<()>) {
        let kept = Arc::clone(&this);
        this.sync_async(Box::new(move |(), synced| {
            // Bricks may count the blocks of the content only now.
            kept.note_change();
            drop(kept);
            answer.complete(synced.map(|_| ()));
        }));
    }

    /// Closes the file on this thread, which is a worker's, and completes `answer`. If a call is not complete, a worker
    /// does both later.
    pub(crate) fn close(this: Arc<OpenFile>, answer: Option<Completion<()>>) {
        if let Some(answer) = answer {
            this.file.answer(answer);
        }
        if let Some(close) = Arc::into_inner(this).and_then(|mut open| open.file.end(File::close)) {
            close();
        }
    }
}

impl Deref for OpenFile {
    type Target = File;

    fn deref(&self) -> &File {
        self.file.0.as_ref().expect("it is taken only with the last reference")
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if let Some(close) = self.file.end(File::close) {
            self.connection.workers.submit(SERVER.uid, Lane::Slow, Box::new(close));
        }
    }
}

/// A file that is open until the last reference to it ends, and the call that waits for the result of closing it.
struct Closing<F>(Option<F>, Mutex<Option<Completion<()>>>);

impl<F> Closing<F> {
    fn new(file: F) -> Closing<F> {
        Closing(Some(file), Mutex::new(None))
    }

    /// Has `answer` completed with the result.
    fn answer(&self, answer: Completion<()>) {
        *self.1.lock() = Some(answer);
    }

    /// Returns the work that closes the file and completes the answer; `None` if it was returned before.
    fn end(&mut self, close: fn(F) -> Result<()>) -> Option<impl FnOnce() + use<F>> {
        let (file, answer) = (self.0.take()?, self.1.get_mut().take());
        Some(move || {
            let closed = close(file);
            if let Some(answer) = answer {
                answer.complete(closed);
            }
        })
    }
}

/// The number of entries at which those of closed files are first removed.
const FEW: usize = 1024;

/// The open files of a volume. Each file has the entry of the handle that was opened last.
#[derive(Default)]
pub(crate) struct OpenFiles(Mutex<State>);

#[derive(Default)]
struct State {
    files: HashMap<FileId, Weak<OpenFile>>,
    /// The number of entries after the last removal.
    left: usize,
}

impl OpenFiles {
    /// Records an open file.
    fn add(&self, id: FileId, file: &Arc<OpenFile>) {
        let mut state = self.0.lock();
        if state.files.len() >= FEW.max(2 * state.left) {
            state.files.retain(|_, file| file.strong_count() > 0);
            state.left = state.files.len();
        }
        state.files.insert(id, Arc::downgrade(file));
    }

    /// Returns an open handle of the file.
    pub(crate) fn get(&self, id: FileId) -> Option<Arc<OpenFile>> {
        self.0.lock().files.get(&id)?.upgrade()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use backing::workers::{NoThreadIdentity, Settings, Workers};
    use server::answer::block_on;
    use server::vfs::Errno;

    use super::*;

    #[test]
    fn the_last_reference_tells_the_result_of_closing() {
        let workers = Workers::new(NoThreadIdentity, Settings::limited("test", Duration::from_secs(3_600)));
        let closes: fn(Errno) -> Result<()> = Err;
        let (completion, answer) = workers.begin(1).expect("no call hangs");
        let first = Arc::new(Closing::new(Errno::NOSPC));
        let last = Arc::clone(&first);
        first.answer(completion);
        assert!(Arc::into_inner(first).is_none(), "a call is not complete");
        let mut last = Arc::into_inner(last).expect("no other reference is left");
        let close = last.end(closes).expect("the file is open");
        assert!(last.end(closes).is_none());
        close();
        assert_eq!(block_on(answer), Err(Errno::NOSPC));
        // Without an answer to give, it is only closed.
        Closing::new(Errno::NOSPC).end(closes).expect("the file is open")();
    }
}
