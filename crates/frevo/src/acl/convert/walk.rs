//! All files of a share, each directory before what is in it, names in the order of their bytes: an order that another run
//! finds again.

use std::path::Path;
use std::vec::IntoIter;

use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags};
use server::vfs::RelPath;

/// How often the count is told.
const TOLD: u64 = 10_000;

/// The walk. Whoever gets a directory from it tells what is in it.
pub(super) struct Walk {
    /// What comes first.
    root: Option<RelPath>,
    /// Directories that are not through, each with the names that come.
    open: Vec<Level>,
    /// The components of the path that it begins at, where it is not through with their directories.
    begin: Vec<Box<[u8]>>,
}

struct Level {
    path: RelPath,
    names: IntoIter<Box<[u8]>>,
}

impl Walk {
    /// From `begin` on, itself and its directories included.
    pub(super) fn new(begin: Option<&RelPath>) -> Walk {
        let begin = begin.map_or(Vec::new(), |path| path.components().map(Box::from).collect());
        Walk { root: Some(RelPath::root()), open: Vec::new(), begin }
    }

    /// The next file.
    pub(super) fn next(&mut self) -> Option<RelPath> {
        if let Some(root) = self.root.take() {
            return Some(root);
        }
        while let Some(level) = self.open.last_mut() {
            match level.names.next() {
                // Longer than a path can be: nobody can open it.
                Some(name) => match level.path.join(&name) {
                    Some(path) => return Some(path),
                    None => continue,
                },
                None => drop(self.open.pop()),
            }
        }
        None
    }

    /// `path`, which came last, is a directory with `names`, which are in order.
    pub(super) fn enter(&mut self, path: RelPath, mut names: Vec<Box<[u8]>>) {
        let depth = path.components().count();
        let along = path.components().zip(&self.begin).filter(|(name, begin)| **name == ***begin).count() == depth;
        if let Some(begin) = self.begin.get(depth).filter(|_| along) {
            names.retain(|name| name >= begin);
        }
        self.open.push(Level { path, names: names.into_iter() });
    }
}

/// Counts the files beneath the directory `root`, following no link, and tells it now and then. It need not be right.
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

    /// The paths that a walk from `begin` on gives.
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
    fn all_or_the_rest() {
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
    fn counting_follows_no_link() {
        let top = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(top.path().join("a/b")).unwrap();
        std::fs::write(top.path().join("a/b/c"), "").unwrap();
        std::os::unix::fs::symlink("/", top.path().join("a/out")).unwrap();
        let mut told = 0;
        count(top.path(), &mut |count| told = count);
        assert_eq!(told, 5);
    }
}
