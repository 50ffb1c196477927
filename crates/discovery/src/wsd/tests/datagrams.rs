//! Discovery by UDP.

use std::time::{Duration, Instant};

use super::samples::*;
use crate::wsd::message::{self, Body, Message, Target};
use crate::wsd::responder::{APP_MAX_DELAY, Datagram, MAX_AMPLIFICATION, Reply, UDP_UPPER_DELAY};
use crate::wsd::{Group, Host};

fn parsed(bytes: &[u8]) -> Message {
    message::parse(bytes, message::MAX_DATAGRAM_SIZE).unwrap()
}

fn own_target() -> Target {
    Target {
        endpoint: ENDPOINT.to_owned(),
        types: message::own_types().to_vec(),
        xaddrs: vec![format!("http://192.168.0.2:5357/{UUID}")],
        metadata_version: Some(1_700_000_000),
    }
}

fn check_headers(reply: &Reply, action: &str, relates_to: &str) -> Message {
    let message = parsed(&reply.transmission.bytes);
    assert_eq!(message.header.action, action);
    assert_eq!(message.header.to.as_deref(), Some(message::ANONYMOUS));
    assert_eq!(message.header.relates_to.as_deref(), Some(relates_to));
    assert_eq!(message.header.message_id.as_deref(), Some("urn:uuid:01234567-89ab-4def-8123-456789abcdef"));
    let sequence = message.header.app_sequence.as_ref().unwrap();
    assert_eq!((sequence.instance_id, sequence.sequence_id.as_deref()), (1_700_000_000, Some(ENDPOINT)));
    message
}

#[test]
fn a_probe_of_windows_is_answered() {
    for types in ["wsdp:Device", "pub:Computer", "wsdp:Device pub:Computer", "\r\n pub:Computer\twsdp:Device ", ""] {
        let reply = ask(&mut responder(), &windows_probe(types)).unwrap();
        assert_eq!(reply.to, client());
        let id = "urn:uuid:29cf10da-5c41-4d55-b184-5ee15e38ce23";
        let message = check_headers(&reply, message::action::PROBE_MATCHES, id);
        assert_eq!(message.body, Body::ProbeMatches(vec![own_target()]));
    }
}

#[test]
fn prefixes_and_white_space_do_not_matter() {
    let reply = ask(&mut responder(), &other_probe()).unwrap();
    let message = check_headers(&reply, message::action::PROBE_MATCHES, "urn:uuid:1");
    assert_eq!(message.body, Body::ProbeMatches(vec![own_target()]));
    assert!(ask(&mut responder(), &short_probe()).is_some());
}

#[test]
fn a_probe_for_something_else_is_not_answered() {
    let probe = windows_probe("wsdp:Device");
    for (from, to) in [
        ("wsdp:Device<", "wsdp:Printer<"),
        ("wsdp:Device<", "wsdp:Device pub:Printer<"),
        ("wsdp:Device<", "pub:Device<"),
        ("wsdp:Device<", "Device<"),
        ("wsdp:Device<", "unknown:Device<"),
        ("/devprof\"", "/devprof/\""),
        ("</wsd:Types>", "</wsd:Types><wsd:Scopes>ldap:///ou=x</wsd:Scopes>"),
        ("2005/04/discovery/Probe<", "2009/01/Probe<"),
        ("2005/04/discovery\"", "2009/01/discovery\""),
        ("2003/05/soap-envelope", "2003/06/soap-envelope"),
        ("urn:schemas-xmlsoap-org:ws:2005:04:discovery", ENDPOINT),
        ("urn:uuid:29cf10da-5c41-4d55-b184-5ee15e38ce23", " "),
        ("<wsa:To>urn:schemas-xmlsoap-org:ws:2005:04:discovery</wsa:To>", ""),
        ("</soap:Header>", "<wsa:ReplyTo><wsa:Address>http://10.0.0.1/</wsa:Address></wsa:ReplyTo></soap:Header>"),
        ("</soap:Header>", "<wsa:ReplyTo/></soap:Header>"),
        ("</soap:Header>", "<wsa:MessageID>urn:uuid:2</wsa:MessageID></soap:Header>"),
        ("</soap:Header>", "<wsd:Security soap:mustUnderstand=\"1\"/></soap:Header>"),
        ("wsd:Probe>", "wsd:Other>"),
        ("<?xml version=\"1.0\" encoding=\"utf-8\"?>", "<!DOCTYPE x>"),
        ("</soap:Envelope>", ""),
    ] {
        let changed = probe.replace(from, to);
        assert_ne!(changed, probe, "{from}");
        assert_eq!(ask(&mut responder(), &changed), None, "{to}");
    }
    let with_scopes = probe.replace("</wsd:Types>", "</wsd:Types><wsd:Scopes> </wsd:Scopes>");
    assert!(ask(&mut responder(), &with_scopes).is_some());
    let large = probe.replace("</wsd:Types>", &format!("</wsd:Types>{}", " ".repeat(4096)));
    assert_eq!(ask(&mut responder(), &large), None);
}

