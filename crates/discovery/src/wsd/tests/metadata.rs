//! The metadata exchange by HTTP.

use super::samples::*;
use crate::wsd::http::{self, Parsed, Status};
use crate::wsd::message::{self, Body, Message};
use crate::wsd::responder::Responder;
use crate::wsd::xml::{Element, Namespace, QName};
use crate::wsd::{Group, Host};

fn exchange(responder: &mut Responder, request: &str) -> Option<(u16, String)> {
    let response = responder.on_http(OWN, request.as_bytes(), RANDOM)?;
    let text = String::from_utf8(response).unwrap();
    let (head, content) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("\r\nConnection: close"));
    assert!(head.contains(&format!("\r\nContent-Length: {}", content.len())));
    assert_eq!(head.contains("Content-Type: application/soap+xml"), !content.is_empty());
    let code = head.strip_prefix("HTTP/1.1 ").unwrap().get(..3).unwrap().parse().unwrap();
    Some((code, content.to_owned()))
}

fn post(content: &str) -> (u16, Message) {
    let request = windows_post(&format!("/{UUID}"), content);
    let (code, content) = exchange(&mut responder(), &request).unwrap();
    (code, message::parse(content.as_bytes(), message::MAX_ENVELOPE_SIZE).unwrap())
}

fn fault(content: &str) -> (u16, Option<String>) {
    let (code, message) = post(content);
    assert_eq!(message.header.action, message::action::FAULT);
    assert_eq!(message.header.to.as_deref(), Some(message::ANONYMOUS));
    let Body::Fault(subcode) = message.body else { panic!("{message:?}") };
    (code, subcode)
}

fn section<'a>(metadata: &'a Element, name: &str) -> &'a Element {
    let dialect = format!("http://schemas.xmlsoap.org/ws/2006/02/devprof/{name}");
    let mut sections = metadata.children.iter().filter(|it| it.is(Namespace::Mex, "MetadataSection"));
    let section = sections.find(|it| it.attribute(Namespace::Unqualified, "Dialect") == Some(&dialect)).unwrap();
    section.child(Namespace::Devprof, name).unwrap()
}

#[test]
fn a_get_of_windows_is_answered() {
    let (code, message) = post(&windows_get());
    assert_eq!(code, 200);
    assert_eq!(message.header.action, message::action::GET_RESPONSE);
    assert_eq!(message.header.relates_to.as_deref(), Some("urn:uuid:027bec45-c37c-466c-936c-68f648abe2bb"));
    let Body::GetResponse(Some(metadata)) = message.body else { panic!() };
    assert!(metadata.is(Namespace::Mex, "Metadata"));
    let device = section(&metadata, "ThisDevice");
    assert_eq!(device.child(Namespace::Devprof, "FriendlyName").unwrap().text, "FILES");
    let model = section(&metadata, "ThisModel");
    assert!(model.child(Namespace::Devprof, "Manufacturer").is_some());
    assert!(model.child(Namespace::Devprof, "ModelName").is_some());
    assert_eq!(model.child(Namespace::Pnpx, "DeviceCategory").unwrap().text, "Computers");
    let relationship = section(&metadata, "Relationship");
    let kind = relationship.attribute(Namespace::Unqualified, "Type");
    assert_eq!(kind, Some("http://schemas.xmlsoap.org/ws/2006/02/devprof/host"));
    let host = relationship.child(Namespace::Devprof, "Host").unwrap();
    let reference = host.child(Namespace::Addressing, "EndpointReference").unwrap();
    assert_eq!(reference.child(Namespace::Addressing, "Address").unwrap().text, ENDPOINT);
    let types = &host.child(Namespace::Devprof, "Types").unwrap().qnames;
    assert_eq!(types, &[QName::new(Namespace::Publication, "Computer")]);
    assert_eq!(host.child(Namespace::Devprof, "ServiceId").unwrap().text, ENDPOINT);
    assert_eq!(host.child(Namespace::Publication, "Computer").unwrap().text, "FILES/Workgroup:WORKGROUP");
}

