//! Resolution in a tree in memory that counts the calls for it.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use proptest::prelude::*;
use server::acl::model::posix_acl::{Entry, Tag};
use server::name::same;
use server::vfs::{FileId, Identity, SERVER, Time};

use super::*;
use crate::change_log::Coherence;
use crate::permissions::{EXECUTE, Permissions};

/// The version of a directory whose names are indexed.
const VERSION: u64 = 7;
const ROOT: u64 = 1;

#[derive(Clone, Debug)]
enum Body {
    Directory(BTreeMap<Vec<u8>, u64>),
    File,
    Link(Vec<u8>),
}

#[derive(Clone, Debug)]
struct Node {
    body: Body,
    mode: u32,
    uid: u32,
    gid: u32,
    acl: Option<PosixAcl>,
}

impl Node {
    fn new(body: Body) -> Node {
        Node { body, mode: 0o755, uid: 0, gid: 0, acl: None }
    }

    fn is_searched_by(&self, who: &Identity) -> bool {
        Permissions::new(Kind::Directory, self.mode, (self.uid, self.gid), self.acl.as_ref()).permit(who, EXECUTE)
    }
}

/// The number of calls of each kind.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Calls {
    child: usize,
    similar: usize,
    stat: usize,
    acl: usize,
    target: usize,
}

impl Calls {
    const NONE: Calls = Calls { child: 0, similar: 0, stat: 0, acl: 0, target: 0 };
}

#[derive(Default)]
struct State {
    nodes: BTreeMap<u64, Node>,
    /// The directories whose names are indexed.
    indexed: BTreeSet<u64>,
    last: u64,
    calls: Calls,
}

/// A tree with the number of each file as its handle.
#[derive(Default)]
struct Tree(Mutex<State>);

fn id(number: u64) -> FileId {
    FileId { device: 1, inode: number, stream: 0 }
}

impl State {
    fn names(&self, directory: u64) -> Result<&BTreeMap<Vec<u8>, u64>> {
        match &self.nodes.get(&directory).ok_or(Errno::STALE)?.body {
            Body::Directory(names) => Ok(names),
            Body::File | Body::Link(_) => Err(Errno::NOTDIR),
        }
    }

    fn report(&self, number: u64) -> Result<Stat> {
        let node = self.nodes.get(&number).ok_or(Errno::STALE)?;
        let kind = match node.body {
            Body::Directory(_) => Kind::Directory,
            Body::File => Kind::File,
            Body::Link(_) => Kind::Symlink,
        };
        let time = Time { secs: 0, nanos: 0 };
        Ok(Stat {
            id: id(number),
            kind,
            size: 0,
            allocated: 0,
            links: 1,
            mode: node.mode,
            uid: node.uid,
            gid: node.gid,
            accessed: time,
            modified: time,
            changed: time,
            born: None,
            compressed: false,
            is_mounted: false,
            special: None,
        })
    }
}

impl Storage for Tree {
    type Handle = u64;

    fn child(&self, _: &Op, directory: &Directory<u64>, name: &[u8]) -> Result<(Arc<u64>, Stat)> {
        let mut state = self.0.lock();
        state.calls.child += 1;
        if name.len() > 255 {
            return Err(Errno::NAMETOOLONG);
        }
        assert!(!matches!(name, b"" | b"." | b"..") && !name.contains(&b'/'), "{name:?} is not a name");
        let number = *state.names(*directory.handle)?.get(name).ok_or(Errno::NOENT)?;
        Ok((Arc::new(number), state.report(number)?))
    }

    fn similar(&self, directory: &Directory<u64>, name: &[u8]) -> Result<(Option<Name>, Option<u64>)> {
        let mut state = self.0.lock();
        state.calls.similar += 1;
        let found = state.names(*directory.handle)?.keys().find(|stored| same(stored, name)).map(|it| (**it).into());
        state.indexed.insert(*directory.handle);
        Ok((found, Some(VERSION)))
    }

    fn known(&self, directory: &Directory<u64>, name: &[u8]) -> Option<(bool, Option<u64>)> {
        let state = self.0.lock();
        let names = state.indexed.contains(&directory.handle).then(|| state.names(*directory.handle).ok()).flatten()?;
        Some((names.keys().any(|stored| same(stored, name)), Some(VERSION)))
    }

    fn stat(&self, handle: &u64) -> Result<Stat> {
        let mut state = self.0.lock();
        state.calls.stat += 1;
        state.report(*handle)
    }

    fn access_acl(&self, handle: &u64) -> Result<Option<PosixAcl>> {
        let mut state = self.0.lock();
        state.calls.acl += 1;
        Ok(state.nodes.get(handle).ok_or(Errno::STALE)?.acl.clone())
    }

