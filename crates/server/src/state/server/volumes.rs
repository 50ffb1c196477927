//! The volumes behind the shares: each is opened once, whatever number of shares and tree connects use it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::Mutex;

use crate::acl::model::posix_acl;
use crate::answer::Answer;
use crate::policy::Share;
use crate::vfs::{self, Vfs, WantedXattrs};

/// Identifies a volume. Shares whose storage has the same id use one volume: one table of open files, one set of
/// caches.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct VolumeId(Arc<[u8]>);

impl VolumeId {
    /// Creates an id from parts that identify the storage; the first names its kind.
    pub fn new(parts: &[&[u8]]) -> VolumeId {
        // Lengths keep different parts different.
        let bytes = parts.iter().flat_map(|part| part.len().to_le_bytes().into_iter().chain(part.iter().copied()));
        VolumeId(bytes.collect())
    }

    /// Returns the id of the directory that `share` names, on this host or in a volume, with its rules for symbolic
    /// links.
    pub fn of_directory(share: &Share) -> VolumeId {
        let links = [u8::from(share.names.follow_symlinks), u8::from(share.names.wide_links)];
        let root = share.root.map_or([0; 16], |id| (u128::from(id.device) << 64 | u128::from(id.inode)).to_le_bytes());
        VolumeId::new(&[b"directory", share.location().as_os_str().as_encoded_bytes(), &links, &root])
    }
}

/// Opens the storage behind shares.
pub trait Volumes: Send + Sync {
    /// Returns the id of the volume that `share` serves. Never waits.
    fn id(&self, share: &Share) -> VolumeId;

    /// Opens the volume that `share` serves. Not called again for the same id while the volume is open or being opened.
    /// It must not wait on the calling thread. Errors are reported to the client that connects. [`wanted_xattrs`] are
    /// the extended attributes that the share needs with the metadata of files.
    fn open(&self, share: &Share) -> Answer<vfs::Result<Arc<dyn Vfs>>>;

    /// Returns whether some files of one share are also files of the other, at different paths.
    fn overlap(&self, share: &Share, other: &Share) -> bool;

    /// Returns the mount point of the file system that contains the directory `path`. It must not wait on the calling
    /// thread. The answer is kept while the volume is open.
    fn mount_point(&self, path: &Path) -> Answer<vfs::Result<PathBuf>>;
}

/// Returns the extended attributes that `share` needs with the metadata of files: the one that stores security
/// descriptors and, unless it ignores them, those with POSIX ACLs.
pub fn wanted_xattrs(share: &Share) -> WantedXattrs {
    let Some(acls) = &share.acls.stored else { return WantedXattrs::default() };
    let lists = [posix_acl::ACCESS, posix_acl::DEFAULT].into_iter().filter(|_| !acls.ignore_system_acls);
    WantedXattrs::new([&*acls.attribute].into_iter().chain(lists))
}

/// Returns whether the directory of one share contains that of the other, on this host or in one volume.
pub fn directories_overlap(share: &Share, other: &Share) -> bool {
    let (one, other) = (share.location(), other.location());
    one != other && (other.starts_with(&one) || one.starts_with(&other))
}

/// A file system and its volume number.
pub(super) type Volume = (u64, Arc<dyn Vfs>);

/// What is known about the volume of a share, for checks of its file system.
pub enum VolumeState {
    /// Nobody has used it.
    Closed,
    /// It has been being opened since.
    Opening(Instant),
    /// The last attempt to open it failed.
    Failed(vfs::Errno),
    /// It is open.
    Open(Arc<dyn Vfs>),
}

/// The open volumes.
#[derive(Default)]
pub(super) struct OpenVolumes(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    of: HashMap<VolumeId, Entry>,
    /// The number of entries after those without a use were last removed.
    swept: usize,
}

/// Entries without a use are removed when there are twice as many as after the last time, and this number.
const SPARE: usize = 16;

