//! The limits on the resources that clients can use, with units and reasons.

use std::time::Duration;

use crate::accounting::{Bounds, Resource};
use crate::per_processor;

/// Maximum bytes kept of a logon's first token. A mechanism list has about 60, an NTLM NEGOTIATE about 40.
pub(crate) const LOGON_TOKEN_BYTES: usize = 1024;
/// Maximum number of removed names that are kept for tunneling. A program recreates its file before that many others
/// are deleted.
pub(crate) const TUNNELED_NAMES: usize = 256;
/// Maximum number of shares whose requests are counted on their own. Each takes 128 bytes for a processor.
pub(crate) const MAX_COUNTED_SHARES: usize = 256;
/// Maximum number of users whose ended sessions are remembered with the number of their requests.
pub(crate) const MAX_COUNTED_USERS: usize = 1024;
/// Maximum number of UTF-16 units in the name of a share that is added ([MS-SRVS] 3.1.4.7).
pub(crate) const SHARE_NAME_LIMIT: usize = 80;
/// Maximum number of UTF-16 units in the comment of a share that a client sets ([MS-SRVS] 3.1.4.7).
pub(crate) const SHARE_REMARK_LIMIT: usize = 48;
/// Maximum bytes of an RPC call's stub data.
pub(crate) const RPC_STUB_BYTES: usize = 64 * 1024;
/// Maximum bytes of stub data of an lsarpc call, which may have a list of SIDs to look up.
pub(crate) const RPC_LOOKUP_STUB_BYTES: usize = 1024 * 1024;
/// Maximum bytes of stub data of a spoolss call, in which a client sends an empty buffer for a whole list of jobs: that
/// of [`LISTED_JOBS_MAX`] jobs with titles of about 100 characters.
pub(crate) const RPC_PRINT_STUB_BYTES: usize = 4 << 20;
/// Maximum number of queues whose jobs are counted for one list of printers. Each may cost two questions.
pub(crate) const PRINTERS_WITH_JOBS_MAX: usize = 64;
/// Memory in bytes that a pipe may hold even if its user's bound is reached: a short call.
pub(crate) const PIPE_MINIMUM_BYTES: usize = 4096;
/// Maximum bytes of an LSA secret. Programs store passwords and keys, which have a few hundred.
pub(crate) const LSA_SECRET_BYTES: usize = 4096;
/// Maximum number of UTF-16 units in the name of an LSA secret ([MS-LSAD] 3.1.1.4).
pub(crate) const LSA_SECRET_NAME_LIMIT: usize = 128;
/// Maximum number of RPC context handles of one pipe. Clients use a few and close them.
pub(crate) const HANDLES_PER_PIPE: usize = 64;
/// Maximum number of positions in an enumeration that are stored for a samr handle.
pub(crate) const POSITIONS_PER_HANDLE: usize = 32;
/// Maximum number of entries in one response of a samr enumeration, whatever its size limit.
pub(crate) const ENTRIES_PER_SAMR_LIST: usize = 1000;
/// Maximum number of group members that samr returns, which gives a response of half a megabyte.
pub(crate) const SAMR_GROUP_MEMBERS: usize = 65_536;
/// Maximum number of password changes that wait for a key that takes long to make. One is made at a time.
pub(crate) const KEY_DERIVATIONS: usize = 16;
/// Maximum bytes of an NTLM NEGOTIATE in an RPC bind, which is stored until the third PDU.
pub(crate) const PIPE_NEGOTIATE_BYTES: usize = 1024;
/// Maximum number of users of one ACL whose groups are looked up. It suffices for ACLs written by people, and bounds
/// the time if each lookup is a query to an LDAP server.
pub(crate) const USERS_LOOKED_UP_PER_ACL: usize = 64;
/// Maximum number of descriptors queued for write-back. Each keeps a file descriptor open. Beyond it descriptors are
/// only cached, and are queued again after the cache has evicted them.
pub(crate) const QUEUED_WRITE_BACKS: usize = 256;
/// Maximum bytes of the attribute values of a cached initial ACL.
pub(crate) const CACHED_INITIAL_ACL_BYTES: usize = 4096;
/// Maximum number of cached initial ACLs, in addition to the cache's size limit: enough for a few users who write to a
/// few directories.
pub(crate) const CACHED_INITIAL_ACLS: usize = 16;
/// Maximum size in bytes of the results of the access checks of one watch. Beyond it, all are discarded.
pub(crate) const NOTIFY_ACCESS_RESULTS: usize = 128 * 1024;
/// Maximum size in bytes of changes that wait for an access check of a watch, if the client's buffer is smaller.
pub(crate) const NOTIFY_WAITING_CHANGES: usize = 64 * 1024;
/// Maximum number of recycle bins from which old files are deleted. There may be one for each user. Each takes about
/// 500 bytes.
pub(crate) const RECYCLE_BINS: usize = 65_536;
/// Maximum bytes of the audit lines that wait for one destination. It suffices for ten seconds of 2,000 operations a
/// second. Lines beyond it are lost, and counted. Requests are refused from half of it on, if that is configured.
pub(crate) const AUDIT_QUEUE_BYTES: usize = 8 << 20;
/// Maximum number of dialects that a client may offer. There are five.
pub(crate) const DIALECTS: usize = 64;
/// The longest part of a name in the record of a logon, in characters. A name of a Windows user has at most 256.
pub(crate) const AUDITED_NAME: usize = 256;
/// The longest text of a security descriptor in the audit in bytes. Longer ones are cut.
pub(crate) const AUDITED_DESCRIPTOR: usize = 64 << 10;
/// The longest text of a path in the audit in bytes: 32,760 units of UTF-16 with at most three bytes of UTF-8 each.
pub(crate) const AUDITED_PATH: usize = 3 * 32_760;
/// Maximum number of audit lines that the writer of a destination takes at once.
pub(crate) const AUDIT_BATCH: usize = 1024;
/// Maximum number of targets of one DFS link in a referral. Few servers hold the same files.
pub(crate) const DFS_TARGETS_MAX: usize = 64;
/// Maximum number of symbolic links that are followed to find a DFS link. Linux follows as many in one path.
pub(crate) const LINKS_TO_DFS_LINK_MAX: usize = 40;
/// Maximum number of volumes of one share that are being opened. The path of a share can depend on what a client sends,
/// and each volume on a file system that hangs occupies a thread.
pub const VOLUMES_BEING_OPENED: usize = 64;

