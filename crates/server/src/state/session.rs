//! Sessions: the logged-on user, the keys, and the tree connects and opens of the session ([MS-SMB2] 3.3.1.8). A
//! session's connections are its channels, in `channel`.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use proto::crypto::kdf::Key;
use proto::crypto::seal::SealingKey;
use proto::crypto::sign::SigningKey;

use crate::accounting::{Charge, Full, Payer, Resource};
use crate::audit::Logon;
use crate::number_hash::NumberMap;
use crate::restrictions::HostSession;
use crate::state::Mac;
pub use crate::state::channel::{Channel, Terms};
use crate::state::channel::{Channels, NoChannel};
use crate::state::connection::Connection;
use crate::state::connection::Pending;
use crate::state::open::Open;
use crate::tree::{ShareUse, ShareUses, Tree};
use crate::user::User;
use crate::vfs::Time;

/// The state of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// The first authentication is under way.
    InProgress,
    /// A user is logged on.
    Valid,
    /// The user's credentials have expired; only LOGOFF, CLOSE, LOCK and a new SESSION_SETUP are served.
    Expired,
    /// Logged off, or replaced by the client's new session.
    Closed,
}

/// The keys that belong to the session as a whole, set once when the first authentication succeeds.
pub struct SessionKeys {
    /// Decrypts messages from the client; `None` below 3.0 and for anonymous and guest sessions.
    pub client_to_server: Option<SealingKey>,
    /// Encrypts messages to the client.
    pub server_to_client: Option<SealingKey>,
    /// `Session.SigningKey`: signs the final response of the first authentication and verifies bindings.
    pub signing: Option<Arc<SigningKey>>,
    /// `Session.ApplicationKey`, which encrypts passwords in calls through pipes; `None` unless the keys are secret.
    pub application: Option<Key>,
    /// Whether the keys are secret. The key of a null session consists of zeros ([MS-NLMP] 3.2.5.1.2): its signatures
    /// can be checked but protect nothing.
    pub secret: bool,
}

/// Memory for a logon in progress: a session without a user, its channel and the stored tokens.
pub(crate) const LOGON_BYTES: usize = 4096;

/// The value of `expires` for a session that does not expire.
const NEVER: u64 = u64::MAX;

/// One logged-on user of one client.
pub struct Session {
    /// `SessionId`, never 0 or -1.
    pub id: u64,
    /// When it began.
    pub created: Time,
    /// Dialect, cipher and signing algorithm negotiated on the connection that established the session.
    pub terms: Terms,
    phase: RwLock<Phase>,
    /// When the user's credentials expire, in nanoseconds of [`crate::environment::Environment::uptime`]; [`NEVER`] if
    /// they do not.
    expires: AtomicU64,
    user: RwLock<Option<Arc<User>>>,
    /// Its logon, if that was recorded.
    pub(crate) logged_on: Mutex<Option<Box<Logon>>>,
    /// The session of the host, which ends with this one.
    of_host: Mutex<HostSession>,
    keys: RwLock<Option<Arc<SessionKeys>>>,
    /// `Session.SigningRequired`.
    pub signing_required: AtomicBool,
    /// `Session.EncryptData`: all messages are encrypted.
    pub encrypt_data: AtomicBool,
    /// The client has sent an encrypted request.
    sealed: AtomicBool,
    /// The next nonce for `server_to_client`; a nonce is never reused.
    nonce: AtomicU64,
    /// What was negotiated with a Mac, on any channel.
    pub(crate) mac: Mac,
    channels: Mutex<Channels>,
    trees: Mutex<Trees>,
    opens: Mutex<Opens>,
    open_count: AtomicU32,
    /// The charge for the session itself, which also holds the payer of everything done in it.
    charge: Mutex<Charge>,
    /// Requests until now, for metrics.
    requests: AtomicU64,
    /// Requests that continue although their channel is lost.
    survivors: Mutex<Vec<Weak<Pending>>>,
}

#[derive(Default)]
struct Opens {
    /// Ordered, so that a long list can be read in parts.
    by_id: BTreeMap<u64, Arc<Open>>,
    /// How many of them are pipes.
    pipes: usize,
}

