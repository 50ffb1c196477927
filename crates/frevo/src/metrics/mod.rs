//! Metrics for Prometheus: [`text`](text::text) writes them, [`http`] serves them on a UNIX socket in the state
//! directory and, with `frevo:metrics port`, on the loopback interface. `frevo status --prometheus` prints them.

mod http;
mod process;
mod text;

use std::sync::Arc;

use server::state::Server;

pub use self::http::{MetricsServer, SOCKET, loopback};
pub use self::text::CONTENT_TYPE;

/// Returns the metrics of a server in Prometheus' text format.
pub fn of(server: &Arc<Server>) -> String {
    text::text(&text::Source {
        numbers: server.metrics.numbers(),
        held: server.accounting.report(),
        descriptors: server.descriptor_cache(),
        shares: server.policy().shares.len(),
        process: process::Process::now(),
    })
}
