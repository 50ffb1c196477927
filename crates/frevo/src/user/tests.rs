//! Tests of `frevo user` with real state directories, with and without a server.

use std::path::Path;
use std::sync::Arc;

use clap::Parser;

use super::*;
use crate::admin::names::{Names, NamesRequest};
use crate::admin::{self, Control, Listener};
use accounts::PassdbBackend;

#[derive(Parser, Debug)]
struct Cli {
    #[command(flatten)]
    user: UserArgs,
}

/// Runs a command line in a state directory and returns whether its exit status was 0.
fn user(path: &Path, words: &[&str]) -> Result<bool> {
    let state = ["--state-dir", path.to_str().unwrap()];
    let cli = Cli::try_parse_from(["user"].iter().chain(words).chain(&state))?;
    // ExitCode cannot be compared, so its debug text is used.
    run(cli.user).map(|code| format!("{code:?}") == format!("{:?}", ExitCode::SUCCESS))
}

fn place(path: &Path) -> AccountPlace {
    AccountPlace { state: path.to_owned(), backends: vec![PassdbBackend::Embedded] }
}

fn names(path: &Path) -> Vec<String> {
    let Some(mut performer) = Performer::open(&place(path), false).unwrap() else { return Vec::new() };
    let UserReply::List(list) = performer.perform(UserRequest::List { after: None }).unwrap() else {
        panic!("no list")
    };
    list.into_iter().map(|account| account.name).collect()
}

const SMBPASSWD: &str = "\
ann:1:XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX:1D3EC02BF8AAF6D00F91C0A7F0F3C160:[U          ]:LCT-6B013C02:
bob:2:XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX:0FA5C7BEC343B30A586205715761BC27:[DU         ]:LCT-6B013C02:
";

struct Fake(Directory);

impl Control for Fake {
    fn status(&self, _: usize) -> server::status::Snapshot {
        server::status::Snapshot::default()
    }

    fn health(&self) -> crate::health::Report {
        crate::health::Health::default().report(false)
    }

    fn metrics(&self) -> String {
        "frevo_shares 1\n".into()
    }

    fn user(&self, request: UserRequest) -> Result<UserReply> {
        admin::perform(&self.0, request)
    }

    fn names(&self, _: NamesRequest) -> Result<Names> {
        bail!("not here")
    }

    fn reload(&self) -> Result<String> {
        bail!("not here")
    }

    fn close(&self, _: crate::admin::message::Closing) -> Result<String> {
        anyhow::bail!("nothing is open")
    }

    fn shares(&self, _: crate::admin::message::ShareRequest) -> Result<crate::admin::message::ShareReply> {
        unreachable!()
    }

    fn held(&self) -> crate::status::HeldResources {
        unreachable!()
    }

    fn log_on(&self, _: &str, _: &server::accounts::NtHash, _: std::net::IpAddr) -> Result<Option<String>> {
        unreachable!()
    }

    fn admit(&self, _: &str, _: std::net::IpAddr) -> Result<Option<bool>> {
        unreachable!()
    }

    fn record(&self, _: crate::admin::message::OnBehalf, _: Option<String>) {
        unreachable!()
    }

    fn stop(&self) {}
}