impl Opens {
    fn remove(&mut self, volatile: u64) -> Option<Arc<Open>> {
        let open = self.by_id.remove(&volatile)?;
        self.pipes -= usize::from(open.is_pipe());
        Some(open)
    }
}

/// A tree connect, its charge, and its part in the number of those to its share.
struct Connected {
    tree: Arc<Tree>,
    _charge: Charge,
    _use: ShareUse,
}

#[derive(Default)]
struct Trees {
    by_id: NumberMap<u32, Connected>,
    last_id: u32,
}

impl Session {
    /// Creates a session whose authentication begins.
    pub fn new(id: u64, created: Time, terms: Terms, payer: &Arc<Payer>) -> Self {
        Session {
            id,
            created,
            terms,
            phase: RwLock::new(Phase::InProgress),
            expires: AtomicU64::new(NEVER),
            user: RwLock::new(None),
            logged_on: Mutex::new(None),
            of_host: Mutex::new(None),
            keys: RwLock::new(None),
            signing_required: AtomicBool::new(false),
            encrypt_data: AtomicBool::new(false),
            sealed: AtomicBool::new(false),
            nonce: AtomicU64::new(1),
            mac: Mac::default(),
            channels: Mutex::default(),
            trees: Mutex::default(),
            opens: Mutex::default(),
            open_count: AtomicU32::new(0),
            charge: Mutex::new(Charge::recorded(payer, Resource::Logons, LOGON_BYTES)),
            requests: AtomicU64::new(0),
            survivors: Mutex::default(),
        }
    }

    /// Returns the payer of everything done in this session.
    pub fn payer(&self) -> Arc<Payer> {
        self.charge.lock().payer().clone()
    }

    /// Makes `payer` pay for the session, once the logon is complete.
    pub(crate) fn charge_to(&self, payer: &Arc<Payer>) -> Result<(), Full> {
        *self.charge.lock() = payer.charge(Resource::Sessions, 1)?;
        Ok(())
    }

    /// Returns the session's state.
    pub fn phase(&self) -> Phase {
        *self.phase.read()
    }

    /// Returns the logged-on user; `None` before the first authentication is complete.
    pub fn user(&self) -> Option<Arc<User>> {
        self.user.read().clone()
    }

    /// Counts a request.
    pub(crate) fn count_request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of requests until now.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Returns the number of requests, and counts from 0 again.
    pub(crate) fn take_requests(&self) -> u64 {
        self.requests.swap(0, Ordering::Relaxed)
    }

    /// Returns the session's keys; `None` before the first authentication is complete.
    pub fn keys(&self) -> Option<Arc<SessionKeys>> {
        self.keys.read().clone()
    }

    /// Changes the phase to `Expired` if the user's credentials have expired ([MS-SMB2] 3.3.6.3). There is no timer:
    /// this is called before each check of the phase for a request, because nothing else depends on the expiry.
    pub fn expire(&self, uptime: impl FnOnce() -> Duration) {
        let expires = self.expires.load(Ordering::Relaxed);
        if expires != NEVER && u128::from(expires) <= uptime().as_nanos() {
            let mut phase = self.phase.write();
            if *phase == Phase::Valid {
                *phase = Phase::Expired;
            }
        }
    }

    /// Completes the first authentication. Returns `false` if the session was closed meanwhile; it then stays closed.
    #[must_use]
    pub fn establish(&self, user: Arc<User>, keys: SessionKeys, expires: Option<Duration>) -> bool {
        *self.keys.write() = Some(Arc::new(keys));
        self.reauthenticated(user, expires)
    }

    /// Completes a later authentication: the keys stay, the user is replaced ([MS-SMB2] 3.3.5.5.2). Returns `false` if
    /// the session was closed meanwhile over another channel; it then stays closed.
    #[must_use]
    pub fn reauthenticated(&self, user: Arc<User>, expires: Option<Duration>) -> bool {
        let mut phase = self.phase.write();
        if *phase == Phase::Closed {
            return false;
        }
        *self.user.write() = Some(user);
        let expires = expires.and_then(|expires| u64::try_from(expires.as_nanos()).ok());
        self.expires.store(expires.unwrap_or(NEVER), Ordering::Relaxed);
        *phase = Phase::Valid;
        true
    }

