//! Updates of the records of persistent opens ([MS-SMB2] 3.3.5.9.10). A state that was reported to a client must
//! survive a crash.

use std::sync::Arc;

use proto::status::Status;

use super::record::Record;
use crate::error::{Error, Result};
use crate::state::Server;
use crate::state::open::Open;
use crate::vfs::FileId;

/// Writes the record of a persistent open. Must be called before the client is notified of a change. Does nothing for
/// other opens.
pub(crate) async fn save(server: &Server, open: &Arc<Open>) -> Result<()> {
    let Some(file) = open.file().filter(|file| file.durability.is_persistent()) else { return Ok(()) };
    let Some(store) = server.store() else { return Ok(()) };
    let answer = {
        // Creating and queueing the record is atomic, so that a later record is never overwritten by an earlier one.
        let gone = file.durability.gone.lock();
        let Some(record) = Record::of(server, open, file).filter(|_| !*gone) else { return Ok(()) };
        store.put(open.persistent_id, record.encode())
    };
    answer.await.map_err(|failed| {
        tracing::error!(path = %*file.name.path.lock(), %failed, "cannot store a persistent open; check the space and \
                                                                  permissions of the state directory");
        Error::because(Status::INSUFFICIENT_RESOURCES, "the record of the persistent open cannot be written")
    })
}

/// Writes the records of all persistent opens of a file, because its name or deletion state has changed.
pub(crate) async fn save_all(server: &Server, file: FileId) -> Result<()> {
    let mut outcome = Ok(());
    for open in server.opens.durable.persistent_of(file) {
        let saved = save(server, &open).await;
        outcome = outcome.and(saved);
    }
    outcome
}

/// Removes the record of a closed open.
pub(crate) async fn remove(server: &Server, open: &Open) {
    let Some(file) = open.file().filter(|file| file.durability.is_persistent()) else { return };
    server.opens.durable.forget_persistent(open.persistent_id);
    let Some(store) = server.store() else { return };
    let answer = {
        let mut gone = file.durability.gone.lock();
        *gone = true;
        store.remove(open.persistent_id)
    };
    if let Err(failed) = answer.await {
        tracing::error!(
            path = %*file.name.path.lock(),
            %failed,
            "cannot remove the record of a closed open; the next start removes it"
        );
    }
}
