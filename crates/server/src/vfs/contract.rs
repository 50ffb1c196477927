//! What every [`Vfs`] must do, as checks that panic where one does not: run against `memory` here, and by each crate
//! that implements the trait against its own. Needs the feature `contract` outside this crate's tests.

use std::any::Any;
use std::sync::Arc;

use bytes::Bytes;

use super::{
    Access, Case, Create, DataRange, Errno, FileId, Identity, Kind, Lease, Links, Lookup, Metadata, Node, RangeLock,
    RelPath, Result, SetMetadata, Time, Vfs,
};
use crate::answer::{Answer, block_on};

/// Makes a symbolic link at a path, with a target.
pub type MakeLink = Box<dyn Fn(&RelPath, &[u8])>;

/// A fresh file system to check.
pub struct Fixture {
    /// The file system; its root is empty.
    pub vfs: Arc<dyn Vfs>,
    /// A user who owns the root directory and may do everything in it.
    pub owner: Arc<Identity>,
    /// Another user, who is not root and shares no group with `owner` but may search the root directory; `None` where
    /// the process cannot act as another.
    pub other: Option<Arc<Identity>>,
    /// How links are made; `None` where there are none.
    pub symlink: Option<MakeLink>,
    /// Whatever must live as long as the file system (a temporary directory, say).
    pub keep: Box<dyn Any>,
}

/// Runs every check, each on a fresh file system.
///
/// # Panics
/// At the first promise that is not kept.
pub fn check(fresh: &dyn Fn() -> Fixture) {
    let checks: [fn(&Fixture); 25] = [
        lookup_finds_exact_names_first,
        lookup_tells_missing_from_no_parent,
        odd_names_are_kept_as_bytes,
        create_is_exclusive,
        rename_moves_and_replaces,
        rename_changes_case,
        rename_keeps_directories_safe,
        unlink_removes_only_what_it_was_told,
        unlinked_files_live_while_open,
        hard_links_are_counted,
        content_is_read_back,
        holes_are_zeros,
        zeroing_and_allocation,
        ranges_are_copied,
        room_is_shared,
        compression_is_kept,
        listing_shows_everything_once,
        listing_survives_deletion,
        extended_attributes,
        metadata_is_set,
        permissions_hold,
        symbolic_links,
        leases_tell_of_opens,
        leases_need_a_file_to_themselves,
        ranges_are_locked,
    ];
    for check in checks {
        check(&fresh());
    }
}

const READ: Access = Access { read: true, write: false };
const BOTH: Access = Access { read: true, write: true };
const NO_LINKS: Links = Links { follow: false, wide: false };

/// A path from its text.
fn path(text: &str) -> RelPath {
    let mut path = RelPath::root();
    for name in text.split('/').filter(|name| !name.is_empty()) {
        assert!(path.push(name.as_bytes()), "{text}");
    }
    path
}

fn time(secs: i64) -> Time {
    Time { secs, nanos: 123_456_700 }
}

impl Fixture {
    fn lookup(&self, text: &str) -> Result<Lookup> {
        self.lookup_as(&self.owner, text, Case::Insensitive, NO_LINKS)
    }

    fn lookup_as(&self, who: &Arc<Identity>, text: &str, case: Case, links: Links) -> Result<Lookup> {
        block_on(self.vfs.lookup(who, &path(text), case, links))
    }

    #[track_caller]
    fn found(&self, text: &str) -> (RelPath, Arc<dyn Node>, Metadata) {
        match self.lookup(text) {
            Ok(Lookup::Found { path, node, metadata }) => (path, node, metadata),
            Ok(Lookup::Missing { .. }) => panic!("{text} is missing"),
            Ok(Lookup::NoParent) => panic!("{text} has no parent"),
            Err(error) => panic!("{text}: {error:?}"),
        }
    }

    #[track_caller]
    fn missing(&self, text: &str) {
        assert!(matches!(self.lookup(text), Ok(Lookup::Missing { .. })), "{text} is there");
    }

    fn create(&self, text: &str, what: Create) -> Result<(Arc<dyn Node>, Metadata)> {
        block_on(self.vfs.create(&self.owner, &path(text), what, 0o755, None))
    }

    #[track_caller]
    fn directory(&self, text: &str) -> (Arc<dyn Node>, FileId) {
        let (node, metadata) = self.create(text, Create::Directory).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        (node, metadata.id)
    }

    /// A file with content.
    #[track_caller]
    fn file(&self, text: &str, content: &str) -> (Arc<dyn Node>, FileId) {
        let made = self.create(text, Create::File(BOTH));
        let (node, metadata) = made.unwrap_or_else(|error| panic!("{text}: {error:?}"));
        self.write(&node, 0, content.as_bytes());
        (node, metadata.id)
    }

    #[track_caller]
    fn write(&self, node: &Arc<dyn Node>, offset: u64, data: &[u8]) {
        assert_eq!(block_on(node.write(&self.owner, offset, Bytes::copy_from_slice(data), false)), Ok(()));
    }

