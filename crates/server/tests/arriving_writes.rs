//! WRITE requests that are executed while their data arrives.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::BytesMut;
use proto::dtyp::AccessMask;
use proto::smb2::create::{CreateDisposition, CreateRequest, CreateResponse, ShareAccess};
use proto::smb2::header::{Command, Flags};
use proto::smb2::lock::{LockElement, LockFlags, LockRequest};
use proto::smb2::negotiate::Dialect;
use proto::smb2::read::{ReadRequest, ReadResponse};
use proto::smb2::write::{WriteFlags, WriteRequest, WriteResponse};
use proto::smb2::{FileId, OplockLevel};
use proto::status::Status;
use server::frame::Arrival;
use server::testing::{self, TestClient, TestServer, status};
use server::vfs::Errno;
use server::vfs::faulty::{Fault, Faulty, Operation, Script};

const WHOLE: &str = "the server wants the whole message";
const LENGTH: usize = 3 << 20;

fn client(server: &TestServer) -> TestClient {
    let mut client = TestClient::new(server);
    client.dialect = Dialect::SMB_3_0;
    client.ready("alice")
}

fn open(client: &mut TestClient, name: &str) -> FileId {
    let name = proto::bytes::utf16_bytes(name);
    let create = CreateRequest {
        desired_access: 0x0013_019f,
        share_access: ShareAccess(7),
        create_disposition: CreateDisposition::OPEN_IF,
        name: &name,
        ..CreateRequest::default()
    };
    let response = client.request(Command::CREATE, |out| create.encode(out));
    CreateResponse::decode(&response).expect("the file is opened").file_id
}

fn data(seed: u8) -> Vec<u8> {
    (0..LENGTH).map(|at| (at / 251) as u8 ^ at as u8 ^ seed).collect()
}

/// Returns the WRITE with the header that `change` makes.
fn compose(client: &mut TestClient, write: &WriteRequest<'_>, flags: Flags, sequence: u16) -> Vec<u8> {
    let mut header = client.header(Command::WRITE).with_channel_sequence(sequence);
    header.credit_charge = write.buffer.len().div_ceil(65_536).max(1) as u16;
    header.flags |= flags;
    client.next_message += u64::from(header.credit_charge) - 1;
    let mut message = Vec::new();
    let mut out = proto::bytes::Writer::new(&mut message);
    header.encode(&mut out);
    write.encode(&mut out);
    message
}

/// A WRITE of which the beginning has been passed.
struct Arriving<'a> {
    arrival: Arrival,
    data: &'a [u8],
}

impl<'a> Arriving<'a> {
    fn begin(client: &mut TestClient, file: FileId, offset: u64, data: &'a [u8]) -> Arriving<'a> {
        let message = compose(client, &WriteRequest::new(file, offset, data), Flags(0), 0);
        let arrival = client.post_start(&message).expect("it may arrive in parts");
        assert!(client.proceed().is_empty(), "no response before the data");
        Arriving { arrival, data }
    }

    /// Passes parts until at most `left` bytes are missing. `received` bytes of the rest have been received each time.
    fn pass_until(&mut self, client: &mut TestClient, left: usize, received: usize) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        while self.data.len() > left {
            assert!(self.arrival.is_awaited());
            let (least, most, _) = self.arrival.wanted();
            let count = self.arrival.count(self.data.len().min(received.max(least)));
            assert!((1..=most).contains(&count));
            let (part, rest) = self.data.split_at(count);
            self.data = rest;
            assert_eq!(self.arrival.pass(BytesMut::from(part)), rest.is_empty());
            frames.extend(client.proceed());
            assert_eq!(frames.is_empty(), !rest.is_empty(), "the response follows the data");
        }
        frames
    }

    fn finish(mut self, client: &mut TestClient) -> Vec<u8> {
        let frames = self.pass_until(client, 0, usize::MAX);
        client.finish(frames).expect("a response")
    }
}

fn read(client: &mut TestClient, file_id: FileId, offset: u64, length: usize) -> Vec<u8> {
    let mut read = Vec::new();
    while read.len() < length {
        let length = (length - read.len()).min(65_536) as u32;
        let request = ReadRequest { length, offset: offset + read.len() as u64, file_id, ..ReadRequest::default() };
        let response = client.request(Command::READ, |out| request.encode(out));
        match status(&response) {
            Status::END_OF_FILE => break,
            _ => read.extend_from_slice(ReadResponse::decode(&response).expect("it is readable").buffer),
        }
    }
    read
}

fn lock(client: &mut TestClient, file_id: FileId, offset: u64) -> Status {
    let flags = LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY;
    let locks = vec![LockElement { offset, length: 1, flags }];
    let request = LockRequest { lock_sequence: 0, file_id, locks };
    status(&client.request(Command::LOCK, |out| request.encode(out)))
}