#[derive(Clone, Default)]
struct Entry {
    /// Locked while the volume is being opened.
    mounted: Arc<tokio::sync::Mutex<Mounted>>,
    attempt: Arc<Mutex<Attempt>>,
}

/// The last attempt to open a volume.
#[derive(Clone, Copy, Default)]
enum Attempt {
    /// There was none, or it succeeded.
    #[default]
    None,
    /// It has not ended, as far as is known: its client may have gone.
    Begun(Instant),
    Failed(vfs::Errno),
}

/// A volume that was opened or is being opened.
#[derive(Default)]
struct Mounted {
    number: u64,
    vfs: Option<Weak<dyn Vfs>>,
    /// A strong reference that keeps the volume open between tree connects, set for paths that the configuration
    /// contains literally. Homes (there may be 100,000), and paths expanded from variables (`%t` gives a new one each
    /// second), are closed with their last tree connect.
    _kept: Option<Arc<dyn Vfs>>,
    /// The mount point, once it is known.
    mount_point: Arc<tokio::sync::OnceCell<PathBuf>>,
}

impl Mounted {
    fn volume(&self) -> Option<Volume> {
        Some((self.number, self.vfs.as_ref()?.upgrade()?))
    }
}

impl OpenVolumes {
    /// Returns the volume of `share`, which `volumes` opens if it is not open. Calls for the same volume meanwhile wait
    /// for the same attempt. `is_fixed`: the configuration contains the path literally. `number` returns the number of
    /// a new volume.
    pub(super) async fn get(
        &self,
        volumes: &dyn Volumes,
        share: &Share,
        is_fixed: bool,
        number: impl FnOnce() -> u64,
    ) -> vfs::Result<Volume> {
        let Entry { mounted, attempt } = self.entry(volumes.id(share));
        let mut mounted = mounted.lock().await;
        if let Some(volume) = mounted.volume() {
            return Ok(volume);
        }
        // Another path may be wrong, which says nothing about a file system.
        if is_fixed && !matches!(*attempt.lock(), Attempt::Begun(_)) {
            *attempt.lock() = Attempt::Begun(Instant::now());
        }
        let opened = volumes.open(share).await;
        if is_fixed {
            *attempt.lock() = match &opened {
                // Too many are being opened, which says nothing about the file system.
                Ok(_) | Err(vfs::Errno::AGAIN) => Attempt::None,
                Err(errno) => Attempt::Failed(*errno),
            };
        }
        let vfs = opened?;
        let kept = is_fixed.then(|| vfs.clone());
        let mount_point = Arc::default();
        *mounted = Mounted { number: number(), vfs: Some(Arc::downgrade(&vfs)), _kept: kept, mount_point };
        Ok((mounted.number, vfs))
    }

    /// Returns the mount point of the directory of `share`, whose volume is open. `volumes` determines it once, and
    /// calls meanwhile wait for the same attempt.
    pub(super) async fn mount_point(&self, volumes: &dyn Volumes, share: &Share) -> vfs::Result<PathBuf> {
        let Entry { mounted, .. } = self.entry(volumes.id(share));
        let known = mounted.lock().await.mount_point.clone();
        known.get_or_try_init(|| volumes.mount_point(&share.path)).await.cloned()
    }

    /// Returns the state of a volume.
    pub(super) fn state(&self, id: &VolumeId) -> VolumeState {
        let Some(Entry { mounted, attempt }) = self.0.lock().of.get(id).cloned() else { return VolumeState::Closed };
        let open = mounted.try_lock().ok().and_then(|mounted| mounted.volume());
        match (open, *attempt.lock()) {
            (Some((_, vfs)), _) => VolumeState::Open(vfs),
            (None, Attempt::None) => VolumeState::Closed,
            (None, Attempt::Begun(since)) => VolumeState::Opening(since),
            (None, Attempt::Failed(errno)) => VolumeState::Failed(errno),
        }
    }

