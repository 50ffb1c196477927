//! Opens an existing file ([MS-FSA] 2.1.5.1.2).

use std::sync::Arc;

use parking_lot::Mutex;
use proto::dtyp::AccessMask;
use proto::fscc::FileAttributes;
use proto::smb2::create::{CreateAction, CreateDisposition, CreateOptions};
use proto::smb2::negotiate::Dialect;
use proto::status::Status;

use super::Opened;
use super::contexts::Contexts;
use super::entered::Entered;
use super::parameters::Parameters;
use super::stream;
use crate::attributes;
use crate::command::oplock_break;
use crate::error::{Error, Result};
use crate::files::oplock::Opening;
use crate::files::{OpenName, Refusal, Removals, ShareMode};
use crate::local::{self, netatalk};
use crate::name::{Name, Stream};
use crate::reparse;
use crate::request::{Reply, Request};
use crate::security::access;
use crate::state::abandoned::What;
use crate::tree::Disk;
use crate::vfs::{Access, Errno, Extent, FileId, Kind, Metadata, Node, Op, RelPath, SetMetadata};

/// The result of a look-up.
pub(super) struct ExistingFile {
    pub(super) path: RelPath,
    pub(super) node: Arc<dyn Node>,
    pub(super) metadata: Metadata,
    /// [`crate::files::Table::removals`] as of before the look-up.
    pub(super) removals: Removals,
}

const READING: u32 = AccessMask::FILE_READ_DATA.0 | AccessMask::FILE_EXECUTE.0;
const WRITING: u32 = AccessMask::FILE_WRITE_DATA.0 | AccessMask::FILE_APPEND_DATA.0;
/// Rights that are refused for a READONLY file ([MS-FSA] 2.1.5.1.2.1).
const REFUSED_BY_READONLY: u32 = WRITING;

/// Opens the file; returns `None` if a name was removed or an oplock broken meanwhile, and the name must be looked up
/// again.
pub(super) async fn open(
    request: &Request<'_>,
    reply: &mut Reply,
    disk: &Disk,
    name: &Name,
    parameters: &Parameters,
    contexts: &Contexts,
    found: ExistingFile,
) -> Result<Option<Opened>> {
    if parameters.disposition == CreateDisposition::CREATE {
        return Err(Error::new(Status::OBJECT_NAME_COLLISION));
    }
    check_awaited(request, found.metadata.id)?;
    if !parameters.options.contains(CreateOptions::OPEN_REPARSE_POINT) {
        match parameters.posix {
            Some(_) => reparse::posix::check_open(request, disk, &found.node, &found.metadata).await?,
            None => reparse::check_open(request, disk, &found.node, &found.metadata).await?,
        }
    }
    let leads_to_directory = match found.metadata.kind {
        // For a POSIX client, a link is not a directory, whatever its target is.
        Kind::Symlink if parameters.posix.is_some() => Some(false),
        Kind::Symlink => reparse::leads_to_directory(disk, &found.path).await,
        _ => None,
    };
    check_kind(name, parameters, &found.metadata, leads_to_directory)?;
    check_attributes(disk, parameters, &found)?;
    let granted = grant(disk, parameters, &found).await?;
    let open_name = Arc::new(OpenName { volume: disk.volume, path: Mutex::new(found.path.clone()) });
    let Some(open_id) = enter(request, reply, parameters, granted, &found, &open_name).await? else {
        return Ok(None);
    };
    let what = What::File(found.node.clone(), found.metadata.kind);
    let entered = Entered::new(request, found.metadata.id, what, &open_name, open_id)?;
    if granted.contains(AccessMask::DELETE) && stream::forbids_deletion(&request.connection.server, found.metadata.id) {
        return Err(Error::because(Status::SHARING_VIOLATION, "an open stream of the file does not permit deletion"));
    }
    let opened = open_data(request, disk, parameters, contexts, &found, granted).await;
    if parameters.overwrites() {
        // A client granted a lease meanwhile may have read the old content.
        let now = request.connection.server.environment.uptime();
        request.connection.server.opens.files.content_changes(found.metadata.id, parameters.lease_id(), now);
    }
    let Some((node, metadata, action)) = opened? else {
        drop(entered);
        local::wait_for_lease(request, reply, disk, &found.node, wanted(disk, parameters, granted)).await?;
        return Ok(None);
    };
    let leads_to_directory = leads_to_directory == Some(true);
    Ok(Some(Opened {
        entered,
        node,
        metadata,
        name: open_name,
        granted,
        action,
        asked_allocation: 0,
        leads_to_directory,
    }))
}

