//! Encodes the messages of a plan as requests.

use client::{Chain, Client, Result};
use proto::bytes::Writer;
use proto::dtyp::FileTime;
use proto::fscc::{
    DirectoryClass, DirectoryEntry, FileAttributes, FileBasicInformation, FileDispositionInformation,
    FileInformationClass, FileRenameInformation,
};
use proto::smb2::close::{CloseFlags, CloseRequest};
use proto::smb2::create::{CreateRequest, ImpersonationLevel, ShareAccess};
use proto::smb2::flush::FlushRequest;
use proto::smb2::header::Command;
use proto::smb2::lock::{LockElement, LockRequest};
use proto::smb2::query_directory::QueryDirectoryRequest;
use proto::smb2::query_info::QueryInfoRequest;
use proto::smb2::read::ReadRequest;
use proto::smb2::set_info::SetInfoRequest;
use proto::smb2::{FileId, InfoType};

use super::plan::{LISTING, Message, Names};

/// Appends a message to a compound that opens a file by name.
pub(super) fn append<'a>(chain: Chain<'a>, message: &Message, names: &Names) -> Result<Chain<'a>> {
    match message {
        Message::Create { path, access, disposition, options } => chain.create(&CreateRequest {
            impersonation_level: ImpersonationLevel::IMPERSONATION,
            desired_access: access.0,
            share_access: ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE,
            create_disposition: *disposition,
            create_options: *options,
            name: path.map_or(&[], |path| names.wire(path)),
            ..CreateRequest::default()
        }),
        Message::QueryFile { .. } | Message::QueryFs { .. } => chain.query_info(&query_info(message, FileId::ANY)),
        Message::QueryDirectory { class, flags, pattern } => chain.query_directory(&QueryDirectoryRequest {
            file_information_class: class.0,
            flags: *flags,
            file_name: names.wire(*pattern),
            output_buffer_length: LISTING,
            ..QueryDirectoryRequest::default()
        }),
        Message::SetBasic { .. } | Message::Rename { .. } | Message::Dispose => {
            let buffer = set_buffer(message, names);
            chain.set_info(&set_info(message, &buffer, FileId::ANY))
        }
        Message::Read { offset, length } => chain.read(*offset, *length),
        Message::Close => chain.close(),
        Message::Flush | Message::Lock { .. } | Message::Write { .. } => {
            Err(client::Error::Protocol("a compound that opens a file cannot contain FLUSH, LOCK or WRITE"))
        }
    }
}

/// Queues a message on an open file. WRITE is sent elsewhere, because its data is not in the message.
pub(super) fn queue(client: &mut Client, message: &Message, file_id: FileId, names: &Names) -> Result<()> {
    let command = message.command();
    match message {
        Message::Close => {
            let request = CloseRequest { flags: CloseFlags::NONE, file_id };
            client.queue(command, 1, 0, |out| request.encode(out))
        }
        Message::Flush => {
            let request = FlushRequest { file_id, ..FlushRequest::default() };
            client.queue(command, 1, 0, |out| request.encode(out))
        }
        Message::Read { offset, length } => {
            let request = ReadRequest { file_id, offset: *offset, length: *length, ..ReadRequest::default() };
            client.queue(command, charge(*length), 0, |out| request.encode(out))
        }
        Message::Lock { offset, length, flags } => {
            let locks = vec![LockElement { offset: *offset, length: *length, flags: *flags }];
            let request = LockRequest { lock_sequence: 0, file_id, locks };
            client.queue(command, 1, 0, |out| request.encode(out))
        }
        Message::QueryFile { .. } | Message::QueryFs { .. } => {
            let request = query_info(message, file_id);
            client.queue(command, 1, 0, |out| request.encode(out))
        }
        Message::SetBasic { .. } | Message::Rename { .. } | Message::Dispose => {
            let buffer = set_buffer(message, names);
            let request = set_info(message, &buffer, file_id);
            client.queue(command, 1, 0, |out| request.encode(out))
        }
        Message::Create { .. } | Message::QueryDirectory { .. } | Message::Write { .. } => {
            debug_assert_ne!(command, Command::WRITE);
            Err(client::Error::Protocol("a load cannot send this request on an open file"))
        }
    }
}

/// Returns the `CreditCharge` for this many bytes ([MS-SMB2] 3.1.5.2).
fn charge(bytes: u32) -> u16 {
    u16::try_from(bytes.saturating_sub(1) / 65_536 + 1).unwrap_or(u16::MAX)
}

fn query_info(message: &Message, file_id: FileId) -> QueryInfoRequest<'static> {
    let (info_type, file_info_class, output_buffer_length) = match message {
        Message::QueryFs { class, space } => (InfoType::FILESYSTEM, class.0, *space),
        Message::QueryFile { class, space } => (InfoType::FILE, class.0, *space),
        _ => (InfoType::FILE, 0, 0),
    };
    QueryInfoRequest { info_type, file_info_class, output_buffer_length, file_id, ..QueryInfoRequest::default() }
}

fn set_info<'a>(message: &Message, buffer: &'a [u8], file_id: FileId) -> SetInfoRequest<'a> {
    let class = match message {
        Message::Rename { .. } => FileInformationClass::RENAME,
        Message::Dispose => FileInformationClass::DISPOSITION,
        _ => FileInformationClass::BASIC,
    };
    SetInfoRequest { info_type: InfoType::FILE, file_info_class: class.0, buffer, file_id, ..SetInfoRequest::default() }
}

fn set_buffer(message: &Message, names: &Names) -> Vec<u8> {
    let mut buffer = Vec::new();
    let mut out = Writer::new(&mut buffer);
    match message {
        Message::Rename { to } => {
            FileRenameInformation { replace_if_exists: false, root_directory: 0, file_name: names.wire(*to) }
                .encode(&mut out);
        }
        Message::Dispose => FileDispositionInformation { delete_pending: true }.encode(&mut out),
        Message::SetBasic { written, attributes } => FileBasicInformation {
            last_write_time: FileTime(*written),
            file_attributes: FileAttributes(*attributes),
            ..FileBasicInformation::default()
        }
        .encode(&mut out),
        _ => {}
    }
    buffer
}

/// Returns the number of entries in a listing.
pub(super) fn entries(class: FileInformationClass, listed: &[u8]) -> Result<u32> {
    let class = DirectoryClass::new(class).ok_or(client::Error::Protocol("the class is not a directory class"))?;
    let mut count = 0;
    for entry in DirectoryEntry::list(class, listed) {
        entry?;
        count += 1;
    }
    Ok(count)
}
