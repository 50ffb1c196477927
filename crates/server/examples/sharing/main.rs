//! `sharing run` lets two clients, each on its own thread, do the same operations with files of their own, for
//! `cargo xtask sharing`, which finds the cache lines that both threads access and one of them writes.
//!
//! valgrind reports every access to memory. Around a measured operation, the program writes to addresses that it prints
//! before. Without `run` it only prints them. Files are in memory, because valgrind does not know all system calls of
//! `localfs`. Freed memory is not used again: a cache line is shared because of what is stored in it, not because the
//! allocator gave it to one thread after the other.

mod allocator;

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use proto::bytes::utf16_bytes;
use proto::dtyp::AccessMask;
use proto::fscc::FileInformationClass;
use proto::smb2::FileId;
use proto::smb2::close::{CloseFlags, CloseRequest};
use proto::smb2::create::{CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ShareAccess};
use proto::smb2::header::Command;
use proto::smb2::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest};
use proto::smb2::read::ReadRequest;
use proto::smb2::write::WriteRequest;
use server::state::Server;
use server::testing::{TestClient, TestServer};

const DATA: usize = 4096;
/// How often a client does an operation before it is measured.
const WARM: usize = 20;
/// The user of each client, and its address.
const USERS: [(&str, [u8; 4]); 2] = [("alice", [192, 0, 2, 1]), ("bob", [192, 0, 2, 2])];

#[global_allocator]
static ALLOCATOR: allocator::Lines = allocator::Lines;

/// A client and what it works with.
struct Worker {
    client: TestClient,
    name: String,
    file: FileId,
    directory: FileId,
}

type Operation = (&'static str, fn(&mut Worker));

const OPERATIONS: [Operation; 4] = [
    ("create_close", Worker::create_close),
    ("read", Worker::read),
    ("write", Worker::write),
    ("query_directory", Worker::query_directory),
];

/// Written at the beginning and at the end of a measured operation, each on a cache line of its own.
#[repr(align(64))]
struct Mark(AtomicU64);

static BEGIN: Mark = Mark(AtomicU64::new(0));
static END: Mark = Mark(AtomicU64::new(0));

fn main() {
    println!("begin {:x}", &raw const BEGIN as usize);
    println!("end {:x}", &raw const END as usize);
    println!("main {:x}", main as fn() as usize);
    OPERATIONS.iter().for_each(|(name, _)| println!("operation {name}"));
    if std::env::args().nth(1).as_deref() != Some("run") {
        return;
    }
    let server = TestServer::new();
    let server: Arc<Server> = Arc::clone(&server);
    let turn = Arc::new(Barrier::new(USERS.len()));
    let workers = USERS.map(|user| {
        let (server, turn) = (server.clone(), turn.clone());
        std::thread::spawn(move || work(&server, user, &turn))
    });
    for worker in workers {
        worker.join().expect("the worker ends");
    }
}

/// Does all operations, in turn with the other client.
fn work(server: &Arc<Server>, user: (&str, [u8; 4]), turn: &Barrier) {
    let mut worker = Worker::new(server, user);
    for (_, operation) in OPERATIONS {
        turn.wait();
        (0..WARM).for_each(|_| operation(&mut worker));
        for other in USERS {
            turn.wait();
            if other == user {
                // Until the other thread waits.
                std::thread::sleep(Duration::from_millis(100));
                BEGIN.0.store(black_box(1), Ordering::SeqCst);
                operation(&mut worker);
                END.0.store(black_box(1), Ordering::SeqCst);
            }
        }
    }
    turn.wait();
}

impl Worker {
    fn new(server: &Arc<Server>, (user, address): (&str, [u8; 4])) -> Worker {
        let mut client = TestClient::from_address(server, (address, 50_000).into()).ready(user);
        let directory = utf16_bytes(user);
        let request = CreateRequest { create_options: CreateOptions::DIRECTORY_FILE, ..open_request(&directory) };
        let answer = client.request(Command::CREATE, |out| request.encode(out));
        let directory = CreateResponse::decode(&answer).expect("a response").file_id;
        let name = format!("{user}\\file");
        let path = utf16_bytes(&name);
        let answer = client.request(Command::CREATE, |out| open_request(&path).encode(out));
        let file = CreateResponse::decode(&answer).expect("a response").file_id;
        let mut worker = Worker { client, name, file, directory };
        worker.write();
        worker
    }

    fn create_close(&mut self) {
        let name = utf16_bytes(&self.name);
        let answer = self.client.request(Command::CREATE, |out| open_request(&name).encode(out));
        let file_id = CreateResponse::decode(&answer).expect("a response").file_id;
        let close = CloseRequest { flags: CloseFlags::NONE, file_id };
        self.client.request(Command::CLOSE, |out| close.encode(out));
    }

    fn read(&mut self) {
        let read = ReadRequest { length: DATA as u32, file_id: self.file, ..ReadRequest::default() };
        self.client.request(Command::READ, |out| read.encode(out));
    }

    fn write(&mut self) {
        let data = [2; DATA];
        let write = WriteRequest { length: DATA as u32, file_id: self.file, buffer: &data, ..WriteRequest::default() };
        self.client.request(Command::WRITE, |out| write.encode(out));
    }

    fn query_directory(&mut self) {
        let query = QueryDirectoryRequest {
            file_information_class: FileInformationClass::ID_BOTH_DIRECTORY.0,
            flags: QueryDirectoryFlags::RESTART_SCANS,
            file_id: self.directory,
            output_buffer_length: 65_536,
            ..QueryDirectoryRequest::default()
        };
        self.client.request(Command::QUERY_DIRECTORY, |out| query.encode(out));
    }
}

fn open_request(name: &[u8]) -> CreateRequest<'_> {
    CreateRequest {
        desired_access: AccessMask(0x0012_019f).0,
        share_access: ShareAccess(7),
        create_disposition: CreateDisposition::OPEN_IF,
        name,
        ..CreateRequest::default()
    }
}
