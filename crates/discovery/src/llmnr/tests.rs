//! The responder in conversations with other hosts.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, TYPE};

use super::*;

const OTHER: &str = "192.0.2.77:50000";
const SECOND: Duration = Duration::from_secs(1);

/// A responder with its own time.
struct Node {
    responder: Responder,
    now: Instant,
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn query(name: &str, kind: QTYPE) -> Packet<'static> {
    let mut packet = Packet::new_query(0x1234);
    let name = Name::new_unchecked(name).into_owned();
    packet.questions.push(Question::new(name, kind, QCLASS::CLASS(CLASS::IN), false));
    packet
}

impl Node {
    fn new(addresses: &[&str]) -> Node {
        let now = Instant::now();
        let (host, refused) = Host::new(&["server".into(), "SERVER".into(), "old".into()]);
        assert!(refused.is_empty());
        let addresses = addresses.iter().map(|address| ip(address)).collect();
        Node { responder: Responder::new(&host, addresses, now, 7), now }
    }

    /// A responder whose names are unique.
    fn running() -> Node {
        let mut node = Node::new(&["192.0.2.1", "2001:db8::1"]);
        assert_eq!(node.pass(SECOND).len(), 6, "two names, three queries each");
        assert_eq!(node.responder.next(), None);
        node
    }

    /// Lets time pass, and returns the queries that are sent meanwhile.
    fn pass(&mut self, time: Duration) -> Vec<Vec<u8>> {
        let end = self.now + time;
        let mut all = self.responder.poll(self.now);
        while let Some(next) = self.responder.next().filter(|next| *next <= end) {
            self.now = next.max(self.now);
            all.extend(self.responder.poll(self.now));
        }
        self.now = end;
        let query = |sent| match sent {
            Outgoing::Query(bytes) => bytes,
            Outgoing::Answer(..) => panic!("nothing was asked"),
        };
        all.into_iter().map(query).collect()
    }

    fn ask_bytes(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let from: SocketAddr = OTHER.parse().unwrap();
        self.responder.receive(from, bytes, self.now);
        let answer = |sent| match sent {
            Outgoing::Answer(to, bytes) => Some(bytes).filter(|_| to == from),
            Outgoing::Query(_) => None,
        };
        self.responder.poll(self.now).into_iter().find_map(answer)
    }

    fn ask(&mut self, packet: &Packet<'_>) -> Option<Vec<u8>> {
        self.ask_bytes(&packet.build_bytes_vec().unwrap())
    }

    /// Returns the addresses or names in the answer.
    fn answers(&mut self, name: &str, kind: QTYPE) -> Option<Vec<String>> {
        let bytes = self.ask(&query(name, kind))?;
        let packet = Packet::parse(&bytes).unwrap();
        assert!(packet.has_flags(PacketFlag::RESPONSE) && packet.id() == 0x1234 && packet.questions.len() == 1);
        assert_eq!(bytes[2..4], [0x80, 0], "the bits C, TC and T are clear");
        let shown = |data: &RData<'_>| match data {
            RData::A(a) => std::net::Ipv4Addr::from(a.address).to_string(),
            RData::AAAA(a) => std::net::Ipv6Addr::from(a.address).to_string(),
            RData::PTR(name) => name.0.to_string(),
            other => format!("{other:?}"),
        };
        assert!(packet.answers.iter().all(|record| record.ttl == 30 && record.name == packet.questions[0].qname));
        Some(packet.answers.iter().map(|record| shown(&record.rdata)).collect())
    }

    /// Receives a response to a query of its own.
    fn respond(&mut self, asked: &[u8], from: &str, tentative: bool) -> Vec<Event> {
        let packet = Packet::parse(asked).unwrap();
        let mut response = Packet::new_reply(packet.id());
        response.questions = packet.questions.clone();
        if tentative {
            response.set_flags(PacketFlag::RECURSION_DESIRED);
        }
        let bytes = response.build_bytes_vec().unwrap();
        self.responder.receive_response(from.parse().unwrap(), &bytes, || Some(ip("192.0.2.1")), self.now);
        self.responder.events()
    }
}

