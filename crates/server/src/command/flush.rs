//! FLUSH ([MS-SMB2] 3.3.5.11): data written through this open is on disk before the response.

use proto::dtyp::AccessMask;
use proto::smb2::flush::{FlushRequest, FlushResponse};
use proto::status::Status;

use super::print;
use crate::error::{Error, Result};
use crate::request::{Reply, Request};
use crate::state::open::Target;
use crate::vfs::Kind;

/// Rights of which a handle needs one for FLUSH ([MS-FSA] 2.1.5.7); for directories, those to create entries.
const WRITING: AccessMask = AccessMask(AccessMask::FILE_WRITE_DATA.0 | AccessMask::FILE_APPEND_DATA.0);

/// `Reserved1` of a FLUSH by which macOS requests F_FULLFSYNC.
const FULL_SYNC: u16 = 0xffff;

pub(crate) async fn flush(request: &Request<'_>, reply: &mut Reply) -> Result<Status> {
    let asked = FlushRequest::decode(request.message)?;
    let open = request.open(asked.file_id, reply)?;
    if let Some(file) = open.file() {
        if open.granted.0 & WRITING.0 == 0 {
            return Err(Error::because(Status::ACCESS_DENIED, "the handle was not opened for writing"));
        }
        request.connection.server.opens.files.settle_write_time(file.file);
        // A Mac that requests a full sync relies on it.
        let is_full = asked.reserved1 == FULL_SYNC && request.is_of_mac();
        let strict_sync = is_full || open.tree.disk().is_none_or(|disk| disk.share.sync.strict_sync);
        // For a directory, its entries: names created, renamed and deleted ([MS-FSA] 2.1.5.7).
        if matches!(file.kind, Kind::File | Kind::Directory) && strict_sync {
            file.node.flush(&file.op).await?;
        }
        if let Some(disk) = open.tree.disk() {
            request.connection.server.report(disk, file);
        }
    }
    if let Target::Job(job) = &open.target {
        print::flush(job).await?;
    }
    FlushResponse.encode(&mut reply.body());
    Ok(Status::SUCCESS)
}
