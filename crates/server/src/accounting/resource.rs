//! What is counted, in which unit, and how many bytes each takes.

use super::{AtomicUsize, Ordering};

/// What a number of a resource counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Bytes of memory, as allocated.
    Bytes,
    /// Things of which each takes about so many bytes of memory.
    Each(usize),
}

macro_rules! resources {
    ($($(#[$doc:meta])+ $name:ident, $label:literal, $unit:expr;)+) => {
        /// Something that clients make the server hold.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(usize)]
        pub enum Resource {
            $($(#[$doc])+ $name,)+
        }

        impl Resource {
            /// All of them.
            pub const ALL: &[Resource] = &[$(Resource::$name),+];

            /// The name in `frevo status`.
            pub const fn name(self) -> &'static str {
                match self { $(Resource::$name => $label,)+ }
            }

            /// What is counted.
            pub const fn unit(self) -> Unit {
                match self { $(Resource::$name => $unit,)+ }
            }
        }
    };
}

resources! {
    /// TCP connections. Each has a task, a table of sessions and a sequence window.
    Connections, "connections", Unit::Each(4096);
    /// Buffers that a request which has not arrived whole is received into.
    Input, "input", Unit::Bytes;
    /// Requests that are executed or wait, and the data that they ask for.
    Requests, "requests", Unit::Bytes;
    /// Responses that the client has not taken yet.
    Responses, "responses", Unit::Bytes;
    /// Logons under way, and failed ones of which the answer waits.
    Logons, "logons", Unit::Bytes;
    /// Sessions with a user.
    Sessions, "sessions", Unit::Each(2048);
    /// Tree connects. Each has lists of names made of the share's parameters.
    TreeConnects, "tree connects", Unit::Each(2048);
    /// Open files and directories. Each has a descriptor.
    Opens, "opens", Unit::Each(2048);
    /// Opens that have outlived their session: durable, resilient and persistent ones.
    DetachedOpens, "detached opens", Unit::Each(256);
    /// Byte-range locks, those that wait included.
    Locks, "locks", Unit::Each(192);
    /// Directory entries read ahead for listings, and the names that listings remember.
    Listings, "listings", Unit::Bytes;
    /// Directories watched by CHANGE_NOTIFY.
    Watches, "watches", Unit::Each(1024);
    /// Changes that are kept for CHANGE_NOTIFY requests to come.
    Changes, "changes", Unit::Bytes;
    /// Open named pipes.
    Pipes, "pipes", Unit::Each(2048);
    /// Calls and answers in named pipes.
    PipeData, "pipe data", Unit::Bytes;
    /// Tokens of offloaded copies.
    OffloadTokens, "offload tokens", Unit::Each(256);
}

impl Resource {
    /// The bytes that `amount` of it take.
    pub const fn bytes(self, amount: usize) -> usize {
        match self.unit() {
            Unit::Bytes => amount,
            Unit::Each(bytes) => amount.saturating_mul(bytes),
        }
    }

    pub(super) const fn index(self) -> usize {
        self as usize
    }
}

/// How many resources there are. Memory as a whole comes behind them.
const COUNT: usize = Resource::ALL.len();
/// The place of memory as a whole.
pub(super) const MEMORY: usize = COUNT;

/// An amount of each resource, and of memory as a whole.
#[derive(Debug, Default)]
pub(super) struct Amounts([AtomicUsize; COUNT + 1]);

impl Amounts {
    pub(super) fn get(&self, index: usize) -> usize {
        self.0[index].load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, index: usize, amount: usize) {
        self.0[index].store(amount, Ordering::Relaxed);
    }

    pub(super) fn add(&self, index: usize, amount: usize) {
        self.0[index].fetch_add(amount, Ordering::Relaxed);
    }

    pub(super) fn subtract(&self, index: usize, amount: usize) {
        self.0[index].fetch_sub(amount, Ordering::Relaxed);
    }
}

/// The server's bound of each resource.
#[derive(Clone, Debug)]
pub struct Bounds([usize; COUNT + 1]);

impl Bounds {
    /// `memory` bytes in all, and nothing else bounded.
    pub fn of_memory(memory: usize) -> Bounds {
        let mut bounds = Bounds([usize::MAX; COUNT + 1]);
        bounds.0[MEMORY] = memory;
        bounds
    }

    /// The same with a bound for one resource.
    #[must_use]
    pub fn with(mut self, resource: Resource, bound: usize) -> Bounds {
        self.0[resource.index()] = bound;
        self
    }

    pub(super) fn each(&self) -> impl Iterator<Item = (usize, usize)> {
        self.0.iter().copied().enumerate()
    }
}
