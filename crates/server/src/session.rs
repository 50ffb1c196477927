//! Sessions: who is logged on, with which keys, and what that user holds ([MS-SMB2] 3.3.1.8). The connections that a
//! session is used over are its channels, in `channel`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use proto::crypto::seal::SealingKey;
use proto::crypto::sign::SigningKey;
use proto::dtyp::Sid;

use crate::accounting::{Charge, Full, Payer, Resource};
pub use crate::channel::{Channel, Terms};
use crate::channel::{Channels, NoChannel};
use crate::conn::Connection;
use crate::conn::Pending;
use crate::durable::Owner;
use crate::open::Open;
use crate::tree::Tree;
use crate::vfs::{Identity, Time};

/// How far a session has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// The first authentication is under way.
    InProgress,
    /// A user is logged on.
    Valid,
    /// The user's credentials have run out; only LOGOFF, CLOSE, LOCK and a new SESSION_SETUP are served.
    Expired,
    /// Logged off, or replaced by the client's new session.
    Closed,
}

/// Who is logged on.
#[derive(Debug)]
pub struct User {
    /// The account's name.
    pub name: String,
    /// The domain or server that the account belongs to.
    pub domain: String,
    /// Let in as the guest.
    pub guest: bool,
    /// Nobody: an anonymous logon, good for IPC$ only.
    pub anonymous: bool,
    /// What the client's machine called itself; never to be trusted.
    pub workstation: String,
    /// The SIDs of the account, its present one first; none for a guest and for nobody.
    pub sids: Arc<[Sid]>,
    /// The user that the kernel knows.
    pub identity: Arc<Identity>,
    /// Names of UNIX groups, for `@group`.
    pub groups: Arc<[String]>,
}

impl User {
    /// Whether both are one account, which proved its password both times: no guests, nobody anonymous.
    pub fn is_same_account(&self, other: &User) -> bool {
        match (Owner::of(self), Owner::of(other)) {
            (Some(one), Some(two)) => one.is(&two),
            _ => false,
        }
    }

    /// Whether both are one user in the sense of `PreviousSessionId` ([MS-SMB2] 3.3.5.5.3). Who was let in as the guest
    /// has not shown that he is the account which the guest goes by.
    pub(crate) fn may_end_sessions_of(&self, other: &User) -> bool {
        let both_guests = self.guest && other.guest;
        self.is_same_account(other) || (both_guests && self.name == other.name && self.identity == other.identity)
    }
}

/// The keys that belong to the session as a whole, set once when the first authentication succeeds.
pub struct SessionKeys {
    /// Opens what the client sealed; `None` below 3.0 and for anonymous and guest sessions.
    pub client_to_server: Option<SealingKey>,
    /// Seals what the server sends.
    pub server_to_client: Option<SealingKey>,
    /// `Session.SigningKey`: signs the last answer of the first authentication and verifies bindings.
    pub signing: Option<Arc<SigningKey>>,
    /// Only the client and the server know them. The key of a null session is made of zeros ([MS-NLMP] 3.2.5.1.2): it
    /// checks signatures and protects nothing.
    pub secret: bool,
}

/// What a logon under way takes: a session without a user, its channel and the tokens that are kept.
const LOGON_BYTES: usize = 4096;

/// No time.
const NEVER: u64 = u64::MAX;

/// One logged-on user of one client.
pub struct Session {
    /// `SessionId`, never 0 or -1.
    pub id: u64,
    /// When it began.
    pub created: Time,
    /// What was negotiated where it was established.
    pub terms: Terms,
    phase: RwLock<Phase>,
    /// Up to when the user's proof is good, in nanoseconds of [`crate::world::World::uptime`]; [`NEVER`] for as long as
    /// the session lives.
    expires: AtomicU64,
    user: RwLock<Option<Arc<User>>>,
    keys: RwLock<Option<Arc<SessionKeys>>>,
    /// `Session.SigningRequired`.
    pub signing_required: AtomicBool,
    /// `Session.EncryptData`: everything is sealed.
    pub encrypt_data: AtomicBool,
    /// The client has sealed a request.
    sealed: AtomicBool,
    /// The next nonce of `server_to_client`: never used twice.
    nonce: AtomicU64,
    channels: Mutex<Channels>,
    trees: Mutex<Trees>,
    opens: Mutex<Opens>,
    open_count: AtomicU32,
    /// The session itself, and through it the accounts that pay for what is done in it.
    charge: Mutex<Charge>,
    /// Requests that go on although their channel is lost.
    survivors: Mutex<Vec<Weak<Pending>>>,
}

