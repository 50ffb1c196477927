//! Service discovery: how clients of a network find the server.
//!
//! A protocol has a responder, which has neither sockets nor a clock, and a task that serves one link. [`announce`]
//! runs the protocols on all links.

mod announce;
mod avahi;
mod limit;
pub mod link;
pub mod llmnr;
pub mod mdns;
pub mod netbios;
mod socket;
pub mod wsd;

pub use announce::{Announced, Links, announce};
