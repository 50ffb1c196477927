use std::sync::Arc;

use proto::dtyp::{AccessMask, SecurityDescriptor, Sid};
use proto::rpc::enumeration::{MAX_PREFERRED_LENGTH, error};
use proto::rpc::ndr::Encoder;
use proto::rpc::srvsvc::opnum;
use proto::smb2::FileId;
use proto::status::Status;

use crate::policy::{Policy, Share, ShareAcls, UserPattern};
use crate::rpc::tests::client::{self, PipeClient};
use crate::rpc::tests::lists::Member::{self, Bytes, Null, Number, Text};
use crate::rpc::tests::lists::{column, decode, last, listing};
use crate::state::Server;
use crate::testing::{TestClient, TestServer};
use crate::vfs::{Access, Create, NewFile};

/// A server that alice administrates.
fn administrated(change: impl FnOnce(&mut Policy)) -> TestServer {
    let configure = |policy: &mut Policy| {
        policy.admin_users = vec![UserPattern::User("alice".into())];
        change(policy);
    };
    TestServer::builder().configure(configure).start()
}

fn pipe(server: &Arc<Server>, user: &str) -> PipeClient {
    PipeClient::new(TestClient::logged_on(server, user), "srvsvc")
}

const SHARE_2: &[Member] = &[Text, Number, Text, Number, Number, Number, Text, Null];
const SHARE_502: &[Member] = &[Text, Number, Text, Number, Number, Number, Text, Null, Number, Bytes];
const SHARE_503: &[Member] = &[Text, Number, Text, Number, Number, Number, Text, Null, Text, Number, Bytes];
const SESSION_502: &[Member] = &[Text, Text, Number, Number, Number, Number, Text, Text];
const FILE_3: &[Member] = &[Number, Number, Number, Text, Text];
const CONNECTION_1: &[Member] = &[Number, Number, Number, Number, Number, Text, Text];

/// All shares have this ACL.
struct OneAcl(Arc<SecurityDescriptor>);

impl ShareAcls for OneAcl {
    fn acl_of(&self, _: &str) -> Option<Arc<SecurityDescriptor>> {
        Some(self.0.clone())
    }
}

#[test]
fn shares_are_listed_at_all_levels() {
    let server = administrated(|policy| {
        let mut share = Share::new("other$", "/srv/other");
        share.comment = "a comment".into();
        share.access.max_connections = 7;
        policy.shares.insert("other$".into(), share.into());
        let acl = SecurityDescriptor { owner: Some(Sid::BUILTIN_ADMINISTRATORS), ..SecurityDescriptor::default() };
        policy.share_acls = Some(Arc::new(OneAcl(Arc::new(acl))));
    });
    let mut pipes = [pipe(&server, "alice"), pipe(&server, "bob")];
    let (mut third, _) = with_file(&server, "bob", "one");
    third.tree_connect("IPC$");
    for call in [opnum::NETR_SHARE_ENUM, opnum::NETR_SHARE_ENUM_STICKY] {
        for (level, members) in [
            (0, &[Text][..]),
            (1, &[Text, Number, Text]),
            (2, SHARE_2),
            (501, &[Text, Number, Text, Number]),
            (502, SHARE_502),
            (503, SHARE_503),
        ] {
            for (pipe, administrates) in pipes.iter_mut().zip([true, false]) {
                let listed = decode(&pipe.call(call, &listing(&[], level, MAX_PREFERRED_LENGTH, Some(0))), members);
                if (call, level) == (opnum::NETR_SHARE_ENUM_STICKY, 501) {
                    assert_eq!(listed.status, error::INVALID_LEVEL);
                    continue;
                }
                if call == opnum::NETR_SHARE_ENUM_STICKY {
                    assert_eq!((column(&listed, 0), listed.status), (vec!["share"], error::SUCCESS), "{level}");
                    continue;
                }
                assert_eq!((listed.total, listed.resume, listed.status), (3, Some(0), error::SUCCESS), "{level}");
                assert_eq!(column(&listed, 0), ["other$", "share", "IPC$"], "{level}");
                let other = &listed.entries[0];
                if level == 2 {
                    let path = if administrates { "C:\\srv\\other" } else { "" };
                    assert_eq!(other[1..], ["2147483648", "a comment", "0", "7", "0", path]);
                    assert_eq!(column(&listed, 5), ["0", "3", "3"]);
                }
                if level == 502 {
                    assert_ne!(other[7], "0", "the ACL");
                }
            }
        }
    }
    let unknown = pipes[1].call(opnum::NETR_SHARE_ENUM, &listing(&[], 999, 0, None));
    assert_eq!(last(&unknown), error::INVALID_LEVEL);
}

