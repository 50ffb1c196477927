//! Privileges ([MS-LSAD] 3.1.4.8). They are those that Samba knows.

use proto::rpc::lsarpc::{self, EnumeratePrivileges, HandleAndLuid, HandleAndName, Privilege};
use proto::rpc::ndr::ContextHandle;
use proto::status::Status;

use super::is_open;
use crate::rpc::interface::{Call, DISK_OPERATOR};

const fn privilege(luid: u32, name: &'static str, display: &'static str) -> Privilege {
    Privilege { luid, name, display }
}

/// The privileges, in the order of their LUIDs. Those from 0x1001 on are Samba's own.
pub(super) const PRIVILEGES: &[Privilege] = &[
    privilege(0x6, "SeMachineAccountPrivilege", "Add machines to domain"),
    privilege(0x8, "SeSecurityPrivilege", "System security"),
    privilege(0x9, "SeTakeOwnershipPrivilege", "Take ownership of files or other objects"),
    privilege(0x11, "SeBackupPrivilege", "Back up files and directories"),
    privilege(0x12, "SeRestorePrivilege", "Restore files and directories"),
    privilege(0x18, "SeRemoteShutdownPrivilege", "Force shutdown from a remote system"),
    privilege(0x1001, "SePrintOperatorPrivilege", "Manage printers"),
    privilege(0x1002, "SeAddUsersPrivilege", "Add users and groups to the domain"),
    privilege(0x1003, DISK_OPERATOR, "Manage disk shares"),
];

/// Returns the privilege of this name.
pub(super) fn named(name: &str) -> Option<&'static Privilege> {
    PRIVILEGES.iter().find(|privilege| privilege.name.eq_ignore_ascii_case(name))
}

/// Refuses anonymous and guest users, who learn nothing about accounts.
pub(super) fn check(call: &Call<'_>, handle: &ContextHandle) -> Result<(), Status> {
    match is_open(call, handle) {
        true if call.has_account() => Ok(()),
        true => Err(Status::ACCESS_DENIED),
        false => Err(Status::INVALID_HANDLE),
    }
}

/// LsarEnumeratePrivileges (3.1.4.8.1). As in Samba, the rest of the list is returned whatever length the client
/// prefers, because it is short.
pub(super) async fn enumerate_privileges(call: &Call<'_>, asked: EnumeratePrivileges) -> Vec<u8> {
    if let Err(status) = check(call, &asked.handle) {
        return lsarpc::privileges_response(0, &[], status);
    }
    let rest = PRIVILEGES.get(asked.from as usize..).unwrap_or_default();
    if rest.is_empty() {
        return lsarpc::privileges_response(asked.from, &[], Status::NO_MORE_ENTRIES);
    }
    lsarpc::privileges_response(PRIVILEGES.len() as u32, rest, Status::SUCCESS)
}

/// LsarLookupPrivilegeValue (3.1.4.8.2).
pub(super) async fn privilege_value(call: &Call<'_>, asked: HandleAndName) -> Vec<u8> {
    let found = check(call, &asked.handle).and_then(|()| named(&asked.name).ok_or(Status::NO_SUCH_PRIVILEGE));
    lsarpc::privilege_value_response(found.ok(), found.err().unwrap_or(Status::SUCCESS))
}

/// LsarLookupPrivilegeName (3.1.4.8.3).
pub(super) async fn privilege_name(call: &Call<'_>, asked: HandleAndLuid) -> Vec<u8> {
    let known = || PRIVILEGES.iter().find(|privilege| u64::from(privilege.luid) == asked.luid);
    let found = check(call, &asked.handle).and_then(|()| known().ok_or(Status::NO_SUCH_PRIVILEGE));
    let name = found.as_ref().ok().map(|privilege| privilege.name);
    lsarpc::privilege_name_response(name, found.err().unwrap_or(Status::SUCCESS))
}

/// LsarLookupPrivilegeDisplayName (3.1.4.8.4).
pub(super) async fn privilege_display_name(call: &Call<'_>, asked: HandleAndName) -> Vec<u8> {
    let found = check(call, &asked.handle).and_then(|()| named(&asked.name).ok_or(Status::NO_SUCH_PRIVILEGE));
    let name = found.as_ref().ok().map(|privilege| privilege.display);
    lsarpc::privilege_display_name_response(name, found.err().unwrap_or(Status::SUCCESS))
}
