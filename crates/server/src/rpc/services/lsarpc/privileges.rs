//! Privileges ([MS-LSAD] 3.1.4.5, 3.1.4.8). They are those that Samba knows. The server has no database of them:
//! BUILTIN\Administrators has all, as on a new Samba server, and no other account has any. Calls that change this are
//! refused with STATUS_ACCESS_DENIED. Groups decide what a user may do.

use proto::dtyp::Sid;
use proto::rpc::lsarpc::{
    self, EnumerateAccountsWithUserRight, EnumeratePrivileges, HandleAndLuid, HandleAndName, HandleAndSid, Privilege,
};
use proto::rpc::ndr::{self, ContextHandle};
use proto::status::Status;

use super::{failed, is_open};
use crate::rpc::interface::Call;

const fn privilege(luid: u32, name: &'static str, display: &'static str) -> Privilege {
    Privilege { luid, name, display }
}

/// The privileges, in the order of their LUIDs. Those from 0x1001 on are Samba's own.
const PRIVILEGES: &[Privilege] = &[
    privilege(0x6, "SeMachineAccountPrivilege", "Add machines to domain"),
    privilege(0x8, "SeSecurityPrivilege", "System security"),
    privilege(0x9, "SeTakeOwnershipPrivilege", "Take ownership of files or other objects"),
    privilege(0x11, "SeBackupPrivilege", "Back up files and directories"),
    privilege(0x12, "SeRestorePrivilege", "Restore files and directories"),
    privilege(0x18, "SeRemoteShutdownPrivilege", "Force shutdown from a remote system"),
    privilege(0x1001, "SePrintOperatorPrivilege", "Manage printers"),
    privilege(0x1002, "SeAddUsersPrivilege", "Add users and groups to the domain"),
    privilege(0x1003, "SeDiskOperatorPrivilege", "Manage disk shares"),
];

/// The accounts to which Windows assigns rights.
pub(super) const ACCOUNTS: [Sid; 4] =
    [Sid::EVERYONE, Sid::BUILTIN_ADMINISTRATORS, Sid::BUILTIN_USERS, Sid::BUILTIN_GUESTS];

/// An entry of LsarEnumeratePrivileges, in bytes, besides its name.
const ENTRY: usize = 16;

/// The object of a context handle: an account with rights.
struct AccountObject(Sid);

fn privileges_of(sid: &Sid) -> &'static [Privilege] {
    if *sid == Sid::BUILTIN_ADMINISTRATORS { PRIVILEGES } else { &[] }
}

fn named(name: &str) -> Option<&'static Privilege> {
    PRIVILEGES.iter().find(|privilege| privilege.name.eq_ignore_ascii_case(name))
}

/// Refuses anonymous and guest users, who learn nothing about accounts.
fn check(call: &Call<'_>, handle: &ContextHandle) -> Result<(), Status> {
    match is_open(call, handle) {
        true if call.has_account() => Ok(()),
        true => Err(Status::ACCESS_DENIED),
        false => Err(Status::INVALID_HANDLE),
    }
}

/// LsarEnumeratePrivileges (3.1.4.8.1).
pub(super) async fn enumerate_privileges(call: &Call<'_>, asked: EnumeratePrivileges) -> Vec<u8> {
    if let Err(status) = check(call, &asked.handle) {
        return lsarpc::privileges_response(0, &[], status);
    }
    let rest = PRIVILEGES.get(asked.from as usize..).unwrap_or_default();
    if rest.is_empty() {
        return lsarpc::privileges_response(asked.from, &[], Status::NO_MORE_ENTRIES);
    }
    let mut length = 0;
    let fitting = rest.iter().take_while(|privilege| {
        length += ENTRY + 2 * privilege.name.len();
        length <= asked.length as usize
    });
    let count = fitting.count().max(1);
    let status = if count < rest.len() { Status::MORE_ENTRIES } else { Status::SUCCESS };
    lsarpc::privileges_response(asked.from + count as u32, &rest[..count], status)
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

/// LsarOpenAccount (3.1.4.5.3).
pub(super) async fn open_account(call: &Call<'_>, asked: HandleAndSid) -> Vec<u8> {
    let opened = check(call, &asked.handle).and_then(|()| {
        if !ACCOUNTS.contains(&asked.sid) {
            return Err(Status::OBJECT_NAME_NOT_FOUND);
        }
        let handle = call.handles.lock().open(AccountObject(asked.sid), &*call.server.environment);
        handle.ok_or(Status::INSUFFICIENT_RESOURCES)
    });
    match opened {
        Ok(handle) => ndr::handle_response(&handle, Status::SUCCESS),
        Err(status) => ndr::handle_response(&[0; 20], status),
    }
}

fn account(call: &Call<'_>, handle: &ContextHandle) -> Option<Sid> {
    call.handles.lock().get::<AccountObject>(handle).map(|account| account.0)
}

/// LsarEnumeratePrivilegesAccount (3.1.4.5.4).
pub(super) async fn enumerate_privileges_account(call: &Call<'_>, handle: ContextHandle) -> Vec<u8> {
    match account(call, &handle) {
        Some(sid) => lsarpc::privilege_set_response(privileges_of(&sid)),
        None => failed(1, Status::INVALID_HANDLE),
    }
}

/// LsarGetSystemAccessAccount (3.1.4.5.7). No account has a right to log on in a certain way.
pub(super) async fn system_access_account(call: &Call<'_>, handle: ContextHandle) -> Vec<u8> {
    let status = if account(call, &handle).is_some() { Status::SUCCESS } else { Status::INVALID_HANDLE };
    lsarpc::system_access_response(0, status)
}

/// LsarEnumerateAccountRights (3.1.4.5.10).
pub(super) async fn enumerate_account_rights(call: &Call<'_>, asked: HandleAndSid) -> Vec<u8> {
    match check(call, &asked.handle) {
        Ok(()) if ACCOUNTS.contains(&asked.sid) => lsarpc::rights_response(privileges_of(&asked.sid)),
        Ok(()) => failed(2, Status::OBJECT_NAME_NOT_FOUND),
        Err(status) => failed(2, status),
    }
}

/// LsarEnumerateAccountsWithUserRight (3.1.4.5.9), which is for administrators.
pub(super) async fn enumerate_accounts_with_right(call: &Call<'_>, asked: EnumerateAccountsWithUserRight) -> Vec<u8> {
    let refused = match check(call, &asked.handle) {
        Ok(()) if !call.is_administrator().await => Err(Status::ACCESS_DENIED),
        checked => checked,
    };
    if let Err(status) = refused {
        return lsarpc::accounts_with_right_response(&[], status);
    }
    if asked.right.as_ref().is_some_and(|right| named(right).is_none()) {
        return lsarpc::accounts_with_right_response(&[], Status::NO_SUCH_PRIVILEGE);
    }
    lsarpc::accounts_with_right_response(&[Sid::BUILTIN_ADMINISTRATORS], Status::SUCCESS)
}

/// Refuses a call that changes rights. Its results have `RESULTS` units of four bytes before the status.
pub(super) async fn refuse<const RESULTS: usize>(_: &Call<'_>, (): ()) -> Vec<u8> {
    failed(RESULTS, Status::ACCESS_DENIED)
}
