//! Persistent handles of continuously available shares, in one redb file (`handles.redb`) in the state directory.
//!
//! One thread writes. Requests that arrived while it waited for the disk are combined into one transaction, so many
//! clients share one flush. The file is created with the first record, so a server without such shares has no file.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use anyhow::{Context, Result, ensure};
use parking_lot::Mutex;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use server::answer::Answer;
use server::state::durable::{Failed, Records, Store};
use tokio::sync::oneshot;

use accounts::state_dir::StateDir;

/// The file's name in the state directory.
const FILE: &str = "handles.redb";

/// Persistent id -> record, in the server's own layout.
const HANDLES: TableDefinition<u64, &[u8]> = TableDefinition::new("handles");

/// The cache is small because records are read only once, when the server starts.
const CACHE_BYTES: usize = 1 << 20;

/// Maximum number of changes in one transaction.
const BATCH: usize = 1024;

/// The store and the channel to its writer thread.
pub(crate) struct Handles {
    requests: Sender<Request>,
    /// The file's content when it was opened, until it is taken.
    records: Mutex<Records>,
}

struct Request {
    change: Change,
    done: oneshot::Sender<std::result::Result<(), Failed>>,
}

enum Change {
    Put(u64, Vec<u8>),
    Remove(u64),
}

impl Handles {
    /// Opens the store in `state` and starts its writer thread.
    pub(crate) fn open(state: Arc<StateDir>) -> Result<Handles> {
        let place = state.path().join(FILE).display().to_string();
        let remedy = || {
            format!(
                "cannot open the store of persistent handles {place}; removing it only makes clients lose their handles"
            )
        };
        let database = state.open_file(FILE)?.map(open).transpose().with_context(remedy)?;
        let records = database.as_ref().map_or_else(|| Ok(Vec::new()), records).with_context(remedy)?;
        let (requests, received) = channel();
        let writer = Writer { state, database };
        std::thread::Builder::new().name("handles".into()).spawn(move || writer.run(&received))?;
        Ok(Handles { requests, records: Mutex::new(records) })
    }

    fn ask(&self, change: Change) -> Answer<std::result::Result<(), Failed>> {
        let (done, answer) = oneshot::channel();
        let gone = || Failed("the thread that writes persistent handles has ended".into());
        if self.requests.send(Request { change, done }).is_err() {
            return Answer::now(Err(gone()));
        }
        Answer::later(async move { answer.await.unwrap_or_else(|_| Err(gone())) })
    }
}

impl Store for Handles {
    fn put(&self, id: u64, record: Vec<u8>) -> Answer<std::result::Result<(), Failed>> {
        self.ask(Change::Put(id, record))
    }

    fn remove(&self, id: u64) -> Answer<std::result::Result<(), Failed>> {
        self.ask(Change::Remove(id))
    }

    fn load(&self) -> Answer<std::result::Result<Records, Failed>> {
        Answer::now(Ok(std::mem::take(&mut self.records.lock())))
    }
}

fn open(file: std::fs::File) -> Result<Database> {
    Ok(redb::Builder::new().set_cache_size(CACHE_BYTES).create_file(file)?)
}

fn records(database: &Database) -> Result<Records> {
    let transaction = database.begin_read()?;
    let table = transaction.open_table(HANDLES)?;
    table
        .iter()?
        .map(|entry| entry.map(|(id, record)| (id.value(), record.value().to_vec())))
        .collect::<Result<_, _>>()
        .map_err(Into::into)
}

struct Writer {
    state: Arc<StateDir>,
    /// `None` until there is something to store.
    database: Option<Database>,
}

impl Writer {
    /// Processes requests until all senders are gone.
    fn run(mut self, received: &Receiver<Request>) {
        while let Ok(first) = received.recv() {
            let mut batch = vec![first];
            batch.extend(received.try_iter().take(BATCH - 1));
            let result = self.write(&batch).map_err(|error| Failed(format!("{FILE}: {error:#}")));
            for request in batch {
                // The receiver of a cancelled request is gone.
                let _ = request.done.send(result.clone());
            }
        }
    }

    fn write(&mut self, batch: &[Request]) -> Result<()> {
        let puts = batch.iter().any(|request| matches!(request.change, Change::Put(..)));
        if self.database.is_none() && puts {
            self.database = Some(self.create()?);
        }
        let Some(database) = &self.database else { return Ok(()) };
        let transaction = database.begin_write()?;
        {
            let mut table = transaction.open_table(HANDLES)?;
            for request in batch {
                match &request.change {
                    Change::Put(id, record) => table.insert(id, record.as_slice())?,
                    Change::Remove(id) => table.remove(id)?,
                };
            }
        }
        // The data is on disk when this returns.
        transaction.commit()?;
        Ok(())
    }

    /// Creates the file under another name and links it into place once it is complete, so that a crash leaves either
    /// no file or a complete one.
    fn create(&self) -> Result<Database> {
        let temporary = format!("{FILE}.new");
        self.state.remove(&temporary)?;
        let database = open(self.state.create_file(&temporary)?)?;
        let transaction = database.begin_write()?;
        transaction.open_table(HANDLES)?;
        transaction.commit()?;
        let linked = self.state.link(&temporary, FILE)?;
        self.state.remove(&temporary)?;
        ensure!(linked, "another process created the file meanwhile");
        Ok(database)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> (tempfile::TempDir, Arc<StateDir>) {
        let directory = tempfile::tempdir().expect("a directory");
        let state = StateDir::create(&directory.path().join("state")).expect("a state directory");
        (directory, Arc::new(state))
    }

    async fn reopened(handles: Handles, state: &Arc<StateDir>) -> (Handles, Records) {
        drop(handles);
        // The file can be opened again once the thread has ended.
        for _ in 0..1000 {
            match Handles::open(state.clone()) {
                Ok(handles) => {
                    let records = handles.load().await.expect("loaded");
                    return (handles, records);
                }
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
            }
        }
        panic!("the store cannot be opened again");
    }

    #[tokio::test]
    async fn changes_are_applied_in_order() {
        let (_directory, state) = state();
        let handles = Handles::open(state.clone()).expect("opened");
        assert_eq!(handles.load().await.expect("loaded"), []);
        handles.remove(1).await.expect("nothing to do");
        assert!(state.open_file(FILE).expect("asked").is_none(), "the file is created with the first record");
        let changes = [
            handles.put(1, vec![1]),
            handles.put(2, vec![2]),
            handles.put(1, vec![3]),
            handles.remove(2),
            handles.put(3, vec![]),
        ];
        for change in changes {
            change.await.expect("written");
        }
        let (handles, records) = reopened(handles, &state).await;
        assert_eq!(records, [(1, vec![3]), (3, vec![])]);
        handles.remove(1).await.expect("removed");
        assert_eq!(reopened(handles, &state).await.1, [(3, vec![])]);
    }

    #[test]
    fn a_file_that_is_not_a_store_is_not_changed() {
        use std::io::Write;
        let (_directory, state) = state();
        state.create_file(FILE).expect("made").write_all(b"something else").expect("written");
        let error = Handles::open(state.clone()).err().expect("refused");
        assert!(format!("{error:#}").contains(FILE), "{error:#}");
        assert_eq!(std::fs::read(state.path().join(FILE)).expect("read"), b"something else");
    }
}
