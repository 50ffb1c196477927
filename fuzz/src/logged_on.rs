//! A fuzzed connection of a logged-on user with a share on an in-memory file system.

use proto::bytes::Writer;
use proto::dtyp::Guid;
use proto::fscc::{FileInformationClass, ReparseDataBuffer, ReparseTag};
use proto::smb2::FileId;
use proto::smb2::create::{CreateDisposition, CreateOptions, CreateRequest, ImpersonationLevel, ShareAccess};
use proto::smb2::create_context::{CreateContext, name};
use proto::smb2::header::{Command, Flags, Header};
use proto::smb2::ioctl::{FsctlCode, IoctlFlags, IoctlRequest};
use proto::smb2::negotiate::{Dialect, PosixExtensions, SecurityMode};
use proto::smb2::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest};
use proto::smb2::query_info::{InfoType, QueryInfoRequest};
use proto::smb2::set_info::SetInfoRequest;
use proto::status::Status;
use server::testing::{self, PASSWORD, TestClient, TestServer};

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
    drive(&server, TestClient::logged_on(&server, "alice"), bytes);
}

/// Drives a connection with the POSIX extensions in the same way. The commands 0xf0 to 0xf4 are requests of such
/// clients. The first byte decides how many versions are in the
/// negotiate context.
pub(crate) fn posix(bytes: &[u8]) {
    let server = TestServer::builder().configure(|policy| policy.smb3_unix_extensions = true).start();
    let (first, rest) = bytes.split_first().unwrap_or((&0, &[]));
    let mut client = TestClient::new(&server);
    client.dialect = Dialect::SMB_3_1_1;
    let mut versions = vec![PosixExtensions::VERSION];
    // The server takes its version among others.
    versions.resize(1 + usize::from(*first % 8), [*first; 16]);
    client.contexts.push(PosixExtensions { versions }.to_context());
    client.negotiate(SecurityMode::SIGNING_ENABLED);
    assert_eq!(client.log_on("alice", PASSWORD, 0), Status::SUCCESS);
    assert_eq!(client.tree_connect("share"), Status::SUCCESS);
    drive(&server, client, rest);
}

fn drive(server: &TestServer, mut client: TestClient, bytes: &[u8]) {
    let mut opened = None;
    let mut script = Script(bytes);
    for _ in 0..64 {
        let Some(command) = script.byte() else { break };
        let message = if command == 0xff {
            let length = script.byte().unwrap_or(0);
            Some(script.take(usize::from(length)).to_vec())
        } else if (0xf0..0xf5).contains(&command) {
            of_posix(&mut client, command, opened, &mut script)
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

/// Builds a request of a client with the POSIX extensions: a CREATE with the create context, FSCTL_SET_REPARSE_POINT
/// with data of an NFS server, a query, a change or a listing of the open file.
fn of_posix(
    client: &mut TestClient,
    command: u8,
    opened: Option<[u8; 16]>,
    script: &mut Script<'_>,
) -> Option<Vec<u8>> {
    let (kind, length) = (script.byte()?, script.byte()?);
    let bytes = script.take(usize::from(length));
    let file_id = opened.map_or(FileId { persistent: u64::MAX, volatile: u64::MAX }, id);
    let class = if kind & 0x80 != 0 { FileInformationClass::POSIX.0 } else { kind };
    Some(match command {
        0xf0 => {
            let (mode, path) = bytes.split_at_checked(4).unwrap_or((bytes, &[]));
            // DELETE_ON_CLOSE, DIRECTORY_FILE and OPEN_REPARSE_POINT.
            let options = u32::from(kind & 0x08) << 9 | u32::from(kind & 0x10) >> 4 | u32::from(kind & 0x20) << 16;
            let create = CreateRequest {
                impersonation_level: ImpersonationLevel::IMPERSONATION,
                desired_access: if kind & 0x40 == 0 { 0x001f_01ff } else { 0x81 },
                share_access: ShareAccess(u32::from(kind >> 7) * 7),
                create_disposition: CreateDisposition(u32::from(kind & 0x07)),
                create_options: CreateOptions(options),
                name: path,
                create_contexts: vec![CreateContext::new(name::POSIX, mode.to_vec())],
                ..CreateRequest::default()
            };
            client.compose(Command::CREATE, |out| create.encode(out))
        }
        0xf1 => {
            let tag = if kind & 1 == 0 { ReparseTag::NFS } else { ReparseTag::SYMLINK };
            let mut input = Vec::new();
            ReparseDataBuffer::new(tag, Guid::NIL, bytes)?.encode(&mut Writer::new(&mut input));
            let ctl_code = if kind & 2 == 0 { FsctlCode::SET_REPARSE_POINT } else { FsctlCode::GET_REPARSE_POINT };
            let ioctl = IoctlRequest {
                ctl_code,
                file_id,
                input: &input,
                max_output_response: 65_536,
                flags: IoctlFlags::IS_FSCTL,
                ..IoctlRequest::default()
            };
            client.compose(Command::IOCTL, |out| ioctl.encode(out))
        }
        0xf2 => {
            let info_type = if kind & 0x40 == 0 { InfoType::FILE } else { InfoType::FILESYSTEM };
            let query = QueryInfoRequest {
                info_type,
                file_info_class: class,
                output_buffer_length: 65_536,
                file_id,
                ..QueryInfoRequest::default()
            };
            client.compose(Command::QUERY_INFO, |out| query.encode(out))
        }
        0xf3 => {
            let info_type = if kind & 0x40 == 0 { InfoType::FILE } else { InfoType::SECURITY };
            let additional_information = if kind & 0x40 == 0 { 0 } else { 7 };
            let file_info_class = if kind & 0x40 == 0 { class } else { 0 };
            let set = SetInfoRequest { info_type, file_info_class, additional_information, file_id, buffer: bytes };
            client.compose(Command::SET_INFO, |out| set.encode(out))
        }
        _ => {
            let list = QueryDirectoryRequest {
                file_information_class: class,
                flags: QueryDirectoryFlags(kind & 0x03),
                file_index: 0,
                file_id,
                file_name: bytes,
                output_buffer_length: 65_536,
            };
            client.compose(Command::QUERY_DIRECTORY, |out| list.encode(out))
        }
    })
}

/// Returns the FileId in these bytes.
fn id(bytes: [u8; 16]) -> FileId {
    let number = u128::from_le_bytes(bytes);
    FileId { persistent: number as u64, volatile: (number >> 64) as u64 }
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
