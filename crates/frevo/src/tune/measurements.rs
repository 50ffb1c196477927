//! The measurements. Times are in seconds, sizes in bytes, rates per second.

use serde::Serialize;

/// Everything that was measured or read on this host.
#[derive(Clone, Serialize, Default, Debug)]
pub(super) struct Measurements {
    pub(super) host: Host,
    pub(super) network: Network,
    pub(super) cryptography: Vec<Speed>,
    pub(super) storage: Storage,
    /// The ACL lengths for which storing converted descriptors pays off, in the syntax of `frevo:acl store`; `None` if
    /// it was not measured.
    pub(super) acl_store: Option<String>,
}

/// Processors, memory and limits.
#[derive(Clone, Serialize, Default, Debug)]
pub(super) struct Host {
    pub(super) processor: String,
    pub(super) cores: u32,
    /// Memory of the machine, or of the cgroup if that has less.
    pub(super) memory: u64,
    /// Hard limit of this process on file descriptors.
    pub(super) descriptors: u64,
    /// The same limit of the running service; `None` if systemd runs no service frevo.
    pub(super) descriptors_of_service: Option<u64>,
    /// `fs.inotify.max_user_watches`.
    pub(super) watches: Option<u64>,
    /// Time to wake a thread on an idle processor; `None` if there is one processor only.
    pub(super) wake_up: Option<f64>,
    /// `guest_halt_poll_ns`: for how long an idle processor of a virtual machine looks for work before it halts, in
    /// nanoseconds; `None` if `haltpoll` does not decide that.
    pub(super) halt_polling: Option<u64>,
}

/// Links and kernel settings of TCP.
#[derive(Clone, Serialize, Default, Debug)]
pub(super) struct Network {
    pub(super) links: Vec<Link>,
    /// The round-trip time for which buffers are computed, as given on the command line.
    pub(super) round_trip: f64,
    /// `net.ipv4.tcp_rmem`: minimum, initial and maximum size of a receive buffer.
    pub(super) receive_buffer: Option<[u64; 3]>,
    /// `net.ipv4.tcp_wmem`.
    pub(super) send_buffer: Option<[u64; 3]>,
    /// `net.core.rmem_max`: the largest `SO_RCVBUF`.
    pub(super) largest_receive_option: Option<u64>,
    /// `net.core.wmem_max`: the largest `SO_SNDBUF`.
    pub(super) largest_send_option: Option<u64>,
    /// `net.core.somaxconn`.
    pub(super) backlog: Option<u64>,
    /// `net.ipv4.tcp_window_scaling`.
    pub(super) window_scaling: Option<bool>,
    /// `net.ipv4.tcp_moderate_rcvbuf`.
    pub(super) receive_autotuning: Option<bool>,
    /// Bytes per second of one connection on the loopback interface.
    pub(super) loopback: Option<f64>,
    /// The same with the buffers of `socket options`, if it sets any.
    pub(super) loopback_with_options: Option<f64>,
}

/// A network interface that serves clients.
#[derive(Clone, Serialize, Default, Debug)]
pub(super) struct Link {
    pub(super) name: String,
    /// Bits per second; `None` if the driver does not report it.
    pub(super) speed: Option<u64>,
    pub(super) mtu: Option<u64>,
    /// Whether it is a device, and not a bridge or another interface of the kernel.
    pub(super) is_device: bool,
    pub(super) receive_queues: usize,
}

/// The speed of one core.
#[derive(Clone, Serialize, Debug)]
pub(super) struct Speed {
    /// The name in smb.conf.
    pub(super) algorithm: &'static str,
    pub(super) bytes_per_second: f64,
}

/// The file system of the share.
#[derive(Clone, Serialize, Default, Debug)]
pub(super) struct Storage {
    /// Type, source and options of the mount.
    pub(super) file_system: String,
    pub(super) create: f64,
    pub(super) stat: f64,
    pub(super) remove: f64,
    /// Time per name of reading a directory.
    pub(super) list_per_name: f64,
    pub(super) attributes: Attributes,
    /// Sequential, including the time until the data is on disk.
    pub(super) write_rate: f64,
    /// Sequential.
    pub(super) read_rate: f64,
    /// Whether the reads bypassed the kernel's cache.
    pub(super) reads_bypass_cache: bool,
    /// Random reads of 4 KiB.
    pub(super) random_reads: Vec<Concurrent>,
    pub(super) flush: Flush,
    pub(super) features: Features,
}

/// Extended attributes.
#[derive(Clone, Serialize, Default, Debug)]
pub(super) struct Attributes {
    /// Time to set and to get an attribute of 100 bytes; `None` if the file system has no `user.` attributes.
    pub(super) set: Option<f64>,
    pub(super) get: Option<f64>,
    /// Largest value that a file can have; at most 64 KiB in Linux.
    pub(super) largest: usize,
    /// Whether this process can set `security.` attributes.
    pub(super) security: bool,
    /// Whether files can have POSIX ACLs.
    pub(super) posix_acls: bool,
}

/// Operations per second of several threads.
#[derive(Clone, Copy, Serialize, Default, PartialEq, Debug)]
pub(super) struct Concurrent {
    pub(super) threads: usize,
    pub(super) per_second: f64,
}

/// Flushes of 4 KiB each.
#[derive(Clone, Serialize, Default, Debug)]
pub(super) struct Flush {
    pub(super) median: f64,
    pub(super) worst: f64,
    /// Flushes of eight files at the same time.
    pub(super) eight_threads: Concurrent,
}

/// What the file system can do.
#[derive(Clone, Serialize, Default, Debug)]
pub(super) struct Features {
    /// Files can share blocks.
    pub(super) clones: bool,
    /// Rate of copies in the kernel.
    pub(super) copy_rate: Option<f64>,
    /// Space can be reserved.
    pub(super) preallocates: bool,
    /// The kernel reports changes by local programs.
    pub(super) notifies: bool,
}

impl Storage {
    /// Returns the type of the file system.
    pub(super) fn kind(&self) -> &str {
        self.file_system.split(' ').next().unwrap_or_default()
    }

    /// Whether another machine can change the files.
    pub(super) fn is_remote(&self) -> bool {
        let kind = self.kind();
        kind.starts_with("fuse")
            || ["nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "glusterfs", "virtiofs"].contains(&kind)
    }

    /// Returns the smallest number of threads with at least nine tenths of the highest rate of random reads.
    pub(super) fn knee(&self) -> Option<Concurrent> {
        let highest = self.random_reads.iter().map(|it| it.per_second).reduce(f64::max)?;
        self.random_reads.iter().copied().find(|it| it.per_second >= 0.9 * highest)
    }

    /// Returns the highest rate of random reads with at most `threads` threads.
    pub(super) fn reads_with(&self, threads: usize) -> Option<Concurrent> {
        let possible = self.random_reads.iter().copied().filter(|it| it.threads <= threads);
        possible.max_by(|a, b| a.per_second.total_cmp(&b.per_second))
    }
}

impl Measurements {
    /// Returns the speed of an algorithm.
    pub(super) fn speed(&self, algorithm: &str) -> Option<f64> {
        self.cryptography.iter().find(|it| it.algorithm == algorithm).map(|it| it.bytes_per_second)
    }
}
