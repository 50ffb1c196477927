//! Listening sockets that the service manager passes to the server.

use std::net::TcpListener;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail, ensure};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketType, sockopt};

/// The first descriptor that is passed, SD_LISTEN_FDS_START.
const FIRST: RawFd = 3;
/// The maximum number of sockets that are accepted, against a variable with a wrong value.
const MOST: RawFd = 1024;

/// Takes the listening TCP sockets that were passed to this process. Must be called at most once.
///
/// # Errors
/// If the variables are invalid, or a descriptor is not a listening TCP socket.
pub fn inherited() -> Result<Vec<TcpListener>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let variable = |name| std::env::var(name).ok();
    let Some(count) = passed(variable("LISTEN_PID"), variable("LISTEN_FDS"), std::process::id())? else {
        return Ok(Vec::new());
    };
    ensure!(!TAKEN.swap(true, Ordering::Relaxed), "the sockets of the service manager are already in use");
    (FIRST..FIRST + count).map(|number| listener(number).context("socket activation")).collect()
}

/// Returns the number of descriptors that were passed to the process `own`; `None` if there are none.
pub(super) fn passed(process: Option<String>, count: Option<String>, own: u32) -> Result<Option<RawFd>> {
    let (Some(process), Some(count)) = (process, count) else { return Ok(None) };
    // The variables were inherited from a process for which they were meant.
    if process != own.to_string() {
        return Ok(None);
    }
    match count.parse() {
        Ok(0) => Ok(None),
        Ok(count @ 1..=MOST) => Ok(Some(count)),
        _ => bail!("LISTEN_FDS is {count:?}, which is not a number from 0 to {MOST}; correct the socket unit"),
    }
}

fn listener(number: RawFd) -> Result<TcpListener> {
    // SAFETY: F_GETFD only looks at the number.
    let is_open = unsafe { libc::fcntl(number, libc::F_GETFD) } != -1;
    ensure!(is_open, "descriptor {number} is not open; correct the socket unit");
    // SAFETY: the descriptor is open, and was passed for this purpose. Descriptors are taken only once.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
    let family = sockopt::socket_domain(&socket).with_context(|| format!("descriptor {number} is not a socket"))?;
    let is_tcp = [AddressFamily::INET, AddressFamily::INET6].contains(&family)
        && sockopt::socket_type(&socket)? == SocketType::STREAM
        && sockopt::socket_acceptconn(&socket)?;
    ensure!(
        is_tcp,
        "descriptor {number} is not a listening TCP socket; use ListenStream= with an address and Accept=no"
    );
    let listener = TcpListener::from(socket);
    listener.set_nonblocking(true)?;
    Ok(listener)
}
