//! Tests of the destinations with real sockets and files.

use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::time::Duration;

use server::audit::{Destinations, Origin, Queue, Record};
use server::policy::Template;
use server::policy::audit::{Audit, Destination, Operation};
use server::vfs::Time;

use super::output::Output;
use super::writer::{Losses, step};
use super::*;

fn record(operation: Operation, argument: &str) -> Record {
    let audit = Audit { prefix: Template::parse("P").expect("no variables"), priority: 173, ..Audit::default() };
    let names = ["share", "ann", "::1"].map(str::to_owned);
    let origin = Arc::new(Origin::new(&audit, names, |_| 0, |_| None));
    let time = Time { secs: 1_577_836_800, nanos: 5_000 };
    Record { origin, time, operation, failure: None, arguments: vec![argument.to_owned()] }
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).expect("the file exists")
}

fn received(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 1024];
    let length = socket.recv(&mut buffer).expect("a message");
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

#[test]
fn syslog_gets_messages_as_the_c_library_sends_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("log");
    let daemon = UnixDatagram::bind(&path).expect("a socket");
    let audits = Audits::with_syslog(&path);
    audits.queue(&Destination::Syslog).push(record(Operation::MKDIRAT, "/d"));
    assert_eq!(received(&daemon), "<173>Jan  1 00:00:00 smbd_audit: P|mkdirat|ok|/d");
    // A restarted daemon is reached again.
    drop(daemon);
    std::fs::remove_file(&path).expect("the name of the socket");
    let daemon = UnixDatagram::bind(&path).expect("a socket");
    audits.queue(&Destination::Syslog).push(record(Operation::CLOSE, "/d"));
    assert_eq!(received(&daemon), "<173>Jan  1 00:00:00 smbd_audit: P|close|ok|/d");
}

#[test]
fn a_blocked_daemon_delays_neither_requests_nor_other_destinations() {
    let directory = tempfile::tempdir().expect("a directory");
    let (path, file) = (directory.path().join("log"), directory.path().join("audit.json"));
    let daemon = UnixDatagram::bind(&path).expect("a socket");
    let audits = Audits::with_syslog(&path);
    let syslog = audits.queue(&Destination::Syslog);
    // Nothing reads the socket, so the thread that writes to it blocks after a few messages.
    let lines = 100_000;
    (0..lines).for_each(|_| syslog.push(record(Operation::CLOSE, &"x".repeat(200))));
    let json = audits.queue(&Destination::File(file.clone()));
    json.push(record(Operation::CLOSE, "/f"));
    while !json.is_idle() {
        thread::yield_now();
    }
    assert_eq!(text(&file).lines().count(), 1);
    assert!(!syslog.is_idle());
    // The daemon works again. It gets the lines that waited, of which there is a bounded number.
    daemon.set_read_timeout(Some(Duration::from_millis(50))).expect("a time");
    let (mut count, mut buffer) = (0, [0; 1024]);
    while !syslog.is_idle() {
        // The last message may have been read before the thread notes that it was sent.
        count += usize::from(daemon.recv(&mut buffer).is_ok());
    }
    assert!(count > 1_000 && count < lines, "{count}");
}

#[test]
fn a_file_has_an_object_in_each_line_and_is_opened_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let (path, moved) = (directory.path().join("audit.json"), directory.path().join("moved"));
    let audits = Audits::with_syslog(directory.path());
    let queue = audits.queue(&Destination::File(path.clone()));
    queue.push(Record { failure: Some("Permission denied"), ..record(Operation::OPENAT, "/a\n\"b\"") });
    audits.drain(Duration::from_secs(10));
    std::fs::rename(&path, &moved).expect("a rename");
    audits.reopen();
    queue.push(record(Operation::CLOSE, "/c"));
    audits.drain(Duration::from_secs(10));
    let object: serde_json::Value = serde_json::from_str(&text(&moved)).expect("one object");
    let expected = serde_json::json!({
        "time": "2020-01-01T00:00:00.000005Z", "share": "share", "user": "ann", "client": "::1", "prefix": "P",
        "operation": "openat", "result": "fail", "error": "Permission denied", "arguments": ["/a\n\"b\""],
    });
    assert_eq!(object, expected);
    assert!(text(&path).contains("\"operation\":\"close\",\"result\":\"ok\",\"arguments\":[\"/c\"]"));
}

#[test]
fn lost_lines_are_counted_until_the_destination_works_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("later/audit.json");
    let (queue, mut losses) = (Queue::default(), Losses::default());
    let mut output = Output::File { file: None, path: path.clone() };
    let mut write = |count: usize| {
        (0..count).for_each(|_| queue.push(record(Operation::CLOSE, "/f")));
        step(&queue, &mut output, &mut losses, Duration::ZERO, Duration::ZERO);
    };
    write(2);
    write(3);
    std::fs::create_dir(directory.path().join("later")).expect("a directory");
    write(1);
    write(1);
    let lines: Vec<serde_json::Value> =
        text(&path).lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    assert_eq!((lines.len(), &lines[0]["lost"]), (3, &5.into()));
    let mut gone = Output::Syslog { socket: None, path: directory.path().join("none") };
    let records = [record(Operation::CLOSE, "/f"), record(Operation::CLOSE, "/g")];
    assert!(gone.write(&records, 0).is_err_and(|failed| failed.lost == 2));
}
