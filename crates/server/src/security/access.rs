//! Access rights of a user on a file: from its security descriptor where the share stores them, otherwise from the
//! permission bits or POSIX ACL that the kernel enforces.
//!
//! The kernel has the last word. Data is read and written through file descriptors that the kernel opened for the user,
//! and names and attributes are changed by system calls made as the user. The rights computed here are reported to the
//! client at CREATE. On shares that store descriptors they also refuse rights that the descriptor does not grant
//! ([MS-FSA] 2.1.5.1.2.1).

use std::sync::Arc;

use proto::dtyp::AccessMask;
use proto::status::Status;

use crate::acl::protection::Protection;
use crate::error::{Error, Result};
use crate::policy::InheritOwner;
use crate::security::effective;
use crate::tree::Disk;
use crate::vfs::{Enforcement, Identity, Kind, Lookup, LookupOptions, Metadata, Node, Parent, RelPath};

const READ: u32 = AccessMask::FILE_READ_DATA.0 | AccessMask::FILE_READ_EA.0;
/// A user who may read a file may also execute it, because the same bytes are sent over the wire. Deviates from Samba's
/// default. Samba does this with `acl allow execute always = yes`.
const READ_FILE: u32 = READ | AccessMask::FILE_EXECUTE.0;
/// The right to delete children has no meaning for a file. It is included because no user would have full control
/// otherwise.
const WRITE: u32 = AccessMask::FILE_WRITE_DATA.0
    | AccessMask::FILE_APPEND_DATA.0
    | AccessMask::FILE_DELETE_CHILD.0
    | AccessMask::FILE_WRITE_EA.0
    | AccessMask::FILE_WRITE_ATTRIBUTES.0;
/// The rights of every user who can reach the file, because Linux shows attributes and permissions to all of them.
const REACH: u32 = AccessMask::FILE_READ_ATTRIBUTES.0 | AccessMask::READ_CONTROL.0 | AccessMask::SYNCHRONIZE.0;
/// The rights that need `w`.
const WRITING: AccessMask = AccessMask(AccessMask::FILE_WRITE_DATA.0 | AccessMask::FILE_APPEND_DATA.0);
/// The rights that Linux gives to the owner regardless of the permission bits.
const OWNER: u32 = AccessMask::WRITE_DAC.0 | AccessMask::WRITE_OWNER.0 | AccessMask::FILE_WRITE_ATTRIBUTES.0;
/// The rights needed to see a file in a listing with `hide unreadable`, as in Samba and Windows.
const VISIBLE: AccessMask = AccessMask(READ | AccessMask::FILE_READ_ATTRIBUTES.0 | AccessMask::READ_CONTROL.0);

/// Never satisfied, so all rights are computed.
const ALL: AccessMask = AccessMask(u32::MAX);

/// Returns the permission bits (`rwx`) that the mode gives to `who`. They are exact for root, for the owner, and for a
/// file without a POSIX ACL.
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

/// Returns the rights that correspond to permission bits. DELETE is not included because the directory grants it.
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
        // Linux lets the owner change times and attributes of a read-only file. Extended attributes need `w`.
    }
    AccessMask(rights)
}

/// Whether a user who is not the owner may change the POSIX ACL of a file on a share that stores no descriptors: by
/// `acl group control`, or, if the user can write the file (`writes`), by `dos filemode`.
pub(crate) fn overrides_owner(disk: &Disk, metadata: &Metadata, writes: bool) -> bool {
    let (who, share) = (&disk.op, &disk.share);
    let is_member = who.gid == metadata.gid || who.groups.contains(&metadata.gid);
    share.acls.stored.is_none() && (share.acls.acl_group_control && is_member || share.acls.dos_filemode && writes)
}

/// Returns WRITE_DAC if [`overrides_owner`] allows it, with write access taken from the permission bits.
fn overriding(disk: &Disk, metadata: &Metadata, permissions: u32) -> AccessMask {
    let overrides = overrides_owner(disk, metadata, permissions & 0o2 != 0);
    if overrides { AccessMask::WRITE_DAC } else { AccessMask::NONE }
}

/// Whether stored descriptors are checked for this user. They are not checked for a superuser.
fn is_checked(disk: &Disk) -> bool {
    disk.share.acls.stored.is_some() && (disk.op.uid != 0 || is_root_refused(disk))
}

