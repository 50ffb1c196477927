//! Watching directories after the process has used up what the kernel grants it. It has its own process, because it
//! limits the descriptors of the whole process.

use std::fs;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use localfs::{LocalFs, Options};
use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use server::answer::block_on;
use server::vfs::watch::{Listener, Noticed, Wanted};
use server::vfs::{Identity, Lookup, LookupOptions, Op, RelPath, SymlinkPolicy, Vfs};

/// Passes on the paths that it is notified of.
struct Passes(Mutex<Sender<Vec<u8>>>);

impl Listener for Passes {
    fn noticed(&self, path: &RelPath, _: Noticed) {
        let _ = self.0.lock().send(path.as_bytes().to_vec());
    }

    fn lost(&self) {}

    fn gone(&self) {}
}

#[test]
fn changes_are_reported_if_no_further_queue_can_be_created() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let share = LocalFs::open(directory.path(), Options::default()).expect("the directory opens");
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let who = Op::from(Identity { uid, gid, groups: Box::default() });
    let links = SymlinkPolicy::NONE;
    let Ok(Lookup::Found { node, .. }) = block_on(share.lookup(&who, &RelPath::root(), LookupOptions::exact(links)))
    else {
        panic!("the root is always found");
    };
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..limit }).expect("the limit may always be lowered");
    assert!(rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::CLOEXEC).is_err());
    let (told, hears) = channel();
    let watching = node.watch(Wanted::default(), Arc::new(Passes(Mutex::new(told))));
    setrlimit(Resource::Nofile, limit).expect("the limit was set before");
    let _watching = watching.expect("the process has a queue already");
    fs::write(directory.path().join("f"), "").expect("the test owns the directory");
    assert_eq!(hears.recv().as_deref(), Ok(&b"f"[..]));
}
