//! Tests of the destinations with real sockets and files.

use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::time::Duration;

use proto::smb2::negotiate::Dialect;
use proto::status::Status;
use server::audit::{Became, Destinations, Event, Logon, LogonEvent, Moved, Origin, Queue, Record, Sent};
use server::policy::Template;
use server::policy::audit::{Audit, Destination, Operation};
use server::vfs::Time;

use super::output::Output;
use super::writer::{Losses, step};
use super::*;

fn record(operation: Operation, argument: &str) -> Record {
    let audit = Audit { prefix: Template::parse("P").expect("no variables"), priority: 173, ..Audit::default() };
    let names = ["share", "ann", "::1"].map(str::to_owned);
    let origin = Arc::new(Origin::new(&audit, names, 0x1f, |_| 0, |_| None));
    let time = Time { secs: 1_577_836_800, nanos: 5_000 };
    Record { origin, time, operation, failure: None, arguments: vec![argument.to_owned()], moved: Moved::Nothing }
}

fn event(operation: Operation, argument: &str) -> Event {
    Event::Operation(record(operation, argument))
}

fn logon() -> Logon {
    Logon {
        time: Time { secs: 1_577_836_800, nanos: 5_000 },
        event: LogonEvent::Logon,
        session: 0x1f,
        status: Status::WRONG_PASSWORD,
        method: "NTLMv2",
        dialect: Dialect::SMB_3_1_1,
        remote: "192.0.2.7:50000".parse().expect("an address"),
        local: "192.0.2.1:445".parse().expect("an address"),
        sent: Sent::new("DOM", "ann\nbob", "PC"),
        became: None,
        utc_offset: |_| 0,
    }
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
    let audits = Audits::with_sockets(&path, &path);
    audits.queue(&Destination::Syslog).push(event(Operation::MKDIRAT, "/d"));
    assert_eq!(received(&daemon), "<173>Jan  1 00:00:00 smbd_audit: P|mkdirat|ok|/d");
    // A restarted daemon is reached again.
    drop(daemon);
    std::fs::remove_file(&path).expect("the name of the socket");
    let daemon = UnixDatagram::bind(&path).expect("a socket");
    audits.queue(&Destination::Syslog).push(event(Operation::CLOSE, "/d"));
    assert_eq!(received(&daemon), "<173>Jan  1 00:00:00 smbd_audit: P|close|ok|/d");
}

#[test]
fn a_blocked_daemon_delays_neither_requests_nor_other_destinations() {
    let directory = tempfile::tempdir().expect("a directory");
    let (path, file) = (directory.path().join("log"), directory.path().join("audit.json"));
    let daemon = UnixDatagram::bind(&path).expect("a socket");
    let audits = Audits::with_sockets(&path, &path);
    let syslog = audits.queue(&Destination::Syslog);
    // Nothing reads the socket, so the thread that writes to it blocks after a few messages.
    let lines = 100_000;
    (0..lines).for_each(|_| syslog.push(event(Operation::CLOSE, &"x".repeat(200))));
    let json = audits.queue(&Destination::File(file.clone()));
    json.push(event(Operation::CLOSE, "/f"));
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
    let audits = Audits::with_sockets(directory.path(), directory.path());
    let queue = audits.queue(&Destination::File(path.clone()));
    let failure = Some("Permission denied");
    let read = Record { failure, arguments: vec!["r".into(), "/a\n\"b\"".into()], ..record(Operation::OPENAT, "") };
    queue.push(Event::Operation(read));
    audits.drain(Duration::from_secs(10));
    std::fs::rename(&path, &moved).expect("a rename");
    audits.reopen();
    queue.push(event(Operation::CLOSE, "/c"));
    audits.drain(Duration::from_secs(10));
    let object: serde_json::Value = serde_json::from_str(&text(&moved)).expect("one object");
    let expected = serde_json::json!({
        "time": "2020-01-01T00:00:00.000005Z", "share": "share", "user": "ann", "address": "::1", "prefix": "P",
        "session": "000000000000001f", "operation": "openat", "result": "fail", "error": "Permission denied",
        "path": "/a\n\"b\"", "arguments": ["r", "/a\n\"b\""],
    });
    assert_eq!(object, expected);
    let object: serde_json::Value = serde_json::from_str(&text(&path)).expect("one object");
    assert_eq!((&object["operation"], &object["path"]), (&"close".into(), &"/c".into()));
}