#[test]
fn many_shares_are_listed_at_once_or_in_parts() {
    let server = administrated(|policy| {
        for number in 0..3_000 {
            let name = format!("s{number:04}");
            policy.shares.insert(name.clone(), Share::new(&name, "/srv").into());
        }
    });
    let mut pipe = pipe(&server, "bob");
    let whole = pipe.call(opnum::NETR_SHARE_ENUM, &listing(&[], 1, MAX_PREFERRED_LENGTH, None));
    let whole = decode(&whole, &[Text, Number, Text]);
    assert_eq!((whole.entries.len(), whole.total, whole.status), (3_002, 3_002, error::SUCCESS));
    let (mut parts, mut resume) = (Vec::new(), 0);
    loop {
        let part = pipe.call(opnum::NETR_SHARE_ENUM, &listing(&[], 1, 10_000, Some(resume)));
        assert!(part.len() < 10_100);
        let part = decode(&part, &[Text, Number, Text]);
        assert_eq!(part.total as usize, 3_002 - parts.len());
        parts.extend(part.entries);
        resume = part.resume.expect("a handle");
        if part.status == error::SUCCESS {
            break;
        }
        assert_eq!(part.status, error::MORE_DATA);
    }
    assert_eq!(parts, whole.entries);
    let none = decode(&pipe.call(opnum::NETR_SHARE_ENUM, &listing(&[], 1, 10, Some(0))), &[Text, Number, Text]);
    assert_eq!((none.entries.len(), none.status), (0, error::BUF_TOO_SMALL));
}

#[test]
fn a_list_ends_where_the_memory_of_its_user_does() {
    let server = administrated(|policy| {
        policy.limits.pipe_bytes = 1 << 20;
        for number in 0..5_000 {
            let mut share = Share::new(&format!("s{number:04}"), "/srv");
            share.comment = "x".repeat(100);
            policy.shares.insert(share.name.clone(), share.into());
        }
    });
    let mut pipe = pipe(&server, "bob");
    let part = decode(
        &pipe.call(opnum::NETR_SHARE_ENUM, &listing(&[], 1, MAX_PREFERRED_LENGTH, Some(0))),
        &[Text, Number, Text],
    );
    assert_eq!((part.total, part.status), (5_002, error::MORE_DATA));
    assert_eq!(part.resume, Some(part.entries.len() as u32));
    assert!((500..4_000).contains(&part.entries.len()), "{}", part.entries.len());
}

#[test]
fn a_share_is_described_at_all_levels() {
    let server = administrated(|_| {});
    let mut pipe = pipe(&server, "bob");
    let mut info = |name: &str, level: u32| {
        let mut out = Encoder::default();
        out.null();
        out.string(name);
        out.u32(level);
        pipe.call(opnum::NETR_SHARE_GET_INFO, &out.into_bytes())
    };
    for level in [0, 1, 2, 501, 502, 503, 1005] {
        assert_eq!(last(&info("SHARE", level)), error::SUCCESS, "{level}");
        assert_eq!(last(&info("ipc$", level)), error::SUCCESS, "{level}");
        assert_eq!(last(&info("none", level)), error::NET_NAME_NOT_FOUND, "{level}");
        assert_eq!(last(&info("", level)), error::INVALID_PARAMETER, "{level}");
    }
    assert_eq!(last(&info("share", 7)), error::INVALID_LEVEL);
}

