//! `frevo status`: shows the clients of a running server, their tree connects and their opens.
//!
//! [`Status`] is the JSON form: one object with a list for each kind of item. Times are seconds since 1970 UTC, ids are
//! hexadecimal strings, other numbers are integers below 2^64. The tables ([`show`]) have the layout of those of
//! `smbstatus`. `--live` and `--ready` print the health, one line for each fault.
//!
//! Exit status: 0 success, 1 no server runs, it did not answer, or it is not live or not ready.

mod held_resources;
mod show;
mod volumes;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use server::status::{Caching, Depth, Snapshot};

pub use self::held_resources::{HeldResources, Share, Usage};
pub use self::volumes::Volume;
use crate::admin::Client;
use crate::admin::message::{ServerRequest, Version};
use crate::health::Report;
use accounts::state_dir::StateDir;
use smbconf::location::locate;

/// Time limit for the answer to a probe.
const PROBE_TIME: Duration = Duration::from_secs(5);

/// Shows the clients of the running server and their open files
#[derive(clap::Args, Debug)]
pub struct StatusArgs {
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Print metrics in Prometheus' text format
    #[arg(long, conflicts_with = "json")]
    prometheus: bool,
    /// Exit with 0 if the server works, for probes that restart it otherwise
    #[arg(long, conflicts_with = "prometheus")]
    live: bool,
    /// Exit with 0 if clients are served, for probes that send clients elsewhere otherwise; print what is wrong
    #[arg(long, conflicts_with_all = ["prometheus", "live"])]
    ready: bool,
    /// State directory of the server
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Configuration file that specifies the state directory if --state-dir is not given
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
    if args.live || args.ready {
        let report: Report = client.within(PROBE_TIME)?.ask(&ServerRequest::Health {})?;
        let good = if args.live { report.live } else { report.ready };
        write(&if args.json { serde_json::to_string_pretty(&report)? + "\n" } else { show::health(&report) })?;
        return Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let text = if args.prometheus {
        client.ask(&ServerRequest::Metrics {})?
    } else {
        let version: Version = client.ask(&ServerRequest::Version {})?;
        let status: Status = client.ask(&ServerRequest::Status {})?;
        match args.json {
            true => serde_json::to_string_pretty(&Shown { version, status })? + "\n",
            false => show::table(&version, &status),
        }
    };
    write(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn write(text: &str) -> Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        // `frevo status | head` is not an error.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error).context("cannot write to stdout"),
        _ => Ok(()),
    }
}

/// The output of `--json`.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    version: Version,
    #[serde(flatten)]
    status: Status,
}

/// The state of a server in its JSON form.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Status {
    /// Time of the snapshot.
    pub taken: i64,
    /// Start time of the server.
    pub started: i64,
    /// Number of TCP connections, including those without a logon.
    pub connections: usize,
    /// Authenticated sessions.
    pub sessions: Vec<Session>,
    /// Tree connects.
    pub trees: Vec<Tree>,
    /// Open files and directories.
    pub opens: Vec<Open>,
    /// Byte-range locks.
    pub locks: Vec<Lock>,
    /// Statistics of the ACL cache.
    #[serde(default)]
    pub acl_cache: CacheStatistics,
    /// Resources that the server holds for clients.
    #[serde(default)]
    pub held: HeldResources,
    /// For each share that stores descriptors, which descriptors synthesized from POSIX ACLs are stored: the effective
    /// value of `frevo:acl store`.
    #[serde(default)]
    pub acl_store: BTreeMap<String, String>,
    /// The open volumes of GlusterFS.
    #[serde(default)]
    pub volumes: Vec<Volume>,
}

/// Statistics of the ACL cache.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug, Default)]
pub struct CacheStatistics {
    /// Number of cached files.
    pub entries: usize,
    /// Approximate size in bytes.
    pub bytes: usize,
    /// Access checks that used a cached ACL, since the server started.
    pub hits: u64,
    /// Access checks that had to read the file's attributes.
    pub misses: u64,
}

