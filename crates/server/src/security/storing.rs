//! Storing what a conversion made: `frevo:acl store`.
//!
//! A file without a stored descriptor gets one by conversion of its POSIX lists. Where the share says so, that one is
//! stored, as a client's would be, so that it need not be made again. It never changes what counts: it says what the
//! conversion said, under the condition that the lists are still those that were converted.
//!
//! It is written after the answer to the request that asked for it, and only to a file that has none: what a client or
//! another program stored in the meantime stays, and so does one that is out of date, for it counts again when whoever
//! changed the lists changes them back. That it cannot be written harms nobody, for then it is made again.
//!
//! Writing changes the file's change time, by which the cache knows what it keeps. So once that time is settled the file is
//! read again, and what it says is kept.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use parking_lot::Mutex;
use proto::dtyp::{FileTime, SecurityDescriptor};

use super::cache::{Cache, Descriptor, Place, SETTLED, Seen};
use super::descriptor::{Found, Protection, SERVER, look_up};
use super::posix::Posix;
use super::sids;
use super::store;
use crate::policy::Share;
use crate::tree::Disk;
use crate::vfs::{Errno, Identity, Kind, Metadata, Node, Result};
use crate::world::World;

/// Conversions that wait to be stored, each with a descriptor of the process. Beyond it they are not stored; they are in
/// the cache for now, and come again when that has let them go.
const MOST: usize = 256;

/// Conversions that are to be stored.
#[derive(Default)]
pub(super) struct Waiting {
    queue: Mutex<VecDeque<Conversion>>,
    /// How many there are, for whoever asks after each answer.
    count: AtomicUsize,
}

/// A descriptor that was made of a file's lists.
struct Conversion {
    share: Arc<Share>,
    who: Arc<Identity>,
    place: Place,
    node: Arc<dyn Node>,
    metadata: Metadata,
    lists: Posix,
    descriptor: Arc<Descriptor>,
}

impl Waiting {
    fn add(&self, conversion: Conversion) {
        let mut queue = self.queue.lock();
        if queue.len() < MOST {
            queue.push_back(conversion);
            self.count.store(queue.len(), Ordering::Release);
        }
    }

    fn take(&self) -> VecDeque<Conversion> {
        if self.count.load(Ordering::Acquire) == 0 {
            return VecDeque::new();
        }
        self.count.store(0, Ordering::Release);
        std::mem::take(&mut *self.queue.lock())
    }
}

/// Has `descriptor`, made of `lists`, stored where the share stores that of such a file.
pub(super) async fn offer(
    disk: &Disk,
    node: &Arc<dyn Node>,
    metadata: &Metadata,
    lists: Posix,
    descriptor: &Arc<Descriptor>,
) {
    let entries = disk.share.acl_store.entries();
    let changeable = !disk.read_only && disk.snapshot.is_none() && keeps_one(metadata.kind);
    if !changeable || !entries.contains(lists.entries()) {
        return;
    }
    disk.descriptors.waiting.add(Conversion {
        share: disk.share.clone(),
        who: disk.identity.clone(),
        place: disk.place,
        node: node.clone(),
        metadata: *metadata,
        lists,
        descriptor: disk.descriptors.share(sids::by_account(&*disk.accounts, descriptor).await),
    });
}

/// Links and devices have no descriptors of their own.
fn keeps_one(kind: Kind) -> bool {
    matches!(kind, Kind::File | Kind::Directory)
}

/// Stores what waits. To be called when an answer is on its way: the first thing it does is to let that go.
pub(crate) async fn after_answer(cache: &Cache, world: &dyn World) {
    let waiting = cache.waiting.take();
    if waiting.is_empty() {
        return;
    }
    step_aside().await;
    let mut stored = Vec::new();
    for conversion in waiting {
        let Conversion { share, node, metadata, lists, descriptor, .. } = &conversion;
        match put(share, node, metadata, lists, descriptor, FileTime::from(world.now())).await {
            Ok(true) => stored.push(conversion),
            Ok(false) => {}
            Err(errno) => tracing::debug!(share = share.name, %errno, "a converted descriptor was not stored"),
        }
    }
    if stored.is_empty() {
        return;
    }
    world.sleep(SETTLED).await;
    for Conversion { share, who, place, node, descriptor: put, .. } in stored {
        // Who asks next finds out himself what it cannot be told here.
        let Ok(metadata) = node.metadata().await else { continue };
        if !cache.is_settled(&metadata) {
            continue;
        }
        let Ok(Found { descriptor, confirmed, .. }) = look_up(&share, &who, &node, &metadata).await else { continue };
        // Of another one that a client stored since, whose SID its owner's is has to be found out.
        if descriptor != **put {
            continue;
        }
        let protection = Protection::new(cache.share(descriptor), (metadata.uid, metadata.gid), confirmed);
        let seen = Seen { changed: Some(metadata.stamped), state: None };
        cache.keep(place, metadata.id, seen, Arc::new(protection));
    }
}

