//! Tests with a minimal directory on a socket that behaves correctly or incorrectly.

mod in_server;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use server::accounts::DomainSid;

use super::*;
use crate::unix::Key;
use ldap::ber::{ENUMERATED, INTEGER, OCTET_STRING, Reader, SEQUENCE, SET, Writer, whole_length};

/// The action of a fake server on a request: its number, the tag of the operation, the whole message, and the stream.
type Serve = Arc<dyn Fn(usize, i32, u8, &[u8], &mut TcpStream) + Send + Sync>;

struct Fake {
    port: u16,
    asked: Arc<AtomicUsize>,
}

impl Fake {
    fn start(serve: impl Fn(usize, i32, u8, &[u8], &mut TcpStream) + Send + Sync + 'static) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (asked, serve): (_, Serve) = (Arc::new(AtomicUsize::new(0)), Arc::new(serve));
        let count = asked.clone();
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let (serve, count) = (serve.clone(), count.clone());
                std::thread::spawn(move || talk(stream, &serve, &count));
            }
        });
        Fake { port, asked }
    }

    fn uri(&self) -> Uri {
        Uri::Tcp { host: "127.0.0.1".into(), port: self.port, tls: false }
    }
}

fn talk(mut stream: TcpStream, serve: &Serve, count: &AtomicUsize) {
    let mut bytes = Vec::new();
    loop {
        while let Ok(Some(length)) = whole_length(&bytes)
            && length <= bytes.len()
        {
            let message: Vec<u8> = bytes.drain(..length).collect();
            let mut reader = Reader::new(&message).expect(SEQUENCE).unwrap();
            let id = reader.number(INTEGER).unwrap();
            let tag = reader.peek().unwrap();
            // Binds are not counted.
            let number = if tag == 0x60 { 0 } else { count.fetch_add(1, Ordering::SeqCst) + 1 };
            serve(number, id, tag, &message, &mut stream);
        }
        let mut part = [0; 4096];
        match stream.read(&mut part) {
            Ok(0) | Err(_) => return,
            Ok(length) => bytes.extend_from_slice(&part[..length]),
        }
    }
}

fn message(id: i32, build: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut to = Writer::default();
    to.nested(SEQUENCE, |to| {
        to.number(INTEGER, id);
        build(to);
    });
    to.0.to_vec()
}

fn done(id: i32, tag: u8, code: i32) -> Vec<u8> {
    message(id, |to| {
        to.nested(tag, |to| {
            to.number(ENUMERATED, code);
            to.string("");
            to.string("as the fake says");
        });
    })
}

fn entry(id: i32, name: &str) -> Vec<u8> {
    let attributes = [
        ("uid", name),
        ("uidNumber", "1001"),
        ("gidNumber", "1002"),
        ("sambaSID", "S-1-5-21-1-2-3-1000"),
        ("sambaNTPassword", "A4F49C406510BDCAB6824EE7C30FD852"),
        ("sambaAcctFlags", "[U          ]"),
    ];
    found(id, &format!("uid={name},dc=x"), &attributes)
}

fn found(id: i32, dn: &str, attributes: &[(&str, &str)]) -> Vec<u8> {
    message(id, |to| {
        to.nested(0x64, |to| {
            to.string(dn);
            to.nested(SEQUENCE, |to| {
                for (attribute, value) in attributes {
                    to.nested(SEQUENCE, |to| {
                        to.string(attribute);
                        to.nested(SET, |to| to.string(value));
                    });
                }
            });
        });
    })
}

/// Returns the value that the search in `message` looks for first.
fn wanted(message: &[u8]) -> String {
    let at = message.windows(3).position(|bytes| bytes == b"uid").unwrap() + 3;
    let mut rest = Reader::new(&message[at..]);
    String::from_utf8(rest.expect(OCTET_STRING).unwrap().rest().to_vec()).unwrap()
}

/// Accepts every bind, and finds every requested account.
fn friendly(id: i32, tag: u8, message: &[u8], stream: &mut TcpStream) {
    let answer = match tag {
        0x60 => done(id, 0x61, 0),
        _ => [entry(id, &wanted(message)), done(id, 0x65, 0)].concat(),
    };
    stream.write_all(&answer).unwrap();
}

