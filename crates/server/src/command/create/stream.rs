//! Opens and creates alternate data streams ([MS-FSA] 2.1.5.1.2, the DataStream case with a name).
//!
//! Rights, attributes and times are those of the file. The file is opened or created as well: its entry in the table of
//! open files requests no access and shares everything. As long as the entry exists the file cannot be removed, and a
//! pending deletion takes effect when it is closed. Share modes, oplocks and locks are those of the stream.

use std::sync::Arc;

use parking_lot::Mutex;
use proto::dtyp::AccessMask;
use proto::fscc::FileAttributes;
use proto::smb2::create::{CreateAction, CreateDisposition, CreateOptions, ShareAccess};
use proto::status::Status;

use super::contexts::Contexts;
use super::entered::{self, Entered};
use super::existing::{self, ExistingFile};
use super::parameters::Parameters;
use super::{ATTEMPTS, Opened, look_up, new, no_parent};
use crate::attributes;
use crate::command::convert::convert;
use crate::command::{directory_lease, oplock_break};
use crate::error::{Error, Result};
use crate::files::notify::Change;
use crate::files::oplock::Opening;
use crate::files::{OpenName, Refusal, ShareMode};
use crate::name::{self, Name};
use crate::reparse;
use crate::request::{Reply, Request};
use crate::state::Server;
use crate::state::abandoned::What;
use crate::streams::{Stream, StreamNode, beside};
use crate::tree::Disk;
use crate::vfs::{Access, Extent, FileId, Kind, Lookup, Metadata, Node};

const READING: u32 = AccessMask::FILE_READ_DATA.0 | AccessMask::FILE_EXECUTE.0;
const WRITING: u32 = AccessMask::FILE_WRITE_DATA.0 | AccessMask::FILE_APPEND_DATA.0;
const EVERYTHING: ShareAccess = ShareAccess(7);

/// The open file of a stream.
struct Base {
    found: ExistingFile,
    stream: Arc<Stream>,
    /// The file's entry in the table of open files, with the same open id as the stream's.
    entered: Entered,
    name: Arc<OpenName>,
    granted: AccessMask,
    /// The file was created for the stream.
    made: bool,
}

/// Opens or creates the stream `stream` of the file `name`.
pub(super) async fn open(
    request: &Request<'_>,
    reply: &mut Reply,
    disk: &Disk,
    name: &Name,
    stream: &str,
    parameters: &Parameters,
    contexts: &Contexts,
) -> Result<Opened> {
    let server = &request.connection.server;
    let mut wanted = name.path.clone();
    for attempt in 0..ATTEMPTS {
        let removals = server.opens.files.removals();
        let base = match look_up(request, disk, &mut wanted, attempt, &of_base(parameters)).await? {
            Lookup::Found { path, node, metadata } => {
                let found = ExistingFile { path, node, metadata, removals };
                open_base(request, reply, disk, stream, parameters, found).await?
            }
            Lookup::Missing { path, parent } => {
                let name = Name { path: path.clone(), stream: name::Stream::Unnamed, trailing_backslash: false };
                let made =
                    new::make(request, disk, &name, &of_base(parameters), contexts, new::NewName { path, parent })
                        .await?;
                made.map(|made| new_base(request, disk, stream, parameters, made)).transpose()?
            }
            Lookup::NoParent => return Err(no_parent(request, disk, &wanted).await),
        };
        let Some(base) = base else { continue };
        let entered = match enter(request, parameters, &base) {
            Ok(entered) => entered?,
            Err(refusal) => {
                let stream = base.stream.id;
                // The file is not kept open during the wait for its stream.
                drop(base);
                refused(request, reply, stream, refusal).await?;
                continue;
            }
        };
        match open_content(request, disk, parameters, &base, entered).await {
            Ok(Some(mut opened)) => {
                opened.entered = opened.entered.join(base.entered);
                if base.made {
                    server.changed(disk, &base.found.path, Change::added(base.found.metadata.kind));
                }
                return Ok(opened);
            }
            Ok(None) => {}
            Err(error) => {
                if base.made {
                    unmake(request, disk, base).await;
                }
                return Err(error);
            }
        }
    }
    Err(Error::because(Status::SHARING_VIOLATION, "the file was renamed again and again"))
}

