//! Changes that other programs make in watched directories.

use parking_lot::Mutex;
use server::vfs::watch::{Listener, Noticed, Wanted, Watching};
use server::vfs::{Create, Extent, RenameRequest, Replace, SetXattr};

use super::*;
use crate::watch::settle;

/// Records the events that it receives.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Listener for Notes {
    fn noticed(&self, path: &RelPath, what: Noticed) {
        let kind = |kind| if kind == Kind::Directory { "/" } else { "" };
        self.0.lock().push(match what {
            Noticed::Added(what) => format!("+{path}{}", kind(what)),
            Noticed::Removed(what) => format!("-{path}{}", kind(what)),
            Noticed::Renamed(what, to) => format!("{path}>{to}{}", kind(what)),
            Noticed::Content => format!("={path}"),
            Noticed::Attributes => format!("!{path}"),
        });
    }

    fn lost(&self) {
        self.0.lock().push("lost".into());
    }

    fn gone(&self) {
        self.0.lock().push("gone".into());
    }
}

const TREE: Wanted = Wanted { tree: true, content: false, attributes: false };
const EVERYTHING: Wanted = Wanted { tree: true, content: true, attributes: true };

fn watch(bed: &Bed, directory: &str, wanted: Wanted) -> (Arc<Notes>, Watching) {
    let notes = Arc::new(Notes::default());
    let (_, node, _) = bed.found(directory);
    let watching = node.watch(wanted, notes.clone()).expect("the kernel permits watching directories");
    (notes, watching)
}

/// Returns the events since the last call. The whole process shares one kernel queue, so other tests may cause it to be
/// read.
fn told(notes: &Notes) -> Vec<String> {
    settle();
    std::mem::take(&mut *notes.0.lock())
}

/// Waits until a subdirectory is watched, which happens soon after the tree itself is.
fn wait_for_subdirectory(bed: &Bed, notes: &Notes, directory: &str) {
    for _ in 0..10_000 {
        bed.local_write(&format!("{directory}/probe"), "");
        let seen = told(notes).iter().any(|note| note.contains("probe"));
        process(|| fs::remove_file(bed.root.join(directory).join("probe"))).expect("the file was just written");
        if seen {
            told(notes);
            return;
        }
    }
    panic!("{directory} is never watched");
}

#[test]
fn changes_by_local_programs_are_reported() {
    let bed = Bed::new();
    let (notes, _watching) = watch(&bed, "", EVERYTHING);
    process(|| {
        fs::write(bed.root.join("f"), "").expect("written");
        fs::write(bed.root.join("f"), "content").expect("written");
        fs::set_permissions(bed.root.join("f"), fs::Permissions::from_mode(0o600)).expect("the owner has permission");
        fs::rename(bed.root.join("f"), bed.root.join("g")).expect("renamed");
        fs::remove_file(bed.root.join("g")).expect("removed");
    });
    let mut notes = told(&notes);
    notes.dedup();
    assert_eq!(notes, ["+f", "=f", "!f", "f>g", "-g"]);
}

#[test]
fn changes_by_this_process_are_not_reported() {
    let bed = Bed::new();
    let (notes, _watching) = watch(&bed, "", EVERYTHING);
    let made = bed.fs.create(
        &bed.who,
        &path("d"),
        NewFile { dos_attributes: Some(0x10), ..NewFile::new(Create::Directory, 0o755) },
    );
    block_on(made).expect("a directory can be created");
    let (node, metadata) = bed.create("d/f");
    block_on(node.write(&bed.who, 0, Bytes::from_static(b"content").into(), false)).expect("written");
    block_on(node.write(&bed.who, 0, Bytes::from_static(b"content").into(), true)).expect("written");
    block_on(node.set_extent(&bed.who, Extent::Size(3))).expect("cut");
    let set = SetMetadata { mode: Some(0o600), dos_attributes: Some(2), ..SetMetadata::default() };
    block_on(node.set_metadata(&bed.who, set)).expect("set");
    block_on(node.set_xattr(&bed.who, "user.x", Some(b"y".to_vec()), SetXattr::Any)).expect("set");
    block_on(bed.fs.link(&bed.who, &node, &path("d/l"), Replace::Nothing)).expect("linked");
    block_on(bed.fs.rename(&bed.who, RenameRequest::new(&path("d/f"), metadata.id, &path("g")))).expect("renamed");
    block_on(bed.fs.link(&bed.who, &node, &path("d/l"), Replace::Any)).expect("linked again");
    block_on(bed.fs.unlink(&bed.who, &path("g"), metadata.id, Kind::File)).expect("removed");
    assert_eq!(told(&notes), [""; 0]);
    bed.local_write("local", "");
    assert_eq!(told(&notes).first().map(String::as_str), Some("+local"));
}

