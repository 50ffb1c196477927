//! The queues of the print system as shares (`[printers]`), and the files of jobs that a former server has left.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Server;
use crate::policy::limits::SPOOL_DIRECTORIES_MAX;
use crate::policy::printing::Printers;
use crate::policy::{Policy, Share};
use crate::printing::{QueueInfo, SentJobs};
use crate::tree::Disk;
use crate::vfs::{self, Kind, ListRequest, Lookup, LookupOptions, RelPath, SERVER, SymlinkPolicy, Time};

/// The first letters of the name of a job's file, as in Samba.
pub(crate) const JOB_PREFIX: &str = "smbprn.";
/// The number of hexadecimal digits after them.
const DIGITS: usize = 32;
/// How many entries of a directory are read at once, and how many in all.
const PART: usize = 256;
const ENTRIES: usize = 1 << 20;

/// What the server knows of the print jobs that clients send.
pub(crate) struct PrintJobs {
    /// Their numbers.
    pub(crate) sent: SentJobs,
    /// When the server was started. An older file of a job is not in use.
    started: Time,
    /// The directories without files of former jobs.
    cleaned: Mutex<HashSet<PathBuf>>,
}

impl PrintJobs {
    pub(super) fn new(started: Time) -> PrintJobs {
        PrintJobs { sent: SentJobs::default(), started, cleaned: Mutex::default() }
    }

    /// Removes the files that a server has left that was killed, when a print share's directory is used first.
    pub(crate) async fn clean(&self, spool: &Disk) {
        {
            let mut cleaned = self.cleaned.lock();
            if cleaned.len() >= SPOOL_DIRECTORIES_MAX || !cleaned.insert(spool.share.path.clone()) {
                return;
            }
        }
        let path = spool.share.path.display();
        match self.remove_former(spool).await {
            Ok(0) => {}
            Ok(count) => tracing::warn!(%path, count, "removed files of print jobs that a former server had left"),
            Err(errno) => tracing::warn!(%path, ?errno, "cannot look for files of former print jobs"),
        }
    }

    async fn remove_former(&self, spool: &Disk) -> vfs::Result<usize> {
        let links = SymlinkPolicy { follow: false, wide: false, itself: false };
        let found = spool.vfs.lookup(&SERVER, &RelPath::root(), LookupOptions::exact(links)).await?;
        let Lookup::Found { node, .. } = found else { return Err(vfs::Errno::NOENT) };
        let (mut cursor, mut seen, mut removed) = (0, 0, 0);
        while seen < ENTRIES {
            let page = node.list(&SERVER, ListRequest { cursor, count: PART, metadata: false }).await?;
            for name in page.entries.iter().map(|entry| &*entry.name).filter(|name| is_of_job(name)) {
                let Some(name) = RelPath::root().join(name) else { continue };
                let found = spool.vfs.lookup(&SERVER, &name, LookupOptions::exact(links)).await;
                let Ok(Lookup::Found { metadata, .. }) = found else { continue };
                if metadata.kind == Kind::File && metadata.modified < self.started {
                    removed += usize::from(spool.vfs.unlink(&SERVER, &name, metadata.id, Kind::File).await.is_ok());
                }
            }
            seen += page.entries.len();
            cursor = page.next;
            if page.is_last || page.entries.is_empty() {
                break;
            }
            crate::answer::yield_now().await;
        }
        Ok(removed)
    }
}

/// Returns whether a file has the name of a job's file.
fn is_of_job(name: &[u8]) -> bool {
    let digits = name.strip_prefix(JOB_PREFIX.as_bytes()).unwrap_or_default();
    digits.len() == DIGITS && digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

/// The queues that lists of shares have. A share is made when the list gets to it, because there may be many.
pub(crate) struct ListedPrinters {
    printers: Option<Arc<dyn Printers>>,
    queues: Arc<[QueueInfo]>,
}

impl ListedPrinters {
    /// Returns the share of each queue whose name no share of the configuration has.
    pub(crate) fn shares<'a>(&'a self, policy: &'a Policy) -> impl Iterator<Item = Arc<Share>> + Send + 'a {
        let others = self.queues.iter().filter(|queue| policy.share(&queue.name).is_none());
        others.filter_map(|queue| {
            let section = self.printers.as_ref()?.section();
            let comment = if queue.description.is_empty() { &section.comment } else { &queue.description };
            Some(Arc::new(Share { name: queue.name.clone(), comment: comment.clone(), ..section.clone() }))
        })
    }
}

impl Server {
    /// Returns the share that `[printers]` makes of the queue called `name`. A print system that has never answered has
    /// no queues, and the log of the print system says why.
    pub(crate) async fn printer_share(&self, policy: &Policy, name: &str) -> Option<Arc<Share>> {
        let printers = policy.printers.as_ref()?;
        let queues = self.queues().await;
        let queue = queues.iter().find(|queue| queue.name.eq_ignore_ascii_case(name))?;
        printers.share_of(&queue.name).await.unwrap_or_else(|why| {
            tracing::error!(name, why = why.0, "cannot look up the users of a print share");
            None
        })
    }

    /// Returns the queues as shares for a list, if `load printers` lists them. As in Samba, `browseable = no` hides the
    /// section itself, not the printers.
    pub(crate) async fn listed_printers(&self, policy: &Policy) -> ListedPrinters {
        let listed = policy.printers.as_ref().filter(|it| policy.load_printers && it.section().available);
        let queues = if listed.is_some() { self.queues().await } else { Arc::default() };
        ListedPrinters { printers: listed.cloned(), queues }
    }

    /// Returns the queues of the print system; none if it does not answer.
    pub(crate) async fn queues(&self) -> Arc<[QueueInfo]> {
        let Some(system) = self.print_system() else { return Arc::default() };
        system.queues().await.unwrap_or_else(|error| {
            tracing::debug!("the printers of the host are not known: {error}");
            Arc::default()
        })
    }
}
