//! The lines of an audit that requests cause (`vfs objects = full_audit`).
//!
//! Samba records the calls of its VFS. The lines here are those of the calls that Samba makes for the client's
//! operation itself, in the same order. docs/differences-from-samba.md lists what is not recorded.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use proto::bytes::Reader;
use proto::dtyp::{AccessMask, SecurityDescriptor, sddl};
use proto::fscc::{
    FileBasicInformation, FileFsControlInformation, FileInformationClass as Class, FileLinkInformation,
    FileQuotaInformation, FileRenameInformation,
};
use proto::smb2::FileId;
use proto::smb2::InfoType;
use proto::smb2::create::{CreateAction, CreateDisposition, CreateOptions, CreateRequest};
use proto::smb2::header::Command;
use proto::smb2::ioctl::{FsctlCode, IoctlRequest};
use proto::smb2::set_info::SetInfoRequest;
use proto::status::Status;

use super::audit_room::refusal;
use crate::audit::{Moved, Origin, Trail};
use crate::error::{Error, Result};
use crate::information::ea;
use crate::name::{Name, Stream, parse_posix};
use crate::policy::Share;
use crate::policy::audit::Operation;
use crate::policy::limits::{AUDITED_DESCRIPTOR, QUOTA_SIDS_MAX};
use crate::policy::template::Variable;
use crate::request::{Reply, Request};
use crate::state::open::FileOpen;
use crate::streams;
use crate::tree::{Disk, Tree};
use crate::user::User;
use crate::vfs::{Kind, RelPath};

/// The least of the values that mean no limit ([MS-FSCC] 2.4.41).
const UNLIMITED: u64 = u64::MAX - 1;

/// Returns the record of a tree connect of `user` to the share, in which variables have these values.
pub(super) fn trail(
    request: &Request<'_>,
    share: &Share,
    user: &User,
    value: impl Fn(Variable) -> Option<String>,
) -> Result<Option<Arc<Trail>>> {
    let Some(audit) = &share.audit else { return Ok(None) };
    let server = &request.connection.server;
    let destinations = server.audit().ok_or_else(|| {
        Error::because(Status::BAD_NETWORK_NAME, "the share has an audit, but the server has no destination for it")
    })?;
    let address = request.connection.peer.remote.ip().to_canonical().to_string();
    let root = share.path.to_string_lossy().into_owned();
    let value = |variable| match variable {
        Variable::ROOT => Some(root.clone()),
        other => value(other),
    };
    let offset = server.policy().utc_offset;
    let session = request.session()?.id;
    let origin = Origin::new(audit, [share.name.clone(), user.name.clone(), address], session, offset, value);
    let queue = destinations.queue(&audit.destination);
    let trail = Trail::new(audit, origin, &share.path, queue, &server.environment);
    if trail.refuses() && trail.records(&[Operation::CONNECT]) && trail.reserve(1, 0, 0).is_none() {
        return Err(refusal());
    }
    Ok(Some(Arc::new(trail)))
}

/// Records the beginning of a tree connect.
pub(super) fn connected(tree: &Tree) {
    if let Some(trail) = tree.audit() {
        trail.begin();
    }
}

/// Records the end of a tree connect.
pub(super) fn disconnected(tree: &Tree) {
    if let Some(trail) = tree.audit() {
        trail.end();
    }
}

/// Returns the status of a result.
fn status(done: &Result<Status>) -> Status {
    done.as_ref().map_or_else(|error| error.status, |status| *status)
}

/// Returns the path of an open file, with the stream if there is one.
fn path_of(trail: &Trail, disk: &Disk, file: &FileOpen) -> String {
    let stream = streams::of(&file.node).and_then(|node| node.stream.name());
    if disk.snapshot.is_none() {
        return trail.path(&file.name.path.lock(), stream.as_deref());
    }
    let path = file.name.path.lock().clone();
    trail.path(&disk.shown(&path), stream.as_deref())
}

