//! The copy of a whole file with its streams, which a Mac requests by FSCTL_SRV_COPYCHUNK without chunks
//! (`fruit:copyfile`).

use std::sync::Arc;

use proto::dtyp::AccessMask;
use proto::smb2::create::ShareAccess;
use proto::status::Status;

use super::{Control, change};
use crate::error::{Error, Result};
use crate::files::notify::Change;
use crate::files::oplock::Opening;
use crate::files::{self, ShareMode};
use crate::request::Reply;
use crate::state::connection::Pending;
use crate::state::open::{FileOpen, Open};
use crate::streams::beside::at;
use crate::streams::{self, Stream, StreamNode};
use crate::vfs::{self, Access, Extent, FileId, Node};
use crate::yielding::Work;

/// The number of bytes after which the copy lets other requests of the connection continue. A longer copy gets an
/// interim response first.
const STEP: u64 = 16 << 20;

/// The cost of preparing a stream ([`Work::spend`]).
const STREAM: u32 = 12;

/// Whether a request without chunks copies a file.
pub(super) fn is_asked_for(control: &Control<'_>) -> bool {
    control.request.connection.server.policy().mac.copyfile && control.request.is_of_mac()
}

/// Copies the content and the streams of `from` to the file of the request. Returns the length of the content.
pub(super) async fn copy(control: &Control<'_>, reply: &mut Reply, source: &Open, from: &FileOpen) -> Result<u64> {
    let target = control.file()?;
    let server = &control.request.connection.server;
    let size = from.node.metadata(&from.op).await?.size;
    // All content of the target is replaced, also what is behind the end of the source.
    let replaced = size.max(target.node.metadata(&target.op).await?.size);
    if !source.may_read(server, 0, size) || !control.open.may_write(server, 0, replaced) {
        return Err(Error::new(Status::FILE_LOCK_CONFLICT));
    }
    if from.file == target.file {
        return Ok(size);
    }
    let are_files = streams::of(&from.node).is_none() && streams::of(&target.node).is_none();
    let pairs = if are_files { pairs(control, source, from, target).await? } else { Vec::new() };
    let all = pairs.iter().fold(size, |sum, pair| sum.saturating_add(pair.size));
    let pending = if all > STEP { Some(reply.go_async(control.request)?) } else { None };
    let steps = Steps { control, source, pending };
    let size = change(control, || content(&steps, from, target, size)).await?;
    for pair in &pairs {
        steps.check(0, 0)?;
        alternate(control, from, target, pair).await?;
    }
    Ok(size)
}

/// What may end a copy between two steps.
struct Steps<'a> {
    control: &'a Control<'a>,
    source: &'a Open,
    /// The interim response of a long copy.
    pending: Option<Arc<Pending>>,
}

impl Steps<'_> {
    /// Fails if the request was cancelled, if a handle was closed, or if another open has locked the range meanwhile.
    fn check(&self, at: u64, length: u64) -> Result<()> {
        for file in [self.source.file(), self.control.open.file()].into_iter().flatten() {
            file.still_open()?;
        }
        if self.pending.as_ref().is_some_and(|pending| pending.is_cancelled()) {
            return Err(Error::new(Status::CANCELLED));
        }
        let server = &self.control.request.connection.server;
        match self.source.may_read(server, at, length) && self.control.open.may_write(server, at, length) {
            true => Ok(()),
            false => Err(Error::new(Status::FILE_LOCK_CONFLICT)),
        }
    }
}

async fn content(steps: &Steps<'_>, from: &FileOpen, target: &FileOpen, size: u64) -> Result<u64> {
    let mut at = 0;
    while at < size {
        let step = STEP.min(size - at);
        steps.check(at, step)?;
        let copied = vfs::copy_range(&target.op, &from.node, at, &target.node, at, step).await?;
        at += copied;
        if copied < step {
            break;
        }
    }
    target.node.set_extent(&target.op, Extent::Size(at)).await?;
    Ok(at)
}

