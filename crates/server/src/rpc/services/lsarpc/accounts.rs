//! Accounts and their privileges ([MS-LSAD] 3.1.4.5).
//!
//! Some accounts have rights by default, as on a new Samba server, and the database has what differs from that. Only a
//! user who acts as root changes it. A privilege is granted only if the server honours it, or if the account had it by
//! default. No account has a right to log on in a certain way.

use std::collections::{BTreeMap, BTreeSet};

use proto::dtyp::Sid;
use proto::rpc::lsarpc::{
    self, AddAccountRights, AddPrivileges, EnumerateAccountsWithUserRight, HandleAndSid, Privilege,
    RemoveAccountRights, RemovePrivileges,
};
use proto::rpc::ndr::{self, ContextHandle};
use proto::status::Status;

use super::objects::{open, refused};
use super::privileges::{PRIVILEGES, check, named};
use super::{failed, is_open};
use crate::accounts::lsa::{AccountRights, RightsChange, RightsChangeKind};
use crate::rpc::interface::{Call, DISK_OPERATOR};

/// The privileges that have an effect on a holder who is not root. What a user may do with files follows from ACLs, and
/// those who act as root have the privileges over files.
const HONOURED: &[&str] = &[DISK_OPERATOR];

/// The accounts to which Windows assigns rights.
const BY_DEFAULT: [Sid; 4] = [Sid::EVERYONE, Sid::BUILTIN_ADMINISTRATORS, Sid::BUILTIN_USERS, Sid::BUILTIN_GUESTS];

/// The object of a context handle: an account.
#[derive(Clone, Copy)]
pub(super) struct AccountObject(Sid);

/// Returns what an account has about which nothing is stored. BUILTIN\Administrators has the privileges that it has on
/// a new Samba server, except those that are honoured: its members do not act as root.
fn by_default(sid: &Sid) -> Option<AccountRights> {
    let mut account = BY_DEFAULT.contains(sid).then(AccountRights::default)?;
    if *sid == Sid::BUILTIN_ADMINISTRATORS {
        let privileges = PRIVILEGES.iter().map(|privilege| privilege.name);
        account.privileges = privileges.filter(|name| !HONOURED.contains(name)).map(str::to_owned).collect();
    }
    Some(account)
}

/// Returns an account object.
fn account(call: &Call<'_>, sid: &Sid) -> Option<AccountRights> {
    let stored = call.server.accounts.lsa.rights(sid);
    stored.or_else(|| by_default(sid)).filter(|account| !account.deleted)
}

/// Returns all account objects.
fn accounts(call: &Call<'_>) -> BTreeMap<Sid, AccountRights> {
    let by_default = BY_DEFAULT.iter().filter_map(|sid| Some((*sid, by_default(sid)?)));
    let all: BTreeMap<_, _> = by_default.chain(call.server.accounts.lsa.all_rights()).collect();
    all.into_iter().filter(|(_, account)| !account.deleted).collect()
}

/// Returns the privileges of an account.
fn privileges(account: &AccountRights) -> Vec<Privilege> {
    PRIVILEGES.iter().filter(|privilege| account.privileges.contains(privilege.name)).copied().collect()
}

/// Returns the account of a handle.
fn opened(call: &Call<'_>, handle: &ContextHandle) -> Result<(Sid, AccountRights), Status> {
    let object = call.handles.lock().get::<AccountObject>(handle).copied();
    let AccountObject(sid) = object.ok_or(Status::INVALID_HANDLE)?;
    // Another handle may have been used to delete the object.
    Ok((sid, account(call, &sid).ok_or(Status::INVALID_HANDLE)?))
}

/// Changes an account; `none` is the status without an account object.
async fn change(call: &Call<'_>, sid: &Sid, kind: RightsChangeKind, none: Status) -> Result<(), Status> {
    if !call.acts_as_root().await {
        return Err(Status::ACCESS_DENIED);
    }
    let what = format!("{kind:?}");
    let change = RightsChange { kind, by_default: by_default(sid) };
    let done = call.server.accounts.lsa.change_rights(sid, change).await;
    done.map_err(|why| refused(call, why, none))?;
    let user = call.user().map_or_else(String::new, |user| user.name.clone());
    tracing::info!(user, peer = %call.caller.address(), %sid, what, "the rights of an account were changed");
    Ok(())
}

