//! The task that serves one link.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::io::ReadBuf;
use tokio::net::UdpSocket;
use tokio::sync::watch;

use super::PORT;
use super::name::Host;
use super::ports::Binder;
use super::responder::{Arrival, Event, INTERVAL, Outgoing, Responder, Subnet};
use crate::link::{Addresses, Link};
use crate::socket::until;

/// The longest packet, and one byte, by which longer ones are recognized.
const BUFFER: usize = 577;
/// The most addresses of a link on which names are registered.
const MAX_SUBNETS: usize = 16;
/// How often the release of names is sent.
const RELEASES: usize = 3;
/// When to try again to open a socket.
const RETRY: Duration = Duration::from_secs(5);
/// How long no packet is read after an error, such as that the interface is down.
const AFTER_ERROR: Duration = Duration::from_secs(1);

/// Serves the names of the host on a link until the sender of `addresses` is dropped. Then they are released.
///
/// # Errors
///
/// The random number generator failed.
pub async fn serve(
    link: Link,
    host: Host,
    binder: Binder,
    mut addresses: watch::Receiver<Addresses>,
) -> io::Result<()> {
    let mut seed = [0; 8];
    aws_lc_rs::rand::fill(&mut seed).map_err(|_| io::Error::other("the random number generator failed"))?;
    let mut responder = Responder::new(host, card(&link), Instant::now(), u64::from_ne_bytes(seed));
    let mut known = addresses.borrow_and_update().clone();
    let mut sockets = Sockets::default();
    let mut current = sockets.update(&link, &known, &binder).await;
    responder.set_subnets(current.clone(), Instant::now());
    let mut buffer = vec![0; BUFFER];
    let (mut pause, mut again) = (None, Instant::now() + RETRY);
    loop {
        tokio::select! {
            () = until(responder.next()) => {}
            () = until(pause), if pause.is_some() => pause = None,
            received = sockets.receive(&mut buffer), if pause.is_none() => match received {
                Ok((local, from, length)) => {
                    let bytes = buffer.get(..length).unwrap_or_default();
                    if let Some(arrival) = arrival(&known, &current, local, from) {
                        responder.receive(arrival, bytes, Instant::now());
                    }
                }
                Err(error) => {
                    tracing::debug!(link = link.name, %error, "cannot receive for the NetBIOS name service");
                    pause = Some(Instant::now() + AFTER_ERROR);
                }
            },
            () = until(Some(again)), if sockets.incomplete => {
                current = sockets.update(&link, &known, &binder).await;
                responder.set_subnets(current.clone(), Instant::now());
                again = Instant::now() + RETRY;
            }
            changed = addresses.changed() => {
                if changed.is_err() {
                    break;
                }
                known = addresses.borrow_and_update().clone();
                let wanted = subnets(&known);
                let gone: Vec<Subnet> = current.iter().filter(|subnet| !wanted.contains(subnet)).copied().collect();
                // The host may still have an address that is no longer served.
                sockets.send_all(&link, responder.release(&gone));
                current = sockets.update(&link, &known, &binder).await;
                responder.set_subnets(current.clone(), Instant::now());
                again = Instant::now() + RETRY;
            }
        }
        sockets.send_all(&link, responder.poll(Instant::now()));
        log(&link, responder.events());
    }
    let farewell = responder.release(&current);
    for number in 0..RELEASES {
        if farewell.is_empty() {
            break;
        }
        if number > 0 {
            tokio::time::sleep(INTERVAL).await;
        }
        sockets.send_all(&link, farewell.clone());
    }
    Ok(())
}

fn log(link: &Link, events: Vec<Event>) {
    for event in events {
        match event {
            Event::Registered(name) => tracing::info!(link = link.name, name, "registered a NetBIOS name"),
            Event::Conflict(name, host) => tracing::warn!(
                link = link.name, name, %host,
                "another host has a NetBIOS name of this one, which is not used on this link until it is free; \
                 change `netbios name`, `netbios aliases` or `workgroup`"
            ),
        }
    }
}

/// Returns the address of the network card; zeros if it is not known. The file system may be that of another network
/// namespace, in which another card has the name.
fn card(link: &Link) -> [u8; 6] {
    let read = |what: &str| std::fs::read_to_string(format!("/sys/class/net/{}/{what}", link.name)).unwrap_or_default();
    if read("ifindex").trim() != link.index.to_string() {
        return [0; 6];
    }
    let bytes: Option<Vec<u8>> =
        read("address").trim().split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    bytes.and_then(|bytes| bytes.try_into().ok()).unwrap_or_default()
}

/// Returns the networks of the served addresses. One without a broadcast address has no other hosts to ask.
fn subnets(addresses: &Addresses) -> Vec<Subnet> {
    let subnet = |network: &crate::link::Network| match network.address {
        IpAddr::V4(address) => Some(Subnet { address, broadcast: network.broadcast()? }),
        IpAddr::V6(_) => None,
    };
    addresses.served.iter().filter_map(subnet).take(MAX_SUBNETS).collect()
}

