//! Names that just went away ([MS-FSA] 2.1.1.2): a program that saves by deleting a file by its short name and making it
//! again by that gets the long name back. Only shares with short names have any use for it.
//!
//! Leaves out what else Windows keeps so: creation times and object ids.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;

use crate::name::short::mangle;
use crate::vfs::RelPath;

/// How long a name is kept, as on Windows.
const KEPT: Duration = Duration::from_secs(15);
/// How many are kept: a program makes its file anew at once, before others delete so many.
const LIMIT: usize = 256;

/// The names that went away last.
#[derive(Default)]
pub struct Tunnel(Mutex<VecDeque<Gone>>);

struct Gone {
    volume: u64,
    path: RelPath,
    until: Duration,
}

impl Tunnel {
    /// A name is gone.
    pub fn enter(&self, volume: u64, path: RelPath, now: Duration) {
        let mut gone = self.0.lock();
        if gone.len() >= LIMIT {
            gone.pop_front();
        }
        gone.push_back(Gone { volume, path, until: now.saturating_add(KEPT) });
    }

    /// The name in `directory` that was known by `short` and went away last.
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
    fn a_name_comes_back_for_a_while_in_its_directory() {
        let path = |text: &str| text.split('/').fold(RelPath::root(), |path, name| path.join(name.as_bytes()).unwrap());
        let (tunnel, second) = (Tunnel::default(), Duration::from_secs);
        tunnel.enter(1, path("folder/a long name.text"), second(100));
        let short = mangle(b"a long name.text").to_lowercase();
        let found =
            |volume, folder, at| tunnel.long_name(volume, &path(folder), short.as_bytes(), second(at)).is_some();
        assert!(found(1, "folder", 114));
        assert!(!found(2, "folder", 100) && !found(1, "other", 100), "another directory");
        assert!(!found(1, "folder", 115), "too late");
        for number in 0..2 * LIMIT {
            tunnel.enter(1, path(&format!("folder/{number}")), second(200));
        }
        assert_eq!(tunnel.0.lock().len(), LIMIT);
    }
}
