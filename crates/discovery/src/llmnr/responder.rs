//! The responder on one link. It sends and receives nothing itself and has no clock.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use simple_dns::rdata::{PTR, RData};
use simple_dns::{CLASS, Name, OPCODE, Packet, PacketFlag, QCLASS, QTYPE, Question, ResourceRecord, TYPE};

use crate::limit::Buckets;
use crate::mdns::names::{address_data, name, reverse_name};
use crate::mdns::responder::pass_unknown;

/// The bits C (a conflict) and T (tentative), which have the places of other bits of DNS ([RFC 4795] 2.1.1).
const CONFLICT: PacketFlag = PacketFlag::AUTHORITATIVE_ANSWER;
const TENTATIVE: PacketFlag = PacketFlag::RECURSION_DESIRED;
/// Queries that verify that a name is unique, and the time between them ([RFC 4795] 2.7, 4.2).
const QUERIES: u8 = 3;
const INTERVAL: Duration = Duration::from_millis(250);
/// When a name that another host has is verified again, and the shortest time until a host that finds a conflict has a
/// name verified again.
const AFTER_CONFLICT: Duration = Duration::from_secs(300);
const AFTER_REPORT: Duration = Duration::from_secs(60);
/// How many seconds a querier may remember an answer ([RFC 4795] 2.8).
const TTL: u32 = 30;
/// The most addresses of an answer, which then has at most 512 bytes.
const MOST_ADDRESSES: usize = 8;
/// The most names of a host, and the longest one.
const MOST_NAMES: usize = 16;
const LONGEST_LABEL: usize = 63;
/// The longest packet that is read: responses of other hosts may be as long ([RFC 4795] 2.1).
pub(super) const LONGEST_PACKET: usize = 9194;
/// The longest response of this host.
pub(super) const LONGEST_RESPONSE: usize = 513;

/// The names of a host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    names: Vec<String>,
}

impl Host {
    /// Creates a host with these names, each of one label, of which the first is the name of its addresses. Returns
    /// also those that it cannot have.
    pub fn new(names: &[String]) -> (Host, Vec<String>) {
        let mut unique: Vec<String> = Vec::new();
        let mut refused = Vec::new();
        for name in names {
            let is_legal = (1..=LONGEST_LABEL).contains(&name.len()) && !name.contains(['.', ' ']);
            if unique.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                continue;
            }
            let to = if is_legal && unique.len() < MOST_NAMES { &mut unique } else { &mut refused };
            to.push(name.clone());
        }
        (Host { names: unique }, refused)
    }
}

/// A packet to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outgoing {
    /// A query to the multicast groups, 224.0.0.252 and ff02::1:3, from a port of its own.
    Query(Vec<u8>),
    /// An answer to one host, from the port of the protocol.
    Answer(SocketAddr, Vec<u8>),
}

/// A change of a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Another host has the name.
    Conflict(String, IpAddr),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The responder asks whether another host has the name.
    Verifying {
        sent: u8,
        next: Instant,
    },
    Unique {
        since: Instant,
    },
    /// Another host has the name, so it is not answered for.
    Conflict {
        again: Instant,
    },
}

struct Entry {
    text: String,
    name: Name<'static>,
    /// The id of the queries, by which responses are recognized.
    id: u16,
    state: State,
    /// Whether a conflict was reported since the name was last found unique.
    reported: bool,
}

/// The responder for a host on one link.
pub struct Responder {
    entries: Vec<Entry>,
    addresses: Vec<IpAddr>,
    answered: Buckets,
    ready: Vec<Outgoing>,
    events: Vec<Event>,
    random: u64,
}

impl Responder {
    /// Creates the responder for a link on which the host has these addresses. `seed` determines the ids of its
    /// queries, and should be random.
    pub fn new(host: &Host, addresses: Vec<IpAddr>, now: Instant, seed: u64) -> Responder {
        let state = State::Verifying { sent: 0, next: now };
        let entry = |text: &String| Entry { text: text.clone(), name: name(&[text]), id: 0, state, reported: false };
        let entries = host.names.iter().map(entry).collect();
        let (answered, random) = (Buckets::default(), seed | 1);
        Responder { entries, addresses, answered, ready: Vec::new(), events: Vec::new(), random }
    }

    /// Changes the addresses of the host on this link. The names are verified again.
    pub fn set_addresses(&mut self, addresses: Vec<IpAddr>, now: Instant) {
        if addresses != self.addresses {
            self.entries.iter_mut().for_each(|entry| entry.state = State::Verifying { sent: 0, next: now });
            self.addresses = addresses;
        }
    }

    /// Returns when [`Responder::poll`] must be called next, if nothing is received before.
    pub fn next(&self) -> Option<Instant> {
        let next = |entry: &Entry| match entry.state {
            State::Verifying { next, .. } => Some(next),
            State::Conflict { again } => Some(again),
            State::Unique { .. } => None,
        };
        self.entries.iter().filter_map(next).min()
    }

    /// Returns the packets that must be sent now.
    pub fn poll(&mut self, now: Instant) -> Vec<Outgoing> {
        for index in 0..self.entries.len() {
            self.advance(index, now);
        }
        std::mem::take(&mut self.ready)
    }