/// One session.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Session {
    /// SessionId, 16 hexadecimal digits.
    pub session: String,
    /// The account's name; empty for an anonymous session.
    pub user: String,
    /// The domain or workgroup shown with the name.
    pub domain: String,
    /// `user`, `guest` or `anonymous`.
    pub kind: String,
    /// UNIX user.
    pub uid: u32,
    /// UNIX group.
    pub gid: u32,
    /// The name that the client's machine reported; not verified.
    pub workstation: String,
    /// The client's address and port.
    pub address: String,
    /// `2.0.2`, `2.1`, `3.0`, `3.0.2` or `3.1.1`.
    pub dialect: String,
    /// The signing algorithm; `null` if requests are not signed.
    pub signing: Option<String>,
    /// The cipher; `null` if the session is not encrypted.
    pub encryption: Option<String>,
    /// Time of authentication.
    pub since: i64,
}

/// One tree connect.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Tree {
    /// TreeId, unique within its session.
    pub tree: u32,
    /// SessionId of its session.
    pub session: String,
    /// The share's name.
    pub share: String,
    /// Whether the share requires encryption.
    pub encrypted: bool,
    /// Number of opens in this tree connect.
    pub opens: usize,
    /// Time of the tree connect.
    pub since: i64,
}

/// One open file or directory.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Open {
    /// The volatile part of the FileId, 16 hexadecimal digits.
    pub id: String,
    /// SessionId of its session.
    pub session: String,
    /// TreeId of its tree connect.
    pub tree: u32,
    /// The share's name.
    pub share: String,
    /// The path below the share's root; empty for the root.
    pub path: String,
    /// Device number of the file.
    pub device: u64,
    /// Inode number of the file.
    pub inode: u64,
    /// Whether the file is a directory.
    pub directory: bool,
    /// Granted access mask.
    pub access: u32,
    /// The share access: any of `R`, `W`, `D`.
    pub share_access: String,
    /// `none`, `level II`, `exclusive`, `batch`, or `lease` and its letters `R`, `H`, `W`.
    pub caching: String,
    /// Whether the file will be deleted when its last handle is closed.
    pub delete_on_close: bool,
    /// Time of the open.
    pub since: i64,
    /// Seconds for which the open is preserved for a client that has lost its connection; null while the client is
    /// connected.
    #[serde(default)]
    pub kept: Option<u64>,
    /// `folder` or `tree` if the client watches the directory for changes, null if not.
    #[serde(default)]
    pub watch: Option<String>,
}

/// One byte-range lock.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Lock {
    /// The id of the open that holds the lock.
    pub open: String,
    /// The SessionId of that open.
    pub session: String,
    /// The share's name.
    pub share: String,
    /// The path below the share's root.
    pub path: String,
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Whether the lock is exclusive.
    pub exclusive: bool,
}

fn id(number: u64) -> String {
    format!("{number:016x}")
}

impl Status {
    /// Adds the volumes that this process has opened.
    pub(crate) fn with_volumes(self) -> Status {
        Status { volumes: gluster::open_volumes().into_iter().map(Volume::from).collect(), ..self }
    }
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
            acl_cache: {
                let server::status::CacheStatistics { entries, bytes, hits, misses } = snapshot.acl_cache;
                CacheStatistics { entries, bytes, hits, misses }
            },
            held: snapshot.held.into(),
            acl_store: snapshot.acl_store.into_iter().map(|(share, store)| (share, store.to_string())).collect(),
            volumes: Vec::new(),
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
            kept: open.kept.map(|left| left.as_secs()),
            watch: open.watch.map(|depth| if depth == Depth::Tree { "tree".into() } else { "folder".into() }),
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
pub(crate) fn dialect(revision: u16) -> String {
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

#[cfg(test)]
pub(crate) mod tests;
