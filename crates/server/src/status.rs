//! [`Snapshot`]: sessions, tree connects, opens and locks at one moment, for `frevo status`.
//!
//! The data is copied out of the live tables one after the other, so parts may be of slightly different moments: an
//! open may name a session that has ended meanwhile. Presentation and transport are left to the daemon.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::time::Duration;

use proto::smb2::LeaseState;
use proto::smb2::negotiate::{CipherId, SigningAlgorithm};

use crate::accounting::Report;
pub use crate::acl::cache::CacheStatistics;
use crate::files::oplock;
use crate::policy::{AclStore, Policy};
use crate::state::Server;
use crate::state::open;
use crate::state::session::Phase;
use crate::vfs::{FileId, Kind, Time};

/// What the server holds on behalf of its clients.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Snapshot {
    /// When it was taken.
    pub taken: Time,
    /// When the server started.
    pub started: Time,
    /// The number of connections, including those without a session.
    pub connections: usize,
    /// Authenticated sessions.
    pub sessions: Vec<Session>,
    /// Tree connects.
    pub trees: Vec<Tree>,
    /// Opens of files and directories.
    pub opens: Vec<Open>,
    /// Granted byte-range locks.
    pub locks: Vec<Lock>,
    /// The security descriptor cache.
    pub acl_cache: CacheStatistics,
    /// What the server holds on behalf of clients, and the bounds.
    pub held: Report,
    /// `frevo:acl store` in force for the shares that store descriptors, by share name.
    pub acl_store: Vec<(String, AclStore)>,
}

/// One session ([MS-SMB2] 3.3.1.8).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Session {
    /// `SessionId`.
    pub session_id: u64,
    /// The user's name as stored in the user account; empty for an anonymous session.
    pub user: String,
    /// The domain that is displayed with the user.
    pub domain: String,
    /// Whether the user is logged on as the guest.
    pub guest: bool,
    /// Whether the user gave no name and no password.
    pub anonymous: bool,
    /// The uid under which requests are executed.
    pub uid: u32,
    /// That user's primary group.
    pub gid: u32,
    /// The name of the client machine as sent by the client; often empty, not trustworthy.
    pub workstation: String,
    /// The client's address.
    pub peer: SocketAddr,
    /// The dialect ([MS-SMB2] 2.2.4 DialectRevision), 0x0311 for 3.1.1.
    pub dialect: u16,
    /// The name of the signing algorithm if requests are signed.
    pub signing: Option<&'static str>,
    /// The name of the cipher if the session is encrypted.
    pub encryption: Option<&'static str>,
    /// When it was authenticated.
    pub since: Time,
}

/// One tree connect ([MS-SMB2] 3.3.1.9).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tree {
    /// `TreeId`, unique within its session.
    pub tree_id: u32,
    /// The session that it belongs to.
    pub session_id: u64,
    /// The share's name.
    pub share: String,
    /// Whether this share requires encrypted requests.
    pub encrypted: bool,
    /// The number of opens made through it.
    pub opens: usize,
    /// When it was connected.
    pub since: Time,
}

/// One open file or directory ([MS-SMB2] 3.3.1.10), or a print job that a client sends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Open {
    /// The volatile part of its `FileId`.
    pub volatile: u64,
    /// The session that it belongs to.
    pub session_id: u64,
    /// The tree connect that it was opened through.
    pub tree_id: u32,
    /// The share's name.
    pub share: String,
    /// The path below the share's root, with `/`; empty for the root. The title of a print job.
    pub path: String,
    /// Identifies the file.
    pub file: FileId,
    /// Whether it is a directory.
    pub directory: bool,
    /// Granted access ([MS-SMB2] 2.2.13.1).
    pub access: u32,
    /// Share mode: FILE_SHARE_READ 1, FILE_SHARE_WRITE 2, FILE_SHARE_DELETE 4.
    pub share_access: u32,
    /// The oplock or lease of the open.
    pub caching: Caching,
    /// Whether the file is deleted when its last handle is closed.
    pub delete_on_close: bool,
    /// When it was opened.
    pub since: Time,
    /// How long the open is still kept for its disconnected client; `None` while the client is connected.
    pub kept: Option<Duration>,
    /// The depth of a CHANGE_NOTIFY watch on the directory, if there is one.
    pub watch: Option<Depth>,
}

/// How deep a directory is watched ([MS-SMB2] 2.2.35).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Depth {
    /// The directory alone.
    Directory,
    /// The directory and everything below it.
    Tree,
}

/// What a client may cache of an open file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Caching {
    /// Nothing.
    None,
    /// An oplock: OplockLevel of [MS-SMB2] 2.2.14.
    Oplock(u8),
    /// A lease: LeaseState of [MS-SMB2] 2.2.13.2.8.
    Lease(u32),
}

/// One byte-range lock ([MS-SMB2] 2.2.26).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lock {
    /// The open that holds it.
    pub volatile: u64,
    /// The session of that open.
    pub session_id: u64,
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

fn stores(policy: &Policy) -> Vec<(String, AclStore)> {
    let shares = policy.shares.values().filter(|share| share.converts());
    shares.map(|share| (share.name.clone(), share.acls.acl_store.clone())).collect()
}

/// Copies the status out of the live tables.
pub fn snapshot(server: &Server, started: Time) -> Snapshot {
    first(server, started, usize::MAX)
}

