//! Printers and the server, as clients open them ([MS-RPRN] 3.1.4.2.2, 3.1.4.2.9, 3.1.4.2.14).

use std::sync::Arc;

use proto::dtyp::acl::{Ace, AceFlags};
use proto::dtyp::security_descriptor::Control;
use proto::dtyp::{AccessMask, Acl, GenericMapping, SecurityDescriptor, Sid};
use proto::rpc::enumeration::error;
use proto::rpc::ndr::ContextHandle;
use proto::rpc::spoolss::{self, OpenPrinter, OpenPrinterEx, rights};
use proto::status::Status;

use super::documents;
use crate::accounting::{Charge, Resource};
use crate::error::Error;
use crate::rpc::interface::Call;
use crate::tree::Printer;

/// What a handle is of.
#[derive(Clone)]
pub(super) enum Object {
    /// The server.
    Server,
    /// A printer.
    Printer(Arc<Opened>),
}

/// A printer that a client has opened.
pub(super) struct Opened {
    /// The name of the server that the client uses, with its backslashes; empty if it uses none.
    pub(super) server: String,
    /// The print share.
    pub(super) printer: Printer,
    /// The rights of the handle.
    rights: u32,
    /// The charge for its memory.
    _memory: Charge,
}

impl Opened {
    /// Returns whether the handle has this right.
    pub(super) fn has(&self, right: u32) -> bool {
        self.rights & right == right
    }
}

/// Returns the object of a handle.
pub(super) fn find(call: &Call<'_>, handle: &ContextHandle) -> Result<Object, u32> {
    call.handles.lock().get::<Object>(handle).cloned().ok_or(error::INVALID_HANDLE)
}

/// Returns the printer of a handle.
pub(super) fn printer(call: &Call<'_>, handle: &ContextHandle) -> Result<Arc<Opened>, u32> {
    match find(call, handle)? {
        Object::Printer(opened) => Ok(opened),
        Object::Server => Err(error::INVALID_HANDLE),
    }
}

/// The rights to an object.
struct Rights {
    users: u32,
    administrators: u32,
}

const OF_SERVER: Rights = Rights { users: rights::SERVER_READ, administrators: rights::SERVER_ALL_ACCESS };
const OF_PRINTER: Rights = Rights { users: rights::PRINTER_READ, administrators: rights::PRINTER_ALL_ACCESS };

impl Rights {
    /// Returns the rights that a handle gets for which a client desires these. Without a desire, it can be read.
    async fn grant(&self, call: &Call<'_>, desired: u32) -> Result<u32, u32> {
        let read = AccessMask(self.users);
        let mapping = GenericMapping {
            generic_read: read,
            generic_write: read,
            generic_execute: read,
            generic_all: AccessMask(self.administrators),
        };
        let maximum = desired & AccessMask::MAXIMUM_ALLOWED.0 != 0;
        let wanted = AccessMask(desired & !AccessMask::MAXIMUM_ALLOWED.0).expand(&mapping).0;
        let allowed = match wanted & !self.users {
            0 if !maximum => self.users,
            _ if call.is_administrator().await => self.administrators,
            _ => self.users,
        };
        if wanted & !allowed != 0 {
            return Err(error::ACCESS_DENIED);
        }
        Ok(if maximum || wanted == 0 { allowed } else { wanted })
    }
}

/// Returns the security descriptor of a printer for a user that may connect to its share: `guests` may, too.
pub(super) fn descriptor(guests: bool) -> Vec<u8> {
    descriptor_of(&OF_PRINTER, guests)
}

/// Returns the security descriptor of the server.
pub(super) fn server_descriptor() -> Vec<u8> {
    descriptor_of(&OF_SERVER, true)
}

fn descriptor_of(rights: &Rights, guests: bool) -> Vec<u8> {
    let users = if guests { Sid::EVERYONE } else { Sid::AUTHENTICATED_USERS };
    let aces = [(users, rights.users), (Sid::BUILTIN_ADMINISTRATORS, rights.administrators)];
    let aces = aces.map(|(sid, rights)| Ace::allow(sid, AccessMask(rights), AceFlags::NONE));
    let descriptor = SecurityDescriptor {
        owner: Some(Sid::BUILTIN_ADMINISTRATORS),
        group: Some(Sid::BUILTIN_ADMINISTRATORS),
        control: Control::DACL_PRESENT,
        dacl: Acl::new(Acl::REVISION, aces.to_vec()),
        ..SecurityDescriptor::default()
    };
    descriptor.to_bytes()
}

/// What a client adds to the name of a printer after a comma, without a meaning here ([MS-RPRN] 2.2.4.14, <223>).
const POSTFIXES: [&str; 2] = ["LocalOnly", "DrvConvert"];

/// Maximum bytes of the name of a server or printer.
const NAME: usize = 512;