/// Returns how a packet from `from` arrived at the socket that is bound to `local`; `None` if it must not be answered.
fn arrival(known: &Addresses, subnets: &[Subnet], local: Ipv4Addr, from: SocketAddr) -> Option<Arrival> {
    let SocketAddr::V4(from) = from else { return None };
    if !known.is_neighbour(IpAddr::V4(*from.ip())) || from.port() == 0 {
        return None;
    }
    let unicast = subnets.iter().find(|subnet| subnet.address == local);
    let own = match unicast {
        Some(subnet) => subnet.address,
        None => {
            let here = || subnets.iter().filter(|subnet| subnet.broadcast == local).map(|subnet| subnet.address);
            let nearest = known.for_client(IpAddr::V4(*from.ip()));
            here().find(|own| nearest == Some(IpAddr::V4(*own))).or_else(|| here().next())?
        }
    };
    Some(Arrival { from, own, broadcast: unicast.is_none() })
}

/// A socket for each address, from which packets are sent, and for each broadcast address. The latter receives what is
/// sent to all hosts, which the former does not.
#[derive(Default)]
struct Sockets {
    bound: BTreeMap<Ipv4Addr, UdpSocket>,
    /// Those that could not be opened, each logged once.
    refused: BTreeSet<Ipv4Addr>,
    /// A socket could not be opened, or not yet.
    incomplete: bool,
}

impl Sockets {
    /// Opens the sockets of the served addresses, and returns those that can be used.
    async fn update(&mut self, link: &Link, addresses: &Addresses, binder: &Binder) -> Vec<Subnet> {
        let wanted = subnets(addresses);
        let all: BTreeSet<Ipv4Addr> = wanted.iter().flat_map(|subnet| [subnet.address, subnet.broadcast]).collect();
        self.bound.retain(|own, _| all.contains(own));
        self.refused.retain(|own| all.contains(own));
        self.incomplete = false;
        for own in all {
            if self.bound.contains_key(&own) {
                continue;
            }
            match binder.bind(link, own).await {
                Ok(socket) => {
                    self.bound.insert(own, socket);
                    self.refused.remove(&own);
                }
                Err(error) => {
                    self.incomplete = true;
                    // The address may be gone already.
                    if error.kind() != io::ErrorKind::AddrNotAvailable && self.refused.insert(own) {
                        tracing::warn!(
                            link = link.name, address = %SocketAddr::from((own, PORT)), %error,
                            "the NetBIOS name service does not serve an address, because the server cannot use UDP \
                             port 137; stop the program that uses it, such as nmbd, or set \
                             `frevo:netbios name service = no`"
                        );
                    }
                }
            }
        }
        let has =
            |subnet: &Subnet| self.bound.contains_key(&subnet.address) && self.bound.contains_key(&subnet.broadcast);
        wanted.into_iter().filter(has).collect()
    }

    /// Receives a packet. Returns the address of the socket, the sender, and the length.
    async fn receive(&self, buffer: &mut [u8]) -> io::Result<(Ipv4Addr, SocketAddr, usize)> {
        std::future::poll_fn(|context| {
            for (own, socket) in &self.bound {
                let mut packet = ReadBuf::new(buffer);
                if let Poll::Ready(received) = socket.poll_recv_from(context, &mut packet) {
                    return Poll::Ready(received.map(|from| (*own, from, packet.filled().len())));
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Sends packets. One is lost if the socket's buffer is full, because waiting would let one host stop all answers.
    fn send_all(&self, link: &Link, packets: Vec<Outgoing>) {
        for packet in packets {
            let Some(socket) = self.bound.get(&packet.own) else { continue };
            let sent = socket2::SockRef::from(socket).send_to(&packet.bytes, &packet.to.into());
            if let Err(error) = sent {
                tracing::debug!(link = link.name, to = %packet.to, %error, "cannot send for the NetBIOS name service");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Network;

    fn network(address: &str, prefix: u8) -> Network {
        Network { address: address.parse().unwrap(), prefix }
    }

    #[test]
    fn a_packet_arrives_at_the_address_of_its_network() {
        let served = vec![
            network("192.0.2.1", 24),
            network("192.0.2.7", 24),
            network("198.51.100.1", 25),
            network("2001:db8::1", 64),
            network("10.0.0.1", 32),
            network("10.0.1.1", 31),
        ];
        let own = served.iter().map(|network| network.address).collect();
        let known = Addresses { served, own };
        let all = subnets(&known);
        let shown: Vec<String> = all.iter().map(|subnet| format!("{} {}", subnet.address, subnet.broadcast)).collect();
        assert_eq!(shown, ["192.0.2.1 192.0.2.255", "192.0.2.7 192.0.2.255", "198.51.100.1 198.51.100.127"]);
        for (local, from, expected) in [
            ("192.0.2.1", "192.0.2.9:4000", Some(("192.0.2.1", false))),
            ("192.0.2.7", "192.0.2.9:137", Some(("192.0.2.7", false))),
            ("192.0.2.255", "192.0.2.9:137", Some(("192.0.2.1", true))),
            ("198.51.100.127", "198.51.100.9:137", Some(("198.51.100.1", true))),
            // A sender elsewhere, itself, all hosts, and one without a port.
            ("192.0.2.1", "203.0.113.9:137", None),
            ("198.51.100.127", "198.51.100.200:137", None),
            ("192.0.2.255", "192.0.2.7:137", None),
            ("192.0.2.1", "192.0.2.255:137", None),
            ("192.0.2.1", "192.0.2.9:0", None),
            ("192.0.2.1", "[2001:db8::9]:137", None),
        ] {
            let found = arrival(&known, &all, local.parse().unwrap(), from.parse().unwrap());
            let shown = found.map(|found| (found.own.to_string(), found.broadcast));
            assert_eq!(shown, expected.map(|(own, broadcast)| (own.to_owned(), broadcast)), "{local} {from}");
        }
    }
}