#[test]
fn queries_get_the_addresses_of_the_link() {
    let mut node = Node::running();
    let (v4, v6, any) = (QTYPE::TYPE(TYPE::A), QTYPE::TYPE(TYPE::AAAA), QTYPE::ANY);
    let some = |texts: &[&str]| Some(texts.iter().map(|text| (*text).to_owned()).collect());
    assert_eq!(node.answers("server", v4), some(&["192.0.2.1"]));
    assert_eq!(node.answers("SerVer", v6), some(&["2001:db8::1"]));
    assert_eq!(node.answers("old", any), some(&["192.0.2.1", "2001:db8::1"]));
    assert_eq!(node.answers("server", QTYPE::TYPE(TYPE::MX)), some(&[]), "the name has no such record");
    assert_eq!(node.answers("other", any), None);
    assert_eq!(node.answers("server.local", any), None);
    assert_eq!(node.answers("1.2.0.192.in-addr.arpa", QTYPE::TYPE(TYPE::PTR)), some(&["server"]));
    assert_eq!(node.answers("2.2.0.192.in-addr.arpa", QTYPE::TYPE(TYPE::PTR)), None);
    node.responder.set_addresses(vec![ip("192.0.2.1")], node.now);
    node.pass(SECOND);
    assert_eq!(node.answers("server", v6), some(&[]), "another link has addresses of this version");
    let class = Question::new(Name::new_unchecked("server"), any, QCLASS::CLASS(CLASS::CH), false);
    let mut packet = Packet::new_query(1);
    packet.questions.push(class);
    assert_eq!(node.ask(&packet), None);
}

#[test]
fn a_packet_that_is_not_a_plain_query_is_ignored() {
    let mut node = Node::running();
    let plain = query("server", QTYPE::ANY);
    let mut changes: Vec<Packet<'_>> = Vec::new();
    let mut with = |change: &dyn Fn(&mut Packet<'static>)| {
        let mut packet = plain.clone();
        change(&mut packet);
        changes.push(packet);
    };
    with(&|packet| packet.set_flags(PacketFlag::RESPONSE));
    with(&|packet| packet.set_flags(PacketFlag::AUTHORITATIVE_ANSWER));
    with(&|packet| *packet.opcode_mut() = simple_dns::OPCODE::Notify);
    with(&|packet| packet.questions.push(packet.questions[0].clone()));
    with(&|packet| packet.questions.clear());
    let record = crate::mdns::names::address_data(ip("192.0.2.9"));
    let record = simple_dns::ResourceRecord::new(Name::new_unchecked("server"), CLASS::IN, 1, record);
    with(&|packet| packet.answers.push(record.clone().into_owned()));
    with(&|packet| packet.name_servers.push(record.clone().into_owned()));
    for (number, packet) in changes.iter().enumerate() {
        assert_eq!(node.ask(packet), None, "{number}");
    }
    assert!(node.ask(&plain).is_some());
    let mut long = plain.build_bytes_vec().unwrap();
    long.resize(super::responder::LONGEST_PACKET + 1, 0);
    assert_eq!(node.ask_bytes(&long), None);
    // The bits T and Z, and the result, must be ignored.
    let mut bits = plain.build_bytes_vec().unwrap();
    (bits[2], bits[3]) = (bits[2] | 1, 0x40);
    assert!(node.ask_bytes(&bits).is_some());
}

#[test]
fn until_a_name_is_verified_answers_are_tentative() {
    let mut node = Node::new(&["192.0.2.1"]);
    let asked = node.pass(Duration::from_millis(100));
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0][2..12], [0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(asked[0][12..], *b"\x06server\x00\x00\xff\x00\x01");
    assert_eq!(node.ask(&query("server", QTYPE::ANY)).unwrap()[2..4], [0x81, 0]);
    node.pass(SECOND);
    assert_eq!(node.ask(&query("server", QTYPE::ANY)).unwrap()[2..4], [0x80, 0]);
}

