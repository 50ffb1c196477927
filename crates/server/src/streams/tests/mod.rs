//! Tests of streams on a file system in memory, whose attributes are limited to 65,536 bytes as on Linux.

mod failures;

use std::sync::Arc;

use bytes::Bytes;

use super::store::{DIRECTORY, Store};
use super::stream::{Shared, Stream, Target};
use super::{Open, Streams, list};
use crate::answer::block_on;
use crate::environment::Environment;
use crate::policy::stream_layout::Layout;
use crate::testing::ManualClock;
use crate::vfs::faulty::{FailAt, Faulty};
use crate::vfs::memory::{Memory, Options};
use crate::vfs::{
    Access, Create, Errno, FileId, Identity, ListRequest, Lookup, LookupOptions, Metadata, NewFile, Node, Op,
    ReadRequest, RelPath, RenameRequest, SetXattr, SymlinkPolicy, Vfs, into_buffer, read_into,
};

const INLINE: &str = "user.DosStream.s:$DATA";
const OVERFLOW: &str = "user.FrevoStream.s";

fn stream(id: FileId, name: &str, store: &Arc<Store>, open: &Arc<Open>) -> Stream {
    let layout = Layout::default();
    Stream::of(Arc::new(Shared::new(id, name, &layout, Arc::clone(store), Arc::clone(open))), name, &layout, None)
}

/// A file `f` of a user, and the store of its share.
struct Fixture {
    vfs: Arc<dyn Vfs>,
    store: Arc<Store>,
    open: Arc<Open>,
    op: Op,
    file: Arc<dyn Node>,
    metadata: Metadata,
}

impl Fixture {
    /// Creates a file system of limited capacity.
    fn new(capacity: u64) -> Fixture {
        Fixture::with(Options { capacity, ..Options::default() })
    }

    fn with(options: Options) -> Fixture {
        let environment: Arc<dyn Environment> = Arc::new(ManualClock::ticking());
        let options = Options { mode: 0o777, ..options };
        let vfs: Arc<dyn Vfs> = Arc::new(Memory::with_options(environment.clone(), options));
        let op = Op::from(Identity { uid: 1000, gid: 1000, groups: Box::new([]) });
        let (file, metadata) = make(&vfs, &op, "f");
        let store = Arc::new(Store::new(&vfs, RelPath::root(), environment));
        Fixture { vfs, store, open: Arc::default(), op, file, metadata }
    }

    /// Returns the stream `name` as a first open finds it.
    fn stream(&self, file: FileId, name: &str) -> Stream {
        let id = FileId { stream: 1, ..file };
        stream(id, name, &self.store, &self.open)
    }

    /// Returns the file's stream `s`, created if it does not exist.
    fn opened(&self) -> Stream {
        let stream = self.stream(self.metadata.id, "s");
        block_on(stream.create(&self.file, &self.op, false)).expect("it can be created");
        stream
    }

    #[track_caller]
    fn write(&self, stream: &Stream, offset: u64, data: &[u8]) -> Result<(), Errno> {
        block_on(stream.write(&self.file, &self.op, offset, Bytes::copy_from_slice(data).into(), false))
    }

    /// Returns the whole content of a stream, and checks its size.
    #[track_caller]
    fn content(&self, file: &Arc<dyn Node>, stream: &Stream) -> Vec<u8> {
        let read = ReadRequest::new(0, vec![0; 1 << 20]);
        let (mut buffer, count) = into_buffer(block_on(stream.read(file, &self.op, read)), 0);
        buffer.truncate(count.expect("the stream can be read"));
        assert_eq!(block_on(stream.metadata(file)).unwrap().size, buffer.len() as u64);
        buffer
    }

    fn attribute(&self, name: &str) -> Option<Vec<u8>> {
        block_on(self.file.get_xattr(&self.op, name)).unwrap()
    }

    fn set(&self, name: &str, value: &[u8]) {
        block_on(self.file.set_xattr(&self.op, name, Some(value.to_vec()), SetXattr::Any)).unwrap();
    }

