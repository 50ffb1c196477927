//! Object ids of files ([MS-FSA] 2.1.5.10.1, 2.1.5.10.13).

use proto::dtyp::Guid;
use proto::fscc::FileObjectIdBuffer;
use proto::status::Status;

use super::{Control, Output};
use crate::error::Result;
use crate::information::filesystem;

/// 2.1.5.10.1, 2.1.5.10.13: each file has an id from birth on, made of what the file system tells it apart by.
pub(super) async fn get(control: &Control<'_>) -> Result<Output> {
    let (file, disk) = (control.file()?, control.disk()?);
    control.need_room(FileObjectIdBuffer::SIZE, Status::INVALID_PARAMETER)?;
    let space = disk.vfs.space(&file.identity).await?;
    let mut id = [0; 16];
    id[..8].copy_from_slice(&file.file.inode.to_le_bytes());
    id[8..].copy_from_slice(&file.file.device.to_le_bytes());
    let buffer = FileObjectIdBuffer {
        object_id: Guid(id),
        birth_volume_id: filesystem::volume_id(control.request, &space),
        birth_object_id: Guid(id),
        domain_id: Guid::default(),
    };
    Ok(Output::new(|out| buffer.encode(out)))
}
