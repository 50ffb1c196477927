//! Tests of the notifications, against a socket.

use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::sockets::passed;
use super::watchdog::watchdog;
use super::{Notifier, report};

/// Returns a socket with an abstract name, and that name as in `NOTIFY_SOCKET`.
fn manager(name: &str) -> (UnixDatagram, OsString) {
    let name = format!("frevo-test-{name}-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let socket = UnixDatagram::bind_addr(&address).unwrap();
    socket.set_nonblocking(true).unwrap();
    (socket, format!("@{name}").into())
}

fn messages(manager: &UnixDatagram) -> Vec<String> {
    let mut buffer = [0; 1024];
    let next = std::iter::from_fn(|| manager.recv(&mut buffer).ok().map(|length| buffer[..length].to_vec()));
    next.map(|bytes| String::from_utf8(bytes).unwrap()).collect()
}

#[test]
fn messages_have_the_format_of_the_protocol() {
    let (manager, name) = manager("format");
    let notifier = Notifier::to(&name).unwrap();
    assert!(notifier.is_heard());
    notifier.ready("two\nlines");
    notifier.alive();
    notifier.stopping();
    let said = messages(&manager);
    assert_eq!(said[0], "READY=1\nSTATUS=two lines");
    assert_eq!(said[1], "WATCHDOG=1");
    assert!(said[2].starts_with("STOPPING=1\n"), "{}", said[2]);
    notifier.reloading();
    notifier.reloading();
    let said = messages(&manager);
    let time = |message: &str| {
        assert!(message.starts_with("RELOADING=1\n"), "{message}");
        message.lines().find_map(|line| line.strip_prefix("MONOTONIC_USEC=")?.parse::<u64>().ok()).unwrap()
    };
    assert!(time(&said[0]) <= time(&said[1]), "the clock goes forward: {said:?}");
}

#[test]
fn a_socket_with_a_path_is_used() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_nonblocking(true).unwrap();
    Notifier::to(path.as_os_str()).unwrap().status("x");
    assert_eq!(messages(&manager), ["STATUS=x"]);
}

#[test]
fn other_addresses_are_refused_and_a_missing_manager_is_not_an_error() {
    assert!(Notifier::to("vsock:2:1234".as_ref()).is_err());
    assert!(Notifier::to("relative".as_ref()).is_err());
    assert!(!Notifier::default().is_heard());
    Notifier::default().ready("nobody hears this");
    let (manager, name) = manager("gone");
    drop(manager);
    Notifier::to(&name).unwrap().ready("the socket is gone");
}

#[test]
fn the_watchdog_is_for_the_process_that_the_variables_name() {
    let second = Some(Duration::from_secs(1));
    assert_eq!(watchdog(Some(1_000_000), None, 7), second);
    assert_eq!(watchdog(Some(1_000_000), Some(7), 7), second);
    assert_eq!(watchdog(Some(1_000_000), Some(8), 7), None);
    assert_eq!(watchdog(Some(0), None, 7), None);
    assert_eq!(watchdog(None, Some(7), 7), None);
}

#[tokio::test(start_paused = true)]
async fn the_reports_come_at_half_of_the_time_and_only_while_tasks_run() {
    let (manager, name) = manager("watchdog");
    let notifier = Notifier::to(&name).unwrap();
    let clients = std::sync::Arc::new(AtomicUsize::new(0));
    let status = {
        let clients = clients.clone();
        move || format!("{} clients", clients.load(Ordering::Relaxed))
    };
    let hangs = std::sync::Arc::new(tokio::sync::Mutex::new(()));
    let answering = hangs.clone();
    let answers = move || {
        let answering = answering.clone();
        async move { drop(answering.lock().await) }
    };
    tokio::spawn(report(notifier, Some(Duration::from_secs(4)), status, answers));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(messages(&manager), ["WATCHDOG=1"; 3], "at 0, 2 and 4 seconds");
    let hung = hangs.lock().await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(messages(&manager), [""; 0], "an event loop does not answer");
    drop(hung);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(messages(&manager), ["WATCHDOG=1"; 2], "the one that waited, and the one that was due");
    clients.store(1, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(messages(&manager), ["STATUS=1 clients", "WATCHDOG=1"]);
    // A task that does not return to the runtime stops the reports, although real time goes on.
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(messages(&manager), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn without_a_watchdog_only_changes_of_the_status_are_reported() {
    let (manager, name) = manager("status");
    let asked = std::sync::Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let status = move || format!("{}", count.fetch_add(1, Ordering::Relaxed).min(1));
    tokio::spawn(report(Notifier::to(&name).unwrap(), None, status, || std::future::ready(())));
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(messages(&manager), ["STATUS=1"]);
    assert!(asked.load(Ordering::Relaxed) > 3);
}

#[test]
fn sockets_are_for_the_process_that_the_variables_name() {
    let passed = |process: &str, count: &str| passed(Some(process.into()), Some(count.into()), 7);
    assert_eq!(passed("7", "2").unwrap(), Some(2));
    assert_eq!(passed("7", "0").unwrap(), None);
    assert_eq!(passed("8", "2").unwrap(), None);
    for wrong in ["-1", "x", "", "100000"] {
        assert!(passed("7", wrong).is_err(), "{wrong}");
    }
    assert_eq!(super::sockets::passed(None, Some("1".into()), 7).unwrap(), None);
}
