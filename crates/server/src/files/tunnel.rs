//! Tunneling of names ([MS-FSA] 2.1.1.2). A program that saves a file by deleting it and creating it again by its short
//! name gets the long name back. Only shares with short names need this.
//!
//! Creation times and object ids, which Windows tunnels as well, are not kept.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;

use crate::name::short::mangle;
use crate::policy::limits::TUNNELED_NAMES;
use crate::vfs::RelPath;

/// How long a name is kept, as on Windows.
const KEPT: Duration = Duration::from_secs(15);

/// The names that were removed last.
#[derive(Default)]
pub struct Tunnel(Mutex<VecDeque<Gone>>);

struct Gone {
    volume: u64,
    path: RelPath,
    until: Duration,
}

impl Tunnel {
    /// Records a removed name.
    pub fn enter(&self, volume: u64, path: RelPath, now: Duration) {
        let mut gone = self.0.lock();
        if gone.len() >= TUNNELED_NAMES {
            gone.pop_front();
        }
        gone.push_back(Gone { volume, path, until: now.saturating_add(KEPT) });
    }

    /// Returns the name in `directory` with the short name `short` that was removed last.
    pub fn long_name(&self, volume: u64, directory: &RelPath, short: &[u8], now: Duration) -> Option<Box<[u8]>> {
        let mut gone = self.0.lock();
        gone.retain(|entry| entry.until > now);
        gone.iter().rev().find_map(|entry| {
            let name = entry.path.name()?;
            let meant = entry.volume == volume && entry.path.parent().as_ref() == Some(directory);
            (meant && mangle(name).as_bytes().eq_ignore_ascii_case(short)).then(|| name.into())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_restored_for_a_while_in_its_directory() {
        let path = |text: &str| text.split('/').fold(RelPath::root(), |path, name| path.join(name.as_bytes()).unwrap());
        let (tunnel, second) = (Tunnel::default(), Duration::from_secs);
        tunnel.enter(1, path("folder/a long name.text"), second(100));
        let short = mangle(b"a long name.text").to_lowercase();
        let found =
            |volume, folder, at| tunnel.long_name(volume, &path(folder), short.as_bytes(), second(at)).is_some();
        assert!(found(1, "folder", 114));
        assert!(!found(2, "folder", 100) && !found(1, "other", 100), "another directory");
        assert!(!found(1, "folder", 115), "too late");
        for number in 0..2 * TUNNELED_NAMES {
            tunnel.enter(1, path(&format!("folder/{number}")), second(200));
        }
        assert_eq!(tunnel.0.lock().len(), TUNNELED_NAMES);
    }
}
