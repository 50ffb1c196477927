//! The attacks, with one file per family, and the requests that several of them send.

mod data;
mod frames;
mod holders;
mod information;
mod locks;
mod names;
mod notify;
mod oplocks;
mod reads;
mod rpc;
mod slow;
mod strangers;

use client::{Client, Open};
use proto::bytes::utf16_bytes;
use proto::smb2::FileId;
use proto::smb2::close::{CloseFlags, CloseRequest};
use proto::smb2::create::CreateRequest;
use proto::smb2::header::Command;
use proto::smb2::ioctl::{FsctlCode, IoctlFlags, IoctlRequest};
use proto::smb2::read::ReadRequest;

use crate::attack::Attack;
use crate::wire::Wire;

/// All families.
pub(crate) const FAMILIES: &[&[Attack]] = &[
    reads::ATTACKS,
    strangers::ATTACKS,
    slow::ATTACKS,
    frames::ATTACKS,
    holders::ATTACKS,
    oplocks::ATTACKS,
    locks::ATTACKS,
    names::ATTACKS,
    notify::ATTACKS,
    information::ATTACKS,
    data::ATTACKS,
    rpc::ATTACKS,
];

/// Bytes covered by one credit.
const CREDIT: u32 = 65_536;
const MIB: u32 = 1 << 20;

/// Returns the number of credits that `bytes` bytes cost.
fn charge(bytes: u32) -> u16 {
    u16::try_from(bytes.saturating_sub(1) / CREDIT + 1).unwrap_or(u16::MAX)
}

/// Builds a READ of an open.
fn read(file_id: FileId, offset: u64, length: u32) -> ReadRequest<'static> {
    ReadRequest { file_id, offset, length, ..ReadRequest::default() }
}

/// Builds a CLOSE.
fn close(file_id: FileId) -> CloseRequest {
    CloseRequest { flags: CloseFlags::NONE, file_id }
}

/// Builds an IOCTL with a control code and its input.
fn fsctl(ctl_code: FsctlCode, file_id: FileId, input: &[u8], most: u32) -> IoctlRequest<'_> {
    let flags = IoctlFlags::IS_FSCTL;
    IoctlRequest { ctl_code, file_id, input, max_output_response: most, flags, ..IoctlRequest::default() }
}

/// Queues a CREATE on a raw connection.
fn queue_create(wire: &mut Wire, request: &CreateRequest<'_>) -> u64 {
    wire.queue(Command::CREATE, 1, |out| request.encode(out))
}

/// Opens the file of `open` `count` times, with many requests in progress at once, and returns the handles. A refusal
/// ends it.
async fn open_many(client: &mut Client, open: &Open<'_>, count: usize) -> client::Result<Vec<FileId>> {
    let name = utf16_bytes(open.name);
    let request = open.request(&name);
    let mut handles = Vec::new();
    let mut refused = None;
    while handles.len() < count && refused.is_none() {
        let batch = 64.min(count - handles.len());
        for _ in 0..batch {
            if client.affords(1) {
                client.queue(Command::CREATE, 1, 0, |out| request.encode(out))?;
            }
        }
        client.flush().await?;
        while client.in_flight() > 0 {
            let response = client.next().await?;
            match response.succeeded() {
                Ok(()) => handles.push(proto::smb2::create::CreateResponse::decode(response.message)?.file_id),
                Err(error) => refused = Some(error),
            }
        }
    }
    match refused {
        Some(error) if handles.is_empty() => Err(error),
        _ => Ok(handles),
    }
}
