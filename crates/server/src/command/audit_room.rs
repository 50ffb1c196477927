//! `frevo:audit overflow = refuse`: a request whose events might not fit into the queue of their destination is refused
//! before it is executed.
//!
//! The room is reserved, so that events of requests that run at the same time do not take it. What a request adds is
//! estimated from its length and the path of its open; the estimate is never too small.

use proto::fscc::FileInformationClass as Class;
use proto::smb2::FileId;
use proto::smb2::InfoType;
use proto::smb2::create::CreateRequest;
use proto::smb2::flush::FlushRequest;
use proto::smb2::header::Command;
use proto::smb2::query_directory::QueryDirectoryRequest;
use proto::smb2::read::ReadRequest;
use proto::smb2::set_info::SetInfoRequest;
use proto::smb2::write::WriteRequest;
use proto::status::Status;

use super::audit::copy;
use crate::audit::{Reservation, Trail};
use crate::error::{Error, Result};
use crate::information::ea;
use crate::policy::audit::Operation;
use crate::request::Request;
use crate::tree::Disk;

/// The text of a name or of a descriptor in SDDL takes at most as many times the bytes that it has in a request.
const TEXT: usize = 4;

const OF_CREATE: &[Operation] = &[
    Operation::CREATE_FILE,
    Operation::OPENAT,
    Operation::MKDIRAT,
    Operation::FTRUNCATE,
    Operation::FSET_DOS_ATTRIBUTES,
    Operation::FSET_NT_ACL,
    // These follow when the file is closed, which cannot be refused.
    Operation::CLOSE,
    Operation::UNLINKAT,
    Operation::RENAMEAT,
];

const OF_SET_INFO: &[Operation] = &[
    Operation::FTRUNCATE,
    Operation::FNTIMES,
    Operation::FSET_DOS_ATTRIBUTES,
    Operation::FSET_NT_ACL,
    Operation::FSETXATTR,
    Operation::RENAMEAT,
    Operation::LINKAT,
    Operation::UNLINKAT,
];

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

fn reserve(request: &Request<'_>, disk: &Disk, trail: &Trail) -> Result<Option<Reservation>> {
    let message = request.message;
    let copies;
    // A request that cannot be decoded or has no open is refused without an event.
    let (operations, of_open, count, path, more): (&[Operation], _, _, _, _) = match request.header.command {
        Command::CREATE => match CreateRequest::decode(message) {
            Ok(asked) => (OF_CREATE, None, 7, asked.name.len() * TEXT, message.len() * TEXT),
            Err(_) => return Ok(None),
        },
        Command::READ => {
            let id = ReadRequest::decode(message).map(|asked| asked.file_id);
            (&[Operation::PREAD_SEND, Operation::PREAD_RECV], id.ok(), 2, 0, 0)
        }
        Command::WRITE => {
            let id = WriteRequest::decode(message).map(|asked| asked.file_id);
            (&[Operation::PWRITE_SEND, Operation::PWRITE_RECV], id.ok(), 2, 0, 0)
        }
        Command::FLUSH => {
            let id = FlushRequest::decode(message).map(|asked| asked.file_id);
            (&[Operation::FSYNC_SEND, Operation::FSYNC_RECV], id.ok(), 2, 0, 0)
        }
        Command::QUERY_DIRECTORY => {
            let id = QueryDirectoryRequest::decode(message).map(|asked| asked.file_id);
            (&[Operation::FDOPENDIR], id.ok(), 1, 0, 0)
        }
        Command::IOCTL => match copy(request) {
            Some((operations, id)) => {
                copies = operations;
                (&copies, Some(id), 2, 0, 0)
            }
            None => return Ok(None),
        },
        Command::SET_INFO => match SetInfoRequest::decode(message) {
            Ok(asked) => (OF_SET_INFO, Some(asked.file_id), 2 + attributes(&asked), 0, message.len() * TEXT),
            Err(_) => return Ok(None),
        },
        _ => return Ok(None),
    };
    if !trail.records(operations) {
        return Ok(None);
    }
    let path = path + of_open.map_or(0, |id| length_of_path(request, disk, id));
    trail.reserve(count, path, more).map(Some).ok_or_else(refusal)
}

/// Returns the number of extended attributes that a request changes. Each is an event.
fn attributes(asked: &SetInfoRequest<'_>) -> usize {
    let sets = asked.info_type == InfoType::FILE && Class(asked.file_info_class) == Class::FULL_EA;
    if sets { ea::Changes::decode(asked.buffer).map_or(0, |changes| changes.names().count()) } else { 0 }
}

fn length_of_path(request: &Request<'_>, disk: &Disk, named: FileId) -> usize {
    let id = request.related.map_or(Some(named), |related| related.file_id);
    let session = request.session().ok();
    let open = id.zip(session).and_then(|(id, session)| session.open(id.persistent, id.volatile));
    let Some(open) = open else { return 0 };
    let Some(file) = open.file() else { return 0 };
    let stream = crate::streams::of(&file.node).and_then(|node| node.stream.name()).map_or(0, |name| name.len());
    disk.shown(&file.name.path.lock().clone()).to_string().len() + stream + 1
}
