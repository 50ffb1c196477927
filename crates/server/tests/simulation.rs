//! Random operations of several clients on the same files, with every response compared with a model of the files.
//!
//! A failing run prints its seed, and `FREVO_SEED=n cargo test -p server --test simulation` repeats that run. The file
//! system delays its answers depending on the same seed, so requests overtake each other as they would on a slow disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use proto::bytes::utf16_bytes;
use proto::smb2::FileId;
use proto::smb2::close::{CloseFlags, CloseRequest};
use proto::smb2::create::{
    CreateAction, CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ImpersonationLevel, ShareAccess,
};
use proto::smb2::header::Command;
use proto::smb2::read::{ReadRequest, ReadResponse};
use proto::smb2::write::{WriteRequest, WriteResponse};
use proto::status::Status;
use server::testing::{self, TestClient, TestServer, status};
use server::vfs::faulty::{Faulty, Seeded};

const SEEDS: u64 = 50;
const STEPS: usize = 300;
const CLIENTS: usize = 4;
/// Few names, so that clients use the same files. Some are equal to Windows. Streams, here of the root, behave like
/// files.
const NAMES: [&str; 8] = ["a", "A", "report.txt", "Überblick", "🎷", ":s", ":Ä", ":ä:$DATA"];

/// A random number generator with the same results on all platforms (xorshift64*).
struct Dice(u64);

impl Dice {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % below
    }
}

/// The expected state of a file: content, number of opens, and whether it is deleted with the last close.
#[derive(Default)]
struct File {
    content: Vec<u8>,
    opens: usize,
    delete_pending: bool,
}

/// All files by number. Names lead to numbers until the file is deleted.
#[derive(Default)]
struct Model {
    files: Vec<File>,
    names: BTreeMap<String, usize>,
}

struct Handle {
    client: usize,
    file_id: FileId,
    file: usize,
    delete_on_close: bool,
}

#[test]
fn clients_see_the_effects_of_their_requests() {
    if let Ok(seed) = std::env::var("FREVO_SEED") {
        return run(seed.parse().expect("FREVO_SEED is a number"));
    }
    for seed in 1..=SEEDS {
        let outcome = std::panic::catch_unwind(|| run(seed));
        assert!(outcome.is_ok(), "seed {seed} failed; FREVO_SEED={seed} runs it again");
    }
}

fn run(seed: u64) {
    let script = Seeded { seed, delayed: 200, longest: 5, failing: 0, errors: Vec::new() };
    let server = TestServer::builder().wrap_volume(|volume| Faulty::new(volume, Arc::new(script))).start();
    let mut clients: Vec<TestClient> =
        (0..CLIENTS).map(|number| TestClient::logged_on(&server, ["alice", "bob"][number % 2])).collect();
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let (mut model, mut handles) = (Model::default(), Vec::<Handle>::new());
    for _ in 0..STEPS {
        match dice.next(10) {
            0..=3 => open(&mut dice, &mut clients, &mut model, &mut handles),
            4..=5 => write(&mut dice, &mut clients, &mut model, &handles),
            6..=7 => read(&mut dice, &mut clients, &model, &handles),
            8 => close(&mut dice, &mut clients, &mut model, &mut handles),
            _ => lose_connection(&mut dice, &server, &mut clients, &mut model, &mut handles),
        }
        assert_eq!(server.open_count(), handles.len(), "opens");
    }
    for client in clients {
        client.disconnect();
    }
    assert_eq!(server.open_count(), 0, "all opens are closed with their connections");
}

fn open(dice: &mut Dice, clients: &mut [TestClient], model: &mut Model, handles: &mut Vec<Handle>) {
    let client = dice.next(clients.len());
    let name = NAMES[dice.next(NAMES.len())];
    let disposition = CreateDisposition(dice.next(6) as u32);
    let delete_on_close = dice.next(6) == 0;
    let wire_name = utf16_bytes(name);
    let request = CreateRequest {
        impersonation_level: ImpersonationLevel::IMPERSONATION,
        desired_access: 0x0013_019f,
        share_access: ShareAccess(7),
        create_disposition: disposition,
        create_options: if delete_on_close {
            CreateOptions::DELETE_ON_CLOSE
        } else {
            CreateOptions::NON_DIRECTORY_FILE
        },
        name: &wire_name,
        ..CreateRequest::default()
    };
    let response = clients[client].request(Command::CREATE, |out| request.encode(out));
    let key = name.trim_end_matches(":$DATA").to_uppercase();
    let existing = model.names.get(&key).copied();
    let pending = existing.is_some_and(|file| model.files[file].delete_pending);
    let expected = match (existing, disposition) {
        (Some(_), CreateDisposition::CREATE) => Err(Status::OBJECT_NAME_COLLISION),
        (Some(_), _) if pending => Err(Status::DELETE_PENDING),
        (Some(_), CreateDisposition::SUPERSEDE) => Ok(CreateAction::SUPERSEDED),
        (Some(_), CreateDisposition::OPEN | CreateDisposition::OPEN_IF) => Ok(CreateAction::OPENED),
        (Some(_), _) => Ok(CreateAction::OVERWRITTEN),
        (None, CreateDisposition::OPEN | CreateDisposition::OVERWRITE) => Err(Status::OBJECT_NAME_NOT_FOUND),
        (None, _) => Ok(CreateAction::CREATED),
    };
    let action = match expected {
        Ok(action) => action,
        Err(refusal) => return assert_eq!(status(&response), refusal, "{name} {disposition:?}"),
    };
    assert_eq!(status(&response), Status::SUCCESS, "{name} {disposition:?}");
    let created = CreateResponse::decode(&response).expect("a well-formed CREATE response");
    assert_eq!(created.create_action, action, "{name}");
    let file = existing.unwrap_or_else(|| {
        model.files.push(File::default());
        model.names.insert(key, model.files.len() - 1);
        model.files.len() - 1
    });
    if action != CreateAction::OPENED {
        model.files[file].content.clear();
    }
    assert_eq!(created.end_of_file, model.files[file].content.len() as u64, "{name}");
    model.files[file].opens += 1;
    handles.push(Handle { client, file_id: created.file_id, file, delete_on_close });
}