#[test]
fn names_are_escaped() {
    let group = Group::Domain("<&\"'>".to_owned());
    let host = Host::new("a&b<x>".to_owned(), group, [7; 16]).unwrap();
    let path = format!("/{}", host.uuid());
    let get = windows_get().replace(ENDPOINT, &host.endpoint());
    let mut responder = Responder::new(host, 1);
    let (code, content) = exchange(&mut responder, &windows_post(&path, &get)).unwrap();
    assert_eq!(code, 200);
    let message = message::parse(content.as_bytes(), message::MAX_ENVELOPE_SIZE).unwrap();
    let Body::GetResponse(Some(metadata)) = message.body else { panic!() };
    let host = section(&metadata, "Relationship").child(Namespace::Devprof, "Host").unwrap();
    assert_eq!(host.child(Namespace::Publication, "Computer").unwrap().text, "a&b<x>/Domain:<&\"'>");
}

#[test]
fn a_directed_probe_is_answered() {
    let probe = http_envelope(message::action::PROBE, message::DISCOVERY_TO, "");
    let matching = probe.replace("<soap:Body>", "<soap:Body><wsd:Probe/>");
    let (code, message) = post(&matching);
    let Body::ProbeMatches(matches) = message.body else { panic!() };
    assert_eq!((code, matches.len()), (200, 1));
    assert!(message.header.app_sequence.is_some());
    let other = probe.replace("<soap:Body>", "<soap:Body><wsd:Probe><wsd:Types>pub:Printer</wsd:Types></wsd:Probe>");
    let (code, message) = post(&other);
    assert_eq!((code, message.body), (200, Body::ProbeMatches(Vec::new())));
}

#[test]
fn faults_name_their_cause() {
    let get = message::action::GET;
    let unknown = "http://schemas.xmlsoap.org/ws/2004/09/transfer/Put";
    assert_eq!(fault(&http_envelope(unknown, ENDPOINT, "")), (400, Some("ActionNotSupported".to_owned())));
    assert_eq!(fault(&http_envelope(get, "urn:uuid:1", "")), (400, Some("DestinationUnreachable".to_owned())));
    let no_id = windows_get().replace("wsa:MessageID", "wsa:NoMessageID");
    assert_eq!(fault(&no_id), (400, Some("MessageInformationHeaderRequired".to_owned())));
    let no_action = windows_get().replace("wsa:Action", "wsa:NoAction");
    assert_eq!(fault(&no_action), (400, Some("MessageInformationHeaderRequired".to_owned())));
    let elsewhere = windows_get().replace("addressing/role/anonymous", "addressing/role/other");
    assert_eq!(fault(&elsewhere), (400, Some("InvalidMessageInformationHeader".to_owned())));
    let must = http_envelope(get, ENDPOINT, "<pub:X soap:mustUnderstand='true'/>");
    assert_eq!(fault(&must), (500, None));
    let may = http_envelope(get, ENDPOINT, "<pub:X soap:mustUnderstand='false'/>");
    assert_eq!(post(&may).0, 200);
}

