//! The volumes of shares: directories of this machine, and volumes of GlusterFS.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use server::answer::Answer;
use server::policy::limits::VOLUMES_BEING_OPENED;
use server::policy::{GlusterVolume, Share, Storage};
use server::state::{VolumeId, Volumes, directories_overlap};
use server::vfs::{Errno, Vfs};

/// How long a client that connects waits for a volume of GlusterFS, and how long it is until a volume that could not be
/// opened is tried again.
const ATTEMPT: Duration = Duration::from_secs(10);

/// Opens the volumes of shares.
#[derive(Default)]
pub(super) struct ShareVolumes {
    opening: Arc<Counts>,
    /// When a volume of GlusterFS last could not be opened.
    failed: Arc<Mutex<HashMap<VolumeId, Instant>>>,
}

/// The entry of [`Counts`] for searches of mount points. A share cannot have this name.
const MOUNT_POINTS: &str = "";

/// The number of directories of each share that are being opened.
type Counts = Mutex<HashMap<String, usize>>;

/// A directory that is being opened.
struct Opening {
    counts: Arc<Counts>,
    share: String,
}

impl Opening {
    /// Counts one more; `None` if the share has too many.
    fn begin(counts: &Arc<Counts>, share: &str) -> Option<Opening> {
        let mut known = counts.lock();
        let count = known.entry(share.to_owned()).or_default();
        if *count >= VOLUMES_BEING_OPENED {
            return None;
        }
        *count += 1;
        Some(Opening { counts: Arc::clone(counts), share: share.to_owned() })
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        let mut known = self.counts.lock();
        let left = known.get_mut(&self.share).map_or(0, |count| {
            *count -= 1;
            *count
        });
        if left == 0 {
            known.remove(&self.share);
        }
    }
}

impl Volumes for ShareVolumes {
    fn id(&self, share: &Share) -> VolumeId {
        VolumeId::of_directory(share)
    }

    /// Opens the directory on a thread of its own, because a mounted file system may hang, and because threads that
    /// libraries start keep the identity of the thread that starts them.
    fn open(&self, share: &Share) -> Answer<server::vfs::Result<Arc<dyn Vfs>>> {
        if let Storage::Gluster(volume) = &share.storage {
            return self.open_gluster(share, Arc::clone(volume));
        }
        let Some(opening) = Opening::begin(&self.opening, &share.name) else {
            tracing::error!(
                share = share.name,
                "{VOLUMES_BEING_OPENED} directories of the share are still being \
                                                 opened; check whether its file system hangs"
            );
            return Answer::now(Err(Errno::AGAIN));
        };
        let (path, options) = (share.path.clone(), localfs::Options { links: share.links(), root: share.root });
        let (sender, opened) = tokio::sync::oneshot::channel();
        let open = move || {
            let volume = localfs::LocalFs::open(&path, options);
            drop(opening);
            // The client may have gone.
            let _ = sender.send(volume.map_err(|error| Errno(error.raw_os_error().unwrap_or(Errno::IO.0))));
        };
        if let Err(error) = std::thread::Builder::new().name("open volume".to_owned()).spawn(open) {
            tracing::error!(share = share.name, %error, "no thread can be started to open the share's directory; raise \
                                                         the limit on threads");
        }
        Answer::later(async move {
            let opened = opened.await.unwrap_or(Err(Errno::AGAIN));
            opened.map(|volume| Arc::new(volume) as Arc<dyn Vfs>)
        })
    }

    fn overlap(&self, share: &Share, other: &Share) -> bool {
        directories_overlap(share, other)
    }

    /// Determines the mount point on a thread of its own, because the directories above may be on a file system that
    /// hangs.
    fn mount_point(&self, path: &Path) -> Answer<server::vfs::Result<PathBuf>> {
        let Some(opening) = Opening::begin(&self.opening, MOUNT_POINTS) else { return Answer::now(Err(Errno::AGAIN)) };
        let path = path.to_owned();
        let (sender, found) = tokio::sync::oneshot::channel();
        let find = move || {
            let found = mount_point(&path);
            drop(opening);
            // The client may have gone.
            let _ = sender.send(found);
        };
        if let Err(error) = std::thread::Builder::new().name("mount point".to_owned()).spawn(find) {
            tracing::error!(%error, "no thread can be started to find a mount point; raise the limit on threads");
        }
        Answer::later(async move { found.await.unwrap_or(Err(Errno::AGAIN)) })
    }
}

/// Returns the highest directory above `path` that is on the same file system.
pub(crate) fn mount_point(path: &Path) -> server::vfs::Result<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    let device = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.dev());
    let here = device(path).map_err(|error| Errno(error.raw_os_error().unwrap_or(Errno::IO.0)))?;
    let same = path.ancestors().take_while(|above| device(above).is_ok_and(|device| device == here));
    Ok(same.last().unwrap_or(path).to_owned())
}

