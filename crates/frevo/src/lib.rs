//! The `frevo` program as a library: the commands, sockets, the sandbox, and the control socket.
//!
//! - [`cli`] lists the commands. Each is a module: [`serve`], [`check`], [`user`], [`group`], [`join`], [`migrate`],
//!   [`status`], [`close`], [`console`], [`share`], [`acl`], [`bench`], `help`. [`manual`] has their manual pages.
//! - `listen` accepts connections, and `driver` is the task of one. `input`, `acknowledgment` and `network` serve it.
//! - [`kerberos`] accepts the tickets of a realm. The crate [`smbconf`] reads the configuration. User accounts are
//!   in the crate [`accounts`], those of a domain in [`winbind`].
//! - [`admin`] is the control socket in the state directory, and `handles` the record of persistent handles there.
//! - [`sandbox`] and [`limits`] restrict the process. [`systemd`] notifies the service manager. [`log`] writes the log,
//!   and `audit` the lines of `full_audit`.
//!
//! It is a library so that tests and the program `frevo-torture` can use it. The program is `main.rs`.

mod acknowledgment;
pub mod acl;
pub mod admin;
mod audit;
pub mod bench;
pub mod check;
pub mod cli;
pub mod close;
pub mod console;
mod driver;
pub mod environment;
mod event_loops;
pub mod group;
mod handles;
pub mod health;
mod help;
mod input;
pub mod join;
pub mod kerberos;
pub mod limits;
mod listen;
pub mod log;
mod low_water;
pub mod manual;
pub mod metrics;
pub mod migrate;
mod network;
pub mod password;
mod progress;
pub mod reload;
pub mod sandbox;
pub mod serve;
pub mod share;
pub mod snapshot;
pub mod socket_file;
pub mod status;
pub mod systemd;
pub mod table;
pub mod tune;
pub mod user;
pub mod version;
pub mod welcome;
