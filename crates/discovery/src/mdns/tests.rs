//! The responder in conversations with other hosts.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, ResourceRecord, TYPE};

use super::*;

const OTHER: &str = "192.0.2.77:5353";

/// A responder with its own time.
struct Bed {
    responder: Responder,
    now: Instant,
}

fn host() -> Host {
    let service = |kind: &str, port, text: &[&str]| Service {
        kind: kind.into(),
        port,
        text: text.iter().map(|text| (*text).to_owned()).collect(),
    };
    Host {
        name: "server".into(),
        instance: "The Server".into(),
        services: vec![service("_smb._tcp", 445, &[]), service("_device-info._tcp", 0, &["model=RackMac"])],
    }
}

impl Bed {
    fn new() -> Bed {
        let now = Instant::now();
        let addresses = vec!["192.0.2.1".parse().unwrap(), "fe80::1".parse().unwrap()];
        Bed { responder: Responder::new(host(), addresses, now, 7), now }
    }

    /// A responder that has announced its records a while ago.
    fn running() -> Bed {
        let mut bed = Bed::new();
        bed.pass(Duration::from_secs(20));
        assert_eq!(bed.responder.next(), None);
        bed
    }

    /// Lets time pass, and returns what is sent meanwhile.
    fn pass(&mut self, time: Duration) -> Vec<Outgoing> {
        let end = self.now + time;
        let mut all = Vec::new();
        while let Some(next) = self.responder.next().filter(|next| *next <= end) {
            self.now = next.max(self.now);
            all.extend(self.responder.poll(self.now));
        }
        self.now = end;
        all.extend(self.responder.poll(self.now));
        all
    }

    fn receive(&mut self, from: &str, packet: &Packet<'_>) {
        let bytes = packet.build_bytes_vec_compressed().unwrap();
        self.responder.receive(from.parse().unwrap(), &bytes, self.now);
    }

    /// Sends a question and returns the answers.
    fn ask(&mut self, name: &str, kind: QTYPE) -> Vec<String> {
        self.receive(OTHER, &query(name, kind));
        answers(&self.pass(Duration::from_secs(1)))
    }
}

fn query(name: &str, kind: QTYPE) -> Packet<'static> {
    let mut packet = Packet::new_query(0);
    let name = Name::new(name).unwrap().into_owned();
    packet.questions.push(Question::new(name, kind, QCLASS::CLASS(CLASS::IN), false));
    packet
}

fn of_type(kind: TYPE) -> QTYPE {
    QTYPE::TYPE(kind)
}

fn shown(record: &ResourceRecord<'_>) -> String {
    let data = match &record.rdata {
        RData::A(address) => std::net::Ipv4Addr::from(address.address).to_string(),
        RData::AAAA(address) => std::net::Ipv6Addr::from(address.address).to_string(),
        RData::PTR(name) => name.0.to_string(),
        RData::SRV(service) => format!("{}:{}", service.target, service.port),
        RData::TXT(text) => format!("{:?}", text.clone().attributes()),
        RData::NSEC(nsec) => format!("{:?}", nsec.type_bit_maps[0].bitmap),
        other => format!("{other:?}"),
    };
    format!("{} {:?} {} {data}", record.name, record.rdata.type_code(), record.ttl)
}

fn answers(sent: &[Outgoing]) -> Vec<String> {
    let mut all: Vec<_> = sent
        .iter()
        .flat_map(|it| {
            let packet = Packet::parse(&it.bytes).unwrap();
            packet.answers.iter().map(shown).collect::<Vec<_>>()
        })
        .collect();
    all.sort();
    all
}

fn has(answers: &[String], parts: &[&str]) {
    for part in parts {
        assert!(answers.iter().any(|answer| answer.contains(part)), "no {part:?} in {answers:#?}");
    }
}