    /// Returns the number of files in the store.
    fn stored(&self) -> usize {
        self.names_stored().len()
    }

    /// Returns the names of the files in the store.
    fn names_stored(&self) -> Vec<Vec<u8>> {
        let path = RelPath::root().join(DIRECTORY.as_bytes()).unwrap();
        let links = SymlinkPolicy::NONE;
        match block_on(self.vfs.lookup(self.store.own(), &path, LookupOptions::exact(links))) {
            Ok(Lookup::Found { node, .. }) => {
                block_on(node.list(self.store.own(), ListRequest { cursor: 0, count: 100, metadata: false }))
                    .unwrap()
                    .entries
                    .into_iter()
                    .map(|entry| entry.name.to_vec())
                    .collect()
            }
            _ => Vec::new(),
        }
    }
}

fn make(vfs: &Arc<dyn Vfs>, op: &Op, name: &str) -> (Arc<dyn Node>, Metadata) {
    let path = RelPath::root().join(name.as_bytes()).unwrap();
    let what = Create::File(Access { read: true, write: true });
    block_on(vfs.create(op, &path, NewFile::new(what, 0o644))).expect("it can be created").opened()
}

fn large() -> Vec<u8> {
    (0..100_000_u32).map(|at| (at % 251) as u8).collect()
}

#[test]
fn a_small_stream_is_one_attribute_as_samba_writes_it() {
    let fixture = Fixture::new(1 << 20);
    let stream = fixture.opened();
    assert_eq!(fixture.attribute(INLINE).as_deref(), Some(&b"\0"[..]));
    assert!(!block_on(stream.create(&fixture.file, &fixture.op, false)).unwrap());
    fixture.write(&stream, 2, b"abc").unwrap();
    assert_eq!(fixture.attribute(INLINE).as_deref(), Some(&b"\0\0abc\0"[..]));
    block_on(stream.set_size(&fixture.file, &fixture.op, 4)).unwrap();
    assert_eq!(fixture.content(&fixture.file, &stream), b"\0\0ab");
    // Content written by another program is visible at once.
    fixture.set(INLINE, b"samba\0");
    assert_eq!(fixture.content(&fixture.file, &stream), b"samba");
    fixture.write(&stream, 65_530, b"12345").unwrap();
    assert_eq!((fixture.content(&fixture.file, &stream).len(), fixture.stored()), (65_535, 0));
    block_on(stream.remove(&fixture.file, &fixture.op)).unwrap();
    assert_eq!(fixture.attribute(INLINE), None);
    assert_eq!(fixture.write(&stream, 0, b"x"), Err(Errno::STALE));
}

#[test]
fn a_large_stream_moves_to_the_store_and_back_when_it_is_emptied() {
    let fixture = Fixture::new(16 << 20);
    let stream = fixture.opened();
    fixture.write(&stream, 0, b"begin").unwrap();
    fixture.write(&stream, 10, &large()).unwrap();
    let expected = [b"begin\0\0\0\0\0", &large()[..]].concat();
    assert_eq!(fixture.content(&fixture.file, &stream), expected);
    assert_eq!((fixture.attribute(INLINE), fixture.stored()), (None, 1));
    // A new open finds it there.
    let again = fixture.stream(fixture.metadata.id, "S");
    assert!(block_on(again.exists(&fixture.file, &fixture.op)).unwrap());
    assert_eq!((fixture.content(&fixture.file, &again), &*again.name().unwrap()), (expected, "s"));
    block_on(stream.set_size(&fixture.file, &fixture.op, 0)).unwrap();
    assert_eq!(
        (fixture.attribute(INLINE).as_deref(), fixture.attribute(OVERFLOW), fixture.stored()),
        (Some(&b"\0"[..]), None, 0)
    );
    block_on(stream.set_size(&fixture.file, &fixture.op, 70_000)).unwrap();
    assert_eq!(fixture.content(&fixture.file, &stream), vec![0; 70_000]);
    block_on(stream.remove(&fixture.file, &fixture.op)).unwrap();
    assert_eq!((fixture.attribute(OVERFLOW), fixture.stored()), (None, 0));
}