/// Records the requests that only refer to an open file.
pub(crate) fn executed(request: &Request<'_>, reply: &mut Reply, done: &Result<Status>) {
    // The session may not have the open any more: a CLOSE or the end of the connection does not wait for the request.
    let Some(open) = reply.audited.take() else { return };
    let [send, receive] = match request.header.command {
        Command::READ => [Operation::PREAD_SEND, Operation::PREAD_RECV],
        Command::WRITE => [Operation::PWRITE_SEND, Operation::PWRITE_RECV],
        Command::FLUSH => [Operation::FSYNC_SEND, Operation::FSYNC_RECV],
        Command::IOCTL => match copy(request) {
            Some((operations, _)) => operations,
            None => return,
        },
        _ => return,
    };
    let (Some(file), Some(disk)) = (open.file(), open.tree.disk()) else { return };
    let Some(trail) = &disk.audit else { return };
    let moved = match request.header.command {
        Command::READ => {
            file.bytes_read.fetch_add(reply.moved, Ordering::Relaxed);
            Moved::Once(reply.moved)
        }
        Command::WRITE => {
            file.bytes_written.fetch_add(reply.moved, Ordering::Relaxed);
            Moved::Once(reply.moved)
        }
        Command::IOCTL if receive == Operation::OFFLOAD_WRITE_RECV => Moved::Once(reply.moved),
        _ => Moved::Nothing,
    };
    // One path is enough if both are recorded.
    let mut path = None;
    let mut arguments = || vec![path.get_or_insert_with(|| path_of(trail, disk, file)).clone()];
    trail.done(send, &mut arguments);
    trail.moved(receive, status(done), arguments, moved);
}

/// Returns the operations of an FSCTL that copies, and its open.
pub(super) fn copy(request: &Request<'_>) -> Option<([Operation; 2], FileId)> {
    let asked = IoctlRequest::decode(request.message).ok()?;
    let operations = match asked.ctl_code {
        FsctlCode::SRV_REQUEST_RESUME_KEY | FsctlCode::OFFLOAD_READ => {
            [Operation::OFFLOAD_READ_SEND, Operation::OFFLOAD_READ_RECV]
        }
        FsctlCode::SRV_COPYCHUNK
        | FsctlCode::SRV_COPYCHUNK_WRITE
        | FsctlCode::OFFLOAD_WRITE
        | FsctlCode::DUPLICATE_EXTENTS_TO_FILE
        | FsctlCode::DUPLICATE_EXTENTS_TO_FILE_EX => [Operation::OFFLOAD_WRITE_SEND, Operation::OFFLOAD_WRITE_RECV],
        _ => return None,
    };
    Some((operations, asked.file_id))
}

/// Returns the arguments of `create_file`.
fn create_file(asked: &CreateRequest<'_>, path: String) -> Vec<String> {
    let directory = asked.create_options.contains(CreateOptions::DIRECTORY_FILE);
    let disposition = match asked.create_disposition {
        CreateDisposition::SUPERSEDE => "supersede",
        CreateDisposition::OPEN => "open",
        CreateDisposition::CREATE => "create",
        CreateDisposition::OPEN_IF => "open_if",
        CreateDisposition::OVERWRITE => "overwrite",
        CreateDisposition::OVERWRITE_IF => "overwrite_if",
        _ => "UNKNOWN",
    };
    vec![
        format!("0x{:x}", asked.desired_access),
        if directory { "dir" } else { "file" }.to_owned(),
        disposition.to_owned(),
        path,
    ]
}

/// Returns the argument of `openat` that says whether the file is opened for writing.
fn mode(writes: bool) -> String {
    if writes { "w" } else { "r" }.to_owned()
}

const WRITING: AccessMask = AccessMask(AccessMask::FILE_WRITE_DATA.0 | AccessMask::FILE_APPEND_DATA.0);

