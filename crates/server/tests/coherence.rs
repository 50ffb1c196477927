//! A share on storage that others change too: when changes of descriptors take effect, and what clients may cache.
//!
//! The clock of the storage has a granularity of a second, and stands still unless the test advances it.

use std::sync::Arc;
use std::time::Duration;

use proto::bytes::{Writer, utf16_bytes};
use proto::dtyp::acl::{Ace, AceFlags};
use proto::dtyp::security_descriptor::Control;
use proto::dtyp::{AccessMask, Acl, SecurityDescriptor, Sid};
use proto::smb2::create::{CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ShareAccess};
use proto::smb2::create_context::{
    CreateContext, DurableHandleFlags, DurableHandleRequest, DurableHandleRequestV2, DurableHandleResponseV2, LeaseV1,
    name,
};
use proto::smb2::header::Command;
use proto::smb2::ioctl::{FsctlCode, IoctlFlags, IoctlRequest, NetworkResiliencyRequest};
use proto::smb2::negotiate::{Capabilities, Dialect};
use proto::smb2::{FileId, LeaseState, OplockLevel, SecurityInformation};
use proto::status::Status;
use server::acl::ntacl;
use server::answer::block_on;
use server::environment::Environment;
use server::policy::{Share, StoredAcls};
use server::testing::{self, ManualClock, TestClient, TestServer, status, volume};
use server::vfs::memory::Options;
use server::vfs::remote::{Coherence, Remote};
use server::vfs::{Access, Create, NewFile, SetXattr, Vfs};

/// The milliseconds for which a test waits between steps, so that changes and reports lie between reads, or at the same
/// time, within a second of the storage's clock and outside it.
const PAUSES: [u64; 7] = [0, 50, 90, 150, 500, 950, 1_100];

/// A server on remote storage, with alice and bob on it.
struct Stage {
    clock: ManualClock,
    storage: Arc<Remote>,
    server: TestServer,
    alice: TestClient,
    bob: TestClient,
}

impl Stage {
    fn new(coherence: Coherence, change: impl FnOnce(&mut Share)) -> Stage {
        let clock = ManualClock::new();
        let options = Options { mode: 0o777, ..Options::default() };
        let storage = volume::remote(Arc::new(clock.clone()), options, coherence);
        let server = TestServer::builder().clock(clock.clone()).volume(storage.clone()).share(change).start();
        let [alice, bob] = ["alice", "bob"].map(|user| TestClient::logged_on(&server, user));
        Stage { clock, storage, server, alice, bob }
    }

    /// A stage whose share enforces stored descriptors, whatever the permissions of the storage are.
    fn with_descriptors(coherence: Coherence) -> Stage {
        let acls = StoredAcls { ignore_system_acls: true, ..testing::stored_acls() };
        Stage::new(coherence, |share| share.acls.stored = Some(acls))
    }

    fn advance(&self, milliseconds: u64) {
        self.clock.advance(Duration::from_millis(milliseconds));
    }

    /// Lets the next second of the storage's clock begin.
    fn begin_second(&self) {
        self.advance(1_000 - self.uptime().as_millis() as u64 % 1_000);
    }

    fn uptime(&self) -> Duration {
        self.clock.uptime()
    }

    /// Creates what `kind` says with a descriptor that grants `rights` to all, as another client of the storage would.
    fn create(&self, path: &str, kind: Create, rights: AccessMask) {
        let new = NewFile::new(kind, 0o777);
        block_on(self.storage.storage().create(&testing::root(), &volume::path(path), new)).expect("the name is free");
        self.grant(path, rights);
    }

    /// Sets a descriptor that grants `rights` to all, as another client of the storage would.
    fn grant(&self, path: &str, rights: AccessMask) {
        let value = Some(ntacl::encode_unconditional(&granting(rights)));
        let node = volume::node(&self.storage.storage(), path);
        block_on(node.set_xattr(&testing::root(), ntacl::ATTRIBUTE, value, SetXattr::Any)).expect("the server may");
    }
}

