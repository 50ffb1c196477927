//! The `frevo` program as a library: the commands, smb.conf, sockets, accounts, and the control socket.
//!
//! - [`cli`] lists the commands. Each is a module: [`serve`], [`check`], [`user`], [`group`], [`join`], [`status`],
//!   [`acl`], [`bench`].
//! - [`config`] reads smb.conf, and [`host`] looks up on this machine what it names.
//! - `listen` accepts connections, and `driver` is the task of one. `input`, `acknowledgment` and `network` serve it.
//! - [`accounts`] has the back ends of user accounts, and asks NSS. [`kerberos`], [`winbind`] and [`idmap`] are for the
//!   users of a realm or domain.
//! - [`state_dir`] is the state directory, [`admin`] the control socket in it, and `handles` the record of persistent
//!   handles.
//! - [`sandbox`] and [`limits`] restrict the process. [`log`] writes the log.
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
