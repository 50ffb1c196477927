//! Ctrl-C and SIGTERM. The signal only sets a flag. Loops check it and return an error, so that every server is stopped
//! in the ordinary way.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_signal: libc::c_int) {
    INTERRUPTED.store(true, Ordering::SeqCst);
}

/// Makes SIGINT and SIGTERM set the flag instead of ending this process.
pub fn watch() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only stores to an atomic, which is async-signal-safe.
        unsafe { libc::signal(signal, note as extern "C" fn(libc::c_int) as libc::sighandler_t) };
    }
}

/// Returns whether SIGINT or SIGTERM was received.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// Fails if SIGINT or SIGTERM was received.
pub fn check() -> Result<()> {
    anyhow::ensure!(!interrupted(), "interrupted");
    Ok(())
}
