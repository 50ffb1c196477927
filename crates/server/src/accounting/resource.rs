//! The resources that are accounted for, their units, and the memory that each takes.

use super::{AtomicUsize, Ordering};

/// The unit of a resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Bytes of memory, as allocated.
    Bytes,
    /// Objects, each of which takes about this many bytes of memory.
    Each(usize),
}

macro_rules! resources {
    ($($(#[$doc:meta])+ $name:ident, $label:literal, $unit:expr;)+) => {
        /// A resource that the server holds on behalf of clients.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(usize)]
        pub enum Resource {
            $($(#[$doc])+ $name,)+
        }

        impl Resource {
            /// All resources.
            pub const ALL: &[Resource] = &[$(Resource::$name),+];

            /// Returns the name in `frevo status`.
            pub const fn name(self) -> &'static str {
                match self { $(Resource::$name => $label,)+ }
            }

            /// Returns the unit.
            pub const fn unit(self) -> Unit {
                match self { $(Resource::$name => $unit,)+ }
            }
        }
    };
}

resources! {
    /// TCP connections. Each has a task, a table of sessions and a sequence window.
    Connections, "connections", Unit::Each(4096);
    /// Buffers for requests that have not arrived completely.
    Input, "input", Unit::Bytes;
    /// Requests that are executed or wait, and the data that they request.
    Requests, "requests", Unit::Bytes;
    /// Responses that the client has not received yet.
    Responses, "responses", Unit::Bytes;
    /// Logons in progress, and failed ones whose response is delayed.
    Logons, "logons", Unit::Bytes;
    /// Sessions with a logged-on user.
    Sessions, "sessions", Unit::Each(2048);
    /// Tree connects. Each has compiled name patterns from the share's parameters.
    TreeConnects, "tree connects", Unit::Each(2048);
    /// Open files and directories. Each has a file descriptor.
    Opens, "opens", Unit::Each(2048);
    /// Opens that have outlived their session: durable, resilient and persistent ones.
    DetachedOpens, "detached opens", Unit::Each(256);
    /// Byte-range locks, including those that wait.
    Locks, "locks", Unit::Each(192);
    /// Directory entries read ahead for listings, and the names that listings remember.
    Listings, "listings", Unit::Bytes;
    /// Directories watched by CHANGE_NOTIFY.
    Watches, "watches", Unit::Each(1024);
    /// Changes that are queued for future CHANGE_NOTIFY requests.
    Changes, "changes", Unit::Bytes;
    /// Open named pipes.
    Pipes, "pipes", Unit::Each(2048);
    /// Calls and responses in named pipes.
    PipeData, "pipe data", Unit::Bytes;
    /// Tokens of offloaded copies.
    OffloadTokens, "offload tokens", Unit::Each(256);
    /// Print jobs that are not handed over to the print system yet. Each has a file.
    PrintJobs, "print jobs", Unit::Each(4096);
    /// Parts of print jobs that are being sent to the print system.
    PrintData, "print data", Unit::Bytes;
    /// The KiB that the files of these jobs take on disk.
    SpoolSpace, "spool space (KiB)", Unit::Each(0);
}

impl Resource {
    /// Returns the bytes of memory that `amount` takes.
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

/// The number of resources. Total memory is stored after them.
const COUNT: usize = Resource::ALL.len();
/// The index of total memory.
pub(super) const MEMORY: usize = COUNT;

/// An amount of each resource, and of total memory.
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

/// The server's bound for each resource.
#[derive(Clone, Debug)]
pub struct Bounds([usize; COUNT + 1]);

impl Bounds {
    /// Bounds total memory to `memory` bytes, and nothing else.
    pub fn of_memory(memory: usize) -> Bounds {
        let mut bounds = Bounds([usize::MAX; COUNT + 1]);
        bounds.0[MEMORY] = memory;
        bounds
    }

    /// Sets the bound of one resource.
    #[must_use]
    pub fn with(mut self, resource: Resource, bound: usize) -> Bounds {
        self.0[resource.index()] = bound;
        self
    }

    pub(super) fn each(&self) -> impl Iterator<Item = (usize, usize)> {
        self.0.iter().copied().enumerate()
    }
}
