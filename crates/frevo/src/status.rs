//! `frevo status`: who is connected to a running server, to what, and what they hold open.
//!
//! [`Status`] is the JSON form, one object with a list for each kind of thing; times are seconds since 1970 UTC, ids
//! that may exceed what a JSON number holds exactly are hexadecimal texts. The table is laid out like `smbstatus`.
//! Exit status: 0 shown, 1 no server runs or it did not answer.

use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use server::status::{Caching, Snapshot};

use crate::admin::Client;
use crate::admin::message::{ServerRequest, Version};
use crate::state_dir::{StateDir, locate};
use crate::when;

/// Shows who is connected to the running server and what they hold open
#[derive(clap::Args, Debug)]
pub struct StatusArgs {
    /// Prints JSON instead of tables
    #[arg(long)]
    json: bool,
    /// The state directory of the server
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// The configuration that names the state directory, where --state-dir does not
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &StatusArgs) -> Result<ExitCode> {
    let path = locate(args.state_dir.as_deref(), args.config.as_deref())?;
    let client = match StateDir::open(&path)? {
        Some(state) => Client::connect(&state)?,
        None => None,
    };
    let Some(mut client) = client else {
        anyhow::bail!("no server runs with the state directory {}", path.display());
    };
    let version: Version = client.ask(&ServerRequest::Version {})?;
    let status: Status = client.ask(&ServerRequest::Status {})?;
    let text = match args.json {
        true => serde_json::to_string_pretty(&Shown { version, status })? + "\n",
        false => table(&version, &status),
    };
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        // `frevo status | head` is no failure.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error).context("standard output"),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    version: Version,
    #[serde(flatten)]
    status: Status,
}

/// The state of a server, as JSON has it.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Status {
    /// When this was so.
    pub taken: i64,
    /// When the server started.
    pub started: i64,
    /// TCP connections, those that have not logged on included.
    pub connections: usize,
    /// Authenticated sessions.
    pub sessions: Vec<Session>,
    /// Tree connects.
    pub trees: Vec<Tree>,
    /// Open files and directories.
    pub opens: Vec<Open>,
    /// Byte-range locks.
    pub locks: Vec<Lock>,
}

/// One session.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Session {
    /// SessionId, 16 hexadecimal digits.
    pub session: String,
    /// The account's name; empty for an anonymous session.
    pub user: String,
    /// The domain or workgroup it is shown with.
    pub domain: String,
    /// `user`, `guest` or `anonymous`.
    pub kind: String,
    /// UNIX user.
    pub uid: u32,
    /// UNIX group.
    pub gid: u32,
    /// What the client's machine calls itself; not verified.
    pub workstation: String,
    /// The client's address and port.
    pub address: String,
    /// `2.0.2`, `2.1`, `3.0`, `3.0.2` or `3.1.1`.
    pub dialect: String,
    /// The signing algorithm; `null` where requests are not signed.
    pub signing: Option<String>,
    /// The cipher; `null` where the session is not encrypted.
    pub encryption: Option<String>,
    /// When it was authenticated.
    pub since: i64,
}

/// One tree connect.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Tree {
    /// TreeId, unique within its session.
    pub tree: u32,
    /// Its session.
    pub session: String,
    /// The share's name.
    pub share: String,
    /// Whether the share demands encryption.
    pub encrypted: bool,
    /// Opens below it.
    pub opens: usize,
    /// When it was connected.
    pub since: i64,
}

/// One open file or directory.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Open {
    /// The volatile part of the FileId, 16 hexadecimal digits.
    pub id: String,
    /// Its session.
    pub session: String,
    /// Its tree connect.
    pub tree: u32,
    /// The share's name.
    pub share: String,
    /// The path below the share's root; empty for the root.
    pub path: String,
    /// Device number of the file.
    pub device: u64,
    /// Inode number of the file.
    pub inode: u64,
    /// Whether it is a directory.
    pub directory: bool,
    /// Granted access mask.
    pub access: u32,
    /// What others may do meanwhile: any of `R`, `W`, `D`.
    pub share_access: String,
    /// `none`, `level II`, `exclusive`, `batch`, or `lease` and its letters `R`, `H`, `W`.
    pub caching: String,
    /// Whether it goes away with its last handle.
    pub delete_on_close: bool,
    /// When it was opened.
    pub since: i64,
}

