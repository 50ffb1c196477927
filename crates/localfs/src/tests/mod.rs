//! The contract of [`Vfs`] on the machine's file systems, and tests specific to this implementation.

mod asides;
mod attributes;
mod content;
mod durable;
mod identities;
mod indexes;
mod initial_acls;
mod links;
mod listings;
mod mounted;
mod pipes;
mod recycle;
mod spaces;
mod watches;

use std::any::Any;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use bytes::Bytes;
use server::answer::block_on;
use server::vfs::contract::{self, Fixture};
use server::vfs::{Access, Case, Create, ListRequest, Metadata, Page, SERVER, SetMetadata, SpecialFile, read_into};
use server::vfs::{QuotaLimits, QuotaOwner, QuotaRules};
use tempfile::TempDir;

use super::*;

const READ: Access = Access { read: true, write: false };
const BOTH: Access = Access { read: true, write: true };
const FOLLOW: SymlinkPolicy = SymlinkPolicy::BENEATH;

/// Does `work` as the process, whatever identity the test has left on the thread.
fn process<T>(work: impl FnOnce() -> T) -> T {
    identity::as_process(work).expect("the thread can act as the process")
}

/// A directory that is removed when dropped.
struct Temp(Option<TempDir>);

impl Temp {
    fn new() -> Temp {
        Temp(Some(process(TempDir::new).expect("a temporary directory")))
    }

    fn path(&self) -> &Path {
        self.0.as_ref().expect("it exists until it is dropped").path()
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        process(|| self.0.take());
    }
}

fn user(uid: u32) -> Op {
    Op::from(Identity { uid, gid: uid, groups: Box::default() })
}

/// Returns the owner of the tests' files: a user without a name if the process is root, else the process's user.
fn owner() -> Op {
    if identity::may_switch() {
        return user(61_001);
    }
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Op::from(Identity { uid, gid, groups: Box::default() })
}

/// Returns whether no other identity can be assumed, and prints that.
fn cannot_switch() -> bool {
    let cannot = !identity::may_switch();
    if cannot {
        eprintln!("does not apply: without root, every operation acts as the user of the process");
    }
    cannot
}

/// A share in a temporary directory that belongs to [`owner`].
struct Bed {
    fs: LocalFs,
    who: Op,
    root: PathBuf,
    temp: Temp,
}

impl Bed {
    fn new() -> Bed {
        Bed::with(Options::default())
    }

    fn with(options: Options) -> Bed {
        let temp = Temp::new();
        let root = temp.path().join("share");
        let who = owner();
        prepare(&root, &who);
        Bed { fs: LocalFs::open(&root, options).expect("the directory opens"), who, root, temp }
    }

