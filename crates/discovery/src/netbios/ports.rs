//! Sockets of the name service, which a thread with the privilege for its port binds.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::sync::{mpsc, oneshot};

use super::PORT;
use crate::link::Link;

/// Requests that wait. Each link has one at a time.
const MAX_WAITING: usize = 64;

/// Asks a thread that may use the port to bind sockets.
#[derive(Clone, Debug)]
pub struct Binder(mpsc::Sender<BindRequest>);

/// A request for a socket on a link with an address and the port of the name service.
#[derive(Debug)]
pub struct BindRequest {
    link: Link,
    address: Ipv4Addr,
    reply: oneshot::Sender<io::Result<UdpSocket>>,
}

impl Binder {
    /// Creates the value, and the receiver of the requests that the thread must perform.
    pub fn new() -> (Binder, mpsc::Receiver<BindRequest>) {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        (Binder(sender), receiver)
    }

    pub(crate) async fn bind(&self, link: &Link, address: Ipv4Addr) -> io::Result<tokio::net::UdpSocket> {
        let gone = || io::Error::other("the thread that opens sockets has ended");
        let (reply, answer) = oneshot::channel();
        let request = BindRequest { link: link.clone(), address, reply };
        self.0.send(request).await.map_err(|_| gone())?;
        tokio::net::UdpSocket::from_std(answer.await.map_err(|_| gone())??)
    }
}

impl BindRequest {
    /// Binds the socket.
    pub fn perform(self) {
        // The task that asked may have ended.
        let _ = self.reply.send(bind(&self.link, self.address));
    }
}

/// Binds a socket that packets of other interfaces do not reach. The port is not shared, so that nmbd is noticed.
fn bind(link: &Link, address: Ipv4Addr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM.nonblocking().cloexec(), Some(Protocol::UDP))?;
    socket.bind_device(Some(link.name.as_bytes()))?;
    socket.set_broadcast(true)?;
    // Only neighbours are answered.
    socket.set_ttl_v4(1)?;
    socket.bind(&std::net::SocketAddr::from((address, PORT)).into())?;
    Ok(socket.into())
}