    /// Adds the session of the host. It ends at once if this session was closed meanwhile.
    pub(crate) fn set_host_session(&self, session: HostSession) {
        let mut of_host = self.of_host.lock();
        // Checked under the lock, because closing takes the session of the host.
        if self.phase() != Phase::Closed {
            *of_host = session;
        }
    }

    /// Records that the client has sent an encrypted request, whether or not encryption was required.
    pub(crate) fn note_sealed(&self) {
        if !self.sealed.load(Ordering::Relaxed) {
            self.sealed.store(true, Ordering::Relaxed);
        }
    }

    /// Returns whether any data of the session is or will be encrypted, by the client's own choice or because of a tree
    /// connect to a share that requires it.
    pub(crate) fn protects_data(&self) -> bool {
        self.encrypt_data.load(Ordering::Relaxed)
            || self.sealed.load(Ordering::Relaxed)
            || self.trees.lock().by_id.values().any(|it| it.tree.encrypts())
    }

    /// Closes the session and returns the opens that the caller must close. Remaining references see the session as
    /// closed.
    pub fn close(&self) -> Vec<Arc<Open>> {
        *self.phase.write() = Phase::Closed;
        *self.of_host.lock() = None;
        self.trees.lock().by_id.clear();
        for survivor in self.survivors.lock().drain(..).filter_map(|survivor| survivor.upgrade()) {
            survivor.cancel();
        }
        let mut opens = self.opens.lock();
        self.open_count.store(0, Ordering::Relaxed);
        std::mem::take(&mut *opens).by_id.into_values().collect()
    }

    /// Returns whether a request may continue although its channel is lost: only while the session has other channels,
    /// and at most `limit` requests at a time.
    pub(crate) fn admit_survivor(&self, pending: &Arc<Pending>, limit: usize) -> bool {
        let mut survivors = self.survivors.lock();
        survivors.retain(|survivor| survivor.strong_count() > 0);
        // Checked under the lock, because closing the session cancels the requests admitted before.
        if self.phase() == Phase::Closed || self.channel_count() == 0 || survivors.len() >= limit {
            return false;
        }
        survivors.push(Arc::downgrade(pending));
        true
    }

    /// Returns a nonce for encryption, unique for this session's keys; `None` when they are used up. Then the
    /// connection must end.
    pub fn next_nonce(&self) -> Option<u64> {
        let nonce = self.nonce.fetch_add(1, Ordering::Relaxed);
        (nonce < u64::MAX - (1 << 32)).then_some(nonce)
    }

    /// Adds `connection` as a channel; a session has at most `limit` of them.
    pub(crate) fn add_channel(&self, connection: &Arc<Connection>, limit: usize) -> Result<(), NoChannel> {
        self.channels.lock().add(connection, limit)
    }

    /// Removes the channel of `connection`. Returns `true` if it was the last one; then the caller must end the
    /// session.
    pub(crate) fn remove_channel(&self, connection: &Arc<Connection>) -> bool {
        self.channels.lock().remove(connection)
    }

    /// Removes all channels and returns their connections; no further channel can be added.
    pub(crate) fn take_channels(&self) -> Vec<Arc<Connection>> {
        self.channels.lock().close()
    }

    /// Returns the number of channels.
    pub fn channel_count(&self) -> usize {
        self.channels.lock().len()
    }

    /// Returns the connections over which the client can be sent notifications, in the order in which to try them:
    /// oldest first ([MS-SMB2] 3.3.4.1.6, 3.3.4.6).
    pub(crate) fn live_channels(&self) -> Vec<Arc<Connection>> {
        self.channels.lock().live()
    }

