//! CHANGE_NOTIFY ([MS-SMB2] 3.3.5.19): waits for changes in a directory.
//!
//! Changes are not reported yet: a request waits until it is cancelled or its handle is closed.

use std::sync::atomic::Ordering;

use proto::dtyp::AccessMask;
use proto::smb2::change_notify::ChangeNotifyRequest;
use proto::status::Status;

use crate::conn::{Cancelled, Reply, Request};
use crate::error::{Error, Result};
use crate::vfs::Kind;

pub(crate) async fn change_notify(request: &Request<'_>, reply: &mut Reply) -> Result<Status> {
    let asked = ChangeNotifyRequest::decode(request.message)?;
    if request.connection.negotiated().is_some_and(|it| asked.output_buffer_length > it.max_transact) {
        return Err(Error::because(Status::INVALID_PARAMETER, "longer than MaxTransactSize"));
    }
    request.check_charge(asked.output_buffer_length as usize)?;
    let open = request.open(asked.file_id, reply)?;
    let file = open.file().filter(|file| file.kind == Kind::Directory).ok_or(Error::new(Status::INVALID_PARAMETER))?;
    // Samba's CVE-2020-14318: who may not list a directory may not watch it.
    if open.granted.0 & AccessMask::FILE_LIST_DIRECTORY.0 == 0 {
        return Err(Error::new(Status::ACCESS_DENIED));
    }
    request.check_last()?;
    let pending = reply.go_async(request)?;
    file.waiting.lock().push(pending.clone());
    let Err(Cancelled) = pending.wait(std::future::pending::<std::convert::Infallible>()).await;
    file.waiting.lock().retain(|waiting| !std::sync::Arc::ptr_eq(waiting, &pending));
    Err(Error::new(if file.closed.load(Ordering::Acquire) { Status::NOTIFY_CLEANUP } else { Status::CANCELLED }))
}
