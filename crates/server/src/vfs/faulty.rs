//! A [`Vfs`] wrapper that delays and fails calls as a [`Script`] decides.
//!
//! Every call asks the script first. A call that the script makes fail is not carried out. A delayed call is carried
//! out after the delay, on the file system as it is then, and its answer may be delayed once more.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use super::watch::{ChangeListener, Wanted, Watching};
use super::{
    Access, Capabilities, Case, CopyRange, Created, DataRange, Entry, Errno, Extent, FileId, Kind, Lease,
    LeaseCallback, ListRequest, Lookup, LookupOptions, Metadata, NewFile, Node, Op, Page, Payload, Private, Quotas,
    RangeChange, ReadReply, ReadRequest, RelPath, Removed, RenameRequest, Replace, Result, SetMetadata, SetXattr,
    Space, Vfs,
};
use crate::answer::Answer;

/// The operation that a call performs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs, reason = "the names are those of the methods")]
pub enum Operation {
    Lookup,
    Create,
    Rename,
    Link,
    Unlink,
    Space,
    Metadata,
    Open,
    Close,
    Permissions,
    Read,
    Write,
    Flush,
    Location,
    ReadLink,
    SetExtent,
    DataRanges,
    Copy,
    SetMetadata,
    List,
    Entry,
    GetXattr,
    SetXattr,
    ListXattrs,
    Lease,
    Lock,
}

/// A future to wait for.
pub type Wait = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The fault injected into one call.
#[derive(Default)]
pub struct Fault {
    /// The call is carried out only after this wait.
    pub before: Option<Wait>,
    /// The answer is returned only after this wait.
    pub after: Option<Wait>,
    /// The call fails with this error instead of being carried out.
    pub error: Option<Errno>,
}

/// Decides the fault of each call.
pub trait Script: Send + Sync {
    /// Returns the fault for call number `count` (from 0, over all operations).
    fn decide(&self, operation: Operation, count: u64) -> Fault;
}

/// Completes at poll number `polls + 1`, waking its task each time.
pub fn yields(polls: u32) -> Wait {
    struct Yield(u32);

    impl Future for Yield {
        type Output = ();

        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            if self.0 == 0 {
                return Poll::Ready(());
            }
            self.0 -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        }
    }

    Box::pin(Yield(polls))
}

/// A pseudorandom script: the same seed makes the same decisions for the same sequence of calls.
#[derive(Clone, Debug)]
pub struct Seeded {
    /// Seed of the pseudorandom numbers.
    pub seed: u64,
    /// Calls in 1,000 that are delayed, before and after independently.
    pub delayed: u32,
    /// The longest delay, in polls.
    pub longest: u32,
    /// Calls in 1,000 that fail.
    pub failing: u32,
    /// The errors to choose from; no call fails if this is empty.
    pub errors: Vec<Errno>,
}

impl Script for Seeded {
    fn decide(&self, operation: Operation, count: u64) -> Fault {
        // Each call has an independent stream of numbers, so that the order of decisions does not matter (SplitMix64).
        let mut state = self.seed ^ count.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (operation as u64) << 56;
        let mut draw = |bound: u64| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ mixed >> 31) % bound.max(1)
        };
        let mut wait = || {
            let delayed = draw(1_000) < u64::from(self.delayed);
            let polls = draw(u64::from(self.longest)) as u32 + 1;
            delayed.then(|| yields(polls))
        };
        let (before, after) = (wait(), wait());
        let fails = draw(1_000) < u64::from(self.failing);
        let which = draw(self.errors.len() as u64) as usize;
        Fault { before, after, error: self.errors.get(which).copied().filter(|_| fails) }
    }
}

/// Fails single calls: the one with each given count, with the given error. Delays nothing.
#[derive(Clone, Debug, Default)]
pub struct FailAt(pub Vec<(u64, Errno)>);

impl Script for FailAt {
    fn decide(&self, _operation: Operation, count: u64) -> Fault {
        let error = self.0.iter().find(|(at, _)| *at == count).map(|(_, error)| *error);
        Fault { error, ..Fault::default() }
    }
}

/// A file system whose calls are subject to a script.
pub struct Faulty {
    inner: Arc<dyn Vfs>,
    control: Arc<Control>,
}

struct Control {
    script: Arc<dyn Script>,
    count: AtomicU64,
}

