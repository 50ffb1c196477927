//! Every limit on what clients can make the server hold, with its unit and its reason.

use std::time::Duration;

/// The limits of one server. All are hard: past them a request is refused, nothing already granted is harmed.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections in all (`max smbd processes`; 0 there means this default). Each costs a descriptor.
    pub connections: usize,
    /// Connections from one address (of a /64): one client cannot take them all.
    pub connections_per_address: usize,
    /// How long a connection may exist without an authenticated session: half-open logons are the cheapest attack.
    pub logon_time: Duration,
    /// Connections on which nobody has logged on yet; past it the oldest of the address that has most of them goes
    /// (`newcomers`).
    pub newcomers: usize,
    /// Those of one address (of a /64); past it its oldest goes.
    pub newcomers_per_address: usize,
    /// Logons of one connection that are under way; past it the oldest ends.
    pub logons_per_connection: usize,
    /// Failed logons of one connection whose answers wait (`guesses`).
    pub failed_logons_per_connection: usize,
    /// Bytes that all failed logons hold while their answers wait: 4 KiB each and the request.
    pub failed_logon_bytes: usize,
    /// Sessions on one connection.
    pub sessions_per_connection: usize,
    /// Channels of one session: what is open outlives each of them but the last, so nobody needs many. Windows has 32.
    pub channels_per_session: usize,
    /// Tree connects of one session.
    pub trees_per_session: usize,
    /// Opens of one session. smbtorture's maxfid opens 65,520.
    pub opens_per_session: usize,
    /// Opens of the whole server (`max open files` bounds it further by descriptors).
    pub opens: usize,
    /// Opens of the whole server that outlived their connection: each keeps a descriptor for a client that may be gone.
    pub detached_opens: usize,
    /// Byte-range locks of one open, waiting requests included: each look at a file's locks looks at all of them.
    pub locks_per_open: usize,
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
    /// Bytes of one frame while nobody is logged on: a NEGOTIATE or a token is far smaller, and strangers get no more.
    pub frame_before_logon: usize,
    /// Bytes that all pipes together hold of calls that have not come whole and of answers that nobody has read; past it,
    /// a pipe takes what a short call needs and no more.
    pub pipe_bytes: usize,
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
            connections: 65_536,
            connections_per_address: 16_384,
            logon_time: Duration::from_secs(30),
            newcomers: 4_096,
            newcomers_per_address: 1_024,
            logons_per_connection: 64,
            failed_logons_per_connection: 16,
            failed_logon_bytes: 32 << 20,
            sessions_per_connection: 1_024,
            channels_per_session: 32,
            trees_per_session: 1_024,
            opens_per_session: 65_536,
            opens: 1_048_576,
            detached_opens: 16_384,
            locks_per_open: 8_192,
            pending_per_connection: 512,
            watches: 65_536,
            watch_bytes: 64 << 20,
            bytes_per_watch: 512 * 1024,
            frame: 8 * 1024 * 1024 + 128 * 1024,
            frame_before_logon: 128 * 1024,
            pipe_bytes: 64 << 20,
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