#[test]
fn wrong_requests_get_a_status() {
    let path = format!("/{UUID}");
    let good = windows_post(&path, &windows_get());
    let length = format!("Content-Length: {}", windows_get().len());
    let fields = "x: y\r\n".repeat(70);
    for (from, to, code) in [
        ("POST ", "GET ", 405),
        ("POST ", "HEAD ", 405),
        ("POST ", "post ", 405),
        ("POST ", "P(ST ", 400),
        ("POST ", "POST  ", 400),
        ("POST ", " POST ", 400),
        (path.as_str(), "/", 404),
        (&path, "/wsd", 404),
        (&path, "*", 404),
        (&path, "http://192.168.0.2:5357", 404),
        (&path, &format!("{path}/"), 404),
        (&path, &format!("{path}?x"), 404),
        ("HTTP/1.1", "HTTP/1.0", 505),
        ("HTTP/1.1", "HTTP/2.0", 505),
        ("HTTP/1.1", "SIP/2.0", 400),
        (&length, "X-Length: 1", 411),
        (&length, "Content-Length: -1", 400),
        (&length, "Content-Length: +1", 400),
        (&length, "Content-Length:", 400),
        (&length, "Content-Length: 1", 400),
        (&length, "Content-Length: 0", 400),
        (&length, "Content-Length: 1, 1", 400),
        (&length, "Content-Length: 32768", 413),
        (&length, "Content-Length: 99999999999999999999999999", 413),
        (&length, &format!("{length}\r\n{length}"), 400),
        (&length, "Transfer-Encoding: chunked", 411),
        (&length, &format!("{length}\r\nTransfer-Encoding: chunked"), 400),
        (&length, &format!("{length}\r\nExpect: 100-continue"), 417),
        ("application/soap+xml", "text/xml", 415),
        ("Content-Type:", "X-Type:", 415),
        ("Host:", "X-Host:", 400),
        ("Host:", "Host: x\r\nHost:", 400),
        ("Pragma:", "Pragma :", 400),
        ("Pragma:", "\tPragma:", 400),
        ("Pragma: ", "Pragma\u{0}: ", 400),
        ("Pragma: no-cache\r\n", "Pragma: no-cache\n", 400),
        ("Pragma: no-cache", "Pragma", 400),
        ("Pragma: no-cache\r\n", &fields, 431),
        ("Pragma: no-cache", &format!("Pragma: {}", "x".repeat(9000)), 431),
    ] {
        let changed = good.replacen(from, to, 1);
        assert_ne!(changed, good, "{from}");
        let (found, content) = exchange(&mut responder(), &changed).unwrap_or_else(|| panic!("{from} {to}"));
        assert_eq!((found, content.as_str()), (code, ""), "{from:?} {to:?}");
    }
    for changed in
        [good.replacen(&path, &format!("http://files:5357{path}"), 1), good.replacen(UUID, &UUID.to_uppercase(), 1)]
    {
        assert_eq!(exchange(&mut responder(), &changed).unwrap().0, 200);
    }
    let charset = good.replacen("soap+xml", "soap+xml; charset=utf-8", 1);
    assert_eq!(exchange(&mut responder(), &charset).unwrap().0, 200);
    assert_eq!(exchange(&mut responder(), &windows_post(&path, "<not-soap/>")).unwrap().0, 400);
    assert_eq!(exchange(&mut responder(), &windows_post(&path, "")).unwrap().0, 400);
    assert_eq!(exchange(&mut responder(), &format!("{good}GET / HTTP/1.1\r\n\r\n")).unwrap().0, 400);
    let allowed = http::response(Status::MethodNotAllowed, "");
    assert!(String::from_utf8(allowed).unwrap().contains("\r\nAllow: POST\r\n"));
}

#[test]
fn a_request_may_arrive_in_pieces() {
    let request = windows_post(&format!("/{UUID}"), &windows_get());
    for end in 0..request.len() {
        assert_eq!(exchange(&mut responder(), &request[..end]), None, "{end}");
    }
    assert_eq!(exchange(&mut responder(), &request).unwrap().0, 200);
}

#[test]
fn the_size_of_a_request_is_bounded() {
    let head = windows_post("/x", "").find("\r\n\r\n").unwrap() + 4;
    let most = http::MAX_REQUEST_SIZE - head - "32000".len() + 1;
    let request = windows_post("/x", &" ".repeat(most));
    assert_eq!(request.len(), http::MAX_REQUEST_SIZE);
    assert_eq!(http::parse(request.as_bytes(), "/x"), Parsed::Content(" ".repeat(most).as_bytes()));
    let request = windows_post("/x", &" ".repeat(most + 1));
    assert_eq!(http::parse(request.as_bytes(), "/x"), Parsed::Error(Status::ContentTooLarge));
    assert_eq!(http::parse(&[b'x'; 8191], "/x"), Parsed::Incomplete);
    assert_eq!(http::parse(&[b'x'; 8192], "/x"), Parsed::Error(Status::HeadTooLarge));
}
