//! The contract, and tests specific to this file system.

use crate::vfs::{Extent, Payload, RenameRequest, SERVER, SetXattr, read_into};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::answer::block_on;
use crate::testing::ManualClock;
use crate::vfs::SetMetadata;
use crate::vfs::contract::{self, Fixture};

/// A clock that advances by one second each time it is read.
#[derive(Default)]
struct Ticking(AtomicI64);

impl Environment for Ticking {
    fn now(&self) -> Time {
        Time { secs: 1_700_000_000 + self.0.fetch_add(1, Ordering::Relaxed), nanos: 0 }
    }

    fn uptime(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }

    fn random(&self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

fn user(uid: u32) -> Op {
    Op::from(Identity { uid, gid: uid, groups: Box::default() })
}

/// A fresh file system whose root belongs to user 1000.
pub(in crate::vfs) fn fixture() -> Fixture {
    let attributes = WantedXattrs::new(["user.a", "security.NTACL"]);
    let options = Options { uid: 1000, gid: 1000, attributes, ..Options::default() };
    let clock = ManualClock::new();
    let memory = Arc::new(Memory::with_options(Arc::new(clock.clone()), options));
    let (owner, links) = (user(1000), Arc::clone(&memory));
    let symlink = {
        let owner = Arc::clone(&owner);
        Box::new(move |path: &RelPath, target: &[u8]| {
            links.symlink(&owner, path, target).expect("the name is not in use")
        })
    };
    let (other, symlink) = (Some(user(1001)), Some(symlink as contract::MakeLink));
    let let_pass = Box::new(move |time| clock.advance(time));
    Fixture { vfs: memory, owner, other, symlink, others: None, let_pass, fail_late: None, keep: Box::new(()) }
}

fn small(capacity: u64, inodes: usize) -> Memory {
    Memory::with_options(Arc::new(Ticking::default()), Options { capacity, inodes, ..Options::default() })
}

fn path(name: &str) -> RelPath {
    RelPath::root().join(name.as_bytes()).expect("a valid name")
}

const BOTH: Access = Access { read: true, write: true };

fn file(memory: &Memory, who: &Op, name: &str) -> (Arc<dyn Node>, FileId) {
    let made = block_on(memory.create(who, &path(name), NewFile::new(Create::File(BOTH), 0o644)));
    let (node, metadata) = made.unwrap_or_else(|error| panic!("{name}: {error:?}")).opened();
    (node, metadata.id)
}

#[test]
fn it_fulfils_the_contract() {
    contract::check(&fixture);
}

#[test]
fn it_fills_up_and_frees_space() {
    let (memory, root) = (small(3 * 4096, 100), user(0));
    let (node, id) = file(&memory, &root, "a");
    let free = || memory.0.space().free;
    let write = |at, length| block_on(node.write(&root, at, Bytes::from(vec![1; length]).into(), false));
    assert_eq!(write(0, 8192), Ok(()));
    assert_eq!((free(), block_on(node.set_extent(&root, Extent::Reserve(4 * 4096)))), (1, Err(Errno::NOSPC)));
    assert_eq!(write(8192, 8192), Err(Errno::NOSPC));
    assert_eq!((free(), block_on(node.metadata(&SERVER)).unwrap().size), (0, 3 * 4096), "files that fit remain");
    assert_eq!(block_on(node.set_extent(&root, Extent::Zero { offset: 0, length: 4096 })), Ok(()));
    assert_eq!(free(), 1);
    assert_eq!(block_on(node.set_extent(&root, Extent::Size(0))), Ok(()));
    assert_eq!((free(), write(0, 1)), (3, Ok(())));
    assert_eq!(block_on(memory.unlink(&root, &path("a"), id, Kind::File)).err(), None);
    assert_eq!(free(), 2, "an open file keeps its space");
    drop(node);
    assert_eq!((free(), memory.inode_count()), (3, 1));
}

#[test]
fn the_number_of_files_is_bounded() {
    let (memory, root) = (small(1 << 20, 3), user(0));
    let (_, id) = file(&memory, &root, "a");
    file(&memory, &root, "b");
    let create = || block_on(memory.create(&root, &path("c"), NewFile::new(Create::Directory, 0o755))).err();
    assert_eq!(create(), Some(Errno::NOSPC));
    assert_eq!(block_on(memory.unlink(&root, &path("a"), id, Kind::File)).err(), None);
    assert_eq!(create(), None);
}

#[test]
fn offsets_end_where_files_do() {
    let (memory, root) = (small(1 << 20, 10), user(0));
    let (node, _) = file(&memory, &root, "a");
    let byte = || Payload::from(Bytes::from_static(b"x"));
    for offset in [u64::MAX, i64::MAX as u64] {
        assert_eq!(block_on(node.write(&root, offset, byte(), false)), Err(Errno::FBIG));
        assert_eq!(block_on(read_into(&node, &SERVER, offset, vec![0; 8], 0)).1, Ok(0));
        assert_eq!(block_on(node.data_ranges(&SERVER, offset, u64::MAX)), Ok(Vec::new()));
        assert_eq!(block_on(node.set_extent(&root, Extent::Zero { offset, length: u64::MAX })), Ok(()));
    }
    assert_eq!(block_on(node.write(&root, i64::MAX as u64 - 1, byte(), false)), Ok(()));
    assert_eq!(
        block_on(read_into(&node, &SERVER, i64::MAX as u64 - 1, vec![0; 8], 0)),
        (b"x\0\0\0\0\0\0\0".to_vec(), Ok(1))
    );
    assert_eq!(block_on(read_into(&node, &SERVER, 0, Vec::new(), 1)).1, Err(Errno::INVAL));
}

#[test]
fn sticky_directories_protect_the_files_of_others() {
    let root = user(0);
    let memory = Memory::with_options(Arc::new(Ticking::default()), Options { mode: 0o1777, ..Options::default() });
    let (node, id) = file(&memory, &user(5), "a");
    let unlink = |who| block_on(memory.unlink(&who, &path("a"), id, Kind::File)).map(drop);
    assert_eq!(unlink(user(6)), Err(Errno::PERM));
    let moved = block_on(memory.rename(&user(6), RenameRequest::new(&path("a"), id, &path("b"))));
    assert_eq!(moved, Err(Errno::PERM));
    assert_eq!((unlink(user(5)), block_on(node.space(&root)).is_ok()), (Ok(()), true));
}

#[test]
fn groups_and_owners() {
    let memory = Memory::with_options(Arc::new(Ticking::default()), Options { mode: 0o777, ..Options::default() });
    let (node, _) = file(&memory, &user(5), "a");
    let member = Op::from(Identity { uid: 6, gid: 6, groups: Box::new([5]) });
    let set = |who: &Op, set| block_on(node.set_metadata(who, set));
    let mode = |mode| SetMetadata { mode: Some(mode), ..SetMetadata::default() };
    assert_eq!(set(&user(5), mode(0o462)), Ok(()));
    let rights = |who: &Op| block_on(node.permissions(who)).unwrap();
    assert_eq!([rights(&user(5)), rights(&member), rights(&user(7)), rights(&user(0))], [4, 6, 2, 6]);
    assert_eq!(set(&member, mode(0o777)), Err(Errno::PERM));
    let owner = |uid, gid| SetMetadata { uid, gid, ..SetMetadata::default() };
    assert_eq!(set(&user(5), owner(Some(6), None)), Err(Errno::PERM));
    assert_eq!(set(&user(5), owner(None, Some(9))), Err(Errno::PERM));
    assert_eq!(set(&user(0), owner(Some(6), Some(9))), Ok(()));
    assert_eq!(set(&member, owner(Some(6), Some(5))), Ok(()));
    for (name, error) in [
        ("security.NTACL", Errno::PERM),
        ("trusted.x", Errno::PERM),
        ("system.posix_acl_access", Errno::OPNOTSUPP),
        ("nonsense", Errno::OPNOTSUPP),
        ("user.", Errno::INVAL),
        (&format!("user.{}", "x".repeat(251)), Errno::RANGE),
    ] {
        assert_eq!(block_on(node.set_xattr(&member, name, Some(Vec::new()), SetXattr::Any)), Err(error), "{name}");
    }
    assert_eq!(block_on(node.set_xattr(&user(0), "user.x", Some(vec![0; 65_537]), SetXattr::Any)), Err(Errno::TOOBIG));
}

#[test]
fn a_set_group_id_directory_hands_its_group_on() {
    let options = Options { mode: 0o2777, gid: 42, ..Options::default() };
    let memory = Memory::with_options(Arc::new(Ticking::default()), options);
    let made = |name, what| block_on(memory.create(&user(5), &path(name), NewFile::new(what, 0o755))).unwrap().metadata;
    let (dir, file) = (made("dir", Create::Directory), made("file", Create::File(BOTH)));
    assert_eq!((dir.gid, dir.mode, file.gid, file.mode), (42, 0o2755, 42, 0o755));
}
