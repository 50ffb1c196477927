//! The server as a whole: configuration, sessions, open files, and what they are served from ([MS-SMB2] 3.3.1.5).

use std::collections::HashMap;
use std::future::poll_fn;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use proto::auth::spnego::MechType;
use proto::dtyp::Guid;

use crate::accounting::{Accounting, Payer, Resource};
use crate::accounts::Accounts;
use crate::answer::Answer;
use crate::attempts::Attempts;
use crate::buffers::Buffers;
use crate::command::close;
use crate::conn::Connection;
use crate::domain::Domain;
use crate::durable::{self, Creations, Failed, Instances, Registry, Restored, Store};
use crate::error::Disconnect;
use crate::files;
use crate::guesses::Guesses;
use crate::interfaces::{Interface, Interfaces};
use crate::local::Awaited;
use crate::lockout::Lockouts;
use crate::neighbourhood::Neighbourhood;
use crate::newcomers::Newcomers;
use crate::offload::Tokens;
use crate::open::Open;
use crate::policy::{Policy, Share};
use crate::security::cache::Cache;
use crate::session::{Session, Terms};
use crate::streams::Streams;
use crate::tickets::Tickets;
use crate::vfs::{self, Vfs};
use crate::world::World;

/// Opens the file systems behind shares.
pub trait Volumes: Send + Sync {
    /// The file system that `share` serves. Asked once for each path and its rules for links; errors are told to the client that connects.
    fn volume(&self, share: &Share) -> Answer<vfs::Result<Arc<dyn Vfs>>>;

    /// Where the file system is mounted that the directory `path` lies in; `path` itself where nobody knows.
    fn mount_point(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }
}

/// What makes two shares one volume: the directory, and which links may be followed in it.
type Mount = (PathBuf, bool, bool);
/// A file system and the number that tells it apart from others.
type Volume = (u64, Arc<dyn Vfs>);

/// A file system that was opened.
struct Mounted {
    number: u64,
    vfs: Weak<dyn Vfs>,
    /// Stays open for the next who connects: what the configuration names itself does, what sessions make of variables
    /// (`%t` a new one each second) goes with the last of its connects.
    _kept: Option<Arc<dyn Vfs>>,
}

/// All connections, and how many there are from each address.
#[derive(Default)]
struct Connections {
    by_id: HashMap<u64, Weak<Connection>>,
    by_address: HashMap<Neighbourhood, usize>,
    newcomers: Newcomers,
    /// By `ClientGuid`, those that have negotiated, the oldest first.
    by_client: HashMap<Guid, Vec<Weak<Connection>>>,
}

/// There are as many connections as there may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooMany {
    /// How many.
    pub limit: usize,
    /// Of one address; `None`: in all.
    pub from: Option<Neighbourhood>,
}

/// A running server.
pub struct Server {
    policy: ArcSwap<Policy>,
    /// What clients make the server hold.
    pub accounting: Accounting,
    /// Clock and dice.
    pub world: Arc<dyn World>,
    /// Who may log on.
    pub accounts: Arc<dyn Accounts>,
    domain: OnceLock<Arc<dyn Domain>>,
    volumes: Arc<dyn Volumes>,
    /// `ServerGuid`.
    pub guid: Guid,
    pub(crate) files: files::Table,
    /// Files that go, because the last who had one open was a CREATE that came to nothing.
    pub(crate) abandoned: Mutex<Vec<close::Abandoned>>,
    pub(crate) watches: files::notify::Watches,
    pub(crate) streams: Streams,
    /// Names that just went away.
    pub(crate) tunnel: files::Tunnel,
    pub(crate) buffers: Buffers,
    pub(crate) guesses: Guesses,
    /// How often passwords are tried.
    pub(crate) attempts: Attempts,
    pub(crate) lockouts: Lockouts,
    pub(crate) offloads: Tokens,
    /// What protects files.
    pub(crate) descriptors: Arc<Cache>,
    interfaces: OnceLock<Arc<dyn Interfaces>>,
    tickets: OnceLock<Arc<dyn Tickets>>,
    /// Opens that have no session now.
    pub(crate) durable: Registry,
    /// Where persistent opens are kept; without it there are none.
    store: OnceLock<Arc<dyn Store>>,
    /// CREATE requests that can be told from their repetitions.
    pub(crate) creations: Creations,
    /// Opens of application instances.
    pub(crate) instances: Instances,
    /// Oplocks that local programs wait for.
    pub(crate) awaited: Awaited,
    /// Makes persistent ids of counted ones: an odd factor, and what is added.
    persistent_ids: (u64, u64),
    mounted: Mutex<HashMap<Mount, Mounted>>,
    /// Snapshots that something is open in.
    pub(crate) views: crate::snapshots::Views,
    sessions: Mutex<HashMap<u64, Arc<Session>>>,
    connections: Mutex<Connections>,
    last_id: AtomicU64,
}

