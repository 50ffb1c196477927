//! Server-wide state: the configuration, sessions, open files and the back ends that serve them ([MS-SMB2] 3.3.1.5).

mod awaited;
mod changes;
mod logon_attempts;
mod parts;

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use proto::auth::spnego::MechType;
use proto::dtyp::Guid;

use self::awaited::Awaited;
pub use self::parts::{ServerParts, Volumes};
use super::abandoned::Abandoned;
use crate::accounting::{Accounting, Payer, Resource};
use crate::accounts::Accounts;
use crate::acl::cache::Cache;
use crate::address_bucket::AddressBucket;
use crate::buffers::Buffers;
use crate::domain::Domain;
use crate::environment::Environment;
use crate::error::Disconnect;
use crate::files;
use crate::interfaces::{Interface, Interfaces};
use crate::lockout::Lockouts;
use crate::logon_attempts::LogonAttempts;
use crate::logon_throttle::LogonThrottle;
use crate::policy::{Policy, Share};
use crate::state::connection::Connection;
use crate::state::durable::{Creations, Instances, Registry, Store};
use crate::state::odx::Tokens;
use crate::state::open::Open;
use crate::state::session::{Session, Terms};
use crate::streams::Streams;
use crate::tickets::Tickets;
use crate::unauthenticated::Unauthenticated;
use crate::vfs::{self, Vfs};

/// Identifies a volume: the directory, and which symbolic links may be followed in it.
type Mount = (PathBuf, bool, bool);
/// A file system and its volume number.
type Volume = (u64, Arc<dyn Vfs>);

/// A file system that was opened.
struct Mounted {
    number: u64,
    vfs: Weak<dyn Vfs>,
    /// A strong reference that keeps the volume open between tree connects, set for paths that the configuration
    /// contains literally. A path expanded from variables (`%t` gives a new one each second) is closed with its last
    /// tree connect.
    _kept: Option<Arc<dyn Vfs>>,
}

/// All connections, indexed by id, address and client.
#[derive(Default)]
struct Connections {
    by_id: HashMap<u64, Weak<Connection>>,
    by_address: HashMap<AddressBucket, usize>,
    unauthenticated: Unauthenticated<Connection>,
    /// Connections that have completed NEGOTIATE, by `ClientGuid`, oldest first.
    by_client: HashMap<Guid, Vec<Weak<Connection>>>,
}

/// The limit on the number of connections is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooMany {
    /// The limit.
    pub limit: usize,
    /// The address that the limit applies to; `None` for the limit on all connections.
    pub from: Option<AddressBucket>,
}

/// A running server.
pub struct Server {
    policy: ArcSwap<Policy>,
    /// What clients make the server hold.
    pub accounting: Accounting,
    /// Clock and random numbers.
    pub environment: Arc<dyn Environment>,
    /// The user accounts that may log on.
    pub accounts: Arc<dyn Accounts>,
    domain: Option<Arc<dyn Domain>>,
    volumes: Arc<dyn Volumes>,
    /// `ServerGuid`.
    pub guid: Guid,
    pub(crate) files: files::Table,
    /// Files to be deleted because the last open was that of a CREATE that failed.
    pub(crate) abandoned: Mutex<Vec<Abandoned>>,
    pub(crate) watches: files::notify::Watches,
    pub(crate) streams: Streams,
    /// Recently removed names.
    pub(crate) tunnel: files::Tunnel,
    pub(crate) buffers: Buffers,
    pub(crate) logon_throttle: LogonThrottle,
    /// Rate limit on password attempts.
    pub(crate) logon_attempts: LogonAttempts,
    pub(crate) lockouts: Lockouts,
    pub(crate) offloads: Tokens,
    /// The security descriptor cache.
    pub(crate) descriptors: Arc<Cache>,
    interfaces: Option<Arc<dyn Interfaces>>,
    tickets: Option<Arc<dyn Tickets>>,
    /// Durable, resilient and persistent opens that currently have no session.
    pub(crate) durable: Registry,
    /// The store for persistent opens; if it is not set, no open is persistent.
    store: Option<Arc<dyn Store>>,
    /// CREATE requests, by which replayed ones are recognized.
    pub(crate) creations: Creations,
    /// Opens of application instances.
    pub(crate) instances: Instances,
    /// Oplock breaks that local programs wait for.
    pub(crate) awaited: Awaited,
    /// The odd factor and the offset that turn counter values into persistent ids.
    persistent_ids: (u64, u64),
    mounted: Mutex<HashMap<Mount, Mounted>>,
    /// Views of snapshots in which a file is open.
    pub(crate) views: crate::tree::Views,
    sessions: Mutex<HashMap<u64, Arc<Session>>>,
    connections: Mutex<Connections>,
    last_id: AtomicU64,
}

