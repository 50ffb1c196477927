//! Tests of the control socket over real sockets, with a fake server side.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::bail;

use super::*;
use crate::admin::Client;
use crate::admin::message::{ImportResult, Imported, Migrated, Migration};
use crate::admin::names::{self, NamesQuery};
use crate::status::tests::snapshot;
use accounts::Directory;
use accounts::PassdbBackend;
use accounts::record::nt_hash;

/// A server that serves the accounts of its state directory and records that it was stopped.
struct Fake {
    directory: Directory,
    stopped: AtomicBool,
    recorded: parking_lot::Mutex<Vec<(OnBehalf, Option<String>)>>,
}

impl Control for Fake {
    fn status(&self, _: usize) -> server::status::Snapshot {
        snapshot()
    }

    fn health(&self) -> crate::health::Report {
        crate::health::Health::default().report(false)
    }

    fn metrics(&self) -> String {
        "frevo_shares 1\n".into()
    }

    fn user(&self, request: UserRequest) -> Result<UserReply> {
        crate::admin::perform(&self.directory, request)
    }

    fn names(&self, request: NamesRequest) -> Result<Names> {
        tokio::runtime::Handle::current().block_on(names::answer(request, &self.directory))
    }

    fn reload(&self) -> Result<String> {
        bail!("line 3: no")
    }

    fn close(&self, what: crate::admin::message::Closing) -> Result<String> {
        assert_ne!(what, Closing::Session(666), "it fails");
        anyhow::bail!("nothing is open")
    }

    fn shares(&self, _: crate::admin::message::ShareRequest) -> Result<crate::admin::message::ShareReply> {
        anyhow::bail!("no share changes")
    }

    fn held(&self) -> HeldResources {
        HeldResources::default()
    }

    fn log_on(&self, name: &str, _: &NtHash, _: IpAddr) -> Result<Option<String>> {
        Ok((name == "root").then(|| name.to_owned()))
    }

    fn admit(&self, name: &str, _: IpAddr) -> Result<Option<bool>> {
        Ok((name == "root").then_some(true))
    }

    fn record(&self, change: OnBehalf, failure: Option<String>) {
        self.recorded.lock().push((change, failure));
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// Runs `test` with a server that has its own state directory.
fn with_server(test: impl FnOnce(&Path, &Fake) + Send + 'static) {
    let dir = tempfile::tempdir().unwrap();
    let state = Arc::new(StateDir::create(dir.path()).unwrap());
    let directory = Directory::of_server(&state, &[PassdbBackend::Embedded]).unwrap();
    let fake = Arc::new(Fake { directory, stopped: AtomicBool::new(false), recorded: Default::default() });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = Listener::bind(state.clone()).unwrap();
        let server = tokio::spawn(listener.serve(fake.clone()));
        let path = dir.path().to_owned();
        tokio::task::spawn_blocking(move || test(&path, &fake)).await.unwrap();
        server.abort();
        let _ = server.await;
    });
    assert!(!dir.path().join(SOCKET).exists(), "the socket was left behind");
}

fn client(path: &Path) -> Client {
    Client::connect(&StateDir::open(path).unwrap().unwrap()).unwrap().expect("a server runs")
}

/// Returns the server's answers to `bytes`, until it closes or `lines` lines were received.
fn raw(path: &Path, bytes: &[u8], lines: usize) -> Vec<String> {
    let mut stream = std::os::unix::net::UnixStream::connect(path.join(SOCKET)).unwrap();
    // The server may close before it has read everything.
    let _ = stream.write_all(bytes);
    BufReader::new(stream).lines().take(lines).map_while(Result::ok).collect()
}

#[test]
fn requests_are_answered() {
    with_server(|path, fake| {
        let mut client = client(path);
        let version: Version = client.ask(&ServerRequest::Version {}).unwrap();
        assert_eq!(version.pid, std::process::id());
        let metrics: String = client.ask(&ServerRequest::Metrics {}).unwrap();
        assert_eq!(metrics, "frevo_shares 1\n");
        let status: Status = client.ask(&ServerRequest::Status {}).unwrap();
        assert_eq!(status, snapshot().into());
        let error = client.ask::<String>(&ServerRequest::Reload {}).unwrap_err();
        assert_eq!(error.to_string(), "line 3: no");
        let _: String = client.ask(&ServerRequest::Stop {}).unwrap();
        assert!(fake.stopped.load(Ordering::Relaxed));
    });
}

