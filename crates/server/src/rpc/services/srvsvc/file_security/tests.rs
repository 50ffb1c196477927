use std::sync::Arc;

use proto::bytes::utf16_bytes;
use proto::dtyp::acl::{Ace, AceFlags};
use proto::dtyp::security_descriptor::Control;
use proto::dtyp::{AccessMask, Acl, SecurityDescriptor, Sid};
use proto::rpc::enumeration::error;
use proto::rpc::ndr::{Decoder, Encoder};
use proto::rpc::srvsvc::opnum;
use proto::smb2::create::{CreateDisposition, CreateRequest, CreateResponse, ImpersonationLevel, ShareAccess};
use proto::smb2::header::{Command, Header};
use proto::smb2::{FileId, OplockLevel, SecurityInformation};
use proto::status::Status;

use crate::audit::{Destinations, Queue};
use crate::policy::audit::{Audit, Destination, Operations, Overflow};
use crate::policy::limits::AUDIT_QUEUE_BYTES;
use crate::policy::{Encryption, Share};
use crate::rpc::tests::client::PipeClient;
use crate::rpc::tests::lists::last;
use crate::testing::{self, ManualClock, TestClient, TestServer};
use crate::vfs::memory::Options;
use crate::vfs::{Access, Create, NewFile};

const OWNER_GROUP_DACL: u32 = 7;
const DACL: u32 = 4;

/// A server with a share that stores descriptors, in which anybody may create files.
fn server(adjust: impl FnOnce(&mut Share)) -> TestServer {
    TestServer::builder()
        .clock(ManualClock::new())
        .volume_options(Options { mode: 0o777, ..Options::default() })
        .share(|share| {
            share.acls.stored = Some(testing::stored_acls());
            adjust(share);
        })
        .start()
}

fn pipe(server: &TestServer, user: &str) -> PipeClient {
    PipeClient::new(TestClient::logged_on(server, user), "srvsvc")
}

/// Encodes the file and the parts.
fn asked(share: Option<&str>, name: &str, parts: u32) -> Encoder {
    let mut out = Encoder::default();
    out.null();
    match share {
        Some(share) => {
            out.pointer();
            out.string(share);
        }
        None => out.null(),
    }
    out.string(name);
    out.u32(parts);
    out
}

fn get(pipe: &mut PipeClient, share: Option<&str>, name: &str, parts: u32) -> Result<SecurityDescriptor, u32> {
    let results = pipe.call(opnum::NETRP_GET_FILE_SECURITY, &asked(share, name, parts).into_bytes());
    if last(&results) != error::SUCCESS {
        assert_eq!(results.len(), 8, "no descriptor");
        return Err(last(&results));
    }
    let mut decoder = Decoder::new(&results);
    let mut next = || decoder.u32().expect("a number");
    let (_, length, _, max) = (next(), next(), next(), next());
    assert_eq!(length, max);
    Ok(SecurityDescriptor::decode(decoder.bytes(length as usize).expect("bytes")).expect("a descriptor"))
}

fn set_stub(name: &str, parts: u32, descriptor: &SecurityDescriptor) -> Vec<u8> {
    let (mut out, bytes) = (asked(Some("share"), name, parts), descriptor.to_bytes());
    out.u32(bytes.len() as u32);
    out.pointer();
    out.u32(bytes.len() as u32);
    out.array(1, &bytes);
    out.into_bytes()
}

fn set(pipe: &mut PipeClient, name: &str, parts: u32, descriptor: &SecurityDescriptor) -> u32 {
    last(&pipe.call(opnum::NETRP_SET_FILE_SECURITY, &set_stub(name, parts, descriptor)))
}

/// A descriptor that gives these rights to all users.
fn for_all(rights: AccessMask) -> SecurityDescriptor {
    let ace = Ace::allow(Sid::EVERYONE, rights, AceFlags::NONE);
    SecurityDescriptor {
        control: Control::DACL_PRESENT,
        dacl: Acl::new(Acl::REVISION, vec![ace]),
        ..SecurityDescriptor::default()
    }
}

/// Creates a file and opens it, with an oplock.
fn create(client: &mut TestClient, name: &str, access: AccessMask, oplock: OplockLevel) -> FileId {
    let name = utf16_bytes(name);
    let create = CreateRequest {
        requested_oplock_level: oplock,
        impersonation_level: ImpersonationLevel::IMPERSONATION,
        desired_access: access.0,
        share_access: ShareAccess(7),
        create_disposition: CreateDisposition::OPEN_IF,
        name: &name,
        ..CreateRequest::default()
    };
    let response = client.request(Command::CREATE, |out| create.encode(out));
    CreateResponse::decode(&response).expect("the file is opened").file_id
}

