//! What a user may do with a file: by its security descriptor where the share stores those, else by what the kernel's
//! permission bits stand for.
//!
//! The kernel has the last word: data is read and written through descriptors that it opened for the user, and names
//! and attributes change through calls made as the user. What is computed here tells a client beforehand, at CREATE,
//! and with stored descriptors it refuses what those do not grant ([MS-FSA] 2.1.5.1.2.1).

use std::sync::Arc;

use proto::dtyp::AccessMask;
use proto::status::Status;

use super::cache::Descriptor;
use super::descriptor;
use crate::error::{Error, Result};
use crate::policy::InheritOwner;
use crate::tree::Disk;
use crate::vfs::{Case, Identity, Kind, Links, Lookup, Metadata, Node, RelPath};

const READ: u32 = AccessMask::FILE_READ_DATA.0 | AccessMask::FILE_READ_EA.0;
/// Whoever may read a file may run it: the bytes that go over the wire are the same.
/// Deviates from Samba's default, as `acl allow execute always = yes` there.
const READ_FILE: u32 = READ | AccessMask::FILE_EXECUTE.0;
/// For a file, the right to delete children means nothing; without it nobody would have all rights on one.
const WRITE: u32 = AccessMask::FILE_WRITE_DATA.0
    | AccessMask::FILE_APPEND_DATA.0
    | AccessMask::FILE_DELETE_CHILD.0
    | AccessMask::FILE_WRITE_EA.0
    | AccessMask::FILE_WRITE_ATTRIBUTES.0;
/// What everybody may do who can reach the file: Linux shows attributes and permissions to all of them.
const REACH: u32 = AccessMask::FILE_READ_ATTRIBUTES.0 | AccessMask::READ_CONTROL.0 | AccessMask::SYNCHRONIZE.0;
/// What Linux lets the owner do whatever the permission bits say.
const OWNER: u32 = AccessMask::WRITE_DAC.0 | AccessMask::WRITE_OWNER.0 | AccessMask::FILE_WRITE_ATTRIBUTES.0;
/// What it takes to see a file in a listing with `hide unreadable`, as in Samba and Windows.
const VISIBLE: AccessMask = AccessMask(READ | AccessMask::FILE_READ_ATTRIBUTES.0 | AccessMask::READ_CONTROL.0);

/// The permission bits (`rwx`) that the mode gives to `who`, POSIX ACLs left aside.
pub(crate) fn mode_permissions(metadata: &Metadata, who: &Identity) -> u32 {
    if who.uid == 0 {
        return 0o7;
    }
    let shift = if metadata.uid == who.uid {
        6
    } else if metadata.gid == who.gid || who.groups.contains(&metadata.gid) {
        3
    } else {
        0
    };
    (metadata.mode >> shift) & 0o7
}

/// The rights that permission bits stand for, all but DELETE, which is the directory's to give.
fn rights(permissions: u32, metadata: &Metadata, who: &Identity) -> AccessMask {
    let directory = metadata.kind == Kind::Directory;
    let mut rights = REACH;
    if permissions & 0o4 != 0 {
        rights |= if directory { READ } else { READ_FILE };
    }
    if permissions & 0o2 != 0 {
        rights |= WRITE;
    }
    if permissions & 0o1 != 0 {
        rights |= AccessMask::FILE_EXECUTE.0;
    }
    if who.uid == 0 || who.uid == metadata.uid {
        rights |= OWNER;
        // Linux lets the owner change times and attributes of its read-only file; extended attributes need `w`.
    }
    AccessMask(rights)
}

/// Whether stored descriptors decide for this user: root is asked for nothing.
fn is_checked(disk: &Disk) -> bool {
    disk.share.acls.is_some() && disk.identity.uid != 0
}

/// The rights that a file's descriptor gives to the user of `disk`.
async fn granted(disk: &Disk, node: &Arc<dyn Node>, metadata: &Metadata) -> Result<AccessMask> {
    Ok(descriptor::of(disk, node, metadata).await?.granted(disk))
}

