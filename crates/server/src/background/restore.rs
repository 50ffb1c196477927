//! Restores persistent opens of the server's previous run before the first client connects. They then wait for their
//! clients as after a lost connection.
//!
//! First share modes, then locks, then oplocks and leases are restored, so that states that coexisted do not conflict.

use crate::vfs::{Access, Case, Kind, Lookup};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use parking_lot::Mutex;
use proto::dtyp::AccessMask;
use proto::smb2::OplockLevel;

use crate::accounting::Resource;
use crate::accounts::{Account, Unavailable};
use crate::command::close::close_unasked;
use crate::command::{session_setup, session_variables, tree_connect};
use crate::domain;
use crate::files::oplock::{Break, Holder, Opening};
use crate::files::{OpenName, ShareMode};
use crate::links;
use crate::local::netatalk;
use crate::local::{self, locks};
use crate::state::Server;
use crate::state::durable::{Caching, Failed, Record, asked_again};
use crate::state::open::channel_sequence::ChannelSequence;
use crate::state::open::{FileOpen, Open, Target};
use crate::tickets::ClientName;
use crate::tree::{Disk, Tree, TreeKind};
use crate::user::Owner;

/// Result of restoring the records of the previous run.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Restored {
    /// Number of opens that wait for their clients.
    pub opens: usize,
    /// Number of records whose file, account or share no longer exists or is another one.
    pub lost: usize,
}

type Reopened = (Arc<Open>, Record);

/// Reopens what the store has. An error means that the store cannot be read.
pub(crate) async fn restore(server: &Arc<Server>) -> Result<Restored, Failed> {
    let Some(store) = server.store() else { return Ok(Restored::default()) };
    let records = store.load().await?;
    let mut found = Vec::new();
    let mut lost = 0;
    for (id, bytes) in records {
        let open = match Record::decode(&bytes) {
            Ok(record) => reopen(server, id, &record).await.map(|open| (open, record)),
            Err(malformed) => Err(format!("the record was not written by this version of the server: {malformed}")),
        };
        match open {
            Ok(open) => found.push(open),
            Err(why) => {
                tracing::warn!(id, why, "cannot restore a persistent open");
                lost += 1;
                store.remove(id).await?;
            }
        }
    }
    let (found, without_locks) = lock_again(server, found).await;
    for (open, record) in &found {
        cache(server, open, record).await;
        server.opens.instances.add(open);
    }
    let (mut opens, mut too_many) = (0, 0);
    for (open, record) in found {
        match server.opens.durable.add_restored(server, &open) {
            true => opens += 1,
            false => {
                tracing::warn!(
                    path = %record.path,
                    "cannot restore a persistent open: the limit of opens is reached"
                );
                close_unasked(server, &open).await;
                too_many += 1;
            }
        }
    }
    Ok(Restored { opens, lost: lost + without_locks + too_many })
}

/// Restores byte-range locks. They coexisted before, but a local program may have taken a conflicting lock meanwhile.
/// The open is closed then, so that its client does not rely on a lock that it has lost. Also returns the number of
/// closed opens.
async fn lock_again(server: &Arc<Server>, found: Vec<Reopened>) -> (Vec<Reopened>, usize) {
    let bounds = server.policy().limits.locks();
    let (mut locked, mut lost) = (Vec::new(), 0);
    for (open, record) in found {
        let Some(file) = open.file() else { continue };
        if let Err(error) = locks::lock(server, &open, file, &record.locks_of(open.persistent_id), bounds).await {
            tracing::warn!(path = %record.path, %error, "cannot restore a persistent open: its locks cannot be \
                                                         restored");
            close_unasked(server, &open).await;
            lost += 1;
            continue;
        }
        file.durability.lock_sequences.restore(record.lock_sequences);
        if record.delete_pending {
            server.opens.files.set_delete_pending(file.file, true);
        }
        locked.push((open, record));
    }
    (locked, lost)
}

