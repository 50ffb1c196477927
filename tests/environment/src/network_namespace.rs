//! Network namespaces whose servers are visible only to programs in them.

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use crate::server::{end_with_parent, run};

/// The first address of the loopback interface.
pub(crate) const FIRST: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
/// The second address of the loopback interface.
pub(crate) const SECOND: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);

/// A network namespace whose loopback interface has both addresses. An idle process holds it until it is dropped.
pub(crate) struct NetworkNamespace {
    child: Child,
    pub(crate) network: OwnedFd,
}

impl Drop for NetworkNamespace {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl NetworkNamespace {
    /// Creates the namespace, which needs root.
    pub(crate) fn start() -> Result<NetworkNamespace> {
        let mut command = Command::new("sleep");
        command.arg("infinity").stdin(Stdio::null()).stdout(Stdio::null());
        // SAFETY: between fork and exec the closure makes only system calls.
        unsafe {
            command.pre_exec(|| {
                end_with_parent()?;
                match libc::unshare(libc::CLONE_NEWNET) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            });
        }
        let child = command.spawn().context("cannot create a network namespace")?;
        let opened = File::open(format!("/proc/{}/ns/net", child.id()));
        let mut namespace =
            NetworkNamespace { network: opened.context("cannot open the network namespace")?.into(), child };
        let prepared = namespace.prepare();
        prepared.inspect_err(|_| _ = namespace.child.kill())?;
        Ok(namespace)
    }

    fn prepare(&self) -> Result<()> {
        for arguments in ["link set lo up", "addr add 10.99.0.1/32 dev lo", "addr add 10.99.0.2/32 dev lo"] {
            let mut ip = Command::new("ip");
            ip.args(arguments.split(' '));
            let network = self.network.as_raw_fd();
            // SAFETY: between fork and exec the closure makes one system call.
            unsafe { ip.pre_exec(move || move_to(network)) };
            run(&mut ip, "")?;
        }
        Ok(())
    }
}

/// Moves the calling thread to a network namespace.
pub(crate) fn move_to(network: libc::c_int) -> std::io::Result<()> {
    // SAFETY: setns takes two numbers.
    match unsafe { libc::setns(network, libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}