#[test]
fn a_resolve_is_answered_for_the_own_endpoint() {
    for endpoint in [ENDPOINT.to_owned(), ENDPOINT.to_uppercase(), format!("\n  {ENDPOINT}\n")] {
        let reply = ask(&mut responder(), &windows_resolve(&endpoint)).unwrap();
        let id = "urn:uuid:38d1c3d9-8d73-4424-8861-6b7ee2af24d3";
        let message = check_headers(&reply, message::action::RESOLVE_MATCHES, id);
        assert_eq!(message.body, Body::ResolveMatches(vec![own_target()]));
    }
    for endpoint in ["urn:uuid:37f86d35-e6ac-4241-964f-1d9ae46fb367", UUID, "", "urn:uuid:"] {
        assert_eq!(ask(&mut responder(), &windows_resolve(endpoint)), None);
    }
}

#[test]
fn other_messages_are_not_answered() {
    let mut responder = responder();
    let hello = String::from_utf8(responder.hello(OWN, RANDOM).bytes).unwrap();
    let bye = String::from_utf8(responder.bye(RANDOM).bytes).unwrap();
    let reply = ask(&mut responder, &short_probe()).unwrap().transmission.bytes;
    let unknown = windows_probe("").replace("discovery/Probe<", "discovery/Unknown<");
    for text in [hello, bye, String::from_utf8(reply).unwrap(), unknown, windows_get(), String::new()] {
        assert_eq!(ask(&mut responder, &text), None);
    }
}

#[test]
fn announcements_parse_again() {
    let mut responder = responder();
    let hello = responder.hello(OWN, RANDOM);
    let message = parsed(&hello.bytes);
    assert_eq!(message.header.action, message::action::HELLO);
    assert_eq!(message.header.to.as_deref(), Some(message::DISCOVERY_TO));
    assert_eq!(message.body, Body::Hello(own_target()));
    assert_eq!(message.header.app_sequence.unwrap().message_number, 1);
    let bye = responder.bye(RANDOM);
    let message = parsed(&bye.bytes);
    assert_eq!(message.header.app_sequence.unwrap().message_number, 2);
    assert_eq!(message.body, Body::Bye(Target { endpoint: ENDPOINT.to_owned(), ..Target::default() }));
    assert_eq!(bye.delays[0], Duration::ZERO);
    assert_eq!((hello.delays.len(), bye.delays.len()), (5, 5));
}

#[test]
fn an_ipv6_link_has_no_zone() {
    let Body::Hello(target) = parsed(&responder().hello(OWN_V6, RANDOM).bytes).body else { panic!() };
    assert_eq!(target.xaddrs, [format!("http://[fe80::1:2]:5357/{UUID}")]);
    let probe = short_probe();
    let datagram = Datagram { own: OWN_V6, from: "[fe80::77%3]:50000".parse().unwrap(), bytes: probe.as_bytes() };
    let reply = responder().on_datagram(Instant::now(), &datagram, RANDOM).unwrap();
    // The zone stays in the destination.
    assert_eq!(reply.to, datagram.from);
}

#[test]
fn a_repetition_is_not_answered() {
    let mut responder = responder();
    let probe = windows_probe("wsdp:Device");
    assert!(ask(&mut responder, &probe).is_some());
    assert_eq!(ask(&mut responder, &probe), None);
    // Another sender may have the same MessageID.
    let other = "192.168.0.78:53421".parse().unwrap();
    assert!(ask_at(&mut responder, Instant::now(), other, &probe).is_some());
    assert!(ask(&mut responder, &probe.replace("29cf10da", "29cf10db")).is_some());
}

#[test]
fn numbers_increase() {
    let mut responder = responder();
    let mut last = 0;
    for id in 0..5 {
        let reply = ask(&mut responder, &windows_probe("").replace("29cf10da", &id.to_string())).unwrap();
        let number = parsed(&reply.transmission.bytes).header.app_sequence.unwrap().message_number;
        assert!(number > last);
        last = number;
    }
}

