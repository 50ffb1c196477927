//! IOCTL ([MS-SMB2] 3.3.5.15): dispatches control codes and refuses unsupported ones.
//!
//! Controls of the connection or a pipe are in this module. Controls of files take a [`Control`] and are in the
//! submodules; each returns an [`Output`].

mod compression;
mod copy;
mod copyfile;
mod dfs;
mod extents;
mod integrity;
mod network_interfaces;
mod object_id;
mod odx;
mod pipe;
mod reparse;
mod resiliency;
mod snapshots;
mod sparse;
#[cfg(test)]
mod testing;

use std::sync::Arc;

use proto::dtyp::AccessMask;
use proto::smb2::create::CreateOptions;
use proto::smb2::ioctl::{
    FsctlCode, IoctlFlags, IoctlRequest, IoctlResponse, ValidateNegotiateInfoRequest, ValidateNegotiateInfoResponse,
};
use proto::smb2::negotiate::Dialect;
use proto::status::Status;

use crate::error::{Disconnect, Error, Result};
use crate::request::{Reply, Request};
use crate::state::open::{FileOpen, Open};
use crate::tree::Disk;
use crate::vfs::Kind;

pub(crate) async fn ioctl(request: &Request<'_>, reply: &mut Reply) -> Result<Status> {
    let asked = IoctlRequest::decode(request.message)?;
    if asked.flags != IoctlFlags::IS_FSCTL {
        return Err(Error::because(Status::NOT_SUPPORTED, "the IOCTL is not an FSCTL"));
    }
    let max_transact = request.connection.negotiated().map_or(65536, |negotiated| negotiated.max_transact) as usize;
    let longest = asked.max_input_response.max(asked.max_output_response) as usize;
    if longest > max_transact || asked.input.len() > max_transact {
        return Err(Error::because(Status::INVALID_PARAMETER, "the length exceeds MaxTransactSize"));
    }
    request.check_charge(longest.max(asked.input.len()))?;
    match asked.ctl_code {
        FsctlCode::VALIDATE_NEGOTIATE_INFO => validate_negotiate_info(request, &asked, reply),
        FsctlCode::PIPE_TRANSCEIVE => pipe::transceive(request, &asked, reply).await,
        FsctlCode::PIPE_PEEK => pipe::peek(request, &asked, reply),
        FsctlCode::PIPE_WAIT => pipe::wait(request, &asked, reply),
        FsctlCode::DFS_GET_REFERRALS | FsctlCode::DFS_GET_REFERRALS_EX => dfs::referrals(request, &asked, reply).await,
        FsctlCode::QUERY_NETWORK_INTERFACE_INFO => network_interfaces::query(request, &asked, reply),
        _ => {
            let open = request.open(asked.file_id, reply)?;
            let output = control(&Control { request, asked: &asked, open }, reply).await?;
            respond(&asked, &output.bytes, reply);
            reply.moved = output.copied;
            Ok(output.status)
        }
    }
}

/// Controls that change the file, refused on a read-only share and in a snapshot.
const CHANGES: [FsctlCode; 14] = [
    FsctlCode::SRV_COPYCHUNK,
    FsctlCode::SRV_COPYCHUNK_WRITE,
    FsctlCode::DUPLICATE_EXTENTS_TO_FILE,
    FsctlCode::DUPLICATE_EXTENTS_TO_FILE_EX,
    FsctlCode::SET_COMPRESSION,
    FsctlCode::SET_SPARSE,
    FsctlCode::SET_ZERO_DATA,
    FsctlCode::FILE_LEVEL_TRIM,
    FsctlCode::SET_REPARSE_POINT,
    FsctlCode::DELETE_REPARSE_POINT,
    FsctlCode::SET_OBJECT_ID,
    FsctlCode::SET_OBJECT_ID_EXTENDED,
    FsctlCode::DELETE_OBJECT_ID,
    FsctlCode::OFFLOAD_WRITE,
];

