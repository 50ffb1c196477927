//! The responder on one link. It sends and receives nothing itself and has no clock.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use simple_dns::rdata::RData;
use simple_dns::{Name, Packet, PacketFlag, QCLASS, QTYPE, Question, ResourceRecord, TYPE};

use super::names::{Host, Names, Own, type_of};

/// The port of multicast DNS.
pub const PORT: u16 = 5353;
/// Probes of new names, and the time between them ([RFC 6762] 8.1).
const PROBES: u8 = 3;
const PROBE_INTERVAL: Duration = Duration::from_millis(250);
/// How long a host waits whose probe met that of another host, or that has changed its names often.
const AFTER_TIE: Duration = Duration::from_secs(1);
const AFTER_CONFLICTS: Duration = Duration::from_secs(5);
/// Conflicts within this period after which probes are sent slowly.
const MANY_CONFLICTS: usize = 15;
const CONFLICT_PERIOD: Duration = Duration::from_secs(10);
/// Announcements, and the time between them ([RFC 6762] 8.3).
const ANNOUNCEMENTS: u8 = 3;
const ANNOUNCEMENT_INTERVAL: Duration = Duration::from_secs(1);
/// The shortest time between two multicasts of a record, and in defence of a name ([RFC 6762] 6).
const REPEAT: Duration = Duration::from_secs(1);
const REPEAT_DEFENCE: Duration = Duration::from_millis(250);
/// Delays of a response that other hosts may give too, and to a query that continues ([RFC 6762] 6, 7.2).
const SHARED_DELAY: [u64; 2] = [20, 120];
const CONTINUED_DELAY: [u64; 2] = [400, 500];
/// The highest TTL in a response to a resolver that does not know multicast DNS ([RFC 6762] 6.7).
const LEGACY_TTL: u32 = 10;
/// Unicast responses per second, and how many may be sent at once.
const UNICAST_RATE: f64 = 20.0;
const UNICAST_BURST: f64 = 40.0;
/// Bytes of a packet that fits into an Ethernet frame.
const PACKET_BYTES: usize = 1440;
/// Questions of a packet that are answered.
const MAX_QUESTIONS: usize = 64;
/// The longest packet that is read ([RFC 6762] 17).
const LONGEST_PACKET: usize = 9000;

/// Where a packet is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Destination {
    /// The multicast groups, 224.0.0.251 and ff02::fb, on port 5353.
    Multicast,
    /// One host.
    Unicast(SocketAddr),
}

/// A packet to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outgoing {
    /// The destination.
    pub to: Destination,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// What the responder does to its names.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// It asks whether another host has them.
    Probing {
        sent: u8,
        next: Instant,
    },
    /// It tells others that it has them.
    Announcing {
        sent: u8,
        next: Instant,
    },
    Running,
}

/// An own record and when it was or will be sent.
struct Entry {
    own: Own,
    /// It says which types of records a name has, and is sent only when another type is asked for ([RFC 6762] 6.1).
    denies: bool,
    sent: Option<Instant>,
    due: Option<Instant>,
}

/// The responder for a host on one link.
pub struct Responder {
    names: Names,
    addresses: Vec<IpAddr>,
    entries: Vec<Entry>,
    phase: Phase,
    conflicts: Vec<Instant>,
    /// Responses that may be sent to single hosts, and when that was calculated.
    unicasts: (f64, Instant),
    /// Packets that are sent at once.
    ready: Vec<Outgoing>,
    random: u64,
}

impl Responder {
    /// Creates the responder for a link on which the host has these addresses. `seed` determines the delays.
    pub fn new(host: Host, addresses: Vec<IpAddr>, now: Instant, seed: u64) -> Responder {
        let mut responder = Responder {
            names: Names::new(host),
            addresses,
            entries: Vec::new(),
            phase: Phase::Running,
            conflicts: Vec::new(),
            unicasts: (UNICAST_BURST, now),
            ready: Vec::new(),
            random: seed | 1,
        };
        responder.probe(now, Duration::ZERO);
        responder
    }

    /// Returns the name of the service instances, which is another one than requested if other hosts have that.
    pub fn instance(&self) -> String {
        self.names.instance()
    }

    /// Returns when [`Responder::poll`] must be called next, if nothing is received before.
    pub fn next(&self) -> Option<Instant> {
        let phase = match self.phase {
            Phase::Probing { next, .. } | Phase::Announcing { next, .. } => Some(next),
            Phase::Running => None,
        };
        self.entries.iter().filter_map(|entry| entry.due).chain(phase).min()
    }