    fn target(&self, link: &u64) -> Result<Vec<u8>> {
        let mut state = self.0.lock();
        state.calls.target += 1;
        match &state.nodes.get(link).ok_or(Errno::STALE)?.body {
            Body::Link(target) => Ok(target.clone()),
            Body::File | Body::Directory(_) => Err(Errno::INVAL),
        }
    }
}

fn path(text: impl AsRef<[u8]>) -> RelPath {
    let mut path = RelPath::root();
    assert!(text.as_ref().split(|&byte| byte == b'/').filter(|name| !name.is_empty()).all(|name| path.push(name)));
    path
}

fn user(uid: u32, gid: u32) -> Op {
    Op::from(Identity { uid, gid, groups: Box::default() })
}

fn options(case: Case, links: SymlinkPolicy) -> LookupOptions {
    LookupOptions { case, ..LookupOptions::exact(links) }
}

/// A tree, its cache, and its root.
struct Fixture {
    tree: Tree,
    cache: DirectoryCache<u64>,
    root: Directory<u64>,
    prefix: RelPath,
    who: Op,
}

/// What a path leads to, for comparison.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Seen {
    /// The path and the location of a file.
    File(String, String),
    /// The same of a directory.
    Directory(String, String),
    /// The same of a link.
    Link(String, String),
    /// The path of a missing name.
    Missing(String),
    NoParent,
    Failed(Errno),
}

impl Fixture {
    fn new() -> Fixture {
        let tree = Tree::default();
        tree.0.lock().nodes.insert(ROOT, Node::new(Body::Directory(BTreeMap::new())));
        tree.0.lock().last = ROOT;
        let root = Directory { handle: Arc::new(ROOT), id: id(ROOT) };
        let prefix = path("volume/share");
        Fixture { tree, cache: DirectoryCache::new(Coherence::Own), root, prefix, who: user(1000, 1000) }
    }

    /// Adds directories (names with a slash at their end), links (`name -> target`) and files.
    fn with<'a>(self, entries: impl IntoIterator<Item = &'a str>) -> Fixture {
        for entry in entries {
            match entry.split_once(" -> ") {
                Some((name, target)) => self.add(name, Body::Link(target.into())),
                None if entry.ends_with('/') => self.add(entry, Body::Directory(BTreeMap::new())),
                None => self.add(entry, Body::File),
            };
        }
        self
    }

    fn add(&self, at: impl AsRef<[u8]>, body: Body) -> u64 {
        let (at, mut state) = (path(at), self.tree.0.lock());
        state.last += 1;
        let number = state.last;
        let parent = Self::number(&state, &at.parent().expect("not the root"));
        let names = state.nodes.get_mut(&parent).map(|node| &mut node.body);
        let Some(Body::Directory(names)) = names else { panic!("{at} is not in a directory") };
        names.insert(at.name().expect("not the root").to_vec(), number);
        state.nodes.insert(number, Node::new(body));
        number
    }

    /// Returns the number of a file at a path without links.
    fn number(state: &State, at: &RelPath) -> u64 {
        at.components().fold(ROOT, |directory, name| state.names(directory).expect("a directory")[name])
    }

    /// Changes a file without a report to the cache.
    fn change(&self, at: &str, change: impl FnOnce(&mut Node)) {
        let mut state = self.tree.0.lock();
        let number = Self::number(&state, &path(at));
        change(state.nodes.get_mut(&number).expect("it exists"));
    }

    /// Removes a file, and a directory with all in it, without a report to the cache.
    fn remove(&self, at: &str) {
        let mut state = self.tree.0.lock();
        let at = path(at);
        let number = Self::number(&state, &at);
        let parent = Self::number(&state, &at.parent().expect("not the root"));
        if let Some(Body::Directory(names)) = state.nodes.get_mut(&parent).map(|node| &mut node.body) {
            names.remove(at.name().expect("not the root"));
        }
        state.nodes.remove(&number);
    }

    fn walk(&self) -> Walk<'_, Tree> {
        Walk { storage: &self.tree, cache: &self.cache, root: &self.root, prefix: &self.prefix }
    }

    fn resolve(&self, op: &Op, text: impl AsRef<[u8]>, options: LookupOptions) -> Result<Reached<u64>> {
        self.walk().resolve(op, &path(text), options)
    }

    fn seen_as(&self, op: &Op, text: impl AsRef<[u8]>, options: LookupOptions) -> Seen {
        match self.resolve(op, text, options) {
            Ok(Reached::Found(found)) => {
                let state = self.tree.0.lock();
                assert_eq!(*found.handle, Self::number(&state, &found.location), "it is at its location");
                let above = found.location.parent().map(|parent| Self::number(&state, &parent));
                assert_eq!(found.parent.map(|parent| *parent.handle), above, "it is in its parent");
                let (path, location) = (found.path.to_string(), found.location.to_string());
                match found.stat.kind {
                    Kind::Directory => Seen::Directory(path, location),
                    Kind::Symlink => Seen::Link(path, location),
                    Kind::File | Kind::Special => Seen::File(path, location),
                }
            }
            Ok(Reached::Missing { path, .. }) => Seen::Missing(path.to_string()),
            Ok(Reached::NoParent) => Seen::NoParent,
            Err(error) => Seen::Failed(error),
        }
    }

    /// Resolves a path whatever its case, and follows links.
    fn seen(&self, text: impl AsRef<[u8]>) -> Seen {
        self.seen_as(&self.who, text, options(Case::Insensitive, SymlinkPolicy::BENEATH))
    }

    /// Returns the calls of `work`.
    fn calls(&self, work: impl FnOnce()) -> Calls {
        self.tree.0.lock().calls = Calls::NONE;
        work();
        self.tree.0.lock().calls
    }
}

