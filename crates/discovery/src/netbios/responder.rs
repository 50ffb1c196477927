//! The node on one link. It sends and receives nothing itself and has no clock.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use super::PORT;
use super::name::{Host, Name};
use super::packet::{self, Claim, Message};
use crate::limit::Buckets;

/// Broadcasts of a request, and the time between them (BCAST_REQ_RETRY_COUNT and BCAST_REQ_RETRY_TIMEOUT in
/// [RFC 1002] 6).
const REPETITIONS: u8 = 3;
pub(crate) const INTERVAL: Duration = Duration::from_millis(250);
/// When a name that another host has is registered again.
const AFTER_CONFLICT: Duration = Duration::from_secs(300);
/// How many seconds others may remember an address, which may change.
const TTL: u32 = 300;
/// The longest packet that is read ([RFC 1002] 4.2.1).
const LONGEST_PACKET: usize = 576;

/// An IPv4 address of the host on the link, and that to which all hosts of its network listen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Subnet {
    /// The address of the host.
    pub address: Ipv4Addr,
    /// The broadcast address of its network.
    pub broadcast: Ipv4Addr,
}

/// A packet to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outgoing {
    /// The address of this host from which it is sent.
    pub own: Ipv4Addr,
    /// The destination.
    pub to: SocketAddrV4,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// How a packet arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// The sender.
    pub from: SocketAddrV4,
    /// The address of this host in the network of the sender.
    pub own: Ipv4Addr,
    /// Whether it was sent to all hosts.
    pub broadcast: bool,
}

/// A change of a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The name is this host's.
    Registered(String),
    /// Another host refuses the registration of the name.
    Conflict(String, Ipv4Addr),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The node asks whether another host has the name.
    Registering {
        sent: u8,
        next: Instant,
    },
    Registered,
    /// Another host has the name.
    Conflict {
        again: Instant,
    },
}

struct Entry {
    name: Name,
    is_group: bool,
    encoded: Vec<u8>,
    /// The id of the registration, by which its refusal is recognized.
    id: u16,
    state: State,
    /// Whether a conflict was reported since the name was last registered.
    reported: bool,
}

/// The node of a host on one link.
pub struct Responder {
    host: Host,
    entries: Vec<Entry>,
    subnets: Vec<Subnet>,
    card: [u8; 6],
    answered: Buckets,
    ready: Vec<Outgoing>,
    events: Vec<Event>,
    random: u64,
}

impl Responder {
    /// Creates a node without addresses. `card` is the address of the network card, or zeros. `seed` determines the ids
    /// of its requests, and should be random.
    pub fn new(host: Host, card: [u8; 6], now: Instant, seed: u64) -> Responder {
        let state = State::Registering { sent: 0, next: now };
        let entry = |&(name, is_group): &(Name, bool)| {
            let encoded = host.encode(name);
            Entry { name, is_group, encoded, id: 0, state, reported: false }
        };
        let entries = host.names().iter().map(entry).collect();
        let (answered, random) = (Buckets::default(), seed | 1);
        let (subnets, ready, events) = (Vec::new(), Vec::new(), Vec::new());
        Responder { host, entries, subnets, card, answered, ready, events, random }
    }

    /// Changes the addresses of the host on this link. All names are registered again if there is a new address.
    pub fn set_subnets(&mut self, subnets: Vec<Subnet>, now: Instant) {
        let is_new = |subnet: &Subnet| !self.subnets.contains(subnet);
        if subnets.iter().any(is_new) {
            self.entries.iter_mut().for_each(|entry| entry.state = State::Registering { sent: 0, next: now });
        }
        self.subnets = subnets;
    }

    /// Returns when [`Responder::poll`] must be called next, if nothing is received before.
    pub fn next(&self) -> Option<Instant> {
        let next = |entry: &Entry| match entry.state {
            State::Registering { next, .. } => Some(next),
            State::Conflict { again } => Some(again),
            State::Registered => None,
        };
        self.entries.iter().filter(|_| !self.subnets.is_empty()).filter_map(next).min()
    }

    /// Returns the packets that must be sent now.
    pub fn poll(&mut self, now: Instant) -> Vec<Outgoing> {
        for index in 0..self.entries.len() {
            if !self.subnets.is_empty() {
                self.advance(index, now);
            }
        }
        std::mem::take(&mut self.ready)
    }

    /// Returns what has happened to names since the last call.
    pub fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Returns the packets that release the names of these addresses ([RFC 1002] 4.2.9). They should be sent several
    /// times, [`REPETITIONS`] if possible.
    pub fn release(&mut self, subnets: &[Subnet]) -> Vec<Outgoing> {
        for index in 0..self.entries.len() {
            if self.entries[index].state == State::Registered {
                let id = self.number();
                self.broadcast(index, id, packet::header(packet::RELEASE, packet::BROADCAST), subnets);
            }
        }
        std::mem::take(&mut self.ready)
    }

    /// Processes a packet from a host of this link. The caller ignores packets from addresses of other links and of
    /// this host.
    pub fn receive(&mut self, arrival: Arrival, bytes: &[u8], now: Instant) {
        if bytes.len() > LONGEST_PACKET {
            return;
        }
        let Some(message) = Message::read(bytes).filter(|message| self.host.has_scope(message.name.scope)) else {
            return;
        };
        if message.is_response() {
            self.hear(arrival, &message, now);
            return;
        }
        match (message.opcode(), message.kind) {
            (packet::QUERY, packet::NB) => self.answer(arrival, &message, now),
            // A request to all hosts at once would have them all answer.
            (packet::QUERY, packet::NBSTAT) if !arrival.broadcast => self.answer_status(arrival, &message, now),
            (packet::REGISTRATION | packet::MULTIHOMED_REGISTRATION, packet::NB) => self.defend(arrival, &message, now),
            // Releases and refreshes concern name servers. A demand to give up a name is ignored, because it has no
            // proof: any host could take any name.
            _ => {}
        }
    }

