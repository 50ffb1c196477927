//! Administration of a running server over a Unix socket in its state directory.
//!
//! [`Listener`] is the server side. [`Client`] is the side of `frevo user`, `frevo group`, `frevo acl` and
//! `frevo status`. [`message`] has the protocol, and [`names`] its look-ups of SIDs. [`perform()`] carries out requests
//! about accounts. Only root and the server's own user may connect, regardless of the socket's file permissions.

mod client;
mod listener;
pub mod message;
pub mod names;
mod perform;

pub use client::Client;
pub use listener::{Control, Listener};
pub use perform::perform;

/// The socket's name in the state directory.
const SOCKET: &str = "control.sock";
