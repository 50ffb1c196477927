//! Metrics for Prometheus: [`text`](text::text) writes them, [`http`] serves them on a UNIX socket in the state
//! directory and, with `frevo:metrics port`, on the loopback interface. `frevo status --prometheus` prints them.

mod http;
mod process;
mod text;

use std::sync::Arc;

use server::state::Server;

use crate::health::Health;

pub use self::http::{MetricsServer, SOCKET, loopback};
pub use self::text::CONTENT_TYPE;

/// Maximum number of file systems whose space is in the metrics.
const FILE_SYSTEMS: usize = 100;
/// Number of users whose requests are counted on their own in the metrics.
const USERS: usize = 20;

/// Returns the metrics of a server in Prometheus' text format.
pub fn of(server: &Arc<Server>, health: &Health) -> String {
    text::text(&text::Source {
        numbers: server.metrics.numbers(),
        held: server.accounting.report(),
        descriptors: server.descriptor_cache(),
        shares: server.policy().shares.len(),
        faults: health.faults(),
        file_systems: health.file_systems(FILE_SYSTEMS),
        audit: server.audit_numbers(),
        users: server.sessions.requests_by_user(USERS),
        process: process::Process::now(),
    })
}
