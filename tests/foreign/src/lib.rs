//! Foreign programs against a running server: smbclient, rpcclient, impacket, smbprotocol and strace, and the test bed
//! that starts the server for them.
//!
//! This is a library without tests of its own kind: `cargo test` runs only its unit tests, which need no foreign
//! program. `cargo xtask foreign` and `cargo xtask torture` start a server with [`bed`] and run against it. Either server
//! can stand there, Frevo or Debian's Samba, behind the same interface: a case that Samba fails is a wrong case.

pub mod bed;
