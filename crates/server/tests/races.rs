//! Operations of one client while an operation of another one is in progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use proto::bytes::{Writer, utf16_bytes};
use proto::dtyp::acl::{Ace, AceFlags};
use proto::dtyp::security_descriptor::Control;
use proto::dtyp::{AccessMask as A, Acl, SecurityDescriptor, Sid};
use proto::fscc::{FileInformationClass, FileRenameInformation};
use proto::smb2::close::{CloseFlags, CloseRequest};
use proto::smb2::create::{CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ShareAccess};
use proto::smb2::create_context::{AllocationSize, LeaseFlags, LeaseV1};
use proto::smb2::header::Command;
use proto::smb2::set_info::SetInfoRequest;
use proto::smb2::write::WriteRequest;
use proto::smb2::{FileId, InfoType, LeaseState, OplockLevel, SecurityInformation};
use proto::status::Status;
use server::testing::{self, ManualClock, TestClient, TestServer, TestServerBuilder, status};
use server::vfs::Errno;
use server::vfs::faulty::{self, Fault, Faulty, Operation, Script, Seeded};

/// A server whose file system delays every call.
fn slow_server() -> TestServer {
    slow(TestServer::builder()).start()
}

fn slow(server: TestServerBuilder) -> TestServerBuilder {
    let script = Seeded { seed: 1, delayed: 1000, longest: 1, failing: 0, errors: Vec::new() };
    server.wrap_volume(|volume| Faulty::new(volume, Arc::new(script)))
}

