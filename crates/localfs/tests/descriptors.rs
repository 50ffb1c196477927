//! The number of descriptors that a file system uses, and its behaviour when they run out. One test in its own process,
//! because it counts and limits the descriptors of the whole process.

use std::sync::Arc;

use localfs::{LocalFs, Options};
use proto::status::Status;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use server::answer::block_on;
use server::vfs::{
    Access, Case, Create, Errno, Identity, ListRequest, Lookup, LookupOptions, NewFile, Node, Op, Page, RelPath,
    Result, SERVER, SymlinkPolicy, Vfs, read_into,
};

const BOTH: Access = Access { read: true, write: true };

fn used() -> usize {
    // The descriptor that reads the directory is included.
    std::fs::read_dir("/proc/self/fd").expect("Linux has it").count() - 1
}

fn lookup(fs: &LocalFs, who: &Op, path: &RelPath) -> Result<Arc<dyn Node>> {
    match block_on(fs.lookup(
        who,
        path,
        LookupOptions { case: Case::Insensitive, links: SymlinkPolicy::default(), access: Access::default() },
    ))? {
        Lookup::Found { node, .. } => Ok(node),
        _ => Err(Errno::NOENT),
    }
}

#[test]
fn few_descriptors_are_used_and_running_out_harms_no_client() {
    let temp = tempfile::tempdir().expect("a directory");
    let fs = LocalFs::open(temp.path(), Options::default()).expect("the open succeeds");
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let who = Op::from(Identity { uid, gid, groups: Box::default() });
    let name = |text: &str| RelPath::root().join(text.as_bytes()).expect("a valid name");
    let file = name("file");
    let made =
        block_on(fs.create(&who, &file, NewFile::new(Create::File(BOTH), 0o644))).expect("the name is not in use");
    drop(made);
    // The first one opens the mount table for the process.
    assert!(lookup(&fs, &who, &file).is_ok());

    let before = used();
    let open = block_on(lookup(&fs, &who, &file).expect("it exists").open(&who, BOTH)).expect("the user owns the file");
    assert_eq!(used(), before + 1, "an open file uses one descriptor");
    drop(open);
    let root = lookup(&fs, &who, &RelPath::root()).expect("it exists");
    assert_eq!(used(), before, "the root is open already");
    let mut cursor = 0;
    loop {
        let Page { entries, next, .. } = block_on(root.list(&who, ListRequest { cursor, count: 10, metadata: true }))
            .expect("the directory can be listed");
        if entries.is_empty() {
            break;
        }
        cursor = next;
    }
    assert_eq!(used(), before, "a finished listing uses none");

    let held = lookup(&fs, &who, &file).expect("it exists");
    let writer = block_on(held.open(&who, BOTH)).expect("the user owns the file");
    let limit = getrlimit(Resource::Nofile);
    let few = Rlimit { current: Some(used() as u64 + 10), ..limit };
    setrlimit(Resource::Nofile, few).expect("the limit may always be lowered");
    let mut taken = Vec::new();
    let refused = loop {
        match lookup(&fs, &who, &file) {
            Ok(node) => taken.push(node),
            Err(error) => break error,
        }
        assert!(taken.len() < 20, "the limit is honoured");
    };
    assert_eq!((refused, refused.status()), (Errno::MFILE, Status::TOO_MANY_OPENED_FILES));
    let refused = block_on(held.open(&who, BOTH)).err();
    assert_eq!(refused, Some(Errno::MFILE));
    let refused = block_on(fs.create(&who, &name("new"), NewFile::new(Create::File(BOTH), 0o644))).err();
    assert_eq!(refused, Some(Errno::MFILE));
    // Open files remain usable.
    let data = bytes::Bytes::from_static(b"goes on");
    assert_eq!(block_on(writer.write(&who, 0, data.into(), false)), Ok(()));
    let (buffer, count) = block_on(read_into(&writer, &SERVER, 0, vec![0; 7], 0));
    assert_eq!((buffer.as_slice(), count), (&b"goes on"[..], Ok(7)));
    drop(taken);
    assert!(lookup(&fs, &who, &file).is_ok(), "all operations succeed after one file is closed");
    setrlimit(Resource::Nofile, limit).expect("the limit was set before");
    assert!(lookup(&fs, &who, &name("new")).is_err(), "the file that could not be created does not exist");
}