impl Faulty {
    /// Wraps `inner` with `script`.
    pub fn new(inner: Arc<dyn Vfs>, script: Arc<dyn Script>) -> Self {
        Faulty { inner, control: Arc::new(Control { script, count: AtomicU64::new(0) }) }
    }

    /// Returns the number of calls made so far.
    pub fn calls(&self) -> u64 {
        self.control.count.load(Ordering::Relaxed)
    }
}

impl Control {
    /// Makes a call as the script decides: `call` is the real one, `failed` converts an error to its answer.
    fn run<T: Send + 'static>(
        &self,
        operation: Operation,
        call: impl FnOnce() -> Answer<T> + Send + 'static,
        failed: impl FnOnce(Errno) -> T,
    ) -> Answer<T> {
        let fault = self.script.decide(operation, self.count.fetch_add(1, Ordering::Relaxed));
        let failure = fault.error.map(failed);
        if fault.before.is_none() && fault.after.is_none() {
            return failure.map_or_else(call, Answer::now);
        }
        let failure = failure.map(Answer::now);
        Answer::later(async move {
            if let Some(wait) = fault.before {
                wait.await;
            }
            let value = match failure {
                Some(failure) => failure.await,
                None => call().await,
            };
            if let Some(wait) = fault.after {
                wait.await;
            }
            value
        })
    }
}

/// Passes a call on to `$inner` with clones of its borrowed arguments.
macro_rules! pass {
    ($self:ident, $operation:ident, $method:ident($($owned:ident),*; $($copied:expr),*)) => {{
        let inner = Arc::clone(&$self.inner);
        $(let $owned = $owned.clone();)*
        $self.control.run(Operation::$operation, move || inner.$method($(&$owned,)* $($copied),*), Err)
    }};
}

impl Vfs for Faulty {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn lookup(&self, op: &Op, path: &RelPath, options: LookupOptions) -> Answer<Result<Lookup>> {
        let found = pass!(self, Lookup, lookup(op, path; options));
        let control = Arc::clone(&self.control);
        map(found, move |found| {
            Ok(match found? {
                Lookup::Found { path, node, metadata } => {
                    Lookup::Found { path, node: Arc::new(FaultyNode { inner: node, control }), metadata }
                }
                other => other,
            })
        })
    }

    fn create(&self, op: &Op, path: &RelPath, new: NewFile) -> Answer<Result<Created>> {
        let made = pass!(self, Create, create(op, path; new));
        let control = Arc::clone(&self.control);
        map(made, move |made| {
            made.map(|made| Created { node: Arc::new(FaultyNode { inner: made.node, control }), ..made })
        })
    }

    fn rename(&self, op: &Op, rename: RenameRequest) -> Answer<Result<()>> {
        let (inner, op) = (Arc::clone(&self.inner), op.clone());
        self.control.run(Operation::Rename, move || inner.rename(&op, rename), Err)
    }

    fn link(&self, op: &Op, node: &Arc<dyn Node>, to: &RelPath, replace: Replace) -> Answer<Result<()>> {
        let Some(node) = seen_through(node) else { return Answer::now(Err(Errno::XDEV)) };
        let inner = Arc::clone(&self.inner);
        let (op, to) = (op.clone(), to.clone());
        self.control.run(Operation::Link, move || inner.link(&op, &node, &to, replace), Err)
    }

    fn unlink(&self, op: &Op, path: &RelPath, id: FileId, kind: Kind) -> Answer<Result<Removed>> {
        pass!(self, Unlink, unlink(op, path; id, kind))
    }

    fn private(&self, root: &RelPath, name: &'static str, make: bool) -> Answer<Result<Option<Arc<dyn Private>>>> {
        let found = pass!(self, Lookup, private(root; name, make));
        let control = Arc::clone(&self.control);
        map(found, move |found| {
            let inner = found?;
            Ok(inner.map(|inner| Arc::new(FaultyPrivate { inner, control }) as Arc<dyn Private>))
        })
    }

    fn beneath(&self, op: &Op, path: &RelPath) -> Answer<Result<Arc<dyn Vfs>>> {
        self.inner.beneath(op, path)
    }
}

/// Converts the value of an answer, now or later.
fn map<T: Send + 'static, U: Send + 'static>(
    answer: Answer<T>,
    change: impl FnOnce(T) -> U + Send + 'static,
) -> Answer<U> {
    match answer {
        Answer::Now(Some(value)) => Answer::now(change(value)),
        answer => Answer::later(async move { change(answer.await) }),
    }
}

