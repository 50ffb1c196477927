//! Administration of a running server over a Unix socket in its state directory.
//!
//! [`Listener`] is the server's side, [`Client`] that of `frevo user` and `frevo status`, [`message`] what they say.
//! Only root and the server's own user are listened to, whatever the permissions of the socket have become.

mod client;
mod listener;
pub mod message;
pub mod names;

pub use client::Client;
pub use listener::{Control, Listener};

/// The socket's name in the state directory.
const SOCKET: &str = "control.sock";
