//! A host, and requests as clients format them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Instant;

use crate::wsd::responder::{Datagram, Reply, Responder};
use crate::wsd::{Group, Host};

pub(crate) const UUID: &str = "37f86d35-e6ac-4241-964f-1d9ae46fb366";
pub(crate) const ENDPOINT: &str = "urn:uuid:37f86d35-e6ac-4241-964f-1d9ae46fb366";
pub(crate) const RANDOM: u128 = 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef;

pub(crate) fn host() -> Host {
    let uuid = 0x37f8_6d35_e6ac_4241_964f_1d9a_e46f_b366_u128.to_be_bytes();
    Host::new("FILES".to_owned(), Group::Workgroup("WORKGROUP".to_owned()), uuid).unwrap()
}

pub(crate) fn responder() -> Responder {
    Responder::new(host(), 1_700_000_000)
}

/// The server's addresses for clients of IPv4 and IPv6.
pub(crate) const OWN: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 168, 0, 2));
pub(crate) const OWN_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 1, 2));

pub(crate) fn client() -> SocketAddr {
    "192.168.0.77:53421".parse().unwrap()
}

/// Sends a multicast datagram from the client.
pub(crate) fn ask(responder: &mut Responder, text: &str) -> Option<Reply> {
    ask_at(responder, Instant::now(), client(), text)
}

pub(crate) fn ask_at(responder: &mut Responder, now: Instant, from: SocketAddr, text: &str) -> Option<Reply> {
    let datagram = Datagram { own: OWN, from, bytes: text.as_bytes() };
    responder.on_datagram(now, &datagram, RANDOM)
}

/// The Probe of Windows 10 and 11, with the headers in the order of WSDAPI.
pub(crate) fn windows_probe(types: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><soap:Envelope \
         xmlns:soap=\"http://www.w3.org/2003/05/soap-envelope\" \
         xmlns:wsa=\"http://schemas.xmlsoap.org/ws/2004/08/addressing\" \
         xmlns:wsd=\"http://schemas.xmlsoap.org/ws/2005/04/discovery\" \
         xmlns:wsdp=\"http://schemas.xmlsoap.org/ws/2006/02/devprof\" \
         xmlns:pub=\"http://schemas.microsoft.com/windows/pub/2005/07\"><soap:Header>\
         <wsa:To>urn:schemas-xmlsoap-org:ws:2005:04:discovery</wsa:To>\
         <wsa:Action>http://schemas.xmlsoap.org/ws/2005/04/discovery/Probe</wsa:Action>\
         <wsa:MessageID>urn:uuid:29cf10da-5c41-4d55-b184-5ee15e38ce23</wsa:MessageID></soap:Header><soap:Body>\
         <wsd:Probe><wsd:Types>{types}</wsd:Types></wsd:Probe></soap:Body></soap:Envelope>"
    )
}

/// The Probe of a client that numbers its prefixes, declares them where they are used, and indents.
pub(crate) fn other_probe() -> String {
    "<ns0:Envelope xmlns:ns0='http://www.w3.org/2003/05/soap-envelope'>
       <ns0:Header>
         <Action xmlns='http://schemas.xmlsoap.org/ws/2004/08/addressing'>
           http://schemas.xmlsoap.org/ws/2005/04/discovery/Probe
         </Action>
         <q:MessageID xmlns:q='http://schemas.xmlsoap.org/ws/2004/08/addressing'>urn:uuid:1</q:MessageID>
         <wsd:To xmlns:wsd='http://schemas.xmlsoap.org/ws/2004/08/addressing'>
           urn:schemas-xmlsoap-org:ws:2005:04:discovery
         </wsd:To>
         <x:ReplyTo xmlns:x='http://schemas.xmlsoap.org/ws/2004/08/addressing'><x:Address>
           http://schemas.xmlsoap.org/ws/2004/08/addressing/role/anonymous</x:Address></x:ReplyTo>
       </ns0:Header>
       <ns0:Body>
         <Probe xmlns='http://schemas.xmlsoap.org/ws/2005/04/discovery'>
           <Types xmlns:wsa='http://schemas.xmlsoap.org/ws/2006/02/devprof'
                  xmlns:soap='http://schemas.microsoft.com/windows/pub/2005/07'>
             soap:Computer   wsa:Device
           </Types>
           <Scopes/>
         </Probe>
       </ns0:Body>
     </ns0:Envelope>"
        .to_owned()
}