    /// Returns a path outside the share, next to it.
    fn outside(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    fn lookup_as(&self, who: &Op, text: &str, links: SymlinkPolicy) -> Result<Lookup> {
        block_on(self.fs.lookup(
            who,
            &path(text),
            LookupOptions { case: Case::Insensitive, links, access: Access::default() },
        ))
    }

    fn lookup(&self, text: &str) -> Result<Lookup> {
        self.lookup_as(&self.who, text, FOLLOW)
    }

    #[track_caller]
    fn found(&self, text: &str) -> (RelPath, Arc<dyn Node>, Metadata) {
        match self.lookup(text) {
            Ok(Lookup::Found { path, node, metadata }) => (path, node, metadata),
            Ok(_) => panic!("{text} is missing"),
            Err(error) => panic!("{text}: {error:?}"),
        }
    }

    fn is_missing(&self, text: &str) -> bool {
        matches!(self.lookup(text), Ok(Lookup::Missing { .. }))
    }

    #[track_caller]
    fn create(&self, text: &str) -> (Arc<dyn Node>, Metadata) {
        let made = self.fs.create(&self.who, &path(text), NewFile::new(Create::File(BOTH), 0o644));
        block_on(made).unwrap_or_else(|error| panic!("{text}: {error:?}")).opened()
    }

    /// Writes a file behind the share's back, as a local process would.
    fn local_write(&self, text: &str, content: &str) {
        process(|| fs::write(self.root.join(text), content)).expect("the process has permission");
    }
}

/// Creates the directory, owned by `who`.
fn prepare(root: &Path, who: &Identity) {
    rustix::process::umask(rustix::fs::Mode::empty());
    process(|| {
        let parent = root.parent().expect("a temporary directory has one");
        fs::set_permissions(parent, fs::Permissions::from_mode(0o755)).expect("the process owns the directory");
        fs::create_dir(root).expect("the name is not in use");
        fs::set_permissions(root, fs::Permissions::from_mode(0o755)).expect("the process owns the directory");
        chown(root, Some(who.uid), Some(who.gid)).expect("root may change the owner; other users keep it");
    });
}

fn path(text: &str) -> RelPath {
    let mut path = RelPath::root();
    for name in text.split('/').filter(|name| !name.is_empty()) {
        assert!(path.push(name.as_bytes()), "{text}");
    }
    path
}

#[track_caller]
fn now<T>(answer: Answer<Result<T>>) -> T {
    block_on(answer).unwrap_or_else(|error| panic!("the call fails: {error:?}"))
}

#[track_caller]
fn write(node: &Arc<dyn Node>, who: &Op, offset: u64, data: &[u8]) {
    now(node.write(who, offset, Bytes::copy_from_slice(data).into(), false));
}

/// Reads the content from the start through a handle opened for it.
#[track_caller]
fn content(node: &Arc<dyn Node>, who: &Op) -> String {
    let node = now(node.open(who, READ));
    let (mut buffer, count) = block_on(read_into(&node, &SERVER, 0, vec![0; 100], 0));
    buffer.truncate(count.expect("an open file is read"));
    String::from_utf8(buffer).expect("the tests write text")
}

/// Creates a contract fixture in `base`, which `keep` keeps alive.
fn fixture(base: &Path, keep: Box<dyn Any>) -> Fixture {
    let (root, owner) = (base.join("share"), owner());
    prepare(&root, &owner);
    let vfs = LocalFs::open(&root, Options::default()).expect("the directory opens");
    let link = move |path: &RelPath, target: &[u8]| {
        let target = std::ffi::OsStr::from_bytes(target);
        process(|| symlink(target, root.join(path.as_path()))).expect("the name is not in use");
    };
    // The changes of a process are known as its own by the path of the share, so others have another path.
    let alias = base.join("others");
    process(|| symlink("share", &alias)).expect("the name is not in use");
    let others = LocalFs::open(&alias, Options::default()).expect("the directory opens");
    let other = identity::may_switch().then(|| user(61_002));
    let (symlink, others) = (Some(Box::new(link) as contract::MakeLink), Some(Arc::new(others) as Arc<dyn Vfs>));
    let let_pass = Box::new(std::thread::sleep);
    Fixture { vfs: Arc::new(vfs), owner, other, symlink, others, let_pass, fail_late: None, keep }
}

#[test]
fn it_fulfils_the_contract() {
    contract::check(&|| {
        let temp = Temp::new();
        let base = temp.path().to_owned();
        fixture(&base, Box::new(temp))
    });
}

/// A file system in an image file, mounted until dropped.
struct Mounted(Temp);

impl Mounted {
    /// Mounts it; `None` if this process cannot mount, or the machine cannot create such a file system.
    fn new(kind: &str) -> Option<Mounted> {
        let temp = Temp::new();
        let (image, at) = (temp.path().join("image"), temp.path().join("mnt"));
        let run = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
        process(|| {
            let file = fs::File::create(&image).ok()?;
            file.set_len(320 << 20).ok()?;
            fs::create_dir(&at).ok()?;
            let made = run(Command::new(format!("mkfs.{kind}")).arg("-q").arg(&image));
            (made && run(Command::new("mount").args(["-o", "loop"]).args([&image, &at]))).then_some(())
        })?;
        Some(Mounted(temp))
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("mnt")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let at = self.path();
        process(|| Command::new("umount").arg("-l").arg(at).status()).expect("a user who mounted may unmount");
    }
}

#[test]
fn it_fulfils_the_contract_where_files_share_blocks() {
    for (kind, compresses) in [("xfs", false), ("btrfs", true)] {
        let Some(mounted) = Mounted::new(kind) else {
            eprintln!("not run on {kind}: requires root, mkfs.{kind} and a loop device");
            continue;
        };
        let number = std::cell::Cell::new(0);
        contract::check(&|| {
            number.set(number.get() + 1);
            let base = mounted.path().join(number.get().to_string());
            process(|| fs::create_dir(&base)).expect("the name is not in use");
            let fixture = fixture(&base, Box::new(()));
            let expected = Features { clones: true, compresses, punches: true, shows_reserved: true };
            assert_eq!(fixture.vfs.capabilities().features, expected, "{kind}");
            fixture
        });
    }
}

#[test]
fn special_files_are_shown_and_never_opened() {
    let bed = Bed::new();
    let fifo = bed.root.join("fifo");
    process(|| rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o666.into(), 0)).unwrap();
    let (_, node, metadata) = bed.found("FIFO");
    assert_eq!((metadata.kind, metadata.size), (Kind::Special, 0));
    for access in [READ, BOTH, Access::default()] {
        assert_eq!(block_on(node.open(&bed.who, access)).err(), Some(Errno::NODEV));
    }
    let made = bed.fs.create(&bed.who, &path("fifo"), NewFile::new(Create::File(BOTH), 0o644));
    assert_eq!(block_on(made).err(), Some(Errno::EXIST));
    let root = bed.found("").1;
    let Page { entries, .. } = now(root.list(&bed.who, ListRequest { cursor: 0, count: 10, metadata: true }));
    assert_eq!(entries[0].metadata.map(|metadata| metadata.kind), Some(Kind::Special));
    assert_eq!(block_on(bed.fs.unlink(&bed.who, &path("fifo"), metadata.id, Kind::Special)).map(|_| ()), Ok(()));
}

