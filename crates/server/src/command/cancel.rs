//! CANCEL ([MS-SMB2] 3.3.5.16): it has no response of its own; the request that it names is answered with
//! STATUS_CANCELLED.

use std::sync::Arc;

use proto::smb2::header::Header;

use crate::conn::Connection;

/// Cancels the waiting request that `header` names, if there is one.
pub(crate) fn cancel(connection: &Arc<Connection>, header: &Header) {
    let pending = connection.state.lock().pending.find(header.async_id(), header.message_id);
    if let Some(pending) = pending {
        pending.cancel();
    }
}