#[test]
fn a_full_disk_loses_no_content() {
    let fixture = Fixture::new(64 << 10);
    let stream = fixture.opened();
    fixture.write(&stream, 0, b"kept").unwrap();
    assert_eq!(fixture.write(&stream, 4, &large()), Err(Errno::NOSPC));
    assert_eq!(fixture.content(&fixture.file, &stream)[..4], *b"kept");
    block_on(stream.remove(&fixture.file, &fixture.op)).unwrap();
    assert_eq!(fixture.stored(), 0);
    assert_eq!(Errno::NOSPC.status(), proto::status::Status::DISK_FULL);
}

#[test]
fn a_copied_file_gets_its_own_stream_when_it_is_written() {
    let fixture = Fixture::new(16 << 20);
    let stream = fixture.opened();
    fixture.write(&stream, 0, &large()).unwrap();
    let (copy, metadata) = make(&fixture.vfs, &fixture.op, "copy");
    block_on(copy.set_xattr(&fixture.op, OVERFLOW, fixture.attribute(OVERFLOW), SetXattr::Any)).unwrap();
    let copied = fixture.stream(metadata.id, "s");
    assert!(block_on(copied.exists(&copy, &fixture.op)).unwrap());
    assert_eq!(fixture.content(&copy, &copied), large());
    block_on(copied.write(&copy, &fixture.op, 0, Bytes::from_static(b"other").into(), false)).unwrap();
    assert_eq!((&fixture.content(&copy, &copied)[..5], fixture.stored()), (&b"other"[..], 2));
    assert_eq!(fixture.content(&fixture.file, &stream), large());
    block_on(copied.remove(&copy, &fixture.op)).unwrap();
    assert_eq!((fixture.content(&fixture.file, &stream), fixture.stored()), (large(), 1));
}

#[test]
fn a_copy_that_was_never_written_leaves_the_original_its_stream() {
    let fixture = Fixture::new(16 << 20);
    let stream = fixture.opened();
    fixture.write(&stream, 0, &large()).unwrap();
    let (copy, metadata) = make(&fixture.vfs, &fixture.op, "copy");
    block_on(copy.set_xattr(&fixture.op, OVERFLOW, fixture.attribute(OVERFLOW), SetXattr::Any)).unwrap();
    block_on(fixture.stream(metadata.id, "s").remove(&copy, &fixture.op)).unwrap();
    assert_eq!((fixture.content(&fixture.file, &stream), fixture.stored()), (large(), 1));
}

#[test]
fn after_a_crash_the_store_has_the_valid_content() {
    let fixture = Fixture::new(16 << 20);
    let stream = fixture.opened();
    fixture.write(&stream, 0, &large()).unwrap();
    fixture.set(INLINE, b"before the crash\0");
    let again = fixture.stream(fixture.metadata.id, "s");
    assert!(block_on(again.exists(&fixture.file, &fixture.op)).unwrap());
    assert_eq!((fixture.content(&fixture.file, &again), fixture.attribute(INLINE)), (large(), None));
    // Two names of one file in the store, as during a rename. It is removed with the last name.
    fixture.set("user.FrevoStream.t", &fixture.attribute(OVERFLOW).unwrap());
    block_on(again.remove(&fixture.file, &fixture.op)).unwrap();
    let other = fixture.stream(fixture.metadata.id, "t");
    assert!(block_on(other.exists(&fixture.file, &fixture.op)).unwrap());
    assert_eq!(fixture.content(&fixture.file, &other), large());
}

