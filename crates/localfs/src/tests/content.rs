//! Content, and names of open files.

use server::vfs::{
    Cancellation, Case, Create, Extent, ListRequest, Metadata, Page, RenameRequest, Replace, SERVER, cancellable,
    read_into,
};
use std::os::fd::AsFd;

use rustix::fs::Advice;
use server::vfs::DataRange;

use super::*;
use crate::sys::{self, LeaseKind};

/// Bytes that differ from position to position.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at / 4096 * 31 + at) as u8).collect()
}

#[track_caller]
fn read(node: &Arc<dyn Node>, offset: u64, length: usize) -> Vec<u8> {
    let (mut buffer, count) = block_on(read_into(node, &SERVER, offset, vec![0; length], 0));
    buffer.truncate(count.expect("an open file is read"));
    buffer
}

/// Evicts a file, or every second piece of it, from the page cache.
pub(super) fn forget(file: &Path, pieces: bool) {
    let file = process(|| fs::File::open(file)).expect("the process has permission");
    file.sync_all().expect("there is free space");
    let step = 1 << 20;
    for offset in (0..8 * step).step_by(2 * step as usize) {
        let length = if pieces { step } else { 2 * step };
        rustix::fs::fadvise(file.as_fd(), offset, length.try_into().ok(), Advice::DontNeed).expect("fadvise succeeds");
    }
}

#[test]
fn reads_are_whole_whatever_is_cached() {
    let bed = Bed::new();
    let (node, _) = bed.create("file");
    let data = pattern(8 << 20);
    write(&node, &bed.who, 0, &data);
    for pieces in [true, false] {
        forget(&bed.root.join("file"), pieces);
        assert!(read(&node, 0, 9 << 20) == data, "pieces: {pieces}");
        forget(&bed.root.join("file"), pieces);
        assert!(read(&node, 4_000_000, 1 << 20) == data[4_000_000..][..1 << 20], "pieces: {pieces}");
    }
    now(node.flush(&SERVER));
}

#[test]
fn offsets_at_the_maximum_file_size() {
    let bed = Bed::new();
    let (node, _) = bed.create("file");
    write(&node, &bed.who, 0, b"x");
    for offset in [u64::MAX, i64::MAX as u64, i64::MAX as u64 + 1] {
        assert_eq!(read(&node, offset, 10), b"");
        let byte = Bytes::from_static(b"xy");
        assert_eq!(block_on(node.write(&bed.who, offset, byte.into(), false)), Err(Errno::FBIG), "{offset}");
        assert_eq!(block_on(node.set_extent(&bed.who, Extent::Zero { offset, length: u64::MAX })), Ok(()));
        assert_eq!(block_on(node.data_ranges(&SERVER, offset, u64::MAX)), Ok(Vec::new()));
    }
    assert_eq!(read(&node, i64::MAX as u64 - 1, 10), b"");
    assert_eq!(block_on(node.set_extent(&bed.who, Extent::Size(u64::MAX))), Err(Errno::FBIG));
    assert_eq!(block_on(node.set_extent(&bed.who, Extent::Reserve(u64::MAX))), Err(Errno::FBIG));
    assert_eq!(block_on(read_into(&node, &SERVER, 0, Vec::new(), 1)).1, Err(Errno::INVAL));
    assert_eq!(now(node.metadata(&SERVER)).size, 1);
}

#[test]
fn data_and_holes() {
    let bed = Bed::new();
    let (node, _) = bed.create("file");
    let mega = 1 << 20;
    for number in 0..4 {
        write(&node, &bed.who, number * 2 * mega, &pattern(mega as usize));
    }
    let ranges = now(node.data_ranges(&SERVER, 0, u64::MAX));
    let expected: Vec<_> = (0..4).map(|number| DataRange { offset: number * 2 * mega, length: mega }).collect();
    assert_eq!(ranges, expected);
    now(node.set_extent(&bed.who, Extent::Zero { offset: 0, length: mega }));
    assert_eq!(now(node.data_ranges(&SERVER, 0, 3 * mega)), [DataRange { offset: 2 * mega, length: mega }]);
    assert!(now(node.metadata(&SERVER)).allocated <= 3 * mega + 65_536);
}

