//! The task that answers on one link.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::host::Host;
use super::http::MAX_REQUEST_SIZE;
use super::message::MAX_DATAGRAM_SIZE;
use super::responder::{Datagram, Responder, Transmission};
use super::{HTTP_PORT, MULTICAST_V4, MULTICAST_V6, UDP_PORT};
use crate::link::{Addresses, Link};
use crate::socket::{Multicast, Sharing, Sockets, until};

const PROTOCOL: Multicast = Multicast {
    groups: (MULTICAST_V4, MULTICAST_V6),
    port: UDP_PORT,
    only_groups: true,
    // SOAP-over-UDP, "Multicast": packets stay on the link.
    hops: (1, None),
    sharing: Sharing::Shared,
};
/// Datagrams that wait for their time. Others are dropped while there are so many.
const MAX_WAITING: usize = 256;
/// Connections at a time, those of one client, those that the kernel queues, and the time and the reads of each.
const MAX_CONNECTIONS: usize = 16;
const MAX_CONNECTIONS_OF_CLIENT: usize = 4;
const MAX_READS: usize = 64;
const BACKLOG: i32 = 16;
const CONNECTION_TIME: Duration = Duration::from_secs(5);
/// When to try again to listen on an address, such as one of IPv6 that is still being checked for duplicates.
const RETRY: Duration = Duration::from_secs(2);
/// How long no packet is read after an error, such as that the interface is down.
const AFTER_ERROR: Duration = Duration::from_secs(1);
/// The time within which the announcement that the server leaves is repeated.
const GOODBYE_TIME: Duration = Duration::from_millis(300);

/// Answers for the host on a link until the sender of `addresses` is dropped. Then it says goodbye.
///
/// The `instance_id` must be larger than at the last start, such as the seconds since 1970.
///
/// # Errors
///
/// No socket could be opened for datagrams.
pub async fn serve(
    link: Link,
    host: Host,
    instance_id: u32,
    mut addresses: watch::Receiver<Addresses>,
) -> io::Result<()> {
    let mut listeners = Listeners::default();
    let mut known = addresses.borrow_and_update().clone();
    listeners.update(&link, &known);
    let sockets = Sockets::open(&link, &PROTOCOL)?;
    let responder = Arc::new(Mutex::new(Responder::new(host, instance_id)));
    let mut waiting = Waiting::default();
    let mut greeted = Vec::new();
    let (mut connections, mut clients) = (JoinSet::new(), BTreeMap::new());
    let (mut pause, mut again) = (None, Instant::now() + RETRY);
    let mut buffer = vec![0; MAX_DATAGRAM_SIZE + 1];
    loop {
        let usable = listeners.usable(&known);
        let now = announced(&usable);
        for own in now.iter().filter(|own| !greeted.contains(*own)) {
            waiting.add(sockets.group(*own), lock(&responder).hello(*own, random()?));
        }
        greeted = now;
        tokio::select! {
            () = waiting.due() => {}
            () = until(pause), if pause.is_some() => pause = None,
            received = sockets.receive(&mut buffer), if pause.is_none() => match received {
                Ok((length, from)) if known.is_neighbour(from.ip()) => {
                    let bytes = buffer.get(..length).unwrap_or_default();
                    if let Some(own) = usable.for_client(from.ip()) {
                        let datagram = Datagram { own, from, bytes };
                        let reply = lock(&responder).on_datagram(Instant::now(), &datagram, random()?);
                        if let Some(reply) = reply {
                            waiting.add(reply.to, reply.transmission);
                        }
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(link = link.name, %error, "cannot receive WS-Discovery");
                    pause = Some(Instant::now() + AFTER_ERROR);
                }
            },
            accepted = listeners.accept(), if pause.is_none() && connections.len() < MAX_CONNECTIONS => match accepted {
                Ok((stream, from)) => {
                    let from = from.ip().to_canonical();
                    let of_client = clients.entry(from).or_insert(0_usize);
                    if known.is_neighbour(from) && *of_client < MAX_CONNECTIONS_OF_CLIENT {
                        *of_client += 1;
                        let answered = tokio::time::timeout(CONNECTION_TIME, answer(stream, responder.clone()));
                        connections.spawn(async move {
                            let _ = answered.await;
                            from
                        });
                    }
                }
                Err(error) => {
                    tracing::debug!(link = link.name, %error, "cannot accept a connection for metadata");
                    pause = Some(Instant::now() + AFTER_ERROR);
                }
            },
            Some(ended) = connections.join_next(), if !connections.is_empty() => {
                if let Ok(from) = ended {
                    clients.entry(from).and_modify(|count| *count = count.saturating_sub(1));
                }
                clients.retain(|_, count| *count > 0);
            }
            () = until(Some(again)), if listeners.incomplete => {
                listeners.update(&link, &known);
                again = Instant::now() + RETRY;
            }
            changed = addresses.changed() => {
                if changed.is_err() {
                    break;
                }
                known = addresses.borrow_and_update().clone();
                listeners.update(&link, &known);
                again = Instant::now() + RETRY;
            }
        }
        for (bytes, to) in waiting.take(Instant::now()) {
            send(&sockets, &link, &bytes, to);
        }
    }
    // Another task may serve the link in a moment.
    drop(listeners);
    connections.abort_all();
    let farewell = lock(&responder).bye(random()?);
    let started = Instant::now();
    for delay in farewell.delays.iter().filter(|delay| **delay <= GOODBYE_TIME) {
        until(Some(started + *delay)).await;
        for to in sockets.groups(&known.served) {
            send(&sockets, &link, &farewell.bytes, to);
        }
    }
    Ok(())
}

/// Returns the addresses that are announced: one for each version of IP, because a host has one transport address for
/// each client.
fn announced(addresses: &Addresses) -> Vec<IpAddr> {
    let of = |v6| addresses.served.iter().map(|network| network.address).find(|address| address.is_ipv6() == v6);
    of(false).into_iter().chain(of(true)).collect()
}

fn send(sockets: &Sockets, link: &Link, bytes: &[u8], to: SocketAddr) {
    if let Err(error) = sockets.send(bytes, to) {
        tracing::debug!(link = link.name, %to, %error, "cannot send WS-Discovery");
    }
}

/// Answers one request. The caller limits the time.
async fn answer(mut stream: TcpStream, responder: Arc<Mutex<Responder>>) -> io::Result<()> {
    let own = stream.local_addr()?.ip();
    let mut received = Vec::new();
    for _ in 0..MAX_READS {
        let rest = (MAX_REQUEST_SIZE + 1).saturating_sub(received.len());
        if (&mut stream).take(rest as u64).read_buf(&mut received).await? == 0 {
            return Ok(());
        }
        let response = lock(&responder).on_http(own, &received, random()?);
        if let Some(response) = response {
            stream.write_all(&response).await?;
            return stream.shutdown().await;
        }
    }
    Ok(())
}

fn lock(responder: &Mutex<Responder>) -> std::sync::MutexGuard<'_, Responder> {
    responder.lock().unwrap_or_else(PoisonError::into_inner)
}

