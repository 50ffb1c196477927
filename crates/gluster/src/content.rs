//! Writing, flushing and closing content by the library's asynchronous calls.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use backing::completion::Completion;
use bytes::Bytes;
use server::vfs::{Errno, Kind, Op, Result};

use crate::identity;
use crate::node::Open;
use crate::open_files::OpenFile;

/// Writes all of `bytes`, and completes `answer`.
pub(crate) fn write_all(file: Arc<OpenFile>, bytes: Bytes, offset: i64, through: bool, answer: Completion<()>) {
    let again = Arc::clone(&file);
    let change = file.begin_write(offset.unsigned_abs() + bytes.len() as u64);
    let done = Box::new(move |bytes: Bytes, written: Result<usize>| {
        again.end_write(change, written.is_ok_and(|count| count == bytes.len()));
        again.note_change();
        let result = match written {
            Ok(0) if !bytes.is_empty() => Err(Errno::IO),
            Ok(count) if count < bytes.len() => {
                return write_all(again, bytes.slice(count..), offset + count as i64, through, answer);
            }
            Ok(_) if through => return OpenFile::sync(again, answer),
            written => written.map(|_| ()),
        };
        drop(again);
        answer.complete(result);
    });
    file.write_async(bytes, offset, done);
}

impl Open {
    /// Closes the file, and completes `answer`.
    pub(crate) fn close_now(&self, answer: Option<Completion<()>>) {
        drop(self.listing.lock().take());
        let data = self.data.lock().take();
        match (data, answer) {
            (Some((_, file)), answer) => OpenFile::close(file, answer),
            (None, Some(answer)) => answer.complete(Ok(())),
            (None, None) => {}
        }
    }

    /// Returns whether closing the handle can return an error: of a write that no brick has confirmed.
    pub(crate) fn close_matters(&self) -> bool {
        self.written.load(Ordering::Relaxed) && self.connection().writes_behind
    }

    /// Has the bricks write the file to their disks, and completes `answer`.
    pub(crate) fn flush_now(&self, op: &Op, answer: Completion<()>) -> Result<()> {
        identity::assume(op)?;
        let file = match (self.kind, self.file()) {
            (_, Some(file)) => file,
            (Kind::Directory, None) => {
                identity::assume_server()?;
                answer.complete(self.object.read_directory()?.sync());
                return Ok(());
            }
            (Kind::File, None) => {
                identity::assume_server()?;
                OpenFile::new(self.connection(), &self.object, self.id, self.object.open(libc::O_RDONLY)?)
            }
            _ => {
                answer.complete(Ok(()));
                return Ok(());
            }
        };
        OpenFile::sync(file, answer);
        Ok(())
    }
}
