//! The listening sockets, and who may connect to them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use server::conn::{Connection, Peer};
use server::server::Server;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::driver;

/// Connections that the kernel holds before they are accepted.
const BACKLOG: u32 = 1024;
/// How long to wait before accepting again when descriptors have run out.
const EXHAUSTED: Duration = Duration::from_millis(100);

/// Binds `addresses`. All must succeed: half a server would be found out too late.
pub(crate) fn bind(addresses: &[SocketAddr]) -> Result<Vec<TcpListener>> {
    addresses.iter().map(|&address| bind_one(address).with_context(|| explain(address))).collect()
}

fn bind_one(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    if address.is_ipv6() {
        // IPv4 has a socket of its own.
        rustix::net::sockopt::set_ipv6_v6only(&socket, true)?;
    }
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn explain(address: SocketAddr) -> String {
    let port = address.port();
    if port < 1024 {
        format!(
            "cannot listen on {address}: ports below 1024 need root (or CAP_NET_BIND_SERVICE), and no other server may \
             use the port; choose another with --port or `smb ports`"
        )
    } else {
        format!("cannot listen on {address}; choose another port with --port or `smb ports`")
    }
}

/// Accepts connections until `stop` becomes true, then waits until the last one is closed.
pub(crate) async fn accept(listeners: Vec<TcpListener>, server: Arc<Server>, stop: watch::Receiver<bool>) {
    let open = Arc::new(AtomicUsize::new(0));
    let mut accepting = JoinSet::new();
    for listener in listeners {
        accepting.spawn(accept_on(listener, server.clone(), stop.clone(), open.clone()));
    }
    while accepting.join_next().await.is_some() {}
}

async fn accept_on(
    listener: TcpListener,
    server: Arc<Server>,
    mut stop: watch::Receiver<bool>,
    open: Arc<AtomicUsize>,
) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            () = driver::stopped(&mut stop) => break,
        };
        match accepted {
            Ok((stream, remote)) => {
                if let Some(connection) = admit(&server, &stream, remote, open.load(Ordering::Relaxed)) {
                    open.fetch_add(1, Ordering::Relaxed);
                    let (stop, open) = (stop.clone(), open.clone());
                    connections.spawn(async move {
                        driver::drive(stream, connection, stop).await;
                        open.fetch_sub(1, Ordering::Relaxed);
                    });
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(EXHAUSTED).await;
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Applies the limits and `hosts allow`, `hosts deny`; refused clients are disconnected without a word.
fn admit(server: &Arc<Server>, stream: &TcpStream, remote: SocketAddr, open: usize) -> Option<Arc<Connection>> {
    let policy = server.policy();
    let limits = &policy.limits;
    if open >= limits.connections {
        tracing::warn!(%remote, limit = limits.connections, "refused: too many connections");
        return None;
    }
    let address: IpAddr = remote.ip();
    if !policy.hosts.permits(address) {
        tracing::info!(%remote, "refused: hosts allow, hosts deny");
        return None;
    }
    if limits.connections_per_address < limits.connections
        && server.connection_count(address).1 >= limits.connections_per_address
    {
        tracing::warn!(%remote, limit = limits.connections_per_address, "refused: too many connections from there");
        return None;
    }
    let local = stream.local_addr().ok()?;
    // Answers are whole frames: waiting for more to send would only delay them.
    stream.set_nodelay(true).ok()?;
    Some(Connection::new(server, Peer { remote, local }))
}
