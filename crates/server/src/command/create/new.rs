//! Creates a file or directory ([MS-FSA] 2.1.5.1.1).

use std::sync::Arc;

use parking_lot::Mutex;
use proto::dtyp::AccessMask;
use proto::dtyp::security_descriptor::Control;
use proto::fscc::FileAttributes;
use proto::smb2::create::{CreateAction, CreateOptions};
use proto::status::Status;

use super::Opened;
use super::contexts::Contexts;
use super::entered::Entered;
use super::parameters::Parameters;
use crate::acl::protection::Protection;
use crate::error::{Error, Result};
use crate::files::oplock::Opening;
use crate::files::{OpenName, ShareMode};
use crate::links;
use crate::name::{Name, Stream};
use crate::policy::InheritOwner;
use crate::request::Request;
use crate::security::access;
use crate::security::set::{apply, new_file};
use crate::state::abandoned::What;
use crate::tree::Disk;
use crate::vfs::{Access, Create, DirectoryVersion, Errno, Extent, Metadata, NewFile, Node, RelPath, SetMetadata};

const READING: u32 = AccessMask::FILE_READ_DATA.0 | AccessMask::FILE_EXECUTE.0;
const WRITING: u32 = AccessMask::FILE_WRITE_DATA.0 | AccessMask::FILE_APPEND_DATA.0;

/// The location of a new file.
pub(super) struct NewName {
    /// The path of the file.
    pub(super) path: RelPath,
    /// Its directory, if that is watched.
    pub(super) parent: Option<DirectoryVersion>,
}

/// Creates the file; returns `None` if the name was created concurrently.
pub(super) async fn make(
    request: &Request<'_>,
    disk: &Disk,
    name: &Name,
    parameters: &Parameters,
    contexts: &Contexts,
    place: NewName,
) -> Result<Option<Opened>> {
    let NewName { path, parent: watched } = place;
    if !parameters.creates() {
        return Err(Error::new(Status::OBJECT_NAME_NOT_FOUND));
    }
    if disk.read_only {
        return Err(disk.refusal());
    }
    let directory = parameters.wants_directory() || name.stream == Stream::Index;
    if name.trailing_backslash && !directory {
        return Err(Error::new(Status::OBJECT_NAME_INVALID));
    }
    check_attributes(disk, parameters)?;
    if parameters.lease_id().is_some_and(|lease| request.connection.server.opens.files.lease_is_elsewhere(lease, None))
    {
        return Err(Error::because(Status::INVALID_PARAMETER, "the lease belongs to another file"));
    }
    let all = if parameters.maximum_allowed { AccessMask::FILE_ALL_ACCESS } else { AccessMask::NONE };
    let granted = all | parameters.desired_access;
    let parent = access::may_make(disk, &path, directory, watched.as_ref()).await?;
    let model = access::model(disk, &path).await?;
    let (what, mode) = what_to_make(disk, directory, granted, model.as_ref());
    let given = contexts.security_descriptor.as_ref();
    let brings_list = given.is_some_and(|given| given.control.contains(Control::DACL_PRESENT));
    let by_kernel = !brings_list && parent.as_ref().is_some_and(|parent| parent.keeps_heirs_out);
    // Until its descriptor and POSIX ACL are set, only the owner has access to the file.
    let narrowed = !by_kernel && disk.share.acls.as_ref().is_some_and(|acls| !acls.ignore_system_acls);
    let at_first = if narrowed { mode & 0o7700 } else { mode };
    let server = &request.connection.server;
    let attributes = parameters.attributes | if directory { 0 } else { FileAttributes::ARCHIVE.0 };
    let stored = disk.share.store_dos_attributes.then_some(attributes);
    let removals = server.opens.files.removals();
    let open_name = Arc::new(OpenName { volume: disk.volume, path: Mutex::new(path.clone()) });
    let making = server.opens.files.make(&open_name);
    let guard = match (&parent, &watched) {
        (Some(parent), Some(watched)) if contexts.security_descriptor.is_none() => {
            new_file::foresee(disk, request.connection.server.environment.now(), parent, watched, mode, directory).await
        }
        _ => None,
    };
    let new = NewFile { kind: what, mode: at_first, dos_attributes: stored, protection: guard };
    let (node, mut metadata, guarded) = match disk.vfs.create(&disk.op, &path, new).await {
        Ok(made) => (made.node, made.metadata, made.protected),
        Err(Errno::EXIST) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    if !links::admits(disk, &node).await {
        // An intermediate directory became a link to a vetoed one meanwhile.
        disk.vfs.unlink(&disk.op, &path, metadata.id, metadata.kind).await?;
        return Err(Errno::LOOP.into());
    }
    // If the kernel applied the inherited ACL, it also applied the mode.
    let mode_to_give = (!by_kernel && parent.is_some()).then_some(mode);
    let (model, parent) = (model.as_ref(), parent.as_deref());
    let made = Made { node: &node, metadata: &metadata, mode, mode_to_give, brings_list, model, parent };
    let protected = if guarded { Ok(None) } else { protect(request, disk, contexts, made).await };
    match protected {
        Ok(None) => {}
        Ok(Some(changed)) => metadata = changed,
        Err(error) => {
            // The file must not be accessible without its protection.
            let path = open_name.path.lock().clone();
            disk.vfs.unlink(&disk.op, &path, metadata.id, metadata.kind).await?;
            return Err(error);
        }
    }
    // [MS-FSA] 2.1.5.1.1: inherited from the directory, unless NO_COMPRESSION is set.
    if metadata.compressed && parameters.options.contains(CreateOptions::NO_COMPRESSION) {
        node.set_metadata(&disk.op, SetMetadata { compressed: Some(false), ..SetMetadata::default() }).await?;
        metadata.compressed = false;
    }
    if let Some(attributes) = &contexts.extended_attributes {
        attributes.apply(&node, &disk.op, disk).await?;
    }
    if let Some(size) = contexts.allocation_size
        && !directory
        && disk.share.strict_allocate
    {
        node.set_extent(&disk.op, Extent::Reserve(size)).await?;
    }
    let open_id = server.next_open_id();
    let mode = ShareMode { access: granted, share: parameters.share_access };
    // Another client may have found and opened the file in between. Then the share modes decide, and the file stays, as
    // after a create and an immediate close.
    let opening = Opening::new(granted, false, parameters.lease_id(), server.environment.uptime());
    let enter = |removals| server.opens.files.open(metadata.id, open_id, mode, &open_name, removals, opening);
    let entered = match enter(removals) {
        Err(crate::files::Refusal::Raced) => enter(server.opens.files.removals()),
        entered => entered,
    };
    drop(making);
    entered.map_err(|_| Error::new(Status::SHARING_VIOLATION))?;
    let what = What::File(node.clone(), metadata.kind);
    Ok(Some(Opened {
        entered: Entered::new(request, metadata.id, what, &open_name, open_id)?,
        node,
        metadata,
        name: open_name,
        granted,
        action: CreateAction::CREATED,
        asked_allocation: 0,
        leads_to_directory: false,
    }))
}

/// A newly created file and its context.
struct Made<'a> {
    node: &'a Arc<dyn Node>,
    metadata: &'a Metadata,
    /// The requested mode.
    mode: u32,
    /// That mode, if it must still be set explicitly.
    mode_to_give: Option<u32>,
    /// The client sent a DACL with the request.
    brings_list: bool,
    /// Its directory, if that determines the owner.
    model: Option<&'a Metadata>,
    /// The effective descriptor of its directory, if descriptors are stored.
    parent: Option<&'a Protection>,
}