#[test]
fn fifos_and_sockets_are_created_and_devices_are_not() {
    let bed = Bed::new();
    for (file, is_made) in [
        (SpecialFile::Fifo, true),
        (SpecialFile::Socket, true),
        (SpecialFile::CharacterDevice(1, 3), false),
        (SpecialFile::BlockDevice(8, 0), false),
    ] {
        for replaces in [false, true] {
            let name = format!("{file:?} {replaces}");
            let name = path(&name.replace(['(', ')'], "-"));
            let found = replaces.then(|| now(bed.fs.create(&bed.who, &name, NewFile::new(Create::File(BOTH), 0o600))));
            let replaced = found.map(|found| found.metadata.id);
            let new = NewFile::new(Create::Special { file, replaces: replaced }, 0o642);
            let made = block_on(bed.fs.create(&bed.who, &name, new)).map(|created| created.metadata);
            match is_made {
                true => {
                    let made = made.unwrap_or_else(|errno| panic!("{file:?}: {errno:?}"));
                    assert_eq!((made.kind, made.special, made.mode), (Kind::Special, Some(file), 0o642));
                    assert_eq!((made.uid, Some(made.id) == replaced), (bed.who.uid, false));
                }
                false => assert_eq!(made.err(), Some(Errno::PERM)),
            }
        }
    }
    // What has content is not replaced.
    bed.local_write("content", "x");
    let found = bed.found("content").2;
    process(|| chown(bed.root.join("content"), Some(bed.who.uid), None)).unwrap();
    let new = NewFile::new(Create::Special { file: SpecialFile::Fifo, replaces: Some(found.id) }, 0o600);
    assert_eq!(block_on(bed.fs.create(&bed.who, &path("content"), new)).err(), Some(Errno::NOTEMPTY));
    assert_eq!(process(|| fs::read(bed.root.join("content"))).unwrap(), b"x");
    let root = bed.found("").1;
    let listed = now(root.list(&bed.who, ListRequest { cursor: 0, count: 100, metadata: true })).entries;
    assert!(listed.iter().all(|entry| !entry.name.starts_with(b".frevo")), "nothing is left over");
}

#[test]
fn an_unreadable_root_shows_nothing() {
    if cannot_switch() {
        return;
    }
    let bed = Bed::new();
    bed.local_write("file", "x");
    process(|| fs::set_permissions(&bed.root, fs::Permissions::from_mode(0o0))).unwrap();
    for text in ["file", "none", "dir/file"] {
        assert_eq!(bed.lookup(text).err(), Some(Errno::ACCES), "{text}");
    }
    let root = bed.found("").1;
    assert_eq!(
        block_on(root.list(&bed.who, ListRequest { cursor: 0, count: 10, metadata: true })).err(),
        Some(Errno::ACCES)
    );
    assert_eq!(block_on(root.open(&bed.who, READ)).err(), Some(Errno::ACCES));
}
