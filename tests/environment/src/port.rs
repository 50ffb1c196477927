//! Ports for servers that cannot bind any free port and report it, or that keep their port when they restart.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt};

/// A port that the kernel gives to no other program that asks for any port, until this value is dropped.
///
/// A socket is bound to it and does not listen, so connections are refused. A server can bind the port all the same,
/// because servers set `SO_REUSEADDR`, as this socket does.
#[derive(Debug)]
pub struct ReservedPort {
    number: u16,
    /// One for TCP, and with [`ReservedPort::tcp_and_udp`] one for UDP.
    sockets: Vec<OwnedFd>,
}

impl ReservedPort {
    /// Reserves any free port.
    pub fn any() -> Result<ReservedPort> {
        ReservedPort::numbered(0)
    }

    /// Reserves any port that is free for UDP too.
    pub fn tcp_and_udp() -> Result<ReservedPort> {
        loop {
            let mut port = ReservedPort::any()?;
            match reserve(SocketType::DGRAM, port.number) {
                Ok((_, socket)) => {
                    port.sockets.push(socket);
                    return Ok(port);
                }
                Err(Errno::ADDRINUSE) => {}
                Err(error) => return Err(error).context("cannot reserve a UDP port"),
            }
        }
    }

    /// Reserves the port with this number; 0 is any.
    pub fn numbered(number: u16) -> Result<ReservedPort> {
        let (number, socket) =
            reserve(SocketType::STREAM, number).with_context(|| format!("cannot reserve port {number}"))?;
        Ok(ReservedPort { number, sockets: vec![socket] })
    }

    /// Returns the port's number.
    pub fn number(&self) -> u16 {
        self.number
    }
}

/// Binds a socket on all IPv4 addresses, to any port if `number` is 0. Returns the port and the socket.
fn reserve(kind: SocketType, number: u16) -> Result<(u16, OwnedFd), Errno> {
    let socket = socket_with(AddressFamily::INET, kind, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, number))?;
    let address = SocketAddrV4::try_from(getsockname(&socket)?)?;
    Ok((address.port(), socket))
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn only_a_server_can_use_a_reserved_port() {
        let port = ReservedPort::any().unwrap();
        let address = (Ipv4Addr::LOCALHOST, port.number());
        for _ in 0..2 {
            assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
            // The standard library sets SO_REUSEADDR.
            let server = TcpListener::bind(address).unwrap();
            TcpStream::connect(address).unwrap();
            drop(server);
        }
        let others: Vec<_> = (0..500).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).collect();
        assert!(others.iter().all(|other| other.local_addr().unwrap().port() != port.number()));
    }

    #[test]
    fn a_port_that_is_used_cannot_be_reserved() {
        let used = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(ReservedPort::numbered(used.local_addr().unwrap().port()).is_err());
    }
}
