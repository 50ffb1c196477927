//! The program measures a directory of this machine, alone and in turns with a server.

mod served;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use client::Credentials;
use served::serve;

/// A size at which a run takes a moment.
const SMALLFILE: [&str; 11] =
    ["smallfile", "--quick", "--rounds", "1", "--clients", "2", "--files", "7", "--per-directory", "3", "--size=4"];
const LARGEFILE: [&str; 10] =
    ["largefile", "--quick", "--rounds", "1", "--seconds", "0.05", "--clients", "2", "--size", "2"];

fn bench() -> Command {
    Command::new(env!("CARGO_BIN_EXE_frevo-bench"))
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn count(path: &Path) -> usize {
    std::fs::read_dir(path).expect("a directory").count()
}

#[test]
fn a_directory_is_measured_in_turns_with_a_server() {
    let served = serve();
    let Credentials::Password { user, password, .. } = &served.options.credentials else { panic!("no password") };
    let target = format!("smb://{user}@127.0.0.1:{}/share", served.port);
    for experiment in [&SMALLFILE[..], &LARGEFILE[..]] {
        let place = tempfile::tempdir().expect("a temporary directory");
        let json = place.path().join("run.json");
        let measured = place.path().join("measured");
        std::fs::create_dir(&measured).expect("a directory");
        let output = bench()
            .args(experiment)
            .args(["--target", &target, "--directory", &format!("local={}", measured.display()), "--json"])
            .arg(&json)
            .env("FREVO_BENCH_PASSWORD", password)
            .output()
            .expect("it runs");
        assert!(output.status.success(), "{}", said(&output));
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(shown.contains("better"), "a table has no column of ratios: {shown}");
        assert!(shown.contains("local is the directory") && shown.contains("not cleared"), "{shown}");
        let run: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).expect("results")).expect("JSON");
        assert_eq!(run["servers"][1]["name"], "local");
        assert_eq!(run["servers"][1]["target"], measured.to_str().expect("UTF-8"));
        for case in run["experiments"][0]["cases"].as_array().expect("cases") {
            let [server, directory] = [0, 1].map(|party| &case["servers"][party][0]);
            assert!(server["operations"].as_u64() > Some(0) && directory["operations"].as_u64() > Some(0), "{case}");
            assert!(directory["cost"].is_null(), "the resource use of an unknown process: {case}");
            if experiment == SMALLFILE {
                assert_eq!(server["operations"], directory["operations"], "{case}");
                assert_eq!(server["bytes"], directory["bytes"], "{case}");
            }
        }
        assert_eq!(count(&measured), 0, "files are left");
    }
}

#[test]
fn directories_are_measured_without_a_server() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let path = place.path().display();
    for experiment in [&SMALLFILE[..], &LARGEFILE[..]] {
        let both = [format!("--directory=one={path}"), format!("--directory=two={path}")];
        let output = bench().args(experiment).args(both).output().expect("it runs");
        assert!(output.status.success(), "{}", said(&output));
        assert!(String::from_utf8_lossy(&output.stdout).contains("better"), "a table has no column of ratios");
        assert_eq!(count(place.path()), 0, "files are left");
    }
}

#[test]
fn an_unusable_directory_is_reported() {
    let check = |status: i32, arguments: &[&str], expected: &str| {
        let output = bench().args(arguments).output().expect("it runs");
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(expected), "{arguments:?}: {}", said(&output));
    };
    check(1, &["smallfile", "--directory", "/nonexistent"], "/nonexistent is not a directory of this machine");
    check(1, &["smallfile", "--directory", "/dev/null"], "/dev/null is not a directory of this machine");
    // Not even root can create a directory there.
    check(1, &["largefile", "--directory", "/proc"], "cannot create a directory in /proc: ");
    check(1, &["smallfile", "--directory=/tmp", "--directory=/var"], "two servers or directories are called");
    check(1, &["smallfile", "--directory=/tmp", "--share-path=/tmp"], "add --target");
    check(1, &["smallfile"], "add --target");
    check(2, &["list", "--directory=/tmp"], "--directory");
    check(
        2,
        &["smallfile", "--phases=paint"],
        "possible values: create, list, stat, read, rename, delete, mkdir, rmdir",
    );
}

#[test]
fn an_interrupted_run_removes_its_files() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let mut run = bench()
        .args(["smallfile", "--files", "1000000", "--size", "1", "--directory"])
        .arg(place.path())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let end = Instant::now() + Duration::from_secs(60);
    // A directory of the check before the run is empty, and may be gone by now.
    let filled = |path| std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
    let deep = || std::fs::read_dir(place.path()).expect("a directory").flatten().any(|it| filled(it.path()));
    while !deep() {
        assert!(Instant::now() < end, "the run does not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    let pid = rustix::process::Pid::from_child(&run);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("a signal");
    assert_eq!(run.wait().expect("it ends").code(), Some(1));
    assert_eq!(count(place.path()), 0, "files are left");
}