#[test]
fn delays_are_within_the_limits() {
    let mut first = (APP_MAX_DELAY, Duration::ZERO);
    for number in 0..2000_u128 {
        let random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        let text = short_probe();
        let datagram = Datagram { own: OWN, from: client(), bytes: text.as_bytes() };
        let delays = responder().on_datagram(Instant::now(), &datagram, random).unwrap().transmission.delays;
        assert_eq!(delays.len(), 3);
        assert!(delays[0] <= APP_MAX_DELAY);
        first = (first.0.min(delays[0]), first.1.max(delays[0]));
        let pause = delays[1] - delays[0];
        assert!((Duration::from_millis(50)..=Duration::from_millis(250)).contains(&pause));
        assert_eq!(delays[2] - delays[1], (pause * 2).min(UDP_UPPER_DELAY));
    }
    assert!(first.0 < Duration::from_millis(10) && first.1 > Duration::from_millis(490), "{first:?}");
}

#[test]
fn announcements_are_repeated_with_longer_pauses() {
    for random in [0, 100, 200, RANDOM] {
        let delays = responder().bye(random).delays;
        let pauses: Vec<Duration> = delays.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(pauses.len(), 4);
        assert!(pauses.windows(2).all(|pair| pair[1] == (pair[0] * 2).min(UDP_UPPER_DELAY)), "{pauses:?}");
        let hello = responder().hello(OWN, random).delays;
        assert!(hello[0] <= APP_MAX_DELAY);
        assert!(hello.iter().zip(&delays).all(|(at, after)| *at == hello[0] + *after));
    }
    assert_eq!(responder().bye(200).delays.last(), Some(&Duration::from_millis(250 + 3 * 500)));
}

#[test]
fn a_privileged_port_is_not_answered() {
    for from in ["192.168.0.77:53", "192.168.0.77:0", "[fe80::1]:1023"] {
        let reply = ask_at(&mut responder(), Instant::now(), from.parse().unwrap(), &short_probe());
        assert_eq!(reply, None, "{from}");
    }
}

#[test]
fn a_sender_gets_a_limited_number_of_replies() {
    let now = Instant::now();
    let mut responder = responder();
    let (mut sent, mut datagrams) = (0, 0);
    for number in 0..1000 {
        let probe = short_probe().replace("a:b", &format!("a:{number}"));
        if let Some(reply) = ask_at(&mut responder, now + Duration::from_millis(number * 10), client(), &probe) {
            assert!(reply.transmission.bytes.len() <= probe.len() * MAX_AMPLIFICATION);
            datagrams += reply.transmission.delays.len();
            sent += 1;
        }
    }
    // A burst of 10 replies, and 2 per second for 10 seconds.
    assert!((28..=32).contains(&sent), "{sent}");
    assert!(datagrams <= 96);
    // A sender that was silent is answered again, and so is another one.
    let later = now + Duration::from_secs(30);
    assert!(ask_at(&mut responder, later, client(), &windows_probe("")).is_some());
}

#[test]
fn a_reply_is_never_more_than_three_times_the_request() {
    for request in [short_probe(), other_probe(), windows_probe("wsdp:Device"), windows_resolve(ENDPOINT)] {
        let reply = ask(&mut responder(), &request).unwrap().transmission.bytes;
        assert!(reply.len() <= MAX_AMPLIFICATION * request.len(), "{} of {}", reply.len(), request.len());
    }
    // A MessageID that grows when it is escaped.
    let probe = short_probe().replace("a:b", &format!("<![CDATA[{}]]>", "'".repeat(1900)));
    assert_eq!(ask(&mut responder(), &probe), None);
    let probe = short_probe().replace("a:b", &"x".repeat(2049));
    assert_eq!(ask(&mut responder(), &probe), None);
}

#[test]
fn names_are_checked() {
    let group = || Group::Domain("EXAMPLE".to_owned());
    for name in ["", "a/b", "a\\b", "a:b", "a\nb", "a\u{0}", &"x".repeat(256)] {
        assert!(Host::new(name.to_owned(), group(), [0; 16]).is_err(), "{name}");
        assert!(Host::new("A".to_owned(), Group::Workgroup(name.to_owned()), [0; 16]).is_err(), "{name}");
    }
    let host = Host::new("A&<B>".to_owned(), group(), [0xab; 16]).unwrap();
    assert_eq!(host.computer(), "A&<B>/Domain:EXAMPLE");
    assert_eq!(host.uuid(), "abababab-abab-abab-abab-abababababab");
}
