//! CLOSE ([MS-SMB2] 3.3.5.10), and the cleanup of opens that are closed for any other reason.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use proto::smb2::close::{CloseFlags, CloseRequest, CloseResponse};
use proto::status::Status;

use super::audit;
use super::change_notify;
use super::directory_lease;
use super::document;
use super::print;
use super::recycle::{self, Discarded};
use super::vetoed;
use crate::attributes;
use crate::error::{Error, Result};
use crate::files::notify::Change;
use crate::files::{Closed, Doom, LeaseId};
use crate::local::{locks, netatalk};
use crate::reparse;
use crate::request::{Reply, Request};
use crate::state::Server;
use crate::state::abandoned::{Abandoned, What};
use crate::state::durable;
use crate::state::open::{FileOpen, Open, Target};
use crate::streams;
use crate::streams::beside;
use crate::tree::Disk;
use crate::vfs::{Errno, FileId, Kind, Node, Op, RelPath, SetMetadata};

pub(crate) async fn close(request: &Request<'_>, reply: &mut Reply) -> Result<Status> {
    let asked = CloseRequest::decode(request.message)?;
    let open = request.open(asked.file_id, reply)?;
    // Two CLOSE requests may race; only one of them removes the open.
    let open = request.session()?.remove_open(open.volatile_id).ok_or(Error::new(Status::FILE_CLOSED))?;
    let mut response = CloseResponse::default();
    if let Some(file) = open.file() {
        file.end_changes();
        file.changes_have_ended(&request.connection.server).await;
        settle_write_time(&request.connection.server, file).await;
    }
    if asked.flags.contains(CloseFlags::POSTQUERY_ATTRIB)
        && let (Some(file), Some(disk)) = (open.file(), open.tree.disk())
        && let Ok(metadata) = file.shown_node().metadata(&file.op).await
    {
        response = attributes::close_response(disk, file, &metadata);
    }
    match &open.target {
        Target::Job(job) => print::submit(request, reply, &open, job).await?,
        _ => close_open(&request.connection.server, &open).await?,
    }
    response.encode(&mut reply.body());
    Ok(Status::SUCCESS)
}

/// Sets the write time for writes that have not updated it yet.
async fn settle_write_time(server: &Server, file: &FileOpen) {
    if server.opens.files.settle_write_time(file.file) {
        let set = SetMetadata { modified: Some(server.environment.now()), ..SetMetadata::default() };
        if let Err(errno) = file.node.set_metadata(&file.op, set).await {
            tracing::debug!(?errno, "cannot set the time of the last write");
        }
    }
}

/// Closes an open that was removed from its session: releases locks and the share mode, and deletes the file if
/// delete-on-close is set and this was its last open ([MS-FSA] 2.1.5.5). Returns the error of an earlier write that the
/// file system could not carry out; the open is closed nevertheless.
pub(crate) async fn close_open(server: &Server, open: &Arc<Open>) -> std::result::Result<(), Errno> {
    match &open.target {
        Target::File(file) => close_file(server, open, file).await,
        Target::Pipe(pipe) => {
            for spool in pipe.close() {
                document::discard(&spool).await;
            }
            Ok(())
        }
        Target::Job(job) => {
            if let Some(printer) = open.tree.printer() {
                print::discard(&printer.spool, job).await;
            }
            Ok(())
        }
        Target::Quotas(_) => Ok(()),
    }
}

/// As [`close_open`], for an open that no client waits for. Logs an error. If a change is in progress through it, it is
/// closed after that, and this does not wait.
pub(crate) async fn close_unasked(server: &Server, open: &Arc<Open>) {
    match open.file().is_some_and(|file| begin_close(server, open, file)) {
        true => {
            // It must not return after a restart.
            durable::remove(server, open).await;
            server.opens.lingering.add(open.clone());
        }
        false => close_now(server, open).await,
    }
}

