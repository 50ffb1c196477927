//! Queries for SRV records, which the system's resolver functions do not support (RFC 1035, RFC 2782). They are sent
//! over UDP to the name servers in `/etc/resolv.conf`.
//!
//! TCP, search lists and everything else are not implemented, because an answer that does not fit into a datagram still
//! names controllers.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

/// Time limit for the answer of each name server.
const PATIENCE: Duration = Duration::from_secs(3);
/// Maximum number of name servers, as in resolv.conf(5).
const SERVERS: usize = 3;
const SRV: u16 = 33;
const INTERNET: u16 = 1;

/// Returns the name servers in a resolv.conf.
pub(super) fn name_servers(resolv_conf: &str) -> Vec<IpAddr> {
    let words = resolv_conf.lines().map(str::split_whitespace);
    let mut servers = words.filter_map(|mut words| match words.next() {
        // The zone of an IPv6 address is dropped and left to the routing table.
        Some("nameserver") => words.next()?.split('%').next()?.parse().ok(),
        _ => None,
    });
    servers.by_ref().take(SERVERS).collect()
}

/// Returns the hosts in the SRV records of `name`. The error says why no server answered.
pub(super) fn hosts(name: &str, servers: &[IpAddr], id: u16) -> Result<Vec<String>, String> {
    let question = question(name, id).ok_or_else(|| format!("{name:?} is not a DNS name"))?;
    let mut why = "/etc/resolv.conf has no name server".to_owned();
    for server in servers {
        match ask(*server, &question, id) {
            Ok(hosts) => return Ok(hosts),
            Err(error) => why = format!("name server {server}: {error}"),
        }
    }
    Err(why)
}

fn ask(server: IpAddr, question: &[u8], id: u16) -> Result<Vec<String>, String> {
    let say = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::WouldBlock => format!("no answer within {} seconds", PATIENCE.as_secs()),
        _ => error.to_string(),
    };
    let any: IpAddr = if server.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
    let socket = UdpSocket::bind((any, 0)).map_err(say)?;
    socket.set_read_timeout(Some(PATIENCE)).map_err(say)?;
    socket.connect(SocketAddr::from((server, 53))).map_err(say)?;
    socket.send(question).map_err(say)?;
    let mut answer = [0; 4096];
    let length = socket.recv(&mut answer).map_err(say)?;
    let answer = &answer[..length];
    read(answer, id).ok_or_else(|| "the answer is malformed".to_owned())?
}

fn question(name: &str, id: u16) -> Option<Vec<u8>> {
    // One query, with recursion desired.
    let mut message = [&id.to_be_bytes()[..], &[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]].concat();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        message.push(u8::try_from(label.len()).ok().filter(|length| *length < 64)?);
        message.extend(label.as_bytes());
    }
    message.push(0);
    message.extend(SRV.to_be_bytes());
    message.extend(INTERNET.to_be_bytes());
    Some(message)
}

/// Parses an answer. Returns `None` if the message is not an answer to query `id` or is malformed.
fn read(message: &[u8], id: u16) -> Option<Result<Vec<String>, String>> {
    let number = |at: usize| Some(u16::from_be_bytes(*message.get(at..)?.first_chunk()?));
    let flags = number(2)?;
    if number(0)? != id || flags & 0x8000 == 0 {
        return None;
    }
    match flags & 0xf {
        0 => {}
        // NXDOMAIN: there is no such name.
        3 => return Some(Ok(Vec::new())),
        code => return Some(Err(format!("it answers with error {code}"))),
    }
    let (questions, answers) = (number(4)?, number(6)?);
    let mut at = 12;
    for _ in 0..questions {
        at = name_at(message, at)?.1 + 4;
    }
    let mut hosts = Vec::new();
    for _ in 0..answers {
        at = name_at(message, at)?.1;
        let (kind, length) = (number(at)?, usize::from(number(at + 8)?));
        at += 10;
        if kind == SRV {
            hosts.push(name_at(message, at + 6)?.0);
        }
        at += length;
    }
    Some(Ok(hosts))
}

/// Decodes the name at an offset and returns it with the offset after it. Compression pointers (RFC 1035 4.1.4) must
/// point backwards.
fn name_at(message: &[u8], mut at: usize) -> Option<(String, usize)> {
    let mut name = String::new();
    let mut behind = None;
    loop {
        let length = usize::from(*message.get(at)?);
        if length & 0xc0 == 0xc0 {
            behind = behind.or(Some(at + 2));
            let to = (length & 0x3f) << 8 | usize::from(*message.get(at + 1)?);
            at = Some(to).filter(|to| *to < at)?;
            continue;
        }
        if length == 0 {
            return Some((name, behind.unwrap_or(at + 1)));
        }
        let label = message.get(at + 1..at + 1 + length)?;
        if !name.is_empty() {
            name.push('.');
        }
        name.push_str(&String::from_utf8_lossy(label));
        at += 1 + length;
        // The maximum name length of RFC 1035 2.3.4; it also stops names with loops.
        if name.len() > 255 {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(id: u16, flags: u16) -> Vec<u8> {
        let mut message = question("_ldap._tcp.dc._msdcs.dom.test", id).unwrap();
        message[2..4].copy_from_slice(&flags.to_be_bytes());
        message[7] = 1;
        // The query's name, SRV, IN, TTL, length; priority, weight, port, and `dc` followed by `dom.test`.
        message.extend([0xc0, 12, 0, 33, 0, 1, 0, 0, 3, 132, 0, 11, 0, 0, 0, 100, 1, 133, 2, b'd', b'c', 0xc0, 33]);
        message
    }

    #[test]
    fn controllers_are_found() {
        assert_eq!(read(&answer(7, 0x8180), 7), Some(Ok(vec!["dc.dom.test".to_owned()])));
        assert_eq!(read(&answer(7, 0x8183), 7), Some(Ok(Vec::new())));
        assert!(matches!(read(&answer(7, 0x8182), 7), Some(Err(why)) if why.contains("error 2")));
    }

    #[test]
    fn invalid_answers_are_ignored() {
        assert_eq!(read(&answer(7, 0x8180), 8), None, "the answer of another query");
        assert_eq!(read(&answer(7, 0x0100), 7), None, "a query");
        let whole = answer(7, 0x8180);
        for length in 0..whole.len() {
            assert_eq!(read(&whole[..length], 7), None, "{length}");
        }
        let mut round = whole.clone();
        let last = round.len() - 1;
        round[last] = last as u8 - 1;
        assert_eq!(read(&round, 7), None, "a name with a loop");
        assert_eq!(question(&"x".repeat(64), 1), None);
    }

    #[test]
    fn name_servers_are_read_from_the_file() {
        let text = "# nameserver 1.1.1.1\nsearch a\nnameserver 10.0.0.1\nnameserver fe80::1%eth0\nnameserver x\n";
        assert_eq!(name_servers(text), ["10.0.0.1".parse::<IpAddr>().unwrap(), "fe80::1".parse().unwrap()]);
    }
}