#[test]
fn the_descriptor_is_that_of_query_info() {
    let server = server(|_| {});
    server.create_locally("dir", NewFile::new(Create::Directory, 0o755));
    let mut alice = TestClient::logged_on(&server, "alice");
    for name in ["file", "file:stream"] {
        let file = create(&mut alice, name, AccessMask::FILE_ALL_ACCESS, OplockLevel::NONE);
        alice.close(file);
    }
    let mut pipe = pipe(&server, "bob");
    for name in ["file", "file:stream", "dir", ""] {
        let file = alice.open(name, AccessMask::READ_CONTROL);
        for parts in [OWNER_GROUP_DACL, DACL, 1] {
            let expected = alice.security(file, SecurityInformation(parts));
            assert_eq!(get(&mut pipe, Some("share"), name, parts), Ok(expected.clone()), "{name}");
            assert_eq!(get(&mut pipe, Some("SHARE"), &format!("\\{name}"), parts), Ok(expected), "{name}");
        }
        alice.close(file);
    }
    assert_eq!(server.open_files(), 0);
}

#[test]
fn what_is_missing_or_outside_of_the_share_is_refused() {
    let server = server(|share| share.names.veto_files = vec!["secret".into()]);
    server.create_locally("file", NewFile::new(Create::File(Access::default()), 0o644));
    server.create_locally("secret", NewFile::new(Create::File(Access::default()), 0o644));
    let mut pipe = pipe(&server, "bob");
    for (share, name, status) in [
        (Some("share"), "none", error::FILE_NOT_FOUND),
        (Some("share"), "none\\file", error::PATH_NOT_FOUND),
        (Some("share"), "secret", error::FILE_NOT_FOUND),
        (Some("share"), "file\\file", error::PATH_NOT_FOUND),
        (Some("none"), "file", error::NET_NAME_NOT_FOUND),
        (Some("IPC$"), "srvsvc", error::NET_NAME_NOT_FOUND),
        (Some(""), "file", error::NET_NAME_NOT_FOUND),
        (None, "C:\\share\\file", error::NET_NAME_NOT_FOUND),
    ] {
        assert_eq!(get(&mut pipe, share, name, DACL), Err(status), "{share:?} {name}");
    }
    for name in ["..\\file", "..", "dir\\..\\..\\etc", "/etc/passwd", "\\\\file", "a\0b"] {
        let got = get(&mut pipe, Some("share"), name, DACL);
        assert!(got.is_err_and(|status| status != error::SUCCESS), "{name:?}");
    }
    assert_eq!(get(&mut pipe, Some("share"), "file", 8), Err(error::PRIVILEGE_NOT_HELD));
    assert_eq!(server.open_files(), 0);
}

#[test]
fn only_rights_that_the_user_has_count() {
    let server = server(|_| {});
    let mut alice = TestClient::logged_on(&server, "alice");
    let file = create(&mut alice, "file", AccessMask::FILE_ALL_ACCESS, OplockLevel::NONE);
    let (mut own, mut bob) = (pipe(&server, "alice"), pipe(&server, "bob"));
    let shut = for_all(AccessMask::FILE_READ_DATA);
    assert_eq!(set(&mut own, "file", DACL, &shut), error::SUCCESS);
    assert_eq!(set(&mut bob, "file", DACL, &for_all(AccessMask::FILE_ALL_ACCESS)), error::ACCESS_DENIED);
    let dacl = |descriptor: SecurityDescriptor| descriptor.dacl;
    assert_eq!(dacl(alice.security(file, SecurityInformation(DACL))), shut.dacl);
    assert_eq!(get(&mut bob, Some("share"), "file", DACL), Err(error::ACCESS_DENIED));
    assert_eq!(get(&mut own, Some("share"), "file", DACL).map(dacl), Ok(shut.dacl), "the owner may read it");
    assert_eq!(set(&mut own, "file", 8, &SecurityDescriptor::default()), error::PRIVILEGE_NOT_HELD);
    let mut invalid = asked(Some("share"), "file", DACL);
    invalid.u32(3);
    invalid.pointer();
    invalid.u32(3);
    invalid.array(1, &[1, 2, 3]);
    let status = last(&own.call(opnum::NETRP_SET_FILE_SECURITY, &invalid.into_bytes()));
    assert_eq!(status, error::INVALID_PARAMETER);
}