/// Closes opens when the changes through them have ended, forever. One whose storage hangs delays no others.
pub(crate) async fn close_lingering(server: &Server) {
    let mut closing: Vec<Pin<Box<dyn Future<Output = ()> + Send + '_>>> = Vec::new();
    loop {
        let mut ended = pin!(server.opens.lingering.ended());
        ended.as_mut().enable();
        for open in server.opens.lingering.take_settled() {
            closing.push(Box::pin(async move { close_now(server, &open).await }));
        }
        poll_fn(|context| {
            closing.retain_mut(|close| close.as_mut().poll(context).is_pending());
            ended.as_mut().poll(context)
        })
        .await;
    }
}

/// As [`close_unasked`], for an open through which nothing is being changed.
pub(crate) async fn close_now(server: &Server, open: &Arc<Open>) {
    if let Err(errno) = close_open(server, open).await {
        let path = open.file().map(|file| file.name.path.lock().clone()).unwrap_or_default();
        tracing::error!(%path, ?errno, "data that a client had written is lost: the file system reported an error when \
                                        the file was closed; check the storage");
    }
}

/// Ends what does not wait for changes in progress: no change begins, and requests that wait on the open are answered.
/// Returns whether a change is in progress.
fn begin_close(server: &Server, open: &Arc<Open>, file: &FileOpen) -> bool {
    let is_changing = file.end_changes();
    if let Some(id) = file.durability.take_creation() {
        server.opens.creations.forget(id);
    }
    if let Some(instance) = file.durability.instance() {
        server.opens.instances.remove(instance, open);
    }
    for waiting in file.waiting.lock().drain(..) {
        waiting.cancel();
    }
    is_changing
}

async fn close_file(server: &Server, open: &Arc<Open>, file: &FileOpen) -> std::result::Result<(), Errno> {
    begin_close(server, open, file);
    file.changes_have_ended(server).await;
    change_notify::end(server, open, file);
    let disk = open.tree.disk();
    if let Some(disk) = disk
        && file.modified.load(Ordering::Relaxed)
    {
        directory_lease::entry_of_changes(server, disk, file).await;
    }
    locks::close(server, file).await;
    if let Some(disk) = disk {
        netatalk::leave(disk, file).await;
    }
    let delete = file.delete_on_close.load(Ordering::Acquire);
    if delete {
        server.opens.files.set_doom(file.file, file.doom());
    }
    let closed = server.opens.files.close(file.file, open.persistent_id, delete);
    if delete && closed == Closed::Stays {
        // Clients with cached handles are asked to close them, so that the file can be deleted. The CLOSE does not wait
        // for them.
        let _ =
            server.opens.files.name_changes(file.file, open.persistent_id, None, false, server.environment.uptime());
        // After a restart of the server, the persistent opens that are left must delete the file. An error is logged.
        let _ = durable::save_all(server, file.file).await;
    }
    if let Some(disk) = disk.filter(|_| closed != Closed::Stays) {
        let stream = streams::of(&file.node).and_then(|node| node.stream.name());
        let find = || match closed {
            Closed::DeleteOwnName => Doomed::new(file.doom()),
            _ => Doomed::of(server, file.file, file.doom()),
        };
        let mut doomed = find();
        let mut deleted = delete_file(server, disk, file, &doomed).await;
        if deleted == Err(Errno::NOENT) {
            // A Mac or a POSIX client may have renamed the file or a directory above meanwhile.
            let moved = find();
            if moved.path != doomed.path {
                doomed = moved;
                deleted = delete_file(server, disk, file, &doomed).await;
            }
        }
        match deleted {
            Ok(()) if doomed.is_ignored => {}
            Ok(()) => report_deletion(server, disk, &doomed.path, stream.as_deref(), file.kind),
            Err(errno) => {
                tracing::debug!(path = %doomed.path, ?errno, "cannot delete a file when its last open is closed")
            }
        }
        server.opens.files.deleted(file.file);
        doomed.entry_changes(server, disk, file.lease.and_then(|lease| lease.parent_id())).await;
    } else if let Some(disk) = disk {
        server.report(disk, file);
        if delete {
            server.doomed(disk, file);
        }
        if file.settles.load(Ordering::Acquire) {
            reparse::settle(server, disk, file).await;
        }
    }
    close_base(server, open, file).await;
    durable::remove(server, open).await;
    let closed = file.node.close(&file.op).await;
    if let Some(disk) = disk {
        audit::closed(disk, file, outcome(&closed));
    }
    closed
}

