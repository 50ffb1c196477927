//! The node in conversations with other hosts. The bytes of packets are those of RFC 1002.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

const OWN: &str = "192.0.2.1";
const CARD: [u8; 6] = [2, 0, 0, 0, 0, 9];

/// A responder with its own time.
struct Node {
    responder: Responder,
    now: Instant,
}

fn text(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn subnet(number: u8) -> Subnet {
    Subnet { address: Ipv4Addr::new(192, 0, number, 1), broadcast: Ipv4Addr::new(192, 0, number, 255) }
}

fn arrival(from: &str, broadcast: bool) -> Arrival {
    Arrival { from: from.parse().unwrap(), own: OWN.parse().unwrap(), broadcast }
}

impl Node {
    fn new(scope: &str) -> Node {
        let (host, refused) = Host::new(&text(&["files", "old"]), "HOME", scope);
        assert_eq!(refused, []);
        let now = Instant::now();
        let mut responder = Responder::new(host, CARD, now, 7);
        assert_eq!(responder.next(), None, "it has no address");
        responder.set_subnets(vec![subnet(2)], now);
        Node { responder, now }
    }

    /// A node that has registered its names.
    fn running() -> Node {
        let mut node = Node::new("");
        node.pass(Duration::from_secs(5));
        assert_eq!((node.responder.next(), node.responder.events().len()), (None, 5));
        node
    }

    /// Lets time pass, and returns what is sent meanwhile.
    fn pass(&mut self, time: Duration) -> Vec<Outgoing> {
        let end = self.now + time;
        let mut all = self.responder.poll(self.now);
        while let Some(next) = self.responder.next().filter(|next| *next <= end) {
            self.now = next.max(self.now);
            all.extend(self.responder.poll(self.now));
        }
        self.now = end;
        all
    }

    fn hear(&mut self, arrival: Arrival, bytes: &[u8]) -> Option<Outgoing> {
        self.responder.receive(arrival, bytes, self.now);
        let mut sent = self.responder.poll(self.now);
        assert!(sent.len() <= 1);
        sent.pop()
    }
}

/// Returns an encoded name with its suffix, in the scope without labels.
fn encoded(name: &str, suffix: u8) -> Vec<u8> {
    let mut padded = format!("{name:15}").into_bytes();
    padded.push(suffix);
    let letters = padded.iter().flat_map(|byte| [b'A' + (byte >> 4), b'A' + (byte & 15)]);
    [32].into_iter().chain(letters).chain([0]).collect()
}

fn header(id: u16, flags: u16, counts: [u16; 4]) -> Vec<u8> {
    [id, flags].iter().chain(&counts).flat_map(|word| word.to_be_bytes()).collect()
}

fn query(flags: u16, name: &[u8], kind: u16) -> Vec<u8> {
    [&header(0x1234, flags, [1, 0, 0, 0]), name, &kind.to_be_bytes(), &[0, 1]].concat()
}

fn registration(flags: u16, name: &[u8], is_group: bool) -> Vec<u8> {
    let record = [0xc0, 0x0c, 0, 0x20, 0, 1, 0, 0, 0, 0, 0, 6, if is_group { 0x80 } else { 0 }, 0, 192, 0, 2, 9];
    [&header(0x1234, flags, [1, 0, 0, 1]), name, &[0, 0x20, 0, 1], &record].concat()
}

/// Returns a response with an address.
fn response(id: u16, flags: u16, name: &[u8], ttl: u32, name_flags: u16, address: [u8; 4]) -> Vec<u8> {
    let fixed = [&[0, 0x20, 0, 1][..], &ttl.to_be_bytes(), &[0, 6], &name_flags.to_be_bytes(), &address].concat();
    [&header(id, flags, [0, 1, 0, 0]), name, &fixed].concat()
}

#[test]
fn names_are_registered_by_broadcasts() {
    let mut node = Node::new("");
    let sent = node.pass(Duration::from_secs(5));
    // Three registrations and a demand for each of five names.
    assert_eq!(sent.len(), 5 * 4);
    assert!(sent.iter().all(|packet| packet.own == subnet(2).address && packet.to.to_string() == "192.0.2.255:137"));
    let flags = |packet: &&Outgoing| [packet.bytes[2], packet.bytes[3]];
    assert_eq!(sent.iter().filter(|packet| flags(packet) == [0x29, 0x10]).count(), 15);
    assert_eq!(sent.iter().filter(|packet| flags(packet) == [0x28, 0x10]).count(), 5);
    let first = &sent[0].bytes;
    let id = u16::from_be_bytes([first[0], first[1]]);
    let record = [0xc0, 0x0c, 0, 0x20, 0, 1, 0, 0, 0, 0, 0, 6, 0x80, 0, 192, 0, 2, 1];
    let expected = [&header(id, 0x2910, [1, 0, 0, 1]), &encoded("HOME", 0)[..], &[0, 0x20, 0, 1], &record].concat();
    assert_eq!(*first, expected);
    for (name, suffix) in [("FILES", 0), ("FILES", 0x20), ("OLD", 0), ("OLD", 0x20)] {
        let named = sent.iter().filter(|packet| packet.bytes[12..46] == encoded(name, suffix));
        assert_eq!(named.count(), 4, "{name}");
    }
    let events = node.responder.events();
    assert!(events.contains(&Event::Registered("FILES<20>".into())), "{events:?}");
}

#[test]
fn queries_are_answered_with_the_address_of_their_network() {
    let mut node = Node::running();
    let mut asked = |name: &[u8]| node.hear(arrival("192.0.2.9:4000", true), &query(0x0110, name, 0x20));
    let (name, group) = (encoded("FILES", 0x20), encoded("HOME", 0));
    let sent = asked(&name).expect("an answer");
    assert_eq!((sent.own.to_string(), sent.to.to_string()), (OWN.into(), "192.0.2.9:4000".into()));
    assert_eq!(sent.bytes, response(0x1234, 0x8500, &name, 300, 0, [192, 0, 2, 1]));
    assert_eq!(asked(&group).unwrap().bytes, response(0x1234, 0x8500, &group, 300, 0x8000, [192, 0, 2, 1]));
    let lower = encoded("files", 0x20);
    assert_eq!(asked(&lower).unwrap().bytes, response(0x1234, 0x8500, &lower, 300, 0, [192, 0, 2, 1]));
    for other in [encoded("OTHER", 0x20), encoded("FILES", 0x1d), encoded("FILES1", 0x20)] {
        assert_eq!(asked(&other), None);
    }
    // Another scope, another type, another class.
    let mut scoped = name.clone();
    scoped.splice(33.., *b"\x03abc\0");
    assert_eq!(asked(&scoped), None);
    assert_eq!(node.hear(arrival("192.0.2.9:4000", true), &query(0x0110, &name, 1)), None);
    let mut class = query(0x0110, &name, 0x20);
    *class.last_mut().unwrap() = 3;
    assert_eq!(node.hear(arrival("192.0.2.9:4000", true), &class), None);
}

#[test]
fn a_scope_separates_hosts() {
    let mut node = Node::new("Sales.Example");
    node.pass(Duration::from_secs(5));
    let mut name = encoded("FILES", 0x20);
    let from = arrival("192.0.2.9:137", true);
    assert_eq!(node.hear(from, &query(0x0110, &name, 0x20)), None);
    name.splice(33.., *b"\x05SALES\x07example\0");
    let sent = node.hear(from, &query(0x0110, &name, 0x20)).expect("an answer");
    assert_eq!(sent.bytes, response(0x1234, 0x8500, &name, 300, 0, [192, 0, 2, 1]));
}

#[test]
fn the_status_has_the_names_and_the_card() {
    let mut node = Node::running();
    let mut any = encoded("", 0);
    any[1..33].copy_from_slice(b"CKAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    let sent = node.hear(arrival("192.0.2.9:4000", false), &query(0, &any, 0x21)).expect("an answer").bytes;
    assert_eq!(sent[..12], header(0x1234, 0x8400, [0, 1, 0, 0]));
    assert_eq!(sent[12..46], any);
    assert_eq!(sent[46..54], [0, 0x21, 0, 1, 0, 0, 0, 0]);
    let length = usize::from(u16::from_be_bytes([sent[54], sent[55]]));
    assert_eq!((length, sent.len()), (1 + 5 * 18 + 46, 56 + length));
    assert_eq!(sent[56], 5);
    assert_eq!(sent[57..75], *b"HOME           \x00\x84\x00");
    assert_eq!(sent[93..111], *b"FILES          \x20\x04\x00");
    assert_eq!(sent[57 + 90..57 + 96], CARD);
    let own = query(0, &encoded("FILES", 0), 0x21);
    assert!(node.hear(arrival("192.0.2.9:4000", false), &own).is_some());
    let other = query(0, &encoded("OTHER", 0), 0x21);
    assert_eq!(node.hear(arrival("192.0.2.9:4000", false), &other), None);
    assert_eq!(node.hear(arrival("192.0.2.9:4000", true), &query(0, &any, 0x21)), None, "all hosts would answer");
}

#[test]
fn names_are_defended() {
    let mut node = Node::running();
    let from = arrival("192.0.2.9:137", true);
    let (unique, group) = (encoded("FILES", 0), encoded("HOME", 0));
    // A registration, a demand, and a member of a group with a name of this host.
    for (flags, is_group) in [(0x2910, false), (0x2810, false), (0x2910, true)] {
        let sent = node.hear(from, &registration(flags, &unique, is_group)).expect("a refusal");
        assert_eq!(sent.to.to_string(), "192.0.2.9:137");
        assert_eq!(sent.bytes, response(0x1234, 0xad86, &unique, 0, 0, [192, 0, 2, 1]));
    }
    let sent = node.hear(from, &registration(0x7910, &unique, false)).expect("a refusal for a multihomed host");
    assert_eq!(sent.bytes[2..4], [0xfd, 0x86]);
    assert_eq!(node.hear(from, &registration(0x2910, &group, true)), None, "a group has several members");
    assert!(node.hear(from, &registration(0x2910, &group, false)).is_some());
    assert_eq!(node.hear(from, &registration(0x2910, &encoded("OTHER", 0), false)), None);
    // A conflict demand, which any host could send.
    assert_eq!(node.hear(from, &response(0x1234, 0xac87, &unique, 0, 0, [192, 0, 2, 9])), None);
    assert!(node.hear(from, &query(0x0110, &unique, 0x20)).is_some());
}

#[test]
fn a_name_of_another_host_is_not_used() {
    let mut node = Node::new("");
    let name = encoded("FILES", 0x20);
    let sent = node.responder.poll(node.now);
    let id = |sent: &[Outgoing]| {
        let packet = sent.iter().find(|packet| packet.bytes[12..46] == name).expect("a registration");
        u16::from_be_bytes([packet.bytes[0], packet.bytes[1]])
    };
    let refusal = |id| response(id, 0xad86, &name, 0, 0, [192, 0, 2, 9]);
    let from = arrival("192.0.2.9:137", false);
    assert_eq!(node.hear(from, &refusal(id(&sent).wrapping_add(1))), None);
    assert_eq!(node.responder.events(), [], "it is about another registration");
    node.hear(from, &refusal(id(&sent)));
    let conflict = Event::Conflict("FILES<20>".into(), *from.from.ip());
    assert_eq!(node.responder.events(), [conflict]);
    let sent = node.pass(Duration::from_secs(10));
    assert!(sent.iter().all(|packet| packet.bytes[12..46] != name));
    assert_eq!(node.responder.events().len(), 4);
    assert_eq!(node.hear(arrival("192.0.2.9:137", true), &query(0x0110, &name, 0x20)), None);
    let released = node.responder.release(&[subnet(2)]);
    assert_eq!(released.len(), 4, "the name is not released");
    // It still has the name after five minutes, which is not reported again.
    let sent = node.pass(Duration::from_millis(290_100));
    node.hear(from, &refusal(id(&sent)));
    assert_eq!((node.responder.events(), node.pass(Duration::from_secs(10))), (vec![], vec![]));
    // The other host has gone.
    let sent = node.pass(Duration::from_secs(310));
    assert_eq!(sent.len(), 4);
    assert_eq!(node.responder.events(), [Event::Registered("FILES<20>".into())]);
    assert!(node.hear(arrival("192.0.2.9:137", true), &query(0x0110, &name, 0x20)).is_some());
    node.hear(from, &refusal(id(&sent)));
    assert_eq!(node.responder.events(), [], "a refusal after the registration is ignored");
}

#[test]
fn names_are_released() {
    let mut node = Node::running();
    let sent = node.responder.release(&[subnet(2)]);
    assert_eq!(sent.len(), 5);
    assert!(sent.iter().all(|packet| packet.bytes[2..4] == [0x30, 0x10]));
    assert_eq!(sent[1].bytes[12..46], encoded("FILES", 0));
    assert_eq!(sent[1].bytes[50..], [0xc0, 0x0c, 0, 0x20, 0, 1, 0, 0, 0, 0, 0, 6, 0, 0, 192, 0, 2, 1]);
    assert_eq!(Node::new("").responder.release(&[subnet(2)]), [], "nothing is registered");
}

#[test]
fn addresses_are_followed() {
    let mut node = Node::running();
    node.responder.set_subnets(vec![subnet(2)], node.now);
    assert_eq!(node.responder.next(), None);
    node.responder.set_subnets(vec![subnet(2), subnet(3)], node.now);
    let sent = node.pass(Duration::from_secs(5));
    assert_eq!(sent.iter().filter(|packet| packet.own == subnet(3).address).count(), 20);
    node.responder.set_subnets(vec![subnet(3)], node.now);
    assert_eq!(node.pass(Duration::from_secs(5)), []);
}

#[test]
fn a_sender_gets_a_limited_number_of_answers() {
    let mut node = Node::running();
    let asked = query(0x0110, &encoded("FILES", 0), 0x20);
    let from = arrival("192.0.2.9:137", true);
    let answered = (0..1000).filter(|_| node.hear(from, &asked).is_some()).count();
    assert_eq!(answered, 30);
    assert!(node.hear(arrival("192.0.2.10:137", true), &asked).is_some());
}

#[test]
fn illegal_names_are_refused_and_the_others_registered() {
    let refused = |names: &[&str], workgroup: &str, scope: &str| {
        let (host, refused) = Host::new(&text(names), workgroup, scope);
        (host.names().len(), refused.into_iter().map(|refused| refused.name).collect::<Vec<_>>())
    };
    assert_eq!(refused(&["FILES", "files"], "HOME", ""), (3, vec![]));
    assert_eq!(refused(&["FILES", "HOME"], "HOME", ""), (3, text(&["HOME"])));
    let bad = ["BÜRO", "", "A B", "A/B", "*", "SIXTEENLETTERSXX"];
    assert_eq!(refused(&bad, "KÜCHE", ""), (0, text(&["KÜCHE", "BÜRO", "", "A B", "A/B", "*", "SIXTEENLETTERSXX"])));
    assert_eq!(refused(&["FILES"], "HOME", "a..b"), (0, text(&["a..b"])));
    assert_eq!(refused(&["FILES"], "HOME", &"x".repeat(64)).0, 0);
    let many: Vec<String> = (0..20).map(|number| format!("N{number}")).collect();
    let (host, refused) = Host::new(&many, "HOME", "");
    assert_eq!((host.names().len(), refused.len()), (25, 8));
    // The response to a status request has at most the bytes that every host accepts.
    let mut responder = Responder::new(host, CARD, Instant::now(), 1);
    responder.set_subnets(vec![subnet(2)], Instant::now());
    let mut node = Node { responder, now: Instant::now() };
    node.pass(Duration::from_secs(5));
    let sent = node.hear(arrival("192.0.2.9:137", false), &query(0, &encoded("N1", 0), 0x21)).unwrap();
    assert!(sent.bytes.len() <= 576, "{}", sent.bytes.len());
}

proptest! {
    #[test]
    fn anything_can_be_received(bytes in prop::collection::vec(any::<u8>(), 0..600), at in 0_usize..80, byte: u8) {
        let mut node = Node::running();
        node.hear(arrival("192.0.2.9:137", false), &bytes);
        for mut packet in [
            query(0x0110, &encoded("FILES", 0), 0x20),
            registration(0x2910, &encoded("FILES", 0), false),
            response(1, 0xad86, &encoded("FILES", 0), 0, 0, [192, 0, 2, 9]),
        ] {
            if let Some(changed) = packet.get_mut(at) {
                *changed = byte;
            }
            let length = packet.len();
            node.hear(arrival("192.0.2.9:137", false), &packet);
            node.hear(arrival("192.0.2.9:137", false), &packet[..at.min(length)]);
        }
    }
}