/// Enters the open into the table of open files, and returns its id. Returns `None` if the name was removed or an
/// oplock broken meanwhile.
async fn enter(
    request: &Request<'_>,
    reply: &mut Reply,
    parameters: &Parameters,
    granted: AccessMask,
    found: &ExistingFile,
    open_name: &Arc<OpenName>,
) -> Result<Option<u64>> {
    let server = &request.connection.server;
    let open_id = server.next_open_id();
    let mode = share_mode(parameters, granted);
    let opening = Opening::new(granted, parameters.overwrites(), parameters.lease_id(), server.environment.uptime());
    let deletes = parameters.options.contains(CreateOptions::DELETE_ON_CLOSE);
    let opening = Opening { deletes, posix: parameters.posix.is_some(), ..opening };
    match server.opens.files.open(found.metadata.id, open_id, mode, open_name, found.removals, opening) {
        Ok(()) => Ok(Some(open_id)),
        Err(Refusal::Raced) => Ok(None),
        Err(Refusal::OplockBreak(wait)) => {
            oplock_break::wait(request, reply, found.metadata.id, wait).await?;
            Ok(None)
        }
        Err(Refusal::LeaseElsewhere) => {
            Err(Error::because(Status::INVALID_PARAMETER, "the lease belongs to another file"))
        }
        Err(Refusal::DeletePending) => Err(Error::new(Status::DELETE_PENDING)),
        Err(Refusal::SharingViolation) => Err(Error::new(Status::SHARING_VIOLATION)),
    }
}

/// Returns the share mode of an open. Overwriting needs write sharing by other opens, whatever access is requested.
fn share_mode(parameters: &Parameters, granted: AccessMask) -> ShareMode {
    let overwriting = if parameters.overwrites() { AccessMask::FILE_WRITE_DATA.0 } else { 0 };
    ShareMode { access: AccessMask(granted.0 | overwriting), share: parameters.share_access }
}

/// Refuses to open a file that has a persistent open waiting for its client (3.3.5.9).
fn check_awaited(request: &Request<'_>, file: FileId) -> Result<()> {
    let server = &request.connection.server;
    if request.connection.dialect().0 >= Dialect::SMB_3_0.0 && server.opens.durable.is_awaited(file) {
        return Err(Error::because(
            Status::FILE_NOT_AVAILABLE,
            "the file is reserved for a persistent open whose client is disconnected",
        ));
    }
    Ok(())
}

/// Checks the kind of file. `leads_to_directory`: whether a symbolic link's target is a directory, if the server
/// follows it.
fn check_kind(
    name: &Name,
    parameters: &Parameters,
    metadata: &Metadata,
    leads_to_directory: Option<bool>,
) -> Result<()> {
    let is_directory = match metadata.kind {
        Kind::Directory => Some(true),
        Kind::File | Kind::Special => Some(false),
        Kind::Symlink => leads_to_directory,
    };
    if is_directory == Some(true)
        && (parameters.options.contains(CreateOptions::NON_DIRECTORY_FILE) || name.stream == Stream::Data)
    {
        return Err(Error::new(Status::FILE_IS_A_DIRECTORY));
    }
    if is_directory == Some(false) {
        if parameters.wants_directory() || name.stream == Stream::Index {
            return Err(Error::new(Status::NOT_A_DIRECTORY));
        }
        if name.trailing_backslash {
            return Err(Error::new(Status::OBJECT_NAME_INVALID));
        }
    }
    if metadata.kind == Kind::Directory && parameters.overwrites() {
        let root = name.path.is_root();
        return Err(Error::new(if root { Status::ACCESS_DENIED } else { Status::OBJECT_NAME_COLLISION }));
    }
    let data = parameters.desired_access.0 & (READING | WRITING) != 0 || parameters.overwrites();
    let refused = match metadata.kind {
        Kind::Special => data,
        // A symbolic link has no data to read or overwrite.
        Kind::Symlink => parameters.overwrites(),
        Kind::File | Kind::Directory => false,
    };
    if refused {
        return Err(Error::because(Status::ACCESS_DENIED, "not a regular file"));
    }
    Ok(())
}

