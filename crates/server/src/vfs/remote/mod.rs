//! A file system as another machine would serve it, for tests. The files are in a [`Memory`].
//!
//! It differs from local storage where a back end for remote storage does:
//!
//! - Every call takes the time that the test supplies, and is counted by its [`Operation`].
//! - Its clock is coarse, and it reports no changes to watches, and has no leases or locks.
//! - It has no superuser. A call of uid 0 has the permissions of a user without any, except for the calls of the server
//!   itself, which it recognizes by [`Op::is_server`].
//! - A reply has the attributes of the file: its metadata, the wanted extended attributes and the names of all. Later
//!   calls are answered from them, without a call of the storage, for as long as the [`Coherence`] permits.
//! - A look-up opens the file for the data access that it names, and returns the directory in which a name is missing,
//!   with a version unless the coherence is [`Coherence::Timestamp`].
//!   A listing returns the parent's metadata. Closing a handle through which nothing was written costs nothing.
//! - It can accept writes that it does not carry out, and then returns the error when the file is flushed or closed.

mod filled;
mod known;
mod node;
mod private;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

pub(super) use self::filled::Filled;
use self::known::{Changed, Known, KnownFiles};
use self::node::RemoteNode;
use self::private::RemotePrivate;
use super::faulty::{Operation, Wait};
use super::memory::{self, Memory};
use super::{
    Access, AclKind, Capabilities, Changes, Created, DirectoryVersion, Enforcement, Errno, Features, FileId, Identity,
    Kind, Lookup, LookupOptions, Metadata, NewFile, Node, Op, Parent, Private, RelPath, Removed, RenameRequest,
    Replace, Result, SymlinkPolicy, Time, Vfs, WantedXattrs,
};
use crate::answer::Answer;
use crate::environment::Environment;

/// How long a call takes, if the test does not supply another time.
pub const LATENCY: Duration = Duration::from_millis(2);

/// The granularity of the time stamps.
pub const GRANULARITY: Duration = Duration::from_secs(1);

/// How long an answer is valid with [`Coherence::Timestamp`].
const VALID: Duration = Duration::from_secs(1);

/// The time from a change by another client to the storage's report, with [`Coherence::Callback`].
pub const REPORT_DELAY: Duration = Duration::from_millis(100);

/// The user and group whose permissions a call of uid 0 has.
const NOBODY: u32 = 65_534;

/// Returns the wait of one call.
pub type Latency = Arc<dyn Fn() -> Wait + Send + Sync>;

/// Returns calls that take [`LATENCY`] by the clock of `environment`.
pub fn latency_of(environment: Arc<dyn Environment>) -> Latency {
    Arc::new(move || environment.sleep(LATENCY))
}

/// How a [`Remote`] learns of changes by other clients of the storage.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Coherence {
    /// There are no others. An answer is valid until the server changes the file.
    Own,
    /// The storage reports a change [`REPORT_DELAY`] after it. An answer is valid until then.
    Callback,
    /// It does not. An answer is valid for a second.
    #[default]
    Timestamp,
}

impl Coherence {
    /// All of them.
    pub const ALL: [Coherence; 3] = [Coherence::Own, Coherence::Callback, Coherence::Timestamp];

    /// Returns how long an answer is valid if no change is reported.
    fn valid(self) -> Duration {
        match self {
            Coherence::Own | Coherence::Callback => Duration::MAX,
            Coherence::Timestamp => VALID,
        }
    }

    /// Returns the capability that describes it.
    fn changes(self) -> Changes {
        match self {
            Coherence::Own => Changes::Own { granularity: GRANULARITY },
            Coherence::Callback => Changes::Callback { granularity: GRANULARITY, delay: REPORT_DELAY },
            Coherence::Timestamp => {
                // A change is at most as old as its time stamp is coarse when it is read, and is returned for a while.
                let granularity = GRANULARITY + VALID;
                Changes::Timestamp { granularity, of_whole_seconds: granularity }
            }
        }
    }
}

/// A file system in memory that behaves as one on another machine.
pub struct Remote {
    inner: Arc<dyn Vfs>,
    client: Arc<Client>,
    capabilities: Capabilities,
}

/// The connection to the storage, which all handles use.
struct Client {
    latency: Latency,
    environment: Arc<dyn Environment>,
    wanted: WantedXattrs,
    known: KnownFiles,
    /// Whether all changes become known, so that what is known needs no confirmation.
    watches: bool,
    /// The client to which the storage reports the changes that are made through this one.
    informed: Option<Arc<Client>>,
    calls: Mutex<BTreeMap<Operation, u64>>,
    /// The error of the next write.
    late: Mutex<Option<Errno>>,
}

