//! Which access rights the kernel's permission bits stand for, as long as a file has no stored security descriptor.
//!
//! The kernel has the last word: data is read and written through descriptors that it opened for the user, and names
//! and attributes change through calls made as the user. What is computed here tells a client beforehand, at CREATE.

use proto::dtyp::AccessMask;

use crate::error::Result;
use crate::tree::Disk;
use crate::vfs::{Identity, Kind, Links, Lookup, Metadata, Node, RelPath};

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
pub(crate) fn rights(permissions: u32, metadata: &Metadata, who: &Identity) -> AccessMask {
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

/// Whether `who` may remove the name `path` of a file owned by `owner`.
pub(crate) async fn may_unlink(
    disk: &Disk,
    who: &std::sync::Arc<Identity>,
    path: &RelPath,
    owner: u32,
) -> Result<bool> {
    let Some(parent) = path.parent() else { return Ok(false) };
    let links = Links { follow: disk.share.follow_symlinks, wide: disk.share.wide_links };
    let Lookup::Found { node, metadata, .. } =
        disk.vfs.lookup(who, &parent, crate::vfs::Case::Sensitive, links).await?
    else {
        return Ok(false);
    };
    let sticky = metadata.mode & 0o1000 != 0 && who.uid != 0 && who.uid != owner && who.uid != metadata.uid;
    // Writing and searching the directory.
    Ok(!sticky && node.permissions(who).await? & 0o3 == 0o3)
}

/// All rights that `who` has on a file: the kernel is asked, so POSIX ACLs count.
pub(crate) async fn maximal(
    disk: &Disk,
    who: &std::sync::Arc<Identity>,
    path: &RelPath,
    node: &std::sync::Arc<dyn Node>,
    metadata: &Metadata,
) -> Result<AccessMask> {
    let permissions = node.permissions(who).await?;
    let mut all = rights(permissions, metadata, who);
    if may_unlink(disk, who, path, metadata.uid).await? {
        all.0 |= AccessMask::DELETE.0;
    }
    Ok(all)
}

/// Whether `who` has `wanted` on an existing file. The common case is decided from the mode bits at hand, without a
/// system call.
pub(crate) async fn permits(
    disk: &Disk,
    who: &std::sync::Arc<Identity>,
    path: &RelPath,
    node: &std::sync::Arc<dyn Node>,
    metadata: &Metadata,
    wanted: AccessMask,
) -> Result<bool> {
    let beyond = |all: AccessMask| wanted.0 & !AccessMask::DELETE.0 & !all.0 != 0;
    if beyond(rights(mode_permissions(metadata, who), metadata, who))
        && beyond(rights(node.permissions(who).await?, metadata, who))
    {
        return Ok(false);
    }
    if wanted.0 & AccessMask::DELETE.0 == 0 || path.is_root() {
        return Ok(true);
    }
    may_unlink(disk, who, path, metadata.uid).await
}
