//! Reports of the kernel that interfaces or their addresses have changed.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, socket_with};

/// Changes come in groups, and interfaces are listed once for all changes in this time.
pub(super) const SETTLE: Duration = Duration::from_millis(200);
/// The maximum number of notifications that are read at a time. Each of them only says that something has changed.
const MAX_READ: usize = 256;
/// The kernel's groups of notifications: links, and addresses of IPv4 and IPv6 (RTMGRP_LINK, RTMGRP_IPV4_IFADDR,
/// RTMGRP_IPV6_IFADDR).
const GROUPS: u32 = 0x1 | 0x10 | 0x100;

/// Opens a socket on which the kernel reports changes of interfaces and addresses.
pub(super) fn open() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // Without a protocol, it is NETLINK_ROUTE.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, GROUPS))?;
    Ok(socket)
}

/// Reads the notifications that have arrived.
pub(super) fn read(socket: impl AsFd) {
    for _ in 0..MAX_READ {
        // Their content does not matter, nor whether the kernel had to drop some (ENOBUFS).
        let received = rustix::net::recv(&socket, &mut [0; 64][..], RecvFlags::DONTWAIT | RecvFlags::TRUNC);
        if matches!(received, Err(rustix::io::Errno::AGAIN)) {
            break;
        }
    }
}
