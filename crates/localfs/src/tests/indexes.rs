//! Names that differ in case only, with changes by the server and by other programs.

use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use backing::Wait;
use backing::name_index::budget::Budget;

use super::*;
use crate::names::{Directory, indexes};
use crate::root::Root;

#[test]
fn changes_by_other_programs_are_seen() {
    let bed = Bed::new();
    let local = |name: &str| bed.root.join(name);
    assert!(bed.is_missing("file"), "the index is built");
    bed.local_write("File", "1");
    assert_eq!(bed.found("fILE").0, path("File"));
    process(|| fs::rename(local("File"), local("FILE2"))).unwrap();
    assert!(bed.is_missing("file"));
    assert_eq!(bed.found("file2").0, path("FILE2"));
    process(|| fs::create_dir(local("Dir"))).unwrap();
    process(|| fs::rename(local("FILE2"), local("Dir/Moved"))).unwrap();
    assert!(bed.is_missing("file2"));
    assert_eq!(bed.found("dir/moved").0, path("Dir/Moved"));
    process(|| fs::rename(local("Dir"), local("Other"))).unwrap();
    assert!(matches!(bed.lookup("dir/moved"), Ok(Lookup::NoParent)));
    assert_eq!(bed.found("other/moved").0, path("Other/Moved"));
    process(|| fs::remove_file(local("Other/Moved"))).unwrap();
    assert!(bed.is_missing("other/moved"));
    // Another directory with an old name.
    process(|| fs::remove_dir(local("Other"))).unwrap();
    process(|| fs::create_dir(local("Other"))).unwrap();
    bed.local_write("Other/New", "");
    assert_eq!(bed.found("other/new").0, path("Other/New"));
    process(|| std::os::unix::fs::symlink("none", local("Dangling"))).unwrap();
    assert_eq!(bed.found("dangling").2.kind, Kind::Symlink);
}

#[test]
fn a_miss_in_a_large_directory_does_not_read_it_again() {
    let bed = Bed::new();
    process(|| {
        for number in 0..20_000 {
            fs::write(bed.root.join(format!("Entry {number}")), "").expect("the name is not in use");
        }
    });
    assert!(bed.is_missing("none"));
    let read = bed.fs.0.names.reads();
    for number in 0..200 {
        assert!(bed.is_missing(&format!("none {number}")));
        assert_eq!(bed.found(&format!("entry {}", number * 77)).0, path(&format!("Entry {}", number * 77)));
        // Nor do the server's own changes make it read again.
        let (_, made) = bed.create(&format!("New {number}"));
        assert_eq!(bed.found(&format!("NEW {number}")).2.id, made.id);
        let name = path(&format!("New {number}"));
        assert_eq!(block_on(bed.fs.unlink(&bed.who, &name, made.id, Kind::File)).map(|_| ()), Ok(()));
        assert!(bed.is_missing(&format!("NEW {number}")));
    }
    assert_eq!(bed.fs.0.names.reads(), read);
}

#[test]
fn more_changes_than_are_queued() {
    let bed = Bed::new();
    assert!(bed.is_missing("none"));
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").expect("Linux has inotify");
    let limit: usize = limit.trim().parse().expect("a number");
    process(|| {
        // Each round queues two events that differ, so that they are not merged into one.
        for number in 0..limit.min(40_000) {
            let name = bed.root.join(format!("Entry{}", number % 2));
            fs::write(&name, "").and_then(|()| fs::remove_file(&name)).expect("the name is not in use");
        }
    });
    bed.local_write("Late", "");
    assert_eq!(bed.found("late").0, path("Late"));
    assert!(bed.is_missing("entry1"));
}

#[test]
fn many_directories_take_turns() {
    let bed = Bed::new();
    process(|| {
        for number in 0..600 {
            fs::create_dir(bed.root.join(number.to_string())).unwrap();
            fs::write(bed.root.join(format!("{number}/File")), "").unwrap();
        }
    });
    for round in 0..2 {
        for number in 0..600 {
            let (found, ..) = bed.found(&format!("{number}/file"));
            assert_eq!(found, path(&format!("{number}/File")), "{round}");
        }
    }
    assert!(bed.fs.0.names.directories() <= 512);
}

