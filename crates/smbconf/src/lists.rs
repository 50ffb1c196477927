//! Lists with their own grammar: hosts, users, interfaces, log levels, socket options.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use server::policy::hosts::{HostList, HostRule};

use crate::interfaces::Interface;

/// Parses `hosts allow` or `hosts deny`: addresses, networks, host names, `.domain` and `@netgroup`. The error is the
/// invalid element.
pub(super) fn hosts(elements: &[String]) -> Result<HostList, String> {
    let mut list = HostList::default();
    for (at, element) in elements.iter().enumerate() {
        if element.eq_ignore_ascii_case("except") {
            list.except = Some(Box::new(hosts(&elements[at + 1..])?));
            break;
        }
        host_rules(element, &mut list.any).ok_or_else(|| element.clone())?;
    }
    Ok(list)
}

fn host_rules(element: &str, rules: &mut Vec<HostRule>) -> Option<()> {
    if element.eq_ignore_ascii_case("all") {
        rules.push(HostRule::All);
    } else if element.eq_ignore_ascii_case("localhost") {
        rules.push(HostRule::Network { network: Ipv4Addr::LOCALHOST.into(), prefix: 8 });
        rules.push(HostRule::Network { network: Ipv6Addr::LOCALHOST.into(), prefix: 128 });
    } else if let Some(front) = element.strip_suffix('.') {
        // `192.168.` matches all addresses that start with it.
        let parts: Vec<u8> = front.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
        let mut octets = [0; 4];
        octets.get_mut(..parts.len())?.copy_from_slice(&parts);
        let prefix = u8::try_from(parts.len() * 8).ok()?;
        rules.push(HostRule::Network { network: Ipv4Addr::from(octets).into(), prefix });
    } else if let Some((network, prefix)) = network(element) {
        rules.push(HostRule::Network { network, prefix });
    } else if let Some(group) = element.strip_prefix('@').filter(|group| !group.is_empty()) {
        rules.push(HostRule::Netgroup(group.to_owned()));
    } else if is_host_name(element.strip_prefix('.').unwrap_or(element)) {
        let rule = if element.starts_with('.') { HostRule::Domain } else { HostRule::Name };
        rules.push(rule(element.to_owned()));
    } else {
        return None;
    }
    Some(())
}

/// Whether `text` can be the name of a host: labels with a letter somewhere, or it would be a wrong address.
fn is_host_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let plain = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_');
        (1..=63).contains(&label.len()) && label.chars().all(plain) && !label.starts_with('-')
    };
    text.len() <= 253 && text.chars().any(char::is_alphabetic) && text.split('.').all(is_label)
}

/// Parses `address`, `address/bits` or `address/mask`.
fn network(text: &str) -> Option<(IpAddr, u8)> {
    let (address, mask) = match text.split_once('/') {
        Some((address, mask)) => (address, Some(mask)),
        None => (text, None),
    };
    let address: IpAddr = address.trim_start_matches('[').trim_end_matches(']').parse().ok()?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let prefix = match mask {
        None => longest,
        Some(mask) => match mask.parse::<IpAddr>() {
            Ok(IpAddr::V4(mask)) if address.is_ipv4() => contiguous(u32::from(mask).into(), 32)?,
            Ok(IpAddr::V6(mask)) if address.is_ipv6() => contiguous(mask.into(), 128)?,
            Ok(_) => return None,
            Err(_) => mask.parse().ok()?,
        },
    };
    (prefix <= longest).then_some((address, prefix))
}

/// Returns the number of leading ones of a mask of `width` bits, if it is contiguous.
fn contiguous(mask: u128, width: u32) -> Option<u8> {
    let shifted = mask << (128 - width);
    let ones = shifted.leading_ones();
    (shifted.count_ones() == ones).then(|| u8::try_from(ones).ok())?
}

impl std::fmt::Display for InterfacePattern {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            InterfacePattern::Name(name) => out.write_str(name),
            InterfacePattern::Network { network, prefix } => write!(out, "{network}/{prefix}"),
        }
    }
}