#[test]
fn a_request_for_an_administrator_is_recorded_with_its_result() {
    with_server(|path, fake| {
        let mut client = client(path);
        let behalf = |operation: &str| OnBehalf {
            user: "root".into(),
            address: "::1".into(),
            operation: operation.into(),
            arguments: vec!["x".into()],
        };
        client.on_behalf(behalf("reload")).unwrap();
        client.ask::<String>(&ServerRequest::Reload {}).unwrap_err();
        let _: Version = client.ask(&ServerRequest::Version {}).unwrap();
        client.on_behalf(behalf("version")).unwrap();
        let _: Version = client.ask(&ServerRequest::Version {}).unwrap();
        client.on_behalf(behalf("note")).unwrap();
        client.ask::<()>(&ServerRequest::Note { failure: Some("refused".into()) }).unwrap_err();
        let expected = [("reload", Some("line 3: no")), ("version", None), ("note", Some("refused"))];
        let expected = expected.map(|(operation, failure)| (behalf(operation), failure.map(str::to_owned)));
        assert_eq!(*fake.recorded.lock(), expected);
        let nt_hash = Some(nt_hash("x").unwrap());
        let address = "::1".parse().unwrap();
        let request = ServerRequest::LogOn { name: "root".into(), nt_hash, address };
        assert_eq!(client.ask::<Option<String>>(&request).unwrap().as_deref(), Some("root"));
        for (name, expected) in [("root", Some(true)), ("nobody here", None)] {
            let request = ServerRequest::Admit { name: name.into(), address };
            assert_eq!(client.ask::<Option<bool>>(&request).unwrap(), expected);
        }
    });
}

#[test]
fn a_change_applies_immediately_in_the_running_server() {
    with_server(|path, fake| {
        let name = fake.directory.users().only().map_or("root".to_owned(), |user| user.name.clone());
        let mut client = client(path);
        let add = UserRequest::Add {
            name: name.clone(),
            nt_hash: Some(nt_hash("x").unwrap()),
            full_name: String::new(),
            uid: None,
        };
        assert!(matches!(client.user(&add).unwrap(), UserReply::Done(_)));
        assert!(fake.directory.record(&name).unwrap().is_some());
        assert!(client.user(&add).unwrap_err().to_string().contains("exists already"));
        client.user(&UserRequest::Delete { name: name.clone() }).unwrap();
        assert!(fake.directory.record(&name).unwrap().is_none());
    });
}

#[test]
fn sids_and_ids_are_resolved() {
    with_server(|path, fake| {
        let mut client = client(path);
        let name = fake.directory.users().only().map_or("root".to_owned(), |user| user.name.clone());
        let nt_hash = Some(nt_hash("x").unwrap());
        let add = UserRequest::Add { name: name.clone(), nt_hash, full_name: String::new(), uid: None };
        client.user(&add).unwrap();
        let UserReply::Found(Some(account)) = client.user(&UserRequest::Find { name: name.clone() }).unwrap() else {
            panic!("there is no account");
        };
        let uid = account.uid.expect("a UNIX user");
        let request = NamesQuery {
            sids: vec![account.sid.clone(), "S-1-5-21-1-1-1-1".into()],
            uids: vec![uid, 4_000_000],
            gids: vec![4_000_001],
        };
        let names: Names = client.ask(&NamesRequest::Of(request)).unwrap();
        assert!(account.sid.starts_with(&names.domain), "{names:?}");
        let [known, unknown] = &*names.sids else { panic!("one answer for each expected") };
        assert_eq!((known.uid, known.name.as_ref().map(|named| &named.name)), (Some(uid), Some(&name)));
        assert!(unknown.id().is_none() && unknown.name.is_none());
        // Without root, all accounts share the process's user, which therefore is not the user of one of them.
        let shared = fake.directory.users().only().map(|_| format!("S-1-22-1-{uid}"));
        assert_eq!(names.uids, [shared.unwrap_or(account.sid), "S-1-22-1-4000000".into()]);
        assert_eq!(names.gids, ["S-1-22-2-4000001"]);
        let too_many = NamesQuery { uids: vec![1; names::NAMES_BATCH + 1], ..NamesQuery::default() };
        assert!(client.ask::<Names>(&NamesRequest::Of(too_many)).is_err());
        let wrong = NamesQuery { sids: vec!["x".into()], ..NamesQuery::default() };
        assert!(client.ask::<Names>(&NamesRequest::Of(wrong)).is_err());
    });
}