#[test]
fn large_files_are_created_and_deleted() {
    let bed = Bed::new();
    let (node, made) = bed.create("file");
    now(node.set_extent(&bed.who, Extent::Reserve(200 << 20)));
    assert!(now(node.metadata(&SERVER)).allocated >= 200 << 20);
    now(node.set_extent(&bed.who, Extent::Size(200 << 20)));
    now(node.set_extent(&bed.who, Extent::Size(1)));
    assert_eq!(now(node.metadata(&SERVER)).size, 1);
    now(node.set_extent(&bed.who, Extent::Reserve(100 << 20)));
    assert_eq!(block_on(bed.fs.unlink(&bed.who, &path("file"), made.id, Kind::File)).map(|_| ()), Ok(()));
    assert_eq!(now(node.metadata(&SERVER)).links, 0);
}

/// Takes a lease as another process would, whose break is reported to nothing.
fn leased(path: &Path, kind: LeaseKind) -> fs::File {
    process(|| {
        let file = fs::File::open(path).expect("opens");
        // SIGCHLD, which is ignored, instead of a signal that would end the process.
        sys::set_signal(file.as_fd(), libc::SIGCHLD, rustix::thread::gettid()).expect("a signal");
        sys::set_lease(file.as_fd(), kind).expect("a lease");
        file
    })
}

#[test]
fn no_open_waits_for_a_lease() {
    let bed = Bed::new();
    bed.local_write("file", "x");
    process(|| fs::set_permissions(bed.root.join("file"), fs::Permissions::from_mode(0o666))).unwrap();
    let node = bed.found("file").1;
    let leased = leased(&bed.root.join("file"), LeaseKind::Reading);
    assert_eq!(block_on(node.open(&bed.who, BOTH)).err(), Some(Errno::AGAIN));
    assert_eq!(content(&node, &bed.who), "x", "readers do not wait");
    process(|| sys::set_lease(leased.as_fd(), LeaseKind::Free)).unwrap();
    write(&now(node.open(&bed.who, BOTH)), &bed.who, 0, b"y");
    assert_eq!(content(&node, &bed.who), "y");
}

#[test]
fn a_deleted_file_gets_no_new_name() {
    let bed = Bed::new();
    let (node, made) = bed.create("file");
    assert_eq!(block_on(bed.fs.unlink(&bed.who, &path("file"), made.id, Kind::File)).map(|_| ()), Ok(()));
    assert_eq!(block_on(bed.fs.link(&bed.who, &node, &path("again"), Replace::Nothing)), Err(Errno::NOENT));
    assert!(bed.is_missing("again"));
}

#[test]
fn links_replace_files_atomically_and_leave_no_temporary_names() {
    let bed = Bed::new();
    let (node, a) = bed.create("a");
    bed.create("b");
    let link = |to: &str| block_on(bed.fs.link(&bed.who, &node, &path(to), Replace::Any));
    assert_eq!([link("b"), link("b"), link("a")], [Ok(()); 3]);
    assert_eq!(bed.found("b").2.id, a.id);
    // Renaming one name of a file to another leaves one name.
    assert_eq!(
        block_on(bed.fs.rename(&bed.who, RenameRequest::new(&path("a"), a.id, &path("b")).replacing(Replace::Any))),
        Ok(())
    );
    let root = bed.found("").1;
    let Page { entries, .. } = now(root.list(&bed.who, ListRequest { cursor: 0, count: 10, metadata: false }));
    assert_eq!(entries.iter().map(|entry| &*entry.name).collect::<Vec<_>>(), [b"b"]);
    assert_eq!(now(node.metadata(&SERVER)).links, 1);
    let other = Bed::new();
    assert_eq!(
        block_on(other.fs.link(&bed.who, &node, &path("c"), Replace::Nothing)),
        Err(Errno::XDEV),
        "the node belongs to another share"
    );
}

#[test]
fn new_names_reach_the_disk_with_their_file() {
    let bed = Bed::new();
    let (dir, _) = now(bed.fs.create(&bed.who, &path("Dir"), NewFile::new(Create::Directory, 0o755))).opened();
    now(dir.flush(&SERVER));
    let (node, made) = bed.create("Dir/file");
    write(&node, &bed.who, 0, b"x");
    now(node.flush(&SERVER));
    now(node.flush(&SERVER));
    let (late, _) = bed.create("Dir/late");
    assert_eq!(
        block_on(bed.fs.rename(&bed.who, RenameRequest::new(&path("Dir"), bed.found("Dir").2.id, &path("Moved")))),
        Ok(())
    );
    now(late.flush(&SERVER));
    assert_eq!(bed.found("moved/file").2.id, made.id);
    let attributes_only = bed.found("moved/file").1;
    now(attributes_only.flush(&SERVER));
}