    /// Returns the packets that must be sent now.
    pub fn poll(&mut self, now: Instant) -> Vec<Outgoing> {
        match self.phase {
            Phase::Probing { sent, next } if next <= now => {
                if sent < PROBES {
                    self.send_probe();
                    self.phase = Phase::Probing { sent: sent + 1, next: now + PROBE_INTERVAL };
                } else {
                    self.phase = Phase::Announcing { sent: 0, next: now };
                }
            }
            _ => {}
        }
        if let Phase::Announcing { sent, next } = self.phase
            && next <= now
        {
            self.entries.iter_mut().filter(|entry| !entry.denies).for_each(|entry| entry.due = Some(now));
            let interval = ANNOUNCEMENT_INTERVAL * (1 << sent);
            self.phase = match sent + 1 {
                ANNOUNCEMENTS => Phase::Running,
                sent => Phase::Announcing { sent, next: now + interval },
            };
        }
        self.send_due(now);
        std::mem::take(&mut self.ready)
    }

    /// Changes the addresses of the host on this link. The old ones are withdrawn.
    pub fn set_addresses(&mut self, addresses: Vec<IpAddr>, now: Instant) {
        if addresses == self.addresses {
            return;
        }
        let new = self.names.records(&addresses);
        let is_gone = |entry: &&Entry| !entry.denies && new.iter().all(|own| own.record != entry.own.record);
        let gone: Vec<_> = self.entries.iter().filter(is_gone).map(|entry| entry.own.record.clone()).collect();
        if matches!(self.phase, Phase::Probing { .. }) {
            self.addresses = addresses;
            return self.renew(new);
        }
        self.send_goodbye(&gone);
        self.addresses = addresses;
        self.renew(new);
        self.phase = Phase::Announcing { sent: 0, next: now };
    }

    /// Returns the packets that withdraw all records ([RFC 6762] 10.1).
    pub fn goodbye(&mut self) -> Vec<Outgoing> {
        if !matches!(self.phase, Phase::Probing { .. }) {
            let all = self.entries.iter().filter(|entry| !entry.denies);
            let all: Vec<_> = all.map(|entry| entry.own.record.clone()).collect();
            self.send_goodbye(&all);
        }
        std::mem::take(&mut self.ready)
    }

    /// Processes a packet from a host of this link. The caller ignores packets from addresses of other links and of
    /// this host.
    pub fn receive(&mut self, from: SocketAddr, bytes: &[u8], now: Instant) {
        if bytes.len() > LONGEST_PACKET {
            return;
        }
        let mut bytes = bytes.to_vec();
        pass_unknown(&mut bytes);
        let Ok(packet) = Packet::parse(&bytes) else { return };
        if packet.has_flags(PacketFlag::RESPONSE) {
            if from.port() == PORT {
                self.hear(&packet, now);
            }
        } else if from.port() != PORT {
            self.answer_legacy(from, &packet, now);
        } else {
            self.answer(from, &packet, now);
        }
    }

    /// Starts to probe with the current names.
    fn probe(&mut self, now: Instant, delay: Duration) {
        let records = self.names.records(&self.addresses);
        self.renew(records);
        let random = Duration::from_millis(self.between([0, 250]));
        self.phase = Phase::Probing { sent: 0, next: now + delay + random };
    }

    fn renew(&mut self, records: Vec<Own>) {
        let denials: Vec<_> = self.names.unique_names().iter().map(|name| self.names.nsec(name, &records)).collect();
        let denials = denials.into_iter().map(|record| (Own { record, unique: true }, true));
        let all = records.into_iter().map(|own| (own, false)).chain(denials);
        self.entries = all.map(|(own, denies)| Entry { own, denies, sent: None, due: None }).collect();
    }

    fn send_probe(&mut self) {
        let mut packet = Packet::new_query(0);
        for name in self.names.unique_names() {
            packet.questions.push(Question::new(name, QTYPE::ANY, QCLASS::CLASS(simple_dns::CLASS::IN), true));
        }
        packet.name_servers = self.proposed().map(|own| own.record.clone().with_cache_flush(false)).collect();
        self.push(Destination::Multicast, &packet);
    }

    /// Returns the records for which the responder probes. The name of an address is unique without a probe.
    fn proposed(&self) -> impl Iterator<Item = &Own> {
        let names = self.names.unique_names();
        let own = self.entries.iter().filter(|entry| !entry.denies).map(|entry| &entry.own);
        own.filter(move |own| own.unique && names.contains(&own.record.name))
    }

