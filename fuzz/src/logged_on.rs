//! A fuzzed connection of a logged-on user with a share on an in-memory file system.

use proto::smb2::header::{Command, Flags, Header};
use proto::status::Status;
use server::testing::{self, TestClient, TestServer};

/// Consumes bytes from the front as a script of requests.
struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// Drives a logged-on connection with `bytes`. Each request consists of a command, a byte of flags, a length and a
/// body. The FileId of the file opened last may be inserted into the body. The command 0xff means a raw frame.
pub fn connection(bytes: &[u8]) {
    let server = TestServer::new();
    let mut client = TestClient::logged_on(&server, "alice");
    let mut opened = None;
    let mut script = Script(bytes);
    for _ in 0..64 {
        let Some(command) = script.byte() else { break };
        let message = if command == 0xff {
            let length = script.byte().unwrap_or(0);
            Some(script.take(usize::from(length)).to_vec())
        } else {
            compose(&mut client, command, opened, &mut script)
        };
        let Some(message) = message else { break };
        for response in client.send(&message) {
            opened = opened_by(&response).or(opened);
        }
        if client.connection.ended().is_some() {
            break;
        }
    }
    client.disconnect();
    assert_eq!(server.open_count(), 0, "an open outlives its connection");
}

/// Builds one request, or a chain of two.
fn compose(client: &mut TestClient, command: u8, opened: Option<[u8; 16]>, script: &mut Script<'_>) -> Option<Vec<u8>> {
    let flags = script.byte()?;
    let first = single(client, command, flags, opened, script)?;
    if flags & 0x40 == 0 {
        return Some(first);
    }
    let next = script.byte()?;
    let second = single(client, next, flags, opened, script)?;
    Some(testing::chain(&[first, second], flags & 0x80 != 0))
}

fn single(
    client: &mut TestClient,
    command: u8,
    flags: u8,
    opened: Option<[u8; 16]>,
    script: &mut Script<'_>,
) -> Option<Vec<u8>> {
    let length = script.byte()?;
    let body = script.take(usize::from(length));
    let mut message = client.compose(Command(u16::from(command) % 0x13), |out| out.bytes(body));
    let at = Header::SIZE + usize::from(flags & 0x3f);
    if let (Some(id), Some(place)) = (opened, message.get_mut(at..at + 16).filter(|_| flags & 0x3f != 0)) {
        place.copy_from_slice(&id);
    }
    if flags & 0xc0 == 0x80 {
        message[Header::FLAGS_POSITION] |= Flags::RELATED_OPERATIONS.0 as u8;
    }
    Some(message)
}

/// Returns the `FileId` of a successful CREATE ([MS-SMB2] 2.2.14: at offset 64 of the body).
fn opened_by(response: &[u8]) -> Option<[u8; 16]> {
    let header = Header::decode(response).ok()?;
    let created = header.command == Command::CREATE && header.status == Status::SUCCESS;
    response.get(Header::SIZE + 64..Header::SIZE + 80).filter(|_| created)?.try_into().ok()
}