/// Maximum number of characters of the title of a print job. CUPS takes 255 bytes (`name` of IPP).
pub const JOB_TITLE_MAX: usize = 127;

/// Maximum number of parts of a print job that were written while those between are missing. A client has few requests
/// in flight.
pub(crate) const JOB_PARTS_MAX: usize = 1024;

/// Maximum number of directories of print shares that are remembered as free of the files of former jobs.
pub(crate) const SPOOL_DIRECTORIES_MAX: usize = 4_096;

/// Maximum number of jobs of one queue that are read from the print system.
pub const LISTED_JOBS_MAX: usize = 10_000;

/// Maximum number of users and groups whose quotas one request may name. Each takes a look-up of an account.
pub(crate) const QUOTA_SIDS_MAX: usize = 256;

/// Quotas that one request of an enumeration returns at most. The client asks again for the next ones.
pub(crate) const QUOTAS_PER_REQUEST: usize = 128;

/// Maximum number of queues of the print system.
pub const QUEUES_MAX: usize = 4_096;

/// Bytes of the name of a snapshot that a regular expression is matched against. It is the length of a file name.
pub const SNAPSHOT_NAME_MAX: usize = 255;

/// Names of snapshots that are remembered by their times. Each takes at most 400 bytes.
pub const SNAPSHOT_NAMES_MAX: usize = 4_096;

