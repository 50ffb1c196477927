//! The signals that end a run.

use anyhow::Result;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGINT and SIGTERM, which do not end the program from the creation of this on.
pub(crate) struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl StopSignals {
    /// Installs their handlers.
    pub(crate) fn new() -> Result<StopSignals> {
        Ok(StopSignals { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for one of them.
    pub(crate) async fn received(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
