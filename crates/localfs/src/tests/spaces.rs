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
