//! The protocol and the network.

use std::time::Duration;

use server::policy::{EncryptionAlgorithm, Protocol, Signing, SigningAlgorithm};

use super::share::LEVEL;
use super::{BOOL, BYTES, CONTROLLERS_ONLY, COUNT, Kind, LIST, NMBD, NUMBER, Parameter, TEXT, TOOLS, global};
use crate::lists::{self, InterfaceChoice, SocketOption};
use crate::problem::{Code, error, warning};
use crate::reader::ValueReader;

/// Dialects, in the spelling of testparm, in which SMB2 is SMB 2.1. SMB 1 and older are one value, because none of them
/// is supported.
const DIALECT: Kind = Kind::Choice(&[
    &["default"],
    &["SMB2_02"],
    &["SMB2", "SMB2_10"],
    &["SMB3_00"],
    &["SMB3_02"],
    &["SMB3", "SMB3_11"],
    &["NT1", "LANMAN2", "LANMAN1", "COREPLUS", "CORE+", "CORE"],
]);
const TRANSFER: Kind = Kind::Bytes(65_536, 8_388_608);
const SMB1: &str = "SMB 1 is not served, and SMB 2 has no such option";
const NO_RPC: &str = "there is no RPC over TCP";

pub(crate) const NETBIOS_NAME: Parameter =
    global("netbios name", TEXT, "%h", "The server's name, at most 15 characters; the host's name by default.")
        // It was read first, because other texts may refer to it.
        .reads(|value, global| global.policy.netbios_name = value.section.variables.netbios_name.clone());

pub(crate) const WORKGROUP: Parameter = global("workgroup", TEXT, "WORKGROUP", "The workgroup of the server.")
    .reads(|value, global| global.policy.workgroup = value.section.variables.workgroup.clone());

const MIN_PROTOCOL: Parameter = global("server min protocol", DIALECT, "SMB2_02", "The oldest supported dialect.")
    .also(&["min protocol"])
    .reads(|value, global| global.policy.server_min_protocol = min_protocol(value));