/// Records a CREATE that has opened or created `file`. `descriptor` is that of a new file if the client has sent one.
pub(super) fn opened(
    disk: &Disk,
    asked: &CreateRequest<'_>,
    (file, granted): (&FileOpen, AccessMask),
    action: CreateAction,
    descriptor: Option<&SecurityDescriptor>,
) {
    let Some(trail) = &disk.audit else { return };
    let path = || path_of(trail, disk, file);
    let base = || trail.path(&disk.shown(&file.name.path.lock().clone()), None);
    let directory = file.kind == Kind::Directory;
    let changed = action != CreateAction::OPENED;
    if directory && action == CreateAction::CREATED {
        trail.done(Operation::MKDIRAT, || vec![path()]);
    }
    let writes = !directory && (changed || granted.intersects(WRITING));
    trail.done(Operation::OPENAT, || vec![mode(writes), base()]);
    if changed && action != CreateAction::CREATED {
        trail.done(Operation::FTRUNCATE, || vec![path()]);
    }
    if changed && disk.share.attributes.store_dos_attributes {
        trail.done(Operation::FSET_DOS_ATTRIBUTES, || vec![base()]);
    }
    if action == CreateAction::CREATED
        && let Some(descriptor) = descriptor
    {
        trail.done(Operation::FSET_NT_ACL, || with_descriptor(trail, &base(), Some(descriptor)));
    }
    trail.done(Operation::CREATE_FILE, || create_file(asked, path()));
}

/// Records a CREATE that has failed. `posix`: it has the create context of the POSIX extensions, with which a name has
/// no stream.
pub(super) fn not_opened(disk: &Disk, asked: &CreateRequest<'_>, posix: bool, error: &Error) {
    let Some(trail) = &disk.audit else { return };
    if !trail.records(&[Operation::MKDIRAT, Operation::OPENAT, Operation::CREATE_FILE]) {
        return;
    }
    let Some(name) = parsed(disk, posix, asked.name) else { return };
    let stream = match &name.stream {
        Stream::Alternate(stream) => Some(stream.as_str()),
        _ => None,
    };
    let path = name.path;
    let base = || trail.path(&path, None);
    let creates = !matches!(asked.create_disposition, CreateDisposition::OPEN | CreateDisposition::OVERWRITE);
    let directory = asked.create_options.contains(CreateOptions::DIRECTORY_FILE);
    let is_missing = matches!(error.status, Status::OBJECT_NAME_NOT_FOUND | Status::OBJECT_PATH_NOT_FOUND);
    if error.status == Status::ACCESS_DENIED && creates && directory {
        trail.ended(Operation::MKDIRAT, error.status, || vec![base()]);
    } else if is_missing || error.status == Status::ACCESS_DENIED {
        let writes = !directory && asked.desired_access & WRITING.0 != 0;
        trail.ended(Operation::OPENAT, error.status, || vec![mode(writes), base()]);
    }
    trail.ended(Operation::CREATE_FILE, error.status, || create_file(asked, trail.path(&path, stream)));
}

/// Returns the path of the quota file, as Samba writes it.
fn path_of_quotas(trail: &Trail) -> String {
    let path = RelPath::root().join(b"$Extend").and_then(|path| path.join(b"$Quota"));
    trail.path(&path.unwrap_or_else(RelPath::root), Some("$Q:$INDEX_ALLOCATION"))
}

/// Records a CREATE of the quota file. Nothing else is opened for it.
pub(super) fn quota_file_opened(disk: &Disk, asked: &CreateRequest<'_>, done: &Result<Status>) {
    let Some(trail) = &disk.audit else { return };
    trail.ended(Operation::CREATE_FILE, status(done), || create_file(asked, path_of_quotas(trail)));
}

/// Records a change of quotas or of the rules for them. Each user and group is an event. A request that fails has one,
/// because it may have any number of them.
pub(super) fn quotas_set(disk: &Disk, asked: &SetInfoRequest<'_>, done: &Result<()>) {
    let Some(trail) = &disk.audit else { return };
    let status = done.as_ref().map_or_else(|error| error.status, |()| Status::SUCCESS);
    let limit = |limit: u64| if limit >= UNLIMITED { "-".to_owned() } else { limit.to_string() };
    match asked.info_type {
        InfoType::QUOTA => {
            let count = if status.is_error() { 1 } else { QUOTA_SIDS_MAX };
            for entry in FileQuotaInformation::list(asked.buffer).map_while(proto::bytes::Result::ok).take(count) {
                trail.ended(Operation::SET_QUOTA, status, || {
                    let [soft, hard] = [entry.quota_threshold, entry.quota_limit].map(limit);
                    vec![path_of_quotas(trail), entry.sid.to_string(), soft, hard]
                });
            }
        }
        InfoType::FILESYSTEM => {
            let Ok(rules) = FileFsControlInformation::decode(&mut Reader::new(asked.buffer)) else { return };
            trail.ended(Operation::SET_QUOTA, status, || {
                let [soft, hard] = [rules.default_quota_threshold, rules.default_quota_limit].map(limit);
                vec![path_of_quotas(trail), format!("0x{:x}", rules.file_system_control_flags.0), soft, hard]
            });
        }
        _ => {}
    }
}