fn write(dice: &mut Dice, clients: &mut [TestClient], model: &mut Model, handles: &[Handle]) {
    let Some(handle) = pick(dice, handles) else { return };
    let (offset, length) = (offset(dice), dice.next(100));
    let data: Vec<u8> = (0..length).map(|_| dice.next(256) as u8).collect();
    let request = WriteRequest::new(handle.file_id, offset as u64, &data);
    let response = clients[handle.client].request(Command::WRITE, |out| request.encode(out));
    let written = WriteResponse::decode(&response).expect("a well-formed WRITE response");
    assert_eq!((status(&response), written.count as usize), (Status::SUCCESS, length));
    if length > 0 {
        let content = &mut model.files[handle.file].content;
        content.resize(content.len().max(offset + length), 0);
        content[offset..offset + length].copy_from_slice(&data);
    }
}

fn read(dice: &mut Dice, clients: &mut [TestClient], model: &Model, handles: &[Handle]) {
    let Some(handle) = pick(dice, handles) else { return };
    let (offset, length) = (offset(dice), 1 + dice.next(200));
    let request =
        ReadRequest { file_id: handle.file_id, offset: offset as u64, length: length as u32, ..ReadRequest::default() };
    let response = clients[handle.client].request(Command::READ, |out| request.encode(out));
    let content = &model.files[handle.file].content;
    let expected = content.get(offset..content.len().min(offset + length)).unwrap_or_default();
    if expected.is_empty() {
        return assert_eq!(status(&response), Status::END_OF_FILE);
    }
    let data = ReadResponse::decode(&response).expect("a well-formed READ response");
    assert_eq!(data.buffer, expected, "offset {offset}");
}

fn close(dice: &mut Dice, clients: &mut [TestClient], model: &mut Model, handles: &mut Vec<Handle>) {
    if handles.is_empty() {
        return;
    }
    let handle = handles.swap_remove(dice.next(handles.len()));
    let request = CloseRequest { flags: CloseFlags::NONE, file_id: handle.file_id };
    let response = clients[handle.client].request(Command::CLOSE, |out| request.encode(out));
    assert_eq!(status(&response), Status::SUCCESS);
    model.closed(&handle);
    let response = clients[handle.client].request(Command::CLOSE, |out| request.encode(out));
    assert_eq!(status(&response), Status::FILE_CLOSED, "a handle is closed once");
}

/// A client loses its connection and returns as a new client.
fn lose_connection(
    dice: &mut Dice,
    server: &Arc<server::state::Server>,
    clients: &mut [TestClient],
    model: &mut Model,
    handles: &mut Vec<Handle>,
) {
    let number = dice.next(clients.len());
    let back = TestClient::logged_on(server, ["alice", "bob"][dice.next(2)]);
    std::mem::replace(&mut clients[number], back).disconnect();
    handles.retain(|handle| {
        if handle.client == number {
            model.closed(handle);
        }
        handle.client != number
    });
}

/// Usually near the beginning, else where the content of a stream becomes too large for an extended attribute.
fn offset(dice: &mut Dice) -> usize {
    dice.next(200) + if dice.next(6) == 0 { 65_400 } else { 0 }
}

fn pick<'a>(dice: &mut Dice, handles: &'a [Handle]) -> Option<&'a Handle> {
    if handles.is_empty() { None } else { handles.get(dice.next(handles.len())) }
}

impl Model {
    fn closed(&mut self, handle: &Handle) {
        let file = &mut self.files[handle.file];
        file.opens -= 1;
        file.delete_pending |= handle.delete_on_close;
        if file.opens == 0 && file.delete_pending {
            self.names.retain(|_, file| *file != handle.file);
        }
    }
}

#[test]
fn the_suite_passes_on_remote_storage() {
    testing::passes_on_remote_storage(&[]);
}
