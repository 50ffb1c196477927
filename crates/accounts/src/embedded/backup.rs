//! The copy of the account database that a server creates at each start, and the recovery of a damaged database.
//!
//! The copy is created after the database has been opened and its checksums verified, so it is never a copy of a
//! damaged database. A server that finds the database damaged replaces it by the copy and keeps the damaged file next
//! to it.

use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::AsFd;

use anyhow::{Context, Result, anyhow};
use redb::{Database, DatabaseError, StorageError, TableError, TransactionError};
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::{FILE, OpenError, Store};
use crate::state_dir::StateDir;
use crate::when;

/// The copy's name in the state directory.
pub(super) const COPY: &str = "accounts.redb.bak";

/// The name of the copy while it is being written.
const NEW_COPY: &str = "accounts.redb.bak.new";
/// The file that will replace a damaged database.
const RESTORED: &str = "accounts.redb.restored";

/// Opens a database and verifies its checksums.
fn verified(file: File) -> Result<Database, OpenError> {
    let mut database = super::open_database(file)?;
    match database.check_integrity() {
        Ok(true) => {}
        Ok(false) => tracing::warn!("{FILE} was not closed properly and has been repaired"),
        Err(error) => return Err(judge(error.into())),
    }
    Ok(database)
}

/// Like [`Store::open_existing`], for a server: verifies all checksums, and restores a damaged database from the copy.
pub(super) fn open_existing(state: &StateDir) -> Result<Option<Store>, OpenError> {
    let Some(file) = state.open_file(FILE)? else { return Ok(None) };
    match guarded(|| Store::load(verified(file)?)) {
        Err(OpenError::Damaged(why)) => restore(state, &why),
        opened => opened.map(Some).map_err(|error| error.context(Store::place(state))),
    }
}

/// Replaces the damaged database by the copy and opens it.
fn restore(state: &StateDir, why: &anyhow::Error) -> Result<Option<Store>, OpenError> {
    let damaged = || OpenError::Failed(anyhow!("{} is damaged ({why:#})", Store::place(state)));
    let Some(file) = state.open_file(FILE)? else { return Ok(None) };
    // Another server may have restored it already and have it open now.
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => return Err(OpenError::Busy),
        done => done?,
    }
    if !state.is_file(FILE, file.as_fd())? {
        return Err(OpenError::Busy);
    }
    let Some(copy) = state.open_file(COPY)? else {
        return Err(damaged().context(format!("there is no copy ({COPY}): restore the database from a backup")));
    };
    let made = when::utc(rustix::fs::fstat(&copy)?.st_mtime);
    let checked = copy_file(state, copy, RESTORED).map_err(OpenError::Failed).and_then(|restored| {
        // Dropped here, so that it is closed cleanly before it is moved into place.
        guarded(|| Store::load(verified(restored)?)).map(drop)
    });
    if let Err(error) = checked {
        state.remove(RESTORED)?;
        let also = format!("its copy {COPY} cannot be used either: restore the database from a backup");
        return Err(OpenError::Failed(anyhow!("{:#}; {also}: {:#}", damaged().into_error(), error.into_error())));
    }
    let kept = format!("{FILE}.damaged-{}", when::now());
    state.link(FILE, &kept)?;
    state.rename(RESTORED, FILE)?;
    tracing::error!(
        "{} was damaged ({why:#}) and has been restored from the copy of {made}. Changes since then are missing: \
         accounts, passwords, group mappings and policies that were added, changed or deleted; the damaged file is \
         kept as {kept}",
        Store::place(state)
    );
    drop(file);
    Store::open_existing(state)
}

impl Store {
    /// Replaces the copy by one of the present database. On failure the old copy remains.
    pub(super) fn keep_copy(&self, state: &StateDir) -> Result<()> {
        // Held so that nothing is written meanwhile.
        let _unchanged = self.next_rid.lock();
        let file = state.open_file(FILE)?.context("the database has been removed")?;
        let copied = copy_file(state, file, NEW_COPY).and_then(|_| state.rename(NEW_COPY, COPY));
        if copied.is_err() {
            state.remove(NEW_COPY)?;
        }
        copied
    }
}

/// Copies all of `from` into the file `name`, durably. A file of that name left by a crash is removed.
fn copy_file(state: &StateDir, mut from: File, name: &str) -> Result<File> {
    state.remove(name)?;
    let mut to = state.create_file(name)?;
    std::io::copy(&mut from, &mut to)?;
    to.sync_all()?;
    Ok(to)
}

/// Runs `work` and treats a panic as damage, because redb and the record decoders do not check all that they read.
pub(super) fn guarded<T>(work: impl FnOnce() -> Result<T, OpenError>) -> Result<T, OpenError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(OpenError::Damaged(anyhow!("its structure is invalid"))))
}

