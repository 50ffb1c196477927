//! SHARE_INFO structures ([MS-SRVS] 2.2.4.22 to 2.2.4.29).

use crate::rpc::enumeration::{Entry, Row};

/// The levels of NetrShareEnum.
pub const LISTED_LEVELS: &[u32] = &[0, 1, 2, 501, 502, 503];
/// The level of the enumeration that NetrShareEnumSticky does not have (3.1.4.9).
pub const NOT_STICKY_LEVEL: u32 = 501;
/// The levels of NetrShareGetInfo.
pub const LEVELS: &[u32] = &[0, 1, 2, 501, 502, 503, 1005];

/// STYPE_DISKTREE: a disk share ([MS-SRVS] 2.2.2.4).
pub const STYPE_DISKTREE: u32 = 0;
/// STYPE_PRINTQ: a printer.
pub const STYPE_PRINTQ: u32 = 1;
/// A pipe share.
pub const STYPE_IPC: u32 = 3;
/// A special share, which clients hide by default: names that end in `$`.
pub const STYPE_SPECIAL: u32 = 0x8000_0000;

/// The bits of shares in a cluster, which servers ignore in requests: STYPE_CLUSTER_FS, STYPE_CLUSTER_SOFS and
/// STYPE_CLUSTER_DFS.
pub const STYPE_CLUSTER: u32 = 0x0e00_0000;

/// Returns whether structures of this level have the number of tree connects, the path and more.
pub fn is_detailed(level: u32) -> bool {
    matches!(level, 2 | 502 | 503)
}

/// The information about a share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Share {
    /// `shi_netname`.
    pub name: String,
    /// `shi_type`.
    pub kind: u32,
    /// `shi_remark`.
    pub comment: String,
    /// `shi_path`, in Windows notation.
    pub path: String,
    /// `shi_max_uses`.
    pub max_uses: u32,
    /// `shi_current_uses`.
    pub current_uses: u32,
    /// `shi501_flags` and `shi1005_flags`: the flags of TREE_CONNECT.
    pub flags: u32,
    /// `shi_security_descriptor`, self-relative; empty if the share has none.
    pub security: Vec<u8>,
}

impl Entry for Share {
    fn encode(&self, level: u32, out: &mut Row<'_>) {
        if level == 1005 {
            return out.u32(self.flags);
        }
        out.string(&self.name);
        if level == 0 {
            return;
        }
        out.u32(self.kind);
        out.string(&self.comment);
        if level == 501 {
            return out.u32(self.flags);
        }
        if level == 1 {
            return;
        }
        // Permissions and passwords belong to share-level security.
        out.u32(0);
        out.u32(self.max_uses);
        out.u32(self.current_uses);
        out.string(&self.path);
        out.null();
        if level == 503 {
            // The share is reachable under all names of the server.
            out.string("*");
        }
        if level != 2 {
            out.u32(self.security.len() as u32);
            if self.security.is_empty() { out.null() } else { out.bytes(&self.security) }
        }
    }
}