    /// Registers a name by broadcasts. If no host refuses, it is this host's ([RFC 1002] 5.1.1.1).
    fn advance(&mut self, index: usize, now: Instant) {
        let (sent, next) = match self.entries[index].state {
            State::Registering { sent, next } => (sent, next),
            State::Conflict { again } => (0, again),
            State::Registered => return,
        };
        if next > now {
            return;
        }
        if sent == 0 {
            self.entries[index].id = self.number();
        }
        let subnets = self.subnets.clone();
        let id = self.entries[index].id;
        if sent < REPETITIONS {
            let flags = packet::RECURSION_DESIRED | packet::BROADCAST;
            self.broadcast(index, id, packet::header(packet::REGISTRATION, flags), &subnets);
            self.entries[index].state = State::Registering { sent: sent + 1, next: now + INTERVAL };
        } else {
            // The name overwrite demand, by which others learn that it is this host's ([RFC 1002] 4.2.3).
            self.broadcast(index, id, packet::header(packet::REGISTRATION, packet::BROADCAST), &subnets);
            self.entries[index].state = State::Registered;
            self.entries[index].reported = false;
            self.events.push(Event::Registered(self.entries[index].name.to_string()));
        }
    }

    fn broadcast(&mut self, index: usize, id: u16, flags: u16, subnets: &[Subnet]) {
        let entry = &self.entries[index];
        for subnet in subnets {
            let claim = Claim { name: &entry.encoded, is_group: entry.is_group, address: subnet.address, ttl: 0 };
            let to = SocketAddrV4::new(subnet.broadcast, PORT);
            self.ready.push(Outgoing { own: subnet.address, to, bytes: claim.request(id, flags) });
        }
    }

    /// Answers a query for a name with the address of the network on which it arrived.
    fn answer(&mut self, arrival: Arrival, message: &Message<'_>, now: Instant) {
        let Some(is_group) = self.owned(message.name.name) else { return };
        let desired = if message.desires_recursion() { packet::RECURSION_DESIRED } else { 0 };
        let flags = packet::RESPONSE | packet::AUTHORITATIVE | desired;
        let claim = Claim { name: message.name.bytes, is_group, address: arrival.own, ttl: TTL };
        self.respond(arrival, claim.response(message.id, packet::header(packet::QUERY, flags)), now);
    }

    fn answer_status(&mut self, arrival: Arrival, message: &Message<'_>, now: Instant) {
        if message.name.name != Name::ANY && self.owned(message.name.name).is_none() {
            return;
        }
        let registered = self.entries.iter().filter(|entry| entry.state == State::Registered);
        let flags = |entry: &Entry| packet::IN_USE | if entry.is_group { packet::GROUP } else { 0 };
        let names: Vec<(Name, u16)> = registered.map(|entry| (entry.name, flags(entry))).collect();
        self.respond(arrival, packet::status(message.id, message.name.bytes, &names, self.card), now);
    }

    /// Refuses the registration of a name of this host by another one ([RFC 1002] 5.1.1.5). A group may have members.
    fn defend(&mut self, arrival: Arrival, message: &Message<'_>, now: Instant) {
        let Some(is_group) = self.owned(message.name.name) else { return };
        if is_group && message.is_group {
            return;
        }
        let flags = packet::RESPONSE
            | packet::AUTHORITATIVE
            | packet::RECURSION_DESIRED
            | packet::RECURSION_AVAILABLE
            | packet::ACTIVE;
        let claim = Claim { name: message.name.bytes, is_group, address: arrival.own, ttl: 0 };
        self.respond(arrival, claim.response(message.id, packet::header(message.opcode(), flags)), now);
    }

    /// Processes the refusal of a registration. One of a name that is registered comes too late.
    fn hear(&mut self, arrival: Arrival, message: &Message<'_>, now: Instant) {
        if !message.is_refusal() || message.opcode() != packet::REGISTRATION {
            return;
        }
        let is_meant = |entry: &&mut Entry| {
            let is_asked = matches!(entry.state, State::Registering { sent, .. } if sent > 0);
            is_asked && entry.id == message.id && entry.name == message.name.name
        };
        if let Some(entry) = self.entries.iter_mut().find(is_meant) {
            entry.state = State::Conflict { again: now + AFTER_CONFLICT };
            if !std::mem::replace(&mut entry.reported, true) {
                self.events.push(Event::Conflict(entry.name.to_string(), *arrival.from.ip()));
            }
        }
    }

    /// Returns whether a name of this host is one of a group.
    fn owned(&self, name: Name) -> Option<bool> {
        let mut registered = self.entries.iter().filter(|entry| entry.state == State::Registered);
        registered.find(|entry| entry.name == name).map(|entry| entry.is_group)
    }

    fn respond(&mut self, arrival: Arrival, bytes: Vec<u8>, now: Instant) {
        if self.answered.take(now, (*arrival.from.ip()).into(), 1) {
            self.ready.push(Outgoing { own: arrival.own, to: arrival.from, bytes });
        }
    }

    /// Returns the id of a request. A host that does not see the request can hardly guess it.
    fn number(&mut self) -> u16 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 24) as u16
    }
}
