//! A file system as another machine would serve it, for tests. The files are in a [`Memory`].
//!
//! It differs from local storage where a back end for remote storage does:
//!
//! - Every call takes the time that the test supplies, and is counted by its [`Operation`].
//! - Its clock is coarse, and it reports no changes, leases or locks.
//! - It has no superuser. A call of uid 0 has the permissions of a user without any, except for the calls of the server
//!   itself, which it recognizes by [`Op::is_server`].
//! - It can accept writes that it does not carry out, and then returns the error when the file is flushed or closed.

mod node;
mod private;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use self::node::RemoteNode;
use self::private::RemotePrivate;
use super::faulty::{Operation, Wait};
use super::memory::{self, Memory};
use super::{
    AclKind, Capabilities, Changes, Created, Errno, Features, FileId, Identity, Kind, Lookup, LookupOptions, NewFile,
    Node, Op, Private, RelPath, Removed, Result, Space, Time, Vfs,
};
use crate::answer::Answer;
use crate::environment::Environment;

/// How long a call takes, if the test does not supply another time.
pub const LATENCY: Duration = Duration::from_millis(2);

/// The granularity of the time stamps.
pub const GRANULARITY: Duration = Duration::from_secs(1);

/// The user and group whose permissions a call of uid 0 has.
const NOBODY: u32 = 65_534;

/// Returns the wait of one call.
pub type Latency = Arc<dyn Fn() -> Wait + Send + Sync>;

/// Returns calls that take [`LATENCY`] by the clock of `environment`.
pub fn latency_of(environment: Arc<dyn Environment>) -> Latency {
    Arc::new(move || environment.sleep(LATENCY))
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
    calls: Mutex<BTreeMap<Operation, u64>>,
    /// The error of the next write.
    late: Mutex<Option<Errno>>,
}

impl Remote {
    /// Creates an empty file system. `options` are those of the memory, except for the features and the clock.
    pub fn new(environment: Arc<dyn Environment>, options: memory::Options, latency: Latency) -> Remote {
        let acls = if options.lists { AclKind::Posix } else { AclKind::None };
        let features = Features { clones: false, compresses: false, punches: true };
        let changes = Changes::Timestamp { granularity: GRANULARITY, of_whole_seconds: GRANULARITY };
        let (leases, locks, superuser, attributes) = (false, false, false, options.attributes.clone());
        let capabilities = Capabilities { acls, changes, leases, locks, superuser, attributes, features };
        let client = Client { latency, calls: Mutex::default(), late: Mutex::default() };
        let memory = Memory::with_options(Arc::new(Coarse(environment)), memory::Options { features, ..options });
        Remote { inner: Arc::new(memory), client: Arc::new(client), capabilities }
    }

    /// Returns the storage itself, in which a test changes files as another client of it would.
    pub fn storage(&self) -> Arc<dyn Vfs> {
        Arc::clone(&self.inner)
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
        self.client.call(Operation::Lookup, move || inner.lookup(&op, &path, options)).map(move |found| {
            Ok(match found? {
                Lookup::Found { path, node, metadata } => {
                    Lookup::Found { path, node: Arc::new(RemoteNode::new(node, &client)), metadata }
                }
                other => other,
            })
        })
    }

    fn create(&self, op: &Op, path: &RelPath, new: NewFile) -> Answer<Result<Created>> {
        let (inner, op, path) = (Arc::clone(&self.inner), permitted(op), path.clone());
        let client = Arc::clone(&self.client);
        self.client.call(Operation::Create, move || inner.create(&op, &path, new)).map(move |created| {
            let created = created?;
            Ok(Created { node: Arc::new(RemoteNode::new(created.node, &client)), ..created })
        })
    }

    fn rename(&self, op: &Op, from: &RelPath, id: FileId, to: &RelPath, replace: bool) -> Answer<Result<()>> {
        let (inner, op, from, to) = (Arc::clone(&self.inner), permitted(op), from.clone(), to.clone());
        self.client.call(Operation::Rename, move || inner.rename(&op, &from, id, &to, replace))
    }

    fn link(&self, op: &Op, node: &Arc<dyn Node>, to: &RelPath, replace: bool) -> Answer<Result<()>> {
        let Some(node) = node::stored(node) else { return Answer::now(Err(Errno::XDEV)) };
        let (inner, op, to) = (Arc::clone(&self.inner), permitted(op), to.clone());
        self.client.call(Operation::Link, move || inner.link(&op, &node, &to, replace))
    }

    fn unlink(&self, op: &Op, path: &RelPath, id: FileId, kind: Kind) -> Answer<Result<Removed>> {
        let (inner, op, path) = (Arc::clone(&self.inner), permitted(op), path.clone());
        self.client.call(Operation::Unlink, move || inner.unlink(&op, &path, id, kind))
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
        let capabilities = Capabilities { changes: Changes::Own, ..self.capabilities.clone() };
        self.client
            .call(Operation::Lookup, move || inner.beneath(&op, &path))
            .map(move |found| found.map(|inner| Arc::new(Remote { inner, client, capabilities }) as Arc<dyn Vfs>))
    }

    fn space(&self, op: &Op) -> Answer<Result<Space>> {
        let (inner, op) = (Arc::clone(&self.inner), permitted(op));
        self.client.call(Operation::Space, move || inner.space(&op))
    }
}

#[cfg(test)]
mod tests;