    /// Returns what has happened to names since the last call.
    pub fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Processes a packet that was sent to a multicast group by a host of this link. The caller ignores packets from
    /// addresses of other links and of this host, and those that were sent to an address of this host
    /// ([RFC 4795] 2.4).
    pub fn receive(&mut self, from: SocketAddr, bytes: &[u8], now: Instant) {
        read(bytes, |packet, question| {
            let is_query =
                !packet.has_flags(PacketFlag::RESPONSE) && packet.answers.is_empty() && packet.name_servers.is_empty();
            if !is_query {
                return;
            }
            if packet.has_flags(CONFLICT) {
                // It is not answered ([RFC 4795] 2.1.1).
                return self.verify_again(&question.qname, now);
            }
            let Some(answer) = self.answer(packet.id(), question) else { return };
            if self.answered.take(now, from.ip(), 1) {
                self.ready.push(Outgoing::Answer(from, answer));
            }
        });
    }

    /// Processes a packet that was sent by a host of this link to the port from which queries are sent. `own` returns
    /// the address of this host from which queries to that host are sent.
    pub fn receive_response(
        &mut self,
        from: SocketAddr,
        bytes: &[u8],
        own: impl FnOnce() -> Option<IpAddr>,
        now: Instant,
    ) {
        read(bytes, |packet, question| {
            let is_meant = |entry: &&mut Entry| {
                let is_asked = matches!(entry.state, State::Verifying { sent, .. } if sent > 0);
                is_asked && entry.id == packet.id() && entry.name == question.qname
            };
            if !packet.has_flags(PacketFlag::RESPONSE) {
                return;
            }
            let Some(entry) = self.entries.iter_mut().find(is_meant) else { return };
            // Of two hosts that verify the name at the same time, the one with the lower address gets it
            // ([RFC 4795] 4.2).
            let is_lost = !packet.has_flags(TENTATIVE) || own().is_some_and(|own| from.ip().to_canonical() < own);
            if is_lost {
                entry.state = State::Conflict { again: now + AFTER_CONFLICT };
                if !std::mem::replace(&mut entry.reported, true) {
                    self.events.push(Event::Conflict(entry.text.clone(), from.ip()));
                }
            }
        });
    }

    /// Verifies a name by queries. If no host answers, it is unique.
    fn advance(&mut self, index: usize, now: Instant) {
        let (sent, next) = match self.entries[index].state {
            State::Verifying { sent, next } => (sent, next),
            State::Conflict { again } => (0, again),
            State::Unique { .. } => return,
        };
        if next > now {
            return;
        }
        if sent == QUERIES {
            self.entries[index].state = State::Unique { since: now };
            self.entries[index].reported = false;
            return;
        }
        if sent == 0 {
            self.entries[index].id = self.number();
        }
        let entry = &mut self.entries[index];
        entry.state = State::Verifying { sent: sent + 1, next: now + INTERVAL };
        let mut packet = Packet::new_query(entry.id);
        packet.questions.push(Question::new(entry.name.clone(), QTYPE::ANY, QCLASS::CLASS(CLASS::IN), false));
        if let Ok(bytes) = packet.build_bytes_vec() {
            self.ready.push(Outgoing::Query(bytes));
        }
    }

    /// Another host got several responses for a name ([RFC 4795] 4.2).
    fn verify_again(&mut self, name: &Name<'_>, now: Instant) {
        let mut named = self.entries.iter_mut().filter(|entry| entry.name == *name);
        if let Some(entry) = named.next()
            && let State::Unique { since } = entry.state
            && now.saturating_duration_since(since) >= AFTER_REPORT
        {
            entry.state = State::Verifying { sent: 0, next: now };
        }
    }

    /// Returns the answer to a question; `None` if its name is not one of this host.
    fn answer(&self, id: u16, question: &Question<'_>) -> Option<Vec<u8>> {
        if !matches!(question.qclass, QCLASS::CLASS(CLASS::IN) | QCLASS::ANY) {
            return None;
        }
        let record = |data| ResourceRecord::new(question.qname.clone().into_owned(), CLASS::IN, TTL, data);
        let asks_for = |kind| question.qtype == QTYPE::ANY || question.qtype == QTYPE::TYPE(kind);
        let (entry, answers): (_, Vec<_>) = match self.entries.iter().find(|entry| entry.name == question.qname) {
            Some(entry) => {
                let kind = |own: &IpAddr| if own.is_ipv4() { TYPE::A } else { TYPE::AAAA };
                let asked = self.addresses.iter().filter(|own| asks_for(kind(own))).take(MOST_ADDRESSES);
                // A name without records of the type has an answer without records ([RFC 4795] 2.3).
                (entry, asked.map(|own| record(address_data(*own))).collect())
            }
            None => {
                let first = self.entries.first()?;
                self.addresses.iter().find(|own| reverse_name(**own) == question.qname)?;
                let pointer = || record(RData::PTR(PTR(first.name.clone())));
                (first, asks_for(TYPE::PTR).then(pointer).into_iter().collect())
            }
        };
        let mut packet = Packet::new_reply(id);
        match entry.state {
            State::Verifying { .. } => packet.set_flags(TENTATIVE),
            State::Unique { .. } => {}
            State::Conflict { .. } => return None,
        }
        packet.questions.push(Question { unicast_response: false, ..question.clone() });
        packet.answers = answers;
        packet.build_bytes_vec_compressed().ok()
    }

    /// Returns the id of a query.
    fn number(&mut self) -> u16 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 24) as u16
    }
}

/// Passes on a packet with one question ([RFC 4795] 2.1.1).
fn read(bytes: &[u8], process: impl FnOnce(&Packet<'_>, &Question<'_>)) {
    if bytes.len() > LONGEST_PACKET {
        return;
    }
    let mut bytes = bytes.to_vec();
    pass_unknown(&mut bytes);
    let Ok(packet) = Packet::parse(&bytes) else { return };
    if let [question] = &packet.questions[..]
        && packet.opcode() == OPCODE::StandardQuery
    {
        process(&packet, question);
    }
}
