//! What the client's configuration of a volume (its volfile) says about its translators.

use std::time::Duration;

/// The options of a volume that matter here. `network.inode-lru-limit` and the options `features.*` are those of
/// bricks, and are not in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Volfile {
    /// `performance.stat-prefetch`: the library caches metadata.
    pub caches_metadata: bool,
    /// `performance.cache-invalidation`: the library's cache relies on the servers to report changes.
    pub invalidates: bool,
    /// `performance.md-cache-timeout`, if it is set.
    pub cached_for: Option<Duration>,
    /// `performance.write-behind`: writes are accepted before a brick has them.
    pub writes_behind: bool,
    /// `performance.parallel-readdir`: all bricks are asked for a listing at the same time.
    pub parallel_listings: bool,
    /// `server.manage-gids`: bricks look up the groups of a user, and ignore those that they are sent.
    pub looks_up_groups: bool,
    /// The number of bricks.
    pub bricks: usize,
    /// The number of parts between which files are distributed by name; 0 if they are not.
    pub parts: usize,
}

impl Volfile {
    /// Parses sections of the form `volume NAME`, `type TRANSLATOR`, `option KEY VALUE`, `subvolumes NAME...`,
    /// `end-volume`.
    pub(crate) fn parse(text: &str) -> Volfile {
        let mut found = Volfile::default();
        let mut translator = "";
        for line in text.lines() {
            let mut words = line.split_whitespace();
            match (translator, words.next(), words.next()) {
                (_, Some("type"), Some(name)) => {
                    translator = name;
                    match name {
                        "performance/write-behind" => found.writes_behind = true,
                        "performance/md-cache" => found.caches_metadata = true,
                        "protocol/client" => found.bricks += 1,
                        _ => {}
                    }
                }
                ("cluster/distribute", Some("subvolumes"), Some(_)) => found.parts = 1 + words.count(),
                (_, Some("option"), Some(key)) => found.set(translator, key, words.next().unwrap_or_default()),
                _ => {}
            }
        }
        found
    }

    /// Returns the name of the translator that distributes files among several parts, if there is one.
    pub(crate) fn distribution(text: &str) -> Option<&str> {
        let (mut volume, mut translator) = ("", "");
        for line in text.lines() {
            let mut words = line.split_whitespace();
            match (words.next(), words.next()) {
                (Some("volume"), Some(name)) => volume = name,
                (Some("type"), Some(name)) => translator = name,
                (Some("subvolumes"), Some(_)) if translator == "cluster/distribute" && words.next().is_some() => {
                    return Some(volume);
                }
                _ => {}
            }
        }
        None
    }

    fn set(&mut self, translator: &str, key: &str, value: &str) {
        let is_on = matches!(value, "on" | "true" | "yes" | "enable" | "1");
        match (translator, key) {
            ("performance/md-cache", "cache-invalidation") => self.invalidates = is_on,
            ("performance/md-cache", "md-cache-timeout") => {
                self.cached_for = value.parse().ok().map(Duration::from_secs)
            }
            ("performance/readdir-ahead", "parallel-readdir") => self.parallel_listings = is_on,
            ("protocol/client", "send-gids") => self.looks_up_groups |= !is_on,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_of_translators_are_found() {
        let text = "volume v-client-0\n    type protocol/client\n    option send-gids true\nend-volume\n\n\
                    volume v-client-1\n    type protocol/client\n    option send-gids off\nend-volume\n\n\
                    volume v-readdir-ahead-0\n    type performance/readdir-ahead\n    option parallel-readdir on\n    \
                    subvolumes v-client-0\nend-volume\n\n\
                    volume v-dht\n    type cluster/distribute\n    subvolumes v-readdir-ahead-0 v-client-1\n\
                    end-volume\n\n\
                    volume v-write-behind\n    type performance/write-behind\n    subvolumes v-dht\nend-volume\n\n\
                    volume v-md-cache\n    type performance/md-cache\n    option cache-invalidation true\n    \
                    option md-cache-timeout 600\n    subvolumes v-write-behind\nend-volume\n";
        let expected = Volfile {
            caches_metadata: true,
            invalidates: true,
            cached_for: Some(Duration::from_secs(600)),
            writes_behind: true,
            parallel_listings: true,
            looks_up_groups: true,
            bricks: 2,
            parts: 2,
        };
        assert_eq!(Volfile::parse(text), expected);
        assert_eq!(Volfile::distribution(text), Some("v-dht"));
        let other = "volume a\n type performance/quick-read\n option cache-invalidation true\n\
                     option parallel-readdir on\n subvolumes b c\nend-volume\n";
        assert_eq!(Volfile::parse(other), Volfile::default(), "they are another translator's");
        let one = "volume v-dht\n type cluster/distribute\n subvolumes v-replicate-0\nend-volume\n";
        assert_eq!(Volfile::distribution(one), None, "it has one part");
        assert_eq!(Volfile::parse("option\ntype\n\noption x\nsubvolumes"), Volfile::default());
    }
}
