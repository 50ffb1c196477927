//! System calls that a file server does not need. Each of them fails with EPERM.

/// Calls that exist on every architecture, grouped by purpose.
pub(super) static DENIED: &[libc::c_long] = &[
    // Executing other programs: `serve` executes none.
    libc::SYS_execve,
    libc::SYS_execveat,
    // Memory and file descriptors of other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    // Mounts, root directories and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_fsconfig,
    libc::SYS_fspick,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    // Quotas of any device. `quotactl_fd` concerns the file system of an open file.
    libc::SYS_quotactl,
    // Files without a path: an open by handle is not limited to a share.
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    // Parts of the kernel with frequent vulnerabilities.
    libc::SYS_bpf,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_personality,
    libc::SYS_vhangup,
    libc::SYS_nfsservctl,
    libc::SYS_lookup_dcookie,
    // Settings of the machine.
    libc::SYS_kexec_load,
    KEXEC_FILE_LOAD,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_acct,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_syslog,
];

/// Calls that exist only on this architecture.
#[cfg(target_arch = "x86_64")]
pub(super) static DENIED_HERE: &[libc::c_long] =
    &[libc::SYS_mknod, libc::SYS_uselib, libc::SYS__sysctl, libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt];
/// Calls that exist only on this architecture.
#[cfg(not(target_arch = "x86_64"))]
pub(super) static DENIED_HERE: &[libc::c_long] = &[];

/// Since Linux 6.15; the number is the same on every architecture.
const OPEN_TREE_ATTR: libc::c_long = 467;

#[cfg(target_arch = "x86_64")]
const KEXEC_FILE_LOAD: libc::c_long = libc::SYS_kexec_file_load;
/// From `asm-generic/unistd.h`.
#[cfg(not(target_arch = "x86_64"))]
const KEXEC_FILE_LOAD: libc::c_long = 294;

/// The last call that was reviewed for this list, `file_setattr` of Linux 6.17. Later calls fail with ENOSYS, as on a
/// kernel that does not have them yet.
pub(super) const LAST: libc::c_long = 469;

/// Flags of `clone` that create a namespace. `CLONE_NEWTIME` is not among them because only `clone3` and `unshare`
/// support it.
pub(super) static NAMESPACES: &[libc::c_int] = &[
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// The socket families that are needed: for clients, LDAP and DNS; winbindd, NSS and administration; network
/// interfaces.
pub(super) static FAMILIES: &[libc::c_int] = &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// The types of files that `mknodat` may create: FIFOs and sockets, but not devices.
pub(super) static MADE: &[libc::mode_t] = &[libc::S_IFIFO, libc::S_IFSOCK];

/// Terminal requests that inject input: `TIOCSTI` and `TIOCLINUX`.
pub(super) static TYPING: &[u64] = &[0x5412, 0x541c];