#[derive(Default)]
struct Opens {
    by_id: HashMap<u64, Arc<Open>>,
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

#[derive(Default)]
struct Trees {
    by_id: HashMap<u32, (Arc<Tree>, Charge)>,
    last_id: u32,
}

impl Session {
    /// A session whose authentication begins.
    pub fn new(id: u64, created: Time, terms: Terms, payer: &Arc<Payer>) -> Self {
        Session {
            id,
            created,
            terms,
            phase: RwLock::new(Phase::InProgress),
            expires: AtomicU64::new(NEVER),
            user: RwLock::new(None),
            keys: RwLock::new(None),
            signing_required: AtomicBool::new(false),
            encrypt_data: AtomicBool::new(false),
            sealed: AtomicBool::new(false),
            nonce: AtomicU64::new(1),
            channels: Mutex::default(),
            trees: Mutex::default(),
            opens: Mutex::default(),
            open_count: AtomicU32::new(0),
            charge: Mutex::new(Charge::recorded(payer, Resource::Logons, LOGON_BYTES)),
            survivors: Mutex::default(),
        }
    }

    /// The accounts that pay for what is done in this session.
    pub fn payer(&self) -> Arc<Payer> {
        self.charge.lock().payer().clone()
    }

    /// The logon is through: from now on `payer` pays.
    pub(crate) fn charge_to(&self, payer: &Arc<Payer>) -> Result<(), Full> {
        *self.charge.lock() = payer.charge(Resource::Sessions, 1)?;
        Ok(())
    }

    /// How far it has come.
    pub fn phase(&self) -> Phase {
        *self.phase.read()
    }

    /// Who is logged on; `None` before the first authentication is through.
    pub fn user(&self) -> Option<Arc<User>> {
        self.user.read().clone()
    }

    /// The session's keys; `None` before the first authentication is through.
    pub fn keys(&self) -> Option<Arc<SessionKeys>> {
        self.keys.read().clone()
    }

    /// [MS-SMB2] 3.3.6.3: whoever's proof was good until now has to show another. There is no timer: it is called before
    /// the phase is looked at for a request, and nothing depends on it before.
    pub fn expire(&self, uptime: impl FnOnce() -> Duration) {
        let expires = self.expires.load(Ordering::Relaxed);
        if expires != NEVER && u128::from(expires) <= uptime().as_nanos() {
            let mut phase = self.phase.write();
            if *phase == Phase::Valid {
                *phase = Phase::Expired;
            }
        }
    }

    /// The first authentication is through. `false`: the session has ended meanwhile, and stays so.
    #[must_use]
    pub fn establish(&self, user: Arc<User>, keys: SessionKeys, expires: Option<Duration>) -> bool {
        *self.keys.write() = Some(Arc::new(keys));
        self.reauthenticated(user, expires)
    }

    /// A later authentication is through: keys stay, the user is the one proven now ([MS-SMB2] 3.3.5.5.2). `false`: the
    /// session has ended meanwhile, over another channel, and stays so.
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

    /// A request of the client was sealed, whoever asked for it.
    pub(crate) fn note_sealed(&self) {
        if !self.sealed.load(Ordering::Relaxed) {
            self.sealed.store(true, Ordering::Relaxed);
        }
    }

