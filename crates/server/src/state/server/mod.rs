//! Server-wide state: the configuration, sessions, open files and the back ends that serve them ([MS-SMB2] 3.3.1.5).

mod administration;
mod awaited;
mod changes;
mod connections;
mod logons;
mod opens;
mod parts;
mod printers;
mod sessions;
mod snapshots;
mod turns;
mod unlisted;
mod user_sids;
mod volumes;
mod walk;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use proto::auth::spnego::MechType;
use proto::dtyp::Guid;

pub use self::connections::{Connections, TooMany};
pub use self::logons::LogonDefence;
use self::opens::OpenState;
pub use self::parts::ServerParts;
pub(crate) use self::printers::JOB_PREFIX;
use self::printers::PrintJobs;
pub use self::sessions::Sessions;
pub(crate) use self::snapshots::SnapshotSearch;
pub use self::snapshots::SnapshotTables;
use self::turns::Turns;
use self::unlisted::Unlisted;
pub use self::unlisted::UsedFileSystem;
use self::volumes::{OpenVolumes, Volume};
pub use self::volumes::{VolumeId, VolumeState, Volumes, directories_overlap, wanted_xattrs};
use crate::accounting::{Accounting, Resource};
use crate::accounts::Accounts;
use crate::acl::cache::{Cache, CacheStatistics};
use crate::audit::{Destinations, QueueNumbers};
use crate::buffers::Buffers;
use crate::domain::Domain;
use crate::environment::Environment;
use crate::interfaces::{Interface, Interfaces};
use crate::metrics::Metrics;
use crate::policy::{Policy, Share, ShareChanges};
use crate::printing::PrintSystem;
use crate::restrictions::Restrictions;
use crate::state::durable::Store;
use crate::tickets::Tickets;
use crate::tree::ShareUses;
use crate::vfs::{self, Vfs};

/// A running server.
pub struct Server {
    policy: ArcSwap<Policy>,
    /// What clients make the server hold.
    pub accounting: Accounting,
    /// Clock and random numbers.
    pub environment: Arc<dyn Environment>,
    /// The user accounts.
    pub accounts: Accounts,
    domain: Option<Arc<dyn Domain>>,
    restrictions: Option<Arc<dyn Restrictions>>,
    volumes: Arc<dyn Volumes>,
    /// `ServerGuid`.
    pub guid: Guid,
    pub(crate) buffers: Buffers,
    /// The security descriptor cache.
    pub(crate) descriptors: Arc<Cache>,
    interfaces: Option<Arc<dyn Interfaces>>,
    tickets: Option<Arc<dyn Tickets>>,
    /// The store for persistent opens; if it is not set, no open is persistent.
    store: Option<Arc<dyn Store>>,
    audit: Option<Arc<dyn Destinations>>,
    share_changes: Option<Arc<dyn ShareChanges>>,
    print_system: Option<Arc<dyn PrintSystem>>,
    /// The print jobs that clients send.
    pub(crate) jobs: PrintJobs,
    /// The odd factor and the offset that turn counter values into persistent ids.
    persistent_ids: (u64, u64),
    mounted: OpenVolumes,
    unlisted: Unlisted,
    /// Open files and what belongs to them.
    pub(crate) opens: OpenState,
    /// The sessions of all clients.
    pub sessions: Sessions,
    /// The numbers of their tree connects.
    pub(crate) share_uses: Arc<ShareUses>,
    /// The connections of all clients.
    pub connections: Connections,
    /// The defence against guessed passwords.
    pub logons: LogonDefence,
    /// The turns of password changes whose keys take long to make.
    pub(crate) key_derivations: Turns,
    /// What has happened since the start, in numbers.
    pub metrics: Metrics,
    last_id: AtomicU64,
}

