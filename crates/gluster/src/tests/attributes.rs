//! Extended attributes of files and directories that are changed at the same time. GlusterFS may crash then
//! (`sys/attribute_calls.rs`), which ends this process.

use super::*;

/// The number of files and of directories, and of changes of each. A program that changes as many attributes of open
/// files by their handles crashes.
const EACH: usize = 8;
const CHANGES: usize = 1_000;
/// The number of changes between two removals, which wait for each other.
const BETWEEN_REMOVALS: usize = 250;
const NAME: &str = "user.attribute";

fn value(change: usize) -> Vec<u8> {
    format!("{change:080}").into_bytes()
}

/// Changes the attribute, and removes it now and then.
fn change(owner: &Op, node: &Arc<dyn Node>, removes: bool) {
    for change in 1..=CHANGES {
        assert_eq!(block_on(node.set_xattr(owner, NAME, Some(value(change)), SetXattr::Any)), Ok(()));
        if removes && change.is_multiple_of(BETWEEN_REMOVALS) {
            assert_eq!(block_on(node.set_xattr(owner, NAME, None, SetXattr::Any)), Ok(()));
            assert_eq!(block_on(node.get_xattr(owner, NAME)), Ok(None));
            assert_eq!(block_on(node.set_xattr(owner, NAME, Some(value(change)), SetXattr::Any)), Ok(()));
        }
    }
    assert_eq!(block_on(node.get_xattr(owner, NAME)), Ok(Some(value(CHANGES))));
}

#[test]
fn of_files_and_directories_at_the_same_time() {
    for name in volumes() {
        let owner = user(61_001);
        let (vfs, _) = fresh(&volume(&name, None), &owner);
        let made = |number: usize, kind: Create, mode: u32| {
            let path = RelPath::root().join(format!("{number}").as_bytes()).expect("a valid name");
            block_on(vfs.create(&owner, &path, NewFile::new(kind, mode))).expect("the name is not in use").node
        };
        std::thread::scope(|scope| {
            for number in 0..EACH {
                let file = made(number, Create::File(Access { read: true, write: true }), 0o644);
                let directory = made(EACH + number, Create::Directory, 0o755);
                let owner = &owner;
                scope.spawn(move || change(owner, &file, true));
                scope.spawn(move || change(owner, &directory, false));
            }
        });
    }
}

/// The DOS attributes of a new file are stored after others may have found the file.
#[test]
fn of_new_files_that_others_look_up() {
    const FILES: usize = 300;
    const HIDDEN: u32 = 0x2;
    for name in volumes() {
        let owner = user(61_001);
        let (vfs, _) = fresh(&volume(&name, None), &owner);
        let path = |number: usize| RelPath::root().join(format!("{number}").as_bytes()).expect("a valid name");
        let attributes = |number: usize| {
            let found = vfs.lookup(&owner, &path(number), LookupOptions::exact(SymlinkPolicy::NONE));
            match block_on(found) {
                Ok(Lookup::Found { metadata, .. }) => Some(metadata.dos_attributes),
                _ => None,
            }
        };
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while let number @ ..FILES = next.load(Ordering::Relaxed) {
                        let _ = attributes(number);
                    }
                });
            }
            for number in 0..FILES {
                let kind = Create::File(Access { read: true, write: true });
                let new = NewFile { dos_attributes: Some(HIDDEN), ..NewFile::new(kind, 0o644) };
                let made = block_on(vfs.create(&owner, &path(number), new)).expect("the name is not in use");
                assert_eq!(block_on(made.node.close(&owner)), Ok(()));
                next.store(number + 1, Ordering::Relaxed);
            }
        });
        let wrong: Vec<usize> = (0..FILES).filter(|&number| attributes(number) != Some(Some(HIDDEN))).collect();
        assert_eq!(wrong, [], "{name}: files without their attributes");
    }
}

/// Its open handle still has attributes.
#[test]
fn of_a_file_without_a_name() {
    for name in volumes() {
        let owner = user(61_001);
        let (vfs, _) = fresh(&volume(&name, None), &owner);
        let path = RelPath::root().join(b"file").expect("a valid name");
        let kind = Create::File(Access { read: true, write: true });
        let made = block_on(vfs.create(&owner, &path, NewFile::new(kind, 0o644))).expect("the name is not in use");
        block_on(vfs.unlink(&owner, &path, made.metadata.id, made.metadata.kind)).expect("it exists");
        let set = |value: Option<Vec<u8>>| block_on(made.node.set_xattr(&owner, NAME, value, SetXattr::Any));
        assert_eq!(set(Some(value(1))), Ok(()));
        assert_eq!(block_on(made.node.get_xattr(&owner, NAME)), Ok(Some(value(1))));
        assert_eq!(set(None), Ok(()));
        assert_eq!(block_on(made.node.get_xattr(&owner, NAME)), Ok(None));
    }
}