    /// Whether something of the session is sealed, or will be: what the client sealed by its own choice, or a tree connect
    /// to a share that requires it.
    pub(crate) fn protects_data(&self) -> bool {
        self.encrypt_data.load(Ordering::Relaxed)
            || self.sealed.load(Ordering::Relaxed)
            || self.trees.lock().by_id.values().any(|(tree, _)| tree.disk().is_some_and(|disk| disk.encrypt_data))
    }

    /// Ends the session; answers the opens to be closed. Everything that still holds the session sees it closed.
    pub fn close(&self) -> Vec<Arc<Open>> {
        *self.phase.write() = Phase::Closed;
        self.trees.lock().by_id.clear();
        for survivor in self.survivors.lock().drain(..).filter_map(|survivor| survivor.upgrade()) {
            survivor.cancel();
        }
        let mut opens = self.opens.lock();
        self.open_count.store(0, Ordering::Relaxed);
        std::mem::take(&mut *opens).by_id.into_values().collect()
    }

    /// Whether a request may go on though its channel is lost: while there are others, and at most `limit` at a time.
    pub(crate) fn admit_survivor(&self, pending: &Arc<Pending>, limit: usize) -> bool {
        let mut survivors = self.survivors.lock();
        survivors.retain(|survivor| survivor.strong_count() > 0);
        // Looked at under the lock: who ends the session cancels what was admitted before.
        if self.phase() == Phase::Closed || self.channel_count() == 0 || survivors.len() >= limit {
            return false;
        }
        survivors.push(Arc::downgrade(pending));
        true
    }

    /// A nonce for sealing, never given twice for this session's keys; `None` when they are used up, which ends the
    /// connection rather than the secrecy.
    pub fn next_nonce(&self) -> Option<u64> {
        let nonce = self.nonce.fetch_add(1, Ordering::Relaxed);
        (nonce < u64::MAX - (1 << 32)).then_some(nonce)
    }

    /// The session is used over `connection`, too; at most `limit` connections are taken.
    pub(crate) fn add_channel(&self, connection: &Arc<Connection>, limit: usize) -> Result<(), NoChannel> {
        self.channels.lock().add(connection, limit)
    }

    /// `connection` is gone. `true` where it was the last one: then the session is to be ended.
    pub(crate) fn remove_channel(&self, connection: &Arc<Connection>) -> bool {
        self.channels.lock().remove(connection)
    }

    /// Takes all channels out and answers their connections; no further one is added.
    pub(crate) fn take_channels(&self) -> Vec<Arc<Connection>> {
        self.channels.lock().close()
    }

    /// How many connections it is used over.
    pub fn channel_count(&self) -> usize {
        self.channels.lock().len()
    }

    /// The connections over which the client can be told something that it did not ask for, in the order in which they are
    /// to be tried: the oldest first ([MS-SMB2] 3.3.4.1.6, 3.3.4.6).
    pub(crate) fn live_channels(&self) -> Vec<Arc<Connection>> {
        self.channels.lock().live()
    }

    /// Adds a tree connect made by `make` from its new id; `None` when there are `limit` already, or its user has too many.
    pub fn add_tree(&self, limit: usize, make: impl FnOnce(u32) -> Arc<Tree>) -> Option<Arc<Tree>> {
        let charge = self.payer().charge(Resource::TreeConnects, 1).ok()?;
        let mut trees = self.trees.lock();
        if trees.by_id.len() >= limit || self.phase() == Phase::Closed {
            return None;
        }
        loop {
            trees.last_id = trees.last_id.wrapping_add(1);
            let id = trees.last_id;
            // 0 and -1 are no tree connects ([MS-SMB2] 3.3.5.7).
            if id != 0 && id != u32::MAX && !trees.by_id.contains_key(&id) {
                let tree = make(id);
                trees.by_id.insert(id, (tree.clone(), charge));
                return Some(tree);
            }
        }
    }

    /// The tree connect `id`.
    pub fn tree(&self, id: u32) -> Option<Arc<Tree>> {
        self.trees.lock().by_id.get(&id).map(|(tree, _)| tree.clone())
    }

