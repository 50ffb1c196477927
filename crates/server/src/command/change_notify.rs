//! CHANGE_NOTIFY ([MS-SMB2] 3.3.5.19, [MS-FSA] 2.1.5.11): waits for changes in a directory.
//!
//! Changes are collected in `files::notify`. This module checks requests, waits and responds.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use proto::bytes::Writer;
use proto::dtyp::AccessMask;
use proto::fscc::{EntryChain, FileNotifyInformation};
use proto::smb2::change_notify::{ChangeNotifyFlags, ChangeNotifyRequest, ChangeNotifyResponse, CompletionFilter};
use proto::status::Status;

use crate::accounting::Resource;
use crate::error::{Error, Result};
use crate::files::notify::{AccessCheck, Event, NotifyResult, Terms, Watch};
use crate::request::{Reply, Request};
use crate::state::Server;
use crate::state::connection::Cancelled;
use crate::state::open::{FileOpen, Open};
use crate::vfs::Kind;

/// The defined filter bits; others are ignored (3.3.5.19).
const KNOWN: CompletionFilter = CompletionFilter(0x0fff);

pub(crate) async fn change_notify(request: &Request<'_>, reply: &mut Reply) -> Result<Status> {
    let asked = ChangeNotifyRequest::decode(request.message)?;
    let server = &request.connection.server;
    if request.connection.negotiated().is_some_and(|it| asked.output_buffer_length > it.max_transact) {
        return Err(Error::because(Status::INVALID_PARAMETER, "the length exceeds MaxTransactSize"));
    }
    request.check_charge(asked.output_buffer_length as usize)?;
    let open = request.open(asked.file_id, reply)?;
    if !server.policy().change_notify {
        return Err(Error::because(
            Status::NOT_IMPLEMENTED,
            "change notifications are disabled (`change notify = no`)",
        ));
    }
    let file = open.file().filter(|file| file.kind == Kind::Directory).ok_or(Error::new(Status::INVALID_PARAMETER))?;
    // Samba's CVE-2020-14318: watching a directory requires the right to list it.
    if open.granted.0 & AccessMask::FILE_LIST_DIRECTORY.0 == 0 {
        return Err(Error::new(Status::ACCESS_DENIED));
    }
    request.check_last()?;
    // [MS-FSA] 2.1.5.11 and `ChangeNotifyDirectoryMarkedDeleted`.
    if file.delete_on_close.load(Ordering::Acquire) || server.opens.files.is_delete_pending(file.file) {
        return Err(Error::new(Status::DELETE_PENDING));
    }
    let watch = watch(server, &open, file, &asked)?;
    match wait(request, reply, file, watch, asked.output_buffer_length as usize).await? {
        NotifyResult::Changes(events) => Ok(answer(reply, &events, asked.output_buffer_length as usize)),
        NotifyResult::TooMuch => Ok(answer(reply, &[], 0)),
        NotifyResult::Doomed => Err(Error::new(Status::DELETE_PENDING)),
    }
}

/// Returns the handle's watch, which its first request creates.
fn watch<'a>(
    server: &Server,
    open: &'a Open,
    file: &'a FileOpen,
    asked: &ChangeNotifyRequest,
) -> Result<&'a Arc<Watch>> {
    if let Some(watch) = file.watch.get() {
        return Ok(watch);
    }
    let disk = open.tree.disk().ok_or(Error::new(Status::INVALID_PARAMETER))?;
    let limits = server.policy().limits.clone();
    let tree = asked.flags.contains(ChangeNotifyFlags::WATCH_TREE);
    let terms = Terms {
        filter: asked.completion_filter & KNOWN,
        tree,
        space: limits.bytes_per_watch.min(asked.output_buffer_length as usize),
        file: file.file,
        veto: disk.veto.clone(),
        characters: disk.share.names.characters.clone(),
        charge: open.charge.payer().charge(Resource::Watches, 1)?,
        access: tree
            .then(|| AccessCheck::new(disk, &file.name, &server.environment, &server.opens.watches.checks))
            .flatten(),
    };
    let path = file.name.path.lock().clone();
    let made = server.opens.watches.add(&disk.share.location(), &path, terms);
    // Two concurrent first requests of one handle; one watch is sufficient.
    match file.watch.set(made.clone()) {
        Ok(()) if server.policy().kernel_change_notify => listen(file, &made),
        Ok(()) => {}
        Err(second) => server.opens.watches.remove(&disk.share.location(), &path, &second),
    }
    // The handle may have been closed before its watch was set, so that `end` did not find it.
    if file.closed.load(Ordering::Acquire) {
        end(server, open, file);
    }
    file.watch.get().ok_or(Error::new(Status::FILE_CLOSED))
}

/// Makes the file system report changes by local programs, if it can.
fn listen(file: &FileOpen, watch: &Arc<Watch>) {
    match file.node.watch(watch.wanted(), watch.clone()) {
        Ok(local) => watch.hold(local),
        Err(errno) => tracing::debug!(?errno, "clients are not notified of changes by local programs here"),
    }
}

/// Removes the watch of a closed handle.
pub(crate) fn end(server: &Server, open: &Open, file: &FileOpen) {
    if let (Some(watch), Some(disk)) = (file.watch.get(), open.tree.disk()) {
        let path = file.name.path.lock().clone();
        server.opens.watches.remove(&disk.share.location(), &path, watch);
    }
}

async fn wait(
    request: &Request<'_>,
    reply: &mut Reply,
    file: &FileOpen,
    watch: &Watch,
    space: usize,
) -> Result<NotifyResult> {
    let mut asked = match watch.ask(space) {
        Ok(told) => return Ok(told),
        Err(wait) => wait,
    };
    let pending = match reply.go_async(request) {
        Ok(pending) => pending,
        Err(error) => return watch.give_up(asked).ok_or(error),
    };
    file.waiting.lock().push(pending.clone());
    let told = pending.wait(&mut asked.result).await;
    file.waiting.lock().retain(|waiting| !Arc::ptr_eq(waiting, &pending));
    if let Ok(Ok(told)) = told {
        return Ok(told);
    }
    let late = watch.give_up(asked);
    let closed = told != Err(Cancelled) || file.closed.load(Ordering::Acquire);
    late.ok_or(Error::new(if closed { Status::NOTIFY_CLEANUP } else { Status::CANCELLED }))
}

/// Writes the response. Without events, or if they do not fit, the status requests that the client list the directory
/// again.
fn answer(reply: &mut Reply, events: &[Event], space: usize) -> Status {
    let mut buffer = Vec::new();
    let mut out = Writer::new(&mut buffer);
    let mut chain = EntryChain::new(&out, FileNotifyInformation::ALIGNMENT, space);
    let fit = events.iter().all(|event| {
        let entry = FileNotifyInformation { action: event.action, file_name: &event.name };
        entry.push(&mut chain, &mut out)
    });
    let (buffer, status) =
        if fit && !events.is_empty() { (&*buffer, Status::SUCCESS) } else { (&[][..], Status::NOTIFY_ENUM_DIR) };
    ChangeNotifyResponse { buffer }.encode(&mut reply.body());
    status
}
