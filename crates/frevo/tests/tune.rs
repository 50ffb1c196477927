//! `frevo tune` on a share in a temporary directory, without a server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

struct Share {
    _directory: tempfile::TempDir,
    path: PathBuf,
    configuration: PathBuf,
}

impl Share {
    fn new(more: &str) -> Share {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        let (path, configuration) = (top.join("data"), top.join("smb.conf"));
        fs::create_dir(&path).unwrap();
        let state = top.join("state");
        let text = format!(
            "[global]\nstate directory = {}\n{more}\n[data]\npath = {}\nread only = no\n",
            state.display(),
            path.display()
        );
        fs::write(&configuration, text).unwrap();
        Share { _directory: directory, path, configuration }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_frevo"));
        command.arg("tune").args(words).arg("-c").arg(&self.configuration);
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }
}

fn is_empty(path: &Path) -> bool {
    fs::read_dir(path).unwrap().next().is_none()
}

#[test]
fn a_quick_measurement_names_the_current_and_the_recommended_value() {
    let share = Share::new("socket options = SO_RCVBUF=8192 SO_SNDBUF=8192\nfrevo:worker threads = 192");
    let before = fs::read(&share.configuration).unwrap();
    let done = share.run(&["data", "--quick", "--json"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let result: Value = serde_json::from_slice(&done.stdout).unwrap();
    let recommended = result["recommendations"].as_array().unwrap();
    let options = recommended.iter().find(|it| it["setting"] == "socket options").expect("8 KiB is too little");
    assert_eq!(options["line"], "socket options = TCP_NODELAY");
    assert_eq!(options["current"], "SO_RCVBUF=8192 SO_SNDBUF=8192");
    assert_eq!(options["location"], "global");
    assert!(!recommended.iter().any(|it| it["setting"] == "frevo:worker threads"), "it is the highest value");
    let storage = &result["measured"]["storage"];
    assert!(storage["write_rate"].as_f64().unwrap() > 0.0 && storage["flush"]["median"].as_f64().unwrap() > 0.0);
    assert_eq!(result["measured"]["cryptography"].as_array().unwrap().len(), 7);
    assert!(is_empty(&share.path), "nothing is left");
    assert_eq!(fs::read(&share.configuration).unwrap(), before, "nothing is changed");
}

#[test]
fn an_interrupted_measurement_leaves_nothing() {
    let share = Share::new("");
    let mut child = share.command(&["data", "--seconds", "3600"]).spawn().unwrap();
    while is_empty(&share.path) {
        assert_eq!(child.try_wait().unwrap(), None, "it measures");
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(is_empty(&share.path));
}

#[test]
fn a_share_that_cannot_be_measured_is_an_error() {
    let share = Share::new("");
    let error = |words: &[&str]| {
        let done = share.run(words);
        assert_eq!(done.status.code(), Some(1), "{words:?}");
        assert!(done.stdout.is_empty(), "{words:?}");
        String::from_utf8(done.stderr).unwrap()
    };
    assert!(error(&["other", "--quick"]).contains("there is no share [other]"));
    assert!(error(&["/proc/", "--quick"]).contains("/proc"), "a file system without files of users");
    assert!(is_empty(&share.path));
}
