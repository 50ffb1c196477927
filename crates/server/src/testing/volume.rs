//! The volume of a test server, and access to it as by a local program.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::answer::{Answer, block_on};
use crate::environment::Environment;
use crate::policy::Share;
use crate::state::{VolumeId, Volumes, directories_overlap, wanted_xattrs};
use crate::vfs::faulty::{Wait, yields};
use crate::vfs::memory::{Memory, Options};
use crate::vfs::remote::{Coherence, Remote};
use crate::vfs::{self, Kind, Lookup, LookupOptions, Metadata, Node, Op, RelPath, SymlinkPolicy, Time, Vfs, XattrSet};

/// The environment variable that chooses the storage of test servers. It is memory if the variable is not set.
pub const STORAGE: &str = "FREVO_TEST_STORAGE";

/// Returns the value of [`STORAGE`] for a [`Remote`].
pub(super) fn name_of(coherence: Coherence) -> &'static str {
    match coherence {
        Coherence::Own => "remote-own",
        Coherence::Callback => "remote-callback",
        Coherence::Timestamp => "remote",
    }
}

thread_local! {
    /// Whether a call of remote storage began on this thread.
    static CALLED: Cell<bool> = const { Cell::new(false) };
}

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

    fn mount_point(&self, path: &Path) -> Answer<vfs::Result<PathBuf>> {
        Answer::now(Ok(path.to_owned()))
    }
}

/// Returns the options of the volume of a test server: all users may write to its root.
pub fn options() -> Options {
    Options { mode: 0o777, capacity: 16 << 20, ..Options::default() }
}

/// Returns the volume of a test server, unless the test names another one: a [`Memory`], or a [`Remote`] if [`STORAGE`]
/// says so.
pub fn new(environment: Arc<dyn Environment>, options: Options) -> Arc<dyn Vfs> {
    match coherence() {
        None => Arc::new(Memory::with_options(environment, options)),
        Some(coherence) => remote(environment, options, coherence),
    }
}

/// Returns a volume on storage that behaves as on another machine.
pub fn remote(environment: Arc<dyn Environment>, options: Options, coherence: Coherence) -> Arc<Remote> {
    let mut share = Share::new("share", "/share");
    share.acls.stored = Some(super::stored_acls());
    let options = Options { attributes: wanted_xattrs(&share), ..options };
    Arc::new(Remote::with_coherence(environment, options, Arc::new(latency), coherence))
}

/// Returns the coherence of the [`Remote`] volumes that test servers have, if they have such ones.
///
/// # Panics
/// If [`STORAGE`] has another value.
pub fn coherence() -> Option<Coherence> {
    let storage = std::env::var_os(STORAGE)?;
    let found = Coherence::ALL.into_iter().find(|&coherence| storage == name_of(coherence));
    assert!(found.is_some(), "the values of {STORAGE} are {:?}", Coherence::ALL.map(name_of));
    found
}

/// Returns the wait of a call: the answer is not ready when it is polled for the first time, and is when it is polled
/// again, whatever the clock of the test does.
fn latency() -> Wait {
    CALLED.set(true);
    yields(1)
}

/// Returns whether a call of remote storage began on this thread since the last time.
pub(super) fn take_called() -> bool {
    CALLED.take()
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
        is_mounted: false,
        special: None,
        absent: XattrSet::default(),
    }
}

/// Returns the context for calls by root.
pub fn root() -> Op {
    crate::vfs::SERVER.clone()
}
