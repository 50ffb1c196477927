//! Bytes to messages and back: the wire formats of SMB 2 and 3 and what they carry.
//!
//! No I/O, no clock, no randomness, no async, no unsafe code. Whatever the peer sent, a decoder answers with a value
//! or a [`bytes::Malformed`], never with a panic, and never allocates more than the input's own length asks for.
//! Wire things carry the specification's names in its order; a value that the peer chooses is a newtype with named
//! constants, so that unknown values survive.
#![forbid(unsafe_code)]

pub mod auth;
pub mod bytes;
pub mod crypto;
pub mod dtyp;
mod flags;
pub mod frame;
pub mod fscc;
pub mod rpc;
pub mod smb1;
pub mod smb2;
pub mod status;
mod values;
