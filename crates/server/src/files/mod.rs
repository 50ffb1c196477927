//! The state shared by all opens of a file: share modes, locks, oplocks, leases, delete-pending, names ([MS-FSA] 2.1).
//! Pure and synchronous, except for parts of `notify`, and `beneath`, which yields.
//!
//! - `table`: the open files. [`Table::open`] refuses an open for its share mode, and `command::create` returns the
//!   status. Refusals because of streams are in `command::create`.
//! - `share_mode`: which share modes permit each other.
//! - `oplock`: oplocks and the states of leases; `oplock::breaking` decides what an operation breaks, for a rename
//!   after `command::rename`. `lease`: the file of each lease key.
//! - `byte_lock`: byte-range locks of one stream. `locking`: those of all files, with the requests that wait.
//!   `exported_locks`: the same locks as the kernel represents them. `tree` and `coverage` are their data structures.
//! - `notify`: watches of directories (CHANGE_NOTIFY). Their bounds are in `policy::limits`; `command::change_notify`
//!   enforces those on requests.
//! - `beneath`: searches for open files below a directory.
//! - `pending_create`, `name_replacement`: names that are being created or replaced. `tunnel`: short names that return.
//! - `write_time`: write times that are reported later.

mod beneath;
pub mod byte_lock;
mod coverage;
pub(crate) mod exported_locks;
pub mod lease;
mod locking;
mod name_replacement;
pub mod notify;
pub mod oplock;
mod pending_create;
mod share_mode;
mod table;
pub(crate) mod tree;
mod tunnel;
mod write_time;

pub use lease::{LeaseId, OpenLease};
pub use locking::LockWait;
pub use name_replacement::{NameInUse, NameReplacement};
pub use share_mode::ShareMode;
pub use table::{Closed, Doom, OpenName, Refusal, Removals, Table};
pub use tunnel::Tunnel;
