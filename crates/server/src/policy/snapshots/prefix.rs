//! Prefixes of the names of snapshots: `shadow:snapprefix` and `shadow:delimiter`.

use std::fmt;
use std::sync::Arc;

use crate::policy::limits::SNAPSHOT_NAME_MAX;

/// A compiled regular expression.
pub trait Pattern: fmt::Debug + Send + Sync {
    /// Returns whether it matches a part of `text`, which has no NUL.
    fn matches(&self, text: &[u8]) -> bool;
}

/// The prefix of a name, up to the delimiter before the time.
#[derive(Clone, Debug)]
pub struct Prefix {
    /// `shadow:snapprefix`, matched against the text before the delimiter.
    pub pattern: Arc<dyn Pattern>,
    /// `shadow:delimiter`. It is also the first part of the time: `shadow:format` begins with it.
    pub delimiter: Vec<u8>,
}

impl Prefix {
    /// Returns the rest of `name` from the first delimiter on, if the pattern matches what precedes it.
    pub fn strip<'a>(&self, name: &'a [u8]) -> Option<&'a [u8]> {
        if name.len() > SNAPSHOT_NAME_MAX {
            return None;
        }
        let at = match self.delimiter.len() {
            0 => 0,
            length => name.windows(length).position(|part| part == self.delimiter)?,
        };
        self.pattern.matches(&name[..at]).then(|| &name[at..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::snapshots::{Format, Snapshots, Sort};

    /// Matches text that begins with `auto`.
    #[derive(Debug)]
    struct Auto;

    impl Pattern for Auto {
        fn matches(&self, text: &[u8]) -> bool {
            text.starts_with(b"auto")
        }
    }

    fn snapshots(delimiter: &[u8], format: &str) -> Snapshots {
        Snapshots {
            directory: ".zfs/snapshot".into(),
            everywhere: false,
            cross_mount_points: false,
            mount_point: None,
            base: None,
            share_path: None,
            format: Format::parse(format, false).expect("a form"),
            prefix: Some(Prefix { pattern: Arc::new(Auto), delimiter: delimiter.to_vec() }),
            local: None,
            sort: Sort::Descending,
        }
    }

    #[test]
    fn the_time_begins_with_the_first_delimiter() {
        let sanoid = snapshots(b"_", "_%Y-%m-%d_%H:%M:%S");
        assert_eq!(sanoid.moment(b"autosnap_2015-10-31_19:40:30_hourly"), Some(1_446_320_430));
        assert_eq!(sanoid.moment(b"autosnap_2015-10-31_19:40:30"), Some(1_446_320_430));
        let zfs = snapshots(b"-20", "-%Y-%m-%d-%H%M");
        assert_eq!(zfs.moment(b"auto-snap_hourly-2015-10-31-1940"), Some(1_446_320_400));
        assert_eq!(snapshots(b"", "auto-%Y").moment(b"auto-1970"), None, "an empty prefix is matched too");
        assert_eq!(zfs.name(0), None);
        for name in [
            "manual_2015-10-31_19:40:30",
            "_2015-10-31_19:40:30",
            "autosnap2015-10-31",
            "auto_snap_2015-10-31_19:40:30",
            "autosnap",
            "",
            &format!("auto{:251}_2015-10-31_19:40:30", ""),
        ] {
            assert_eq!(sanoid.moment(name.as_bytes()), None, "{name}");
        }
    }
}