/// Returns a descriptor that grants `rights` to all.
fn granting(rights: AccessMask) -> SecurityDescriptor {
    SecurityDescriptor {
        control: Control::SELF_RELATIVE | Control::DACL_PRESENT,
        owner: Some(Sid::unix_user(0)),
        group: Some(Sid::unix_group(0)),
        dacl: Acl::new(Acl::REVISION, vec![Ace::allow(Sid::EVERYONE, rights, AceFlags::NONE)]),
        ..SecurityDescriptor::default()
    }
}

/// Returns the status of a CREATE whose open, if there is one, is closed again.
fn attempt(client: &mut TestClient, path: &str, access: AccessMask, how: (CreateDisposition, CreateOptions)) -> Status {
    let path = utf16_bytes(path);
    let create = CreateRequest {
        desired_access: access.0,
        share_access: ShareAccess(7),
        create_disposition: how.0,
        create_options: how.1,
        name: &path,
        ..CreateRequest::default()
    };
    let response = client.request(Command::CREATE, |out| create.encode(out));
    if status(&response) == Status::SUCCESS {
        client.close(CreateResponse::decode(&response).expect("a well-formed message").file_id);
    }
    status(&response)
}

fn reads(client: &mut TestClient, path: &str) -> bool {
    match attempt(client, path, AccessMask::FILE_READ_DATA, (CreateDisposition::OPEN, CreateOptions(0))) {
        Status::SUCCESS => true,
        status => {
            assert_eq!(status, Status::ACCESS_DENIED);
            false
        }
    }
}

const READ: AccessMask = AccessMask::FILE_GENERIC_READ;
const NOTHING: AccessMask = AccessMask::READ_CONTROL;

/// Returns the pauses before a first read, before the change, and before a read of the old state.
fn pauses() -> impl Iterator<Item = [u64; 3]> {
    PAUSES
        .into_iter()
        .flat_map(|first| PAUSES.into_iter().flat_map(move |second| PAUSES.map(|third| [first, second, third])))
}

/// A read just before the change or just after it must not let the former state stay.
#[test]
fn a_descriptor_that_another_client_changes_is_honoured_after_the_stated_delay() {
    for coherence in [Coherence::Callback, Coherence::Timestamp] {
        let mut stage = Stage::with_descriptors(coherence);
        let shown = stage.storage.capabilities().changes.shown_within().expect("others change the files");
        for (number, [before_read, before_change, after_change]) in pauses().enumerate() {
            let what = format!("{coherence:?}: {before_read}, {before_change} and {after_change} ms");
            let path = number.to_string();
            stage.begin_second();
            stage.create(&path, Create::File(Access::default()), READ);
            stage.advance(before_read);
            let open = stage.alice.open(&path, NOTHING);
            assert!(reads(&mut stage.bob, &path), "{what}");
            stage.advance(before_change);
            assert!(reads(&mut stage.bob, &path), "{what}");
            stage.grant(&path, NOTHING);
            let changed = stage.uptime();
            stage.advance(after_change);
            // The result depends on the time. A look-up of the name would ask the storage.
            stage.alice.security(open, SecurityInformation::DACL);
            stage.clock.advance((changed + shown).saturating_sub(stage.uptime()));
            let dacl = stage.alice.security(open, SecurityInformation::DACL).dacl;
            assert_eq!(dacl, granting(NOTHING).dacl, "{what}");
            assert!(!reads(&mut stage.bob, &path), "{what}");
            stage.alice.close(open);
        }
    }
}

#[test]
fn a_descriptor_that_a_client_of_the_server_changes_is_honoured_at_once() {
    for coherence in Coherence::ALL {
        let mut stage = Stage::with_descriptors(coherence);
        for (number, [before_read, before_change, _]) in pauses().filter(|pauses| pauses[2] == 0).enumerate() {
            let what = format!("{coherence:?}: {before_read} and {before_change} ms");
            let path = number.to_string();
            stage.begin_second();
            stage.create(&path, Create::File(Access::default()), AccessMask::FILE_ALL_ACCESS);
            stage.advance(before_read);
            let open = stage.alice.open(&path, AccessMask::FILE_ALL_ACCESS);
            assert!(reads(&mut stage.bob, &path), "{what}");
            stage.advance(before_change);
            assert!(reads(&mut stage.bob, &path), "{what}");
            let set = stage.alice.set_security(open, SecurityInformation::DACL, &granting(NOTHING));
            assert_eq!(set, Status::SUCCESS, "{what}");
            assert!(!reads(&mut stage.bob, &path), "{what}");
            stage.alice.close(open);
        }
    }
}