impl Remote {
    /// Creates an empty file system with [`Coherence::Timestamp`]. `options` are those of the memory, except for the
    /// features and the clock.
    pub fn new(environment: Arc<dyn Environment>, options: memory::Options, latency: Latency) -> Remote {
        Remote::with_coherence(environment, options, latency, Coherence::Timestamp)
    }

    /// Creates an empty file system as [`Remote::new`] does, with this coherence.
    pub fn with_coherence(
        environment: Arc<dyn Environment>,
        options: memory::Options,
        latency: Latency,
        coherence: Coherence,
    ) -> Remote {
        let acls = if options.lists { AclKind::Posix } else { AclKind::None };
        let features = Features { clones: false, compresses: false, punches: true, shows_reserved: true };
        let changes = coherence.changes();
        let (leases, locks, attributes) = (false, false, options.attributes.clone());
        let enforcement = Enforcement::AllUsers;
        let capabilities = Capabilities { acls, changes, leases, locks, enforcement, attributes, features };
        let client = Client {
            latency,
            environment: Arc::clone(&environment),
            wanted: options.attributes.clone(),
            known: KnownFiles::new(coherence.valid()),
            watches: coherence != Coherence::Timestamp,
            informed: None,
            calls: Mutex::default(),
            late: Mutex::default(),
        };
        let memory = Memory::with_options(Arc::new(Coarse(environment)), memory::Options { features, ..options });
        Remote { inner: Arc::new(memory), client: Arc::new(client), capabilities }
    }

    /// Returns the storage as another client of it sees it, which knows nothing in advance. Its calls take no time.
    pub fn storage(&self) -> Arc<dyn Vfs> {
        let reports = matches!(self.capabilities.changes, Changes::Callback { .. });
        let client = Client {
            latency: Arc::new(|| Box::pin(std::future::ready(()))),
            environment: Arc::clone(&self.client.environment),
            wanted: self.client.wanted.clone(),
            known: KnownFiles::new(Duration::ZERO),
            watches: false,
            informed: reports.then(|| Arc::clone(&self.client)),
            calls: Mutex::default(),
            late: Mutex::default(),
        };
        let (inner, capabilities) = (Arc::clone(&self.inner), self.capabilities.clone());
        Arc::new(Remote { inner, client: Arc::new(client), capabilities })
    }

    /// Returns the number of calls of each kind since the last time.
    pub fn take_calls(&self) -> BTreeMap<Operation, u64> {
        std::mem::take(&mut self.client.calls.lock())
    }

    /// Accepts the next write without carrying it out. The next flush of its handle, or the close, returns `error`.
    pub fn fail_late(&self, error: Errno) {
        *self.client.late.lock() = Some(error);
    }
}

impl Client {
    /// Makes a call: it is counted, and carried out after the wait.
    fn call<T: Send + 'static>(
        &self,
        operation: Operation,
        call: impl FnOnce() -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        *self.calls.lock().entry(operation).or_default() += 1;
        let wait = (self.latency)();
        Answer::later(async move {
            wait.await;
            call().await
        })
    }
}

impl Client {
    /// Records what a reply says about the file of `node`.
    async fn learn(&self, node: &Arc<dyn Node>) -> Result<Known> {
        self.known.read(node, &self.wanted, self.environment.uptime()).await
    }

    /// Forgets what has changed through this client, and reports it to the other one.
    fn changed(&self, changed: Changed) {
        self.known.forget(changed);
        if let Some(informed) = &self.informed {
            informed.known.report(self.environment.uptime() + REPORT_DELAY, changed);
        }
    }
}

/// Returns what the reply to a look-up says about the directory of `path`, in which the name is missing. The directory
/// has a version if no change of it can remain unnoticed. It is what is known of it then.
async fn parent_of(storage: &dyn Vfs, client: &Arc<Client>, op: &Op, path: &RelPath, links: SymlinkPolicy) -> Parent {
    let found = async {
        let Lookup::Found { node, metadata: Metadata { id, .. }, .. } =
            storage.lookup(op, &path.parent()?, LookupOptions::exact(links)).await.ok()?
        else {
            return None;
        };
        let known = client.known.get(id, client.environment.uptime()).filter(|_| client.watches);
        let known = match known {
            Some(known) => known,
            None => client.learn(&node).await.ok()?,
        };
        Some((node, known))
    };
    let Some((node, Known { metadata, number, .. })) = found.await else { return Parent::default() };
    let Metadata { id, mode, gid, .. } = metadata;
    let version = client.watches.then_some(DirectoryVersion { id, mode, gid, state: number });
    Parent { version, opened: Some((Arc::new(RemoteNode::new(node, id, client)), metadata)) }
}

/// Returns the context with which the storage carries out a call of `op`.
fn permitted(op: &Op) -> Op {
    if op.uid == 0 && !op.is_server() {
        return Op::from(Identity { uid: NOBODY, gid: NOBODY, groups: Box::default() });
    }
    op.clone()
}

