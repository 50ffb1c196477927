//! The only unsafe code of this crate: system calls that rustix does not offer.
#![allow(unsafe_code, reason = "raw system calls, each with its argument for safety")]

use std::ffi::CStr;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;

use rustix::fs::AtFlags;
use rustix::io::Errno;
use rustix::thread::Pid;

/// From `fcntl.h`: sets the signal that reports a lease break.
const F_SETSIG: libc::c_int = 10;
/// From `fcntl.h`: sets the receiver of the signal.
const F_SETOWN_EX: libc::c_int = 15;
/// The receiver is a thread, and no other thread of its process.
const F_OWNER_TID: libc::c_int = 0;

/// `struct f_owner_ex`.
#[repr(C)]
struct Owner {
    kind: libc::c_int,
    pid: libc::pid_t,
}

/// Makes `length` bytes of `to` at `offset` share the space of `from` at `source`. Length 0 means up to the end.
pub(crate) fn clone_range(
    to: impl AsFd,
    from: impl AsFd,
    source: u64,
    offset: u64,
    length: u64,
) -> rustix::io::Result<()> {
    let range = libc::file_clone_range {
        src_fd: from.as_fd().as_raw_fd().into(),
        src_offset: source,
        src_length: length,
        dest_offset: offset,
    };
    // SAFETY: both descriptors are open while they are borrowed. The call reads `range`, which has the right type, and
    // writes no memory.
    checked(unsafe { libc::ioctl(to.as_fd().as_raw_fd(), libc::FICLONERANGE, &raw const range) }).map(drop)
}

/// `struct cachestat_range` of `linux/mman.h`.
#[repr(C)]
struct CacheRange {
    offset: u64,
    length: u64,
}

/// `struct cachestat` of `linux/mman.h`: numbers of pages.
#[repr(C)]
#[derive(Default)]
struct CacheNumbers {
    cached: u64,
    dirty: u64,
    written_back: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// The system call number of `cachestat` on all Linux targets of the standard library except MIPS, where it is unused.
const SYS_CACHESTAT: libc::c_long = 451;

/// Returns the number of pages of a range of `file` that the page cache has; `Errno::NOSYS` before Linux 6.5. Since
/// Linux 6.14, `Errno::PERM` unless the thread's user owns the file or may write to it.
pub(crate) fn cached_pages(file: BorrowedFd<'_>, offset: u64, length: u64) -> rustix::io::Result<u64> {
    let (range, mut numbers) = (CacheRange { offset, length }, CacheNumbers::default());
    // SAFETY: the descriptor is open while it is borrowed. The call reads `range` and writes `numbers`, which have the
    // types that it expects.
    checked(unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut numbers, 0_u32) as libc::c_int
    })?;
    Ok(numbers.cached)
}

/// `struct xattr_args` of `linux/xattr.h`.
#[repr(C, align(8))]
struct XattrArguments {
    value: u64,
    size: u32,
    flags: u32,
}

/// The system call number of `getxattrat` on all Linux targets of the standard library except MIPS, where it is unused.
const SYS_GETXATTRAT: libc::c_long = 464;
/// `listxattrat`, likewise.
const SYS_LISTXATTRAT: libc::c_long = 465;

/// Reads the attribute `name` of the file at `path` from `directory`; `Errno::NOSYS` before Linux 6.13.
pub(crate) fn getxattr_at(
    directory: BorrowedFd<'_>,
    path: &CStr,
    flags: AtFlags,
    name: &CStr,
    value: &mut [u8],
) -> rustix::io::Result<usize> {
    let size = u32::try_from(value.len()).unwrap_or(u32::MAX);
    let arguments = XattrArguments { value: value.as_mut_ptr() as u64, size, flags: 0 };
    // SAFETY: both strings are NUL-terminated and `arguments` has the given size. All live until the call returns,
    // which writes at most `size` bytes to `value`.
    let answer = unsafe {
        libc::syscall(
            SYS_GETXATTRAT,
            directory.as_raw_fd(),
            path.as_ptr(),
            flags.bits(),
            name.as_ptr(),
            &raw const arguments,
            size_of::<XattrArguments>(),
        )
    };
    checked(answer as libc::c_int).map(|length| length as usize)
}