pub(super) static TABLE: &[Parameter] = &[
    NETBIOS_NAME,
    WORKGROUP,
    global("server string", TEXT, "Frevo %v", "The comment shown next to the server's name.")
        .reads(|value, global| global.policy.server_string = value.shown_text()),
    MIN_PROTOCOL,
    global("server max protocol", DIALECT, "SMB3", "The newest supported dialect.")
        .also(&["max protocol", "protocol"])
        .reads(|value, global| global.policy.server_max_protocol = max_protocol(value)),
    global("server signing", LEVEL, "default", "Signing: at the client's request, or required.")
        .reads(|value, global| global.policy.server_signing = signing(value)),
    global(
        "server smb3 encryption algorithms",
        LIST,
        "AES-128-GCM, AES-128-CCM, AES-256-GCM, AES-256-CCM",
        "Encryption algorithms, the preferred one first.",
    )
    .reads(|value, global| global.policy.server_smb3_encryption_algorithms = algorithms(value, ENCRYPTION_ALGORITHMS)),
    global(
        "server smb3 signing algorithms",
        LIST,
        "AES-128-GMAC, AES-128-CMAC, HMAC-SHA256",
        "Signing algorithms, the preferred one first.",
    )
    .reads(|value, global| global.policy.server_smb3_signing_algorithms = algorithms(value, SIGNING_ALGORITHMS)),
    global("smb2 max read", TRANSFER, "8388608", "The longest read in bytes.")
        .reads(|value, global| global.policy.smb2_max_read = transfer(value)),
    global("smb2 max write", TRANSFER, "8388608", "The longest write in bytes.")
        .reads(|value, global| global.policy.smb2_max_write = transfer(value)),
    global("smb2 max trans", TRANSFER, "8388608", "The longest listing, query or control request.")
        .reads(|value, global| global.policy.smb2_max_trans = transfer(value)),
    global("smb2 max credits", Kind::Integer(1, 65_535), "8192", "Maximum number of credits of a connection.")
        .reads(|value, global| global.policy.smb2_max_credits = value.number().unwrap_or(8192)),
    global("smb ports", LIST, "445 139", "The TCP ports that clients connect to.")
        .reads(|value, global| global.daemon.smb_ports = ports(value)),
    global(
        "interfaces",
        LIST,
        "",
        "Interfaces, addresses and networks to serve, whether they exist now or later; empty: all.",
    )
    .reads(|value, global| global.daemon.interfaces = interfaces(value)),
    global("bind interfaces only", BOOL, "no", "Listen on the addresses of interfaces only, and follow their changes.")
        .reads(|value, global| global.daemon.bind_interfaces_only = value.boolean()),
    global("socket options", LIST, "TCP_NODELAY", "Options of each connection's socket.")
        .reads(|value, global| global.daemon.socket_options = socket_options(value)),
    global("deadtime", COUNT, "10080", "Minutes after which a connection without open files is closed; 0: never.")
        .also(&["dead time"])
        .reads(|value, global| {
            global.daemon.dead_time = positive(value).map(|minutes| Duration::from_secs(minutes.saturating_mul(60)))
        }),
    global("keepalive", COUNT, "300", "Idle seconds before TCP keepalive probes the client; 0: never.")
        .reads(|value, global| global.daemon.keepalive = positive(value).map(Duration::from_secs)),
    global("server multi channel support", BOOL, "yes", "Let a session use several connections.")
        .reads(|value, global| global.policy.server_multi_channel_support = value.boolean()),
    global("smb3 unix extensions", BOOL, "no", "Offer the POSIX extensions of SMB 3.1.1, for Linux clients.")
        .reads(|value, global| global.policy.smb3_unix_extensions = value.boolean()),
    global("server smb transports", LIST, "tcp", "Transports and their ports.")
        .unserved("transports other than TCP; set the ports with smb ports"),
    global("client smb transports", LIST, "tcp", "Transports of the client tools.").accepted(TOOLS),
    global("read raw", BOOL, "yes", "Use SMB 1's raw reads.").accepted(SMB1),
    global("write raw", BOOL, "yes", "Use SMB 1's raw writes.").accepted(SMB1),
    global("large readwrite", BOOL, "yes", "Allow SMB 1 transfers above 64 KiB.").accepted(SMB1),
    global("max xmit", BYTES, "16644", "The longest SMB 1 message.").accepted(SMB1),
    global("max mux", COUNT, "50", "Maximum number of concurrent SMB 1 requests.")
        .accepted("SMB 2 uses credits instead; see smb2 max credits"),
    global("max ttl", NUMBER, "259200", "The lifetime of NetBIOS names.").accepted(NMBD),
    global("nt pipe support", BOOL, "yes", "Offer named pipes on IPC$.").accepted("IPC$ always provides named pipes"),
    global("nt status support", BOOL, "yes", "Answer with NT status codes.").accepted(SMB1),
    global("reset on zero vc", BOOL, "no", "Drop a client's older connections at its first logon.").accepted(SMB1),
    global("time server", BOOL, "no", "Announce the server as a time server.")
        .accepted("every NEGOTIATE response contains the time"),
    global("async smb echo handler", BOOL, "no", "Answer ECHO in a separate process.")
        .accepted("a slow request does not delay the next one, including ECHO"),
    global("enable asu support", BOOL, "no", "Offer the printers' pipe of old clients.").accepted(SMB1),
    global("hostname lookups", BOOL, "no", "Look up the names of clients.")
        .accepted("names are looked up only if hosts allow or hosts deny has one"),
    global("name resolve order", TEXT, "lmhosts wins host bcast", "The order of name services.").accepted(TOOLS),
    global("name cache timeout", NUMBER, "660", "Seconds for which a name is cached.").accepted(TOOLS),
    global("nbt port", NUMBER, "137", "The port of the NetBIOS name service.").accepted(NMBD),
    global("dgram port", NUMBER, "138", "The port of the datagram service.").accepted(NMBD),
    global("nbt client socket address", TEXT, "0.0.0.0", "The address for NetBIOS and LDAP queries.")
        .also(&["socket address"])
        .accepted(TOOLS),
    global("rpc big endian", BOOL, "no", "Use big-endian byte order in RPC.")
        .accepted("all clients support little-endian"),
    global("rpc server port", NUMBER, "0", "The port of RPC over TCP.").accepted(NO_RPC),
    global("rpc server dynamic port range", TEXT, "49152-65535", "Ports of RPC over TCP.").accepted(NO_RPC),
    global("rpc start on demand helpers", BOOL, "yes", "Start RPC servers on demand.")
        .accepted("the server itself handles named pipes"),
    global("allow dcerpc auth level connect", BOOL, "no", "Allow unprotected RPC calls.")
        .accepted("pipes have the protection of their session"),
    global("dcerpc endpoint servers", TEXT, "", "The RPC servers of a controller.").accepted(CONTROLLERS_ONLY),
];

fn min_protocol(value: ValueReader<'_>) -> Protocol {
    match value.choice().as_str() {
        "NT1" => {
            let problem = warning(Code::NotServed, "SMB 1 and older are not served: the oldest dialect is SMB2_02");
            value.report(problem.remedy("write SMB2_02").loses("SMB 1", None));
            Protocol::Smb2_02
        }
        other => dialect(other).unwrap_or(Protocol::Smb2_02),
    }
}

