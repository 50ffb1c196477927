//! Users of one connection: every call is made for its own user, with all of that user's groups.

use std::time::{Duration, Instant};

use server::vfs::{
    Access, Create, Errno, Lookup, LookupOptions, Node, Payload, Result, SERVER, SetMetadata, SymlinkPolicy, read_into,
};

use super::*;

const THREADS: u32 = 16;
/// How long the threads call the volume.
const TIME: Duration = Duration::from_secs(4);
/// The number of groups that a volume honours at least.
const GROUPS: u32 = 80;
const READ: Access = Access { read: true, write: false };
const BOTH: Access = Access { read: true, write: true };

fn path(text: &str) -> RelPath {
    text.split('/').fold(RelPath::root(), |path, name| path.join(name.as_bytes()).expect("a valid name"))
}

/// Opens a file to read it, as the server does: by a look-up with the access.
fn opened(vfs: &Arc<dyn Vfs>, who: &Op, text: &str) -> Result<Arc<dyn Node>> {
    let options = LookupOptions { access: READ, ..LookupOptions::exact(SymlinkPolicy::NONE) };
    match block_on(vfs.lookup(who, &path(text), options))? {
        Lookup::Found { node, .. } => block_on(node.open(who, READ)),
        _ => Err(Errno::NOENT),
    }
}

#[track_caller]
fn refused(vfs: &Arc<dyn Vfs>, who: &Op, text: &str) {
    assert_eq!(opened(vfs, who, text).err(), Some(Errno::ACCES), "{text} as {}", who.uid);
}

/// Creates a file or directory and returns its handle, after a check of its owner and group.
fn made(vfs: &Arc<dyn Vfs>, who: &Op, text: &str, kind: Create, mode: u32) -> Arc<dyn Node> {
    let made = block_on(vfs.create(who, &path(text), NewFile::new(kind, mode))).expect("the user may create it");
    let found = made.metadata;
    assert_eq!((found.uid, found.gid, found.mode), (who.uid, who.gid, mode), "{text}");
    made.node
}

/// Creates, reads and removes a file of `me`, which `other` cannot read.
fn one_round(vfs: &Arc<dyn Vfs>, me: &Op, other: &Op, text: &str) {
    let content = format!("{text} of {}", me.uid);
    let node = made(vfs, me, text, Create::File(BOTH), 0o600);
    let data = Payload::Memory(content.clone().into_bytes().into());
    block_on(node.write(me, 0, data, false)).expect("the user may write");
    refused(vfs, other, text);
    let again = opened(vfs, me, text).expect("the owner may read");
    let (read, count) = block_on(read_into(&again, me, 0, vec![0; content.len()], 0));
    assert_eq!((read.as_slice(), count), (content.as_bytes(), Ok(content.len())));
    let metadata = block_on(again.metadata(me)).expect("the file exists");
    assert_eq!((metadata.uid, metadata.gid), (me.uid, me.gid), "{text}");
    block_on(vfs.unlink(me, &path(text), metadata.id, metadata.kind)).expect("the user may remove it");
}

#[test]
fn users_of_one_connection_are_told_apart() {
    for name in volumes() {
        let (alice, bob) = (user(61_011), user(61_012));
        let (vfs, _) = fresh(&volume(&name, Some(Coherence::Exclusive)), &alice);
        made(&vfs, &alice, "private", Create::Directory, 0o700);
        made(&vfs, &alice, "private/file", Create::File(BOTH), 0o666);
        made(&vfs, &alice, "common", Create::Directory, 0o777);
        let end = Instant::now() + TIME;
        let work = |number: u32| {
            let (me, other) = if number.is_multiple_of(2) { (&alice, &bob) } else { (&bob, &alice) };
            let mut rounds = 0;
            while Instant::now() < end {
                one_round(&vfs, me, other, &format!("common/{number}-{rounds}"));
                // Everybody may read the file, but only one user may search its directory.
                refused(&vfs, &bob, "private/file");
                opened(&vfs, &alice, "private/file").expect("the owner may search the directory");
                rounds += 1;
            }
            rounds
        };
        let rounds: u32 = std::thread::scope(|scope| {
            let work = &work;
            let threads: Vec<_> = (0..THREADS).map(|number| scope.spawn(move || work(number))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no check fails")).sum()
        });
        assert!(rounds >= THREADS);
        eprintln!("{name}: {rounds} rounds of {THREADS} threads in {TIME:?}");
    }
}

#[test]
fn eighty_groups_are_honoured() {
    let groups: Vec<u32> = (62_001..=62_000 + GROUPS).collect();
    let member = |groups: &[u32]| Op::from(Identity { uid: 61_013, gid: 61_013, groups: groups.into() });
    for name in volumes() {
        let (vfs, _) = fresh(&volume(&name, Some(Coherence::Exclusive)), &user(61_011));
        for (at, &group) in groups.iter().enumerate() {
            let text = format!("of-group-{group}");
            let node = made(&vfs, &SERVER, &text, Create::File(BOTH), 0o640);
            let set = SetMetadata { gid: Some(group), ..SetMetadata::default() };
            block_on(node.set_metadata(&SERVER, set)).expect("the server may change the group");
            opened(&vfs, &member(&groups), &text).unwrap_or_else(|error| panic!("{name}, group {at}: {error:?}"));
            let mut others = groups.clone();
            others.remove(at);
            refused(&vfs, &member(&others), &text);
        }
    }
}

#[test]
fn the_right_to_remove_a_name_is_known_after_a_look_up_in_its_directory() {
    for name in volumes() {
        let (alice, bob) = (user(61_011), user(61_012));
        let (vfs, _) = fresh(&volume(&name, Some(Coherence::Exclusive)), &alice);
        let directory = made(&vfs, &alice, "directory", Create::Directory, 0o755);
        made(&vfs, &alice, "directory/file", Create::File(BOTH), 0o644);
        let file = path("directory/file");
        let known = |who: &Op, owner: &Op| {
            opened(&vfs, who, "directory/file").expect("everybody may read it");
            vfs.may_remove(who, &file, owner.uid)
        };
        // Bob has looked nothing up.
        assert_eq!(vfs.may_remove(&bob, &file, alice.uid), None, "{name}");
        assert_eq!((known(&alice, &alice), known(&bob, &alice)), (Some(true), Some(false)), "{name}");
        let mode = |mode| SetMetadata { mode: Some(mode), ..Default::default() };
        block_on(directory.set_metadata(&alice, mode(0o777))).expect("the owner may");
        assert_eq!(vfs.may_remove(&bob, &file, alice.uid), None, "{name}: it has changed");
        assert_eq!((known(&alice, &bob), known(&bob, &alice)), (Some(true), Some(true)), "{name}");
        // The owner of the file and of the directory may remove names from a sticky directory.
        block_on(directory.set_metadata(&alice, mode(0o1777))).expect("the owner may");
        assert_eq!(
            (known(&alice, &bob), known(&bob, &alice), known(&bob, &bob)),
            (Some(true), Some(false), Some(true))
        );
        let metadata = block_on(opened(&vfs, &bob, "directory/file").expect("it exists").metadata(&bob));
        let id = metadata.expect("metadata").id;
        let removed = block_on(vfs.unlink(&bob, &file, id, server::vfs::Kind::File));
        assert_eq!(removed.err(), Some(Errno::ACCES), "{name}: the volume says the same");
    }
}