/// Calls `listxattrat`, available since Linux 6.13, with `flags` 0. The names are written to `names`.
pub(crate) fn listxattr_at(directory: BorrowedFd<'_>, path: &CStr, names: &mut [u8]) -> rustix::io::Result<usize> {
    // SAFETY: `path` is NUL-terminated; both live until the call returns, which writes at most `names.len()` bytes.
    let answer = unsafe {
        libc::syscall(SYS_LISTXATTRAT, directory.as_raw_fd(), path.as_ptr(), 0, names.as_mut_ptr(), names.len())
    };
    checked(answer as libc::c_int).map(|length| length as usize)
}

/// The type of a lease, or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub(crate) enum LeaseKind {
    /// No open of the file for writing exists.
    #[cfg_attr(not(test), expect(dead_code, reason = "only the tests act as the reader"))]
    Reading = libc::F_RDLCK,
    /// No other open of the file exists.
    Writing = libc::F_WRLCK,
    /// No lease.
    Free = libc::F_UNLCK,
}

/// Takes or releases a lease on an open file.
pub(crate) fn set_lease(file: BorrowedFd<'_>, kind: LeaseKind) -> rustix::io::Result<()> {
    // SAFETY: takes an integer, and the descriptor is open.
    checked(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind as libc::c_int) }).map(drop)
}

/// Returns whether the write lease on an open file is intact, that is, not being broken.
pub(crate) fn has_lease(file: BorrowedFd<'_>) -> bool {
    // SAFETY: takes no argument, and the descriptor is open.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLEASE) == libc::F_WRLCK }
}

/// Sets the thread and the signal for events of an open file. To be called before any can occur, because the default
/// signal terminates the process.
pub(crate) fn set_signal(file: BorrowedFd<'_>, signal: libc::c_int, thread: Pid) -> rustix::io::Result<()> {
    let owner = Owner { kind: F_OWNER_TID, pid: thread.as_raw_nonzero().get() };
    // SAFETY: F_SETOWN_EX reads `owner`, which lives until the call returns.
    checked(unsafe { libc::fcntl(file.as_raw_fd(), F_SETOWN_EX, &raw const owner) })?;
    // SAFETY: takes an integer, and the descriptor is open.
    checked(unsafe { libc::fcntl(file.as_raw_fd(), F_SETSIG, signal) }).map(drop)
}

/// Returns the signal for leases: a real-time signal that is otherwise unused. These are queued, each with its
/// descriptor.
pub(crate) fn lease_signal() -> libc::c_int {
    libc::SIGRTMIN() + 7
}

/// Signals of the calling thread that are read instead of delivered.
pub(crate) struct Signals(OwnedFd);

impl Signals {
    /// Blocks `signals` for the thread and reads them from now on.
    pub(crate) fn take(signals: &[libc::c_int]) -> rustix::io::Result<Signals> {
        let mut set = MaybeUninit::uninit();
        // SAFETY: initializes the set, whatever its content.
        checked(unsafe { libc::sigemptyset(set.as_mut_ptr()) })?;
        // SAFETY: it was just initialized.
        let mut set: libc::sigset_t = unsafe { set.assume_init() };
        for signal in signals {
            // SAFETY: the set is valid, and an invalid signal number is refused.
            checked(unsafe { libc::sigaddset(&raw mut set, *signal) })?;
        }
        // SAFETY: reads the set; the former mask is not requested.
        match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) } {
            0 => {}
            error => return Err(Errno::from_raw_os_error(error)),
        }
        // SAFETY: reads the set and creates a new descriptor.
        let fd = checked(unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC) })?;
        // SAFETY: the new descriptor has no other owner.
        Ok(Signals(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Waits for the next signal and returns its number and descriptor. To be called on the thread that blocked them.
    pub(crate) fn next(&self) -> rustix::io::Result<(libc::c_int, RawFd)> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
        let (into, size) = (info.as_mut_ptr().cast(), size_of::<libc::signalfd_siginfo>());
        loop {
            // SAFETY: `into` has space for `size` bytes.
            match checked(unsafe { libc::read(self.0.as_raw_fd(), into, size) as libc::c_int }) {
                Err(Errno::INTR) => {}
                Ok(count) if count as usize == size => break,
                Ok(_) => return Err(Errno::IO),
                Err(error) => return Err(error),
            }
        }
        // SAFETY: it consists of integers, for which all bytes are valid.
        let info = unsafe { info.assume_init() };
        Ok((info.ssi_signo as libc::c_int, info.ssi_fd))
    }
}