#[test]
fn names_are_probed_three_times_and_then_announced() {
    let mut bed = Bed::new();
    let sent = bed.pass(Duration::from_secs(10));
    let (probes, announced) = sent.split_at(3);
    for probe in probes {
        assert_eq!(probe.to, Destination::Multicast);
        let packet = Packet::parse(&probe.bytes).unwrap();
        assert!(!packet.has_flags(PacketFlag::RESPONSE) && packet.answers.is_empty());
        let asked: BTreeSet<_> = packet.questions.iter().map(|question| question.qname.to_string()).collect();
        assert_eq!(asked.len(), 3, "the host and two instances: {asked:?}");
        assert!(packet.questions.iter().all(|question| question.unicast_response && question.qtype == QTYPE::ANY));
        assert_eq!(packet.name_servers.len(), 6, "two addresses, and SRV and TXT of two services");
    }
    assert_eq!(announced.len(), 3);
    let all = answers(&announced[..1]);
    has(&all, &["server.local A 120 192.0.2.1", "server.local AAAA 120 fe80::1", "The Server._smb._tcp.local SRV"]);
    has(
        &all,
        &["1.2.0.192.in-addr.arpa PTR 120 server.local", "_services._dns-sd._udp.local PTR 4500 _smb._tcp.local"],
    );
    has(&all, &["model"]);
    let packet = Packet::parse(&announced[0].bytes).unwrap();
    assert!(packet.has_flags(PacketFlag::RESPONSE | PacketFlag::AUTHORITATIVE_ANSWER));
    for record in &packet.answers {
        let is_shared = record.name.to_string().starts_with('_');
        assert_eq!(record.cache_flush, !is_shared, "{record:?}");
    }
}

#[test]
fn a_browser_gets_the_instance_and_everything_about_it() {
    let mut bed = Bed::running();
    let found = bed.ask("_smb._tcp.local", of_type(TYPE::PTR));
    has(&found, &["_smb._tcp.local PTR", "SRV 120 server.local:445", "TXT", "A 120 192.0.2.1", "AAAA 120 fe80::1"]);
    assert!(!found.iter().any(|answer| answer.contains("device-info")), "{found:?}");
    assert_eq!(bed.ask("_ipp._tcp.local", of_type(TYPE::PTR)), [""; 0]);
    bed.pass(Duration::from_secs(5));
    assert_eq!(bed.ask("SERVER.local", of_type(TYPE::A)), ["server.local A 120 192.0.2.1"]);
}

#[test]
fn a_known_answer_is_not_repeated() {
    let mut bed = Bed::running();
    for (ttl, expected) in [(4500, 0), (2250, 0), (2000, 1)] {
        bed.pass(Duration::from_secs(5));
        let mut packet = query("_services._dns-sd._udp.local", of_type(TYPE::PTR));
        for kind in ["_smb._tcp.local", "_device-info._tcp.local"] {
            let data = RData::PTR(simple_dns::rdata::PTR(Name::new(kind).unwrap().into_owned()));
            let ttl = if kind == "_smb._tcp.local" { ttl } else { 4500 };
            packet.answers.push(ResourceRecord::new(
                Name::new("_services._dns-sd._udp.local").unwrap(),
                CLASS::IN,
                ttl,
                data,
            ));
        }
        bed.receive(OTHER, &packet);
        let sent = answers(&bed.pass(Duration::from_secs(1)));
        let types = sent.iter().filter(|answer| answer.starts_with("_services")).count();
        assert_eq!(types, expected, "TTL {ttl}: {sent:?}");
    }
}

#[test]
fn many_questions_cause_one_answer_a_second() {
    let mut bed = Bed::running();
    let mut sent = Vec::new();
    for _ in 0..1000 {
        bed.receive(OTHER, &query("server.local", of_type(TYPE::A)));
        sent.extend(bed.pass(Duration::from_millis(3)));
    }
    assert!((3..=4).contains(&sent.len()), "{} answers in three seconds", sent.len());
}

#[test]
fn a_unicast_answer_is_given_if_the_record_was_multicast_lately() {
    let mut bed = Bed::running();
    let mut packet = query("server.local", of_type(TYPE::A));
    packet.questions[0].unicast_response = true;
    bed.receive(OTHER, &packet);
    let sent = bed.pass(Duration::from_secs(1));
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].to, Destination::Unicast(OTHER.parse().unwrap()));
    bed.pass(Duration::from_secs(60));
    bed.receive(OTHER, &packet);
    assert_eq!(bed.pass(Duration::from_secs(1))[0].to, Destination::Multicast, "half of its life is over");
}