/// Snapshots of the same time that are tried for an open.
pub const SNAPSHOT_TWINS_MAX: usize = 8;

/// Snapshots of one directory that are found automatically. The names beyond it in the directory are ignored.
pub(crate) const FOUND_SNAPSHOTS_MAX: usize = 16_384;

/// Snapshots of snapper in one directory whose descriptions are read, those with the highest numbers.
pub(crate) const SNAPPER_SNAPSHOTS_MAX: usize = 4_096;

/// Names in a directory of snapshots that are looked at.
pub(crate) const SNAPSHOT_ENTRIES_MAX: usize = 65_536;

/// Directories whose snapshots are remembered, and the snapshots in all of them together.
pub(crate) const SNAPSHOT_CATALOGUES_MAX: (usize, usize) = (256, 131_072);

/// Snapshots of one period that a schedule can keep.
pub(crate) const KEPT_SNAPSHOTS_MAX: u32 = 10_000;

/// Bytes of the description of a snapshot (`info.xml` of snapper) that are read. A longer one is ignored.
pub(crate) const SNAPSHOT_INFO_MAX: usize = 16_384;

/// The limits of one server. Beyond a limit requests are refused and what was granted before stays valid, unless the
/// field specifies otherwise.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Memory in bytes that the whole server may use (`frevo:memory limit`). It bounds the memory used for clients,
    /// after the program's own needs are subtracted.
    pub memory: usize,
    /// Connections in total (`max smbd processes`; 0 there means this default). Each takes a file descriptor.
    pub connections: usize,
    /// Connections from one address (or /64), so that one client cannot take them all.
    pub connections_per_address: usize,
    /// How long a connection may exist without an authenticated session, because half-open logons are the cheapest
    /// attack.
    pub logon_time: Duration,
    /// How long a connection may exist with anonymous sessions only. It suffices for browsing a server.
    pub anonymous_time: Duration,
    /// How long a client may not accept responses, or leave a request incomplete, before its connection is closed.
    pub stall_time: Duration,
    /// Minimum rate of an incoming request in bytes per second. A large request may take longer than `stall_time`.
    pub slowest_request: usize,
    /// Connections without an authenticated session. Beyond it, the oldest one of the address with most of them is
    /// closed (`unauthenticated`).
    pub unauthenticated: usize,
    /// Such connections of one address (or /64). Beyond it, the oldest one is closed.
    pub unauthenticated_per_address: usize,
    /// Logons in progress on one connection; the same number of sessions may be in the course of being bound to it.
    /// Beyond it, the oldest one of its kind is aborted.
    pub logons_per_connection: usize,
    /// As `logons_per_connection`, before a user has logged on.
    pub logons_before_logon: usize,
    /// Failed logons of one connection whose responses are delayed (`logon_throttle`).
    pub failed_logons_per_connection: usize,
    /// Memory in bytes of all failed logons whose responses are delayed: 4 KiB each and the request.
    pub failed_logon_bytes: usize,
    /// Sessions on one connection.
    pub sessions_per_connection: usize,
    /// Channels of one session. Few are needed, because opens survive the loss of all but the last channel. Windows has
    /// 32.
    pub channels_per_session: usize,
    /// Sessions of the whole server.
    pub sessions: usize,
    /// Tree connects of one session.
    pub trees_per_session: usize,
    /// Tree connects of the whole server.
    pub trees: usize,
    /// Opens of one session. smbtorture's maxfid opens 65,520.
    pub opens_per_session: usize,
    /// Opens of the whole server (`max open files` limits it further, by file descriptors).
    pub opens: usize,
    /// Opens of the whole server without a connection. Each keeps a file descriptor for a client that may never return.
    pub detached_opens: usize,
    /// Open pipes of the whole server.
    pub pipes: usize,
    /// Open pipes of one session.
    pub pipes_per_session: usize,
    /// Open pipes of one anonymous session.
    pub pipes_per_anonymous_session: usize,
    /// Frames of one connection that are executed concurrently.
    pub in_flight: usize,
    /// Bytes of those frames and of their longest possible responses, before reading from the connection pauses.
    pub in_flight_bytes: usize,
    /// Byte-range locks of the whole server, including waiting requests.
    pub locks: usize,
    /// Byte-range locks of one open, including waiting requests.
    pub locks_per_open: usize,
    /// Byte-range locks of one file. Each takes about 300 bytes here. In the kernel (`posix locking`) they form a list
    /// that is scanned for each new one.
    pub locks_per_file: usize,
    /// Requests that wait for byte-range locks of one file. When one of them is granted, the others that waited for the
    /// same lock are reconsidered.
    pub lock_waiters_per_file: usize,
    /// Ranges of one LOCK request. Windows sends one, Linux at most 170 (a page).
    pub ranges_per_lock: usize,
    /// Requests of one connection that wait asynchronously ([MS-SMB2] 3.3.1.7). Each takes memory.
    pub pending_per_connection: usize,
    /// Directories watched by CHANGE_NOTIFY. Each watch takes memory until its handle is closed.
    pub watches: usize,
    /// Bytes of changes that all watches together keep for later requests. Beyond it, clients get
    /// STATUS_NOTIFY_ENUM_DIR.
    pub watch_bytes: usize,
    /// Bytes of changes that one watch keeps, however large the client's buffer. Windows servers allow at most 65,536
    /// ([MS-SMB2] 3.3.5.19, <411>).
    pub bytes_per_watch: usize,
    /// Bytes of one frame: the largest write with its headers, and space for a compound.
    pub frame: usize,
    /// Bytes of one frame before a user has logged on. A NEGOTIATE or a token is far smaller.
    pub frame_before_logon: usize,
    /// Bytes of one frame of responses. Longer responses to a compound are split into several frames. The largest READ
    /// fits in one; the transport's limit is 16 MiB ([MS-SMB2] 2.1).
    pub response_frame: usize,
    /// Bytes of responses queued for one connection, beyond which reading from it pauses.
    pub backlog: usize,
    /// As `backlog`, before a user has logged on.
    pub backlog_before_logon: usize,
    /// ECHO requests of a connection before a user has logged on. A monitor needs one.
    pub echoes_before_logon: u32,
    /// Bytes of incomplete calls and unread results that all pipes together hold. Beyond it, a pipe accepts only what a
    /// short call needs.
    pub pipe_bytes: usize,
    /// Bytes of calls that one pipe buffers before they are executed.
    pub pipe_input: usize,
    /// Results of one pipe that the client has not read. Each takes memory.
    pub pipe_answers: usize,
    /// Presentation contexts of one pipe. Each bind searches them.
    pub pipe_contexts: usize,
    /// Elements of one compound chain.
    pub chain: usize,
    /// Previous versions listed for a client. The list is one response; each takes 50 bytes of it.
    pub snapshots: usize,
    /// Tokens of offloaded copies. Each takes about 150 bytes.
    pub offload_tokens: usize,
    /// Tokens of one open. Beyond it, the oldest one is discarded. A copy needs one at a time.
    pub offload_tokens_per_open: usize,
    /// Lifetime of a token. A copy writes what it has read at once.
    pub offload_token_life: Duration,
    /// Print jobs of the whole server that are not handed over to the print system yet.
    pub print_jobs: usize,
    /// KiB that the files of these jobs take. As for other resources, one user may take half of what is free.
    pub spool_space: usize,
    /// Bytes of one print job.
    pub print_job: u64,
    /// Size in bytes of the cache of security descriptors (`frevo:acl cache`); 0 disables it. An entry takes about 300
    /// bytes, and most files of a tree share a descriptor. Read only when the server starts.
    pub descriptor_bytes: usize,
    /// Directory entries read ahead for one listing handle.
    pub listing_batch: usize,
    /// Worker threads of one file system, for each of its two kinds of work (`frevo:worker threads`). One user occupies
    /// at most a quarter of them.
    pub worker_threads: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            memory: 1 << 30,
            connections: 65_536,
            connections_per_address: 16_384,
            logon_time: Duration::from_secs(30),
            anonymous_time: Duration::from_secs(120),
            stall_time: Duration::from_secs(60),
            slowest_request: 16 * 1024,
            unauthenticated: 4_096,
            unauthenticated_per_address: 1_024,
            logons_per_connection: 64,
            logons_before_logon: 8,
            failed_logons_per_connection: 16,
            failed_logon_bytes: 32 << 20,
            sessions_per_connection: 1_024,
            channels_per_session: 32,
            sessions: 262_144,
            trees_per_session: 1_024,
            trees: 1_048_576,
            opens_per_session: 65_536,
            opens: 1_048_576,
            detached_opens: 16_384,
            pipes: 65_536,
            pipes_per_session: 256,
            pipes_per_anonymous_session: 16,
            in_flight: 1_024,
            in_flight_bytes: 64 << 20,
            locks: 4_194_304,
            locks_per_open: 8_192,
            locks_per_file: 16_384,
            lock_waiters_per_file: 1_024,
            ranges_per_lock: 256,
            pending_per_connection: 512,
            watches: 65_536,
            watch_bytes: 64 << 20,
            bytes_per_watch: 512 * 1024,
            frame: 8 * 1024 * 1024 + 128 * 1024,
            frame_before_logon: 128 * 1024,
            response_frame: 8 * 1024 * 1024 + 512 * 1024,
            backlog: 4 << 20,
            backlog_before_logon: 64 * 1024,
            echoes_before_logon: 16,
            pipe_bytes: 64 << 20,
            pipe_input: 1 << 20,
            pipe_answers: 64,
            pipe_contexts: 64,
            chain: 256,
            snapshots: 16_384,
            offload_tokens: 16_384,
            offload_tokens_per_open: 16,
            offload_token_life: Duration::from_secs(60),
            print_jobs: 4_096,
            spool_space: 64 << 20,
            print_job: 8 << 30,
            descriptor_bytes: 32 << 20,
            listing_batch: 512,
            worker_threads: 48,
        }
    }
}