/// Returns the parameters for creating the file of a stream.
fn of_base(parameters: &Parameters) -> Parameters {
    Parameters {
        desired_access: AccessMask(0),
        maximum_allowed: false,
        share_access: EVERYTHING,
        lease: None,
        options: CreateOptions(parameters.options.0 & !CreateOptions::DELETE_ON_CLOSE.0),
        ..parameters.clone()
    }
}

/// Returns the stream, whether it exists or not.
fn stream_of(server: &Server, disk: &Disk, file: &Metadata, name: &Arc<OpenName>, stream: &str) -> Result<Arc<Stream>> {
    let layout = disk.share.streams.as_ref().ok_or(Error::new(Status::OBJECT_NAME_INVALID))?;
    Ok(server.opens.streams.stream(disk, layout, (file.id, beside::at(name, file.kind)), stream))
}

fn new_base(request: &Request<'_>, disk: &Disk, stream: &str, parameters: &Parameters, made: Opened) -> Result<Base> {
    let server = &request.connection.server;
    let granted = parameters.granted_on_new();
    let path = made.name.path.lock().clone();
    let found =
        ExistingFile { path, node: made.node, metadata: made.metadata, removals: server.opens.files.removals() };
    let stream = stream_of(server, disk, &found.metadata, &made.name, stream)?;
    Ok(Base { found, stream, entered: made.entered, name: made.name, granted, made: true })
}

/// Opens the file of a stream; returns `None` if it must be looked up again.
async fn open_base(
    request: &Request<'_>,
    reply: &mut Reply,
    disk: &Disk,
    stream: &str,
    parameters: &Parameters,
    found: ExistingFile,
) -> Result<Option<Base>> {
    let server = &request.connection.server;
    if !parameters.options.contains(CreateOptions::OPEN_REPARSE_POINT) {
        reparse::check_open(request, disk, &found.node, &found.metadata).await?;
    }
    match found.metadata.kind {
        Kind::File | Kind::Directory => {}
        Kind::Symlink => {
            let status = if parameters.creates() { Status::ACCESS_DENIED } else { Status::OBJECT_NAME_NOT_FOUND };
            return Err(Error::because(status, "a Linux symbolic link has no streams"));
        }
        Kind::Special => return Err(Error::because(Status::ACCESS_DENIED, "not a regular file")),
    }
    convert(&server.opens.streams, disk, (&found.node, &found.metadata, &found.path)).await;
    let id = found.metadata.id;
    let name = Arc::new(OpenName { volume: disk.volume, path: Mutex::new(found.path.clone()) });
    let stream = stream_of(server, disk, &found.metadata, &name, stream)?;
    let exists = stream.exists(&found.node, &disk.op).await?;
    if let Some(wait) = server.opens.files.replacement_wait(stream.id, server.environment.uptime()) {
        return oplock_break::wait(request, reply, stream.id, wait).await.map(|()| None);
    }
    // The stream was renamed or removed meanwhile, and another one may have its name.
    if stream.name().is_none() {
        return Ok(None);
    }
    check_disposition(parameters, exists)?;
    check_attributes(disk, parameters, &found, exists)?;
    let granted = grant(disk, parameters, &found, exists).await?;
    let open_id = server.next_open_id();
    let mode = ShareMode { access: AccessMask(0), share: EVERYTHING };
    let opening = Opening::new(AccessMask(0), false, None, server.environment.uptime());
    match server.opens.files.open(id, open_id, mode, &name, found.removals, opening) {
        Ok(()) => {
            let what = What::File(found.node.clone(), found.metadata.kind);
            let entered = Entered::new(request, id, what, &name, open_id)?;
            Ok(Some(Base { found, stream, entered, name, granted, made: false }))
        }
        Err(refusal) => refused(request, reply, id, refusal).await.map(|()| None),
    }
}