/// Returns the path of a print job, which has its title in place of the name of its file.
fn path_of_job(trail: &Trail, title: &str) -> String {
    trail.path(&RelPath::root().join(title.as_bytes()).unwrap_or_else(RelPath::root), None)
}

/// Records the beginning of a print job, which is never refused. `spool` is the directory of the share.
pub(super) fn job_opened(spool: &Disk, asked: &CreateRequest<'_>, title: &str) {
    let Some(trail) = &spool.audit else { return };
    let path = path_of_job(trail, title);
    trail.follows(Operation::OPENAT, Status::SUCCESS, || vec![mode(true), path.clone()], Moved::Nothing);
    trail.follows(Operation::CREATE_FILE, Status::SUCCESS, || create_file(asked, path), Moved::Nothing);
}

/// Records a document of the pipe `spoolss`, when it is handed over.
pub(super) fn document_opened(spool: &Disk, title: &str) {
    let Some(trail) = &spool.audit else { return };
    let arguments = || vec![mode(true), path_of_job(trail, title)];
    trail.follows(Operation::OPENAT, Status::SUCCESS, arguments, Moved::Nothing);
}

/// Records a CREATE of a print job that has failed.
pub(super) fn job_not_opened(spool: &Disk, asked: &CreateRequest<'_>, error: &Error) {
    let Some(trail) = &spool.audit else { return };
    let title = super::print::title(asked.name);
    let arguments = || create_file(asked, path_of_job(trail, &title));
    trail.follows(Operation::CREATE_FILE, error.status, arguments, Moved::Nothing);
}

/// Records the end of a print job.
pub(super) fn job_closed(spool: &Disk, title: &str, status: Status) {
    let Some(trail) = &spool.audit else { return };
    trail.follows(Operation::CLOSE, status, || vec![path_of_job(trail, title)], Moved::Nothing);
}

/// Records the first listing of an open directory.
pub(super) fn listed(disk: &Disk, file: &FileOpen, done: &Result<Status>) {
    let Some(trail) = &disk.audit else { return };
    trail.ended(Operation::FDOPENDIR, status(done), || vec![path_of(trail, disk, file)]);
}

/// Records the end of an open.
pub(super) fn closed(disk: &Disk, file: &FileOpen, status: Status) {
    let Some(trail) = &disk.audit else { return };
    if file.kind == Kind::Directory && file.listing.try_lock().is_ok_and(|listing| listing.begun) {
        trail.follows(Operation::CLOSEDIR, Status::SUCCESS, || vec![path_of(trail, disk, file)], Moved::Nothing);
    }
    let [read, written] = [&file.bytes_read, &file.bytes_written].map(|bytes| bytes.load(Ordering::Relaxed));
    let moved = if file.kind == Kind::Directory { Moved::Nothing } else { Moved::InAll { read, written } };
    trail.follows(Operation::CLOSE, status, || vec![path_of(trail, disk, file)], moved);
}

/// Records the deletion of a file or stream. `bin` is the path in the recycle bin to which the file was moved.
pub(super) fn deleted(disk: &Disk, path: &RelPath, stream: Option<&str>, bin: Option<&RelPath>, status: Status) {
    let Some(trail) = &disk.audit else { return };
    let path = || trail.path(&disk.shown(path), stream);
    match bin.filter(|_| trail.audit().sees_recycling) {
        Some(bin) => {
            let arguments = || vec![path(), trail.path(bin, None)];
            trail.follows(Operation::RENAMEAT, status, arguments, Moved::Nothing);
        }
        None => trail.follows(Operation::UNLINKAT, status, || vec![path()], Moved::Nothing),
    }
}

