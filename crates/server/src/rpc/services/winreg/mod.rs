//! The remote registry ([MS-RRP] 3.1.5), as far as programs for the administration of servers read it. Its keys are in
//! [`tree`]. They describe the server and cannot be changed.

mod tree;

#[cfg(test)]
mod tests;

use proto::dtyp::{AccessMask, GenericMapping};
use proto::rpc::enumeration::error;
use proto::rpc::ndr::ContextHandle;
use proto::rpc::pdu::SyntaxId;
use proto::rpc::srvsvc::status_response;
use proto::rpc::winreg::{
    self, EnumKey, EnumValue, GetKeySecurity, KeyInfo, OpenKey, OpenRoot, QueryValue, Value, ValueBuffer, opnum, rights,
};
use proto::smb2::SecurityInformation;

use self::tree::{Key, KeyValue, Root};
use super::fixed_rights::FixedRights;
use crate::rpc::interface::{Call, Interface, Operation, operations};

/// The remote registry.
pub(super) struct Winreg;

impl Interface for Winreg {
    fn pipe(&self) -> &'static str {
        "winreg"
    }

    fn syntax(&self) -> SyntaxId {
        winreg::INTERFACE
    }

    fn operations(&self) -> &'static [Operation] {
        operations![
            (opnum::OPEN_CLASSES_ROOT, "OpenClassesRoot", open_empty),
            (opnum::OPEN_CURRENT_USER, "OpenCurrentUser", open_missing),
            (opnum::OPEN_LOCAL_MACHINE, "OpenLocalMachine", open_local_machine),
            (opnum::OPEN_PERFORMANCE_DATA, "OpenPerformanceData", open_missing),
            (opnum::OPEN_USERS, "OpenUsers", open_empty),
            (opnum::BASE_REG_CLOSE_KEY, "BaseRegCloseKey", close_key),
            (opnum::BASE_REG_CREATE_KEY, "BaseRegCreateKey", create_key),
            (opnum::BASE_REG_DELETE_KEY, "BaseRegDeleteKey", refuse),
            (opnum::BASE_REG_DELETE_VALUE, "BaseRegDeleteValue", refuse),
            (opnum::BASE_REG_ENUM_KEY, "BaseRegEnumKey", enum_key),
            (opnum::BASE_REG_ENUM_VALUE, "BaseRegEnumValue", enum_value),
            (opnum::BASE_REG_FLUSH_KEY, "BaseRegFlushKey", flush_key),
            (opnum::BASE_REG_GET_KEY_SECURITY, "BaseRegGetKeySecurity", get_key_security),
            (opnum::BASE_REG_LOAD_KEY, "BaseRegLoadKey", refuse),
            (opnum::BASE_REG_OPEN_KEY, "BaseRegOpenKey", open_key),
            (opnum::BASE_REG_QUERY_INFO_KEY, "BaseRegQueryInfoKey", query_info_key),
            (opnum::BASE_REG_QUERY_VALUE, "BaseRegQueryValue", query_value),
            (opnum::BASE_REG_REPLACE_KEY, "BaseRegReplaceKey", refuse),
            (opnum::BASE_REG_RESTORE_KEY, "BaseRegRestoreKey", refuse),
            (opnum::BASE_REG_SAVE_KEY, "BaseRegSaveKey", refuse),
            (opnum::BASE_REG_SET_KEY_SECURITY, "BaseRegSetKeySecurity", refuse),
            (opnum::BASE_REG_SET_VALUE, "BaseRegSetValue", refuse),
            (opnum::BASE_REG_UN_LOAD_KEY, "BaseRegUnLoadKey", refuse),
            (opnum::BASE_REG_GET_VERSION, "BaseRegGetVersion", get_version),
            (opnum::OPEN_CURRENT_CONFIG, "OpenCurrentConfig", open_missing),
            (opnum::BASE_REG_SAVE_KEY_EX, "BaseRegSaveKeyEx", refuse),
            (opnum::OPEN_PERFORMANCE_TEXT, "OpenPerformanceText", open_missing),
            (opnum::OPEN_PERFORMANCE_NLS_TEXT, "OpenPerformanceNlsText", open_missing),
            (opnum::BASE_REG_DELETE_KEY_EX, "BaseRegDeleteKeyEx", refuse),
        ]
    }
}