/// Closes the opens that have expired or block another client.
pub(crate) async fn close_ended(server: &Server) {
    for open in server.opens.durable.take_ended(server.environment.uptime()) {
        tracing::debug!(persistent = open.persistent_id, "closing an expired durable open");
        close_unasked(server, &open).await;
    }
}

/// The name of a file to delete, and the context for the deletion: the user who requested it, not the one who closes
/// the last handle.
pub(super) struct Doomed {
    pub(super) path: RelPath,
    pub(super) op: Op,
    pub(super) is_ignored: bool,
}

impl Doomed {
    /// Returns what to delete for the file `id`, or for the file that a stream belongs to; `own` is that of the last
    /// open.
    fn of(server: &Server, id: FileId, own: Doom) -> Doomed {
        let doom = server.opens.files.doom(id).unwrap_or_else(|| own.clone());
        // In another share the file has another path.
        let name = if doom.name.volume == own.name.volume { doom.name } else { own.name };
        Doomed::new(Doom { name, ..doom })
    }

    fn new(doom: Doom) -> Doomed {
        let path = doom.name.path.lock().clone();
        Doomed { path, op: doom.op, is_ignored: doom.is_ignored }
    }

    async fn entry_changes(&self, server: &Server, disk: &Disk, by: Option<LeaseId>) {
        directory_lease::entry_changes(server, disk, &self.path, by).await;
    }
}

/// Deletes the files whose last opens were those of failed CREATE requests, and reports those that they made.
pub(crate) async fn delete_abandoned(server: &Server) {
    for Abandoned { tree, name, file, what } in server.opens.abandoned.take() {
        let Some(disk) = tree.disk() else { continue };
        let doomed = Doomed::of(server, file, Doom { name: name.clone(), op: disk.op.clone(), is_ignored: false });
        let deleted = match &what {
            What::Made(kind) => {
                let path = name.path.lock().clone();
                server.changed(disk, &path, Change::added(*kind));
                // The client that sent the CREATE does not know the new name either.
                directory_lease::entry_changes(server, disk, &path, None).await;
                continue;
            }
            What::File(node, kind) => {
                let deleted = unlink(server, disk, &doomed, node, file, *kind).await;
                deleted.map(|()| report_deletion(server, disk, &doomed.path, None, *kind))
            }
            What::Stream(..) if doomed.is_ignored => Ok(()),
            What::Stream(stream, node) => {
                let name = stream.name();
                let deleted = stream.remove(node, &doomed.op).await;
                deleted.map(|()| report_deletion(server, disk, &doomed.path, name.as_deref(), Kind::File))
            }
        };
        if let Err(errno) = deleted {
            tracing::debug!(path = %doomed.path, ?errno, "cannot delete a file when its last open is closed");
        }
        server.opens.files.deleted(file);
        doomed.entry_changes(server, disk, None).await;
    }
}

/// Reports the removal of a stream, or of a file or directory of this kind, to watches.
fn report_deletion(server: &Server, disk: &Disk, path: &RelPath, stream: Option<&str>, kind: Kind) {
    match stream {
        _ if server.opens.watches.is_idle() => {}
        Some(name) => server.stream_changed(disk, path, name, Change::stream_removed()),
        None => server.changed(disk, path, Change::removed(kind)),
    }
}

