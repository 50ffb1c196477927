//! Tests of the table of watches.

use std::path::Path;

use super::*;
use crate::accounting::{self, Accounting, Charge, Resource};
use crate::name::CharacterMap;
use crate::name::glob::Globs;
use crate::vfs::Kind;
use crate::vfs::watch::{Listener, Noticed, Wanted};

const ALL: CompletionFilter = CompletionFilter(0xfff);
const FILE: FileId = FileId { device: 1, inode: 2, stream: 0 };

fn path(text: &str) -> RelPath {
    text.split('/')
        .filter(|part| !part.is_empty())
        .fold(RelPath::root(), |path, part| path.join(part.as_bytes()).expect("the tests name no forbidden component"))
}

fn terms(filter: CompletionFilter, tree: bool) -> Terms {
    terms_of(&Accounting::new(&accounting::Bounds::of_memory(1 << 30)), "ann", filter, tree)
}

fn terms_of(accounting: &Accounting, user: &str, filter: CompletionFilter, tree: bool) -> Terms {
    let charge = Charge::recorded(&accounting.absent_user("DOM", user), Resource::Watches, 1);
    Terms {
        filter,
        tree,
        space: 1000,
        file: FILE,
        veto: Globs::default(),
        characters: CharacterMap::default(),
        charge,
        access: None,
    }
}

struct Fixture(Watches);

impl Fixture {
    fn watch(&self, directory: &str, terms: Terms) -> Arc<Watch> {
        self.0.add(Path::new("/share"), &path(directory), terms)
    }

    fn happened(&self, action: FileAction, name: &str) {
        let path = absolute(Path::new("/share"), &path(name));
        self.0.happened(&[Happening { action, path: &path, stream: "" }], ALL);
    }
}

fn fixture() -> Fixture {
    Fixture(Watches::default())
}

fn text(event: &Event) -> String {
    let units: Vec<_> = event.name.chunks(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])).collect();
    format!("{} {}", event.action.0, String::from_utf16_lossy(&units))
}

/// Returns what a request gets at once: `+1 name`, or another result; nothing if it has to wait.
fn events_of(watch: &Watch) -> Vec<String> {
    match watch.ask(1000) {
        Ok(NotifyResult::Changes(events)) => events.iter().map(text).collect(),
        Ok(other) => vec![format!("{other:?}")],
        Err(wait) => {
            assert_eq!(watch.give_up(wait), None);
            Vec::new()
        }
    }
}

#[test]
fn which_watches_are_notified() {
    let fixture = fixture();
    let cases = [
        ("", false, &["1 top"][..]),
        ("", true, &["1 top", r"1 a\in", r"1 a\b\deep"]),
        ("a", false, &["1 in"]),
        ("a", true, &["1 in", r"1 b\deep"]),
        ("a/b", false, &["1 deep"]),
        ("b", true, &[]),
        ("a/b/deep", true, &[]),
    ];
    let watches: Vec<_> = cases.iter().map(|(at, tree, _)| fixture.watch(at, terms(ALL, *tree))).collect();
    for name in ["top", "a/in", "a/b/deep"] {
        fixture.happened(FileAction::ADDED, name);
    }
    for (watch, (at, tree, expected)) in watches.iter().zip(cases) {
        assert_eq!(events_of(watch), expected, "{at}, {tree}");
        assert!(events_of(watch).is_empty(), "{at} is notified twice");
    }
}

#[test]
fn a_share_in_the_directory_of_another() {
    let fixture = fixture();
    let outer = fixture.0.add(Path::new("/"), &RelPath::root(), terms(ALL, true));
    let same = fixture.0.add(Path::new("/share/"), &path("d"), terms(ALL, true));
    fixture.happened(FileAction::ADDED, "d/x");
    assert_eq!(events_of(&outer), [r"1 share\d\x"]);
    assert_eq!(events_of(&same), ["1 x"]);
}

#[test]
fn the_filter_decides() {
    let fixture = fixture();
    let names = fixture.watch("", terms(CompletionFilter::FILE_NAME, false));
    let sizes = fixture.watch("", terms(CompletionFilter::SIZE | CompletionFilter::EA, false));
    let nothing = fixture.watch("", terms(CompletionFilter::NONE, true));
    let path = absolute(Path::new("/share"), &path("x"));
    for (action, filter) in [
        (FileAction::ADDED, CompletionFilter::FILE_NAME),
        (FileAction::ADDED, CompletionFilter::DIR_NAME),
        (FileAction::MODIFIED, CompletionFilter::SIZE | CompletionFilter::LAST_WRITE),
    ] {
        fixture.0.happened(&[Happening { action, path: &path, stream: "" }], filter);
    }
    assert_eq!(events_of(&names), ["1 x"]);
    assert_eq!(events_of(&sizes), ["3 x"]);
    assert!(events_of(&nothing).is_empty());
}