#[test]
fn whether_a_directory_is_empty_is_known_without_reading_it() {
    let bed = Bed::new();
    // Without root, there is no other user who could look.
    let mode = if cannot_switch() { 0o700 } else { 0o300 };
    let (node, _) = now(bed.fs.create(&bed.who, &path("dir"), NewFile::new(Create::Directory, mode))).opened();
    assert!(is_empty(&node, &bed.who));
    bed.create("dir/file");
    assert!(!is_empty(&node, &bed.who));
    if identity::may_switch() {
        assert_eq!(
            block_on(node.list(&bed.who, ListRequest { cursor: 0, count: 10, metadata: false })).err(),
            Some(Errno::ACCES)
        );
    }
}

fn is_empty(node: &Arc<dyn Node>, who: &Op) -> bool {
    block_on(server::vfs::is_empty(node, who)).expect("the directory can be read")
}

/// Returns the result of a look-up for reading.
#[track_caller]
fn found_to_read(bed: &Bed, who: &Op, name: &str) -> (Arc<dyn Node>, Metadata) {
    match block_on(bed.fs.lookup(
        who,
        &path(name),
        LookupOptions { case: Case::Insensitive, links: FOLLOW, access: READ },
    )) {
        Ok(Lookup::Found { node, metadata, .. }) => (node, metadata),
        Ok(_) => panic!("{name} is missing"),
        Err(error) => panic!("{name}: {error:?}"),
    }
}

#[test]
fn a_read_of_a_known_file_opens_it_once() {
    let bed = Bed::new();
    bed.local_write("file", "x");
    let held = |node: &Arc<dyn Node>| crate::node::of(node).expect("a node of this file system").access;
    assert_eq!(held(&found_to_read(&bed, &bed.who, "file").0), None, "nothing is cached yet");
    let (node, metadata) = found_to_read(&bed, &bed.who, "file");
    assert_eq!((held(&node), metadata), (Some(READ), bed.found("file").2));
    let opened = now(node.open(&bed.who, READ));
    assert!(Arc::ptr_eq(&crate::node::of(&opened).expect("a node"), &crate::node::of(&node).expect("a node")));
    assert_eq!(content(&opened, &bed.who), "x");
    assert_eq!(
        now(bed.found("").1.list(&bed.who, ListRequest { cursor: 0, count: 10, metadata: true })).entries.len(),
        1
    );
    if cannot_switch() {
        return;
    }
    // The kernel is asked again for another user, and always decides.
    process(|| fs::set_permissions(bed.root.join("file"), fs::Permissions::from_mode(0o640))).unwrap();
    let other = user(61_002);
    assert_eq!(block_on(node.open(&other, READ)).err(), Some(Errno::ACCES));
    let (refused, _) = found_to_read(&bed, &other, "file");
    assert_eq!((held(&refused), block_on(refused.open(&other, READ)).err()), (None, Some(Errno::ACCES)));
}

#[test]
fn listed_files_are_known_and_replaced_files_are_not() {
    let bed = Bed::new();
    bed.local_write("file", "x");
    now(bed.found("").1.list(&bed.who, ListRequest { cursor: 0, count: 10, metadata: true }));
    let (node, _) = found_to_read(&bed, &bed.who, "file");
    assert!(crate::node::of(&node).expect("a node of this file system").access.is_some());
    let at = bed.root.join("file");
    process(|| fs::remove_file(&at)).unwrap();
    process(|| Command::new("mkfifo").arg("-m").arg("666").arg(&at).status()).unwrap();
    let (fifo, metadata) = found_to_read(&bed, &bed.who, "file");
    assert_eq!(
        (metadata.kind, crate::node::of(&fifo).expect("a node of this file system").access),
        (Kind::Special, None)
    );
}

#[test]
fn a_cancelled_request_starts_no_more_queries_but_completes_changes() {
    let bed = Bed::new();
    let (_, root, _) = bed.found("");
    let list = || root.list(&bed.who, ListRequest { cursor: 0, count: 10, metadata: false });
    let new = || NewFile::new(Create::File(BOTH), 0o644);
    let create = || bed.fs.create(&bed.who, &path("file"), new());
    let cancellation = Arc::new(Cancellation::default());
    let within = |cancellation: &Arc<Cancellation>| {
        let request = async { (list().await.map(|page| page.entries.len()), create().await.map(|_| ())) };
        block_on(cancellable(Arc::clone(cancellation), std::pin::pin!(request)))
    };
    assert_eq!(within(&cancellation), (Ok(0), Ok(())));
    cancellation.cancel();
    assert_eq!(within(&cancellation), (Err(Errno::CANCELED), Err(Errno::EXIST)), "the name exists");
}
