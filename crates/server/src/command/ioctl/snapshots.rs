//! FSCTL_SRV_ENUMERATE_SNAPSHOTS ([MS-SMB2] 3.3.5.15.1).

use proto::smb2::ioctl::SnapshotArray;
use proto::status::Status;

use super::{Control, Output};
use crate::command::snapshots;
use crate::error::Result;

/// The smallest output buffer that clients may specify ([MS-SMB2] 3.3.5.15.1), in bytes.
const LEAST: usize = 16;

/// Lists all snapshots of the share. The client must determine whether the file exists in each of them, as with
/// Windows.
pub(super) async fn list(control: &Control<'_>) -> Result<Output> {
    control.need_room(LEAST, Status::INVALID_PARAMETER)?;
    let (file, disk) = (control.file()?, control.disk()?);
    let limit = control.request.connection.server.policy().limits.snapshots;
    let path = disk.shown(&file.name.path.lock());
    // A file in a snapshot has the versions of the file in the share.
    let share = control.request.tree()?.disk().unwrap_or(disk);
    let tokens = snapshots::list(control.request, share, &path, limit).await?;
    let array = SnapshotArray::new(tokens, control.asked.max_output_response);
    Ok(Output::new(|out| array.encode(out)))
}
