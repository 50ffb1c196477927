//! The record of what clients do with the files of a share (`vfs objects = full_audit`).
//!
//! A tree connect has a [`Trail`]. Commands write a [`Record`] to it after their result is known. The record waits in
//! the [`Queue`] of its destination, from which a thread of the daemon takes it. A destination that does not accept
//! lines therefore delays no request.

mod outcome;
mod queue;
mod record;
mod trail;

use std::sync::Arc;

pub use self::queue::{Batch, Queue};
pub use self::record::{Line, Record};
pub use self::trail::{Origin, Trail};
use crate::policy::audit::Destination;

/// The queues of all destinations.
pub trait Destinations: Send + Sync {
    /// Returns the queue of a destination. The first call for it starts its writer.
    fn queue(&self, destination: &Destination) -> Arc<Queue>;
}
