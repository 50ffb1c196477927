//! The directories that a flush syncs, and that nothing else is synced.

use super::*;
use server::vfs::{Create, RenameRequest, Replace, SERVER};

impl Bed {
    /// Returns the files synced since the last call, by present names.
    fn synced(&self, names: &[(&str, FileId)]) -> Vec<String> {
        let all = std::mem::take(&mut *self.fs.0.synced.lock());
        let name = |id: &FileId| names.iter().find(|(_, known)| known == id).map_or("?", |(name, _)| name);
        all.iter().map(|id| name(id).to_owned()).collect()
    }

    fn make_directory(&self, name: &str) -> (Arc<dyn Node>, FileId) {
        let (node, metadata) =
            now(self.fs.create(&self.who, &path(name), NewFile::new(Create::Directory, 0o755))).opened();
        (node, metadata.id)
    }

    fn rename(&self, from: &str, id: FileId, to: &str) {
        now(self.fs.rename(&self.who, RenameRequest::new(&path(from), id, &path(to))));
    }
}

#[test]
fn a_new_file_is_flushed_with_all_new_parent_directories() {
    let bed = Bed::new();
    let root = ("root", bed.found("").2.id);
    let (a, b) = (("a", bed.make_directory("a").1), ("b", bed.make_directory("a/b").1));
    let (file, made) = bed.create("a/b/file");
    let names = [root, a, b, ("file", made.id)];
    write(&file, &bed.who, 0, b"x");
    assert_eq!(bed.synced(&names), [""; 0], "nothing was flushed");
    now(file.flush(&SERVER));
    assert_eq!(bed.synced(&names), ["file", "b", "a", "root"]);
    now(file.flush(&SERVER));
    assert_eq!(bed.synced(&names), ["file"], "everything else is on disk");
    let (other, second) = bed.create("a/b/other");
    now(other.flush(&SERVER));
    assert_eq!(bed.synced(&[root, a, b, ("other", second.id)]), ["other", "b"]);
}

#[test]
fn after_a_rename_any_handle_flushes_the_new_directory() {
    let bed = Bed::new();
    let root = ("root", bed.found("").2.id);
    let (old, new) = (("old", bed.make_directory("old").1), ("new", bed.make_directory("new").1));
    let (file, made) = bed.create("old/file");
    let names = [root, old, new, ("file", made.id)];
    now(file.flush(&SERVER));
    assert_eq!(bed.synced(&names), ["file", "old", "root"]);
    bed.rename("old/file", made.id, "new/renamed");
    assert_eq!(bed.synced(&names), [""; 0], "a rename syncs nothing");
    // A handle that was opened before the rename.
    now(file.flush(&SERVER));
    assert_eq!(bed.synced(&names), ["file", "new", "root"]);
    bed.rename("new/renamed", made.id, "old/again");
    drop(file);
    now(bed.found("old/again").1.flush(&SERVER));
    assert_eq!(bed.synced(&names), ["file", "old"]);
    // The directory of a new file was renamed: the directory that now has its former name is not synced.
    let (late, second) = bed.create("old/late");
    bed.rename("old", old.1, "moved");
    let decoy = ("decoy", bed.make_directory("old").1);
    now(late.flush(&SERVER));
    assert_eq!(bed.synced(&[root, old, decoy, ("late", second.id)]), ["late", "old", "root"]);
}

#[test]
fn a_directory_is_flushed_with_its_deletions() {
    let bed = Bed::new();
    let (directory, id) = bed.make_directory("dir");
    let (file, made) = bed.create("dir/file");
    let names = [("root", bed.found("").2.id), ("dir", id), ("file", made.id)];
    now(directory.flush(&SERVER));
    assert_eq!(bed.synced(&names), ["dir", "root"]);
    now(bed.fs.unlink(&bed.who, &path("dir/file"), made.id, Kind::File));
    assert_eq!(bed.synced(&names), [""; 0]);
    now(directory.flush(&SERVER));
    now(file.flush(&SERVER));
    assert_eq!(bed.synced(&names), ["dir", "file"], "a deleted file has no directory");
    now(bed.found("").1.flush(&SERVER));
    assert_eq!(bed.synced(&names), ["root"]);
}

#[test]
fn links_are_flushed_through_the_handle_that_created_them() {
    let bed = Bed::new();
    let (_, here) = bed.make_directory("here");
    let (file, made) = bed.create("file");
    let names = [("root", bed.found("").2.id), ("here", here), ("file", made.id)];
    now(file.flush(&SERVER));
    assert_eq!(bed.synced(&names), ["file", "root"]);
    now(bed.fs.link(&bed.who, &file, &path("here/link"), Replace::Nothing));
    assert_eq!(bed.synced(&names), [""; 0]);
    now(file.flush(&SERVER));
    assert_eq!(bed.synced(&names), ["file", "here", "root"]);
    now(file.flush(&SERVER));
    assert_eq!(bed.synced(&names), ["file"]);
}
