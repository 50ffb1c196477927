//! The task that answers on one link.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::sleep_until;

use super::names::Host;
use super::responder::{Destination, Outgoing, PORT, Responder};
use crate::link::{Addresses, Link};
use crate::socket::{Multicast, Sharing, Sockets, until};

/// Hops of all packets, by which receivers see that they come from this link ([RFC 6762] 11).
const HOPS: u32 = 255;
const PROTOCOL: Multicast = Multicast {
    groups: (Ipv4Addr::new(224, 0, 0, 251), Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0xfb)),
    port: PORT,
    only_groups: false,
    hops: (HOPS, Some(HOPS)),
    sharing: Sharing::Shared,
};
/// The longest packet, and one byte, by which longer ones are recognized.
const BUFFER: usize = 9001;
/// How long no packet is read after an error, such as that the interface is down.
const AFTER_ERROR: Duration = Duration::from_secs(1);

/// Answers for the host on a link until the sender of `addresses` is dropped. Then the records are withdrawn.
///
/// # Errors
///
/// No socket could be opened.
pub async fn serve(link: Link, host: Host, mut addresses: watch::Receiver<Addresses>) -> io::Result<()> {
    let sockets = Sockets::open(&link, &PROTOCOL)?;
    let mut known = addresses.borrow_and_update().clone();
    let seed = u64::from(link.index) << 32 | u64::from(std::process::id());
    let mut responder = Responder::new(host, served(&known), Instant::now(), seed);
    let mut buffer = vec![0; BUFFER];
    let mut pause = None;
    loop {
        let next = responder.next();
        let timer = async {
            match next {
                Some(next) => sleep_until(next.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = timer => {}
            () = until(pause), if pause.is_some() => pause = None,
            received = sockets.receive(&mut buffer), if pause.is_none() => match received {
                Ok((length, from)) if known.is_neighbour(from.ip()) => {
                    responder.receive(from, buffer.get(..length).unwrap_or_default(), Instant::now());
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(link = link.name, %error, "cannot receive multicast DNS");
                    pause = Some(Instant::now() + AFTER_ERROR);
                }
            },
            changed = addresses.changed() => {
                if changed.is_err() {
                    break;
                }
                known = addresses.borrow_and_update().clone();
                responder.set_addresses(served(&known), Instant::now());
            }
        };
        for packet in responder.poll(Instant::now()) {
            send(&sockets, &link, &known, &packet);
        }
    }
    for packet in responder.goodbye() {
        send(&sockets, &link, &known, &packet);
    }
    Ok(())
}

fn served(addresses: &Addresses) -> Vec<IpAddr> {
    addresses.served.iter().map(|network| network.address).collect()
}

fn send(sockets: &Sockets, link: &Link, known: &Addresses, packet: &Outgoing) {
    let targets = match packet.to {
        Destination::Unicast(to) => vec![to],
        Destination::Multicast => sockets.groups(&known.served).collect(),
    };
    for to in targets {
        if let Err(error) = sockets.send(&packet.bytes, to) {
            tracing::debug!(link = link.name, %to, %error, "cannot send multicast DNS");
        }
    }
}