#[test]
fn renamed_streams_keep_their_content() {
    for content in [b"small".to_vec(), large()] {
        let fixture = Fixture::new(16 << 20);
        let stream = fixture.opened();
        fixture.write(&stream, 0, &content).unwrap();
        block_on(stream.rename(&fixture.file, &fixture.op, Target::Named("t".into()))).unwrap();
        assert_eq!((fixture.content(&fixture.file, &stream), &*stream.name().unwrap()), (content.clone(), "t"));
        let names = block_on(list(&fixture.file, &fixture.op, &Layout::default())).unwrap();
        assert_eq!(names.iter().map(|stored| &*stored.name).collect::<Vec<_>>(), ["t"]);
        block_on(stream.rename(&fixture.file, &fixture.op, Target::Unnamed(fixture.file.clone()))).unwrap();
        assert_eq!(fixture.content(&fixture.file, &stream), content);
        assert_eq!(block_on(fixture.file.metadata(&user(0))).unwrap().size, content.len() as u64);
        assert_eq!(
            (block_on(list(&fixture.file, &fixture.op, &Layout::default())).unwrap().len(), fixture.stored()),
            (0, 0)
        );
    }
}

#[test]
fn a_directory_of_another_user_is_not_a_store() {
    let fixture = Fixture::new(16 << 20);
    let path = RelPath::root().join(DIRECTORY.as_bytes()).unwrap();
    let mallory = user(2000);
    block_on(fixture.vfs.create(&mallory, &path, NewFile::new(Create::Directory, 0o777))).unwrap();
    let stream = fixture.opened();
    fixture.write(&stream, 0, b"kept").unwrap();
    assert_eq!(fixture.write(&stream, 0, &large()), Err(Errno::NOSPC));
    assert_eq!(fixture.content(&fixture.file, &stream), b"kept");
}

#[test]
fn without_a_store_there_is_no_space_for_a_large_stream() {
    for errno in [Errno::PERM, Errno::ACCES, Errno::OPNOTSUPP] {
        let fixture = Fixture::new(16 << 20);
        let faulty: Arc<dyn Vfs> = Arc::new(Faulty::new(fixture.vfs.clone(), Arc::new(FailAt(vec![(0, errno)]))));
        let store = Store::new(&faulty, RelPath::root(), Arc::new(ManualClock::ticking()));
        let created = block_on(store.create(&fixture.metadata));
        assert_eq!((created.err(), fixture.stored()), (Some(Errno::NOSPC), 0));
    }
}

/// A directory of mallory's with the name of the store, into which mallory has moved bob's private file, which is
/// possible in a directory that mallory may write to. An attribute of mallory's own file names it.
fn planted(mode: u32) -> (Fixture, Arc<dyn Node>) {
    let fixture = Fixture::new(16 << 20);
    let (mallory, bob) = (user(2000), user(3000));
    let directory = RelPath::root().join(DIRECTORY.as_bytes()).unwrap();
    block_on(fixture.vfs.create(&mallory, &directory, NewFile::new(Create::Directory, mode))).unwrap();
    let private = RelPath::root().join(b"private").unwrap();
    let what = Create::File(Access { read: true, write: true });
    let (secret, metadata) = block_on(fixture.vfs.create(&bob, &private, NewFile::new(what, 0o600))).unwrap().opened();
    block_on(secret.write(&bob, 0, Bytes::from_static(b"top secret").into(), false)).unwrap();
    let name = format!("{:x}-{:032x}", fixture.metadata.id.inode, 1);
    let inside = directory.join(name.as_bytes()).unwrap();
    block_on(fixture.vfs.rename(&mallory, RenameRequest::new(&private, metadata.id, &inside))).unwrap();
    fixture.set(OVERFLOW, name.as_bytes());
    (fixture, secret)
}

fn user(uid: u32) -> Op {
    Op::from(Identity { uid, gid: uid, groups: Box::new([]) })
}

#[track_caller]
fn is_untouched(secret: &Arc<dyn Node>) {
    let (mut buffer, count) = block_on(read_into(secret, &user(0), 0, vec![0; 100], 0));
    buffer.truncate(count.unwrap());
    assert_eq!((buffer, block_on(secret.metadata(&user(0))).unwrap().links), (b"top secret".to_vec(), 1));
}

