//! The protocol and the network.

use super::share::LEVEL;
use super::{BOOL, BYTES, COUNT, Kind, LIST, NUMBER, Parameter, TEXT, global};

/// Dialects; SMB 1 and older are one value, since none of them is served.
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
const SMB1: &str = "SMB 1 is not served, and SMB 2 has no such choice";
const DISCOVERY: &str = "asking others for names";

pub(super) static TABLE: &[Parameter] = &[
    global("netbios name", TEXT, "%h", "The server's name, at most 15 characters; the host's name by default."),
    global("workgroup", TEXT, "WORKGROUP", "The workgroup that the server shows itself in."),
    global("server string", TEXT, "Frevo %v", "The comment beside the server's name."),
    global("server min protocol", DIALECT, "SMB2_02", "The oldest dialect that is served.").also(&["min protocol"]),
    global("server max protocol", DIALECT, "SMB3", "The newest dialect that is served.")
        .also(&["max protocol", "protocol"]),
    global("server signing", LEVEL, "default", "Signing: when the client asks for it, or required."),
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
    global("smb2 max credits", Kind::Integer(1, 65_535), "8192", "How many credits one connection may hold."),
    global("smb ports", LIST, "445 139", "The TCP ports that clients connect to."),
    global("interfaces", LIST, "", "Interfaces, addresses and networks to serve; empty: all."),
    global("bind interfaces only", BOOL, "no", "Listen on the addresses of interfaces only."),
    global("socket options", LIST, "TCP_NODELAY", "Options of each connection's socket."),
    global("deadtime", COUNT, "10080", "Minutes after which a connection without open files is closed; 0: never.")
        .also(&["dead time"]),
    global("keepalive", COUNT, "300", "Seconds of silence before TCP keepalive asks for the client; 0: never."),
    global("server multi channel support", BOOL, "yes", "Let a session use several connections."),
    global("smb3 unix extensions", BOOL, "no", "Offer POSIX extensions.").unserved("POSIX extensions"),
    global("server smb transports", LIST, "tcp", "Transports and their ports.")
        .unserved("transports other than TCP: smb ports says which ports are used"),
    global("client smb transports", LIST, "tcp", "Transports of the client tools.").unserved("Samba's client tools"),
    global("read raw", BOOL, "yes", "Use SMB 1's raw reads.").accepted(SMB1),
    global("write raw", BOOL, "yes", "Use SMB 1's raw writes.").accepted(SMB1),
    global("large readwrite", BOOL, "yes", "Allow SMB 1 transfers above 64 KiB.").accepted(SMB1),
    global("max xmit", BYTES, "16644", "The longest SMB 1 message.").accepted(SMB1),
    global("max mux", COUNT, "50", "SMB 1 requests at a time.")
        .accepted("SMB 2 counts credits instead: smb2 max credits"),
    global("max ttl", NUMBER, "259200", "The life of NetBIOS names.").accepted("NetBIOS names are not answered"),
    global("nt pipe support", BOOL, "yes", "Offer named pipes.").accepted("IPC$ has the pipes that clients need"),
    global("nt status support", BOOL, "yes", "Answer with NT status codes.").accepted(SMB1),
    global("reset on zero vc", BOOL, "no", "Drop a client's older connections at its first logon.").accepted(SMB1),
    global("time server", BOOL, "no", "Say that the server knows the time.")
        .accepted("every answer to NEGOTIATE has the time"),
    global("async smb echo handler", BOOL, "no", "Answer ECHO in a process of its own.")
        .accepted("a slow request never holds up the next, ECHO included"),
    global("enable asu support", BOOL, "no", "Offer the printers' pipe of old clients.").accepted(SMB1),
    global("hostname lookups", BOOL, "no", "Ask for the names of clients.")
        .accepted("clients are known by address only: who answers for a name could let himself in"),
    global("name resolve order", TEXT, "lmhosts wins host bcast", "Where names are looked up.").unserved(DISCOVERY),
    global("name cache timeout", NUMBER, "660", "How long a name is remembered.").unserved(DISCOVERY),
    global("nbt port", NUMBER, "137", "The port of the NetBIOS name service.").unserved("the NetBIOS name service"),
    global("dgram port", NUMBER, "138", "The port of the datagram service.").unserved("the NetBIOS name service"),
    global("nbt client socket address", TEXT, "0.0.0.0", "The address for NetBIOS and LDAP queries.")
        .also(&["socket address"])
        .unserved(DISCOVERY),
    global("disable netbios", BOOL, "no", "Do without NetBIOS.")
        .accepted("there is no name service; port 139 is listened on where smb ports has it"),
    global("netbios aliases", TEXT, "", "Other names of the server.").unserved("several names for one server"),
    global("netbios scope", TEXT, "", "The NetBIOS scope.").unserved("the NetBIOS name service"),
    global("rpc big endian", BOOL, "no", "Speak RPC in big-endian order.").accepted("clients understand little-endian"),
    global("rpc server port", NUMBER, "0", "The port of RPC over TCP.").unserved("RPC over TCP"),
    global("rpc server dynamic port range", TEXT, "49152-65535", "Ports of RPC over TCP.").unserved("RPC over TCP"),
    global("rpc start on demand helpers", BOOL, "yes", "Start RPC servers when they are asked for.")
        .accepted("pipes are served by the server itself"),
    global("allow dcerpc auth level connect", BOOL, "no", "Let RPC calls go unprotected.")
        .accepted("pipes are as protected as the session that they run in"),
    global("dcerpc endpoint servers", TEXT, "", "The RPC servers of a controller.")
        .unserved("being a domain controller"),
];
