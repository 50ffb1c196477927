//! Write-back of synthesized descriptors: `frevo:acl store`.
//!
//! A file without a stored descriptor gets one synthesized from its POSIX ACLs. If the share is so configured, this
//! descriptor is stored like one set by a client, so that it need not be synthesized again. This never changes the
//! effective descriptor: the stored one is equal to it and is valid only while the POSIX ACLs are unchanged.
//!
//! It is written after the response to the request that needed it, and only if the file has none. A descriptor that a
//! client or another program stored meanwhile is kept. An outdated one is kept, too, because it becomes valid again if
//! the change of the POSIX ACLs is undone. A failure to write is harmless, because the descriptor is then synthesized
//! again.
//!
//! Writing changes the file's change time, which invalidates the cache entry. The hash of the new inputs is computed
//! here, so that the next access only has to compare it.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use proto::dtyp::{FileTime, SecurityDescriptor};

use crate::acl::cache::{Cache, Validity};
use crate::acl::model::posix_acl::PosixAcl;
use crate::acl::ntacl;
use crate::acl::posix::Posix;
use crate::acl::protection::Protection;
use crate::acl::sids;
use crate::acl::source::AclInputs;
use crate::acl::write_back_queue::Conversion;
use crate::environment::Environment;
use crate::policy::Share;
use crate::tree::Disk;
use crate::vfs::{Errno, Kind, Metadata, Node, Result, SERVER, SetXattr};

/// Whether the descriptor synthesized from such ACLs may be stored. It must not grant access that the ACLs deny, on the
/// file ([`Protection::granted`]) or on files created in it, because a stored descriptor is in force by itself.
pub(in crate::security) fn is_faithful(lists: &Posix) -> bool {
    !lists.access.keeps_writers_out() && !lists.default.as_ref().is_some_and(PosixAcl::keeps_out)
}

/// Whether a file with these inputs has no stored descriptor and the share is configured to store it.
pub(in crate::security) fn is_due(disk: &Disk, metadata: &Metadata, material: &AclInputs) -> bool {
    let stored = disk.share.acls.acl_store.entries();
    let is_one =
        disk.share.acls.stored.is_some() && material.converted_entries().is_some_and(|count| stored.contains(count));
    let changeable = !disk.read_only && disk.snapshot.is_none() && keeps_one(metadata.kind);
    is_one && changeable && material.posix(metadata).is_some_and(|lists| is_faithful(&lists))
}

/// Queues `descriptor`, synthesized from `lists`, for storing.
pub(in crate::security) async fn offer(
    disk: &Disk,
    node: &Arc<dyn Node>,
    metadata: &Metadata,
    lists: Posix,
    descriptor: &SecurityDescriptor,
) {
    disk.descriptors.waiting.add(Conversion {
        share: disk.share.clone(),
        place: disk.place,
        node: node.clone(),
        metadata: *metadata,
        lists,
        descriptor: disk.descriptors.share(sids::by_account(&*disk.ids, descriptor).await),
    });
}

/// Symbolic links and devices have no descriptors of their own.
fn keeps_one(kind: Kind) -> bool {
    matches!(kind, Kind::File | Kind::Directory)
}

/// Stores the queued descriptors. Must be called when a response is about to be sent; it first yields so that the
/// response can be sent.
pub(crate) async fn after_answer(cache: &Cache, environment: &dyn Environment) {
    let waiting = cache.waiting.take();
    if waiting.is_empty() {
        return;
    }
    step_aside().await;
    for Conversion { share, place, node, metadata, lists, descriptor } in waiting {
        match put(&share, &node, &metadata, &lists, &descriptor, FileTime::from(environment.now())).await {
            Ok(None) => {}
            Ok(value) => {
                let inputs_hash = cache.inputs_hash(place, &AclInputs::stored(&metadata, value, &lists));
                let protection = Protection::by_descriptor(descriptor, &metadata, inputs_hash).beside(lists.access);
                cache.keep(place, metadata.id, Validity { changed: None, state: None }, Arc::new(protection));
            }
            Err(errno) => tracing::debug!(share = share.name, %errno, "cannot store a converted security descriptor"),
        }
    }
}

/// Yields once to the other work of the task.
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