#[test]
fn only_the_owner_may_connect() {
    with_server(|path, _| {
        let mode = std::fs::metadata(path.join(SOCKET)).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
    });
}

#[test]
fn malformed_requests_are_refused_and_other_clients_continue() {
    with_server(|path, _| {
        for (bytes, word) in [
            (&b"\n"[..], "not JSON"),
            (b"hello\n", "not JSON"),
            (b"{}\n", "unknown request"),
            (b"[1]\n", "unknown request"),
            (b"\xff\xfe\0\n", "not JSON"),
            (b"{\"request\":\"fly\"}\n", "unknown request"),
            (b"{\"request\":\"user.fly\"}\n", "unknown request"),
            (b"{\"request\":\"version\",\"x\":1}\n", "unknown request"),
            (b"{\"request\":\"user.passwd\",\"name\":\"a\",\"nt_hash\":\"secret\"}\n", "not understood"),
            (&vec![b'['; 100_000], "not understood"),
        ] {
            let line = raw(path, &[bytes, b"\n"].concat(), 1);
            assert!(line[0].starts_with("{\"error\":") && line[0].contains(word), "{line:?}");
            assert!(!line[0].contains("secret"));
        }
        let endless = vec![b' '; LONGEST_REQUEST + (16 << 10)];
        assert!(raw(path, &endless, 1).first().is_none_or(|line| line.contains("at most")));
        let two = raw(path, b"x\n{\"request\":\"version\"}\n", 2);
        assert!(two[0].contains("error") && two[1].contains("\"ok\""));
        drop(std::os::unix::net::UnixStream::connect(path.join(SOCKET)).unwrap());
        let _: Version = client(path).ask(&ServerRequest::Version {}).unwrap();
    });
}

#[test]
fn a_client_above_the_limit_gets_an_error() {
    with_server(|path, _| {
        let mut held: Vec<Client> = (0..CLIENTS).map(|_| client(path)).collect();
        for client in &mut held {
            let _: Version = client.ask(&ServerRequest::Version {}).unwrap();
        }
        let error = client(path).ask::<Version>(&ServerRequest::Version {}).unwrap_err();
        assert!(error.to_string().contains("try again"), "{error:#}");
    });
}

#[tokio::test]
async fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let state = Arc::new(StateDir::create(dir.path()).unwrap());
    assert!(Client::connect(&state).unwrap().is_none());
    drop(std::os::unix::net::UnixListener::bind(dir.path().join(SOCKET)).unwrap());
    assert!(Client::connect(&state).unwrap().is_none());
    let living = Listener::bind(state.clone()).unwrap();
    assert!(Client::connect(&state).unwrap().is_some());
    assert!(format!("{:#}", Listener::bind(state.clone()).err().unwrap()).contains("in use"));
    drop(living);
    assert!(!dir.path().join(SOCKET).exists());
}

#[tokio::test]
async fn a_long_socket_path_works() {
    let dir = tempfile::tempdir().unwrap();
    let state = Arc::new(StateDir::create(&dir.path().join("x".repeat(200))).unwrap());
    let _listener = Listener::bind(state.clone()).unwrap();
    assert!(Client::connect(&state).unwrap().is_some());
}

fn behalf(operation: &str) -> OnBehalf {
    OnBehalf { user: "ann".into(), address: "::1".into(), operation: operation.into(), arguments: Vec::new() }
}