struct FaultyPrivate {
    inner: Arc<dyn Private>,
    control: Arc<Control>,
}

impl Private for FaultyPrivate {
    fn find(&self, name: &str) -> Answer<Result<Option<(Arc<dyn Node>, Metadata)>>> {
        let name = &name.to_owned();
        let found = pass!(self, Lookup, find(name;));
        let control = Arc::clone(&self.control);
        map(found, move |found| {
            Ok(found?.map(|(inner, metadata)| (Arc::new(FaultyNode { inner, control }) as Arc<dyn Node>, metadata)))
        })
    }

    fn create(&self, name: &str) -> Answer<Result<(Arc<dyn Node>, Metadata)>> {
        let name = &name.to_owned();
        let made = pass!(self, Create, create(name;));
        let control = Arc::clone(&self.control);
        map(made, move |made| {
            let (inner, metadata) = made?;
            Ok((Arc::new(FaultyNode { inner, control }) as Arc<dyn Node>, metadata))
        })
    }

    fn remove(&self, name: &str) -> Answer<Result<()>> {
        let name = &name.to_owned();
        pass!(self, Unlink, remove(name;))
    }
}

struct FaultyNode {
    inner: Arc<dyn Node>,
    control: Arc<Control>,
}

/// Returns the node wrapped by a [`FaultyNode`].
fn seen_through(node: &Arc<dyn Node>) -> Option<Arc<dyn Node>> {
    (&**node as &dyn Any).downcast_ref::<FaultyNode>().map(|faulty| Arc::clone(&faulty.inner))
}

impl Node for FaultyNode {
    fn metadata(&self, op: &Op) -> Answer<Result<Metadata>> {
        pass!(self, Metadata, metadata(op;))
    }

    fn open(&self, op: &Op, access: Access) -> Answer<Result<Arc<dyn Node>>> {
        let opened = pass!(self, Open, open(op; access));
        let control = Arc::clone(&self.control);
        map(opened, move |opened| opened.map(|inner| Arc::new(FaultyNode { inner, control }) as Arc<dyn Node>))
    }

    fn space(&self, op: &Op) -> Answer<Result<Space>> {
        pass!(self, Space, space(op;))
    }

    fn space_of_user(&self, op: &Op) -> Answer<Result<Space>> {
        pass!(self, Space, space_of_user(op;))
    }

    fn quotas(&self) -> Option<Arc<dyn Quotas>> {
        self.inner.quotas()
    }

    fn close(&self, op: &Op) -> Answer<Result<()>> {
        pass!(self, Close, close(op;))
    }

    fn permissions(&self, op: &Op) -> Answer<Result<u32>> {
        pass!(self, Permissions, permissions(op;))
    }

    fn read(&self, op: &Op, read: ReadRequest) -> Answer<ReadReply> {
        let inner = Arc::clone(&self.inner);
        let fault = self.control.run(Operation::Read, || Answer::now(Ok(())), Err);
        let op = op.clone();
        match fault {
            Answer::Now(Some(Ok(()))) => inner.read(&op, read),
            fault => Answer::later(async move {
                match fault.await {
                    Ok(()) => inner.read(&op, read).await,
                    Err(error) => (read.buffer, Err(error)),
                }
            }),
        }
    }

    fn write(&self, op: &Op, offset: u64, data: Payload, through: bool) -> Answer<Result<()>> {
        pass!(self, Write, write(op; offset, data, through))
    }

    fn takes_parts(&self) -> bool {
        self.inner.takes_parts()
    }

    fn flush(&self, op: &Op) -> Answer<Result<()>> {
        pass!(self, Flush, flush(op;))
    }

    fn location(&self, op: &Op) -> Answer<Result<Vec<u8>>> {
        pass!(self, Location, location(op;))
    }

    fn read_link(&self, op: &Op) -> Answer<Result<Vec<u8>>> {
        pass!(self, ReadLink, read_link(op;))
    }

    fn set_extent(&self, op: &Op, extent: Extent) -> Answer<Result<()>> {
        pass!(self, SetExtent, set_extent(op; extent))
    }

    fn data_ranges(&self, op: &Op, offset: u64, length: u64) -> Answer<Result<Vec<DataRange>>> {
        pass!(self, DataRanges, data_ranges(op; offset, length))
    }