fn settings(servers: Vec<Uri>) -> Settings {
    Settings {
        name: "ldapsam:fake".into(),
        servers,
        suffix: "dc=x".into(),
        user_suffix: "dc=x".into(),
        group_suffix: "dc=x".into(),
        admin_dn: String::new(),
        start_tls: false,
        authority: None,
        timeout: Duration::from_secs(10),
        connection_timeout: Duration::from_secs(5),
        page_size: 100,
        deref: Deref::Never,
        delete_dn: false,
        trusted: false,
        domain: "FAKE".into(),
    }
}

/// Returns the accounts of such servers, on a host where every account has a UNIX user.
fn open(servers: Vec<Uri>, change: impl FnOnce(&mut Settings)) -> Ldap {
    let mut settings = settings(servers);
    change(&mut settings);
    let user = |key: &Key| {
        let Key::Name(name) = key else { return Ok(None) };
        let identity = Arc::new(server::vfs::Identity { uid: 100, gid: 5, groups: Box::new([]) });
        Ok(Some(crate::unix::User { name: name.clone(), identity, groups: Arc::new([]) }))
    };
    Ldap::open(&settings, "/nonexistent".into(), DomainSid([1, 2, 3]), Users::new(None, Box::new(user))).unwrap()
}

fn name(found: Result<Option<Entry>, Unavailable>) -> Option<String> {
    found.unwrap().map(|entry| entry.record.name.clone())
}

fn why(found: Result<Option<Entry>, Unavailable>) -> String {
    found.err().expect("an error").0
}

#[tokio::test]
async fn one_connection_returns_answers_in_any_order() {
    // Answers are sent in pairs, the later query's first.
    let held = parking_lot::Mutex::new(Vec::new());
    let fake = Fake::start(move |_, id, tag, message, stream| {
        if tag == 0x60 {
            return friendly(id, tag, message, stream);
        }
        let mut held = held.lock();
        held.insert(0, [entry(id, &wanted(message)), done(id, 0x65, 0)].concat());
        if held.len() == 2 {
            held.drain(..).for_each(|answer| stream.write_all(&answer).unwrap());
        }
    });
    let ldap = open(vec![fake.uri()], |_| {});
    let (ann, bob) = tokio::join!(ldap.find("ann"), ldap.find("bob (or *) \\"));
    assert_eq!((name(ann).unwrap(), name(bob).unwrap()), ("ann".to_owned(), "bob (or *) \\".to_owned()));
}

#[tokio::test]
async fn an_answer_is_cached_and_queried_again_after_use() {
    let fake = Fake::start(|_, id, tag, message, stream| friendly(id, tag, message, stream));
    let ldap = open(vec![fake.uri()], |_| {});
    let asked = || fake.asked.load(Ordering::SeqCst);
    assert_eq!(name(ldap.find("ann").await).unwrap(), "ann");
    assert_eq!(name(ldap.find_anew("ann").await).unwrap(), "ann");
    assert_eq!(asked(), 1);
    for _ in 0..3 {
        assert!(matches!(ldap.find("Ann"), Answer::Now(_)));
    }
    assert_eq!(asked(), 1);
    assert_eq!(name(ldap.find_anew("ann").await).unwrap(), "ann");
    assert_eq!(asked(), 2);
}