/// The same for opening it: who reaches a file may read its attributes.
async fn granted_on_open(disk: &Disk, node: &Arc<dyn Node>, metadata: &Metadata) -> Result<AccessMask> {
    let granted = granted(disk, node, metadata).await? | AccessMask::FILE_READ_ATTRIBUTES;
    let runs = disk.share.acl_allow_execute_always && granted.contains(AccessMask::FILE_READ_DATA);
    Ok(if runs { granted | AccessMask::FILE_EXECUTE } else { granted })
}

async fn find(disk: &Disk, path: &RelPath) -> Result<Option<(Arc<dyn Node>, Metadata)>> {
    let links = Links { follow: disk.share.follow_symlinks, wide: disk.share.wide_links };
    Ok(match disk.vfs.lookup(&disk.identity, path, Case::Sensitive, links).await? {
        Lookup::Found { node, metadata, .. } => Some((node, metadata)),
        _ => None,
    })
}

/// Whether the user may remove the name `path` of a file owned by `owner`.
async fn may_unlink(disk: &Disk, path: &RelPath, owner: u32) -> Result<bool> {
    let who = &disk.identity;
    let Some(parent) = path.parent() else { return Ok(false) };
    let Some((node, metadata)) = find(disk, &parent).await? else { return Ok(false) };
    let sticky = metadata.mode & 0o1000 != 0 && who.uid != 0 && who.uid != owner && who.uid != metadata.uid;
    if sticky {
        return Ok(false);
    }
    if is_checked(disk) {
        return Ok(granted(disk, &node, &metadata).await?.contains(AccessMask::FILE_DELETE_CHILD));
    }
    // Writing and searching the directory.
    Ok(node.permissions(who).await? & 0o3 == 0o3)
}

/// All rights that the user has on a file: by its descriptor, less what the kernel refuses; or the kernel's alone.
pub(crate) async fn maximal(
    disk: &Disk,
    path: &RelPath,
    node: &Arc<dyn Node>,
    metadata: &Metadata,
) -> Result<AccessMask> {
    let who = &disk.identity;
    let mut all = if is_checked(disk) {
        let granted = granted_on_open(disk, node, metadata).await?.without(AccessMask::ACCESS_SYSTEM_SECURITY);
        granted.without(refused(disk, node, metadata, granted).await?)
    } else {
        rights(node.permissions(who).await?, metadata, who)
    };
    if !all.contains(AccessMask::DELETE) && may_unlink(disk, path, metadata.uid).await? {
        all |= AccessMask::DELETE;
    }
    Ok(all)
}

/// Which of `granted` rights to a file's data the kernel would refuse.
async fn refused(disk: &Disk, node: &Arc<dyn Node>, metadata: &Metadata, granted: AccessMask) -> Result<AccessMask> {
    const WRITING: AccessMask = AccessMask(AccessMask::FILE_WRITE_DATA.0 | AccessMask::FILE_APPEND_DATA.0);
    let needs = |permissions: u32| {
        let lacks = |bit, rights: AccessMask| if permissions & bit == 0 { granted & rights } else { AccessMask::NONE };
        lacks(4, AccessMask::FILE_READ_DATA) | lacks(2, WRITING)
    };
    if metadata.kind != Kind::File || needs(0).is_empty() {
        return Ok(AccessMask::NONE);
    }
    let of_owner = disk.identity.uid == metadata.uid && needs(mode_permissions(metadata, &disk.identity)).is_empty();
    if of_owner { Ok(AccessMask::NONE) } else { Ok(needs(node.permissions(&disk.identity).await?)) }
}