/// One byte-range lock.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Lock {
    /// The open that holds it.
    pub open: String,
    /// The session of that open.
    pub session: String,
    /// The share's name.
    pub share: String,
    /// The path below the share's root.
    pub path: String,
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Whether it excludes readers.
    pub exclusive: bool,
}

fn id(number: u64) -> String {
    format!("{number:016x}")
}

impl From<Snapshot> for Status {
    fn from(snapshot: Snapshot) -> Self {
        Status {
            taken: snapshot.taken.secs,
            started: snapshot.started.secs,
            connections: snapshot.connections,
            sessions: snapshot.sessions.into_iter().map(Session::from).collect(),
            trees: snapshot.trees.into_iter().map(Tree::from).collect(),
            opens: snapshot.opens.into_iter().map(Open::from).collect(),
            locks: snapshot.locks.into_iter().map(Lock::from).collect(),
        }
    }
}

impl From<server::status::Session> for Session {
    fn from(session: server::status::Session) -> Self {
        Session {
            session: id(session.session_id),
            user: session.user,
            domain: session.domain,
            kind: match (session.anonymous, session.guest) {
                (true, _) => "anonymous",
                (false, true) => "guest",
                (false, false) => "user",
            }
            .to_owned(),
            uid: session.uid,
            gid: session.gid,
            workstation: session.workstation,
            address: session.peer.to_string(),
            dialect: dialect(session.dialect),
            signing: session.signing.map(str::to_owned),
            encryption: session.encryption.map(str::to_owned),
            since: session.since.secs,
        }
    }
}

impl From<server::status::Tree> for Tree {
    fn from(tree: server::status::Tree) -> Self {
        Tree {
            tree: tree.tree_id,
            session: id(tree.session_id),
            share: tree.share,
            encrypted: tree.encrypted,
            opens: tree.opens,
            since: tree.since.secs,
        }
    }
}

impl From<server::status::Open> for Open {
    fn from(open: server::status::Open) -> Self {
        Open {
            id: id(open.volatile),
            session: id(open.session_id),
            tree: open.tree_id,
            share: open.share,
            path: open.path,
            device: open.file.device,
            inode: open.file.inode,
            directory: open.directory,
            access: open.access,
            share_access: letters(open.share_access, &[(1, 'R'), (2, 'W'), (4, 'D')]),
            caching: caching(open.caching),
            delete_on_close: open.delete_on_close,
            since: open.since.secs,
        }
    }
}

impl From<server::status::Lock> for Lock {
    fn from(lock: server::status::Lock) -> Self {
        Lock {
            open: id(lock.volatile),
            session: id(lock.session_id),
            share: lock.share,
            path: lock.path,
            offset: lock.offset,
            length: lock.length,
            exclusive: lock.exclusive,
        }
    }
}

/// [MS-SMB2] 2.2.4, DialectRevision.
fn dialect(revision: u16) -> String {
    match revision {
        0x0202 => "2.0.2".into(),
        0x0210 => "2.1".into(),
        0x0300 => "3.0".into(),
        0x0302 => "3.0.2".into(),
        0x0311 => "3.1.1".into(),
        other => format!("{other:#06x}"),
    }
}

/// [MS-SMB2] 2.2.14, OplockLevel, and 2.2.13.2.8, LeaseState.
fn caching(caching: Caching) -> String {
    match caching {
        Caching::None | Caching::Oplock(0) | Caching::Lease(0) => "none".into(),
        Caching::Oplock(1) => "level II".into(),
        Caching::Oplock(8) => "exclusive".into(),
        Caching::Oplock(9) => "batch".into(),
        Caching::Oplock(other) => format!("oplock {other:#04x}"),
        Caching::Lease(state) => format!("lease {}", letters(state, &[(1, 'R'), (2, 'H'), (4, 'W')])),
    }
}

fn letters(bits: u32, names: &[(u32, char)]) -> String {
    names.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name).collect()
}

/// The state for a person.
fn table(version: &Version, status: &Status) -> String {
    let mut text = format!(
        "Frevo {}, process {}, since {}: {} connections\n\n",
        version.version,
        version.pid,
        when::utc(status.started),
        status.connections
    );
    let by_id: Sessions<'_> = status.sessions.iter().map(|session| (session.session.as_str(), session)).collect();
    let sessions = status.sessions.iter().map(session_row).collect::<Vec<_>>();
    let heads = ["Session", "Username", "Uid", "Machine", "Protocol", "Encryption", "Signing", "Since"];
    section(&mut text, None, &heads, &sessions);
    let trees = status.trees.iter().map(|tree| tree_row(&by_id, tree)).collect::<Vec<_>>();
    section(&mut text, None, &["Service", "Session", "Machine", "Connected at", "Encrypted", "Opens"], &trees);
    let opens = status.opens.iter().map(|open| open_row(&by_id, open)).collect::<Vec<_>>();
    let heads = ["Session", "User", "DenyMode", "Access", "R/W", "Oplock", "Share", "Name", "Time"];
    section(&mut text, Some("Open files"), &heads, &opens);
    let locks = status.locks.iter().map(lock_row).collect::<Vec<_>>();
    section(&mut text, Some("Byte range locks"), &["Session", "Share", "Name", "Kind", "Start", "Size"], &locks);
    text
}

