//! Temporary names that a crash leaves while a link replaces another file.

use server::vfs::{LINKS, Replace, Time};

use super::*;
use crate::aside::{self, Aside};

/// A time later than everything that a test creates.
const LATER: Time = Time { secs: i64::MAX, nanos: 0 };

impl Bed {
    /// Creates the state after a crash: the note, and the second name of `file` in `directory`. Returns its path.
    fn crash(&self, directory: &str, file: &str) -> PathBuf {
        let id = self.found(file).2.id;
        let directory = self.root.join(directory);
        process(|| {
            let held = fs::File::open(&directory).unwrap().into();
            let aside = Aside::new(&self.fs.0, &held, id);
            let path = directory.join(std::ffi::OsStr::from_bytes(aside.name()));
            fs::hard_link(self.root.join(file), &path).unwrap();
            aside.abandon();
            path
        })
    }

    fn clean(&self) {
        process(|| aside::remove_older(&self.fs.0.root, LATER));
    }
}

#[test]
fn links_left_by_a_crash_are_removed_when_the_share_is_opened() {
    let bed = Bed::new();
    bed.local_write("file", "kept");
    process(|| fs::create_dir(bed.root.join("dir"))).unwrap();
    let left = [bed.crash("", "file"), bed.crash("dir", "file")];
    // A running process's notes are not older than the process itself.
    drop(LocalFs::open(&bed.root, Options::default()).expect("opens"));
    assert!(left.iter().all(|path| process(|| path.exists())));
    bed.clean();
    assert!(!left.iter().any(|path| process(|| path.exists())));
    assert!(!process(|| bed.root.join(LINKS).exists()), "no records are left");
    assert_eq!(process(|| fs::read_to_string(bed.root.join("file"))).unwrap(), "kept");
}

#[test]
fn nothing_else_is_removed() {
    let bed = Bed::new();
    for name in ["file", "other"] {
        bed.local_write(name, name);
    }
    // Another file has the name now; it is the file's last name; it is a link to another file; it does not exist.
    let replaced = bed.crash("", "file");
    process(|| fs::rename(bed.root.join("other"), &replaced)).unwrap();
    let last = bed.crash("", "file");
    process(|| fs::remove_file(bed.root.join("file"))).unwrap();
    bed.clean();
    assert_eq!(process(|| fs::read_to_string(&replaced)).unwrap(), "other");
    assert_eq!(process(|| fs::read_to_string(&last)).unwrap(), "file");
    assert!(!process(|| bed.root.join(LINKS).exists()), "each record is used once");
}

#[test]
fn notes_of_another_user_are_ignored() {
    if cannot_switch() {
        return;
    }
    let bed = Bed::new();
    bed.local_write("victim", "kept");
    let victim = bed.found("victim").2.id;
    process(|| {
        fs::hard_link(bed.root.join("victim"), bed.root.join(".frevo-link-1-1")).unwrap();
        let notes = bed.root.join(LINKS);
        fs::create_dir(&notes).unwrap();
        chown(&notes, Some(61_003), Some(61_003)).unwrap();
        fs::set_permissions(&notes, fs::Permissions::from_mode(0o700)).unwrap();
        symlink(".frevo-link-1-1", notes.join(format!(".frevo-link-1-1-{:x}", victim.inode))).unwrap();
    });
    bed.clean();
    assert!(process(|| bed.root.join(".frevo-link-1-1").exists()));
    // Links that replace a file still work, but are not noted.
    let (node, _) = bed.create("new");
    assert_eq!(block_on(bed.fs.link(&bed.who, &node, &path("victim"), Replace::Any)), Ok(()));
}
