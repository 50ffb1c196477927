//! Structures about clients: SESSION_INFO, FILE_INFO and CONNECTION_INFO ([MS-SRVS] 2.2.4.1 to 2.2.4.21).

use crate::rpc::enumeration::{Entry, Row};

/// The levels of NetrSessionEnum.
pub const SESSION_LEVELS: &[u32] = &[0, 1, 2, 10, 502];
/// The levels of NetrFileEnum and NetrFileGetInfo.
pub const FILE_LEVELS: &[u32] = &[2, 3];
/// The levels of NetrConnectionEnum.
pub const CONNECTION_LEVELS: &[u32] = &[0, 1];

/// SESS_GUEST ([MS-SRVS] 2.2.2.3): the user is logged on as the guest.
pub const SESS_GUEST: u32 = 1;

/// PERM_FILE_READ ([MS-SRVS] 2.2.4.7).
pub const PERM_FILE_READ: u32 = 0x01;
/// PERM_FILE_WRITE.
pub const PERM_FILE_WRITE: u32 = 0x02;
/// PERM_FILE_CREATE: data may be appended, or entries created in a directory.
pub const PERM_FILE_CREATE: u32 = 0x04;
/// ACCESS_EXEC.
pub const ACCESS_EXEC: u32 = 0x08;
/// ACCESS_DELETE.
pub const ACCESS_DELETE: u32 = 0x10;
/// ACCESS_ATRIB.
pub const ACCESS_ATRIB: u32 = 0x20;
/// ACCESS_PERM.
pub const ACCESS_PERM: u32 = 0x40;

/// The information about a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Session {
    /// `cname`: the client.
    pub client: String,
    /// `username`.
    pub user: String,
    /// `num_opens`.
    pub opens: u32,
    /// `time`: seconds since the session was established.
    pub seconds: u32,
    /// `idle_time`: seconds without a request.
    pub idle_seconds: u32,
    /// `user_flags`.
    pub flags: u32,
}

impl Entry for Session {
    fn encode(&self, level: u32, out: &mut Row<'_>) {
        out.string(&self.client);
        if level == 0 {
            return;
        }
        out.string(&self.user);
        if level != 10 {
            out.u32(self.opens);
        }
        out.u32(self.seconds);
        out.u32(self.idle_seconds);
        if level == 10 {
            return;
        }
        out.u32(self.flags);
        if matches!(level, 2 | 502) {
            // SMB 2 and 3 clients do not send the name of their operating system.
            out.string("");
        }
        if level == 502 {
            // The server has one transport.
            out.string("");
        }
    }
}

/// The information about an open file, directory or pipe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct File {
    /// `id`.
    pub id: u32,
    /// `permissions`.
    pub permissions: u32,
    /// `num_locks`.
    pub locks: u32,
    /// `pathname`.
    pub path: String,
    /// `username`.
    pub user: String,
}

impl Entry for File {
    fn encode(&self, level: u32, out: &mut Row<'_>) {
        out.u32(self.id);
        if level == 3 {
            out.u32(self.permissions);
            out.u32(self.locks);
            out.string(&self.path);
            out.string(&self.user);
        }
    }
}

/// The information about a tree connect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Connection {
    /// `id`.
    pub id: u32,
    /// `type`, a type of share.
    pub kind: u32,
    /// `num_opens`.
    pub opens: u32,
    /// `time`: seconds since the tree connect.
    pub seconds: u32,
    /// `username`.
    pub user: String,
    /// `netname`: the client, or the share if the client was asked for.
    pub name: String,
}

impl Entry for Connection {
    fn encode(&self, level: u32, out: &mut Row<'_>) {
        out.u32(self.id);
        if level == 1 {
            out.u32(self.kind);
            out.u32(self.opens);
            // A tree connect has one user.
            out.u32(1);
            out.u32(self.seconds);
            out.string(&self.user);
            out.string(&self.name);
        }
    }
}