impl Server {
    /// A server that has no connections yet.
    pub fn new(
        policy: Policy,
        guid: Guid,
        world: Arc<dyn World>,
        accounts: Arc<dyn Accounts>,
        volumes: Arc<dyn Volumes>,
    ) -> Arc<Server> {
        let (mut dice, mut secret) = ([0; 16], [0; 16]);
        world.random(&mut dice);
        world.random(&mut secret);
        let (factor, offset) = dice.split_at(8);
        let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let descriptors = Arc::new(Cache::new(world.clone(), policy.limits.descriptor_bytes));
        Arc::new(Server {
            descriptors,
            accounting: Accounting::new(&policy.limits.bounds()),
            policy: ArcSwap::from_pointee(policy),
            streams: Streams::new(world.clone()),
            world,
            accounts,
            domain: OnceLock::new(),
            volumes,
            guid,
            files: files::Table::default(),
            abandoned: Mutex::default(),
            watches: files::notify::Watches::default(),
            tunnel: files::Tunnel::default(),
            buffers: Buffers::default(),
            guesses: Guesses::new(secret),
            attempts: Attempts::new(secret),
            lockouts: Lockouts::default(),
            offloads: Tokens::default(),
            interfaces: OnceLock::new(),
            tickets: OnceLock::new(),
            durable: Registry::default(),
            store: OnceLock::new(),
            creations: Creations::default(),
            instances: Instances::default(),
            awaited: Awaited::default(),
            persistent_ids: (number(factor) | 1, number(offset)),
            mounted: Mutex::default(),
            views: crate::snapshots::Views::default(),
            sessions: Mutex::default(),
            connections: Mutex::default(),
            last_id: AtomicU64::new(0),
        })
    }

    /// The configuration in force.
    pub fn policy(&self) -> Guard<Arc<Policy>> {
        self.policy.load()
    }

    /// Puts another configuration in force. Tree connects that exist keep the share they were made with.
    pub fn reload(&self, policy: Policy) {
        self.accounting.set_bounds(&policy.limits.bounds());
        self.policy.store(Arc::new(policy));
    }

    /// Tells the server who knows its interfaces, once, before it serves anybody. Without it clients are told of none.
    pub fn know_interfaces(&self, interfaces: Arc<dyn Interfaces>) {
        // Told twice, it stays with the first.
        let _ = self.interfaces.set(interfaces);
    }

    /// Tells the server how its domain is asked, once, before it serves anybody.
    pub fn join_domain(&self, domain: Arc<dyn Domain>) {
        // Told twice, it stays with the first.
        let _ = self.domain.set(domain);
    }

    /// The domain, where the server is a member of one.
    pub(crate) fn domain(&self) -> Option<&Arc<dyn Domain>> {
        self.domain.get()
    }

    /// The addresses at which it can be reached.
    pub(crate) fn interfaces(&self) -> Vec<Interface> {
        self.interfaces.get().map_or_else(Vec::new, |known| known.list())
    }

    /// Tells the server who takes Kerberos tickets, once, before it serves anybody. Without it none are.
    pub fn take_tickets(&self, tickets: Arc<dyn Tickets>) {
        // Told twice, it stays with the first.
        let _ = self.tickets.set(tickets);
    }

    /// Who takes tickets.
    pub(crate) fn tickets(&self) -> Option<&Arc<dyn Tickets>> {
        self.tickets.get()
    }

