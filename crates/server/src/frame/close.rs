//! The end of a connection ([MS-SMB2] 3.3.7.1).

use std::sync::Arc;

use crate::command::logoff::end_session;
use crate::state::connection::Connection;

impl Connection {
    /// Cleans up after the transport is closed. Sessions without another channel end, and their opens are closed.
    /// Sessions with other channels continue and keep their opens.
    pub async fn close(self: &Arc<Self>) {
        for channel in self.lose_transport() {
            end_session(&self.server, &channel.session).await;
        }
        self.remove();
    }
}