/// Calls to remote storage may wait, so a request is received as a whole.
#[test]
fn the_suite_passes_on_remote_storage() {
    testing::passes_on_remote_storage(&[
        ("data_is_written_part_by_part", WHOLE),
        ("only_plain_writes_of_files_arrive_in_parts", WHOLE),
        ("nothing_is_written_if_the_end_of_the_range_is_locked", WHOLE),
        ("a_lock_that_is_taken_meanwhile_is_respected", WHOLE),
        ("a_handle_that_is_closed_meanwhile_is_not_written_to", WHOLE),
        ("a_repeated_write_takes_over", WHOLE),
        ("a_cache_that_is_granted_meanwhile_is_broken", WHOLE),
        ("data_that_does_not_arrive", WHOLE),
        ("an_error_of_the_file_system_is_the_status_of_the_response", WHOLE),
    ]);
}

#[test]
fn data_is_written_part_by_part() {
    let server = TestServer::new();
    let (mut writer, mut reader) = (client(&server), client(&server));
    let (file, other) = (open(&mut writer, "file"), open(&mut reader, "file"));
    for (round, offset) in [0, 1, 4096, 65_535, 65_536, 100_000, 1 << 20, (5 << 20) + 7].into_iter().enumerate() {
        for received in [1, 65_536, 200_000, usize::MAX] {
            let data = data(round as u8 ^ received as u8);
            let mut write = Arriving::begin(&mut writer, file, offset, &data);
            write.pass_until(&mut writer, LENGTH / 2, received);
            let written = LENGTH - write.data.len();
            assert_eq!((offset + written as u64) % 65_536, 0);
            assert!(read(&mut reader, other, offset, written) == data[..written], "{offset}, {received}");
            let response = write.finish(&mut writer);
            assert_eq!(WriteResponse::decode(&response), Ok(WriteResponse { count: LENGTH as u32 }));
            assert!(read(&mut reader, other, offset, LENGTH) == data, "{offset}, {received}");
        }
    }
}

#[test]
fn only_plain_writes_of_files_arrive_in_parts() {
    let server = TestServer::new();
    let mut client = client(&server);
    let (file, stream) = (open(&mut client, "file"), open(&mut client, "file:stream"));
    let read_only = client.open("file", AccessMask::FILE_READ_DATA);
    let data = data(0);
    let mut is_partial = |write: WriteRequest<'_>, flags: Flags| {
        let message = compose(&mut client, &write, flags, 0);
        matches!(client.connection.start_of(&message, message.len()), server::frame::Start::Data { needed: 112 })
    };
    let plain = WriteRequest::new(file, 0, &data);
    assert!(is_partial(plain, Flags(0)));
    assert!(is_partial(plain, Flags::REPLAY_OPERATION));
    assert!(!is_partial(plain, Flags::SIGNED));
    assert!(!is_partial(plain, Flags::RELATED_OPERATIONS));
    assert!(!is_partial(WriteRequest { flags: WriteFlags::WRITE_THROUGH, ..plain }, Flags(0)));
    assert!(!is_partial(WriteRequest { offset: u64::MAX, ..plain }, Flags(0)), "at the end of the file");
    assert!(!is_partial(WriteRequest { length: 1, ..plain }, Flags(0)), "not all is data");
    assert!(!is_partial(WriteRequest::new(file, 0, &data[..1 << 20]), Flags(0)), "it is short");
    assert!(!is_partial(WriteRequest::new(stream, 0, &data), Flags(0)));
    assert!(!is_partial(WriteRequest::new(read_only, 0, &data), Flags(0)));
    assert!(!is_partial(WriteRequest::new(FileId { persistent: 1, volatile: 1 }, 0, &data), Flags(0)));
}

#[test]
fn nothing_is_written_if_the_end_of_the_range_is_locked() {
    let server = TestServer::new();
    let (mut writer, mut other) = (client(&server), client(&server));
    let (file, locked) = (open(&mut writer, "file"), open(&mut other, "file"));
    assert_eq!(lock(&mut other, locked, LENGTH as u64 - 1), Status::SUCCESS);
    let data = data(0);
    let response = Arriving::begin(&mut writer, file, 0, &data).finish(&mut writer);
    assert_eq!(status(&response), Status::FILE_LOCK_CONFLICT);
    assert_eq!(read(&mut other, locked, 0, 1), []);
}

#[test]
fn a_lock_that_is_taken_meanwhile_is_respected() {
    let server = TestServer::new();
    let (mut writer, mut other) = (client(&server), client(&server));
    let (file, locked) = (open(&mut writer, "file"), open(&mut other, "file"));
    let data = data(0);
    let mut write = Arriving::begin(&mut writer, file, 0, &data);
    write.pass_until(&mut writer, LENGTH - 65_536, 65_536);
    assert_eq!(lock(&mut other, locked, LENGTH as u64 - 1), Status::SUCCESS);
    let response = write.finish(&mut writer);
    assert_eq!(status(&response), Status::FILE_LOCK_CONFLICT);
    assert!(read(&mut other, locked, 0, LENGTH).len() < LENGTH);
}

