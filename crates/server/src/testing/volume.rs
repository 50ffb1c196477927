//! The volume of a test server, and access to it as by a local program.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::answer::{Answer, block_on};
use crate::environment::Environment;
use crate::policy::Share;
use crate::state::{VolumeId, Volumes, directories_overlap};
use crate::vfs::memory::{Memory, Options};
use crate::vfs::{self, Kind, Lookup, LookupOptions, Metadata, Node, Op, RelPath, SymlinkPolicy, Time, Vfs, XattrSet};

/// The volume of all shares.
pub struct SingleVolume(pub Arc<dyn Vfs>);

impl Volumes for SingleVolume {
    fn id(&self, share: &Share) -> VolumeId {
        VolumeId::of_directory(share)
    }

    fn open(&self, _: &Share) -> Answer<vfs::Result<Arc<dyn Vfs>>> {
        Answer::now(Ok(self.0.clone()))
    }

    fn overlap(&self, share: &Share, other: &Share) -> bool {
        directories_overlap(share, other)
    }

    fn mount_point(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }
}

/// Returns the options of the volume of a test server: all users may write to its root.
pub fn options() -> Options {
    Options { mode: 0o777, capacity: 16 << 20, ..Options::default() }
}

/// Returns the volume of a test server, unless the test names another one.
pub fn new(environment: Arc<dyn Environment>, options: Options) -> Arc<dyn Vfs> {
    Arc::new(Memory::with_options(environment, options))
}

/// Returns the path of components separated by `/`.
///
/// # Panics
/// If a component is not a valid name.
pub fn path(path: &str) -> RelPath {
    let join = |path: RelPath, part: &str| path.join(part.as_bytes()).expect("a valid name");
    path.split('/').filter(|part| !part.is_empty()).fold(RelPath::root(), join)
}

/// Returns the file with this path, as a local program finds it.
///
/// # Panics
/// If it does not exist.
#[track_caller]
pub fn node(volume: &Arc<dyn Vfs>, name: &str) -> Arc<dyn Node> {
    match block_on(volume.lookup(&root(), &path(name), LookupOptions::exact(SymlinkPolicy::default()))) {
        Ok(Lookup::Found { node, .. }) => node,
        _ => panic!("{name} does not exist"),
    }
}

/// Returns the metadata of a file with this kind, mode, owner and group that never changed.
pub fn metadata(kind: Kind, mode: u32, (uid, gid): (u32, u32)) -> Metadata {
    let time = Time::default();
    let (accessed, modified, changed, stamped, created) = (time, time, time, time, time);
    Metadata {
        id: vfs::FileId { device: 1, inode: 1, stream: 0 },
        kind,
        size: 0,
        allocated: 0,
        links: 1,
        mode,
        uid,
        gid,
        accessed,
        modified,
        changed,
        stamped,
        created,
        born: None,
        dos_attributes: None,
        compressed: false,
        absent: XattrSet::default(),
    }
}

/// Returns the context for calls by root.
pub fn root() -> Op {
    crate::vfs::SERVER.clone()
}