/// The look-up of a missing name returns the directory, whose descriptor decides, with its version.
#[test]
fn the_descriptor_of_a_directory_is_honoured_after_the_stated_delay() {
    const ADD: AccessMask = AccessMask(AccessMask::FILE_ADD_FILE.0 | NOTHING.0);
    for coherence in [Coherence::Callback, Coherence::Timestamp] {
        let mut stage = Stage::with_descriptors(coherence);
        let shown = stage.storage.capabilities().changes.shown_within().expect("others change the files");
        for (number, [before_read, before_change, after_change]) in pauses().enumerate() {
            let what = format!("{coherence:?}: {before_read}, {before_change} and {after_change} ms");
            let path = number.to_string();
            stage.begin_second();
            stage.create(&path, Create::Directory, ADD);
            let adds = |stage: &mut Stage, name: &str, options| {
                let (path, how) = (format!(r"{path}\{name}"), (CreateDisposition::CREATE, options));
                attempt(&mut stage.bob, &path, AccessMask::FILE_READ_ATTRIBUTES, how)
            };
            stage.advance(before_read);
            let open = stage.alice.open(&path, NOTHING);
            assert_eq!(adds(&mut stage, "a", CreateOptions(0)), Status::SUCCESS, "{what}");
            stage.advance(before_change);
            // This reads the descriptor and changes nothing.
            assert_eq!(adds(&mut stage, "b", CreateOptions::DIRECTORY_FILE), Status::ACCESS_DENIED, "{what}");
            stage.grant(&path, NOTHING);
            let changed = stage.uptime();
            stage.advance(after_change);
            // The result depends on the time. A look-up of the name would ask the storage.
            stage.alice.security(open, SecurityInformation::DACL);
            stage.clock.advance((changed + shown).saturating_sub(stage.uptime()));
            assert_eq!(adds(&mut stage, "c", CreateOptions(0)), Status::ACCESS_DENIED, "{what}");
            stage.alice.close(open);
        }
    }
}

/// What a client may cache or keep.
#[derive(PartialEq, Eq, Debug, Default)]
struct Grants {
    oplock: OplockLevel,
    lease: LeaseState,
    durable: bool,
    durable_v2: bool,
    persistent: bool,
    resilient: bool,
}

/// Opens or creates `path`, and returns the granted oplock and the data of the context `name` of the response.
fn ask(
    client: &mut TestClient,
    path: &str,
    oplock: OplockLevel,
    contexts: Vec<CreateContext<'_>>,
    name: &[u8],
) -> (FileId, OplockLevel, Option<Vec<u8>>) {
    let path = utf16_bytes(path);
    let create = CreateRequest {
        requested_oplock_level: oplock,
        desired_access: AccessMask::FILE_ALL_ACCESS.0,
        share_access: ShareAccess(7),
        create_disposition: CreateDisposition::OPEN_IF,
        name: &path,
        create_contexts: contexts,
        ..CreateRequest::default()
    };
    let response = client.request(Command::CREATE, |out| create.encode(out));
    assert_eq!(status(&response), Status::SUCCESS);
    let response = CreateResponse::decode(&response).expect("a well-formed message");
    let data = CreateContext::find(&response.create_contexts, name).map(|context| context.data.to_vec());
    (response.file_id, response.oplock_level, data)
}

