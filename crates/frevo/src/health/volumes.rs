//! The file systems of shares. Those whose paths the configuration contains literally are looked at, once a client has
//! used them. Those under homes and other paths are looked at while clients use them: a project quota or a wrong path
//! of one user is not a fault of the server.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use server::policy::{Policy, Share, Storage};
use server::state::{Server, UsedFileSystem, VolumeId, VolumeState};
use server::vfs::{self, Errno, FileSystemState};

use super::probe::{Probe, Threads};
use super::{Fault, FileSystem};

/// Maximum number of shares that are looked at in one look. More are looked at in turns.
const SHARES: usize = 1024;
/// An error is a fault when it comes so often without another answer in between.
const ERRORS: u32 = 2;
/// How often a volume that could not be opened is tried again.
const RETRY: Duration = Duration::from_secs(10);
/// A fault ends after this number of answers without it.
const GOOD_ANSWERS: u32 = 3;

/// The shares, and what is known about their volumes.
#[derive(Default)]
pub(super) struct Volumes {
    policy: Option<Arc<Policy>>,
    shares: Vec<Arc<Share>>,
    /// The position of the next share that is looked at.
    next: usize,
    known: HashMap<VolumeId, Volume>,
    /// The file systems under other paths, by device number.
    unlisted: HashMap<u64, Volume>,
    /// Shares with other paths whose directories are being opened for too long.
    waiting: Vec<String>,
    threads: Threads,
}

/// What is known about a volume.
#[derive(Default)]
struct Volume {
    share: String,
    probe: Option<Probe<vfs::Result<FileSystemState>>>,
    last: Option<FileSystem>,
    device: Option<u64>,
    was_writable: bool,
    fault: Option<Trouble>,
    errors: u32,
    good: u32,
    /// When the volume was last opened again after a failure.
    retried: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trouble {
    Hangs,
    Broken(Errno),
    ReadOnly,
    Full,
}

impl Volumes {
    /// Takes the answers of the volumes whose turn it is, and asks them again.
    pub(super) fn look(&mut self, server: &Arc<Server>, patience: Duration) {
        let policy = server.policy();
        if !self.policy.as_ref().is_some_and(|known| Arc::ptr_eq(known, &policy)) {
            self.follow(server, &policy);
        }
        // One question at a time to a file system is enough. The first share is another one in each look.
        let asked = |it: &Volume| it.device.filter(|_| it.probe.is_some());
        let mut asked: HashSet<u64> = self.known.values().filter_map(asked).collect();
        self.next += 1;
        for _ in 0..self.shares.len().min(SHARES) {
            self.next = (self.next + 1) % self.shares.len();
            let share = &self.shares[self.next];
            let (id, state) = server.volume_state(share);
            let known =
                self.known.entry(id).or_insert_with(|| Volume { share: share.name.clone(), ..Volume::default() });
            known.share.clone_from(&share.name);
            match state {
                VolumeState::Closed => {}
                VolumeState::Opening(since) if since.elapsed() >= patience => known.fault = Some(Trouble::Hangs),
                VolumeState::Opening(_) => {}
                VolumeState::Failed(errno) => {
                    known.fault = Some(Trouble::Broken(errno));
                    if known.retried.is_none_or(|at| at.elapsed() >= RETRY) {
                        known.retried = Some(Instant::now());
                        let (server, share) = (server.clone(), share.clone());
                        tokio::spawn(async move { server.open_volume(&share).await });
                    }
                }
                VolumeState::Open(vfs) => {
                    known.update(patience);
                    if let Some(last) = &mut known.last {
                        last.workers = vfs.workers();
                    }
                    if known.probe.is_none() && known.device.is_none_or(|device| asked.insert(device)) {
                        let (probe, ask) = Probe::new(move || vfs.probe());
                        known.probe = Some(probe);
                        self.threads.ask(ask);
                    }
                }
            }
        }
        self.look_at_unlisted(server, patience, &mut asked);
        if let Err(error) = self.threads.keep(act_as_process) {
            tracing::warn!(%error, "no thread can be started to look at file systems; raise the limit on threads");
        }
    }

    /// Does the same for the file systems under other paths, except for those that a share is on.
    fn look_at_unlisted(&mut self, server: &Server, patience: Duration, asked: &mut HashSet<u64>) {
        self.waiting = server.unlisted_waiting(patience);
        let mut used: HashMap<u64, UsedFileSystem> = server.unlisted_file_systems().into_iter().collect();
        for device in self.known.values().filter_map(|it| it.device) {
            used.remove(&device);
        }
        // What a question waits for is still used by the question.
        self.unlisted.retain(|device, _| used.contains_key(device));
        for (device, UsedFileSystem { share, directory, vfs }) in used {
            let new = || Volume { share, device: Some(device), ..Volume::default() };
            let known = self.unlisted.entry(device).or_insert_with(new);
            known.update(patience);
            if known.probe.is_none() && asked.insert(device) {
                let (probe, ask) = Probe::new(move || of_whole(vfs.probe()?, &directory));
                known.probe = Some(probe);
                self.threads.ask(ask);
            }
        }
    }

