//! The listening sockets, and the check of which clients may connect.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::net::sockopt;
use server::state::connection::{Connection, Peer};
use server::state::{Server, TooMany};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::driver;
use crate::event_loops::EventLoops;
use crate::input::Inputs;
use smbconf::SocketOption;

/// Maximum number of connections that the kernel queues before they are accepted.
const BACKLOG: u32 = 1024;
/// Delay before accepting again when no file descriptors are left.
const EXHAUSTED: Duration = Duration::from_millis(100);

/// The socket settings of the configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transport {
    /// `socket options`.
    pub(crate) socket_options: Vec<SocketOption>,
    /// `keepalive`.
    pub(crate) keepalive: Option<Duration>,
}

impl Transport {
    /// Sets the options on a socket before it listens. Linux copies them to each accepted connection, which saves
    /// system calls per connection. An option that the kernel refuses is logged and skipped.
    pub(crate) fn apply(&self, socket: &impl AsFd) {
        // Responses are whole frames, so waiting for more data would only delay them.
        if let Err(error) = sockopt::set_tcp_nodelay(socket, true) {
            tracing::warn!(%error, "cannot set TCP_NODELAY");
        }
        for option in &self.socket_options {
            if let Err(error) = set_option(socket, option) {
                tracing::warn!(option = option.name, value = option.value, %error, "cannot set a socket option");
            }
        }
        if let Some(silence) = self.keepalive {
            let set = sockopt::set_socket_keepalive(socket, true)
                .and_then(|()| sockopt::set_tcp_keepidle(socket, silence))
                .and_then(|()| sockopt::set_tcp_keepintvl(socket, silence.min(Duration::from_secs(60))));
            if let Err(error) = set {
                tracing::warn!(%error, "cannot set keepalive");
            }
        }
    }
}

fn set_option(socket: &impl AsFd, option: &SocketOption) -> io::Result<()> {
    let on = option.value != 0;
    let bytes = usize::try_from(option.value).unwrap_or(0);
    match option.name {
        "SO_KEEPALIVE" => sockopt::set_socket_keepalive(socket, on)?,
        "SO_BROADCAST" => sockopt::set_socket_broadcast(socket, on)?,
        "TCP_NODELAY" => sockopt::set_tcp_nodelay(socket, on)?,
        "SO_SNDBUF" => sockopt::set_socket_send_buffer_size(socket, bytes)?,
        "SO_RCVBUF" => sockopt::set_socket_recv_buffer_size(socket, bytes)?,
        "IPTOS_LOWDELAY" if on => sockopt::set_ip_tos(socket, 0x10)?,
        "IPTOS_THROUGHPUT" if on => sockopt::set_ip_tos(socket, 0x08)?,
        // The other options have no effect on TCP connections on Linux.
        _ => {}
    }
    Ok(())
}

/// Binds `addresses`. All must succeed, because a partly reachable server would be noticed too late.
pub(crate) fn bind(addresses: &[SocketAddr], transport: &Transport) -> Result<Vec<TcpListener>> {
    addresses.iter().map(|&address| bind_one(address, transport).with_context(|| explain(address))).collect()
}

/// Binds one address. Must be called in the context of a runtime.
pub(crate) fn bind_one(address: SocketAddr, transport: &Transport) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    if address.is_ipv6() {
        // IPv4 has its own socket.
        rustix::net::sockopt::set_ipv6_v6only(&socket, true)?;
    }
    transport.apply(&socket);
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Uses sockets that the service manager has bound and that listen already.
pub(crate) fn adopt(sockets: Vec<std::net::TcpListener>, transport: &Transport) -> Result<Vec<TcpListener>> {
    let adopt_one = |socket| {
        transport.apply(&socket);
        TcpListener::from_std(socket).context("cannot use a socket of the service manager")
    };
    sockets.into_iter().map(adopt_one).collect()
}

pub(crate) fn explain(address: SocketAddr) -> String {
    let port = address.port();
    if port < 1024 {
        format!(
            "cannot listen on {address}: ports below 1024 require root (or CAP_NET_BIND_SERVICE), and no other server \
             may use the port; choose another port with --port or `smb ports`"
        )
    } else {
        format!("cannot listen on {address}; choose another port with --port or `smb ports`")
    }
}

/// A change of the sockets on which the server listens.
#[derive(Debug)]
pub(crate) enum Change {
    /// Accept connections on this socket too.
    Add(TcpListener),
    /// Close the socket with this address. Its connections stay.
    Remove(SocketAddr),
}

/// Accepts connections until `stop` becomes true, then waits until the last one is closed.
pub(crate) async fn accept(
    listeners: Vec<TcpListener>,
    mut changes: mpsc::Receiver<Change>,
    server: Arc<Server>,
    inputs: Arc<Inputs>,
    loops: EventLoops,
    dead_time: Option<Duration>,
    mut stop: watch::Receiver<bool>,
) {
    let mut accepting = JoinSet::new();
    let mut listening = HashMap::new();
    let stopping = stop.clone();
    let add = |listener: TcpListener, accepting: &mut JoinSet<()>| {
        let (open, closed) = oneshot::channel::<Infallible>();
        let address = listener.local_addr().ok();
        let accept =
            accept_on(listener, server.clone(), inputs.clone(), loops.clone(), dead_time, stopping.clone(), closed);
        accepting.spawn(accept);
        (address, open)
    };
    listening.extend(listeners.into_iter().map(|listener| add(listener, &mut accepting)));
    loop {
        tokio::select! {
            Some(change) = changes.recv() => match change {
                Change::Add(listener) => listening.extend([add(listener, &mut accepting)]),
                Change::Remove(address) => drop(listening.remove(&Some(address))),
            },
            // A socket that was removed, and its last connection.
            Some(_) = accepting.join_next(), if !accepting.is_empty() => {}
            () = driver::stopped(&mut stop) => break,
        }
    }
    while accepting.join_next().await.is_some() {}
}