/// Returns what the clients of a share get that ask for everything.
fn granted(coherence: Coherence, change: impl FnOnce(&mut Share)) -> Grants {
    let Stage { server, alice: mut client, .. } = Stage::new(coherence, |share| {
        share.handles.continuously_available = true;
        share.locks.posix_locking = false;
        change(share);
    });
    let durable = vec![DurableHandleRequest.to_context()];
    let (_, oplock, durable) = ask(&mut client, "a", OplockLevel::BATCH, durable, name::DURABLE_HANDLE_REQUEST);
    let lease = LeaseV1 { lease_key: [1; 16], lease_state: LeaseState(7), ..LeaseV1::default() };
    let (.., lease) = ask(&mut client, "b", OplockLevel::LEASE, vec![lease.to_context()], name::REQUEST_LEASE);
    let lease = lease.map(|data| LeaseV1::decode(&data).expect("a well-formed context").lease_state);
    let (file_id, ..) = ask(&mut client, "c", OplockLevel::NONE, Vec::new(), &[]);
    let mut input = Vec::new();
    NetworkResiliencyRequest { timeout: 1_000 }.encode(&mut Writer::new(&mut input));
    let ctl_code = FsctlCode::LMR_REQUEST_RESILIENCY;
    let resiliency =
        IoctlRequest { ctl_code, file_id, flags: IoctlFlags::IS_FSCTL, input: &input, ..IoctlRequest::default() };
    let resilient = status(&client.request(Command::IOCTL, |out| resiliency.encode(out))) == Status::SUCCESS;
    let mut client = TestClient::new(&server);
    (client.dialect, client.guid) = (Dialect::SMB_3_0, [8; 16]);
    client.capabilities = Capabilities::PERSISTENT_HANDLES;
    let mut client = client.ready("alice");
    let mut second_version = |path: &str, create_guid, flags| {
        let asked = DurableHandleRequestV2 { timeout: 0, flags, create_guid };
        let name = name::DURABLE_HANDLE_REQUEST_V2;
        let (.., data) = ask(&mut client, path, OplockLevel::BATCH, vec![asked.to_context()], name);
        data.map(|data| DurableHandleResponseV2::decode(&data).expect("a well-formed context").flags)
    };
    let durable_v2 = second_version("d", [1; 16], DurableHandleFlags::NONE);
    let persistent = second_version("e", [2; 16], DurableHandleFlags::PERSISTENT);
    Grants {
        oplock,
        lease: lease.unwrap_or_default(),
        durable: durable.is_some(),
        durable_v2: durable_v2.is_some(),
        persistent: persistent == Some(DurableHandleFlags::PERSISTENT),
        resilient,
    }
}

/// The capabilities of the storage do not decide, because a share may also be used through this server only.
#[test]
fn the_settings_of_the_share_alone_decide_what_clients_may_cache_and_keep() {
    for coherence in Coherence::ALL {
        let all = Grants {
            oplock: OplockLevel::BATCH,
            lease: LeaseState(7),
            durable: true,
            durable_v2: true,
            persistent: true,
            resilient: true,
        };
        assert_eq!(granted(coherence, |_| {}), all, "{coherence:?}");
        let uncached = |share: &mut Share| share.caching.oplocks = false;
        let kept = Grants { persistent: true, resilient: true, ..Grants::default() };
        assert_eq!(granted(coherence, uncached), kept, "{coherence:?}: handles need no oplock if they are persistent");
        let nothing = |share: &mut Share| {
            share.caching.oplocks = false;
            share.handles.durable_handles = false;
        };
        assert_eq!(granted(coherence, nothing), Grants::default(), "{coherence:?}");
    }
}

/// `kernel oplocks` needs storage that reports opens by others ([`Capabilities::leases`]), which this storage is not.
///
/// [`Capabilities::leases`]: server::vfs::Capabilities::leases
#[test]
fn kernel_oplocks_grant_no_caching_on_storage_that_does_not_report_opens() {
    for coherence in Coherence::ALL {
        let kernel = |share: &mut Share| share.caching.kernel_oplocks = true;
        let kept = Grants { persistent: true, resilient: true, ..Grants::default() };
        assert_eq!(granted(coherence, kernel), kept, "{coherence:?}");
    }
}

#[test]
fn the_suite_passes_on_remote_storage() {
    testing::passes_on_remote_storage(&[]);
}