fn create(client: &mut TestClient, name: &str, change: impl FnOnce(&mut CreateRequest<'_>)) -> Vec<u8> {
    let name = utf16_bytes(name);
    let mut create = CreateRequest {
        desired_access: 0x0013_019f,
        share_access: ShareAccess(7),
        create_disposition: CreateDisposition::OPEN_IF,
        name: &name,
        ..CreateRequest::default()
    };
    change(&mut create);
    client.compose(Command::CREATE, |out| create.encode(out))
}

fn finish(client: &mut TestClient, mut frames: Vec<Vec<u8>>) -> Vec<u8> {
    for _ in 0..1000 {
        if let Some(last) = frames.iter().rev().find(|frame| status(frame) != Status::PENDING) {
            return last.clone();
        }
        frames.extend(client.proceed());
    }
    panic!("not answered");
}

fn open(client: &mut TestClient, name: &str, change: impl FnOnce(&mut CreateRequest<'_>)) -> Result<FileId, Status> {
    let message = create(client, name, change);
    let frames = client.send(&message);
    opened(&finish(client, frames))
}

fn opened(response: &[u8]) -> Result<FileId, Status> {
    CreateResponse::decode(response).map(|response| response.file_id).map_err(|_| status(response))
}

fn exists(client: &mut TestClient, name: &str) -> bool {
    let found = open(client, name, |create| create.create_disposition = CreateDisposition::OPEN);
    found.map(|file| client.close(file)).is_ok()
}

fn set(client: &mut TestClient, file_id: FileId, class: FileInformationClass, buffer: &[u8]) -> Vec<u8> {
    let request = SetInfoRequest {
        info_type: InfoType::FILE,
        file_info_class: class.0,
        additional_information: SecurityInformation::NONE.0,
        file_id,
        buffer,
    };
    client.compose(Command::SET_INFO, |out| request.encode(out))
}

fn rename_to(name: &str, replace_if_exists: bool) -> Vec<u8> {
    let (name, mut bytes) = (utf16_bytes(name), Vec::new());
    FileRenameInformation { replace_if_exists, root_directory: 0, file_name: &name }
        .encode(&mut Writer::new(&mut bytes));
    bytes
}

/// If a file is renamed while a client opens it for deletion, the file is deleted under its new name.
#[test]
fn a_file_that_is_renamed_while_it_is_opened() {
    let mut overtaken = 0;
    for steps in 0..40 {
        let server = slow_server();
        let (mut first, mut second) =
            (TestClient::logged_on(&server, "alice"), TestClient::logged_on(&server, "alice"));
        let file = open(&mut first, "before", |_| {}).expect("it can be created");
        let delete = create(&mut second, "before", |create| {
            create.create_disposition = CreateDisposition::OPEN;
            create.create_options = CreateOptions::DELETE_ON_CLOSE;
        });
        second.post(&delete);
        let mut frames: Vec<_> = (0..steps).flat_map(|_| second.proceed()).collect();
        let rename = set(&mut first, file, FileInformationClass::RENAME, &rename_to("after", false));
        first.post(&rename);
        let renamed = finish(&mut first, Vec::new());
        assert_eq!(status(&renamed), Status::SUCCESS, "{steps}");
        frames.extend(second.proceed());
        let deleting = opened(&finish(&mut second, frames));
        first.close(file);
        if let Ok(deleting) = deleting {
            second.close(deleting);
            overtaken += 1;
        }
        assert_eq!(exists(&mut first, "after"), deleting.is_err(), "{steps}");
        assert!(!exists(&mut first, "before"), "{steps}");
        assert_eq!(server.open_count(), 0, "{steps}");
    }
    assert!((1..40).contains(&overtaken), "{overtaken}");
}

/// A rename or link with a name that was free replaces no file that a client created in the meantime and holds open.
#[test]
fn a_name_that_is_taken_during_a_rename() {
    for class in [FileInformationClass::RENAME, FileInformationClass::LINK] {
        let (mut renamed, mut refused) = (0, 0);
        for steps in 0..60 {
            let server = slow_server();
            let (mut first, mut second) =
                (TestClient::logged_on(&server, "alice"), TestClient::logged_on(&server, "alice"));
            let file = open(&mut first, "file", |_| {}).expect("it can be created");
            let rename = set(&mut first, file, class, &rename_to("taken", true));
            first.post(&rename);
            let mut frames: Vec<_> = (0..steps).flat_map(|_| first.proceed()).collect();
            let other = open(&mut second, "taken", |create| {
                create.create_disposition = CreateDisposition::CREATE;
            });
            frames.extend(first.proceed());
            match (status(&finish(&mut first, frames)), other) {
                (Status::SUCCESS, Err(Status::OBJECT_NAME_COLLISION)) => renamed += 1,
                (Status::ACCESS_DENIED, Ok(_)) => {
                    assert!(exists(&mut first, "file") && exists(&mut first, "taken"), "{steps}");
                    refused += 1;
                }
                outcome => panic!("{steps}: {outcome:?}"),
            }
        }
        assert!(renamed > 0 && refused > 0, "{renamed}, {refused}");
    }
}

/// Refuses all renames as a file system does if the new name exists, and counts them.
#[derive(Default)]
struct NamesExist(AtomicU64);

impl Script for NamesExist {
    fn decide(&self, operation: Operation, _: u64) -> Fault {
        if operation != Operation::Rename {
            return Fault::default();
        }
        self.0.fetch_add(1, Ordering::Relaxed);
        Fault { error: Some(Errno::EXIST), ..Fault::default() }
    }
}

/// A file system never lets a directory replace a file, so the rename is not tried again.
#[test]
fn a_directory_does_not_replace_a_file() {
    let script = Arc::new(NamesExist::default());
    let decides = script.clone();
    let server = TestServer::builder().wrap_volume(|volume| Faulty::new(volume, decides)).start();
    let mut client = TestClient::logged_on(&server, "alice");
    let file = open(&mut client, "file", |_| {}).expect("it can be created");
    client.close(file);
    for (options, attempts, refusal) in [
        (CreateOptions::DIRECTORY_FILE, 1, Status::OBJECT_NAME_COLLISION),
        (CreateOptions::NON_DIRECTORY_FILE, 16, Status::SHARING_VIOLATION),
    ] {
        let moved = open(&mut client, "moved", |create| create.create_options = options).expect("it can be created");
        let rename = set(&mut client, moved, FileInformationClass::RENAME, &rename_to("file", true));
        client.post(&rename);
        let before = script.0.load(Ordering::Relaxed);
        assert_eq!(status(&finish(&mut client, Vec::new())), refusal);
        assert_eq!(script.0.load(Ordering::Relaxed) - before, attempts);
        client.close(moved);
        let removed = open(&mut client, "moved", |create| create.create_options = CreateOptions::DELETE_ON_CLOSE);
        client.close(removed.expect("it exists"));
    }
}

/// A client that opens a file during its replacement either prevents the replacement or gets the new file.
#[test]
fn a_file_that_is_replaced_while_it_is_opened() {
    for (from, to, target) in [("new", "old", "old"), ("file:new", ":old", "file:old")] {
        let (mut first_won, mut second_won) = (0, 0);
        for lead in -30i32..30 {
            let server = slow(TestServer::builder().clock(ManualClock::new())).start();
            let (mut first, mut second) =
                (TestClient::logged_on(&server, "alice"), TestClient::logged_on(&server, "alice"));
            let old = open(&mut first, target, |_| {}).expect("it can be created");
            first.close(old);
            let new = open(&mut first, from, |_| {}).expect("it can be created");
            let write = WriteRequest { file_id: new, offset: 0, length: 3, buffer: b"new", ..WriteRequest::default() };
            assert_eq!(status(&first.request(Command::WRITE, |out| write.encode(out))), Status::SUCCESS);
            let rename = set(&mut first, new, FileInformationClass::RENAME, &rename_to(to, true));
            let opens = create(&mut second, target, |create| create.create_disposition = CreateDisposition::OPEN);
            let (mut frames, mut answers) = (Vec::new(), Vec::new());
            for turn in -30..200 {
                match turn {
                    -30 if lead < 0 => second.post(&opens),
                    -30 => first.post(&rename),
                    _ => {}
                }
                match turn + 30 - lead.abs() {
                    0 if lead < 0 => first.post(&rename),
                    0 => second.post(&opens),
                    _ => {}
                }
                frames.extend(first.proceed());
                answers.extend(second.proceed());
            }
            let renamed = status(&finish(&mut first, frames));
            let answer = finish(&mut second, answers);
            let size = CreateResponse::decode(&answer).map(|response| response.end_of_file);
            let opened = opened(&answer).expect("one of the two names always exists");
            match renamed {
                Status::SUCCESS => first_won += 1,
                _ => second_won += 1,
            }
            let expected = if renamed == Status::SUCCESS { 3 } else { 0 };
            assert_eq!(size.ok(), Some(expected), "{from} to {to}, {lead}: {renamed:?}");
            second.close(opened);
            first.close(new);
            assert_eq!((server.open_count(), server.open_files()), (0, 0), "{from} to {to}, {lead}");
        }
        assert!(first_won > 0 && second_won > 0, "{from} to {to}: {first_won}, {second_won}");
    }
}

/// If two clients concurrently set different parts of a file's security descriptor, both parts are set.
#[test]
fn parts_of_a_descriptor_that_are_set_at_the_same_time() {
    let stranger = Some(Sid::of(5, [21, 9, 9, 9, 1104]));
    let dacl = Acl::new(Acl::REVISION, vec![Ace::allow(Sid::EVERYONE, A::FILE_ALL_ACCESS, AceFlags::NONE)]);
    let of_group = SecurityDescriptor { group: stranger, ..SecurityDescriptor::default() };
    let of_list =
        SecurityDescriptor { control: Control::DACL_PRESENT, dacl: dacl.clone(), ..SecurityDescriptor::default() };
    let setting = |client: &mut TestClient, file_id, part, new: &SecurityDescriptor| {
        let buffer = new.to_bytes();
        client.compose(Command::SET_INFO, |out| testing::set_security(file_id, part, &buffer).encode(out))
    };
    for steps in 0..40 {
        let server =
            slow(TestServer::builder().share(|share| share.acls.stored = Some(testing::stored_acls()))).start();
        let (mut first, mut second) =
            (TestClient::logged_on(&server, "alice"), TestClient::logged_on(&server, "alice"));
        let all = |create: &mut CreateRequest<'_>| create.desired_access = A::FILE_ALL_ACCESS.0;
        let hers = open(&mut first, "file", all).expect("it can be created");
        let too = open(&mut second, "file", all).expect("the open succeeds");
        let message = setting(&mut first, hers, SecurityInformation::DACL, &of_list);
        first.post(&message);
        let frames: Vec<_> = (0..steps).flat_map(|_| first.proceed()).collect();
        let message = setting(&mut second, too, SecurityInformation::GROUP, &of_group);
        second.post(&message);
        let mut answers = (frames, Vec::new());
        for _ in 0..200 {
            answers.0.extend(first.proceed());
            answers.1.extend(second.proceed());
        }
        let ended = (status(&finish(&mut first, answers.0)), status(&finish(&mut second, answers.1)));
        assert_eq!(ended, (Status::SUCCESS, Status::SUCCESS), "{steps}");
        let shown = first.security(hers, SecurityInformation::GROUP | SecurityInformation::DACL);
        assert_eq!((shown.group, shown.dacl), (stranger, dacl.clone()), "{steps}");
    }
}

/// A request that waits for the break of another client's lease is not carried out once its own handle is closed.
#[test]
fn a_handle_that_is_closed_while_its_request_waits() {
    for (class, leased, buffer) in [
        (FileInformationClass::DISPOSITION, "file", vec![1]),
        (FileInformationClass::RENAME, "file", rename_to("new", false)),
        (FileInformationClass::LINK, "other", rename_to("other", true)),
    ] {
        let server = TestServer::with_stopped_clock();
        let (mut holder, mut client) = (TestClient::new(&server), TestClient::logged_on(&server, "alice"));
        holder.guid = [8; 16];
        let mut holder = holder.ready("alice");
        let other = open(&mut client, "other", |_| {}).expect("it can be created");
        client.close(other);
        let file = open(&mut client, "file", |_| {}).expect("it can be created");
        let held = open(&mut holder, leased, |create| {
            create.requested_oplock_level = OplockLevel::LEASE;
            let lease_state = LeaseState::READ_CACHING | LeaseState::HANDLE_CACHING;
            let lease = LeaseV1 { lease_key: [5; 16], lease_state, lease_flags: LeaseFlags::NONE };
            create.create_contexts = vec![lease.to_context()];
        });
        let waiting = set(&mut client, file, class, &buffer);
        let frames = client.send(&waiting);
        assert_eq!(frames.iter().map(|frame| status(frame)).collect::<Vec<_>>(), [Status::PENDING], "{class:?}");
        client.close(file);
        holder.close(held.expect("the open succeeds"));
        assert_eq!(status(&finish(&mut client, Vec::new())), Status::FILE_CLOSED, "{class:?}");
        assert!(exists(&mut client, "file") && !exists(&mut client, "new"), "{class:?}");
        assert_eq!(server.open_count(), 0, "{class:?}");
    }
}

/// Of several names, the one by which the file was deleted is removed, whichever handle is closed last.
#[test]
fn a_deleted_file_has_another_hard_link() {
    for by_disposition in [true, false] {
        let server = TestServer::new();
        let (mut client, mut other) =
            (TestClient::logged_on(&server, "alice"), TestClient::logged_on(&server, "alice"));
        let file = open(&mut client, "one", |_| {}).expect("it can be created");
        let link = set(&mut client, file, FileInformationClass::LINK, &rename_to("two", false));
        let frames = client.send(&link);
        assert_eq!(status(&finish(&mut client, frames)), Status::SUCCESS);
        client.close(file);
        let stays = open(&mut other, "two", |_| {}).expect("it exists");
        let options = if by_disposition { CreateOptions(0) } else { CreateOptions::DELETE_ON_CLOSE };
        let goes = open(&mut client, "one", |create| create.create_options = options).expect("it exists");
        if by_disposition {
            let delete = set(&mut client, goes, FileInformationClass::DISPOSITION, &[1]);
            let frames = client.send(&delete);
            assert_eq!(status(&finish(&mut client, frames)), Status::SUCCESS);
            // [MS-FSA] 2.1.5.15.6: no further link may be created.
            let link = set(&mut client, goes, FileInformationClass::LINK, &rename_to("three", false));
            let frames = client.send(&link);
            assert_eq!(status(&finish(&mut client, frames)), Status::ACCESS_DENIED);
        }
        client.close(goes);
        other.close(stays);
        assert!(!exists(&mut client, "one") && exists(&mut client, "two"), "{by_disposition}");
    }
}

/// The client that closes a deleted file last needs no permission to delete it.
#[test]
fn a_deleted_file_is_closed_last_by_another_client() {
    let server = TestServer::new();
    let (mut alice, mut bob) = (TestClient::logged_on(&server, "alice"), TestClient::logged_on(&server, "bob"));
    let directory = open(&mut alice, "hers", |create| create.create_options = CreateOptions::DIRECTORY_FILE);
    alice.close(directory.expect("it can be created"));
    let file = open(&mut alice, r"hers\file", |_| {}).expect("it can be created");
    let reading = open(&mut bob, r"hers\file", |create| create.desired_access = 0x0012_0089).expect("bob may read");
    let delete = set(&mut alice, file, FileInformationClass::DISPOSITION, &[1]);
    let frames = alice.send(&delete);
    assert_eq!(status(&finish(&mut alice, frames)), Status::SUCCESS);
    alice.close(file);
    bob.close(reading);
    assert!(!exists(&mut alice, r"hers\file"));
}

/// Delays every call beyond one step of the test and, when enabled, refuses all opens of files for data.
#[derive(Default)]
struct Refusing(AtomicBool);

impl Script for Refusing {
    fn decide(&self, operation: Operation, _: u64) -> Fault {
        let refused = operation == Operation::Open && self.0.load(Ordering::Relaxed);
        Fault { before: Some(faulty::yields(2)), after: None, error: refused.then_some(Errno::ACCES) }
    }
}

/// A deleted file is removed even if the last open of it was about to be refused.
#[test]
fn a_file_that_is_deleted_while_it_cannot_be_opened() {
    let mut overtaken = 0;
    for steps in 0..40 {
        let refusing = Arc::new(Refusing::default());
        let script = refusing.clone();
        let server = TestServer::builder().wrap_volume(|volume| Faulty::new(volume, script)).start();
        let (mut first, mut second) =
            (TestClient::logged_on(&server, "alice"), TestClient::logged_on(&server, "alice"));
        let file = open(&mut first, "file", |_| {}).expect("it can be created");
        let opens = create(&mut second, "file", |create| create.create_disposition = CreateDisposition::OPEN);
        refusing.0.store(true, Ordering::Relaxed);
        second.post(&opens);
        let mut frames: Vec<_> = (0..steps).flat_map(|_| second.proceed()).collect();
        let answered = !frames.is_empty();
        let delete = set(&mut first, file, FileInformationClass::DISPOSITION, &[1]);
        let deleted = first.send(&delete);
        assert_eq!(status(&finish(&mut first, deleted)), Status::SUCCESS, "{steps}");
        first.close(file);
        frames.extend(second.proceed());
        let refused = opened(&finish(&mut second, frames)).expect_err("the open fails");
        refusing.0.store(false, Ordering::Relaxed);
        overtaken += usize::from(!answered && refused == Status::ACCESS_DENIED);
        assert!(!exists(&mut first, "file"), "{steps}: {refused:?}");
        assert_eq!((server.open_count(), server.open_files()), (0, 0), "{steps}");
    }
    assert!(overtaken > 0, "it never had the last open");
}

/// Has no space for what a CREATE reserves, which it finds out late.
struct Full;

impl Script for Full {
    fn decide(&self, operation: Operation, _: u64) -> Fault {
        match operation {
            Operation::SetExtent => {
                Fault { before: Some(faulty::yields(30)), error: Some(Errno::NOSPC), ..Fault::default() }
            }
            _ => Fault::default(),
        }
    }
}

/// A file whose CREATE fails is not removed if another client has opened it or has written to it meanwhile.
#[test]
fn a_file_that_is_written_before_its_create_fails() {
    for closes in [false, true] {
        let server = TestServer::builder()
            .share(|share| share.sync.strict_allocate = true)
            .wrap_volume(|volume| Faulty::new(volume, Arc::new(Full)))
            .start();
        let (mut first, mut second) =
            (TestClient::logged_on(&server, "alice"), TestClient::logged_on(&server, "alice"));
        let reserves = create(&mut first, "file", |create| {
            create.create_contexts = vec![AllocationSize { allocation_size: 1 << 20 }.to_context()];
        });
        let frames = first.send(&reserves);
        let file = open(&mut second, "file", |create| create.create_disposition = CreateDisposition::OPEN);
        let file = file.expect("it was created");
        let write = WriteRequest { file_id: file, length: 4, buffer: b"data", ..WriteRequest::default() };
        let written = second.request(Command::WRITE, |out| write.encode(out));
        assert_eq!(status(&written), Status::SUCCESS);
        if closes {
            second.close(file);
        }
        assert_eq!(status(&finish(&mut first, frames)), Status::DISK_FULL);
        assert!(exists(&mut second, "file"), "{closes}");
    }
}

/// Delays the response of a creation, so that the file exists on disk for a while before.
struct Lingering;

impl Script for Lingering {
    fn decide(&self, operation: Operation, _: u64) -> Fault {
        let after = (operation == Operation::Create).then(|| faulty::yields(20));
        Fault { before: None, after, error: None }
    }
}

/// A file created while its directory is renamed has its name in the renamed directory.
#[test]
fn a_file_that_is_created_while_its_directory_is_renamed() {
    let server = TestServer::builder().wrap_volume(|volume| Faulty::new(volume, Arc::new(Lingering))).start();
    let (mut first, mut second) = (TestClient::logged_on(&server, "alice"), TestClient::logged_on(&server, "alice"));
    let directory = |create: &mut CreateRequest<'_>| create.create_options = CreateOptions::DIRECTORY_FILE;
    let before = open(&mut first, "before", directory).expect("it can be created");
    let makes = create(&mut second, r"before\file", |_| {});
    let frames = second.send(&makes);
    let rename = set(&mut first, before, FileInformationClass::RENAME, &rename_to("after", false));
    let renamed = first.send(&rename);
    assert_eq!(status(&finish(&mut first, renamed)), Status::SUCCESS);
    let file = opened(&finish(&mut second, frames)).expect("it can be created");
    let delete = set(&mut second, file, FileInformationClass::DISPOSITION, &[1]);
    let deleted = second.send(&delete);
    assert_eq!(status(&finish(&mut second, deleted)), Status::SUCCESS);
    second.close(file);
    first.close(before);
    assert!(!exists(&mut first, r"after\file"), "the file is deleted by its current name");
    assert_eq!((server.open_count(), server.open_files()), (0, 0));
}

/// Delays the deletion of a file, and the response of a rename, after which the names of open files are updated.
struct Hesitating;

impl Script for Hesitating {
    fn decide(&self, operation: Operation, _: u64) -> Fault {
        let before = (operation == Operation::Unlink).then(|| faulty::yields(10));
        let after = (operation == Operation::Rename).then(|| faulty::yields(40));
        Fault { before, after, error: None }
    }
}

/// A directory cannot be renamed while a file in it is being deleted, so the deletion finds the file.
#[test]
fn a_file_that_is_being_deleted_when_its_directory_is_to_be_renamed() {
    let server = TestServer::builder().wrap_volume(|volume| Faulty::new(volume, Arc::new(Hesitating))).start();
    let (mut first, mut second) = (TestClient::logged_on(&server, "alice"), TestClient::logged_on(&server, "alice"));
    let directory = |create: &mut CreateRequest<'_>| create.create_options = CreateOptions::DIRECTORY_FILE;
    let before = open(&mut first, "before", directory).expect("it can be created");
    let delete = |create: &mut CreateRequest<'_>| create.create_options = CreateOptions::DELETE_ON_CLOSE;
    let file = open(&mut second, r"before\file", delete).expect("it can be created");
    let close = CloseRequest { flags: CloseFlags::NONE, file_id: file };
    let close = second.compose(Command::CLOSE, |out| close.encode(out));
    let closing = second.send(&close);
    let rename = set(&mut first, before, FileInformationClass::RENAME, &rename_to("after", false));
    let renaming = first.send(&rename);
    assert_eq!(status(&finish(&mut second, closing)), Status::SUCCESS);
    assert_eq!(status(&finish(&mut first, renaming)), Status::ACCESS_DENIED);
    assert!(!exists(&mut second, r"before\file") && !exists(&mut second, r"after\file"));
    let rename = set(&mut first, before, FileInformationClass::RENAME, &rename_to("after", false));
    let renamed = first.send(&rename);
    assert_eq!(status(&finish(&mut first, renamed)), Status::SUCCESS);
    first.close(before);
    assert_eq!((server.open_count(), server.open_files()), (0, 0));
}

#[test]
fn the_suite_passes_on_remote_storage() {
    testing::passes_on_remote_storage(&[]);
}
