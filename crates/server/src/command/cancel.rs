//! CANCEL ([MS-SMB2] 3.3.5.16). It has no response; the request that it identifies is answered with STATUS_CANCELLED.

use std::sync::Arc;

use proto::smb2::header::Header;

use crate::state::connection::Connection;

/// Cancels the waiting request identified by `header`, if there is one.
pub(crate) fn cancel(connection: &Arc<Connection>, header: &Header) {
    let pending = connection.state.lock().pending.find(header.async_id(), header.message_id);
    if let Some(pending) = pending {
        pending.cancel();
    }
}
