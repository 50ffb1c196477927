//! The mounts of thin snapshots.
//!
//! A mount point is reached from the open directory that has it, by `/proc/self/fd`, so that no user can exchange a
//! directory on its path.

use std::ffi::CString;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use anyhow::{Context, Result, bail};
use rustix::fs::{AtFlags, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

/// The start of the superblock of XFS, as far as the field below, and the position of the field: which quotas are on.
const SUPERBLOCK: usize = 178;
const QUOTAS: usize = 176;
/// The flags there that say that a quota is counted, each with the option that mounts the file system with it.
const COUNTED: [(u16, &str); 3] = [(0x0001, "uquota"), (0x0040, "gquota"), (0x0008, "pquota")];

/// A mount, as `/proc/self/mountinfo` describes it.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Mount {
    pub(super) number: u64,
    /// The directory of the file system that is mounted.
    pub(super) root: String,
    /// The type of the file system.
    pub(super) kind: String,
}

impl Mount {
    /// Returns the mount of an open directory.
    pub(super) fn of(directory: impl AsFd) -> Result<Mount> {
        let known = rustix::fs::statx(&directory, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
        if known.stx_mask & StatxFlags::MNT_ID.bits() == 0 {
            bail!("the kernel does not tell the number of a mount; it requires Linux 5.8 or later");
        }
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").context("cannot read /proc/self/mountinfo")?;
        find(&mounts, known.stx_mnt_id).context("/proc/self/mountinfo does not have the mount of the share")
    }

    /// Refuses a mount of another namespace than the first process's. What is mounted there, the server would not see.
    pub(super) fn check_namespace(&self) -> Result<()> {
        // Each mount has a number of its own in each namespace.
        match std::fs::read_to_string("/proc/1/mountinfo") {
            Ok(mounts) if find(&mounts, self.number).is_none() => bail!(
                "this command runs in a mount namespace of its own, so the server would not see the snapshot; run it \
                 outside of containers, and without systemd's ProtectSystem=, PrivateTmp= and similar settings"
            ),
            _ => Ok(()),
        }
    }
}

/// Returns the mount with this number.
fn find(mounts: &str, wanted: u64) -> Option<Mount> {
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        let number = words.next()?.parse().ok().filter(|number| *number == wanted)?;
        let root = words.nth(2)?.to_owned();
        let kind = words.skip_while(|word| *word != "-").nth(1)?.to_owned();
        Some(Mount { number, root, kind })
    })
}

/// Mounts the snapshot on `device` at the open directory `point`, read-only.
///
/// Device-mapper froze the file system when the snapshot was taken, so it was complete on the device. ext4 empties its
/// journal when it is frozen. XFS writes everything to its place too, and leaves one record without changes in its log.
/// So the journal need not be replayed, and the device, which is read-only, would not permit that: XFS would refuse.
pub(super) fn mount(device: &Path, kind: &str, point: impl AsFd) -> Result<()> {
    let mut options = "norecovery".to_owned();
    if kind == "xfs" {
        // The snapshot has the UUID of the mounted original.
        options += ",nouuid";
        for option in quotas(device).with_context(|| format!("cannot read {}", device.display()))? {
            options += &format!(",{option}");
        }
    }
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let target = format!("/proc/self/fd/{}", point.as_fd().as_raw_fd());
    rustix::mount::mount(device, target, kind, flags, &*CString::new(options)?)
        .with_context(|| format!("cannot mount {}; the kernel's log may say why (`dmesg`)", device.display()))
}

/// Returns the options for the quotas of a file system of XFS. It refuses others if it cannot write.
fn quotas(device: &Path) -> std::io::Result<impl Iterator<Item = &'static str>> {
    let mut start = [0; SUPERBLOCK];
    File::open(device)?.read_exact(&mut start)?;
    let flags = u16::from_be_bytes([start[QUOTAS], start[QUOTAS + 1]]);
    Ok(COUNTED.into_iter().filter(move |(flag, _)| flags & flag != 0).map(|(_, option)| option))
}

/// Unmounts what is mounted at `name` of a directory of root; `false` if it is in use.
pub(super) fn unmount(directory: impl AsFd, name: &str) -> Result<bool> {
    let target = format!("/proc/self/fd/{}/{name}", directory.as_fd().as_raw_fd());
    match rustix::mount::unmount(target, UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(true),
        // It would be detached with MNT_DETACH, but its volume could not be removed, and nothing would show it.
        Err(Errno::BUSY) => Ok(false),
        Err(error) => Err(error).context("cannot unmount it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_found_by_its_number() {
        let mounts = "21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
                      136 21 253:4 /a\\040b /srv/data rw,noatime - xfs /dev/mapper/vg-data rw,attr2,usrquota\n";
        let expected = Mount { number: 136, root: "/a\\040b".to_owned(), kind: "xfs".to_owned() };
        assert_eq!(find(mounts, 136), Some(expected));
        assert_eq!(find(mounts, 21).map(|mount| mount.kind), Some("ext4".to_owned()));
        assert_eq!(find(mounts, 1), None);
        assert_eq!(find("136 21", 136), None);
    }

    #[test]
    fn the_mount_of_a_directory_is_known() {
        let dir = tempfile::tempdir().expect("a directory");
        let opened = File::open(dir.path()).expect("it exists");
        let mount = Mount::of(&opened).expect("it is mounted");
        assert!(mount.root.starts_with('/') && !mount.kind.is_empty(), "{mount:?}");
    }

    #[test]
    fn quotas_of_xfs_are_in_the_superblock() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("device");
        for (flags, expected) in
            [(0u16, ""), (0x07, "uquota"), (0x41, "uquota,gquota"), (0x7ff, "uquota,gquota,pquota")]
        {
            let mut start = vec![0xff; 4096];
            start[176..178].copy_from_slice(&flags.to_be_bytes());
            std::fs::write(&path, start).expect("there is space");
            let found: Vec<&str> = quotas(&path).expect("it is readable").collect();
            assert_eq!(found.join(","), expected, "{flags:x}");
        }
        std::fs::write(&path, "short").expect("there is space");
        assert!(quotas(&path).is_err());
    }
}