/// Memory in bytes that the program needs without clients: itself and its threads.
const PROGRAM: usize = 32 << 20;
/// The most bytes of free buffers of one kind that a processor keeps: three for the largest requests.
const KEPT_BY_PROCESSOR: usize = 32 << 20;

/// Limits of byte-range locks and waiting requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockBounds {
    /// Locks and waiting requests of one open.
    pub per_open: usize,
    /// Locks of one file.
    pub per_file: usize,
    /// Waiting requests of one file.
    pub waiting: usize,
}

impl Limits {
    /// Minimum of `memory`. With less, a user's fair share would not suffice for the largest READ.
    pub const LEAST_MEMORY: usize = 128 << 20;

    /// Returns the memory in bytes that the file systems may use for indexes of names in directories, for
    /// case-insensitive lookups.
    pub fn index_bytes(&self) -> usize {
        self.memory / 8
    }

    /// Returns the memory in bytes of free buffers that are kept for the next responses. As much is kept for requests.
    pub fn kept_buffers(&self) -> usize {
        (self.memory / 32).min(per_processor::count().saturating_mul(KEPT_BY_PROCESSOR))
    }

    /// Returns the bounds of the resources used by all clients together.
    pub fn bounds(&self) -> Bounds {
        // If the limit is small, at most half of it is reserved for the program.
        let own = PROGRAM + 2 * self.kept_buffers() + self.descriptor_bytes + self.index_bytes();
        let own = own.min(self.memory / 2);
        Bounds::of_memory(self.memory - own)
            .with(Resource::Connections, self.connections)
            .with(Resource::Sessions, self.sessions)
            .with(Resource::TreeConnects, self.trees)
            .with(Resource::Opens, self.opens)
            .with(Resource::DetachedOpens, self.detached_opens)
            .with(Resource::Pipes, self.pipes)
            .with(Resource::Locks, self.locks)
            .with(Resource::Watches, self.watches)
            .with(Resource::Changes, self.watch_bytes)
            .with(Resource::PipeData, self.pipe_bytes)
            .with(Resource::Logons, self.failed_logon_bytes)
            .with(Resource::OffloadTokens, self.offload_tokens)
            .with(Resource::PrintJobs, self.print_jobs)
            .with(Resource::SpoolSpace, self.spool_space)
    }

