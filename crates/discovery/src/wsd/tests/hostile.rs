//! Input that no client sends. Nothing may panic, and replies stay within their limits.

use std::time::Instant;

use super::samples::*;
use crate::wsd::message::{self, MAX_ENVELOPE_SIZE};
use crate::wsd::responder::{Datagram, MAX_AMPLIFICATION};
use crate::wsd::{http, xml};
use proptest::prelude::*;

fn feed(bytes: &[u8]) {
    let _ = xml::parse(bytes, MAX_ENVELOPE_SIZE);
    let _ = message::parse(bytes, MAX_ENVELOPE_SIZE);
    let _ = http::parse(bytes, &format!("/{UUID}"));
    let mut responder = responder();
    let datagram = Datagram { own: OWN, from: client(), bytes };
    if let Some(reply) = responder.on_datagram(Instant::now(), &datagram, RANDOM) {
        assert!(reply.transmission.bytes.len() <= MAX_AMPLIFICATION * bytes.len());
        assert!(message::parse(&reply.transmission.bytes, MAX_ENVELOPE_SIZE).is_ok());
    }
    let _ = responder.on_http(OWN, bytes, RANDOM);
    if let Ok(text) = std::str::from_utf8(bytes) {
        let request = windows_post(&format!("/{UUID}"), text);
        if let Some(response) = responder.on_http(OWN, request.as_bytes(), RANDOM) {
            let at = response.windows(4).position(|it| it == b"\r\n\r\n").unwrap() + 4;
            let content = &response[at..];
            assert!(content.is_empty() || message::parse(content, MAX_ENVELOPE_SIZE).is_ok());
        }
    }
}

fn inputs() -> Vec<String> {
    let get = windows_get();
    vec![
        windows_probe("wsdp:Device pub:Computer"),
        other_probe(),
        windows_resolve(ENDPOINT),
        windows_post(&format!("/{UUID}"), &get),
        get,
    ]
}

#[test]
fn truncations_are_survived() {
    for input in inputs() {
        for end in 0..input.len() {
            feed(&input.as_bytes()[..end]);
            feed(&input.as_bytes()[end..]);
        }
    }
}

#[test]
fn flipped_bits_are_survived() {
    for input in inputs() {
        for index in 0..input.len() {
            // All bits would take a minute without adding a kind of error.
            for bit in [index % 8, (index + 3) % 8] {
                let mut bytes = input.clone().into_bytes();
                bytes[index] ^= 1 << bit;
                feed(&bytes);
            }
        }
    }
}

#[test]
fn large_and_deep_input_is_cheap() {
    let started = Instant::now();
    let size = MAX_ENVELOPE_SIZE;
    for piece in ["<a>", "<a/>", "</a>", "<", "&", "&amp;", "<![CDATA[", "<!--", "<?", "<!", "a=''", "\0", "é", "\r\n"]
    {
        feed(piece.repeat(size / piece.len()).as_bytes());
        feed(format!("<a>{}", piece.repeat((size - 3) / piece.len())).as_bytes());
        feed(format!("<a {}", piece.repeat((size - 3) / piece.len())).as_bytes());
    }
    let attributes: String = (0..3000).map(|number| format!(" a{number}=''")).collect();
    feed(format!("<a{attributes}/>").as_bytes());
    let bindings: String = (0..1500).map(|number| format!(" xmlns:a{number}='x'")).collect();
    feed(format!("<a{bindings}/>").as_bytes());
    let nested: String = (0..40).map(|number| format!("<a xmlns:a{number}='{}'>", "x".repeat(700))).collect();
    feed(nested.as_bytes());
    assert!(started.elapsed().as_secs() < 20);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        feed(&bytes);
    }

    #[test]
    fn random_markup_is_survived(pieces in proptest::collection::vec(
        prop_oneof![
            Just("<soap:Envelope xmlns:soap='http://www.w3.org/2003/05/soap-envelope'>"),
            Just("<soap:Header>"), Just("</soap:Header>"), Just("<soap:Body>"), Just("</soap:Body>"),
            Just("<Action xmlns='http://schemas.xmlsoap.org/ws/2004/08/addressing'>"), Just("</Action>"),
            Just("http://schemas.xmlsoap.org/ws/2005/04/discovery/Probe"), Just("<d:Types>"), Just("</d:Types>"),
            Just("<d:Probe xmlns:d='http://schemas.xmlsoap.org/ws/2005/04/discovery'>"), Just("</d:Probe>"),
            Just("</soap:Envelope>"), Just("a:b "), Just(":"), Just("&#x0;"), Just("<!-- -->"), Just("\u{1}"),
        ], 0..40)) {
        feed(pieces.concat().as_bytes());
    }

    #[test]
    fn replaced_parts_are_survived(
        which in 0_usize..5, start in 0_usize..2000, length in 0_usize..40, with in "\\PC{0,20}",
    ) {
        let input = inputs().swap_remove(which);
        let start = start.min(input.len());
        let end = (start + length).min(input.len());
        feed(format!("{}{with}{}", &input[..start], &input[end..]).as_bytes());
    }
}