/// A clock whose time has a granularity of [`GRANULARITY`].
struct Coarse(Arc<dyn Environment>);

impl Environment for Coarse {
    fn now(&self) -> Time {
        Time { nanos: 0, ..self.0.now() }
    }

    fn uptime(&self) -> Duration {
        self.0.uptime()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.0.sleep(duration)
    }

    fn random(&self, bytes: &mut [u8]) {
        self.0.random(bytes);
    }
}

impl Vfs for Remote {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn lookup(&self, op: &Op, path: &RelPath, options: LookupOptions) -> Answer<Result<Lookup>> {
        let (inner, op, path) = (Arc::clone(&self.inner), permitted(op), path.clone());
        let client = Arc::clone(&self.client);
        self.client.call(Operation::Lookup, move || {
            Answer::later(async move {
                Ok(match inner.lookup(&op, &path, options).await? {
                    Lookup::Found { path, node, metadata } => {
                        client.learn(&node).await?;
                        let data = match metadata.kind {
                            Kind::File if options.access != Access::default() => node.open(&op, options.access).await,
                            _ => Err(Errno::ACCES),
                        };
                        let node = RemoteNode::new(node, metadata.id, &client);
                        let node = node.opened(data.ok().map(|data| (op, options.access, data)));
                        Lookup::Found { path, node: Arc::new(node), metadata }
                    }
                    Lookup::Missing { path, .. } => {
                        let parent = parent_of(&*inner, &client, &op, &path, options.links).await;
                        Lookup::Missing { path, parent }
                    }
                    Lookup::NoParent => Lookup::NoParent,
                })
            })
        })
    }

    fn create(&self, op: &Op, path: &RelPath, new: NewFile) -> Answer<Result<Created>> {
        let (inner, op, path) = (Arc::clone(&self.inner), permitted(op), path.clone());
        let client = Arc::clone(&self.client);
        self.client.call(Operation::Create, move || {
            Answer::later(async move {
                let created = inner.create(&op, &path, new).await?;
                client.changed(Changed::Names);
                client.learn(&created.node).await?;
                let node = Arc::new(RemoteNode::new(created.node, created.metadata.id, &client));
                Ok(Created { node, ..created })
            })
        })
    }

    fn rename(&self, op: &Op, rename: RenameRequest) -> Answer<Result<()>> {
        let (inner, op, client) = (Arc::clone(&self.inner), permitted(op), Arc::clone(&self.client));
        self.client.call(Operation::Rename, move || inner.rename(&op, rename)).map(move |renamed| {
            client.changed(Changed::Names);
            renamed
        })
    }

    fn link(&self, op: &Op, node: &Arc<dyn Node>, to: &RelPath, replace: Replace) -> Answer<Result<()>> {
        let Some(node) = node::stored(node) else { return Answer::now(Err(Errno::XDEV)) };
        let (inner, op, to, client) = (Arc::clone(&self.inner), permitted(op), to.clone(), Arc::clone(&self.client));
        self.client.call(Operation::Link, move || inner.link(&op, &node, &to, replace)).map(move |linked| {
            client.changed(Changed::Names);
            linked
        })
    }

    fn unlink(&self, op: &Op, path: &RelPath, id: FileId, kind: Kind) -> Answer<Result<Removed>> {
        let (inner, op, path, client) =
            (Arc::clone(&self.inner), permitted(op), path.clone(), Arc::clone(&self.client));
        self.client.call(Operation::Unlink, move || inner.unlink(&op, &path, id, kind)).map(move |removed| {
            client.changed(Changed::Names);
            removed
        })
    }

    fn private(&self, root: &RelPath, name: &'static str, make: bool) -> Answer<Result<Option<Arc<dyn Private>>>> {
        let (inner, root, client) = (Arc::clone(&self.inner), root.clone(), Arc::clone(&self.client));
        self.client.call(Operation::Lookup, move || inner.private(&root, name, make)).map(move |found| {
            let private = |inner| Arc::new(RemotePrivate::new(inner, client)) as Arc<dyn Private>;
            found.map(|found| found.map(private))
        })
    }

    fn beneath(&self, op: &Op, path: &RelPath) -> Answer<Result<Arc<dyn Vfs>>> {
        let (inner, op, path, client) =
            (Arc::clone(&self.inner), permitted(op), path.clone(), Arc::clone(&self.client));
        let capabilities =
            Capabilities { changes: Changes::Own { granularity: Duration::ZERO }, ..self.capabilities.clone() };
        self.client
            .call(Operation::Lookup, move || inner.beneath(&op, &path))
            .map(move |found| found.map(|inner| Arc::new(Remote { inner, client, capabilities }) as Arc<dyn Vfs>))
    }
}

#[cfg(test)]
mod tests;
