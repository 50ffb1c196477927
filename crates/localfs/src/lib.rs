//! A share in a Linux directory.
//!
//! [`LocalFs`] implements [`Vfs`] on the kernel's calls: every path is resolved beneath the directory's descriptor,
//! every operation runs with the asking user's own identity on its thread ([`identity`]), what the kernel has in its
//! caches is answered at once and what it must wait for goes to worker threads.
//!
//! The process must have set its umask to 0, or modes are not applied as they are asked for; `/proc` must stay mounted.
//! It takes Linux 5.12. Unsafe code is in `sys` only.
#![deny(unsafe_code)]

pub mod advisory;
mod changes;
mod clock;
mod copy;
mod dir;
mod features;
mod file;
mod held;
pub mod identity;
mod kept;
mod leases;
mod lookup;
mod metadata;
mod names;
mod node;
mod pace;
mod root;
mod seen;
mod streak;
mod sys;
mod watch;
mod worker;

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use server::answer::Answer;
use server::vfs::{
    Case, Create, Errno, Features, FileId, Guard, Identity, Kind, Links, Lookup, Made, Metadata, Node, RelPath, Result,
    Space, Time, Vfs,
};

use crate::clock::Clock;
use crate::lookup::Question;
use crate::metadata::Cache;
use crate::names::Names;
use crate::pace::{Pace, Paced, ask, change};
use crate::root::Root;

/// How a directory is shared.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Which links the directories of a path may be when something is made, renamed or removed. Look-ups say it
    /// themselves; both mean the share's `follow symlinks` and `wide links`.
    pub links: Links,
}

impl Default for Options {
    /// Links are followed beneath the root, as Samba does.
    fn default() -> Self {
        Options { links: Links { follow: true, wide: false } }
    }
}

/// A directory as a file system.
pub struct LocalFs(Arc<Share>);

/// What the file system and all its handles share.
struct Share {
    root: Root,
    clock: Clock,
    cache: Cache,
    names: Names,
    /// Names that were not there: who makes files, makes many of them, and who opens each after making it ends the streak.
    misses: streak::Streak,
    /// Regular files.
    seen: seen::Seen,
    /// Directories that were found beneath the root.
    ways: seen::Seen,
    pace: Pace,
    file: file::Abilities,
    locks: node::AttributeLocks,
    features: OnceLock<Features>,
}

impl Paced for Arc<Share> {
    fn pace(&self) -> &Pace {
        &self.pace
    }
}

impl LocalFs {
    /// Opens the directory `path`, with the process's own identity; it stays open whatever happens to the path.
    ///
    /// # Errors
    /// The directory cannot be opened, `/proc` is missing, or the kernel cannot resolve paths beneath a directory.
    pub fn open(path: &Path, options: Options) -> io::Result<LocalFs> {
        let (root, clock) = identity::as_process(|| {
            let root = Root::open(path, options.links)?;
            let clock = Clock::of(&root);
            io::Result::Ok((root, clock))
        })??;
        Ok(LocalFs(Arc::new(Share {
            clock,
            cache: Cache::new(clock),
            names: Names::new(root.local, clock),
            misses: streak::Streak::default(),
            seen: seen::Seen::default(),
            ways: seen::Seen::default(),
            pace: Pace::new(root.local),
            file: file::Abilities::default(),
            locks: node::AttributeLocks::default(),
            features: OnceLock::new(),
            root,
        })))
    }
}

/// The errno of a call.
fn errno(error: rustix::io::Errno) -> Errno {
    Errno(error.raw_os_error())
}

impl Vfs for LocalFs {
    fn lookup(&self, who: &Arc<Identity>, path: &RelPath, case: Case, links: Links) -> Answer<Result<Lookup>> {
        Share::lookup(&self.0, Question { who: Arc::clone(who), path: path.clone(), case, links, reads: false })
    }

    fn lookup_to_read(&self, who: &Arc<Identity>, path: &RelPath, case: Case, links: Links) -> Answer<Result<Lookup>> {
        Share::lookup(&self.0, Question { who: Arc::clone(who), path: path.clone(), case, links, reads: true })
    }

    fn create(
        &self,
        who: &Arc<Identity>,
        path: &RelPath,
        what: Create,
        mode: u32,
        dos_attributes: Option<u32>,
    ) -> Answer<Result<(Arc<dyn Node>, Metadata)>> {
        let (who, path) = (Arc::clone(who), path.clone());
        change(Arc::clone(&self.0), move |share| {
            share.create(&who, &path, what, mode, dos_attributes, None).map(|made| (made.node, made.metadata))
        })
    }

    fn create_guarded(
        &self,
        who: &Arc<Identity>,
        path: &RelPath,
        what: Create,
        mode: u32,
        dos_attributes: Option<u32>,
        guard: Option<Guard>,
    ) -> Answer<Result<Made>> {
        let (who, path) = (Arc::clone(who), path.clone());
        change(Arc::clone(&self.0), move |share| share.create(&who, &path, what, mode, dos_attributes, guard.as_ref()))
    }

    fn rename(
        &self,
        who: &Arc<Identity>,
        from: &RelPath,
        id: FileId,
        to: &RelPath,
        replace: bool,
    ) -> Answer<Result<()>> {
        let (who, from, to) = (Arc::clone(who), from.clone(), to.clone());
        change(Arc::clone(&self.0), move |share| share.rename(&who, &from, id, &to, replace))
    }

    fn link(&self, who: &Arc<Identity>, node: &Arc<dyn Node>, to: &RelPath, replace: bool) -> Answer<Result<()>> {
        let Some(open) = node::of(node).filter(|open| open.belongs_to(&self.0)) else {
            return Answer::now(Err(Errno::XDEV));
        };
        let (who, to) = (Arc::clone(who), to.clone());
        change(Arc::clone(&self.0), move |share| share.link(&who, &open, &to, replace))
    }

    fn make_link(&self, who: &Arc<Identity>, path: &RelPath, target: &[u8]) -> Answer<Result<()>> {
        let (who, path, target) = (Arc::clone(who), path.clone(), target.to_vec());
        change(Arc::clone(&self.0), move |share| share.make_link(&who, &path, &target))
    }

    fn unlink(&self, who: &Arc<Identity>, path: &RelPath, id: FileId, kind: Kind) -> Answer<Result<()>> {
        let (who, path) = (Arc::clone(who), path.clone());
        change(Arc::clone(&self.0), move |share| share.unlink(&who, &path, id, kind))
    }

    fn space(&self, who: &Arc<Identity>) -> Answer<Result<Space>> {
        let who = Arc::clone(who);
        ask(Arc::clone(&self.0), move |share| share.space(&who))
    }

    fn features(&self) -> Answer<Features> {
        Share::features(&self.0)
    }

    fn tick(&self, stamped: Time) -> Duration {
        self.0.clock.tick(stamped)
    }
}

#[cfg(test)]
mod tests;