/// One element of `interfaces`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InterfacePattern {
    /// An interface name; `*` matches any characters and `?` a single one.
    Name(String),
    /// Every address in a network; a single address has the full prefix length.
    Network {
        /// The network's address, or the address itself.
        network: IpAddr,
        /// The prefix length.
        prefix: u8,
    },
}

impl InterfacePattern {
    /// Returns whether the interface `name` with `address` matches. As in Samba, `address/bits` matches any interface
    /// with an address in that network.
    pub fn matches(&self, name: &str, address: IpAddr) -> bool {
        match self {
            InterfacePattern::Name(pattern) => matches(pattern.as_bytes(), name.as_bytes()),
            InterfacePattern::Network { network, prefix } => {
                let rule = HostRule::Network { network: *network, prefix: *prefix };
                HostList { any: vec![rule], except: None }.matches(address)
            }
        }
    }
}

fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => (0..=name.len()).any(|skipped| matches(rest, &name[skipped..])),
        (Some((b'?', rest)), Some((_, behind))) => matches(rest, behind),
        (Some((letter, rest)), Some((first, behind))) => letter == first && matches(rest, behind),
        _ => false,
    }
}

/// One element of `interfaces`, with the properties that the server reports to clients for multichannel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InterfaceChoice {
    /// The interfaces.
    pub pattern: InterfacePattern,
    /// `speed`, bits per second; `None` to use the kernel's value.
    pub speed: Option<u64>,
    /// Whether `capability` contains RSS; `None` to use the kernel's value.
    pub rss: Option<bool>,
    /// `if_index`; `None` to use the kernel's value.
    pub index: Option<u32>,
}

impl InterfaceChoice {
    /// Returns whether the element stands for this interface or its address.
    pub fn matches(&self, interface: &Interface) -> bool {
        self.pattern.matches(&interface.name, interface.address)
    }
}

/// Parses one element of `interfaces`: `eth0`, or `eth0;speed=1000000000,capability=RSS`. The capability RDMA and
/// `options` are ignored, because RDMA is not supported.
pub(super) fn interface(element: &str) -> Option<InterfaceChoice> {
    let (pattern, options) = element.split_once(';').unwrap_or((element, ""));
    let mut choice =
        InterfaceChoice { pattern: interface_pattern(pattern.trim())?, speed: None, rss: None, index: None };
    for option in options.split(',').map(str::trim).filter(|option| !option.is_empty()) {
        let (key, value) = option.split_once('=')?;
        let value = value.trim();
        match key.trim().to_ascii_lowercase().as_str() {
            "speed" => choice.speed = Some(value.parse().ok()?),
            "if_index" => choice.index = Some(value.parse().ok().filter(|index| *index != 0)?),
            "capability" => choice.rss = Some(choice.rss == Some(true) || value.eq_ignore_ascii_case("RSS")),
            "options" => {}
            _ => return None,
        }
    }
    Some(choice)
}

fn interface_pattern(element: &str) -> Option<InterfacePattern> {
    if let Some((network, prefix)) = network(element) {
        return Some(InterfacePattern::Network { network, prefix });
    }
    // Kernel names have at most 15 bytes (IFNAMSIZ), no slash and no colon.
    let is_name = !element.is_empty()
        && element.len() <= 15
        && element.bytes().all(|byte| byte.is_ascii_graphic() && !b"/:".contains(&byte))
        && !element.starts_with(|character: char| character.is_ascii_digit() && element.contains('.'))
        && element.matches('*').count() <= 3;
    is_name.then(|| InterfacePattern::Name(element.to_owned()))
}

/// `log level`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogLevel {
    /// The level for all classes without their own level: 0 errors, 1 warnings and notices, 3 requests, 10 everything.
    pub level: u8,
    /// The levels of single classes, by Samba's names (`auth`, `smb2`, `vfs`...).
    pub classes: Vec<(String, u8)>,
    /// The files of classes that are recorded apart from the log (`auth_audit:3@/var/log/auth`). Other classes share
    /// the log.
    pub files: BTreeMap<String, PathBuf>,
}

