//! Tests with foreign programs against a running server: smbclient, rpcclient, impacket, smbprotocol, rclone, smbj,
//! libsmb2, strace and tshark, and the test bed that starts the server for them.
//!
//! `cargo test` runs only this crate's unit tests, which need no foreign program. `cargo xtask foreign` and `cargo
//! xtask torture` start a server with [`bed`] and run against it. The server can be Frevo or Debian's Samba, behind the
//! same interface. A case that fails with Samba is wrong, unless it is marked as being for Frevo only.

pub mod bed;
mod capture;
mod cases;
mod counts;
mod file;
mod growth;
pub mod guess;
pub mod hammer;
mod profile;
mod protection;
mod python;
mod rclone;
mod smbclient;
mod stage;
pub mod suite;

pub use counts::Counts;
pub use rclone::Rclone;
