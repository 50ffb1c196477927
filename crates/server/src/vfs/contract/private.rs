//! Private directories: their owner, and that only plain files in them are used.

use std::sync::Arc;

use super::{BOTH, Fixture, path};
use crate::answer::block_on;
use crate::vfs::{
    Create, Errno, Kind, NewFile, Op, Private, RelPath, RenameRequest, Replace, Result, SERVER, SetMetadata,
};

pub(super) const CHECKS: [fn(&Fixture); 3] =
    [files_come_and_go, what_others_have_put_there_is_refused, names_do_not_lead_out];

const NAME: &str = ".private";

fn private(on: &Fixture, make: bool) -> Result<Option<Arc<dyn Private>>> {
    block_on(on.vfs.private(&RelPath::root(), NAME, make))
}

fn made(on: &Fixture) -> Arc<dyn Private> {
    private(on, true).expect("it can be created").expect("it was created")
}

/// The server itself.
fn own() -> Op {
    SERVER.clone()
}

fn files_come_and_go(on: &Fixture) {
    assert!(private(on, false).expect("the lookup succeeds").is_none());
    let directory = made(on);
    let (node, metadata) = block_on(directory.create("a")).expect("it can be created");
    assert_eq!((metadata.kind, metadata.mode, metadata.links), (Kind::File, 0o600, 1));
    on.write(&node, 0, b"content");
    assert_eq!(block_on(directory.create("a")).err(), Some(Errno::EXIST));
    let again = private(on, false).expect("it exists").expect("it exists");
    let (found, metadata) = block_on(again.find("a")).expect("it exists").expect("it exists");
    assert_eq!(metadata.size, 7);
    block_on(found.open(&own(), BOTH)).expect("the server has permission");
    assert!(block_on(directory.find("b")).expect("the lookup succeeds").is_none());
    assert_eq!(block_on(directory.remove("b")), Err(Errno::NOENT));
    assert_eq!(block_on(directory.remove("a")), Ok(()));
    assert!(block_on(directory.find("a")).expect("the lookup succeeds").is_none());
}

fn what_others_have_put_there_is_refused(on: &Fixture) {
    if on.other.is_none() {
        return eprintln!("does not apply: without root, every directory belongs to the user of the process");
    }
    // A directory that belongs to a user, whatever its mode; a file; a link to one of the server's own directories.
    for mode in [0o700, 0o777] {
        let what = Create::Directory;
        let made = block_on(on.vfs.create(&on.owner, &path(NAME), NewFile::new(what, mode))).expect("free");
        for make in [false, true] {
            assert_eq!(private(on, make).err(), Some(Errno::PERM), "{mode:o}");
        }
        on.unlink(NAME, made.metadata.id, Kind::Directory).expect("it is empty");
    }
    let (_, id) = on.file(NAME, "content");
    assert_eq!(private(on, true).err(), Some(Errno::PERM));
    on.unlink(NAME, id, Kind::File).expect("it exists");
    if let Some(symlink) = &on.symlink {
        block_on(on.vfs.create(&own(), &path("elsewhere"), NewFile::new(Create::Directory, 0o700))).expect("free");
        symlink(&path(NAME), b"elsewhere");
        for make in [false, true] {
            assert_eq!(private(on, make).err(), Some(Errno::PERM));
        }
    }
}

fn names_do_not_lead_out(on: &Fixture) {
    let directory = made(on);
    let (victim, _) = on.file("victim", "secret");
    // An open directory remains usable, whatever has its name by now.
    block_on(directory.create("kept")).expect("free");
    let (_, _, metadata) = on.found(NAME);
    let renamed = block_on(on.vfs.rename(&own(), RenameRequest::new(&path(NAME), metadata.id, &path("away"))));
    renamed.expect("root has permission");
    on.directory(NAME);
    assert!(block_on(directory.find("kept")).expect("it exists").is_some());
    let at = |name: &str| path("away").join(name.as_bytes()).expect("a valid name");
    // A second name, a directory and links are not files of it.
    block_on(on.vfs.link(&own(), &victim, &at("linked"), Replace::Nothing)).expect("root has permission");
    block_on(on.vfs.create(&own(), &at("directory"), NewFile::new(Create::Directory, 0o700)))
        .expect("root has permission");
    block_on(on.vfs.create(&own(), &at("link"), NewFile::symlink(b"../victim", None))).expect("root has permission");
    for name in ["linked", "directory", "link", ".."] {
        let found = block_on(directory.find(name));
        assert!(matches!(found, Err(Errno::PERM | Errno::INVAL | Errno::XDEV) | Ok(None)), "{name}");
    }
    assert_eq!(block_on(directory.create("link")).err(), Some(Errno::EXIST));
    let set = SetMetadata { mode: Some(0o644), ..SetMetadata::default() };
    assert_eq!(block_on(victim.set_metadata(&own(), set)), Ok(()), "it is untouched");
}