fn session_row(session: &Session) -> Vec<String> {
    let user = match session.kind.as_str() {
        "user" => format!("{}\\{}", session.domain, session.user),
        kind => format!("({kind})"),
    };
    vec![
        session.session.clone(),
        user,
        session.uid.to_string(),
        machine(session),
        format!("SMB {}", session.dialect),
        session.encryption.clone().unwrap_or_else(|| "-".into()),
        session.signing.clone().unwrap_or_else(|| "-".into()),
        when::utc(session.since),
    ]
}

fn machine(session: &Session) -> String {
    match session.workstation.is_empty() {
        true => session.address.clone(),
        false => format!("{} ({})", session.workstation, session.address),
    }
}

/// The sessions by their ids.
type Sessions<'a> = HashMap<&'a str, &'a Session>;

fn tree_row(sessions: &Sessions<'_>, tree: &Tree) -> Vec<String> {
    vec![
        tree.share.clone(),
        tree.session.clone(),
        sessions.get(&*tree.session).map_or_else(|| "-".into(), |session| machine(session)),
        when::utc(tree.since),
        if tree.encrypted { "yes" } else { "-" }.into(),
        tree.opens.to_string(),
    ]
}

fn open_row(sessions: &Sessions<'_>, open: &Open) -> Vec<String> {
    vec![
        open.session.clone(),
        sessions.get(&*open.session).map_or_else(|| "-".into(), |session| session.user.clone()),
        deny_mode(&open.share_access).into(),
        format!("{:#x}", open.access),
        read_write(open.access).into(),
        open.caching.clone(),
        open.share.clone(),
        if open.path.is_empty() { ".".into() } else { open.path.clone() },
        when::utc(open.since),
    ]
}

fn lock_row(lock: &Lock) -> Vec<String> {
    vec![
        lock.session.clone(),
        lock.share.clone(),
        lock.path.clone(),
        if lock.exclusive { "exclusive" } else { "shared" }.into(),
        lock.offset.to_string(),
        lock.length.to_string(),
    ]
}

/// The words of `smbstatus` for what others may not do.
fn deny_mode(share_access: &str) -> &'static str {
    match (share_access.contains('R'), share_access.contains('W')) {
        (true, true) => "DENY_NONE",
        (true, false) => "DENY_WRITE",
        (false, true) => "DENY_READ",
        (false, false) => "DENY_ALL",
    }
}

/// The words of `smbstatus` for FILE_READ_DATA 1 and FILE_WRITE_DATA 2 or FILE_APPEND_DATA 4 ([MS-SMB2] 2.2.13.1).
fn read_write(access: u32) -> &'static str {
    match (access & 1 != 0, access & 6 != 0) {
        (true, true) => "RDWR",
        (true, false) => "RDONLY",
        (false, true) => "WRONLY",
        (false, false) => "NONE",
    }
}