impl Server {
    /// Creates a server without connections from its parts.
    pub fn new(policy: Policy, guid: Guid, parts: ServerParts) -> Arc<Server> {
        let ServerParts {
            environment,
            volumes,
            domain,
            restrictions,
            tickets,
            interfaces,
            store,
            audit,
            share_changes,
            print_system,
            ..
        } = parts;
        let (mut dice, mut secret) = ([0; 16], [0; 16]);
        environment.random(&mut dice);
        environment.random(&mut secret);
        let (factor, offset) = dice.split_at(8);
        let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let descriptors = Arc::new(Cache::new(environment.clone(), policy.limits.descriptor_bytes));
        Arc::new(Server {
            descriptors,
            accounting: Accounting::new(&policy.limits.bounds()),
            buffers: Buffers::new(policy.limits.kept_buffers()),
            policy: ArcSwap::from_pointee(policy),
            domain,
            restrictions,
            volumes,
            guid,
            interfaces,
            tickets,
            store,
            audit,
            share_changes,
            print_system,
            jobs: PrintJobs::new(environment.now()),
            persistent_ids: (number(factor) | 1, number(offset)),
            mounted: OpenVolumes::default(),
            unlisted: Unlisted::default(),
            opens: OpenState::new(environment.clone()),
            sessions: Sessions::default(),
            share_uses: Arc::default(),
            connections: Connections::default(),
            logons: LogonDefence::new(environment.clone(), parts.accounts.authenticator.clone(), secret),
            key_derivations: Turns::default(),
            environment,
            accounts: parts.accounts,
            metrics: Metrics::default(),
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

    /// Returns the state of the cache of security descriptors.
    pub fn descriptor_cache(&self) -> CacheStatistics {
        self.descriptors.state()
    }

    /// Returns the domain that the server is a member of, if any.
    pub(crate) fn domain(&self) -> Option<&Arc<dyn Domain>> {
        self.domain.as_ref()
    }

    /// Returns the restrictions of the host on logons, if any.
    pub(crate) fn restrictions(&self) -> Option<&Arc<dyn Restrictions>> {
        self.restrictions.as_ref()
    }

    /// Returns the addresses at which the server can be reached.
    pub(crate) fn interfaces(&self) -> Vec<Interface> {
        self.interfaces.as_ref().map_or_else(Vec::new, |known| known.list())
    }

    /// Returns what changes the shares at the request of administrators.
    pub(crate) fn share_changes(&self) -> Option<&Arc<dyn ShareChanges>> {
        self.share_changes.as_ref()
    }

    /// Returns the print system of the host.
    pub(crate) fn print_system(&self) -> Option<&Arc<dyn PrintSystem>> {
        self.print_system.as_ref()
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
        let number = || self.next_id();
        if self.is_fixed(share) {
            return self.mounted.get(&*self.volumes, share, true, number).await;
        }
        let opening = self.unlisted.opening(share);
        let volume = self.mounted.get(&*self.volumes, share, false, number).await?;
        drop(opening);
        if let Some(device) = volume.1.device() {
            self.unlisted.add(device, share, &volume);
        }
        Ok(volume)
    }

    /// Returns whether the configuration contains the path of `share` literally.
    fn is_fixed(&self, share: &Share) -> bool {
        let policy = self.policy.load();
        share.path_template.is_none()
            && policy.share(&share.name).is_some_and(|known| known.path_template.is_none() && known.path == share.path)
    }

    /// Returns the file systems under directories that the configuration does not contain literally and that clients
    /// use, by device number. There are at most 64.
    pub fn unlisted_file_systems(&self) -> Vec<(u64, UsedFileSystem)> {
        self.unlisted.used()
    }

    /// Returns the names of shares with such directories whose directories have been being opened for at least this
    /// time.
    pub fn unlisted_waiting(&self, time: Duration) -> Vec<String> {
        self.unlisted.waiting(time)
    }

    /// Opens the volume of `share`, if it is not open. The result is in its state.
    pub async fn open_volume(&self, share: &Share) {
        if let Err(errno) = self.volume(share).await {
            tracing::debug!(share = share.name, ?errno, "cannot open the directory of a share");
        }
    }

    /// Returns the id of the volume of `share`, and what is known about it.
    pub fn volume_state(&self, share: &Share) -> (VolumeId, VolumeState) {
        let id = self.volumes.id(share);
        let state = self.mounted.state(&id);
        (id, state)
    }

    /// Opens the volumes of shares some of whose files are also files of `share`, so that streams of these files are
    /// found through any of the shares.
    pub(crate) async fn add_overlaps(&self, share: &Share, volume: u64, vfs: &Arc<dyn Vfs>) {
        let policy = self.policy.load_full();
        let overlaps = |other: &&Arc<Share>| {
            let is_fixed = other.path_template.is_none() && !other.path.as_os_str().is_empty();
            is_fixed && self.volumes.overlap(share, other)
        };
        for other in policy.shares.values().filter(overlaps) {
            match self.volume(other).await {
                Ok((number, other)) => self.opens.streams.overlap((volume, vfs), (number, &other)),
                Err(errno) => tracing::debug!(share = other.name, ?errno, "cannot open a share that overlaps another"),
            }
        }
    }

    /// Returns the number of opens, including those of named pipes.
    pub fn open_count(&self) -> usize {
        self.accounting.held(Resource::Opens) + self.accounting.held(Resource::Pipes)
    }

    /// Checks whether one more connection from `address` may be accepted. The oldest connection without a logon may
    /// have to be closed to make space for it (see `unauthenticated`). The error states the reason, for the log.
    pub fn admit(&self, address: IpAddr) -> Result<(), TooMany> {
        self.connections.admit(address, &self.policy().limits, &self.accounting)
    }

    /// Frees buffers that no request has needed since the last call; returns the number of bytes freed.
    pub fn release_unused_buffers(&self) -> usize {
        self.buffers.release_unused()
    }

    /// Takes back the buffer of a frame that was sent.
    pub fn recycle(&self, buffer: Vec<u8>) {
        self.buffers.put(buffer);
    }

    /// Returns the numbers of the destinations of audit events, by their names.
    pub fn audit_numbers(&self) -> Vec<(String, QueueNumbers)> {
        self.audit.as_ref().map(|audit| audit.numbers()).unwrap_or_default()
    }

    /// Returns the destinations of audit events.
    pub(crate) fn audit(&self) -> Option<&Arc<dyn Destinations>> {
        self.audit.as_ref()
    }

    /// Returns the store for persistent opens.
    pub(crate) fn store(&self) -> Option<&Arc<dyn Store>> {
        self.store.as_ref()
    }
}
