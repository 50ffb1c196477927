//! The space that is free. The kernel reports it for a file: the file system may be mounted below the share, and XFS,
//! ext4 and f2fs report the project quota of a directory.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use server::vfs::{Identity, Result, Space};

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