/// The shortest Probe that asks for everything.
pub(crate) fn short_probe() -> String {
    "<s:Envelope xmlns:s='http://www.w3.org/2003/05/soap-envelope' \
     xmlns:a='http://schemas.xmlsoap.org/ws/2004/08/addressing' \
     xmlns:d='http://schemas.xmlsoap.org/ws/2005/04/discovery'><s:Header>\
     <a:Action>http://schemas.xmlsoap.org/ws/2005/04/discovery/Probe</a:Action><a:MessageID>a:b</a:MessageID>\
     <a:To>urn:schemas-xmlsoap-org:ws:2005:04:discovery</a:To></s:Header><s:Body><d:Probe/></s:Body></s:Envelope>"
        .to_owned()
}

/// The Resolve of Windows, after a Hello.
pub(crate) fn windows_resolve(endpoint: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><soap:Envelope \
         xmlns:soap=\"http://www.w3.org/2003/05/soap-envelope\" \
         xmlns:wsa=\"http://schemas.xmlsoap.org/ws/2004/08/addressing\" \
         xmlns:wsd=\"http://schemas.xmlsoap.org/ws/2005/04/discovery\"><soap:Header>\
         <wsa:To>urn:schemas-xmlsoap-org:ws:2005:04:discovery</wsa:To>\
         <wsa:Action>http://schemas.xmlsoap.org/ws/2005/04/discovery/Resolve</wsa:Action>\
         <wsa:MessageID>urn:uuid:38d1c3d9-8d73-4424-8861-6b7ee2af24d3</wsa:MessageID></soap:Header><soap:Body>\
         <wsd:Resolve><wsa:EndpointReference><wsa:Address>{endpoint}</wsa:Address></wsa:EndpointReference>\
         </wsd:Resolve></soap:Body></soap:Envelope>"
    )
}

/// A request by HTTP with another action than Get, or with it.
pub(crate) fn http_envelope(action: &str, to: &str, more: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><soap:Envelope \
         xmlns:pub=\"http://schemas.microsoft.com/windows/pub/2005/07\" \
         xmlns:soap=\"http://www.w3.org/2003/05/soap-envelope\" \
         xmlns:wsa=\"http://schemas.xmlsoap.org/ws/2004/08/addressing\" \
         xmlns:wsd=\"http://schemas.xmlsoap.org/ws/2005/04/discovery\"><soap:Header>\
         <wsa:To>{to}</wsa:To><wsa:Action>{action}</wsa:Action>\
         <wsa:MessageID>urn:uuid:027bec45-c37c-466c-936c-68f648abe2bb</wsa:MessageID>\
         <wsa:ReplyTo><wsa:Address>http://schemas.xmlsoap.org/ws/2004/08/addressing/role/anonymous</wsa:Address>\
         </wsa:ReplyTo><wsa:From><wsa:Address>urn:uuid:49e131df-351a-4ece-9a6f-6a862d31cffa</wsa:Address></wsa:From>\
         <l:LargeMetadataSupport xmlns:l=\"http://schemas.microsoft.com/windows/dpws/LargeMetadata/2007/08\"/>\
         {more}</soap:Header><soap:Body></soap:Body></soap:Envelope>"
    )
}

pub(crate) fn windows_get() -> String {
    http_envelope("http://schemas.xmlsoap.org/ws/2004/09/transfer/Get", ENDPOINT, "")
}

/// The POST of WinHTTP.
pub(crate) fn windows_post(path: &str, content: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nCache-Control: no-cache\r\nConnection: Keep-Alive\r\nPragma: no-cache\r\n\
         Content-Type: application/soap+xml\r\nUser-Agent: WSDAPI\r\nContent-Length: {}\r\n\
         Host: 192.168.0.2:5357\r\n\r\n{content}",
        content.len()
    )
}