    /// Sends the records that are due.
    fn send_due(&mut self, now: Instant) {
        let mut records = Vec::new();
        for entry in &mut self.entries {
            if entry.due.is_some_and(|due| due <= now) {
                (entry.due, entry.sent) = (None, Some(now));
                records.push(entry.own.record.clone());
            }
        }
        self.send_records(&records);
    }

    /// Multicasts records in as few packets as possible.
    fn send_records(&mut self, records: &[ResourceRecord<'static>]) {
        if records.is_empty() {
            return;
        }
        let mut packet = response(0);
        packet.answers = records.to_vec();
        match packet.build_bytes_vec_compressed() {
            Ok(bytes) if bytes.len() <= PACKET_BYTES || records.len() == 1 => {
                self.ready.push(Outgoing { to: Destination::Multicast, bytes });
            }
            Ok(_) => {
                let (one, other) = records.split_at(records.len() / 2);
                self.send_records(one);
                self.send_records(other);
            }
            Err(_) => {}
        }
    }

    fn send_goodbye(&mut self, records: &[ResourceRecord<'static>]) {
        let without_life = |record: &ResourceRecord<'static>| ResourceRecord { ttl: 0, ..record.clone() };
        self.send_records(&records.iter().map(without_life).collect::<Vec<_>>());
    }

    fn push(&mut self, to: Destination, packet: &Packet<'_>) {
        if let Ok(bytes) = packet.build_bytes_vec_compressed() {
            self.ready.push(Outgoing { to, bytes });
        }
    }

    /// Answers a query of a host that knows multicast DNS.
    fn answer(&mut self, from: SocketAddr, packet: &Packet<'_>, now: Instant) {
        let is_probe = !packet.name_servers.is_empty();
        if let Phase::Probing { .. } = self.phase {
            if is_probe {
                self.compare_probes(packet, now);
            }
            return;
        }
        let delay = match packet.has_flags(PacketFlag::TRUNCATION) {
            true => Some(CONTINUED_DELAY),
            false => None,
        };
        let is_known = |entry: &Entry| packet.answers.iter().any(|known| suppresses(known, &entry.own.record));
        let known: Vec<bool> = self.entries.iter().map(is_known).collect();
        let mut unicast = Vec::new();
        for question in packet.questions.iter().take(MAX_QUESTIONS) {
            for index in self.asked(question).into_iter().filter(|index| !known[*index]) {
                let entry = &self.entries[index];
                let age = entry.sent.map(|sent| now.saturating_duration_since(sent));
                let fresh = Duration::from_secs(u64::from(entry.own.record.ttl) / 4);
                if question.unicast_response && !is_probe && age.is_some_and(|age| age < fresh) {
                    if !unicast.contains(&index) {
                        unicast.push(index);
                    }
                    continue;
                }
                let shared = (!entry.own.unique).then_some(SHARED_DELAY);
                let wait = delay.or(shared).filter(|_| !is_probe).map_or(0, |range| self.between(range));
                let repeat = if is_probe { REPEAT_DEFENCE } else { REPEAT };
                self.schedule(index, now + Duration::from_millis(wait), repeat);
            }
        }
        self.add_related(now);
        if !unicast.is_empty() {
            self.send_unicast(from, &unicast, now);
        }
    }

    /// Returns the records that a question asks for. If a name has none of the type, that is the record that says so.
    fn asked(&self, question: &Question<'_>) -> Vec<usize> {
        let all = || self.entries.iter().enumerate();
        let asked = all().filter(|(_, entry)| !entry.denies && is_asked(question, &entry.own.record));
        let asked: Vec<usize> = asked.map(|(index, _)| index).collect();
        if !asked.is_empty() {
            return asked;
        }
        let denial = all().find(|(_, entry)| entry.denies && entry.own.record.name == question.qname);
        denial.map(|(index, _)| index).into_iter().collect()
    }

    /// Multicasts a record at `due`, and not earlier than `repeat` after the last time.
    fn schedule(&mut self, index: usize, due: Instant, repeat: Duration) {
        let entry = &mut self.entries[index];
        let due = entry.sent.map_or(due, |sent| (sent + repeat).max(due));
        entry.due = Some(entry.due.map_or(due, |known| known.min(due)));
    }

    /// Sends records to one host. If they are too long, or too many such packets are sent, they are multicast.
    fn send_unicast(&mut self, to: SocketAddr, records: &[usize], now: Instant) {
        let mut packet = response(0);
        packet.answers = records.iter().map(|index| self.entries[*index].own.record.clone()).collect();
        match packet.build_bytes_vec_compressed() {
            Ok(bytes) if bytes.len() <= PACKET_BYTES && self.may_unicast(now) => {
                self.ready.push(Outgoing { to: Destination::Unicast(to), bytes });
            }
            _ => records.iter().for_each(|index| self.schedule(*index, now, REPEAT)),
        }
    }

    /// Sends the records of an instance and of the host with those that refer to them ([RFC 6763] 12). If the host has
    /// one version of IP, the record that says so is one of them ([RFC 6762] 6.2).
    fn add_related(&mut self, now: Instant) {
        let host = self.names.host_name();
        let has = |v4: bool| self.addresses.iter().any(|address| address.is_ipv4() == v4);
        let denies_version = !(has(true) && has(false));
        for _ in 0..2 {
            let due = self.entries.iter().filter_map(|entry| Some((target(&entry.own.record)?.clone(), entry.due?)));
            for (name, due) in due.collect::<Vec<_>>() {
                let is_meant = |entry: &&mut Entry| {
                    entry.own.record.name == name && (!entry.denies || denies_version && name == host)
                };
                for entry in self.entries.iter_mut().filter(is_meant) {
                    let is_recent = entry.sent.is_some_and(|sent| now.saturating_duration_since(sent) < REPEAT);
                    if !is_recent {
                        entry.due = Some(entry.due.map_or(due, |known| known.min(due)));
                    }
                }
            }
        }
    }

    /// Answers a resolver that does not know multicast DNS ([RFC 6762] 6.7).
    fn answer_legacy(&mut self, from: SocketAddr, packet: &Packet<'_>, now: Instant) {
        let Some(question) = packet.questions.first() else { return };
        let own = self.entries.iter().filter(|entry| !entry.denies).map(|entry| &entry.own.record);
        let asked = own.filter(|record| is_asked(question, record));
        let plain = |record: &ResourceRecord<'static>| {
            ResourceRecord { ttl: record.ttl.min(LEGACY_TTL), ..record.clone() }.with_cache_flush(false)
        };
        let answers: Vec<_> = asked.map(plain).collect();
        if answers.is_empty() || matches!(self.phase, Phase::Probing { .. }) || !self.may_unicast(now) {
            return;
        }
        let mut packet = response(packet.id());
        packet.questions.push(Question { unicast_response: false, ..question.clone() }.into_owned());
        packet.answers = answers;
        self.push(Destination::Unicast(from), &packet);
    }

    /// Two hosts that probe for a name at the same time compare their records; the one with the lower ones waits
    /// ([RFC 6762] 8.2).
    fn compare_probes(&mut self, packet: &Packet<'_>, now: Instant) {
        for name in self.names.unique_names() {
            let theirs: Vec<_> = packet.name_servers.iter().filter(|record| record.name == name).map(order).collect();
            if theirs.is_empty() {
                continue;
            }
            let ours = self.proposed().filter(|own| own.record.name == name).map(|own| order(&own.record));
            let (mut ours, mut theirs) = (ours.collect::<Vec<_>>(), theirs);
            ours.sort();
            theirs.sort();
            if ours < theirs {
                return self.probe(now, AFTER_TIE);
            }
        }
    }

    /// Processes a response of another host: a conflict, or an answer that need not be given again.
    fn hear(&mut self, packet: &Packet<'_>, now: Instant) {
        for record in packet.answers.iter().chain(&packet.additional_records) {
            let same_set = |own: &Own| own.record.name == record.name && type_of(&own.record) == type_of(record);
            let same = |own: &Own| own.record.rdata == record.rdata;
            let is_ours = self.entries.iter().any(|entry| same_set(&entry.own) && same(&entry.own));
            let probed = self.proposed().any(|own| own.record.name == record.name);
            let is_probing = matches!(self.phase, Phase::Probing { .. });
            // A goodbye is not a conflict.
            let conflicts = !is_ours && record.ttl > 0 && probed && (is_probing || self.proposed().any(same_set));
            if conflicts {
                let name = record.name.clone().into_owned();
                return self.resolve_conflict(&name, is_probing, now);
            }
            for index in 0..self.entries.len() {
                let entry = &mut self.entries[index];
                if !same_set(&entry.own) || entry.own.record.rdata != record.rdata {
                    continue;
                }
                if record.ttl < entry.own.record.ttl / 2 && !is_probing {
                    // Caches would forget it too early ([RFC 6762] 6.6).
                    self.schedule(index, now, REPEAT);
                } else if record.ttl >= entry.own.record.ttl && !entry.own.unique {
                    entry.due = None;
                }
            }
        }
    }

    /// Another host has a name of this one. Before the name is announced, another one is chosen; later the responder
    /// probes again ([RFC 6762] 8.1, 9).
    fn resolve_conflict(&mut self, name: &Name<'static>, is_probing: bool, now: Instant) {
        self.conflicts.retain(|then| now.saturating_duration_since(*then) < CONFLICT_PERIOD);
        if self.conflicts.len() < MANY_CONFLICTS {
            self.conflicts.push(now);
        }
        let delay = if self.conflicts.len() < MANY_CONFLICTS { Duration::ZERO } else { AFTER_CONFLICTS };
        if is_probing {
            self.names.change(name);
        }
        self.probe(now, delay);
    }

    fn may_unicast(&mut self, now: Instant) -> bool {
        let (left, then) = self.unicasts;
        let more = now.saturating_duration_since(then).as_secs_f64() * UNICAST_RATE;
        let left = (left + more).min(UNICAST_BURST);
        let may = left >= 1.0;
        self.unicasts = (if may { left - 1.0 } else { left }, now);
        may
    }

    /// Returns a number in the range. Its quality does not matter: it only keeps hosts from answering simultaneously.
    fn between(&mut self, [least, most]: [u64; 2]) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        least + self.random % (most - least + 1)
    }
}

