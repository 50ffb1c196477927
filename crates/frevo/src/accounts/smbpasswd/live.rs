//! The file as logons see it: in memory, and read again when it changed.
//!
//! Each look-up asks the kernel once whether the file is still the one that was read: device, inode, size, times of
//! change. Where it is not, the look-up waits until the file was read again, on a thread for such work. So a change
//! counts from the moment at which it stands in the file, and what stood there before counts no longer. All look-ups
//! that come meanwhile wait for one reading.

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

/// The file and what is known of it.
pub(super) struct Live {
    path: PathBuf,
    known: RwLock<Known>,
    /// Held by whoever reads the file or changes it. In it: when the last reading that failed began, and why.
    turn: Mutex<Option<(Instant, String)>>,
    /// Before it wait the look-ups that need the file read, so that they do not take a thread each.
    gate: tokio::sync::Mutex<()>,
}

/// What was read.
#[derive(Default)]
pub(super) struct Known {
    pub(super) index: Index,
    stamp: Option<Stamp>,
    /// Whether a later change is certain to change the stamp.
    settled: bool,
    /// When the reading began.
    began: Option<Instant>,
    /// The complaints that were last told.
    told: Vec<Complaint>,
}

impl Known {
    /// Whether it is what stands in the file whose stamp is `stamp` at `since` or later.
    fn is(&self, stamp: &Stamp, since: Instant) -> bool {
        self.stamp.as_ref() == Some(stamp) && (self.settled || self.began.is_some_and(|began| began >= since))
    }
}

impl Live {
    /// The file at `path`, read; made where it is missing, as Samba makes it. Blocks.
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

    /// As messages name it.
    pub(super) fn place(&self) -> String {
        format!("smbpasswd file {}", self.path.display())
    }

    fn unavailable(&self, why: impl Into<anyhow::Error>) -> Unavailable {
        Unavailable(format!("{}: {:#}", self.place(), why.into()))
    }

    /// What stands in the file now, where that is known without reading it.
    pub(super) fn at_once(&self) -> Result<Option<RwLockReadGuard<'_, Known>>, Unavailable> {
        let since = Instant::now();
        let stamp = as_process(|| Stamp::at(&self.path)).map_err(|why| self.unavailable(why))?;
        let stamp = stamp.map_err(|why| self.unavailable(why))?;
        let known = self.known.read();
        Ok(Some(known).filter(|known| known.is(&stamp, since)))
    }

    /// What stands in the file at this moment or later; reads it where it must.
    pub(super) async fn waited(self: &Arc<Self>) -> Result<(), Unavailable> {
        let since = Instant::now();
        let _gate = self.gate.lock().await;
        let live = self.clone();
        let read = tokio::task::spawn_blocking(move || live.blocking(since)).await;
        read.map_err(|why| self.unavailable(why)).flatten()
    }

    /// [`Live::waited`] on a thread that may block.
    pub(super) fn blocking(&self, since: Instant) -> Result<(), Unavailable> {
        as_process(|| self.refresh(since)).map_err(Into::into).flatten().map_err(|why| self.unavailable(why))
    }

    /// What is known, however old.
    pub(super) fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read()
    }

    fn refresh(&self, since: Instant) -> Result<()> {
        let mut failed = self.turn.lock();
        if self.known.read().is(&Stamp::at(&self.path)?, since) {
            return Ok(());
        }
        // Those that waited for a reading do not each wait for the lock of a program that hangs.
        if let Some((_, why)) = failed.as_ref().filter(|(began, _)| *began >= since) {
            bail!("{why}");
        }
        let began = Instant::now();
        let locked = Locked::open(&self.path, Keeps::WritersOut).and_then(|locked| locked.context("it is gone"));
        let read = locked.and_then(|locked| self.read(&locked));
        *failed = read.as_ref().err().map(|why| (began, format!("{why:#}")));
        read
    }

    /// Reads the file that is open.
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
                tracing::warn!("{}: and {} more such lines", self.place(), count - complaints.len());
            }
        }
        // The old text is wiped without the lock.
        let old = std::mem::replace(&mut *self.known.write(), known);
        drop(old);
        Ok(())
    }

    /// Runs `change` on the file while nobody else reads or changes it. What it wrote is on the disk when this returns.
    /// Blocks.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Change<'_>) -> Result<T>) -> Result<T> {
        as_process(|| self.change_as_process(change)).map_err(Into::into).flatten().with_context(|| self.place())
    }

    fn change_as_process<T>(&self, change: impl FnOnce(&mut Change<'_>) -> Result<T>) -> Result<T> {
        let _turn = self.turn.lock();
        let locked = match Locked::open(&self.path, Keeps::EverybodyOut)? {
            Some(locked) => locked,
            None => bail!("it is gone; make it again (touch, chmod 600), or restore it"),
        };
        // What is in memory is what is in the file, or is made so, and stays so with each step of the change.
        if !self.known.read().is(&locked.stamp, Instant::now()) {
            self.read(&locked)?;
        }
        let mut changing = Change::new(&locked.file, &self.known);
        let answer = change(&mut changing);
        if changing.is_done() {
            let settled = locked.settle();
            let mut known = self.known.write();
            // After a failure nobody knows.
            known.stamp = settled.as_ref().ok().filter(|_| answer.is_ok()).copied().flatten();
            known.settled = true;
            settled.context("it could not be brought to the disk")?;
        }
        answer
    }
}
