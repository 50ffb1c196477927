//! What the objects of the local security authority have in common ([MS-LSAD] 3.1.4.9).

use std::any::Any;

use proto::dtyp::{AccessMask, Ace, AceFlags, Acl, SecurityDescriptor, Sid};
use proto::rpc::lsarpc;
use proto::rpc::ndr::{self, ContextHandle};
use proto::status::Status;

use super::accounts::{self, AccountObject};
use super::secrets::{self, SecretObject};
use super::{failed, is_open};
use crate::accounts::NotDone;
use crate::rpc::interface::Call;

/// Opens a handle of `object`, and returns the results of the call.
pub(super) fn open(call: &Call<'_>, object: Result<impl Any + Send, Status>) -> Vec<u8> {
    let opened = object.and_then(|object| {
        let handle = call.handles.lock().open(object, &*call.server.environment);
        handle.ok_or(Status::INSUFFICIENT_RESOURCES)
    });
    match opened {
        Ok(handle) => ndr::handle_response(&handle, Status::SUCCESS),
        Err(status) => ndr::handle_response(&[0; 20], status),
    }
}

/// LsarDeleteObject (3.1.4.9.3).
pub(super) async fn delete_object(call: &Call<'_>, handle: ContextHandle) -> Vec<u8> {
    let secret = call.handles.lock().get::<SecretObject>(&handle).cloned();
    let account = call.handles.lock().get::<AccountObject>(&handle).copied();
    let done = match (secret, account) {
        (Some(secret), _) => secrets::delete(call, secret).await,
        (_, Some(account)) => accounts::delete(call, account).await,
        _ if is_open(call, &handle) => Err(Status::INVALID_PARAMETER),
        _ => Err(Status::INVALID_HANDLE),
    };
    match done {
        Ok(()) => {
            call.handles.lock().close(&handle);
            ndr::handle_response(&[0; 20], Status::SUCCESS)
        }
        Err(status) => ndr::handle_response(&handle, status),
    }
}

/// The rights of an object for everyone, and what the object's type has in addition for administrators.
fn descriptor(everyone: u32, all: u32) -> SecurityDescriptor {
    const STANDARD: u32 = 0x000f_0000;
    const READ_CONTROL: u32 = 0x0002_0000;
    let allow = |sid, mask| Ace::allow(sid, AccessMask(mask), AceFlags::NONE);
    let mut entries = vec![allow(Sid::BUILTIN_ADMINISTRATORS, STANDARD | all)];
    if everyone != 0 {
        entries.push(allow(Sid::EVERYONE, READ_CONTROL | everyone));
    }
    let (owner, group) = (Some(Sid::BUILTIN_ADMINISTRATORS), Some(Sid::SYSTEM));
    SecurityDescriptor { owner, group, dacl: Acl::new(Acl::REVISION, entries), ..SecurityDescriptor::default() }
}

/// LsarQuerySecurityObject (3.1.4.9.1). The descriptors are fixed. They show the rights that callers have.
pub(super) async fn query_security(call: &Call<'_>, (handle, parts): (ContextHandle, u32)) -> Vec<u8> {
    const OWNER: u32 = 1;
    const GROUP: u32 = 2;
    const DACL: u32 = 4;
    const POLICY_ALL: u32 = 0x1fff;
    const POLICY_VIEW_LOCAL_INFORMATION_AND_LOOKUP_NAMES: u32 = 0x0801;
    const ACCOUNT_ALL: u32 = 0xf;
    const ACCOUNT_VIEW: u32 = 1;
    const SECRET_ALL: u32 = 3;
    let is_secret = call.handles.lock().get::<SecretObject>(&handle).is_some();
    let is_account = call.handles.lock().get::<AccountObject>(&handle).is_some();
    let mut found = match (is_secret, is_account) {
        (true, _) => descriptor(0, SECRET_ALL),
        (_, true) => descriptor(ACCOUNT_VIEW, ACCOUNT_ALL),
        _ if is_open(call, &handle) => descriptor(POLICY_VIEW_LOCAL_INFORMATION_AND_LOOKUP_NAMES, POLICY_ALL),
        _ => return failed(1, Status::INVALID_HANDLE),
    };
    // The SACL needs a privilege that only root has on files, and the objects have none.
    if !call.has_account() || parts & !(OWNER | GROUP | DACL) != 0 {
        return failed(1, Status::ACCESS_DENIED);
    }
    found.owner = found.owner.filter(|_| parts & OWNER != 0);
    found.group = found.group.filter(|_| parts & GROUP != 0);
    found.dacl = found.dacl.filter(|_| parts & DACL != 0);
    lsarpc::security_response(&found.to_bytes())
}

/// LsarDelete (opnum 1), which is not used on the wire (3.1.4). Windows and Samba return this status.
pub(super) async fn not_supported(_: &Call<'_>, (): ()) -> Vec<u8> {
    failed(0, Status::NOT_SUPPORTED)
}

/// Returns the status for a change that was not made, and logs the reason. `none` is the status without an object.
pub(super) fn refused(call: &Call<'_>, why: NotDone, none: Status) -> Status {
    let (status, why) = match why {
        NotDone::Exists => return Status::OBJECT_NAME_COLLISION,
        NotDone::NotFound => return none,
        NotDone::Name(why) | NotDone::NoUnixObject(why) => (Status::INVALID_PARAMETER, why),
        NotDone::NotStored(why) => (Status::INSUFFICIENT_RESOURCES, why),
        NotDone::Unavailable(why) => (Status::INTERNAL_DB_ERROR, why),
    };
    let user = call.user().map_or_else(String::new, |user| user.name.clone());
    tracing::warn!(user, peer = %call.caller.address(), why, "a change of rights or secrets was refused");
    status
}