/// Checks the restrictions by the file's own attributes.
fn check_attributes(disk: &Disk, parameters: &Parameters, found: &ExistingFile) -> Result<()> {
    let present = match parameters.posix {
        // The mode is not an attribute there.
        Some(_) => attributes::stored(disk, &found.metadata),
        None => attributes::file_attributes(disk, found.path.name(), &found.metadata).0,
    };
    let readonly = present & FileAttributes::READONLY.0 != 0 && found.metadata.kind != Kind::Directory;
    if readonly && (parameters.desired_access.0 & REFUSED_BY_READONLY != 0 || parameters.overwrites()) {
        return Err(Error::because(Status::ACCESS_DENIED, "the file is READONLY"));
    }
    let deletes = parameters.options.contains(CreateOptions::DELETE_ON_CLOSE);
    if deletes && present & FileAttributes::READONLY.0 != 0 && !disk.share.attributes.delete_readonly {
        return Err(Error::because(Status::CANNOT_DELETE, "the file is READONLY"));
    }
    if deletes && found.path.is_root() {
        return Err(Error::because(Status::CANNOT_DELETE, "not permitted for the share's root"));
    }
    // [MS-FSA] 2.1.5.1.2: overwriting must not silently make a hidden or system file visible. A name hidden by the
    // configuration stays hidden.
    let stored = attributes::file_attributes(disk, None, &found.metadata).0;
    let lost = stored & (FileAttributes::HIDDEN.0 | FileAttributes::SYSTEM.0) & !parameters.attributes;
    if parameters.overwrites() && lost != 0 && parameters.posix.is_none() {
        return Err(Error::because(
            Status::ACCESS_DENIED,
            "the file is HIDDEN or SYSTEM, but the request does not set these attributes",
        ));
    }
    Ok(())
}

/// Determines the access granted to the open.
pub(super) async fn grant(disk: &Disk, parameters: &Parameters, found: &ExistingFile) -> Result<AccessMask> {
    let ExistingFile { path, node, metadata, .. } = found;
    let wanted = parameters.desired_access;
    let overwriting = if parameters.overwrites() { AccessMask::FILE_WRITE_DATA.0 } else { 0 };
    let needed = AccessMask((wanted.0 | overwriting) & !AccessMask::ACCESS_SYSTEM_SECURITY.0);
    if parameters.maximum_allowed {
        // A user without the right to the SACL was refused before.
        let sacl = wanted & AccessMask::ACCESS_SYSTEM_SECURITY;
        let all = access::maximal(disk, path, node, metadata).await?;
        let mut all = access::at_once(disk, node, metadata, all, needed).await? & disk.share_rights | sacl;
        if !all.contains(needed) {
            return Err(Error::new(Status::ACCESS_DENIED));
        }
        let present = match parameters.posix {
            Some(_) => attributes::stored(disk, metadata),
            None => attributes::file_attributes(disk, path.name(), metadata).0,
        };
        if disk.read_only || (present & FileAttributes::READONLY.0 != 0 && metadata.kind == Kind::File) {
            all.0 &= !REFUSED_BY_READONLY;
        }
        let deletes = parameters.options.contains(CreateOptions::DELETE_ON_CLOSE);
        if deletes && all.0 & AccessMask::DELETE.0 == 0 {
            return Err(Error::new(Status::ACCESS_DENIED));
        }
        return Ok(all);
    }
    if !access::permits(disk, path, node, metadata, needed).await? {
        return Err(Error::new(Status::ACCESS_DENIED));
    }
    Ok(wanted)
}

