//! The space of a file system. The kernel reports it for a file: the file system may be mounted below the share,
//! and XFS, ext4 and f2fs report the project quota of a directory. [`crate::quota`] has the part that
//! quotas of users and groups leave.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::fs::StatVfsMountFlags;
use server::vfs::{FileSystemState, Identity, Result, Space};

use crate::node::Open;
use crate::{errno, identity};

/// The block size if the file system reports none that is possible.
const BLOCK: u32 = 4096;

impl Open {
    pub(crate) fn space(&self, who: &Arc<Identity>) -> Result<Space> {
        identity::assume(who)?;
        space(self.fd())
    }
}

/// Returns the state of the file system of `fd`.
pub(crate) fn state(fd: BorrowedFd<'_>) -> Result<FileSystemState> {
    let said = rustix::fs::fstatvfs(fd).map_err(errno)?;
    let device = rustix::fs::fstat(fd).map_err(errno)?.st_dev;
    let unit = if said.f_frsize == 0 { said.f_bsize } else { said.f_frsize };
    let bytes = |blocks: u64| blocks.saturating_mul(unit);
    let read_only = said.f_flag.contains(StatVfsMountFlags::RDONLY);
    Ok(FileSystemState { device, size: bytes(said.f_blocks), available: bytes(said.f_bavail), read_only })
}

/// Returns the space of the file system of `fd`, within the project quota of a directory.
fn space(fd: BorrowedFd<'_>) -> Result<Space> {
    let said = rustix::fs::fstatvfs(fd).map_err(errno)?;
    let unit = if said.f_frsize == 0 { said.f_bsize } else { said.f_frsize };
    Ok(Space {
        block_size: u32::try_from(unit).unwrap_or(BLOCK).max(1),
        blocks: said.f_blocks,
        free: said.f_bfree.min(said.f_blocks),
        available: said.f_bavail.min(said.f_bfree).min(said.f_blocks),
        id: said.f_fsid,
    })
}