fn random() -> io::Result<u128> {
    let mut bytes = [0; 16];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| io::Error::other("the random number generator failed"))?;
    Ok(u128::from_ne_bytes(bytes))
}

/// Datagrams that are sent later, by time.
#[derive(Default)]
struct Waiting {
    datagrams: BTreeMap<(Instant, u64), Outgoing>,
    number: u64,
}

type Outgoing = (Arc<[u8]>, SocketAddr);

impl Waiting {
    fn add(&mut self, to: SocketAddr, transmission: Transmission) {
        let (bytes, now) = (Arc::from(transmission.bytes), Instant::now());
        for delay in transmission.delays {
            if self.datagrams.len() < MAX_WAITING {
                self.number += 1;
                self.datagrams.insert((now + delay, self.number), (Arc::clone(&bytes), to));
            }
        }
    }

    /// Waits until a datagram is due; never returns if no datagram waits.
    async fn due(&self) {
        until(self.datagrams.first_key_value().map(|((when, _), _)| *when)).await
    }

    /// Returns those that are due.
    fn take(&mut self, now: Instant) -> Vec<Outgoing> {
        let later = self.datagrams.split_off(&(now, u64::MAX));
        std::mem::replace(&mut self.datagrams, later).into_values().collect()
    }
}

/// The sockets of the metadata, one for each address.
#[derive(Default)]
struct Listeners {
    sockets: BTreeMap<IpAddr, TcpListener>,
    /// Those on which it cannot listen, each logged once.
    refused: BTreeSet<IpAddr>,
    /// An address cannot be used, or not yet.
    incomplete: bool,
}

impl Listeners {
    /// Listens on the served addresses. An address that cannot be used, or not yet, is tried again.
    fn update(&mut self, link: &Link, addresses: &Addresses) {
        let wanted = || addresses.served.iter().map(|network| network.address);
        self.sockets.retain(|own, _| wanted().any(|wanted| wanted == *own));
        self.refused.retain(|own| wanted().any(|wanted| wanted == *own));
        self.incomplete = false;
        for own in wanted() {
            if self.sockets.contains_key(&own) {
                continue;
            }
            match listen(link, own) {
                Ok(listener) => {
                    self.sockets.insert(own, listener);
                    self.refused.remove(&own);
                }
                Err(error) => {
                    self.incomplete = true;
                    // The kernel may still be checking an address of IPv6 for duplicates.
                    if error.kind() != io::ErrorKind::AddrNotAvailable && self.refused.insert(own) {
                        tracing::warn!(
                            address = %SocketAddr::new(own, HTTP_PORT), %error,
                            "WS-Discovery does not announce an address, because the server cannot listen on a port; \
                             stop the program that uses it, such as wsdd, or set `frevo:ws discovery = no`"
                        );
                    }
                }
            }
        }
    }

    /// Returns the addresses on which metadata can be asked for.
    fn usable(&self, addresses: &Addresses) -> Addresses {
        let served = addresses.served.iter().filter(|network| self.sockets.contains_key(&network.address));
        Addresses { served: served.copied().collect(), own: addresses.own.clone() }
    }

    async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        std::future::poll_fn(|context| {
            let mut polled = self.sockets.values().map(|listener| listener.poll_accept(context));
            polled.find(std::task::Poll::is_ready).unwrap_or(std::task::Poll::Pending)
        })
        .await
    }
}

fn listen(link: &Link, own: IpAddr) -> io::Result<TcpListener> {
    let address = match own {
        IpAddr::V4(own) => (own, HTTP_PORT).into(),
        IpAddr::V6(own) => SocketAddrV6::new(own, HTTP_PORT, 0, link.index).into(),
    };
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    // Packets of other interfaces do not reach it, also those to this address.
    socket.bind_device(Some(link.name.as_bytes()))?;
    if own.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}