#[test]
fn unicast_answers_are_limited() {
    let mut bed = Bed::running();
    let mut sent = 0;
    for _ in 0..10_000 {
        bed.receive("192.0.2.9:40000", &query("server.local", QTYPE::ANY));
        sent += bed.pass(Duration::from_micros(100)).len();
    }
    assert!((40..=61).contains(&sent), "{sent} in one second");
}

#[test]
fn a_simple_resolver_gets_a_usable_answer() {
    let mut bed = Bed::running();
    let mut packet = query("server.local", of_type(TYPE::A));
    packet.set_id(77);
    bed.receive("192.0.2.9:40000", &packet);
    let sent = bed.pass(Duration::from_millis(1));
    assert_eq!(sent.len(), 1);
    let answer = Packet::parse(&sent[0].bytes).unwrap();
    assert_eq!((answer.id(), answer.questions.len()), (77, 1));
    assert_eq!(answers(&sent), ["server.local A 10 192.0.2.1"]);
    assert!(!answer.answers[0].cache_flush);
}

#[test]
fn a_missing_type_is_denied() {
    let now = Instant::now();
    let mut bed = Bed { responder: Responder::new(host(), vec!["192.0.2.1".parse().unwrap()], now, 3), now };
    bed.pass(Duration::from_secs(20));
    // The bitmap has the bit of type A, 1.
    assert_eq!(bed.ask("server.local", of_type(TYPE::AAAA)), ["server.local NSEC 120 [64]"]);
}

fn response_with(name: &str, data: RData<'static>, ttl: u32) -> Packet<'static> {
    let mut packet = Packet::new_reply(0);
    let name = Name::new(name).unwrap().into_owned();
    packet.answers.push(ResourceRecord::new(name, CLASS::IN, ttl, data));
    packet
}

fn address(text: &str) -> RData<'static> {
    let address: std::net::Ipv4Addr = text.parse().unwrap();
    RData::A(simple_dns::rdata::A { address: address.into() })
}

#[test]
fn a_name_that_another_host_has_is_changed() {
    let mut bed = Bed::new();
    bed.pass(Duration::from_millis(300));
    bed.receive(OTHER, &response_with("server.local", address("192.0.2.77"), 120));
    let all = answers(&bed.pass(Duration::from_secs(10)));
    has(&all, &["server-2.local A 120 192.0.2.1", "The Server._smb._tcp.local SRV 120 server-2.local:445"]);
    assert!(!all.iter().any(|answer| answer.starts_with("server.local")));

    let srv = |target: &str| {
        let target = Name::new(target).unwrap().into_owned();
        RData::SRV(simple_dns::rdata::SRV { priority: 0, weight: 0, port: 445, target })
    };
    let mut bed = Bed::new();
    bed.pass(Duration::from_millis(300));
    bed.receive(OTHER, &response_with("The Server._smb._tcp.local", srv("other.local"), 120));
    let all = answers(&bed.pass(Duration::from_secs(10)));
    has(&all, &["The Server (2)._smb._tcp.local SRV 120 server.local:445"]);
    assert_eq!(bed.responder.instance(), "The Server (2)");
}

#[test]
fn a_running_responder_defends_its_name_and_probes_again_after_a_conflict() {
    let mut bed = Bed::running();
    let mut probe = query("server.local", QTYPE::ANY);
    let theirs = ResourceRecord::new(Name::new("server.local").unwrap(), CLASS::IN, 120, address("192.0.2.77"));
    probe.name_servers.push(theirs);
    bed.receive(OTHER, &probe);
    has(&answers(&bed.responder.poll(bed.now)), &["server.local A 120 192.0.2.1"]);

    // The other host has withdrawn it, or has the same record: that is not a conflict.
    bed.receive(OTHER, &response_with("server.local", address("192.0.2.77"), 0));
    bed.receive(OTHER, &response_with("server.local", address("192.0.2.1"), 120));
    assert_eq!(bed.responder.next(), None);
    bed.receive(OTHER, &response_with("server.local", address("192.0.2.77"), 120));
    let sent = bed.pass(Duration::from_millis(800));
    assert!(!Packet::parse(&sent[0].bytes).unwrap().has_flags(PacketFlag::RESPONSE), "a probe");
    has(&answers(&bed.pass(Duration::from_secs(10))), &["server.local A 120 192.0.2.1"]);
}