    /// Returns the bounds of the byte-range locks of a file.
    pub(crate) fn locks(&self) -> LockBounds {
        LockBounds { per_open: self.locks_per_open, per_file: self.locks_per_file, waiting: self.lock_waiters_per_file }
    }

    /// Reduces the limits of what takes a file descriptor each to fit `descriptors`, the limit of the process. Some are
    /// reserved for the program, at most a quarter is for connections, and an open may temporarily need two.
    pub fn fit_descriptors(&mut self, descriptors: usize) {
        let rest = descriptors.saturating_sub(OWN_DESCRIPTORS.min(descriptors / 4));
        self.connections = self.connections.min(rest / 4).max(1);
        self.opens = self.opens.min((rest - self.connections.min(rest)) / 10 * 9).max(1);
        self.detached_opens = self.detached_opens.min(self.opens / 4);
        // Each may have a file and a connection to the print system.
        self.print_jobs = self.print_jobs.min(self.opens / 8).max(1);
    }
}

/// The largest band of a bundle that is counted, that of hdiutil, so that a wrong description cannot make a share look
/// full.
pub(crate) const LARGEST_BAND_LIMIT: u64 = 8 << 30;

/// The most entries of a share for Time Machine and of its bundles that are counted.
pub(crate) const BUNDLE_ENTRIES_LIMIT: u64 = 1 << 24;