/// Tests import, list, disable, enable and delete, with the database open in this process or in a server.
fn session(path: &Path) {
    let file = path.join("smbpasswd");
    std::fs::write(&file, SMBPASSWD).unwrap();
    let file = file.to_str().unwrap();
    assert!(user(path, &["import", file, "--dry-run"]).unwrap());
    assert!(names(path).is_empty());
    assert!(user(path, &["import", file]).unwrap());
    assert_eq!(names(path), ["ann", "bob"]);
    std::fs::write(file, format!("{SMBPASSWD}bad line\n")).unwrap();
    assert!(!user(path, &["import", file]).unwrap(), "an invalid line must change the exit status");
    assert!(user(path, &["disable", "ANN"]).unwrap());
    assert!(user(path, &["enable", "bob"]).unwrap());
    assert!(user(path, &["list"]).unwrap() && user(path, &["list", "--json"]).unwrap());
    let mut performer = Performer::open(&place(path), false).unwrap().unwrap();
    for (name, disabled) in [("ann", true), ("bob", false)] {
        let UserReply::Found(Some(view)) = performer.perform(UserRequest::Find { name: name.into() }).unwrap() else {
            panic!("{name} does not exist");
        };
        assert_eq!(view.disabled, disabled, "{name}");
    }
    drop(performer);
    let printed = path.join("pdbedit");
    let lines = |name: &str, rid: u32| format!("Unix username:  {name}\nUser SID:  S-1-5-21-1-2-3-{rid}\n");
    std::fs::write(&printed, lines("ANN", 1000) + &lines("bob", 1001)).unwrap();
    assert!(user(path, &["sids", printed.to_str().unwrap()]).unwrap());
    assert!(user(path, &["sids", printed.to_str().unwrap()]).unwrap(), "a second import changes nothing");
    std::fs::write(&printed, lines("nobody", 1002)).unwrap();
    assert!(!user(path, &["sids", printed.to_str().unwrap()]).unwrap());
    std::fs::write(&printed, lines("bob", 1002).replace("S-1-5-21-", "S-1-1-")).unwrap();
    assert!(!user(path, &["sids", printed.to_str().unwrap()]).unwrap());
    let mut performer = Performer::open(&place(path), false).unwrap().unwrap();
    let UserReply::Found(Some(view)) = performer.perform(UserRequest::Find { name: "ann".into() }).unwrap() else {
        panic!("ann does not exist");
    };
    assert_eq!(view.former_sids, ["S-1-5-21-1-2-3-1000"]);
    drop(performer);
    assert!(user(path, &["delete", "ann"]).unwrap());
    assert!(user(path, &["delete", "ann"]).unwrap_err().to_string().contains("no account"));
    assert_eq!(names(path), ["bob"]);
}

#[test]
fn commands_work_without_a_server() {
    let dir = tempfile::tempdir().unwrap();
    session(dir.path());
}

#[test]
fn commands_work_with_a_running_server() {
    let dir = tempfile::tempdir().unwrap();
    let state = Arc::new(StateDir::create(dir.path()).unwrap());
    let fake = Arc::new(Fake(Directory::of_server(&state, &[PassdbBackend::Embedded]).unwrap()));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let server = tokio::spawn(Listener::bind(state).unwrap().serve(fake.clone()));
        let path = dir.path().to_owned();
        tokio::task::spawn_blocking(move || session(&path)).await.unwrap();
        server.abort();
    });
    assert!(fake.0.record("bob").unwrap().is_some_and(|bob| !bob.disabled));
    assert!(fake.0.record("ann").unwrap().is_none());
}

#[test]
fn concurrent_changes_are_all_stored() {
    let dir = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let path = dir.path();
            scope.spawn(move || {
                let file = path.join(format!("file{thread}"));
                std::fs::write(&file, SMBPASSWD.replace("ann", &format!("ann{thread}"))).unwrap();
                assert!(user(path, &["import", file.to_str().unwrap()]).unwrap());
            });
        }
    });
    assert_eq!(names(dir.path()), ["ann0", "ann1", "ann2", "ann3", "bob"]);
}

#[test]
fn commands_other_than_add_create_no_files() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    assert!(user(&missing, &["list"]).unwrap());
    for words in [["disable", "ann"], ["delete", "ann"]] {
        assert!(user(&missing, &words).unwrap_err().to_string().contains("no accounts"));
    }
    assert!(user(&missing, &["import", "/nonexistent/file"]).is_err());
    assert!(!missing.exists());
    assert!(user(dir.path(), &["list"]).unwrap());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn usage_errors_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    for words in [&["add"][..], &["add", "ann", "--password", "secret"], &["fly"], &["list", "x"], &["import"]] {
        let error = user(dir.path(), words).unwrap_err();
        assert_eq!(error.downcast::<clap::Error>().unwrap().exit_code(), 2, "{words:?}");
    }
    assert!(user(dir.path(), &["add", "a/b"]).unwrap_err().to_string().contains("cannot contain"));
}
