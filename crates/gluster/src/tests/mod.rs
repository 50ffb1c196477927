//! The contract of [`Vfs`] and the behaviour of this back end on real volumes, which `cargo xtask gluster test` starts.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use server::acl::model::posix_acl::{self, PosixAcl};
use server::acl::ntacl;
use server::answer::block_on;
use server::policy::{Coherence, Storage, VolfileServer};
use server::vfs::contract::{self, Fixture};
use server::vfs::{
    Access, Create, Identity, InitialAcl, ListRequest, Lookup, LookupOptions, NewFile, Node, Op, Page, Payload,
    RelPath, SetXattr, SymlinkPolicy,
};

use super::*;

mod attributes;
mod identities;
mod listings;
mod sizes;

/// Returns the volumes that the tests run on; prints that there are none otherwise.
fn volumes() -> Vec<String> {
    let names = std::env::var("FREVO_GLUSTER_VOLUMES").unwrap_or_default();
    if names.is_empty() {
        eprintln!("not run: no volume; `cargo xtask gluster test` starts volumes and runs this test on them");
    }
    names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set; run `cargo xtask gluster test`"))
}

/// Returns a volume of the servers for tests, and keeps it open.
fn volume(name: &str, coherence: Option<Coherence>) -> GlusterVolume {
    let server = VolfileServer::Tcp { host: variable("FREVO_GLUSTER_SERVER"), port: 24_007 };
    let Storage::Gluster(volume) = server::testing::gluster(name) else { unreachable!("it is a volume") };
    let volume = GlusterVolume { servers: vec![server], coherence, ..(*volume).clone() };
    keep(&volume);
    volume
}

/// Opens a directory of a volume. The tests use a volume with each coherence at the same time, each test in a directory
/// of its own.
fn open(volume: &GlusterVolume, path: &str) -> Result<Arc<dyn Vfs>, String> {
    let connection = connection::Connection::open_for_trial(volume)?;
    let opened = volume::Volume::open(connection, path).map_err(|error| error.to_string())?;
    Ok(Arc::new(opened))
}

/// Keeps a connection to a volume until the end of the process. A brick of GlusterFS 10.3 may crash when it reports a
/// change to a client that leaves at that moment.
fn keep(volume: &GlusterVolume) {
    static KEPT: Mutex<Vec<(String, Arc<dyn Vfs>)>> = Mutex::new(Vec::new());
    let (mut kept, settings) = (KEPT.lock(), format!("{volume:?}"));
    if kept.iter().all(|(known, _)| *known != settings) {
        kept.push((settings, open(volume, "/").unwrap_or_else(|error| panic!("{error}"))));
    }
}

fn user(uid: u32) -> Op {
    Op::from(Identity { uid, gid: uid, groups: Box::default() })
}

/// Creates an empty directory of `owner` in the volume and opens it.
fn fresh(volume: &GlusterVolume, owner: &Op) -> (Arc<dyn Vfs>, String) {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let top = open(volume, "/").unwrap_or_else(|error| panic!("{error}"));
    let path = RelPath::root().join(name.as_bytes()).expect("a valid name");
    let new = NewFile::new(server::vfs::Create::Directory, 0o755);
    let made = block_on(top.create(&server::vfs::SERVER, &path, new)).expect("the server may create a directory");
    let set = server::vfs::SetMetadata { uid: Some(owner.uid), gid: Some(owner.gid), ..Default::default() };
    block_on(made.node.set_metadata(&server::vfs::SERVER, set)).expect("the server may change the owner");
    let path = format!("/{name}");
    let vfs = open(volume, &path).unwrap_or_else(|error| panic!("{error}"));
    (vfs, path)
}

#[test]
fn it_fulfils_the_contract() {
    for name in volumes() {
        for coherence in [Some(Coherence::Exclusive), None] {
            let ours = volume(&name, coherence);
            // Another connection is another client of the volume.
            let others = volume(&name, Some(Coherence::Timestamp));
            contract::check(&|| {
                let owner = user(61_001);
                let (vfs, directory) = fresh(&ours, &owner);
                let others = open(&others, &directory).unwrap_or_else(|error| panic!("{error}"));
                let (link_vfs, link_owner) = (Arc::clone(&vfs), owner.clone());
                let link = move |path: &RelPath, target: &[u8]| {
                    let made = block_on(link_vfs.create(&link_owner, path, NewFile::symlink(target, None)));
                    made.expect("the name is not in use");
                };
                Fixture {
                    vfs,
                    owner,
                    other: Some(user(61_002)),
                    symlink: Some(Box::new(link)),
                    others: (coherence != Some(Coherence::Exclusive)).then_some(others),
                    let_pass: Box::new(std::thread::sleep),
                    fail_late: None,
                    keep: Box::new(()),
                }
            });
            eprintln!("the contract holds on {name} with {coherence:?}");
        }
    }
}

