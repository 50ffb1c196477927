//! File compression ([MS-FSA] 2.1.5.10.9, 2.1.5.10.30). The file system's own algorithm is reported as LZNT1, the only
//! one that the protocol defines.

use crate::vfs::SetMetadata;
use proto::bytes::Reader;
use proto::dtyp::AccessMask;
use proto::fscc::{CompressionFormat, CompressionState};
use proto::smb2::change_notify::CompletionFilter;
use proto::status::Status;

use super::{Control, Output};
use crate::error::{Error, Result};
use crate::files::notify::Change;

/// Returns the compression state (2.1.5.10.9).
pub(super) async fn get(control: &Control<'_>) -> Result<Output> {
    let file = control.file()?;
    control.need_room(CompressionState::SIZE, Status::INVALID_USER_BUFFER)?;
    let compressed = file.node.metadata(&file.op).await?.compressed;
    let compression_state = if compressed { CompressionFormat::LZNT1 } else { CompressionFormat::NONE };
    Ok(Output::new(|out| CompressionState { compression_state }.encode(out)))
}

/// Sets the compression state (2.1.5.10.30). COMPRESSION_FORMAT_NONE succeeds on file systems without compression, too.
pub(super) async fn set(control: &Control<'_>) -> Result<Output> {
    let (file, disk) = (control.file()?, control.disk()?);
    control.need_any(AccessMask::FILE_WRITE_DATA)?;
    let asked = CompressionState::decode(&mut Reader::new(control.asked.input))?;
    let compressed = match asked.compression_state {
        CompressionFormat::NONE => false,
        CompressionFormat::DEFAULT | CompressionFormat::LZNT1 => true,
        other => return Err(Error::because(Status::INVALID_PARAMETER, format!("unsupported compression {other:?}"))),
    };
    if disk.vfs.capabilities().features.compresses {
        let set = SetMetadata { compressed: Some(compressed), ..SetMetadata::default() };
        file.node.set_metadata(&file.op, set).await?;
        let change = Change::modified(CompletionFilter::ATTRIBUTES);
        control.request.connection.server.file_changed(disk, file, change);
    } else if compressed {
        return Err(Error::because(Status::NOT_SUPPORTED, "the file system does not compress"));
    }
    Ok(Output::new(|_| ()))
}

#[cfg(test)]
mod tests {
    use proto::fscc::{FileAttributes, FileSystemAttributes};
    use proto::smb2::FileId;
    use proto::smb2::ioctl::FsctlCode;

    use crate::command::ioctl::testing::{EVERYTHING, Fixture};
    use crate::vfs::Features;

    use super::*;

    fn set(fixture: &mut Fixture, file: FileId, format: u16) -> Status {
        fixture.control(file, FsctlCode::SET_COMPRESSION, &format.to_le_bytes(), 0).0
    }

    #[track_caller]
    fn check(fixture: &mut Fixture, file: FileId, compressed: bool) {
        let format = if compressed { [2, 0] } else { [0, 0] };
        assert_eq!(fixture.control(file, FsctlCode::GET_COMPRESSION, &[], 2), (Status::SUCCESS, format.to_vec()));
        assert_eq!(fixture.attributes(file).contains(FileAttributes::COMPRESSED), compressed);
    }

    #[test]
    fn files_are_compressed_where_the_file_system_can() {
        let mut fixture = Fixture::with(EVERYTHING, |_| ());
        let file = fixture.file("file", b"x");
        assert!(fixture.capabilities(file).contains(FileSystemAttributes::FILE_COMPRESSION));
        check(&mut fixture, file, false);
        for (format, compressed) in [(1, true), (0, false), (2, true)] {
            assert_eq!(set(&mut fixture, file, format), Status::SUCCESS);
            check(&mut fixture, file, compressed);
        }
        assert_eq!(set(&mut fixture, file, 0x42), Status::INVALID_PARAMETER);
        assert_eq!(fixture.control(file, FsctlCode::SET_COMPRESSION, &[0], 0).0, Status::INVALID_PARAMETER);
        assert_eq!(fixture.control(file, FsctlCode::GET_COMPRESSION, &[], 1).0, Status::INVALID_USER_BUFFER);
        check(&mut fixture, file, true);
    }

    #[test]
    fn new_files_inherit_compression_unless_the_create_declines_it() {
        let mut fixture = Fixture::with(EVERYTHING, |_| ());
        let directory = fixture.directory("directory");
        assert_eq!(set(&mut fixture, directory, 2), Status::SUCCESS);
        check(&mut fixture, directory, true);
        let (plain, never) = (fixture.file(r"directory\plain", b""), fixture.uncompressed(r"directory\never"));
        check(&mut fixture, plain, true);
        check(&mut fixture, never, false);
    }

    #[test]
    fn a_file_system_without_compression_reports_it() {
        let mut fixture = Fixture::with(Features::default(), |_| ());
        let file = fixture.file("file", b"x");
        assert!(!fixture.capabilities(file).contains(FileSystemAttributes::FILE_COMPRESSION));
        check(&mut fixture, file, false);
        assert_eq!(set(&mut fixture, file, 1), Status::NOT_SUPPORTED);
        assert_eq!(set(&mut fixture, file, 0), Status::SUCCESS);
        fixture.close(file);
        let reader = fixture.open("file", 0x0012_0089);
        assert_eq!(set(&mut fixture, reader, 0), Status::ACCESS_DENIED);
        check(&mut fixture, reader, false);
    }
}