fn file(path: &str, location: &str) -> Seen {
    Seen::File(path.to_owned(), location.to_owned())
}

fn directory(path: &str, location: &str) -> Seen {
    Seen::Directory(path.to_owned(), location.to_owned())
}

/// A link that is returned itself.
fn link(path: &str) -> Seen {
    Seen::Link(path.to_owned(), path.to_owned())
}

fn missing(path: &str) -> Seen {
    Seen::Missing(path.to_owned())
}

#[test]
fn the_exact_name_is_found_first() {
    let tree = Fixture::new().with(["Dir/", "Dir/file", "Dir/Sub/", "Dir/Sub/x"]);
    assert_eq!(tree.seen(""), directory("", ""));
    assert_eq!(tree.seen("dIR/FILE"), file("Dir/file", "Dir/file"));
    assert_eq!(tree.seen("dir/sub/X"), file("Dir/Sub/x", "Dir/Sub/x"));
    tree.add("Dir/FILE", Body::File);
    assert_eq!(tree.seen("dir/FILE"), file("Dir/FILE", "Dir/FILE"));
    assert_eq!(tree.seen("dir/file"), file("Dir/file", "Dir/file"));
    let exact = options(Case::Sensitive, SymlinkPolicy::BENEATH);
    for (text, expected) in [
        ("Dir/file", file("Dir/file", "Dir/file")),
        ("Dir/File", missing("Dir/File")),
        ("dir/file", Seen::NoParent),
        ("dir", missing("dir")),
    ] {
        assert_eq!(tree.seen_as(&tree.who, text, exact), expected, "{text}");
    }
}

#[test]
fn a_missing_name_differs_from_a_missing_directory() {
    let tree = Fixture::new().with(["Dir/", "Dir/file"]);
    for (text, expected) in [
        ("dir/New", missing("Dir/New")),
        ("New", missing("New")),
        ("none/new", Seen::NoParent),
        ("dir/none/new", Seen::NoParent),
        ("dir/file/new", Seen::NoParent),
        ("dir/file/none/new", Seen::NoParent),
    ] {
        assert_eq!(tree.seen(text), expected, "{text}");
    }
    let found = tree.resolve(&tree.who, "DIR/new", options(Case::Insensitive, SymlinkPolicy::NONE));
    let Ok(Reached::Missing { directory, version, .. }) = found else { panic!("{found:?}") };
    assert_eq!((*directory.handle, version), (2, Some(VERSION)));
}

#[test]
fn names_are_bytes_of_any_length_that_linux_has() {
    let tree = Fixture::new();
    let (odd, long, longer) = (&b"\xff\xfeX"[..], vec![b'x'; 255], vec![b'x'; 256]);
    tree.add(odd, Body::Directory(BTreeMap::new()));
    tree.add([odd, b"/", &long].concat(), Body::File);
    let found = tree.resolve(&tree.who, [odd, b"/", &long].concat(), LookupOptions::exact(SymlinkPolicy::NONE));
    let Ok(Reached::Found(found)) = found else { panic!("{found:?}") };
    assert_eq!((found.path.as_bytes(), found.location.name()), (&*[odd, b"/", &long].concat(), Some(&*long)));
    // No path has a longer name, but the target of a link may.
    for (name, target) in [("last", longer.clone()), ("middle", [&longer, &b"/x"[..]].concat())] {
        tree.add(name, Body::Link(target));
        assert_eq!(tree.seen(name), link(name));
        assert_eq!(tree.seen(format!("{name}/x")), Seen::Failed(Errno::LOOP));
    }
    let parent = Directory { handle: Arc::new(2), id: id(2) };
    for case in [Case::Sensitive, Case::Insensitive] {
        let entry = |name: &[u8]| {
            let found = tree.walk().entry(&tree.who, &parent, name, case).expect("the user may search it");
            found.map(|(name, _, _)| name)
        };
        assert_eq!(entry(&long), Some(Name::from(&*long)));
        assert_eq!(entry(&longer), None);
    }
    assert_eq!(tree.walk().exact(&tree.who, &parent, &long).map(|(handle, _)| *handle), Ok(3));
    assert_eq!(tree.walk().exact(&tree.who, &parent, b"none").err(), Some(Errno::NOENT));
}

