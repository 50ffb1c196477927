//! Synthesized descriptors that wait to be stored. `security::write_back` adds and stores them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::acl::cache::{Descriptor, VolumeView};
use crate::acl::posix::Posix;
use crate::policy::Share;
use crate::policy::limits::QUEUED_WRITE_BACKS;
use crate::vfs::{Metadata, Node};

/// The queue of descriptors to be stored.
#[derive(Default)]
pub(crate) struct Waiting {
    queue: Mutex<VecDeque<Conversion>>,
    /// Length of the queue, checked without a lock after each response.
    pub(crate) count: AtomicUsize,
}

/// A descriptor that was synthesized from a file's POSIX ACLs.
pub(crate) struct Conversion {
    pub(crate) share: Arc<Share>,
    pub(crate) place: VolumeView,
    pub(crate) node: Arc<dyn Node>,
    pub(crate) metadata: Metadata,
    pub(crate) lists: Posix,
    pub(crate) descriptor: Arc<Descriptor>,
}

impl Waiting {
    /// Adds a descriptor, unless the queue is full.
    pub(crate) fn add(&self, conversion: Conversion) {
        let mut queue = self.queue.lock();
        if queue.len() < QUEUED_WRITE_BACKS {
            queue.push_back(conversion);
            self.count.store(queue.len(), Ordering::Release);
        }
    }

    /// Removes and returns all.
    pub(crate) fn take(&self) -> VecDeque<Conversion> {
        if self.count.load(Ordering::Acquire) == 0 {
            return VecDeque::new();
        }
        self.count.store(0, Ordering::Release);
        std::mem::take(&mut *self.queue.lock())
    }
}