/// A stream of the source, and the one of the target that is overwritten.
struct Pair<'a> {
    read: Arc<Stream>,
    written: Arc<Stream>,
    /// The number of bytes.
    size: u64,
    _entry: Exclusive<'a>,
}

/// The entry of a stream in the table of open files, which no other open may share, so that no client has locks or a
/// cache of its content.
struct Exclusive<'a> {
    files: &'a files::Table,
    stream: FileId,
    open: u64,
}

impl Drop for Exclusive<'_> {
    fn drop(&mut self) {
        // There is no other open by which it could have become delete pending.
        self.files.close(self.stream, self.open, false);
    }
}

/// Returns the streams to be copied. Fails before anything is changed if one of the target is open.
async fn pairs<'a>(
    control: &'a Control<'_>,
    source: &Open,
    from: &FileOpen,
    target: &FileOpen,
) -> Result<Vec<Pair<'a>>> {
    let mut pairs = Vec::new();
    let (Some(of_source), disk) = (source.tree.disk(), control.disk()?) else { return Ok(pairs) };
    let (Some(read), Some(written)) = (&of_source.share.streams, &disk.share.streams) else { return Ok(pairs) };
    let server = &control.request.connection.server;
    let files = &server.opens.files;
    let mut work = Work::new();
    for stored in streams::list_all(&from.node, &from.op, read, from.kind).await? {
        work.spend(STREAM).await;
        let stream = server.opens.streams.stream(of_source, read, (from.file, at(&from.name, from.kind)), &stored.name);
        // Finder info that is not valid does not exist.
        if !stream.exists(&from.node, &from.op).await? {
            continue;
        }
        let size = stream.metadata(&from.node).await?.size;
        let place = (target.file, at(&target.name, target.kind));
        let copy = server.opens.streams.stream(disk, written, place, &stored.name);
        // Local programs may have stored two streams whose names differ only in case.
        if pairs.iter().any(|pair: &Pair<'_>| pair.written.id == copy.id) {
            continue;
        }
        let mode = ShareMode { access: AccessMask::FILE_WRITE_DATA, share: ShareAccess(0) };
        let opening = Opening::new(AccessMask::FILE_WRITE_DATA, true, None, server.environment.uptime());
        let open = server.next_open_id();
        if files.open(copy.id, open, mode, &target.name, files.removals(), opening).is_err() {
            return Err(Error::because(Status::SHARING_VIOLATION, "a stream that would be overwritten is open"));
        }
        let _entry = Exclusive { files, stream: copy.id, open };
        pairs.push(Pair { read: stream, written: copy, size, _entry });
    }
    Ok(pairs)
}

/// Copies an alternate stream.
async fn alternate(control: &Control<'_>, from: &FileOpen, target: &FileOpen, pair: &Pair<'_>) -> Result<()> {
    let (disk, server) = (control.disk()?, &control.request.connection.server);
    let is_new = !pair.written.exists(&target.node, &target.op).await?;
    if is_new {
        pair.written.create(&target.node, &target.op, false).await?;
    }
    let handle = |stream: &Arc<Stream>, file: &Arc<dyn Node>, op: &vfs::Op, access| -> Arc<dyn Node> {
        let (stream, file) = (Arc::clone(stream), Arc::clone(file));
        Arc::new(StreamNode::new(stream, file, op.clone(), access, server.environment.clone()))
    };
    let reading = handle(&pair.read, &from.node, &from.op, Access { read: true, write: false });
    let writing = handle(&pair.written, &target.node, &target.op, Access { read: true, write: true });
    let copied = vfs::copy_through_memory(&target.op, &reading, 0, &writing, 0, pair.size).await?;
    writing.set_extent(&target.op, Extent::Size(copied)).await?;
    if let Some(name) = pair.written.name() {
        let path = target.name.path.lock().clone();
        let change = if is_new { Change::stream_added() } else { Change::stream_modified() };
        server.stream_changed(disk, &path, &name, change);
    }
    Ok(())
}
