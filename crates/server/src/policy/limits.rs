//! Every limit on what clients can make the server hold, with its unit and its reason.

use std::time::Duration;

use crate::accounting::{Bounds, Resource};
use crate::files::byte_lock;

/// The limits of one server. All are hard: past them a request is refused, nothing already granted is harmed.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of memory that the whole server may use (`frevo:memory limit`). What clients make it hold is bounded by it, less
    /// what the program itself needs.
    pub memory: usize,
    /// Connections in all (`max smbd processes`; 0 there means this default). Each costs a descriptor.
    pub connections: usize,
    /// Connections from one address (of a /64): one client cannot take them all.
    pub connections_per_address: usize,
    /// How long a connection may exist without an authenticated session: half-open logons are the cheapest attack.
    pub logon_time: Duration,
    /// How long a connection may exist with anonymous sessions only: enough to browse a server.
    pub anonymous_time: Duration,
    /// How long a client may take none of its responses, or leave a request incomplete, before its connection ends.
    pub stall_time: Duration,
    /// The slowest that a request may arrive, in bytes a second; a large one may take longer than `stall_time`.
    pub slowest_request: usize,
    /// Connections on which nobody has logged on yet; past it the oldest of the address that has most of them goes
    /// (`newcomers`).
    pub newcomers: usize,
    /// Those of one address (of a /64); past it its oldest goes.
    pub newcomers_per_address: usize,
    /// Logons of one connection that are under way; past it the oldest ends.
    pub logons_per_connection: usize,
    /// The same before a user has logged on.
    pub logons_before_logon: usize,
    /// Failed logons of one connection whose answers wait (`guesses`).
    pub failed_logons_per_connection: usize,
    /// Bytes that all failed logons hold while their answers wait: 4 KiB each and the request.
    pub failed_logon_bytes: usize,
    /// Sessions on one connection.
    pub sessions_per_connection: usize,
    /// Channels of one session: what is open outlives each of them but the last, so nobody needs many. Windows has 32.
    pub channels_per_session: usize,
    /// Sessions of the whole server.
    pub sessions: usize,
    /// Tree connects of one session.
    pub trees_per_session: usize,
    /// Tree connects of the whole server.
    pub trees: usize,
    /// Opens of one session. smbtorture's maxfid opens 65,520.
    pub opens_per_session: usize,
    /// Opens of the whole server (`max open files` bounds it further by descriptors).
    pub opens: usize,
    /// Opens of the whole server that outlived their connection: each keeps a descriptor for a client that may be gone.
    pub detached_opens: usize,
    /// Open pipes of the whole server.
    pub pipes: usize,
    /// Open pipes of one session.
    pub pipes_per_session: usize,
    /// Open pipes of one anonymous session.
    pub pipes_per_anonymous_session: usize,
    /// Frames of one connection that are executed at the same time.
    pub in_flight: usize,
    /// Bytes that those hold, and that their longest responses may have, before the connection is read from again.
    pub in_flight_bytes: usize,
    /// Byte-range locks of the whole server, requests that wait included.
    pub locks: usize,
    /// Byte-range locks of one open, waiting requests included.
    pub locks_per_open: usize,
    /// Byte-range locks of one file. Each takes about 300 bytes here; in the kernel (`posix locking`) all are in a list,
    /// which each new one goes through.
    pub locks_per_file: usize,
    /// Requests that wait for a byte-range lock of one file: when one is granted its lock, the others that waited for the
    /// same are looked at.
    pub lock_waiters_per_file: usize,
    /// Ranges of one LOCK request. Windows sends one, Linux at most 170 (a page).
    pub ranges_per_lock: usize,
    /// Requests of one connection that wait asynchronously ([MS-SMB2] 3.3.1.7: each holds memory).
    pub pending_per_connection: usize,
    /// Directories that are watched by CHANGE_NOTIFY: each handle's watch costs memory for as long as it is open.
    pub watches: usize,
    /// Bytes of changes that all watches together keep for requests to come; past it, clients are told to read the
    /// directory again.
    pub watch_bytes: usize,
    /// Bytes of changes that one of them keeps, however large the client's buffer: Windows servers let nobody have more
    /// than 65,536 ([MS-SMB2] 3.3.5.19, <411>).
    pub bytes_per_watch: usize,
    /// Bytes of one frame: the largest write with its headers, and room for a compound.
    pub frame: usize,
    /// Bytes of one frame before a user has logged on: a NEGOTIATE or a token is far smaller.
    pub frame_before_logon: usize,
    /// Bytes of one frame of responses. A chain whose responses are longer is answered in several frames. The largest READ
    /// fits in one; the transport's limit is 16 MiB ([MS-SMB2] 2.1).
    pub response_frame: usize,
    /// Bytes of responses that wait for one connection before it is read from again.
    pub backlog: usize,
    /// The same before a user has logged on.
    pub backlog_before_logon: usize,
    /// ECHO requests of a connection before a user has logged on: a monitor needs one.
    pub echoes_before_logon: u32,
    /// Bytes that all pipes together hold of calls that have not come whole and of answers that nobody has read; past it,
    /// a pipe takes what a short call needs and no more.
    pub pipe_bytes: usize,
    /// Bytes of calls that one pipe holds before they are executed.
    pub pipe_input: usize,
    /// Answers of one pipe that the client has not read; each keeps its results.
    pub pipe_answers: usize,
    /// Presentation contexts of one pipe: each bind looks through them.
    pub pipe_contexts: usize,
    /// Elements of one compound chain.
    pub chain: usize,
    /// Previous versions that a client is told of. The list is one response; each takes 50 bytes of it.
    pub snapshots: usize,
    /// Tokens of offloaded copies: each keeps about 150 bytes.
    pub offload_tokens: usize,
    /// Those of one open; past it the oldest goes. A copy needs one at a time.
    pub offload_tokens_per_open: usize,
    /// How long a token is good: a copy writes what it has read at once.
    pub offload_token_life: Duration,
    /// Bytes that are kept of what protects files (`frevo:acl cache`); 0 keeps nothing. An entry takes about 300, and most
    /// files of a tree share a descriptor. Set once, when the server starts.
    pub descriptor_bytes: usize,
    /// Directory entries read ahead for one listing handle.
    pub listing_batch: usize,
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
            newcomers: 4_096,
            newcomers_per_address: 1_024,
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
            backlog: 16 << 20,
            backlog_before_logon: 64 * 1024,
            echoes_before_logon: 16,
            pipe_bytes: 64 << 20,
            pipe_input: 1 << 20,
            pipe_answers: 64,
            pipe_contexts: 64,
            chain: 256,
            snapshots: 8_192,
            offload_tokens: 16_384,
            offload_tokens_per_open: 16,
            offload_token_life: Duration::from_secs(60),
            descriptor_bytes: 32 << 20,
            listing_batch: 512,
        }
    }
}

