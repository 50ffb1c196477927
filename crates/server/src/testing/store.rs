//! A store of persistent opens for tests.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::answer::Answer;
use crate::state::durable::{Failed, Records, Store};

/// Stores the records of persistent opens in memory and outlives the server.
#[derive(Default)]
pub struct MemoryStore {
    /// The records by the persistent ids of their opens.
    pub records: Mutex<BTreeMap<u64, Vec<u8>>>,
    /// Whether writes fail.
    pub full: AtomicBool,
}

impl Store for MemoryStore {
    fn put(&self, id: u64, record: Vec<u8>) -> Answer<Result<(), Failed>> {
        if self.full.load(Ordering::Relaxed) {
            return Answer::now(Err(Failed("full".into())));
        }
        self.records.lock().insert(id, record);
        Answer::now(Ok(()))
    }

    fn remove(&self, id: u64) -> Answer<Result<(), Failed>> {
        self.records.lock().remove(&id);
        Answer::now(Ok(()))
    }

    fn load(&self) -> Answer<Result<Records, Failed>> {
        Answer::now(Ok(self.records.lock().clone().into_iter().collect()))
    }
}
