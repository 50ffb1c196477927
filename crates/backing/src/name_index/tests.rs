//! Indexes of directories in memory.

use std::collections::BTreeSet;
use std::time::Duration;

use super::*;

/// Changes that are not reported yet.
type Changes = Arc<Mutex<Vec<Change>>>;

enum Change {
    Added(u64, &'static str),
    Removed(u64, &'static str),
    Attributes(u64),
    Ended(u64),
    Lost,
}

/// Reports changes; directories are watched by their inode numbers. The list has the watches that were ended.
struct Queue(Changes, Vec<u64>);

impl ChangeQueue for Queue {
    type Watch = u64;

    fn drain(&mut self, each: &mut dyn FnMut(Event<'_, u64>)) {
        for change in std::mem::take(&mut *self.0.lock()) {
            each(match change {
                Change::Added(watch, name) => Event::Added(watch, name.as_bytes()),
                Change::Removed(watch, name) => Event::Removed(watch, name.as_bytes()),
                Change::Attributes(watch) => Event::Attributes(watch),
                Change::Ended(watch) => Event::Ended(watch),
                Change::Lost => Event::Lost,
            });
        }
    }

    fn unwatch(&mut self, watch: u64) {
        self.1.push(watch);
    }
}

#[derive(Clone)]
struct Memory {
    inode: u64,
    names: BTreeSet<String>,
    stamp: Stamp,
    /// Whether a listing has all names, each time that this is asked. It has if this is empty.
    all: Arc<Mutex<Vec<bool>>>,
}

impl Memory {
    fn new(inode: u64, names: impl IntoIterator<Item = String>) -> Memory {
        let time = Time { secs: 1, nanos: 1 };
        let stamp = Stamp { changed: time, modified: time };
        Memory { inode, names: names.into_iter().collect(), stamp, all: Arc::default() }
    }

    fn file(&self) -> FileId {
        FileId { device: 1, inode: self.inode, stream: 0 }
    }
}

impl Directory<Queue> for Memory {
    type Listing = Memory;

    fn watch(&self, _: &mut Queue) -> Option<u64> {
        Some(self.inode)
    }

    fn stamp(&self) -> Result<Stamp> {
        Ok(self.stamp)
    }

    fn lists_all(&self) -> Result<bool> {
        Ok(self.all.lock().pop().unwrap_or(true))
    }

    fn open(&self) -> Result<Memory> {
        Ok(self.clone())
    }
}

impl Listing for Memory {
    fn stamp(&self) -> Result<Stamp> {
        Ok(self.stamp)
    }

    fn each_name(&mut self, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<bool> {
        Ok(self.names.iter().all(|name| each(name.as_bytes())))
    }
}

/// The indexes of a volume whose changes are reported.
fn reported(budget: &Arc<Budget>) -> (Arc<NameIndexes<Queue>>, Changes) {
    let changes = Changes::default();
    let clock = Clock::ticking(Duration::from_secs(3600));
    (NameIndexes::new(Some(Queue(Arc::clone(&changes), Vec::new())), clock, Arc::clone(budget)), changes)
}

fn large() -> Arc<Budget> {
    Arc::new(Budget::new(1 << 20))
}

fn find(indexes: &NameIndexes<Queue>, directory: &Memory, name: &str) -> Option<String> {
    let (found, _) = indexes.find(directory, directory.file(), name.as_bytes(), Wait::Allowed).unwrap();
    found.map(|name| String::from_utf8(name.into_vec()).unwrap())
}

#[test]
fn the_exact_name_is_found_first_and_then_the_first_in_byte_order() {
    let (indexes, _) = reported(&large());
    let directory = Memory::new(1, ["file", "File", "FILE", "Ärger"].map(str::to_owned));
    for (name, found) in [("file", "file"), ("fILE", "FILE"), ("FILE", "FILE"), ("äRGER", "Ärger")] {
        assert_eq!(find(&indexes, &directory, name).as_deref(), Some(found));
    }
    assert_eq!(find(&indexes, &directory, "files"), None);
    assert_eq!(indexes.reads(), 1);
}

#[test]
fn reported_changes_keep_an_index_current() {
    let (indexes, changes) = reported(&large());
    let directory = Memory::new(1, ["a".to_owned()]);
    assert_eq!(find(&indexes, &directory, "B"), None);
    changes.lock().extend([Change::Added(1, "b"), Change::Removed(1, "a"), Change::Added(2, "c")]);
    assert_eq!(indexes.known(directory.file(), b"B").map(|(found, _)| found), Some(true));
    for (name, found) in [("A", None), ("B", Some("b")), ("C", None)] {
        assert_eq!(find(&indexes, &directory, name).as_deref(), found);
    }
    assert_eq!(indexes.reads(), 1);
    for change in [Change::Ended(1), Change::Lost] {
        let reads = indexes.reads();
        changes.lock().push(change);
        assert_eq!(indexes.known(directory.file(), b"a"), None);
        assert_eq!(find(&indexes, &directory, "A").as_deref(), Some("a"));
        assert_eq!(indexes.reads(), reads + 1);
    }
}

#[test]
fn a_directory_that_is_discarded_is_not_watched_any_more() {
    let (indexes, changes) = reported(&large());
    let directories = [1, 2].map(|inode| Memory::new(inode, []));
    let unwatched = || {
        let mut state = indexes.state.lock();
        assert_eq!(state.by_watch.len(), state.directories.len());
        state.queue.as_mut().map(|queue| std::mem::take(&mut queue.1)).unwrap_or_default()
    };
    let too_many = || (0..=PENDING).map(|_| Change::Added(1, "a")).collect::<Vec<_>>();
    for (reported, ended) in [(vec![Change::Lost], vec![1, 2]), (too_many(), vec![1]), (vec![Change::Ended(1)], vec![])]
    {
        for directory in &directories {
            assert_eq!(find(&indexes, directory, "b"), None);
        }
        changes.lock().extend(reported);
        assert_eq!(indexes.known(directories[0].file(), b"b"), None);
        assert_eq!(unwatched(), ended);
    }
    assert!(indexes.discard_one());
    assert_eq!(unwatched(), [2]);
}

#[test]
fn a_change_of_attributes_changes_the_version_of_its_directory_only() {
    let (indexes, changes) = reported(&large());
    let directories = [1, 2].map(|inode| Memory::new(inode, []));
    let versions = || {
        directories.each_ref().map(|directory| {
            let (_, version) = indexes.find(directory, directory.file(), b"a", Wait::Allowed).unwrap();
            version.expect("the directory is watched")
        })
    };
    let before = versions();
    assert_eq!(versions(), before);
    changes.lock().extend([Change::Attributes(1), Change::Added(2, "b")]);
    let after = versions();
    assert!(after[0] != before[0] && after[0] != before[1] && after[1] == before[1]);
}

#[test]
fn times_keep_an_index_current_if_changes_are_not_reported() {
    let hour = Duration::from_secs(3600);
    for (tick, reads) in [(Duration::ZERO, [1, 1, 2]), (1_000_000 * hour, [1, 2, 3])] {
        let indexes = NameIndexes::<Queue>::new(None, Clock::ticking(tick), large());
        let mut directory = Memory::new(1, ["a".to_owned()]);
        assert_eq!(find(&indexes, &directory, "A").as_deref(), Some("a"));
        assert_eq!(indexes.reads(), reads[0]);
        assert_eq!(find(&indexes, &directory, "B"), None);
        assert_eq!(indexes.reads(), reads[1]);
        directory.names.insert("b".to_owned());
        directory.stamp.modified.secs += 1;
        assert_eq!(find(&indexes, &directory, "B").as_deref(), Some("b"));
        assert_eq!(indexes.reads(), reads[2]);
        assert_eq!(indexes.known(directory.file(), b"b"), None);
    }
}

#[test]
fn a_thread_that_may_not_wait_reads_no_directory() {
    let (indexes, _) = reported(&large());
    let directory = Memory::new(1, ["a".to_owned()]);
    let find = |wait| indexes.find(&directory, directory.file(), b"A", wait).map(|(found, _)| found.is_some());
    assert_eq!(find(Wait::Never), Err(Errno::AGAIN));
    assert_eq!(find(Wait::Allowed), Ok(true));
    assert_eq!(find(Wait::Never), Ok(true));
}

#[test]
fn an_index_is_not_built_while_a_part_of_the_storage_connects_or_leaves() {
    let (indexes, _) = reported(&large());
    let directory = Memory::new(1, ["a".to_owned()]);
    let known = || indexes.known(directory.file(), b"b").map(|(found, _)| found);
    for (begin, end) in [(false, true), (true, false), (false, false)] {
        directory.all.lock().extend([end, begin]);
        assert_eq!(find(&indexes, &directory, "A").as_deref(), Some("a"), "without an index");
        assert_eq!(known(), None, "{begin} {end}");
        directory.all.lock().clear();
    }
    assert_eq!(find(&indexes, &directory, "B"), None);
    assert_eq!(known(), Some(false));
}

#[test]
fn volumes_share_a_budget() {
    let budget = Arc::new(Budget::new(100_000));
    let volumes = [reported(&budget).0, reported(&budget).0];
    let directory = |inode, count| Memory::new(inode, (0..count).map(|number| format!("File{number}")));
    for (volume, inode) in [(0, 1), (0, 2), (1, 1), (1, 2), (0, 1)] {
        assert_eq!(find(&volumes[volume], &directory(inode, 1200), "fILE7").as_deref(), Some("File7"));
        assert!(budget.charged() > 20_000 && budget.charged() <= 100_000, "{}", budget.charged());
    }
    assert_eq!(volumes.each_ref().map(|volume| volume.directories()), [1, 2], "the oldest index was discarded");
    let reads = volumes[1].reads();
    for _ in 0..2 {
        assert_eq!(find(&volumes[1], &directory(3, 6000), "fILE7").as_deref(), Some("File7"));
    }
    assert!(volumes[1].reads() >= reads + 2, "a directory that needs more than half has no index");
    drop(volumes);
    assert_eq!(budget.charged(), 0);
}