#[test]
fn repeated_changes_are_reported_once() {
    let fixture = fixture();
    let watch = fixture.watch("", terms(ALL, false));
    for name in ["x", "x", "y", "x"] {
        fixture.happened(FileAction::MODIFIED, name);
    }
    assert_eq!(events_of(&watch), ["3 x", "3 y", "3 x"]);
}

#[test]
fn more_changes_than_fit_the_first_buffer() {
    let fixture = fixture();
    // An entry with a name of one character takes 16 bytes.
    for (space, expected) in [(16, &["1 x"][..]), (15, &["TooMuch"]), (0, &["TooMuch"])] {
        let watch = fixture.watch("", Terms { space, ..terms(ALL, false) });
        fixture.happened(FileAction::ADDED, "x");
        assert_eq!(events_of(&watch), expected, "{space}");
        assert!(events_of(&watch).is_empty(), "{space}");
    }
    let watch = fixture.watch("", terms(ALL, false));
    fixture.happened(FileAction::ADDED, "x");
    assert_eq!(watch.ask(15).ok(), Some(NotifyResult::TooMuch), "a smaller buffer than that of the first request");
    assert!(events_of(&watch).is_empty());
}

#[test]
fn queued_changes_are_charged_to_the_users_of_the_watches() {
    let watches = Watches::default();
    let accounting = Accounting::new(&accounting::Bounds::of_memory(1 << 30).with(Resource::Changes, 6 * 1024));
    let add = |user| watches.add(Path::new("/share"), &RelPath::root(), terms_of(&accounting, user, ALL, false));
    // An event takes 80 bytes, and is charged as one KiB. A single user may hold half of the total.
    let ann: Vec<_> = (0..4).map(|_| add("ann")).collect();
    let bob = add("bob");
    let path = absolute(Path::new("/share"), &path("x"));
    watches.happened(&[Happening { action: FileAction::ADDED, path: &path, stream: "" }], ALL);
    assert_eq!(accounting.held(Resource::Changes), 4 * 1024);
    assert_eq!(ann.iter().flat_map(|watch| events_of(watch)).collect::<Vec<_>>(), ["1 x", "1 x", "1 x", "TooMuch"]);
    assert_eq!(events_of(&bob), ["1 x"], "another user gets the same changes");
    assert_eq!(accounting.held(Resource::Changes), 0);
    watches.happened(&[Happening { action: FileAction::ADDED, path: &path, stream: "" }], ALL);
    drop((watches, ann, bob));
    assert_eq!((accounting.held(Resource::Changes), accounting.held(Resource::Watches)), (0, 0));
}

#[test]
fn requests_of_one_handle_are_answered_in_order() {
    let fixture = fixture();
    let watch = fixture.watch("", terms(ALL, false));
    let ask = || watch.ask(1000).expect_err("nothing has changed yet");
    let (mut first, given_up, dropped, mut last) = (ask(), ask(), ask(), ask());
    assert_eq!(watch.give_up(given_up), None);
    drop(dropped);
    fixture.happened(FileAction::ADDED, "x");
    assert_eq!(last.result.try_recv().ok(), None);
    fixture.happened(FileAction::ADDED, "y");
    for (wait, name) in [(&mut first, "1 x"), (&mut last, "1 y")] {
        let Ok(NotifyResult::Changes(events)) = wait.result.try_recv() else { panic!("{name} is reported") };
        assert_eq!(events.iter().map(text).collect::<Vec<_>>(), [name]);
    }
    assert!(events_of(&watch).is_empty());
}

