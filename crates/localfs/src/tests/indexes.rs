//! Names that differ in case only, whoever changes the directory.

use std::os::fd::AsFd;
use std::time::Duration;

use super::*;
use crate::names::Names;
use crate::root::{Root, Wait};

#[test]
fn what_others_change_is_seen() {
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
    // Another directory under an old name.
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
            fs::write(bed.root.join(format!("Entry {number}")), "").expect("a free name");
        }
    });
    assert!(bed.is_missing("none"));
    let read = bed.fs.0.names.reads();
    for number in 0..200 {
        assert!(bed.is_missing(&format!("none {number}")));
        assert_eq!(bed.found(&format!("entry {}", number * 77)).0, path(&format!("Entry {}", number * 77)));
        // Nor do changes of our own make it read again.
        let (_, made) = bed.create(&format!("New {number}"));
        assert_eq!(bed.found(&format!("NEW {number}")).2.id, made.id);
        let name = path(&format!("New {number}"));
        assert_eq!(block_on(bed.fs.unlink(&bed.who, &name, made.id, Kind::File)), Ok(()));
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
        // Each round queues two changes, which differ from each other and so are not taken for one.
        for number in 0..limit.min(40_000) {
            let name = bed.root.join(format!("Entry{}", number % 2));
            fs::write(&name, "").and_then(|()| fs::remove_file(&name)).expect("a free name");
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
fn change_times_tell_where_nothing_can_be_watched() {
    let temp = Temp::new();
    let root = Root::open(temp.path(), FOLLOW).unwrap();
    let names = Names::new(false, Clock::ticking(Duration::from_millis(20)));
    let directory = root.open_directory(&RelPath::root(), FOLLOW, Wait::Allowed).unwrap();
    let find =
        |name: &str, wait| names.find(&root, directory.as_fd(), root.id, name.as_bytes(), wait).map(|(found, _)| found);
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
    assert_eq!(find("LAST", Wait::Never), Ok(Some(Box::from(&b"Last"[..]))), "an old directory is not read again");
    assert_eq!(find("none", Wait::Never), Ok(None));
    assert_eq!(names.reads(), read);
}