    /// Looks at the shares of another configuration from now on.
    fn follow(&mut self, server: &Server, policy: &Arc<Policy>) {
        let mut ids = HashSet::new();
        let is_fixed = |share: &&Arc<Share>| {
            let is_directory = matches!(share.storage, Storage::Directory) && !share.path.as_os_str().is_empty();
            share.available && share.path_template.is_none() && is_directory
        };
        let mut shares: Vec<_> = policy.shares.values().filter(is_fixed).cloned().collect();
        shares.sort_by(|a, b| a.name.cmp(&b.name));
        shares.retain(|share| ids.insert(server.volume_state(share).0));
        self.known.retain(|id, _| ids.contains(id));
        (self.shares, self.next, self.policy) = (shares, 0, Some(policy.clone()));
    }

    /// Returns the faults, one for each file system, and the file systems by share.
    pub(super) fn found(&self) -> (Vec<Fault>, BTreeMap<String, FileSystem>) {
        let mut seen = HashSet::new();
        let all = self.known.values().chain(self.unlisted.values());
        let mut faults: Vec<_> = all.filter_map(|it| Some((it.fault()?, it.device))).collect();
        faults.extend(self.waiting.iter().map(|share| (Fault::FileSystemHangs { share: share.clone() }, None)));
        faults.sort();
        faults.retain(|(fault, device)| device.is_none_or(|device| seen.insert((fault.name(), device))));
        let file_systems = self.known.values().filter_map(|it| Some((it.share.clone(), it.last?))).collect();
        (faults.into_iter().map(|(fault, _)| fault).collect(), file_systems)
    }
}

/// Returns the state of a file system that is full for `directory`, as it is for its mount point: a project quota of a
/// home says nothing about the others. Waits as a probe does.
fn of_whole(state: FileSystemState, directory: &Path) -> vfs::Result<FileSystemState> {
    if !FileSystem::of(&state, Duration::ZERO).is_full(true) {
        return Ok(state);
    }
    let is_on_it = |at: &&Path| std::fs::metadata(at).is_ok_and(|it| it.dev() == state.device);
    let Some(said) = directory.ancestors().take_while(is_on_it).last().and_then(|at| rustix::fs::statvfs(at).ok())
    else {
        return Ok(state);
    };
    let bytes = |blocks: u64| blocks.saturating_mul(said.f_frsize);
    Ok(FileSystemState { size: bytes(said.f_blocks), available: bytes(said.f_bavail), ..state })
}

/// Threads inherit the identity of the thread that starts them.
fn act_as_process() {
    // A thread that cannot switch gets errors from file systems that the user may not see.
    let _ = localfs::identity::as_process(|| ());
}

impl Volume {
    /// Takes the answer, if there is one, and decides whether there is a fault.
    fn update(&mut self, patience: Duration) {
        let Some(probe) = &self.probe else { return };
        let Some((said, took)) = probe.take() else {
            if probe.waits() >= patience {
                (self.fault, self.good) = (Some(Trouble::Hangs), 0);
            }
            return;
        };
        self.probe = None;
        let trouble = match said {
            Ok(state) => {
                let trouble = self.answered(state, took);
                if took >= patience { Some(Trouble::Hangs) } else { trouble }
            }
            // There is no such question.
            Err(Errno::OPNOTSUPP) => None,
            // The server itself may be refused where users are not, as by NFS with Kerberos.
            Err(Errno::ACCES | Errno::PERM) => None,
            // A file system with a time limit of its own.
            Err(_) if took >= patience => Some(Trouble::Hangs),
            Err(errno) => Some(Trouble::Broken(errno)),
        };
        self.errors = if matches!(trouble, Some(Trouble::Broken(_))) { self.errors + 1 } else { 0 };
        self.good = if trouble.is_none() { self.good + 1 } else { 0 };
        match trouble {
            Some(Trouble::Broken(_)) if self.errors < ERRORS => {}
            Some(trouble) => self.fault = Some(trouble),
            None if self.good >= GOOD_ANSWERS => self.fault = None,
            None => {}
        }
    }

    fn answered(&mut self, state: FileSystemState, took: Duration) -> Option<Trouble> {
        let FileSystemState { device, read_only, .. } = state;
        let workers = self.last.and_then(|last| last.workers);
        let file_system = FileSystem { workers, ..FileSystem::of(&state, took) };
        self.device = Some(device);
        self.last = Some(file_system);
        self.was_writable |= !read_only;
        match read_only {
            // A file system that never was writable is meant to be so, and always full.
            true => self.was_writable.then_some(Trouble::ReadOnly),
            false => file_system.is_full(self.fault == Some(Trouble::Full)).then_some(Trouble::Full),
        }
    }

