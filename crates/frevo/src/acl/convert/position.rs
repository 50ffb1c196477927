//! The position of an interrupted conversion: a file in the state directory, `acl-convert.SHARE`.

use std::io::{Read, Write};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use server::policy::{Share, fold};
use server::vfs::RelPath;

use accounts::state_dir::StateDir;

/// Size limit when reading the file, in bytes.
const LONGEST: u64 = 1 << 16;

/// The position file of one share.
pub(super) struct Position<'a> {
    state: &'a StateDir,
    name: String,
    /// The share's directory. A position is not valid for another directory.
    root: String,
}

#[derive(Serialize, Deserialize)]
struct Written {
    /// The share's directory.
    root: String,
    /// The last file that was converted: its path below the share's directory, with `%xx` for special bytes.
    path: String,
}

impl<'a> Position<'a> {
    /// Returns the position file of `share`.
    pub(super) fn of(state: &'a StateDir, share: &Share) -> Position<'a> {
        let name = format!("acl-convert.{}", escape(fold(&share.name).as_bytes(), b""));
        Position { state, name, root: share.path.to_string_lossy().into_owned() }
    }

    /// Reads where the last run was interrupted. Returns `None` if no run was, or if it was in another directory.
    pub(super) fn read(&self) -> Result<Option<RelPath>> {
        let Some(file) = self.state.open_file(&self.name)? else { return Ok(None) };
        let mut text = String::new();
        file.take(LONGEST).read_to_string(&mut text).with_context(|| self.name.clone())?;
        // A damaged file only means starting from the beginning.
        let written: Option<Written> = serde_json::from_str(&text).ok();
        Ok(written.filter(|written| written.root == self.root).and_then(|written| path(&written.path)))
    }

    /// Records that everything up to `path` is done.
    pub(super) fn write(&self, path: &RelPath) -> Result<()> {
        let written = Written { root: self.root.clone(), path: escape(path.as_bytes(), b"/") };
        let new = format!("{}.new", self.name);
        self.state.remove(&new)?;
        self.state.create_file(&new)?.write_all(&serde_json::to_vec(&written)?).context("cannot save the position")?;
        self.state.rename(&new, &self.name)
    }

    /// Removes the position because the conversion is complete.
    pub(super) fn remove(&self) -> Result<()> {
        self.state.remove(&self.name)
    }
}

/// Escapes `bytes`: all except letters, digits, `-`, `_`, `.` and the bytes in `plain` become `%xx`.
fn escape(bytes: &[u8], plain: &[u8]) -> String {
    let mut text = String::new();
    for &byte in bytes {
        match byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) || plain.contains(&byte) {
            true => text.push(char::from(byte)),
            false => text += &format!("%{byte:02x}"),
        }
    }
    text
}

/// Parses an escaped path.
fn path(text: &str) -> Option<RelPath> {
    let mut path = RelPath::root();
    for component in text.split('/').filter(|component| !component.is_empty()) {
        let mut bytes = Vec::new();
        let mut rest = component.as_bytes();
        while let [first, after @ ..] = rest {
            rest = after;
            bytes.push(match (first, after) {
                (b'%', [high, low, after @ ..]) => {
                    rest = after;
                    let digits = [*high, *low];
                    u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
                }
                (b'%', _) => return None,
                (plain, _) => *plain,
            });
        }
        path.push(&bytes).then_some(())?;
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_stored_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::create(&dir.path().join("state")).unwrap();
        let share = Share::new("My/Share", "/srv/x");
        let position = Position::of(&state, &share);
        assert_eq!(position.read().unwrap(), None);
        for names in [&[&b"plain"[..]][..], &[b"a b", "\u{e4}%41".as_bytes(), b"\xff\xfe"], &[]] {
            let mut path = RelPath::root();
            names.iter().for_each(|name| assert!(path.push(name)));
            position.write(&path).unwrap();
            assert_eq!(position.read().unwrap(), Some(path));
        }
        let moved = Share::new("my/share", "/srv/y");
        assert_eq!(Position::of(&state, &moved).read().unwrap(), None, "of another directory");
        std::fs::write(state.path().join("acl-convert.my%2fshare"), "{").unwrap();
        assert_eq!(position.read().unwrap(), None, "damaged");
        position.remove().unwrap();
        assert_eq!(std::fs::read_dir(state.path()).unwrap().count(), 0);
    }

    #[test]
    fn invalid_paths_are_refused() {
        for text in ["%", "%4", "%zz", "a/%00", "../a"] {
            assert!(path(text).is_none(), "{text}");
        }
    }
}
