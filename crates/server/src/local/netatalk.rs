//! `fruit:locking = netatalk`: share modes that clients and Netatalk's AFP server on this machine see of each other.
//!
//! Netatalk 3 stands for the share mode of an open file by shared locks on ten bytes at the end of what the kernel can
//! lock (fcntl(2)). Each open has those of its access and of what it denies, and conflicts with the opposite ones of
//! others. The locks of an open belong to its handle. Handles of this server see those of each other too; they agree
//! with the table of open files, which has been asked before.
//!
//! As in Samba, a handle that cannot read has no such locks, because the kernel requires reading for shared ones. It is
//! refused by those of others nevertheless. Resource forks have none.

use std::sync::Arc;

use proto::dtyp::AccessMask;
use proto::smb2::create::ShareAccess;
use proto::status::Status;

use crate::error::{Error, Result};
use crate::files::ShareMode;
use crate::files::byte_lock::Range;
use crate::state::open::{FileOpen, Open};
use crate::tree::Disk;
use crate::vfs::{self, Errno, Kind, Node, Op, RangeChange, RangeLock};

/// The first of Netatalk's bytes.
const FIRST: u64 = i64::MAX as u64 - 9;
/// Their number.
const COUNT: u64 = 10;
/// The data fork is open for writing.
const WRITES: u64 = FIRST;
/// The data fork is open for reading.
const READS: u64 = FIRST + 1;
/// Others may not open the data fork for writing.
const DENIES_WRITING: u64 = FIRST + 4;
/// Others may not open the data fork for reading.
const DENIES_READING: u64 = FIRST + 5;

/// Whether the share exchanges share modes with Netatalk.
fn is_on(disk: &Disk) -> bool {
    disk.share.mac.as_ref().is_some_and(|mac| mac.netatalk_locks) && disk.snapshot.is_none()
}

/// Returns the bytes that an open with this mode locks, and those that no other may have locked.
fn bytes(mode: ShareMode, posix: bool) -> (Vec<u64>, Vec<u64>) {
    const READING: u32 = AccessMask::FILE_READ_DATA.0 | AccessMask::FILE_EXECUTE.0;
    const WRITING: u32 = AccessMask::FILE_WRITE_DATA.0 | AccessMask::FILE_APPEND_DATA.0;
    let has = |rights| mode.access.0 & rights != 0;
    // POSIX opens admit each other, whatever they share.
    let denies = |access: ShareAccess| !posix && mode.share.0 & access.0 == 0;
    let (mut own, mut conflicting) = (Vec::new(), Vec::new());
    for (is_so, byte, opposite) in [
        (has(READING), READS, DENIES_READING),
        (has(WRITING), WRITES, DENIES_WRITING),
        (denies(ShareAccess::READ), DENIES_READING, READS),
        (denies(ShareAccess::WRITE), DENIES_WRITING, WRITES),
    ] {
        if is_so {
            own.push(byte);
            conflicting.push(opposite);
        }
    }
    (own, conflicting)
}

/// Called when a file has been opened for data, before its content changes: locks the bytes for its share mode. The
/// locks end with the handle, or by [`leave`].
///
/// # Errors
/// `Status::SHARING_VIOLATION` if Netatalk, or what has its locks, has opened the file with another share mode. The
/// caller drops the handle.
pub(crate) async fn enter(disk: &Disk, node: &Arc<dyn Node>, kind: Kind, mode: ShareMode, posix: bool) -> Result<()> {
    if kind != Kind::File || !is_on(disk) {
        return Ok(());
    }
    let (own, conflicting) = bytes(mode, posix);
    // The own locks come first, so that of two that open the file at the same time at least one notices. The kernel
    // searches all locks of the file, and there may be as many opens.
    let is_violation = match node.lock(&disk.op, own.into_iter().map(locked).collect(), true).await {
        Ok(()) => node.is_locked(&disk.op, conflicting).await,
        Err(Errno::AGAIN) => Ok(true),
        Err(errno) => Err(errno),
    };
    match is_violation {
        // A handle without data access neither reads nor writes.
        Ok(false) | Err(Errno::BADF | Errno::OPNOTSUPP) => Ok(()),
        Ok(true) => {
            // The handle may be closed later, as on FUSE.
            let _ = release(node, &disk.op).await;
            let why = "Netatalk, or a program with its locks, has opened the file with another share mode";
            Err(Error::because(Status::SHARING_VIOLATION, why))
        }
        Err(errno) => {
            let _ = release(node, &disk.op).await;
            Err(errno.into())
        }
    }
}

/// Called after byte-range locks of an open were removed in the kernel, which has one lock per byte and handle: locks
/// the bytes for the share mode again, if some were among `ranges`.
pub(crate) async fn renew(open: &Open, file: &FileOpen, mut ranges: impl Iterator<Item = Range>) {
    let is_on = open.tree.disk().is_some_and(is_on);
    if !is_on || !ranges.any(|range| range.length() > 0 && range.offset() + (range.length() - 1) >= FIRST) {
        return;
    }
    let (own, _) = bytes(ShareMode { access: open.granted, share: open.share }, file.posix);
    if let Err(errno) = file.node.lock(&file.op, own.into_iter().map(locked).collect(), true).await {
        tracing::warn!(?errno, path = %*file.name.path.lock(), "Netatalk does not see that a client has the file open, \
                                                                because its locks cannot be taken again");
    }
}

fn locked(offset: u64) -> RangeChange {
    RangeChange { offset, length: 1, before: RangeLock::Free, after: RangeLock::Shared }
}

/// Called before an open leaves the table of open files: removes its locks, so that another open finds none.
pub(crate) async fn leave(disk: &Disk, file: &FileOpen) {
    if file.kind != Kind::File || file.file.stream != 0 || !is_on(disk) {
        return;
    }
    if let Err(errno) = release(&file.node, &file.op).await {
        tracing::debug!(?errno, path = %*file.name.path.lock(), "Netatalk's locks end when the handle is closed");
    }
}

/// Removes the locks of a handle.
async fn release(node: &Arc<dyn Node>, op: &Op) -> vfs::Result<()> {
    let all = RangeChange { offset: FIRST, length: COUNT, before: RangeLock::Shared, after: RangeLock::Free };
    node.lock(op, vec![all], true).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_modes_have_the_bytes_of_netatalk() {
        let mode = |access, share| ShareMode { access: AccessMask(access), share: ShareAccess(share) };
        let base = 0x7fff_ffff_ffff_fff6;
        for (access, share, own, conflicting) in [
            (1, 7, vec![1], vec![5]),
            (2, 7, vec![0], vec![4]),
            (0x23, 3, vec![1, 0], vec![5, 4]),
            (1, 0, vec![1, 5, 4], vec![5, 1, 0]),
            (4, 1, vec![0, 4], vec![4, 0]),
        ] {
            let expected =
                [own, conflicting].map(|bytes| bytes.into_iter().map(|byte| base + byte).collect::<Vec<_>>());
            let (own, conflicting) = bytes(mode(access, share), false);
            assert_eq!([own, conflicting], expected, "{access:x} {share}");
        }
        assert_eq!(bytes(mode(1, 0), true), (vec![base + 1], vec![base + 5]));
    }
}
