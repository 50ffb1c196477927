//! A hanging file system mounted below a share: a FUSE file system whose program never answers. It has its own process
//! in its own mount namespace, so that nothing is left when the process ends.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use localfs::{LocalFs, Options};
use server::answer::{Answer, block_on};
use server::vfs::{
    Access, Case, Create, Identity, Kind, ListRequest, Lookup, LookupOptions, NewFile, Node, Op, Page, RelPath,
    RenameRequest, SymlinkPolicy, Vfs, read_into,
};

const LINKS: SymlinkPolicy = SymlinkPolicy { follow: true, ..SymlinkPolicy::NONE };
/// Environment variable with the location of the shares, set in the process that has the mount.
const PLACE: &str = "FREVO_TEST_HUNG";
/// Opens the device, which the mount needs and the test inherits, mounts, and executes the test.
const SCRIPT: &str = "exec 7<>/dev/fuse && mount -i -t fuse -o \
    fd=7,rootmode=40000,user_id=0,group_id=0,allow_other hung \"$FREVO_TEST_HUNG/one/mount\" && exec \"$@\"";

fn path(text: &str) -> RelPath {
    text.split('/').fold(RelPath::root(), |path, name| path.join(name.as_bytes()).expect("a valid name"))
}

fn user(uid: u32) -> Op {
    Op::from(Identity { uid, gid: uid, groups: Box::default() })
}

#[test]
fn a_hanging_mount_below_a_share_blocks_nothing_else() {
    if let Ok(place) = std::env::var(PLACE) {
        return beside_what_hangs(Path::new(&place));
    }
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        return eprintln!("does not apply: requires root and /dev/fuse");
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    for name in ["", "one", "one/mount", "one/dir", "two"] {
        let path = directory.path().join(name);
        let _ = std::fs::create_dir(&path);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).expect("the test owns the file");
    }
    let mut again = Command::new("unshare");
    again.args(["--mount", "--propagation", "private", "sh", "-c", SCRIPT, "sh"]);
    again
        .arg(std::env::current_exe().expect("the path of the test program is known"))
        .args(["--nocapture", "--test-threads=1"]);
    let done = again.env(PLACE, directory.path()).process_group(0).status().expect("the unshare program exists");
    assert!(done.success(), "{done}");
}

fn beside_what_hangs(place: &Path) {
    // A call that waited in this thread would never end.
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_secs(120));
        eprintln!("a call waits for the hanging mount");
        std::process::abort();
    });
    let open = |name: &str| LocalFs::open(&place.join(name), Options::default()).expect("it exists");
    let (one, two) = (open("one"), open("two"));
    let users = [user(1000), user(1001), user(1002), user(1003), user(1004), user(1005)];
    let mut hung: Vec<Answer<_>> = Vec::new();
    for who in &users {
        for number in 0..200 {
            let name = path(&format!("mount/{number}"));
            hung.push(
                one.lookup(
                    who,
                    &name,
                    LookupOptions { case: Case::Insensitive, links: LINKS, access: Access::default() },
                )
                .map(|found| found.map(drop)),
            );
            let what = Create::File(Access { read: true, write: true });
            hung.push(one.create(who, &name, NewFile::new(what, 0o644)).map(|made| made.map(drop)));
        }
        hung.push(
            one.lookup(
                who,
                &path("mount"),
                LookupOptions { case: Case::Insensitive, links: LINKS, access: Access::default() },
            )
            .map(|found| found.map(drop)),
        );
    }
    for share in [&one, &two] {
        for who in &users {
            use_it(share, who);
        }
    }
    // A mount point is listed like any other entry.
    let node = found(&one, &users[0], &RelPath::root());
    let Page { entries, .. } = block_on(node.list(&users[0], ListRequest { cursor: 0, count: 100, metadata: true }))
        .expect("the root directory can be listed");
    let kinds = entries.iter().filter(|entry| &*entry.name == b"mount").map(|entry| entry.metadata.map(|it| it.kind));
    assert_eq!(kinds.collect::<Vec<_>>(), [Some(Kind::Directory)]);
    assert!(hung.iter().all(|answer| matches!(answer, Answer::Later(_))));
    // The process ends without waiting for the hanging file system.
    std::process::exit(0);
}

fn found(share: &LocalFs, who: &Op, path: &RelPath) -> Arc<dyn Node> {
    match block_on(share.lookup(
        who,
        path,
        LookupOptions { case: Case::Insensitive, links: LINKS, access: Access::default() },
    )) {
        Ok(Lookup::Found { node, .. }) => node,
        _ => panic!("{path:?} is not found"),
    }
}

/// Performs all operations that use a worker thread, and some that do not.
fn use_it(share: &LocalFs, who: &Op) {
    let (name, other) = (path(&format!("file {}", who.uid)), path(&format!("other {}", who.uid)));
    let both = Access { read: true, write: true };
    let (node, made) =
        block_on(share.create(who, &name, NewFile::new(Create::File(both), 0o644))).expect("a new file").opened();
    block_on(node.write(who, 0, vec![1; 1 << 20].into(), true)).expect("the test owns the file");
    assert_eq!(block_on(read_into(&node, who, 0, vec![0; 4096], 0)).1, Ok(4096));
    block_on(node.flush(who)).expect("the test owns the file");
    block_on(share.rename(who, RenameRequest::new(&name, made.id, &other))).expect("the name is not in use");
    let root = found(share, who, &RelPath::root());
    let upper = format!("OTHER {}", who.uid);
    let entry = block_on(root.entry(who, upper.as_bytes(), Case::Insensitive)).expect("the root may be searched");
    assert_eq!(entry.and_then(|entry| entry.metadata).map(|it| it.id), Some(made.id));
    assert!(
        !block_on(root.list(who, ListRequest { cursor: 0, count: 100, metadata: true }))
            .expect("the root directory can be listed")
            .entries
            .is_empty()
    );
    block_on(share.unlink(who, &other, made.id, Kind::File)).expect("the test owns the file");
}