#[test]
fn a_file_that_was_moved_into_a_planted_store_is_neither_read_nor_written_nor_removed() {
    for mode in [0o700, 0o777] {
        let (fixture, secret) = planted(mode);
        let stream = fixture.stream(fixture.metadata.id, "s");
        assert!(block_on(stream.exists(&fixture.file, &fixture.op)).unwrap());
        assert_eq!(
            into_buffer(block_on(stream.read(&fixture.file, &fixture.op, ReadRequest::new(0, vec![0; 9]))), 0).1,
            Err(Errno::IO)
        );
        assert_eq!(fixture.write(&stream, 0, b"mallory was here"), Err(Errno::IO));
        is_untouched(&secret);
        block_on(stream.remove(&fixture.file, &fixture.op)).unwrap();
        is_untouched(&secret);
        let (file, metadata) = (fixture.file.clone(), fixture.metadata);
        block_on(fixture.store.remove(format!("{:x}-{:032x}", metadata.id.inode, 1).as_bytes(), &metadata));
        drop(file);
        is_untouched(&secret);
    }
}

/// Returns the store's only file.
fn sidecar(fixture: &Fixture) -> Arc<dyn Node> {
    let name = String::from_utf8(fixture.attribute(OVERFLOW).unwrap()).unwrap();
    let path = RelPath::root().join(DIRECTORY.as_bytes()).unwrap().join(name.as_bytes()).unwrap();
    let links = SymlinkPolicy::NONE;
    match block_on(fixture.vfs.lookup(fixture.store.own(), &path, LookupOptions::exact(links))) {
        Ok(Lookup::Found { node, .. }) => node,
        _ => panic!("the file does not exist"),
    }
}

const MARK: &str = "trusted.frevo.owner";

#[test]
fn files_of_the_store_are_marked_and_wrongly_marked_ones_are_not_used() {
    let fixture = Fixture::new(16 << 20);
    fixture.write(&fixture.opened(), 0, &large()).unwrap();
    let (node, own) = (sidecar(&fixture), fixture.store.own().clone());
    let mark = block_on(node.get_xattr(&own, MARK)).unwrap().expect("the file is marked");
    for wrong in [&b"1 ffff -"[..], b"nonsense"] {
        block_on(node.set_xattr(&own, MARK, Some(wrong.to_vec()), SetXattr::Any)).unwrap();
        let again = fixture.stream(fixture.metadata.id, "s");
        assert!(block_on(again.exists(&fixture.file, &fixture.op)).unwrap());
        assert_eq!(
            into_buffer(block_on(again.read(&fixture.file, &fixture.op, ReadRequest::new(0, vec![0; 9]))), 0).1,
            Err(Errno::IO)
        );
    }
    block_on(node.set_xattr(&own, MARK, Some(mark), SetXattr::Any)).unwrap();
    assert_eq!(fixture.content(&fixture.file, &fixture.opened()), large());
}

#[test]
fn a_store_without_marks_remains_valid_and_is_marked() {
    let fixture = Fixture::new(16 << 20);
    fixture.write(&fixture.opened(), 0, &large()).unwrap();
    let (node, own) = (sidecar(&fixture), fixture.store.own().clone());
    let mark = block_on(node.get_xattr(&own, MARK)).unwrap();
    block_on(node.set_xattr(&own, MARK, None, SetXattr::Any)).unwrap();
    let again = fixture.opened();
    assert_eq!(fixture.content(&fixture.file, &again), large());
    assert_eq!(block_on(node.get_xattr(&own, MARK)).unwrap(), mark);
    block_on(again.remove(&fixture.file, &fixture.op)).unwrap();
    assert_eq!(fixture.stored(), 0);
}

