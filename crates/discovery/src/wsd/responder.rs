//! The state machine of a Target Service.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use crate::limit::Buckets;
use crate::wsd::host::Host;
use crate::wsd::http::{self, Parsed, Status};
use crate::wsd::known::KnownRequests;
use crate::wsd::message::{self, Addressing, AppSequence, Body, DISCOVERY_TO, Fault, Message, Probe};

/// WS-Discovery, section 2.4 "Protocol Assignments". The firewall of Windows admits replies for 4 seconds only, so the
/// 5 seconds of DPWS are too long.
pub(crate) const APP_MAX_DELAY: Duration = Duration::from_millis(500);

/// SOAP-over-UDP, "Retransmission": how often a message is sent again.
const MULTICAST_UDP_REPEAT: usize = 4;
const UNICAST_UDP_REPEAT: usize = 2;
const UDP_MIN_DELAY: Duration = Duration::from_millis(50);
const UDP_MAX_DELAY: Duration = Duration::from_millis(250);
pub(crate) const UDP_UPPER_DELAY: Duration = Duration::from_millis(500);

/// A reply is at most so many times as large as its request.
pub(crate) const MAX_AMPLIFICATION: usize = 3;
/// No client sends from these ports. A forged request could have a reply go to a service there.
const PRIVILEGED_PORTS: std::ops::Range<u16> = 0..1024;

/// A message with the times, after now, at which the caller sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// The message.
    pub bytes: Vec<u8>,
    /// The times in ascending order.
    pub delays: Vec<Duration>,
}

/// A message that is sent from the port at which the request arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The client.
    pub to: SocketAddr,
    /// The message and its times.
    pub transmission: Transmission,
}

/// A datagram that a neighbour has sent to the multicast address. WSDAPI supports no Probe by unicast UDP, so the
/// caller drops others.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// The server's address for this client.
    pub own: IpAddr,
    /// The client.
    pub from: SocketAddr,
    /// The message.
    pub bytes: &'a [u8],
}

/// Answers for one host on one link.
///
/// Each `random` is 128 new random bits. They become the MessageID and the delays.
#[derive(Debug)]
pub struct Responder {
    host: Host,
    sequence: AppSequence,
    known: KnownRequests,
    buckets: Buckets,
}

impl Responder {
    /// Creates the responder. The `instance_id` must be larger than at the last start, such as the seconds since 1970.
    /// WSDAPI ignores the addresses of an instance that is older than one that it knows. It is the version of the
    /// metadata too, because names change only when an instance starts.
    pub fn new(host: Host, instance_id: u32) -> Self {
        let sequence = AppSequence { instance_id, sequence_id: Some(host.endpoint()), message_number: 0 };
        let host = host.with_metadata_version(instance_id);
        Self { host, sequence, known: KnownRequests::default(), buckets: Buckets::default() }
    }

    /// The announcement that goes to the multicast address of a link.
    ///
    /// WSDAPI sends no XAddrs in it and waits for a Resolve. The XAddrs are here, because the message stays on the link
    /// and names no address of another one.
    pub fn hello(&mut self, own: IpAddr, random: u128) -> Transmission {
        let sequence = self.next_sequence();
        let addressing = Addressing { random, relates_to: None, app_sequence: Some(&sequence) };
        let bytes = message::hello(addressing, &self.host, own).into_bytes();
        // WS-Discovery, section 4.1 "Hello": computers that start together must not send together.
        Transmission { bytes, delays: schedule(application_delay(random), MULTICAST_UDP_REPEAT, random) }
    }

    /// The announcement that the server leaves a link.
    pub fn bye(&mut self, random: u128) -> Transmission {
        let sequence = self.next_sequence();
        let addressing = Addressing { random, relates_to: None, app_sequence: Some(&sequence) };
        let bytes = message::bye(addressing, &self.host).into_bytes();
        Transmission { bytes, delays: schedule(Duration::ZERO, MULTICAST_UDP_REPEAT, random) }
    }

    /// Answers a Probe or a Resolve that is meant for this host.
    pub fn on_datagram(&mut self, now: Instant, datagram: &Datagram, random: u128) -> Option<Reply> {
        let Datagram { own, from, bytes } = *datagram;
        if PRIVILEGED_PORTS.contains(&from.port()) {
            return None;
        }
        let message = message::parse(bytes, message::MAX_DATAGRAM_SIZE).ok()?;
        let header = &message.header;
        let message_id = header.message_id.as_deref()?;
        // DPWS, section 4 "Discovery": other destinations are ignored. A fault is never sent to a multicast.
        if header.to.as_deref() != Some(DISCOVERY_TO) || !header.is_anonymous() || header.not_understood {
            return None;
        }
        let build = match &message.body {
            Body::Probe(probe) if matches(probe) => {
                |addressing, host: &Host, own| message::probe_matches(addressing, host, Some(own))
            }
            Body::Resolve(endpoint) if self.is_own(endpoint) => message::resolve_matches,
            _ => return None,
        };
        let sender = from.ip().to_canonical();
        if self.known.contains(sender, message_id) {
            return None;
        }
        let delays = schedule(application_delay(random), UNICAST_UDP_REPEAT, random);
        if !self.buckets.take(now, sender, u32::try_from(delays.len()).unwrap_or(u32::MAX)) {
            return None;
        }
        self.known.insert(sender, message_id);
        let sequence = self.next_sequence();
        let addressing = Addressing { random, relates_to: Some(message_id), app_sequence: Some(&sequence) };
        let reply = build(addressing, &self.host, own).into_bytes();
        if reply.len() > bytes.len().saturating_mul(MAX_AMPLIFICATION) {
            return None;
        }
        Some(Reply { to: from, transmission: Transmission { bytes: reply, delays } })
    }

