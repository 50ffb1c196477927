//! Queries and changes of security descriptors ([MS-SMB2] 3.3.5.20.3, 3.3.5.21.3; [MS-FSA] 2.1.5.14, 2.1.5.17).

use proto::dtyp::security_descriptor::{Control, SecurityDescriptor};
use proto::dtyp::{AccessMask, Sid};
use proto::smb2::SecurityInformation;
use proto::smb2::query_info::QueryInfoRequest;
use proto::smb2::set_info::SetInfoRequest;
use proto::status::Status;

use crate::acl::sids;
use crate::error::{Error, Result};
use crate::information::Answer;
use crate::information::encoded;
use crate::information::nfs_aces;
use crate::security::effective;
use crate::security::set::apply;
use crate::security::set::apply::Authority;
use crate::security::set::merge::{OF_SACL, Parts, keep_of_sacl};
use crate::state::open::FileOpen;
use crate::streams::{self, beside};
use crate::tree::Disk;
use crate::vfs::{Kind, SetMetadata, Time};

pub(crate) async fn query(
    asked: &QueryInfoRequest<'_>,
    granted: AccessMask,
    file: &FileOpen,
    disk: &Disk,
    shows_mode: bool,
) -> Result<Answer> {
    let parts = known_parts(asked.additional_information);
    if !granted.contains(needed_to_ask(parts)) {
        return Err(Error::new(Status::ACCESS_DENIED));
    }
    let metadata = file.node.metadata(&file.op).await?;
    let (mut descriptor, stored) = match disk.share.acls.nt_acl_support {
        true => {
            let protection = effective::of(disk, &file.node, &metadata).await?;
            (protection.descriptor(&disk.share).into_owned(), protection.stored)
        }
        false => (no_descriptor(), true),
    };
    keep(&mut descriptor, parts);
    if !stored {
        descriptor = sids::shown(&*disk.ids, descriptor).await?;
    }
    if shows_mode && disk.share.mac.is_some() {
        nfs_aces::add(&mut descriptor, &metadata);
    }
    Ok(Answer::variable(encoded(|out| descriptor.encode(out)), 0))
}

/// Returns the known parts in `AdditionalInformation`; others are ignored. BACKUP means all of them.
pub(crate) fn known_parts(asked: u32) -> SecurityInformation {
    let asked = SecurityInformation(asked);
    let parts = SecurityInformation::OWNER | SecurityInformation::GROUP | SecurityInformation::DACL | OF_SACL;
    if asked.contains(SecurityInformation::BACKUP) { parts } else { asked & parts }
}

/// Returns the descriptor shown with `nt acl support = no`, as in Samba: owned by Everyone, without a DACL.
fn no_descriptor() -> SecurityDescriptor {
    let everybody = Some(Sid::EVERYONE);
    let control = Control::SELF_RELATIVE;
    SecurityDescriptor { control, owner: everybody, group: everybody, ..SecurityDescriptor::default() }
}

/// Returns the rights needed to query these parts ([MS-FSA] 2.1.5.14).
pub(crate) fn needed_to_ask(parts: SecurityInformation) -> AccessMask {
    let sacl = parts.contains(SecurityInformation::SACL);
    let others = !parts.without(SecurityInformation::SACL).is_empty();
    let need = |is_needed, right| if is_needed { right } else { AccessMask::NONE };
    need(others, AccessMask::READ_CONTROL) | need(sacl, AccessMask::ACCESS_SYSTEM_SECURITY)
}

/// Returns the rights needed to set these parts ([MS-SMB2] 3.3.5.21.3).
pub(crate) fn needed_to_set(parts: SecurityInformation) -> AccessMask {
    type Part = SecurityInformation;
    let need = |by: Part, right| if parts.intersects(by) { right } else { AccessMask::NONE };
    need(Part::DACL | Part::ATTRIBUTE, AccessMask::WRITE_DAC)
        | need(Part::OWNER | Part::GROUP | Part::LABEL, AccessMask::WRITE_OWNER)
        | need(Part::SACL | Part::SCOPE, AccessMask::ACCESS_SYSTEM_SECURITY)
}

/// Removes the parts that were not requested.
fn keep(descriptor: &mut SecurityDescriptor, parts: SecurityInformation) {
    if !parts.contains(SecurityInformation::OWNER) {
        descriptor.owner = None;
    }
    if !parts.contains(SecurityInformation::GROUP) {
        descriptor.group = None;
    }
    if !parts.contains(SecurityInformation::DACL) {
        descriptor.dacl = None;
        descriptor.control = descriptor.control.without(Control::DACL_PRESENT | Control::DACL_PROTECTED);
    }
    keep_of_sacl(descriptor, parts & OF_SACL);
    if !parts.contains(SecurityInformation::SACL) {
        descriptor.control = descriptor.control.without(Control::SACL_PROTECTED);
    }
}