#[tokio::test]
async fn a_repeated_query_uses_the_fresh_answer() {
    let fake = Fake::start(|_, id, tag, message, stream| friendly(id, tag, message, stream));
    let ldap = open(vec![fake.uri()], |_| {});
    assert_eq!(name(ldap.find("ann").await).unwrap(), "ann");
    // Two logons have used the cached answer, and both proofs fail.
    for _ in 0..2 {
        assert!(matches!(ldap.find("ann"), Answer::Now(_)));
    }
    assert_eq!(name(ldap.find_anew("ann").await).unwrap(), "ann");
    assert_eq!(name(ldap.find_anew("ann").await).unwrap(), "ann");
    assert_eq!(fake.asked.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_trusted_directory_never_falls_back_to_host_users() {
    // The host's user of that name might be any user, including root.
    let fake = Fake::start(|_, id, tag, message, stream| {
        if tag == 0x60 {
            return friendly(id, tag, message, stream);
        }
        let attributes = [("uid", "root"), ("sambaSID", "S-1-5-21-1-2-3-1000"), ("gidNumber", "1002")];
        let with_minus_one = [&attributes[..], &[("uidNumber", "4294967295")]].concat();
        let root = match wanted(message).as_str() {
            "root" => found(id, "uid=root,dc=x", &attributes),
            _ => found(id, "uid=root,dc=x", &with_minus_one),
        };
        stream.write_all(&[root, done(id, 0x65, 0)].concat()).unwrap();
    });
    let ldap = open(vec![fake.uri()], |settings| settings.trusted = true);
    assert!(name(ldap.find("root").await).is_none());
    assert!(name(ldap.find("ann").await).is_none());
    // `frevo user list` does not show it as the host's user either.
    let shown = ldap.people.get("root").await.unwrap().unwrap();
    assert!(shown.user.is_none() && shown.refused.is_some_and(|why| why.contains("uidNumber")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_answers_close_the_connection_and_are_reported() {
    let bad: [&[u8]; 4] = [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        &[0x30, 0x84, 0x7f, 0xff, 0xff, 0xff],
        &[0x30, 0x05, 0x02, 0x01, 0x02, 0x7f, 0x00],
        &[0x30, 0x06, 0x02, 0x01, 0x02, 0x65, 0x01, 0x0a],
    ];
    for bytes in bad {
        let fake = Fake::start(move |_, id, tag, message, stream| match tag {
            0x60 => friendly(id, tag, message, stream),
            _ => stream.write_all(bytes).unwrap(),
        });
        let said = why(open(vec![fake.uri()], |_| {}).find("ann").await);
        assert!(said.contains("not an LDAP message") || said.contains("a message of"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_answer_is_skipped() {
    let silent = Fake::start(|_, id, tag, message, stream| {
        if tag == 0x60 {
            friendly(id, tag, message, stream);
        }
    });
    let busy = Fake::start(|_, id, tag, message, stream| match tag {
        0x60 => friendly(id, tag, message, stream),
        _ => stream.write_all(&done(id, 0x65, 51)).unwrap(),
    });
    let well = Fake::start(|_, id, tag, message, stream| friendly(id, tag, message, stream));
    let servers = vec![silent.uri(), busy.uri(), well.uri()];
    let ldap = open(servers, |settings| settings.timeout = Duration::from_secs(2));
    for user in ["ann", "bob"] {
        assert_eq!(name(ldap.find(user).await).unwrap(), user);
    }
    let asked = |fake: &Fake| fake.asked.load(Ordering::SeqCst);
    assert_eq!((asked(&silent), asked(&busy), asked(&well)), (1, 1, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_server_the_error_lists_all_and_cached_accounts_remain_valid() {
    let fake = Fake::start(|number, id, tag, message, stream| match number {
        0 | 1 => friendly(id, tag, message, stream),
        _ => stream.shutdown(std::net::Shutdown::Both).unwrap(),
    });
    // A socket that is bound and does not listen keeps every other program off the port.
    let bound = tokio::net::TcpSocket::new_v4().unwrap();
    bound.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let gone = Uri::Tcp { host: "127.0.0.1".into(), port: bound.local_addr().unwrap().port(), tls: false };
    let ldap = open(vec![gone.clone(), fake.uri()], |_| {});
    assert_eq!(name(ldap.find("ann").await).unwrap(), "ann");
    let said = why(ldap.find("bob").await);
    assert!(said.contains(&fake.uri().to_string()), "{said}");
    // The cached answer is used. The query whether it is still valid fails.
    assert_eq!(name(ldap.find("ann").await).unwrap(), "ann");
    assert!(why(ldap.find_anew("ann").await).contains("no LDAP server answers"));
    assert_eq!(name(ldap.people.find("ann").await).unwrap(), "ann");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_idle_connection_is_replaced() {
    let fake = Fake::start(|number, id, tag, message, stream| {
        friendly(id, tag, message, stream);
        if number > 0 {
            stream.shutdown(std::net::Shutdown::Both).unwrap();
        }
    });
    let ldap = open(vec![fake.uri()], |_| {});
    for user in ["ann", "bob", "cid", "dora", "erik", "fred", "gina"] {
        assert_eq!(name(ldap.find(user).await).unwrap(), user);
    }
}

#[tokio::test]
async fn a_refused_search_or_bind_is_reported() {
    let check = async |bind: i32, search: i32, expected: &str| {
        let fake = Fake::start(move |_, id, tag, _, stream| {
            let answer = if tag == 0x60 { done(id, 0x61, bind) } else { done(id, 0x65, search) };
            stream.write_all(&answer).unwrap();
        });
        let said = why(open(vec![fake.uri()], |_| {}).find("ann").await);
        assert!(said.contains(expected), "{said}");
    };
    check(49, 0, "frevo user ldap-password").await;
    check(8, 0, "strongerAuthRequired (8), as the fake says").await;
    check(0, 32, "check `ldap suffix`").await;
    check(0, 53, "unwillingToPerform (53), as the fake says").await;
    check(0, 3, "check that uid is indexed").await;
}

#[tokio::test]
async fn groups_need_one_search_and_named_members_are_resolved() {
    for named in [false, true] {
        let asked = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let seen = asked.clone();
        let fake = Fake::start(move |_, id, tag, message, stream| {
            let has = |text: &str| message.windows(text.len()).any(|bytes| bytes == text.as_bytes());
            if tag == 0x60 || has("sambaSamAccount") {
                return friendly(id, tag, message, stream);
            }
            let crew = found(id, "cn=crew", &[("cn", "crew"), ("gidNumber", "20")]);
            // The search for any group with members by DN is a presence filter without a value.
            let any = has("\u{6}member") && !has("memberUid");
            seen.lock().push(if any {
                "any"
            } else if has(",dc=x") {
                "by name"
            } else {
                "by uid"
            });
            let first = if any && !named { Vec::new() } else { crew };
            stream.write_all(&[first, done(id, 0x65, 0)].concat()).unwrap();
        });
        let ldap = open(vec![fake.uri()], |settings| settings.trusted = true);
        for user in ["ann", "bob", "ann"] {
            let user = ldap.find(user).await.unwrap().unwrap().user.unwrap();
            assert_eq!((user.identity.uid, user.identity.gid, &*user.identity.groups), (1001, 1002, &[20][..]));
            assert_eq!(*user.groups, ["1002", "crew"]);
        }
        let each = if named { "by name" } else { "by uid" };
        assert_eq!(*asked.lock(), ["any", each, each]);
        assert_eq!(fake.asked.load(Ordering::SeqCst), 5);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_after_a_starttls_answer_is_refused() {
    let certificate = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(certificate.path(), CERTIFICATE).unwrap();
    let authority = certificate.path().to_owned();
    let check = async |answer: fn(i32) -> Vec<u8>, expected: &str| {
        let fake = Fake::start(move |_, id, tag, _, stream| {
            assert_eq!(tag, 0x77, "a request was sent before TLS");
            stream.write_all(&answer(id)).unwrap();
        });
        let tls = |settings: &mut Settings| {
            (settings.start_tls, settings.authority) = (true, Some(authority.clone()));
        };
        let said = why(open(vec![fake.uri()], tls).find("ann").await);
        assert!(said.contains(expected), "{said}");
    };
    check(|id| done(id, 0x78, 2), "refuses StartTLS").await;
    check(|id| [done(id, 0x78, 0), done(2, 0x61, 0)].concat(), "data after the answer").await;
    check(|id| entry(id, "ann"), "data after the answer").await;
}

/// The certificate of an authority whose key no longer exists.
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\n\
MIIBdTCCARugAwIBAgIUYb2HrZ1LPPRwrgxkQRSF5SNLoOcwCgYIKoZIzj0EAwIw\n\
DzENMAsGA1UEAwwEdGVzdDAgFw0yNjExMjExNzA1MDBaGA8yMTI2MTAyODE3MDUw\n\
MFowDzENMAsGA1UEAwwEdGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABPln\n\
R287EtnhnPQ5Qz37U3cCPCFcPC3EYGDIKDsaYgK8ezdNoge9leogSOrKUhUH7nJm\n\
tBt5rTdMgXJOPRMeDc2jUzBRMB0GA1UdDgQWBBRgnAohWq/e9eMW49UEtIA3izNt\n\
NTAfBgNVHSMEGDAWgBRgnAohWq/e9eMW49UEtIA3izNtNTAPBgNVHRMBAf8EBTAD\n\
AQH/MAoGCCqGSM49BAMCA0gAMEUCIQCiiXAec79KjtXKuB7qXWxT88gf7Zu+nNIA\n\
CSSuXX9WYQIgN+qJi9yXvHIxBr9Mira1lWyNIyeakc+EQqvnHp/SVT8=\n\
-----END CERTIFICATE-----\n";
