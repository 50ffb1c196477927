//! A handle of the remote file system.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;

use super::filled::{Filled, PIPE};
use super::known::{Changed, Known};
use super::{Client, permitted};
use crate::answer::Answer;
use crate::vfs::faulty::Operation;
use crate::vfs::{
    Access, Case, Content, CopyRange, DataRange, Entry, Errno, Extent, FileId, ListRequest, Metadata, Node, Op, Page,
    Payload, Quotas, ReadReply, ReadRequest, Result, SetMetadata, SetXattr, Space, into_buffer,
};

/// A handle.
pub(super) struct RemoteNode {
    inner: Arc<dyn Node>,
    id: FileId,
    client: Arc<Client>,
    /// The handle that the look-up opened, with the user and the access.
    opened: Option<(Op, Access, Arc<dyn Node>)>,
    /// Whether content was written through it.
    written: AtomicBool,
    /// The error of a write that was accepted.
    late: Mutex<Option<Errno>>,
}

impl RemoteNode {
    pub(super) fn new(inner: Arc<dyn Node>, id: FileId, client: &Arc<Client>) -> RemoteNode {
        let (opened, written, late) = Default::default();
        RemoteNode { inner, id, client: Arc::clone(client), opened, written, late }
    }

    /// Adds the handle that the look-up opened.
    pub(super) fn opened(self, opened: Option<(Op, Access, Arc<dyn Node>)>) -> RemoteNode {
        RemoteNode { opened, ..self }
    }

    /// Returns what the last reply said about the file, if that is recent.
    fn known(&self) -> Option<Known> {
        self.client.known.get(self.id, self.client.environment.uptime())
    }

    /// Makes a call whose reply has the attributes of the file.
    fn call_and_learn<T: Send + 'static>(
        &self,
        operation: Operation,
        op: &Op,
        call: impl FnOnce(&Arc<dyn Node>, &Op) -> Answer<Result<T>> + Send + 'static,
    ) -> Answer<Result<T>> {
        let client = Arc::clone(&self.client);
        self.call(operation, op, move |node, op| {
            let (node, done) = (Arc::clone(node), call(node, op));
            Answer::later(async move {
                let done = done.await;
                let learned = client.learn(&node).await;
                done.and_then(|done| learned.map(|_| done))
            })
        })
    }

    /// Makes a call that changes the file.
    fn change<T: Send + 'static>(
        &self,
        operation: Operation,
        op: &Op,
        call: impl FnOnce(&Arc<dyn Node>, &Op) -> Answer<Result<T>> + Send + 'static,
    ) -> Answer<Result<T>> {
        let (id, client) = (self.id, Arc::clone(&self.client));
        self.call_and_learn(operation, op, move |node, op| {
            call(node, op).map(move |done| {
                client.changed(Changed::File(id));
                done
            })
        })
    }

    /// Makes a call on the stored file, with the context that the storage permits.
    fn call<T: Send + 'static>(
        &self,
        operation: Operation,
        op: &Op,
        call: impl FnOnce(&Arc<dyn Node>, &Op) -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        let (inner, op) = (Arc::clone(&self.inner), permitted(op));
        self.client.call(operation, move || call(&inner, &op))
    }

    /// Returns the error of an earlier write, once.
    fn take_late(&self) -> Result<()> {
        self.late.lock().take().map_or(Ok(()), Err)
    }
}

/// Returns the data as the client of a network file system has it: in memory of its own, or in a pipe if it was moved
/// there from a socket.
fn received(space: &mut [u8], count: usize, pipe: bool) -> Result<Content> {
    let data = Bytes::copy_from_slice(&space[..count]);
    space.fill(0xee);
    let payload = if pipe && count <= PIPE { Payload::Pipe(Filled::with(&data)?) } else { data.into() };
    Ok(Content::Payload(payload))
}

/// Returns the stored file of a [`RemoteNode`].
pub(super) fn stored(node: &Arc<dyn Node>) -> Option<Arc<dyn Node>> {
    (&**node as &dyn Any).downcast_ref::<RemoteNode>().map(|node| Arc::clone(&node.inner))
}

impl Node for RemoteNode {
    fn metadata(&self, op: &Op) -> Answer<Result<Metadata>> {
        if let Some(known) = self.known() {
            return Answer::now(Ok(known.metadata));
        }
        self.call_and_learn(Operation::Metadata, op, |node, op| node.metadata(op))
    }

    fn open(&self, op: &Op, access: Access) -> Answer<Result<Arc<dyn Node>>> {
        let (id, client) = (self.id, Arc::clone(&self.client));
        let remote = move |inner| Arc::new(RemoteNode::new(inner, id, &client)) as Arc<dyn Node>;
        if let Some((user, present, inner)) = &self.opened
            && *present == access
            && *user == permitted(op)
        {
            return Answer::now(Ok(remote(Arc::clone(inner))));
        }
        let opened = self.call_and_learn(Operation::Open, op, move |node, op| node.open(op, access));
        opened.map(move |opened| opened.map(remote))
    }