#[test]
fn a_name_of_another_host_is_not_answered() {
    let mut node = Node::new(&["192.0.2.1"]);
    let asked = node.pass(Duration::ZERO);
    let conflict = |from: &str| vec![Event::Conflict("server".into(), ip(from))];
    assert_eq!(node.respond(&asked[0], "192.0.2.77:5355", true), [], "the lower address gets the name");
    let mut other = asked[0].clone();
    other[0] ^= 1;
    assert_eq!(node.respond(&other, "192.0.2.77:5355", false), [], "another query");
    assert_eq!(node.respond(&asked[0], "192.0.2.77:5355", false), conflict("192.0.2.77"));
    assert!(node.ask(&query("server", QTYPE::ANY)).is_none());
    assert!(node.ask(&query("1.2.0.192.in-addr.arpa", QTYPE::ANY)).is_none());
    assert!(node.ask(&query("old", QTYPE::ANY)).is_some());
    node.pass(SECOND * 10);
    assert!(node.ask(&query("server", QTYPE::ANY)).is_none());
    let asked = node.pass(SECOND * 290);
    assert_eq!(asked.len(), 1, "it is verified again");
    assert_eq!(node.respond(&asked[0], "192.0.2.77:5355", false), [], "it is not reported again");
    assert!(node.ask(&query("server", QTYPE::ANY)).is_none());
    assert_eq!(node.pass(SECOND * 301).len(), 3);
    assert!(node.ask(&query("server", QTYPE::ANY)).is_some());

    let mut node = Node::new(&["192.0.2.1"]);
    let asked = node.pass(Duration::ZERO);
    assert_eq!(node.respond(&asked[0], "192.0.2.0:5355", true), conflict("192.0.2.0"));
    let mut node = Node::running();
    assert_eq!(node.respond(&asked[0], "192.0.2.77:5355", false), [], "nothing was asked");
}

#[test]
fn a_report_of_a_conflict_has_the_name_verified_again() {
    let mut node = Node::running();
    let mut report = query("server", QTYPE::ANY);
    report.set_flags(PacketFlag::AUTHORITATIVE_ANSWER);
    assert_eq!(node.ask(&report), None);
    assert_eq!(node.pass(SECOND).len(), 0, "it was verified a moment ago");
    node.pass(SECOND * 60);
    let from = OTHER.parse().unwrap();
    node.responder.receive(from, &report.build_bytes_vec().unwrap(), node.now);
    assert_eq!(node.pass(SECOND).len(), 3);
    node.responder.receive(from, &report.build_bytes_vec().unwrap(), node.now);
    assert_eq!(node.pass(SECOND).len(), 0);
}

#[test]
fn answers_are_limited() {
    let mut node = Node::running();
    let asked = query("server", QTYPE::ANY);
    assert_eq!((0..1000).filter(|_| node.ask(&asked).is_some()).count(), 30);
    let many: Vec<IpAddr> = (0..100).map(|number| ip(&format!("2001:db8::{number}"))).collect();
    let mut node = Node::running();
    node.responder.set_addresses(many, node.now);
    assert!(node.ask(&asked).unwrap().len() <= 512);
}

#[test]
fn illegal_names_are_refused() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let long = "x".repeat(64);
    let (host, refused) = Host::new(&names(&["a", "A", "a.b", "", &long, "b"]));
    assert_eq!((host, refused), (Host::new(&names(&["a", "b"])).0, names(&["a.b", "", &long])));
}

proptest! {
    #[test]
    fn anything_can_be_received(bytes in prop::collection::vec(any::<u8>(), 0..600), at in 0_usize..40, byte: u8) {
        let mut node = Node::new(&["192.0.2.1"]);
        node.pass(Duration::ZERO);
        let mut packet = query("server", QTYPE::ANY).build_bytes_vec().unwrap();
        if let Some(changed) = packet.get_mut(at) {
            *changed = byte;
        }
        for bytes in [&bytes[..], &packet] {
            node.responder.receive(OTHER.parse().unwrap(), bytes, node.now);
            node.responder.receive_response(OTHER.parse().unwrap(), bytes, || None, node.now);
        }
        prop_assert!(node.responder.poll(node.now).len() <= 2);
    }
}
