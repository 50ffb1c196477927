//! Files whose name is being replaced by another file. From the check that the file is not open until its name is
//! replaced, no client can open it ([MS-FSA] 2.1.5.15.12, where both are one step). Opens wait and then look up the
//! name again.
//!
//! Files that are deleted with their last open are not handled here. They refuse new opens by being marked for
//! deletion.

use std::collections::hash_map::Entry;
use std::time::Duration;

use super::Table;
use super::oplock::{ACKNOWLEDGMENT_TIME, Wait};
use crate::vfs::FileId;

/// The reason why the name of a file cannot be replaced now.
#[derive(Debug)]
pub enum NameInUse {
    /// The file is open.
    Open,
    /// The name is already being replaced: wait, then look it up again.
    Replaced(Wait),
}

/// Keeps a file from being opened while its name is replaced; ends on drop.
pub struct NameReplacement<'a> {
    table: &'a Table,
    file: FileId,
}

impl Table {
    /// Starts the replacement of a name of `file`, if the file is not open. With `posix`, it may have POSIX opens,
    /// which keep it without the name.
    pub fn begin_replacement(
        &self,
        file: FileId,
        now: Duration,
        posix: bool,
    ) -> Result<NameReplacement<'_>, NameInUse> {
        match self.shard(file).lock().entry(file) {
            Entry::Occupied(mut entry) => {
                let state = entry.get_mut();
                if state.being_replaced {
                    return Err(NameInUse::Replaced(state.wait_for_name(now)));
                }
                if state.is_delete_pending() || !(posix && state.is_posix()) {
                    return Err(NameInUse::Open);
                }
                state.being_replaced = true;
                Ok(NameReplacement { table: self, file })
            }
            Entry::Vacant(entry) => {
                entry.insert_entry(Default::default()).get_mut().being_replaced = true;
                Ok(NameReplacement { table: self, file })
            }
        }
    }
}

impl Table {
    /// Starts the replacement of the only name of `file`, which `open` alone has open.
    pub fn begin_replacement_by(&self, file: FileId, open: u64) -> Option<NameReplacement<'_>> {
        let begun = self.with(file, |state| {
            let may = !state.being_replaced && !state.is_delete_pending() && state.is_open_only_by(open);
            state.being_replaced |= may;
            may
        });
        (begun == Some(true)).then_some(NameReplacement { table: self, file })
    }

    /// Returns a wait until the name is replaced, if that is in progress.
    pub fn replacement_wait(&self, file: FileId, now: Duration) -> Option<Wait> {
        self.with(file, |state| state.being_replaced.then(|| state.wait_for_name(now))).flatten()
    }
}

impl super::table::File {
    /// Permits opens again.
    fn end_replacement(&mut self) {
        self.being_replaced = false;
        self.oplocks.wake();
    }

    /// Waits until the name leads to the other file, or the replacement has failed.
    pub(super) fn wait_for_name(&mut self, now: Duration) -> Wait {
        self.oplocks.wait(now + ACKNOWLEDGMENT_TIME)
    }
}

impl Drop for NameReplacement<'_> {
    fn drop(&mut self) {
        let mut shard = self.table.shard(self.file).lock();
        // Opens that looked the file up before must look again.
        self.table.removed(self.file);
        match shard.get_mut(&self.file) {
            Some(state) if state.is_closed() => _ = shard.remove(&self.file),
            Some(state) => state.end_replacement(),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;
    use proto::dtyp::AccessMask;
    use proto::smb2::create::ShareAccess;

    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;
    use crate::files::oplock::Opening;
    use crate::files::{OpenName, Refusal, ShareMode};
    use crate::vfs::RelPath;

    const FILE: FileId = FileId { device: 1, inode: 2, stream: 0 };

    #[test]
    fn a_file_is_open_or_being_removed() {
        let (table, now) = (Table::default(), Duration::from_secs(1));
        let name = Arc::new(OpenName { volume: 1, path: Mutex::new(RelPath::root()) });
        let mode = ShareMode { access: AccessMask::FILE_READ_DATA, share: ShareAccess(7) };
        let opening = Opening::new(mode.access, false, None, now);
        let before = table.removals();
        let Ok(replacement) = table.begin_replacement(FILE, now, false) else { panic!("no client has it open") };
        let Err(Refusal::OplockBreak(mut opener)) = table.open(FILE, 1, mode, &name, table.removals(), opening) else {
            panic!("the file can be opened");
        };
        let Err(NameInUse::Replaced(mut other)) = table.begin_replacement(FILE, now, true) else {
            panic!("the file is removed twice")
        };
        assert!(
            opener.changed.try_recv().is_err_and(|error| error == tokio::sync::oneshot::error::TryRecvError::Empty)
        );
        drop(replacement);
        for wait in [&mut opener, &mut other] {
            assert_eq!(wait.changed.try_recv(), Err(TryRecvError::Closed));
        }
        assert!(matches!(table.open(FILE, 1, mode, &name, before, opening), Err(Refusal::Raced)));
        table.open(FILE, 1, mode, &name, table.removals(), opening).expect("the removal is complete");
        assert!(matches!(table.begin_replacement(FILE, now, true), Err(NameInUse::Open)));
        table.close(FILE, 1, false);
        assert!(table.begin_replacement(FILE, now, false).is_ok());
        assert!(!table.is_open(FILE), "nothing is left");
    }

    #[test]
    fn posix_opens_keep_a_file_whose_name_is_replaced() {
        let (table, now) = (Table::default(), Duration::ZERO);
        let name = Arc::new(OpenName { volume: 1, path: Mutex::default() });
        let mode = ShareMode { access: AccessMask::FILE_READ_DATA, share: ShareAccess(0) };
        let opening = Opening { posix: true, ..Opening::new(mode.access, false, None, now) };
        for open in [1, 2] {
            table.open(FILE, open, mode, &name, table.removals(), opening).expect("POSIX opens do not conflict");
        }
        assert!(matches!(table.begin_replacement(FILE, now, false), Err(NameInUse::Open)));
        let replacement = table.begin_replacement(FILE, now, true).unwrap_or_else(|_| panic!("only POSIX opens"));
        let Err(Refusal::OplockBreak(mut opener)) = table.open(FILE, 3, mode, &name, table.removals(), opening) else {
            panic!("the file can be opened");
        };
        table.close(FILE, 1, false);
        drop(replacement);
        assert_eq!(opener.changed.try_recv(), Ok(()));
        assert!(table.is_open(FILE), "an open is left");
        let windows = Opening { posix: false, ..opening };
        let shares = ShareMode { share: ShareAccess(7), ..mode };
        let refused = table.open(FILE, 4, shares, &name, table.removals(), windows);
        assert!(matches!(refused, Err(Refusal::SharingViolation)), "share modes hold against other opens");
        table.close(FILE, 2, false);
        let replacement = table.begin_replacement(FILE, now, true).unwrap_or_else(|_| panic!("not open"));
        drop(replacement);
        assert!(!table.is_open(FILE), "nothing is left");
    }
}