    fn close(&self, op: &Op) -> Answer<Result<()>> {
        let late = self.take_late();
        if !self.written.load(Ordering::Relaxed) {
            return Answer::now(late);
        }
        self.call(Operation::Close, op, |node, op| node.close(op)).map(move |closed| late.and(closed))
    }

    fn quotas(&self) -> Option<Arc<dyn Quotas>> {
        self.inner.quotas()
    }

    fn permissions(&self, op: &Op) -> Answer<Result<u32>> {
        self.call(Operation::Permissions, op, |node, op| node.permissions(op))
    }

    fn read(&self, op: &Op, read: ReadRequest) -> Answer<ReadReply> {
        let (filled, pipe) = (read.filled, read.pipe);
        let reply = self.call(Operation::Read, op, move |node, op| node.read(op, read));
        reply.map(move |(buffer, content)| {
            let (mut buffer, count) = into_buffer((buffer, content), filled);
            let content = count.and_then(|count| received(&mut buffer[filled..], count, pipe));
            (buffer, content)
        })
    }

    fn write(&self, op: &Op, offset: u64, data: Payload, through: bool) -> Answer<Result<()>> {
        self.written.store(true, Ordering::Relaxed);
        let late = if through { None } else { self.client.late.lock().take() };
        if let Some(error) = late {
            *self.late.lock() = Some(error);
            return self.call(Operation::Write, op, |_, _| Answer::now(Ok(())));
        }
        self.change(Operation::Write, op, move |node, op| node.write(op, offset, data, through))
    }

    fn space(&self, op: &Op) -> Answer<Result<Space>> {
        self.call(Operation::Space, op, |node, op| node.space(op))
    }

    fn space_of_user(&self, op: &Op) -> Answer<Result<Space>> {
        self.call(Operation::Space, op, |node, op| node.space_of_user(op))
    }

    fn flush(&self, op: &Op) -> Answer<Result<()>> {
        let late = self.take_late();
        self.call(Operation::Flush, op, |node, op| node.flush(op)).map(move |flushed| late.and(flushed))
    }

    fn location(&self, op: &Op) -> Answer<Result<Vec<u8>>> {
        self.call(Operation::Location, op, |node, op| node.location(op))
    }

    fn read_link(&self, op: &Op) -> Answer<Result<Vec<u8>>> {
        self.call(Operation::ReadLink, op, |node, op| node.read_link(op))
    }

    fn set_extent(&self, op: &Op, extent: Extent) -> Answer<Result<()>> {
        self.change(Operation::SetExtent, op, move |node, op| node.set_extent(op, extent))
    }

    fn data_ranges(&self, op: &Op, offset: u64, length: u64) -> Answer<Result<Vec<DataRange>>> {
        self.call(Operation::DataRanges, op, move |node, op| node.data_ranges(op, offset, length))
    }

    fn copy(&self, op: &Op, from: &Arc<dyn Node>, range: CopyRange) -> Answer<Result<u64>> {
        let Some(from) = stored(from) else { return Answer::now(Err(Errno::XDEV)) };
        self.written.store(true, Ordering::Relaxed);
        self.change(Operation::Copy, op, move |node, op| node.copy(op, &from, range))
    }

    fn set_metadata(&self, op: &Op, set: SetMetadata) -> Answer<Result<()>> {
        self.change(Operation::SetMetadata, op, move |node, op| node.set_metadata(op, set))
    }

    fn list(&self, op: &Op, listing: ListRequest) -> Answer<Result<Page>> {
        self.call(Operation::List, op, move |node, op| node.list(op, listing))
    }

    fn entry(&self, op: &Op, name: &[u8], case: Case) -> Answer<Result<Option<Entry>>> {
        let name = name.to_owned();
        self.call(Operation::Entry, op, move |node, op| node.entry(op, &name, case))
    }

    fn get_xattr(&self, op: &Op, name: &str) -> Answer<Result<Option<Vec<u8>>>> {
        if let Some(value) = self.known().and_then(|known| known.value(op, name)) {
            return Answer::now(Ok(value));
        }
        let name = name.to_owned();
        self.call(Operation::GetXattr, op, move |node, op| node.get_xattr(op, &name))
    }

    fn set_xattr(&self, op: &Op, name: &str, value: Option<Vec<u8>>, how: SetXattr) -> Answer<Result<()>> {
        let name = name.to_owned();
        self.change(Operation::SetXattr, op, move |node, op| node.set_xattr(op, &name, value, how))
    }

    fn list_xattrs(&self, op: &Op) -> Answer<Result<Vec<String>>> {
        if let Some(known) = self.known() {
            let visible = |name: &String| op.is_server() || !name.starts_with("trusted.");
            return Answer::now(Ok(known.names.into_iter().filter(visible).collect()));
        }
        self.call(Operation::ListXattrs, op, |node, op| node.list_xattrs(op))
    }
}