/// Sets the lock that others see on a range of an open file; `length` 0 means up to the last possible byte. The lock
/// belongs to the open file description, not to the process.
pub(crate) fn lock_range(file: BorrowedFd<'_>, kind: libc::c_int, offset: i64, length: i64) -> rustix::io::Result<()> {
    // SAFETY: it consists of integers, for which 0 is valid.
    let mut lock: libc::flock64 = unsafe { MaybeUninit::zeroed().assume_init() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = offset;
    lock.l_len = length;
    // SAFETY: F_OFD_SETLK reads `lock`, which lives until the call returns.
    checked(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) }).map(drop)
}

/// Returns whether a lock of another open file description, or of another process, covers the byte `offset`.
pub(crate) fn is_locked(file: BorrowedFd<'_>, offset: i64) -> rustix::io::Result<bool> {
    // SAFETY: it consists of integers, for which 0 is valid.
    let mut lock: libc::flock64 = unsafe { MaybeUninit::zeroed().assume_init() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = offset;
    lock.l_len = 1;
    // SAFETY: F_OFD_GETLK reads and writes `lock`, which lives until the call returns.
    checked(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) })?;
    Ok(lock.l_type != libc::F_UNLCK as libc::c_short)
}

/// From `linux/quota.h`: the quota of a user.
pub(crate) const USER_QUOTA: u32 = 0;
/// The quota of a group.
pub(crate) const GROUP_QUOTA: u32 = 1;

/// Of `linux/dqblk_xfs.h`, which Linux supports for every file system with quotas: enforces limits.
const Q_XQUOTAON: u32 = 0x5801;
/// Stops enforcing them.
const Q_XQUOTAOFF: u32 = 0x5802;
/// Returns a quota.
const Q_XGETQUOTA: u32 = 0x5803;
/// Sets limits.
const Q_XSETQLIM: u32 = 0x5804;
/// Returns what is counted and enforced.
const Q_XGETQSTATV: u32 = 0x5808;
/// Returns the quota with the lowest id from a given one, available since Linux 4.6.
const Q_XGETNEXTQUOTA: u32 = 0x5809;
/// Of `linux/quota.h`: [`Q_XGETQUOTA`] in the interface of the other file systems.
const Q_GETQUOTA: u32 = 0x80_0007;
/// [`Q_XGETNEXTQUOTA`] in it.
const Q_GETNEXTQUOTA: u32 = 0x80_0009;

/// `FS_DQUOT_VERSION` and `FS_QSTATV_VERSION1`.
const QUOTA_VERSION: i8 = 1;
/// The limits of space in [`DiskQuota::fields`].
const SPACE_LIMITS: u16 = 0x0004 | 0x0008;

/// `struct fs_disk_quota`. Sizes are in units of 512 bytes. Without a limit it is 0.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct DiskQuota {
    version: i8,
    flags: i8,
    fields: u16,
    pub(crate) id: u32,
    pub(crate) hard: u64,
    pub(crate) soft: u64,
    pub(crate) files_hard: u64,
    pub(crate) files_soft: u64,
    pub(crate) used: u64,
    pub(crate) files: u64,
    /// Timers, numbers of warnings, and the real-time section of XFS.
    others: [u64; 7],
}

const _: () = assert!(size_of::<DiskQuota>() == 112, "the kernel writes 112 bytes");

impl DiskQuota {
    /// Unit of sizes in bytes.
    pub(crate) const UNIT: u64 = 512;

