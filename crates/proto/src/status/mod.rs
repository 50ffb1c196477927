//! NTSTATUS, the outcome in every SMB 2 response ([MS-ERREF] 2.3).
//!
//! The names are the specification's without `STATUS_`. The few names that never had that prefix (`DBG_...`,
//! `RPC_NT_...`) are unchanged. The descriptions of [MS-ERREF] are not included.

mod table;

use std::fmt;

/// An NTSTATUS value. Values that are not in the table survive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Status(pub u32);

impl Status {
    /// Returns the full name (`STATUS_ACCESS_DENIED`); `None` for a value that [MS-ERREF] does not list.
    pub fn name(self) -> Option<&'static str> {
        let first = Self::TABLE.partition_point(|(status, _)| status.0 < self.0);
        Self::TABLE.get(first).filter(|(status, _)| *status == self).map(|(_, name)| *name)
    }

    /// Looks up the status by its full name, aliases included.
    pub fn from_name(name: &str) -> Option<Status> {
        Self::TABLE.iter().find(|(_, known)| *known == name).map(|(status, _)| *status)
    }

    /// Severity 3: the request failed ([MS-ERREF] 2.3).
    pub const fn is_error(self) -> bool {
        self.0 >> 30 == 3
    }

    /// Severity 2: the request succeeded with a warning (`STATUS_BUFFER_OVERFLOW`, `STATUS_NO_MORE_FILES`).
    pub const fn is_warning(self) -> bool {
        self.0 >> 30 == 2
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (0x{:08X})", self.name().unwrap_or("unknown status"), self.0)
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn severities_and_texts() {
        for (status, error, warning, text) in [
            (Status::SUCCESS, false, false, "STATUS_SUCCESS (0x00000000)"),
            (Status::PENDING, false, false, "STATUS_PENDING (0x00000103)"),
            (Status::NOTIFY_ENUM_DIR, false, false, "STATUS_NOTIFY_ENUM_DIR (0x0000010C)"),
            (Status::OBJECT_NAME_EXISTS, false, false, "STATUS_OBJECT_NAME_EXISTS (0x40000000)"),
            (Status::BUFFER_OVERFLOW, false, true, "STATUS_BUFFER_OVERFLOW (0x80000005)"),
            (Status::NO_MORE_FILES, false, true, "STATUS_NO_MORE_FILES (0x80000006)"),
            (Status::STOPPED_ON_SYMLINK, false, true, "STATUS_STOPPED_ON_SYMLINK (0x8000002D)"),
            (Status::ACCESS_DENIED, true, false, "STATUS_ACCESS_DENIED (0xC0000022)"),
            (Status(0xC000_FFFF), true, false, "unknown status (0xC000FFFF)"),
        ] {
            assert_eq!((status.is_error(), status.is_warning()), (error, warning), "{status}");
            assert_eq!(format!("{status} {status:?}"), format!("{text} {text}"));
        }
    }
}