#[test]
fn the_library_does_not_describe_itself_to_clients() {
    for volume in volumes().iter().map(|name| volume(name, None)) {
        let top = open(&volume, "/").unwrap_or_else(|error| panic!("{error}"));
        let path = RelPath::root().join(b".meta").expect("a valid name");
        let found = block_on(top.lookup(&user(61_001), &path, LookupOptions::exact(SymlinkPolicy::NONE)));
        assert!(matches!(found, Ok(Lookup::Missing { .. })), "{}", volume.volume);
    }
}

#[test]
fn a_listing_that_is_read_ahead_starts_again_anywhere() {
    for volume in volumes().iter().map(|name| volume(name, None)) {
        let owner = user(61_001);
        let (vfs, _) = fresh(&volume, &owner);
        let mut expected: Vec<String> = (0..200).map(|number| format!("file {number:03}")).collect();
        for name in &expected {
            let path = RelPath::root().join(name.as_bytes()).expect("a valid name");
            block_on(vfs.create(&owner, &path, NewFile::new(Create::File(Access::default()), 0o644))).expect("created");
        }
        let found = vfs.lookup(&owner, &RelPath::root(), LookupOptions::exact(SymlinkPolicy::NONE));
        let Ok(Lookup::Found { node, .. }) = block_on(found) else { panic!("the root is found") };
        let open = || block_on(node.open(&owner, Access { read: true, write: false })).expect("the owner may read it");
        let page = |node: &Arc<dyn Node>, cursor| {
            block_on(node.list(&owner, ListRequest { cursor, count: 15, metadata: true })).expect("a page")
        };
        let names = |page: &Page| -> Vec<String> {
            page.entries.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned()).collect()
        };
        let handle = open();
        let (mut pages, mut cursors) = (Vec::new(), vec![0]);
        while let Some(read) = cursors.last().map(|&at| page(&handle, at)).filter(|read| !read.entries.is_empty()) {
            cursors.push(read.next);
            pages.push(names(&read));
        }
        let mut listed = pages.concat();
        listed.sort();
        expected.sort();
        assert_eq!(listed, expected, "{}", volume.volume);
        // Two pages in sequence have a third one read, which each of these discards.
        for start in [5, 0, 9, 3, 7] {
            for at in start..start + 3 {
                assert_eq!(names(&page(&handle, cursors[at])), pages[at], "{} {at}", volume.volume);
            }
        }
        // A handle ends while a page is read for it.
        for is_closed in [true, false] {
            let handle = open();
            page(&handle, page(&handle, 0).next);
            if is_closed {
                assert_eq!(block_on(handle.close(&owner)), Ok(()));
            }
        }
    }
}

/// What one handle has read a moment ago, or in advance, is not returned after a change through another one.
#[test]
fn a_change_ends_what_other_handles_have_read() {
    for volume in volumes().iter().map(|name| volume(name, None)) {
        let owner = user(61_001);
        let (vfs, _) = fresh(&volume, &owner);
        let path = RelPath::root().join(b"file").expect("a valid name");
        let both = Access { read: true, write: true };
        let made = block_on(vfs.create(&owner, &path, NewFile::new(Create::File(both), 0o640))).expect("created");
        let look = || match block_on(vfs.lookup(&owner, &path, LookupOptions::exact(SymlinkPolicy::NONE))) {
            Ok(Lookup::Found { node, metadata, .. }) => (node, metadata),
            _ => panic!("the file is found"),
        };
        let access = |node: &Arc<dyn Node>| block_on(node.get_xattr(&owner, posix_acl::ACCESS)).expect("it is read");
        let list = |gid| {
            let named = posix_acl::Entry { tag: posix_acl::Tag::Group(gid), permissions: 4 };
            PosixAcl::new([PosixAcl::of_mode(0o640).entries(), &[named]].concat()).encode()
        };
        for round in 1..=6 {
            // After some look-ups, the protection is read together with the file.
            let (node, _) = look();
            assert_eq!(block_on(node.get_xattr(&owner, ntacl::ATTRIBUTE)), Ok(None));
            let value = list(61_100 + round);
            let set = made.node.set_xattr(&owner, posix_acl::ACCESS, Some(value), SetXattr::Any);
            assert_eq!(block_on(set), Ok(()), "{}", volume.volume);
            let (after, _) = look();
            assert_eq!(access(&node), access(&after), "{}, round {round}", volume.volume);
            let (node, metadata) = look();
            let content = Payload::from(vec![b'x'; 10]);
            assert_eq!(block_on(made.node.write(&owner, metadata.size, content, false)), Ok(()));
            let now = block_on(node.metadata(&owner)).expect("the metadata");
            assert_eq!((now.size, look().1.size), (metadata.size + 10, metadata.size + 10));
        }
    }
}