    /// Creates the argument that sets the limits of space of `id` and leaves those of files.
    pub(crate) fn limits(id: u32, soft: u64, hard: u64) -> DiskQuota {
        DiskQuota { version: QUOTA_VERSION, fields: SPACE_LIMITS, id, hard, soft, ..DiskQuota::default() }
    }
}

/// `struct if_nextdqblk`. `struct if_dqblk` is the same without the id. Limits of space are in KiB.
#[repr(C)]
#[derive(Default)]
struct GenericQuota {
    hard: u64,
    soft: u64,
    /// Bytes.
    used: u64,
    files_hard: u64,
    files_soft: u64,
    files: u64,
    times: [u64; 2],
    valid: u32,
    id: u32,
}

const _: () = assert!(size_of::<GenericQuota>() == 72, "the kernel writes up to 72 bytes");

impl From<GenericQuota> for DiskQuota {
    fn from(found: GenericQuota) -> DiskQuota {
        let units = |kib: u64| kib.saturating_mul(1024 / DiskQuota::UNIT);
        DiskQuota {
            version: QUOTA_VERSION,
            id: found.id,
            hard: units(found.hard),
            soft: units(found.soft),
            files_hard: found.files_hard,
            files_soft: found.files_soft,
            used: found.used.div_ceil(DiskQuota::UNIT),
            files: found.files,
            ..DiskQuota::default()
        }
    }
}

/// The commands that read quotas. Linux supports both for every file system with quotas.
#[derive(Clone, Copy)]
pub(crate) enum Interface {
    /// Those of XFS, which do not wait while the file system is frozen.
    Xfs,
    /// Those of the others. Linux treats them like changes: they wait until the file system is not frozen, and fail
    /// with `Errno::ROFS` on one that is mounted read-only.
    Generic,
}

/// `struct fs_quota_statv`. The kernel writes 160 bytes; the rest is room for its later versions.
#[repr(C)]
#[derive(Default)]
struct QuotaState {
    version: i8,
    padding: u8,
    flags: u16,
    incore: u32,
    others: [u64; 27],
}

/// Flags of [`quota_flags`]: the files of users are counted.
pub(crate) const USERS_COUNTED: u16 = 0x01;
/// The limits of users are enforced.
pub(crate) const USERS_ENFORCED: u16 = 0x02;
/// The limits of groups are enforced.
pub(crate) const GROUPS_ENFORCED: u16 = 0x08;

/// The system call number of `quotactl_fd` on all Linux targets of the standard library except MIPS, where it is
/// unused.
const SYS_QUOTACTL_FD: libc::c_long = 443;

/// Makes a quota call for the file system that holds an open file. Available since Linux 5.14.
///
/// # Safety
/// The kernel reads or writes no more than `T` for the command.
unsafe fn quotactl<T>(
    file: BorrowedFd<'_>,
    command: u32,
    kind: u32,
    id: u32,
    argument: &mut T,
) -> rustix::io::Result<()> {
    let command = command << 8 | kind;
    // SAFETY: the descriptor is open while it is borrowed; for the argument, see above.
    let answer = unsafe { libc::syscall(SYS_QUOTACTL_FD, file.as_raw_fd(), command, id, &raw mut *argument) };
    checked(answer as libc::c_int).map(drop)
}

/// Returns whether the process can make quota calls. The kernel may be older, or a filter of system calls may deny
/// them. The call concerns no file, so it never waits.
pub(crate) fn has_quota_calls() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        let none: libc::c_int = -1;
        let nothing = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: the kernel refuses the descriptor before it looks at the other arguments.
        let answer = unsafe { libc::syscall(SYS_QUOTACTL_FD, none, Q_XGETQSTATV << 8, 0, nothing) };
        checked(answer as libc::c_int) == Err(Errno::BADF)
    })
}

