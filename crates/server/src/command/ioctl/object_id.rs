//! Object ids of files ([MS-FSA] 2.1.5.10.1, 2.1.5.10.2, 2.1.5.10.13, 2.1.5.10.35, 2.1.5.10.36).
//!
//! By default a file's object id is derived from its file id. An id set by a client is stored in an extended attribute.
//! There is no index of object ids, so duplicates are not detected.

use crate::vfs::{Errno, SetXattr};
use proto::bytes::Reader;
use proto::dtyp::{AccessMask, Guid};
use proto::fscc::{FileObjectIdBuffer, ObjectIdExtended};
use proto::status::Status;

use super::{Control, Output};
use crate::error::{Error, Result};
use crate::information::filesystem;

/// The extended attribute, which contains a FILE_OBJECTID_BUFFER.
const ATTRIBUTE: &str = "user.FrevoObjectId";

/// FSCTL_GET_OBJECT_ID and FSCTL_CREATE_OR_GET_OBJECT_ID (2.1.5.10.13, 2.1.5.10.1).
pub(super) async fn get(control: &Control<'_>) -> Result<Output> {
    control.file()?;
    control.need_room(FileObjectIdBuffer::SIZE, Status::INVALID_PARAMETER)?;
    let buffer = match stored(control).await {
        Some(buffer) => buffer,
        None => inborn(control).await?,
    };
    Ok(Output::new(|out| buffer.encode(out)))
}

/// Returns the stored id, if there is a readable one.
async fn stored(control: &Control<'_>) -> Option<FileObjectIdBuffer> {
    let file = control.open.file()?;
    let value = file.node.get_xattr(&file.op, ATTRIBUTE).await.ok()??;
    FileObjectIdBuffer::decode(&mut Reader::new(&value)).ok()
}

async fn inborn(control: &Control<'_>) -> Result<FileObjectIdBuffer> {
    let file = control.file()?;
    let space = file.node.space(&file.op).await?;
    let mut id = [0; 16];
    id[..8].copy_from_slice(&file.node.metadata(&file.op).await?.file_id().to_le_bytes());
    id[8..].copy_from_slice(&file.file.device.to_le_bytes());
    Ok(FileObjectIdBuffer {
        object_id: Guid(id),
        birth_volume_id: filesystem::volume_id(control.request, &space),
        birth_object_id: Guid(id),
        domain_id: Guid::default(),
    })
}

async fn store(control: &Control<'_>, buffer: Option<FileObjectIdBuffer>) -> Result<Output> {
    let (file, disk) = (control.file()?, control.disk()?);
    if disk.read_only {
        return Err(Error::because(Status::MEDIA_WRITE_PROTECTED, "the share is read-only (`read only = yes`)"));
    }
    let value = buffer.map(|buffer| {
        let mut value = Vec::with_capacity(FileObjectIdBuffer::SIZE);
        buffer.encode(&mut proto::bytes::Writer::new(&mut value));
        value
    });
    match file.node.set_xattr(&file.op, ATTRIBUTE, value, SetXattr::Any).await {
        Ok(()) | Err(Errno::NODATA) => Ok(Output::new(|_| ())),
        Err(error) => Err(error.into()),
    }
}

/// FSCTL_SET_OBJECT_ID (2.1.5.10.35). It requires the restore privilege, which only root (an administrator of the
/// share) has.
pub(super) async fn set(control: &Control<'_>) -> Result<Output> {
    let file = control.file()?;
    if control.asked.input.len() != FileObjectIdBuffer::SIZE {
        return Err(Error::because(Status::INVALID_PARAMETER, "the input is not a FILE_OBJECTID_BUFFER"));
    }
    let buffer = FileObjectIdBuffer::decode(&mut Reader::new(control.asked.input))?;
    if file.op.uid != 0 {
        return Err(Error::because(Status::ACCESS_DENIED, "only root may set object ids"));
    }
    if stored(control).await.is_some() {
        return Err(Error::because(Status::OBJECT_NAME_COLLISION, "the file already has an object id"));
    }
    store(control, Some(buffer)).await
}

/// FSCTL_SET_OBJECT_ID_EXTENDED (2.1.5.10.36): sets everything but the id itself.
pub(super) async fn set_extended(control: &Control<'_>) -> Result<Output> {
    control.file()?;
    if control.asked.input.len() != ObjectIdExtended::SIZE {
        return Err(Error::because(Status::INVALID_PARAMETER, "the input is not 48 bytes of extended information"));
    }
    let extended = ObjectIdExtended::decode(&mut Reader::new(control.asked.input))?;
    control.need_any(AccessMask::FILE_WRITE_DATA | AccessMask::FILE_WRITE_ATTRIBUTES)?;
    let present = match stored(control).await {
        Some(buffer) => buffer,
        None => inborn(control).await?,
    };
    let buffer = FileObjectIdBuffer {
        object_id: present.object_id,
        birth_volume_id: extended.birth_volume_id,
        birth_object_id: extended.birth_object_id,
        domain_id: extended.domain_id,
    };
    store(control, Some(buffer)).await
}