/// Called after the permissions of a file were changed: those of its AppleDouble file follow.
pub(crate) async fn changed(file: &FileOpen, disk: &Disk) {
    if file.kind == Kind::File && beside::are_used(disk) {
        let path = file.name.path.lock().clone();
        let base = streams::file_of(&file.node).unwrap_or(&file.node);
        Box::pin(beside::rights_changed(disk, &file.op, &path, base)).await;
    }
}

/// Sets parts of a security descriptor. On shares that store descriptors it is stored unchanged. On others it is
/// converted to permission bits or a POSIX ACL, and refused if that would lose anything, rather than truncated
/// silently.
pub(crate) async fn set(
    asked: &SetInfoRequest<'_>,
    granted: AccessMask,
    file: &FileOpen,
    disk: &Disk,
    now: Time,
    takes_mode: bool,
) -> Result<()> {
    let asked_parts = known_parts(asked.additional_information);
    if !granted.contains(needed_to_set(asked_parts)) {
        return Err(Error::new(Status::ACCESS_DENIED));
    }
    let mut given = SecurityDescriptor::decode(asked.buffer)?;
    let taken = if takes_mode { nfs_aces::take(&mut given) } else { nfs_aces::Taken::default() };
    if file.posix {
        nfs_aces::take_owners(&mut given);
        if let Some(mode) = taken.mode.filter(|_| asked_parts.contains(SecurityInformation::DACL)) {
            set_posix_mode(file, disk, mode).await?;
        }
    }
    let given = apply::as_stored(disk, given);
    // An owner or group that was requested but is absent is not changed. An absent DACL grants full control to
    // everyone; an absent SACL audits nothing.
    let parts = Parts {
        owner: asked_parts.contains(SecurityInformation::OWNER) && given.owner.is_some(),
        group: asked_parts.contains(SecurityInformation::GROUP) && given.group.is_some(),
        // Linux sends the mode with an entry that grants everything to all users.
        dacl: asked_parts.contains(SecurityInformation::DACL)
            && !taken.was_all
            && !(file.posix && taken.mode.is_some()),
        sacl: asked_parts & OF_SACL,
        mode: taken
            .mode
            .filter(|_| !file.posix && asked_parts.contains(SecurityInformation::DACL) && takes_modes(disk)),
    };
    if parts.is_empty() || !disk.share.acls.nt_acl_support {
        return Ok(());
    }
    if file.kind == Kind::Symlink && (parts.dacl || parts.mode.is_some() || !parts.sacl.is_empty()) {
        return Err(Error::because(Status::NOT_SUPPORTED, "a Linux symbolic link has no access control list"));
    }
    let authority = Authority {
        write_dac: granted.contains(AccessMask::WRITE_DAC),
        write_owner: granted.contains(AccessMask::WRITE_OWNER),
    };
    apply::set(disk, (file.file, &file.node), now, &given, parts, authority).await
}

/// Sets the mode as a POSIX client requests it, with set-id and sticky bits as far as the kernel permits. A file with a
/// stored descriptor keeps its mode, because the mode is part of the hash by which the descriptor is valid. The client
/// is told so, unless it requests the present mode.
async fn set_posix_mode(file: &FileOpen, disk: &Disk, mode: u32) -> Result<()> {
    if matches!(file.kind, Kind::Symlink) {
        return Err(Error::because(Status::NOT_SUPPORTED, "a symbolic link has no mode"));
    }
    let _turn = disk.descriptors.turns.take(file.file).await;
    let metadata = file.node.metadata(&file.op).await?;
    let mode = mode & 0o7777;
    if mode == metadata.mode {
        return Ok(());
    }
    let bound = disk.share.acls.stored.as_ref().is_some_and(|acls| !acls.ignore_system_acls);
    if bound && effective::of(disk, &file.node, &metadata).await?.stored {
        return Err(Error::because(
            Status::ACCESS_DENIED,
            "the file has a Windows ACL, which another mode would void; change the ACL instead",
        ));
    }
    Ok(file.node.set_metadata(&disk.op, SetMetadata { mode: Some(mode), ..SetMetadata::default() }).await?)
}

/// Whether a Mac can set the mode of a file. As in Samba, that changes nothing on shares that store descriptors: the
/// mode is part of the hash by which a stored descriptor is valid, so that another mode would void the descriptor.
fn takes_modes(disk: &Disk) -> bool {
    disk.share.mac.is_some() && disk.share.acls.stored.is_none()
}
