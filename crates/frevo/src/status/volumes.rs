//! The open volumes of GlusterFS, as shown by `frevo status`.

use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;

use accounts::when;
use gluster::{HitNumbers, OpenVolume};
use serde::{Deserialize, Serialize};

use crate::check::coherence_word;

/// The titles of [`Volume::row`].
pub(super) const HEADS: [&str; 8] =
    ["Volume", "Coherence", "State", "Reconnected", "Calls", "Cache hits", "Hanging", "Timed out"];

/// One volume.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// The value of `frevo:coherence` in effect.
    pub coherence: String,
    /// Since when calls fail because a brick is not connected; `null` if they do not.
    pub failing_since: Option<i64>,
    /// How often calls failed for a time and then succeeded again.
    pub reconnected: u64,
    /// The number of calls of each function of the library.
    pub calls: BTreeMap<String, u64>,
    /// The threads that make calls, including those of hanging calls.
    pub threads: usize,
    /// Calls whose time limit has passed and that have not ended.
    pub hanging: usize,
    /// Calls whose time limit passed before they ended.
    pub timed_out: u64,
    /// How often each cache has answered without a call.
    pub caches: BTreeMap<String, Cache>,
}

/// The questions to a cache.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct Cache {
    /// Answered questions.
    pub hits: u64,
    /// Questions for what was not cached.
    pub misses: u64,
}

impl From<OpenVolume> for Volume {
    fn from(open: OpenVolume) -> Self {
        let seconds =
            |time: std::time::SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64;
        Volume {
            name: open.name,
            coherence: coherence_word(open.coherence).to_owned(),
            failing_since: open.failing_since.map(seconds),
            reconnected: open.reconnected,
            calls: open.calls.into_iter().map(|(function, count)| (function.to_owned(), count)).collect(),
            threads: open.threads,
            hanging: open.hanging,
            timed_out: open.timed_out,
            caches: open
                .caches
                .into_iter()
                .map(|(name, HitNumbers { hits, misses })| (name.to_owned(), Cache { hits, misses }))
                .collect(),
        }
    }
}

impl Volume {
    /// Returns the line of the volume in a table.
    pub(super) fn row(&self) -> Vec<String> {
        let state = match self.failing_since {
            Some(since) => format!("calls fail since {}", when::utc(since)),
            None => "connected".to_owned(),
        };
        let calls: u64 = self.calls.values().sum();
        let hits: u64 = self.caches.values().map(|cache| cache.hits).sum();
        let asked = hits + self.caches.values().map(|cache| cache.misses).sum::<u64>();
        let rate = (hits * 100).checked_div(asked).map_or("-".to_owned(), |percent| format!("{percent} %"));
        vec![
            self.name.clone(),
            self.coherence.clone(),
            state,
            self.reconnected.to_string(),
            calls.to_string(),
            rate,
            self.hanging.to_string(),
            self.timed_out.to_string(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use server::policy::Coherence;

    use super::*;

    #[test]
    fn a_volume_shows_since_when_calls_fail() {
        let mut open = OpenVolume {
            name: "gv0".into(),
            coherence: Coherence::Callback,
            failing_since: None,
            reconnected: 1,
            calls: vec![("h_lookupat", 2), ("pread_async", 3)],
            threads: 4,
            hanging: 5,
            timed_out: 6,
            caches: Vec::new(),
        };
        assert_eq!(Volume::from(open.clone()).row(), ["gv0", "callback", "connected", "1", "5", "-", "5", "6"]);
        open.caches = vec![("files", HitNumbers { hits: 7, misses: 2 }), ("names", HitNumbers { hits: 1, misses: 0 })];
        open.failing_since = Some(UNIX_EPOCH + Duration::from_secs(1));
        let row = Volume::from(open).row();
        assert_eq!((&*row[2], &*row[5]), (&*format!("calls fail since {}", when::utc(1)), "80 %"));
    }
}
