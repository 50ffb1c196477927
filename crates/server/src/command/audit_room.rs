//! `frevo:audit overflow = refuse`: a request whose events might not fit into the queue of their destination is refused
//! before it is executed.
//!
//! The room is reserved, so that events of requests that run at the same time do not take it. What a request adds is
//! estimated from its length and the path of its open; the estimate is never too small.

use std::sync::Arc;

use proto::fscc::{FileInformationClass as Class, FileQuotaInformation};
use proto::smb2::FileId;
use proto::smb2::InfoType;
use proto::smb2::create::{CreateDisposition, CreateOptions, CreateRequest};
use proto::smb2::create_context::name;
use proto::smb2::flush::FlushRequest;
use proto::smb2::header::Command;
use proto::smb2::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest};
use proto::smb2::read::ReadRequest;
use proto::smb2::set_info::SetInfoRequest;
use proto::smb2::write::WriteRequest;
use proto::status::Status;

use super::audit::copy;
use crate::audit::{Reservation, Trail};
use crate::error::{Error, Result};
use crate::information::ea;
use crate::policy::audit::Operation;
use crate::policy::limits::{AUDITED_DESCRIPTOR, AUDITED_PATH, QUOTA_SIDS_MAX};
use crate::request::Request;
use crate::state::open::Open;
use crate::tree::Disk;

/// The text of a name or of a descriptor in SDDL takes at most as many times the bytes that it has in a request.
const TEXT: usize = 4;

/// The most bytes of the arguments of a change of a quota: the path of the quota file, a SID and numbers.
const QUOTA: usize = 320;

/// Reserves room for the events of a request; `None` if it needs none. The room is free again when the request is
/// complete.
pub(crate) fn admit(request: &Request<'_>) -> Result<Option<Reservation>> {
    let Some(disk) = request.tree.as_ref().and_then(|tree| tree.disk()) else { return Ok(None) };
    match &disk.audit {
        Some(trail) if trail.refuses() => reserve(request, disk, trail),
        _ => Ok(None),
    }
}

pub(super) fn refusal() -> Error {
    Error::because(Status::AUDIT_FAILED, "too many events of the audit wait (`frevo:audit overflow = refuse`)")
}

/// Reserves room for the events of an open within a request, and of a change to `descriptor`.
pub(super) fn admit_within(disk: &Disk, name: &[u8], descriptor: Option<&[u8]>) -> Result<Option<Reservation>> {
    let Some(trail) = disk.audit.as_ref().filter(|trail| trail.refuses()) else { return Ok(None) };
    let operations = [Operation::CREATE_FILE, Operation::OPENAT, Operation::CLOSE, Operation::FSET_NT_ACL];
    let operations = &operations[..if descriptor.is_some() { 4 } else { 3 }];
    if !trail.records(operations) {
        return Ok(None);
    }
    let more = descriptor.map_or(0, |descriptor| length_of_text(trail, descriptor.len()));
    trail.reserve(trail.count(operations), length_of_name(name.len()), more).map(Some).ok_or_else(refusal)
}

fn reserve(request: &Request<'_>, disk: &Disk, trail: &Trail) -> Result<Option<Reservation>> {
    let message = request.message;
    // A request that cannot be decoded or has no open is refused without an event.
    let needs = match request.header.command {
        Command::CREATE => CreateRequest::decode(message).ok().and_then(|asked| of_create(trail, &asked)),
        Command::READ => ReadRequest::decode(message)
            .ok()
            .map(|asked| Needs::of(asked.file_id, &[Operation::PREAD_SEND, Operation::PREAD_RECV])),
        Command::WRITE => WriteRequest::decode_start(message)
            .ok()
            .map(|(asked, _)| Needs::of(asked.file_id, &[Operation::PWRITE_SEND, Operation::PWRITE_RECV])),
        Command::FLUSH => FlushRequest::decode(message)
            .ok()
            .map(|asked| Needs::of(asked.file_id, &[Operation::FSYNC_SEND, Operation::FSYNC_RECV])),
        // Only the first page of a listing is recorded.
        Command::QUERY_DIRECTORY => QueryDirectoryRequest::decode(message)
            .ok()
            .filter(|asked| begins(asked) || !has_begun(request, asked.file_id))
            .map(|asked| Needs::of(asked.file_id, &[Operation::FDOPENDIR])),
        Command::IOCTL => copy(request).map(|(operations, id)| Needs::of(id, &operations)),
        Command::SET_INFO => SetInfoRequest::decode(message).ok().and_then(|asked| of_set_info(trail, &asked)),
        _ => None,
    };
    let Some(Needs { open, operations, events, path, more }) = needs else { return Ok(None) };
    if !trail.records(&operations) {
        return Ok(None);
    }
    let path = path + open.map_or(0, |id| length_of_path(request, disk, id));
    trail.reserve(events.unwrap_or_else(|| trail.count(&operations)), path, more).map(Some).ok_or_else(refusal)
}

/// What the events of a request may need.
struct Needs {
    open: Option<FileId>,
    operations: Vec<Operation>,
    /// The number of events, if it is not that of the operations.
    events: Option<usize>,
    /// The bytes of the path that the request has, if it does not have an open.
    path: usize,
    /// The bytes of other arguments.
    more: usize,
}

impl Needs {
    fn of(open: FileId, operations: &[Operation]) -> Needs {
        Needs { open: Some(open), operations: operations.to_vec(), events: None, path: 0, more: 0 }
    }
}