impl Server {
    /// Creates a server without connections from its parts.
    pub fn new(policy: Policy, guid: Guid, parts: ServerParts) -> Arc<Server> {
        let ServerParts { environment, volumes, domain, tickets, interfaces, store, .. } = parts;
        let (mut dice, mut secret) = ([0; 16], [0; 16]);
        environment.random(&mut dice);
        environment.random(&mut secret);
        let (factor, offset) = dice.split_at(8);
        let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let descriptors = Arc::new(Cache::new(environment.clone(), policy.limits.descriptor_bytes));
        Arc::new(Server {
            descriptors,
            accounting: Accounting::new(&policy.limits.bounds()),
            policy: ArcSwap::from_pointee(policy),
            streams: Streams::new(environment.clone()),
            environment,
            accounts: parts.accounts,
            domain,
            volumes,
            guid,
            files: files::Table::default(),
            abandoned: Mutex::default(),
            watches: files::notify::Watches::default(),
            tunnel: files::Tunnel::default(),
            buffers: Buffers::default(),
            logon_throttle: LogonThrottle::new(secret),
            logon_attempts: LogonAttempts::new(secret),
            lockouts: Lockouts::default(),
            offloads: Tokens::default(),
            interfaces,
            tickets,
            durable: Registry::default(),
            store,
            creations: Creations::default(),
            instances: Instances::default(),
            awaited: Awaited::default(),
            persistent_ids: (number(factor) | 1, number(offset)),
            mounted: Mutex::default(),
            views: crate::tree::Views::default(),
            sessions: Mutex::default(),
            connections: Mutex::default(),
            last_id: AtomicU64::new(0),
        })
    }

    /// The configuration in force.
    pub fn policy(&self) -> Guard<Arc<Policy>> {
        self.policy.load()
    }

    /// Activates another configuration. Existing tree connects keep the share that they were made with.
    pub fn reload(&self, policy: Policy) {
        self.accounting.set_bounds(&policy.limits.bounds());
        self.policy.store(Arc::new(policy));
    }

    /// Returns the domain that the server is a member of, if any.
    pub(crate) fn domain(&self) -> Option<&Arc<dyn Domain>> {
        self.domain.as_ref()
    }

    /// Returns the addresses at which the server can be reached.
    pub(crate) fn interfaces(&self) -> Vec<Interface> {
        self.interfaces.as_ref().map_or_else(Vec::new, |known| known.list())
    }

    /// Returns the Kerberos ticket validator.
    pub(crate) fn tickets(&self) -> Option<&Arc<dyn Tickets>> {
        self.tickets.as_ref()
    }

