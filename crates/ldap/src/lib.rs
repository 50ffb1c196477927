//! An LDAP client (RFC 4511) for the searches and changes that user accounts need.
//!
//! [`Servers`] sends a [`Request`](message::Request) to the first server that answers, over a few shared connections,
//! within a time limit. Passwords and hashes are erased from memory after use.
//!
//! Not implemented: referrals, and SASL mechanisms other than EXTERNAL.

#![forbid(unsafe_code)]

pub mod ber;
mod connection;
mod line;
pub mod message;
mod servers;
pub mod tls;
mod uri;

pub use self::connection::{Closed, Connection, Reply, Way};
pub use self::message::Deref;
pub use self::servers::{Around, FindWay, NoAnswer, Opening, Servers};
pub use self::uri::Uri;
