//! Which thread reads a directory.

use super::*;

/// Lists the directory `name` from its start on this thread. `None` if that is a worker's task.
fn at_once(bed: &Bed, name: &str, count: usize) -> Option<Page> {
    let open = crate::node::of(&bed.found(name).1).expect("a node of this file system");
    open.list_at_once(&bed.who, ListRequest { cursor: 0, count, metadata: true }).expect("the directory can be read")
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
    directory(&bed, "small", (0..10).map(|index| index.to_string()));
    let page = at_once(&bed, "small", 1000).expect("a page");
    assert_eq!(page.entries.len(), 10);
    assert!(page.entries.iter().all(|entry| entry.metadata.is_some()));
    let page = at_once(&bed, "small", 1).expect("a page");
    assert_eq!((page.entries.len(), page.is_last), (1, false));
}

#[test]
fn a_large_directory_is_listed_by_a_worker_even_when_it_is_empty() {
    let bed = Bed::new();
    let names = || (0..1000).map(|index| format!("{index:0200}"));
    directory(&bed, "large", names());
    assert_eq!(at_once(&bed, "large", 10), None);
    process(|| names().try_for_each(|name| fs::remove_file(bed.root.join("large").join(name)))).expect("they exist");
    let length = process(|| fs::metadata(bed.root.join("large"))).expect("the directory").len();
    // Some file systems make a directory shorter again.
    assert_eq!(at_once(&bed, "large", 1).is_some(), length <= 16_384, "a directory of {length} bytes");
    assert!(block_on(server::vfs::is_empty(&bed.found("large").1, &bed.who)).expect("the directory can be read"));
}