    #[track_caller]
    fn content(&self, text: &str) -> String {
        let (_, node, metadata) = self.found(text);
        let node = block_on(node.open(&self.owner, READ)).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        String::from_utf8(read(&node, 0, metadata.size as usize)).expect("the content is text")
    }

    fn rename(&self, from: &str, id: FileId, to: &str, replace: bool) -> Result<()> {
        block_on(self.vfs.rename(&self.owner, &path(from), id, &path(to), replace))
    }

    fn unlink(&self, text: &str, id: FileId, kind: Kind) -> Result<()> {
        block_on(self.vfs.unlink(&self.owner, &path(text), id, kind))
    }

    /// All names of a directory, asked for `count` at a time.
    #[track_caller]
    fn names(&self, text: &str, count: usize) -> Vec<String> {
        let (_, node, _) = self.found(text);
        let node = block_on(node.open(&self.owner, READ)).expect("the owner may list");
        let (mut names, mut cursor) = (Vec::new(), 0);
        loop {
            let (entries, next) = block_on(node.list(&self.owner, cursor, count, false)).expect("a directory lists");
            if entries.is_empty() {
                names.sort();
                return names;
            }
            names.extend(entries.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned()));
            cursor = next;
        }
    }
}

/// What a read brings, cut to what came.
#[track_caller]
fn read(node: &Arc<dyn Node>, offset: u64, length: usize) -> Vec<u8> {
    let (mut buffer, count) = block_on(node.read(offset, vec![0xee; length], 0));
    buffer.truncate(count.unwrap_or_else(|error| panic!("a read fails: {error:?}")));
    buffer
}

#[track_caller]
fn now<T>(answer: Answer<Result<T>>) -> T {
    block_on(answer).unwrap_or_else(|error| panic!("the call fails: {error:?}"))
}

#[track_caller]
fn stat(node: &Arc<dyn Node>) -> Metadata {
    now(node.metadata())
}

fn lookup_finds_exact_names_first(fixture: &Fixture) {
    fixture.directory("Dir");
    let (_, lower) = fixture.file("Dir/file", "lower");
    let (found, _, metadata) = fixture.found("dIR/FILE");
    assert_eq!((found, metadata.id), (path("Dir/file"), lower), "a name that differs in case is found, as on disk");
    let (_, upper) = fixture.file("Dir/FILE", "upper");
    assert_eq!(fixture.found("dir/FILE").2.id, upper, "the exact name wins");
    assert_eq!(fixture.found("dir/file").2.id, lower, "the exact name wins");
    let sensitive = fixture.lookup_as(&fixture.owner, "Dir/File", Case::Sensitive, NO_LINKS);
    assert!(matches!(sensitive, Ok(Lookup::Missing { .. })), "case matters where it is asked for");
    let sensitive = fixture.lookup_as(&fixture.owner, "dir/file", Case::Sensitive, NO_LINKS);
    assert!(matches!(sensitive, Ok(Lookup::NoParent)), "case matters where it is asked for");
    assert_eq!(fixture.unlink("Dir/FILE", upper, Kind::File), Ok(()));
    assert_eq!(fixture.found("dir/FILE").2.id, lower, "what was removed is not found");
    assert_eq!(fixture.found("").2.kind, Kind::Directory, "the root is found");
}

fn lookup_tells_missing_from_no_parent(fixture: &Fixture) {
    fixture.directory("Dir");
    fixture.file("file", "");
    match fixture.lookup("dir/New") {
        Ok(Lookup::Missing { path: missing, .. }) => assert_eq!(missing, path("Dir/New")),
        _ => panic!("a missing name in a directory that exists"),
    }
    assert!(matches!(fixture.lookup("none/new"), Ok(Lookup::NoParent)), "no directory on the way");
    assert!(matches!(fixture.lookup("file/new"), Ok(Lookup::NoParent)), "a file on the way");
}

fn odd_names_are_kept_as_bytes(fixture: &Fixture) {
    for name in [&b"a:b"[..], b"trailing.", b" ", b"back\\slash", b"\xff\xfe", "ä\u{10428}".as_bytes(), &[b'x'; 255]] {
        let path = RelPath::root().join(name).expect("a name that Linux has");
        now(fixture.vfs.create(&fixture.owner, &path, Create::File(BOTH), 0o644, None));
        // As a client would name what it is shown.
        let shown = crate::name::from_wire(&crate::name::to_wire(name));
        let Some(shown) = RelPath::root().join(&shown) else { continue };
        match block_on(fixture.vfs.lookup(&fixture.owner, &shown, Case::Insensitive, NO_LINKS)) {
            Ok(Lookup::Found { path: found, .. }) => assert_eq!(found, path, "the name on disk"),
            _ => panic!("{path:?} is not found as {shown:?}"),
        }
    }
}

