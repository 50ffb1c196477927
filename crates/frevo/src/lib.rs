//! The `frevo` program as a library: accounts, configuration, the control socket, status, logging, limits and the
//! commands.
//!
//! It is a library so that tests, fuzz targets and the program `frevo-torture` can use it. The program is `main.rs`.

pub mod accounts;
mod acknowledgment;
pub mod acl;
pub mod admin;
pub mod bench;
pub mod check;
pub mod cli;
pub mod config;
mod driver;
pub mod environment;
pub mod group;
mod handles;
pub mod host;
pub mod idmap;
mod input;
pub mod interfaces;
pub mod join;
pub mod kerberos;
pub mod limits;
mod listen;
pub mod log;
mod network;
pub mod password;
mod progress;
pub mod sandbox;
pub mod serve;
pub mod state_dir;
pub mod status;
pub mod table;
pub mod user;
pub mod welcome;
pub mod when;
pub mod winbind;
