//! `instructions OPERATION COUNT` does one operation COUNT times inside the function `measured`, for
//! `cargo xtask instructions`, which counts the instructions of that function. Without arguments it prints the names of
//! the operations.
//!
//! The operations of clients are those of a whole server with files in memory, because valgrind does not know all
//! system calls of `localfs`. The foreign cases `budgets.` count these.

use std::hint::black_box;
use std::sync::Arc;

use proto::bytes::{Writer, utf16_bytes};
use proto::crypto::seal::SealingKey;
use proto::crypto::sign::SigningKey;
use proto::dtyp::acl::{Ace, AceFlags};
use proto::dtyp::{AccessMask, Acl, SecurityDescriptor, Sid};
use proto::fscc::FileInformationClass;
use proto::smb2::FileId;
use proto::smb2::close::{CloseFlags, CloseRequest};
use proto::smb2::create::{CreateDisposition, CreateRequest, CreateResponse, ShareAccess};
use proto::smb2::header::{Command, Header};
use proto::smb2::negotiate_context::{CipherId, SigningAlgorithm};
use proto::smb2::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest};
use proto::smb2::read::ReadRequest;
use proto::smb2::transform::TransformHeader;
use proto::smb2::write::WriteRequest;
use proto::status::Status;
use server::acl::model::evaluate::{self, Token};
use server::audit::{Destinations, Queue};
use server::policy::audit::{Audit, Destination, Operations};
use server::testing::{TestClient, TestServer, status};

/// Length of the data that is signed, encrypted, read and written.
const DATA: usize = 4096;
/// Number of ACEs of the security descriptor, of which only the last applies, and of names in the directory.
const MANY: u32 = 50;

/// An operation, which prepares itself and then makes the given number of calls.
type Operation = (&'static str, fn(usize));

const OPERATIONS: &[Operation] = &[
    ("decode", decode),
    ("sign_hmac", |count| sign(SigningAlgorithm::HMAC_SHA256, count)),
    ("sign_cmac", |count| sign(SigningAlgorithm::AES_CMAC, count)),
    ("sign_gmac", |count| sign(SigningAlgorithm::AES_GMAC, count)),
    ("seal_gcm", |count| seal(CipherId::AES_128_GCM, count)),
    ("seal_ccm", |count| seal(CipherId::AES_128_CCM, count)),
    ("access_check", access_check),
    ("create_close", create_close),
    ("read", read),
    ("write", write),
    ("write_audited", write_audited),
    ("query_directory", query_directory),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, count] = &arguments[..] else {
        OPERATIONS.iter().for_each(|(name, _)| println!("{name}"));
        return;
    };
    let found = OPERATIONS.iter().find(|(known, _)| known == name);
    let (_, operation) =
        found.unwrap_or_else(|| panic!("{name} is not an operation; run without arguments for a list"));
    operation(count.parse().expect("COUNT is a number"));
}

/// Does `work`. Only what this function calls is counted.
#[inline(never)]
fn measured<R>(work: impl FnOnce() -> R) -> R {
    black_box(work())
}

/// Does the work once without counting, so that lazy initialization is not counted, and then counted.
fn count<R>(times: usize, mut work: impl FnMut() -> R) {
    black_box(work());
    measured(|| (0..times).for_each(|_| drop(black_box(work()))));
}

fn decode(times: usize) {
    let name = utf16_bytes(r"directory\another directory\file.txt");
    let mut message = Vec::new();
    let mut out = Writer::new(&mut message);
    Header::request(Command::CREATE, 1).encode(&mut out);
    open_request(&name).encode(&mut out);
    count(times, || {
        let header = Header::decode(&message).expect("a header");
        let request = CreateRequest::decode(black_box(&message)).expect("a request");
        (header.command, request.name.len())
    });
}

fn sign(algorithm: SigningAlgorithm, times: usize) {
    let key = SigningKey::new(algorithm, &[7; 16]).expect("a key");
    let mut message = vec![1; DATA];
    count(times, || key.sign(&mut message));
}

fn seal(cipher: CipherId, times: usize) {
    let key = SealingKey::new(cipher, &[7; 16]).expect("a key");
    let mut frame = vec![1; TransformHeader::SIZE + DATA];
    let mut nonce = 0;
    count(times, || {
        nonce += 1;
        key.seal(1, nonce, &mut frame);
    });
}

fn access_check(times: usize) {
    let sid = |rid| Sid::new(5, &[21, 1, 2, 3, rid]).expect("a SID");
    let aces = (1..=MANY).map(|rid| Ace::allow(sid(rid), AccessMask::FILE_ALL_ACCESS, AceFlags::NONE)).collect();
    let descriptor = SecurityDescriptor { dacl: Acl::new(2, aces), ..SecurityDescriptor::default() };
    let token =
        Token { user: sid(MANY), groups: (100..110).map(sid).collect(), security: false, take_ownership: false };
    count(times, || evaluate::check(&token, &descriptor, AccessMask::FILE_READ_DATA).expect("granted"));
}

