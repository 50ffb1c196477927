//! The record of what clients do: logons (`log level = auth_audit:3`), operations on the files of a share
//! (`vfs objects = full_audit`), and changes by administrators through the console.
//!
//! A tree connect has a [`Trail`]. Commands write a [`Record`] to it after their result is known. A logon is a
//! [`Logon`]. Each [`Event`] waits in the [`Queue`] of its destination, from which a thread of the daemon takes it. A
//! destination that does not accept events therefore delays no request.

mod administration;
mod event;
mod logon;
mod outcome;
mod queue;
mod record;
mod trail;

use std::sync::Arc;

pub use self::administration::Administration;
pub use self::event::Event;
pub(crate) use self::logon::sent_name;
pub use self::logon::{Became, Endpoint, Logon, LogonEvent, Sent};
pub use self::queue::{Batch, Queue, QueueNumbers, Reservation};
pub use self::record::{Moved, Record};
pub use self::trail::{Origin, Trail};
use crate::policy::audit::Destination;

/// The queues of all destinations.
pub trait Destinations: Send + Sync {
    /// Returns the queue of a destination. The first call for it starts its writer.
    fn queue(&self, destination: &Destination) -> Arc<Queue>;

    /// Returns the numbers of each destination that has a queue, by its name.
    fn numbers(&self) -> Vec<(String, QueueNumbers)> {
        Vec::new()
    }
}