/// Returns whether each of `names` may be granted to `sid`.
fn grantable(sid: &Sid, names: &BTreeSet<String>) -> Result<(), Status> {
    let before = by_default(sid).unwrap_or_default().privileges;
    let may = |name: &String| HONOURED.contains(&name.as_str()) || before.contains(name);
    if names.iter().all(may) { Ok(()) } else { Err(Status::NOT_SUPPORTED) }
}

/// Returns the names of rights as the server writes them.
fn known(rights: &[String]) -> Result<BTreeSet<String>, Status> {
    let name = |right: &String| named(right).map(|privilege| privilege.name.to_owned());
    rights.iter().map(|right| name(right).ok_or(Status::NO_SUCH_PRIVILEGE)).collect()
}

/// Returns the names of privileges.
fn names_of(luids: &[u64]) -> Result<BTreeSet<String>, Status> {
    let find = |luid: u64| PRIVILEGES.iter().find(|privilege| u64::from(privilege.luid) == luid);
    let name = |luid: &u64| find(*luid).map(|privilege| privilege.name.to_owned());
    luids.iter().map(|luid| name(luid).ok_or(Status::INVALID_PARAMETER)).collect()
}

fn status_of(done: Result<(), Status>) -> Vec<u8> {
    ndr::status_response(done.err().unwrap_or(Status::SUCCESS))
}

/// LsarCreateAccount (3.1.4.5.1).
pub(super) async fn create_account(call: &Call<'_>, asked: HandleAndSid) -> Vec<u8> {
    let mut done = check(call, &asked.handle);
    if done.is_ok() {
        done = change(call, &asked.sid, RightsChangeKind::Create, Status::OBJECT_NAME_NOT_FOUND).await;
    }
    open(call, done.map(|()| AccountObject(asked.sid)))
}

/// LsarEnumerateAccounts (3.1.4.5.2). It is open to all who have the policy, as in Samba, for the four accounts that
/// every server has; anonymous and guest users do not see others.
pub(super) async fn enumerate_accounts(call: &Call<'_>, (handle, from): (ContextHandle, u32)) -> Vec<u8> {
    if !is_open(call, &handle) {
        return failed(3, Status::INVALID_HANDLE);
    }
    let all = if call.has_account() { accounts(call).into_keys().collect() } else { BY_DEFAULT.to_vec() };
    lsarpc::accounts_response(from, &all)
}

/// LsarOpenAccount (3.1.4.5.3).
pub(super) async fn open_account(call: &Call<'_>, asked: HandleAndSid) -> Vec<u8> {
    let found = || account(call, &asked.sid).ok_or(Status::OBJECT_NAME_NOT_FOUND);
    let checked = check(call, &asked.handle).and_then(|()| found());
    open(call, checked.map(|_| AccountObject(asked.sid)))
}

/// LsarEnumeratePrivilegesAccount (3.1.4.5.4).
pub(super) async fn enumerate_privileges_account(call: &Call<'_>, handle: ContextHandle) -> Vec<u8> {
    match opened(call, &handle) {
        Ok((_, account)) => lsarpc::privilege_set_response(&privileges(&account)),
        Err(status) => failed(1, status),
    }
}

/// LsarAddPrivilegesToAccount (3.1.4.5.5).
pub(super) async fn add_privileges(call: &Call<'_>, asked: AddPrivileges) -> Vec<u8> {
    let done = async {
        let (sid, _) = opened(call, &asked.handle)?;
        let names = names_of(&asked.luids)?;
        grantable(&sid, &names)?;
        change(call, &sid, RightsChangeKind::Add(names), Status::INVALID_HANDLE).await
    };
    status_of(done.await)
}

/// LsarRemovePrivilegesFromAccount (3.1.4.5.6).
pub(super) async fn remove_privileges(call: &Call<'_>, asked: RemovePrivileges) -> Vec<u8> {
    let done = async {
        let (sid, _) = opened(call, &asked.handle)?;
        let privileges = match (asked.all, &asked.luids) {
            (true, None) => None,
            (false, Some(luids)) => Some(names_of(luids)?),
            _ => return Err(Status::INVALID_PARAMETER),
        };
        let kind = RightsChangeKind::Remove { privileges, delete_empty: false };
        change(call, &sid, kind, Status::INVALID_HANDLE).await
    };
    status_of(done.await)
}