fn response(id: u16) -> Packet<'static> {
    let mut packet = Packet::new_reply(id);
    packet.set_flags(PacketFlag::AUTHORITATIVE_ANSWER);
    packet
}

/// Makes the questions of a packet acceptable to the decoder, which refuses types that it does not know, and the bit of
/// the header that must be ignored ([RFC 6762] 18.9). No record has the type that takes the place of an unknown one.
pub(crate) fn pass_unknown(bytes: &mut [u8]) {
    const NO_RECORD: u16 = 254;
    let Some(flags) = bytes.get_mut(3) else { return };
    *flags &= !0x40;
    let mut at = 12;
    for _ in 0..u16::from_be_bytes([bytes.get(4).copied().unwrap_or(0), bytes.get(5).copied().unwrap_or(0)]) {
        // A name ends with an empty label, or with a pointer of two bytes.
        loop {
            match bytes.get(at) {
                Some(0) => at += 1,
                Some(pointer) if *pointer >= 0xc0 => at += 2,
                Some(length) => {
                    at += 1 + usize::from(*length);
                    continue;
                }
                None => return,
            }
            break;
        }
        let Some(&[high, low]) = bytes.get(at..at + 2) else { return };
        if QTYPE::try_from(u16::from_be_bytes([high, low])).is_err() {
            bytes[at..at + 2].copy_from_slice(&NO_RECORD.to_be_bytes());
        }
        at += 4;
    }
}