fn create_is_exclusive(fixture: &Fixture) {
    let (node, metadata) = fixture.create("file", Create::File(BOTH)).expect("a new file");
    assert_eq!((metadata.kind, metadata.size, metadata.allocated, metadata.links), (Kind::File, 0, 0, 1));
    assert_eq!(metadata.mode, 0o755, "the mode is applied as is");
    assert_eq!((metadata.uid, metadata.gid), (fixture.owner.uid, fixture.owner.gid));
    assert_eq!(metadata.id, stat(&node).id);
    assert_eq!(fixture.create("file", Create::File(BOTH)).err(), Some(Errno::EXIST));
    assert_eq!(fixture.create("file", Create::Directory).err(), Some(Errno::EXIST));
    let (_, metadata) = fixture.create("dir", Create::Directory).expect("a new directory");
    assert_eq!((metadata.kind, metadata.size), (Kind::Directory, 0));
    assert_eq!(fixture.create("dir", Create::Directory).err(), Some(Errno::EXIST));
    assert_eq!(fixture.create("none/file", Create::Directory).err(), Some(Errno::NOENT));
    let stored = block_on(fixture.vfs.create(&fixture.owner, &path("dos"), Create::File(BOTH), 0o644, Some(0x22)));
    assert_eq!(stored.expect("a new file").1.dos_attributes, Some(0x22));
    assert_eq!(fixture.found("dos").2.dos_attributes, Some(0x22));
}

fn rename_moves_and_replaces(fixture: &Fixture) {
    fixture.directory("dir");
    let (_, a) = fixture.file("a", "a");
    let (_, b) = fixture.file("dir/b", "b");
    assert_eq!(fixture.rename("a", a, "dir/b", false), Err(Errno::EXIST));
    assert_eq!(fixture.rename("a", b, "c", false), Err(Errno::STALE), "another file has that name");
    assert_eq!(fixture.rename("none", a, "c", false), Err(Errno::NOENT));
    assert_eq!(fixture.rename("a", a, "none/c", false), Err(Errno::NOENT));
    assert_eq!(fixture.content("dir/b"), "b", "nothing has happened yet");
    assert_eq!(fixture.rename("a", a, "dir/b", true), Ok(()));
    fixture.missing("a");
    assert_eq!((fixture.found("dir/b").2.id, fixture.content("dir/b").as_str()), (a, "a"));
    assert_eq!(fixture.rename("dir/b", a, "c", false), Ok(()));
    assert_eq!(fixture.names("", 10), ["c", "dir"]);
}

fn rename_changes_case(fixture: &Fixture) {
    let (_, id) = fixture.file("name", "x");
    assert_eq!(fixture.rename("name", id, "NAME", false), Ok(()));
    assert_eq!(fixture.names("", 10), ["NAME"]);
    assert_eq!(fixture.found("name").0, path("NAME"));
    let (_, id) = fixture.directory("dir");
    assert_eq!(fixture.rename("dir", id, "Dir", false), Ok(()));
    assert_eq!(fixture.found("dir").0, path("Dir"));
}

fn rename_keeps_directories_safe(fixture: &Fixture) {
    let (_, a) = fixture.directory("a");
    fixture.directory("a/b");
    let (_, empty) = fixture.directory("empty");
    let (_, file) = fixture.file("file", "x");
    assert_eq!(fixture.rename("a", a, "a/b/c", false), Err(Errno::INVAL), "a directory into itself");
    for (from, id, to) in [("file", file, "empty"), ("a", a, "empty"), ("a", a, "file"), ("empty", empty, "a")] {
        assert!(fixture.rename(from, id, to, true).is_err(), "{from} must not replace {to}");
    }
    assert_eq!(fixture.rename("a", a, "empty/moved", false), Ok(()));
    assert_eq!(fixture.names("empty/moved", 10), ["b"]);
}

fn unlink_removes_only_what_it_was_told(fixture: &Fixture) {
    let (_, dir) = fixture.directory("dir");
    let (_, file) = fixture.file("dir/file", "x");
    let (_, other) = fixture.file("other", "x");
    assert_eq!(fixture.unlink("dir/file", other, Kind::File), Err(Errno::STALE));
    assert_eq!(fixture.unlink("none", file, Kind::File), Err(Errno::NOENT));
    assert_eq!(fixture.unlink("dir", dir, Kind::Directory), Err(Errno::NOTEMPTY));
    let node = fixture.found("dir").1;
    assert!(!now(node.is_empty()));
    assert_eq!(fixture.unlink("dir/file", file, Kind::File), Ok(()));
    fixture.missing("dir/file");
    assert!(now(node.is_empty()));
    assert_eq!(fixture.unlink("dir", dir, Kind::Directory), Ok(()));
    fixture.missing("dir");
    assert_eq!(fixture.names("", 10), ["other"]);
}

fn unlinked_files_live_while_open(fixture: &Fixture) {
    let (node, id) = fixture.file("file", "content");
    let (_, held, _) = fixture.found("file");
    now(held.set_xattr(&fixture.owner, "user.a", Some(b"1".to_vec())));
    assert_eq!(fixture.unlink("file", id, Kind::File), Ok(()));
    for node in [&node, &held] {
        assert_eq!(now(node.get_xattr(&fixture.owner, "user.a")), Some(b"1".to_vec()));
        assert!(now(node.list_xattrs(&fixture.owner)).iter().any(|name| name == "user.a"));
    }
    assert_eq!((stat(&node).links, stat(&node).id), (0, id));
    assert_eq!(read(&node, 0, 20), b"content");
    fixture.write(&node, 7, b"!");
    assert_eq!(read(&node, 0, 20), b"content!");
    let (_, again) = fixture.file("file", "new");
    assert_ne!(again, id, "an identity is not given twice while the file exists");
}

