//! The results of operations in the words of the C library, as Samba writes them.

use proto::status::Status;

/// Returns the reason of a failure; `None` if the status is not one.
pub(super) fn failure(status: Status) -> Option<&'static str> {
    Some(match status {
        // Reading nothing at the end of a file succeeds for the file system, as does the end of a directory.
        Status::END_OF_FILE | Status::NO_MORE_FILES | Status::NO_SUCH_FILE => return None,
        status if !status.is_error() => return None,
        Status::OBJECT_NAME_NOT_FOUND | Status::OBJECT_PATH_NOT_FOUND | Status::NOT_FOUND => {
            "No such file or directory"
        }
        Status::ACCESS_DENIED | Status::CANNOT_DELETE | Status::NETWORK_ACCESS_DENIED => "Permission denied",
        Status::PRIVILEGE_NOT_HELD | Status::DELETE_PENDING => "Operation not permitted",
        Status::OBJECT_NAME_COLLISION => "File exists",
        Status::DIRECTORY_NOT_EMPTY => "Directory not empty",
        Status::NOT_A_DIRECTORY => "Not a directory",
        Status::FILE_IS_A_DIRECTORY => "Is a directory",
        Status::SHARING_VIOLATION => "Device or resource busy",
        Status::FILE_LOCK_CONFLICT | Status::LOCK_NOT_GRANTED | Status::RETRY => "Resource temporarily unavailable",
        Status::DISK_FULL => "No space left on device",
        Status::MEDIA_WRITE_PROTECTED => "Read-only file system",
        Status::NOT_SAME_DEVICE => "Invalid cross-device link",
        Status::TOO_MANY_LINKS => "Too many links",
        Status::TOO_MANY_OPENED_FILES => "Too many open files",
        Status::FILE_TOO_LARGE => "File too large",
        Status::INSUFFICIENT_RESOURCES => "Cannot allocate memory",
        Status::OBJECT_NAME_INVALID | Status::INVALID_PARAMETER => "Invalid argument",
        Status::NOT_SUPPORTED | Status::EAS_NOT_SUPPORTED => "Operation not supported",
        Status::FILE_CLOSED | Status::INVALID_HANDLE => "Bad file descriptor",
        Status::CANCELLED => "Operation canceled",
        Status::IO_TIMEOUT => "Connection timed out",
        Status::CONNECTION_DISCONNECTED => "Transport endpoint is not connected",
        _ => "Input/output error",
    })
}