/// Determines the access granted to the open, which is that of the file.
async fn grant(disk: &Disk, parameters: &Parameters, found: &ExistingFile, exists: bool) -> Result<AccessMask> {
    let mut wanted = parameters.desired_access;
    // Creating a stream changes the file, and so does deleting one of the share's root, which itself cannot be deleted.
    let ends = found.path.is_root() && wanted.contains(AccessMask::DELETE);
    if !exists || ends {
        wanted |= AccessMask::FILE_WRITE_DATA;
    }
    if ends {
        wanted.0 &= !AccessMask::DELETE.0;
    }
    let asked = Parameters { desired_access: wanted, ..parameters.clone() };
    let granted = existing::grant(disk, &asked, found).await?;
    Ok(if parameters.maximum_allowed { granted } else { parameters.desired_access })
}

/// Handles a refusal by the table: returns an error, or waits so that the request can be tried again.
async fn refused(request: &Request<'_>, reply: &mut Reply, file: FileId, refusal: Refusal) -> Result<()> {
    match refusal {
        Refusal::Raced => Ok(()),
        Refusal::OplockBreak(wait) => oplock_break::wait(request, reply, file, wait).await,
        Refusal::LeaseElsewhere => Err(Error::because(Status::INVALID_PARAMETER, "the lease belongs to another file")),
        Refusal::DeletePending => Err(Error::new(Status::DELETE_PENDING)),
        Refusal::SharingViolation => Err(Error::new(Status::SHARING_VIOLATION)),
    }
}

fn check_disposition(parameters: &Parameters, exists: bool) -> Result<()> {
    if exists && parameters.disposition == CreateDisposition::CREATE {
        return Err(Error::new(Status::OBJECT_NAME_COLLISION));
    }
    if !exists && !parameters.creates() {
        return Err(Error::new(Status::OBJECT_NAME_NOT_FOUND));
    }
    Ok(())
}

/// Checks the restrictions by the file's attributes ([MS-FSA] 2.1.5.1.2.1).
fn check_attributes(disk: &Disk, parameters: &Parameters, found: &ExistingFile, exists: bool) -> Result<()> {
    let shown = attributes::file_attributes(disk, found.path.name(), &found.metadata);
    if !shown.contains(FileAttributes::READONLY) || found.metadata.kind == Kind::Directory {
        return Ok(());
    }
    if parameters.desired_access.0 & WRITING != 0 || parameters.overwrites() || !exists {
        return Err(Error::because(Status::ACCESS_DENIED, "the file is READONLY"));
    }
    if parameters.options.contains(CreateOptions::DELETE_ON_CLOSE) && !disk.share.attributes.delete_readonly {
        return Err(Error::because(Status::CANNOT_DELETE, "the file is READONLY"));
    }
    Ok(())
}

/// Enters the stream of an open file into the table of open files.
fn enter(request: &Request<'_>, parameters: &Parameters, base: &Base) -> std::result::Result<Result<Entered>, Refusal> {
    let server = &request.connection.server;
    let (stream, open_id) = (base.stream.id, base.entered.open());
    let overwriting = if parameters.overwrites() { AccessMask::FILE_WRITE_DATA.0 } else { 0 };
    let mode = ShareMode { access: AccessMask(base.granted.0 | overwriting), share: parameters.share_access };
    let opening =
        Opening::new(base.granted, parameters.overwrites(), parameters.lease_id(), server.environment.uptime());
    let opening = Opening { deletes: parameters.options.contains(CreateOptions::DELETE_ON_CLOSE), ..opening };
    server.opens.files.open(stream, open_id, mode, &base.name, server.opens.files.removals(), opening)?;
    let what = What::Stream(base.stream.clone(), base.found.node.clone());
    Ok(Entered::new(request, stream, what, &base.name, open_id))
}

