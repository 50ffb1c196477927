//! `vfs objects = full_audit`: a record of what clients do with the files of a share.

use std::path::PathBuf;

use super::Template;

/// The parameters of the record of a share, as in Samba's module full_audit.
#[derive(Clone, Debug)]
pub struct Audit {
    /// `full_audit:prefix`: the start of each line.
    pub prefix: Template,
    /// `full_audit:success`: the operations that are recorded if they succeed.
    pub success: Operations,
    /// `full_audit:failure`: the operations that are recorded if they fail.
    pub failure: Operations,
    /// `full_audit:facility` and `full_audit:priority`: the priority value of syslog, 8 times the facility plus the
    /// severity.
    pub priority: u8,
    /// `full_audit:log_secdesc`: a new security descriptor is recorded in SDDL.
    pub log_secdesc: bool,
    /// The destination of the lines.
    pub destination: Destination,
    /// `frevo:audit overflow`.
    pub overflow: Overflow,
    /// `vfs objects` has recycle before full_audit: a deletion that moves the file to the recycle bin is recorded as a
    /// rename.
    pub sees_recycling: bool,
}

/// What is done if the events that wait for the destination reach their bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overflow {
    /// Events are lost, and counted.
    Drop,
    /// Requests whose events do not fit are refused.
    Refuse,
}

/// The record of logons.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct LogonAudit {
    /// The destinations, with the level of Samba's class `auth_audit` or `auth_json_audit`.
    pub sinks: Vec<(Destination, u8)>,
}

impl LogonAudit {
    /// Returns whether any logon is recorded.
    pub fn is_on(&self) -> bool {
        !self.sinks.is_empty()
    }
}

/// The destination of the lines.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Destination {
    /// The syslog daemon or the journal of the host.
    Syslog,
    /// `frevo:audit journal`: the journal, in its own protocol with fields.
    Journal,
    /// The log of the server (`full_audit:syslog = no`).
    Log,
    /// The log of the server, with JSON objects (`log level = auth_json_audit:3`).
    JsonLog,
    /// A file with the lines of Samba (`log level = auth_audit:3@FILE`).
    Lines(PathBuf),
    /// `frevo:audit file`: a file with a JSON object in each line.
    File(PathBuf),
}

impl Default for Audit {
    fn default() -> Self {
        Audit {
            prefix: Template::parse("%u|%I").expect("the variables are known"),
            success: Operations::NONE,
            failure: Operations::NONE,
            priority: (1 << 3) | 5,
            log_secdesc: false,
            destination: Destination::Syslog,
            overflow: Overflow::Drop,
            sees_recycling: false,
        }
    }
}

/// A set of operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operations(u128);

impl Operations {
    /// No operation.
    pub const NONE: Operations = Operations(0);
    /// Every operation.
    pub const ALL: Operations = Operations(u128::MAX);

    /// Returns whether the set has the operation.
    pub fn contains(self, operation: Operation) -> bool {
        self.0 & operation.bit() != 0
    }

    /// Returns the set of a list such as `all !close`. The elements apply in their order. The error is an element that
    /// is not an operation.
    pub fn parse<'a>(list: impl IntoIterator<Item = &'a str>) -> Result<Operations, &'a str> {
        let mut set = Operations::NONE;
        for element in list {
            let name = element.strip_prefix('!').unwrap_or(element);
            let named = match &*element.to_ascii_lowercase() {
                "all" => Operations::ALL,
                // As in Samba, the rest of the list is ignored.
                "none" => break,
                _ => Operations(Operation::named(&name.to_ascii_lowercase()).ok_or(element)?.bit()),
            };
            set.0 = if element.starts_with('!') { set.0 & !named.0 } else { set.0 | named.0 };
        }
        Ok(set)
    }

    /// Returns whether none of the operations is ever recorded.
    pub fn is_silent(self) -> bool {
        self.0 & ((1 << WRITTEN.len()) - 1) == 0
    }
}

/// An operation of Samba's VFS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operation(u8);

/// Declares the operations that are recorded, and those whose names are only accepted.
macro_rules! operations {
    (recorded: [$($constant:ident = $name:literal,)*], accepted: [$($other:literal,)*]) => {
        #[repr(u8)]
        #[allow(clippy::upper_case_acronyms, non_camel_case_types, reason = "the names of the constants")]
        enum Index { $($constant,)* }

        #[allow(missing_docs, reason = "the names are those of Samba")]
        impl Operation {
            $(pub const $constant: Operation = Operation(Index::$constant as u8);)*
        }

        const WRITTEN: &[&str] = &[$($name,)*];
        const ACCEPTED: &[&str] = &[$($other,)*];
    };
}

