//! A walk over all files of a share. Each directory precedes its content, and names are in byte order, so that another
//! run finds the same order.

use std::path::Path;
use std::vec::IntoIter;

use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags};
use server::vfs::RelPath;

/// Report the count after this many files.
const TOLD: u64 = 10_000;

/// The walk. For each directory that it returns, the caller passes the directory's content to `enter`.
pub(super) struct Walk {
    /// The root, until it has been returned.
    root: Option<RelPath>,
    /// Directories in progress, each with its remaining names.
    open: Vec<Level>,
    /// Components of the path to start at, as long as the walk has not passed their directories.
    begin: Vec<Box<[u8]>>,
}

struct Level {
    path: RelPath,
    names: IntoIter<Box<[u8]>>,
}

impl Walk {
    /// Creates a walk that starts at `begin`, including the path itself and its parent directories.
    pub(super) fn new(begin: Option<&RelPath>) -> Walk {
        let begin = begin.map_or(Vec::new(), |path| path.components().map(Box::from).collect());
        Walk { root: Some(RelPath::root()), open: Vec::new(), begin }
    }

    /// Returns the next file.
    pub(super) fn next(&mut self) -> Option<RelPath> {
        if let Some(root) = self.root.take() {
            return Some(root);
        }
        while let Some(level) = self.open.last_mut() {
            match level.names.next() {
                // The path would exceed the maximum length, so no client can open it.
                Some(name) => match level.path.join(&name) {
                    Some(path) => return Some(path),
                    None => continue,
                },
                None => drop(self.open.pop()),
            }
        }
        None
    }

    /// Adds the directory `path`, which was the last one returned, with its sorted `names`.
    pub(super) fn enter(&mut self, path: RelPath, mut names: Vec<Box<[u8]>>) {
        let depth = path.components().count();
        let along = path.components().zip(&self.begin).filter(|(name, begin)| **name == ***begin).count() == depth;
        if let Some(begin) = self.begin.get(depth).filter(|_| along) {
            names.retain(|name| name >= begin);
        }
        self.open.push(Level { path, names: names.into_iter() });
    }
}

/// Counts the files below the directory `root` without following links, and reports the count now and then. It is an
/// estimate.
pub(super) fn count(root: &Path, tell: &mut dyn FnMut(u64)) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(top) = rustix::fs::open(root, flags, Mode::empty()) else { return };
    let (mut waiting, mut count) = (vec![b".".to_vec()], 1);
    while let Some(path) = waiting.pop() {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let directory = rustix::fs::openat2(&top, path.as_slice(), flags, Mode::empty(), resolve);
        let Ok(entries) = directory.and_then(Dir::new) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            count += 1;
            if count % TOLD == 0 {
                tell(count);
            }
            if entry.file_type() == FileType::Directory {
                waiting.push([&path, &b"/"[..], name].concat());
            }
        }
    }
    tell(count);
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: [(&str, &[&str]); 4] =
        [("", &["a", "b", "c"]), ("b", &["1", "2"]), ("b/2", &["x", "y"]), ("c", &["z"])];

    /// Returns the paths produced by a walk from `begin`.
    fn walked(begin: Option<&str>) -> Vec<String> {
        let begin = begin.map(|text| {
            let mut path = RelPath::root();
            text.split('/').for_each(|name| assert!(path.push(name.as_bytes())));
            path
        });
        let (mut walk, mut seen) = (Walk::new(begin.as_ref()), Vec::new());
        while let Some(path) = walk.next() {
            let text = String::from_utf8_lossy(path.as_bytes()).into_owned();
            if let Some((_, names)) = TREE.iter().find(|(directory, _)| *directory == text) {
                walk.enter(path, names.iter().map(|name| name.as_bytes().into()).collect());
            }
            seen.push(text);
        }
        seen
    }

    #[test]
    fn a_walk_visits_everything_or_resumes() {
        assert_eq!(walked(None), ["", "a", "b", "b/1", "b/2", "b/2/x", "b/2/y", "c", "c/z"]);
        for (begin, rest) in [
            ("a", &["", "a", "b", "b/1", "b/2", "b/2/x", "b/2/y", "c", "c/z"][..]),
            ("b", &["", "b", "b/1", "b/2", "b/2/x", "b/2/y", "c", "c/z"]),
            ("b/2/y", &["", "b", "b/2", "b/2/y", "c", "c/z"]),
            ("b/2/z", &["", "b", "b/2", "c", "c/z"]),
            ("bb", &["", "c", "c/z"]),
            ("c/z", &["", "c", "c/z"]),
            ("d", &[""]),
        ] {
            assert_eq!(walked(Some(begin)), rest, "{begin}");
        }
    }

    #[test]
    fn counting_does_not_follow_links() {
        let top = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(top.path().join("a/b")).unwrap();
        std::fs::write(top.path().join("a/b/c"), "").unwrap();
        std::os::unix::fs::symlink("/", top.path().join("a/out")).unwrap();
        let mut reported = 0;
        count(top.path(), &mut |count| reported = count);
        assert_eq!(reported, 5);
    }
}
