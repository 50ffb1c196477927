//! A handle to an alternate stream that implements [`Node`]. Operations on content apply to the stream, all others to
//! its file.

use std::any::Any;
use std::sync::Arc;

use bytes::Bytes;

use super::Stream;
use crate::answer::Answer;
use crate::environment::Environment;
use crate::vfs::{Access, Case, DataRange, Entry, Errno, Identity, Metadata, Node, Result, SetMetadata};

/// A handle.
pub(crate) struct StreamNode {
    pub(crate) stream: Arc<Stream>,
    /// The file of the stream.
    pub(crate) file: Arc<dyn Node>,
    who: Arc<Identity>,
    access: Access,
    environment: Arc<dyn Environment>,
}

/// Returns the stream that a handle leads to, if any.
pub(crate) fn of(node: &Arc<dyn Node>) -> Option<&StreamNode> {
    node.as_any().downcast_ref()
}

impl StreamNode {
    pub(crate) fn new(
        stream: Arc<Stream>,
        file: Arc<dyn Node>,
        who: Arc<Identity>,
        access: Access,
        environment: Arc<dyn Environment>,
    ) -> StreamNode {
        StreamNode { stream, file, who, access, environment }
    }

    /// Checks whether the kernel gives `who` the `access` to the file. Needed when a stream is opened, because its
    /// attributes are read and written without opening a file.
    pub(crate) async fn check(file: &Arc<dyn Node>, who: &Arc<Identity>, access: Access) -> Result<()> {
        let wanted = u32::from(access.read) << 2 | u32::from(access.write) << 1;
        if wanted != 0 && file.permissions(who).await? & wanted != wanted {
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
        let (who, now) = (self.stream.server(), self.environment.now());
        Answer::later(async move {
            change(stream, Arc::clone(&file)).await?;
            let set = SetMetadata { modified: Some(now), ..SetMetadata::default() };
            if let Err(errno) = file.set_metadata(&who, set).await {
                tracing::debug!(?errno, "cannot set the file's time after a write to its stream");
            }
            Ok(())
        })
    }
}

impl Node for StreamNode {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn metadata(&self) -> Answer<Result<Metadata>> {
        let (stream, file) = (Arc::clone(&self.stream), Arc::clone(&self.file));
        Answer::later(async move { stream.metadata(&file).await })
    }

    fn open(&self, who: &Arc<Identity>, access: Access) -> Answer<Result<Arc<dyn Node>>> {
        let (stream, file, who) = (Arc::clone(&self.stream), Arc::clone(&self.file), Arc::clone(who));
        let environment = Arc::clone(&self.environment);
        Answer::later(async move {
            StreamNode::check(&file, &who, access).await?;
            Ok(Arc::new(StreamNode::new(stream, file, who, access, environment)) as Arc<dyn Node>)
        })
    }

    fn permissions(&self, who: &Arc<Identity>) -> Answer<Result<u32>> {
        self.file.permissions(who)
    }

    fn read(&self, offset: u64, buffer: Vec<u8>, filled: usize) -> Answer<(Vec<u8>, Result<usize>)> {
        if !self.access.read {
            return Answer::now((buffer, Err(Errno::BADF)));
        }
        let (stream, file, who) = (Arc::clone(&self.stream), Arc::clone(&self.file), Arc::clone(&self.who));
        Answer::later(async move { stream.read(&file, &who, offset, buffer, filled).await })
    }

    fn write(&self, who: &Arc<Identity>, offset: u64, data: Bytes, through: bool) -> Answer<Result<()>> {
        let who = Arc::clone(who);
        self.change(move |stream, file| async move { stream.write(&file, &who, offset, data, through).await })
    }

    fn flush(&self) -> Answer<Result<()>> {
        let (stream, file) = (Arc::clone(&self.stream), Arc::clone(&self.file));
        Answer::later(async move { stream.flush(&file).await })
    }

    fn set_size(&self, who: &Arc<Identity>, size: u64) -> Answer<Result<()>> {
        let who = Arc::clone(who);
        self.change(move |stream, file| async move { stream.set_size(&file, &who, size).await })
    }

    /// Space for attributes cannot be reserved.
    fn allocate(&self, _who: &Arc<Identity>, _size: u64) -> Answer<Result<()>> {
        Answer::now(self.writer().and(Err(Errno::OPNOTSUPP)))
    }

    fn zero(&self, who: &Arc<Identity>, offset: u64, length: u64) -> Answer<Result<()>> {
        let who = Arc::clone(who);
        self.change(move |stream, file| async move { stream.zero(&file, &who, offset, length).await })
    }

    /// Streams have no holes.
    fn data_ranges(&self, offset: u64, length: u64) -> Answer<Result<Vec<DataRange>>> {
        let (stream, file) = (Arc::clone(&self.stream), Arc::clone(&self.file));
        Answer::later(async move {
            let end = offset.saturating_add(length).min(stream.metadata(&file).await?.size);
            let range = DataRange { offset, length: end.saturating_sub(offset) };
            Ok(if range.length > 0 { vec![range] } else { Vec::new() })
        })
    }

    fn set_metadata(&self, who: &Arc<Identity>, set: SetMetadata) -> Answer<Result<()>> {
        self.file.set_metadata(who, set)
    }

    fn list(&self, _: &Arc<Identity>, _: u64, _: usize, _: bool) -> Answer<Result<(Vec<Entry>, u64)>> {
        Answer::now(Err(Errno::NOTDIR))
    }

    fn entry(&self, _: &Arc<Identity>, _: &[u8], _: Case) -> Answer<Result<Option<Entry>>> {
        Answer::now(Err(Errno::NOTDIR))
    }

    fn is_empty(&self) -> Answer<Result<bool>> {
        Answer::now(Err(Errno::NOTDIR))
    }

    fn get_xattr(&self, who: &Arc<Identity>, name: &str) -> Answer<Result<Option<Vec<u8>>>> {
        self.file.get_xattr(who, name)
    }

    fn set_xattr(&self, who: &Arc<Identity>, name: &str, value: Option<Vec<u8>>) -> Answer<Result<()>> {
        self.file.set_xattr(who, name, value)
    }

    fn add_xattr(&self, who: &Arc<Identity>, name: &str, value: Vec<u8>) -> Answer<Result<()>> {
        self.file.add_xattr(who, name, value)
    }

    fn list_xattrs(&self, who: &Arc<Identity>) -> Answer<Result<Vec<String>>> {
        self.file.list_xattrs(who)
    }
}
