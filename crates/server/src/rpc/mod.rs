//! Remote procedure calls over the named pipes of IPC$ ([MS-SMB2] 3.3.5.9, [MS-RPCE]).
//!
//! Because of Samba's CVE-2017-7494 and CVE-2023-3961, a pipe's name is never passed to a file system, a library or a
//! socket.

mod association;
mod caller;
mod context_handles;
mod enumeration_positions;
mod memory;
mod messages;
mod pipe;
mod security_context;
mod services;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use proto::status::Status;

use self::pipe::{RpcPipe, Service};
use crate::accounting::Payer;
use crate::error::{Error, Result};
use crate::named_pipe::NamedPipe;
use crate::state::Server;

/// Opens the pipe called `name`, whose memory is charged to `payer`; some clients send a leading backslash.
pub(crate) fn open(name: &str, server: &Arc<Server>, payer: &Arc<Payer>) -> Result<Box<dyn NamedPipe>> {
    let service = Service::named(name.strip_prefix('\\').unwrap_or(name))
        .ok_or_else(|| Error::because(Status::OBJECT_NAME_NOT_FOUND, format!("there is no pipe {name:?}")))?;
    Ok(Box::new(RpcPipe::new(service, server, payer)))
}

/// Returns whether there is a pipe called `name`. An instance is always available.
pub(crate) fn exists(name: &str) -> bool {
    Service::named(name).is_some()
}
