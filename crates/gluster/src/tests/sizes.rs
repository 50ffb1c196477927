//! The size of a file that several calls change at the same time.

use server::vfs::Extent;

use super::*;

/// `FILE_ATTRIBUTE_ARCHIVE`.
const ARCHIVE: u32 = 0x20;
/// The number of files. The library reports a wrong size for one of ten or fewer.
const FILES: usize = 200;
/// The number of writes of each file.
const WRITES: usize = 8;
/// The length of each write.
const LENGTH: usize = 4096;
/// The size of each second file after it was truncated.
const SHORT: u64 = 100;

fn path(number: usize) -> RelPath {
    RelPath::root().join(format!("file {number}").as_bytes()).expect("a valid name")
}

/// Creates a file, writes it while its DOS attributes are stored, and returns its handle and the expected size.
fn written(vfs: &Arc<dyn Vfs>, owner: &Op, number: usize) -> (Arc<dyn Node>, u64) {
    let kind = Create::File(Access { read: true, write: true });
    let new = NewFile { dos_attributes: Some(ARCHIVE), ..NewFile::new(kind, 0o644) };
    let file = block_on(vfs.create(owner, &path(number), new)).expect("the name is not in use").node;
    let part = |part: usize| file.write(owner, (part * LENGTH) as u64, Payload::from(vec![1; LENGTH]), false);
    let parts: Vec<_> = (0..WRITES).map(part).collect();
    parts.into_iter().for_each(|part| assert_eq!(block_on(part), Ok(())));
    if number.is_multiple_of(2) {
        return (file, (WRITES * LENGTH) as u64);
    }
    assert_eq!(block_on(file.set_extent(owner, Extent::Size(SHORT))), Ok(()));
    (file, SHORT)
}

#[test]
fn it_is_right_after_calls_at_the_same_time() {
    for name in volumes() {
        let owner = user(61_001);
        let (vfs, _) = fresh(&volume(&name, None), &owner);
        let mut wrong = Vec::new();
        for number in 0..FILES {
            let (file, expected) = written(&vfs, &owner, number);
            let open = block_on(file.metadata(&owner)).expect("metadata").size;
            assert_eq!(block_on(file.close(&owner)), Ok(()));
            let found = vfs.lookup(&owner, &path(number), LookupOptions::exact(SymlinkPolicy::NONE));
            let Ok(Lookup::Found { metadata, .. }) = block_on(found) else { panic!("it exists") };
            if [open, metadata.size] != [expected; 2] {
                wrong.push((number, open, metadata.size));
            }
        }
        assert_eq!(wrong, [], "{name}: files with their sizes before and after they were closed");
    }
}