    /// How clients may log on now, best first.
    pub(crate) fn mech_types(&self) -> &'static [MechType<'static>] {
        const ALL: [MechType<'static>; 3] = [MechType::MS_KERBEROS, MechType::KERBEROS, MechType::NTLMSSP];
        let first = if self.tickets().is_some_and(|tickets| tickets.ready()) { 0 } else { 2 };
        let end = if self.policy().ntlm { 3 } else { 2 };
        &ALL[first..end]
    }

    /// A number never given before by this server.
    pub(crate) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// `FileId.Persistent` of a new open: never given before by this server, hard to guess, and different in another run
    /// of it. The multiplication by an odd number is a permutation of all numbers.
    pub(crate) fn next_open_id(&self) -> u64 {
        let (factor, offset) = self.persistent_ids;
        loop {
            let id = self.next_id().wrapping_mul(factor).wrapping_add(offset);
            // -1 stands for the open of the request before in a chain ([MS-SMB2] 3.3.5.2.7.2).
            if id != 0 && id != u64::MAX {
                return id;
            }
        }
    }

    /// `count` random bytes.
    pub(crate) fn random<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.world.random(&mut bytes);
        bytes
    }

    /// The file system behind `share`, and the number that tells it apart from others.
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

    /// Shares that lie in `share`, or that it lies in: their volumes are opened, too, and the streams of their files found
    /// in any of them.
    pub(crate) async fn know_overlaps(&self, share: &Share, volume: u64, vfs: &Arc<dyn Vfs>) {
        let policy = self.policy.load_full();
        let overlaps = |other: &&Arc<Share>| {
            let apart = other.path == share.path || other.path_template.is_some() || other.path.as_os_str().is_empty();
            !apart && (other.path.starts_with(&share.path) || share.path.starts_with(&other.path))
        };
        for other in policy.shares.values().filter(overlaps) {
            match self.volume(other).await {
                Ok((number, other)) => self.streams.overlap((volume, vfs), (number, &other)),
                Err(errno) => tracing::debug!(share = other.name, ?errno, "a share within another cannot be opened"),
            }
        }
    }

    /// Where the file system is mounted that the directory `path` lies in.
    pub(crate) fn mount_point(&self, path: &Path) -> PathBuf {
        self.volumes.mount_point(path)
    }

    /// Makes a session with a fresh, unpredictable id.
    pub(crate) fn new_session(&self, terms: Terms, payer: &Arc<Payer>) -> Arc<Session> {
        let mut sessions = self.sessions.lock();
        loop {
            // 32 bits: some clients keep no more of it. It is no secret, keys protect the session.
            let id = u64::from(u32::from_le_bytes(self.random()));
            // 0 is no session ([MS-SMB2] 3.3.5.5.1), and -1 as 32 bits could be taken for the other that is none.
            if id != 0 && id != u64::from(u32::MAX) && !sessions.contains_key(&id) {
                let session = Arc::new(Session::new(id, self.world.now(), terms, payer));
                sessions.insert(id, session.clone());
                return session;
            }
        }
    }

    /// The session `id` of any connection.
    pub fn session(&self, id: u64) -> Option<Arc<Session>> {
        self.sessions.lock().get(&id).cloned()
    }

    /// All sessions.
    pub fn sessions(&self) -> Vec<Arc<Session>> {
        self.sessions.lock().values().cloned().collect()
    }

    /// A session that never had a channel is found no more.
    pub(crate) fn drop_session(&self, session: &Session) {
        self.sessions.lock().remove(&session.id);
    }

    /// Ends a session: it is found no more, on none of its channels, and its opens are closed, but for those that outlive
    /// it.
    pub(crate) async fn end_session(&self, session: &Arc<Session>) {
        self.sessions.lock().remove(&session.id);
        // First those that stay, without a wait: their client may be back at once.
        let opens = session.close();
        let closed: Vec<_> = opens.into_iter().filter(|open| !self.durable.detach(self, open)).collect();
        let connections = session.take_channels();
        connections.iter().for_each(|connection| connection.forget(session));
        for open in closed {
            close::close_open(self, &open).await;
        }
        // What waited for an open was answered with its end; a CREATE that waits for a break belongs to none yet.
        connections.iter().for_each(|connection| connection.cancel_all_of(session));
    }

    /// Ends what has a time and nobody who waits for it, for ever: opens that outlived their session, and oplocks that
    /// local programs wait for; and checks what watching clients may be told. To be run beside the connections.
    pub async fn scavenge(&self) {
        let (mut opens, mut oplocks) = (pin!(durable::scavenge(self)), pin!(self.end_awaited()));
        let mut watches = pin!(self.watches.checks.run());
        poll_fn(|context| {
            // None of them ever ends.
            let _ = opens.as_mut().poll(context);
            let _ = watches.as_mut().poll(context);
            oplocks.as_mut().poll(context)
        })
        .await;
    }

    /// How many opens there are, those of pipes included.
    pub fn open_count(&self) -> usize {
        self.accounting.held(Resource::Opens) + self.accounting.held(Resource::Pipes)
    }

    pub(crate) fn add_connection(&self, connection: &Arc<Connection>) {
        let mut connections = self.connections.lock();
        connections.by_id.insert(connection.id, Arc::downgrade(connection));
        let from = connection.peer.remote.ip().into();
        *connections.by_address.entry(from).or_default() += 1;
        connections.newcomers.add(from, connection.id, Arc::downgrade(connection));
    }

    /// The connection has negotiated: it is `client`'s.
    pub(crate) fn know_client(&self, connection: &Arc<Connection>, client: Guid) {
        let mut connections = self.connections.lock();
        // One that was closed meanwhile is not to be found any more.
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
        connections.newcomers.remove(address, connection.id);
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

    /// The connections of one client that have not ended, the oldest first: a lease is the client's, whatever session
    /// asked for it ([MS-SMB2] 3.3.4.7).
    pub fn connections_of(&self, client_guid: Guid) -> Vec<Arc<Connection>> {
        let known = self.connections.lock().by_client.get(&client_guid).cloned().unwrap_or_default();
        known.iter().filter_map(Weak::upgrade).filter(|connection| connection.ended().is_none()).collect()
    }

    /// Whether one more connection may come from there. Where nobody has logged on on others, one of them may have to go
    /// for it (`newcomers`). An error is why not, for the log.
    pub fn admit(&self, address: IpAddr) -> Result<(), TooMany> {
        let limits = &self.policy().limits;
        let from = Neighbourhood::from(address);
        let mut connections = self.connections.lock();
        if connections.by_address.get(&from).is_some_and(|&there| there >= limits.connections_per_address) {
            return Err(TooMany { limit: limits.connections_per_address, from: Some(from) });
        }
        let goes = connections.newcomers.make_room(from, limits.newcomers, limits.newcomers_per_address);
        let full = connections.by_id.len() >= limits.connections;
        let crowded = !self.accounting.newcomer(from).has_room(Resource::Connections.bytes(1));
        let goes = goes.or_else(|| if full || crowded { connections.newcomers.take() } else { None });
        drop(connections);
        match goes.and_then(|goes| goes.upgrade()) {
            Some(goes) => goes.end(Disconnect("others want to log on, and nobody has here")),
            None if full => return Err(TooMany { limit: limits.connections, from: None }),
            None => {}
        }
        Ok(())
    }

    /// Where connections on which no user has logged on hold more memory than they may, the oldest of the address that has
    /// most of them ends.
    pub(crate) fn relieve_newcomers(&self, payer: &Payer) {
        if !payer.is_overdrawn() {
            return;
        }
        let goes = self.connections.lock().newcomers.take();
        if let Some(goes) = goes.and_then(|goes| goes.upgrade()) {
            goes.end(Disconnect("connections without a user hold too much memory"));
        }
    }

    /// Whether the account is locked after wrong passwords.
    pub fn is_locked_out(&self, name: &str) -> bool {
        self.lockouts.is_locked(name, &self.accounts.policy(), self.world.uptime())
    }

    /// An administrator has enabled the account, or given it a password: wrong ones are forgotten.
    pub fn forgive(&self, name: &str) {
        self.lockouts.forgive(name);
    }

    /// A wrong password for `name`, which is an account's where it `exists`.
    pub(crate) fn wrong_password(&self, name: &str, exists: bool) {
        let policy = self.accounts.policy();
        if self.lockouts.failed(name, exists, &policy, self.world.uptime()) {
            tracing::warn!(user = name, attempts = policy.lockout_attempts, "locked after wrong passwords");
            if exists && policy.lockout_duration.is_none() {
                self.accounts.lock(name);
            }
        }
    }

    /// Somebody is logged on on this connection.
    pub(crate) fn no_newcomer(&self, connection: &Connection) {
        self.connections.lock().newcomers.remove(connection.peer.remote.ip().into(), connection.id);
    }

    /// Gives up buffers that no request has needed since this was called last; answers how many bytes they had.
    pub fn release_unused_buffers(&self) -> usize {
        self.buffers.release_unused()
    }

    /// Takes back the buffer of a frame that was sent.
    pub fn recycle(&self, buffer: Vec<u8>) {
        self.buffers.put(buffer);
    }

    /// Where persistent opens are kept.
    pub(crate) fn store(&self) -> Option<&Arc<dyn Store>> {
        self.store.get()
    }

    /// Persistent opens are kept in `store`, and those of the previous run that it has are opened again. To be called once,
    /// before the first connection. An error means that the store cannot be read; then there are no persistent opens.
    pub async fn restore(self: &Arc<Self>, store: Arc<dyn Store>) -> Result<Restored, Failed> {
        let _ = self.store.set(store);
        durable::restore(self).await
    }

    /// The server stops: nobody comes back for what outlived its session.
    pub async fn close_detached(&self) {
        for open in self.durable.take() {
            close::close_open(self, &open).await;
        }
    }

    /// Opens of all sessions, for status.
    pub fn opens(&self) -> Vec<Arc<Open>> {
        self.sessions().iter().flat_map(|session| session.opens()).collect()
    }
}

impl Server {
    /// Who is connected and what they hold, for `frevo status`. `started`: since when the server runs.
    pub fn snapshot(&self, started: crate::vfs::Time) -> crate::status::Snapshot {
        crate::status::snapshot(self, started)
    }
}
