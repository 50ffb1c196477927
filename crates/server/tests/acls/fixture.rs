//! A server whose share stores security descriptors, and operations of its clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proto::bytes::utf16_bytes;
use proto::dtyp::acl::{Ace, AceFlags};
use proto::dtyp::security_descriptor::Control;
use proto::dtyp::{AccessMask as A, Acl, SecurityDescriptor, Sid};
use proto::smb2::create::{CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ShareAccess};
use proto::smb2::create_context::{CreateContext, QueryMaximalAccessResponse, name};
use proto::smb2::header::Command;
use proto::smb2::{FileId, SecurityInformation};
use proto::status::Status;
use server::answer::block_on;
use server::policy::{Policy, Share};
use server::testing::{self, TestClient, TestServer, status};
use server::vfs::faulty::{Fault, Faulty, Operation, Script};
use server::vfs::memory::Options;
use server::vfs::{Errno, Node, SERVER, SetMetadata};

pub(crate) const ALICE: Sid = Sid::unix_user(1000);
pub(crate) const BOB: Sid = Sid::unix_user(1001);
/// The SIDs of the test accounts: domain 1-2-3, and the user ID.
pub(crate) const BOBS_ACCOUNT: Sid = Sid::of(5, [21, 1, 2, 3, 1001]);
pub(crate) const INHERITED: AceFlags = AceFlags(AceFlags::OBJECT_INHERIT.0 | AceFlags::CONTAINER_INHERIT.0);
pub(crate) const OWNER_GROUP_DACL: SecurityInformation = SecurityInformation(7);

/// A server whose share stores descriptors, with alice and bob on it.
pub(crate) struct Fixture {
    pub(crate) server: TestServer,
    pub(crate) alice: TestClient,
    pub(crate) bob: TestClient,
}

impl Fixture {
    pub(crate) fn new() -> Fixture {
        Fixture::with(|_| {})
    }

    pub(crate) fn with(adjust: impl FnOnce(&mut Share)) -> Fixture {
        Fixture::on(Options { mode: 0o777, ..Options::default() }, adjust)
    }

    /// Creates a fixture on a volume whose files have POSIX ACLs.
    pub(crate) fn with_posix_acls() -> Fixture {
        Fixture::on(Options { mode: 0o777, lists: true, ..Options::default() }, |_| {})
    }

    fn on(options: Options, adjust: impl FnOnce(&mut Share)) -> Fixture {
        let server = TestServer::builder()
            .volume_options(options)
            .share(|share| {
                share.acls.stored = Some(testing::stored_acls());
                adjust(share);
            })
            .start();
        let [alice, bob] = ["alice", "bob"].map(|user| TestClient::logged_on(&server, user));
        Fixture { server, alice, bob }
    }

    /// Returns the file in the underlying file system.
    pub(crate) fn node(&self, name: &str) -> Arc<dyn Node> {
        testing::volume::node(&self.server.volume, name)
    }

    /// Changes the file behind the server's back.
    pub(crate) fn set_metadata(&self, name: &str, new: SetMetadata) {
        block_on(self.node(name).set_metadata(&testing::root(), new)).expect("root has permission");
    }

    /// Changes the file's permissions behind the server's back.
    pub(crate) fn chmod(&self, name: &str, mode: u32) {
        self.set_metadata(name, SetMetadata { mode: Some(mode), ..SetMetadata::default() });
    }

    /// Returns another server with the same share, whose file system is controlled by `script`.
    pub(crate) fn faulty(&self, script: Arc<OneFails>) -> TestServer {
        let volume = Faulty::new(self.server.volume.clone(), script);
        TestServer::builder().policy(Policy::clone(&self.server.policy())).volume(Arc::new(volume)).start()
    }

    pub(crate) fn mode(&self, name: &str) -> u32 {
        block_on(self.node(name).metadata(&SERVER)).expect("the file has metadata").mode
    }
}