    fn copy(&self, op: &Op, from: &Arc<dyn Node>, range: CopyRange) -> Answer<Result<u64>> {
        let Some(from) = seen_through(from) else { return Answer::now(Err(Errno::XDEV)) };
        let from = &from;
        pass!(self, Copy, copy(op, from; range))
    }

    fn set_metadata(&self, op: &Op, set: SetMetadata) -> Answer<Result<()>> {
        pass!(self, SetMetadata, set_metadata(op; set))
    }

    fn list(&self, op: &Op, listing: ListRequest) -> Answer<Result<Page>> {
        pass!(self, List, list(op; listing))
    }

    fn entry(&self, op: &Op, name: &[u8], case: Case) -> Answer<Result<Option<Entry>>> {
        let name = name.to_owned();
        pass!(self, Entry, entry(op, name; case))
    }

    fn get_xattr(&self, op: &Op, name: &str) -> Answer<Result<Option<Vec<u8>>>> {
        let name = name.to_owned();
        pass!(self, GetXattr, get_xattr(op, name;))
    }

    fn set_xattr(&self, op: &Op, name: &str, value: Option<Vec<u8>>, how: SetXattr) -> Answer<Result<()>> {
        let name = name.to_owned();
        pass!(self, SetXattr, set_xattr(op, name; value, how))
    }

    fn list_xattrs(&self, op: &Op) -> Answer<Result<Vec<String>>> {
        pass!(self, ListXattrs, list_xattrs(op;))
    }

    fn watch(&self, wanted: Wanted, listener: ChangeListener) -> Result<Watching> {
        self.inner.watch(wanted, listener)
    }

    fn lease(&self, op: &Op, broken: LeaseCallback) -> Answer<Result<Box<dyn Lease>>> {
        pass!(self, Lease, lease(op; broken))
    }

    fn lock(&self, op: &Op, changes: Vec<RangeChange>, many: bool) -> Answer<Result<()>> {
        pass!(self, Lock, lock(op; changes, many))
    }

    fn is_locked(&self, op: &Op, bytes: Vec<u64>) -> Answer<Result<bool>> {
        pass!(self, Lock, is_locked(op; bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::block_on;
    use crate::vfs::Create;
    use crate::vfs::contract::{self, Fixture};
    use crate::vfs::memory::tests::fixture;

    fn faulty(script: impl Script + 'static) -> (Fixture, Arc<Faulty>) {
        let fixture = fixture();
        let vfs = Arc::new(Faulty::new(Arc::clone(&fixture.vfs), Arc::new(script)));
        (Fixture { vfs: Arc::clone(&vfs) as Arc<dyn Vfs>, ..fixture }, vfs)
    }

    fn late(seed: u64) -> Seeded {
        Seeded { seed, delayed: 500, longest: 5, failing: 0, errors: Vec::new() }
    }

    #[test]
    fn late_answers_are_correct() {
        contract::check(&|| faulty(late(7)).0);
    }

    #[test]
    fn a_call_that_fails_is_not_carried_out() {
        let (fixture, vfs) = faulty(FailAt(vec![(0, Errno::IO), (2, Errno::NOSPC)]));
        let file = RelPath::root().join(b"file").unwrap();
        let create = || block_on(vfs.create(&fixture.owner, &file, NewFile::new(Create::Directory, 0o755)));
        assert_eq!(create().err(), Some(Errno::IO));
        let node = create().unwrap().node;
        assert_eq!(block_on(node.set_xattr(&fixture.owner, "user.a", Some(vec![1]), SetXattr::Any)), Err(Errno::NOSPC));
        assert_eq!(block_on(node.get_xattr(&fixture.owner, "user.a")), Ok(None));
        assert_eq!(vfs.calls(), 4);
    }

    #[test]
    fn the_same_seed_decides_the_same() {
        let errors = vec![Errno::IO, Errno::NOSPC];
        let script = Seeded { seed: 3, delayed: 300, longest: 9, failing: 300, errors };
        let all = |script: &Seeded| -> Vec<_> {
            let decided = |count| script.decide(Operation::Write, count);
            (0..200).map(decided).map(|fault| (fault.before.is_some(), fault.after.is_some(), fault.error)).collect()
        };
        assert_eq!(all(&script), all(&script.clone()));
        assert_ne!(all(&script), all(&Seeded { seed: 4, ..script.clone() }));
        let failed = all(&script).iter().filter(|(.., error)| error.is_some()).count();
        assert!((30..90).contains(&failed), "{failed}");
    }
}