#[test]
fn cached_directories_cost_no_call() {
    let tree = Fixture::new().with(["a/", "a/b/", "a/b/c/", "a/b/c/file", "link -> a/b"]);
    let look = |text: &'static str, expected: Seen| tree.calls(|| assert_eq!(tree.seen(text), expected));
    let once = Calls { child: 1, ..Calls::NONE };
    // Every directory on the way is looked up once, and the ACL of each is read once.
    assert_eq!(look("a/b/c/file", file("a/b/c/file", "a/b/c/file")), Calls { child: 4, stat: 1, acl: 4, ..once });
    assert_eq!(look("a/b/c/file", file("a/b/c/file", "a/b/c/file")), once);
    // The last directory is looked up for its attributes.
    assert_eq!(look("a/b/c", directory("a/b/c", "a/b/c")), once);
    // The link, and the file.
    assert_eq!(look("link/c/file", file("link/c/file", "a/b/c/file")), Calls { child: 2, target: 1, ..Calls::NONE });
    let known = tree.calls(|| {
        for (text, number) in [("", ROOT), ("a", 2), ("a/b/c", 4)] {
            let found = tree.walk().directory(&tree.who, &path(text), SymlinkPolicy::NONE);
            assert_eq!(found.map(|found| *found.handle), Ok(number), "{text}");
        }
    });
    assert_eq!(known, Calls::NONE);
    let linked = tree.calls(|| {
        let found = tree.walk().directory(&tree.who, &path("link/c"), SymlinkPolicy::BENEATH);
        assert_eq!(found.map(|found| *found.handle), Ok(4));
    });
    assert_eq!(linked, Calls { child: 1, target: 1, ..Calls::NONE });
}

#[test]
fn a_missing_name_costs_no_call_if_the_names_are_indexed() {
    let tree = Fixture::new().with(["dir/", "dir/File"]);
    let look = |text: &'static str, expected: Seen| tree.calls(|| assert_eq!(tree.seen(text), expected));
    let cold = look("dir/none", missing("dir/none"));
    assert_eq!(cold, Calls { child: 2, similar: 1, stat: 1, acl: 2, ..Calls::NONE });
    assert_eq!(look("dir/none", missing("dir/none")), Calls::NONE);
    assert_eq!(look("dir/FILE", file("dir/File", "dir/File")), Calls { child: 2, similar: 1, ..Calls::NONE });
    // An index has nothing to say about the names of another directory, nor about exact names.
    let exact = options(Case::Sensitive, SymlinkPolicy::NONE);
    let calls = tree.calls(|| assert_eq!(tree.seen_as(&tree.who, "dir/none", exact), missing("dir/none")));
    assert_eq!(calls, Calls { child: 1, ..Calls::NONE });
}

#[test]
fn every_user_needs_the_right_to_search_every_directory() {
    let (owner, group, named, other) = (user(10, 1), user(11, 20), user(12, 1), user(13, 1));
    let supplementary = Op::from(Identity { uid: 14, gid: 1, groups: [20].into() });
    let entry = |tag, permissions| Entry { tag, permissions };
    let named_list = [PosixAcl::of_mode(0).entries(), &[entry(Tag::User(12), 1), entry(Tag::Mask, 7)]].concat();
    type Protect = Box<dyn Fn(&mut Node)>;
    let cases: [(&str, Protect, &[&Op]); 4] = [
        ("owner", Box::new(|node| (node.mode, node.uid) = (0o700, 10)), &[&owner]),
        ("group", Box::new(|node| (node.mode, node.uid, node.gid) = (0o710, 99, 20)), &[&group, &supplementary]),
        ("mode", Box::new(|node| (node.mode, node.uid, node.gid) = (0o701, 10, 20)), &[&owner, &named, &other]),
        (
            "ACL",
            Box::new(move |node| (node.mode, node.acl) = (0o070, Some(PosixAcl::new(named_list.clone())))),
            &[&named],
        ),
    ];
    let everybody = [&owner, &group, &named, &other, &supplementary];
    for (what, protect, permitted) in &cases {
        let tree = Fixture::new().with(["top/", "top/closed/", "top/closed/dir/", "top/closed/dir/file", "to -> top"]);
        tree.change("top/closed", protect);
        // The order in which users come does not matter: each is checked whether the directories are cached or not.
        for who in everybody.into_iter().chain(everybody.into_iter().rev()).chain([&*SERVER, &user(0, 0)]) {
            let may = who.uid == 0 || permitted.contains(&who);
            let exact = options(Case::Insensitive, SymlinkPolicy::BENEATH);
            let see = |text: &str| tree.seen_as(who, text, exact);
            assert_eq!(see("top/closed"), directory("top/closed", "top/closed"), "{what} {who:?}");
            for (text, expected) in [
                ("top/closed/dir", directory("top/closed/dir", "top/closed/dir")),
                ("top/closed/dir/file", file("top/closed/dir/file", "top/closed/dir/file")),
                ("to/closed/dir/file", file("to/closed/dir/file", "top/closed/dir/file")),
                ("top/closed/none", missing("top/closed/none")),
                ("top/closed/none/x", Seen::NoParent),
            ] {
                let expected = if may { expected } else { Seen::Failed(Errno::ACCES) };
                assert_eq!(see(text), expected, "{what} {who:?}");
            }
            let walk = tree.walk();
            let found = walk.directory(who, &path("top/closed/dir"), SymlinkPolicy::NONE);
            assert_eq!(found.err(), (!may).then_some(Errno::ACCES), "{what} {who:?}");
            let closed = walk.directory(who, &path("top/closed"), SymlinkPolicy::NONE).expect("it is found");
            let entry = walk.entry(who, &closed, b"DIR", Case::Insensitive);
            assert_eq!(entry.map(|entry| entry.is_some()), Ok(may), "{what} {who:?}");
            assert_eq!(walk.exact(who, &closed, b"dir").err(), (!may).then_some(Errno::ACCES), "{what} {who:?}");
        }
    }
}