/// Returns what is counted and enforced; `Errno::NOSYS` if nothing is. It does not wait while the file system is
/// frozen.
pub(crate) fn quota_flags(file: BorrowedFd<'_>) -> rustix::io::Result<u16> {
    let mut state = QuotaState { version: QUOTA_VERSION, ..QuotaState::default() };
    // SAFETY: the argument is larger than the structure that the kernel writes for this version.
    unsafe { quotactl(file, Q_XGETQSTATV, USER_QUOTA, 0, &mut state) }?;
    Ok(state.flags)
}

/// Returns the quota of a user or group.
pub(crate) fn quota(file: BorrowedFd<'_>, interface: Interface, kind: u32, id: u32) -> rustix::io::Result<DiskQuota> {
    let mut generic = GenericQuota::default();
    let mut quota = DiskQuota::default();
    match interface {
        // SAFETY: the kernel writes this structure.
        Interface::Xfs => unsafe { quotactl(file, Q_XGETQUOTA, kind, id, &mut quota) }?,
        Interface::Generic => {
            // SAFETY: the kernel writes this structure without the id.
            unsafe { quotactl(file, Q_GETQUOTA, kind, id, &mut generic) }?;
            quota = GenericQuota { id, ..generic }.into();
        }
    }
    Ok(quota)
}

/// Returns the quota with the lowest id from `id`; `Errno::NOENT` or `Errno::SRCH` if none exists.
pub(crate) fn next_quota(
    file: BorrowedFd<'_>,
    interface: Interface,
    kind: u32,
    id: u32,
) -> rustix::io::Result<DiskQuota> {
    let mut generic = GenericQuota::default();
    let mut quota = DiskQuota::default();
    match interface {
        // SAFETY: the kernel writes this structure.
        Interface::Xfs => unsafe { quotactl(file, Q_XGETNEXTQUOTA, kind, id, &mut quota) }?,
        Interface::Generic => {
            // SAFETY: the kernel writes this structure.
            unsafe { quotactl(file, Q_GETNEXTQUOTA, kind, id, &mut generic) }?;
            quota = generic.into();
        }
    }
    Ok(quota)
}

/// Sets the limits of a user or group.
pub(crate) fn set_quota(file: BorrowedFd<'_>, kind: u32, mut limits: DiskQuota) -> rustix::io::Result<()> {
    // SAFETY: the kernel reads this structure.
    unsafe { quotactl(file, Q_XSETQLIM, kind, limits.id, &mut limits) }
}

/// Starts or stops enforcing the limits of users.
pub(crate) fn enforce_quotas(file: BorrowedFd<'_>, enforce: bool) -> rustix::io::Result<()> {
    let mut flags = libc::c_uint::from(USERS_ENFORCED);
    let command = if enforce { Q_XQUOTAON } else { Q_XQUOTAOFF };
    // SAFETY: the kernel reads an unsigned int.
    unsafe { quotactl(file, command, USER_QUOTA, 0, &mut flags) }
}

/// Converts the result of a call that returns -1 and sets errno.
fn checked(answer: libc::c_int) -> rustix::io::Result<libc::c_int> {
    if answer != -1 {
        return Ok(answer);
    }
    let error = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// An invalid user and group ID, which queries the current value and changes nothing.
const NOBODY: u32 = u32::MAX;

/// Sets the calling thread's fsuid.
pub(crate) fn set_fsuid(uid: u32) -> rustix::io::Result<()> {
    set_checked(libc::SYS_setfsuid, uid)
}

/// Sets the calling thread's fsgid.
pub(crate) fn set_fsgid(gid: u32) -> rustix::io::Result<()> {
    set_checked(libc::SYS_setfsgid, gid)
}

/// Sets and verifies an ID. These two calls return the former value and never an error, so only a query shows the
/// effect.
fn set_checked(number: libc::c_long, id: u32) -> rustix::io::Result<()> {
    if id == NOBODY {
        return Err(Errno::INVAL);
    }
    // SAFETY: setfsuid and setfsgid take a number and touch no memory.
    unsafe { libc::syscall(number, id) };
    // SAFETY: as above.
    let now = unsafe { libc::syscall(number, NOBODY) };
    // The kernel returns an int, so IDs from 2^31 are negative.
    if now as i32 as u32 == id { Ok(()) } else { Err(Errno::PERM) }
}
