//! Probing of the clock that stamps the files of a share.
//!
//! Whether a file system gives a change its own time if the previous time has been read is determined by trying it on a
//! nameless temporary file. [`backing::clock`] has the rules that follow from the result.

use std::os::fd::AsFd;

use backing::clock::{COARSE_GRANULARITY, Clock};
use rustix::fs::{Mode, OFlags};
use server::vfs::{GRANULARITY, Result, Time};

use crate::errno;
use crate::metadata::{coarse_now, time};
use crate::root::{Root, stat};

/// Number of consecutive changes that must get different times.
const TRIALS: u32 = 8;

/// Determines the clock of the file system of `root` by trying it with the thread's identity.
pub(crate) fn probe(root: &Root) -> Clock {
    if !root.local {
        return Clock::ticking(COARSE_GRANULARITY);
    }
    let clock = Clock::ticking(GRANULARITY).with_local_device(root.id.device);
    if shows_all(root).unwrap_or(false) { clock.with_fine_device(root.id.device) } else { clock }
}

/// Returns whether each of several changes, read one by one, has its own time, with most of them within the granularity
/// of a coarse clock.
fn shows_all(root: &Root) -> Result<bool> {
    let trial = root.reopen(root.fd(), OFlags::TMPFILE | OFlags::RDWR)?;
    let (mut last, mut quick) = (changed(&trial)?, 0);
    for number in 0..TRIALS {
        let before = coarse_now();
        let mode = Mode::from_raw_mode(0o600 + number % 2);
        rustix::fs::fchmod(&trial, mode).map_err(errno)?;
        let now = changed(&trial)?;
        if now == last {
            return Ok(false);
        }
        last = now;
        quick += u32::from(coarse_now() == before);
    }
    // If each change waits for a disk, the clock ticks in between.
    Ok(quick > TRIALS / 2)
}

fn changed(file: impl AsFd) -> Result<Time> {
    stat(file).map(|stat| time(stat.stx_ctime))
}

#[cfg(test)]
mod tests {
    use server::vfs::SymlinkPolicy;

    use super::*;

    #[test]
    fn clocks_that_show_every_change_show_every_change() {
        let dir = tempfile::tempdir().expect("there is free space");
        let root = Root::open(dir.path(), SymlinkPolicy::NONE, None).expect("it exists");
        let clock = probe(&root);
        let soon = Time { secs: i64::MAX, nanos: 1 };
        assert!(!clock.shows_attributes(root.id.device + 1, soon), "another device was not probed");
        if clock.shows_attributes(root.id.device, soon) {
            let file = std::fs::File::create(dir.path().join("file")).expect("there is free space");
            let mut last = changed(&file).expect("it exists");
            for number in 0..1_000 {
                rustix::fs::fchmod(&file, Mode::from_raw_mode(0o600 + number % 2)).expect("the test owns the file");
                let now = changed(&file).expect("it exists");
                assert_ne!(now, last);
                last = now;
            }
        }
    }
}