#[test]
fn a_changed_protection_applies_when_it_is_reported() {
    let tree = Fixture::new().with(["dir/", "dir/file"]);
    assert_eq!(tree.seen("dir/file"), file("dir/file", "dir/file"));
    tree.change("dir", |node| node.mode = 0o700);
    tree.cache.forget_protection(id(2));
    assert_eq!(tree.seen("dir/file"), Seen::Failed(Errno::ACCES));
    tree.change("dir", |node| node.uid = tree.who.uid);
    tree.cache.forget_protection(id(2));
    assert_eq!(tree.seen("dir/file"), file("dir/file", "dir/file"));
}

#[test]
fn names_are_removed_by_users_who_may_change_the_directory() {
    let tree = Fixture::new().with(["dir/"]);
    let dir = tree.walk().directory(&SERVER, &path("dir"), SymlinkPolicy::NONE).expect("it exists");
    let may = |who: &Op, mode, owner| {
        tree.change("dir", |node| node.mode = mode);
        tree.cache.forget_protection(dir.id);
        tree.walk().may_remove(who, &dir, owner)
    };
    assert_eq!([0o755, 0o777, 0o1777].map(|mode| may(&tree.who, mode, 5)), [Ok(false), Ok(true), Ok(false)]);
    assert_eq!(may(&tree.who, 0o1777, tree.who.uid), Ok(true));
    assert_eq!(may(&SERVER, 0o1755, 5), Ok(true));
}

#[test]
fn links_are_followed_below_the_root() {
    let tree = Fixture::new().with([
        "dir/",
        "dir/sub/",
        "dir/sub/file",
        "dir/sub/up -> ../../dir/sub/file",
        "dir/sub/parent -> ..",
        "relative -> dir/sub",
        "absolute -> /volume/share/dir/sub",
        "twice -> absolute/up",
        "dots -> ./dir/.//sub/../sub/./file",
        "slash -> dir/",
        "root -> .",
        "top -> /volume/share",
        "spelled -> //volume/./share//dir",
    ]);
    for (text, expected) in [
        ("relative/file", file("relative/file", "dir/sub/file")),
        ("RELATIVE/FILE", file("relative/file", "dir/sub/file")),
        ("relative", directory("relative", "dir/sub")),
        ("absolute/up", file("absolute/up", "dir/sub/file")),
        ("twice", file("twice", "dir/sub/file")),
        ("dots", file("dots", "dir/sub/file")),
        ("slash", directory("slash", "dir")),
        ("slash/sub", directory("slash/sub", "dir/sub")),
        ("root", directory("root", "")),
        ("root/top/relative/file", file("root/top/relative/file", "dir/sub/file")),
        ("top", directory("top", "")),
        ("spelled/sub", directory("spelled/sub", "dir/sub")),
        ("relative/parent", directory("relative/parent", "dir")),
        ("relative/parent/sub/up", file("relative/parent/sub/up", "dir/sub/file")),
        ("relative/new", missing("relative/new")),
        ("root/new", missing("root/new")),
        ("relative/none/new", Seen::NoParent),
        ("relative/file/new", Seen::NoParent),
        ("twice/new", Seen::NoParent),
    ] {
        assert_eq!(tree.seen(text), expected, "{text}");
    }
    for (text, number) in [("relative", Ok(3)), ("twice", Err(Errno::NOTDIR)), ("root/dir/sub/parent", Ok(2))] {
        let found = tree.walk().directory(&tree.who, &path(text), SymlinkPolicy::BENEATH);
        assert_eq!(found.map(|found| *found.handle), number, "{text}");
    }
}

