//! `fruit:locking = netatalk`: the share modes that clients and Netatalk's AFP server see of each other.

use std::sync::Arc;

use bytes::Bytes;
use proto::bytes::utf16_bytes;
use proto::smb2::create::{
    CreateDisposition as Disposition, CreateOptions, CreateRequest, CreateResponse, ImpersonationLevel, ShareAccess,
};
use proto::smb2::create_context::DurableHandleRequest;
use proto::smb2::header::Command;
use proto::smb2::lock::{LockElement, LockFlags, LockRequest};
use proto::smb2::{FileId, OplockLevel};
use proto::status::Status;
use server::answer::block_on;
use server::policy::MacPolicy;
use server::testing::{self, TestClient, TestServer, root, status, volume};
use server::vfs::{Access, Create, Errno, NewFile, Node, RangeChange, RangeLock};

/// The first of Netatalk's bytes.
const FIRST: u64 = 0x7fff_ffff_ffff_fff6;
const WRITES: u64 = FIRST;
const READS: u64 = FIRST + 1;
const DENIES_WRITING: u64 = FIRST + 4;
const DENIES_READING: u64 = FIRST + 5;
const BOTH: Access = Access { read: true, write: true };

fn start(netatalk_locks: bool) -> TestServer {
    let share = move |share: &mut server::policy::Share| {
        share.mac = Some(Arc::new(MacPolicy { netatalk_locks, ..MacPolicy::default() }));
    };
    let server = TestServer::builder().share(share).start();
    server.create_locally("file", NewFile::new(Create::File(BOTH), 0o666));
    server
}

/// Opens the file as Netatalk.
fn locally(server: &TestServer) -> Arc<dyn Node> {
    block_on(volume::node(&server.volume, "file").open(&root(), BOTH)).expect("root may open it")
}

fn set(node: &Arc<dyn Node>, byte: u64, after: RangeLock) -> Result<(), Errno> {
    block_on(node.lock(&root(), vec![RangeChange { offset: byte, length: 1, before: RangeLock::Free, after }], false))
}

/// Returns which of the four bytes are locked by others.
fn seen(node: &Arc<dyn Node>) -> [bool; 4] {
    [WRITES, READS, DENIES_WRITING, DENIES_READING]
        .map(|byte| block_on(node.is_locked(&root(), vec![byte])).expect("it is open for data"))
}

fn open(client: &mut TestClient, access: u32, share: u32, disposition: Disposition) -> Result<FileId, Status> {
    let name = utf16_bytes("file");
    let create = CreateRequest {
        impersonation_level: ImpersonationLevel::IMPERSONATION,
        desired_access: access,
        share_access: ShareAccess(share),
        create_disposition: disposition,
        create_options: CreateOptions(0),
        name: &name,
        ..CreateRequest::default()
    };
    let response = client.request(Command::CREATE, |out| create.encode(out));
    match status(&response) {
        Status::SUCCESS => Ok(CreateResponse::decode(&response).expect("a well-formed message").file_id),
        failed => Err(failed),
    }
}

#[test]
fn the_share_modes_of_netatalk_are_respected() {
    let server = start(true);
    let mut client = TestClient::logged_on(&server, "alice");
    let netatalk = locally(&server);
    block_on(netatalk.write(&root(), 0, Bytes::from_static(b"content").into(), false)).expect("there is space");
    for byte in 0..10 {
        let byte = FIRST + byte;
        assert_eq!(set(&netatalk, byte, RangeLock::Shared), Ok(()));
        for access in [1, 2, 3, 0x20, 4, 0x80] {
            for share in 0..8 {
                let (reads, writes) = (access & 0x21 != 0, access & 6 != 0);
                let violates = access != 0x80
                    && (reads && byte == DENIES_READING
                        || writes && byte == DENIES_WRITING
                        || share & 1 == 0 && byte == READS
                        || share & 2 == 0 && byte == WRITES);
                let opened = open(&mut client, access, share, Disposition::OPEN);
                let expected = if violates { Some(Status::SHARING_VIOLATION) } else { None };
                assert_eq!(opened.err(), expected, "byte {}, access {access:x}, share {share}", byte - FIRST);
                opened.into_iter().for_each(|file| client.close(file));
            }
        }
        assert_eq!(set(&netatalk, byte, RangeLock::Free), Ok(()));
    }
    // The content is there as long as others do not permit writing.
    assert_eq!(set(&netatalk, DENIES_WRITING, RangeLock::Shared), Ok(()));
    for disposition in [Disposition::OVERWRITE, Disposition::OVERWRITE_IF, Disposition::SUPERSEDE] {
        assert_eq!(open(&mut client, 1, 7, disposition), Err(Status::SHARING_VIOLATION));
    }
    assert_eq!(block_on(netatalk.metadata(&root())).expect("it exists").size, 7);
    assert_eq!(seen(&netatalk), [false; 4], "refused opens leave no locks");
}

