//! The work of the experiment in a directory, and with storage that returns wrong data.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Parser;

use super::*;
use crate::files::{Entry, Files};
use crate::method::{Method, Party};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    options: Options,
}

fn options(line: &str) -> Options {
    Line::try_parse_from(["smallfile"].into_iter().chain(line.split_whitespace())).unwrap().options
}

fn method() -> Method {
    let moment = Duration::from_millis(10);
    Method {
        rounds: 2,
        round: moment,
        warm_up: moment,
        rate: None,
        allow_errors: false,
        syscalls: false,
        quick: true,
        seed: 1,
    }
}

/// A change of the results of [`Local`].
#[derive(Clone, Copy, PartialEq, Debug)]
enum Lie {
    None,
    Size,
    Content,
    Short,
    Missing,
    Unknown,
}

/// A directory in which operations are counted, and results changed.
struct Lying {
    files: Local,
    lie: Lie,
    calls: Arc<Mutex<Vec<String>>>,
}

impl Lying {
    fn note(&mut self, call: &str, path: &str) {
        self.calls.lock().unwrap().push(format!("{call} {path}"));
    }
}

impl Files for Lying {
    const BLOCKS: bool = true;

    async fn create(&mut self, path: &str, content: &[u8]) -> Result<()> {
        self.note("create", path);
        self.files.create(path, content).await
    }

    async fn list(&mut self, path: &str, mut each: impl FnMut(&Entry<'_>) -> Result<()> + Send) -> Result<()> {
        self.note("list", path);
        let (lie, mut first) = (self.lie, true);
        let changed = |entry: &Entry<'_>| {
            let first = std::mem::take(&mut first) && !entry.is_directory;
            match lie {
                Lie::Missing if first => Ok(()),
                Lie::Unknown if first => each(&Entry { name: "other", ..*entry }),
                _ => each(entry),
            }
        };
        self.files.list(path, changed).await
    }

    async fn size(&mut self, path: &str) -> Result<u64> {
        self.note("size", path);
        let size = self.files.size(path).await?;
        Ok(size + u64::from(self.lie == Lie::Size))
    }

    async fn read(&mut self, path: &str, length: u32, mut take: impl FnMut(&[u8]) + Send) -> Result<()> {
        self.note("read", path);
        let lie = self.lie;
        let changed = |data: &[u8]| {
            let mut data = data.to_vec();
            data[0] ^= u8::from(lie == Lie::Content);
            data.truncate(data.len() - usize::from(lie == Lie::Short));
            take(&data);
        };
        self.files.read(path, length, changed).await
    }

    async fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        self.note("rename", from);
        self.files.rename(from, to).await
    }

    async fn delete(&mut self, path: &str) -> Result<()> {
        self.note("delete", path);
        self.files.delete(path).await
    }

    async fn make_directory(&mut self, path: &str) -> Result<()> {
        self.note("mkdir", path);
        self.files.make_directory(path).await
    }

    async fn remove_directory(&mut self, path: &str) -> Result<()> {
        self.note("rmdir", path);
        self.files.remove_directory(path).await
    }
}

/// Measures `line` in `place` with one worker that tells `lie`. Returns the cases, and the worker's calls.
async fn measured(place: &Path, line: &str, lie: Lie) -> Result<(Vec<Case>, Vec<String>)> {
    let bench = Bench::new(method(), Vec::new(), Vec::new());
    let plan = Plan::new(&bench.method, &options(line))?;
    let crew: Crew<Tree<Lying>> = Crew::default();
    let calls = Arc::new(Mutex::new(Vec::new()));
    let make = async || Ok(Tree::new(Lying { files: Local::open(place)?, lie, calls: calls.clone() }, &plan));
    crew.enlist_with(1, make).await?;
    let party = Party { name: "lying", target: None, processes: None, group: 0 };
    let cases = bench.cases_of(&cases(&plan), &[party], async |_, taken| turn(&crew, &plan, taken).await).await?;
    let calls = calls.lock().unwrap().clone();
    Ok((cases, calls))
}