impl ShareVolumes {
    /// Opens a directory of a volume of GlusterFS on a thread of its own. A client waits a limited time, and the
    /// attempt continues for the next one.
    fn open_gluster(&self, share: &Share, volume: Arc<GlusterVolume>) -> Answer<server::vfs::Result<Arc<dyn Vfs>>> {
        let id = self.id(share);
        let is_recent = |failed: &Instant| failed.elapsed() < ATTEMPT;
        if self.failed.lock().get(&id).is_some_and(is_recent) {
            return Answer::now(Err(Errno::AGAIN));
        }
        let Some(opening) = Opening::begin(&self.opening, &share.name) else { return Answer::now(Err(Errno::AGAIN)) };
        let (path, name, failed) = (share.path.clone(), share.name.clone(), Arc::clone(&self.failed));
        let (sender, opened) = tokio::sync::oneshot::channel();
        let open = move || {
            let volume = gluster::open(&volume, &path.to_string_lossy());
            drop(opening);
            let mut failed = failed.lock();
            failed.retain(|_, failed| is_recent(failed));
            if let Err(error) = &volume {
                tracing::error!(share = name, "{error}");
                failed.insert(id, Instant::now());
            }
            // The client may have gone.
            let _ = sender.send(volume.map_err(|_| Errno::NOENT));
        };
        if let Err(error) = std::thread::Builder::new().name("open volume".to_owned()).spawn(open) {
            tracing::error!(share = share.name, %error, "no thread can be started to open the share's volume; raise \
                                                         the limit on threads");
        }
        Answer::later(async move {
            match tokio::time::timeout(ATTEMPT, opened).await {
                Ok(opened) => opened.unwrap_or(Err(Errno::AGAIN)),
                Err(_) => Err(Errno::TIMEDOUT),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use server::vfs::FileId;

    use super::*;

    #[test]
    fn directories_that_are_being_opened_are_bounded_for_each_share() {
        let counts = Arc::new(Counts::default());
        let mut opening: Vec<_> = (0..VOLUMES_BEING_OPENED).map(|_| Opening::begin(&counts, "homes")).collect();
        assert!(opening.iter().all(Option::is_some));
        assert!(Opening::begin(&counts, "homes").is_none());
        assert!(Opening::begin(&counts, "other").is_some(), "other shares are not affected");
        opening.pop();
        assert!(Opening::begin(&counts, "homes").is_some());
        drop(opening);
        assert!(counts.lock().is_empty());
    }

    #[test]
    fn a_directory_that_is_missing_is_an_error() {
        let volumes = ShareVolumes::default();
        let share = Share::new("missing", "/no such directory");
        let opened = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        assert_eq!(opened.block_on(volumes.open(&share)).err(), Some(Errno::NOENT));
        assert_eq!(opened.block_on(volumes.mount_point(&share.path)), Err(Errno::NOENT));
        assert_eq!(opened.block_on(volumes.mount_point(Path::new("/proc/self/fd"))), Ok(PathBuf::from("/proc")));
        assert!(volumes.opening.lock().is_empty());
    }

    #[test]
    fn the_path_in_a_volume_is_not_opened_on_this_host() {
        let host = tempfile::tempdir().expect("a directory");
        let share = Share { storage: server::testing::gluster("v"), ..Share::new("s", host.path()) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let volumes = ShareVolumes::default();
        let open = || runtime.block_on(volumes.open(&share)).err();
        assert_eq!(open(), Some(Errno::NOENT), "no server has the volume, or the library is missing");
        assert_eq!(open(), Some(Errno::AGAIN), "it is not tried again at once");
    }

    #[test]
    fn a_directory_that_was_exchanged_after_its_check_is_an_error() {
        let host = tempfile::tempdir().expect("a directory");
        let (music, other) = (host.path().join("music"), host.path().join("other"));
        std::fs::create_dir(&music).expect("a directory");
        std::fs::create_dir(&other).expect("a directory");
        let metadata = std::fs::metadata(&music).expect("it exists");
        let root = FileId { device: metadata.dev(), inode: metadata.ino(), stream: 0 };
        let share = Share { root: Some(root), ..Share::new("music", &music) };
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let open = || runtime.block_on(ShareVolumes::default().open(&share)).map(|_| ());
        assert_eq!(open(), Ok(()));
        std::fs::rename(&music, host.path().join("former")).expect("a new name");
        std::os::unix::fs::symlink(&other, &music).expect("a link");
        assert_eq!(open(), Err(Errno(libc::ESTALE)));
        assert_ne!(VolumeId::of_directory(&share), VolumeId::of_directory(&Share { root: None, ..share.clone() }));
    }
}
