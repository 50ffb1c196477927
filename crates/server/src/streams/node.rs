//! A handle to an alternate stream that implements [`Node`]. Operations on content apply to the stream, all others to
//! its file.

use std::any::Any;
use std::sync::Arc;

use super::Stream;
use crate::answer::Answer;
use crate::environment::Environment;
use crate::vfs::{
    Access, Case, DataRange, Entry, Errno, Extent, ListRequest, Metadata, Node, Op, Page, Payload, Quotas, ReadReply,
    ReadRequest, Result, SetMetadata, SetXattr, Space,
};

/// A handle.
pub(crate) struct StreamNode {
    pub(crate) stream: Arc<Stream>,
    /// The file of the stream.
    pub(crate) file: Arc<dyn Node>,
    op: Op,
    access: Access,
    environment: Arc<dyn Environment>,
}

/// Returns the stream that a handle leads to, if any.
pub(crate) fn of(node: &Arc<dyn Node>) -> Option<&StreamNode> {
    (&**node as &dyn Any).downcast_ref()
}

impl StreamNode {
    pub(crate) fn new(
        stream: Arc<Stream>,
        file: Arc<dyn Node>,
        op: Op,
        access: Access,
        environment: Arc<dyn Environment>,
    ) -> StreamNode {
        StreamNode { stream, file, op, access, environment }
    }

    /// Checks whether the kernel gives the user of `op` the `access` to the file. Needed when a stream is opened,
    /// because its attributes are read and written without opening a file.
    pub(crate) async fn check(file: &Arc<dyn Node>, op: &Op, access: Access) -> Result<()> {
        let wanted = u32::from(access.read) << 2 | u32::from(access.write) << 1;
        if wanted != 0 && file.permissions(op).await? & wanted != wanted {
            return Err(Errno::ACCES);
        }
        Ok(())
    }

    fn writer(&self) -> Result<(Arc<Stream>, Arc<dyn Node>)> {
        if self.access.write { Ok((Arc::clone(&self.stream), Arc::clone(&self.file))) } else { Err(Errno::BADF) }
    }

    /// Applies `change` to the content and updates the file's times ([MS-FSA] 2.1.4.17).
    fn change<F, R>(&self, change: F) -> Answer<Result<()>>
    where
        F: FnOnce(Arc<Stream>, Arc<dyn Node>) -> R + Send + 'static,
        R: Future<Output = Result<()>> + Send,
    {
        let (stream, file) = match self.writer() {
            Ok(both) => both,
            Err(errno) => return Answer::now(Err(errno)),
        };
        let (op, now) = (self.stream.server(), self.environment.now());
        Answer::later(async move {
            change(stream, Arc::clone(&file)).await?;
            let set = SetMetadata { modified: Some(now), ..SetMetadata::default() };
            if let Err(errno) = file.set_metadata(&op, set).await {
                tracing::debug!(?errno, "cannot set the file's time after a write to its stream");
            }
            Ok(())
        })
    }
}

impl Node for StreamNode {
    fn metadata(&self, _op: &Op) -> Answer<Result<Metadata>> {
        let (stream, file) = (Arc::clone(&self.stream), Arc::clone(&self.file));
        Answer::later(async move { stream.metadata(&file).await })
    }

    fn open(&self, op: &Op, access: Access) -> Answer<Result<Arc<dyn Node>>> {
        let (stream, file, op) = (Arc::clone(&self.stream), Arc::clone(&self.file), op.clone());
        let environment = Arc::clone(&self.environment);
        Answer::later(async move {
            StreamNode::check(&file, &op, access).await?;
            Ok(Arc::new(StreamNode::new(stream, file, op, access, environment)) as Arc<dyn Node>)
        })
    }

    fn close(&self, op: &Op) -> Answer<Result<()>> {
        self.file.close(op)
    }

    fn quotas(&self) -> Option<Arc<dyn Quotas>> {
        self.file.quotas()
    }

    fn permissions(&self, op: &Op) -> Answer<Result<u32>> {
        self.file.permissions(op)
    }

    fn read(&self, _op: &Op, read: ReadRequest) -> Answer<ReadReply> {
        if !self.access.read {
            return Answer::now((read.buffer, Err(Errno::BADF)));
        }
        let (stream, file, op) = (Arc::clone(&self.stream), Arc::clone(&self.file), self.op.clone());
        Answer::later(async move { stream.read(&file, &op, read).await })
    }

    fn write(&self, op: &Op, offset: u64, data: Payload, through: bool) -> Answer<Result<()>> {
        let op = op.clone();
        self.change(move |stream, file| async move { stream.write(&file, &op, offset, data, through).await })
    }

    fn space(&self, op: &Op) -> Answer<Result<Space>> {
        self.file.space(op)
    }

    fn space_of_user(&self, op: &Op) -> Answer<Result<Space>> {
        self.file.space_of_user(op)
    }

    fn flush(&self, op: &Op) -> Answer<Result<()>> {
        let (stream, file, op) = (Arc::clone(&self.stream), Arc::clone(&self.file), op.clone());
        Answer::later(async move { stream.flush(&file, &op).await })
    }

    /// Space for attributes cannot be reserved.
    fn set_extent(&self, op: &Op, extent: Extent) -> Answer<Result<()>> {
        let op = op.clone();
        match extent {
            Extent::Size(size) => {
                self.change(move |stream, file| async move { stream.set_size(&file, &op, size).await })
            }
            Extent::Reserve(_) => Answer::now(self.writer().and(Err(Errno::OPNOTSUPP))),
            Extent::Zero { offset, length } => {
                self.change(move |stream, file| async move { stream.zero(&file, &op, offset, length).await })
            }
        }
    }

    /// Streams have no holes.
    fn data_ranges(&self, _op: &Op, offset: u64, length: u64) -> Answer<Result<Vec<DataRange>>> {
        let (stream, file) = (Arc::clone(&self.stream), Arc::clone(&self.file));
        Answer::later(async move {
            let end = offset.saturating_add(length).min(stream.metadata(&file).await?.size);
            let range = DataRange { offset, length: end.saturating_sub(offset) };
            Ok(if range.length > 0 { vec![range] } else { Vec::new() })
        })
    }

    fn set_metadata(&self, op: &Op, set: SetMetadata) -> Answer<Result<()>> {
        self.file.set_metadata(op, set)
    }

    fn list(&self, _: &Op, _: ListRequest) -> Answer<Result<Page>> {
        Answer::now(Err(Errno::NOTDIR))
    }

    fn entry(&self, _: &Op, _: &[u8], _: Case) -> Answer<Result<Option<Entry>>> {
        Answer::now(Err(Errno::NOTDIR))
    }

    fn get_xattr(&self, op: &Op, name: &str) -> Answer<Result<Option<Vec<u8>>>> {
        self.file.get_xattr(op, name)
    }

    fn set_xattr(&self, op: &Op, name: &str, value: Option<Vec<u8>>, how: SetXattr) -> Answer<Result<()>> {
        self.file.set_xattr(op, name, value, how)
    }

    fn list_xattrs(&self, op: &Op) -> Answer<Result<Vec<String>>> {
        self.file.list_xattrs(op)
    }
}