    /// Adds a tree connect that `make` builds from its new id, and counts it in `uses`. Returns `None` if there are
    /// `limit` already, the user has too many, or the session is closed.
    pub(crate) fn add_tree(
        &self,
        limit: usize,
        uses: &Arc<ShareUses>,
        make: impl FnOnce(u32) -> Arc<Tree>,
    ) -> Option<Arc<Tree>> {
        let charge = self.payer().charge(Resource::TreeConnects, 1).ok()?;
        let mut trees = self.trees.lock();
        if trees.by_id.len() >= limit || self.phase() == Phase::Closed {
            return None;
        }
        loop {
            trees.last_id = trees.last_id.wrapping_add(1);
            let id = trees.last_id;
            // 0 and -1 are not valid tree ids ([MS-SMB2] 3.3.5.7).
            if id != 0 && id != u32::MAX && !trees.by_id.contains_key(&id) {
                let tree = make(id);
                let _use = uses.add(tree.share_name());
                trees.by_id.insert(id, Connected { tree: tree.clone(), _charge: charge, _use });
                return Some(tree);
            }
        }
    }

    /// Returns the tree connect `id`.
    pub fn tree(&self, id: u32) -> Option<Arc<Tree>> {
        self.trees.lock().by_id.get(&id).map(|it| it.tree.clone())
    }

    /// Returns all tree connects.
    pub fn trees(&self) -> Vec<Arc<Tree>> {
        self.trees.lock().by_id.values().map(|it| it.tree.clone()).collect()
    }

    /// Removes a tree connect and returns the opens made through it, which the caller must close; `None` if there is no
    /// such tree connect.
    pub fn remove_tree(&self, id: u32) -> Option<Vec<Arc<Open>>> {
        self.trees.lock().by_id.remove(&id)?;
        let mut opens = self.opens.lock();
        let closed: Vec<_> = opens.by_id.values().filter(|open| open.tree.id == id).cloned().collect();
        opens.by_id.retain(|_, open| open.tree.id != id);
        opens.pipes -= closed.iter().filter(|open| open.is_pipe()).count();
        self.open_count.fetch_sub(closed.len() as u32, Ordering::Relaxed);
        Some(closed)
    }

    /// Adds an open; returns it as the error if the session or its tree connect has ended meanwhile.
    pub fn add_open(&self, open: Arc<Open>) -> Result<(), Arc<Open>> {
        let mut opens = self.opens.lock();
        if self.phase() == Phase::Closed || self.tree(open.tree.id).is_none() {
            return Err(open);
        }
        opens.pipes += usize::from(open.is_pipe());
        opens.by_id.insert(open.volatile_id, open);
        self.open_count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the open with these ids; both must match ([MS-SMB2] 3.3.5.10).
    pub fn open(&self, persistent: u64, volatile: u64) -> Option<Arc<Open>> {
        self.opens.lock().by_id.get(&volatile).filter(|open| open.persistent_id == persistent).cloned()
    }

    /// Returns the open with this volatile id.
    pub(crate) fn open_by_volatile(&self, volatile: u64) -> Option<Arc<Open>> {
        self.opens.lock().by_id.get(&volatile).cloned()
    }

    /// Removes an open. Only one caller gets it, so that an open is closed once.
    pub fn remove_open(&self, volatile: u64) -> Option<Arc<Open>> {
        let mut opens = self.opens.lock();
        let open = opens.remove(volatile)?;
        // Updated under the lock, because closing the session meanwhile sets the count to zero.
        self.open_count.fetch_sub(1, Ordering::Relaxed);
        Some(open)
    }

    /// Returns all opens.
    pub fn opens(&self) -> Vec<Arc<Open>> {
        self.opens.lock().by_id.values().cloned().collect()
    }

    /// Returns at most `most` opens, those with the lowest volatile ids above `after`.
    pub(crate) fn opens_after(&self, after: Option<u64>, most: usize) -> Vec<Arc<Open>> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let opens = self.opens.lock();
        opens.by_id.range((from, Bound::Unbounded)).take(most).map(|(_, open)| open.clone()).collect()
    }

    /// Returns the numbers of opens by the id of their tree connect.
    pub(crate) fn opens_by_tree(&self) -> HashMap<u32, usize> {
        let mut counts = HashMap::new();
        self.opens.lock().by_id.values().for_each(|open| *counts.entry(open.tree.id).or_default() += 1);
        counts
    }

    /// Returns the number of open pipes.
    pub(crate) fn pipe_count(&self) -> usize {
        self.opens.lock().pipes
    }

    /// Returns the number of opens.
    pub fn open_count(&self) -> usize {
        self.open_count.load(Ordering::Relaxed) as usize
    }
}
