//! Rights to objects that the server itself provides, whose security descriptor is fixed: registry keys, services.

use proto::dtyp::acl::{Ace, AceFlags};
use proto::dtyp::security_descriptor::Control;
use proto::dtyp::{AccessMask, Acl, GenericMapping, SecurityDescriptor, Sid};
use proto::rpc::enumeration::error;
use proto::smb2::SecurityInformation;

use crate::rpc::interface::Call;

/// The rights to one type of object.
pub(super) struct FixedRights {
    /// The rights of users with an account.
    pub(super) users: AccessMask,
    /// The rights of administrators: all that exist.
    pub(super) administrators: AccessMask,
    /// The meaning of generic rights.
    pub(super) generic: GenericMapping,
}

impl FixedRights {
    /// Returns the rights that a handle gets for which a client desires these, or a Win32 error code.
    pub(super) async fn grant(&self, call: &Call<'_>, desired: AccessMask) -> Result<AccessMask, u32> {
        if !call.has_account() {
            return Err(error::ACCESS_DENIED);
        }
        let maximum = desired.contains(AccessMask::MAXIMUM_ALLOWED);
        let wanted = AccessMask(desired.0 & !AccessMask::MAXIMUM_ALLOWED.0).expand(&self.generic);
        // Access to the SACL is granted only on request.
        let (allowed, on_request) = match self.users.contains(wanted) && !maximum {
            true => (self.users, AccessMask::NONE),
            false if call.is_administrator().await => (self.administrators, AccessMask::ACCESS_SYSTEM_SECURITY),
            false => (self.users, AccessMask::NONE),
        };
        if !(allowed | on_request).contains(wanted) {
            return Err(error::ACCESS_DENIED);
        }
        Ok(if maximum { allowed | wanted } else { wanted })
    }

    /// Returns the rights that a handle needs for a query of these parts of the descriptor.
    pub(super) fn needed_to_query(parts: SecurityInformation) -> AccessMask {
        match parts.contains(SecurityInformation::SACL) {
            true => AccessMask::READ_CONTROL | AccessMask::ACCESS_SYSTEM_SECURITY,
            false => AccessMask::READ_CONTROL,
        }
    }

    /// Returns these parts of the descriptor, encoded. It has no SACL.
    pub(super) fn descriptor(&self, parts: SecurityInformation) -> Vec<u8> {
        let aces = [
            (Sid::AUTHENTICATED_USERS, self.users),
            (Sid::BUILTIN_ADMINISTRATORS, self.administrators),
            (Sid::SYSTEM, self.administrators),
        ];
        let aces = aces.map(|(sid, rights)| Ace::allow(sid, rights, AceFlags::NONE));
        let mut descriptor = SecurityDescriptor::default();
        if parts.contains(SecurityInformation::OWNER) {
            descriptor.owner = Some(Sid::BUILTIN_ADMINISTRATORS);
        }
        if parts.contains(SecurityInformation::GROUP) {
            descriptor.group = Some(Sid::SYSTEM);
        }
        if parts.contains(SecurityInformation::DACL) {
            descriptor.control = Control::DACL_PRESENT;
            descriptor.dacl = Acl::new(Acl::REVISION, aces.to_vec());
        }
        descriptor.to_bytes()
    }
}