/// Writes `descriptor`, which was synthesized from `lists` when the file had `metadata`. Returns the new value of the
/// attribute; `None` if the file has changed since or has got a descriptor.
pub(in crate::security) async fn put(
    share: &Share,
    node: &Arc<dyn Node>,
    metadata: &Metadata,
    lists: &Posix,
    descriptor: &SecurityDescriptor,
    now: FileTime,
) -> Result<Option<Vec<u8>>> {
    let Some(acls) = &share.acls.stored else { return Ok(None) };
    // A change that the clock does not show makes the hash wrong, so the descriptor is not valid then.
    if node.metadata(&SERVER).await?.stamped != metadata.stamped {
        return Ok(None);
    }
    let hash = ntacl::system_hash(metadata, &lists.access, lists.default.as_ref());
    let value = ntacl::encode(descriptor, hash, now);
    if value.len() > ntacl::LONGEST {
        return Ok(None);
    }
    match node.set_xattr(&SERVER, &acls.attribute, Some(value.clone()), SetXattr::New).await {
        Ok(()) => Ok(Some(value)),
        Err(Errno::EXIST) => Ok(None),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::answer::block_on;
    use crate::policy::limits::QUEUED_WRITE_BACKS;
    use crate::policy::{AclStyle, StoredAcls};
    use crate::testing::{ManualClock, volume};
    use crate::vfs::NewFile;
    use crate::vfs::{Access, Create, RelPath, SetMetadata, Vfs};

    const ATTRIBUTE: &str = "security.NTACL";

    /// A conversion of a new file `name`.
    fn conversion(volume: &Arc<dyn Vfs>, cache: &Cache, name: &str) -> Conversion {
        let acls = StoredAcls {
            attribute: ATTRIBUTE.into(),
            ignore_system_acls: false,
            default_style: AclStyle::Posix,
            of_owner: None,
        };
        let mut share = Share::new("share", "/share");
        share.acls.stored = Some(acls);
        let share = Arc::new(share);
        let path = RelPath::root().join(name.as_bytes()).expect("a valid name");
        let file = Create::File(Access { read: true, write: false });
        let (node, metadata) =
            block_on(volume.create(&SERVER, &path, NewFile::new(file, 0o644))).expect("root has permission").opened();
        let lists = Posix { directory: false, uid: 0, gid: 0, access: PosixAcl::of_mode(0o644), default: None };
        let descriptor = cache.share(SecurityDescriptor::default());
        let place = cache.place(1, &share);
        Conversion { share, place, node, metadata, lists, descriptor }
    }

    #[test]
    fn waiting_conversions_are_bounded_and_all_are_stored() {
        let environment: Arc<dyn Environment> = Arc::new(ManualClock::ticking());
        let cache = Cache::new(environment.clone(), 1 << 20);
        let volume = volume::new(environment.clone(), volume::options());
        let mut nodes = Vec::new();
        for number in 0..QUEUED_WRITE_BACKS + 10 {
            let conversion = conversion(&volume, &cache, &number.to_string());
            nodes.push(conversion.node.clone());
            cache.waiting.add(conversion);
        }
        block_on(after_answer(&cache, &*environment));
        let has_one = |node: &Arc<dyn Node>| block_on(node.get_xattr(&SERVER, ATTRIBUTE)).is_ok_and(|it| it.is_some());
        let stored: Vec<bool> = nodes.iter().map(has_one).collect();
        assert!(
            stored[..QUEUED_WRITE_BACKS].iter().all(|&is| is) && !stored[QUEUED_WRITE_BACKS..].iter().any(|&is| is)
        );
        assert_eq!(cache.waiting.count.load(Ordering::Relaxed), 0);
        block_on(after_answer(&cache, &*environment));
    }

    #[test]
    fn stored_descriptors_apply_to_files_that_inherit_them() {
        let environment: Arc<dyn Environment> = Arc::new(ManualClock::ticking());
        let cache = Cache::new(environment.clone(), 1 << 20);
        let conversion = conversion(&volume::new(environment.clone(), volume::options()), &cache, "file");
        let (node, share, place) = (conversion.node.clone(), conversion.share.clone(), conversion.place);
        cache.waiting.add(conversion);
        block_on(after_answer(&cache, &*environment));
        let known = || {
            let metadata = block_on(node.metadata(&SERVER)).expect("it exists");
            let material = block_on(AclInputs::read(&share, crate::vfs::AclKind::Posix, &SERVER, &node, &metadata))
                .expect("root has permission");
            cache.renew(
                place,
                metadata.id,
                Validity { changed: None, state: None },
                cache.inputs_hash(place, &material),
            )
        };
        assert!(known().is_some_and(|protection| protection.stored));
        let mode = |mode| SetMetadata { mode: Some(mode), ..SetMetadata::default() };
        block_on(node.set_metadata(&SERVER, mode(0o600))).expect("root has permission");
        assert!(known().is_none(), "another mode");
        block_on(node.set_metadata(&SERVER, mode(0o644))).expect("root has permission");
        assert!(known().is_some(), "the previous mode");
        block_on(node.set_xattr(&SERVER, ATTRIBUTE, None, SetXattr::Any)).expect("root has permission");
        assert!(known().is_none(), "nothing is stored");
    }

    #[test]
    fn a_file_that_changed_since_is_left_alone() {
        let environment: Arc<dyn Environment> = Arc::new(ManualClock::ticking());
        let cache = Cache::new(environment.clone(), 1 << 20);
        let conversion = conversion(&volume::new(environment.clone(), volume::options()), &cache, "file");
        let node = conversion.node.clone();
        block_on(node.set_xattr(&SERVER, "user.a", Some(Vec::new()), SetXattr::Any)).expect("root has permission");
        cache.waiting.add(conversion);
        block_on(after_answer(&cache, &*environment));
        assert_eq!(block_on(node.get_xattr(&SERVER, ATTRIBUTE)), Ok(None));
    }
}
