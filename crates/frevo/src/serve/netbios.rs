//! The thread that opens the sockets of the NetBIOS name service, also for addresses that the host gets later. Only it
//! keeps the capability to use privileged ports, and it does nothing else. It ends when the requests end.

use anyhow::{Context, Result};
use discovery::netbios::Binder;

/// Starts the thread. Must be called by the thread that confined the process, before it gives up privileged ports.
pub(super) fn start() -> Result<Binder> {
    let (binder, mut requests) = Binder::new();
    std::thread::Builder::new()
        .name("frevo-netbios".into())
        .spawn(move || {
            localfs::identity::keep_ports();
            while let Some(request) = requests.blocking_recv() {
                request.perform();
            }
        })
        .context("cannot start a thread")?;
    Ok(binder)
}