/// Creates or truncates the stream if the disposition requires it; returns `None` if it was removed meanwhile.
async fn open_content(
    request: &Request<'_>,
    disk: &Disk,
    parameters: &Parameters,
    base: &Base,
    entered: Entered,
) -> Result<Option<Opened>> {
    let server = &request.connection.server;
    let by_mac = disk.share.mac.is_some() && request.is_of_mac();
    let (who, file, stream) = (&disk.op, &base.found.node, &base.stream);
    let data = base.granted.0 & (READING | WRITING) != 0 || parameters.overwrites();
    let shares_deletion = parameters.share_access.0 & ShareAccess::DELETE.0 != 0;
    // [MS-FSA] 2.1.5.1.2.1: deleting the file deletes the stream.
    if data && !shares_deletion && server.opens.files.is_open_for_deletion(stream.file()) {
        return Err(Error::because(Status::SHARING_VIOLATION, "another open of the file has requested DELETE access"));
    }
    // Checked again, because the stream may have been created or removed meanwhile.
    let exists = stream.exists(file, who).await?;
    if stream.name().is_none() {
        return Ok(None);
    }
    check_disposition(parameters, exists)?;
    let created = !exists && stream.create(file, who, by_mac).await?;
    let writes = base.granted.0 & WRITING != 0 || parameters.overwrites();
    let access = Access { read: base.granted.0 & READING != 0, write: writes };
    // If the file was just created, its permissions do not restrict this handle.
    if !base.made {
        StreamNode::check(file, who, access).await?;
    }
    let node: Arc<dyn Node> =
        Arc::new(StreamNode::new(stream.clone(), file.clone(), who.clone(), access, server.environment.clone()));
    let action = match () {
        () if base.made || created => CreateAction::CREATED,
        () if !parameters.overwrites() => CreateAction::OPENED,
        () if parameters.disposition == CreateDisposition::SUPERSEDE => CreateAction::SUPERSEDED,
        () => CreateAction::OVERWRITTEN,
    };
    if exists && parameters.overwrites() {
        let emptied = match node.set_extent(who, Extent::Size(0)).await {
            Ok(()) if by_mac => stream.emptied_by_mac(file, who).await,
            emptied => emptied,
        };
        // A client granted a lease meanwhile may have read the old content.
        server.opens.files.content_changes(stream.id, parameters.lease_id(), server.environment.uptime());
        emptied?;
    }
    let metadata = stream.metadata(file).await?;
    Ok(Some(Opened {
        entered,
        node,
        metadata,
        name: base.name.clone(),
        granted: base.granted,
        action,
        asked_allocation: 0,
        leads_to_directory: false,
    }))
}

/// Removes the file that was created for a stream, if opening the stream failed and no other client has opened the
/// file.
async fn unmake(request: &Request<'_>, disk: &Disk, base: Base) {
    let server = &request.connection.server;
    let ExistingFile { node, metadata, path, .. } = base.found;
    drop(base.entered.made(false));
    if server.opens.files.is_open(metadata.id) {
        return entered::stays(request, metadata.id, metadata.kind, &base.name);
    }
    match disk.vfs.unlink(&disk.op, &path, metadata.id, metadata.kind).await {
        Ok(removed) => {
            server.opens.streams.unlinked(disk, &node, removed).await;
            // A client may have listed the directory meanwhile.
            directory_lease::entry_changes(server, disk, &path, None).await;
        }
        Err(errno) => {
            tracing::debug!(%path, ?errno, "cannot remove a file created for a stream that could not be created");
            entered::stays(request, metadata.id, metadata.kind, &base.name);
        }
    }
    server.opens.files.deleted(metadata.id);
}

/// Returns whether an open stream of `file` prevents opening the file for deletion ([MS-FSA] 2.1.5.1.2.1).
pub(super) fn forbids_deletion(server: &Server, file: FileId) -> bool {
    let deletes = ShareMode { access: AccessMask::DELETE, share: EVERYTHING };
    let open = server.opens.streams.open(file);
    open.iter().any(|stream| matches!(server.opens.files.admits(stream.id, deletes), Err(Refusal::SharingViolation)))
}