#[test]
fn the_host_with_the_lower_records_waits() {
    for (theirs, waits) in [("192.0.2.77", true), ("10.0.0.1", false)] {
        let mut bed = Bed::new();
        bed.pass(Duration::from_millis(400));
        let mut probe = query("server.local", QTYPE::ANY);
        let name = Name::new("server.local").unwrap();
        probe.name_servers.push(ResourceRecord::new(name, CLASS::IN, 120, address(theirs)));
        bed.receive(OTHER, &probe);
        let soon = bed.pass(Duration::from_millis(900));
        assert_eq!(answers(&soon).is_empty(), waits, "{theirs}");
        has(&answers(&bed.pass(Duration::from_secs(3))), &["server.local A 120 192.0.2.1"]);
    }
}

#[test]
fn a_host_with_many_conflicts_becomes_slow() {
    let mut bed = Bed::new();
    let mut packets = 0;
    for _ in 0..2000 {
        let sent = bed.pass(Duration::from_millis(10));
        // The other host claims every name that is probed.
        for packet in &sent {
            for question in Packet::parse(&packet.bytes).unwrap().questions {
                bed.receive(OTHER, &response_with(&question.qname.to_string(), address("192.0.2.77"), 120));
            }
        }
        packets += sent.len();
    }
    assert!(packets < 40, "{packets} packets in twenty seconds");
}

#[test]
fn a_new_address_is_announced_and_an_old_one_is_withdrawn() {
    let mut bed = Bed::running();
    let new = vec!["192.0.2.5".parse().unwrap(), "fe80::1".parse().unwrap()];
    bed.responder.set_addresses(new.clone(), bed.now);
    let all = answers(&bed.pass(Duration::from_millis(10)));
    has(&all, &["server.local A 0 192.0.2.1", "server.local A 120 192.0.2.5", "5.2.0.192.in-addr.arpa PTR 120"]);
    bed.pass(Duration::from_secs(20));
    bed.responder.set_addresses(new, bed.now);
    assert_eq!(bed.responder.next(), None, "nothing has changed");
    let last = answers(&bed.responder.goodbye());
    has(&last, &["server.local A 0 192.0.2.5", "_smb._tcp.local PTR 0"]);
    assert!(last.iter().all(|answer| answer.split(' ').any(|word| word == "0")), "{last:?}");
    assert!(Bed::new().responder.goodbye().is_empty(), "nothing was announced");
}

#[test]
fn arbitrary_packets_do_no_harm() {
    let mut bed = Bed::running();
    let mut packet = query("The Server._smb._tcp.local", QTYPE::ANY);
    packet.answers.push(ResourceRecord::new(Name::new("server.local").unwrap(), CLASS::IN, 1, address("1.2.3.4")));
    let bytes = packet.build_bytes_vec_compressed().unwrap();
    let from: SocketAddr = OTHER.parse().unwrap();
    for length in 0..bytes.len() {
        bed.responder.receive(from, &bytes[..length], bed.now);
    }
    for bit in 0..bytes.len() * 8 {
        let mut wrong = bytes.clone();
        wrong[bit / 8] ^= 1 << (bit % 8);
        bed.responder.receive(from, &wrong, bed.now);
        bed.pass(Duration::from_millis(1));
    }
    bed.responder.receive(from, &[0xc0; 9001], bed.now);
    bed.responder.receive(from, &[0xff; 9000], bed.now);
}

#[test]
fn long_names_are_shortened() {
    let host = Host { name: "ä".repeat(100), instance: "x.y ".repeat(40), services: host().services };
    let now = Instant::now();
    let mut bed = Bed { responder: Responder::new(host, vec!["192.0.2.1".parse().unwrap()], now, 3), now };
    for packet in bed.pass(Duration::from_secs(20)) {
        assert!(packet.bytes.len() <= 1440);
        let packet = Packet::parse(&packet.bytes).unwrap();
        for record in &packet.answers {
            assert!(record.name.iter().all(|label| (1..=63).contains(&label.len())), "{record:?}");
        }
    }
}