fn is_asked(question: &Question<'_>, record: &ResourceRecord<'_>) -> bool {
    question.qname == record.name && record.match_qtype(question.qtype) && record.match_qclass(question.qclass)
}

/// Returns whether a querier knows a record long enough that it need not be sent ([RFC 6762] 7.1).
fn suppresses(known: &ResourceRecord<'_>, own: &ResourceRecord<'_>) -> bool {
    known.name == own.name && known.rdata == own.rdata && known.ttl >= own.ttl / 2
}

/// Returns the name to which a record refers.
fn target<'a>(record: &'a ResourceRecord<'static>) -> Option<&'a Name<'static>> {
    match &record.rdata {
        RData::PTR(name) => Some(&name.0),
        RData::SRV(service) => Some(&service.target),
        _ => None,
    }
}

/// Returns what determines the order of records: class, type and data.
fn order(record: &ResourceRecord<'_>) -> (u16, u16, Vec<u8>) {
    let plain = ResourceRecord { ttl: 0, ..record.clone() }.with_cache_flush(false);
    let mut packet = Packet::new_reply(0);
    packet.answers.push(plain);
    let bytes = packet.build_bytes_vec().unwrap_or_default();
    // The data follows the header, the name, type, class, TTL and length, and the name is the same in both.
    let skipped = 12 + record.name.iter().map(|label| label.len() + 1).sum::<usize>() + 1 + 10;
    let kind: TYPE = type_of(record);
    (record.class as u16, kind.into(), bytes.get(skipped..).unwrap_or_default().to_vec())
}
