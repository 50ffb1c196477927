//! Remote procedure calls over the named pipes of IPC$ ([MS-SMB2] 3.3.5.9, [MS-RPCE]).
//!
//! A pipe's client binds to the [`interface`] of one of the [`services`], and calls its operations. The parts of a call
//! are in these files, in the order of a call:
//!
//! - [`pipe`]: data that arrives, cut into PDUs; READs and other operations of the pipe itself
//! - [`association`]: PDUs; binds to the interface, and assembly of the fragments of a call
//! - [`security_context`]: authentication, signing and encryption of PDUs
//! - [`interface`]: the table of operations that a service has, and the context of a call
//! - [`listing`]: responses with many entries
//! - [`context_handles`]: objects that a client has opened
//! - [`documents`]: documents that a client prints
//! - [`messages`]: fragments of responses that the client has not read
//! - [`memory`]: the charge for the memory of a pipe
//!
//! Commands use a pipe through the trait [`NamedPipe`], and a service the request that a call came with through the
//! trait [`Caller`](crate::named_pipe::Caller). Because of Samba's CVE-2017-7494 and CVE-2023-3961, a pipe's
//! name is never passed to a file system, a library or a socket.

mod association;
mod context_handles;
mod documents;
mod interface;
mod listing;
mod memory;
mod messages;
mod pipe;
mod security_context;
mod services;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use proto::status::Status;

use self::pipe::RpcPipe;
use crate::accounting::Payer;
use crate::error::{Error, Result};
use crate::named_pipe::NamedPipe;
use crate::state::Server;

/// Opens the pipe called `name`, whose memory is charged to `payer`; some clients send a leading backslash.
pub(crate) fn open(name: &str, server: &Arc<Server>, payer: &Arc<Payer>) -> Result<Box<dyn NamedPipe>> {
    let is_disabled = |service: &&dyn interface::Interface| {
        service.pipe() == services::PRINT_SYSTEM && server.policy().disable_spoolss
    };
    let interface = services::find(name.strip_prefix('\\').unwrap_or(name))
        .filter(|service| !is_disabled(service))
        .ok_or_else(|| Error::because(Status::OBJECT_NAME_NOT_FOUND, format!("there is no pipe {name:?}")))?;
    Ok(Box::new(RpcPipe::new(interface, server, payer)))
}

/// Returns whether there is a pipe called `name`. An instance is always available.
pub(crate) fn exists(name: &str) -> bool {
    services::find(name).is_some()
}