    /// Returns the authentication mechanisms available now, in order of preference.
    pub(crate) fn mech_types(&self) -> &'static [MechType<'static>] {
        const ALL: [MechType<'static>; 3] = [MechType::MS_KERBEROS, MechType::KERBEROS, MechType::NTLMSSP];
        let first = if self.tickets().is_some_and(|tickets| tickets.ready()) { 0 } else { 2 };
        let end = if self.policy().ntlm { 3 } else { 2 };
        &ALL[first..end]
    }

    /// Returns a number that this server has not returned before.
    pub(crate) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns `FileId.Persistent` for a new open. It is unique in this server, hard to guess, and different in another
    /// run. Multiplication by an odd number is a permutation of all 64-bit numbers.
    pub(crate) fn next_open_id(&self) -> u64 {
        let (factor, offset) = self.persistent_ids;
        loop {
            let id = self.next_id().wrapping_mul(factor).wrapping_add(offset);
            // -1 refers to the open of the preceding request in a compound chain ([MS-SMB2] 3.3.5.2.7.2).
            if id != 0 && id != u64::MAX {
                return id;
            }
        }
    }

    /// Returns `N` random bytes.
    pub(crate) fn random<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.environment.random(&mut bytes);
        bytes
    }

    /// Returns the file system behind `share` and its volume number.
    pub(crate) async fn volume(&self, share: &Share) -> vfs::Result<Volume> {
        let mount = (share.path.clone(), share.follow_symlinks, share.wide_links);
        let known = |mounted: &Mounted| Some((mounted.number, mounted.vfs.upgrade()?));
        if let Some(volume) = self.mounted.lock().get(&mount).and_then(known) {
            return Ok(volume);
        }
        let vfs = self.volumes.volume(share).await?;
        let mut all = self.mounted.lock();
        if let Some(volume) = all.get(&mount).and_then(known) {
            return Ok(volume);
        }
        all.retain(|_, mounted| mounted.vfs.strong_count() > 0);
        let number = self.next_id();
        let kept = share.path_template.is_none().then(|| vfs.clone());
        all.insert(mount, Mounted { number, vfs: Arc::downgrade(&vfs), _kept: kept });
        Ok((number, vfs))
    }

    /// Opens the volumes of shares whose directories contain, or are contained in, that of `share`, so that streams of
    /// their files are found through any of the shares.
    pub(crate) async fn add_overlaps(&self, share: &Share, volume: u64, vfs: &Arc<dyn Vfs>) {
        let policy = self.policy.load_full();
        let overlaps = |other: &&Arc<Share>| {
            let apart = other.path == share.path || other.path_template.is_some() || other.path.as_os_str().is_empty();
            !apart && (other.path.starts_with(&share.path) || share.path.starts_with(&other.path))
        };
        for other in policy.shares.values().filter(overlaps) {
            match self.volume(other).await {
                Ok((number, other)) => self.streams.overlap((volume, vfs), (number, &other)),
                Err(errno) => tracing::debug!(share = other.name, ?errno, "cannot open a share that overlaps another"),
            }
        }
    }

    /// Returns the mount point of the file system that contains the directory `path`.
    pub(crate) fn mount_point(&self, path: &Path) -> PathBuf {
        self.volumes.mount_point(path)
    }

    /// Creates a session with a new, unpredictable id.
    pub(crate) fn new_session(&self, terms: Terms, payer: &Arc<Payer>) -> Arc<Session> {
        let mut sessions = self.sessions.lock();
        loop {
            // 32 bits, because some clients store only that many. The id is not a secret; the keys protect the session.
            let id = u64::from(u32::from_le_bytes(self.random()));
            // 0 is not a session id ([MS-SMB2] 3.3.5.5.1). -1 in 32 bits could be mistaken for the reserved 64-bit -1.
            if id != 0 && id != u64::from(u32::MAX) && !sessions.contains_key(&id) {
                let session = Arc::new(Session::new(id, self.environment.now(), terms, payer));
                sessions.insert(id, session.clone());
                return session;
            }
        }
    }

    /// Returns the session `id`, whichever connections it uses.
    pub fn session(&self, id: u64) -> Option<Arc<Session>> {
        self.sessions.lock().get(&id).cloned()
    }

    /// All sessions.
    pub fn sessions(&self) -> Vec<Arc<Session>> {
        self.sessions.lock().values().cloned().collect()
    }

    /// Removes a session that has ended or never had a channel.
    pub(crate) fn drop_session(&self, session: &Session) {
        self.sessions.lock().remove(&session.id);
    }

    /// Returns the number of opens, including those of named pipes.
    pub fn open_count(&self) -> usize {
        self.accounting.held(Resource::Opens) + self.accounting.held(Resource::Pipes)
    }

    pub(crate) fn add_connection(&self, connection: &Arc<Connection>) {
        let mut connections = self.connections.lock();
        connections.by_id.insert(connection.id, Arc::downgrade(connection));
        let from = connection.peer.remote.ip().into();
        *connections.by_address.entry(from).or_default() += 1;
        connections.unauthenticated.add(from, connection.id, Arc::downgrade(connection));
    }

    /// Records that the connection has completed NEGOTIATE for `client`.
    pub(crate) fn add_client(&self, connection: &Arc<Connection>, client: Guid) {
        let mut connections = self.connections.lock();
        // A connection that was closed meanwhile is not added.
        if connections.by_id.contains_key(&connection.id) {
            connections.by_client.entry(client).or_default().push(Arc::downgrade(connection));
        }
    }

    pub(crate) fn remove_connection(&self, connection: &Connection) {
        let mut connections = self.connections.lock();
        if let Some(negotiated) = connection.negotiated()
            && let Some(same) = connections.by_client.get_mut(&negotiated.client_guid)
        {
            same.retain(|other| !std::ptr::eq(other.as_ptr(), connection));
            if same.is_empty() {
                connections.by_client.remove(&negotiated.client_guid);
            }
        }
        let address = connection.peer.remote.ip().into();
        connections.unauthenticated.remove(address, connection.id);
        if connections.by_id.remove(&connection.id).is_some()
            && let Some(count) = connections.by_address.get_mut(&address)
        {
            *count -= 1;
            if *count == 0 {
                connections.by_address.remove(&address);
            }
        }
    }

    /// All connections.
    pub fn connections(&self) -> Vec<Arc<Connection>> {
        self.connections.lock().by_id.values().filter_map(Weak::upgrade).collect()
    }

    /// Returns the live connections of one client, oldest first. A lease belongs to the client, whichever session
    /// requested it ([MS-SMB2] 3.3.4.7).
    pub fn connections_of(&self, client_guid: Guid) -> Vec<Arc<Connection>> {
        let known = self.connections.lock().by_client.get(&client_guid).cloned().unwrap_or_default();
        known.iter().filter_map(Weak::upgrade).filter(|connection| connection.ended().is_none()).collect()
    }

    /// Checks whether one more connection from `address` may be accepted. The oldest connection without a logon may
    /// have to be closed to make space for it (see `unauthenticated`). The error states the reason, for the log.
    pub fn admit(&self, address: IpAddr) -> Result<(), TooMany> {
        let limits = &self.policy().limits;
        let from = AddressBucket::from(address);
        let mut connections = self.connections.lock();
        if connections.by_address.get(&from).is_some_and(|&there| there >= limits.connections_per_address) {
            return Err(TooMany { limit: limits.connections_per_address, from: Some(from) });
        }
        let goes =
            connections.unauthenticated.make_room(from, limits.unauthenticated, limits.unauthenticated_per_address);
        let full = connections.by_id.len() >= limits.connections;
        let crowded = !self.accounting.unauthenticated(from).has_room(Resource::Connections.bytes(1));
        let goes = goes.or_else(|| if full || crowded { connections.unauthenticated.take() } else { None });
        drop(connections);
        match goes.and_then(|goes| goes.upgrade()) {
            Some(goes) => {
                goes.end(Disconnect("the limit of connections is reached, and no user has logged on over this one"))
            }
            None if full => return Err(TooMany { limit: limits.connections, from: None }),
            None => {}
        }
        Ok(())
    }

    /// Closes the oldest unauthenticated connection of the address that has the most of them, if unauthenticated
    /// connections exceed their memory bound.
    pub(crate) fn relieve_unauthenticated(&self, payer: &Payer) {
        if !payer.is_overdrawn() {
            return;
        }
        let goes = self.connections.lock().unauthenticated.take();
        if let Some(goes) = goes.and_then(|goes| goes.upgrade()) {
            goes.end(Disconnect("connections without a user hold too much memory"));
        }
    }

    /// Returns whether the user account is locked after wrong passwords.
    pub fn is_locked_out(&self, name: &str) -> bool {
        self.lockouts.is_locked(name, &self.accounts.policy(), self.environment.uptime())
    }

    /// Forgets wrong passwords of a user account, after an administrator has enabled it or set its password.
    pub fn clear_lockout(&self, name: &str) {
        self.lockouts.clear_lockout(name);
    }

    /// Records a wrong password for `name`. `exists`: there is a user account of that name.
    pub(crate) fn wrong_password(&self, name: &str, exists: bool) {
        let policy = self.accounts.policy();
        if self.lockouts.failed(name, exists, &policy, self.environment.uptime()) {
            tracing::warn!(user = name, attempts = policy.lockout_attempts, "account locked after wrong passwords");
            if exists && policy.lockout_duration.is_none() {
                self.accounts.lock(name);
            }
        }
    }

    /// Records that a user has logged on over this connection.
    pub(crate) fn set_authenticated(&self, connection: &Connection) {
        self.connections.lock().unauthenticated.remove(connection.peer.remote.ip().into(), connection.id);
    }

    /// Frees buffers that no request has needed since the last call; returns the number of bytes freed.
    pub fn release_unused_buffers(&self) -> usize {
        self.buffers.release_unused()
    }

    /// Takes back the buffer of a frame that was sent.
    pub fn recycle(&self, buffer: Vec<u8>) {
        self.buffers.put(buffer);
    }

    /// Returns the store for persistent opens.
    pub(crate) fn store(&self) -> Option<&Arc<dyn Store>> {
        self.store.as_ref()
    }

    /// Returns the opens of all sessions, for status.
    pub fn opens(&self) -> Vec<Arc<Open>> {
        self.sessions().iter().flat_map(|session| session.opens()).collect()
    }
}