/// Memory that the program needs without any client: itself, its threads, and buffers kept for the next request.
const PROGRAM: usize = 96 << 20;

impl Limits {
    /// The least that `memory` may be: with less, a user's share would not hold the largest READ.
    pub const LEAST_MEMORY: usize = 128 << 20;

    /// Bytes that the file systems may keep of names in directories, to find them whatever their case.
    pub fn index_bytes(&self) -> usize {
        self.memory / 8
    }

    /// The bounds of what all clients together make the server hold.
    pub fn bounds(&self) -> Bounds {
        // A small limit is shared with the program as well as it can be.
        let own = (PROGRAM + self.descriptor_bytes + self.index_bytes()).min(self.memory / 2);
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
    }

    /// Those on the byte-range locks of a file.
    pub(crate) fn locks(&self) -> byte_lock::Bounds {
        byte_lock::Bounds {
            per_open: self.locks_per_open,
            per_file: self.locks_per_file,
            waiting: self.lock_waiters_per_file,
        }
    }

    /// Lowers what takes a descriptor each to what `descriptors` of the process allow. Some are left for the program, a
    /// quarter at most goes to connections, and an open may need two for a moment.
    pub fn fit_descriptors(&mut self, descriptors: usize) {
        let rest = descriptors.saturating_sub(OWN_DESCRIPTORS.min(descriptors / 4));
        self.connections = self.connections.min(rest / 4).max(1);
        self.opens = self.opens.min((rest - self.connections.min(rest)) / 10 * 9).max(1);
        self.detached_opens = self.detached_opens.min(self.opens / 4);
    }
}

/// Descriptors for the program itself: the log, the control socket, state, accounts, directories that are kept open.
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