operations! {
    recorded: [
    CONNECT = "connect",
    DISCONNECT = "disconnect",
    CREATE_FILE = "create_file",
    OPENAT = "openat",
    MKDIRAT = "mkdirat",
    CLOSE = "close",
    PREAD_SEND = "pread_send",
    PREAD_RECV = "pread_recv",
    PWRITE_SEND = "pwrite_send",
    PWRITE_RECV = "pwrite_recv",
    FSYNC_SEND = "fsync_send",
    FSYNC_RECV = "fsync_recv",
    FTRUNCATE = "ftruncate",
    RENAMEAT = "renameat",
    UNLINKAT = "unlinkat",
    LINKAT = "linkat",
    FDOPENDIR = "fdopendir",
    CLOSEDIR = "closedir",
    FNTIMES = "fntimes",
    FSET_DOS_ATTRIBUTES = "fset_dos_attributes",
    FSET_NT_ACL = "fset_nt_acl",
    FSETXATTR = "fsetxattr",
    OFFLOAD_READ_SEND = "offload_read_send",
    OFFLOAD_READ_RECV = "offload_read_recv",
    OFFLOAD_WRITE_SEND = "offload_write_send",
    OFFLOAD_WRITE_RECV = "offload_write_recv",
    SET_QUOTA = "set_quota",
    ],
    accepted: [
    "aio_force", "audit_file", "brl_lock_windows", "brl_unlock_windows", "chdir", "connectpath", "create_dfs_pathat",
    "disk_free", "durable_cookie", "durable_disconnect", "durable_reconnect", "fallocate", "fchflags", "fchmod",
    "fchown", "fcntl", "fget_compression", "fget_dos_attributes", "fget_nt_acl", "fgetxattr", "file_id_create",
    "filesystem_sharemode", "flistxattr", "freaddir_attr", "fremovexattr", "fs_capabilities", "fs_file_id", "fsctl",
    "fstat", "fstatat", "fstreaminfo", "fsync", "get_alloc_size", "get_dfs_referrals", "get_dos_attributes_recv",
    "get_dos_attributes_send", "get_quota", "get_real_filename", "get_real_filename_at", "get_shadow_copy_data",
    "getlock", "getwd", "getxattrat_recv", "getxattrat_send", "is_offline", "lchown", "linux_setlease", "lock",
    "lseek", "lstat", "mknodat", "ntimes", "open", "parent_pathname", "pread", "pwrite", "read", "read_dfs_pathat",
    "readdir", "readlinkat", "realpath", "recvfile", "removexattr", "rewinddir", "seekdir", "sendfile",
    "set_compression", "set_offline", "snap_check_path", "snap_create", "snap_delete", "stat", "statvfs",
    "strict_lock_check", "symlinkat", "sys_acl_blob_get_fd", "sys_acl_delete_def_fd", "sys_acl_get_fd",
    "sys_acl_set_fd", "telldir", "translate_name", "write",
    ]
}

const _: () = assert!(WRITTEN.len() + ACCEPTED.len() <= 128, "an operation is a bit");

impl Operation {
    /// Returns the operation called `name`.
    pub fn named(name: &str) -> Option<Operation> {
        let at = WRITTEN.iter().chain(ACCEPTED).position(|known| *known == name)?;
        u8::try_from(at).ok().map(Operation)
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        WRITTEN.get(usize::from(self.0)).copied().unwrap_or_default()
    }

    /// Returns the position of the path among its arguments.
    pub fn path_argument(self) -> Option<usize> {
        match self {
            Operation::CONNECT | Operation::DISCONNECT => None,
            Operation::CREATE_FILE => Some(3),
            Operation::OPENAT => Some(1),
            _ => Some(0),
        }
    }

    /// Returns whether Samba's line has the arguments. The other lines have none, although the path is recorded.
    pub fn has_arguments(self) -> bool {
        !matches!(
            self,
            Operation::CLOSEDIR
                | Operation::OFFLOAD_READ_SEND
                | Operation::OFFLOAD_READ_RECV
                | Operation::OFFLOAD_WRITE_SEND
                | Operation::OFFLOAD_WRITE_RECV
        )
    }

    fn bit(self) -> u128 {
        1 << self.0
    }

    /// Returns the present name of an operation of an older Samba, which the present one refuses.
    pub fn renamed(name: &str) -> Option<&'static str> {
        Some(match name {
            "mkdir" => "mkdirat",
            "rename" => "renameat",
            "unlink" | "rmdir" => "unlinkat",
            "link" => "linkat",
            "opendir" => "fdopendir",
            "symlink" => "symlinkat",
            "mknod" => "mknodat",
            "readlink" => "readlinkat",
            "chmod" => "fchmod",
            "chown" => "fchown",
            "set_nt_acl" => "fset_nt_acl",
            "get_nt_acl" => "fget_nt_acl",
            "set_dos_attributes" => "fset_dos_attributes",
            "get_dos_attributes" => "fget_dos_attributes",
            "setxattr" => "fsetxattr",
            "getxattr" => "fgetxattr",
            "listxattr" => "flistxattr",
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_found() {
        let names: Vec<_> = WRITTEN.iter().chain(ACCEPTED).collect();
        for (at, name) in names.iter().enumerate() {
            assert_eq!(Operation::named(name), Some(Operation(at as u8)), "{name} is not listed twice");
        }
        assert_eq!(Operation::UNLINKAT.name(), "unlinkat");
        assert_eq!(Operation::named("mkdir"), None);
    }

    #[test]
    fn renamed_operations_are_known_under_the_present_name() {
        for name in ["mkdir", "rename", "unlink", "rmdir", "opendir", "set_nt_acl", "setxattr"] {
            let present = Operation::renamed(name).expect("an older name");
            assert!(Operation::named(present).is_some() && Operation::named(name).is_none(), "{name}");
        }
    }

    #[test]
    fn elements_of_a_list_apply_in_their_order() {
        let parse = |list: &'static str| Operations::parse(list.split(' '));
        let only = parse("connect mkdirat").expect("known names");
        assert!(only.contains(Operation::CONNECT) && !only.contains(Operation::CLOSE));
        let but = parse("all !close").expect("known names");
        assert!(but.contains(Operation::CONNECT) && !but.contains(Operation::CLOSE));
        assert_eq!(parse("!close all"), Ok(Operations::ALL));
        assert_eq!(parse("none"), Ok(Operations::NONE));
        assert_eq!(parse("close none bogus"), parse("CLOSE"));
        assert_eq!(parse("!all"), Err("!all"));
        assert_eq!(parse("connect bogus"), Err("bogus"));
        assert_eq!(parse("!bogus"), Err("!bogus"));
        assert!(parse("stat chdir").expect("known names").is_silent());
        assert!(!parse("stat close").expect("known names").is_silent());
    }
}