#[tokio::test]
async fn a_turn_does_the_work_and_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let (cases, calls) = measured(place.path(), "--files 5 --size 4 --per-directory 2", Lie::None).await.unwrap();
    let shown: Vec<(&str, u64, u64)> = cases
        .iter()
        .map(|case| (case.name.as_str(), case.servers[0][1].operations, case.servers[0][1].bytes))
        .collect();
    let expected = [
        ("create", 5, 5 * 4096),
        ("list the tree", 5, 0),
        ("stat", 5, 0),
        ("read", 5, 5 * 4096),
        ("rename", 5, 0),
        ("delete", 5, 0),
        ("mkdir", 5, 0),
        ("rmdir", 5, 0),
    ];
    assert_eq!(shown, expected);
    assert!(cases.iter().all(|case| case.servers[0].len() == 2), "a round is missing");
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    for call in [
        "mkdir turn-1-0/dir-2",
        "create turn-1-0/dir-2/file-0000004.dat",
        "list turn-1-0",
        "read turn-1-0/dir-0/file-0000001.dat",
        "delete turn-1-0/dir-1/renamed-0000002.dat",
        "mkdir turn-1-0/empty-4",
        "rmdir turn-1-0",
    ] {
        assert_eq!(calls.iter().filter(|it| *it == call).count(), 1, "{call}: {calls:?}");
    }
}

#[tokio::test]
async fn only_measured_phases_and_those_that_they_need_are_performed() {
    let check = async |phases: &str, names: &[&str], expected: &[&str]| {
        let place = tempfile::tempdir().unwrap();
        let line = format!("--files 1 --size 1 --phases {phases}");
        let (cases, calls) = measured(place.path(), &line, Lie::None).await.unwrap();
        assert_eq!(cases.iter().map(|case| case.name.as_str()).collect::<Vec<_>>(), names, "{phases}");
        let warm_up = calls.iter().filter_map(|call| call.strip_suffix(".dat").or(call.strip_suffix("/empty-0")));
        let warm_up: Vec<&str> = warm_up.filter(|call| call.contains("turn-0-")).collect();
        assert_eq!(warm_up, expected, "{phases}");
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0, "{phases}");
    };
    let (create, rename) = ("create turn-0-0/dir-0/file-0000000", "rename turn-0-0/dir-0/file-0000000");
    let (delete, renamed) = ("delete turn-0-0/dir-0/file-0000000", "delete turn-0-0/dir-0/renamed-0000000");
    check("delete,create", &["create", "delete"], &[create, delete]).await;
    check("list", &["list the tree"], &[create, delete]).await;
    check("rename", &["rename"], &[create, rename, renamed]).await;
    check("rmdir", &["rmdir"], &["mkdir turn-0-0", "rmdir turn-0-0"]).await;
    assert!(Line::try_parse_from(["smallfile", "--phases", "make-tree"]).is_err(), "a phase that is never measured");
}

#[tokio::test]
async fn workers_can_be_replaced_between_phases() {
    let place = tempfile::tempdir().unwrap();
    let bench = Bench::new(Method { rounds: 1, ..method() }, Vec::new(), Vec::new());
    let plan = Plan::new(&bench.method, &options("--files 3 --size 1 --clients 2 --phases create,list")).unwrap();
    let crew: Crew<Tree<Local>> = Crew::default();
    let enlist =
        async || crew.enlist_with(plan.clients(), async || Ok(Tree::new(Local::open(place.path())?, &plan))).await;
    let moments = Mutex::new(Vec::new());
    let run = async |_, taken: &Turn<'_>| {
        enlist().await?;
        let beside = async |moment| {
            moments.lock().unwrap().push(moment);
            if moment == Moment::Before(Phase::List) {
                crew.dismiss();
                enlist().await?;
            }
            Ok(())
        };
        turn_with(&crew, &plan, taken, beside).await
    };
    let party = Party { name: "local", target: None, processes: None, group: 0 };
    let cases = bench.cases_of(&cases(&plan), &[party], run).await.unwrap();
    assert_eq!(cases.iter().map(|case| case.servers[0][0].operations).collect::<Vec<_>>(), [6, 6]);
    let turn = [Phase::Create, Phase::List].map(|phase| [Moment::Before(phase), Moment::After(phase)]).concat();
    assert_eq!(moments.into_inner().unwrap(), [&turn[..], &turn[..]].concat());
}

#[tokio::test]
async fn wrong_results_are_reported() {
    let check = async |lie: Lie, expected: &str| {
        let place = tempfile::tempdir().unwrap();
        let error = measured(place.path(), "--files 3 --size 4", lie).await.unwrap_err();
        let said = format!("{error:#}");
        assert!(said.contains(expected) && said.contains("lying"), "{lie:?}: {said}");
    };
    check(Lie::Size, "dir-0/file-0000000.dat has 4096 bytes, not 4097").await;
    check(Lie::Content, "wrong data was read: turn-0-0/dir-0/file-0000000.dat, 4096 bytes, wrong at Some(0)").await;
    check(Lie::Short, "file-0000000.dat, 4095 bytes").await;
    check(Lie::Missing, "the listing has 2 of 3 names").await;
    check(Lie::Unknown, "the listing has 'other', which does not exist").await;
}