fn hard_links_are_counted(fixture: &Fixture) {
    let link = |node, to: &str, replace| block_on(fixture.vfs.link(&fixture.owner, node, &path(to), replace));
    let (node, id) = fixture.file("a", "a");
    let (_, other) = fixture.file("other", "other");
    assert_eq!(link(&node, "b", false), Ok(()));
    assert_eq!((fixture.found("b").2.id, stat(&node).links), (id, 2));
    assert_eq!(link(&node, "other", false), Err(Errno::EXIST));
    assert_eq!(fixture.found("other").2.id, other);
    assert_eq!(link(&node, "other", true), Ok(()));
    assert_eq!((fixture.found("other").2.id, stat(&node).links), (id, 3));
    assert_eq!(fixture.unlink("a", id, Kind::File), Ok(()));
    assert_eq!((stat(&node).links, fixture.content("b").as_str()), (2, "a"));
    assert_eq!(fixture.rename("b", id, "b", true), Ok(()), "a name over itself");
    assert_eq!(fixture.rename("other", id, "b", true), Ok(()), "two names of one file become one");
    fixture.missing("other");
    assert_eq!((stat(&node).links, fixture.content("b").as_str()), (1, "a"));
    let (directory, _) = fixture.directory("dir");
    assert!(link(&directory, "dir2", false).is_err(), "a directory has one name");
}

fn content_is_read_back(fixture: &Fixture) {
    let (node, _) = fixture.file("file", "hello world");
    assert_eq!(read(&node, 6, 100), b"world", "a read is short at the end of file only");
    assert_eq!(read(&node, 11, 1), b"");
    assert_eq!(read(&node, 1 << 40, 1), b"");
    let (buffer, count) = block_on(node.read(0, b"keep.....".to_vec(), 4));
    assert_eq!((buffer.as_slice(), count), (&b"keephello"[..], Ok(5)), "what was filled stays");
    fixture.write(&node, 6, b"W");
    fixture.write(&node, 6, b"");
    assert_eq!(fixture.content("file"), "hello World");
    now(node.set_size(&fixture.owner, 5));
    assert_eq!((fixture.content("file").as_str(), stat(&node).size), ("hello", 5));
    now(node.set_size(&fixture.owner, 8));
    assert_eq!(read(&node, 0, 100), b"hello\0\0\0", "what was cut off is gone");
    now(node.flush());
    let through = node.write(&fixture.owner, 8, Bytes::from_static(b"!"), true);
    assert_eq!(block_on(through), Ok(()));
    assert_eq!(stat(&node).size, 9);
}

fn holes_are_zeros(fixture: &Fixture) {
    const FAR: u64 = 5 << 30;
    let (node, _) = fixture.file("sparse", "");
    fixture.write(&node, FAR, b"end");
    assert_eq!(stat(&node).size, FAR + 3);
    assert!(stat(&node).allocated < 1 << 20, "a hole takes no room");
    assert_eq!(read(&node, FAR - 4, 100), b"\0\0\0\0end");
    assert_eq!(read(&node, 1 << 30, 4096), [0; 4096]);
    let ranges = now(node.data_ranges(0, u64::MAX >> 1));
    let covers = |range: &DataRange| range.offset <= FAR && range.offset + range.length == FAR + 3;
    assert!(ranges.len() == 1 && ranges.iter().all(covers), "{ranges:?}");
    assert_eq!(now(node.data_ranges(0, 1 << 30)), []);
    assert_eq!(now(node.data_ranges(FAR + 1, 1)), [DataRange { offset: FAR + 1, length: 1 }]);
    assert_eq!(now(node.data_ranges(FAR + 3, 10)), [], "there is nothing behind the end");
}

fn zeroing_and_allocation(fixture: &Fixture) {
    let (node, _) = fixture.file("file", &"x".repeat(20_000));
    now(node.zero(&fixture.owner, 100, 12_000));
    let content = read(&node, 0, 30_000);
    assert_eq!(content.len(), 20_000, "the size stays");
    assert!(content.iter().enumerate().all(|(at, &byte)| (byte == 0) == (100..12_100).contains(&at)));
    now(node.zero(&fixture.owner, 19_000, 1 << 20));
    assert_eq!(stat(&node).size, 20_000, "zeroing behind the end does not grow the file");
    let (node, _) = fixture.file("allocated", "abc");
    now(node.allocate(&fixture.owner, 1 << 20));
    let metadata = stat(&node);
    assert!(metadata.size == 3 && metadata.allocated >= 1 << 20, "{metadata:?}");
    assert_eq!(read(&node, 0, 10), b"abc");
}

