//! Frames of a connection: decryption, splitting into requests, their execution, and the end of a connection.
//!
//! [`Connection::receive`](crate::state::connection::Connection::receive) takes frames in the order of their arrival
//! and returns a [`Chain`] for each. Executing the chain runs its requests and puts the responses into the outbox.
//! A long WRITE is a chain of its own already when its header has arrived ([`Arrival`]).
//! Chains of one connection may run concurrently, so that a request that waits (for a lock or a slow disk) does not
//! delay others.

mod chain;
mod close;
mod execution;
mod output;
mod receive;

pub use chain::{Chain, Cost};
pub use execution::Execution;
pub use receive::Start;

pub use crate::request::arrival::Arrival;