fn max_protocol(value: ValueReader<'_>) -> Protocol {
    let most = match value.choice().as_str() {
        "NT1" => {
            value.bad_value("NT1", "SMB2_02, SMB2_10, SMB3_00, SMB3_02, SMB3_11");
            Protocol::Smb3_11
        }
        other => dialect(other).unwrap_or(Protocol::Smb3_11),
    };
    let least = value.of(&MIN_PROTOCOL);
    if min_protocol(least) > most {
        let problem = error(Code::Contradiction, "`server min protocol` is newer than `server max protocol`");
        let subject = if least.is_set() { least } else { value };
        subject.report(problem.remedy("no client could connect: lower the minimum or raise the maximum"));
    }
    most
}

fn dialect(name: &str) -> Option<Protocol> {
    match name {
        "SMB2_02" => Some(Protocol::Smb2_02),
        "SMB2" => Some(Protocol::Smb2_10),
        "SMB3_00" => Some(Protocol::Smb3_00),
        "SMB3_02" => Some(Protocol::Smb3_02),
        "SMB3" => Some(Protocol::Smb3_11),
        _ => None,
    }
}

fn signing(value: ValueReader<'_>) -> Signing {
    match value.choice().as_str() {
        "required" => Signing::Required,
        // [MS-SMB2] 3.3.5.5 does not allow a server to refuse signing.
        _ => Signing::Enabled,
    }
}

fn transfer(value: ValueReader<'_>) -> u32 {
    u32::try_from(value.bytes()).unwrap_or(8_388_608)
}

const ENCRYPTION_ALGORITHMS: &[(&str, EncryptionAlgorithm)] = &[
    ("AES-128-GCM", EncryptionAlgorithm::Aes128Gcm),
    ("AES-128-CCM", EncryptionAlgorithm::Aes128Ccm),
    ("AES-256-GCM", EncryptionAlgorithm::Aes256Gcm),
    ("AES-256-CCM", EncryptionAlgorithm::Aes256Ccm),
];

const SIGNING_ALGORITHMS: &[(&str, SigningAlgorithm)] = &[
    ("AES-128-GMAC", SigningAlgorithm::Aes128Gmac),
    ("AES-128-CMAC", SigningAlgorithm::Aes128Cmac),
    ("HMAC-SHA256", SigningAlgorithm::HmacSha256),
];

/// Returns the selected algorithms in order. As in Samba, `-NAME` removes one from the full list and `+NAME` appends
/// one.
fn algorithms<T: Copy + PartialEq>(value: ValueReader<'_>, known: &[(&str, T)]) -> Vec<T> {
    let elements = value.list();
    let changes = elements.first().is_some_and(|first| first.starts_with(['+', '-']));
    let mut chosen: Vec<T> = if changes { known.iter().map(|(_, algorithm)| *algorithm).collect() } else { Vec::new() };
    for element in &elements {
        let plain = if changes { element.trim_start_matches(['+', '-']) } else { element };
        match known.iter().find(|(known, _)| known.eq_ignore_ascii_case(plain)) {
            Some((_, algorithm)) => {
                chosen.retain(|other| other != algorithm);
                if !element.starts_with('-') {
                    chosen.push(*algorithm);
                }
            }
            None => {
                let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
                value.bad_value(element, &names.join(", "));
            }
        }
    }
    if chosen.is_empty() {
        let problem = error(Code::BadValue, format!("`{}` leaves no algorithm", value.name()));
        value.report(problem.remedy("name at least one, or remove the line"));
    }
    chosen
}

fn ports(value: ValueReader<'_>) -> Vec<u16> {
    let mut ports = Vec::new();
    for element in value.list() {
        match element.parse::<u16>() {
            Ok(port) if port > 0 => {
                if !ports.contains(&port) {
                    ports.push(port);
                }
            }
            _ => value.bad_value(&element, "port numbers from 1 to 65535, such as 445 139"),
        }
    }
    if ports.is_empty() {
        let problem = error(Code::BadValue, format!("`{}` has no port: no client could connect", value.name()));
        value.report(problem.remedy("allowed: port numbers from 1 to 65535, such as 445 139"));
    }
    ports
}

fn interfaces(value: ValueReader<'_>) -> Vec<InterfaceChoice> {
    let mut interfaces = Vec::new();
    for element in value.list() {
        match lists::interface(&element) {
            Some(interface) => interfaces.push(interface),
            None => {
                let allowed = "names (eth0, eth*), addresses and networks (192.168.2.10/24), each with \
                               an optional ;speed=BITS,capability=RSS,if_index=NUMBER";
                value.bad_value(&element, allowed);
            }
        }
    }
    interfaces
}

fn socket_options(value: ValueReader<'_>) -> Vec<SocketOption> {
    let mut options = Vec::new();
    for element in value.list() {
        match lists::socket_option(&element) {
            Some(option) => options.push(option),
            None => {
                let allowed = "TCP_NODELAY, SO_KEEPALIVE, SO_RCVBUF=65536 and other options of socket(7) and tcp(7)";
                value.ignored_value(&element, allowed);
            }
        }
    }
    options
}

fn positive(value: ValueReader<'_>) -> Option<u64> {
    value.number().filter(|number| *number > 0)
}