/// Returns the arguments of `fset_nt_acl`.
fn with_descriptor(trail: &Trail, path: &str, descriptor: Option<&SecurityDescriptor>) -> Vec<String> {
    let text = descriptor.filter(|_| trail.audit().log_secdesc).and_then(|it| sddl::encode(it).ok());
    let mut text = text.unwrap_or_default();
    let end = (0..=AUDITED_DESCRIPTOR.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text.truncate(end.unwrap_or_default());
    vec![path.to_owned(), format!("[{text}]")]
}

/// A SET_INFO request that is being executed.
pub(super) struct Change<'a> {
    trail: &'a Trail,
    disk: &'a Disk,
    file: &'a FileOpen,
    /// The path before the change.
    path: String,
}

impl<'a> Change<'a> {
    /// Notes the path before the change; `None` if the share has no audit.
    pub(super) fn begin(disk: &'a Disk, file: &'a FileOpen) -> Option<Change<'a>> {
        let trail = disk.audit.as_deref()?;
        Some(Change { trail, disk, file, path: path_of(trail, disk, file) })
    }

    /// Records the change.
    pub(super) fn end(self, asked: &SetInfoRequest<'_>, done: &Result<Status>) {
        let (trail, status) = (self.trail, status(done));
        match asked.info_type {
            InfoType::FILE => self.of_file(Class(asked.file_info_class), asked.buffer, status),
            InfoType::SECURITY => trail.ended(Operation::FSET_NT_ACL, status, || {
                let descriptor = SecurityDescriptor::decode(asked.buffer).ok();
                with_descriptor(trail, &self.path, descriptor.as_ref())
            }),
            _ => {}
        }
    }

    fn of_file(self, class: Class, buffer: &[u8], status: Status) {
        let Change { trail, disk, file, path } = self;
        let mut reader = Reader::new(buffer);
        match class {
            Class::BASIC => {
                let Ok(info) = FileBasicInformation::decode(&mut reader) else { return };
                if info.file_attributes.0 != 0 || info.creation_time.is_time() {
                    trail.ended(Operation::FSET_DOS_ATTRIBUTES, status, || vec![path.clone()]);
                }
                let times = [info.creation_time, info.last_access_time, info.last_write_time, info.change_time];
                trail.ended(Operation::FNTIMES, status, || {
                    std::iter::once(path).chain(times.map(|time| trail.time(time))).collect()
                });
            }
            Class::END_OF_FILE | Class::ALLOCATION => trail.ended(Operation::FTRUNCATE, status, || vec![path]),
            Class::RENAME if !status.is_error() => {
                trail.ended(Operation::RENAMEAT, status, || vec![path, path_of(trail, disk, file)]);
            }
            Class::RENAME => {
                let Ok(asked) = FileRenameInformation::decode(&mut reader) else { return };
                trail.ended(Operation::RENAMEAT, status, || {
                    vec![path, new_path(trail, disk, file.posix, asked.file_name)]
                });
            }
            Class::LINK => {
                let Ok(asked) = FileLinkInformation::decode(&mut reader) else { return };
                trail.ended(Operation::LINKAT, status, || {
                    vec![path, new_path(trail, disk, file.posix, asked.file_name)]
                });
            }
            Class::FULL_EA => {
                let Ok(changes) = ea::Changes::decode(buffer) else { return };
                // A request that fails may have any number of names.
                let count = if status.is_error() { 1 } else { usize::MAX };
                for name in changes.names().take(count) {
                    trail.ended(Operation::FSETXATTR, status, || vec![path.clone(), name.to_owned()]);
                }
            }
            _ => {}
        }
    }
}

/// Returns the path of a new name in a request. `posix`: the open has POSIX semantics.
fn new_path(trail: &Trail, disk: &Disk, posix: bool, name: &[u8]) -> String {
    let name = name.strip_prefix(b"\\\0").unwrap_or(name);
    parsed(disk, posix, name).map(|name| trail.path(&name.path, None)).unwrap_or_default()
}

/// Parses a path in a request as the request's execution does. A name that Windows forbids is recorded, too. With
/// `posix`, a name has no stream.
fn parsed(disk: &Disk, posix: bool, name: &[u8]) -> Option<Name> {
    let literal = || parse_posix(name).ok();
    let parsed = match posix {
        true => return literal(),
        false => disk.share.names.characters.parse(name).ok(),
    };
    let mut name = parsed.or_else(literal)?;
    name.path = disk.share.names.asked(name.path);
    Some(name)
}