/// The kernel's watch of the directory ends slightly after the first subscription, and reports to the second any change
/// in between.
#[test]
fn changes_by_this_process_between_two_watches_are_not_reported() {
    let bed = Bed::new();
    for number in 0..100 {
        drop(watch(&bed, "", EVERYTHING));
        bed.create(&format!("own{number}"));
        let (notes, _watching) = watch(&bed, "", EVERYTHING);
        assert_eq!(told(&notes), [""; 0], "{number}");
    }
}

#[test]
fn directories_added_to_a_tree_are_watched_with_their_contents() {
    let bed = Bed::new();
    let (notes, _watching) = watch(&bed, "", TREE);
    process(|| fs::create_dir_all(bed.root.join("a/b"))).expect("made");
    bed.local_write("a/b/f", "");
    assert_eq!(told(&notes), ["+a/", "+a/b/", "+a/b/f"]);
    bed.local_write("a/b/g", "");
    process(|| fs::rename(bed.root.join("a"), bed.root.join("c"))).expect("renamed");
    assert_eq!(told(&notes), ["+a/b/g", "a>c/"]);
    bed.local_write("c/b/h", "");
    assert_eq!(told(&notes), ["+c/b/h"]);
    process(|| fs::rename(bed.root.join("c"), bed.outside("c"))).expect("moved away");
    assert_eq!(told(&notes), ["-c/"]);
    process(|| fs::write(bed.outside("c/b/i"), "")).expect("written");
    assert_eq!(told(&notes), [""; 0]);
}

#[test]
fn an_existing_tree_is_watched() {
    let bed = Bed::new();
    process(|| fs::create_dir_all(bed.root.join("a/b"))).expect("made");
    process(|| symlink("a", bed.root.join("link"))).expect("made");
    let (flat, _flat) = watch(&bed, "", Wanted::default());
    let (notes, _watching) = watch(&bed, "", TREE);
    wait_for_subdirectory(&bed, &notes, "a/b");
    bed.local_write("a/b/f", "");
    bed.local_write("link/g", "");
    assert_eq!(told(&notes), ["+a/b/f", "+a/g"]);
    assert_eq!(told(&flat), [""; 0]);
}

#[test]
fn several_watches_of_one_directory_and_their_removal() {
    let bed = Bed::new();
    let (first, watching) = watch(&bed, "", Wanted::default());
    let (second, _second) = watch(&bed, "", Wanted { content: true, ..Wanted::default() });
    bed.local_write("f", "content");
    assert_eq!(told(&first), ["+f"]);
    assert_eq!(told(&second), ["+f", "=f"]);
    drop(watching);
    bed.local_write("g", "");
    assert_eq!((told(&first), told(&second)), (vec![], vec!["+g".to_owned()]));
}

#[test]
fn only_directories_are_watched() {
    let bed = Bed::new();
    let (node, _) = bed.create("f");
    assert_eq!(node.watch(TREE, Arc::new(Notes::default())).err(), Some(Errno::NOTDIR));
}

/// A share opened by another path learns of changes through this one only from the kernel.
#[test]
fn changes_through_another_share() {
    let bed = Bed::new();
    process(|| symlink("share", bed.outside("alias"))).expect("made");
    let alias = LocalFs::open(&bed.outside("alias"), Options::default()).expect("the directory opens");
    let Ok(Lookup::Found { node, .. }) = block_on(alias.lookup(&bed.who, &path(""), LookupOptions::exact(FOLLOW)))
    else {
        panic!("the root is always found");
    };
    let (own, _watching) = watch(&bed, "", EVERYTHING);
    let notes = Arc::new(Notes::default());
    let _other = node.watch(EVERYTHING, notes.clone()).expect("the kernel permits watching directories");
    let (file, _) = bed.create("f");
    block_on(file.write(&bed.who, 0, Bytes::from_static(b"content").into(), false)).expect("written");
    assert_eq!(told(&notes), ["+f", "=f"]);
    assert_eq!(told(&own), [""; 0]);
}