/// LsarGetSystemAccessAccount (3.1.4.5.7). No account has a right to log on in a certain way.
pub(super) async fn system_access(call: &Call<'_>, handle: ContextHandle) -> Vec<u8> {
    let status = opened(call, &handle).err().unwrap_or(Status::SUCCESS);
    lsarpc::system_access_response(0, status)
}

/// LsarSetSystemAccessAccount (3.1.4.5.8).
pub(super) async fn set_system_access(call: &Call<'_>, (handle, access): (ContextHandle, u32)) -> Vec<u8> {
    /// POLICY_MODE_ALL (2.2.1.2).
    const DEFINED: u32 = 0x0000_0ff7;
    let may = call.acts_as_root().await;
    status_of(match (opened(call, &handle), access) {
        (Err(status), _) => Err(status),
        _ if !may => Err(Status::ACCESS_DENIED),
        (_, 0) => Ok(()),
        (_, access) if access & !DEFINED != 0 => Err(Status::INVALID_PARAMETER),
        _ => Err(Status::NOT_SUPPORTED),
    })
}

/// LsarEnumerateAccountsWithUserRight (3.1.4.5.9), which is for administrators.
pub(super) async fn enumerate_accounts_with_right(call: &Call<'_>, asked: EnumerateAccountsWithUserRight) -> Vec<u8> {
    let found = async {
        check(call, &asked.handle)?;
        if !call.is_administrator().await {
            return Err(Status::ACCESS_DENIED);
        }
        let right = asked.right.as_ref().map(|right| named(right).ok_or(Status::NO_SUCH_PRIVILEGE)).transpose()?;
        let has = |account: &AccountRights| match right {
            Some(right) => account.privileges.contains(right.name),
            None => !account.privileges.is_empty(),
        };
        let sids: Vec<Sid> = accounts(call).into_iter().filter(|(_, it)| has(it)).map(|(sid, _)| sid).collect();
        if sids.is_empty() { Err(Status::NO_MORE_ENTRIES) } else { Ok(sids) }
    };
    match found.await {
        Ok(sids) => lsarpc::accounts_with_right_response(&sids, Status::SUCCESS),
        Err(status) => lsarpc::accounts_with_right_response(&[], status),
    }
}

/// LsarEnumerateAccountRights (3.1.4.5.10).
pub(super) async fn enumerate_account_rights(call: &Call<'_>, asked: HandleAndSid) -> Vec<u8> {
    let found = || account(call, &asked.sid).ok_or(Status::OBJECT_NAME_NOT_FOUND);
    match check(call, &asked.handle).and_then(|()| found()) {
        Ok(account) => lsarpc::rights_response(&privileges(&account)),
        Err(status) => failed(2, status),
    }
}

/// LsarAddAccountRights (3.1.4.5.11).
pub(super) async fn add_account_rights(call: &Call<'_>, asked: AddAccountRights) -> Vec<u8> {
    let done = async {
        check(call, &asked.handle)?;
        let names = known(&asked.rights)?;
        grantable(&asked.sid, &names)?;
        change(call, &asked.sid, RightsChangeKind::Add(names), Status::OBJECT_NAME_NOT_FOUND).await
    };
    status_of(done.await)
}

/// LsarRemoveAccountRights (3.1.4.5.12).
pub(super) async fn remove_account_rights(call: &Call<'_>, asked: RemoveAccountRights) -> Vec<u8> {
    let done = async {
        check(call, &asked.handle)?;
        let privileges = if asked.all { None } else { Some(known(&asked.rights)?) };
        let kind = RightsChangeKind::Remove { privileges, delete_empty: true };
        change(call, &asked.sid, kind, Status::OBJECT_NAME_NOT_FOUND).await
    };
    status_of(done.await)
}

/// Deletes an open account object.
pub(super) async fn delete(call: &Call<'_>, AccountObject(sid): AccountObject) -> Result<(), Status> {
    change(call, &sid, RightsChangeKind::Delete, Status::INVALID_HANDLE).await
}
