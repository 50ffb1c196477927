//! POSIX ACLs in the kernel's format of the extended attribute `system.posix_acl_access`: version 2, then entries of
//! tag, permissions and id, little-endian, in the order of their tags.
//!
//! This module implements only what the experiments need: ACLs of a given length, whose named users do not exist.

use std::path::Path;

use anyhow::{Context, Result, bail};
use rustix::fs::{
    AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, XattrFlags, chown, lgetxattr, llistxattr, lremovexattr,
    lsetxattr, utimensat,
};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};

/// The attribute that holds the ACL.
const ACCESS: &str = "system.posix_acl_access";
const VERSION: u32 = 2;
/// The value of the id in entries without one.
const NO_ID: u32 = u32::MAX;

const OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const OWNING_GROUP: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

const READ: u16 = 4;
const READ_WRITE: u16 = 6;
const ALL: u16 = 7;

/// Ids above this belong to no user.
const NOBODY: u32 = 100_000;
/// Number of ids above it, more than any ACL has entries.
const USERS: u32 = 1 << 24;

/// Entries that the permission bits represent: owner, owning group and others.
pub(super) const PLAIN: usize = 3;
/// The kernel's maximum size of an attribute value.
const VALUE_MAX: usize = 64 << 10;

/// Returns the attribute's value for an ACL of `entries`, or `None` if permission bits suffice. The fourth entry is the
/// mask, and further ones are users. The users differ for each `file`, because file systems store equal ACLs of several
/// files only once.
pub(super) fn list(entries: usize, file: u32) -> Option<Vec<u8>> {
    let named = entries.saturating_sub(PLAIN + 1);
    if entries <= PLAIN {
        return None;
    }
    let mut value = VERSION.to_le_bytes().to_vec();
    let mut entry = |tag: u16, permissions: u16, id: u32| {
        value.extend(tag.to_le_bytes());
        value.extend(permissions.to_le_bytes());
        value.extend(id.to_le_bytes());
    };
    entry(OWNER, READ_WRITE, NO_ID);
    for (number, id) in (0..named).zip(NOBODY + 1 + file % USERS..) {
        entry(USER, if number % 2 == 0 { READ } else { READ_WRITE }, id);
    }
    entry(OWNING_GROUP, READ, NO_ID);
    entry(MASK, ALL, NO_ID);
    entry(OTHER, READ, NO_ID);
    Some(value)
}

/// Sets the ACL of a file. Returns `false` if the file system does not accept one of that length.
pub(super) fn give(path: &Path, entries: usize, file: u32) -> Result<bool> {
    let Some(value) = list(entries, file) else { return Ok(true) };
    match lsetxattr(path, ACCESS, &value, XattrFlags::empty()) {
        Ok(()) => Ok(true),
        Err(Errno::NOSPC | Errno::TOOBIG | Errno::RANGE | Errno::INVAL) => Ok(false),
        Err(Errno::OPNOTSUPP) => {
            bail!("the file system of {} has no POSIX ACLs: use one that supports them", path.display())
        }
        Err(error) => Err(error).with_context(|| format!("cannot set {entries} ACL entries on {}", path.display())),
    }
}

/// Returns the number of entries of a file's ACL, or that of the permission bits if no ACL is stored.
pub(super) fn length(path: &Path) -> Result<usize> {
    let mut value = vec![0; VALUE_MAX];
    match lgetxattr(path, ACCESS, &mut value[..]) {
        Ok(length) => Ok(length.saturating_sub(4) / 8),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(PLAIN),
        Err(error) => Err(error).with_context(|| format!("cannot read the ACL of {}", path.display())),
    }
}

/// Prefix of the attributes in which XFS also shows ACLs to root.
const OF_XFS: &str = "trusted.SGI_ACL_";

/// Returns the names of a file's other attributes, except the one for DOS attributes.
pub(super) fn attributes(path: &Path) -> Result<Vec<String>> {
    let mut names = vec![0; VALUE_MAX];
    let length = llistxattr(path, &mut names[..])
        .with_context(|| format!("cannot list the extended attributes of {}", path.display()))?;
    let names = names[..length].split(|byte| *byte == 0).map(|name| String::from_utf8_lossy(name).into_owned());
    let is_other = |name: &String| !name.is_empty() && name != ACCESS && name != "user.DOSATTRIB";
    Ok(names.filter(|name| is_other(name) && !name.starts_with(OF_XFS)).collect())
}

/// Removes an attribute if it exists.
pub(super) fn forget(path: &Path, attribute: &str) -> Result<()> {
    match lremovexattr(path, attribute) {
        Ok(()) | Err(Errno::NODATA) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot remove {attribute} of {}", path.display())),
    }
}

/// Gives a file a new change time. The only other change is the time of the last access.
pub(super) fn age(path: &Path) -> Result<()> {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let same = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let times = Timestamps { last_access: now, last_modification: same };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)
        .with_context(|| format!("cannot set the times of {}", path.display()))
}

/// Sets the owner of a file or directory to that of `like`, if this process may do that.
pub(super) fn give_away(path: &Path, like: &Path) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let owner = like.metadata().with_context(|| format!("cannot stat {}", like.display()))?;
    match chown(path, Some(Uid::from_raw(owner.uid())), Some(Gid::from_raw(owner.gid()))) {
        Ok(()) | Err(Errno::PERM) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot change the owner of {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn acls_have_the_format_of_the_kernel() {
        let check = |entries, file, expected: Option<&str>| {
            assert_eq!(list(entries, file).as_deref().map(hex).as_deref(), expected, "{entries}");
        };
        check(3, 0, None);
        // After `setfacl -m m::rwx` on a file of mode 0644, as `getfattr -e hex` shows it.
        let mask = "0200000001000600ffffffff04000400ffffffff10000700ffffffff20000400ffffffff";
        check(4, 0, Some(mask));
        // After `setfacl -m u:100001:r--,m::rwx`.
        let user = "0200000001000600ffffffff02000400a186010004000400ffffffff10000700ffffffff20000400ffffffff";
        check(5, 0, Some(user));
        // After `setfacl -m u:100002:r--,u:100003:rw-,m::rwx`.
        let users = "0200000001000600ffffffff02000400a286010002000600a386010004000400ffffffff10000700ffffffff\
                     20000400ffffffff";
        check(6, 1, Some(users));
    }

    #[test]
    fn acls_have_the_requested_length() {
        for entries in [4, 5, 34, 300] {
            assert_eq!(list(entries, u32::MAX).map(|value| (value.len() - 4) / 8), Some(entries));
        }
    }

    #[test]
    fn a_file_keeps_its_acl() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "").unwrap();
        assert_eq!(length(&path).unwrap(), 3);
        // A file system without POSIX ACLs has nothing to check.
        let Ok(true) = give(&path, 16, 0) else { return };
        assert_eq!(length(&path).unwrap(), 16);
        assert_eq!(attributes(&path).unwrap(), [""; 0]);
        let changed = || {
            use std::os::unix::fs::MetadataExt;
            let metadata = std::fs::metadata(&path).unwrap();
            (metadata.ctime(), metadata.ctime_nsec())
        };
        let before = changed();
        while changed() == before {
            age(&path).unwrap();
        }
        assert_eq!(length(&path).unwrap(), 16);
        forget(&path, ACCESS).unwrap();
        forget(&path, ACCESS).unwrap();
        assert_eq!(length(&path).unwrap(), 3);
    }
}