#[test]
fn a_share_that_refuses_the_user_or_the_change_refuses_the_call() {
    let server = server(|share| share.access.read_only = true);
    server.create_locally("file", NewFile::new(Create::File(Access::default()), 0o644));
    let mut bob = pipe(&server, "bob");
    assert!(get(&mut bob, Some("share"), "file", DACL).is_ok());
    assert_eq!(set(&mut bob, "file", DACL, &for_all(AccessMask::FILE_ALL_ACCESS)), error::ACCESS_DENIED);

    let server = TestServer::builder()
        .configure(|policy| {
            let mut share = Share::new("sealed", "/share");
            share.access.server_smb_encrypt = Encryption::Required;
            policy.shares.insert("sealed".into(), Arc::new(share));
        })
        .start();
    server.create_locally("file", NewFile::new(Create::File(Access::default()), 0o644));
    let mut bob = pipe(&server, "bob");
    assert!(get(&mut bob, Some("share"), "file", DACL).is_ok());
    assert_eq!(get(&mut bob, Some("sealed"), "file", DACL), Err(error::ACCESS_DENIED));
}

/// One queue for all destinations.
struct Events(Arc<Queue>);

impl Destinations for Events {
    fn queue(&self, _: &Destination) -> Arc<Queue> {
        Arc::clone(&self.0)
    }
}

#[test]
fn a_change_that_cannot_be_recorded_is_refused_if_configured() {
    let queue = Arc::<Queue>::default();
    let success = Operations::parse(["fset_nt_acl"]).expect("a known name");
    let server = TestServer::builder()
        .clock(ManualClock::new())
        .audit(Arc::new(Events(Arc::clone(&queue))))
        .volume_options(Options { mode: 0o777, ..Options::default() })
        .share(|share| {
            share.acls.stored = Some(testing::stored_acls());
            share.audit = Some(Arc::new(Audit { success, overflow: Overflow::Refuse, ..Audit::default() }));
        })
        .start();
    let mut client = TestClient::logged_on(&server, "alice");
    create(&mut client, "file", AccessMask::FILE_READ_DATA, OplockLevel::NONE);
    let mut alice = pipe(&server, "alice");
    let full = queue.reserve(AUDIT_QUEUE_BYTES / 2).expect("all the room for requests");
    assert_ne!(set(&mut alice, "file", DACL, &for_all(AccessMask::FILE_ALL_ACCESS)), error::SUCCESS);
    assert!(get(&mut alice, Some("share"), "file", DACL).is_ok(), "a query has no event");
    assert_eq!((queue.numbers().refused, queue.numbers().waiting), (1, 0));
    drop(full);
    assert_eq!(set(&mut alice, "file", DACL, &for_all(AccessMask::FILE_ALL_ACCESS)), error::SUCCESS);
    assert_eq!((queue.numbers().lost, queue.numbers().waiting), (0, 1));
    assert!(queue.reserve(AUDIT_QUEUE_BYTES / 2 - queue.numbers().bytes).is_some(), "nothing is reserved any more");
}

#[test]
fn a_call_waits_for_an_oplock_break_under_its_own_async_id() {
    let server = server(|_| {});
    let mut holder = TestClient::logged_on(&server, "bob");
    let file = create(&mut holder, "file", AccessMask::FILE_ALL_ACCESS, OplockLevel::BATCH);
    let mut pipe = pipe(&server, "bob");
    let stub = set_stub("file", DACL, &for_all(AccessMask::FILE_ALL_ACCESS));
    let frames = pipe.post(opnum::NETRP_SET_FILE_SECURITY, &stub);
    let header = |frame: &[u8]| Header::decode(frame).expect("a header");
    assert_eq!(frames.len(), 1, "an interim response");
    let interim = header(&frames[0]);
    assert_eq!((interim.command, interim.status), (Command::WRITE, Status::PENDING));
    assert!(interim.is_async());
    // The holder closes the file in response to the break.
    holder.proceed();
    holder.close(file);
    let frames = pipe.client.proceed();
    assert_eq!(frames.len(), 1, "a final response");
    let answer = header(&frames[0]);
    assert_eq!((answer.command, answer.status), (Command::WRITE, Status::SUCCESS));
    assert_eq!((answer.async_id(), answer.message_id), (interim.async_id(), interim.message_id));
    assert_eq!(last(&pipe.read()), error::SUCCESS);
    assert_eq!(server.open_files(), 0);
}
