//! Which thread reads a directory.

use super::*;

/// Lists the directory `name` from its start. Returns the first page, and whether it was made on this thread.
fn first_page(bed: &Bed, name: &str, count: usize) -> (Page, bool) {
    let (_, node, _) = bed.found(name);
    match node.list(&bed.who, ListRequest { cursor: 0, count, metadata: true }) {
        Answer::Now(page) => (page.expect("an answer").expect("a page"), true),
        later => (block_on(later).expect("a page"), false),
    }
}

/// Creates the directory `name` with empty files.
fn directory(bed: &Bed, name: &str, mut files: impl Iterator<Item = String>) {
    let path = bed.root.join(name);
    process(|| {
        fs::create_dir(&path)?;
        chown(&path, Some(bed.who.uid), Some(bed.who.gid))?;
        files.try_for_each(|file| fs::write(path.join(file), ""))
    })
    .expect("the process has permission");
}

#[test]
fn a_small_directory_is_listed_on_the_calling_thread() {
    let bed = Bed::new();
    directory(&bed, "small", (0..100).map(|index| index.to_string()));
    let (page, here) = first_page(&bed, "small", 1000);
    assert_eq!((page.entries.len(), page.is_last, here), (100, true, true));
    assert!(page.entries.iter().all(|entry| entry.metadata.is_some()));
    let (page, here) = first_page(&bed, "small", 1);
    assert_eq!((page.entries.len(), page.is_last, here), (1, false, true));
}

#[test]
fn a_large_directory_is_listed_by_a_worker_even_when_it_is_empty() {
    let bed = Bed::new();
    let names = || (0..1000).map(|index| format!("{index:0200}"));
    directory(&bed, "large", names());
    let (page, here) = first_page(&bed, "large", 10);
    assert_eq!((page.entries.len(), page.is_last, here), (10, false, false));
    process(|| names().try_for_each(|name| fs::remove_file(bed.root.join("large").join(name)))).expect("they exist");
    let length = process(|| fs::metadata(bed.root.join("large"))).expect("the directory").len();
    let (page, here) = first_page(&bed, "large", 1);
    assert_eq!((page.entries.len(), page.is_last), (0, true));
    assert_eq!(here, length < 16_385, "a directory of {length} bytes");
}