#[test]
fn sessions_are_listed_for_administrators() {
    let server = administrated(|_| {});
    let mut alice = pipe(&server, "alice");
    let mut bob = pipe(&server, "bob");
    for (level, members) in [
        (0, &[Text][..]),
        (1, &[Text, Text, Number, Number, Number, Number]),
        (2, &[Text, Text, Number, Number, Number, Number, Text]),
        (10, &[Text, Text, Number, Number]),
        (502, SESSION_502),
    ] {
        let list = |pipe: &mut PipeClient, client: Option<&str>, user: Option<&str>| {
            let stub = listing(&[client, user], level, MAX_PREFERRED_LENGTH, Some(0));
            decode(&pipe.call(opnum::NETR_SESSION_ENUM, &stub), members)
        };
        let all = list(&mut alice, None, None);
        assert_eq!((all.entries.len(), all.total, all.status), (2, 2, error::SUCCESS));
        if level != 0 {
            let mut users = column(&all, 1);
            users.sort_unstable();
            assert_eq!(users, ["alice", "bob"]);
        }
        let address = all.entries[0][0].clone();
        let of_client = list(&mut alice, Some(&format!("\\\\{address}")), Some("BOB"));
        assert_eq!((of_client.entries.len(), of_client.status), (1, error::SUCCESS));
        assert_eq!(list(&mut alice, Some(&address), None).status, error::INVALID_COMPUTER);
        assert_eq!(list(&mut alice, Some("\\\\198.51.100.7"), None).status, error::CLIENT_NAME_NOT_FOUND);
        assert_eq!(list(&mut alice, None, Some("carol")).status, error::USER_NOT_FOUND);
        assert_eq!(list(&mut alice, None, Some(&"x".repeat(1024))).status, error::INVALID_PARAMETER);
        let refused = list(&mut bob, None, None);
        assert_eq!((refused.entries.len(), refused.status), (0, error::ACCESS_DENIED));
    }
    let unknown = alice.call(opnum::NETR_SESSION_ENUM, &listing(&[None, None], 3, 0, None));
    assert_eq!(last(&unknown), error::INVALID_LEVEL);
    let first = listing(&[None, None], 0, 64, Some(0));
    let first = decode(&alice.call(opnum::NETR_SESSION_ENUM, &first), &[Text]);
    assert_eq!((first.entries.len(), first.resume, first.status), (1, Some(1), error::MORE_DATA));
    let second = listing(&[None, None], 0, 64, Some(1));
    let second = decode(&alice.call(opnum::NETR_SESSION_ENUM, &second), &[Text]);
    assert_eq!((second.entries.len(), second.resume, second.status), (1, Some(0), error::SUCCESS));
}

/// Returns a client with a file that it has opened.
fn with_file(server: &TestServer, user: &str, path: &str) -> (TestClient, FileId) {
    server.create_locally(path, NewFile::new(Create::File(Access::default()), 0o666));
    let mut client = TestClient::logged_on(server, user);
    let file = client.open(path, AccessMask(0x0012_019f));
    (client, file)
}

/// Returns the number of an open in listings.
fn number_of(file: FileId) -> u32 {
    file.persistent as u32 & 0x7fff_ffff
}

#[test]
fn open_files_are_listed_for_administrators() {
    let server = administrated(|_| {});
    let mut alice = pipe(&server, "alice");
    let (mut bob, file) = with_file(&server, "bob", "one");
    let (_carol, _) = with_file(&server, "alice", "two");
    let mut list = |base: Option<&str>, user: Option<&str>| {
        let stub = listing(&[base, user], 3, MAX_PREFERRED_LENGTH, Some(0));
        decode(&alice.call(opnum::NETR_FILE_ENUM, &stub), FILE_3)
    };
    let all = list(None, None);
    assert_eq!((all.entries.len(), all.total, all.status), (2, 2, error::SUCCESS));
    let one = list(Some("c:\\SHARE\\o"), None);
    assert_eq!((column(&one, 3), column(&one, 4)), (vec!["C:\\share\\one"], vec!["bob"]));
    assert_eq!(one.entries[0][0], number_of(file).to_string());
    assert_eq!(one.entries[0][1], "39", "reading, writing, appending and setting attributes");
    assert_eq!(list(None, Some("BOB")), one);
    assert_eq!(list(Some(&"x".repeat(1024)), None).status, error::INVALID_PARAMETER);
    assert_eq!(last(&alice.call(opnum::NETR_FILE_ENUM, &listing(&[None, None], 1, 0, None))), error::INVALID_LEVEL);

    let info = |id: u32, level: u32| {
        let mut out = Encoder::default();
        out.null();
        out.u32(id);
        out.u32(level);
        out.into_bytes()
    };
    let id = number_of(file);
    for (level, expected) in [(2, error::SUCCESS), (3, error::SUCCESS), (4, error::INVALID_LEVEL)] {
        assert_eq!(last(&alice.call(opnum::NETR_FILE_GET_INFO, &info(id, level))), expected);
    }
    bob.close(file);
    assert_eq!(last(&alice.call(opnum::NETR_FILE_GET_INFO, &info(id, 2))), error::FILE_NOT_FOUND);
    let mut bob = PipeClient::new(bob, "srvsvc");
    assert_eq!(last(&bob.call(opnum::NETR_FILE_GET_INFO, &info(id, 2))), error::ACCESS_DENIED);
    assert_eq!(last(&bob.call(opnum::NETR_FILE_ENUM, &listing(&[None, None], 2, 0, None))), error::ACCESS_DENIED);
}