#[test]
fn change_times_reveal_changes_where_nothing_can_be_watched() {
    let temp = Temp::new();
    let root = Root::open(temp.path(), FOLLOW, None).unwrap();
    let names = indexes(false, Clock::ticking(Duration::from_millis(20)), Budget::of_process());
    let directory = root.open_directory(&RelPath::root(), FOLLOW, Wait::Allowed).unwrap();
    let find = |name: &str, wait| {
        names
            .find(&Directory { root: &root, fd: directory.as_fd() }, root.id, name.as_bytes(), wait)
            .map(|(found, _)| found)
    };
    let found = |name: &str| find(name, Wait::Allowed).unwrap().map(|name| String::from_utf8(name.into_vec()).unwrap());
    for number in 0..50 {
        process(|| fs::write(temp.path().join(format!("File{number}")), "")).unwrap();
        assert_eq!(found(&format!("fILE{number}")), Some(format!("File{number}")));
        process(|| fs::remove_file(temp.path().join(format!("File{number}")))).unwrap();
        assert_eq!(found(&format!("fILE{number}")), None);
    }
    process(|| fs::write(temp.path().join("Last"), "")).unwrap();
    std::thread::sleep(Duration::from_millis(60));
    assert_eq!(found("last"), Some("Last".to_owned()));
    let read = names.reads();
    assert_eq!(
        find("LAST", Wait::Never),
        Ok(Some(Box::from(&b"Last"[..]))),
        "the unchanged directory is not read again"
    );
    assert_eq!(find("none", Wait::Never), Ok(None));
    assert_eq!(names.reads(), read);
}

/// Two shares whose indexes together would exceed the budget.
#[test]
fn the_indexes_of_all_shares_share_a_budget() {
    const NAMES: usize = 1200;
    let budget = Arc::new(Budget::new(100_000));
    let shares: Vec<_> = (0..2)
        .map(|_| {
            let temp = Temp::new();
            let names = indexes(true, Clock::ticking(Duration::from_millis(20)), budget.clone());
            (Root::open(temp.path(), FOLLOW, None).unwrap(), names, temp)
        })
        .collect();
    let make = |share: usize, directory: &str, count: usize| {
        let directory = shares[share].2.path().join(directory);
        process(|| fs::create_dir_all(&directory)).unwrap();
        (0..count).for_each(|number| process(|| fs::write(directory.join(format!("File{number}")), "")).unwrap());
    };
    let find = |share: usize, directory: &str| {
        let (root, names, _) = &shares[share];
        let fd = root.open_directory(&path(directory), FOLLOW, Wait::Allowed).unwrap();
        let file = fs::metadata(shares[share].2.path().join(directory)).unwrap();
        let file = FileId { device: file.dev(), inode: file.ino(), stream: 0 };
        names.find(&Directory { root, fd: fd.as_fd() }, file, b"fILE7", Wait::Allowed).unwrap().0.map(Vec::from)
    };
    for (share, directory) in [(0, "a"), (0, "b"), (1, "a"), (1, "b")] {
        make(share, directory, NAMES);
    }
    for (share, directory) in [(0, "a"), (0, "b"), (1, "a"), (1, "b"), (0, "a")] {
        assert_eq!(find(share, directory).as_deref(), Some(&b"File7"[..]));
        assert!(budget.charged() > NAMES * 20 && budget.charged() <= 100_000, "{}", budget.charged());
    }
    assert_eq!((shares[0].1.directories(), shares[1].1.directories()), (1, 2), "the oldest index was dropped");
    // Queued changes of a directory that is not searched are charged to the budget, and discard its index if they
    // exceed it.
    make(1, "b", 3_000);
    find(0, "a");
    find(1, "a");
    assert!(budget.charged() <= 100_000, "{}", budget.charged());
    // A directory that would need more than half is read each time.
    let read = shares[1].1.reads();
    assert_eq!(find(1, "b").as_deref(), Some(&b"File7"[..]));
    assert_eq!(find(1, "b").as_deref(), Some(&b"File7"[..]));
    assert!(shares[1].1.reads() >= read + 2);
    drop(shares);
    assert_eq!(budget.charged(), 0);
}