fn length_of_name(bytes: usize) -> usize {
    AUDITED_PATH.min(bytes * TEXT)
}

/// Returns the longest text of a descriptor with so many bytes.
fn length_of_text(trail: &Trail, bytes: usize) -> usize {
    if trail.audit().log_secdesc { AUDITED_DESCRIPTOR.min(bytes * TEXT) } else { 0 }
}

/// Returns what a CREATE needs; `None` if it has no event, because it reconnects to a durable open.
fn of_create(trail: &Trail, asked: &CreateRequest<'_>) -> Option<Needs> {
    let context = |name: &[u8]| asked.create_contexts.iter().find(|context| *context.name == *name);
    if [name::DURABLE_HANDLE_RECONNECT, name::DURABLE_HANDLE_RECONNECT_V2].iter().any(|name| context(name).is_some()) {
        return None;
    }
    let (disposition, options) = (asked.create_disposition, asked.create_options);
    let creates = !matches!(disposition, CreateDisposition::OPEN | CreateDisposition::OVERWRITE);
    let mut operations = vec![Operation::CREATE_FILE, Operation::OPENAT];
    let mut more = 0;
    if creates && !options.contains(CreateOptions::NON_DIRECTORY_FILE) {
        operations.push(Operation::MKDIRAT);
    }
    if disposition != CreateDisposition::OPEN {
        operations.extend([Operation::FTRUNCATE, Operation::FSET_DOS_ATTRIBUTES]);
    }
    if let Some(descriptor) = context(name::SD_BUFFER).filter(|_| creates) {
        operations.push(Operation::FSET_NT_ACL);
        more = length_of_text(trail, descriptor.data.len());
    }
    // These follow when the file is closed, which cannot be refused.
    operations.push(Operation::CLOSE);
    if options.contains(CreateOptions::DELETE_ON_CLOSE) {
        operations.extend([Operation::UNLINKAT, Operation::RENAMEAT]);
    }
    Some(Needs { open: None, operations, events: None, path: length_of_name(asked.name.len()), more })
}

/// Returns what a SET_INFO needs; `None` if it has no event.
fn of_set_info(trail: &Trail, asked: &SetInfoRequest<'_>) -> Option<Needs> {
    let needs = |operations: &[Operation]| Needs::of(asked.file_id, operations);
    let length = asked.buffer.len();
    if asked.info_type == InfoType::SECURITY {
        return Some(Needs { more: length_of_text(trail, length), ..needs(&[Operation::FSET_NT_ACL]) });
    }
    match asked.info_type {
        InfoType::FILE => {}
        // Each user and group is an event.
        InfoType::QUOTA => {
            let entries = FileQuotaInformation::list(asked.buffer).map_while(proto::bytes::Result::ok);
            let events = entries.take(QUOTA_SIDS_MAX).count();
            return Some(Needs { events: Some(events), more: events * QUOTA, ..needs(&[Operation::SET_QUOTA]) });
        }
        InfoType::FILESYSTEM => return Some(Needs { more: QUOTA, ..needs(&[Operation::SET_QUOTA]) }),
        _ => return None,
    }
    Some(match Class(asked.file_info_class) {
        Class::BASIC => needs(&[Operation::FSET_DOS_ATTRIBUTES, Operation::FNTIMES]),
        Class::END_OF_FILE | Class::ALLOCATION => needs(&[Operation::FTRUNCATE]),
        Class::RENAME => Needs { more: length_of_name(length), ..needs(&[Operation::RENAMEAT]) },
        Class::LINK => Needs { more: length_of_name(length), ..needs(&[Operation::LINKAT]) },
        // These follow when the file is closed.
        Class::DISPOSITION | Class::DISPOSITION_EX => needs(&[Operation::UNLINKAT, Operation::RENAMEAT]),
        // Each attribute is an event.
        Class::FULL_EA => {
            let changes = ea::Changes::decode(asked.buffer).ok()?;
            let (events, more) = changes.names().fold((0, 0), |(count, more), name| (count + 1, more + name.len()));
            Needs { events: Some(events), more, ..needs(&[Operation::FSETXATTR]) }
        }
        _ => return None,
    })
}

/// Returns whether a request begins a listing again.
fn begins(asked: &QueryDirectoryRequest<'_>) -> bool {
    [QueryDirectoryFlags::RESTART_SCANS, QueryDirectoryFlags::REOPEN].iter().any(|flag| asked.flags.contains(*flag))
}

/// Returns whether the listing of an open directory has begun.
fn has_begun(request: &Request<'_>, named: FileId) -> bool {
    let open = open_of(request, named);
    let file = open.as_ref().and_then(|open| open.file());
    file.is_some_and(|file| file.listing.try_lock().is_ok_and(|listing| listing.begun))
}

fn open_of(request: &Request<'_>, named: FileId) -> Option<Arc<Open>> {
    let id = request.related.map_or(Some(named), |related| related.file_id)?;
    request.session().ok()?.open(id.persistent, id.volatile)
}

fn length_of_path(request: &Request<'_>, disk: &Disk, named: FileId) -> usize {
    let Some(open) = open_of(request, named) else { return 0 };
    let Some(file) = open.file() else { return 0 };
    let stream = crate::streams::of(&file.node).and_then(|node| node.stream.name()).map_or(0, |name| name.len());
    disk.shown(&file.name.path.lock().clone()).to_string().len() + stream + 1
}