/// The rights to keys. As in Samba, administrators have all, although nobody can change a key.
const RIGHTS: FixedRights = FixedRights {
    users: AccessMask(rights::KEY_READ),
    administrators: AccessMask(rights::KEY_ALL_ACCESS),
    generic: GenericMapping {
        generic_read: AccessMask(rights::KEY_READ),
        generic_write: AccessMask(rights::KEY_WRITE),
        generic_execute: AccessMask(rights::KEY_READ),
        generic_all: AccessMask(rights::KEY_ALL_ACCESS),
    },
};

/// `lpdwVersion` ([MS-RRP] 3.1.5.24), as in Samba.
const API_VERSION: u32 = 5;

/// The object of a context handle.
#[derive(Clone, Copy)]
struct OpenedKey {
    key: Key,
    rights: AccessMask,
}

/// Opens a handle of a key with the rights that the caller desires.
async fn open(call: &Call<'_>, key: Key, desired: u32) -> Vec<u8> {
    let opened = match RIGHTS.grant(call, AccessMask(desired & !rights::KEY_WOW64)).await {
        Ok(rights) => {
            let opened = call.handles.lock().open(OpenedKey { key, rights }, &*call.server.environment);
            opened.ok_or(error::NOT_ENOUGH_MEMORY)
        }
        Err(status) => Err(status),
    };
    opened_response(opened)
}

fn opened_response(opened: Result<ContextHandle, u32>) -> Vec<u8> {
    winreg::handle_response(&opened.unwrap_or_default(), opened.err().unwrap_or(error::SUCCESS))
}

/// Returns the key of a handle that has these rights, or a Win32 error code.
fn key_of(call: &Call<'_>, handle: &ContextHandle, needed: u32) -> Result<Key, u32> {
    let opened = call.handles.lock().get::<OpenedKey>(handle).copied().ok_or(error::INVALID_HANDLE)?;
    if opened.rights.contains(AccessMask(needed)) { Ok(opened.key) } else { Err(error::ACCESS_DENIED) }
}

async fn open_local_machine(call: &Call<'_>, OpenRoot(desired): OpenRoot) -> Vec<u8> {
    open(call, Key::root(Root::LocalMachine), desired).await
}

async fn open_empty(call: &Call<'_>, OpenRoot(desired): OpenRoot) -> Vec<u8> {
    open(call, Key::root(Root::Empty), desired).await
}

/// Refuses to open a predefined key that the server does not have.
async fn open_missing(_: &Call<'_>, _: OpenRoot) -> Vec<u8> {
    opened_response(Err(error::FILE_NOT_FOUND))
}

async fn open_key(call: &Call<'_>, asked: OpenKey) -> Vec<u8> {
    let parent = match key_of(call, &asked.handle, 0) {
        Ok(parent) => parent,
        Err(status) => return opened_response(Err(status)),
    };
    match parent.find(&asked.path) {
        Some(key) => open(call, key, asked.desired).await,
        None => opened_response(Err(error::FILE_NOT_FOUND)),
    }
}

async fn close_key(call: &Call<'_>, handle: ContextHandle) -> Vec<u8> {
    let closed = key_of(call, &handle, 0).is_ok() && call.handles.lock().close(&handle);
    opened_response(if closed { Ok(ContextHandle::default()) } else { Err(error::INVALID_HANDLE) })
}

/// Refuses a change. A handle that is not one of a key is refused as well.
async fn refuse(_: &Call<'_>, _: ContextHandle) -> Vec<u8> {
    status_response(error::ACCESS_DENIED)
}

/// Refuses to create a key. One that exists is opened by BaseRegOpenKey.
async fn create_key(_: &Call<'_>, _: ContextHandle) -> Vec<u8> {
    winreg::not_created_response(error::ACCESS_DENIED)
}

async fn flush_key(call: &Call<'_>, handle: ContextHandle) -> Vec<u8> {
    status_response(key_of(call, &handle, 0).err().unwrap_or(error::SUCCESS))
}

async fn get_version(call: &Call<'_>, handle: ContextHandle) -> Vec<u8> {
    match key_of(call, &handle, 0) {
        Ok(_) => winreg::number_response(API_VERSION, error::SUCCESS),
        Err(status) => winreg::number_response(0, status),
    }
}

