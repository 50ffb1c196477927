//! Tests with foreign programs against a running server: smbclient, rpcclient, impacket, smbprotocol, rclone, smbj,
//! libsmb2, strace and tshark.
//!
//! `cargo xtask foreign` runs the cases in a [`test_environment`], against Frevo or Debian's Samba. A case that fails
//! with Samba is wrong, unless it is marked as being for Frevo only. `cargo test` runs only this crate's unit tests,
//! which need no foreign program.

mod capture;
mod cases;
mod file;
mod fixture;
mod growth;
pub mod hammer;
mod mount;
mod profile;
mod protection;
mod python;
mod smbclient;
pub mod suite;
