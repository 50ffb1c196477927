//! Security descriptors of files ([MS-SRVS] 3.1.4.27, 3.1.4.28): what the caller could query and set over SMB.

#[cfg(test)]
mod tests;

use proto::bytes::utf16_bytes;
use proto::rpc::enumeration::error;
use proto::rpc::srvsvc::file_security::{FileName, GetFileSecurity, SetFileSecurity, descriptor_response};
use proto::rpc::srvsvc::status_response;
use proto::smb2::SecurityInformation;
use proto::status::Status;

use crate::error::Error;
use crate::named_pipe::SharedFile;
use crate::rpc::interface::Call;

/// NetrpGetFileSecurity (3.1.4.27).
pub(super) async fn get(call: &Call<'_>, asked: GetFileSecurity) -> Vec<u8> {
    let Some((share, name)) = file(&asked.file) else { return descriptor_response(Err(error::NET_NAME_NOT_FOUND)) };
    let file = SharedFile { share, name: &name };
    let done = call.caller.file_security(file, SecurityInformation(asked.parts)).await;
    descriptor_response(done.as_deref().map_err(win32))
}

/// NetrpSetFileSecurity (3.1.4.28).
pub(super) async fn set(call: &Call<'_>, asked: SetFileSecurity) -> Vec<u8> {
    let Some((share, name)) = file(&asked.file) else { return status_response(error::NET_NAME_NOT_FOUND) };
    let file = SharedFile { share, name: &name };
    let done = call.caller.set_file_security(file, SecurityInformation(asked.parts), &asked.descriptor).await;
    status_response(done.map_or_else(|error| win32(&error), |()| error::SUCCESS))
}

/// Returns the share, and the path as CREATE has it. Paths of the server itself, without a share, name no file.
fn file(asked: &FileName) -> Option<(&str, Vec<u8>)> {
    let share = asked.share.as_deref().filter(|share| !share.is_empty())?;
    // Programs send the path with a leading backslash or without.
    Some((share, utf16_bytes(asked.name.strip_prefix('\\').unwrap_or(&asked.name))))
}

/// Returns the Win32 error code of a refusal ([MS-ERREF] 2.2).
fn win32(error: &Error) -> u32 {
    match error.status {
        // The specification prescribes this code (3.1.4.27).
        Status::BAD_NETWORK_NAME => error::NET_NAME_NOT_FOUND,
        Status::OBJECT_NAME_NOT_FOUND => error::FILE_NOT_FOUND,
        Status::OBJECT_PATH_NOT_FOUND => error::PATH_NOT_FOUND,
        Status::ACCESS_DENIED | Status::NETWORK_ACCESS_DENIED | Status::DELETE_PENDING => error::ACCESS_DENIED,
        Status::MEDIA_WRITE_PROTECTED => error::WRITE_PROTECT,
        Status::SHARING_VIOLATION => error::SHARING_VIOLATION,
        Status::NOT_SUPPORTED => error::NOT_SUPPORTED,
        Status::INVALID_PARAMETER => error::INVALID_PARAMETER,
        Status::OBJECT_NAME_INVALID => error::INVALID_NAME,
        Status::OBJECT_PATH_INVALID | Status::OBJECT_PATH_SYNTAX_BAD => error::BAD_PATHNAME,
        Status::CANCELLED => error::CANCELLED,
        Status::INVALID_OWNER => error::INVALID_OWNER,
        Status::PRIVILEGE_NOT_HELD => error::PRIVILEGE_NOT_HELD,
        Status::INVALID_SECURITY_DESCR => error::INVALID_SECURITY_DESCR,
        Status::INSUFFICIENT_RESOURCES => error::NO_SYSTEM_RESOURCES,
        Status::STOPPED_ON_SYMLINK => error::CANT_RESOLVE_FILENAME,
        _ => error::GEN_FAILURE,
    }
}
