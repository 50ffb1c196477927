//! Calls that change extended attributes, apart in time where the library would crash.
//!
//! After cluster/distribute of GlusterFS 10.3 has sent the change of a directory's attribute, it reads which call that
//! was from a record that is freed as soon as the bricks have answered (`dht_xattrop_mds_cbk`; gluster/glusterfs issue
//! 3732, corrected by pull request 4242). If the record belongs to another call by then, and that one sets an attribute
//! of an open file or removes one, a change is sent to a brick that the record does not have, and the process ends. A
//! call that sets an attribute of a file that need not be open is harmless.
//!
//! So calls of the dangerous kinds are rare, and none begins soon after a directory's attribute was set.

use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};

/// How long a thread of the library may have been interrupted between two instructions.
const QUIET: Duration = Duration::from_millis(50);
/// How long a call waits for that at most. Calls that have begun may end meanwhile, and a brick may hang.
const LONGEST: Duration = Duration::from_millis(200);

/// The calls of one connection.
#[derive(Default)]
pub(super) struct AttributeCalls {
    /// Held to write while a call waits, so that no further ones begin that it would have to wait for.
    gate: RwLock<()>,
    /// When the last attribute of a directory was set.
    set: Mutex<Option<Instant>>,
}

impl AttributeCalls {
    /// Makes a call that sets an attribute of a directory.
    pub(super) fn of_directory<T>(&self, call: impl FnOnce() -> T) -> T {
        drop(self.gate.read());
        let done = call();
        *self.set.lock() = Some(Instant::now());
        done
    }

    /// Makes a call that sets an attribute of an open file or removes one.
    pub(super) fn apart<T>(&self, call: impl FnOnce() -> T) -> T {
        {
            let _gate = self.gate.write();
            let limit = Instant::now() + LONGEST;
            while let Some(rest) = self.rest().filter(|_| Instant::now() < limit) {
                thread::sleep(rest);
            }
        }
        call()
    }

    /// Returns the rest of the time after the last attribute of a directory was set.
    fn rest(&self) -> Option<Duration> {
        let set = (*self.set.lock())?;
        QUIET.checked_sub(set.elapsed()).filter(|rest| !rest.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_removal_waits_until_no_attribute_of_a_directory_was_set_lately() {
        let calls = AttributeCalls::default();
        calls.of_directory(|| ());
        let set = calls.set.lock().expect("an attribute was set");
        assert!(calls.apart(|| set.elapsed()) >= QUIET);
        assert!(calls.rest().is_none());
    }

    #[test]
    fn attributes_of_directories_that_are_set_all_the_time_do_not_delay_it_for_long() {
        let (calls, stop) = (AttributeCalls::default(), AtomicBool::new(false));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        calls.of_directory(|| thread::sleep(Duration::from_millis(1)));
                    }
                });
            }
            for _ in 0..3 {
                calls.apart(|| ());
            }
            stop.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn one_that_hangs_delays_no_removal() {
        let (calls, (sender, receiver)) = (AttributeCalls::default(), std::sync::mpsc::channel::<()>());
        thread::scope(|scope| {
            scope.spawn(|| calls.of_directory(move || receiver.recv()));
            calls.apart(|| ());
            drop(sender);
        });
    }
}