    /// Answers what was received of an HTTP request, or returns `None` if the caller has to read more.
    ///
    /// The caller sends the response and closes the connection. It also limits the connections and their time.
    pub fn on_http(&mut self, own: IpAddr, received: &[u8], random: u128) -> Option<Vec<u8>> {
        let path = format!("/{}", self.host.uuid());
        match http::parse(received, &path) {
            Parsed::Incomplete => None,
            Parsed::Error(status) => Some(http::response(status, "")),
            Parsed::Content(content) => match message::parse(content, message::MAX_ENVELOPE_SIZE) {
                Ok(message) => {
                    let (status, envelope) = self.on_request(own, &message, random);
                    Some(http::response(status, &envelope))
                }
                Err(_) => Some(http::response(Status::BadRequest, "")),
            },
        }
    }

    fn on_request(&mut self, own: IpAddr, message: &Message, random: u128) -> (Status, String) {
        let header = &message.header;
        let mut addressing = Addressing { random, relates_to: header.message_id.as_deref(), app_sequence: None };
        let fault = if header.not_understood {
            Fault::MustUnderstand
        } else if header.action.is_empty() || header.message_id.is_none() || header.to.is_none() {
            Fault::MessageInformationHeaderRequired
        } else if !header.is_anonymous() {
            Fault::InvalidMessageInformationHeader
        } else {
            let to = header.to.as_deref().unwrap_or_default();
            match &message.body {
                Body::Get if self.is_own(to) => {
                    return (Status::Ok, message::get_response(addressing, &self.host));
                }
                // DPWS, section 4 "Discovery", R1015, R1021 and R1022: a client that knows the address asks by HTTP.
                Body::Probe(probe) if to == DISCOVERY_TO || self.is_own(to) => {
                    let sequence = self.next_sequence();
                    addressing.app_sequence = Some(&sequence);
                    let matched = matches(probe).then_some(own);
                    return (Status::Ok, message::probe_matches(addressing, &self.host, matched));
                }
                Body::Get | Body::Probe(_) => Fault::DestinationUnreachable,
                _ => Fault::ActionNotSupported,
            }
        };
        // SOAP 1.2 part 2, section 7.5.2.2: a fault of the sender is 400, one of another code is 500.
        let status = if fault == Fault::MustUnderstand { Status::InternalServerError } else { Status::BadRequest };
        (status, message::fault(addressing, fault))
    }

    fn is_own(&self, endpoint: &str) -> bool {
        self.host.endpoint().eq_ignore_ascii_case(endpoint)
    }

    /// WS-Discovery, section 7 "Application Sequencing": a message has a larger number than the one before. A
    /// repetition of it has the same.
    fn next_sequence(&mut self) -> AppSequence {
        match self.sequence.message_number.checked_add(1) {
            Some(number) => self.sequence.message_number = number,
            None => {
                self.sequence.instance_id = self.sequence.instance_id.wrapping_add(1);
                self.sequence.message_number = 1;
            }
        }
        self.sequence.clone()
    }
}

/// WS-Discovery, section 5.1 "Matching Types and Scopes": the server has all types that are asked for. It is in no
/// scope.
fn matches(probe: &Probe) -> bool {
    let own = message::own_types();
    !probe.has_scopes && probe.types.iter().all(|name| own.contains(name))
}

/// WS-Discovery, section 5.3 "Probe Match": a random time, so that not all computers answer at once.
fn application_delay(random: u128) -> Duration {
    between(Duration::ZERO, APP_MAX_DELAY, random >> 64)
}

/// SOAP-over-UDP, "Retransmission": the time between two transmissions is random at first, and doubles up to a limit.
fn schedule(first: Duration, repeat: usize, random: u128) -> Vec<Duration> {
    let mut delays = vec![first];
    let mut at = first;
    let mut pause = between(UDP_MIN_DELAY, UDP_MAX_DELAY, random);
    for _ in 0..repeat {
        at = at.saturating_add(pause);
        delays.push(at);
        pause = pause.saturating_mul(2).min(UDP_UPPER_DELAY);
    }
    delays
}

fn between(least: Duration, most: Duration, random: u128) -> Duration {
    let span = most.saturating_sub(least).as_millis().saturating_add(1);
    let millis = u64::try_from((random & u128::from(u64::MAX)).checked_rem(span).unwrap_or(0)).unwrap_or(0);
    least.saturating_add(Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wsd::host::Group;

    #[test]
    fn a_new_instance_follows_the_last_number() {
        let host = Host::new("A".to_owned(), Group::Workgroup("B".to_owned()), [0; 16]).unwrap();
        let mut responder = Responder::new(host, 7);
        responder.sequence.message_number = u32::MAX - 1;
        let numbers = [responder.next_sequence(), responder.next_sequence(), responder.next_sequence()];
        let numbers = numbers.map(|sequence| (sequence.instance_id, sequence.message_number));
        assert_eq!(numbers, [(7, u32::MAX), (8, 1), (8, 2)]);
    }
}