/// Whether the user has `wanted` on an existing file. Without stored descriptors, the common case is decided from the
/// mode bits at hand, without a system call.
pub(crate) async fn permits(
    disk: &Disk,
    path: &RelPath,
    node: &Arc<dyn Node>,
    metadata: &Metadata,
    wanted: AccessMask,
) -> Result<bool> {
    let who = &disk.identity;
    let by_parent = wanted.contains(AccessMask::DELETE);
    if is_checked(disk) {
        let lacks = wanted.without(granted_on_open(disk, node, metadata).await?);
        return match lacks.without(AccessMask::DELETE).is_empty() {
            true => Ok(lacks.is_empty() || may_unlink(disk, path, metadata.uid).await?),
            false => Ok(false),
        };
    }
    let beyond = |all: AccessMask| wanted.0 & !AccessMask::DELETE.0 & !all.0 != 0;
    if beyond(rights(mode_permissions(metadata, who), metadata, who))
        && beyond(rights(node.permissions(who).await?, metadata, who))
    {
        return Ok(false);
    }
    if !by_parent || path.is_root() {
        return Ok(true);
    }
    may_unlink(disk, path, metadata.uid).await
}

/// The directory that `path` is to be made in, as far as the share's parameters ask what it is like.
pub(crate) async fn model(disk: &Disk, path: &RelPath) -> Result<Option<Metadata>> {
    if disk.share.inherit_owner == InheritOwner::No && !disk.share.inherit_permissions {
        return Ok(None);
    }
    let Some(parent) = path.parent() else { return Ok(None) };
    Ok(find(disk, &parent).await?.map(|(_, metadata)| metadata))
}

/// Whether the user may make `path`, by the descriptor of its directory ([MS-FSA] 2.1.5.1.1); answers that descriptor,
/// for what is made inherits from it. `None` where none are stored: then the kernel alone decides.
pub(crate) async fn may_make(disk: &Disk, path: &RelPath, directory: bool) -> Result<Option<Arc<Descriptor>>> {
    if disk.share.acls.is_none() {
        return Ok(None);
    }
    let parent = path.parent().ok_or(Error::new(Status::OBJECT_NAME_INVALID))?;
    let found = find(disk, &parent).await?;
    let (node, metadata) = found.ok_or(Error::new(Status::OBJECT_PATH_NOT_FOUND))?;
    let protection = descriptor::of(disk, &node, &metadata).await?;
    let needed = if directory { AccessMask::FILE_ADD_SUBDIRECTORY } else { AccessMask::FILE_ADD_FILE };
    if is_checked(disk) && !protection.granted(disk).contains(needed) {
        return Err(Error::because(Status::ACCESS_DENIED, "the directory's list does not let the user add to it"));
    }
    Ok(Some(protection.descriptor.clone()))
}

/// Whether the user may give a file, a `directory` or not, the new name `to` beside or instead of `from`; with `replaced`
/// something has that name and goes ([MS-FSA] 2.1.5.15.12, 2.1.5.15.7). The kernel decides the rest.
pub(crate) async fn may_name(
    disk: &Disk,
    directory: bool,
    from: Option<&RelPath>,
    to: &RelPath,
    replaced: bool,
) -> Result<()> {
    if !is_checked(disk) {
        return Ok(());
    }
    if from.is_none_or(|from| from.parent() != to.parent()) {
        may_make(disk, to, directory).await?;
    }
    if !replaced {
        return Ok(());
    }
    match find(disk, to).await? {
        Some((node, metadata)) if !permits(disk, to, &node, &metadata, AccessMask::DELETE).await? => {
            Err(Error::because(Status::ACCESS_DENIED, "what would be replaced may not be deleted"))
        }
        _ => Ok(()),
    }
}

/// `hide unreadable`: whether the user could open `path`, an entry of a listing, for reading.
pub(crate) async fn is_visible(disk: &Disk, path: &RelPath, metadata: &Metadata) -> bool {
    let by_mode = mode_permissions(metadata, &disk.identity) & 0o4 != 0;
    if by_mode && !is_checked(disk) {
        return true;
    }
    if is_checked(disk)
        && let Some(known) = descriptor::known(disk, metadata)
    {
        return known.granted(disk).contains(VISIBLE);
    }
    let Ok(Some((node, metadata))) = find(disk, path).await else { return false };
    if is_checked(disk) {
        return granted(disk, &node, &metadata).await.is_ok_and(|granted| granted.contains(VISIBLE));
    }
    // A POSIX ACL may let the user read what the mode bits do not.
    node.permissions(&disk.identity).await.is_ok_and(|permissions| permissions & 0o4 != 0)
}
