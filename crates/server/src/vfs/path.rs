//! [`RelPath`]: a path below a share's root whose text cannot name anything outside that root.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Components joined by `/`; the empty path is the root itself. No component is empty, `.`, `..`, contains a `/` or a
/// NUL, or is longer than 255 bytes. Joining the path to a root therefore never leaves that root (symbolic links are
/// handled by the file system). Names are bytes as Linux stores them, not necessarily UTF-8. Copies share their memory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RelPath(Option<Arc<Vec<u8>>>);

impl RelPath {
    /// The share's root.
    pub const fn root() -> Self {
        RelPath(None)
    }

    fn of(bytes: Vec<u8>) -> Self {
        RelPath(if bytes.is_empty() { None } else { Some(Arc::new(bytes)) })
    }

    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_none()
    }

    /// Appends a component. Returns `false` and changes nothing if it is invalid (empty, `.`, `..`, with `/` or NUL, or
    /// over 255 bytes).
    #[must_use = "refused components are never appended"]
    pub fn push(&mut self, name: &[u8]) -> bool {
        let forbidden = matches!(name, b"" | b"." | b"..") || name.len() > 255;
        if forbidden || name.iter().any(|&byte| byte == b'/' || byte == 0) {
            return false;
        }
        let is_root = self.is_root();
        let bytes = Arc::make_mut(self.0.get_or_insert_default());
        if !is_root {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(name);
        true
    }

    /// Returns this path with one more component; `None` where `name` is invalid.
    pub fn join(&self, name: &[u8]) -> Option<RelPath> {
        let mut path = self.clone();
        path.push(name).then_some(path)
    }

    /// The components from the root down.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.as_bytes().split(|&byte| byte == b'/').filter(|name| !name.is_empty())
    }

    /// The last component; `None` for the root.
    pub fn name(&self) -> Option<&[u8]> {
        self.components().next_back()
    }

    /// The directory that holds this path; `None` for the root.
    pub fn parent(&self) -> Option<RelPath> {
        let bytes = self.0.as_ref()?;
        let end = bytes.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        Some(RelPath::of(bytes[..end].to_vec()))
    }

    /// Returns whether this path is below `other` (and is not `other` itself).
    pub fn is_beneath(&self, other: &RelPath) -> bool {
        if other.is_root() {
            return !self.is_root();
        }
        let below = self.as_bytes().strip_prefix(other.as_bytes());
        below.is_some_and(|below| below.starts_with(b"/"))
    }

    /// Returns this path after the directory `from` above it was renamed to `to`; `None` if it is not below `from`.
    pub fn moved(&self, from: &RelPath, to: &RelPath) -> Option<RelPath> {
        if !self.is_beneath(from) || from.is_root() || to.is_root() {
            return None;
        }
        Some(RelPath::of([to.as_bytes(), &self.as_bytes()[from.as_bytes().len()..]].concat()))
    }

    /// The bytes, components joined by `/`.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |bytes| bytes)
    }

    /// The path for the operating system; `.` for the root.
    pub fn as_path(&self) -> &Path {
        if self.is_root() { Path::new(".") } else { Path::new(OsStr::from_bytes(self.as_bytes())) }
    }
}

impl fmt::Debug for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_path())
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        String::from_utf8_lossy(self.as_bytes()).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_real_names_are_appended() {
        let mut path = RelPath::root();
        for name in [&b""[..], b".", b"..", b"a/b", b"a\0", &[b'x'; 256]] {
            assert!(!path.push(name), "{name:?}");
        }
        assert!(path.is_root());
        assert!(path.push(b"a") && path.push(b"...") && path.push(&[0xff]));
        assert_eq!(path.as_bytes(), b"a/.../\xff");
    }

    #[test]
    fn parents_and_descendants() {
        let dir = RelPath::root().join(b"dir").unwrap();
        let file = dir.join(b"file").unwrap();
        assert_eq!(file.parent(), Some(dir.clone()));
        assert_eq!(dir.parent(), Some(RelPath::root()));
        assert_eq!(RelPath::root().parent(), None);
        assert!(file.is_beneath(&dir) && file.is_beneath(&RelPath::root()));
        let moved = file.moved(&dir, &RelPath::root().join(b"else").unwrap());
        assert_eq!(moved.unwrap().as_bytes(), b"else/file");
        assert_eq!(file.moved(&file, &dir), None);
        assert!(!dir.is_beneath(&dir) && !RelPath::root().join(b"dirt").unwrap().is_beneath(&dir));
    }
}