#[test]
fn a_change_that_panics_is_recorded() {
    with_server(|path, fake| {
        let mut client = client(path);
        client.on_behalf(behalf("close")).unwrap();
        let what = Closing::Session(666);
        let error = client.ask::<String>(&ServerRequest::Close { what }).unwrap_err().to_string();
        assert!(error.contains("internal error"), "{error}");
        assert_eq!(*fake.recorded.lock(), [(behalf("close"), Some(error))]);
    });
}

#[test]
fn a_change_whose_result_is_not_told_is_recorded() {
    with_server(|path, fake| {
        client(path).on_behalf(behalf("acl.set")).unwrap();
        while fake.recorded.lock().is_empty() {
            std::thread::sleep(Duration::from_millis(10));
        }
        let (change, failure) = fake.recorded.lock().remove(0);
        assert_eq!(change, behalf("acl.set"));
        assert!(failure.unwrap().contains("before the result was known"));
    });
}

/// A migration of accounts that this host does not have.
fn migration(accounts: u32) -> UserRequest {
    let machine = "S-1-5-21-1-2-3";
    let account = |number: u32| Migrated {
        account: Imported {
            name: format!("user number {number}"),
            nt_hash: Some(nt_hash("x").unwrap()),
            disabled: false,
            locked: false,
            must_change: false,
            never_expires: false,
            password_last_set: Some(1),
        },
        sid: format!("{machine}-{}", 10_000 + number),
        full_name: "A name as long as names are".into(),
        expires: None,
    };
    let migration = Migration {
        machine_sid: machine.into(),
        accounts: (0..accounts).map(account).collect(),
        groups: Vec::new(),
        policies: Vec::new(),
        share_acls: Vec::new(),
    };
    UserRequest::Migrate { migration: Box::new(migration), dry_run: false }
}

#[test]
fn a_migration_longer_than_other_requests_is_one_request() {
    with_server(|path, fake| {
        let accounts = 10_000;
        let request = migration(accounts);
        let length = serde_json::to_vec(&request).unwrap().len();
        assert!((SHORT_REQUEST..LONGEST_REQUEST).contains(&length), "{length}");
        let UserReply::Migrated(outcome) = client(path).user(&request).unwrap() else { panic!("another answer") };
        assert_eq!(outcome.accounts.iter().filter(|it| it.result == ImportResult::Added).count(), 10_000);
        assert!(fake.directory.record("user number 9999").unwrap().is_some());
    });
}

#[test]
fn one_client_at_a_time_sends_a_long_request() {
    with_server(|path, _| {
        let mut first = std::os::unix::net::UnixStream::connect(path.join(SOCKET)).unwrap();
        let part = vec![b' '; SHORT_REQUEST + (64 << 10)];
        first.write_all(&part).unwrap();
        // All but a few chunks of the first request were received, since the socket does not buffer so much.
        first.write_all(&part).unwrap();
        let refused = raw(path, &part[..SHORT_REQUEST], 1);
        assert!(refused[0].contains("try again later"), "{refused:?}");
        let _: Version = client(path).ask(&ServerRequest::Version {}).unwrap();
        first.write_all(b"{\"request\":\"version\"}\n").unwrap();
        let mut line = String::new();
        BufReader::new(first).read_line(&mut line).unwrap();
        assert!(line.contains("\"ok\""), "{line}");
        assert!(raw(path, &[&part, &b"x\n"[..]].concat(), 1)[0].contains("not JSON"));
    });
}

#[test]
fn probes_are_answered_when_all_places_are_taken() {
    with_server(|path, _| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let mut client = client(path);
                let _: Version = client.ask(&ServerRequest::Version {}).unwrap();
                client
            })
            .collect();
        let error = client(path).ask::<Version>(&ServerRequest::Version {}).unwrap_err();
        assert_eq!(error.to_string(), "16 control connections are already open; try again later");
        let _: Report = client(path).ask(&ServerRequest::Health {}).unwrap();
        // A connection without a request does not keep the place of a probe.
        let idle: Vec<_> = (0..PROBES).map(|_| client(path)).collect();
        let health = || client(path).ask::<Report>(&ServerRequest::Health {});
        while health().is_err() {
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(raw(path, &[b' '; 300], 1).len(), 1, "a long request is refused");
        drop((clients, idle));
    });
}
