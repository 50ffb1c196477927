//! Encoding and decoding of the wire formats of SMB 2 and 3 and the data that they carry.
//!
//! No I/O, no clock, no random numbers, no async, no unsafe code. For any input, a decoder returns a value or a
//! [`bytes::Malformed`]. It never panics, and never allocates more than the length of the input justifies. Wire
//! structures use the specification's names in the specification's order. A value that the peer chooses is a newtype
//! with named constants, so that unknown values survive.
//!
//! [`smb2`] has the messages, [`fscc`] what QUERY_INFO, listings and file system controls carry, [`dtyp`] SIDs and
//! security descriptors, [`auth`] the tokens of a logon, [`crypto`] signing and encryption, [`rpc`] the calls over
//! named pipes, [`dfsc`] DFS referrals, and [`mac`] the extensions of macOS.
#![forbid(unsafe_code)]

pub mod auth;
pub mod bytes;
pub mod calendar;
pub mod crypto;
pub mod dfsc;
pub mod dtyp;
mod flags;
pub mod frame;
pub mod fscc;
pub mod mac;
pub mod rpc;
pub mod smb1;
pub mod smb2;
pub mod status;
mod values;