/// Sets the owner and the descriptor of a new file: the descriptor from the client, or the inherited one. Returns the
/// new metadata if anything changed.
async fn protect(request: &Request<'_>, disk: &Disk, contexts: &Contexts, made: Made<'_>) -> Result<Option<Metadata>> {
    let Made { node, metadata, mode, mode_to_give, brings_list, model, parent } = made;
    let now = request.connection.server.environment.now();
    let mut present = *metadata;
    let owner = model.filter(|_| disk.share.inherit_owner != InheritOwner::No).map(|model| model.uid);
    if let Some(uid) = owner.filter(|&uid| uid != metadata.uid) {
        apply::give_to(node, uid).await?;
        present.uid = uid;
    }
    let given = contexts.security_descriptor.as_ref();
    let mut protected = brings_list;
    if let Some(parent) = parent.filter(|_| !brings_list) {
        protected = apply::inherit(disk, node, now, parent, &present, mode & 0o111 != 0).await?;
    }
    if let Some(given) = given {
        apply::give(disk, (metadata.id, node), now, given).await?;
    }
    if let Some(mode) = mode_to_give.filter(|_| !protected) {
        apply::give_mode(disk, node, &present, mode).await?;
    }
    let changed = parent.is_some() || given.is_some() || present.uid != metadata.uid;
    Ok(if changed { Some(node.metadata(&disk.op).await?) } else { None })
}

fn check_attributes(disk: &Disk, parameters: &Parameters) -> Result<()> {
    let readonly = parameters.attributes & FileAttributes::READONLY.0 != 0;
    let deletes = parameters.options.contains(CreateOptions::DELETE_ON_CLOSE);
    if readonly && deletes && !disk.share.delete_readonly {
        return Err(Error::because(Status::CANNOT_DELETE, "a READONLY file cannot be opened for delete-on-close"));
    }
    Ok(())
}

/// Returns what to create and its mode: `create mask` and `force create mode` or the directory equivalents, or with
/// `inherit permissions` the mode of the parent directory `model`. The kernel applies default ACLs on top.
fn what_to_make(disk: &Disk, directory: bool, granted: AccessMask, model: Option<&Metadata>) -> (Create, u32) {
    let share = &disk.share;
    let model = model.filter(|_| share.inherit_permissions);
    if directory {
        let masked = (0o777 & share.directory_mask) | share.force_directory_mode;
        return (Create::Directory, model.map_or(masked, |model| model.mode & 0o3777));
    }
    let access = Access { read: granted.0 & READING != 0, write: granted.0 & WRITING != 0 };
    let masked = (0o666 & share.create_mask) | share.force_create_mode;
    (Create::File(access), model.map_or(masked, |model| model.mode & 0o666))
}
