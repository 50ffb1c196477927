//! The file as used by logons: cached in memory, and read again when it has changed.
//!
//! Each look-up calls stat once and compares device, inode, size and times with the cached version. If they differ, the
//! look-up waits until the file has been read again on a blocking thread. A change therefore applies as soon as it is
//! in the file, and the old content does not apply any longer. Concurrent look-ups share one read of the file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use localfs::advisory::Keeps;
use localfs::identity::as_process;
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use server::accounts::Unavailable;

use super::change::Change;
use super::file::{self, Locked, Stamp};
use super::index::{Complaint, Index};

/// The file and its cached content.
pub(super) struct Live {
    path: PathBuf,
    known: RwLock<Known>,
    /// Held while the file is read or changed. It contains the start and the reason of the last failed read.
    turn: Mutex<Option<(Instant, String)>>,
    /// Serializes look-ups that need the file to be read, so that they do not occupy a thread each.
    gate: tokio::sync::Mutex<()>,
}

/// The cached content.
#[derive(Default)]
pub(super) struct Known {
    pub(super) index: Index,
    stamp: Option<Stamp>,
    /// Whether a later change certainly changes the stamp.
    settled: bool,
    /// When the read began.
    began: Option<Instant>,
    /// The problems that were last logged.
    told: Vec<Complaint>,
}

impl Known {
    /// Returns whether it is the content of the file with the stamp `stamp` at `since` or later.
    fn is(&self, stamp: &Stamp, since: Instant) -> bool {
        self.stamp.as_ref() == Some(stamp) && (self.settled || self.began.is_some_and(|began| began >= since))
    }
}

impl Live {
    /// Opens and reads the file at `path`; creates it if it is missing, as Samba does. Blocks.
    pub(super) fn open(path: &Path) -> Result<Arc<Self>> {
        let live = Live {
            path: path.to_owned(),
            known: RwLock::default(),
            turn: Mutex::default(),
            gate: tokio::sync::Mutex::new(()),
        };
        as_process(|| file::create(path).and_then(|()| live.refresh(Instant::now())))
            .map_err(Into::into)
            .flatten()
            .with_context(|| live.place())?;
        Ok(Arc::new(live))
    }

    /// Returns the name of the file for messages.
    pub(super) fn place(&self) -> String {
        format!("smbpasswd file {}", self.path.display())
    }

    fn unavailable(&self, why: impl Into<anyhow::Error>) -> Unavailable {
        Unavailable(format!("{}: {:#}", self.place(), why.into()))
    }

    /// Returns the present content of the file, if it is known without reading the file.
    pub(super) fn at_once(&self) -> Result<Option<RwLockReadGuard<'_, Known>>, Unavailable> {
        let since = Instant::now();
        let stamp = as_process(|| Stamp::at(&self.path)).map_err(|why| self.unavailable(why))?;
        let stamp = stamp.map_err(|why| self.unavailable(why))?;
        let known = self.known.read();
        Ok(Some(known).filter(|known| known.is(&stamp, since)))
    }

    /// Waits until the content of the file at this moment or later is cached; reads the file if necessary.
    pub(super) async fn waited(self: &Arc<Self>) -> Result<(), Unavailable> {
        let since = Instant::now();
        let _gate = self.gate.lock().await;
        let live = self.clone();
        let read = tokio::task::spawn_blocking(move || live.blocking(since)).await;
        read.map_err(|why| self.unavailable(why)).flatten()
    }

    /// Like [`Live::waited`], on a thread that may block.
    pub(super) fn blocking(&self, since: Instant) -> Result<(), Unavailable> {
        as_process(|| self.refresh(since)).map_err(Into::into).flatten().map_err(|why| self.unavailable(why))
    }

    /// Returns the cached content, regardless of its age.
    pub(super) fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read()
    }

    fn refresh(&self, since: Instant) -> Result<()> {
        let mut failed = self.turn.lock();
        if self.known.read().is(&Stamp::at(&self.path)?, since) {
            return Ok(());
        }
        // Look-ups that waited for a failed read fail too, instead of each waiting for the lock of a program that
        // hangs.
        if let Some((_, why)) = failed.as_ref().filter(|(began, _)| *began >= since) {
            bail!("{why}");
        }
        let began = Instant::now();
        let locked = Locked::open(&self.path, Keeps::WritersOut).and_then(|locked| locked.context("it does not exist"));
        let read = locked.and_then(|locked| self.read(&locked));
        *failed = read.as_ref().err().map(|why| (began, format!("{why:#}")));
        read
    }

    /// Reads the open file.
    fn read(&self, locked: &Locked) -> Result<()> {
        let (began, clock) = (Instant::now(), file::now());
        let text = locked.read()?;
        let mut known = Known {
            index: Index::new(text),
            stamp: Some(locked.stamp),
            settled: locked.stamp.settled(clock),
            began: Some(began),
            told: Vec::new(),
        };
        let (complaints, count) = known.index.complaints();
        known.told = complaints.to_vec();
        if self.known.read().told != known.told {
            for Complaint { line, what } in complaints {
                tracing::warn!("{}, line {line}: {what}", self.place());
            }
            if count > complaints.len() {
                tracing::warn!("{}: {} more lines have problems", self.place(), count - complaints.len());
            }
        }
        // The old text is erased without holding the lock.
        let old = std::mem::replace(&mut *self.known.write(), known);
        drop(old);
        Ok(())
    }

    /// Runs `change` on the file while no other program reads or changes it. Its changes are on disk when this returns.
    /// Blocks.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Change<'_>) -> Result<T>) -> Result<T> {
        as_process(|| self.change_as_process(change)).map_err(Into::into).flatten().with_context(|| self.place())
    }

    fn change_as_process<T>(&self, change: impl FnOnce(&mut Change<'_>) -> Result<T>) -> Result<T> {
        let _turn = self.turn.lock();
        let locked = match Locked::open(&self.path, Keeps::EverybodyOut)? {
            Some(locked) => locked,
            None => bail!("it does not exist; create it (touch, chmod 600), or restore it from a backup"),
        };
        // The cache is brought up to date first, and each step of the change updates it.
        if !self.known.read().is(&locked.stamp, Instant::now()) {
            self.read(&locked)?;
        }
        let mut changing = Change::new(&locked.file, &self.known);
        let answer = change(&mut changing);
        if changing.is_done() {
            let settled = locked.settle();
            let mut known = self.known.write();
            // After a failure the content of the file is unknown.
            known.stamp = settled.as_ref().ok().filter(|_| answer.is_ok()).copied().flatten();
            known.settled = true;
            settled.context("cannot sync it to disk")?;
        }
        answer
    }
}