pub(crate) fn create(
    client: &mut TestClient,
    path: &str,
    access: A,
    disposition: CreateDisposition,
    directory: bool,
) -> Vec<u8> {
    create_with(client, path, access, disposition, directory, Vec::new())
}

pub(crate) fn create_with(
    client: &mut TestClient,
    path: &str,
    access: A,
    disposition: CreateDisposition,
    directory: bool,
    contexts: Vec<CreateContext<'_>>,
) -> Vec<u8> {
    let path = utf16_bytes(path);
    let create = CreateRequest {
        desired_access: access.0,
        share_access: ShareAccess(7),
        create_disposition: disposition,
        create_options: if directory { CreateOptions::DIRECTORY_FILE } else { CreateOptions(0) },
        name: &path,
        create_contexts: contexts,
        ..CreateRequest::default()
    };
    client.request(Command::CREATE, |out| create.encode(out))
}

pub(crate) fn opened(response: &[u8]) -> FileId {
    assert_eq!(status(response), Status::SUCCESS);
    CreateResponse::decode(response).expect("a well-formed message").file_id
}

pub(crate) fn make(client: &mut TestClient, path: &str, directory: bool) -> FileId {
    opened(&create(client, path, A::FILE_ALL_ACCESS, CreateDisposition::CREATE, directory))
}

/// Returns the status of an open for `access`; a successful open is closed again.
pub(crate) fn open(client: &mut TestClient, path: &str, access: A) -> Status {
    let response = create(client, path, access, CreateDisposition::OPEN, false);
    if status(&response) == Status::SUCCESS {
        client.close(opened(&response));
    }
    status(&response)
}

/// Returns all rights reported in the `MxAc` context.
pub(crate) fn maximum(client: &mut TestClient, path: &str) -> A {
    let asked = vec![CreateContext::new(name::QUERY_MAXIMAL_ACCESS, Vec::new())];
    let response = create_with(client, path, A::READ_CONTROL, CreateDisposition::OPEN, false, asked);
    let contexts = CreateResponse::decode(&response).expect("a well-formed message").create_contexts;
    let context = CreateContext::find(&contexts, name::QUERY_MAXIMAL_ACCESS).expect("it was requested");
    let answer = QueryMaximalAccessResponse::decode(&context.data).expect("a well-formed message");
    client.close(opened(&response));
    A(answer.maximal_access)
}

pub(crate) fn set_dacl(client: &mut TestClient, file_id: FileId, aces: Vec<Ace>) {
    let status = client.set_security(file_id, SecurityInformation::DACL, &with_dacl(Control::NONE, aces));
    assert_eq!(status, Status::SUCCESS);
}

pub(crate) fn with_dacl(control: Control, aces: Vec<Ace>) -> SecurityDescriptor {
    SecurityDescriptor {
        control: control | Control::SELF_RELATIVE | Control::DACL_PRESENT,
        dacl: Acl::new(Acl::REVISION, aces),
        ..SecurityDescriptor::default()
    }
}

pub(crate) fn rules(descriptor: &SecurityDescriptor) -> Vec<(Sid, A, AceFlags)> {
    let of = |ace: &Ace| ace.trustee().map(|(mask, sid)| (*sid, mask, ace.ace_flags));
    descriptor.dacl.iter().flat_map(Acl::aces).filter_map(of).collect()
}

pub(crate) fn allow(sid: Sid, mask: A) -> Ace {
    Ace::allow(sid, mask, AceFlags::NONE)
}

/// Makes one call of certain kinds fail.
pub(crate) struct OneFails {
    pub(crate) kinds: &'static [Operation],
    pub(crate) error: Errno,
    /// Number of such calls before it; with `u64::MAX` none fails.
    pub(crate) before: AtomicU64,
}

impl Script for OneFails {
    fn decide(&self, operation: Operation, _: u64) -> Fault {
        let fails = self.kinds.contains(&operation) && self.before.fetch_sub(1, Ordering::Relaxed) == 0;
        Fault { error: fails.then_some(self.error), ..Fault::default() }
    }
}