    /// All tree connects.
    pub fn trees(&self) -> Vec<Arc<Tree>> {
        self.trees.lock().by_id.values().map(|(tree, _)| tree.clone()).collect()
    }

    /// Takes a tree connect out and answers the opens made through it, which are to be closed; `None` where there is
    /// no such tree connect.
    pub fn remove_tree(&self, id: u32) -> Option<Vec<Arc<Open>>> {
        self.trees.lock().by_id.remove(&id)?;
        let mut opens = self.opens.lock();
        let closed: Vec<_> = opens.by_id.extract_if(|_, open| open.tree.id == id).map(|(_, open)| open).collect();
        opens.pipes -= closed.iter().filter(|open| open.is_pipe()).count();
        self.open_count.fetch_sub(closed.len() as u32, Ordering::Relaxed);
        Some(closed)
    }

    /// Adds an open; gives it back when the session or its tree connect has ended meanwhile.
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

    /// The open with these ids ([MS-SMB2] 3.3.5.10: both must match).
    pub fn open(&self, persistent: u64, volatile: u64) -> Option<Arc<Open>> {
        self.opens.lock().by_id.get(&volatile).filter(|open| open.persistent_id == persistent).cloned()
    }

    /// Takes an open out. Only one caller gets it, so an open is closed once.
    pub fn remove_open(&self, volatile: u64) -> Option<Arc<Open>> {
        let mut opens = self.opens.lock();
        let open = opens.remove(volatile)?;
        // Counted under the lock: who ends the session meanwhile sets the count to nothing.
        self.open_count.fetch_sub(1, Ordering::Relaxed);
        Some(open)
    }

    /// All opens.
    pub fn opens(&self) -> Vec<Arc<Open>> {
        self.opens.lock().by_id.values().cloned().collect()
    }

    /// How many pipes are open.
    pub(crate) fn pipe_count(&self) -> usize {
        self.opens.lock().pipes
    }

    /// How many opens there are.
    pub fn open_count(&self) -> usize {
        self.open_count.load(Ordering::Relaxed) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_who() {
        let sid = |rid| Sid::of(5, [21, 1, 2, 3, rid]);
        let user = |sid: Option<Sid>, name: &str, uid: u32| User {
            name: name.into(),
            domain: "DOM".into(),
            guest: false,
            anonymous: false,
            workstation: String::new(),
            sids: sid.into_iter().chain([Sid::of(5, [21, 1, 2, 3, 513])]).filter(|_| sid.is_some()).collect(),
            identity: Arc::new(Identity { uid, gid: 1, groups: Box::new([]) }),
            groups: Arc::new([]),
        };
        let check = |one: &User, two: &User, expected: bool| {
            for (one, two) in [(one, two), (two, one)] {
                assert_eq!(one.is_same_account(two), expected, "{one:?} {two:?}");
                assert_eq!(one.may_end_sessions_of(two), expected, "{one:?} {two:?}");
            }
        };
        let ann = user(Some(sid(1103)), "ann", 1000);
        check(&ann, &ann, true);
        check(&ann, &user(Some(sid(1103)), "ann miller", 1000), true);
        // Made anew, with the same name and number.
        check(&ann, &user(Some(sid(1104)), "ann", 1000), false);
        // Of one of them it is not known, or it is only the number once more.
        check(&ann, &user(None, "ann", 1000), true);
        check(&ann, &user(Some(Sid::unix_user(1000)), "ann", 1000), true);
        check(&ann, &user(None, "ann", 1001), false);
        check(&ann, &user(None, "bob", 1000), false);
        check(&ann, &User { domain: "SRV".into(), ..user(None, "ann", 1000) }, false);
        let guest = || User { guest: true, ..user(None, "ann", 1000) };
        check(&ann, &guest(), false);
        assert!(!guest().is_same_account(&guest()) && guest().may_end_sessions_of(&guest()));
        let nobody = User { anonymous: true, ..user(None, "ann", 1000) };
        check(&nobody, &nobody, false);
    }
}
