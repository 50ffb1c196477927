//! Overflow of the kernel's event queue. It has its own process, because the whole process shares one queue.

use std::fs;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use localfs::{LocalFs, Options};
use parking_lot::Mutex;
use server::answer::block_on;
use server::vfs::watch::{Listener, Noticed, Wanted};
use server::vfs::{Identity, Lookup, LookupOptions, Op, RelPath, SymlinkPolicy, Vfs};

/// Reports the calls that it receives, and blocks in the first change until it is released.
struct Stuck {
    told: Mutex<Sender<&'static str>>,
    may_go: Mutex<Receiver<()>>,
}

impl Listener for Stuck {
    fn noticed(&self, _: &RelPath, _: Noticed) {
        let _ = self.told.lock().send("noticed");
        let _ = self.may_go.lock().recv();
    }

    fn lost(&self) {
        let _ = self.told.lock().send("lost");
    }

    fn gone(&self) {
        let _ = self.told.lock().send("gone");
    }
}

#[test]
fn events_dropped_by_the_kernel_are_reported_as_lost() {
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").expect("the kernel reports its limits");
    let limit: usize = limit.trim().parse().expect("a number");
    if limit > 200_000 {
        return eprintln!("does not apply: the kernel keeps {limit} changes");
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let share = LocalFs::open(directory.path(), Options::default()).expect("the directory opens");
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let who = Op::from(Identity { uid, gid, groups: Box::default() });
    let links = SymlinkPolicy::NONE;
    let Ok(Lookup::Found { node, .. }) = block_on(share.lookup(&who, &RelPath::root(), LookupOptions::exact(links)))
    else {
        panic!("the root is always found");
    };
    let ((told, hears), (go, may_go)) = (channel(), channel());
    let listener = Arc::new(Stuck { told: Mutex::new(told), may_go: Mutex::new(may_go) });
    let _watching = node.watch(Wanted::default(), listener).expect("the kernel permits watching directories");
    let file = directory.path().join("f");
    fs::write(&file, "").expect("written");
    assert_eq!(hears.recv(), Ok("noticed"));
    for _ in 0..limit / 2 + 1 {
        fs::remove_file(&file).expect("removed");
        fs::write(&file, "").expect("written");
    }
    drop(go);
    assert!(hears.iter().take(limit + 2).any(|told| told == "lost"));
}