/// Lets whatever else the task has to do go first.
async fn step_aside() {
    let mut stepped = false;
    poll_fn(|context| {
        if std::mem::replace(&mut stepped, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Writes `descriptor`, which was made of `lists` when the file was as `metadata` says; `false` where the file has changed
/// since or has a descriptor by now.
pub(super) async fn put(
    share: &Share,
    node: &Arc<dyn Node>,
    metadata: &Metadata,
    lists: &Posix,
    descriptor: &SecurityDescriptor,
    now: FileTime,
) -> Result<bool> {
    let Some(acls) = &share.acls else { return Ok(false) };
    // A change that the clock does not show makes the hash a wrong one, and then this descriptor does not count.
    if node.metadata().await?.stamped != metadata.stamped {
        return Ok(false);
    }
    let hash = store::system_hash(metadata, &lists.access, lists.default.as_ref());
    let value = store::encode(descriptor, hash, now);
    if value.len() > store::LONGEST {
        return Ok(false);
    }
    match node.add_xattr(&SERVER, &acls.attribute, value).await {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::block_on;
    use crate::policy::{AclStyle, StoredAcls};
    use crate::rig::{Still, memory};
    use crate::security::posix_acl::PosixAcl;
    use crate::vfs::{Access, Create, RelPath, Vfs};

    const ATTRIBUTE: &str = "security.NTACL";

    /// A conversion of a new file `name`.
    fn conversion(volume: &Arc<dyn Vfs>, cache: &Cache, name: &str) -> Conversion {
        let acls =
            StoredAcls { attribute: ATTRIBUTE.into(), ignore_system_acls: false, default_style: AclStyle::Posix };
        let share = Arc::new(Share { acls: Some(acls), ..Share::new("share", "/share") });
        let path = RelPath::root().join(name.as_bytes()).expect("a name");
        let file = Create::File(Access { read: true, write: false });
        let (node, metadata) = block_on(volume.create(&SERVER, &path, file, 0o644, None)).expect("root may");
        let lists = Posix { directory: false, uid: 0, gid: 0, access: PosixAcl::of_mode(0o644), default: None };
        let descriptor = cache.share(SecurityDescriptor::default());
        let place = cache.place(1, &share);
        Conversion { share, who: SERVER.clone(), place, node, metadata, lists, descriptor }
    }

    #[test]
    fn no_more_wait_than_may_and_all_that_wait_are_stored() {
        let world: Arc<dyn World> = Arc::new(Still::default());
        let cache = Cache::new(world.clone(), 1 << 20);
        let volume = memory(world.clone());
        let mut nodes = Vec::new();
        for number in 0..MOST + 10 {
            let conversion = conversion(&volume, &cache, &number.to_string());
            nodes.push(conversion.node.clone());
            cache.waiting.add(conversion);
        }
        block_on(after_answer(&cache, &*world));
        let has_one = |node: &Arc<dyn Node>| block_on(node.get_xattr(&SERVER, ATTRIBUTE)).is_ok_and(|it| it.is_some());
        let stored: Vec<bool> = nodes.iter().map(has_one).collect();
        assert!(stored[..MOST].iter().all(|&is| is) && !stored[MOST..].iter().any(|&is| is));
        assert_eq!(cache.waiting.count.load(Ordering::Relaxed), 0);
        block_on(after_answer(&cache, &*world));
    }

    #[test]
    fn a_file_that_changed_since_is_left_alone() {
        let world: Arc<dyn World> = Arc::new(Still::default());
        let cache = Cache::new(world.clone(), 1 << 20);
        let conversion = conversion(&memory(world.clone()), &cache, "file");
        let node = conversion.node.clone();
        block_on(node.set_xattr(&SERVER, "user.a", Some(Vec::new()))).expect("root may");
        cache.waiting.add(conversion);
        block_on(after_answer(&cache, &*world));
        assert_eq!(block_on(node.get_xattr(&SERVER, ATTRIBUTE)), Ok(None));
    }
}
