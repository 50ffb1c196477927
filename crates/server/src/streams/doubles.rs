//! The names in a directory that have an AppleDouble file beside them, so that a listing for Macs looks up only these.

use std::collections::HashSet;

use super::Streams;
use super::beside::PREFIX;
use super::remembered::is_settled;
use crate::policy::limits::{BYTES_OF_DOUBLES, NAMES_READ_FOR_DOUBLES};
use crate::tree::Disk;
use crate::vfs::{ListRequest, Node, Op};
use crate::yielding::Work;

/// The number of names that one call reads.
const BATCH: usize = 1_024;
/// The cost of these names ([`Work::spend`]).
const PASS: u32 = 256;
/// Names do not depend on the layout of streams.
const ANY_LAYOUT: u64 = 0;
/// What a name takes besides its own bytes: its place in a set that is half full, and its allocation.
const NAME: usize = 2 * size_of::<Box<[u8]>>() + 16;

/// What is known of the AppleDouble files in a directory.
#[derive(Default)]
pub(crate) enum Doubles {
    /// The directory was not read.
    #[default]
    Unread,
    /// There are too many names, or the directory cannot be read: each file may have one.
    Unknown,
    /// The names of the files that have one, and the memory that they take, in bytes.
    Of(HashSet<Box<[u8]>>, usize),
}

impl Streams {
    /// Returns what is known of the AppleDouble files in `directory`, whose names the user may list. That there are
    /// none is remembered under the change time of the directory.
    pub(crate) async fn doubles(&self, disk: &Disk, op: &Op, directory: &dyn Node) -> Doubles {
        let seen = directory.metadata(op).await.ok();
        if seen.as_ref().is_some_and(|seen| self.without_doubles.has(seen.id, ANY_LAYOUT, &seen.stamped)) {
            return Doubles::Of(HashSet::new(), 0);
        }
        // Whether a later change gets another time is known only before the names are read.
        let settled = seen.filter(|seen| is_settled(disk, seen));
        let found = Doubles::read(directory, op, NAMES_READ_FOR_DOUBLES, BYTES_OF_DOUBLES).await;
        if let (Some(seen), Doubles::Of(names, _)) = (settled, &found)
            && names.is_empty()
        {
            self.without_doubles.note(seen.id, ANY_LAYOUT, seen.stamped);
        }
        found
    }
}

impl Doubles {
    /// Reads the names in the directory `node`, but no metadata. Gives up after `limit` names, or if those that it
    /// would keep take more than `bytes`.
    async fn read(node: &dyn Node, op: &Op, limit: usize, bytes: usize) -> Doubles {
        let mut found = HashSet::<Box<[u8]>>::new();
        let (mut cursor, mut count, mut taken) = (0, 0, 0);
        let mut work = Work::new();
        loop {
            let request = ListRequest { cursor, count: BATCH, metadata: false };
            let Ok(page) = node.list(op, request).await else { return Doubles::Unknown };
            cursor = page.next;
            count += page.entries.len();
            let is_last = page.is_last || page.entries.is_empty();
            for name in page.entries.iter().filter_map(|entry| entry.name.strip_prefix(PREFIX)) {
                taken += NAME + name.len();
                found.insert(name.into());
            }
            if count > limit || taken > bytes {
                return Doubles::Unknown;
            }
            if is_last {
                return Doubles::Of(found, taken);
            }
            work.spend(PASS).await;
        }
    }

    /// Returns whether the file `name` may have one.
    pub(super) fn may_have(&self, name: &[u8]) -> bool {
        match self {
            Doubles::Unread | Doubles::Unknown => true,
            Doubles::Of(names, _) => names.contains(name),
        }
    }

    /// Returns the memory that it takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let Doubles::Of(_, bytes) = self else { return 0 };
        *bytes
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::answer::block_on;
    use crate::testing::ManualClock;
    use crate::vfs::memory::{Memory, Options};
    use crate::vfs::{Access, Create, Identity, Lookup, LookupOptions, NewFile, RelPath, SymlinkPolicy, Vfs};

    const READ: Access = Access { read: true, write: false };

    #[test]
    fn names_with_an_appledouble_file_are_known_up_to_a_limit() {
        let vfs = Memory::with_options(Arc::new(ManualClock::ticking()), Options { mode: 0o777, ..Options::default() });
        let op = Op::from(Identity { uid: 1000, gid: 1000, groups: Box::new([]) });
        for name in ["a", "._a", "b", "._gone", ".c"] {
            let path = RelPath::root().join(name.as_bytes()).unwrap();
            block_on(vfs.create(&op, &path, NewFile::new(Create::File(READ), 0o644))).expect("it can be created");
        }
        let options = LookupOptions::exact(SymlinkPolicy::NONE);
        let Ok(Lookup::Found { node, .. }) = block_on(vfs.lookup(&op, &RelPath::root(), options)) else {
            panic!("no root")
        };
        let read = |limit, bytes| block_on(Doubles::read(&*node, &op, limit, bytes));
        let all = read(5, 1000);
        let may_have = ["a", "b", "gone", ".c", "c"].map(|name| all.may_have(name.as_bytes()));
        assert_eq!(may_have, [true, false, true, false, false]);
        assert!(all.bytes() >= "a".len() + "gone".len());
        assert!(matches!(read(5, all.bytes()), Doubles::Of(..)));
        assert!(matches!(read(4, 1000), Doubles::Unknown));
        assert!(matches!(read(5, all.bytes() - 1), Doubles::Unknown));
        assert!(Doubles::Unknown.may_have(b"b"));
    }
}
