//! Security descriptors of files asked for and set ([MS-SMB2] 3.3.5.20.3, 3.3.5.21.3; [MS-FSA] 2.1.5.14, 2.1.5.17).

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
use crate::security::placing::{self, Authority, Parts};
use crate::security::{descriptor, sids};
use crate::tree::Disk;
use crate::vfs::Time;

pub(crate) async fn query(
    asked: &QueryInfoRequest<'_>,
    open: &Arc<Open>,
    file: &FileOpen,
    disk: &Disk,
) -> Result<Answer> {
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
    let mut descriptor = SecurityDescriptor::clone(&descriptor::of(disk, &file.node, &metadata).await?.descriptor);
    keep(&mut descriptor, parts);
    let descriptor = sids::shown(&*disk.accounts, descriptor).await?;
    Ok(Answer::variable(encoded(|out| descriptor.encode(out)), 0))
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
        descriptor.control = descriptor.control.without(Control::SACL_PRESENT | Control::SACL_PROTECTED);
    }
}

/// Where descriptors are stored, what is set is kept as it is. Elsewhere what permission bits can say is applied, and the
/// rest is refused rather than dropped without a word.
pub(crate) async fn set(
    asked: &SetInfoRequest<'_>,
    open: &Arc<Open>,
    file: &FileOpen,
    disk: &Disk,
    now: Time,
) -> Result<()> {
    let asked_parts = SecurityInformation(asked.additional_information);
    check_access(open, asked_parts)?;
    let given = placing::as_stored(disk, SecurityDescriptor::decode(asked.buffer)?);
    // An owner or group that was named but is not there stays as it is; a list that is not there lets everybody do
    // everything, and audits nobody.
    let parts = Parts {
        owner: asked_parts.contains(SecurityInformation::OWNER) && given.owner.is_some(),
        group: asked_parts.contains(SecurityInformation::GROUP) && given.group.is_some(),
        dacl: asked_parts.contains(SecurityInformation::DACL),
        sacl: asked_parts.contains(SecurityInformation::SACL),
    };
    if !(parts.owner || parts.group || parts.dacl || parts.sacl) {
        return Ok(());
    }
    let authority = Authority {
        write_dac: open.granted.contains(AccessMask::WRITE_DAC),
        write_owner: open.granted.contains(AccessMask::WRITE_OWNER),
    };
    placing::set(disk, &file.node, now, &given, parts, authority).await
}

/// The rights that setting each part takes ([MS-SMB2] 3.3.5.21.3).
fn check_access(open: &Open, parts: SecurityInformation) -> Result<()> {
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
    if open.granted.contains(needed) { Ok(()) } else { Err(Error::new(Status::ACCESS_DENIED)) }
}
