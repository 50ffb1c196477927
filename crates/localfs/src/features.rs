//! Detection of the file system's features, by trying them on a nameless temporary file. The file is invisible, holds
//! no data and changes no directory. If it cannot be created (a read-only file system, or a share that the process
//! itself may not write to), no features are reported.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{FallocateFlags, IFlags, OFlags};
use rustix::io::Errno as Raw;
use server::vfs::{Errno, Features, Identity, Result};

use crate::node::Open;
use crate::root::Root;
use crate::{errno, identity, sys};

/// The only file system on which the compression flag has an effect; others only store it.
const BTRFS: i64 = 0x9123_683e;

/// Tries the features of the file system of `root`.
pub(crate) fn probe(root: &Root) -> Features {
    let trial = || root.reopen(root.fd(), OFlags::TMPFILE | OFlags::RDWR);
    let both = || -> Result<(OwnedFd, OwnedFd)> {
        identity::assume_process().map_err(errno)?;
        Ok((trial()?, trial()?))
    };
    let Ok((one, other)) = both() else { return Features { shows_reserved: true, ..Features::default() } };
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let is_btrfs = rustix::fs::fstatfs(&one).is_ok_and(|said| said.f_type == BTRFS);
    Features {
        // Clones a whole empty file: the file system reports whether it can, and there is no data to share.
        clones: sys::clone_range(&one, &other, 0, 0, 0).is_ok(),
        compresses: is_btrfs && set_flag(&one, true).is_ok(),
        punches: rustix::fs::fallocate(&one, hole, 0, 4096).is_ok(),
        shows_reserved: true,
    }
}

/// Sets or clears the compression flag and leaves the other flags unchanged.
fn set_flag(fd: &OwnedFd, compressed: bool) -> rustix::io::Result<()> {
    let mut flags = rustix::fs::ioctl_getflags(fd)?;
    flags.set(IFlags::COMPRESSED, compressed);
    rustix::fs::ioctl_setflags(fd, flags)
}

impl Open {
    /// Sets whether the file system compresses data written from now on.
    pub(crate) fn compress(&self, who: &Arc<Identity>, compressed: bool) -> Result<()> {
        if !self.share.capabilities.features.compresses {
            return Err(Errno::OPNOTSUPP);
        }
        if self.permissions(who)? & 2 == 0 {
            return Err(Errno::ACCES);
        }
        // Linux lets only the owner set the flag. Here, every user who may write the file may set it.
        identity::assume_process().map_err(errno)?;
        match set_flag(&self.share.root.reopen(self.fd(), OFlags::RDONLY | OFlags::NONBLOCK)?, compressed) {
            Err(Raw::NOTTY) => Err(Errno::OPNOTSUPP),
            done => done.map_err(errno),
        }
    }
}
