//! A share's file system in a Linux directory.
//!
//! [`LocalFs`] implements [`Vfs`] with system calls. Every path is resolved below the directory's descriptor. Every
//! operation runs with the requesting user's identity on its thread ([`identity`]). Calls that the kernel can serve
//! from its caches are answered at once, and calls that may wait go to worker threads.
//!
//! - `root` resolves paths. `lookup` and `names` find names whatever their case, and `changes` creates, renames and
//!   removes them, `aside` if a link replaces a file.
//! - `node` is an open file or directory, with `file`, `pipes` and `copy` for its content, `dir` and `entry` for its
//!   names, `metadata` and `proc_fd` for its attributes, and `leases` for leases of the kernel. `private` is a
//!   directory that only the server uses.
//! - `space` reports free space within quotas, and `quota` gets and sets them.
//! - `filesystem` has the threads of each mount, `mounts` notices new ones, and `clock` probes the clock that stamps
//!   files. [`backing`] has what is the same for other kinds of storage.
//! - `watch` reports changes by other programs, and `durable` makes names durable.
//!
//! The process must have set its umask to 0, or requested modes are not applied exactly. `/proc` must stay mounted.
//! Linux 5.12 is required. Unsafe code is confined to `sys`.
#![deny(unsafe_code)]

pub mod advisory;
mod aside;
mod changes;
mod clock;
mod copy;
mod dir;
mod durable;
mod entry;
mod features;
mod file;
mod filesystem;
pub mod identity;
mod leases;
mod lookup;
mod metadata;
mod mounts;
mod names;
mod node;
mod pipes;
mod private;
mod proc_fd;
mod quota;
mod recycle;
mod root;
mod space;
mod sys;
mod watch;
mod written;

use std::io;
use std::path::Path;
use std::sync::Arc;

use backing::attribute_locks::AttributeLocks;
use backing::attribute_table::AttributeTable;
use backing::clock::Clock;
use backing::metadata::MetadataCache;
use backing::name_index::budget::Budget;
use backing::predictor::Predictor;
use backing::recent_paths::RecentPaths;
use backing::workers::Lane;
use server::acl::ntacl;
use server::answer::Answer;
use server::vfs::{
    AclKind, Capabilities, Created, Enforcement, Errno, Features, FileId, FileSystemState, Identity, Kind, Lookup,
    LookupOptions, NewFile, Node, Op, Private, RelPath, Removed, RenameRequest, Replace, Result, SymlinkPolicy, Vfs,
    WantedXattrs, WorkerNumbers,
};

use crate::filesystem::FileSystem;
use crate::lookup::Question;
use crate::mounts::Ways;
use crate::names::Names;
pub use crate::pipes::close_unused_pipes;
use crate::root::Root;

/// Maximum number of directories that the process watches for changes by other programs.
pub const WATCHED_DIRECTORIES: usize = watch::ALL_DIRECTORIES;

/// How a directory is shared.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The links that may be followed on the way to a name that is created, renamed or removed. Look-ups pass their
    /// own; both express the share's `follow symlinks` and `wide links`.
    pub links: SymlinkPolicy,
    /// The directory to which the path must lead; `None` for any.
    pub root: Option<FileId>,
}

impl Default for Options {
    /// Links are followed below the root, as by Samba's default.
    fn default() -> Self {
        Options { links: SymlinkPolicy::BENEATH, root: None }
    }
}

/// Sets the maximum number of worker threads of each file system, for each of its two kinds of work.
pub fn bound_workers(threads: usize) {
    backing::workers::bound_threads(threads);
}

/// Limits the memory of all shares' directory name indexes together, in bytes. A directory whose index would need more
/// than half of it gets none. Instead, the directory is read to find out that a name does not exist, whatever its case.
pub fn bound_indexes(bytes: usize) {
    Budget::of_process().set_limit(bytes);
}

/// A directory as a file system.
pub struct LocalFs(Arc<Share>);