#[test]
fn the_policy_says_which_links_are_followed() {
    let tree = Fixture::new().with(["dir/", "dir/file", "dir/link -> file", "to -> dir", "none -> x"]);
    let beneath = SymlinkPolicy::BENEATH;
    for (policy, text, expected) in [
        (SymlinkPolicy::NONE, "dir/link", link("dir/link")),
        (SymlinkPolicy::NONE, "to", link("to")),
        (SymlinkPolicy::NONE, "to/file", Seen::Failed(Errno::LOOP)),
        (SymlinkPolicy::NONE.to_last(), "to/file", Seen::Failed(Errno::LOOP)),
        (beneath, "to/link", file("to/link", "dir/file")),
        (beneath.to_last(), "dir/link", link("dir/link")),
        (beneath.to_last(), "to", link("to")),
        (beneath.to_last(), "none", link("none")),
        (beneath.to_last(), "to/link", Seen::Link("to/link".to_owned(), "dir/link".to_owned())),
        (beneath.to_last(), "to/file", file("to/file", "dir/file")),
    ] {
        assert_eq!(tree.seen_as(&tree.who, text, options(Case::Insensitive, policy)), expected, "{text} {policy:?}");
    }
    let calls = tree.calls(|| drop(tree.seen_as(&tree.who, "to/file", LookupOptions::exact(SymlinkPolicy::NONE))));
    assert_eq!(calls.target, 0, "the target of a link that is not followed is not read");
    for (text, expected) in
        [("to", Errno::LOOP), ("dir/file", Errno::NOTDIR), ("x", Errno::NOENT), ("x/y", Errno::NOENT)]
    {
        let found = tree.walk().directory(&tree.who, &path(text), SymlinkPolicy::NONE);
        assert_eq!(found.err(), Some(expected), "{text}");
    }
}

#[test]
fn links_that_lead_nowhere_do_not_differ() {
    let tree = Fixture::new().with([
        "dir/",
        "dir/file",
        "closed/",
        "closed/file",
        "closed/dir/",
        "out -> ../etc",
        "dir/out -> ../../dir",
        "up -> ..",
        "host -> /etc",
        "beside -> /volume/share-beside/x",
        "above -> /volume",
        "back -> /volume/share/../share/dir",
        "dangling -> dir/none",
        "far -> dir/none/none",
        "case -> DIR/FILE",
        "file -> dir/file/x",
        "slashed -> dir/file/",
        "dotted -> dir/file/.",
        "circle -> circle",
        "ping -> pong",
        "pong -> ping",
        "forbidden -> closed/file",
        "hidden -> closed/none",
        "through -> closed/../dir",
        "inside -> closed/.",
    ]);
    tree.change("closed", |node| node.mode = 0o700);
    let names: Vec<_> = tree.tree.0.lock().names(ROOT).expect("the root").keys().cloned().collect();
    let names = names.iter().map(|name| String::from_utf8_lossy(name)).chain(["dir/out".into()]);
    let links: Vec<_> = names.filter(|name| !matches!(&**name, "dir" | "closed")).collect();
    assert_eq!(links.len(), 20);
    for name in &links {
        assert_eq!(tree.seen(&**name), link(name));
        assert_eq!(tree.seen(name.to_uppercase()), link(name));
        for below in ["file", "none", "none/none"] {
            assert_eq!(tree.seen(format!("{name}/{below}")), Seen::Failed(Errno::LOOP), "{name}");
        }
        let found = tree.walk().directory(&tree.who, &path(&**name), SymlinkPolicy::BENEATH);
        assert_eq!(found.err(), Some(Errno::LOOP), "{name}");
    }
    // Another user may search the directory.
    for (text, expected) in [
        ("forbidden", file("forbidden", "closed/file")),
        ("through/file", file("through/file", "dir/file")),
        ("inside/file", file("inside/file", "closed/file")),
        ("hidden", link("hidden")),
    ] {
        let links = options(Case::Insensitive, SymlinkPolicy::BENEATH);
        assert_eq!(tree.seen_as(&user(0, 0), text, links), expected, "{text}");
        assert_eq!(tree.seen(text.split('/').next().expect("a name")), link(text.split('/').next().expect("a name")));
    }
    // A directory that may not be searched is itself found by a link.
    let tree = tree.with(["closed link -> closed", "slash -> closed/"]);
    assert_eq!(tree.seen("closed link"), directory("closed link", "closed"));
    assert_eq!(tree.seen("slash"), directory("slash", "closed"));
    assert_eq!(tree.seen("closed link/file"), Seen::Failed(Errno::ACCES));
}

