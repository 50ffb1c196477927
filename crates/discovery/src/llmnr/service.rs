//! The task that answers on one link.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::responder::{Event, Host, LONGEST_PACKET, LONGEST_RESPONSE, Outgoing, Responder};
use crate::link::{Addresses, Link};
use crate::socket::{Multicast, Sharing, Sockets, source, until};

/// Hops of all packets ([RFC 4795] 2.2).
const HOPS: u32 = 255;
const PROTOCOL: Multicast = Multicast {
    groups: (Ipv4Addr::new(224, 0, 0, 252), Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 3)),
    port: 5355,
    // Requests to an address of this host must not be answered ([RFC 4795] 2.4).
    only_groups: true,
    hops: (HOPS, Some(HOPS)),
    // Two programs of a host would both answer.
    sharing: Sharing::Alone,
};
/// The longest packet, and one byte, by which longer ones are recognized.
const BUFFER: usize = LONGEST_PACKET + 1;
/// How long no packet is read after an error, such as that the interface is down.
const AFTER_ERROR: Duration = Duration::from_secs(1);

/// Answers for the host on a link until the sender of `addresses` is dropped.
///
/// # Errors
///
/// No socket could be opened, for example because another program uses the port.
pub async fn serve(link: Link, host: Host, mut addresses: watch::Receiver<Addresses>) -> io::Result<()> {
    let sockets = Sockets::open(&link, &PROTOCOL).map_err(explain)?;
    let queries = Sockets::open(&link, &Multicast { sharing: Sharing::Queries, ..PROTOCOL })?;
    let mut seed = [0; 8];
    aws_lc_rs::rand::fill(&mut seed).map_err(|_| io::Error::other("the random number generator failed"))?;
    let mut known = addresses.borrow_and_update().clone();
    let mut responder = Responder::new(&host, served(&known), Instant::now(), u64::from_ne_bytes(seed));
    let (mut buffer, mut response) = (vec![0; BUFFER], [0; LONGEST_RESPONSE]);
    let mut pause = None;
    loop {
        tokio::select! {
            () = until(responder.next()) => {}
            () = until(pause), if pause.is_some() => pause = None,
            received = sockets.receive(&mut buffer), if pause.is_none() => match received {
                Ok((length, from)) if known.is_neighbour(from.ip()) => {
                    responder.receive(from, buffer.get(..length).unwrap_or_default(), Instant::now());
                }
                Ok(_) => {}
                Err(error) => pause = Some(after(&link, &error)),
            },
            received = queries.receive(&mut response), if pause.is_none() => match received {
                Ok((length, from)) if known.is_neighbour(from.ip()) => {
                    let bytes = response.get(..length).unwrap_or_default();
                    responder.receive_response(from, bytes, || source(&link, from), Instant::now());
                }
                Ok(_) => {}
                Err(error) => pause = Some(after(&link, &error)),
            },
            changed = addresses.changed() => {
                if changed.is_err() {
                    return Ok(());
                }
                known = addresses.borrow_and_update().clone();
                responder.set_addresses(served(&known), Instant::now());
            }
        }
        for packet in responder.poll(Instant::now()) {
            send(&link, &known, &sockets, &queries, packet);
        }
        for Event::Conflict(name, host) in responder.events() {
            tracing::warn!(
                link = link.name, name, %host,
                "another host has a name of this one, for which LLMNR does not answer on this link until it is free; \
                 change `netbios name` or `netbios aliases`"
            );
        }
    }
}

fn send(link: &Link, known: &Addresses, sockets: &Sockets, queries: &Sockets, packet: Outgoing) {
    let outcomes: Vec<io::Result<()>> = match packet {
        Outgoing::Answer(to, bytes) => vec![sockets.send(&bytes, to)],
        Outgoing::Query(bytes) => queries.groups(&known.served).map(|group| queries.send(&bytes, group)).collect(),
    };
    for error in outcomes.into_iter().filter_map(Result::err) {
        tracing::debug!(link = link.name, %error, "cannot send LLMNR");
    }
}

fn after(link: &Link, error: &io::Error) -> Instant {
    tracing::debug!(link = link.name, %error, "cannot receive LLMNR");
    Instant::now() + AFTER_ERROR
}

fn served(addresses: &Addresses) -> Vec<IpAddr> {
    addresses.served.iter().map(|network| network.address).collect()
}

fn explain(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::AddrInUse => io::Error::other(
            "UDP port 5355 is in use; stop the program that uses it, such as systemd-resolved (`LLMNR=no` in \
             resolved.conf), or set `frevo:llmnr = no`",
        ),
        _ => error,
    }
}