impl Default for LogLevel {
    fn default() -> Self {
        LogLevel { level: 2, classes: Vec::new(), files: BTreeMap::new() }
    }
}

/// The classes of `log level` that can have a file of their own.
const WITH_FILES: [&str; 2] = ["auth_audit", "auth_json_audit"];

/// Parses `log level`; the error is the invalid element.
pub(super) fn log_level(elements: &[String]) -> Result<LogLevel, String> {
    let mut log = LogLevel::default();
    for element in elements {
        let (plain, file) =
            element.split_once('@').map_or((element.as_str(), None), |(plain, file)| (plain, Some(file)));
        let (class, level) = plain.split_once(':').unwrap_or(("all", plain));
        let level = level.parse::<u8>().ok().filter(|level| *level <= 100).ok_or_else(|| element.clone())?;
        match class {
            "" => return Err(element.clone()),
            "all" => log.level = level,
            class => {
                let class = class.to_ascii_lowercase();
                if let Some(file) = file.filter(|_| WITH_FILES.contains(&&*class)) {
                    let file = Some(PathBuf::from(file)).filter(|file| file.is_absolute());
                    log.files.insert(class.clone(), file.ok_or_else(|| element.clone())?);
                }
                log.classes.push((class, level));
            }
        }
    }
    Ok(log)
}

/// One element of `socket options`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SocketOption {
    /// The option's C name.
    pub name: &'static str,
    /// The value; 1 turns a switch on.
    pub value: i32,
}

/// The options that Samba supports.
const SOCKET_OPTIONS: &[&str] = &[
    "SO_KEEPALIVE",
    "SO_REUSEADDR",
    "SO_REUSEPORT",
    "SO_BROADCAST",
    "TCP_NODELAY",
    "TCP_KEEPCNT",
    "TCP_KEEPIDLE",
    "TCP_KEEPINTVL",
    "TCP_DEFER_ACCEPT",
    "TCP_FASTACK",
    "TCP_QUICKACK",
    "TCP_NODELAYACK",
    "TCP_KEEPALIVE_THRESHOLD",
    "TCP_KEEPALIVE_ABORT_THRESHOLD",
    "TCP_USER_TIMEOUT",
    "IPTOS_LOWDELAY",
    "IPTOS_THROUGHPUT",
    "SO_SNDBUF",
    "SO_RCVBUF",
    "SO_SNDLOWAT",
    "SO_RCVLOWAT",
    "SO_SNDTIMEO",
    "SO_RCVTIMEO",
];

/// Parses one element of `socket options`.
pub(super) fn socket_option(element: &str) -> Option<SocketOption> {
    let (name, value) = match element.split_once('=') {
        Some((name, value)) => (name.trim(), value.trim().parse().ok()?),
        None => (element, 1),
    };
    let name = SOCKET_OPTIONS.iter().find(|known| known.eq_ignore_ascii_case(name))?;
    Some(SocketOption { name, value })
}

#[cfg(test)]
mod tests {
    use super::super::value::list;
    use super::*;

