//! Linux errno values, and the only place that converts them to NTSTATUS.
//!
//! The table has the statuses that Windows clients act upon, which are also Samba's. Where the status depends on the
//! request (a missing intermediate directory is STATUS_OBJECT_PATH_NOT_FOUND), the caller decides before using this
//! table.

use std::fmt;

use proto::status::Status;

/// An errno value of Linux, e.g. 2 for ENOENT.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

/// Declares the constants and the table together, so that they always match.
macro_rules! errnos {
    ($($name:ident = $number:literal => $status:ident,)*) => {
        #[allow(missing_docs, reason = "the names are those of Linux")]
        impl Errno {
            $(pub const $name: Errno = Errno($number);)*
        }

        /// Number, name without its E, and status.
        const TABLE: &[(i32, &str, Status)] = &[$(($number, stringify!($name), Status::$status),)*];
    };
}

errnos! {
    PERM = 1 => ACCESS_DENIED,
    NOENT = 2 => OBJECT_NAME_NOT_FOUND,
    INTR = 4 => RETRY,
    IO = 5 => IO_DEVICE_ERROR,
    NXIO = 6 => NO_SUCH_DEVICE,
    // An extended attribute that is larger than the file system permits.
    TOOBIG = 7 => EA_TOO_LARGE,
    BADF = 9 => INVALID_HANDLE,
    AGAIN = 11 => RETRY,
    NOMEM = 12 => INSUFFICIENT_RESOURCES,
    ACCES = 13 => ACCESS_DENIED,
    BUSY = 16 => SHARING_VIOLATION,
    EXIST = 17 => OBJECT_NAME_COLLISION,
    XDEV = 18 => NOT_SAME_DEVICE,
    NODEV = 19 => NO_SUCH_DEVICE,
    NOTDIR = 20 => NOT_A_DIRECTORY,
    ISDIR = 21 => FILE_IS_A_DIRECTORY,
    INVAL = 22 => INVALID_PARAMETER,
    NFILE = 23 => TOO_MANY_OPENED_FILES,
    MFILE = 24 => TOO_MANY_OPENED_FILES,
    TXTBSY = 26 => SHARING_VIOLATION,
    // Beyond the file system's maximum file size; clients expect no other status from a write.
    FBIG = 27 => DISK_FULL,
    NOSPC = 28 => DISK_FULL,
    ROFS = 30 => MEDIA_WRITE_PROTECTED,
    MLINK = 31 => TOO_MANY_LINKS,
    // The name of an extended attribute, or one of our buffers, does not fit.
    RANGE = 34 => INVALID_PARAMETER,
    NAMETOOLONG = 36 => OBJECT_NAME_INVALID,
    NOSYS = 38 => NOT_SUPPORTED,
    NOTEMPTY = 39 => DIRECTORY_NOT_EMPTY,
    // The status is the same for every reason not to follow a link, because it must not reveal where the link leads.
    LOOP = 40 => OBJECT_PATH_NOT_FOUND,
    NODATA = 61 => NOT_FOUND,
    // The path leads through a DFS link, so the client has to ask for a referral ([MS-DFSC] 3.2.4.1).
    REMOTE = 66 => PATH_NOT_COVERED,
    OVERFLOW = 75 => FILE_TOO_LARGE,
    ILSEQ = 84 => OBJECT_NAME_INVALID,
    OPNOTSUPP = 95 => NOT_SUPPORTED,
    // A remote file system has lost its server.
    NOTCONN = 107 => DEVICE_NOT_CONNECTED,
    TIMEDOUT = 110 => IO_TIMEOUT,
    HOSTDOWN = 112 => DEVICE_NOT_CONNECTED,
    // The name now belongs to another file, so the intended one is gone.
    STALE = 116 => OBJECT_NAME_NOT_FOUND,
    // Not QUOTA_EXCEEDED, because programs can handle a full disk.
    DQUOT = 122 => DISK_FULL,
    CANCELED = 125 => CANCELLED,
}

impl Errno {
    /// Returns the NTSTATUS for clients; STATUS_UNSUCCESSFUL for a value that is not in the table.
    pub fn status(self) -> Status {
        self.row().map_or(Status::UNSUCCESSFUL, |(_, _, status)| *status)
    }

    fn row(self) -> Option<&'static (i32, &'static str, Status)> {
        TABLE.iter().find(|(number, ..)| *number == self.0)
    }
}

impl From<Errno> for Status {
    fn from(errno: Errno) -> Status {
        errno.status()
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.row() {
            Some((_, name, _)) => write!(f, "E{name}"),
            None => write!(f, "errno {}", self.0),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Errno {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_errno_has_one_status() {
        for (index, (number, name, status)) in TABLE.iter().enumerate() {
            assert!(status.is_error(), "E{name} must be an error");
            assert!(TABLE[index + 1..].iter().all(|(other, ..)| other > number), "E{name} is out of order");
        }
    }

    #[test]
    fn statuses_that_clients_act_on() {
        for (errno, status) in [
            (Errno::NOENT, Status::OBJECT_NAME_NOT_FOUND),
            (Errno::ACCES, Status::ACCESS_DENIED),
            (Errno::EXIST, Status::OBJECT_NAME_COLLISION),
            (Errno::NOTEMPTY, Status::DIRECTORY_NOT_EMPTY),
            (Errno::DQUOT, Status::DISK_FULL),
            (Errno::ROFS, Status::MEDIA_WRITE_PROTECTED),
            (Errno(4242), Status::UNSUCCESSFUL),
        ] {
            assert_eq!(errno.status(), status, "{errno}");
        }
        assert_eq!(format!("{} {:?}", Errno::NAMETOOLONG, Errno(4242)), "ENAMETOOLONG errno 4242");
    }
}