/// Copies the status with at most `most` sessions, tree connects, opens and locks of each kind. `held` has how many
/// there are.
pub fn first(server: &Server, started: Time, most: usize) -> Snapshot {
    let connections = server.connections.all();
    let mut snapshot = Snapshot {
        taken: server.environment.now(),
        started,
        connections: connections.len(),
        acl_cache: server.descriptors.state(),
        acl_store: stores(&server.policy()),
        held: server.accounting.report(),
        ..Snapshot::default()
    };
    let mut told = HashSet::new();
    for connection in &connections {
        for channel in connection.channels() {
            // A session with several connections is listed once, with an arbitrary one of them.
            if channel.session.phase() == Phase::Closed || !told.insert(channel.session.id) {
                continue;
            }
            let Some(user) = channel.session.user() else { continue };
            let Some(negotiated) = connection.negotiated() else { continue };
            add_session(server, &channel.session, &mut snapshot, most);
            if snapshot.sessions.len() >= most {
                continue;
            }
            let sealed = channel.session.encrypt_data.load(std::sync::atomic::Ordering::Relaxed);
            snapshot.sessions.push(Session {
                session_id: channel.session.id,
                user: if user.anonymous { String::new() } else { user.name.clone() },
                domain: user.domain.clone(),
                guest: user.guest,
                anonymous: user.anonymous,
                uid: user.identity.uid,
                gid: user.identity.gid,
                workstation: user.workstation.clone(),
                peer: connection.peer.remote,
                dialect: negotiated.dialect.0,
                signing: channel.signing().map(|_| signing_name(negotiated.signing)),
                encryption: negotiated.cipher.filter(|_| sealed).map(cipher_name),
                since: channel.session.created,
            });
        }
    }
    if snapshot.opens.len() < most || snapshot.locks.len() < most {
        for (open, left) in server.opens.durable.kept(server.environment.uptime()) {
            add_open(server, &open, Some(left), &mut snapshot, most);
        }
    }
    snapshot
}

fn add_session(server: &Server, session: &crate::state::session::Session, snapshot: &mut Snapshot, most: usize) {
    let is_full = [snapshot.trees.len(), snapshot.opens.len(), snapshot.locks.len()].iter().all(|count| *count >= most);
    if is_full {
        return;
    }
    let opens = session.opens();
    let mut of_trees: HashMap<u32, usize> = HashMap::new();
    opens.iter().for_each(|open| *of_trees.entry(open.tree.id).or_default() += 1);
    let room = most.saturating_sub(snapshot.trees.len());
    for tree in session.trees().into_iter().take(room) {
        snapshot.trees.push(Tree {
            tree_id: tree.id,
            session_id: session.id,
            share: tree.share_name().to_string(),
            encrypted: tree.encrypts(),
            opens: of_trees.get(&tree.id).copied().unwrap_or(0),
            since: tree.created,
        });
    }
    for open in &opens {
        add_open(server, open, None, snapshot, most);
    }
}

fn add_open(server: &Server, open: &open::Open, kept: Option<Duration>, snapshot: &mut Snapshot, most: usize) {
    if snapshot.opens.len() < most {
        add_file(server, open, kept, snapshot);
    }
    let Some(file) = open.file().filter(|_| snapshot.locks.len() < most) else { return };
    let held = server.opens.files.locks_of(file.file, open.persistent_id);
    snapshot.locks.extend(held.iter().take(most - snapshot.locks.len()).map(|lock| Lock {
        volatile: open.volatile_id,
        session_id: open.session_id,
        share: open.tree.share_name().to_string(),
        path: file.name.path.lock().to_string(),
        offset: lock.range.offset(),
        length: lock.range.length(),
        exclusive: lock.exclusive,
    }));
}

fn add_file(server: &Server, open: &open::Open, kept: Option<Duration>, snapshot: &mut Snapshot) {
    if let Some(job) = open.job() {
        snapshot.opens.push(Open {
            volatile: open.volatile_id,
            session_id: open.session_id,
            tree_id: open.tree.id,
            share: open.tree.share_name().to_string(),
            path: job.title.clone(),
            file: job.file,
            directory: false,
            access: open.granted.0,
            share_access: open.share.0,
            caching: Caching::None,
            delete_on_close: false,
            since: open.created,
            kept: None,
            watch: None,
        });
    }
    let Some(file) = open.file() else { return };
    snapshot.opens.push(Open {
        volatile: open.volatile_id,
        session_id: open.session_id,
        tree_id: open.tree.id,
        share: open.tree.share_name().to_string(),
        path: file.name.path.lock().to_string(),
        file: file.file,
        directory: file.kind == Kind::Directory,
        access: open.granted.0,
        share_access: open.share.0,
        caching: caching(server, open, file),
        delete_on_close: server.opens.files.is_delete_pending(file.file)
            || file.delete_on_close.load(std::sync::atomic::Ordering::Relaxed),
        since: open.created,
        kept,
        watch: file.watch.get().map(|watch| if watch.terms.tree { Depth::Tree } else { Depth::Directory }),
    });
}

fn caching(server: &Server, open: &open::Open, file: &open::FileOpen) -> Caching {
    let state = server.opens.files.caches(file.file, open.persistent_id);
    match (state, &file.lease) {
        (LeaseState::NONE, _) => Caching::None,
        (state, Some(_)) => Caching::Lease(state.0),
        (state, None) => Caching::Oplock(oplock::level(state).0),
    }
}

fn signing_name(algorithm: SigningAlgorithm) -> &'static str {
    match algorithm {
        SigningAlgorithm::HMAC_SHA256 => "HMAC-SHA256",
        SigningAlgorithm::AES_CMAC => "AES-128-CMAC",
        SigningAlgorithm::AES_GMAC => "AES-128-GMAC",
        _ => "unknown",
    }
}

fn cipher_name(cipher: CipherId) -> &'static str {
    match cipher {
        CipherId::AES_128_CCM => "AES-128-CCM",
        CipherId::AES_128_GCM => "AES-128-GCM",
        CipherId::AES_256_CCM => "AES-256-CCM",
        CipherId::AES_256_GCM => "AES-256-GCM",
        _ => "unknown",
    }
}