/// Controls permitted on a symbolic link that was opened itself, which has neither content nor attributes.
const OF_LINKS: [FsctlCode; 5] = [
    FsctlCode::GET_REPARSE_POINT,
    FsctlCode::SET_REPARSE_POINT,
    FsctlCode::DELETE_REPARSE_POINT,
    FsctlCode::SRV_ENUMERATE_SNAPSHOTS,
    FsctlCode::IS_PATHNAME_VALID,
];

/// Dispatches the controls of an open file.
async fn control(control: &Control<'_>, reply: &mut Reply) -> Result<Output> {
    if let Some(disk) = control.open.tree.disk().filter(|disk| disk.read_only)
        && CHANGES.contains(&control.asked.ctl_code)
    {
        return Err(disk.refusal());
    }
    if control.open.file().is_some_and(|file| file.kind == Kind::Symlink) && !OF_LINKS.contains(&control.asked.ctl_code)
    {
        return Err(Error::because(Status::INVALID_DEVICE_REQUEST, "the FSCTL does not apply to a symbolic link"));
    }
    match control.asked.ctl_code {
        FsctlCode::CREATE_OR_GET_OBJECT_ID | FsctlCode::GET_OBJECT_ID => object_id::get(control).await,
        FsctlCode::GET_REPARSE_POINT => reparse::get(control).await,
        FsctlCode::SET_REPARSE_POINT => reparse::set(control, reply).await,
        FsctlCode::DELETE_REPARSE_POINT => reparse::delete(control, reply).await,
        FsctlCode::SRV_ENUMERATE_SNAPSHOTS => snapshots::list(control).await,
        FsctlCode::SET_OBJECT_ID => object_id::set(control).await,
        FsctlCode::SET_OBJECT_ID_EXTENDED => object_id::set_extended(control).await,
        FsctlCode::DELETE_OBJECT_ID => object_id::delete(control).await,
        FsctlCode::LMR_REQUEST_RESILIENCY => resiliency::request(control),
        FsctlCode::SRV_REQUEST_RESUME_KEY => copy::resume_key(control),
        FsctlCode::SRV_COPYCHUNK | FsctlCode::SRV_COPYCHUNK_WRITE => copy::copy_chunks(control, reply).await,
        FsctlCode::DUPLICATE_EXTENTS_TO_FILE => extents::duplicate(control).await,
        FsctlCode::DUPLICATE_EXTENTS_TO_FILE_EX => extents::duplicate_ex(control).await,
        FsctlCode::GET_COMPRESSION => compression::get(control).await,
        FsctlCode::SET_COMPRESSION => compression::set(control).await,
        FsctlCode::GET_INTEGRITY_INFORMATION => integrity::get(control).await,
        FsctlCode::SET_INTEGRITY_INFORMATION => integrity::set(control).await,
        FsctlCode::SET_INTEGRITY_INFORMATION_EX => integrity::set_ex(control).await,
        FsctlCode::OFFLOAD_READ => odx::read(control).await,
        FsctlCode::OFFLOAD_WRITE => odx::write(control).await,
        // [MS-FSA] 2.1.5.10.18: any name is valid.
        FsctlCode::IS_PATHNAME_VALID => control.file().map(|_| Output::new(|_| ())),
        FsctlCode::SET_SPARSE => sparse::set_sparse(control).await,
        FsctlCode::SET_ZERO_DATA => sparse::zero(control).await,
        FsctlCode::QUERY_ALLOCATED_RANGES => sparse::allocated_ranges(control).await,
        FsctlCode::FILE_LEVEL_TRIM => sparse::trim(control).await,
        code if BLOCKED.contains(&code.0) => Err(Error::because(Status::NOT_SUPPORTED, format!("{code:?}"))),
        code => Err(Error::because(Status::INVALID_DEVICE_REQUEST, format!("{code:?}"))),
    }
}