/// Whether the user has uid 0 on a file system that gives uid 0 no special permissions.
fn is_root_refused(disk: &Disk) -> bool {
    disk.op.uid == 0 && disk.vfs.capabilities().enforcement == Enforcement::AllUsers
}

/// Returns the rights that a file's descriptor grants to the user of `disk` on open, or a subset that contains
/// `enough`. A user who can reach a file may always read its attributes.
async fn granted_on_open(
    disk: &Disk,
    node: &Arc<dyn Node>,
    metadata: &Metadata,
    enough: AccessMask,
) -> Result<AccessMask> {
    let granted = effective::granted(disk, node, metadata, enough).await? | AccessMask::FILE_READ_ATTRIBUTES;
    let runs = disk.share.acls.acl_allow_execute_always && granted.contains(AccessMask::FILE_READ_DATA);
    Ok(if runs { granted | AccessMask::FILE_EXECUTE } else { granted })
}

/// Looks up `path` as the user of `disk`.
pub(crate) async fn find(disk: &Disk, path: &RelPath) -> Result<Option<(Arc<dyn Node>, Metadata)>> {
    Ok(match disk.vfs.lookup(&disk.op, path, LookupOptions::exact(disk.share.links())).await? {
        Lookup::Found { node, metadata, .. } => Some((node, metadata)),
        _ => None,
    })
}

/// Whether the user may remove the name `path` of a file owned by `owner`.
async fn may_unlink(disk: &Disk, path: &RelPath, owner: u32) -> Result<bool> {
    let who = &disk.op;
    let Some(parent) = path.parent() else { return Ok(false) };
    if !is_checked(disk)
        && let Some(known) = disk.vfs.may_remove(who, path, owner)
    {
        return Ok(known);
    }
    let Some((node, metadata)) = find(disk, &parent).await? else { return Ok(false) };
    let sticky = metadata.mode & 0o1000 != 0 && who.uid != 0 && who.uid != owner && who.uid != metadata.uid;
    if sticky {
        return Ok(false);
    }
    if is_checked(disk) {
        let granted = effective::granted(disk, &node, &metadata, AccessMask::FILE_DELETE_CHILD).await?;
        if !granted.contains(AccessMask::FILE_DELETE_CHILD) {
            return Ok(false);
        }
    }
    // Writing and searching the directory.
    kernel_permits(disk, &node, &metadata, 0o3).await
}