#[test]
fn forty_links_are_followed() {
    for (count, followed) in [(40, true), (41, false)] {
        let chain = Fixture::new().with(["dir/", "dir/file", "0 -> dir"]);
        for number in 1..count {
            chain.add(number.to_string(), Body::Link((number - 1).to_string().into()));
        }
        let last = (count - 1).to_string();
        let below = format!("{last}/file");
        let expected = if followed { directory(&last, "dir") } else { link(&last) };
        assert_eq!(chain.seen(&last), expected);
        let expected = if followed { file(&below, "dir/file") } else { Seen::Failed(Errno::LOOP) };
        assert_eq!(chain.seen(&below), expected);
        // Those of all components count together.
        let path = vec!["here"; count].join("/");
        let chain = Fixture::new().with(["here -> ."]);
        let expected = if followed { directory(&path, "") } else { Seen::Link(path.clone(), "here".to_owned()) };
        assert_eq!(chain.seen(&path), expected);
    }
}

#[test]
fn a_directory_that_was_removed_behind_the_cache_is_looked_up_again() {
    let fill = || {
        let tree = Fixture::new().with(["dir/", "dir/sub/", "dir/sub/file", "link -> dir/sub"]);
        assert_eq!(tree.seen("link/file"), file("link/file", "dir/sub/file"));
        tree.remove("dir/sub");
        tree.remove("dir");
        tree
    };
    let tree = fill();
    for (text, expected) in [
        ("dir/sub/file", Seen::NoParent),
        ("dir/sub", Seen::NoParent),
        ("dir", missing("dir")),
        ("link/file", Seen::Failed(Errno::LOOP)),
        ("link", link("link")),
    ] {
        assert_eq!(tree.seen(text), expected, "{text}");
    }
    let found = fill().walk().directory(&user(1, 1), &path("dir/sub/sub"), SymlinkPolicy::NONE);
    assert_eq!(found.err(), Some(Errno::NOENT));
    // Another directory has the name now.
    let tree = fill().with(["dir/", "dir/sub/", "dir/sub/file"]);
    assert_eq!(tree.seen("dir/sub/file"), file("dir/sub/file", "dir/sub/file"));
    let tree = fill().with(["dir/", "dir/sub/", "dir/sub/file"]);
    assert_eq!(tree.seen("link"), directory("link", "dir/sub"));
    // A root that was removed stays removed.
    tree.tree.0.lock().nodes.remove(&ROOT);
    assert_eq!((tree.seen(""), tree.seen("dir")), (Seen::NoParent, Seen::NoParent));
}

/// Resolves a path of the tree in a plain way: by the text of what is still to be resolved, without caches.
fn plain(state: &State, who: &Op, asked: &[&str], LookupOptions { case, links, .. }: LookupOptions) -> Seen {
    // The directories from the root down with their names, the path with names as stored, the number of links.
    let (mut at, mut shown, mut followed) = (vec![(ROOT, String::new())], Vec::new(), 0);
    let location = |at: &[(u64, String)], name: Option<&str>| {
        let names = at[1..].iter().map(|(_, name)| name.as_str()).chain(name);
        names.collect::<Vec<_>>().join("/")
    };
    for (index, asked_name) in asked.iter().enumerate() {
        let is_last = index + 1 == asked.len();
        let here = at.last().expect("the root").0;
        if !state.nodes[&here].is_searched_by(who) {
            return Seen::Failed(Errno::ACCES);
        }
        let names = state.names(here).expect("a directory");
        let stored = names.keys().find(|name| ***name == *asked_name.as_bytes());
        let similar = || names.keys().find(|name| case == Case::Insensitive && same(name, asked_name.as_bytes()));
        let stored = stored.or_else(similar);
        let Some(stored) = stored.map(|name| String::from_utf8_lossy(name).into_owned()) else {
            shown.push((*asked_name).to_owned());
            return if is_last { Seen::Missing(shown.join("/")) } else { Seen::NoParent };
        };
        shown.push(stored.clone());
        let path = shown.join("/");
        let number = names[stored.as_bytes()];
        match &state.nodes[&number].body {
            Body::File if is_last => return Seen::File(path, location(&at, Some(&stored))),
            Body::File => return Seen::NoParent,
            Body::Directory(_) => at.push((number, stored)),
            Body::Link(_) => {
                let itself = Seen::Link(path.clone(), location(&at, Some(&stored)));
                if is_last && (!links.follow || links.itself) {
                    return itself;
                }
                let nowhere = if is_last { itself } else { Seen::Failed(Errno::LOOP) };
                if !links.follow {
                    return nowhere;
                }
                match target(state, who, &mut at, &stored, &mut followed) {
                    None => return nowhere,
                    Some(None) => {}
                    Some(Some(name)) if is_last => return Seen::File(path, location(&at, Some(&name))),
                    Some(Some(_)) => return Seen::NoParent,
                }
            }
        }
    }
    Seen::Directory(shown.join("/"), location(&at, None))
}