/// The state shared by the file system and all its handles.
struct Share {
    root: Root,
    clock: Clock,
    cache: MetadataCache,
    names: Arc<Names>,
    /// Whether the next look-up is expected to miss. A client that creates files usually creates many. A client that
    /// opens each file after creating it ends the streak.
    misses: Predictor,
    /// Paths of regular files.
    ///
    /// Opening a device or a FIFO has side effects, but opening a regular file does not. A path that recently was a
    /// regular file may therefore be opened in one step; anything else is checked first. A path whose kind has changed
    /// since is opened by mistake once, without waiting and for reading only, and the handle is then discarded.
    seen: RecentPaths,
    ways: Ways,
    locks: AttributeLocks,
    capabilities: Capabilities,
    unsynced: &'static durable::Unsynced,
    bins: recycle::Bins,
    /// The synced files, in order.
    #[cfg(test)]
    synced: parking_lot::Mutex<Vec<FileId>>,
}

impl Share {
    /// Changes names on the calling thread if that is quick and all of `paths` are in directories of the root's file
    /// system.
    fn change<T: Send + 'static>(
        share: &Arc<Share>,
        op: &Op,
        paths: &[&RelPath],
        work: impl FnOnce(&Arc<Share>) -> Result<T> + Send + 'static,
    ) -> Answer<Result<T>> {
        let home = &share.root.system;
        if home.executor.is_quick()
            && paths.iter().all(|path| path.parent().is_none_or(|directory| share.reaches(op, &directory)))
        {
            return Answer::now(home.executor.timed(|| work(share)));
        }
        let (system, share) = (share.serving(paths[0]), Arc::clone(share));
        let again = Arc::clone(&system);
        system.executor.later_as(op, Lane::Data, move || again.executor.timed(|| work(&share)))
    }

    /// Returns the file system that a call with `path` may have to wait for, as far as that can be determined without
    /// waiting: the one of the deepest directory that the kernel has cached. Mount points and the directories above
    /// them always are.
    fn serving(&self, path: &RelPath) -> Arc<FileSystem> {
        let mut at = Some(path.clone());
        while let Some(path) = at.filter(|path| !path.is_root() && (!self.ways.contains(path))) {
            if let Some(system) = self.root.system_at(&path) {
                return system;
            }
            at = path.parent();
        }
        Arc::clone(&self.root.system)
    }

    /// Returns whether `directory` is on the root's own file system, so that its names can be changed without waiting
    /// for another one.
    fn reaches(&self, who: &Arc<Identity>, directory: &RelPath) -> bool {
        if directory.is_root() || self.ways.contains(directory) {
            return true;
        }
        let era = mounts::era();
        let at_home = identity::assume(who).is_ok() && self.root.is_at_home(directory);
        if at_home {
            self.ways.note(era, directory);
        }
        at_home
    }
}

impl LocalFs {
    /// Opens the directory `path` with the process's own identity. It stays open whatever happens to the path.
    ///
    /// # Errors
    /// The directory cannot be opened or is not `options.root`, `/proc` is missing, or the kernel cannot resolve paths
    /// below a directory.
    pub fn open(path: &Path, options: Options) -> io::Result<LocalFs> {
        let (root, clock, features) = identity::as_process(|| {
            let root = Root::open(path, options.links, options.root)?;
            aside::remove_left_over(&root);
            let (clock, features) = (clock::probe(&root), features::probe(&root));
            io::Result::Ok((root, clock, features))
        })??;
        let names = names::indexes(root.local, clock, Budget::of_process());
        Ok(LocalFs(Arc::new(Share::new(root, clock, features, names, RecentPaths::default))))
    }
}

impl Share {
    fn new(root: Root, clock: Clock, features: Features, names: Arc<Names>, seen: impl Fn() -> RecentPaths) -> Share {
        Share {
            clock,
            cache: MetadataCache::new(clock, AttributeTable::of_process()),
            names,
            misses: Predictor::default(),
            seen: seen(),
            ways: Ways::new(seen()),
            locks: AttributeLocks::default(),
            capabilities: Capabilities {
                acls: AclKind::Posix,
                changes: clock.changes(),
                leases: true,
                enforcement: Enforcement::ExceptRoot,
                // The only attribute whose absence is cached, whatever shares of the process want.
                attributes: WantedXattrs::new([ntacl::ATTRIBUTE]),
                locks: true,
                features,
            },
            unsynced: durable::Unsynced::shared(),
            bins: recycle::Bins::default(),
            #[cfg(test)]
            synced: parking_lot::Mutex::default(),
            root,
        }
    }
}

