//! What a client can make the server hold through named pipes: calls that never come whole, answers that nobody reads.

use proto::bytes::Writer;
use proto::dtyp::AccessMask;
use proto::rpc::pdu::{self, Header as Pdu, PduFlags, PduType};
use proto::smb2::FileId;
use proto::smb2::header::Command;
use proto::smb2::read::ReadRequest;
use proto::smb2::write::WriteRequest;
use proto::status::Status;
use server::rig::{self, Client, status};

/// What programs ask for of a pipe.
const READ_WRITE: AccessMask = AccessMask(0x0012_019f);

fn write(client: &mut Client, file_id: FileId, bytes: &[u8]) -> Status {
    let write = WriteRequest { length: bytes.len() as u32, file_id, buffer: bytes, ..WriteRequest::default() };
    status(&client.request(Command::WRITE, |out| write.encode(out)))
}

fn read(client: &mut Client, file_id: FileId) -> Status {
    let read = ReadRequest { length: 65_536, file_id, ..ReadRequest::default() };
    status(&client.request(Command::READ, |out| read.encode(out)))
}

/// A request with `length` bytes of arguments; `flags` say whether it is whole.
fn request(flags: PduFlags, length: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut out = Writer::new(&mut bytes);
    Pdu { kind: PduType::REQUEST, flags, frag_length: 0, auth_length: 0, call_id: 1 }.encode(&mut out);
    out.zeros(8 + length);
    pdu::finish(&mut out);
    bytes
}

fn logged_on(limit: Option<usize>) -> Client {
    let mut policy = rig::policy();
    policy.limits.pipe_bytes = limit.unwrap_or(policy.limits.pipe_bytes);
    let world: std::sync::Arc<dyn server::world::World> = std::sync::Arc::new(rig::Still::default());
    let server = rig::server(policy, world.clone(), rig::memory(world));
    let mut client = Client::logged_on(&server, "alice");
    assert_eq!(client.tree_connect("IPC$"), Status::SUCCESS);
    client
}

#[test]
fn one_write_makes_no_more_answers_than_may_wait() {
    let mut client = logged_on(None);
    let pipe = client.open("lsarpc", READ_WRITE);
    let calls = request(PduFlags::FIRST_FRAG | PduFlags::LAST_FRAG, 0).repeat(1000);
    assert_eq!(write(&mut client, pipe, &calls), Status::INSUFFICIENT_RESOURCES);
    let answers = (0..1000).take_while(|_| read(&mut client, pipe) == Status::SUCCESS).count();
    assert_eq!(answers, 64);
}

#[test]
fn only_lists_to_look_up_have_long_arguments() {
    for (name, expected) in [("samr", 1), ("srvsvc", 1), ("lsarpc", 20)] {
        let mut client = logged_on(None);
        let pipe = client.open(name, READ_WRITE);
        let part = request(PduFlags::NONE, 50_000);
        let taken = (0..100).take_while(|_| write(&mut client, pipe, &part) == Status::SUCCESS).count();
        assert_eq!(taken, expected, "{name}");
    }
}

#[test]
fn all_pipes_together_hold_so_much() {
    let mut client = logged_on(Some(200_000));
    let part = request(PduFlags::FIRST_FRAG, 60_000);
    let pipes: Vec<_> = (0..4).map(|_| client.open("lsarpc", READ_WRITE)).collect();
    let taken: Vec<_> = pipes.iter().map(|pipe| write(&mut client, *pipe, &part)).collect();
    assert_eq!(taken, [Status::SUCCESS, Status::SUCCESS, Status::SUCCESS, Status::INSUFFICIENT_RESOURCES]);
    let short = request(PduFlags::FIRST_FRAG | PduFlags::LAST_FRAG, 100);
    assert_eq!(write(&mut client, pipes[3], &short), Status::SUCCESS, "a short call always");
    client.close(pipes[0]);
    assert_eq!(write(&mut client, pipes[3], &part), Status::SUCCESS, "what a pipe held goes with it");
}
