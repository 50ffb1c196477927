//! Security descriptors of files ([MS-SMB2] 3.3.5.20.3, 3.3.5.21.3): made from owner, group and permission bits, as long
//! as no others are stored.

use std::sync::Arc;

use proto::dtyp::AccessMask;
use proto::dtyp::security_descriptor::{Control, SecurityDescriptor};
use proto::smb2::SecurityInformation;
use proto::smb2::query_info::QueryInfoRequest;
use proto::smb2::set_info::SetInfoRequest;
use proto::status::Status;

use crate::command::query_info::{Answer, encoded};
use crate::error::{Error, Result};
use crate::open::{FileOpen, Open};
use crate::security::posix_acl::PosixAcl;
use crate::security::{posix, posix_acl};
use crate::vfs::{Kind, Metadata, SetMetadata};

pub(crate) async fn query(asked: &QueryInfoRequest<'_>, open: &Arc<Open>, file: &FileOpen) -> Result<Answer> {
    let parts = SecurityInformation(asked.additional_information);
    let mut needed = AccessMask(0);
    if parts.intersects(SecurityInformation::OWNER | SecurityInformation::GROUP | SecurityInformation::DACL) {
        needed |= AccessMask::READ_CONTROL;
    }
    if parts.contains(SecurityInformation::SACL) {
        needed |= AccessMask::ACCESS_SYSTEM_SECURITY;
    }
    if !open.granted.contains(needed) {
        return Err(Error::new(Status::ACCESS_DENIED));
    }
    let metadata = file.node.metadata().await?;
    let mut descriptor = posix::to_descriptor(&permissions(file, &metadata).await, &posix::UnixSids);
    keep(&mut descriptor, parts);
    Ok(Answer::variable(encoded(|out| descriptor.encode(out)), 0))
}

/// What Linux knows of the file's permissions: its lists where it has any, else its permission bits.
async fn permissions(file: &FileOpen, metadata: &Metadata) -> posix::Posix {
    let list = async |name| {
        let value = file.node.get_xattr(&file.identity, name).await.ok()??;
        PosixAcl::decode(&value).ok()
    };
    let directory = metadata.kind == Kind::Directory;
    posix::Posix {
        directory,
        uid: metadata.uid,
        gid: metadata.gid,
        access: list(posix_acl::ACCESS).await.unwrap_or_else(|| PosixAcl::of_mode(metadata.mode)),
        default: if directory { list(posix_acl::DEFAULT).await } else { None },
    }
}

/// Leaves what was asked for.
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
    if !parts.contains(SecurityInformation::SACL) {
        descriptor.sacl = None;
    }
}

/// What permission bits can say is applied; the rest is refused rather than dropped without a word.
pub(crate) async fn set(asked: &SetInfoRequest<'_>, open: &Arc<Open>, file: &FileOpen) -> Result<()> {
    let parts = SecurityInformation(asked.additional_information);
    let mut needed = AccessMask(0);
    if parts.contains(SecurityInformation::DACL) {
        needed |= AccessMask::WRITE_DAC;
    }
    if parts.intersects(SecurityInformation::OWNER | SecurityInformation::GROUP) {
        needed |= AccessMask::WRITE_OWNER;
    }
    if parts.contains(SecurityInformation::SACL) {
        needed |= AccessMask::ACCESS_SYSTEM_SECURITY;
    }
    if !open.granted.contains(needed) {
        return Err(Error::new(Status::ACCESS_DENIED));
    }
    let descriptor = SecurityDescriptor::decode(asked.buffer)?;
    let metadata = file.node.metadata().await?;
    let mut set = SetMetadata::default();
    if parts.contains(SecurityInformation::OWNER) {
        set.uid = descriptor.owner.as_ref().and_then(|sid| sid.as_unix_user()).filter(|&uid| uid != metadata.uid);
    }
    if parts.contains(SecurityInformation::GROUP) {
        set.gid = descriptor.group.as_ref().and_then(|sid| sid.as_unix_group()).filter(|&gid| gid != metadata.gid);
    }
    if parts.contains(SecurityInformation::DACL) {
        let before = permissions(file, &metadata).await;
        let after = posix::from_descriptor(&before, &descriptor, &posix::UnixSids).map_err(|inexpressible| {
            Error::because(Status::NOT_SUPPORTED, format!("permission bits cannot deny {}", inexpressible.0))
        })?;
        if after.access.is_minimal() && before.access.is_minimal() {
            set.mode = Some(metadata.mode & 0o7000 | after.access.mode());
        } else {
            let value = Some(after.access.encode());
            file.node.set_xattr(&file.identity, posix_acl::ACCESS, value).await?;
        }
        if after.default != before.default {
            let value = after.default.as_ref().map(PosixAcl::encode);
            file.node.set_xattr(&file.identity, posix_acl::DEFAULT, value).await?;
        }
    }
    if set != SetMetadata::default() {
        file.node.set_metadata(&file.identity, set).await?;
    }
    Ok(())
}