#[test]
fn both_names_of_a_rename_are_reported_together() {
    let fixture = fixture();
    let watch = fixture.watch("", terms(ALL, true));
    let mut wait = watch.ask(1000).expect_err("nothing has changed yet");
    let paths = ["d/a", "d/b"].map(|name| absolute(Path::new("/share"), &path(name)));
    let actions = [FileAction::RENAMED_OLD_NAME, FileAction::RENAMED_NEW_NAME];
    let pair: Vec<_> =
        actions.iter().zip(&paths).map(|(&action, path)| Happening { action, path, stream: "" }).collect();
    fixture.0.happened(&pair, CompletionFilter::FILE_NAME);
    let Ok(NotifyResult::Changes(events)) = wait.result.try_recv() else { panic!("the rename is reported") };
    assert_eq!(events.iter().map(text).collect::<Vec<_>>(), [r"4 d\a", r"5 d\b"]);
}

#[test]
fn a_watch_moves_with_its_directory_and_ends_with_its_handle() {
    let fixture = fixture();
    let watches = ["a", "a/b", "ab"].map(|at| fixture.watch(at, terms(ALL, false)));
    let [from, to] = ["a", "c/d"].map(|name| absolute(Path::new("/share"), &path(name)));
    fixture.0.moved(&from, &to);
    for name in ["a/x", "c/d/x", "c/d/b/y", "ab/z"] {
        fixture.happened(FileAction::ADDED, name);
    }
    assert_eq!(watches.each_ref().map(|watch| events_of(watch)), [["1 x"], ["1 y"], ["1 z"]]);
    let mut wait = watches[0].ask(1000).expect_err("nothing has changed yet");
    // Its handle may not know of the rename yet.
    for (watch, at) in watches.iter().zip(["a", "c/d/b", "ab"]) {
        fixture.0.remove(Path::new("/share"), &path(at), watch);
        fixture.0.remove(Path::new("/share"), &path(at), watch);
    }
    assert!(wait.result.try_recv().is_err_and(|error| error == tokio::sync::oneshot::error::TryRecvError::Closed));
    assert!(fixture.0.is_idle() && fixture.0.directories.read().is_empty());
}

#[test]
fn a_directory_marked_for_deletion_reports_nothing_more() {
    let fixture = fixture();
    let watch = fixture.watch("d", terms(ALL, true));
    let mut wait = watch.ask(1000).expect_err("nothing has changed yet");
    let marked = absolute(Path::new("/share"), &path("d"));
    fixture.0.doom(&marked, FileId { inode: 3, ..FILE });
    assert!(wait.result.try_recv().is_err(), "another directory has the name");
    fixture.0.doom(&marked, FILE);
    assert_eq!(wait.result.try_recv(), Ok(NotifyResult::Doomed));
    fixture.happened(FileAction::REMOVED, "d/x");
    assert_eq!(events_of(&watch), ["Doomed"]);
}

#[test]
fn names_are_reported_as_clients_see_them() {
    let fixture = fixture();
    let watch = fixture.watch("", Terms { veto: Globs::parse("/*.tmp/", true), ..terms(ALL, true) });
    for name in ["a/b:c", "d.", "x.tmp", "y.tmp/z"] {
        fixture.happened(FileAction::ADDED, name);
    }
    assert_eq!(events_of(&watch), ["1 a\\b\u{f022}c", "1 d\u{f029}"]);
    let path = absolute(Path::new("/share"), &path("f"));
    fixture.0.happened(&[Happening { action: FileAction::ADDED_STREAM, path: &path, stream: ":s" }], ALL);
    assert_eq!(events_of(&watch), ["6 f:s"]);
}

/// Ten thousand watches elsewhere do not add to the cost of a change.
#[test]
fn a_change_does_not_examine_watches_of_other_directories() {
    use crate::files::tree::steps;
    let fixture = fixture();
    let watches: Vec<_> =
        (0..10_000).map(|number| fixture.watch(&format!("other/d{number}"), terms(ALL, true))).collect();
    let here = fixture.watch("a", terms(ALL, true));
    let ((), steps) = steps::of(|| fixture.happened(FileAction::ADDED, "a/b/c/d"));
    assert!(steps <= 4, "{steps}");
    let renamed = |from: &str, to: &str| [from, to].map(|name| absolute(Path::new("/share"), &path(name)));
    let [from, to] = renamed("a", "z");
    let ((), steps) = steps::of(|| fixture.0.moved(&from, &to));
    assert!(steps <= 12, "{steps}");
    fixture.happened(FileAction::ADDED, "z/e");
    assert_eq!(events_of(&here), [r"1 b\c\d", "1 e"]);
    let ((), steps) = steps::of(|| fixture.0.remove(Path::new("/share"), &path("other/d77"), &watches[77]));
    assert!(steps <= 12, "{steps}");
}