async fn enum_key(call: &Call<'_>, asked: EnumKey) -> Vec<u8> {
    let found = key_of(call, &asked.handle, rights::KEY_ENUMERATE_SUB_KEYS).and_then(|key| {
        let name = key.subkeys().get(asked.index as usize).copied().ok_or(error::NO_MORE_ITEMS)?;
        if has_space(asked.name.space, name) { Ok(name) } else { Err(error::MORE_DATA) }
    });
    winreg::subkey_response(&asked, found)
}

/// Returns whether a name with its NUL fits into `space` bytes.
fn has_space(space: u16, name: &str) -> bool {
    bytes_of(name) + 2 <= u32::from(space)
}

/// Returns the size of a name in bytes, without its NUL.
fn bytes_of(name: &str) -> u32 {
    name.encode_utf16().count() as u32 * 2
}

async fn enum_value(call: &Call<'_>, asked: EnumValue) -> Vec<u8> {
    let values = match key_of(call, &asked.handle, rights::KEY_QUERY_VALUE) {
        Ok(key) => key.values(call.server),
        Err(status) => return winreg::enumerated_response(&asked.buffer, None, status),
    };
    let Some(found) = values.get(asked.index as usize) else {
        return winreg::enumerated_response(&asked.buffer, None, error::NO_MORE_ITEMS);
    };
    let status = match status_of(&asked.buffer, found) {
        error::SUCCESS if !has_space(asked.name.space, found.name) => error::MORE_DATA,
        status => status,
    };
    winreg::enumerated_response(&asked.buffer, Some(&value(found)), status)
}

async fn query_value(call: &Call<'_>, asked: QueryValue) -> Vec<u8> {
    let values = match key_of(call, &asked.handle, rights::KEY_QUERY_VALUE) {
        Ok(key) => key.values(call.server),
        Err(status) => return winreg::value_response(&asked.buffer, None, status),
    };
    match values.iter().find(|value| value.name.eq_ignore_ascii_case(&asked.name)) {
        Some(found) => winreg::value_response(&asked.buffer, Some(&value(found)), status_of(&asked.buffer, found)),
        None => winreg::value_response(&asked.buffer, None, error::FILE_NOT_FOUND),
    }
}

fn value(found: &KeyValue) -> Value<'_> {
    Value { name: found.name, kind: found.kind, data: &found.data }
}

/// Returns the result of a query with this buffer.
fn status_of(buffer: &ValueBuffer, found: &KeyValue) -> u32 {
    match buffer.is_valid() {
        false => error::INVALID_PARAMETER,
        true if buffer.has_space(found.data.len()) => error::SUCCESS,
        true => error::MORE_DATA,
    }
}

async fn query_info_key(call: &Call<'_>, handle: ContextHandle) -> Vec<u8> {
    let key = match key_of(call, &handle, rights::KEY_QUERY_VALUE) {
        Ok(key) => key,
        Err(status) => return winreg::info_response(&KeyInfo::default(), status),
    };
    let (subkeys, values) = (key.subkeys(), key.values(call.server));
    let info = KeyInfo {
        subkeys: subkeys.len() as u32,
        subkey_bytes: subkeys.iter().map(|name| bytes_of(name)).max().unwrap_or(0),
        values: values.len() as u32,
        value_name_bytes: values.iter().map(|value| bytes_of(value.name)).max().unwrap_or(0),
        value_bytes: values.iter().map(|value| value.data.len() as u32).max().unwrap_or(0),
        security_bytes: RIGHTS.descriptor(OWNER_GROUP_DACL).len() as u32,
    };
    winreg::info_response(&info, error::SUCCESS)
}

const OWNER_GROUP_DACL: SecurityInformation =
    SecurityInformation(SecurityInformation::OWNER.0 | SecurityInformation::GROUP.0 | SecurityInformation::DACL.0);

async fn get_key_security(call: &Call<'_>, asked: GetKeySecurity) -> Vec<u8> {
    let parts = SecurityInformation(asked.parts);
    if let Err(status) = key_of(call, &asked.handle, FixedRights::needed_to_query(parts).0) {
        return winreg::security_response(asked.size, Err((0, status)));
    }
    let descriptor = RIGHTS.descriptor(parts);
    let length = descriptor.len() as u32;
    let fits = length <= asked.size;
    winreg::security_response(
        asked.size,
        if fits { Ok(&descriptor) } else { Err((length, error::INSUFFICIENT_BUFFER)) },
    )
}
