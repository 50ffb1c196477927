//! What a user may do with a file: by its security descriptor where the share stores those, else by what the kernel's
//! permission bits stand for.
//!
//! The kernel has the last word: data is read and written through descriptors that it opened for the user, and names
//! and attributes change through calls made as the user. What is computed here tells a client beforehand, at CREATE,
//! and with stored descriptors it refuses what those do not grant ([MS-FSA] 2.1.5.1.2.1).

use std::sync::Arc;

use proto::dtyp::AccessMask;
use proto::status::Status;

use super::descriptor::{self, Protection};
use crate::error::{Error, Result};
use crate::policy::InheritOwner;
use crate::tree::Disk;
use crate::vfs::{Case, Identity, Kind, Lookup, Metadata, Node, RelPath, Watched};

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
/// What needs `w`.
const WRITING: AccessMask = AccessMask(AccessMask::FILE_WRITE_DATA.0 | AccessMask::FILE_APPEND_DATA.0);
/// What Linux lets the owner do whatever the permission bits say.
const OWNER: u32 = AccessMask::WRITE_DAC.0 | AccessMask::WRITE_OWNER.0 | AccessMask::FILE_WRITE_ATTRIBUTES.0;
/// What it takes to see a file in a listing with `hide unreadable`, as in Samba and Windows.
const VISIBLE: AccessMask = AccessMask(READ | AccessMask::FILE_READ_ATTRIBUTES.0 | AccessMask::READ_CONTROL.0);

/// Never enough, so that all rights are found.
const ALL: AccessMask = AccessMask(u32::MAX);