#[test]
fn changes_have_the_bits_of_the_specification() {
    let cases = [
        (Change::added(Kind::File), 0x001),
        (Change::removed(Kind::Directory), 0x002),
        (Change::replaced(), 0x1fc),
        (Change::resized(), 0x01c),
        (Change::stream_added(), 0x200),
        (Change::stream_removed(), 0x200),
        (Change::stream_modified(), 0xc00),
    ];
    for (change, bits) in cases {
        assert_eq!(change.filter(), CompletionFilter(bits), "{change:?}");
    }
}

#[test]
fn changes_by_local_programs_are_filtered() {
    let cases = [
        (CompletionFilter::FILE_NAME, &["1 f", "4 f", "5 g", "2 f"][..], (false, false)),
        (CompletionFilter::DIR_NAME, &["1 d"], (false, false)),
        (CompletionFilter::SIZE, &["3 f"], (true, false)),
        (CompletionFilter::LAST_WRITE, &["3 f"], (true, true)),
        (CompletionFilter::SECURITY, &["3 f"], (false, true)),
        (CompletionFilter::STREAM_NAME, &[], (false, false)),
    ];
    for (filter, expected, (content, attributes)) in cases {
        let fixture = fixture();
        let watch = fixture.watch("", Terms { veto: Globs::parse("/x/", true), ..terms(filter, true) });
        assert_eq!(watch.wanted(), Wanted { tree: true, content, attributes }, "{filter:?}");
        for (name, what) in [
            ("f", Noticed::Added(Kind::File)),
            ("x", Noticed::Added(Kind::File)),
            ("d", Noticed::Added(Kind::Directory)),
            ("f", Noticed::Renamed(Kind::File, path("g"))),
            ("f", Noticed::Removed(Kind::File)),
            ("f", Noticed::Content),
            ("f", Noticed::Attributes),
        ] {
            watch.noticed(&path(name), what);
        }
        assert_eq!(events_of(&watch), expected, "{filter:?}");
        watch.lost();
        assert_eq!(events_of(&watch), ["TooMuch"]);
        watch.gone();
        assert_eq!(events_of(&watch), ["Doomed"]);
    }
}

/// A watch that the file system also references ends nevertheless.
#[test]
fn a_closed_handle_ends_its_watch_in_the_file_system() {
    struct CountedCharge(Arc<AtomicUsize>);
    impl Drop for CountedCharge {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    for closed_before in [false, true] {
        let (fixture, dropped) = (fixture(), Arc::new(AtomicUsize::new(0)));
        let watch = fixture.watch("", terms(ALL, true));
        if closed_before {
            watch.close();
        }
        watch.hold(Box::new(CountedCharge(dropped.clone())));
        assert_eq!(dropped.load(Ordering::Relaxed), usize::from(closed_before));
        fixture.0.remove(Path::new("/share"), &RelPath::root(), &watch);
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn a_rename_from_or_to_a_vetoed_name() {
    use FileAction as A;
    let veto = |list| Terms { veto: Globs::parse(list, true), ..terms(ALL, true) };
    let rename = [A::RENAMED_OLD_NAME, A::RENAMED_NEW_NAME];
    for (list, from, to, expected) in [
        ("/secret*/", "a", "b", &["4 a", "5 b"][..]),
        ("/secret*/", "a", "secret", &["2 a"]),
        ("/secret*/", "secret", "a", &["1 a"]),
        ("/secret*/", "secret", "secret2", &[]),
        ("/d/", "d/a", "d/b", &[]),
    ] {
        let fixture = fixture();
        let (watch, everything) = (fixture.watch("", veto(list)), fixture.watch("", terms(ALL, true)));
        let paths = [from, to].map(|name| absolute(Path::new("/share"), &path(name)));
        let happening = |index: usize| Happening { action: rename[index], path: &paths[index], stream: "" };
        fixture.0.happened(&[happening(0), happening(1)], ALL);
        assert_eq!(events_of(&watch), expected, "{list} {from} {to}");
        assert_eq!(events_of(&everything).len(), 2);
        let local = fixture.watch("", veto(list));
        local.noticed(&path(from), Noticed::Renamed(Kind::File, path(to)));
        assert_eq!(events_of(&local), expected, "{list} {from} {to}, locally");
    }
}