    fn entry(&self, id: VolumeId) -> Entry {
        let all = &mut *self.0.lock();
        if let Some(known) = all.of.get(&id) {
            return known.clone();
        }
        // Entries that a call waits for have a second reference.
        let is_used = |Entry { mounted, attempt }: &Entry| {
            Arc::strong_count(mounted) > 1
                || mounted.try_lock().is_ok_and(|mounted| mounted.volume().is_some())
                || !matches!(*attempt.lock(), Attempt::None)
        };
        if all.of.len() >= 2 * all.swept + SPARE {
            all.of.retain(|_, entry| is_used(entry));
            all.swept = all.of.len();
        }
        all.of.entry(id).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::task::{Context, Waker};

    use super::*;
    use crate::answer::block_on;
    use crate::testing::{self, ManualClock};

    /// Opens volumes in memory when it is told to, and counts them.
    struct Counted {
        opened: AtomicU64,
        asked: AtomicU64,
        ready: Arc<tokio::sync::Notify>,
        fails: bool,
    }

    impl Volumes for Counted {
        fn id(&self, share: &Share) -> VolumeId {
            VolumeId::of_directory(share)
        }

        fn open(&self, _: &Share) -> Answer<vfs::Result<Arc<dyn Vfs>>> {
            self.opened.fetch_add(1, Ordering::Relaxed);
            let (ready, fails) = (self.ready.clone(), self.fails);
            Answer::later(async move {
                ready.notified().await;
                if fails {
                    Err(vfs::Errno::IO)
                } else {
                    Ok(testing::volume::new(Arc::new(ManualClock::ticking()), testing::volume::options()))
                }
            })
        }

        fn overlap(&self, share: &Share, other: &Share) -> bool {
            directories_overlap(share, other)
        }

        fn mount_point(&self, path: &Path) -> Answer<vfs::Result<PathBuf>> {
            let first = self.asked.fetch_add(1, Ordering::Relaxed) == 0;
            let path = path.parent().unwrap_or(path).to_owned();
            Answer::now(if first { Err(vfs::Errno::AGAIN) } else { Ok(path) })
        }
    }

    fn counted(fails: bool) -> Counted {
        Counted { opened: AtomicU64::new(0), asked: AtomicU64::new(0), ready: Arc::default(), fails }
    }

    #[test]
    fn a_volume_is_opened_once_for_all_who_ask_meanwhile() {
        let (volumes, all, share) = (counted(false), OpenVolumes::default(), Share::new("s", "/s"));
        let get = || all.get(&volumes, &share, true, || volumes.opened.load(Ordering::Relaxed));
        let (mut first, mut second) = (pin!(get()), pin!(get()));
        let mut context = Context::from_waker(Waker::noop());
        assert!(first.as_mut().poll(&mut context).is_pending());
        assert!(second.as_mut().poll(&mut context).is_pending());
        volumes.ready.notify_one();
        let (first, second) = (block_on(first).expect("it opens"), block_on(second).expect("it opens"));
        assert!(Arc::ptr_eq(&first.1, &second.1) && first.0 == second.0);
        assert_eq!(volumes.opened.load(Ordering::Relaxed), 1);
        let mut other = Share::new("t", "/s");
        other.names.wide_links = true;
        volumes.ready.notify_one();
        let other = block_on(all.get(&volumes, &other, true, || 9)).expect("it opens");
        assert!(other.0 == 9 && !Arc::ptr_eq(&other.1, &first.1), "other rules for links are another volume");
    }

    #[test]
    fn the_state_of_a_volume_is_that_of_the_last_attempt() {
        let (volumes, all, share) = (counted(true), OpenVolumes::default(), Share::new("s", "/s"));
        let id = volumes.id(&share);
        let mut context = Context::from_waker(Waker::noop());
        assert!(matches!(all.state(&id), VolumeState::Closed));
        {
            let mut first = pin!(all.get(&volumes, &share, true, || 1));
            assert!(first.as_mut().poll(&mut context).is_pending());
            assert!(matches!(all.state(&id), VolumeState::Opening(_)));
        }
        assert!(matches!(all.state(&id), VolumeState::Opening(_)), "the client has gone, the attempt may hang");
        volumes.ready.notify_one();
        assert!(block_on(all.get(&volumes, &share, true, || 1)).is_err());
        all.entry(VolumeId::new(&[b"another"]));
        assert!(matches!(all.state(&id), VolumeState::Failed(vfs::Errno::IO)));
        let works = counted(false);
        works.ready.notify_one();
        let _open = block_on(all.get(&works, &share, true, || 1)).expect("it opens");
        assert!(matches!(all.state(&id), VolumeState::Open(_)));
    }

    #[test]
    fn a_mount_point_is_determined_once_for_an_open_volume() {
        let (volumes, all, share) = (counted(false), OpenVolumes::default(), Share::new("s", "/m/s"));
        volumes.ready.notify_one();
        let _open = block_on(all.get(&volumes, &share, true, || 1)).expect("it opens");
        assert_eq!(block_on(all.mount_point(&volumes, &share)), Err(vfs::Errno::AGAIN), "an error is not kept");
        for _ in 0..3 {
            assert_eq!(block_on(all.mount_point(&volumes, &share)), Ok(PathBuf::from("/m")));
        }
        assert_eq!(volumes.asked.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn shares_overlap_only_in_the_same_storage() {
        let share = |storage: &str, path: &str| match storage {
            "" => Share::new("s", path),
            volume => Share { storage: testing::gluster(volume), ..Share::new("s", path) },
        };
        for (one, other, overlap) in [
            (share("", "/"), share("", "/srv"), true),
            (share("v", "/"), share("v", "/srv"), true),
            (share("v", "/srv/a"), share("v", "/srv"), true),
            (share("v", "/srv"), share("v", "/srv"), false),
            (share("v", "/srv"), share("v", "/srv-2"), false),
            (share("v", "/"), share("", "/srv"), false),
            (share("v", "/srv"), share("", "/"), false),
            (share("v", "/"), share("w", "/srv"), false),
        ] {
            assert_eq!(directories_overlap(&one, &other), overlap, "{one:?} {other:?}");
            assert_eq!(directories_overlap(&other, &one), overlap, "{other:?} {one:?}");
        }
        let same = |one: &Share, other: &Share| VolumeId::of_directory(one) == VolumeId::of_directory(other);
        assert!(same(&share("v", "/"), &share("v", "/")));
        assert!(!same(&share("v", "/"), &share("", "/")) && !same(&share("v", "/"), &share("w", "/")));
    }

    #[test]
    fn a_volume_that_cannot_be_opened_is_tried_again() {
        let (volumes, all, share) = (counted(true), OpenVolumes::default(), Share::new("s", "/s"));
        for attempt in 1..=2 {
            volumes.ready.notify_one();
            assert_eq!(block_on(all.get(&volumes, &share, true, || 1)).err(), Some(vfs::Errno::IO));
            assert_eq!(volumes.opened.load(Ordering::Relaxed), attempt);
        }
    }

    #[test]
    fn a_volume_whose_path_is_not_fixed_is_closed_with_its_last_user() {
        let (volumes, all, share) = (counted(false), OpenVolumes::default(), Share::new("s", "/s"));
        for number in 1..=3 {
            volumes.ready.notify_one();
            let volume = block_on(all.get(&volumes, &share, false, || number)).expect("it opens");
            assert_eq!(volume.0, number);
            drop(volume);
        }
        let open: Vec<_> = (0..10_000)
            .map(|number| {
                volumes.ready.notify_one();
                let share = Share::new("t", format!("/{}", number / 2 * 2));
                block_on(all.get(&volumes, &share, false, || number)).expect("it opens")
            })
            .collect();
        assert_eq!(all.0.lock().of.len(), 5_000);
        drop(open);
        for number in 0..20_000 {
            volumes.ready.notify_one();
            let share = Share::new("t", format!("/of/{number}"));
            block_on(all.get(&volumes, &share, false, || number)).expect("it opens");
        }
        let count = all.0.lock().of.len();
        assert!(count < 100, "{count} are kept");
    }
}