#[test]
fn netatalk_sees_the_share_modes_of_clients() {
    let server = start(true);
    let mut client = TestClient::logged_on(&server, "alice");
    let netatalk = locally(&server);
    for (access, share, expected) in [
        (1, 7, [false, true, false, false]),
        (3, 7, [true, true, false, false]),
        (1, 1, [false, true, true, false]),
        (1, 2, [false, true, false, true]),
        (3, 0, [true; 4]),
        // The kernel does not let it lock, or it has no data access.
        (2, 0, [false; 4]),
        (0x80, 0, [false; 4]),
    ] {
        let file = open(&mut client, access, share, Disposition::OPEN).expect("nothing conflicts");
        assert_eq!(seen(&netatalk), expected, "access {access:x}, share {share}");
        client.close(file);
        assert_eq!(seen(&netatalk), [false; 4], "access {access:x}, share {share}");
    }
    // New and overwritten files.
    let file = open(&mut client, 1, 7, Disposition::OVERWRITE).expect("nothing conflicts");
    assert_eq!(seen(&netatalk), [true, true, false, false]);
    client.close(file);
    let id = block_on(netatalk.metadata(&root())).expect("it exists").id;
    let removed = server.volume.unlink(&root(), &volume::path("file"), id, server::vfs::Kind::File);
    block_on(removed).expect("root may");
    let file = open(&mut client, 3, 1, Disposition::CREATE).expect("nothing conflicts");
    let netatalk = locally(&server);
    assert_eq!(seen(&netatalk), [true, true, true, false]);
    // The end of a connection ends them.
    client.disconnect();
    assert_eq!(seen(&netatalk), [false; 4], "{file:?}");
}

#[test]
fn clients_are_refused_for_each_other_as_without_netatalk() {
    let servers = [true, false].map(start);
    let mut clients = servers.each_ref().map(|server| [0; 2].map(|_| TestClient::logged_on(server, "alice")));
    let modes: Vec<_> = [1, 2, 3, 0x20, 0x1_0000, 0x80]
        .into_iter()
        .flat_map(|access| (0..8).map(move |share| (access, share)))
        .collect();
    for &(access, share) in &modes {
        for &(other_access, other_share) in &modes {
            let [with, without] = clients.each_mut().map(|[one, other]| {
                let file = open(one, access, share, Disposition::OPEN).expect("it is not open");
                let second = open(other, other_access, other_share, Disposition::OPEN);
                second.iter().for_each(|file| other.close(*file));
                one.close(file);
                second.err()
            });
            assert_eq!(with, without, "{access:x} {share}, {other_access:x} {other_share}");
        }
    }
}

#[test]
fn durable_handles_keep_their_share_modes() {
    let server = start(true);
    let mut client = TestClient::logged_on(&server, "alice");
    let netatalk = locally(&server);
    let name = utf16_bytes("file");
    let durable = CreateRequest {
        requested_oplock_level: OplockLevel::BATCH,
        desired_access: 1,
        share_access: ShareAccess(1),
        create_disposition: Disposition::OPEN,
        name: &name,
        create_contexts: vec![DurableHandleRequest.to_context()],
        ..CreateRequest::default()
    };
    let response = client.request(Command::CREATE, |out| durable.encode(out));
    assert_eq!(status(&response), Status::SUCCESS);
    client.disconnect();
    assert_eq!(server.open_count(), 1, "it waits for its client");
    assert_eq!(seen(&netatalk), [false, true, true, false]);
    // Another client ends it.
    let mut other = TestClient::logged_on(&server, "alice");
    let file = open(&mut other, 2, 7, Disposition::OPEN).expect("the durable open ends");
    assert_eq!(seen(&netatalk), [false; 4]);
    other.close(file);
}

#[test]
fn byte_range_locks_of_clients_do_not_remove_share_modes() {
    let server = start(true);
    let mut client = TestClient::logged_on(&server, "alice");
    let netatalk = locally(&server);
    let file = open(&mut client, 3, 5, Disposition::OPEN).expect("nothing conflicts");
    let before = seen(&netatalk);
    for flags in [LockFlags::EXCLUSIVE_LOCK, LockFlags::UNLOCK] {
        let locks = vec![LockElement { offset: 0, length: 1 << 63, flags }];
        let lock = LockRequest { lock_sequence: 0, file_id: file, locks };
        assert_eq!(status(&client.request(Command::LOCK, |out| lock.encode(out))), Status::SUCCESS);
        if flags == LockFlags::EXCLUSIVE_LOCK {
            assert_eq!(seen(&netatalk), [true; 4]);
        }
    }
    assert_eq!(before, [true, true, true, false]);
    assert_eq!(seen(&netatalk), before);
    assert_eq!(set(&netatalk, 0, RangeLock::Exclusive), Ok(()));
    // One that is refused does not either.
    let locks = vec![LockElement {
        offset: 0,
        length: 1 << 63,
        flags: LockFlags(LockFlags::EXCLUSIVE_LOCK.0 | LockFlags::FAIL_IMMEDIATELY.0),
    }];
    let lock = LockRequest { lock_sequence: 0, file_id: file, locks };
    assert_eq!(status(&client.request(Command::LOCK, |out| lock.encode(out))), Status::LOCK_NOT_GRANTED);
    assert_eq!(seen(&netatalk), before);
}

#[test]
fn the_suite_passes_on_remote_storage() {
    const LOCKS: &str = "the storage has no locks";
    testing::passes_on_remote_storage(&[
        ("the_share_modes_of_netatalk_are_respected", LOCKS),
        ("netatalk_sees_the_share_modes_of_clients", LOCKS),
        ("durable_handles_keep_their_share_modes", LOCKS),
        ("byte_range_locks_of_clients_do_not_remove_share_modes", LOCKS),
    ]);
}
