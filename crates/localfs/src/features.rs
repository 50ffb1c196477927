//! Detection of the file system's features, by trying them on a nameless temporary file. The file is invisible, holds
//! no data and changes no directory. If it cannot be created (a read-only file system, or a share that the process
//! itself may not write to), no features are reported.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{FallocateFlags, IFlags, OFlags};
use rustix::io::Errno as Raw;
use server::answer::Answer;
use server::vfs::{Errno, Features, Identity, Result};

use crate::node::Open;
use crate::pace::change;
use crate::root::Root;
use crate::worker::{Lane, SERVER};
use crate::{Share, errno, identity, sys};

/// The only file system on which the compression flag has an effect; others only store it.
const BTRFS: i64 = 0x9123_683e;

impl Share {
    pub(crate) fn features(share: &Arc<Share>) -> Answer<Features> {
        if let Some(known) = share.features.get() {
            return Answer::now(*known);
        }
        let asked = Arc::clone(share);
        let features = move || Ok(*asked.features.get_or_init(|| probe(&asked.root)));
        share.root.system.later(SERVER, Lane::Data, features).map(Result::unwrap_or_default)
    }
}

fn probe(root: &Root) -> Features {
    let trial = || root.reopen(root.fd(), OFlags::TMPFILE | OFlags::RDWR);
    let both = || -> Result<(OwnedFd, OwnedFd)> {
        identity::assume_process().map_err(errno)?;
        Ok((trial()?, trial()?))
    };
    let Ok((one, other)) = both() else { return Features::default() };
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let is_btrfs = rustix::fs::fstatfs(&one).is_ok_and(|said| said.f_type == BTRFS);
    Features {
        // Clones a whole empty file: the file system reports whether it can, and there is no data to share.
        clones: sys::clone_range(&one, &other, 0, 0, 0).is_ok(),
        compresses: is_btrfs && set_flag(&one, true).is_ok(),
        punches: rustix::fs::fallocate(&one, hole, 0, 4096).is_ok(),
    }
}

/// Sets or clears the compression flag and leaves the other flags unchanged.
fn set_flag(fd: &OwnedFd, compressed: bool) -> rustix::io::Result<()> {
    let mut flags = rustix::fs::ioctl_getflags(fd)?;
    flags.set(IFlags::COMPRESSED, compressed);
    rustix::fs::ioctl_setflags(fd, flags)
}

impl Open {
    pub(crate) fn set_compressed(open: &Arc<Open>, who: &Arc<Identity>, compressed: bool) -> Answer<Result<()>> {
        let (who, uid) = (Arc::clone(who), who.uid);
        change(open, uid, move |open| open.compress(&who, compressed))
    }

    fn compress(&self, who: &Arc<Identity>, compressed: bool) -> Result<()> {
        let _own = self.changes();
        if !self.share.features.get_or_init(|| probe(&self.share.root)).compresses {
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
