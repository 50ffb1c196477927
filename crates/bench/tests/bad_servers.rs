//! The program against servers that are dead, refuse requests, are slow or send wrong responses. The tool must report
//! a clear error, and must never hang or print a result.
//!
//! A proxy between the tool and a server modifies the responses.

mod served;

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use client::Credentials;
use served::{Served, serve};

/// A function that modifies a frame of the server; `false` ends the connection.
type Lie = dyn Fn(&mut Vec<u8>) -> bool + Send + Sync;

/// The command code of READ.
const READ: u8 = 8;
/// The command code of WRITE.
const WRITE: u8 = 9;

/// Returns whether a frame contains a successful response to `command`.
fn answers(frame: &[u8], command: u8) -> bool {
    frame.len() > 68 && frame[4 + 12] == command && frame[4 + 8..4 + 12] == [0; 4]
}

/// Starts a proxy in which `lie` modifies the responses of the server at `upstream`, and returns its port.
fn proxy(upstream: u16, lie: impl Fn(&mut Vec<u8>) -> bool + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let lie: Arc<Lie> = Arc::new(lie);
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let lie = Arc::clone(&lie);
            thread::spawn(move || {
                let server = TcpStream::connect(("127.0.0.1", upstream))?;
                let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
                thread::spawn(move || {
                    let _ = io::copy(&mut from_client, &mut to_server);
                    // Tells the server that the client has disconnected, as without a proxy.
                    to_server.shutdown(std::net::Shutdown::Both)
                });
                relay(server, client, &*lie)
            });
        }
    });
    port
}

fn relay(mut server: TcpStream, mut client: TcpStream, lie: &Lie) -> io::Result<()> {
    loop {
        let mut head = [0; 4];
        server.read_exact(&mut head)?;
        let mut frame = head.to_vec();
        frame.resize(4 + (u32::from_be_bytes(head) & 0xff_ffff) as usize, 0);
        server.read_exact(&mut frame[4..])?;
        let continues = lie(&mut frame);
        client.write_all(&frame)?;
        if !continues {
            return client.shutdown(std::net::Shutdown::Both);
        }
    }
}

/// Runs `frevo-bench largefile` against `port` as `user`.
fn bench(served: &Served, port: u16, user: &str, json: &std::path::Path) -> Output {
    let Credentials::Password { password, .. } = &served.options.credentials else { panic!("no password") };
    Command::new(env!("CARGO_BIN_EXE_frevo-bench"))
        .args(["largefile", "--quick", "--seconds", "0.1", "--size", "2", "--timeout", "6", "--json"])
        .arg(json)
        .args(["--target", &format!("smb://{user}@127.0.0.1:{port}/share")])
        .env("FREVO_BENCH_PASSWORD", password)
        .output()
        .expect("it runs")
}

/// Checks that the tool fails against `port`, reports `expected`, and leaves no results.
fn check(served: &Served, port: u16, user: &str, expected: &str) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let json = directory.path().join("run.json");
    let begin = Instant::now();
    let output = bench(served, port, user, &json);
    let (said, shown) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert_eq!(output.status.code(), Some(1), "{expected}: {said}");
    assert!(said.contains(expected), "{expected}: {said}");
    assert!(said.contains(&format!("127.0.0.1:{port}")) || said.contains("target"), "the server is not named: {said}");
    assert!(!shown.contains("/s"), "a figure is shown: {shown}");
    assert!(!json.exists(), "results of a run that failed");
    // Not a measurement, only a distinction between ending and hanging.
    assert!(begin.elapsed() < Duration::from_secs(120), "{expected}");
}

fn user(served: &Served) -> &str {
    let Credentials::Password { user, .. } = &served.options.credentials else { panic!("no password") };
    user
}

#[test]
fn an_honest_server_is_measured() {
    let served = serve();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let json = directory.path().join("run.json");
    let output = bench(&served, proxy(served.port, |_| true), user(&served), &json);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("MiB/s"));
    let record = std::fs::read_to_string(&json).expect("results");
    assert!(record.contains("sequential read"), "{record}");
    let Credentials::Password { password, .. } = &served.options.credentials else { panic!("no password") };
    assert!(!record.contains(password.as_str()), "the password is in the results");
}

#[test]
fn dead_servers_are_reported() {
    let served = serve();
    // A socket that is bound and does not listen keeps every other program off the port.
    let bound = tokio::net::TcpSocket::new_v4().expect("a socket");
    bound.bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
    check(&served, bound.local_addr().expect("an address").port(), user(&served), "refused");
    let closes = proxy(served.port, |_| false);
    check(&served, closes, user(&served), "closed the connection");
    let dies_midway = proxy(served.port, |frame| !answers(frame, WRITE));
    check(&served, dies_midway, user(&served), "closed the connection");
}

#[test]
fn refusals_are_reported() {
    let served = serve();
    check(&served, served.port, "nobody-of-that-name", "STATUS_LOGON_FAILURE");
    let full = proxy(served.port, |frame| {
        if answers(frame, WRITE) {
            frame[12..16].copy_from_slice(&0xc000_007fu32.to_le_bytes());
        }
        true
    });
    check(&served, full, user(&served), "STATUS_DISK_FULL");
}

#[test]
fn slow_servers_are_reported() {
    let served = serve();
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = silent.local_addr().expect("an address").port();
    check(&served, port, user(&served), "no answer in 6s");
    let stalls = proxy(served.port, |frame| {
        if answers(frame, READ) {
            thread::sleep(Duration::from_secs(3600));
        }
        true
    });
    check(&served, stalls, user(&served), "waiting for the response to READ");
}

#[test]
fn wrong_answers_are_reported() {
    // Each run has its own server, because the files of the previous one may still be closing.
    let check = |what: &str, lie: fn(&mut Vec<u8>) -> bool| {
        let served = serve();
        check(&served, proxy(served.port, lie), user(&served), what);
    };
    check("wrong data", |frame| {
        if answers(frame, READ) {
            *frame.last_mut().expect("not empty") ^= 1;
        }
        true
    });
    check("another length", |frame| {
        // DataLength of the response, reduced by 64 KiB.
        if answers(frame, READ) {
            frame[4 + 64 + 6] -= 1;
        }
        true
    });
    check("part of a WRITE", |frame| {
        if answers(frame, WRITE) {
            frame[4 + 64 + 6] -= 1;
        }
        true
    });
    check("never sent", |frame| {
        if answers(frame, READ) {
            frame[4 + 24] ^= 0x40;
        }
        true
    });
    check("another command", |frame| {
        if answers(frame, READ) {
            frame[4 + 12] = WRITE;
        }
        true
    });
    check("too few credits", |frame| {
        if frame.len() > 68 {
            frame[4 + 14..4 + 16].fill(0);
        }
        true
    });
    check("cannot be decoded", |frame| {
        if answers(frame, READ) {
            frame[4 + 64 + 4..4 + 64 + 8].fill(0xff);
        }
        true
    });
    check("not an SMB frame", |frame| {
        frame[0] = b'H';
        true
    });
    check("cannot be decoded", |frame| {
        frame[4..8].copy_from_slice(b"HTTP");
        true
    });
    check("without a valid signature", |frame| {
        // The last response of the logon is signed, so that it cannot be modified in between.
        if answers(frame, 1) {
            frame[4 + 14] ^= 1;
        }
        true
    });
}
