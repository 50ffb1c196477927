//! Ctrl-C and SIGTERM: the signal only sets a flag; loops look at it and return an error, so that every server is taken
//! down on the ordinary way out.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_signal: libc::c_int) {
    INTERRUPTED.store(true, Ordering::SeqCst);
}

/// From here on SIGINT and SIGTERM are noted instead of ending this process.
pub fn watch() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only stores to an atomic, which is async-signal-safe.
        unsafe { libc::signal(signal, note as extern "C" fn(libc::c_int) as libc::sighandler_t) };
    }
}

/// Whether SIGINT or SIGTERM came.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// An error when SIGINT or SIGTERM came.
pub fn check() -> Result<()> {
    anyhow::ensure!(!interrupted(), "interrupted");
    Ok(())
}
