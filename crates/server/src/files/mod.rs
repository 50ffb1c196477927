//! What all opens of one file share: share modes, delete-pending, names. Pure and synchronous; [MS-FSA] 2.1.

pub mod byte_lock;
pub mod oplock;
mod share_mode;
mod table;

pub use share_mode::ShareMode;
pub use table::{Closed, OpenName, Refusal, Table};