#[test]
fn many_open_files_are_listed_in_parts() {
    const OPENS: usize = 1_000;
    let server = administrated(|_| {});
    let mut alice = pipe(&server, "alice");
    let (mut bob, _) = with_file(&server, "bob", "one");
    for _ in 1..OPENS {
        bob.open("one", AccessMask(0x0012_019f));
    }
    let mut list = |length: u32, resume: u32| {
        let stub = listing(&[None, None], 3, length, Some(resume));
        decode(&alice.call(opnum::NETR_FILE_ENUM, &stub), FILE_3)
    };
    let whole = list(MAX_PREFERRED_LENGTH, 0);
    assert_eq!((whole.entries.len(), whole.total as usize, whole.status), (OPENS, OPENS, error::SUCCESS));
    let (mut parts, mut resume, mut calls) = (Vec::new(), 0, 0);
    loop {
        let part = list(8_192, resume);
        parts.extend(part.entries);
        (resume, calls) = (part.resume.expect("a handle"), calls + 1);
        if part.status == error::SUCCESS {
            break;
        }
        assert_eq!(part.status, error::MORE_DATA);
    }
    let ids = |entries: &[Vec<String>]| {
        let mut ids: Vec<String> = entries.iter().map(|entry| entry[0].clone()).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    };
    assert!(calls > 5, "{calls} calls");
    assert_eq!((parts.len(), ids(&parts)), (OPENS, ids(&whole.entries)));
}

#[test]
fn tree_connects_are_listed_for_administrators() {
    let server = administrated(|_| {});
    let mut alice = pipe(&server, "alice");
    let (bob, _) = with_file(&server, "bob", "one");
    let list = |pipe: &mut PipeClient, qualifier: Option<&str>| {
        let stub = listing(&[qualifier], 1, MAX_PREFERRED_LENGTH, None);
        decode(&pipe.call(opnum::NETR_CONNECTION_ENUM, &stub), CONNECTION_1)
    };
    let share = list(&mut alice, Some("SHARE"));
    let of_bob = share.entries.iter().find(|entry| entry[5] == "bob").expect("bob's tree connect");
    assert_eq!((&*of_bob[2], share.total, share.status), ("1", 2, error::SUCCESS));
    let client = list(&mut alice, Some(&format!("\\\\{}", of_bob[6])));
    assert_eq!((client.total, client.status), (3, error::SUCCESS));
    let mut names = column(&client, 6);
    names.sort_unstable();
    assert_eq!(names, ["IPC$", "share", "share"]);
    assert_eq!(list(&mut alice, Some("none")).total, 0);
    for invalid in [None, Some(""), Some(&*"x".repeat(1024))] {
        assert_eq!(list(&mut alice, invalid).status, error::INVALID_PARAMETER);
    }
    assert_eq!(
        last(&alice.call(opnum::NETR_CONNECTION_ENUM, &listing(&[Some("a")], 2, 0, None))),
        error::INVALID_LEVEL
    );
    assert_eq!(list(&mut PipeClient::new(bob, "srvsvc"), Some("share")).status, error::ACCESS_DENIED);
}

#[test]
fn the_server_is_described() {
    let server = administrated(|_| {});
    for (user, detailed) in [("alice", error::SUCCESS), ("bob", error::ACCESS_DENIED)] {
        let mut pipe = pipe(&server, user);
        for (level, expected) in [
            (100, error::SUCCESS),
            (101, error::SUCCESS),
            (102, detailed),
            (103, detailed),
            (104, error::INVALID_LEVEL),
        ] {
            let mut out = Encoder::default();
            out.null();
            out.u32(level);
            assert_eq!(last(&pipe.call(opnum::NETR_SERVER_GET_INFO, &out.into_bytes())), expected, "{user} {level}");
        }
        let mut out = Encoder::default();
        out.null();
        let time = pipe.call(opnum::NETR_REMOTE_TOD, &out.into_bytes());
        assert_eq!((time.len(), last(&time)), (56, error::SUCCESS));
        for (level, members) in
            [(0, &[Number, Text, Bytes, Number, Text][..]), (1, &[Number, Text, Bytes, Number, Text, Text])]
        {
            let stub = listing(&[], level, MAX_PREFERRED_LENGTH, Some(0));
            let listed = decode(&pipe.call(opnum::NETR_SERVER_TRANSPORT_ENUM, &stub), members);
            assert_eq!((listed.total, listed.status), (1, error::SUCCESS));
            assert_eq!((&*listed.entries[0][0], &*listed.entries[0][1]), ("1", "\\Device\\NetbiosSmb"));
        }
        let stub = listing(&[], 2, MAX_PREFERRED_LENGTH, Some(0));
        assert_eq!(last(&pipe.call(opnum::NETR_SERVER_TRANSPORT_ENUM, &stub)), error::INVALID_LEVEL);
    }
}

