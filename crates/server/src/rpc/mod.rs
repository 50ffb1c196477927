//! Remote procedure calls over the named pipes of IPC$ ([MS-SMB2] 3.3.5.9, [MS-RPCE]).
//!
//! Because of Samba's CVE-2017-7494 and CVE-2023-3961, a pipe's name is never passed to a file system, a library or a
//! socket.

mod association;
mod context_handles;
mod enumeration_positions;
mod memory;
mod messages;
mod pipe;
mod security_context;
mod services;
#[cfg(test)]
mod tests;
mod wrong_password;

pub use pipe::Pipe;