/// FSCTL_DELETE_OBJECT_ID (2.1.5.10.2): restores the default id.
pub(super) async fn delete(control: &Control<'_>) -> Result<Output> {
    control.file()?;
    control.need_any(AccessMask::FILE_WRITE_DATA | AccessMask::FILE_WRITE_ATTRIBUTES)?;
    store(control, None).await
}

#[cfg(test)]
mod tests {
    use proto::smb2::FileId;
    use proto::smb2::ioctl::FsctlCode;

    use super::*;
    use crate::command::ioctl::testing::{EVERYTHING, Fixture};
    use crate::policy::UserPattern;

    fn get(fixture: &mut Fixture, file: FileId) -> [Guid; 4] {
        let (status, output) = fixture.control(file, FsctlCode::CREATE_OR_GET_OBJECT_ID, &[], 64);
        assert_eq!(status, Status::SUCCESS);
        let buffer = FileObjectIdBuffer::decode(&mut Reader::new(&output)).expect("64 bytes");
        [buffer.object_id, buffer.birth_volume_id, buffer.birth_object_id, buffer.domain_id]
    }

    fn change(fixture: &mut Fixture, file: FileId, code: FsctlCode, input: &[u8]) -> Status {
        fixture.control(file, code, input, 0).0
    }

    #[test]
    fn each_file_has_its_own_object_id() {
        let mut fixture = Fixture::new();
        let (one, other, directory) =
            (fixture.file("one", b""), fixture.file("other", b""), fixture.directory("directory"));
        let ids = [one, other, directory].map(|file| get(&mut fixture, file));
        assert!(ids[0][0] != ids[1][0] && ids[1][0] != ids[2][0] && ids[0][0] != ids[2][0]);
        assert_eq!(get(&mut fixture, one), ids[0], "it remains");
        assert_eq!(fixture.control(one, FsctlCode::GET_OBJECT_ID, &[], 63).0, Status::INVALID_PARAMETER);
    }

    #[test]
    fn root_sets_an_object_id() {
        let mut fixture =
            Fixture::with(EVERYTHING, |share| share.access.admin_users = vec![UserPattern::User("alice".into())]);
        let file = fixture.file("file", b"");
        let inborn = get(&mut fixture, file);
        let [object, volume, birth, domain] = [1, 2, 3, 4].map(|byte| Guid([byte; 16]));
        let input = [object, volume, birth, domain].map(|id| id.0).concat();
        assert_eq!(change(&mut fixture, file, FsctlCode::SET_OBJECT_ID, &input[..63]), Status::INVALID_PARAMETER);
        assert_eq!(change(&mut fixture, file, FsctlCode::SET_OBJECT_ID, &input), Status::SUCCESS);
        assert_eq!(get(&mut fixture, file), [object, volume, birth, domain]);
        assert_eq!(change(&mut fixture, file, FsctlCode::SET_OBJECT_ID, &input), Status::OBJECT_NAME_COLLISION);
        for _ in 0..2 {
            assert_eq!(change(&mut fixture, file, FsctlCode::DELETE_OBJECT_ID, &[]), Status::SUCCESS);
            assert_eq!(get(&mut fixture, file), inborn);
        }
    }

    #[test]
    fn other_users_set_the_extended_part_only() {
        let mut fixture = Fixture::new();
        let file = fixture.file("file", b"");
        assert_eq!(change(&mut fixture, file, FsctlCode::SET_OBJECT_ID, &[1; 64]), Status::ACCESS_DENIED);
        let id = get(&mut fixture, file)[0];
        assert_eq!(change(&mut fixture, file, FsctlCode::SET_OBJECT_ID_EXTENDED, &[5; 47]), Status::INVALID_PARAMETER);
        assert_eq!(change(&mut fixture, file, FsctlCode::SET_OBJECT_ID_EXTENDED, &[5; 48]), Status::SUCCESS);
        assert_eq!(get(&mut fixture, file), [id, Guid([5; 16]), Guid([5; 16]), Guid([5; 16])]);
        fixture.close(file);
        let reader = fixture.open("file", 0x0012_0089);
        assert_eq!(change(&mut fixture, reader, FsctlCode::SET_OBJECT_ID_EXTENDED, &[6; 48]), Status::ACCESS_DENIED);
        assert_eq!(change(&mut fixture, reader, FsctlCode::DELETE_OBJECT_ID, &[]), Status::ACCESS_DENIED);
    }
}
