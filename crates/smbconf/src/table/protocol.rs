//! The protocol and the network.

use super::share::LEVEL;
use super::{BOOL, BYTES, COUNT, Kind, LIST, NUMBER, Parameter, TEXT, global};

/// Dialects; SMB 1 and older are one value because none of them is supported.
const DIALECT: Kind = Kind::Choice(&[
    &["default"],
    &["SMB2_02"],
    &["SMB2_10", "SMB2"],
    &["SMB3_00"],
    &["SMB3_02"],
    &["SMB3_11", "SMB3"],
    &["NT1", "LANMAN2", "LANMAN1", "COREPLUS", "CORE+", "CORE"],
]);
const TRANSFER: Kind = Kind::Bytes(65_536, 8_388_608);
const SMB1: &str = "SMB 1 is not served, and SMB 2 has no such option";
const DISCOVERY: &str = "name queries to other hosts";

pub(super) static TABLE: &[Parameter] = &[
    global("netbios name", TEXT, "%h", "The server's name, at most 15 characters; the host's name by default."),
    global("workgroup", TEXT, "WORKGROUP", "The workgroup of the server."),
    global("server string", TEXT, "Frevo %v", "The comment shown next to the server's name."),
    global("server min protocol", DIALECT, "SMB2_02", "The oldest supported dialect.").also(&["min protocol"]),
    global("server max protocol", DIALECT, "SMB3", "The newest supported dialect.").also(&["max protocol", "protocol"]),
    global("server signing", LEVEL, "default", "Signing: at the client's request, or required."),
    global(
        "server smb3 encryption algorithms",
        LIST,
        "AES-128-GCM, AES-128-CCM, AES-256-GCM, AES-256-CCM",
        "Encryption algorithms, the preferred one first.",
    ),
    global(
        "server smb3 signing algorithms",
        LIST,
        "AES-128-GMAC, AES-128-CMAC, HMAC-SHA256",
        "Signing algorithms, the preferred one first.",
    ),
    global("smb2 max read", TRANSFER, "8388608", "The longest read."),
    global("smb2 max write", TRANSFER, "8388608", "The longest write."),
    global("smb2 max trans", TRANSFER, "8388608", "The longest listing, query or control request."),
    global("smb2 max credits", Kind::Integer(1, 65_535), "8192", "Maximum number of credits of a connection."),
    global("smb ports", LIST, "445 139", "The TCP ports that clients connect to."),
    global("interfaces", LIST, "", "Interfaces, addresses and networks to serve; empty: all."),
    global("bind interfaces only", BOOL, "no", "Listen on the addresses of interfaces only."),
    global("socket options", LIST, "TCP_NODELAY", "Options of each connection's socket."),
    global("deadtime", COUNT, "10080", "Minutes after which a connection without open files is closed; 0: never.")
        .also(&["dead time"]),
    global("keepalive", COUNT, "300", "Idle seconds before TCP keepalive probes the client; 0: never."),
    global("server multi channel support", BOOL, "yes", "Let a session use several connections."),
    global("smb3 unix extensions", BOOL, "no", "Offer POSIX extensions.").unserved("POSIX extensions"),
    global("server smb transports", LIST, "tcp", "Transports and their ports.")
        .unserved("transports other than TCP; set the ports with smb ports"),
    global("client smb transports", LIST, "tcp", "Transports of the client tools.").unserved("Samba's client tools"),
    global("read raw", BOOL, "yes", "Use SMB 1's raw reads.").accepted(SMB1),
    global("write raw", BOOL, "yes", "Use SMB 1's raw writes.").accepted(SMB1),
    global("large readwrite", BOOL, "yes", "Allow SMB 1 transfers above 64 KiB.").accepted(SMB1),
    global("max xmit", BYTES, "16644", "The longest SMB 1 message.").accepted(SMB1),
    global("max mux", COUNT, "50", "Maximum number of concurrent SMB 1 requests.")
        .accepted("SMB 2 uses credits instead; see smb2 max credits"),
    global("max ttl", NUMBER, "259200", "The lifetime of NetBIOS names.").accepted("NetBIOS names are not answered"),
    global("nt pipe support", BOOL, "yes", "Offer named pipes.").accepted("IPC$ always provides named pipes"),
    global("nt status support", BOOL, "yes", "Answer with NT status codes.").accepted(SMB1),
    global("reset on zero vc", BOOL, "no", "Drop a client's older connections at its first logon.").accepted(SMB1),
    global("time server", BOOL, "no", "Announce the server as a time server.")
        .accepted("every NEGOTIATE response contains the time"),
    global("async smb echo handler", BOOL, "no", "Answer ECHO in a separate process.")
        .accepted("a slow request does not delay the next one, including ECHO"),
    global("enable asu support", BOOL, "no", "Offer the printers' pipe of old clients.").accepted(SMB1),
    global("hostname lookups", BOOL, "no", "Look up the names of clients.")
        .accepted("clients are identified only by address, because names could be forged"),
    global("name resolve order", TEXT, "lmhosts wins host bcast", "The order of name services.").unserved(DISCOVERY),
    global("name cache timeout", NUMBER, "660", "Seconds for which a name is cached.").unserved(DISCOVERY),
    global("nbt port", NUMBER, "137", "The port of the NetBIOS name service.").unserved("the NetBIOS name service"),
    global("dgram port", NUMBER, "138", "The port of the datagram service.").unserved("the NetBIOS name service"),
    global("nbt client socket address", TEXT, "0.0.0.0", "The address for NetBIOS and LDAP queries.")
        .also(&["socket address"])
        .unserved(DISCOVERY),
    global("disable netbios", BOOL, "no", "Disable NetBIOS.")
        .accepted("there is no NetBIOS name service; smb ports selects whether port 139 is used"),
    global("netbios aliases", TEXT, "", "Other names of the server.").unserved("several names for one server"),
    global("netbios scope", TEXT, "", "The NetBIOS scope.").unserved("the NetBIOS name service"),
    global("rpc big endian", BOOL, "no", "Use big-endian byte order in RPC.")
        .accepted("all clients support little-endian"),
    global("rpc server port", NUMBER, "0", "The port of RPC over TCP.").unserved("RPC over TCP"),
    global("rpc server dynamic port range", TEXT, "49152-65535", "Ports of RPC over TCP.").unserved("RPC over TCP"),
    global("rpc start on demand helpers", BOOL, "yes", "Start RPC servers on demand.")
        .accepted("the server itself handles named pipes"),
    global("allow dcerpc auth level connect", BOOL, "no", "Allow unprotected RPC calls.")
        .accepted("pipes have the protection of their session"),
    global("dcerpc endpoint servers", TEXT, "", "The RPC servers of a controller.")
        .unserved("being a domain controller"),
];