#[test]
fn a_later_file_with_the_inode_number_of_the_owner_is_not_the_owner() {
    let fixture = Fixture::new(16 << 20);
    fixture.write(&fixture.opened(), 0, &large()).unwrap();
    let (node, own) = (sidecar(&fixture), fixture.store.own().clone());
    let mark = format!("1 {:x} 5.000000001", fixture.metadata.id.inode);
    block_on(node.set_xattr(&own, MARK, Some(mark.into_bytes()), SetXattr::Any)).unwrap();
    let stream = fixture.opened();
    fixture.write(&stream, 0, b"other").unwrap();
    assert_eq!(fixture.stored(), 2, "the file was copied before it was written");
    let value = fixture.attribute(OVERFLOW).unwrap();
    block_on(fixture.stream(fixture.metadata.id, "s").remove(&fixture.file, &fixture.op)).unwrap();
    assert_eq!(fixture.stored(), 1, "{}", String::from_utf8_lossy(&value));
}

#[test]
fn a_stream_without_content_fails_and_can_be_deleted() {
    let fixture = Fixture::new(16 << 20);
    for value in [&b"../../../etc/passwd"[..], b"1-00000000000000000000000000000000"] {
        fixture.set(OVERFLOW, value);
        let stream = fixture.stream(fixture.metadata.id, "s");
        assert!(block_on(stream.exists(&fixture.file, &fixture.op)).unwrap());
        assert_eq!(
            into_buffer(block_on(stream.read(&fixture.file, &fixture.op, ReadRequest::new(0, vec![0; 9]))), 0).1,
            Err(Errno::IO)
        );
        assert_eq!(fixture.write(&stream, 0, b"x"), Err(Errno::IO));
        assert_eq!(fixture.attribute(OVERFLOW).as_deref(), Some(value));
        block_on(stream.set_size(&fixture.file, &fixture.op, 0)).unwrap();
        assert_eq!((fixture.attribute(OVERFLOW), fixture.content(&fixture.file, &stream)), (None, Vec::new()));
        fixture.set(OVERFLOW, value);
        block_on(fixture.stream(fixture.metadata.id, "s").remove(&fixture.file, &fixture.op)).unwrap();
        assert_eq!(block_on(list(&fixture.file, &fixture.op, &Layout::default())), Ok(Vec::new()));
    }
}

#[test]
fn a_stream_is_found_in_the_store_of_a_share_that_overlaps() {
    let (fixture, other) = (Fixture::new(16 << 20), Fixture::new(16 << 20));
    other.write(&other.opened(), 0, &large()).unwrap();
    fixture.set(OVERFLOW, &other.attribute(OVERFLOW).unwrap());
    let stream = fixture.opened();
    assert_eq!(fixture.write(&stream, 0, b"x"), Err(Errno::IO));
    fixture.store.is_beside((2, &other.vfs), &other.store);
    let stream = fixture.opened();
    assert_eq!(fixture.content(&fixture.file, &stream), large());
    assert!(block_on(fixture.store.is_used()));
    block_on(stream.remove(&fixture.file, &fixture.op)).unwrap();
    assert_eq!((fixture.stored(), other.stored()), (0, 0));
}

#[test]
fn a_store_does_not_keep_its_volume_open() {
    let streams = Streams::new(Arc::new(ManualClock::ticking()));
    let [home, inner, outer] = [(); 3].map(|()| Fixture::new(1 << 20).vfs);
    let store = streams.store_of((1, &home));
    assert!(Arc::ptr_eq(&store, &streams.store_of((1, &home))), "a volume has one store");
    streams.overlap((2, &inner), (3, &outer));
    let [closed, kept] = [&home, &inner].map(Arc::downgrade);
    drop((home, inner));
    assert!(closed.upgrade().is_none(), "the volume is closed with its last user");
    assert_eq!(block_on(store.create(&Fixture::new(1 << 20).metadata)).err(), Some(Errno::STALE));
    assert!(kept.upgrade().is_some(), "the other share needs its store");
}