/// Returns a server, and a client that is logged on.
fn connected() -> (TestServer, TestClient) {
    let server = TestServer::new();
    let client = TestClient::logged_on(&server, "alice");
    (server, client)
}

fn open_request(name: &[u8]) -> CreateRequest<'_> {
    CreateRequest {
        desired_access: 0x0012_019f,
        share_access: ShareAccess(7),
        create_disposition: CreateDisposition::OPEN_IF,
        name,
        ..CreateRequest::default()
    }
}

/// Sends a request and returns the response. The server's work is counted.
fn send(client: &mut TestClient, command: Command, encode: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let message = client.compose(command, encode);
    let mut answers = measured(|| client.send(&message));
    assert_eq!(answers.len(), 1, "the server answers at once");
    let answer = answers.remove(0);
    assert_eq!(status(&answer), Status::SUCCESS);
    answer
}

fn create_close(times: usize) {
    let (_server, mut client) = connected();
    let name = utf16_bytes("file");
    let file = open_file(&mut client, "file");
    client.close(file);
    for _ in 0..times {
        let answer = send(&mut client, Command::CREATE, |out| open_request(&name).encode(out));
        let file_id = CreateResponse::decode(&answer).expect("a response").file_id;
        let close = CloseRequest { flags: CloseFlags::NONE, file_id };
        send(&mut client, Command::CLOSE, |out| close.encode(out));
    }
}

/// Opens or creates a file.
fn open_file(client: &mut TestClient, name: &str) -> FileId {
    let name = utf16_bytes(name);
    let answer = client.request(Command::CREATE, |out| open_request(&name).encode(out));
    CreateResponse::decode(&answer).expect("a response").file_id
}

/// Opens a file that has data.
fn file(client: &mut TestClient) -> FileId {
    let file = open_file(client, "file");
    let data = [1; DATA];
    let write = WriteRequest { length: DATA as u32, file_id: file, buffer: &data, ..WriteRequest::default() };
    client.request(Command::WRITE, |out| write.encode(out));
    file
}

fn read(times: usize) {
    let (_server, mut client) = connected();
    let file_id = file(&mut client);
    let read = ReadRequest { length: DATA as u32, file_id, ..ReadRequest::default() };
    (0..times).for_each(|_| drop(send(&mut client, Command::READ, |out| read.encode(out))));
}

fn write(times: usize) {
    let (_server, mut client) = connected();
    let file_id = file(&mut client);
    let data = [2; DATA];
    let write = WriteRequest { length: DATA as u32, file_id, buffer: &data, ..WriteRequest::default() };
    (0..times).for_each(|_| drop(send(&mut client, Command::WRITE, |out| write.encode(out))));
}

/// The share has an audit of all writes and deletions.
fn write_audited(times: usize) {
    let recorded = ["pwrite_recv", "unlinkat", "renameat", "close"];
    let success = Operations::parse(recorded).expect("known operations");
    let audit = Audit { success, ..Audit::default() };
    let builder = TestServer::builder().audit(Arc::new(Events::default()));
    let server = builder.share(|share| share.audit = Some(Arc::new(audit))).start();
    let mut client = TestClient::logged_on(&server, "alice");
    let file_id = file(&mut client);
    let data = [2; DATA];
    let write = WriteRequest { length: DATA as u32, file_id, buffer: &data, ..WriteRequest::default() };
    (0..times).for_each(|_| drop(send(&mut client, Command::WRITE, |out| write.encode(out))));
}

/// One queue, which holds all events.
#[derive(Default)]
struct Events(Arc<Queue>);

impl Destinations for Events {
    fn queue(&self, _: &Destination) -> Arc<Queue> {
        Arc::clone(&self.0)
    }
}

fn query_directory(times: usize) {
    let (_server, mut client) = connected();
    for index in 0..MANY {
        let file = open_file(&mut client, &format!("file {index:02}"));
        client.close(file);
    }
    let directory = client.open("", AccessMask(0x0012_0089));
    let query = QueryDirectoryRequest {
        file_information_class: FileInformationClass::ID_BOTH_DIRECTORY.0,
        flags: QueryDirectoryFlags::RESTART_SCANS,
        file_id: directory,
        output_buffer_length: 65_536,
        ..QueryDirectoryRequest::default()
    };
    (0..times).for_each(|_| drop(send(&mut client, Command::QUERY_DIRECTORY, |out| query.encode(out))));
}