#[test]
fn objects_have_the_bytes_that_were_moved() {
    let object = |moved| -> serde_json::Value {
        let event = Event::Operation(Record { moved, ..record(Operation::CLOSE, "/f") });
        serde_json::from_str(&json::object(&event)).expect("an object")
    };
    assert_eq!(object(Moved::Once(7))["bytes"], 7);
    let closed = object(Moved::InAll { read: 8, written: 9 });
    assert_eq!((&closed["bytes_read"], &closed["bytes_written"]), (&8.into(), &9.into()));
    assert!(closed.get("bytes").is_none() && object(Moved::Nothing).get("bytes_read").is_none());
}

#[test]
fn the_object_of_a_logon_has_that_of_samba() {
    let text = json::object(&Event::Logon(Box::new(logon())));
    // As filters for Samba's objects expect it.
    assert!(text.contains(r#""status": "NT_STATUS_WRONG_PASSWORD""#), "{text}");
    assert!(text.contains(r#""remoteAddress": "ipv4:192.0.2.7:50000""#), "{text}");
    assert!(text.find("NT_STATUS_WRONG") < text.find("remoteAddress") && !text.contains('\n'), "{text}");
    let object: serde_json::Value = serde_json::from_str(&text).expect("an object");
    assert_eq!((&object["operation"], &object["result"]), (&"logon".into(), &"fail".into()));
    assert_eq!((&object["user"], &object["address"]), (&"ann?bob".into(), &"192.0.2.7".into()));
    assert_eq!((&object["type"], &object["dialect"]), (&"Authentication".into(), &"3.1.1".into()));
    let samba = &object["Authentication"];
    assert_eq!((&samba["eventId"], &samba["passwordType"]), (&4625.into(), &"NTLMv2".into()));
    assert_eq!((&samba["clientDomain"], &samba["workstation"]), (&"DOM".into(), &"PC".into()));
    assert!(samba["becameAccount"].is_null() && samba["authDescription"].is_null());
    let became = Became { name: "ann".into(), domain: "BOX".into(), sid: String::new(), kind: "guest" };
    let ended = Logon { status: Status::SUCCESS, event: LogonEvent::Logoff, became: Some(became), ..logon() };
    let object: serde_json::Value =
        serde_json::from_str(&json::object(&Event::Logon(Box::new(ended)))).expect("an object");
    assert_eq!((&object["operation"], &object["user"]), (&"logoff".into(), &"ann".into()));
    assert_eq!((&object["kind"], &object["session"]), (&"guest".into(), &"000000000000001f".into()));
    assert!(object.get("Authentication").is_none());
}

#[test]
fn the_journal_gets_fields() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("journal");
    let daemon = UnixDatagram::bind(&path).expect("a socket");
    let audits = Audits::with_sockets(directory.path(), &path);
    let queue = audits.queue(&Destination::Journal);
    queue.push(Event::Operation(Record { moved: Moved::Once(5), ..record(Operation::PWRITE_RECV, "/a\nFORGED=1") }));
    let entry = received(&daemon);
    for line in [
        "MESSAGE=P|pwrite_recv|ok|/a?FORGED=1",
        "PRIORITY=5",
        "SYSLOG_FACILITY=21",
        "SYSLOG_IDENTIFIER=smbd_audit",
        "FREVO_USER=ann",
        "FREVO_SHARE=share",
        "FREVO_BYTES=5",
        "FREVO_PREFIX=P",
    ] {
        assert!(entry.lines().any(|own| own == line), "{line} in {entry}");
    }
    assert!(entry.contains("FREVO_PATH\n\u{b}\0\0\0\0\0\0\0/a\nFORGED=1\n"), "{entry:?}");
    queue.push(Event::Logon(Box::new(logon())));
    let entry = received(&daemon);
    assert!(entry.contains("MESSAGE=Auth: [SMB2,(null)] user [DOM]\\[ann?bob] at [Wed, 01 Jan 2020 "), "{entry}");
    assert!(entry.contains("\nFREVO_RESULT=fail\n") && entry.contains("\nFREVO_METHOD=NTLMv2\n"), "{entry}");
    assert!(entry.contains("\nFREVO_PORT=50000\n") && entry.contains("\nFREVO_CLIENT_DOMAIN=DOM\n"), "{entry}");
    assert!(!entry.contains("FREVO_KIND"), "only a logon that succeeds has it: {entry}");
}

#[test]
fn lines_of_logons_have_a_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("auth.log");
    let audits = Audits::with_sockets(directory.path(), directory.path());
    audits.queue(&Destination::Lines(path.clone())).push(Event::Logon(Box::new(logon())));
    audits.drain(Duration::from_secs(10));
    let text = text(&path);
    assert!(text.starts_with("  Auth: [SMB2,(null)] user [DOM]\\[ann?bob] at ["), "{text}");
    assert_eq!((text.lines().count(), audits.numbers()[0].1.written), (1, 1));
}

/// Writes `count` events of a queue in a thread until it is idle, while `repair` makes the destination work.
fn written_after(queue: &Queue, output: Output, count: usize, repair: impl FnOnce()) {
    (0..count).for_each(|_| queue.push(event(Operation::CLOSE, "/f")));
    let (mut output, mut losses) = (output, Losses::default());
    thread::scope(|scope| {
        scope.spawn(|| {
            while !queue.is_idle() {
                step(queue, &mut output, &mut losses, Duration::ZERO, Duration::from_millis(1));
            }
        });
        while !queue.numbers().stalled {
            thread::yield_now();
        }
        repair();
    });
}

#[test]
fn events_wait_until_the_destination_works() {
    let directory = tempfile::tempdir().expect("a directory");
    let later = directory.path().join("later");
    let (file, queue) = (later.join("audit.json"), Queue::default());
    written_after(&queue, Output::file(&file, true), 5, || std::fs::create_dir(&later).expect("a directory"));
    assert_eq!(text(&file).lines().count(), 5);
    let numbers = queue.numbers();
    assert_eq!((numbers.written, numbers.lost, numbers.stalled, numbers.bytes), (5, 0, false, 0));
    // A daemon that is not there yet.
    let (path, queue) = (directory.path().join("log"), Queue::default());
    let mut daemon = None;
    written_after(&queue, Output::syslog(&path), 3, || daemon = Some(UnixDatagram::bind(&path).expect("a socket")));
    let daemon = daemon.expect("a daemon");
    (0..3).for_each(|_| assert!(received(&daemon).contains("P|close|ok|/f")));
    assert_eq!((queue.numbers().written, queue.numbers().lost), (3, 0));
}

#[test]
fn a_full_disk_loses_nothing() {
    // Each write to this device fails as on a full disk.
    let directory = tempfile::tempdir().expect("a directory");
    let (path, queue) = (directory.path().join("audit.json"), Queue::default());
    std::os::unix::fs::symlink("/dev/full", &path).expect("a link");
    written_after(&queue, Output::file(&path, true), 4, || {
        std::fs::remove_file(&path).expect("the link");
        queue.reopen();
    });
    assert_eq!((text(&path).lines().count(), queue.numbers().lost), (4, 0));
}

#[test]
fn a_part_of_a_line_is_ended_before_the_next_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let (path, queue) = (directory.path().join("audit.json"), Queue::default());
    let write = |before: &str| {
        std::fs::write(&path, before).expect("the file");
        queue.push(event(Operation::CLOSE, "/f"));
        let (mut output, mut losses) = (Output::file(&path, true), Losses::default());
        step(&queue, &mut output, &mut losses, Duration::ZERO, Duration::ZERO);
        text(&path)
    };
    let whole = write("");
    assert_eq!(whole.lines().count(), 1);
    assert_eq!(write("{\"time"), format!("{{\"time\n{whole}"));
    assert_eq!(write("{}\n"), format!("{{}}\n{whole}"));
}

#[test]
fn a_destination_that_hangs_is_reported_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().is_ok_and(|status| status.success()));
    let audits = Audits::with_sockets(directory.path(), directory.path());
    let queue = audits.queue(&Destination::File(path.clone()));
    let later = Instant::now() + Duration::from_secs(3_600);
    assert_eq!(audits.report_hanging(later), 0, "there is nothing to write");
    // The thread waits for a reader of the pipe.
    queue.push(event(Operation::CLOSE, "/f"));
    while audits.report_hanging(later) == 0 {
        thread::yield_now();
    }
    assert_eq!((audits.report_hanging(later), audits.report_hanging(Instant::now())), (0, 0));
    assert_eq!(queue.numbers().waiting, 1, "it is not written");
    drop(std::fs::File::open(&path).expect("a reader"));
}

#[test]
fn events_that_did_not_fit_are_counted_in_the_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let (path, queue) = (directory.path().join("audit.json"), Queue::default());
    let long = "x".repeat(60_000);
    (0..200).for_each(|_| queue.push(event(Operation::CLOSE, &long)));
    let lost = queue.numbers().lost;
    assert!(lost > 0);
    let (mut output, mut losses) = (Output::file(&path, true), Losses::default());
    step(&queue, &mut output, &mut losses, Duration::ZERO, Duration::ZERO);
    let lines: Vec<serde_json::Value> =
        text(&path).lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    assert_eq!((lines.len() as u64, &lines[0]["lost"]), (201 - lost, &lost.into()));
}