#[test]
fn a_handle_that_is_closed_meanwhile_is_not_written_to() {
    let server = TestServer::new();
    let mut writer = client(&server);
    let file = open(&mut writer, "file");
    let data = data(0);
    let mut write = Arriving::begin(&mut writer, file, 0, &data);
    write.pass_until(&mut writer, LENGTH - 65_536, 65_536);
    writer.close(file);
    assert_eq!(server.open_count(), 0, "the request does not keep the file open");
    assert_eq!(status(&write.finish(&mut writer)), Status::FILE_CLOSED);
    let file = open(&mut writer, "file");
    assert!(read(&mut writer, file, 0, LENGTH) == data[..65_536]);
}

/// [MS-SMB2] 3.3.5.2.10: a client that lost a channel in the middle of a WRITE repeats it over another one. The
/// original is outdated, and does not keep the repeated one from being executed.
#[test]
fn a_repeated_write_takes_over() {
    let server = TestServer::new();
    let mut writer = client(&server);
    let file = open(&mut writer, "file");
    let (lost, data) = (data(1), data(2));
    let mut write = Arriving::begin(&mut writer, file, 0, &lost);
    write.pass_until(&mut writer, LENGTH / 2, usize::MAX);
    let again = compose(&mut writer, &WriteRequest::new(file, 0, &data), Flags::REPLAY_OPERATION, 1);
    let frames = writer.send(&again);
    assert_eq!(status(&writer.finish(frames).expect("a response")), Status::SUCCESS);
    assert_eq!(status(&write.finish(&mut writer)), Status::FILE_NOT_AVAILABLE);
    assert!(read(&mut writer, file, 0, LENGTH) == data);
}

#[test]
fn a_cache_that_is_granted_meanwhile_is_broken() {
    let server = TestServer::new();
    let (mut writer, mut other) = (client(&server), client(&server));
    let file = open(&mut writer, "file");
    let data = data(0);
    let mut write = Arriving::begin(&mut writer, file, 0, &data);
    write.pass_until(&mut writer, LENGTH / 2, usize::MAX);
    let name = proto::bytes::utf16_bytes("file");
    let create = CreateRequest {
        requested_oplock_level: OplockLevel::II,
        desired_access: AccessMask::FILE_READ_DATA.0,
        share_access: ShareAccess(7),
        create_disposition: CreateDisposition::OPEN,
        name: &name,
        ..CreateRequest::default()
    };
    let response = other.request(Command::CREATE, |out| create.encode(out));
    let opened = CreateResponse::decode(&response).expect("the file is opened");
    assert_eq!(opened.oplock_level, OplockLevel::II);
    assert!(other.proceed().is_empty());
    assert_eq!(status(&write.finish(&mut writer)), Status::SUCCESS);
    assert_eq!(other.proceed().len(), 1, "a break");
}

/// The connection ends, and there is no response. What has been written stays.
#[test]
fn data_that_does_not_arrive() {
    let server = TestServer::new();
    let (mut writer, mut other) = (client(&server), client(&server));
    let file = open(&mut writer, "file");
    let data = data(0);
    let mut write = Arriving::begin(&mut writer, file, 0, &data);
    write.pass_until(&mut writer, LENGTH - 65_536, 65_536);
    drop(write);
    assert!(writer.proceed().is_empty());
    assert!(writer.connection.ended().is_some() && !writer.is_waiting());
    writer.disconnect();
    let file = open(&mut other, "file");
    assert!(read(&mut other, file, 0, LENGTH) == data[..65_536]);
    assert_eq!(server.open_count(), 1);
}

/// The second part of each WRITE fails.
struct Full(AtomicU32);

impl Script for Full {
    fn decide(&self, operation: Operation, _count: u64) -> Fault {
        let fails = operation == Operation::Write && self.0.fetch_add(1, Ordering::Relaxed) == 1;
        Fault { error: fails.then_some(Errno::NOSPC), ..Fault::default() }
    }
}

#[test]
fn an_error_of_the_file_system_is_the_status_of_the_response() {
    let server = TestServer::builder().wrap_volume(|volume| Faulty::new(volume, Arc::new(Full(0.into())))).start();
    let mut writer = client(&server);
    let file = open(&mut writer, "file");
    let data = data(0);
    let write = Arriving::begin(&mut writer, file, 0, &data);
    assert_eq!(status(&write.finish(&mut writer)), Status::DISK_FULL);
    let write = Arriving::begin(&mut writer, file, 0, &data);
    assert_eq!(status(&write.finish(&mut writer)), Status::SUCCESS, "the connection continues");
}