/// Closes the open of a stream's file, which an open stream holds as well. The file may have had delete pending.
async fn close_base(server: &Server, open: &Open, file: &FileOpen) {
    let Some(stream) = streams::of(&file.node) else { return };
    let base = stream.stream.file();
    if server.opens.files.close(base, open.persistent_id, false) == Closed::Delete
        && let Some(disk) = open.tree.disk()
    {
        let doomed = Doomed::of(server, base, file.doom());
        if let Err(errno) = delete_base(server, disk, &doomed, &stream.file).await {
            tracing::debug!(path = %doomed.path, ?errno, "cannot delete a file when the last open of its streams is \
                                                          closed");
        }
        server.opens.files.deleted(base);
        doomed.entry_changes(server, disk, file.lease.and_then(|lease| lease.parent_id())).await;
    }
}

async fn delete_base(
    server: &Server,
    disk: &Disk,
    doomed: &Doomed,
    base: &Arc<dyn Node>,
) -> std::result::Result<(), Errno> {
    let metadata = base.metadata(&doomed.op).await?;
    unlink(server, disk, doomed, base, metadata.id, metadata.kind).await?;
    report_deletion(server, disk, &doomed.path, None, metadata.kind);
    Ok(())
}

async fn delete_file(server: &Server, disk: &Disk, file: &FileOpen, doomed: &Doomed) -> std::result::Result<(), Errno> {
    match streams::of(&file.node) {
        Some(_) if doomed.is_ignored => Ok(()),
        Some(node) => {
            let name = node.stream.name();
            let removed = node.stream.remove(&node.file, &doomed.op).await;
            audit::deleted(disk, &doomed.path, name.as_deref(), None, outcome(&removed));
            removed
        }
        None => unlink(server, disk, doomed, &file.node, file.file, file.kind).await,
    }
}

fn outcome<T>(result: &std::result::Result<T, Errno>) -> Status {
    result.as_ref().map_or_else(|errno| errno.status(), |_| Status::SUCCESS)
}

/// As [`remove_name`]. Vetoed names in a directory are removed first, if that is configured.
async fn unlink(
    server: &Server,
    disk: &Disk,
    doomed: &Doomed,
    node: &Arc<dyn Node>,
    id: FileId,
    kind: Kind,
) -> std::result::Result<(), Errno> {
    if kind == Kind::Directory && disk.share.names.delete_veto_files {
        Box::pin(vetoed::remove(server, disk, doomed, node)).await;
    }
    remove_name(server, disk, doomed, node, id, kind).await
}

/// Removes the name of the file `id`, whose node is `node`, or moves the file to the recycle bin.
pub(super) async fn remove_name(
    server: &Server,
    disk: &Disk,
    doomed: &Doomed,
    node: &Arc<dyn Node>,
    id: FileId,
    kind: Kind,
) -> std::result::Result<(), Errno> {
    let _moving = beside::moving(disk, &server.opens.doubles, &doomed.path, id.device).await;
    let discarded = Discarded { op: &doomed.op, path: &doomed.path, node, id, kind };
    match recycle::discard(server, disk, &discarded).await? {
        Some(to) => {
            audit::deleted(disk, &doomed.path, None, Some(&to), Status::SUCCESS);
            for moved in beside::moved(disk, &doomed.op, &doomed.path, &to, true).await {
                server.changed(disk, &moved.from, Change::removed(Kind::File));
                server.changed(disk, &moved.to, Change::added(Kind::File));
            }
            server.changed(disk, &to, Change::added(kind));
            directory_lease::entry_changes(server, disk, &to, None).await;
        }
        None => {
            let removed = disk.vfs.unlink(&doomed.op, &doomed.path, id, kind).await;
            audit::deleted(disk, &doomed.path, None, None, outcome(&removed));
            server.opens.streams.unlinked(disk, node, removed?).await;
            if let Some(path) = beside::removed(disk, &doomed.op, &doomed.path).await {
                server.changed(disk, &path, Change::removed(Kind::File));
            }
        }
    }
    if disk.share.names.mangled_names {
        server.opens.tunnel.enter(disk.volume, doomed.path.clone(), server.environment.uptime());
    }
    Ok(())
}