/// Converts the errno of a system call.
fn errno(error: rustix::io::Errno) -> Errno {
    Errno(error.raw_os_error())
}

impl Vfs for LocalFs {
    fn capabilities(&self) -> &Capabilities {
        &self.0.capabilities
    }

    fn device(&self) -> Option<u64> {
        Some(self.0.root.id.device)
    }

    fn probe(&self) -> Result<FileSystemState> {
        space::state(self.0.root.fd())
    }

    fn workers(&self) -> Option<WorkerNumbers> {
        let numbers = self.0.root.system.executor.numbers();
        Some(WorkerNumbers { threads: numbers.threads, waiting: numbers.waiting })
    }

    fn lookup(&self, op: &Op, path: &RelPath, options: LookupOptions) -> Answer<Result<Lookup>> {
        Share::lookup(&self.0, Question { op: op.clone(), path: path.clone(), options, era: mounts::era() })
    }

    fn create(&self, op: &Op, path: &RelPath, new: NewFile) -> Answer<Result<Created>> {
        let (user, file) = (Arc::clone(op), path.clone());
        Share::change(&self.0, op, &[path], move |share| share.create(&user, &file, new))
    }

    fn rename(&self, op: &Op, rename: RenameRequest) -> Answer<Result<()>> {
        let user = Arc::clone(op);
        let RenameRequest { from, id, to, replace, to_recycle_bin } = rename;
        let paths = [from.clone(), to.clone()];
        Share::change(&self.0, op, &[&paths[0], &paths[1]], move |share| match to_recycle_bin {
            true => share.recycle(&user, &from, id, &to, replace),
            false => share.rename(&user, &from, id, &to, replace),
        })
    }

    fn link(&self, op: &Op, node: &Arc<dyn Node>, to: &RelPath, replace: Replace) -> Answer<Result<()>> {
        let Some(open) = node::of(node).filter(|open| open.belongs_to(&self.0)) else {
            return Answer::now(Err(Errno::XDEV));
        };
        let (user, name) = (Arc::clone(op), to.clone());
        Share::change(&self.0, op, &[to], move |share| share.link(&user, &open, &name, replace))
    }

    fn unlink(&self, op: &Op, path: &RelPath, id: FileId, kind: Kind) -> Answer<Result<Removed>> {
        let (user, name) = (Arc::clone(op), path.clone());
        Share::change(&self.0, op, &[path], move |share| share.unlink(&user, &name, id, kind))
    }

    fn may_remove(&self, op: &Op, path: &RelPath, owner: u32) -> Option<bool> {
        self.0.may_remove(op, path, owner)
    }

    fn private(&self, root: &RelPath, name: &'static str, make: bool) -> Answer<Result<Option<Arc<dyn Private>>>> {
        let Some(path) = root.join(name.as_bytes()) else { return Answer::now(Err(Errno::INVAL)) };
        let root = root.clone();
        Share::change(&self.0, &server::vfs::SERVER, &[&path], move |share| share.private(&root, name, make))
    }

    fn beneath(&self, op: &Op, path: &RelPath) -> Answer<Result<Arc<dyn Vfs>>> {
        let (user, directory) = (Arc::clone(op), path.clone());
        let work = move |share: &Arc<Share>| {
            identity::assume(&user)?;
            let root = share.root.beneath_directory(&directory)?;
            // The name indexes are per directory, however it was reached, and are shared. Paths are not remembered,
            // because there may be as many of these views as opens.
            let names = Arc::clone(&share.names);
            let view = Share::new(root, share.clock, share.capabilities.features, names, RecentPaths::none);
            Ok(Arc::new(LocalFs(Arc::new(view))) as Arc<dyn Vfs>)
        };
        if self.0.root.local && self.0.reaches(op, path) {
            return Answer::now(work(&self.0));
        }
        let share = Arc::clone(&self.0);
        self.0.serving(path).executor.later_as(op, Lane::Data, move || work(&share))
    }
}

#[cfg(test)]
mod tests;
