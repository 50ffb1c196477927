//! Where snapshots are found automatically (`frevo:snapshots = auto`).

/// The inode numbers of the directories that ZFS on Linux shows beside its own objects, whose numbers are smaller. No
/// other file system of the kernel has them. Their mode is 0777, but nobody can create names in them, and names in
/// `.zfs/snapshot` only with a permission of `zfs allow` or as root.
const ZFS: u64 = 0x0000_ffff_ffff_ffff;
const ZFS_SNAPSHOTS: u64 = 0x0000_ffff_ffff_fffd;
/// Permission to write for others than the owner.
const WRITABLE: u32 = 0o022;

/// A directory that may hold snapshots, below that of the share and below the mount point above it.
pub struct Place {
    /// The names on the path.
    pub path: &'static [Step],
    /// Whether the time may follow any text. Elsewhere it is the name of the directory that was snapshotted, because
    /// one directory may hold the snapshots of several.
    pub any_prefix: bool,
}

/// A name on the path to the snapshots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// The name.
    pub name: &'static str,
    /// The inode number by which the directory is trusted whatever its mode is.
    pub control: Option<u64>,
}

/// All of them.
pub const PLACES: [Place; 2] = [
    Place { path: &[Step { name: ".snapshots", control: None }], any_prefix: false },
    // These snapshots are always those of the file system in whose root they are.
    Place {
        path: &[Step { name: ".zfs", control: Some(ZFS) }, Step { name: "snapshot", control: Some(ZFS_SNAPSHOTS) }],
        any_prefix: true,
    },
];

/// Returns whether only root can have created the names in a directory with this owner, mode and inode number.
/// `control` is the number by which it is trusted whatever its mode is.
pub fn is_trusted(uid: u32, mode: u32, inode: u64, control: Option<u64>) -> bool {
    uid == 0 && (mode & WRITABLE == 0 || control == Some(inode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_zfs_are_trusted_by_their_numbers() {
        for (place, inode, uid, mode, expected) in [
            (1, ZFS, 0, 0o777, true),
            (1, ZFS, 1000, 0o777, false),
            (1, ZFS_SNAPSHOTS, 0, 0o777, false),
            (1, 256, 0, 0o777, false),
            (1, 256, 0, 0o755, true),
            (0, ZFS, 0, 0o777, false),
            (0, 256, 0, 0o755, true),
            (0, 256, 0, 0o775, false),
        ] {
            let step: Step = PLACES[place].path[0];
            assert_eq!(is_trusted(uid, mode, inode, step.control), expected, "{inode:x} {uid} {mode:o}");
        }
    }
}
