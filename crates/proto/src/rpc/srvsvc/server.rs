//! SERVER_INFO, SERVER_TRANSPORT_INFO and TIME_OF_DAY_INFO structures ([MS-SRVS] 2.2.4.40 to 2.2.4.105).

use crate::calendar;
use crate::rpc::enumeration::{Entry, Row, error};
use crate::rpc::ndr::Encoder;

/// The levels of NetrServerGetInfo that every caller may request.
pub const PUBLIC_LEVELS: &[u32] = &[100, 101];
/// The levels of NetrServerGetInfo.
pub const LEVELS: &[u32] = &[100, 101, 102, 103];
/// The further levels of a SERVER_INFO union ([MS-SRVS] 2.2.3.7). They have settings of the SMB 1 server of Windows,
/// and the server has none of them; Samba does not return them either.
pub const OTHER_LEVELS: &[u32] = &[
    502, 503, 599, 1005, 1010, 1016, 1017, 1018, 1107, 1501, 1502, 1503, 1506, 1509, 1510, 1511, 1512, 1513, 1514,
    1515, 1516, 1518, 1520, 1521, 1522, 1523, 1524, 1525, 1528, 1529, 1530, 1533, 1534, 1535, 1536, 1537, 1538, 1539,
    1540, 1541, 1542, 1543, 1544, 1545, 1546, 1547, 1548, 1549, 1550, 1552, 1553, 1554, 1555, 1556,
];
/// The levels of NetrServerTransportEnum.
pub const TRANSPORT_LEVELS: &[u32] = &[0, 1];

/// PLATFORM_ID_NT.
pub const PLATFORM_NT: u32 = 500;
/// The version of Windows whose behaviour clients may expect: 6.1, as in Samba.
pub const VERSION: (u32, u32) = (6, 1);
/// SV_TYPE_WORKSTATION | SV_TYPE_SERVER | SV_TYPE_NT | SV_TYPE_SERVER_NT | SV_TYPE_SERVER_UNIX.
const SERVER_TYPE: u32 = 0x0000_9803;
/// SV_TYPE_DFS.
const SERVER_TYPE_DFS: u32 = 0x0080_0000;
/// SV_NODISC: sessions are not disconnected when they are idle.
const NO_DISCONNECT: u32 = u32::MAX;
/// Seconds between announcements. The server makes none, and Samba returns this number.
const ANNOUNCE: u32 = 240;
/// Variation of these seconds, as in Samba.
const ANNOUNCE_DELTA: u32 = 3000;
/// The number of users that the server is licensed for, as in Samba.
const LICENSES: u32 = 100_000;

/// The server's information about itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerInfo {
    /// Its name.
    pub name: String,
    /// Its comment.
    pub comment: String,
    /// Whether it serves DFS namespaces.
    pub dfs: bool,
    /// The largest number of users at a time.
    pub users: u32,
    /// `capabilities` ([MS-SRVS] 2.2.4.43).
    pub capabilities: u32,
}

/// SRV_SUPPORT_HASH_GENERATION and SRV_HASH_GENERATION_ACTIVE are not set.
pub const NO_CAPABILITIES: u32 = 0;

impl Entry for ServerInfo {
    fn encode(&self, level: u32, out: &mut Row<'_>) {
        out.u32(PLATFORM_NT);
        out.string(&self.name);
        if level == 100 {
            return;
        }
        out.u32(VERSION.0);
        out.u32(VERSION.1);
        out.u32(SERVER_TYPE | if self.dfs { SERVER_TYPE_DFS } else { 0 });
        out.string(&self.comment);
        if level == 101 {
            return;
        }
        out.u32(self.users);
        out.u32(NO_DISCONNECT);
        // The server is not hidden.
        out.u32(0);
        out.u32(ANNOUNCE);
        out.u32(ANNOUNCE_DELTA);
        out.u32(LICENSES);
        // The directory of user directories.
        out.string("C:\\");
        if level == 103 {
            out.u32(self.capabilities);
        }
    }
}

/// The name of the transport SMB over TCP without NetBIOS in Windows.
pub const TRANSPORT_NAME: &str = "\\Device\\NetbiosSmb";
/// The network address of that transport, which has none of its own.
pub const TRANSPORT_ADDRESS: &str = "000000000000";

/// A transport of the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transport {
    /// `numberofvcs`: connections.
    pub connections: u32,
    /// `transportaddress`: the name of the server, as NetBIOS has it.
    pub server: String,
    /// `domain`.
    pub domain: String,
}

impl Entry for Transport {
    fn encode(&self, level: u32, out: &mut Row<'_>) {
        out.u32(self.connections);
        out.string(TRANSPORT_NAME);
        out.bytes(self.server.as_bytes());
        out.u32(self.server.len() as u32);
        out.string(TRANSPORT_ADDRESS);
        if level == 1 {
            out.string(&self.domain);
        }
    }
}

/// The results of NetrRemoteTOD for a time in seconds since 1970-01-01 UTC.
pub fn remote_tod_response(seconds: u64, uptime_ms: u32) -> Vec<u8> {
    let mut out = Encoder::default();
    let day = seconds % 86_400;
    let (year, month, day_of_month) = calendar::date((seconds / 86_400) as i64);
    out.pointer();
    for value in [
        seconds as u32,
        uptime_ms,
        (day / 3600) as u32,
        (day / 60 % 60) as u32,
        (day % 60) as u32,
        0,
        // The time zone is UTC, the clock's interval 10 ms.
        0,
        310,
        day_of_month as u32,
        month as u32,
        year as u32,
        // 1970-01-01 was a Thursday.
        ((seconds / 86_400 + 4) % 7) as u32,
        error::SUCCESS,
    ] {
        out.u32(value);
    }
    out.into_bytes()
}
