//! The sockets of a multicast protocol on one link.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::time::Instant;

use socket2::{Domain, InterfaceIndexOrAddress, Protocol, SockRef, Socket, Type};
use tokio::net::UdpSocket;

use crate::link::{Link, Network};

/// The properties of a multicast protocol.
pub(crate) struct Multicast {
    /// The groups of IPv4 and IPv6.
    pub(crate) groups: (Ipv4Addr, Ipv6Addr),
    /// The port.
    pub(crate) port: u16,
    /// Whether packets to the groups are received only, and not those to an address of this host.
    pub(crate) only_groups: bool,
    /// Hops of packets to the groups, and of others if the protocol specifies them.
    pub(crate) hops: (u32, Option<u32>),
    /// Whether other programs use the port too.
    pub(crate) sharing: Sharing,
}

/// How a port is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sharing {
    /// Other programs may use it.
    Shared,
    /// Another program that uses it is an error.
    Alone,
    /// It is any free port, from which queries to the groups are sent. What is sent to the groups is not received.
    Queries,
}

/// A socket for each version of IP that the link has. Packets of other interfaces do not reach them.
pub(crate) struct Sockets {
    v4: Option<UdpSocket>,
    v6: Option<UdpSocket>,
    groups: [SocketAddr; 2],
}

impl Sockets {
    pub(crate) fn open(link: &Link, protocol: &Multicast) -> io::Result<Sockets> {
        let (v4, v6) = protocol.groups;
        let groups = [(v4, protocol.port).into(), SocketAddrV6::new(v6, protocol.port, 0, link.index).into()];
        match (open(link, protocol, groups[0]), open(link, protocol, groups[1])) {
            (Err(error), Err(_)) => Err(error),
            (v4, v6) => Ok(Sockets { v4: v4.ok(), v6: v6.ok(), groups }),
        }
    }

    /// Receives a packet.
    pub(crate) async fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        loop {
            let socket = tokio::select! {
                ready = readable(self.v4.as_ref()) => ready?,
                ready = readable(self.v6.as_ref()) => ready?,
            };
            match socket.try_recv_from(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                received => return received,
            }
        }
    }

    /// Sends a packet to a host or a group of the link. It is lost, with an error, if the socket's buffer is full, for
    /// example because hosts that do not exist are looked for. Waiting would let one host stop all answers.
    pub(crate) fn send(&self, packet: &[u8], to: SocketAddr) -> io::Result<()> {
        let socket = if to.is_ipv4() { &self.v4 } else { &self.v6 };
        let Some(socket) = socket else { return Err(io::ErrorKind::AddrNotAvailable.into()) };
        SockRef::from(socket).send_to(packet, &to.into()).map(drop)
    }

    /// Returns the group of the version of IP of `own`.
    pub(crate) fn group(&self, own: IpAddr) -> SocketAddr {
        self.groups[usize::from(own.is_ipv6())]
    }

    /// Returns the groups of the versions of IP of these addresses. For others, the kernel would choose a sender's
    /// address of another link.
    pub(crate) fn groups(&self, own: &[Network]) -> impl Iterator<Item = SocketAddr> {
        let has = [false, true].map(|v6| own.iter().any(|network| network.address.is_ipv6() == v6));
        self.groups.into_iter().zip(has).filter_map(|(group, has)| has.then_some(group))
    }
}

/// Waits until a time; never returns without one.
pub(crate) async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}

/// Returns the address from which the kernel sends packets to a host of a link.
pub(crate) fn source(link: &Link, to: SocketAddr) -> Option<IpAddr> {
    let socket = Socket::new(Domain::for_address(to), Type::DGRAM.cloexec(), Some(Protocol::UDP)).ok()?;
    socket.bind_device(Some(link.name.as_bytes())).ok()?;
    // Nothing is sent.
    socket.connect(&to.into()).ok()?;
    Some(socket.local_addr().ok()?.as_socket()?.ip().to_canonical())
}

/// Waits for a packet; never returns without a socket.
async fn readable(socket: Option<&UdpSocket>) -> io::Result<&UdpSocket> {
    match socket {
        Some(socket) => socket.readable().await.map(|()| socket),
        None => std::future::pending().await,
    }
}

fn open(link: &Link, protocol: &Multicast, group: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(group), Type::DGRAM.nonblocking().cloexec(), Some(Protocol::UDP))?;
    if protocol.sharing == Sharing::Shared {
        socket.set_reuse_address(true)?;
        // Another program's responder may have set one of the two, and the kernel requires that all have.
        socket.set_reuse_port(true)?;
    }
    let is_member = protocol.sharing != Sharing::Queries;
    socket.bind_device(Some(link.name.as_bytes()))?;
    let (to_group, to_host) = protocol.hops;
    match group {
        SocketAddr::V4(group) => {
            let bound = if protocol.only_groups && is_member { *group.ip() } else { Ipv4Addr::UNSPECIFIED };
            let port = if is_member { group.port() } else { 0 };
            socket.bind(&SocketAddr::from((bound, port)).into())?;
            if is_member {
                socket.join_multicast_v4_n(group.ip(), &InterfaceIndexOrAddress::Index(link.index))?;
            }
            socket.set_multicast_ttl_v4(to_group)?;
            to_host.map_or(Ok(()), |hops| socket.set_ttl_v4(hops))?;
        }
        SocketAddr::V6(group) => {
            socket.set_only_v6(true)?;
            let bound = if protocol.only_groups && is_member { *group.ip() } else { Ipv6Addr::UNSPECIFIED };
            let port = if is_member { group.port() } else { 0 };
            socket.bind(&SocketAddrV6::new(bound, port, 0, group.scope_id()).into())?;
            if is_member {
                socket.join_multicast_v6(group.ip(), link.index)?;
            }
            socket.set_multicast_if_v6(link.index)?;
            socket.set_multicast_hops_v6(to_group)?;
            to_host.map_or(Ok(()), |hops| socket.set_unicast_hops_v6(hops))?;
        }
    }
    UdpSocket::from_std(socket.into())
}