/// A title where there is one, and the table below it; only the title where a titled table is empty.
fn section(text: &mut String, title: Option<&str>, heads: &[&str], rows: &[Vec<String>]) {
    match title {
        Some(title) if rows.is_empty() => text.push_str(&format!("{title}: none\n")),
        Some(title) => text.push_str(&format!("{title}:\n{}\n", crate::table::table(heads, rows))),
        None => text.push_str(&format!("{}\n", crate::table::table(heads, rows))),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use server::vfs::{FileId, Time};

    use super::*;

    pub(crate) fn snapshot() -> Snapshot {
        let at = |secs| Time { secs, nanos: 5 };
        Snapshot {
            taken: at(1_709_210_096),
            started: at(1_709_200_000),
            connections: 2,
            sessions: vec![server::status::Session {
                session_id: 0x1122_3344_5566_7788,
                user: "ann".into(),
                domain: "WORKGROUP".into(),
                guest: false,
                anonymous: false,
                uid: 1000,
                gid: 1000,
                workstation: "LAPTOP\u{1b}[2J".into(),
                peer: "[2001:db8::1]:50000".parse().unwrap(),
                dialect: 0x0311,
                signing: Some("AES-GMAC"),
                encryption: None,
                since: at(1_709_210_000),
            }],
            trees: vec![server::status::Tree {
                tree_id: 1,
                session_id: 0x1122_3344_5566_7788,
                share: "data".into(),
                encrypted: false,
                opens: 1,
                since: at(1_709_210_001),
            }],
            opens: vec![server::status::Open {
                volatile: 9,
                session_id: 0x1122_3344_5566_7788,
                tree_id: 1,
                share: "data".into(),
                path: "dir/file.txt".into(),
                file: FileId { device: 1, inode: 2 },
                directory: false,
                access: 0x0012_019f,
                share_access: 5,
                caching: Caching::Lease(7),
                delete_on_close: false,
                since: at(1_709_210_002),
            }],
            locks: vec![server::status::Lock {
                volatile: 9,
                session_id: 0x1122_3344_5566_7788,
                share: "data".into(),
                path: "dir/file.txt".into(),
                offset: u64::MAX,
                length: 1,
                exclusive: true,
            }],
        }
    }

    fn version() -> Version {
        Version { version: "9.9".into(), pid: 42 }
    }

    #[test]
    fn the_table() {
        let expected = "\
Frevo 9.9, process 42, since 2024-02-29 09:46:40Z: 2 connections

Session           Username       Uid   Machine                           Protocol   Encryption  Signing   Since
------------------------------------------------------------------------------------------------------------------------------
1122334455667788  WORKGROUP\\ann  1000  LAPTOP\u{fffd}[2J ([2001:db8::1]:50000)  SMB 3.1.1  -           AES-GMAC  2024-02-29 12:33:20Z

Service  Session           Machine                           Connected at          Encrypted  Opens
---------------------------------------------------------------------------------------------------
data     1122334455667788  LAPTOP\u{fffd}[2J ([2001:db8::1]:50000)  2024-02-29 12:33:21Z  -          1

Open files:
Session           User  DenyMode    Access    R/W   Oplock     Share  Name          Time
--------------------------------------------------------------------------------------------------------
1122334455667788  ann   DENY_WRITE  0x12019f  RDWR  lease RHW  data   dir/file.txt  2024-02-29 12:33:22Z

Byte range locks:
Session           Share  Name          Kind       Start                 Size
----------------------------------------------------------------------------
1122334455667788  data   dir/file.txt  exclusive  18446744073709551615  1

";
        assert_eq!(table(&version(), &snapshot().into()), expected);
    }

    #[test]
    fn an_idle_server_shows_empty_tables() {
        let text = table(&version(), &Snapshot::default().into());
        assert!(text.contains("Open files: none") && text.contains("Byte range locks: none"));
    }

    #[test]
    fn json_comes_back_and_keeps_its_names() {
        let status = Status::from(snapshot());
        let text = serde_json::to_string(&Shown { version: version(), status: status.clone() }).unwrap();
        assert_eq!(serde_json::from_str::<Status>(&text).unwrap(), status);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        for (path, expected) in [
            ("/version", "9.9".into()),
            ("/pid", 42.into()),
            ("/sessions/0/dialect", "3.1.1".into()),
            ("/sessions/0/kind", "user".into()),
            ("/sessions/0/encryption", serde_json::Value::Null),
            ("/trees/0/share", "data".into()),
            ("/opens/0/share_access", "RD".into()),
            ("/opens/0/caching", "lease RHW".into()),
            ("/locks/0/offset", u64::MAX.into()),
        ] {
            assert_eq!(value.pointer(path), Some(&expected), "{path}");
        }
    }

    #[test]
    fn words_for_values() {
        for (value, word) in [(0x0202, "2.0.2"), (0x0210, "2.1"), (0x0300, "3.0"), (0x0302, "3.0.2"), (7, "0x0007")] {
            assert_eq!(dialect(value), word);
        }
        for (value, word) in [
            (Caching::None, "none"),
            (Caching::Oplock(1), "level II"),
            (Caching::Oplock(8), "exclusive"),
            (Caching::Oplock(9), "batch"),
            (Caching::Oplock(0x20), "oplock 0x20"),
            (Caching::Lease(3), "lease RH"),
        ] {
            assert_eq!(caching(value), word);
        }
    }
}