/// The permission bits (`rwx`) that the mode gives to `who`: all there is for root, the owner, and a file without a list.
fn mode_permissions(metadata: &Metadata, who: &Identity) -> u32 {
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

/// Whether somebody who is not the owner may change the list of a file for which no descriptor is stored: `acl group
/// control`, and with `writes` what `dos filemode` says.
pub(crate) fn overrides_owner(disk: &Disk, metadata: &Metadata, writes: bool) -> bool {
    let (who, share) = (&disk.identity, &disk.share);
    let is_member = who.gid == metadata.gid || who.groups.contains(&metadata.gid);
    share.acls.is_none() && (share.acl_group_control && is_member || share.dos_filemode && writes)
}

/// The same by permission bits, as a right.
fn overriding(disk: &Disk, metadata: &Metadata, permissions: u32) -> AccessMask {
    let overrides = overrides_owner(disk, metadata, permissions & 0o2 != 0);
    if overrides { AccessMask::WRITE_DAC } else { AccessMask::NONE }
}

/// Whether stored descriptors decide for this user: root is asked for nothing.
fn is_checked(disk: &Disk) -> bool {
    disk.share.acls.is_some() && disk.identity.uid != 0
}

/// The rights that a file's descriptor gives to the user of `disk` for opening it, or some that are `enough`: who reaches a
/// file may read its attributes.
async fn granted_on_open(
    disk: &Disk,
    node: &Arc<dyn Node>,
    metadata: &Metadata,
    enough: AccessMask,
) -> Result<AccessMask> {
    let granted = descriptor::granted(disk, node, metadata, enough).await? | AccessMask::FILE_READ_ATTRIBUTES;
    let runs = disk.share.acl_allow_execute_always && granted.contains(AccessMask::FILE_READ_DATA);
    Ok(if runs { granted | AccessMask::FILE_EXECUTE } else { granted })
}

/// What the user finds at `path`.
pub(crate) async fn find(disk: &Disk, path: &RelPath) -> Result<Option<(Arc<dyn Node>, Metadata)>> {
    Ok(match disk.vfs.lookup(&disk.identity, path, Case::Sensitive, disk.share.links()).await? {
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
        let granted = descriptor::granted(disk, &node, &metadata, AccessMask::FILE_DELETE_CHILD).await?;
        if !granted.contains(AccessMask::FILE_DELETE_CHILD) {
            return Ok(false);
        }
    }
    // Writing and searching the directory.
    kernel_permits(disk, &node, &metadata, 0o3).await
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
        let granted = granted_on_open(disk, node, metadata, ALL).await?.without(AccessMask::ACCESS_SYSTEM_SECURITY);
        granted.without(refused(disk, node, metadata, granted).await?)
    } else {
        let permissions = node.permissions(who).await?;
        rights(permissions, metadata, who) | overriding(disk, metadata, permissions)
    };
    if !all.contains(AccessMask::DELETE) && may_unlink(disk, path, metadata.uid).await? {
        all |= AccessMask::DELETE;
    }
    Ok(all)
}

/// What one open of a file can have of `all`: the kernel opens it for reading and writing only where one entry of its list
/// has both. Where none does, what the open needs comes first, and then reading.
pub(crate) async fn at_once(
    disk: &Disk,
    node: &Arc<dyn Node>,
    metadata: &Metadata,
    all: AccessMask,
    needed: AccessMask,
) -> Result<AccessMask> {
    let both = all.contains(AccessMask::FILE_READ_DATA) && all.intersects(WRITING);
    if metadata.kind != Kind::File || !both || kernel_permits(disk, node, metadata, 0o6).await? {
        return Ok(all);
    }
    const READING: AccessMask = AccessMask(AccessMask::FILE_READ_DATA.0 | AccessMask::FILE_EXECUTE.0);
    Ok(all.without(if needed.intersects(WRITING) { READING } else { WRITING }))
}

/// Whether the mode says what the kernel gives to `who`. For others than the owner it may stand for a list, which Linux
/// looks at where there is any bit for the group.
fn is_by_mode(metadata: &Metadata, who: &Identity) -> bool {
    who.uid == 0 || who.uid == metadata.uid || metadata.mode & 0o070 == 0
}

/// Whether the kernel gives the user all of the permission bits `wanted`.
pub(crate) async fn kernel_permits(disk: &Disk, node: &Arc<dyn Node>, metadata: &Metadata, wanted: u8) -> Result<bool> {
    let (who, bits) = (&disk.identity, u32::from(wanted));
    if is_by_mode(metadata, who) {
        return Ok(mode_permissions(metadata, who) & bits == bits);
    }
    match descriptor::of(disk, node, metadata).await?.permits(who, wanted) {
        Some(known) => Ok(known),
        None => Ok(node.permissions(who).await? & bits == bits),
    }
}

/// Which of `granted` rights to the data of a file or the entries of a directory the kernel would refuse.
async fn refused(disk: &Disk, node: &Arc<dyn Node>, metadata: &Metadata, granted: AccessMask) -> Result<AccessMask> {
    let (reading, writing) = match metadata.kind {
        Kind::File => (AccessMask::FILE_READ_DATA, WRITING),
        Kind::Directory => (AccessMask::FILE_LIST_DIRECTORY, WRITING | AccessMask::FILE_DELETE_CHILD),
        Kind::Special | Kind::Symlink => return Ok(AccessMask::NONE),
    };
    if !granted.intersects(reading | writing) {
        return Ok(AccessMask::NONE);
    }
    let lacks = async |bit, rights| -> Result<AccessMask> {
        let rights = granted & rights;
        let has = rights.is_empty() || kernel_permits(disk, node, metadata, bit).await?;
        Ok(if has { AccessMask::NONE } else { rights })
    };
    Ok(lacks(0o4, reading).await? | lacks(0o2, writing).await?)
}

/// Whether the user has `wanted` on an existing file. For the owner the mode bits at hand decide, without a system call.
/// What a stored descriptor grants of a file's data the kernel allows or refuses when the file is opened, right after.
pub(crate) async fn permits(
    disk: &Disk,
    path: &RelPath,
    node: &Arc<dyn Node>,
    metadata: &Metadata,
    wanted: AccessMask,
) -> Result<bool> {
    let who = &disk.identity;
    let needed = wanted.without(AccessMask::DELETE);
    // Who reaches a file may read its attributes, whatever protects it: most requests of some clients ask for no more.
    if wanted.without(AccessMask::FILE_READ_ATTRIBUTES).is_empty() {
        return Ok(true);
    }
    if is_checked(disk) {
        let lacks = wanted.without(granted_on_open(disk, node, metadata, wanted).await?);
        let by_kernel = metadata.kind != Kind::Directory || refused(disk, node, metadata, needed).await?.is_empty();
        return match lacks.without(AccessMask::DELETE).is_empty() && by_kernel {
            true => Ok(lacks.is_empty() || may_unlink(disk, path, metadata.uid).await?),
            false => Ok(false),
        };
    }
    if !rights(0, metadata, who).contains(needed) {
        let mut permissions = 0;
        for bit in [0o4, 0o2, 0o1] {
            let has = kernel_permits(disk, node, metadata, bit).await?;
            permissions |= if has { u32::from(bit) } else { 0 };
        }
        let all = rights(permissions, metadata, who) | overriding(disk, metadata, permissions);
        if !all.contains(needed) {
            return Ok(false);
        }
    }
    if !wanted.contains(AccessMask::DELETE) || path.is_root() {
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

/// Whether the user may make `path`, by the descriptor of its directory ([MS-FSA] 2.1.5.1.1); answers what protects
/// that, for what is made inherits from it. `None` where none are stored: then the kernel alone decides. `watched` is that
/// directory as it was found on the way, where it is watched.
pub(crate) async fn may_make(
    disk: &Disk,
    path: &RelPath,
    directory: bool,
    watched: Option<&Watched>,
) -> Result<Option<Arc<Protection>>> {
    if disk.share.acls.is_none() {
        return Ok(None);
    }
    let protection = match watched.and_then(|watched| disk.descriptors.find_watched(disk.place, watched)) {
        Some(known) => known,
        None => {
            let parent = path.parent().ok_or(Error::new(Status::OBJECT_NAME_INVALID))?;
            let found = find(disk, &parent).await?;
            let (node, metadata) = found.ok_or(Error::new(Status::OBJECT_PATH_NOT_FOUND))?;
            descriptor::of_watched(disk, &node, &metadata, watched).await?
        }
    };
    let needed = if directory { AccessMask::FILE_ADD_SUBDIRECTORY } else { AccessMask::FILE_ADD_FILE };
    if is_checked(disk) && !protection.granted(disk).contains(needed) {
        return Err(Error::because(Status::ACCESS_DENIED, "the directory's list does not let the user add to it"));
    }
    Ok(Some(protection))
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
        may_make(disk, to, directory, None).await?;
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
    let who = &disk.identity;
    let seen = |protection: &Protection| {
        let by_kernel = protection.permits(who, 0o4);
        match is_checked(disk) {
            true => Some(by_kernel != Some(false) && protection.granted(disk).contains(VISIBLE)),
            false => by_kernel,
        }
    };
    if !is_checked(disk) && is_by_mode(metadata, who) {
        return mode_permissions(metadata, who) & 0o4 != 0;
    }
    if let Some(own) = descriptor::own_if_bare(disk, metadata, VISIBLE).filter(|_| is_checked(disk)) {
        return own.contains(VISIBLE);
    }
    if let Some(seen) = descriptor::known(disk, metadata).and_then(|known| seen(&known)) {
        return seen;
    }
    let Ok(Some((node, metadata))) = find(disk, path).await else { return false };
    descriptor::of(disk, &node, &metadata).await.is_ok_and(|protection| seen(&protection) == Some(true))
}