/// Controls that servers do not pass to a file system (3.3.5.15.8, note 397): local oplocks, pipe events, journals,
/// transactions, cluster volumes.
const BLOCKED: [u32; 45] = [
    0x0009_0000,
    0x0009_0004,
    0x0009_0008,
    0x0009_000c,
    0x0009_0010,
    0x0009_0014,
    0x0009_003b,
    0x0009_0054,
    0x0009_005c,
    0x0009_0068,
    0x0009_006f,
    0x0009_0074,
    0x0009_00b3,
    0x0009_00bb,
    0x0009_00e7,
    0x0009_00f4,
    0x0009_00f8,
    0x0009_01f0,
    0x0009_01f4,
    0x0009_01f8,
    0x0009_0200,
    0x0009_0230,
    0x0009_0234,
    0x0009_0238,
    0x0009_023c,
    0x0009_0240,
    0x0009_0248,
    0x0009_025c,
    0x0009_0284,
    0x0009_4148,
    0x0009_4160,
    0x0009_416c,
    0x0009_4170,
    0x0009_418c,
    0x0009_41e4,
    0x0009_8144,
    0x0009_8150,
    0x0009_8154,
    0x0009_8158,
    0x0009_815c,
    0x0009_8164,
    0x0009_8168,
    0x0009_8178,
    0x0009_817c,
    0x0011_0000,
];

/// A control request for an open file.
struct Control<'a> {
    request: &'a Request<'a>,
    asked: &'a IoctlRequest<'a>,
    open: Arc<Open>,
}

impl Control<'_> {
    /// Returns the open file.
    fn file(&self) -> Result<&FileOpen> {
        self.open.file().ok_or(Error::because(Status::INVALID_DEVICE_REQUEST, "the FSCTL does not apply to a pipe"))
    }

    /// Returns the share of the open.
    fn disk(&self) -> Result<&Disk> {
        self.open.tree.disk().ok_or(Error::new(Status::INVALID_DEVICE_REQUEST))
    }

    /// Returns `MaxOutputResponse` in bytes.
    fn space(&self) -> usize {
        self.asked.max_output_response as usize
    }

    /// Refuses an open that has none of `rights`, and changes of a file that a special file has replaced.
    fn need_any(&self, rights: AccessMask) -> Result<()> {
        const CHANGES: AccessMask = AccessMask(
            AccessMask::FILE_WRITE_DATA.0 | AccessMask::FILE_APPEND_DATA.0 | AccessMask::FILE_WRITE_ATTRIBUTES.0,
        );
        if !self.open.granted.intersects(rights) {
            return Err(Error::new(Status::ACCESS_DENIED));
        }
        if rights.intersects(CHANGES) { self.open.file().map_or(Ok(()), FileOpen::not_replaced) } else { Ok(()) }
    }

    /// Refuses the request if another open has locked part of the range to be written.
    fn check_write_lock(&self, offset: u64, length: u64) -> Result<()> {
        if self.open.may_write(&self.request.connection.server, offset, length) {
            Ok(())
        } else {
            Err(Error::new(Status::FILE_LOCK_CONFLICT))
        }
    }

    /// Refuses the request with `otherwise` if the response of `size` bytes exceeds the client's limit.
    fn need_room(&self, size: usize, otherwise: Status) -> Result<()> {
        if self.space() < size {
            Err(Error::because(otherwise, "the output buffer is too small for the response"))
        } else {
            Ok(())
        }
    }
}

