//! The state of the open volumes, for an administrator.

use std::time::SystemTime;

use backing::hits::HitNumbers;
use server::policy::Coherence;

use crate::connection::Connection;

/// The state of a volume that is open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenVolume {
    /// The name of the volume.
    pub name: String,
    /// How changes by others are noticed.
    pub coherence: Coherence,
    /// Since when calls fail because a brick is not connected; `None` if they do not.
    pub failing_since: Option<SystemTime>,
    /// How often calls failed for a time and then succeeded again.
    pub reconnected: u64,
    /// The functions of the library that were called, with the number of calls.
    pub calls: Vec<(&'static str, u64)>,
    /// The threads that make calls, including those of hanging calls.
    pub threads: usize,
    /// Calls whose time limit has passed and that have not ended.
    pub hanging: usize,
    /// Calls whose time limit passed before they ended.
    pub timed_out: u64,
    /// The caches, with how often each has answered without a call.
    pub caches: Vec<(&'static str, HitNumbers)>,
}

/// Returns the volumes that are open, by name. A volume that is used with different settings is there several times.
pub fn open_volumes() -> Vec<OpenVolume> {
    let state = |connection: &Connection| {
        let numbers = connection.workers.numbers();
        OpenVolume {
            name: connection.client.name.clone(),
            coherence: connection.coherence(),
            failing_since: connection.outages.since(),
            reconnected: connection.outages.ended(),
            calls: connection.client.calls.numbers(),
            threads: numbers.threads,
            hanging: numbers.hanging,
            timed_out: numbers.timed_out,
            caches: vec![
                ("attributes", connection.recent.hits()),
                ("directories", connection.directories.hits()),
                ("files", connection.files.hits()),
                ("names", connection.name_hits.numbers()),
            ],
        }
    };
    let mut volumes: Vec<_> = Connection::all().iter().map(|connection| state(connection)).collect();
    volumes.sort_by(|one, other| one.name.cmp(&other.name));
    volumes
}