fn ranges_are_copied(fixture: &Fixture) {
    let who = &fixture.owner;
    let bytes: Vec<u8> = (0..3 << 20).map(|at: u32| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect();
    let (from, _) = fixture.file("from", "");
    fixture.write(&from, 0, &bytes);
    let put = |mut into: Vec<u8>, source: usize, offset: usize, length: usize| {
        let copied = bytes.iter().skip(source).take(length);
        into.resize(into.len().max(if copied.len() > 0 { offset + copied.len() } else { 0 }), 0);
        into.iter_mut().skip(offset).zip(copied).for_each(|(byte, new)| *byte = *new);
        into
    };
    let check = |name: &str, source: usize, offset: usize, length: usize| {
        let there = length.min(bytes.len().saturating_sub(source)) as u64;
        // Into another file, and within one file, where the ranges may overlap.
        for (from, before) in [(Some(&from), &b"before"[..]), (None, &bytes)] {
            let (node, _) = fixture.file(&format!("{name} {}", before.len()), "");
            fixture.write(&node, 0, before);
            let from = from.unwrap_or(&node);
            let copied = now(node.copy_range(who, from, source as u64, offset as u64, length as u64));
            assert_eq!(copied, there, "{name}");
            let expected = put(before.to_vec(), source, offset, length);
            assert!(read(&node, 0, bytes.len() * 2) == expected, "{name} over {} bytes", before.len());
        }
    };
    check("all", 0, 0, 3 << 20);
    check("up", 0, 5, 2 << 20);
    check("down", 8192, 4096, 2 << 20);
    check("odd", 77, 4096, 70_001);
    check("past the end", (3 << 20) - 10, 100, 4096);
    check("behind the end", 4 << 20, 0, 10);
    let (target, _) = fixture.file("target", "");
    let reader = now(target.open(who, READ));
    assert_eq!(block_on(reader.copy_range(who, &from, 0, 0, 10)), Err(Errno::BADF), "the target is not for writing");
    let writer = now(from.open(who, Access { read: false, write: true }));
    assert_eq!(block_on(target.copy_range(who, &writer, 0, 0, 10)), Err(Errno::BADF), "the source is not for reading");
    assert_eq!(stat(&target).size, 0);
}

fn room_is_shared(fixture: &Fixture) {
    let who = &fixture.owner;
    let block = u64::from(now(fixture.vfs.space(who)).block_size);
    let (from, _) = fixture.file("from", "");
    let content: Vec<u8> = (0..3 * block + 10).map(|at| (at / 7) as u8).collect();
    fixture.write(&from, 0, &content);
    let (to, _) = fixture.file("to", "");
    now(to.set_size(who, content.len() as u64));
    let clone = |to: &Arc<dyn Node>, from: &Arc<dyn Node>, source: u64, offset: u64, length: u64| {
        block_on(to.clone_range(who, from, source, offset, length))
    };
    if !block_on(fixture.vfs.features()).clones {
        assert_eq!(clone(&to, &from, 0, 0, block), Err(Errno::OPNOTSUPP));
        return;
    }
    assert_eq!(clone(&to, &from, 0, 0, 0), Ok(()), "nothing");
    assert_eq!(read(&to, 0, 10), [0; 10]);
    assert_eq!(clone(&to, &from, block, 0, block), Ok(()), "a block, to another place");
    let (size, block_size) = (content.len(), block as usize);
    assert!(read(&to, 0, size + 1) == [&content[block_size..2 * block_size], &vec![0; size - block_size]].concat());
    assert_eq!(clone(&to, &from, 0, 0, size as u64), Ok(()), "all, up to both ends");
    assert!(read(&to, 0, size + 1) == content);
    fixture.write(&to, 0, b"changed");
    assert!(read(&from, 0, size + 1) == content, "what shares room changes alone");
    assert_eq!(clone(&to, &to, 0, 2 * block, block), Ok(()), "within one file");
    assert_eq!(read(&to, 2 * block, 7), b"changed");
    for (why, source, offset, length) in [
        ("odd source", 1, 0, block),
        ("odd target", 0, 1, block),
        ("odd length", 0, 0, 10),
        ("behind the source", 3 * block, 0, block),
        ("behind the target", 0, 3 * block, block),
    ] {
        assert_eq!(clone(&to, &from, source, offset, length), Err(Errno::INVAL), "{why}");
    }
    assert_eq!(clone(&to, &to, 0, block, 2 * block), Err(Errno::INVAL), "ranges that overlap");
    assert_eq!(stat(&to).size, size as u64, "the size stays");
    let reader = now(to.open(who, READ));
    assert_eq!(clone(&reader, &from, 0, 0, block), Err(Errno::BADF), "the target is not for writing");
}

fn compression_is_kept(fixture: &Fixture) {
    let who = &fixture.owner;
    let (directory, _) = fixture.directory("dir");
    let (before, _) = fixture.file("dir/before", "x");
    assert!(!stat(&directory).compressed && !stat(&before).compressed);
    if !block_on(fixture.vfs.features()).compresses {
        assert_eq!(block_on(directory.set_compressed(who, true)), Err(Errno::OPNOTSUPP));
        return;
    }
    now(directory.set_compressed(who, true));
    let (after, _) = fixture.file("dir/after", "x");
    let shown = || (stat(&directory).compressed, stat(&before).compressed, stat(&after).compressed);
    assert_eq!(shown(), (true, false, true), "new files are as their directory is");
    now(directory.set_compressed(who, false));
    assert_eq!(shown(), (false, false, true));
    now(after.set_compressed(who, false));
    now(before.set_compressed(who, true));
    assert_eq!(shown(), (false, true, false));
    if let Some(other) = &fixture.other {
        assert_eq!(block_on(before.set_compressed(other, false)), Err(Errno::ACCES));
    }
}

fn listing_shows_everything_once(fixture: &Fixture) {
    let (_, id) = fixture.directory("dir");
    let mut expected: Vec<String> = (0..257).map(|number| format!("dir/entry {number}")).collect();
    for name in &expected {
        fixture.create(name, Create::File(Access::default())).expect("a new file");
    }
    expected.iter_mut().for_each(|name| *name = name["dir/".len()..].to_owned());
    expected.sort();
    for count in [1, 7, 1_000] {
        assert_eq!(fixture.names("dir", count), expected, "{count} at a time");
    }
    let root = now(fixture.found("").1.open(&fixture.owner, READ));
    let (entries, end) = now(root.list(&fixture.owner, 0, 10, true));
    let shown: Vec<_> = entries.iter().map(|entry| (&*entry.name, entry.metadata.map(|found| found.id))).collect();
    assert_eq!(shown, [(&b"dir"[..], Some(id))]);
    assert_eq!(now(root.list(&fixture.owner, end, 10, true)).0, []);
    let (file, _) = fixture.file("file", "");
    assert_eq!(block_on(file.list(&fixture.owner, 0, 10, false)).err(), Some(Errno::NOTDIR));
}

fn listing_survives_deletion(fixture: &Fixture) {
    fixture.directory("dir");
    let ids: Vec<_> = (0..100).map(|number| fixture.file(&format!("dir/{number}"), "").1).collect();
    let dir = now(fixture.found("dir").1.open(&fixture.owner, READ));
    let (mut listed, mut cursor) = (Vec::new(), 0);
    loop {
        let (entries, next) = now(dir.list(&fixture.owner, cursor, 9, true));
        if entries.is_empty() {
            break;
        }
        // As a client that removes a tree: what was listed is deleted before the next part is asked for.
        for entry in entries {
            let name = String::from_utf8(entry.name.into_vec()).expect("names made here");
            let id = ids[name.parse::<usize>().expect("names made here")];
            assert_eq!(fixture.unlink(&format!("dir/{name}"), id, Kind::File), Ok(()));
            listed.push(name);
        }
        cursor = next;
    }
    assert_eq!(listed.len(), 100, "each entry was listed once");
    assert!(now(dir.is_empty()));
    fixture.file("dir/late", "");
    let (entries, _) = now(dir.list(&fixture.owner, 0, 10, false));
    assert_eq!(entries.len(), 1, "a listing from the start sees what is there");
}

fn extended_attributes(fixture: &Fixture) {
    let (node, _) = fixture.file("file", "");
    let who = &fixture.owner;
    assert_eq!(now(node.get_xattr(who, "user.a")), None);
    now(node.set_xattr(who, "user.a", Some(b"1".to_vec())));
    now(node.add_xattr(who, "user.b", Vec::new()));
    assert_eq!(block_on(node.add_xattr(who, "user.b", b"late".to_vec())), Err(Errno::EXIST));
    now(node.set_xattr(who, "user.a", Some(b"22".to_vec())));
    assert_eq!(now(node.get_xattr(who, "user.a")), Some(b"22".to_vec()));
    assert_eq!(now(node.get_xattr(who, "user.b")), Some(Vec::new()));
    let users = || {
        let mut names = now(node.list_xattrs(who));
        names.retain(|name| name == "user.a" || name == "user.b");
        names.sort();
        names
    };
    assert_eq!(users(), ["user.a", "user.b"]);
    now(node.set_xattr(who, "user.a", None));
    assert_eq!((users(), now(node.get_xattr(who, "user.a"))), (vec!["user.b".to_owned()], None));
    assert_eq!(block_on(node.set_xattr(who, "user.a", None)), Err(Errno::NODATA));
    let (dir, _) = fixture.directory("dir");
    now(dir.set_xattr(who, "user.a", Some(b"d".to_vec())));
    assert_eq!(now(dir.get_xattr(who, "user.a")), Some(b"d".to_vec()));
}

fn metadata_is_set(fixture: &Fixture) {
    let (node, _) = fixture.file("file", "x");
    let set = |set| now(node.set_metadata(&fixture.owner, set));
    set(SetMetadata { accessed: Some(time(1_000)), modified: Some(time(-5)), ..SetMetadata::default() });
    assert_eq!((stat(&node).accessed, stat(&node).modified), (time(1_000), time(-5)));
    set(SetMetadata { created: Some(time(77)), ..SetMetadata::default() });
    assert_eq!((stat(&node).created, stat(&node).modified), (time(77), time(-5)), "the rest stays");
    set(SetMetadata { dos_attributes: Some(0x23), ..SetMetadata::default() });
    assert_eq!((stat(&node).created, stat(&node).dos_attributes), (time(77), Some(0x23)), "both are kept together");
    set(SetMetadata { mode: Some(0o640), ..SetMetadata::default() });
    assert_eq!((stat(&node).mode, stat(&node).dos_attributes), (0o640, Some(0x23)));
    fixture.write(&node, 0, b"y");
    assert!(stat(&node).modified > time(-5), "writing sets the time of the last change");
    assert_eq!(fixture.found("file").2, stat(&node), "a look-up says the same");
    let (dir, _) = fixture.directory("dir");
    now(dir.set_metadata(&fixture.owner, SetMetadata { modified: Some(time(9)), ..SetMetadata::default() }));
    assert_eq!(stat(&dir).modified, time(9));
    let space = now(fixture.vfs.space(&fixture.owner));
    assert!(space.block_size > 0 && space.available <= space.free && space.free <= space.blocks);
}

fn permissions_hold(fixture: &Fixture) {
    let (secret, _) = fixture.file("secret", "x");
    now(secret.set_metadata(&fixture.owner, SetMetadata { mode: Some(0o600), ..SetMetadata::default() }));
    assert_eq!(now(secret.permissions(&fixture.owner)) & 6, 6);
    let attributes_only = fixture.found("secret").1;
    assert!(block_on(attributes_only.read(0, vec![0; 1], 0)).1.is_err(), "a handle for attributes reads nothing");
    let reader = now(attributes_only.open(&fixture.owner, READ));
    assert!(block_on(reader.write(&fixture.owner, 0, Bytes::from_static(b"y"), false)).is_err());
    let Some(other) = &fixture.other else { return };
    let denied = |result: Result<()>| matches!(result, Err(Errno::ACCES | Errno::PERM));
    let found = fixture.lookup_as(other, "secret", Case::Insensitive, NO_LINKS);
    let Ok(Lookup::Found { node, .. }) = found else { panic!("attributes are for everyone who may search") };
    assert_eq!(now(node.permissions(other)), 0);
    assert_eq!(block_on(node.open(other, READ)).err(), Some(Errno::ACCES));
    let chmod = SetMetadata { mode: Some(0o666), ..SetMetadata::default() };
    assert!(denied(block_on(node.set_metadata(other, chmod))));
    assert!(denied(block_on(node.get_xattr(other, "user.a")).map(drop)));
    let (dir, id) = fixture.directory("dir");
    fixture.file("dir/file", "x");
    let new = fixture.vfs.create(other, &path("dir/new"), Create::Directory, 0o755, None);
    assert!(denied(block_on(new).map(drop)), "a directory that may not be written takes no names");
    assert!(denied(block_on(fixture.vfs.unlink(other, &path("dir"), id, Kind::Directory))));
    now(dir.set_metadata(&fixture.owner, SetMetadata { mode: Some(0o700), ..SetMetadata::default() }));
    let closed = fixture.lookup_as(other, "dir/file", Case::Insensitive, NO_LINKS);
    assert_eq!(closed.err(), Some(Errno::ACCES), "a directory that may not be searched hides what it holds");
}

fn symbolic_links(fixture: &Fixture) {
    let Some(symlink) = &fixture.symlink else { return };
    fixture.directory("dir");
    let (_, id) = fixture.file("dir/file", "x");
    let links = [("in", "dir/file"), ("todir", "./dir"), ("out", "../../etc"), ("absolute", "/etc"), ("loop", "loop")];
    for (name, target) in links {
        symlink(&path(name), target.as_bytes());
    }
    let find = |text: &str, follow| {
        let links = Links { follow, wide: false };
        match fixture.lookup_as(&fixture.owner, text, Case::Insensitive, links) {
            Ok(Lookup::Found { metadata, .. }) => Ok(metadata),
            Ok(_) => panic!("{text} is missing"),
            Err(error) => Err(error),
        }
    };
    assert_eq!(find("IN", true).map(|found| found.id), Ok(id));
    assert_eq!(find("todir/file", true).map(|found| found.id), Ok(id));
    assert_eq!(find("in", false).map(|found| found.kind), Ok(Kind::Symlink));
    assert_eq!(find("todir/file", false), Err(Errno::LOOP));
    for name in ["out", "absolute", "loop"] {
        assert_eq!(find(name, true).map(|found| found.kind), Ok(Kind::Symlink), "{name}");
        assert_eq!(find(&format!("{name}/passwd"), true), Err(Errno::LOOP), "{name}");
    }
    assert_eq!(block_on(fixture.vfs.make_link(&fixture.owner, &path("made"), b"dir/file")), Ok(()));
    assert_eq!(block_on(fixture.vfs.make_link(&fixture.owner, &path("made"), b"dir")), Err(Errno::EXIST));
    assert_eq!(find("made", true).map(|found| found.id), Ok(id));
    for (name, expected) in [("made", Ok(b"dir/file".to_vec())), ("dir/file", Err(Errno::INVAL))] {
        let found = fixture.lookup_as(&fixture.owner, name, Case::Sensitive, NO_LINKS);
        let Ok(Lookup::Found { node, .. }) = found else { panic!("{name} is missing") };
        assert_eq!(block_on(node.read_link()), expected, "{name}");
    }
    let link = find("in", false).expect("found above").id;
    assert_eq!(fixture.unlink("in", link, Kind::Symlink), Ok(()));
    assert_eq!(fixture.content("dir/file"), "x", "removing a link leaves its target");
}

/// A lease, and what ends when it is told of an open.
#[track_caller]
fn lease(node: &Arc<dyn Node>) -> Result<(Box<dyn Lease>, std::sync::mpsc::Receiver<()>)> {
    let (sender, told) = std::sync::mpsc::channel();
    let lease = block_on(node.lease(Arc::new(move || sender.send(()).unwrap_or_default())))?;
    Ok((lease, told))
}

fn leases_tell_of_opens(on: &Fixture) {
    let (node, _) = on.file("file", "content");
    let (held, told) = match lease(&node) {
        Err(Errno::OPNOTSUPP) => return eprintln!("does not apply: no leases on this file system"),
        taken => taken.expect("a lease"),
    };
    let (_, other, _) = on.found("file");
    assert!(told.try_recv().is_err(), "a look is no open");
    assert_eq!(block_on(other.open(&on.owner, READ)).err(), Some(Errno::AGAIN));
    told.recv_timeout(std::time::Duration::from_secs(60)).expect("the holder is told");
    assert_eq!(block_on(other.open(&on.owner, READ)).err(), Some(Errno::AGAIN), "until it is given up");
    drop(held);
    drop(block_on(other.open(&on.owner, BOTH)).expect("given up"));
    // The next lease knows nothing of the last.
    let (held, told) = lease(&node).expect("another lease");
    assert!(told.try_recv().is_err());
    drop(node);
    drop(held);
    drop(block_on(other.open(&on.owner, READ)).expect("nobody has it open"));
}

fn leases_need_a_file_to_themselves(on: &Fixture) {
    let (node, _) = on.file("file", "content");
    let (_, attributes, _) = on.found("file");
    let second = block_on(attributes.open(&on.owner, READ)).expect("opens");
    for busy in [&node, &second] {
        assert!(matches!(lease(busy).err(), Some(Errno::AGAIN | Errno::OPNOTSUPP)));
    }
    drop(node);
    assert!(!matches!(lease(&second).err(), Some(Errno::AGAIN)), "the last one");
    assert!(matches!(lease(&attributes).err(), Some(Errno::BADF | Errno::OPNOTSUPP)), "no data access");
}

fn ranges_are_locked(on: &Fixture) {
    use RangeLock::{Exclusive, Free, Shared};
    let (one, _) = on.file("file", "content");
    let (_, attributes, _) = on.found("file");
    let opened = |access| block_on(attributes.open(&on.owner, access)).expect("opens");
    let (two, reader) = (opened(BOTH), opened(READ));
    let lock = |node: &Arc<dyn Node>, offset, length, lock| block_on(node.lock_range(offset, length, lock));
    if lock(&one, 0, 10, Exclusive) == Err(Errno::OPNOTSUPP) {
        return eprintln!("does not apply: no locks on this file system");
    }
    let (granted, refused) = (Ok(()), Err(Errno::AGAIN));
    assert_eq!(lock(&two, 9, 1, Shared), refused);
    assert_eq!(lock(&two, 10, 10, Exclusive), granted);
    // A part becomes something else, the rest stays.
    assert_eq!(lock(&one, 2, 3, Free), granted);
    assert_eq!(lock(&one, 5, 2, Shared), granted);
    for (offset, length, kind, expected) in [
        (0, 2, Shared, refused),
        (2, 3, Exclusive, granted),
        (5, 2, Exclusive, refused),
        (5, 2, Shared, granted),
        (7, 3, Shared, refused),
    ] {
        assert_eq!(lock(&two, offset, length, kind), expected, "{kind:?} {length} bytes at {offset}");
    }
    assert_eq!(lock(&one, 5, 2, Exclusive), refused, "two reads it");
    // The last byte that can be locked, and what a handle may not.
    assert_eq!(lock(&one, (1 << 63) - 1, 1, Exclusive), granted);
    assert_eq!(lock(&two, 100, (1 << 63) - 100, Shared), refused);
    assert_eq!(lock(&two, 100, (1 << 63) - 101, Shared), granted);
    assert_eq!(lock(&one, 100, 1, Shared), granted);
    assert_eq!(lock(&reader, 200, 1, Exclusive), Err(Errno::BADF));
    assert_eq!(lock(&reader, 200, 1, Shared), granted);
    // Closing ends them.
    drop((one, reader));
    assert_eq!(lock(&two, 0, 1 << 63, Exclusive), granted);
}
