//! Opens that survive the loss of their connection.

/// Opens that survive the loss of their connection.
#[derive(Clone, Debug)]
pub struct HandlePolicy {
    /// `durable handles`: opens may survive the loss of their connection.
    pub durable_handles: bool,
    /// `continuously available`: opens may survive a restart of the server.
    pub continuously_available: bool,
}

impl Default for HandlePolicy {
    fn default() -> Self {
        HandlePolicy { durable_handles: true, continuously_available: false }
    }
}