/// Returns the data access that an open with these rights needs.
fn wanted(disk: &Disk, parameters: &Parameters, granted: AccessMask) -> Access {
    let writes = disk.snapshot.is_none() && granted.0 & WRITING != 0;
    Access { read: granted.0 & READING != 0, write: writes || parameters.overwrites() }
}

/// Opens the file descriptor for data, and truncates the file if the disposition requires it. Returns `None` if a local
/// program has a lease on the file and must release it first.
async fn open_data(
    request: &Request<'_>,
    disk: &Disk,
    parameters: &Parameters,
    contexts: &Contexts,
    found: &ExistingFile,
    granted: AccessMask,
) -> Result<Option<(Arc<dyn Node>, Metadata, CreateAction)>> {
    let op = &disk.op;
    let wanted = wanted(disk, parameters, granted);
    let node = if found.metadata.kind == Kind::File && (wanted.read || wanted.write) {
        match open_as_granted(found, op, wanted, granted).await {
            Err(Errno::AGAIN) => return Ok(None),
            opened => opened?,
        }
    } else {
        found.node.clone()
    };
    if wanted.read || wanted.write {
        let (mode, posix) = (share_mode(parameters, granted), parameters.posix.is_some());
        netatalk::enter(disk, &node, found.metadata.kind, mode, posix).await?;
    }
    if !parameters.overwrites() {
        return Ok(Some((node, found.metadata, CreateAction::OPENED)));
    }
    node.set_extent(op, Extent::Size(0)).await?;
    // A POSIX open truncates the content, and nothing else.
    let attributes = match parameters.posix {
        Some(_) => attributes::stored(disk, &found.metadata) | FileAttributes::ARCHIVE.0,
        None => {
            request.connection.server.opens.streams.remove_all(disk, &node, found.metadata.id).await?;
            parameters.attributes | FileAttributes::ARCHIVE.0
        }
    };
    if disk.share.attributes.store_dos_attributes {
        let set = SetMetadata { dos_attributes: Some(attributes), ..SetMetadata::default() };
        node.set_metadata(op, set).await?;
    }
    if let Some(attributes) = &contexts.extended_attributes {
        attributes.apply(&node, op, disk).await?;
    }
    let metadata = node.metadata(op).await?;
    let superseded = parameters.disposition == CreateDisposition::SUPERSEDE;
    Ok(Some((node, metadata, if superseded { CreateAction::SUPERSEDED } else { CreateAction::OVERWRITTEN })))
}

/// Opens the file for data. A stored descriptor may grant execution of a file that the kernel does not let the user
/// read. The open then succeeds but cannot read.
async fn open_as_granted(
    found: &ExistingFile,
    op: &Op,
    wanted: Access,
    granted: AccessMask,
) -> crate::vfs::Result<Arc<dyn Node>> {
    match found.node.open(op, wanted).await {
        Err(Errno::ACCES) if wanted.read && !granted.contains(AccessMask::FILE_READ_DATA) => {
            let less = Access { read: false, ..wanted };
            if less.write { found.node.open(op, less).await } else { Ok(found.node.clone()) }
        }
        done => done,
    }
}

/// Returns the answer to `MxAc`: the user's maximal access to the open file, or the status of a failure to determine
/// it.
pub(super) async fn maximal_access(disk: &Disk, opened: &Opened) -> std::result::Result<AccessMask, Status> {
    let path = opened.name.path.lock().clone();
    let all = access::maximal(disk, &path, &opened.node, &opened.metadata).await.map_err(|error| error.status)?;
    Ok(all & disk.share_rights)
}