/// Reopens the file of a record, if it is still the same and its owner has access.
async fn reopen(server: &Arc<Server>, id: u64, record: &Record) -> Result<Arc<Open>, String> {
    let disk = disk(server, record).await?;
    let removals = server.opens.files.removals();
    let found = links::look_up(&disk, &disk.op, &record.path, Case::Sensitive).await;
    let Ok(Lookup::Found { node, metadata, .. }) = found else {
        return Err(format!("{} does not exist or its user cannot access it", record.path));
    };
    if metadata.kind != Kind::File || metadata.id.inode != record.inode || metadata.born != record.born {
        return Err(format!("{} is now another file", record.path));
    }
    const READING: u32 = AccessMask::FILE_READ_DATA.0 | AccessMask::FILE_EXECUTE.0;
    const WRITING: u32 = AccessMask::FILE_WRITE_DATA.0 | AccessMask::FILE_APPEND_DATA.0;
    let wanted = Access { read: record.granted.0 & READING != 0, write: record.granted.0 & WRITING != 0 };
    let node = match wanted.read || wanted.write {
        true => node.open(&disk.op, wanted).await.map_err(|errno| format!("{}: {errno:?}", record.path))?,
        false => node,
    };
    let name = Arc::new(OpenName { volume: disk.volume, path: Mutex::new(record.path.clone()) });
    let mode = ShareMode { access: record.granted, share: record.share_access };
    let entered = netatalk::enter(&disk, &node, metadata.kind, mode, false).await;
    entered.map_err(|error| format!("{}: {:?}", record.path, error.status))?;
    let lease = record.lease();
    let opening = Opening::new(record.granted, false, lease.map(|lease| lease.id), server.environment.uptime());
    let refused = server.opens.files.open(metadata.id, id, mode, &name, removals, opening).err();
    if let Some(refusal) = refused {
        return Err(format!("{}: {refusal:?}", record.path));
    }
    let owner = &record.terms.owner;
    let payer = server.accounting.absent_user(&owner.domain, &owner.name);
    let charge = payer.charge(Resource::Opens, 1).map_err(|full| {
        server.opens.files.close(metadata.id, id, false);
        full.to_string()
    })?;
    let file = FileOpen {
        lease,
        options: AtomicU32::new(record.options.0),
        delete_on_close: AtomicBool::new(record.delete_on_close),
        asked_allocation: AtomicU64::new(record.asked_allocation),
        ..FileOpen::new(node, metadata.id, metadata.kind, name, disk.op.clone())
    };
    let mut terms = record.terms.clone();
    if let Some(persistent) = &mut terms.persistent {
        persistent.born = record.born;
    }
    file.durability.set(terms);
    if let Some(instance) = record.instance {
        file.durability.belongs_to(instance);
    }
    let maximal_access = AccessMask::FILE_ALL_ACCESS;
    let kind = TreeKind::Disk(Box::new(disk));
    let tree = Tree { id: 0, kind, created: server.environment.now(), maximal_access };
    Ok(Arc::new(Open {
        persistent_id: id,
        volatile_id: server.next_id(),
        session_id: 0,
        tree: Arc::new(tree),
        granted: record.granted,
        share: record.share_access,
        created: record.created,
        sequence: ChannelSequence::new(0),
        target: Target::File(Arc::new(file)),
        charge,
    }))
}

/// Returns the share as the record's owner would see it after a tree connect.
async fn disk(server: &Arc<Server>, record: &Record) -> Result<Disk, String> {
    let policy = server.policy().clone();
    let share =
        policy.share(&record.share).filter(|share| share.available && share.handles.continuously_available).cloned();
    let share = share.ok_or_else(|| format!("there is no continuously available share {:?}", record.share))?;
    let owner = &record.terms.owner;
    let account = account(server, owner, policy.membership.is_some()).await.map_err(|unavailable| unavailable.0)?;
    let account = account.filter(|account| !account.disabled && account.identity.uid == owner.uid);
    let account = account.ok_or_else(|| format!("there is no account {:?}", owner.name))?;
    let user = session_setup::known_user(&account, String::new(), &policy);
    if !Owner::of(&user).is_some_and(|now| now.is(owner)) {
        return Err(format!("{:?} is now another account", owner.name));
    }
    let disk = tree_connect::disk_of(server, share, &user, false).await.map_err(|error| error.to_string())?;
    // Variables of the connection have no value now. Without its bin the file would be lost if it is deleted.
    let value = |variable| session_variables::of_user(&disk.share, &user, variable);
    let bin = tree_connect::bin(&policy, &disk.share, value).map_err(|error| error.to_string())?;
    Ok(Disk { bin, ..disk })
}

/// Returns the owner's present account: a user of the domain, a local account, or a Linux user without an account, who
/// was admitted by a Kerberos ticket.
async fn account(server: &Server, owner: &Owner, member: bool) -> Result<Option<Account>, Unavailable> {
    // Names of the server's own accounts have no backslash.
    if let Some(domain) = server.domain().filter(|_| domain::split(&owner.name).is_some()) {
        return domain.find(&owner.name).await;
    }
    match server.accounts.authenticator.find(&owner.name).await? {
        None if !member => {
            let client = ClientName { components: vec![owner.name.clone()], realm: String::new(), own_realm: true };
            server.accounts.authenticator.of_client(&client, None).await
        }
        found => Ok(found),
    }
}

/// Restores the open's oplock, or its share in a lease.
async fn cache(server: &Arc<Server>, open: &Arc<Open>, record: &Record) {
    let (Some(file), Some(disk)) = (open.file(), open.tree.disk()) else { return };
    let holder = Arc::new(Absent { server: Arc::downgrade(server), open: open.persistent_id });
    let (id, shared) = (open.persistent_id, disk.share.caching.level2_oplocks);
    match record.caching {
        Caching::Oplock(OplockLevel::NONE) => {}
        Caching::Oplock(level) if disk.share.caching.kernel_oplocks => {
            local::grant_oplock(server, disk, file, id, level, holder).await;
        }
        Caching::Oplock(level) => {
            server.opens.files.grant_oplock(file.file, id, level, shared, holder);
        }
        Caching::Lease { lease, state, epoch } => {
            let asked = asked_again(&lease, state, epoch);
            server.opens.files.grant_lease(file.file, id, asked, shared, false, holder);
        }
    }
}

/// A client that has not reconnected yet.
struct Absent {
    server: std::sync::Weak<Server>,
    open: u64,
}

impl Holder for Absent {
    fn broken(&self, _: Break) -> bool {
        false
    }

    fn unreachable(&self) -> bool {
        self.server.upgrade().is_some_and(|server| server.opens.durable.unreachable(self.open))
    }

    fn is_connected(&self) -> bool {
        false
    }
}