#[test]
fn names_are_validated() {
    let mut pipe = pipe(&TestServer::new(), "bob");
    let mut validate = |name: &str, kind: u32, flags: u32| {
        let mut out = Encoder::default();
        out.null();
        out.string(name);
        out.u32(kind);
        out.u32(flags);
        last(&pipe.call(opnum::NETPR_NAME_VALIDATE, &out.into_bytes()))
    };
    assert_eq!((validate("share", 9, 0), validate("share", 9, 0x8000_0000)), (error::SUCCESS, error::SUCCESS));
    assert_eq!((validate("a/b", 9, 0), validate("", 9, 0)), (error::INVALID_NAME, error::INVALID_NAME));
    assert_eq!((validate("a", 14, 0), validate("a", 9, 1)), (error::INVALID_PARAMETER, error::INVALID_PARAMETER));
}

/// Encodes the arguments of NetrSessionDel.
fn session_del(client: Option<&str>, user: Option<&str>) -> Vec<u8> {
    let mut out = Encoder::default();
    out.null();
    for name in [client, user] {
        match name {
            Some(name) => {
                out.pointer();
                out.string(name);
            }
            None => out.null(),
        }
    }
    out.into_bytes()
}

/// Returns whether the client's session still exists.
fn is_logged_on(client: &mut TestClient) -> bool {
    client.tree_connect("share") == Status::SUCCESS
}

#[test]
fn administrators_end_sessions() {
    let server = administrated(|_| {});
    let mut alice = pipe(&server, "alice");
    let (mut bob, _) = with_file(&server, "bob", "one");
    let mut del = |client: Option<&str>, user: Option<&str>| {
        last(&alice.call(opnum::NETR_SESSION_DEL, &session_del(client, user)))
    };
    assert_eq!(del(None, None), error::INVALID_PARAMETER);
    assert_eq!(del(Some("bob"), None), error::CLIENT_NAME_NOT_FOUND);
    assert_eq!(del(None, Some("carol")), error::CLIENT_NAME_NOT_FOUND);
    assert_eq!(del(Some("\\\\198.51.100.7"), Some("bob")), error::CLIENT_NAME_NOT_FOUND);
    assert_eq!(del(None, Some(&"x".repeat(1024))), error::INVALID_PARAMETER);
    assert!(is_logged_on(&mut bob));
    assert_eq!(del(None, Some("BOB")), error::SUCCESS);
    assert!(!is_logged_on(&mut bob));
    assert_eq!(del(None, Some("bob")), error::CLIENT_NAME_NOT_FOUND);
    let mut bob = pipe(&server, "bob");
    let refused = bob.call(opnum::NETR_SESSION_DEL, &session_del(None, Some("alice")));
    assert_eq!(last(&refused), error::ACCESS_DENIED);
    // A user who ends their own session gets no answer, and the server continues.
    let own = client::fragments(opnum::NETR_SESSION_DEL, &session_del(None, Some("alice")));
    alice.write(&own[0]);
    assert!(!is_logged_on(&mut alice.client));
    assert!(is_logged_on(&mut bob.client));
}

#[test]
fn administrators_close_files() {
    let server = administrated(|_| {});
    let mut alice = pipe(&server, "alice");
    let (mut bob, file) = with_file(&server, "bob", "one");
    let close = |pipe: &mut PipeClient, id: u32| {
        let mut out = Encoder::default();
        out.null();
        out.u32(id);
        last(&pipe.call(opnum::NETR_FILE_CLOSE, &out.into_bytes()))
    };
    let id = number_of(file);
    assert_eq!(close(&mut pipe(&server, "bob"), id), error::ACCESS_DENIED);
    assert_eq!(close(&mut alice, id ^ 1), error::FILE_ID_NOT_FOUND);
    assert_eq!(close(&mut alice, id), error::SUCCESS);
    assert_eq!(close(&mut alice, id), error::FILE_ID_NOT_FOUND);
    assert!(is_logged_on(&mut bob), "only the file is closed");
    assert_eq!(server.open_files(), 0);
}