/// Classifies an error: damage of the file, or a failure of the disk or memory.
pub(super) fn judge(error: anyhow::Error) -> OpenError {
    let storage = error.chain().find_map(|cause| {
        if let Some(DatabaseError::Storage(error)) = cause.downcast_ref() {
            return Some(error);
        }
        if let Some(TableError::Storage(error)) = cause.downcast_ref() {
            return Some(error);
        }
        if let Some(TransactionError::Storage(error)) = cause.downcast_ref() {
            return Some(error);
        }
        cause.downcast_ref::<StorageError>()
    });
    match (storage, error.downcast_ref()) {
        (Some(StorageError::Io(io)), _) if !matches!(io.kind(), ErrorKind::UnexpectedEof | ErrorKind::InvalidData) => {
            OpenError::Failed(error)
        }
        (_, Some(DatabaseError::DatabaseAlreadyOpen)) => OpenError::Busy,
        (_, Some(DatabaseError::UpgradeRequired(_))) => OpenError::Failed(error),
        _ => OpenError::Damaged(error),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::backend::Backend;
    use crate::record::Record;

    /// Opens the database as a server does.
    fn start(state: &StateDir) -> Result<Store> {
        Store::open_patiently(state, Duration::ZERO)
    }

    /// A state directory whose copy has `ann` and whose database also has `bob`.
    fn bed() -> (tempfile::TempDir, StateDir) {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::create(dir.path()).unwrap();
        start(&state).unwrap().add(Record::named("ann")).unwrap();
        start(&state).unwrap().add(Record::named("bob")).unwrap();
        (dir, state)
    }

    fn names(store: &Store) -> Vec<String> {
        store.page(None, 10).iter().map(|record| record.name.clone()).collect()
    }

    fn damaged_files(dir: &Path) -> Vec<Vec<u8>> {
        let all = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        let damaged = all.filter(|path| path.to_string_lossy().contains(".damaged-"));
        damaged.map(|path| std::fs::read(path).unwrap()).collect()
    }

    #[test]
    fn a_damaged_database_is_restored_from_the_copy_of_the_last_start() {
        let zeroed = |from: usize, to: usize| {
            move |content: &mut Vec<u8>| {
                let end = to.min(content.len());
                content[from..end].fill(0);
            }
        };
        type Damage = Box<dyn Fn(&mut Vec<u8>)>;
        let damages: Vec<(&str, Damage)> = vec![
            ("empty", Box::new(Vec::clear)),
            ("garbage", Box::new(|content| content.fill(0x55))),
            ("the header alone", Box::new(|content| content.truncate(4096))),
            ("half", Box::new(|content| content.truncate(content.len() / 2))),
            ("a few bytes", Box::new(|content| content.truncate(17))),
            ("no header", Box::new(zeroed(0, 4096))),
            ("no pages", Box::new(zeroed(4096, usize::MAX))),
        ];
        for (what, damage) in damages {
            let (dir, state) = bed();
            let sid = Store::open(&state).unwrap().domain();
            let mut content = std::fs::read(dir.path().join(FILE)).unwrap();
            damage(&mut content);
            std::fs::write(dir.path().join(FILE), &content).unwrap();
            let restored = start(&state).unwrap_or_else(|error| panic!("{what}: {error:#}"));
            assert_eq!(names(&restored), ["ann"], "{what}: as at the last start");
            assert_eq!(restored.domain(), sid, "{what}");
            assert_eq!(damaged_files(dir.path()).len(), 1, "{what}");
            drop(restored);
            assert_eq!(names(&start(&state).unwrap()), ["ann"], "{what}");
        }
    }

    #[test]
    fn damage_found_only_by_checksums_is_detected() {
        let (dir, state) = bed();
        let mut content = std::fs::read(dir.path().join(FILE)).unwrap();
        let places: Vec<usize> = (0..content.len() - 3).filter(|&at| &content[at..at + 3] == b"bob").collect();
        assert!(!places.is_empty());
        // A different name, which decodes as well as the right one.
        places.iter().for_each(|&at| content[at..at + 3].copy_from_slice(b"eve"));
        std::fs::write(dir.path().join(FILE), &content).unwrap();
        // redb may also find an older intact state of its own.
        let found = names(&start(&state).unwrap());
        assert!(found == ["ann"] || found == ["ann", "bob"], "{found:?}");
    }

    #[test]
    fn a_damaged_database_with_a_damaged_copy_is_not_changed() {
        let (dir, state) = bed();
        let garbage = vec![0x55; 10_000];
        for name in [FILE, COPY] {
            std::fs::write(dir.path().join(name), &garbage).unwrap();
        }
        let error = format!("{:#}", start(&state).err().expect("no database can be opened"));
        assert!(error.contains(COPY) && error.contains("backup"), "{error}");
        for name in [FILE, COPY] {
            assert_eq!(std::fs::read(dir.path().join(name)).unwrap(), garbage);
        }
        assert!(damaged_files(dir.path()).is_empty() && !dir.path().join(RESTORED).exists());
        std::fs::remove_file(dir.path().join(COPY)).unwrap();
        let error = format!("{:#}", start(&state).err().expect("no database can be opened"));
        assert!(error.contains("no copy"), "{error}");
    }

    #[test]
    fn a_missing_database_with_a_copy_is_not_recreated() {
        let (dir, state) = bed();
        std::fs::remove_file(dir.path().join(FILE)).unwrap();
        let error = format!("{:#}", start(&state).err().expect("the accounts are lost"));
        assert!(error.contains(COPY), "{error}");
        std::fs::remove_file(dir.path().join(COPY)).unwrap();
        assert!(names(&start(&state).unwrap()).is_empty());
    }

    #[test]
    fn a_command_does_not_change_a_damaged_database() {
        let (dir, state) = bed();
        std::fs::write(dir.path().join(FILE), b"").unwrap();
        let Err(OpenError::Damaged(error)) = Store::open(&state) else { panic!("opened nothing") };
        assert!(format!("{error:#}").contains("frevo serve"), "{error:#}");
        assert_eq!(std::fs::read(dir.path().join(FILE)).unwrap(), b"");
    }

    #[test]
    fn an_incomplete_copy_left_by_a_crash_is_replaced() {
        let (dir, state) = bed();
        std::fs::write(dir.path().join(NEW_COPY), b"half").unwrap();
        drop(start(&state).unwrap());
        assert!(!dir.path().join(NEW_COPY).exists());
        assert!(std::fs::metadata(dir.path().join(COPY)).unwrap().len() > 4096);
    }
}