async fn accept_on(
    listener: TcpListener,
    server: Arc<Server>,
    inputs: Arc<Inputs>,
    loops: EventLoops,
    dead_time: Option<Duration>,
    mut stop: watch::Receiver<bool>,
    mut closed: oneshot::Receiver<Infallible>,
) {
    // If the listener has a specific address, all its connections have it too, and the kernel need not be queried.
    let bound = listener.local_addr().ok().filter(|address| !address.ip().is_unspecified());
    let mut connections = JoinSet::new();
    let mut spare = Spare::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            () = driver::stopped(&mut stop) => break,
            _ = &mut closed => break,
        };
        match accepted {
            Ok((stream, remote)) => {
                if let Some(connection) = admit(&server, &stream, remote, bound) {
                    let (inputs, stop) = (inputs.clone(), stop.clone());
                    let place = loops.place(remote.ip().to_canonical());
                    let handle = place.handle().clone();
                    let serve = async move {
                        if is_permitted_by_name(&connection).await {
                            match place.adopt(stream) {
                                Ok(stream) => driver::drive(stream, connection, inputs, place, dead_time, stop).await,
                                Err(error) => tracing::warn!(%error, "cannot serve a connection"),
                            }
                        }
                    };
                    connections.spawn_on(serve, &handle);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                if spare.refuse_one(&listener).await.is_err() {
                    tokio::time::sleep(EXHAUSTED).await;
                }
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// A reserved file descriptor, used to refuse clients when no other is left. They are disconnected immediately instead
/// of waiting in the queue of an apparently dead server.
struct Spare(Option<std::fs::File>);

impl Spare {
    fn new() -> Spare {
        Spare(std::fs::File::open("/dev/null").ok())
    }

    /// Accepts one connection and closes it. The error is that of this second attempt.
    async fn refuse_one(&mut self, listener: &TcpListener) -> io::Result<()> {
        drop(self.0.take());
        let accepted = tokio::time::timeout(EXHAUSTED, listener.accept()).await;
        let refused = accepted.map_or(Ok(()), |accepted| accepted.map(drop));
        *self = Spare::new();
        refused
    }
}

/// Applies the limits and `hosts allow`, `hosts deny`. Refused clients are disconnected without a message. `bound` is
/// the connection's local address, if already known.
fn admit(
    server: &Arc<Server>,
    stream: &TcpStream,
    remote: SocketAddr,
    bound: Option<SocketAddr>,
) -> Option<Arc<Connection>> {
    let remote = canonical(remote);
    let address: IpAddr = remote.ip();
    let policy = server.policy();
    if !policy.hosts.has_names() && !policy.hosts.permits(address) {
        tracing::info!(%remote, "{REFUSED}");
        return None;
    }
    if let Err(TooMany { limit, from }) = server.admit(address) {
        let source = from.map_or(String::new(), |from| format!(" from {from}"));
        tracing::warn!(%remote, limit, "refused: too many connections{source}");
        return None;
    }
    let local = canonical(bound.or_else(|| stream.local_addr().ok())?);
    Some(Connection::new(server, Peer { remote, local }))
}

const REFUSED: &str = "refused because of hosts allow or hosts deny";

/// Returns whether the client may connect, by the names in `hosts allow` and `hosts deny` if there are any. The
/// connection counts while they are resolved.
async fn is_permitted_by_name(connection: &Connection) -> bool {
    let policy = connection.server.policy().clone();
    let remote = connection.peer.remote;
    let permitted = !policy.hosts.has_names() || policy.permits(&policy.hosts, remote.ip()).await;
    if !permitted {
        tracing::info!(%remote, "{REFUSED}");
    }
    permitted
}

/// Returns the IPv4 address that an IPv6 socket shows as `::ffff:192.0.2.1`. Sockets of the service manager may be open
/// to both families.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_accepted_connection_has_the_options_of_its_listener() {
        let silence = Duration::from_secs(77);
        let option = SocketOption { name: "SO_SNDBUF", value: 50_000 };
        let transport = Transport { socket_options: vec![option], keepalive: Some(silence) };
        let listeners = bind(&["127.0.0.1:0".parse().unwrap()], &transport).unwrap();
        let client = TcpStream::connect(listeners[0].local_addr().unwrap());
        let (client, accepted) = tokio::join!(client, listeners[0].accept());
        client.unwrap();
        let (stream, _) = accepted.unwrap();
        assert!(stream.nodelay().unwrap());
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&stream).unwrap(), silence);
        assert_eq!(sockopt::tcp_keepintvl(&stream).unwrap(), Duration::from_secs(60));
        // The kernel doubles the requested size to allow for its own overhead.
        assert_eq!(sockopt::socket_send_buffer_size(&stream).unwrap(), 100_000);
    }
}