/// Divides a name into those of the server, with its backslashes, and of the printer, without a known postfix. `None`
/// if it is neither of them, or the name of a job, port or monitor.
fn parts(name: &str) -> Option<(&str, &str)> {
    let (server, rest) = match name.strip_prefix(r"\\") {
        Some(after) => {
            let end = after.find('\\').map_or(name.len(), |at| at + 2);
            (&name[..end], name[end..].strip_prefix('\\').unwrap_or_default())
        }
        None => ("", name),
    };
    let (printer, postfix) = rest.split_once(',').map_or((rest, None), |(name, added)| (name, Some(added.trim())));
    if !postfix.is_none_or(|added| POSTFIXES.iter().any(|known| known.eq_ignore_ascii_case(added))) {
        return None;
    }
    let is_empty = server == r"\\" || (server.is_empty() && printer.is_empty());
    let fits = server.len() <= NAME && printer.len() <= NAME;
    (!is_empty && fits && !printer.contains('\\')).then_some((server, printer))
}

/// Returns the server in the name that a client uses in a call, with its backslashes; empty if there is none.
pub(super) fn server_name(name: Option<&str>) -> &str {
    name.and_then(parts).map_or("", |(server, _)| server)
}

/// Returns the Win32 error code of an error of a print share.
pub(super) fn error_of(error: &Error) -> u32 {
    match error.status {
        Status::BAD_NETWORK_NAME | Status::OBJECT_NAME_NOT_FOUND => spoolss::error::INVALID_PRINTER_NAME,
        Status::ACCESS_DENIED => error::ACCESS_DENIED,
        Status::DEVICE_NOT_READY => spoolss::error::NOT_READY,
        Status::PRINT_QUEUE_FULL => spoolss::error::PRINTQ_FULL,
        Status::NO_SPOOL_SPACE => spoolss::error::NO_SPOOL_SPACE,
        Status::DISK_FULL => spoolss::error::DISK_FULL,
        Status::INSUFFICIENT_RESOURCES => error::NOT_ENOUGH_MEMORY,
        _ => error::GEN_FAILURE,
    }
}

/// RpcOpenPrinterEx (3.1.4.2.14). The client must describe itself (3.1.4.1.8.8); the description has no use.
pub(super) async fn open_ex(call: &Call<'_>, asked: OpenPrinterEx) -> Vec<u8> {
    match asked.has_client {
        true => open(call, asked.open).await,
        false => spoolss::handle_response(&ContextHandle::default(), error::INVALID_PARAMETER),
    }
}

/// RpcOpenPrinter.
pub(super) async fn open(call: &Call<'_>, asked: OpenPrinter) -> Vec<u8> {
    let opened = match object(call, &asked).await {
        Ok(object) => call.handles.lock().open(object, &*call.server.environment).ok_or(error::NOT_ENOUGH_MEMORY),
        Err(status) => Err(status),
    };
    spoolss::handle_response(&opened.unwrap_or_default(), opened.err().unwrap_or(error::SUCCESS))
}

async fn object(call: &Call<'_>, asked: &OpenPrinter) -> Result<Object, u32> {
    let (server, name) = match &asked.name {
        Some(name) => parts(name).ok_or(spoolss::error::INVALID_PRINTER_NAME)?,
        None => ("", ""),
    };
    if name.is_empty() {
        return OF_SERVER.grant(call, asked.desired).await.map(|_| Object::Server);
    }
    let printer = call.caller.connect_printer(name).await.map_err(|error| error_of(&error))?;
    if asked.datatype.as_ref().is_some_and(|datatype| !documents::is_raw(datatype)) {
        return Err(spoolss::error::INVALID_DATATYPE);
    }
    let rights = OF_PRINTER.grant(call, asked.desired).await?;
    let user = &printer.user;
    let of_values: usize = user.values.iter().map(|value| size_of_val(value) + value.1.len()).sum();
    let bytes = size_of::<Opened>() + server.len() + user.name.len() + of_values;
    let memory = call.payer.charge(Resource::PipeData, bytes).map_err(|_| error::NOT_ENOUGH_MEMORY)?;
    Ok(Object::Printer(Arc::new(Opened { server: server.to_owned(), printer, rights, _memory: memory })))
}

/// RpcClosePrinter.
pub(super) async fn close(call: &Call<'_>, handle: ContextHandle) -> Vec<u8> {
    let is_open = {
        let mut handles = call.handles.lock();
        handles.get::<Object>(&handle).is_some() && handles.close(&handle)
    };
    documents::discard(call, &handle).await;
    let status = if is_open { error::SUCCESS } else { error::INVALID_HANDLE };
    spoolss::handle_response(&ContextHandle::default(), status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_of_a_server_or_of_a_printer() {
        for (name, expected) in [
            (r"\\server\ink", Some((r"\\server", "ink"))),
            (r"\\server", Some((r"\\server", ""))),
            (r"\\server\", Some((r"\\server", ""))),
            ("ink", Some(("", "ink"))),
            (r"\\server\ink,LocalOnly", Some((r"\\server", "ink"))),
            ("ink,   drvconvert", Some(("", "ink"))),
            ("ink, LocalOnl", None),
            ("ink, Job 3", None),
            (r"\\server\,XcvMonitor Standard TCP/IP Port", None),
            ("ink, Port", None),
            ("", None),
            (r"\\", None),
            (r"\\\", None),
            (r"\\\ink", None),
            (r"\\server\a\b", None),
            (",", None),
        ] {
            assert_eq!(parts(name), expected, "{name}");
        }
        let long = "x".repeat(NAME + 1);
        assert_eq!((parts(&long), parts(&format!(r"\\{long}\ink"))), (None, None));
        assert_eq!((server_name(None), server_name(Some(r"\\a"))), ("", r"\\a"));
    }
}