/// Returns all rights of the user on a file: those of its descriptor minus those that the kernel refuses, or the
/// kernel's alone.
pub(crate) async fn maximal(
    disk: &Disk,
    path: &RelPath,
    node: &Arc<dyn Node>,
    metadata: &Metadata,
) -> Result<AccessMask> {
    let who = &disk.op;
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

/// Returns the part of `all` that one open can have. The kernel opens a file for both reading and writing only if one
/// entry of its POSIX ACL has both bits. If none has, the open keeps writing if it needs it, and reading otherwise.
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

/// Whether the mode alone determines what the kernel gives to `who`. For users other than the owner the mode may
/// summarize a POSIX ACL, which Linux evaluates if any group bit is set.
fn is_by_mode(metadata: &Metadata, who: &Identity) -> bool {
    who.uid == 0 || who.uid == metadata.uid || metadata.mode & 0o070 == 0
}

/// Whether the kernel gives the user all of the permission bits `wanted`.
pub(crate) async fn kernel_permits(disk: &Disk, node: &Arc<dyn Node>, metadata: &Metadata, wanted: u8) -> Result<bool> {
    let (who, bits) = (&disk.op, u32::from(wanted));
    if is_root_refused(disk) {
        return Ok(node.permissions(who).await? & bits == bits);
    }
    if is_by_mode(metadata, who) {
        return Ok(mode_permissions(metadata, who) & bits == bits);
    }
    match effective::of(disk, node, metadata).await?.permits(who, wanted) {
        Some(known) => Ok(known),
        None => Ok(node.permissions(who).await? & bits == bits),
    }
}

/// Returns the permission bits that the kernel gives to the user, each on its own: an entry of a POSIX ACL with several
/// of them may be missing.
async fn kernel_permissions(disk: &Disk, node: &Arc<dyn Node>, metadata: &Metadata) -> Result<u32> {
    let who = &disk.op;
    if is_root_refused(disk) {
        return Ok(node.permissions(who).await?);
    }
    if is_by_mode(metadata, who) {
        return Ok(mode_permissions(metadata, who));
    }
    let protection = effective::of(disk, node, metadata).await?;
    let permitted = |bit: u8| Some(if protection.permits(who, bit)? { u32::from(bit) } else { 0 });
    let known = [0o4, 0o2, 0o1].into_iter().map(permitted).sum::<Option<u32>>();
    match known {
        Some(known) => Ok(known),
        None => Ok(node.permissions(who).await?),
    }
}

/// Returns those of the `granted` rights to file data or directory entries that the kernel would refuse.
async fn refused(disk: &Disk, node: &Arc<dyn Node>, metadata: &Metadata, granted: AccessMask) -> Result<AccessMask> {
    let (reading, writing) = match metadata.kind {
        Kind::File => (AccessMask::FILE_READ_DATA, WRITING),
        Kind::Directory => (AccessMask::FILE_LIST_DIRECTORY, WRITING | AccessMask::FILE_DELETE_CHILD),
        Kind::Special | Kind::Symlink => return Ok(AccessMask::NONE),
    };
    if !granted.intersects(reading | writing) {
        return Ok(AccessMask::NONE);
    }
    let permissions = kernel_permissions(disk, node, metadata).await?;
    let lacks = |bit, rights| if permissions & bit == 0 { granted & rights } else { AccessMask::NONE };
    Ok(lacks(0o4, reading) | lacks(0o2, writing))
}

/// Whether the user has `wanted` on an existing file. For the owner the mode bits in `metadata` decide, without a
/// system call. For rights to a file's data that a stored descriptor grants, the kernel decides in the open that
/// follows.
pub(crate) async fn permits(
    disk: &Disk,
    path: &RelPath,
    node: &Arc<dyn Node>,
    metadata: &Metadata,
    wanted: AccessMask,
) -> Result<bool> {
    let who = &disk.op;
    let needed = wanted.without(AccessMask::DELETE);
    // A user who can reach a file may read its attributes, whatever its descriptor. Most requests of some clients need
    // nothing else.
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
        let permissions = kernel_permissions(disk, node, metadata).await?;
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

/// Looks up the directory that `path` is to be created in, if a parameter of the share depends on its metadata.
pub(crate) async fn model(disk: &Disk, path: &RelPath) -> Result<Option<Metadata>> {
    if disk.share.acls.inherit_owner == InheritOwner::No && !disk.share.modes.inherit_permissions {
        return Ok(None);
    }
    let Some(parent) = path.parent() else { return Ok(None) };
    Ok(find(disk, &parent).await?.map(|(_, metadata)| metadata))
}

/// Checks whether the descriptor of the directory lets the user create `path` ([MS-FSA] 2.1.5.1.1). Returns the
/// directory's protection, because the new file inherits from it. `None` if the share stores no descriptors; the kernel
/// alone decides then. `above` is what the look-up of the name knows of the directory.
pub(crate) async fn may_make(
    disk: &Disk,
    path: &RelPath,
    directory: bool,
    above: &Parent,
) -> Result<Option<Arc<Protection>>> {
    if disk.share.acls.stored.is_none() {
        return Ok(None);
    }
    let watched = above.version.as_ref();
    let protection = match watched.and_then(|watched| disk.descriptors.find_watched(disk.place, watched)) {
        Some(known) => known,
        None => {
            let parent = path.parent().ok_or(Error::new(Status::OBJECT_NAME_INVALID))?;
            let found = match &above.opened {
                Some(opened) => Some(opened.clone()),
                None => find(disk, &parent).await?,
            };
            let (node, metadata) = found.ok_or(Error::new(Status::OBJECT_PATH_NOT_FOUND))?;
            effective::of_watched(disk, &node, &metadata, watched).await?
        }
    };
    let needed = if directory { AccessMask::FILE_ADD_SUBDIRECTORY } else { AccessMask::FILE_ADD_FILE };
    if is_checked(disk) && !protection.granted(disk).contains(needed) {
        return Err(Error::because(
            Status::ACCESS_DENIED,
            "the directory's ACL does not permit the user to add entries",
        ));
    }
    Ok(Some(protection))
}

/// Checks whether the user may give a file or `directory` the new name `to`: as an additional name, or as a rename of
/// `from`. If `replaced` is set, the file that has that name is deleted ([MS-FSA] 2.1.5.15.12, 2.1.5.15.7). The kernel
/// decides everything else.
pub(crate) async fn may_name(
    disk: &Disk,
    directory: bool,
    from: Option<&RelPath>,
    to: &RelPath,
    replaced: bool,
) -> Result<()> {
    if replaced && !disk.share_rights.contains(AccessMask::DELETE) {
        return Err(Error::because(Status::ACCESS_DENIED, "the share's ACL does not permit the user to delete files"));
    }
    if !is_checked(disk) {
        return Ok(());
    }
    if from.is_none_or(|from| from.parent() != to.parent()) {
        may_make(disk, to, directory, &Parent::default()).await?;
    }
    if !replaced {
        return Ok(());
    }
    match find(disk, to).await? {
        Some((node, metadata)) if !permits(disk, to, &node, &metadata, AccessMask::DELETE).await? => {
            Err(Error::because(Status::ACCESS_DENIED, "the user may not delete the file that would be replaced"))
        }
        _ => Ok(()),
    }
}

/// Returns the rights of the user on `path`, an entry of a listing, as Macs see them there. They are those of
/// [`maximal`], but without a system call where the mode or a cached descriptor shows them.
pub(crate) async fn listed(disk: &Disk, path: &RelPath, metadata: &Metadata) -> AccessMask {
    let who = &disk.op;
    let is_own = who.uid == 0 || who.uid == metadata.uid;
    if !is_checked(disk) && is_own {
        let permissions = mode_permissions(metadata, who);
        let all = rights(permissions, metadata, who) | overriding(disk, metadata, permissions);
        return all | AccessMask::DELETE;
    }
    if is_checked(disk)
        && is_own
        && let Some(own) = effective::owner_rights(disk, metadata, ALL)
    {
        return own.without(AccessMask::ACCESS_SYSTEM_SECURITY) | AccessMask::DELETE;
    }
    match find(disk, path).await {
        Ok(Some((node, metadata))) => maximal(disk, path, &node, &metadata).await.unwrap_or(AccessMask(0)),
        _ => AccessMask(0),
    }
}

/// Implements `hide unreadable` and `hide unwriteable files`: whether the user could open `path`, an entry of a
/// listing, for reading and for writing. Directories that cannot be written and the files of root are always shown.
pub(crate) async fn is_visible(disk: &Disk, path: &RelPath, metadata: &Metadata) -> bool {
    let (who, names) = (&disk.op, &disk.share.names);
    let writes = names.hide_unwriteable_files && metadata.kind != Kind::Directory && who.uid != 0;
    // A snapshot of a share shows what can be written in the share.
    if writes && disk.read_only && disk.snapshot.is_none() {
        return false;
    }
    let (rights, bits) = match (names.hide_unreadable, writes) {
        (false, false) => return true,
        (true, false) => (VISIBLE, 0o4),
        (false, true) => (AccessMask::FILE_WRITE_DATA, 0o2),
        (true, true) => (VISIBLE | AccessMask::FILE_WRITE_DATA, 0o6),
    };
    let seen = |protection: &Protection| {
        let by_kernel = protection.permits(who, bits);
        match is_checked(disk) {
            true => Some(by_kernel != Some(false) && protection.granted(disk).contains(rights)),
            false => by_kernel,
        }
    };
    if !is_checked(disk) && is_by_mode(metadata, who) {
        let bits = u32::from(bits);
        return mode_permissions(metadata, who) & bits == bits;
    }
    if let Some(own) = effective::owner_rights(disk, metadata, rights).filter(|_| is_checked(disk)) {
        return own.contains(rights);
    }
    if let Some(seen) = effective::known(disk, metadata).and_then(|known| seen(&known)) {
        return seen;
    }
    let Ok(Some((node, metadata))) = find(disk, path).await else { return false };
    effective::of(disk, &node, &metadata).await.is_ok_and(|protection| seen(&protection) == Some(true))
}
