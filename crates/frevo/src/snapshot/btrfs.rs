//! Subvolumes of btrfs, by the ioctls of `linux/btrfs.h`.
#![allow(unsafe_code, reason = "ioctls of btrfs, each with its argument for safety")]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// The inode number of the root of each subvolume.
const ROOT_INODE: u64 = 256;
/// The inode number of a directory that stands for a subvolume that was not part of a snapshot.
const PLACEHOLDER_INODE: u64 = 2;
/// The type that `fstatfs` reports.
const MAGIC: i64 = 0x9123_683e;
/// The flag of a new subvolume, and that of an existing one.
const CREATE_READ_ONLY: u64 = 1 << 1;
const IS_READ_ONLY: u64 = 1;

/// `struct btrfs_ioctl_vol_args`.
#[repr(C)]
struct Arguments {
    fd: i64,
    name: [u8; 4088],
}

/// `struct btrfs_ioctl_vol_args_v2`.
#[repr(C)]
struct SnapshotArguments {
    fd: i64,
    transaction: u64,
    flags: u64,
    unused: [u64; 4],
    name: [u8; 4040],
}

/// `struct btrfs_ioctl_timespec`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Moment {
    seconds: u64,
    nanoseconds: u32,
}

/// `struct btrfs_ioctl_get_subvol_info_args`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Info {
    tree: u64,
    name: [u8; 256],
    parent: u64,
    directory: u64,
    generation: u64,
    flags: u64,
    uuid: [u8; 16],
    parent_uuid: [u8; 16],
    received_uuid: [u8; 16],
    transactions: [u64; 4],
    times: [Moment; 4],
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<Arguments>() == 4096 && size_of::<SnapshotArguments>() == 4096);
const _: () = assert!(size_of::<Info>() == 504);

const CREATE: libc::Ioctl = number::<Arguments>(1, 14);
const DESTROY: libc::Ioctl = number::<Arguments>(1, 15);
const CREATE_SNAPSHOT: libc::Ioctl = number::<SnapshotArguments>(1, 23);
const GET_INFO: libc::Ioctl = number::<Info>(2, 60);

/// `_IOW(0x94, command, T)` or `_IOR`, whose `direction` is 1 or 2.
const fn number<T>(direction: u32, command: u32) -> libc::Ioctl {
    (direction << 30 | (size_of::<T>() as u32) << 16 | 0x94 << 8 | command) as libc::Ioctl
}

/// A UUID of a subvolume.
pub(super) type Uuid = [u8; 16];

/// What identifies a subvolume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Subvolume {
    pub(super) uuid: Uuid,
    /// The subvolume of which it is a snapshot; zeros if it is not one.
    pub(super) parent: Uuid,
    pub(super) read_only: bool,
}

/// Returns whether the directory is on btrfs.
pub(super) fn is_on(directory: impl AsFd) -> io::Result<bool> {
    Ok(rustix::fs::fstatfs(&directory)?.f_type == MAGIC)
}

/// Returns whether the directory is the root of a subvolume.
pub(super) fn is_root(directory: impl AsFd) -> io::Result<bool> {
    Ok(is_on(&directory)? && rustix::fs::fstat(&directory)?.st_ino == ROOT_INODE)
}

/// Returns whether the directory is empty in place of a subvolume, which was not part of a snapshot.
pub(super) fn is_placeholder(directory: impl AsFd) -> io::Result<bool> {
    Ok(is_on(&directory)? && rustix::fs::fstat(&directory)?.st_ino == PLACEHOLDER_INODE)
}

/// Describes the subvolume of a directory.
pub(super) fn describe(directory: impl AsFd) -> io::Result<Subvolume> {
    let none = Moment { seconds: 0, nanoseconds: 0 };
    let mut info = Info {
        tree: 0,
        name: [0; 256],
        parent: 0,
        directory: 0,
        generation: 0,
        flags: 0,
        uuid: [0; 16],
        parent_uuid: [0; 16],
        received_uuid: [0; 16],
        transactions: [0; 4],
        times: [none; 4],
        reserved: [0; 8],
    };
    // SAFETY: the descriptor is open while it is borrowed. The call fills `info`, which has the size in its number and
    // consists of integers, for which all bytes are valid.
    checked(unsafe { libc::ioctl(directory.as_fd().as_raw_fd(), GET_INFO, &raw mut info) })?;
    Ok(Subvolume { uuid: info.uuid, parent: info.parent_uuid, read_only: info.flags & IS_READ_ONLY != 0 })
}

/// Creates the empty subvolume `name` in a directory.
pub(super) fn create(directory: impl AsFd, name: &CStr) -> io::Result<()> {
    let arguments = Arguments { fd: 0, name: filled(name)? };
    // SAFETY: the descriptor is open while it is borrowed. The call reads `arguments`, whose name ends with NUL.
    checked(unsafe { libc::ioctl(directory.as_fd().as_raw_fd(), CREATE, &raw const arguments) })
}

/// Creates the read-only snapshot `name` of `subvolume` in a directory. It exists as a whole afterwards, or not at all.
pub(super) fn create_snapshot(directory: impl AsFd, name: &CStr, subvolume: BorrowedFd<'_>) -> io::Result<()> {
    let mut arguments = SnapshotArguments {
        fd: subvolume.as_raw_fd().into(),
        transaction: 0,
        flags: CREATE_READ_ONLY,
        unused: [0; 4],
        name: filled(name)?,
    };
    // SAFETY: both descriptors are open while they are borrowed. The call reads `arguments`, whose name ends with NUL,
    // and writes only the number of the transaction to it.
    checked(unsafe { libc::ioctl(directory.as_fd().as_raw_fd(), CREATE_SNAPSHOT, &raw mut arguments) })
}

/// Removes the subvolume `name` with all files in it.
pub(super) fn destroy(directory: impl AsFd, name: &CStr) -> io::Result<()> {
    let arguments = Arguments { fd: 0, name: filled(name)? };
    // SAFETY: the descriptor is open while it is borrowed. The call reads `arguments`, whose name ends with NUL.
    checked(unsafe { libc::ioctl(directory.as_fd().as_raw_fd(), DESTROY, &raw const arguments) })
}

/// Copies a name, after which there is at least one NUL.
fn filled<const LENGTH: usize>(name: &CStr) -> io::Result<[u8; LENGTH]> {
    let bytes = name.to_bytes_with_nul();
    let mut filled = [0; LENGTH];
    filled.get_mut(..bytes.len()).ok_or(io::ErrorKind::InvalidFilename)?.copy_from_slice(bytes);
    Ok(filled)
}

fn checked(answer: libc::c_int) -> io::Result<()> {
    if answer == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
