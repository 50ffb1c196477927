//! The expected state of files: values that may be read, opens, locks and names.

use std::collections::BTreeMap;

use proto::smb2::create::{CreateAction, CreateResponse};
use proto::smb2::read::ReadResponse;
use proto::status::Status;

use super::client::{Actor, Done, Granted};
use super::expect;

#[derive(Default, Debug)]
struct File {
    /// Values that a read may return: one, or several during a write or after a client with unsent data was lost.
    values: Vec<u64>,
    writing: bool,
    /// Number of handles on the server.
    opens: usize,
    /// Number of those for which a CLOSE is in progress.
    closing: usize,
    delete_pending: bool,
    /// Holders of locks on the range, identified by the handle's lease key.
    locks: Vec<(u64, bool)>,
}

#[derive(Default)]
pub(crate) struct Model {
    files: Vec<File>,
    names: BTreeMap<String, usize>,
}

impl Model {
    /// Checks that a program may read `value`.
    #[track_caller]
    pub(crate) fn check(&self, file: usize, value: u64) {
        let values = &self.files[file].values;
        assert!(values.contains(&value), "file {file}: a program reads {value}, last written: {values:?}");
    }

    pub(crate) fn is_being_written(&self, file: usize) -> bool {
        self.files[file].writing
    }

    /// Records a write into a client's cache and returns the values that the server may have.
    pub(crate) fn written_in_cache(&mut self, file: usize, value: u64) -> Vec<u64> {
        std::mem::replace(&mut self.files[file].values, vec![value])
    }

    /// Records the start of a WRITE.
    pub(crate) fn write_begins(&mut self, file: usize, value: u64) {
        let file = &mut self.files[file];
        file.writing = true;
        if !file.values.contains(&value) {
            file.values.push(value);
        }
    }

    /// Records the loss of a client with unsent data: the server has one of `values`.
    pub(crate) fn lost(&mut self, file: usize, values: Vec<u64>) {
        self.files[file].values = values;
    }

    /// Records the loss of a client during a WRITE, which may have been carried out or not.
    pub(crate) fn write_lost(&mut self, file: usize) {
        self.files[file].writing = false;
    }

    /// Records the start of a CLOSE.
    pub(crate) fn close_begins(&mut self, file: usize) {
        self.files[file].closing += 1;
    }

    /// Records the loss of a client during a CLOSE.
    pub(crate) fn close_lost(&mut self, file: usize) {
        self.files[file].closing -= 1;
    }

    /// Records that the server has closed a handle.
    pub(crate) fn closed(&mut self, file: usize, key: u64) {
        let state = &mut self.files[file];
        state.opens -= 1;
        state.locks.retain(|(holder, _)| *holder != key);
        if state.opens == 0 && state.delete_pending {
            self.names.retain(|_, named| *named != file);
        }
    }

    /// An exclusive lock conflicts with every other lock, and a shared lock with an exclusive lock of another handle.
    fn may_lock(&self, file: usize, key: u64, exclusive: bool) -> bool {
        self.files[file].locks.iter().all(|(holder, held)| !exclusive && (!*held || *holder == key))
    }

    /// Checks the response to a request of `actor` and updates the model.
    pub(crate) fn learn(&mut self, actor: &mut Actor, done: Done, status: Status, response: &[u8]) {
        match done {
            Done::Open { ref name, key } => match self.named(name, status == Status::SUCCESS) {
                Some(file) if self.files[file].delete_pending => expect(&done, status, Status::DELETE_PENDING),
                existing => {
                    expect(&done, status, Status::SUCCESS);
                    let created = CreateResponse::decode(response).expect("a well-formed CREATE response");
                    let action = if existing.is_some() { CreateAction::OPENED } else { CreateAction::CREATED };
                    assert_eq!(created.create_action, action, "{done:?}");
                    let file = existing.unwrap_or_else(|| self.make(name));
                    self.files[file].opens += 1;
                    actor.opened(file, key, Granted::of(&created));
                }
            },
            Done::Read { view, cache } => {
                let file = actor.file(view);
                // If nothing was ever written, the file is empty.
                let value = match status {
                    Status::END_OF_FILE => 0,
                    _ => {
                        expect(&done, status, Status::SUCCESS);
                        let read = ReadResponse::decode(response).expect("a well-formed READ response");
                        u64::from_le_bytes(read.buffer.try_into().expect("eight bytes"))
                    }
                };
                self.check(file, value);
                if !self.files[file].writing {
                    self.files[file].values = vec![value];
                }
                if cache {
                    actor.keep(view, value);
                }
            }
            Done::Write { view, value } => {
                expect(&done, status, Status::SUCCESS);
                let file = &mut self.files[actor.file(view)];
                file.writing = false;
                file.values = vec![value];
                actor.written(view, value);
            }
            Done::Close { view } => {
                expect(&done, status, Status::SUCCESS);
                let (file, key) = actor.forget(view);
                self.files[file].closing -= 1;
                self.closed(file, key);
            }
            Done::Lock { view, exclusive } => {
                let (file, key) = (actor.file(view), actor.key(view));
                match self.may_lock(file, key, exclusive) {
                    true => {
                        expect(&done, status, Status::SUCCESS);
                        self.files[file].locks.push((key, exclusive));
                    }
                    false => expect(&done, status, Status::LOCK_NOT_GRANTED),
                }
            }
            Done::Unlock { view } => {
                let (file, key) = (actor.file(view), actor.key(view));
                let locks = &mut self.files[file].locks;
                // [MS-FSA] 2.1.5.9: exclusive locks are unlocked before shared ones.
                let own = |wanted| locks.iter().position(|(holder, held)| *holder == key && *held == wanted);
                match own(true).or_else(|| own(false)) {
                    Some(index) => {
                        expect(&done, status, Status::SUCCESS);
                        locks.remove(index);
                    }
                    None => expect(&done, status, Status::RANGE_NOT_LOCKED),
                }
            }
            Done::Rename { view, ref to } => {
                let file = actor.file(view);
                if self.renamed(file, to, &done, status) {
                    actor.renamed(view, to);
                }
            }
            Done::Delete { view } => {
                expect(&done, status, Status::SUCCESS);
                self.files[actor.file(view)].delete_pending = true;
            }
            Done::Acknowledge => expect(&done, status, Status::SUCCESS),
        }
    }

    /// Returns the file with the name. The last CLOSE of a deleted file removes its name at some moment before the
    /// response; `gone` is whether that has happened already.
    fn named(&self, name: &str, gone: bool) -> Option<usize> {
        let is_being_removed = |file: &File| file.delete_pending && file.closing == file.opens;
        let found = self.names.get(&name.to_uppercase()).copied();
        found.filter(|&file| !(gone && is_being_removed(&self.files[file])))
    }

    fn make(&mut self, name: &str) -> usize {
        self.files.push(File { values: vec![0], ..File::default() });
        self.names.insert(name.to_uppercase(), self.files.len() - 1);
        self.files.len() - 1
    }

    fn renamed(&mut self, file: usize, to: &str, done: &Done, status: Status) -> bool {
        let key = to.to_uppercase();
        let target = self.named(to, status == Status::SUCCESS).filter(|target| *target != file);
        let refused = self.files[file].delete_pending
            || target.is_some_and(|target| self.files[target].opens > 0 || self.files[target].delete_pending);
        if refused {
            expect(done, status, Status::ACCESS_DENIED);
            return false;
        }
        expect(done, status, Status::SUCCESS);
        self.names.retain(|_, named| *named != file);
        self.names.insert(key, file);
        true
    }
}