#[test]
fn an_examination_tries_every_brick_and_leaves_nothing() {
    for name in volumes() {
        let volume = volume(&name, None);
        let (_, path) = fresh(&volume, &user(61_001));
        let examined = examine(&volume, Some(&path)).unwrap_or_else(|failure| panic!("{failure}"));
        let bricks = examined.bricks.expect("the server may create files");
        assert_eq!((bricks.tried.len(), examined.options.bricks), (3, 3), "{name}: {bricks:?}");
        let mounts = std::fs::read_to_string("/proc/mounts").expect("the mounts");
        let dir = variable("FREVO_GLUSTER_DIR");
        let is_ext4 = mounts.lines().any(|mount| mount.contains(&format!("{dir}/bricks")) && mount.contains(" ext4 "));
        let refusing = if is_ext4 { bricks.tried.clone() } else { Default::default() };
        assert_eq!(bricks.refuse_large_attributes, refusing, "{name}");
        let reports = name.ends_with("-samba");
        assert_eq!((examined.coherence == Coherence::Callback, bricks.report), (reports, reports.then_some(true)));
        let left = std::fs::read_dir(format!("{dir}/mnt/{name}{path}")).expect("the directory").count();
        assert_eq!(left, 0, "{name}");
        let missing = examine(&volume, Some(&format!("{path}/missing")));
        assert_eq!(missing, Err(Failure::Directory(server::vfs::Errno::NOENT)));
    }
    if let Some(name) = volumes().first() {
        let unknown = GlusterVolume { volume: format!("{name}-unknown"), ..volume(name, None) };
        assert!(matches!(examine(&unknown, None), Err(Failure::Volume(_))));
    }
}

/// The DOS attributes of a new file are stored behind the answer to the client, which may ask for them at any moment.
#[test]
fn the_attributes_of_a_new_file_are_shown_while_they_are_stored() {
    const ATTRIBUTES: u32 = 0x22;
    let settings = |name: &String| [Some(Coherence::Exclusive), None].map(|coherence| volume(name, coherence));
    for volume in volumes().iter().flat_map(settings) {
        let owner = user(61_001);
        let (vfs, _) = fresh(&volume, &owner);
        let both = Access { read: true, write: true };
        let path = RelPath::root().join(b"file").expect("a valid name");
        for number in 0..200u64 {
            let descriptor = (ntacl::ATTRIBUTE.to_owned(), vec![1; 200]);
            let protection =
                InitialAcl { owner: (owner.uid, owner.gid), mode: Some(0o640), lists: Vec::new(), descriptor };
            let new = NewFile {
                dos_attributes: Some(ATTRIBUTES),
                protection: (number % 2 == 0).then_some(protection),
                ..NewFile::new(Create::File(both), 0o640)
            };
            let made = block_on(vfs.create(&owner, &path, new)).expect("created");
            assert_eq!(made.metadata.dos_attributes, Some(ATTRIBUTES));
            std::thread::sleep(std::time::Duration::from_micros(number % 20 * 50));
            for look in 0..6 {
                match block_on(vfs.lookup(&owner, &path, LookupOptions::exact(SymlinkPolicy::NONE))) {
                    Ok(Lookup::Found { metadata, node, .. }) => {
                        assert_eq!(metadata.dos_attributes, Some(ATTRIBUTES), "{}, {number}, {look}", volume.volume);
                        block_on(node.open(&owner, both)).expect("the owner may open it");
                    }
                    _ => panic!("the file is found"),
                }
            }
            if number % 3 == 0 {
                drop(made.node);
            }
            block_on(vfs.unlink(&owner, &path, made.metadata.id, server::vfs::Kind::File)).expect("removed");
        }
    }
}