/// The most bundles of Time Machine whose bands are remembered.
pub(crate) const BUNDLES_LIMIT: usize = 1024;

/// The most bytes of Finder info with extended attributes in an AppleDouble file that is converted.
pub(crate) const LONGEST_CONVERTED: usize = 1 << 20;

/// The most files that are remembered to have no Finder info, so that listings for Macs do not look for it again.
pub(crate) const LISTED_WITHOUT_FINDER_INFO_LIMIT: usize = 65_536;

/// The most names of a directory that are read before the first answer to a Mac, so that only the existing AppleDouble
/// files are looked up, and the most bytes that those files' names take. Otherwise that of each entry is looked up.
pub(crate) const NAMES_READ_FOR_DOUBLES: usize = 131_072;
pub(crate) const BYTES_OF_DOUBLES: usize = 1 << 20;

/// The most directories that are remembered to have no AppleDouble files, so that their names are not read for that.
pub(crate) const DIRECTORIES_WITHOUT_DOUBLES_LIMIT: usize = 16_384;

/// The most vetoed names that are removed with a directory, and how deep vetoed directories in it may be.
pub(crate) const VETOED_NAMES_LIMIT: usize = 16_384;
pub(crate) const VETOED_DEPTH_LIMIT: usize = 32;

/// The most AppleDouble files that are remembered not to be convertible, so that they are not read again.
pub(crate) const UNCONVERTED_LIMIT: usize = 16_384;

/// File descriptors for the program itself: the log, the control socket, state, accounts, and directories that are kept
/// open.
const OWN_DESCRIPTORS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_of_the_process_bound_connections_and_opens() {
        for (descriptors, connections, opens) in
            [(1024, 192, 513), (20_000, 4_744, 12_807), (1_048_576, 65_536, 883_809), (1 << 30, 65_536, 1_048_576)]
        {
            let mut limits = Limits::default();
            limits.fit_descriptors(descriptors);
            assert_eq!((limits.connections, limits.opens), (connections, opens), "{descriptors}");
            assert!(limits.connections + limits.opens < descriptors);
        }
    }
}