/// Follows the name `name` in the directory at which `at` ends, by recursion. Returns the name of a file if it leads
/// there, and `None` if it leads nowhere.
fn target(
    state: &State,
    who: &Op,
    at: &mut Vec<(u64, String)>,
    name: &str,
    followed: &mut usize,
) -> Option<Option<String>> {
    let here = at.last()?.0;
    if !state.nodes[&here].is_searched_by(who) {
        return None;
    }
    let number = *state.names(here).ok()?.get(name.as_bytes())?;
    let text = match &state.nodes[&number].body {
        Body::File => return Some(Some(name.to_owned())),
        Body::Directory(_) => {
            at.push((number, name.to_owned()));
            return Some(None);
        }
        Body::Link(text) => String::from_utf8_lossy(text).into_owned(),
    };
    *followed += 1;
    if *followed > 40 {
        return None;
    }
    let text = if text.starts_with('/') {
        at.truncate(1);
        text.strip_prefix("/volume/share").filter(|rest| rest.is_empty() || rest.starts_with('/'))?
    } else {
        &text
    };
    let mut file = None;
    for part in text.split('/') {
        // What follows a file, be it nothing, needs a directory.
        if file.is_some() {
            return None;
        }
        let here = at.last()?.0;
        match part {
            "" => {}
            _ if !state.nodes[&here].is_searched_by(who) => return None,
            "." => {}
            ".." if at.len() == 1 => return None,
            ".." => drop(at.pop()),
            name => file = target(state, who, at, name, followed)?,
        }
    }
    Some(file)
}

/// An entry of a random tree: what it is, its name, in which of the directories, the target of a link, and the mode.
type Planned = (u8, String, usize, String, u32);

fn planned() -> impl Strategy<Value = Vec<Planned>> {
    let part =
        prop_oneof![6 => "[abA]", 1 => Just(".".to_owned()), 2 => Just("..".to_owned()), 1 => Just(String::new())];
    let parts = prop::collection::vec(part, 1..4).prop_map(|parts| parts.join("/"));
    let relative = parts.clone().prop_filter("a target is never empty", |text| !text.is_empty());
    let absolute = (prop_oneof![4 => Just("/volume/share"), 1 => Just("/volume/shared")], parts);
    let absolute = absolute.prop_map(|(top, text)| format!("{top}/{text}"));
    let mode = prop_oneof![3 => Just(0o755_u32), 1 => Just(0o700), 1 => Just(0o077)];
    prop::collection::vec((0..7_u8, "[abcA]", any::<usize>(), prop_oneof![3 => relative, 1 => absolute], mode), 1..24)
}

fn random(plan: &[Planned]) -> Fixture {
    let tree = Fixture::new();
    let mut directories = vec![String::new()];
    for (kind, name, place, target, mode) in plan {
        let at = format!("{}/{name}", directories[place % directories.len()]);
        let parent = path(&at).parent().expect("not the root");
        let is_free = {
            let state = tree.tree.0.lock();
            !state.names(Fixture::number(&state, &parent)).expect("a directory").contains_key(name.as_bytes())
        };
        if !is_free {
            continue;
        }
        match kind {
            0..3 => {
                tree.add(&at, Body::Directory(BTreeMap::new()));
                tree.change(&at, |node| (node.mode, node.uid) = (*mode, 1000));
                directories.push(at);
            }
            3..6 => drop(tree.add(&at, Body::Link(target.clone().into()))),
            _ => drop(tree.add(&at, Body::File)),
        }
    }
    tree
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_path_leads_where_a_plain_resolution_leads(
        plan in planned(),
        paths in prop::collection::vec((prop::collection::vec("[abcA]", 0..5), 0..4_u8, any::<bool>()), 1..30),
    ) {
        let tree = random(&plan);
        let users = [tree.who.clone(), user(1, 1)];
        for (names, policy, first) in &paths {
            let links = match policy {
                0 => SymlinkPolicy::NONE,
                1 => SymlinkPolicy::BENEATH.to_last(),
                _ => SymlinkPolicy::BENEATH,
            };
            let who = &users[usize::from(*first)];
            let asked: Vec<&str> = names.iter().map(String::as_str).collect();
            let asked_for = options(Case::Insensitive, links);
            let expected = plain(&tree.tree.0.lock(), who, &asked, asked_for);
            prop_assert_eq!(tree.seen_as(who, asked.join("/"), asked_for), expected, "{:?} {:?}", asked, links);
            // An exact path to a directory leads to the same one.
            let links = SymlinkPolicy { itself: false, ..links };
            let found = tree.walk().directory(who, &path(asked.join("/")), links);
            let expected = plain(&tree.tree.0.lock(), who, &asked, LookupOptions::exact(links));
            match expected {
                Seen::Directory(_, location) => {
                    let number = Fixture::number(&tree.tree.0.lock(), &path(location));
                    prop_assert_eq!(found.map(|found| *found.handle), Ok(number));
                }
                _ => prop_assert!(found.is_err()),
            }
        }
    }
}
