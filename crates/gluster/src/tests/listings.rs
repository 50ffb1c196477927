//! What a listing leaves in the caches.

use std::time::Duration;

use server::vfs::{RenameRequest, Replace};

use super::*;
use crate::connection::Connection;

const FILES: usize = 20;
/// The length of what is written to one of them.
const SIZE: usize = 10;

fn path(path: &str) -> RelPath {
    let names = path.split('/').filter(|name| !name.is_empty());
    names.fold(RelPath::root(), |above, name| above.join(name.as_bytes()).expect("a valid name"))
}

/// Opens a directory of a volume, and returns the connection that it uses.
fn opened(volume: &GlusterVolume, directory: &str) -> (Arc<dyn Vfs>, Arc<Connection>) {
    let connection = Connection::open_for_trial(volume).unwrap_or_else(|error| panic!("{error}"));
    (open(volume, directory).unwrap_or_else(|error| panic!("{error}")), connection)
}

fn create(vfs: &Arc<dyn Vfs>, owner: &Op, name: &str, kind: Create) {
    let mode = if matches!(kind, Create::Directory) { 0o755 } else { 0o644 };
    block_on(vfs.create(owner, &path(name), NewFile::new(kind, mode))).expect("the name is not in use");
}

fn create_files(vfs: &Arc<dyn Vfs>, owner: &Op) {
    (0..FILES).for_each(|number| create(vfs, owner, &format!("file {number}"), Create::File(Access::default())));
}

fn look_up(vfs: &Arc<dyn Vfs>, owner: &Op, name: &str) -> Option<Arc<dyn Node>> {
    match block_on(vfs.lookup(owner, &path(name), LookupOptions::exact(SymlinkPolicy::NONE))) {
        Ok(Lookup::Found { node, .. }) => Some(node),
        Ok(Lookup::Missing { .. }) => None,
        _ => panic!("{name} is found or missing"),
    }
}

fn open_root(vfs: &Arc<dyn Vfs>, owner: &Op) -> Arc<dyn Node> {
    let root = look_up(vfs, owner, "").expect("the root");
    block_on(root.open(owner, Access { read: true, write: false })).expect("the owner may read it")
}

/// Lists a directory in one page, and returns the number of entries.
fn list(directory: &Arc<dyn Node>, owner: &Op) -> usize {
    let all = ListRequest { cursor: 0, count: 1_000, metadata: true };
    let page = block_on(directory.list(owner, all)).expect("a page");
    assert!(page.entries.iter().all(|entry| entry.metadata.is_some()));
    page.entries.len()
}

/// Renames a file, removes another one, and writes a third.
fn change(vfs: &Arc<dyn Vfs>, owner: &Op) {
    let file = look_up(vfs, owner, "file 2").expect("a file");
    let file = block_on(file.open(owner, Access { read: false, write: true })).expect("the owner may write it");
    assert_eq!(block_on(file.write(owner, 0, Payload::from(vec![b'x'; SIZE]), false)), Ok(()));
    assert_eq!(block_on(file.flush(owner)), Ok(()));
    let id = |name| block_on(look_up(vfs, owner, name).expect("a file").metadata(owner)).expect("metadata").id;
    let [from, to] = ["file 0", "other"].map(path);
    let rename = RenameRequest { from, id: id("file 0"), to, replace: Replace::Nothing, to_recycle_bin: false };
    assert_eq!(block_on(vfs.rename(owner, rename)), Ok(()));
    assert!(block_on(vfs.unlink(owner, &path("file 1"), id("file 1"), server::vfs::Kind::File)).is_ok());
}

/// Returns whether each of the names that [`change`] changed is found, and whether the third file has content.
fn found(vfs: &Arc<dyn Vfs>, owner: &Op) -> [bool; 4] {
    let size = |node: &Arc<dyn Node>| block_on(node.metadata(owner)).expect("metadata").size;
    let [old, removed, new] = ["file 0", "file 1", "other"].map(|name| look_up(vfs, owner, name).is_some());
    [old, removed, new, look_up(vfs, owner, "file 2").is_some_and(|file| size(&file) == SIZE as u64)]
}

#[test]
fn what_was_listed_is_found_without_a_look_up() {
    for name in volumes() {
        let owner = user(61_001);
        let (vfs, directory) = fresh(&volume(&name, Some(Coherence::Timestamp)), &owner);
        create_files(&vfs, &owner);
        create(&vfs, &owner, "directory", Create::Directory);
        // The calls of other tests are made over other connections.
        let ours = GlusterVolume { threads: 3, ..volume(&name, Some(Coherence::Exclusive)) };
        keep(&ours);
        let (vfs, connection) = opened(&ours, &directory);
        let look_ups = || {
            let calls = connection.client.calls.numbers();
            calls.iter().filter(|(function, _)| *function == "h_lookupat").map(|(_, count)| *count).sum::<u64>()
        };
        assert_eq!(list(&open_root(&vfs, &owner), &owner), FILES + 1);
        let before = look_ups();
        for number in 0..FILES {
            assert!(look_up(&vfs, &owner, &format!("file {number}")).is_some());
        }
        assert!(look_up(&vfs, &owner, "directory").is_some());
        assert_eq!(look_ups(), before, "{name}");
        assert!(look_up(&vfs, &owner, "missing").is_none());
        assert!(look_ups() > before, "{name}: look-ups are counted");
    }
}

#[test]
fn what_changes_after_a_listing_is_noticed() {
    for name in volumes() {
        let owner = user(61_001);
        let (vfs, _) = fresh(&volume(&name, Some(Coherence::Exclusive)), &owner);
        create_files(&vfs, &owner);
        let root = open_root(&vfs, &owner);
        assert_eq!(list(&root, &owner), FILES);
        change(&vfs, &owner);
        assert_eq!(found(&vfs, &owner), [false, false, true, true], "{name}");
        assert_eq!(list(&root, &owner), FILES - 1);
        assert_eq!(found(&vfs, &owner), [false, false, true, true], "{name}");
    }
}

#[test]
fn what_others_change_after_a_listing_is_noticed() {
    for name in volumes() {
        let owner = user(61_001);
        let (theirs, directory) = fresh(&volume(&name, Some(Coherence::Timestamp)), &owner);
        create_files(&theirs, &owner);
        let (vfs, connection) = opened(&volume(&name, None), &directory);
        assert_eq!(list(&open_root(&vfs, &owner), &owner), FILES);
        assert_eq!(found(&vfs, &owner), [true, true, false, false], "{name}");
        change(&theirs, &owner);
        // docs/gluster.md has these times.
        std::thread::sleep(match connection.coherence() {
            Coherence::Callback => Duration::from_millis(150),
            _ => Duration::from_millis(2_100),
        });
        assert_eq!(found(&vfs, &owner), [false, false, true, true], "{name}");
    }
}