    fn fault(&self) -> Option<Fault> {
        let share = self.share.clone();
        Some(match self.fault? {
            Trouble::Hangs => Fault::FileSystemHangs { share },
            Trouble::Broken(errno) => {
                Fault::FileSystemBroken { share, error: io::Error::from_raw_os_error(errno.0).to_string() }
            }
            Trouble::ReadOnly => Fault::FileSystemReadOnly { share },
            Trouble::Full => Fault::FileSystemFull { share },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(3);
    const GOOD: FileSystemState = FileSystemState { device: 1, size: 1000, available: 500, read_only: false };

    /// Gives the volume an answer.
    fn answer(volume: &mut Volume, said: vfs::Result<FileSystemState>, patience: Duration) -> Option<Trouble> {
        let (probe, ask) = Probe::new(move || said);
        ask();
        volume.probe = Some(probe);
        volume.update(patience);
        assert!(volume.probe.is_none());
        volume.fault
    }

    #[test]
    fn faults_begin_and_end() {
        let mut volume = Volume::default();
        let full = FileSystemState { available: 9, ..GOOD };
        assert_eq!(answer(&mut volume, Ok(GOOD), PATIENCE), None);
        assert_eq!(answer(&mut volume, Ok(full), PATIENCE), Some(Trouble::Full));
        let nearly = FileSystemState { available: 19, ..GOOD };
        for _ in 0..5 {
            assert_eq!(answer(&mut volume, Ok(nearly), PATIENCE), Some(Trouble::Full), "it would flap");
        }
        assert_eq!(volume.last.map(|it| it.available), Some(19), "the space is known while it is full");
        for _ in 1..GOOD_ANSWERS {
            assert_eq!(answer(&mut volume, Ok(GOOD), PATIENCE), Some(Trouble::Full));
        }
        assert_eq!(answer(&mut volume, Ok(GOOD), PATIENCE), None);
        assert_eq!(answer(&mut volume, Err(Errno::IO), PATIENCE), None, "once is an accident");
        assert_eq!(answer(&mut volume, Err(Errno::IO), PATIENCE), Some(Trouble::Broken(Errno::IO)));
        assert_eq!(answer(&mut volume, Err(Errno::TIMEDOUT), Duration::ZERO), Some(Trouble::Hangs));
        for _ in 0..GOOD_ANSWERS {
            answer(&mut volume, Err(Errno::ACCES), PATIENCE);
        }
        assert_eq!(volume.fault, None, "the server may not see it");
    }

    #[test]
    fn a_quota_of_a_home_is_no_fault_of_its_file_system() {
        let dir = tempfile::tempdir().expect("a directory");
        let device = std::fs::metadata(dir.path()).expect("metadata").dev();
        let full = FileSystemState { device, size: 1000, available: 0, read_only: false };
        let whole = of_whole(full, dir.path()).expect("a state");
        assert!(whole.size > 1 << 20 && whole.device == device, "that of the file system: {whole:?}");
        let elsewhere = FileSystemState { device: device + 1, ..full };
        assert_eq!(of_whole(elsewhere, dir.path()), Ok(elsewhere), "the path leads elsewhere now");
        let good = FileSystemState { available: 500, ..full };
        assert_eq!(of_whole(good, dir.path()), Ok(good));
    }

    #[test]
    fn only_what_was_writable_becomes_read_only() {
        let read_only = FileSystemState { read_only: true, available: 0, ..GOOD };
        let mut disc = Volume::default();
        assert_eq!(answer(&mut disc, Ok(read_only), PATIENCE), None);
        let mut disk = Volume::default();
        answer(&mut disk, Ok(GOOD), PATIENCE);
        assert_eq!(answer(&mut disk, Ok(read_only), PATIENCE), Some(Trouble::ReadOnly));
    }

    #[test]
    fn an_answer_that_does_not_come_is_a_fault_of_one_share_for_each_file_system() {
        let volume = |share: &str| {
            let mut volume = Volume { share: share.to_owned(), ..Volume::default() };
            answer(&mut volume, Ok(GOOD), PATIENCE);
            volume.probe = Some(Probe::new(|| Ok(GOOD)).0);
            volume.update(Duration::from_nanos(1));
            assert_eq!(volume.fault, None, "others are asked before");
            let (probe, _ask) = Probe::asked(|| Ok(GOOD));
            volume.probe = Some(probe);
            volume.update(PATIENCE);
            assert_eq!(volume.fault, None, "it may still answer");
            volume.update(Duration::ZERO);
            answer(&mut volume, Ok(GOOD), PATIENCE);
            assert_eq!(volume.fault, Some(Trouble::Hangs), "once is not enough");
            (VolumeId::new(&[share.as_bytes()]), volume)
        };
        let volumes = Volumes { known: ["b", "a"].map(volume).into(), ..Volumes::default() };
        let (faults, file_systems) = volumes.found();
        assert_eq!(faults, [Fault::FileSystemHangs { share: "a".into() }]);
        assert_eq!(file_systems.len(), 2);
    }
}