/// Executes a change of the file's content with its side effects: breaks leases, updates the write time as a WRITE
/// does, notifies watches, and flushes if required.
async fn change<T, F>(control: &Control<'_>, change: impl FnOnce() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let (file, disk, server) = (control.file()?, control.disk()?, &control.request.connection.server);
    // The handle may have been reclaimed by another session while the request waited.
    let (session, open) = (control.request.session()?, &control.open);
    if session.open(open.persistent_id, open.volatile_id).is_none() {
        return Err(Error::new(Status::FILE_CLOSED));
    }
    let _change = file.begin_change(server)?;
    let held = file.hold_times().await?;
    let delay = disk.share.sync.write_time_delay;
    if !delay.is_zero() && held.is_none() {
        let modified = file.node.metadata(&file.op).await?.modified;
        server.opens.files.defer_write_time(file.file, modified, server.environment.uptime(), delay);
    }
    let done = change().await;
    let through = disk.share.sync.sync_always || file.options().contains(CreateOptions::WRITE_THROUGH);
    if through && done.is_ok() {
        file.node.flush(&file.op).await?;
    }
    file.restore_times(held).await?;
    // A failed change may have been partly executed.
    server.written(disk, file);
    done
}

/// The result of a control. An error status may have output data as well (3.3.4.4).
struct Output {
    status: Status,
    bytes: Vec<u8>,
    /// The bytes that were copied.
    copied: u64,
}

impl Output {
    /// Creates a successful result with the output that `encode` writes.
    fn new(encode: impl FnOnce(&mut proto::bytes::Writer<'_>)) -> Output {
        Output::with(Status::SUCCESS, encode)
    }

    /// Creates a result with `status` and the output that `encode` writes.
    fn with(status: Status, encode: impl FnOnce(&mut proto::bytes::Writer<'_>)) -> Output {
        let mut bytes = Vec::new();
        encode(&mut proto::bytes::Writer::new(&mut bytes));
        Output { status, bytes, copied: 0 }
    }

    /// Adds the number of bytes that were copied.
    fn copied(self, copied: u64) -> Output {
        Output { copied, ..self }
    }
}

/// FSCTL_VALIDATE_NEGOTIATE_INFO (3.3.5.15.12): lets a client of 3.0 or 3.0.2 detect that the negotiation was tampered
/// with. Any difference ends the connection. So does the request on 3.1.1, which protects the negotiation otherwise.
fn validate_negotiate_info(request: &Request<'_>, asked: &IoctlRequest<'_>, reply: &mut Reply) -> Result<Status> {
    let end = |why| {
        request.connection.end(Disconnect(why));
        Err(Error::new(Status::ACCESS_DENIED))
    };
    let Some(negotiated) = request.connection.negotiated() else {
        return end("VALIDATE_NEGOTIATE_INFO before NEGOTIATE");
    };
    if negotiated.dialect == Dialect::SMB_3_1_1 {
        return end("VALIDATE_NEGOTIATE_INFO on 3.1.1");
    }
    let Ok(info) = ValidateNegotiateInfoRequest::decode(asked.input) else {
        return end("VALIDATE_NEGOTIATE_INFO cannot be decoded");
    };
    if (asked.max_output_response as usize) < ValidateNegotiateInfoResponse::SIZE {
        return end("VALIDATE_NEGOTIATE_INFO with an output buffer too small for the response");
    }
    let same = info.guid == negotiated.client_guid.0
        && info.security_mode == negotiated.client_security_mode
        && info.capabilities == negotiated.client_capabilities
        && info.dialects == negotiated.client_dialects;
    if !same {
        return end("the negotiation was changed in transit");
    }
    let mut output = Vec::new();
    ValidateNegotiateInfoResponse {
        capabilities: negotiated.server_capabilities,
        guid: request.connection.server.guid.0,
        security_mode: negotiated.server_security_mode,
        dialect: negotiated.dialect,
    }
    .encode(&mut proto::bytes::Writer::new(&mut output));
    respond(asked, &output, reply);
    Ok(Status::SUCCESS)
}

fn respond(asked: &IoctlRequest<'_>, output: &[u8], reply: &mut Reply) {
    // A related request uses the file of the preceding one.
    let file_id = reply.file_id.unwrap_or(asked.file_id);
    IoctlResponse { ctl_code: asked.ctl_code, file_id, input: &[], output }.encode(&mut reply.body());
}
