//! The state shared by all opens of a file: share modes, locks, oplocks, leases, delete-pending, names ([MS-FSA] 2.1).
//! Pure and synchronous, except for parts of `notify`.

pub mod byte_lock;
mod coverage;
pub(crate) mod exported_locks;
pub mod lease;
mod leaving;
mod locking;
mod making;
pub mod notify;
pub mod oplock;
mod share_mode;
mod table;
pub(crate) mod tree;
mod tunnel;
mod write_time;

pub use lease::{LeaseId, OpenLease};
pub use leaving::{Kept, Leaving};
pub use locking::LockWait;
pub use share_mode::ShareMode;
pub use table::{Closed, Doom, OpenName, Refusal, Removals, Table};
pub use tunnel::Tunnel;
