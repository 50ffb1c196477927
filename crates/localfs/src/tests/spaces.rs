//! The space that is free, for the root and for directories on other file systems.

use super::*;

#[test]
fn a_directory_has_the_space_of_its_own_file_system() {
    let host = LocalFs::open(Path::new("/"), Options::default()).expect("it exists");
    let space = |path: &RelPath| match block_on(host.lookup(&SERVER, path, LookupOptions::exact(SymlinkPolicy::NONE))) {
        Ok(Lookup::Found { node, .. }) => block_on(node.space(&SERVER)).expect("the space of the directory"),
        _ => panic!("{path} exists"),
    };
    let of_user = |path: &RelPath| match block_on(host.lookup(&SERVER, path, LookupOptions::exact(SymlinkPolicy::NONE)))
    {
        Ok(Lookup::Found { node, .. }) => {
            block_on(node.space_of_user(&user(12_345))).expect("the space of the directory")
        }
        _ => panic!("{path} exists"),
    };
    let mounted = "/proc";
    let (root, space) = (space(&RelPath::root()), space(&RelPath::root().join(b"proc").expect("a valid name")));
    let said = rustix::fs::statvfs(mounted).expect("it exists");
    assert_eq!((space.blocks, space.id), (said.f_blocks, said.f_fsid));
    // It has no quotas.
    let bounded = of_user(&RelPath::root().join(b"proc").expect("a valid name"));
    assert_eq!((bounded.blocks, bounded.available, bounded.id), (space.blocks, space.available, space.id));
    assert_ne!(space.blocks, root.blocks, "{mounted} holds nothing");
}

/// The kernel answers that `/proc` has no quotas, so the refusal is not the kernel's.
#[test]
fn only_root_may_manage_quotas() {
    let host = LocalFs::open(Path::new("/proc"), Options::default()).expect("it exists");
    let root = RelPath::root();
    let Ok(Lookup::Found { node, .. }) =
        block_on(host.lookup(&SERVER, &root, LookupOptions::exact(SymlinkPolicy::NONE)))
    else {
        panic!("the root exists")
    };
    let quotas = node.quotas().expect("a file system may have quotas");
    let answers = |op: &Op| {
        let own = QuotaOwner::User(op.uid.max(1));
        let limits = QuotaLimits::default();
        [
            block_on(quotas.quota(op, own)).map(drop),
            block_on(quotas.set_quota(op, own, limits)),
            block_on(quotas.users(op, 0, 1)).map(drop),
            block_on(quotas.set_rules(op, QuotaRules { counted: true, ..QuotaRules::default() })),
        ]
    };
    assert_eq!(answers(&user(12_345)), [Err(Errno::PERM); 4]);
    // A filter of system calls may refuse them to root, too.
    if sys::has_quota_calls() {
        assert_eq!(answers(&SERVER), [Err(Errno::OPNOTSUPP); 4]);
    }
    // Any user may know this.
    assert!(matches!(block_on(quotas.is_counted(&user(12_345))), Ok(false) | Err(Errno::OPNOTSUPP)));
}