    #[test]
    fn host_lists_are_read() {
        let cases: &[(&str, &[&str], &[&str])] = &[
            ("192.168.", &["192.168.3.4"], &["192.169.0.1", "fe80::1"]),
            ("10.0.0.0/8 EXCEPT 10.0.0.5", &["10.0.0.4"], &["10.0.0.5", "11.0.0.1"]),
            ("150.203.0.0/255.255.0.0", &["150.203.9.9"], &["150.204.0.1"]),
            ("localhost", &["127.0.0.1", "::1"], &["10.0.0.1"]),
            ("fd00::/8, 10.1.1.1", &["fd12::1", "10.1.1.1"], &["10.1.1.2"]),
            ("ALL EXCEPT 10. EXCEPT 10.1.", &["11.0.0.1", "10.1.0.1"], &["10.2.0.1"]),
        ];
        for (text, inside, outside) in cases {
            let hosts = hosts(&list(text)).expect("a list");
            for (address, expected) in
                inside.iter().map(|address| (address, true)).chain(outside.iter().map(|address| (address, false)))
            {
                assert_eq!(hosts.matches(address.parse().expect("an address")), expected, "{address} in {text}");
            }
        }
        let rule = |text: &str| hosts(&list(text)).expect("a list").any;
        assert_eq!(rule("host.example.org"), [HostRule::Name("host.example.org".into())]);
        assert_eq!(
            rule(".example.org @office"),
            [HostRule::Domain(".example.org".into()), HostRule::Netgroup("office".into())]
        );
        for wrong in [
            "host.example.org/8",
            "10.0.0.0/33",
            "10.0.0.0/255.0.255.0",
            "1.2.3.4.5.",
            "@",
            "300.",
            ".",
            "1.2.3",
            "a..b",
        ] {
            assert_eq!(hosts(&list(wrong)), Err(wrong.to_owned()));
        }
    }

    #[test]
    fn interfaces_are_names_addresses_or_networks() {
        let cases = [
            ("eth0", "eth0", "10.0.0.1", true),
            ("eth*", "eth12", "10.0.0.1", true),
            ("eth?", "eth12", "10.0.0.1", false),
            ("lo", "eth0", "127.0.0.1", false),
            ("127.0.0.1/8", "lo", "127.0.0.1", true),
            ("192.168.2.10/24", "eth0", "192.168.2.77", true),
            ("192.168.2.10/255.255.255.0", "eth0", "192.168.3.1", false),
            ("192.168.2.10", "eth0", "192.168.2.77", false),
            ("fe80::1/64", "eth0", "fe80::2", true),
            ("192.168.2.10/24;speed=1000000000,capability=RSS", "eth0", "192.168.2.1", true),
        ];
        for (text, name, address, expected) in cases {
            let pattern = interface(text).expect("an interface");
            assert_eq!(pattern.pattern.matches(name, address.parse().expect("an address")), expected, "{text}");
        }
        let chosen =
            interface("eth0; speed=2500000000, capability=RSS,capability=RDMA,if_index=7").expect("an interface");
        assert_eq!((chosen.speed, chosen.rss, chosen.index), (Some(2_500_000_000), Some(true), Some(7)));
        let plain = interface("eth0").expect("an interface");
        assert_eq!((plain.speed, plain.rss, plain.index), (None, None, None));
        for wrong in [
            "",
            "1.2.3",
            "10.0.0.0/99",
            "a/b",
            "a-name-far-too-long",
            "eth0;speed=fast",
            "eth0;if_index=0",
            "eth0;colour=red",
            "eth0;speed",
        ] {
            assert_eq!(interface(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn levels_and_options_are_read() {
        let read = |text: &str| log_level(&list(text)).map(|log| (log.level, log.classes.len()));
        assert_eq!(read("3"), Ok((3, 0)));
        assert_eq!(read("1 auth:5 smb2:10@/tmp/x all:2"), Ok((2, 2)));
        assert_eq!(read(""), Ok((2, 0)));
        let audits = log_level(&list("1 auth_audit:3@/tmp/x auth:3@y")).expect("known levels");
        assert_eq!(audits.files, [("auth_audit".to_owned(), "/tmp/x".into())].into());
        for wrong in ["x", "-1", "auth:", ":5", "auth:x", "101", "auth_json_audit:3@x"] {
            assert_eq!(read(wrong), Err(wrong.to_owned()));
        }
        assert_eq!(socket_option("tcp_nodelay"), Some(SocketOption { name: "TCP_NODELAY", value: 1 }));
        assert_eq!(socket_option("SO_RCVBUF=65536"), Some(SocketOption { name: "SO_RCVBUF", value: 65536 }));
        assert_eq!(socket_option("SO_RCVBUF=x"), None);
        assert_eq!(socket_option("SO_MAGIC"), None);
    }
}
